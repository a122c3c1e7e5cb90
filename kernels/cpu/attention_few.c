// SPDX-License-Identifier: MIT
/*
 * Attention of few queries, as when decoding: the dimensions lie across the
 * lanes, each tile of keys and values is read once for all queries.
 */
#include "kernels/cpu/attention.h"
#include "kernels/simd/wide.h"

#define FEW	8

struct few {
	struct att_block	*t;
	float			max[FEW], sum[FEW];
};

enum { AT_ONCE = RLX_VB < 32 ? 4 : 8 / RLX_WIDE };	/* keys, whose sums fill registers */

/* s[l] = k[at + l] . q for AT_ONCE keys; past the end the last one's. */
static void dots(const struct att_block *t, const struct att_tile *k, size_t at,
		 const float *q, float *s)
{
	const size_t d = (size_t)t->a->head_dim;
	const float *p[AT_ONCE];
	vw acc[AT_ONCE], x;
	size_t i = 0;

	RLX_UNROLL
	for (size_t l = 0; l < AT_ONCE; l++) {
		p[l] = k->k + (at + l < k->n ? at + l : k->n - 1) * k->ldk;
		acc[l] = vw_set1(0);
	}
	for (; i + RLX_WL <= d; i += RLX_WL) {
		x = vw_loadu(q + i);
		RLX_UNROLL
		for (size_t l = 0; l < AT_ONCE; l++)
			acc[l] = vw_fma(vw_loadu(p[l] + i), x, acc[l]);
	}
	if (i < d) {
		x = vw_loadu(q + i);
		RLX_UNROLL
		for (size_t l = 0; l < AT_ONCE; l++)
			acc[l] = vw_fma(vw_loadn(p[l] + i, d - i), x, acc[l]);
	}
	RLX_UNROLL
	for (size_t l = 0; l < AT_ONCE; l += 4)
		vw_hsum4(acc + l, s + at + l);
}

/* -inf outside [lo, hi), bias added; the tile's scores of query r */
static void limit(const struct att_block *t, const struct att_tile *k,
		  int64_t r, float *s)
{
	const struct rlx_k_attention *a = t->a;
	const struct att_row w = att_row_at(t, r);
	int64_t lo, hi;

	if (a->softcap > 0)
		for (size_t j = 0; j < k->n; j += RLX_VL) {
			vf x = vf_loadu(s + j) * (1 / a->softcap);

			vf_storeu(s + j, vf_tanh(x) * a->softcap);
		}
	if (a->bias) {
		int64_t off = att_bias_at(t, w) + k->at * a->bias_stride[3];

		for (size_t j = 0; j < k->n; j++) {
			float b = att_bias(t, off + (int64_t)j *
					      a->bias_stride[3]);

			s[j] = att_is_out(a, b) ? b : s[j] + b;
		}
	}
	att_range(t, w.query, &lo, &hi);
	for (size_t j = 0; j < k->n; j++)
		if (k->at + (int64_t)j < lo || k->at + (int64_t)j >= hi)
			s[j] = -INFINITY;
	for (size_t j = k->n; j % RLX_WL; j++)
		s[j] = -INFINITY;
}

/* Scores to weights; returns what the results so far are to be scaled by. */
static float soften(struct few *f, int64_t r, float *s, size_t n)
{
	vf m = vf_set1(f->max[r]);
	vw sum = vw_set1(0);
	float max, safe, fix;

	for (size_t j = 0; j < n; j += RLX_VL)
		m = vf_max(vf_loadu(s + j), m);
	max = vf_hmax(m);
	safe = max == -INFINITY ? 0 : max;
	fix = vf_exp1(f->max[r] - safe);
	f->max[r] = max;
	for (size_t j = 0; j < n; j += RLX_WL)
		RLX_EACH_WIDE(w) {
			vf x = vf_exp_weight(vf_loadu(s + j + w * RLX_VL) - safe);

			vf_storeu(s + j + w * RLX_VL, x);
			sum.v[w] += x;
		}
	f->sum[r] = vf_fma(vf_set1(f->sum[r]), vf_set1(fix), vf_set1(vw_hsum(sum)))[0];
	return fix;
}

/*
 * o = o * fix + sum_j p[j] v[j], four vectors of dimensions at a time. Keys without
 * weight add nothing, were their values infinite.
 */
static void values(float *o, const float *p, const struct att_tile *k,
		   float fix, size_t dim)
{
	for (size_t i = 0; i < dim; i += 4 * RLX_VL) {
		vf acc[4];

		for (size_t c = 0; c < 4; c++)
			acc[c] = i + c * RLX_VL < dim ?
				 vf_loadu(o + i + c * RLX_VL) * fix : vf_zero();
		if (i + 4 * RLX_VL <= dim) {
			for (size_t j = 0; j < k->n; j++) {
				const float *v = k->v + j * k->ldv + i;

				if (p[j] == 0)
					continue;
				RLX_UNROLL
				for (size_t c = 0; c < 4; c++)
					acc[c] = vf_fma(vf_loadu(v + c *
								 RLX_VL),
							vf_set1(p[j]), acc[c]);
			}
		} else {
			for (size_t j = 0; j < k->n; j++) {
				const float *v = k->v + j * k->ldv + i;

				if (p[j] == 0)
					continue;
				for (size_t c = 0; c * RLX_VL < dim - i; c++)
					acc[c] = vf_fma(vf_loadn(v + c * RLX_VL,
						dim - i - c * RLX_VL),
						vf_set1(p[j]), acc[c]);
			}
		}
		for (size_t c = 0; c < 4 && i + c * RLX_VL < dim; c++)
			vf_storeu(o + i + c * RLX_VL, acc[c]);
	}
}

static void finish(const struct few *f, int64_t r, float *o)
{
	const struct att_block *t = f->t;
	const struct att_row w = att_row_at(t, r);
	const float inv = f->sum[r] == 0 ? 0 : 1 / f->sum[r];

	for (size_t i = 0; i < t->v; i += RLX_VL)
		vf_storeu(o + i, vf_loadu(o + i) * inv);
	RLX_K(att_store)(t, r, o);
	if (t->a->lse)
		t->a->lse[(t->b * t->a->heads + w.head) * t->a->q_len +
			  w.query] = f->max[r] + vf_log1(f->sum[r]);
}

void RLX_K(att_short_kv)(struct att_block *t)
{
	struct few f = { .t = t };
	struct att_tile k;

	memset(t->ot, 0, (size_t)t->n_rows * t->v * sizeof(float));
	for (int64_t r = 0; r < t->n_rows; r++) {
		RLX_K(att_query)(t, r, t->qt + (size_t)r * t->d);
		f.max[r] = -INFINITY;
	}
	for (int64_t at = t->lo; at < t->hi; at += KEYS) {
		RLX_K(att_tile)(t, &k, at);
		for (int64_t r = 0; r < t->n_rows; r++) {
			float fix;

			for (size_t j = 0; j < k.n; j += AT_ONCE)
				dots(t, &k, j, t->qt + (size_t)r * t->d, t->s);
			limit(t, &k, r, t->s);
			fix = soften(&f, r, t->s, k.n);
			values(t->ot + (size_t)r * t->v, t->s, &k, fix,
			       (size_t)t->a->v_dim);
		}
	}
	for (int64_t r = 0; r < t->n_rows; r++)
		finish(&f, r, t->ot + (size_t)r * t->v);
}
