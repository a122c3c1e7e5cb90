// SPDX-License-Identifier: MIT
/*
 * Recurrent cells. A panel is 16 hidden units with all their gates, so that a
 * cell's gates meet in registers; the recurrence is a matrix-vector product
 * that streams the packed weights once a step.
 */
#include "kernels/kernel.h"
#include "kernels/rnn.h"
#include "kernels/simd/math.h"

rlx_k_fn RLX_K(rnn_pack), RLX_K(rnn);

#define P	RLX_K_RNN_PANEL
#define ROWS	RLX_K_RNN_ROWS
#define NV	(P / RLX_VL)	/* vectors of a panel */
#if defined(RLX_V512)
#define TOGETHER	ROWS	/* batch rows that share a load of weights */
#else
#define TOGETHER	1
#endif

struct state {
	const struct rlx_k_rnn *a;
	const float	*r;		/* this direction's */
	const struct rlx_k_rnn_fn *act;
	int64_t		dir, row, n;	/* batch rows [row, row + n) */
	size_t		width;		/* hidden rounded up to P */
	int64_t		lens[ROWS];
	float		*h, *next, *c, *z, *rh;	/* ROWS x width each */
};

/* [panel][k][gate][16] of gates [g0, g0 + gates) */
static float *pack_gates(float *d, const float *r, int64_t hidden, int64_t g0,
			 int64_t gates)
{
	for (int64_t p = 0; p < hidden; p += P)
		for (int64_t k = 0; k < hidden; k++)
			for (int64_t g = g0; g < g0 + gates; g++)
				for (int64_t j = p; j < p + P; j++)
					*d++ = j < hidden ?
					       r[(g * hidden + j) * hidden + k]
							  : 0;
	return d;
}

void RLX_K(rnn_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_rnn_pack *a = args;
	const int64_t gates = rlx_k_rnn_gates(a->cell);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		const float *r = a->r + u * (size_t)(gates * a->hidden *
						     a->hidden);
		float *d = a->dst + u * rlx_k_rnn_packed(a->cell, a->hidden);

		/* a GRU's last gate may have to wait for the reset gate */
		if (a->cell == RLX_K_RNN_GRU) {
			d = pack_gates(d, r, a->hidden, 0, 2);
			pack_gates(d, r, a->hidden, 2, 1);
		} else {
			pack_gates(d, r, a->hidden, 0, gates);
		}
	}
}

/* acc[m][g][.] += sum_k h[m][k] r[k][g][.] for one panel */
RLX_INLINE void product(vf acc[TOGETHER][4][NV], const float *r, const float *h,
			const struct state *s, const int gates)
{
	const size_t n = (size_t)s->a->hidden;

	for (size_t k = 0; k < n; k++) {
		RLX_UNROLL
		for (int m = 0; m < TOGETHER; m++) {
			const vf x = vf_set1(h[(size_t)m * s->width + k]);

			RLX_UNROLL
			for (int g = 0; g < gates; g++)
				RLX_UNROLL
				for (int v = 0; v < NV; v++)
					acc[m][g][v] = vf_fma(x, vf_loadu(r +
						g * P + v * RLX_VL),
						acc[m][g][v]);
		}
		r += gates * P;
	}
}

#if defined(RLX_V512)
/*
 * One row: four chains of sums would wait for each other, so two steps of k
 * have their own.
 */
RLX_INLINE void product_one(vf acc[TOGETHER][4][NV], const float *r,
			    const float *h, const struct state *s,
			    const int gates)
{
	const size_t n = (size_t)s->a->hidden;
	vf two[4] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
	size_t k = 0;

	for (; k + 2 <= n; k += 2) {
		const vf x = vf_set1(h[k]), y = vf_set1(h[k + 1]);

		RLX_UNROLL
		for (int g = 0; g < gates; g++) {
			acc[0][g][0] = vf_fma(x, vf_loadu(r + g * P),
					      acc[0][g][0]);
			two[g] = vf_fma(y, vf_loadu(r + (gates + g) * P),
					two[g]);
		}
		r += 2 * gates * P;
	}
	RLX_UNROLL
	for (int g = 0; g < gates; g++) {
		acc[0][g][0] += two[g];
		if (k < n)
			acc[0][g][0] = vf_fma(vf_set1(h[k]),
					      vf_loadu(r + g * P),
					      acc[0][g][0]);
	}
}
#endif

static vf activate(const struct rlx_k_rnn_fn *f, vf x, float clip)
{
	const vf a = vf_set1(f->alpha), b = vf_set1(f->beta);

	if (clip > 0)
		x = vf_min(vf_set1(clip), vf_max(vf_set1(-clip), x));
	switch (f->fn) {
	case RLX_RNN_SIGMOID:
		return vf_sigmoid(x);
	case RLX_RNN_TANH:
		return vf_tanh(x);
	case RLX_RNN_RELU:
		return vf_max(vf_zero(), x);
	case RLX_RNN_AFFINE:
		return a * x + b;
	case RLX_RNN_LEAKY_RELU:
		return vf_sel(vf_lt(x, vf_zero()), a * x, x);
	case RLX_RNN_THRESHOLDED_RELU:
		return vf_sel(vf_lt(x, a), vf_zero(), x);
	case RLX_RNN_SCALED_TANH:
		return a * vf_tanh(b * x);
	case RLX_RNN_HARD_SIGMOID:
		return vf_min(vf_set1(1), vf_max(vf_zero(), a * x + b));
	case RLX_RNN_ELU:
		return vf_sel(vf_lt(x, vf_zero()), a * vf_expm1(x), x);
	case RLX_RNN_SOFTSIGN:
		return vf_softsign(x);
	default:
		return vf_max(vf_zero(), x) +
		       vf_log1p(vf_exp(-vf_abs(x)));
	}
}

/* Where the vector v of panel p stands for row m, and its true lanes. */
struct spot {
	size_t	at, lanes;
};

RLX_INLINE struct spot spot_of(const struct state *s, int64_t p, int v)
{
	size_t at = (size_t)(p * P + v * RLX_VL), n = (size_t)s->a->hidden;

	return (struct spot){ at, at < n ? n - at : 0 };
}

/* The projected input of gate g, row m at time t. */
RLX_INLINE vf input(const struct state *s, int64_t m, int64_t t, int g,
		    struct spot k)
{
	const struct rlx_k_rnn *a = s->a;
	const float *x = a->x + t * a->x_stride[0] +
			 (s->row + m) * a->x_stride[1] +
			 s->dir * a->x_stride[2];

	return vf_loadn(x + (size_t)(g * a->hidden) + k.at, k.lanes);
}

static vf peephole(const struct state *s, int which, struct spot k, vf c)
{
	const size_t hidden = (size_t)s->a->hidden;

	if (!s->a->peep)
		return vf_zero();
	return c * vf_loadn(s->a->peep + ((size_t)s->dir * 3 + (size_t)which) *
			    hidden + k.at, k.lanes);
}

static void lstm(struct state *s, vf acc[4], int64_t m, int64_t t,
		 struct spot k)
{
	const struct rlx_k_rnn *a = s->a;
	float *cp = s->c + (size_t)m * s->width + k.at;
	vf c = vf_loadu(cp), i, o, f, g;

	i = acc[0] + input(s, m, t, 0, k) + peephole(s, 0, k, c);
	i = activate(&s->act[0], i, a->clip);
	f = acc[2] + input(s, m, t, 2, k) + peephole(s, 2, k, c);
	f = a->input_forget ? 1.0f - i : activate(&s->act[0], f, a->clip);
	g = activate(&s->act[1], acc[3] + input(s, m, t, 3, k), a->clip);
	c = vf_fma(f, c, i * g);
	o = acc[1] + input(s, m, t, 1, k) + peephole(s, 1, k, c);
	o = activate(&s->act[0], o, a->clip);
	vf_storeu(cp, c);
	vf_storeu(s->next + (size_t)m * s->width + k.at,
		  o * activate(&s->act[2], c, 0));
}

/* The update and reset gates, and what the last gate is multiplied by. */
static void gru_gates(struct state *s, vf acc[4], int64_t m, int64_t t,
		      struct spot k)
{
	const size_t at = (size_t)m * s->width + k.at;
	vf z = activate(&s->act[0], acc[0] + input(s, m, t, 0, k), s->a->clip);
	vf r = activate(&s->act[0], acc[1] + input(s, m, t, 1, k), s->a->clip);

	vf_storeu(s->z + at, z);
	if (!s->a->linear_before_reset)
		r *= vf_loadu(s->h + at);
	vf_storeu(s->rh + at, r);
}

static void gru_state(struct state *s, vf acc[4], int64_t m, int64_t t,
		      struct spot k)
{
	const struct rlx_k_rnn *a = s->a;
	const size_t at = (size_t)m * s->width + k.at;
	vf n = acc[0], z = vf_loadu(s->z + at), h = vf_loadu(s->h + at);

	if (a->linear_before_reset) {
		if (a->rb)
			n += vf_loadn(a->rb + s->dir * a->hidden + k.at,
				      k.lanes);
		n *= vf_loadu(s->rh + at);
	}
	n = activate(&s->act[1], n + input(s, m, t, 2, k), a->clip);
	vf_storeu(s->next + at, vf_fma(z, h - n, n));
}

static void plain(struct state *s, vf acc[4], int64_t m, int64_t t,
		  struct spot k)
{
	vf_storeu(s->next + (size_t)m * s->width + k.at,
		  activate(&s->act[0], acc[0] + input(s, m, t, 0, k),
			   s->a->clip));
}

typedef void gate_fn(struct state *, vf *, int64_t, int64_t, struct spot);

/* The time at which row m does its step, or -1 if it is over. */
static int64_t time_of(const struct state *s, int64_t m, int64_t step)
{
	if (step >= s->lens[m])
		return -1;
	return s->a->reverse[s->dir] ? s->lens[m] - 1 - step : step;
}

RLX_INLINE void sweep(struct state *s, const float *r, const float *h,
		      int64_t step, gate_fn *fn, const int gates)
{
	const int64_t panels = rlx_k_rnn_panels(s->a->hidden);
	const size_t size = (size_t)(s->a->hidden * gates * P);

	for (int64_t p = 0; p < panels; p++, r += size)
		for (int64_t m0 = 0; m0 < s->n; m0 += TOGETHER) {
			vf acc[TOGETHER][4][NV] = { 0 };
			const float *hm = h + (size_t)m0 * s->width;

#if defined(RLX_V512)
			if (s->n == 1)
				product_one(acc, r, hm, s, gates);
			else
#endif
				product(acc, r, hm, s, gates);
			for (int64_t m = m0; m < m0 + TOGETHER && m < s->n; m++)
				for (int v = 0; v < NV; v++) {
					int64_t t = time_of(s, m, step);
					vf g[4];

					for (int k = 0; k < gates; k++)
						g[k] = acc[m - m0][k][v];
					if (t >= 0)
						fn(s, g, m, t,
						   spot_of(s, p, v));
				}
		}
}

static void sweep_lstm(struct state *s, int64_t step)
{
	sweep(s, s->r, s->h, step, lstm, 4);
}

static void sweep_gru(struct state *s, int64_t step)
{
	const float *last = s->r + 2 * s->width * (size_t)s->a->hidden;

	sweep(s, s->r, s->h, step, gru_gates, 2);
	sweep(s, last, s->a->linear_before_reset ? s->h : s->rh, step,
	      gru_state, 1);
}

static void sweep_plain(struct state *s, int64_t step)
{
	sweep(s, s->r, s->h, step, plain, 1);
}

static void load_state(struct state *s, float *to, const float *from)
{
	const size_t hidden = (size_t)s->a->hidden;
	const size_t at = (size_t)(s->dir * s->a->batch + s->row) * hidden;

	memset(to, 0, ROWS * s->width * sizeof(*to));
	for (size_t m = 0; from && m < (size_t)s->n; m++)
		memcpy(to + m * s->width, from + at + m * hidden,
		       hidden * sizeof(*to));
}

static void save_state(const struct state *s, float *to, const float *from)
{
	const size_t hidden = (size_t)s->a->hidden;
	const size_t at = (size_t)(s->dir * s->a->batch + s->row) * hidden;

	for (size_t m = 0; to && m < (size_t)s->n; m++)
		memcpy(to + at + m * hidden, from + m * s->width,
		       hidden * sizeof(*to));
}

/* The new h of the rows that did the step becomes h, and y. */
static void commit(struct state *s, int64_t step)
{
	const struct rlx_k_rnn *a = s->a;
	const size_t bytes = (size_t)a->hidden * sizeof(float);

	for (int64_t m = 0; m < s->n; m++) {
		int64_t t = time_of(s, m, step);
		float *h = s->h + (size_t)m * s->width;
		float *y = a->y ? a->y + (t < 0 ? step : t) * a->y_stride[0] +
			   (s->row + m) * a->y_stride[1] +
			   s->dir * a->y_stride[2] : NULL;

		if (t >= 0)
			memcpy(h, s->next + (size_t)m * s->width, bytes);
		if (y && t >= 0)
			memcpy(y, h, bytes);
		else if (y)
			memset(y, 0, bytes);
	}
}

static void run(struct state *s)
{
	const struct rlx_k_rnn *a = s->a;

	for (int64_t m = 0; m < s->n; m++) {
		int64_t len = a->steps;

		if (a->lens && a->lens_type == RLX_I32)
			len = ((const int32_t *)a->lens)[s->row + m];
		else if (a->lens)
			len = ((const int64_t *)a->lens)[s->row + m];
		if ((len < 0 || len > a->steps) && a->bad && s->row + m < a->live)
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
		s->lens[m] = len < 0 ? 0 : len < a->steps ? len : a->steps;
	}
	load_state(s, s->h, a->h0);
	load_state(s, s->c, a->cell == RLX_K_RNN_LSTM ? a->c0 : NULL);
	memset(s->rh, 0, ROWS * s->width * sizeof(float));
	for (int64_t step = 0; step < a->steps; step++) {
		if (a->cell == RLX_K_RNN_LSTM)
			sweep_lstm(s, step);
		else if (a->cell == RLX_K_RNN_GRU)
			sweep_gru(s, step);
		else
			sweep_plain(s, step);
		commit(s, step);
	}
	save_state(s, a->yh, s->h);
	save_state(s, a->yc, s->c);
}

void RLX_K(rnn)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_rnn *a = args;
	const int64_t blocks = (a->batch + ROWS - 1) / ROWS;
	struct state s = { .a = a, .h = scratch };

	s.width = (size_t)rlx_k_rnn_panels(a->hidden) * P;
	s.next = s.h + ROWS * s.width;
	s.c = s.next + ROWS * s.width;
	s.z = s.c + ROWS * s.width;
	s.rh = s.z + ROWS * s.width;
	for (size_t u = begin; u < end; u++) {
		s.dir = (int64_t)u / blocks;
		s.row = (int64_t)u % blocks * ROWS;
		s.n = a->batch - s.row < ROWS ? a->batch - s.row : ROWS;
		s.act = a->act[s.dir];
		s.r = a->r + (size_t)s.dir *
			     rlx_k_rnn_packed(a->cell, a->hidden);
		run(&s);
	}
}
