/* SPDX-License-Identifier: MIT */
/*
 * Asking a lowering function whether it takes an op: lowered without a trace, so that
 * there is one rule of what is native and it is the function's own.
 */
#ifndef RLX_BACKENDS_TRIAL_H
#define RLX_BACKENDS_TRIAL_H

#include "plan/plan.h"

/* A plan of one step with an op's types: its inputs, then its outputs, as values. */
struct rlx_lower_trial {
	struct rlx_plan		 plan;
	struct rlx_plan_step	 step;
	uint32_t		*id;
};

/*
 * @constants: inputs that @q says are constants are so in the plan; else all are inputs.
 * False: out of memory. Free with rlx_lower_trial_fini(), also then.
 */
bool rlx_lower_trial_init(struct rlx_lower_trial *t, const struct rlx_infer *q, bool constants);
void rlx_lower_trial_fini(struct rlx_lower_trial *t);

#endif
