/* SPDX-License-Identifier: MIT */
/* The register tile all f32 convolution kernels are made of. */
#ifndef RLX_CPU_CONV_TILE_H
#define RLX_CPU_CONV_TILE_H

#include "kernels/conv.h"
#include "kernels/simd/vec.h"

/* A tile is at most TILE_R output pixels by TILE_K blocks of RLX_VL channels. */
#if defined(RLX_V512) && defined(__clang__)
#define TILE_R	13	/* clang spills at 14 */
#elif defined(RLX_V512)
#define TILE_R	14
#else
#define TILE_R	6
#endif
#define TILE_K	2
/* rlx_conv_lanes() of a block */
#define TILE_LANES	(RLX_VL < 8 ? RLX_VL : 8)

/*
 * The activations done in registers: v clamped to [lo, hi], or with @gate v,
 * from @lo up, times (a v + b) clamped to [0, hi]: at -inf as well the product
 * is to be 0. NaN stays.
 */
struct conv_fuse {
	float		lo, hi, a, b;
	bool		gate;
};

static const struct conv_fuse conv_fuse_none __attribute__((unused)) = {
	.lo = -__builtin_inff(), .hi = __builtin_inff(),
};

RLX_INLINE vf conv_fuse_clamp(const struct conv_fuse *f, vf v)
{
	return vf_min(vf_set1(f->hi), vf_max(vf_set1(f->lo), v));
}

RLX_INLINE vf conv_fuse_run(const struct conv_fuse *f, vf v)
{
	const vf hi = vf_set1(f->hi);
	vf g;

	if (!f->gate)
		return conv_fuse_clamp(f, v);
	v = vf_max(vf_set1(f->lo), v);
	g = vf_max(vf_zero(), vf_fma(v, vf_set1(f->a), vf_set1(f->b)));
	return v * vf_min(hi, g);
}

/**
 * struct conv_tile - one call of a tile function
 * @x: where input pixel 0 of the tile is, before an entry of @offs is added
 * @offs: one entry for each (TILE_LANES input channels, tap): elements from @x
 * @nfull: entries with all lanes
 * @w: for each lane of each entry TILE_K (or 1) vectors, packed
 * @tail_offs, @ntail, @tail_w: likewise the entries with @tail lanes
 * @w_step: conv_tiles_wide alone, see there
 * @y: output pixel 0; pixels are RLX_VL elements apart
 * @y_k: elements from one output block to the next, in @y and @res
 * @bias: TILE_K vectors the sums start from
 * @res: added to the sums at the end, or NULL; may be @y, which then has the
 *	sums of the terms before
 * @ahead, @lines: weights to be wanted soon: @lines cache lines are fetched
 *	from there for each full entry
 * @fuse: what happens to the sums before they are stored
 */
struct conv_tile {
	const float	*x;
	const ptrdiff_t	*offs, *tail_offs;
	size_t		nfull, ntail, tail;
	const float	*w, *tail_w;
	size_t		w_step;
	float		*y;
	size_t		y_k;
	const float	*bias, *res;
	const char	*ahead;
	size_t		lines;
	const struct conv_fuse *fuse;
};

typedef void conv_tile_fn(const struct conv_tile *t);

/*
 * Tiles by [blocks - 1][pixels - 1]. In `conv_tiles` input pixels are RLX_VL
 * elements apart and an entry has TILE_LANES; in `conv_tiles1` they are
 * neighbours, an entry has one lane, and @fuse has no gate: of those who read
 * plain images there are few, and the gate is a third of a tile's code.
 */
extern conv_tile_fn *const RLX_K(conv_tiles)[TILE_K][TILE_R];
extern conv_tile_fn *const RLX_K(conv_tiles1)[TILE_K][TILE_R];

/*
 * Few pixels leave too few sums to hide the latency of a multiply-add, so
 * these take several pairs of output blocks at once: conv_wide_pairs() of
 * them, by [pixels - 1]. Weights of the next pair are @w_step elements on,
 * its output and bias follow as those of further blocks.
 */
#define TILE_WIDE_R	3
#define TILE_WIDE_PAIRS	4	/* the most */
extern conv_tile_fn *const RLX_K(conv_tiles_wide)[TILE_WIDE_R];

static inline size_t conv_wide_pairs(size_t pixels)
{
	return TILE_R > 6 || pixels == 1 ? 4 : 2;
}

/* Split @n pixels into tiles of nearly equal width; the width of tile @i. */
static inline size_t conv_tile_count(size_t n)
{
	return (n + TILE_R - 1) / TILE_R;
}

static inline size_t conv_tile_width(size_t n, size_t tiles, size_t i)
{
	return n / tiles + (i < n % tiles);
}

/* Tiles of output channels of a group differ by one channel at most: the first of @tile. */
static inline size_t conv_tile_first(const struct rlx_k_conv_nd *a, size_t tile)
{
	size_t ocg = a->oc / a->groups, q = ocg / a->tiles, m = ocg % a->tiles;

	return tile * q + (tile < m ? tile : m);
}

/* An activation with its parameters. */
struct conv_act {
	enum rlx_act	fn;
	float		a, b;
};

/* False: @act is more than @f can be; call conv_act_run after. */
bool RLX_K(conv_act_fuse)(const struct conv_act *act, struct conv_fuse *f);
/* Apply an activation in place to @n floats, n a multiple of RLX_VL. */
void RLX_K(conv_act_run)(const struct conv_act *act, float *y, size_t n);

#endif
