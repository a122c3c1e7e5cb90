// SPDX-License-Identifier: MIT
/* Power spectra by Welch's method. */
#include "ops/fft.h"
#include "ops/stft.h"

/*
 * Shapes:	x[.., n], window[n_fft] -> y[.., n_fft / 2 + 1]
 * Dtypes:	f64 f32 f16 bf16; window and y as x
 * Does:	the mean over frames of n_fft, each hop behind the one ahead, of |rfft(window (x -
 *		mean))|^2, where the mean is that of the frame with detrend, else 0; bins but the
 *		first and, if n_fft is even, the last count twice. Divided by rate sum(window^2)
 *		with density, else by sum(window)^2. rate 0 or not given is 1.
 * Gradient:	by those ops: to x and window
 * Source:	scipy.signal.welch; Welch 1967
 */
RLX_OP(welch, "power of each frequency, a mean over frames that may overlap",
	IN(x) IN(window)
	REQ(i64, hop, "elements from a frame to the next")
	ATTR(bool, detrend)
	ATTR(bool, density)
	ATTR_NZ(f64, rate, 1),
	RLX_T_REDUCTION)

static enum rlx_status welch_infer(struct rlx_infer *q)
{
	const struct rlx_op_welch *a = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1];
	enum rlx_status st = op_need_rank(q, 0, 1, RLX_MAX_RANK - 2);

	if (!st)
		st = op_need_rank(q, 1, 1, 1);
	if (!st)
		st = op_stft_rule(q, x->dtype, w->dim[0], a->hop, RLX_FFT_BACKWARD);
	if (!st)
		st = op_need_real(q, "rate", a->rate, 0);
	if (st)
		return st;
	if (x->dim[x->rank - 1] < w->dim[0])
		return op_fail(q, RLX_ESHAPE, "%lld elements are less than a window of %lld",
			       (long long)x->dim[x->rank - 1], (long long)w->dim[0]);
	q->out[0] = *x;
	q->out[0].dim[x->rank - 1] = w->dim[0] / 2 + 1;
	return RLX_OK;
}

static enum rlx_status welch_expand(struct rlx_expand *q)
{
	const struct rlx_op_welch *a = q->args;
	struct rlx_type w = op_type(q->g, q->in[1]);
	rlx_value x, sum, window = q->in[1];
	int64_t n = w.dim[0];

	x = rlx_emit(q->g, frame, .x = q->in[0], .axis = -1, .length = n, .hop = a->hop);
	if (a->detrend)
		x = rlx_emit(q->g, sub, .a = x, .b = rlx_emit(q->g, reduce, .x = x,
			     .axes = RLX_INTS(-1), .kind = RLX_REDUCE_MEAN, .keep_dims = true));
	x = rlx_emit(q->g, rfft, .x = rlx_emit(q->g, mul, .a = x, .b = window));
	x = rlx_emit(q->g, reduce, .x = rlx_emit(q->g, mul, .a = x, .b = x), .axes = RLX_INTS(-1));
	x = rlx_emit(q->g, reduce, .x = x, .axes = RLX_INTS(-2), .kind = RLX_REDUCE_MEAN);
	if (x.id)
		x = op_fft_weigh(q->g, x, op_type(q->g, x).rank - 1, n, 2);
	if (a->density)
		window = rlx_emit(q->g, mul, .a = window, .b = window);
	sum = rlx_emit(q->g, reduce, .x = window);
	sum = a->density ? op_mul_const(q->g, sum, a->rate) :
			   rlx_emit(q->g, mul, .a = sum, .b = sum);
	q->out[0] = rlx_emit(q->g, div, .a = x, .b = sum);
	return op_done(q->g);
}

static bool welch_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_welch *a = s->args;

	if (i > 1)
		return false;
	s->n_in = 2;
	s->in[0] = i ? rlx_type(RLX_F32, 100) : rlx_type(RLX_F32, 3, 64);
	s->in[1] = i ? rlx_type(RLX_F32, 15) : rlx_type(RLX_F32, 16);
	s->lo[1] = 0.3;
	s->hi[1] = 1;
	s->tol = 3e-6;
	a->hop = 8;
	a->detrend = a->density = i;
	a->rate = i ? 50 : 0;
	return true;
}

const struct rlx_op_impl rlx_op_welch_impl = {
	.infer = welch_infer, .expand = welch_expand,
};
RLX_SAMPLES(welch, welch_sample)
