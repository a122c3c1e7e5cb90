// SPDX-License-Identifier: MIT
/* GEMM: shapes, batches and operands; the backend picks the family. */
#include "backends/common/gemm_batch.h"
#include "backends/common/gemm_desc.h"

enum rlx_k_num rlx_gemm_num(enum rlx_dtype dt)
{
	return dt == RLX_BF16 ? RLX_NUM_BF16 : dt == RLX_F16 ? RLX_NUM_F16 :
	       RLX_NUM_F32;
}

enum rlx_status rlx_gemm_bias(struct rlx_lower *lo, struct rlx_k_gemm *g,
				 const struct rlx_gemm_desc *p, enum rlx_dtype dtype)
{
	if (!p->has_bias)
		return RLX_OK;
	if (rlx_lower_in(lo, 2)->dtype != dtype ||
	    rlx_type_count(rlx_lower_in(lo, 2)) != (int64_t)g->n)
		return rlx_lower_unsupported(lo, "the bias is not f32 (f64), one for each column");
	rlx_lower_ref_in(lo, &g->bias, 2, 0);
	return lo->status;
}

static enum rlx_status fill(struct rlx_lower *lo, struct rlx_k_gemm *g,
			    const struct rlx_gemm_desc *p)
{
	const struct rlx_type *a = p->a;

	g->m = (size_t)p->y->dim[p->y->rank - 2];
	g->n = (size_t)p->y->dim[p->y->rank - 1];
	g->k = (size_t)a->dim[a->rank - (p->trans_a ? 2 : 1)];
	if (p->flat)
		g->m = (size_t)shape_span(p->y, 0, p->y->rank - 1);
	else if (!batch_plan(g, p->a, p->b, p->y))
		return rlx_lower_unsupported(lo, "over two batch dimensions that do not collapse");
	g->lda = p->trans_a ? g->m : g->k;
	g->ldb = p->trans_b ? g->k : g->n;
	g->ldc = g->ldr = g->n;
	g->trans_a = p->trans_a;
	g->b_form = p->trans_b ? RLX_B_COLS : RLX_B_ROWS;
	g->alpha = p->alpha;
	g->beta = 1;
	g->act = (enum rlx_act)p->act;
	g->lo = p->lo;
	g->hi = p->hi;
	g->a_num = rlx_gemm_num(a->dtype);
	g->b_num = rlx_gemm_num(p->b->dtype);
	g->c_num = rlx_gemm_num(p->y->dtype);
	if (g->n > SIZE_MAX / 64 / (g->k + 4))
		return rlx_lower_unsupported(lo, "the right-hand side is too large");
	return RLX_OK;
}

static enum rlx_status lower_gemm_desc(struct rlx_lower *lo, struct rlx_gemm_desc *p)
{
	struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));
	enum rlx_status st;

	if (!rlx_type_count(p->y))	/* to the kernel no batch is one */
		return lo->status;
	p->flat = shape_span(p->b, 0, p->b->rank - 2) == 1 && !p->trans_a;
	st = fill(lo, g, p);
	if (st)
		return st;
	rlx_lower_ref_in(lo, &g->a, 0, 0);
	if (p->has_residual) {
		if (rlx_lower_in(lo, 3)->dtype != p->y->dtype)
			return rlx_lower_unsupported(lo,
						     "the residual is not of the result's dtype");
		rlx_lower_ref_in(lo, &g->residual, 3, 0);
	}
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	return lo->ops->gemm(lo, g, p);
}

enum rlx_status rlx_lower_matmul(struct rlx_lower *lo)
{
	struct rlx_gemm_desc p = {
		.a = rlx_lower_in(lo, 0), .b = rlx_lower_in(lo, 1), .y = rlx_lower_out(lo, 0),
		.alpha = 1,
	};

	return lower_gemm_desc(lo, &p);
}

enum rlx_status rlx_lower_fused_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_fused_matmul *f = lo->args;
	struct rlx_gemm_desc p = {
		.a = rlx_lower_in(lo, 0), .b = rlx_lower_in(lo, 1), .y = rlx_lower_out(lo, 0),
		.trans_a = f->trans_a, .trans_b = f->trans_b,
		.has_bias = rlx_lower_in(lo, 2), .has_residual = rlx_lower_in(lo, 3),
		.alpha = (double)f->alpha,
		.act = f->act, .lo = (double)f->act_lo, .hi = (double)f->act_hi,
		.compute = f->compute, .tf32 = f->tf32,
	};

	return lower_gemm_desc(lo, &p);
}
