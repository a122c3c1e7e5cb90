/* SPDX-License-Identifier: MIT */
/* The dialect for HIP: hipcc or hiprtc, warps of 32 or 64. */
#ifndef RLX_G_DIALECT_HIP_H
#define RLX_G_DIALECT_HIP_H

#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#include <stdint.h>
#else
#define half		rlx_g_half	/* HIPRTC puts one of its own before a program */
#include "stdint.h"
#endif

#define memcpy(to, from, n)	__builtin_memcpy(to, from, n)
#define DEV		__device__ __attribute__((always_inline))
#define DEV_OUTLINE	__device__ __attribute__((noinline))

#define RLX_G_KERNEL(name, type, threads)				\
	extern "C" __global__ void __launch_bounds__(threads)		\
	rlx_g_##name(const type a, const struct rlx_g_env env)
#define RLX_G_KERNEL_PDL	RLX_G_KERNEL

/* A launch begins when the one before has ended. */
static DEV inline void pdl_wait(void)
{
}

static DEV inline void prefetch_l2(const void *p)
{
}

static DEV inline void prefetch_l1(const void *p)
{
}

#define SHARED(T, name, dims)	__shared__ __attribute__((aligned(16))) T name dims
#define SHARED_DYNAMIC(name)						\
	extern __shared__ __attribute__((aligned(1024))) unsigned char name[]

static DEV inline float f16_to_f32(uint16_t u)
{
	return (float)__builtin_bit_cast(_Float16, u);
}

static DEV inline uint16_t f32_to_f16(float x)
{
	return __builtin_bit_cast(uint16_t, (_Float16)x);
}

static DEV inline uint16_t f32_to_bf16(float x)
{
	uint32_t u = __builtin_bit_cast(uint32_t, x);

	if (x != x)
		return 0x7fff;
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static DEV inline int shuffle_word(int v, int from)
{
	return __builtin_amdgcn_ds_bpermute(from << 2, v);
}

template <class T> static DEV inline T shuffle(T v, int from)
{
	int w[(sizeof(T) + 3) / 4] = {};

	__builtin_memcpy(w, &v, sizeof(v));
	for (int &x : w)
		x = shuffle_word(x, from);
	__builtin_memcpy(&v, w, sizeof(v));
	return v;
}

static DEV inline int count_bits(uint64_t v)
{
	return __popcll(v);
}

static DEV inline uint64_t warp_ballot(bool p)
{
#if RLX_WARP == 64
	return __builtin_amdgcn_uicmp((uint32_t)p, 0u, 33);
#else
	return __builtin_amdgcn_uicmpl((uint64_t)p, 0ul, 33);
#endif
}

static DEV inline void warp_sync(void)
{
	__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
	__builtin_amdgcn_wave_barrier();
}

/* Words at @p, 16-byte aligned, or zeros unless @there. */
static DEV inline void load_words(uint32_t v[4], const void *p, bool there)
{
	struct alignas(16) words { uint32_t v[4]; } w = {};

	if (there)
		w = *(const struct words *)p;
	memcpy(v, &w, sizeof(w));
}

/* No copies behind the thread's back here: the bytes are there at once. */
static DEV inline void copy_async(void *dst, const void *src, int n, int from)
{
	uint32_t *d = (uint32_t *)dst;
	const uint32_t *s = (const uint32_t *)src;

	if (n == 16 && from == 16) {
		*(uint4 *)dst = *(const uint4 *)src;
		return;
	}
	for (int i = 0; i < n / 4; i++)
		d[i] = i < from / 4 ? s[i] : 0;
	for (int i = from / 4 * 4; i < from; i++)
		((uint8_t *)dst)[i] = ((const uint8_t *)src)[i];
}

static DEV inline void copy_commit(void) {}
template <int LEFT> static DEV inline void copy_wait(void) {}

static DEV inline float atomic_add(float *p, float v) { return atomicAdd(p, v); }
static DEV inline uint32_t atomic_add(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }
static DEV inline uint32_t atomic_max(uint32_t *p, uint32_t v) { return atomicMax(p, v); }

static DEV inline uint32_t atomic_cas(uint32_t *p, uint32_t old, uint32_t v)
{
	return atomicCAS(p, old, v);
}

static DEV inline void memory_fence(void) { __threadfence(); }
static DEV inline float fast_exp(float x) { return __expf(x); }
static DEV inline float fast_exp2(float x) { return exp2f(x); }
static DEV inline float fast_reciprocal(float x) { return 1.0f / x; }
static DEV inline float rsqrt_f32(float x) { return 1.0f / sqrtf(x); }

/* From here on: what the shared headers define is for the device as well. */
#pragma clang force_cuda_host_device begin

#endif
