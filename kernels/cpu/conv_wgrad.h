/* SPDX-License-Identifier: MIT */
/*
 * Kernels conv_wgrad and conv_wgrad_sum, by the tiles of kernels/cpu/conv_bf16.h, which the
 * includer has for its level. What a piece and a grid are kernels/conv_wgrad.h says.
 */
#ifndef RLX_CPU_CONV_WGRAD_H
#define RLX_CPU_CONV_WGRAD_H

#include "kernels/conv_wgrad.h"
#include "kernels/cpu/conv_bf16.h"

rlx_k_fn RLX_K(conv_wgrad);
rlx_k_fn RLX_K(conv_wgrad_sum);

/* Steps whose tiles of A and B stay in L1 for all taps. */
enum { WGRAD_STEPS = 12 };

/* One call, and the unit it is at: of a group channels of x from @first, pairs of B from @opair. */
struct wgrad {
	const struct rlx_k_conv_wgrad *a;
	ptrdiff_t	*offs;
	char		*grid, *lines, *pairs;
	size_t		g, part, cpair, cpairs, opair, opairs;
	size_t		first;		/* channel that lines begin with */
};

/* One piece: its image, and its first pixel of dy. */
struct piece {
	size_t	n, oy, ox, rows, cols;
};

static void piece_cut(const struct rlx_k_conv_wgrad *a, struct piece *p)
{
	p->rows = a->oh - p->oy < a->rows ? a->oh - p->oy : a->rows;
	p->cols = a->ow - p->ox < a->cols ? a->ow - p->ox : a->cols;
}

static struct piece piece_at(const struct rlx_k_conv_wgrad *a, size_t i)
{
	struct piece p = { .ox = i % a->ncols * a->cols };

	i /= a->ncols;
	p.oy = i % a->nrows * a->rows;
	p.n = i / a->nrows;
	piece_cut(a, &p);
	return p;
}

static void piece_next(const struct rlx_k_conv_wgrad *a, struct piece *p)
{
	p->ox += a->cols;
	if (p->ox >= a->ow) {
		p->ox = 0;
		p->oy += a->rows;
	}
	if (p->oy >= a->oh) {
		p->oy = 0;
		p->n++;
	}
	piece_cut(a, p);
}

/*
 * What a grid has of a plane of @ih x @iw: pixel (r, c) is the plane's (y + r sy, x + c sx); 0
 * outside of it and from @rows, @cols on. @pitch, @cells: of the grid
 */
struct view {
	ptrdiff_t	y, x;
	size_t		sy, sx, ih, iw, rows, cols, pitch, cells;
};

/* Pixel [@lane elements] @c of row @y of a plane; NULL: it is not there. */
RLX_INLINE const uint16_t *view_at(const struct view *v, const uint16_t *src, ptrdiff_t y,
				   size_t c, size_t lane)
{
	const ptrdiff_t x = v->x + (ptrdiff_t)(c * v->sx), iw = (ptrdiff_t)v->iw;

	if (y < 0 || y >= (ptrdiff_t)v->ih || x < 0 || x >= iw || c >= v->cols)
		return NULL;
	return src + (y * iw + x) * (ptrdiff_t)lane;
}

/* Pixels from @c on, which is there, that lie together. */
RLX_INLINE size_t view_run(const struct view *v, size_t c)
{
	const size_t left = (size_t)((ptrdiff_t)v->iw - v->x) - c, to = v->cols - c;

	return left < to ? left : to;
}

#if defined(RLX_V512)
RLX_INLINE __mmask32 low_bits(size_t n)
{
	return n < 32 ? (1u << n) - 1 : 0xffffffffu;
}

/* A row of the grid, of row @s of the plane. */
RLX_INLINE void view_row(const struct view *v, const uint16_t *s, uint16_t *dst)
{
	const struct turn t = { .step = v->sx, .iw = v->iw };
	size_t c;

	for (c = 0; c < v->pitch && v->sx == 1; c += 32) {
		const ptrdiff_t at = v->x + (ptrdiff_t)c;
		const __mmask32 m = mask_in(at, (ptrdiff_t)v->iw) &
				    low_bits(c < v->cols ? v->cols - c : 0);

		_mm512_mask_storeu_epi16(dst + c, low_bits(v->pitch - c),
					 m ? _mm512_maskz_loadu_epi16(m, s + at) :
					 _mm512_setzero_si512());
	}
	for (c = 0; c < v->pitch && v->sx > 1; c += 16) {
		const __mmask32 m = low_bits(c < v->cols ? v->cols - c : 0);
		const __m256i e = line_spread(s, v->x + (ptrdiff_t)(c * v->sx), &t);

		_mm256_mask_storeu_epi16(dst + c, (__mmask16)low_bits(v->pitch - c),
					 _mm256_maskz_mov_epi16((__mmask16)m, e));
	}
}
#endif

/* A plane of @lane elements a pixel to the grid. */
RLX_INLINE void view_lay(const struct view *v, const uint16_t *src, uint16_t *dst,
			 const size_t lane)
{
	static const uint16_t none[BLOCK];
	const size_t rest = v->cells - v->rows * v->pitch;
	ptrdiff_t y = v->y;
	size_t r, c, n;

	for (r = 0; r < v->rows; r++, dst += v->pitch * lane, y += (ptrdiff_t)v->sy) {
#if defined(RLX_V512)
		if (lane == 1 && y >= 0 && y < (ptrdiff_t)v->ih) {
			view_row(v, src + y * (ptrdiff_t)v->iw, dst);
			continue;
		}
#endif
		for (c = 0; c < v->pitch; c += n) {
			const uint16_t *p = view_at(v, src, y, c, lane);

			n = p && v->sx == 1 ? view_run(v, c) : 1;
			memcpy(dst + c * lane, p ? p : none, n * lane * 2);
		}
	}
	if (rest)
		memset(dst, 0, rest * lane * 2);
}

/* Pixels 2 i and 2 i + 1 of a grid of blocks, as pairs by channel. */
RLX_INLINE void pair_up(const uint16_t *grid, size_t i, char *dst)
{
#if defined(RLX_V512)
	static const uint16_t order[STEP] = {
		0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23,
		8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31,
	};

	_mm512_storeu_si512(dst, _mm512_permutexvar_epi16(_mm512_loadu_si512(order),
							  _mm512_loadu_si512(grid + i * STEP)));
#else
	for (size_t c = 0; c < STEP; c++)
		memcpy(dst + 2 * c, grid + i * STEP + c % 2 * BLOCK + c / 2, 2);
#endif
}

/* ---- x ---- */

/* A phase of a piece: of x. */
static struct view view_of_x(const struct rlx_k_conv_wgrad *a, const struct piece *p, size_t y,
			     size_t x)
{
	return (struct view){
		.y = (ptrdiff_t)(p->oy * a->sh + y * a->dh % a->sh) - (ptrdiff_t)a->pt,
		.x = (ptrdiff_t)(p->ox * a->sw + x * a->dw % a->sw) - (ptrdiff_t)a->pl,
		.sy = a->sh, .sx = a->sw, .ih = a->ih, .iw = a->iw,
		.rows = p->rows + a->yreach, .cols = p->cols + a->xreach, .pitch = a->pitch,
		.cells = a->phase,
	};
}

/* Block @b of channels: pairs of pixels turned to rows. */
static void lines_blocked(const struct wgrad *w, const struct view *v, const uint16_t *src,
			  char *dst)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	_Alignas(64) char pairs[BLOCK * STEP_BYTES];
	size_t i, j;

	view_lay(v, src, (uint16_t *)(void *)w->grid, BLOCK);
	for (i = 0; i < a->phase; i += STEP, dst += STEP_BYTES) {
		for (j = 0; j < BLOCK; j++)
			pair_up((uint16_t *)(void *)w->grid, i / 2 + j, pairs + j * STEP_BYTES);
		vi_transpose_block(pairs, STEP_BYTES, dst, a->line, BLOCK, BLOCK);
	}
}

/* @src: channel or block of the first image; @dst: of one piece, all phases */
static void lines_piece(const struct wgrad *w, const struct piece *p, const uint16_t *src,
			char *dst)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	size_t y, x;

	src += p->n * a->x_n;
	for (y = 0; y < a->yphases; y++)
		for (x = 0; x < a->xphases; x++, dst += a->phase * 2) {
			const struct view v = view_of_x(a, p, y, x);

			if (a->x_blocked)
				lines_blocked(w, &v, src, dst);
			else
				view_lay(&v, src, (uint16_t *)(void *)dst, 1);
		}
}

/*
 * @n pieces, @from first, of all channels that the unit has: of one after the other, whose images
 * may lie together.
 */
static void lines_lay(const struct wgrad *w, const struct piece *from, size_t n)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	const size_t bytes = a->yphases * a->xphases * a->phase * 2;
	const size_t all = (w->cpair + w->cpairs) * 2 * a->width;
	const size_t end = all < a->ci ? all : a->ci;
	size_t c, k;

	for (c = w->first; c < end; c += a->x_blocked ? BLOCK : 1) {
		char *dst = w->lines + (c - w->first) * a->line;
		struct piece p = *from;

		for (k = 0; k < n; k++, piece_next(a, &p), dst += bytes)
			lines_piece(w, &p, a->x + w->g * a->x_g + c * a->x_c, dst);
	}
}

/* ---- dy ---- */

/* Pixels of a piece on the grid, of a block or of @real channels, to a tile in each step. */
static void pairs_turn(const struct wgrad *w, const uint16_t *grid, size_t real, char *dst,
		       size_t nb)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	const size_t pitch = a->batch * a->steps * STEP_BYTES;
	size_t s, j;

	for (s = 0; s < a->steps; s++, dst += nb * W_BYTES)
		if (a->dy_blocked)
			for (j = 0; j < STEP / 2; j++)
				pair_up(grid, s * STEP / 2 + j, dst + j * STEP_BYTES);
		else
			vi_transpose_block((const char *)(grid + s * STEP), pitch, dst, STEP_BYTES,
					   real, BLOCK);
}

/* Block @b of channels of dy: @n pieces, to tiles at @dst of @nb side by side. */
static void pairs_block(const struct wgrad *w, const struct piece *from, size_t n, size_t b,
			char *dst, size_t nb)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	const size_t left = a->co - b * BLOCK, real = left < BLOCK ? left : BLOCK;
	const size_t cells = a->steps * STEP, lane = a->dy_blocked ? BLOCK : 1;
	const uint16_t *src = a->dy + w->g * a->dy_g + b * BLOCK * a->dy_c;
	uint16_t *grid = (uint16_t *)(void *)w->grid;
	size_t c, k;

	for (c = 0; c < (a->dy_blocked ? 1 : real); c++) {
		struct piece p = *from;

		for (k = 0; k < n; k++, piece_next(a, &p)) {
			const struct view v = {
				.y = (ptrdiff_t)p.oy, .x = (ptrdiff_t)p.ox, .sy = 1, .sx = 1,
				.ih = a->oh, .iw = a->ow, .rows = p.rows, .cols = p.cols,
				.pitch = a->pitch, .cells = cells,
			};
			const uint16_t *s = src + c * a->dy_c + p.n * a->dy_n;
			uint16_t *to = grid + (c * a->batch + k) * cells * lane;

			if (a->dy_blocked)
				view_lay(&v, s, to, BLOCK);
			else
				view_lay(&v, s, to, 1);
		}
	}
	for (k = 0; k < n; k++)
		pairs_turn(w, grid + k * cells * lane, real, dst + k * a->steps * nb * W_BYTES,
			   nb);
}

static void pairs_lay(const struct wgrad *w, const struct piece *from, size_t n)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	const size_t blocks = (a->co + BLOCK - 1) / BLOCK;
	size_t i, b;

	for (i = 0; i < w->opairs; i++) {
		const size_t first = 2 * (w->opair + i), nb = blocks - first < 2 ? 1 : 2;
		char *dst = w->pairs + i * rlx_conv_wgrad_pair(a);

		for (b = 0; b < nb; b++)
			pairs_block(w, from, n, first + b, dst + b * W_BYTES, nb);
	}
}

/* ---- the products ---- */

static float *wgrad_sums(const struct rlx_k_conv_wgrad *a, size_t part, size_t g, size_t cpair,
			 size_t opair)
{
	const size_t i = ((part * a->groups + g) * a->cpairs + cpair) * a->opairs + opair;

	return a->sums + i * a->kh * a->kw * 4 * TILE;
}

/* A pair of tiles of A by one of B, all taps, steps [from, from + n) of the batch. */
static void taps_run(const struct wgrad *w, size_t cpair, size_t opair, size_t from, size_t n,
		     bool first)
{
	const struct rlx_k_conv_wgrad *a = w->a;
	const size_t blocks = (a->co + BLOCK - 1) / BLOCK, nb = blocks - 2 * opair < 2 ? 1 : 2;
	const size_t row = cpair * 2 * a->width, na = a->ci - row <= a->width ? 1 : 2;
	const char *lines = w->lines + (row - w->first) * a->line;
	float *sums = wgrad_sums(a, w->part, w->g, cpair, opair);
	struct tiles t = { .lda = a->line, .width = a->width, .first = first, .steps = n };
	size_t y, x;

	t.offs = w->offs + from;
	t.w = w->pairs + (opair - w->opair) * rlx_conv_wgrad_pair(a) + from * nb * W_BYTES;
	for (y = 0; y < a->kh; y++)
		for (x = 0; x < a->kw; x++, sums += 4 * TILE) {
			const size_t phase = y % a->yphases * a->xphases + x % a->xphases;
			const size_t at = phase * a->phase + y * a->dh / a->sh * a->pitch +
					  x * a->dw / a->sw;

			t.a[0] = lines + at * 2;
			t.a[1] = t.a[0] + a->width * a->line;
			t.sums = sums;
			tiles_run(&t, (int)na, (int)nb);
		}
}

static void batch_run(const struct wgrad *w, size_t pieces, bool first)
{
	const size_t all = pieces * w->a->steps;
	size_t c, o, s, n;

	for (c = w->cpair; c < w->cpair + w->cpairs; c++)
		for (o = w->opair; o < w->opair + w->opairs; o++)
			for (s = 0; s < all; s += n) {
				n = all - s < WGRAD_STEPS ? all - s : WGRAD_STEPS;
				taps_run(w, c, o, s, n, first && !s);
			}
}

static void wgrad_begin(struct wgrad *w, const struct rlx_k_conv_wgrad *a, void *scratch)
{
	const size_t phases = a->yphases * a->xphases;
	size_t p, s;

	w->a = a;
	w->offs = scratch;
	w->grid = (char *)scratch + rlx_conv_wgrad_offsets(a);
	w->lines = w->grid + rlx_conv_wgrad_grid(a);
	w->pairs = w->lines + rlx_conv_wgrad_lines(a) * a->line;
	for (p = 0; p < a->batch; p++)
		for (s = 0; s < a->steps; s++)
			w->offs[p * a->steps + s] =
				(ptrdiff_t)(p * phases * a->phase * 2 + s * STEP_BYTES);
}

static void wgrad_unit(struct wgrad *w, size_t i)
{
	const struct rlx_k_conv_wgrad *a = w->a;

	w->opair = i % a->no * a->ochunk;
	i /= a->no;
	w->cpair = i % a->nc * a->cchunk;
	i /= a->nc;
	w->g = i % a->groups;
	w->part = i / a->groups;
	w->opairs = a->opairs - w->opair < a->ochunk ? a->opairs - w->opair : a->ochunk;
	w->cpairs = a->cpairs - w->cpair < a->cchunk ? a->cpairs - w->cpair : a->cchunk;
	w->first = w->cpair * 2 * a->width;
	if (a->x_blocked)
		w->first -= w->first % BLOCK;
}

void RLX_K(conv_wgrad)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_wgrad *a = args;
	const size_t all = a->n * a->nrows * a->ncols;
	struct piece from;
	size_t i, p, n, to;
	struct wgrad w;

	wgrad_begin(&w, a, scratch);
	tiles_begin(a->width);
	for (i = begin; i < end; i++) {
		wgrad_unit(&w, i);
		to = all < (w.part + 1) * a->part ? all : (w.part + 1) * a->part;
		for (p = w.part * a->part; p < to; p += n) {
			n = to - p < a->batch ? to - p : a->batch;
			from = piece_at(a, p);
			lines_lay(&w, &from, n);
			pairs_lay(&w, &from, n);
			batch_run(&w, n, p == w.part * a->part);
		}
	}
	tiles_end();
}

/* ---- the sum of parts ---- */

/* Row @row of a tile, of all taps and parts, to the results of one channel of x from @at on. */
static void row_sum(const struct rlx_k_conv_wgrad *a, const float *sums, size_t at, size_t real,
		    float *scratch)
{
	const size_t taps = a->kh * a->kw, pitch = (taps + 15) / 16 * 16;
	const size_t part = rlx_conv_wgrad_sum_units(a) * taps * 4 * TILE;
	float *turned = scratch + pitch * BLOCK;
	size_t t, p, v, o;

	for (t = 0; t < taps; t++, sums += 4 * TILE)
		for (v = 0; v < BLOCK; v += RLX_VL) {
			vf s = vf_loadu(sums + v);

			for (p = 1; p < a->parts; p++)
				s += vf_loadu(sums + p * part + v);
			vf_storeu(scratch + t * BLOCK + v, s);
		}
	for (o = 0; o < real && a->y_o == 1; o += RLX_VL)
		store_as(a->y, at + o, a->y_f32, vf_loadu(scratch + o), real - o);
	if (a->y_o == 1)
		return;
	vi_transpose_block((const char *)scratch, BLOCK * 4, (char *)turned, pitch * 4, taps,
			   BLOCK);
	for (o = 0; o < real; o++)
		for (t = 0; t < taps; t += RLX_VL)
			store_as(a->y, at + o * a->y_o + t, a->y_f32,
				 vf_loadu(turned + o * pitch + t), taps - t);
}

void RLX_K(conv_wgrad_sum)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_wgrad *a = args;
	size_t i, k, r;

	for (i = begin; i < end; i++) {
		const size_t opair = i % a->opairs, cpair = i / a->opairs % a->cpairs;
		const size_t g = i / a->opairs / a->cpairs;
		const float *sums = wgrad_sums(a, 0, g, cpair, opair);

		for (k = 0; k < 4; k++, sums += TILE)
			for (r = 0; r < a->width; r++) {
				const size_t c = (cpair * 2 + k / 2) * a->width + r;
				const size_t o = (opair * 2 + k % 2) * BLOCK;

				if (c < a->ci && o < a->co)
					row_sum(a, sums + r * BLOCK,
						g * a->y_g + c * a->y_c + o * a->y_o,
						a->co - o < BLOCK ? a->co - o : BLOCK, scratch);
			}
	}
}

#endif
