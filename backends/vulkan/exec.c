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

/* ---- addresses ---- */

static void at_slot(struct vk_exec *x, uint32_t slot, uint64_t address)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;

	rlx_calls_bind(&c->calls, (unsigned char *)x->image.map, slot, address);
}

static void drop(struct vk_exec *x, struct vk_slot *s)
{
	vk_window_put(device_of(x), s->window);
	vk_span_free(device_of(x), &s->stage);
	*s = (struct vk_slot){ .window = NULL };
}

/* Reach @bytes at @p, in place or by a copy. */
static enum rlx_status reach(struct vk_exec *x, struct vk_slot *s, struct rlx_arena *a, void *p,
			     uint64_t bytes, struct rlx_error *err)
{
	struct vk_device *d = device_of(x);
	struct vk_window *w = a ? vk_window_get(d, a) : NULL;
	enum rlx_status st;

	drop(x, s);
	s->window = w;
	if (w && !vk_guard)
		s->at = vk_window_at(d, w, p, bytes);
	if (s->at)
		return RLX_OK;
	if (!vk_guard)
		rlx_log(RLX_LOG_WARN, "%s: %llu bytes are staged, which copies them in every "
			"run: %s", d->base.name, (unsigned long long)bytes,
			w ? vk_window_why(w) : a ? "out of memory" : "they are no arena's");
	st = vk_span_new(d, bytes, &s->stage, err);
	s->at = s->stage.at;
	return st;
}

void vk_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	const struct rlx_plan *p = exec->code->plan;
	struct vk_slot *s = &x->slot[io][i];

	if (!exec->ptr[io][i])
		drop(x, s);
	else if (reach(x, s, exec->arena[io][i], exec->ptr[io][i],
		       rlx_plan_bytes(p, p->io[io][i].val), NULL))
		drop(x, s);	/* the run says so */
	at_slot(x, rlx_slot_of(p, io, i), s->at);
	x->staged = x->staged || s->stage.block;
}

/* ---- sessions ---- */

static enum rlx_status make_objects(struct vk_exec *x)
{
	struct vk_device *d = device_of(x);
	const VkSemaphoreTypeCreateInfo type = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
	const VkSemaphoreCreateInfo how = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type };

	return vk_check(d, d->api.CreateSemaphore(d->dev, &how, NULL, &x->timeline),
			"making a semaphore", x->base.err);
}

/* The workspace: the caller's, or the driver's where that cannot be imported. */
static enum rlx_status take_work(struct vk_exec *x)
{
	uint64_t bytes = x->base.code->work_bytes;
	enum rlx_status st;

	if (!bytes)
		return RLX_OK;
	st = reach(x, &x->work, x->base.work_arena, x->base.work, bytes, x->base.err);
	if (!st && x->work.stage.block)	/* host steps work on it as well: nothing is copied */
		x->base.work = x->work.stage.map;
	return st;
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
	for (io = 0; io < 3; io++)
		x->slot[io] = rlx_calloc(p->n_io[io] + 1, sizeof(*x->slot[io]));
	if (!x->segment || !x->extent.leads || !x->skip || !x->tensors || !x->slot[0] ||
	    !x->slot[1] || !x->slot[2])
		st = rlx_fail(exec->err, RLX_ENOMEM, "%s: out of memory", d->base.name);
	if (!st)
		st = vk_span_new(d, vk_bad_at(c) + 4 * (uint64_t)c->n_bad, &x->image, exec->err);
	if (!st)
		st = make_objects(x);
	if (!st)
		st = take_work(x);
	if (st) {
		vk_fini(exec);
		return st;
	}
	if (c->calls.n_args)
		memcpy(x->image.map, c->calls.args, c->calls.n_args);
	at_slot(x, rlx_slot_work(p), x->work.at);
	at_slot(x, rlx_slot_status(p), x->image.at + vk_bad_at(c));
	return RLX_OK;
}

void vk_fini(struct rlx_exec *exec)
{
	struct vk_exec *x = (struct vk_exec *)exec;
	struct vk_device *d = device_of(x);
	uint32_t i;
	int io;

	for (io = 0; io < 3; io++) {
		for (i = 0; x->slot[io] && i < exec->code->plan->n_io[io]; i++)
			drop(x, &x->slot[io][i]);
		rlx_free(x->slot[io]);
		x->slot[io] = NULL;
	}
	drop(x, &x->work);
	d->api.DestroyCommandPool(d->dev, x->pool, NULL);
	d->api.DestroySemaphore(d->dev, x->timeline, NULL);
	vk_span_free(d, &x->image);
	rlx_free(x->segment);
	rlx_free(x->skip);
	rlx_free(x->tensors);
	rlx_free(x->extent.leads);
	x->pool = VK_NULL_HANDLE;
	x->timeline = VK_NULL_HANDLE;
	x->segment = NULL;
	x->skip = NULL;
	x->tensors = NULL;
	x->extent.leads = NULL;
}

/* ---- running ---- */

static enum rlx_status begin(struct vk_exec *x, const struct vk_segment *s)
{
	struct vk_device *d = device_of(x);
	const uint64_t point = x->point + 1;
	const VkTimelineSemaphoreSubmitInfo values = {
		.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &point };
	const VkSubmitInfo how = {
		.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values,
		.commandBufferCount = 1, .pCommandBuffers = &s->commands,
		.signalSemaphoreCount = 1, .pSignalSemaphores = &x->timeline };
	VkResult r;

	pthread_mutex_lock(&d->queue_lock);
	r = d->api.QueueSubmit(d->queue, 1, &how, VK_NULL_HANDLE);
	pthread_mutex_unlock(&d->queue_lock);
	if (!r)
		x->point = point;
	return vk_check(d, r, "submitting", x->base.err);
}

/* Until what was begun last has ended; RLX_ETIME: it goes on. */
static enum rlx_status end(struct vk_exec *x, uint64_t timeout_ns)
{
	struct vk_device *d = device_of(x);
	const VkSemaphoreWaitInfo wait = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
		.pSemaphores = &x->timeline, .pValues = &x->point };
	VkResult r = d->api.WaitSemaphores(d->dev, &wait, timeout_ns);

	return r == VK_TIMEOUT ? RLX_ETIME : vk_check(d, r, "running", x->base.err);
}

/* Did a kernel meet bad data? */
static enum rlx_status look_for_bad(struct vk_exec *x, const struct vk_segment *s)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	const uint32_t *bad = (const uint32_t *)(x->image.map + vk_bad_at(c));
	uint32_t i;

	for (i = s->first; i < s->end; i++) {
		const struct vk_call *call = &vk_calls(c)[i];

		if (call->bad && bad[call->bad - 1])
			return rlx_lower_bad_data(&c->base.plan->step[call->base.step],
						  x->base.err);
	}
	return RLX_OK;
}

/* Copy what is staged: to the device before, back behind what writes it. */
static void copy_staged(struct vk_exec *x, enum rlx_io io, bool in)
{
	const struct rlx_plan *p = x->base.code->plan;
	uint64_t bytes;
	uint32_t i;

	for (i = 0; x->staged && i < p->n_io[io]; i++) {
		struct vk_slot *s = &x->slot[io][i];

		if (!s->stage.block)
			continue;
		bytes = rlx_plan_bytes(p, p->io[io][i].val);
		if (in)
			memcpy(s->stage.map, x->base.ptr[io][i], bytes);
		else
			memcpy(x->base.ptr[io][i], s->stage.map, bytes);
		x->base.copied += bytes;
		x->base.moved.in += in;
		x->base.moved.in_bytes += in ? bytes : 0;
		x->base.moved.out += !in;
		x->base.moved.out_bytes += in ? 0 : bytes;
	}
}

/* It works on what the caller bound: what is staged must be there, and then here. */
static enum rlx_status host_step(struct vk_exec *x, const struct vk_call *call)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	enum rlx_status st;

	copy_staged(x, RLX_IO_OUTPUT, false);
	st = rlx_host_step(&x->base, x->extent.leads, &c->base.plan->step[call->base.step],
			   (char *)x->base.work + c->host_at, x->tensors);
	copy_staged(x, RLX_IO_OUTPUT, true);
	return st;
}

static enum rlx_status run_segment(struct vk_exec *x, const struct vk_segment *s)
{
	const struct vk_call *call = &vk_calls((const struct vk_code *)x->base.code)[s->first];
	enum rlx_status st;

	if (call->kind == RLX_CALL_HOST)
		return x->skip[call->base.step] ? RLX_OK : host_step(x, call);
	st = begin(x, s);
	if (!st)
		st = end(x, UINT64_MAX);
	return st ? st : look_for_bad(x, s);
}

/* A buffer that could be reached by no way was dropped by bind. */
static enum rlx_status check_bound(struct vk_exec *x)
{
	const struct rlx_plan *p = x->base.code->plan;
	uint32_t i;
	int io;

	for (io = 0; io < 3; io++)
		for (i = 0; i < p->n_io[io]; i++)
			if (x->base.ptr[io][i] && !x->slot[io][i].at)
				return rlx_fail(x->base.err, RLX_ENOMEM, "%s: '%s' can be neither "
						"imported nor staged: out of memory",
						device_of(x)->base.name, p->io[io][i].name);
	return RLX_OK;
}

static bool must_record(const struct vk_exec *x)
{
	uint32_t i, n = x->base.code->plan->n_step;

	if (!x->recorded || x->timed != !!x->base.step_ns)
		return true;
	for (i = 0; i < n; i++)
		if (x->skip[i] != (x->base.skip && x->base.skip[i]))
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

	if (!st)
		st = check_bound(x);
	if (!st && must_record(x))
		st = vk_record(x);
	if (st)
		return st;
	if (rlx_extent_changes(&x->base, &x->extent))
		set_extent(x);
	memset(x->image.map + vk_bad_at(c), 0, 4 * (size_t)c->n_bad);
	return RLX_OK;
}

/* One submission, and nothing for the host to do behind it. */
static bool is_alone(const struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;

	return !x->staged && !x->base.step_ns && x->n_segment == 1 &&
	       vk_calls(c)[x->segment->first].kind == RLX_CALL_KERNEL;
}

static enum rlx_status run_all(struct vk_exec *x)
{
	const struct vk_code *c = (const struct vk_code *)x->base.code;
	uint64_t at = x->base.step_ns ? rlx_now() : 0;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	copy_staged(x, RLX_IO_INPUT, true);
	copy_staged(x, RLX_IO_PARAM, true);
	copy_staged(x, RLX_IO_OUTPUT, true);	/* steps may write parts of them */
	for (i = 0; i < x->n_segment && !st; i++) {
		st = run_segment(x, &x->segment[i]);
		if (x->base.step_ns)
			at = rlx_host_step_time(&x->base,
						vk_calls(c)[x->segment[i].first].base.step, at);
	}
	copy_staged(x, RLX_IO_OUTPUT, false);
	return st;
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
		st = begin(x, x->segment);
	else if (away)
		return RLX_OK;
	else
		st = run_all(x);
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
	st = end(x, timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns);
	return st ? st : look_for_bad(x, x->segment);
}
