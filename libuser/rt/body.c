// SPDX-License-Identifier: MIT
/*
 * Bodies of control flow: the graphs that if, while and scan call, compiled as programs of
 * their own would be, by the same passes and for the same device.
 */
#include "base/alloc.h"
#include "pass/pass.h"
#include "rt/rt.h"

struct rlx_target rlx_device_target(const struct rlx_device *dev)
{
	struct rlx_target t = { 0 };

	if (dev->be->target)
		dev->be->target(dev, &t);
	t.dev = dev->be->supports ? dev : NULL;
	return t;
}

enum rlx_status rlx_build_passes(const struct rlx_build *b, struct rlx_graph *g,
				 struct rlx_graph **out)
{
	struct rlx_pass_ctx c = {
		.target = rlx_device_target(b->plan_for ? b->plan_for : b->dev),
		.precision = b->opts.precision,
		.flags = b->opts.flags, .err = b->err, .report = b->report,
	};

	return rlx_passes_run(&c, &b->opts, g, out);
}

/* What a body captures of constants are constants to it: folded, packed once. */
static enum rlx_status capture_constants(const struct rlx_plan *p, const struct rlx_plan_step *st,
					 const struct rlx_graph *g, struct rlx_graph **out,
					 struct rlx_error *err)
{
	const struct rlx_op_impl *impl = st->def->impl;
	struct rlx_rewrite rw;
	enum rlx_status rc = rlx_rewrite_begin(&rw, g, err);
	uint32_t k, n;

	if (rc)
		return rc;
	for (k = 0; impl->captured && k < st->n_in; k++) {
		const struct rlx_plan_val *v = &p->val[st->in[k]];
		int64_t i = impl->captured(st->args, k);
		struct rlx_blob *b;

		if (i < 0 || !st->in[k] || v->place.kind != RLX_PLACE_CONST || v->place.offset)
			continue;
		b = p->constant[v->place.index];
		if (rlx_blob_bytes(b) == (uint64_t)rlx_type_bytes(&v->type))
			rlx_rewrite_set(&rw, g->io[RLX_IO_INPUT].e[i].v.id,
					rlx_constant_blob(rw.g, v->type, b));
	}
	for (n = 0; n < g->n_node; n++)
		if (rw.live[n])
			rlx_rewrite_copy(&rw, n);
	return rlx_rewrite_end(&rw, out);
}

/* Has @g inputs and outputs as @of? */
static bool is_like(const struct rlx_graph *g, const struct rlx_graph *of)
{
	uint32_t i;
	int io;

	for (io = 0; io < 3; io++) {
		if (g->io[io].n != of->io[io].n)
			return false;
		for (i = 0; i < g->io[io].n; i++)
			if (g->io[io].e[i].state || of->io[io].e[i].state ||
			    !rlx_type_equal(&g->val[g->io[io].e[i].v.id].type,
					    &of->val[of->io[io].e[i].v.id].type))
				return false;
	}
	return true;
}

/* The next graph that has been through the passes, for one that is called. */
static enum rlx_status take_passed(const struct rlx_build *b, const struct rlx_graph *of,
				   struct rlx_graph **out)
{
	enum { MAX_DEPTH = 32 };	/* of calls: twice what the text form nests */
	struct rlx_passed *p = b->passed;

	if (p->at == p->n || p->depth == MAX_DEPTH || !is_like(p->g[p->at], of))
		return rlx_fail(b->err, RLX_EPARSE, "body '%s': of %u graphs the next one is not "
				"its form", of->name, p->n);
	*out = rlx_graph_get(p->g[p->at++]);
	return RLX_OK;
}

static enum rlx_status make_body(const struct rlx_build *b, const struct rlx_plan *around,
				 struct rlx_graph *g, struct rlx_body *body)
{
	struct rlx_graph *with = NULL, *passed = NULL;
	struct rlx_build inner = *b;
	enum rlx_status st = RLX_OK;

	/* a body's outputs are its op's, and it runs as often as that likes */
	inner.opts.flags &= ~(uint32_t)(RLX_COMPILE_EXPERTS | RLX_COMPILE_PLACE);
	if (b->passed) {
		st = take_passed(b, g, &passed);
	} else {
		if (!(b->opts.flags & RLX_COMPILE_NO_SIMPLIFY))
			st = capture_constants(around, &around->step[body->step], g, &with, b->err);
		if (!st)
			st = rlx_build_passes(&inner, with ? with : g, &passed);
	}
	if (!st)
		st = rlx_plan_new(passed, &body->plan, b->err);
	if (b->passed)
		b->passed->depth++;
	if (!st)
		st = rlx_build_code(&inner, body->plan, &body->code);
	if (b->passed)
		b->passed->depth--;
	rlx_graph_put(passed);
	rlx_graph_put(with);
	return st;
}

bool rlx_calls_bodies(const struct rlx_op_def *def)
{
	return def && def->traits & RLX_T_SUBGRAPH && !(def->traits & RLX_T_FUSED);
}

static enum rlx_status make_bodies(const struct rlx_build *b, struct rlx_code *code)
{
	const struct rlx_plan *p = code->plan;
	enum rlx_status st = RLX_OK;
	uint32_t s, f, cap = 0;

	for (s = 0; s < p->n_step; s++) {
		const struct rlx_op_def *def = p->step[s].def;

		for (f = 0; rlx_calls_bodies(def) && f < def->n_field; f++) {
			struct rlx_graph *g;

			if (def->field[f].role != RLX_FIELD_ATTR ||
			    def->field[f].kind != RLX_K_graph)
				continue;
			g = *(struct rlx_graph **)rlx_field_ptr(&def->field[f], p->step[s].args);
			if (!rlx_grow(&code->body, &cap, code->n_body + 1, sizeof(*code->body)))
				return rlx_fail(b->err, RLX_ENOMEM, "compile: out of memory");
			code->body[code->n_body] = (struct rlx_body){ .step = s, .of = g };
			st = make_body(b, p, g, &code->body[code->n_body++]);
			if (st)
				return st;
		}
	}
	return RLX_OK;
}

/* Of a code that the backend has not compiled, or not any more. */
static void drop(struct rlx_code *code)
{
	uint32_t i;

	for (i = 0; i < code->n_body; i++) {
		rlx_code_free(code->body[i].code);
		rlx_plan_free(code->body[i].plan);
	}
	for (i = 0; i < code->n_choice; i++) {
		rlx_free(code->choice[i].problem);
		rlx_free(code->choice[i].what);
	}
	rlx_free(code->choice);
	rlx_free(code->body);
	rlx_free(code->product);
	rlx_free(code->layer);
	rlx_free(code->home);
	rlx_free(code);
}

void rlx_code_free(struct rlx_code *code)
{
	if (!code)
		return;
	code->dev->be->release(code);
	drop(code);
}

enum rlx_status rlx_build_code(const struct rlx_build *b, struct rlx_plan *plan,
			       struct rlx_code **out)
{
	struct rlx_code *code = rlx_calloc(1, b->dev->be->code_size);
	enum rlx_status st = RLX_OK;

	if (!code)
		return rlx_fail(b->err, RLX_ENOMEM, "compile: out of memory");
	code->dev = b->dev;
	code->plan = plan;
	code->store = b->store;
	code->gather = b->gather;
	if (b->store) {
		code->home = rlx_calloc((size_t)plan->n_constant + 1, sizeof(*code->home));
		if (!code->home)
			st = rlx_fail(b->err, RLX_ENOMEM, "compile: out of memory");
	}
	if (!st && b->dev->be->bodies)
		st = make_bodies(b, code);
	if (!st && b->opts.flags & RLX_COMPILE_PLACE)
		st = rlx_experts_find(code, b->err);
	if (!st)
		st = b->dev->be->compile(code, b->opts.flags, b->err);
	if (st) {
		drop(code);
		return st;
	}
	code->gather = NULL;	/* it may be gone before the code is */
	if (code->lacks) {
		rlx_code_free(code);
		return rlx_fail(b->err, RLX_EPARSE, "compile: weights that are needed as they were "
				"are not there: a plan file keeps what was prepared of them alone");
	}
	*out = code;
	return RLX_OK;
}

/* Of the bodies of @code, each before those that it calls. */
static bool list_bodies(const struct rlx_code *code, struct rlx_graph ***g, uint32_t *n,
			uint32_t *cap)
{
	uint32_t i;

	for (i = 0; i < code->n_body; i++) {
		if (!rlx_grow(g, cap, *n + 1, sizeof(**g)))
			return false;
		(*g)[(*n)++] = code->body[i].plan->g;
		if (!list_bodies(code->body[i].code, g, n, cap))
			return false;
	}
	return true;
}

bool rlx_program_graphs(const struct rlx_program *p, struct rlx_graph ***g, uint32_t *n,
			uint32_t *cap)
{
	if (!rlx_grow(g, cap, 1, sizeof(**g)))
		return false;
	(*g)[(*n)++] = p->g;
	return list_bodies(p->code, g, n, cap);
}
