/* SPDX-License-Identifier: MIT */
/*
 * The code of kernels: prebuilt (`make gpu-kernels`) for chips that the vendor lists, kept
 * in the user's cache, or compiled now.
 */
#ifndef RLX_BACKENDS_GPU_IMAGE_H
#define RLX_BACKENDS_GPU_IMAGE_H

#include "backends/gpu/gpu.h"

enum { GPU_MOST_OPTIONS = 24, GPU_MOST_KEY = 1024 };

/* A compilation: what decides its result, but for the compiler itself. */
struct gpu_job {
	const char	*label, *source;
	char		 text[GPU_MOST_OPTIONS][64];
	const char	*option[GPU_MOST_OPTIONS];
	int		 n;
	char		 key[GPU_MOST_KEY];
};

/* @k for the device itself. */
void gpu_job_init(struct gpu_job *j, const struct gpu_device *d, const struct gpu_kernel *k);

/*
 * Code that was built with the library for chips like this, or RLX_ENOENT. It needs no
 * compiler; not even whether there is one is asked. Ownership: rlx_free(*@out).
 */
enum rlx_status gpu_image_prebuilt(struct gpu_device *d, const struct gpu_kernel *k,
				   void **out);

/* Kept from when it was compiled before, or RLX_ENOENT. */
enum rlx_status gpu_image_cached(struct gpu_device *d, const struct gpu_job *j, void **out);
/*
 * Where there is no compiler, text for the driver to compile; RLX_ENOENT, without a message: it is
 * to be compiled.
 */
enum rlx_status gpu_image_text(struct gpu_device *d, const struct gpu_kernel *k,
			       const struct gpu_job *j, void **out, struct rlx_error *err);
/* Compiled now, and then kept in the cache in the place of what was there. Any thread. */
enum rlx_status gpu_image_compile(struct gpu_device *d, const struct gpu_job *j, void **out,
				  struct rlx_error *err);

/* The text for drivers that is made on the way to @chip's code; NULL: none of the vendor's is. */
const struct gpu_chip *gpu_chip_text(const struct rlx_gpu_vendor *v, const struct gpu_chip *chip);
/*
 * What to prebuild for: @chip, and with it, of the same compilation, @text's; NULL: not that.
 * @quick: not as it is to run, but to learn whether it compiles, in half the time; such a file is
 * nobody's to load.
 */
struct gpu_target {
	const struct gpu_chip	*chip, *text;
	bool			 quick;
};
/* For those who prebuild: compile @k for @t of @v into folder @dir. */
enum rlx_status gpu_image_build(const struct rlx_gpu_vendor *v, const struct gpu_target *t,
				const struct gpu_kernel *k, const char *dir,
				struct rlx_error *err);

#endif
