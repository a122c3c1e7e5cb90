/* SPDX-License-Identifier: MIT */
/*
 * Launches of convolutions: which kernel of conv.cu, in which tiles; a part of launch.h.
 *
 * Groups of few output channels (8; of f16 and bf16, whose tensor cores are faster, 2) or sums of
 * fewer than 16 terms go by conv_depthwise.h; all else by tiles, of 64 channels or, if there are
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
	l->key[1] = 3 | a->transposed << 3;
	l->key[2] = known ? (int32_t)a->k[2] : 0;
	l->key[3] = (known ? (int32_t)a->s[2] : 0) | per << 4;
}

/* Blocks of tile 0: 128 channels by 128 pixels, 1: 64 by 128 (f16, bf16), 2: 64 by 64. */
static inline int64_t rlx_g_conv_blocks(const struct rlx_k_conv_nd *a, int tile)
{
	return rlx_g_conv_tiles(a, tile ? 64 : 128, tile < 2 ? 128 : 64);
}

/* By such tiles, each sum in @parts. */
static inline void rlx_g_conv_tiled(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l,
				    int tile, uint32_t parts)
{
	bool half = rlx_g_conv_half(a);
	uint64_t outputs = a->n * a->oc * a->out[0] * a->out[1] * a->out[2];

	rlx_g_line(l, rlx_g_conv_blocks(a, tile), half && tile ? 128 : 256);
	l->key[1] = tile | a->transposed << 3;
	l->key[2] = !half && a->k[0] * a->k[1] * a->k[2] > 32;
	l->grid[1] = parts;
	l->n_launches = 1 + (parts > 1) + half;
	l->scratch = half ? rlx_g_conv_turned(a) : 0;
	if (parts > 1)
		l->scratch += parts * outputs * (a->type == RLX_F64 ? 8 : 4);
	if (half)	/* rows of 40 elements */
		l->shared = RLX_G_CONV_STAGES * 80 * (uint32_t)((tile ? 64 : 128) +
								(tile < 2 ? 128 : 64));
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
	int tile = rows > 64 && a->type != RLX_F64 ? 0 : half ? 1 : 2;

	l->variant = RLX_G_conv_nd;
	depth = (int64_t)(a->ic / a->groups * a->k[0] * a->k[1] * a->k[2]);
	outputs = (int64_t)(a->n * a->oc * a->out[0] * a->out[1] * a->out[2]);
	if (!rlx_g_conv_fits(a))
		return;
	l->key[0] = a->type;
	if (rows <= (half ? 2 : 8) || depth < 16) {
		if (outputs < 65536 && depth >= 1024 && !a->transposed) {
			rlx_g_line(l, outputs, 256);
			l->key[1] = 4;
		} else {
			rlx_g_conv_each(a, l);
		}
		return;
	}
	while (tile < 2 && rlx_g_conv_blocks(a, tile) < 132)
		tile += half ? 1 : 2;
	depth /= rlx_g_conv_phases(a, 0) * rlx_g_conv_phases(a, 1) * rlx_g_conv_phases(a, 2);
	rlx_g_conv_tiled(a, l, tile, rlx_g_conv_parts(rlx_g_conv_blocks(a, tile), depth));
}

static inline void rlx_g_conv_i8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *s = &((const struct rlx_k_conv_i8 *)args)->shape;

	l->variant = RLX_G_conv_i8;
	rlx_g_each(l, (int64_t)(s->n * s->oc * s->out[0] * s->out[1] * s->out[2]));
}

#endif
