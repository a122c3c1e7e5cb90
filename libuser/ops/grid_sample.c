// SPDX-License-Identifier: MIT
/* Sampling an image at given places. */
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
 *		edges. A NaN coordinate reads 0.
 * Errors:	RLX_ESHAPE if a spatial dimension of x is empty and the grid is not.
 * Gradient:	none yet: RLX_ENOSUP
 * Source:	ONNX GridSample-20; Jaderberg et al. 2015
 */
RLX_OP(grid_sample, "x[n, c, ..] read at grid[n, .., nd], from -1 to 1, innermost axis first",
	IN(x) IN(grid)
	ATTR(i32, mode)
	ATTR(i32, padding)
	ATTR(bool, align_corners),
	RLX_T_REDUCTION)

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
	int i;

	p = a->align_corners ? (v + 1) / 2 * (double)(n - 1) :
	    ((v + 1) * (double)n - 1) / 2;
	if (a->mode == RLX_RESIZE_NEAREST)
		p = rint(p);
	if (p < lo || p > hi) {
		if (a->padding == RLX_GRID_BORDER)
			p = p < 0 ? 0 : (double)(n - 1);
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
	s->grad_tol = -1;
	s->f32_only = true;	/* 16 bits of a coordinate do not name a place */
	a->mode = (int32_t)(i % 3);
	a->padding = (int32_t)(i / 3 % 3);
	a->align_corners = i / 9 % 2;
	if (i >= 18)
		a->mode = RLX_RESIZE_LINEAR;
	return true;
}

const struct rlx_op_impl rlx_op_grid_sample_impl = {
	.infer = grid_sample_infer, .eval = grid_sample_eval,
	.sample = grid_sample_sample,
};
