// SPDX-License-Identifier: MIT
/* Which moves only repeat elements, and shapes split so that they broadcast. */
#include <string.h>

#include "ops/resize_axis.h"
#include "pass/repeat.h"

/* An axis of @from elements that broadcasts to @to. */
static struct rlx_repeat_span broadcast(int64_t from, int64_t to)
{
	return from == to ? (struct rlx_repeat_span){ 1, to } : (struct rlx_repeat_span){ 1, 1 };
}

/* Is output o input o / @each all along the axis? As resize itself says, element by element. */
static bool repeats_each(const struct rlx_op_resize *a, const struct op_resize_axis *ax,
			 int64_t each)
{
	int64_t o;

	for (o = 0; o < ax->out; o++)
		if (op_resize_outside(a, ax, o) || op_resize_nearest(a, ax, o) != o / each)
			return false;
	return true;
}

static bool of_resize(const struct rlx_op_resize *a, const struct rlx_type *x,
		      struct rlx_repeat_span *span)
{
	uint32_t i;

	for (i = 0; i < x->rank && a->mode == RLX_RESIZE_NEAREST; i++) {
		struct op_resize_axis ax = op_resize_axis_of(a, x, i);

		if (ax.out % ax.in || (!ax.same && !repeats_each(a, &ax, ax.out / ax.in)))
			return false;
		span[i] = (struct rlx_repeat_span){ ax.out / ax.in, ax.out };
	}
	return a->mode == RLX_RESIZE_NEAREST;
}

/* Of the result's own axes. */
static bool of_node(const struct rlx_node *n, const struct rlx_type *x, const struct rlx_type *y,
		    struct rlx_repeat_span *span)
{
	uint32_t i, less = y->rank - x->rank;

	switch (n->def->index) {
	case RLX_OP_resize:
		return of_resize(n->args, x, span);
	case RLX_OP_tile:
		for (i = 0; i < y->rank; i++)
			span[i] = (struct rlx_repeat_span){ 1, x->dim[i] };
		return true;
	case RLX_OP_expand:
		for (i = 0; i < y->rank; i++)
			span[i] = broadcast(i < less ? 1 : x->dim[i - less], y->dim[i]);
		return true;
	}
	return false;
}

bool rlx_repeat_of(const struct rlx_graph *g, const struct rlx_node *n,
		   const struct rlx_type *shape, struct rlx_repeat_span span[RLX_MAX_RANK])
{
	const struct rlx_type *y = &g->val[n->out].type, *x;
	uint32_t less = shape->rank - y->rank, i;

	if (n->n_in != 1 || n->n_out != 1)
		return false;
	x = &g->val[n->in[0]].type;
	if (!rlx_type_count(y) || rlx_type_count(x) == rlx_type_count(y) ||
	    !of_node(n, x, y, span + less))
		return false;
	for (i = 0; i < shape->rank; i++)
		if (i < less || y->dim[i - less] != shape->dim[i])
			span[i] = (struct rlx_repeat_span){ 1, 1 };
	return true;
}

bool rlx_repeat_pays(const struct rlx_repeats *by, const struct rlx_type *shape, enum rlx_dtype dt,
		     const struct rlx_repeat_span *span)
{
	int64_t piece = 1, n = 1, bytes;
	uint32_t i = shape->rank;

	/* from the last axis on to the first that it does not walk along */
	while (i-- > 0) {
		n = shape->dim[i];
		if (n > 1 && (span[i].lo > 1 || span[i].hi < n))
			break;
		piece *= n;
	}
	if (i > shape->rank || rlx_type_count(shape) <= by->few)
		return true;
	if (span[i].lo > 1 && piece == 1)
		return n >= by->row || span[i].lo >= by->run ||
		       rlx_type_count(shape) >= by->large / (int64_t)rlx_dtype_size(dt);
	if (span[i].hi == span[i].lo && piece == 1)
		return n >= by->run;
	bytes = piece * (span[i].lo > 1 ? 1 : span[i].hi) * (int64_t)rlx_dtype_size(dt);
	return !by->whole || bytes % by->whole == 0 || bytes >= by->piece;
}

void rlx_split_init(struct rlx_split *s, const struct rlx_type *shape)
{
	uint32_t i;

	*s = (struct rlx_split){ .axes = shape->rank, .rank = shape->rank };
	for (i = 0; i < shape->rank; i++) {
		s->n[i] = 1;
		s->place[i][0] = 1;
		s->place[i][1] = shape->dim[i];
	}
}

/* Place value @at of an axis begins a digit from here on, if those there are allow it. */
static bool split_at(struct rlx_split *s, uint32_t axis, int64_t at)
{
	int64_t *place = s->place[axis];
	uint32_t n = s->n[axis], j;

	for (j = 0; place[j] < at; j++)
		;
	if (place[j] == at)
		return true;
	if (s->rank == RLX_MAX_RANK || place[j] % at || at % place[j - 1])
		return false;
	memmove(place + j + 1, place + j, (n + 1 - j) * sizeof(*place));
	place[j] = at;
	s->n[axis]++;
	s->rank++;
	return true;
}

bool rlx_split_add(struct rlx_split *s, const struct rlx_repeat_span *span)
{
	struct rlx_split before = *s;
	uint32_t i;

	for (i = 0; i < s->axes; i++)
		if (!split_at(s, i, span[i].lo) || !split_at(s, i, span[i].hi)) {
			*s = before;
			return false;
		}
	return true;
}

/* Digits of axis @i, outermost first, behind those that @t has. */
static void put_digits(const struct rlx_split *s, uint32_t i, const struct rlx_repeat_span *span,
		       struct rlx_type *t)
{
	const int64_t *place = s->place[i];
	uint32_t j;

	for (j = s->n[i]; j-- > 0;)
		t->dim[t->rank++] = place[j] >= span->lo && place[j + 1] <= span->hi ?
				    place[j + 1] / place[j] : 1;
}

struct rlx_type rlx_split_type(const struct rlx_split *s, const struct rlx_type *t)
{
	struct rlx_type r = { .dtype = t->dtype };
	uint32_t i, less = s->axes - t->rank;

	for (i = 0; i < t->rank; i++) {
		uint32_t axis = i + less;
		struct rlx_repeat_span span = broadcast(t->dim[i], s->place[axis][s->n[axis]]);

		put_digits(s, axis, &span, &r);
	}
	return r;
}

struct rlx_type rlx_split_span(const struct rlx_split *s, const struct rlx_repeat_span *span,
			       enum rlx_dtype dt)
{
	struct rlx_type r = { .dtype = dt };
	uint32_t i;

	for (i = 0; i < s->axes; i++)
		put_digits(s, i, &span[i], &r);
	return r;
}
