// SPDX-License-Identifier: MIT
/*
 * The gradient of attention by a warp's tensor cores: weights are made again, tile by tile, of
 * the logarithms of their sums, and lie nowhere in memory.
 *
 * Algorithm: launch 0 has each row's dy y summed up and its lse in powers of two. Launch 1 has
 * blocks of two kinds, side by side. A block of keys has ROWS keys of one head, 16 a warp, and goes
 * over the queries that see them, TILE at a time: p' = exp(k q' - lse) and ds' = p' (v dy' - D) in
 * registers, which are the left side of the next two products, dv += p' dy and dk += ds' q. A block
 * of queries goes over keys likewise, for dq += ds k. The next tile arrives by asynchronous copies
 * meanwhile. Both kinds make p and ds, so that nothing is added up in memory: the same bits each
 * time, and no sums of dq to clear and to convert, for 7 products instead of 5.
 *
 * Tiles: 64 or 128 keys or queries by 64 (32 if heads are wider than 64) by the width of a head
 * (filled up with zeros to 32, 64, 96 or 128).
 * Traffic: q, k, v, dy once for every ROWS keys or queries of a head, mostly from the L2.
 *
 * Source: Dao, "FlashAttention-2" (2023). Limits: f16, bf16; heads up to 128 wide; CUDA.
 */
#include "kernels/gpu/attention_softmax.h"

/* ATTENTION_ROWS: keys or queries of a block; the others as attention_softmax.h says. */
enum {
	LD = HD + 8,
	ROWS = ATTENTION_ROWS, WARPS = ROWS / MMA_M, THREADS = WARPS * RLX_WARP,
	TILE = ATT_GRAD_TILE(HD), TN = TILE / MMA_N, TV = HD / MMA_N,
	OWN = ROWS * LD, NEXT = TILE * LD,
	KEEP = HD <= 32,	/* a warp's own rows stay in registers: more of them cost blocks */
	KEPT = KEEP ? HD / MMA_K : 1,
};

#include "kernels/gpu/attention_grad_tile.h"
#include "kernels/gpu/attention_rows.h"

/* A tile that comes by: the right sides of the products, and of queries their lse and D. */
struct tile {
	half	a[NEXT], b[NEXT];
	float	lse[TILE], sum[TILE];
};

struct smem {
	half		own_a[OWN], own_b[OWN];
	struct tile	next[2];
};

/* The two matrices of queries of head @h, or of keys. */
template <bool KEYS>
static DEV inline void two_of(const struct task &w, int h, struct rows *x, struct rows *y)
{
	const struct rlx_k_attention &a = w.a;
	const struct rlx_g_env &env = w.env;

	*x = KEYS ? rows_of(RLX_G_PTR(const void, a.k), a.k_stride, w.b, h, w.len, a.head_dim) :
		    rows_of(RLX_G_PTR(const void, a.q), a.q_stride, w.b, h, a.q_len, a.head_dim);
	*y = KEYS ? rows_of(RLX_G_PTR(const void, a.v), a.v_stride, w.b, h, w.len, a.v_dim) :
		    rows_of(RLX_G_PTR(const void, w.g.dy), a.out_stride, w.b, h, a.q_len, a.v_dim);
}

/* Tile @t of what head @h has to bring for a block of keys (OF_KEYS) or of queries. */
template <bool OF_KEYS>
static DEV inline void load_tile(const struct task &w, int h, int t, struct tile *to)
{
	int64_t at = ((int64_t)w.b * w.a.heads + h) * w.a.q_len + (int64_t)t * TILE;
	struct rows x, y;

	two_of<!OF_KEYS>(w, h, &x, &y);
	load_rows<TILE>(to->a, x, (int64_t)t * TILE);
	load_rows<TILE>(to->b, y, (int64_t)t * TILE);
	for (int i = (int)threadIdx.x; OF_KEYS && i < TILE; i += THREADS) {
		int n = (int64_t)t * TILE + i < w.a.q_len ? 4 : 0;

		copy_async(&to->lse[i], w.lse + (n ? at + i : 0), 4, n);
		copy_async(&to->sum[i], w.sum + (n ? at + i : 0), 4, n);
	}
}

/* c = this warp's own rows times a tile's, both of HD. */
static DEV inline void multiply(float (&c)[SCORES], const uint32_t (&kept)[KEPT][MMA_A],
				const half *own, const half *tile)
{
#pragma unroll
	for (int e = 0; e < SCORES; e++)
		c[e] = 0;
#pragma unroll
	for (int k = 0; k < HD; k += MMA_K) {
		uint32_t loaded[MMA_A], fb[2][MMA_B];
		const uint32_t *fa = KEEP ? kept[KEEP ? k / MMA_K : 0] : loaded;

		if (!KEEP)
			mma_load_a(loaded, own + k, LD, false);
#pragma unroll
		for (int j = 0; j < TN; j += 2) {
			mma_load_b_two(fb, tile + j * MMA_N * LD + k, LD, false);
			mma<half>(c + j * MMA_C, fa, fb[0]);
			mma<half>(c + (j + 1) * MMA_C, fa, fb[1]);
		}
	}
}

/* sum += what scores became, rounded, times a tile's rows. */
static DEV inline void add_up(float (&sum)[SUMS], const float (&c)[SCORES],
			      const half *tile)
{
	uint32_t p[SCORES / 2], fb[2][MMA_B];

	pack_weights(p, c);
#pragma unroll
	for (int k = 0; k < TILE; k += MMA_K) {
		const uint32_t *fa = &p[k / 4];	/* c of two products is a of the next */

#pragma unroll
		for (int t = 0; t < TV; t += 2) {
			mma_load_b_two(fb, tile + k * LD + t * MMA_N, LD, true);
			mma<half>(sum + t * MMA_C, fa, fb[0]);
			mma<half>(sum + (t + 1) * MMA_C, fa, fb[1]);
		}
	}
}

/* All tiles of a block of keys (OF_KEYS) or of queries. */
template <bool OF_KEYS>
static DEV inline void block_of(const struct task &w, struct smem *m)
{
	int from, to, row = w.first + warp_id() * MMA_M;
	int share = (int)(w.a.heads / w.a.kv_heads), head = OF_KEYS ? w.h * share : w.h / share;
	const half *own_a = m->own_a + warp_id() * MMA_M * LD;
	const half *own_b = m->own_b + warp_id() * MMA_M * LD;
	float c[SCORES], d[SCORES], slope[SLOPES], sum_a[SUMS] = {}, sum_b[SUMS] = {};
	struct own own = {};
	uint32_t kept_a[KEPT][MMA_A], kept_b[KEPT][MMA_A];
	int each, steps;
	struct rows x, y;

	tiles_of<OF_KEYS>(w, w.first, ROWS, &from, &to);
	each = to - from;
	steps = OF_KEYS ? share * each : each;
	two_of<OF_KEYS>(w, w.h, &x, &y);
	load_rows<ROWS>(m->own_a, x, w.first);
	load_rows<ROWS>(m->own_b, y, w.first);
	if (steps > 0)
		load_tile<OF_KEYS>(w, head, from, &m->next[0]);
	copy_commit();
	if (!OF_KEYS)
		own_load(w, row, &own);
	for (int s = 0; s < steps; s++) {
		struct tile *t = &m->next[s % 2];
		struct spot at = { OF_KEYS ? head + s / each : w.h, row, (from + s % each) * TILE };

		copy_wait<0>();
		__syncthreads();
		if (s + 1 < steps)
			load_tile<OF_KEYS>(w, OF_KEYS ? head + (s + 1) / each : head,
					   from + (s + 1) % each, &m->next[(s + 1) % 2]);
		copy_commit();
		if (KEEP && !s) {
#pragma unroll
			for (int k = 0; k < KEPT; k++) {
				mma_load_a(kept_a[k], own_a + k * MMA_K, LD, false);
				mma_load_a(kept_b[k], own_b + k * MMA_K, LD, false);
			}
		}
		multiply(c, kept_a, own_a, t->a);
		multiply(d, kept_b, own_b, t->b);
		weigh<OF_KEYS>(w, at, t->lse, own, c, slope);
		slope_of<OF_KEYS>(t->sum, own, c, slope, d);
		if (OF_KEYS)
			add_up(sum_b, c, t->b);
		add_up(sum_a, d, t->a);
	}
	copy_wait<0>();
	store_sums<OF_KEYS>(w, row, sum_a, sum_b);
}

RLX_G_KERNEL(attention_grad_mma, struct rlx_k_attention_grad, THREADS)
{
	SHARED_DYNAMIC(shared);
	const struct rlx_k_attention &at = a.a;
	int64_t rows = at.batch * at.heads * at.q_len;
	float *lse = (float *)env.scratch, *sum = lse + rows;
	struct task w = { a, at, env, lse, sum, 0, 0, 0, 0 };

	if (env.pass == 0)
		sum_rows(a, env, lse, sum, rows);
	else if (task_at(&w, blockIdx.x))
		block_of<true>(w, (struct smem *)shared);
	else
		block_of<false>(w, (struct smem *)shared);
}
