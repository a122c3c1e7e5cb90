// SPDX-License-Identifier: MIT
/* A session on a Vulkan device: its image and buffers, and the run. */
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

static struct vk_device *device_of(const struct vk_exec *x)
{
	return vk_device_of(x->base.code);
}

/* ---- buffers ---- */

void vk_at_slot(struct vk_exec *x, uint32_t slot, uint64_t address)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;

	rlx_calls_bind(&c->calls, (unsigned char *)x->image.map, slot, address);
}

static void drop(struct vk_exec *x, struct vk_slot *s)
{
	vk_window_put(device_of(x), s->window);
	vk_span_free(device_of(x), &s->stage);
	s->window = NULL;
	s->host.at = 0;
}

enum rlx_status vk_reach(struct vk_exec *x, struct vk_slot *s, struct rlx_arena *a, void *p,
			 uint64_t bytes, struct rlx_error *err)
{
	struct vk_device *d = device_of(x);
	struct vk_window *w = a ? vk_window_get(d, a) : NULL;
	char why[VK_WHY] = "";
	enum rlx_status st;

	drop(x, s);
	s->window = w;
	if (w && !vk_guard)
		s->host = vk_window_at(d, w, p, bytes, why);
	if (s->host.at)
		return RLX_OK;
	if (!vk_guard)
		rlx_log(RLX_LOG_WARN, "%s: %llu bytes are staged, which copies them in every "
			"run: %s", d->base.name, (unsigned long long)bytes,
			w ? why : a ? "out of memory" : "they are no arena's");
	st = vk_span_new(d, VK_STAGING, bytes, &s->stage, err);
	if (!st)
		s->host = vk_span_region(&s->stage);
	return st;
}

/* The next run looks after it, and may fail; but nobody keeps the arena that was bound before. */
void vk_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	struct vk_slot *s = &x->slot[io][i];

	if (!vk_window_is_of(s->window, exec->arena[io][i]))
		drop(x, s);
	s->changed = true;
	s->fresh = true;
	x->changed = true;
}

/* ---- sessions ---- */

/*
 * The workspace: the caller's, or the driver's where that cannot be imported. A device with
 * memory of its own has it there, and this is the mirror of it for steps of the host's.
 */
static enum rlx_status take_work(struct vk_exec *x)
{
	uint64_t bytes = x->base.code->work_bytes;
	struct vk_device *d = device_of(x);
	enum rlx_status st = RLX_OK;

	if (d->discrete)
		st = vk_span_new(d, VK_LOCAL, x->base.code->plan->work_bytes, &x->work.local,
				 x->base.err);
	if (st || !bytes)
		return st;
	st = vk_reach(x, &x->work, x->base.work_arena, x->base.work, bytes, x->base.err);
	if (!st && x->work.stage.block)	/* host steps work on it as well: nothing is copied */
		x->base.work = x->work.stage.map;
	return st;
}

static enum rlx_status make_memory(struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	struct vk_device *d = device_of(x);
	enum rlx_status st;

	st = vk_span_new(d, VK_SHARED, c->calls.n_args, &x->image, x->base.err);
	if (!st)
		st = vk_span_new(d, VK_STAGING, 4 * (uint64_t)c->n_bad, &x->status, x->base.err);
	return st ? st : take_work(x);
}

enum rlx_status vk_init(struct rlx_exec *exec)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	const struct vk_code *c = (const struct vk_code *)exec->code;
	const struct rlx_plan *p = exec->code->plan;
	struct vk_device *d = device_of(x);
	enum rlx_status st = vk_alive(d, exec->err);
	int io;

	if (st)
		return st;
	x->segment = rlx_calloc(c->calls.n_call + 1, sizeof(*x->segment));
	x->extent.leads = rlx_calloc(p->n_val, 1);
	x->skip = rlx_calloc(p->n_step + 1, 1);
	x->tensors = rlx_calloc(c->most_tensors, sizeof(*x->tensors));
	x->params = rlx_calloc(p->n_io[RLX_IO_PARAM] + 1, sizeof(*x->params));
	for (io = 0; io < 3; io++)
		x->slot[io] = rlx_calloc(p->n_io[io] + 1, sizeof(*x->slot[io]));
	if (!x->segment || !x->extent.leads || !x->skip || !x->tensors || !x->params ||
	    !x->slot[0] || !x->slot[1] || !x->slot[2])
		st = rlx_fail(exec->err, RLX_ENOMEM, "%s: out of memory", d->base.name);
	if (!st)
		st = vk_line_new(d, &x->line, exec->err);
	if (!st)
		st = make_memory(x);
	if (st) {
		vk_fini(exec);
		return st;
	}
	if (c->calls.n_args)
		memcpy(x->image.map, c->calls.args, c->calls.n_args);
	vk_at_slot(x, rlx_slot_work(p), d->discrete ? x->work.local.at : x->work.host.at);
	vk_at_slot(x, rlx_slot_status(p), x->status.at);
	return RLX_OK;
}

static void free_slot(struct vk_exec *x, struct vk_slot *s)
{
	drop(x, s);
	vk_span_free(device_of(x), &s->local);
	vk_weight_put(device_of(x), s->weight);
	s->weight = NULL;
}

void vk_fini(struct rlx_exec *exec)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	struct vk_device *d = device_of(x);
	uint32_t i;
	int io;

	for (io = 0; io < 3; io++) {
		for (i = 0; x->slot[io] && i < exec->code->plan->n_io[io]; i++)
			free_slot(x, &x->slot[io][i]);
		rlx_free(x->slot[io]);
		x->slot[io] = NULL;
	}
	free_slot(x, &x->work);
	d->api.DestroyCommandPool(d->dev, x->pool, NULL);
	d->api.DestroyCommandPool(d->dev, x->copies, NULL);
	vk_line_free(d, &x->line);
	vk_span_free(d, &x->image);
	vk_span_free(d, &x->status);
	rlx_free(x->segment);
	rlx_free(x->skip);
	rlx_free(x->tensors);
	rlx_free(x->params);
	rlx_free(x->extent.leads);
	x->pool = VK_NULL_HANDLE;
	x->copies = VK_NULL_HANDLE;
	x->segment = NULL;
	x->skip = NULL;
	x->tensors = NULL;
	x->params = NULL;
	x->extent.leads = NULL;
}

/* ---- running ---- */

static enum rlx_status flush(struct vk_exec *x)
{
	uint32_t n = x->n_batch;

	x->n_batch = 0;
	return n ? vk_line_submit(device_of(x), &x->line, x->batch, n, x->base.err) : RLX_OK;
}

enum rlx_status vk_enqueue(struct vk_exec *x, VkCommandBuffer c)
{
	enum rlx_status st = x->n_batch == VK_MOST_BATCH ? flush(x) : RLX_OK;

	if (c && !st)
		x->batch[x->n_batch++] = c;
	return st;
}

/* Status words that kernels set when they met bad data. */
static enum rlx_status look_for_bad(struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	const uint32_t *bad = (const uint32_t *)x->status.map;
	uint32_t i;

	for (i = 0; c->n_bad && i < c->calls.n_call; i++) {
		const struct vk_call *call = &vk_calls(c)[i];

		if (call->bad && bad[call->bad - 1])
			return rlx_lower_bad_data(&c->base.plan->step[call->base.step],
						  x->base.err);
	}
	return RLX_OK;
}

enum rlx_status vk_settle(struct vk_exec *x)
{
	enum rlx_status st = flush(x);

	if (!st)
		st = vk_line_wait(device_of(x), &x->line, UINT64_MAX, x->base.err);
	return st ? st : look_for_bad(x);
}

/* Copy what is staged: to the device before, back behind what writes it. */
static void copy_staged(struct vk_exec *x, enum rlx_io io, bool in)
{
	const struct rlx_plan *p = x->base.code->plan;
	uint64_t bytes;
	uint32_t i;

	for (i = 0; x->staged && i < p->n_io[io]; i++) {
		if (!x->slot[io][i].stage.block)
			continue;
		bytes = rlx_plan_bytes(p, p->io[io][i].val);
		vk_stage(x, io, i, 0, bytes, in);
		vk_count(&x->base.moved, in, bytes);
	}
}

/* It works on what the caller bound: what is elsewhere must be there, and then here. */
static enum rlx_status host_step(struct vk_exec *x, const struct vk_segment *s)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	const bool discrete = device_of(x)->discrete;
	const struct vk_call *call = &vk_calls(c)[s->first];
	enum rlx_status st;

	if (x->skip[call->base.step])
		return RLX_OK;
	st = discrete ? vk_fetch_operands(x, s) : vk_settle(x);
	if (!discrete && !st)
		copy_staged(x, RLX_IO_OUTPUT, false);
	if (!st)
		st = rlx_host_step(&x->base, x->extent.leads, &c->base.plan->step[call->base.step],
				   (char *)x->base.work + c->host_at, x->tensors);
	if (!discrete && !st)
		copy_staged(x, RLX_IO_OUTPUT, true);
	return st || !discrete ? st : vk_upload_results(x, s);
}

static enum rlx_status run_segment(struct vk_exec *x, const struct vk_segment *s)
{
	const struct vk_call *call = &vk_calls((const struct vk_code *)x->base.code)[s->first];
	enum rlx_status st;

	st = call->kind == RLX_CALL_HOST ? host_step(x, s) : vk_enqueue(x, s->commands);
	return st || !x->base.step_ns ? st : vk_settle(x);
}

static bool must_record(const struct vk_exec *x)
{
	uint32_t i, n = x->base.code->plan->n_step;

	if (!x->recorded || x->timed != !!x->base.step_ns)
		return true;
	for (i = 0; i < n; i++)
		if (x->skip[i] != vk_skips(x, i))
			return true;
	return false;
}

/* Rows without data are computed as the others are; only what they hold is no fault. */
static void set_extent(struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	uint32_t i;
	int64_t n;

	for (i = 0; i < c->calls.n_call; i++) {
		const struct rlx_call *call = &vk_calls(c)[i].base;

		if (!call->checked.n)
			continue;
		n = rlx_extent_checked(&x->base, x->extent.leads, &call->checked);
		memcpy(x->image.map + call->args + call->checked.at, &n, sizeof(n));
	}
}

static enum rlx_status prepare(struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	enum rlx_status st = vk_alive(device_of(x), x->base.err);

	if (!st && must_record(x))
		st = vk_record(x);
	if (st)
		return st;
	if (rlx_extent_changes(&x->base, &x->extent)) {
		set_extent(x);
		x->moves = false;
	}
	memset(x->status.map, 0, 4 * (size_t)c->n_bad);
	return vk_take_changes(x);
}

/* One submission, and nothing for the host to do behind it. */
static bool is_alone(const struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;

	return !x->staged && !x->base.step_ns && x->n_segment == 1 &&
	       vk_calls(c)[x->segment->first].kind == RLX_CALL_KERNEL;
}

static void count_copies(struct vk_exec *x)
{
	x->base.moved.in += x->each.in;
	x->base.moved.in_bytes += x->each.in_bytes;
	x->base.moved.out += x->each.out;
	x->base.moved.out_bytes += x->each.out_bytes;
}

static enum rlx_status upload_inputs(struct vk_exec *x)
{
	enum rlx_status st;

	x->n_batch = 0;
	if (!device_of(x)->discrete) {
		copy_staged(x, RLX_IO_INPUT, true);
		copy_staged(x, RLX_IO_PARAM, true);
		copy_staged(x, RLX_IO_OUTPUT, true);	/* steps may write parts of them */
		return RLX_OK;
	}
	vk_stage_inputs(x);
	count_copies(x);
	st = vk_enqueue(x, x->in);
	return st || !x->base.step_ns ? st : vk_settle(x);
}

/* Also after a failure @st: nothing may be under way in the caller's buffers. */
static enum rlx_status end(struct vk_exec *x, enum rlx_status st)
{
	struct vk_device *d = device_of(x);

	if (!st)
		st = vk_settle(x);
	if (st)
		vk_line_wait(d, &x->line, UINT64_MAX, NULL);
	else if (d->discrete)
		vk_stage_outputs(x);
	else
		copy_staged(x, RLX_IO_OUTPUT, false);
	return st;
}

/* All of it at once, with the copies around it. */
static enum rlx_status submit_alone(struct vk_exec *x)
{
	enum rlx_status st = upload_inputs(x);

	if (!st)
		st = vk_enqueue(x, x->segment->commands);
	if (!st)
		st = vk_enqueue(x, x->out);
	return st ? st : flush(x);
}

static enum rlx_status run_all(struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	enum rlx_status st = upload_inputs(x);
	uint64_t at = x->base.step_ns ? rlx_now() : 0;
	uint32_t i;

	for (i = 0; i < x->n_segment && !st; i++) {
		st = run_segment(x, &x->segment[i]);
		if (x->base.step_ns)
			at = rlx_host_step_time(&x->base,
						vk_calls(c)[x->segment[i].first].base.step, at);
	}
	if (!st)
		st = vk_enqueue(x, x->out);
	return end(x, st);
}

enum rlx_status vk_submit(struct rlx_exec *exec, bool away, uint64_t *out_point)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	enum rlx_status st = prepare(x);

	*out_point = 0;
	if (st)
		return st;
	x->pending = is_alone(x);
	if (x->pending)
		st = submit_alone(x);
	else if (away)
		return RLX_OK;
	else
		st = run_all(x);
	vk_took_inputs(x, !st);
	if (!st)
		*out_point = ++x->runs;
	return st;
}

enum rlx_status vk_wait(struct rlx_exec *exec, uint64_t point, int64_t timeout_ns)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	enum rlx_status st;

	(void)point;		/* an exec has one run at a time */
	if (!x->pending)
		return RLX_OK;
	st = vk_line_wait(device_of(x), &x->line,
			  timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns, exec->err);
	return st ? st : look_for_bad(x);
}
