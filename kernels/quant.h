/* SPDX-License-Identifier: MIT */
/* Quantising to small types with scales and zero points, and back. */
#ifndef RLX_K_QUANT_H
#define RLX_K_QUANT_H

#include "kernels/type.h"

/*
 * Kernels: quantize, y = sat(round(x / scale) + zp), ties to even, NaN to 0
 * (for fp8 y = sat(x / scale)); and dequantize, y = (x - zp) * scale in f32.
 * x and y are [outer, axis, inner]; element (o, i, j) has the scale and zp at
 * o * stride[0] + i / block * stride[1] + j * stride[2]. Per tensor: one outer
 * and axis, strides 0. Per axis: stride {0, 1, 0}, block 1. Blocks of the
 * axis: stride {axis / block * inner, inner, 1}.
 * One unit is up to RLX_K_QUANT_UNIT elements of one row (the axis if inner is
 * 1, else inner); there are rlx_k_quant_units(). Scratch: 0.
 */
#define RLX_K_QUANT_UNIT	4096

struct rlx_k_quant {
	const void	*x;
	const void	*scale;		/* f32, f16 or bf16 */
	const void	*zp;		/* of the small type, or NULL: 0 */
	void		*y;
	int64_t		outer, axis, inner, block;
	int64_t		stride[3];
	uint8_t		x_type, y_type, scale_type;
};

static inline size_t rlx_k_quant_units(const struct rlx_k_quant *a)
{
	int64_t row = a->inner == 1 ? a->axis : a->inner;
	int64_t rows = a->inner == 1 ? a->outer : a->outer * a->axis;

	return (size_t)(rows * ((row + RLX_K_QUANT_UNIT - 1) /
				RLX_K_QUANT_UNIT));
}

/*
 * Kernel: lookup, y = table[x] of n bytes, by x's bits. One unit is RLX_K_QUANT_UNIT of them.
 * Scratch: 0.
 */
struct rlx_k_lookup {
	const uint8_t	*x, *table;	/* of 256 bytes */
	uint8_t		*y;
	size_t		n;
};

/*
 * Kernel: quant_range. Smallest and largest of x in pieces of
 * RLX_K_RANGE_UNIT; unit u writes range[2 u], range[2 u + 1]. There are
 * ceil(n / RLX_K_RANGE_UNIT) units. Scratch: 0.
 */
#define RLX_K_RANGE_UNIT	16384

struct rlx_k_quant_range {
	const float	*x;
	float		*range;
	int64_t		n;
};

/*
 * Kernel: quant_params. From @pieces ranges the scale and u8 zero point of
 * ONNX DynamicQuantizeLinear: the range is widened to hold 0; a range of 0
 * gives scale 1. One unit. Scratch: 0.
 */
struct rlx_k_quant_params {
	const float	*range;
	float		*scale;
	uint8_t		*zp;
	int64_t		pieces;
};

/*
 * Kernel: quant_rows. Symmetric s8 by row: scale[r] = max |x[r]| / 127 (1 if
 * that is 0), y = round(x / scale). One unit is one row; there are @rows.
 * Scratch: 0.
 */
struct rlx_k_quant_rows {
	const float	*x;
	int8_t		*y;
	float		*scale;
	int64_t		rows, n;
};

#endif
