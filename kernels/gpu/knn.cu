// SPDX-License-Identifier: MIT
/*
 * The nearest neighbours of points among candidates that a matrix product has ranked.
 *
 * Algorithm: a block a row, a warp a candidate at a time: its lanes go along both points, and their
 * sums meet by shuffles. Distances become integers in their order, with the id below them, and few
 * are put in order by counting for each the nearer ones, more by a bitonic network. KNN_STEP 1:
 * lengths, a warp a row. KNN_STEP 2: of f32 three numbers of bf16 that add up to it, so that tensor
 * cores rank as well as sums of f32 would; of their nine products six are within 2^-24.
 * Traffic: of each row x once, and its candidates' rows of y, from the L2 where y fits it.
 * Limits: sums are of f32; RLX_K_KNN_MOST candidates of a row, which are in shared memory.
 */
#define ELEM_TYPE	RLX_F32
#include "kernels/gpu/order.h"
#include "kernels/knn.h"

typedef rlx_t<KNN_TYPE> coord;

#define THREADS	RLX_K_KNN_THREADS
#define WARPS	(THREADS / WARP)

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
	return item::of(itself ? 0 : ~float_key(s, s), id);
}

static DEV inline float distance_of(item x)
{
	key_type key = ~(key_type)(x.bits >> 32);
	float s;

	key = key >> 31 ? key << 1 >> 1 : ~key;
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

typedef rlx_t<RLX_BF16> term;

/* What is not finite has nothing behind its first term. */
static DEV inline void split(float x, term::mem b[3])
{
#pragma unroll
	for (int i = 0; i < 3; i++) {
		float f;

		b[i] = term::put(x);
		f = term::get(b[i]);
		x = f - f == 0 ? x - f : 0;
	}
}

/*
 * The smallest products come first: digits say which term each is of, from the lowest on. What is
 * not finite is in the last product alone: the others have terms that are 0, which make it NaN.
 */
static DEV inline void put_terms(const struct rlx_k_knn &a, const struct rlx_g_env &env)
{
	const uint32_t which = a.left ? 0x010201 : 0x001021;
	const coord::mem *x = RLX_G_PTR(const coord::mem, a.x);
	term::mem *to = RLX_G_PTR(term::mem, a.split);

	for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.rows * a.d;
	     i += (int64_t)gridDim.x * THREADS) {
		int64_t row = i / a.d, p = i - row * a.d;
		term::mem b[3];
		float first;

		split(coord::get(x[i]), b);
		first = term::get(b[0]);
#pragma unroll
		for (int t = 0; t < RLX_K_KNN_TERMS; t++) {
			uint32_t k = which >> 4 * t & 3;

			if (first - first != 0 && t < RLX_K_KNN_TERMS - 1)
				k = 1;	/* which is 0 */
			to[(row * RLX_K_KNN_TERMS + t) * a.d + p] = k == 0 ? b[0] :
								     k == 1 ? b[1] : b[2];
		}
	}
}

RLX_G_KERNEL(knn, struct rlx_k_knn, RLX_K_KNN_THREADS)
{
	SHARED_DYNAMIC(shared);
	item *found = (item *)shared;

	if (KNN_STEP) {
		if (KNN_STEP == 1)
			put_norms(a, env);
		else
			put_terms(a, env);
		return;
	}
	for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
		measure(a, env, row, found);
		__syncthreads();
		put_best<THREADS>(found, (int)a.kept, (int)a.k, [&](int i, item x) {
			put_neighbour(a, env, row * a.k + i, x);
		});
	}
}
