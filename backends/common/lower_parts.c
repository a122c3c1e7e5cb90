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
	uint32_t k, v, back = axis_back(b, concat);
	const struct rlx_type *t;

	for (k = 0; k < concat->n_in; k++) {
		v = input_of(b, concat->in[k]);
		t = &b->val[v].type;
		if (first + k >= in->n || in->e[first + k].v.id != v ||
		    repeats != (concat->in[k] != v) ||
		    (repeats && t->rank >= back && t->dim[t->rank - back] != 1))
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

/* Has @concat parts as long as those of the operands before it? */
static bool as_long(const struct rlx_parts *p, const struct rlx_node *concat)
{
	const struct rlx_parts q = { .body = p->body, .concat = concat };
	uint32_t k;

	if (!p->concat)
		return true;
	if (p->n != concat->n_in || axis_back(p->body, p->concat) != axis_back(p->body, concat))
		return false;
	for (k = 0; k < p->n; k++)
		if (rlx_lower_part_length(p, k) != rlx_lower_part_length(&q, k))
			return false;
	return true;
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
		if (!as_long(p, c))
			return 0;
		p->concat = c;
		p->n = c->n_in;
		o->value = c->out;
		o->own = ++p->n_own;
		o->has = c->in[0] == v ? RLX_EW_ALONG : 0;
		return joins_inputs(b, c, i) ? c->n_in : 0;
	}
	return 1;
}

/* Is value @v of the body an operand, or made of such by what is pointwise? */
static bool is_made(const struct rlx_parts *p, uint32_t v)
{
	const struct rlx_node *n = rlx_node_of(p->body, v);
	uint32_t i;

	if (n->def->traits & RLX_T_ELEMENTWISE || n->def->index == RLX_OP_constant)
		return true;
	v = input_of(p->body, v);
	for (i = 0; i < p->n_operand; i++)
		if (p->operand[i].value == v)
			return true;
	return false;
}

/* Users may write bodies that read a part by itself, or join what is no input. */
static bool reads_operands(const struct rlx_parts *p)
{
	const struct rlx_graph *b = p->body;
	uint32_t n, k;

	for (n = 0; n < b->n_node; n++)
		for (k = 0; b->node[n].def->traits & RLX_T_ELEMENTWISE && k < b->node[n].n_in; k++)
			if (!is_made(p, b->node[n].in[k]))
				return false;
	return is_made(p, b->io[RLX_IO_OUTPUT].e[0].v.id);
}

/* Is the result as long as its parts, and no operand that they share longer than 1? */
static bool joins_along(const struct rlx_lower *lo, const struct rlx_parts *p, uint32_t ax)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0), *t;
	int64_t length = 0;
	uint32_t i;

	for (i = 0; i < p->n; i++)
		length += rlx_lower_part_length(p, i);
	for (i = 0; i < p->n_operand; i++) {
		t = rlx_lower_in(lo, p->operand[i].first);
		if (!p->operand[i].own && t->rank >= y->rank - ax &&
		    t->dim[t->rank - (y->rank - ax)] != 1)
			return false;
	}
	return length == p->total;
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
	if (lo->st->n_out != 1 || !p->n_own || y->rank < axis_back(p->body, p->concat) ||
	    !reads_operands(p))
		return false;
	ax = y->rank - axis_back(p->body, p->concat);
	p->outer = shape_span(y, 0, ax);
	p->total = y->dim[ax];
	p->inner = shape_span(y, ax + 1, y->rank);
	if (!joins_along(lo, p, ax))
		return false;
	for (i = 0; i < p->n_operand; i++) {
		struct rlx_parts_operand *o = &p->operand[i];
		const struct rlx_type *t = rlx_lower_in(lo, o->first);

		if (!has_span(t, y, 0, ax, RLX_EW_OUTER, &o->has) ||
		    !has_span(t, y, ax + 1, y->rank, RLX_EW_INNER, &o->has))
			return false;
		p->split = p->split || (p->inner > 1 && !(o->has & RLX_EW_ALONG) !=
						       !(o->has & RLX_EW_INNER));
	}
	return true;
}
