/* SPDX-License-Identifier: MIT */
/*
 * Runs one GPU kernel on the emulated GPU: compiles it, moves its data, launches it.
 * Every failure ends the test.
 *
 *	struct rlx_k_softmax a = { .x = dev_of(x, bytes), .y = dev_new(bytes), ... };
 *	gpu_run("softmax", rlx_g_softmax_launch, &a, sizeof(a));
 *	dev_read(y, a.y, bytes);
 */
#ifndef RLX_TEST_GPU_KERNEL_H
#define RLX_TEST_GPU_KERNEL_H

#include "selftests/lib/rlx_test.h"

#include "kernels/gpu/env.h"
#include "kernels/gpu/launch.h"

#include <dlfcn.h>
#include <glob.h>

typedef void gpu_launch_fn(const void *args, struct rlx_g_launch *l);

static struct {
	void	*cuda, *nvrtc, *ctx;
	char	*text[64], *name[64];
	int	n, wave;
} gpu;

/* A call of the emulated library, by name and type. */
#define CU(lib, name, ...)						\
	((int (*)(__VA_ARGS__))gpu_sym(gpu.lib, #name))
#define CHECK_CU(call)							\
	do {								\
		int r_ = (call);					\
		if (r_)							\
			rlx_test_fail(__FILE__, __LINE__, "%s gives %d", #call, r_); \
	} while (0)

static inline void *gpu_sym(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		rlx_test_fail(__FILE__, __LINE__, "no %s", name);
	return p;
}

static inline char *gpu_text(const char *path)
{
	FILE *f = fopen(path, "r");
	char *s = calloc(1, 1 << 20);

	if (!f || !s || !fread(s, 1, (1 << 20) - 1, f))
		rlx_test_fail(__FILE__, __LINE__, "cannot read %s", path);
	fclose(f);
	return s;
}

static inline void gpu_headers(const char *pattern)
{
	glob_t g;

	if (glob(pattern, 0, NULL, &g))
		rlx_test_fail(__FILE__, __LINE__, "nothing like %s here", pattern);
	for (size_t i = 0; i < g.gl_pathc && gpu.n < 60; i++, gpu.n++) {
		gpu.name[gpu.n] = strdup(g.gl_pathv[i]);
		gpu.text[gpu.n] = gpu_text(g.gl_pathv[i]);
	}
	globfree(&g);
}

static inline void gpu_sources(void)
{
	static const char *const std[] = { "stdint.h", "stddef.h", "stdbool.h" };

	gpu_headers("kernels/*.h");
	gpu_headers("kernels/gpu/*.h");
	for (int i = 0; i < 3; i++) {
		gpu.name[gpu.n] = strdup(std[i]);
		gpu.text[gpu.n++] = gpu_text("kernels/gpu/std.h");
	}
}

static inline void gpu_open(void)
{
	const char *build = getenv("BUILD");
	char path[512];

	if (gpu.ctx)
		return;
	build = build && *build ? build : "build";
	snprintf(path, sizeof(path), "%s/test/emu/libcuda.so.1", build);
	gpu.cuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECKF(gpu.cuda, "%s", dlerror());
	snprintf(path, sizeof(path), "%s/test/emu/libnvrtc.so.12", build);
	gpu.nvrtc = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECKF(gpu.nvrtc, "%s", dlerror());
	gpu_sources();
	CHECK_CU(CU(cuda, cuInit, unsigned int)(0));
	CHECK_CU(CU(cuda, cuDevicePrimaryCtxRetain, void **, int)(&gpu.ctx, 0));
	CHECK_CU(CU(cuda, cuCtxSetCurrent, void *)(gpu.ctx));
	CHECK_CU(CU(cuda, cuDeviceGetAttribute, int *, int, int)(&gpu.wave, 10, 0));
}

/* The image of @source for @key and chip @sm, with one more option or NULL; to be freed. */
static inline void *gpu_image(const char *source, const char *name, const int32_t key[4],
			      const char *sm, const char *more)
{
	char text[6][64];
	const char *opt[9] = { "-std=c++17", "-default-device", text[5],
			       text[0], text[1], text[2], text[3], text[4], more };
	void *prog;
	size_t n;
	char *image;
	int err;

	for (int i = 0; i < 4; i++)
		snprintf(text[i], sizeof(text[i]), "-DRLX_K%d=%d", i, key[i]);
	snprintf(text[4], sizeof(text[4]), "-DRLX_WAVE=%d", gpu.wave);
	snprintf(text[5], sizeof(text[5]), "--gpu-architecture=%s", sm);
	CHECK_CU(CU(nvrtc, nvrtcCreateProgram, void **, const char *, const char *, int,
		    char **, char **)(&prog, source, name, gpu.n, gpu.text, gpu.name));
	err = CU(nvrtc, nvrtcCompileProgram, void *, int, const char **)(prog, more ? 9 : 8, opt);
	if (err) {
		CU(nvrtc, nvrtcGetProgramLogSize, void *, size_t *)(prog, &n);
		image = malloc(n);
		CU(nvrtc, nvrtcGetProgramLog, void *, char *)(prog, image);
		fprintf(stderr, "%.3000s\n", image);
		rlx_test_fail(__FILE__, __LINE__, "%s %d %d %d %d does not compile: %d", name,
			      key[0], key[1], key[2], key[3], err);
	}
	CHECK_CU(CU(nvrtc, nvrtcGetCUBINSize, void *, size_t *)(prog, &n));
	image = malloc(n);
	CHECK_CU(CU(nvrtc, nvrtcGetCUBIN, void *, char *)(prog, image));
	CHECK_CU(CU(nvrtc, nvrtcDestroyProgram, void **)(&prog));
	return image;
}

/* Compile @source for @key and give its function rlx_g_@name. */
static inline void *gpu_compile(const char *source, const char *name, const int32_t key[4])
{
	void *module, *fn, *image = gpu_image(source, name, key, "sm_90", NULL);
	char symbol[64];

	CHECK_CU(CU(cuda, cuModuleLoadData, void **, const void *)(&module, image));
	free(image);
	snprintf(symbol, sizeof(symbol), "rlx_g_%s", name);
	CHECK_CU(CU(cuda, cuModuleGetFunction, void **, void *, const char *)(&fn, module,
									      symbol));
	return fn;
}

static inline void *dev_new(size_t bytes)
{
	uint64_t d = 0;

	gpu_open();
	CHECK_CU(CU(cuda, cuMemAlloc_v2, uint64_t *, size_t)(&d, bytes ? bytes : 1));
	return (void *)(uintptr_t)d;
}

static inline void *dev_of(const void *p, size_t bytes)
{
	void *d = dev_new(bytes);

	CHECK_CU(CU(cuda, cuMemcpyHtoD_v2, uint64_t, const void *, size_t)(
		(uint64_t)(uintptr_t)d, p, bytes));
	return d;
}

static inline void dev_read(void *p, const void *d, size_t bytes)
{
	CHECK_CU(CU(cuda, cuMemcpyDtoH_v2, void *, uint64_t, size_t)(
		p, (uint64_t)(uintptr_t)d, bytes));
}

static inline void dev_free(const void *d)
{
	CHECK_CU(CU(cuda, cuMemFree_v2, uint64_t)((uint64_t)(uintptr_t)d));
}

static inline int gpu_launch(void *fn, const struct rlx_g_launch *l, const void *args,
			     const struct rlx_g_env *env)
{
	void *params[2] = { (void *)(uintptr_t)args, (void *)(uintptr_t)env };

	if (l->shared > 48 << 10)
		CHECK_CU(CU(cuda, cuFuncSetAttribute, void *, int, int)(fn, 8,
								       (int)l->shared));
	return CU(cuda, cuLaunchKernel, void *, unsigned int, unsigned int, unsigned int,
		  unsigned int, unsigned int, unsigned int, unsigned int, void *, void **,
		  void **)(fn, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
			   l->block[2], l->shared, NULL, params, NULL);
}

/* The whole way: kernel @name of file @file as its launch function says. */
static inline void gpu_run_file(const char *file, const char *name, gpu_launch_fn *how,
				const void *args, struct rlx_g_launch l)
{
	struct rlx_g_env env = { .units = l.units };
	char path[128], *source;
	void *fn;

	gpu_open();
	how(args, &l);
	CHECKF(l.can, "%s does not take these arguments", name);
	if (!l.grid[0])
		return;
	snprintf(path, sizeof(path), "kernels/gpu/%s.cu", file);
	source = gpu_text(path);
	fn = gpu_compile(source, name, l.key);
	free(source);
	if (l.scratch)
		env.scratch = dev_new(l.scratch);
	for (env.pass = 0; env.pass < (l.passes ? l.passes : 1); env.pass++)
		CHECK_CU(gpu_launch(fn, &l, args, &env));
	CHECK_CU(CU(cuda, cuStreamSynchronize, void *)(NULL));
	if (l.scratch)
		dev_free(env.scratch);
}

#define gpu_run(file, name, args)					\
	gpu_run_file(file, #name, rlx_g_##name##_launch, args,		\
		     (struct rlx_g_launch){ 0 })

#endif
