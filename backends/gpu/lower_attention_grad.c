// SPDX-License-Identifier: MIT
/* The gradient of attention, of heads as they lie. */
#include "backends/common/attention.h"
#include "backends/gpu/gpu.h"
#include "kernels/attention_grad.h"

enum { Y = 5, DY, LSE, DLSE };	/* inputs behind those of attention */

enum rlx_status gpu_lower_attention_grad(struct rlx_lower *lo)
{
	const struct rlx_op_attention_grad *g = lo->args;
	const struct rlx_op_attention at = {
		.heads = g->heads, .kv_heads = g->kv_heads, .layout = g->layout, .mask = g->mask,
		.window = g->window, .scale = g->scale, .softcap = g->softcap,
	};
	const struct rlx_type *y = rlx_lower_in(lo, Y), *dy = rlx_lower_in(lo, DY);
	const struct rlx_type *lse = rlx_lower_in(lo, LSE), *dlse = rlx_lower_in(lo, DLSE);
	enum rlx_dtype type = rlx_lower_out(lo, 0)->dtype;
	struct rlx_k_attention_grad *a = rlx_lower_args(lo, sizeof(*a));

	if (g->bias_grad)
		return rlx_lower_unsupported(lo, "the gradient of a bias is that of all scores");
	if (!rlx_lower_attention_args(lo, &at, y, &a->a) || !rlx_lower_real(y->dtype) ||
	    dy->dtype != a->a.q_type || a->a.kv_type != a->a.q_type || !rlx_lower_real(type) ||
	    !rlx_lower_real(lse->dtype) || (dlse && !rlx_lower_real(dlse->dtype)) ||
	    rlx_lower_out(lo, 1)->dtype != type || rlx_lower_out(lo, 2)->dtype != type)
		return rlx_lower_unsupported(lo, "no kernel for these dtypes or sizes");
	a->grad_type = (uint8_t)type;
	rlx_lower_ref_in(lo, &a->a.out, Y, 0);
	rlx_lower_ref_in(lo, &a->a.lse, LSE, 0);
	rlx_lower_ref_in(lo, &a->dy, DY, 0);
	a->lse_type = (uint8_t)lse->dtype;
	if (dlse) {
		a->dlse_type = (uint8_t)dlse->dtype;
		rlx_lower_ref_in(lo, &a->dlse, DLSE, 0);
	}
	rlx_lower_ref_out(lo, &a->dq, 0, 0);
	rlx_lower_ref_out(lo, &a->dk, 1, 0);
	rlx_lower_ref_out(lo, &a->dv, 2, 0);
	return gpu_call_kernel(lo, rlx_g_attention_grad_launch, 0);
}
