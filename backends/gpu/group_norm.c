// SPDX-License-Identifier: MIT
/*
 * Groups of norms: the end of an encoder (kernels/gpu/encoder_tail.cu: a layer norm, attention of
 * one query to its rows, a norm of that), casts of what a norm makes, and what is added to what
 * a norm's gradient makes.
 */
#include "backends/gpu/group.h"
#include "kernels/gpu/encoder_tail.h"

/* More keys are rows for a launch that has all of the chip. */
enum { MOST_KEYS = 128 };

static void launch_tail(const struct rlx_g_encoder_tail *r, struct rlx_g_launch *l)
{
	rlx_g_line(l, r->a.batch, RLX_G_ENCODER_TAIL_THREADS);
	l->shared = rlx_g_encoder_tail_shared(r->rows.n);
	RLX_G_VARIANT(l, encoder_tail, .TAIL_TYPE = r->rows.x_type,
		      .TAIL_EIGHTS = (int32_t)rlx_g_ceil(r->rows.n, 256),
		      .TAIL_HEAD_DIM = (int32_t)r->a.head_dim);
}

/* A layer norm of f16 or bf16, as the kernel can read them. */
static bool may_be_rows(const struct rlx_plan *p, const struct rlx_plan_step *st,
			const struct rlx_k_norm *n)
{
	return st->def->index == RLX_OP_layer_norm && gpu_is_in(p, st->in[0], RLX_PLACE_WORK) &&
	       st->n_in > 2 && gpu_is_in(p, st->in[1], RLX_PLACE_CONST) &&
	       gpu_is_in(p, st->in[2], RLX_PLACE_CONST) && !n->rms && !n->sum && !n->mean &&
	       !n->inv && (n->x_type == RLX_F16 || n->x_type == RLX_BF16) &&
	       n->y_type == n->x_type && n->param_type == RLX_F32 && n->n % 8 == 0 &&
	       n->n <= RLX_G_ENCODER_TAIL_WIDTH;
}

/* One query of each head to rows of @n, value @rows, which are keys and values. */
static bool may_be_read(const struct gpu_group *g, const struct rlx_k_attention *a,
			const struct rlx_k_norm *n, uint32_t rows)
{
	const struct rlx_plan_step *st = gpu_step_of(g, 1);
	int64_t d = a->head_dim;

	return gpu_is_last_of(g->p, st->in[1], rows, st) &&
	       gpu_is_last_of(g->p, st->in[2], rows, st) &&
	       g->p->val[st->in[0]].root != rows &&
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

bool gpu_group_encoder_tail(struct gpu_group *g)
{
	const struct rlx_k_norm *n = gpu_args_of(g, 0), *last = gpu_args_of(g, 2);
	const struct rlx_k_attention *a = gpu_args_of(g, 1);
	const struct rlx_plan_step *st = gpu_step_of(g, 2);
	struct rlx_g_encoder_tail *r = (void *)g->args;

	if (st->def->index == RLX_OP_fused_residual_norm || a->batch >= 1 << 30 ||
	    !may_be_rows(g->p, gpu_step_of(g, 0), n) ||
	    !may_be_read(g, a, n, gpu_step_of(g, 0)->out[0]) ||
	    !gpu_is_last_of(g->p, st->in[0], gpu_step_of(g, 1)->out[0], st) ||
	    gpu_reads_made(g, 2) ||
	    last->rows != a->batch || last->n != n->n || last->x_type != n->x_type ||
	    last->residual || last->bias || last->sum || last->mean || last->inv ||
	    !rlx_g_small_float(last->y_type) ||
	    ((last->gamma || last->beta) && last->param_type != RLX_F32) ||
	    !gpu_group_take(g, 2, &r->last) || !gpu_group_take(g, 1, &r->a) ||
	    !gpu_group_take(g, 0, &r->rows))
		return false;
	g->n_args = sizeof(*r);
	g->launch = gpu_launch_for(gpu_device_of(&g->c->base), 0);
	launch_tail(r, &g->launch);
	return g->launch.can;
}

/* Does the cast alone read what the launch ahead makes? */
static bool casts_all(const struct gpu_group *g)
{
	const struct rlx_plan_step *st = gpu_step_of(g, 1);

	return st->in[0] == gpu_step_of(g, 0)->out[0] && gpu_dies_at(g->p, st->in[0], st) &&
	       rlx_lower_real(g->p->val[st->out[0]].type.dtype);
}

/* The norm @n, in g->args, writes what the cast makes. */
static void write_cast(struct gpu_group *g, struct rlx_k_norm *n)
{
	uint32_t y = gpu_step_of(g, 1)->out[0];

	gpu_group_writes(g, &n->y, y);
	n->y_type = (uint8_t)g->p->val[y].type.dtype;
	g->rows = g->call->base.rows;
}

bool gpu_group_norm_cast(struct gpu_group *g)
{
	struct rlx_k_norm *n = (void *)g->args;

	if (!casts_all(g) || !gpu_group_take(g, 0, n))
		return false;
	write_cast(g, n);
	g->n_args = sizeof(*n);
	g->launch = gpu_launch_for(gpu_device_of(&g->c->base), (uint64_t)n->rows);
	rlx_g_norm_launch(n, &g->launch);
	return g->launch.can;
}

bool gpu_group_tail_cast(struct gpu_group *g)
{
	struct rlx_g_encoder_tail *r = (void *)g->args;

	if (!casts_all(g) || !gpu_group_take(g, 0, r))
		return false;
	write_cast(g, &r->last);
	g->n_args = sizeof(*r);
	g->launch = g->call->launch;
	return true;
}

/* What @add adds to dx, all of which it alone reads; 0: not so. */
static uint32_t added_to(const struct gpu_group *g, const struct rlx_plan_step *grad,
			 const struct rlx_plan_step *add)
{
	const struct rlx_plan_val *val = g->p->val;
	uint32_t dx = grad->out[0], other = add->in[add->in[0] == dx], k;

	if ((add->in[0] != dx && add->in[1] != dx) || !gpu_dies_at(g->p, dx, add) ||
	    !rlx_type_equal(&val[other].type, &val[dx].type) ||
	    !rlx_type_equal(&val[add->out[0]].type, &val[dx].type))
		return 0;
	for (k = 0; k < grad->n_out; k++)
		if (val[other].root == val[grad->out[k]].root)
			return 0;
	return other;
}

bool gpu_group_norm_grad_add(struct gpu_group *g)
{
	const struct rlx_plan_step *grad = gpu_step_of(g, 0), *add = gpu_step_of(g, 1);
	struct rlx_k_norm_grad *n = (void *)g->args;
	uint32_t other = added_to(g, grad, add);

	if (!other || !gpu_group_take(g, 0, n) || !gpu_group_reads(g, &n->residual, other))
		return false;
	gpu_group_writes(g, &n->dx, add->out[0]);
	g->rows = 0;
	g->n_args = sizeof(*n);
	g->launch = gpu_launch_for(gpu_device_of(&g->c->base), 0);
	rlx_g_norm_grad_launch(n, &g->launch);
	return g->launch.can;
}
