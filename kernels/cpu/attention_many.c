// SPDX-License-Identifier: MIT
/*
 * Attention of many queries. Queries lie across the lanes: scores and results
 * are transposed, [key][query] and [dim][query], so that keys and values are
 * read where they are, one broadcast element at a time, and the softmax needs
 * nothing across lanes. Only q and the result are transposed, once a block.
 */
#include "kernels/cpu/attention_bias.h"

#if defined(RLX_V512)
#define MAX_NQ	4	/* vectors of queries side by side */
#else
#define MAX_NQ	2
#endif
#define MAX_ROWS	(MAX_NQ * RLX_VL)

/* Running maximum and sum of each query, and this tile's correction. */
struct stats {
	vf	max[MAX_NQ], sum[MAX_NQ], fix[MAX_NQ];
	vi	lo[MAX_NQ], hi[MAX_NQ];	/* keys it may see */
	int64_t	all_lo, all_hi;		/* keys that every query may see */
};

/* s[m][.] = k[m] . q, m < mr; rows at or past n repeat the last one. */
RLX_INLINE void scores(const struct att_block *t, const struct att_tile *k,
		       size_t at, const int mr, const int nq)
{
	const size_t d = (size_t)t->a->head_dim;
	const float *qt = t->qt, *p[8];
	float *s = t->s;
	vf acc[8][4];

	RLX_UNROLL
	for (int m = 0; m < mr; m++) {
		size_t j = at + (size_t)m;

		p[m] = k->k + (j < k->n ? j : k->n - 1) * k->ldk;
		RLX_UNROLL
		for (int c = 0; c < nq; c++)
			acc[m][c] = vf_zero();
	}
	for (size_t i = 0; i < d; i++) {
		vf q[4];

		RLX_UNROLL
		for (int c = 0; c < nq; c++)
			q[c] = vf_loadu(qt + (i * (size_t)nq + (size_t)c) *
					RLX_VL);
		RLX_UNROLL
		for (int m = 0; m < mr; m++) {
			const vf x = vf_set1(p[m][i]);

			RLX_UNROLL
			for (int c = 0; c < nq; c++)
				acc[m][c] = vf_fma(x, q[c], acc[m][c]);
		}
	}
	RLX_UNROLL
	for (int m = 0; m < mr; m++)
		RLX_UNROLL
		for (int c = 0; c < nq; c++)
			vf_storeu(s + ((at + (size_t)m) * (size_t)nq +
				       (size_t)c) * RLX_VL, acc[m][c]);
}

struct sums {
	float		*o;
	const float	*p;
	const vf	*fix;	/* NULL: o holds nothing yet */
	bool		careful;	/* see is_nan() */
};

/* acc + x * p, nothing where p is 0, were x infinite. */
RLX_INLINE vf weighed(vf x, vf p, vf acc)
{
	return vf_sel(vf_eq(p, vf_zero()), acc, vf_fma(x, p, acc));
}

/*
 * o[m][.] = o * fix + sum_j v[j][m] p[j][.], m < mr; past dim the last repeats,
 * but for whole tiles the offsets are constants.
 */
RLX_INLINE void values(const struct sums *w, const struct att_tile *k,
		       size_t dim, const int mr, const int nq)
{
	const bool careful = w->careful;
	const vf *fix = w->fix;
	const float *p = w->p;
	float *o = w->o;
	const bool whole = dim >= (size_t)mr;
	size_t off[8];
	vf acc[8][4];

	RLX_UNROLL
	for (int m = 0; m < mr; m++) {
		off[m] = whole || (size_t)m < dim ? (size_t)m : dim - 1;
		RLX_UNROLL
		for (int c = 0; c < nq; c++)
			acc[m][c] = fix ? fix[c] * vf_loadu(o +
				(m * nq + c) * RLX_VL) : vf_zero();
	}
	for (size_t j = 0; j < k->n; j++) {
		const float *v = k->v + j * k->ldv;
		vf q[4];

		RLX_UNROLL
		for (int c = 0; c < nq; c++)
			q[c] = vf_loadu(p + (j * (size_t)nq + (size_t)c) *
					RLX_VL);
		RLX_UNROLL
		for (int m = 0; m < mr; m++) {
			const vf x = vf_set1(v[off[m]]);

			RLX_UNROLL
			for (int c = 0; c < nq; c++)
				acc[m][c] = careful ?
					weighed(x, q[c], acc[m][c]) :
					vf_fma(x, q[c], acc[m][c]);
		}
	}
	RLX_UNROLL
	for (int m = 0; m < mr; m++)
		RLX_UNROLL
		for (int c = 0; c < nq; c++)
			vf_storeu(o + (m * nq + c) * RLX_VL, acc[m][c]);
}

RLX_INLINE void all_values(const struct att_block *t, struct att_tile k,
			   struct sums x, const int mr, const int nq)
{
	const size_t dim = (size_t)t->a->v_dim, step = (size_t)mr;
	size_t i = 0;

	for (; i + step <= dim; i += step) {
		values(&x, &k, step, mr, nq);
		x.o += step * (size_t)nq * RLX_VL;
		k.v += step;
	}
	if (i < dim)
		values(&x, &k, dim - i, mr, nq);
}

/* Everything between the products: cap, bias, limits, softmax of the tile. */
RLX_INLINE void soften(const struct att_block *t, const struct att_tile *k,
		       struct stats *st, const int nq)
{
	const struct rlx_k_attention *a = t->a;
	const size_t width = (size_t)nq * RLX_VL;
	const bool cut = k->at < st->all_lo ||
			 k->at + (int64_t)k->n > st->all_hi;

	if (a->softcap > 0)
		for (size_t i = 0; i < k->n * width; i += RLX_VL) {
			vf x = vf_loadu(t->s + i) * (1 / a->softcap);

			vf_storeu(t->s + i, vf_tanh(x) * a->softcap);
		}
	if (a->bias)
		add_bias(t, k, width);
	RLX_UNROLL
	for (int c = 0; c < nq; c++) {
		float *s = t->s + c * RLX_VL;
		vf m = st->max[c], sum = vf_zero(), safe;

		for (size_t j = 0; j < k->n; j++) {
			vf x = vf_loadu(s + j * width);

			if (cut) {
				vi key = vi_set1((int32_t)(k->at + (int64_t)j));
				vm out = vm_or(vi_lt(key, st->lo[c]),
					       vm_not(vi_lt(key, st->hi[c])));

				x = vf_sel(out, vf_set1(-INFINITY), x);
				vf_storeu(s + j * width, x);
			}
			m = vf_max(x, m);
		}
		/* a query that has seen nothing yet: no inf - inf */
		safe = vf_sel(vf_eq(m, vf_set1(-INFINITY)), vf_zero(), m);
		st->fix[c] = vf_exp_neg(st->max[c] - safe);
		st->max[c] = m;
		for (size_t j = 0; j < k->n; j++) {
			vf x = vf_exp_weight(vf_loadu(s + j * width) - safe);

			vf_storeu(s + j * width, x);
			sum += x;
		}
		st->sum[c] = vf_fma(st->sum[c], st->fix[c], sum);
	}
}

/* Limits that fit 32 bits: positions are far below 2^31 keys. */
static void limits(const struct att_block *t, struct stats *st, int nq)
{
	st->all_lo = 0;
	st->all_hi = INT64_MAX;
	for (int c = 0; c < nq; c++)
		for (int l = 0; l < RLX_VL; l++) {
			int64_t r = c * RLX_VL + l, lo, hi;

			r = r < t->n_rows ? r : t->n_rows - 1;
			att_range(t, att_row_at(t, r).query, &lo, &hi);
			st->lo[c][l] = (int32_t)lo;
			st->hi[c][l] = (int32_t)hi;
			st->all_lo = lo > st->all_lo ? lo : st->all_lo;
			st->all_hi = hi < st->all_hi ? hi : st->all_hi;
		}
}

static void queries(const struct att_block *t, int nq)
{
	for (int64_t r = 0; r < nq * RLX_VL; r++) {
		float *to = t->rows + (size_t)r * t->d;

		if (r < t->n_rows)
			RLX_K(att_query)(t, r, to);
		else
			memset(to, 0, t->d * sizeof(*to));
	}
	vi_transpose_block((const char *)t->rows, t->d * 4, (char *)t->qt,
			   (size_t)nq * RLX_VL * 4, (size_t)nq * RLX_VL, t->d);
}

static void results(const struct att_block *t, const struct stats *st, int nq)
{
	const struct rlx_k_attention *a = t->a;

	vi_transpose_block((const char *)t->ot, (size_t)nq * RLX_VL * 4,
			   (char *)t->rows, t->v * 4, t->v,
			   (size_t)nq * RLX_VL);
	for (int64_t r = 0; r < t->n_rows; r++) {
		float sum = st->sum[r / RLX_VL][r % RLX_VL];
		float max = st->max[r / RLX_VL][r % RLX_VL];
		float *o = t->rows + (size_t)r * t->v;
		struct att_row w = att_row_at(t, r);
		vf inv = vf_set1(sum == 0 ? 0 : 1 / sum);

		for (size_t i = 0; i < t->v; i += RLX_VL)
			vf_storeu(o + i, vf_loadu(o + i) * inv);
		RLX_K(att_store)(t, r, o);
		if (a->lse)
			a->lse[(t->b * a->heads + w.head) * a->q_len +
			       w.query] = max + vf_log1(sum);
	}
}

/*
 * Is a result not a number? A key that a query does not see has weight 0 for it, which
 * infinite values and NaNs make one: the block is then computed again, with care.
 */
static bool is_nan(const struct att_block *t, int nq)
{
	const size_t n = (size_t)t->a->v_dim * (size_t)nq * RLX_VL;
	vf sum = vf_zero();

	for (size_t i = 0; i < n; i += RLX_VL)
		sum += vf_loadu(t->ot + i) * 0.0f;
	return isnan(vf_hsum(sum));
}

RLX_INLINE void all_tiles(struct att_block *t, struct stats *s, const bool careful,
			  const int mr, const int nq)
{
	struct stats st = *s;
	struct att_tile k;
	bool first = true;

	for (int64_t at = t->lo; at < t->hi; at += KEYS, first = false) {
		RLX_K(att_tile)(t, &k, at);
		for (size_t j = 0; j < k.n; j += (size_t)mr)
			scores(t, &k, j, mr, nq);
		soften(t, &k, &st, nq);
		all_values(t, k, (struct sums){ t->ot, t->s, first ? NULL : st.fix, careful },
			   mr, nq);
	}
	if (first)
		memset(t->ot, 0, t->v * (size_t)nq * RLX_VB);
	*s = st;
}

RLX_INLINE void run(struct att_block *t, const int nq, const int mr)
{
	struct stats st, begun;

	for (int c = 0; c < nq; c++) {
		st.max[c] = vf_set1(-INFINITY);
		st.sum[c] = vf_zero();
	}
	limits(t, &st, nq);
	queries(t, nq);
	begun = st;
	all_tiles(t, &st, false, mr, nq);
	if (is_nan(t, nq)) {
		st = begun;
		all_tiles(t, &st, true, mr, nq);
	}
	results(t, &st, nq);
}

#if defined(RLX_V512)
static void run4(struct att_block *t)
{
	run(t, 4, 4);
}
#endif

static void run2(struct att_block *t)
{
#if defined(RLX_V512)
	run(t, 2, 8);
#else
	run(t, 2, 4);
#endif
}

static void run1(struct att_block *t)
{
	run(t, 1, 8);
}

void RLX_K(att_many)(struct att_block *t)
{
	const int64_t row = t->row, n = t->n_rows;

	for (int64_t done = 0; done < n; done += t->n_rows) {
		t->row = row + done;
		t->n_rows = n - done < MAX_ROWS ? n - done : MAX_ROWS;
		if (t->n_rows <= RLX_VL)
			run1(t);
		else if (t->n_rows <= 2 * RLX_VL)
			run2(t);
#if defined(RLX_V512)
		else
			run4(t);
#endif
	}
}
