// SPDX-License-Identifier: MIT
/*
 * Reverse mode inside an open graph: nodes are walked backwards from what is derived, each
 * op's .vjp emitting behind them all. An op without a rule of its own is walked through what
 * it stands for, which is emitted once more for that: the forward pass keeps the op whole.
 */
#include <stdlib.h>
#include <string.h>

#include "ad/complex.h"
#include "ad/control.h"
#include "ad/remat.h"
#include "base/alloc.h"
#include "ir/graph.h"
#include "ops/complex.h"
#include "rlx/grad.h"

/* An op that expands into itself would never end. */
enum { MAX_DEPTH = 16 };

/* What is known of a value: it depends on a wrt, and something on it. */
enum { DEPENDS = 1, REACHES = 2 };

/* A share of a value's gradient. */
struct share {
	rlx_value	d;
	uint32_t	next;		/* index + 1 of the one that came after it */
};

struct shares {
	struct share	*e;
	uint32_t	 n, cap;
};

/*
 * Values [base, base + n_val) of the graph, made by nodes [first, end), and those of @outer,
 * whose op these stand for.
 */
struct walk {
	struct rlx_graph	*g;
	struct walk		*outer;
	struct shares		*shares;
	uint32_t		 base, n_val, first, end, depth;
	uint8_t			*flags;		/* per own value */
	uint32_t		*head, *tail;	/* per own value: index + 1 of shares */
};

static uint8_t flags_of(const struct walk *w, uint32_t v)
{
	uint8_t f;

	if (!v)
		return 0;
	if (v >= w->base)
		return v - w->base < w->n_val ? w->flags[v - w->base] : 0;
	f = w->outer ? flags_of(w->outer, v) : 0;
	/* of an op's inputs those that matter to the op, for whatever reason */
	return f & REACHES ? f : 0;
}

/* A gradient is to be had of it, and wanted. */
static bool useful(const struct walk *w, uint32_t v)
{
	if (v && v < w->base)
		return w->outer && useful(w->outer, v);
	return (flags_of(w, v) & (DEPENDS | REACHES)) == (DEPENDS | REACHES);
}

static bool stops(const struct rlx_node *n)
{
	return n->def->traits & (RLX_T_NODIFF | RLX_T_LEAF) || n->scope & RLX_SCOPE_NOGRAD;
}

/* Values of it have gradients. */
static bool is_number(enum rlx_dtype dt)
{
	return rlx_dtype_is_float(dt) || dt == RLX_C64;
}

static bool is_complex(const struct walk *w, uint32_t v)
{
	return w->g->val[v].type.dtype == RLX_C64;
}

/*
 * Does nothing pass it? What has no rule for c64 would hide its input, if that depends on a
 * wrt: it is refused when a gradient comes to it.
 */
static bool hides(const struct walk *w, const struct rlx_node *v)
{
	uint32_t i;

	if (!stops(v) || v->def->index == RLX_OP_stop_gradient)
		return stops(v);
	for (i = 0; i < v->n_in; i++)
		if (v->in[i] && is_complex(w, v->in[i]) && flags_of(w, v->in[i]) & DEPENDS)
			return v->scope & RLX_SCOPE_NOGRAD;
	return true;
}

/* Values that depend on a wrt, which @w->flags has already; then those that reach an end. */
static void mark(struct walk *w)
{
	const struct rlx_graph *g = w->g;
	uint32_t n, i;
	uint8_t f;

	for (n = w->first; n < w->end; n++) {
		const struct rlx_node *v = &g->node[n];

		for (f = 0, i = 0; i < v->n_in; i++)
			f |= flags_of(w, v->in[i]);
		if (!(f & DEPENDS) || hides(w, v))
			continue;
		for (i = 0; i < v->n_out; i++)
			if (is_number(g->val[v->out + i].type.dtype))
				w->flags[v->out + i - w->base] |= DEPENDS;
	}
	for (n = w->end; n-- > w->first;) {
		const struct rlx_node *v = &g->node[n];

		for (f = 0, i = 0; i < v->n_out; i++)
			f |= w->flags[v->out + i - w->base] & REACHES;
		for (i = 0; f && i < v->n_in; i++)
			if (v->in[i] && v->in[i] >= w->base)
				w->flags[v->in[i] - w->base] |= REACHES;
	}
}

static enum rlx_status out_of_memory(struct rlx_graph *g)
{
	return rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
}

static bool walk_init(struct walk *w)
{
	w->flags = rlx_calloc(w->n_val + 1, sizeof(*w->flags));
	w->head = rlx_calloc(w->n_val + 1, sizeof(*w->head));
	w->tail = rlx_calloc(w->n_val + 1, sizeof(*w->tail));
	if (w->flags && w->head && w->tail)
		return true;
	out_of_memory(w->g);
	return false;
}

static void walk_fini(struct walk *w)
{
	rlx_free(w->flags);
	rlx_free(w->head);
	rlx_free(w->tail);
}

/* @d is a share of the gradient of @v; @by names the op whose rule gave it. */
static void give(struct walk *w, const char *by, uint32_t v, rlx_value d)
{
	struct rlx_graph *g = w->g;
	struct rlx_type want, have;
	struct shares *s = w->shares;
	uint32_t at;

	if (!d.id || !useful(w, v) || g->err.status)
		return;
	if (v < w->base) {
		give(w->outer, by, v, d);
		return;
	}
	want = g->val[v].type;
	d = op_cast(g, d, want.dtype);
	have = op_type(g, d);
	if (g->err.status)
		return;
	if (!rlx_type_equal(&have, &want)) {
		rlx_fail(&g->err, RLX_EBUG,
			 "gradient: the rule of %s gives another shape than its input has", by);
		return;
	}
	if (!rlx_grow(&s->e, &s->cap, s->n + 1, sizeof(*s->e))) {
		out_of_memory(g);
		return;
	}
	s->e[s->n++] = (struct share){ d, 0 };
	at = v - w->base;
	if (w->tail[at])
		s->e[w->tail[at] - 1].next = s->n;
	else
		w->head[at] = s->n;
	w->tail[at] = s->n;
}

/* The axis along which @n puts zeros, *@out_at of them in front; -1: it is something else. */
static int64_t padded_axis(const struct rlx_graph *g, const struct rlx_node *n, int64_t *out_at)
{
	const struct rlx_op_pad *a = n->args;
	uint32_t rank = g->val[n->out].type.rank, i;
	int64_t axis = -1;

	if (n->def->index != RLX_OP_pad || a->mode != RLX_PAD_CONSTANT || n->in[1])
		return -1;
	for (i = 0; i < rank; i++) {
		if (a->pads.v[i] < 0 || a->pads.v[rank + i] < 0)
			return -1;
		if (!a->pads.v[i] && !a->pads.v[rank + i])
			continue;
		if (axis >= 0)
			return -1;
		axis = i;
		*out_at = a->pads.v[i];
	}
	return axis;
}

/* A share without the zeros around it, and how many are in front. */
struct part {
	int64_t		at;
	rlx_value	x;
};

static int by_place(const void *a, const void *b)
{
	int64_t p = ((const struct part *)a)->at, q = ((const struct part *)b)->at;

	return (p > q) - (p < q);
}

/* The shares of @v without their zeros, along what axis; -1: other shares are there. */
static int64_t find_parts(const struct walk *w, uint32_t v, struct part *part)
{
	const struct rlx_graph *g = w->g;
	int64_t axis = -1, a, at;
	uint32_t i;

	for (i = w->head[v - w->base]; i; i = w->shares->e[i - 1].next) {
		const struct rlx_node *p = rlx_node_of(g, w->shares->e[i - 1].d.id);

		a = padded_axis(g, p, &at);
		if (a < 0 || (axis >= 0 && a != axis))
			return -1;
		axis = a;
		*part++ = (struct part){ at, { p->in[0] } };
	}
	return axis;
}

/*
 * The @n shares are parts with zeros around them, which fill the value side by side, as those
 * of slices do: the parts joined, at no sum. None: they are something else.
 */
static rlx_value join_parts(struct walk *w, uint32_t v, uint32_t n)
{
	struct part *part = rlx_calloc(n, sizeof(*part));
	rlx_value *xs = rlx_calloc(n, sizeof(*xs)), all = RLX_NONE;
	int64_t axis, end = 0;
	uint32_t k;

	if (!part || !xs) {
		out_of_memory(w->g);
		goto out_free;
	}
	axis = find_parts(w, v, part);
	if (axis < 0)
		goto out_free;
	qsort(part, n, sizeof(*part), by_place);
	for (k = 0; k < n && part[k].at == end; k++) {
		xs[k] = part[k].x;
		end += w->g->val[xs[k].id].type.dim[axis];
	}
	if (k == n && end == w->g->val[v].type.dim[axis])
		all = rlx_emit(w->g, concat, .axis = (int32_t)axis, .xs = { xs, n });
out_free:
	rlx_free(part);
	rlx_free(xs);
	return all;
}

/*
 * The sum of what came to @v, in the order in which it came: the last reader's first. It is
 * one chain, so that it becomes one region. More than two of 16 bits are summed in f32; c64 as
 * pairs.
 */
static rlx_value join(struct walk *w, uint32_t v)
{
	uint32_t at = v - w->base, i = w->head[at], n = 0;
	const struct rlx_type type = w->g->val[v].type;
	enum rlx_dtype dt = type.dtype, acc = dt;
	rlx_value sum = RLX_NONE;
	bool pairs;

	for (; i; i = w->shares->e[i - 1].next)
		n++;
	if (n > 2 && rlx_dtype_size(dt) < 4)
		acc = RLX_F32;
	if (n > 1)
		sum = join_parts(w, v, n);
	pairs = dt == RLX_C64 && n > 1 && !sum.id;
	for (i = sum.id ? 0 : w->head[at]; i; i = w->shares->e[i - 1].next) {
		rlx_value d = op_cast(w->g, w->shares->e[i - 1].d, acc);

		d = pairs ? op_complex_pairs(w->g, d) : d;
		sum = sum.id ? rlx_emit(w->g, add, .a = sum, .b = d) : d;
	}
	if (pairs)
		sum = op_complex_of_pairs(w->g, sum, &type);
	if (n > 1) {
		i = w->head[at];
		sum = op_cast(w->g, sum, dt);
		w->shares->e[i - 1] = (struct share){ sum, 0 };
		w->tail[at] = i;
	}
	return sum;
}

static void refuse(struct walk *w, const struct rlx_node *v)
{
	if (w->g->err.status)
		return;
	rlx_fail(&w->g->err, RLX_ENOSUP, "%s has no gradient rule", v->def->name);
	w->g->err.file = v->file;
	w->g->err.line = v->line;
}

static enum rlx_status (*expansion(const struct rlx_op_impl *im))(struct rlx_expand *)
{
	return im->grad_expand ? im->grad_expand : im->expand;
}

/*
 * Has it c64 that gradients go to or come from, and no rule for that? It is refused then: a part
 * would be lost; of a scan one that goes from step to step.
 */
static bool lacks_complex_rule(struct walk *w, const struct rlx_node *v)
{
	bool in = false, found = false, any = false;
	uint32_t i;

	if (v->def->impl->complex_vjp || (!rlx_ad_is_control(v->def) && !stops(v) &&
					  !v->def->impl->vjp && expansion(v->def->impl)))
		return false;
	for (i = 0; i < v->n_in; i++)
		any = any || useful(w, v->in[i]);
	for (i = 0; any && i < v->n_out && !found; i++)
		found = is_complex(w, v->out + i) &&
			(w->head[v->out + i - w->base] || v->def->index == RLX_OP_scan);
	for (i = found ? i : 0; i < v->n_in && !found; i++)
		in = found = v->in[i] && is_complex(w, v->in[i]) && useful(w, v->in[i]);
	if (!found || w->g->err.status)
		return found;
	rlx_fail(&w->g->err, RLX_ENOSUP,
		 "%s has no gradient rule for complex numbers, which its c64 %s %u would need: "
		 "keep real and imaginary parts as floats (view_as_real)", v->def->name,
		 in ? "input" : "output", i - 1);
	w->g->err.file = v->file;
	w->g->err.line = v->line;
	return true;
}

/* What a rule and an expansion see of one node. */
struct view {
	struct rlx_node	 node;		/* a copy: emitting moves the array */
	rlx_value	*in, *out, *d_out, *d_in;
	bool		*need;
	struct rlx_type	*type;		/* of outputs */
};

static void walk_back(struct walk *w);

/* Emit what the node stands for, and walk back through that. */
static void through_expansion(struct walk *w, struct view *v)
{
	struct rlx_graph *g = w->g;
	struct rlx_expand q = {
		.g = g, .def = v->node.def, .args = v->node.args, .n_in = v->node.n_in,
		.n_out = v->node.n_out, .in = v->in, .out_type = v->type, .out = v->out,
	};
	struct walk sub = { .g = g, .outer = w, .shares = w->shares, .base = g->n_val,
			    .first = g->n_node, .depth = w->depth + 1 };
	uint32_t i;

	if (sub.depth > MAX_DEPTH) {
		rlx_fail(&g->err, RLX_EBUG, "gradient: expansion of %s does not end",
			 v->node.def->name);
		return;
	}
	memset(v->out, 0, v->node.n_out * sizeof(*v->out));
	rlx_expand_op(&q, expansion(v->node.def->impl));
	if (g->err.status == RLX_ENOSUP) {	/* a form that has no gradient: whose it is */
		g->err.file = v->node.file;
		g->err.line = v->node.line;
	}
	sub.n_val = g->n_val - sub.base;
	sub.end = g->n_node;
	if (!g->err.status && walk_init(&sub)) {
		for (i = 0; i < v->node.n_out; i++)
			if (v->out[i].id >= sub.base && v->d_out[i].id)
				sub.flags[v->out[i].id - sub.base] |= REACHES;
		mark(&sub);
		for (i = 0; i < v->node.n_out; i++)
			give(&sub, v->node.def->name, v->out[i].id, v->d_out[i]);
		walk_back(&sub);
	}
	walk_fini(&sub);
}

/* The op's rule; for its parts, if it has complex ones. */
static enum rlx_status (*rule_of(const struct walk *w, const struct view *v))(struct rlx_grad *)
{
	const struct rlx_op_impl *im = v->node.def->impl;
	uint32_t i;

	for (i = 0; im->complex_vjp == RLX_COMPLEX_VJP_PARTS && i < v->node.n_out; i++)
		if (is_complex(w, v->node.out + i))
			return rlx_ad_complex_parts;
	return im->vjp;
}

static void through_rule(struct walk *w, struct view *v)
{
	struct rlx_grad q = {
		.g = w->g, .def = v->node.def, .args = v->node.args, .n_in = v->node.n_in,
		.n_out = v->node.n_out, .in = v->in, .out = v->out, .d_out = v->d_out,
		.d_in = v->d_in, .need = v->need,
	};
	uint32_t i;

	if (rlx_ad_is_control(v->node.def))
		rlx_ad_control(w->g, &v->node, v->d_out, v->need, v->d_in);
	else if (rule_of(w, v)(&q) && !w->g->err.status)
		rlx_fail(&w->g->err, RLX_ENOMEM, "%s: the gradient rule ran out of memory",
			 v->node.def->name);
	for (i = 0; i < v->node.n_in; i++)
		if (v->need[i])
			give(w, v->node.def->name, v->node.in[i], v->d_in[i]);
}

/* Pass the gradients of a node's outputs on to its inputs. */
static void node_back(struct walk *w, uint32_t n)
{
	struct view v = { .node = w->g->node[n] };
	uint32_t n_in = v.node.n_in, n_out = v.node.n_out, i;
	bool any = false;

	for (i = 0; i < n_out; i++)
		any = any || w->head[v.node.out + i - w->base];
	if (!any || lacks_complex_rule(w, &v.node) || stops(&v.node))
		return;
	if (!v.node.def->impl->vjp && !expansion(v.node.def->impl) &&
	    !rlx_ad_is_control(v.node.def)) {
		refuse(w, &v.node);
		return;
	}
	v.in = rlx_calloc(2 * (size_t)(n_in + n_out) + 1, sizeof(*v.in));
	v.need = rlx_calloc(n_in + 1, sizeof(*v.need));
	v.type = rlx_calloc(n_out + 1, sizeof(*v.type));
	if (!v.in || !v.need || !v.type) {
		out_of_memory(w->g);
		goto out_free;
	}
	v.d_in = v.in + n_in;
	v.out = v.d_in + n_in;
	v.d_out = v.out + n_out;
	for (i = 0; i < n_in; i++) {
		v.in[i].id = v.node.in[i];
		v.need[i] = useful(w, v.node.in[i]);
	}
	for (i = 0; i < n_out; i++) {
		v.out[i].id = v.node.out + i;
		v.d_out[i] = join(w, v.node.out + i);
		v.type[i] = w->g->val[v.node.out + i].type;
	}
	if (w->g->err.status)	/* rules take their operands for granted */
		goto out_free;
	if (v.node.def->impl->vjp || rlx_ad_is_control(v.node.def))
		through_rule(w, &v);
	else
		through_expansion(w, &v);
out_free:
	rlx_free(v.in);
	rlx_free(v.need);
	rlx_free(v.type);
}

static void walk_back(struct walk *w)
{
	uint32_t n;

	for (n = w->end; n-- > w->first && !w->g->err.status;)
		node_back(w, n);
}

static bool of_graph(struct rlx_graph *g, rlx_value v, const char *what, uint32_t i)
{
	if (v.id && v.id < g->n_val)
		return true;
	rlx_fail(&g->err, RLX_EINVAL, "gradient: value %u (%s %u) is not in graph '%s'", v.id,
		 what, i, g->name);
	return false;
}

static bool check_numbers(struct rlx_graph *g, const struct rlx_values *l, const char *what)
{
	uint32_t i;

	if (l->n && !l->v) {
		rlx_fail(&g->err, RLX_EINVAL, "gradient: list '%s' is NULL and has %u elements",
			 what, l->n);
		return false;
	}
	for (i = 0; i < l->n; i++) {
		if (!of_graph(g, l->v[i], what, i))
			return false;
		if (is_number(g->val[l->v[i].id].type.dtype))
			continue;
		rlx_fail(&g->err, RLX_ETYPE, "gradient: %s %u is %s, no float and no c64", what, i,
			 rlx_dtype_name(g->val[l->v[i].id].type.dtype));
		return false;
	}
	return true;
}

/* The cotangents are of the types of what is derived; one scalar needs none. */
static bool check_seeds(struct rlx_graph *g, const struct rlx_values *seed,
			const struct rlx_values *like, const char *what)
{
	const struct rlx_type *t, *s;
	char have[96], need[96];
	uint32_t i;

	if (seed->n != like->n || !seed->v) {
		rlx_fail(&g->err, RLX_EINVAL, "gradient: %u of list '%s' for %u values", seed->n,
			 what, like->n);
		return false;
	}
	for (i = 0; i < seed->n; i++) {
		if (!seed->v[i].id)
			continue;	/* zero */
		if (!of_graph(g, seed->v[i], what, i))
			return false;
		s = &g->val[seed->v[i].id].type;
		t = &g->val[like->v[i].id].type;
		if (rlx_type_equal(s, t))
			continue;
		rlx_type_print(s, have, sizeof(have));
		rlx_type_print(t, need, sizeof(need));
		rlx_fail(&g->err, RLX_ESHAPE, "gradient: %s %u is %s, %s is needed", what, i, have,
			 need);
		return false;
	}
	return true;
}

/* Of one scalar: a weight of 1. */
static rlx_value unit_seed(struct rlx_graph *g, const struct rlx_values *of)
{
	const struct rlx_type *t = of->n == 1 ? &g->val[of->v[0].id].type : NULL;
	struct rlx_type copy;

	if (!t || rlx_type_count(t) != 1) {
		rlx_fail(&g->err, RLX_ESHAPE,
			 "gradient: without seeds one value of one element is derived, and no more");
		return RLX_NONE;
	}
	if (t->dtype == RLX_C64) {
		rlx_fail(&g->err, RLX_ETYPE,
			 "gradient: without seeds a real value is derived, this one is c64");
		return RLX_NONE;
	}
	copy = *t;
	return op_fill(g, &copy, 1);
}

/* Bring the caller's struct to the size this library knows; false with a message. */
static bool take_args(struct rlx_graph *g, const struct rlx_ad *a, struct rlx_ad *own)
{
	if (!g || g->err.status)
		return false;
	if (!a || !a->size || g->finished) {
		rlx_fail(&g->err, RLX_EINVAL, "gradient: %s", g->finished ?
			 "the graph is finished and takes no more ops" :
			 "no arguments, or their size is not set");
		return false;
	}
	if (rlx_graph_is_bound(g, "gradient", &g->err))
		return false;
	*own = (struct rlx_ad){ 0 };
	memcpy(own, a, a->size < sizeof(*own) ? a->size : sizeof(*own));
	return check_numbers(g, &own->of, "of") && check_numbers(g, &own->wrt, "wrt");
}

static void derive(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *d)
{
	struct shares shares = { 0 };
	struct walk w = { .g = g, .shares = &shares, .n_val = g->n_val };
	rlx_value one = a->seed.n ? RLX_NONE : unit_seed(g, &a->of);
	uint32_t i;

	for (i = 0; i < a->of.n; i++)
		if (g->val[a->of.v[i].id].node >= w.end)
			w.end = g->val[a->of.v[i].id].node + 1;
	if (!g->err.status && walk_init(&w)) {
		for (i = 0; i < a->wrt.n; i++)
			w.flags[a->wrt.v[i].id] |= DEPENDS;
		for (i = 0; i < a->of.n; i++)
			w.flags[a->of.v[i].id] |= REACHES;
		mark(&w);
		for (i = 0; i < a->of.n; i++)
			give(&w, "seed", a->of.v[i].id, a->seed.n ? a->seed.v[i] : one);
		walk_back(&w);
		for (i = 0; i < a->wrt.n && !g->err.status; i++) {
			rlx_value v = a->wrt.v[i], sum = join(&w, v.id);

			d[i] = sum.id ? sum : op_zeros_like(g, v);
		}
	}
	walk_fini(&w);
	rlx_free(shares.e);
}

/* Results are written last of all: a caller may get them where the arguments were. */
static void none_on_failure(const struct rlx_graph *g, rlx_value *v, uint32_t n)
{
	while (g->err.status && n--)
		v[n] = RLX_NONE;
}

void rlx_vjp(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *d)
{
	struct rlx_ad own;
	uint32_t node, val;

	if (!take_args(g, a, &own))
		return;
	node = g->n_node;
	val = g->n_val;
	if (!own.seed.n || check_seeds(g, &own.seed, &own.of, "seed"))
		derive(g, &own, d);
	if (!g->err.status)
		rlx_ad_remat(g, node, val, own.memory, d, own.wrt.n);
	none_on_failure(g, d, own.wrt.n);
}

/*
 * Forward mode: reverse mode is linear in its cotangents, so that its own reverse mode by
 * them, weighed by the tangents, is the forward one. What the first pass computes is not read
 * by the second and goes with dead code.
 */
static void push_forward(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *dot)
{
	rlx_value *u = rlx_bump_new(&g->bump, a->of.n + 1, sizeof(*u));
	rlx_value *d = rlx_bump_new(&g->bump, a->wrt.n + 1, sizeof(*d));
	struct rlx_ad back = *a, fore = *a;
	struct rlx_type t;
	uint32_t i;

	if (!u || !d) {
		out_of_memory(g);
		return;
	}
	for (i = 0; i < a->of.n; i++) {	/* of any value: nothing depends on which */
		t = op_type(g, a->of.v[i]);
		u[i] = op_fill(g, &t, 0);
		/* a node of its own, also for a scalar, whose fill is a constant */
		u[i] = t.dtype == RLX_C64 ? rlx_emit(g, conjugate, .x = u[i]) :
		       rlx_emit(g, neg, .x = u[i]);
	}
	back.seed = (struct rlx_values){ u, a->of.n };
	if (g->err.status)
		return;
	derive(g, &back, d);
	fore.of = (struct rlx_values){ d, a->wrt.n };
	fore.seed = a->tangent;
	fore.wrt = (struct rlx_values){ u, a->of.n };
	if (!g->err.status)
		derive(g, &fore, dot);
}

void rlx_jvp(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *dot)
{
	struct rlx_ad own;

	if (!take_args(g, a, &own))
		return;
	if (check_seeds(g, &own.tangent, &own.wrt, "tangent"))
		push_forward(g, &own, dot);
	none_on_failure(g, dot, own.of.n);
}

void rlx_hvp(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *hv)
{
	rlx_value *d;
	struct rlx_ad own;

	if (!take_args(g, a, &own))
		return;
	d = rlx_bump_new(&g->bump, own.wrt.n + 1, sizeof(*d));
	if (!d)
		out_of_memory(g);
	else if (check_seeds(g, &own.tangent, &own.wrt, "tangent")) {
		own.seed = (struct rlx_values){ 0 };
		derive(g, &own, d);
		own.of = (struct rlx_values){ d, own.wrt.n };
		if (!g->err.status)
			push_forward(g, &own, hv);
	}
	none_on_failure(g, hv, own.wrt.n);
}
