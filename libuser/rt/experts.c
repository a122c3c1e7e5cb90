// SPDX-License-Identifier: MIT
/* Layers of experts: which products of a program they are, and what a session keeps of each. */
#include <string.h>

#include "base/alloc.h"
#include "pass/pass.h"
#include "rt/rt.h"
#include "rt/session.h"

/* The layer of products that choose by @choice among @experts; a new one is the last. */
static struct rlx_expert_layer *layer_of(struct rlx_code *code, uint32_t choice, uint32_t experts)
{
	struct rlx_expert_layer *l = code->layer;

	while (l < code->layer + code->n_layer && (l->choice != choice || l->experts != experts))
		l++;
	if (l == code->layer + code->n_layer) {
		*l = (struct rlx_expert_layer){ .choice = choice, .experts = experts,
						.first = code->n_product };
		code->n_layer++;
	}
	return l;
}

static void add_product(struct rlx_code *code, uint32_t step, uint32_t choice)
{
	const struct rlx_plan *p = code->plan;
	const struct rlx_plan_val *w = &p->val[p->step[step].in[1]];
	const uint32_t experts = (uint32_t)w->type.dim[0];
	struct rlx_expert_layer *l = layer_of(code, choice, experts);

	if (!l->n_product++ && w->place.kind == RLX_PLACE_PARAM)
		l->name = p->io[RLX_IO_PARAM][w->place.index].name;
	l->expert_bytes += (uint64_t)rlx_type_bytes(&w->type) / (experts ? experts : 1);
	code->product[code->n_product++] = (struct rlx_expert_product){
		.step = step, .layer = (uint32_t)(l - code->layer),
	};
}

enum rlx_status rlx_experts_find(struct rlx_code *code, struct rlx_error *err)
{
	const struct rlx_plan *p = code->plan;
	uint32_t i, choice;

	code->product = rlx_calloc((size_t)p->n_step + 1, sizeof(*code->product));
	code->layer = rlx_calloc((size_t)p->n_step + 1, sizeof(*code->layer));
	if (!code->product || !code->layer)
		return rlx_fail(err, RLX_ENOMEM, "compile: out of memory");
	for (i = 0; i < p->n_step; i++) {
		choice = p->step[i].def ? rlx_expert_choice(p->g, &p->g->node[p->step[i].node]) : 0;
		/* indices have no room for more */
		if (choice && p->val[p->step[i].in[1]].type.dim[0] <= INT32_MAX)
			add_product(code, i, choice);
	}
	return RLX_OK;
}

enum rlx_status rlx_placements_init(struct rlx_session *s, struct rlx_error *err)
{
	const struct rlx_code *c = s->p->code;
	uint32_t i;

	if (!c->n_layer)
		return RLX_OK;
	s->placement = rlx_calloc(c->n_layer, sizeof(*s->placement));
	for (i = 0; s->placement && i < c->n_layer; i++) {
		struct rlx_placement *p = &s->placement[i];

		p->resident = rlx_calloc((size_t)c->layer[i].experts + 1, sizeof(*p->resident));
		p->hits = rlx_calloc((size_t)c->layer[i].experts + 1, sizeof(*p->hits));
		p->rows = rlx_calloc((size_t)c->layer[i].experts + 1, sizeof(*p->rows));
		if (!p->resident || !p->hits || !p->rows)
			break;
		memset(p->resident, true, c->layer[i].experts);
		p->changed = true;
	}
	if (i < c->n_layer)
		return rlx_fail(err, RLX_ENOMEM, "session: out of memory");
	s->exec->placement = s->placement;
	return RLX_OK;
}

void rlx_placements_copy(struct rlx_session *s, const struct rlx_session *like)
{
	const struct rlx_code *c = s->p->code;

	for (uint32_t i = 0; i < c->n_layer; i++) {
		memcpy(s->placement[i].resident, like->placement[i].resident, c->layer[i].experts);
		s->placement[i].changed = true;
	}
}

void rlx_placements_fini(struct rlx_session *s)
{
	uint32_t i;

	for (i = 0; s->placement && i < s->p->code->n_layer; i++) {
		rlx_free(s->placement[i].resident);
		rlx_free(s->placement[i].hits);
		rlx_free(s->placement[i].rows);
	}
	rlx_free(s->placement);
}
