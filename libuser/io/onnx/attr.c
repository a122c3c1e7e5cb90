// SPDX-License-Identifier: MIT
/*
 * Attributes of the node being imported, with those a function passes through
 * resolved. A wrong type sticks in the import's error and gives the default.
 */
#include "io/onnx/imp.h"

static const struct onnx_attr *by_name(const struct onnx_attr *a, size_t n,
				       struct rlx_str name)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (onnx_str_eq(a[i].name, name))
			return &a[i];
	return NULL;
}

/* Arguments belong to the call: sub-graphs of a function see them too. */
static const struct onnx_attr *argument(const struct onnx_scope *s,
					struct rlx_str name)
{
	while (s && !s->fn)
		s = s->parent;
	return s ? by_name(s->args, s->nargs, name) : NULL;
}

const struct onnx_attr *onnx_attr_of(struct onnx_op *q, const char *name)
{
	struct rlx_str s = { name, strlen(name) };
	const struct onnx_attr *a = by_name(q->n->attrs, q->n->nattrs, s);

	if (!a)
		return NULL;
	if (a - q->n->attrs < 64)
		q->used |= 1ull << (a - q->n->attrs);
	return a->ref.n ? argument(q->scope, a->ref) : a;
}

const struct onnx_attr *onnx_attr_unused(const struct onnx_op *q)
{
	size_t i;

	for (i = 0; i < q->n->nattrs && i < 64; i++)
		if (!(q->used & 1ull << i))
			return &q->n->attrs[i];
	return NULL;
}

bool onnx_has(struct onnx_op *q, const char *name)
{
	return onnx_attr_of(q, name) != NULL;
}

static const struct onnx_attr *typed(struct onnx_op *q, const char *name,
				     enum onnx_attr_type type)
{
	const struct onnx_attr *a = onnx_attr_of(q, name);

	if (!a || a->type == (int64_t)type)
		return a;
	/* An empty list has no element to tell its type by. */
	if (a->type == ONNX_ATTR_NONE &&
	    (type == ONNX_ATTR_INTS || type == ONNX_ATTR_FLOATS))
		return a;
	op_err(q, RLX_EPARSE, "attribute %s has type %lld, not %d", name,
	       (long long)a->type, type);
	return NULL;
}

int64_t onnx_attr_i(struct onnx_op *q, const char *name, int64_t dflt)
{
	const struct onnx_attr *a = typed(q, name, ONNX_ATTR_INT);

	return a ? a->i : dflt;
}

int32_t onnx_attr_i32(struct onnx_op *q, const char *name, int32_t dflt)
{
	int64_t v = onnx_attr_i(q, name, dflt);

	if (v == (int32_t)v)
		return (int32_t)v;
	op_err(q, RLX_ERANGE, "attribute %s=%lld is out of range", name,
	       (long long)v);
	return dflt;
}

bool onnx_modest(struct onnx_op *q, struct rlx_ints v, int64_t most)
{
	uint32_t i;

	for (i = 0; i < v.n; i++)
		if (v.v[i] > most || v.v[i] < -most) {
			op_err(q, RLX_ERANGE, "%lld is beyond what is "
			       "supported, %lld", (long long)v.v[i],
			       (long long)most);
			return false;
		}
	return true;
}

double onnx_attr_f(struct onnx_op *q, const char *name, double dflt)
{
	const struct onnx_attr *a = typed(q, name, ONNX_ATTR_FLOAT);

	return a ? (double)a->f : dflt;
}

int onnx_attr_enum(struct onnx_op *q, const char *name,
		   const char *const *names, int dflt)
{
	const struct onnx_attr *a = typed(q, name, ONNX_ATTR_STRING);
	int i;

	if (!a)
		return dflt;
	for (i = 0; names[i]; i++)
		if (onnx_str_is(a->s, names[i]))
			return i;
	op_err(q, RLX_ENOSUP, "attribute %s=%.*s is not supported", name,
	       ONNX_STR(a->s));
	return dflt;
}

struct rlx_ints onnx_attr_ints(struct onnx_op *q, const char *name)
{
	const struct onnx_attr *a = typed(q, name, ONNX_ATTR_INTS);

	if (!a || a->nints > UINT32_MAX)
		return (struct rlx_ints){ 0 };
	return (struct rlx_ints){ a->ints, (uint32_t)a->nints };
}

struct rlx_floats onnx_attr_floats(struct onnx_op *q, const char *name)
{
	const struct onnx_attr *a = typed(q, name, ONNX_ATTR_FLOATS);
	double *v;
	size_t i;

	if (!a || a->nfloats > UINT32_MAX)
		return (struct rlx_floats){ 0 };
	v = rlx_bump_new(&q->b->mem, a->nfloats, sizeof(*v));
	if (!v) {
		onnx_nomem(q->b);
		return (struct rlx_floats){ 0 };
	}
	for (i = 0; i < a->nfloats; i++)
		v[i] = (double)a->floats[i];
	return (struct rlx_floats){ v, (uint32_t)a->nfloats };
}

const struct onnx_graph *onnx_attr_graph(struct onnx_op *q, const char *name)
{
	const struct onnx_attr *a = typed(q, name, ONNX_ATTR_GRAPH);

	if (a)
		return a->g;
	op_err(q, RLX_EPARSE, "attribute %s, a graph, is missing", name);
	return NULL;
}
