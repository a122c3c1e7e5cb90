/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of ONNX's QuantizeLinear and DequantizeLinear form, drawn at random: plain,
 * pointwise, depthwise and grouped, of 1 to 3 dimensions, with strides, dilations and padding
 * that differ by side and dimension; scales and zero points of tensors and of channels, in
 * either type of 8 bits.
 */
#ifndef SELFTESTS_QDQ_CONV_H
#define SELFTESTS_QDQ_CONV_H

#include "selftests/lib/xy_net.h"

struct qdq_conv {
	int64_t		n, ic, oc, groups;
	uint32_t	dims;			/* of space */
	int64_t		in[3], k[3], stride[3], dilation[3], pad[6];
	bool		x_signed, w_signed, per_channel, zeros, whole_bias, bias, quantized;
	double		flops;			/* of one run */
};

/* Tensors are of @most elements at most, and a run of @flops from @least on. */
void qdq_conv_draw(struct qdq_conv *c, uint64_t *seed, int64_t most, double least,
		   double flops);
/* What was drawn, as text of less than @n bytes. */
void qdq_conv_name(const struct qdq_conv *c, char *to, size_t n);
struct rlx_type qdq_conv_input(const struct qdq_conv *c);

/*
 * The convolution of @x, quantized before it and, where that was drawn, behind it. An @x in
 * bytes is quantized already; then bytes come out as well. With @floats the weight is not
 * quantized, so that nothing can be computed in bytes.
 */
rlx_value qdq_conv(struct xy_net *n, const struct qdq_conv *c, rlx_value x, bool floats);
/* What its results may be off by: a step where they are quantized, else roundings of terms. */
double qdq_conv_step(const struct qdq_conv *c);
/* The same in floats. */
rlx_value qdq_conv_f32(struct xy_net *n, const struct qdq_conv *c, rlx_value x);

#endif
