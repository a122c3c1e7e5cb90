// SPDX-License-Identifier: MIT
/* One session's argument image, and the run: a walk over the calls. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"

enum rlx_status cpu_init(struct rlx_exec *exec)
{
	struct cpu_exec *x = (struct cpu_exec *)exec;
	const struct cpu_code *c = (const struct cpu_code *)exec->code;
	const struct rlx_plan *p = exec->code->plan;
	uint32_t i, most = 2;

	for (i = 0; i < p->n_step; i++)
		if (p->step[i].n_in + p->step[i].n_out > most)
			most = p->step[i].n_in + p->step[i].n_out;
	x->tensors = rlx_calloc(most, sizeof(*x->tensors));
	x->image = rlx_calls_image(&c->calls);
	x->units = rlx_calloc(c->calls.n_call + 1, sizeof(*x->units));
	x->extent.leads = rlx_calloc(p->n_val, 1);
	if (exec->work_kept && c->has_once)
		x->fresh = rlx_calloc(c->calls.n_call, 1);
	if (!x->tensors || !x->image || !x->units || !x->extent.leads || !cpu_bodies_init(x) ||
	    (exec->work_kept && c->has_once && !x->fresh)) {
		cpu_fini(exec);
		return rlx_fail(exec->err, RLX_ENOMEM, "cpu: out of memory");
	}
	rlx_calls_bind(&c->calls, x->image, rlx_slot_work(p), (uintptr_t)x->base.work);
	rlx_calls_bind(&c->calls, x->image, rlx_slot_status(p), (uintptr_t)&x->status);
	for (i = 0; i < c->calls.n_call; i++)
		x->units[i] = cpu_calls(c)[i].units;
	return RLX_OK;
}

void cpu_fini(struct rlx_exec *exec)
{
	struct cpu_exec *x = (struct cpu_exec *)exec;

	cpu_bodies_fini(x);
	rlx_free(x->tensors);
	rlx_free(x->image);
	rlx_free(x->units);
	rlx_free(x->extent.leads);
	rlx_free(x->fresh);
	x->tensors = NULL;
	x->image = NULL;
	x->units = NULL;
	x->extent.leads = NULL;
	x->fresh = NULL;
}

void cpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	const struct rlx_calls *calls = &((const struct cpu_code *)exec->code)->calls;
	struct cpu_exec *x = (struct cpu_exec *)exec;

	rlx_calls_bind(calls, x->image, rlx_slot_of(exec->code->plan, io, i),
		       (uintptr_t)exec->ptr[io][i]);
	if (io == RLX_IO_PARAM && x->fresh)
		memset(x->fresh, 0, calls->n_call);
}

struct shared {
	rlx_k_fn	*fn;
	const void	*args;
	char		*scratch;
	uint64_t	 scratch_bytes;
};

static void run_units(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct shared *s = ctx;

	s->fn(s->args, begin, end, s->scratch + worker * s->scratch_bytes);
}

static void run_kernel(struct cpu_exec *x, const struct cpu_call *call, uint64_t units)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	struct cpu_device *dev = (struct cpu_device *)c->base.dev;
	struct shared s = {
		.fn = call->fn, .args = x->image + call->base.args,
		.scratch = (char *)x->base.work + c->scratch_at,
		.scratch_bytes = c->scratch_bytes,
	};

	if (call->parallel)
		rlx_pool_run(dev->pool, run_units, &s, units, 0);
	else if (units)
		call->fn(s.args, 0, units, s.scratch);
}

static enum rlx_status bad_data(struct cpu_exec *x, const struct cpu_call *call)
{
	x->status = 0;
	return rlx_lower_bad_data(&x->base.code->plan->step[call->base.step], x->base.err);
}

enum rlx_status cpu_submit(struct rlx_exec *exec, bool away, uint64_t *out_point)
{
	struct cpu_exec *x = (struct cpu_exec *)exec;
	const struct cpu_code *c = (const struct cpu_code *)exec->code;
	struct cpu_device *dev = (struct cpu_device *)c->base.dev;
	const struct rlx_plan *p = exec->code->plan;
	enum rlx_status st = RLX_OK;
	uint64_t at = exec->step_ns ? rlx_now() : 0;
	uint32_t i;

	(void)away;
	(void)out_point;
	if (rlx_extent_changes(exec, &x->extent))
		cpu_set_extent(x);
	rlx_pool_begin(dev->pool);
	for (i = 0; i < c->calls.n_call && !st; i++) {
		const struct cpu_call *call = &cpu_calls(c)[i];

		if ((exec->skip && exec->skip[call->base.step]) || (x->fresh && x->fresh[i]))
			continue;
		if (call->kind == RLX_CALL_KERNEL)
			run_kernel(x, call, x->units[i]);
		else if (call->kind == RLX_CALL_CONTROL)
			st = cpu_run_control(x, call);
		else
			st = rlx_host_step(exec, x->extent.leads, &p->step[call->base.step],
					   (char *)exec->work + c->host_at, x->tensors);
		if (x->status)
			st = bad_data(x, call);
		if (x->fresh)
			x->fresh[i] = call->once;
		if (exec->step_ns)
			at = rlx_host_step_time(exec, call->base.step, at);
	}
	rlx_pool_end(dev->pool);
	return st;
}
