// SPDX-License-Identifier: MIT
/*
 * Convolution of 8-bit integers. The zero point of its input may be known when it runs alone,
 * as dynamic quantization has it; scales, and the zero points of the weights, at compile time.
 */
#include "backends/common/conv_desc.h"
#include "ir/element.h"
#include "kernels/quant.h"

enum { BIAS = 2, X_SCALE, X_ZP, W_SCALE, W_ZP, Y_SCALE, Y_ZP };

/* Element @i of constant input @k, or its only one; @absent if there is none. */
static double number(const struct rlx_lower *lo, uint32_t k, int64_t i, double absent)
{
	struct rlx_tensor t;

	if (!rlx_lower_in(lo, k))
		return absent;
	t = (struct rlx_tensor){ .type = *rlx_lower_in(lo, k),
				 .data = (void *)rlx_lower_const(lo, k) };
	return el_get(&t, rlx_type_count(&t.type) == 1 ? 0 : i);
}

static bool known(const struct rlx_lower *lo, uint32_t k)
{
	return !rlx_lower_in(lo, k) || rlx_lower_const(lo, k);
}

void rlx_lower_qconv_zero(struct rlx_lower *lo, struct rlx_k_conv_i8 *a)
{
	if (!known(lo, X_ZP))
		rlx_lower_ref_in(lo, &a->x_zero_at, X_ZP, 0);
}

static bool takes(const struct rlx_lower *lo)
{
	uint32_t k;

	for (k = X_SCALE; k <= Y_ZP; k++)
		if (k != X_ZP && !known(lo, k))
			return false;
	return rlx_lower_in(lo, 0)->rank <= 5 &&
	       rlx_type_count(rlx_lower_in(lo, 0)) > 0 && rlx_type_count(rlx_lower_in(lo, 1)) > 0;
}

static void take_shape(struct rlx_k_conv_nd *s, const struct rlx_lower *lo)
{
	const struct rlx_op_qconv *c = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1),
			      *y = rlx_lower_out(lo, 0);
	uint32_t nd = x->rank - 2, i;

	s->n = (size_t)x->dim[0];
	s->ic = (size_t)x->dim[1];
	s->oc = (size_t)w->dim[0];
	s->groups = (size_t)c->groups;
	for (i = 0; i < 3; i++) {
		bool here = i + nd >= 3;
		uint32_t d = here ? i + nd - 3 : 0;

		s->in[i] = here ? (size_t)x->dim[2 + d] : 1;
		s->out[i] = here ? (size_t)y->dim[2 + d] : 1;
		s->k[i] = here ? (size_t)w->dim[2 + d] : 1;
		s->s[i] = here && c->stride.n ? (size_t)c->stride.v[d] : 1;
		s->d[i] = here && c->dilation.n ? (size_t)c->dilation.v[d] : 1;
		s->p[i] = here && c->pad.n ? (size_t)c->pad.v[d] : 0;
	}
	s->x_n = (size_t)shape_span(x, 1, x->rank);
	s->y_n = (size_t)shape_span(y, 1, y->rank);
}

/* Scales and zero points; the kernel gives 8-bit integers, or the sums. */
static enum rlx_status take_numbers(struct rlx_lower *lo, struct rlx_k_conv_i8 *a,
				    const float **out_scale)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	size_t oc = a->shape.oc, i;
	int32_t *zero = NULL;
	float *scale = NULL;

	if (rlx_lower_in(lo, W_ZP)) {
		zero = rlx_lower_keep(lo, oc, sizeof(*zero));
		for (i = 0; zero && i < oc; i++)
			zero[i] = (int32_t)number(lo, W_ZP, (int64_t)i, 0);
	}
	if (y->dtype != RLX_I32) {
		scale = rlx_lower_keep(lo, oc, sizeof(*scale));
		for (i = 0; scale && i < oc; i++)
			scale[i] = (float)(number(lo, X_SCALE, 0, 1) *
					   number(lo, W_SCALE, (int64_t)i, 1) /
					   number(lo, Y_SCALE, 0, 1));
	}
	/* symmetric weights spare the sums of the inputs */
	for (i = 0; zero && i < oc && !zero[i]; i++)
		;
	if (zero && i < oc)
		rlx_lower_ref_keep(lo, &a->w_zero, zero, oc * sizeof(*zero));
	a->y_zero = (int32_t)number(lo, Y_ZP, 0, 0);
	a->w_signed = rlx_lower_in(lo, 1)->dtype == RLX_I8;
	a->out = y->dtype == RLX_U8 ? RLX_CONV_U8 : y->dtype == RLX_I8 ? RLX_CONV_I8 :
		 RLX_CONV_I32;
	a->lo = y->dtype == RLX_I8 ? -128 : 0;
	a->hi = y->dtype == RLX_I8 ? 127 : 255;
	if (y->dtype == RLX_F32)
		*out_scale = scale;
	else
		rlx_lower_ref_keep(lo, &a->scale, scale, oc * sizeof(*scale));
	return lo->status;
}

/* f32 results: the sums times one scale for each channel. */
static enum rlx_status call_scale(struct rlx_lower *lo, uint32_t sums, const float *scale)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_quant *a = rlx_lower_args(lo, sizeof(*a));

	a->outer = y->dim[0];
	a->axis = y->dim[1];
	a->inner = shape_span(y, 2, y->rank);
	a->block = a->stride[1] = 1;
	a->x_type = RLX_I32;
	a->y_type = a->scale_type = RLX_F32;
	rlx_lower_ref_keep(lo, &a->scale, scale, (size_t)a->axis * sizeof(*scale));
	rlx_lower_ref_tmp(lo, &a->x, sums, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_dequantize, rlx_k_quant_units(a),
			      (double)rlx_type_count(y) * 2, 0);
}

enum rlx_status rlx_lower_qconv(struct rlx_lower *lo)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_conv_i8 plan = { 0 }, *a;
	const float *scale = NULL;
	uint32_t sums = 0, x = 0;
	enum rlx_status st;

	if (!rlx_type_count(y))
		return lo->status;
	if (!takes(lo))
		return rlx_lower_unsupported(
			lo, "zero points of the weights, or scales, known only at run time");
	take_shape(&plan.shape, lo);
	plan.x_zero = known(lo, X_ZP) ? (int32_t)number(lo, X_ZP, 0, 0) : 0;
	plan.x_signed = rlx_lower_in(lo, 0)->dtype == RLX_I8;
	if (lo->ops->conv_i8_group)
		x = lo->ops->conv_i8_group(lo, &plan);
	a = rlx_lower_args(lo, sizeof(*a));
	*a = plan;
	if (take_numbers(lo, a, &scale))
		return lo->status;
	if (x)
		rlx_lower_ref_tmp(lo, &a->x, x, 0);
	else
		rlx_lower_ref_in(lo, &a->x, 0, 0);
	if (rlx_lower_in(lo, BIAS))
		rlx_lower_ref_in(lo, &a->bias, BIAS, 0);
	rlx_lower_qconv_zero(lo, a);
	if (scale) {
		sums = rlx_lower_tmp(lo, (uint64_t)rlx_type_count(y) * sizeof(int32_t));
		rlx_lower_ref_tmp(lo, &a->y, sums, 0);
	} else {
		rlx_lower_ref_out(lo, &a->y, 0, 0);
	}
	rlx_lower_extent(lo, y->dim[0], NULL);
	st = lo->ops->conv_i8(lo, a);
	return st || !scale ? st : call_scale(lo, sums, scale);
}
