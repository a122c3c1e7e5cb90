// SPDX-License-Identifier: MIT
/*
 * GEMM with operands in fp8. A small M of f16 or bf16 is multiplied by such weights as they
 * lie; else what is in fp8 becomes f16 or bf16 first, which have all of its values.
 */
#include <string.h>

#include "backends/common/gemm.h"
#include "backends/gpu/gpu.h"

/* The staged GEMM, while other calls are staged. */
struct held {
	struct rlx_k_gemm	g;
	uint32_t		n_ref;
	struct rlx_ref		ref[8];
	int64_t			rows;
};

static enum rlx_status hold(struct rlx_lower *lo, struct held *h)
{
	memcpy(&h->g, lo->staged, sizeof(h->g));
	h->n_ref = lo->n_ref;
	h->rows = lo->rows;
	if (h->n_ref > sizeof(h->ref) / sizeof(h->ref[0]))
		return rlx_lower_unsupported(lo, "too many operands");
	memcpy(h->ref, lo->ref, h->n_ref * sizeof(*h->ref));
	return lo->status;
}

static struct rlx_k_gemm *stage(struct rlx_lower *lo, const struct held *h, size_t size)
{
	struct rlx_k_gemm *g = rlx_lower_args(lo, size);

	memcpy(g, &h->g, sizeof(*g));
	memcpy(lo->ref, h->ref, h->n_ref * sizeof(*h->ref));
	lo->n_ref = h->n_ref;
	rlx_lower_extent(lo, h->rows, NULL);
	return g;
}

static void refer(struct held *h, size_t at, const struct rlx_ref *ref)
{
	h->ref[h->n_ref] = *ref;
	h->ref[h->n_ref++].at = at;
}

/* Holes are filled in only when a call is made. */
static bool refers(const struct held *h, size_t at)
{
	uint32_t i;

	for (i = 0; i < h->n_ref; i++)
		if (h->ref[i].at == at)
			return true;
	return false;
}

static bool is_f8(enum rlx_dtype dt)
{
	return dt == RLX_F8E4M3 || dt == RLX_F8E5M2;
}

/* Input @k, @n elements of @from, as @to in memory of the step, to which @ref will refer. */
static enum rlx_status widen(struct rlx_lower *lo, uint32_t k, int64_t n, enum rlx_dtype from,
			     enum rlx_dtype to, struct rlx_ref *ref)
{
	uint32_t tmp = rlx_lower_tmp(lo, (uint64_t)n * 2);
	struct rlx_k_cast *c = rlx_lower_args(lo, sizeof(*c));

	c->n = n;
	c->src_type = (uint8_t)from;
	c->dst_type = (uint8_t)to;
	rlx_lower_ref_in(lo, &c->src, k, 0);
	rlx_lower_ref_tmp(lo, &c->dst, tmp, 0);
	*ref = lo->ref[1];
	return lo->status ? lo->status : gpu_call_kernel(lo, rlx_g_widen_f8_launch, 0);
}

/* Few rows by b as it lies? */
static bool may_take(struct rlx_lower *lo, const struct rlx_k_gemm *g)
{
	struct rlx_g_launch l = gpu_launch_for(gpu_of(lo), 0);
	struct rlx_k_gemv_stream_f8 a = { .g = *g };

	rlx_g_gemv_stream_f8_launch(&a, &l);
	return l.can;
}

/* What is multiplied: dtypes of the operands, and how many elements there are. */
struct sides {
	enum rlx_dtype	a, b;
	int64_t		n_a, n_b;
	enum rlx_dtype	half;	/* that has the values of both */
};

/* b, by rows, by columns in memory of the step. */
static enum rlx_status transpose_to_columns(struct rlx_lower *lo, const struct rlx_k_gemm *g,
					    int64_t n_b, struct rlx_ref *ref)
{
	uint32_t tmp = rlx_lower_tmp(lo, (uint64_t)n_b);
	struct rlx_k_transpose_f8 *t = rlx_lower_args(lo, sizeof(*t));

	t->rows = (int64_t)g->k;
	t->cols = (int64_t)g->n;
	t->batch = n_b / (t->rows * t->cols);
	rlx_lower_ref_in(lo, &t->src, 1, 0);
	rlx_lower_ref_tmp(lo, &t->dst, tmp, 0);
	*ref = lo->ref[1];
	return lo->status ? lo->status : gpu_call_kernel(lo, rlx_g_transpose_f8_launch, 0);
}

/* Both sides in fp8 by the chip's own MMA of that, if it has them for this form. */
static bool by_groups(struct rlx_lower *lo, struct held *h, const struct sides *s,
		      enum rlx_status *st)
{
	struct rlx_g_launch l = gpu_launch_for(gpu_of(lo), 0);
	bool rows = h->g.b_form == RLX_B_ROWS;
	struct rlx_k_gemm t = h->g, *g;
	struct rlx_ref ref;

	t.a_type = s->a;
	t.b_type = s->b;
	t.b_form = RLX_B_COLS;
	t.ldb = t.k;
	rlx_g_gemm_wgmma_f8_launch(&t, &l);
	if (!l.can || t.m <= RLX_K_GEMV_STREAM_F8_ROWS || (rows && t.n % 16) ||
	    (is_f8(rlx_lower_out(lo, 0)->dtype) &&
	     refers(h, offsetof(struct rlx_k_gemm, residual))))
		return false;
	if (rows) {
		t.b_fixed = false;
		*st = transpose_to_columns(lo, &h->g, s->n_b, &ref);
		if (*st)
			return true;
		refer(h, offsetof(struct rlx_k_gemm, b), &ref);
	}
	h->g = t;
	g = stage(lo, h, sizeof(*g));
	rlx_lower_ref_in(lo, &g->a, 0, 0);
	if (!rows)
		rlx_lower_ref_in(lo, &g->b, 1, 0);
	*st = gpu_call_kernel(lo, rlx_g_gemm_wgmma_f8_launch, 0);
	return true;
}

/* By b as it lies, or as f16 or bf16 in its place. */
static enum rlx_status multiply_halves(struct rlx_lower *lo, struct held *h,
				       const struct sides *s)
{
	enum rlx_status st = RLX_OK;
	struct rlx_k_gemv_stream_f8 *f;
	struct rlx_k_gemm *g;
	struct rlx_ref ref;

	if (is_f8(s->a)) {
		st = widen(lo, 0, s->n_a, s->a, s->half, &ref);
		refer(h, offsetof(struct rlx_k_gemm, a), &ref);
	}
	if (!st && is_f8(s->b) && may_take(lo, &h->g)) {
		g = stage(lo, h, sizeof(*f));
		f = (void *)g;
		f->e5m2 = s->b == RLX_F8E5M2;
		rlx_lower_ref_in(lo, &g->b, 1, 0);
		if (!is_f8(s->a))
			rlx_lower_ref_in(lo, &g->a, 0, 0);
		return gpu_call_kernel(lo, rlx_g_gemv_stream_f8_launch, 0);
	}
	if (!st && is_f8(s->b)) {
		h->g.b_fixed = false;	/* the preceding launch writes it */
		st = widen(lo, 1, s->n_b, s->b, s->half, &ref);
		refer(h, offsetof(struct rlx_k_gemm, b), &ref);
	}
	if (st)
		return st;
	g = stage(lo, h, sizeof(*g));
	if (!is_f8(s->a))
		rlx_lower_ref_in(lo, &g->a, 0, 0);
	if (!is_f8(s->b))
		rlx_lower_ref_in(lo, &g->b, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_gemm_bf16, 0, 0, 0);
}

/* Of a result in fp8: in f32 first. */
static enum rlx_status multiply_narrow(struct rlx_lower *lo, struct held *h,
				       const struct sides *s)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	uint32_t tmp = rlx_lower_tmp(lo, (uint64_t)rlx_type_count(y) * 4);
	struct rlx_k_cast *c;
	enum rlx_status st;
	uint32_t i;

	if (refers(h, offsetof(struct rlx_k_gemm, residual)))
		return rlx_lower_unsupported(lo, "no kernel for a residual in fp8");
	h->g.c_type = RLX_F32;
	for (i = 0; i < h->n_ref; i++)
		if (h->ref[i].at == offsetof(struct rlx_k_gemm, c)) {
			h->ref[i].val = tmp;
			h->ref[i].off = 0;
		}
	st = multiply_halves(lo, h, s);
	if (st)
		return st;
	c = rlx_lower_args(lo, sizeof(*c));
	c->n = rlx_type_count(y);
	c->src_type = RLX_F32;
	c->dst_type = (uint8_t)y->dtype;
	rlx_lower_ref_tmp(lo, &c->src, tmp, 0);
	rlx_lower_ref_out(lo, &c->dst, 0, 0);
	return gpu_call_kernel(lo, rlx_g_widen_f8_launch, 0);
}

/* The staged GEMM, in which neither a nor b are referred to yet. */
static enum rlx_status multiply(struct rlx_lower *lo, const struct sides *s)
{
	struct rlx_k_gemm *g = (void *)lo->staged;
	enum rlx_status st;
	struct held h;

	g->a_type = g->b_type = s->half;
	g->c_type = rlx_lower_out(lo, 0)->dtype;
	g->b_fixed = gpu_is_fixed(lo, 1);
	st = hold(lo, &h);
	if (st || (is_f8(s->a) && is_f8(s->b) && by_groups(lo, &h, s, &st)))
		return st;
	return is_f8(rlx_lower_out(lo, 0)->dtype) ? multiply_narrow(lo, &h, s) :
						multiply_halves(lo, &h, s);
}

bool gpu_gemm_is_fp8(const struct rlx_lower *lo)
{
	return is_f8(rlx_lower_in(lo, 0)->dtype) || is_f8(rlx_lower_in(lo, 1)->dtype);
}

enum rlx_status gpu_gemm_fp8(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	enum rlx_dtype a = rlx_lower_in(lo, 0)->dtype, b = rlx_lower_in(lo, 1)->dtype;
	enum rlx_dtype y = rlx_lower_out(lo, 0)->dtype;
	struct sides s = { a, b, rlx_type_count(rlx_lower_in(lo, 0)),
			   rlx_type_count(rlx_lower_in(lo, 1)),
			   a == RLX_F16 || b == RLX_F16 ? RLX_F16 : RLX_BF16 };
	uint32_t i, n = 0;

	if ((!is_f8(a) && a != s.half) || (!is_f8(b) && b != s.half) ||
	    (!is_f8(y) && y != s.half))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (rlx_gemm_bias(lo, g, RLX_F32))
		return lo->status;
	for (i = 0; i < lo->n_ref; i++)
		if (lo->ref[i].at != offsetof(struct rlx_k_gemm, a))
			lo->ref[n++] = lo->ref[i];
	lo->n_ref = n;
	if (rlx_gemm_rows_lead(g))
		rlx_lower_extent(lo, (int64_t)g->m, NULL);
	return multiply(lo, &s);
}

enum rlx_status gpu_lower_dequant_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_dequant_matmul *d = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *scale = rlx_lower_in(lo, 2);
	struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));
	struct sides s = { x->dtype, d->scheme == RLX_SCHEME_F8E5M2 ? RLX_F8E5M2 : RLX_F8E4M3,
			   rlx_type_count(x), rlx_type_count(rlx_lower_in(lo, 1)), x->dtype };

	if (d->scheme != RLX_SCHEME_F8E4M3 && d->scheme != RLX_SCHEME_F8E5M2)
		return rlx_lower_unsupported(lo, "no kernel for this scheme");
	if ((x->dtype != RLX_BF16 && x->dtype != RLX_F16) ||
	    (scale && !rlx_lower_real(scale->dtype)))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	g->m = (size_t)shape_span(x, 0, x->rank - 1);
	g->k = g->lda = (size_t)x->dim[x->rank - 1];
	g->n = g->ldb = g->ldc = (size_t)d->n;
	g->alpha = 1;
	g->one_scale = scale && rlx_type_count(scale) == 1;
	g->scale_type = scale ? (uint8_t)scale->dtype : 0;
	rlx_lower_ref_in(lo, &g->scales, 2, 0);
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	rlx_lower_extent(lo, (int64_t)g->m, NULL);
	return multiply(lo, &s);
}
