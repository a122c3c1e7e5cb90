/* SPDX-License-Identifier: MIT */
/*
 * Launches of what works on positions, windows and regions, and of random numbers; a part of
 * launch.h.
 *
 * Most have a thread for each output (rope: for each pair; grid_sample: for four channels of a
 * place; rng: for a Philox block), up to 8,192 blocks of 256 which then go on by a grid's width:
 * outputs do not depend on each other, and neighbours in memory are neighbours in a warp.
 * Sampling has a block for each row, as a row is folded as a whole. Pools have several outputs a
 * thread, so that what windows share is read once, or several threads a window, where it is large.
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
#include "kernels/splat.h"

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

/* The innermost dimension has no window: channels last. */
static inline bool rlx_g_pool_last(const struct rlx_k_pool *a)
{
	return a->k[2] == 1 && a->s[2] == 1 && !a->p[2] && a->in[2] == a->out[2] &&
	       a->in[2] > 1 && a->in[0] * a->in[1] > 1;
}

/* 32 bits do not count elements, or positions, some of them beyond the edges. */
static inline bool rlx_g_pool_wide(const struct rlx_k_pool *a)
{
	const double most = 2e9;
	double in = (double)a->planes, out = in, reach = 1;

	for (int i = 0; i < 3; i++) {
		reach *= (double)a->out[i] * (double)a->s[i] + (double)a->k[i] * (double)a->d[i] +
			 (double)a->in[i] + (double)a->p[i] + (double)a->p_end[i];
		in *= (double)a->in[i];
		out *= (double)a->out[i];
	}
	return in > most || out > most || reach > most;
}

/* Largest number of elements, @most at most, that divides @n and whose bytes @p is aligned to. */
static inline int32_t rlx_g_pool_vec(uint64_t n, const void *p, int32_t size, int32_t most)
{
	while (n % (uint64_t)most || (uint64_t)p % (uint64_t)(most * size))
		most /= 2;
	return most;
}

/*
 * What a thread has where the window is known: of channels 16 bytes by up to 4 columns, of planes
 * up to 8 outputs. Rows of windows that overlap are read once for all that share them; threads
 * that would be too few have less.
 */
static inline void rlx_g_pool_tile(const struct rlx_k_pool *a, struct rlx_g_launch *l,
				   int32_t size)
{
	struct rlx_g_pool_f32_param *p = &l->param.pool_f32;
	int64_t most = (int64_t)(a->planes * a->out[0] * a->out[1] * a->out[2]) /
		       (l->processors ? (int64_t)l->processors : 1) / 1024;
	int i = p->POOL_CHANNELS ? 1 : 2, s = p->POOL_STRIDE, lead;

	p->POOL_DOWN = p->POOL_ACROSS = p->POOL_VEC = 1;
	if (!p->POOL_TAPS)
		return;
	if (p->POOL_CHANNELS) {
		most /= p->POOL_CHANNELS;
		p->POOL_ACROSS = p->POOL_TAPS > 1 && s == 1 ? 4 : 2;
		while (p->POOL_ACROSS > 1 && (p->POOL_ACROSS > most ||
					      (size_t)p->POOL_ACROSS > a->out[i]))
			p->POOL_ACROSS /= 2;
		return;
	}
	p->POOL_ACROSS = rlx_g_pool_vec(a->out[2], a->y, size, 8 / size);
	p->POOL_VEC = rlx_g_pool_vec(a->in[2], a->x, size, 16 / size);
	while (p->POOL_ACROSS > 1 && p->POOL_ACROSS > most)
		p->POOL_ACROSS /= 2;
	while (p->POOL_ACROSS * s % p->POOL_VEC)
		p->POOL_VEC /= 2;
	lead = (int)(a->p[2] % (size_t)p->POOL_VEC);
	p->POOL_LEAD = lead ? p->POOL_VEC - lead : 0;
	p->POOL_DOWN = 8 / p->POOL_ACROSS;
	while (p->POOL_DOWN > 1 && (p->POOL_DOWN * p->POOL_ACROSS > most ||
				    (size_t)p->POOL_DOWN > a->out[1] ||
				    ((p->POOL_DOWN - 1) * p->POOL_STRIDE_DOWN + p->POOL_TAPS_DOWN) *
				    ((p->POOL_ACROSS - 1) * s + p->POOL_TAPS) > 64))
		p->POOL_DOWN /= 2;
}

/*
 * Threads that share a window; 1: none do. They do where windows have much, and there are few of
 * them, or neighbours' lie so far apart that a thread each would read them a line at a time. A
 * thread has all of a window that is @known under way at a time, so that others would only find
 * their ways through it as well: each takes longer for that than for its reads.
 */
static inline int32_t rlx_g_pool_lanes(const struct rlx_k_pool *a, const struct rlx_g_launch *l,
				       int32_t channels, bool known)
{
	double taps = 1, windows = (double)a->planes, fill = l->processors ? l->processors : 1;
	bool apart = !channels && (a->out[2] == 1 || a->s[2] > 4);

	for (int i = 0; i < 3; i++) {
		double most = (double)(a->in[i] + a->p[i]);

		taps *= (double)a->k[i] < most ? (double)a->k[i] : most;
		windows *= (double)a->out[i];
	}
	windows /= channels ? channels : 1;
	if (taps < 16 || (!apart && (windows > fill * 512 || (known && !channels))))
		return 1;
	if (channels)
		return taps < 128 || windows > fill * 128 ? 8 : 32;
	return taps >= 2048 && windows < fill * 32 ? 256 : taps < 128 ? 8 : 32;
}

/* A thread for some outputs side by side, or some for each. */
static inline void rlx_g_pool_f32_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_pool *a = (const struct rlx_k_pool *)args;
	int last = rlx_g_pool_last(a), w = 2 - last, h = 1 - last;
	int32_t size = a->type == RLX_F32 ? 4 : 2, channels, lanes;
	bool index = a->index && a->kind == RLX_K_POOL_MAX, known;
	bool depth = !last && (a->in[0] > 1 || a->out[0] > 1 || a->k[0] > 1 || a->p[0]);
	struct rlx_g_pool_f32_param *p = &l->param.pool_f32;
	int64_t n = (int64_t)(a->planes * a->out[0] * a->out[1] * a->out[2]);

	RLX_G_VARIANT(l, pool_f32);
	if (!rlx_g_small_float(a->type))
		return;
	if (l->strict) {
		if (a->type != RLX_F32 || a->index || a->kind == RLX_K_POOL_LP)
			return;
		rlx_g_each(l, (int64_t)(a->planes * a->out[0] * a->out[1] * a->out[2]));
		RLX_G_VARIANT(l, pool_ordered, .POOL_KIND = (int32_t)a->kind,
			      .POOL_BLOCKED = a->blocked);
		return;
	}
	channels = !last ? 0 : rlx_g_pool_vec(a->in[2] | (uint64_t)a->y / (uint64_t)size, a->x,
					      size, 16 / size);
	known = a->k[w] <= 7 && a->k[h] <= 7 && a->s[w] <= 4 && a->s[h] <= 4 && a->d[w] == 1 &&
		a->d[h] == 1;
	lanes = rlx_g_pool_lanes(a, l, channels, known && a->k[0] == 1);
	if (lanes > 1) {
		RLX_G_VARIANT(l, pool_lanes, .ELEM_TYPE = a->type, .POOL_KIND = (int32_t)a->kind,
			      .POOL_INDEX = index, .POOL_CHANNELS = channels, .POOL_DEPTH = depth,
			      .POOL_WIDE = rlx_g_pool_wide(a), .POOL_LANES = lanes);
		rlx_g_line(l, rlx_g_ceil(n / (channels ? channels : 1), 256 / lanes), 256);
		l->grid[0] = l->grid[0] < 8192 ? l->grid[0] : 8192;
		return;
	}
	RLX_G_VARIANT(l, pool_f32, .ELEM_TYPE = a->type, .POOL_KIND = (int32_t)a->kind,
		      .POOL_INDEX = index, .POOL_CHANNELS = channels, .POOL_DEPTH = depth,
		      .POOL_WIDE = rlx_g_pool_wide(a), .POOL_TAPS = known ? (int32_t)a->k[w] : 0,
		      .POOL_STRIDE = known ? (int32_t)a->s[w] : 0,
		      .POOL_TAPS_DOWN = known ? (int32_t)a->k[h] : 0,
		      .POOL_STRIDE_DOWN = known ? (int32_t)a->s[h] : 0);
	rlx_g_pool_tile(a, l, size);
	rlx_g_each(l, (int64_t)(a->planes * (last ? a->in[2] / (size_t)channels : a->out[0])) *
		   rlx_g_ceil((int64_t)a->out[h], p->POOL_DOWN) *
		   rlx_g_ceil((int64_t)a->out[w], p->POOL_ACROSS));
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

static inline void rlx_g_splat_blend_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_splat_blend *a = (const struct rlx_k_splat_blend *)args;

	rlx_g_line(l, rlx_k_splat_tiles_of(a->width) * rlx_k_splat_tiles_of(a->height), 256);
	RLX_G_VARIANT(l, splat_blend);
}

static inline void rlx_g_splat_blend_grad_launch(const void *args, struct rlx_g_launch *l)
{
	rlx_g_line(l, ((const struct rlx_k_splat_blend_grad *)args)->parts, 256);
	RLX_G_VARIANT(l, splat_blend_grad);
}

#endif
