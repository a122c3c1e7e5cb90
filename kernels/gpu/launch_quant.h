/* SPDX-License-Identifier: MIT */
/*
 * Launches of what quantises and casts; a part of launch.h.
 *
 * quantize, dequantize and dequant_blocks have a thread for each element, up to 8,192 blocks, which
 * then go on by a grid's width; ranges a block for each RLX_K_RANGE_UNIT elements, parameters one
 * block, rows a block each. Types are parameters, so each combination is a module of its own.
 * Limits: what is not of the types that quant.cu has leaves l->can false: the step goes to the
 * host. Casts from or to floats are pointwise code and have no launch here.
 */
#ifndef RLX_G_LAUNCH_QUANT_H
#define RLX_G_LAUNCH_QUANT_H

#include "kernels/blocks.h"
#include "kernels/cast.h"
#include "kernels/gpu/launch.h"
#include "kernels/quant.h"

static inline bool rlx_g_quantised(int type)
{
	return type == RLX_I8 || type == RLX_U8 || type == RLX_I16 ||
	       type == RLX_U16 || type == RLX_F8E4M3 || type == RLX_F8E5M2;
}

static inline void rlx_g_quantize_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_quant *a = (const struct rlx_k_quant *)args;

	if (rlx_g_small_float(a->x_type) && rlx_g_small_float(a->scale_type) &&
	    rlx_g_quantised(a->y_type))
		rlx_g_each(l, a->outer * a->axis * a->inner);
	RLX_G_VARIANT(l, quantize, .QUANT_X_TYPE = a->x_type, .QUANT_Y_TYPE = a->y_type,
		      .QUANT_SCALE_TYPE = a->scale_type);
}

static inline void rlx_g_dequantize_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_quant *a = (const struct rlx_k_quant *)args;

	if ((rlx_g_quantised(a->x_type) || a->x_type == RLX_I32) &&
	    rlx_g_small_float(a->scale_type) && rlx_g_small_float(a->y_type))
		rlx_g_each(l, a->outer * a->axis * a->inner);
	RLX_G_VARIANT(l, dequantize, .QUANT_X_TYPE = a->x_type, .QUANT_Y_TYPE = a->y_type,
		      .QUANT_SCALE_TYPE = a->scale_type);
}

static inline void rlx_g_dequant_blocks_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_dequant_blocks *a = (const struct rlx_k_dequant_blocks *)args;

	rlx_g_each(l, a->n);
	RLX_G_VARIANT(l, dequant_blocks, .QUANT_Y_TYPE = a->y_type, .BLOCK_SCHEME = a->scheme);
}

static inline void rlx_g_quant_range_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_quant_range *a = (const struct rlx_k_quant_range *)args;

	RLX_G_VARIANT(l, quant_range);
	rlx_g_line(l, rlx_g_ceil(a->n, RLX_K_RANGE_UNIT), 256);
}

static inline void rlx_g_quant_params_launch(const void *args, struct rlx_g_launch *l)
{
	RLX_G_VARIANT(l, quant_params);
	(void)args;
	rlx_g_line(l, 1, 256);
}

static inline void rlx_g_quant_rows_launch(const void *args, struct rlx_g_launch *l)
{
	RLX_G_VARIANT(l, quant_rows);
	rlx_g_line(l, ((const struct rlx_k_quant_rows *)args)->rows, 256);
}

static inline void rlx_g_cast_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_cast *a = (const struct rlx_k_cast *)args;

	if (rlx_k_type_float((enum rlx_dtype)a->src_type) ||
	    rlx_k_type_float((enum rlx_dtype)a->dst_type))
		return;
	rlx_g_each(l, a->n);
	RLX_G_VARIANT(l, cast, .CAST_FROM = a->src_type, .CAST_TO = a->dst_type);
}

#endif
