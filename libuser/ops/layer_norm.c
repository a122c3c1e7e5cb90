// SPDX-License-Identifier: MIT
/* Layer normalisation over the trailing axes. */
#include <stddef.h>

#include "ops/batch.h"
#include "ops/norm_grad.h"
#include "ir/match.h"

/*
 * Shapes:	x[a.., t..], t from axis on, gamma and beta broadcast to [t..] -> y[a.., t..];
 *		with stats also mean[a.., 1..] and 1 / sqrt(var + eps) like it
 * Dtypes:	f64 f32 f16 bf16; y as x; stats: f64 for f64, else f32
 * Does:	(x - mean) / sqrt(var + eps), mean and variance (divided by the number of
 *		elements) over the dimensions from axis on; times gamma, 1 if not given, plus
 *		beta, 0 if not given.
 * Gradient:	by layer_norm_grad: to x, gamma and beta, through stats as well
 * Source:	Ba et al. 2016; ONNX LayerNormalization-17
 */
RLX_OP(layer_norm, "(x - mean) / sqrt(var + eps) gamma + beta over axes from 'axis' on",
	IN(x) OPT(gamma) OPT(beta)
	REQ(i32, axis, "-1 to normalise the last dimension, or the first of several")
	REQ(f32, eps, "what the model was trained with, often 1e-5")
	ATTR(bool, stats),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status layer_norm_infer(struct rlx_infer *q)
{
	const struct rlx_op_layer_norm *a = q->args;
	const struct rlx_type *x = q->in[0];
	uint32_t ax, k;
	enum rlx_status st = op_infer_norm(q, a->axis, a->eps, &ax);

	if (st)
		return st;
	if (a->stats) {
		q->n_out = 3;
		q->out[1] = *x;
		q->out[1].dtype = op_acc_type(x->dtype);
		for (k = ax; k < x->rank; k++)
			q->out[1].dim[k] = 1;
		q->out[2] = q->out[1];
	}
	return RLX_OK;
}

static enum rlx_status layer_norm_eval(struct rlx_eval *q)
{
	const struct rlx_op_layer_norm *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *gm = &q->in[1], *bt = &q->in[2];
	int64_t sg[RLX_MAX_RANK], sb[RLX_MAX_RANK], n, rows, r, i;
	double mean, var, inv, v;
	struct rlx_type tail;
	struct op_walk w;
	uint32_t ax = 0;

	op_axis(a->axis, x->type.rank, &ax);
	tail = op_tail(&x->type, ax);
	n = rlx_type_count(&tail);
	rows = shape_span(&x->type, 0, ax);
	shape_broadcast(op_has(gm) ? &gm->type : &tail, &tail, sg);
	shape_broadcast(op_has(bt) ? &bt->type : &tail, &tail, sb);
	for (r = 0; r < rows; r++) {
		mean = var = 0;
		for (i = 0; i < n; i++)
			mean += el_get(x, r * n + i);
		mean /= (double)n;
		for (i = 0; i < n; i++) {
			v = el_get(x, r * n + i) - mean;
			var += v * v;
		}
		inv = 1 / sqrt(var / (double)n + a->eps);
		op_walk_begin(&w, &tail, sg, sb, NULL);
		for (; !w.done; op_walk_next(&w)) {
			v = (el_get(x, r * n + w.i) - mean) * inv;
			v = op_has(gm) ? v * el_get(gm, w.off[0]) : v;
			v = op_has(bt) ? v + el_get(bt, w.off[1]) : v;
			el_set(&q->out[0], r * n + w.i, v);
		}
		if (a->stats) {
			el_set(&q->out[1], r, mean);
			el_set(&q->out[2], r, inv);
		}
	}
	return RLX_OK;
}

static enum rlx_status layer_norm_expand(struct rlx_expand *q)
{
	const struct rlx_op_layer_norm *a = q->args;
	struct rlx_type t = op_type(q->g, q->in[0]);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	rlx_value x = op_cast(q->g, q->in[0], acc), mean, inv, sq;
	uint32_t ax = 0;

	op_axis(a->axis, t.rank, &ax);
	mean = op_reduce_span(q->g, x, RLX_REDUCE_MEAN, ax, t.rank);
	x = rlx_emit(q->g, sub, .a = x, .b = mean);
	sq = rlx_emit(q->g, mul, .a = x, .b = x);
	sq = op_reduce_span(q->g, sq, RLX_REDUCE_MEAN, ax, t.rank);
	inv = rlx_emit(q->g, rsqrt, .x = op_add_const(q->g, sq, a->eps));
	x = rlx_emit(q->g, mul, .a = x, .b = inv);
	if (q->in[1].id)
		x = rlx_emit(q->g, mul, .a = x, .b = op_cast(q->g, q->in[1], acc));
	if (q->in[2].id)
		x = rlx_emit(q->g, add, .a = x, .b = op_cast(q->g, q->in[2], acc));
	q->out[0] = op_cast(q->g, x, t.dtype);
	if (a->stats) {
		q->out[1] = mean;
		q->out[2] = inv;
	}
	return op_done(q->g);
}

/* Mean and 1 / sqrt(var + eps), of this norm or of one that is merged with it (pass/cse.c). */
static rlx_value stats_of(struct rlx_grad *q)
{
	struct rlx_op_layer_norm a = *(const struct rlx_op_layer_norm *)q->args;
	rlx_value v = q->out[0];

	if (!a.stats) {
		a.stats = true;
		a.x = q->in[0];
		a.gamma = q->in[1];
		a.beta = q->in[2];
		v = rlx_emit_raw(q->g, &rlx_op_layer_norm, &a, sizeof(a), NULL, 0);
	}
	return v.id ? (rlx_value){ v.id + 1 } : v;
}

/* What the statistics are changed by, times their derivatives by x, is added to @dx. */
static rlx_value by_stats(struct rlx_grad *q, rlx_value dx, rlx_value mean, rlx_value inv)
{
	const struct rlx_op_layer_norm *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	uint32_t ax = 0;
	rlx_value d, xh;
	double by;

	op_axis(a->axis, t.rank, &ax);
	by = 1 / (double)shape_span(&t, ax, t.rank);
	if (q->n_out > 1 && q->d_out[1].id)
		dx = rlx_emit(g, add, .a = op_cast(g, dx, acc),
			      .b = op_mul_const(g, q->d_out[1], by));
	if (q->n_out > 2 && q->d_out[2].id) {
		xh = rlx_emit(g, sub, .a = op_cast(g, q->in[0], acc), .b = mean);
		xh = rlx_emit(g, mul, .a = xh, .b = inv);
		d = rlx_emit(g, mul, .a = q->d_out[2], .b = rlx_emit(g, mul, .a = inv, .b = inv));
		d = rlx_emit(g, mul, .a = op_mul_const(g, d, by), .b = xh);
		dx = rlx_emit(g, sub, .a = op_cast(g, dx, acc), .b = d);
	}
	return dx;
}

static enum rlx_status layer_norm_vjp(struct rlx_grad *q)
{
	const struct rlx_op_layer_norm *a = q->args;
	rlx_value mean = stats_of(q), inv = { mean.id + (mean.id != 0) }, dy, dx;

	dy = q->d_out[0].id ? q->d_out[0] : op_zeros_like(q->g, q->out[0]);
	dx = rlx_emit(q->g, layer_norm_grad, .x = q->in[0], .dy = dy, .gamma = q->in[1],
		      .mean = mean, .inv = inv, .axis = a->axis);
	if (!dx.id)
		return op_done(q->g);
	op_norm_grad_params(q, dx);
	if (q->need[0])
		q->d_in[0] = by_stats(q, dx, mean, inv);
	return op_done(q->g);
}

static bool layer_norm_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_layer_norm *a = s->args;

	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 33);
	s->in[1] = s->in[2] = rlx_type(RLX_F32, 33);
	s->tol = 1e-5;
	a->eps = 1e-5f;
	a->axis = -1;
	switch (i) {
	case 0:
		return true;
	case 1:
		s->in[1] = rlx_type(RLX_F32, 5, 33);
		s->in[2] = (struct rlx_type){ 0 };
		a->axis = 1;
		a->stats = true;
		return true;
	case 2:		/* everything, nothing scaled */
		s->in[1] = s->in[2] = (struct rlx_type){ 0 };
		a->axis = 0;
		return true;
	case 3:		/* broadcast gamma */
		s->in[1] = rlx_type(RLX_F32, 5, 1);
		s->in[2] = rlx_type(RLX_F32, 1);
		a->axis = -2;
		return true;
	case 4:
		s->in[0] = rlx_type(RLX_F32, 4, 1);
		s->in[1] = s->in[2] = rlx_type(RLX_F32, 1);
		s->grad_tol = -1;	/* constant: differences are all rounding */
		return true;
	case 5:
		s->in[0] = rlx_type(RLX_F32, 0, 33);
		a->stats = true;
		return true;
	}
	return false;
}

/* Both reductions are means over the same trailing axes, kept. */
static bool layer_norm_accept(struct rlx_match *m, void *args)
{
	struct rlx_op_layer_norm *a = args;
	uint32_t first, second;

	if (!op_match_trailing_mean(m, "m", &first) || !op_match_trailing_mean(m, "v", &second) ||
	    first != second || !rlx_match_f32(m, "eps", &a->eps) || !(a->eps > 0))
		return false;
	a->x = rlx_match_value(m, "x");
	a->gamma = rlx_match_value(m, "gamma");
	a->beta = rlx_match_value(m, "beta");
	a->axis = (int32_t)first;
	return true;
}

/* (x - mean) / sqrt(mean (x - mean)^2 + eps), as exporters write it */
#define NORMAL1 "div(d:sub(x, m:reduce(x)), sqrt(add(v:reduce(mul(d, d)), #eps)))"
#define NORMAL2 "mul(d:sub(x, m:reduce(x)), rsqrt(add(v:reduce(mul(d, d)), #eps)))"
static const struct rlx_pattern layer_norm_patterns[] = {
	{ "add(mul(" NORMAL1 ", gamma), beta)", layer_norm_accept },
	{ "add(mul(" NORMAL2 ", gamma), beta)", layer_norm_accept },
	{ NORMAL1, layer_norm_accept },
	{ NORMAL2, layer_norm_accept },
	{ NULL, NULL },
};

const struct rlx_op_impl rlx_op_layer_norm_impl = {
	.pattern = layer_norm_patterns,
	.infer = layer_norm_infer, .vjp = layer_norm_vjp,
	.more = offsetof(struct rlx_op_layer_norm, stats), .eval = layer_norm_eval,
	.expand = layer_norm_expand,
	.batch = op_batch_axes_of_first,
};
RLX_SAMPLES(layer_norm, layer_norm_sample)
