/* SPDX-License-Identifier: MIT */
/* State-space recurrences. */
#ifndef RLX_K_SSM_H
#define RLX_K_SSM_H

#include "kernels/type.h"

/*
 * y_t = a_t y_(t-1) + x_t along the middle of [outer][n][inner].
 *
 * CPU kernel: linear_scan. One unit is RLX_K_SCAN_COLUMNS of a row's inner; there are
 * rlx_k_linear_scan_units(). Scratch: 0.
 */
struct rlx_k_linear_scan {
	const void	*a, *x, *initial;	/* initial [outer][inner] or NULL */
	void		*y;
	int64_t		outer, n, inner;
	uint8_t		type;			/* f32 or f64 */
	uint8_t		reverse;
};

enum { RLX_K_SCAN_COLUMNS = 256 };

static inline size_t rlx_k_linear_scan_units(const struct rlx_k_linear_scan *a)
{
	int64_t pieces = (a->inner + RLX_K_SCAN_COLUMNS - 1) / RLX_K_SCAN_COLUMNS;

	return (size_t)(a->outer * pieces);
}

/*
 * The op selective_scan in f32; d, z and state may be NULL.
 *
 * CPU kernel: selective_scan. One unit is 16 of a batch entry's channels; there are
 * rlx_k_selective_scan_units(). Scratch: rlx_k_selective_scan_scratch().
 */
struct rlx_k_selective_scan {
	const float	*x, *delta;		/* [batch][steps][h] */
	const float	*a;			/* [h][n] */
	const float	*b, *c;			/* [batch][steps][n] */
	const float	*d, *z, *state;		/* [h], as x, [batch][h][n] */
	float		*y, *last;
	int64_t		batch, steps, h, n;
	uint8_t		softplus;
};

enum { RLX_K_SSM_CHANNELS = 16 };

static inline size_t rlx_k_selective_scan_units(const struct rlx_k_selective_scan *a)
{
	return (size_t)(a->batch * ((a->h + RLX_K_SSM_CHANNELS - 1) / RLX_K_SSM_CHANNELS));
}

static inline size_t rlx_k_selective_scan_scratch(const struct rlx_k_selective_scan *a)
{
	return (size_t)a->n * 2 * RLX_K_SSM_CHANNELS * sizeof(float);
}

#endif
