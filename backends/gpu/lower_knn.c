// SPDX-License-Identifier: MIT
/* Nearest neighbours: a product ranks some rows' distances at a time, a kernel orders the best. */
#include <math.h>

#include "backends/gpu/gpu.h"
#include "kernels/gemm.h"
#include "kernels/knn.h"
#include "kernels/sortk.h"
#include "ops/defaults.h"

/* The step's operands, and temporaries. */
struct search {
	struct rlx_lower	*lo;
	enum rlx_dtype		 type;
	int32_t			 metric;
	bool			 self;
	int64_t			 m, d, k, kept, rows;
	uint32_t		 norms, scores, near;	/* [m], [rows, m], [rows, kept] */
	/* x and y as terms of bf16, which tensor cores multiply; 0: as they are */
	uint32_t		 left, right;
};

/* Lengths of y's points, squared. */
static enum rlx_status call_norms(const struct search *s)
{
	struct rlx_k_knn *a = rlx_lower_args(s->lo, sizeof(*a));

	a->rows = s->m;
	a->d = s->d;
	a->type = (uint8_t)s->type;
	rlx_lower_ref_in(s->lo, &a->x, !s->self, 0);
	rlx_lower_ref_tmp(s->lo, &a->distance, s->norms, 0);
	return gpu_call_kernel(s->lo, rlx_g_knn_launch, 0);
}

/* The @n rows of input @k from @first on as terms. */
static enum rlx_status call_terms(const struct search *s, uint32_t k, int64_t first, int64_t n)
{
	struct rlx_k_knn *a = rlx_lower_args(s->lo, sizeof(*a));

	a->rows = n;
	a->d = s->d;
	a->type = (uint8_t)s->type;
	a->left = k == 0;
	rlx_lower_ref_in(s->lo, &a->x, s->self ? 0 : k, (uint64_t)(first * s->d) * sizeof(float));
	rlx_lower_ref_tmp(s->lo, &a->split, a->left ? s->left : s->right, 0);
	return gpu_call_kernel(s->lo, rlx_g_knn_launch, 0);
}

static void fill_scores(const struct search *s, struct rlx_k_gemm *g, int64_t n, bool terms)
{
	g->m = (size_t)n;
	g->n = g->ldc = g->ldr = (size_t)s->m;
	g->k = g->lda = g->ldb = (size_t)(s->d * (terms ? RLX_K_KNN_TERMS : 1));
	g->b_form = RLX_B_COLS;
	g->alpha = s->metric == RLX_KNN_IP ? -1 : -2;
	g->a_type = g->b_type = terms ? RLX_BF16 : s->type;
	g->c_type = RLX_F32;
	g->b_fixed = !terms && gpu_is_fixed(s->lo, !s->self);
}

/* For asking what a launch takes: where temporaries lie does not matter, but is aligned. */
static void *const somewhere = (void *)256;

/* What writes @n rows as terms takes, which the memory bounds. */
static double terms_ns(const struct search *s, int64_t n)
{
	const struct rlx_k_knn a = { .rows = n, .d = s->d, .type = s->type, .split = somewhere };
	struct rlx_g_launch l = gpu_launch_of(s->lo, 0);
	struct rlx_g_cost t = { .rate = RLX_G_RATE_fma_f32 };

	rlx_g_knn_launch(&a, &l);
	t.blocks = l.grid[0];
	t.dram_bytes = (double)n * (double)s->d * (sizeof(float) + RLX_K_KNN_TERMS * 2);
	return rlx_g_cost_ns(&l, &t);
}

/* What scores of @n rows take; with @terms those of x are written as well. */
static double scores_ns(const struct search *s, int64_t n, bool terms)
{
	struct rlx_g_launch l = gpu_launch_of(s->lo, 0);
	struct rlx_k_gemm g = { .a = somewhere, .b = somewhere, .c = somewhere };

	l.judge = NULL;
	fill_scores(s, &g, n, terms);
	(terms ? rlx_g_gemm_bf16_launch : rlx_g_gemm_f32_launch)(&g, &l);
	if (!l.can)
		return INFINITY;
	return l.ns + (terms ? terms_ns(s, n) : 0);
}

/* Bytes of the terms of @n points. */
static uint64_t terms_bytes(const struct search *s, int64_t n)
{
	return (uint64_t)(n * s->d) * RLX_K_KNN_TERMS * 2;
}

/*
 * Do six products of bf16 take less than one of f32, of all @n rows, with what is written? By a
 * tenth, as terms of y are three times its bytes; where they are too large, never.
 */
static bool terms_gain(const struct search *s, int64_t n)
{
	double chunks = (double)(n / s->rows), ns[2];
	int64_t rest = n % s->rows;

	if (s->type != RLX_F32 || terms_bytes(s, s->m) > OP_KNN_TERMS)
		return false;
	for (int terms = 0; terms < 2; terms++)
		ns[terms] = chunks * scores_ns(s, s->rows, terms) +
			    (rest ? scores_ns(s, rest, terms) : 0);
	return 1.1 * (ns[1] + terms_ns(s, s->m)) < ns[0];
}

/* |y|^2 - 2 x y, or -x y, of @n rows from @first on. */
static enum rlx_status call_scores(const struct search *s, int64_t first, int64_t n)
{
	struct rlx_k_gemm *g;

	if (s->left && call_terms(s, 0, first, n))
		return s->lo->status;
	g = rlx_lower_args(s->lo, sizeof(*g));
	fill_scores(s, g, n, s->left);
	if (s->left) {
		rlx_lower_ref_tmp(s->lo, &g->a, s->left, 0);
		rlx_lower_ref_tmp(s->lo, &g->b, s->right, 0);
	} else {
		rlx_lower_ref_in(s->lo, &g->a, 0,
				 (uint64_t)(first * s->d) * rlx_dtype_size(s->type));
		rlx_lower_ref_in(s->lo, &g->b, !s->self, 0);
	}
	if (s->metric != RLX_KNN_IP)
		rlx_lower_ref_tmp(s->lo, &g->bias, s->norms, 0);
	rlx_lower_ref_tmp(s->lo, &g->c, s->scores, 0);
	return gpu_call_kernel(s->lo, s->type == RLX_F32 && !s->left ? rlx_g_gemm_f32_launch :
			       rlx_g_gemm_bf16_launch, 0);
}

static enum rlx_status call_candidates(const struct search *s, int64_t n)
{
	struct rlx_k_topk *a = rlx_lower_args(s->lo, sizeof(*a));

	a->outer = n;
	a->n = s->m;
	a->inner = 1;
	a->k = s->kept;
	a->type = RLX_F32;
	a->idx_type = RLX_I32;
	a->smallest = true;
	rlx_lower_ref_tmp(s->lo, &a->x, s->scores, 0);
	rlx_lower_ref_tmp(s->lo, &a->idx, s->near, 0);
	return gpu_call_kernel(s->lo, rlx_g_topk_launch, 0);
}

static enum rlx_status call_nearest(const struct search *s, int64_t first, int64_t n)
{
	struct rlx_k_knn *a = rlx_lower_args(s->lo, sizeof(*a));

	a->rows = n;
	a->first = first;
	a->d = s->d;
	a->kept = s->kept;
	a->k = s->k;
	a->type = (uint8_t)s->type;
	a->product = s->metric == RLX_KNN_IP;
	a->root = s->metric == RLX_KNN_L2;
	a->self = s->self;
	rlx_lower_ref_in(s->lo, &a->x, 0, (uint64_t)(first * s->d) * rlx_dtype_size(s->type));
	rlx_lower_ref_in(s->lo, &a->y, !s->self, 0);
	rlx_lower_ref_tmp(s->lo, &a->near, s->near, 0);
	rlx_lower_ref_out(s->lo, &a->distance, 0, (uint64_t)(first * s->k) * sizeof(float));
	rlx_lower_ref_out(s->lo, &a->ids, 1, (uint64_t)(first * s->k) * sizeof(int32_t));
	return gpu_call_kernel(s->lo, rlx_g_knn_launch, 0);
}

enum rlx_status gpu_lower_knn(struct rlx_lower *lo)
{
	const struct rlx_op_knn *op = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_in(lo, 1);
	struct search s = { .lo = lo, .type = x->dtype, .metric = op->metric, .self = !y,
			    .d = x->dim[1], .k = op->k };
	int64_t n = x->dim[0], first, rows;

	s.m = y ? y->dim[0] : n;
	s.kept = op_knn_kept(op->k, s.m, s.self);
	if (!rlx_lower_real(s.type) || s.metric == RLX_KNN_COS || !s.d ||
	    s.kept > RLX_K_KNN_MOST)
		return rlx_lower_unsupported(lo, "cosines, f64, points of no coordinates and so "
						 "many neighbours are made of other steps");
	if (!n || !s.k)
		return lo->status;
	rows = OP_KNN_CHUNK / s.m;
	if (rows > OP_KNN_TERMS / (int64_t)terms_bytes(&s, 1))
		rows = OP_KNN_TERMS / (int64_t)terms_bytes(&s, 1);
	s.rows = rows < 1 ? 1 : rows < n ? rows : n;
	s.scores = rlx_lower_tmp(lo, (uint64_t)(s.rows * s.m) * sizeof(float));
	s.near = rlx_lower_tmp(lo, (uint64_t)(s.rows * s.kept) * sizeof(int32_t));
	if (s.metric != RLX_KNN_IP) {
		s.norms = rlx_lower_tmp(lo, (uint64_t)s.m * sizeof(float));
		if (call_norms(&s))
			return lo->status;
	}
	if (terms_gain(&s, n)) {
		s.left = rlx_lower_tmp(lo, terms_bytes(&s, s.rows));
		s.right = rlx_lower_tmp(lo, terms_bytes(&s, s.m));
		if (call_terms(&s, 1, 0, s.m))
			return lo->status;
	}
	for (first = 0; first < n && !lo->status; first += s.rows) {
		rows = n - first < s.rows ? n - first : s.rows;
		if (call_scores(&s, first, rows) || call_candidates(&s, rows) ||
		    call_nearest(&s, first, rows))
			break;
	}
	return lo->status;
}
