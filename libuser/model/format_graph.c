// SPDX-License-Identifier: MIT
/* Graphs built in C as models: a template is bound to the sizes that its inputs have. */
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"
#include "model/format.h"
#include "model/model.h"

static const struct rlx_graph *graph_of(const struct rlx_model *m)
{
	return m->graph;
}

static void close_graph(struct rlx_model *m)
{
	rlx_graph_put(m->graph);
}

static const struct rlx_file *mapped(const struct rlx_model *m, unsigned int i)
{
	(void)m;
	(void)i;
	return NULL;	/* weights are params or constants of the graph */
}

static bool is_given(const struct rlx_instance *want, const char *name)
{
	unsigned int i;

	for (i = 0; i < want->n_spec; i++)
		if (!strcmp(want->spec[i].name, name))
			return true;
	return false;
}

/* Each input once, as a tensor, and nothing else. */
static enum rlx_status check_names(const struct rlx_graph *g, const struct rlx_instance *want,
				   struct rlx_error *err)
{
	unsigned int i, k;

	for (i = 0; i < rlx_graph_io_count(g, RLX_IO_INPUT); i++)
		if (!is_given(want, rlx_graph_io_name(g, RLX_IO_INPUT, i)))
			return rlx_fail(err, RLX_ENOENT, "graph '%s': input '%s' is missing",
					g->name, rlx_graph_io_name(g, RLX_IO_INPUT, i));
	for (i = 0; i < want->n_spec; i++) {
		const struct rlx_spec *s = &want->spec[i];

		if (!rlx_graph_io_find(g, RLX_IO_INPUT, s->name).id)
			return rlx_fail(err, RLX_ENOENT, "graph '%s': there is no input '%.80s'",
					g->name, s->name);
		for (k = 0; k < i && strcmp(want->spec[k].name, s->name); k++)
			;
		if (k < i || s->kind != RLX_SPEC_TENSOR)
			return rlx_fail(err, RLX_EINVAL, "graph '%s': input '%s' is %s", g->name,
					s->name, k < i ? "given twice" : "no tensor");
	}
	return RLX_OK;
}

/* Sizes that only ops know can be inputs', too: those of a bound graph are compared. */
static enum rlx_status check_types(const struct rlx_graph *b, const struct rlx_leaf_type *l,
				   uint32_t n, struct rlx_error *err)
{
	char have[96], need[96];
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint64_t v = 0;
		struct rlx_type t = *l[i].type;

		rlx_map_get(&b->names, l[i].name, strlen(l[i].name), &v);
		t.dtype = b->val[v].type.dtype;	/* converted as it is set */
		if (rlx_type_equal(&t, &b->val[v].type))
			continue;
		rlx_type_print(&t, have, sizeof(have));
		rlx_type_print(&b->val[v].type, need, sizeof(need));
		return rlx_fail(err, RLX_ESHAPE, "'%s' is %s, and with the other inputs' sizes "
				"graph '%s' takes %s", l[i].name, have, b->name, need);
	}
	return RLX_OK;
}

static enum rlx_status bind(struct rlx_model *m, const struct rlx_instance *want,
			    struct rlx_graph **out, struct rlx_error *err)
{
	const struct rlx_graph *g = graph_of(m);
	uint32_t n = want->n_spec + want->n_param, i;
	struct rlx_leaf_type *l = rlx_calloc(n + 1ul, sizeof(*l));
	int64_t *size = rlx_calloc((g->dims ? g->dims->n : 0) + 1ul, sizeof(*size));
	enum rlx_status st;

	if (!l || !size) {
		st = rlx_fail(err, RLX_ENOMEM, "graph '%s': out of memory", g->name);
		goto out_free;
	}
	for (i = 0; i < n; i++)
		l[i] = i < want->n_spec ?
			(struct rlx_leaf_type){ want->spec[i].name, &want->spec[i].type } :
			(struct rlx_leaf_type){ want->param[i - want->n_spec].name,
						&want->param[i - want->n_spec].type };
	st = rlx_dims_solve(g, l, n, true, size, err);
	if (st)
		goto out_free;
	if (rlx_graph_dim_count(g))
		st = rlx_graph_bind_sizes(g, size, out, err);
	else
		*out = rlx_graph_get(m->graph);
	if (st)
		goto out_free;
	st = check_types(*out, l, n, err);
	if (st) {
		rlx_graph_put(*out);
		*out = NULL;
	}
out_free:
	rlx_free(size);
	rlx_free(l);
	return st;
}

static enum rlx_status build(struct rlx_model *m, const struct rlx_instance *want,
			     struct rlx_segment *seg, struct rlx_error *err)
{
	enum rlx_status st;

	*seg = (struct rlx_segment){ .need = RLX_NEED_NOTHING };
	st = check_names(graph_of(m), want, err);
	if (!st)
		st = bind(m, want, &seg->g, err);
	if (st)
		return st;
	return rlx_segment_of_graph(m, seg, err);
}

/* Of no file: format_text.c reads one. */
static const struct rlx_model_format format_graph = {
	.name = "graph", .close = close_graph, .mapped = mapped, .build = build,
};

enum rlx_status rlx_model_take_graph(struct rlx_model *m, struct rlx_graph *g,
				     struct rlx_error *err)
{
	if (g->n_state)
		return rlx_fail(err, RLX_ENOSUP, "model: graph '%s' has the state '%s', which a "
				"model cannot have: compile it for a session", g->name,
				rlx_graph_io_name(g, RLX_IO_STATE, 0));
	m->format = &format_graph;
	m->graph = rlx_graph_get(g);
	m->file = m->graph;
	if (!rlx_model_describe(m, g))
		return rlx_fail(err, RLX_ENOMEM, "model: out of memory");
	return RLX_OK;
}

enum rlx_status rlx_model_from_graph(struct rlx_graph *g, struct rlx_model **out,
				     struct rlx_error *err)
{
	const struct rlx_error *of = rlx_graph_error(g);
	struct rlx_model *m;
	enum rlx_status st;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "model: no place for it");
	*out = NULL;
	if (of->status)
		return rlx_error_set(err, of->status, of->file, of->line, "%s", of->text);
	if (!g->finished)
		return rlx_fail(err, RLX_EINVAL, "model: graph '%s' is not finished; call "
				"rlx_graph_finish()", g->name);
	m = rlx_model_alloc();
	if (!m)
		return rlx_fail(err, RLX_ENOMEM, "model: out of memory");
	st = rlx_model_take_graph(m, g, err);
	if (st) {
		rlx_model_put(m);
		return st;
	}
	*out = m;
	return RLX_OK;
}
