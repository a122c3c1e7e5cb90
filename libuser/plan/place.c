// SPDX-License-Identifier: MIT
/*
 * Offsets in the workspace: walk the steps, take storage when a root is first
 * written and give it back after its last use, best fit over the free blocks.
 */
#include "base/alloc.h"
#include "plan/holes.h"
#include "plan/plan.h"

static uint64_t padded(const struct rlx_plan *p, uint32_t v)
{
	uint64_t bytes = rlx_plan_bytes(p, v);

	return bytes ? (bytes + RLX_PLAN_ALIGN - 1) & ~(uint64_t)(RLX_PLAN_ALIGN - 1)
		     : RLX_PLAN_ALIGN;
}

/* Only small values have slack: of large ones it would cost memory. */
enum { MOST_LINGERING = 64 << 10 };

/* Roots by the step that gives their storage back, as linked lists: next[v], head[step]. */
static void list_deaths(const struct rlx_plan *p, unsigned int slack, uint32_t *head,
			uint32_t *next)
{
	uint64_t last;
	uint32_t v;

	for (v = 1; v < p->n_val; v++) {
		last = p->val[v].last;
		if (rlx_plan_bytes(p, v) <= MOST_LINGERING)
			last += slack;
		if (p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_WORK &&
		    last < p->n_step) {
			next[v] = head[last];
			head[last] = v;
		}
	}
}

static bool place_step(struct rlx_plan *p, uint32_t s, struct rlx_holes *h)
{
	struct rlx_plan_step *st = &p->step[s];
	uint32_t i;

	for (i = 0; i < st->n_out; i++) {
		struct rlx_plan_val *v = &p->val[st->out[i]];

		if (v->root != st->out[i] || v->place.kind != RLX_PLACE_WORK)
			continue;
		if (!rlx_holes_take(h, padded(p, st->out[i]), &v->place.offset))
			return false;
		p->naive_bytes += padded(p, st->out[i]);
	}
	return true;
}

enum rlx_status rlx_plan_place(struct rlx_plan *p, unsigned int slack,
			       struct rlx_error *err)
{
	uint32_t *head = rlx_calloc((size_t)p->n_step + 1, sizeof(*head));
	uint32_t *next = rlx_calloc(p->n_val, sizeof(*next));
	struct rlx_holes h = { 0 };
	bool ok = head && next;
	uint32_t s, i, v;

	for (s = 0; ok && s < p->n_step; s++)
		for (i = 0; i < p->step[s].n_out; i++) {
			v = p->step[s].out[i];
			if (p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_NONE)
				p->val[v].place.kind = RLX_PLACE_WORK;
		}
	if (ok)
		list_deaths(p, slack, head, next);
	for (s = 0; ok && s < p->n_step; s++) {
		ok = place_step(p, s, &h);
		for (v = ok ? head[s] : 0; ok && v; v = next[v])
			ok = rlx_holes_give(&h, p->val[v].place.offset, padded(p, v));
	}
	p->work_bytes = h.end;
	rlx_holes_fini(&h);
	rlx_free(next);
	rlx_free(head);
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM,
				      "plan: out of memory, or over 2^64 bytes of workspace");
}
