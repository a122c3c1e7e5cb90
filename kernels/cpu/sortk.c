// SPDX-License-Identifier: MIT
/* Top-k by a heap where k is small, by merging runs where it is not. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/sort_key.h"
#include "kernels/sortk.h"

rlx_k_fn RLX_K(topk);

/* Ordered so that the better of two is the larger key, then smaller index. */
struct item {
	uint64_t	key;
	uint32_t	idx;
};

static bool better(const struct item *x, const struct item *y)
{
	return x->key > y->key || (x->key == y->key && x->idx < y->idx);
}

/* The line's items, strided, a block at a time. */
static void load_items(const struct rlx_k_topk *a, int64_t at, struct item *it)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const bool f = rlx_k_type_float((enum rlx_dtype)a->type);
	const uint64_t turn = a->type == RLX_U64 ? 0 : (uint64_t)1 << 63;
	rlx_convert_fn *load = RLX_K(loader)(f ? RLX_EW_F64 : RLX_EW_I64,
					     a->type);
	const char *x = (const char *)a->x + (size_t)at * size;
	union {
		double		f[64];
		uint64_t	i[64];
	} v;

	for (int64_t i = 0; i < a->n; i += 64) {
		int64_t k = a->n - i < 64 ? a->n - i : 64;

		if (a->inner == 1)
			load(&v, x + (size_t)i * size, (size_t)k);
		for (int64_t j = 0; j < k; j++) {
			uint64_t key;

			if (a->inner != 1)
				load(&v.i[j], x + (size_t)((i + j) * a->inner) *
				     size, 1);
			key = f ? rlx_k_sort_key(v.f[j]) : v.i[j] ^ turn;
			it[i + j].key = a->smallest ? ~key : key;
			it[i + j].idx = (uint32_t)(i + j);
		}
	}
}

/* The worst of the best so far is at the root. */
static void sink(struct item *h, int64_t n, int64_t i)
{
	struct item x = h[i];

	for (int64_t c; (c = 2 * i + 1) < n; i = c) {
		if (c + 1 < n && better(&h[c], &h[c + 1]))
			c++;
		if (!better(&x, &h[c]))
			break;
		h[i] = h[c];
	}
	h[i] = x;
}

static void heap_best(struct item *it, int64_t n, int64_t k)
{
	for (int64_t i = k / 2; i-- > 0;)
		sink(it, k, i);
	for (int64_t i = k; i < n; i++)
		if (better(&it[i], &it[0])) {
			it[0] = it[i];
			sink(it, k, 0);
		}
	for (int64_t m = k; m-- > 1;) {
		struct item x = it[0];

		it[0] = it[m];
		it[m] = x;
		sink(it, m, 0);
	}
}

static void insertion(struct item *it, int64_t n)
{
	for (int64_t i = 1; i < n; i++) {
		struct item x = it[i];
		int64_t j = i;

		for (; j > 0 && better(&x, &it[j - 1]); j--)
			it[j] = it[j - 1];
		it[j] = x;
	}
}

/* Sorted result in the returned one of the two buffers. */
static struct item *merge_sort(struct item *it, struct item *to, int64_t n)
{
	for (int64_t i = 0; i < n; i += 16)
		insertion(it + i, n - i < 16 ? n - i : 16);
	for (int64_t w = 16; w < n; w *= 2) {
		struct item *t = to;

		for (int64_t i = 0; i < n; i += 2 * w) {
			int64_t mid = i + w < n ? i + w : n;
			int64_t end = mid + w < n ? mid + w : n;
			int64_t l = i, r = mid;

			for (int64_t k = i; k < end; k++)
				to[k] = r == end || (l < mid &&
					better(&it[l], &it[r])) ? it[l++]
								: it[r++];
		}
		to = it;
		it = t;
	}
	return it;
}

static void put(const struct rlx_k_topk *a, int64_t o, int64_t c,
		const struct item *it)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);

	for (int64_t i = 0; i < a->k; i++) {
		size_t from = (size_t)((o * a->n + it[i].idx) * a->inner + c);
		size_t to = (size_t)((o * a->k + i) * a->inner + c);

		if (a->values)
			__builtin_memcpy((char *)a->values + to * size,
					 (const char *)a->x + from * size,
					 size);
		if (a->idx && a->idx_type == RLX_I32)
			((int32_t *)a->idx)[to] = (int32_t)it[i].idx;
		else if (a->idx)
			((int64_t *)a->idx)[to] = it[i].idx;
	}
}

void RLX_K(topk)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_topk *a = args;
	struct item *buf = scratch;

	for (size_t u = begin; u < end; u++) {
		int64_t o = (int64_t)u / a->inner, c = (int64_t)u % a->inner;
		struct item *it = buf;

		if (a->k == 0)
			continue;
		load_items(a, o * a->n * a->inner + c, it);
		if (a->k <= a->n / 8)
			heap_best(it, a->n, a->k);
		else
			it = merge_sort(it, it + a->n, a->n);
		put(a, o, c, it);
	}
}
