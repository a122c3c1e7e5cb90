// SPDX-License-Identifier: MIT
/* The sizes of a template's names, out of the types that its leaves are given. */
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"

/* @by: of each name, the leaf that it is known from. */
struct solver {
	const struct rlx_graph	*g;
	const struct rlx_leaf_type *leaf;
	uint32_t		 n;
	int64_t			*size;
	const char		**by;
	struct rlx_error	*err;
};

static const struct rlx_type *declared(const struct rlx_graph *g, const char *name)
{
	uint64_t v;

	return rlx_map_get(&g->names, name, strlen(name), &v) ? &g->val[v].type : NULL;
}

static enum rlx_status no_fit(const struct solver *s, const struct rlx_leaf_type *l)
{
	char have[96], want[160];

	rlx_type_print(l->type, have, sizeof(have));
	rlx_graph_type_print(s->g, declared(s->g, l->name), want, sizeof(want));
	return rlx_fail(s->err, RLX_ESHAPE, "'%s' is %s, and graph '%s' takes %s", l->name, have,
			s->g->name, want);
}

/* A name is @v by leaf @l. */
static enum rlx_status set_name(struct solver *s, uint32_t place, int64_t v,
				const struct rlx_leaf_type *l)
{
	const struct rlx_dim *e = &s->g->dims->e[place];

	if (v < e->a || v > e->b)
		return rlx_fail(s->err, RLX_ERANGE, "the dimension '%s' is %lld by '%s'; %lld to "
				"%lld are right", e->name, (long long)v, l->name, (long long)e->a,
				(long long)e->b);
	if (s->size[place] >= 0 && s->size[place] != v)
		return rlx_fail(s->err, RLX_ESHAPE, "the dimension '%s' is %lld by '%s' and %lld "
				"by '%s'", e->name, (long long)s->size[place], s->by[place],
				(long long)v, l->name);
	if (s->size[place] < 0)
		s->by[place] = l->name;
	s->size[place] = v;
	return RLX_OK;
}

/* Names and plain numbers; expressions wait for the names in them. */
static enum rlx_status take_plain(struct solver *s, const struct rlx_leaf_type *l)
{
	const struct rlx_type *t = declared(s->g, l->name);
	enum rlx_status st = RLX_OK;
	uint32_t d;

	if (!t)
		return rlx_fail(s->err, RLX_ENOENT, "graph '%s' has no input or param '%s'",
				s->g->name, l->name);
	if (l->type->rank != t->rank)
		return no_fit(s, l);
	for (d = 0; d < t->rank && !st; d++) {
		uint32_t at = rlx_is_dim(t->dim[d]) ? rlx_dim_place(t->dim[d]) : 0;

		if (!rlx_is_dim(t->dim[d]))
			st = t->dim[d] == l->type->dim[d] ? RLX_OK : no_fit(s, l);
		else if (s->g->dims->e[at].kind == RLX_DIM_NAME)
			st = set_name(s, at, l->type->dim[d], l);
	}
	return st;
}

/* @x, of which one operand alone is unknown, is @v: what is that operand? */
static enum rlx_status invert(struct solver *s, int64_t x, int64_t v,
			      const struct rlx_leaf_type *l, bool *found)
{
	struct rlx_dim_at at = { .g = s->g, .sample = RLX_DIM_NAMES, .size = s->size };
	const struct rlx_dim *e = &s->g->dims->e[rlx_dim_place(x)];
	int64_t known, other;

	if (e->kind == RLX_DIM_NAME) {
		*found = true;
		return set_name(s, rlx_dim_place(x), v, l);
	}
	if (e->kind != RLX_DIM_ADD && e->kind != RLX_DIM_MUL)
		return RLX_OK;
	if (!rlx_dim_eval(&at, e->a, &known, NULL))
		other = e->b;
	else if (!rlx_dim_eval(&at, e->b, &known, NULL))
		other = e->a;
	else
		return RLX_OK;
	if (!rlx_is_dim(other))
		return RLX_OK;
	if (e->kind == RLX_DIM_ADD)
		return __builtin_sub_overflow(v, known, &v) ? no_fit(s, l) :
							      invert(s, other, v, l, found);
	if (!known)
		return RLX_OK;
	if (known == -1 ? v == INT64_MIN : v % known != 0)	/* the quotient is none */
		return no_fit(s, l);
	return invert(s, other, v / known, l, found);
}

/* Expressions: those that are known are compared, of the others one name may follow. */
static enum rlx_status take_expressions(struct solver *s, const struct rlx_leaf_type *l,
					bool *found)
{
	struct rlx_dim_at at = { .g = s->g, .sample = RLX_DIM_NAMES, .size = s->size };
	const struct rlx_type *t = declared(s->g, l->name);
	enum rlx_status st = RLX_OK;
	int64_t v;
	uint32_t d;

	for (d = 0; d < t->rank && !st; d++) {
		if (!rlx_is_dim(t->dim[d]) ||
		    s->g->dims->e[rlx_dim_place(t->dim[d])].kind == RLX_DIM_NAME)
			continue;
		st = rlx_dim_eval(&at, t->dim[d], &v, s->err);
		if (st == RLX_EAGAIN)
			st = invert(s, t->dim[d], l->type->dim[d], l, found);
		else if (!st && v != l->type->dim[d])
			st = no_fit(s, l);
	}
	return st;
}

static enum rlx_status solve(struct solver *s)
{
	enum rlx_status st = RLX_OK;
	bool found = true;
	uint32_t i;

	for (i = 0; i < s->n && !st; i++)
		st = take_plain(s, &s->leaf[i]);
	while (found && !st) {		/* each round finds a name */
		found = false;
		for (i = 0; i < s->n && !st; i++)
			st = take_expressions(s, &s->leaf[i], &found);
	}
	return st;
}

enum rlx_status rlx_dims_solve(const struct rlx_graph *g, const struct rlx_leaf_type *leaf,
			       uint32_t n, bool whole, int64_t *size, struct rlx_error *err)
{
	struct solver s = { .g = g, .leaf = leaf, .n = n, .size = size, .err = err };
	enum rlx_status st;
	uint32_t i;

	for (i = 0; i < (g->dims ? g->dims->n : 0); i++)
		size[i] = -1;
	s.by = rlx_calloc((g->dims ? g->dims->n : 0) + 1ul, sizeof(*s.by));
	if (!s.by)
		return rlx_fail(err, RLX_ENOMEM, "dimensions: out of memory");
	st = solve(&s);
	for (i = 0; whole && !st && g->dims && i < g->dims->n_name; i++)
		if (size[g->dims->name[i]] < 0)
			st = rlx_fail(err, RLX_EINVAL, "the dimension '%s' of graph '%s' follows "
				      "from no input", g->dims->e[g->dims->name[i]].name, g->name);
	rlx_free(s.by);
	return st;
}
