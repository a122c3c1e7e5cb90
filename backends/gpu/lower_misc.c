// SPDX-License-Identifier: MIT
/* Ops with a kernel of their own, which the CPU has not. */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "kernels/det.h"
#include "kernels/nms.h"
#include "kernels/nonzero.h"
#include "kernels/sortk.h"

static const struct gpu_row det = { "det", "det", rlx_g_det_launch };
static const struct gpu_row nonzero = { "nonzero", "nonzero", rlx_g_nonzero_launch };
static const struct gpu_row nms = { "nms", "nms", rlx_g_nms_launch };

/* Larger ones want the tiles that a product has. */
enum { MOST_ROWS = 4096 };

enum rlx_status gpu_lower_det(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_det *a = rlx_lower_args(lo, sizeof(*a));

	a->n = x->dim[x->rank - 1];
	if (a->n > MOST_ROWS)
		return rlx_lower_unsupported(lo, "the matrices are too large");
	a->batch = rlx_type_count(rlx_lower_out(lo, 0));
	a->type = (uint8_t)x->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return gpu_call_kernel(lo, &det, 0);
}

enum rlx_status gpu_lower_nonzero(struct rlx_lower *lo)
{
	const struct rlx_op_nonzero *op = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_nonzero *a = rlx_lower_args(lo, sizeof(*a));

	a->n = rlx_type_count(x);
	a->count = op->count;
	a->rank = (int)x->rank;
	memcpy(a->dim, x->dim, sizeof(a->dim));
	a->type = (uint8_t)x->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	return gpu_call_kernel(lo, &nonzero, 0);
}

/* Positions of each class's scores, best first. */
static enum rlx_status order_scores(struct rlx_lower *lo, uint64_t order)
{
	const struct rlx_type *s = rlx_lower_in(lo, 1);
	struct rlx_k_topk *a = rlx_lower_args(lo, sizeof(*a));

	a->outer = s->dim[0] * s->dim[1];
	a->n = a->k = s->dim[2];
	a->inner = 1;
	a->type = (uint8_t)s->dtype;
	a->idx_type = RLX_I64;
	rlx_lower_ref_in(lo, &a->x, 1, 0);
	rlx_lower_ref_tmp(lo, &a->idx, order);
	return rlx_lower_call(lo, RLX_KERNEL_topk, 0, 0, 0);
}

/* nms, or nms_count where @count is -1: their other attributes are the same. */
static enum rlx_status lower_nms(struct rlx_lower *lo, const struct rlx_op_nms_count *op,
				 int64_t count)
{
	const struct rlx_type *s = rlx_lower_in(lo, 1);
	int64_t n = rlx_type_count(s);
	uint64_t order = rlx_lower_tmp(lo, (uint64_t)n * sizeof(int64_t));
	struct rlx_k_nms *a;

	if (!n || s->dim[2] > UINT32_MAX / 2)
		return rlx_lower_unsupported(lo, "no boxes, or too many for the sort");
	if (order_scores(lo, order))
		return lo->status;
	a = rlx_lower_args(lo, sizeof(*a));
	a->batch = s->dim[0];
	a->classes = s->dim[1];
	a->n = s->dim[2];
	a->most = op->max_per_class;
	a->count = count;
	a->iou = (double)op->iou;
	a->score = (double)op->score;
	a->use_score = op->use_score;
	a->center = op->center;
	a->only_count = count < 0;
	a->box_type = (uint8_t)rlx_lower_in(lo, 0)->dtype;
	a->score_type = (uint8_t)s->dtype;
	rlx_lower_ref_in(lo, &a->boxes, 0, 0);
	rlx_lower_ref_in(lo, &a->scores, 1, 0);
	rlx_lower_ref_tmp(lo, &a->order, order);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	if (!a->only_count)
		rlx_lower_ref_status(lo, &a->bad);
	return gpu_call_kernel(lo, &nms, 0);
}

enum rlx_status gpu_lower_nms(struct rlx_lower *lo)
{
	const struct rlx_op_nms *op = lo->args;
	struct rlx_op_nms_count a = {
		.max_per_class = op->max_per_class, .iou = op->iou, .score = op->score,
		.use_score = op->use_score, .center = op->center,
	};

	return lower_nms(lo, &a, op->count);
}

enum rlx_status gpu_lower_nms_count(struct rlx_lower *lo)
{
	return lower_nms(lo, lo->args, -1);
}
