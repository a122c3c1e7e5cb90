/* SPDX-License-Identifier: MIT */
/* The dialect for NVRTC: CUDA's builtins and inline PTX, no headers. */
#ifndef RLX_G_DIALECT_CUDA_H
#define RLX_G_DIALECT_CUDA_H

#include "stdint.h"

#define DEV		__device__ __attribute__((always_inline))
#define DEV_OUTLINE	__device__ __noinline__

/*
 * From Hopper on a launch may begin while the one before it still runs. pdl_wait()
 * returns when that one has ended and what it wrote can be seen; every thread calls it
 * once. pdl_trigger() lets the launch behind this one begin, as its own wait allows.
 */
static DEV inline void pdl_wait(void)
{
#if RLX_ARCH >= 90
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static DEV inline void pdl_trigger(void)
{
#if RLX_ARCH >= 90
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/*
 * What a launch is given, into the cache of constants, which has none of it at first: each line
 * that is missing is a trip to the L2, which the launch ahead hides. The words are of no use but
 * that nobody can leave out reading them: a second trigger does nothing.
 */
template <class T> static DEV inline void prefetch_args(const T &a)
{
#if RLX_ARCH >= 90
	const uint32_t *word = (const uint32_t *)&a;
	uint32_t any = 0;

#pragma unroll
	for (unsigned int i = 0; i < sizeof(a) / 4; i += 32)
		any |= word[i];
	asm volatile("{ .reg .pred p; setp.eq.u32 p, %0, 1;\n"
		     "@p griddepcontrol.launch_dependents; }" :: "r"(any) : "memory");
#endif
}

/* How many blocks at least a multiprocessor is to hold; a kernel may define it first. */
#ifdef RLX_G_BLOCKS
#define RLX_G_BOUNDS(threads)	__launch_bounds__(threads, RLX_G_BLOCKS)
#else
#define RLX_G_BOUNDS(threads)	__launch_bounds__(threads)
#endif
#define RLX_G_KERNEL_BOUNDS(name, type, ...)				\
	static DEV inline void rlx_g_##name##_body(const type &a, const struct rlx_g_env &env); \
	extern "C" __global__ void __VA_ARGS__				\
	rlx_g_##name(const __grid_constant__ type a,			\
		     const __grid_constant__ struct rlx_g_env env)	\
	{								\
		pdl_trigger();						\
		rlx_g_##name##_body(a, env);				\
	}								\
	static DEV inline void rlx_g_##name##_body(const type &a, const struct rlx_g_env &env)
/* Hints: the line at @p into the second-level cache, or near this processor. */
static DEV inline void prefetch_l2(const void *p)
{
	asm volatile("prefetch.global.L2 [%0];" :: "l"(p));
}

static DEV inline void prefetch_l1(const void *p)
{
	asm volatile("{ .reg .b32 v; ld.global.u8 v, [%0]; }" :: "l"(p));
}

#define RLX_G_KERNEL_PDL(name, type, threads)				\
	RLX_G_KERNEL_BOUNDS(name, type, RLX_G_BOUNDS(threads))
#define RLX_G_KERNEL_ALONE(name, type, threads)				\
	RLX_G_KERNEL_BOUNDS(name, type, __launch_bounds__(threads, 1))
#define RLX_G_KERNEL(name, type, threads)				\
	static DEV inline void rlx_g_##name##_late(const type &a, const struct rlx_g_env &env); \
	RLX_G_KERNEL_PDL(name, type, threads)				\
	{								\
		prefetch_args(a);						\
		prefetch_args(env);					\
		pdl_wait();						\
		rlx_g_##name##_late(a, env);				\
	}								\
	static DEV inline void rlx_g_##name##_late(const type &a, const struct rlx_g_env &env)

#define __builtin_memcpy	memcpy

#define SHARED(T, name, dims)	__shared__ __align__(16) T name dims
#define SHARED_DYNAMIC(name)	extern __shared__ __align__(1024) unsigned char name[]

static DEV inline float f16_to_f32(uint16_t u)
{
	float f;

	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(u));
	return f;
}

static DEV inline uint16_t f32_to_f16(float x)
{
	uint16_t u;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(u) : "f"(x));
	return u;
}

static DEV inline uint16_t f32_to_bf16(float x)
{
	uint16_t u;

	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(u) : "f"(x));
	return u;
}

template <class T> static DEV inline T shuffle(T v, int from)
{
	return __shfl_sync(0xffffffffu, v, from);
}

static DEV inline int count_bits(uint64_t v)
{
	return __popcll(v);
}

static DEV inline uint64_t warp_ballot(bool p)
{
	return __ballot_sync(0xffffffffu, p);
}

#if RLX_ARCH >= 80
#define HAS_WARP_COUNT
static DEV inline int warp_count(int v)
{
	return __reduce_add_sync(0xffffffffu, v);
}
#endif

static DEV inline void warp_sync(void)
{
	__syncwarp();
}

static DEV inline uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/*
 * @x, of which the compiler does not know it: what is made of it is not kept in registers, and it
 * is made here, not where it is used.
 */
static DEV inline int compute_anew(int x)
{
	asm volatile("" : "+r"(x));
	return x;
}

static DEV inline int64_t compute_anew(int64_t x)
{
	asm volatile("" : "+l"(x));
	return x;
}

/* Words at @p, 16-byte aligned, or zeros unless @there; without a branch. */
static DEV inline void load_words(uint32_t v[4], const void *p, bool there)
{
	asm volatile("{ .reg .pred q; setp.ne.u32 q, %5, 0;\n"
		     "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
		     "@q ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
		     : "=&r"(v[0]), "=&r"(v[1]), "=&r"(v[2]), "=&r"(v[3])
		     : "l"(p), "r"((uint32_t)there));
}

/* The same from any memory, be it shared. */
static DEV inline void load_words_any(uint32_t v[4], const void *p, bool there)
{
	asm volatile("{ .reg .pred q; setp.ne.u32 q, %5, 0;\n"
		     "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
		     "@q ld.v4.u32 {%0, %1, %2, %3}, [%4]; }"
		     : "=&r"(v[0]), "=&r"(v[1]), "=&r"(v[2]), "=&r"(v[3])
		     : "l"(p), "r"((uint32_t)there) : "memory");
}

/* Words at @p, 16-byte aligned, that another block wrote since this launch began. */
static DEV inline void load_new(uint32_t v[4], const void *p)
{
	asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(p));
}

/* Copy @n (4, 8, 16) bytes into shared memory behind the thread's back; the last
 * @n - @from of them are zeros. */
static DEV inline void copy_async(void *dst, const void *src, int n, int from)
{
	uint32_t at = shared_address(dst);

	if (n == 16)
		asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
			     :: "r"(at), "l"(src), "r"(from) : "memory");
	else if (n == 8)
		asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
			     :: "r"(at), "l"(src), "r"(from) : "memory");
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
			     :: "r"(at), "l"(src), "r"(from) : "memory");
}

/*
 * A place in shared memory for copies that nobody reads again soon: the cache gives them
 * up first. It comes out of a shuffle because of NVRTC 13.0's assembler, which makes an
 * illegal instruction of such a copy where a part of its address is the same in all lanes.
 */
typedef uint32_t once_at;

static DEV inline once_at once_from(const void *p)
{
	return __shfl_sync(0xffffffffu, shared_address(p), threadIdx.x % 32);
}

/* 16 bytes, of which the last 16 - @from are zeros. */
static DEV inline void copy_once(once_at to, const void *src, int from)
{
	asm volatile("{ .reg .b64 first;\n"
		     "createpolicy.fractional.L2::evict_first.b64 first, 1.0;\n"
		     "cp.async.cg.shared.global.L2::cache_hint.L2::128B "
		     "[%0], [%1], 16, %2, first; }"
		     :: "r"(to), "l"(src), "r"(from) : "memory");
}

static DEV inline void copy_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> static DEV inline void copy_wait(void)
{
	asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}

/* *p if @in, else zeros; without a branch, so that several are under way at once. */
template <class T> static DEV inline T load_if(const T *p, bool in)
{
	T v;

	if constexpr (sizeof(T) == 8) {
		uint64_t u;

		asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b64 %0, 0; "
			     "@p ld.global.u64 %0, [%1];}" : "=l"(u) : "l"(p), "r"((int)in));
		memcpy(&v, &u, 8);
	} else if constexpr (sizeof(T) == 4) {
		uint32_t u;

		asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; "
			     "@p ld.global.u32 %0, [%1];}" : "=r"(u) : "l"(p), "r"((int)in));
		memcpy(&v, &u, 4);
	} else if constexpr (sizeof(T) == 2) {
		uint16_t u;

		asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; mov.b16 %0, 0; "
			     "@p ld.global.u16 %0, [%1];}" : "=h"(u) : "l"(p), "r"((int)in));
		memcpy(&v, &u, 2);
	}
	return v;
}

/* *p as a word if @in, else 0: nothing is done with it that would wait for it. */
static DEV inline uint32_t load_short(const uint16_t *p, bool in)
{
	uint32_t w = 0;

	asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.u16 %0, [%1];}"
		     : "+r"(w) : "l"(p), "r"((int)in));
	return w;
}

/* *p if @in, else words of @other; T has 2, 4, 8 or 16 bytes and is aligned to them. */
template <class T> static DEV inline T load_or(const T *p, bool in, uint32_t other)
{
	uint32_t w[4] = { other, other, other, other };
	T v;

	if constexpr (sizeof(T) == 16)
		asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; "
			     "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];}"
			     : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
			     : "l"(p), "r"((int)in));
	else if constexpr (sizeof(T) == 8)
		asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; "
			     "@p ld.global.v2.u32 {%0, %1}, [%2];}"
			     : "+r"(w[0]), "+r"(w[1]) : "l"(p), "r"((int)in));
	else if constexpr (sizeof(T) == 4)
		asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; "
			     "@p ld.global.u32 %0, [%1];}" : "+r"(w[0]) : "l"(p), "r"((int)in));
	else
		asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; "
			     "@p ld.global.u16 %0, [%1];}" : "+r"(w[0]) : "l"(p), "r"((int)in));
	memcpy(&v, w, sizeof(v));
	return v;
}

/* @v as one store, which the compiler would split by its members; T is as for load_or(). */
template <class T> static DEV inline void store_whole(T *p, T v)
{
	uint32_t w[4];
	uint16_t h;

	if constexpr (sizeof(T) == 2)
		memcpy(&h, &v, sizeof(v));
	else
		memcpy(w, &v, sizeof(v));
	if constexpr (sizeof(T) == 16)
		asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
			     :: "l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
	else if constexpr (sizeof(T) == 8)
		asm volatile("st.global.v2.u32 [%0], {%1, %2};"
			     :: "l"(p), "r"(w[0]), "r"(w[1]) : "memory");
	else if constexpr (sizeof(T) == 4)
		asm volatile("st.global.u32 [%0], %1;" :: "l"(p), "r"(w[0]) : "memory");
	else
		asm volatile("st.global.u16 [%0], %1;" :: "l"(p), "h"(h) : "memory");
}

/* A NaN is the largest. */
static DEV inline float max_nan(float x, float y)
{
#if RLX_ARCH >= 80
	float v;

	asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(x), "f"(y));
	return v;
#else
	return x > y || x != x ? x : y;
#endif
}

/* Four of the bytes of @a, then @b: which, by the digits of @which from the lowest on */
static DEV inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which)
{
	uint32_t v;

	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(which));
	return v;
}

/* f32 with 10 bits of fraction, rounded to nearest, ties away from zero */
static DEV inline uint32_t round_tf32(uint32_t u)
{
	uint32_t v;

	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v) : "r"(u));
	return v;
}

/* c plus four products of signed bytes */
static DEV inline int dot_i8(int a, int b, int c)
{
	int d;

	asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
	return d;
}

static DEV inline float atomic_add(float *p, float v) { return atomicAdd(p, v); }
static DEV inline uint32_t atomic_add(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }
static DEV inline uint32_t atomic_max(uint32_t *p, uint32_t v) { return atomicMax(p, v); }

static DEV inline uint32_t atomic_cas(uint32_t *p, uint32_t old, uint32_t v)
{
	return atomicCAS(p, old, v);
}

static DEV inline void memory_fence(void) { __threadfence(); }
static DEV inline float fast_exp(float x) { return __expf(x); }
static DEV inline float fast_exp2(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

static DEV inline float fast_reciprocal(float x)
{
	float r;

	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
	return r;
}

static DEV inline float rsqrt_f32(float x) { return rsqrtf(x); }

#endif
