// SPDX-License-Identifier: MIT
/* Sampling an image at given places. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, in..], grid[n, out.., nd] -> y[n, c, out..]; nd is 1 to 3 spatial
 *		dimensions
 * Dtypes:	x, grid: f64 f32 f16 bf16; y as x
 * Does:	reads x where the grid says, coordinates from -1 to 1, those of the innermost
 *		dimension first; these are the outer edges of the first and last element, with
 *		align_corners their middles. mode RLX_RESIZE_NEAREST (if not given, ties to even),
 *		LINEAR, or CUBIC with -0.75. What lies outside is, by padding, RLX_GRID_ZEROS (if
 *		not given) 0, BORDER the nearest element, REFLECTION the image mirrored at those
 *		edges. A NaN coordinate reads 0. CUBIC with BORDER moves each tap by itself, as
 *		ONNX Runtime and PyTorch do and ONNX's words allow: the border's values for pixels
 *		outside. Its reference evaluator moves the place before it takes the taps, once it
 *		is outside the edge, where the values then jump.
 * Errors:	RLX_ESHAPE if a spatial dimension of x is empty and the grid is not.
 * Gradient:	to x by the weights of what was read, to grid by their slopes: none of the nearest,
 *		nor where a coordinate is held at the border
 * Source:	ONNX GridSample-20; Jaderberg et al. 2015
 */
RLX_OP(grid_sample, "x[n, c, ..] read at grid[n, .., nd], from -1 to 1, innermost axis first",
	IN(x) IN(grid)
	ATTR(i32, mode)
	ATTR(i32, padding)
	ATTR(bool, align_corners),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status grid_sample_infer(struct rlx_infer *q)
{
	const struct rlx_op_grid_sample *a = q->args;
	const struct rlx_type *x = q->in[0], *g = q->in[1];
	enum rlx_status st = op_need_enum(q, "mode", a->mode, RLX_RESIZE_CUBIC + 1);
	uint32_t nd, i;

	st = st ? st : op_need_enum(q, "padding", a->padding, RLX_GRID_REFLECTION + 1);
	st = st ? st : op_need_float(q, 0, false);
	st = st ? st : op_need_float(q, 1, false);
	st = st ? st : op_need_rank(q, 0, 3, 5);
	st = st ? st : op_need_rank(q, 1, x->rank, x->rank);
	if (st)
		return st;
	nd = x->rank - 2;
	if (g->dim[0] != x->dim[0] || g->dim[nd + 1] != nd)
		return op_fail(q, RLX_ESHAPE, "the grid must be [%lld, .., %u]",
			       (long long)x->dim[0], nd);
	q->out[0] = *x;
	for (i = 0; i < nd; i++) {
		q->out[0].dim[2 + i] = g->dim[1 + i];
		if (!x->dim[2 + i] && rlx_type_count(g))
			return op_fail(q, RLX_ESHAPE, "spatial dimension %u is empty", i);
	}
	return RLX_OK;
}

static double reflect(double v, double lo, double hi)
{
	double range = hi - lo, over, n, r;
	bool below = v < lo;

	if (range <= 0)
		return lo;
	if (v >= lo && v <= hi)
		return v;
	over = below ? lo - v : v - hi;
	n = floor(over / range);
	r = over - n * range;
	if (fmod(n, 2) == 0)
		return below ? lo + r : hi - r;
	return below ? hi - r : lo + r;
}

/* One axis of one sample: its taps and their positions, -1 where there is nothing. */
struct taps {
	int	n;
	double	w[4];
	int64_t	at[4];
};

static int64_t fetch_at(const struct rlx_op_grid_sample *a, double p, int64_t n)
{
	double lo = a->align_corners ? 0 : -0.5;

	if (p >= 0 && p <= (double)(n - 1))
		return (int64_t)p;
	if (a->padding == RLX_GRID_ZEROS || isnan(p))
		return -1;
	if (a->padding == RLX_GRID_REFLECTION)
		p = reflect(p, lo, (double)(n - 1) - lo);
	return p > 0 ? p > (double)(n - 1) ? n - 1 : (int64_t)p : 0;
}

static double cubic(double d)
{
	const double k = -0.75;

	d = fabs(d);
	return d <= 1 ? ((k + 2) * d - (k + 3)) * d * d + 1 :
	       d < 2 ? ((k * d - 5 * k) * d + 8 * k) * d - 4 * k : 0;
}

static void taps_of(const struct rlx_op_grid_sample *a, double v, int64_t n,
		    struct taps *t)
{
	double lo = a->align_corners ? 0 : -0.5, hi = (double)(n - 1) - lo, p, base;
	double beyond = a->mode == RLX_RESIZE_CUBIC ? 2 : 0;
	int i;

	p = a->align_corners ? (v + 1) / 2 * (double)(n - 1) :
	    ((v + 1) * (double)n - 1) / 2;
	if (a->mode == RLX_RESIZE_NEAREST)
		p = rint(p);
	if (p < lo || p > hi) {
		if (a->padding == RLX_GRID_BORDER)	/* to where all taps read one element */
			p = p < 0 ? fmax(p, -beyond) : fmin(p, (double)(n - 1) + beyond);
		else if (a->padding == RLX_GRID_REFLECTION)
			p = reflect(p, lo, hi);
	}
	t->n = a->mode == RLX_RESIZE_NEAREST ? 1 : a->mode == RLX_RESIZE_LINEAR ? 2 : 4;
	base = floor(p) - (t->n == 4);
	for (i = 0; i < t->n; i++) {
		t->w[i] = t->n == 1 ? 1 : t->n == 2 ? (i ? p - base : 1 - (p - base)) :
			  cubic(p - base - i);
		t->at[i] = fetch_at(a, t->n == 1 ? p : base + i, n);
	}
}

/* Weighted sum over the taps of all axes, of one channel at @base. */
static double weigh(const struct rlx_tensor *x, int64_t base, const struct taps *t,
		    uint32_t nd)
{
	int total = 1, i, k;
	double sum = 0, w;
	int64_t off;
	uint32_t d;

	for (d = 0; d < nd; d++)
		total *= t[d].n;
	for (i = 0; i < total; i++) {
		off = 0;
		w = 1;
		for (k = i, d = 0; d < nd; d++) {
			int j = k % t[d].n;

			k /= t[d].n;
			if (t[d].at[j] < 0)
				break;
			w *= t[d].w[j];
			off = off * x->type.dim[2 + d] + t[d].at[j];
		}
		if (d == nd)
			sum += w * el_get(x, base + off);
	}
	return sum;
}

static enum rlx_status grid_sample_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0], *g = &q->in[1];
	const struct rlx_type *y = &q->out[0].type;
	uint32_t nd = x->type.rank - 2, d;
	int64_t c = x->type.dim[1], in = shape_span(&x->type, 2, x->type.rank);
	int64_t out = shape_span(y, 2, y->rank), n, i, k;
	struct taps t[3];

	for (n = 0; n < y->dim[0]; n++)
		for (i = 0; i < out; i++) {
			/* the grid names the innermost axis first */
			for (d = 0; d < nd; d++)
				taps_of(q->args, el_get(g, (n * out + i) * nd + nd - 1 - d),
					x->type.dim[2 + d], &t[d]);
			for (k = 0; k < c; k++)
				el_set(&q->out[0], (n * c + k) * out + i,
				       weigh(x, (n * c + k) * in, t, nd));
		}
	return RLX_OK;
}

/* ---- the same as a graph: positions and weights of all taps, a gather, a product ---- */

static rlx_value plus(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, add, .a = a, .b = b);
}

static rlx_value scaled(struct rlx_graph *g, rlx_value x, double by, double shift)
{
	return op_add_const(g, op_mul_const(g, x, by), shift);
}

static rlx_value held(struct rlx_graph *g, rlx_value x, double lo, double hi)
{
	x = rlx_emit(g, max, .a = x, .b = op_const_like(g, x, lo));
	return rlx_emit(g, min, .a = x, .b = op_const_like(g, x, hi));
}

/* reflect(): the distance from @lo, folded to and fro. */
static rlx_value mirrored(struct rlx_graph *g, rlx_value x, double lo, double hi)
{
	double range = hi - lo;
	rlx_value far;

	if (range <= 0)
		return scaled(g, x, 0, lo);
	x = rlx_emit(g, abs, .x = op_add_const(g, x, -lo));
	x = rlx_emit(g, fmod, .a = x, .b = op_const_like(g, x, 2 * range));
	far = rlx_emit(g, gt, .a = x, .b = op_const_like(g, x, range));
	x = rlx_emit(g, where, .cond = far, .a = scaled(g, x, -1, 2 * range), .b = x);
	return op_add_const(g, x, lo);
}

/* 1 - f and f, f what is behind the point: where that is 0, too, the slopes are -1 and 1. */
static rlx_value linear_weights(struct rlx_graph *g, rlx_value p)
{
	struct rlx_type t = rlx_type(op_type(g, p).dtype, 2);

	p = rlx_emit(g, sub, .a = p, .b = rlx_emit(g, floor, .x = p));
	p = rlx_emit(g, mul, .a = p, .b = rlx_emit(g, iota, .type = t, .start = -1, .step = 2));
	return plus(g, p, rlx_emit(g, iota, .type = t, .start = 1, .step = -1));
}

/* cubic() of the distance @d. */
static rlx_value cubic_weight(struct rlx_graph *g, rlx_value d)
{
	const double k = -0.75;
	rlx_value in, out, two = op_const_like(g, d, 2), none = op_const_like(g, d, 0);

	d = rlx_emit(g, abs, .x = d);
	in = rlx_emit(g, mul, .a = scaled(g, d, k + 2, -(k + 3)), .b = d);
	in = op_add_const(g, rlx_emit(g, mul, .a = in, .b = d), 1);
	out = rlx_emit(g, mul, .a = scaled(g, d, k, -5 * k), .b = d);
	out = op_add_const(g, rlx_emit(g, mul, .a = op_add_const(g, out, 8 * k), .b = d), -4 * k);
	out = rlx_emit(g, where, .cond = rlx_emit(g, lt, .a = d, .b = two), .a = out, .b = none);
	return rlx_emit(g, where, .cond = rlx_emit(g, le, .a = d, .b = op_const_like(g, d, 1)),
			.a = in, .b = out);
}

/* Taps of one axis of @n elements for coordinates @v[p, 1]: positions in range, weights. */
static void emit_taps(struct rlx_graph *g, const struct rlx_op_grid_sample *a, rlx_value v,
		      int64_t n, rlx_value *out_at, rlx_value *out_w)
{
	const int64_t count = a->mode == RLX_RESIZE_NEAREST ? 1 :
			      a->mode == RLX_RESIZE_LINEAR ? 2 : 4;
	double last = (double)(n - 1), lo = a->align_corners ? 0 : -0.5;
	double beyond = count == 4 ? 2 : 0;	/* as in taps_of() */
	enum rlx_dtype dt = op_type(g, v).dtype;
	rlx_value p, at, w, there;

	p = a->align_corners ? scaled(g, v, last / 2, last / 2) :
			       scaled(g, v, (double)n / 2, last / 2);
	if (count == 1)
		p = rlx_emit(g, round, .x = p);
	there = rlx_emit(g, lt, .a = p, .b = op_const_like(g, p, lo));
	there = rlx_emit(g, bit_or, .a = there, .b = rlx_emit(g, gt, .a = p,
			 .b = op_const_like(g, p, last - lo)));
	if (a->padding == RLX_GRID_BORDER)
		p = rlx_emit(g, where, .cond = there,
			     .a = held(g, p, -beyond, last + beyond), .b = p);
	else if (a->padding == RLX_GRID_REFLECTION)
		p = rlx_emit(g, where, .cond = there, .a = mirrored(g, p, lo, last - lo), .b = p);
	at = op_add_const(g, rlx_emit(g, floor, .x = p), count == 4 ? -1 : 0);
	at = plus(g, at, rlx_emit(g, iota, .type = rlx_type(dt, count)));
	w = rlx_emit(g, sub, .a = p, .b = at);
	if (count == 1)
		w = scaled(g, w, 0, 1);
	else if (count == 2)
		w = linear_weights(g, p);
	else
		w = cubic_weight(g, w);
	/* what is outside, or no number, is read at 0 and weighs nothing */
	there = rlx_emit(g, eq, .a = at, .b = at);
	if (a->padding == RLX_GRID_ZEROS)
		there = rlx_emit(g, eq, .a = at, .b = held(g, at, 0, last));
	else if (a->padding == RLX_GRID_REFLECTION)
		at = rlx_emit(g, where, .b = mirrored(g, at, lo, last - lo), .a = at, .cond =
			      rlx_emit(g, eq, .a = at, .b = held(g, at, 0, last)));
	at = rlx_emit(g, where, .cond = there, .a = held(g, at, 0, last),
		      .b = op_const_like(g, at, 0));
	*out_w = rlx_emit(g, where, .cond = there, .a = w, .b = op_const_like(g, w, 0));
	*out_at = op_cast(g, rlx_emit(g, trunc, .x = at), RLX_I64);
}

/* [p, k] by [p, t] of one more axis: [p, k t], its positions behind the others'. */
static rlx_value outer(struct rlx_graph *g, rlx_value all, rlx_value one, bool product)
{
	struct rlx_type a = op_type(g, all), b = op_type(g, one);

	all = op_reshape(g, all, (int64_t[]){ a.dim[0], a.dim[1], 1 }, 3);
	one = op_reshape(g, one, (int64_t[]){ a.dim[0], 1, b.dim[1] }, 3);
	all = product ? rlx_emit(g, mul, .a = all, .b = one) : plus(g, all, one);
	return op_reshape(g, all, (int64_t[]){ a.dim[0], a.dim[1] * b.dim[1] }, 2);
}

static enum rlx_status grid_sample_expand(struct rlx_expand *q)
{
	const struct rlx_type x = op_type(q->g, q->in[0]), gt = op_type(q->g, q->in[1]);
	const struct rlx_type *y = &q->out_type[0];
	enum rlx_dtype dt = op_acc_type(rlx_dtype_promote(x.dtype, gt.dtype));
	int64_t n = x.dim[0], c = x.dim[1], out = shape_span(y, 2, y->rank), nd = x.rank - 2, d;
	int64_t in = shape_span(&x, 2, x.rank), rows = n * out;
	struct rlx_graph *g = q->g;
	rlx_value grid, at, w, at1, w1, v;

	/* places are found in f64: in f32 those far from the first element lose their bits */
	grid = op_reshape(g, op_cast(g, q->in[1], RLX_F64), (int64_t[]){ rows, nd }, 2);
	/* images lie behind each other */
	at = rlx_emit(g, iota, .type = rlx_type(RLX_I64, n, out), .step = (double)in);
	at = op_reshape(g, at, (int64_t[]){ rows, 1 }, 2);
	w = RLX_NONE;
	for (d = 0; d < nd; d++) {
		v = rlx_emit(g, slice, .x = grid, .axes = RLX_INTS(1),
			     .starts = RLX_INTS(nd - 1 - d), .ends = RLX_INTS(nd - d));
		emit_taps(g, q->args, v, x.dim[2 + d], &at1, &w1);
		at1 = rlx_emit(g, mul, .a = at1, .b = op_const_like(g, at1,
			       (double)shape_span(&x, (uint32_t)(3 + d), x.rank)));
		at = outer(g, at, at1, false);
		w = w.id ? outer(g, w, w1, true) : w1;
	}
	v = op_reshape(g, op_cast(g, q->in[0], dt), (int64_t[]){ n, c, in }, 3);
	v = op_reshape(g, op_transpose(g, v, RLX_INTS(0, 2, 1)), (int64_t[]){ n * in, c }, 2);
	v = rlx_emit(g, gather, .x = v, .indices = at);
	w = op_reshape(g, op_cast(g, w, dt), (int64_t[]){ rows, 1, op_type(g, w).dim[1] }, 3);
	v = op_reshape(g, rlx_emit(g, matmul, .a = w, .b = v), (int64_t[]){ n, out, c }, 3);
	v = op_reshape(g, op_transpose(g, v, RLX_INTS(0, 2, 1)), y->dim, y->rank);
	q->out[0] = op_cast(g, v, y->dtype);
	return op_done(g);
}

static bool grid_sample_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_grid_sample *a = s->args;

	if (i > 20)
		return false;
	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, 2, 3, 5, 6);
	s->in[1] = rlx_type(RLX_F32, 2, 4, 3, 2);
	if (i == 18) {
		s->in[0] = rlx_type(RLX_F32, 1, 2, 3, 4, 3);
		s->in[1] = rlx_type(RLX_F32, 1, 2, 3, 2, 3);
	} else if (i == 19) {
		s->in[0] = rlx_type(RLX_F32, 1, 2, 9);
		s->in[1] = rlx_type(RLX_F32, 1, 7, 1);
	} else if (i == 20) {
		s->in[0].dim[0] = s->in[1].dim[0] = 0;
	}
	s->lo[1] = -1.7;
	s->hi[1] = 1.7;
	s->tol = 1e-5;
	s->f32_only = true;	/* 16 bits of a coordinate do not name a place */
	a->mode = (int32_t)(i % 3);
	a->padding = (int32_t)(i / 3 % 3);
	a->align_corners = i / 9 % 2;
	if (i >= 18)
		a->mode = RLX_RESIZE_LINEAR;
	return true;
}

static enum rlx_status grid_sample_batch(struct rlx_batching *q)
{
	return op_batch_merged(q, 3);
}

const struct rlx_op_impl rlx_op_grid_sample_impl = {
	.infer = grid_sample_infer, .eval = grid_sample_eval, .expand = grid_sample_expand,
	.batch = grid_sample_batch,
};
RLX_SAMPLES(grid_sample, grid_sample_sample)
