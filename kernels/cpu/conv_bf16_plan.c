// SPDX-License-Identifier: MIT
/* How convolutions of bf16 are cut into units. */
#include "kernels/conv_bf16.h"
#include "kernels/cpu/conv_plan.h"

/* Of a unit's input, and of its sums where K has several parts: what L2 leaves for them. */
static const size_t COPY_BYTES = (size_t)192 << 10, SUM_BYTES = (size_t)96 << 10;
/* Steps of a part: the weights of a pair of blocks for these stay in L1. */
static const size_t PART = 12;
/* Multiply-adds that are worth a unit of their own; units that a few threads share evenly. */
static const double UNIT_WORK = 4e6;
static const size_t UNITS = 8;
/* Pixels of a tile where pairs are multiplied by vectors: sums fill the registers. */
enum { VECTOR_PIXELS = 12 };

/*
 * What a step is: where channels are few, those of all taps of a row fill more of it, if these are
 * of one block, or plain, where they are brought together for each tap anew: that costs more.
 */
static void plan_steps(struct rlx_k_conv_bf16 *a)
{
	size_t icg = a->ic / a->groups, tap = ceil_div(icg, RLX_CONV_BF16_STEP);
	size_t row = ceil_div(icg * a->kw, RLX_CONV_BF16_STEP);
	bool few = a->x_plain ? (a->sw > 4 ? 4 : 2) * row <= tap * a->kw :
		   icg <= RLX_CONV_BF16_BLOCK && 4 * row <= 3 * tap * a->kw;

	a->by_row = a->kw > 1 && few;
	a->row_steps = a->by_row ? row : tap;
	a->steps = a->kh * (a->by_row ? row : tap * a->kw);
	a->part = ceil_div(a->steps, ceil_div(a->steps, PART));
}

/* The copy of a unit of so many pixels: as taps reach it, or each tap's apart if that is less. */
static void plan_copy(struct rlx_k_conv_bf16 *a, size_t rows, size_t cols)
{
	size_t all = rlx_conv_bf16_across(a, cols) * a->width;
	size_t reach = (all - 1) * a->sw + (a->kw - 1) * a->dw + 1;

	a->rows_apart = rows * a->kh < (rows - 1) * a->sh + (a->kh - 1) * a->dh + 1;
	a->cols_apart = !a->by_row && all * a->kw < reach;
	a->ys = a->rows_apart ? a->kh : a->sh;
	a->yt = a->rows_apart ? 1 : a->dh;
	a->xs = a->by_row || a->cols_apart ? 1 : a->sw;
	a->xt = a->cols_apart ? all : a->dw;
	a->in_rows = rlx_conv_bf16_rows(a, rows);
	a->in_cols = a->by_row ? all : a->cols_apart ? all * a->kw : reach;
}

static bool is_large(struct rlx_k_conv_bf16 *a, size_t rows, size_t cols)
{
	size_t t;

	plan_copy(a, rows, cols);
	return !PRODUCT(&t, a->in_rows, a->in_cols, a->row_steps, 2 * RLX_CONV_BF16_STEP) ||
	       t > COPY_BYTES ||
	       (a->part < a->steps &&
		rows * rlx_conv_bf16_across(a, cols) * RLX_CONV_BF16_SUMS > SUM_BYTES);
}

/* The most rows of @a->cols pixels whose copy is not large. */
static void plan_rows(struct rlx_k_conv_bf16 *a)
{
	a->nrows = 1;
	for (a->rows = a->oh; a->rows > 1 && is_large(a, a->rows, a->cols); a->nrows++)
		a->rows = ceil_div(a->oh, a->nrows + 1);
	a->nrows = ceil_div(a->oh, a->rows);
	a->ncols = ceil_div(a->ow, a->cols);
	plan_copy(a, a->rows, a->cols);
}

/* Pixels that all units of a plane copy; rows between those that taps read are not. */
static double copied(const struct rlx_k_conv_bf16 *a)
{
	size_t rows = min_sz(a->in_rows, a->rows * a->kh);

	return (double)(rows * a->nrows) * (double)(a->in_cols * a->ncols);
}

/*
 * Units as wide as the plane, whose rows follow one another in memory, unless narrower ones copy
 * clearly less: these have more rows, and so fewer that two units copy.
 */
static void plan_pixels(struct rlx_k_conv_bf16 *a, size_t most)
{
	struct rlx_k_conv_bf16 best;
	size_t across;

	a->width = ceil_div(a->ow, ceil_div(a->ow, most));
	for (across = ceil_div(a->ow, a->width);
	     across > 2 && is_large(a, 1, across * a->width);)
		across = ceil_div(across, 2);
	a->cols = min_sz(across * a->width, a->ow);
	plan_rows(a);
	for (best = *a; across > 2 && a->nrows > 1;) {
		across = ceil_div(across, 2);
		a->cols = across * a->width;
		plan_rows(a);
		if (copied(a) < 0.85 * copied(&best))
			best = *a;
	}
	*a = best;
}

/* Units for several threads: of fewer channels, then of fewer rows. */
static void plan_units(struct rlx_k_conv_bf16 *a)
{
	size_t pairs = rlx_conv_bf16_pairs(a), have = a->n * a->groups * a->nrows * a->ncols;
	double work = (double)(a->n * a->oh * a->ow) * (double)a->oc * (double)a->steps *
		      RLX_CONV_BF16_STEP;
	double most = work / UNIT_WORK;
	size_t want = most < (double)UNITS ? (size_t)most + 1 : UNITS;

	a->nchunk = have < want ? min_sz(ceil_div(want, have), ceil_div(pairs, 2)) : 1;
	a->chunk = ceil_div(pairs, a->nchunk);
	a->nchunk = ceil_div(pairs, a->chunk);
	have *= a->nchunk;
	if (have < want && a->rows > 1) {
		a->rows = ceil_div(a->rows, min_sz(ceil_div(want, have), a->rows));
		a->nrows = ceil_div(a->oh, a->rows);
	}
	plan_copy(a, a->rows, a->cols);
}

bool rlx_conv_bf16_init(enum rlx_isa isa, struct rlx_k_conv_bf16 *a)
{
	const struct rlx_k_conv_c shape = {
		.n = a->n, .ic = a->ic, .oc = a->oc, .groups = a->groups, .ih = a->ih,
		.iw = a->iw, .oh = a->oh, .ow = a->ow, .kh = a->kh, .kw = a->kw, .sh = a->sh,
		.sw = a->sw, .dh = a->dh, .dw = a->dw, .pt = a->pt, .pl = a->pl,
	};
	size_t t;

	if (isa < RLX_ISA_V4X || !rlx_conv_shape_ok(&shape))
		return false;
	if (a->groups > 1 && ((!a->x_plain && a->ic / a->groups % RLX_CONV_BF16_BLOCK) ||
			      (!a->y_plain && a->oc / a->groups % RLX_CONV_BF16_BLOCK)))
		return false;
	if (rlx_conv_is_flat(&shape)) {
		a->iw = a->ow = a->oh * a->ow;
		a->ih = a->oh = 1;
	}
	plan_steps(a);
	plan_pixels(a, isa >= RLX_ISA_V4_AMX ? RLX_CONV_BF16_PIXELS : VECTOR_PIXELS);
	plan_units(a);
	return PRODUCT(&t, a->in_rows, a->in_cols, a->row_steps, 2 * RLX_CONV_BF16_STEP);
}

size_t rlx_conv_bf16_units(const struct rlx_k_conv_bf16 *a)
{
	return a->n * a->groups * a->nrows * a->ncols * a->nchunk;
}

size_t rlx_conv_bf16_scratch(const struct rlx_k_conv_bf16 *a)
{
	return rlx_conv_bf16_offsets(a) + rlx_conv_bf16_sums(a) + rlx_conv_bf16_copy(a);
}

size_t rlx_conv_bf16_wsize(const struct rlx_k_conv_bf16 *a)
{
	return a->groups * rlx_conv_bf16_blocks(a) * a->steps *
	       RLX_CONV_BF16_STEP * RLX_CONV_BF16_BLOCK * 2;
}
