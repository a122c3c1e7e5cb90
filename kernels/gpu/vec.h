/* SPDX-License-Identifier: MIT */
/*
 * The dialect of kernels/simd/vec.h for device code: a vector is one number. What is written in
 * it gives the CPU's bits if nothing is contracted. See there; conversions of what no integer
 * holds differ, and give NaN as the CPU's do where that counts.
 */
#ifndef RLX_G_VEC_H
#define RLX_G_VEC_H

#define RLX_INLINE	static DEV inline

typedef float vf;
typedef double vd;
typedef int32_t vi;
typedef uint32_t vu;
typedef bool vm;

RLX_INLINE vf vf_zero(void) { return 0; }
RLX_INLINE vi vi_zero(void) { return 0; }
RLX_INLINE vf vf_set1(float x) { return x; }
RLX_INLINE vi vf_bits(vf x) { return (vi)f32_bits(x); }
RLX_INLINE vf vf_from_bits(vi x) { return bits_f32((uint32_t)x); }
RLX_INLINE float vf_lane0(vf x) { return x; }

RLX_INLINE vm vm_and(vm a, vm b) { return a && b; }
RLX_INLINE vm vm_or(vm a, vm b) { return a || b; }
RLX_INLINE vm vm_not(vm a) { return !a; }
RLX_INLINE bool vm_all(vm a) { return a; }

RLX_INLINE vm vf_lt(vf a, vf b) { return a < b; }
RLX_INLINE vm vf_le(vf a, vf b) { return a <= b; }
RLX_INLINE vm vf_gt(vf a, vf b) { return a > b; }
RLX_INLINE vm vf_ge(vf a, vf b) { return a >= b; }
RLX_INLINE vm vf_eq(vf a, vf b) { return a == b; }
RLX_INLINE vm vf_ne(vf a, vf b) { return a != b; }
RLX_INLINE vm vf_isnan(vf x) { return x != x; }
RLX_INLINE vm vi_eq(vi a, vi b) { return a == b; }
RLX_INLINE vf vf_sel(vm m, vf a, vf b) { return m ? a : b; }

RLX_INLINE vf vf_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
RLX_INLINE vf vf_fnma(vf a, vf b, vf c) { return fmaf(-a, b, c); }
/* the second one if either is NaN, or both are zeros */
RLX_INLINE vf vf_min(vf a, vf b) { return a < b ? a : b; }
RLX_INLINE vf vf_max(vf a, vf b) { return a > b ? a : b; }
RLX_INLINE vf vf_max_nan(vf a, vf b) { return a != a ? a : vf_max(a, b); }
RLX_INLINE vf vf_min_nan(vf a, vf b) { return a != a ? a : vf_min(a, b); }
RLX_INLINE vf vf_sqrt(vf x) { return sqrtf(x); }
RLX_INLINE vf vf_round(vf x) { return rintf(x); }
RLX_INLINE vf vf_floor(vf x) { return floorf(x); }
RLX_INLINE vf vf_ceil(vf x) { return ceilf(x); }
RLX_INLINE vf vf_trunc(vf x) { return truncf(x); }
RLX_INLINE vf vf_from_vi(vi x) { return (float)x; }
RLX_INLINE vi vi_trunc(vf x) { return (vi)x; }
RLX_INLINE vf vf_abs(vf x) { return vf_from_bits(vf_bits(x) & 0x7fffffff); }

RLX_INLINE vf vf_copysign(vf mag, vf sgn)
{
	return bits_f32((f32_bits(sgn) & 0x80000000) | (f32_bits(mag) & 0x7fffffff));
}

/* x 2^n for a whole n, rounded once: no factor of the first three makes it denormal */
RLX_INLINE vf vf_scale2(vf x, vf n)
{
	const vi k = vi_trunc(n), a = k >> 2, b = k - 3 * a;
	const vf fa = bits_f32((uint32_t)(a + 127) << 23);

	return x * fa * fa * fa * bits_f32((uint32_t)(b + 127) << 23);
}

#endif
