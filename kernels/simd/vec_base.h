/* SPDX-License-Identifier: MIT */
/* The vector dialect in portable C; included by vec.h alone. */
#ifndef RLX_SIMD_VEC_BASE_H
#define RLX_SIMD_VEC_BASE_H

#ifdef __aarch64__
#include <arm_neon.h>
#endif

typedef vi vm;		/* all ones or all zeros by lane */

RLX_INLINE vm vm_and(vm a, vm b) { return a & b; }
RLX_INLINE vm vm_or(vm a, vm b) { return a | b; }
RLX_INLINE vm vm_not(vm a) { return ~a; }
RLX_INLINE unsigned int vm_bits(vm a)
{
	return (a[0] & 1) | (a[1] & 2) | (a[2] & 4) | (a[3] & 8);
}

RLX_INLINE int vm_any(vm a) { return vm_bits(a) != 0; }
RLX_INLINE int vm_all(vm a) { return vm_bits(a) == 15; }
RLX_INLINE vm vm_first(size_t n)
{
	const vi iota = { 0, 1, 2, 3 };

	return iota < (int32_t)(n < RLX_VL ? n : RLX_VL);
}

RLX_INLINE vf vf_loadn(const void *p, size_t n)
{
	vf r = { 0 };

	memcpy(&r, p, (n < RLX_VL ? n : RLX_VL) * 4);
	return r;
}

RLX_INLINE void vf_storen(void *p, vf x, size_t n)
{
	memcpy(p, &x, (n < RLX_VL ? n : RLX_VL) * 4);
}

RLX_INLINE vi vi_loadn(const void *p, size_t n)
{
	return (vi)vf_loadn(p, n);
}

RLX_INLINE void vi_storen(void *p, vi x, size_t n)
{
	vf_storen(p, (vf)x, n);
}

RLX_INLINE vm vf_lt(vf a, vf b) { return a < b; }
RLX_INLINE vm vf_le(vf a, vf b) { return a <= b; }
RLX_INLINE vm vf_gt(vf a, vf b) { return a > b; }
RLX_INLINE vm vf_ge(vf a, vf b) { return a >= b; }
RLX_INLINE vm vf_eq(vf a, vf b) { return a == b; }
RLX_INLINE vm vf_ne(vf a, vf b) { return a != b; }
RLX_INLINE vm vi_eq(vi a, vi b) { return a == b; }
RLX_INLINE vm vi_lt(vi a, vi b) { return a < b; }
RLX_INLINE vm vi_gt(vi a, vi b) { return a > b; }
RLX_INLINE vi vi_sel(vm m, vi a, vi b) { return (m & a) | (~m & b); }
RLX_INLINE vf vf_sel(vm m, vf a, vf b)
{
	return (vf)vi_sel(m, (vi)a, (vi)b);
}

#ifdef __aarch64__
RLX_INLINE vf vf_fma(vf a, vf b, vf c)
{
	return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

RLX_INLINE vd vd_fma(vd a, vd b, vd c)
{
	return (vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
RLX_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
RLX_INLINE vd vd_fma(vd a, vd b, vd c) { return a * b + c; }
#endif
RLX_INLINE vf vf_fnma(vf a, vf b, vf c) { return vf_fma(-a, b, c); }
RLX_INLINE vf vf_min(vf a, vf b) { return vf_sel(a < b, a, b); }
RLX_INLINE vf vf_max(vf a, vf b) { return vf_sel(a > b, a, b); }
RLX_INLINE vi vi_min(vi a, vi b) { return vi_sel(a < b, a, b); }
RLX_INLINE vi vi_max(vi a, vi b) { return vi_sel(a > b, a, b); }

RLX_INLINE vf vf_sqrt(vf x)
{
	return (vf){ __builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]),
		     __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3]) };
}

RLX_INLINE vf vf_from_vi(vi x) { return __builtin_convertvector(x, vf); }
RLX_INLINE vi vi_trunc(vf x) { return __builtin_convertvector(x, vi); }

/* Adding 2^23 leaves no bits below one; keep x where it is that large. */
RLX_INLINE vf vf_round(vf x)
{
	const vi top = vi_set1(INT32_MIN);
	vf ax = (vf)((vi)x & ~top);
	vf r = (ax + 0x1p23f) - 0x1p23f;
	vm small = ax < vf_set1(0x1p23f);

	return vf_sel(small, (vf)((vi)r | ((vi)x & top)), x);
}

RLX_INLINE vi vi_round(vf x) { return vi_trunc(vf_round(x)); }
RLX_INLINE vf vf_floor(vf x)
{
	const vi top = vi_set1(INT32_MIN);
	vf r = vf_round(x);
	vf one = (vf)((r > x) & (vi)vf_set1(1.0f));

	return (vf)((vi)(r - one) | ((vi)x & top));
}

RLX_INLINE vf vf_ceil(vf x) { return -vf_floor(-x); }
RLX_INLINE vf vf_trunc(vf x)
{
	const vi top = vi_set1(INT32_MIN);
	vf ax = (vf)((vi)x & ~top);

	return (vf)((vi)vf_floor(ax) | ((vi)x & top));
}

/* In three steps, so that no factor overflows for |n| <= 300. */
RLX_INLINE vf vf_scale2(vf x, vf n)
{
	vi k = vi_trunc(n);
	vi a = k >> 2, b = k - 3 * a;
	vf fa = (vf)((a + 127) << 23);

	return x * fa * fa * fa * (vf)((b + 127) << 23);
}

RLX_INLINE vf vf_gather(const float *p, vi i)
{
	return (vf){ p[i[0]], p[i[1]], p[i[2]], p[i[3]] };
}

RLX_INLINE vi vi_gather(const int32_t *p, vi i)
{
	return (vi){ p[i[0]], p[i[1]], p[i[2]], p[i[3]] };
}

/* Exponent and mantissa move by 13 bits; the multiply renormalises. */
RLX_INLINE vf vf_from_f16(vu16h h)
{
	vi x = (vi)__builtin_convertvector(h, vu);
	vi em = x & 0x7fff;
	vf v = (vf)(em << 13) * 0x1p112f;
	vi inf = (em << 13) | 0x7f800000;

	v = vf_sel(em > 0x7bff, (vf)inf, v);
	return (vf)((vi)v | ((x & 0x8000) << 16));
}

/* To nearest even, also into subnormals: adding 2^k rounds at the right bit. */
RLX_INLINE vu16h vf_to_f16(vf x)
{
	vi b = (vi)x;
	vi sign = vi_shr(b, 16) & 0x8000;
	vi a = b & 0x7fffffff;
	vu up = (vu)a + 0xfff + (vu)(vi_shr(a, 13) & 1);
	vi big = (vi)(up >> 13) - (112 << 10);
	vi tiny = (vi)((vf)a + 0.5f) - 0x3f000000;
	vi nan = vi_shr(a, 13) | 0x7e00;
	vi r = vi_sel(a < 0x38800000, tiny, big);

	r = vi_sel(a >= 0x477ff000, vi_set1(0x7c00), r);
	r = vi_sel(a > 0x7f800000, (nan & 0x3ff) | 0x7e00, r);
	return __builtin_convertvector((vu)(r | sign), vu16h);
}

RLX_INLINE vd vd_sel(vl m, vd a, vd b) { return (vd)((m & (vl)a) | (~m & (vl)b)); }
RLX_INLINE vd vd_min(vd a, vd b) { return vd_sel(a < b, a, b); }
RLX_INLINE vd vd_max(vd a, vd b) { return vd_sel(a > b, a, b); }
RLX_INLINE vd vd_scale2(vd x, vd n) { return vd_scale2_halves(x, n); }
RLX_INLINE vd vd_loadn(const void *p, size_t n)
{
	vd r = { 0 };

	memcpy(&r, p, (n < RLX_VLD ? n : RLX_VLD) * 8);
	return r;
}

RLX_INLINE void vd_storen(void *p, vd x, size_t n)
{
	memcpy(p, &x, (n < RLX_VLD ? n : RLX_VLD) * 8);
}


RLX_INLINE vi vi_from_i8(vi8q x) { return __builtin_convertvector(x, vi); }
RLX_INLINE vi vi_from_u8(vu8q x) { return __builtin_convertvector(x, vi); }
RLX_INLINE vi vi_from_i16(vi16h x) { return __builtin_convertvector(x, vi); }
RLX_INLINE vi vi_from_u16(vu16h x) { return __builtin_convertvector(x, vi); }
RLX_INLINE vu8q vi_low_8(vi x) { return __builtin_convertvector((vu)x, vu8q); }
RLX_INLINE vu16h vi_low_16(vi x) { return __builtin_convertvector((vu)x, vu16h); }

#endif
