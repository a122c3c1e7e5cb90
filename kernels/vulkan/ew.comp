// SPDX-License-Identifier: MIT
/*
 * Pointwise code: a function for each row of elementwise.def, each cast, load and store. The
 * backend (backends/vulkan/pointwise.c) puts a module for each step together from those that
 * it calls, and writes ew_one(), which is the step: element @i of the result. On GPUs it writes
 * ew_block() as well: QUADS times four elements from @i on, which are THREADS quads apart.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "math.glsl"
#include "doubles.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint RANK = 1;
/* Fewer than 2^31 elements: 32 bits do for indices, and no division is needed. */
layout(constant_id = 2) const bool SMALL = true;
layout(constant_id = 3) const uint QUADS = 0;
/* Whose elements are loaded and stored by four: bits of inputs, from 16 on of outputs */
layout(constant_id = 4) const uint WIDE = 0;

/* ---- what the rows are written in ---- */

float sel(const in bool c, const in float a, const in float b) { return c ? a : b; }
float sel(const in float c, const in float a, const in float b) { return c != 0.0 ? a : b; }
double sel(const in bool c, const in double a, const in double b) { return c ? a : b; }
double sel(const in double c, const in double a, const in double b) { return c != 0.0lf ? a : b; }
double max_nan(const in double a, const in double b) { return a > b || a != a ? a : b; }
double min_nan(const in double a, const in double b) { return a < b || a != a ? a : b; }
float m_abs(const in float x) { return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu); }
double m_abs(const in double x) { return x < 0.0lf || x == 0.0lf ? 0.0lf - x : x; }

/* x / 0 is 0; the most negative number over -1 wraps */
int64_t int_div(const in int64_t a, const in int64_t b)
{
	return b == 0 ? int64_t(0) : b == -1 ? -a : a / b;
}
int64_t int_rem(const in int64_t a, const in int64_t b)
{
	return b == 0 || b == -1 ? int64_t(0) : a - a / b * b;
}
int64_t int_mod(const in int64_t a, const in int64_t b)
{
	const int64_t r = int_rem(a, b);

	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
uint64_t uint_pow(const in uint64_t a, const in uint64_t b)
{
	uint64_t r = 1UL, x = a;

	for (uint64_t n = b; n != 0; n >>= 1, x *= x)
		if ((n & 1UL) != 0)
			r *= x;
	return r;
}
int64_t int_pow(const in int64_t a, const in int64_t b)
{
	if (b >= 0)
		return int64_t(uint_pow(uint64_t(a), uint64_t(b)));
	return a == 1 ? int64_t(1) : a == -1 ? ((b & 1) != 0 ? int64_t(-1) : int64_t(1)) :
	       int64_t(0);
}
uint64_t uint_div(const in uint64_t a, const in uint64_t b) { return b == 0 ? 0UL : a / b; }
uint64_t uint_rem(const in uint64_t a, const in uint64_t b) { return b == 0 ? 0UL : a % b; }
uint64_t uint_mod(const in uint64_t a, const in uint64_t b) { return b == 0 ? 0UL : a % b; }

#define exp	m_exp
#define expm1	m_expm1
#define log	m_log
#define log1p	m_log1p
#define sin	m_sin
#define cos	m_cos
#define tan	m_tan
#define asin	m_asin
#define acos	m_acos
#define atan	m_atan
#define sinh	m_sinh
#define cosh	m_cosh
#define tanh	m_tanh
#define asinh	m_asinh
#define acosh	m_acosh
#define atanh	m_atanh
#define erf	m_erf
#define pow	m_pow
#define fmod	m_fmod
#define mod	m_mod
#define atan2	m_atan2
#define rint	roundEven
#define abs	m_abs
#define max	max_nan
#define min	min_nan
#include "ew_rows.glsl"
#undef max
#undef min
#undef abs

/* ---- casts: ew_to_<dtype>_<class of the operand>(), to the class of the dtype ---- */

/* 2^*down times so many, what is below that in *rest; 24 bits are left */
uint u64_top(const in uint64_t x, out int down, out uint64_t rest)
{
	const uint hi = uint(x >> 32);
	const int top = hi != 0 ? 32 + findMSB(hi) : findMSB(uint(x));

	down = top > 23 ? top - 23 : 0;
	rest = x & ((1UL << down) - 1UL);
	return uint(x >> down);
}

float u64_to_odd(const in uint64_t x)
{
	uint64_t rest;
	int down;
	const uint m = u64_top(x, down, rest);

	return float(m | (rest != 0 ? 1u : 0u)) * uintBitsToFloat(uint(127 + down) << 23);
}

uint64_t magnitude(const in int64_t x)
{
	const uint64_t sign = uint64_t(x >> 63);

	return (uint64_t(x) ^ sign) - sign;
}

float i64_to_odd(const in int64_t x)
{
	return (x >> 63 != 0 ? -1.0 : 1.0) * u64_to_odd(magnitude(x));
}

#define NARROW(t, round)						\
	float ew_to_##t##_f(const in float x) { return round(x); }	\
	float ew_to_##t##_d(const in double x) { return round(f64_to_odd(x)); }	\
	float ew_to_##t##_i(const in int64_t x) { return round(i64_to_odd(x)); }	\
	float ew_to_##t##_u(const in uint64_t x) { return round(u64_to_odd(x)); }
#define F16_OF(x)	f16_to_f32(f32_to_f16(x))
#define BF16_OF(x)	uintBitsToFloat(f32_to_bf16(x) << 16)
#define E4M3_OF(x)	e4m3_to_f32(f32_to_e4m3(x))
#define E5M2_OF(x)	f16_to_f32(f32_to_e5m2(x) << 8)
NARROW(f16, F16_OF)
NARROW(bf16, BF16_OF)
NARROW(f8e4m3, E4M3_OF)
NARROW(f8e5m2, E5M2_OF)

/* Integers to f32, to nearest even: what a driver's conversion makes of 64 bits is its own. */
float u64_to_f32(const in uint64_t x)
{
	uint64_t rest;
	int down;
	const uint m = u64_top(x, down, rest);
	const uint64_t tie = down > 0 ? 1UL << (down - 1) : 1UL;
	const bool up = rest > tie || (rest == tie && (m & 1u) != 0);

	return float(m + (up ? 1u : 0u)) * uintBitsToFloat(uint(127 + down) << 23);
}

float ew_to_f32_f(const in float x) { return x; }
float ew_to_f32_d(const in double x) { return float(x); }
float ew_to_f32_u(const in uint64_t x) { return u64_to_f32(x); }
float ew_to_f32_i(const in int64_t x)
{
	return (x >> 63 != 0 ? -1.0 : 1.0) * u64_to_f32(magnitude(x));
}

double ew_to_f64_f(const in float x) { return double(x); }
double ew_to_f64_d(const in double x) { return x; }
/* the halves are exact; their sum is rounded once */
double ew_to_f64_u(const in uint64_t x)
{
	return double(uint(x >> 32)) * 4294967296.0lf + double(uint(x));
}
double ew_to_f64_i(const in int64_t x)
{
	return double(int(x >> 32)) * 4294967296.0lf + double(uint(x));
}

int64_t ew_to_bool_f(const in float x) { return widen(x != 0.0 ? 1u : 0u); }
int64_t ew_to_bool_d(const in double x) { return widen(x != 0.0lf ? 1u : 0u); }
int64_t ew_to_bool_i(const in int64_t x) { return widen(x != 0 ? 1u : 0u); }
int64_t ew_to_bool_u(const in uint64_t x) { return widen(x != 0 ? 1u : 0u); }

/* Towards zero; what lies beyond becomes the last number within, NaN 0. */
uint64_t f64_to_u64(const in double x)
{
	const uint hi = uint(x * 2.3283064365386963e-10lf);

	return uint64_t(hi) << 32 | uint64_t(uint(x - double(hi) * 4294967296.0lf));
}

int64_t f64_to_i64(const in double x, const in double low, const in double top)
{
	if (x != x)
		return int64_t(0);
	if (x >= top)
		return int64_t(f64_to_u64(top * 0.5lf) - 1UL + f64_to_u64(top * 0.5lf));
	if (x <= low)
		return low < 0.0lf ? -int64_t(f64_to_u64(-low)) : int64_t(0);
	return x < 0.0lf ? -int64_t(f64_to_u64(-x)) : int64_t(f64_to_u64(x));
}

#define WHOLE(t, low, top, narrow)					\
	int64_t ew_to_##t##_f(const in float x) { return f64_to_i64(double(x), low, top); }	\
	int64_t ew_to_##t##_d(const in double x) { return f64_to_i64(x, low, top); }	\
	int64_t ew_to_##t##_i(const in int64_t x) { return narrow(x); }	\
	int64_t ew_to_##t##_u(const in uint64_t x) { return narrow(x); }
#define I32_OF(x)	widen(int(x))
#define I16_OF(x)	widen(bitfieldExtract(int(x), 0, 16))
#define I8_OF(x)	widen(bitfieldExtract(int(x), 0, 8))
#define U32_OF(x)	widen(uint(x))
#define U16_OF(x)	widen(uint(x) & 0xffffu)
#define U8_OF(x)	widen(uint(x) & 0xffu)
WHOLE(i64, -9223372036854775808.0lf, 9223372036854775808.0lf, int64_t)
WHOLE(i32, -2147483648.0lf, 2147483648.0lf, I32_OF)
WHOLE(i16, -32768.0lf, 32768.0lf, I16_OF)
WHOLE(i8, -128.0lf, 128.0lf, I8_OF)
WHOLE(u32, 0.0lf, 4294967296.0lf, U32_OF)
WHOLE(u16, 0.0lf, 65536.0lf, U16_OF)
WHOLE(u8, 0.0lf, 256.0lf, U8_OF)

uint64_t ew_to_u64_d(const in double x)
{
	return x != x || x <= 0.0lf ? 0UL : x >= 18446744073709551616.0lf ? ~0UL : f64_to_u64(x);
}
uint64_t ew_to_u64_f(const in float x) { return ew_to_u64_d(double(x)); }
uint64_t ew_to_u64_i(const in int64_t x) { return uint64_t(x); }
uint64_t ew_to_u64_u(const in uint64_t x) { return x; }

/* From class to class without a rule of its own: the operands of integer rows */
int64_t ew_i_of_u(const in uint64_t x) { return int64_t(x); }

/* ---- loads and stores, by dtype, of the class ---- */

#define AT(p, i, n)	(p + uint64_t(i) * n)
#define MEMORY(t, class, n, get, put)					\
	class ew_load_##t(const in uint64_t p, const in int64_t i) { return get; }	\
	void ew_store_##t(const in uint64_t p, const in int64_t i, const in class x) { put; }
MEMORY(f64, double, 8, f64_p(AT(p, i, 8)).v, f64_p(AT(p, i, 8)).v = x)
MEMORY(f32, float, 4, f32_p(AT(p, i, 4)).v, f32_p(AT(p, i, 4)).v = x)
MEMORY(f16, float, 2, f16_to_f32(uint(u16_p(AT(p, i, 2)).v)),
       u16_p(AT(p, i, 2)).v = uint16_t(f32_to_f16(x)))
MEMORY(bf16, float, 2, uintBitsToFloat(uint(u16_p(AT(p, i, 2)).v) << 16),
       u16_p(AT(p, i, 2)).v = uint16_t(f32_to_bf16(x)))
MEMORY(f8e4m3, float, 1, e4m3_to_f32(uint(u8_p(AT(p, i, 1)).v)),
       u8_p(AT(p, i, 1)).v = uint8_t(f32_to_e4m3(x)))
MEMORY(f8e5m2, float, 1, f16_to_f32(uint(u8_p(AT(p, i, 1)).v) << 8),
       u8_p(AT(p, i, 1)).v = uint8_t(f32_to_e5m2(x)))
MEMORY(i64, int64_t, 8, int64_t(u64_p(AT(p, i, 8)).v), u64_p(AT(p, i, 8)).v = uint64_t(x))
MEMORY(i32, int64_t, 4, I32_OF(u32_p(AT(p, i, 4)).v), u32_p(AT(p, i, 4)).v = uint(x))
MEMORY(i16, int64_t, 2, I16_OF(u16_p(AT(p, i, 2)).v), u16_p(AT(p, i, 2)).v = uint16_t(x))
MEMORY(i8, int64_t, 1, I8_OF(u8_p(AT(p, i, 1)).v), u8_p(AT(p, i, 1)).v = uint8_t(x))
MEMORY(u64, uint64_t, 8, u64_p(AT(p, i, 8)).v, u64_p(AT(p, i, 8)).v = x)
MEMORY(u32, int64_t, 4, U32_OF(u32_p(AT(p, i, 4)).v), u32_p(AT(p, i, 4)).v = uint(x))
MEMORY(u16, int64_t, 2, U16_OF(u16_p(AT(p, i, 2)).v), u16_p(AT(p, i, 2)).v = uint16_t(x))
MEMORY(u8, int64_t, 1, U8_OF(u8_p(AT(p, i, 1)).v), u8_p(AT(p, i, 1)).v = uint8_t(x))
MEMORY(bool, int64_t, 1, widen(u8_p(AT(p, i, 1)).v != uint8_t(0) ? 1u : 0u),
       u8_p(AT(p, i, 1)).v = uint8_t(x != 0))

/* The same of four from an aligned address on, and what they are in the code */
#define W2(w, f)	f(w.x), f(w.x >> 16), f(w.y), f(w.y >> 16)
#define W1(w, f)	f(w), f(w >> 8), f(w >> 16), f(w >> 24)
#define QUAD(t, class, class4, load, a, n, b, m)					\
	class4 ew_quad_##t(const in uint64_t p, const in int64_t i)			\
	{										\
		load;									\
		return class4(a);							\
	}										\
	void ew_put_##t(const in uint64_t p, const in int64_t i, const in class x0,	\
			const in class x1, const in class x2, const in class x3)	\
	{										\
		n(AT(p, i, m)).v = b;							\
	}
#define LOAD4	const uvec4 w = u32x4_p(AT(p, i, 4)).v
#define LOAD2	const uvec2 w = u16x4_p(AT(p, i, 2)).v
#define LOAD1	const uint w = u32_p(AT(p, i, 1)).v
#define STORE4	uvec4(uint(x0), uint(x1), uint(x2), uint(x3))
#define HALF(x)	(uint(x) & 0xffffu)
#define BYTE(x)	(uint(x) & 0xffu)
#define STORE2	uvec2(HALF(x0) | HALF(x1) << 16, HALF(x2) | HALF(x3) << 16)
#define STORE1(f)	f(x0) | f(x1) << 8 | f(x2) << 16 | f(x3) << 24
#define ALL4(f)	f(w.x), f(w.y), f(w.z), f(w.w)
#define E4M3_TO(w)	e4m3_to_f32((w) & 0xffu)
#define E5M2_TO(w)	f16_to_f32((w) << 8 & 0xffffu)
#define BOOL_OF(w)	widen(((w) & 0xffu) != 0 ? 1u : 0u)
#define BIT(x)		(x != 0 ? 1u : 0u)
QUAD(i32, int64_t, i64vec4, LOAD4, ALL4(I32_OF), u32x4_p, STORE4, 4)
QUAD(u32, int64_t, i64vec4, LOAD4, ALL4(U32_OF), u32x4_p, STORE4, 4)
QUAD(i16, int64_t, i64vec4, LOAD2, W2(w, I16_OF), u16x4_p, STORE2, 2)
QUAD(u16, int64_t, i64vec4, LOAD2, W2(w, U16_OF), u16x4_p, STORE2, 2)
QUAD(i8, int64_t, i64vec4, LOAD1, W1(w, I8_OF), u32_p, STORE1(BYTE), 1)
QUAD(u8, int64_t, i64vec4, LOAD1, W1(w, U8_OF), u32_p, STORE1(BYTE), 1)
QUAD(bool, int64_t, i64vec4, LOAD1, W1(w, BOOL_OF), u32_p, STORE1(BIT), 1)
QUAD(f8e4m3, float, vec4, LOAD1, W1(w, E4M3_TO), u32_p, STORE1(f32_to_e4m3), 1)
QUAD(f8e5m2, float, vec4, LOAD1, W1(w, E5M2_TO), u32_p, STORE1(f32_to_e5m2), 1)

#define QUAD_REAL(t, type)								\
	vec4 ew_quad_##t(const in uint64_t p, const in int64_t i)			\
	{										\
		return load_real4(type, p, uint64_t(i));				\
	}										\
	void ew_put_##t(const in uint64_t p, const in int64_t i, const in float x0,	\
			const in float x1, const in float x2, const in float x3)	\
	{										\
		store_real4(type, p, uint64_t(i), vec4(x0, x1, x2, x3));		\
	}
QUAD_REAL(f32, F32)
QUAD_REAL(f16, F16)
QUAD_REAL(bf16, BF16)

#define QUAD_LONG(t, class, class4, of, words)						\
	class4 ew_quad_##t(const in uint64_t p, const in int64_t i)			\
	{										\
		const uvec4 a = u32x4_p(AT(p, i, 8)).v, b = u32x4_p(AT(p, i, 8) + 16).v;	\
											\
		return class4(of(a.xy), of(a.zw), of(b.xy), of(b.zw));			\
	}										\
	void ew_put_##t(const in uint64_t p, const in int64_t i, const in class x0,	\
			const in class x1, const in class x2, const in class x3)	\
	{										\
		u32x4_p(AT(p, i, 8)).v = uvec4(words(x0), words(x1));			\
		u32x4_p(AT(p, i, 8) + 16).v = uvec4(words(x2), words(x3));		\
	}
#define I64_WORDS(w)	int64_t(packUint2x32(w))
#define WORDS_OF(x)	unpackUint2x32(uint64_t(x))
QUAD_LONG(f64, double, dvec4, packDouble2x32, unpackDouble2x32)
QUAD_LONG(i64, int64_t, i64vec4, I64_WORDS, WORDS_OF)
QUAD_LONG(u64, uint64_t, u64vec4, packUint2x32, unpackUint2x32)

float ew_part_f(const in vec4 x, const in uint e) { return x[e]; }
double ew_part_d(const in dvec4 x, const in uint e) { return x[e]; }
int64_t ew_part_i(const in i64vec4 x, const in uint e) { return x[e]; }
uint64_t ew_part_u(const in u64vec4 x, const in uint e) { return x[e]; }

/* Where quad @q of a block begins, and element @e of what begins at @i */
int64_t ew_quad_at(const in int64_t i, const in uint q) { return i + int64_t(q * THREADS * 4); }
int64_t ew_next(const in int64_t i, const in uint e) { return i + int64_t(e); }

uint64_t ew_in(const in uint k) { return vk_ew_t(push.args).in_[k]; }
uint64_t ew_out(const in uint k) { return vk_ew_t(push.args).out_[k]; }

/* Where operand @k has what belongs to element @i of the result */
int64_t ew_at(const in uint k, const in int64_t i)
{
	vk_ew_t a = vk_ew_t(push.args);
	int64_t at = 0;

	if (SMALL) {
		uint r = uint(i);

		[[unroll]] for (uint d = RANK - 1; d > 0; d--) {
			uint hi, lo, q;

			umulExtended(r, a.magic[d], hi, lo);
			q = (hi + r) >> a.shift[d];
			at += int64_t(r - q * uint(a.dim[d])) * a.stride[k * 8 + d];
			r = q;
		}
		return at + int64_t(r) * a.stride[k * 8];
	} else {
		int64_t r = i;

		for (uint d = RANK - 1; d > 0; d--) {
			const int64_t q = r / a.dim[d];

			at += (r - q * a.dim[d]) * a.stride[k * 8 + d];
			r = q;
		}
		return at + r * a.stride[k * 8];
	}
}

/* Replaced by the backend; here what it may call. */
void ew_one(const in int64_t i)
{
	keep_rows();
#define KEEP4(t)	ew_to_##t##_f(0.0); ew_to_##t##_d(0.0lf); ew_to_##t##_i(i);	\
			ew_to_##t##_u(0UL);
#define KEEP(t, c)	KEEP4(t) ew_store_##t(0UL, i, ew_load_##t(0UL, i));
	KEEP(f64, double) KEEP(f32, float) KEEP(f16, float) KEEP(bf16, float) KEEP(f8e4m3, float)
	KEEP(f8e5m2, float) KEEP(i64, int64_t) KEEP(i32, int64_t) KEEP(i16, int64_t)
	KEEP(i8, int64_t) KEEP(u64, uint64_t) KEEP(u32, int64_t) KEEP(u16, int64_t)
	KEEP(u8, int64_t) KEEP(bool, int64_t)
	ew_i_of_u(0UL);
	ew_at(0u, i);
	ew_in(0u);
	ew_out(0u);
}

void ew_block(const in int64_t i)
{
	const int64_t n = ew_next(ew_quad_at(i, 0u), 0u);
	const double d = ew_part_d(ew_quad_f64(0UL, n), 0u);
	const float f = ew_part_f(ew_quad_f32(0UL, n), 0u);
	const uint64_t u = ew_part_u(ew_quad_u64(0UL, n), 0u);

	ew_part_i(ew_quad_i64(0UL, n), 0u);
#define KEEP_QUAD(t, x)	ew_quad_##t(0UL, n); ew_put_##t(0UL, n, x, x, x, x);
	KEEP_QUAD(f64, d) KEEP_QUAD(f32, f) KEEP_QUAD(f16, f) KEEP_QUAD(bf16, f)
	KEEP_QUAD(f8e4m3, f) KEEP_QUAD(f8e5m2, f) KEEP_QUAD(i64, n) KEEP_QUAD(i32, n)
	KEEP_QUAD(i16, n) KEEP_QUAD(i8, n) KEEP_QUAD(u64, u) KEEP_QUAD(u32, n) KEEP_QUAD(u16, n)
	KEEP_QUAD(u8, n) KEEP_QUAD(bool, n)
}

/* Do they all begin where such a load may? */
bool is_aligned()
{
	vk_ew_t a = vk_ew_t(push.args);
	uint64_t bits = 0UL;

	[[unroll]] for (uint k = 0; k < 14; k++)
		if ((WIDE >> k & 1) != 0)
			bits |= a.in_[k];
	[[unroll]] for (uint k = 0; k < 4; k++)
		if ((WIDE >> (k + 16) & 1) != 0)
			bits |= a.out_[k];
	return (uint(bits) & 15u) == 0;
}

/* Blocks by groups from the first on; what they leave by elements, from the last group on */
void main()
{
	const int64_t n = vk_ew_t(push.args).n, block = int64_t(QUADS * THREADS * 4);
	int64_t whole = 0;

	if (QUADS > 0 && is_aligned()) {
		whole = n / block;
		for (int64_t b = int64_t(GROUP); b < whole; b += int64_t(GROUPS))
			ew_block(b * block + int64_t(THREAD * 4));
	}
	for (int64_t i = whole * block + int64_t((GROUPS - 1 - GROUP) * THREADS + THREAD); i < n;
	     i += int64_t(LANES))
		ew_one(i);
}
