// SPDX-License-Identifier: MIT
/*
 * Permutations as Feistel networks: over the smallest even number of bits that has room for
 * n, and what falls outside [0, n) is permuted again until it is inside (cycle walking), which
 * keeps it a bijection. At most four times n values exist, so that takes four rounds a sample
 * on average at worst.
 */
#include "train/order.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t order_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void order_init_identity(struct order *o, uint64_t n)
{
	*o = (struct order){ .n = n };
}

void order_init(struct order *o, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t what)
{
	uint64_t k = order_mix(order_mix(order_mix(seed) ^ epoch) ^ what);
	unsigned int i;

	order_init_identity(o, n);
	if (n < 2)
		return;
	for (o->half = 1; o->half < 32 && (n - 1) >> (2 * o->half); o->half++)
		;
	o->mask = (1ull << o->half) - 1;
	for (i = 0; i < ORDER_ROUNDS; i++)
		o->key[i] = k = order_mix(k);
}

uint64_t order_at(const struct order *o, uint64_t i)
{
	uint64_t l, r, t;
	unsigned int k;

	if (!o->half)
		return i;
	do {
		l = i >> o->half;
		r = i & o->mask;
		for (k = 0; k < ORDER_ROUNDS; k++) {
			t = l ^ (order_mix(r ^ o->key[k]) & o->mask);
			l = r;
			r = t;
		}
		i = l << o->half | r;
	} while (i >= o->n);
	return i;
}
