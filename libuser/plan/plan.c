// SPDX-License-Identifier: MIT
/* From a graph to steps and places: liveness, views, in-place use, outputs. */
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "plan/early.h"
#include "plan/plan.h"

/*
 * What is worked out per node before places are given; @late: updates of states; @on_run: what a
 * run brings decides, and not params and constants alone.
 */
struct planner {
	struct rlx_plan		*p;
	const struct rlx_graph	*g;
	bool			*node_live, *late, *on_run;
	struct rlx_error	*err;
};

static void mark_live(struct planner *pl)
{
	const struct rlx_graph *g = pl->g;
	uint32_t n, i;

	for (i = 0; i < g->io[RLX_IO_OUTPUT].n; i++)
		pl->node_live[g->val[g->io[RLX_IO_OUTPUT].e[i].v.id].node] = true;
	for (n = g->n_node; n-- > 0;)
		for (i = 0; pl->node_live[n] && i < g->node[n].n_in; i++)
			if (g->node[n].in[i])
				pl->node_live[g->val[g->node[n].in[i]].node] = true;
}

static void name_io(struct planner *pl, enum rlx_io io)
{
	const struct rlx_named_list *l = &pl->g->io[io];
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		pl->p->io[io][i] = (struct rlx_plan_io){
			.name = l->e[i].name, .val = l->e[i].v.id,
			.state = l->e[i].state,
			.donated = io == RLX_IO_OUTPUT ? l->e[i].state : 0 };
		if (io != RLX_IO_OUTPUT)
			pl->p->val[l->e[i].v.id].place = (struct rlx_place){
				.kind = io == RLX_IO_INPUT ? RLX_PLACE_INPUT
							   : RLX_PLACE_PARAM,
				.index = i,
			};
	}
}

static uint32_t root_of(const struct rlx_plan *p, uint32_t v)
{
	while (p->val[v].root != v)
		v = p->val[v].root;
	return v;
}

/* The node that makes the storage of @v: behind its views. */
static uint32_t maker(const struct rlx_graph *g, uint32_t v)
{
	while (rlx_node_of(g, v)->def->traits & RLX_T_VIEW)
		v = rlx_node_of(g, v)->in[0];
	return g->val[v].node;
}

/*
 * What makes a state's next value, and what depends on that, comes after all else: others
 * then have read what the state held, and a run that fails before leaves it alone.
 */
static void mark_late(struct planner *pl)
{
	const struct rlx_graph *g = pl->g;
	const struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	uint32_t n, i;

	for (i = 0; i < l->n; i++)
		if (l->e[i].state)
			pl->late[maker(g, l->e[i].v.id)] = true;
	for (n = 0; n < g->n_node; n++) {
		if (g->node[n].def->traits & RLX_T_LEAF)
			pl->late[n] = false;
		for (i = 0; i < g->node[n].n_in; i++)
			if (g->node[n].in[i] && pl->late[g->val[g->node[n].in[i]].node])
				pl->late[n] = true;
	}
}

static bool is_on_run(const struct planner *pl, const struct rlx_node *n)
{
	uint32_t i;

	if (n->def->traits & RLX_T_LEAF)
		return n->def->index != RLX_OP_param && n->def->index != RLX_OP_constant;
	/* regions are pointwise, calls have been inlined; other bodies capture what they like */
	if (!n->n_in || n->def->traits & RLX_T_IMPURE ||
	    (n->def->traits & (RLX_T_SUBGRAPH | RLX_T_FUSED)) == RLX_T_SUBGRAPH)
		return true;
	for (i = 0; i < n->n_in; i++)
		if (n->in[i] && pl->on_run[pl->g->val[n->in[i]].node])
			return true;
	return !(n->def->traits & RLX_T_VIEW) && rlx_node_grows(pl->g, n);
}

/* Outputs are made by every run, as others may write there. */
static void mark_once(struct planner *pl)
{
	const struct rlx_graph *g = pl->g;
	const struct rlx_named_list *l = &g->io[RLX_IO_OUTPUT];
	bool *is_output = rlx_calloc(g->n_node + 1, sizeof(*is_output));
	uint32_t n, i;

	if (!is_output) {
		rlx_fail(pl->err, RLX_ENOMEM, "plan: out of memory");
		return;
	}
	for (i = 0; i < l->n; i++)
		is_output[maker(g, l->e[i].v.id)] = true;
	for (n = 0; n < g->n_node; n++) {
		pl->on_run[n] = is_on_run(pl, &g->node[n]) ||
				(is_output[n] && !(g->node[n].def->traits & RLX_T_LEAF));
	}
	rlx_free(is_output);
}

static bool add_step(struct planner *pl, uint32_t n)
{
	const struct rlx_node *v = &pl->g->node[n];
	struct rlx_plan *p = pl->p;
	uint32_t *out = rlx_bump_new(&p->bump, v->n_out, sizeof(*out)), i;

	if (!out) {
		rlx_fail(pl->err, RLX_ENOMEM, "plan: out of memory");
		return false;
	}
	for (i = 0; i < v->n_out; i++)
		out[i] = v->out + i;
	p->step[p->n_step++] = (struct rlx_plan_step){
		.def = v->def, .args = v->args, .in = v->in, .out = out,
		.n_in = v->n_in, .n_out = v->n_out, .node = n,
		.once = !pl->on_run[n],
		.file = v->file, .line = v->line,
	};
	return true;
}

/* Count node @n's reads of states, behind their views, by @by in @reads, which is by value. */
static void count_reads(const struct planner *pl, uint32_t n, uint32_t *reads, int by)
{
	const struct rlx_node *v = &pl->g->node[n];
	uint32_t i, leaf;

	for (i = 0; !(v->def->traits & RLX_T_VIEW) && i < v->n_in; i++) {
		leaf = v->in[i] ? maker(pl->g, v->in[i]) : 0;
		if (v->in[i] && pl->g->node[leaf].def->traits & RLX_T_LEAF)
			reads[pl->g->node[leaf].out] += (uint32_t)by;
	}
}

/* Is all there that late node @n reads? */
static bool has_inputs(const struct planner *pl, uint32_t n)
{
	const struct rlx_node *v = &pl->g->node[n];
	uint32_t i;

	for (i = 0; i < v->n_in; i++)
		if (v->in[i] && pl->late[pl->g->val[v->in[i]].node])
			return false;
	return true;
}

/*
 * What late nodes wait for. @reads: of a value, by late nodes; @update: of a node, 1 + the first
 * output that is the next value of a state and of its making, @next: 1 + the one behind that.
 */
struct late {
	uint32_t	*reads, *update, *next;
};

/* Is nothing left, but it, that reads a state that it replaces? */
static bool may_replace(const struct planner *pl, uint32_t n, const struct late *late)
{
	const struct rlx_named_list *l = &pl->g->io[RLX_IO_OUTPUT];
	uint32_t i, k, others = 0;

	count_reads(pl, n, late->reads, -1);	/* its own are no obstacle */
	for (i = late->update[n]; i && !others; i = late->next[i - 1]) {
		k = pl->g->io[RLX_IO_INPUT].e[l->e[i - 1].state - 1].v.id;
		others = late->reads[k];
	}
	count_reads(pl, n, late->reads, 1);
	return !others;
}

/* Emit late node @n: it is late no more. */
static void emit_late(struct planner *pl, uint32_t n, const struct late *late)
{
	add_step(pl, n);
	count_reads(pl, n, late->reads, -1);
	pl->late[n] = false;
}

/* False: out of memory. */
static bool find_late(const struct planner *pl, struct late *late)
{
	const struct rlx_named_list *l = &pl->g->io[RLX_IO_OUTPUT];
	uint32_t n, i;

	late->reads = rlx_calloc(pl->g->n_val, sizeof(*late->reads));
	late->update = rlx_calloc((size_t)pl->g->n_node + 1, sizeof(*late->update));
	late->next = rlx_calloc((size_t)l->n + 1, sizeof(*late->next));
	if (!late->reads || !late->update || !late->next)
		return false;
	for (n = 0; n < pl->g->n_node; n++)
		if (pl->late[n])
			count_reads(pl, n, late->reads, 1);
	for (i = l->n; i-- > 0;) {
		if (!l->e[i].state)
			continue;
		n = maker(pl->g, l->e[i].v.id);
		late->next[i] = late->update[n];
		late->update[n] = i + 1;
	}
	return true;
}

/*
 * Updates of states, each when nothing is left that reads what it replaces. Of some that wait
 * for each other the first goes, and its state is copied to.
 */
static void list_late(struct planner *pl)
{
	const struct rlx_graph *g = pl->g;
	struct late late = { 0 };
	uint32_t n, first;
	bool moved;

	if (!find_late(pl, &late)) {
		rlx_fail(pl->err, RLX_ENOMEM, "plan: out of memory");
		goto out_free;
	}
	do {
		for (n = 0, moved = false, first = g->n_node; n < g->n_node; n++) {
			if (!pl->late[n] || !has_inputs(pl, n))
				continue;
			if (may_replace(pl, n, &late)) {
				emit_late(pl, n, &late);
				moved = true;
			} else if (first == g->n_node) {
				first = n;
			}
		}
		if (!moved && first < g->n_node)
			emit_late(pl, first, &late);
	} while ((moved || first < g->n_node) && !pl->err->status);
out_free:
	rlx_free(late.reads);
	rlx_free(late.update);
	rlx_free(late.next);
}

/* Append a step that copies @from to a new value, whose place is given; 0: no memory. */
static uint32_t add_copy(struct planner *pl, uint32_t from, struct rlx_place place)
{
	struct rlx_plan *p = pl->p;
	uint32_t *ids = rlx_bump_new(&p->bump, 2, sizeof(*ids)), copy = p->n_val;
	uint32_t root = root_of(p, from);

	if (!ids) {
		rlx_fail(pl->err, RLX_ENOMEM, "plan: out of memory");
		return 0;
	}
	ids[0] = from;
	ids[1] = copy;
	p->val[p->n_val++] = (struct rlx_plan_val){
		.type = p->val[from].type, .first = p->n_step, .last = p->n_step,
		.root = copy, .place = place,
	};
	if (p->val[root].last < p->n_step)
		p->val[root].last = p->n_step;
	p->step[p->n_step++] = (struct rlx_plan_step){
		.in = ids, .out = ids + 1, .n_in = 1, .n_out = 1,
	};
	return copy;
}

/* Outputs that are states as they were: copied before they are replaced. */
static void copy_old_states(struct planner *pl)
{
	struct rlx_plan *p = pl->p;
	struct rlx_plan_io *io = p->io[RLX_IO_OUTPUT];
	uint32_t i, copy;

	for (i = 0; i < p->n_io[RLX_IO_OUTPUT] && !pl->err->status; i++) {
		const struct rlx_node *n = &pl->g->node[maker(pl->g, io[i].val)];

		if (io[i].state || n->def->index != RLX_OP_input ||
		    !((const struct rlx_op_input *)n->args)->state)
			continue;
		copy = add_copy(pl, io[i].val, (struct rlx_place){ RLX_PLACE_OUTPUT, i, 0 });
		if (copy)
			io[i].val = copy;
	}
}

/* Steps in node order, sums over ranks early, updates of states last; leaves become places. */
static void list_steps(struct planner *pl)
{
	const struct rlx_graph *g = pl->g;
	struct rlx_early early;
	bool ok = rlx_early_find(&early, g, pl->node_live, pl->late);
	uint32_t n, k;

	if (!ok)
		rlx_fail(pl->err, RLX_ENOMEM, "plan: out of memory");
	for (n = 0; n < g->n_node && ok; n++) {
		if (!pl->node_live[n])
			pl->late[n] = false;
		else if (!(g->node[n].def->traits & RLX_T_LEAF) && !pl->late[n] &&
			 !(early.is && early.is[n]))
			ok = add_step(pl, n);
		for (k = early.is ? early.after[n] : 0; k && ok; k = early.next[k - 1])
			ok = add_step(pl, k - 1);
	}
	rlx_early_free(&early);
	if (!ok)
		return;
	if (pl->p->n_state)
		copy_old_states(pl);
	if (pl->p->n_state && !pl->err->status)
		list_late(pl);
}

static void list_constants(struct planner *pl)
{
	const struct rlx_graph *g = pl->g;
	struct rlx_plan *p = pl->p;
	uint32_t n;

	for (n = 0; n < g->n_node; n++) {
		const struct rlx_op_constant *a = g->node[n].args;

		if (!pl->node_live[n] || g->node[n].def->index != RLX_OP_constant)
			continue;
		p->val[g->node[n].out].place = (struct rlx_place){
			.kind = RLX_PLACE_CONST, .index = p->n_constant,
		};
		p->constant[p->n_constant++] = a->data;
	}
}

/* Last step that reads each value, following views to their root. */
static void find_lives(struct rlx_plan *p)
{
	uint32_t s, i;

	for (s = 0; s < p->n_step; s++) {
		struct rlx_plan_step *st = &p->step[s];

		for (i = 0; i < st->n_out; i++)
			p->val[st->out[i]].first = p->val[st->out[i]].last = s;
		for (i = 0; i < st->n_in; i++)
			if (st->in[i])
				p->val[st->in[i]].last = s;
	}
	/* outputs are read after the last step */
	for (i = 0; i < p->n_io[RLX_IO_OUTPUT]; i++)
		p->val[p->io[RLX_IO_OUTPUT][i].val].last = p->n_step;
}

static bool is_work(const struct rlx_plan *p, uint32_t v)
{
	return p->val[root_of(p, v)].place.kind == RLX_PLACE_NONE;
}

/* Is it made by a step that later runs may leave out? */
static bool is_once(const struct rlx_plan *p, uint32_t root)
{
	return p->n_step && p->step[p->val[root].first].once;
}

/* May step @st write output 0 over its input @k, whose root dies here? */
static bool may_overwrite(const struct rlx_plan *p, uint32_t s, uint32_t k)
{
	const struct rlx_plan_step *st = &p->step[s];
	uint32_t root, i;

	if (!st->in[k] || !is_work(p, st->in[k]) ||
	    !rlx_type_equal(&p->val[st->in[k]].type, &p->val[st->out[0]].type))
		return false;
	root = root_of(p, st->in[k]);
	if (p->val[root].last > s || is_once(p, root) ||
	    rlx_type_bytes(&p->val[root].type) != rlx_type_bytes(&p->val[st->in[k]].type))
		return false;
	for (i = 0; i < st->n_in; i++)
		if (i != k && st->in[i] && root_of(p, st->in[i]) == root)
			return false;
	return true;
}

static void share(struct rlx_plan *p, uint32_t v, uint32_t with)
{
	uint32_t root = root_of(p, with);

	p->val[v].root = root;
	if (p->val[v].last > p->val[root].last)
		p->val[root].last = p->val[v].last;
}

/*
 * In order: views join their input's storage, then in-place ops theirs. Where a state's next value
 * is stored is the state's place, and no other. False: out of memory.
 */
static bool find_aliases(struct rlx_plan *p)
{
	bool *next = rlx_calloc(p->n_val, sizeof(*next));
	uint32_t s, k, last_in;

	if (!next)
		return false;
	/* views first, so that a root's life covers all its views */
	for (s = 0; s < p->n_step; s++)
		if (p->step[s].def && p->step[s].def->traits & RLX_T_VIEW)
			share(p, p->step[s].out[0], p->step[s].in[0]);
	for (k = 0; k < p->n_io[RLX_IO_OUTPUT]; k++)	/* a root that joins no other's */
		if (p->io[RLX_IO_OUTPUT][k].state)
			next[root_of(p, p->io[RLX_IO_OUTPUT][k].val)] = true;
	for (s = 0; s < p->n_step; s++) {
		const struct rlx_op_def *def = p->step[s].def;

		if (!def || !(def->traits & RLX_T_INPLACE) || def->traits & RLX_T_VIEW ||
		    next[p->step[s].out[0]])
			continue;
		last_in = def->traits & RLX_T_ELEMENTWISE ? p->step[s].n_in : 1;
		for (k = 0; k < last_in && k < p->step[s].n_in; k++)
			if (may_overwrite(p, s, k)) {
				share(p, p->step[s].out[0], p->step[s].in[k]);
				break;
			}
	}
	rlx_free(next);
	return true;
}

/* What steps make and nobody else has a place for. */
static void list_work(struct rlx_plan *p)
{
	uint32_t s, i, v;

	for (s = 0; s < p->n_step; s++)
		for (i = 0; i < p->step[s].n_out; i++) {
			v = p->step[s].out[i];
			if (p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_NONE)
				p->val[v].place.kind = RLX_PLACE_WORK;
		}
}

/* Views need no step: their bytes are there already. Lives count the steps that stay. */
static enum rlx_status drop_views(struct rlx_plan *p, struct rlx_error *err)
{
	uint32_t *at = rlx_calloc((size_t)p->n_step + 1, sizeof(*at)), s, n = 0, v;

	if (!at)
		return rlx_fail(err, RLX_ENOMEM, "plan: out of memory");
	for (s = 0; s < p->n_step; s++) {
		at[s] = n;
		if (!p->step[s].def || !(p->step[s].def->traits & RLX_T_VIEW))
			p->step[n++] = p->step[s];
	}
	at[s] = n;
	p->n_step = n;
	for (v = 1; v < p->n_val; v++) {
		p->val[v].first = at[p->val[v].first];
		p->val[v].last = at[p->val[v].last];
	}
	rlx_free(at);
	return RLX_OK;
}

/* Has body @b, of several outputs, one that is an input's elements, as they are or cast? */
static bool passes_on(const struct rlx_graph *b)
{
	const struct rlx_node *n;
	uint32_t k;

	for (k = 0; k < b->io[RLX_IO_OUTPUT].n; k++) {
		n = rlx_node_of(b, b->io[RLX_IO_OUTPUT].e[k].v.id);
		while (n->def->index == RLX_OP_cast)
			n = rlx_node_of(b, n->in[0]);
		if (!(n->def->traits & RLX_T_ELEMENTWISE))
			return true;
	}
	return false;
}

/*
 * May step @s, which reads state @root, write its output @out over it? Pointwise ones compute
 * each element before they write any of that place, if they read it at that place. What they
 * pass on is not computed: outputs are written one after the other, and another may lie there.
 */
static bool may_update(const struct rlx_plan *p, uint32_t s, uint32_t root, uint32_t out)
{
	const struct rlx_plan_step *st = &p->step[s];
	uint32_t i;

	if (!st->def || (st->def->index != RLX_OP_region &&
			 !(st->def->traits & RLX_T_ELEMENTWISE)))
		return false;
	if (st->n_out > 1 && (st->def->index != RLX_OP_region ||
			      passes_on(((const struct rlx_op_region *)st->args)->body)))
		return false;
	for (i = 0; i < st->n_in; i++)
		if (st->in[i] && root_of(p, st->in[i]) == root &&
		    !rlx_type_equal(&p->val[st->in[i]].type, &p->val[out].type))
			return false;
	return true;
}

/* Does nothing read the state that output @o replaces once its next value is being written? */
static bool updates_in_place(const struct rlx_plan *p, const struct rlx_plan_io *o)
{
	uint32_t root = root_of(p, o->val);
	uint32_t state = root_of(p, p->io[RLX_IO_INPUT][o->donated - 1].val);
	uint32_t first = p->val[root].first;

	return p->val[root].place.kind == RLX_PLACE_NONE &&
	       rlx_plan_bytes(p, root) == rlx_plan_bytes(p, o->val) &&
	       (p->val[state].last < first ||
		(p->val[state].last == first && may_update(p, first, state, root)));
}

/* An output's storage is the caller's buffer if nobody else claims it, else copied at the end. */
static void place_output(struct planner *pl, uint32_t i)
{
	struct rlx_plan *p = pl->p;
	struct rlx_plan_io *o = &p->io[RLX_IO_OUTPUT][i];
	struct rlx_place place = { .kind = RLX_PLACE_OUTPUT, .index = i };
	uint32_t root = root_of(p, o->val), copy;

	if (p->val[root].place.kind == RLX_PLACE_OUTPUT && p->val[root].place.index == i)
		return;
	if (!o->state && p->val[root].place.kind == RLX_PLACE_NONE &&
	    rlx_plan_bytes(p, root) == rlx_plan_bytes(p, o->val)) {
		p->val[root].place = place;
		return;
	}
	copy = add_copy(pl, o->val, place);
	if (copy)
		o->val = copy;
	p->n_copied += o->state;
}

/*
 * States that are updated in place, then outputs, then states that are copied to: what they
 * get of other states first, for those are written to as well.
 */
static enum rlx_status place_outputs(struct planner *pl)
{
	struct rlx_plan *p = pl->p;
	struct rlx_plan_io *io = p->io[RLX_IO_OUTPUT];
	uint32_t i, n = p->n_io[RLX_IO_OUTPUT], root;
	bool *done = rlx_bump_new(&p->bump, n + 1, sizeof(*done));

	if (!done)
		return rlx_fail(pl->err, RLX_ENOMEM, "plan: out of memory");
	for (i = 0; i < n; i++)
		if (io[i].state && updates_in_place(p, &io[i])) {
			p->val[root_of(p, io[i].val)].place = (struct rlx_place){
				.kind = RLX_PLACE_OUTPUT, .index = i };
			done[i] = true;
		}
	for (i = 0; i < n; i++)
		if (!io[i].state)
			place_output(pl, i);
	for (i = 0; i < n && !pl->err->status; i++) {
		root = root_of(p, io[i].val);
		if (!done[i] && io[i].state && p->val[root].place.kind == RLX_PLACE_INPUT)
			io[i].val = add_copy(pl, io[i].val, (struct rlx_place){ 0 });
	}
	for (i = 0; i < n && !pl->err->status; i++)
		if (!done[i] && io[i].state)
			place_output(pl, i);
	return pl->err->status;
}

/* 1 + the input that step @st's output 0 may be written over, or 0. */
static uint32_t replaced_input(const struct rlx_plan *p, const struct rlx_plan_step *st)
{
	uint32_t s = (uint32_t)(st - p->step), k, i, v, root;
	uint32_t n = st->def->traits & RLX_T_ELEMENTWISE ? st->n_in : 1;

	for (k = 0; st->def->traits & RLX_T_INPLACE && k < n; k++) {
		v = st->in[k];
		root = v ? root_of(p, v) : 0;
		if (!v || p->val[root].place.kind != RLX_PLACE_INPUT || p->val[root].last > s ||
		    p->io[RLX_IO_INPUT][p->val[root].place.index].state ||
		    !rlx_type_equal(&p->val[v].type, &p->val[st->out[0]].type))
			continue;
		for (i = 0; i < st->n_in; i++)
			if (i != k && st->in[i] && root_of(p, st->in[i]) == root)
				break;
		if (i == st->n_in)
			return p->val[root].place.index + 1;
	}
	return 0;
}

/* Which outputs could take the places of inputs: states that steps update. */
static void find_replaced(struct rlx_plan *p)
{
	uint32_t s;

	for (s = 0; s < p->n_step; s++) {
		const struct rlx_plan_step *st = &p->step[s];
		const struct rlx_plan_val *v = &p->val[st->out[0]];

		if (st->def && v->root == st->out[0] && v->place.kind == RLX_PLACE_OUTPUT &&
		    !p->io[RLX_IO_OUTPUT][v->place.index].state)
			p->io[RLX_IO_OUTPUT][v->place.index].donated = replaced_input(p, st);
	}
}

static struct rlx_plan *plan_alloc(struct rlx_graph *g)
{
	struct rlx_plan *p = rlx_calloc(1, sizeof(*p));
	size_t outs = g->io[RLX_IO_OUTPUT].n;
	uint32_t i;
	bool ok;

	if (!p)
		return NULL;
	p->g = rlx_graph_get(g);
	p->n_val = g->n_val;
	p->n_state = g->n_state;
	/* copies to outputs, and to states by way of the workspace */
	p->cap_val = g->n_val + 2 * (uint32_t)outs;
	p->val = rlx_calloc(p->cap_val, sizeof(*p->val));
	p->step = rlx_bump_new(&p->bump, (size_t)g->n_node + 2 * outs, sizeof(*p->step));
	p->constant = rlx_bump_new(&p->bump, g->n_node, sizeof(*p->constant));
	ok = p->val && p->step && p->constant;
	for (i = 0; i < 3; i++) {
		p->n_io[i] = g->io[i].n;
		p->io[i] = rlx_bump_new(&p->bump, g->io[i].n, sizeof(*p->io[i]));
		ok = ok && p->io[i];
	}
	if (!ok) {
		rlx_plan_free(p);
		return NULL;
	}
	for (i = 1; i < g->n_val; i++) {
		p->val[i].type = g->val[i].type;
		p->val[i].root = i;
	}
	return p;
}

/* Every value takes the place of its storage root, which is one step away from now on. */
static void spread_places(struct rlx_plan *p)
{
	uint32_t v;

	for (v = 1; v < p->n_val; v++) {
		p->val[v].root = root_of(p, v);
		p->val[v].place = p->val[p->val[v].root].place;
	}
}

/* What steps of every run read of those that need to run once. */
static void find_persistent(struct rlx_plan *p)
{
	struct rlx_plan_val *v;
	uint32_t s, i;

	for (s = 0; s < p->n_step; s++)
		for (i = 0; !p->step[s].once && i < p->step[s].n_in; i++) {
			v = &p->val[p->val[p->step[s].in[i]].root];
			if (v->place.kind != RLX_PLACE_WORK || v->persistent || !is_once(p, v->root))
				continue;
			v->persistent = true;
			v->last = p->n_step;
			p->n_persistent++;
		}
}

enum rlx_status rlx_plan_new(struct rlx_graph *g, struct rlx_plan **out, struct rlx_error *err)
{
	struct planner pl = { .g = g, .err = err };
	struct rlx_plan *p = plan_alloc(g);
	enum rlx_status st = RLX_ENOMEM;

	pl.p = p;
	pl.node_live = rlx_calloc(g->n_node + 1, sizeof(*pl.node_live));
	pl.late = rlx_calloc(g->n_node + 1, sizeof(*pl.late));
	pl.on_run = rlx_calloc(g->n_node + 1, sizeof(*pl.on_run));
	if (!p || !pl.node_live || !pl.late || !pl.on_run) {
		rlx_fail(err, RLX_ENOMEM, "plan of '%s': out of memory", g->name);
		goto out_free;
	}
	mark_live(&pl);
	name_io(&pl, RLX_IO_INPUT);
	name_io(&pl, RLX_IO_PARAM);
	name_io(&pl, RLX_IO_OUTPUT);
	list_constants(&pl);
	mark_late(&pl);
	mark_once(&pl);
	list_steps(&pl);
	if (err->status) {
		st = err->status;
		goto out_free;
	}
	find_lives(p);
	if (!find_aliases(p)) {
		rlx_fail(err, RLX_ENOMEM, "plan of '%s': out of memory", g->name);
		goto out_free;
	}
	st = place_outputs(&pl);
	find_replaced(p);
	list_work(p);
	if (!st)
		st = drop_views(p, err);
	if (st)
		goto out_free;
	spread_places(p);
	find_persistent(p);
	*out = p;
	p = NULL;
out_free:
	rlx_free(pl.node_live);
	rlx_free(pl.late);
	rlx_free(pl.on_run);
	rlx_plan_free(p);
	return st;
}

bool rlx_plan_reserve(struct rlx_plan *p, uint32_t n)
{
	return rlx_grow(&p->val, &p->cap_val, p->n_val + n, sizeof(*p->val));
}

struct rlx_cost rlx_plan_cost(const struct rlx_plan *p, const struct rlx_plan_step *st)
{
	const struct rlx_type *few[16], **types = few;
	struct rlx_infer q = { .def = st->def, .args = st->args, .n_in = st->n_in };
	struct rlx_cost c;
	uint32_t i;

	if (st->n_in > sizeof(few) / sizeof(few[0]))
		types = rlx_malloc(st->n_in * sizeof(*types));
	for (i = 0; types && i < st->n_in; i++)
		types[i] = st->in[i] ? &p->val[st->in[i]].type : NULL;
	for (i = 0; i < st->n_out && i < RLX_MAX_OUT; i++)
		q.out[i] = p->val[st->out[i]].type;
	q.in = types;
	q.n_out = i;
	c = rlx_op_cost(&q);
	if (types != few)
		rlx_free(types);
	return c;
}

void rlx_plan_free(struct rlx_plan *p)
{
	if (!p)
		return;
	rlx_graph_put(p->g);
	rlx_bump_fini(&p->bump);
	rlx_free(p->val);
	rlx_free(p);
}
