/* SPDX-License-Identifier: MIT */
/*
 * Launches of convolutions in the CPU's order (conv_strict.cu), a part of launch.h: tiles of 64
 * channels x 64 pixels, or, where a group has few output channels, a thread for each output.
 * Limits: those of launch_conv.h.
 */
#ifndef RLX_G_LAUNCH_CONV_STRICT_H
#define RLX_G_LAUNCH_CONV_STRICT_H

#include "kernels/gpu/launch_conv.h"
#include "kernels/gpu/launch_gemm_f32.h"

enum { RLX_G_CONV_STRICT_FEW = 12 };	/* output channels of which a tile would be left empty */

static inline void rlx_g_conv_strict_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_strict *a = (const struct rlx_k_conv_strict *)args;
	struct rlx_k_conv_nd as = a->c;

	as.y_n = as.res_n = as.oc * as.out[0] * as.out[1] * as.out[2];	/* blocked it has more */
	if (!rlx_g_conv_fits(&as) || rlx_g_strict_act_why_not(a->c.act))
		return;
	if (a->c.oc / a->c.groups > RLX_G_CONV_STRICT_FEW) {
		rlx_g_line(l, rlx_g_conv_tiles(&a->c, 64, 64), 256);
		RLX_G_VARIANT(l, conv_strict, .CONV_TRANSPOSED = a->c.transposed,
			      .CONV_ORDER = (int32_t)a->order);
		return;
	}
	rlx_g_each(l, (int64_t)(a->c.n * (a->y_block ? a->c.y_n : as.y_n)));
	RLX_G_VARIANT(l, conv_strict_each, .CONV_TRANSPOSED = a->c.transposed,
		      .CONV_ORDER = (int32_t)a->order);
}

#endif
