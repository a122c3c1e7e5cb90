// SPDX-License-Identifier: MIT
/*
 * Slices that nobody reads: those who would have read what they are slices of
 * (backends/common/lower_within.c), and their copies are left out. Before calls have places.
 */
#include "backends/gpu/group.h"
#include "base/alloc.h"

static bool is_slice(const struct rlx_plan *p, const struct gpu_call *call)
{
	const struct rlx_plan_step *st;

	if (call->kind != GPU_KERNEL_CALL || call->base.step == GPU_NO_STEP)
		return false;
	st = &p->step[call->base.step];
	return st->def && st->def->index == RLX_OP_slice && !st->once;
}

/* Storage that calls other than slices' own refer to, or copies to the host. */
static void mark_used(const struct gpu_code *c, bool *used)
{
	const struct rlx_plan *p = c->base.plan;
	const struct gpu_call *call = gpu_calls(c), *end = call + c->calls.n_call;
	const struct rlx_ref *r;
	uint32_t out;

	for (; call < end; call++) {
		out = is_slice(p, call) ? p->val[p->step[call->base.step].out[0]].root : 0;
		for (r = c->calls.ref + call->base.ref;
		     r < c->calls.ref + call->base.ref + call->base.n_ref; r++)
			if (r->kind == RLX_REF_VALUE && (!out || p->val[r->val].root != out))
				used[p->val[r->val].root] = true;
	}
}

enum rlx_status gpu_drop_unread(struct gpu_code *c, struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	bool *used = rlx_calloc(p->n_val, sizeof(*used));
	struct gpu_call *call = gpu_calls(c);
	uint32_t i, n = 0, root;

	if (!used)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", c->base.dev->be->name);
	mark_used(c, used);
	for (i = 0; i < c->calls.n_call; i++) {
		root = is_slice(p, &call[i]) ? p->val[p->step[call[i].base.step].out[0]].root : 0;
		if (!root || used[root] || p->val[root].place.kind != RLX_PLACE_WORK)
			call[n++] = call[i];
	}
	c->calls.n_call = n;
	rlx_free(used);
	return RLX_OK;
}
