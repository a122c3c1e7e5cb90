/* SPDX-License-Identifier: MIT */
/* Random numbers by Philox-4x32-10, and sampling from logits. */
#ifndef RLX_K_RANDOM_H
#define RLX_K_RANDOM_H

#include "kernels/type.h"

/*
 * Four words for a counter and a key, as published (Salmon et al. 2011):
 * multipliers 0xd2511f53 and 0xcd9e8d57, key increments 0x9e3779b9, 0xbb67ae85.
 */
static inline void rlx_philox(const uint32_t ctr[4], const uint32_t key[2],
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
 * Kernel: rng. Element i takes word i % 4 of the block with counter
 * (low, high word of i / 4, low, high word of call) and key (low, high word
 * of seed); t = (word >> 8) / 2^24.
 *	uniform: fma(t, b - a, a), in f64, then rounded to the type
 *	normal (Box-Muller): of each pair of words, with
 *		r = sqrt(-2 log(((word0 >> 8) + 1) / 2^24)) and t of word1,
 *		a + b r cos(2 pi t), then a + b r sin(2 pi t)
 * One unit is RLX_K_RNG_UNIT elements; there are ceil(n / RLX_K_RNG_UNIT).
 * Scratch: 0.
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
 * Kernel: sample. One token of each row of logits [rows, n]:
 *  1. temperature <= 0: the largest (of equals the smallest index; NaN never)
 *  2. p = exp((x - max x) / temperature); NaN counts as 0
 *  3. top_k > 0: only the k largest stay (of equals the smaller indices)
 *  4. 0 < top_p < 1: of those the largest whose sum first reaches top_p of the
 *     sum (same order)
 *  5. the first index at which the running sum in index order exceeds
 *     u * sum, u = (word0 * 2^32 + word1 >> 11) / 2^53 of the block with
 *     counter (low, high word of row, low, high word of call), key as in rng
 * One unit is one row; there are @rows. Scratch: rlx_k_sample_scratch().
 */
struct rlx_k_sample {
	const float	*x;
	const int64_t	*call;		/* or NULL: call 0 */
	int64_t		*y;
	int64_t		rows, n, seed, top_k;
	float		top_p, temperature;
};

static inline size_t rlx_k_sample_scratch(const struct rlx_k_sample *a)
{
	return (size_t)a->n * (sizeof(double) + sizeof(uint32_t)) +
	       256 * sizeof(double);
}

#endif
