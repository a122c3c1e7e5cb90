/* SPDX-License-Identifier: MIT */
/* Which launches of a program may run side by side; see streams.c. */
#ifndef RLX_BACKENDS_GPU_STREAMS_H
#define RLX_BACKENDS_GPU_STREAMS_H

#include "backends/gpu/gpu.h"

/* What a call takes, in us, with how much of the device; and when it would run. */
struct gpu_time {
	double		us, share, from, end;
};

/* @space: per value, what it is part of; 0: nothing writes there */
struct gpu_streams {
	struct gpu_code	*c;
	uint32_t	*space;
	struct gpu_time	*time;
	struct rlx_order order;
};

/* Give each call its stream, and what it waits for; false: out of memory. */
bool gpu_streams_find(struct gpu_streams *n, struct gpu_code *c);
void gpu_streams_free(struct gpu_streams *n);
/* One after the other, after all. */
void gpu_streams_drop(struct gpu_code *c);

#endif
