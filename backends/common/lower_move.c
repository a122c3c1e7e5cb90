// SPDX-License-Identifier: MIT
/* Ops that move elements: copies with strides, gathers and scatters. */
#include <string.h>

#include "backends/common/lower.h"
#include "ir/element.h"
#include "kernels/fill.h"
#include "kernels/move.h"
#include "ops/pad_axis.h"
#include "ops/slice_axis.h"

/* A box of elements and how both sides walk it. */
struct box {
	int	rank;
	int64_t	dim[RLX_MAX_RANK], src[RLX_MAX_RANK], dst[RLX_MAX_RANK];
	int64_t	src_at, dst_at;		/* first element, counted from the tensor's */
};

/* Copy a box of input @k into temporary @tmp, or else output 0. Nothing to do if it is empty. */
static enum rlx_status copy_box_to(struct rlx_lower *lo, uint32_t k, const struct box *b,
				   uint32_t tmp)
{
	struct rlx_k_copy *a = rlx_lower_args(lo, sizeof(*a));
	size_t size = rlx_dtype_size(rlx_lower_out(lo, 0)->dtype);
	double n = 1;
	int d;

	a->rank = b->rank ? b->rank : 1;
	a->dim[0] = 1;
	for (d = 0; d < b->rank; d++) {
		a->dim[d] = b->dim[d];
		a->src_stride[d] = b->src[d];
		a->dst_stride[d] = b->dst[d];
		n *= (double)b->dim[d];
	}
	if (n == 0)
		return lo->status;
	a->size = (uint8_t)size;
	rlx_k_copy_plan(a);
	rlx_lower_ref_in(lo, &a->src, k, (uint64_t)b->src_at * size);
	if (tmp)
		rlx_lower_ref_tmp(lo, &a->dst, tmp, (uint64_t)b->dst_at * size);
	else
		rlx_lower_ref_out(lo, &a->dst, 0, (uint64_t)b->dst_at * size);
	return rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(a), n, 0);
}

static enum rlx_status copy_box(struct rlx_lower *lo, uint32_t k, const struct box *b)
{
	return copy_box_to(lo, k, b, 0);
}

/* A box over all of the output, in its own order. */
static struct box whole_output(const struct rlx_lower *lo)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct box b = { .rank = (int)y->rank };

	memcpy(b.dim, y->dim, sizeof(b.dim));
	shape_dense(y, b.dst);
	return b;
}

enum rlx_status rlx_lower_copy(struct rlx_lower *lo)
{
	struct box b = whole_output(lo);

	memcpy(b.src, b.dst, sizeof(b.src));
	return copy_box(lo, 0, &b);
}

enum rlx_status rlx_lower_transpose(struct rlx_lower *lo)
{
	const struct rlx_op_transpose *t = lo->args;
	struct box b = whole_output(lo);
	int64_t own[RLX_MAX_RANK];
	int d;

	shape_dense(rlx_lower_in(lo, 0), own);
	for (d = 0; d < b.rank; d++)
		b.src[d] = own[t->perm.n ? t->perm.v[d] : b.rank - 1 - d];
	return copy_box(lo, 0, &b);
}

enum rlx_status rlx_lower_expand(struct rlx_lower *lo)
{
	struct box b = whole_output(lo);

	shape_broadcast(rlx_lower_in(lo, 0), rlx_lower_out(lo, 0), b.src);
	return copy_box(lo, 0, &b);
}

enum rlx_status rlx_lower_slice(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct op_slice_axis r[RLX_MAX_RANK];
	struct box b = whole_output(lo);
	int d;

	op_slice_axes(lo->args, x, r);
	shape_dense(x, b.src);
	for (d = 0; d < b.rank; d++) {
		b.src_at += r[d].start * b.src[d];
		/* with two elements or more the step is within the dimension */
		b.src[d] = r[d].n > 1 ? b.src[d] * r[d].step : 0;
	}
	return copy_box(lo, 0, &b);
}

enum rlx_status rlx_lower_frame(struct rlx_lower *lo)
{
	const struct rlx_op_frame *f = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	uint32_t ax = shape_axis(f->axis, x->rank);
	struct box b = whole_output(lo);
	int64_t own[RLX_MAX_RANK];
	int d;

	shape_dense(x, own);
	for (d = 0; d < b.rank; d++)
		b.src[d] = own[d <= (int)ax ? d : d - 1];
	/* with two frames or more a hop is within the signal */
	b.src[ax] = b.dim[ax] > 1 ? f->hop * own[ax] : 0;
	return copy_box(lo, 0, &b);
}

enum rlx_status rlx_lower_concat(struct rlx_lower *lo)
{
	const struct rlx_op_concat *c = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	uint32_t ax = shape_axis(c->axis, y->rank), k;
	enum rlx_status st = RLX_OK;
	int64_t at = 0;

	for (k = 0; k < lo->st->n_in && !st; k++) {
		const struct rlx_type *x = rlx_lower_in(lo, k);
		struct box b = whole_output(lo);

		shape_dense(x, b.src);
		b.dim[ax] = x->dim[ax];
		b.dst_at = at * b.dst[ax];
		at += x->dim[ax];
		if (!lo->lies_in || lo->trial || lo->lies_in[lo->st->in[k]] != lo->st->out[0])
			st = copy_box(lo, k, &b);
	}
	return st;
}

/* Go on with @n elements in each of those; as one dimension where both sides allow it. */
static bool add_dim(struct box *b, int64_t n, int64_t src, int64_t dst)
{
	int d = b->rank - 1;

	if (n == 1)
		return true;
	if (d >= 0 && b->src[d] == n * src && b->dst[d] == n * dst)
		n *= b->dim[d];
	else if (b->rank == RLX_MAX_RANK)
		return false;
	else
		d = b->rank++;
	b->dim[d] = n;
	b->src[d] = src;
	b->dst[d] = dst;
	return true;
}

/*
 * @b is the copy of an @x that makes its axes from @from to @to as long as @y's, which gives @t;
 * false: it would have too many dimensions.
 */
static bool repeat_axes(const struct rlx_type *x, const struct rlx_type *y, uint32_t from,
			uint32_t to, struct rlx_type *t, struct box *b)
{
	int64_t own[RLX_MAX_RANK], out[RLX_MAX_RANK];
	uint32_t d;

	*t = *x;
	for (d = from; d < to; d++)
		t->dim[d] = y->dim[d];
	shape_dense(x, own);
	shape_dense(t, out);
	*b = (struct box){ 0 };
	for (d = 0; d < x->rank; d++)
		if (!add_dim(b, t->dim[d] / x->dim[d], 0, out[d] * x->dim[d]) ||
		    !add_dim(b, x->dim[d], own[d], out[d]))
			return false;
	return true;
}

/* The last axes first, as many at a time as a copy has dimensions for. */
enum rlx_status rlx_lower_tile(struct rlx_lower *lo)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	uint32_t from, to = y->rank, tmp;
	struct rlx_type t;
	struct box b;

	if (!rlx_type_count(y))
		return lo->status;
	do {
		from = 0;
		while (!repeat_axes(rlx_lower_in(lo, 0), y, from, to, &t, &b))
			from++;
		tmp = from ? rlx_lower_tmp(lo, (uint64_t)rlx_type_bytes(&t)) : 0;
		if (copy_box_to(lo, 0, &b, tmp))
			return lo->status;
		if (tmp)
			rlx_lower_replace(lo, 0, tmp, &t);
		to = from;
	} while (to);
	return lo->status;
}

/* The part of the output that comes from x; crops are negative pads. */
static struct box padded_box(const struct rlx_lower *lo)
{
	const struct rlx_op_pad *p = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct box b = whole_output(lo);
	int64_t crop, pad;
	uint32_t d;

	shape_dense(x, b.src);
	for (d = 0; d < x->rank; d++) {
		int64_t before = p->pads.v[d], after = p->pads.v[d + x->rank];

		crop = before < 0 ? -before : 0;
		pad = before > 0 ? before : 0;
		b.dim[d] = x->dim[d] - crop - (after < 0 ? -after : 0);
		if (b.dim[d] < 0)
			b.dim[d] = 0;
		b.src_at += crop * b.src[d];
		b.dst_at += pad * b.dst[d];
	}
	return b;
}

/* Reflected, repeated or wrapped edges, by one table of offsets for each axis. */
static enum rlx_status pad_by_tables(struct rlx_lower *lo)
{
	const struct rlx_op_pad *p = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	struct rlx_k_index_copy *a;
	int64_t own[RLX_MAX_RANK], *table[RLX_MAX_RANK], i;
	uint32_t d;

	if (!rlx_type_count(y) || !rlx_type_count(x) || !y->rank)
		return rlx_lower_unsupported(lo, "nothing to pad");
	shape_dense(x, own);
	for (d = 0; d < y->rank; d++) {
		table[d] = rlx_lower_keep(lo, (size_t)y->dim[d], sizeof(int64_t));
		for (i = 0; table[d] && i < y->dim[d]; i++)
			table[d][i] = own[d] * op_pad_from(p->mode, i - p->pads.v[d],
							   x->dim[d]);
	}
	a = rlx_lower_args(lo, sizeof(*a));
	a->rank = (int)y->rank;
	for (d = 0; d < y->rank; d++) {
		a->dim[d] = y->dim[d];
		rlx_lower_ref_keep(lo, &a->table[d], table[d], (size_t)y->dim[d] * sizeof(int64_t));
	}
	a->size = (uint8_t)rlx_dtype_size(y->dtype);
	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_index_copy,
			      (uint64_t)(rlx_type_count(y) / y->dim[y->rank - 1]),
			      (double)rlx_type_count(y) * 2, 0);
}

enum rlx_status rlx_lower_pad(struct rlx_lower *lo)
{
	const struct rlx_op_pad *p = lo->args;
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_zero *z;
	struct box b = whole_output(lo), part;
	enum rlx_status st;

	if (p->mode != RLX_PAD_CONSTANT)
		return pad_by_tables(lo);
	part = padded_box(lo);
	if (rlx_lower_in(lo, 1)) {
		st = copy_box(lo, 1, &b);	/* all source strides 0: a fill */
	} else {
		z = rlx_lower_args(lo, sizeof(*z));
		rlx_lower_ref_out(lo, &z->dst, 0, 0);
		st = rlx_lower_call(lo, RLX_KERNEL_zero, (uint64_t)rlx_type_bytes(y), 0, 0);
	}
	return st ? st : copy_box(lo, 0, &part);
}

enum rlx_status rlx_lower_gather(struct rlx_lower *lo)
{
	const struct rlx_op_gather *g = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *idx = rlx_lower_in(lo, 1);
	struct rlx_k_gather *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t ax = shape_axis(g->axis, x->rank);

	a->outer = shape_span(x, 0, ax);
	a->rows = x->dim[ax];
	a->n_idx = rlx_type_count(idx);
	a->inner = shape_span(x, ax + 1, x->rank) * (int64_t)rlx_dtype_size(x->dtype);
	a->idx_type = (uint8_t)idx->dtype;
	if (!a->outer || !a->n_idx || !a->inner)
		return lo->status;
	rlx_lower_ref_in(lo, &a->table, 0, 0);
	rlx_lower_ref_in(lo, &a->idx, 1, 0);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->n_idx);
	rlx_lower_extent(lo, a->outer * a->n_idx, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_gather, (uint64_t)(a->outer * a->n_idx),
			      (double)(a->outer * a->n_idx) * (double)(a->inner + 32) / 16, 0);
}

enum rlx_status rlx_lower_gather_elements(struct rlx_lower *lo)
{
	const struct rlx_op_gather_elements *g = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *idx = rlx_lower_in(lo, 1);
	struct rlx_k_gather_elements *a = rlx_lower_args(lo, sizeof(*a));
	int64_t n = rlx_type_count(idx);

	if (!n)
		return lo->status;
	a->rank = (int)x->rank;
	a->axis = (int)shape_axis(g->axis, x->rank);
	memcpy(a->dim, idx->dim, sizeof(a->dim));
	shape_dense(x, a->data_stride);
	a->axis_dim = x->dim[a->axis];
	a->size = (uint8_t)rlx_dtype_size(x->dtype);
	a->idx_type = (uint8_t)idx->dtype;
	rlx_lower_ref_in(lo, &a->data, 0, 0);
	rlx_lower_ref_in(lo, &a->idx, 1, 0);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, n);
	rlx_lower_extent(lo, idx->dim[0], NULL);
	return rlx_lower_call(lo, RLX_KERNEL_gather_elements,
			      (uint64_t)(n / idx->dim[idx->rank - 1]), (double)n * 4, 0);
}

enum rlx_status rlx_lower_gather_nd(struct rlx_lower *lo)
{
	const struct rlx_op_gather_nd *g = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *idx = rlx_lower_in(lo, 1);
	struct rlx_k_gather_nd *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t b = (uint32_t)g->batch_dims, i;

	a->k = (int)idx->dim[idx->rank - 1];
	if (b + (uint32_t)a->k > x->rank || !rlx_type_count(rlx_lower_out(lo, 0)))
		return rlx_type_count(rlx_lower_out(lo, 0)) ?
			       rlx_lower_unsupported(lo, "odd shapes") :
			       lo->status;
	a->batch = shape_span(x, 0, b);
	a->n = shape_span(idx, b, idx->rank - 1);
	for (i = 0; i < (uint32_t)a->k; i++)
		a->dim[i] = x->dim[b + i];
	a->inner = shape_span(x, b + (uint32_t)a->k, x->rank) *
		   (int64_t)rlx_dtype_size(x->dtype);
	a->idx_type = (uint8_t)idx->dtype;
	rlx_lower_ref_in(lo, &a->data, 0, 0);
	rlx_lower_ref_in(lo, &a->idx, 1, 0);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->batch * a->n);
	rlx_lower_extent(lo, a->batch * a->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_gather_nd, (uint64_t)(a->batch * a->n),
			      (double)rlx_type_bytes(rlx_lower_out(lo, 0)), 0);
}

/*
 * Sums of 16 bits stop to grow where an update is below half a unit of theirs: bf16 ones at 256.
 * Kernels round after each update, so these steps accumulate in f32 (RLX_T_ACCUMULATES) and are
 * rounded once.
 */
static bool rounds_each(enum rlx_dtype dt, int reduction)
{
	return rlx_dtype_is_float(dt) && rlx_dtype_size(dt) < sizeof(float) &&
	       (reduction == RLX_SCATTER_ADD || reduction == RLX_SCATTER_MUL);
}

enum rlx_status rlx_lower_scatter_elements(struct rlx_lower *lo)
{
	const struct rlx_op_scatter_elements *s = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *idx = rlx_lower_in(lo, 1);
	struct rlx_k_scatter_elements *a;
	int64_t n = rlx_type_count(idx);
	enum rlx_status st;

	if (rounds_each(x->dtype, s->reduction))
		return rlx_lower_unsupported(lo, "it accumulates in f32");
	st = rlx_lower_copy(lo);
	if (st || !n)
		return st;
	a = rlx_lower_args(lo, sizeof(*a));
	a->rank = (int)x->rank;
	a->axis = (int)shape_axis(s->axis, x->rank);
	memcpy(a->dim, idx->dim, sizeof(a->dim));
	shape_dense(x, a->out_stride);
	a->axis_dim = x->dim[a->axis];
	a->type = rlx_lower_scatter_type(x->dtype);
	a->idx_type = (uint8_t)idx->dtype;
	a->op = (uint8_t)s->reduction;
	rlx_lower_ref_in(lo, &a->idx, 1, 0);
	rlx_lower_ref_in(lo, &a->upd, 2, 0);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, n);
	return rlx_lower_call(lo, RLX_KERNEL_scatter_elements, (uint64_t)(n / idx->dim[a->axis]),
			      (double)n * 4, 0);
}

enum rlx_status rlx_lower_scatter_nd(struct rlx_lower *lo)
{
	const struct rlx_op_scatter_nd *s = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *idx = rlx_lower_in(lo, 1);
	struct rlx_k_scatter_nd *a;
	enum rlx_status st;
	uint32_t i;

	if (rounds_each(x->dtype, s->reduction))
		return rlx_lower_unsupported(lo, "it accumulates in f32");
	st = rlx_lower_copy(lo);
	if (st || !rlx_type_count(rlx_lower_in(lo, 2)))
		return st;
	a = rlx_lower_args(lo, sizeof(*a));
	a->k = (int)idx->dim[idx->rank - 1];
	a->n = shape_span(idx, 0, idx->rank - 1);
	for (i = 0; i < (uint32_t)a->k; i++)
		a->dim[i] = x->dim[i];
	a->inner = shape_span(x, (uint32_t)a->k, x->rank);
	a->type = rlx_lower_scatter_type(x->dtype);
	a->idx_type = (uint8_t)idx->dtype;
	a->op = (uint8_t)s->reduction;
	rlx_lower_ref_in(lo, &a->idx, 1, 0);
	rlx_lower_ref_in(lo, &a->upd, 2, 0);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->n);
	return rlx_lower_call(
		lo, RLX_KERNEL_scatter_nd,
		(uint64_t)((a->inner + RLX_K_SCATTER_BLOCK - 1) / RLX_K_SCATTER_BLOCK),
		(double)rlx_type_count(rlx_lower_in(lo, 2)), 0);
}

enum rlx_status rlx_lower_trilu(struct rlx_lower *lo)
{
	const struct rlx_op_trilu *t = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_trilu *a = rlx_lower_args(lo, sizeof(*a));

	a->batch = shape_span(x, 0, x->rank - 2);
	a->rows = x->dim[x->rank - 2];
	a->cols = x->dim[x->rank - 1];
	/* beyond the matrix all diagonals are alike */
	a->k = t->k < -a->rows ? -a->rows : t->k > a->cols ? a->cols : t->k;
	a->upper = t->upper;
	a->size = (uint8_t)rlx_dtype_size(x->dtype);
	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_trilu, (uint64_t)(a->batch * a->rows),
			      (double)rlx_type_count(x), 0);
}

/* Batches [b, b + n) of one length: its steps backwards, then the rest as it is. */
static enum rlx_status reverse_batches(struct rlx_lower *lo, int64_t b, int64_t n, int64_t len)
{
	const struct rlx_op_reverse_sequence *r = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	uint32_t t = shape_axis(r->time_axis, x->rank), ba = shape_axis(r->batch_axis, x->rank);
	struct box turned = whole_output(lo), rest;
	enum rlx_status st;

	shape_dense(x, turned.src);
	turned.dim[ba] = n;
	turned.src_at = turned.dst_at = b * turned.src[ba];
	rest = turned;
	turned.dim[t] = len;
	turned.src_at += (len - 1) * turned.src[t];
	turned.src[t] = -turned.src[t];
	rest.dim[t] -= len;
	rest.src_at += len * rest.src[t];
	rest.dst_at = rest.src_at;
	st = len ? copy_box(lo, 0, &turned) : RLX_OK;
	return st ? st : copy_box(lo, 0, &rest);
}

/* Lengths are looked at when it runs, and told of if they are out of range. */
static enum rlx_status reverse_by_data(struct rlx_lower *lo)
{
	const struct rlx_op_reverse_sequence *r = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *lens = rlx_lower_in(lo, 1);
	uint32_t t = shape_axis(r->time_axis, x->rank), b = shape_axis(r->batch_axis, x->rank);
	uint32_t first = t < b ? t : b, second = t < b ? b : t;
	struct rlx_k_reverse *a = rlx_lower_args(lo, sizeof(*a));

	a->pre = shape_span(x, 0, first);
	a->dim[0] = x->dim[first];
	a->mid = shape_span(x, first + 1, second);
	a->dim[1] = x->dim[second];
	a->post = shape_span(x, second + 1, x->rank) * (int64_t)rlx_dtype_size(x->dtype);
	a->time = t == second;
	a->lens_type = (uint8_t)lens->dtype;
	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_in(lo, &a->lens, 1, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, lens->dim[0]);
	return rlx_lower_call(lo, RLX_KERNEL_reverse, (uint64_t)(a->pre * a->dim[0] * a->mid),
			      (double)rlx_type_count(x) * 4, 0);
}

enum rlx_status rlx_lower_reverse_sequence(struct rlx_lower *lo)
{
	const struct rlx_op_reverse_sequence *r = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *lens = rlx_lower_in(lo, 1);
	struct rlx_tensor at = { .type = *lens, .data = (void *)rlx_lower_const(lo, 1) };
	int64_t most = x->dim[shape_axis(r->time_axis, x->rank)], i, n;
	enum rlx_status st = RLX_OK;

	if (!rlx_lower_const(lo, 1))
		return reverse_by_data(lo);
	for (i = 0; i < lens->dim[0]; i++)
		if (el_geti(&at, i) < 0 || el_geti(&at, i) > most)
			return reverse_by_data(lo);
	for (i = 0; i < lens->dim[0] && !st; i += n) {
		for (n = 1; i + n < lens->dim[0] && el_geti(&at, i + n) == el_geti(&at, i); n++)
			;
		st = reverse_batches(lo, i, n, el_geti(&at, i));
	}
	return st;
}
