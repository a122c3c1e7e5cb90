// SPDX-License-Identifier: MIT
/* A session on a PJRT device, and the run: segments one after the other. */
#include <string.h>

#include "backends/pjrt/pjrt.h"
#include "base/alloc.h"
#include "base/clock.h"

static const struct pjrt_code *code_of(const struct pjrt_exec *x)
{
	return (const struct pjrt_code *)x->base.code;
}

static const struct pjrt_plugin *plugin_of(const struct pjrt_exec *x)
{
	return pjrt_plugin_of(x->base.code);
}

/* ---- sessions ---- */

enum rlx_status pjrt_init(struct rlx_exec *exec)
{
	struct pjrt_exec *x = (struct pjrt_exec *)exec;
	const struct pjrt_code *c = code_of(x);
	const struct rlx_plan *p = exec->code->plan;

	x->param = rlx_calloc(p->n_io[RLX_IO_PARAM] + 1, sizeof(*x->param));
	x->input = rlx_calloc(p->n_io[RLX_IO_INPUT] + 1, sizeof(*x->input));
	x->in = rlx_calloc(c->most_in + 1, sizeof(*x->in));
	x->own = rlx_calloc(c->most_in + 1, sizeof(*x->own));
	x->out = rlx_calloc(c->most_out + 1, sizeof(*x->out));
	x->event = rlx_calloc(c->most_out + 1, sizeof(*x->event));
	x->tensors = rlx_calloc(c->most_tensors, sizeof(*x->tensors));
	x->extent.leads = rlx_calloc(p->n_val, 1);
	if (x->param && x->input && x->in && x->own && x->out && x->event && x->tensors &&
	    x->extent.leads)
		return RLX_OK;
	pjrt_fini(exec);
	return rlx_fail(exec->err, RLX_ENOMEM, "pjrt: out of memory");
}

static void drop_persistent(struct pjrt_exec *x, struct pjrt_persistent *k)
{
	pjrt_destroy(plugin_of(x), PJRT_BUFFER_DESTROY, k->buffer);
	*k = (struct pjrt_persistent){ 0 };
}

void pjrt_fini(struct rlx_exec *exec)
{
	struct pjrt_exec *x = (struct pjrt_exec *)exec;
	uint32_t i;

	for (i = 0; x->param && i < exec->code->plan->n_io[RLX_IO_PARAM]; i++)
		drop_persistent(x, &x->param[i]);
	for (i = 0; x->input && i < exec->code->plan->n_io[RLX_IO_INPUT]; i++)
		drop_persistent(x, &x->input[i]);
	rlx_free(x->param);
	rlx_free(x->input);
	rlx_free(x->in);
	rlx_free(x->own);
	rlx_free(x->out);
	rlx_free(x->event);
	rlx_free(x->tensors);
	rlx_free(x->extent.leads);
	x->param = x->input = NULL;
	x->in = x->out = NULL;
	x->own = NULL;
	x->event = NULL;
	x->tensors = NULL;
	x->extent.leads = NULL;
}

/* What is bound is looked up by each run; a buffer may be of memory that goes. */
void pjrt_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	struct pjrt_exec *x = (struct pjrt_exec *)exec;

	if (io != RLX_IO_OUTPUT)
		drop_persistent(x, io == RLX_IO_PARAM ? &x->param[i] : &x->input[i]);
}

bool pjrt_has(const struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	const struct pjrt_exec *x = (const struct pjrt_exec *)exec;
	const struct pjrt_persistent *k = io == RLX_IO_PARAM ? &x->param[i] : &x->input[i];

	return io != RLX_IO_OUTPUT && k->buffer && !k->in_place &&
	       (io == RLX_IO_PARAM || k->version == rlx_input_version(exec, i));
}

/* ---- what a module takes ---- */

static void count(struct pjrt_exec *x, bool in, uint64_t bytes)
{
	struct rlx_transfers *t = &x->base.moved;

	*(in ? &t->in : &t->out) += 1;
	*(in ? &t->in_bytes : &t->out_bytes) += bytes;
	if (plugin_of(x)->is_cpu)
		x->base.copied += bytes;
}

static enum rlx_status import_value(struct pjrt_exec *x, uint32_t v, struct pjrt_buffer **out,
				    bool *in_place)
{
	const struct rlx_plan *p = x->base.code->plan;
	enum rlx_status st = pjrt_import(plugin_of(x), &p->val[v].type,
					 rlx_host_ptr(&x->base, v), out, in_place, x->base.err);

	if (!st && !*in_place && rlx_plan_bytes(p, v))
		count(x, true, rlx_plan_bytes(p, v));
	return st;
}

/* Where value @v stays for later runs; NULL: it does not. */
static struct pjrt_persistent *persistent_of(struct pjrt_exec *x, uint32_t v)
{
	const struct rlx_plan *p = x->base.code->plan;
	const struct rlx_place *at = &p->val[v].place;
	struct pjrt_persistent *k;

	if (at->kind == RLX_PLACE_PARAM)
		return &x->param[at->index];
	if (at->kind != RLX_PLACE_INPUT || v != p->io[RLX_IO_INPUT][at->index].val)
		return NULL;
	k = &x->input[at->index];
	if (k->version != rlx_input_version(&x->base, at->index))
		drop_persistent(x, k);
	k->version = rlx_input_version(&x->base, at->index);
	return k->version ? k : NULL;
}

static enum rlx_status take_inputs(struct pjrt_exec *x, const struct pjrt_module *m)
{
	const struct rlx_plan *p = x->base.code->plan;
	enum rlx_status st = RLX_OK;
	struct pjrt_buffer **kept;
	struct pjrt_persistent *k;
	bool in_place;
	uint32_t i;

	for (i = 0; i < m->n_in && !st; i++) {
		const struct rlx_place *at = &p->val[m->in[i]].place;

		k = persistent_of(x, m->in[i]);
		kept = at->kind == RLX_PLACE_CONST ? &code_of(x)->weight[at->index] :
		       k ? &k->buffer : NULL;
		x->own[i] = !kept;
		if (!kept)
			st = import_value(x, m->in[i], &x->in[i], &in_place);
		else if (!*kept)
			st = import_value(x, m->in[i], kept, k ? &k->in_place : &in_place);
		if (!st && kept)
			x->in[i] = *kept;
	}
	return st;
}

static void let_go(struct pjrt_exec *x, const struct pjrt_module *m)
{
	uint32_t i;

	for (i = 0; i < m->n_in; i++) {
		if (x->own[i])
			pjrt_destroy(plugin_of(x), PJRT_BUFFER_DESTROY, x->in[i]);
		x->in[i] = NULL;
		x->own[i] = false;
	}
	for (i = 0; i < m->n_out + 2 * m->n_check; i++) {
		pjrt_destroy(plugin_of(x), PJRT_BUFFER_DESTROY, x->out[i]);
		x->out[i] = NULL;
	}
}

static enum rlx_status execute(struct pjrt_exec *x, const struct pjrt_module *m)
{
	struct pjrt_buffer *const *in[1] = { x->in };
	struct pjrt_buffer **out[1] = { x->out };
	struct pjrt_event *done[1] = { NULL };
	struct pjrt_execute_options o = { .head = PJRT_HEAD(o, incarnation) };
	struct pjrt_execute a = {
		.head = PJRT_HEAD(a, device), .program = m->program, .options = &o, .in = in,
		.n_device = 1, .n_in = m->n_in, .out = out, .done = done,
	};
	enum rlx_status st = pjrt_call(plugin_of(x), PJRT_LOADED_EXECUTE, &a, "a run", x->base.err);

	return st ? st : pjrt_await(plugin_of(x), done[0], "a run", x->base.err);
}

/* ---- what a module gives ---- */

static enum rlx_status fetch(struct pjrt_exec *x, struct pjrt_buffer *b, const struct rlx_type *t,
			     void *to)
{
	struct pjrt_event *e;
	enum rlx_status st = pjrt_export(plugin_of(x), b, t, to, &e, x->base.err);

	return st ? st : pjrt_await(plugin_of(x), e, "copying from the device", x->base.err);
}

/* Which of the indices of check @i are outside, of those that carry data? */
static enum rlx_status look_at_each(struct pjrt_exec *x, const struct pjrt_module *m, uint32_t i)
{
	const struct pjrt_check *c = &m->check[i];
	const struct rlx_checked checked = { .n = c->n, .step = c->step };
	const struct rlx_type t = rlx_type(RLX_BOOL, c->n);
	int64_t n = rlx_extent_checked(&x->base, x->extent.leads, &checked), k;
	uint8_t *each = rlx_malloc((size_t)c->n + 1);
	enum rlx_status st;

	if (!each)
		return rlx_fail(x->base.err, RLX_ENOMEM, "pjrt: out of memory");
	st = fetch(x, x->out[m->n_out + 2 * i + 1], &t, each);
	for (k = 0; k < n && !st; k++)
		if (each[k])
			st = rlx_lower_bad_data(&x->base.code->plan->step[c->step], x->base.err);
	rlx_free(each);
	return st;
}

static enum rlx_status look_for_bad(struct pjrt_exec *x, const struct pjrt_module *m)
{
	const struct rlx_type t = rlx_scalar(RLX_BOOL);
	enum rlx_status st = RLX_OK;
	uint8_t bad;
	uint32_t i;

	for (i = 0; i < m->n_check && !st; i++) {
		if (x->base.skip && x->base.skip[m->check[i].step])
			continue;
		st = fetch(x, x->out[m->n_out + 2 * i], &t, &bad);
		if (!st && bad)
			st = look_at_each(x, m, i);
	}
	return st;
}

/* Of an output with rows that carry no data the others alone are written. */
static enum rlx_status fetch_part(struct pjrt_exec *x, struct pjrt_buffer *b, uint32_t v,
				  uint64_t bytes)
{
	const struct rlx_plan *p = x->base.code->plan;
	void *all = rlx_aligned(64, rlx_plan_bytes(p, v));
	enum rlx_status st;

	if (!all)
		return rlx_fail(x->base.err, RLX_ENOMEM, "pjrt: out of memory");
	st = fetch(x, b, &p->val[v].type, all);
	if (!st)
		memcpy(rlx_host_ptr(&x->base, v), all, bytes);
	rlx_free(all);
	return st;
}

static enum rlx_status begin_fetch(struct pjrt_exec *x, const struct pjrt_module *m, uint32_t i)
{
	const struct rlx_plan *p = x->base.code->plan;
	const uint32_t v = m->out[i];
	const uint64_t all = rlx_plan_bytes(p, v);
	uint64_t bytes = rlx_extent_of(&x->base, x->extent.leads, v, all);
	void *to = rlx_host_ptr(&x->base, v);

	if (!all || !to || (x->base.skip && x->base.skip[m->writer[i]]))
		return RLX_OK;
	count(x, false, all);
	if (bytes < all)
		return fetch_part(x, x->out[i], v, bytes);
	return pjrt_export(plugin_of(x), x->out[i], &p->val[v].type, to, &x->event[i],
			   x->base.err);
}

/* All are on their way at once. */
static enum rlx_status fetch_results(struct pjrt_exec *x, const struct pjrt_module *m)
{
	enum rlx_status st = RLX_OK, ended;
	uint32_t i;

	for (i = 0; i < m->n_out && !st; i++)
		st = begin_fetch(x, m, i);
	for (i = 0; i < m->n_out; i++) {
		ended = pjrt_await(plugin_of(x), x->event[i], "copying from the device",
				   st ? NULL : x->base.err);
		x->event[i] = NULL;
		st = st ? st : ended;
	}
	return st;
}

/* ---- runs ---- */

static bool is_skipped(const struct pjrt_exec *x, const struct pjrt_module *m)
{
	uint32_t i;

	for (i = 0; x->base.skip && i < m->n_step; i++)
		if (!x->base.skip[m->step[i]])
			return false;
	return x->base.skip || !m->program;
}

static enum rlx_status run_module(struct pjrt_exec *x, const struct pjrt_module *m)
{
	enum rlx_status st;

	if (is_skipped(x, m) || !m->program)
		return RLX_OK;
	st = take_inputs(x, m);
	if (!st)
		st = execute(x, m);
	if (!st)
		st = look_for_bad(x, m);
	if (!st)
		st = fetch_results(x, m);
	let_go(x, m);
	return st;
}

enum rlx_status pjrt_submit(struct rlx_exec *exec, bool away, uint64_t *out_point)
{
	struct pjrt_exec *x = (struct pjrt_exec *)exec;
	const struct pjrt_code *c = code_of(x);
	uint64_t at = exec->step_ns ? rlx_now() : 0;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	(void)away;
	(void)out_point;
	rlx_extent_changes(exec, &x->extent);
	for (i = 0; i < c->n_segment && !st; i++) {
		const struct pjrt_segment *s = &c->segment[i];

		if (s->module)
			st = run_module(x, s->module);
		else if (!exec->skip || !exec->skip[s->step])
			st = rlx_host_step(exec, x->extent.leads, &exec->code->plan->step[s->step],
					   (char *)exec->work + c->host_at, x->tensors);
		if (exec->step_ns)
			at = rlx_host_step_time(exec, s->step, at);
	}
	return st;
}
