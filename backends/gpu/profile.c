// SPDX-License-Identifier: MIT
/* A run of which somebody asks what each step takes: call by call, between events. */
#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "base/clock.h"

void gpu_timed_free(struct gpu_exec *x)
{
	struct gpu_device *d = gpu_device_of(x->base.code);
	uint32_t i;

	for (i = 0; x->event && i <= gpu_exec_code(x)->calls.n_call; i++)
		if (x->event[i])
			d->api->event_free(x->event[i]);
	rlx_free(x->event);
	x->event = NULL;
}

/* One before the first call and one after each, made when first asked for. */
static enum rlx_status make_events(struct gpu_exec *x)
{
	struct gpu_device *d = gpu_device_of(x->base.code);
	enum rlx_status st = RLX_OK;
	uint32_t i, n = gpu_exec_code(x)->calls.n_call + 1;

	if (x->event)
		return RLX_OK;
	x->event = rlx_calloc(n, sizeof(*x->event));
	if (!x->event)
		return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory", d->v->name);
	for (i = 0; i < n && !st; i++)
		st = gpu_check(d, d->api->event_new(&x->event[i], 0), "making an event",
			       x->base.err);
	if (st)
		gpu_timed_free(x);
	return st;
}

/* The device's own clock for what it did; the host's steps were timed as they ran. */
static enum rlx_status add_times(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_device_of(x->base.code);
	uint32_t i;
	float ms;
	int rc = 0;

	for (i = 0; i < c->calls.n_call && !rc; i++) {
		const struct gpu_call *call = &gpu_calls(c)[i];

		if (call->kind == GPU_HOST_CALL || call->base.step == GPU_NO_STEP)
			continue;
		rc = d->api->event_elapsed(&ms, x->event[i], x->event[i + 1]);
		if (!rc)
			x->base.step_ns[call->base.step] += (uint64_t)((double)ms * 1e6);
	}
	return gpu_check(d, rc, "reading times", x->base.err);
}

enum rlx_status gpu_run_timed(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_device_of(x->base.code);
	enum rlx_status st = make_events(x);
	uint32_t i;

	if (!st)
		st = gpu_check(d, d->api->event_record(x->event[0], x->stream), "timing",
			       x->base.err);
	for (i = 0; i < c->calls.n_call && !st; i++) {
		uint64_t from = rlx_now();

		st = gpu_run_call(x, i);
		if (gpu_calls(c)[i].kind == GPU_HOST_CALL)
			rlx_host_step_time(&x->base, gpu_calls(c)[i].base.step, from);
		if (!st)
			st = gpu_check(d, d->api->event_record(x->event[i + 1], x->stream),
				       "timing", x->base.err);
	}
	if (!st)
		st = gpu_check(d, d->api->stream_wait(x->stream), "running", x->base.err);
	return st ? st : add_times(x);
}
