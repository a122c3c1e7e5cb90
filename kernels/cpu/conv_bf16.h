/* SPDX-License-Identifier: MIT */
/*
 * The bf16 convolution kernels, but for their tiles: the includer, one for each level, has
 *
 *	tiles_begin(width), tiles_end()		around a kernel call
 *	tiles_run(t, na, nb)			sums of @na tiles of pixels by @nb blocks
 *
 * over struct tiles, which is below. What a step is kernels/conv_bf16.h says.
 */
#ifndef RLX_CPU_CONV_BF16_H
#define RLX_CPU_CONV_BF16_H

#include <string.h>

#include "kernels/conv.h"
#include "kernels/conv_bf16.h"
#include "kernels/simd/act.h"
#include "kernels/simd/transpose.h"

rlx_k_fn RLX_K(conv_bf16);
rlx_k_fn RLX_K(conv_bf16_pack);

enum {
	BLOCK = RLX_CONV_BF16_BLOCK,
	STEP = RLX_CONV_BF16_STEP,
	STEP_BYTES = STEP * 2,
	W_BYTES = STEP * BLOCK * 2,	/* of a step's weights of a block */
	NV = BLOCK / RLX_VL,		/* vectors of a block */
	TILE = RLX_CONV_BF16_PIXELS * BLOCK,
};

/*
 * @a: by tile, its first pixel in the copy, @lda bytes before the next one
 * @offs, @steps: bytes from there to each step's terms
 * @w: each step's weights of all blocks
 * @sums: of each tile two times TILE, by block; @first: they begin at 0
 * @width: pixels of a tile
 * @lines: of the weights behind these, to be fetched with each step
 */
struct tiles {
	const char	*a[2];
	size_t		lda, steps, width, lines;
	const ptrdiff_t	*offs;
	const char	*w, *ahead;
	float		*sums;
	bool		first;
};

/* With the @i-th step. */
RLX_INLINE void fetch_ahead(const struct tiles *t, size_t i)
{
	const char *p = t->ahead + i * t->lines * 64;

	for (size_t j = 0; j < t->lines; j++)
		__builtin_prefetch(p + j * 64, 0, 2);
}

static void tiles_begin(size_t width);
static void tiles_end(void);
static void tiles_run(const struct tiles *t, int na, int nb);

/* One call: what is the same for all its units, and what scratch holds. */
struct run {
	const struct rlx_k_conv_bf16 *a;
	size_t		icg, ocg, blocks, pairs;	/* of a group */
	size_t		row, plane;	/* bytes from a row of the copy, or from its channels, on */
	ptrdiff_t	*offs;
	float		*sums;
	char		*copy;
	vf		lo, hi;		/* bounds that are all of the activation, if @clamps */
	bool		clamps;
};

/* A unit, taken apart. */
struct unit {
	size_t	n, g, oy, ox, rows, cols, pair, pairs;
	size_t	block;		/* counts what has a copy of its own */
};

static struct unit unit_get(const struct run *r, size_t i)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	struct unit u = { .pair = i % a->nchunk * a->chunk };

	i /= a->nchunk;
	u.block = i;
	u.g = i % a->groups;
	i /= a->groups;
	u.ox = i % a->ncols * a->cols;
	i /= a->ncols;
	u.oy = i % a->nrows * a->rows;
	u.n = i / a->nrows;
	u.cols = a->ow - u.ox < a->cols ? a->ow - u.ox : a->cols;
	u.rows = a->oh - u.oy < a->rows ? a->oh - u.oy : a->rows;
	u.pairs = r->pairs - u.pair < a->chunk ? r->pairs - u.pair : a->chunk;
	return u;
}

static void offs_fill(struct run *r)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	size_t cb, y, x, j;
	ptrdiff_t *o = r->offs;

	if (a->by_row) {
		for (y = 0; y < a->kh; y++)
			for (j = 0; j < a->row_steps; j++)
				*o++ = (ptrdiff_t)(y * a->dh * r->row + j * STEP_BYTES);
		return;
	}
	for (cb = 0; cb < a->row_steps; cb++)
		for (y = 0; y < a->kh; y++)
			for (x = 0; x < a->kw; x++)
				*o++ = (ptrdiff_t)(cb * r->plane + y * a->dh * r->row +
						   x * a->dw * STEP_BYTES);
}

static void run_init(struct run *r, const struct rlx_k_conv_bf16 *a, void *scratch)
{
	size_t tiles = a->part < a->steps ? a->rows * ((a->cols + a->width - 1) / a->width) + 1 : 2;

	r->a = a;
	r->icg = a->ic / a->groups;
	r->ocg = a->oc / a->groups;
	r->blocks = rlx_conv_bf16_blocks(a);
	r->pairs = rlx_conv_bf16_pairs(a);
	r->row = rlx_conv_bf16_row(a);
	r->plane = a->in_rows * r->row;
	r->offs = scratch;
	r->sums = (float *)((char *)scratch + (a->steps * sizeof(*r->offs) + 63) / 64 * 64);
	r->copy = (char *)(r->sums + tiles * 2 * TILE);
	r->lo = vf_set1(a->act == RLX_ACT_RELU ? 0 : a->act == RLX_ACT_CLIP ? a->act_a :
			-__builtin_inff());
	r->hi = vf_set1(a->act == RLX_ACT_CLIP ? a->act_b : __builtin_inff());
	r->clamps = a->act == RLX_ACT_NONE || a->act == RLX_ACT_RELU || a->act == RLX_ACT_CLIP;
	offs_fill(r);
}

/* ---- the copy ---- */

/* A row of the input that lies in pixels: NULL is padding; @at: of the first one read. */
struct line {
	const uint16_t	*x;
	ptrdiff_t	at;
};

/* What lines become: @n pixels, @pitch bytes apart, of every @step-th element of rows of @iw. */
struct turn {
	size_t	pitch, step, n, iw;
};

#if defined(RLX_V512)
/* Which of 32 elements from @at on lie in a row of @w. */
RLX_INLINE __mmask32 mask_in(ptrdiff_t at, ptrdiff_t w)
{
	const ptrdiff_t lo = at < 0 ? -at : 0, hi = w - at;

	if (lo > 31 || hi <= lo)
		return 0;
	return 0xffffffffu << lo & (hi < 32 ? (1u << hi) - 1 : 0xffffffffu);
}

/* Sixteen elements @step > 2 apart from @at on. */
RLX_INLINE __m256i line_spread(const uint16_t *x, ptrdiff_t at, size_t step, ptrdiff_t w)
{
	const ptrdiff_t s = (ptrdiff_t)step;
	uint16_t e[16];

	if (at >= 0 && at + 15 * s < w)
		for (ptrdiff_t i = 0; i < 16; i++)
			e[i] = x[at + i * s];
	else
		for (ptrdiff_t i = 0; i < 16; i++)
			e[i] = at + i * s >= 0 && at + i * s < w ? x[at + i * s] : 0;
	return _mm256_loadu_si256((const __m256i *)e);
}

/* Sixteen elements of @l, the first of them at @at; @m is mask_in(). */
RLX_INLINE vi line_load(const struct line *l, const struct turn *t, ptrdiff_t at, __mmask32 m,
			const int step)
{
	static const uint16_t none[32];
	/* not even masked: a load where no memory is takes long */
	const uint16_t *p = l->x && m ? l->x + at : none;
	__m256i v;

	if (step == 1)
		v = _mm256_maskz_loadu_epi16((__mmask16)m, p);
	else if (step == 2)
		v = _mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(m, p));
	else
		v = l->x ? line_spread(l->x, at, t->step, (ptrdiff_t)t->iw) :
		    _mm256_setzero_si256();
	return (vi)_mm512_cvtepu16_epi32(v);
}

RLX_INLINE void lines_pair(vi pairs[STEP / 2], const struct turn *t, const struct line l[STEP],
			   size_t from, const int step)
{
	const ptrdiff_t skip = (ptrdiff_t)(from * t->step), iw = (ptrdiff_t)t->iw;
	ptrdiff_t at = l[0].at + skip, next;
	__mmask32 m = mask_in(at, iw);
	vi v[2];

	for (int i = 0; i < STEP / 2; i++) {
		for (int j = 0; j < 2; j++, l++) {
			next = l->at + skip;
			if (__builtin_expect(next != at, 0)) {
				at = next;
				m = mask_in(at, iw);
			}
			v[j] = line_load(l, t, at, m, step);
		}
		pairs[i] = v[0] | v[1] << 16;
	}
}

/* lines_turn() of 16 pixels at most from @from on. */
static void lines_turn16(char *dst, const struct turn *t, const struct line l[STEP], size_t from)
{
	vi r[RLX_VL];

	if (t->step == 1)
		lines_pair(r, t, l, from, 1);
	else if (t->step == 2)
		lines_pair(r, t, l, from, 2);
	else
		lines_pair(r, t, l, from, 3);
	vi_transpose(r);
	RLX_UNROLL
	for (size_t i = 0; i < RLX_VL; i++)
		if (i < t->n - from)
			vi_storeu(dst + (from + i) * t->pitch, r[i]);
}
#else
static void lines_turn16(char *dst, const struct turn *t, const struct line l[STEP], size_t from)
{
	size_t j, i;

	for (j = from; j < from + 16 && j < t->n; j++)
		for (i = 0; i < STEP; i++) {
			const ptrdiff_t at = l[i].at + (ptrdiff_t)(j * t->step);
			const bool in = l[i].x && at >= 0 && at < (ptrdiff_t)t->iw;

			memcpy(dst + j * t->pitch + 2 * i, in ? l[i].x + at : (uint16_t[]){ 0 }, 2);
		}
}
#endif

/* A step's terms of each pixel out of the lines they lie in. */
static void lines_turn(char *dst, const struct turn *t, const struct line l[STEP])
{
	size_t j;

	for (j = 0; j < t->n; j += 16)
		lines_turn16(dst, t, l, j);
}

/* Where the input's row for row @i of the copy begins, of channel 0 of the group; NULL: padding */
static const uint16_t *row_of(const struct run *r, const struct unit *u, size_t i, size_t lane)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	size_t iy = (a->kh == 1 ? (u->oy + i) * a->sh : u->oy * a->sh + i) - a->pt;
	size_t plane = u->g * r->icg * a->ih * a->iw;

	/* before the input: beyond all that there is */
	return iy < a->ih ? a->x + u->n * a->x_n + plane + iy * a->iw * lane : NULL;
}

/* Does a tap of one of the unit's rows read row @i of the copy? */
static bool is_read(const struct rlx_k_conv_bf16 *a, const struct unit *u, size_t i)
{
	size_t y;

	for (y = 0; y < a->kh && y * a->dh <= i; y++)
		if ((i - y * a->dh) % a->ys == 0 && (i - y * a->dh) / a->ys < u->rows)
			return true;
	return false;
}

/* The lines of the @s-th step: channels of one tap, or what a row of taps reads. */
static void lines_of(const struct run *r, const struct unit *u, const uint16_t *x, size_t s,
		     struct line l[STEP])
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t first = s * STEP, taps = a->by_row ? a->kw : 1;
	size_t tap = a->by_row ? first / r->icg : 0, c = first - tap * r->icg, i;

	for (i = 0; i < STEP; i++, c++) {
		if (a->by_row && c == r->icg) {
			c = 0;
			tap++;
		}
		l[i] = (struct line){ tap < taps && c < r->icg ? x + c * a->ih * a->iw : NULL,
				      (ptrdiff_t)(u->ox * a->sw + tap * a->dw) - (ptrdiff_t)a->pl };
	}
}

/* From plain channels: row @x, or padding, to row @i of the copy. */
static void copy_plain(const struct run *r, const struct unit *u, const uint16_t *x, size_t i)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const struct turn t = {
		.pitch = a->by_row ? a->row_steps * STEP_BYTES : STEP_BYTES,
		.step = a->by_row || a->kw == 1 ? a->sw : 1, .n = a->in_cols, .iw = a->iw,
	};
	struct line l[STEP];
	size_t s;

	for (s = 0; s < a->row_steps; s++) {
		lines_of(r, u, x, s, l);
		lines_turn(r->copy + i * r->row + (a->by_row ? s * STEP_BYTES : s * r->plane),
			   &t, l);
	}
}

/* A pixel of @left channels of a block; those that are not there are 0. */
RLX_INLINE void copy_lanes(char *dst, const uint16_t *x, size_t left)
{
	RLX_UNROLL
	for (size_t v = 0; v < BLOCK; v += RLX_VL)
		vu16h_storeu(dst + v * 2, vu16h_loadn(x + v, left > v ? left - v : 0));
}

/* From blocked channels: two blocks of a row to a step's. */
static void copy_blocks(const struct rlx_k_conv_bf16 *a, char *dst, const uint16_t *x,
			ptrdiff_t at, size_t left)
{
	const size_t plane = a->ih * a->iw * BLOCK, step = a->kw == 1 ? a->sw : 1;
	const size_t second = left > BLOCK ? left - BLOCK : 0;
	size_t j;

	for (j = 0; j < a->in_cols; j++, dst += STEP_BYTES, at += (ptrdiff_t)step) {
		const uint16_t *p = x + at * BLOCK;

		if (at < 0 || at >= (ptrdiff_t)a->iw) {
			memset(dst, 0, STEP_BYTES);
		} else if (left >= STEP) {
			memcpy(dst, p, BLOCK * 2);
			memcpy(dst + BLOCK * 2, p + plane, BLOCK * 2);
		} else {
			copy_lanes(dst, p, left);
			copy_lanes(dst + BLOCK * 2, second ? p + plane : p, second);
		}
	}
}

static void copy_row(const struct run *r, const struct unit *u, size_t i)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const uint16_t *x = row_of(r, u, i, a->x_plain ? 1 : BLOCK);
	const ptrdiff_t at = (ptrdiff_t)(u->ox * a->sw) - (ptrdiff_t)a->pl;
	size_t s, planes = a->by_row ? 1 : a->row_steps;

	if (!x) {
		for (s = 0; s < planes; s++)
			memset(r->copy + s * r->plane + i * r->row, 0, r->row);
		return;
	}
	if (a->x_plain) {
		copy_plain(r, u, x, i);
		return;
	}
	for (s = 0; s < planes; s++)
		copy_blocks(a, r->copy + s * r->plane + i * r->row,
			    x + s * 2 * a->ih * a->iw * BLOCK, at, r->icg - s * STEP);
}

static void copy_block(const struct run *r, const struct unit *u)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	size_t rows = (u->rows - 1) * a->ys + (a->kh == 1 ? 1 : (a->kh - 1) * a->dh + 1), i;

	for (i = 0; i < rows; i++)
		if (is_read(a, u, i))
			copy_row(r, u, i);
}

/* ---- the sums ---- */

/* A tile's pixels of a block of channels: @valid of them are the unit's. */
struct out {
	size_t	block, real;	/* of the group; channels that are there */
	size_t	at;		/* pixel of the plane */
	size_t	valid;
};

RLX_INLINE vf load_as(const void *p, size_t at, bool f32, size_t n)
{
	return f32 ? vf_loadn((const float *)p + at, n) :
		     vf_loadn_bf16((const uint16_t *)p + at, n);
}

/* To bf16 as the machine that multiplies it does: subnormal numbers are 0, to its products too. */
RLX_INLINE vu16h to_bf16(vf v)
{
#if defined(RLX_V512)
	return (vu16h)_mm512_cvtneps_pbh((__m512)v);
#else
	return vf_to_bf16(v);
#endif
}

RLX_INLINE void store_as(void *p, size_t at, bool f32, vf v, size_t n)
{
	if (f32 && n < RLX_VL)
		vf_storen((float *)p + at, v, n);
	else if (f32)
		vf_storeu((float *)p + at, v);
	else if (n < RLX_VL)
		vu16h_storen((uint16_t *)p + at, to_bf16(v), n);
	else
		vu16h_storeu((uint16_t *)p + at, to_bf16(v));
}

#define ACT(name)							\
	case name:							\
		for (i = 0; i < n; i += RLX_VL)				\
			vf_storeu(t + i, vf_act(vf_loadu(t + i), name, lo, hi)); \
		break

/* What no bounds can be, in place. */
static void act_run(const struct rlx_k_conv_bf16 *a, float *t, size_t n)
{
	const vf lo = vf_set1(a->act_a), hi = vf_set1(a->act_b);
	size_t i;

	switch (a->act) {
	ACT(RLX_ACT_HARD_SIGMOID);
	ACT(RLX_ACT_HARD_SWISH);
	ACT(RLX_ACT_SIGMOID);
	ACT(RLX_ACT_SILU);
	ACT(RLX_ACT_TANH);
	ACT(RLX_ACT_GELU);
	ACT(RLX_ACT_GELU_TANH);
	default:
		break;
	}
}

/* The bias of a block's channels; those that are not there have 0. */
static void bias_get(const struct run *r, const struct unit *u, const struct out *o,
		     float bias[BLOCK])
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t first = u->g * r->ocg + o->block * BLOCK;
	size_t i;

	for (i = 0; i < BLOCK; i += RLX_VL)
		vf_storeu(bias + i, a->bias && o->real > i ?
			  load_as(a->bias, first + i, !a->bias_bf16, o->real - i) : vf_zero());
}

/* A sum with its addends; and the bounds, or, where there are others, as it is for act_run(). */
RLX_INLINE vf finished(const struct run *r, vf v)
{
	return r->clamps ? vf_min(r->hi, vf_max(r->lo, v)) : v;
}

static void finish_blocked(const struct run *r, const struct unit *u, const struct out *o,
			   float *t)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t plane = a->oh * a->ow * BLOCK, n = o->valid * BLOCK;
	const size_t at = (u->g * r->blocks + o->block) * plane + o->at * BLOCK;
	const bool res_f32 = a->res_f32, y_f32 = a->y_f32;
	const size_t from = u->n * a->res_n + at, to = u->n * a->y_n + at;
	float bias[BLOCK];
	size_t i;

	bias_get(r, u, o, bias);
	for (i = 0; i < n; i += RLX_VL) {
		vf v = vf_loadu(t + i) + vf_loadu(bias + i % BLOCK);

		if (a->res)
			v += load_as(a->res, from + i, res_f32, RLX_VL);
		v = finished(r, v);
		if (r->clamps)
			store_as(a->y, to + i, y_f32, v, RLX_VL);
		else
			vf_storeu(t + i, v);
	}
	if (r->clamps)
		return;
	act_run(a, t, n);
	for (i = 0; i < n; i += RLX_VL)
		store_as(a->y, to + i, y_f32, vf_loadu(t + i), RLX_VL);
}

static void finish_plain(const struct run *r, const struct unit *u, const struct out *o,
			 const float *sums)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t plane = a->oh * a->ow, line = RLX_CONV_BF16_PIXELS;
	const size_t at = (u->g * r->ocg + o->block * BLOCK) * plane + o->at;
	_Alignas(64) float t[TILE];
	float bias[BLOCK];
	size_t c, i;

	bias_get(r, u, o, bias);
	vi_transpose_block((const char *)sums, BLOCK * 4, (char *)t, line * 4, o->valid, BLOCK);
	for (c = 0; c < o->real; c++)
		for (i = 0; i < o->valid; i += RLX_VL) {
			float *p = t + c * line + i;
			vf v = vf_loadu(p) + vf_set1(bias[c]);

			if (a->res)
				v += load_as(a->res, u->n * a->res_n + at + c * plane + i,
					     a->res_f32, o->valid - i);
			v = finished(r, v);
			if (r->clamps)
				store_as(a->y, u->n * a->y_n + at + c * plane + i, a->y_f32, v,
					 o->valid - i);
			else
				vf_storeu(p, v);
		}
	if (r->clamps)
		return;
	act_run(a, t, o->real * line);
	for (c = 0; c < o->real; c++)
		for (i = 0; i < o->valid; i += RLX_VL)
			store_as(a->y, u->n * a->y_n + at + c * plane + i, a->y_f32,
				 vf_loadu(t + c * line + i), o->valid - i);
}

/* Tile @m of the unit, of @k blocks from @block on. */
static void finish(const struct run *r, const struct unit *u, size_t m, size_t block, int k,
		   float *sums)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	size_t across = (u->cols + a->width - 1) / a->width, x = m % across * a->width;
	struct out o = { .at = (u->oy + m / across) * a->ow + u->ox + x };

	o.valid = u->cols - x < a->width ? u->cols - x : a->width;
	for (int i = 0; i < k; i++, sums += TILE) {
		o.block = block + (size_t)i;
		o.real = r->ocg - o.block * BLOCK < BLOCK ? r->ocg - o.block * BLOCK : BLOCK;
		if (a->y_plain)
			finish_plain(r, u, &o, sums);
		else
			finish_blocked(r, u, &o, sums);
	}
}

/* All pixels of the unit by a pair of blocks, or the last one. */
static void pair_run(const struct run *r, const struct unit *u, size_t pair)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t across = (u->cols + a->width - 1) / a->width, tiles = across * u->rows;
	const size_t block = 2 * pair, pixel = a->by_row ? a->row_steps * STEP_BYTES : STEP_BYTES;
	const int nb = r->blocks - block > 1 ? 2 : 1;
	const char *w = (const char *)a->w + (u->g * r->blocks + block) * a->steps * W_BYTES;
	const bool once = a->part == a->steps;
	struct tiles t = { .lda = a->xs * pixel, .width = a->width };
	size_t s, m, i, na;

	t.lines = ((size_t)nb * W_BYTES / 64 + (tiles - 1) / 2) / ((tiles + 1) / 2);
	for (s = 0; s < a->steps; s += a->part) {
		const bool last = s + a->part >= a->steps;

		t.steps = last ? a->steps - s : a->part;
		t.offs = r->offs + s;
		t.w = w + s * (size_t)nb * W_BYTES;
		t.first = s == 0;
		t.ahead = t.w + t.steps * (size_t)nb * W_BYTES;
		for (m = 0; m < tiles; m += na) {
			na = tiles - m > 1 ? 2 : 1;
			t.sums = r->sums + (once ? 0 : m) * 2 * TILE;
			for (i = 0; i < na; i++)
				t.a[i] = r->copy + (m + i) / across * a->ys * r->row +
					 (m + i) % across * a->width * t.lda;
			tiles_run(&t, (int)na, nb);
			t.ahead += t.steps * t.lines * 64;
			for (i = 0; last && i < na; i++)
				finish(r, u, m + i, block, nb, t.sums + i * 2 * TILE);
		}
	}
}

void RLX_K(conv_bf16)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_bf16 *a = args;
	size_t i, p, loaded = (size_t)-1;
	struct run r;

	run_init(&r, a, scratch);
	tiles_begin(a->width);
	for (i = begin; i < end; i++) {
		struct unit u = unit_get(&r, i);

		if (u.block != loaded)
			copy_block(&r, &u);
		loaded = u.block;
		for (p = 0; p < u.pairs; p++)
			pair_run(&r, &u, u.pair + p);
	}
	tiles_end();
}

/* ---- weights ---- */

/* Where in a filter of the source the @k-th term of step @s is; -1: nowhere, for 0. */
static ptrdiff_t term_at(const struct rlx_k_conv_bf16 *a, size_t icg, size_t s, size_t k)
{
	size_t tap, c;

	if (a->by_row) {
		c = s % a->row_steps * STEP + k;
		tap = c / icg;
		if (tap >= a->kw)
			return -1;
		c %= icg;
		tap += s / a->row_steps * a->kw;
	} else {
		c = s / (a->kh * a->kw) * STEP + k;
		tap = s % (a->kh * a->kw);
	}
	return c < icg ? (ptrdiff_t)(c * a->kh * a->kw + tap) : -1;
}

/* One step's weights of a block of @real channels: pairs of terms, by channel. */
static void pack_step(const struct rlx_k_conv_bf16 *a, uint16_t *d, const uint16_t *src, size_t s,
		      size_t real)
{
	const size_t icg = a->ic / a->groups, filter = icg * a->kh * a->kw;
	size_t k, o;

	for (k = 0; k < STEP; k++) {
		ptrdiff_t at = term_at(a, icg, s, k);
		uint16_t *to = d + k / 2 * 2 * BLOCK + k % 2;

		for (o = 0; o < BLOCK; o++)
			to[2 * o] = at < 0 || o >= real ? 0 : src[o * filter + (size_t)at];
	}
}

void RLX_K(conv_bf16_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_pack *pk = args;
	const struct rlx_k_conv_bf16 *a = (const void *)pk->conv;
	const size_t ocg = a->oc / a->groups, filter = a->ic / a->groups * a->kh * a->kw;
	const size_t blocks = rlx_conv_bf16_blocks(a), pairs = rlx_conv_bf16_pairs(a);
	size_t i, s, b;

	(void)scratch;
	for (i = begin; i < end; i++) {
		const size_t g = i / pairs, first = i % pairs * 2;
		const size_t nb = blocks - first < 2 ? 1 : 2;
		uint16_t *d = (uint16_t *)pk->dst + (g * blocks + first) * a->steps * STEP * BLOCK;

		for (s = 0; s < a->steps; s++)
			for (b = 0; b < nb; b++, d += STEP * BLOCK) {
				const size_t o = (first + b) * BLOCK;

				pack_step(a, d, (const uint16_t *)(const void *)pk->src +
					  (g * ocg + o) * filter, s,
					  ocg - o < BLOCK ? ocg - o : BLOCK);
			}
	}
}

#endif
