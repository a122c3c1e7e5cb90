// SPDX-License-Identifier: MIT
/*
 * Which steps a run leaves out: those that no wanted output needs, and those of params and
 * constants alone whose results are still there from an earlier run (struct rlx_plan_step).
 * Params are taken to stay as they are until they are bound, set or asked for to be written
 * (rlx_session_bind()); then such steps run once more. A step is needed if something that runs
 * reads what it makes, so what is not kept is made again for whom it takes.
 *
 * A workspace that the caller gave may be another session's between two runs: nothing is kept.
 */
#include <string.h>

#include "base/alloc.h"
#include "rt/session.h"

enum rlx_status rlx_skip_init(struct rlx_session *s, struct rlx_error *err)
{
	const struct rlx_plan *p = s->p->plan;

	s->skip = rlx_calloc((size_t)p->n_step + 1, 1);
	s->need = rlx_calloc((size_t)p->n_val + 1, 1);
	if (p->n_persistent && !s->work_given)
		s->fresh = rlx_calloc((size_t)p->n_step + 1, 1);
	if (!s->skip || !s->need || (p->n_persistent && !s->work_given && !s->fresh))
		return rlx_fail(err, RLX_ENOMEM, "session: out of memory");
	return RLX_OK;
}

void rlx_skip_fini(struct rlx_session *s)
{
	rlx_free(s->skip);
	rlx_free(s->want);
	rlx_free(s->fresh);
	rlx_free(s->need);
}

/* Values stand for their storage: @need by root. */
static void need_outputs(const struct rlx_session *s)
{
	const struct rlx_plan *p = s->p->plan;
	uint32_t i;

	if (s->want) {
		memcpy(s->need, s->want, p->n_val);
		return;
	}
	memset(s->need, 0, p->n_val);
	for (i = 0; i < p->n_io[RLX_IO_OUTPUT]; i++)
		s->need[p->val[p->io[RLX_IO_OUTPUT][i].val].root] = 1;
}

/* True: it leaves something out. */
static bool mark(const struct rlx_session *s)
{
	const struct rlx_plan *p = s->p->plan;
	uint32_t n = p->n_step, i;
	bool any = false;

	need_outputs(s);
	while (n-- > 0) {
		const struct rlx_plan_step *st = &p->step[n];
		bool need = !s->want && !st->once;

		for (i = 0; i < st->n_out; i++)
			need = need || s->need[p->val[st->out[i]].root];
		need = need && !(s->fresh && s->fresh[n]);
		s->skip[n] = !need;
		any = any || !need;
		for (i = 0; need && i < st->n_in; i++)
			if (st->in[i])
				s->need[p->val[st->in[i]].root] = 1;
	}
	return any;
}

void rlx_skip_begin(struct rlx_session *s)
{
	if (!s->skip_stale)
		return;
	s->exec->skip = mark(s) ? s->skip : NULL;
	s->skip_stale = false;
}

/* Is all that it makes kept? */
static bool stays(const struct rlx_plan *p, const struct rlx_plan_step *st)
{
	uint32_t i;

	for (i = 0; i < st->n_out; i++)
		if (!p->val[p->val[st->out[i]].root].persistent)
			return false;
	return st->once;
}

void rlx_skip_ran(struct rlx_session *s)
{
	const struct rlx_plan *p = s->p->plan;
	uint32_t i;

	if (!s->fresh)
		return;
	for (i = 0; i < p->n_step; i++) {
		if (s->fresh[i] || (s->exec->skip && s->exec->skip[i]) || !stays(p, &p->step[i]))
			continue;
		s->fresh[i] = 1;
		s->skip_stale = true;
	}
}

void rlx_skip_param_changed(struct rlx_session *s)
{
	if (!s->fresh)
		return;
	memset(s->fresh, 0, s->p->plan->n_step);
	s->skip_stale = true;
}
