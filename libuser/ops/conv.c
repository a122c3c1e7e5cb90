// SPDX-License-Identifier: MIT
/* Convolution over 1 to 3 spatial dimensions. */
#include "ops/batch.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, c, in..], w[co, c / groups, k..], bias[co] -> y[n, co, out..]; 1 to 3 spatial
 *		dimensions; out = (in + pads - (k - 1) dilation - 1) / stride + 1, rounded down
 * Dtypes:	f64 f32 f16 bf16; y as x and w promoted
 * Does:	y[o] = bias + the sum of x[o stride - pad + i dilation] w[i] over i < k and the
 *		channels of a group; the kernel is not turned round, what lies outside of x is 0.
 *		stride and dilation have a number for each spatial dimension, 1 if not given; pad
 *		has all begins, then all ends, 0 if not given.
 * Errors:	RLX_ESHAPE if the kernel is larger than the padded input.
 * Gradient:	dx = conv_transpose(dy, w), dw a convolution of x by dy, dbias the sum of dy
 * Source:	ONNX Conv-11
 */
RLX_OP(conv, "convolution, x[n, c, ..] with w[co, c / groups, ..], plus bias[co]",
	IN(x) IN(w) OPT(bias)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR_NZ(i64, groups, 1),
	RLX_T_COMPUTE | RLX_T_NONFINITE_X)

static struct op_window_args window_args(const struct rlx_op_conv *a)
{
	return (struct op_window_args){ a->stride, a->pad, a->dilation, false };
}

static enum rlx_status conv_infer(struct rlx_infer *q)
{
	const struct rlx_op_conv *a = q->args;
	const struct op_window_args wa = window_args(a);
	struct op_conv c;
	enum rlx_status st = RLX_OK;
	uint32_t k;

	for (k = 0; !st && k < 3; k++)
		if (q->in[k])
			st = op_need_float(q, k, false);
	if (!st)
		st = op_conv_infer(q, &wa, a->groups, &c, &q->out[0]);
	if (st)
		return st;
	if (q->in[2] && (q->in[2]->rank != 1 || q->in[2]->dim[0] != q->out[0].dim[1]))
		return op_fail(q, RLX_ESHAPE, "the bias must be [%lld]",
			       (long long)q->out[0].dim[1]);
	q->out[0].dtype = rlx_dtype_promote(q->in[0]->dtype, q->in[1]->dtype);
	return RLX_OK;
}

/* Both operands as doubles: each element is read many times. */
static size_t conv_scratch(const struct rlx_infer *q)
{
	return (size_t)(rlx_type_count(q->in[0]) + rlx_type_count(q->in[1]) + 1) *
	       sizeof(double);
}

/* One window of one input channel against one kernel plane. */
static double plane(const struct op_window *w, const double *x, const double *k,
		    const int64_t o[3])
{
	int64_t kz, ky, kx, z, y, i;
	double sum = 0;

	for (kz = 0; kz < w->k[0]; kz++) {
		z = o[0] * w->stride[0] - w->pad[0] + kz * w->dil[0];
		if (z < 0 || z >= w->in[0])
			continue;
		for (ky = 0; ky < w->k[1]; ky++) {
			y = o[1] * w->stride[1] - w->pad[1] + ky * w->dil[1];
			if (y < 0 || y >= w->in[1])
				continue;
			for (kx = 0; kx < w->k[2]; kx++) {
				i = o[2] * w->stride[2] - w->pad[2] + kx * w->dil[2];
				if (i >= 0 && i < w->in[2])
					sum += x[(z * w->in[1] + y) * w->in[2] + i] *
					       k[(kz * w->k[1] + ky) * w->k[2] + kx];
			}
		}
	}
	return sum;
}

static double one_output(const struct op_conv *c, const double *x, const double *k,
			 const int64_t at[5])
{
	int64_t per = c->ci / c->groups, g = at[1] / (c->co / c->groups), i;
	int64_t in = c->w.in[0] * c->w.in[1] * c->w.in[2];
	int64_t kn = c->w.k[0] * c->w.k[1] * c->w.k[2];
	double sum = 0;

	for (i = 0; i < per; i++)
		sum += plane(&c->w, x + (at[0] * c->ci + g * per + i) * in,
			     k + (at[1] * per + i) * kn, at + 2);
	return sum;
}

static enum rlx_status conv_eval(struct rlx_eval *q)
{
	const struct rlx_op_conv *a = q->args;
	const struct op_window_args wa = window_args(a);
	int64_t nx = rlx_type_count(&q->in[0].type), nw = rlx_type_count(&q->in[1].type);
	double *x = q->scratch, *k = x + nx, v;
	struct rlx_type shape;
	struct op_conv c;
	struct op_walk w;
	int64_t i;

	op_conv_set(&c, &wa, a->groups, &q->in[0].type, &q->in[1].type, &q->out[0].type);
	for (i = 0; i < nx; i++)
		x[i] = el_get(&q->in[0], i);
	for (i = 0; i < nw; i++)
		k[i] = el_get(&q->in[1], i);
	shape = (struct rlx_type){ RLX_F64, 5, { c.n, c.co, c.w.out[0], c.w.out[1],
						 c.w.out[2] } };
	op_walk_begin(&w, &shape, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		v = one_output(&c, x, k, w.idx);
		if (op_has(&q->in[2]))
			v += el_get(&q->in[2], w.idx[1]);
		el_set(&q->out[0], w.i, v);
	}
	return RLX_OK;
}

static rlx_value data_grad(struct rlx_grad *q, const struct op_window_args *wa)
{
	const struct rlx_op_conv *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), w = op_type(q->g, q->in[1]);
	struct rlx_type y = op_type(q->g, q->out[0]);
	int64_t extra[3] = { 0 };
	struct op_conv c;
	uint32_t i, j;

	op_conv_set(&c, wa, a->groups, &x, &w, &y);
	for (i = 0; i < c.w.nd; i++) {
		j = 3 - c.w.nd + i;
		extra[i] = c.w.in[j] + c.w.pad[j] + c.w.pad_end[j] -
			   (c.w.out[j] - 1) * c.w.stride[j] -
			   (c.w.k[j] - 1) * c.w.dil[j] - 1;
	}
	return rlx_emit(q->g, conv_transpose, .x = q->d_out[0], .w = q->in[1],
			.stride = a->stride, .pad = a->pad, .dilation = a->dilation,
			.output_pad = { extra, c.w.nd }, .groups = a->groups);
}

static enum rlx_status conv_vjp(struct rlx_grad *q)
{
	const struct rlx_op_conv *a = q->args;
	const struct op_window_args wa = window_args(a);
	struct rlx_type y = op_type(q->g, q->out[0]), w = op_type(q->g, q->in[1]);

	if (!rlx_type_count(&y)) {
		q->d_in[0] = op_zeros_like(q->g, q->in[0]);
		q->d_in[1] = op_zeros_like(q->g, q->in[1]);
	} else {
		q->d_in[0] = data_grad(q, &wa);
		q->d_in[1] = op_conv_weight_grad(q->g, q->in[0], q->d_out[0], &w,
						 a->groups, &wa);
	}
	if (q->in[2].id)
		q->d_in[2] = op_conv_bias_grad(q->g, q->d_out[0]);
	return op_done(q->g);
}

static void conv_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)shape_span(q->in[1], 1, q->in[1]->rank);
}

static bool conv_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct {
		struct rlx_type x, w;
		int64_t stride[3], pad[6], dil[3], groups;
		bool bias;
	} c[] = {
		{ { RLX_F32, 4, { 2, 3, 9, 11 } }, { RLX_F32, 4, { 5, 3, 3, 3 } },
		  { 1, 1 }, { 1, 1, 1, 1 }, { 1, 1 }, 1, true },
		{ { RLX_F32, 4, { 1, 4, 12, 7 } }, { RLX_F32, 4, { 6, 2, 3, 2 } },
		  { 2, 3 }, { 0, 2, 1, 0 }, { 2, 1 }, 2, false },
		{ { RLX_F32, 4, { 1, 5, 8, 8 } }, { RLX_F32, 4, { 5, 1, 3, 3 } },
		  { 2, 2 }, { 1, 1, 1, 1 }, { 1, 1 }, 5, true },
		{ { RLX_F32, 4, { 2, 8, 5, 5 } }, { RLX_F32, 4, { 16, 8, 1, 1 } },
		  { 1, 1 }, { 0 }, { 1, 1 }, 0, true },
		{ { RLX_F32, 3, { 2, 3, 17 } }, { RLX_F32, 3, { 4, 3, 5 } },
		  { 2 }, { 3, 1 }, { 2 }, 1, true },
		{ { RLX_F32, 5, { 1, 2, 4, 5, 6 } }, { RLX_F32, 5, { 3, 2, 2, 3, 3 } },
		  { 1, 2, 1 }, { 1, 0, 1, 0, 1, 1 }, { 1, 1, 2 }, 1, true },
		{ { RLX_F32, 4, { 1, 1, 1, 1 } }, { RLX_F32, 4, { 1, 1, 1, 1 } },
		  { 1, 1 }, { 0 }, { 1, 1 }, 1, false },
		{ { RLX_F32, 4, { 2, 16, 12, 16 } }, { RLX_F32, 4, { 24, 16, 1, 1 } },
		  { 1, 1 }, { 0 }, { 1, 1 }, 1, false },
		{ { RLX_F32, 4, { 0, 3, 5, 5 } }, { RLX_F32, 4, { 2, 3, 3, 3 } },
		  { 1, 1 }, { 0 }, { 1, 1 }, 1, true },
	};
	struct rlx_op_conv *a = s->args;
	uint32_t nd;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	nd = c[i].x.rank - 2;
	s->n_in = 3;
	s->in[0] = c[i].x;
	s->in[1] = c[i].w;
	if (c[i].bias)
		s->in[2] = rlx_type(RLX_F32, c[i].w.dim[0]);
	s->tol = 1e-5;
	a->stride = op_keep(s, (struct rlx_ints){ c[i].stride, nd });
	a->pad = op_keep(s, (struct rlx_ints){ c[i].pad, 2 * nd });
	a->dilation = op_keep(s, (struct rlx_ints){ c[i].dil, nd });
	a->groups = c[i].groups;
	return true;
}

const struct rlx_op_impl rlx_op_conv_impl = {
	.infer = conv_infer, .scratch = conv_scratch, .eval = conv_eval,
	.vjp = conv_vjp, .cost = conv_cost,
	.batch = op_batch_examples,
};
RLX_SAMPLES(conv, conv_sample)
