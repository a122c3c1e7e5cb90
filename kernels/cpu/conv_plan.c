// SPDX-License-Identifier: MIT
/*
 * How convolutions are cut into units: shared by all levels, so built at the
 * base level alone.
 */
#include "kernels/cpu/conv_plan.h"

#ifdef RLX_ISA_base

/* What a thread's share of L2 leaves for input pixels. */
#define BLOCK_BYTES	((size_t)192 << 10)
/* Work below this is not worth its own unit. */
#define UNIT_FLOP	3e6
/* Units for a handful of threads, where few output channels give few. */
#define UNITS		16
#define TILE_MAX	14	/* the widest tile of any level */
#define PAIR		2	/* output blocks of a tile */

static size_t max_sz(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * @terms are summed in passes of RLX_CONV_TERMS at most, all of nearly the same
 * length, in steps of @step: how many steps one has.
 */
static size_t pass_steps(size_t terms, size_t step)
{
	size_t steps = ceil_div(terms, step);

	return ceil_div(steps, ceil_div(terms, RLX_CONV_TERMS));
}

bool rlx_conv_blocked_size(enum rlx_isa isa, size_t n, size_t channels,
			   size_t pixels, size_t *bytes)
{
	size_t c = rlx_conv_block(isa);

	return PRODUCT(bytes, n, ceil_div(channels, c), c, pixels,
		       sizeof(float));
}

/* The reach of a kernel: (k - 1) * d + 1; false when 0 or too large. */
static bool reach(size_t k, size_t d, size_t *out)
{
	if (!k || !d || __builtin_mul_overflow(k - 1, d, out) ||
	    *out > PTRDIFF_MAX / 16)
		return false;
	*out += 1;
	return true;
}

bool rlx_conv_shape_ok(const struct rlx_k_conv_c *a)
{
	size_t t, rh, rw;

	if (!a->n || !a->ic || !a->oc || !a->groups || !a->ih || !a->iw ||
	    !a->oh || !a->ow || !a->sh || !a->sw)
		return false;
	if (!reach(a->kh, a->dh, &rh) || !reach(a->kw, a->dw, &rw))
		return false;
	if (a->ic % a->groups || a->oc % a->groups)
		return false;
	/* 64: a block of channels; products with strides bound coordinates */
	return PRODUCT(&t, a->n, a->ic, a->ih, a->iw, 64) &&
	       PRODUCT(&t, a->n, a->oc, a->oh, a->ow, 64) &&
	       PRODUCT(&t, a->oc, a->ic, a->kh, a->kw, 64 * 64) &&
	       PRODUCT(&t, a->oh, a->sh, 2) && PRODUCT(&t, a->ow, a->sw, 2) &&
	       PRODUCT(&t, rh, rw) &&
	       a->pt < PTRDIFF_MAX / 16 && a->pl < PTRDIFF_MAX / 16;
}

bool rlx_conv_is_flat(const struct rlx_k_conv_c *a)
{
	return a->kh == 1 && a->kw == 1 && a->sh == 1 && a->sw == 1 &&
	       !a->pt && !a->pl && a->ih == a->oh && a->iw == a->ow;
}

/* Column phases (positions modulo the stride) that some tap reads. */
static size_t phase_count(const struct rlx_k_conv_c *a)
{
	size_t i, d = a->dw % a->sw, at = 0;

	for (i = 0; i < min_sz(a->kw, a->sw); i++) {
		if (i && !at)
			break;
		at = (at + d) % a->sw;
	}
	return i;
}

/* Rows of the input a tap is from the one above; with one row of taps what windows are apart. */
static size_t row_dilation(const struct rlx_k_conv_c *a)
{
	return a->kh == 1 ? a->sh : a->dh;
}

/*
 * Rows of the output whose taps read the same rows of the input are so many apart that their
 * windows are a multiple of the dilation apart: a unit has some of these, so that it reads as few
 * rows of the input as without dilation. Where there are fewer than a unit has, others follow.
 */
static void plan_rows(struct rlx_k_conv_c *a)
{
	size_t d = row_dilation(a), common = gcd(a->sh, d);

	a->apart = d / common;
	a->step = min_sz(a->sh / common, a->kh);
}

/* Rows of the input that @rows rows of the output read at most, of all that are @a->apart. */
static size_t rows_read(const struct rlx_k_conv_c *a, size_t rows)
{
	size_t taps = min_sz(a->kh, ceil_div(a->ih, row_dilation(a)));
	size_t least = max_sz(a->oh / a->apart, 1);
	size_t runs = a->apart == 1 || rows < 2 ? 1 : min_sz((rows - 2) / least + 2, rows);

	if (taps < a->step)	/* then those of one run are farther apart than two runs' */
		runs = 1;
	return runs * taps + (rows - runs) * a->step;
}

/* Cut the output plane so that a unit's input is about BLOCK_BYTES. */
static void plan_block(struct rlx_k_conv_c *a)
{
	size_t icg = a->ic / a->groups;
	size_t icb = ceil_div(icg, a->xc) * a->xc * sizeof(float);
	size_t pairs = ceil_div(ceil_div(a->oc / a->groups, a->c), PAIR);
	size_t parts = ceil_div(UNITS, a->n * a->groups * pairs);
	size_t share = ceil_div(a->oh * a->ow, parts) * a->sh * a->sw;
	size_t want = max_sz(min_sz(BLOCK_BYTES / icb, share), 4 * TILE_MAX);
	size_t span = (a->kw - 1) * a->dw + 1, per_row;

	plan_rows(a);
	a->cols = min_sz(a->ow, max_sz(want / a->kh / a->sw, 2 * TILE_MAX));
	a->ncols = ceil_div(a->ow, a->cols);
	a->cols = ceil_div(a->ow, a->ncols);
	if (a->ncols > 1)
		a->cols = ceil_div(a->cols, TILE_MAX) * TILE_MAX;
	a->ncols = ceil_div(a->ow, a->cols);
	a->phases = a->copy ? phase_count(a) : 1;
	a->in_cols = a->copy ? a->cols + (span - 1) / a->sw : a->iw;
	/* what far taps read is not beside one another */
	a->by_tap = a->copy && a->kw * a->cols < a->phases * a->in_cols;
	if (a->by_tap) {
		a->phases = a->kw;
		a->in_cols = a->cols;
	}
	per_row = a->copy ? a->in_cols * a->phases : a->cols * a->sw + span;
	want = max_sz(want / per_row, 1);
	a->rows = min_sz(want > a->kh ? (want - a->kh) / a->step + 1 : 1, a->oh);
	while (a->rows > 1 && rows_read(a, a->rows) > want)
		a->rows -= ceil_div(a->rows, 8);
	a->rows = max_sz(a->rows, 1);
	a->nrows = ceil_div(a->oh, a->rows);
	a->rows = ceil_div(a->oh, a->nrows);
	a->nrows = ceil_div(a->oh, a->rows);
	a->in_rows = a->copy ? rows_read(a, a->rows) : a->ih;
}

bool rlx_conv_c_init(enum rlx_isa isa, struct rlx_k_conv_c *a)
{
	size_t icg, ocg, pairs;
	double flop;

	if (!rlx_conv_shape_ok(a))
		return false;
	icg = a->ic / a->groups;
	ocg = a->oc / a->groups;
	a->c = rlx_conv_block(isa);
	a->xc = a->x_plain ? 1 : a->c;
	if (a->groups > 1 &&
	    (a->x_plain || icg % a->c || ocg % a->c))
		return false;
	if (rlx_conv_is_flat(a) && !a->x_plain) {
		a->iw = a->ow = a->oh * a->ow;
		a->ih = a->oh = 1;
	}
	a->copy = a->x_plain || a->pt || a->pl || a->sw > 1 ||
		  (a->oh - 1) * a->sh + (a->kh - 1) * a->dh + 1 > a->ih ||
		  (a->ow - 1) * a->sw + (a->kw - 1) * a->dw + 1 > a->iw;
	plan_block(a);
	pairs = ceil_div(ceil_div(ocg, a->c), PAIR);
	flop = 2.0 * (double)(icg * a->kh * a->kw * PAIR * a->c) *
	       (double)(a->rows * a->cols);
	a->chunk = flop >= UNIT_FLOP ? 1 :
		   min_sz(pairs, (size_t)(UNIT_FLOP / flop) + 1);
	a->nchunk = ceil_div(pairs, a->chunk);
	a->chunk = ceil_div(pairs, a->nchunk);
	a->nchunk = ceil_div(pairs, a->chunk);
	a->kc = pass_steps(icg * a->kh * a->kw, rlx_conv_lanes(a->xc));
	return PRODUCT(&icg, ceil_div(icg, a->xc), a->xc, a->in_rows,
		       a->phases, a->in_cols, sizeof(float));
}

size_t rlx_conv_c_units(const struct rlx_k_conv_c *a)
{
	return a->n * a->groups * a->nrows * a->ncols * a->nchunk;
}

size_t rlx_conv_c_scratch(const struct rlx_k_conv_c *a)
{
	size_t icb = ceil_div(a->ic / a->groups, a->xc);
	size_t offs = ceil_div(a->ic / a->groups, rlx_conv_lanes(a->xc)) * a->kh * a->kw *
		      sizeof(ptrdiff_t);

	offs = ceil_div(offs, 64) * 64;
	if (!a->copy)
		return offs;
	return offs + icb * a->in_rows * a->phases * a->in_cols * a->xc *
	       sizeof(float);
}

size_t rlx_conv_pack_units(const struct rlx_k_conv_c *a)
{
	return a->groups * ceil_div(ceil_div(a->oc / a->groups, a->c), PAIR);
}

size_t rlx_conv_c_wsize(const struct rlx_k_conv_c *a)
{
	size_t blocks = ceil_div(a->oc / a->groups, a->c);

	return a->groups * blocks * a->c * (a->ic / a->groups) * a->kh *
	       a->kw * sizeof(float);
}

/* Transformed input of a unit, and tiles that fill two register tiles. */
#define WINO_BYTES	((size_t)608 << 10)
#define WINO_TILES	((size_t)2 * TILE_MAX)

bool rlx_wino_c_init(enum rlx_isa isa, struct rlx_k_wino_c *a)
{
	struct rlx_k_conv_c shape = {
		.n = a->n, .ic = a->ic, .oc = a->oc, .groups = 1,
		.ih = a->ih, .iw = a->iw, .oh = a->oh, .ow = a->ow,
		.kh = 3, .kw = 3, .sh = 1, .sw = 1, .dh = 1, .dw = 1,
		.pt = a->pt, .pl = a->pl,
	};
	size_t pos = (a->m + 2) * (a->m + 2), icp, pairs, tiles;
	double flop;

	if ((a->m != 2 && a->m != 4) || !rlx_conv_shape_ok(&shape))
		return false;
	a->c = rlx_conv_block(isa);
	a->ty = ceil_div(a->oh, a->m);
	a->tx = ceil_div(a->ow, a->m);
	tiles = a->ty * a->tx;
	icp = ceil_div(a->ic, a->c) * a->c;
	a->block = WINO_BYTES / (pos * icp * sizeof(float));
	a->block = min_sz(tiles, min_sz(WINO_TILES, max_sz(a->block, 4)));
	a->nblock = ceil_div(tiles, a->block);
	a->block = ceil_div(tiles, a->nblock);
	a->nblock = ceil_div(tiles, a->block);
	pairs = ceil_div(ceil_div(a->oc, a->c), PAIR);
	flop = 2.0 * (double)(pos * a->ic * PAIR * a->c) * (double)a->block;
	a->chunk = flop >= UNIT_FLOP ? 1 :
		   min_sz(pairs, (size_t)(UNIT_FLOP / flop) + 1);
	a->nchunk = ceil_div(pairs, a->chunk);
	a->chunk = ceil_div(pairs, a->nchunk);
	a->nchunk = ceil_div(pairs, a->chunk);
	a->kc = pass_steps(a->ic, rlx_conv_lanes(a->c));
	return true;
}

size_t rlx_wino_c_units(const struct rlx_k_wino_c *a)
{
	return a->n * a->nblock * a->nchunk;
}

size_t rlx_wino_c_scratch(const struct rlx_k_wino_c *a)
{
	size_t pos = (a->m + 2) * (a->m + 2), icb = ceil_div(a->ic, a->c);

	return pos * (icb + PAIR) * a->block * a->c * sizeof(float) +
	       ceil_div(a->ic, rlx_conv_lanes(a->c)) * sizeof(ptrdiff_t);
}

size_t rlx_wino_c_wsize(const struct rlx_k_wino_c *a)
{
	size_t pos = (a->m + 2) * (a->m + 2);

	return pos * a->ic * ceil_div(a->oc, a->c) * a->c * sizeof(float);
}

size_t rlx_wino_c_pack_units(const struct rlx_k_wino_c *a)
{
	return ceil_div(ceil_div(a->oc, a->c), PAIR);
}

size_t rlx_wino_c_pick(enum rlx_isa isa, const struct rlx_k_conv_c *a)
{
	/* floating point per second of a core, bytes from memory likewise */
	double rate = isa >= RLX_ISA_V4 ? 27e10 : isa == RLX_ISA_V3 ? 13e10 : 4e10;
	const double bytes = 35e9;
	size_t c = rlx_conv_block(isa), m, best = 0, taps = 0, in[2], y;
	double icp, ocp, least, t;

	if (a->kh != 3 || a->kw != 3 || a->sh != 1 || a->sw != 1 ||
	    a->dh != 1 || a->dw != 1 || a->groups != 1 || a->x_plain)
		return 0;
	icp = (double)(ceil_div(a->ic, c) * c);
	ocp = (double)(ceil_div(a->oc, c) * c);
	for (y = 0; y < a->oh; y++) {
		rlx_conv_rows(a, y, in);
		taps += in[1] - in[0];
	}
	least = 6.0 * (double)a->ic * ocp * (double)(taps * a->ow) / rate;
	for (m = 2; m <= 4; m += 2) {
		double pos = (double)((m + 2) * (m + 2)), w;
		double tiles = (double)(ceil_div(a->oh, m) * ceil_div(a->ow, m));
		double rows = tiles < 8 ? 8 : tiles;

		w = pos * (double)a->ic * ocp * sizeof(float);
		t = 2 * pos * (double)a->ic * ocp * rows / (rate * 0.92);
		t = w / bytes > t ? w / bytes : t;
		/* transforms: some ten operations an element */
		t += tiles * pos * (icp + ocp) * 10 / rate * 2;
		if (t < 0.95 * least) {
			least = t;
			best = m;
		}
	}
	return best;
}

bool rlx_dw_c_init(enum rlx_isa isa, struct rlx_k_dw_c *a)
{
	struct rlx_k_conv_c shape = {
		.n = a->n, .ic = a->channels, .oc = a->channels, .groups = 1,
		.ih = a->ih, .iw = a->iw, .oh = a->oh, .ow = a->ow,
		.kh = a->kh, .kw = a->kw, .sh = a->sh, .sw = a->sw,
		.dh = a->dh, .dw = a->dw, .pt = a->pt, .pl = a->pl,
	};
	double flop;

	if (!rlx_conv_shape_ok(&shape))
		return false;
	a->c = rlx_conv_block(isa);
	flop = 2.0 * (double)(a->c * a->kh * a->kw) * (double)a->ow;
	a->rows = flop * (double)a->oh <= UNIT_FLOP / 8 ? a->oh :
		  min_sz(a->oh, (size_t)(UNIT_FLOP / 8 / flop) + 1);
	a->nrows = ceil_div(a->oh, a->rows);
	a->rows = ceil_div(a->oh, a->nrows);
	a->nrows = ceil_div(a->oh, a->rows);
	return true;
}

size_t rlx_dw_c_units(const struct rlx_k_dw_c *a)
{
	return a->n * ceil_div(a->channels, a->c) * a->nrows;
}

size_t rlx_dw_c_wsize(const struct rlx_k_dw_c *a)
{
	return ceil_div(a->channels, a->c) * a->c * a->kh * a->kw *
	       sizeof(float);
}

static bool nd_ok(const struct rlx_k_conv_nd *a)
{
	size_t t, r[3], i;

	if (!a->n || !a->ic || !a->oc || !a->groups)
		return false;
	if (a->ic % a->groups || a->oc % a->groups)
		return false;
	for (i = 0; i < 3; i++)
		if (!a->in[i] || !a->out[i] || !a->s[i] ||
		    !reach(a->k[i], a->d[i], &r[i]) ||
		    a->p[i] > PTRDIFF_MAX / 16 ||
		    !PRODUCT(&t, a->out[i], a->s[i], 2) ||
		    !PRODUCT(&t, a->in[i], a->s[i], 2))
			return false;
	return PRODUCT(&t, a->n, a->ic, a->in[0], a->in[1], a->in[2], 4) &&
	       PRODUCT(&t, a->n, a->oc, a->out[0], a->out[1], a->out[2], 4) &&
	       PRODUCT(&t, a->ic, a->oc, a->k[0], a->k[1], a->k[2], 64) &&
	       PRODUCT(&t, a->n, a->oc, a->s[0], a->s[1], a->s[2], a->out[0],
		       a->out[1], a->out[2]);
}

/* Channels of a unit, at most and where units are few; units wanted. */
#define ND_ROWS		480
#define ND_LEAST	48
/* By tiles of AMX, which have done with a panel in a fraction of the time that gathers it. */
#define ND_LEAST_AMX	192
#define ND_UNITS	16
/* Sums of a unit. */
#define ND_SUMS		((size_t)60 << 10)

/* Rows that follow one another in input and output alike are one row. */
static void merge_rows(struct rlx_k_conv_nd *a)
{
	struct rlx_k_conv_nd g = *a;
	size_t j;

	for (j = 2; j-- > 0 && g.k[2] == 1 && g.s[2] == 1 && g.s[j] == 1 &&
		    !g.p[2] && g.in[2] == g.out[2];) {
		if (!PRODUCT(&g.d[2], g.d[j], g.in[2]) ||
		    !PRODUCT(&g.p[2], g.p[j], g.in[2]))
			return;
		g.k[2] = g.k[j];
		g.in[2] *= g.in[j];
		g.out[2] *= g.out[j];
		g.in[j] = g.out[j] = g.k[j] = g.d[j] = 1;
		g.p[j] = 0;
		if (!nd_ok(&g))
			return;
		*a = g;
	}
}

/* Phases of the output that a transposed convolution computes by themselves. */
static size_t nd_phases(const struct rlx_k_conv_nd *a)
{
	return a->transposed ? a->s[0] * a->s[1] * a->s[2] : 1;
}

/* Those of a row that a unit has, and whether all of them read the same pixels. */
static void plan_across(struct rlx_k_conv_nd *a)
{
	size_t s = a->s[2];

	a->across = a->transposed && s <= RLX_CONV_ND_ACROSS ? s : 1;
	a->fold = a->k[2] == s && a->d[2] == 1 && a->p[2] % s == 0 ? a->across : 1;
}

/* Far more phases than pixels and taps: nearly all would be packed and walked for nothing. */
static bool nd_excess(const struct rlx_k_conv_nd *a)
{
	double work = (double)a->out[0] * (double)a->out[1] * (double)a->out[2] +
		      (double)a->k[0] * (double)a->k[1] * (double)a->k[2];

	return (double)nd_phases(a) > 16 * work + 4096;
}

/* Output pixels along @j: of the largest phase, or all. */
static size_t nd_dim(const struct rlx_k_conv_nd *a, size_t j)
{
	return a->transposed ? ceil_div(a->out[j], a->s[j]) : a->out[j];
}

/* What is read along @j; true if that is the input as it is. */
static bool plan_dim(struct rlx_k_conv_nd *a, size_t j)
{
	size_t s = a->s[j], far = (a->k[j] - 1) * a->d[j];

	if (a->transposed) {
		a->phases[j] = 1;
		a->before[j] = far > a->p[j] ? (far - a->p[j]) / s : 0;
		a->size[j] = a->before[j] + nd_dim(a, j) + (s - 1 + a->p[j]) / s;
	} else {
		a->phases[j] = min_sz(a->k[j], s / gcd(a->d[j], s));
		a->before[j] = a->p[j];
		a->size[j] = a->out[j] + far / s;
	}
	if (a->before[j] || a->size[j] > a->in[j] || (!a->transposed && s > 1))
		return false;
	a->size[j] = a->in[j];
	return true;
}

static bool plan_input(struct rlx_k_conv_nd *a)
{
	size_t j, t, least;
	bool asis = true;

	for (j = 0; j < 3; j++)
		asis &= plan_dim(a, j);
	/* the last panel is moved back, into the plane: one must fit the smallest phase */
	least = a->transposed ? a->out[2] / a->s[2] : a->out[2];
	t = a->transposed ? a->out[1] / a->s[1] : a->out[1];
	a->copy = !asis || !t || (t - 1) * a->size[2] + least < PAIR * a->c;
	return PRODUCT(&t, a->n, a->ic, a->phases[0], a->phases[1], a->phases[2],
		       a->size[0], a->size[1], a->size[2], sizeof(float), 2);
}

/* Output channels of a tile of vectors, most. */
static size_t tile_rows(enum rlx_isa isa)
{
	return isa >= RLX_ISA_V4 ? 12 : 6;
}

/* Tiles of @rows output channels at most, and chunks of them where @units without are few. */
static void cut_channels(struct rlx_k_conv_nd *a, size_t rows, size_t units)
{
	const size_t least = rows == RLX_CONV_I8_TILE_ROWS ? ND_LEAST_AMX : ND_LEAST;
	size_t ocg = a->oc / a->groups;

	a->tiles = ceil_div(ocg, rows);
	a->chunk = ND_ROWS / rows;
	if (units < ND_UNITS)
		a->chunk = min_sz(a->chunk, max_sz(least / rows,
				  ceil_div(a->tiles * units, ND_UNITS)));
	a->chunks = ceil_div(a->tiles, a->chunk);
	a->chunk = ceil_div(a->tiles, a->chunks);
	a->chunks = ceil_div(a->tiles, a->chunk);
	a->rows = min_sz(a->chunk * ceil_div(ocg, a->tiles), ocg);
}

/*
 * Cut @all pixels into units of at most @most panels by some tiles of @rows channels; @more units
 * of each.
 */
static void cut(struct rlx_k_conv_nd *a, size_t rows, size_t all, size_t most, size_t more)
{
	size_t panel = PAIR * a->c;

	a->pixels = min_sz(ceil_div(all, panel), most) * panel;
	a->blocks = ceil_div(all, a->pixels);
	cut_channels(a, rows, a->n * a->groups * more * a->blocks);
}

bool rlx_conv_nd_init(enum rlx_isa isa, struct rlx_k_conv_nd *a)
{
	size_t ocg, panel, all, more, most;

	if (!nd_ok(a))
		return false;
	a->c = rlx_conv_block(isa);
	merge_rows(a);
	if (nd_excess(a) || !plan_input(a))
		return false;
	plan_across(a);
	ocg = a->oc / a->groups;
	panel = PAIR * a->c;
	all = (nd_dim(a, 1) - 1) * a->size[2] + nd_dim(a, 2);
	more = nd_phases(a) / a->across * nd_dim(a, 0);
	most = min_sz(RLX_CONV_ND_PIXELS, ND_SUMS / (min_sz(ocg, ND_ROWS) * a->across)) / panel;
	/* half as many pixels, down to some panels, while units are few */
	while (most > RLX_CONV_ND_PANELS &&
	       a->n * a->groups * more * a->across * ceil_div(all, most * panel) < ND_UNITS)
		most = max_sz(most / 2, RLX_CONV_ND_PANELS);
	cut(a, tile_rows(isa) / a->fold, all, most, more);
	return true;
}

size_t rlx_conv_nd_units(const struct rlx_k_conv_nd *a)
{
	return a->n * a->groups * a->chunks * (nd_phases(a) / a->across) * nd_dim(a, 0) *
	       a->blocks;
}

size_t rlx_conv_nd_scratch(const struct rlx_k_conv_nd *a)
{
	size_t taps = a->k[0] * a->k[1] * a->k[2];

	return a->across * (a->pixels * a->rows * sizeof(float) +
			    max_sz(taps, RLX_CONV_ND_KC) * sizeof(ptrdiff_t));
}

size_t rlx_conv_nd_wsize(const struct rlx_k_conv_nd *a)
{
	return a->oc * (a->ic / a->groups) * a->k[0] * a->k[1] * a->k[2] *
	       sizeof(float);
}

size_t rlx_conv_nd_xsize(const struct rlx_k_conv_nd *a)
{
	size_t plane = a->phases[0] * a->phases[1] * a->phases[2] * a->size[0] *
		       a->size[1] * a->size[2];

	/* the last panel reads on to its end */
	return (a->n * a->ic * plane + PAIR * a->c) * sizeof(float);
}

size_t rlx_conv_nd_xunits(const struct rlx_k_conv_nd *a)
{
	return a->n * a->ic;
}

/*
 * One tap that reads the input alone: what a group reads for pixels is one after the other. With
 * groups of two it takes longer to write panels than rows.
 */
static bool i8_in_panels(const struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *s = &a->shape;
	size_t i;

	if (a->depth < 4)
		return false;
	for (i = 0; i < 3 && s->k[i] == 1 && !s->p[i] && (s->out[i] - 1) * s->s[i] < s->in[i]; i++)
		;
	return i == 3;
}

/*
 * Tiles of AMX read pixels that follow one another, of groups that are as far apart as planes,
 * where a step's groups have one tap. Their places are those of the padded input, so that some,
 * at the ends of rows, are of no pixel: an eighth of panels more takes less than gathering does.
 */
static bool i8_in_place(enum rlx_isa isa, struct rlx_k_conv_i8 *a)
{
	struct rlx_k_conv_nd *g = &a->grouped;
	size_t pixels = g->out[0] * g->out[1] * g->out[2], panel = PAIR * g->c, places, i;

	for (i = 0; i < 3 && g->s[i] == 1; i++)
		;
	places = ((g->out[0] - 1) * g->in[1] + g->out[1] - 1) * g->in[2] + g->out[2];
	if (isa < RLX_ISA_V4_AMX || i < 3 || a->taps > 1 || a->panels ||
	    g->ic / g->groups % RLX_CONV_I8_STEP ||
	    8 * ceil_div(places, panel) > 9 * ceil_div(pixels, panel))
		return false;
	/* an odd number of lines: a step's groups are in as many sets of a cache */
	g->x_n = g->ic * (ceil_div(g->in[0] * g->in[1] * g->in[2], 16) | 1) * 16;
	g->out[0] = g->out[1] = 1;
	g->out[2] = places;
	return true;
}

bool rlx_conv_i8_init(enum rlx_isa isa, struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *s = &a->shape;
	struct rlx_k_conv_nd *g = &a->grouped;
	size_t icg, across, all, most, i;

	if (s->transposed || !nd_ok(s))
		return false;
	a->depth = isa >= RLX_ISA_V4_VNNI ? 4 : 2;
	icg = s->ic / s->groups;
	across = ceil_div(s->k[2], a->depth);
	a->taps = across * icg < s->k[2] * ceil_div(icg, a->depth) ? a->depth : 1;
	a->across = a->taps > 1 ? across : s->k[2];
	*g = *s;
	g->ic = s->groups * ceil_div(icg, a->depth / a->taps);
	g->k[2] = a->across;
	g->d[2] = s->d[2] * a->taps;
	for (i = 0; i < 3; i++) {
		/* pixels between those that are read need not be there */
		a->step[i] = s->k[i] == 1 ? s->s[i] : 1;
		g->s[i] = s->k[i] == 1 ? 1 : s->s[i];
		g->in[i] = (s->out[i] - 1) * g->s[i] + (g->k[i] - 1) * g->d[i] + 1;
		a->padded[i] = g->in[i];
		g->p[i] = 0;
	}
	if (!nd_ok(g))
		return false;
	g->c = rlx_conv_block(isa);
	all = g->out[0] * g->out[1] * g->out[2];
	a->panels = i8_in_panels(a) ? PAIR * g->c : 0;
	g->x_n = g->ic * (a->panels ? ceil_div(all, a->panels) * a->panels :
			  g->in[0] * g->in[1] * g->in[2]);
	a->in_place = i8_in_place(isa, a);
	if (a->in_place)
		all = g->out[2];
	else
		merge_rows(g);
	a->groups = g->ic / g->groups * g->k[0] * g->k[1] * g->k[2];
	g->across = g->fold = 1;
	/* fewer pixels while units are few: channels cut into more of them gather pixels again */
	for (most = RLX_CONV_ND_PANELS; most > 1; most /= 2)
		if (g->n * g->groups * ceil_div(all, most * PAIR * g->c) >= ND_UNITS)
			break;
	a->packed = isa >= RLX_ISA_V4_AMX ? ceil_div(a->groups, RLX_CONV_I8_STEP) *
					    RLX_CONV_I8_STEP : a->groups;
	cut(g, isa >= RLX_ISA_V4_AMX ? RLX_CONV_I8_TILE_ROWS : tile_rows(isa), all, most, 1);
	return true;
}

size_t rlx_conv_i8_units(const struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *g = &a->grouped;

	return g->n * g->groups * g->chunks * g->blocks;
}

size_t rlx_conv_i8_scratch(const struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *g = &a->grouped;

	/* a vector between the panels and the sums may be written, and one behind all read */
	return (g->pixels * (RLX_CONV_ND_KC + g->rows + 1) + 2 * g->c) * sizeof(int32_t);
}

size_t rlx_conv_i8_wsize(const struct rlx_k_conv_i8 *a)
{
	return a->shape.oc * (a->packed + 1) * sizeof(int32_t);
}

size_t rlx_conv_i8_xunits(const struct rlx_k_conv_i8 *a)
{
	return a->grouped.n * a->grouped.ic;
}

size_t rlx_conv_i8_xsize(const struct rlx_k_conv_i8 *a)
{
	/*
	 * The last row is read in whole vectors, by two where every other pixel is taken; of panels
	 * whole steps of tiles, whose weights are 0 there.
	 */
	return (a->grouped.n * a->grouped.x_n +
		max_sz(2 * a->grouped.c, a->panels * RLX_CONV_I8_STEP)) * sizeof(int32_t);
}

#endif
