// SPDX-License-Identifier: MIT
/* A session's program once more, with each of its values as an output. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "pass/rewrite.h"
#include "rt/inspect.h"
#include "rt/session.h"

static enum rlx_status no_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "inspect: out of memory");
}

/* Its value is at hand without a run. */
static bool is_leaf(const struct rlx_node *n)
{
	return n->def->index == RLX_OP_input || n->def->index == RLX_OP_param ||
	       n->def->index == RLX_OP_constant;
}

/* Outputs "%5", in the order of values, stand before @g's own. */
static enum rlx_status with_outputs(const struct rlx_graph *g, struct rlx_graph **out,
				    struct rlx_error *err)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, err);
	char name[32];
	uint32_t i;

	if (st)
		return st;
	for (i = 0; i < g->n_node; i++)
		rlx_rewrite_copy(&rw, i);
	for (i = 1; i < g->n_val; i++) {
		if (is_leaf(rlx_node_of(g, i)))
			continue;
		snprintf(name, sizeof(name), "rlx inspect %%%u", i);
		rlx_output(rw.g, name, rlx_rewrite_value(&rw, i));
	}
	rw.changed = true;
	return rlx_rewrite_end(&rw, out);
}

static enum rlx_status make_session(struct rlx_inspection *a, struct rlx_error *err)
{
	const struct rlx_program *p = a->of;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = p->info.device,
				      .threads = p->info.threads, .flags = p->flags,
				      .store = p->store };
	struct rlx_passed passed = { .at = 0 };
	struct rlx_program *all = NULL;
	struct rlx_graph **g = NULL;
	enum rlx_status st;
	uint32_t cap = 0;

	if (!rlx_program_graphs(p, &g, &passed.n, &cap))
		st = no_memory(err);
	else
		st = with_outputs(p->g, &g[0], err);
	if (!st) {
		passed.g = g;
		st = rlx_program_of(&passed, &o, &all, err);
		rlx_graph_put(g[0]);
	}
	if (!st)
		st = rlx_session_new(all, NULL, &a->s, err);
	rlx_program_put(all);
	rlx_free(g);
	return st;
}

static enum rlx_status told(struct rlx_session *s, enum rlx_status st, struct rlx_error *err)
{
	return st ? rlx_fail(err, st, "inspect: %s", rlx_session_error(s)->text) : RLX_OK;
}

/* Inputs and params are read where they are. */
static enum rlx_status share(struct rlx_inspection *a, struct rlx_session *s, enum rlx_io io,
			     struct rlx_error *err)
{
	unsigned int n = rlx_program_io_count(a->of, io), i;
	enum rlx_status st = RLX_OK;

	for (i = 0; i < n && !st; i++) {
		struct rlx_buf b = rlx_session_bound_at(s, io, i);

		if (!rlx_buf_ptr(b) && rlx_type_bytes(rlx_program_io_type(a->of, io, i)))
			return rlx_fail(err, RLX_EINVAL, "inspect: '%s' has no value",
					rlx_program_io_name(a->of, io, i));
		st = told(a->s, rlx_session_bind_at(a->s, io, i, b), err);
	}
	return st;
}

/* States are copied: the run replaces them. */
static enum rlx_status copy_states(struct rlx_inspection *a, struct rlx_session *s,
				   struct rlx_error *err)
{
	unsigned int n = rlx_program_io_count(a->of, RLX_IO_STATE), i;
	enum rlx_status st = RLX_OK;

	a->state = rlx_calloc((size_t)n + 1, sizeof(*a->state));
	if (!a->state)
		return no_memory(err);
	a->n_state = n;
	for (i = 0; i < n && !st; i++) {
		struct rlx_type t = *rlx_program_io_type(a->of, RLX_IO_STATE, i);

		a->state[i] = rlx_malloc((size_t)rlx_type_bytes(&t) + 1);
		if (!a->state[i])
			return no_memory(err);
		st = told(s, rlx_session_get_at(s, RLX_IO_STATE, i, t, a->state[i]), err);
		if (!st)
			st = told(a->s, rlx_session_set_at(a->s, RLX_IO_STATE, i, t, a->state[i]),
				  err);
	}
	return st;
}

/* ---- what the values are ---- */

struct rlx_inspected rlx_inspected_of(const struct rlx_graph *g, uint32_t id)
{
	const struct rlx_node *n = rlx_node_of(g, id);

	return (struct rlx_inspected){
		.id = id, .op = n->def->name, .file = n->file, .line = n->line,
		.type = g->val[id].type, .count = rlx_type_count(&g->val[id].type),
		.first_nan = -1, .first_inf = -1, .n_in = n->n_in,
	};
}

void rlx_inspected_look(struct rlx_inspected *v)
{
	struct rlx_tensor t = { v->type, (void *)(uintptr_t)v->data };
	bool is_complex = t.type.dtype == RLX_C64, any = false;
	const float *part = v->data;
	int64_t i;

	for (i = 0; v->data && i < v->count; i++) {
		double x = el_get(&t, i), y = is_complex ? (double)part[2 * i + 1] : 0;

		v->nonzero += x != 0 || y != 0;
		if (isnan(x) || isnan(y))
			v->first_nan = v->nan++ ? v->first_nan : i;
		else if (isinf(x) || isinf(y))
			v->first_inf = v->inf++ ? v->first_inf : i;
		if (!isfinite(x) || !isfinite(y))
			continue;
		v->min = !any || x < v->min ? x : v->min;
		v->max = !any || x > v->max ? x : v->max;
		any = true;
	}
	v->absmax = fmax(fabs(v->min), fabs(v->max));
}

static void see_leaves(struct rlx_inspection *a, enum rlx_io io)
{
	unsigned int n = rlx_program_io_count(a->of, io), i;

	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(a->of, io, i);
		struct rlx_inspected *v = &a->v[rlx_graph_io_find(a->of->g, io, name).id];

		v->name = name;
		v->data = io == RLX_IO_STATE ? a->state[i] :
			  rlx_buf_ptr(rlx_session_bound_at(a->s, io, i));
	}
}

static const void *constant_data(const struct rlx_node *n)
{
	const struct rlx_op_constant *c = n->args;

	return c->data->absent ? NULL : rlx_blob_data(c->data);
}

static enum rlx_status describe(struct rlx_inspection *a, struct rlx_error *err)
{
	const struct rlx_graph *g = a->of->g;
	const struct rlx_inspected **in;
	unsigned int out = 0;
	size_t n_in = 1;
	uint32_t i, k;

	for (i = 1; i < g->n_val; i++)
		n_in += rlx_node_of(g, i)->n_in;
	a->n = g->n_val;
	a->v = rlx_calloc(a->n, sizeof(*a->v));
	a->in = in = rlx_calloc(n_in, sizeof(*in));
	if (!a->v || !in)
		return no_memory(err);
	for (i = 1; i < g->n_val; i++) {
		const struct rlx_node *n = rlx_node_of(g, i);

		a->v[i] = rlx_inspected_of(g, i);
		a->v[i].in = in;
		for (k = 0; k < n->n_in; k++)
			*in++ = n->in[k] ? &a->v[n->in[k]] : NULL;
		if (n->def->index == RLX_OP_constant)
			a->v[i].data = constant_data(n);
		else if (!is_leaf(n))
			a->v[i].data = rlx_buf_ptr(rlx_session_bound_at(a->s, RLX_IO_OUTPUT,
									out++));
	}
	see_leaves(a, RLX_IO_INPUT);
	see_leaves(a, RLX_IO_PARAM);
	see_leaves(a, RLX_IO_STATE);
	for (i = 1; i < g->n_val; i++)
		rlx_inspected_look(&a->v[i]);
	return RLX_OK;
}

enum rlx_status rlx_session_inspect(struct rlx_session *s, struct rlx_inspection **out,
				    struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_inspection *a;
	enum rlx_status st;

	err = err ? err : &own;
	if (!s || !out)
		return rlx_fail(err, RLX_EINVAL, "inspect: a session and a place are needed");
	*out = NULL;
	st = told(s, rlx_session_not_busy(s), err);
	if (st)
		return st;
	rlx_session_copy_views(s, RLX_IO_INPUT);	/* as before a run */
	a = rlx_calloc(1, sizeof(*a));
	if (!a)
		return no_memory(err);
	a->of = rlx_program_get(rlx_session_program(s));
	st = make_session(a, err);
	if (!st)
		st = share(a, s, RLX_IO_INPUT, err);
	if (!st)
		st = share(a, s, RLX_IO_PARAM, err);
	if (!st)
		st = copy_states(a, s, err);
	if (!st)
		st = told(a->s, rlx_session_run(a->s), err);
	if (!st)
		st = describe(a, err);
	if (st)
		rlx_inspection_free(a);
	else
		*out = a;
	return st;
}

void rlx_inspection_free(struct rlx_inspection *a)
{
	unsigned int i;

	if (!a)
		return;
	rlx_session_free(a->s);
	rlx_program_put(a->of);
	for (i = 0; i < a->n_state; i++)
		rlx_free(a->state[i]);
	rlx_free(a->state);
	rlx_free(a->v);
	rlx_free(a->in);
	rlx_bump_fini(&a->bump);
	rlx_free(a);
}

const struct rlx_inspected *rlx_inspection_at(const struct rlx_inspection *a, unsigned int i)
{
	return a && i < a->n - 1 ? &a->v[i + 1] : NULL;
}

const struct rlx_inspected *rlx_inspection_first_bad(const struct rlx_inspection *a,
						     uint32_t flags)
{
	uint32_t i;

	for (i = 1; a && i < a->n; i++)
		if (rlx_inspected_is_bad(&a->v[i], flags))
			return &a->v[i];
	return NULL;
}
