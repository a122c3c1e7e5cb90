// SPDX-License-Identifier: MIT
/*
 * Convolution in bf16 by AMX tiles: two tiles of pixels by two of output channels, each
 * loaded once for two products. Sums 0 to 3, pixels 4 and 5, weights 6 and 7.
 */
#include "kernels/simd/tile_amx.h"
#include "kernels/cpu/conv_bf16.h"

static void tiles_begin(size_t width)
{
	struct tile_shape s = { .palette = 1 };
	int i;

	for (i = 0; i < TILE_COUNT; i++) {
		s.colsb[i] = TILE_COLSB;
		s.rows[i] = (uint8_t)(i < 6 ? width : TILE_ROWS);
	}
	tile_config(&s);
}

static void tiles_end(void)
{
	tile_release();
}

RLX_INLINE void sums_load(const struct tiles *t, const int na, const int nb)
{
	if (t->first) {
		TILE_ZERO(0);
		TILE_ZERO(1);
		TILE_ZERO(2);
		TILE_ZERO(3);
		return;
	}
	TILE_LOAD(0, t->sums, TILE_COLSB);
	if (nb > 1)
		TILE_LOAD(1, t->sums + TILE, TILE_COLSB);
	if (na > 1)
		TILE_LOAD(2, t->sums + 2 * TILE, TILE_COLSB);
	if (na > 1 && nb > 1)
		TILE_LOAD(3, t->sums + 3 * TILE, TILE_COLSB);
}

RLX_INLINE void sums_store(const struct tiles *t, const int na, const int nb)
{
	TILE_STORE(0, t->sums, TILE_COLSB);
	if (nb > 1)
		TILE_STORE(1, t->sums + TILE, TILE_COLSB);
	if (na > 1)
		TILE_STORE(2, t->sums + 2 * TILE, TILE_COLSB);
	if (na > 1 && nb > 1)
		TILE_STORE(3, t->sums + 3 * TILE, TILE_COLSB);
}

RLX_INLINE void tiles_of(const struct tiles *t, const int na, const int nb)
{
	const char *a = t->a[0], *a1 = t->a[1], *w = t->w;
	const size_t lda = t->lda;
	size_t i;

	sums_load(t, na, nb);
	for (i = 0; i < t->steps; i++, w += nb * W_BYTES) {
		TILE_LOAD(4, a + t->offs[i], lda);
		TILE_LOAD(6, w, TILE_COLSB);
		TILE_DP_BF16(0, 4, 6);
		if (na > 1) {
			TILE_LOAD(5, a1 + t->offs[i], lda);
			TILE_DP_BF16(2, 5, 6);
		}
		if (nb > 1) {
			TILE_LOAD(7, w + W_BYTES, TILE_COLSB);
			TILE_DP_BF16(1, 4, 7);
		}
		if (na > 1 && nb > 1)
			TILE_DP_BF16(3, 5, 7);
		fetch_ahead(t, i);
	}
	sums_store(t, na, nb);
}

static void tiles_run(const struct tiles *t, int na, int nb)
{
	if (na > 1 && nb > 1)
		tiles_of(t, 2, 2);
	else if (na > 1)
		tiles_of(t, 2, 1);
	else if (nb > 1)
		tiles_of(t, 1, 2);
	else
		tiles_of(t, 1, 1);
}
