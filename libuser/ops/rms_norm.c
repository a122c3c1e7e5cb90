// SPDX-License-Identifier: MIT
/* Root-mean-square normalisation over the trailing axes. */
#include "ops/batch.h"
#include "ops/norm_grad.h"
#include "ir/match.h"

/*
 * Shapes:	x[a.., t..], t from axis on, gamma and beta broadcast to [t..] -> y[a.., t..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	x / sqrt(mean(x^2) + eps) over the dimensions from axis on; times gamma, 1 if not
 *		given, plus beta, 0 if not given.
 * Gradient:	by rms_norm_grad: to x, gamma and beta
 * Source:	Zhang and Sennrich 2019
 */
RLX_OP(rms_norm, "x / sqrt(mean x^2 + eps) gamma + beta over axes from 'axis' on",
	IN(x) OPT(gamma) OPT(beta)
	REQ(i32, axis, "-1 to normalise the last dimension, or the first of several")
	REQ(f32, eps, "what the model was trained with, often 1e-5"),
	RLX_T_REDUCTION)

static enum rlx_status rms_norm_infer(struct rlx_infer *q)
{
	const struct rlx_op_rms_norm *a = q->args;
	uint32_t ax;

	return op_infer_norm(q, a->axis, a->eps, &ax);
}

static enum rlx_status rms_norm_eval(struct rlx_eval *q)
{
	const struct rlx_op_rms_norm *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *gm = &q->in[1], *bt = &q->in[2];
	int64_t sg[RLX_MAX_RANK], sb[RLX_MAX_RANK], n, rows, r, i;
	double sum, inv, v;
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
		sum = 0;
		for (i = 0; i < n; i++) {
			v = el_get(x, r * n + i);
			sum += v * v;
		}
		inv = 1 / sqrt(sum / (double)n + a->eps);
		op_walk_begin(&w, &tail, sg, sb, NULL);
		for (; !w.done; op_walk_next(&w)) {
			v = el_get(x, r * n + w.i) * inv;
			v = op_has(gm) ? v * el_get(gm, w.off[0]) : v;
			v = op_has(bt) ? v + el_get(bt, w.off[1]) : v;
			el_set(&q->out[0], r * n + w.i, v);
		}
	}
	return RLX_OK;
}

static enum rlx_status rms_norm_expand(struct rlx_expand *q)
{
	const struct rlx_op_rms_norm *a = q->args;
	struct rlx_type t = op_type(q->g, q->in[0]);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	rlx_value x = op_cast(q->g, q->in[0], acc), inv, sq;
	uint32_t ax = 0;

	op_axis(a->axis, t.rank, &ax);
	sq = rlx_emit(q->g, mul, .a = x, .b = x);
	sq = op_reduce_span(q->g, sq, RLX_REDUCE_MEAN, ax, t.rank);
	inv = rlx_emit(q->g, rsqrt, .x = op_add_const(q->g, sq, a->eps));
	x = rlx_emit(q->g, mul, .a = x, .b = inv);
	if (q->in[1].id)
		x = rlx_emit(q->g, mul, .a = x, .b = op_cast(q->g, q->in[1], acc));
	if (q->in[2].id)
		x = rlx_emit(q->g, add, .a = x, .b = op_cast(q->g, q->in[2], acc));
	q->out[0] = op_cast(q->g, x, t.dtype);
	return op_done(q->g);
}

static enum rlx_status rms_norm_vjp(struct rlx_grad *q)
{
	const struct rlx_op_rms_norm *a = q->args;
	rlx_value dx = rlx_emit(q->g, rms_norm_grad, .x = q->in[0], .dy = q->d_out[0],
				.gamma = q->in[1], .axis = a->axis, .eps = a->eps);

	op_norm_grad_params(q, dx);
	if (q->need[0])
		q->d_in[0] = dx;
	return op_done(q->g);
}

static bool rms_norm_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_rms_norm *a = s->args;

	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 33);
	s->in[1] = rlx_type(RLX_F32, 33);
	s->tol = 1e-5;
	a->eps = 1e-6f;
	a->axis = -1;
	switch (i) {
	case 0:
		return true;
	case 1:
		s->in[1] = s->in[2] = rlx_type(RLX_F32, 5, 33);
		a->axis = 1;
		return true;
	case 2:		/* everything, nothing scaled */
		s->in[1] = (struct rlx_type){ 0 };
		a->axis = 0;
		return true;
	case 3:
		s->in[1] = rlx_type(RLX_F32, 5, 1);
		s->in[2] = rlx_type(RLX_F32, 1);
		a->axis = -2;
		return true;
	case 4:
		s->in[0] = rlx_type(RLX_F32, 4, 1);
		s->in[1] = rlx_type(RLX_F32, 1);
		s->lo[0] = 0.5;
		s->hi[0] = 2;
		s->grad_tol = -1;	/* constant: differences are all rounding */
		return true;
	case 5:
		s->in[0] = rlx_type(RLX_F32, 0, 33);
		return true;
	}
	return false;
}

static bool rms_norm_accept(struct rlx_match *m, void *args)
{
	struct rlx_op_rms_norm *a = args;
	uint32_t first;

	if (!op_match_trailing_mean(m, "v", &first) || !rlx_match_f32(m, "eps", &a->eps) ||
	    !(a->eps > 0))
		return false;
	a->x = rlx_match_value(m, "x");
	a->gamma = rlx_match_value(m, "gamma");
	a->beta = rlx_match_value(m, "beta");
	a->axis = (int32_t)first;
	return true;
}

/* x / sqrt(mean x^2 + eps), as exporters write it */
#define NORMAL1 "div(x, sqrt(add(v:reduce(mul(x, x)), #eps)))"
#define NORMAL2 "mul(x, rsqrt(add(v:reduce(mul(x, x)), #eps)))"
static const struct rlx_pattern rms_norm_patterns[] = {
	{ "add(mul(" NORMAL1 ", gamma), beta)", rms_norm_accept },
	{ "add(mul(" NORMAL2 ", gamma), beta)", rms_norm_accept },
	{ "mul(" NORMAL1 ", gamma)", rms_norm_accept },
	{ "mul(" NORMAL2 ", gamma)", rms_norm_accept },
	{ NORMAL1, rms_norm_accept },
	{ NORMAL2, rms_norm_accept },
	{ NULL, NULL },
};

const struct rlx_op_impl rlx_op_rms_norm_impl = {
	.pattern = rms_norm_patterns,
	.infer = rms_norm_infer, .vjp = rms_norm_vjp, .eval = rms_norm_eval,
	.expand = rms_norm_expand,
	.batch = op_batch_axes_of_first,
};
RLX_SAMPLES(rms_norm, rms_norm_sample)
