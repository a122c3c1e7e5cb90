/* SPDX-License-Identifier: MIT */
/* Gaussian splats blended into an image, which every device works out alike. */
#ifndef RLX_K_SPLAT_H
#define RLX_K_SPLAT_H

#include "kernels/type.h"

enum {
	RLX_K_SPLAT_TILE	= 16,	/* pixels of a tile's side */
	RLX_K_SPLAT_FIELDS	= 9,	/* x y, the form a b c, opacity, red green blue */
};

/* A splat covers no more than this, and what covers less is not seen; so little shines through. */
#define RLX_K_SPLAT_CAP		0.99f
#define RLX_K_SPLAT_CUT		(1.0f / 255)
#define RLX_K_SPLAT_STOP	1e-4f

/*
 * Kernel: splat_blend. Pixel (i, j), its centre at (j + 0.5, i + 0.5), is covered by each splat
 * whose box (x0 y0 x1 y1) it lies in by min(CAP, opacity exp(-q / 2)), q = a dx^2 + 2 b dx dy +
 * c dy^2, the first in front; not where q < 0 or less than CUT is left. The splat that would let
 * less than STOP through, and all behind it, are not there. y is red, green, blue with the
 * background behind, and what was covered.
 * One unit is a strip of tiles; there are rlx_k_splat_strips(). Scratch:
 * rlx_k_splat_scratch().
 */
struct rlx_k_splat_blend {
	const float	*splats;	/* [n][RLX_K_SPLAT_FIELDS] */
	const float	*boxes;		/* [n][4] */
	const float	*background;	/* [3] */
	float		*y;		/* [height][width][4] */
	int64_t		n, width, height;
};

/*
 * Kernel: splat_blend_grad. Derivatives of what splat_blend gives by the splats, of which part p
 * has the sums over its tiles, [p tiles / parts, (p + 1) tiles / parts). One unit is one part.
 * Scratch: rlx_k_splat_scratch().
 */
struct rlx_k_splat_blend_grad {
	const float	*splats, *boxes, *background;
	const float	*dy;		/* [height][width][4] */
	float		*d;		/* [parts][n][RLX_K_SPLAT_FIELDS] */
	int64_t		n, width, height, parts;
};

static inline int64_t rlx_k_splat_tiles_of(int64_t pixels)
{
	return (pixels + RLX_K_SPLAT_TILE - 1) / RLX_K_SPLAT_TILE;
}

static inline size_t rlx_k_splat_strips(const struct rlx_k_splat_blend *a)
{
	return (size_t)rlx_k_splat_tiles_of(a->height);
}

/* The splats of a strip, and of a tile. */
static inline size_t rlx_k_splat_scratch(int64_t n)
{
	return (size_t)n * 2 * sizeof(int64_t);
}

#endif
