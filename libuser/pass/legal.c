// SPDX-License-Identifier: MIT
/* Asking the target about an op, in its own dtypes and in wider ones. */
#include <string.h>

#include "base/alloc.h"
#include "pass/fold.h"
#include "pass/legal.h"

struct question {
	const struct rlx_legal		*l;
	const struct rlx_graph		*g;
	const struct rlx_node		*n;
	struct rlx_infer		 q;
	struct rlx_type			 type[RLX_LEGAL_INPUTS];
	const struct rlx_type		*in[RLX_LEGAL_INPUTS];
	struct rlx_blob			*constant[RLX_LEGAL_INPUTS];
};

/* As folding finds them: in the order of nodes, each after those that it reads. */
static void find_constants(struct rlx_legal *l)
{
	bool folds = !(l->c->flags & RLX_COMPILE_NO_SIMPLIFY), is;
	const struct rlx_node *n;
	uint32_t i, k;

	for (i = 0; i < l->g->n_node; i++) {
		n = &l->g->node[i];
		is = n->def->index == RLX_OP_constant || (folds && rlx_foldable(l->g, n));
		for (k = 0; is && k < n->n_in; k++)
			is = !n->in[k] || l->constant[n->in[k]];
		for (k = 0; k < n->n_out; k++)
			l->constant[n->out + k] = is;
	}
}

enum rlx_status rlx_legal_begin(struct rlx_legal *l, struct rlx_pass_ctx *c,
				const struct rlx_graph *g)
{
	*l = (struct rlx_legal){ .c = c, .g = g };
	if (!c->target.dev)
		return RLX_OK;
	l->constant = rlx_calloc(g->n_val, sizeof(*l->constant));
	if (!l->constant)
		return rlx_fail(c->err, RLX_ENOMEM, "legalize: out of memory");
	find_constants(l);
	return RLX_OK;
}

void rlx_legal_end(struct rlx_legal *l)
{
	rlx_free(l->constant);
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

/*
 * Under RLX_COMPILE_PLACE: is it a product with experts as they were given, which products alone
 * read? Packed ones are then unpacked one by one, and not as a whole ahead of it.
 */
static bool is_placed(const struct rlx_legal *l, const struct rlx_node *n)
{
	const struct rlx_graph *g = l->g;
	uint32_t w, i, k;

	if (!(l->c->flags & RLX_COMPILE_PLACE) || !rlx_expert_choice(g, n))
		return false;
	w = n->in[1];
	if (rlx_node_of(g, w)->def->index != RLX_OP_constant &&
	    rlx_node_of(g, w)->def->index != RLX_OP_param)
		return false;
	for (i = 0; i < g->n_node; i++)
		for (k = 0; k < g->node[i].n_in; k++)
			if (g->node[i].in[k] == w &&
			    (k != 1 || !rlx_expert_choice(g, &g->node[i])))
				return false;
	return true;
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
		if (!a->l->constant[v])
			continue;
		if (rlx_node_of(a->g, v)->def->index == RLX_OP_constant && !(to && to[k])) {
			const struct rlx_op_constant *c = rlx_node_of(a->g, v)->args;

			a->constant[k] = rlx_blob_get(c->data);
			continue;
		}
		a->constant[k] = zeros(&a->type[k]);
		if (!a->constant[k])
			a->l->c->no_memory = true;
	}
}

static void put_constants(struct question *a)
{
	uint32_t k;

	for (k = 0; k < a->n->n_in; k++)
		rlx_blob_put(a->constant[k]);
}

static bool ask(struct question *a)
{
	const struct rlx_device *dev = a->l->c->target.dev;
	struct rlx_error why = { 0 };
	bool can = dev->be->supports(dev, &a->q, &why);

	put_constants(a);
	if (why.status == RLX_ENOMEM)
		a->l->c->no_memory = true;
	return can;
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
		return rlx_dtype_is_float(wide) &&
		       2 * rlx_dtype_size(narrow) <= rlx_dtype_size(wide);
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

	take_inputs(a, to);
	a->q.err = &quiet;
	a->q.n_out = 1;
	fits = !rlx_op_infer(&a->q) && results_fit(a);
	if (fits)
		return ask(a);
	put_constants(a);
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

enum scope { VECTORS, ASIDE, ALL };

/* Floats narrower than @wide become it: vectors alone, all that stands aside, or all. */
static bool choose(const struct question *a, enum rlx_dtype wide, enum scope scope,
		   enum rlx_dtype *to)
{
	bool any = false;
	uint32_t k;

	for (k = 0; k < a->n->n_in; k++) {
		uint32_t v = a->n->in[k];
		enum rlx_dtype dt = v ? a->g->val[v].type.dtype : wide;

		to[k] = (enum rlx_dtype)0;
		if (dt == wide || !rlx_dtype_is_float(dt) ||
		    (scope == ASIDE && !is_aside(a, k)) ||
		    (scope == VECTORS && a->g->val[v].type.rank > 1) ||
		    rlx_dtype_promote(dt, wide) != wide)
			continue;
		to[k] = wide;
		any = true;
	}
	return any;
}

/* Integers that are only compared: a float that holds them orders them alike. */
static bool choose_integers(const struct question *a, enum rlx_dtype *to)
{
	uint32_t v = a->n->n_in ? a->n->in[0] : 0;
	enum rlx_dtype dt = v ? a->g->val[v].type.dtype : RLX_NODTYPE;

	memset(to, 0, RLX_LEGAL_INPUTS * sizeof(*to));
	if (!(a->n->def->traits & RLX_T_SELECT) || !rlx_dtype_is_int(dt))
		return false;
	to[0] = holds(RLX_F32, dt) ? RLX_F32 : RLX_F64;
	return holds(to[0], dt);
}

bool rlx_legal_as(const struct rlx_legal *l, const struct rlx_node *n, const void *args,
		  const enum rlx_dtype to[RLX_LEGAL_INPUTS])
{
	struct rlx_error quiet = { 0 };
	struct question a = { .l = l, .g = l->g, .n = n };

	if (!l->c->target.dev)
		return true;
	if (n->n_in > RLX_LEGAL_INPUTS)
		return false;
	a.q = (struct rlx_infer){ .def = n->def, .args = args ? args : n->args, .n_in = n->n_in,
				  .in = a.in, .constant = a.constant, .err = &quiet, .n_out = 1,
				  .placed = is_placed(l, n) };
	take_inputs(&a, to);
	if (!rlx_op_infer(&a.q))
		return ask(&a);
	put_constants(&a);
	return false;
}

enum rlx_legal_form rlx_legal(const struct rlx_legal *l, const struct rlx_node *n,
			      enum rlx_dtype to[RLX_LEGAL_INPUTS])
{
	const struct rlx_target *target = &l->c->target;
	struct question a = { .l = l, .g = l->g, .n = n };

	if (!target->dev || n->def->traits & (RLX_T_LEAF | RLX_T_VIEW))
		return RLX_LEGAL_NATIVE;
	a.q = (struct rlx_infer){ .def = n->def, .args = n->args, .n_in = n->n_in, .in = a.in,
				  .constant = a.constant, .placed = is_placed(l, n) };
	if (n->n_in > RLX_LEGAL_INPUTS)
		return RLX_LEGAL_NONE;
	if (is_native(&a))
		return RLX_LEGAL_NATIVE;
	if (!(target->widen || target->widen_aside) || rlx_keeps_dtypes(n->def))
		return RLX_LEGAL_NONE;
	/* a residual stays as the result is, while a bias is widened */
	if ((choose(&a, RLX_F32, VECTORS, to) && is_native_as(&a, to)) ||
	    (choose(&a, RLX_F32, ASIDE, to) && is_native_as(&a, to)))
		return RLX_LEGAL_WIDENED;
	if ((target->widen || n->def->traits & RLX_T_ACCUMULATES) &&
	    choose(&a, RLX_F32, ALL, to) && is_native_as(&a, to))
		return RLX_LEGAL_WIDENED;
	if (target->widen && ((choose(&a, RLX_F64, ALL, to) && is_native_as(&a, to)) ||
			      (choose_integers(&a, to) && is_native_as(&a, to))))
		return RLX_LEGAL_WIDENED;
	return RLX_LEGAL_NONE;
}
