// SPDX-License-Identifier: MIT
/* GEMM: shapes, batches and operands; the backend picks the family. */
#include "backends/common/gemm.h"
#include "backends/common/gemm_batch.h"
#include "kernels/copy.h"

enum rlx_status rlx_gemm_bias(struct rlx_lower *lo, struct rlx_k_gemm *g, enum rlx_dtype dtype)
{
	const struct rlx_type *bias = rlx_lower_in(lo, 2);

	if (!bias)
		return RLX_OK;
	if (bias->dtype != dtype || rlx_type_count(bias) != (int64_t)g->n)
		return rlx_lower_unsupported(lo, "the bias has another dtype than is added, or "
						 "not one for each column");
	rlx_lower_ref_in(lo, &g->bias, 2, 0);
	return lo->status;
}

bool rlx_gemm_b_stays(const struct rlx_lower *lo, const struct rlx_k_gemm *g)
{
	const struct rlx_type *b = rlx_lower_in(lo, 1);

	return (rlx_lower_is_const(lo, 1) || rlx_lower_of_params(lo, 1)) && g->k &&
	       shape_span(b, 0, b->rank - 2) == 1;
}

/* Matrices of @x for each batch of @y. */
static struct rlx_type repeated(const struct rlx_type *x, const struct rlx_type *y)
{
	struct rlx_type t = *y;

	t.dtype = x->dtype;
	t.dim[t.rank - 2] = x->dim[x->rank - 2];
	t.dim[t.rank - 1] = x->dim[x->rank - 1];
	return t;
}

/* Input @k becomes a temporary with the matrices of all batches. */
static enum rlx_status repeat(struct rlx_lower *lo, uint32_t k)
{
	const struct rlx_type *x = rlx_lower_in(lo, k);
	struct rlx_type t = repeated(x, rlx_lower_out(lo, 0));
	size_t size = rlx_dtype_size(t.dtype);
	double bytes = (double)size;
	struct rlx_k_copy *a;
	uint32_t tmp, d;

	for (d = 0; d < t.rank; d++)
		bytes *= (double)t.dim[d];
	if (bytes > 0x1p60)
		return rlx_lower_out_of_memory(lo);
	tmp = rlx_lower_tmp(lo, (uint64_t)rlx_type_bytes(&t));
	a = rlx_lower_args(lo, sizeof(*a));
	a->rank = (int)t.rank;
	memcpy(a->dim, t.dim, t.rank * sizeof(a->dim[0]));
	shape_broadcast(x, &t, a->src_stride);
	shape_dense(&t, a->dst_stride);
	a->size = (uint8_t)size;
	rlx_k_copy_plan(a);
	rlx_lower_ref_in(lo, &a->src, k, 0);
	rlx_lower_ref_tmp(lo, &a->dst, tmp, 0);
	if (!rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(a), bytes / (double)size, 0))
		rlx_lower_replace(lo, k, tmp, &t);
	return lo->status;
}

enum rlx_status rlx_lower_batches(struct rlx_lower *lo)
{
	const struct rlx_type *a = rlx_lower_in(lo, 0), *b = rlx_lower_in(lo, 1);
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_type full[2] = { repeated(a, y), repeated(b, y) };
	int64_t dim[RLX_K_DIMS], st[3][RLX_K_DIMS];
	bool less = rlx_type_count(&full[1]) < rlx_type_count(&full[0]), alone[2];
	uint32_t k;

	if (!rlx_type_count(a) || !rlx_type_count(b) ||
	    batch_rank(a, b, y, dim, st) <= 2)
		return lo->status;
	alone[0] = batch_rank(&full[0], b, y, dim, st) <= 2;
	alone[1] = batch_rank(a, &full[1], y, dim, st) <= 2;
	k = alone[less] ? less : !less;
	if (repeat(lo, k) || alone[k])
		return lo->status;
	return repeat(lo, !k);
}

/* Sizes, strides and batches out of the operands' types and what the op says of them. */
static enum rlx_status fill(struct rlx_lower *lo, struct rlx_k_gemm *g, bool trans_b)
{
	const struct rlx_type *a = rlx_lower_in(lo, 0), *b = rlx_lower_in(lo, 1);
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	bool flat = shape_span(b, 0, b->rank - 2) == 1 && !g->trans_a;

	g->m = (size_t)y->dim[y->rank - 2];
	g->n = (size_t)y->dim[y->rank - 1];
	g->k = (size_t)a->dim[a->rank - (g->trans_a ? 2 : 1)];
	if (flat)		/* one matrix on the right: all rows as one */
		g->m = (size_t)shape_span(y, 0, y->rank - 1);
	else if (!batch_plan(g, a, b, y))
		return rlx_lower_unsupported(lo, "over two batch dimensions that do not collapse");
	g->lda = g->trans_a ? g->m : g->k;
	g->ldb = trans_b ? g->k : g->n;
	g->ldc = g->ldr = g->n;
	g->b_form = trans_b ? RLX_B_COLS : RLX_B_ROWS;
	g->beta = 1;
	g->a_type = a->dtype;
	g->b_type = b->dtype;
	g->c_type = y->dtype;
	if (g->n > SIZE_MAX / 64 / (g->k + 4))
		return rlx_lower_unsupported(lo, "the right-hand side is too large");
	return RLX_OK;
}

static enum rlx_status lower(struct rlx_lower *lo, struct rlx_k_gemm *g, bool trans_b)
{
	const struct rlx_type *residual = rlx_lower_in(lo, 3), *y = rlx_lower_out(lo, 0);
	enum rlx_status st;

	st = fill(lo, g, trans_b);
	if (st)
		return st;
	rlx_lower_ref_rows(lo, &g->a, 0);
	if (residual && residual->dtype != y->dtype)
		return rlx_lower_unsupported(lo, "the residual is not of the result's dtype");
	rlx_lower_ref_in(lo, &g->residual, 3, 0);
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	return rlx_lower_gemm(lo, g);
}

enum rlx_status rlx_lower_matmul(struct rlx_lower *lo)
{
	struct rlx_k_gemm *g;

	if (rlx_lower_batches(lo))
		return lo->status;
	g = rlx_lower_args(lo, sizeof(*g));
	g->alpha = 1;
	return lower(lo, g, false);
}

enum rlx_status rlx_lower_fused_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_fused_matmul *f = lo->args;
	struct rlx_k_gemm *g;

	if (rlx_lower_batches(lo))
		return lo->status;
	g = rlx_lower_args(lo, sizeof(*g));
	g->trans_a = f->trans_a;
	g->alpha = (double)f->alpha;
	g->act = (enum rlx_act)f->act;
	g->lo = (double)f->act_lo;
	g->hi = (double)f->act_hi;
	g->compute = (uint8_t)f->compute;
	g->tf32 = f->tf32;
	return lower(lo, g, f->trans_b);
}
