// SPDX-License-Identifier: MIT
/* Fourier transforms: which, their types, and their evaluation in double. */
#include <stdlib.h>

#include "ops/fft.h"

/* Longer ones would want tables of more than 16 GiB. */
static const int64_t LONGEST = (int64_t)1 << 30;

/* By eighths of a turn, so that no angle is beyond pi / 4. */
void rlx_fft_root(int64_t k, int64_t n, double *re, double *im)
{
	int64_t eighth = 8 * k / n, rest = 8 * k - eighth * n;
	bool odd = eighth % 2;
	double a = (double)(odd ? n - rest : rest) / (double)n * 0.78539816339744830962;
	double c = odd ? sin(a) : cos(a), s = odd ? cos(a) : sin(a), t;

	for (eighth /= 2; eighth > 0; eighth--) {
		t = c;
		c = -s;
		s = t;
	}
	*re = c;
	*im = s;
}

struct dft {
	const double	*root;		/* cos, sin of 2 pi k / all */
	double		*tmp;		/* of the largest prime factor */
	int64_t		all;
	double		sign;
};

static void term(const struct dft *d, const double *x, int64_t turn, double *re, double *im)
{
	double c = d->root[2 * turn], s = d->sign * d->root[2 * turn + 1];

	*re += x[0] * c - x[1] * s;
	*im += x[0] * s + x[1] * c;
}

/* y[0 .. n) of x[0], x[stride] ...: of r of length m each, where n = r m */
static void by_factors(const struct dft *d, const double *x, int64_t stride, double *y, int64_t n)
{
	int64_t r = 2, m, i, j, k, unit = d->all / n;

	while (n % r && r * r <= n)
		r++;
	r = n % r || n == 1 ? n : r;
	m = n / r;
	if (n == 1) {
		memcpy(y, x, 2 * sizeof(*y));
		return;
	}
	for (i = 0; i < r; i++)
		by_factors(d, x + 2 * i * stride, stride * r, y + 2 * i * m, m);
	for (k = 0; k < m; k++) {
		for (j = 0; j < r; j++) {
			double re = 0, im = 0;

			for (i = 0; i < r; i++)
				term(d, y + 2 * (i * m + k), (int64_t)((__int128)i *
				     (k + j * m) % n) * unit, &re, &im);
			d->tmp[2 * j] = re;
			d->tmp[2 * j + 1] = im;
		}
		for (j = 0; j < r; j++)
			memcpy(y + 2 * (k + j * m), d->tmp + 2 * j, 2 * sizeof(*y));
	}
}

void rlx_fft_dft(double *x, int64_t n, bool inverse, double *work)
{
	double *root = work, *y = work + 2 * n;
	struct dft d = { root, work + 4 * n, n, inverse ? 1 : -1 };
	int64_t k;

	for (k = 0; k < n; k++)
		rlx_fft_root(k, n, &root[2 * k], &root[2 * k + 1]);
	by_factors(&d, x, 1, y, n);
	memcpy(x, y, (size_t)n * 2 * sizeof(*x));
}

struct op_fft_args op_fft_args(const struct rlx_op_def *def, const void *args)
{
	const struct rlx_op_fft *f = args;
	const struct rlx_op_rfft *r = args;
	const struct rlx_op_irfft *i = args;

	if (def->index == RLX_OP_fft)
		return (struct op_fft_args){ f->axes, f->n, f->norm, f->inverse, OP_FFT };
	if (def->index == RLX_OP_rfft)
		return (struct op_fft_args){ r->axes, r->n, r->norm, false, OP_RFFT };
	return (struct op_fft_args){ i->axes, i->n, i->norm, true, OP_IRFFT };
}

static enum rlx_status add_axis(struct rlx_infer *q, const struct op_fft_args *a, uint32_t k,
				struct op_fft *f)
{
	bool last = k + 1 == (a->axes.n ? a->axes.n : 1), half = a->kind != OP_FFT && last;
	/* the real one is the first of rfft, the last of irfft */
	uint32_t at = a->kind == OP_RFFT ? (last ? 0 : k + 1) : k, ax, i;
	int64_t n = a->n.n ? a->n.v[k] : 0, d;
	enum rlx_status st;

	st = op_infer_axis(q, a->axes.n ? a->axes.v[k] : -1, f->rank, &ax);
	if (st)
		return st;
	for (i = 0; i < k; i++)
		if (shape_axis(a->axes.v[i], f->rank) == ax)
			return op_fail(q, RLX_EINVAL, "axis %u is there twice", ax);
	d = f->in[ax];
	if (!n)
		n = half && a->kind == OP_IRFFT ? 2 * (d - 1) : d;
	if (n < 1 || n > LONGEST)
		return op_fail(q, RLX_ERANGE, "a transform of length %lld along axis %u; 1 to %lld "
			       "are possible", (long long)n, ax, (long long)LONGEST);
	f->axis[at] = ax;
	f->n[at] = n;
	f->out[at] = half && a->kind == OP_RFFT ? n / 2 + 1 : n;
	if (a->norm == RLX_FFT_ORTHO)
		f->scale /= sqrt((double)n);
	else if ((a->norm == RLX_FFT_FORWARD) != f->inverse)
		f->scale /= (double)n;
	return RLX_OK;
}

enum rlx_status rlx_fft_axes(struct rlx_infer *q, struct op_fft *f)
{
	struct op_fft_args a = op_fft_args(q->def, q->args);
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_enum(q, "norm", a.norm, RLX_FFT_ORTHO + 1);
	uint32_t k;

	*f = (struct op_fft){ .scale = 1, .inverse = a.inverse, .real_in = a.kind == OP_RFFT,
			      .real_out = a.kind == OP_IRFFT };
	if (!st && (x->dtype != RLX_C64 || a.kind == OP_RFFT))
		st = op_need_float(q, 0, false);
	if (st)
		return st;
	f->rank = x->rank;
	if (x->dtype != RLX_C64 && a.kind != OP_RFFT) {
		if (!x->rank || x->dim[x->rank - 1] != 2)
			return op_fail(q, RLX_ESHAPE, "x is no c64, so its last dimension must be "
				       "2: real and imaginary part");
		f->rank--;
	}
	memcpy(f->in, x->dim, sizeof(f->in));
	if (a.n.n && a.n.n != (a.axes.n ? a.axes.n : 1))
		return op_fail(q, RLX_EINVAL, "%u lengths for %u axes", a.n.n,
			       a.axes.n ? a.axes.n : 1);
	if (a.axes.n > f->rank)
		return op_fail(q, RLX_EINVAL, "%u axes of a tensor of rank %u", a.axes.n, f->rank);
	f->n_axis = a.axes.n ? a.axes.n : 1;
	for (k = 0; k < f->n_axis && !st; k++)
		st = add_axis(q, &a, k, f);
	return st;
}

enum rlx_status op_fft_infer(struct rlx_infer *q)
{
	const struct rlx_op_rfft *r = q->args;
	bool joined = q->in[0]->dtype == RLX_C64;
	struct rlx_type *y = &q->out[0];
	struct op_fft f;
	enum rlx_status st = rlx_fft_axes(q, &f);
	uint32_t k;

	if (st)
		return st;
	if (f.real_in && r->joined && q->in[0]->dtype != RLX_F32)
		return op_fail(q, RLX_ETYPE, "c64 is of f32, x is %s; leave joined out",
			       rlx_dtype_name(q->in[0]->dtype));
	if (f.real_in)
		joined = r->joined;
	y->dtype = joined && !f.real_out ? RLX_C64 :
		   q->in[0]->dtype == RLX_C64 ? RLX_F32 : q->in[0]->dtype;
	y->rank = f.rank + (!joined && !f.real_out);
	if (y->rank > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "no dimension is left for real and imaginary part");
	memcpy(y->dim, f.in, f.rank * sizeof(y->dim[0]));
	for (k = 0; k < f.n_axis; k++)
		y->dim[f.axis[k]] = f.out[k];
	if (y->rank > f.rank)
		y->dim[f.rank] = 2;
	return RLX_OK;
}

/* The largest number of elements between steps, and the longest line. */
static int64_t most_elements(const struct op_fft *f, int64_t *out_line)
{
	int64_t dim[RLX_MAX_RANK], most = 1, line = 1, n;
	uint32_t k, i;

	memcpy(dim, f->in, sizeof(dim));
	for (k = 0; k <= f->n_axis; k++) {
		for (n = 1, i = 0; i < f->rank; i++)
			if (__builtin_mul_overflow(n, dim[i], &n))
				return INT64_MAX;
		most = n > most ? n : most;
		if (k == f->n_axis)
			break;
		dim[f->axis[k]] = f->out[k];
		line = f->n[k] > line ? f->n[k] : line;
		line = f->in[f->axis[k]] > line ? f->in[f->axis[k]] : line;
	}
	*out_line = line;
	return most;
}

size_t op_fft_scratch(const struct rlx_infer *q)
{
	struct rlx_infer again = *q;
	struct rlx_error err = { 0 };
	struct op_fft f;
	int64_t line = 1, most;

	again.err = &err;
	if (rlx_fft_axes(&again, &f))
		return 0;
	most = most_elements(&f, &line);
	if (most > (int64_t)1 << 55)
		return SIZE_MAX;
	return ((size_t)most * 2 + (size_t)line * 8) * 2 * sizeof(double);
}

/* Element @i as re, im; c64 has two floats, others two elements or one. */
static void read_all(const struct rlx_tensor *t, bool real, double *x)
{
	int64_t n = rlx_type_count(&t->type), i;

	for (i = 0; i < n; i++)
		if (t->type.dtype == RLX_C64) {
			x[2 * i] = ((const float *)t->data)[2 * i];
			x[2 * i + 1] = ((const float *)t->data)[2 * i + 1];
		} else if (real) {
			x[2 * i] = el_get(t, i);
			x[2 * i + 1] = 0;
		} else {
			x[i] = el_get(t, i);
		}
}

static void write_all(const struct rlx_tensor *t, bool real, double scale, const double *y)
{
	int64_t n = rlx_type_count(&t->type), i;

	for (i = 0; i < n; i++)
		if (t->type.dtype == RLX_C64) {
			((float *)t->data)[2 * i] = (float)(scale * y[2 * i]);
			((float *)t->data)[2 * i + 1] = (float)(scale * y[2 * i + 1]);
		} else {
			el_set(t, i, scale * y[real ? 2 * i : i]);
		}
}

/* A line of @d elements fitted to @n; half a spectrum's other half is its conjugate. */
static void fit(const double *x, int64_t stride, int64_t d, double *line, int64_t n, bool half)
{
	int64_t have = half ? n / 2 + 1 : n, k;

	have = d < have ? d : have;
	memset(line, 0, (size_t)n * 2 * sizeof(*line));
	for (k = 0; k < have; k++) {
		line[2 * k] = x[2 * k * stride];
		line[2 * k + 1] = half && (!k || 2 * k == n) ? 0 : x[2 * k * stride + 1];
	}
	for (k = 1; half && 2 * k < n; k++) {
		line[2 * (n - k)] = line[2 * k];
		line[2 * (n - k) + 1] = -line[2 * k + 1];
	}
}

/* Step @k from @x, of dimensions @dim, to @y. */
static void one_axis(const struct op_fft *f, uint32_t k, const int64_t *dim, const double *x,
		     double *y, double *work)
{
	uint32_t ax = f->axis[k], i;
	int64_t pre = 1, post = 1, d = dim[ax], n = f->n[k], line, j;
	bool half = f->real_out && k + 1 == f->n_axis;
	double *one = work, *rest = work + 2 * n;

	for (i = 0; i < f->rank; i++) {
		pre *= i < ax ? dim[i] : 1;
		post *= i > ax ? dim[i] : 1;
	}
	for (line = 0; line < pre * post; line++) {
		int64_t o = line / post, in = line % post;
		double *to = y + 2 * (o * f->out[k] * post + in);

		fit(x + 2 * (o * d * post + in), post, d, one, n, half);
		rlx_fft_dft(one, n, f->inverse, rest);
		for (j = 0; j < f->out[k]; j++)
			memcpy(to + 2 * j * post, one + 2 * j, 2 * sizeof(*to));
	}
}

enum rlx_status op_fft_eval(struct rlx_eval *q)
{
	const struct rlx_type *type = &q->in[0].type;
	struct rlx_infer again = { .err = q->err, .def = q->def, .args = q->args, .n_in = 1,
				   .in = &type };
	struct op_fft f;
	enum rlx_status st = rlx_fft_axes(&again, &f);
	double *x = q->scratch, *y, *t;
	int64_t line, most;
	uint32_t k;

	if (st)
		return st;
	most = most_elements(&f, &line);
	y = x + 2 * most;
	read_all(&q->in[0], f.real_in, x);
	for (k = 0; k < f.n_axis; k++) {
		one_axis(&f, k, f.in, x, y, q->scratch ? (double *)q->scratch + 4 * most : NULL);
		f.in[f.axis[k]] = f.out[k];
		t = x;
		x = y;
		y = t;
	}
	write_all(&q->out[0], f.real_out, f.scale, x);
	return RLX_OK;
}

void op_fft_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	struct rlx_infer again = *q;
	struct rlx_error err = { 0 };
	struct op_fft f;
	uint32_t k, i;
	double n;

	again.err = &err;
	if (rlx_fft_axes(&again, &f))
		return;
	for (k = 0; k < f.n_axis; k++) {
		for (n = 1, i = 0; i < f.rank; i++)
			n *= (double)(i == f.axis[k] ? f.n[k] : f.in[i]);
		c->flops += 5 * n * log2((double)f.n[k] + 1);
		f.in[f.axis[k]] = f.out[k];
	}
}

enum rlx_status op_fft_of(struct rlx_grad *q, struct op_fft *out)
{
	struct rlx_type type = op_type(q->g, q->in[0]);
	const struct rlx_type *t = &type;
	struct rlx_error err = { 0 };
	struct rlx_infer again = { .err = &err, .def = q->def, .args = q->args, .n_in = 1,
				   .in = &t };

	return rlx_fft_axes(&again, out);
}

int32_t op_fft_norm_back(int32_t norm)
{
	return norm == RLX_FFT_BACKWARD ? RLX_FFT_FORWARD :
	       norm == RLX_FFT_FORWARD ? RLX_FFT_BACKWARD : norm;
}

rlx_value op_fft_fit(struct rlx_graph *g, rlx_value x, uint32_t axis, int64_t n)
{
	struct rlx_type t = op_type(g, x);
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };

	if (!x.id || t.dim[axis] == n)
		return x;
	pads[t.rank + axis] = n - t.dim[axis];
	return rlx_emit(g, pad, .x = x, .pads = { pads, 2 * t.rank });
}

rlx_value op_fft_weigh(struct rlx_graph *g, rlx_value x, uint32_t axis, int64_t n, double inner)
{
	struct rlx_type t = op_type(g, x), w = { RLX_I64, 0, { 0 } };
	rlx_value k, edge;

	if (!x.id)
		return x;
	if (t.dtype == RLX_C64) {	/* as pairs, of which there is room for a dimension */
		x = rlx_emit(g, view_as_real, .x = op_fold3(g, x, axis));
		x = rlx_emit(g, view_as_complex, .x = op_fft_weigh(g, x, 1, n, inner));
		return op_reshape(g, x, t.dim, t.rank);
	}
	/* 1 + (inner - 1) where 0 < k < n / 2, by numbers: no table of the length */
	w.rank = t.rank - axis;
	for (uint32_t i = 0; i < w.rank; i++)
		w.dim[i] = i ? 1 : t.dim[axis];
	k = rlx_emit(g, iota, .type = w, .axis = 0);
	edge = rlx_emit(g, min, .a = k, .b = rlx_emit(g, sub, .a =
			rlx_scalar_const(g, RLX_I64, (double)n), .b = rlx_emit(g, mul, .a = k, .b =
			rlx_scalar_const(g, RLX_I64, 2))));
	edge = rlx_emit(g, gt, .a = edge, .b = rlx_scalar_const(g, RLX_I64, 0));
	return rlx_emit(g, mul, .a = x, .b = rlx_emit(g, where, .cond = edge,
			.a = op_const_like(g, x, inner), .b = op_const_like(g, x, 1)));
}

bool op_fft_sample(unsigned int i, struct rlx_sample *s, enum op_fft_kind kind,
		   struct rlx_ints *axes, struct rlx_ints *n, int32_t *norm)
{
	static const struct {
		struct rlx_type	x;		/* of elements */
		uint32_t	n_axes, n_n;
		int64_t		axes[3], n[2];
		int32_t		norm;
		bool		joined;
	} c[] = {
		{ .x = { RLX_F32, 2, { 3, 8 } } },
		{ .x = { RLX_F32, 2, { 5, 60 } }, .norm = RLX_FFT_ORTHO, .joined = true },
		{ .x = { RLX_F32, 3, { 2, 7, 20 } }, 1, 0, { 1 }, .norm = RLX_FFT_FORWARD },
		{ .x = { RLX_F32, 1, { 134 } } },
		{ .x = { RLX_F32, 2, { 19, 67 } } },
		{ .x = { RLX_F32, 2, { 40, 11 } }, 1, 1, { -1 }, { 16 } },
		{ .x = { RLX_F32, 3, { 5, 4, 9 } }, 2, 2, { 0, -1 }, { 3, 12 }, RLX_FFT_ORTHO },
		{ .x = { RLX_F32, 3, { 6, 5, 4 } }, 3, 0, { 2, 0, 1 } },
		{ .x = { RLX_F32, 1, { 1 } }, 0, 1, { 0 }, { 1 } },
		{ .x = { RLX_F32, 1, { 600 } }, .joined = true },
		{ .x = { RLX_F32, 2, { 0, 6 } } },
		{ .x = { RLX_F32, 2, { 3, 1 } }, 0, 1, { 0 }, { 5 } },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	if (kind != OP_RFFT && c[i].joined) {
		s->in[0].dtype = RLX_C64;
	} else if (kind != OP_RFFT) {
		s->in[0].dim[s->in[0].rank++] = 2;
	}
	*axes = op_keep(s, (struct rlx_ints){ c[i].axes, c[i].n_axes });
	*n = op_keep(s, (struct rlx_ints){ c[i].n, c[i].n_n });
	*norm = c[i].norm;
	s->tol = 1e-6;
	return true;
}
