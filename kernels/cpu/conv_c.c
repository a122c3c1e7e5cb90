// SPDX-License-Identifier: MIT
/*
 * Blocked direct convolution. A unit's input pixels are used in place, or are
 * copied to scratch once with the padding filled in and the columns sorted by
 * their phase modulo the stride, so that neighbours in the output are
 * neighbours there too and the tile needs no edge cases. Rows of taps that are
 * padding for a row of the output are left out of its sums.
 *
 * Terms come by rows of taps, so that what a row leaves out is at both ends:
 * first those of rlx_conv_lanes() input channels, then those of the channels
 * that are left. A block has one or two such, in one order at v3 and v4.
 */
#include <string.h>

#include "kernels/cpu/conv_tile.h"
#include "kernels/cpu/conv_unit.h"

rlx_k_fn RLX_K(conv_c);
rlx_k_fn RLX_K(conv_c_pack);

#define C	RLX_VL

/* One call: what is the same for all its units, and what scratch holds. */
struct run {
	const struct rlx_k_conv_c *a;
	size_t		icg, icb, taps;		/* per group */
	size_t		lanes, full, terms;	/* of a term; a tap's with all lanes, and all */
	size_t		pairs;			/* output block pairs of a group */
	ptrdiff_t	*offs;
	float		*copy;
	size_t		row_pitch, tap_pitch;	/* of the tile's input, elements; of rows of taps */
	const float	*x;			/* the block's first pixel */
	struct conv_act	act;
	struct conv_fuse fuse;
	bool		fused;			/* fuse is all of act */
};

/* The @i-th row of the output, in the order of units: those a->apart from one another. */
static size_t row_get(const struct rlx_k_conv_c *a, size_t i)
{
	size_t least = a->oh / a->apart, more = a->oh % a->apart * (least + 1);

	if (i < more)
		return i % (least + 1) * a->apart + i / (least + 1);
	i -= more;
	return i % least * a->apart + i / least + a->oh % a->apart;
}

/* A row of the output, the rows of its taps that read the input, and where in the copy. */
struct row {
	size_t		oy, y[2];
	ptrdiff_t	in;		/* row 0 of taps */
};

static struct row row_first(const struct rlx_k_conv_c *a, const struct conv_unit *u)
{
	struct row r = { .oy = u->oy };

	rlx_conv_rows(a, r.oy, r.y);
	r.in = -(ptrdiff_t)r.y[0];
	return r;
}

/* The one after, if the unit has one; that shares rows of the input, or is behind them. */
static void row_next(const struct rlx_k_conv_c *a, struct row *r)
{
	const bool shares = r->oy + a->apart < a->oh;
	ptrdiff_t end = r->in + (ptrdiff_t)r->y[1];

	r->oy = shares ? r->oy + a->apart : r->oy % a->apart + 1;
	rlx_conv_rows(a, r->oy, r->y);
	r->in = shares ? r->in + (ptrdiff_t)a->step : end - (ptrdiff_t)r->y[0];
}

static struct conv_unit unit_get(const struct run *r, size_t i)
{
	const struct conv_grid grid = CONV_GRID(r->a, r->pairs);
	struct conv_unit u = conv_unit_at(&grid, i);

	u.oy = row_get(r->a, u.oy);
	return u;
}

static void offs_fill(struct run *r)
{
	const struct rlx_k_conv_c *a = r->a;
	size_t plane = a->copy ? a->in_rows * r->row_pitch :
				 a->ih * a->iw * a->xc;
	size_t part[3] = { 0, r->full, r->terms }, each = a->xc / r->lanes, i, y, b, x;
	ptrdiff_t *o = r->offs;

	for (i = 0; i < 2; i++)
		for (y = 0; y < a->kh; y++)
			for (b = part[i]; b < part[i + 1]; b++)
				for (x = 0; x < a->kw; x++) {
					size_t at = x * a->dw;

					if (a->by_tap)
						at = x * a->in_cols;
					else if (a->copy)
						at = x % a->phases * a->in_cols + at / a->sw;
					*o++ = (ptrdiff_t)(b / each * plane + at * a->xc +
							   b % each * r->lanes +
							   y * r->tap_pitch);
				}
}

static void run_init(struct run *r, const struct rlx_k_conv_c *a, void *scratch)
{
	size_t bytes;

	r->a = a;
	r->icg = a->ic / a->groups;
	r->icb = (r->icg + a->xc - 1) / a->xc;
	r->lanes = rlx_conv_lanes(a->xc);
	r->full = r->icg / r->lanes;
	r->terms = (r->icg + r->lanes - 1) / r->lanes;
	r->taps = a->kh * a->kw;
	r->pairs = ((a->oc / a->groups + C - 1) / C + TILE_K - 1) / TILE_K;
	r->offs = scratch;
	bytes = (r->terms * r->taps * sizeof(*r->offs) + 63) / 64 * 64;
	r->copy = (float *)((char *)scratch + bytes);
	r->row_pitch = (a->copy ? a->phases * a->in_cols : a->iw) * a->xc;
	r->tap_pitch = (a->copy ? 1 : a->dh) * r->row_pitch;
	r->act = (struct conv_act){ a->act, a->act_a, a->act_b };
	r->fused = RLX_K(conv_act_fuse)(&r->act, &r->fuse);
	if (a->x_plain && r->fuse.gate) {	/* see conv_tiles1 */
		r->fuse = conv_fuse_none;
		r->fused = false;
	}
	offs_fill(r);
}

/*
 * One phase of one input row into @dst: pixels @ix, @ix + sw ..., in_cols of
 * them; those outside the row are 0.
 */
static void copy_row(const struct rlx_k_conv_c *a, float *dst,
		     const float *row, ptrdiff_t ix)
{
	ptrdiff_t n = (ptrdiff_t)a->in_cols, s = (ptrdiff_t)a->sw;
	ptrdiff_t w = (ptrdiff_t)a->iw, i0, i1, i;
	size_t xc = a->xc;

	i0 = ix < 0 ? (-ix + s - 1) / s : 0;
	i1 = ix < w ? (w - ix + s - 1) / s : 0;
	i0 = i0 < n ? i0 : n;
	i1 = i1 < n ? i1 : n;
	i1 = i1 > i0 ? i1 : i0;
	memset(dst, 0, (size_t)i0 * xc * sizeof(*dst));
	memset(dst + (size_t)i1 * xc, 0,
	       (size_t)(n - i1) * xc * sizeof(*dst));
	if (s == 1) {
		memcpy(dst + (size_t)i0 * xc, row + (ix + i0) * (ptrdiff_t)xc,
		       (size_t)(i1 - i0) * xc * sizeof(*dst));
	} else if (xc == 1) {
		for (i = i0; i < i1; i++)
			dst[i] = row[ix + i * s];
	} else {
		for (i = i0; i < i1; i++)
			vf_storeu(dst + i * C, vf_loadu(row + (ix + i * s) * C));
	}
}

/* Row @iy of the input, of all channels, to row @at of the copy. */
static void copy_channels(const struct run *r, const struct conv_unit *u, const float *x, size_t iy,
			  size_t at)
{
	const struct rlx_k_conv_c *a = r->a;
	ptrdiff_t ix = (ptrdiff_t)(u->ox * a->sw) - (ptrdiff_t)a->pl;
	float *dst = r->copy + at * r->row_pitch;
	size_t b, p;

	x += iy * a->iw * a->xc;
	for (b = 0; b < r->icb; b++, x += a->ih * a->iw * a->xc) {
		for (p = 0; p < a->phases; p++) {
			size_t from = a->by_tap ? p * a->dw : p * a->dw % a->sw;

			copy_row(a, dst + p * a->in_cols * a->xc, x, ix + (ptrdiff_t)from);
		}
		dst += a->in_rows * r->row_pitch;
	}
}

/* What taps read, each row once: those in the padding are read by none. */
static void copy_block(const struct run *r, const struct conv_unit *u, const float *x)
{
	const struct rlx_k_conv_c *a = r->a;
	struct row row = row_first(a, u);
	ptrdiff_t done = 0, at;
	size_t i, y;

	for (i = 0; i < u->rows; i++, row_next(a, &row))
		for (y = row.y[0]; y < row.y[1]; y++) {
			at = row.in + (ptrdiff_t)y;
			if (at < done)
				continue;
			copy_channels(r, u, x, row.oy * a->sh + y * a->dh - a->pt, (size_t)at);
			done = at + 1;
		}
}

static void block_begin(struct run *r, const struct conv_unit *u)
{
	const struct rlx_k_conv_c *a = r->a;
	const float *x = a->x + u->n * a->x_n +
			 u->g * r->icb * a->ih * a->iw * a->xc;

	if (a->copy) {
		copy_block(r, u, x);
		r->x = r->copy;
	} else {
		r->x = x + u->ox * a->xc;
	}
}

/* Where a pair (or some) of output blocks lies; what its tiles share. */
struct pair {
	struct conv_tile t;
	size_t		k;		/* blocks: 2, 1 at the end, wide: more */
	const float	*w;		/* of the first term */
	float		*y;
	const float	*res;
	size_t		ahead;		/* lines of weights yet to fetch */
	bool		last;		/* sums are complete after this pass */
};

/* Terms [first, first + n) of a pass. */
struct terms {
	size_t		first, n;
};

/* Those of @t with taps in rows [y0, y1), of which a row has @per, from @from on. */
static struct terms terms_of(const struct terms *t, size_t from, size_t per, const size_t y[2])
{
	size_t lo = from + y[0] * per, hi = from + y[1] * per, end = t->first + t->n;

	lo = lo > t->first ? lo : t->first;
	hi = hi < end ? hi : end;
	return (struct terms){ lo, hi > lo ? hi - lo : 0 };
}

/* The terms of the pass for a row whose rows [y0, y1) of taps are no padding. */
static void row_terms(const struct run *r, struct pair *p, const struct terms *pass,
		      const size_t y[2])
{
	const struct rlx_k_conv_c *a = r->a;
	size_t full = r->full * a->kw, lanes = r->lanes, tail = r->terms * a->kw - full;
	size_t k = (p->k < TILE_K ? p->k : TILE_K) * C;
	struct terms t;

	t = terms_of(pass, 0, full, y);
	p->t.offs = r->offs + t.first;
	p->t.nfull = t.n;
	p->t.w = p->w + t.first * lanes * k;
	t = terms_of(pass, full * a->kh, tail, y);
	p->t.tail_offs = r->offs + t.first;
	p->t.ntail = t.n;
	t.first -= t.n ? full * a->kh : t.first;
	p->t.tail_w = p->w + (full * a->kh * lanes + t.first * p->t.tail) * k;
}

/* One pass over some terms, for all pixels of the unit. */
static void pass_run(const struct run *r, const struct conv_unit *u, struct pair *p,
		     const struct terms *pass)
{
	const struct rlx_k_conv_c *a = r->a;
	conv_tile_fn *const *fn = p->k > TILE_K ? RLX_K(conv_tiles_wide) :
				  a->x_plain ? RLX_K(conv_tiles1)[p->k - 1] :
					       RLX_K(conv_tiles)[p->k - 1];
	size_t tiles = conv_tile_count(u->cols);
	struct row row = row_first(a, u);
	size_t i, j, n, w, lines = 0;

	/* Spread the lines of the next weights over the entries of all tiles. */
	if (p->ahead)
		lines = (p->ahead + pass->n * tiles * u->rows - 1) / (pass->n * tiles * u->rows);
	p->t.ahead = (const char *)(p->w + pass->first * r->lanes * p->k * C) + p->ahead * 64;
	for (n = 0; n < u->rows; n++, row_next(a, &row)) {
		size_t at = (row.oy * a->ow + u->ox) * C;

		row_terms(r, p, pass, row.y);
		p->t.x = r->x + (a->copy ? row.in : (ptrdiff_t)(row.oy * a->sh)) *
				(ptrdiff_t)r->row_pitch;
		for (i = 0; i < tiles; i++, at += w * C) {
			w = conv_tile_width(u->cols, tiles, i);
			p->t.y = p->y + at;
			p->t.res = p->res ? p->res + at : NULL;
			p->t.lines = p->ahead ? lines : 0;
			fn[w - 1](&p->t);
			p->t.x += w * a->xc;
			p->t.ahead += lines * p->t.nfull * 64;
			p->ahead -= p->ahead < lines * p->t.nfull ? p->ahead :
				    lines * p->t.nfull;
			for (j = 0; p->last && !r->fused && j < p->k; j++)
				RLX_K(conv_act_run)(&r->act,
						    p->t.y + j * p->t.y_k,
						    w * C);
		}
	}
}

/* @pairs: 1, or as many as a wide tile takes. */
static void pair_run(const struct run *r, const struct conv_unit *u, size_t pair,
		     size_t pairs)
{
	const struct rlx_k_conv_c *a = r->a;
	size_t ocg = a->oc / a->groups, blocks = (ocg + C - 1) / C;
	size_t first = pair * TILE_K, per_block = C * r->icg * r->taps;
	size_t plane = a->oh * a->ow * C, at = u->g * blocks + first;
	size_t full = r->full * r->taps, all = r->terms * r->taps, real;
	static const _Alignas(64) float zero[TILE_WIDE_PAIRS * TILE_K * C];
	_Alignas(64) float bias[TILE_WIDE_PAIRS * TILE_K * C] = { 0 };
	struct terms pass = { 0 };
	struct pair p = { .k = blocks - first };

	p.k = p.k < pairs * TILE_K ? p.k : pairs * TILE_K;
	p.t.w_step = TILE_K * per_block;
	real = ocg - first * C;
	real = real < p.k * C ? real : p.k * C;
	if (a->bias)
		memcpy(bias, a->bias + u->g * ocg + first * C,
		       real * sizeof(*bias));
	p.y = a->y + u->n * a->y_n + at * plane;
	p.res = a->res ? a->res + u->n * a->res_n + at * plane : NULL;
	p.t.bias = bias;
	p.t.y_k = plane;
	p.t.tail = r->icg % r->lanes;
	p.w = a->w + at * per_block;
	for (; pass.first < all; pass.first += pass.n) {
		pass.n = all - pass.first < a->kc ? all - pass.first : a->kc;
		p.last = pass.first + pass.n == all;
		p.t.fuse = p.last ? &r->fuse : &conv_fuse_none;
		p.ahead = pass.first + pass.n <= full ? pass.n * r->lanes * p.k * C / 16 : 0;
		if (p.k > TILE_K || (p.last && pair + 1 == r->pairs))
			p.ahead = 0;
		pass_run(r, u, &p, &pass);
		/* further terms by themselves, then to those that are there */
		p.t.bias = zero;
		p.res = p.y;
	}
}

/* How many of the @left pairs from @pair on the next tiles take. */
static size_t pairs_at_once(const struct run *r, const struct conv_unit *u,
			    size_t pair, size_t left)
{
	size_t blocks = (r->a->oc / r->a->groups + C - 1) / C;
	size_t n = conv_wide_pairs(u->cols);

	if (u->cols > TILE_WIDE_R || r->a->x_plain || left < n ||
	    (pair + n) * TILE_K > blocks)
		return 1;
	return n;
}

void RLX_K(conv_c)(const void *args, size_t begin, size_t end, void *scratch)
{
	size_t i, p, n, loaded = (size_t)-1;
	struct run r;

	run_init(&r, args, scratch);
	for (i = begin; i < end; i++) {
		struct conv_unit u = unit_get(&r, i);

		if (u.block != loaded)
			block_begin(&r, &u);
		loaded = u.block;
		for (p = 0; p < u.pairs; p += n) {
			n = pairs_at_once(&r, &u, u.pair + p, u.pairs - p);
			pair_run(&r, &u, u.pair + p, n);
		}
	}
}

void RLX_K(conv_c_pack)(const void *args, size_t begin, size_t end,
			void *scratch)
{
	const struct rlx_k_conv_pack *pk = args;
	const struct rlx_k_conv_c *a = pk->conv;
	size_t icg = a->ic / a->groups, ocg = a->oc / a->groups;
	size_t blocks = (ocg + C - 1) / C, taps = a->kh * a->kw;
	size_t pairs = (blocks + TILE_K - 1) / TILE_K;
	const size_t lanes = rlx_conv_lanes(a->xc), part[3] = { 0, icg / lanes * lanes, icg };
	size_t u, b, t, i, o, y, j;

	(void)scratch;
	for (u = begin; u < end; u++) {
		size_t g = u / pairs, first = u % pairs * TILE_K;
		size_t k = blocks - first < TILE_K ? blocks - first : TILE_K;
		const float *src = pk->src + (g * ocg + first * C) * icg * taps;
		float *d = pk->dst + (g * blocks + first) * C * icg * taps;
		size_t real = ocg - first * C;

		for (j = 0; j < 2; j++)
			for (y = 0; y < a->kh; y++)
				for (b = part[j]; b < part[j + 1]; b += lanes)
					for (t = y * a->kw; t < (y + 1) * a->kw; t++)
						for (i = b; i < b + lanes && i < icg; i++)
							for (o = 0; o < k * C; o++)
								*d++ = o >= real ? 0 :
							src[(o * icg + i) * taps + t];
	}
}
