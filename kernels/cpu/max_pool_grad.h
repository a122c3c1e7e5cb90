/* SPDX-License-Identifier: MIT */
/*
 * The gradient of max pooling in the plain layout, a plane at a time: lanes are columns of the
 * output. All rows of the plane are put by phase, with their padding, as a pool's folded row is;
 * so a vector of outputs compares its windows' taps as they come, and remembers which was largest.
 * What they add to lies apart by the stride, and windows overlap: that is done one by one.
 * Included behind pool_plain.h; the includer defines PT_LANE, an integer as wide as elements.
 */
#ifndef RLX_CPU_MAX_POOL_GRAD_H
#define RLX_CPU_MAX_POOL_GRAD_H

typedef PT_LANE pt_lanes __attribute__((vector_size(RLX_VB)));

/* A plane in hand. */
struct grad_plane {
	struct fold	f;
	const PT	*x, *dy;
	PT		*dx;
	PT		*rows;		/* of x, by phase */
	size_t		step;		/* from one of them to the next */
};

static void put_rows(const struct grad_plane *p)
{
	const struct fold *f = &p->f;
	size_t n = f->a->in[0] * f->a->in[1], i;

	for (i = 0; i < n; i++) {
		PT *to = p->rows + i * p->step;

		memcpy(f->down + f->first, p->x + i * f->a->in[2], f->n * sizeof(PT));
		if (f->l.phases > 1)
			deinterleave(f, f->down, to);
		else
			memcpy(to, f->down, f->l.width * sizeof(PT));
	}
}

/*
 * Of the windows at columns @i on: how far the first of their largest taps lies from the window's
 * begin in the plane's first row. -1: none is above -infinity, or they are padding alone.
 */
RLX_INLINE pt_lanes largest(const struct grad_plane *p, const struct row *r, size_t i)
{
	const struct rlx_k_pool *a = p->f.a;
	pv best = (pv){ 0 } - INFINITY, x;
	pt_lanes at = (pt_lanes){ 0 } - 1, better;
	size_t z, v, t, line;

	for (z = r->span[0][0]; z < r->span[0][1]; z++)
		for (v = r->span[1][0]; v < r->span[1][1]; v++) {
			line = ((size_t)r->at[0] + z * a->d[0]) * a->in[1] +
			       (size_t)r->at[1] + v * a->d[1];
			for (t = 0; t < a->k[2]; t++) {
				x = pv_loadu(p->rows + line * p->step + i + p->f.off[t]);
				/* NaN before all numbers, the first of them */
				better = (pt_lanes)((x > best) | ((x != x) & (best == best)));
				best = (pv)(((pt_lanes)x & better) | ((pt_lanes)best & ~better));
				at = (((pt_lanes){ 0 } + (PT_LANE)(line * a->in[2] + t * a->d[2])) &
				      better) | (at & ~better);
			}
		}
	return at;
}

/* Where the largest tap of output @i is, if that is -infinity; -1: it has padding alone. */
static int64_t first_tap(const struct row *r, size_t i)
{
	struct max_at m = { r->a, 0, -1, PT_LEAST };

	each_tap(r, i, tap_max, &m);
	return m.where;
}

static void add_row(const struct grad_plane *p, const struct row *r, const PT *dy)
{
	const struct rlx_k_pool *a = p->f.a;
	size_t i, j, n;
	pt_lanes at;

	for (i = 0; i < a->out[2]; i += PT_LANES) {
		at = largest(p, r, i);
		n = a->out[2] - i < PT_LANES ? a->out[2] - i : PT_LANES;
		for (j = 0; j < n; j++) {
			int64_t to = at[j] < 0 ? first_tap(r, i + j) :
				     at[j] + (int64_t)((i + j) * a->s[2]) - (int64_t)a->p[2];

			if (to >= 0)
				p->dx[to] += dy[i + j];
		}
	}
}

static void max_pool_grad(const struct rlx_k_max_pool_grad *g, size_t begin, size_t end,
			  void *scratch)
{
	const struct rlx_k_pool *a = &g->pool;
	const size_t in = a->in[0] * a->in[1] * a->in[2];
	const size_t out = a->out[0] * a->out[1] * a->out[2];
	struct grad_plane p = { .f = { .a = a }, .step = rlx_k_max_pool_grad_step(a) };
	struct row r = { .a = a };
	size_t u, z, v;

	fold_init(&p.f, scratch);
	p.rows = (PT *)((char *)scratch + rlx_k_pool_fold_bytes(a, sizeof(PT)));
	for (u = begin; u < end; u++) {
		p.x = r.x = (const PT *)a->x + u * in;
		p.dy = (const PT *)g->dy + u * out;
		p.dx = (PT *)g->dx + u * in;
		memset(p.dx, 0, in * sizeof(PT));
		put_rows(&p);
		for (z = 0; z < a->out[0]; z++)
			for (v = 0, outer_taps(&r, 0, z); v < a->out[1]; v++) {
				outer_taps(&r, 1, v);
				add_row(&p, &r, p.dy + (z * a->out[1] + v) * a->out[2]);
			}
	}
}

#endif
