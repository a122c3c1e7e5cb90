/* SPDX-License-Identifier: MIT */
/*
 * The gradient of max pooling in the plain layout, a plane at a time: all its rows are
 * deinterleaved, and maxima found by vectors of outputs (pool_argmax.h). What they add to lies
 * apart by the stride, and windows overlap: that is done one by one, but for windows one column
 * wide. Included behind pool_plain.h.
 */
#ifndef RLX_CPU_MAX_POOL_GRAD_H
#define RLX_CPU_MAX_POOL_GRAD_H

static void add_row(const struct fold *f, const struct row *r, const PT *dy, PT *dx)
{
	const struct rlx_k_pool *a = f->a;
	const struct phase_rows p = {
		/* tap 0 may not be inside */
		.at = ((size_t)r->at[0] * a->in[1] + (size_t)r->at[1]) * f->step,
		.rows = f->rows, .step = { a->d[0] * a->in[1] * f->step, a->d[1] * f->step },
	};
	const bool narrow = is_narrow(a);
	pt_lanes where;
	size_t i, j;

	for (i = 0; i < a->out[2] && narrow; i++) {
		int64_t at = argmax_one(r, i).where;

		if (at >= 0)
			dx[at] += dy[i];
	}
	for (; i < a->out[2]; i += PT_LANES) {
		argmax(f, r, &p, i, &where);
		for (j = 0; j < PT_LANES && i + j < a->out[2]; j++) {
			int64_t at = argmax_at(r, &where, i, j);

			if (at >= 0)
				dx[at] += dy[i + j];
		}
	}
}

/* Is a window one column wide, and are columns whole vectors: lanes of blocked channels? */
static bool is_column(const struct rlx_k_pool *a)
{
	return a->k[2] == 1 && a->s[2] == 1 && !a->p[2] && a->out[2] == a->in[2] &&
	       a->in[2] % PT_LANES == 0;
}

/* Such a row: each lane adds where its own maximum is, the first tap where none is above -inf. */
static void add_columns(const struct row *r, const PT *dy, PT *dx)
{
	const size_t *y = r->span[0], *x = r->span[1], n = r->a->in[2];
	size_t i, z, v, line;

	if (y[0] >= y[1] || x[0] >= x[1])
		return;
	for (i = 0; i < n; i += PT_LANES) {
		pt_lanes at = (pt_lanes){ 0 } + (PT_LANE)line_of(r, y[0], x[0]), better;
		pv best = (pv){ 0 } + PT_LEAST, tap;

		for (z = y[0]; z < y[1]; z++)
			for (v = x[0]; v < x[1]; v++) {
				line = line_of(r, z, v);
				tap = pv_loadu(r->x + line * n + i);
				better = above(tap, best);
				best = (pv)(((pt_lanes)tap & better) | ((pt_lanes)best & ~better));
				at = (((pt_lanes){ 0 } + (PT_LANE)line) & better) | (at & ~better);
			}
		for (z = y[0]; z < y[1]; z++)
			for (v = x[0]; v < x[1]; v++) {
				PT *to = dx + (line = line_of(r, z, v)) * n + i;
				pt_lanes here = at == (PT_LANE)line;

				pv_storeu(to, pv_loadu(to) +
					      (pv)((pt_lanes)pv_loadu(dy + i) & here));
			}
	}
}

static void max_pool_grad(const struct rlx_k_max_pool_grad *g, size_t begin, size_t end,
			  void *scratch)
{
	const struct rlx_k_pool *a = &g->pool;
	const size_t lines = a->in[0] * a->in[1], in = lines * a->in[2];
	const size_t rows = a->out[0] * a->out[1];
	const bool columns = is_column(a);
	struct fold f = { .a = a };
	struct row r = { .a = a };
	size_t u, i;

	fold_init(&f, scratch);
	for (u = begin; u < end; u++) {
		const PT *dy = (const PT *)g->dy + u * rows * a->out[2];
		PT *dx = (PT *)g->dx + u * in;

		r.x = (const PT *)a->x + u * in;
		memset(dx, 0, in * sizeof(PT));
		for (i = 0; i < lines && !columns && !is_narrow(a); i++)
			deinterleave_row(&f, r.x + i * a->in[2], f.rows + i * f.step);
		for (i = 0; i < rows; i++) {
			outer_taps(&r, 0, i / a->out[1]);
			outer_taps(&r, 1, i % a->out[1]);
			if (columns)
				add_columns(&r, dy + i * a->out[2], dx);
			else
				add_row(&f, &r, dy + i * a->out[2], dx);
		}
	}
}

#endif
