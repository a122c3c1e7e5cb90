// SPDX-License-Identifier: MIT
/* How the operands of a region that joins parts lie. */
#include "backends/common/parts.h"

bool rlx_lower_joins_parts(const struct rlx_graph *body)
{
	uint32_t n;

	for (n = 0; n < body->n_node; n++)
		if (body->node[n].def->index == RLX_OP_concat)
			return true;
	return false;
}

/* Of the value that @concat gives, from the end on: inputs may have fewer dimensions. */
static uint32_t axis_back(const struct rlx_graph *b, const struct rlx_node *concat)
{
	uint32_t rank = b->val[concat->out].type.rank;

	return rank - shape_axis(((const struct rlx_op_concat *)concat->args)->axis, rank);
}

int64_t rlx_lower_part_length(const struct rlx_parts *p, uint32_t k)
{
	const struct rlx_type *t = &p->body->val[p->concat->in[k]].type;

	return t->dim[t->rank - axis_back(p->body, p->concat)];
}

/* The body's input that @v is, or repeats. */
static uint32_t input_of(const struct rlx_graph *b, uint32_t v)
{
	const struct rlx_node *n = rlx_node_of(b, v);

	return n->def->index == RLX_OP_expand ? n->in[0] : v;
}

/* Does @concat join inputs from the @first on, in order, either all repeated or none? */
static bool joins_inputs(const struct rlx_graph *b, const struct rlx_node *concat, uint32_t first)
{
	const struct rlx_named_list *in = &b->io[RLX_IO_INPUT];
	bool repeats = concat->in[0] != input_of(b, concat->in[0]);
	uint32_t k, v;

	for (k = 0; k < concat->n_in; k++) {
		v = input_of(b, concat->in[k]);
		if (first + k >= in->n || in->e[first + k].v.id != v ||
		    repeats != (concat->in[k] != v))
			return false;
	}
	return true;
}

/* Dimensions [from, to) of @y: has @t all of them (@bit), or none? false: only some. */
static bool has_span(const struct rlx_type *t, const struct rlx_type *y, uint32_t from,
		     uint32_t to, uint8_t bit, uint8_t *has)
{
	bool all = true, none = true;
	uint32_t less = y->rank - t->rank, i;

	for (i = from; i < to; i++) {
		int64_t d = i < less ? 1 : t->dim[i - less];

		all = all && d == y->dim[i];
		none = none && d == 1;
	}
	*has |= none ? 0 : bit;
	return all || none;
}

/* Step input @i, or those that a concat joins from it on; how many, 0: none that can be. */
static uint32_t add_operand(struct rlx_parts *p, uint32_t i)
{
	const struct rlx_graph *b = p->body;
	uint32_t v = b->io[RLX_IO_INPUT].e[i].v.id, n;
	struct rlx_parts_operand *o = &p->operand[p->n_operand];

	if (p->n_operand++ == RLX_EW_MAX_IN)
		return 0;
	*o = (struct rlx_parts_operand){ .value = v, .first = i };
	for (n = 0; n < b->n_node; n++) {
		const struct rlx_node *c = &b->node[n];

		if (c->def->index != RLX_OP_concat || input_of(b, c->in[0]) != v)
			continue;
		p->concat = c;
		p->n = c->n_in;
		o->value = c->out;
		o->own = ++p->n_own;
		o->has = c->in[0] == v ? RLX_EW_ALONG : 0;
		return joins_inputs(b, c, i) ? c->n_in : 0;
	}
	return 1;
}

bool rlx_lower_parts(const struct rlx_lower *lo, struct rlx_parts *p)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	uint32_t i, n, ax;

	*p = (struct rlx_parts){ .body = ((const struct rlx_op_region *)lo->args)->body };
	for (i = 0; i < lo->st->n_in; i += n) {
		n = add_operand(p, i);
		if (!n)
			return false;
	}
	ax = y->rank - axis_back(p->body, p->concat);
	p->outer = shape_span(y, 0, ax);
	p->total = y->dim[ax];
	p->inner = shape_span(y, ax + 1, y->rank);
	for (i = 0; i < p->n_operand; i++) {
		struct rlx_parts_operand *o = &p->operand[i];
		const struct rlx_type *t = rlx_lower_in(lo, o->first);

		if (!has_span(t, y, 0, ax, RLX_EW_OUTER, &o->has) ||
		    !has_span(t, y, ax + 1, y->rank, RLX_EW_INNER, &o->has))
			return false;
		p->split = p->split || (p->inner > 1 && !(o->has & RLX_EW_ALONG) !=
						       !(o->has & RLX_EW_INNER));
	}
	return lo->st->n_out == 1;
}
