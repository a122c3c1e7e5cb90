// SPDX-License-Identifier: MIT
/* One session's argument image, and the run: a walk over the calls. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "kernels/cpu/index_at.h"
#include "kernels/grouped.h"

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
	x->pack_use = rlx_calloc((size_t)c->n_param_pack + 1, sizeof(*x->pack_use));
	if (!x->tensors || !x->image || !x->units || !x->extent.leads || !x->pack_use ||
	    !cpu_bodies_init(x)) {
		cpu_fini(exec);
		return rlx_fail(exec->err, RLX_ENOMEM, "cpu: out of memory");
	}
	rlx_calls_bind(&c->calls, x->image, rlx_slot_work(p), (uintptr_t)x->base.work);
	rlx_calls_bind(&c->calls, x->image, rlx_slot_status(p), (uintptr_t)&x->status);
	for (i = 0; i < c->calls.n_call; i++)
		x->units[i] = cpu_calls(c)[i].units;
	for (i = 0; i < c->n_param_pack; i++)
		x->pack_use[i].hasty = !exec->work_kept;
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
	rlx_free(x->pack_use);
	x->tensors = NULL;
	x->image = NULL;
	x->units = NULL;
	x->extent.leads = NULL;
	x->pack_use = NULL;
}

/* A packing costs what so many uses of packed weights save, where these are few rows' each. */
enum { PAYS = 8 };

/* What was packed of a param is no longer there, or no longer the param. @param: 1 + it; 0: any */
static void forget_packs(struct cpu_exec *x, uint32_t param)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	uint32_t i;

	for (i = 0; i < c->n_param_pack; i++) {
		const uint32_t of = c->param_pack[i].param;
		struct cpu_pack_use *u = &x->pack_use[i];

		if (param && of && param != of)
			continue;
		u->hasty = u->uses ? u->uses < PAYS : u->hasty;
		u->packed = false;
		u->uses = 0;
	}
}

void cpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	const struct rlx_calls *calls = &((const struct cpu_code *)exec->code)->calls;
	struct cpu_exec *x = (struct cpu_exec *)exec;

	rlx_calls_bind(calls, x->image, rlx_slot_of(exec->code->plan, io, i),
		       (uintptr_t)exec->ptr[io][i]);
	if (io == RLX_IO_PARAM)
		forget_packs(x, i + 1);
}

struct shared {
	rlx_k_fn	*fn;
	const void	*args;
	char		*scratch;
	uint64_t	 scratch_bytes;
	enum rlx_isa	 isa;
};

static void run_units(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct shared *s = ctx;

	cpu_run_units(s->isa, s->fn, s->args, begin, end, s->scratch + worker * s->scratch_bytes);
}

static void run_kernel(struct cpu_exec *x, const struct cpu_call *call, uint64_t units)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	struct cpu_device *dev = (struct cpu_device *)c->base.dev;
	struct shared s = {
		.fn = call->fn, .args = x->image + call->base.args,
		.scratch = (char *)x->base.work + c->scratch_at,
		.scratch_bytes = c->scratch_bytes, .isa = dev->isa,
	};

	if (call->parallel)
		rlx_pool_run(dev->pool, run_units, &s, units, 0);
	else if (units)
		run_units(&s, 0, units, 0);
}

/* For who asks which experts are hit: all are where the kernel reads them. */
static void count_rows(struct cpu_exec *x, const struct cpu_call *call)
{
	const struct rlx_k_grouped *a = (const void *)(x->image + call->base.args);
	struct rlx_placement *p = &x->base.placement[call->layer - 1];
	int64_t i, e;

	memset(p->rows, 0, (size_t)a->experts * sizeof(*p->rows));
	for (i = 0; i < a->live; i++) {
		e = rlx_k_index_at(a->idx, a->idx_type, (size_t)i, a->experts, NULL);
		if (e >= 0)
			p->rows[e]++;
	}
	rlx_placement_count(p, (uint32_t)a->experts, NULL);
}

/* Is it this call's turn in this run? Weights that it reads packed are so then. */
static bool takes_turn(struct cpu_exec *x, const struct cpu_call *call)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	const struct cpu_param_pack *p;
	struct cpu_pack_use *u;

	if (call->packs || (x->base.skip && x->base.skip[call->base.step]))
		return false;
	if (!call->pack)
		return true;
	p = &c->param_pack[call->pack - 1];
	u = &x->pack_use[call->pack - 1];
	if (call->unpacked)
		return !u->packed;
	if (!u->packed && (!p->optional || !u->hasty || u->uses == PAYS)) {
		run_kernel(x, &cpu_calls(c)[p->call], x->units[p->call]);
		u->packed = true;
	}
	u->uses += u->uses < PAYS;
	return u->packed;
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
	if (!exec->work_kept)
		forget_packs(x, 0);
	rlx_pool_begin(dev->pool);
	for (i = 0; i < c->calls.n_call && !st; i++) {
		const struct cpu_call *call = &cpu_calls(c)[i];

		if (!takes_turn(x, call))
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
		if (call->layer && exec->placement)
			count_rows(x, call);
		if (exec->step_ns)
			at = rlx_host_step_time(exec, call->base.step, at);
	}
	rlx_pool_end(dev->pool);
	return st;
}
