// SPDX-License-Identifier: MIT
/*
 * The calls of a run: launches captured as graphs at the first run and replayed, copies
 * and the host's steps between them.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/log.h"
#include "kernels/gpu/pointwise.h"

/*
 * @l on stream @s; @may_pdl: it may begin before the one ahead there has ended. In a graph it may
 * then read what no launch of the graph writes: the first one begins when all before the graph is
 * done.
 */
int gpu_launch_kernel(struct gpu_device *d, const struct rlx_g_launch *l, void *fn, void **args,
		      void *s, bool may_pdl)
{
	struct rlx_gpu_launch_attr pdl = { .id = d->v->launch_pdl, .value = { 1 } };
	struct rlx_gpu_launch ex = {
		.grid = { l->grid[0], l->grid[1], l->grid[2] },
		.block = { l->block[0], l->block[1], l->block[2] },
		.shared = l->shared, .stream = s, .attr = &pdl, .n_attr = 1,
	};

	if (may_pdl && pdl.id && d->attr[GPU_ATTR_MAJOR] >= GPU_PDL_MAJOR &&
	    !atomic_load_explicit(&d->in_order, memory_order_relaxed))
		return d->api->launch_ex(&ex, fn, args, NULL);
	return d->api->launch(fn, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
			      l->block[2], l->shared, s, args, NULL);
}

/* Where the call's struct gpu_live is on the device, or 0 if it does not look there. */
static uint64_t live_at(const struct gpu_exec *x, const struct gpu_call *call, int64_t looks,
			size_t member)
{
	const struct gpu_code *c = gpu_exec_code(x);

	return x->base.extent && looks ? x->table + gpu_live_at(c) + member +
	       (uint64_t)(call - gpu_calls(c)) * sizeof(struct gpu_live) : 0;
}

/* Of a launch: those from @first on, with @args. */
struct passes {
	uint32_t	first, end;
	void		*args;
};

static int launch_passes(struct gpu_exec *x, const struct gpu_call *call, const struct passes *p,
			 void *s, bool pdl)
{
	const struct rlx_g_launch *l = &call->launch;
	const struct gpu_code *c = gpu_exec_code(x);
	struct rlx_g_env env = {
		.table = (const uint64_t *)(uintptr_t)x->table,
		.scratch = (void *)(uintptr_t)(x->work + call->scratch_at),
		.zeros = (uint32_t *)(uintptr_t)x->zeros + call->on_stream * RLX_G_ZEROS,
		.maps = (const void *)(uintptr_t)(x->table + gpu_tensor_maps_at(c) +
						  (uint64_t)call->first_map * RLX_G_TENSOR_MAP_BYTES),
		.live = (const int64_t *)(uintptr_t)live_at(x, call, call->base.rows,
				offsetof(struct gpu_live, rows)),
		.checked = (const int64_t *)(uintptr_t)live_at(x, call, call->base.checked.n,
				offsetof(struct gpu_live, checked)),
		.units = l->units, .pass = p->first,
	};
	void *args[2] = { p->args, &env };
	int rc = 0;

	for (; env.pass < p->end && !rc; env.pass++)
		rc = gpu_launch_kernel(gpu_exec_device(x), l, call->fn, args, s,
				x->capturing && (pdl || env.pass));
	if (!rc && rlx_debug_on(RLX_DEBUG_RUN))		/* who faults is known by now */
		rc = gpu_exec_device(x)->api->stream_wait(s);
	return rc;
}

/*
 * Does the launch join steps of which some are left out? Then those have no length in @out,
 * arguments in place of its own. Graphs that were captured with others are dropped (exec.c).
 */
static bool joins_skipped(const struct gpu_exec *x, const struct gpu_call *call,
			  struct rlx_g_ew_parts *out)
{
	struct rlx_g_ew_part *part = (void *)out->table;
	bool any = false;
	uint32_t k;

	for (k = 0; k < call->n_joined && x->base.skip; k++) {
		if (!gpu_skips(x, gpu_call_step(gpu_exec_code(x), call, k)))
			continue;
		if (!any)
			memcpy(out, x->image + call->base.args, sizeof(*out));
		any = true;
		part[k].length = 0;
	}
	return any;
}

static int launch(struct gpu_exec *x, const struct gpu_call *call, void *s, bool pdl)
{
	struct passes all = {
		.end = call->launch.n_launches ? call->launch.n_launches : 1,
		.args = x->image + call->base.args,
	};
	struct rlx_g_ew_parts some;	/* copied when launched or captured */

	if (joins_skipped(x, call, &some))
		all.args = &some;
	return launch_passes(x, call, &all, s, pdl);
}

/* What came of a launch: the message names the op and where its author asked for it. */
static enum rlx_status launched(struct gpu_exec *x, const struct gpu_call *call, int rc)
{
	const struct rlx_plan_step *s = call->base.step == GPU_NO_STEP ? NULL :
		&x->base.code->plan->step[call->base.step];
	struct rlx_error *err = x->base.err;
	enum rlx_status st = gpu_check(gpu_exec_device(x), rc,
				       s && s->def ? s->def->name : "copy", err);

	if (st && s && s->file && err->status) {
		err->file = s->file;
		err->line = s->line;
		err->node = s->node;
	}
	return st;
}

enum rlx_status gpu_launch_pass(struct gpu_exec *x, const struct gpu_call *call, void *args,
				uint32_t pass)
{
	const struct passes one = { pass, pass + 1, args };

	return launched(x, call, launch_passes(x, call, &one, x->stream, false));
}

/* A launch that makes several steps is left out with the last one of them. */
static bool skips_launch(const struct gpu_exec *x, const struct gpu_call *call)
{
	uint32_t i;

	for (i = 0; i < gpu_call_steps(call); i++)
		if (!gpu_skips(x, gpu_call_step(gpu_exec_code(x), call, i)))
			return false;
	return true;
}

static enum rlx_status launch_part(struct gpu_exec *x, const struct gpu_part *p)
{
	const struct gpu_code *c = gpu_exec_code(x);
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = p->first; i < p->end && !st; i++)
		if (!skips_launch(x, &gpu_calls(c)[i]))
			st = launched(x, &gpu_calls(c)[i],
				      launch(x, &gpu_calls(c)[i], x->stream, true));
	return st;
}

/* ---- streams ---- */

/* While a part is captured: other streams than the first have streams of their own. */
struct streams {
	const struct gpu_part *p;
	void	*stream[RLX_STREAMS];
	void	*event[RLX_STREAMS];	/* where the first one begins, where others end */
	void	**done;			/* by call of the part; NULL: nobody waits for it */
	bool	tied[RLX_STREAMS];	/* the next launch comes after another stream's */
};

static enum rlx_status make_streams(struct gpu_exec *x, struct streams *n)
{
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	const struct gpu_part *p = n->p;
	uint32_t i;
	int rc = 0;

	n->stream[0] = x->stream;
	n->done = rlx_calloc(p->end - p->first, sizeof(*n->done));
	if (!n->done)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory",
				gpu_exec_device(x)->v->name);
	for (i = 0; i < p->n_stream && !rc; i++) {
		rc = api->event_new(&n->event[i], GPU_EVENT_PLAIN);
		if (!rc && i)
			rc = api->stream_new(&n->stream[i], GPU_STREAM_APART);
	}
	for (i = 0; i < p->end - p->first && !rc; i++)
		if (gpu_calls(gpu_exec_code(x))[p->first + i].awaited)
			rc = api->event_new(&n->done[i], GPU_EVENT_PLAIN);
	return gpu_check(gpu_exec_device(x), rc, "making streams", x->base.err);
}

static void free_streams(struct gpu_exec *x, struct streams *n)
{
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	uint32_t i;

	for (i = 0; i < n->p->n_stream; i++) {
		if (n->event[i])
			api->event_free(n->event[i]);
		if (i && n->stream[i])
			api->stream_free(n->stream[i]);
	}
	for (i = 0; n->done && i < n->p->end - n->p->first; i++)
		if (n->done[i])
			api->event_free(n->done[i]);
	rlx_free(n->done);
}

/* Other streams begin behind what the first one has by now. */
static int part_streams(const struct rlx_gpu_api *api, const struct streams *n)
{
	int rc = api->event_record(n->event[0], n->stream[0]);
	uint32_t i;

	for (i = 1; i < n->p->n_stream && !rc; i++)
		rc = api->stream_after(n->stream[i], n->event[0], 0);
	return rc;
}

/* And the first one ends behind them. */
static int join_streams(const struct rlx_gpu_api *api, const struct streams *n)
{
	uint32_t i;
	int rc = 0;

	for (i = 1; i < n->p->n_stream && !rc; i++) {
		rc = api->event_record(n->event[i], n->stream[i]);
		if (!rc)
			rc = api->stream_after(n->stream[0], n->event[i], 0);
	}
	return rc;
}

/*
 * What is left out is waited for all the same: so are then those ahead of it. A launch
 * behind one of another stream does not begin early.
 */
static enum rlx_status launch_in_stream(struct gpu_exec *x, struct streams *n, uint32_t i)
{
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	const struct gpu_code *c = gpu_exec_code(x);
	const struct gpu_call *call = &gpu_calls(c)[i];
	void *on = n->stream[call->on_stream];
	enum rlx_status st = RLX_OK;
	uint32_t k, first = n->p->first;
	int rc = 0;

	for (k = 0; k < call->n_wait && !rc; k++) {
		rc = api->stream_after(on, n->done[c->wait[call->first_wait + k] - first], 0);
		n->tied[call->on_stream] = true;
	}
	if (!rc && !skips_launch(x, call)) {
		st = launched(x, call, launch(x, call, on, !n->tied[call->on_stream]));
		n->tied[call->on_stream] = false;
	}
	if (!rc && !st && call->awaited)
		rc = api->event_record(n->done[i - first], on);
	return st ? st : gpu_check(gpu_exec_device(x), rc, "capturing", x->base.err);
}

/* Streams become branches of the graph. */
static enum rlx_status launch_streams(struct gpu_exec *x, struct streams *n)
{
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = gpu_check(d, part_streams(d->api, n), "capturing", x->base.err);
	uint32_t i;

	for (i = n->p->first; i < n->p->end && !st; i++)
		st = launch_in_stream(x, n, i);
	return st ? st : gpu_check(d, join_streams(d->api, n), "capturing", x->base.err);
}

/* 1: only this thread's calls are watched while it captures */
enum { CAPTURE_THREAD = 1 };

static enum rlx_status capture(struct gpu_exec *x, const struct gpu_part *p, void **out)
{
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	struct gpu_device *d = gpu_exec_device(x);
	struct streams n = { .p = p };
	void *graph = NULL;
	enum rlx_status st = RLX_OK, end;

	if (p->n_stream > 1)
		st = make_streams(x, &n);
	if (!st)
		st = gpu_check(d, api->capture_begin(x->stream, CAPTURE_THREAD), "capturing",
			       x->base.err);
	if (st)
		goto out_free;
	x->capturing = true;
	st = p->n_stream > 1 ? launch_streams(x, &n) : launch_part(x, p);
	x->capturing = false;
	end = gpu_check(d, api->capture_end(x->stream, &graph), "capturing", x->base.err);
	st = st ? st : end;
	if (!st)
		st = gpu_check(d, api->graph_ready(out, graph, 0), "making a graph",
			       x->base.err);
	if (graph)
		api->graph_free(graph);
out_free:
	free_streams(x, &n);
	return st;
}

static enum rlx_status run_part(struct gpu_exec *x, struct gpu_part *p)
{
	void **graph = &p->graph[x->base.extent != 0];
	enum rlx_status st = RLX_OK;

	/* a graph of one launch gains nothing */
	if (p->end - p->first == 1 || rlx_debug_on(RLX_DEBUG_RUN))
		return launch_part(x, p);
	if (!*graph)
		st = capture(x, p, graph);
	return st ? st : gpu_check(gpu_exec_device(x),
				   gpu_exec_device(x)->api->graph_launch(*graph, x->stream),
				   "launching", x->base.err);
}

/* Where a value is on the device, and whether host and device share the place. */
static uint64_t device_place(const struct gpu_exec *x, uint32_t v, bool *shared)
{
	const struct gpu_code *c = gpu_exec_code(x);
	const struct rlx_place *at = &c->base.plan->val[v].place;
	uint32_t slot;

	*shared = false;
	if (at->kind == RLX_PLACE_WORK)
		return x->work + at->offset;
	slot = c->first_io[RLX_IO_OUTPUT] + at->index;	/* inputs never cross */
	*shared = x->slot[slot].mapped || !c->io[slot].on_device;
	if (x->slot[slot].direct)
		return x->slot[slot].at + at->offset;
	return x->stage + c->io[slot].at + at->offset;
}

static enum rlx_status transfer(struct gpu_exec *x, const struct gpu_call *call)
{
	struct gpu_device *d = gpu_exec_device(x);
	uint64_t n = rlx_plan_bytes(x->base.code->plan, call->val), at;
	void *host = rlx_host_ptr(&x->base, call->val);
	bool shared;
	int rc;

	at = device_place(x, call->val, &shared);
	if (gpu_skips(x, call->base.step) || shared || !n)
		return RLX_OK;
	if (call->kind == GPU_IN_CALL)
		gpu_count_in(x, n);
	else
		gpu_count_out(x, n);
	rc = call->kind == GPU_IN_CALL ? d->api->copy_in(at, host, n, x->stream) :
	     d->api->copy_out(host, at, n, x->stream);
	return gpu_check(d, rc, call->kind == GPU_IN_CALL ? "copying a host step's result in" :
			 "copying a host step's operand out", x->base.err);
}

static enum rlx_status host_step(struct gpu_exec *x, const struct gpu_call *call)
{
	const struct rlx_plan_step *step = &x->base.code->plan->step[call->base.step];
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st;

	if (gpu_skips(x, call->base.step))
		return RLX_OK;
	st = gpu_check(d, d->api->stream_wait(x->stream), "waiting", x->base.err);
	return st ? st : rlx_host_step(&x->base, x->extent.leads, step,
				       (char *)x->base.work + gpu_exec_code(x)->host_at, x->tensors);
}

enum rlx_status gpu_run_call(struct gpu_exec *x, uint32_t i)
{
	const struct gpu_call *call = &gpu_calls(gpu_exec_code(x))[i];
	const struct gpu_part one = { .first = i, .end = i + 1 };

	switch (call->kind) {
	case GPU_KERNEL_CALL:
		return launch_part(x, &one);
	case GPU_HOST_CALL:
		return host_step(x, call);
	case GPU_COLLECTIVE_CALL:
		return gpu_run_collective(x, call);
	case GPU_UNPACK_CALL:
		return RLX_OK;		/* by the next one */
	case GPU_EXPERTS_CALL:
		return skips_launch(x, call) ? RLX_OK : gpu_run_experts(x, call);
	}
	return transfer(x, call);
}

enum rlx_status gpu_run_parts(struct gpu_exec *x)
{
	enum rlx_status st = RLX_OK, joined;
	uint32_t i;

	if (x->base.step_ns)
		return gpu_run_timed(x);
	for (i = 0; i < x->n_part && !st; i++) {
		const struct gpu_call *call = &gpu_calls(gpu_exec_code(x))[x->part[i].first];

		st = call->joins ? gpu_join_sums(x) : RLX_OK;
		if (!st)
			st = call->kind == GPU_KERNEL_CALL ? run_part(x, &x->part[i]) :
			     gpu_run_call(x, x->part[i].first);
	}
	joined = gpu_join_sums(x);	/* also after a failure: the stream's end is the run's */
	return st ? st : joined;
}
