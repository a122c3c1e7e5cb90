// SPDX-License-Identifier: MIT
/*
 * Products with experts of which a session says where they lie. Those that are resident have slots
 * of device memory, whose addresses a table tells the kernel; others are uploaded when rows
 * chose them, by a stream of their own to one of two buffers, and multiplied one by one. Packed
 * ones lie packed in slots and buffers; each becomes floats in the workspace for its product.
 *
 * A product's first pass sorts its rows by expert. How many each has is copied to the host, which
 * waits for that: once for all products of a layer, as they choose by one value.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "base/alloc.h"
#include "kernels/blocks.h"
#include "kernels/gpu/gemm_grouped.h"

enum { BUFFERS = 2 };

/* The experts of a product. */
struct cache {
	const struct rlx_expert_product *product;	/* NULL: it is not placed */
	uint32_t		 val;		/* of the plan: all of them */
	uint32_t		 io;		/* of a param, 1 + its slot; of a constant 0 */
	uint32_t		 experts;
	uint64_t		 bytes;		/* of one */
	uint64_t		*slot;		/* by expert: device memory; 0: none */
	bool			*uploaded;	/* by expert: its bytes are there */
	struct gpu_range	*range;		/* where they are in host memory; NULL: pageable */
	uint64_t		 table;		/* the slots, in device memory */
	bool			 stale;		/* the table is */
};

struct gpu_experts {
	void		*copy_stream;	/* fills buffers */
	void		*filled[BUFFERS], *emptied[BUFFERS];
	uint64_t	 buffer[BUFFERS], most_bytes;	/* of an expert */
	uint32_t	 next_buffer;
	uint64_t	 run;
	bool		 ready;		/* slots are as they were asked for when that was looked at */
	uint64_t	*counted;	/* by layer: the run that its rows are of */
	struct cache	 cache[];	/* by product of the code */
};

/* ---- when compiling ---- */

/* Is input @k of a step what a product like that multiplies by? */
static bool multiplies(const struct rlx_lower *lo, uint32_t step, uint32_t k)
{
	const struct rlx_plan_step *st = &lo->plan->step[step];

	return k == 1 && rlx_expert_product(lo->code, step) &&
	       (st->def->index == RLX_OP_grouped_matmul ||
		st->def->index == RLX_OP_dequant_grouped_matmul);
}

struct rlx_expert_product *gpu_experts_placed(struct rlx_lower *lo)
{
	struct rlx_expert_product *p;
	const struct rlx_place *w;
	uint32_t i, k;

	if (lo->trial)		/* who asks has looked at the graph */
		return lo->code->product;
	p = rlx_expert_product(lo->code, (uint32_t)(lo->st - lo->plan->step));
	if (!p)
		return NULL;
	w = &lo->plan->val[lo->st->in[1]].place;
	if (w->kind != RLX_PLACE_CONST && w->kind != RLX_PLACE_PARAM)
		return NULL;
	/* for whom else reads it all of it is uploaded */
	for (i = 0; i < lo->plan->n_step; i++)
		for (k = 0; k < lo->plan->step[i].n_in; k++) {
			const uint32_t v = lo->plan->step[i].in[k];
			const struct rlx_place *of = &lo->plan->val[v].place;

			if (v && of->kind == w->kind && of->index == w->index &&
			    !multiplies(lo, i, k))
				return NULL;
		}
	return p;
}

void gpu_experts_lowered(struct rlx_lower *lo, struct rlx_expert_product *p, uint32_t before)
{
	struct gpu_code *c = (struct gpu_code *)lo->code;
	const struct rlx_plan_val *w = &lo->plan->val[lo->st->in[1]];
	struct gpu_call *call = gpu_calls(c) + before;

	p->placed = true;
	if (lo->trial || lo->calls->n_call == before)	/* nothing to multiply */
		return;
	if (lo->calls->n_call - before > 1)
		call++->kind = GPU_UNPACK_CALL;
	call->kind = GPU_EXPERTS_CALL;
	call->product = (uint32_t)(p - lo->code->product);
	if (w->type.dim[0] >= c->most_experts)	/* 0 are some, too */
		c->most_experts = (uint32_t)w->type.dim[0] + 1;
	if (w->place.kind == RLX_PLACE_CONST)
		rlx_host_home(lo->code, w->place.index);
}

/* ---- what an exec has ---- */

static enum rlx_status no_memory(struct gpu_exec *x)
{
	return rlx_fail(x->base.err, RLX_ENOMEM, "%s: out of memory", gpu_exec_device(x)->v->name);
}

/* Of a product that some call is. */
static enum rlx_status make_cache(struct gpu_exec *x, uint32_t i)
{
	const struct gpu_code *c = gpu_exec_code(x);
	const struct rlx_expert_product *p = &c->base.product[i];
	struct cache *s = &x->experts->cache[i];
	const struct rlx_plan_val *w;

	s->val = c->base.plan->step[p->step].in[1];
	w = &c->base.plan->val[s->val];
	s->product = p;
	s->experts = (uint32_t)w->type.dim[0];
	if (w->place.kind == RLX_PLACE_PARAM)
		s->io = c->first_io[RLX_IO_PARAM] + w->place.index + 1;
	s->bytes = rlx_plan_bytes(c->base.plan, s->val) / (s->experts ? s->experts : 1);
	s->slot = rlx_calloc(s->experts + 1ul, sizeof(*s->slot));
	s->uploaded = rlx_calloc(s->experts + 1ul, sizeof(*s->uploaded));
	if (!s->slot || !s->uploaded)
		return no_memory(x);
	if (s->bytes > x->experts->most_bytes)
		x->experts->most_bytes = s->bytes;
	s->stale = true;
	return gpu_mem_new(gpu_exec_device(x), s->experts * sizeof(*s->slot), &s->table,
			   x->base.err);
}

enum rlx_status gpu_experts_init(struct gpu_exec *x)
{
	const struct gpu_code *c = gpu_exec_code(x);
	struct gpu_device *d = gpu_exec_device(x);
	enum rlx_status st = RLX_OK;
	struct gpu_experts *e;
	uint32_t i;
	int rc;

	if (!c->most_experts)
		return RLX_OK;
	e = x->experts = rlx_calloc(1, sizeof(*e) + c->base.n_product * sizeof(e->cache[0]));
	if (!e)
		return no_memory(x);
	e->counted = rlx_calloc(c->base.n_layer, sizeof(*e->counted));
	if (!e->counted)
		return no_memory(x);
	rc = d->api->stream_new(&e->copy_stream, GPU_STREAM_APART);
	for (i = 0; i < BUFFERS && !rc; i++) {
		rc = d->api->event_new(&e->filled[i], GPU_EVENT_PLAIN);
		if (!rc)
			rc = d->api->event_new(&e->emptied[i], GPU_EVENT_PLAIN);
	}
	st = gpu_check(d, rc, "making a stream", x->base.err);
	for (i = 0; i < c->calls.n_call && !st; i++)
		if (gpu_calls(c)[i].kind == GPU_EXPERTS_CALL)
			st = make_cache(x, gpu_calls(c)[i].product);
	return st;
}

void gpu_experts_fini(struct gpu_exec *x)
{
	struct gpu_device *d = gpu_exec_device(x);
	struct gpu_experts *e = x->experts;
	uint32_t i, k;

	if (!e)
		return;
	for (i = 0; i < gpu_exec_code(x)->base.n_product; i++) {
		struct cache *s = &e->cache[i];

		for (k = 0; s->slot && k < s->experts; k++)
			gpu_mem_free(d, s->slot[k]);
		gpu_mem_free(d, s->table);
		gpu_range_put(d, s->range);
		rlx_free(s->slot);
		rlx_free(s->uploaded);
	}
	for (i = 0; i < BUFFERS; i++) {
		gpu_mem_free(d, e->buffer[i]);
		if (e->filled[i])
			d->api->event_free(e->filled[i]);
		if (e->emptied[i])
			d->api->event_free(e->emptied[i]);
	}
	if (e->copy_stream)
		d->api->stream_free(e->copy_stream);
	rlx_free(e->counted);
	rlx_free(e);
	x->experts = NULL;
}

/* ---- before a run: slots as they were asked for ---- */

static struct rlx_placement *placement_of(struct gpu_exec *x, const struct cache *s)
{
	return &x->base.placement[s->product->layer];
}

/* Experts of a layer count once, not in each of its products. */
static bool counts(const struct gpu_exec *x, const struct cache *s)
{
	const struct rlx_code *c = x->base.code;

	return s->product == &c->product[c->layer[s->product->layer].first];
}

/* A slot whose expert is to go; experts if there is none. */
static uint32_t evictable(const struct cache *s, const bool *resident, uint32_t from)
{
	while (from < s->experts && (!s->slot[from] || resident[from]))
		from++;
	return from;
}

/* Slots of those that go pass to those that come, as far as these are as many. */
static void evict(struct gpu_exec *x, struct cache *s)
{
	struct rlx_placement *p = placement_of(x, s);
	uint32_t e, from = evictable(s, p->resident, 0);

	for (e = 0; from < s->experts; from = evictable(s, p->resident, from)) {
		while (e < s->experts && (s->slot[e] || !p->resident[e]))
			e++;
		if (e < s->experts) {
			s->slot[e] = s->slot[from];
			p->stats.promoted += counts(x, s);
		} else {
			gpu_mem_free(gpu_exec_device(x), s->slot[from]);
		}
		p->stats.demoted += counts(x, s);
		s->slot[from] = 0;
		s->uploaded[from] = false;
		s->stale = true;
	}
}

static enum rlx_status no_room(struct gpu_exec *x, const struct cache *s, uint32_t e,
			       const struct rlx_error *why)
{
	const struct rlx_expert_layer *l = &x->base.code->layer[s->product->layer];
	const struct rlx_plan_step *st = &x->base.code->plan->step[s->product->step];

	rlx_error_set(x->base.err, why->status, st->file, st->line, "experts of layer %u (%s): no "
		      "%llu bytes of device memory for expert %u; place fewer of them "
		      "(rlx_moe_place()): %.100s", s->product->layer,
		      l->name ? l->name : "a constant", (unsigned long long)s->bytes, e, why->text);
	return why->status;
}

static enum rlx_status make_slots(struct gpu_exec *x, struct cache *s)
{
	struct rlx_placement *p = placement_of(x, s);
	struct rlx_error why = { 0 };
	uint32_t e;

	for (e = 0; e < s->experts && s->bytes; e++) {
		if (s->slot[e] || !p->resident[e])
			continue;
		if (gpu_mem_new(gpu_exec_device(x), s->bytes, &s->slot[e], &why))
			return no_room(x, s, e, &why);
		p->stats.promoted += counts(x, s);
		s->stale = true;
	}
	return RLX_OK;
}

/* A param that was bound, or may hold something else. */
static void check_param(struct gpu_exec *x, struct cache *s)
{
	struct gpu_range *old = s->range;

	if (!s->io || !x->slot[s->io - 1].changed)
		return;
	memset(s->uploaded, false, s->experts);
	s->range = gpu_range_get(gpu_exec_device(x),
				 x->base.arena[RLX_IO_PARAM][s->io - 1 -
				 gpu_exec_code(x)->first_io[RLX_IO_PARAM]]);
	gpu_range_put(gpu_exec_device(x), old);
}

static int upload(struct gpu_exec *x, const struct cache *s, uint32_t e, uint64_t to, void *stream)
{
	const char *from = rlx_host_ptr(&x->base, s->val);

	if (!s->bytes)
		return 0;
	gpu_count_in(x, s->bytes);
	if (!s->range)
		x->base.copied += s->bytes;
	return gpu_exec_device(x)->api->copy_in(to, from + e * s->bytes, s->bytes, stream);
}

/* What is in slots, and the table of them. */
static enum rlx_status upload_all(struct gpu_exec *x, struct cache *s)
{
	struct gpu_device *d = gpu_exec_device(x);
	uint32_t e;
	int rc = 0;

	for (e = 0; e < s->experts && !rc; e++) {
		if (!s->slot[e] || s->uploaded[e])
			continue;
		rc = upload(x, s, e, s->slot[e], x->stream);
		s->uploaded[e] = !rc;
	}
	if (!rc && s->stale)
		rc = d->api->copy_in(s->table, s->slot, s->experts * sizeof(*s->slot), x->stream);
	s->stale = s->stale && rc;
	return gpu_check(d, rc, "copying experts in", x->base.err);
}

/* Only who streams has buffers for that. */
static enum rlx_status make_buffers(struct gpu_exec *x)
{
	struct gpu_experts *e = x->experts;
	const struct rlx_code *c = x->base.code;
	enum rlx_status st = RLX_OK;
	bool all = true;
	uint32_t i, k;

	for (i = 0; i < c->n_layer && all; i++)
		for (k = 0; k < c->layer[i].experts && all; k++)
			all = x->base.placement[i].resident[k];
	for (i = 0; i < BUFFERS && !all && !st; i++)
		if (!e->buffer[i])
			st = gpu_mem_new(gpu_exec_device(x), e->most_bytes, &e->buffer[i],
					 x->base.err);
	return st;
}

/* Is all as the last run had it: no layer placed anew, no param bound? */
static bool is_ready(const struct gpu_exec *x)
{
	const struct rlx_code *c = x->base.code;
	const struct cache *s = x->experts->cache;
	bool ready = x->experts->ready;
	uint32_t i;

	for (i = 0; i < c->n_layer && ready; i++)
		ready = !x->base.placement[i].changed;
	for (i = 0; i < c->n_product && ready; i++)
		ready = !s[i].product || !s[i].io || !x->slot[s[i].io - 1].changed;
	return ready;
}

enum rlx_status gpu_experts_prepare(struct gpu_exec *x)
{
	struct gpu_experts *e = x->experts;
	enum rlx_status st = RLX_OK;
	struct cache *s, *end;
	uint32_t i;

	if (!e)
		return RLX_OK;
	e->run++;
	if (is_ready(x))
		return RLX_OK;
	e->ready = false;
	for (i = 0; i < x->base.code->n_layer; i++)
		x->base.placement[i].changed = false;
	end = e->cache + x->base.code->n_product;
	for (s = e->cache; s < end; s++)
		if (s->product) {
			check_param(x, s);
			evict(x, s);
		}
	for (s = e->cache; s < end; s++)	/* whoever reads it has seen it */
		if (s->product && s->io)
			x->slot[s->io - 1].changed = false;
	st = make_buffers(x);
	for (s = e->cache; s < end && !st; s++)
		if (s->product)
			st = make_slots(x, s);
	for (s = e->cache; s < end && !st; s++)
		if (s->product)
			st = upload_all(x, s);
	e->ready = !st;
	return st;
}

/* ---- the product ---- */

/* How many rows each expert has, as the first pass of @call left it in its scratch. */
static enum rlx_status count(struct gpu_exec *x, const struct gpu_call *call, struct cache *s)
{
	struct rlx_placement *p = placement_of(x, s);
	struct gpu_device *d = gpu_exec_device(x);
	uint32_t *end = gpu_count_words(x), e;
	uint64_t from = x->work + call->scratch_at + sizeof(uint32_t);
	int rc;

	if (x->experts->counted[s->product->layer] == x->experts->run)
		return RLX_OK;
	rc = d->api->copy_out(end, from, s->experts * sizeof(*end), x->stream);
	if (!rc)
		rc = d->api->stream_wait(x->stream);
	if (rc)
		return gpu_check(d, rc, "copying counts of rows out", x->base.err);
	for (e = 0; e < s->experts; e++)
		p->rows[e] = end[e] - (e ? end[e - 1] : 0);
	rlx_placement_count(p, s->experts, p->resident);
	x->experts->counted[s->product->layer] = x->experts->run;
	return RLX_OK;
}

/* Is what is at @call behind one that unpacks an expert for it? */
static bool is_packed(const struct gpu_exec *x, const struct gpu_call *call)
{
	return call > gpu_calls(gpu_exec_code(x)) && call[-1].kind == GPU_UNPACK_CALL;
}

/* By the one that is at @at; what is there has been read when @read is reached. */
static enum rlx_status multiply(struct gpu_exec *x, const struct gpu_call *call, uint64_t at,
				uint32_t expert, struct rlx_g_grouped *a, void *read)
{
	const struct gpu_call *unpack = call - 1;
	struct gpu_device *d = gpu_exec_device(x);
	struct rlx_k_dequant_blocks u;
	enum rlx_status st = RLX_OK;
	int rc = 0;

	if (is_packed(x, call)) {
		memcpy(&u, x->image + unpack->base.args, sizeof(u));
		u.x = (const void *)(uintptr_t)at;
		st = gpu_launch_pass(x, unpack, &u, 0);
		if (!st && read)
			rc = d->api->event_record(read, x->stream);
	} else {
		a->g.b = (const void *)(uintptr_t)at;
	}
	a->only = expert + 1;
	if (!st && !rc)
		st = gpu_launch_pass(x, call, a, 1);
	if (!st && !rc && read && !is_packed(x, call))
		rc = d->api->event_record(read, x->stream);
	return st ? st : gpu_check(d, rc, "copying an expert in", x->base.err);
}

/* One that is not resident: the buffer's last reader, the copy and the product take turns. */
static enum rlx_status stream_one(struct gpu_exec *x, const struct gpu_call *call,
				  const struct cache *s, uint32_t expert, struct rlx_g_grouped *a)
{
	const uint32_t k = x->experts->next_buffer++ % BUFFERS;
	struct rlx_placement *p = placement_of(x, s);
	struct gpu_device *d = gpu_exec_device(x);
	struct gpu_experts *e = x->experts;
	int rc = d->api->stream_after(e->copy_stream, e->emptied[k], 0);

	if (!rc)
		rc = upload(x, s, expert, e->buffer[k], e->copy_stream);
	if (!rc)
		rc = d->api->event_record(e->filled[k], e->copy_stream);
	if (!rc)
		rc = d->api->stream_after(x->stream, e->filled[k], 0);
	if (rc)
		return gpu_check(d, rc, "copying an expert in", x->base.err);
	p->stats.streamed++;
	p->stats.streamed_bytes += s->bytes;
	return multiply(x, call, e->buffer[k], expert, a, e->emptied[k]);
}

/* Those that have slots: floats by one launch, packed ones one by one. */
static enum rlx_status multiply_resident(struct gpu_exec *x, const struct gpu_call *call,
					 const struct cache *s, struct rlx_g_grouped *a)
{
	const struct rlx_placement *p = placement_of(x, s);
	enum rlx_status st = RLX_OK;
	bool any = false;
	uint32_t e;

	for (e = 0; e < s->experts && !st; e++) {
		if (!p->rows[e] || !s->slot[e])
			continue;
		any = true;
		if (is_packed(x, call))
			st = multiply(x, call, s->slot[e], e, a, NULL);
	}
	if (st || !any || is_packed(x, call))
		return st;
	a->where = (const uint64_t *)(uintptr_t)s->table;
	st = gpu_launch_pass(x, call, a, 1);
	a->where = NULL;
	return st;
}

enum rlx_status gpu_run_experts(struct gpu_exec *x, const struct gpu_call *call)
{
	struct cache *s = &x->experts->cache[call->product];
	const struct rlx_placement *p = placement_of(x, s);
	enum rlx_status st;
	struct rlx_g_grouped a;
	uint32_t e;

	memcpy(&a, x->image + call->base.args, sizeof(a));
	a.g.b_step[0] = 0;	/* matrices lie apart */
	st = gpu_launch_pass(x, call, &a, 0);
	if (!st)
		st = count(x, call, s);
	if (!st)
		st = multiply_resident(x, call, s, &a);
	for (e = 0; e < s->experts && !st; e++)
		if (p->rows[e] && !s->slot[e])
			st = stream_one(x, call, s, e, &a);
	return st;
}

void gpu_experts_settle(struct gpu_exec *x)
{
	if (x->experts)		/* what it says has been said */
		gpu_exec_device(x)->api->stream_wait(x->experts->copy_stream);
}
