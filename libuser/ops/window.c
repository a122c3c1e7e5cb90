// SPDX-License-Identifier: MIT
/* Geometry of sliding windows, and what gradients of them share. */
#include "ops/window.h"

enum rlx_status op_window_check(struct rlx_infer *q, const struct op_window_args *a,
				uint32_t nd)
{
	uint32_t i;

	if ((a->stride.n && a->stride.n != nd) || (a->dilation.n && a->dilation.n != nd) ||
	    (a->pad.n && a->pad.n != 2 * nd))
		return op_fail(q, RLX_EINVAL,
			       "%u strides, %u dilations, %u pads; "
			       "%u spatial dimensions need %u, %u, %u",
			       a->stride.n, a->dilation.n, a->pad.n, nd, nd, nd, 2 * nd);
	for (i = 0; i < a->stride.n; i++)
		if (a->stride.v[i] < 1 || a->stride.v[i] > INT32_MAX)
			return op_fail(q, RLX_EINVAL, "stride %lld is not in 1 to 2^31 - 1",
				       (long long)a->stride.v[i]);
	for (i = 0; i < a->dilation.n; i++)
		if (a->dilation.v[i] < 1 || a->dilation.v[i] > INT32_MAX)
			return op_fail(q, RLX_EINVAL, "dilation %lld is not in 1 to 2^31 - 1",
				       (long long)a->dilation.v[i]);
	for (i = 0; i < a->pad.n; i++)
		if (a->pad.v[i] < 0 || a->pad.v[i] > INT32_MAX)
			return op_fail(q, RLX_EINVAL, "pad %lld is not in 0 to 2^31 - 1",
				       (long long)a->pad.v[i]);
	return RLX_OK;
}

void op_window_set(struct op_window *w, const struct op_window_args *a,
		   const struct rlx_type *x, const int64_t *k, uint32_t nd)
{
	uint32_t i, j;

	*w = (struct op_window){
		.nd = nd, .in = { 1, 1, 1 }, .out = { 1, 1, 1 }, .k = { 1, 1, 1 },
		.stride = { 1, 1, 1 }, .dil = { 1, 1, 1 },
	};
	for (i = 0; i < nd; i++) {
		j = 3 - nd + i;
		w->in[j] = x->dim[2 + i];
		w->k[j] = k[i];
		w->stride[j] = a->stride.n ? a->stride.v[i] : 1;
		w->dil[j] = a->dilation.n ? a->dilation.v[i] : 1;
		w->pad[j] = a->pad.n ? a->pad.v[i] : 0;
		w->pad_end[j] = a->pad.n ? a->pad.v[nd + i] : 0;
	}
}

bool op_window_out(struct op_window *w, bool ceil)
{
	int64_t room, reach;
	uint32_t j;

	for (j = 3 - w->nd; j < 3; j++) {
		if (__builtin_mul_overflow(w->k[j] - 1, w->dil[j], &reach) ||
		    __builtin_add_overflow(w->in[j], w->pad[j] + w->pad_end[j], &room))
			return false;
		room -= reach + 1;
		if (w->k[j] < 1 || reach == INT64_MAX || room < 0)
			return false;
		w->out[j] = room / w->stride[j] + 1;
		/* a last, partial window, unless it starts in the padding behind */
		if (ceil && room % w->stride[j] &&
		    w->out[j] * w->stride[j] < w->in[j] + w->pad[j])
			w->out[j]++;
	}
	return true;
}

int64_t op_window_below(const struct op_window *w, uint32_t j, int64_t at, int64_t limit)
{
	int64_t n = limit > at ? (limit - at + w->dil[j] - 1) / w->dil[j] : 0;

	return n < w->k[j] ? n : w->k[j];
}

static void taps_set(struct op_taps *t)
{
	const struct op_window *w = t->w;
	int64_t p[3];
	uint32_t j;

	for (j = 0; j < 3; j++)
		p[j] = t->at[j] + t->k[j] * w->dil[j];
	t->offset = (p[0] * w->in[1] + p[1]) * w->in[2] + p[2];
}

void op_taps_begin(struct op_taps *t, const struct op_window *w, const int64_t o[3])
{
	uint32_t j;

	*t = (struct op_taps){ .w = w };
	for (j = 0; j < 3; j++) {
		t->at[j] = o[j] * w->stride[j] - w->pad[j];
		t->span[j][0] = t->k[j] = op_window_below(w, j, t->at[j], 0);
		t->span[j][1] = op_window_below(w, j, t->at[j], w->in[j]);
		t->done = t->done || t->span[j][0] >= t->span[j][1];
	}
	if (!t->done)
		taps_set(t);
}

void op_taps_next(struct op_taps *t)
{
	uint32_t j = 3;

	while (j-- > 0 && ++t->k[j] == t->span[j][1])
		t->k[j] = t->span[j][0];
	t->done = j == UINT32_MAX;
	if (!t->done)
		taps_set(t);
}

int64_t op_window_max(const struct op_window *w, const struct rlx_tensor *x, int64_t base,
		      const int64_t o[3])
{
	int64_t best = -1;
	struct op_taps t;

	for (op_taps_begin(&t, w, o); !t.done; op_taps_next(&t))
		if (best < 0 || op_compare(x, base + t.offset, base + best) > 0)
			best = t.offset;
	return best;
}

enum rlx_status op_window_infer(struct rlx_infer *q, const struct op_window_args *a,
				const int64_t *k, struct op_window *w)
{
	uint32_t nd = q->in[0]->rank - 2, i;
	enum rlx_status st = op_window_check(q, a, nd);

	if (st)
		return st;
	for (i = 0; i < nd; i++)
		if (k[i] < 1 || k[i] > INT32_MAX)
			return op_fail(q, RLX_EINVAL, "kernel size %lld is not in 1 to 2^31 - 1",
				       (long long)k[i]);
	op_window_set(w, a, q->in[0], k, nd);
	if (!op_window_out(w, a->ceil))
		return op_fail(q, RLX_ESHAPE,
			       "the kernel is larger than the padded input");
	return RLX_OK;
}

void op_pool_set(struct op_window *w, const struct op_window_args *a, struct rlx_ints kernel,
		 const struct rlx_type *x, struct rlx_type *y)
{
	uint32_t i;

	op_window_set(w, a, x, kernel.v, x->rank - 2);
	op_window_out(w, a->ceil);
	if (!y)
		return;
	*y = *x;
	for (i = 0; i < w->nd; i++)
		y->dim[2 + i] = w->out[3 - w->nd + i];
}

enum rlx_status op_pool_infer(struct rlx_infer *q, const struct op_window_args *a,
			      struct rlx_ints kernel, struct rlx_type *y)
{
	enum rlx_status st;
	struct op_window w;

	if (kernel.n != q->in[0]->rank - 2)
		return op_fail(q, RLX_EINVAL, "%u kernel sizes for %u spatial dimensions",
			       kernel.n, q->in[0]->rank - 2);
	st = op_window_infer(q, a, kernel.v, &w);
	if (!st)
		op_pool_set(&w, a, kernel, q->in[0], y);
	return st;
}

enum rlx_status op_conv_infer(struct rlx_infer *q, const struct op_window_args *a,
			      int64_t groups, struct op_conv *c, struct rlx_type *y)
{
	const struct rlx_type *x = q->in[0], *w = q->in[1];
	enum rlx_status st = op_need_rank(q, 0, 3, 5);
	uint32_t i;

	if (!st)
		st = op_need_rank(q, 1, x->rank, x->rank);
	if (st)
		return st;
	if (groups < 1 || w->dim[0] % groups || x->dim[1] % groups)
		return op_fail(q, RLX_ESHAPE,
			       "%lld input and %lld output channels do not split into %lld groups",
			       (long long)x->dim[1], (long long)w->dim[0], (long long)groups);
	if (x->dim[1] / groups != w->dim[1])
		return op_fail(q, RLX_ESHAPE,
			       "x has %lld channels in %lld groups, the weight takes %lld a group",
			       (long long)x->dim[1], (long long)groups, (long long)w->dim[1]);
	st = op_window_infer(q, a, w->dim + 2, &c->w);
	if (st)
		return st;
	y->rank = x->rank;
	y->dim[0] = x->dim[0];
	y->dim[1] = w->dim[0];
	for (i = 0; i < c->w.nd; i++)
		y->dim[2 + i] = c->w.out[3 - c->w.nd + i];
	return RLX_OK;
}

void op_conv_set(struct op_conv *c, const struct op_window_args *a, int64_t groups,
		 const struct rlx_type *x, const struct rlx_type *w,
		 const struct rlx_type *y)
{
	uint32_t i;

	op_window_set(&c->w, a, x, w->dim + 2, x->rank - 2);
	for (i = 0; i < c->w.nd; i++)
		c->w.out[3 - c->w.nd + i] = y->dim[2 + i];
	c->n = x->dim[0];
	c->ci = x->dim[1];
	c->co = y->dim[1];
	c->groups = groups;
}

static rlx_value swap_two(struct rlx_graph *g, rlx_value x)
{
	int64_t perm[RLX_MAX_RANK] = { 1, 0, 2, 3, 4, 5, 6, 7 };

	return rlx_emit(g, transpose, .x = x, .perm = { perm, op_type(g, x).rank });
}

/* [N, C, ..] as [C / groups, groups N, ..]: channels become the batch. */
static rlx_value channels_first(struct rlx_graph *g, rlx_value x, int64_t groups)
{
	struct rlx_type t = op_type(g, x), r = t;
	int64_t n = t.dim[0], per = t.dim[1] / groups, sp = shape_span(&t, 2, t.rank);

	if (groups == 1)
		return swap_two(g, x);
	x = op_reshape(g, x, (int64_t[]){ n, groups, per, sp }, 4);
	x = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(2, 1, 0, 3));
	r.dim[0] = per;
	r.dim[1] = groups * n;
	return op_reshape(g, x, r.dim, r.rank);
}

/*
 * @big without what no window of @w reaches, whose padding behind becomes less or none; where a
 * window is one element, only what they cover, so that their stride becomes 1.
 */
static rlx_value reached(struct rlx_graph *g, rlx_value big, struct op_window *w)
{
	int64_t axes[3] = { 2, 3, 4 }, starts[3] = { 0 }, ends[3], steps[3], reach, pad;
	uint32_t j = 3 - w->nd, i;

	for (i = 0; i < w->nd; i++, j++) {
		steps[i] = w->k[j] == 1 && !w->pad[j] ? w->stride[j] : 1;
		reach = (w->out[j] - 1) * w->stride[j] + (w->k[j] - 1) * w->dil[j] + 1 - w->pad[j];
		pad = reach - w->in[j];
		w->pad_end[j] = pad > 0 ? pad : 0;
		ends[i] = pad > 0 ? w->in[j] : reach > 0 ? reach : 1;
		w->stride[j] /= steps[i];
	}
	return rlx_emit(g, slice, .x = big, .axes = { axes, w->nd }, .starts = { starts, w->nd },
			.ends = { ends, w->nd }, .steps = { steps, w->nd });
}

/*
 * The weight's gradient is itself a convolution: channels play the batch, the
 * small operand is the kernel, stride and dilation change places. It may reach further than the
 * kernel where all windows lie in the padding; that part is cut off.
 */
rlx_value op_conv_weight_grad(struct rlx_graph *g, rlx_value big, rlx_value small,
			      const struct rlx_type *w, int64_t groups,
			      const struct op_window_args *a)
{
	struct rlx_type t = op_type(g, big), s = op_type(g, small);
	int64_t axes[3] = { 2, 3, 4 }, zero[3] = { 0 }, pad[6];
	uint32_t nd = w->rank - 2, j = 3 - nd, i;
	struct op_window win;

	op_window_set(&win, a, &t, w->dim + 2, nd);
	for (i = 0; i < nd; i++)
		win.out[j + i] = s.dim[2 + i];
	big = reached(g, big, &win);
	for (i = 0; i < nd; i++) {
		pad[i] = win.pad[j + i];
		pad[nd + i] = win.pad_end[j + i];
	}
	big = rlx_emit(g, conv, .x = channels_first(g, big, groups), .w = swap_two(g, small),
		       .stride = { win.dil + j, nd }, .dilation = { win.stride + j, nd },
		       .pad = { pad, 2 * nd }, .groups = groups);
	/* [Cs, Cb / groups, ..] */
	return rlx_emit(g, slice, .x = swap_two(g, big), .axes = { axes, nd },
			.starts = { zero, nd }, .ends = { w->dim + 2, nd });
}

rlx_value op_conv_bias_grad(struct rlx_graph *g, rlx_value dy)
{
	struct rlx_type y = op_type(g, dy);
	int64_t lines[3] = { y.dim[0], y.dim[1], shape_span(&y, 2, y.rank) };

	return rlx_emit(g, reduce, .x = op_reshape(g, dy, lines, 3),
			.axes = RLX_INTS(0, 2));
}

rlx_value op_window_spread(struct rlx_graph *g, rlx_value dy,
			   const struct op_window *w)
{
	struct rlx_type t = op_type(g, dy), one = { .dtype = t.dtype, .rank = 2 + w->nd };
	int64_t dim[RLX_MAX_RANK] = { 0 }, pads[2 * RLX_MAX_RANK] = { 0 };
	uint32_t j = 3 - w->nd, i;
	int64_t full;

	one.dim[0] = one.dim[1] = 1;
	dim[0] = t.dim[0] * t.dim[1];
	dim[1] = 1;
	for (i = 0; i < w->nd; i++) {
		one.dim[2 + i] = w->k[j + i];
		dim[2 + i] = w->out[j + i];
		full = (w->out[j + i] - 1) * w->stride[j + i] +
		       (w->k[j + i] - 1) * w->dil[j + i] + 1;
		pads[2 + i] = -w->pad[j + i];
		pads[t.rank + 2 + i] = w->in[j + i] + w->pad[j + i] - full;
	}
	dy = op_reshape(g, dy, dim, t.rank);
	dy = rlx_emit(g, conv_transpose, .x = dy, .w = op_fill(g, &one, 1),
		      .stride = { w->stride + j, w->nd },
		      .dilation = { w->dil + j, w->nd });
	dy = rlx_emit(g, pad, .x = dy, .pads = { pads, 2 * t.rank });
	for (i = 0; i < w->nd; i++)
		t.dim[2 + i] = w->in[j + i];
	return op_reshape(g, dy, t.dim, t.rank);
}
