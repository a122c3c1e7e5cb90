/* SPDX-License-Identifier: MIT */
/*
 * What was measured on this chip: times of kernels for problems (tuning), and the chip's own
 * (calibration). Both are kept beside the folder of compiled kernels, for the chip by its name, the
 * driver and the text of the kernels: a file of another, or a damaged one, is not believed.
 */
#ifndef RLX_BACKENDS_GPU_TUNE_H
#define RLX_BACKENDS_GPU_TUNE_H

#include "backends/gpu/gpu.h"

/* What @problem is done with fastest, into @what; false: nobody has measured. */
bool gpu_tune_find(struct gpu_device *d, const char *problem, char *what, size_t size);
/* Keep that. False: out of memory. */
bool gpu_tune_put(struct gpu_device *d, const char *problem, const char *what, double ns);
/* Bring what is new to the file, with what others have put there since. */
void gpu_tune_save(struct gpu_device *d);
void gpu_tune_free(struct gpu_device *d);

/*
 * Measure which of @n candidates is the fastest for the staged arguments, of those predicted to
 * take at most half as long again as @least; ns into @out_ns. @least itself, and 0, if that
 * cannot be told: memory, a kernel that does not compile, time that is up.
 */
unsigned int gpu_tune_measure(struct gpu_lower *gl, const void *args,
			      const struct rlx_g_candidate *c, unsigned int n, unsigned int least,
			      double *out_ns);

#endif
