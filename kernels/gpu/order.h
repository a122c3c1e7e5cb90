/* SPDX-License-Identifier: MIT */
/*
 * Items of a line, an element's key and where it is, in their order: best first, equal ones by
 * index. What topk.cu, topk_warp.cu, topk_block.cu and topk_radix.cu sort, topk_select.cu selects
 * and knn.cu measures.
 */
#ifndef RLX_G_ORDER_H
#define RLX_G_ORDER_H

#include "kernels/gpu/accumulate.h"
#include "kernels/sortk.h"

/* An unsigned integer in the order of the values, as wide as they are. */
template <bool WIDE> struct key_of_width { typedef uint32_t type; };
template <> struct key_of_width<true> { typedef uint64_t type; };

#define KEY_WIDE	(ELEM_TYPE == RLX_F64 || ELEM_TYPE == RLX_I64 || ELEM_TYPE == RLX_U64)
typedef key_of_width<KEY_WIDE>::type key_type;

#define IS_SIGNED	(ELEM_TYPE == RLX_I64 || ELEM_TYPE == RLX_I32 || \
			 ELEM_TYPE == RLX_I16 || ELEM_TYPE == RLX_I8)

/* Keys of elements of type M have its bits. */
template <class M> static DEV constexpr key_type most_key(void)
{
	return ~(key_type)0 >> 8 * (sizeof(key_type) - sizeof(M));
}

/* Floats, @x being @v: one zero, one NaN above all. */
template <class M, class V> static DEV inline key_type float_key(M x, V v)
{
	const key_type most = most_key<M>(), sign = most / 2 + 1;
	key_type b = 0;

	if (v != v)
		return most;
	if (v == 0)
		return sign;
	memcpy(&b, &x, sizeof(x));
	return b & sign ? ~b & most : b | sign;
}

static DEV inline key_type value_key(mem x)
{
	const key_type most = most_key<mem>();

	if (IS_FLOAT)
		return float_key(x, elem::get(x));
	return ((key_type)elem::get(x) ^ (IS_SIGNED ? most / 2 + 1 : 0)) & most;
}

/* Larger is better. */
static DEV inline key_type key_of(const struct rlx_k_topk &a, mem x)
{
	key_type key = value_key(x);

	return a.smallest ? ~key : key;
}

/* A narrow key and the index are one number. */
template <bool WIDE> struct item_of_width {
	uint64_t	bits;

	DEV uint32_t at() const { return ~(uint32_t)bits; }
	DEV key_type order(void) const { return (key_type)(bits >> 32); }
	DEV bool better_than(const item_of_width &o) const { return bits > o.bits; }
	DEV item_of_width of_lane_xor(int m) const { return { warp_xor(bits, m) }; }
	static DEV item_of_width of(key_type key, uint32_t at)
	{
		return { (uint64_t)key << 32 | (uint32_t)~at };
	}
};

template <> struct item_of_width<true> {
	uint64_t	key, place;

	DEV uint32_t at() const { return (uint32_t)place; }
	DEV key_type order(void) const { return (key_type)key; }
	DEV bool better_than(const item_of_width &o) const
	{
		return key > o.key || (key == o.key && place < o.place);
	}
	DEV item_of_width of_lane_xor(int m) const
	{
		return { warp_xor(key, m), warp_xor(place, m) };
	}
	static DEV item_of_width of(key_type key, uint32_t at) { return { key, at }; }
};

typedef item_of_width<KEY_WIDE> item;

/* Behind every element. */
static DEV inline item no_item(void)
{
	return item::of(0, ~0u);
}

/* A line's first element, and where its first result goes. */
struct line {
	const mem	*x;
	int64_t		to;
};

static DEV inline struct line line_of(const struct rlx_k_topk &a, const struct rlx_g_env &env,
				      int64_t l)
{
	int64_t o = a.inner == 1 ? l : l / a.inner, c = l - o * a.inner;

	return { RLX_G_PTR(const mem, a.x) + o * a.n * a.inner + c, o * a.k * a.inner + c };
}

/* Its result @i is element @at of it. */
static DEV inline void put_result(const struct rlx_k_topk &a, const struct rlx_g_env &env,
				  struct line l, int64_t i, int64_t at)
{
	int64_t to = l.to + i * a.inner;
	mem *values = RLX_G_PTR(mem, a.values);
	void *idx = RLX_G_PTR(void, a.idx);

	if (values)
		values[to] = l.x[at * a.inner];
	if (idx && a.idx_type == RLX_I32)
		((int32_t *)idx)[to] = (int32_t)at;
	else if (idx)
		((int64_t *)idx)[to] = at;
}

/* Best first, of the power of two @n of them, by a block of @threads. Ends with a barrier. */
static DEV inline void bitonic_sort(item *s, int n, int threads)
{
	for (int size = 2; size <= n; size *= 2)
		for (int step = size / 2; step; step /= 2) {
			for (int t = (int)threadIdx.x; t < n / 2; t += threads) {
				int i = (t & ~(step - 1)) * 2 + (t & (step - 1)), j = i + step;
				item p = s[i], q = s[j];

				if (q.better_than(p) == !(i & size)) {
					s[i] = q;
					s[j] = p;
				}
			}
			__syncthreads();
		}
}

/*
 * @put(i, x) for the @k best x of @n, best first, by a block of @THREADS: few by counting for each
 * the better ones. There is room in @s for a power of two. Ends with a barrier.
 */
template <int THREADS, typename PUT>
static DEV inline void put_best(item *s, int n, int k, PUT put)
{
	int whole = 1;

	if (n <= 128) {
		for (int i = (int)threadIdx.x; i < n; i += THREADS) {
			item own = s[i];
			int better = 0;

			for (int j = 0; j < n; j++)
				better += s[j].better_than(own);
			if (better < k)
				put(better, own);
		}
		__syncthreads();
		return;
	}
	while (whole < n)
		whole *= 2;
	for (int i = n + (int)threadIdx.x; i < whole; i += THREADS)
		s[i] = no_item();
	__syncthreads();
	bitonic_sort(s, whole, THREADS);
	for (int i = (int)threadIdx.x; i < k; i += THREADS)
		put(i, s[i]);
	__syncthreads();
}

#endif
