// SPDX-License-Identifier: MIT
/* What gradients of norms share. */
#include "ops/norm_grad.h"

enum { X, DY, GAMMA };

enum rlx_dtype op_norm_grad_acc(const struct rlx_type *x, const struct rlx_type *dy)
{
	return op_acc_type(rlx_dtype_promote(x->dtype, dy->dtype));
}

enum rlx_status op_infer_norm_grad(struct rlx_infer *q, int32_t axis, uint32_t *out_ax)
{
	enum rlx_status st = op_need_float(q, X, false);
	struct rlx_type as_x, tail;

	if (!st)
		st = op_need_float(q, DY, false);
	if (!st && q->in[GAMMA])
		st = op_need_float(q, GAMMA, false);
	if (!st)
		st = op_infer_axis(q, axis, q->in[X]->rank, out_ax);
	if (st)
		return st;
	as_x = *q->in[X];
	as_x.dtype = q->in[DY]->dtype;
	if (!rlx_type_equal(&as_x, q->in[DY]))
		return op_fail(q, RLX_ESHAPE, "dy has not the shape of x");
	tail = op_tail(q->in[X], *out_ax);
	if (q->in[GAMMA] && !op_fits(q->in[GAMMA], &tail))
		return op_fail(q, RLX_ESHAPE, "gamma does not broadcast to x's axes from %u on",
			       *out_ax);
	q->n_out = 3;
	q->out[0] = *q->in[X];
	tail.dtype = op_norm_grad_acc(q->in[X], q->in[DY]);
	q->out[1] = q->out[2] = tail;
	return RLX_OK;
}

/* ---- evaluation ---- */

/* Sums of dgamma and dbeta, and the row's scaled dy. */
size_t op_norm_grad_scratch(const struct rlx_infer *q, int32_t axis)
{
	uint32_t ax = shape_axis(axis, q->in[X]->rank);

	return (size_t)(3 * shape_span(q->in[X], ax, q->in[X]->rank) + 1) * sizeof(double);
}

struct sums {
	double	*gamma, *beta, *d;
	double	 at[2];			/* of the row: mean, 1 / deviation */
};

/* d of the row = dy gamma, and what the row adds to the sums. */
static void add_row(const struct rlx_eval *q, const struct rlx_type *tail, int64_t row,
		    const struct sums *s)
{
	const struct rlx_tensor *gm = &q->in[GAMMA];
	int64_t stride[RLX_MAX_RANK], n = rlx_type_count(tail);
	struct op_walk w;
	double dy;

	shape_broadcast(op_has(gm) ? &gm->type : tail, tail, stride);
	for (op_walk_begin(&w, tail, stride, NULL, NULL); !w.done; op_walk_next(&w)) {
		dy = el_get(&q->in[DY], row * n + w.i);
		s->gamma[w.i] += dy * (el_get(&q->in[X], row * n + w.i) - s->at[0]) * s->at[1];
		s->beta[w.i] += dy;
		s->d[w.i] = op_has(gm) ? dy * el_get(gm, w.off[0]) : dy;
	}
}

static void write_row(struct rlx_eval *q, int64_t n, int64_t row, bool centred,
		      const struct sums *s)
{
	double mean = 0, along = 0, xh;
	int64_t i;

	for (i = 0; i < n; i++) {
		xh = (el_get(&q->in[X], row * n + i) - s->at[0]) * s->at[1];
		mean += centred ? s->d[i] / (double)n : 0;
		along += s->d[i] * xh / (double)n;
	}
	for (i = 0; i < n; i++) {
		xh = (el_get(&q->in[X], row * n + i) - s->at[0]) * s->at[1];
		el_set(&q->out[0], row * n + i, s->at[1] * (s->d[i] - mean - xh * along));
	}
}

void op_norm_grad_eval(struct rlx_eval *q, int32_t axis, bool centred, op_norm_stats *stats)
{
	const struct rlx_type *x = &q->in[X].type;
	uint32_t ax = shape_axis(axis, x->rank);
	struct rlx_type tail = op_tail(x, ax);
	int64_t n = rlx_type_count(&tail), rows = shape_span(x, 0, ax), r, i;
	struct sums s = { .gamma = q->scratch };

	s.beta = s.gamma + n;
	s.d = s.beta + n;
	memset(s.gamma, 0, 2 * (size_t)n * sizeof(*s.gamma));
	for (r = 0; r < rows; r++) {
		stats(q, r, n, s.at);
		add_row(q, &tail, r, &s);
		write_row(q, n, r, centred, &s);
	}
	for (i = 0; i < n; i++) {
		el_set(&q->out[1], i, s.gamma[i]);
		el_set(&q->out[2], i, s.beta[i]);
	}
}

/* ---- the same in simpler ops ---- */

/* The sum over axes ahead of @ax. */
static rlx_value over_rows(struct rlx_graph *g, rlx_value x, uint32_t ax)
{
	int64_t axes[RLX_MAX_RANK];
	uint32_t i;

	for (i = 0; i < ax; i++)
		axes[i] = i;
	return ax ? rlx_emit(g, reduce, .x = x, .axes = { axes, ax }, .kind = RLX_REDUCE_SUM) : x;
}

void op_norm_grad_expand(struct rlx_expand *q, int32_t axis, bool centred, rlx_value xh,
			 rlx_value inv)
{
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, xh);
	rlx_value dy = op_cast(g, q->in[DY], t.dtype), d = dy, dxh, dx, gamma;
	uint32_t ax = 0;

	op_axis(axis, t.rank, &ax);	/* of a graph that failed there is no rank */
	dxh = rlx_emit(g, mul, .a = dy, .b = xh);
	q->out[1] = over_rows(g, dxh, ax);
	q->out[2] = over_rows(g, dy, ax);
	if (q->in[GAMMA].id) {
		gamma = op_cast(g, q->in[GAMMA], t.dtype);
		d = rlx_emit(g, mul, .a = d, .b = gamma);
		dxh = rlx_emit(g, mul, .a = dxh, .b = gamma);
	}
	dx = d;
	if (centred)
		dx = rlx_emit(g, sub, .a = d,
			      .b = op_reduce_span(g, d, RLX_REDUCE_MEAN, ax, t.rank));
	d = op_reduce_span(g, dxh, RLX_REDUCE_MEAN, ax, t.rank);
	dx = rlx_emit(g, sub, .a = dx, .b = rlx_emit(g, mul, .a = xh, .b = d));
	q->out[0] = op_cast(g, rlx_emit(g, mul, .a = dx, .b = inv), q->out_type[0].dtype);
}

/* ---- what ops of norms have of it ---- */

bool op_norm_grad_sample(unsigned int i, struct rlx_sample *s, int32_t *axis)
{
	s->in[X] = s->in[DY] = rlx_type(RLX_F32, 3, 5, 33);
	s->in[GAMMA] = rlx_type(RLX_F32, 33);
	s->tol = 1e-5;
	*axis = -1;
	switch (i) {
	case 0:
		return true;
	case 1:		/* several axes, a gamma of its own for each */
		s->in[GAMMA] = rlx_type(RLX_F32, 5, 33);
		*axis = 1;
		return true;
	case 2:		/* everything, nothing scaled: a single row */
		s->in[GAMMA] = (struct rlx_type){ 0 };
		*axis = 0;
		return true;
	case 3:		/* broadcast gamma */
		s->in[GAMMA] = rlx_type(RLX_F32, 5, 1);
		*axis = -2;
		return true;
	case 4:		/* no rows: sums of nothing */
		s->in[X] = s->in[DY] = rlx_type(RLX_F32, 0, 33);
		return true;
	case 5:		/* more rows than a block of threads has at a time */
		s->in[X] = s->in[DY] = rlx_type(RLX_F32, 150, 48);
		s->in[GAMMA] = rlx_type(RLX_F32, 48);
		return true;
	}
	return false;
}

void op_norm_grad_params(struct rlx_grad *q, rlx_value dx)
{
	uint32_t k;

	for (k = 1; k <= 2 && dx.id; k++)
		if (q->need[k])
			q->d_in[k] = op_unbroadcast(q->g, (rlx_value){ dx.id + k }, q->in[k]);
}
