// SPDX-License-Identifier: MIT
/* The discrete Fourier transform of complex numbers. */
#include "ops/batch.h"
#include "ops/fft.h"

/*
 * Shapes:	x[..] of c64 or x[.., 2] of floats -> y, alike but for n
 * Dtypes:	c64 f64 f32 f16 bf16; y as x. Floats have real and imaginary part in a last
 *		dimension of their own, which axes do not count.
 * Does:	y[k] = scale sum over j of x[j] e^(-2 pi i j k / n), with inverse e^(+2 pi i j k /
 *		n), along one of axes after the other (none: the last dimension). n, if it is given,
 *		has a length for each axis: x is cut there, or zeros follow it; 0 is as long as x.
 *		Any length of at least 1 has a kernel. norm: BACKWARD scales the inverse by 1 / n,
 *		FORWARD the other, ORTHO both by 1 / sqrt(n).
 * Gradient:	dx = the transform of dy with the other sign, scaled as this one
 * Source:	numpy.fft.fftn; ONNX DFT-20
 */
RLX_OP(fft, "discrete Fourier transform along given axes, of any length, either way",
	IN(x)
	ATTR(ints, axes)
	ATTR(ints, n)
	ATTR(bool, inverse)
	ATTR(i32, norm),
	RLX_T_REDUCTION)

static enum rlx_status fft_vjp(struct rlx_grad *q)
{
	const struct rlx_op_fft *a = q->args;
	struct op_fft f;
	rlx_value d;
	uint32_t k;

	if (op_fft_of(q, &f))
		return RLX_EBUG;
	/* the lengths of dy, which they are */
	d = rlx_emit(q->g, fft, .x = q->d_out[0], .axes = a->axes, .inverse = !a->inverse,
		     .norm = op_fft_norm_back(a->norm));
	for (k = 0; k < f.n_axis; k++)
		d = op_fft_fit(q->g, d, f.axis[k], f.in[f.axis[k]]);
	q->d_in[0] = d;
	return op_done(q->g);
}

static bool fft_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fft *a = s->args;

	a->inverse = i % 2;
	return op_fft_sample(i, s, OP_FFT, &a->axes, &a->n, &a->norm);
}

const struct rlx_op_impl rlx_op_fft_impl = {
	.infer = op_fft_infer, .scratch = op_fft_scratch, .eval = op_fft_eval, .vjp = fft_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.cost = op_fft_cost,
	.batch = op_batch_axes,
};
RLX_SAMPLES(fft, fft_sample)
