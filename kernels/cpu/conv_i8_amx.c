// SPDX-License-Identifier: MIT
/*
 * 8-bit convolution by AMX: A is tiles of sixteen channels' weights, B those of sixteen pixels'
 * groups, which is how panels lie. Zero points come in afterwards, as with VNNI; groups that fill
 * up a step have weights of 0.
 */
#include "kernels/simd/tile_grid.h"

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
#define I8_IN_PLACE(a)	((a)->in_place)
#define PANEL	32
#include "kernels/cpu/conv_i8.h"

enum { STEP = RLX_CONV_I8_STEP, PITCH = PANEL * 4 };	/* of sums */

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

RLX_INLINE void tile_of(const struct i8_tile *t, const int na, const int k)
{
	const size_t first = first_rows(t->rows), apart = t->apart;
	const size_t right = TILE_COLSB;	/* to the second half of a panel */
	char *y = (char *)t->y, *second = y + first * PITCH;
	const struct alike *run = t->runs, *end = run + t->nrun;
	const int32_t *w = t->w, *x;
	size_t i;

	tile_grid_load(t->acc ? y : NULL, second, right, PITCH, na, k);
	for (; run < end; run++)
		for (x = t->x + run->off + run->ci * apart, i = 0; i < run->n;
		     i += STEP, w += t->rows * STEP, x += STEP * apart)
			TILE_GRID_STEP(TILE_DP_SU8, na, k, w, w + first * STEP, TILE_COLSB, x,
				       x + PANEL / 2, apart * 4);
	tile_grid_store(y, second, right, PITCH, na, k);
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
