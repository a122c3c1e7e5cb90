// SPDX-License-Identifier: MIT
/*
 * The reference backend: every step by its op's own evaluation, in double. The
 * oracle for the others; needs no speed.
 */
#include <stdio.h>

#include "backends/common/extent.h"
#include "backends/common/host.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "plan/place.h"

struct ref_exec {
	struct rlx_exec		 base;
	struct rlx_tensor	*tensors;
	struct rlx_extent	 extent;
};

static unsigned int ref_probe(struct rlx_dev_info *info, unsigned int first, unsigned int max)
{
	if (!first && max)
		*info = (struct rlx_dev_info){
			.backend = "ref", .name = "reference evaluation in double",
			.threads = 1, .by_name = true,
		};
	return 1;
}

static enum rlx_status ref_open(struct rlx_device *dev, struct rlx_error *err)
{
	(void)err;
	dev->threads = 1;
	return RLX_OK;
}

static void ref_close(struct rlx_device *dev)
{
	(void)dev;
}

/* Scratch of all steps is one area behind the plan's workspace. */
static enum rlx_status ref_compile(struct rlx_code *code, uint32_t flags,
				   struct rlx_error *err)
{
	struct rlx_plan *p = code->plan;
	uint64_t most = 0, bytes;
	enum rlx_status st = rlx_plan_place_steps(p, err);
	uint32_t i;

	(void)flags;
	if (st)
		return st;
	for (i = 0; i < p->n_step; i++) {
		st = rlx_host_scratch(p, &p->step[i], &bytes, err);
		if (st)
			return st;
		most = bytes > most ? bytes : most;
	}
	if (__builtin_add_overflow(p->work_bytes, most, &code->work_bytes))
		return rlx_fail(err, RLX_ENOMEM, "ref: over 2^64 bytes of workspace");
	code->native = p->n_step;
	return RLX_OK;
}

static void ref_release(struct rlx_code *code)
{
	(void)code;
}

static void ref_fini(struct rlx_exec *exec)
{
	struct ref_exec *x = (struct ref_exec *)exec;

	rlx_free(x->tensors);
	rlx_free(x->extent.leads);
	x->tensors = NULL;
	x->extent.leads = NULL;
}

static enum rlx_status ref_init(struct rlx_exec *exec)
{
	struct ref_exec *x = (struct ref_exec *)exec;
	const struct rlx_plan *p = exec->code->plan;
	uint32_t i, most = 2;

	for (i = 0; i < p->n_step; i++)
		if (p->step[i].n_in + p->step[i].n_out > most)
			most = p->step[i].n_in + p->step[i].n_out;
	x->tensors = rlx_calloc(most, sizeof(*x->tensors));
	x->extent.leads = rlx_calloc(p->n_val, 1);
	if (x->tensors && x->extent.leads)
		return RLX_OK;
	ref_fini(exec);
	return rlx_fail(exec->err, RLX_ENOMEM, "ref: out of memory");
}

static void ref_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	(void)exec;	/* addresses are looked up at each step */
	(void)io;
	(void)i;
}

/* Steps are computed whole, but for those that would find fault with rows without data. */
static enum rlx_status ref_submit(struct rlx_exec *exec, bool away, uint64_t *out_point)
{
	struct ref_exec *x = (struct ref_exec *)exec;
	const struct rlx_plan *p = exec->code->plan;
	char *scratch = (char *)exec->work + p->work_bytes;
	enum rlx_status st = RLX_OK;
	uint64_t at = exec->step_ns ? rlx_now() : 0;
	uint32_t i;

	(void)away;
	(void)out_point;
	rlx_extent_changes(exec, &x->extent);
	for (i = 0; i < p->n_step && !st; i++) {
		if (!exec->skip || !exec->skip[i])
			st = rlx_host_step(exec, x->extent.leads, &p->step[i], scratch, x->tensors);
		if (exec->step_ns)
			at = rlx_host_step_time(exec, i, at);
	}
	return st;
}

/* What a precision allows is rounded: GEMMs, convolutions, attention (enum rlx_precision). */
static void ref_target(const struct rlx_device *dev, struct rlx_target *t)
{
	(void)dev;
	t->mma16 = true;
}

const struct rlx_backend rlx_backend_ref = {
	.abi = RLX_BACKEND_ABI,
	.name = "ref",
	.device_size = sizeof(struct rlx_device),
	.code_size = sizeof(struct rlx_code),
	.exec_size = sizeof(struct ref_exec),
	.probe = ref_probe, .open = ref_open, .close = ref_close,
	.target = ref_target,
	.compile = ref_compile, .release = ref_release,
	.init = ref_init, .fini = ref_fini, .bind = ref_bind, .submit = ref_submit,
};
