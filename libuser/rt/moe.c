// SPDX-License-Identifier: MIT
/* Where a session's experts lie, what its runs did with them, and which are worth a place. */
#include <limits.h>
#include <string.h>

#include "rlx/moe.h"
#include "rt/session.h"

unsigned int rlx_moe_layers(const struct rlx_session *s)
{
	return s ? s->p->code->n_layer : 0;
}

static const char *name_of(const struct rlx_expert_layer *l)
{
	return l->name ? l->name : "a constant";
}

/* Nobody runs, and there are layers; @layer -1 stands for all of them. */
static enum rlx_status find_layer(struct rlx_session *s, int64_t layer)
{
	const struct rlx_code *c;

	if (!s)
		return RLX_EINVAL;
	if (rlx_session_not_busy(s))
		return s->err.status;
	c = s->p->code;
	if (!(s->p->flags & RLX_COMPILE_PLACE))
		return rlx_fail(&s->err, RLX_EINVAL, "experts: the program was compiled without "
				"RLX_COMPILE_PLACE; their weights lie with the others'");
	if (layer < -1 || layer >= c->n_layer)
		return rlx_fail(&s->err, RLX_ERANGE, "experts: layer %lld of %u; give one of them, "
				"or -1 for all", (long long)layer, c->n_layer);
	return RLX_OK;
}

/* Are all of its products as placed? */
static enum rlx_status check_placed(struct rlx_session *s, uint32_t layer)
{
	const struct rlx_code *c = s->p->code;
	const struct rlx_plan_step *st;
	uint32_t i;

	for (i = 0; i < c->n_product; i++) {
		if (c->product[i].layer != layer || c->product[i].placed)
			continue;
		st = &s->p->plan->step[c->product[i].step];
		rlx_error_set(&s->err, RLX_ENOSUP, st->file, st->line, "experts of layer %u (%s): "
			      "%s cannot leave those of its step %u, %s, in host memory: it takes "
			      "params and constants that no other step reads, by a kernel",
			      layer, name_of(&c->layer[layer]), s->p->info.device,
			      c->product[i].step, st->def->name);
		return RLX_ENOSUP;
	}
	return RLX_OK;
}

/* The same, and layers [*@first, *@end) are those that are meant, all placed. */
static enum rlx_status find_placed(struct rlx_session *s, int64_t layer, uint32_t *first,
				   uint32_t *end)
{
	enum rlx_status st = find_layer(s, layer);
	uint32_t i;

	if (st)
		return st;
	*first = layer < 0 ? 0 : (uint32_t)layer;
	*end = layer < 0 ? s->p->code->n_layer : *first + 1;
	for (i = *first; i < *end && !st; i++)
		st = check_placed(s, i);
	return st;
}

enum rlx_status rlx_moe_layer(struct rlx_session *s, unsigned int layer,
			      struct rlx_moe_layer *out)
{
	enum rlx_status st = find_layer(s, layer);
	const struct rlx_expert_layer *l;
	uint32_t i;

	if (st)
		return st;
	if (!out)
		return rlx_fail(&s->err, RLX_EINVAL, "experts: no place for what is told");
	l = &s->p->code->layer[layer];
	*out = (struct rlx_moe_layer){ .name = l->name, .experts = l->experts,
				       .products = l->n_product, .expert_bytes = l->expert_bytes };
	for (i = 0; i < l->experts; i++)
		out->resident += s->placement[layer].resident[i];
	return RLX_OK;
}

enum rlx_status rlx_moe_place(struct rlx_session *s, int layer, const bool *resident,
			      unsigned int n)
{
	uint32_t first, end, i;
	enum rlx_status st = find_placed(s, layer, &first, &end);

	if (st)
		return st;
	if (n && !resident)
		return rlx_fail(&s->err, RLX_EINVAL, "experts: none of the %u is told of", n);
	for (i = first; i < end; i++)
		if (n > s->p->code->layer[i].experts)
			return rlx_fail(&s->err, RLX_ERANGE, "experts: %u are placed, layer %u "
					"(%s) has %u", n, i, name_of(&s->p->code->layer[i]),
					s->p->code->layer[i].experts);
	for (i = first; i < end; i++) {
		memset(s->placement[i].resident, true, s->p->code->layer[i].experts);
		if (n)
			memcpy(s->placement[i].resident, resident, n * sizeof(*resident));
		s->placement[i].changed = true;
	}
	return RLX_OK;
}

static void add(struct rlx_moe_stats *sum, const struct rlx_moe_stats *x)
{
	sum->rows_device += x->rows_device;
	sum->rows_host += x->rows_host;
	sum->calls_device += x->calls_device;
	sum->calls_host += x->calls_host;
	sum->streamed += x->streamed;
	sum->streamed_bytes += x->streamed_bytes;
	sum->promoted += x->promoted;
	sum->demoted += x->demoted;
}

enum rlx_status rlx_moe_stats(struct rlx_session *s, int layer, struct rlx_moe_stats *out)
{
	uint32_t first, end, i;
	enum rlx_status st = find_placed(s, layer, &first, &end);

	if (st)
		return st;
	if (!out)
		return rlx_fail(&s->err, RLX_EINVAL, "experts: no place for the counts");
	*out = (struct rlx_moe_stats){ 0 };
	for (i = first; i < end; i++) {
		add(out, &s->placement[i].stats);
		s->placement[i].stats = (struct rlx_moe_stats){ 0 };
	}
	return RLX_OK;
}

enum rlx_status rlx_moe_hits(struct rlx_session *s, unsigned int layer, uint64_t *out,
			     unsigned int n)
{
	uint32_t first, end;
	enum rlx_status st = find_placed(s, layer, &first, &end);

	if (st)
		return st;
	if (!out)
		return rlx_fail(&s->err, RLX_EINVAL, "experts: no place for the counts");
	if (n != s->p->code->layer[layer].experts)
		return rlx_fail(&s->err, RLX_ERANGE, "experts: room for the counts of %u, layer %u "
				"(%s) has %u", n, layer, name_of(&s->p->code->layer[layer]),
				s->p->code->layer[layer].experts);
	memcpy(out, s->placement[layer].hits, n * sizeof(*out));
	memset(s->placement[layer].hits, 0, n * sizeof(*out));
	return RLX_OK;
}

/* ---- which are worth a place ---- */

unsigned int rlx_moe_budget(uint64_t free, uint64_t reserve, uint64_t expert_bytes,
			    unsigned int layers)
{
	uint64_t n;

	if (free <= reserve)
		return 0;
	if (!expert_bytes || !layers)
		return UINT_MAX;
	n = (free - reserve) / expert_bytes / layers;
	return n < UINT_MAX ? (unsigned int)n : UINT_MAX;
}

unsigned int rlx_moe_target(const uint64_t *hits, unsigned int n, unsigned int budget,
			    unsigned int *target)
{
	unsigned int found = 0, last = 0, best, i;

	for (; hits && target && found < budget && found < n; found++) {
		for (best = n, i = 0; i < n; i++) {
			/* behind the last one: hit less, or as often with a higher number */
			if (!hits[i] || (found && (hits[i] > hits[last] ||
						   (hits[i] == hits[last] && i <= last))))
				continue;
			if (best == n || hits[i] > hits[best])
				best = i;
		}
		if (best == n)
			break;
		target[found] = last = best;
	}
	return found;
}

static bool is_in(unsigned int e, const unsigned int *target, unsigned int n)
{
	while (n && target[n - 1] != e)
		n--;
	return n;
}

void rlx_moe_refresh(bool *resident, unsigned int n, const unsigned int *target,
		     unsigned int n_target, unsigned int *promoted, unsigned int *demoted)
{
	unsigned int in = 0, out = 0, i;

	n = resident && target ? n : 0;
	for (i = 0; n && i < n_target; i++)
		if (target[i] < n && !resident[target[i]]) {
			resident[target[i]] = true;
			in++;
		}
	for (i = 0; i < n && out < in; i++)
		if (resident[i] && !is_in(i, target, n_target)) {
			resident[i] = false;
			out++;
		}
	if (promoted)
		*promoted = in;
	if (demoted)
		*demoted = out;
}
