// SPDX-License-Identifier: MIT
/* The rows of algebra.def applied until none fits. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "ir/match.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_algebra;

enum { MAX_ROUNDS = 12 };

static const struct row {
	const char	*search, *replace;
} rows[] = {
#define ROW(s, r) { s, r },
#include "pass/algebra.def"
#undef ROW
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* The op at the root of each row's search. */
static const struct rlx_op_def *root_of(const struct row *r)
{
	return rlx_op_find(r->search, strcspn(r->search, "("));
}

struct builder {
	struct rlx_rewrite	*rw;
	const struct rlx_match	*m;
	const char		*p;
	enum rlx_dtype		 dtype;
};

static void skip(struct builder *b)
{
	while (isspace((unsigned char)*b->p) || *b->p == ',')
		b->p++;
}

/* One expression of a replacement: a word, a number, or an op over expressions. */
static rlx_value build(struct builder *b)
{
	const struct rlx_op_def *def;
	rlx_value in[3] = { 0 };
	unsigned int n = 0;
	const char *s;
	char word[32];
	size_t len;

	skip(b);
	if (isdigit((unsigned char)*b->p) || *b->p == '-') {
		char *end;
		double x = rlx_strtod(b->p, &end);

		b->p = end;
		return rlx_scalar_const(b->rw->g, b->dtype, x);
	}
	s = b->p;
	while (isalnum((unsigned char)*b->p) || *b->p == '_')
		b->p++;
	len = (size_t)(b->p - s);
	if (*b->p != '(') {
		snprintf(word, sizeof(word), "%.*s", (int)len, s);
		return rlx_rewrite_value(b->rw, rlx_match_value(b->m, word).id);
	}
	def = rlx_op_find(s, len);
	for (b->p++; *b->p != ')' && n < 3; skip(b))
		in[n++] = build(b);
	b->p++;
	if (!def || def->n_fixed != n) {
		rlx_fail(&b->rw->g->err, RLX_EBUG, "algebra.def: cannot build '%s'", s);
		return RLX_NONE;
	}
	return rlx_emit_inputs(b->rw->g, def, in, n, NULL);
}

static bool apply(struct rlx_rewrite *rw, uint32_t n, const struct row *r)
{
	const struct rlx_node *node = &rw->old->node[n];
	struct builder b = { .rw = rw, .p = r->replace };
	const struct rlx_type *old = &rw->old->val[node->out].type;
	struct rlx_match m;
	rlx_value v;

	if (!rlx_match_try(&m, rw->old, rw->uses, n, r->search))
		return false;
	b.m = &m;
	b.dtype = old->dtype;
	/* a bare word must already have the type; ops of it keep its shape */
	v = rlx_match_value(&m, "x");
	if (!rlx_type_equal(&rw->old->val[v.id].type, old) ||
	    !rlx_dtype_is_float(old->dtype))
		return false;
	v = build(&b);
	if (v.id)
		rlx_rewrite_set(rw, node->out, v);
	return v.id;
}

static enum rlx_status one_round(struct rlx_pass_ctx *c, struct rlx_graph *g,
				 const uint8_t *has, struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	unsigned int r;
	uint32_t n;

	if (st)
		return st;
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		const struct rlx_op_def *def = g->node[n].def;

		if (!rlx_rewrite_live(&rw, n))
			continue;
		for (r = 0; has[def->index] && r < N_ROWS; r++)
			if (root_of(&rows[r]) == def && apply(&rw, n, &rows[r]))
				break;
		if (!has[def->index] || r == N_ROWS)
			rlx_rewrite_copy(&rw, n);
	}
	return rlx_rewrite_end(&rw, out);
}

enum rlx_status rlx_pass_algebra(struct rlx_pass_ctx *c, struct rlx_graph *g,
				 struct rlx_graph **out)
{
	uint8_t has[RLX_OP_COUNT] = { 0 };
	struct rlx_graph *cur = g, *next;
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; i < N_ROWS; i++)
		if (root_of(&rows[i]))
			has[root_of(&rows[i])->index] = 1;
	for (i = 0; i < MAX_ROUNDS; i++) {
		next = NULL;
		st = one_round(c, cur, has, &next);
		if (st || !next)
			break;
		if (cur != g)
			rlx_graph_put(cur);
		cur = next;
	}
	if (cur != g && !st)
		*out = cur;
	else if (cur != g)
		rlx_graph_put(cur);
	return st;
}
