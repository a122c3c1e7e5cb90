/* SPDX-License-Identifier: MIT */
/* The dialect in the test suite's emulator: host C++, see selftests/gpu/emu. */
#ifndef RLX_G_DIALECT_EMU_H
#define RLX_G_DIALECT_EMU_H

#include "kernels/gpu/emu_calls.h"

#define memcpy(to, from, n)	__builtin_memcpy(to, from, n)
#define DEV		__attribute__((always_inline))
#define DEV_OUTLINE	__attribute__((noinline))

extern "C" {
float expf(float), exp2f(float), expm1f(float), logf(float), log2f(float), log1pf(float);
float sqrtf(float), rsqrtf(float), sinf(float), cosf(float), tanf(float), asinf(float);
float acosf(float), atanf(float), atan2f(float, float), sinhf(float), coshf(float);
float tanhf(float), asinhf(float), acoshf(float), atanhf(float), erff(float);
float floorf(float), ceilf(float), rintf(float), truncf(float), fabsf(float);
float fmodf(float, float), powf(float, float), fmaf(float, float, float);
float fmaxf(float, float), fminf(float, float);
double exp(double), exp2(double), expm1(double), log(double), log2(double), log1p(double);
double sqrt(double), sin(double), cos(double), tan(double), asin(double), acos(double);
double atan(double), atan2(double, double), sinh(double), cosh(double), tanh(double);
double asinh(double), acosh(double), atanh(double), erf(double), floor(double);
double ceil(double), rint(double), trunc(double), fabs(double), fmod(double, double);
double pow(double, double), fma(double, double, double);
}

#define threadIdx	(emu_thread_idx())
#define blockIdx	(emu_block_idx())
#define blockDim	(emu_block_dim())
#define gridDim		(emu_grid_dim())
#define __syncthreads()	emu_barrier(__LINE__)

#define RLX_G_EMU_KERNEL(name, type, threads, begin)			\
	static void rlx_g_##name##_body(const type &a, const struct rlx_g_env &env); \
	extern "C" {							\
	extern const unsigned int rlx_g_##name##_emu_sizes[3] =		\
		{ sizeof(type), sizeof(struct rlx_g_env), 0 };		\
	extern const int rlx_g_##name##_emu_threads = threads;		\
	__attribute__((no_sanitize_thread))				\
	void rlx_g_##name(const void *const *p)				\
	{								\
		type a;							\
		struct rlx_g_env env;					\
									\
		__builtin_memcpy(&a, p[0], sizeof(a));			\
		__builtin_memcpy(&env, p[1], sizeof(env));		\
		begin;							\
		rlx_g_##name##_body(a, env);				\
	}								\
	}								\
	static __attribute__((noinline)) void				\
	rlx_g_##name##_body(const type &a, const struct rlx_g_env &env)

#define RLX_G_KERNEL(name, type, threads) \
	RLX_G_EMU_KERNEL(name, type, threads, emu_pdl_wait())
#define RLX_G_KERNEL_PDL(name, type, threads)	RLX_G_EMU_KERNEL(name, type, threads, (void)0)
#define RLX_G_KERNEL_ALONE	RLX_G_KERNEL_PDL

/*
 * Launches run one after the other here; what would not wait for those ahead is found by the
 * accesses before it.
 */
static DEV inline void pdl_wait(void)
{
	emu_pdl_wait();
}

static DEV inline void prefetch_l2(const void *p)
{
}

static DEV inline void prefetch_l1(const void *p)
{
}

#define SHARED(T, name, dims)						\
	typedef T name##_type dims;					\
	name##_type &name = *(name##_type *)emu_shared(sizeof(name##_type))
#define SHARED_DYNAMIC(name)						\
	unsigned char *name = (unsigned char *)emu_shared_dynamic()

static DEV inline float f16_to_f32(uint16_t u)
{
	_Float16 h;

	__builtin_memcpy(&h, &u, 2);
	return (float)h;
}

static DEV inline uint16_t f32_to_f16(float x)
{
	_Float16 h = (_Float16)x;
	uint16_t u;

	__builtin_memcpy(&u, &h, 2);
	return u;
}

static DEV inline uint16_t f32_to_bf16(float x)
{
	uint32_t u;

	__builtin_memcpy(&u, &x, 4);
	if (x != x)
		return 0x7fff;
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

template <class T> static DEV inline T shuffle(T v, int from,
					       int line = __builtin_LINE())
{
	struct emu_warp_op op = { EMU_OP_SHUFFLE, line, from, 0, 0, 0, 0, 0 };

	__builtin_memcpy(&op.value, &v, sizeof(v));
	emu_warp(&op);
	__builtin_memcpy(&v, &op.value, sizeof(v));
	return v;
}

static DEV inline int count_bits(uint64_t v)
{
	return __builtin_popcountll(v);
}

/* A bit for each lane */
static DEV inline uint64_t warp_ballot(bool p, int line = __builtin_LINE())
{
	struct emu_warp_op op = { EMU_OP_BALLOT, line, 0, 0, p, 0, 0, 0 };

	emu_warp(&op);
	return op.value;
}

/* Orders the memory accesses of a warp's lanes. */
static DEV inline void warp_sync(int line = __builtin_LINE())
{
	struct emu_warp_op op = { EMU_OP_SYNC, line, 0, 0, 0, 0, 0, 0 };

	emu_warp(&op);
}

/* Words at @p, 16-byte aligned, or zeros unless @there. */
static DEV inline void load_words(uint32_t v[4], const void *p, bool there)
{
	struct alignas(16) words { uint32_t v[4]; } w = {};

	if (there)
		w = *(const struct words *)p;
	memcpy(v, &w, sizeof(w));
}

/* Copy @n (4, 8, 16) bytes into shared memory behind the thread's back; the last
 * @n - @from of them are zeros. */
static DEV inline void copy_async(void *dst, const void *src, int n, int from)
{
	emu_copy_async(dst, src, (unsigned int)n, (unsigned int)from);
}

static DEV inline void copy_commit(void)
{
	emu_copy_commit();
}

template <int LEFT> static DEV inline void copy_wait(void)
{
	emu_copy_wait(LEFT);
}

static DEV inline float atomic_add(float *p, float v)
{
	uint32_t u;
	uint64_t r;

	__builtin_memcpy(&u, &v, 4);
	r = emu_atomic(p, u, 0, 2);
	u = (uint32_t)r;
	__builtin_memcpy(&v, &u, 4);
	return v;
}

static DEV inline uint32_t atomic_add(uint32_t *p, uint32_t v)
{
	return (uint32_t)emu_atomic(p, v, 0, 12);
}

static DEV inline uint32_t atomic_max(uint32_t *p, uint32_t v)
{
	return (uint32_t)emu_atomic(p, v, 2, 12);
}

static DEV inline uint32_t atomic_cas(uint32_t *p, uint32_t old, uint32_t v)
{
	return (uint32_t)emu_atomic_cas(p, old, v, 4);
}

static DEV inline void memory_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static DEV inline float fast_exp(float x) { return expf(x); }
static DEV inline float fast_exp2(float x) { return exp2f(x); }
static DEV inline float fast_reciprocal(float x) { return 1.0f / x; }
static DEV inline float rsqrt_f32(float x) { return 1.0f / sqrtf(x); }

#endif
