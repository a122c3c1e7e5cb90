/* SPDX-License-Identifier: MIT */
/* What plans of convolutions have in common. */
#ifndef RLX_CPU_CONV_PLAN_H
#define RLX_CPU_CONV_PLAN_H

#include "kernels/conv.h"

static inline size_t ceil_div(size_t a, size_t b)
{
	return a / b + (a % b != 0);
}

static inline size_t min_sz(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Their greatest common divisor. */
static inline size_t gcd(size_t a, size_t b)
{
	while (b) {
		size_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Product of @n factors; false on overflow or beyond what pointers reach. */
static inline bool product(size_t *out, const size_t *f, size_t n)
{
	size_t i, p = 1;

	for (i = 0; i < n; i++)
		if (__builtin_mul_overflow(p, f[i], &p))
			return false;
	*out = p;
	return p <= PTRDIFF_MAX / 16;
}

#define PRODUCT(out, ...)						\
	product(out, (const size_t[]){ __VA_ARGS__ },			\
		sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t))

/* Are sizes and windows within what pointers reach? Of @a its shape alone is looked at. */
bool rlx_conv_shape_ok(const struct rlx_k_conv_c *a);
/* 1 x 1 without stride or padding: pixels form one row. */
bool rlx_conv_is_flat(const struct rlx_k_conv_c *a);

#endif
