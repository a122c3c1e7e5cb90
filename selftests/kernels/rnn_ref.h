/* SPDX-License-Identifier: MIT */
/* Recurrent cells in double, for tests of kernels. */
#ifndef RLX_TEST_RNN_REF_H
#define RLX_TEST_RNN_REF_H

#include "kernels/rnn.h"
#include "selftests/kernels/kcheck.h"

/* What is compared: tensors of double if @f64, else of float. */
struct rnn_ref {
	const struct rlx_k_rnn	*a;
	bool			 f64;
	const void		*r;		/* unpacked, as the op has it */
	const void		*h0, *c0;	/* as they were before */
	double			 tol;
};

static inline double rnn_get(const struct rnn_ref *q, const void *p, int64_t i)
{
	return q->f64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static inline double rnn_act(const struct rlx_k_rnn_fn *f, double x, double clip)
{
	double a = f->alpha, b = f->beta;

	if (clip > 0)
		x = fmin(clip, fmax(-clip, x));
	switch (f->fn) {
	case RLX_RNN_SIGMOID: return 1 / (1 + exp(-x));
	case RLX_RNN_TANH: return tanh(x);
	case RLX_RNN_RELU: return x > 0 ? x : 0;
	case RLX_RNN_AFFINE: return a * x + b;
	case RLX_RNN_LEAKY_RELU: return x < 0 ? a * x : x;
	case RLX_RNN_THRESHOLDED_RELU: return x >= a ? x : 0;
	case RLX_RNN_SCALED_TANH: return a * tanh(b * x);
	case RLX_RNN_HARD_SIGMOID: return fmin(1, fmax(0, a * x + b));
	case RLX_RNN_ELU: return x < 0 ? a * (exp(x) - 1) : x;
	case RLX_RNN_SOFTSIGN: return x / (1 + fabs(x));
	default: return fmax(x, 0) + log1p(exp(-fabs(x)));
	}
}

/* One unit's share of h R^T for gate g. */
static inline double rnn_recur(const struct rnn_ref *q, int64_t dir, const double *h, int64_t g,
			       int64_t j)
{
	int64_t n = q->a->hidden, at = (dir * rlx_k_rnn_gates(q->a->cell) + g) * n + j;
	double s = 0;

	for (int64_t k = 0; k < n; k++)
		s += rnn_get(q, q->r, at * n + k) * h[k];
	return s;
}

/* h and c of one row after one step, whose input is at @x. */
static inline void rnn_step(const struct rnn_ref *q, int64_t x, int64_t dir, double *h, double *c)
{
	const struct rlx_k_rnn *a = q->a;
	int64_t n = a->hidden, p = dir * 3 * n;
	const struct rlx_k_rnn_fn *f = a->act[dir];
	double next[64], z[64], rh[64], in[4], peep[3] = { 0 }, clip = (double)a->clip;

	for (int64_t j = 0; j < n && a->cell == RLX_K_RNN_GRU; j++) {
		z[j] = rnn_act(&f[0], rnn_get(q, a->x, x + j) + rnn_recur(q, dir, h, 0, j), clip);
		rh[j] = rnn_act(&f[0], rnn_get(q, a->x, x + n + j) + rnn_recur(q, dir, h, 1, j),
				clip);
		if (!a->linear_before_reset)
			rh[j] *= h[j];
	}
	for (int64_t j = 0; j < n; j++) {
		double i, o, g, fg, rb;
		int k;

		for (k = 0; k < rlx_k_rnn_gates(a->cell); k++)
			in[k] = rnn_get(q, a->x, x + k * n + j);
		for (k = 0; a->peep && k < 3; k++)
			peep[k] = rnn_get(q, a->peep, p + k * n + j);
		switch (a->cell) {
		case RLX_K_RNN_LSTM:
			i = rnn_act(&f[0], in[0] + rnn_recur(q, dir, h, 0, j) + peep[0] * c[j],
				    clip);
			fg = rnn_act(&f[0], in[2] + rnn_recur(q, dir, h, 2, j) + peep[2] * c[j],
				     clip);
			g = rnn_act(&f[1], in[3] + rnn_recur(q, dir, h, 3, j), clip);
			c[j] = (a->input_forget ? 1 - i : fg) * c[j] + i * g;
			o = rnn_act(&f[0], in[1] + rnn_recur(q, dir, h, 1, j) + peep[1] * c[j],
				    clip);
			next[j] = o * rnn_act(&f[2], c[j], 0);
			break;
		case RLX_K_RNN_GRU:
			rb = a->rb ? rnn_get(q, a->rb, dir * n + j) : 0;
			g = a->linear_before_reset ? rh[j] * (rnn_recur(q, dir, h, 2, j) + rb) :
						     rnn_recur(q, dir, rh, 2, j);
			g = rnn_act(&f[1], in[2] + g, clip);
			next[j] = (1 - z[j]) * g + z[j] * h[j];
			break;
		default:
			next[j] = rnn_act(&f[0], in[0] + rnn_recur(q, dir, h, 0, j), clip);
		}
	}
	memcpy(h, next, (size_t)n * sizeof(*h));
}

/* @tol: of 1 + |want|. Gates without bounds may let states grow: not compared then. */
static inline void rnn_near(const struct rnn_ref *q, const void *p, int64_t i, double want,
			    const char *what)
{
	double got = rnn_get(q, p, i);

	if (fabs(want) > 1e3)
		return;
	CHECKF(fabs(got - want) < q->tol * (1 + fabs(want)), "%s: %.17g, not %.17g", what, got,
	       want);
}

/* What the kernel computed. */
static inline void rnn_check(const struct rnn_ref *q)
{
	const struct rlx_k_rnn *a = q->a;
	int64_t n = a->hidden;

	for (int64_t u = 0; u < a->dirs * a->batch; u++) {
		int64_t d = u / a->batch, b = u % a->batch;
		int64_t at = b * a->h_stride[0] + d * a->h_stride[1];
		int64_t len = a->lens ? ((const int32_t *)a->lens)[b] :
					a->steps;
		double h[64], c[64];

		for (int64_t j = 0; j < n; j++) {
			h[j] = a->h0 ? rnn_get(q, q->h0, at + j) : 0;
			c[j] = a->c0 ? rnn_get(q, q->c0, at + j) : 0;
		}
		for (int64_t s = 0; s < a->steps; s++) {
			int64_t t = s < len && a->reverse[d] ? len - 1 - s : s;
			int64_t y = t * a->y_stride[0] + b * a->y_stride[1] + d * a->y_stride[2];

			if (s < len)
				rnn_step(q, t * a->x_stride[0] + b * a->x_stride[1] +
					 d * a->x_stride[2], d, h, c);
			for (int64_t j = 0; j < n; j++)
				rnn_near(q, a->y, y + j, s < len ? h[j] : 0, "y");
		}
		for (int64_t j = 0; j < n; j++) {
			rnn_near(q, a->yh, at + j, h[j], "yh");
			if (a->cell == RLX_K_RNN_LSTM)
				rnn_near(q, a->yc, at + j, c[j], "yc");
		}
	}
}

static inline void rnn_options(struct rlx_k_rnn *a, bool rare, uint64_t *seed)
{
	a->reverse[0] = a->dirs == 1 && kc_pick(seed, 0, 1);
	a->reverse[1] = true;
	a->clip = kc_pick(seed, 0, 2) ? 0 : 0.7f;
	a->input_forget = kc_pick(seed, 0, 3) == 0;
	a->linear_before_reset = kc_pick(seed, 0, 1);
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < 3; i++)
			a->act[d][i] = (struct rlx_k_rnn_fn){
				rare ? (uint8_t)kc_pick(seed, 0, 10) :
				i == 0 && a->cell != RLX_K_RNN_PLAIN ?
				RLX_RNN_SIGMOID : RLX_RNN_TANH,
				(double)kc_pick(seed, 1, 5) / 10, (double)kc_pick(seed, 1, 5) / 8 };
}

/* All of it dense: time outermost, or the batch. */
static inline void rnn_strides(struct rlx_k_rnn *a, bool batch_first)
{
	int64_t n = a->hidden, gn = rlx_k_rnn_gates(a->cell) * n;

	if (batch_first) {
		a->x_stride[0] = a->dirs * gn;
		a->x_stride[1] = a->steps * a->dirs * gn;
		a->x_stride[2] = gn;
		a->y_stride[0] = a->dirs * n;
		a->y_stride[1] = a->steps * a->dirs * n;
		a->y_stride[2] = n;
		a->h_stride[0] = a->dirs * n;
		a->h_stride[1] = n;
		return;
	}

	a->x_stride[0] = a->dirs * a->batch * gn;
	a->x_stride[1] = a->dirs * gn;
	a->x_stride[2] = gn;
	a->y_stride[0] = a->dirs * a->batch * n;
	a->y_stride[1] = n;
	a->y_stride[2] = a->batch * n;
	a->h_stride[0] = n;
	a->h_stride[1] = a->batch * n;
}

#endif
