/* SPDX-License-Identifier: MIT */
/*
 * The order of samples: permutations that are computed where they are asked for, so that
 * nothing of them is stored and a run can begin again at any place.
 */
#ifndef RLX_TRAIN_ORDER_H
#define RLX_TRAIN_ORDER_H

#include <stdint.h>

enum { ORDER_ROUNDS = 6 };

/* A permutation of [0, n). */
struct order {
	uint64_t	n, mask;	/* mask: of half the bits */
	unsigned int	half;		/* bits of one half; 0: in place, no permutation */
	uint64_t	key[ORDER_ROUNDS];
};

/*
 * The permutation of [0, n) that (seed, epoch, what) name; @what tells apart those of one
 * epoch: of chunks, of records in a window.
 */
void order_init(struct order *o, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t what);
/* Everything where it is. */
void order_init_identity(struct order *o, uint64_t n);
/* Where place @i < n goes. */
uint64_t order_at(const struct order *o, uint64_t i);

/* A word that depends on every bit of @x. */
uint64_t order_mix(uint64_t x);

#endif
