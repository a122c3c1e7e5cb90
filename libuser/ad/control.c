// SPDX-License-Identifier: MIT
/*
 * Reverse mode through if and scan. If: an if on the same condition, each of whose branches runs
 * its forward pass again and back. Scan: one scan more that keeps the carries of each step, and
 * one from the last step to the first that runs the body again from them, and back; gradients of
 * captures are carried along and summed, but for large matrices that each step multiplies once
 * with few rows: those get theirs by one product over the rows of all steps.
 */
#include <string.h>

#include "ad/control.h"
#include "base/alloc.h"
#include "ops/emit.h"
#include "rlx/grad.h"

bool rlx_ad_is_control(const struct rlx_op_def *def)
{
	return def->index == RLX_OP_if || def->index == RLX_OP_scan;
}

/* A body that is being built: room for as many values as its op's body could need. */
struct body {
	struct rlx_graph	*g;
	rlx_value		*in, *out, *of, *seed, *wrt, *d, *left;
	uint32_t		 n_of, n_wrt;
};

static bool body_init(struct body *b, struct rlx_graph *g, const struct rlx_graph *part)
{
	uint32_t n = part->io[RLX_IO_INPUT].n + part->io[RLX_IO_OUTPUT].n + 1;

	*b = (struct body){ .g = rlx_graph_new("gradient") };
	b->in = rlx_calloc(7ul * n, sizeof(*b->in));
	if (!b->g || !b->in) {
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
		return false;
	}
	b->out = b->in + n;
	b->of = b->out + n;
	b->seed = b->of + n;
	b->wrt = b->seed + n;
	b->d = b->wrt + n;
	b->left = b->d + n;
	return true;
}

static void body_fini(struct body *b)
{
	rlx_graph_put(b->g);
	rlx_free(b->in);
}

static rlx_value input(struct body *b, const char *what, uint32_t i, struct rlx_type t)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u", what, i);
	return rlx_input(b->g, name, t);
}

static void output(struct body *b, const char *what, uint32_t i, rlx_value v)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u", what, i);
	rlx_output(b->g, name, v);
}

static struct rlx_type part_type(const struct rlx_graph *part, enum rlx_io io, uint32_t i)
{
	return part->val[part->io[io].e[i].v.id].type;
}

/* What @part makes of b->in into b->out. */
static void run_part(struct body *b, const struct rlx_graph *part)
{
	uint32_t n = part->io[RLX_IO_INPUT].n, i;
	const char **name = rlx_calloc(n + 1ul, sizeof(*name));
	struct rlx_inline how = { .size = sizeof(how), .name = name, .value = b->in, .n = n };

	if (!name) {
		rlx_fail(&b->g->err, RLX_ENOMEM, "gradient: out of memory");
		return;
	}
	for (i = 0; i < n; i++)
		name[i] = part->io[RLX_IO_INPUT].e[i].name;
	rlx_graph_inline(b->g, part, &how, b->out);
	rlx_free(name);
}

static void derive(struct body *b)
{
	struct rlx_ad a = {
		.size = sizeof(a), .of = { b->of, b->n_of }, .seed = { b->seed, b->n_of },
		.wrt = { b->wrt, b->n_wrt },
	};

	if (b->n_of)
		rlx_vjp(b->g, &a, b->d);
}

/* ---- if ---- */

/* Branch @part: inputs, then cotangents of the outputs that have some; gradients of @need. */
static bool branch(struct body *b, struct rlx_graph *g, const struct rlx_graph *part,
		   const rlx_value *d_out, const bool *need)
{
	uint32_t i;

	if (!body_init(b, g, part))
		return false;
	for (i = 0; i < part->io[RLX_IO_INPUT].n; i++) {
		b->in[i] = input(b, "x", i, part_type(part, RLX_IO_INPUT, i));
		if (need[i])
			b->wrt[b->n_wrt++] = b->in[i];
	}
	run_part(b, part);
	for (i = 0; i < part->io[RLX_IO_OUTPUT].n; i++)
		if (d_out[i].id) {
			b->seed[b->n_of] = input(b, "d", i, part_type(part, RLX_IO_OUTPUT, i));
			b->of[b->n_of++] = b->out[i];
		}
	derive(b);
	for (i = 0; i < b->n_wrt; i++)
		output(b, "g", i, b->d[i]);
	return op_finish_body(b->g, g);
}

static void through_if(struct rlx_graph *g, const struct rlx_node *n, const rlx_value *d_out,
		       const bool *need, rlx_value *d_in)
{
	const struct rlx_op_if *a = n->args;
	rlx_value *xs = rlx_calloc(n->n_in + n->n_out + 1ul, sizeof(*xs)), d;
	struct body then = { 0 }, other = { 0 };
	uint32_t i, k = 0;

	if (!xs) {
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
		return;
	}
	for (i = 1; i < n->n_in; i++)
		xs[k++].id = n->in[i];
	for (i = 0; i < n->n_out; i++)
		if (d_out[i].id)
			xs[k++] = d_out[i];
	if (branch(&then, g, a->then_g, d_out, need + 1) &&
	    branch(&other, g, a->else_g, d_out, need + 1) && then.n_wrt) {
		d = rlx_emit(g, if, .pred = { n->in[0] }, .then_g = then.g, .else_g = other.g,
			     .xs = { xs, k });
		for (i = 1, k = 0; i < n->n_in; i++)
			if (need[i])
				d_in[i] = rlx_out(g, d, k++);
	}
	body_fini(&then);
	body_fini(&other);
	rlx_free(xs);
}

/* ---- scan ---- */

/* Each takes two outputs, of which there are RLX_MAX_OUT. */
enum { MOST_BATCHED = 8 };

/* What the parts of a scan's backward pass share. */
struct scan {
	struct rlx_graph	*g;
	const struct rlx_node	*n;
	const struct rlx_op_scan *a;
	const struct rlx_graph	*part;
	uint32_t		 n_carry, n_xs, n_in, n_out;
	const rlx_value		*d_out;
	const bool		*need;
	rlx_value		*xs;		/* room for operands */
	int64_t			*flag;		/* and for directions */
	bool			*batched;		/* of captures: by one product behind the loop */
};

static int64_t flag_of(struct rlx_ints l, uint32_t i)
{
	return i < l.n && l.v[i] != 0;
}

/* The carries that each step began with, [length, ..], by a scan that keeps them. */
static bool keep_carries(struct scan *s, rlx_value *kept)
{
	struct body b;
	rlx_value v;
	uint32_t i;
	bool ok;

	ok = body_init(&b, s->g, s->part);
	for (i = 0; ok && i < s->n_in; i++)
		b.in[i] = input(&b, "x", i, part_type(s->part, RLX_IO_INPUT, i));
	if (ok)
		run_part(&b, s->part);
	for (i = 0; ok && i < s->n_carry; i++)
		output(&b, "c", i, b.out[i]);
	for (i = 0; ok && i < s->n_carry; i++)
		output(&b, "k", i, b.in[i]);
	ok = ok && op_finish_body(b.g, s->g);
	for (i = 0; i < s->n_in; i++)
		s->xs[i].id = s->n->in[i];
	if (ok) {
		v = rlx_emit(s->g, scan, .body_g = b.g, .n_carry = s->a->n_carry,
			     .n_xs = s->a->n_xs, .length = s->a->length,
			     .reverse_xs = s->a->reverse_xs, .xs = { s->xs, s->n_in });
		for (i = 0; i < s->n_carry; i++)
			kept[i] = rlx_out(s->g, v, s->n_carry + i);
	}
	body_fini(&b);
	return ok && !s->g->err.status;
}

static bool is_float(const struct rlx_graph *part, enum rlx_io io, uint32_t i)
{
	return rlx_dtype_is_float(part_type(part, io, i).dtype);
}

/* Sums over steps are kept in f32 at least. */
static struct rlx_type sum_type(struct rlx_type t)
{
	t.dtype = op_acc_type(t.dtype);
	return t;
}

static rlx_value zeros(struct rlx_graph *g, struct rlx_type t)
{
	return op_fill(g, &t, 0);
}

/* The only node that reads value @v of @g, as the right one of a product; NULL: none such. */
static const struct rlx_node *only_product(const struct rlx_graph *g, uint32_t v)
{
	const struct rlx_node *found = NULL;
	uint32_t n, k;

	for (n = 0; n < g->n_node; n++)
		for (k = 0; k < g->node[n].n_in; k++) {
			if (g->node[n].in[k] != v)
				continue;
			if (found || k != 1 || g->node[n].def->index != RLX_OP_matmul)
				return NULL;
			found = &g->node[n];
		}
	return found;
}

/*
 * A sum of a' b over steps is one product of all their rows; a step then writes its rows of a
 * and b, where else it would read and write a matrix of sums. Where the rows are less.
 */
static bool can_batch(const struct scan *s, uint32_t i)
{
	const uint32_t v = s->part->io[RLX_IO_INPUT].e[i].v.id;
	const struct rlx_type *t = &s->part->val[v].type, *a;
	const struct rlx_node *n = only_product(s->part, v);
	uint32_t k;

	if (!n || t->rank != 2)
		return false;
	for (k = 0; k < s->n_out; k++)
		if (s->part->io[RLX_IO_OUTPUT].e[k].v.id == v)
			return false;
	a = &s->part->val[n->in[0]].type;
	return a->rank == 2 && a->dtype == t->dtype &&
	       (double)a->dim[0] * (double)(t->dim[0] + t->dim[1]) <=
	       (double)t->dim[0] * (double)t->dim[1];
}

/* In the place of capture @i the gradient is by the product, and its left operand is kept. */
static void by_product(struct scan *s, struct body *b, uint32_t i)
{
	const struct rlx_node *n = only_product(b->g, b->in[i].id);

	if (!n) {	/* what the body lacks it says when it is finished */
		if (!b->g->err.status)
			rlx_fail(&s->g->err, RLX_EBUG, "gradient: a body's product is gone");
		return;
	}
	b->left[i].id = n->in[0];
	b->wrt[b->n_wrt].id = n->out;
}

/*
 * One step back. Inputs: cotangents of carries, sums for captures; carries, slices of xs,
 * cotangents of ys; captures. Outputs: the former two, then gradients of xs.
 */
static bool step_back(struct scan *s, struct body *b)
{
	uint32_t caps = s->n_carry + s->n_xs, i, k = 0;
	rlx_value *sum = b->seed + s->n_out;	/* behind the seeds there is room for inputs */

	for (i = 0; i < s->n_carry; i++)
		if (is_float(s->part, RLX_IO_INPUT, i))
			b->seed[b->n_of++] = input(b, "dc", i,
						   part_type(s->part, RLX_IO_INPUT, i));
	for (i = caps; i < s->n_in; i++)
		if (s->need[i] && !s->batched[i])
			sum[k++] = input(b, "sum", i,
					 sum_type(part_type(s->part, RLX_IO_INPUT, i)));
	for (i = 0; i < caps; i++)
		b->in[i] = input(b, "x", i, part_type(s->part, RLX_IO_INPUT, i));
	for (i = s->n_carry; i < s->n_out; i++)
		if (s->d_out[i].id)
			b->seed[b->n_of++] = input(b, "dy", i,
						   part_type(s->part, RLX_IO_OUTPUT, i));
	for (i = caps; i < s->n_in; i++)
		b->in[i] = input(b, "x", i, part_type(s->part, RLX_IO_INPUT, i));
	run_part(b, s->part);
	for (i = 0, k = 0; i < s->n_out; i++)
		if (i < s->n_carry ? is_float(s->part, RLX_IO_INPUT, i) : s->d_out[i].id != 0)
			b->of[k++] = b->out[i];
	for (i = 0; i < s->n_in; i++)
		if (i < s->n_carry ? is_float(s->part, RLX_IO_INPUT, i) : s->need[i]) {
			b->wrt[b->n_wrt] = b->in[i];
			if (s->batched[i])
				by_product(s, b, i);
			b->n_wrt++;
		}
	derive(b);
	for (i = 0, k = 0; i < s->n_carry; i++)
		if (is_float(s->part, RLX_IO_INPUT, i))
			output(b, "gc", i, b->d[k++]);
	for (i = s->n_carry; i < caps; i++)
		k += s->need[i];
	for (i = caps; i < s->n_in; i++)
		if (s->need[i] && s->batched[i]) {
			k++;
		} else if (s->need[i]) {
			rlx_value d = op_cast(b->g, b->d[k++], op_type(b->g, *sum).dtype);

			output(b, "gp", i, rlx_emit(b->g, add, .a = *sum++, .b = d));
		}
	for (i = 0, k = 0; i < caps; i++)
		if (i < s->n_carry)
			k += is_float(s->part, RLX_IO_INPUT, i);
		else if (s->need[i])
			output(b, "gx", i, b->d[k++]);
	for (; i < s->n_in; i++)
		if (s->need[i] && s->batched[i]) {
			output(b, "a", i, b->left[i]);
			output(b, "b", i, b->d[k++]);
		} else {
			k += s->need[i];
		}
	return op_finish_body(b->g, s->g) && !s->g->err.status;
}

/* a' b over the rows of all steps, which outputs @k and @k + 1 of @v have. */
static rlx_value over_all_steps(struct rlx_graph *g, rlx_value v, uint32_t k)
{
	rlx_value f[2] = { rlx_out(g, v, k), rlx_out(g, v, k + 1) };
	struct rlx_type t;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		t = op_type(g, f[i]);
		f[i] = op_reshape(g, f[i], (int64_t[]){ t.dim[0] * t.dim[1], t.dim[2] }, 2);
	}
	return rlx_emit(g, fused_matmul, .a = f[0], .b = f[1], .trans_a = true);
}

/* Emit the scan back over @kept carries, and hand out its results. */
static void scan_back(struct scan *s, struct body *b, const rlx_value *kept, rlx_value *d_in)
{
	uint32_t caps = s->n_carry + s->n_xs, n = 0, carries, i, k = 0;
	int64_t *fx = s->flag, *fy = s->flag + s->n_in + s->n_out;
	uint32_t n_fx = 0, n_fy = 0;
	rlx_value v;

	for (i = 0; i < s->n_carry; i++)
		if (is_float(s->part, RLX_IO_INPUT, i))
			s->xs[n++] = s->d_out[i].id ? s->d_out[i] :
				     zeros(s->g, part_type(s->part, RLX_IO_INPUT, i));
	for (i = caps; i < s->n_in; i++)
		if (s->need[i] && !s->batched[i])
			s->xs[n++] = zeros(s->g, sum_type(part_type(s->part, RLX_IO_INPUT, i)));
	carries = n;
	for (i = 0; i < caps; i++) {
		s->xs[n++] = i < s->n_carry ? kept[i] : (rlx_value){ s->n->in[i] };
		/* from the last step on: the other way than forward */
		fx[n_fx++] = i < s->n_carry || !flag_of(s->a->reverse_xs, i - s->n_carry);
	}
	for (i = s->n_carry; i < s->n_out; i++)
		if (s->d_out[i].id) {
			s->xs[n++] = s->d_out[i];
			fx[n_fx++] = !flag_of(s->a->reverse_ys, i - s->n_carry);
		}
	for (i = caps; i < s->n_in; i++)
		s->xs[n++].id = s->n->in[i];
	for (i = s->n_carry; i < caps; i++)
		if (s->need[i])
			fy[n_fy++] = !flag_of(s->a->reverse_xs, i - s->n_carry);
	for (i = caps; i < s->n_in; i++)
		if (s->need[i] && s->batched[i])
			n_fy += 2;	/* in any order, which is 0 */
	v = rlx_emit(s->g, scan, .body_g = b->g, .n_carry = (int32_t)carries,
		     .n_xs = (int32_t)n_fx, .length = s->a->length, .reverse_xs = { fx, n_fx },
		     .reverse_ys = { fy, n_fy }, .xs = { s->xs, n });
	for (i = 0; i < s->n_carry; i++)
		if (is_float(s->part, RLX_IO_INPUT, i))
			d_in[i] = rlx_out(s->g, v, k++);
	for (i = caps; i < s->n_in; i++)
		if (s->need[i] && !s->batched[i])
			d_in[i] = rlx_out(s->g, v, k++);
	for (i = s->n_carry; i < caps; i++)
		if (s->need[i])
			d_in[i] = rlx_out(s->g, v, k++);
	for (i = caps; i < s->n_in; i++)
		if (s->need[i] && s->batched[i]) {
			d_in[i] = over_all_steps(s->g, v, k);
			k += 2;
		}
}

static void through_scan(struct rlx_graph *g, const struct rlx_node *n, const rlx_value *d_out,
			 const bool *need, rlx_value *d_in)
{
	const struct rlx_op_scan *a = n->args;
	struct scan s = {
		.g = g, .n = n, .a = a, .part = a->body_g, .d_out = d_out, .need = need,
		.n_carry = (uint32_t)a->n_carry, .n_xs = (uint32_t)a->n_xs, .n_in = n->n_in,
		.n_out = n->n_out,
	};
	size_t room = 4ul * (n->n_in + n->n_out + 1);
	rlx_value *kept;
	struct body b = { 0 };
	uint32_t i, n_batched = 0;

	s.xs = rlx_calloc(2 * room, sizeof(*s.xs));
	s.flag = rlx_calloc(room, sizeof(*s.flag));
	s.batched = rlx_calloc(n->n_in + 1ul, sizeof(*s.batched));
	kept = s.xs + room;
	for (i = s.n_carry + s.n_xs; s.batched && i < n->n_in; i++) {
		s.batched[i] = need[i] && n_batched < MOST_BATCHED && can_batch(&s, i);
		n_batched += s.batched[i];
	}
	if (!s.xs || !s.flag || !s.batched)
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
	else if (body_init(&b, g, s.part) && keep_carries(&s, kept) && step_back(&s, &b))
		scan_back(&s, &b, kept, d_in);
	body_fini(&b);
	rlx_free(s.xs);
	rlx_free(s.flag);
	rlx_free(s.batched);
}

void rlx_ad_control(struct rlx_graph *g, const struct rlx_node *n, const rlx_value *d_out,
		    const bool *need, rlx_value *d_in)
{
	if (n->def->index == RLX_OP_if)
		through_if(g, n, d_out, need, d_in);
	else
		through_scan(g, n, d_out, need, d_in);
}
