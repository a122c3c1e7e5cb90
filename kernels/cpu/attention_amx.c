// SPDX-License-Identifier: MIT
/*
 * Attention of many queries in bf16 by AMX, transposed as in attention_many.c: scores are
 * [key][query] and results [dim][query], so that the softmax needs nothing across lanes. A of the
 * first product is tiles of keys, which are read where they lie, and B pairs of the queries' dims;
 * A of the second is tiles of the values' dims, and B pairs of keys' weights, rounded to bf16.
 * Sums, the softmax and its sums stay in f32. Other dtypes and few queries are left to vectors, and
 * so are blocks that give NaNs: there a key that a query does not see has no part in its result.
 */
#include "kernels/cpu/attention_bias.h"
#include "kernels/simd/tile_grid.h"

rlx_k_fn RLX_K(attention);

#ifdef RLX_TILE_EMU
#define BY_VECTORS	rlx_k_attention__base
#else
#define BY_VECTORS	rlx_k_attention__v4
#endif
rlx_k_fn BY_VECTORS;

enum {
	ROWS = RLX_K_ATT_ROWS,
	STEP = TILE_COLSB / 2,	/* elements along K of a product */
	FEW = TILE_ROWS / 2,	/* queries that vectors take no longer for */
};

/* Running maximum and sum of each query, this tile's correction, the keys it may see. */
struct stats {
	float	max[ROWS], sum[ROWS], fix[ROWS];
	int32_t	lo[ROWS], hi[ROWS];
	int64_t	all_lo, all_hi;		/* keys that every query may see */
};

struct work {
	struct att_block t;
	struct stats	st;
	size_t		width;		/* queries, up to whole tiles: of all rows of these */
	size_t		d, v;		/* head_dim in steps, v_dim in tiles */
	uint16_t	*q, *k, *vt;	/* pairs [d / 2][query], [key][d], [dim][key] */
	uint32_t	*p, *vp;	/* pairs [key / 2][query], [key / 2][dim] */
};

/* c[m][n] = c + a[m][k] b[k][n], by tiles of m and n and steps of k; b's rows are as c's. */
struct product {
	const char	*a, *b;
	char		*c;
	size_t		lda, ld, m, n, steps;
	bool		add;
};

RLX_INLINE void grid(const struct product *p, size_t i, size_t j, const int na, const int nb)
{
	const size_t ld = p->ld;
	const char *a = p->a + i * TILE_ROWS * p->lda, *b = p->b + j * TILE_COLSB;
	char *c = p->c + i * TILE_ROWS * ld + j * TILE_COLSB, *c1 = c + TILE_ROWS * ld;

	tile_grid_load(p->add ? c : NULL, c1, TILE_COLSB, ld, na, nb);
	for (size_t s = 0; s < p->steps; s++, a += TILE_COLSB, b += TILE_ROWS * ld)
		TILE_GRID_STEP(TILE_DP_BF16, na, nb, a, a + TILE_ROWS * p->lda, p->lda, b,
			       b + TILE_COLSB, ld);
	tile_grid_store(c, c1, TILE_COLSB, ld, na, nb);
}

static void multiply(const struct product *p)
{
	for (size_t i = 0; i < p->m; i += 2)
		for (size_t j = 0; j < p->n; j += 2) {
			if (p->m - i > 1 && p->n - j > 1)
				grid(p, i, j, 2, 2);
			else if (p->m - i > 1)
				grid(p, i, j, 2, 1);
			else if (p->n - j > 1)
				grid(p, i, j, 1, 2);
			else
				grid(p, i, j, 1, 1);
		}
}

RLX_INLINE vu wide(vu16h x)
{
#if defined(RLX_V512)
	return (vu)_mm512_cvtepu16_epi32((__m256i)x);
#else
	return __builtin_convertvector(x, vu);
#endif
}

/* Two keys' weights, to nearest even, side by side for each query. */
RLX_INLINE vi pair(vf lo, vf hi)
{
#if defined(RLX_V512)
	const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10,
					       25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
					       18, 2, 17, 1, 16, 0);

	return (vi)_mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh((__m512)hi,
										(__m512)lo));
#else
	return (vi)(wide(vf_to_bf16(lo)) | wide(vf_to_bf16(hi)) << 16);
#endif
}

static void row_copy(uint16_t *dst, const uint16_t *src, size_t n, size_t room)
{
	memcpy(dst, src, n * sizeof(*dst));
	memset(dst + n, 0, (room - n) * sizeof(*dst));
}

/* The queries as pairs of dims, and the keys that each may see. */
static void queries(struct work *w)
{
	const struct rlx_k_attention *a = w->t.a;
	uint16_t *rows = (uint16_t *)(void *)w->t.rows;
	struct stats *st = &w->st;
	int64_t lo, hi;

	st->all_lo = 0;
	st->all_hi = INT64_MAX;
	for (int64_t r = 0; r < (int64_t)w->width; r++) {
		const int64_t last = r < w->t.n_rows ? r : w->t.n_rows - 1;
		const struct att_row at = att_row_at(&w->t, last);

		row_copy(rows + (size_t)r * w->d, (const uint16_t *)a->q +
			 w->t.b * a->q_stride[0] + at.head * a->q_stride[1] +
			 at.query * a->q_stride[2], (size_t)a->head_dim, w->d);
		att_range(&w->t, at.query, &lo, &hi);
		st->lo[r] = (int32_t)lo;
		st->hi[r] = (int32_t)hi;
		st->all_lo = lo > st->all_lo ? lo : st->all_lo;
		st->all_hi = hi < st->all_hi ? hi : st->all_hi;
		st->max[r] = -INFINITY;
		st->sum[r] = 0;
	}
	vi_transpose_block((const char *)rows, w->d * 2, (char *)w->q, w->width * 4,
			   w->width, w->d / 2);
}

/* s[key][query] = k . q of @k's keys; rows behind them, up to a tile's, are as of keys of 0. */
static void scores(const struct work *w, const struct att_tile *k)
{
	const struct rlx_k_attention *a = w->t.a;
	const uint16_t *src = (const uint16_t *)a->k + w->t.b * a->k_stride[0] +
			      w->t.kvh * a->k_stride[1] + k->at * a->k_stride[2];
	struct product p = {
		.a = (const char *)src, .lda = (size_t)a->k_stride[2] * 2,
		.b = (const char *)w->q, .c = (char *)w->t.s, .ld = w->width * 4,
		.m = (k->n + TILE_ROWS - 1) / TILE_ROWS, .n = w->width / TILE_ROWS,
		.steps = w->d / STEP,
	};

	if (w->d != (size_t)a->head_dim || k->n % TILE_ROWS) {
		for (size_t j = 0; j < k->n; j++)
			row_copy(w->k + j * w->d, src + (int64_t)j * a->k_stride[2],
				 (size_t)a->head_dim, w->d);
		memset(w->k + k->n * w->d, 0, (p.m * TILE_ROWS - k->n) * w->d * 2);
		p.a = (const char *)w->k;
		p.lda = w->d * 2;
	}
	multiply(&p);
}

/* Scale, cap, bias and limits, where there is more than a scale above 0; what is left of it. */
static float adjust(struct work *w, const struct att_tile *k)
{
	const struct rlx_k_attention *a = w->t.a;
	const bool cut = k->at < w->st.all_lo || k->at + (int64_t)k->n > w->st.all_hi;
	float *s = w->t.s;

	if (!cut && !a->bias && a->softcap <= 0 && a->scale > 0)
		return a->scale;
	for (size_t i = 0; i < k->n * w->width; i += RLX_VL) {
		vf x = vf_loadu(s + i) * a->scale;

		if (a->softcap > 0)
			x = vf_tanh(x * (1 / a->softcap)) * a->softcap;
		vf_storeu(s + i, x);
	}
	if (a->bias)
		add_bias(&w->t, k, w->width);
	for (size_t j = 0; cut && j < k->n; j++, s += w->width)
		for (size_t c = 0; c < w->width; c += RLX_VL) {
			const vi key = vi_set1((int32_t)(k->at + (int64_t)j));
			const vm out = vm_or(vi_lt(key, vi_loadu(w->st.lo + c)),
					     vm_not(vi_lt(key, vi_loadu(w->st.hi + c))));

			vf_storeu(s + c, vf_sel(out, vf_set1(-INFINITY), vf_loadu(s + c)));
		}
	return 1;
}

/* The largest score of each query from @s on; four chains, or each waits for the one before. */
RLX_INLINE vf largest(const float *s, size_t n, size_t ld)
{
	vf m[4];
	size_t j;

	for (int i = 0; i < 4; i++)
		m[i] = vf_set1(-INFINITY);
	for (j = 0; j + 4 <= n; j += 4)
		for (size_t i = 0; i < 4; i++)
			m[i] = vf_max(vf_loadu(s + (j + i) * ld), m[i]);
	for (; j < n; j++)
		m[0] = vf_max(vf_loadu(s + j * ld), m[0]);
	return vf_max(vf_max(m[0], m[1]), vf_max(m[2], m[3]));
}

/* e^x, x <= 0, and 0 for what would be subnormal: so are weights that small to tiles, and slow. */
RLX_INLINE vf weight(vf x)
{
	const vf least = vf_set1(-87.0f);

	return vf_sel(vf_lt(x, least), vf_zero(), vf_exp_neg(vf_max(least, x)));
}

/* The softmax of the tile, of queries from @c on: weights as pairs of keys, up to a whole step. */
RLX_INLINE void soften(struct work *w, const struct att_tile *k, float scale, size_t c)
{
	const size_t ld = w->width;
	const float *s = w->t.s + c;
	uint32_t *p = w->p + c;
	const vf old = vf_loadu(w->st.max + c), by = vf_set1(scale);
	vf m = vf_max(largest(s, k->n, ld) * scale, old), sum = vf_zero(), safe, fix, e, f;
	size_t j;

	/* a query that has seen nothing yet: no inf - inf */
	safe = vf_sel(vf_eq(m, vf_set1(-INFINITY)), vf_zero(), m);
	fix = weight(old - safe);
	for (j = 0; j < k->n; j += 2, p += ld) {
		e = weight(vf_fma(vf_loadu(s + j * ld), by, -safe));
		f = j + 1 == k->n ? vf_zero() :
		    weight(vf_fma(vf_loadu(s + (j + 1) * ld), by, -safe));
		sum += e + f;
		vi_storeu(p, pair(e, f));
	}
	for (j = (k->n + 1) / 2; j % TILE_ROWS; j++, p += ld)
		vi_storeu(p, vi_zero());
	vf_storeu(w->st.max + c, m);
	vf_storeu(w->st.fix + c, fix);
	vf_storeu(w->st.sum + c, vf_fma(vf_loadu(w->st.sum + c), fix, sum));
}

/* The values of the tile as [dim][key], up to whole tiles and steps. */
static void values_turn(const struct work *w, const struct att_tile *k)
{
	const struct rlx_k_attention *a = w->t.a;
	const size_t v = (size_t)a->v_dim, pairs = (k->n + STEP - 1) / STEP * TILE_ROWS;
	const uint16_t *src = (const uint16_t *)a->v + w->t.b * a->v_stride[0] +
			      w->t.kvh * a->v_stride[1] + k->at * a->v_stride[2];

	for (size_t j = 0; j < pairs; j++, src += 2 * a->v_stride[2]) {
		uint32_t *to = w->vp + j * w->v;

		if (2 * j >= k->n) {
			memset(to, 0, w->v * sizeof(*to));
			continue;
		}
		for (size_t i = 0; i < w->v; i += RLX_VL) {
			const size_t n = i < v ? v - i : 0;
			vu x = wide(vu16h_loadn(src + i, n));

			if (2 * j + 1 < k->n)
				x |= wide(vu16h_loadn(src + a->v_stride[2] + i, n)) << 16;
			vi_storeu(to + i, (vi)x);
		}
	}
	vi_transpose_block((const char *)w->vp, w->v * 4, (char *)w->vt, KEYS * 2, pairs, w->v);
}

/* o[dim][query] = o * fix + v p */
static void values(struct work *w, const struct att_tile *k, bool first)
{
	const struct product p = {
		.a = (const char *)w->vt, .lda = KEYS * 2, .b = (const char *)w->p,
		.c = (char *)w->t.ot, .ld = w->width * 4,
		.m = w->v / TILE_ROWS, .n = w->width / TILE_ROWS,
		.steps = (k->n + STEP - 1) / STEP, .add = !first,
	};

	for (size_t c = 0; !first && c < w->width; c += RLX_VL) {
		const vf fix = vf_loadu(w->st.fix + c);
		float *o = w->t.ot + c;

		for (size_t i = 0; i < w->v; i++, o += w->width)
			vf_storeu(o, vf_loadu(o) * fix);
	}
	values_turn(w, k);
	multiply(&p);
}

/* Results by rows; false, and nothing is stored: one of them is not a number. */
static bool results(struct work *w)
{
	const struct rlx_k_attention *a = w->t.a;
	const size_t n = (size_t)a->v_dim;
	vf bad = vf_zero();

	vi_transpose_block((const char *)w->t.ot, w->width * 4, (char *)w->t.rows, w->v * 4,
			   w->v, w->width);
	for (size_t i = 0; i < (size_t)w->t.n_rows * w->v; i += RLX_VL)
		bad += vf_loadu(w->t.rows + i) * 0.0f;
	if (isnan(vf_hsum(bad)))
		return false;
	for (int64_t r = 0; r < w->t.n_rows; r++) {
		const struct att_row at = att_row_at(&w->t, r);
		const int64_t to = w->t.b * a->out_stride[0] + at.head * a->out_stride[1] +
				   at.query * a->out_stride[2];
		const float sum = w->st.sum[r], *o = w->t.rows + (size_t)r * w->v;
		const vf inv = vf_set1(sum == 0 ? 0 : 1 / sum);

		for (size_t i = 0; i < n; i += RLX_VL) {
			const vf x = vf_loadu(o + i) * inv;

			if (a->out_type == RLX_BF16)
				vf_storen_bf16((uint16_t *)a->out + to + (int64_t)i, x, n - i);
			else
				vf_storen((float *)a->out + to + (int64_t)i, x, n - i);
		}
		if (a->lse)
			a->lse[(w->t.b * a->heads + at.head) * a->q_len + at.query] =
				w->st.max[r] + vf_log1(sum);
	}
	return true;
}

/* A unit; false: a result is NaN, and none is stored. */
static bool unit_run(struct work *w)
{
	struct att_tile k = { 0 };
	bool first = true;
	float scale;

	w->width = ((size_t)w->t.n_rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
	queries(w);
	for (k.at = w->t.lo; k.at < w->t.hi; k.at += KEYS, first = false) {
		k.n = (size_t)(w->t.hi - k.at < KEYS ? w->t.hi - k.at : KEYS);
		scores(w, &k);
		scale = adjust(w, &k);
		for (size_t c = 0; c < w->width; c += RLX_VL)
			soften(w, &k, scale, c);
		values(w, &k, first);
	}
	if (first)
		memset(w->t.ot, 0, w->v * w->width * 4);
	return results(w);
}

/* All registers are whole tiles: what is not there is 0. */
static void tiles_begin(void)
{
	struct tile_shape s = { .palette = 1 };

	for (int i = 0; i < TILE_COUNT; i++) {
		s.colsb[i] = TILE_COLSB;
		s.rows[i] = TILE_ROWS;
	}
	tile_config(&s);
}

static void scratch_cut(struct work *w, const struct rlx_k_attention *a, void *scratch)
{
	att_scratch(&w->t, a, scratch);
	w->d = ((size_t)a->head_dim + STEP - 1) / STEP * STEP;
	w->v = w->t.v;
	w->q = (uint16_t *)(void *)w->t.qt;
	w->k = (uint16_t *)(void *)w->t.kbuf;
	w->p = (uint32_t *)(void *)w->t.mask;
	w->vt = (uint16_t *)(void *)w->t.vbuf;
	w->vp = (uint32_t *)(void *)(w->vt + KEYS * w->v);
}

void RLX_K(attention)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_attention *a = args;
	struct work w;

	if (a->strict || a->q_type != RLX_BF16 || a->kv_type != RLX_BF16 ||
	    (a->out_type != RLX_BF16 && a->out_type != RLX_F32)) {
		BY_VECTORS(args, begin, end, scratch);
		return;
	}
	scratch_cut(&w, a, scratch);
	tiles_begin();
	for (size_t u = begin; u < end; u++) {
		att_unit(&w.t, u);
		if (w.t.n_rows <= FEW || !unit_run(&w))
			BY_VECTORS(args, u, u + 1, scratch);
	}
	tile_release();
}
