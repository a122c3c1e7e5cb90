/* SPDX-License-Identifier: MIT */
/* Philox-4x32-10, the counter-based generator of Salmon et al. 2011 (Random123). */
#ifndef RLX_OPS_PHILOX_H
#define RLX_OPS_PHILOX_H

#include <stdint.h>

/*
 * Block @block of the stream of @seed and @call: four words out of the counter
 * { block low, block high, call low, call high } under the key { seed low, seed
 * high }. Every backend draws this way, so that streams agree bit for bit.
 */
static inline void rlx_philox(uint64_t seed, uint64_t call, uint64_t block,
			      uint32_t out[4])
{
	uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
	uint32_t c2 = (uint32_t)call, c3 = (uint32_t)(call >> 32);
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	int round;

	for (round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0;
		uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* [0, 1) in steps of 2^-24, exact in f32 */
static inline double rlx_philox_unit(uint32_t word)
{
	return (double)(word >> 8) * 0x1p-24;
}

/* [0, 1) in steps of 2^-53, for f64 */
static inline double rlx_philox_unit53(uint32_t a, uint32_t b)
{
	return ((double)(a >> 5) * 0x1p26 + (double)(b >> 6)) * 0x1p-53;
}

#endif
