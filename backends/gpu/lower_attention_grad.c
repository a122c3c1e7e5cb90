// SPDX-License-Identifier: MIT
/* The gradient of attention, of heads as they lie. */
#include "backends/common/attention.h"
#include "backends/gpu/gpu.h"
#include "kernels/attention_grad.h"

enum { Y = 5, DY, LSE, DLSE };	/* inputs behind those of attention */

static bool same_dims(const struct rlx_type *a, const struct rlx_type *b)
{
	struct rlx_type t = *a;

	t.dtype = b->dtype;
	return rlx_type_equal(&t, b);
}

/*
 * Gradients lie as q, k and v do. Are those slices, and is each gradient joined to what has as
 * long rows? Then it is written there, and the concat has nothing to copy.
 */
static bool is_packed(struct rlx_lower *lo, uint32_t in[3], uint64_t off[3])
{
	uint64_t from;
	uint32_t k, x;

	for (k = 0; k < 3; k++) {
		x = rlx_lower_in(lo, k)->rank == 3 ? rlx_lower_slice_of(lo, k, &from) : 0;
		in[k] = x ? rlx_lower_part_of(lo, k, &off[k]) : 0;
		if (!in[k] || !same_dims(&lo->plan->val[x].type, &lo->plan->val[in[k]].type))
			return false;
	}
	return true;
}

static void put_gradient(struct rlx_lower *lo, uint32_t k, void *field, uint32_t in, uint64_t off)
{
	if (in)
		rlx_lower_ref_add(lo, field, (struct rlx_ref){ .val = in, .off = off,
							       .access = RLX_WRITE });
	else
		rlx_lower_ref_out(lo, field, k, 0);
}

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
	uint32_t in[3] = { 0 }, k;
	uint64_t off[3] = { 0 };
	bool packed;

	if (g->bias_grad)
		return rlx_lower_unsupported(lo, "the gradient of a bias is that of all scores");
	packed = is_packed(lo, in, off);
	if (!rlx_lower_attention_args(lo, &at, y, packed, &a->a) || !rlx_lower_real(y->dtype) ||
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
	put_gradient(lo, 0, &a->dq, packed ? in[0] : 0, off[0]);
	put_gradient(lo, 1, &a->dk, packed ? in[1] : 0, off[1]);
	put_gradient(lo, 2, &a->dv, packed ? in[2] : 0, off[2]);
	gpu_call_kernel(lo, rlx_g_attention_grad_launch, 0);
	for (k = 0; k < 3 && packed && !lo->status; k++)
		lo->lies_in[lo->st->out[k]] = in[k];
	return lo->status;
}
