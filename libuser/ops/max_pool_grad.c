// SPDX-License-Identifier: MIT
/* The gradient of max pooling. */
#include "ops/batch.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, c, in..], dy[n, c, out..] like the y of pool(x) -> dx as x
 * Dtypes:	x: f64 f32 f16 bf16; dy and dx as x
 * Does:	each dy is added where the maximum of its window was, the first of equal ones; a
 *		window of padding alone adds nothing. kernel, stride, pad, dilation and ceil are
 *		those of pool. Windows that have one maximum add up in f64 here, in x's dtype or
 *		f32 elsewhere.
 * Errors:	RLX_ESHAPE if dy is not what pool makes of x.
 * Gradient:	to dy: what it was added to; none to x
 * Source:	ONNX MaxPool-12, its derivative
 */
RLX_OP(max_pool_grad, "dy of max pooling, added where each window's maximum is",
	IN(x) IN(dy)
	ATTR(ints, kernel)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR(bool, ceil),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static struct op_window_args window_args(const struct rlx_op_max_pool_grad *a)
{
	return (struct op_window_args){ a->stride, a->pad, a->dilation, a->ceil };
}

static void geometry(const struct rlx_op_max_pool_grad *a, const struct rlx_type *x,
		     struct op_window *w, struct rlx_type *y)
{
	const struct op_window_args wa = window_args(a);

	op_pool_set(w, &wa, a->kernel, x, y);
}

static enum rlx_status max_pool_grad_infer(struct rlx_infer *q)
{
	const struct rlx_op_max_pool_grad *a = q->args;
	const struct op_window_args wa = window_args(a);
	enum rlx_status st = op_need_rank(q, 0, 3, 5);
	struct rlx_type y;
	uint32_t i;

	if (!st)
		st = op_need_float(q, 0, false);
	if (!st)
		st = op_pool_infer(q, &wa, a->kernel, &y);
	if (st)
		return st;
	for (i = 0; i < y.rank && q->in[1]->rank == y.rank; i++)
		if (q->in[1]->dim[i] != y.dim[i])
			return op_fail(q, RLX_ESHAPE, "dy's dimension %u is %lld; pooling x gives "
				       "%lld", i, (long long)q->in[1]->dim[i],
				       (long long)y.dim[i]);
	if (!rlx_type_equal(&y, q->in[1]))
		return op_fail(q, RLX_ESHAPE, "dy has not the rank and dtype of x");
	q->out[0] = *q->in[0];
	return RLX_OK;
}

/* A plane's sums. */
static size_t max_pool_grad_scratch(const struct rlx_infer *q)
{
	return (size_t)shape_span(q->in[0], 2, q->in[0]->rank) * sizeof(double);
}

static enum rlx_status max_pool_grad_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t span = shape_span(x, 2, x->rank), planes = x->dim[0] * x->dim[1];
	int64_t n, i, u, p, at, o[3];
	double *sum = q->scratch;
	struct op_window w;

	geometry(q->args, x, &w, NULL);
	n = w.out[0] * w.out[1] * w.out[2];
	for (p = 0; p < planes; p++) {
		for (i = 0; i < span; i++)
			sum[i] = 0;
		for (i = 0; i < n; i++) {
			u = i / w.out[2];
			o[0] = u / w.out[1];
			o[1] = u % w.out[1];
			o[2] = i % w.out[2];
			at = op_window_max(&w, &q->in[0], p * span, o);
			if (at >= 0)
				sum[at] += el_get(&q->in[1], p * n + i);
		}
		for (i = 0; i < span; i++)
			el_set(&q->out[0], p * span + i, sum[i]);
	}
	return RLX_OK;
}

/*
 * Of @x [n, in..] with @begin zeros in front, [n, blocks, step, ..]; of one for each block step is
 * 1. Zeros behind are as many as it takes, or less than none.
 */
static rlx_value in_blocks(struct rlx_graph *g, rlx_value x, uint32_t nd, const int64_t *begin,
			   const int64_t *blocks, const int64_t *step)
{
	struct rlx_type t = op_type(g, x);
	int64_t pads[8] = { 0 }, dim[7] = { t.dim[0] };
	uint32_t i;

	for (i = 0; i < nd; i++) {
		dim[1 + 2 * i] = blocks[i];
		dim[2 + 2 * i] = step ? step[i] : 1;
		pads[1 + i] = begin[i];
		pads[nd + 2 + i] = blocks[i] * dim[2 + 2 * i] - begin[i] - t.dim[1 + i];
	}
	x = rlx_emit(g, pad, .x = x, .pads = { pads, 2 * t.rank });
	return op_reshape(g, x, dim, 1 + 2 * nd);
}

/*
 * Where few windows reach a block of a stride: each element, by its place, which @idx counts from
 * 1, adds up dy of those that took it. Places are f32, as dy is or becomes, so that it is one pass.
 */
static rlx_value gathered(struct rlx_graph *g, rlx_value idx, rlx_value d,
			  const struct op_window *w, const int64_t reach[3])
{
	int64_t axes[3] = { 1, 2, 3 }, dim[4] = { 1 }, end[3], blocks[3], n = 1, u;
	uint32_t nd = w->nd, j = 3 - nd, i;
	rlx_value sum = RLX_NONE, at, x;

	for (i = 0; i < nd; i++) {
		n *= dim[1 + i] = w->in[j + i];
		end[i] = w->pad[j + i] + w->in[j + i];
		blocks[i] = (end[i] + w->stride[j + i] - 1) / w->stride[j + i];
	}
	rlx_scope_begin(g, RLX_SCOPE_AS_WRITTEN);	/* 16 bits do not tell places apart */
	idx = op_cast(g, idx, RLX_F32);
	at = rlx_emit(g, iota, .type = rlx_type(RLX_F32, n), .start = 1);
	at = in_blocks(g, op_reshape(g, at, dim, 1 + nd), nd, w->pad + j, blocks, w->stride + j);
	rlx_scope_end(g);
	for (n = 0; n < reach[0] * reach[1] * reach[2]; n++) {
		int64_t ahead[3];

		for (i = nd, u = n; i-- > 0; u /= reach[j + i])
			ahead[i] = u % reach[j + i];
		rlx_scope_begin(g, RLX_SCOPE_AS_WRITTEN);
		x = rlx_emit(g, eq, .a = in_blocks(g, idx, nd, ahead, blocks, NULL), .b = at);
		rlx_scope_end(g);
		x = rlx_emit(g, where, .a = in_blocks(g, d, nd, ahead, blocks, NULL), .cond = x,
			     .b = op_const_like(g, d, 0));
		sum = sum.id ? rlx_emit(g, add, .a = sum, .b = x) : x;
	}
	dim[0] = op_type(g, d).dim[0];
	for (i = 0; i < nd; i++)
		dim[1 + i] = blocks[i] * w->stride[j + i];
	return rlx_emit(g, slice, .x = op_reshape(g, sum, dim, 1 + nd), .axes = { axes, nd },
			.starts = { w->pad + j, nd }, .ends = { end, nd });
}

/*
 * Windows that may reach a block of a stride along each dimension. Are they few, and blocks not
 * much more than the input, as padding and strides far wider than that would make them?
 */
static bool few_reach(const struct op_window *w, int64_t reach[3])
{
	enum { FEW = 9, MOST = 1 << 24 };	/* places are f32 */
	double windows = 1, blocks = 1, in = 1;
	uint32_t j;

	for (j = 0; j < 3; j++) {
		reach[j] = ((w->k[j] - 1) * w->dil[j] + w->stride[j]) / w->stride[j];
		windows *= (double)reach[j];
		in *= (double)w->in[j];
		blocks *= (double)(w->pad[j] + w->in[j] + w->stride[j]);
	}
	return windows <= FEW && in < MOST && blocks <= 16 * in + 4096;
}

/*
 * By planes: where each maximum was in its own, and then what took an element, or what is added
 * to each in the windows' order.
 */
static enum rlx_status max_pool_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_max_pool_grad *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), y = op_type(q->g, q->in[1]);
	int64_t out[4] = { y.dim[0] * y.dim[1], y.dim[2], y.dim[3], y.dim[4] }, reach[3];
	int64_t span = shape_span(&x, 2, x.rank), lines[2] = { out[0], 1 };
	struct rlx_type flat = { x.dtype, 2, { out[0], span } };
	rlx_value idx, d, zero = rlx_scalar_const(q->g, RLX_I64, 0), hit;
	struct op_window w;

	if (!rlx_type_count(&x) || !rlx_type_count(&y)) {
		q->out[0] = op_zeros_like(q->g, q->in[0]);
		return op_done(q->g);
	}
	geometry(a, &x, &w, NULL);
	idx = rlx_emit(q->g, pool, .x = q->in[0], .kernel = a->kernel,
		       .stride = a->stride, .pad = a->pad, .dilation = a->dilation,
		       .ceil = a->ceil, .indices = true);
	idx = op_reshape(q->g, rlx_out(q->g, idx, 1), out, y.rank - 1);
	d = op_reshape(q->g, q->in[1], out, y.rank - 1);
	hit = rlx_emit(q->g, ge, .a = idx, .b = zero);
	idx = rlx_emit(q->g, mod, .a = idx, .b = rlx_scalar_const(q->g, RLX_I64, (double)span));
	if (few_reach(&w, reach)) {
		idx = rlx_emit(q->g, add, .a = idx, .b = rlx_scalar_const(q->g, RLX_I64, 1));
		idx = rlx_emit(q->g, where, .cond = hit, .a = idx, .b = zero);
		d = gathered(q->g, idx, d, &w, reach);
	} else {
		lines[1] = shape_span(&y, 2, y.rank);
		d = rlx_emit(q->g, where, .cond = hit, .a = d, .b = op_const_like(q->g, d, 0));
		d = rlx_emit(q->g, scatter_elements, .x = op_fill(q->g, &flat, 0), .axis = 1,
			     .indices = op_reshape(q->g, idx, lines, 2),
			     .updates = op_reshape(q->g, d, lines, 2),
			     .reduction = RLX_SCATTER_ADD);
	}
	q->out[0] = op_reshape(q->g, d, x.dim, x.rank);
	return op_done(q->g);
}

static enum rlx_status max_pool_grad_batch(struct rlx_batching *q)
{
	return op_batch_merged(q, 3);
}

static bool max_pool_grad_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct {
		struct rlx_type x;
		int64_t k[3], stride[3], pad[6], dil[3];
		bool ceil;
	} c[] = {
		{ { RLX_F32, 4, { 2, 3, 8, 9 } }, { 2, 3 }, { 2, 2 }, { 0 }, { 1, 1 } },
		{ { RLX_F32, 4, { 1, 2, 7, 7 } }, { 3, 3 }, { 2, 2 }, { 1, 1, 1, 1 }, { 1, 1 } },
		{ { RLX_F32, 4, { 1, 2, 8, 6 } }, { 3, 2 }, { 2, 3 }, { 1, 0, 0, 1 }, { 1, 1 },
		  true },
		{ { RLX_F32, 3, { 2, 3, 11 } }, { 3 }, { 1 }, { 0 }, { 2 } },
		{ { RLX_F32, 3, { 1, 2, 40 } }, { 20 }, { 1 }, { 0 }, { 1 } },
		{ { RLX_F32, 5, { 1, 2, 4, 5, 6 } }, { 2, 2, 3 }, { 1, 2, 2 },
		  { 1, 0, 1, 0, 1, 0 }, { 1, 1, 1 } },
		{ { RLX_F32, 4, { 0, 2, 5, 5 } }, { 3, 3 }, { 1, 1 }, { 0 }, { 1, 1 } },
	};
	struct rlx_op_max_pool_grad *a = s->args;
	struct op_window w;
	uint32_t nd;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	nd = c[i].x.rank - 2;
	s->n_in = 2;
	s->in[0] = c[i].x;
	s->lo[0] = -20, s->hi[0] = 20;	/* so that few maxima are near ties */
	s->tol = 2e-6;
	*a = (struct rlx_op_max_pool_grad){ .ceil = c[i].ceil };
	a->kernel = op_keep(s, (struct rlx_ints){ c[i].k, nd });
	a->stride = op_keep(s, (struct rlx_ints){ c[i].stride, nd });
	a->pad = op_keep(s, (struct rlx_ints){ c[i].pad, 2 * nd });
	a->dilation = op_keep(s, (struct rlx_ints){ c[i].dil, nd });
	geometry(a, &c[i].x, &w, &s->in[1]);
	return true;
}

const struct rlx_op_impl rlx_op_max_pool_grad_impl = {
	.infer = max_pool_grad_infer, .scratch = max_pool_grad_scratch,
	.eval = max_pool_grad_eval, .expand = max_pool_grad_expand,
	.batch = max_pool_grad_batch,
};
RLX_SAMPLES(max_pool_grad, max_pool_grad_sample)
