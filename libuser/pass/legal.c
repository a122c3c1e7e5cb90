// SPDX-License-Identifier: MIT
/* Asking the target about an op, in its own dtypes and in wider ones. */
#include <string.h>

#include "base/alloc.h"
#include "pass/legal.h"

/* What is computed of constants alone goes no deeper than this before it is folded. */
enum { DEEPEST = 8 };

struct question {
	const struct rlx_pass_ctx	*c;
	const struct rlx_graph		*g;
	const struct rlx_node		*n;
	struct rlx_infer		 q;
	struct rlx_type			 type[RLX_LEGAL_INPUTS];
	const struct rlx_type		*in[RLX_LEGAL_INPUTS];
	struct rlx_blob			*constant[RLX_LEGAL_INPUTS];
	bool				 no_memory;
};

/* A constant, or what folding will make one. */
static bool is_constant(const struct question *a, uint32_t v, int depth)
{
	const struct rlx_node *n = rlx_node_of(a->g, v);
	uint32_t i;

	if (n->def->index == RLX_OP_constant)
		return true;
	if (!n->n_in || depth == DEEPEST || a->c->flags & RLX_COMPILE_NO_SIMPLIFY ||
	    n->def->traits & (RLX_T_IMPURE | RLX_T_SUBGRAPH | RLX_T_COMPUTE | RLX_T_REDUCTION))
		return false;
	for (i = 0; i < n->n_in; i++)
		if (n->in[i] && !is_constant(a, n->in[i], depth + 1))
			return false;
	return true;
}

/* Zeros in the place of what is not computed yet; NULL: out of memory. */
static struct rlx_blob *zeros(const struct rlx_type *t)
{
	size_t bytes = (size_t)rlx_type_bytes(t);
	void *p = rlx_calloc(bytes + 1, 1);
	struct rlx_blob *b = p ? rlx_blob_new(p, bytes, rlx_free, p) : NULL;

	if (!b)
		rlx_free(p);
	return b;
}

/* Inputs as they are, or as dtype to[k]. */
static void take_inputs(struct question *a, const enum rlx_dtype *to)
{
	uint32_t k, v;

	for (k = 0; k < a->n->n_in; k++) {
		v = a->n->in[k];
		a->in[k] = NULL;
		a->constant[k] = NULL;
		if (!v)
			continue;
		a->type[k] = a->g->val[v].type;
		a->in[k] = &a->type[k];
		if (to && to[k])
			a->type[k].dtype = to[k];
		if (!is_constant(a, v, 0))
			continue;
		if (rlx_node_of(a->g, v)->def->index == RLX_OP_constant && !(to && to[k])) {
			const struct rlx_op_constant *c = rlx_node_of(a->g, v)->args;

			a->constant[k] = rlx_blob_get(c->data);
			continue;
		}
		a->constant[k] = zeros(&a->type[k]);
		a->no_memory = a->no_memory || !a->constant[k];
	}
}

static bool ask(struct question *a)
{
	enum rlx_can can = a->c->target.can(&a->c->target, &a->q);
	uint32_t k;

	for (k = 0; k < a->n->n_in; k++)
		rlx_blob_put(a->constant[k]);
	return can == RLX_CAN_NATIVE && !a->no_memory;
}

static bool is_native(struct question *a)
{
	uint32_t i;

	take_inputs(a, NULL);
	a->q.n_out = a->n->n_out;
	for (i = 0; i < a->n->n_out; i++)
		a->q.out[i] = a->g->val[a->n->out + i].type;
	return ask(a);
}

/* All of what @narrow holds, @wide does. */
static bool holds(enum rlx_dtype wide, enum rlx_dtype narrow)
{
	if (rlx_dtype_is_int(narrow))
		return wide == RLX_F32 && rlx_dtype_size(narrow) <= 2;
	return rlx_dtype_is_float(wide) && rlx_dtype_is_float(narrow) &&
	       rlx_dtype_promote(wide, narrow) == wide;
}

/* Results that are converted back, or stay as they were: nothing else may change. */
static bool results_fit(const struct question *a)
{
	uint32_t i;

	if (a->q.n_out != a->n->n_out)
		return false;
	for (i = 0; i < a->q.n_out; i++) {
		struct rlx_type t = a->q.out[i];
		const struct rlx_type *old = &a->g->val[a->n->out + i].type;

		if (t.dtype != old->dtype && !holds(t.dtype, old->dtype))
			return false;
		t.dtype = old->dtype;
		if (!rlx_type_equal(&t, old))
			return false;
	}
	return true;
}

static bool is_native_as(struct question *a, const enum rlx_dtype *to)
{
	struct rlx_error quiet = { 0 };
	bool fits;
	uint32_t k;

	take_inputs(a, to);
	a->q.err = &quiet;
	a->q.n_out = 1;
	fits = !rlx_op_infer(&a->q) && results_fit(a);
	if (fits)
		return ask(a);
	for (k = 0; k < a->n->n_in; k++)
		rlx_blob_put(a->constant[k]);
	return false;
}

/* Bias, mask, scale and their like: what is optional, and vectors. */
static bool is_aside(const struct question *a, uint32_t k)
{
	const struct rlx_op_def *def = a->n->def;
	uint32_t i, at = 0;

	if (a->g->val[a->n->in[k]].type.rank <= 1)
		return true;
	for (i = 0; i < def->n_field; i++) {
		uint8_t role = def->field[i].role;

		if (role != RLX_FIELD_IN && role != RLX_FIELD_OPT)
			continue;
		if (at++ == k)
			return role == RLX_FIELD_OPT;
	}
	return false;
}

/* Floats narrower than @wide become it; with @aside only those that stand aside. */
static bool choose(const struct question *a, enum rlx_dtype wide, bool aside,
		   enum rlx_dtype *to)
{
	bool any = false;
	uint32_t k;

	for (k = 0; k < a->n->n_in; k++) {
		uint32_t v = a->n->in[k];
		enum rlx_dtype dt = v ? a->g->val[v].type.dtype : wide;

		to[k] = (enum rlx_dtype)0;
		if (dt == wide || !rlx_dtype_is_float(dt) || (aside && !is_aside(a, k)) ||
		    rlx_dtype_promote(dt, wide) != wide)
			continue;
		to[k] = wide;
		any = true;
	}
	return any;
}

/* Small integers, of an op whose results are some of what it takes: f32 has them all. */
static bool choose_integers(const struct question *a, enum rlx_dtype *to)
{
	const struct rlx_op_pool *pool = a->n->args;
	enum rlx_dtype dt;

	memset(to, 0, RLX_LEGAL_INPUTS * sizeof(*to));
	if (a->n->def->index != RLX_OP_pool || pool->kind != RLX_POOL_MAX)
		return false;
	dt = a->g->val[a->n->in[0]].type.dtype;
	to[0] = RLX_F32;
	return rlx_dtype_is_int(dt) && rlx_dtype_size(dt) <= 2;
}

enum rlx_legal_form rlx_legal(const struct rlx_pass_ctx *c, const struct rlx_graph *g,
			      const struct rlx_node *n, enum rlx_dtype to[RLX_LEGAL_INPUTS])
{
	struct question a = { .c = c, .g = g, .n = n };

	if (!c->target.can || n->def->traits & (RLX_T_LEAF | RLX_T_VIEW))
		return RLX_LEGAL_NATIVE;
	a.q = (struct rlx_infer){ .def = n->def, .args = n->args, .n_in = n->n_in, .in = a.in,
				  .constant = a.constant };
	if (n->n_in > RLX_LEGAL_INPUTS)
		return RLX_LEGAL_NONE;
	if (is_native(&a))
		return RLX_LEGAL_NATIVE;
	if (!c->target.widen || n->def->traits & RLX_T_SUBGRAPH || n->def->index == RLX_OP_cast)
		return a.no_memory ? RLX_LEGAL_NATIVE : RLX_LEGAL_NONE;
	if ((choose(&a, RLX_F32, true, to) && is_native_as(&a, to)) ||
	    (choose(&a, RLX_F32, false, to) && is_native_as(&a, to)) ||
	    (choose(&a, RLX_F64, false, to) && is_native_as(&a, to)) ||
	    (choose_integers(&a, to) && is_native_as(&a, to)))
		return RLX_LEGAL_WIDENED;
	/* without memory nothing is rewritten */
	return a.no_memory ? RLX_LEGAL_NATIVE : RLX_LEGAL_NONE;
}
