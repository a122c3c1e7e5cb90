// SPDX-License-Identifier: MIT
/* The register tiles of conv_tile.h, one function per tile shape. */
#include "kernels/cpu/conv_tile.h"

#ifdef __clang__
#define UNROLL		_Pragma("clang loop unroll(full)")
#define UNROLL_2	_Pragma("clang loop unroll_count(2)")
#else
#define UNROLL		_Pragma("GCC unroll 16")
#define UNROLL_2	_Pragma("GCC unroll 2")
#endif

/* Fixed bounds: with them the compiler keeps every element in a register. */
typedef vf tile_acc[TILE_K][16];

/* One input lane of R pixels, @step elements apart, against K weight vectors. */
RLX_INLINE void lane(tile_acc acc, const float *x, const float *w,
		     const int R, const int K, const int step)
{
	vf wv[TILE_K];

	UNROLL
	for (int k = 0; k < K; k++)
		wv[k] = vf_load(w + k * RLX_VL);
	UNROLL
	for (int r = 0; r < R; r++) {
		vf b = vf_set1(x[r * step]);

		UNROLL
		for (int k = 0; k < K; k++)
			acc[k][r] = vf_fma(b, wv[k], acc[k][r]);
	}
}

RLX_INLINE void start(tile_acc acc, const struct conv_tile *t, const int R,
		      const int K)
{
	UNROLL
	for (int k = 0; k < K; k++) {
		vf b = vf_loadu(t->bias + k * RLX_VL);

		UNROLL
		for (int r = 0; r < R; r++)
			acc[k][r] = b;
	}
}

RLX_INLINE void finish(tile_acc acc, const struct conv_tile *t, const int R,
		       const int K, const bool gate)
{
	const struct conv_fuse f = *t->fuse;

	if (t->res) {
		UNROLL
		for (int k = 0; k < K; k++) {
			UNROLL
			for (int r = 0; r < R; r++)
				acc[k][r] += vf_loadu(t->res + k * t->y_k +
						      r * RLX_VL);
		}
	}
	UNROLL
	for (int k = 0; k < K; k++) {
		UNROLL
		for (int r = 0; r < R; r++)
			vf_storeu(t->y + k * t->y_k + r * RLX_VL,
				  gate ? conv_fuse_run(&f, acc[k][r]) :
					 conv_fuse_clamp(&f, acc[k][r]));
	}
}

RLX_INLINE void tile_blocked(const struct conv_tile *t, const int R,
			     const int K)
{
	const ptrdiff_t *o = t->offs, *full = o + t->nfull;
	const char *ahead = t->ahead;
	const float *w = t->w;
	tile_acc acc;

	start(acc, t, R, K);
	for (; o < full; o++) {
		const float *x = t->x + *o;

		for (size_t i = t->lines; i; i--, ahead += 64)
			__builtin_prefetch(ahead, 0, 2);

		UNROLL_2
		for (int c = 0; c < TILE_LANES; c++)
			lane(acc, x + c, w + c * K * RLX_VL, R, K, RLX_VL);
		w += TILE_LANES * K * RLX_VL;
	}
	w = t->tail_w;
	for (o = t->tail_offs; o < t->tail_offs + t->ntail; o++) {
		const float *x = t->x + *o;

		for (size_t c = 0; c < t->tail; c++, w += K * RLX_VL)
			lane(acc, x + c, w, R, K, RLX_VL);
	}
	finish(acc, t, R, K, true);
}

RLX_INLINE void tile_plain(const struct conv_tile *t, const int R, const int K)
{
	const ptrdiff_t *o = t->offs, *end = o + t->nfull;
	const float *w = t->w;
	tile_acc acc;

	start(acc, t, R, K);
	for (; o < end; o++, w += K * RLX_VL)
		lane(acc, t->x + *o, w, R, K, 1);
	finish(acc, t, R, K, false);
}

/* One input lane of R pixels against G pairs of weight vectors. */
RLX_INLINE void lane_wide(vf acc[2 * TILE_WIDE_PAIRS][TILE_WIDE_R],
			  const float *x, const float *w, size_t w_step,
			  const int R, const int G)
{
	vf b[TILE_WIDE_R];

	UNROLL
	for (int r = 0; r < R; r++)
		b[r] = vf_set1(x[r * RLX_VL]);
	UNROLL
	for (int g = 0; g < 2 * G; g++) {
		vf wv = vf_load(w + (size_t)(g / 2) * w_step + g % 2 * RLX_VL);

		UNROLL
		for (int r = 0; r < R; r++)
			acc[g][r] = vf_fma(b[r], wv, acc[g][r]);
	}
}

RLX_INLINE void tile_wide(const struct conv_tile *t, const int R, const int G)
{
	const struct conv_fuse f = *t->fuse;
	vf acc[2 * TILE_WIDE_PAIRS][TILE_WIDE_R];
	size_t i;

	UNROLL
	for (int g = 0; g < 2 * G; g++) {
		UNROLL
		for (int r = 0; r < R; r++)
			acc[g][r] = vf_loadu(t->bias + g * RLX_VL);
	}
	for (i = 0; i < t->nfull + t->ntail; i++) {
		const bool tail = i >= t->nfull;
		const size_t n = tail ? t->tail : TILE_LANES, at = tail ? i - t->nfull : i;
		const float *x = t->x + (tail ? t->tail_offs : t->offs)[at];
		const float *w = (tail ? t->tail_w : t->w) + at * n * 2 * RLX_VL;

		for (size_t c = 0; c < n; c++, w += 2 * RLX_VL)
			lane_wide(acc, x + c, w, t->w_step, R, G);
	}
	UNROLL
	for (int g = 0; g < 2 * G; g++) {
		UNROLL
		for (int r = 0; r < R; r++) {
			size_t at = (size_t)g * t->y_k + r * RLX_VL;

			if (t->res)
				acc[g][r] += vf_loadu(t->res + at);
			vf_storeu(t->y + at, conv_fuse_run(&f, acc[g][r]));
		}
	}
}

#define TILES_6(F)	F(1) F(2) F(3) F(4) F(5) F(6)
#define TILES_13(F)	TILES_6(F) F(7) F(8) F(9) F(10) F(11) F(12) F(13)
#if TILE_R == 14
#define TILES(F)	TILES_13(F) F(14)
#elif TILE_R == 13
#define TILES(F)	TILES_13(F)
#else
#define TILES(F)	TILES_6(F)
#endif

#define DEFINE(R)							\
static void blocked_1_##R(const struct conv_tile *t)			\
{									\
	tile_blocked(t, R, 1);						\
}									\
static void blocked_2_##R(const struct conv_tile *t)			\
{									\
	tile_blocked(t, R, 2);						\
}									\
static void plain_1_##R(const struct conv_tile *t)			\
{									\
	tile_plain(t, R, 1);						\
}									\
static void plain_2_##R(const struct conv_tile *t)			\
{									\
	tile_plain(t, R, 2);						\
}
TILES(DEFINE)

#define BLOCKED_1(R)	blocked_1_##R,
#define BLOCKED_2(R)	blocked_2_##R,
#define PLAIN_1(R)	plain_1_##R,
#define PLAIN_2(R)	plain_2_##R,

conv_tile_fn *const RLX_K(conv_tiles)[TILE_K][TILE_R] = {
	{ TILES(BLOCKED_1) }, { TILES(BLOCKED_2) },
};
conv_tile_fn *const RLX_K(conv_tiles1)[TILE_K][TILE_R] = {
	{ TILES(PLAIN_1) }, { TILES(PLAIN_2) },
};

static void wide_1(const struct conv_tile *t)
{
	tile_wide(t, 1, 4);
}

static void wide_2(const struct conv_tile *t)
{
	tile_wide(t, 2, TILE_R > 6 ? 4 : 2);
}

static void wide_3(const struct conv_tile *t)
{
	tile_wide(t, 3, TILE_R > 6 ? 4 : 2);
}

conv_tile_fn *const RLX_K(conv_tiles_wide)[TILE_WIDE_R] = {
	wide_1, wide_2, wide_3,
};
