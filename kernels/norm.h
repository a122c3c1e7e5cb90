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
 * Kernel: norm_grad. The gradient of a norm of rows of x, of xh = (x - mean) * inv and d = dy *
 * gamma: dx = inv * (d - mean d - xh * mean(d * xh)), if @rms without mean and mean d, inv being
 * 1 / sqrt(mean x^2 + eps). One unit is @block rows, whose sums of dy * xh and of dy it leaves in
 * @partial; there are rlx_k_norm_grad_units(). Scratch: rlx_k_norm_grad_scratch().
 * Kernel: norm_grad_sums adds up what all units left, in their order. One unit is
 * RLX_K_NORM_GRAD_COLS of 2 n columns. Scratch: 0. A GPU does both in two launches.
 */
struct rlx_k_norm_grad {
	const void	*x, *dy;	/* rows x n */
	const void	*gamma;		/* n, or NULL */
	const float	*mean, *inv;	/* rows; NULL if @rms */
	const void	*residual;	/* rows x n of x_type, which dx has more; or NULL, as on
					 * CPUs always */
	void		*dx;		/* of x_type */
	float		*dgamma, *dbeta; /* n; NULL: nobody asks */
	float		*partial;	/* units x 2 x n; not on GPUs */
	int64_t		rows, n, block;
	float		eps;
	bool		rms;
	/* enum rlx_dtype: f32, bf16 or f16 */
	uint8_t		x_type, dy_type, param_type;
};

#define RLX_K_NORM_GRAD_COLS	64

/*
 * Rows of a unit: 64 units whatever the number of threads, so that sums are the same for any; of
 * 4,096 elements at least, beside which those of @partial are few.
 */
static inline int64_t rlx_k_norm_grad_block(int64_t rows, int64_t n)
{
	int64_t even = (rows + 63) / 64, least = (4096 + n - 1) / n;

	return even > least ? even : least;
}

static inline size_t rlx_k_norm_grad_units(const struct rlx_k_norm_grad *a)
{
	return (size_t)((a->rows + a->block - 1) / a->block);
}

static inline size_t rlx_k_norm_grad_sum_units(const struct rlx_k_norm_grad *a)
{
	return (size_t)((2 * a->n + RLX_K_NORM_GRAD_COLS - 1) / RLX_K_NORM_GRAD_COLS);
}

static inline size_t rlx_k_norm_grad_scratch(const struct rlx_k_norm_grad *a)
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
