// SPDX-License-Identifier: MIT
/* Quantising and back. */
#include "backends/common/lower.h"
#include "kernels/blocks.h"
#include "kernels/quant.h"

/* Where the scale of each element lies: ops/quant.h says it of the op. */
static void take_layout(struct rlx_k_quant *a, const struct rlx_type *x,
			const struct rlx_type *scale, int32_t axis, int64_t block)
{
	uint32_t ax;

	a->outer = a->axis = a->block = 1;
	a->inner = rlx_type_count(x);
	if (scale->rank <= 1 && rlx_type_count(scale) == 1 && !block)
		return;
	ax = shape_axis(axis, x->rank);
	a->outer = shape_span(x, 0, ax);
	a->axis = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->stride[1] = 1;
	if (block) {
		a->block = block;
		a->stride[0] = scale->dim[ax] * a->inner;
		a->stride[1] = a->inner;
		a->stride[2] = 1;
	}
}

static enum rlx_status call_quant(struct rlx_lower *lo, struct rlx_k_quant *a,
				  enum rlx_kernel_id id)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	a->x_type = (uint8_t)x->dtype;
	a->y_type = (uint8_t)rlx_lower_out(lo, 0)->dtype;
	a->scale_type = (uint8_t)rlx_lower_in(lo, 1)->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->scale, 1, 0);
	if (rlx_lower_in(lo, 2))
		rlx_lower_ref_in(lo, &a->zp, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, id, rlx_k_quant_units(a), (double)rlx_type_count(x) * 2, 0);
}

enum rlx_status rlx_lower_quantize(struct rlx_lower *lo)
{
	const struct rlx_op_quantize *q = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_quant *a = rlx_lower_args(lo, sizeof(*a));

	/* f32 arithmetic holds all of the narrower integers */
	if (!rlx_lower_real(rlx_lower_in(lo, 0)->dtype) ||
	    !rlx_lower_real(rlx_lower_in(lo, 1)->dtype) || y->dtype == RLX_I32 ||
	    (rlx_dtype_is_float(y->dtype) && rlx_lower_in(lo, 2)))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	take_layout(a, rlx_lower_in(lo, 0), rlx_lower_in(lo, 1), q->axis, q->block);
	return call_quant(lo, a, RLX_KERNEL_quantize);
}

enum rlx_status rlx_lower_dequantize(struct rlx_lower *lo)
{
	const struct rlx_op_dequantize *q = lo->args;
	struct rlx_k_quant *a = rlx_lower_args(lo, sizeof(*a));

	take_layout(a, rlx_lower_in(lo, 0), rlx_lower_in(lo, 1), q->axis, q->block);
	return call_quant(lo, a, RLX_KERNEL_dequantize);
}

enum rlx_status rlx_lower_dequantize_packed(struct rlx_lower *lo)
{
	const struct rlx_op_dequantize_packed *q = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_dequant_blocks *a = rlx_lower_args(lo, sizeof(*a));

	if (!rlx_lower_real(y->dtype))
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	a->n = rlx_type_count(y);
	a->scheme = (uint8_t)q->scheme;
	a->y_type = (uint8_t)y->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_dequant_blocks, rlx_k_dequant_blocks_units(a),
			      (double)a->n, 0);
}

enum rlx_status rlx_lower_dynamic_quantize(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	int64_t n = rlx_type_count(x);
	int64_t pieces = (n + RLX_K_RANGE_UNIT - 1) / RLX_K_RANGE_UNIT;
	struct rlx_k_quant_range *r;
	struct rlx_k_quant_params *p;
	struct rlx_k_quant *a;
	uint32_t tmp;

	if (x->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	tmp = rlx_lower_tmp(lo, (uint64_t)pieces * 2 * sizeof(float));
	r = rlx_lower_args(lo, sizeof(*r));
	r->n = n;
	rlx_lower_ref_in(lo, &r->x, 0, 0);
	rlx_lower_ref_tmp(lo, &r->range, tmp, 0);
	rlx_lower_call(lo, RLX_KERNEL_quant_range, (uint64_t)pieces, (double)n, 0);
	p = rlx_lower_args(lo, sizeof(*p));
	p->pieces = pieces;
	rlx_lower_ref_tmp(lo, &p->range, tmp, 0);
	rlx_lower_ref_out(lo, &p->scale, 1, 0);
	rlx_lower_ref_out(lo, &p->zp, 2, 0);
	rlx_lower_call(lo, RLX_KERNEL_quant_params, 1, (double)pieces, 0);
	if (!n)
		return lo->status;
	a = rlx_lower_args(lo, sizeof(*a));
	a->outer = a->axis = a->block = 1;
	a->inner = n;
	a->x_type = a->scale_type = RLX_F32;
	a->y_type = RLX_U8;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->scale, 1, 0);
	rlx_lower_ref_out(lo, &a->zp, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_quantize, rlx_k_quant_units(a), (double)n * 2, 0);
}
