// SPDX-License-Identifier: MIT
/* Transposed convolution over 1 to 3 spatial dimensions. */
#include "ops/batch.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, ci, in..], w[ci, co / groups, k..], bias[co] -> y[n, co, out..]; 1 to 3
 *		spatial dimensions; out = (in - 1) stride + (k - 1) dilation + 1 + output_pad -
 *		pads, at least 1
 * Dtypes:	f64 f32 f16 bf16; y as x and w promoted
 * Does:	each element of x adds its product with w at o stride - pad + i dilation of y,
 *		over bias or 0; what falls outside is dropped. stride and dilation are 1 if not
 *		given, pad (all begins, then all ends) and output_pad 0.
 * Gradient:	dx = conv(dy, w), dw a convolution of dy by x, dbias the sum of dy
 * Source:	ONNX ConvTranspose-11; Zeiler et al. 2010
 */
RLX_OP(conv_transpose, "the transpose of conv: x[n, ci, ..] with w[ci, co / groups, ..]",
	IN(x) IN(w) OPT(bias)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR(ints, output_pad)
	ATTR_NZ(i64, groups, 1),
	RLX_T_COMPUTE | RLX_T_NONFINITE_X)

static struct op_window_args window_args(const struct rlx_op_conv_transpose *a)
{
	return (struct op_window_args){ a->stride, a->pad, a->dilation, false };
}

/* (in - 1) stride + (k - 1) dilation + 1 + output_pad - pads; false if not >= 1. */
static bool out_size(const struct op_window *w, uint32_t j, int64_t extra, int64_t *out)
{
	int64_t n, reach;

	if (w->in[j] < 1 ||
	    __builtin_mul_overflow(w->in[j] - 1, w->stride[j], &n) ||
	    __builtin_mul_overflow(w->k[j] - 1, w->dil[j], &reach) ||
	    __builtin_add_overflow(n, reach, &n) ||
	    __builtin_add_overflow(n, extra + 1 - w->pad[j] - w->pad_end[j], &n))
		return false;
	*out = n;
	return n >= 1;
}

static enum rlx_status shape_of(struct rlx_infer *q, struct op_window *w)
{
	const struct rlx_op_conv_transpose *a = q->args;
	struct rlx_type *y = &q->out[0];
	uint32_t i;

	if (a->output_pad.n && a->output_pad.n != w->nd)
		return op_fail(q, RLX_EINVAL, "%u output pads for %u spatial dimensions",
			       a->output_pad.n, w->nd);
	for (i = 0; i < w->nd; i++) {
		int64_t extra = a->output_pad.n ? a->output_pad.v[i] : 0;

		if (extra < 0 || extra > INT32_MAX)
			return op_fail(q, RLX_EINVAL,
				       "output pad %lld is not in 0 to 2^31 - 1",
				       (long long)extra);
		if (!out_size(w, 3 - w->nd + i, extra, &y->dim[2 + i]))
			return op_fail(q, RLX_ESHAPE,
				       "spatial dimension %u of %lld elements gives no output",
				       i, (long long)q->in[0]->dim[2 + i]);
	}
	return RLX_OK;
}

static enum rlx_status conv_transpose_infer(struct rlx_infer *q)
{
	const struct rlx_op_conv_transpose *a = q->args;
	const struct op_window_args wa = window_args(a);
	const struct rlx_type *x = q->in[0], *k = q->in[1];
	int64_t groups = a->groups, co;
	enum rlx_status st = RLX_OK;
	struct op_window w;
	uint32_t i;

	for (i = 0; !st && i < 3; i++)
		if (q->in[i])
			st = op_need_float(q, i, false);
	if (!st)
		st = op_need_rank(q, 0, 3, 5);
	if (!st)
		st = op_need_rank(q, 1, x->rank, x->rank);
	if (!st)
		st = op_window_check(q, &wa, x->rank - 2);
	if (st)
		return st;
	if (groups < 1 || x->dim[1] != k->dim[0] || x->dim[1] % groups)
		return op_fail(q, RLX_ESHAPE,
			       "x has %lld channels, the weight takes %lld, in %lld groups",
			       (long long)x->dim[1], (long long)k->dim[0], (long long)groups);
	for (i = 2; i < k->rank; i++)
		if (k->dim[i] < 1 || k->dim[i] > INT32_MAX)
			return op_fail(q, RLX_EINVAL,
				       "kernel size %lld is not in 1 to 2^31 - 1",
				       (long long)k->dim[i]);
	if (__builtin_mul_overflow(k->dim[1], groups, &co))
		return op_fail(q, RLX_ESHAPE, "too many output channels");
	if (q->in[2] && (q->in[2]->rank != 1 || q->in[2]->dim[0] != co))
		return op_fail(q, RLX_ESHAPE, "the bias must be [%lld]", (long long)co);
	op_window_set(&w, &wa, x, k->dim + 2, x->rank - 2);
	q->out[0] = (struct rlx_type){ rlx_dtype_promote(x->dtype, k->dtype), x->rank,
				       { x->dim[0], co } };
	return shape_of(q, &w);
}

/* x, w and the sums as doubles. */
static size_t conv_transpose_scratch(const struct rlx_infer *q)
{
	return (size_t)(rlx_type_count(q->in[0]) + rlx_type_count(q->in[1]) +
			rlx_type_count(&q->out[0]) + 1) * sizeof(double);
}

/* Add @x times the kernel @k into the plane @y around position @at. */
static void spread(const struct op_window *w, double x, const double *k, double *y,
		   const int64_t at[3])
{
	int64_t kz, ky, kx, z, r, i;

	for (kz = 0; kz < w->k[0]; kz++) {
		z = at[0] * w->stride[0] - w->pad[0] + kz * w->dil[0];
		if (z < 0 || z >= w->out[0])
			continue;
		for (ky = 0; ky < w->k[1]; ky++) {
			r = at[1] * w->stride[1] - w->pad[1] + ky * w->dil[1];
			if (r < 0 || r >= w->out[1])
				continue;
			for (kx = 0; kx < w->k[2]; kx++) {
				i = at[2] * w->stride[2] - w->pad[2] + kx * w->dil[2];
				if (i >= 0 && i < w->out[2])
					y[(z * w->out[1] + r) * w->out[2] + i] +=
						x * k[(kz * w->k[1] + ky) * w->k[2] + kx];
			}
		}
	}
}

static void load(const struct rlx_tensor *t, double *to)
{
	int64_t n = rlx_type_count(&t->type), i;

	for (i = 0; i < n; i++)
		to[i] = el_get(t, i);
}

static enum rlx_status conv_transpose_eval(struct rlx_eval *q)
{
	const struct rlx_op_conv_transpose *a = q->args;
	const struct op_window_args wa = window_args(a);
	const struct rlx_type *tx = &q->in[0].type, *tw = &q->in[1].type;
	int64_t groups = a->groups, per = tw->dim[1], plane, kn, i, c;
	double *x = q->scratch, *k = x + rlx_type_count(tx), *y = k + rlx_type_count(tw);
	int64_t ny = rlx_type_count(&q->out[0].type), co = per * groups, g;
	struct rlx_type shape;
	struct op_window wn;
	struct op_walk w;

	op_window_set(&wn, &wa, tx, tw->dim + 2, tx->rank - 2);
	for (i = 0; i < wn.nd; i++)
		wn.out[3 - wn.nd + i] = q->out[0].type.dim[2 + i];
	plane = wn.out[0] * wn.out[1] * wn.out[2];
	kn = wn.k[0] * wn.k[1] * wn.k[2];
	load(&q->in[0], x);
	load(&q->in[1], k);
	for (i = 0; i < ny; i++)
		y[i] = op_has(&q->in[2]) ? el_get(&q->in[2], i / plane % co) : 0;
	shape = (struct rlx_type){ RLX_F64, 5, { tx->dim[0], tx->dim[1], wn.in[0],
						 wn.in[1], wn.in[2] } };
	op_walk_begin(&w, &shape, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		g = w.idx[1] / (tx->dim[1] / groups);
		for (c = 0; c < per; c++)
			spread(&wn, x[w.i], k + (w.idx[1] * per + c) * kn,
			       y + (w.idx[0] * co + g * per + c) * plane, w.idx + 2);
	}
	for (i = 0; i < ny; i++)
		el_set(&q->out[0], i, y[i]);
	return RLX_OK;
}

static enum rlx_status conv_transpose_vjp(struct rlx_grad *q)
{
	const struct rlx_op_conv_transpose *a = q->args;
	const struct op_window_args wa = window_args(a);
	struct rlx_type x = op_type(q->g, q->in[0]), w = op_type(q->g, q->in[1]);
	struct rlx_type y = op_type(q->g, q->out[0]);
	int64_t axes[3] = { 2, 3, 4 }, zero[3] = { 0 };
	rlx_value d;

	if (!rlx_type_count(&x) || !rlx_type_count(&y)) {
		q->d_in[0] = op_zeros_like(q->g, q->in[0]);
		q->d_in[1] = op_zeros_like(q->g, q->in[1]);
	} else {
		d = rlx_emit(q->g, conv, .x = q->d_out[0], .w = q->in[1],
			     .stride = a->stride, .pad = a->pad,
			     .dilation = a->dilation, .groups = a->groups);
		/* a large output pad makes room for more windows: cut them off */
		q->d_in[0] = rlx_emit(q->g, slice, .x = d, .axes = { axes, x.rank - 2 },
				      .starts = { zero, x.rank - 2 },
				      .ends = { x.dim + 2, x.rank - 2 });
		q->d_in[1] = op_conv_weight_grad(q->g, q->d_out[0], q->in[0], &w,
						 a->groups, &wa);
	}
	if (q->in[2].id)
		q->d_in[2] = op_conv_bias_grad(q->g, q->d_out[0]);
	return op_done(q->g);
}

static void conv_transpose_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(q->in[0]) *
		   (double)shape_span(q->in[1], 1, q->in[1]->rank);
}

static bool conv_transpose_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct {
		struct rlx_type x, w;
		int64_t stride[3], pad[6], dil[3], extra[3], groups;
		bool bias;
	} c[] = {
		{ { RLX_F32, 4, { 2, 3, 4, 5 } }, { RLX_F32, 4, { 3, 5, 3, 3 } },
		  { 1, 1 }, { 0 }, { 1, 1 }, { 0 }, 1, true },
		{ { RLX_F32, 4, { 1, 4, 5, 3 } }, { RLX_F32, 4, { 4, 3, 3, 2 } },
		  { 2, 3 }, { 1, 0, 1, 1 }, { 1, 2 }, { 1, 2 }, 2, true },
		{ { RLX_F32, 3, { 2, 3, 7 } }, { RLX_F32, 3, { 3, 2, 4 } },
		  { 2 }, { 1, 2 }, { 1 }, { 0 }, 1, false },
		{ { RLX_F32, 5, { 1, 2, 2, 3, 3 } }, { RLX_F32, 5, { 2, 3, 2, 2, 3 } },
		  { 1, 2, 1 }, { 0, 1, 0, 1, 0, 0 }, { 2, 1, 1 }, { 0, 1, 0 }, 1, true },
		{ { RLX_F32, 3, { 1, 2, 4 } }, { RLX_F32, 3, { 2, 2, 3 } },
		  { 2 }, { 0, 0 }, { 1 }, { 5 }, 1, true },
		{ { RLX_F32, 4, { 0, 3, 5, 5 } }, { RLX_F32, 4, { 3, 2, 3, 3 } },
		  { 2, 2 }, { 0 }, { 1, 1 }, { 0 }, 1, true },
	};
	struct rlx_op_conv_transpose *a = s->args;
	uint32_t nd;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	nd = c[i].x.rank - 2;
	s->n_in = 3;
	s->in[0] = c[i].x;
	s->in[1] = c[i].w;
	if (c[i].bias)
		s->in[2] = rlx_type(RLX_F32, c[i].w.dim[1] * c[i].groups);
	s->tol = 1e-5;
	a->stride = op_keep(s, (struct rlx_ints){ c[i].stride, nd });
	a->pad = op_keep(s, (struct rlx_ints){ c[i].pad, 2 * nd });
	a->dilation = op_keep(s, (struct rlx_ints){ c[i].dil, nd });
	a->output_pad = op_keep(s, (struct rlx_ints){ c[i].extra, nd });
	a->groups = c[i].groups;
	return true;
}

const struct rlx_op_impl rlx_op_conv_transpose_impl = {
	.infer = conv_transpose_infer, .scratch = conv_transpose_scratch,
	.eval = conv_transpose_eval, .vjp = conv_transpose_vjp,
	.cost = conv_transpose_cost,
	.batch = op_batch_examples,
};
RLX_SAMPLES(conv_transpose, conv_transpose_sample)
