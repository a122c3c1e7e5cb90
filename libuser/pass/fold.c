// SPDX-License-Identifier: MIT
/*
 * Compute what depends on constants alone, with the ops' own reference
 * evaluation. Results larger than their operands (an expanded scalar) stay as
 * ops: folding them would cost memory and gain nothing.
 */
#include <string.h>

#include "base/alloc.h"
#include "pass/fold.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_fold, rlx_pass_fold_wide, rlx_pass_fold_again;

/* Reference evaluation is slow: leave what would take it long. */
static const double MOST_FLOPS = 3e7;
enum { FOLD_INPUTS = 16 };

static const struct rlx_op_constant *constant_of(const struct rlx_rewrite *rw,
						 uint32_t old)
{
	uint32_t v = old ? rw->map[old] : 0;
	const struct rlx_node *n = v ? rlx_node_of(rw->g, v) : NULL;

	return n && n->def->index == RLX_OP_constant ? n->args : NULL;
}

/* A weight in fp8 may be multiplied as it is: until it is known where, it stays that. */
static bool may_stay(const struct rlx_rewrite *rw, const struct rlx_node *n)
{
	return n->def->index == RLX_OP_dequantize &&
	       rlx_dtype_is_float(rw->old->val[n->in[0]].type.dtype) &&
	       rlx_dtype_size(rw->old->val[n->out].type.dtype) == 2;
}

bool rlx_foldable(const struct rlx_graph *g, const struct rlx_node *n)
{
	const struct rlx_type *types[FOLD_INPUTS];
	struct rlx_infer q = { .def = n->def, .args = n->args, .n_in = n->n_in, .in = types };
	struct rlx_cost cost = { 0 };
	uint32_t i;

	if (!n->n_in || n->n_in > FOLD_INPUTS ||
	    n->def->traits & (RLX_T_IMPURE | RLX_T_SUBGRAPH))
		return false;
	for (i = 0; i < n->n_in; i++)
		types[i] = n->in[i] ? &g->val[n->in[i]].type : NULL;
	for (i = 0; i < n->n_out; i++)
		q.out[i] = g->val[n->out + i].type;
	q.n_out = n->n_out;
	if (n->def->impl->cost)
		n->def->impl->cost(&q, &cost);
	return cost.flops <= MOST_FLOPS && !rlx_node_grows(g, n);
}

static bool may_fold(const struct rlx_rewrite *rw, const struct rlx_node *n)
{
	uint32_t i;

	for (i = 0; i < n->n_in; i++)
		if (n->in[i] && !constant_of(rw, n->in[i]))
			return false;
	return rlx_foldable(rw->old, n);
}

/* Smaller ones are made again sooner than found. */
enum { LEAST_SHARED = 4096 };

/*
 * What a result of one output is of: the op, and behind this its attributes and operands.
 * Large ones go by address: a file's are the same for all instances, as are those that were
 * folded before. Small ones each instance has anew: these go by their contents.
 */
struct fold_key {
	char		who[8];
	const void	*def;
	struct rlx_type	out;
	uint32_t	n_in;
	struct {
		struct rlx_type	 type;
		struct rlx_blob	*blob;		/* NULL: its bytes are at the end */
	} in[FOLD_INPUTS];
	unsigned char	bytes[];
};

/* As bytes: dimensions behind the rank may hold anything. */
static void key_type(struct rlx_type *k, const struct rlx_type *t)
{
	k->dtype = t->dtype;
	k->rank = t->rank;
	memcpy(k->dim, t->dim, t->rank * sizeof(t->dim[0]));
}

/* To be freed; NULL: what comes of @n is not shared, or there is no memory for the key. */
static struct fold_key *key_of(const struct rlx_rewrite *rw, const struct rlx_node *n,
			       struct rlx_blob **of, size_t *size)
{
	size_t n_args, n_bytes;
	struct fold_key *k;
	uint32_t i;

	if (n->n_out != 1 || rlx_type_bytes(&rw->old->val[n->out].type) < LEAST_SHARED ||
	    !rlx_args_bytes(n->def, n->args, NULL, &n_args))
		return NULL;
	for (n_bytes = n_args, i = 0; i < n->n_in; i++) {
		const struct rlx_op_constant *c = constant_of(rw, n->in[i]);

		of[i] = c ? c->data : NULL;
		if (rlx_blob_bytes(of[i]) < LEAST_SHARED)
			n_bytes += rlx_blob_bytes(of[i]);
	}
	*size = sizeof(*k) + n_bytes;
	k = rlx_calloc(1, *size);
	if (!k)
		return NULL;
	memcpy(k->who, "fold", 4);
	k->def = n->def;
	key_type(&k->out, &rw->old->val[n->out].type);
	k->n_in = n->n_in;
	rlx_args_bytes(n->def, n->args, k->bytes, &n_bytes);
	for (i = 0; i < n->n_in; i++) {
		const struct rlx_op_constant *c = constant_of(rw, n->in[i]);

		if (!c)
			continue;
		key_type(&k->in[i].type, &c->type);
		if (rlx_blob_bytes(of[i]) >= LEAST_SHARED) {
			k->in[i].blob = of[i];
			continue;
		}
		memcpy(k->bytes + n_bytes, rlx_blob_data(of[i]), rlx_blob_bytes(of[i]));
		n_bytes += rlx_blob_bytes(of[i]);
	}
	return k;
}

/* Found as an instance of other shapes made it: then there is nothing to compute. */
static bool fold_shared(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	struct rlx_blob *of[FOLD_INPUTS], *b;
	size_t size;
	struct fold_key *k = key_of(rw, n, of, &size);

	b = k ? rlx_blob_shared(k, size) : NULL;
	if (b)
		rlx_rewrite_set(rw, n->out, rlx_constant_blob(rw->g, rw->old->val[n->out].type, b));
	rlx_blob_put(b);
	rlx_free(k);
	return b;
}

/* NULL: out of memory; else @data is taken. */
static struct rlx_blob *result_of(struct rlx_rewrite *rw, const struct rlx_node *n, void *data,
				  size_t bytes)
{
	struct rlx_blob *of[FOLD_INPUTS], *b;
	size_t size;
	struct fold_key *k = key_of(rw, n, of, &size);

	b = k ? rlx_blob_new_shared(k, size, data, bytes, of, n->n_in) :
		rlx_blob_new(data, bytes, rlx_free, data);
	rlx_free(k);
	return b;
}

static void fold_node(struct rlx_rewrite *rw, uint32_t idx)
{
	const struct rlx_node *n = &rw->old->node[idx];
	struct rlx_tensor in[FOLD_INPUTS] = { 0 }, out[RLX_MAX_OUT] = { 0 };
	struct rlx_error err = { 0 };
	enum rlx_status st = RLX_OK;
	uint32_t i;

	if (fold_shared(rw, n))
		return;
	for (i = 0; i < n->n_in; i++) {
		const struct rlx_op_constant *c = constant_of(rw, n->in[i]);

		if (c)
			in[i] = (struct rlx_tensor){ c->type,
				(void *)(uintptr_t)rlx_blob_data(c->data) };
	}
	for (i = 0; i < n->n_out; i++) {
		out[i].type = rw->old->val[n->out + i].type;
		out[i].data = rlx_aligned(64, (size_t)rlx_type_bytes(&out[i].type) + 1);
		if (!out[i].data)
			st = RLX_ENOMEM;
	}
	if (!st)
		st = rlx_op_eval(&(struct rlx_eval){
			.err = &err, .def = n->def, .args = n->args, .n_in = n->n_in,
			.in = in, .n_out = n->n_out, .out = out });
	for (i = 0; i < n->n_out && !st; i++) {
		struct rlx_blob *b = result_of(rw, n, out[i].data,
					       (size_t)rlx_type_bytes(&out[i].type));

		if (!b) {
			rlx_fail(&rw->g->err, RLX_ENOMEM, "fold: out of memory");
			break;
		}
		out[i].data = NULL;
		rlx_rewrite_set(rw, n->out + i, rlx_constant_blob(rw->g, out[i].type, b));
		rlx_blob_put(b);
	}
	for (i = 0; i < n->n_out; i++)
		rlx_free(out[i].data);
	/* bad data (an index out of range) is the run's to report */
	if (st)
		rlx_rewrite_copy(rw, idx);
}

static enum rlx_status fold(struct rlx_pass_ctx *c, struct rlx_graph *g, bool again,
			    struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t n;

	if (st)
		return st;
	for (n = 0; n < g->n_node; n++) {
		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (may_fold(&rw, &g->node[n]) && (again || !may_stay(&rw, &g->node[n])))
			fold_node(&rw, n);
		else
			rlx_rewrite_copy(&rw, n);
	}
	return rlx_rewrite_end(&rw, out);
}

enum rlx_status rlx_pass_fold(struct rlx_pass_ctx *c, struct rlx_graph *g,
			      struct rlx_graph **out)
{
	return fold(c, g, false, out);
}

/* Weights that legalization converts: layout wants constants. */
enum rlx_status rlx_pass_fold_wide(struct rlx_pass_ctx *c, struct rlx_graph *g,
				   struct rlx_graph **out)
{
	return c->target.widen ? fold(c, g, false, out) : RLX_OK;
}

/* What layout and expansion made constant. */
enum rlx_status rlx_pass_fold_again(struct rlx_pass_ctx *c, struct rlx_graph *g,
				    struct rlx_graph **out)
{
	return fold(c, g, true, out);
}
