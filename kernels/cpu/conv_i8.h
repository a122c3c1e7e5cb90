/* SPDX-License-Identifier: MIT */
/*
 * The 8-bit convolution kernels, over i8_dot(acc, x, w): each 32-bit lane gets
 * the product of DEPTH elements of type i8_elem of x and w. Built like conv_nd:
 * vectors are output pixels, weights are broadcast. Included once per level.
 */
#ifndef RLX_CPU_CONV_I8_H
#define RLX_CPU_CONV_I8_H

#include <string.h>

#include "kernels/cpu/conv_nd.h"

rlx_k_fn RLX_K(conv_i8);
rlx_k_fn RLX_K(conv_i8_pack);

#define C	RLX_VL
#define KG	(KC / DEPTH)		/* groups of a pass */
#define ROWS	(TILE_R > 6 ? 12 : 6)	/* most channels of a tile, as planned */

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 16")
#endif

struct run {
	const struct rlx_k_conv_i8 *a;
	struct walk	walk;
	int32_t		*panel, *sums, *xsum;
	int32_t		x_zero;		/* as the elements in panels have it */
	bool		sum_x;		/* some weight's zero point needs xsum */
	struct unit_segs segs;
	struct pass	pass;
};

/* @n groups of @rows channels against one panel of @k vectors of pixels. */
struct i8_tile {
	const int32_t	*w, *x;
	int32_t		*y;
	size_t		n;
	bool		acc;
};

RLX_INLINE void tile(const struct i8_tile *t, const int R, const int K)
{
	const int32_t *x = t->x, *w = t->w;
	vi acc[TILE_K][16];

	UNROLL
	for (int k = 0; k < K; k++) {
		UNROLL
		for (int r = 0; r < R; r++)
			acc[k][r] = t->acc ? vi_load(t->y + r * PANEL + k * C) :
					     vi_zero();
	}
	for (size_t i = 0; i < t->n; i++, x += PANEL, w += R) {
		vi xv[TILE_K];

		UNROLL
		for (int k = 0; k < K; k++)
			xv[k] = vi_load(x + k * C);
		UNROLL
		for (int r = 0; r < R; r++) {
			vi wv = vi_set1(w[r]);

			UNROLL
			for (int k = 0; k < K; k++)
				acc[k][r] = i8_dot(acc[k][r], xv[k], wv);
		}
	}
	UNROLL
	for (int k = 0; k < K; k++) {
		UNROLL
		for (int r = 0; r < R; r++)
			vi_store(t->y + r * PANEL + k * C, acc[k][r]);
	}
}

#define I8_TILES_6(F)	F(1) F(2) F(3) F(4) F(5) F(6)
#if TILE_R > 6
#define I8_TILES(F)	I8_TILES_6(F) F(7) F(8) F(9) F(10) F(11) F(12)
#else
#define I8_TILES(F)	I8_TILES_6(F)
#endif
#define I8_DEFINE(R)							\
static void tile_1_##R(const struct i8_tile *t)				\
{									\
	tile(t, R, 1);							\
}									\
static void tile_2_##R(const struct i8_tile *t)				\
{									\
	tile(t, R, 2);							\
}
I8_TILES(I8_DEFINE)
#define I8_ONE(R)	tile_1_##R,
#define I8_TWO(R)	tile_2_##R,

typedef void i8_tile_fn(const struct i8_tile *t);

static i8_tile_fn *const tiles[TILE_K][ROWS] = {
	{ I8_TILES(I8_ONE) }, { I8_TILES(I8_TWO) },
};

/* An input byte as an element of a panel. */
RLX_INLINE i8_elem x_elem(const struct run *r, uint8_t v)
{
	if (DEPTH == 4)		/* unsigned; the zero point moves along */
		return (i8_elem)(r->a->x_signed ? v ^ 0x80 : v);
	return (i8_elem)((r->a->x_signed ? (int8_t)v : v) - r->x_zero);
}

/* What padding is: the zero point. */
static i8_elem x_pad(const struct run *r)
{
	return (i8_elem)(DEPTH == 4 ? r->x_zero : 0);
}

/* What one tap reads of one channel's plane @x. */
static void channel_fill(const struct run *r, i8_elem *dst, const uint8_t *x,
			 const struct cut *c, size_t n)
{
	const size_t step = r->walk.a->s[2];
	const i8_elem pad = x_pad(r);
	size_t i;

	for (; n--; c++) {
		const uint8_t *s = x + c->from;
		i8_elem *d = dst + c->at;

		for (i = 0; i < c->i0; i++)
			d[i] = pad;
		if (step == 1)
			for (; i < c->i1; i++)
				d[i] = x_elem(r, *s++);
		else
			for (; i < c->i1; i++, s += step)
				d[i] = x_elem(r, *s);
		for (; i < c->len; i++)
			d[i] = pad;
	}
}

/* DEPTH rows of elements, interleaved into one row of groups. */
static void interleave(int32_t *dst, i8_elem rows[DEPTH][PANEL])
{
	/* by shifts, which vectorise; the first element is the lowest */
	for (size_t i = 0; i < PANEL; i++) {
		uint32_t v = 0;

		for (size_t j = 0; j < DEPTH; j++)
			v |= (DEPTH == 4 ? (uint32_t)(uint8_t)rows[j][i] :
					   (uint32_t)(uint16_t)rows[j][i]) <<
			     32 / DEPTH * j;
		dst[i] = (int32_t)v;
	}
}

/* Add a row of groups to the sums of the inputs, where those are needed. */
static void sum_add(const struct run *r, size_t panel, const int32_t *groups)
{
	int32_t *sum = r->xsum + panel * PANEL;

	for (size_t i = 0; r->sum_x && i < PANEL; i += C)
		vi_store(sum + i, i8_dot(vi_load(sum + i), vi_load(groups + i),
					 vi_set1(0x01010101)));
}

/* Gather the pass's terms for the pixels of one panel, in groups. */
static void panel_fill(const struct run *r, const struct unit *u, size_t panel)
{
	const struct rlx_k_conv_nd *a = r->walk.a;
	const struct alike *t = r->pass.runs, *end = t + r->pass.nrun;
	const size_t *first = r->segs.first + panel;
	size_t plane = a->in[0] * a->in[1] * a->in[2], n = 0, i;
	size_t nseg = first[1] - first[0];
	const uint8_t *x = (const uint8_t *)r->a->x + u->n * a->x_n +
			   u->g * r->walk.icg * plane;
	int32_t *dst = r->panel + panel * PANEL * KG;
	i8_elem rows[DEPTH][PANEL];
	struct cut cuts[PANEL];

	memset(rows, 0, sizeof(rows));
	for (; t < end; t++) {
		cuts_get(&r->walk, u, r->segs.s + first[0], nseg, t->off, cuts);
		for (i = 0; i < t->n; i++, n++) {
			i8_elem *row = rows[n % DEPTH];

			channel_fill(r, row, x + (t->ci + i) * plane, cuts,
				     nseg);
			if (n % DEPTH < DEPTH - 1)
				continue;
			interleave(dst, rows);
			sum_add(r, panel, dst);
			dst += PANEL;
			memset(rows, 0, sizeof(rows));
		}
	}
	if (n % DEPTH) {
		interleave(dst, rows);
		sum_add(r, panel, dst);
	}
}

static void pass_run(const struct run *r, const struct unit *u, size_t first,
		     size_t n)
{
	struct i8_tile t = { .n = n, .acc = first > 0 };
	size_t i, p;

	for (i = 0; i < u->tiles; i++) {
		size_t row = tile_first(&r->walk, u->tile + i);
		size_t rows = tile_first(&r->walk, u->tile + i + 1) - row;

		t.w = (const int32_t *)r->a->w + first * rows +
		      (u->g * r->walk.ocg + row) * r->a->groups;
		for (p = 0; p * PANEL < u->pixels; p++) {
			size_t k = u->pixels - p * PANEL > C ? 2 : 1;

			t.x = r->panel + p * PANEL * KG;
			t.y = r->sums + (p * u->rows + row - u->row) * PANEL;
			tiles[k - 1][rows - 1](&t);
		}
	}
}

/* Take the zero points off and add the bias; sums wrap, so unsigned. */
static void row_correct(const struct run *r, int32_t *v, const int32_t *xsum,
			size_t oc)
{
	const struct rlx_k_conv_i8 *a = r->a;
	const int32_t *wsum = (const int32_t *)a->w + a->shape.oc * a->groups;
	uint32_t add = a->bias ? (uint32_t)a->bias[oc] : 0, wz = 0;

	if (DEPTH == 4) {
		/* unsigned weights were moved down to fit */
		wz = (a->w_zero ? (uint32_t)a->w_zero[oc] : 0) -
		     (a->w_signed ? 0 : 128);
		add -= (uint32_t)r->x_zero * (uint32_t)wsum[oc];
		add += (uint32_t)r->x_zero * wz *
		       (uint32_t)(r->walk.icg * r->walk.taps);
	}
	for (size_t i = 0; i < PANEL; i++)
		v[i] = (int32_t)((uint32_t)v[i] + add);
	for (size_t i = 0; wz && i < PANEL; i++)
		v[i] = (int32_t)((uint32_t)v[i] - wz * (uint32_t)xsum[i]);
}

/* Scale, round, clamp: the 8-bit value, still in 32 bits. */
static void row_scale(const struct rlx_k_conv_i8 *a, int32_t *v, float scale)
{
	const vf lo = vf_set1((float)(a->lo - a->y_zero));
	const vf hi = vf_set1((float)(a->hi - a->y_zero));

	for (size_t i = 0; i < PANEL; i += C) {
		vf f = vf_from_vi(vi_load(v + i)) * vf_set1(scale);

		f = vf_min(hi, vf_max(lo, f));
		vi_store(v + i, vi_round(f) + vi_set1(a->y_zero));
	}
}

/* A function of its own, for the compiler to see that nothing overlaps. */
static void narrow(uint8_t *restrict to, const int32_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)from[i];
}

static void row_store(const struct run *r, const struct unit *u,
		      const int32_t *v, const struct seg *segs, size_t nseg,
		      size_t oc)
{
	const struct rlx_k_conv_nd *s = r->walk.a;
	size_t plane = s->out[0] * s->out[1] * s->out[2], i;
	size_t base = u->n * s->y_n + oc * plane;

	for (i = 0; i < nseg; i++) {
		size_t at = base + segs[i].out;
		const int32_t *from = v + segs[i].at;

		if (r->a->out == RLX_CONV_I32)
			memcpy((int32_t *)r->a->y + at, from,
			       segs[i].len * sizeof(*from));
		else
			narrow((uint8_t *)r->a->y + at, from, segs[i].len);
	}
}

static void unit_store(const struct run *r, const struct unit *u)
{
	size_t p, i;

	for (p = 0; p * PANEL < u->pixels; p++) {
		size_t left = u->pixels - p * PANEL;
		int32_t *v = r->sums + p * u->rows * PANEL;
		const struct seg *segs = r->segs.s + r->segs.first[p];
		size_t nseg = r->segs.first[p + 1] - r->segs.first[p];

		for (i = 0; i < u->rows; i++, v += PANEL) {
			size_t oc = u->g * r->walk.ocg + u->row + i;

			if (left <= C)	/* the tile did not write these */
				memset(v + C, 0, C * sizeof(*v));
			row_correct(r, v, r->xsum + p * PANEL, oc);
			if (r->a->out != RLX_CONV_I32)
				row_scale(r->a, v, r->a->scale[oc]);
			row_store(r, u, v, segs, nseg, oc);
		}
	}
}

void RLX_K(conv_i8)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_i8 *a = args;
	size_t i, p, first;
	struct run r;

	r.a = a;
	r.walk = walk_of(&a->shape);
	r.x_zero = a->x_zero + (DEPTH == 4 && a->x_signed ? 128 : 0);
	r.sum_x = DEPTH == 4 && (a->w_zero || !a->w_signed);
	r.panel = scratch;
	r.sums = r.panel + a->shape.pixels * KG;
	r.xsum = r.sums + a->shape.pixels * a->shape.rows;
	for (i = begin; i < end; i++) {
		struct terms t;
		struct unit u;

		if (!unit_get(&r.walk, i, &u))
			continue;
		memset(r.xsum, 0, a->shape.pixels * sizeof(*r.xsum));
		unit_segs_get(&r.walk, &u, &r.segs);
		terms_begin(&t, &r.walk, &u);
		for (first = 0; t.more; first += KG) {
			pass_get(&r.pass, &t, &r.walk, &u);
			for (p = 0; p < r.segs.panels; p++)
				panel_fill(&r, &u, p);
			pass_run(&r, &u, first, (r.pass.n + DEPTH - 1) / DEPTH);
		}
		unit_store(&r, &u);
	}
}

/* Weight @k of output channel @oc as an element, summed for the zero points. */
static i8_elem w_elem(const struct rlx_k_conv_i8_pack *pk, size_t oc, size_t k,
		      int32_t *sum)
{
	const struct rlx_k_conv_i8 *a = pk->conv;
	const struct walk r = walk_of(&a->shape);
	size_t at = (oc * r.icg + k % r.icg) * r.taps + k / r.icg;
	int32_t v;

	if (k >= r.icg * r.taps)
		return 0;
	v = a->w_signed ? ((const int8_t *)pk->src)[at] :
			  ((const uint8_t *)pk->src)[at];
	if (DEPTH == 4)
		v -= a->w_signed ? 0 : 128;
	else
		v -= a->w_zero ? a->w_zero[oc] : 0;
	*sum += v;
	return (i8_elem)v;
}

void RLX_K(conv_i8_pack)(const void *args, size_t begin, size_t end,
			 void *scratch)
{
	const struct rlx_k_conv_i8_pack *pk = args;
	const struct rlx_k_conv_i8 *a = pk->conv;
	const struct walk r = walk_of(&a->shape);
	int32_t *wsum = (int32_t *)pk->dst + a->shape.oc * a->groups;
	size_t g, i, j, k, o, row, stop;

	(void)scratch;
	for (g = begin; g < end; g++) {
		i8_elem *d = (i8_elem *)((int32_t *)pk->dst +
					 g * r.ocg * a->groups);

		memset(wsum + g * r.ocg, 0, r.ocg * sizeof(*wsum));
		for (i = 0; i < a->shape.tiles; i++) {
			row = tile_first(&r, i);
			stop = tile_first(&r, i + 1);
			for (k = 0; k < a->groups; k++)
				for (o = row; o < stop; o++)
					for (j = 0; j < DEPTH; j++)
						*d++ = w_elem(pk, g * r.ocg + o,
							k * DEPTH + j,
							&wsum[g * r.ocg + o]);
		}
	}
}

#endif
