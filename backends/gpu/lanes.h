/* SPDX-License-Identifier: MIT */
/* Which launches of a program may run side by side; see lanes.c and apart.c. */
#ifndef RLX_BACKENDS_GPU_LANES_H
#define RLX_BACKENDS_GPU_LANES_H

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
 * @known: per call, how many calls of each lane (1 + the last one's number) have ended,
 * itself included, once it has
 */
struct gpu_lanes {
	struct gpu_code	*c;
	bool		placed;
	uint32_t	*first, *part;
	struct gpu_span	*span;
	uint32_t	n_span, cap_span;
	struct gpu_time	*time;
	uint32_t	(*known)[GPU_LANES];
};

/* Give each call its lane, and what it waits for; false: out of memory. */
bool gpu_lanes_find(struct gpu_lanes *n, struct gpu_code *c, bool placed);
void gpu_lanes_free(struct gpu_lanes *n);

/*
 * apart.c: into c->own a copy of the plan, whose values share bytes only where these lanes
 * have one end before the other begins; false: it would take much memory, or there is none
 */
bool gpu_lanes_place(const struct gpu_lanes *n);

#endif
