// SPDX-License-Identifier: MIT
/* The Moore-Penrose inverse. */
#include "ops/batch.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., m, n] -> y[.., n, m]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	v diag(1 / s) u' of x = u diag(s) v', where s of at most rcond times the largest
 *		count as 0. rcond 0 or not given is 1e-15 for f64, else 1e-6.
 * Gradient:	by svd and those products
 * Source:	numpy.linalg.pinv
 */
RLX_OP(pinv, "Moore-Penrose inverse, by singular values",
	IN(x)
	ATTR(f64, rcond),
	RLX_T_REDUCTION | RLX_T_FACTORS | RLX_T_TIES)

static enum rlx_status pinv_infer(struct rlx_infer *q)
{
	const struct rlx_op_pinv *a = q->args;
	enum rlx_status st = op_need_matrix(q, 0, false);
	const struct rlx_type *x = q->in[0];

	if (!st)
		st = op_need_real(q, "rcond", a->rcond, 0);
	if (st)
		return st;
	q->out[0] = *x;
	q->out[0].dim[x->rank - 2] = x->dim[x->rank - 1];
	q->out[0].dim[x->rank - 1] = x->dim[x->rank - 2];
	return RLX_OK;
}

static enum rlx_status pinv_expand(struct rlx_expand *q)
{
	const struct rlx_op_pinv *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type t = q->out_type[0];
	double rcond = a->rcond ? a->rcond : t.dtype == RLX_F64 ? 1e-15 : 1e-6;
	rlx_value u, s, v, top, one;

	if (!rlx_type_count(&t)) {
		q->out[0] = op_fill(g, &t, 0);
		return op_done(g);
	}
	u = rlx_emit(g, svd, .x = q->in[0]);
	s = rlx_out(g, u, 1);
	v = rlx_out(g, u, 2);
	top = rlx_emit(g, reduce, .x = s, .axes = RLX_INTS(-1), .kind = RLX_REDUCE_MAX,
		       .keep_dims = true);
	top = rlx_emit(g, gt, .a = s, .b = op_mul_const(g, top, rcond));
	one = op_const_like(g, s, 1);
	/* 1 / s where it counts: the other side is never divided by */
	s = rlx_emit(g, where, .cond = top, .a = rlx_emit(g, div, .a = one, .b = rlx_emit(g, where,
		     .cond = top, .a = s, .b = one)), .b = op_const_like(g, s, 0));
	q->out[0] = op_product(g, rlx_emit(g, mul, .a = op_turned(g, v), .b = op_as_row(g, s)),
			       op_turned(g, u));
	return op_done(g);
}

static bool pinv_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 5, 3 } }, { RLX_F32, 3, { 2, 3, 4 } }, { RLX_F32, 2, { 0, 3 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 1e-3;
	s->grad_tol = 1e-2;
	return true;
}

const struct rlx_op_impl rlx_op_pinv_impl = {
	.infer = pinv_infer, .expand = pinv_expand,
	.batch = op_batch_front,
};
RLX_SAMPLES(pinv, pinv_sample)
