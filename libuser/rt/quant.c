// SPDX-License-Identifier: MIT
/* Quantising after training: runs that note ranges, and the passes that use them. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "pass/quant.h"
#include "rlx/quant.h"

struct rlx_quant_ranges {
	uint64_t		 hash;	/* of the graph given */
	struct rlx_graph	*g;	/* that graph, simplified */
	struct rlx_quant_range	*range;	/* per value of @g */
};

/* What is observed: values of r->g, each an output of the graph that runs. */
struct watch {
	struct rlx_quant_ranges	*r;
	struct rlx_named	*e;
	uint32_t		 n;
	struct rlx_bump		 names;
	struct rlx_session	*s;
	struct rlx_error	*err;
};

void rlx_quant_ranges_free(struct rlx_quant_ranges *r)
{
	if (!r)
		return;
	rlx_graph_put(r->g);
	rlx_free(r->range);
	rlx_free(r);
}

static enum rlx_status no_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "calibrate: out of memory");
}

/* The values that GEMMs read. */
static enum rlx_status find_values(struct watch *w)
{
	const struct rlx_graph *g = w->r->g;
	struct rlx_quant_range *r = w->r->range;
	uint32_t i, most = 0;
	char name[24];

	for (i = 0; i < g->n_node; i++)
		most += rlx_quant_supports(g, &g->node[i]);
	w->e = rlx_calloc(most + 1ul, sizeof(*w->e));
	if (!w->e)
		return no_memory(w->err);
	for (i = 0; i < g->n_val; i++)
		r[i] = (struct rlx_quant_range){ 1, 0 };
	for (i = 0; i < g->n_node; i++) {
		const struct rlx_node *n = &g->node[i];

		if (!rlx_quant_supports(g, n) || r[n->in[0]].lo > 1)
			continue;
		r[n->in[0]] = (struct rlx_quant_range){ INFINITY, -INFINITY };
		snprintf(name, sizeof(name), "v%u", n->in[0]);
		w->e[w->n].v.id = n->in[0];
		w->e[w->n].name = rlx_bump_str(&w->names, name, strlen(name));
		if (!w->e[w->n++].name)
			return no_memory(w->err);
	}
	return RLX_OK;
}

/* A session that computes the watched values and nothing else. */
static enum rlx_status open_session(struct watch *w)
{
	const struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	/* seen with other outputs; only read, and gone before the graph is */
	struct rlx_graph view = *w->r->g;
	struct rlx_graph *g = NULL;
	struct rlx_program *p = NULL;
	struct rlx_rewrite rw;
	enum rlx_status st;
	uint32_t n;

	view.io[RLX_IO_OUTPUT] = (struct rlx_named_list){ w->e, w->n, w->n };
	st = rlx_rewrite_begin(&rw, &view, w->err);
	if (st)
		return st;
	for (n = 0; n < view.n_node; n++)
		if (rw.live[n])
			rlx_rewrite_copy(&rw, n);
	rw.changed = true;
	st = rlx_rewrite_end(&rw, &g);
	if (!st)
		st = rlx_compile(g, &o, &p, w->err);
	if (!st)
		st = rlx_session_new(p, NULL, &w->s, w->err);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

static bool given(const struct rlx_quant_set *set, const char *name)
{
	unsigned int i;

	for (i = 0; i < set->n; i++)
		if (set->tensor[i].name && !strcmp(set->tensor[i].name, name))
			return true;
	return false;
}

static enum rlx_status need_all(struct watch *w, const struct rlx_quant_set *set,
				unsigned int k, enum rlx_io io)
{
	const struct rlx_graph *g = w->r->g;
	unsigned int i;

	for (i = 0; i < rlx_graph_io_count(g, io); i++)
		if (!given(set, rlx_graph_io_name(g, io, i)))
			return rlx_fail(w->err, RLX_EINVAL,
					"calibrate: set %u has no tensor for '%s'", k,
					rlx_graph_io_name(g, io, i));
	return RLX_OK;
}

/* Give the session the tensors of set @k. */
static enum rlx_status feed(struct watch *w, const struct rlx_quant_set *set,
			    unsigned int k)
{
	enum rlx_status st = RLX_OK;
	unsigned int i;

	if (set->n && !set->tensor)
		return rlx_fail(w->err, RLX_EINVAL, "calibrate: set %u is NULL", k);
	st = need_all(w, set, k, RLX_IO_INPUT);
	if (!st && !k)
		st = need_all(w, set, k, RLX_IO_PARAM);
	for (i = 0; !st && i < set->n; i++) {
		const struct rlx_named_tensor *t = &set->tensor[i];
		const struct rlx_program *p = rlx_session_program(w->s);
		bool input;

		if (!t->name || !t->data)
			return rlx_fail(w->err, RLX_EINVAL,
					"calibrate: tensor %u of set %u has no %s", i, k,
					t->name ? "data" : "name");
		input = rlx_program_io_find(p, RLX_IO_INPUT, t->name) >= 0;
		st = rlx_session_set(w->s, input ? RLX_IO_INPUT : RLX_IO_PARAM, t->name,
				     t->type, t->data);
		if (st)
			rlx_fail(w->err, st, "calibrate: set %u: %s", k,
				 rlx_session_error(w->s)->text);
	}
	return st;
}

static enum rlx_status not_finite(struct watch *w, uint32_t v, unsigned int k)
{
	const struct rlx_node *n = rlx_node_of(w->r->g, v);
	bool leaf = n->def->index == RLX_OP_input || n->def->index == RLX_OP_param;

	return rlx_fail(w->err, RLX_EINVAL,
			"calibrate: set %u makes '%s' (%s:%u) infinite or not a number", k,
			leaf ? ((const struct rlx_op_input *)n->args)->name : n->def->name,
			n->file ? n->file : "", n->line);
}

static enum rlx_status observe(struct watch *w, unsigned int k)
{
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		uint32_t v = w->e[i].v.id;
		struct rlx_quant_range *r = &w->r->range[v];
		struct rlx_buf b = rlx_session_buf(w->s, RLX_IO_OUTPUT, w->e[i].name);
		int64_t n = rlx_type_count(&w->r->g->val[v].type), j;
		const float *x = rlx_buf_ptr(b);

		if (n && !x)
			return no_memory(w->err);
		for (j = 0; j < n; j++) {
			if (!isfinite(x[j]))
				return not_finite(w, v, k);
			r->lo = fminf(r->lo, x[j]);
			r->hi = fmaxf(r->hi, x[j]);
		}
	}
	return RLX_OK;
}

static enum rlx_status run_sets(struct watch *w, const struct rlx_quant_set *sets,
				unsigned int n)
{
	enum rlx_status st = open_session(w);
	unsigned int k;

	for (k = 0; !st && k < n; k++) {
		st = feed(w, &sets[k], k);
		if (!st) {
			st = rlx_session_run(w->s);
			if (st)
				rlx_fail(w->err, st, "calibrate: set %u: %s", k,
					 rlx_session_error(w->s)->text);
		}
		if (!st)
			st = observe(w, k);
	}
	return st;
}

enum rlx_status rlx_quant_calibrate(struct rlx_graph *g, const struct rlx_quant_set *sets,
				    unsigned int n, struct rlx_quant_ranges **out,
				    struct rlx_error *err)
{
	struct watch w = { .err = err };
	enum rlx_status st;

	if (!g || !g->finished || !sets || !n || !out)
		return rlx_fail(err, RLX_EINVAL,
				"calibrate: a finished graph, sets of inputs and "
				"a place for the result are needed");
	st = rlx_graph_is_bound(g, "calibrate", err);
	if (st)
		return st;
	w.r = rlx_calloc(1, sizeof(*w.r));
	if (!w.r)
		return no_memory(err);
	w.r->hash = rlx_graph_hash(g);
	st = w.r->hash ? rlx_quant_simplify(g, &w.r->g, err) : no_memory(err);
	if (st)
		goto out_free;
	w.r->range = rlx_calloc(w.r->g->n_val, sizeof(*w.r->range));
	st = w.r->range ? find_values(&w) : no_memory(err);
	if (!st && w.n)
		st = run_sets(&w, sets, n);
	if (!st) {
		*out = w.r;
		w.r = NULL;
	}
out_free:
	rlx_session_free(w.s);
	rlx_bump_fini(&w.names);
	rlx_free(w.e);
	rlx_quant_ranges_free(w.r);
	return st;
}

/* What @opts ask for; unknown names are refused, so that none is misspelt. */
static enum rlx_status take_opts(const struct rlx_quant_opts *opts,
				 struct rlx_quant_scheme *s, struct rlx_error *err)
{
	struct rlx_quant_opts o = { 0 };
	unsigned int i;

	if (opts && !opts->size)
		return rlx_fail(err, RLX_EINVAL,
				"quantize: set opts.size to sizeof(struct rlx_quant_opts)");
	if (opts)
		memcpy(&o, opts, opts->size < sizeof(o) ? opts->size : sizeof(o));
	if (o.n_skip && !o.skip)
		return rlx_fail(err, RLX_EINVAL, "quantize: opts.skip is NULL");
	for (i = 0; i < o.n_skip; i++) {
		const char *name = o.skip[i] ? o.skip[i] : "";

		if (!strcmp(name, "matmul"))
			s->matmul = false;
		else if (!strcmp(name, "conv"))
			s->conv = false;
		else
			return rlx_fail(err, RLX_ENOENT,
					"quantize: '%s' is neither matmul nor conv", name);
	}
	s->symmetric = o.symmetric;
	s->per_tensor = o.per_tensor;
	return RLX_OK;
}

enum rlx_status rlx_graph_quantize(const struct rlx_graph *g,
				   const struct rlx_quant_ranges *r,
				   const struct rlx_quant_opts *opts,
				   struct rlx_graph **out, struct rlx_error *err)
{
	struct rlx_quant_scheme s = { .matmul = true, .conv = true };
	struct rlx_graph *inserted = NULL;
	enum rlx_status st;
	uint64_t hash;

	if (!g || !g->finished || !r || !out)
		return rlx_fail(err, RLX_EINVAL,
				"quantize: a finished graph, its ranges and a place "
				"for the result are needed");
	st = rlx_graph_is_bound(g, "quantize", err);
	if (!st)
		st = take_opts(opts, &s, err);
	if (st)
		return st;
	hash = rlx_graph_hash(g);	/* 0: out of memory */
	if (!hash)
		return rlx_fail(err, RLX_ENOMEM, "quantize: out of memory");
	if (hash != r->hash)
		return rlx_fail(err, RLX_EINVAL,
				"quantize: the ranges are of another graph; calibrate this one");
	s.range = r->range;
	st = rlx_quant_insert(r->g, &s, &inserted, err);
	if (st)
		return st;
	st = rlx_quant_propagate(inserted, out, err);
	rlx_graph_put(inserted);
	return st;
}
