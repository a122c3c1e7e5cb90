/* SPDX-License-Identifier: MIT */
/*
 * Runs one GPU kernel on the device that the product finds (the emulated one, where
 * that comes first on the loader's path): compiles it and keeps it as the product
 * does, moves its data, launches it. Every failure ends the test.
 *
 *	struct rlx_k_softmax a = { .x = dev_of(x, bytes), .y = dev_new(bytes), ... };
 *	gpu_run_kernel(rlx_g_softmax_launch, &a, &env);
 *	dev_read(y, a.y, bytes);
 */
#ifndef RLX_TEST_GPU_KERNEL_H
#define RLX_TEST_GPU_KERNEL_H

#include "backends/gpu/gpu.h"
#include "rt/rt.h"
#include "selftests/lib/rlx_test.h"

#include <dlfcn.h>

static struct gpu_device *gpu;		/* opened by gpu_start() */

/* A call of a library, by name and type. */
#define CALL(lib, name, ...)	((int (*)(__VA_ARGS__))gpu_sym(lib, #name))
#define CU(name, ...)		CALL(gpu->d->lib, name, __VA_ARGS__)
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

static inline void gpu_start(void)
{
	struct rlx_device *dev;
	struct rlx_error err;

	if (gpu)
		return;
	CHECKF(!rlx_device_get("cuda", 0, &dev, &err), "%s", err.text);
	gpu = (struct gpu_device *)dev;
	CHECKF(!gpu_enter(gpu, &err), "%s", err.text);
}

/* Function rlx_g_@name of a test's own @source, with that much shared memory. */
static inline void *gpu_own_function(const char *source, const char *name, uint32_t shared)
{
	struct rlx_error err;
	void *fn;

	CHECKF(!gpu_function_get(gpu, &(struct gpu_kernel){ name, source, "", NULL, shared },
				 &fn, &err), "%s", err.text);
	return fn;
}

/* That of the kernel which @l says. */
static inline void *gpu_function(const struct rlx_g_launch *l)
{
	const struct gpu_kernel k = gpu_kernel_of(l->variant, &l->param, l->shared);
	struct rlx_error err;
	void *fn;

	CHECKF(!gpu_function_get(gpu, &k, &fn, &err), "%s", err.text);
	return fn;
}

/* What blocks have of shared memory: AMD's, those of sm_86, sm_80, sm_90. */
enum { SHARED_AMD = 64 << 10, SHARED_86 = 99 << 10, SHARED_80 = 163 << 10,
       SHARED_90 = 227 << 10 };

/* Launches are planned as if they had @bytes at most. */
static inline void gpu_plan_shared(int bytes)
{
	static int has;

	gpu_start();
	has = has ? has : gpu->attr[GPU_ATTR_SHARED];
	gpu->attr[GPU_ATTR_SHARED] = bytes < has ? bytes : has;
}

static inline void *dev_new(size_t bytes)
{
	uint64_t d = 0;

	gpu_start();
	CHECK_CU(CU(cuMemAlloc_v2, uint64_t *, size_t)(&d, bytes ? bytes : 1));
	return (void *)(uintptr_t)d;
}

static inline void *dev_of(const void *p, size_t bytes)
{
	void *d = dev_new(bytes);

	CHECK_CU(CU(cuMemcpyHtoD_v2, uint64_t, const void *, size_t)(
		(uint64_t)(uintptr_t)d, p, bytes));
	return d;
}

static inline void dev_read(void *p, const void *d, size_t bytes)
{
	CHECK_CU(CU(cuMemcpyDtoH_v2, void *, uint64_t, size_t)(
		p, (uint64_t)(uintptr_t)d, bytes));
}

static inline void dev_free(const void *d)
{
	CHECK_CU(CU(cuMemFree_v2, uint64_t)((uint64_t)(uintptr_t)d));
}

static inline int gpu_launch(void *fn, const struct rlx_g_launch *l, const void *args,
			     const struct rlx_g_env *env)
{
	void *params[2] = { (void *)(uintptr_t)args, (void *)(uintptr_t)env };

	return gpu->api->launch(fn, l->grid[0], l->grid[1], l->grid[2], l->block[0],
				l->block[1], l->block[2], l->shared, NULL, params, NULL);
}

/* The maps that @l asks for, of matrices where @args has them, or in @scratch. */
static inline void *gpu_tensor_maps(const void *args, const struct rlx_g_launch *l,
				    const void *scratch)
{
	_Alignas(64) unsigned char map[RLX_G_TENSOR_MAPS][RLX_G_TENSOR_MAP_BYTES];
	struct rlx_error err;
	uint64_t at;

	for (uint32_t i = 0; i < l->n_map; i++) {
		at = (uint64_t)(uintptr_t)scratch + l->map[i].field;
		if (!l->map[i].in_scratch)
			memcpy(&at, (const char *)args + l->map[i].field, sizeof(at));
		CHECKF(!gpu_tensor_map_make(gpu, &l->map[i], at, map[i], &err), "%s", err.text);
	}
	return dev_of(map, l->n_map * sizeof(map[0]));
}

/* Zeros for blocks that count themselves, and whether all are so again. */
static inline void *gpu_zeros_new(void)
{
	static const uint32_t none[RLX_G_ZEROS];

	return dev_of(none, sizeof(none));
}

static inline void gpu_zeros_free(void *zeros)
{
	uint32_t left[RLX_G_ZEROS];

	dev_read(left, zeros, sizeof(left));
	for (int i = 0; i < RLX_G_ZEROS; i++)
		CHECK_EQ(left[i], 0);
	dev_free(zeros);
}

/* A judge that takes any of what can be done, another each time. */
static inline unsigned int gpu_take_any(struct rlx_g_judge *j, const struct rlx_g_family *f,
					const void *args, const struct rlx_g_candidate *c,
					unsigned int n, unsigned int least)
{
	static uint64_t seed;
	unsigned int i;

	seed = seed ? seed : rlx_test_seed();
	CHECKF(n < RLX_G_MOST_CANDIDATES, "%s: there may be more candidates", f->name);
	for (i = 0; i < n; i++)
		CHECKF(c[i].why_not ? *c[i].why_not != 0 : c[i].ns > 0 && c[i].launch.can,
		       "%s: candidate %u", f->name, i);
	for (i = least; rlx_test_rand(&seed) % 4 || c[i].why_not;)
		i = (unsigned int)(rlx_test_rand(&seed) % n);
	return i;
}
static struct rlx_g_judge any_candidate __attribute__((unused)) = { gpu_take_any };
static struct rlx_g_judge *gpu_judge;	/* of gpu_run_kernel(); NULL: the least time */

static const char *gpu_ran;		/* the name of gpu_run_kernel()'s last one */

/* The whole way: the kernel that a launch function says. */
static inline void gpu_run_kernel(gpu_launch_fn *how, const void *args, struct rlx_g_env *env)
{
	struct rlx_g_launch l;
	void *fn, *maps = NULL, *zeros = NULL;

	gpu_start();
	l = gpu_launch_for(gpu, env->units);
	l.judge = gpu_judge;
	how(args, &l);
	CHECKF(l.can, "these arguments are not taken");
	gpu_ran = gpu_variants[l.variant].name;
	CHECKF(l.shared <= (uint32_t)gpu->attr[GPU_ATTR_SHARED], "%s asks for %u bytes of shared "
	       "memory", gpu_ran, l.shared);
	if (!l.grid[0])
		return;
	fn = gpu_function(&l);
	if (l.scratch)
		env->scratch = dev_new(l.scratch);
	if (l.n_map)
		env->maps = maps = gpu_tensor_maps(args, &l, env->scratch);
	if (!env->zeros)
		env->zeros = zeros = gpu_zeros_new();
	for (env->pass = 0; env->pass < (l.n_launches ? l.n_launches : 1); env->pass++)
		CHECK_CU(gpu_launch(fn, &l, args, env));
	CHECK_CU(gpu->api->stream_wait(NULL));
	if (l.scratch)
		dev_free(env->scratch);
	if (maps)
		dev_free(maps);
	if (zeros)
		gpu_zeros_free(zeros);
}

#endif
