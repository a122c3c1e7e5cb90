// SPDX-License-Identifier: MIT
/* The complex conjugate. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	c64
 * Does:	turns the sign of the imaginary part, that of 0 and NaN too.
 * Gradient:	dx = conjugate(dy)
 * Source:	numpy.conjugate
 */
RLX_OP(conjugate, "re - i im, element by element",
	IN(x),
	RLX_T_MOVE)

static enum rlx_status conjugate_infer(struct rlx_infer *q)
{
	if (q->in[0]->dtype != RLX_C64)
		return op_fail(q, RLX_ETYPE, "x is %s, c64 is needed",
			       rlx_dtype_name(q->in[0]->dtype));
	return op_infer_same(q);
}

static enum rlx_status conjugate_eval(struct rlx_eval *q)
{
	const float *x = q->in[0].data;
	float *y = q->out[0].data;
	int64_t n = rlx_type_count(&q->in[0].type), i;

	for (i = 0; i < n; i++) {
		y[2 * i] = x[2 * i];
		y[2 * i + 1] = -x[2 * i + 1];
	}
	return RLX_OK;
}

static enum rlx_status conjugate_vjp(struct rlx_grad *q)
{
	q->d_in[0] = rlx_emit(q->g, conjugate, .x = q->d_out[0]);
	return RLX_OK;
}

static bool conjugate_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 1)
		return false;
	s->n_in = 1;
	s->in[0] = i ? rlx_type(RLX_C64, 0, 3) : rlx_type(RLX_C64, 3, 5);
	s->f32_only = true;
	return true;
}

const struct rlx_op_impl rlx_op_conjugate_impl = {
	.infer = conjugate_infer, .eval = conjugate_eval, .vjp = conjugate_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_front,
};
RLX_SAMPLES(conjugate, conjugate_sample)
