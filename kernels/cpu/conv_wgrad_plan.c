// SPDX-License-Identifier: MIT
/* How gradients of convolutions in their weights are cut into pieces and units. */
#include "kernels/conv_wgrad.h"
#include "kernels/conv_wgrad_c.h"
#include "kernels/cpu/conv_plan.h"

/* Of each operand's pieces in scratch, and of a unit's sums: what L2 leaves for them. */
static const size_t PIECE_BYTES = (size_t)160 << 10, SUM_BYTES = (size_t)320 << 10;
/* Parts: sums of all of them, steps and multiply-adds that are worth one, and units wanted. */
static const size_t PARTS_BYTES = (size_t)8 << 20, PART_STEPS = 32, UNITS = 32;
static const double PART_WORK = 4e6;
/* Pairs of tiles of a unit at most, and rows of a tile where vectors are multiplied. */
enum { PAIRS = 4, VECTOR_ROWS = 12 };

static size_t balanced(size_t n, size_t most)
{
	return ceil_div(n, ceil_div(n, most));
}

static bool is_flat(const struct rlx_k_conv_wgrad *a)
{
	return a->kh == 1 && a->kw == 1 && a->sh == 1 && a->sw == 1 && !a->pt && !a->pl &&
	       a->ih == a->oh && a->iw == a->ow;
}

/* The grid of a piece of @rows x @cols. */
static void plan_grid(struct rlx_k_conv_wgrad *a, size_t rows, size_t cols)
{
	a->rows = rows;
	a->cols = cols;
	a->pitch = cols + a->xreach;
	a->steps = ceil_div(rows * a->pitch, RLX_CONV_BF16_STEP);
	/* the last tap reads all steps from its own place on */
	a->phase = ceil_div(a->steps * RLX_CONV_BF16_STEP + a->yreach * a->pitch + a->xreach,
			    RLX_CONV_BF16_STEP) * RLX_CONV_BF16_STEP;
}

/* Bytes of a piece of x or of dy, the larger. */
static size_t piece_bytes(const struct rlx_k_conv_wgrad *a)
{
	size_t x = a->cchunk * 2 * a->width * a->yphases * a->xphases * a->phase * 2;
	size_t dy = a->ochunk * 2 * a->steps * RLX_CONV_BF16_STEP * RLX_CONV_BF16_BLOCK * 2;

	return x > dy ? x : dy;
}

static void plan_pieces(struct rlx_k_conv_wgrad *a)
{
	a->nrows = a->ncols = 1;
	plan_grid(a, a->oh, a->ow);
	while (piece_bytes(a) > PIECE_BYTES && (a->rows > 1 || a->cols > RLX_CONV_BF16_STEP)) {
		if (a->rows > 1)
			a->nrows++;
		else
			a->ncols++;
		plan_grid(a, ceil_div(a->oh, a->nrows), ceil_div(a->ow, a->ncols));
	}
	a->nrows = ceil_div(a->oh, a->rows);
	a->ncols = ceil_div(a->ow, a->cols);
	a->batch = PIECE_BYTES / piece_bytes(a);
	a->batch = a->batch ? min_sz(a->batch, a->n * a->nrows * a->ncols) : 1;
}

static void plan_units(struct rlx_k_conv_wgrad *a)
{
	const size_t pieces = a->n * a->nrows * a->ncols, taps = a->kh * a->kw;
	const size_t chunks = a->groups * a->nc * a->no;
	const double work = (double)(pieces * a->steps * RLX_CONV_BF16_STEP) * (double)taps *
			    (double)(a->ci * a->co) * (double)a->groups;
	const double most = work / PART_WORK;
	size_t want = most < (double)UNITS ? (size_t)most + 1 : UNITS, room;

	a->parts = a->part = 1;
	room = PARTS_BYTES / rlx_conv_wgrad_sums(a);
	a->parts = min_sz(ceil_div(want, chunks), room ? room : 1);
	a->parts = min_sz(a->parts, ceil_div(pieces * a->steps, PART_STEPS));
	a->part = ceil_div(pieces, min_sz(a->parts, pieces));
	a->parts = ceil_div(pieces, a->part);
	a->batch = min_sz(a->batch, a->part);
	/* rows of A an odd number of lines apart, lest all fall on a few sets of the cache */
	a->line = a->batch * a->yphases * a->xphases * a->phase * 2;
	a->line = (a->line / 64 | 1) * 64;
}

bool rlx_conv_wgrad_init(enum rlx_isa isa, struct rlx_k_conv_wgrad *a)
{
	const struct rlx_k_conv_c shape = {
		.n = a->n, .ic = a->ci * a->groups, .oc = a->co * a->groups, .groups = a->groups,
		.ih = a->ih, .iw = a->iw, .oh = a->oh, .ow = a->ow, .kh = a->kh, .kw = a->kw,
		.sh = a->sh, .sw = a->sw, .dh = a->dh, .dw = a->dw, .pt = a->pt, .pl = a->pl,
	};
	size_t t;

	if (isa < RLX_ISA_V4X || !rlx_conv_shape_ok(&shape) ||
	    (a->groups > 1 && (a->x_blocked || a->dy_blocked)))
		return false;
	if (is_flat(a)) {
		a->iw = a->ow = a->oh * a->ow;
		a->ih = a->oh = 1;
	}
	a->width = balanced(a->ci, isa >= RLX_ISA_V4_AMX ? RLX_CONV_BF16_PIXELS : VECTOR_ROWS);
	a->cpairs = ceil_div(a->ci, 2 * a->width);
	a->opairs = ceil_div(a->co, 2 * RLX_CONV_BF16_BLOCK);
	a->cchunk = min_sz(a->cpairs, PAIRS);
	a->ochunk = min_sz(a->opairs, PAIRS);
	while (a->cchunk * a->ochunk * a->kh * a->kw * 2 * RLX_CONV_BF16_SUMS > SUM_BYTES &&
	       a->cchunk * a->ochunk > 1)
		*(a->cchunk >= a->ochunk ? &a->cchunk : &a->ochunk) -= 1;
	a->nc = ceil_div(a->cpairs, a->cchunk);
	a->no = ceil_div(a->opairs, a->ochunk);
	a->yphases = min_sz(a->kh, a->sh / gcd(a->sh, a->dh));
	a->xphases = min_sz(a->kw, a->sw / gcd(a->sw, a->dw));
	a->yreach = (a->kh - 1) * a->dh / a->sh;
	a->xreach = (a->kw - 1) * a->dw / a->sw;
	/* of the whole image: a piece has no more than its share, and its taps' reach */
	if (!PRODUCT(&t, a->oh + a->yreach + 1, a->ow + a->xreach + RLX_CONV_BF16_STEP, a->yphases,
		     a->xphases, 4 * RLX_CONV_BF16_PIXELS * 2 * PAIRS) ||
	    !PRODUCT(&t, a->groups, a->cpairs, a->opairs, a->kh * a->kw, 2 * RLX_CONV_BF16_SUMS))
		return false;
	plan_pieces(a);
	plan_units(a);
	return true;
}

/* ---- of blocked f32 ---- */

/* Of a piece, what L1 keeps for all taps; sums of a unit are there as well. */
static const size_t PIECE_C_BYTES = (size_t)24 << 10;
/* Multiply-adds that are worth a part. */
static const double PART_C_WORK = 1e6;

static void plan_pieces_c(struct rlx_k_conv_wgrad_c *a)
{
	/* a pixel of dy: two blocks of it, and what one tap reads of x */
	const size_t most = PIECE_C_BYTES / (3 * a->block * sizeof(float));

	a->cols = balanced(a->ow, most);
	a->rows = a->cols < a->ow ? 1 : balanced(a->oh, most / a->ow);
	a->nrows = ceil_div(a->oh, a->rows);
	a->ncols = ceil_div(a->ow, a->cols);
}

bool rlx_conv_wgrad_c_init(enum rlx_isa isa, struct rlx_k_conv_wgrad_c *a)
{
	const struct rlx_k_conv_c shape = {
		.n = a->n, .ic = a->ci, .oc = a->co, .groups = 1, .ih = a->ih, .iw = a->iw,
		.oh = a->oh, .ow = a->ow, .kh = a->kh, .kw = a->kw, .sh = a->sh, .sw = a->sw,
		.dh = a->dh, .dw = a->dw, .pt = a->pt, .pl = a->pl,
	};
	const double work = (double)(a->n * a->oh * a->ow) * (double)(a->kh * a->kw) *
			    (double)(a->ci * a->co);
	size_t pieces, want, t;

	if (!rlx_conv_shape_ok(&shape))
		return false;
	if (rlx_conv_is_flat(&shape)) {
		a->iw = a->ow = a->oh * a->ow;
		a->ih = a->oh = 1;
	}
	a->block = rlx_conv_block(isa);
	a->xblocks = ceil_div(a->ci, a->block);
	a->dyblocks = ceil_div(a->co, a->block);
	a->dypairs = ceil_div(a->dyblocks, 2);
	a->parts = 1;
	if (!PRODUCT(&t, a->xblocks, a->dyblocks, a->kh * a->kw, a->block, a->block, sizeof(float)))
		return false;
	plan_pieces_c(a);
	pieces = a->n * a->nrows * a->ncols;
	want = work / PART_C_WORK < (double)UNITS ? (size_t)(work / PART_C_WORK) + 1 : UNITS;
	want = min_sz(ceil_div(want, a->xblocks * a->dypairs),
		      PARTS_BYTES / rlx_conv_wgrad_c_sums(a));
	a->part = ceil_div(pieces, want ? min_sz(want, pieces) : 1);
	a->parts = ceil_div(pieces, a->part);
	return true;
}
