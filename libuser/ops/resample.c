// SPDX-License-Identifier: MIT
/* Signals at another rate. */
#include "ops/batch.h"
#include "ops/fft.h"

/*
 * Shapes:	x[.., m, ..] -> y[.., n, ..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	n samples of the periodic, band-limited signal of which x are m, along axis: half
 *		the spectrum, cut or with zeros behind it, back by n and times n / m. An even
 *		length's middle bin is doubled when the other side is longer and halved when it was
 *		shorter.
 * Gradient:	by rfft and irfft
 * Source:	scipy.signal.resample
 */
RLX_OP(resample, "a signal at n samples, by its spectrum",
	IN(x)
	REQ(i32, axis, "the dimension of the signal, -1 for the last")
	REQ(i64, n, "samples that there shall be"),
	RLX_T_REDUCTION)

static enum rlx_status resample_infer(struct rlx_infer *q)
{
	const struct rlx_op_resample *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_float(q, 0, false);
	uint32_t ax;

	if (!st)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (x->rank == RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "no dimension is left for real and imaginary part");
	if (x->dim[ax] < 1 || x->dim[ax] > 1 << 30 || a->n < 1 || a->n > 1 << 30)
		return op_fail(q, RLX_ERANGE, "%lld samples of %lld; both must be 1 to 2^30",
			       (long long)a->n, (long long)x->dim[ax]);
	q->out[0] = *x;
	q->out[0].dim[ax] = a->n;
	return RLX_OK;
}

static enum rlx_status resample_expand(struct rlx_expand *q)
{
	const struct rlx_op_resample *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), t;
	uint32_t ax = shape_axis(a->axis, x.rank);
	int64_t m = x.dim[ax], less = m < a->n ? m : a->n;
	rlx_value y = rlx_emit(q->g, rfft, .x = q->in[0], .axes = RLX_INTS(ax)), last, rest;

	y = op_fft_fit(q->g, y, ax, less / 2 + 1);
	/* the bin that stands for two, or for one */
	if (y.id && less % 2 == 0 && m != a->n) {
		t = op_type(q->g, y);
		rest = rlx_emit(q->g, slice, .x = y, .axes = RLX_INTS(ax), .starts = RLX_INTS(0),
				.ends = RLX_INTS(less / 2));
		last = rlx_emit(q->g, slice, .x = y, .axes = RLX_INTS(ax),
				.starts = RLX_INTS(less / 2), .ends = RLX_INTS(t.dim[ax]));
		last = op_mul_const(q->g, last, a->n < m ? 2 : 0.5);
		y = rlx_emit(q->g, concat, .axis = (int32_t)ax, .xs = RLX_VALUES(rest, last));
	}
	y = rlx_emit(q->g, irfft, .x = y, .axes = RLX_INTS(ax), .n = RLX_INTS(a->n));
	q->out[0] = op_mul_const(q->g, y, (double)a->n / (double)m);
	return op_done(q->g);
}

static bool resample_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x; int32_t axis; int64_t n; } c[] = {
		{ { RLX_F32, 2, { 3, 16 } }, -1, 24 }, { { RLX_F32, 2, { 3, 30 } }, 1, 20 },
		{ { RLX_F32, 3, { 2, 15, 3 } }, 1, 9 }, { { RLX_F32, 1, { 10 } }, 0, 10 },
	};
	struct rlx_op_resample *a = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	s->tol = 2e-6;
	a->axis = c[i].axis;
	a->n = c[i].n;
	return true;
}

const struct rlx_op_impl rlx_op_resample_impl = {
	.infer = resample_infer, .expand = resample_expand,
	.batch = op_batch_axes,
};
RLX_SAMPLES(resample, resample_sample)
