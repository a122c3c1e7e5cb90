/* SPDX-License-Identifier: MIT */
/* Launches on memory of their own, timed: for tuning and calibration. */
#ifndef RLX_BACKENDS_GPU_TUNE_RIG_H
#define RLX_BACKENDS_GPU_TUNE_RIG_H

#include "backends/gpu/gpu.h"

enum { GPU_RIG_MEMORY = 128, GPU_RIG_ARGS = 4096 };

/* @args: what launches are given, with addresses of the device in them */
struct gpu_rig {
	struct gpu_device	*d;
	void			*stream, *event[2];
	uint64_t		 mem[GPU_RIG_MEMORY];	/* to be freed */
	unsigned int		 n_mem;
	_Alignas(64) unsigned char args[GPU_RIG_ARGS];
	struct rlx_error	 err;
};

/* NULL: out of memory, or the device cannot. */
struct gpu_rig *gpu_rig_new(struct gpu_device *d);
void gpu_rig_free(struct gpu_rig *r);
/* Device memory, each byte @fill, until the rig goes; 0: there is none. */
uint64_t gpu_rig_memory(struct gpu_rig *r, uint64_t bytes, unsigned char fill);
/* A graph of @n launches of @l, after one that is waited for; NULL: it cannot be had. */
void *gpu_rig_graph(struct gpu_rig *r, const struct rlx_g_launch *l, unsigned int n);
/* ns that it takes, 0 if nobody can tell. */
double gpu_rig_time(struct gpu_rig *r, void *graph);
void gpu_rig_graph_free(struct gpu_rig *r, void *graph);

#endif
