/* SPDX-License-Identifier: MIT */
/*
 * Running a plan's steps by the ops' own reference evaluation, on the plan's
 * memory: all of the ref backend, and what others do with ops they lack.
 */
#ifndef RLX_BACKENDS_HOST_H
#define RLX_BACKENDS_HOST_H

#include "rlx/backend.h"
#include "plan/plan.h"

/* What is in @b, a constant of @code's plan, for who reads it: notes that, or that it is absent. */
const void *rlx_host_contents(struct rlx_code *code, struct rlx_blob *b);

/* Where constant @i of the plan is at run time. */
const void *rlx_host_const(const struct rlx_code *code, uint32_t i);

/*
 * The same when compiling. What lies in a file is copied to the store, so that no run
 * depends on the file any more.
 */
const void *rlx_host_home(struct rlx_code *code, uint32_t i);

/* Where value @v of the plan is in this exec; NULL for an absent input. */
void *rlx_host_ptr(const struct rlx_exec *exec, uint32_t v);

/* Bytes of scratch that step @st needs at run time. */
enum rlx_status rlx_host_scratch(const struct rlx_plan *p,
				 const struct rlx_plan_step *st,
				 uint64_t *out_bytes, struct rlx_error *err);

/*
 * Evaluate one step. @leads: of rlx_extent_find(), looked at with an active extent.
 * @scratch: as rlx_host_scratch() said, 64-byte aligned. @tensors: room for n_in + n_out.
 */
enum rlx_status rlx_host_step(const struct rlx_exec *exec, const uint8_t *leads,
			      const struct rlx_plan_step *st, void *scratch,
			      struct rlx_tensor *tensors);

/* @rc, what became of a step: its error is where the caller asked for the op. */
static inline enum rlx_status rlx_host_ended(const struct rlx_exec *exec,
					     const struct rlx_plan_step *st, enum rlx_status rc)
{
	if (rc && exec->err->status && st->file) {
		exec->err->file = st->file;
		exec->err->line = st->line;
		exec->err->node = st->node;
	}
	return rc;
}

/*
 * For exec->step_ns: adds the time since @from, by rlx_now(), to @step; gives the time
 * now.
 */
uint64_t rlx_host_step_time(const struct rlx_exec *exec, uint32_t step, uint64_t from);

#endif
