// SPDX-License-Identifier: MIT
/*
 * The nearest neighbours of points among candidates that a matrix product has ranked.
 *
 * Algorithm: a block a row, a warp a candidate at a time: its lanes go along both points, and their
 * sums meet by shuffles. Distances become integers in their order, with the id below them, and few
 * are put in order by counting for each the nearer ones, more by a bitonic network. Lengths, with
 * KNN_NORMS: a warp a row.
 * Traffic: of each row x once, and its candidates' rows of y, from the L2 where y fits it.
 * Limits: sums are of f32; RLX_K_KNN_MOST candidates of a row, which are in shared memory.
 */
#define ELEM_TYPE	RLX_F32
#include "kernels/gpu/order.h"
#include "kernels/knn.h"

typedef rlx_t<KNN_TYPE> coord;

#define THREADS	RLX_K_KNN_THREADS
#define WARPS	(THREADS / WARP)
#define FEW	128

/* By a warp: the sum of x y, or of (x - y)^2. */
static DEV inline float sum_of(const coord::mem *x, const coord::mem *y, int64_t d, bool product)
{
	float s = 0;

	for (int64_t i = lane_id(); i < d; i += WARP) {
		float u = coord::get(x[i]), v = coord::get(y[i]);

		s += product ? u * v : (u - v) * (u - v);
	}
	return warp_reduce<op_sum>(s);
}

/* Nearest is best. NaN is as far as infinity, and behind all there is the point itself. */
static DEV inline item item_at(float s, uint32_t id, bool itself)
{
	if (s != s)
		s = INFINITY;
	return item::of(itself ? 0 : ~float_key(s), id);
}

static DEV inline float distance_of(item x)
{
	key_type key = ~(key_type)(x.bits >> 32);
	float s;

	key = key & KEY_SIGN ? key ^ KEY_SIGN : ~key;
	memcpy(&s, &key, sizeof(s));
	return s;
}

static DEV inline void put_neighbour(const struct rlx_k_knn &a, const struct rlx_g_env &env,
				     int64_t at, item x)
{
	float s = distance_of(x);

	RLX_G_PTR(float, a.distance)[at] = a.root ? sqrtf(s) : s;
	RLX_G_PTR(int32_t, a.ids)[at] = (int32_t)x.at();
}

/* All candidates of a row to @found. */
static DEV inline void measure(const struct rlx_k_knn &a, const struct rlx_g_env &env, int64_t row,
			       item *found)
{
	const coord::mem *x = RLX_G_PTR(const coord::mem, a.x) + row * a.d;
	const coord::mem *y = RLX_G_PTR(const coord::mem, a.y);
	const int32_t *near = RLX_G_PTR(const int32_t, a.near) + row * a.kept;

#pragma unroll 4
	for (int c = warp_id(); c < (int)a.kept; c += WARPS) {
		int32_t id = near[c];
		float s = sum_of(x, y + id * a.d, a.d, a.product);

		if (lane_id() == 0)
			found[c] = item_at(a.product ? -s : s, (uint32_t)id,
					   a.self && id == a.first + row);
	}
}

/* The @k best of @found. */
static DEV inline void put_nearest(const struct rlx_k_knn &a, const struct rlx_g_env &env,
				   int64_t row, item *found)
{
	int n = (int)a.kept, whole = 1;

	if (n <= FEW) {
		for (int i = (int)threadIdx.x; i < n; i += THREADS) {
			int nearer = 0;

			for (int j = 0; j < n; j++)
				nearer += found[j].better_than(found[i]);
			if (nearer < a.k)
				put_neighbour(a, env, row * a.k + nearer, found[i]);
		}
		return;
	}
	while (whole < n)
		whole *= 2;
	for (int i = n + (int)threadIdx.x; i < whole; i += THREADS)
		found[i] = no_item();
	__syncthreads();
	bitonic_sort(found, whole, THREADS);
	for (int i = (int)threadIdx.x; i < a.k; i += THREADS)
		put_neighbour(a, env, row * a.k + i, found[i]);
}

static DEV inline void put_norms(const struct rlx_k_knn &a, const struct rlx_g_env &env)
{
	const coord::mem *x = RLX_G_PTR(const coord::mem, a.x);

	for (int64_t row = (int64_t)blockIdx.x * WARPS + warp_id(); row < a.rows;
	     row += (int64_t)gridDim.x * WARPS) {
		float s = sum_of(x + row * a.d, x + row * a.d, a.d, true);

		if (lane_id() == 0)
			RLX_G_PTR(float, a.distance)[row] = s;
	}
}

RLX_G_KERNEL(knn, struct rlx_k_knn, RLX_K_KNN_THREADS)
{
	SHARED_DYNAMIC(shared);
	item *found = (item *)shared;

	if (KNN_NORMS) {
		put_norms(a, env);
		return;
	}
	for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
		measure(a, env, row, found);
		__syncthreads();
		put_nearest(a, env, row, found);
		__syncthreads();
	}
}
