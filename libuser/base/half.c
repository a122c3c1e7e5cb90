// SPDX-License-Identifier: MIT
/* Small float formats, from their definition. */
#include <math.h>

#include "base/half.h"

double rlx_minifloat_to(struct rlx_minifloat f, uint32_t bits)
{
	uint32_t man_mask = (1u << f.man_bits) - 1, exp_mask = (1u << f.exp_bits) - 1;
	uint32_t man = bits & man_mask, e = bits >> f.man_bits & exp_mask;
	int bias = (int)(exp_mask >> 1);
	double v;

	if (e == exp_mask && f.has_inf)
		v = man ? NAN : INFINITY;
	else if (e == exp_mask && man == man_mask)
		v = NAN;	/* FN formats: only all ones */
	else if (!e)
		v = ldexp(man, 1 - bias - f.man_bits);
	else
		v = ldexp(man | 1u << f.man_bits, (int)e - bias - f.man_bits);
	return bits >> (f.man_bits + f.exp_bits) & 1 ? -v : v;
}

uint32_t rlx_minifloat_from(struct rlx_minifloat f, double x, int saturate)
{
	uint32_t exp_mask = (1u << f.exp_bits) - 1, man_mask = (1u << f.man_bits) - 1;
	uint32_t sign = (uint32_t)(signbit(x) != 0) << (f.man_bits + f.exp_bits);
	uint32_t inf = f.has_inf ? exp_mask << f.man_bits
				 : exp_mask << f.man_bits | man_mask;
	uint32_t max = inf - 1, bits;
	int bias = (int)(exp_mask >> 1), e;
	double a = fabs(x);

	if (isnan(x))
		return sign | (f.has_inf ? inf | 1u << (f.man_bits - 1) : inf);
	if (isinf(a))
		return sign | (saturate ? max : inf);
	if (a == 0)
		return sign;
	frexp(a, &e);		/* a = m 2^e, m in [0.5, 1) */
	if (e - 1 < 1 - bias)
		e = 2 - bias;	/* denormal: fixed exponent */
	/* units in the last place, ties to even; a carry runs into the exponent */
	bits = (uint32_t)fmin(rint(ldexp(a, f.man_bits + 1 - e)), 0x1p30);
	bits += (uint32_t)(e - 1 + bias - 1) << f.man_bits;
	if (e - 1 + bias - 1 > (int)exp_mask || bits > max)
		return sign | (saturate ? max : inf);
	return sign | bits;
}
