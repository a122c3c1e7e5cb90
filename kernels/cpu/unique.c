// SPDX-License-Identifier: MIT
/* Distinct slices: keys in the order of elements, slices sorted by them, runs of equal ones. */
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/sort_key.h"
#include "kernels/unique.h"

rlx_k_fn RLX_K(unique);

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

static void load_keys(const struct rlx_k_unique *a, uint64_t *key)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const bool f = rlx_k_type_float((enum rlx_dtype)a->type);
	const uint64_t turn = a->type == RLX_U64 ? 0 : (uint64_t)1 << 63;
	rlx_convert_fn *load = RLX_K(loader)(f ? RLX_EW_F64 : RLX_EW_I64, a->type);
	const int64_t row = a->n * a->post, m = a->pre * a->post;
	union {
		double		f[64];
		uint64_t	i[64];
	} v;

	for (int64_t p = 0; p < a->pre; p++) {
		int64_t k = 0, o = 0;

		for (int64_t e = 0; e < row; e += 64) {
			int64_t n = row - e < 64 ? row - e : 64;

			load(&v, (const char *)a->x + (size_t)(p * row + e) * size, (size_t)n);
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

/* Sorted result in the returned one of the two buffers. */
static struct item *merge_sort(const struct slices *s, struct item *it, struct item *to, int64_t n)
{
	for (int64_t w = 1; w < n; w *= 2) {
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
	if (begin == end)
		return;
	load_keys(a, key);
	for (i = 0; i < a->n; i++)
		it[i] = (struct item){ s.m ? key[i * s.m] : 0, i };
	it = merge_sort(&s, it, it + a->n, a->n);
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
