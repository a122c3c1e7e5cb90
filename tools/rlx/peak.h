/* SPDX-License-Identifier: MIT */
/* What this machine can do at most: multiply-adds and memory, measured now. */
#ifndef RLX_TOOLS_PEAK_H
#define RLX_TOOLS_PEAK_H

#include <stdbool.h>

/*
 * Figures of @threads threads at once, @isa as rlx_device_list() names it: the
 * best of a few short measurements and of what stands in @out, NAN at first. It
 * stays so if memory or threads could not be had.
 */
struct peak {
	double	gflops;		/* f32 multiply-adds of independent chains, as 2 flops */
	double	gflops_bf16;	/* with bf16 tiles or dot instructions where there are some */
	double	gbytes;		/* reading from memory, far more than caches hold */
};

void peak_measure(const char *isa, unsigned int threads, struct peak *out);

#endif
