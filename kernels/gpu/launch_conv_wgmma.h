/* SPDX-License-Identifier: MIT */
/*
 * Launches of convolutions by TMA and wgmma, channels last (conv_wgmma.cu); a part of launch.h.
 *
 * Tiles are those of GEMMs by wgmma. Where they are fewer than multiprocessors, k's steps are split
 * among up to 64 blocks, two steps each at least, and a launch more adds parts up.
 * Few input channels: 32 or 16 of a tap at a time where that saves a quarter of the steps or more.
 * A plain x is turned by a launch ahead; one of up to 8 channels so that a row of taps is one tap,
 * of up to 4 in half as many steps where the stride is even.
 * Where y is plain, tiles have output channels down and an image's pixels across, or all images'
 * where these are so small that most of a tile would be empty.
 * Limits: what the tensor map of an image can say, in im2col mode with four dimensions: strides up
 * to 8, corners within 128 pixels of the image's, taps 255 pixels apart at most.
 */
#ifndef RLX_G_LAUNCH_CONV_WGMMA_H
#define RLX_G_LAUNCH_CONV_WGMMA_H

#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/launch_gemm.h"

/* @blocks of grid[0], if there are @jobs for them all: those of a pass ahead in the same grid. */
static inline void rlx_g_conv_fill(struct rlx_g_launch *l, int64_t blocks, int64_t jobs,
				   int64_t parts)
{
	jobs = rlx_g_ceil(jobs, parts);
	blocks = jobs < blocks ? jobs : blocks;
	if (l->grid[0] && l->grid[0] < blocks)
		l->grid[0] = (uint32_t)blocks;
}

static inline int64_t rlx_g_conv_pixels(const struct rlx_k_conv_nd *a)
{
	return (int64_t)(a->n * a->out[1] * a->out[2]);
}

/*
 * The convolution as its tensor map has it: of a plain x what the launch ahead makes of that:
 * channels in eights, or a row of taps with their channels being one tap.
 */
static inline struct rlx_k_conv_nd rlx_g_conv_mapped(const struct rlx_k_conv_nd *a)
{
	struct rlx_k_conv_nd m = *a;

	if (!a->x_plain)
		return m;
	m.x = NULL;
	if (!rlx_g_conv_folds(a)) {
		m.ic = (size_t)rlx_g_conv_wide(a);
		for (int i = 1; i < 3; i++) {
			m.in[i] = rlx_g_conv_repacked_dim(a, i);
			m.s[i] = rlx_g_conv_step(a, i);
		}
		m.x_n = m.ic * m.in[1] * m.in[2];
		return m;
	}
	m.ic = a->k[2] * (size_t)rlx_g_conv_fold(a);
	m.in[2] = a->out[2];
	m.x_n = (size_t)rlx_g_conv_folded(a);
	m.k[2] = m.d[2] = m.s[2] = 1;
	m.p[2] = 0;
	return m;
}

/* The upper corner of dimension @i: the last pixel's first tap, from the image's last pixel. */
static inline int64_t rlx_g_conv_upper(const struct rlx_k_conv_nd *a, int i)
{
	return (int64_t)((a->out[i] - 1) * a->s[i]) - (int64_t)a->p[i] - (int64_t)(a->in[i] - 1);
}

/* What TMA cannot do in im2col mode with @a, as mapped; NULL: it can. */
static inline const char *rlx_g_conv_unmapped(const struct rlx_k_conv_nd *a)
{
	uint64_t odd = (uint64_t)(uintptr_t)a->x | (uint64_t)(uintptr_t)a->w | 2 * a->x_n;

	for (int i = 1; i < 3; i++) {
		int64_t upper = rlx_g_conv_upper(a, i);

		if (a->s[i] > 8)
			return "a stride is over 8";
		if (a->p[i] > 128 || upper < -128 || upper > 127)
			return "a corner is over 127 pixels from the image's";
		if ((a->k[i] - 1) * a->d[i] > 255)
			return "taps are over 255 pixels apart";
	}
	return odd % 16 ? "x, an image or w does not begin at 16 bytes" : NULL;
}

/* Rows and columns of the product, and positions in a matrix or an image, are below this. */
static inline bool rlx_g_conv_wgmma_fits(const struct rlx_k_conv_nd *a)
{
	const double most = 1 << 30;
	double taps = (double)a->k[1] * (double)a->k[2];

	return (double)a->n * (double)a->out[1] * (double)a->out[2] < most &&
	       (double)a->in[1] < most && (double)a->in[2] < most && (double)a->oc < most &&
	       taps * (double)(a->ic + 64) < most &&
	       a->y_n == a->oc * a->out[1] * a->out[2] && (!a->res || a->res_n == a->y_n);
}

static inline const char *rlx_g_conv_wgmma_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;

	struct rlx_k_conv_nd m;

	if (!a->channels_last)
		return "channels are not last";
	if (l->arch != 90)
		return "the chip is not sm_90";
	if (a->type != RLX_F16 && a->type != RLX_BF16)
		return "it is neither f16 nor bf16";
	if (a->transposed || a->groups != 1)
		return "it is transposed, or has groups";
	if (a->in[0] != 1 || a->out[0] != 1 || a->k[0] != 1 || a->p[0])
		return "there are three spatial dimensions";
	if (!a->x_plain && a->ic % 8)
		return "input channels are not in eights";
	m = rlx_g_conv_mapped(a);
	if (!rlx_g_conv_wgmma_fits(&m))
		return "a size is over 2^30, or y or the residual is not dense";
	return rlx_g_conv_unmapped(&m);
}

/* Steps of k by so many channels of a tap. */
static inline int64_t rlx_g_conv_steps(const struct rlx_k_conv_nd *a, int32_t channels)
{
	return rlx_g_ceil((int64_t)(a->k[1] * a->k[2]) * rlx_g_ceil((int64_t)a->ic, channels) *
			  channels, GEMM_TILE_DEPTH);
}

static inline int32_t rlx_g_conv_channels(const struct rlx_k_conv_nd *a)
{
	int32_t best = 64;

	for (int32_t c = 32; c >= 16; c /= 2)
		if (4 * rlx_g_conv_steps(a, c) <= 3 * rlx_g_conv_steps(a, best))
			best = c;
	return best;
}

/*
 * x by pixels that meet a tap, of which one's channels lie @pixel elements from the next one's, and
 * w by output channels of a tap; @a as mapped.
 */
static inline void rlx_g_conv_maps(const struct rlx_k_conv_nd *a, int32_t channels, uint64_t pixel,
				   struct rlx_g_gemm_tile t, struct rlx_g_launch *l)
{
	uint64_t ic = a->ic, taps = a->k[1] * a->k[2];

	l->n_map = 2;
	l->map[0] = (struct rlx_g_tensor_map){
		.in_scratch = a->x_plain, .im2col = true,
		.field = a->x_plain ? 0 : offsetof(struct rlx_k_conv_nd, x),
		.dim = { ic, a->in[2], a->in[1], a->n },
		.step = { 2 * pixel, 2 * a->x_n / a->in[1], 2 * a->x_n },
		.box = { (uint32_t)channels, (uint32_t)(a->y_plain ? t.n : t.m) },
	};
	for (int i = 0; i < 2; i++) {
		l->map[0].lower[i] = (int8_t)-(int64_t)a->p[2 - i];
		l->map[0].upper[i] = (int8_t)rlx_g_conv_upper(a, 2 - i);
		l->map[0].stride[i] = (uint8_t)a->s[2 - i];
	}
	l->map[1] = (struct rlx_g_tensor_map){
		.field = offsetof(struct rlx_k_conv_nd, w),
		.dim = { ic, a->oc, taps, 1 },
		.step = { 2 * ic * taps, 2 * ic, 2 * ic * taps * a->oc },
		.box = { (uint32_t)channels,
			 (uint32_t)rlx_g_conv_lines(a, a->y_plain ? t.m : t.n) },
	};
}

/* Weights that the launch ahead folds, too. */
static inline void rlx_g_conv_fold_weights(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l)
{
	struct rlx_g_tensor_map *w = &l->map[1];

	w->in_scratch = true;
	w->field = rlx_g_conv_plain_x_bytes(a);
	w->step[1] = 2 * (uint64_t)rlx_g_conv_folded_taps(a);
	w->step[0] = w->step[1] * a->k[1];
	w->step[2] = w->step[0] * a->oc;
}

/* Of a plain y: do tiles reach across images, where that makes a quarter fewer of them? */
static inline bool rlx_g_conv_across(const struct rlx_k_conv_nd *a, struct rlx_g_gemm_tile t)
{
	return a->y_plain && 4 * rlx_g_ceil(rlx_g_conv_pixels(a), t.n) <=
				3 * (int64_t)a->n *
					rlx_g_ceil((int64_t)(a->out[1] * a->out[2]), t.n);
}

static inline int64_t rlx_g_conv_wgmma_tiles(const struct rlx_k_conv_nd *a,
					     struct rlx_g_gemm_tile t)
{
	if (rlx_g_conv_across(a, t))
		return rlx_g_ceil((int64_t)a->oc, t.m) * rlx_g_ceil(rlx_g_conv_pixels(a), t.n);
	if (a->y_plain)
		return (int64_t)a->n * rlx_g_ceil((int64_t)a->oc, t.m) *
		       rlx_g_ceil((int64_t)(a->out[1] * a->out[2]), t.n);
	return rlx_g_ceil(rlx_g_conv_pixels(a), t.m) * rlx_g_ceil((int64_t)a->oc, t.n);
}

/* In tiles @t, each sum in @parts or, where k has less steps, as many as have some. */
static inline void rlx_g_conv_wgmma_by(const struct rlx_k_conv_nd *a, struct rlx_g_gemm_tile t,
				       int64_t parts, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd mapped = rlx_g_conv_mapped(a);
	int32_t channels = rlx_g_conv_channels(&mapped);
	int64_t steps = rlx_g_conv_steps(&mapped, channels), side, jobs;
	int64_t tiles = rlx_g_conv_wgmma_tiles(a, t);
	bool folded = a->x_plain && rlx_g_conv_folds(a);
	uint64_t fold = (uint64_t)rlx_g_conv_fold(a);

	parts = rlx_g_ceil(steps, rlx_g_ceil(steps, parts));
	side = l->processors / parts;
	/* as many tiles for each block, so that fewer read side by side */
	rlx_g_line(l, rlx_g_ceil(tiles, rlx_g_ceil(tiles, side ? side : 1)),
		   (uint32_t)GEMM_TILE_THREADS(t.m));
	l->grid[1] = (uint32_t)parts;
	l->n_launches = 1 + (parts > 1) + a->x_plain;
	l->scratch = rlx_g_conv_plain_bytes(a);
	jobs = folded ? rlx_g_ceil((int64_t)l->scratch, 16 * l->block[0]) :
			rlx_g_conv_repacks(a, (int64_t)a->n);
	if (a->x_plain)		/* all of the chip turns x */
		rlx_g_conv_fill(l, side, jobs, parts);
	if (parts > 1)
		l->scratch += (uint64_t)parts * a->n * a->y_n * sizeof(float);
	l->shared = (uint32_t)GEMM_TILE_SHARED(t.m, t.n, 1);
	rlx_g_conv_maps(&mapped, channels, folded ? a->s[2] * fold : mapped.ic, t, l);
	if (folded && fold < RLX_G_CONV_FOLD)
		rlx_g_conv_fold_weights(a, l);
	RLX_G_VARIANT(l, conv_wgmma,
		      .GEMM_TYPE_A = a->type,
		      .GEMM_TYPE_C = a->out_type,
		      .GEMM_TILE_M = t.m, .GEMM_TILE_N = t.n, .GEMM_ACT = (int32_t)a->act,
		      .CONV_SPLIT_K = parts > 1, .CONV_CHANNELS = channels,
		      .CONV_REPACKED = folded ? (int32_t)fold :
				       !a->x_plain ? 0 : a->skips ? 2 : 1,
		      .CONV_PLAIN_Y = a->y_plain + rlx_g_conv_across(a, t));
}

/*
 * Each tile, whole and then, if that leaves multiprocessors idle, in parts: as many as fill them
 * once, and half of those.
 */
static inline bool rlx_g_conv_wgmma_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	const struct rlx_k_conv_nd mapped = rlx_g_conv_mapped(a);
	int64_t tiles, parts, most;
	struct rlx_g_gemm_tile t;

	if (!rlx_g_gemm_tile(i / 3, &t))
		return false;
	tiles = rlx_g_conv_wgmma_tiles(a, t);
	most = rlx_g_conv_steps(&mapped, rlx_g_conv_channels(&mapped)) / 2;
	most = most < 64 ? most : 64;
	parts = tiles ? (int64_t)l->processors / tiles : 1;
	parts = (parts < most ? parts : most) / (i % 3 ? i % 3 : 1);
	rlx_g_conv_wgmma_by(a, t, i % 3 && parts > 1 ? parts : 1, l);
	l->can = i % 3 == 0 || parts > 1;
	return true;
}

/*
 * ns that TMA takes for a step: a line of 128 bytes or less of an image in im2col mode about four
 * clocks, one of weights one, and one of weights that do not exist seven; those that are left out
 * are multiplied all the same, which is seen beyond 64.
 */
static inline double rlx_g_conv_wgmma_step(const struct rlx_k_conv_nd *a, int64_t m, int64_t n,
					   int32_t channels)
{
	double pixels = (double)(a->y_plain ? n : m), lines, none;
	int64_t edge = a->y_plain ? m : n, tiles = rlx_g_ceil((int64_t)a->oc, edge);

	lines = (double)rlx_g_conv_lines(a, edge);
	none = lines - (double)a->oc / (double)tiles;	/* on the mean */
	return (64.0 / channels) * (2.1 * pixels + 0.45 * lines + 3.2 * (none > 0 ? none : 0)) +
	       (double)edge - (lines > 64 ? lines : 64);
}

/*
 * As of gemm_wgmma. Parts are written by blocks and read by a launch of their own.
 */
static inline void rlx_g_conv_wgmma_cost(const void *args, const struct rlx_g_launch *l,
					 struct rlx_g_cost *t)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	const struct rlx_k_conv_nd mapped = rlx_g_conv_mapped(a);
	const struct rlx_g_conv_wgmma_param *p = &l->param.conv_wgmma;
	int64_t m = p->GEMM_TILE_M, n = p->GEMM_TILE_N, parts = l->grid[1];
	double pixels = (double)rlx_g_conv_pixels(a), ic = (double)a->ic, oc = (double)a->oc;
	double steps = (double)rlx_g_ceil(rlx_g_conv_steps(&mapped, p->CONV_CHANNELS), parts), k;

	k = steps * GEMM_TILE_DEPTH;
	t->blocks = (double)(rlx_g_conv_wgmma_tiles(a, (struct rlx_g_gemm_tile){
				     p->GEMM_TILE_M, p->GEMM_TILE_N }) * parts);
	t->rate = RLX_G_RATE_mma_f16;
	t->flops = 2.0 * (double)(m * n) * k;
	t->l2_bytes = (double)((a->y_plain ? n : m) +
			       rlx_g_conv_lines(a, a->y_plain ? m : n)) * k * 2;
	t->steps = steps;
	t->step_ns = rlx_g_conv_wgmma_step(a, m, n, p->CONV_CHANNELS);
	t->end_ns = 300 + (double)(m * n) / (p->CONV_PLAIN_Y == 2 ? 4 :
					      a->act > RLX_ACT_RELU || a->res ? 6 : 17);
	t->dram_bytes = 2 * ((double)a->n * (double)(a->in[1] * a->in[2]) * ic +
			     (double)(a->k[1] * a->k[2]) * ic * oc) +
			pixels * oc * (a->res ? 2 : 1) * (a->out_type == RLX_F32 ? 4 : 2);
	t->alone_bytes = 2 * (double)rlx_g_conv_plain_bytes(a);
	t->once_ns = (a->x_plain ? 1500 : 0) + (parts > 1 ? 1000 : 0);
	if (parts > 1)
		t->alone_bytes += 2 * (double)parts * pixels * oc * sizeof(float);
	t->resident = 1;
}

#endif
