/* SPDX-License-Identifier: MIT */
/*
 * Launches of convolutions: which kernel, in which tiles; a part of launch.h.
 *
 * Groups of few output channels (8; of f16 and bf16, whose tensor cores are faster, 2) or sums of
 * fewer than 16 terms go by conv_depthwise.cu; all else by tiles, of 64 channels or, if there are
 * more (not of f64), 128, and smaller ones where they make fewer than 132 blocks, one for each
 * multiprocessor of an H200. With fewer tiles than that, sums of 512 terms or more
 * are split (split-K), 64 parts at most, to make some 264 blocks.
 * f16 and bf16 have a launch more, before all others, that turns x and weights.
 * Limits: indices below 2^30, since kernels count positions in an image and in the weights by 32
 * bits; y and the residual dense. Else l->can stays false, and the step goes to the host.
 */
#ifndef RLX_G_LAUNCH_CONV_H
#define RLX_G_LAUNCH_CONV_H

#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/launch.h"

/* Positions in an image and in the weights are counted by 32 bits; y is dense. */
static inline bool rlx_g_conv_fits(const struct rlx_k_conv_nd *a)
{
	const double most = 1 << 30;
	double in = (double)rlx_g_conv_wide(a) * (double)a->groups, reach = 0;
	double taps = (double)rlx_g_conv_wide(a);

	for (int i = 0; i < 3; i++) {
		double far = (double)a->d[i] * (double)(a->k[i] - 1);

		if ((double)a->out[i] * (double)a->s[i] + far + (double)a->in[i] +
		    (double)a->p[i] > most / 4)
			return false;
		in *= (double)a->in[i];
		taps *= (double)a->k[i];
		reach = reach * (double)a->in[i] + far;
	}
	return in + reach * (double)(a->ic + 8 * a->groups) < most &&
	       taps * (double)(a->oc / a->groups) < most &&
	       a->y_n == a->oc * a->out[0] * a->out[1] * a->out[2] &&
	       (!a->res || a->res_n == a->y_n);
}

static inline bool rlx_g_conv_half(const struct rlx_k_conv_nd *a)
{
	return a->type == RLX_F16 || a->type == RLX_BF16;
}

/* A thread for each output, or for up to 16 bytes of them that lie in a row. */
static inline void rlx_g_conv_each(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l)
{
	int64_t phases = rlx_g_conv_phases(a, 0) * rlx_g_conv_phases(a, 1) *
			 rlx_g_conv_phases(a, 2);
	int32_t per = a->transposed ? 1 : rlx_g_conv_half(a) ? 8 : 4;
	bool known = !a->transposed && a->d[2] == 1 && a->k[2] <= 7 && a->s[2] <= 4;

	while (a->out[2] % (size_t)per)
		per /= 2;
	rlx_g_each(l, (int64_t)a->oc * rlx_g_conv_cols(a) / per);
	l->grid[1] = (uint32_t)(phases < 65535 ? phases : 65535);
	RLX_G_VARIANT(l, conv_depthwise, .ELEM_TYPE = a->type, .CONV_TRANSPOSED = a->transposed,
		      .CONV_TAPS = known ? (int32_t)a->k[2] : 0,
		      .CONV_STRIDE = known ? (int32_t)a->s[2] : 0, .CONV_PIXELS = per);
}

/* Channels by pixels: 128 x 128, 64 x 64, and of f16 and bf16 64 x 128. */
struct rlx_g_conv_tile {
	int32_t	m, n;
};

static inline int64_t rlx_g_conv_blocks(const struct rlx_k_conv_nd *a, struct rlx_g_conv_tile t)
{
	return rlx_g_conv_tiles(a, t.m, t.n);
}

/* By such tiles, each sum in @parts. */
static inline void rlx_g_conv_tiled(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l,
				    struct rlx_g_conv_tile t, uint32_t parts)
{
	bool half = rlx_g_conv_half(a);
	uint64_t outputs = a->n * a->oc * a->out[0] * a->out[1] * a->out[2];

	rlx_g_line(l, rlx_g_conv_blocks(a, t), half && t.m == 64 ? 128 : 256);
	if (half)
		RLX_G_VARIANT(l, conv_mma, .ELEM_TYPE = a->type, .CONV_TRANSPOSED = a->transposed,
			      .CONV_TILE_M = t.m, .CONV_TILE_N = t.n);
	else
		RLX_G_VARIANT(l, conv_simt, .ELEM_TYPE = a->type, .CONV_TRANSPOSED = a->transposed,
			      .CONV_TILE_M = t.m, .CONV_TILE_N = t.n,
			      .CONV_MANY_TAPS = a->k[0] * a->k[1] * a->k[2] > 32);
	l->grid[1] = parts;
	l->n_launches = 1 + (parts > 1) + half;
	l->scratch = half ? rlx_g_conv_turned(a) : 0;
	if (parts > 1)
		l->scratch += parts * outputs * (a->type == RLX_F64 ? 8 : 4);
	if (half)	/* rows of 40 elements */
		l->shared = RLX_G_CONV_STAGES * 80 * (uint32_t)(t.m + t.n);
}

/* Fewer tiles than a large GPU has multiprocessors: sums of @depth terms in parts. */
static inline uint32_t rlx_g_conv_parts(int64_t tiles, int64_t depth)
{
	int64_t most = depth / 256, want = tiles && tiles < 132 ? 264 / tiles : 1;

	want = want < most ? want : most;
	return (uint32_t)(want < 1 ? 1 : want < 64 ? want : 64);
}

static inline void rlx_g_conv_nd_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	int64_t rows = (int64_t)(a->oc / a->groups), depth, outputs;
	bool half = rlx_g_conv_half(a);
	struct rlx_g_conv_tile t = { 64, half ? 128 : 64 };

	depth = (int64_t)(a->ic / a->groups * a->k[0] * a->k[1] * a->k[2]);
	outputs = (int64_t)(a->n * a->oc * a->out[0] * a->out[1] * a->out[2]);
	if (!rlx_g_conv_fits(a))
		return;
	if (rows > 64 && a->type != RLX_F64)
		t = (struct rlx_g_conv_tile){ 128, 128 };
	if (rows <= (half ? 2 : 8) || depth < 16) {
		if (outputs < 65536 && depth >= 1024 && !a->transposed) {
			rlx_g_line(l, outputs, 256);
			RLX_G_VARIANT(l, conv_direct, .ELEM_TYPE = a->type);
		} else {
			rlx_g_conv_each(a, l);
		}
		return;
	}
	while (t.m + t.n > 128 && rlx_g_conv_blocks(a, t) < 132) {
		t.n = half && t.m == 128 ? 128 : 64;
		t.m = 64;
	}
	depth /= rlx_g_conv_phases(a, 0) * rlx_g_conv_phases(a, 1) * rlx_g_conv_phases(a, 2);
	rlx_g_conv_tiled(a, l, t, rlx_g_conv_parts(rlx_g_conv_blocks(a, t), depth));
}

static inline void rlx_g_conv_i8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *s = &((const struct rlx_k_conv_i8 *)args)->shape;

	RLX_G_VARIANT(l, conv_i8);
	rlx_g_each(l, (int64_t)(s->n * s->oc * s->out[0] * s->out[1] * s->out[2]));
}

#endif
