/* SPDX-License-Identifier: MIT */
/*
 * What the kernels of attention's gradient share (attention_grad_mma.cu, attention_grad_wgmma.cu):
 * launch 0, which rows a block goes over, what becomes of the products, and where sums go. A block
 * of keys goes over queries, for dk and dv, or a block of queries over keys, for dq; scores lie as
 * mma() and wgmma() have their c, own rows down and the tile's across.
 * The kernel that includes this says what ROWS, TILE and WARPS are.
 */
#ifndef RLX_G_ATTENTION_GRAD_TILE_H
#define RLX_G_ATTENTION_GRAD_TILE_H

#include "kernels/attention_grad.h"
#include "kernels/gpu/attention_softmax.h"

enum { SCORES = TILE / MMA_N * MMA_C, SUMS = HD / MMA_N * MMA_C };

/* What a block works at; its own rows are keys or queries of head @h, from @first on. */
struct task {
	const struct rlx_k_attention_grad &g;
	const struct rlx_k_attention &a;
	const struct rlx_g_env &env;
	const float	*lse, *sum;		/* of all queries, lse in powers of two */
	int		b, h, first;
	int		len;			/* keys that are seen end here */
};

/* ---- launch 0 ---- */

enum { AT_ONCE = 8 };	/* rows of a warp, so that enough is under way */

/* Sums of dy y of the rows that begin at @row, y of type T. */
template <class T>
static DEV inline void products_of(const half *dy, const T *y, const int64_t (&row)[AT_ONCE],
				   int dim, float (&d)[AT_ONCE])
{
#pragma unroll
	for (int x = 0; x < HD; x += RLX_WARP) {
		int e = x + lane_id();
		half a[AT_ONCE] = {};
		T b[AT_ONCE] = {};

#pragma unroll
		for (int n = 0; n < AT_ONCE; n++)
			if (e < dim) {
				a[n] = dy[row[n] + e];
				b[n] = y[row[n] + e];
			}
#pragma unroll
		for (int n = 0; n < AT_ONCE; n++)
			d[n] += to_f32(a[n]) * to_f32(b[n]);
	}
}

/* Each row's dy y summed up, less its dlse, and its lse in powers of two. */
static DEV inline void sum_rows(const struct rlx_k_attention_grad &g, const struct rlx_g_env &env,
				float *lse, float *sum, int64_t rows)
{
	const struct rlx_k_attention &a = g.a;
	const half *dy = RLX_G_PTR(const half, g.dy);
	const void *y = RLX_G_PTR(const void, a.out);
	const void *from = RLX_G_PTR(const void, a.lse), *dlse = RLX_G_PTR(const void, g.dlse);

	for (int64_t r = ((int64_t)blockIdx.x * WARPS + warp_id()) * AT_ONCE; r < rows;
	     r += (int64_t)gridDim.x * WARPS * AT_ONCE) {
		/* a lane knows where one of the rows is, and has its sum in the end */
		int64_t mine = r + lane_id() % AT_ONCE < rows ? r + lane_id() % AT_ONCE : rows - 1;
		int64_t head = mine / a.q_len, i = mine - head * a.q_len, b = head / a.heads;
		int64_t at = b * a.out_stride[0] + (head - b * a.heads) * a.out_stride[1] +
			     i * a.out_stride[2];
		int64_t row[AT_ONCE];
		float d[AT_ONCE] = {}, l;

#pragma unroll
		for (int n = 0; n < AT_ONCE; n++)
			row[n] = shuffle(at, n);
		if (a.out_type == RLX_F32)
			products_of(dy, (const float *)y, row, (int)a.v_dim, d);
		else if (a.out_type == RLX_BF16)
			products_of(dy, (const bf16 *)y, row, (int)a.v_dim, d);
		else
			products_of(dy, (const f16 *)y, row, (int)a.v_dim, d);
#pragma unroll
		for (int n = 0; n < AT_ONCE; n++) {
			d[n] = warp_reduce<op_sum>(d[n]);
			d[0] = n && lane_id() == n ? d[n] : d[0];
		}
		if (r + lane_id() >= rows || lane_id() >= AT_ONCE)
			continue;
		sum[mine] = dlse ? d[0] - load_float(dlse, mine, g.dlse_type) : d[0];
		l = load_float(from, mine, g.lse_type);
		/* of a row that sees no key all weights are 0 */
		lse[mine] = l == -INFINITY ? INFINITY : l * 1.44269504f;
	}
}

/* ---- launch 1 ---- */

/* Block @u of keys. */
static DEV inline void keys_task(struct task *w, uint32_t u)
{
	const struct rlx_g_env &env = w->env;
	uint32_t heads = (uint32_t)(w->a.batch * w->a.kv_heads);

	w->first = (int)(u / heads) * ROWS;	/* causal: the first keys are seen most */
	w->h = (int)(u % heads % (uint32_t)w->a.kv_heads);
	w->b = (int)(u % heads / (uint32_t)w->a.kv_heads);
	w->len = (int)w->a.kv_len;
	if (w->a.kv_lens)
		w->len = same((int)keys_of(w->a, RLX_G_PTR(const void, w->a.kv_lens), w->b));
}

static DEV inline void queries_task(struct task *w, uint32_t u)
{
	const struct rlx_g_env &env = w->env;
	uint32_t heads = (uint32_t)(w->a.batch * w->a.heads);
	struct job j = job_at(w->a, env, heads, u, ROWS, TILE);

	w->b = j.b;
	w->h = j.h;
	w->first = j.first;
	w->len = (int)w->a.kv_len;
	if (w->a.kv_lens)
		w->len = same((int)keys_of(w->a, RLX_G_PTR(const void, w->a.kv_lens), w->b));
}

/* Is block @u, then @w, one of keys? They come first, those of queries behind. */
static DEV inline bool task_at(struct task *w, uint32_t u)
{
	uint32_t keys = (uint32_t)(w->a.batch * w->a.kv_heads) *
			(uint32_t)((w->a.kv_len + ROWS - 1) / ROWS);

	if (u < keys)
		keys_task(w, u);
	else
		queries_task(w, u - keys);
	return u < keys;
}

/* Tiles [from, to) that own rows [first, first + rows) see, or are seen by. */
template <bool OF_KEYS>
static DEV inline void tiles_of(const struct task &w, int first, int rows, int *from, int *to)
{
	const struct rlx_k_attention &a = w.a;
	int n = OF_KEYS ? w.len : (int)a.q_len, begin = 0, end = OF_KEYS ? (int)a.q_len : w.len;
	int window = window_of(a), last = (first + rows < n ? first + rows : n) - 1;
	int off = (int)a.q_offset;

	if (OF_KEYS && a.causal && first > off)
		begin = first - off;
	if (OF_KEYS && window && last + window - off < end)
		end = last + window - off;
	if (!OF_KEYS && window && first + off - window + 1 > 0)
		begin = first + off - window + 1;
	if (!OF_KEYS && a.causal && last + off + 1 < end)
		end = last + off + 1;
	if (first >= n || begin >= end)
		begin = end = 0;
	*from = begin / TILE;
	*to = (end + TILE - 1) / TILE;
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

/* lse, in powers of two, and sums of this lane's own queries. */
struct own {
	float	lse[LANE_ROWS], sum[LANE_ROWS];
};

static DEV inline void own_load(const struct task &w, int row, struct own *own)
{
	int64_t at = ((int64_t)w.b * w.a.heads + w.h) * w.a.q_len;

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++) {
		int64_t i = row + mma_c_row(r * SIDE);

		own->lse[r] = i < w.a.q_len ? w.lse[at + i] : 0;
		own->sum[r] = i < w.a.q_len ? w.sum[at + i] : 0;
	}
}

/* Slopes of scores that are more than scaled products. */
enum { SLOPES = ATTENTION_CAP ? SCORES : 1 };

/* Products @c of q and k to weights; @lse: of the tile's queries, for a block of keys. */
template <bool OF_KEYS>
static DEV inline void weigh(const struct task &w, const struct spot &at, const float *lse,
			     const struct own &own, float (&c)[SCORES], float (&slope)[SLOPES])
{
	const int row = at.row, col = at.col;
	const float by = w.a.scale * 1.44269504f;

	if (!PLAIN)
#pragma unroll
		for (int e = 0; e < SCORES; e++) {
			int r = mma_c_row(e % MMA_C), x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);

			c[e] = score(w, at.h, OF_KEYS ? col + x : row + r,
				     OF_KEYS ? row + r : col + x, c[e],
				     &slope[ATTENTION_CAP ? e : 0]);
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
		float off = OF_KEYS ? lse[x] : own.lse[e % MMA_C / SIDE];

		c[e] = fast_exp2(PLAIN ? c[e] * by - off : c[e] - off);
	}
}

/* Products @d of dy and v, by weights @c, to what scaled products are changed by; as weigh(). */
template <bool OF_KEYS>
static DEV inline void slope_of(const float *sum, const struct own &own,
				const float (&c)[SCORES], const float (&slope)[SLOPES],
				float (&d)[SCORES])
{
#pragma unroll
	for (int e = 0; e < SCORES; e++) {
		int x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);
		float less = OF_KEYS ? sum[x] : own.sum[e % MMA_C / SIDE];

		d[e] = c[e] * (d[e] - less) * (ATTENTION_CAP ? slope[ATTENTION_CAP ? e : 0] : 1);
	}
}

/* A result of @n rows of @dim, and what sums are multiplied by. */
struct result {
	void		*to;
	const int64_t	*stride;
	int64_t		n, dim;
	float		by;
};

/* This warp's rows from @row on, by two elements where such begin at what they have. */
static DEV inline void store_rows(const struct task &w, const struct result &y, int row,
				  const float (&sum)[SUMS])
{
	typedef rlx_t<ATTENTION_OUT_TYPE> type;
	struct alignas(2 * sizeof(type::mem)) two { type::mem v[2]; };
	type::mem *p = (type::mem *)y.to + w.b * y.stride[0] + w.h * y.stride[1];
	bool twos = ((uint64_t)p / sizeof(type::mem) | (uint64_t)(y.stride[2] | y.dim)) % 2 == 0;

#pragma unroll
	for (int e = 0; e < SUMS; e += 2) {
		int64_t r = row + mma_c_row(e % MMA_C);
		int64_t x = e / MMA_C * MMA_N + mma_c_col(e % MMA_C);
		type::mem *to = p + r * y.stride[2] + x;
		struct two v = { { type::put(sum[e] * y.by), type::put(sum[e + 1] * y.by) } };

		if (r >= y.n || x >= y.dim)
			continue;
		if (twos) {
			*(struct two *)to = v;
			continue;
		}
		to[0] = v.v[0];
		if (x + 1 < y.dim)
			to[1] = v.v[1];
	}
}

/* What a block of keys (OF_KEYS) or of queries has summed up. */
template <bool OF_KEYS>
static DEV inline void store_sums(const struct task &w, int row, const float (&sum_a)[SUMS],
				  const float (&sum_b)[SUMS])
{
	const struct rlx_k_attention &a = w.a;
	const struct rlx_g_env &env = w.env;

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

#endif
