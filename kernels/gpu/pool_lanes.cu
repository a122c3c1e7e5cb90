// SPDX-License-Identifier: MIT
/*
 * Pools whose windows have many elements, global ones above all.
 *
 * Algorithm: POOL_LANES threads share a window: each takes every POOL_LANES-th of its elements as
 * they follow in memory, and what they fold into is put together in one fixed order. Rows of the
 * window that follow one another are one row, so a global pool reads its plane as a line.
 * Of planes, a window's threads are neighbours, as its elements are: a part of a warp, or a block.
 * Channels last: neighbours have neighbouring channels of one place, up to 16 bytes each, and a
 * window's threads are 256 / POOL_LANES apart.
 * Traffic: x once for each window that holds it, y once. Limits: as pool.cu.
 */
#include "kernels/gpu/pool.h"

enum {
	LANES	= POOL_LANES,
	ITEMS	= 256 / LANES,	/* windows of a block at a time */
};

/* Elements of a window, by three dimensions of which the last ones are as long as can be. */
struct walk {
	place	at, n[3], step[3];

	DEV void begin(const struct pool_dim *m, const struct pool_span *w)
	{
		at = 0;
		for (int i = 0; i < 3; i++) {
			at = at * m[i].in + w[i].at + w[i].from * m[i].d;
			n[i] = w[i].to - w[i].from;
		}
		step[2] = m[2].d;
		step[1] = m[1].d * m[2].in;
		step[0] = m[0].d * m[1].in * m[2].in;
		if (step[1] == n[2] * step[2]) {
			n[2] *= n[1];
			n[1] = 1;
		}
		if (n[1] == 1 && step[0] == n[2] * step[2]) {
			n[2] *= n[0];
			n[0] = 1;
		}
	}
	DEV place total(void) const { return n[0] * n[1] * n[2]; }
};

/*
 * @fn of every LANES-th element from number @share on, and of its place; @x: of the plane
 * and channel
 */
template <class FN> static DEV inline void each_of(const struct rlx_k_pool &a,
						   const struct walk &w, const mem *x, place share,
						   FN fn)
{
	place q[3], by[3], total = w.total();

	if (!total)
		return;
	by[0] = pool_divide(pool_divide(LANES, w.n[2], &by[2]), w.n[1], &by[1]);
	q[0] = pool_divide(pool_divide(share, w.n[2], &q[2]), w.n[1], &q[1]);
#pragma unroll 4
	for (place t = share; t < total; t += LANES) {
		place at = w.at + q[0] * w.step[0] + q[1] * w.step[1] + q[2] * w.step[2];
		struct pool_vec<VEC> v = *(const struct pool_vec<VEC> *)
			(x + (int64_t)at * pool_channels(a));
		bool over;

		fn(v, at);
		q[2] += by[2];
		over = q[2] >= w.n[2];
		q[2] -= over ? w.n[2] : 0;
		q[1] += by[1] + over;
		over = q[1] >= w.n[1];
		q[1] -= over ? w.n[1] : 0;
		q[0] += by[0] + over;
	}
}

/* A window's parts by @join, of which the first thread gets the whole. */
template <class JOIN> static DEV inline struct pool_cell meet(struct pool_cell v,
							      struct pool_cell *smem, JOIN join)
{
	const int apart = LAST ? (int)ITEMS : WARP;

	for (int i = 1; !LAST && i < LANES && i < WARP; i *= 2) {
		struct pool_cell o = { warp_xor(v.v, i), INDEX ? warp_xor(v.at, i) : -1 };

		v = join(v, o);
	}
	if (!LAST && LANES <= WARP)
		return v;
	smem[threadIdx.x] = v;
	__syncthreads();
	for (int i = (int)threadIdx.x + apart; i < 256; i += apart)
		v = join(v, smem[i]);
	__syncthreads();
	return v;
}

/* The same, of numbers, which all threads get. */
template <class JOIN> static DEV inline double meet_all(double v, struct pool_cell *smem, JOIN join)
{
	v = meet(pool_cell{ (sum)v, -1 }, smem, [&](struct pool_cell x, struct pool_cell y) {
		return pool_cell{ (sum)join(x.v, y.v), -1 };
	}).v;
	if (!LAST && LANES <= WARP)
		return v;
	smem[threadIdx.x].v = (sum)v;
	__syncthreads();
	v = smem[LAST ? threadIdx.x % ITEMS : 0].v;
	__syncthreads();
	return v;
}

/* Is it so for any thread of the block? */
static DEV inline bool any_of_block(bool so)
{
	SHARED(int, any, [1]);

	if (!threadIdx.x)
		any[0] = 0;
	__syncthreads();
	if (so)
		any[0] = 1;
	__syncthreads();
	so = any[0];
	__syncthreads();
	return so;
}

/* The norm of channel @e of a window, all threads of the block together. */
static DEV inline mem norm_again(const struct rlx_k_pool &a, const struct walk &w, const mem *x,
				 place share, int e, struct pool_cell *smem)
{
	auto each = [&](auto fn) {
		each_of(a, w, x, share, [&](struct pool_vec<VEC> v, place) { fn(v.v[e]); });
	};
	auto most = [&](double v) {
		return meet_all(v, smem, [](double p, double q) {
			return p > q || p != p ? p : q;
		});
	};
	auto total = [&](double v) {
		return meet_all(v, smem, [](double p, double q) { return p + q; });
	};

	return pool_norm(a, each, most, total);
}

static DEV inline void one_window(const struct rlx_k_pool &a, const struct rlx_g_env &env,
				  const struct pool_dim *m, int64_t window, bool live,
				  struct pool_cell *smem)
{
	place share = (place)(LAST ? threadIdx.x / ITEMS : threadIdx.x % LANES), c = 0, o[3] = {};
	place rest = (place)window, channels = pool_channels(a);
	struct pool_cell acc[VEC];
	struct pool_vec<VEC> y;
	struct pool_span w[3];
	struct walk from;
	bool lossy = false;
	const mem *x;

	if (LAST)
		rest = pool_divide(rest, channels / VEC, &c);
	for (int i = 2; i >= (LAST ? 1 : 0); i--)
		rest = pool_divide(rest, m[i].out, &o[i]);
	for (int i = 0; i < 3; i++)
		w[i] = pool_span_of(a, m[i], o[i], m[i].k, m[i].d);
	from.begin(m, w);
	for (int e = 0; e < VEC; e++)
		acc[e] = pool_none();
	x = RLX_G_PTR(const mem, a.x) + rest * pool_size(a) + c * VEC;
	each_of(a, from, x, share, [&](struct pool_vec<VEC> v, place at) {
#pragma unroll
		for (int e = 0; e < VEC; e++)
			acc[e] = pool_join(acc[e], pool_cell_of(a, v.v[e], at));
	});
#pragma unroll
	for (int e = 0; e < VEC; e++) {
		acc[e] = meet(acc[e], smem, pool_join_any);
		y.v[e] = pool_result(a, acc[e], w[0].counted * w[1].counted * w[2].counted);
		lossy |= live && !share && pool_lossy(a, acc[e].v);
	}
	if constexpr (IS_LP) {
		bool again = a.lp > 6 && any_of_block(lossy);

		for (int e = 0; e < VEC && again; e++) {
			mem v = norm_again(a, from, x, share, e, smem);

			y.v[e] = pool_lossy(a, acc[e].v) ? v : y.v[e];
		}
	}
	if (!live || share)
		return;
	((struct pool_vec<VEC> *)RLX_G_PTR(mem, a.y))[window] = y;
	for (int e = 0; INDEX && e < VEC; e++)
		RLX_G_PTR(int64_t, a.index)[window * VEC + e] =
			pool_index(a, acc[e].at, rest, c * VEC + e);
}

RLX_G_KERNEL(pool_lanes, struct rlx_k_pool, 256)
{
	SHARED(struct pool_cell, smem, [LAST || LANES > WARP ? 256 : 1]);
	struct pool_dim m[3] = { pool_dim_of(a, 0), pool_dim_of(a, 1), pool_dim_of(a, 2) };
	int64_t n = (int64_t)a.planes * m[0].out * m[1].out * m[2].out *
		    (pool_channels(a) / VEC);

	/* threads beyond the end go along, for the barriers' sake */
	for (int64_t i = blockIdx.x; i * ITEMS < n; i += gridDim.x) {
		int64_t window = i * ITEMS + (LAST ? threadIdx.x % ITEMS : threadIdx.x / LANES);

		one_window(a, env, m, window < n ? window : n - 1, window < n, smem);
	}
}
