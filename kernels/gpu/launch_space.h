/* SPDX-License-Identifier: MIT */
/*
 * Launches of what works on positions, windows and regions, and of random numbers; a part of
 * launch.h.
 *
 * Most have a thread for each output (rope: for each pair; grid_sample: for four channels of a
 * place; rng: for a Philox block), up to 8,192 blocks of 256 which then go on by a grid's width:
 * outputs do not depend on each other, and neighbours in memory are neighbours in a warp.
 * Sampling has a block for each row, as a row is folded as a whole, global pooling a warp a plane.
 * Limits: sample up to 2^20 rows; rope and pool f32, f16 and bf16. Else l->can stays false, and
 * the step goes to the host.
 */
#ifndef RLX_G_LAUNCH_SPACE_H
#define RLX_G_LAUNCH_SPACE_H

#include "kernels/gpu/launch.h"
#include "kernels/grid.h"
#include "kernels/pool.h"
#include "kernels/random.h"
#include "kernels/resize.h"
#include "kernels/roi.h"
#include "kernels/rope.h"

static inline void rlx_g_rope_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_rope *a = (const struct rlx_k_rope *)args;

	RLX_G_VARIANT(l, rope);
	if (!rlx_g_small_float(a->type) || !rlx_g_small_float(a->table_type))
		return;
	rlx_g_each(l, a->batch * a->len * a->heads * (a->head_dim - a->n_rot / 2));
}

static inline void rlx_g_rng_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_rng *a = (const struct rlx_k_rng *)args;

	rlx_g_each(l, rlx_g_ceil(a->n, a->type == RLX_F64 ? 2 : 4));
	RLX_G_VARIANT(l, rng, .RNG_TYPE = a->type);
}

static inline void rlx_g_sample_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_sample *a = (const struct rlx_k_sample *)args;

	RLX_G_VARIANT(l, sample);
	if (a->rows > 1 << 20)
		return;
	rlx_g_line(l, a->rows, 256);
	l->scratch = (uint64_t)a->rows * (uint64_t)a->n * sizeof(double);
}

static inline void rlx_g_pool_f32_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_pool *a = (const struct rlx_k_pool *)args;

	RLX_G_VARIANT(l, pool_f32);
	if (rlx_g_small_float(a->type))
		rlx_g_each(l, (int64_t)(a->planes * a->out[0] * a->out[1] * a->out[2]));
}

static inline int64_t rlx_g_resize_out(const struct rlx_k_resize *a)
{
	return (int64_t)(a->planes * a->axis[0].out * a->axis[1].out * a->axis[2].out);
}

static inline void rlx_g_resize_f32_launch(const void *args, struct rlx_g_launch *l)
{
	RLX_G_VARIANT(l, resize_f32);
	rlx_g_each(l, rlx_g_resize_out((const struct rlx_k_resize *)args));
}

static inline void rlx_g_resize_nearest_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_resize *a = (const struct rlx_k_resize *)args;

	rlx_g_each(l, rlx_g_resize_out(a));
	RLX_G_VARIANT(l, resize_nearest, .RESIZE_SIZE = (int32_t)a->esize);
}

static inline void rlx_g_grid_sample_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_grid_sample *a = (const struct rlx_k_grid_sample *)args;

	rlx_g_each(l, a->images * a->places * rlx_g_ceil(a->channels, RLX_K_GRID_CHANNELS));
	RLX_G_VARIANT(l, grid_sample, .GRID_TYPE = a->type, .GRID_AXES = a->nd,
		      .GRID_TAPS = a->taps);
}

static inline void rlx_g_roi_align_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_roi_align *a = (const struct rlx_k_roi_align *)args;

	rlx_g_each(l, a->regions * a->channels * a->out[0] * a->out[1]);
	RLX_G_VARIANT(l, roi_align, .ROI_TYPE = a->type);
}

#endif
