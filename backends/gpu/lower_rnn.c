// SPDX-License-Identifier: MIT
/* LSTM, GRU and RNN: weights as they are, a product for each direction's inputs. */
#include "backends/common/gemm.h"
#include "backends/common/rnn_desc.h"
#include "backends/gpu/gpu.h"

static enum rlx_status project(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	enum rlx_dtype x = rlx_lower_in(lo, 0)->dtype, w = rlx_lower_in(lo, 1)->dtype;
	size_t n = (size_t)(r->gates * r->hidden), k = (size_t)r->in, d;

	for (d = 0; d < (size_t)r->dirs && !lo->status; d++) {
		struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));

		g->m = (size_t)(r->steps * r->batch);
		g->n = n;
		g->k = g->lda = g->ldb = k;
		g->ldc = n * (size_t)r->dirs;
		g->b_form = RLX_B_COLS;
		g->a_type = x;
		g->b_type = w;
		g->c_type = RLX_F32;
		g->alpha = 1;
		rlx_lower_ref_in(lo, &g->a, 0, 0);
		rlx_lower_ref_in(lo, &g->b, 1, d * n * k * rlx_dtype_size(w));
		rlx_lower_ref_tmp(lo, &g->c, r->tmp, d * n * 4);
		rlx_lower_call(lo, x == RLX_F32 && w == RLX_F32 ? RLX_KERNEL_gemm_f32 :
			       RLX_KERNEL_gemm_bf16, 0, 0, 0);
	}
	return lo->status;
}

/* Of input @k, if it is there. */
static uint8_t type_of(const struct rlx_lower *lo, uint32_t k)
{
	return rlx_lower_in(lo, k) ? (uint8_t)rlx_lower_in(lo, k)->dtype : 0;
}

enum rlx_status gpu_recur(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	bool lstm = r->cell == RLX_K_RNN_LSTM;
	struct rlx_k_rnn *a;

	if (!rlx_lower_real(rlx_lower_in(lo, 0)->dtype) ||
	    !rlx_lower_real(rlx_lower_in(lo, 1)->dtype))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (!r->steps || !r->batch || !r->in || !r->hidden)
		return rlx_lower_unsupported(lo, "no kernel for an empty recurrence");
	if (project(lo, r))
		return lo->status;
	a = rlx_recurrence_args(lo, r);
	a->r_type = type_of(lo, 2);
	a->y_type = (uint8_t)rlx_lower_out(lo, 0)->dtype;
	a->type.b = type_of(lo, 3);
	a->type.h0 = type_of(lo, 5);
	a->type.c0 = lstm ? type_of(lo, 6) : 0;
	a->type.peep = lstm ? type_of(lo, 7) : 0;
	rlx_lower_ref_in(lo, &a->r, 2, 0);
	rlx_lower_ref_in(lo, &a->b, 3, 0);
	return rlx_lower_call(lo, RLX_KERNEL_rnn, 0, 0, 0);
}
