// SPDX-License-Identifier: MIT
/* Quantised tensors and products. */
#include "io/onnx/handlers.h"

rlx_value onnx_scalar(struct onnx_op *q, rlx_value v)
{
	struct rlx_type t = onnx_type(q, v);

	if (!v.id || !t.rank || rlx_type_count(&t) != 1)
		return v;
	return onnx_reshape(q, v, 0, NULL);
}

enum rlx_status onnx_matmul_integer(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, qmatmul, .a = onnx_in(q, 0), .b = onnx_in(q, 1),
			 .a_zp = onnx_scalar(q, onnx_in(q, 2)),
			 .b_zp = onnx_scalar(q, onnx_in(q, 3))));
	return RLX_OK;
}

enum rlx_status onnx_qlinear_matmul(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, qmatmul, .a = onnx_in(q, 0), .b = onnx_in(q, 3),
			 .a_scale = onnx_scalar(q, onnx_in(q, 1)),
			 .a_zp = onnx_scalar(q, onnx_in(q, 2)),
			 .b_scale = onnx_scalar(q, onnx_in(q, 4)),
			 .b_zp = onnx_scalar(q, onnx_in(q, 5)),
			 .y_scale = onnx_scalar(q, onnx_in(q, 6)),
			 .y_zp = onnx_scalar(q, onnx_in(q, 7))));
	return RLX_OK;
}

/* 4- and 2-bit types are bytes here, but saturate where they end. */
static rlx_value saturate(struct onnx_op *q, rlx_value y, int64_t type)
{
	unsigned int bits = onnx_dtype_bits(type);
	bool sign = type == ONNX_INT4 || type == ONNX_INT2;
	enum rlx_dtype dt = onnx_type(q, y).dtype;
	double lo, hi;

	if (!bits || bits >= 8 || !rlx_dtype_is_int(dt))
		return y;
	lo = sign ? -(double)(1u << (bits - 1)) : 0;
	hi = lo + (1u << bits) - 1;
	y = E(q, max, .a = y, .b = onnx_num(q, dt, lo));
	return E(q, min, .a = y, .b = onnx_num(q, dt, hi));
}

enum rlx_status onnx_quantize(struct onnx_op *q)
{
	int64_t to = onnx_attr_i(q, "output_dtype", 0);
	rlx_value zp, y;

	onnx_attr_i(q, "precision", 0);
	if (!onnx_attr_i(q, "saturate", 1))
		return op_err(q, RLX_ENOSUP, "attribute saturate=0 is not "
			      "supported");
	zp = onnx_in(q, 2);
	if (zp.id && q->in[2]->elem)
		to = q->in[2]->elem;
	y = E(q, quantize, .x = onnx_in(q, 0),
	      .scale = onnx_scalar(q, onnx_in(q, 1)), .zp = onnx_scalar(q, zp),
	      .axis = onnx_attr_i32(q, "axis", 1),
	      .to = zp.id ? onnx_type(q, zp).dtype : to ?
	      onnx_dtype_to_rlx(to) : RLX_U8,
	      .block = onnx_attr_i(q, "block_size", 0));
	onnx_out(q, 0, saturate(q, y, to));
	if (q->n_out && q->out[0])
		q->out[0]->elem = to;
	return RLX_OK;
}

enum rlx_status onnx_dequantize(struct onnx_op *q)
{
	int64_t to = onnx_attr_i(q, "output_dtype", 0);
	enum rlx_dtype dt = onnx_dtype_to_rlx(to);
	rlx_value y;

	if (to && !rlx_dtype_is_float(dt))
		return op_err(q, RLX_ENOSUP, "attribute output_dtype=%s is not supported",
			      onnx_dtype_name(to));
	y = E(q, dequantize, .x = onnx_in(q, 0), .scale = onnx_scalar(q, onnx_in(q, 1)),
	      .zp = onnx_scalar(q, onnx_in(q, 2)), .axis = onnx_attr_i32(q, "axis", 1),
	      .block = onnx_attr_i(q, "block_size", 0));
	if (to && dt != onnx_type(q, y).dtype)
		y = E(q, cast, .x = y, .to = dt);
	onnx_out(q, 0, y);
	return RLX_OK;
}

enum rlx_status onnx_dynamic_quantize(struct onnx_op *q)
{
	rlx_value y = E(q, dynamic_quantize, .x = onnx_in(q, 0));
	uint32_t i;

	for (i = 0; i < 3; i++)
		onnx_out(q, i, onnx_nth(q, y, i));
	return RLX_OK;
}

enum rlx_status onnx_conv_integer(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), k = onnx_in(q, 1);
	struct onnx_slide w;
	enum rlx_status st = onnx_slide_conv(q, x, k, &w);

	if (st)
		return st;
	onnx_out(q, 0, E(q, qconv, .x = x, .w = k,
			 .x_zp = onnx_scalar(q, onnx_in(q, 2)),
			 .w_zp = onnx_scalar(q, onnx_in(q, 3)),
			 .stride = w.stride, .pad = w.pad,
			 .dilation = w.dilation,
			 .groups = onnx_attr_i(q, "group", 1)));
	return RLX_OK;
}

enum rlx_status onnx_qlinear_conv(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), k = onnx_in(q, 3);
	struct onnx_slide w;
	enum rlx_status st = onnx_slide_conv(q, x, k, &w);

	if (st)
		return st;
	onnx_out(q, 0, E(q, qconv, .x = x, .w = k, .bias = onnx_in(q, 8),
			 .x_scale = onnx_scalar(q, onnx_in(q, 1)),
			 .x_zp = onnx_scalar(q, onnx_in(q, 2)),
			 .w_scale = onnx_scalar(q, onnx_in(q, 4)),
			 .w_zp = onnx_scalar(q, onnx_in(q, 5)),
			 .y_scale = onnx_scalar(q, onnx_in(q, 6)),
			 .y_zp = onnx_scalar(q, onnx_in(q, 7)),
			 .stride = w.stride, .pad = w.pad,
			 .dilation = w.dilation,
			 .groups = onnx_attr_i(q, "group", 1)));
	return RLX_OK;
}
