// SPDX-License-Identifier: MIT
/*
 * Convolution in bf16 by vectors of pairs, VDPBF16PS: a tile is up to twelve pixels by two
 * vectors of output channels, whose sums stay in registers for a part of K.
 */
#include "kernels/cpu/conv_wgrad.h"

enum { MOST = 12 };	/* pixels of a tile, as planned */

static void tiles_begin(size_t width)
{
	(void)width;
}

static void tiles_end(void)
{
}

/* One tile of @W pixels by @K blocks. */
RLX_INLINE void tile(const struct tiles *t, const char *a, float *sums, const int W, const int K)
{
	const char *w = t->w;
	__m512 acc[MOST][2];

	RLX_UNROLL
	for (int i = 0; i < W; i++)
		RLX_UNROLL
		for (int k = 0; k < K; k++)
			acc[i][k] = t->first ? _mm512_setzero_ps() :
				    _mm512_load_ps(sums + k * TILE + i * BLOCK);
	for (size_t s = 0; s < t->steps; s++) {
		const char *x = a + t->offs[s];

		for (int p = 0; p < STEP / 2; p++, x += 4, w += BLOCK * 4) {
			__m512i wv[2];

			RLX_UNROLL
			for (int k = 0; k < K; k++)
				wv[k] = _mm512_load_si512(w + k * W_BYTES);
			RLX_UNROLL
			for (int i = 0; i < W; i++) {
				int32_t pair;
				__m512i xv;

				memcpy(&pair, x + (size_t)i * t->lda, sizeof(pair));
				xv = _mm512_set1_epi32(pair);
				RLX_UNROLL
				for (int k = 0; k < K; k++)
					acc[i][k] = _mm512_dpbf16_ps(acc[i][k], (__m512bh)xv,
								     (__m512bh)wv[k]);
			}
		}
		w += (K - 1) * W_BYTES;
		fetch_ahead(t, s);
	}
	RLX_UNROLL
	for (int i = 0; i < W; i++)
		RLX_UNROLL
		for (int k = 0; k < K; k++)
			_mm512_store_ps(sums + k * TILE + i * BLOCK, acc[i][k]);
}

typedef void tile_fn(const struct tiles *t, const char *a, float *sums);

#define TILES(F)	F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12)
#define DEFINE(W)							\
static void tile_1_##W(const struct tiles *t, const char *a, float *sums)	\
{									\
	tile(t, a, sums, W, 1);						\
}									\
static void tile_2_##W(const struct tiles *t, const char *a, float *sums)	\
{									\
	tile(t, a, sums, W, 2);						\
}
TILES(DEFINE)
#define ONE(W)		tile_1_##W,
#define TWO(W)		tile_2_##W,

static tile_fn *const fns[2][MOST] = { { TILES(ONE) }, { TILES(TWO) } };

static void tiles_run(const struct tiles *t, int na, int nb)
{
	for (int i = 0; i < na; i++)	/* the second one fetches nothing new */
		fns[nb - 1][t->width - 1](t, t->a[i], t->sums + i * 2 * TILE);
}
