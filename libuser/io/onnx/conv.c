// SPDX-License-Identifier: MIT
/* Convolution and pooling: windows that slide over an image. */
#include "io/onnx/handlers.h"

static int64_t at(struct rlx_ints v, uint32_t i, int64_t dflt)
{
	return i < v.n ? v.v[i] : dflt;
}

enum auto_pad { NOTSET, SAME_UPPER, SAME_LOWER, VALID };

static enum auto_pad auto_pad(struct onnx_op *q)
{
	static const char *const names[] = {
		"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL
	};

	return (enum auto_pad)onnx_attr_enum(q, "auto_pad", names, 0);
}

/* Attributes common to windows; @kernel is used if the node gives none. */
enum rlx_status onnx_slide(struct onnx_op *q, const struct rlx_type *x,
			   const int64_t *kernel, struct onnx_slide *w)
{
	enum auto_pad mode = auto_pad(q);
	uint32_t n, i;

	if (x->rank < 3 || x->rank > 5)
		return op_err(q, RLX_ENOSUP, "input of rank %u: one to three "
			      "spatial dims are supported", x->rank);
	n = x->rank - 2;
	w->stride = onnx_attr_ints(q, "strides");
	w->dilation = onnx_attr_ints(q, "dilations");
	w->kernel = onnx_attr_ints(q, "kernel_shape");
	w->pad = onnx_attr_ints(q, "pads");
	if (!w->kernel.n && kernel)
		w->kernel = (struct rlx_ints){ kernel, n };
	if (w->kernel.n != n || (w->pad.n && w->pad.n != 2 * n) ||
	    (w->stride.n && w->stride.n != n) ||
	    (w->dilation.n && w->dilation.n != n))
		return op_err(q, RLX_ESHAPE, "kernel, strides, dilations or "
			      "pads do not fit %u spatial dims", n);
	if (!onnx_modest(q, w->kernel, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, w->stride, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, w->dilation, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, w->pad, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, (struct rlx_ints){ x->dim, x->rank },
			 ONNX_MOST_DIM))
		return RLX_ERANGE;
	if (mode == NOTSET)
		return RLX_OK;
	for (i = 0; i < n; i++) {
		int64_t s = at(w->stride, i, 1), out, need;

		if (s < 1)
			return op_err(q, RLX_EINVAL, "stride %lld",
				      (long long)s);
		out = (x->dim[2 + i] + s - 1) / s;
		need = (out - 1) * s + 1 - x->dim[2 + i] +
		       (w->kernel.v[i] - 1) * at(w->dilation, i, 1);
		if (need < 0 || mode == VALID)
			need = 0;
		w->pads[i] = mode == SAME_LOWER ? need - need / 2 : need / 2;
		w->pads[n + i] = need - w->pads[i];
	}
	w->pad = (struct rlx_ints){ w->pads, 2 * n };
	return RLX_OK;
}

enum rlx_status onnx_slide_conv(struct onnx_op *q, rlx_value x, rlx_value k,
				struct onnx_slide *w)
{
	struct rlx_type tx = onnx_type(q, x), tw = onnx_type(q, k);

	return onnx_slide(q, &tx, tw.dim + 2, w);
}

enum rlx_status onnx_conv(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), k = onnx_in(q, 1);
	struct onnx_slide w;
	enum rlx_status st = onnx_slide_conv(q, x, k, &w);

	if (st)
		return st;
	onnx_out(q, 0, E(q, conv, .x = x, .w = k, .bias = onnx_in(q, 2),
			 .stride = w.stride, .pad = w.pad,
			 .dilation = w.dilation,
			 .groups = onnx_attr_i(q, "group", 1)));
	return RLX_OK;
}

/* Pads that give the wanted output, or those that auto_pad means. */
static enum rlx_status transpose_pads(struct onnx_op *q,
				      const struct rlx_type *x,
				      const struct rlx_type *k,
				      struct onnx_slide *w,
				      int64_t extra[RLX_MAX_RANK])
{
	int64_t *pads = w->pads;
	struct rlx_ints shape = onnx_attr_ints(q, "output_shape");
	struct rlx_ints given = onnx_attr_ints(q, "pads");
	struct rlx_ints more = onnx_attr_ints(q, "output_padding");
	enum auto_pad mode = auto_pad(q);
	uint32_t n = x->rank - 2, i;

	if (shape.n == x->rank) {
		shape.v += 2;
		shape.n -= 2;
	}
	if ((shape.n && shape.n != n) || (given.n && given.n != 2 * n))
		return op_err(q, RLX_ESHAPE, "output_shape or pads do not fit "
			      "%u spatial dims", n);
	if (!onnx_modest(q, shape, ONNX_MOST_DIM) ||
	    !onnx_modest(q, given, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, more, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, w->stride, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, w->dilation, ONNX_MOST_ATTR) ||
	    !onnx_modest(q, (struct rlx_ints){ x->dim, x->rank },
			 ONNX_MOST_DIM) ||
	    !onnx_modest(q, (struct rlx_ints){ k->dim, k->rank },
			 ONNX_MOST_ATTR))
		return RLX_ERANGE;
	for (i = 0; i < n; i++) {
		int64_t s = at(w->stride, i, 1), total, want;

		extra[i] = at(more, i, 0);
		pads[i] = at(given, i, 0);
		pads[n + i] = at(given, n + i, 0);
		if (mode == VALID)
			pads[i] = pads[n + i] = 0;
		if (!shape.n && (mode == NOTSET || mode == VALID))
			continue;
		want = shape.n ? shape.v[i] : x->dim[2 + i] * s;
		total = s * (x->dim[2 + i] - 1) + extra[i] + 1 - want +
			(k->dim[2 + i] - 1) * at(w->dilation, i, 1);
		/* Too small without pads: the rest is appended. */
		if (total < 0) {
			extra[i] -= total;
			total = 0;
		}
		pads[i] = mode == SAME_UPPER ? total / 2 : total - total / 2;
		pads[n + i] = total - pads[i];
	}
	return RLX_OK;
}

enum rlx_status onnx_conv_transpose(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), k = onnx_in(q, 1);
	struct rlx_type tx = onnx_type(q, x), tw = onnx_type(q, k);
	struct onnx_slide w = { .pad.n = 0 };
	int64_t extra[RLX_MAX_RANK];
	enum rlx_status st;

	w.stride = onnx_attr_ints(q, "strides");
	w.dilation = onnx_attr_ints(q, "dilations");
	onnx_attr_ints(q, "kernel_shape");
	if (tx.rank < 3 || tx.rank > 5 || tw.rank != tx.rank)
		return op_err(q, RLX_ENOSUP, "input of rank %u: one to three "
			      "spatial dims are supported", tx.rank);
	st = transpose_pads(q, &tx, &tw, &w, extra);
	if (st)
		return st;
	onnx_out(q, 0, E(q, conv_transpose, .x = x, .w = k,
			 .bias = onnx_in(q, 2), .stride = w.stride,
			 .pad = { w.pads, 2 * (tx.rank - 2) },
			 .dilation = w.dilation,
			 .output_pad = { extra, tx.rank - 2 },
			 .groups = onnx_attr_i(q, "group", 1)));
	return RLX_OK;
}

/* The row's argument points to an enum rlx_pool_kind. */
enum rlx_status onnx_pool(struct onnx_op *q)
{
	enum rlx_pool_kind kind = *(const enum rlx_pool_kind *)q->row->arg;
	rlx_value x = onnx_in(q, 0), y;
	struct rlx_type t = onnx_type(q, x);
	struct onnx_slide w;
	enum rlx_status st;

	st = onnx_slide(q, &t, NULL, &w);
	if (st)
		return st;
	y = E(q, pool, .x = x, .kind = kind, .kernel = w.kernel,
	      .stride = w.stride, .pad = w.pad, .dilation = w.dilation,
	      .ceil = onnx_attr_i(q, "ceil_mode", 0),
	      .include_pad = onnx_attr_i(q, "count_include_pad", 0),
	      .p = onnx_attr_i32(q, "p", 2),
	      .indices = q->n_out > 1,
	      .column_major = onnx_attr_i(q, "storage_order", 0));
	onnx_out(q, 0, y);
	if (q->n_out > 1)
		onnx_out(q, 1, onnx_nth(q, y, 1));
	return RLX_OK;
}

const enum rlx_pool_kind onnx_pool_kinds[] = {
	RLX_POOL_MAX, RLX_POOL_AVG, RLX_POOL_LP
};
