// SPDX-License-Identifier: MIT
/*
 * Steps of elementwise programs on integers: of 8, 16 and 32 bits in their own width, where
 * whatever has no range left wraps as it would after 64-bit arithmetic, and of 64 bits.
 */
#include "kernels/cpu/ew_step.h"

/*
 * A vector's lanes in a loop that the compiler makes a vector of: I and U are the signed and
 * the unsigned type of the class, x, y and z the operands. Memory that a caller binds lies
 * as its elements do, which may be narrower than the lanes of STEP_BITS.
 */
#ifdef __clang__
#define ALIKE	_Pragma("clang loop vectorize(assume_safety)")
#else
#define ALIKE	_Pragma("GCC ivdep")
#endif

#define LANES(bits, each, expr)						\
	for (size_t k = 0; k < nv; k++) {				\
		typedef int##bits##_t I __attribute__((may_alias, aligned(1))); \
		typedef uint##bits##_t U __attribute__((unused));	\
		I *to = (void *)(d + k * RLX_VB);			\
									\
		each							\
		for (size_t l = 0; l < RLX_VB / sizeof(I); l++) {	\
			const I x = ((const I *)(const void *)p)[l];	\
			const I y = ((const I *)(const void *)q)[l];	\
			const I z = ((const I *)(const void *)r)[l];	\
									\
			(void)y;					\
			(void)z;					\
			to[l] = (I)(expr);				\
		}							\
		p += pi;						\
		q += qi;						\
		r += ri;						\
	}

#define STEP_BODY(name, body)						\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p, *q = s[1].p, *r = s[2].p;		\
	const size_t pi = s[0].inc, qi = s[1].inc, ri = s[2].inc;	\
									\
	body								\
}

/* By the class, which is what a step other than cast gets as its type. */
#define BY_CLASS(a, b, c, d)						\
	switch (type) {							\
	case RLX_EW_I8:							\
		a							\
		break;							\
	case RLX_EW_I16:						\
		b							\
		break;							\
	case RLX_EW_I32:						\
		c							\
		break;							\
	default:							\
		d							\
	}
#define STEP(name, expr)						\
	STEP_BODY(name, BY_CLASS(LANES(8, ALIKE, expr), LANES(16, ALIKE, expr), \
				 LANES(32, ALIKE, expr), LANES(64, ALIKE, expr)))

/* Where the bits are all the same to it. */
#define STEP_BITS(name, expr)	STEP_BODY(name, LANES(64, ALIKE, expr))

/* By a function for each width; that of 64 bits has no vector form. */
#define STEP_FN(name, fn)						\
	STEP_BODY(name, BY_CLASS(LANES(8, ALIKE, fn##_8(x, y)), LANES(16, ALIKE, fn##_16(x, y)), \
				 LANES(32, ALIKE, fn##_32(x, y)),		\
				 LANES(64, RLX_EW_EACH, fn##_64(x, y))))

/*
 * A quotient of floats that are as wide as the integers twice over is off by less than what
 * would carry it to the next integer.
 */
#define NARROW_DIV(bits, F)						\
RLX_INLINE int##bits##_t div_trunc_##bits(int##bits##_t x, int##bits##_t y) \
{									\
	int##bits##_t q = (int##bits##_t)((F)x / (F)(y == -1 || !y ? 1 : y)); \
									\
	return y == 0 ? 0 : y == -1 ? (int##bits##_t)(0 - (uint##bits##_t)x) : q; \
}									\
RLX_INLINE int##bits##_t udiv_##bits(int##bits##_t x, int##bits##_t y)	\
{									\
	const uint##bits##_t b = (uint##bits##_t)y;			\
									\
	return b ? (int##bits##_t)(uint##bits##_t)((F)(uint##bits##_t)x / (F)(b ? b : 1)) : 0; \
}
NARROW_DIV(8, float)
NARROW_DIV(16, float)
NARROW_DIV(32, double)

static int64_t div_trunc_64(int64_t x, int64_t y)
{
	if (y == 0)
		return 0;
	return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t udiv_64(int64_t x, int64_t y)
{
	return y ? (int64_t)((uint64_t)x / (uint64_t)y) : 0;
}

/* x less y times the quotient; of a division by 0, 0. W is no narrower than int. */
#define MOD(bits, W)							\
RLX_INLINE int##bits##_t less_##bits(int##bits##_t x, int##bits##_t q, int##bits##_t y)	\
{									\
	return y ? (int##bits##_t)((W)x - (W)q * (W)y) : 0;		\
}									\
RLX_INLINE int##bits##_t mod_trunc_##bits(int##bits##_t x, int##bits##_t y) \
{									\
	return less_##bits(x, div_trunc_##bits(x, y), y);		\
}									\
RLX_INLINE int##bits##_t mod_floor_##bits(int##bits##_t x, int##bits##_t y) \
{									\
	int##bits##_t r = mod_trunc_##bits(x, y);			\
									\
	return r != 0 && (r ^ y) < 0 ? (int##bits##_t)(r + y) : r;	\
}									\
RLX_INLINE int##bits##_t umod_##bits(int##bits##_t x, int##bits##_t y)	\
{									\
	return less_##bits(x, udiv_##bits(x, y), y);			\
}
MOD(8, uint32_t)
MOD(16, uint32_t)
MOD(32, uint32_t)
MOD(64, uint64_t)

/* By squaring, wrapping. */
static uint64_t upower(uint64_t x, uint64_t y)
{
	uint64_t r = 1;

	for (; y; y >>= 1, x *= x)
		if (y & 1)
			r *= x;
	return r;
}

/* A negative exponent gives the truncated reciprocal. */
static int64_t power(int64_t x, int64_t y)
{
	if (y < 0)
		return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
	return (int64_t)upower((uint64_t)x, (uint64_t)y);
}

RLX_EW_CAST(cast, RLX_EW_I64, int64_t)

#define TOP	(sizeof(I) * 8 - 1)	/* of a shift */

STEP_BITS(copy, x)
STEP(neg, 0 - (U)x)
STEP(abs_, x < 0 ? 0 - (U)x : (U)x)
STEP(sign, (x > 0) - (x < 0))
STEP(not_, x == 0)
STEP(relu, x > 0 ? x : 0)
STEP_BITS(bnot, ~x)
STEP(add, (U)x + (U)y)
STEP(sub, (U)x - (U)y)
STEP(mul, 1u * (U)x * (U)y)
STEP_FN(div_, div_trunc)
STEP_FN(mod, mod_floor)
STEP_FN(fmod_, mod_trunc)
RLX_EW_LANES2(pow_, int64_t, power(x, y))
STEP(max, x > y ? x : y)
STEP(min, x < y ? x : y)
STEP(eq, x == y)
STEP(ne, x != y)
STEP(lt, x < y)
STEP(le, x <= y)
STEP(gt, x > y)
STEP(ge, x >= y)
STEP(and_, (x != 0) & (y != 0))
STEP(or_, (x | y) != 0)
STEP(xor_, (x != 0) ^ (y != 0))
STEP_BITS(band, x & y)
STEP_BITS(bor, x | y)
STEP_BITS(bxor, x ^ y)
STEP(shl_, (U)y > TOP ? 0 : 1u * (U)x << ((U)y & TOP))
STEP(shr_, x >> ((U)y > TOP ? TOP : (U)y))
STEP(ushr_, (U)y > TOP ? 0 : (U)x >> ((U)y & TOP))
STEP_FN(udiv, udiv)
STEP_FN(umod, umod)
RLX_EW_LANES2(upow_, uint64_t, upower(x, y))
STEP(umax, (U)x > (U)y ? x : y)
STEP(umin, (U)x < (U)y ? x : y)
STEP(ult, (U)x < (U)y)
STEP(ule, (U)x <= (U)y)
STEP(where, x ? y : z)
STEP(fma_, 1u * (U)x * (U)y + (U)z)

rlx_ew_step_fn *const RLX_K(ew_int_steps)[RLX_EW_OP_COUNT] = {
	[RLX_EW_copy] = copy, [RLX_EW_cast] = cast, [RLX_EW_neg] = neg,
	[RLX_EW_abs] = abs_, [RLX_EW_sign] = sign, [RLX_EW_not_] = not_,
	[RLX_EW_relu] = relu, [RLX_EW_bnot] = bnot, [RLX_EW_add] = add,
	[RLX_EW_sub] = sub, [RLX_EW_mul] = mul, [RLX_EW_div] = div_,
	[RLX_EW_max] = max, [RLX_EW_min] = min, [RLX_EW_pow] = pow_,
	[RLX_EW_mod] = mod, [RLX_EW_fmod] = fmod_, [RLX_EW_eq] = eq,
	[RLX_EW_ne] = ne, [RLX_EW_lt] = lt, [RLX_EW_le] = le,
	[RLX_EW_gt] = gt, [RLX_EW_ge] = ge, [RLX_EW_and_] = and_,
	[RLX_EW_or_] = or_, [RLX_EW_xor_] = xor_, [RLX_EW_band] = band,
	[RLX_EW_bor] = bor, [RLX_EW_bxor] = bxor, [RLX_EW_shl] = shl_,
	[RLX_EW_shr] = shr_, [RLX_EW_ushr] = ushr_, [RLX_EW_udiv] = udiv,
	[RLX_EW_umod] = umod, [RLX_EW_upow] = upow_,
	[RLX_EW_umax] = umax, [RLX_EW_umin] = umin,
	[RLX_EW_ult] = ult, [RLX_EW_ule] = ule, [RLX_EW_where] = where,
	[RLX_EW_fma] = fma_,
};
