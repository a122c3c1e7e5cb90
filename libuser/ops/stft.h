/* SPDX-License-Identifier: MIT */
/* What ops on frames of a signal share. */
#ifndef RLX_OPS_STFT_H
#define RLX_OPS_STFT_H

#include "ops/emit.h"

/* A float x, a window [at most n_fft] of dtype @dt as input 1, if any; 1 <= hop. */
static inline enum rlx_status op_stft_rule(struct rlx_infer *q, enum rlx_dtype dt, int64_t n_fft,
					   int64_t hop, int32_t norm)
{
	const struct rlx_type *w = q->n_in > 1 ? q->in[1] : NULL;
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_enum(q, "norm", norm, RLX_FFT_ORTHO + 1);
	if (st)
		return st;
	if (n_fft < 1 || n_fft > 1 << 30 || hop < 1)
		return op_fail(q, RLX_ERANGE, "frames of %lld by %lld: n_fft and hop must be 1 or "
			       "more", (long long)n_fft, (long long)hop);
	if (w && (w->rank != 1 || w->dim[0] < 1 || w->dim[0] > n_fft || w->dtype != dt))
		return op_fail(q, RLX_ESHAPE, "the window must be %s[1 .. %lld]",
			       rlx_dtype_name(dt), (long long)n_fft);
	return RLX_OK;
}

/* The window in the middle of @n_fft. */
static inline rlx_value op_stft_window(struct rlx_graph *g, rlx_value w, int64_t n_fft)
{
	struct rlx_type t = op_type(g, w);
	int64_t left = (n_fft - t.dim[0]) / 2;

	if (!w.id || t.dim[0] == n_fft)
		return w;
	return rlx_emit(g, pad, .x = w, .pads = RLX_INTS(left, n_fft - t.dim[0] - left));
}

/* @n values as a constant of dtype @dt */
static inline rlx_value op_constant_f64(struct rlx_graph *g, struct rlx_type t, const double *v,
					enum rlx_dtype dt)
{
	t.dtype = RLX_F64;
	return op_cast(g, rlx_constant(g, t, v), dt);
}

#endif
