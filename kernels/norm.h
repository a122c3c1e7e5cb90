/* SPDX-License-Identifier: MIT */
/* Normalisations: their arguments, units and scratch. */
#ifndef RLX_K_NORM_H
#define RLX_K_NORM_H

#include "kernels/type.h"

/*
 * Kernel: norm. Layer norm, or RMS norm if @rms, over the last (collapsed)
 * axis of x + residual + bias:
 *	layer: (v - mean v) / sqrt(var v + eps) * gamma + beta, biased variance
 *	rms:   v / sqrt(mean v^2 + eps) * gamma + beta
 * One unit is one row; there are @rows. Scratch: rlx_k_norm_scratch().
 * Sums are in f32 with as many partial sums as a vector has lanes, twice.
 * x, residual, sum and y may be the same memory, row for row.
 */
struct rlx_k_norm {
	const void	*x;
	const void	*residual;	/* rows x n, or NULL */
	const void	*bias;		/* n, or NULL */
	const void	*gamma, *beta;	/* n, or NULL */
	void		*y;
	void		*sum;		/* x + residual + bias, or NULL */
	float		*mean, *inv;	/* rows, or NULL: the mean (0 if rms) and
					 * 1 / sqrt(var + eps), for the gradient */
	int64_t		rows, n;
	int64_t		residual_stride; /* elements between rows; 0 if one row
					 * serves all */
	float		eps;
	bool		rms;
	/* enum rlx_dtype: f32, bf16 or f16. sum has x_type. */
	uint8_t		x_type, residual_type, param_type, y_type;
};

/* Four rows of floats: the row, gamma, beta, bias. */
static inline size_t rlx_k_norm_scratch(const struct rlx_k_norm *a)
{
	return 4 * (((size_t)a->n + 31) / 32 * 128);
}

/*
 * Kernel: channel_norm. y = act((x - mean_c) * scale_c + shift_c) for x of
 * [outer, channels, inner]: batch norm with scale = gamma / sqrt(var + eps),
 * shift = beta - mean * scale folded by the caller (mean NULL) or not.
 * One unit is one (outer, channel); there are outer * channels. Scratch: 0.
 */
struct rlx_k_channel_norm {
	const float	*x;
	float		*y;
	const float	*scale, *shift;	/* channels; NULL: 1, 0 */
	const float	*mean;		/* channels or NULL */
	const float	*var;		/* channels or NULL: scale is divided by
					 * sqrt(var + eps) */
	int64_t		outer, channels, inner;
	float		eps;
};

/*
 * Kernel: group_norm. x is [batch, channels, inner]; each group of
 * channels / groups channels is normalised over its channels and inner;
 * instance norm has groups = channels. gamma and beta are [channels] or NULL.
 * One unit is one (batch, group); there are batch * groups. Scratch: 0.
 */
struct rlx_k_group_norm {
	const float	*x;
	float		*y;
	const float	*gamma, *beta;
	int64_t		batch, channels, inner, groups;
	float		eps;
};

/*
 * Kernel: lrn. Local response normalisation across channels of
 * [batch, channels, inner]: y = x / (bias + alpha / size * s)^beta, s the sum
 * of x^2 over channels [c - floor((size-1)/2), c + ceil((size-1)/2)].
 * One unit is one (batch, block of RLX_K_LRN_BLOCK inner positions).
 * Scratch: RLX_K_LRN_BLOCK floats.
 */
#define RLX_K_LRN_BLOCK	256

struct rlx_k_lrn {
	const float	*x;
	float		*y;
	int64_t		batch, channels, inner, size;
	float		alpha, beta, bias;
};

static inline size_t rlx_k_lrn_units(const struct rlx_k_lrn *a)
{
	return (size_t)(a->batch *
			((a->inner + RLX_K_LRN_BLOCK - 1) / RLX_K_LRN_BLOCK));
}

#endif
