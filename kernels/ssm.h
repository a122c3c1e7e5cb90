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
 * GPU kernel: linear_scan, of f16 and bf16 as well.
 */
struct rlx_k_linear_scan {
	const void	*a, *x, *initial;	/* initial [outer][inner] or NULL */
	void		*y;
	int64_t		outer, n, inner;
	uint8_t		type;			/* f32 or f64 */
	uint8_t		reverse;
};

enum { RLX_K_SCAN_COLUMNS = 256, RLX_K_LINEAR_SCAN_THREADS = 256 };	/* a GPU's block */

static inline size_t rlx_k_linear_scan_units(const struct rlx_k_linear_scan *a)
{
	int64_t pieces = (a->inner + RLX_K_SCAN_COLUMNS - 1) / RLX_K_SCAN_COLUMNS;

	return (size_t)(a->outer * pieces);
}

/*
 * The op selective_scan; d, z and state may be NULL.
 *
 * CPU kernel: selective_scan, of f32. One unit is 16 of a batch entry's channels; there are
 * rlx_k_selective_scan_units(). Scratch: rlx_k_selective_scan_scratch().
 * GPU kernel: selective_scan, of f64, f32, f16 and bf16.
 */
struct rlx_k_selective_scan {
	const void	*x, *delta;		/* [batch][steps][h] */
	const void	*a;			/* [h][n] */
	const void	*b, *c;			/* [batch][steps][n] */
	const void	*d, *z, *state;		/* [h], as x, [batch][h][n] */
	void		*y, *last;
	int64_t		batch, steps, h, n;
	uint8_t		type, softplus;
};

enum { RLX_K_SSM_CHANNELS = 16, RLX_K_SSM_THREADS = 128 };	/* a GPU's block */

static inline size_t rlx_k_selective_scan_units(const struct rlx_k_selective_scan *a)
{
	return (size_t)(a->batch * ((a->h + RLX_K_SSM_CHANNELS - 1) / RLX_K_SSM_CHANNELS));
}

static inline size_t rlx_k_selective_scan_scratch(const struct rlx_k_selective_scan *a)
{
	return (size_t)a->n * 2 * RLX_K_SSM_CHANNELS * sizeof(float);
}

/*
 * The op gated_delta_net; state may be NULL.
 *
 * GPU kernels: gated_delta_net does all steps. Or by chunks of RLX_K_DELTA_CHUNK: of @count of them
 * from @first on gated_delta_prepare fills @work, rlx_k_gated_delta_item() bytes for each chunk of
 * each head, then gated_delta_chunks reads it; where it is not all, the state is in @carry between.
 */
struct rlx_k_gated_delta {
	const void	*q, *k;			/* [batch][steps][hk][dk] */
	const void	*v;			/* [batch][steps][hv][dv] */
	const void	*g, *beta;		/* [batch][steps][hv] */
	const void	*state;			/* [batch][hv][dk][dv] */
	void		*y, *last;		/* as v, as state */
	void		*work;
	float		*carry;			/* as state */
	double		scale;
	int64_t		batch, steps, hk, hv, dk, dv;
	int64_t		first, count;
	uint8_t		type;
};

enum { RLX_K_DELTA_CHUNK = 64, RLX_K_DELTA_KEYS = 256 };	/* most of keys, by chunks */
enum { RLX_K_DELTA_TEAMS = 2 };	/* of RLX_K_SSM_THREADS, in a block of gated_delta_prepare */

/* Of a chunk of a head with @keys, a multiple of 64, in 16-bit floats. */
static inline size_t rlx_k_gated_delta_item(int64_t keys, int64_t dv)
{
	return (size_t)(RLX_K_DELTA_CHUNK * ((keys + dv + RLX_K_DELTA_CHUNK) * 2 + 3 * 4));
}

static inline int64_t rlx_k_gated_delta_keys(const struct rlx_k_gated_delta *a)
{
	return (a->dk + 63) / 64 * 64;
}

#endif
