// SPDX-License-Identifier: MIT
/*
 * Sums over ranks, and what ranks have: calls of the session's communicator, between the graphs of
 * launches. A sum in place goes on in a stream of its own while launches behind it run; the first
 * call that uses what it sums waits for it, on the device.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "ir/eval.h"

/* ---- compiling ---- */

static enum rlx_status lower_collective(struct rlx_lower *lo)
{
	const struct rlx_op_all_reduce *p = lo->args;	/* as the others' are */
	int64_t in = rlx_type_count(rlx_lower_in(lo, 0));
	int64_t out = rlx_type_count(rlx_lower_out(lo, 0));
	struct gpu_collective *a;
	struct gpu_call *call;

	if (p->ranks == 1)
		return rlx_lower_copy(lo);
	if (lo->strict && rlx_op_sums_ranks(lo->st->def))
		return rlx_lower_unsupported(lo, "in which order ranks are added up is the "
					     "communicator's to say");
	a = rlx_lower_args(lo, sizeof(*a));
	a->count = in < out ? in : out;
	a->dtype = (int32_t)rlx_lower_in(lo, 0)->dtype;
	a->ranks = p->ranks;
	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	if (gpu_apply_relocations(lo))
		return lo->status;
	call = rlx_lower_append(lo, false);
	if (!call)
		return lo->status;
	call->kind = GPU_COLLECTIVE_CALL;
	return RLX_OK;
}

#define COLLECTIVE(op)							\
enum rlx_status gpu_lower_##op(struct rlx_lower *lo)			\
{									\
	return lower_collective(lo);					\
}
COLLECTIVE(all_reduce)
COLLECTIVE(reduce_scatter)
COLLECTIVE(all_gather)
COLLECTIVE(own_part)

/* The workspace's value that a call sums in place; 0: it sums from one place to another. */
static uint32_t summed(const struct gpu_code *c, const struct gpu_call *call)
{
	const struct rlx_plan_step *st = &c->base.plan->step[call->base.step];
	const struct rlx_plan_val *val = c->base.plan->val;
	uint32_t root = val[st->out[0]].root;

	return val[st->in[0]].root == root && val[root].place.kind == RLX_PLACE_WORK ? root : 0;
}

static bool uses(const struct gpu_code *c, const struct gpu_call *call, const bool *busy)
{
	const struct rlx_ref *r = c->calls.ref + call->base.ref, *end = r + call->base.n_ref;

	for (; r < end; r++)
		if (busy[c->base.plan->val[r->val].root])
			return true;
	return false;
}

/* While there are references: which sums go aside, which calls wait for those before. */
enum rlx_status gpu_mark_sums(struct gpu_code *c, struct rlx_error *err)
{
	struct gpu_call *call = gpu_calls(c), *end = call + c->calls.n_call;
	bool *busy = rlx_calloc(c->base.plan->n_val, sizeof(*busy)), any = false;
	uint32_t root;

	if (!busy)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", c->base.dev->be->name);
	for (; call < end; call++) {
		root = call->kind == GPU_COLLECTIVE_CALL ? summed(c, call) : 0;
		call->aside = root;
		/* the host's steps and copies have no references to all that they use */
		if (any && !root && (call->kind != GPU_KERNEL_CALL || uses(c, call, busy))) {
			call->joins = true;
			memset(busy, 0, c->base.plan->n_val * sizeof(*busy));
			any = false;
		}
		if (root)
			any = busy[root] = true;
	}
	rlx_free(busy);
	return RLX_OK;
}

/* ---- running ---- */

static enum rlx_status make_side(struct gpu_exec *x)
{
	struct gpu_device *d = gpu_exec_device(x);
	int rc = 0;

	if (!x->side)
		rc = d->api->stream_new(&x->side, GPU_STREAM_APART);
	if (!rc && !x->sum_from)
		rc = d->api->event_new(&x->sum_from, GPU_EVENT_PLAIN);
	if (!rc && !x->sum_done)
		rc = d->api->event_new(&x->sum_done, GPU_EVENT_PLAIN);
	return gpu_check(d, rc, "making a stream", x->base.err);
}

void gpu_side_free(struct gpu_exec *x)
{
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;

	if (x->sum_from)
		api->event_free(x->sum_from);
	if (x->sum_done)
		api->event_free(x->sum_done);
	if (x->side)
		api->stream_free(x->side);
}

/* The sum comes after what the stream has by now. */
static enum rlx_status step_aside(struct gpu_exec *x)
{
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = make_side(x);
	int rc;

	if (st)
		return st;
	rc = d->api->event_record(x->sum_from, x->stream);
	if (!rc)
		rc = d->api->stream_after(x->side, x->sum_from, 0);
	return gpu_check(d, rc, "a sum over ranks", x->base.err);
}

/* Where the device cannot be told to wait for the sums aside, the host does it at once. */
static enum rlx_status said_to_wait(struct gpu_exec *x, int rc)
{
	struct gpu_device *d = gpu_exec_device(x);

	if (rc)
		d->api->stream_wait(x->side);
	return gpu_check(d, rc, "a sum over ranks", x->base.err);
}

/* Sums aside end here, also one that failed: it may have left something in the stream. */
static enum rlx_status end_aside(struct gpu_exec *x, enum rlx_status st)
{
	int rc = gpu_exec_device(x)->api->event_record(x->sum_done, x->side);
	enum rlx_status ended = said_to_wait(x, rc);

	x->summing = !rc;
	return st ? st : ended;
}

static enum rlx_status copy(struct gpu_exec *x, uint64_t dst, uint64_t src, uint64_t bytes)
{
	struct gpu_device *d = gpu_exec_device(x);

	return gpu_check(d, d->api->copy(dst, src, bytes, x->stream), "a sum over ranks",
			 x->base.err);
}

static enum rlx_status sum(struct gpu_exec *x, const struct gpu_call *call, void *stream)
{
	const struct rlx_plan *p = x->base.code->plan;
	const struct rlx_plan_step *s = &p->step[call->base.step];
	const struct rlx_collective *c = x->base.collective;
	uint64_t src, dst, bytes = rlx_plan_bytes(p, s->out[0]);
	bool in_place = s->def->index == RLX_OP_all_reduce;
	enum rlx_status st;
	struct gpu_collective a;
	struct rlx_reduction r;

	memcpy(&a, x->image + call->base.args, sizeof(a));
	src = gpu_looked_up(x->places, a.src);
	dst = gpu_looked_up(x->places, a.dst);
	st = rlx_collective_check(c, s->def, a.ranks, x->base.err);
	if (!st && s->def->index == RLX_OP_own_part)
		return copy(x, dst, src + c->rank * bytes, bytes);
	if (!st && in_place && src != dst)
		st = copy(x, dst, src, bytes);
	r = (struct rlx_reduction){
		.src = (const void *)(uintptr_t)(in_place ? dst : src),
		.dst = (void *)(uintptr_t)dst,
		.count = (uint64_t)a.count, .dtype = (enum rlx_dtype)a.dtype,
		.device = gpu_exec_device(x)->v->name, .stream = stream,
	};
	return st ? st : rlx_collective_do(c, s->def, &r, x->base.err);
}

/* Its place is that of a launch, and nobody waits for it here. */
enum rlx_status gpu_run_collective(struct gpu_exec *x, const struct gpu_call *call)
{
	const struct rlx_plan_step *s = &x->base.code->plan->step[call->base.step];
	bool aside = call->aside && !x->base.step_ns;	/* times are of one stream */
	enum rlx_status st;

	if (gpu_skips(x, call->base.step))
		return RLX_OK;
	st = aside ? step_aside(x) : RLX_OK;
	if (!st) {
		st = sum(x, call, aside ? x->side : x->stream);
		st = aside ? end_aside(x, st) : st;
	}
	return rlx_host_ended(&x->base, s, st);
}

enum rlx_status gpu_join_sums(struct gpu_exec *x)
{
	if (!x->summing)
		return RLX_OK;
	x->summing = false;
	return said_to_wait(x, gpu_exec_device(x)->api->stream_after(x->stream, x->sum_done, 0));
}
