// SPDX-License-Identifier: MIT
/* Complex numbers as pairs of floats. */
#include "ops/batch.h"
#include "ops/complex.h"

/*
 * Shapes:	x[..] -> y[.., 2]
 * Dtypes:	x: c64; y: f32
 * Does:	nothing to the bytes, nor a copy: y[.., 0] are the real parts, y[.., 1] the
 *		imaginary ones. x may be of one rank less than a tensor can have.
 * Gradient:	dx = view_as_complex(dy)
 * Source:	PyTorch view_as_real
 */
RLX_OP(view_as_real, "c64 as f32, real and imaginary part in a last dimension",
	IN(x),
	RLX_T_VIEW)

static enum rlx_status view_as_real_infer(struct rlx_infer *q)
{
	struct rlx_type *y = &q->out[0];

	if (q->in[0]->dtype != RLX_C64)
		return op_fail(q, RLX_ETYPE, "x is %s, c64 is needed",
			       rlx_dtype_name(q->in[0]->dtype));
	if (q->in[0]->rank == RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "no dimension is left for real and imaginary part");
	*y = *q->in[0];
	y->dtype = RLX_F32;
	y->dim[y->rank++] = 2;
	return RLX_OK;
}

static enum rlx_status view_as_real_vjp(struct rlx_grad *q)
{
	q->d_in[0] = rlx_emit(q->g, view_as_complex, .x = q->d_out[0]);
	return RLX_OK;
}

static bool view_as_real_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 2)
		return false;
	s->n_in = 1;
	s->in[0] = i == 2 ? rlx_scalar(RLX_C64) : i ? rlx_type(RLX_C64, 0, 3) :
		   rlx_type(RLX_C64, 3, 5);
	s->f32_only = true;
	return true;
}

const struct rlx_op_impl rlx_op_view_as_real_impl = {
	.infer = view_as_real_infer, .eval = op_eval_view, .vjp = view_as_real_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_front,
};
RLX_SAMPLES(view_as_real, view_as_real_sample)
