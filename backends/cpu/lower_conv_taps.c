// SPDX-License-Identifier: MIT
/*
 * Plain convolutions of few output pixels and many taps, as sums along the taps: gradients of
 * weights are such, whose taps are the pixels of an image. conv_nd has vectors of output pixels,
 * of a plane as one row at the pitch of the input, of which few are results there.
 */
#include <string.h>

#include "backends/common/conv_desc.h"
#include "backends/cpu/cpu.h"
#include "base/gcd.h"

/* Sums that a unit keeps, in floats; units wanted; results of one at least. */
enum { SUMS = 96 << 10, UNITS = 16, RESULTS = 24, SHIFTS = 3 };

static size_t up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static size_t min_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t max_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The furthest that pixels read before, and behind, what stands at the tap's own place. */
struct reach {
	size_t	before, behind;
};

static struct reach reach_of(const struct rlx_conv_grid *g)
{
	size_t far = (g->out - 1) * g->s;

	return (struct reach){ (g->p + g->d - 1) / g->d, far > g->p ? (far - g->p) / g->d : 0 };
}

/* Rows are as long as what any tap of them meets, and what it meets before and behind it is 0. */
static void plan_dim(struct rlx_conv_grid *g)
{
	struct reach r = reach_of(g);

	g->phases = min_of(g->out, g->d / rlx_gcd(g->s, g->d));
	g->most = min_of((g->in - 1) / g->d + 1, g->k + r.behind);
	g->size = max_of(g->k + r.behind, g->most + r.before);
}

/* Elements of a plane, and those that taps reach in front of the first and behind the last. */
struct extent {
	size_t	plane, before, behind;
};

static struct extent plan_grid(struct rlx_k_conv_taps *a, const struct rlx_conv *g)
{
	struct extent e = { 1, 0, 0 };
	size_t i;

	a->pixels = a->phases = 1;
	for (i = 0; i < 3; i++) {
		struct rlx_conv_grid *d = &a->grid[i];
		struct reach r;

		*d = (struct rlx_conv_grid){ .in = g->in[i], .k = g->k[i], .out = g->out[i],
					     .s = g->s[i], .d = g->d[i], .p = g->p[i] };
		plan_dim(d);
		r = reach_of(d);
		e.plane *= d->size;
		e.before = e.before * d->size + r.before;
		e.behind = e.behind * d->size + r.behind;
		a->pixels *= d->out;
		a->phases *= d->phases;
	}
	e.before = up(e.before, 16);
	e.behind += 16;		/* a vector */
	return e;
}

/* Multiply-adds of a vector by either kernel, and what the grid costs on top of those. */
static bool is_faster(const struct rlx_lower *lo, const struct rlx_k_conv_nd *nd,
		      const struct rlx_k_conv_taps *a)
{
	/* in double: padding and strides may be such that its product does not fit a size_t */
	const double plane = (double)a->grid[0].size * (double)a->grid[1].size *
			     (double)a->grid[2].size;
	const double lanes = (double)rlx_conv_block(cpu_isa(lo)), ic = (double)nd->ic;
	const double icg = ic / (double)nd->groups, oc = (double)nd->oc, n = (double)nd->n;
	const double taps = (double)a->grid[0].k * (double)a->grid[1].k * (double)a->grid[2].k;
	const size_t row = (nd->out[1] - 1) * nd->size[2] + nd->out[2];
	const double plain = n * oc * icg * taps * (double)nd->out[0] *
			     (double)up(row, 2 * (size_t)lanes);
	const double rows = (double)(a->rows * a->groups), terms = icg * plane;
	const double grid = (n * (double)a->phases * ic + rows * icg) * plane;

	return terms >= 8 * lanes &&
	       1.25 * rows * (double)up(a->n * a->pixels, SHIFTS) * terms + 8 * grid < plain;
}

/* As many units as there are threads at most, of what a core's cache holds. */
static void cut(struct rlx_k_conv_taps *a, size_t lanes)
{
	const size_t all = a->n * a->pixels, two = 2 * RLX_CONV_TAPS_ROWS;
	size_t parts;

	a->part = min_of(a->rows, two);
	parts = (a->rows + a->part - 1) / a->part * a->groups;
	a->results = SUMS / lanes / a->part;
	if (parts < UNITS)
		a->results = min_of(a->results, max_of(all / (UNITS / parts), RESULTS));
	a->results = min_of(up(a->results, SHIFTS), all);
}

/* The call that lays operand @k on the grid @a; what it makes. */
static uint32_t lay(struct rlx_lower *lo, uint32_t k, const struct rlx_k_conv_taps_pad *plan)
{
	const struct rlx_conv_grid *g = plan->grid;
	size_t n = plan->n * g[0].phases * g[1].phases * g[2].phases * plan->row;
	struct rlx_k_conv_taps_pad *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t tmp = rlx_lower_tmp(lo, (plan->before + n) * sizeof(float));

	*a = *plan;
	rlx_lower_ref_in(lo, &a->x, k, 0);
	rlx_lower_ref_tmp(lo, &a->y, tmp, plan->before * sizeof(float));
	rlx_lower_call(lo, RLX_KERNEL_conv_taps_pad, plan->n * plan->c, (double)n / 4, 0);
	return tmp;
}

/* Of the weights' taps: as they are, one phase of them. */
static void weights_grid(struct rlx_k_conv_taps_pad *p)
{
	for (size_t i = 0; i < 3; i++) {
		struct rlx_conv_grid *g = &p->grid[i];

		g->in = g->most = g->k;
		g->s = g->d = g->phases = 1;
		g->p = 0;
	}
}

bool cpu_conv_taps(struct rlx_lower *lo, const struct rlx_conv *g, const struct rlx_k_conv_nd *nd)
{
	struct rlx_k_conv_taps plan = { .n = g->n, .oc = g->oc, .groups = g->groups }, *a;
	const size_t lanes = rlx_conv_block(cpu_isa(lo)), icg = g->ic / g->groups;
	struct rlx_k_conv_taps_pad px, pw;
	struct extent e;
	uint32_t x, w;

	if (lo->strict || g->transposed || g->act || rlx_lower_in(lo, 2) || rlx_lower_in(lo, 3) ||
	    rlx_lower_is_const(lo, 1))
		return false;
	e = plan_grid(&plan, g);
	plan.rows = up(g->oc / g->groups, RLX_CONV_TAPS_ROWS);
	plan.terms = icg * e.plane;
	/* zeros between images, lest what is infinite in one gives NaN in another */
	plan.x_row = g->ic * e.plane + max_of(e.before, e.behind);
	plan.w_row = up(plan.terms, 16);
	if (!is_faster(lo, nd, &plan))
		return false;
	cut(&plan, lanes);
	px = (struct rlx_k_conv_taps_pad){
		.n = g->n, .c = g->ic, .rows = g->n, .real = g->n, .row = plan.x_row,
		.before = e.before,
	};
	pw = (struct rlx_k_conv_taps_pad){
		.n = g->groups * plan.rows, .c = icg, .rows = plan.rows,
		.real = g->oc / g->groups, .row = plan.w_row,
	};
	memcpy(px.grid, plan.grid, sizeof(px.grid));
	memcpy(pw.grid, plan.grid, sizeof(pw.grid));
	weights_grid(&pw);
	x = lay(lo, 0, &px);
	w = lay(lo, 1, &pw);
	a = rlx_lower_args(lo, sizeof(*a));
	*a = plan;
	rlx_lower_ref_tmp(lo, &a->x, x, px.before * sizeof(float));
	rlx_lower_ref_tmp(lo, &a->w, w, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_call(lo, RLX_KERNEL_conv_taps, a->groups * (up(a->rows, a->part) / a->part) *
		       (up(a->n * a->pixels, a->results) / a->results), rlx_conv_work(g),
		       up(a->results, SHIFTS) *
		       (sizeof(ptrdiff_t) + a->part * lanes * sizeof(float)));
	return true;
}
