// SPDX-License-Identifier: MIT
/*
 * Plain convolution of any shape, forwards and transposed. The roles of the
 * register tile are changed: its vectors are output pixels, gathered into
 * panels in scratch, and it broadcasts weights, so that few channels (groups)
 * still fill it. A transposed convolution falls apart into one stride-1
 * convolution for each phase of the output modulo the stride, with those taps
 * that hit the phase.
 */
#include <string.h>

#include "kernels/cpu/conv_nd.h"
#include "kernels/cpu/conv_tile.h"

rlx_k_fn RLX_K(conv_nd);
rlx_k_fn RLX_K(conv_nd_pack);

#define C	RLX_VL
#define PANEL	(TILE_K * C)		/* pixels of a panel */
#define KC	((size_t)RLX_CONV_ND_KC)

struct run {
	const struct rlx_k_conv_nd *a;
	struct walk	walk;
	ptrdiff_t	*offs;
	float		*panel, *sums;
	struct conv_act	act;
};

/* One segment of one channel's plane, as seen by one tap. */
static void gather(const struct run *r, const struct unit *u, float *dst,
		   const float *x, const ptrdiff_t at[3], size_t len)
{
	const struct rlx_k_conv_nd *a = r->a;
	ptrdiff_t s = u->step[2], w = (ptrdiff_t)a->in[2];
	ptrdiff_t n = (ptrdiff_t)len, i0, i1, i;

	if (at[0] < 0 || at[0] >= (ptrdiff_t)a->in[0] ||
	    at[1] < 0 || at[1] >= (ptrdiff_t)a->in[1]) {
		memset(dst, 0, len * sizeof(*dst));
		return;
	}
	x += ((size_t)at[0] * a->in[1] + (size_t)at[1]) * a->in[2];
	i0 = at[2] < 0 ? (-at[2] + s - 1) / s : 0;
	i1 = at[2] < w ? (w - at[2] + s - 1) / s : 0;
	i0 = i0 < n ? i0 : n;
	i1 = i1 < n ? i1 : n;
	for (i = 0; i < i0; i++)
		dst[i] = 0;
	if (s == 1)
		for (; i < i1; i++)
			dst[i] = x[at[2] + i];
	else
		for (; i < i1; i++)
			dst[i] = x[at[2] + i * s];
	for (; i < n; i++)
		dst[i] = 0;
}

/*
 * Gather up to KC terms for the pixels of one panel, and remember where their
 * weights are. Returns how many; @t moves on.
 */
static size_t panel_fill(const struct run *r, const struct unit *u,
			 struct terms *t, size_t panel)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t plane = a->in[0] * a->in[1] * a->in[2], nseg, n, i;
	size_t left = u->pixels - panel * PANEL;
	size_t count = left < PANEL ? left : PANEL;
	size_t width = count > C ? PANEL : C;
	float *dst = r->panel + panel * PANEL * KC;
	const float *x = a->x + u->n * a->x_n + u->g * r->walk.icg * plane;
	struct seg segs[PANEL];

	nseg = segs_get(&r->walk, u, u->pixel + panel * PANEL, count, segs);
	for (n = 0; n < KC && t->more; n++, dst += width) {
		for (i = 0; i < nseg; i++) {
			const struct seg *s = &segs[i];
			const ptrdiff_t at[3] = { s->in[0] + t->off[0],
						  s->in[1] + t->off[1],
						  s->in[2] + t->off[2] };

			gather(r, u, dst + s->at, x + t->ci * plane, at,
			       s->len);
		}
		for (i = count; i < width; i++)
			dst[i] = 0;
		r->offs[n] = (ptrdiff_t)(t->tap * r->walk.icg + t->ci);
		terms_next(t, &r->walk, u);
	}
	return n;
}

/* @n gathered terms against all weights of the unit, into r->sums. */
static void pass_run(const struct run *r, const struct unit *u, size_t n,
		     bool first)
{
	static const _Alignas(64) float zero[PANEL];
	size_t terms = r->walk.icg * r->walk.taps, i, p, j, rows, last = 1;
	struct conv_tile t = {
		.offs = r->offs, .nfull = n, .bias = zero, .acc = !first,
		.fuse = &conv_fuse_none,
	};

	for (i = 0; i < u->tiles; i++) {
		size_t row = tile_first(&r->walk, u->tile + i);

		rows = tile_first(&r->walk, u->tile + i + 1) - row;
		/* offsets count terms of @last floats; now of @rows */
		for (j = 0; rows != last && j < n; j++)
			r->offs[j] = r->offs[j] / (ptrdiff_t)last *
				     (ptrdiff_t)rows;
		last = rows;
		t.x = r->a->w + (u->g * r->walk.ocg + row) * terms;
		t.y_k = rows * C;
		for (p = 0; p * PANEL < u->pixels; p++) {
			size_t k = u->pixels - p * PANEL > C ? 2 : 1;

			t.w = r->panel + p * PANEL * KC;
			t.y = r->sums + p * PANEL * u->rows +
			      (row - u->row) * PANEL;
			RLX_K(conv_tiles1)[k - 1][rows - 1](&t);
		}
	}
}

/* One channel of one panel: bias, residual, activation, and out. */
static void row_store(const struct run *r, const struct unit *u, float *v,
		      const struct seg *segs, size_t nseg, size_t ch)
{
	const struct rlx_k_conv_nd *a = r->a;
	size_t plane = a->out[0] * a->out[1] * a->out[2], i, j;
	size_t step = a->transposed ? a->s[2] : 1;
	float *y = a->y + u->n * a->y_n + ch * plane;
	const float *res = a->res ? a->res + u->n * a->res_n + ch * plane : NULL;

	if (a->bias)
		for (i = 0; i < PANEL; i++)
			v[i] += a->bias[ch];
	for (i = 0; res && i < nseg; i++)
		for (j = 0; j < segs[i].len; j++)
			v[segs[i].at + j] += res[segs[i].out + j * step];
	RLX_K(conv_act_run)(&r->act, v, PANEL);
	for (i = 0; i < nseg; i++) {
		float *d = y + segs[i].out;
		const float *s = v + segs[i].at;

		if (step == 1)
			for (j = 0; j < segs[i].len; j++)
				d[j] = s[j];
		else
			for (j = 0; j < segs[i].len; j++)
				d[j * step] = s[j];
	}
}

static void unit_store(const struct run *r, const struct unit *u)
{
	struct seg segs[PANEL];
	_Alignas(64) float v[PANEL];
	size_t p, i, j, k, nseg;

	for (p = 0; p * PANEL < u->pixels; p++) {
		size_t left = u->pixels - p * PANEL;
		size_t count = left < PANEL ? left : PANEL;
		const float *sums = r->sums + p * PANEL * u->rows;

		nseg = segs_get(&r->walk, u, u->pixel + p * PANEL, count, segs);
		for (i = 0; i < u->tiles; i++) {
			size_t row = tile_first(&r->walk, u->tile + i);
			size_t rows = tile_first(&r->walk, u->tile + i + 1) - row;
			const float *s = sums + (row - u->row) * PANEL;

			for (j = 0; j < rows; j++) {
				for (k = 0; k < TILE_K && k * C < count; k++)
					vf_store(v + k * C, vf_loadu(s +
						 (k * rows + j) * C));
				for (; k < TILE_K; k++)
					vf_store(v + k * C, vf_zero());
				row_store(r, u, v, segs, nseg,
					  u->g * r->walk.ocg + row + j);
			}
		}
	}
}

void RLX_K(conv_nd)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_nd *a = args;
	struct run r = { .a = a, .walk = walk_of(a), .offs = scratch,
			 .act = { a->act, a->act_a, a->act_b } };
	size_t i, p, n;

	r.panel = (float *)(r.offs + KC);
	r.sums = r.panel + a->pixels * KC;
	for (i = begin; i < end; i++) {
		struct terms t, from;
		bool first = true;
		struct unit u;

		if (!unit_get(&r.walk, i, &u))
			continue;
		terms_begin(&t, &r.walk, &u);
		do {
			from = t;
			for (p = 0, n = 0; p * PANEL < u.pixels; p++) {
				t = from;
				n = panel_fill(&r, &u, &t, p);
			}
			pass_run(&r, &u, n, first);
			first = false;
		} while (t.more);
		unit_store(&r, &u);
	}
}

void RLX_K(conv_nd_pack)(const void *args, size_t begin, size_t end,
			 void *scratch)
{
	const struct rlx_k_conv_nd_pack *pk = args;
	const struct rlx_k_conv_nd *a = pk->conv;
	const struct walk r = walk_of(a);
	size_t g, i, tap, ci, o;

	(void)scratch;
	for (g = begin; g < end; g++) {
		float *d = pk->dst + g * r.ocg * r.icg * r.taps;

		for (i = 0; i < a->tiles; i++) {
			size_t row = tile_first(&r, i), stop;

			stop = tile_first(&r, i + 1);
			for (tap = 0; tap < r.taps; tap++)
				for (ci = 0; ci < r.icg; ci++)
					for (o = row; o < stop; o++)
						*d++ = a->transposed ?
	pk->src[((g * r.icg + ci) * r.ocg + o) * r.taps + tap] :
	pk->src[((g * r.ocg + o) * r.icg + ci) * r.taps + tap];
		}
	}
}
