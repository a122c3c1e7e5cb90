// SPDX-License-Identifier: MIT
/* Signal ops. Windows and filter banks are constants. */
#include <math.h>

#include "base/alloc.h"
#include "io/onnx/handlers.h"

#define PI	3.14159265358979323846
/* Elements of a constant. */
#define MAX_MATRIX	(8 << 20)

/* Values computed in double as a constant of @dt. */
static rlx_value constant_f64(struct onnx_op *q, struct rlx_type t,
			      const double *v, enum rlx_dtype dt)
{
	static const double none;
	rlx_value x;

	t.dtype = RLX_F64;
	x = rlx_constant(q->b->ctx->g, t, v ? v : &none);
	return dt == RLX_F64 ? x : E(q, cast, .x = x, .to = dt);
}

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N); the row's argument is a0..a2. */
enum rlx_status onnx_window(struct onnx_op *q)
{
	const double *a = q->row->arg;
	int64_t periodic = onnx_attr_i(q, "periodic", 1);
	int64_t to = onnx_attr_i(q, "output_datatype", ONNX_FLOAT), n, i;
	enum rlx_status st;
	double *v, len;

	st = onnx_int(q, 0, 0, &n);
	if (st)
		return st;
	if (n < 0 || n > MAX_MATRIX)
		return op_err(q, RLX_ERANGE, "a window of %lld", (long long)n);
	v = rlx_bump_new(&q->b->mem, (size_t)n, sizeof(*v));
	if (!v)
		return onnx_nomem(q->b);
	len = (double)(periodic ? n : n - 1);
	for (i = 0; i < n; i++)
		v[i] = len > 0 ? a[0] - a[1] * cos(2 * PI * (double)i / len) +
		       a[2] * cos(4 * PI * (double)i / len) : 1;
	onnx_out(q, 0, constant_f64(q, rlx_type(RLX_F64, n), v,
				    onnx_dtype_to_rlx(to)));
	return RLX_OK;
}

const double onnx_window_hann[] = { 0.5, 0.5, 0 };
const double onnx_window_hamming[] = { 25.0 / 46, 21.0 / 46, 0 };
const double onnx_window_blackman[] = { 0.42, 0.5, 0.08 };

static double mel(double hz)
{
	return 2595 * log10(1 + hz / 700);
}

enum rlx_status onnx_mel_weights(struct onnx_op *q)
{
	int64_t to = onnx_attr_i(q, "output_datatype", ONNX_FLOAT);
	int64_t bins, len, spec, i, k, bin[3];
	const double *p[5];
	double lo, hi, step, *v;
	enum rlx_status st;
	uint32_t n, m;

	for (m = 0; m < 5; m++) {
		st = onnx_floats(q, m, &p[m], &n);
		if (st)
			return st;
		if (n != 1)
			return op_err(q, RLX_ESHAPE, "input %u is no scalar",
				      m);
	}
	for (m = 0; m < 2; m++)
		if (!(p[m][0] >= 1 && p[m][0] <= MAX_MATRIX))
			return op_err(q, RLX_ERANGE, "input %u is %g", m,
				      p[m][0]);
	bins = (int64_t)p[0][0];
	len = (int64_t)p[1][0];
	spec = len / 2 + 1;
	if (!(p[2][0] > 0) || !(p[3][0] >= 0) || !(p[4][0] < 1e9) ||
	    !(p[3][0] < 1e9) || bins < 1 || len < 1 ||
	    bins > MAX_MATRIX / spec)
		return op_err(q, RLX_ERANGE, "%lld bins of %lld",
			      (long long)bins, (long long)len);
	v = rlx_bump_new(&q->b->mem, (size_t)(bins * spec), sizeof(*v));
	if (!v)
		return onnx_nomem(q->b);
	lo = mel(p[3][0]);
	hi = mel(p[4][0]);
	step = (hi - lo) / (double)(bins + 2);
	for (i = 0; i < bins; i++) {
		/* Left foot, peak and right foot as spectrum bins. */
		for (m = 0; m < 3; m++)
			bin[m] = (int64_t)fmin(1e9, floor((double)(len + 1) *
				700 * (pow(10, (lo + step * (double)(i + m)) /
				2595) - 1) / p[2][0]));
		for (k = bin[0]; k <= bin[1] && k < spec; k++)
			if (k >= 0)
				v[k * bins + i] = bin[1] == bin[0] ? 1 :
					(double)(k - bin[0]) /
					(double)(bin[1] - bin[0]);
		for (k = bin[1]; k < bin[2] && k < spec; k++)
			if (k >= 0 && bin[2] != bin[1])
				v[k * bins + i] = (double)(bin[2] - k) /
					(double)(bin[2] - bin[1]);
	}
	onnx_out(q, 0, constant_f64(q, rlx_type(RLX_F64, spec, bins), v,
				    onnx_dtype_to_rlx(to)));
	return RLX_OK;
}

/* x[.., 1 or 2] (real, imaginary) without the last dimension, or, of 1 made 2, with it. */
static rlx_value real_part(struct onnx_op *q, rlx_value x)
{
	struct rlx_type t = onnx_type(q, x);

	return onnx_reshape(q, x, t.rank - 1, t.dim);
}

static rlx_value as_complex(struct onnx_op *q, rlx_value x)
{
	struct rlx_type t = onnx_type(q, x);
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };

	if (!x.id || t.dim[t.rank - 1] == 2)
		return x;
	pads[2 * t.rank - 1] = 1;
	return E(q, pad, .x = x, .pads = { pads, 2 * t.rank });
}

/* The transform of x[.., 1 or 2] along @axis, its first half or all of it; [.., 2]. */
static rlx_value transform(struct onnx_op *q, rlx_value x, int64_t axis, int64_t len, bool inverse,
			   bool half)
{
	struct rlx_type t = onnx_type(q, x);

	if (!x.id)
		return x;
	if (half && !inverse && t.dim[t.rank - 1] == 1)
		return E(q, rfft, .x = real_part(q, x), .axes = RLX_INTS(axis),
			 .n = RLX_INTS(len));
	x = E(q, fft, .x = as_complex(q, x), .axes = RLX_INTS(axis), .n = RLX_INTS(len),
	      .inverse = inverse);
	return half ? onnx_cut(q, x, (uint32_t)axis, 0, len / 2 + 1) : x;
}

enum rlx_status onnx_dft(struct onnx_op *q)
{
	bool onesided = onnx_attr_i(q, "onesided", 0), inverse = onnx_attr_i(q, "inverse", 0), half;
	int64_t axis = q->opset < 20 ? onnx_attr_i(q, "axis", 1) : -2, len;
	enum rlx_status st;
	struct rlx_type t;
	rlx_value x;
	uint32_t a;

	st = onnx_int(q, 1, 0, &len);
	if (!st && q->opset >= 20)
		st = onnx_int(q, 2, -2, &axis);
	if (st)
		return st;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	st = onnx_axis(q, axis, t.rank, &a);
	if (st)
		return st;
	if (t.rank < 2 || a + 1 == t.rank)
		return op_err(q, RLX_ESHAPE, "axis %lld is the complex one",
			      (long long)axis);
	if (t.dim[t.rank - 1] != 1 && t.dim[t.rank - 1] != 2)
		return op_err(q, RLX_ESHAPE, "the last dimension is %lld: 1 is real, 2 complex",
			      (long long)t.dim[t.rank - 1]);
	half = inverse && onesided && t.dim[t.rank - 1] == 2;
	if (!len)
		len = half ? 2 * (t.dim[a] - 1) : t.dim[a];
	if (len < 1)
		return op_err(q, RLX_ERANGE, "a transform of length %lld", (long long)len);
	if (!half) {
		onnx_out(q, 0, transform(q, x, a, len, inverse, onesided));
		return RLX_OK;
	}
	/* half a spectrum gives a real signal */
	x = E(q, irfft, .x = x, .axes = RLX_INTS(a), .n = RLX_INTS(len));
	if (!x.id)
		return onnx_graph_status(q);
	t = onnx_type(q, x);
	t.dim[t.rank] = 1;
	onnx_out(q, 0, onnx_reshape(q, x, t.rank + 1, t.dim));
	return RLX_OK;
}

/* signal [B, L(, 1 or 2)], step, window, length -> [B, frames, bins, 2] */
enum rlx_status onnx_stft(struct onnx_op *q)
{
	bool onesided = onnx_attr_i(q, "onesided", 1);
	int64_t step, len;
	enum rlx_status st;
	struct rlx_type t;
	rlx_value x, w;

	st = onnx_int(q, 1, 0, &step);
	if (!st)
		st = onnx_int(q, 3, 0, &len);
	if (st)
		return st;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	if (t.rank == 2)
		x = E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[1],
							    1));
	t = onnx_type(q, x);
	w = onnx_in(q, 2);
	if (!len && w.id)
		len = onnx_type(q, w).dim[0];
	if (t.rank != 3 || step < 1 || len < 1 || len > t.dim[1])
		return op_err(q, RLX_ESHAPE, "frames of %lld by steps of %lld",
			      (long long)len, (long long)step);
	x = E(q, frame, .x = x, .axis = 1, .length = len, .hop = step);
	if (w.id)
		x = E(q, mul, .a = x, .b = E(q, reshape, .x = w,
					     .shape = RLX_INTS(len, 1)));
	if (!x.id)
		return onnx_graph_status(q);
	onnx_out(q, 0, transform(q, x, 2, len, false, onesided));
	return RLX_OK;
}
