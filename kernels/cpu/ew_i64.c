// SPDX-License-Identifier: MIT
/* Steps of elementwise programs on 64-bit integers. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/ew_step.h"

typedef int64_t vl __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul __attribute__((vector_size(RLX_VB)));
typedef int64_t vl_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));

#define UN(name, expr)	RLX_EW_UN(name, vl, vl_u, expr)
#define BIN(name, expr)	RLX_EW_BIN(name, vl, vl_u, expr)
#define L1(name, expr)	RLX_EW_LANES1(name, int64_t, expr)
#define L2(name, expr)	RLX_EW_LANES2(name, int64_t, expr)

/* m is all ones or all zeros by lane */
#define SEL(m, a, b)	(((m) & (a)) | (~(m) & (b)))
#define ADD(a, b)	((vl)((vul)(a) + (vul)(b)))
#define SUB(a, b)	((vl)((vul)(a) - (vul)(b)))
#define MUL(a, b)	((vl)((vul)(a) * (vul)(b)))

static int64_t div_trunc(int64_t x, int64_t y)
{
	if (y == 0)
		return 0;
	return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t mod_trunc(int64_t x, int64_t y)
{
	return y == 0 || y == -1 ? 0 : x % y;
}

static int64_t mod_floor(int64_t x, int64_t y)
{
	int64_t r = mod_trunc(x, y);

	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t shl(int64_t x, int64_t y)
{
	return (uint64_t)y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}

static int64_t shr(int64_t x, int64_t y)
{
	return x >> ((uint64_t)y > 63 ? 63 : y);
}

static int64_t ushr(int64_t x, int64_t y)
{
	return (uint64_t)y > 63 ? 0 : (int64_t)((uint64_t)x >> y);
}

/* By squaring, wrapping; a negative exponent gives the truncated reciprocal. */
static int64_t power(int64_t x, int64_t y)
{
	uint64_t b = (uint64_t)x, r = 1;

	if (y < 0)
		return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
	for (; y; y >>= 1, b *= b)
		if (y & 1)
			r *= b;
	return (int64_t)r;
}

static void cast(char *d, const struct rlx_ew_src *s, size_t nv, int type)
{
	const size_t lanes = RLX_VB / 8;
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_I64, type);
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_I64, type);
	int64_t v[RLX_VB / 8], raw[RLX_VB / 8];

	for (size_t k = 0; k < nv; k++) {
		memcpy(v, s[0].p + k * s[0].inc, RLX_VB);
		store(raw, v, lanes);
		load(v, raw, lanes);
		memcpy(d + k * RLX_VB, v, RLX_VB);
	}
}

UN(copy, x)
UN(neg, SUB((vl){0}, x))
UN(abs_, SEL(x < 0, SUB((vl){0}, x), x))
UN(sign, (x < 0) - (x > 0))
UN(not_, (x == 0) & 1)
UN(relu, x & (x > 0))
UN(bnot, ~x)
BIN(add, ADD(x, y))
BIN(sub, SUB(x, y))
BIN(mul, MUL(x, y))
L2(div_, div_trunc(x, y))
L2(mod, mod_floor(x, y))
L2(fmod_, mod_trunc(x, y))
L2(pow_, power(x, y))
BIN(max, SEL(x > y, x, y))
BIN(min, SEL(x < y, x, y))
BIN(eq, (x == y) & 1)
BIN(ne, (x != y) & 1)
BIN(lt, (x < y) & 1)
BIN(le, (x <= y) & 1)
BIN(gt, (x > y) & 1)
BIN(ge, (x >= y) & 1)
BIN(and_, (x != 0) & (y != 0) & 1)
BIN(or_, ((x | y) != 0) & 1)
BIN(xor_, ((x != 0) ^ (y != 0)) & 1)
BIN(band, x & y)
BIN(bor, x | y)
BIN(bxor, x ^ y)
L2(shl_, shl(x, y))
L2(shr_, shr(x, y))
L2(ushr_, ushr(x, y))
L2(udiv, y ? (int64_t)((uint64_t)x / (uint64_t)y) : 0)
L2(umod, y ? (int64_t)((uint64_t)x % (uint64_t)y) : 0)
L2(umax, (uint64_t)x > (uint64_t)y ? x : y)
L2(umin, (uint64_t)x < (uint64_t)y ? x : y)
L2(ult, (uint64_t)x < (uint64_t)y)
L2(ule, (uint64_t)x <= (uint64_t)y)
RLX_EW_TER(where, vl, vl_u, SEL(x != 0, y, z))
RLX_EW_TER(fma_, vl, vl_u, ADD(MUL(x, y), z))

rlx_ew_step_fn *const RLX_K(ew_i64_steps)[RLX_EW_OP_COUNT] = {
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
	[RLX_EW_umod] = umod, [RLX_EW_umax] = umax, [RLX_EW_umin] = umin,
	[RLX_EW_ult] = ult, [RLX_EW_ule] = ule, [RLX_EW_where] = where,
	[RLX_EW_fma] = fma_,
};
