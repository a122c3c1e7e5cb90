// SPDX-License-Identifier: MIT
/* The short-time Fourier transform. */
#include "ops/stft.h"

/*
 * Shapes:	x[.., n], window[length] -> y[.., frames, bins, 2]
 * Dtypes:	f64 f32 f16 bf16; y as x, real and imaginary part in a dimension of their own
 * Does:	rfft of frames of n_fft, each hop behind the one ahead, times window; bins are n_fft
 *		/ 2 + 1, frames are as many as are whole. A window that is shorter stands in the
 *		middle of n_fft; without one it is 1. center puts n_fft / 2 elements before and
 *		behind x, as pad with mode has them, so that frame f is around element f hop. norm
 *		as in fft. torch has bins before frames.
 * Gradient:	by frame, mul and rfft: to x and window
 * Source:	torch.stft
 */
RLX_OP(stft, "spectra of frames of a signal, times a window",
	IN(x) OPT(window)
	REQ(i64, n_fft, "elements of a frame")
	REQ(i64, hop, "elements from a frame to the next")
	ATTR(bool, center)
	ATTR(i32, mode)
	ATTR(i32, norm),
	RLX_T_REDUCTION)

static enum rlx_status stft_infer(struct rlx_infer *q)
{
	const struct rlx_op_stft *a = q->args;
	const struct rlx_type *x = q->in[0];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_stft_rule(q, x->dtype, a->n_fft, a->hop, a->norm);
	int64_t n, half = a->n_fft / 2;

	if (!st)
		st = op_need_rank(q, 0, 1, RLX_MAX_RANK - 2);
	if (!st)
		st = op_need_enum(q, "mode", a->mode, RLX_PAD_WRAP + 1);
	if (st)
		return st;
	n = x->dim[x->rank - 1];
	if (a->center && a->mode == RLX_PAD_REFLECT && half >= n && half)
		return op_fail(q, RLX_ESHAPE, "%lld elements cannot be reflected by %lld",
			       (long long)n, (long long)half);
	if (a->center && __builtin_add_overflow(n, 2 * half, &n))
		return op_fail(q, RLX_ESHAPE, "%lld elements cannot be padded by %lld at each end",
			       (long long)x->dim[x->rank - 1], (long long)half);
	*y = *x;
	y->rank += 2;
	y->dim[x->rank - 1] = n < a->n_fft ? 0 : (n - a->n_fft) / a->hop + 1;
	y->dim[x->rank] = half + 1;
	y->dim[x->rank + 1] = 2;
	return RLX_OK;
}

static enum rlx_status stft_expand(struct rlx_expand *q)
{
	const struct rlx_op_stft *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };
	rlx_value y = q->in[0];

	if (!rlx_type_count(&q->out_type[0])) {
		q->out[0] = op_fill(q->g, &q->out_type[0], 0);
		return op_done(q->g);
	}
	pads[x.rank - 1] = pads[2 * x.rank - 1] = a->n_fft / 2;
	if (a->center && a->n_fft > 1)
		y = rlx_emit(q->g, pad, .x = y, .pads = { pads, 2 * x.rank }, .mode = a->mode);
	y = rlx_emit(q->g, frame, .x = y, .axis = -1, .length = a->n_fft, .hop = a->hop);
	if (q->in[1].id)
		y = rlx_emit(q->g, mul, .a = y, .b = op_stft_window(q->g, q->in[1], a->n_fft));
	q->out[0] = rlx_emit(q->g, rfft, .x = y, .norm = a->norm);
	return op_done(q->g);
}

static bool stft_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct {
		struct rlx_type x;
		int64_t window, n_fft, hop;
		bool center;
	} c[] = {
		{ { RLX_F32, 2, { 3, 100 } }, 16, 16, 8, true },
		{ { RLX_F32, 1, { 60 } }, 12, 20, 7, true },
		{ { RLX_F32, 1, { 50 } }, 0, 15, 5, false },
		{ { RLX_F32, 2, { 2, 9 } }, 10, 10, 1, false },
	};
	struct rlx_op_stft *a = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].x;
	if (c[i].window)
		s->in[1] = rlx_type(RLX_F32, c[i].window);
	s->tol = 2e-6;
	a->n_fft = c[i].n_fft;
	a->hop = c[i].hop;
	a->center = c[i].center;
	a->mode = i ? RLX_PAD_CONSTANT : RLX_PAD_REFLECT;
	a->norm = i == 1 ? RLX_FFT_ORTHO : RLX_FFT_BACKWARD;
	return true;
}

const struct rlx_op_impl rlx_op_stft_impl = {
	.infer = stft_infer, .expand = stft_expand,
};
RLX_SAMPLES(stft, stft_sample)
