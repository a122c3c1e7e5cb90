// SPDX-License-Identifier: MIT
/*
 * The end of an encoder as one launch (kernels/gpu/encoder_tail.cu): a layer norm, attention of
 * one query to its rows, a norm of that, and a cast of what comes out.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "kernels/gpu/encoder_tail.h"

/* More keys are rows for a launch that has all of the chip. */
enum { MOST_KEYS = 128 };

static void launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_g_encoder_tail *r = args;

	rlx_g_line(l, r->a.batch, RLX_G_ENCODER_TAIL_THREADS);
	l->shared = rlx_g_encoder_tail_shared(r->rows.n);
	RLX_G_VARIANT(l, encoder_tail, .TAIL_TYPE = r->rows.x_type,
		      .TAIL_EIGHTS = (int32_t)rlx_g_ceil(r->rows.n, 256),
		      .TAIL_HEAD_DIM = (int32_t)r->a.head_dim);
}

/* A layer norm of f16 or bf16, as the kernel can read them. */
static bool may_be_rows(const struct rlx_lower *lo, const struct rlx_plan_step *st,
			const struct rlx_k_norm *n)
{
	return gpu_is_in(lo, st->in[0], RLX_PLACE_WORK) && st->n_in > 2 &&
	       gpu_is_in(lo, st->in[1], RLX_PLACE_CONST) &&
	       gpu_is_in(lo, st->in[2], RLX_PLACE_CONST) && !n->rms && !n->sum && !n->mean &&
	       !n->inv && (n->x_type == RLX_F16 || n->x_type == RLX_BF16) &&
	       n->y_type == n->x_type && n->param_type == RLX_F32 && n->n % 8 == 0 &&
	       n->n <= RLX_G_ENCODER_TAIL_WIDTH;
}

/* One query of each head to rows of @n, which are keys and values. */
static bool may_be_read(const struct rlx_lower *lo, const struct rlx_plan_step *st,
			const struct rlx_k_attention *a, const struct rlx_k_norm *n)
{
	uint32_t rows = st[-1].out[0];
	int64_t d = a->head_dim;

	return gpu_is_last_of(lo, st->in[1], rows, st) && gpu_is_last_of(lo, st->in[2], rows, st) &&
	       lo->plan->val[st->in[0]].root != rows &&
	       (d & (d - 1)) == 0 && d >= 8 && d <= 256 && a->v_dim == d &&
	       a->heads * d == n->n && a->kv_heads == a->heads && a->q_len == 1 &&
	       a->kv_len <= MOST_KEYS && a->batch * a->kv_len == n->rows && !a->bias &&
	       !a->lse && !a->causal && a->window <= 0 && !(a->softcap > 0) &&
	       a->q_type == n->x_type && a->kv_type == n->x_type && a->out_type == n->x_type &&
	       a->q_stride[0] % 8 == 0 && a->q_stride[1] == d && a->k_stride[1] == d &&
	       a->v_stride[1] == d && a->k_stride[2] == n->n && a->v_stride[2] == n->n &&
	       a->k_stride[0] == a->kv_len * n->n && a->v_stride[0] == a->kv_len * n->n &&
	       a->out_stride[1] == d && (a->out_stride[0] == n->n || a->batch == 1);
}

/* Does the staged norm @last of step @st end what stands ahead of it? */
static bool may_read_out(struct rlx_lower *lo, const struct rlx_k_norm *last)
{
	const struct gpu_call *attends = gpu_call_before(lo, 0, RLX_OP_attention);
	const struct gpu_call *makes = gpu_call_before(lo, 1, RLX_OP_layer_norm);
	const struct rlx_plan_step *st = lo->st;
	const struct rlx_k_attention *a;
	const struct rlx_k_norm *n;

	if (!attends || !makes ||
	    (st->def->index != RLX_OP_rms_norm && st->def->index != RLX_OP_layer_norm))
		return false;
	a = gpu_args_of(lo, attends);
	n = gpu_args_of(lo, makes);
	return a->batch < 1 << 30 && may_be_rows(lo, st - 2, n) && may_be_read(lo, st - 1, a, n) &&
	       gpu_is_last_of(lo, st->in[0], st[-1].out[0], st) &&
	       !gpu_reads_again(lo, st[-1].out[0]) && last->rows == a->batch &&
	       last->n == n->n && last->x_type == n->x_type && !last->residual && !last->bias &&
	       !last->sum && !last->mean && !last->inv && rlx_g_small_float(last->y_type) &&
	       ((!last->gamma && !last->beta) || last->param_type == RLX_F32);
}

/* The cast behind it does the same, and writes what it makes of it. */
static bool cast_follows(const struct rlx_lower *lo)
{
	const struct rlx_plan_step *st = lo->st + 1;

	return st < lo->plan->step + lo->plan->n_step && st->def &&
	       st->def->index == RLX_OP_cast && st->in[0] == lo->st->out[0] &&
	       gpu_dies_at(lo, st->in[0], st);
}

bool gpu_read_out(struct rlx_lower *lo, uint32_t cast, enum rlx_status *out)
{
	struct rlx_g_encoder_tail *r = (void *)lo->staged;
	struct gpu_code *c = (struct gpu_code *)lo->code;
	bool may;

	if (!cast && cast_follows(lo))
		return false;
	lo->st -= cast;
	may = may_read_out(lo, &r->last);
	lo->st += cast;
	if (!may)
		return false;
	memset(&r->rows, 0, sizeof(*r) - offsetof(struct rlx_g_encoder_tail, rows));
	gpu_take_last(lo, &r->a);
	gpu_take_last(lo, &r->rows);
	lo->n_staged = sizeof(*r);
	*out = gpu_call_kernel(lo, launch, 0);
	if (!*out) {
		gpu_calls(c)[c->calls.n_call - 1].base.step -= 2 + cast;
		gpu_calls(c)[c->calls.n_call - 1].base.n_step += 2 + cast;
	}
	return true;
}
