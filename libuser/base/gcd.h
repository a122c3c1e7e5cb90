/* SPDX-License-Identifier: MIT */
/* The greatest common divisor (Euclid); of a number and 0 it is that number. */
#ifndef RLX_BASE_GCD_H
#define RLX_BASE_GCD_H

#include <stdint.h>

static inline uint64_t rlx_gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

#endif
