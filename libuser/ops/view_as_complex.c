// SPDX-License-Identifier: MIT
/* Pairs of floats as complex numbers. */
#include "ops/batch.h"
#include "ops/complex.h"

/*
 * Shapes:	x[.., 2] -> y[..]
 * Dtypes:	x: f32; y: c64
 * Does:	nothing to the bytes, nor a copy: x[.., 0] are the real parts, x[.., 1] the
 *		imaginary ones.
 * Gradient:	dx = view_as_real(dy)
 * Source:	PyTorch view_as_complex
 */
RLX_OP(view_as_complex, "f32 with real and imaginary part in the last dimension as c64",
	IN(x),
	RLX_T_VIEW)

static enum rlx_status view_as_complex_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];

	if (x->dtype != RLX_F32)
		return op_fail(q, RLX_ETYPE, "x is %s, f32 is needed; cast it",
			       rlx_dtype_name(x->dtype));
	if (!x->rank || x->dim[x->rank - 1] != 2)
		return op_fail(q, RLX_ESHAPE, "the last dimension must be 2: real and imaginary "
			       "part");
	q->out[0] = *x;
	q->out[0].dtype = RLX_C64;
	q->out[0].rank--;
	return RLX_OK;
}

static enum rlx_status view_as_complex_vjp(struct rlx_grad *q)
{
	q->d_in[0] = rlx_emit(q->g, view_as_real, .x = q->d_out[0]);
	return RLX_OK;
}

static bool view_as_complex_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 2)
		return false;
	s->n_in = 1;
	s->in[0] = i == 2 ? rlx_type(RLX_F32, 2) : i ? rlx_type(RLX_F32, 0, 3, 2) :
		   rlx_type(RLX_F32, 3, 5, 2);
	s->f32_only = true;
	return true;
}

const struct rlx_op_impl rlx_op_view_as_complex_impl = {
	.infer = view_as_complex_infer, .eval = op_eval_view,
	.vjp = view_as_complex_vjp, .complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_front,
};
RLX_SAMPLES(view_as_complex, view_as_complex_sample)
