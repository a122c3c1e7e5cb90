/* SPDX-License-Identifier: MIT */
/* Recurrent cells in double, for tests of kernels. */
#ifndef RLX_TEST_RNN_REF_H
#define RLX_TEST_RNN_REF_H

#include "kernels/rnn.h"
#include "selftests/kernels/kcheck.h"

static inline double rnn_act(const struct rlx_k_rnn_fn *f, double x, double clip)
{
	double a = (double)f->alpha, b = (double)f->beta;

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
static inline double rnn_recur(const float *r, const double *h, int64_t hidden, int64_t g,
		    int64_t j)
{
	double s = 0;

	for (int64_t k = 0; k < hidden; k++)
		s += (double)r[(g * hidden + j) * hidden + k] * h[k];
	return s;
}

/* h and c of one row after one step, from the unpacked weights. */
static inline void rnn_step(const struct rlx_k_rnn *a, const float *r, const float *x,
		 int64_t dir, double *h, double *c)
{
	int64_t n = a->hidden;
	const struct rlx_k_rnn_fn *f = a->act[dir];
	const float *p = a->peep ? a->peep + dir * 3 * n : NULL;
	double next[64], z[64], rh[64], clip = (double)a->clip;

	for (int64_t j = 0; j < n && a->cell == RLX_K_RNN_GRU; j++) {
		z[j] = rnn_act(&f[0], (double)x[j] + rnn_recur(r, h, n, 0, j), clip);
		rh[j] = rnn_act(&f[0], (double)x[n + j] + rnn_recur(r, h, n, 1, j),
			    clip);
		if (!a->linear_before_reset)
			rh[j] *= h[j];
	}
	for (int64_t j = 0; j < n; j++) {
		double i, o, g, fg, rb;

		switch (a->cell) {
		case RLX_K_RNN_LSTM:
			i = rnn_act(&f[0], (double)x[j] + rnn_recur(r, h, n, 0, j) +
				(p ? (double)p[j] * c[j] : 0), clip);
			fg = rnn_act(&f[0], (double)x[2 * n + j] +
				 rnn_recur(r, h, n, 2, j) +
				 (p ? (double)p[2 * n + j] * c[j] : 0), clip);
			g = rnn_act(&f[1], (double)x[3 * n + j] +
				rnn_recur(r, h, n, 3, j), clip);
			c[j] = (a->input_forget ? 1 - i : fg) * c[j] + i * g;
			o = rnn_act(&f[0], (double)x[n + j] + rnn_recur(r, h, n, 1, j) +
				(p ? (double)p[n + j] * c[j] : 0), clip);
			next[j] = o * rnn_act(&f[2], c[j], 0);
			break;
		case RLX_K_RNN_GRU:
			rb = a->rb ? (double)a->rb[dir * n + j] : 0;
			g = a->linear_before_reset ?
			    rh[j] * (rnn_recur(r, h, n, 2, j) + rb) :
			    rnn_recur(r, rh, n, 2, j);
			g = rnn_act(&f[1], (double)x[2 * n + j] + g, clip);
			next[j] = (1 - z[j]) * g + z[j] * h[j];
			break;
		default:
			next[j] = rnn_act(&f[0], (double)x[j] +
				      rnn_recur(r, h, n, 0, j), clip);
		}
	}
	memcpy(h, next, (size_t)n * sizeof(*h));
}

/* @tol: of 1 + |want|. Gates without bounds may let states grow: not compared then. */
static inline void rnn_near(float got, double want, double tol,
			    const char *what)
{
	if (fabs(want) > 1e3)
		return;
	CHECKF(fabs((double)got - want) < tol * (1 + fabs(want)),
	       "%s: %g, not %g", what, (double)got, want);
}

/* What @a computed, its r as the op has it; h0, c0: as they were before. */
static inline void rnn_check(const struct rlx_k_rnn *a, const float *r, const float *h0,
			     const float *c0, double tol)
{
	int64_t n = a->hidden, gates = rlx_k_rnn_gates(a->cell);

	for (int64_t u = 0; u < a->dirs * a->batch; u++) {
		int64_t d = u / a->batch, b = u % a->batch;
		int64_t len = a->lens ? ((const int32_t *)a->lens)[b] :
					a->steps;
		double h[64], c[64];

		for (int64_t j = 0; j < n; j++) {
			h[j] = a->h0 ? (double)h0[u * n + j] : 0;
			c[j] = a->c0 ? (double)c0[u * n + j] : 0;
		}
		for (int64_t s = 0; s < a->steps; s++) {
			int64_t t = s < len && a->reverse[d] ? len - 1 - s : s;
			const float *y = a->y + t * a->y_stride[0] +
					 b * a->y_stride[1] +
					 d * a->y_stride[2];

			if (s < len)
				rnn_step(a, r + d * gates * n * n, a->x +
				     t * a->x_stride[0] + b * a->x_stride[1] +
				     d * a->x_stride[2], d, h, c);
			for (int64_t j = 0; j < n; j++)
				rnn_near(y[j], s < len ? h[j] : 0, tol, "y");
		}
		for (int64_t j = 0; j < n; j++) {
			rnn_near(a->yh[u * n + j], h[j], tol, "yh");
			if (a->cell == RLX_K_RNN_LSTM)
				rnn_near(a->yc[u * n + j], c[j], tol, "yc");
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
				RLX_RNN_SIGMOID : RLX_RNN_TANH, 0.3f, 0.4f };
}

/* Time outermost, all of it dense. */
static inline void rnn_strides(struct rlx_k_rnn *a)
{
	int64_t n = a->hidden, gn = rlx_k_rnn_gates(a->cell) * n;

	a->x_stride[0] = a->dirs * a->batch * gn;
	a->x_stride[1] = a->dirs * gn;
	a->x_stride[2] = gn;
	a->y_stride[0] = a->dirs * a->batch * n;
	a->y_stride[1] = n;
	a->y_stride[2] = a->batch * n;
}

#endif
