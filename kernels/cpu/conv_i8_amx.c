// SPDX-License-Identifier: MIT
/*
 * 8-bit convolution by AMX tiles: two of sixteen channels' weights by two of sixteen pixels'
 * groups, which is how panels lie. Sums 0 to 3, weights 4 and 5, pixels 6 and 7. Zero points come
 * in afterwards, as with VNNI; groups that fill up a step have weights of 0.
 */
#include "kernels/simd/tile_amx.h"
#include "kernels/simd/vec.h"

#define DEPTH	4
typedef uint8_t i8_elem;

#if defined(RLX_V512)
#include <immintrin.h>

RLX_INLINE vi i8_dot(vi acc, vi x, vi w)
{
	return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)x, (__m512i)w);
}
#else
RLX_INLINE vi i8_dot(vi acc, vi x, vi w)
{
	for (int i = 0; i < 32; i += 8)
		acc = (vi)((vu)acc + (vu)((x >> i & 0xff) * (w << (24 - i) >> 24)));
	return acc;
}
#endif

#define I8_OWN_TILES
#define PANEL	32
#include "kernels/cpu/conv_i8.h"

enum { STEP = RLX_CONV_I8_STEP, PITCH = PANEL * 4 };

/* Of the @k-th group of channel @row, in a tile of @rows: a step of each channel, then the next. */
static size_t tile_at(size_t rows, size_t row, size_t k)
{
	return (k / STEP * rows + row) * STEP + k % STEP;
}

/* Channels of the first of two tiles, or of the one. */
static size_t first_rows(size_t rows)
{
	return rows > TILE_ROWS ? (rows + 1) / 2 : rows;
}

static void tiles_shape(size_t rows)
{
	const size_t first = first_rows(rows);
	struct tile_shape s = { .palette = 1 };
	int i;

	for (i = 0; i < TILE_COUNT; i++) {
		s.colsb[i] = TILE_COLSB;
		/* one tile of channels: the second's registers are not used */
		s.rows[i] = (uint8_t)(i > 5 ? TILE_ROWS :
				      i < 2 || i == 4 || rows == first ? first : rows - first);
	}
	tile_config(&s);
}

RLX_INLINE void sums_load(const struct i8_tile *t, int32_t *y, const int na, const int k)
{
	if (!t->acc) {
		TILE_ZERO(0);
		TILE_ZERO(1);
		TILE_ZERO(2);
		TILE_ZERO(3);
		return;
	}
	TILE_LOAD(0, t->y, PITCH);
	if (k > 1)
		TILE_LOAD(1, t->y + PANEL / 2, PITCH);
	if (na > 1)
		TILE_LOAD(2, y, PITCH);
	if (na > 1 && k > 1)
		TILE_LOAD(3, y + PANEL / 2, PITCH);
}

/* @y: the sums of the second tile of channels */
RLX_INLINE void tile_of(const struct i8_tile *t, const int na, const int k)
{
	const size_t first = first_rows(t->rows) * STEP, steps = (t->n + STEP - 1) / STEP;
	int32_t *y = t->y + first_rows(t->rows) * PANEL;
	const int32_t *w = t->w, *x = t->x;
	size_t i;

	sums_load(t, y, na, k);
	for (i = 0; i < steps; i++, w += t->rows * STEP, x += STEP * PANEL) {
		TILE_LOAD(4, w, TILE_COLSB);
		TILE_LOAD(6, x, PITCH);
		TILE_DP_SU8(0, 4, 6);
		if (na > 1) {
			TILE_LOAD(5, w + first, TILE_COLSB);
			TILE_DP_SU8(2, 5, 6);
		}
		if (k > 1) {
			TILE_LOAD(7, x + PANEL / 2, PITCH);
			TILE_DP_SU8(1, 4, 7);
		}
		if (na > 1 && k > 1)
			TILE_DP_SU8(3, 5, 7);
	}
	TILE_STORE(0, t->y, PITCH);
	if (k > 1)
		TILE_STORE(1, t->y + PANEL / 2, PITCH);
	if (na > 1)
		TILE_STORE(2, y, PITCH);
	if (na > 1 && k > 1)
		TILE_STORE(3, y + PANEL / 2, PITCH);
}

static void tile_run(const struct i8_tile *t)
{
	if (t->rows > TILE_ROWS && t->k > 1)
		tile_of(t, 2, 2);
	else if (t->rows > TILE_ROWS)
		tile_of(t, 2, 1);
	else if (t->k > 1)
		tile_of(t, 1, 2);
	else
		tile_of(t, 1, 1);
}

static void tiles_end(void)
{
	tile_release();
}
