// SPDX-License-Identifier: MIT
/* Ops whose output size depends on data: the import waits for the count. */
#include "io/onnx/handlers.h"

enum rlx_status onnx_nonzero(struct onnx_op *q)
{
	enum rlx_status st;
	int64_t n;

	st = onnx_need_value(q, E(q, nonzero_count, .x = onnx_in(q, 0)), &n);
	if (st)
		return st;
	onnx_out(q, 0, E(q, nonzero, .x = onnx_in(q, 0), .count = n));
	return RLX_OK;
}

/* A known condition is a list of indices; what stands behind @len elements is dropped. */
static enum rlx_status compress_known(struct onnx_op *q, rlx_value x,
				      uint32_t axis, int64_t len)
{
	struct onnx_val *c = q->in[1];
	const int64_t *v;
	int64_t *idx;
	uint32_t i, n, k = 0;

	v = onnx_val_ints(q->b, c, &n);
	idx = rlx_bump_new(&q->b->mem, n, sizeof(*idx));
	if (!v || !idx)
		return onnx_nomem(q->b);
	for (i = 0; i < n && i < len; i++)
		if (v[i])
			idx[k++] = i;
	onnx_out(q, 0, E(q, gather, .x = x,
			 .indices = onnx_ints_const(q, idx, k),
			 .axis = (int32_t)axis));
	return RLX_OK;
}

/* The condition without what stands behind @len elements. */
static rlx_value compress_cond(struct onnx_op *q, int64_t len)
{
	rlx_value cond = onnx_in(q, 1);
	struct rlx_type t = onnx_type(q, cond);

	return t.rank == 1 && t.dim[0] > len ? onnx_cut(q, cond, 0, 0, len) : cond;
}

enum rlx_status onnx_compress(struct onnx_op *q)
{
	bool flat = !onnx_has(q, "axis");
	int64_t axis = onnx_attr_i(q, "axis", 0), len, n;
	struct rlx_type t;
	enum rlx_status st;
	rlx_value x;
	uint32_t a = 0;

	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	if (!flat) {
		st = onnx_axis(q, axis, t.rank, &a);
		if (st)
			return st;
	}
	len = flat ? rlx_type_count(&t) : t.dim[a];
	if (onnx_given(q, 1) && q->in[1]->blob) {
		if (flat)
			x = onnx_reshape(q, x, 1, &len);
		return compress_known(q, x, a, len);
	}
	st = onnx_need_value(q, E(q, nonzero_count, .x = compress_cond(q, len)), &n);
	if (st)
		return st;
	/* perhaps in another graph */
	onnx_out(q, 0, E(q, compress, .x = onnx_in(q, 0),
			 .cond = compress_cond(q, len), .axis = (int32_t)a,
			 .flat = flat, .count = n));
	return RLX_OK;
}

enum rlx_status onnx_unique(struct onnx_op *q)
{
	bool flat = !onnx_has(q, "axis");
	bool unsorted = !onnx_attr_i(q, "sorted", 1);
	int32_t axis = onnx_attr_i32(q, "axis", 0);
	enum rlx_status st;
	rlx_value y;
	int64_t n;
	uint32_t i;

	st = onnx_need_value(q, E(q, unique_count, .x = onnx_in(q, 0),
				  .axis = axis, .flat = flat), &n);
	if (st)
		return st;
	y = E(q, unique, .x = onnx_in(q, 0), .axis = axis, .flat = flat,
	      .unsorted = unsorted, .count = n);
	for (i = 0; i < q->n_out && i < 4; i++)
		onnx_out(q, i, onnx_nth(q, y, i));
	return RLX_OK;
}

enum rlx_status onnx_nms(struct onnx_op *q)
{
	bool center = onnx_attr_i(q, "center_point_box", 0);
	const double *iou, *score;
	uint32_t n_iou, n_score;
	enum rlx_status st;
	int64_t max, n;

	st = onnx_int(q, 2, 0, &max);
	if (!st)
		st = onnx_floats(q, 3, &iou, &n_iou);
	if (!st)
		st = onnx_floats(q, 4, &score, &n_score);
	if (!st)
		st = onnx_need_value(q, E(q, nms_count, .boxes = onnx_in(q, 0),
			.scores = onnx_in(q, 1), .max_per_class = max,
			.iou = n_iou ? (float)iou[0] : 0,
			.score = n_score ? (float)score[0] : 0,
			.use_score = n_score, .center = center), &n);
	if (st)
		return st;
	onnx_out(q, 0, E(q, nms, .boxes = onnx_in(q, 0),
			 .scores = onnx_in(q, 1), .max_per_class = max,
			 .iou = n_iou ? (float)iou[0] : 0,
			 .score = n_score ? (float)score[0] : 0,
			 .use_score = n_score, .center = center, .count = n));
	return RLX_OK;
}
