/* SPDX-License-Identifier: MIT */
/* The dialect for NVRTC: CUDA's builtins and inline PTX, no headers. */
#ifndef RLX_G_DIALECT_CUDA_H
#define RLX_G_DIALECT_CUDA_H

#include "stdint.h"

#define DEV		__device__ __attribute__((always_inline))
#define DEV_OUTLINE	__device__ __noinline__

#define RLX_G_KERNEL(name, type, threads)				\
	extern "C" __global__ void __launch_bounds__(threads)		\
	rlx_g_##name(const __grid_constant__ type a,			\
		     const __grid_constant__ struct rlx_g_env env)

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

static DEV inline uint64_t wave_ballot(bool p)
{
	return __ballot_sync(0xffffffffu, p);
}

static DEV inline void wave_sync(void)
{
	__syncwarp();
}

static DEV inline uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* Copy @n (4, 8, 16) bytes into shared memory behind the thread's back; the last
 * @n - @from of them are zeros. */
static DEV inline void copy_async(void *dst, const void *src, int n, int from)
{
	uint32_t at = shared_address(dst);

	if (n == 16)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
			     :: "r"(at), "l"(src), "r"(from) : "memory");
	else if (n == 8)
		asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
			     :: "r"(at), "l"(src), "r"(from) : "memory");
	else
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
			     :: "r"(at), "l"(src), "r"(from) : "memory");
}

static DEV inline void copy_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> static DEV inline void copy_wait(void)
{
	asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}

static DEV inline float atomic_add(float *p, float v) { return atomicAdd(p, v); }
static DEV inline uint32_t atomic_add(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }

static DEV inline uint32_t atomic_cas(uint32_t *p, uint32_t old, uint32_t v)
{
	return atomicCAS(p, old, v);
}

static DEV inline void memory_fence(void) { __threadfence(); }
static DEV inline float fast_exp(float x) { return __expf(x); }
static DEV inline float rsqrt_f32(float x) { return rsqrtf(x); }

#endif
