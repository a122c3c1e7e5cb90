// SPDX-License-Identifier: MIT
/*
 * Horizontal fusion: what a concat joins of equal chains (regions, or single pointwise ops) over
 * different inputs becomes one region of joined inputs, if the target has it. Chains are equal if
 * they are but for sizes along the concat's axis; runs of neighbours are taken, so that others may
 * lie between them. An input that is the same in all and does not lie along the axis is shared.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/shape.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_horizontal;

enum { MAX_INPUTS = 14 };	/* of a chain */

/* @n inputs of a concat from @at on. */
struct run {
	struct run		*next;		/* of the same concat, further on */
	uint32_t		 at, n;
	struct rlx_graph	*body;
	uint32_t		*in, n_in;	/* values of the old graph */
};

struct joiner {
	struct rlx_pass_ctx	*c;
	const struct rlx_graph	*g;
	struct rlx_rewrite	*rw;
	struct rlx_bump		 bump;
	struct run		**run;		/* per node: the first */
	bool			*skip;		/* per node: part of a run */
	unsigned int		 count;
};

/* Are they equal but for the dimension that is @back from the end? */
static bool same_but_along(const struct rlx_type *a, const struct rlx_type *b, uint32_t back)
{
	uint32_t i;

	if (a->dtype != b->dtype || a->rank != b->rank)
		return false;
	for (i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i] && a->rank - i != back)
			return false;
	return true;
}

static bool nodes_alike(const struct rlx_graph *a, const struct rlx_node *x,
			const struct rlx_graph *b, const struct rlx_node *y, uint32_t back)
{
	return x->def == y->def && x->n_in == y->n_in && x->out == y->out &&
	       !memcmp(x->in, y->in, x->n_in * sizeof(*x->in)) &&
	       (x->def->index == RLX_OP_input || rlx_args_equal(x->def, x->args, y->args)) &&
	       same_but_along(&a->val[x->out].type, &b->val[y->out].type, back);
}

/* What reads an input by a view has sizes in its nodes, as has all that is not pointwise. */
static bool bodies_alike(const struct rlx_graph *a, const struct rlx_graph *b, uint32_t back)
{
	uint32_t n;

	if (a->n_node != b->n_node || a->io[RLX_IO_OUTPUT].n != 1 || b->io[RLX_IO_OUTPUT].n != 1 ||
	    a->io[RLX_IO_OUTPUT].e[0].v.id != b->io[RLX_IO_OUTPUT].e[0].v.id)
		return false;
	for (n = 0; n < a->n_node; n++)
		if (!(a->node[n].def->traits & (RLX_T_LEAF | RLX_T_ELEMENTWISE)) ||
		    !nodes_alike(a, &a->node[n], b, &b->node[n], back))
			return false;
	return true;
}

static const struct rlx_graph *body_of(const struct rlx_node *n)
{
	const struct rlx_op_region *a = n->args;

	return n->def->index == RLX_OP_region ? a->body : NULL;
}

/* Does the concat alone want value @v, which a chain makes? */
static bool is_chain(const struct joiner *j, uint32_t v)
{
	const struct rlx_node *n = rlx_node_of(j->g, v);

	return j->rw->uses[v] == 1 && n->n_out == 1 && n->n_in && n->n_in <= MAX_INPUTS &&
	       (body_of(n) || (n->def->traits & RLX_T_ELEMENTWISE && n->n_in <= 3 &&
			       n->def->index != RLX_OP_cast));
}

static bool chains_alike(const struct joiner *j, uint32_t v, uint32_t w, uint32_t back)
{
	const struct rlx_node *x = rlx_node_of(j->g, v), *y = rlx_node_of(j->g, w);
	uint32_t k;

	if (x->def != y->def || x->n_in != y->n_in)
		return false;
	for (k = 0; k < x->n_in; k++)
		if (!same_but_along(&j->g->val[x->in[k]].type, &j->g->val[y->in[k]].type, back))
			return false;
	return body_of(x) ? bodies_alike(body_of(x), body_of(y), back) :
			    rlx_args_equal(x->def, x->args, y->args);
}

/* Elements along the axis; 1 where there is no such axis. */
static int64_t along(const struct rlx_type *t, uint32_t back)
{
	return t->rank < back ? 1 : t->dim[t->rank - back];
}

/* Is input @k of the run's chains the same in all, and not along the axis? */
static bool is_shared(const struct joiner *j, const uint32_t *v, uint32_t n, uint32_t k,
		      uint32_t back)
{
	uint32_t x = rlx_node_of(j->g, v[0])->in[k], i;

	for (i = 1; i < n; i++)
		if (rlx_node_of(j->g, v[i])->in[k] != x)
			return false;
	return along(&j->g->val[x].type, back) == 1;
}

/* Is input @k of some chain shorter than that? All are repeated then. */
static bool is_repeated(const struct joiner *j, const uint32_t *v, uint32_t n, uint32_t k,
			uint32_t back)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct rlx_type *t = &j->g->val[rlx_node_of(j->g, v[i])->in[k]].type;

		if (t->rank < back || along(t, back) != along(&j->g->val[v[i]].type, back))
			return true;
	}
	return false;
}

static rlx_value new_input(struct joiner *j, struct run *r, uint32_t old)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", r->n_in);
	r->in[r->n_in++] = old;
	return rlx_input(r->body, name, j->g->val[old].type);
}

/* Input @k of the chains @v in the body: the shared one, or what all of them are joined to. */
static rlx_value joined_input(struct joiner *j, struct run *r, const uint32_t *v, uint32_t k,
			      uint32_t back)
{
	bool repeated = is_repeated(j, v, r->n, k, back);
	rlx_value *xs;
	uint32_t i;

	if (is_shared(j, v, r->n, k, back))
		return new_input(j, r, rlx_node_of(j->g, v[0])->in[k]);
	xs = rlx_bump_new(&j->bump, r->n, sizeof(*xs));
	for (i = 0; xs && i < r->n; i++)
		xs[i] = new_input(j, r, rlx_node_of(j->g, v[i])->in[k]);
	for (i = 0; xs && repeated && i < r->n; i++) {
		struct rlx_type t = j->g->val[rlx_node_of(j->g, v[i])->in[k]].type;
		struct rlx_type y = { .rank = t.rank < back ? back : t.rank };

		memcpy(y.dim + y.rank - t.rank, t.dim, t.rank * sizeof(t.dim[0]));
		while (y.rank > t.rank)
			y.dim[y.rank - ++t.rank] = 1;
		y.dim[y.rank - back] = along(&j->g->val[v[i]].type, back);
		xs[i] = rlx_emit(r->body, expand, .x = xs[i], .shape = { y.dim, y.rank });
	}
	return rlx_emit(r->body, concat, .xs = { xs, xs ? r->n : 0 }, .axis = -(int32_t)back);
}

/* The chain of node @n over @in. */
static rlx_value copy_chain(struct rlx_graph *b, const struct rlx_node *n, const uint32_t *in)
{
	const struct rlx_graph *old = body_of(n);
	uint32_t k, i, x[3], *map;

	if (!old)
		return rlx_node_new(b, n->def, n->args, in, n->n_in, n);
	map = rlx_bump_new(&b->bump, old->n_val, sizeof(*map));
	for (k = 0; map && k < n->n_in; k++)
		map[old->io[RLX_IO_INPUT].e[k].v.id] = in[k];
	for (i = 0; map && i < old->n_node && !b->err.status; i++) {
		const struct rlx_node *m = &old->node[i];

		if (m->def->index == RLX_OP_input)
			continue;
		for (k = 0; k < m->n_in; k++)
			x[k] = map[m->in[k]];
		map[m->out] = rlx_node_new(b, m->def, m->args, x, m->n_in, m).id;
	}
	return (rlx_value){ map ? map[old->io[RLX_IO_OUTPUT].e[0].v.id] : 0 };
}

static bool is_native(struct joiner *j, const struct run *r)
{
	const struct rlx_device *dev = j->c->target.dev;
	const struct rlx_op_region a = { .body = r->body };
	struct rlx_error quiet = { 0 };
	const struct rlx_type **in = rlx_bump_new(&j->bump, r->n_in, sizeof(*in));
	struct rlx_infer q = { .err = &quiet, .def = rlx_op_region.def, .args = &a,
			       .n_in = r->n_in, .in = in };
	uint32_t i;
	bool is;

	for (i = 0; in && i < r->n_in; i++)
		in[i] = &j->g->val[r->in[i]].type;
	is = in && !rlx_op_infer(&q) && (!dev || dev->be->supports(dev, &q, &quiet));
	j->c->no_memory = j->c->no_memory || quiet.status == RLX_ENOMEM;
	return is;
}

/*
 * Inputs [@at, @at + @n) of @concat, whose axis is @back from the end, as one; NULL: not so, or
 * the chains share every input: they make the same then, and nothing is joined.
 */
static struct run *new_run(struct joiner *j, const struct rlx_node *concat, uint32_t at,
			   uint32_t n, uint32_t back)
{
	const uint32_t *v = concat->in + at;
	const struct rlx_node *first = rlx_node_of(j->g, v[0]);
	struct run *r = rlx_bump_new(&j->bump, 1, sizeof(*r));
	uint32_t in[MAX_INPUTS], k;

	if (!r)
		return NULL;
	*r = (struct run){ .at = at, .n = n, .body = rlx_graph_new("region"),
			   .in = rlx_bump_new(&j->bump, (size_t)n * first->n_in, sizeof(*r->in)) };
	for (k = 0; r->in && r->body && k < first->n_in && !r->body->err.status; k++)
		in[k] = joined_input(j, r, v, k, back).id;
	if (r->in && r->body && !r->body->err.status && r->n_in > first->n_in) {
		rlx_output(r->body, "y", copy_chain(r->body, first, in));
		if (!rlx_graph_finish(r->body) && is_native(j, r))
			return r;
	}
	rlx_graph_put(r->body);
	return NULL;
}

/*
 * Inputs of chain @v, as bits, are added to those that lie along the axis and those that repeat
 * along it. No input of a run may do both: of a length of 1 it does neither.
 */
static bool lies_alike(const struct joiner *j, uint32_t v, uint32_t back, uint32_t *lie,
		       uint32_t *repeat)
{
	const struct rlx_node *n = rlx_node_of(j->g, v);
	int64_t length = along(&j->g->val[v].type, back);
	uint32_t k;

	for (k = 0; k < n->n_in; k++) {
		int64_t l = along(&j->g->val[n->in[k]].type, back);

		*lie |= (uint32_t)(l != 1) << k;
		*repeat |= (uint32_t)(l != length) << k;
	}
	return !(*lie & *repeat);
}

static void find_runs(struct joiner *j, uint32_t n)
{
	const struct rlx_node *node = &j->g->node[n];
	uint32_t rank = j->g->val[node->out].type.rank, at, end, i, back, lie, repeat;
	struct run **last = &j->run[n];

	back = rank - shape_axis(((const struct rlx_op_concat *)node->args)->axis, rank);
	for (at = 0; at < node->n_in; at = end) {
		end = at + 1;
		if (!is_chain(j, node->in[at]))
			continue;
		lie = repeat = 0;
		lies_alike(j, node->in[at], back, &lie, &repeat);
		while (end < node->n_in && is_chain(j, node->in[end]) &&
		       chains_alike(j, node->in[at], node->in[end], back) &&
		       lies_alike(j, node->in[end], back, &lie, &repeat))
			end++;
		*last = end > at + 1 ? new_run(j, node, at, end - at, back) : NULL;
		if (!*last)
			continue;
		last = &(*last)->next;
		for (i = at; i < end; i++)
			j->skip[j->g->val[node->in[i]].node] = true;
		j->count++;
	}
}

static rlx_value emit_run(struct joiner *j, const struct run *r, const struct rlx_node *concat)
{
	struct rlx_op_region a = { .body = r->body };
	uint32_t i;

	for (i = 0; i < r->n_in; i++)
		r->in[i] = j->rw->map[r->in[i]];
	return rlx_node_new(j->rw->g, rlx_op_region.def, &a, r->in, r->n_in, concat);
}

/* A concat of what is left, with its runs as one value each; or the only one itself. */
static void emit_concat(struct joiner *j, uint32_t n)
{
	const struct rlx_node *node = &j->g->node[n];
	const struct run *r = j->run[n];
	uint32_t *in = rlx_bump_new(&j->bump, node->n_in, sizeof(*in)), k = 0, i = 0;
	rlx_value v;

	if (!in) {
		rlx_fail(&j->rw->g->err, RLX_ENOMEM, "horizontal fusion: out of memory");
		return;
	}
	while (i < node->n_in) {
		bool here = r && r->at == i;

		in[k++] = here ? emit_run(j, r, node).id : rlx_rewrite_value(j->rw, node->in[i]).id;
		i += here ? r->n : 1;
		r = here ? r->next : r;
	}
	v.id = in[0];
	if (k > 1)
		v = rlx_node_new(j->rw->g, node->def, node->args, in, k, node);
	rlx_rewrite_set(j->rw, node->out, v);
}

static void join(struct joiner *j)
{
	const struct rlx_graph *g = j->g;
	const struct run *r;
	uint32_t n;

	for (n = 0; n < g->n_node; n++)
		if (j->rw->live[n] && g->node[n].def->index == RLX_OP_concat)
			find_runs(j, n);
	for (n = 0; n < g->n_node && !j->rw->g->err.status; n++) {
		if (!rlx_rewrite_live(j->rw, n) || j->skip[n])
			continue;
		if (j->run[n])
			emit_concat(j, n);
		else
			rlx_rewrite_copy(j->rw, n);
	}
	for (n = 0; n < g->n_node; n++)
		for (r = j->run[n]; r; r = r->next)
			rlx_graph_put(r->body);
}

enum rlx_status rlx_pass_horizontal(struct rlx_pass_ctx *c, struct rlx_graph *g,
				    struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	struct joiner j = { .c = c, .g = g, .rw = &rw };
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);

	if (st)
		return st;
	j.run = rlx_calloc(g->n_node + 1, sizeof(struct run *));
	j.skip = rlx_calloc(g->n_node + 1, sizeof(*j.skip));
	if (j.run && j.skip)
		join(&j);
	else
		rlx_fail(&rw.g->err, RLX_ENOMEM, "horizontal fusion: out of memory");
	st = rlx_rewrite_end(&rw, out);
	if (!st && c->report && j.count)
		fprintf(c->report, "fused %u runs of equal chains horizontally\n", j.count);
	rlx_free(j.run);
	rlx_free(j.skip);
	rlx_bump_fini(&j.bump);
	return st;
}
