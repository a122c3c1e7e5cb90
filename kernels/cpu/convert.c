// SPDX-License-Identifier: MIT
/* Converting blocks between element types and the register classes. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/simd/vec.h"

#define CHUNK	64	/* elements staged on the stack in two-step conversions */

/* On arm64 clang makes vectors of this by way of doubles, which rounds twice: one by one then. */
#if defined(__clang__) && defined(__aarch64__)
#define F32_OF_64(x)	({ __typeof__((x) + 0) x_ = (x); __asm__("" : "+r"(x_)); (float)x_; })
#else
#define F32_OF_64(x)	((float)(x))
#endif

/* name(dst, src, n): dst[i] = expr of x = src[i] */
#define CONV(name, dst_t, src_t, expr)					\
static void name(void *restrict dst, const void *restrict src, size_t n) \
{									\
	dst_t *restrict d = dst;					\
	const src_t *restrict s = src;					\
									\
	for (size_t i = 0; i < n; i++) {				\
		const src_t x = s[i];					\
									\
		d[i] = (expr);						\
	}								\
}

/*
 * Truncate and saturate: hi is the first value (f32 can name it) that is too
 * large or exactly the largest, lo the last that is too small or the smallest.
 */
#define SAT(T, x, lo, hi, min, max)					\
	((x) >= (hi) ? (max) : (x) > (lo) ? (T)(x) : (x) == (x) ? (min) : 0)
#define SAT_I8(x)	SAT(int8_t, x, -128, 127, INT8_MIN, INT8_MAX)
#define SAT_I16(x)	SAT(int16_t, x, -32768, 32767, INT16_MIN, INT16_MAX)
#define SAT_I32(x)	SAT(int32_t, x, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
#define SAT_I64(x)	SAT(int64_t, x, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)
#define SAT_U8(x)	SAT(uint8_t, x, 0, 255, 0, UINT8_MAX)
#define SAT_U16(x)	SAT(uint16_t, x, 0, 65535, 0, UINT16_MAX)
#define SAT_U32(x)	SAT(uint32_t, x, 0, 0x1p32f, 0, UINT32_MAX)
#define SAT_U64(x)	SAT(uint64_t, x, 0, 0x1p64f, 0, UINT64_MAX)

static void copy1(void *restrict d, const void *restrict s, size_t n)
{
	memcpy(d, s, n);
}

static void copy2(void *restrict d, const void *restrict s, size_t n)
{
	memcpy(d, s, n * 2);
}

static void copy4(void *restrict d, const void *restrict s, size_t n)
{
	memcpy(d, s, n * 4);
}

static void copy8(void *restrict d, const void *restrict s, size_t n)
{
	memcpy(d, s, n * 8);
}

#define HALF(f)								\
static void ld_f32_##f(void *restrict dst, const void *restrict src, size_t n) \
{									\
	float *d = dst;							\
	const uint16_t *s = src;					\
	size_t i = 0;							\
									\
	for (; i + RLX_VL <= n; i += RLX_VL)				\
		vf_storeu(d + i, vf_loadu_##f(s + i));			\
	if (i < n)							\
		vf_storen(d + i, vf_loadn_##f(s + i, n - i), n - i);	\
}									\
static void st_f32_##f(void *restrict dst, const void *restrict src, size_t n) \
{									\
	uint16_t *d = dst;						\
	const float *s = src;						\
	size_t i = 0;							\
									\
	for (; i + RLX_VL <= n; i += RLX_VL)				\
		vf_storeu_##f(d + i, vf_loadu(s + i));			\
	if (i < n)							\
		vf_storen_##f(d + i, vf_loadn(s + i, n - i), n - i);	\
}
HALF(bf16)
HALF(f16)

#if RLX_VB > 16
/*
 * fp8 decodes through f16, and no f32 on the way is subnormal, which takes many a processor a
 * hundred cycles: e5m2 is
 * its upper byte, e4m3 sits 8 powers lower, with a NaN where 480 would be.
 */
RLX_INLINE vf f8e5m2_dec(vu16h b) { return vf_from_f16(b << 8); }
RLX_INLINE vf f8e4m3_dec(vu16h b)
{
	vf v = vf_from_f16((b & 0x80) << 8 | (b & 0x7f) << 7) * 0x1p8f;

	return vf_sel(vf_eq(vf_abs(v), vf_set1(480)), (vf)((vi)v | 0x7fc00000), v);
}

#define FP8(f)								\
static void ld_f32_##f(void *restrict dst, const void *restrict src, size_t n) \
{									\
	uint8_t b __attribute__((vector_size(RLX_VL)));			\
	const uint8_t *s = src;						\
	float *d = dst;							\
	size_t i = 0;							\
									\
	for (; i + RLX_VL <= n; i += RLX_VL) {				\
		memcpy(&b, s + i, sizeof(b));				\
		vf_storeu(d + i, f##_dec(__builtin_convertvector(b, vu16h)));	\
	}								\
	if (i < n) {							\
		memcpy(&b, s + i, n - i);				\
		vf_storen(d + i, f##_dec(__builtin_convertvector(b, vu16h)), n - i);	\
	}								\
}
FP8(f8e4m3)
FP8(f8e5m2)
#else
/*
 * Exponent and mantissa become those of f32, the exponent by the difference of the biases;
 * below the lowest normal number the mantissa counts the smallest ones.
 */
static float f8_dec(uint8_t b, int man, uint32_t bias, float least)
{
	uint32_t em = b & 0x7f, bits = (em << (23 - man)) + ((127 - bias) << 23);
	float v = (float)(int32_t)em * least;

	if (!(em >> man))
		memcpy(&bits, &v, 4);
	else if (man == 3 && em == 0x7f)	/* its one NaN; there is no infinity */
		bits = 0x7fc00000;
	else if (man == 2 && em >= 0x7c)
		bits = 0x7f800000 | em << 21;
	bits |= (uint32_t)(b & 0x80) << 24;
	memcpy(&v, &bits, 4);
	return v;
}

CONV(ld_f32_f8e4m3, float, uint8_t, f8_dec(x, 3, 7, 0x1p-9f))
CONV(ld_f32_f8e5m2, float, uint8_t, f8_dec(x, 2, 15, 0x1p-16f))
#endif

/*
 * To a sign, e, m format with man mantissa bits and lowest normal exponent
 * low: adding a power of two rounds subnormals at the right bit.
 */
static uint8_t f8_enc(float x, int man, int low)
{
	const uint32_t most = man == 3 ? 0x7e : 0x7b;	/* above: NaN, or inf and NaN */
	uint32_t b, a, r, add;
	float f, magic;

	memcpy(&b, &x, 4);
	a = b & 0x7fffffff;
	if (a > 0x7f800000)
		return (uint8_t)((b >> 24 & 0x80) | 0x7f);
	if (a < (uint32_t)(127 + low) << 23) {
		add = (uint32_t)(127 + low + 23 - man) << 23;
		memcpy(&f, &a, 4);
		memcpy(&magic, &add, 4);
		f += magic;
		memcpy(&r, &f, 4);
		r -= add;
	} else {
		r = a + (1u << (22 - man)) - 1 + (a >> (23 - man) & 1);
		r = (r >> (23 - man)) - ((uint32_t)(126 + low) << man);
	}
	if (r > most || a == 0x7f800000)
		r = most;
	return (uint8_t)((b >> 24 & 0x80) | r);
}

CONV(ld_f32_f64, float, double, (float)x)
CONV(ld_f32_i64, float, int64_t, F32_OF_64(x))
CONV(ld_f32_i32, float, int32_t, (float)x)
CONV(ld_f32_i16, float, int16_t, (float)x)
CONV(ld_f32_i8, float, int8_t, (float)x)
CONV(ld_f32_u64, float, uint64_t, F32_OF_64(x))
CONV(ld_f32_u32, float, uint32_t, (float)x)
CONV(ld_f32_u16, float, uint16_t, (float)x)
CONV(ld_f32_u8, float, uint8_t, (float)x)
CONV(ld_f32_bool, float, uint8_t, (float)(x != 0))

CONV(st_f32_f64, double, float, (double)x)
CONV(st_f32_f8e4m3, uint8_t, float, f8_enc(x, 3, -6))
CONV(st_f32_f8e5m2, uint8_t, float, f8_enc(x, 2, -14))
CONV(st_f32_i64, int64_t, float, SAT_I64(x))
CONV(st_f32_i32, int32_t, float, SAT_I32(x))
CONV(st_f32_i16, int16_t, float, SAT_I16(x))
CONV(st_f32_u64, uint64_t, float, SAT_U64(x))
CONV(st_f32_u32, uint32_t, float, SAT_U32(x))
CONV(st_f32_u16, uint16_t, float, SAT_U16(x))
/* As SAT() has it, but bounded as floats: comparisons of it are masks that are packed for bytes. */
#define BYTES_OF_F32(t, ctype, lo, hi)						\
RLX_INLINE vi bounded_##t(vf x)							\
{										\
	x = vf_sel(vf_isnan(x), vf_zero(), x);					\
	return vi_trunc(vf_min(vf_max(x, vf_set1(lo)), vf_set1(hi)));		\
}										\
static void st_f32_##t(void *restrict dst, const void *restrict src, size_t n)	\
{										\
	ctype *d = dst;								\
	const float *s = src;							\
	size_t i = 0;								\
										\
	for (; i + RLX_VL <= n; i += RLX_VL)					\
		vi_storeu_##t(d + i, bounded_##t(vf_loadu(s + i)));		\
	if (i < n)								\
		vi_storen_##t(d + i, bounded_##t(vf_loadn(s + i, n - i)), n - i);	\
}
BYTES_OF_F32(i8, int8_t, -128, 127)
BYTES_OF_F32(u8, uint8_t, 0, 255)
CONV(st_f32_bool, uint8_t, float, (uint8_t)(x != 0))

CONV(ld_f64_f32, double, float, (double)x)
CONV(ld_f64_i64, double, int64_t, (double)x)
CONV(ld_f64_i32, double, int32_t, (double)x)
CONV(ld_f64_i16, double, int16_t, (double)x)
CONV(ld_f64_u64, double, uint64_t, (double)x)
CONV(ld_f64_u32, double, uint32_t, (double)x)
CONV(ld_f64_u16, double, uint16_t, (double)x)
CONV(ld_f64_bool, double, uint8_t, (double)(x != 0))

CONV(st_f64_f32, float, double, (float)x)
CONV(st_f64_i64, int64_t, double, SAT_I64(x))
CONV(st_f64_i32, int32_t, double,
     SAT(int32_t, x, -0x1p31, 0x1p31 - 1, INT32_MIN, INT32_MAX))
CONV(st_f64_i16, int16_t, double, SAT_I16(x))
CONV(st_f64_u64, uint64_t, double, SAT_U64(x))
CONV(st_f64_u32, uint32_t, double, SAT(uint32_t, x, 0, 0x1p32 - 1, 0, UINT32_MAX))
CONV(st_f64_u16, uint16_t, double, SAT_U16(x))
CONV(st_f64_bool, uint8_t, double, (uint8_t)(x != 0))

/* By vectors of doubles: by vectors of bytes short rows would be all ends. */
typedef int32_t v_int __attribute__((vector_size(RLX_VLD * sizeof(int32_t))));

#define BYTES(name, T, sat, least, most)				\
typedef T v_##name __attribute__((vector_size(RLX_VLD)));		\
static void ld_f64_##name(void *restrict dst, const void *restrict src, size_t n) \
{									\
	double *d = dst;						\
	const T *s = src;						\
	size_t i = 0;							\
									\
	for (; i + RLX_VLD <= n; i += RLX_VLD) {			\
		v_##name b;						\
									\
		memcpy(&b, s + i, sizeof(b));				\
		vd_storeu(d + i, __builtin_convertvector(		\
				  __builtin_convertvector(b, v_int), vd)); \
	}								\
	for (; i < n; i++)						\
		d[i] = s[i];						\
}									\
static void st_f64_##name(void *restrict dst, const void *restrict src, size_t n) \
{									\
	T *d = dst;							\
	const double *s = src;						\
	size_t i = 0;							\
									\
	for (; i + RLX_VLD <= n; i += RLX_VLD) {			\
		vd x = vd_loadu(s + i);					\
		v_##name b;						\
									\
		x = vd_sel(x == x, x, vd_zero());			\
		x = vd_min(vd_max(x, vd_set1(least)), vd_set1(most));	\
		b = __builtin_convertvector(__builtin_convertvector(x, v_int), v_##name); \
		memcpy(d + i, &b, sizeof(b));				\
	}								\
	for (; i < n; i++)						\
		d[i] = sat(s[i]);					\
}
BYTES(i8, int8_t, SAT_I8, -128, 127)
BYTES(u8, uint8_t, SAT_U8, 0, 255)

CONV(ld_i64_f64, int64_t, double, SAT_I64(x))
CONV(ld_i64_f32, int64_t, float, SAT_I64(x))
CONV(ld_i64_i32, int64_t, int32_t, x)
CONV(ld_i64_i16, int64_t, int16_t, x)
CONV(ld_i64_i8, int64_t, int8_t, x)
CONV(ld_i64_u32, int64_t, uint32_t, x)
CONV(ld_i64_u16, int64_t, uint16_t, x)
CONV(ld_i64_u8, int64_t, uint8_t, x)
CONV(ld_i64_bool, int64_t, uint8_t, x != 0)

CONV(st_i64_f64, double, int64_t, (double)x)
CONV(st_i64_f32, float, int64_t, F32_OF_64(x))
CONV(st_i64_32, uint32_t, int64_t, (uint32_t)x)
CONV(st_i64_16, uint16_t, int64_t, (uint16_t)x)
CONV(st_i64_8, uint8_t, int64_t, (uint8_t)x)
CONV(st_i64_bool, uint8_t, int64_t, (uint8_t)(x != 0))

CONV(ld_i32_bool, uint32_t, uint8_t, x != 0)
CONV(ld_i16_bool, uint16_t, uint8_t, x != 0)
CONV(st_i32_bool, uint8_t, uint32_t, x != 0)
CONV(st_i16_bool, uint8_t, uint16_t, x != 0)
CONV(i8_bool, uint8_t, uint8_t, x != 0)

/* Toward zero with the last bit set if inexact: a later rounding is exact. */
static float odd_f32(double x)
{
	float f = (float)x;
	uint32_t b;

	if ((double)f == x || x != x)
		return f;
	memcpy(&b, &f, 4);
	b -= fabs((double)f) > fabs(x);
	b |= 1;
	memcpy(&f, &b, 4);
	return f;
}

static double sticky(uint64_t m, double sign)
{
	if (m >> 53)
		return sign * 0x1p11 *
		       (double)(m >> 11 | ((m & 0x7ff) != 0));
	return sign * (double)m;
}

static double sticky_i64(int64_t x)
{
	return sticky(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x < 0 ? -1 : 1);
}

CONV(f64_odd, float, double, odd_f32(x))
CONV(i64_odd, float, int64_t, odd_f32(sticky_i64(x)))

void RLX_K(load_sticky_u64)(void *restrict dst, const void *restrict src,
			    size_t n)
{
	for (size_t i = 0; i < n; i++)
		((double *)dst)[i] = sticky(((const uint64_t *)src)[i], 1);
}

void RLX_K(load_sticky_i64)(void *restrict dst, const void *restrict src,
			    size_t n)
{
	for (size_t i = 0; i < n; i++)
		((double *)dst)[i] = sticky_i64(((const int64_t *)src)[i]);
}

/* Two steps through f32, chunk by chunk. */
#define CONV_VIA(name, dst_t, first, src_t, second)			\
static void name(void *restrict dst, const void *restrict src, size_t n) \
{									\
	float t[CHUNK];							\
	dst_t *d = dst;							\
	const src_t *s = src;						\
									\
	for (size_t i = 0; i < n; i += CHUNK) {				\
		size_t m = n - i < CHUNK ? n - i : CHUNK;		\
									\
		first(t, s + i, m);					\
		second(d + i, t, m);					\
	}								\
}
#define VIA_F32(f, t)							\
CONV_VIA(ld_f64_##f, double, ld_f32_##f, t, ld_f64_f32)		\
CONV_VIA(ld_i64_##f, int64_t, ld_f32_##f, t, ld_i64_f32)		\
CONV_VIA(st_f64_##f, t, f64_odd, double, st_f32_##f)			\
CONV_VIA(st_i64_##f, t, i64_odd, int64_t, st_f32_##f)
VIA_F32(f16, uint16_t)
VIA_F32(bf16, uint16_t)
VIA_F32(f8e4m3, uint8_t)
VIA_F32(f8e5m2, uint8_t)

static rlx_convert_fn *const loaders[RLX_EW_I64 + 1][RLX_DTYPE_COUNT] = {
	[RLX_EW_F32] = {
		[RLX_F64] = ld_f32_f64, [RLX_F32] = copy4,
		[RLX_F16] = ld_f32_f16, [RLX_BF16] = ld_f32_bf16,
		[RLX_F8E4M3] = ld_f32_f8e4m3, [RLX_F8E5M2] = ld_f32_f8e5m2,
		[RLX_I64] = ld_f32_i64, [RLX_I32] = ld_f32_i32,
		[RLX_I16] = ld_f32_i16, [RLX_I8] = ld_f32_i8,
		[RLX_U64] = ld_f32_u64, [RLX_U32] = ld_f32_u32,
		[RLX_U16] = ld_f32_u16, [RLX_U8] = ld_f32_u8,
		[RLX_BOOL] = ld_f32_bool,
	},
	[RLX_EW_F64] = {
		[RLX_F64] = copy8, [RLX_F32] = ld_f64_f32,
		[RLX_F16] = ld_f64_f16, [RLX_BF16] = ld_f64_bf16,
		[RLX_F8E4M3] = ld_f64_f8e4m3, [RLX_F8E5M2] = ld_f64_f8e5m2,
		[RLX_I64] = ld_f64_i64, [RLX_I32] = ld_f64_i32,
		[RLX_I16] = ld_f64_i16, [RLX_I8] = ld_f64_i8,
		[RLX_U64] = ld_f64_u64, [RLX_U32] = ld_f64_u32,
		[RLX_U16] = ld_f64_u16, [RLX_U8] = ld_f64_u8,
		[RLX_BOOL] = ld_f64_bool,
	},
	[RLX_EW_I64] = {
		[RLX_F64] = ld_i64_f64, [RLX_F32] = ld_i64_f32,
		[RLX_F16] = ld_i64_f16, [RLX_BF16] = ld_i64_bf16,
		[RLX_F8E4M3] = ld_i64_f8e4m3, [RLX_F8E5M2] = ld_i64_f8e5m2,
		[RLX_I64] = copy8, [RLX_I32] = ld_i64_i32,
		[RLX_I16] = ld_i64_i16, [RLX_I8] = ld_i64_i8,
		[RLX_U64] = copy8, [RLX_U32] = ld_i64_u32,
		[RLX_U16] = ld_i64_u16, [RLX_U8] = ld_i64_u8,
		[RLX_BOOL] = ld_i64_bool,
	},
};

static rlx_convert_fn *const storers[RLX_EW_I64 + 1][RLX_DTYPE_COUNT] = {
	[RLX_EW_F32] = {
		[RLX_F64] = st_f32_f64, [RLX_F32] = copy4,
		[RLX_F16] = st_f32_f16, [RLX_BF16] = st_f32_bf16,
		[RLX_F8E4M3] = st_f32_f8e4m3, [RLX_F8E5M2] = st_f32_f8e5m2,
		[RLX_I64] = st_f32_i64, [RLX_I32] = st_f32_i32,
		[RLX_I16] = st_f32_i16, [RLX_I8] = st_f32_i8,
		[RLX_U64] = st_f32_u64, [RLX_U32] = st_f32_u32,
		[RLX_U16] = st_f32_u16, [RLX_U8] = st_f32_u8,
		[RLX_BOOL] = st_f32_bool,
	},
	[RLX_EW_F64] = {
		[RLX_F64] = copy8, [RLX_F32] = st_f64_f32,
		[RLX_F16] = st_f64_f16, [RLX_BF16] = st_f64_bf16,
		[RLX_F8E4M3] = st_f64_f8e4m3, [RLX_F8E5M2] = st_f64_f8e5m2,
		[RLX_I64] = st_f64_i64, [RLX_I32] = st_f64_i32,
		[RLX_I16] = st_f64_i16, [RLX_I8] = st_f64_i8,
		[RLX_U64] = st_f64_u64, [RLX_U32] = st_f64_u32,
		[RLX_U16] = st_f64_u16, [RLX_U8] = st_f64_u8,
		[RLX_BOOL] = st_f64_bool,
	},
	[RLX_EW_I64] = {
		[RLX_F64] = st_i64_f64, [RLX_F32] = st_i64_f32,
		[RLX_F16] = st_i64_f16, [RLX_BF16] = st_i64_bf16,
		[RLX_F8E4M3] = st_i64_f8e4m3, [RLX_F8E5M2] = st_i64_f8e5m2,
		[RLX_I64] = copy8, [RLX_I32] = st_i64_32,
		[RLX_I16] = st_i64_16, [RLX_I8] = st_i64_8,
		[RLX_U64] = copy8, [RLX_U32] = st_i64_32,
		[RLX_U16] = st_i64_16, [RLX_U8] = st_i64_8,
		[RLX_BOOL] = st_i64_bool,
	},
};

/* The narrow integers' classes hold their own types and bool. */
static rlx_convert_fn *narrow(int cls, int type, rlx_convert_fn *bool32, rlx_convert_fn *bool16)
{
	const bool is_bool = type == RLX_BOOL;

	return cls == RLX_EW_I32 ? (is_bool ? bool32 : copy4) :
	       cls == RLX_EW_I16 ? (is_bool ? bool16 : copy2) : is_bool ? i8_bool : copy1;
}

rlx_convert_fn *RLX_K(loader)(int cls, int type)
{
	if (cls > RLX_EW_I64)
		return narrow(cls, type, ld_i32_bool, ld_i16_bool);
	return (unsigned)type < RLX_DTYPE_COUNT ? loaders[cls][type] : NULL;
}

rlx_convert_fn *RLX_K(storer)(int cls, int type)
{
	if (cls > RLX_EW_I64)
		return narrow(cls, type, st_i32_bool, st_i16_bool);
	return (unsigned)type < RLX_DTYPE_COUNT ? storers[cls][type] : NULL;
}
