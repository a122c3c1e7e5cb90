/* SPDX-License-Identifier: MIT */
/*
 * A vendor's driver as the backend sees it: calls found by name in a library that is
 * opened at run time, and the few numbers in which vendors differ.
 */
#ifndef RLX_BACKENDS_GPU_API_H
#define RLX_BACKENDS_GPU_API_H

#include <stddef.h>
#include <stdint.h>

#include "rlx/backend.h"

/* Arguments of launch_ex, as the driver has them. */
struct rlx_gpu_launch_attr {
	int			 id, pad;
	int			 value[16];
};

struct rlx_gpu_launch {
	unsigned int		 grid[3], block[3], shared;
	void			*stream;
	const struct rlx_gpu_launch_attr *attr;
	unsigned int		 n_attr;
};

/* Of share_new and share_allow, as the driver has them. */
struct rlx_gpu_share {
	int			 type, handle, place, device;
	void			*none;
	unsigned char		 flags[8];
};

struct rlx_gpu_access {
	int			 place, device, flags;
};

struct rlx_gpu_api {
#define GPU_CALL(name, cuda, hip, ...)	int (*name)(__VA_ARGS__);
#include "backends/gpu/api.def"
};

struct rlx_gpu_rtc {
#define RTC_CALL(name, cuda, hip, ...)	int (*name)(__VA_ARGS__);
#include "backends/gpu/api.def"
};

/* Attributes of a device, by the vendor's number. */
enum gpu_attr {
	GPU_ATTR_MAJOR, GPU_ATTR_MINOR, GPU_ATTR_SM_COUNT, GPU_ATTR_WARP,
	GPU_ATTR_SHARED,	/* bytes a block may ask for, opt-in included */
	GPU_ATTR_MAPPED,	/* kernels may use registered host memory in place */
	GPU_ATTR_SHARED_SM, GPU_ATTR_THREADS_SM,	/* of a multiprocessor */
	GPU_ATTR_L2,		/* bytes */
	GPU_ATTR_CLOCK, GPU_ATTR_MEMORY_CLOCK,	/* kHz */
	GPU_ATTR_MEMORY_BITS,	/* of a transfer */
	GPU_ATTR_COUNT,
};

/* A chip that kernels are prebuilt for: the compiler's option, and which it serves. */
struct gpu_chip {
	const char	*option;
	int		 major, minor, warp;
	enum {
		GPU_CHIP_ONLY,		/* that one */
		GPU_CHIP_MINORS,	/* and later ones of its generation */
		GPU_CHIP_TEXT,		/* and all later ones, whose driver compiles it */
	} serves;
};

/*
 * @driver, @rtc:   file names to try, in order, each list ending with NULL
 * @driver_names, @rtc_names: symbols, as api.def has them
 * @describe:       an error as text; @find as dlsym of the driver
 * @option:         one of the compiler's that all kernels need
 * @quick:          one of the compiler's, for code that is to be had soon rather than fast
 * @ordered:        one of the compiler's, by which it contracts no products and sums; NULL: none
 * @arch:           the option that names a device, into @buf
 * @function_shared: attribute of a function: most dynamic shared memory
 * @chips:          ends with one that has no option
 * @compiles_here:  the compiler builds for the device of the thread's context
 * @launch_pdl:   attribute of a launch: it may begin before the one ahead of it in
 *                  the stream has ended; 0: there is none
 */
struct rlx_gpu_vendor {
	const char		*name, *title, *option, *quick, *ordered;
	const char *const	*driver, *const *driver_names;
	const char *const	*rtc, *const *rtc_names;
	const struct gpu_chip	*chips;
	int			 attr[GPU_ATTR_COUNT];
	int			 function_shared, launch_pdl;
	bool			 compiles_here;
	const char		*(*describe)(int rc, void *(*find)(void *, const char *),
					     void *lib);
	void			(*arch)(char *buf, size_t size, int major, int minor);
};

/*
 * The vendor's driver, opened once per process and kept. NULL: there is none, and
 * *@why (may be NULL), which stays as it is, says so; "" where there is one.
 */
enum { GPU_WHY = 224 };
struct gpu_driver {
	struct rlx_gpu_api	 api;
	void			*lib;
	int			 version, devices;
};
const struct gpu_driver *gpu_driver_get(const struct rlx_gpu_vendor *v, const char **why);
/* Retain the context of a device, and the first time once more, for good; 0 or an error. */
int gpu_context_get(const struct rlx_gpu_vendor *v, int dev, void **out);
/* The vendor's compiler, found likewise. */
const struct rlx_gpu_rtc *gpu_rtc_get(const struct rlx_gpu_vendor *v, const char **why);
/* Static text, or "error N" in @buf. */
const char *gpu_error_text(const struct rlx_gpu_vendor *v, const struct gpu_driver *d,
			   int rc, char *buf, size_t size);

/* gpu.c: the members of struct rlx_backend that must know their vendor. */
unsigned int gpu_probe(const struct rlx_gpu_vendor *v, struct rlx_dev_info *info,
		       unsigned int first, unsigned int max);
const char *gpu_why(const struct rlx_gpu_vendor *v);
enum rlx_status gpu_open(const struct rlx_gpu_vendor *v, struct rlx_device *dev,
			 struct rlx_error *err);

#endif
