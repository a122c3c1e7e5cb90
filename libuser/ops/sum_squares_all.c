// SPDX-License-Identifier: MIT
/* The sum of squares of all elements of several tensors. */
#include "ops/emit.h"

/*
 * Shapes:	xs[k][..] -> y[]
 * Dtypes:	xs: f64 f32 f16 bf16, each its own; y: f64
 * Does:	the sum over xs of the sum of x^2 over all elements of x, which is kept in f64 for
 *		f64, else in f32 at least, before y is in f64. Of nothing 0.
 * Gradient:	by the ops that it stands for
 * Source:	mul, reduce, add; the square of the norm that gradients are clipped by (Pascanu et
 *		al. 2013)
 */
RLX_OP(sum_squares_all, "sum of x^2 over all elements of several tensors, in f64",
	INS(xs),
	RLX_T_REDUCTION | RLX_T_STEEP | RLX_T_WIDENS)

static enum rlx_status sum_squares_all_infer(struct rlx_infer *q)
{
	enum rlx_status st = RLX_OK;
	uint32_t k;

	if (!q->n_in)
		return op_fail(q, RLX_EINVAL, "no inputs");
	for (k = 0; !st && k < q->n_in; k++)
		st = op_need_float(q, k, false);
	q->out[0] = rlx_scalar(RLX_F64);
	return st;
}

static enum rlx_status sum_squares_all_eval(struct rlx_eval *q)
{
	double sum = 0, v;
	uint32_t k;
	int64_t i;

	for (k = 0; k < q->n_in; k++)
		for (i = 0; i < rlx_type_count(&q->in[k].type); i++) {
			v = el_get(&q->in[k], i);
			sum += v * v;
		}
	el_set(&q->out[0], 0, sum);
	return RLX_OK;
}

static enum rlx_status sum_squares_all_expand(struct rlx_expand *q)
{
	struct rlx_graph *g = q->g;
	rlx_value sum = RLX_NONE, x;
	uint32_t k;

	for (k = 0; k < q->n_in; k++) {
		x = op_cast(g, q->in[k], op_acc_type(op_type(g, q->in[k]).dtype));
		x = op_cast(g, rlx_emit(g, sum_squares, .x = x), RLX_F64);
		sum = k ? rlx_emit(g, add, .a = sum, .b = x) : x;
	}
	q->out[0] = sum;
	return op_done(g);
}

static bool sum_squares_all_sample(unsigned int i, struct rlx_sample *s)
{
	s->n_in = 3;
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 17);
	s->in[1] = rlx_scalar(RLX_F32);
	s->in[2] = rlx_type(RLX_F32, 33);
	switch (i) {
	case 0:
		return true;
	case 1:		/* one of them */
		s->n_in = 1;
		return true;
	case 2:		/* an empty one among them */
		s->in[1] = rlx_type(RLX_F32, 0, 3);
		return true;
	case 3:		/* one that several blocks share */
		s->in[0] = rlx_type(RLX_F32, 3, 9001);
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_sum_squares_all_impl = {
	.infer = sum_squares_all_infer, .eval = sum_squares_all_eval,
	.expand = sum_squares_all_expand,
};
RLX_SAMPLES(sum_squares_all, sum_squares_all_sample)
