// SPDX-License-Identifier: MIT
/* Launches that do the work of the preceding step too, whose own launch is taken back. */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "kernels/norm.h"

static struct gpu_code *code_of(const struct rlx_lower *lo)
{
	return (struct gpu_code *)lo->code;
}

const struct gpu_call *gpu_call_before(const struct rlx_lower *lo, uint32_t i, unsigned int op)
{
	const struct gpu_code *c = code_of(lo);
	uint32_t at = (uint32_t)(lo->st - lo->plan->step);
	const struct rlx_plan_step *st;
	const struct gpu_call *call;

	if (c->calls.n_call <= i || at <= i)
		return NULL;
	st = lo->st - 1 - i;
	call = &gpu_calls(c)[c->calls.n_call - 1 - i];
	return st->def && st->def->index == op && call->kind == GPU_KERNEL_CALL &&
	       call->base.n_step == 1 && !call->joined && call->launch.n_launches < 2 &&
	       call->base.step == at - 1 - i ? call : NULL;
}

bool gpu_dies_at(const struct rlx_lower *lo, uint32_t v, const struct rlx_plan_step *st)
{
	const struct rlx_plan_val *val = &lo->plan->val[v];

	return val->root == v && val->place.kind == RLX_PLACE_WORK &&
	       val->last == (uint32_t)(st - lo->plan->step);
}

bool gpu_is_in(const struct rlx_lower *lo, uint32_t v, enum rlx_place_kind kind)
{
	return v && lo->plan->val[v].place.kind == kind;
}

bool gpu_is_last_of(const struct rlx_lower *lo, uint32_t v, uint32_t root,
		    const struct rlx_plan_step *st)
{
	return lo->plan->val[v].root == root && gpu_dies_at(lo, root, st) &&
	       rlx_plan_bytes(lo->plan, v) == rlx_plan_bytes(lo->plan, root);
}

bool gpu_reads_again(const struct rlx_lower *lo, uint32_t v)
{
	uint32_t i;

	for (i = 1; i < lo->st->n_in; i++)
		if (lo->st->in[i] && lo->plan->val[lo->st->in[i]].root == lo->plan->val[v].root)
			return true;
	return false;
}

const void *gpu_args_of(const struct rlx_lower *lo, const struct gpu_call *call)
{
	return lo->calls->args + call->base.args;
}

void gpu_take_last(struct rlx_lower *lo, void *to)
{
	struct rlx_calls *c = lo->calls;
	const struct rlx_call *last = rlx_call_at(c, --c->n_call);
	uint32_t i;

	memcpy(to, c->args + last->args, last->n_args);
	if (last->checked.n) {		/* at most one of a launch's parts checks */
		lo->checked = last->checked;
		lo->checked.at += (uint64_t)((unsigned char *)to - lo->staged);
	}
	for (i = last->ref; i < last->ref + last->n_ref; i++) {
		const struct rlx_place *at = &lo->plan->val[c->ref[i].val].place;

		if (at->kind == RLX_PLACE_INPUT)	/* counted when the call is there again */
			code_of(lo)->io[at->index].readers--;
		rlx_lower_ref_add(lo, (char *)to + c->ref[i].at, c->ref[i]);
	}
}

/* ---- a norm, and a cast of what comes out ---- */

static const struct gpu_call *prologue_norm(const struct rlx_lower *lo)
{
	static const unsigned int ops[] = { RLX_OP_layer_norm, RLX_OP_rms_norm,
					    RLX_OP_fused_residual_norm };
	const struct gpu_call *call = NULL;
	unsigned int i;

	for (i = 0; i < 3 && !call; i++)
		call = gpu_call_before(lo, 0, ops[i]);
	return call;
}

bool gpu_norm_may_cast(const struct rlx_lower *lo)
{
	const struct rlx_plan_step *st = lo->st - 1;

	return prologue_norm(lo) && lo->st->in[0] == st->out[0] &&
	       gpu_dies_at(lo, st->out[0], lo->st) &&
	       rlx_lower_real(rlx_lower_out(lo, 0)->dtype);
}

enum rlx_status gpu_cast_norm(struct rlx_lower *lo)
{
	struct rlx_k_norm *a = rlx_lower_args(lo, sizeof(*a));
	struct gpu_code *c = code_of(lo);
	uint32_t i, n = 0;
	enum rlx_status st;

	gpu_take_last(lo, a);
	for (i = 0; i < lo->n_ref; i++)
		if (lo->ref[i].at != offsetof(struct rlx_k_norm, y))
			lo->ref[n++] = lo->ref[i];
	lo->n_ref = n;
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	a->y_type = (uint8_t)rlx_lower_out(lo, 0)->dtype;
	rlx_lower_extent(lo, a->rows, NULL);
	if (gpu_read_out(lo, 1, &st))
		return st;
	st = gpu_call_kernel(lo, rlx_g_norm_launch, (uint64_t)a->rows);
	if (st)
		return st;
	gpu_calls(c)[c->calls.n_call - 1].base.step--;
	gpu_calls(c)[c->calls.n_call - 1].base.n_step++;
	return RLX_OK;
}
