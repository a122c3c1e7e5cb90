/* SPDX-License-Identifier: MIT */
/*
 * Launches of convolutions in the CPU's order (conv_ordered.cu), a part of launch.h: tiles of 64
 * channels x 64 pixels, or, where a group has few output channels, a thread for each output; what
 * the CPU does by Winograd's filtering by conv_winograd.cu, in lots of images.
 * Limits: those of launch_conv.h.
 */
#ifndef RLX_G_LAUNCH_CONV_ORDERED_H
#define RLX_G_LAUNCH_CONV_ORDERED_H

#include "kernels/gpu/launch_conv.h"
#include "kernels/gpu/launch_gemm_f32.h"

enum { RLX_G_CONV_ORDERED_FEW = 12 };	/* output channels of which a tile would be left empty */

/* Bytes of planes of inputs and sums that images have at a time. */
enum { RLX_G_WINOGRAD_SCRATCH = 128 << 20 };

/* Floats of planes for an image's tiles of an input and an output channel. */
static inline uint64_t rlx_g_winograd_each(const struct rlx_k_conv_ordered *a)
{
	return (a->m + 2) * (a->m + 2) * ((a->c.out[1] + a->m - 1) / a->m) *
	       ((a->c.out[2] + a->m - 1) / a->m);
}

/* Images at a time. */
static inline size_t rlx_g_winograd_images(const struct rlx_k_conv_ordered *a)
{
	uint64_t n = RLX_G_WINOGRAD_SCRATCH / (rlx_g_winograd_each(a) * (a->c.ic + a->c.oc) * 4);

	return n < 1 ? 1 : n < a->c.n ? (size_t)n : a->c.n;
}

/* Weights to planes, then for each lot of images inputs, products and results. */
static inline void rlx_g_conv_winograd_by(const struct rlx_k_conv_ordered *a,
					  struct rlx_g_launch *l)
{
	uint64_t lots = (a->c.n + a->images - 1) / a->images, pos = (a->m + 2) * (a->m + 2);

	if (lots > 1 << 16)
		return;
	rlx_g_line(l, 8 * (int64_t)l->processors, 256);
	l->n_launches = (uint32_t)(1 + 3 * lots);
	l->scratch = 4 * (pos * a->c.ic * a->c.oc + a->images * rlx_g_winograd_each(a) *
			  (a->c.ic + a->c.oc));
	RLX_G_VARIANT(l, conv_winograd, .WINO_M = (int32_t)a->m);
}

static inline void rlx_g_conv_ordered_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_ordered *a = (const struct rlx_k_conv_ordered *)args;
	struct rlx_k_conv_nd as = a->c;

	as.y_n = as.res_n = as.oc * as.out[0] * as.out[1] * as.out[2];	/* blocked it has more */
	if (!rlx_g_conv_fits(&as))
		return;
	if (a->m) {
		rlx_g_conv_winograd_by(a, l);
		return;
	}
	if (a->c.oc / a->c.groups > RLX_G_CONV_ORDERED_FEW) {
		rlx_g_line(l, rlx_g_conv_tiles(&a->c, 64, 64), 256);
		RLX_G_VARIANT(l, conv_ordered, .CONV_TRANSPOSED = a->c.transposed,
			      .CONV_ORDER = (int32_t)a->order);
		return;
	}
	rlx_g_each(l, (int64_t)(a->c.n * (a->y_block ? a->c.y_n : as.y_n)));
	RLX_G_VARIANT(l, conv_ordered_each, .CONV_TRANSPOSED = a->c.transposed,
		      .CONV_ORDER = (int32_t)a->order);
}

#endif
