// SPDX-License-Identifier: MIT
/* Inverse matrices. */
#include "ops/batch.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., n, n] -> y[.., n, n]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	solve(x, the unit matrix): a singular matrix is RLX_ERANGE.
 * Gradient:	dx = -y' dy y'
 * Source:	numpy.linalg.inv
 */
RLX_OP(inverse, "inverse of square matrices",
	IN(x),
	RLX_T_REDUCTION | RLX_T_FACTORS)

static enum rlx_status inverse_infer(struct rlx_infer *q)
{
	enum rlx_status st = op_need_matrix(q, 0, true);

	return st ? st : op_infer_same(q);
}

static enum rlx_status inverse_expand(struct rlx_expand *q)
{
	struct rlx_type t = q->out_type[0];

	q->out[0] = rlx_emit(q->g, solve, .a = q->in[0],
			     .b = op_unit_matrix(q->g, t.dtype, t.dim[t.rank - 1]));
	return op_done(q->g);
}

static enum rlx_status inverse_vjp(struct rlx_grad *q)
{
	rlx_value turned = op_turned(q->g, q->out[0]);

	q->d_in[0] = rlx_emit(q->g, neg, .x = op_product(q->g, turned,
			      op_product(q->g, q->d_out[0], turned)));
	return op_done(q->g);
}

static bool inverse_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 2)
		return false;
	s->n_in = 1;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, 2, 0, 0) : i ? rlx_type(RLX_F32, 5, 5) :
			    rlx_type(RLX_F32, 3, 2, 4, 4);
	s->tol = 1e-3;
	s->grad_tol = 1e-2;
	return true;
}

const struct rlx_op_impl rlx_op_inverse_impl = {
	.infer = inverse_infer, .expand = inverse_expand, .vjp = inverse_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(inverse, inverse_sample)
