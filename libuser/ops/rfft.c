// SPDX-License-Identifier: MIT
/* The discrete Fourier transform of real numbers: half of it, which is all. */
#include "ops/batch.h"
#include "ops/fft.h"

/*
 * Shapes:	x[..] -> y[.., n / 2 + 1 of the last of axes, .., 2]; with joined c64, without the
 *		last dimension
 * Dtypes:	f64 f32 f16 bf16; y as x, real and imaginary part in a dimension of their own, or
 *		with joined c64, of f32 alone
 * Does:	the first n / 2 + 1 elements of the transform along the last of axes, as fft does it
 *		(the others are their conjugates), then that along the other axes. axes, n and norm
 *		as in fft.
 * Gradient:	dx = irfft(dy), unscaled, elements that stand for two halved
 * Source:	numpy.fft.rfftn
 */
RLX_OP(rfft, "discrete Fourier transform of real numbers, to half of the spectrum",
	IN(x)
	ATTR(ints, axes)
	ATTR(ints, n)
	ATTR(i32, norm)
	ATTR(bool, joined),
	RLX_T_REDUCTION)

static enum rlx_status rfft_vjp(struct rlx_grad *q)
{
	const struct rlx_op_rfft *a = q->args;
	int64_t n[RLX_MAX_RANK];
	struct op_fft f;
	rlx_value d;
	uint32_t k;

	if (op_fft_of(q, &f))
		return RLX_EBUG;
	/* the real axis is the first of f's, the last of those given */
	for (k = 0; k < f.n_axis; k++)
		n[(k + f.n_axis - 1) % f.n_axis] = f.n[k];
	d = op_fft_weigh(q->g, q->d_out[0], f.axis[0], f.n[0], 0.5);
	d = rlx_emit(q->g, irfft, .x = d, .axes = a->axes, .n = { n, f.n_axis },
		     .norm = op_fft_norm_back(a->norm));
	for (k = 0; k < f.n_axis; k++)
		d = op_fft_fit(q->g, d, f.axis[k], f.in[f.axis[k]]);
	q->d_in[0] = d;
	return op_done(q->g);
}

static bool rfft_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_rfft *a = s->args;

	if (!op_fft_sample(i, s, OP_RFFT, &a->axes, &a->n, &a->norm))
		return false;
	a->joined = i == 9;
	s->f32_only = a->joined;
	return true;
}

const struct rlx_op_impl rlx_op_rfft_impl = {
	.infer = op_fft_infer, .scratch = op_fft_scratch, .eval = op_fft_eval, .vjp = rfft_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
	.cost = op_fft_cost,
	.batch = op_batch_axes,
};
RLX_SAMPLES(rfft, rfft_sample)
