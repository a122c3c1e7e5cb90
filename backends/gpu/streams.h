/* SPDX-License-Identifier: MIT */
/* Which launches of a program may run side by side; see streams.c. */
#ifndef RLX_BACKENDS_GPU_STREAMS_H
#define RLX_BACKENDS_GPU_STREAMS_H

#include "backends/gpu/gpu.h"

/* Bytes [from, to) of a space that a call reads or writes. */
struct gpu_span {
	uint32_t	space;
	bool		write;
	uint64_t	from, to;
};

/* What a call takes, in us, with how much of the device; and when it would run. */
struct gpu_time {
	double		us, share, from, end;
};

/*
 * @placed: values that share bytes are told apart by order; else each is taken to have
 * memory of its own
 * @first: per call, its first span; one more ends them
 */
struct gpu_streams {
	struct gpu_code	*c;
	bool		placed;
	uint32_t	*first;
	struct gpu_span	*span;
	uint32_t	n_span, cap_span;
	struct gpu_time	*time;
	struct rlx_order order;
};

/* Give each call its stream, and what it waits for; false: out of memory. */
bool gpu_streams_find(struct gpu_streams *n, struct gpu_code *c, bool placed);
void gpu_streams_free(struct gpu_streams *n);

#endif
