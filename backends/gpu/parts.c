// SPDX-License-Identifier: MIT
/*
 * Concat and slice elimination: parts that are one run of bytes are where the whole is. What a
 * concat joins is written there by the launches that make it, and slices are read where they lie,
 * so that neither is copied (gradients that ranks sum in one go, a layer's weights in one). Before
 * calls have places: only which value a launch names changes, and the copies go.
 */
#include "backends/gpu/group.h"
#include "base/alloc.h"
#include "ir/graph.h"

/* What may live longer for it, since copies cost little as well. */
enum { LITTLE = 4 << 20 };

/* Where a part is: in value @to, 0 for none, from byte @off on. */
struct part {
	uint32_t	to;
	uint64_t	off;
};

/* Of a root: steps that use its storage, and how calls do. */
struct storage {
	uint32_t	readers, writers;	/* steps */
	uint32_t	last_read, last_write;	/* steps, plus 1 */
	bool		once;			/* a step that later runs leave out writes it */
	bool		fixed;			/* other than kernels use it by its own place */
	struct part	in;			/* a concat's result */
};

/* Of a value that is no view. */
struct value {
	uint32_t	last_read;		/* a step, plus 1 */
	uint32_t	writers;		/* launches that name it as what they write */
	bool		fixed;			/* its own bytes are wanted, by whom no launch is */
	struct part	of;			/* what it is a slice of */
};

struct parts {
	struct gpu_code		*c;
	const struct rlx_plan	*p;
	struct storage		*storage;	/* by root */
	struct value		*value;
	uint32_t		*calls;		/* by step: how many it became */
};

static struct storage *storage_of(const struct parts *q, uint32_t v)
{
	return &q->storage[q->p->val[v].root];
}

/* Value @v behind its views. */
static struct value *value_of(const struct parts *q, uint32_t v)
{
	const struct rlx_graph *g = q->p->g;

	while (v && v < g->n_val && rlx_node_of(g, v)->def->traits & RLX_T_VIEW)
		v = rlx_node_of(g, v)->in[0];
	return &q->value[v];
}

static bool is_pointwise(const struct rlx_plan_step *st)
{
	return !st->def || st->def->index == RLX_OP_region ||
	       st->def->traits & RLX_T_ELEMENTWISE;
}

static void note_read(struct parts *q, uint32_t s, uint32_t v)
{
	const struct rlx_plan_step *st = &q->p->step[s];
	struct storage *x = storage_of(q, v);
	struct value *own = value_of(q, v);
	uint32_t i;

	x->readers += x->last_read != s + 1;
	x->last_read = own->last_read = s + 1;
	/* it may count on what is in its result's place by then, and not name it */
	for (i = 0; i < st->n_out; i++)
		own->fixed |= storage_of(q, st->out[i]) == x && !is_pointwise(st);
}

static void note_steps(struct parts *q)
{
	const struct rlx_plan_step *st = q->p->step;
	struct storage *x;
	uint32_t s, i;

	for (s = 0; s < q->p->n_step; s++, st++) {
		for (i = 0; i < st->n_in; i++)
			note_read(q, s, st->in[i]);
		for (i = 0; i < st->n_out; i++) {
			x = storage_of(q, st->out[i]);
			x->writers += x->last_write != s + 1;
			x->last_write = s + 1;
			x->once |= st->once;
		}
	}
	for (i = 0; i < q->p->n_io[RLX_IO_OUTPUT]; i++)
		value_of(q, q->p->io[RLX_IO_OUTPUT][i].val)->fixed = true;
}

static void note_ref(struct parts *q, const struct gpu_call *call, const struct rlx_ref *r)
{
	struct value *own = value_of(q, r->val);

	own->writers += r->access & RLX_WRITE ? 1 : 0;
	if (call->kind == GPU_KERNEL_CALL)
		return;
	own->fixed = true;
	storage_of(q, r->val)->fixed = true;
}

static void note_calls(struct parts *q)
{
	const struct gpu_call *call = gpu_calls(q->c), *end = call + q->c->calls.n_call;
	const struct rlx_ref *r;

	for (; call < end; call++) {
		if (call->base.step != GPU_NO_STEP)
			q->calls[call->base.step]++;
		for (r = q->c->calls.ref + call->base.ref;
		     r < q->c->calls.ref + call->base.ref + call->base.n_ref; r++)
			if (r->kind == RLX_REF_VALUE)
				note_ref(q, call, r);
	}
}

/* The run's own storage, of which value @v is all. */
static bool is_own(const struct parts *q, uint32_t v)
{
	const struct rlx_plan *p = q->p;
	uint32_t root = p->val[v].root;

	return p->val[root].place.kind == RLX_PLACE_WORK && !p->val[root].persistent &&
	       rlx_plan_bytes(p, v) == rlx_plan_bytes(p, root);
}

/* The step that call @call alone copies for; NULL: another call. */
static const struct rlx_plan_step *copied_for(const struct parts *q, const struct gpu_call *call,
					      enum rlx_op_index op)
{
	const struct rlx_plan_step *st;

	if (call->kind != GPU_KERNEL_CALL || call->base.step == GPU_NO_STEP ||
	    call->base.n_step != 1 || call->base.n_ref != 2 || call->launch.n_launches > 1)
		return NULL;
	st = &q->p->step[call->base.step];
	return st->def && st->def->index == (uint32_t)op && !st->once ? st : NULL;
}

/* Which input of concat @st call @call copies, and from which byte on; false: not in one run. */
static bool find_joined(const struct parts *q, const struct gpu_call *call,
			const struct rlx_plan_step *st, uint32_t *k, uint64_t *off)
{
	const struct rlx_type *y = &q->p->val[st->out[0]].type;
	const struct rlx_ref *r = q->c->calls.ref + call->base.ref;
	uint32_t ax = shape_axis(((const struct rlx_op_concat *)st->args)->axis, y->rank), d;

	for (d = 0; d < ax; d++)
		if (y->dim[d] != 1)
			return false;
	r += r->access & RLX_WRITE ? 1 : 0;
	*off = 0;
	for (*k = 0; *k < st->n_in && st->in[*k] != r->val; ++*k)
		*off += rlx_plan_bytes(q->p, st->in[*k]);
	return *k < st->n_in && r->kind == RLX_REF_VALUE;
}

/* Is @whole little, or @part most of it, so that little is lost where it lives longer? */
static bool is_cheap(const struct parts *q, uint32_t whole, uint32_t part)
{
	uint64_t bytes = rlx_plan_bytes(q->p, whole);

	return bytes <= LITTLE || bytes / 2 <= rlx_plan_bytes(q->p, part);
}

/* Have what makes the input that concat copy @call is of write it in place; false: it may not. */
static bool place_joined(const struct parts *q, const struct gpu_call *call)
{
	const struct rlx_plan_step *st = copied_for(q, call, RLX_OP_concat);
	uint32_t k, v, to, i, n = 0;
	struct storage *x;
	uint64_t off;

	if (!st || !find_joined(q, call, st, &k, &off) || off % RLX_PLAN_ALIGN)
		return false;
	v = q->p->val[st->in[k]].root;
	to = st->out[0];
	x = &q->storage[v];
	for (i = 0; i < st->n_in; i++)
		n += q->p->val[st->in[i]].root == v;
	if (n != 1 || value_of(q, v)->of.to || !is_own(q, st->in[k]) || !is_own(q, to) ||
	    q->p->val[to].root != to || x->readers != 1 || !x->writers || x->once || x->fixed ||
	    !is_cheap(q, to, v))
		return false;
	x->in = (struct part){ to, off };
	return true;
}

/* Have what reads the slice that @call copies read it where it lies; false: it may not. */
static bool place_slice(const struct parts *q, const struct gpu_call *call)
{
	const struct rlx_plan_step *st = copied_for(q, call, RLX_OP_slice);
	const struct storage *all;
	uint32_t s = call->base.step;
	struct value *x;
	uint64_t off;

	if (!st || q->calls[s] != 1 || !rlx_lower_slice_run(q->p, st, &off) ||
	    off % RLX_PLAN_ALIGN)
		return false;
	x = value_of(q, st->out[0]);
	all = storage_of(q, st->in[0]);
	if (x->fixed || x->writers != 1 || storage_of(q, st->out[0])->in.to ||
	    !is_own(q, st->in[0]) || all->last_write > s || all->once ||
	    (all->last_read < x->last_read && !is_cheap(q, st->in[0], st->out[0])))
		return false;
	x->of = (struct part){ st->in[0], off };
	return true;
}

/* Where reference @r is to go, if it names a part. */
static const struct part *part_of(const struct parts *q, const struct rlx_ref *r)
{
	const struct part *in = &storage_of(q, r->val)->in;

	return in->to || r->access & RLX_WRITE ? in : &value_of(q, r->val)->of;
}

/* Launches name the whole, of parts of parts too. */
static void move_refs(const struct parts *q)
{
	const struct rlx_calls *calls = &q->c->calls;
	struct rlx_ref *r = calls->ref, *end = r + calls->n_ref;
	const struct part *x;

	for (; r < end; r++)
		while (r->kind == RLX_REF_VALUE && (x = part_of(q, r))->to) {
			r->val = x->to;
			r->off += x->off;
		}
}

enum rlx_status gpu_place_parts(struct gpu_code *c, struct rlx_error *err)
{
	struct parts q = { .c = c, .p = c->base.plan };
	struct gpu_call *call = gpu_calls(c);
	enum rlx_status st = RLX_OK;
	uint32_t i, n = 0;

	q.storage = rlx_calloc(q.p->n_val, sizeof(*q.storage));
	q.value = rlx_calloc(q.p->n_val, sizeof(*q.value));
	q.calls = rlx_calloc((size_t)q.p->n_step + 1, sizeof(*q.calls));
	if (q.storage && q.value && q.calls) {
		note_steps(&q);
		note_calls(&q);
		for (i = 0; i < c->calls.n_call; i++)
			if (!place_joined(&q, &call[i]) && !place_slice(&q, &call[i]))
				call[n++] = call[i];
		c->calls.n_call = n;
		move_refs(&q);
	} else {
		st = rlx_fail(err, RLX_ENOMEM, "%s: out of memory", c->base.dev->be->name);
	}
	rlx_free(q.storage);
	rlx_free(q.value);
	rlx_free(q.calls);
	return st;
}
