/* SPDX-License-Identifier: MIT */
/* Conversions between double or float and the 16- and 8-bit floats, exact and
 * rounding to nearest even once. */
#ifndef RLX_BASE_HALF_H
#define RLX_BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* A small IEEE-like format: exponent and mantissa bits, and whether it has inf. */
struct rlx_minifloat {
	uint8_t	exp_bits, man_bits, has_inf;
};

#define RLX_MF_F16	((struct rlx_minifloat){ 5, 10, 1 })
#define RLX_MF_BF16	((struct rlx_minifloat){ 8, 7, 1 })
#define RLX_MF_F8E4M3	((struct rlx_minifloat){ 4, 3, 0 })
#define RLX_MF_F8E5M2	((struct rlx_minifloat){ 5, 2, 1 })

/*
 * Round a double once. Without infinities (E4M3FN) what is too large becomes the
 * largest finite value if @saturate, else NaN (0x7f); with them, infinity or the
 * largest finite value likewise.
 */
uint32_t rlx_minifloat_from(struct rlx_minifloat f, double x, int saturate);
double rlx_minifloat_to(struct rlx_minifloat f, uint32_t bits);

static inline float rlx_bf16_to_f32(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline uint16_t rlx_f32_to_bf16(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 0x40);	/* quiet NaN */
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline uint16_t rlx_f32_to_f16(float f)
{
	uint32_t u, a;
	uint16_t sign;

	memcpy(&u, &f, sizeof(u));
	sign = (uint16_t)(u >> 16 & 0x8000);
	a = u & 0x7fffffffu;
	if (a > 0x7f800000u)
		return sign | 0x7e00;		/* quiet NaN */
	if (a >= 0x477ff000u)
		return sign | 0x7c00;
	if (a >= 0x38800000u)
		return sign | (uint16_t)(((a + 0xfff + (a >> 13 & 1)) >> 13) - (112 << 10));
	/* subnormal: the sum is rounded at their last place */
	memcpy(&f, &a, sizeof(f));
	f += 0.5f;
	memcpy(&a, &f, sizeof(a));
	return sign | (uint16_t)(a - 0x3f000000u);
}

#endif
