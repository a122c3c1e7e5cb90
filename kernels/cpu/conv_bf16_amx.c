// SPDX-License-Identifier: MIT
/* Convolution in bf16 by AMX: A is tiles of pixels, B those of output channels' weights. */
#include "kernels/simd/tile_grid.h"
#include "kernels/cpu/conv_wgrad.h"

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

RLX_INLINE void tiles_of(const struct tiles *t, const int na, const int nb)
{
	const size_t right = TILE * sizeof(float);	/* to the second block's sums */
	char *sums = (char *)t->sums, *second = sums + 2 * right;
	const char *w = t->w;
	size_t i;

	tile_grid_load(t->first ? NULL : sums, second, right, TILE_COLSB, na, nb);
	for (i = 0; i < t->steps; i++, w += nb * W_BYTES) {
		TILE_GRID_STEP(TILE_DP_BF16, na, nb, t->a[0] + t->offs[i], t->a[1] + t->offs[i],
			       t->lda, w, w + W_BYTES, TILE_COLSB);
		fetch_ahead(t, i);
	}
	tile_grid_store(sums, second, right, TILE_COLSB, na, nb);
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
