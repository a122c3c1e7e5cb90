// SPDX-License-Identifier: MIT
/* A signal of its short-time Fourier transform. */
#include "ops/stft.h"

/*
 * Shapes:	x[.., frames, n_fft / 2 + 1, 2], window[at most n_fft] -> y[.., n]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	the least-squares signal of stft's result: frames by irfft, times window, added
 *		where they overlap, divided by the sum of the squares of windows there. n is (frames
 *		- 1) hop + n_fft, with center less n_fft / 2 at either end; length, if it is given,
 *		cuts that or puts zeros behind it. What windows cover by less than 1e-11 (6e-8 in
 *		f16) is divided by that. norm as in stft.
 * Gradient:	by irfft, mul and overlap_add: to x and window
 * Source:	torch.istft; Griffin and Lim 1984
 */
RLX_OP(istft, "signal of the spectra of its frames",
	IN(x) OPT(window)
	REQ(i64, n_fft, "elements of a frame")
	REQ(i64, hop, "elements from a frame to the next")
	ATTR(bool, center)
	ATTR(i64, length)
	ATTR(i32, norm),
	RLX_T_REDUCTION)

static enum rlx_status istft_infer(struct rlx_infer *q)
{
	const struct rlx_op_istft *a = q->args;
	const struct rlx_type *x = q->in[0];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_stft_rule(q, x->dtype, a->n_fft, a->hop, a->norm);
	int64_t n;

	if (!st)
		st = op_need_rank(q, 0, 3, RLX_MAX_RANK);
	if (st)
		return st;
	if (x->dim[x->rank - 1] != 2 || x->dim[x->rank - 2] != a->n_fft / 2 + 1)
		return op_fail(q, RLX_ESHAPE, "x must be [.., frames, %lld, 2] for n_fft %lld",
			       (long long)(a->n_fft / 2 + 1), (long long)a->n_fft);
	n = x->dim[x->rank - 3];
	if (n < 1 || __builtin_mul_overflow(n - 1, a->hop, &n) ||
	    __builtin_add_overflow(n, a->n_fft, &n))
		return op_fail(q, RLX_ERANGE, "no frames, or more than can be counted");
	n -= a->center ? a->n_fft / 2 * 2 : 0;
	if (a->length < 0)
		return op_fail(q, RLX_ERANGE, "length is %lld", (long long)a->length);
	*y = *x;
	y->dim[--y->rank] = 0;
	y->dim[--y->rank] = 0;
	y->dim[y->rank - 1] = a->length ? a->length : n < 0 ? 0 : n;
	return RLX_OK;
}

static enum rlx_status istft_expand(struct rlx_expand *q)
{
	const struct rlx_op_istft *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), one = rlx_type(x.dtype, a->n_fft), t;
	int64_t pads[2 * RLX_MAX_RANK] = { 0 }, start = a->center ? a->n_fft / 2 : 0;
	rlx_value y = q->in[0], w, sum;
	uint32_t last, frame = x.rank - 3;
	int64_t n;

	if (!rlx_type_count(&x) || !rlx_type_count(&q->out_type[0])) {
		q->out[0] = op_fill(q->g, &q->out_type[0], 0);
		return op_done(q->g);
	}
	/* a frame that begins behind the last element wanted would only cost its memory */
	n = (start + q->out_type[0].dim[frame] - 1) / a->hop + 1;
	if (n < x.dim[frame]) {
		y = rlx_emit(q->g, slice, .x = y, .axes = RLX_INTS(frame),
			     .starts = RLX_INTS(0), .ends = RLX_INTS(n));
		x.dim[frame] = n;
	}
	w = q->in[1].id ? op_stft_window(q->g, q->in[1], a->n_fft) : op_fill(q->g, &one, 1);
	y = rlx_emit(q->g, irfft, .x = y, .n = RLX_INTS(a->n_fft), .norm = a->norm);
	y = rlx_emit(q->g, mul, .a = y, .b = w);
	y = rlx_emit(q->g, overlap_add, .x = y, .axis = (int32_t)frame, .hop = a->hop);
	sum = rlx_emit(q->g, expand, .x = rlx_emit(q->g, mul, .a = w, .b = w),
		       .shape = RLX_INTS(x.dim[frame], a->n_fft));
	sum = rlx_emit(q->g, overlap_add, .x = sum, .axis = 0, .hop = a->hop);
	sum = rlx_emit(q->g, max, .a = sum, .b = op_const_like(q->g, sum,
		       x.dtype == RLX_F16 ? 6e-8 : 1e-11));
	y = rlx_emit(q->g, div, .a = y, .b = sum);
	t = op_type(q->g, y);
	if (!y.id)
		return op_done(q->g);
	last = t.rank - 1;
	pads[last] = -start;
	pads[t.rank + last] = q->out_type[0].dim[last] - (t.dim[last] - start);
	q->out[0] = rlx_emit(q->g, pad, .x = y, .pads = { pads, 2 * t.rank });
	return op_done(q->g);
}

static bool istft_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct {
		struct rlx_type x;
		int64_t window, n_fft, hop, length;
		bool center;
	} c[] = {
		{ { RLX_F32, 4, { 2, 7, 9, 2 } }, 16, 16, 8, 0, true },
		{ { RLX_F32, 3, { 5, 8, 2 } }, 11, 15, 4, 70, false },
		{ { RLX_F32, 3, { 4, 4, 2 } }, 0, 6, 6, 9, true },
	};
	struct rlx_op_istft *a = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].x;
	if (c[i].window)
		s->in[1] = rlx_type(RLX_F32, c[i].window);
	s->lo[1] = 0.5;
	s->hi[1] = 1.5;
	s->tol = 4e-6;
	a->n_fft = c[i].n_fft;
	a->hop = c[i].hop;
	a->length = c[i].length;
	a->center = c[i].center;
	return true;
}

const struct rlx_op_impl rlx_op_istft_impl = {
	.infer = istft_infer, .expand = istft_expand,
};
RLX_SAMPLES(istft, istft_sample)
