// SPDX-License-Identifier: MIT
/* A convolution's windows as the rows of a matrix. */
#include "base/alloc.h"
#include "ops/batch.h"
#include "ops/emit.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, c, in..], 1 to 3 spatial dimensions -> y[n out.., c kernel..]
 * Dtypes:	any; y as x
 * Does:	a row for each position of the window, images first; in it the elements that the
 *		window covers, channels first, 0 where it reaches beyond x. y times w[co, c
 *		kernel..] transposed is the convolution. stride and dilation are 1 and
 *		pad is 0 if not given; pad is as conv's.
 * Errors:	RLX_ESHAPE where the window does not fit; RLX_EINVAL for lists of other lengths.
 * Gradient:	dy added up where windows overlap (col2im)
 * Source:	torch.nn.functional.unfold, transposed
 */
RLX_OP(im2col, "windows of x[n, c, ..] as rows of [n out.., c kernel..]",
	IN(x)
	ATTR(ints, kernel)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation),
	RLX_T_MOVE)

static struct op_window_args window_args(const struct rlx_op_im2col *a)
{
	return (struct op_window_args){ a->stride, a->pad, a->dilation, false };
}

static enum rlx_status im2col_infer(struct rlx_infer *q)
{
	const struct rlx_op_im2col *a = q->args;
	const struct op_window_args wa = window_args(a);
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_rank(q, 0, 3, 5);
	struct op_window w;
	uint32_t i;

	if (!st && a->kernel.n != x->rank - 2)
		st = op_fail(q, RLX_EINVAL, "kernel has %u sizes, x %u spatial dimensions",
			     (unsigned int)a->kernel.n, x->rank - 2);
	for (i = 0; !st && i < a->kernel.n; i++)
		if (a->kernel.v[i] < 1)
			st = op_fail(q, RLX_EINVAL, "kernel[%u] is %lld", i,
				     (long long)a->kernel.v[i]);
	if (!st)
		st = op_window_infer(q, &wa, a->kernel.v, &w);
	if (st)
		return st;
	q->out[0] = rlx_type(x->dtype, x->dim[0], x->dim[1]);
	for (i = 0; i < 3; i++)
		if (__builtin_mul_overflow(q->out[0].dim[0], w.out[i], &q->out[0].dim[0]) ||
		    __builtin_mul_overflow(q->out[0].dim[1], w.k[i], &q->out[0].dim[1]))
			return op_fail(q, RLX_ESHAPE, "the windows are too many to count");
	return RLX_OK;
}

static enum rlx_status im2col_eval(struct rlx_eval *q)
{
	const struct rlx_op_im2col *a = q->args;
	const struct op_window_args wa = window_args(a);
	const struct rlx_type *x = &q->in[0].type;
	int64_t count = rlx_type_count(&q->out[0].type), i, r, from, at, inside;
	struct op_window w;
	int k;

	op_window_set(&w, &wa, x, a->kernel.v, x->rank - 2);
	op_window_out(&w, false);
	for (i = 0; i < count; i++) {
		int64_t tap[3], o[3], ch;

		for (r = i, k = 3; k--; r /= w.k[k])
			tap[k] = r % w.k[k];
		ch = r % x->dim[1];
		for (r /= x->dim[1], k = 3; k--; r /= w.out[k])
			o[k] = r % w.out[k];
		for (from = r * x->dim[1] + ch, inside = 1, k = 0; k < 3; k++) {
			at = o[k] * w.stride[k] - w.pad[k] + tap[k] * w.dil[k];
			inside &= at >= 0 && at < w.in[k];
			from = from * w.in[k] + at;
		}
		if (inside)
			el_copy(&q->out[0], i, &q->in[0], from);
		else
			el_set(&q->out[0], i, 0);
	}
	return RLX_OK;
}

/*
 * Does what windows never read outnumber x and what they do read by far? Padding of 2^31 would be
 * written out, and with 4096 more or less that costs nothing.
 */
static bool is_sparse(const struct op_window *w, uint32_t j)
{
	return (double)w->pad[j] + (double)w->pad_end[j] + (double)w->in[j] >
	       4 * ((double)w->out[j] * (double)w->k[j] + (double)w->in[j]) + 4096;
}

/* The windows along spatial dimension @j, which is @x's @axis; a 0 behind it is all padding. */
static rlx_value pick(struct rlx_graph *g, rlx_value x, uint32_t axis, const struct op_window *w,
		      uint32_t j)
{
	int64_t n = w->out[j] * w->k[j], *at = rlx_calloc((size_t)n + 1, sizeof(*at)), i, p;
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };
	uint32_t rank = op_type(g, x).rank;
	rlx_value v;

	if (!at) {
		rlx_graph_fail(g, RLX_ENOMEM, "im2col: out of memory");
		return RLX_NONE;
	}
	for (i = 0; i < n; i++) {
		p = i / w->k[j] * w->stride[j] - w->pad[j] + i % w->k[j] * w->dil[j];
		at[i] = p >= 0 && p < w->in[j] ? p : w->in[j];
	}
	v = op_reshape(g, op_i64_const(g, at, n), (int64_t[]){ w->out[j], w->k[j] }, 2);
	rlx_free(at);
	pads[rank + axis] = 1;
	x = rlx_emit(g, pad, .x = x, .pads = { pads, 2 * rank });
	return rlx_emit(g, gather, .x = x, .indices = v, .axis = (int32_t)axis);
}

/* Frames along each dimension, and of their elements every dilation-th. */
static enum rlx_status im2col_expand(struct rlx_expand *q)
{
	const struct rlx_op_im2col *a = q->args;
	const struct op_window_args wa = window_args(a);
	struct rlx_type t = op_type(q->g, q->in[0]);
	uint32_t nd = t.rank - 2, i;
	int64_t pads[10] = { 0 }, perm[8], any = 0;
	struct op_window w;
	rlx_value x = q->in[0];

	if (!rlx_type_count(q->out_type)) {
		q->out[0] = op_fill(q->g, q->out_type, 0);
		return op_done(q->g);
	}
	op_window_set(&w, &wa, &t, a->kernel.v, nd);
	op_window_out(&w, false);
	for (i = 0; i < nd; i++) {
		if (is_sparse(&w, 3 - nd + i))
			continue;
		pads[2 + i] = w.pad[3 - nd + i];
		pads[t.rank + 2 + i] = w.pad_end[3 - nd + i];
		any |= pads[2 + i] | pads[t.rank + 2 + i];
	}
	if (any)
		x = rlx_emit(q->g, pad, .x = x, .pads = { pads, 2 * t.rank });
	for (i = 0; i < nd; i++) {
		int64_t k = w.k[3 - nd + i], d = w.dil[3 - nd + i];

		perm[1 + i] = 2 + 2 * i;
		perm[2 + nd + i] = 3 + 2 * i;
		if (is_sparse(&w, 3 - nd + i)) {
			x = pick(q->g, x, 2 + 2 * i, &w, 3 - nd + i);
			continue;
		}
		x = rlx_emit(q->g, frame, .x = x, .axis = (int32_t)(2 + 2 * i),
			     .length = (k - 1) * d + 1, .hop = w.stride[3 - nd + i]);
		if (d > 1)
			x = rlx_emit(q->g, slice, .x = x, .axes = RLX_INTS(3 + 2 * i),
				     .starts = RLX_INTS(0), .ends = RLX_INTS((k - 1) * d + 1),
				     .steps = RLX_INTS(d));
	}
	perm[0] = 0;
	perm[1 + nd] = 1;
	x = op_transpose(q->g, x, (struct rlx_ints){ perm, 2 + 2 * nd });
	q->out[0] = op_reshape(q->g, x, q->out_type->dim, 2);
	return op_done(q->g);
}

static bool im2col_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_im2col *a = s->args;

	s->n_in = 1;
	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_F32, 2, 3, 7, 5);
		a->kernel = op_keep(s, RLX_INTS(3, 2));
		return true;
	case 1:		/* more behind than in front */
		s->in[0] = rlx_type(RLX_F32, 1, 4, 9, 8);
		a->kernel = op_keep(s, RLX_INTS(3, 3));
		a->stride = op_keep(s, RLX_INTS(2, 1));
		a->pad = op_keep(s, RLX_INTS(1, 0, 2, 1));
		a->dilation = op_keep(s, RLX_INTS(1, 2));
		return true;
	case 2:
		s->in[0] = rlx_type(RLX_I32, 3, 2, 11);
		a->kernel = op_keep(s, RLX_INTS(4));
		a->stride = op_keep(s, RLX_INTS(3));
		return true;
	case 3:
		s->in[0] = rlx_type(RLX_F32, 1, 2, 4, 3, 5);
		a->kernel = op_keep(s, RLX_INTS(2, 3, 2));
		a->pad = op_keep(s, RLX_INTS(0, 1, 0, 1, 1, 0));
		return true;
	case 4:
		s->in[0] = rlx_type(RLX_F32, 0, 2, 4, 4);
		a->kernel = op_keep(s, RLX_INTS(2, 2));
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_im2col_impl = {
	.infer = im2col_infer, .eval = im2col_eval, .expand = im2col_expand,
	.batch = op_batch_examples,
};
RLX_SAMPLES(im2col, im2col_sample)
