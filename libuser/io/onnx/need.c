// SPDX-License-Identifier: MIT
/*
 * Values that must be known while importing. An answer given by the caller
 * turns them into constants and opens the next segment; without one the import
 * stops and says what it waits for.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/onnx/imp.h"
#include "ir/element.h"

static bool known(const struct onnx_val *v)
{
	return !v || v->kind != RLX_SPEC_TENSOR || v->blob;
}

/* The answer to this stop, if the caller has it: values become known. */
static enum rlx_status take_answer(struct onnx_build *b,
				   struct onnx_val *const *v, uint32_t n)
{
	const struct rlx_answer *a = &b->want->answer[b->n_segment];
	uint32_t i, k = 0;

	for (i = 0; i < n; i++) {
		if (known(v[i]))
			continue;
		if (k >= a->n || !rlx_type_equal(&a->v[k].type, &v[i]->type))
			return rlx_fail(b->err, RLX_EINVAL, "onnx: answer %u "
					"does not fit segment %u of %s", k,
					b->n_segment,
					onnx_file_name(b->file));
		v[i]->blob = rlx_blob_copy(a->v[k].data, (size_t)
					   rlx_type_bytes(&v[i]->type));
		if (!v[i]->blob)
			return onnx_nomem(b);
		v[i]->ctx = 0;
		k++;
	}
	if (b->n_segment + 1 >= sizeof(b->all_ctx) / sizeof(b->all_ctx[0]))
		return rlx_fail(b->err, RLX_ENOSUP, "onnx: %s: more than %u "
				"values that depend on data",
				onnx_file_name(b->file), b->n_segment);
	if (!onnx_ctx_begin(b, false))
		return RLX_ENOMEM;
	b->all_ctx[++b->n_segment] = b->ctx;
	return RLX_OK;
}

static void live_val(struct onnx_build *b, struct onnx_val *v)
{
	char name[32];
	uint32_t i;

	if (!v || v->live == b->n_walk)
		return;
	v->live = b->n_walk;
	for (i = 0; i < v->n_item; i++)
		live_val(b, v->item[i]);
	/* Inputs of the model are there for every segment. */
	if (v->kind != RLX_SPEC_TENSOR || v->blob || v->input ||
	    v->ctx != b->ctx->serial)
		return;
	snprintf(name, sizeof(name), "%%cut.%u", v->id);
	rlx_output(b->ctx->g, name, v->v);
}

static void live_graph(struct onnx_build *b, struct onnx_scope *s,
		       const struct onnx_graph *g);

static void live_nodes(struct onnx_build *b, struct onnx_scope *s,
		       const struct onnx_node *n, size_t from, size_t to)
{
	size_t i, k, m;

	for (i = from; i < to; i++) {
		for (k = 0; k < n[i].ninputs; k++)
			live_val(b, onnx_lookup(s, n[i].inputs[k]));
		for (k = 0; k < n[i].nattrs; k++) {
			const struct onnx_attr *a = &n[i].attrs[k];

			if (a->g)
				live_graph(b, s, a->g);
			for (m = 0; m < a->ngraphs; m++)
				live_graph(b, s, &a->graphs[m]);
		}
	}
}

/* Names that a nested graph may take from @s; a superset does no harm. */
static void live_graph(struct onnx_build *b, struct onnx_scope *s,
		       const struct onnx_graph *g)
{
	size_t i;

	live_nodes(b, s, g->nodes, 0, g->nnodes);
	for (i = 0; i < g->noutputs; i++)
		live_val(b, onnx_lookup(s, g->outputs[i].name));
}

/* Every value of this graph that the rest of the import may refer to. */
static void live_out(struct onnx_build *b)
{
	struct onnx_scope *s;
	struct onnx_pin *p;
	size_t i;

	for (s = b->scope; s; s = s->caller) {
		size_t from = s->repeats ? 0 : s->pos;

		if (s->fn) {
			live_nodes(b, s, s->fn->nodes, from, s->fn->nnodes);
			for (i = 0; i < s->fn->noutputs; i++)
				live_val(b, onnx_lookup(s, s->fn->outputs[i]));
			continue;
		}
		live_nodes(b, s, s->graph->nodes, from, s->graph->nnodes);
		for (i = 0; i < s->graph->noutputs; i++)
			live_val(b, onnx_lookup(s, s->graph->outputs[i].name));
	}
	for (p = b->pins; p; p = p->next)
		for (i = 0; i < p->n; i++)
			live_val(b, p->v[i]);
}

static enum rlx_status stop_for_values(struct onnx_build *b,
				       struct onnx_val *const *v, uint32_t n)
{
	char name[32];
	uint32_t i;

	b->seg->need = RLX_NEED_VALUES;
	b->n_walk++;
	for (i = 0; i < n; i++) {
		if (known(v[i]) || v[i]->live == b->n_walk)
			continue;
		v[i]->live = b->n_walk;
		snprintf(name, sizeof(name), "%%cut.%u", v[i]->id);
		rlx_output(b->ctx->g, name, onnx_use(b, v[i]));
		b->seg->n_needed++;
	}
	live_out(b);
	return ONNX_STOP;
}

enum rlx_status onnx_need(struct onnx_build *b, struct onnx_val *const *v,
			  uint32_t n)
{
	uint64_t roots = 0;
	bool all = true;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (known(v[i]))
			continue;
		all = false;
		/* An input asked for directly is worth its contents. */
		roots |= v[i]->input ? v[i]->roots & ~ONNX_ROOT_OPAQUE ?
			 v[i]->roots & ~ONNX_ROOT_OPAQUE : ONNX_ROOT_OPAQUE :
			 v[i]->roots;
	}
	if (all)
		return RLX_OK;
	/* A value no input goes into (random numbers): only running tells. */
	if (roots && !(roots & ONNX_ROOT_OPAQUE)) {
		b->seg->need = RLX_NEED_INPUTS;
		b->seg->inputs = roots;
		return ONNX_STOP;
	}
	if (b->body)
		return ONNX_INNER;
	if (b->n_segment < b->want->n_answer)
		return take_answer(b, v, n);
	return stop_for_values(b, v, n);
}

const int64_t *onnx_val_ints(struct onnx_build *b, const struct onnx_val *v,
			     uint32_t *n)
{
	int64_t count = rlx_type_count(&v->type), i, *out;
	struct rlx_tensor t = {
		.type = v->type, .data = (void *)(uintptr_t)
			rlx_blob_data(v->blob),
	};

	*n = 0;
	if (count > UINT32_MAX)
		count = 0;
	out = rlx_bump_new(&b->mem, (size_t)count, sizeof(*out));
	if (!out) {
		onnx_nomem(b);
		return NULL;
	}
	for (i = 0; i < count; i++)
		out[i] = el_geti(&t, i);
	*n = (uint32_t)count;
	return out;
}

/* Input @i known and a tensor; *@v NULL if absent. */
static enum rlx_status host_input(struct onnx_op *q, uint32_t i,
				  struct onnx_val **v)
{
	*v = onnx_given(q, i) ? q->in[i] : NULL;
	if (*v && (*v)->kind != RLX_SPEC_TENSOR)
		return op_err(q, RLX_ETYPE, "input %u is no tensor of numbers",
			      i);
	return *v ? onnx_need(q->b, v, 1) : RLX_OK;
}

enum rlx_status onnx_ints(struct onnx_op *q, uint32_t i, const int64_t **v,
			  uint32_t *n)
{
	struct onnx_val *val;
	enum rlx_status st = host_input(q, i, &val);

	*v = NULL;
	*n = 0;
	if (st || !val)
		return st;
	*v = onnx_val_ints(q->b, val, n);
	return *v ? RLX_OK : RLX_ENOMEM;
}

enum rlx_status onnx_floats(struct onnx_op *q, uint32_t i, const double **v,
			    uint32_t *n)
{
	struct onnx_val *val;
	enum rlx_status st = host_input(q, i, &val);
	struct rlx_tensor t;
	int64_t count, k;
	double *out;

	*v = NULL;
	*n = 0;
	if (st || !val)
		return st;
	count = rlx_type_count(&val->type);
	t.type = val->type;
	t.data = (void *)(uintptr_t)rlx_blob_data(val->blob);
	out = rlx_bump_new(&q->b->mem, (size_t)count, sizeof(*out));
	if (!out || count > UINT32_MAX)
		return onnx_nomem(q->b);
	for (k = 0; k < count; k++)
		out[k] = el_get(&t, k);
	*v = out;
	*n = (uint32_t)count;
	return RLX_OK;
}

enum rlx_status onnx_int(struct onnx_op *q, uint32_t i, int64_t dflt,
			 int64_t *v)
{
	const int64_t *list;
	uint32_t n;
	enum rlx_status st = onnx_ints(q, i, &list, &n);

	*v = dflt;
	if (st || !list)
		return st;
	if (n != 1)
		return op_err(q, RLX_ESHAPE, "input %u has %u elements, one "
			      "is wanted", i, n);
	*v = list[0];
	return RLX_OK;
}

enum rlx_status onnx_need_value(struct onnx_op *q, rlx_value v, int64_t *out)
{
	struct onnx_val *val = onnx_val_of(q->b, v);
	enum rlx_status st = onnx_graph_status(q);
	const int64_t *list;
	uint32_t n;

	if (st)
		return st;
	if (!val)
		return onnx_nomem(q->b);
	st = onnx_need(q->b, &val, 1);
	if (st)
		return st;
	list = onnx_val_ints(q->b, val, &n);
	if (!list)
		return RLX_ENOMEM;
	if (n != 1)
		return op_err(q, RLX_ESHAPE, "%u elements where one is wanted",
			      n);
	*out = list[0];
	return RLX_OK;
}
