/* SPDX-License-Identifier: MIT */
/*
 * Stands before each kernel that NVRTC compiles in HIP's dialect: what dialect_hip.h
 * expects of AMD's compiler, in CUDA's words, for warps of 32.
 */
#define __HIPCC_RTC__	1

struct _Float16 {
	unsigned short u;

	_Float16() = default;
	__device__ explicit _Float16(float x)
	{
		asm("cvt.rn.f16.f32 %0, %1;" : "=h"(u) : "f"(x));
	}
	__device__ explicit operator float() const
	{
		float f;

		asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(u));
		return f;
	}
};

static __device__ inline void __builtin_memcpy(void *to, const void *from, unsigned long n)
{
	memcpy(to, from, n);
}

static __device__ inline int __builtin_amdgcn_ds_bpermute(int from, int v)
{
	return __shfl_sync(0xffffffffu, v, from >> 2);
}

/* 33: "not equal" */
static __device__ inline unsigned long __builtin_amdgcn_uicmpl(unsigned long a,
							       unsigned long b, int how)
{
	return __ballot_sync(0xffffffffu, a != b);
}

#define __builtin_amdgcn_fence(order, scope)	__threadfence_block()
#define __builtin_amdgcn_wave_barrier()		__syncwarp()
#define __ATOMIC_ACQ_REL			4
