/* SPDX-License-Identifier: MIT */
/*
 * Where the maxima of windows are: lanes are columns of the output. Rows of the input are
 * deinterleaved, with their padding, as a folded row is; so a vector of outputs compares its
 * windows' taps as they come, and remembers which was largest. A plane has less than 2^31
 * elements. Part of pool_plain.h.
 */
#ifndef RLX_CPU_POOL_ARGMAX_H
#define RLX_CPU_POOL_ARGMAX_H

/* Are windows walked tap by tap? Few outputs to a row leave lanes empty; one tap is no search. */
static bool is_narrow(const struct rlx_k_pool *a)
{
	return a->out[2] <= 2 || a->k[0] * a->k[1] * a->k[2] == 1;
}

/* A row of the input at @x, with its padding and by phase, to @y. */
static void deinterleave_row(const struct fold *f, const PT *x, PT *y)
{
	memcpy(f->down + f->first, x, f->n * sizeof(PT));
	if (f->l.phases > 1)
		deinterleave(f, f->down, y);
	else
		memcpy(y, f->down, f->l.width * sizeof(PT));
}

/* Which of @x come before @best: NaN before all numbers, the first of them. */
RLX_INLINE pt_lanes above(pv x, pv best)
{
#ifdef PT_FLOAT
	return (pt_lanes)((x > best) | ((x != x) & (best == best)));
#else
	return (pt_lanes)(x > best);
#endif
}

/* Tap @z, @v of a window has the row at rows + (at + z step[0] + v step[1]), a sum that wraps. */
struct phase_rows {
	const PT	*rows;
	size_t		at, step[2];
};

/*
 * The largest taps of the windows at columns @i on, and of each how far the first of them lies
 * from the window's begin in the plane's first row. -1: none is above the least value there is, or
 * they are padding alone.
 */
RLX_INLINE pv argmax(const struct fold *f, const struct row *r, const struct phase_rows *p,
		     size_t i, pt_lanes *where)
{
	const struct rlx_k_pool *a = f->a;
	pv best = (pv){ 0 } + PT_LEAST, x;
	pt_lanes at = (pt_lanes){ 0 } - 1, better;
	size_t z, v, t, line;

	for (z = r->span[0][0]; z < r->span[0][1]; z++)
		for (v = r->span[1][0]; v < r->span[1][1]; v++) {
			const PT *row = p->rows + (p->at + z * p->step[0] + v * p->step[1] + i);

			line = line_of(r, z, v) * a->in[2];
			for (t = 0; t < a->k[2]; t++) {
				x = pv_loadu(row + f->off[t]);
				better = above(x, best);
				best = (pv)(((pt_lanes)x & better) | ((pt_lanes)best & ~better));
				at = (((pt_lanes){ 0 } + (PT_LANE)(line + t * a->d[2])) & better) |
				     (at & ~better);
			}
		}
	*where = at;
	return best;
}

struct max_at {
	int64_t	where;
	PT	best;
};

/* The first of equals; NaN is the largest. */
RLX_INLINE void tap_max(void *of, size_t at, PT x)
{
	struct max_at *m = of;

	if (m->where >= 0 && (PT_NAN(m->best) || !(x > m->best || PT_NAN(x))))
		return;
	m->best = x;
	m->where = (int64_t)at;
}

/* The window at column @i by itself; where -1: it is padding alone. */
RLX_INLINE struct max_at argmax_one(const struct row *r, size_t i)
{
	struct max_at m = { -1, PT_LEAST };

	each_tap(r, i, tap_max, &m);
	return m;
}

/* Of lane @j of what argmax() gives for columns @i on: the plane's element, -1: padding alone. */
RLX_INLINE int64_t argmax_at(const struct row *r, const pt_lanes *where, size_t i, size_t j)
{
	int64_t at = (*where)[j];

	return at < 0 ? argmax_one(r, i + j).where :
	       at + (int64_t)((i + j) * r->a->s[2]) - (int64_t)r->a->p[2];
}

static void row_index_narrow(const struct row *r, int64_t *index, int64_t base)
{
	for (size_t i = 0; i < r->a->out[2]; i++) {
		struct max_at m = argmax_one(r, i);

		r->y[i] = m.best;
		index[i] = m.where < 0 ? -1 : base + index_of(r->a, m.where);
	}
}

/* Maxima of a row, and where they were. */
static void row_index(const struct fold *f, const struct row *r, int64_t *index, int64_t base)
{
	const struct rlx_k_pool *a = f->a;
	const size_t lines = r->span[1][1] - r->span[1][0];
	const struct phase_rows p = {
		/* tap 0 may not be inside */
		.at = -(r->span[0][0] * lines + r->span[1][0]) * f->step,
		.rows = f->rows, .step = { lines * f->step, f->step },
	};
	size_t z, v, i, j;
	pt_lanes where;

	if (is_narrow(a)) {
		row_index_narrow(r, index, base);
		return;
	}
	for (z = r->span[0][0]; z < r->span[0][1]; z++)
		for (v = r->span[1][0]; v < r->span[1][1]; v++)
			deinterleave_row(f, r->x + line_of(r, z, v) * a->in[2],
				f->rows + (p.at + z * p.step[0] + v * p.step[1]));
	for (i = 0; i < a->out[2]; i += PT_LANES) {
		pv best = argmax(f, r, &p, i, &where);

		for (j = 0; j < PT_LANES && i + j < a->out[2]; j++) {
			int64_t at = argmax_at(r, &where, i, j);

			index[i + j] = at < 0 ? -1 : base + index_of(a, at);
		}
		store_upto(r->y + i, best, r->y + a->out[2]);
	}
}

#endif
