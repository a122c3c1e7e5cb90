// SPDX-License-Identifier: MIT
/* The squared magnitude of complex numbers. */
#include "ops/batch.h"
#include "ops/complex.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	x: c64; y: f32
 * Does:	the square of the magnitude, rounded once.
 * Gradient:	dx = 2 dy x, by real and by imaginary part
 * Source:	numpy.abs squared
 */
RLX_OP(norm_sq, "re^2 + im^2 of c64, as f32",
	IN(x),
	RLX_T_REDUCTION)

static enum rlx_status norm_sq_infer(struct rlx_infer *q)
{
	if (q->in[0]->dtype != RLX_C64)
		return op_fail(q, RLX_ETYPE, "x is %s, c64 is needed",
			       rlx_dtype_name(q->in[0]->dtype));
	q->out[0] = *q->in[0];
	q->out[0].dtype = RLX_F32;
	return RLX_OK;
}

static enum rlx_status norm_sq_eval(struct rlx_eval *q)
{
	const float *x = q->in[0].data;
	int64_t n = rlx_type_count(&q->in[0].type), i;

	for (i = 0; i < n; i++) {
		double re = (double)x[2 * i], im = (double)x[2 * i + 1];

		el_set(&q->out[0], i, re * re + im * im);
	}
	return RLX_OK;
}

static enum rlx_status norm_sq_vjp(struct rlx_grad *q)
{
	struct rlx_type t = op_type(q->g, q->in[0]);
	rlx_value d = op_reshape(q->g, q->d_out[0], (int64_t[]){ rlx_type_count(&t), 1 }, 2);

	d = rlx_emit(q->g, mul, .a = op_mul_const(q->g, d, 2),
		     .b = op_complex_pairs(q->g, q->in[0]));
	q->d_in[0] = op_complex_of_pairs(q->g, d, &t);
	return op_done(q->g);
}

static bool norm_sq_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 1)
		return false;
	s->n_in = 1;
	s->in[0] = i ? rlx_type(RLX_C64, 0, 3) : rlx_type(RLX_C64, 3, 5);
	s->tol = 1e-6;
	s->f32_only = true;
	return true;
}

const struct rlx_op_impl rlx_op_norm_sq_impl = {
	.infer = norm_sq_infer, .eval = norm_sq_eval, .vjp = norm_sq_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.batch = op_batch_front,
};
RLX_SAMPLES(norm_sq, norm_sq_sample)
