/* SPDX-License-Identifier: MIT */
/* Random numbers by Philox-4x32-10, and sampling from logits. */
#ifndef RLX_K_RANDOM_H
#define RLX_K_RANDOM_H

#include "kernels/type.h"

/*
 * Four words for a counter and a key, as published (Salmon et al. 2011):
 * multipliers 0xd2511f53 and 0xcd9e8d57, key increments 0x9e3779b9, 0xbb67ae85.
 */
static inline void rlx_k_philox(const uint32_t ctr[4], const uint32_t key[2],
			      uint32_t out[4])
{
	uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];
	uint32_t k0 = key[0], k1 = key[1];

	for (int i = 0; i < 10; i++) {
		uint64_t a = (uint64_t)0xd2511f53 * c0;
		uint64_t b = (uint64_t)0xcd9e8d57 * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)a;
		k0 += 0x9e3779b9;
		k1 += 0xbb67ae85;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/*
 * Kernel: rng. Block j has the counter (low, high word of j, low, high word of
 * call) and the key (low, high word of seed). f64 takes two numbers of a block,
 *	u = ((word0 >> 5) * 2^26 + (word1 >> 6)) / 2^53, likewise words 2 and 3;
 * other types four, u = (word >> 8) / 2^24. In f64, then rounded to the type:
 *	uniform: a + (b - a) u
 *	normal (Box-Muller), of each pair of numbers: with
 *		r = sqrt(-2 log(1 - u0)) and t = 2 pi u1,
 *		a + b (r cos t), then a + b (r sin t)
 * One unit is RLX_K_RNG_UNIT elements; there are ceil(n / RLX_K_RNG_UNIT).
 * Scratch: 0. Built at the base level alone, where nothing is contracted.
 */
#define RLX_K_RNG_UNIT	4096

struct rlx_k_rng {
	void		*y;
	const int64_t	*call;		/* or NULL: call 0 */
	int64_t		n, seed;
	double		a, b;		/* low, high or mean, deviation */
	bool		normal;
	uint8_t		type;		/* a float type */
};

/*
 * Kernel: sample. One column of each row of x [rows, n], of the classes in order
 * from the largest, of equals the smaller index first:
 *  1. temperature 0: the first
 *  2. p = exp((x - max x) / temperature)
 *  3. top_k > 0: only the first top_k stay
 *  4. 0 < top_p < 1: of those the fewest whose sum reaches top_p of the sum
 *  5. the first at which the running sum exceeds u times the sum,
 *     u = (word0 >> 8) / 2^24 of block number row, as in rng
 * A row with a NaN, or whose largest value is infinite (no finite sum), gives 0
 * and sets *bad to 1. n is at least 1.
 * One unit is one row; there are @rows. Scratch: rlx_k_sample_scratch().
 */
struct rlx_k_sample {
	const float	*x;
	const int64_t	*call;		/* or NULL: call 0 */
	int64_t		*y;
	int32_t		*bad;
	int64_t		rows, n, seed, top_k;
	float		top_p, temperature;
	int64_t		live;		/* rows that carry data: others are never bad */
};

static inline size_t rlx_k_sample_scratch(const struct rlx_k_sample *a)
{
	return (size_t)a->n * (sizeof(double) + sizeof(uint32_t)) +
	       256 * sizeof(double);
}

#endif
