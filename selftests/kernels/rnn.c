// SPDX-License-Identifier: MIT
/* LSTM, GRU and RNN against double, with every option, at every level. */
#include "kernels/rnn.h"
#include "selftests/kernels/kcheck.h"

static double act(const struct rlx_k_rnn_fn *f, double x, double clip)
{
	double a = (double)f->alpha, b = (double)f->beta;

	if (clip > 0)
		x = fmin(clip, fmax(-clip, x));
	switch (f->fn) {
	case RLX_K_RNN_SIGMOID: return 1 / (1 + exp(-x));
	case RLX_K_RNN_TANH: return tanh(x);
	case RLX_K_RNN_RELU: return x > 0 ? x : 0;
	case RLX_K_RNN_AFFINE: return a * x + b;
	case RLX_K_RNN_LEAKY_RELU: return x < 0 ? a * x : x;
	case RLX_K_RNN_THRESHOLDED_RELU: return x > a ? x : 0;
	case RLX_K_RNN_SCALED_TANH: return a * tanh(b * x);
	case RLX_K_RNN_HARD_SIGMOID: return fmin(1, fmax(0, a * x + b));
	case RLX_K_RNN_ELU: return x < 0 ? a * (exp(x) - 1) : x;
	case RLX_K_RNN_SOFTSIGN: return x / (1 + fabs(x));
	default: return fmax(x, 0) + log1p(exp(-fabs(x)));
	}
}

/* One unit's share of h R^T for gate g. */
static double recur(const float *r, const double *h, int64_t hidden, int64_t g,
		    int64_t j)
{
	double s = 0;

	for (int64_t k = 0; k < hidden; k++)
		s += (double)r[(g * hidden + j) * hidden + k] * h[k];
	return s;
}

/* h and c of one row after one step, from the unpacked weights. */
static void step(const struct rlx_k_rnn *a, const float *r, const float *x,
		 int64_t dir, double *h, double *c)
{
	int64_t n = a->hidden;
	const struct rlx_k_rnn_fn *f = a->act[dir];
	const float *p = a->peep ? a->peep + dir * 3 * n : NULL;
	double next[64], z[64], rh[64], clip = (double)a->clip;

	for (int64_t j = 0; j < n && a->cell == RLX_K_RNN_GRU; j++) {
		z[j] = act(&f[0], (double)x[j] + recur(r, h, n, 0, j), clip);
		rh[j] = act(&f[0], (double)x[n + j] + recur(r, h, n, 1, j),
			    clip);
		if (!a->linear_before_reset)
			rh[j] *= h[j];
	}
	for (int64_t j = 0; j < n; j++) {
		double i, o, g, fg, rb;

		switch (a->cell) {
		case RLX_K_RNN_LSTM:
			i = act(&f[0], (double)x[j] + recur(r, h, n, 0, j) +
				(p ? (double)p[j] * c[j] : 0), clip);
			fg = act(&f[0], (double)x[2 * n + j] +
				 recur(r, h, n, 2, j) +
				 (p ? (double)p[2 * n + j] * c[j] : 0), clip);
			g = act(&f[1], (double)x[3 * n + j] +
				recur(r, h, n, 3, j), clip);
			c[j] = (a->input_forget ? 1 - i : fg) * c[j] + i * g;
			o = act(&f[0], (double)x[n + j] + recur(r, h, n, 1, j) +
				(p ? (double)p[n + j] * c[j] : 0), clip);
			next[j] = o * act(&f[2], c[j], 0);
			break;
		case RLX_K_RNN_GRU:
			rb = a->rb ? (double)a->rb[dir * n + j] : 0;
			g = a->linear_before_reset ?
			    rh[j] * (recur(r, h, n, 2, j) + rb) :
			    recur(r, rh, n, 2, j);
			g = act(&f[1], (double)x[2 * n + j] + g, clip);
			next[j] = (1 - z[j]) * g + z[j] * h[j];
			break;
		default:
			next[j] = act(&f[0], (double)x[j] +
				      recur(r, h, n, 0, j), clip);
		}
	}
	memcpy(h, next, (size_t)n * sizeof(*h));
}

/* Random activations may let a state grow without bound; not compared then. */
static void near(float got, double want, const char *what)
{
	if (fabs(want) > 1e3)
		return;
	CHECKF(fabs((double)got - want) < 2e-5 * (1 + fabs(want)),
	       "%s: %g, not %g", what, (double)got, want);
}

static void check(const struct rlx_k_rnn *a, const float *r, const float *h0,
		  const float *c0)
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
				step(a, r + d * gates * n * n, a->x +
				     t * a->x_stride[0] + b * a->x_stride[1] +
				     d * a->x_stride[2], d, h, c);
			for (int64_t j = 0; j < n; j++)
				near(y[j], s < len ? h[j] : 0, "y");
		}
		for (int64_t j = 0; j < n; j++) {
			near(a->yh[u * n + j], h[j], "yh");
			if (a->cell == RLX_K_RNN_LSTM)
				near(a->yc[u * n + j], c[j], "yc");
		}
	}
}

static struct kc_buf floats(int64_t n, double range, uint64_t *seed)
{
	struct kc_buf b = kc_buf_new((size_t)n * 4, 4);

	kc_fill(b.p, (size_t)n, -range, range, seed);
	return b;
}

static void options(struct rlx_k_rnn *a, bool rare, uint64_t *seed)
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
				RLX_K_RNN_SIGMOID : RLX_K_RNN_TANH, 0.3f, 0.4f };
}

static void one(const struct rlx_kernels *k, uint64_t *seed)
{
	struct rlx_k_rnn a = { .cell = (uint8_t)kc_pick(seed, 0, 2),
		.steps = kc_pick(seed, 1, 6), .batch = kc_pick(seed, 1, 9),
		.hidden = kc_pick(seed, 1, 40), .dirs = kc_pick(seed, 1, 2),
		.lens_type = RLX_K_I32 };
	int64_t g = rlx_k_rnn_gates(a.cell), n = a.hidden;
	int64_t db = a.dirs * a.batch;
	bool rare = kc_pick(seed, 0, 2) == 0;
	/* gates without bounds multiply states: small inputs keep those from growing */
	double size = rare ? 0.25 : 1;
	struct kc_buf x = floats(a.steps * db * g * n, size, seed);
	struct kc_buf r = floats(a.dirs * g * n * n, size / sqrt((double)n), seed);
	struct kc_buf s[4], h0, c0, y = floats(a.steps * db * n, 0, seed);
	struct kc_buf packed = kc_buf_new((size_t)a.dirs *
					  rlx_k_rnn_packed(a.cell, n) * 4, 4);
	struct rlx_k_rnn_pack p = { r.p, packed.p, a.dirs, n, a.cell };
	int32_t lens[9];

	for (int i = 0; i < 4; i++)
		s[i] = floats(db * n, size, seed);
	h0 = floats(db * n, size, seed);
	c0 = floats(a.dirs * 3 * n, size, seed);
	memcpy(h0.p, s[0].p, s[0].size);
	for (int i = 0; i < 9; i++)
		lens[i] = (int32_t)kc_pick(seed, 0, a.steps);
	options(&a, rare, seed);
	a.x = x.p;
	a.r = packed.p;
	a.rb = kc_pick(seed, 0, 1) ? c0.p : NULL;
	a.peep = kc_pick(seed, 0, 2) ? NULL : c0.p;
	a.h0 = kc_pick(seed, 0, 2) ? s[0].p : NULL;
	a.c0 = kc_pick(seed, 0, 2) ? s[1].p : NULL;
	a.lens = kc_pick(seed, 0, 1) ? lens : NULL;
	a.y = y.p;
	a.yh = a.h0 ? s[0].p : s[2].p;
	a.yc = s[3].p;
	a.x_stride[0] = db * g * n;
	a.x_stride[1] = a.dirs * g * n;
	a.x_stride[2] = g * n;
	a.y_stride[0] = db * n;
	a.y_stride[1] = n;
	a.y_stride[2] = a.batch * n;
	kc_run(k->rnn_pack, &p, (size_t)a.dirs, 0, seed);
	kc_run(k->rnn, &a, rlx_k_rnn_units(&a), rlx_k_rnn_scratch(&a), seed);
	check(&a, r.p, h0.p, s[1].p);
	kc_buf_free(&x);
	kc_buf_free(&r);
	kc_buf_free(&y);
	kc_buf_free(&packed);
	kc_buf_free(&h0);
	kc_buf_free(&c0);
	for (int i = 0; i < 4; i++)
		kc_buf_free(&s[i]);
}

TEST(cells_with_every_option)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST_MAIN()
