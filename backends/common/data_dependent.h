/* SPDX-License-Identifier: MIT */
/*
 * Ops with data-dependent output shapes, on any device: the arguments of the kernels that
 * nonzero, nms and nms_count call.
 */
#ifndef RLX_BACKENDS_DATA_DEPENDENT_H
#define RLX_BACKENDS_DATA_DEPENDENT_H

#include "backends/common/lower.h"
#include "kernels/nms.h"
#include "kernels/nonzero.h"
#include "kernels/sortk.h"

/* All but where the positions go. */
static inline struct rlx_k_nonzero *rlx_nonzero_args(struct rlx_lower *lo)
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
	rlx_lower_ref_status(lo, &a->bad);
	return a;
}

/* Positions of each class's scores, best first, to temporary memory at @order. */
static inline struct rlx_k_topk *rlx_nms_order_args(struct rlx_lower *lo, uint32_t order)
{
	const struct rlx_type *s = rlx_lower_in(lo, 1);
	struct rlx_k_topk *a = rlx_lower_args(lo, sizeof(*a));

	a->outer = s->dim[0] * s->dim[1];
	a->n = a->k = s->dim[2];
	a->inner = 1;
	a->type = (uint8_t)s->dtype;
	a->idx_type = RLX_I64;
	rlx_lower_ref_in(lo, &a->x, 1, 0);
	rlx_lower_ref_tmp(lo, &a->idx, order, 0);
	return a;
}

/* What to keep, in that order. Where it goes is the caller's to say. */
static inline struct rlx_k_nms *rlx_nms_args(struct rlx_lower *lo, uint32_t order)
{
	bool only_count = lo->st->def->index == RLX_OP_nms_count;
	const struct rlx_op_nms_count *c = lo->args;
	const struct rlx_op_nms *op = lo->args;
	const struct rlx_type *s = rlx_lower_in(lo, 1);
	struct rlx_k_nms *a = rlx_lower_args(lo, sizeof(*a));

	a->batch = s->dim[0];
	a->classes = s->dim[1];
	a->n = s->dim[2];
	a->most = only_count ? c->max_per_class : op->max_per_class;
	a->count = only_count ? -1 : op->count;
	a->iou = (double)(only_count ? c->iou : op->iou);
	a->score = (double)(only_count ? c->score : op->score);
	a->use_score = only_count ? c->use_score : op->use_score;
	a->center = only_count ? c->center : op->center;
	a->only_count = only_count;
	a->box_type = (uint8_t)rlx_lower_in(lo, 0)->dtype;
	a->score_type = (uint8_t)s->dtype;
	rlx_lower_ref_in(lo, &a->boxes, 0, 0);
	rlx_lower_ref_in(lo, &a->scores, 1, 0);
	rlx_lower_ref_tmp(lo, &a->order, order, 0);
	return a;
}

#endif
