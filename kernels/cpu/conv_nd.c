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

rlx_k_fn RLX_K(conv_nd);
rlx_k_fn RLX_K(conv_nd_pack);

#define C	RLX_VL

struct run {
	const struct rlx_k_conv_nd *a;
	struct walk	walk;
	ptrdiff_t	*offs;
	float		*panel, *sums;
	struct conv_act	act;
	struct unit_segs segs;
	struct pass	pass;
};

/* What one tap reads of one channel's plane @x. */
static void channel_fill(float *dst, const float *x, const struct cut *c,
			 size_t n, size_t step)
{
	size_t i;

	for (; n--; c++) {
		const float *s = x + c->from;
		float *d = dst + c->at;

		if (c->i1 - c->i0 == PANEL && step == 1) {
			for (i = 0; i < PANEL; i += C)
				vf_store(d + i, vf_loadu(s + i));
			continue;
		}
		for (i = 0; i < c->i0; i++)
			d[i] = 0;
		if (step == 1) {
			for (; i + C <= c->i1; i += C, s += C)
				vf_storeu(d + i, vf_loadu(s));
			for (; i < c->i1; i++)
				d[i] = *s++;
		} else {
			for (; i < c->i1; i++, s += step)
				d[i] = *s;
		}
		for (; i < c->len; i++)
			d[i] = 0;
	}
}

/* Gather the pass's terms for the pixels of one panel. */
static void panel_fill(const struct run *r, const struct unit *u, size_t panel)
{
	const struct rlx_k_conv_nd *a = r->a;
	const struct alike *t = r->pass.runs, *end = t + r->pass.nrun;
	const size_t *first = r->segs.first + panel;
	size_t plane = a->in[0] * a->in[1] * a->in[2], i, j;
	size_t left = u->pixels - panel * PANEL, nseg = first[1] - first[0];
	size_t count = left < PANEL ? left : PANEL;
	size_t width = count > C ? PANEL : C;
	float *dst = r->panel + panel * PANEL * KC;
	const float *x = a->x + u->n * a->x_n + u->g * r->walk.icg * plane;
	struct cut cuts[PANEL];

	for (; t < end; t++) {
		cuts_get(&r->walk, u, r->segs.s + first[0], nseg, t->off, cuts);
		for (i = 0; i < t->n; i++, dst += width) {
			channel_fill(dst, x + (t->ci + i) * plane, cuts, nseg,
				     (size_t)u->step[2]);
			for (j = count; j < width; j++)
				dst[j] = 0;
		}
	}
}

/* Where the weights of the pass's terms are, counted in terms. */
static void offs_fill(const struct run *r)
{
	const struct alike *t = r->pass.runs, *end = t + r->pass.nrun;
	ptrdiff_t *o = r->offs;

	for (; t < end; t++)
		for (size_t i = 0; i < t->n; i++)
			*o++ = (ptrdiff_t)(t->tap * r->walk.icg + t->ci + i);
}

/* @n gathered terms against all weights of the unit, into r->sums. */
static void pass_run(const struct run *r, const struct unit *u, size_t n,
		     bool first)
{
	static const _Alignas(64) float zero[PANEL];
	size_t terms = r->walk.icg * r->walk.taps, i, p, j, rows, last = 1;
	struct conv_tile t = {
		.offs = r->offs, .nfull = n, .bias = zero,
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
			t.res = first ? NULL : t.y;
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
	_Alignas(64) float v[PANEL];
	size_t p, i, j, k;

	for (p = 0; p * PANEL < u->pixels; p++) {
		size_t left = u->pixels - p * PANEL;
		size_t count = left < PANEL ? left : PANEL;
		const float *sums = r->sums + p * PANEL * u->rows;
		const struct seg *segs = r->segs.s + r->segs.first[p];
		size_t nseg = r->segs.first[p + 1] - r->segs.first[p];

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
	struct run r;
	size_t i, p;

	r.a = a;
	r.walk = walk_of(a);
	r.act = (struct conv_act){ a->act, a->act_a, a->act_b };
	r.offs = scratch;
	r.panel = (float *)(r.offs + KC);
	r.sums = r.panel + a->pixels * KC;
	for (i = begin; i < end; i++) {
		bool first = true;
		struct terms t;
		struct unit u;

		if (!unit_get(&r.walk, i, &u))
			continue;
		unit_segs_get(&r.walk, &u, &r.segs);
		terms_begin(&t, &r.walk, &u);
		do {
			pass_get(&r.pass, &t, &r.walk, &u);
			for (p = 0; p < r.segs.panels; p++)
				panel_fill(&r, &u, p);
			offs_fill(&r);
			pass_run(&r, &u, r.pass.n, first);
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
