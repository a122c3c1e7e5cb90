/* SPDX-License-Identifier: MIT */
/*
 * Recurrent cells over time, in the float type of whoever includes this. A panel is 64 bytes
 * of hidden units with all their gates, so that a cell's gates meet in registers; the
 * recurrence is a matrix-vector product that streams the packed weights once a step.
 *
 *	RN_T, RN_V, RN_VL	the type, its vector, and the lanes of that
 *	RN(name)		the vector dialect's function of that type: vf_name, vd_name
 *	RN_LT(a, b)		a mask for RN(sel)
 */
#include "kernels/cpu/index_at.h"
#include "kernels/rnn.h"

enum {
	P = RLX_K_RNN_PANEL / sizeof(RN_T),
	NV = P / RN_VL,		/* vectors of a panel */
	ROWS = RLX_K_RNN_ROWS,
	SUMS = RLX_VB == 64 ? 16 : 8,	/* vectors that a product keeps: rows by four, two or one */
};

/*
 * Steps of k whose products have sums of their own: sums that are few would wait for each other.
 * As many for one row as for several, so that a row's bits are the same; of a row that is alone
 * in its batch more, where registers are plenty and its bits may be its own.
 */
#define PARTS(gates)	((gates) < 2 ? 2 : 1)
#ifdef RLX_V512
#define PARTS_ALONE(gates)	(8 / (gates))
#endif

/* Batch rows that share a load of weights, by how many sums each has. */
RLX_INLINE int rows_by(int sums)
{
	return SUMS / sums > ROWS ? ROWS : SUMS / sums > 1 ? SUMS / sums : 1;
}

struct state {
	const struct rlx_k_rnn *a;
	const RN_T	*r;		/* this direction's */
	int64_t		dir, row, n;	/* batch rows [row, row + n) */
	size_t		width;		/* hidden rounded up to P */
	int64_t		lens[ROWS * RLX_K_RNN_JOINED];
	RN_T		*h, *next, *c, *z, *rh;	/* rlx_k_rnn_rows() x width each */
};

/* [panel][k][gate][P] of gates [g0, g0 + gates) */
static RN_T *pack_gates(RN_T *d, const RN_T *r, int64_t hidden, int64_t g0, int64_t gates)
{
	for (int64_t p = 0; p < hidden; p += P) {
		const int64_t units = hidden - p < P ? hidden - p : P;

		for (int64_t k = 0; k < hidden; k++)
			for (int64_t g = g0; g < g0 + gates; g++, d += P) {
				const RN_T *from = r + (g * hidden + p) * hidden + k;

				for (int64_t j = 0; j < units; j++)
					d[j] = from[j * hidden];
				for (int64_t j = units; j < P; j++)
					d[j] = 0;
			}
	}
	return d;
}

static void pack(const struct rlx_k_rnn_pack *a, size_t begin, size_t end)
{
	const int64_t gates = rlx_k_rnn_gates(a->cell);

	for (size_t u = begin; u < end; u++) {
		const RN_T *r = (const RN_T *)a->r + u * (size_t)(gates * a->hidden * a->hidden);
		RN_T *d = (RN_T *)a->dst +
			  u * rlx_k_rnn_packed(a->cell, a->hidden, sizeof(RN_T));

		/* a GRU's last gate may have to wait for the reset gate */
		if (a->cell == RLX_K_RNN_GRU) {
			d = pack_gates(d, r, a->hidden, 0, 2);
			pack_gates(d, r, a->hidden, 2, 1);
		} else {
			pack_gates(d, r, a->hidden, 0, gates);
		}
	}
}

/* sum[m][g][.] += h[m] r[g][.], one term of each */
RLX_INLINE void term(RN_V sum[ROWS][4][NV], const RN_T *r, const RN_T *h, size_t width,
		     const int gates, const int rows)
{
	RLX_UNROLL
	for (int m = 0; m < rows; m++) {
		const RN_V x = RN(set1)(h[(size_t)m * width]);

		RLX_UNROLL
		for (int g = 0; g < gates; g++)
			RLX_UNROLL
			for (int v = 0; v < NV; v++)
				sum[m][g][v] = RN(fma)(x, RN(loadu)(r + g * P + v * RN_VL),
						       sum[m][g][v]);
	}
}

/* A panel of weights, and states of as many rows as are taken, @width apart, of @n units. */
struct factors {
	const RN_T	*r, *h;
	size_t		width, n;
};

/* acc[m][g][.] = sum_k h[m][k] r[k][g][.] of @rows rows. */
RLX_INLINE void product(RN_V acc[ROWS][4][NV], const struct factors *f, const int gates,
			const int rows, const int parts)
{
	const RN_T *r = f->r, *h = f->h;
	const size_t n = f->n;
	RN_V sum[8][ROWS][4][NV] = { 0 };
	size_t k = 0;

	for (; k + (size_t)parts <= n; k += (size_t)parts, r += parts * gates * P)
		RLX_UNROLL
		for (int i = 0; i < parts; i++)
			term(sum[i], r + i * gates * P, h + k + i, f->width, gates, rows);
	for (; parts > 1 && k < n; k++, r += gates * P)
		term(sum[0], r, h + k, f->width, gates, rows);
	RLX_UNROLL
	for (int j = 0; j < rows * gates * NV; j++) {
		const int m = j / NV / gates, g = j / NV % gates, v = j % NV;

		acc[m][g][v] = sum[0][m][g][v];
		RLX_UNROLL
		for (int i = 1; i < parts; i++)
			acc[m][g][v] += sum[i][m][g][v];
	}
}

/* NaN stays: the minimum and the maximum give the second operand then. */
static RN_V activate_by(const struct rlx_k_rnn_fn *f, RN_V x)
{
	const RN_V a = RN(set1)((RN_T)f->alpha), b = RN(set1)((RN_T)f->beta);

	switch (f->fn) {
	case RLX_RNN_SIGMOID:
		return RN(sigmoid)(x);
	case RLX_RNN_TANH:
		return RN(tanh)(x);
	case RLX_RNN_RELU:
		return RN(max)(RN(zero)(), x);
	case RLX_RNN_AFFINE:
		return a * x + b;
	case RLX_RNN_LEAKY_RELU:
		return RN(sel)(RN_LT(x, RN(zero)()), a * x, x);
	case RLX_RNN_THRESHOLDED_RELU:
		return RN(sel)(RN_LT(x, a), RN(zero)(), x);
	case RLX_RNN_SCALED_TANH:
		return a * RN(tanh)(b * x);
	case RLX_RNN_HARD_SIGMOID:
		return RN(min)(RN(set1)(1), RN(max)(RN(zero)(), a * x + b));
	case RLX_RNN_ELU:
		return RN(sel)(RN_LT(x, RN(zero)()), a * RN(expm1)(x), x);
	case RLX_RNN_SOFTSIGN:
		return RN(softsign)(x);
	default:
		return RN(max)(RN(zero)(), x) + RN(log1p)(RN(exp)(-RN(abs)(x)));
	}
}

RLX_INLINE RN_V activate(const struct state *s, int which, RN_V x)
{
	return activate_by(&s->a->act[s->dir][which], x);
}

/* The same of a gate's sum, which is clipped. */
RLX_INLINE RN_V gate(const struct state *s, int which, RN_V x)
{
	const RN_T clip = (RN_T)s->a->clip;

	if (clip > 0)
		x = RN(min)(RN(set1)(clip), RN(max)(RN(set1)(-clip), x));
	return activate(s, which, x);
}

/* Where the vector v of panel p stands for row m, and its true lanes. */
struct spot {
	size_t	at, lanes;
};

RLX_INLINE struct spot spot_of(const struct state *s, int64_t p, int v)
{
	size_t at = (size_t)(p * P + v * RN_VL), n = (size_t)s->a->hidden;

	return (struct spot){ at, at < n ? n - at : 0 };
}

/* The projected input of gate g, row m at time t. */
RLX_INLINE RN_V input(const struct state *s, int64_t m, int64_t t, int g, struct spot k)
{
	const struct rlx_k_rnn *a = s->a;
	const RN_T *x = (const RN_T *)a->x + t * a->x_stride[0] +
			(s->row + m) * a->x_stride[1] + s->dir * a->x_stride[2];

	return RN(loadn)(x + (size_t)(g * a->hidden) + k.at, k.lanes);
}

static RN_V peephole(const struct state *s, int which, struct spot k, RN_V c)
{
	const RN_T *p = s->a->peep;

	if (!p)
		return RN(zero)();
	return c * RN(loadn)(p + (s->dir * 3 + which) * s->a->hidden + k.at, k.lanes);
}

static void lstm(struct state *s, RN_V acc[4], int64_t m, int64_t t, struct spot k)
{
	RN_T *cp = s->c + (size_t)m * s->width + k.at;
	RN_V c = RN(loadu)(cp), i, o, f, g;

	i = acc[0] + input(s, m, t, 0, k) + peephole(s, 0, k, c);
	i = gate(s, 0, i);
	f = acc[2] + input(s, m, t, 2, k) + peephole(s, 2, k, c);
	f = s->a->input_forget ? (RN_T)1 - i : gate(s, 0, f);
	g = gate(s, 1, acc[3] + input(s, m, t, 3, k));
	c = RN(fma)(f, c, i * g);
	o = acc[1] + input(s, m, t, 1, k) + peephole(s, 1, k, c);
	o = gate(s, 0, o);
	RN(storeu)(cp, c);
	RN(storeu)(s->next + (size_t)m * s->width + k.at, o * activate(s, 2, c));
}

/* The update and reset gates, and what the last gate is multiplied by. */
static void gru_gates(struct state *s, RN_V acc[4], int64_t m, int64_t t, struct spot k)
{
	const size_t at = (size_t)m * s->width + k.at;
	RN_V z = gate(s, 0, acc[0] + input(s, m, t, 0, k));
	RN_V r = gate(s, 0, acc[1] + input(s, m, t, 1, k));

	RN(storeu)(s->z + at, z);
	if (!s->a->linear_before_reset)
		r *= RN(loadu)(s->h + at);
	RN(storeu)(s->rh + at, r);
}

static void gru_state(struct state *s, RN_V acc[4], int64_t m, int64_t t, struct spot k)
{
	const struct rlx_k_rnn *a = s->a;
	const size_t at = (size_t)m * s->width + k.at;
	const RN_T *rb = a->rb;
	RN_V n = acc[0], z = RN(loadu)(s->z + at), h = RN(loadu)(s->h + at);

	if (a->linear_before_reset) {
		if (rb)
			n += RN(loadn)(rb + s->dir * a->hidden + k.at, k.lanes);
		n *= RN(loadu)(s->rh + at);
	}
	n = gate(s, 1, n + input(s, m, t, 2, k));
	/* not n + z (h - n): states without bounds may be infinite both */
	RN(storeu)(s->next + at, RN(fma)(z, h, ((RN_T)1 - z) * n));
}

static void plain(struct state *s, RN_V acc[4], int64_t m, int64_t t, struct spot k)
{
	RN(storeu)(s->next + (size_t)m * s->width + k.at,
		   gate(s, 0, acc[0] + input(s, m, t, 0, k)));
}

typedef void gate_fn(struct state *, RN_V *, int64_t, int64_t, struct spot);

/* The time at which row m does its step, or -1 if it is over. */
static int64_t time_of(const struct state *s, int64_t m, int64_t step)
{
	if (step >= s->lens[m])
		return -1;
	return s->a->reverse[s->dir] ? s->lens[m] - 1 - step : step;
}

RLX_INLINE void sweep(struct state *s, const RN_T *r, const RN_T *h, int64_t step, gate_fn *fn,
		      const int gates)
{
	const int64_t panels = rlx_k_rnn_panels(s->a->hidden, sizeof(RN_T));
	const size_t size = (size_t)(s->a->hidden * gates * P);

	const int rows = rows_by(PARTS(gates) * gates * NV);
	int64_t taken;

	for (int64_t p = 0; p < panels; p++, r += size)
		for (int64_t m0 = 0; m0 < s->n; m0 += taken) {
			const struct factors f = {
				r, h + (size_t)m0 * s->width, s->width, (size_t)s->a->hidden,
			};
			RN_V acc[ROWS][4][NV];

			taken = s->n - m0 < rows ? s->n - m0 : rows;
#ifdef RLX_V512
			if (s->a->batch == 1 && !s->a->strict)
				product(acc, &f, gates, 1, PARTS_ALONE(gates));
			else
#endif
			if (rows == 1 || taken == 1)
				product(acc, &f, gates, 1, PARTS(gates));
			else
				product(acc, &f, gates, rows, PARTS(gates));
			for (int64_t m = m0; m < m0 + taken; m++)
				for (int v = 0; v < NV; v++) {
					int64_t t = time_of(s, m, step);
					RN_V g[4];

					for (int k = 0; k < gates; k++)
						g[k] = acc[m - m0][k][v];
					if (t >= 0)
						fn(s, g, m, t, spot_of(s, p, v));
				}
		}
}

static void sweep_lstm(struct state *s, int64_t step)
{
	sweep(s, s->r, s->h, step, lstm, 4);
}

static void sweep_gru(struct state *s, int64_t step)
{
	const RN_T *last = s->r + 2 * s->width * (size_t)s->a->hidden;

	sweep(s, s->r, s->h, step, gru_gates, 2);
	sweep(s, last, s->a->linear_before_reset ? s->h : s->rh, step, gru_state, 1);
}

static void sweep_plain(struct state *s, int64_t step)
{
	sweep(s, s->r, s->h, step, plain, 1);
}

/* Element of a tensor of states where this direction's row @m begins. */
static int64_t state_at(const struct state *s, int64_t m)
{
	return s->dir * s->a->h_stride[1] + (s->row + m) * s->a->h_stride[0];
}

static void load_state(struct state *s, RN_T *to, const RN_T *from)
{
	memset(to, 0, (size_t)rlx_k_rnn_rows(s->a) * s->width * sizeof(*to));
	for (int64_t m = 0; from && m < s->n; m++)
		memcpy(to + (size_t)m * s->width, from + state_at(s, m),
		       (size_t)s->a->hidden * sizeof(*to));
}

static void save_state(const struct state *s, RN_T *to, const RN_T *from)
{
	for (int64_t m = 0; to && m < s->n; m++)
		memcpy(to + state_at(s, m), from + (size_t)m * s->width,
		       (size_t)s->a->hidden * sizeof(*to));
}

/* The new h of the rows that did the step becomes h, and y. */
static void commit(struct state *s, int64_t step)
{
	const struct rlx_k_rnn *a = s->a;
	const size_t bytes = (size_t)a->hidden * sizeof(RN_T);

	for (int64_t m = 0; m < s->n; m++) {
		int64_t t = time_of(s, m, step);
		RN_T *h = s->h + (size_t)m * s->width;
		RN_T *y = a->y ? (RN_T *)a->y + (t < 0 ? step : t) * a->y_stride[0] +
			  (s->row + m) * a->y_stride[1] + s->dir * a->y_stride[2] : NULL;

		if (t >= 0)
			memcpy(h, s->next + (size_t)m * s->width, bytes);
		if (y && t >= 0)
			memcpy(y, h, bytes);
		else if (y)
			memset(y, 0, bytes);
	}
}

static void take_lengths(struct state *s)
{
	const struct rlx_k_rnn *a = s->a;

	for (int64_t m = 0; m < s->n; m++) {
		int64_t len = a->lens ? rlx_k_index(a->lens, a->lens_type,
						    (size_t)(s->row + m)) : a->steps;

		if ((len < 0 || len > a->steps) && a->bad && s->row + m < a->live)
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
		s->lens[m] = len < 0 ? 0 : len < a->steps ? len : a->steps;
	}
}

static void steps_of(struct state *s)
{
	const struct rlx_k_rnn *a = s->a;

	take_lengths(s);
	load_state(s, s->h, a->h0);
	load_state(s, s->c, a->cell == RLX_K_RNN_LSTM ? a->c0 : NULL);
	memset(s->rh, 0, (size_t)rlx_k_rnn_rows(a) * s->width * sizeof(RN_T));
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

/* Units of one direction are one, where a thread has them: each panel of weights is read once. */
static void run(const struct rlx_k_rnn *a, size_t begin, size_t end, void *scratch)
{
	const size_t blocks = (size_t)((a->batch + ROWS - 1) / ROWS);
	struct state s = { .a = a, .h = scratch };
	size_t each, n;

	s.width = (size_t)rlx_k_rnn_panels(a->hidden, sizeof(RN_T)) * P;
	each = (size_t)rlx_k_rnn_rows(a) * s.width;
	s.next = s.h + each;
	s.c = s.next + each;
	s.z = s.c + each;
	s.rh = s.z + each;
	for (size_t u = begin; u < end; u += n) {
		n = blocks - u % blocks < end - u ? blocks - u % blocks : end - u;
		n = n < RLX_K_RNN_JOINED ? n : RLX_K_RNN_JOINED;
		s.dir = (int64_t)(u / blocks);
		s.row = (int64_t)(u % blocks) * ROWS;
		s.n = (int64_t)n * ROWS;
		s.n = a->batch - s.row < s.n ? a->batch - s.row : s.n;
		s.r = (const RN_T *)a->r +
		      (size_t)s.dir * rlx_k_rnn_packed(a->cell, a->hidden, sizeof(RN_T));
		steps_of(&s);
	}
}
