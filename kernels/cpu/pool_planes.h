/* SPDX-License-Identifier: MIT */
/*
 * Pools of floats in one or two dimensions, all planes but the last: what is the same for a
 * row of every plane is looked up, and rows are folded by whole vectors, which read and write
 * what lies behind them. Included behind pool_plain.h, by which it folds.
 */
#ifndef RLX_CPU_POOL_PLANES_H
#define RLX_CPU_POOL_PLANES_H

#include "kernels/simd/evens.h"

/* Row @o of a plane's output: from where its taps' rows lie, how many, and as the mean counts. */
struct plane_row {
	size_t	off, n;
	float	counted, by;		/* and 1 by that */
};
_Static_assert(sizeof(struct plane_row) == RLX_K_POOL_OF_ROW, "scratch");

/* Is every plane's row o what @t says? Windows wholly in the padding are not. */
static bool plane_rows(const struct fold *f, struct plane_row *t)
{
	const struct rlx_k_pool *a = f->a;
	struct row r = { .a = a };
	size_t o;

	for (o = 0; o < a->out[1]; o++) {
		outer_taps(&r, 1, o);
		t[o].n = r.span[1][1] - r.span[1][0];
		t[o].off = ((size_t)r.at[1] + r.span[1][0] * a->d[1]) * a->in[2];
		t[o].counted = (float)(r.counted[1] ? r.counted[1] : 1);
		t[o].by = 1 / t[o].counted;
		if (!t[o].n)
			return false;
	}
	return true;
}

/* @n rows at @x, @step elements apart, folded into the columns of @y, padding behind them. */
RLX_INLINE void plane_down(const struct fold *f, const float *x, size_t n, float *y,
			   const bool max)
{
	const size_t step = f->a->d[1] * f->a->in[2];
	const pv none = (pv){ 0 } + (max ? PT_LEAST : 0);
	pv acc;

	for (size_t i = 0; i < f->n; i += PT_LANES) {
		acc = pv_loadu(x + i);
		for (size_t v = 1; v < n; v++)
			acc = fold_two(acc, pv_loadu(x + i + v * step), max);
		if (f->n - i < PT_LANES)
			acc = vf_sel(vm_first(f->n - i), acc, none);
		pv_storeu(y + i, acc);
	}
}

/* The columns of @x by phase, of two; the first's last vector lies over the second's place. */
RLX_INLINE void plane_phases(const struct fold *f, const float *x, float *y)
{
	for (size_t i = 0; i < f->l.group; i += PT_LANES)
		vi_storeu(y + i, vi_evens(x + 2 * i));
	for (size_t i = 0; i < f->l.group; i += PT_LANES)
		vi_storeu(y + f->l.group + i, vi_evens(x + 2 * i + 1));
}

RLX_INLINE void plane_along(const struct fold *f, const float *x, float *y,
			    const struct plane_row *t, const bool max)
{
	for (size_t i = 0; i < f->a->out[2]; i += PT_LANES) {
		pv acc = pv_loadu(x + i);

		for (size_t k = 1; k < f->a->k[2]; k++)
			acc = fold_two(acc, pv_loadu(x + i + f->off[k]), max);
		if (!max)
			acc = mean_of(acc, pv_loadu(f->of + i) * t->counted,
				      pv_loadu(f->by + i) * t->by);
		store_upto(y + i, acc, f->y_end);
	}
}

/* Rows [begin, end) of all planes; each step of some of them in turn, as rows_run() does. */
RLX_INLINE void plane_run(const struct fold *f, const struct plane_row *t, size_t begin,
			  size_t end, const bool max)
{
	const struct rlx_k_pool *a = f->a;
	const size_t plane = a->in[1] * a->in[2];
	size_t o = begin % a->out[1], u, i, n;
	const float *x = a->x + begin / a->out[1] * plane;
	const struct plane_row *of[RLX_K_POOL_ROWS];

	for (u = begin; u < end; u += n) {
		n = end - u < f->l.rows ? end - u : f->l.rows;
		for (i = 0; i < n; i++) {
			of[i] = t + o;
			plane_down(f, x + t[o].off, t[o].n,
				   f->down + i * f->l.down_step + f->first, max);
			if (++o == a->out[1]) {
				o = 0;
				x += plane;
			}
		}
		for (i = 0; f->l.phases > 1 && i < n; i++)
			plane_phases(f, f->down + i * f->l.down_step,
				     f->polyphase + i * f->l.polyphase_step);
		for (i = 0; i < n; i++)
			plane_along(f, f->polyphase + i * f->l.polyphase_step,
				    a->y + (u + i) * a->out[2], of[i], max);
	}
}

/* The rows from @begin on that are done so, of those up to @end; which is the next. */
static size_t pool_planes(const struct rlx_k_pool *a, size_t begin, size_t end, void *scratch)
{
	const size_t plane = a->in[1] * a->in[2];
	struct fold f = { .a = a, .y_end = a->y + end * a->out[2] };
	struct plane_row *t = (void *)((char *)scratch + rlx_k_pool_fold_bytes(a, sizeof(float)));
	size_t most;

	/* a depth of one, and not of padding alone */
	if (a->in[0] != 1 || a->k[0] != 1 || a->out[0] != 1 || a->p[0] ||
	    a->kind == RLX_K_POOL_LP || a->index || !plane)
		return begin;
	fold_init(&f, scratch);
	/* a vector of the last row read may lie behind it, within what planes follow */
	most = 1 + (PT_LANES - 1) / plane;
	most = a->planes > most ? (a->planes - most) * a->out[1] : 0;
	most = most < end ? most : end;
	if (begin >= most || !f.n || f.l.phases > 2 || !plane_rows(&f, t))
		return begin;
	if (a->kind == RLX_K_POOL_AVG)
		count_row(&f, 1);
	if (a->kind == RLX_K_POOL_MAX)
		plane_run(&f, t, begin, most, true);
	else
		plane_run(&f, t, begin, most, false);
	return most;
}

#endif
