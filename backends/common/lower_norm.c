// SPDX-License-Identifier: MIT
/* Norms, softmax and reductions. */
#include <string.h>

#include "backends/common/norm_grad.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"
#include "kernels/type.h"

/* gamma, beta or bias at input @k, if it is there: support.c has seen to its form. */
static void take_param(struct rlx_lower *lo, uint32_t k, void *field, uint8_t *type)
{
	if (!rlx_lower_in(lo, k))
		return;
	*type = (uint8_t)rlx_lower_in(lo, k)->dtype;
	rlx_lower_ref_in(lo, field, k, 0);
}

/* The kernel over rows of @n; residual and sum are set by the caller before. */
static enum rlx_status call_norm(struct rlx_lower *lo, struct rlx_k_norm *a)
{
	if (!a->param_type)
		a->param_type = RLX_F32;
	if (!a->residual_type)
		a->residual_type = a->x_type;
	rlx_lower_extent(lo, a->rows, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_norm, (uint64_t)a->rows,
			      (double)a->rows * (double)a->n * 3, rlx_k_norm_scratch(a));
}

static enum rlx_status last_axis_norm(struct rlx_lower *lo, int64_t axis, float eps,
				      bool rms)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_norm *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(axis, x->rank);

	a->rows = shape_span(x, 0, ax);
	a->n = shape_span(x, ax, x->rank);
	a->eps = eps;
	a->rms = rms;
	a->x_type = a->y_type = (uint8_t)x->dtype;
	if (!a->rows || !a->n)
		return a->rows ? rlx_lower_unsupported(lo, "the mean of nothing") : lo->status;
	take_param(lo, 1, &a->gamma, &a->param_type);
	take_param(lo, 2, &a->beta, &a->param_type);
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	if (lo->st->n_out == 3 && rlx_lower_out_is_read(lo, 1))
		rlx_lower_ref_out(lo, &a->mean, 1, 0);
	if (lo->st->n_out == 3 && rlx_lower_out_is_read(lo, 2))
		rlx_lower_ref_out(lo, &a->inv, 2, 0);
	return call_norm(lo, a);
}

enum rlx_status rlx_lower_layer_norm(struct rlx_lower *lo)
{
	const struct rlx_op_layer_norm *n = lo->args;

	return last_axis_norm(lo, n->axis, n->eps, false);
}

enum rlx_status rlx_lower_rms_norm(struct rlx_lower *lo)
{
	const struct rlx_op_rms_norm *n = lo->args;

	return last_axis_norm(lo, n->axis, n->eps, true);
}

enum rlx_status rlx_lower_fused_residual_norm(struct rlx_lower *lo)
{
	const struct rlx_op_fused_residual_norm *n = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *r = rlx_lower_in(lo, 1);
	struct rlx_k_norm *a = rlx_lower_args(lo, sizeof(*a));

	a->n = x->dim[x->rank - 1];
	a->rows = shape_span(x, 0, x->rank - 1);
	a->eps = n->eps;
	a->rms = n->kind == RLX_NORM_RMS;
	a->x_type = a->y_type = (uint8_t)x->dtype;
	a->residual_type = (uint8_t)r->dtype;
	a->residual_stride = rlx_type_count(r) == rlx_type_count(x) ? a->n : 0;
	take_param(lo, 2, &a->bias, &a->param_type);
	take_param(lo, 3, &a->gamma, &a->param_type);
	take_param(lo, 4, &a->beta, &a->param_type);
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->residual, 1, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	if (rlx_lower_out_is_read(lo, 1))
		rlx_lower_ref_out(lo, &a->sum, 1, 0);
	return call_norm(lo, a);
}

/* mean and inv, a number a row each; false: not in f32 */
static bool take_stats(struct rlx_lower *lo, struct rlx_k_norm_grad *a)
{
	enum { MEAN = 3, INV };

	if (rlx_lower_in(lo, MEAN)->dtype != RLX_F32 || rlx_lower_in(lo, INV)->dtype != RLX_F32)
		return false;
	rlx_lower_ref_in(lo, &a->mean, MEAN, 0);
	rlx_lower_ref_in(lo, &a->inv, INV, 0);
	return true;
}

struct rlx_k_norm_grad *rlx_lower_norm_grad_args(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *dy = rlx_lower_in(lo, 1);
	const struct rlx_type *gamma = rlx_lower_in(lo, 2);
	const struct rlx_op_rms_norm_grad *rms = lo->args;
	struct rlx_k_norm_grad *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax;

	a->rms = lo->st->def->index == RLX_OP_rms_norm_grad;
	a->eps = a->rms ? rms->eps : 0;
	ax = shape_axis(a->rms ? rms->axis :
			((const struct rlx_op_layer_norm_grad *)lo->args)->axis, x->rank);
	a->rows = shape_span(x, 0, ax);
	a->n = shape_span(x, ax, x->rank);
	a->x_type = (uint8_t)x->dtype;
	a->dy_type = (uint8_t)dy->dtype;
	a->param_type = RLX_F32;
	take_param(lo, 2, &a->gamma, &a->param_type);
	if (!a->rows || !a->n || !rlx_lower_real(x->dtype) || !rlx_lower_real(dy->dtype) ||
	    (gamma && (!rlx_lower_real(gamma->dtype) || rlx_type_count(gamma) != a->n)) ||
	    (!a->rms && !take_stats(lo, a))) {
		rlx_lower_unsupported(lo, "no kernel for these dtypes, this broadcasting or no "
				      "rows");
		return NULL;
	}
	a->block = rlx_k_norm_grad_block(a->rows, a->n);
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->dy, 1, 0);
	rlx_lower_ref_out(lo, &a->dx, 0, 0);
	if (rlx_lower_out_is_read(lo, 1))
		rlx_lower_ref_out(lo, &a->dgamma, 1, 0);
	if (rlx_lower_out_is_read(lo, 2))
		rlx_lower_ref_out(lo, &a->dbeta, 2, 0);
	return a;
}

enum rlx_status rlx_lower_group_norm(struct rlx_lower *lo)
{
	const struct rlx_op_group_norm *n = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_group_norm *a = rlx_lower_args(lo, sizeof(*a));

	a->batch = x->dim[0];
	a->channels = x->dim[1];
	a->inner = shape_span(x, 2, x->rank);
	a->groups = n->groups;
	a->eps = n->eps;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->gamma, 1, 0);
	rlx_lower_ref_in(lo, &a->beta, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_extent(lo, a->batch, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_group_norm, (uint64_t)(a->batch * a->groups),
			      (double)rlx_type_count(x) * 3, 0);
}

enum rlx_status rlx_lower_lrn(struct rlx_lower *lo)
{
	const struct rlx_op_lrn *n = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_lrn *a = rlx_lower_args(lo, sizeof(*a));

	a->batch = x->dim[0];
	a->channels = x->dim[1];
	a->inner = shape_span(x, 2, x->rank);
	a->size = n->size;
	a->alpha = n->alpha;
	a->beta = n->beta;
	a->bias = n->bias;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_lrn, rlx_k_lrn_units(a),
			      (double)rlx_type_count(x) * 16, RLX_K_LRN_BLOCK * sizeof(float));
}

enum rlx_status rlx_lower_softmax(struct rlx_lower *lo)
{
	const struct rlx_op_softmax *s = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_softmax *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(s->axis, x->rank);

	if (!rlx_lower_real(x->dtype) && x->dtype != RLX_F64)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	a->outer = shape_span(x, 0, ax);
	a->n = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->x_type = a->y_type = (uint8_t)x->dtype;
	a->log = lo->st->def->index == RLX_OP_log_softmax;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	if (ax)
		rlx_lower_extent(lo, a->outer, NULL);
	if (x->dtype == RLX_F64)
		return rlx_lower_call(lo, RLX_KERNEL_softmax_f64, (uint64_t)(a->outer * a->inner),
				      (double)rlx_type_count(x) * 20, 0);
	return rlx_lower_call(lo, RLX_KERNEL_softmax, rlx_k_softmax_units(a),
			      (double)rlx_type_count(x) * 4, rlx_k_softmax_scratch(a));
}

/* struct rlx_op_log_softmax has the same member in the same place. */
enum rlx_status rlx_lower_log_softmax(struct rlx_lower *lo)
{
	return rlx_lower_softmax(lo);
}

enum rlx_status rlx_lower_reduction(struct rlx_lower *lo, struct rlx_ints axes, int32_t kind,
				    bool squares)
{
	static const uint8_t ops[RLX_REDUCE_COUNT] = {
		[RLX_REDUCE_SUM] = RLX_K_REDUCE_SUM, [RLX_REDUCE_MEAN] = RLX_K_REDUCE_MEAN,
		[RLX_REDUCE_MAX] = RLX_K_REDUCE_MAX, [RLX_REDUCE_MIN] = RLX_K_REDUCE_MIN,
		[RLX_REDUCE_PROD] = RLX_K_REDUCE_PROD,
	};
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_reduce *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t i;

	if (x->dtype == RLX_C64 || !rlx_type_count(x))
		return rlx_lower_unsupported(lo, "no kernel for this dtype or for nothing");
	a->rank = (int)x->rank;
	memcpy(a->dim, x->dim, sizeof(a->dim));
	for (i = 0; i < axes.n; i++)
		a->axes |= 1u << shape_axis(axes.v[i], x->rank);
	if (!axes.n)
		a->axes = (1u << x->rank) - 1;
	a->op = ops[kind];
	a->type = (uint8_t)x->dtype;
	a->squares = squares;
	a->strict = lo->strict;
	rlx_k_reduce_plan(a);
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->by, 1, 0);
	rlx_lower_ref_in(lo, &a->centre, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	if (lo->st->n_out > 1)
		rlx_lower_ref_out(lo, &a->by_sum, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_reduce, rlx_k_reduce_units(a),
			      (double)rlx_type_count(x), RLX_K_REDUCE_SCRATCH);
}

enum rlx_status rlx_lower_reduce(struct rlx_lower *lo)
{
	const struct rlx_op_reduce *r = lo->args;

	return rlx_lower_reduction(lo, r->axes, r->kind, false);
}

enum rlx_status rlx_lower_arg_reduce(struct rlx_lower *lo)
{
	const struct rlx_op_arg_reduce *r = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_argreduce *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(r->axis, x->rank);

	a->outer = shape_span(x, 0, ax);
	a->n = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->type = (uint8_t)x->dtype;
	a->idx_type = RLX_I64;
	a->min = r->min;
	a->last = r->last_index;
	if (x->dtype == RLX_C64)
		return rlx_lower_unsupported(lo, "no kernel for this dtype");
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->idx, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_argreduce, rlx_k_argreduce_units(a),
			      (double)rlx_type_count(x) * 2, RLX_K_REDUCE_SCRATCH);
}

static enum rlx_status lower_scan(struct rlx_lower *lo, struct rlx_k_scan set, int64_t axis)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_scan *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(axis, x->rank);

	*a = set;
	a->outer = shape_span(x, 0, ax);
	a->n = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->type = (uint8_t)x->dtype;
	a->strict = lo->strict;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_scan, rlx_k_scan_units(a),
			      (double)rlx_type_count(x), RLX_K_REDUCE_SCRATCH);
}

enum rlx_status rlx_lower_cumsum(struct rlx_lower *lo)
{
	const struct rlx_op_cumsum *c = lo->args;

	return lower_scan(lo, (struct rlx_k_scan){ .exclusive = c->exclusive,
						   .reverse = c->reverse }, c->axis);
}

enum rlx_status rlx_lower_cumprod(struct rlx_lower *lo)
{
	const struct rlx_op_cumprod *c = lo->args;

	return lower_scan(lo, (struct rlx_k_scan){ .prod = true, .exclusive = c->exclusive,
						   .reverse = c->reverse }, c->axis);
}
