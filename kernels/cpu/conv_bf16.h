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

#include "kernels/conv_bf16.h"
#include "kernels/cpu/conv_act.h"
#include "kernels/cpu/conv_unit.h"
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
	struct conv_grid grid;
	size_t		icg, ocg, blocks;	/* of a group */
	size_t		pixel, row, plane;	/* bytes of the copy's, and of a step's channels */
	size_t		next;			/* from those to the next step's of the same tap */
	ptrdiff_t	*offs;
	float		*sums;
	char		*copy;
	struct rlx_k_conv_c window;		/* for rlx_conv_rows() */
	struct conv_act	act;
	struct conv_fuse fuse;
	bool		fused;			/* fuse is all of act */
};

static void offs_fill(struct run *r)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t taps = a->by_row ? 1 : a->kw;
	ptrdiff_t *o = r->offs;
	size_t cb, y, x;

	for (y = 0; y < a->kh; y++)
		for (cb = 0; cb < a->row_steps; cb++)
			for (x = 0; x < taps; x++)
				*o++ = (ptrdiff_t)(y * a->yt * r->row + cb * r->next +
						   x * a->xt * r->pixel);
}

static void run_init(struct run *r, const struct rlx_k_conv_bf16 *a, void *scratch)
{
	r->a = a;
	r->grid = CONV_GRID(a, rlx_conv_bf16_pairs(a));
	r->icg = a->ic / a->groups;
	r->ocg = a->oc / a->groups;
	r->blocks = rlx_conv_bf16_blocks(a);
	r->pixel = rlx_conv_bf16_pixel(a);
	r->row = rlx_conv_bf16_row(a);
	r->plane = a->in_rows * r->row;
	r->next = a->by_row ? STEP_BYTES : r->plane;
	r->window = (struct rlx_k_conv_c){ .ih = a->ih, .pt = a->pt, .kh = a->kh, .sh = a->sh,
					   .dh = a->dh };
	r->offs = scratch;
	r->sums = (float *)((char *)scratch + rlx_conv_bf16_offsets(a));
	r->copy = (char *)r->sums + rlx_conv_bf16_sums(a);
	r->act = (struct conv_act){ a->act, a->act_a, a->act_b };
	r->fused = conv_fuse_of(&r->act, &r->fuse);
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

/* Sixteen elements @t->step apart from @at on: by permutes of 64, or one by one. */
RLX_INLINE __m256i line_spread(const uint16_t *x, ptrdiff_t at, const struct turn *t)
{
	static const uint16_t by[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	const ptrdiff_t s = (ptrdiff_t)t->step, w = (ptrdiff_t)t->iw;
	uint16_t e[16];

	if (s <= 4) {
		const __mmask32 lo = mask_in(at, w), hi = mask_in(at + 32, w);
		const __m256i i = _mm256_mullo_epi16(_mm256_loadu_si256((const __m256i *)by),
						     _mm256_set1_epi16((short)s));
		const __m512i first = lo ? _mm512_maskz_loadu_epi16(lo, x + at) :
				      _mm512_setzero_si512();
		const __m512i then = hi ? _mm512_maskz_loadu_epi16(hi, x + at + 32) :
				     _mm512_setzero_si512();

		return _mm512_castsi512_si256(_mm512_permutex2var_epi16(
				first, _mm512_castsi256_si512(i), then));
	}
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
		v = l->x ? line_spread(l->x, at, t) : _mm256_setzero_si256();
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

/* Channel 0 of the group in the input's row for row @i of the copy; NULL: padding. @lane: apart */
static const uint16_t *row_of(const struct run *r, const struct conv_unit *u, size_t i, size_t lane)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	size_t plane = u->g * r->icg * a->ih * a->iw, iy;

	if (a->rows_apart)
		iy = (u->oy + i / a->kh) * a->sh + i % a->kh * a->dh - a->pt;
	else
		iy = u->oy * a->sh + i - a->pt;
	/* before the input: beyond all that there is */
	return iy < a->ih ? a->x + u->n * a->x_n + plane + iy * a->iw * lane : NULL;
}

/* Does a tap of one of the unit's rows read row @i of the copy? */
static bool is_read(const struct rlx_k_conv_bf16 *a, const struct conv_unit *u, size_t i)
{
	size_t y;

	for (y = 0; y < a->kh && y * a->yt <= i; y++)
		if ((i - y * a->yt) % a->ys == 0 && (i - y * a->yt) / a->ys < u->rows)
			return true;
	return false;
}

/* The lines of the @s-th step: channels of one tap, or what a row of taps reads from @at on. */
static void lines_of(const struct run *r, const uint16_t *x, size_t s, ptrdiff_t at,
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
				      at + (ptrdiff_t)(tap * a->dw) };
	}
}

/* From plain channels. */
static void copy_plain(const struct run *r, char *dst, const uint16_t *x, ptrdiff_t at,
		       const struct turn *t)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	struct line l[STEP];
	size_t s;

	for (s = 0; s < a->row_steps; s++) {
		lines_of(r, x, s, at, l);
		lines_turn(dst + s * r->next, t, l);
	}
}

/* A pixel of @left channels of a block; those that are not there are 0. */
RLX_INLINE void copy_lanes(char *dst, const uint16_t *x, size_t left)
{
	RLX_UNROLL
	for (size_t v = 0; v < BLOCK; v += RLX_VL)
		vu16h_storeu(dst + v * 2, vu16h_loadn(x + v, left > v ? left - v : 0));
}

/* From blocked channels: two blocks of a row, @plane elements apart, to those of a step. */
static void copy_blocks(char *dst, const uint16_t *x, ptrdiff_t at, const struct turn *t,
			size_t plane, size_t left)
{
	const size_t second = left > BLOCK ? left - BLOCK : 0;
	size_t j;

	for (j = 0; j < t->n; j++, dst += t->pitch, at += (ptrdiff_t)t->step) {
		const uint16_t *p = x + at * BLOCK;

		if (at < 0 || at >= (ptrdiff_t)t->iw) {
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

/*
 * A row of taps of one block's channels, one tap behind the other, for each pixel. A tap's whole
 * block is written, with zeros behind its channels: the next tap, pixel and row come after it.
 */
static void copy_taps(const struct run *r, char *dst, const uint16_t *x, ptrdiff_t at,
		      const struct turn *t)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t tap = 2 * r->icg, end = (a->kw - 1) * tap + 2 * BLOCK;
	size_t j, k;

	for (j = 0; j < t->n; j++, dst += t->pitch, at += (ptrdiff_t)t->step) {
		ptrdiff_t from = at;

		for (k = 0; k < a->kw; k++, from += (ptrdiff_t)a->dw) {
			const bool in = from >= 0 && from < (ptrdiff_t)t->iw;

			copy_lanes(dst + k * tap, x + (in ? from : 0) * BLOCK, in ? r->icg : 0);
		}
		if (end < t->pitch)
			memset(dst + end, 0, t->pitch - end);
	}
}

/* Row @x to row @dst of the copy: what its taps read, or that of each tap by itself. */
static void copy_pixels(const struct run *r, const struct conv_unit *u, char *dst,
			const uint16_t *x)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t runs = a->cols_apart ? a->kw : 1, plane = a->ih * a->iw * BLOCK;
	const struct turn t = {
		.pitch = r->pixel, .step = a->by_row || a->cols_apart ? a->sw : 1,
		.n = a->in_cols / runs, .iw = a->iw,
	};
	ptrdiff_t at = (ptrdiff_t)(u->ox * a->sw) - (ptrdiff_t)a->pl;
	size_t i, s;

	for (i = 0; i < runs; i++, at += (ptrdiff_t)a->dw, dst += t.n * t.pitch) {
		if (a->x_plain)
			copy_plain(r, dst, x, at, &t);
		else if (a->by_row)
			copy_taps(r, dst, x, at, &t);
		for (s = 0; !a->x_plain && !a->by_row && s < a->row_steps; s++)
			copy_blocks(dst + s * r->plane, x + s * 2 * plane, at, &t, plane,
				    r->icg - s * STEP);
	}
}

static void copy_block(const struct run *r, const struct conv_unit *u)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t rows = rlx_conv_bf16_rows(a, u->rows);
	size_t i;

	for (i = 0; i < rows; i++) {
		const uint16_t *x = row_of(r, u, i, a->x_plain ? 1 : BLOCK);

		if (x && is_read(a, u, i))
			copy_pixels(r, u, r->copy + i * r->row, x);
	}
}

/* ---- the epilogue, and the sums ---- */

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

/* The bias of a block's channels; those that are not there have 0. */
static void bias_get(const struct run *r, const struct conv_unit *u, const struct out *o,
		     float bias[BLOCK])
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t first = u->g * r->ocg + o->block * BLOCK;
	size_t i;

	for (i = 0; i < BLOCK; i += RLX_VL)
		vf_storeu(bias + i, a->bias && o->real > i ?
			  load_as(a->bias, first + i, !a->bias_bf16, o->real - i) : vf_zero());
}

static void epilogue_blocked(const struct run *r, const struct conv_unit *u, const struct out *o,
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
		if (r->fused)
			store_as(a->y, to + i, y_f32, conv_fuse_run(&r->fuse, v), RLX_VL);
		else
			vf_storeu(t + i, v);
	}
	if (r->fused)
		return;
	conv_act_apply(&r->act, t, n);
	for (i = 0; i < n; i += RLX_VL)
		store_as(a->y, to + i, y_f32, vf_loadu(t + i), RLX_VL);
}

static void epilogue_plain(const struct run *r, const struct conv_unit *u, const struct out *o,
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
			const size_t from = at + c * plane + i, left = o->valid - i;
			vf v = vf_loadu(t + c * line + i) + vf_set1(bias[c]);

			if (a->res)
				v += load_as(a->res, u->n * a->res_n + from, a->res_f32, left);
			if (r->fused)
				store_as(a->y, u->n * a->y_n + from, a->y_f32,
					 conv_fuse_run(&r->fuse, v), left);
			else
				vf_storeu(t + c * line + i, v);
		}
	if (r->fused)
		return;
	conv_act_apply(&r->act, t, o->real * line);
	for (c = 0; c < o->real; c++)
		for (i = 0; i < o->valid; i += RLX_VL)
			store_as(a->y, u->n * a->y_n + at + c * plane + i, a->y_f32,
				 vf_loadu(t + c * line + i), o->valid - i);
}

/* Tile @m of the unit, of @k blocks from @block on. */
static void epilogue(const struct run *r, const struct conv_unit *u, size_t m, size_t block, int k,
		     float *sums)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	size_t across = rlx_conv_bf16_across(a, u->cols), x = m % across * a->width;
	struct out o = { .at = (u->oy + m / across) * a->ow + u->ox + x };

	o.valid = u->cols - x < a->width ? u->cols - x : a->width;
	for (int i = 0; i < k; i++, sums += TILE) {
		o.block = block + (size_t)i;
		o.real = r->ocg - o.block * BLOCK < BLOCK ? r->ocg - o.block * BLOCK : BLOCK;
		if (a->y_plain)
			epilogue_plain(r, u, &o, sums);
		else
			epilogue_blocked(r, u, &o, sums);
	}
}

/* Steps [first, first + n) of K. */
struct steps {
	size_t	first, n;
};

/* Those of @part that row @row of the unit has: rows of taps in the padding have none. */
static struct steps steps_of(const struct run *r, const struct conv_unit *u, size_t row,
			     const struct steps *part)
{
	size_t per = r->a->steps / r->a->kh, end = part->first + part->n, y[2], lo, hi;

	rlx_conv_rows(&r->window, u->oy + row, y);
	lo = y[0] * per > part->first ? y[0] * per : part->first;
	hi = y[1] * per < end ? y[1] * per : end;
	return (struct steps){ lo, hi > lo ? hi - lo : 0 };
}

/* All pixels of the unit by a part of K; @w: the weights of a pair of blocks, or the last one. */
static void part_run(const struct run *r, const struct conv_unit *u, size_t block, const char *w,
		     const struct steps *part)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t across = rlx_conv_bf16_across(a, u->cols), tiles = across * u->rows;
	const bool once = part->n == a->steps, last = part->first + part->n == a->steps;
	const size_t nb = r->blocks - block > 1 ? 2 : 1, runs = (tiles + 1) / 2;
	struct tiles t = { .lda = a->xs * r->pixel, .width = a->width, .first = !part->first };
	size_t m, i, na;

	t.lines = (nb * W_BYTES / 64 + runs - 1) / runs;
	t.ahead = w + (part->first + part->n) * nb * W_BYTES;
	for (m = 0; m < tiles; m += na) {
		const struct steps own = steps_of(r, u, m / across, part);
		const struct steps then = steps_of(r, u, (m + 1) / across, part);

		na = m + 1 < tiles && then.first == own.first && then.n == own.n ? 2 : 1;
		t.steps = own.n;
		t.offs = r->offs + own.first;
		t.w = w + own.first * nb * W_BYTES;
		t.sums = r->sums + (once ? 0 : m) * 2 * TILE;
		for (i = 0; i < na; i++)
			t.a[i] = r->copy + (m + i) / across * a->ys * r->row +
				 (m + i) % across * a->width * t.lda;
		if (own.n || t.first)
			tiles_run(&t, (int)na, (int)nb);
		t.ahead += t.steps * t.lines * 64;
		for (i = 0; last && i < na; i++)
			epilogue(r, u, m + i, block, (int)nb, t.sums + i * 2 * TILE);
	}
}

static void pair_run(const struct run *r, const struct conv_unit *u, size_t pair)
{
	const struct rlx_k_conv_bf16 *a = r->a;
	const size_t block = 2 * pair;
	const char *w = (const char *)a->w + (u->g * r->blocks + block) * a->steps * W_BYTES;
	struct steps part = { 0 };

	for (; part.first < a->steps; part.first += part.n) {
		part.n = a->steps - part.first < a->part ? a->steps - part.first : a->part;
		part_run(r, u, block, w, &part);
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
		struct conv_unit u = conv_unit_at(&r.grid, i);

		if (u.block != loaded)
			copy_block(&r, &u);
		loaded = u.block;
		for (p = 0; p < u.pairs; p++)
			pair_run(&r, &u, u.pair + p);
	}
	tiles_end();
}

/* ---- weights ---- */

/* Where in a filter of the source the terms of step @s are; -1: nowhere, for 0. */
static void terms_of(const struct rlx_k_conv_bf16 *a, size_t icg, size_t s, ptrdiff_t at[STEP])
{
	const size_t taps = a->kh * a->kw, channel = a->turned ? a->oc / a->groups * taps : taps;
	const size_t per = a->steps / a->kh, row = s / per * a->kw;
	const size_t from = s % per, first = (a->by_row ? from : from / a->kw) * STEP;
	size_t tap = a->by_row ? first / icg : from % a->kw, c = a->by_row ? first % icg : first, k;

	for (k = 0; k < STEP; k++, c++) {
		if (a->by_row && c == icg) {
			c = 0;
			tap++;
		}
		at[k] = tap >= a->kw || c >= icg ? -1 :
			(ptrdiff_t)(c * channel + (a->turned ? taps - 1 - row - tap : row + tap));
	}
}

/* One step's weights of a block of @real channels, @filter apart: pairs of terms, by channel. */
static void pack_step(uint16_t *d, const uint16_t *src, const ptrdiff_t at[STEP], size_t filter,
		      size_t real)
{
	size_t k, o;

	for (k = 0; k < STEP; k++) {
		uint16_t *to = d + k / 2 * 2 * BLOCK + k % 2;

		for (o = 0; o < BLOCK; o++)
			to[2 * o] = at[k] < 0 || o >= real ? 0 : src[o * filter + (size_t)at[k]];
	}
}

void RLX_K(conv_bf16_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_pack *pk = args;
	const struct rlx_k_conv_bf16 *a = (const void *)pk->conv;
	const size_t ocg = a->oc / a->groups, taps = a->kh * a->kw;
	const size_t group = ocg * (a->ic / a->groups) * taps;
	const size_t filter = a->turned ? taps : a->ic / a->groups * taps;
	const size_t blocks = rlx_conv_bf16_blocks(a), pairs = rlx_conv_bf16_pairs(a);
	const uint16_t *src = (const uint16_t *)(const void *)pk->src;
	ptrdiff_t at[STEP];
	size_t i, s, b;

	(void)scratch;
	for (i = begin; i < end; i++) {
		const size_t g = i / pairs, first = i % pairs * 2;
		const size_t nb = blocks - first < 2 ? 1 : 2;
		uint16_t *d = (uint16_t *)pk->dst + (g * blocks + first) * a->steps * STEP * BLOCK;

		for (s = 0; s < a->steps; s++) {
			terms_of(a, a->ic / a->groups, s, at);
			for (b = 0; b < nb; b++, d += STEP * BLOCK) {
				const size_t o = (first + b) * BLOCK;

				pack_step(d, src + g * group + o * filter, at, filter,
					  ocg - o < BLOCK ? ocg - o : BLOCK);
			}
		}
	}
}

#endif
