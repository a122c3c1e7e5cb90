// SPDX-License-Identifier: MIT
/* Attention over strided heads, so that no operand is transposed first. */
#include "backends/common/attention.h"
#include "kernels/type.h"
#include "ops/defaults.h"

struct view {
	int64_t	heads, len, width, stride[3];
};

/* Rank 3 is [batch, sequence, heads * width]; rank 4 by layout. */
static struct view view_of(const struct rlx_type *t, int64_t heads, int32_t layout)
{
	struct view v;

	if (t->rank == 3) {
		v = (struct view){ heads, t->dim[1], t->dim[2] / heads,
				   { t->dim[1] * t->dim[2], t->dim[2] / heads, t->dim[2] } };
	} else if (layout == RLX_BSHD) {
		v = (struct view){ t->dim[2], t->dim[1], t->dim[3],
				   { t->dim[1] * t->dim[2] * t->dim[3], t->dim[3],
				     t->dim[2] * t->dim[3] } };
	} else {
		v = (struct view){ t->dim[1], t->dim[2], t->dim[3],
				   { t->dim[1] * t->dim[2] * t->dim[3],
				     t->dim[2] * t->dim[3], t->dim[3] } };
	}
	return v;
}

static void copy3(int64_t *to, const int64_t *from)
{
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
}

/*
 * Operand @k of rank 3 to @field, by @stride: with @slices, where it is a slice of what is packed,
 * such as the product that q, k and v are parts of, it is read there.
 */
static void take_heads(struct rlx_lower *lo, uint32_t k, bool slices, void *field,
		       int64_t stride[3])
{
	const struct rlx_type *t = rlx_lower_in(lo, k), *x;
	uint64_t off = 0;
	uint32_t v = slices && t->rank == 3 ? rlx_lower_slice_of(lo, k, &off) : 0;

	if (!v) {
		rlx_lower_ref_in(lo, field, k, 0);
		return;
	}
	x = &lo->plan->val[v].type;
	stride[0] = x->dim[1] * x->dim[2];
	stride[2] = x->dim[2];
	rlx_lower_ref_add(lo, field, (struct rlx_ref){ .val = v, .off = off,
						       .access = RLX_READ });
}

/* Bias and lengths; false: a kind the kernel does not take. */
static bool take_masks(struct rlx_lower *lo, struct rlx_k_attention *a)
{
	const struct rlx_type *bias = rlx_lower_in(lo, 3), *lens = rlx_lower_in(lo, 4);
	struct rlx_type scores = { RLX_F32, 4, { a->batch, a->heads, a->q_len, a->kv_len } };

	if (bias) {
		if (bias->dtype != RLX_F32 && bias->dtype != RLX_BOOL)
			return false;
		shape_broadcast(bias, &scores, a->bias_stride);
		a->bias_type = (uint8_t)bias->dtype;
		rlx_lower_ref_in(lo, &a->bias, 3, 0);
	}
	if (lens) {
		a->lens_type = (uint8_t)lens->dtype;
		rlx_lower_ref_in(lo, &a->kv_lens, 4, 0);
	}
	return !lens || lens->dtype == RLX_I32 || lens->dtype == RLX_I64;
}

bool rlx_lower_attention_args(struct rlx_lower *lo, const struct rlx_op_attention *at,
			      const struct rlx_type *y, bool slices, struct rlx_k_attention *a)
{
	const struct rlx_type *q = rlx_lower_in(lo, 0), *k = rlx_lower_in(lo, 1),
			      *v = rlx_lower_in(lo, 2);
	struct view vq, vk, vv, vo;

	vq = view_of(q, at->heads, at->layout);
	a->heads = vq.heads;
	a->kv_heads = op_kv_heads(at->kv_heads, vq.heads);
	vk = view_of(k, a->kv_heads, at->layout);
	vv = view_of(v, a->kv_heads, at->layout);
	vo = view_of(y, a->heads, at->layout);
	a->batch = q->dim[0];
	a->q_len = vq.len;
	a->kv_len = vk.len;
	a->head_dim = vq.width;
	a->v_dim = vv.width;
	copy3(a->q_stride, vq.stride);
	copy3(a->k_stride, vk.stride);
	copy3(a->v_stride, vv.stride);
	copy3(a->out_stride, vo.stride);
	a->scale = (float)op_attention_scale(at->scale, vq.width);
	a->softcap = at->softcap;
	a->q_offset = a->kv_len - a->q_len;
	a->causal = at->mask != RLX_MASK_NONE;
	a->window = at->mask == RLX_MASK_SLIDING ? at->window : 0;
	a->strict = lo->strict;
	a->q_type = (uint8_t)q->dtype;
	a->kv_type = (uint8_t)k->dtype;
	a->out_type = (uint8_t)y->dtype;
	if (!rlx_lower_real(q->dtype) || !rlx_lower_real(k->dtype) || k->dtype != v->dtype ||
	    a->head_dim > 1024 || a->v_dim > 1024 || a->head_dim < 1 || a->v_dim < 1 ||
	    a->kv_len < 1 || !rlx_type_count(y) || !take_masks(lo, a))
		return false;
	take_heads(lo, 0, slices, &a->q, a->q_stride);
	take_heads(lo, 1, slices, &a->k, a->k_stride);
	take_heads(lo, 2, slices, &a->v, a->v_stride);
	return true;
}

/*
 * Heads that share keys become queries of one, where they lie one behind the other and what a query
 * sees does not depend on its place: tiles are filled with them, and keys are read once for all.
 */
static void fold_heads(struct rlx_k_attention *a)
{
	const int64_t group = a->heads / a->kv_heads, len = a->q_len;
	int64_t *const head[] = { &a->q_stride[1], &a->out_stride[1], &a->bias_stride[1] };
	int64_t *const query[] = { &a->q_stride[2], &a->out_stride[2], &a->bias_stride[2] };

	if (len == 1 && a->window <= 0)
		a->causal = false;	/* it stands at the last key */
	if (group < 2 || a->causal || a->window > 0)
		return;
	for (int i = 0; i < 3 && len > 1; i++)
		if (*head[i] != len * *query[i])
			return;
	for (int i = 0; i < 3; i++) {
		*query[i] = len > 1 ? *query[i] : *head[i];
		*head[i] = group * len * *query[i];
	}
	a->heads = a->kv_heads;
	a->q_len = group * len;
	a->q_offset = a->kv_len - a->q_len;
}

enum rlx_status rlx_lower_attention(struct rlx_lower *lo)
{
	const struct rlx_op_attention *at = lo->args;
	struct rlx_k_attention *a = rlx_lower_args(lo, sizeof(*a));

	if (!rlx_lower_attention_args(lo, at, rlx_lower_out(lo, 0), true, a))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes or sizes");
	fold_heads(a);
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	if (at->lse)
		rlx_lower_ref_out(lo, &a->lse, 1, 0);
	rlx_lower_extent(lo, a->batch, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_attention, rlx_k_attention_units(a),
			      (double)(a->batch * a->heads) * (double)a->q_len *
			      (double)a->kv_len * (double)(a->head_dim + a->v_dim) / 4,
			      rlx_k_attention_scratch(a));
}
