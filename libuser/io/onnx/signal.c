// SPDX-License-Identifier: MIT
/*
 * Signal ops. Windows and filter banks are constants; Fourier transforms are
 * products with a matrix of cosines and sines, exact for the sizes allowed.
 */
#include <math.h>

#include "base/alloc.h"
#include "io/onnx/handlers.h"

#define PI	3.14159265358979323846
/* Elements of a transform's matrix; past this a real FFT is wanted. */
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

struct dft {
	int64_t	len;		/* of the transform */
	int64_t	out;		/* bins kept */
	bool	inverse;
};

/* [n, out] of cos or sin of 2 pi n k / len, the angle reduced exactly. */
static rlx_value waves(struct onnx_op *q, const struct dft *d, int64_t n,
		       bool sine, enum rlx_dtype dt)
{
	double gain = d->inverse ? (sine ? -1 : 1) / (double)d->len : 1;
	double *v = rlx_bump_new(&q->b->mem, (size_t)(n * d->out),
				 sizeof(*v));
	int64_t i, j, k = d->out;

	if (!v) {
		onnx_nomem(q->b);
		return RLX_NONE;
	}
	for (i = 0; i < n; i++)
		for (j = 0; j < k; j++) {
			double a = 2 * PI * (double)(i * j % d->len) /
				   (double)d->len;

			v[i * k + j] = gain * (sine ? sin(a) : cos(a));
		}
	return constant_f64(q, rlx_type(RLX_F64, n, k), v, dt);
}

/* x: [.., n, 1 or 2] (real, imaginary) -> [.., out, 2]; n <= len. */
static rlx_value dft_last(struct onnx_op *q, rlx_value x, const struct dft *d)
{
	struct rlx_type t = onnx_type(q, x);
	uint32_t r = t.rank - 2;
	int64_t n = t.dim[r];
	rlx_value c, s, re, im, yr, yi;
	int64_t dim[RLX_MAX_RANK];
	uint32_t i;

	c = waves(q, d, n, false, t.dtype);
	s = waves(q, d, n, true, t.dtype);
	for (i = 0; i < r; i++)
		dim[i] = t.dim[i];
	dim[r] = n;
	re = onnx_reshape(q, onnx_cut(q, x, r + 1, 0, 1), r + 1, dim);
	yr = onnx_matmul_of(q, re, c);
	yi = E(q, neg, .x = onnx_matmul_of(q, re, s));
	if (t.dim[r + 1] == 2) {
		im = onnx_reshape(q, onnx_cut(q, x, r + 1, 1, 2), r + 1, dim);
		yr = E(q, add, .a = yr, .b = onnx_matmul_of(q, im, s));
		yi = E(q, add, .a = yi, .b = onnx_matmul_of(q, im, c));
	}
	dim[r] = d->out;
	dim[r + 1] = 1;
	yr = onnx_reshape(q, yr, r + 2, dim);
	yi = onnx_reshape(q, yi, r + 2, dim);
	return E(q, concat, .axis = -1, .xs = RLX_VALUES(yr, yi));
}

/*
 * The real signal of half a spectrum, [.., bins, 2] -> [.., len, 1]: all bins
 * but the first and, for even lengths, the middle one stand for two.
 */
static rlx_value dft_half(struct onnx_op *q, rlx_value x, const struct dft *d)
{
	struct rlx_type t = onnx_type(q, x);
	uint32_t r = t.rank - 2;
	int64_t bins = t.dim[r], dim[RLX_MAX_RANK], k;
	double *two = rlx_bump_new(&q->b->mem, (size_t)bins, sizeof(*two));
	struct dft inv = { d->len, d->len, true };
	rlx_value c, s, w, re, im;
	uint32_t i;

	if (!two) {
		onnx_nomem(q->b);
		return RLX_NONE;
	}
	for (k = 0; k < bins; k++)
		two[k] = 2 * k > d->len ? 0 : !k || 2 * k == d->len ? 1 : 2;
	w = constant_f64(q, rlx_type(RLX_F64, bins), two, t.dtype);
	c = waves(q, &inv, bins, false, t.dtype);
	s = waves(q, &inv, bins, true, t.dtype);
	for (i = 0; i <= r; i++)
		dim[i] = t.dim[i];
	re = onnx_reshape(q, onnx_cut(q, x, r + 1, 0, 1), r + 1, dim);
	im = onnx_reshape(q, onnx_cut(q, x, r + 1, 1, 2), r + 1, dim);
	re = onnx_matmul_of(q, E(q, mul, .a = re, .b = w), c);
	im = onnx_matmul_of(q, E(q, mul, .a = im, .b = w), s);
	dim[r] = d->len;
	dim[r + 1] = 1;
	/* waves() has the sine negated for the inverse. */
	return onnx_reshape(q, E(q, add, .a = re, .b = im), r + 2, dim);
}

/* Exchange @axis with the last but one. */
static rlx_value to_back(struct onnx_op *q, rlx_value x, uint32_t axis)
{
	struct rlx_type t = onnx_type(q, x);
	int64_t perm[RLX_MAX_RANK];
	uint32_t i;

	if (!x.id || axis == t.rank - 2)
		return x;
	for (i = 0; i < t.rank; i++)
		perm[i] = i;
	perm[axis] = t.rank - 2;
	perm[t.rank - 2] = axis;
	return E(q, transpose, .x = x, .perm = { perm, t.rank });
}

enum rlx_status onnx_dft(struct onnx_op *q)
{
	struct dft d = { .inverse = onnx_attr_i(q, "inverse", 0) };
	bool onesided = onnx_attr_i(q, "onesided", 0), half;
	int64_t axis = q->opset < 20 ? onnx_attr_i(q, "axis", 1) : -2, n;
	enum rlx_status st;
	struct rlx_type t;
	rlx_value x;
	uint32_t a;

	st = onnx_int(q, 1, 0, &d.len);
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
	n = t.dim[a];
	half = d.inverse && onesided && t.dim[t.rank - 1] == 2;
	if (!d.len)
		d.len = half ? 2 * (n - 1) : n;
	d.out = onesided ? d.len / 2 + 1 : d.len;
	if (d.len < 1 || d.out > MAX_MATRIX / d.len)
		return op_err(q, RLX_ENOSUP, "a transform of length %lld",
			      (long long)d.len);
	if (n > d.len)
		x = onnx_cut(q, x, a, 0, d.len);
	x = to_back(q, x, a);
	if (!x.id)
		return onnx_graph_status(q);
	x = half ? dft_half(q, x, &d) : dft_last(q, x, &d);
	onnx_out(q, 0, to_back(q, x, a));
	return RLX_OK;
}

/* signal [B, L(, 1 or 2)], step, window, length -> [B, frames, bins, 2] */
enum rlx_status onnx_stft(struct onnx_op *q)
{
	struct dft d = { .inverse = false };
	bool onesided = onnx_attr_i(q, "onesided", 1);
	int64_t step, frames, *idx, i, k, len;
	enum rlx_status st;
	struct rlx_type t;
	rlx_value x, w;

	st = onnx_int(q, 1, 0, &step);
	if (!st)
		st = onnx_int(q, 3, 0, &d.len);
	if (st)
		return st;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	if (t.rank == 2)
		x = E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[1],
							    1));
	t = onnx_type(q, x);
	w = onnx_in(q, 2);
	if (!d.len && w.id)
		d.len = onnx_type(q, w).dim[0];
	len = d.len;
	d.out = onesided ? len / 2 + 1 : len;
	if (t.rank != 3 || step < 1 || len < 1 || len > t.dim[1] ||
	    d.out > MAX_MATRIX / len)
		return op_err(q, RLX_ESHAPE, "frames of %lld by steps of %lld",
			      (long long)len, (long long)step);
	frames = (t.dim[1] - len) / step + 1;
	if (frames > MAX_MATRIX / len)
		return op_err(q, RLX_ENOSUP, "%lld frames", (long long)frames);
	idx = rlx_bump_new(&q->b->mem, (size_t)(frames * len),
			   sizeof(*idx));
	if (!idx)
		return onnx_nomem(q->b);
	for (i = 0; i < frames; i++)
		for (k = 0; k < len; k++)
			idx[i * len + k] = i * step + k;
	x = E(q, gather, .x = x, .axis = 1, .indices =
	      rlx_constant(q->b->ctx->g, rlx_type(RLX_I64, frames, len), idx));
	if (w.id)
		x = E(q, mul, .a = x, .b = E(q, reshape, .x = w,
					     .shape = RLX_INTS(len, 1)));
	if (!x.id)
		return onnx_graph_status(q);
	onnx_out(q, 0, dft_last(q, x, &d));
	return RLX_OK;
}
