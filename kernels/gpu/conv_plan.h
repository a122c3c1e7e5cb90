/* SPDX-License-Identifier: MIT */
/*
 * How many tiles a convolution has and what lies in scratch, for its kernels and for their launch.
 *
 * A convolution is taken as a GEMM (implicit GEMM): rows are output channels of a group, columns
 * output pixels of all images, k input channels x taps. A transposed one falls into phases of
 * pixels that lie a stride apart, min(stride, out) of each dimension, so that no tap meets the
 * zeros between pixels: tiles are counted for each phase.
 * f16 and bf16 have x and the weights once more in scratch, channels innermost and filled up to
 * multiples of 8: a pass that reads and writes 2 bytes an element that taps meet, and in return
 * tiles are read by 16 bytes. What comes channels last is read where it is. This is read by C, by
 * NVRTC and hipcc, and by the emulator.
 */
#ifndef RLX_G_CONV_PLAN_H
#define RLX_G_CONV_PLAN_H

#include "kernels/conv.h"

/* By 32 bits where that does, as divide() (move.h): 64 are slow on a GPU. */
static inline int64_t rlx_g_conv_quotient(uint64_t n, uint64_t by)
{
	return (int64_t)((n | by) >> 32 == 0 ? (uint32_t)n / (uint32_t)by : n / by);
}

/* Rounded up. */
static inline int64_t rlx_g_conv_split(int64_t n, int64_t by)
{
	return rlx_g_conv_quotient((uint64_t)(n + by - 1), (uint64_t)by);
}

/* Of @n channels those of a group. */
static inline int64_t rlx_g_conv_group(const struct rlx_k_conv_nd *a, size_t n)
{
	return rlx_g_conv_quotient(n, a->groups);
}

/* A kernel knows that when it is compiled. */
#ifndef RLX_G_CONV_TRANSPOSED
#define RLX_G_CONV_TRANSPOSED(a)	((a)->transposed)
#endif

/* Output pixels of dimension @i that meet different taps. */
static inline int64_t rlx_g_conv_phases(const struct rlx_k_conv_nd *a, int i)
{
	return !RLX_G_CONV_TRANSPOSED(a) ? 1 : (int64_t)(a->s[i] < a->out[i] ? a->s[i] : a->out[i]);
}

/* Columns of a phase's product, or a few less. */
static inline int64_t rlx_g_conv_cols(const struct rlx_k_conv_nd *a)
{
	int64_t n = (int64_t)a->n;

	for (int i = 0; i < 3; i++)
		n *= rlx_g_conv_split((int64_t)a->out[i], rlx_g_conv_phases(a, i));
	return n;
}

static inline int64_t rlx_g_conv_tiles(const struct rlx_k_conv_nd *a, int64_t bm, int64_t bn)
{
	return rlx_g_conv_split(rlx_g_conv_group(a, a->oc), bm) *
	       rlx_g_conv_split(rlx_g_conv_cols(a), bn) * (int64_t)a->groups *
	       rlx_g_conv_phases(a, 0) * rlx_g_conv_phases(a, 1) * rlx_g_conv_phases(a, 2);
}

/*
 * f16 and bf16 go to tensor cores with their channels innermost: x, each group's filled up
 * to this many, then the weights, at scratch.
 */
#define RLX_G_CONV_STAGES	3	/* of that kernel's pipeline */

static inline int64_t rlx_g_conv_wide(const struct rlx_k_conv_nd *a)
{
	return rlx_g_conv_split(rlx_g_conv_group(a, a->ic), 8) * 8;
}

/*
 * A strided convolution of one pixel reads a part of x: where that is repacked, only that part is,
 * and what is in scratch is read without a stride. Who fills @a in asks this for its @skips.
 */
static inline bool rlx_g_conv_skips(const struct rlx_k_conv_nd *a)
{
	bool skips = !a->transposed && (!a->channels_last || a->x_plain);

	for (int i = 0; i < 3; i++)
		skips = skips && a->k[i] == 1 && !a->p[i] && (a->out[i] - 1) * a->s[i] < a->in[i];
	return skips && (a->s[0] > 1 || a->s[1] > 1 || a->s[2] > 1);
}

/* Pixels of dimension @i that are repacked, and how many lie between two of the output there. */
static inline size_t rlx_g_conv_repacked_dim(const struct rlx_k_conv_nd *a, int i)
{
	return a->skips ? a->out[i] : a->in[i];
}

static inline size_t rlx_g_conv_step(const struct rlx_k_conv_nd *a, int i)
{
	return a->skips ? 1 : a->s[i];
}

/* Of an image. */
static inline int64_t rlx_g_conv_repacked_pixels(const struct rlx_k_conv_nd *a)
{
	return (int64_t)(rlx_g_conv_repacked_dim(a, 0) * rlx_g_conv_repacked_dim(a, 1) *
			 rlx_g_conv_repacked_dim(a, 2));
}

static inline uint64_t rlx_g_conv_x_bytes(const struct rlx_k_conv_nd *a)
{
	return (uint64_t)a->n * (uint64_t)rlx_g_conv_repacked_pixels(a) * (uint64_t)a->groups *
	       (uint64_t)rlx_g_conv_wide(a) * 2;
}

/* Tiles in which a plain x is turned (conv_repack.h), of so many images. */
#define RLX_G_CONV_REPACK		64	/* pixels and channels */

static inline int64_t rlx_g_conv_repacks(const struct rlx_k_conv_nd *a, int64_t images)
{
	int64_t pixels = rlx_g_conv_repacked_pixels(a);

	return images * (int64_t)a->groups * rlx_g_conv_split(pixels, RLX_G_CONV_REPACK) *
	       rlx_g_conv_split(rlx_g_conv_wide(a), RLX_G_CONV_REPACK);
}

/*
 * A plain x of up to 8 channels, for wgmma (conv_wgmma.cu): pixels of 8 channels, rows with their
 * padding, so that a row of taps is one run of elements. Of up to 4 where the stride is even, for
 * then output pixels still lie 16 bytes apart; the weights follow in scratch, folded alike.
 */
#define RLX_G_CONV_FOLD		8

/* Channels of such a pixel. */
static inline int64_t rlx_g_conv_fold(const struct rlx_k_conv_nd *a)
{
	return a->ic <= RLX_G_CONV_FOLD / 2 && a->s[2] % 2 == 0 ? RLX_G_CONV_FOLD / 2 :
								   RLX_G_CONV_FOLD;
}

/* Pixels of such a row, which begins at 16 bytes. */
static inline int64_t rlx_g_conv_folded_row(const struct rlx_k_conv_nd *a)
{
	return rlx_g_conv_split((int64_t)((a->out[2] - 1) * a->s[2] + a->k[2]), 2) * 2;
}

/* Elements of an image. */
static inline int64_t rlx_g_conv_folded(const struct rlx_k_conv_nd *a)
{
	return (int64_t)a->in[1] * rlx_g_conv_folded_row(a) * rlx_g_conv_fold(a);
}

/* Elements from a row of taps to the next one, of weights that are folded too. */
static inline int64_t rlx_g_conv_folded_taps(const struct rlx_k_conv_nd *a)
{
	return rlx_g_conv_split((int64_t)a->k[2], 2) * 2 * rlx_g_conv_fold(a);
}

/* Lines of weights that wgmma has brought of a tile that is @edge output channels wide. */
static inline int64_t rlx_g_conv_lines(const struct rlx_k_conv_nd *a, int64_t edge)
{
	int64_t lines = rlx_g_conv_split((int64_t)a->oc, 8) * 8;

	return lines < edge ? lines : edge;
}

/* Does wgmma take a plain x so? */
static inline bool rlx_g_conv_folds(const struct rlx_k_conv_nd *a)
{
	return a->ic <= RLX_G_CONV_FOLD && a->d[2] == 1;
}

/* What wgmma makes of a plain x, in scratch. */
static inline uint64_t rlx_g_conv_plain_x_bytes(const struct rlx_k_conv_nd *a)
{
	return !a->x_plain ? 0 : !rlx_g_conv_folds(a) ? rlx_g_conv_x_bytes(a) :
	       2 * (uint64_t)a->n * (uint64_t)rlx_g_conv_folded(a);
}

/* And of weights, behind it. */
static inline uint64_t rlx_g_conv_plain_bytes(const struct rlx_k_conv_nd *a)
{
	uint64_t w = 0;

	if (a->x_plain && rlx_g_conv_folds(a) && rlx_g_conv_fold(a) < RLX_G_CONV_FOLD)
		w = 2 * (uint64_t)(a->oc * a->k[1]) * (uint64_t)rlx_g_conv_folded_taps(a);
	return rlx_g_conv_plain_x_bytes(a) + w;
}

/* What is in scratch of both; what follows them is aligned as they are. */
static inline uint64_t rlx_g_conv_repacked(const struct rlx_k_conv_nd *a)
{
	if (a->channels_last)
		return a->x_plain ? rlx_g_conv_x_bytes(a) : 0;
	return rlx_g_conv_x_bytes(a) + (uint64_t)(a->oc * a->k[0] * a->k[1] * a->k[2]) *
				       (uint64_t)rlx_g_conv_wide(a) * 2;
}

#endif
