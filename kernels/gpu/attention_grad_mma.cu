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
#include "kernels/attention_grad.h"
#include "kernels/gpu/attention_softmax.h"

/* ATTENTION_ROWS: keys or queries of a block; the others as attention_softmax.h says. */
enum {
	LD = HD + 8,
	ROWS = ATTENTION_ROWS, WARPS = ROWS / MMA_M, THREADS = WARPS * RLX_WARP,
	TILE = ATT_GRAD_TILE(HD), TN = TILE / MMA_N, TV = HD / MMA_N, SCORES = TN * MMA_C,
	OWN = ROWS * LD, NEXT = TILE * LD,
	KEEP = HD <= 32,	/* a warp's own rows stay in registers: more of them cost blocks */
	KEPT = KEEP ? HD / MMA_K : 1,
};

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

/* What a block works at; its own rows are keys or queries of head @h, from @first on. */
struct task {
	const struct rlx_k_attention_grad &g;
	const struct rlx_k_attention &a;
	const struct rlx_g_env &env;
	const float	*lse, *sum;		/* of all queries, lse in powers of two */
	int		b, h, first;
	int		len;			/* keys that are seen end here */
	int		from, to;		/* tiles */
};

/* ---- launch 0 ---- */

static DEV inline void sum_rows(const struct rlx_k_attention_grad &g, const struct rlx_g_env &env,
				float *lse, float *sum, int64_t rows)
{
	const struct rlx_k_attention &a = g.a;
	const half *dy = RLX_G_PTR(const half, g.dy);
	const void *y = RLX_G_PTR(const void, a.out);
	const void *from = RLX_G_PTR(const void, a.lse), *dlse = RLX_G_PTR(const void, g.dlse);

	for (int64_t r = (int64_t)blockIdx.x * WARPS + warp_id(); r < rows;
	     r += (int64_t)gridDim.x * WARPS) {
		int64_t head = r / a.q_len, i = r - head * a.q_len, b = head / a.heads;
		int64_t at = b * a.out_stride[0] + (head - b * a.heads) * a.out_stride[1] +
			     i * a.out_stride[2];
		float d = 0, l;

		for (int64_t e = lane_id(); e < a.v_dim; e += RLX_WARP)
			d += to_f32(dy[at + e]) * load_float(y, at + e, a.out_type);
		d = warp_reduce<op_sum>(d);
		if (lane_id())
			continue;
		sum[r] = dlse ? d - load_float(dlse, r, g.dlse_type) : d;
		l = load_float(from, r, g.lse_type);
		/* of a row that sees no key all weights are 0 */
		lse[r] = l == -INFINITY ? INFINITY : l * 1.44269504f;
	}
}

/* ---- launch 1 ---- */

/* Keys from w.first on, and which queries see any of them. */
static DEV inline void keys_task(struct task *w, uint32_t u)
{
	const struct rlx_k_attention &a = w->a;
	const struct rlx_g_env &env = w->env;
	uint32_t heads = (uint32_t)(a.batch * a.kv_heads);
	int window = window_of(a), begin = 0, end = (int)a.q_len, last;

	w->first = (int)(u / heads) * ROWS;	/* causal: the first keys are seen most */
	w->h = (int)(u % heads % (uint32_t)a.kv_heads);
	w->b = (int)(u % heads / (uint32_t)a.kv_heads);
	w->len = (int)a.kv_len;
	if (a.kv_lens)
		w->len = same((int)keys_of(a, RLX_G_PTR(const void, a.kv_lens), w->b));
	last = (w->first + ROWS < w->len ? w->first + ROWS : w->len) - 1;
	if (a.causal && w->first > (int)a.q_offset)
		begin = w->first - (int)a.q_offset;
	if (window && last + window - (int)a.q_offset < end)
		end = last + window - (int)a.q_offset;
	if (w->first >= w->len || begin >= end)
		begin = end = 0;
	w->from = begin / TILE;
	w->to = (end + TILE - 1) / TILE;
}

static DEV inline void queries_task(struct task *w, uint32_t u)
{
	const struct rlx_g_env &env = w->env;
	struct job j = job_at(w->a, env, (uint32_t)(w->a.batch * w->a.heads), u, ROWS, TILE);

	w->b = j.b;
	w->h = j.h;
	w->first = j.first;
	w->len = (int)w->a.kv_len;
	if (w->a.kv_lens)
		w->len = same((int)keys_of(w->a, RLX_G_PTR(const void, w->a.kv_lens), w->b));
	w->from = j.from;
	w->to = j.to > j.from ? j.to : j.from;
}

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
static DEV inline void bring_tile(const struct task &w, int h, int t, struct tile *to)
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

/* Does query @i see key @j? */
static DEV inline bool sees(const struct task &w, int i, int j)
{
	int at = i + (int)w.a.q_offset, window = window_of(w.a);

	return i < (int)w.a.q_len && j < w.len && (!w.a.causal || j <= at) &&
	       (!window || j > at - window);
}

/* All MMA_M own rows from @row on and the tile from @col on see each other. */
template <bool OF_KEYS>
static DEV inline bool all_see(const struct task &w, int row, int col)
{
	int i = OF_KEYS ? col : row, n = OF_KEYS ? TILE : MMA_M;
	int j = OF_KEYS ? row : col, m = OF_KEYS ? MMA_M : TILE;

	return sees(w, i, j + m - 1) && sees(w, i + n - 1, j + m - 1) && sees(w, i + n - 1, j);
}

/*
 * Products @s of query @i and key @j to a score in powers of two; *out_slope: its derivative, but
 * for the scale.
 */
static DEV inline float score(const struct task &w, int h, int i, int j, float s,
			      float *out_slope)
{
	const struct rlx_k_attention &a = w.a;
	const struct rlx_g_env &env = w.env;
	int64_t at;

	*out_slope = 1;
	s *= a.scale;
	if (ATTENTION_CAP) {
		float t = tanhf(s / a.softcap);

		*out_slope = 1 - t * t;
		s = a.softcap * t;
	}
	if ((ATTENTION_ADD || ATTENTION_KEEP) && i < (int)a.q_len && j < w.len) {
		at = w.b * a.bias_stride[0] + h * a.bias_stride[1] + i * a.bias_stride[2] +
		     j * a.bias_stride[3];
		s = biased(a, RLX_G_PTR(const void, a.bias), at, s);
	}
	return s * 1.44269504f;
}

/* Of which queries' head, and from which own row and which of the tile on. */
struct spot {
	int	h, row, col;
};

struct own {
	float	lse[LANE_ROWS], sum[LANE_ROWS];
};

/*
 * Of products @c of q and k, and @d of dy and v: weights into @c, and into @d what their scaled
 * products are changed by. @own: this lane's rows, for a block of queries.
 */
template <bool OF_KEYS>
static DEV inline void weigh(const struct task &w, const struct spot &at, const struct tile &t,
			     const struct own &own, float (&c)[SCORES], float (&d)[SCORES])
{
	const int row = at.row, col = at.col;
	const float by = w.a.scale * 1.44269504f;
	float slope[PLAIN ? 1 : SCORES];

	if (!PLAIN)
#pragma unroll
		for (int e = 0; e < SCORES; e++) {
			int r = mma_c_row(e % MMA_C), x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);

			c[e] = score(w, at.h, OF_KEYS ? col + x : row + r,
				     OF_KEYS ? row + r : col + x, c[e], &slope[PLAIN ? 0 : e]);
		}
	if (!all_see<OF_KEYS>(w, row, col))
#pragma unroll
		for (int e = 0; e < SCORES; e++) {
			int r = mma_c_row(e % MMA_C), x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);
			bool in = OF_KEYS ? sees(w, col + x, row + r) : sees(w, row + r, col + x);

			c[e] = in ? c[e] : -INFINITY;
		}
#pragma unroll
	for (int e = 0; e < SCORES; e++) {
		int x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);
		float off = OF_KEYS ? t.lse[x] : own.lse[e % MMA_C / SIDE];
		float less = OF_KEYS ? t.sum[x] : own.sum[e % MMA_C / SIDE];

		c[e] = fast_exp2(PLAIN ? c[e] * by - off : c[e] - off);
		d[e] = c[e] * (d[e] - less) * (PLAIN ? 1 : slope[PLAIN ? 0 : e]);
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
static DEV inline void add_up(float (&sum)[TV * MMA_C], const float (&c)[SCORES],
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

/* A result of @n rows of @dim, and what sums are multiplied by. */
struct result {
	void		*to;
	const int64_t	*stride;
	int64_t		n, dim;
	float		by;
};

/* This warp's rows from @row on. */
static DEV inline void store_rows(const struct task &w, const struct result &y, int row,
				  const float (&sum)[TV * MMA_C])
{
	typedef rlx_t<ATTENTION_OUT_TYPE> type;
	type::mem *p = (type::mem *)y.to + w.b * y.stride[0] + w.h * y.stride[1];

#pragma unroll
	for (int e = 0; e < TV * MMA_C; e++) {
		int64_t r = row + mma_c_row(e % MMA_C);
		int64_t x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);

		if (r < y.n && x < y.dim)
			p[r * y.stride[2] + x] = type::put(sum[e] * y.by);
	}
}

/* All tiles of a block of keys (OF_KEYS) or of queries. */
template <bool OF_KEYS>
static DEV inline void block_of(const struct task &w, struct smem *m)
{
	const struct rlx_k_attention &a = w.a;
	const struct rlx_g_env &env = w.env;
	int share = (int)(a.heads / a.kv_heads), each = w.to - w.from;
	int steps = OF_KEYS ? share * each : each, row = w.first + warp_id() * MMA_M;
	const half *own_a = m->own_a + warp_id() * MMA_M * LD;
	const half *own_b = m->own_b + warp_id() * MMA_M * LD;
	float c[SCORES], d[SCORES], sum_a[TV * MMA_C] = {}, sum_b[TV * MMA_C] = {};
	struct own own = {};
	uint32_t kept_a[KEPT][MMA_A], kept_b[KEPT][MMA_A];
	int head = OF_KEYS ? w.h * share : w.h / share;
	struct rows x, y;

	two_of<OF_KEYS>(w, w.h, &x, &y);
	load_rows<ROWS>(m->own_a, x, w.first);
	load_rows<ROWS>(m->own_b, y, w.first);
	if (steps > 0)
		bring_tile<OF_KEYS>(w, head, w.from, &m->next[0]);
	copy_commit();
#pragma unroll
	for (int r = 0; !OF_KEYS && r < LANE_ROWS; r++) {
		int64_t i = row + mma_c_row(r * SIDE);
		int64_t at = ((int64_t)w.b * a.heads + w.h) * a.q_len;

		own.lse[r] = i < a.q_len ? w.lse[at + i] : 0;
		own.sum[r] = i < a.q_len ? w.sum[at + i] : 0;
	}
	for (int s = 0; s < steps; s++) {
		struct tile *t = &m->next[s % 2];
		struct spot at = { OF_KEYS ? head + s / each : w.h, row,
				   (w.from + s % each) * TILE };

		copy_wait<0>();
		__syncthreads();
		if (s + 1 < steps)
			bring_tile<OF_KEYS>(w, OF_KEYS ? head + (s + 1) / each : head,
					    w.from + (s + 1) % each, &m->next[(s + 1) % 2]);
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
		weigh<OF_KEYS>(w, at, *t, own, c, d);
		if (OF_KEYS)
			add_up(sum_b, c, t->b);
		add_up(sum_a, d, t->a);
	}
	copy_wait<0>();
	if (OF_KEYS) {
		struct result dk = { RLX_G_PTR(void, w.g.dk), a.k_stride, a.kv_len, a.head_dim,
				     a.scale };
		struct result dv = { RLX_G_PTR(void, w.g.dv), a.v_stride, a.kv_len, a.v_dim, 1 };

		store_rows(w, dk, row, sum_a);
		store_rows(w, dv, row, sum_b);
	} else {
		struct result dq = { RLX_G_PTR(void, w.g.dq), a.q_stride, a.q_len, a.head_dim,
				     a.scale };

		store_rows(w, dq, row, sum_a);
	}
}

RLX_G_KERNEL(attention_grad_mma, struct rlx_k_attention_grad, THREADS)
{
	SHARED_DYNAMIC(shared);
	const struct rlx_k_attention &at = a.a;
	int64_t rows = at.batch * at.heads * at.q_len;
	float *lse = (float *)env.scratch, *sum = lse + rows;
	uint32_t keys = (uint32_t)(at.batch * at.kv_heads) *
			(uint32_t)((at.kv_len + ROWS - 1) / ROWS);
	struct task w = { a, at, env, lse, sum, 0, 0, 0, 0, 0, 0 };

	if (env.pass == 0) {
		sum_rows(a, env, lse, sum, rows);
	} else if (blockIdx.x < keys) {
		keys_task(&w, blockIdx.x);
		block_of<true>(w, (struct smem *)shared);
	} else {
		queries_task(&w, blockIdx.x - keys);
		block_of<false>(w, (struct smem *)shared);
	}
}
