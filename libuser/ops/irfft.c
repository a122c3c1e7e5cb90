// SPDX-License-Identifier: MIT
/* Real numbers of half of their Fourier transform. */
#include "ops/batch.h"
#include "ops/fft.h"

/*
 * Shapes:	x[..] of c64 or x[.., 2] of floats -> y[.., n of the last of axes, ..]
 * Dtypes:	c64 f64 f32 f16 bf16; y as x, or f32 of c64
 * Does:	the inverse of rfft: along the last of axes elements beyond n / 2 are the conjugates
 *		of those that are given, of which x's beyond n / 2 are not read; the imaginary parts
 *		of element 0 and, if n is even, n / 2 count as 0. n not given is twice what x has
 *		less 1 along the last of axes, as long as x along others. norm as in fft.
 * Gradient:	dx = rfft(dy), scaled as this, elements that stand for two doubled
 * Source:	numpy.fft.irfftn
 */
RLX_OP(irfft, "real numbers of half a spectrum",
	IN(x)
	ATTR(ints, axes)
	ATTR(ints, n)
	ATTR(i32, norm),
	RLX_T_REDUCTION)

static enum rlx_status irfft_vjp(struct rlx_grad *q)
{
	const struct rlx_op_irfft *a = q->args;
	struct op_fft f;
	rlx_value d;
	uint32_t k, last;

	if (op_fft_of(q, &f))
		return RLX_EBUG;
	last = f.n_axis - 1;
	d = rlx_emit(q->g, rfft, .x = q->d_out[0], .axes = a->axes,
		     .norm = op_fft_norm_back(a->norm),
		     .joined = op_type(q->g, q->in[0]).dtype == RLX_C64);
	d = op_fft_weigh(q->g, d, f.axis[last], f.n[last], 2);
	for (k = 0; k < f.n_axis; k++)
		d = op_fft_fit(q->g, d, f.axis[k], f.in[f.axis[k]]);
	q->d_in[0] = d;
	return op_done(q->g);
}

static bool irfft_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_irfft *a = s->args;

	return op_fft_sample(i, s, OP_IRFFT, &a->axes, &a->n, &a->norm);
}

const struct rlx_op_impl rlx_op_irfft_impl = {
	.infer = op_fft_infer, .scratch = op_fft_scratch, .eval = op_fft_eval, .vjp = irfft_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.cost = op_fft_cost,
	.batch = op_batch_axes,
};
RLX_SAMPLES(irfft, irfft_sample)
