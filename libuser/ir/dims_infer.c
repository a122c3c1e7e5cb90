// SPDX-License-Identifier: MIT
/*
 * Types in a template: an op is asked with several sizes of each name. What is the same in all is
 * a plain number, what is a size that there is already is that, and else it is the value's own.
 */
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"

/* The op with the sizes of sample @k; its types go to where those of value @to on are. */
static enum rlx_status ask(struct rlx_graph *g, const struct rlx_infer *of, const uint32_t *in,
			   int k, struct rlx_infer *q)
{
	const struct rlx_dim_at at = { .g = g, .sample = k };
	const struct rlx_type **types;
	struct rlx_args_at args;
	enum rlx_status st;
	uint32_t i;

	st = rlx_args_at(&args, &at, of->def, of->args, of->err);
	if (st)
		return st;
	*q = (struct rlx_infer){ .err = of->err, .def = of->def, .n_in = of->n_in,
				 .args = args.args };
	types = rlx_calloc(of->n_in + 1ul, sizeof(*types));
	if (types) {
		for (i = 0; i < of->n_in; i++)
			types[i] = in[i] ? &g->dims->type[k][in[i]] : NULL;
		q->in = types;
		st = rlx_op_infer(q);
	} else {
		st = rlx_fail(of->err, RLX_ENOMEM, "%s: out of memory", of->def->name);
	}
	rlx_free(types);
	rlx_args_at_fini(&args);
	return st;
}

/* With which sizes it was asked, to the end of the message. */
static void tell_sizes(struct rlx_graph *g, int k)
{
	const struct rlx_dims *d = g->dims;
	size_t at = strlen(g->err.text), size = sizeof(g->err.text);
	uint32_t i;

	for (i = 0; i < d->n_name && at < size; i++)
		at += (size_t)snprintf(g->err.text + at, size - at, "%s%s = %lld",
				       i ? ", " : "; tried with ", d->e[d->name[i]].name,
				       (long long)d->e[d->name[i]].sample[k]);
}

static bool fits(const struct rlx_graph *g, int64_t x, const int64_t *v)
{
	return rlx_is_dim(x) && rlx_dim_place(x) < g->dims->n &&
	       !memcmp(g->dims->e[rlx_dim_place(x)].sample, v, RLX_DIM_SAMPLES * sizeof(*v));
}

/* The type that the op was given as an attribute, of leaves and what is made of nothing. */
static const struct rlx_type *type_given(const struct rlx_infer *q)
{
	uint32_t i;

	for (i = 0; i < q->def->n_field; i++)
		if (q->def->field[i].role == RLX_FIELD_ATTR &&
		    q->def->field[i].kind == RLX_K_type)
			return rlx_field_ptr(&q->def->field[i], q->args);
	return NULL;
}

/* What there is that is as large as axis @d of an output: 0 if nothing is. */
static int64_t find(const struct rlx_graph *g, const struct rlx_infer *q, const uint32_t *in,
		    uint32_t d, const int64_t *v)
{
	const struct rlx_type *t = type_given(q);
	uint32_t i, k;

	if (t && d < t->rank && fits(g, t->dim[d], v))
		return t->dim[d];
	for (i = 0; i < q->n_in; i++)
		if (in[i] && d < g->val[in[i]].type.rank && fits(g, g->val[in[i]].type.dim[d], v))
			return g->val[in[i]].type.dim[d];
	for (i = 0; i < q->n_in; i++)
		for (k = 0; in[i] && k < g->val[in[i]].type.rank; k++)
			if (fits(g, g->val[in[i]].type.dim[k], v))
				return g->val[in[i]].type.dim[k];
	for (i = 0; i < g->dims->n; i++)
		if (fits(g, RLX_DIM_FIRST + i, v))
			return RLX_DIM_FIRST + i;
	return 0;
}

/* Put together what the op said of output @o. */
static enum rlx_status merge(struct rlx_graph *g, struct rlx_infer *q, const uint32_t *in,
			     const struct rlx_infer *said, uint32_t o)
{
	struct rlx_type *t = &q->out[o];
	int64_t v[RLX_DIM_SAMPLES];
	bool same;
	uint32_t d;
	int k;

	*t = said[0].out[o];
	for (k = 1; k < RLX_DIM_SAMPLES; k++)
		if (said[k].out[o].dtype != t->dtype || said[k].out[o].rank != t->rank)
			return rlx_fail(q->err, RLX_ENOSUP, "%s: the rank or dtype of output %u "
					"depends on sizes", q->def->name, o);
	for (d = 0; d < t->rank; d++) {
		for (k = 0, same = true; k < RLX_DIM_SAMPLES; k++) {
			v[k] = said[k].out[o].dim[d];
			same &= v[k] == v[0];
		}
		if (same)
			continue;
		t->dim[d] = find(g, q, in, d, v);
		if (!t->dim[d])
			t->dim[d] = rlx_dim_of_value(g, g->n_val + o, d, v);
	}
	return q->err->status;
}

static enum rlx_status keep(struct rlx_graph *g, const struct rlx_infer *said)
{
	struct rlx_dims *d = g->dims;
	int k;

	for (k = 0; k < RLX_DIM_SAMPLES; k++) {
		if (!rlx_grow(&d->type[k], &d->cap_type[k], g->n_val + said[k].n_out,
			      sizeof(*d->type[k])))
			return rlx_fail(&g->err, RLX_ENOMEM, "%s: out of memory",
					said[k].def->name);
		memcpy(d->type[k] + g->n_val, said[k].out,
		       said[k].n_out * sizeof(*said[k].out));
	}
	return RLX_OK;
}

enum rlx_status rlx_dims_infer(struct rlx_graph *g, struct rlx_infer *q, const uint32_t *in)
{
	struct rlx_infer *said = rlx_malloc(RLX_DIM_SAMPLES * sizeof(*said));
	enum rlx_status st = RLX_OK;
	uint32_t i;
	int k;

	if (!said)
		return rlx_fail(q->err, RLX_ENOMEM, "%s: out of memory", q->def->name);
	for (k = 0; k < RLX_DIM_SAMPLES && !st; k++) {
		st = ask(g, q, in, k, &said[k]);
		if (st)
			tell_sizes(g, k);
		else if (said[k].n_out != said[0].n_out)
			st = rlx_fail(q->err, RLX_ENOSUP, "%s: the number of outputs depends on "
				      "sizes", q->def->name);
	}
	q->n_out = st ? 0 : said[0].n_out;
	for (i = 0; i < q->n_out && !st; i++)
		st = merge(g, q, in, said, i);
	if (!st)
		st = keep(g, said);
	rlx_free(said);
	return st;
}
