// SPDX-License-Identifier: MIT
/* What decoders are made of: GEMMs of small M or by experts, attention over a cache. */
#include <string.h>

#include "backends/common/gemm.h"
#include "backends/gpu/gpu.h"
#include "kernels/kv_cache.h"
#include "kernels/gemv_stream.h"
#include "ops/defaults.h"

void gpu_stage_gemv_stream(struct rlx_lower *lo)
{
	memset(lo->staged + sizeof(struct rlx_k_gemm), 0,
	       sizeof(struct rlx_k_gemv_stream) - sizeof(struct rlx_k_gemm));
	lo->n_staged = sizeof(struct rlx_k_gemv_stream);
}

enum rlx_status gpu_lower_fused_norm_matmul(struct rlx_lower *lo)
{
	static const enum rlx_k_gate gates[] = {
		[RLX_SWIGLU_NONE] = RLX_GATE_NONE, [RLX_SWIGLU_LAST] = RLX_GATE_LAST,
		[RLX_SWIGLU_FIRST] = RLX_GATE_FIRST,
	};
	const struct rlx_op_fused_norm_matmul *f = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);
	const struct rlx_type *gamma = rlx_lower_in(lo, 2), *y = rlx_lower_out(lo, 0);
	struct rlx_k_gemv_stream *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_k_gemm *g = &a->g;

	if (!f->trans_w || !rlx_lower_real(x->dtype) || x->dtype != w->dtype ||
	    (gamma && (gamma->dtype != x->dtype ||
		       rlx_type_count(gamma) != w->dim[1])))
		return rlx_lower_unsupported(lo, "the GPU kernel does not take this form");
	g->m = (size_t)shape_span(y, 0, y->rank - 1);
	g->n = g->ldc = (size_t)y->dim[y->rank - 1];
	g->k = g->lda = g->ldb = (size_t)w->dim[1];
	g->b_form = RLX_B_COLS;
	g->alpha = 1;
	g->a_type = g->b_type = x->dtype;
	g->c_type = y->dtype;
	g->b_fixed = gpu_is_fixed(lo, 1);
	a->norm = true;
	a->eps = f->eps;
	a->gate = gates[f->gate];
	rlx_lower_ref_in(lo, &g->a, 0, 0);
	rlx_lower_ref_in(lo, &g->b, 1, 0);
	rlx_lower_ref_in(lo, &a->gamma, 2, 0);
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	return gpu_call_kernel(lo, rlx_g_gemv_stream_launch, 0);
}

/* What both have: all but the matrices, of @n columns. */
static void grouped_args(struct rlx_lower *lo, struct rlx_g_grouped *a, int64_t n)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);
	struct rlx_k_gemm *g = &a->g;

	g->m = (size_t)x->dim[0];
	g->k = g->lda = (size_t)x->dim[1];
	g->n = g->ldb = g->ldc = (size_t)n;
	g->b_step[0] = g->k * g->n;
	g->alpha = 1;
	g->a_type = x->dtype;
	g->b_type = w->dtype;
	g->c_type = rlx_lower_out(lo, 0)->dtype;
	a->groups = (uint64_t)w->dim[0];
	a->idx_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	rlx_lower_ref_in(lo, &g->a, 0, 0);
	rlx_lower_ref_in(lo, &a->idx, 2, 0);
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, x->dim[0]);
}

enum rlx_status gpu_lower_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1),
			      *y = rlx_lower_out(lo, 0);
	bool wide = y->dtype == RLX_F64, is_16bit = x->dtype != RLX_F32 || w->dtype != RLX_F32;
	struct rlx_g_grouped *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_expert_product *placed = gpu_experts_placed(lo);
	uint32_t before = lo->calls->n_call;
	enum rlx_status st;

	if (wide ? x->dtype != w->dtype : !rlx_lower_real(x->dtype) || !rlx_lower_real(w->dtype))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	grouped_args(lo, a, w->dim[2]);
	if (!placed)		/* else it is not there as a whole: see experts.c */
		rlx_lower_ref_in(lo, &a->g.b, 1, 0);
	st = gpu_call_kernel(lo, wide ? rlx_g_grouped_f64_launch : is_16bit ?
			     rlx_g_grouped_halves_launch : rlx_g_grouped_f32_launch, 0);
	if (!st && placed)
		gpu_experts_lowered(lo, placed, before);
	return st;
}

/*
 * An expert becomes floats when it is its turn, so that what lies in device memory is packed. Else
 * all become floats ahead of it, as the op expands, once if they are params or constants.
 */
enum rlx_status gpu_lower_dequant_grouped_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_dequant_grouped_matmul *d = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *w = rlx_lower_in(lo, 1);
	struct rlx_expert_product *placed = gpu_experts_placed(lo);
	const int64_t k = x->dim[1], n = w->dim[1];
	uint32_t before = lo->calls->n_call, floats;
	struct rlx_k_dequant_blocks *u;
	struct rlx_g_grouped *a;
	enum rlx_status st;

	if (!placed || x->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "the kernel multiplies f32, made ahead of it");
	floats = rlx_lower_tmp(lo, (uint64_t)(n * k) * sizeof(float));
	u = rlx_lower_args(lo, sizeof(*u));
	u->n = n * k;
	u->scheme = (uint8_t)d->scheme;
	u->y_type = RLX_F32;
	rlx_lower_ref_tmp(lo, &u->y, floats, 0);
	st = gpu_call_kernel(lo, rlx_g_dequant_blocks_launch, 0);
	if (st)
		return st;
	a = rlx_lower_args(lo, sizeof(*a));
	grouped_args(lo, a, n);
	a->g.b_form = RLX_B_COLS;
	a->g.ldb = (size_t)k;
	a->g.b_type = RLX_F32;
	rlx_lower_ref_tmp(lo, &a->g.b, floats, 0);
	st = gpu_call_kernel(lo, rlx_g_grouped_f32_launch, 0);
	if (!st)
		gpu_experts_lowered(lo, placed, before);
	return st;
}

enum rlx_status gpu_lower_cached_attention(struct rlx_lower *lo)
{
	const struct rlx_op_cached_attention *c = lo->args;
	const struct rlx_type *cache = rlx_lower_in(lo, 0), *x = rlx_lower_in(lo, 1);
	const struct rlx_type *cos = rlx_lower_in(lo, 3), *sin = rlx_lower_in(lo, 4);
	bool alone = lo->plan->val[lo->st->in[0]].place.kind == RLX_PLACE_INPUT;
	enum rlx_status st;
	struct rlx_k_kv_cache *a;

	if (x->dim[1] != 1 || x->dtype != cache->dtype ||
	    (cos && cos->dtype != sin->dtype))
		return rlx_lower_unsupported(lo, "the GPU kernel does not take this form");
	if (!gpu_in_place(lo)) {
		alone = false;
		st = rlx_lower_copy(lo);
		if (st)
			return st;
	}
	a = rlx_lower_args(lo, sizeof(*a));
	a->batch = cache->dim[1];
	a->rows = cache->dim[2];
	a->kv_heads = cache->dim[3];
	a->dim = cache->dim[4];
	a->heads = c->heads;
	a->scale = (float)op_attention_scale(c->scale, a->dim);
	a->settled = alone && (!cos || (gpu_is_fixed(lo, 3) && gpu_is_fixed(lo, 4)));
	a->pairs = c->style == RLX_ROPE_GPTJ;
	a->type = (uint8_t)x->dtype;
	a->pos_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	rlx_lower_ref_out(lo, &a->cache, 0, 0);
	rlx_lower_ref_in(lo, &a->x, 1, 0);
	rlx_lower_ref_in(lo, &a->pos, 2, 0);
	rlx_lower_ref_out(lo, &a->out, 1, 0);
	rlx_lower_ref_status(lo, &a->bad);
	rlx_lower_checked(lo, &a->live, a->batch);
	if (cos) {
		a->positions = cos->dim[0];
		a->table_type = (uint8_t)cos->dtype;
		rlx_lower_ref_in(lo, &a->cos, 3, 0);
		rlx_lower_ref_in(lo, &a->sin, 4, 0);
	}
	return gpu_call_kernel(lo, rlx_g_kv_cache_launch, 0);
}
