// SPDX-License-Identifier: MIT
/* The active extent: how much of each call is run when only the first rows carry data. */
#include <string.h>

#include "backends/cpu/cpu.h"

static uint64_t units_of(struct cpu_exec *x, const struct cpu_call *call)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	const struct rlx_plan_step *st = &x->base.code->plan->step[call->base.step];
	const struct rlx_exec *e = &x->base;
	int64_t rows = call->base.rows;

	if (!rows)
		return call->units;
	rows = (int64_t)rlx_extent_of(e, x->extent.leads, st->out[0], (uint64_t)rows);
	if (call->set_rows)
		return call->set_rows(x->image + call->base.args, rows, c->isa);
	return (uint64_t)(((unsigned __int128)call->units * (uint64_t)rows +
			   (uint64_t)call->base.rows - 1) / (uint64_t)call->base.rows);
}

void cpu_set_extent(struct cpu_exec *x)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	uint32_t i;

	for (i = 0; i < c->calls.n_call; i++) {
		const struct cpu_call *call = &cpu_calls(c)[i];
		const struct rlx_checked *k = &call->base.checked;
		int64_t live = k->n ? rlx_extent_checked(&x->base, x->extent.leads, k) : 0;

		x->units[i] = units_of(x, call);
		if (k->n)
			memcpy(x->image + call->base.args + k->at, &live, sizeof(live));
	}
}
