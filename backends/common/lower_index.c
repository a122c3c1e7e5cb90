// SPDX-License-Identifier: MIT
/* Order and position: top-k, sorting, counting, rope, random numbers. */
#include <string.h>

#include "backends/common/lower.h"
#include "kernels/move.h"
#include "kernels/random.h"
#include "kernels/rope.h"
#include "kernels/sortk.h"
#include "ops/defaults.h"

/* The @k first of axis @axis in order; k of all of them sorts. */
static enum rlx_status lower_topk(struct rlx_lower *lo, int64_t axis, int64_t k, bool smallest)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_topk *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(axis, x->rank);

	if (x->dtype == RLX_C64 || x->dim[ax] > UINT32_MAX / 2)
		return rlx_lower_unsupported(lo, "no kernel for this dtype or so long an axis");
	if (!rlx_type_count(rlx_lower_out(lo, 0)))
		return lo->status;
	a->outer = shape_span(x, 0, ax);
	a->n = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->k = k;
	a->type = (uint8_t)x->dtype;
	a->idx_type = RLX_I64;
	a->smallest = smallest;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->values, 0, 0);
	rlx_lower_ref_out(lo, &a->idx, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_topk, (uint64_t)(a->outer * a->inner),
			      (double)rlx_type_count(x) * 8, rlx_k_topk_scratch(a));
}

enum rlx_status rlx_lower_topk(struct rlx_lower *lo)
{
	const struct rlx_op_topk *t = lo->args;

	return lower_topk(lo, t->axis, t->k, t->smallest);
}

enum rlx_status rlx_lower_sort(struct rlx_lower *lo)
{
	const struct rlx_op_sort *s = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	return lower_topk(lo, s->axis, x->dim[shape_axis(s->axis, x->rank)], !s->descending);
}

/* Copy into output 0 from a temporary or, with @k, from element @at of that input. */
struct fill {
	uint32_t	tmp;
	int		k;		/* -1: the temporary */
	int64_t		at;
	int64_t		dim[3], src[3];	/* strides of the source */
};

static enum rlx_status fill_output(struct rlx_lower *lo, const struct fill *f)
{
	size_t size = rlx_dtype_size(rlx_lower_out(lo, 0)->dtype);
	struct rlx_k_copy *c = rlx_lower_args(lo, sizeof(*c));
	int64_t n = f->dim[0] * f->dim[1] * f->dim[2];

	c->rank = 3;
	memcpy(c->dim, f->dim, sizeof(f->dim));
	memcpy(c->src_stride, f->src, sizeof(f->src));
	c->dst_stride[0] = f->dim[1] * f->dim[2];
	c->dst_stride[1] = f->dim[2];
	c->dst_stride[2] = 1;
	c->size = (uint8_t)size;
	rlx_k_copy_plan(c);
	if (f->k < 0)
		rlx_lower_ref_tmp(lo, &c->src, f->tmp, 0);
	else
		rlx_lower_ref_in(lo, &c->src, (uint32_t)f->k, (uint64_t)f->at * size);
	rlx_lower_ref_out(lo, &c->dst, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(c), (double)n, 0);
}

enum rlx_status rlx_lower_iota(struct rlx_lower *lo)
{
	const struct rlx_op_iota *i = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_iota *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = y->rank ? shape_axis(i->axis, y->rank) : 0;
	struct fill f = { .k = -1 };

	if (!rlx_type_count(y))
		return lo->status;
	a->n = y->rank ? y->dim[ax] : 1;
	a->start = i->start;
	a->step = i->step;
	if (!rlx_dtype_is_float(y->dtype)) {
		a->istart = (int64_t)i->start;
		a->istep = (int64_t)i->step;
	}
	a->type = (uint8_t)y->dtype;
	f.dim[0] = y->rank ? shape_span(y, 0, ax) : 1;
	f.dim[1] = a->n;
	f.dim[2] = y->rank ? shape_span(y, ax + 1, y->rank) : 1;
	f.src[1] = 1;
	if (f.dim[0] * f.dim[2] == 1) {
		rlx_lower_ref_out(lo, &a->dst, 0, 0);
	} else {
		f.tmp = rlx_lower_tmp(lo, (uint64_t)a->n * rlx_dtype_size(y->dtype));
		rlx_lower_ref_tmp(lo, &a->dst, f.tmp, 0);
	}
	if (rlx_lower_call(lo, RLX_KERNEL_iota,
			   (uint64_t)(a->n + RLX_K_IOTA_BLOCK - 1) / RLX_K_IOTA_BLOCK,
			   (double)a->n, 0) || f.dim[0] * f.dim[2] == 1)
		return lo->status;
	return fill_output(lo, &f);
}

/* All off, then the on value at each index; one out of range changes nothing. */
enum rlx_status rlx_lower_one_hot(struct rlx_lower *lo)
{
	const struct rlx_op_one_hot *h = lo->args;
	const struct rlx_type *idx = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	int64_t n = rlx_type_count(idx), own[RLX_MAX_RANK], in[RLX_MAX_RANK];
	struct fill all = { .k = 1, .dim = { 1, 1, rlx_type_count(y) } };
	struct rlx_k_scatter_elements *a;
	struct rlx_k_copy *c;
	uint32_t upd, bad;
	uint32_t ax = shape_axis(h->axis, y->rank);
	size_t size = rlx_dtype_size(y->dtype);

	if (!rlx_type_count(y))
		return lo->status;
	fill_output(lo, &all);
	upd = rlx_lower_tmp(lo, (uint64_t)n * size);
	bad = rlx_lower_tmp(lo, sizeof(int32_t));
	c = rlx_lower_args(lo, sizeof(*c));
	c->rank = 1;
	c->dim[0] = n;
	c->dst_stride[0] = 1;
	c->size = (uint8_t)size;
	rlx_k_copy_plan(c);
	rlx_lower_ref_in(lo, &c->src, 1, size);
	rlx_lower_ref_tmp(lo, &c->dst, upd, 0);
	rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(c), (double)n, 0);
	a = rlx_lower_args(lo, sizeof(*a));
	shape_dense(y, own);
	memcpy(in, y->dim, sizeof(in));
	in[ax] = 1;
	a->rank = (int)y->rank;
	a->axis = (int)ax;
	memcpy(a->dim, in, sizeof(a->dim));
	memcpy(a->out_stride, own, sizeof(a->out_stride));
	a->axis_dim = y->dim[ax];
	a->type = rlx_lower_scatter_type(y->dtype);
	a->idx_type = (uint8_t)idx->dtype;
	a->op = RLX_K_SCATTER_NONE;
	rlx_lower_ref_tmp(lo, &a->upd, upd, 0);
	rlx_lower_ref_in(lo, &a->idx, 0, 0);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	rlx_lower_ref_tmp(lo, &a->bad, bad, 0);
	a->live = n;
	return rlx_lower_call(lo, RLX_KERNEL_scatter_elements, (uint64_t)n, (double)n * 4, 0);
}

static void rope_strides(struct rlx_k_rope *a, bool bhsd)
{
	int64_t s[3] = { a->heads * a->len * a->head_dim, a->head_dim,
			 a->heads * a->head_dim };

	if (bhsd) {
		s[1] = a->len * a->head_dim;
		s[2] = a->head_dim;
	}
	memcpy(a->x_stride, s, sizeof(s));
	memcpy(a->y_stride, s, sizeof(s));
}

enum rlx_status rlx_lower_rope(struct rlx_lower *lo)
{
	const struct rlx_op_rope *r = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *cos = rlx_lower_in(lo, 1),
			      *pos = rlx_lower_in(lo, 3);
	struct rlx_k_rope *a = rlx_lower_args(lo, sizeof(*a));
	bool bhsd = x->rank == 4 && r->layout == RLX_BHSD;

	a->batch = x->dim[0];
	a->len = x->dim[bhsd ? 2 : 1];
	a->heads = x->rank == 3 ? r->heads : x->dim[bhsd ? 1 : 2];
	a->head_dim = x->dim[x->rank - 1] / (x->rank == 3 ? r->heads : 1);
	a->n_rot = op_rope_width(r->n_rot, a->head_dim);
	a->positions = cos->dim[0];
	rope_strides(a, bhsd);
	a->type = (uint8_t)x->dtype;
	a->table_type = (uint8_t)cos->dtype;
	a->pairs = r->style == RLX_ROPE_GPTJ;
	if (pos) {
		a->pos_stride = pos->rank == 2 && pos->dim[0] > 1 ? a->len : 0;
		a->pos_type = (uint8_t)pos->dtype;
		rlx_lower_ref_in(lo, &a->pos, 3, 0);
		rlx_lower_ref_status(lo, &a->bad);
		rlx_lower_checked(lo, &a->live, a->batch * a->len);
	}
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->cos, 1, 0);
	rlx_lower_ref_in(lo, &a->sin, 2, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_extent(lo, a->batch, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_rope, (uint64_t)(a->batch * a->len),
			      (double)rlx_type_count(x) * 2, rlx_k_rope_scratch(a));
}

/* The number of the call at input @k, absent or an i64. */
static bool supports_call(const struct rlx_lower *lo, uint32_t k)
{
	return !rlx_lower_in(lo, k) || rlx_lower_in(lo, k)->dtype == RLX_I64;
}

enum rlx_status rlx_lower_rng(struct rlx_lower *lo)
{
	const struct rlx_op_rng *r = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_rng *a = rlx_lower_args(lo, sizeof(*a));

	if (!supports_call(lo, 0))
		return rlx_lower_unsupported(lo, "the call's number is not an i64");
	a->n = rlx_type_count(y);
	a->seed = r->seed;
	a->a = r->a;
	a->b = r->b;
	a->normal = r->kind == RLX_RNG_NORMAL;
	a->type = (uint8_t)y->dtype;
	rlx_lower_ref_in(lo, &a->call, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_rng,
			      (uint64_t)((a->n + RLX_K_RNG_UNIT - 1) / RLX_K_RNG_UNIT),
			      (double)a->n * 20, 0);
}

enum rlx_status rlx_lower_sample(struct rlx_lower *lo)
{
	const struct rlx_op_sample *s = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_sample *a = rlx_lower_args(lo, sizeof(*a));

	if (x->dtype != RLX_F32 || !supports_call(lo, 1) || x->dim[1] > UINT32_MAX / 2)
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	a->rows = x->dim[0];
	a->n = x->dim[1];
	a->seed = s->seed;
	a->top_k = s->top_k;
	a->top_p = s->top_p;
	a->temperature = s->temperature;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->call, 1, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->rows);
	rlx_lower_extent(lo, a->rows, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_sample, (uint64_t)a->rows,
			      (double)rlx_type_count(x) * 20, rlx_k_sample_scratch(a));
}
