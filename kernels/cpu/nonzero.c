// SPDX-License-Identifier: MIT
/* Positions of elements that are not zero: counted by blocks, then written. */
#include "kernels/kernel.h"
#include "kernels/nonzero.h"

rlx_k_fn RLX_K(nonzero);

enum { BLOCK = RLX_K_NONZERO_BLOCK };

/* How many of n elements have one of the bits of mask; where, with @at. */
#define SCAN(T)								\
static int64_t scan_##T(const T *x, int64_t n, T mask, uint32_t *at)	\
{									\
	int64_t k = 0, i;						\
									\
	if (!at) {							\
		for (i = 0; i < n; i++)					\
			k += (x[i] & mask) != 0;			\
		return k;						\
	}								\
	for (i = 0; i < n; i++) {					\
		at[k] = (uint32_t)i;					\
		k += (x[i] & mask) != 0;				\
	}								\
	return k;							\
}
SCAN(uint8_t)
SCAN(uint16_t)
SCAN(uint32_t)
SCAN(uint64_t)

static int64_t scan(const struct rlx_k_nonzero *a, size_t unit, uint32_t *at)
{
	int64_t from = (int64_t)unit * BLOCK, n = a->n - from < BLOCK ? a->n - from : BLOCK;
	/* a zero may have a sign */
	uint64_t mask = ~(uint64_t)0 >> rlx_k_type_float((enum rlx_dtype)a->type);

	switch (rlx_k_type_size((enum rlx_dtype)a->type)) {
	case 1: return scan_uint8_t((const uint8_t *)a->x + from, n, (uint8_t)(mask >> 56), at);
	case 2: return scan_uint16_t((const uint16_t *)a->x + from, n, (uint16_t)(mask >> 48), at);
	case 4: return scan_uint32_t((const uint32_t *)a->x + from, n, (uint32_t)(mask >> 32), at);
	default: return scan_uint64_t((const uint64_t *)a->x + from, n, mask, at);
	}
}

/* Coordinates of n elements, found at @at behind @from, the first of which is the k-th. */
static void write_found(const struct rlx_k_nonzero *a, int64_t from, const uint32_t *at,
			int64_t n, int64_t k)
{
	const int last = a->rank - 1;
	int64_t idx[RLX_K_DIMS], row = 0, end = 0;

	for (int64_t i = 0; i < n && last >= 0; i++, k++) {
		int64_t p = from + at[i];

		if (p >= end) {
			row = p / a->dim[last];
			end = (row + 1) * a->dim[last];
			for (int d = last; d-- > 0; row /= a->dim[d])
				idx[d] = row % a->dim[d];
		}
		for (int d = 0; d < last; d++)
			a->y[d * a->count + k] = idx[d];
		a->y[last * a->count + k] = p - (end - a->dim[last]);
	}
}

void RLX_K(nonzero)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_nonzero *a = args;
	int64_t before = 0, all = 0, n;

	if (!a->y) {
		for (size_t u = begin; u < end; u++)
			a->found[u] = scan(a, u, NULL);
		return;
	}
	for (size_t u = 0; u < rlx_k_nonzero_units(a); u++) {
		before += u < begin ? a->found[u] : 0;
		all += a->found[u];
	}
	if (all != a->count) {
		__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
		return;
	}
	for (size_t u = begin; u < end; u++, before += a->found[u - 1]) {
		n = scan(a, u, scratch);
		/* x may be memory that others write meanwhile: y has room for what was counted */
		if (n != a->found[u]) {
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
			n = n < a->found[u] ? n : a->found[u];
		}
		write_found(a, (int64_t)u * BLOCK, scratch, n, before);
	}
}
