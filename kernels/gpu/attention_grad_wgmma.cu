// SPDX-License-Identifier: MIT
/*
 * The gradient of attention by Hopper's wgmma, warp-specialised: one warpgroup brings rows to
 * shared memory, others have 64 keys or queries each and multiply.
 *
 * Algorithm: as attention_grad_mma.cu, in persistent blocks whose loading group is ahead by
 * tiles, and by the next own rows as soon as all are through with the last ones. A group's
 * products of a tile are under way while it computes: dy v' while the scores become weights,
 * p' dy while the weights become ds; and another group's at all times.
 *
 * Tiles: ATTENTION_GROUPS x 64 keys or queries by 64 (32 if heads are wider than 64) by the width
 * of a head (filled up with zeros to 32, 64, 96 or 128).
 * Traffic: q, k, v, dy once for every 64 or 128 keys or queries of a head, mostly from the L2.
 *
 * Source: Shah et al., "FlashAttention-3" (2024). Limits: sm_90a alone; f16, bf16; heads up to
 * 128 wide.
 */
#include "kernels/gpu/attention_plan.h"

#define RLX_G_BLOCKS	ATT_GRAD_BLOCKS(ATTENTION_GROUPS)

#include "kernels/gpu/attention_wgmma.h"

enum {
	TILE = ATT_GRAD_KEYS(HD), STAGES = ATT_GRAD_STAGES, WARPS = THREADS / RLX_WARP,
	OWN_BYTES = ROWS * HD * 2, NEXT_BYTES = TILE * HD * 2,
	TILES_BYTES = 2 * OWN_BYTES + 2 * STAGES * NEXT_BYTES,
};

#include "kernels/gpu/attention_grad_tile.h"

/* Where tiles are handed over: the loading group fills, the others empty. */
struct barriers {
	uint64_t	own_full, own_free, full[STAGES], free[STAGES];
};

/* Of a stage, a tile's two matrices one behind the other. */
struct smem {
	unsigned char	*own_a, *own_b, *next;
	float		*lse, *sum;		/* of the stages' queries, TILE each */
	struct barriers	*bar;
};

static DEV inline unsigned char *next_a(const struct smem &s, int stage)
{
	return s.next + stage * 2 * NEXT_BYTES;
}

static DEV inline unsigned char *next_b(const struct smem &s, int stage)
{
	return next_a(s, stage) + NEXT_BYTES;
}

static DEV inline uint32_t tasks_of(const struct rlx_k_attention &a)
{
	return (uint32_t)(a.batch * a.kv_heads) * (uint32_t)((a.kv_len + ROWS - 1) / ROWS) +
	       (uint32_t)(a.batch * a.heads) * (uint32_t)((a.q_len + ROWS - 1) / ROWS);
}

/* ---- the loading group ---- */

/* The two matrices of queries of head @h, or of keys, from row @first on. */
template <bool KEYS>
static DEV inline void two_of(const struct task &w, int h, int first, struct rows *x,
			      struct rows *y)
{
	const struct rlx_k_attention &a = w.a;
	const struct rlx_g_env &env = w.env;
	const void *p = KEYS ? RLX_G_PTR(const void, a.k) : RLX_G_PTR(const void, a.q);
	const void *q = KEYS ? RLX_G_PTR(const void, a.v) : RLX_G_PTR(const void, w.g.dy);

	*x = rows_of(p, KEYS ? a.k_stride : a.q_stride, w.b, h, first, a.head_dim);
	*y = rows_of(q, KEYS ? a.v_stride : a.out_stride, w.b, h, first, a.v_dim);
}

/* lse and D of the queries of head @h from @first on, zeros beyond the last. */
static DEV inline void load_sums(const struct task &w, int h, int first, float *lse, float *sum,
				 uint64_t *full)
{
	int64_t at = ((int64_t)w.b * w.a.heads + h) * w.a.q_len;

	for (int i = (int)threadIdx.x; i < TILE; i += GROUP) {
		int n = first + i < (int)w.a.q_len ? 4 : 0;
		int64_t from = n ? at + first + i : 0;

		copy_async(&lse[i], w.lse + from, 4, n);
		copy_async(&sum[i], w.sum + from, 4, n);
	}
	bar_arrive_copies(full);
}

/* A block of keys (OF_KEYS) or of queries: its own rows, and the tiles that come by. */
template <bool OF_KEYS>
static DEV inline void feed(const struct task &w, const struct smem &s, pipeline_state<STAGES> *t)
{
	int share = (int)(w.a.heads / w.a.kv_heads), head = OF_KEYS ? w.h * share : w.h / share;
	int own = (OF_KEYS ? w.len : (int)w.a.q_len) - w.first, from, to;
	struct rows x, y;

	two_of<OF_KEYS>(w, w.h, w.first, &x, &y);
	load_rows<ROWS>(s.own_a, &x, own, &s.bar->own_full);
	load_rows<ROWS>(s.own_b, &y, own, &s.bar->own_full);
	tiles_of<OF_KEYS>(w, w.first, ROWS, &from, &to);
	for (int h = head; h < head + (OF_KEYS ? share : 1); h++) {
		two_of<!OF_KEYS>(w, h, from * TILE, &x, &y);
		for (int i = from; i < to; i++, t->next()) {
			int left = (OF_KEYS ? (int)w.a.q_len : w.len) - i * TILE;
			uint64_t *full = &s.bar->full[t->stage];

			bar_wait(&s.bar->free[t->stage], t->phase ^ 1);
			if (OF_KEYS)
				load_sums(w, h, i * TILE, s.lse + t->stage * TILE,
					  s.sum + t->stage * TILE, full);
			else
				bar_arrive(full);
			load_rows<TILE>(next_a(s, t->stage), &x, left, full);
			load_rows<TILE>(next_b(s, t->stage), &y, left, full);
		}
	}
}

/* ---- the computing groups ---- */

/* What a thread of a group has of a block. */
struct sums {
	float		sum_a[SUMS], sum_b[SUMS];
	struct own	own;
};

/* The tile in @stage. */
template <bool OF_KEYS>
static DEV inline void one_tile(const struct task &w, const struct smem &s, int g,
				const struct spot &at, int stage, struct sums *st)
{
	const unsigned char *a = next_a(s, stage), *b = next_b(s, stage);
	const int own = g * 64 * ROW;
	float c[SCORES], d[SCORES], slope[SLOPES];
	uint32_t p[SCORES / 2];

	wgmma_settle(c);
	wgmma_settle(d);
	wgmma_fence();
	multiply<TILE>(c, s.own_a + own, a);
	multiply<TILE>(d, s.own_b + own, b);
	wgmma_wait<1>();
	wgmma_settle(c);
	weigh<OF_KEYS>(w, at, s.lse + stage * TILE, st->own, c, slope);
	if (OF_KEYS)
		pack_weights(p, c);
	wgmma_wait<0>();
	wgmma_settle(d);
	if (OF_KEYS) {
		wgmma_settle(st->sum_b);
		wgmma_settle(p);
		wgmma_fence();
		add_up<TILE>(st->sum_b, p, b);
	}
	slope_of<OF_KEYS>(s.sum + stage * TILE, st->own, c, slope, d);
	if (OF_KEYS) {
		wgmma_wait<0>();
		wgmma_settle(st->sum_b);
		wgmma_settle(p);	/* products read it until here */
	}
	pack_weights(p, d);
	wgmma_settle(st->sum_a);
	wgmma_settle(p);
	wgmma_fence();
	add_up<TILE>(st->sum_a, p, a);
	wgmma_wait<0>();
	wgmma_settle(st->sum_a);
	wgmma_settle(p);
}

/* Group @g's rows of a block of keys (OF_KEYS) or of queries. */
template <bool OF_KEYS>
static DEV inline void work(const struct task &w, const struct smem &s, int g,
			    pipeline_state<STAGES> *t)
{
	int share = OF_KEYS ? (int)(w.a.heads / w.a.kv_heads) : 1, from, to, mine, end;
	int row = w.first + g * 64 + warp_id() % 4 * MMA_M;
	struct sums st = {};

	tiles_of<OF_KEYS>(w, w.first, ROWS, &from, &to);
	tiles_of<OF_KEYS>(w, w.first + g * 64, 64, &mine, &end);
	if (!OF_KEYS)
		own_load(w, row, &st.own);
	for (int h = w.h * share; h < (w.h + 1) * share; h++)
		for (int i = from; i < to; i++, t->next()) {
			struct spot at = { h, row, i * TILE };

			await(s.bar->full, *t);
			if (i >= mine && i < end)
				one_tile<OF_KEYS>(w, s, g, at, t->stage, &st);
			bar_arrive(&s.bar->free[t->stage]);
		}
	bar_arrive(&s.bar->own_free);
	store_sums<OF_KEYS>(w, row, st.sum_a, st.sum_b);
}

RLX_G_KERNEL(attention_grad_wgmma, struct rlx_k_attention_grad, THREADS)
{
	SHARED_DYNAMIC(shared);
	int64_t rows = a.a.batch * a.a.heads * a.a.q_len;
	float *lse = (float *)env.scratch, *sum = lse + rows;
	float *floats = (float *)(shared + TILES_BYTES);
	struct smem s = { shared, shared + OWN_BYTES, shared + 2 * OWN_BYTES, floats,
		floats + STAGES * TILE, (struct barriers *)(floats + 2 * STAGES * TILE) };
	struct task w = { a, a.a, env, lse, sum, 0, 0, 0, 0 };
	int group = same((int)threadIdx.x / GROUP);
	uint32_t tasks = tasks_of(a.a), u;
	pipeline_state<STAGES> t = {};

	if (env.pass == 0) {
		sum_rows(a, env, lse, sum, rows);
		return;
	}
	clear_fill(a.a, shared, TILES_BYTES);
	if (threadIdx.x == 0) {
		bar_init(&s.bar->own_full, 2 * GROUP);
		bar_init(&s.bar->own_free, GROUPS * GROUP);
		for (int i = 0; i < STAGES; i++) {
			bar_init(&s.bar->full[i], 3 * GROUP);
			bar_init(&s.bar->free[i], GROUPS * GROUP);
		}
		bar_inited();
	}
	__syncthreads();
	if (group == 0) {
		regs_fewer<ATT_REGS_LOAD(HD)>();
		for (uint32_t round = 0; (u = job_number(round)) < tasks; round++) {
			bool of_keys = task_at(&w, u);

			bar_wait(&s.bar->own_free, round % 2 ^ 1);
			if (of_keys)
				feed<true>(w, s, &t);
			else
				feed<false>(w, s, &t);
		}
	} else {
		regs_more<ATT_GRAD_REGS(HD, GROUPS)>();
		for (uint32_t round = 0; (u = job_number(round)) < tasks; round++) {
			bool of_keys = task_at(&w, u);

			bar_wait(&s.bar->own_full, round % 2);
			wgmma_see();
			if (of_keys)
				work<true>(w, s, group - 1, &t);
			else
				work<false>(w, s, group - 1, &t);
		}
	}
}
