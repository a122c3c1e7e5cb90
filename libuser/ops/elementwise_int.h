/* SPDX-License-Identifier: MIT */
/*
 * The integer column of elementwise.def for one 64-bit type: included twice by
 * elementwise.c with I (the type) and V(name) (the prefix) defined. No guard.
 */
#define int_div V(int_div)
#define int_rem V(int_rem)
#define int_mod V(int_mod)
#define int_pow V(int_pow)

static I int_rem(I a, I b)
{
	return !b || b == (I)-1 ? (b ? ((I)-1 < 0 ? 0 : a % b) : 0) : (I)(a % b);
}

/* x / 0 is 0; the most negative number over -1 wraps */
static I int_div(I a, I b)
{
	if (!b)
		return 0;
	if ((I)-1 < 0 && b == (I)-1)
		return (I)(0 - (uint64_t)a);
	return a / b;
}

static I int_mod(I a, I b)
{
	I r = int_rem(a, b);

	return r && (r < 0) != (b < 0) ? (I)(r + b) : r;
}

static I int_pow(I a, I b)
{
	uint64_t r = 1, x = (uint64_t)a, n = (uint64_t)b;

	if ((I)-1 < 0 && b < 0)
		return a == 1 ? 1 : a == (I)-1 ? (n & 1 ? (I)-1 : 1) : 0;
	for (; n; n >>= 1, x *= x)
		if (n & 1)
			r *= x;
	return (I)r;
}

#define NOINT 0
#define EW1(n, types, res, f, iv, d) \
	static I V(n)(I x, I u1, I u2) { (void)x; (void)u1; (void)u2; return (I)(iv); }
#define EW2(n, types, res, f, iv, da, db) \
	static I V(n)(I a, I b, I u) { (void)a; (void)b; (void)u; return (I)(iv); }
#define EW3(n, types, res, f, iv, da, db) \
	static I V(n)(I cond, I a, I b) { return (I)(iv); }
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
#undef NOINT
#undef int_div
#undef int_rem
#undef int_mod
#undef int_pow
