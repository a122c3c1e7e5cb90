/* SPDX-License-Identifier: MIT */
/* Which launches of a program may run side by side; see streams.c and place_concurrent.c. */
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
 * @part: per call, the first one of the launches that it is captured with
 * @known: per call, how many calls of each stream (1 + the last one's number) have ended,
 * itself included, once it has
 */
struct gpu_streams {
	struct gpu_code	*c;
	bool		placed;
	uint32_t	*first, *part;
	struct gpu_span	*span;
	uint32_t	n_span, cap_span;
	struct gpu_time	*time;
	uint32_t	(*known)[GPU_STREAMS];
};

/* Give each call its stream, and what it waits for; false: out of memory. */
bool gpu_streams_find(struct gpu_streams *n, struct gpu_code *c, bool placed);
void gpu_streams_free(struct gpu_streams *n);

/*
 * place_concurrent.c: into c->own a copy of the plan, whose values share bytes only where
 * these streams
 * have one end before the other begins; false: it would take much memory, or there is none
 */
bool gpu_streams_place(const struct gpu_streams *n);

#endif
