// SPDX-License-Identifier: MIT
/*
 * One session's device memory, and the run: launches captured as graphs at the first
 * run and replayed, copies and the host's steps between them.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"

/* Smaller buffers are read and written in host memory by the kernels themselves. */
enum { MOST_MAPPED = 64 << 10 };

static const struct gpu_code *code_of(const struct gpu_exec *x)
{
	return (const struct gpu_code *)x->base.code;
}

static struct gpu_device *device_of(const struct gpu_exec *x)
{
	return gpu_device_of(x->base.code);
}

/* ---- what one session needs ---- */

static uint64_t address_of(const struct gpu_exec *x, const struct rlx_ref *r)
{
	const struct gpu_code *c = code_of(x);

	switch (r->kind) {
	case RLX_REF_STATUS:
		return x->bad + r->place.offset;
	case RLX_REF_KEPT:
		return c->kept_at + r->place.offset;
	default:
		return r->place.offset + (r->place.kind == RLX_PLACE_CONST ?
			gpu_weight_at(c->weight[r->place.index]) : x->work);
	}
}

/* Launches side by side become one part, unless something else stands between. */
static enum rlx_status make_parts(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	uint32_t i;

	x->part = rlx_calloc(c->n_call + 1, sizeof(*x->part));
	if (!x->part)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory",
				c->base.dev->be->name);
	for (i = 0; i < c->n_call; i++) {
		struct gpu_part *last = x->n_part ? &x->part[x->n_part - 1] : NULL;

		if (last && c->call[i].kind == GPU_KERNEL_CALL &&
		    c->call[last->first].kind == GPU_KERNEL_CALL)
			last->end = i + 1;
		else
			x->part[x->n_part++] = (struct gpu_part){ i, i + 1, NULL };
	}
	return RLX_OK;
}

static enum rlx_status make_image(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	uint32_t i;

	x->image = rlx_aligned(64, c->n_image + 64);
	x->slot = rlx_calloc(c->n_io + 1, sizeof(*x->slot));
	x->tensors = rlx_calloc(c->most_tensors, sizeof(*x->tensors));
	if (!x->image || !x->slot || !x->tensors)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory",
				c->base.dev->be->name);
	if (c->n_image)
		memcpy(x->image, c->image, c->n_image);
	for (i = 0; i < c->n_reloc; i++) {
		uint64_t at = address_of(x, &c->reloc[i]);

		memcpy(x->image + c->reloc[i].at, &at, sizeof(at));
	}
	return RLX_OK;
}

static enum rlx_status make_memory(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	struct rlx_error *err = x->base.err;
	enum rlx_status st = gpu_mem_new(d, c->device_bytes, &x->work, err);

	if (!st)
		st = gpu_mem_new(d, c->stage_bytes, &x->stage, err);
	if (!st)
		st = gpu_mem_new(d, (uint64_t)c->n_io * 8, &x->table, err);
	if (!st)
		st = gpu_mem_new(d, (uint64_t)c->n_bad * 4, &x->bad, err);
	if (!st && c->n_bad)
		st = gpu_check(d, d->api->fill8(x->bad, 0, (uint64_t)c->n_bad * 4, x->stream),
			       "clearing", err);
	if (!st)	/* the table and status words cross over by DMA; not vital */
		x->work_range = gpu_range_get(d, x->base.work_arena);
	return st;
}

enum rlx_status gpu_init(struct rlx_exec *exec)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	struct gpu_device *d = device_of(x);
	enum rlx_status st = gpu_enter(d, exec->err);

	if (!st)
		st = gpu_check(d, d->api->stream_new(&x->stream, 1), "making a stream",
			       exec->err);
	if (!st)
		st = make_memory(x);
	if (!st)
		st = make_image(x);
	if (!st)
		st = make_parts(x);
	if (st)
		gpu_fini(exec);
	x->changed = true;
	return st;
}

static void drop_slot(struct gpu_exec *x, struct gpu_slot *s)
{
	gpu_range_put(device_of(x), s->range);
	gpu_weight_put(device_of(x), s->weight);
	s->range = NULL;
	s->weight = NULL;
}

static void drop_graphs(struct gpu_exec *x)
{
	uint32_t i;

	for (i = 0; i < x->n_part; i++) {
		if (x->part[i].graph)
			device_of(x)->api->graph_exec_free(x->part[i].graph);
		x->part[i].graph = NULL;
	}
}

void gpu_fini(struct rlx_exec *exec)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	struct gpu_device *d = device_of(x);
	uint32_t i;

	d->api->context_set(d->ctx);
	drop_graphs(x);
	for (i = 0; x->slot && i < code_of(x)->n_io; i++)
		drop_slot(x, &x->slot[i]);
	gpu_range_put(d, x->work_range);
	gpu_mem_free(d, x->work);
	gpu_mem_free(d, x->stage);
	gpu_mem_free(d, x->table);
	gpu_mem_free(d, x->bad);
	if (x->stream)
		d->api->stream_free(x->stream);
	rlx_free(x->part);
	rlx_free(x->image);
	rlx_free(x->slot);
	rlx_free(x->tensors);
}

/* Looked after at the next run, when every buffer is there. */
void gpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;

	x->slot[code_of(x)->first_io[io] + i].changed = true;
	x->changed = true;
}

/* ---- buffers ---- */

static enum rlx_status take_param(struct gpu_exec *x, const struct gpu_io *io,
				  struct gpu_slot *s, uint64_t *out_at)
{
	struct gpu_device *d = device_of(x);
	bool same = s->weight && s->host == x->base.ptr[RLX_IO_PARAM][io->index];
	enum rlx_status st;

	if (same) {
		st = gpu_weight_renew(d, s->weight, x->base.err);
	} else {
		gpu_weight_put(d, s->weight);
		s->weight = NULL;
		st = gpu_weight_get(d, x->base.ptr[RLX_IO_PARAM][io->index], io->bytes, NULL,
				    &s->weight, x->base.err);
	}
	if (!st)
		*out_at = gpu_weight_at(s->weight);
	return st;
}

/* Small and registered: in place. Else staged, by DMA where it is registered. */
static uint64_t take_buffer(struct gpu_exec *x, const struct gpu_io *io, struct gpu_slot *s)
{
	struct rlx_arena *a = x->base.arena[io->io][io->index];
	struct gpu_range *old = s->range;
	uint64_t at;

	s->range = gpu_range_get(device_of(x), a);
	gpu_range_put(device_of(x), old);	/* after, so that it may be the same */
	at = gpu_range_at(s->range, x->base.ptr[io->io][io->index]);
	s->mapped = at && io->bytes <= MOST_MAPPED;
	return s->mapped ? at : x->stage + io->at;
}

static enum rlx_status take_changes(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	uint64_t *table = (uint64_t *)(void *)((char *)x->base.work + c->table_at);
	enum rlx_status st = RLX_OK;
	uint32_t i;

	if (!x->changed)
		return RLX_OK;
	for (i = 0; i < c->n_io && !st; i++) {
		const struct gpu_io *io = &c->io[i];
		struct gpu_slot *s = &x->slot[i];

		if (!s->changed || !io->on_device)
			continue;
		if (io->io == RLX_IO_PARAM)
			st = take_param(x, io, s, &table[i]);
		else
			table[i] = take_buffer(x, io, s);
		s->host = x->base.ptr[io->io][io->index];
		s->changed = st;
	}
	if (!st && c->n_io)
		st = gpu_check(d, d->api->copy_in(x->table, table, (uint64_t)c->n_io * 8,
						  x->stream), "copying addresses in",
			       x->base.err);
	x->changed = st;
	return st;
}

static void count_copy(struct gpu_exec *x, const struct gpu_slot *s, uint64_t bytes)
{
	if (!s->range)		/* pageable: the driver moves it by a CPU */
		x->base.copied += bytes;
}

static enum rlx_status stage_inputs(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	uint32_t i;
	int rc = 0;

	for (i = 0; i < c->first_io[RLX_IO_PARAM] && !rc; i++) {
		const struct gpu_io *io = &c->io[i];

		if (!io->on_device || x->slot[i].mapped || !io->bytes)
			continue;
		rc = d->api->copy_in(x->stage + io->at, x->slot[i].host, io->bytes, x->stream);
		count_copy(x, &x->slot[i], io->bytes);
	}
	return gpu_check(d, rc, "copying inputs in", x->base.err);
}

static bool skips(const struct gpu_exec *x, uint32_t step)
{
	return x->base.skip && step != GPU_NO_STEP && x->base.skip[step];
}

static enum rlx_status fetch_outputs(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	uint32_t i;
	int rc = 0;

	for (i = c->first_io[RLX_IO_OUTPUT]; i < c->n_io && !rc; i++) {
		const struct gpu_io *io = &c->io[i];

		if (!io->out || x->slot[i].mapped || !io->bytes || skips(x, io->writer))
			continue;
		rc = d->api->copy_out(x->slot[i].host, x->stage + io->at, io->bytes, x->stream);
		count_copy(x, &x->slot[i], io->bytes);
	}
	return gpu_check(d, rc, "copying outputs out", x->base.err);
}

/* ---- steps ---- */

static int launch(struct gpu_exec *x, const struct gpu_call *call)
{
	const struct rlx_g_launch *l = &call->launch;
	struct rlx_g_env env = {
		.table = (const uint64_t *)(uintptr_t)x->table,
		.scratch = (void *)(uintptr_t)(x->work + code_of(x)->scratch_at),
		.units = l->units,
	};
	void *args[2] = { x->image + call->args, &env };
	uint32_t passes = l->passes ? l->passes : 1;
	int rc = 0;

	for (; env.pass < passes && !rc; env.pass++)
		rc = device_of(x)->api->launch(call->fn, l->grid[0], l->grid[1], l->grid[2],
					       l->block[0], l->block[1], l->block[2],
					       l->shared, x->stream, args, NULL);
	return rc;
}

/* The story of a call names the op and where its author asked for it. */
static enum rlx_status name_step(struct gpu_exec *x, uint32_t step, enum rlx_status st)
{
	const struct rlx_plan_step *s = &x->base.code->plan->step[step];
	struct rlx_error *err = x->base.err;

	if (st && s->file && err->status) {
		err->file = s->file;
		err->line = s->line;
		err->node = s->node;
	}
	return st;
}

static enum rlx_status launch_part(struct gpu_exec *x, const struct gpu_part *p)
{
	const struct gpu_code *c = code_of(x);
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = p->first; i < p->end && !st; i++)
		if (!skips(x, c->call[i].step))
			st = name_step(x, c->call[i].step,
				       gpu_check(device_of(x), launch(x, &c->call[i]),
						 c->base.plan->step[c->call[i].step].def ?
						 c->base.plan->step[c->call[i].step].def->name :
						 "copy", x->base.err));
	return st;
}

/* 1: only this thread's calls are watched while it captures */
enum { CAPTURE_THREAD = 1 };

static enum rlx_status capture(struct gpu_exec *x, struct gpu_part *p)
{
	const struct rlx_gpu_api *api = device_of(x)->api;
	struct gpu_device *d = device_of(x);
	void *graph = NULL;
	enum rlx_status st, end;

	st = gpu_check(d, api->capture_begin(x->stream, CAPTURE_THREAD), "capturing",
		       x->base.err);
	if (st)
		return st;
	st = launch_part(x, p);
	end = gpu_check(d, api->capture_end(x->stream, &graph), "capturing", x->base.err);
	st = st ? st : end;
	if (!st)
		st = gpu_check(d, api->graph_ready(&p->graph, graph, 0), "making a graph",
			       x->base.err);
	if (graph)
		api->graph_free(graph);
	return st;
}

static enum rlx_status run_part(struct gpu_exec *x, struct gpu_part *p)
{
	enum rlx_status st = RLX_OK;

	if (p->end - p->first == 1)	/* a graph of one launch gains nothing */
		return launch_part(x, p);
	if (!p->graph)
		st = capture(x, p);
	return st ? st : gpu_check(device_of(x),
				   device_of(x)->api->graph_launch(p->graph, x->stream),
				   "launching", x->base.err);
}

/* Where a value is on the device, and whether host and device share the place. */
static uint64_t device_place(const struct gpu_exec *x, uint32_t v, bool *shared)
{
	const struct gpu_code *c = code_of(x);
	const struct rlx_place *at = &c->base.plan->val[v].place;
	uint32_t slot;

	*shared = false;
	if (at->kind == RLX_PLACE_WORK)
		return x->work + at->offset;
	slot = c->first_io[RLX_IO_OUTPUT] + at->index;	/* inputs never cross */
	*shared = x->slot[slot].mapped || !c->io[slot].on_device;
	return x->stage + c->io[slot].at + at->offset;
}

static enum rlx_status cross(struct gpu_exec *x, const struct gpu_call *call)
{
	struct gpu_device *d = device_of(x);
	uint64_t n = rlx_plan_bytes(x->base.code->plan, call->val), at;
	void *host = rlx_host_ptr(&x->base, call->val);
	bool shared;
	int rc;

	at = device_place(x, call->val, &shared);
	if (skips(x, call->step) || shared || !n)
		return RLX_OK;
	rc = call->kind == GPU_IN_CALL ? d->api->copy_in(at, host, n, x->stream) :
	     d->api->copy_out(host, at, n, x->stream);
	return gpu_check(d, rc, call->kind == GPU_IN_CALL ? "copying a host step's result in" :
			 "copying a host step's operand out", x->base.err);
}

static enum rlx_status host_step(struct gpu_exec *x, const struct gpu_call *call)
{
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	enum rlx_status st;

	if (skips(x, call->step))
		return RLX_OK;
	st = gpu_check(d, d->api->stream_wait(x->stream), "waiting", x->base.err);
	return st ? st : rlx_host_step(&x->base, &c->base.plan->step[call->step],
				       (char *)x->base.work + c->host_at, x->tensors);
}

/* Somebody asks what each step takes: one by one, to the end, without graphs. */
static enum rlx_status run_timed(struct gpu_exec *x, uint32_t i, uint64_t *at)
{
	const struct gpu_code *c = code_of(x);
	const struct gpu_call *call = &c->call[i];
	struct gpu_part one = { i, i + 1, NULL };
	enum rlx_status st;

	st = call->kind == GPU_KERNEL_CALL ? launch_part(x, &one) :
	     call->kind == GPU_HOST_CALL ? host_step(x, call) : cross(x, call);
	if (!st)
		st = gpu_check(device_of(x), device_of(x)->api->stream_wait(x->stream),
			       "running", x->base.err);
	if (call->step != GPU_NO_STEP)
		*at = rlx_host_step_time(&x->base, call->step, *at);
	return st;
}

static enum rlx_status run_parts(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	uint64_t at = x->base.step_ns ? rlx_now() : 0;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; x->base.step_ns && i < c->n_call && !st; i++)
		st = run_timed(x, i, &at);
	if (x->base.step_ns)
		return st;

	for (i = 0; i < x->n_part && !st; i++) {
		const struct gpu_call *call = &c->call[x->part[i].first];

		if (call->kind == GPU_KERNEL_CALL)
			st = run_part(x, &x->part[i]);
		else if (call->kind == GPU_HOST_CALL)
			st = host_step(x, call);
		else
			st = cross(x, call);
	}
	return st;
}

/* Status words that kernels set when they met bad data. */
static enum rlx_status check_bad(struct gpu_exec *x)
{
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	const int32_t *bad = (const void *)((const char *)x->base.work + c->bad_at);
	uint32_t i;

	for (i = 0; i < c->n_call; i++) {
		const struct rlx_plan_step *st = &c->base.plan->step[c->call[i].step];

		if (c->call[i].kind != GPU_KERNEL_CALL || !c->call[i].bad ||
		    !bad[c->call[i].bad - 1] || skips(x, c->call[i].step))
			continue;
		d->api->fill8(x->bad, 0, (uint64_t)c->n_bad * 4, x->stream);
		return rlx_error_set(x->base.err, RLX_ERANGE, st->file, st->line,
				     "%s: an index is outside what it refers to",
				     st->def->name);
	}
	return RLX_OK;
}

enum rlx_status gpu_run(struct rlx_exec *exec)
{
	struct gpu_exec *x = (struct gpu_exec *)exec;
	const struct gpu_code *c = code_of(x);
	struct gpu_device *d = device_of(x);
	enum rlx_status st = gpu_enter(d, exec->err), end;
	uint64_t skip;

	if (st)
		return st;
	skip = exec->skip ? rlx_hash_bytes(exec->skip, c->base.plan->n_step, 1) : 0;
	if (skip != x->captured_skip)
		drop_graphs(x);
	x->captured_skip = skip;
	st = take_changes(x);
	if (!st)
		st = stage_inputs(x);
	if (!st)
		st = run_parts(x);
	if (!st)
		st = fetch_outputs(x);
	if (!st && c->n_bad)
		st = gpu_check(d, d->api->copy_out((char *)exec->work + c->bad_at, x->bad,
						   (uint64_t)c->n_bad * 4, x->stream),
			       "copying status out", exec->err);
	/* also after a failure: nothing may be under way in the caller's buffers */
	end = gpu_check(d, d->api->stream_wait(x->stream), "running",
			st ? &(struct rlx_error){ 0 } : exec->err);
	st = st ? st : end;
	return st || !c->n_bad ? st : check_bad(x);
}
