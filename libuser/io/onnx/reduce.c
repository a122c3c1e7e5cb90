// SPDX-License-Identifier: MIT
/* Reductions, softmax and its kin. */
#include "io/onnx/handlers.h"

rlx_value onnx_reduce(struct onnx_op *q, rlx_value x, struct rlx_ints axes,
		      enum rlx_reduce_kind kind, bool keep)
{
	return E(q, reduce, .x = x, .axes = axes, .kind = kind,
		 .keep_dims = keep);
}

const int onnx_reduce_kinds[] = {
	ONNX_SUM, ONNX_MEAN, ONNX_MAX, ONNX_MIN, ONNX_PROD, ONNX_L1, ONNX_L2,
	ONNX_LOGSUM, ONNX_LOGSUMEXP, ONNX_SUMSQ
};

/* log(sum(exp(x - m))) + m with m the maximum, 0 where that is infinite. */
static rlx_value log_sum_exp(struct onnx_op *q, rlx_value x,
			     struct rlx_ints axes, bool keep)
{
	rlx_value m = onnx_reduce(q, x, axes, RLX_REDUCE_MAX, true), s;

	m = E(q, where, .cond = E(q, is_inf, .x = m),
	      .a = onnx_num(q, onnx_type(q, x).dtype, 0), .b = m);
	s = E(q, exp, .x = E(q, sub, .a = x, .b = m));
	s = E(q, log, .x = onnx_reduce(q, s, axes, RLX_REDUCE_SUM, true));
	s = E(q, add, .a = s, .b = m);
	/* The axes have size 1 now. */
	return keep ? s : onnx_reduce(q, s, axes, RLX_REDUCE_SUM, false);
}

rlx_value onnx_reduce_as(struct onnx_op *q, rlx_value x, struct rlx_ints axes,
			 int kind, bool keep)
{
	switch (kind) {
	case ONNX_L1:
		x = E(q, abs, .x = x);
		return onnx_reduce(q, x, axes, RLX_REDUCE_SUM, keep);
	case ONNX_L2:
		x = E(q, mul, .a = x, .b = x);
		x = onnx_reduce(q, x, axes, RLX_REDUCE_SUM, keep);
		return E(q, sqrt, .x = x);
	case ONNX_SUMSQ:
		x = E(q, mul, .a = x, .b = x);
		return onnx_reduce(q, x, axes, RLX_REDUCE_SUM, keep);
	case ONNX_LOGSUM:
		x = onnx_reduce(q, x, axes, RLX_REDUCE_SUM, keep);
		return E(q, log, .x = x);
	case ONNX_LOGSUMEXP:
		return log_sum_exp(q, x, axes, keep);
	default:
		return onnx_reduce(q, x, axes, (enum rlx_reduce_kind)kind,
				   keep);
	}
}

/* What is left of a reduction over no axes. */
static rlx_value reduce_none(struct onnx_op *q, rlx_value x, int kind)
{
	switch (kind) {
	case ONNX_L1:
	case ONNX_L2:
		return E(q, abs, .x = x);
	case ONNX_SUMSQ:
		return E(q, mul, .a = x, .b = x);
	case ONNX_LOGSUM:
		return E(q, log, .x = x);
	default:
		return x;
	}
}

/* Roots and logarithms of integers, which the standard truncates, are taken of floats. */
static bool goes_by_floats(const struct rlx_type *t, int kind)
{
	return rlx_dtype_is_int(t->dtype) && (kind == ONNX_L2 || kind == ONNX_LOGSUM ||
					      kind == ONNX_LOGSUMEXP);
}

enum rlx_status onnx_do_reduce(struct onnx_op *q)
{
	int kind = *(const int *)q->row->arg;
	bool keep = onnx_attr_i(q, "keepdims", 1), noop;
	struct rlx_ints axes;
	enum rlx_status st;
	struct rlx_type t;
	rlx_value x;

	noop = onnx_attr_i(q, "noop_with_empty_axes", 0);
	st = onnx_list(q, "axes", 1, kind == ONNX_SUM ? 13 : 18, &axes);
	if (st)
		return st;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	if (goes_by_floats(&t, kind))
		x = E(q, cast, .x = x, .to = RLX_F64);
	if (noop && !axes.n)
		x = reduce_none(q, x, kind);
	else
		x = onnx_reduce_as(q, x, axes, kind, keep);
	if (goes_by_floats(&t, kind))
		x = E(q, cast, .x = x, .to = t.dtype);
	onnx_out(q, 0, x);
	return RLX_OK;
}

/*
 * Before opset 13 the dims from the axis on were one: flatten to two dims, and
 * back. Returns the axis to work on.
 */
static enum rlx_status flat_axis(struct onnx_op *q, rlx_value *x,
				 uint32_t *axis, struct rlx_type *t)
{
	int64_t a = onnx_attr_i(q, "axis", q->opset < 13 ? 1 : -1);
	enum rlx_status st;
	int64_t dim[2];

	*x = onnx_in(q, 0);
	*t = onnx_type(q, *x);
	if (q->opset < 13 && a == t->rank) {
		/* Everything before the axis: rows of one element. */
		*x = E(q, reshape, .x = *x, .shape = RLX_INTS(-1, 1));
		*axis = 1;
		return RLX_OK;
	}
	st = onnx_axis(q, a, t->rank, axis);
	if (st || q->opset >= 13 || *axis + 1 == t->rank)
		return st;
	onnx_fold_dims(t, *axis, dim);
	*x = onnx_reshape(q, *x, 2, dim);
	*axis = 1;
	return RLX_OK;
}

/* The row's argument is set for LogSoftmax. */
enum rlx_status onnx_softmax(struct onnx_op *q)
{
	struct rlx_type t;
	enum rlx_status st;
	uint32_t axis;
	rlx_value x;

	st = flat_axis(q, &x, &axis, &t);
	if (st)
		return st;
	if (q->row->arg)
		x = E(q, log_softmax, .x = x, .axis = (int32_t)axis);
	else
		x = E(q, softmax, .x = x, .axis = (int32_t)axis);
	if (onnx_type(q, x).rank != t.rank || q->opset < 13)
		x = onnx_reshape(q, x, t.rank, t.dim);
	onnx_out(q, 0, x);
	return RLX_OK;
}

/* 1 at the first maximum, 0 elsewhere. */
enum rlx_status onnx_hardmax(struct onnx_op *q)
{
	struct rlx_type t, ti = { .dtype = RLX_I64 };
	enum rlx_status st;
	rlx_value x, top;
	uint32_t axis, i;

	st = flat_axis(q, &x, &axis, &t);
	if (st)
		return st;
	top = E(q, arg_reduce, .x = x, .axis = (int32_t)axis,
		.keep_dims = true);
	ti.rank = onnx_type(q, x).rank;
	for (i = 0; i < ti.rank; i++)
		ti.dim[i] = i == axis ? onnx_type(q, x).dim[i] : 1;
	x = E(q, eq, .a = top, .b = E(q, iota, .type = ti,
	      .axis = (int32_t)axis, .start = 0, .step = 1));
	x = E(q, cast, .x = x, .to = t.dtype);
	onnx_out(q, 0, onnx_reshape(q, x, t.rank, t.dim));
	return RLX_OK;
}

/* Over all spatial dims; the row's argument is a kind of reduction. */
enum rlx_status onnx_global_pool(struct onnx_op *q)
{
	int kind = *(const int *)q->row->arg;
	rlx_value x = onnx_in(q, 0);
	struct rlx_type t = onnx_type(q, x);
	int64_t axes[RLX_MAX_RANK];
	struct rlx_ints ax = { axes, 0 };
	uint32_t i;

	for (i = 2; i < t.rank; i++)
		axes[ax.n++] = i;
	if (kind == ONNX_L2 && onnx_attr_i(q, "p", 2) != 2)
		return op_err(q, RLX_ENOSUP, "attribute p other than 2 is not "
			      "supported");
	onnx_out(q, 0, onnx_reduce_as(q, x, ax, kind, true));
	return RLX_OK;
}
