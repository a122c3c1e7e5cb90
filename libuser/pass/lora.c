// SPDX-License-Identifier: MIT
/*
 * Adapters of low rank: what reads a weight is followed from where the weight is made, through
 * casts and transposes, to the products that it is the right operand of.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/rewrite.h"
#include "rlx/lora.h"

/* A weight: its params, once a product has told which of its dimensions is summed over. */
struct adapter {
	const struct rlx_lora_weight	*w;
	const struct rlx_type		*type;	/* of what was found in the graph; NULL: nothing */
	bool				 in_first;	/* the weight is [in, out] */
	rlx_value			 a, b;	/* none: no product yet */
};

/* @of: per old value 1 + the adapter whose weight it is, 0: none; @turned: transposed. */
struct lora {
	struct rlx_rewrite	 rw;
	struct rlx_lora		 how;
	struct adapter		*e;
	uint32_t		*of;
	bool			*turned;
};

static struct rlx_error *sticky(struct lora *q)
{
	return &q->rw.g->err;
}

/* The adapter that leaf @n is the weight of; NULL. */
static struct adapter *adapter_of(struct lora *q, const struct rlx_node *n)
{
	const struct rlx_op_input *leaf = n->args;	/* param begins with the same members */
	const struct rlx_op_constant *c = n->args;
	unsigned int i;

	for (i = 0; i < q->how.n; i++) {
		const struct rlx_lora_weight *w = q->e[i].w;

		if (n->def->index == RLX_OP_constant ? w->data &&
		    w->data == rlx_blob_data(c->data) : !w->data && !strcmp(w->name, leaf->name))
			return &q->e[i];
	}
	return NULL;
}

static bool follow_leaf(struct lora *q, const struct rlx_node *n)
{
	const struct rlx_type *t = &q->rw.old->val[n->out].type;
	struct adapter *e = adapter_of(q, n);
	char text[96];

	if (!e)
		return true;
	rlx_type_print(t, text, sizeof(text));
	if (t->rank != 2)
		rlx_fail(sticky(q), RLX_ESHAPE, "lora: weight '%s' is %s, no matrix", e->w->name,
			 text);
	else if (!rlx_dtype_is_float(t->dtype))
		rlx_fail(sticky(q), RLX_ETYPE, "lora: weight '%s' is %s, no floats", e->w->name,
			 text);
	else if (e->type && !rlx_type_equal(e->type, t))
		rlx_fail(sticky(q), RLX_ESHAPE, "lora: weight '%s' is there as %s and in another "
			 "shape", e->w->name, text);
	e->type = t;
	q->of[n->out] = 1 + (uint32_t)(e - q->e);
	return !sticky(q)->status;
}

static bool is_transpose(const struct rlx_node *n)
{
	const struct rlx_op_transpose *t = n->args;

	return n->def->index == RLX_OP_transpose && (!t->perm.n || (t->perm.n == 2 &&
		t->perm.v[0] == 1 && t->perm.v[1] == 0));
}

/* The param "<module>.lora_<which>.weight". */
static rlx_value new_param(struct lora *q, const struct adapter *e, const char *which,
			   int64_t rows, int64_t cols)
{
	static const char tail[] = ".weight";
	size_t n = strlen(e->w->name), cut = n;
	char *name = rlx_malloc(n + 24);
	rlx_value v = RLX_NONE;

	if (!name) {
		rlx_fail(sticky(q), RLX_ENOMEM, "lora: out of memory");
		return v;
	}
	if (n > strlen(tail) && !strcmp(e->w->name + n - strlen(tail), tail))
		cut = n - strlen(tail);
	snprintf(name, n + 24, "%.*s.lora_%s.weight", (int)cut, e->w->name, which);
	v = rlx_param(q->rw.g, name, rlx_type(e->type->dtype == RLX_F64 ? RLX_F64 : RLX_F32, rows,
					      cols));
	rlx_free(name);
	return v;
}

/* Its params, of the first product; later ones have to sum over the same dimension. */
static bool make_params(struct lora *q, struct adapter *e, bool in_first)
{
	int64_t in = e->type->dim[in_first ? 0 : 1], out = e->type->dim[in_first ? 1 : 0];

	if (!e->a.id) {
		e->in_first = in_first;
		e->a = new_param(q, e, "A", q->how.rank, in);
		e->b = new_param(q, e, "B", out, q->how.rank);
	} else if (e->in_first != in_first) {
		rlx_fail(sticky(q), RLX_ESHAPE, "lora: one product sums over the rows of weight "
			 "'%s', another over its columns; give it no adapter", e->w->name);
	}
	return !sticky(q)->status;
}

/* @factor (x A') B' + @residual, in the dtype of old value @y. */
static rlx_value low_rank(struct lora *q, const struct adapter *e, const struct rlx_node *n,
			  bool trans_a, double factor, rlx_value residual)
{
	struct rlx_graph *g = q->rw.g;
	enum rlx_dtype to = q->rw.old->val[n->out].type.dtype;
	rlx_value low;

	if ((float)factor == 0 || !isfinite((float)factor)) {	/* 0 would mean the default */
		rlx_fail(sticky(q), RLX_EINVAL, "lora: the factor of weight '%s' is %g in f32; "
			 "take another alpha", e->w->name, factor);
		return RLX_NONE;
	}
	low = rlx_emit(g, fused_matmul, .a = rlx_rewrite_value(&q->rw, n->in[0]), .b = e->a,
		       .trans_a = trans_a, .trans_b = true);
	low = rlx_emit(g, fused_matmul, .a = low, .b = e->b, .residual = residual,
		       .trans_b = true, .alpha = (float)factor);
	return sticky(q)->status || rlx_type_of(g, low)->dtype == to ? low :
	       rlx_emit(g, cast, .x = low, .to = (int32_t)to);
}

/* The correction is another residual: it goes in front of the activation. */
static void adapt_fused(struct lora *q, struct adapter *e, const struct rlx_node *n)
{
	const struct rlx_op_fused_matmul *a = n->args;
	double factor = q->how.alpha / q->how.rank * (double)a->alpha;
	uint32_t in[4];
	rlx_value low;

	low = low_rank(q, e, n, a->trans_a, factor, rlx_rewrite_value(&q->rw, n->in[3]));
	in[0] = q->rw.map[n->in[0]];
	in[1] = q->rw.map[n->in[1]];
	in[2] = q->rw.map[n->in[2]];
	in[3] = low.id;
	rlx_rewrite_set(&q->rw, n->out, rlx_node_new(q->rw.g, n->def, a, in, 4, n));
}

static void adapt_matmul(struct lora *q, struct adapter *e, const struct rlx_node *n)
{
	rlx_value y, low;

	rlx_rewrite_copy(&q->rw, (uint32_t)(n - q->rw.old->node));
	y = rlx_rewrite_value(&q->rw, n->out);
	low = low_rank(q, e, n, false, q->how.alpha / q->how.rank, RLX_NONE);
	rlx_rewrite_set(&q->rw, n->out, rlx_emit(q->rw.g, add, .a = y, .b = low));
}

/* A node that reads the weight of @e as its input @k. */
static void reads_weight(struct lora *q, struct adapter *e, const struct rlx_node *n, uint32_t k)
{
	const struct rlx_op_fused_matmul *f = n->args;
	bool turned = q->turned[n->in[k]], fused = n->def->index == RLX_OP_fused_matmul;

	if (n->def->index == RLX_OP_cast || is_transpose(n)) {
		q->of[n->out] = q->of[n->in[0]];
		q->turned[n->out] = turned != is_transpose(n);
		rlx_rewrite_copy(&q->rw, (uint32_t)(n - q->rw.old->node));
		return;
	}
	if (k != 1 || (!fused && n->def->index != RLX_OP_matmul)) {
		rlx_fail(sticky(q), RLX_ENOSUP, "lora: weight '%s' is input %u of op '%s' (%s:%u); "
			 "adapters are for the right operand of matmul and fused_matmul",
			 e->w->name, k, n->def->name, n->file ? n->file : "no file", n->line);
		return;
	}
	if (!make_params(q, e, turned == (fused && f->trans_b)))
		return;
	if (fused)
		adapt_fused(q, e, n);
	else
		adapt_matmul(q, e, n);
}

static void visit(struct lora *q, uint32_t i)
{
	const struct rlx_node *n = &q->rw.old->node[i];
	struct adapter *e = NULL;
	uint32_t k, at = 0;

	/* of two the one that is no right operand, so that it is told of */
	for (k = 0; k < n->n_in; k++)
		if (n->in[k] && q->of[n->in[k]] && (!e || at == 1)) {
			e = &q->e[q->of[n->in[k]] - 1];
			at = k;
		}
	if (e)
		reads_weight(q, e, n, at);
	else if (n->def->traits & RLX_T_LEAF && !follow_leaf(q, n))
		return;
	else
		rlx_rewrite_copy(&q->rw, i);
}

/* Every weight was met in a product, and none is an output as it is. */
static void check_met(struct lora *q)
{
	const struct rlx_named_list *l = &q->rw.old->io[RLX_IO_OUTPUT];
	unsigned int i;

	for (i = 0; i < l->n && !sticky(q)->status; i++)
		if (q->of[l->e[i].v.id])
			rlx_fail(sticky(q), RLX_ENOSUP, "lora: weight '%s' is output '%s' as well",
				 q->e[q->of[l->e[i].v.id] - 1].w->name, l->e[i].name);
	for (i = 0; i < q->how.n && !sticky(q)->status; i++)
		if (!q->e[i].a.id)
			rlx_fail(sticky(q), RLX_ENOENT, "lora: graph '%s' has no product with "
				 "weight '%s'%s", q->rw.old->name, q->e[i].w->name,
				 q->e[i].w->data ? "; its data must be where the graph has it" : "");
}

static enum rlx_status check(const struct rlx_graph *g, const struct rlx_lora *how,
			     struct rlx_lora *to, struct rlx_error *err)
{
	unsigned int i, k;

	if (!g || !g->finished || !how || !how->size)
		return rlx_fail(err, RLX_EINVAL,
				"lora: a finished graph and arguments with their size are needed");
	memcpy(to, how, how->size < sizeof(*to) ? how->size : sizeof(*to));
	if (!to->n || !to->weight)
		return rlx_fail(err, RLX_EINVAL, "lora: no weight is named");
	if (!to->rank || to->rank > 1u << 20 || !isfinite(to->alpha) || to->alpha == 0)
		return rlx_fail(err, RLX_EINVAL, "lora: rank is %u, alpha %g; a rank from 1 to "
				"1,048,576 and a finite alpha that is not 0 are needed", to->rank,
				to->alpha);
	for (i = 0; i < to->n; i++) {
		if (!to->weight[i].name || !*to->weight[i].name)
			return rlx_fail(err, RLX_EINVAL, "lora: weight %u has no name", i);
		for (k = 0; k < i; k++)
			if (!strcmp(to->weight[i].name, to->weight[k].name) ||
			    (to->weight[i].data && to->weight[i].data == to->weight[k].data))
				return rlx_fail(err, RLX_EEXIST, "lora: weight '%s' comes twice",
						to->weight[i].name);
	}
	return RLX_OK;
}

enum rlx_status rlx_graph_lora(const struct rlx_graph *g, const struct rlx_lora *how,
			       struct rlx_graph **out, struct rlx_error *err)
{
	struct rlx_graph *made = NULL;
	struct lora q = { .how = { 0 } };
	enum rlx_status st = check(g, how, &q.how, err);
	unsigned int i;
	uint32_t n;

	if (!st)
		st = rlx_graph_is_bound(g, "lora", err);
	if (!st)
		st = rlx_rewrite_begin(&q.rw, g, err);
	if (st)
		return st;
	q.e = rlx_calloc(q.how.n, sizeof(*q.e));
	q.of = rlx_calloc(g->n_val, sizeof(*q.of));
	q.turned = rlx_calloc(g->n_val, sizeof(*q.turned));
	if (!q.e || !q.of || !q.turned)
		rlx_fail(sticky(&q), RLX_ENOMEM, "lora: out of memory");
	for (i = 0; q.e && i < q.how.n; i++)
		q.e[i].w = &q.how.weight[i];
	for (n = 0; n < g->n_node && !sticky(&q)->status; n++)
		if (rlx_rewrite_live(&q.rw, n))
			visit(&q, n);
	q.rw.g->scope = 0;
	if (!sticky(&q)->status)
		check_met(&q);
	st = rlx_rewrite_end(&q.rw, &made);
	if (!st)
		*out = made;
	rlx_free(q.turned);
	rlx_free(q.of);
	rlx_free(q.e);
	return st;
}
