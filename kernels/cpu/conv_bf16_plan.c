// SPDX-License-Identifier: MIT
/* How convolutions of bf16 are cut into units. */
#include "kernels/conv_bf16.h"

/* Of a unit's input, and of its sums where K has several parts: what L2 leaves for them. */
static const size_t COPY_BYTES = (size_t)192 << 10, SUM_BYTES = (size_t)96 << 10;
/* Steps of a part: the weights of a pair of blocks for these stay in L1. */
static const size_t PART = 12;
/* Multiply-adds that are worth a unit of their own; units that a few threads share evenly. */
static const double UNIT_WORK = 4e6;
static const size_t UNITS = 8;
/* Pixels of a tile where pairs are multiplied by vectors: sums fill the registers. */
enum { VECTOR_PIXELS = 12, SUM_TILE = 2 * RLX_CONV_BF16_PIXELS * RLX_CONV_BF16_BLOCK * 4 };

static size_t up(size_t a, size_t b)
{
	return a / b + (a % b != 0);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Are all products of sizes, in bytes, within what pointers reach? */
static bool fits(size_t n, const size_t *f)
{
	size_t p = 64, i;

	for (i = 0; i < n; i++)
		if (!f[i] || __builtin_mul_overflow(p, f[i], &p) || p > PTRDIFF_MAX / 16)
			return false;
	return true;
}

#define FITS(...)							\
	fits(sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t),	\
	     (const size_t[]){ __VA_ARGS__ })

static bool shape_ok(const struct rlx_k_conv_bf16 *a)
{
	return FITS(a->n, a->ic, a->ih, a->iw) && FITS(a->n, a->oc, a->oh, a->ow) &&
	       FITS(a->oc, a->ic, a->kh, a->kw, 32) && FITS(a->oh, a->sh) &&
	       FITS(a->ow, a->sw) && FITS(a->kh, a->dh, a->kw, a->dw) && a->groups &&
	       a->pt < PTRDIFF_MAX / 16 && a->pl < PTRDIFF_MAX / 16 &&
	       a->ic % a->groups == 0 && a->oc % a->groups == 0;
}

/* 1 x 1 without stride or padding: pixels form one row. */
static bool is_flat(const struct rlx_k_conv_bf16 *a)
{
	return a->kh == 1 && a->kw == 1 && a->sh == 1 && a->sw == 1 && !a->pt && !a->pl &&
	       a->ih == a->oh && a->iw == a->ow;
}

/*
 * What a step is: where channels are few, those of all taps of a row fill more of it. They are
 * copied for each tap, with a stride beyond two one by one.
 */
static void plan_steps(struct rlx_k_conv_bf16 *a)
{
	size_t icg = a->ic / a->groups, tap = up(icg, RLX_CONV_BF16_STEP);
	size_t row = up(icg * a->kw, RLX_CONV_BF16_STEP), parts;

	a->by_row = a->x_plain && a->kw > 1 && (a->sw > 2 ? 4 : 2) * row <= tap * a->kw;
	a->row_steps = a->by_row ? row : tap;
	a->steps = a->kh * (a->by_row ? row : tap * a->kw);
	parts = up(a->steps, PART);
	a->part = up(a->steps, parts);
	a->ys = a->kh == 1 ? 1 : a->sh;
	a->xs = a->kw == 1 || a->by_row ? 1 : a->sw;
}

static size_t copy_rows(const struct rlx_k_conv_bf16 *a, size_t rows)
{
	return (rows - 1) * a->ys + (a->kh == 1 ? 1 : (a->kh - 1) * a->dh + 1);
}

/* Tiles may reach past the last pixel, so that all are as wide. */
static size_t copy_cols(const struct rlx_k_conv_bf16 *a, size_t cols)
{
	size_t span = a->kw == 1 || a->by_row ? 1 : (a->kw - 1) * a->dw + 1;

	return (up(cols, a->width) * a->width - 1) * a->xs + span;
}

/* Bytes of a unit's copy by the share of its limit, as those of its sums. */
static bool is_large(const struct rlx_k_conv_bf16 *a, size_t rows, size_t cols)
{
	size_t pixel = a->row_steps * 2 * RLX_CONV_BF16_STEP;
	size_t copy = copy_rows(a, rows) * copy_cols(a, cols) * pixel;

	return copy > COPY_BYTES || (a->part < a->steps &&
				     rows * up(cols, a->width) * SUM_TILE > SUM_BYTES);
}

static void plan_pixels(struct rlx_k_conv_bf16 *a, size_t most)
{
	size_t tiles = up(a->ow, most), across;

	a->width = up(a->ow, tiles);
	tiles = up(a->ow, a->width);
	for (across = tiles; across > 2 && is_large(a, 1, across * a->width);)
		across = up(across, 2);
	a->cols = least(across * a->width, a->ow);
	a->ncols = up(a->ow, a->cols);
	a->nrows = 1;
	for (a->rows = a->oh; a->rows > 1 && is_large(a, a->rows, a->cols); a->nrows++)
		a->rows = up(a->oh, a->nrows + 1);
	a->nrows = up(a->oh, a->rows);
}

/* Units for several threads: of fewer channels, then of fewer rows. */
static void plan_units(struct rlx_k_conv_bf16 *a)
{
	size_t pairs = rlx_conv_bf16_pairs(a), have = a->n * a->groups * a->nrows * a->ncols;
	double work = (double)(a->n * a->oh * a->ow) * (double)a->oc * (double)a->steps *
		      RLX_CONV_BF16_STEP;
	double most = work / UNIT_WORK;
	size_t want = most < (double)UNITS ? (size_t)most + 1 : UNITS;

	a->nchunk = have < want ? least(up(want, have), up(pairs, 2)) : 1;
	a->chunk = up(pairs, a->nchunk);
	a->nchunk = up(pairs, a->chunk);
	have *= a->nchunk;
	if (have < want && a->rows > 1) {
		a->rows = up(a->rows, least(up(want, have), a->rows));
		a->nrows = up(a->oh, a->rows);
	}
	a->in_rows = copy_rows(a, a->rows);
	a->in_cols = copy_cols(a, a->cols);
}

bool rlx_conv_bf16_init(enum rlx_isa isa, struct rlx_k_conv_bf16 *a)
{
	if (isa < RLX_ISA_V4X || !shape_ok(a))
		return false;
	if (a->groups > 1 && ((!a->x_plain && a->ic / a->groups % RLX_CONV_BF16_BLOCK) ||
			      (!a->y_plain && a->oc / a->groups % RLX_CONV_BF16_BLOCK)))
		return false;
	if (is_flat(a)) {
		a->iw = a->ow = a->oh * a->ow;
		a->ih = a->oh = 1;
	}
	plan_steps(a);
	plan_pixels(a, isa >= RLX_ISA_V4_AMX ? RLX_CONV_BF16_PIXELS : VECTOR_PIXELS);
	plan_units(a);
	return FITS(a->in_rows, a->in_cols, a->row_steps, 2 * RLX_CONV_BF16_STEP);
}

size_t rlx_conv_bf16_units(const struct rlx_k_conv_bf16 *a)
{
	return a->n * a->groups * a->nrows * a->ncols * a->nchunk;
}

size_t rlx_conv_bf16_scratch(const struct rlx_k_conv_bf16 *a)
{
	size_t tiles = a->part < a->steps ? a->rows * up(a->cols, a->width) + 1 : 2;

	return up(a->steps * sizeof(ptrdiff_t), 64) * 64 + tiles * SUM_TILE +
	       a->in_rows * rlx_conv_bf16_row(a) * (a->by_row ? 1 : a->row_steps);
}

size_t rlx_conv_bf16_wsize(const struct rlx_k_conv_bf16 *a)
{
	return a->groups * rlx_conv_bf16_blocks(a) * a->steps *
	       RLX_CONV_BF16_STEP * RLX_CONV_BF16_BLOCK * 2;
}
