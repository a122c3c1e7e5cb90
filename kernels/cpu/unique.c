// SPDX-License-Identifier: MIT
/* Distinct slices: keys in the order of elements, slices sorted by them, runs of equal ones. */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/sort_key.h"
#include "kernels/unique.h"

rlx_k_fn RLX_K(unique);

enum { BLOCK = RLX_K_UNIQUE_BLOCK };

/* A slice: the key of its first element, and which one it is. */
struct item {
	uint64_t	key;
	int64_t		idx;
};

/* Slices of @m elements, whose keys lie side by side. */
struct slices {
	const uint64_t	*key;
	int64_t		m;
};

static int compare(const struct slices *s, const struct item *x, const struct item *y)
{
	const uint64_t *a = s->key + x->idx * s->m, *b = s->key + y->idx * s->m;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	for (int64_t i = 1; i < s->m; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

static bool before(const struct slices *s, const struct item *x, const struct item *y)
{
	int c = compare(s, x, y);

	return c ? c < 0 : x->idx < y->idx;
}

/* Of all elements of slices [from, to). */
static void load_keys(const struct rlx_k_unique *a, uint64_t *key, int64_t from, int64_t to)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const bool f = rlx_k_type_float((enum rlx_dtype)a->type);
	const uint64_t turn = a->type == RLX_U64 ? 0 : (uint64_t)1 << 63;
	rlx_convert_fn *load = RLX_K(loader)(f ? RLX_EW_F64 : RLX_EW_I64, a->type);
	const int64_t m = a->pre * a->post;
	union {
		double		f[64];
		uint64_t	i[64];
	} v;

	for (int64_t p = 0; p < a->pre; p++) {
		int64_t k = from, o = 0;

		for (int64_t e = from * a->post; e < to * a->post; e += 64) {
			int64_t n = to * a->post - e < 64 ? to * a->post - e : 64;

			load(&v, (const char *)a->x + (size_t)(p * a->n * a->post + e) * size,
			     (size_t)n);
			for (int64_t i = 0; i < n; i++) {
				key[k * m + p * a->post + o] =
					f ? rlx_k_sort_key(v.f[i]) : v.i[i] ^ turn;
				if (++o == a->post) {
					o = 0;
					k++;
				}
			}
		}
	}
}

/* Of runs of w make runs of @longest or more, in the returned one of the two buffers. */
static struct item *merge_runs(const struct slices *s, struct item *it, struct item *to, int64_t n,
			       int64_t w, int64_t longest)
{
	for (; w < longest; w *= 2) {
		struct item *t = to;

		for (int64_t i = 0; i < n; i += 2 * w) {
			int64_t mid = i + w < n ? i + w : n, end = mid + w < n ? mid + w : n;
			int64_t l = i, r = mid;

			for (int64_t k = i; k < end; k++)
				to[k] = r == end || (l < mid && before(s, &it[l], &it[r])) ?
						it[l++] : it[r++];
		}
		to = it;
		it = t;
	}
	return it;
}

static void sort_block(const struct rlx_k_unique *a, const struct slices *s, uint64_t *key,
		       size_t unit)
{
	int64_t from = (int64_t)unit * BLOCK, to = a->n - from < BLOCK ? a->n : from + BLOCK;
	struct item *it = a->work;

	load_keys(a, key, from, to);
	for (int64_t i = from; i < to; i++)
		it[i] = (struct item){ s->m ? key[i * s->m] : 0, i };
	merge_runs(s, it + from, it + a->n + from, to - from, 1, BLOCK);
}

/* Groups that were numbered by their order, by where they stand first. */
static void number_as_met(const struct rlx_k_unique *a, int64_t *work)
{
	const size_t bytes = (size_t)a->count * sizeof(int64_t);
	int64_t *rank = work, *first = rank + a->count, *counts = first + a->count, next = 0;

	memcpy(first, a->first, bytes);
	memcpy(counts, a->counts, bytes);
	for (int64_t i = 0; i < a->n; i++) {
		int64_t g = a->inverse[i];

		if (first[g] == i)
			rank[g] = next++;
		a->inverse[i] = rank[g];
	}
	for (int64_t g = 0; g < a->count; g++) {
		a->first[rank[g]] = first[g];
		a->counts[rank[g]] = counts[g];
	}
}

static void write_groups(const struct rlx_k_unique *a, const struct slices *s,
			 const struct item *it)
{
	int64_t g = -1;

	for (int64_t i = 0; i < a->n; i++) {
		/* equal slices stand in order of position */
		if (!i || compare(s, &it[i - 1], &it[i])) {
			a->first[++g] = it[i].idx;
			a->counts[g] = 0;
		}
		a->inverse[it[i].idx] = g;
		a->counts[g]++;
	}
	if (a->unsorted)
		number_as_met(a, a->work);
}

void RLX_K(unique)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_unique *a = args;
	const size_t post = (size_t)a->post * rlx_k_type_size((enum rlx_dtype)a->type);
	struct item *it = a->work;
	uint64_t *key = (uint64_t *)(it + 2 * a->n);
	struct slices s = { key, a->pre * a->post };
	int64_t have = a->n > 0, i, p;

	(void)scratch;
	for (size_t u = begin; a->sort && u < end; u++)
		sort_block(a, &s, key, u);
	if (a->sort || begin == end)
		return;
	it = merge_runs(&s, it, it + a->n, a->n, BLOCK, a->n);
	for (i = 1; i < a->n; i++)
		have += compare(&s, &it[i - 1], &it[i]) != 0;
	if (a->only_count) {
		*a->counts = have;
		return;
	}
	if (have != a->count) {
		__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
		return;
	}
	write_groups(a, &s, it);
	for (p = 0; p < a->pre; p++)
		for (i = 0; i < a->count; i++)
			memcpy((char *)a->y + (size_t)(p * a->count + i) * post,
			       (const char *)a->x + (size_t)(p * a->n + a->first[i]) * post, post);
}
