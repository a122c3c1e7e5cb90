// SPDX-License-Identifier: MIT
/* One session's argument image, and the run: a walk over the calls. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"

static void patch(struct cpu_exec *x, const struct rlx_ref *r)
{
	char *base = NULL;

	if (r->kind == RLX_REF_STATUS) {
		base = (char *)&x->status;
	} else {
		switch (r->place.kind) {
		case RLX_PLACE_INPUT:
			base = x->base.ptr[RLX_IO_INPUT][r->place.index];
			break;
		case RLX_PLACE_PARAM:
			base = x->base.ptr[RLX_IO_PARAM][r->place.index];
			break;
		case RLX_PLACE_OUTPUT:
			base = x->base.ptr[RLX_IO_OUTPUT][r->place.index];
			break;
		case RLX_PLACE_WORK:
			base = x->base.work;
			break;
		default:
			break;
		}
		base = base ? base + r->place.offset : NULL;
	}
	memcpy(x->image + r->at, &base, sizeof(base));
}

static void patch_slot(struct cpu_exec *x, uint32_t slot)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	uint32_t r;

	for (r = c->slot_at[slot]; r < c->slot_at[slot + 1]; r++)
		patch(x, &c->reloc[r]);
}

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
	x->image = rlx_aligned(64, c->n_image + 64);
	x->units = rlx_calloc(c->n_call + 1, sizeof(*x->units));
	x->extent.leads = rlx_calloc(p->n_val, 1);
	if (!x->tensors || !x->image || !x->units || !x->extent.leads || !cpu_bodies_init(x)) {
		cpu_fini(exec);
		return rlx_fail(exec->err, RLX_ENOMEM, "cpu: out of memory");
	}
	if (c->n_image)
		memcpy(x->image, c->image, c->n_image);
	patch_slot(x, cpu_own_slot(p));
	for (i = 0; i < c->n_call; i++)
		x->units[i] = c->call[i].units;
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
	x->tensors = NULL;
	x->image = NULL;
	x->units = NULL;
	x->extent.leads = NULL;
}

void cpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	patch_slot((struct cpu_exec *)exec, cpu_slot(exec->code->plan, io, i));
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
		.fn = call->fn, .args = x->image + call->args,
		.scratch = (char *)x->base.work + c->scratch_at,
		.scratch_bytes = c->scratch_bytes,
	};

	if (call->parallel)
		rlx_pool_run(dev->pool, run_units, &s, units, call->grain);
	else if (units)
		call->fn(s.args, 0, units, s.scratch);
}

static enum rlx_status bad_data(struct cpu_exec *x, const struct cpu_call *call)
{
	x->status = 0;
	return rlx_lower_bad_data(&x->base.code->plan->step[call->step], x->base.err);
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
	for (i = 0; i < c->n_call && !st; i++) {
		const struct cpu_call *call = &c->call[i];

		if (exec->skip && exec->skip[call->step])
			continue;
		if (call->kind == RLX_CALL_KERNEL)
			run_kernel(x, call, x->units[i]);
		else if (call->kind == RLX_CALL_CONTROL)
			st = cpu_run_control(x, call);
		else
			st = rlx_host_step(exec, x->extent.leads, &p->step[call->step],
					   (char *)exec->work + c->host_at, x->tensors);
		if (x->status)
			st = bad_data(x, call);
		if (exec->step_ns)
			at = rlx_host_step_time(exec, call->step, at);
	}
	rlx_pool_end(dev->pool);
	return st;
}
