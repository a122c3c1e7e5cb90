/* SPDX-License-Identifier: MIT */
/*
 * Pointwise code: arguments of the kernels that the library writes for a step, and,
 * in device code, one function for each row of elementwise.def and each number class:
 * ewf_<op>() on F (a float) and on double, ewi_<op>() and ewu_<op>() on 64-bit
 * integers. What a cast does is said in kernels/cast.h.
 */
#ifndef RLX_G_POINTWISE_H
#define RLX_G_POINTWISE_H

#include "kernels/type.h"

enum { RLX_G_EW_IN = 14, RLX_G_EW_OUT = 4 };

/*
 * Operand k's element of index i is in[k][sum i_d * stride[k][d]]. For fewer than 2^31
 * elements i / dim[d] is (mul_hi(i, magic[d]) + i) >> shift[d]: Granlund and Montgomery,
 * "Division by Invariant Integers using Multiplication" (1994).
 */
struct rlx_g_ew {
	int64_t		n;			/* elements */
	const void	*in[RLX_G_EW_IN];
	void		*out[RLX_G_EW_OUT];
	int32_t		rank;
	int64_t		dim[RLX_K_DIMS];
	int64_t		stride[RLX_G_EW_IN][RLX_K_DIMS];
	uint32_t	magic[RLX_K_DIMS], shift[RLX_K_DIMS];
};

/*
 * The result is [outer, total, inner], in parts of @length along the middle, each of which has
 * operands of its own (struct rlx_k_ew_parts of kernels/ew.h). A block is of one part, whose first
 * is @block. Arguments of a launch are 4 KiB at most.
 */
enum { RLX_G_EW_PART_WORDS = 448 };

struct rlx_g_ew_part {
	int64_t		block, at, length;
};

struct rlx_g_ew_parts {
	const void	*in[RLX_G_EW_IN];	/* those that parts share */
	void		*out;
	int64_t		outer, total, inner;
	uint32_t	n_part, n_own;
	/* n_part times struct rlx_g_ew_part, then n_own pointers for each */
	uint64_t	table[RLX_G_EW_PART_WORDS];
};

#ifdef DEV	/* device code: kernels/gpu/dialect.h came first */

#include "kernels/gpu/act.h"

/*
 * A float that stays one: beside it the literals of the rows are floats too, and
 * those beyond its range are its largest number.
 */
struct F {
	float v;
	DEV F() {}
	DEV F(float x) : v(x) {}
	DEV F(double x) : v(x > 3.4028234663852886e38 ? 3.4028234663852886e38f : (float)x) {}
	DEV explicit F(int64_t x) : v((float)x) {}
	DEV explicit F(uint64_t x) : v((float)x) {}
	DEV explicit operator bool() const { return v != 0; }
};

#define EW_OP(op)							\
	static DEV inline F operator op(F a, F b) { return F(a.v op b.v); }
#define EW_COMPARE(op)							\
	static DEV inline bool operator op(F a, F b) { return a.v op b.v; }
EW_OP(+) EW_OP(-) EW_OP(*) EW_OP(/)
EW_COMPARE(<) EW_COMPARE(<=) EW_COMPARE(>) EW_COMPARE(>=) EW_COMPARE(==) EW_COMPARE(!=)
#undef EW_OP
#undef EW_COMPARE
static DEV inline F operator-(F a) { return F(-a.v); }

#define EW_MATH(n)							\
	static DEV inline F ew_##n(F a) { return F(n##f(a.v)); }	\
	static DEV inline double ew_##n(double a) { return n(a); }
EW_MATH(exp) EW_MATH(log) EW_MATH(sqrt) EW_MATH(sin) EW_MATH(cos) EW_MATH(tan)
EW_MATH(asin) EW_MATH(acos) EW_MATH(atan) EW_MATH(sinh) EW_MATH(cosh) EW_MATH(tanh)
EW_MATH(asinh) EW_MATH(acosh) EW_MATH(atanh) EW_MATH(erf) EW_MATH(floor) EW_MATH(ceil)
EW_MATH(rint) EW_MATH(trunc) EW_MATH(log1p) EW_MATH(expm1)
#undef EW_MATH
#define EW_MATH(n)							\
	static DEV inline F ew_##n(F a, F b) { return F(n##f(a.v, b.v)); } \
	static DEV inline double ew_##n(double a, double b) { return n(a, b); }
EW_MATH(pow) EW_MATH(fmod) EW_MATH(atan2)
#undef EW_MATH

static DEV inline F ew_abs(F a) { return F(fabsf(a.v)); }
static DEV inline double ew_abs(double a) { return fabs(a); }
static DEV inline F ew_sel(bool c, F a, F b) { return c ? a : b; }
static DEV inline double ew_sel(bool c, double a, double b) { return c ? a : b; }
static DEV inline F ew_sel(F c, F a, F b) { return c.v != 0 ? a : b; }
static DEV inline double ew_sel(double c, double a, double b) { return c != 0 ? a : b; }
/* NaN wins */
static DEV inline F ew_max(F a, F b) { return a.v > b.v || a.v != a.v ? a : b; }
static DEV inline F ew_min(F a, F b) { return a.v < b.v || a.v != a.v ? a : b; }
static DEV inline double ew_max(double a, double b) { return a > b || a != a ? a : b; }
static DEV inline double ew_min(double a, double b) { return a < b || a != a ? a : b; }
/* the sign of the divisor, of 0 as well; of 0 fmod is NaN */
template <class T> static DEV inline T ew_floor_mod(T a, T b)
{
	T r = ew_fmod(a, b);

	if (r == T(0.0))
		return b < T(0.0) ? T(-0.0) : T(0.0);
	return (r < T(0.0)) != (b < T(0.0)) ? r + b : r;
}
static DEV inline F ew_mod(F a, F b) { return ew_floor_mod<F>(a, b); }
static DEV inline double ew_mod(double a, double b) { return ew_floor_mod<double>(a, b); }

#define exp	ew_exp
#define expm1	ew_expm1
#define log	ew_log
#define log1p	ew_log1p
#define sqrt	ew_sqrt
#define sin	ew_sin
#define cos	ew_cos
#define tan	ew_tan
#define asin	ew_asin
#define acos	ew_acos
#define atan	ew_atan
#define sinh	ew_sinh
#define cosh	ew_cosh
#define tanh	ew_tanh
#define asinh	ew_asinh
#define acosh	ew_acosh
#define atanh	ew_atanh
#define erf	ew_erf
#define floor	ew_floor
#define ceil	ew_ceil
#define rint	ew_rint
#define trunc	ew_trunc
#define pow	ew_pow
#define fmod	ew_fmod
#define atan2	ew_atan2
#define abs	ew_abs
#define sel	ew_sel
#define max	ew_max
#define min	ew_min
#define mod	ew_mod
#define NOFLOAT	NAN
#define EW1(n, types, res, f, i, d)					\
	template <class T> static DEV inline T ewf_##n(T x) { return T(f); }
#define EW2(n, types, res, f, i, da, db)				\
	template <class T> static DEV inline T ewf_##n(T a, T b) { return T(f); }
#define EW3(n, types, res, f, i, da, db)				\
	template <class T> static DEV inline T ewf_##n(T cond, T a, T b) { return T(f); }
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
#undef NOFLOAT
#undef exp
#undef expm1
#undef log
#undef log1p
#undef sqrt
#undef sin
#undef cos
#undef tan
#undef asin
#undef acos
#undef atan
#undef sinh
#undef cosh
#undef tanh
#undef asinh
#undef acosh
#undef atanh
#undef erf
#undef floor
#undef ceil
#undef rint
#undef trunc
#undef pow
#undef fmod
#undef atan2
#undef abs
#undef sel
#undef max
#undef min
#undef mod

/* As at the end of a product: by erf nothing is left of x below -5. */
template <> DEV inline F ewf_gelu<F>(F x) { return F(gelu_erf(x.v)); }

/*
 * Rows whose results are rounded to 16 bits, by the functions of special units: within 2^-14 of
 * themselves, as far as f32 has normal numbers.
 */
static DEV inline float ew_sigmoid16(float x)
{
	const float s = 5.9604645e-8f;	/* 2^-24: no reciprocal is subnormal, which would be 0 */

	return fast_reciprocal(s + s * fast_exp2(-1.44269504f * x)) * s;
}

static DEV inline F ewh_sigmoid(F x) { return F(ew_sigmoid16(x.v)); }
static DEV inline F ewh_silu(F x) { return F(fmaxf(x.v, -1e3f) * ew_sigmoid16(x.v)); }
static DEV inline F ewh_gelu_tanh(F x)
{
	return F(fmaxf(x.v, -40.0f) *
		 ew_sigmoid16(1.59576912f * (x.v + 0.044715f * x.v * x.v * x.v)));
}

/* Phi(-|x|) is exp(-x^2 / 2) times a polynomial in 1 / (1 + 0.375 |x|), fitted: off by 2^-15. */
static DEV inline F ewh_gelu(F x)
{
	const float z = fminf(fabsf(x.v), 14.0f), t = fast_reciprocal(1 + 0.375f * z);
	const float p = t * (0.149060759f + t * (0.157736488f + t * (0.0835561364f +
			t * (0.200291844f + t * -0.0906473743f))));

	return F((x.v > 0 || x.v != x.v ? x.v : 0) - z * p * fast_exp2(-0.72134752f * z * z));
}

/* the integer column; its file defines plain static functions of three operands */
#define static	static DEV inline
#define I int64_t
#define V(n) ewi_##n
#include "ops/elementwise_int.h"
#undef I
#undef V
#define I uint64_t
#define V(n) ewu_##n
#include "ops/elementwise_int.h"
#undef I
#undef V
#undef static

/* ---- casts, to what the element type computes in ---- */

template <int T> struct ew_int { };
#define EW_INT(T, LOW, TOP)						\
	template <> struct ew_int<T> {					\
		static DEV inline double low() { return LOW; }		\
		static DEV inline double top() { return TOP; }		\
	};
EW_INT(RLX_I64, -9223372036854775808.0, 9223372036854775808.0)
EW_INT(RLX_I32, -2147483648.0, 2147483648.0)
EW_INT(RLX_I16, -32768.0, 32768.0)
EW_INT(RLX_I8, -128.0, 128.0)
EW_INT(RLX_U64, 0.0, 18446744073709551616.0)
EW_INT(RLX_U32, 0.0, 4294967296.0)
EW_INT(RLX_U16, 0.0, 65536.0)
EW_INT(RLX_U8, 0.0, 256.0)
#undef EW_INT

/* towards zero; what lies beyond becomes the last number within */
template <int T> static DEV inline typename rlx_t<T>::acc ew_to_int(double x)
{
	typedef typename rlx_t<T>::acc A;
	const double low = ew_int<T>::low(), top = ew_int<T>::top();

	if (x != x)
		return 0;
	if (x >= top)	/* 2^bits - 1, without a number beyond the type */
		return (A)((A)(top / 2) - 1 + (A)(top / 2));
	return x <= low ? (A)low : (A)x;
}

static DEV inline double ew_wide(F x) { return (double)x.v; }
static DEV inline double ew_wide(double x) { return x; }

/* ew_cast<to>(x): of a float, a double or an integer (C++ picks by the operand) */
template <int T> struct ew_cast_to {
	template <class X> static DEV inline typename rlx_t<T>::acc of(X x)
	{
		return ew_to_int<T>(ew_wide(x));
	}
	static DEV inline typename rlx_t<T>::acc of(int64_t x)
	{
		return rlx_t<T>::get(rlx_t<T>::put((typename rlx_t<T>::acc)x));
	}
	static DEV inline typename rlx_t<T>::acc of(uint64_t x)
	{
		return rlx_t<T>::get(rlx_t<T>::put((typename rlx_t<T>::acc)x));
	}
};
template <> struct ew_cast_to<RLX_BOOL> {
	static DEV inline int64_t of(F x) { return x.v != 0; }
	static DEV inline int64_t of(double x) { return x != 0; }
	static DEV inline int64_t of(int64_t x) { return x != 0; }
	static DEV inline int64_t of(uint64_t x) { return x != 0; }
};
template <> struct ew_cast_to<RLX_F64> {
	static DEV inline double of(F x) { return (double)x.v; }
	static DEV inline double of(double x) { return x; }
	static DEV inline double of(int64_t x) { return (double)x; }
	static DEV inline double of(uint64_t x) { return (double)x; }
};
/* narrower than a double: rounded once */
#define EW_FLOAT(T, ROUND, ODD)						\
	template <> struct ew_cast_to<T> {				\
		static DEV inline F of(F x) { return F(ROUND(x.v)); }	\
		static DEV inline F of(double x) { return F(ROUND(ODD(x))); } \
		static DEV inline F of(int64_t x)			\
		{							\
			return F(ROUND(ew_odd(x)));			\
		}							\
		static DEV inline F of(uint64_t x)			\
		{							\
			return F(ROUND(ew_odd(x)));			\
		}							\
	};
/* an integer as a float that rounds right once more: exact, or odd */
static DEV inline float ew_odd(uint64_t x)
{
	int down = 0;

	while (x >> 24) {
		x = x >> 1 | (x & 1);
		down++;
	}
	return (float)x * bits_f32((uint32_t)(127 + down) << 23);
}
static DEV inline float ew_odd(int64_t x)
{
	return x < 0 ? -ew_odd(0 - (uint64_t)x) : ew_odd((uint64_t)x);
}
static DEV inline float ew_f16(float x) { return to_f32(from_f32<f16>(x)); }
static DEV inline float ew_bf16(float x) { return to_f32(from_f32<bf16>(x)); }
static DEV inline float ew_e4m3(float x) { return to_f32(f32_to_e4m3(x)); }
static DEV inline float ew_e5m2(float x) { return to_f32(f32_to_e5m2(x)); }
EW_FLOAT(RLX_F16, ew_f16, f64_to_odd)
EW_FLOAT(RLX_BF16, ew_bf16, f64_to_odd)
EW_FLOAT(RLX_F8E4M3, ew_e4m3, f64_to_odd)
EW_FLOAT(RLX_F8E5M2, ew_e5m2, f64_to_odd)
#undef EW_FLOAT
template <> struct ew_cast_to<RLX_F32> {
	static DEV inline F of(F x) { return x; }
	static DEV inline F of(double x) { return F((float)x); }
	static DEV inline F of(int64_t x) { return F(x); }
	static DEV inline F of(uint64_t x) { return F(x); }
};

/* ---- loads and stores ---- */

template <int T> struct ew_value { typedef int64_t type; };
template <> struct ew_value<RLX_U64> { typedef uint64_t type; };
template <> struct ew_value<RLX_F64> { typedef double type; };
template <> struct ew_value<RLX_F32> { typedef F type; };
template <> struct ew_value<RLX_F16> { typedef F type; };
template <> struct ew_value<RLX_BF16> { typedef F type; };
template <> struct ew_value<RLX_F8E4M3> { typedef F type; };
template <> struct ew_value<RLX_F8E5M2> { typedef F type; };

template <int T> static DEV inline typename ew_value<T>::type ew_load(const void *p, int64_t i)
{
	return (typename ew_value<T>::type)
		rlx_t<T>::get(((const typename rlx_t<T>::mem *)p)[i]);
}

static DEV inline float ew_plain(F x) { return x.v; }
template <class X> static DEV inline X ew_plain(X x) { return x; }

template <int T> static DEV inline void ew_store(void *p, int64_t i,
						 typename ew_value<T>::type x)
{
	((typename rlx_t<T>::mem *)p)[i] = rlx_t<T>::put(ew_plain(x));
}

static DEV inline uint32_t ew_div(uint32_t i, uint32_t magic, uint32_t shift)
{
	return ((uint32_t)((uint64_t)i * magic >> 32) + i) >> shift;
}

/*
 * @V elements side by side of one operand, by one access where they lie aligned. Of @n
 * elements in all those past the last are the last one again, and are not written.
 */
template <int T, int V> struct ew_vec {
	typedef typename rlx_t<T>::mem mem;
	struct alignas(sizeof(mem) * V) whole { mem v[V]; } w;

	static DEV inline bool aligned(const mem *p)
	{
		return V > 1 && !((uintptr_t)p & (sizeof(mem) * V - 1));
	}

	/* @left elements from p on, @stride from one to the next */
	DEV inline void along(const mem *p, int64_t left, int64_t stride)
	{
#pragma unroll
		for (int j = 0; j < V; j++)
			w.v[j] = p[(j < left ? j : left - 1) * stride];
	}

	DEV inline void load(const void *x, int64_t i, int64_t left)
	{
		const mem *p = (const mem *)x + i;

		if (left >= V && aligned(p))
			w = *(const whole *)p;
		else
			along(p, left, 1);
	}

	DEV inline void strided(const void *x, int64_t i, int64_t left, int64_t stride)
	{
		along((const mem *)x + i, left, stride);
	}

	/* element @j alone, at @i */
	DEV inline void one(int j, const void *x, int64_t i)
	{
		w.v[j] = ((const mem *)x)[i];
	}

	DEV inline void repeat(const void *x, int64_t i)
	{
		const mem v = ((const mem *)x)[i];

#pragma unroll
		for (int j = 0; j < V; j++)
			w.v[j] = v;
	}

	DEV inline void store(void *y, int64_t i, int64_t left) const
	{
		mem *p = (mem *)y + i;

		if (left >= V && aligned(p)) {
			*(whole *)p = w;
			return;
		}
#pragma unroll
		for (int j = 0; j < V; j++)
			if (j < left)
				p[j] = w.v[j];
	}

	DEV inline typename ew_value<T>::type get(int j) const
	{
		return (typename ew_value<T>::type)rlx_t<T>::get(w.v[j]);
	}

	DEV inline void set(int j, typename ew_value<T>::type x)
	{
		w.v[j] = rlx_t<T>::put(ew_plain(x));
	}
};

static DEV inline struct rlx_g_ew_part ew_part(const struct rlx_g_ew_parts &a, uint32_t k)
{
	const struct rlx_g_ew_part p = { (int64_t)a.table[3 * k], (int64_t)a.table[3 * k + 1],
					 (int64_t)a.table[3 * k + 2] };

	return p;
}

/* The part that @block is of: the last one of those that begin there or before. */
static DEV inline uint32_t ew_part_of(const struct rlx_g_ew_parts &a, int64_t block)
{
	uint32_t k = 0, n = a.n_part;

	while (n > 1) {
		const uint32_t half = n / 2;

		if ((int64_t)a.table[3 * (k + half)] <= block) {
			k += half;
			n -= half;
		} else {
			n = half;
		}
	}
	return k;
}

static DEV inline const void *ew_own(const struct rlx_g_ew_parts &a, uint32_t k, uint32_t own)
{
	return (const void *)a.table[3 * a.n_part + k * a.n_own + own];
}

#endif
#endif
