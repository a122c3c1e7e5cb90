// SPDX-License-Identifier: MIT
/* Log-mel energies of spectra. */
#include "ops/stft.h"

/*
 * Shapes:	x[.., frames, bins, 2], filters[mels, bins] -> y[.., frames, mels]
 * Dtypes:	f64 f32 f16 bf16; filters and y as x
 * Does:	e = filters (re^2 + im^2), m = log10 max(e, floor), y = (max(m, top - range) + 4) /
 *		4, where top is the largest m of the frame with per_frame, else of all frames. floor
 *		0 or not given is 1e-10, range 8.
 * Gradient:	by those ops: to x and filters; what is clamped gives its part to the element that
 *		is top
 * Source:	openai/whisper, log_mel_spectrogram
 */
RLX_OP(log_mel, "log-mel energies of spectra, within a range below the largest",
	IN(x) IN(filters)
	ATTR_NZ(f64, floor, 1e-10)
	ATTR_NZ(f64, range, 8)
	ATTR(bool, per_frame),
	RLX_T_REDUCTION)

static enum rlx_status log_mel_infer(struct rlx_infer *q)
{
	const struct rlx_op_log_mel *a = q->args;
	const struct rlx_type *x = q->in[0], *f = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_rank(q, 0, 3, RLX_MAX_RANK);
	if (!st)
		st = op_need_rank(q, 1, 2, 2);
	if (!st)
		st = op_need_real(q, "floor", a->floor, 0);
	if (!st)
		st = op_need_real(q, "range", a->range, 0);
	if (st)
		return st;
	if (x->dim[x->rank - 1] != 2 || f->dim[1] != x->dim[x->rank - 2] || f->dtype != x->dtype)
		return op_fail(q, RLX_ESHAPE, "filters must be %s[mels, %lld], x [.., frames, "
			       "bins, 2]", rlx_dtype_name(x->dtype), (long long)x->dim[x->rank - 2]);
	q->out[0] = *x;
	q->out[0].dim[--q->out[0].rank] = 0;
	q->out[0].dim[x->rank - 2] = f->dim[0];
	return RLX_OK;
}

static enum rlx_status log_mel_expand(struct rlx_expand *q)
{
	const struct rlx_op_log_mel *a = q->args;
	struct rlx_type y = q->out_type[0];
	/* 16 bits would be rounded to at each step, and logarithms make much of little */
	const enum rlx_dtype dt = rlx_dtype_promote(y.dtype, RLX_F32);
	rlx_value x = op_cast(q->g, q->in[0], dt), filters = op_cast(q->g, q->in[1], dt), m, top;
	int64_t axes[] = { y.rank - 1, (int64_t)y.rank - 2 };

	if (!rlx_type_count(&y)) {
		q->out[0] = op_fill(q->g, &y, 0);
		return op_done(q->g);
	}
	m = rlx_emit(q->g, reduce, .x = rlx_emit(q->g, mul, .a = x, .b = x), .axes = RLX_INTS(-1));
	m = rlx_emit(q->g, matmul, .a = m, .b = op_swap_last(q->g, filters));
	m = rlx_emit(q->g, max, .a = m, .b = op_const_like(q->g, m, a->floor));
	/* log10 x = ln x / ln 10 */
	m = op_mul_const(q->g, rlx_emit(q->g, log, .x = m), 0.43429448190325182765);
	top = rlx_emit(q->g, reduce, .x = m, .axes = { axes, a->per_frame ? 1 : 2 },
		       .kind = RLX_REDUCE_MAX, .keep_dims = true);
	m = rlx_emit(q->g, max, .a = m, .b = op_add_const(q->g, top, -a->range));
	m = op_mul_const(q->g, op_add_const(q->g, m, 4), 0.25);
	q->out[0] = op_cast(q->g, m, y.dtype);
	return op_done(q->g);
}

static bool log_mel_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_log_mel *a = s->args;

	if (i > 2)
		return false;
	s->n_in = 2;
	s->in[0] = i ? rlx_type(RLX_F32, 2, 5, 9, 2) : rlx_type(RLX_F32, 7, 17, 2);
	s->in[1] = i ? rlx_type(RLX_F32, 4, 9) : rlx_type(RLX_F32, 6, 17);
	s->lo[0] = 0.5;
	s->hi[0] = 2;
	s->lo[1] = 0.1;
	s->hi[1] = 1;
	s->tol = 2e-6;
	a->per_frame = i == 1;
	a->range = i == 2 ? 0.05 : 0;
	return true;
}

const struct rlx_op_impl rlx_op_log_mel_impl = {
	.infer = log_mel_infer, .expand = log_mel_expand,
};
RLX_SAMPLES(log_mel, log_mel_sample)
