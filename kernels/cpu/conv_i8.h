/* SPDX-License-Identifier: MIT */
/*
 * The 8-bit convolution kernels, over i8_dot(acc, x, w): each 32-bit lane gets
 * the product of a group of DEPTH elements of type i8_elem of x and w. Built like
 * conv_nd over groups, which conv_i8_group has put together and padded before:
 * vectors are output pixels, weights are broadcast. Included once per level, which may have
 * other tiles (I8_OWN_TILES): struct i8_tile below says what they do.
 */
#ifndef RLX_CPU_CONV_I8_H
#define RLX_CPU_CONV_I8_H

#include <string.h>

#include "kernels/cpu/conv_i8_store.h"
#include "kernels/cpu/conv_panel.h"
#include "kernels/simd/evens.h"

rlx_k_fn RLX_K(conv_i8);
rlx_k_fn RLX_K(conv_i8_pack);
rlx_k_fn RLX_K(conv_i8_group);

#define C	RLX_VL
#define ROWS	(TILE_R > 6 ? 12 : 6)	/* most channels of a tile, as planned */

/* Does @a read its input where it lies? A level whose tiles cannot does not. */
#ifndef I8_IN_PLACE
#define I8_IN_PLACE(a)	false
#endif

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 16")
#endif

struct run {
	const struct rlx_k_conv_i8 *a;
	struct walk	walk;
	int32_t		*panel, *sums, *xsum;
	size_t		plane;		/* of results */
	uint32_t	terms;
	int32_t		x_zero;		/* as the elements in panels have it */
	bool		sum_x;		/* some weight's zero point needs xsum */
	bool		bytes;		/* they are stored, and all scales are numbers */
	struct unit_segs segs;		/* of the input; in place: of the output, as @in */
	struct pass	pass;
};

/*
 * @n groups of @rows channels against a panel, of which @k halves are pixels: what tile_run()
 * adds to @acc or else begins. Weights lie as tile_at() says.
 */
struct i8_tile {
	const int32_t	*w, *x;
	int32_t		*y;
	size_t		n, rows, k;
	bool		acc;
	const struct alike *runs;	/* the groups, from @x on, @apart elements apart */
	size_t		nrun, apart;
	struct alike	one;		/* of a panel */
};

static size_t tile_at(size_t rows, size_t row, size_t k);
/* Ahead of tiles of @rows; behind all of a call. */
static void tiles_shape(size_t rows);
static void tiles_end(void);
static void tile_run(const struct i8_tile *t);

#ifndef I8_OWN_TILES
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

static void tile_run(const struct i8_tile *t)
{
	tiles[t->k - 1][t->rows - 1](t);
}

static void tiles_shape(size_t rows)
{
	(void)rows;
}

static void tiles_end(void)
{
}

/* Of the @k-th group of channel @row, in a tile of @rows. */
static size_t tile_at(size_t rows, size_t row, size_t k)
{
	return k * rows + row;
}
#endif

/* Which elements of a group of tap @tap are there, each as 1. */
static int32_t ones_of(const struct rlx_k_conv_i8 *a, size_t tap)
{
	size_t there = a->shape.k[2] - tap % a->across * a->taps;

	/* of channels those that are not are 0 already */
	if (a->taps == 1 || there >= DEPTH)
		return 0x01010101;
	return 0x01010101 & ((1 << 8 * there) - 1);
}

/* Add a row of groups to the sums of the inputs. */
static void sum_add(const struct run *r, size_t panel, const int32_t *groups, int32_t ones)
{
	int32_t *sum = r->xsum + panel * PANEL;

	for (size_t i = 0; i < PANEL; i += C)
		vi_store(sum + i, i8_dot(vi_load(sum + i), vi_loadu(groups + i), vi_set1(ones)));
}

/* Neighbouring groups of planes @plane elements apart, to rows of a panel. */
struct fill {
	int32_t		*dst;
	const int32_t	*x;
	size_t		planes, plane, len;
};

/* Up to a vector beyond the last is written; but with @room no more than that. */
RLX_INLINE void fill_rows(const struct fill *f, const size_t step, const size_t room)
{
	const struct fill by = *f;
	const int32_t *x = by.x;
	int32_t *d = by.dst;
	size_t i, p;

	for (p = 0; p < by.planes; p++, x += by.plane, d += PANEL)
		for (i = 0; i < by.len; i += C) {
			vi v = step == 1 ? vi_loadu(x + i) : vi_evens(x + 2 * i);

			if (room && i + C > room)
				vi_storen(d + i, v, room - i);
			else
				vi_storeu(d + i, v);
		}
}

/*
 * What one tap reads of some planes for one segment. Those before it in the panel may have written
 * over where it is; what follows its rows has been written.
 */
static void seg_fill(const struct fill *f, size_t step, size_t room)
{
	const bool fits = (f->len + C - 1) / C * C <= room;
	size_t i, p;

	if (step == 1 && fits)
		fill_rows(f, 1, 0);
	else if (step == 1)
		fill_rows(f, 1, room);
	else if (step == 2 && fits)
		fill_rows(f, 2, 0);
	else if (step == 2)
		fill_rows(f, 2, room);
	else
		for (p = 0; p < f->planes; p++)
			for (i = 0; i < f->len; i++)
				f->dst[p * PANEL + i] = f->x[p * f->plane + i * step];
}

/* Where tile_run() finds what the pass reads of a panel. */
static void tile_reads(const struct run *r, struct i8_tile *t)
{
	t->one = (struct alike){ .n = r->pass.n };
	t->runs = I8_IN_PLACE(r->a) ? r->pass.runs : &t->one;
	t->nrun = I8_IN_PLACE(r->a) ? r->pass.nrun : 1;
	t->apart = I8_IN_PLACE(r->a) ? r->walk.a->x_n / r->walk.a->ic : PANEL;
}

/* Add what the pass reads of a panel that need not be gathered to the sums of the inputs. */
static void panel_sum(const struct run *r, const int32_t *x, size_t panel)
{
	struct i8_tile t;
	size_t k, i;

	tile_reads(r, &t);
	for (k = 0; k < t.nrun; k++)
		for (i = 0; i < t.runs[k].n; i++)
			sum_add(r, panel, x + t.runs[k].off + (t.runs[k].ci + i) * t.apart,
				0x01010101);
}

/* Gather the pass's terms for the pixels of one panel. */
static void panel_fill(const struct run *r, const struct unit *u, size_t panel)
{
	const struct rlx_k_conv_nd *a = r->walk.a;
	const struct alike *t = r->pass.runs, *end = t + r->pass.nrun;
	const size_t *first = r->segs.first + panel;
	size_t plane = a->in[0] * a->in[1] * a->in[2], i;
	const int32_t *x = (const int32_t *)r->a->x + u->n * a->x_n +
			   u->g * r->walk.icg * plane;
	int32_t *dst = r->panel + panel * PANEL * KC;

	for (; t < end; t++) {
		for (i = first[0]; i < first[1]; i++) {
			const struct seg *g = &r->segs.s[i];

			seg_fill(&(struct fill){ dst + g->at, x + t->ci * plane + t->off + g->in,
						 t->n, plane, g->len }, a->s[2], PANEL - g->at);
		}
		for (i = 0; i < t->n; i++, dst += PANEL)
			if (r->sum_x)
				sum_add(r, panel, dst, ones_of(r->a, t->tap));
	}
}

/* Of pairs there is little to it, which in line would be copied. */
#if DEPTH == 4
#define FINISH_INLINE	RLX_INLINE
#else
#define FINISH_INLINE	static __attribute__((noinline))
#endif

/* Take the zero points off and add the bias; sums wrap, so unsigned. */
FINISH_INLINE void finish_get(const struct run *r, size_t oc, struct finish *f)
{
	const struct rlx_k_conv_i8 *a = r->a;
	const int32_t *wsum = (const int32_t *)a->w + a->shape.oc * a->packed;

	f->add = a->bias ? (uint32_t)a->bias[oc] : 0;
	f->wz = 0;
	f->scale = a->out != RLX_CONV_I32 ? a->scale[oc] : 0;
	if (DEPTH == 4) {
		/* unsigned weights were moved down to fit */
		f->wz = (a->w_zero ? (uint32_t)a->w_zero[oc] : 0) - (a->w_signed ? 0 : 128);
		f->add -= (uint32_t)r->x_zero * (uint32_t)wsum[oc];
		f->add += (uint32_t)r->x_zero * f->wz * r->terms;
	}
}

/* Pixels [0, s->pixels) of one channel, from element @to on. */
RLX_INLINE void row_store(const struct rlx_k_conv_i8 *a, const struct sums *s,
			  const struct finish *f, size_t to, const bool wz)
{
	const struct bounds q = bounds_of(a);

	if (a->out == RLX_CONV_I32)
		store_ints(s, f, (int32_t *)a->y + to);
	else
		store_bytes(s, f, &q, (uint8_t *)a->y + to, wz);
}

static __attribute__((noinline)) void segs_store(const struct rlx_k_conv_i8 *a,
						 const struct sums *s, const struct finish *f,
						 const struct stored *p, size_t to)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct sums part = sums_from(s, p->g[i].at, p->g[i].len);

		row_store(a, &part, f, to + p->g[i].in, DEPTH == 4);
	}
}

#if defined(RLX_V512)
#define IS_V512	true
#else
#define IS_V512	false
#endif

RLX_INLINE void panel_rows(const struct run *r, struct sums s, const struct finish *f,
			   const struct stored *p, const bool wz)
{
	size_t o, to = p->to;

#if defined(RLX_V512)
	if (r->bytes && p->n == 1 && p->g->len == PANEL) {
		panel_bytes(r->a, s, f, p, wz, true);
		return;
	}
	if (r->bytes) {
		panel_bytes(r->a, s, f, p, wz, false);
		return;
	}
#endif
	for (o = 0; o < p->rows; o++, s.s += PANEL, to += p->plane)
		if (IS_V512 || I8_IN_PLACE(r->a))	/* of few, so out of line */
			segs_store(r->a, &s, &f[o], p, to);
		else
			row_store(r->a, &s, &f[o], to + p->g->in, wz);
}

/*
 * What the last pass gave of panel @p, from channel @oc on. Its pixels lie side by side, whatever
 * rows they are of; but where x is read in place, by segments.
 */
static void panel_store(const struct run *r, const struct unit *u, const struct i8_tile *t,
			size_t p, size_t oc, const struct finish *f)
{
	const size_t left = u->pixels - p * PANEL;
	const struct seg all = { 0, left < PANEL ? left : PANEL, u->pixel + p * PANEL };
	const struct sums s = { t->y, r->xsum + p * PANEL, PANEL, all.len };
	const size_t *first = r->segs.first + p;
	struct stored g = { &all, 1, t->rows, r->plane, u->n * r->walk.a->y_n + oc * r->plane };

	if (I8_IN_PLACE(r->a)) {
		g.g = r->segs.s + first[0];
		g.n = first[1] - first[0];
	}
	if (DEPTH == 4 && r->sum_x)
		panel_rows(r, s, f, &g, true);
	else
		panel_rows(r, s, f, &g, false);
}

/* Of the places of a unit those that are pixels of the output, cut where a row or a panel ends. */
static void places_get(const struct run *r, const struct unit *u, struct unit_segs *q)
{
	const struct rlx_k_conv_nd *g = r->walk.a, *s = &r->a->shape;
	size_t p, at, n, len, x, y, z;

	for (n = p = 0; p * PANEL < u->pixels; p++) {
		const size_t end = u->pixels - p * PANEL < PANEL ? u->pixels - p * PANEL : PANEL;

		q->first[p] = n;
		for (at = 0; at < end; at += len) {
			x = (u->pixel + p * PANEL + at) % g->in[2];
			y = (u->pixel + p * PANEL + at) / g->in[2] % g->in[1];
			z = (u->pixel + p * PANEL + at) / g->in[2] / g->in[1];
			len = x < s->out[2] ? s->out[2] - x : g->in[2] - x;
			len = len < end - at ? len : end - at;
			if (x < s->out[2] && y < s->out[1])
				q->s[n++] = (struct seg){
					at, len, (z * s->out[1] + y) * s->out[2] + x };
		}
	}
	q->first[p] = n;
	q->panels = p;
}

/* The groups of panel @p from @first on. */
static const int32_t *panel_at(const struct run *r, const struct unit *u, size_t p, size_t first)
{
	const struct rlx_k_conv_nd *g = r->walk.a;

	if (I8_IN_PLACE(r->a))
		return (const int32_t *)r->a->x + u->n * g->x_n +
		       u->g * r->walk.icg * (g->x_n / g->ic) + u->pixel + p * PANEL;
	if (DEPTH < 4 || !r->a->panels)
		return r->panel + p * PANEL * KC;
	return (const int32_t *)r->a->x + u->n * g->x_n + u->g * r->walk.icg * (g->x_n / g->ic) +
	       ((u->pixel / PANEL + p) * r->walk.icg + first) * PANEL;
}

/* All tiles by all panels; behind the @last pass there are results. */
static void pass_run(const struct run *r, const struct unit *u, size_t first, bool last)
{
	struct i8_tile t = { .n = r->pass.n, .acc = first > 0 };
	struct finish f[RLX_CONV_I8_TILE_ROWS];
	size_t i, p, o;

	tile_reads(r, &t);
	for (i = 0; i < u->tiles; i++) {
		size_t row = conv_tile_first(r->walk.a, u->tile + i);
		size_t rows = conv_tile_first(r->walk.a, u->tile + i + 1) - row;
		size_t oc = u->g * r->walk.ocg + row;

		t.w = (const int32_t *)r->a->w + first * rows + oc * r->a->packed;
		if (rows != t.rows)	/* one of two, the higher ones first */
			tiles_shape(rows);
		t.rows = rows;
		for (o = 0; last && o < rows; o++)
			finish_get(r, oc + o, &f[o]);
		for (p = 0; p * PANEL < u->pixels; p++) {
			t.k = u->pixels - p * PANEL > PANEL / 2 ? 2 : 1;
			t.x = panel_at(r, u, p, first);
			/* sums of one pass stay in the nearest cache */
			t.y = t.acc || !last ? r->sums + (p * u->rows + row - u->row) * PANEL :
					       r->sums;
			tile_run(&t);
			if (last)
				panel_store(r, u, &t, p, oc, f);
		}
	}
}

/* Are there scales, none of them infinite or NaN? */
static bool scaled_by_numbers(const struct rlx_k_conv_i8 *a)
{
	size_t i;

	for (i = 0; a->out != RLX_CONV_I32 && i < a->shape.oc; i++)
		if (!isfinite(a->scale[i]))
			return false;
	return a->out != RLX_CONV_I32;
}

/* The zero point, as the elements in groups have it. */
static int32_t x_zero(const struct rlx_k_conv_i8 *a)
{
	return zero_point(a) + (DEPTH == 4 && a->x_signed ? 128 : 0);
}

void RLX_K(conv_i8)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_i8 *a = args;
	const struct rlx_k_conv_nd *g = &a->grouped;
	size_t i, p, first;
	struct run r;

	r.a = a;
	r.walk = walk_of(g);
	r.x_zero = x_zero(a);
	r.bytes = scaled_by_numbers(a);
	r.sum_x = DEPTH == 4 && (a->w_zero || !a->w_signed);
	r.plane = a->shape.out[0] * a->shape.out[1] * a->shape.out[2];
	r.terms = (uint32_t)(a->shape.ic / a->shape.groups * a->shape.k[0] * a->shape.k[1] *
			     a->shape.k[2]);
	r.panel = scratch;
	r.sums = r.panel + g->pixels * KC + C;
	r.xsum = r.sums + g->pixels * g->rows;
	for (i = begin; i < end; i++) {
		struct terms t = { 0 };
		struct unit u;

		unit_get(&r.walk, i, &u);
		memset(r.xsum, 0, g->pixels * sizeof(*r.xsum));
		if (I8_IN_PLACE(a))
			places_get(&r, &u, &r.segs);
		else if (!a->panels)
			unit_segs_get(&r.walk, &u, &r.segs);
		for (first = 0; t.tap < r.walk.taps; first += r.pass.n) {
			pass_get(&r.pass, &t, &r.walk, I8_IN_PLACE(a) ? a->groups : KC);
			for (p = 0; p * PANEL < u.pixels; p++)
				if (DEPTH < 4 || !(a->panels || I8_IN_PLACE(a)))
					panel_fill(&r, &u, p);
				else if (r.sum_x)
					panel_sum(&r, panel_at(&r, &u, p, first), p);
			pass_run(&r, &u, first, t.tap == r.walk.taps);
		}
	}
	tiles_end();
}

/* Input bytes as elements at @shift of groups, over those before; @n of them, @step apart. */
RLX_INLINE void elements(const struct rlx_k_conv_i8 *a, uint32_t *dst, const uint8_t *x,
			 size_t n, size_t step, unsigned int shift)
{
	const uint32_t flip = a->x_signed ? 0x80 : 0;
	/* of pairs the zero point is taken off, with what the flip has added */
	const uint32_t off = DEPTH == 4 ? 0 : (uint32_t)zero_point(a) + flip;
	const uint32_t mask = DEPTH == 4 ? UINT8_MAX : UINT16_MAX;
	size_t i;

	for (i = 0; i < n; i++)
		dst[i] |= (((x[i * step] ^ flip) - off) & mask) << shift;
}

/* Rows of a plane of groups; where whole rows follow one another they are one. */
struct rows {
	size_t	n[3];		/* planes, rows, groups of a row */
	size_t	in[3], step[3], p[3];
	size_t	planes, size;	/* of a group; of a plane with what fills up its last panel */
};

static struct rows rows_of(const struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *s = &a->shape;
	struct rows r = { .planes = a->grouped.ic / s->groups,
			  .size = a->grouped.x_n / a->grouped.ic };
	size_t j;

	for (j = 0; j < 3; j++) {
		r.n[j] = a->padded[j];
		r.in[j] = s->in[j];
		r.step[j] = a->step[j];
		r.p[j] = s->p[j];
	}
	for (j = 2; j-- > 0;) {
		if (a->taps > 1 || r.p[2] || r.step[2] > 1 || r.in[2] != r.n[2] ||
		    r.step[j] > 1)
			break;
		r.p[2] = r.p[j] * r.n[2];
		r.n[2] *= r.n[j];
		r.in[2] *= r.in[j];
		r.n[j] = r.in[j] = r.step[j] = 1;
		r.p[j] = 0;
	}
	return r;
}

/* Element @j of the groups of one row, from row @x of a channel; NULL: it is padding. */
static void row_group(const struct rlx_k_conv_i8 *a, const struct rows *r, uint32_t *dst,
		      const uint8_t *x, size_t j)
{
	const uint32_t pad = (uint32_t)(DEPTH == 4 ? x_zero(a) : 0) << 32 / DEPTH * j;
	size_t off = a->taps > 1 ? j * a->shape.d[2] : 0;
	size_t step = r->step[2], n = r->n[2];
	size_t skip = r->p[2] > off ? r->p[2] - off : 0;
	size_t from = r->p[2] > off ? 0 : off - r->p[2], i, lo, hi;

	/* the first group whose element is there, and the first beyond the input */
	lo = (skip + step - 1) / step;
	hi = r->in[2] + skip > from ? (r->in[2] + skip - from + step - 1) / step : 0;
	lo = x && lo < n ? lo : n;
	hi = hi < lo ? lo : hi < n ? hi : n;
	for (i = 0; pad && i < lo; i++)
		dst[i] |= pad;
	if (lo < hi && step == 1)
		elements(a, dst + lo, x + from + lo - skip, hi - lo, 1, 32 / DEPTH * j);
	else if (lo < hi)
		elements(a, dst + lo, x + from + lo * step - skip, hi - lo, step,
			 32 / DEPTH * j);
	for (i = hi; pad && i < n; i++)
		dst[i] |= pad;
}

RLX_INLINE vi side_by_side(vi b0, vi b1, vi b2, vi b3, vi flip)
{
	return (b0 | b1 << 8 | b2 << 16 | b3 << 24) ^ flip;
}

/* Bytes of four channels, @plane apart, side by side: @n of a row, @step apart. */
static void interleave(uint32_t *restrict dst, const uint8_t *restrict x, size_t plane, size_t n,
		       size_t step, uint32_t flip)
{
	const uint8_t *restrict x1 = x + plane, *restrict x2 = x1 + plane,
		      *restrict x3 = x2 + plane;
	const vi f = vi_set1((int32_t)flip);
	size_t i = 0;

	for (; step == 1 && i + C <= n; i += C)
		vi_storeu(dst + i, side_by_side(vi_loadu_u8(x + i), vi_loadu_u8(x1 + i),
						vi_loadu_u8(x2 + i), vi_loadu_u8(x3 + i), f));
	if (step == 1 && i < n)
		vi_storen((int32_t *)dst + i,
			  side_by_side(vi_loadn_u8(x + i, n - i), vi_loadn_u8(x1 + i, n - i),
				       vi_loadn_u8(x2 + i, n - i), vi_loadn_u8(x3 + i, n - i), f),
			  n - i);
	/* the last pair may end behind what is there */
	for (; step == 2 && i + C < n; i += C)
		vi_storeu(dst + i, side_by_side(vi_loadu_i16(x + 2 * i) & 255,
						vi_loadu_i16(x1 + 2 * i) & 255,
						vi_loadu_i16(x2 + 2 * i) & 255,
						vi_loadu_i16(x3 + 2 * i), f));
	for (; step > 1 && i < n; i++)
		dst[i] = (x[i * step] | (uint32_t)x1[i * step] << 8 |
			  (uint32_t)x2[i * step] << 16 | (uint32_t)x3[i * step] << 24) ^ flip;
}

/* row_groups() where four channels make a group, and neighbours neighbours. */
static void row_of_four(const struct rlx_k_conv_i8 *a, const struct rows *r, uint32_t *dst,
			const uint8_t *x)
{
	size_t plane = a->shape.in[0] * a->shape.in[1] * a->shape.in[2], n = r->n[2], i;
	size_t lo = x && r->p[2] < n ? r->p[2] : n;
	size_t hi = r->in[2] < n - lo ? lo + r->in[2] : n;
	const uint32_t pad = 0x01010101u * (uint32_t)x_zero(a);

	for (i = 0; i < lo; i++)
		dst[i] = pad;
	if (lo < hi)
		interleave(dst + lo, x, plane, hi - lo, 1, a->x_signed ? 0x80808080 : 0);
	for (i = hi; i < n; i++)
		dst[i] = pad;
}

/* The group of four neighbouring taps at place @i of a row, of which some may be padding. */
static uint32_t taps_at(const struct rlx_k_conv_i8 *a, const struct rows *r, const uint8_t *x,
			size_t i)
{
	uint32_t group = 0;

	for (size_t j = 0; j < 4; j++) {
		const size_t at = i + j * a->shape.d[2] - r->p[2];	/* before 0: beyond all */
		const uint32_t v = x && at < r->in[2] ? x[at] ^ (a->x_signed ? 0x80u : 0) :
						       (uint32_t)x_zero(a);

		group |= v << 8 * j;
	}
	return group;
}

/* row_groups() where four taps make a group: within the row all of them are there. */
static void row_of_taps(const struct rlx_k_conv_i8 *a, const struct rows *r, uint32_t *dst,
			const uint8_t *x)
{
	const size_t n = r->n[2], d = a->shape.d[2];
	const size_t all = x && r->in[2] > 3 * d ? r->in[2] - 3 * d : 0;
	const size_t lo = all && r->p[2] < n ? r->p[2] : n, hi = all < n - lo ? lo + all : n;
	size_t i;

	for (i = 0; i < lo; i++)
		dst[i] = taps_at(a, r, x, i);
	if (lo < hi)
		interleave(dst + lo, x, d, hi - lo, 1, a->x_signed ? 0x80808080 : 0);
	for (i = hi; i < n; i++)
		dst[i] = taps_at(a, r, x, i);
}

/* One row of groups of @n channels, the first of them at @x; NULL: it is padding. */
static void row_groups(const struct rlx_k_conv_i8 *a, const struct rows *r, uint32_t *dst,
		       const uint8_t *x, size_t n)
{
	size_t plane = a->shape.in[0] * a->shape.in[1] * a->shape.in[2], j;
	size_t next = a->taps > 1 ? 0 : plane;

	if (n == 4 && DEPTH == 4 && a->taps == 1 && r->step[2] == 1) {
		row_of_four(a, r, dst, x);
		return;
	}
	if (DEPTH == 4 && a->taps == 4 && r->step[2] == 1) {
		row_of_taps(a, r, dst, x);
		return;
	}
	memset(dst, 0, r->n[2] * sizeof(*dst));
	for (j = 0; j < n * a->taps; j++)
		row_group(a, r, dst, x ? x + j * next : NULL, j);
}

/* A row of @chans channels to panels, from pixel @at of @y on. */
static void row_panels(const struct rlx_k_conv_i8 *a, const struct rows *r, uint32_t *y,
		       const uint8_t *x, size_t at, size_t chans)
{
	const size_t plane = a->shape.in[0] * a->shape.in[1] * a->shape.in[2];
	struct rows part = *r;
	size_t i, n;

	for (i = 0; i < r->n[2]; i += n, at += n, x += n * r->step[2]) {
		uint32_t *dst = y + at / PANEL * PANEL * r->planes + at % PANEL;

		n = PANEL - at % PANEL < r->n[2] - i ? PANEL - at % PANEL : r->n[2] - i;
		if (chans == 4) {
			interleave(dst, x, plane, n, r->step[2], a->x_signed ? 0x80808080 : 0);
			continue;
		}
		part.n[2] = n;
		part.in[2] = r->in[2] - i * r->step[2];
		row_groups(a, &part, dst, x, chans);
	}
}

void RLX_K(conv_i8_group)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_i8 *a = args;
	const struct rlx_k_conv_nd *s = &a->shape;
	const struct rows r = rows_of(a);
	size_t icg = s->ic / s->groups, chans = DEPTH / a->taps, i, z, y, at;
	size_t plane = s->in[0] * s->in[1] * s->in[2];

	(void)scratch;
	for (i = begin; i < end; i++) {
		size_t ng = i / r.planes, c = i % r.planes;
		uint32_t *dst = (uint32_t *)a->y + (a->panels ? ng * r.planes * r.size + c * PANEL :
						    i * r.size);
		const uint8_t *x = (const uint8_t *)a->x + ng / s->groups * s->x_n +
				   (ng % s->groups * icg + c * chans) * plane;
		size_t left = icg - c * chans < chans ? icg - c * chans : chans;

		for (at = z = 0; z < r.n[0]; z++)
			for (y = 0; y < r.n[1]; y++, at += r.n[2]) {
				/* before the input: beyond all that there is */
				size_t iz = z * r.step[0] - r.p[0], iy = y * r.step[1] - r.p[1];
				const uint8_t *row = iz < r.in[0] && iy < r.in[1] ?
						     x + (iz * r.in[1] + iy) * r.in[2] : NULL;

				if (DEPTH == 4 && a->panels)
					row_panels(a, &r, dst, row, at, left);
				else
					row_groups(a, &r, dst + at, row, left);
			}
	}
}

/* Where in the weights of an output channel the elements of group @k are; -1: nowhere, for 0 */
static void group_at(const struct rlx_k_conv_i8 *a, size_t k, ptrdiff_t at[DEPTH])
{
	size_t icg = a->shape.ic / a->shape.groups, planes = a->grouped.ic / a->shape.groups;
	size_t tap = k / planes, ci = k % planes * (DEPTH / a->taps);
	size_t row = tap / a->across, across = tap % a->across * a->taps, j;

	for (j = 0; j < DEPTH; j++) {
		size_t c = a->taps > 1 ? ci : ci + j, t = a->taps > 1 ? across + j : across;

		at[j] = c < icg && t < a->shape.k[2] ?
			(ptrdiff_t)((c * a->shape.k[0] * a->shape.k[1] + row) * a->shape.k[2] + t) :
			-1;
	}
}

/*
 * A group of output channel @oc, whose weights begin at @w, from where @at says; their sum. In line
 * it would be unrolled.
 */
static __attribute__((noinline)) int32_t group_pack(const struct rlx_k_conv_i8 *a, size_t oc,
						    const void *w, const ptrdiff_t at[DEPTH],
						    i8_elem *d)
{
	const int32_t zero = DEPTH != 4 ? a->w_zero ? a->w_zero[oc] : 0 : a->w_signed ? 0 : 128;
	int32_t sum = 0, v;

	for (size_t j = 0; j < DEPTH; j++) {
		v = 0;
		if (at[j] >= 0)
			v = (a->w_signed ? ((const int8_t *)w)[at[j]] :
					   ((const uint8_t *)w)[at[j]]) - zero;
		d[j] = (i8_elem)v;
		sum += v;
	}
	return sum;
}

/* Small (cold): its time is group_pack()'s. */
__attribute__((cold)) void RLX_K(conv_i8_pack)(const void *args, size_t begin, size_t end,
					       void *scratch)
{
	const struct rlx_k_conv_i8_pack *pk = args;
	const struct rlx_k_conv_i8 *a = pk->conv;
	const struct walk r = walk_of(&a->grouped);
	int32_t *wsum = (int32_t *)pk->dst + a->shape.oc * a->packed;
	const size_t each = a->shape.ic / a->shape.groups * a->shape.k[0] * a->shape.k[1] *
			    a->shape.k[2];
	ptrdiff_t at[DEPTH];
	size_t g, i, k, o, row, rows;
	int32_t *d;

	(void)scratch;
	for (g = begin; g < end; g++) {
		const size_t first = g * r.ocg;

		memset(wsum + first, 0, r.ocg * sizeof(*wsum));
		for (i = 0; i < a->grouped.tiles; i++) {
			row = conv_tile_first(r.a, i);
			rows = conv_tile_first(r.a, i + 1) - row;
			d = (int32_t *)pk->dst + (first + row) * a->packed;
			memset(d, 0, rows * a->packed * sizeof(*d));
			for (k = 0; k < a->groups; k++) {
				group_at(a, k, at);
				for (o = 0; o < rows; o++)
					wsum[first + row + o] +=
						group_pack(a, first + row + o,
							   (const char *)pk->src +
							   (first + row + o) * each, at,
							   (i8_elem *)(d + tile_at(rows, o, k)));
			}
		}
	}
}

#endif
