// SPDX-License-Identifier: MIT
/* rlx bench: the steps of params and constants alone, which the runs it times leave out. */
#include "base/alloc.h"
#include "rt/session.h"
#include "tools/rlx/subject.h"

/*
 * Mark the root of @st's results in @from_inputs if it reads one of those; whether it does.
 * Steps are in order, so each is asked behind all that it reads.
 */
static bool reads_inputs(const struct rlx_plan *p, const struct rlx_plan_step *st,
			 bool *from_inputs)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < st->n_in; i++)
		any = any || (st->in[i] && from_inputs[p->val[st->in[i]].root]);
	for (i = 0; any && i < st->n_out; i++)
		if (st->out[i])
			from_inputs[p->val[st->out[i]].root] = true;
	return any;
}

bool left_out(const struct subject *s, struct left_out *out)
{
	const struct rlx_plan *p = s->session->p->plan;
	const uint8_t *skip = s->session->exec->skip;
	bool *from_inputs = rlx_calloc((size_t)p->n_val + 1, sizeof(*from_inputs));
	struct rlx_cost c;
	uint32_t i;

	*out = (struct left_out){ .all = true };
	if (!from_inputs)
		return false;
	for (i = 0; i < p->n_io[RLX_IO_INPUT]; i++)
		from_inputs[p->val[p->io[RLX_IO_INPUT][i].val].root] = true;
	for (i = 0; i < p->n_step; i++) {
		const struct rlx_plan_step *st = &p->step[i];

		if (reads_inputs(p, st, from_inputs))
			out->all = false;
		if (!skip || !skip[i])
			continue;
		out->steps++;
		if (!st->def)
			continue;
		c = rlx_plan_cost(p, st);
		out->flops += c.flops;
		out->bytes += c.bytes;
	}
	out->all = out->all && out->steps;
	rlx_free(from_inputs);
	return true;
}
