// SPDX-License-Identifier: MIT
/* The expression matcher: recursive descent over the pattern's text. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "ir/element.h"
#include "ir/match.h"

static const char *skip(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

static size_t word_len(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || p[n] == '_')
		n++;
	return n;
}

/* Behind one whole expression. */
static const char *expr_end(const char *p)
{
	int depth = 0;

	for (p = skip(p); *p; p++) {
		if (*p == '(')
			depth++;
		else if (*p == ')' && !depth--)
			break;
		else if (*p == ',' && !depth)
			break;
	}
	return p;
}

bool rlx_value_scalar(const struct rlx_graph *g, uint32_t v, double *out)
{
	const struct rlx_node *n = rlx_node_of(g, v);
	const struct rlx_op_constant *c = n->args;
	struct rlx_tensor t;
	int64_t count, i;

	/* a scalar that was broadcast is a scalar still */
	while (n->def->index == RLX_OP_expand || n->def->index == RLX_OP_reshape)
		n = rlx_node_of(g, n->in[0]);
	c = n->args;
	if (n->def->index != RLX_OP_constant)
		return false;
	t = (struct rlx_tensor){ c->type, (void *)(uintptr_t)rlx_blob_data(c->data) };
	count = rlx_type_count(&c->type);
	if (count < 1 || count > 65536)
		return false;
	*out = el_get(&t, 0);
	for (i = 1; i < count; i++)
		if (el_get(&t, i) != *out)
			return false;
	return true;
}

static struct rlx_match_name *name_of(struct rlx_match *m, const char *s, size_t n)
{
	unsigned int i;

	for (i = 0; i < m->n_name; i++)
		if (strlen(m->name[i].text) == n && !memcmp(m->name[i].text, s, n))
			return &m->name[i];
	if (m->n_name == RLX_MATCH_NAMES || n >= sizeof(m->name[0].text))
		return NULL;
	m->name[m->n_name] = (struct rlx_match_name){ .value = 0 };
	memcpy(m->name[m->n_name].text, s, n);
	return &m->name[m->n_name++];
}

static bool bind(struct rlx_match *m, const char *s, size_t n, uint32_t v)
{
	struct rlx_match_name *e = name_of(m, s, n);

	if (!e || (e->value && e->value != v))
		return false;
	e->value = v;
	return true;
}

static bool bind_node(struct rlx_match *m, const char *s, size_t n, uint32_t v)
{
	if (!bind(m, s, n, v))
		return false;
	name_of(m, s, n)->inner = true;
	return true;
}

static bool commutes(const struct rlx_op_def *def)
{
	switch (def->index) {
	case RLX_OP_add:
	case RLX_OP_mul:
	case RLX_OP_max:
	case RLX_OP_min:
	case RLX_OP_bit_and:
	case RLX_OP_bit_or:
	case RLX_OP_bit_xor:
	case RLX_OP_eq:
		return true;
	}
	return false;
}

static bool match_expr(struct rlx_match *m, uint32_t v, const char *p);

/* The arguments of a call against the inputs of @n, in order or swapped. */
static bool match_args(struct rlx_match *m, const struct rlx_node *n,
		       const char *p, bool swap)
{
	uint32_t k;

	for (k = 0; *(p = skip(p)) && *p != ')'; k++) {
		uint32_t in = swap ? n->n_in - 1 - k : k;

		if (in >= n->n_in || !n->in[in] || !match_expr(m, n->in[in], p))
			return false;
		p = expr_end(p);
		if (*p == ',')
			p++;
	}
	for (; k < n->n_in; k++)
		if (n->in[k])
			return false;
	return true;
}

static bool match_call(struct rlx_match *m, uint32_t v, const char *op, size_t len,
		       const char *args)
{
	const struct rlx_node *n = rlx_node_of(m->g, v);
	struct rlx_match save;

	if (strlen(n->def->name) != len || memcmp(n->def->name, op, len) ||
	    v != n->out || m->n_node == RLX_MATCH_NODES)
		return false;
	m->node[m->n_node++] = m->g->val[v].node;
	if (!commutes(n->def) || n->n_in != 2)
		return match_args(m, n, args, false);
	save = *m;
	if (match_args(m, n, args, false))
		return true;
	*m = save;
	return match_args(m, n, args, true);
}

/* Of what f32 does not hold exporters write some digits; 1 and 0.5 are those alone. */
static bool close_to(double a, double b)
{
	return a == b || ((double)(float)b != b && fabs(a - b) <= 1e-4 * fabs(b));
}

static bool match_expr(struct rlx_match *m, uint32_t v, const char *p)
{
	const char *name = NULL;
	size_t len, name_len = 0;
	double want, have;
	char *end;

	p = skip(p);
	if (isdigit((unsigned char)*p) || *p == '-') {
		want = rlx_strtod(p, &end);
		return rlx_value_scalar(m->g, v, &have) && close_to(have, want);
	}
	if (*p == '#') {
		p++;
		return rlx_value_scalar(m->g, v, &have) && bind(m, p, word_len(p), v);
	}
	len = word_len(p);
	if (p[len] == ':') {
		name = p;
		name_len = len;
		p += len + 1;
		len = word_len(p);
	}
	if (p[len] != '(')
		return bind(m, p, len, v);
	return match_call(m, v, p, len, p + len + 1) &&
	       (!name || bind_node(m, name, name_len, v));
}

/*
 * An operand of the match made by the match would be lost with it: in
 * mm + (mm + b) the first mm is no value from outside.
 */
static bool operands_outside(const struct rlx_match *m)
{
	unsigned int i, k;

	for (i = 0; i < m->n_name; i++)
		for (k = 0; k < m->n_node && !m->name[i].inner; k++)
			if (m->name[i].value &&
			    m->g->val[m->name[i].value].node == m->node[k])
				return false;
	return true;
}

/* Every use of an inner node's value must be by a matched node. */
static bool closed(const struct rlx_match *m)
{
	unsigned int i, j, k;

	if (!operands_outside(m))
		return false;
	for (i = 1; i < m->n_node; i++) {
		uint32_t v = m->g->node[m->node[i]].out, inside = 0;

		if (m->node[i] == m->root)
			return false;
		for (j = 0; j < m->n_node; j++) {
			const struct rlx_node *n = &m->g->node[m->node[j]];

			for (k = 0; k < j; k++)
				if (m->node[k] == m->node[j])
					break;
			if (k < j)
				continue;	/* matched twice: counted once */
			for (k = 0; k < n->n_in; k++)
				inside += n->in[k] == v;
		}
		if (inside != m->uses[v] || m->g->node[m->node[i]].n_out != 1)
			return false;
	}
	return true;
}

bool rlx_match_try(struct rlx_match *m, const struct rlx_graph *g,
		   const uint32_t *uses, uint32_t root, const char *text)
{
	m->g = g;
	m->uses = uses;
	m->root = root;
	m->n_name = 0;
	m->n_node = 0;
	return match_expr(m, g->node[root].out, text) && closed(m);
}

rlx_value rlx_match_value(const struct rlx_match *m, const char *name)
{
	unsigned int i;

	for (i = 0; i < m->n_name; i++)
		if (!strcmp(m->name[i].text, name))
			return (rlx_value){ m->name[i].value };
	return RLX_NONE;
}

const struct rlx_type *rlx_match_type(const struct rlx_match *m, const char *name)
{
	return rlx_type_of(m->g, rlx_match_value(m, name));
}

const struct rlx_node *rlx_match_node(const struct rlx_match *m, const char *name)
{
	rlx_value v = rlx_match_value(m, name);

	return v.id ? rlx_node_of(m->g, v.id) : NULL;
}

bool rlx_match_scalar(const struct rlx_match *m, const char *name, double *out)
{
	rlx_value v = rlx_match_value(m, name);

	return v.id && rlx_value_scalar(m->g, v.id, out);
}

bool rlx_match_f32(const struct rlx_match *m, const char *name, float *out)
{
	enum rlx_dtype dt = m->g->val[m->g->node[m->root].out].type.dtype;
	double x;

	if (!rlx_match_scalar(m, name, &x))
		return false;
	*out = (float)x;
	return dt != RLX_F64 || (double)*out == x || isnan(x);
}
