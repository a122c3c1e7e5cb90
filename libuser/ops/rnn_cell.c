// SPDX-License-Identifier: MIT
/* Shapes, activations and the walk over time of the recurrent ops. */
#include "ops/rnn_cell.h"
#include "ops/doubles.h"

struct rnn_dims rnn_dims_of(const struct rnn_args *a, const struct rlx_type *x,
			     const struct rlx_type *r)
{
	return (struct rnn_dims){
		.t = x->dim[a->batch_first], .b = x->dim[!a->batch_first],
		.i = x->dim[2], .h = r->dim[2],
		.d = a->direction == RLX_RNN_BIDI ? 2 : 1,
	};
}

static enum rlx_status need_shape(struct rlx_infer *q, uint32_t k, const char *what,
				  const struct rlx_type *want)
{
	char have[96], need[96];
	struct rlx_type t;

	if (!q->in[k])
		return RLX_OK;
	t = *want;
	t.dtype = q->in[k]->dtype;
	if (rlx_type_equal(q->in[k], &t))
		return RLX_OK;
	rlx_type_print(q->in[k], have, sizeof(have));
	rlx_type_print(&t, need, sizeof(need));
	return op_fail(q, RLX_ESHAPE, "%s is %s, %s is needed", what, have, need);
}

static enum rlx_status check_args(struct rlx_infer *q, const struct rnn_args *a)
{
	enum rlx_status st = op_need_enum(q, "direction", a->direction, RLX_RNN_BIDI + 1);
	uint32_t n = a->n_act * (a->direction == RLX_RNN_BIDI ? 2 : 1), i;

	if (!st)
		st = op_need_real(q, "clip", a->clip, 0);
	if (st)
		return st;
	if (a->acts.n && a->acts.n != n)
		return op_fail(q, RLX_EINVAL, "%u activations, %u are needed", a->acts.n, n);
	if ((a->alpha.n && a->alpha.n != n) || (a->beta.n && a->beta.n != n))
		return op_fail(q, RLX_EINVAL,
			       "%u alphas and %u betas; %u are needed, one for each activation",
			       a->alpha.n, a->beta.n, n);
	for (i = 0; !st && i < a->acts.n; i++)
		st = op_need_enum(q, "activation", a->acts.v[i], RLX_RNN_SOFTPLUS + 1);
	return st;
}

static enum rlx_status check_inputs(struct rlx_infer *q, const struct rnn_args *a,
				    struct rnn_dims *m)
{
	static const char *const name[] = {
		"x", "w", "r", "bias", "lens", "h0", "c0", "peep",
	};
	struct rlx_type want[8];
	enum rlx_status st = RLX_OK;
	int64_t gh;
	uint32_t k, n = a->has_c ? 8 : 6;

	for (k = 0; !st && k < n; k++)
		if (q->in[k])
			st = k == 4 ? op_need_index(q, k) : op_need_float(q, k, false);
	for (k = 0; !st && k < 3; k++)
		st = op_need_rank(q, k, 3, 3);
	if (st)
		return st;
	*m = rnn_dims_of(a, q->in[0], q->in[2]);
	if (__builtin_mul_overflow(a->gates * 2, m->h, &gh))
		return op_fail(q, RLX_ESHAPE, "the hidden size %lld is too large",
			       (long long)m->h);
	want[1] = rlx_type(RLX_F32, m->d, a->gates * m->h, m->i);
	want[2] = rlx_type(RLX_F32, m->d, a->gates * m->h, m->h);
	want[3] = rlx_type(RLX_F32, m->d, gh);
	want[4] = rlx_type(RLX_I32, m->b);
	want[5] = a->batch_first ? rlx_type(RLX_F32, m->b, m->d, m->h) :
				   rlx_type(RLX_F32, m->d, m->b, m->h);
	want[6] = want[5];
	want[7] = rlx_type(RLX_F32, m->d, 3 * m->h);
	for (k = 1; !st && k < n; k++)
		st = need_shape(q, k, name[k], &want[k]);
	return st;
}

enum rlx_status rnn_infer(struct rlx_infer *q, const struct rnn_args *a)
{
	enum rlx_status st = check_args(q, a);
	struct rnn_dims m;
	enum rlx_dtype dt;

	if (!st)
		st = check_inputs(q, a, &m);
	if (st)
		return st;
	dt = q->in[0]->dtype;
	q->n_out = a->has_c ? 3 : 2;
	q->out[0] = a->batch_first ? rlx_type(dt, m.b, m.t, m.d, m.h) :
				     rlx_type(dt, m.t, m.d, m.b, m.h);
	q->out[1] = a->batch_first ? rlx_type(dt, m.b, m.d, m.h) :
				     rlx_type(dt, m.d, m.b, m.h);
	q->out[2] = q->out[1];
	return RLX_OK;
}

/* w, r, wb, rb, peep of one direction; then gx, gh, h, c, tmp of one row. */
size_t rnn_scratch(const struct rlx_infer *q, const struct rnn_args *a)
{
	struct rnn_dims m = rnn_dims_of(a, q->in[0], q->in[2]);

	return op_doubles(a->gates * m.h, m.i + m.h + 4, 6 * m.h + 1);
}

static double activate(int64_t f, double al, double be, double x)
{
	switch (f) {
	case RLX_RNN_SIGMOID: return 1 / (1 + exp(-x));
	case RLX_RNN_TANH: return tanh(x);
	case RLX_RNN_RELU: return x > 0 || isnan(x) ? x : 0;
	case RLX_RNN_AFFINE: return al * x + be;
	case RLX_RNN_LEAKY_RELU: return x >= 0 ? x : al * x;
	case RLX_RNN_THRESHOLDED_RELU: return x < al ? 0 : x;
	case RLX_RNN_SCALED_TANH: return al * tanh(be * x);
	case RLX_RNN_HARD_SIGMOID: return op_clamp(al * x + be, 0, 1);
	case RLX_RNN_ELU: return x >= 0 ? x : al * expm1(x);
	case RLX_RNN_SOFTSIGN: return isinf(x) ? copysign(1, x) : x / (1 + fabs(x));
	default: return fmax(x, 0) + log1p(exp(-fabs(x)));
	}
}

double rnn_act(const struct rnn_step *s, uint32_t k, double x)
{
	const struct rnn_args *a = s->a;
	uint32_t at = (uint32_t)s->dir * a->n_act + k;
	int64_t f = op_rnn_act(a->acts, a->n_act, at);

	if (a->clip != 0 && k < 2)	/* gates alone: not what an LSTM's cell gives */
		x = op_clamp(x, -(double)a->clip, a->clip);
	return activate(f, op_rnn_alpha(a->alpha, f, at), op_rnn_beta(a->beta, f, at), x);
}

static void load(double *to, const struct rlx_tensor *t, int64_t from, int64_t n)
{
	int64_t i;

	for (i = 0; i < n; i++)
		to[i] = op_has(t) ? el_get(t, from + i) : 0;
}

/* y[n] = m[n, k] x[k] */
static void product(double *y, const double *m, const double *x, int64_t n, int64_t k)
{
	int64_t i, j;

	for (i = 0; i < n; i++)
		for (y[i] = 0, j = 0; j < k; j++)
			y[i] += m[i * k + j] * x[j];
}

/* Buffers of rnn_scratch(). */
struct walk {
	struct rnn_step	 s;
	double		*w, *r, *wb, *rb, *peep, *x;
	rnn_cell	*cell;
};

static void one_row(struct rlx_eval *q, struct walk *k, int64_t b, int64_t len)
{
	const struct rnn_args *a = k->s.a;
	const struct rnn_dims *m = &k->s.m;
	int64_t gh = a->gates * m->h, n, t, i, at;
	bool back = a->direction == RLX_RNN_REVERSE || k->s.dir;

	for (n = 0; n < m->t; n++) {
		t = n >= len ? n : back ? len - 1 - n : n;
		at = a->batch_first ? ((b * m->t + t) * m->d + k->s.dir) * m->h :
		     ((t * m->d + k->s.dir) * m->b + b) * m->h;
		for (i = 0; n >= len && i < m->h; i++)
			el_set(&q->out[0], at + i, 0);
		if (n >= len)
			continue;
		for (i = 0; i < gh; i++) {
			int64_t from = (a->batch_first ? b * m->t + t : t * m->b + b) * m->i, j;

			k->s.gx[i] = k->wb[i];
			for (j = 0; j < m->i; j++)
				k->s.gx[i] += k->w[i * m->i + j] * el_get(&q->in[0], from + j);
		}
		product(k->s.gh, k->r, k->s.h, gh, m->h);
		k->cell(&k->s);
		for (i = 0; i < m->h; i++)
			el_set(&q->out[0], at + i, k->s.h[i]);
	}
}

static enum rlx_status one_direction(struct rlx_eval *q, struct walk *k)
{
	const struct rnn_args *a = k->s.a;
	const struct rnn_dims *m = &k->s.m;
	int64_t gh = a->gates * m->h, d = k->s.dir, b, len = m->t, at, i;

	load(k->w, &q->in[1], d * gh * m->i, gh * m->i);
	load(k->r, &q->in[2], d * gh * m->h, gh * m->h);
	load(k->wb, &q->in[3], d * 2 * gh, gh);
	load(k->rb, &q->in[3], d * 2 * gh + gh, gh);
	if (a->has_c && op_has(&q->in[7])) {
		load(k->peep, &q->in[7], d * 3 * m->h, 3 * m->h);
		k->s.peep = k->peep;
	}
	for (b = 0; b < m->b; b++) {
		if (op_has(&q->in[4]))
			len = el_geti(&q->in[4], b);
		if (len < 0 || len > m->t)
			return op_fail(q, RLX_ERANGE, "length %lld of row %lld is not in 0 to %lld",
				       (long long)len, (long long)b, (long long)m->t);
		at = (a->batch_first ? b * m->d + d : d * m->b + b) * m->h;
		load(k->s.h, &q->in[5], at, m->h);
		if (a->has_c)
			load(k->s.c, &q->in[6], at, m->h);
		one_row(q, k, b, len);
		for (i = 0; i < m->h; i++) {
			el_set(&q->out[1], at + i, k->s.h[i]);
			if (a->has_c)
				el_set(&q->out[2], at + i, k->s.c[i]);
		}
	}
	return RLX_OK;
}

void rnn_bad_data(const void *args, char *text, size_t size)
{
	(void)args;
	snprintf(text, size, "a length is not in 0 to the number of steps");
}

enum rlx_status rnn_eval(struct rlx_eval *q, const struct rnn_args *a, rnn_cell *cell)
{
	struct walk k = { .cell = cell, .s = { .a = a } };
	enum rlx_status st = RLX_OK;
	double *p = q->scratch;
	int64_t gh;

	k.s.m = rnn_dims_of(a, &q->in[0].type, &q->in[2].type);
	gh = a->gates * k.s.m.h;
	k.w = p;
	k.r = k.w + gh * k.s.m.i;
	k.wb = k.r + gh * k.s.m.h;
	k.rb = k.wb + gh;
	k.s.gx = k.rb + gh;
	k.s.gh = k.s.gx + gh;
	k.peep = k.s.gh + gh;
	k.s.h = k.peep + 3 * k.s.m.h;
	k.s.c = k.s.h + k.s.m.h;
	k.s.tmp = k.s.c + k.s.m.h;
	k.s.r = k.r;
	k.s.rb = k.rb;
	for (; !st && k.s.dir < k.s.m.d; k.s.dir++)
		st = one_direction(q, &k);
	return st;
}

/*
 * 0: plain. 1: reverse with lengths. 2: both ways, batch first, with everything.
 * 3: other activations and clipping. 4: no time. 5: no batch.
 */
bool rnn_sample(unsigned int i, struct rlx_sample *s, struct rnn_args *a)
{
	struct rnn_dims m = { .t = 5, .b = 3, .i = 4, .h = 6, .d = 1 };

	if (i > 5)
		return false;
	*a = (struct rnn_args){ .gates = a->gates, .n_act = a->n_act, .has_c = a->has_c };
	a->direction = i == 1 ? RLX_RNN_REVERSE : i == 2 ? RLX_RNN_BIDI : RLX_RNN_FORWARD;
	a->batch_first = i == 2;
	m.d = i == 2 ? 2 : 1;
	m.t = i == 4 ? 0 : m.t;
	m.b = i == 5 ? 0 : m.b;
	s->n_in = a->has_c ? 8 : 6;
	s->tol = 1e-5;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, m.b, m.t, m.i) :
		   rlx_type(RLX_F32, m.t, m.b, m.i);
	s->in[1] = rlx_type(RLX_F32, m.d, a->gates * m.h, m.i);
	s->in[2] = rlx_type(RLX_F32, m.d, a->gates * m.h, m.h);
	if (i)
		s->in[3] = rlx_type(RLX_F32, m.d, 2 * a->gates * m.h);
	if (i == 1 || i == 2) {
		s->in[4] = rlx_type(i == 1 ? RLX_I32 : RLX_I64, m.b);
		s->hi[4] = 5;
	}
	if (i >= 2)
		s->in[5] = i == 2 ? rlx_type(RLX_F32, m.b, m.d, m.h) :
			   rlx_type(RLX_F32, m.d, m.b, m.h);
	if (a->has_c && i >= 2) {
		s->in[6] = s->in[5];
		s->in[7] = rlx_type(RLX_F32, m.d, 3 * m.h);
	}
	if (i == 3) {
		a->clip = 0.9f;
		a->acts = op_keep(s, (struct rlx_ints){ (const int64_t[]){
			RLX_RNN_HARD_SIGMOID, RLX_RNN_SOFTSIGN, RLX_RNN_ELU }, a->n_act });
		a->alpha = op_keep_floats(s, (struct rlx_floats){ (const double[]){
			0.25, 0, 0.5 }, a->n_act });
		a->beta = op_keep_floats(s, (struct rlx_floats){ (const double[]){
			0.4, 0, 0 }, a->n_act });
	}
	return true;
}
