// SPDX-License-Identifier: MIT
/*
 * Control flow: the op's own evaluation says which of its graphs runs when and on which
 * tensors, as on every device. Here each is a compiled body, with an exec of its own whose
 * workspace is part of the one around it; bodies of one plan never run at once, and share it.
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"

/* Inputs that are more than handed on to every body. */
static uint32_t own_inputs(const struct rlx_plan_step *st)
{
	const struct rlx_op_while *w = st->args;
	const struct rlx_op_scan *s = st->args;

	switch (st->def->index) {
	case RLX_OP_while:
		return (uint32_t)w->n_carry;
	case RLX_OP_scan:
		return (uint32_t)(s->n_carry + s->n_xs);
	case RLX_OP_custom:
		return st->n_in;
	}
	return 1;
}

static bool body_reads(const struct rlx_plan *p, uint32_t input)
{
	uint32_t v = p->io[RLX_IO_INPUT][input].val, s, i;

	for (s = 0; s < p->n_step; s++)
		for (i = 0; i < p->step[s].n_in; i++)
			if (p->step[s].in[i] && p->val[p->step[s].in[i]].root == v)
				return true;
	return false;
}

uint32_t cpu_first_body(const struct rlx_code *code, uint32_t step)
{
	uint32_t lo = 0, hi = code->n_body, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (code->body[mid].step < step)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool cpu_control_reads(const struct rlx_lower *lo, uint32_t k)
{
	const struct rlx_code *code = lo->code;
	uint32_t step = (uint32_t)(lo->st - lo->plan->step), i;

	if (k < own_inputs(lo->st))
		return true;
	for (i = cpu_first_body(code, step); i < code->n_body && code->body[i].step == step; i++)
		if (body_reads(code->body[i].plan, k - (lo->st->def->index == RLX_OP_if)))
			return true;
	return false;
}

static enum rlx_status control(struct rlx_lower *lo)
{
	return lo->ops->host_fallback(lo, RLX_CALL_CONTROL);
}

#define CONTROL(op)							\
enum rlx_status cpu_lower_##op(struct rlx_lower *lo)			\
{									\
	return control(lo);						\
}
CONTROL(if)
CONTROL(while)
CONTROL(scan)
/* No graphs, but an evaluation that is the op's own all the same. */
CONTROL(all_reduce)
CONTROL(reduce_scatter)
CONTROL(all_gather)
CONTROL(own_part)
/* The program's own function is what a CPU runs. */
CONTROL(custom)

enum rlx_status cpu_add_bodies(struct rlx_code *code, struct rlx_error *err)
{
	char name[sizeof(code->on_host)];
	const char *at;
	uint32_t i;
	size_t n;

	for (i = 0; i < code->n_body; i++) {
		const struct rlx_code *c = code->body[i].code;

		code->native += c->native;
		code->host += c->host;
		if (!cpu_packed_add((struct cpu_code *)code, (const struct cpu_code *)c))
			return rlx_fail(err, RLX_ENOMEM, "cpu: out of memory");
		code->pack_ns += c->pack_ns;
		for (at = c->on_host; *at; at += n + strspn(at + n, ", ")) {
			n = strcspn(at, ",");
			snprintf(name, sizeof(name), "%.*s", (int)n, at);
			rlx_note_on_host(code, name);
		}
	}
	return RLX_OK;
}

/* An exec and its lists of addresses, in one block. NULL: no memory. */
static struct cpu_exec *body_new(const struct cpu_exec *x, const struct rlx_code *code)
{
	const struct cpu_code *around = (const struct cpu_code *)x->base.code;
	const uint32_t *n = code->plan->n_io;
	struct cpu_exec *b = rlx_calloc(1, sizeof(*b) + ((size_t)n[RLX_IO_INPUT] +
					n[RLX_IO_OUTPUT]) * sizeof(void *));

	if (!b)
		return NULL;
	b->base.code = code;
	b->base.work = (char *)x->base.work + around->body_at;
	b->base.work_arena = x->base.work_arena;
	b->base.ptr[RLX_IO_INPUT] = (void **)(b + 1);
	b->base.ptr[RLX_IO_OUTPUT] = b->base.ptr[RLX_IO_INPUT] + n[RLX_IO_INPUT];
	b->base.err = x->base.err;
	if (!cpu_init(&b->base))
		return b;
	rlx_free(b);
	return NULL;
}

bool cpu_bodies_init(struct cpu_exec *x)
{
	const struct rlx_code *code = x->base.code;
	uint32_t i;

	if (!code->n_body)
		return true;
	x->body = rlx_calloc(code->n_body, sizeof(*x->body));
	if (!x->body)
		return false;
	for (i = 0; i < code->n_body; i++) {
		x->body[i] = body_new(x, code->body[i].code);
		if (!x->body[i])
			return false;
	}
	return true;
}

void cpu_bodies_fini(struct cpu_exec *x)
{
	uint32_t i;

	for (i = 0; x->body && i < x->base.code->n_body; i++) {
		if (x->body[i])
			cpu_fini(&x->body[i]->base);
		rlx_free(x->body[i]);
	}
	rlx_free(x->body);
	x->body = NULL;
}

/* Calls give most tensors where the last one had them. */
static void bind_tensors(struct cpu_exec *b, enum rlx_io io, const struct rlx_tensor *t)
{
	uint32_t n = b->base.code->plan->n_io[io], i;

	for (i = 0; i < n; i++) {
		if (b->base.ptr[io][i] == t[i].data)
			continue;
		b->base.ptr[io][i] = t[i].data;
		cpu_bind(&b->base, io, i);
	}
}

struct caller {
	struct cpu_exec	*x;
	uint32_t	 body;		/* the step's first one */
};

static enum rlx_status call_body(struct rlx_eval *q, const struct rlx_graph *sub,
				 const struct rlx_tensor *in, struct rlx_tensor *out)
{
	const struct caller *c = q->call_ctx;
	uint32_t i = c->body;
	struct cpu_exec *b;
	uint64_t point;

	while (c->x->base.code->body[i].of != sub)
		i++;
	b = c->x->body[i];
	bind_tensors(b, RLX_IO_INPUT, in);
	bind_tensors(b, RLX_IO_OUTPUT, out);
	b->base.err = q->err;
	return cpu_submit(&b->base, false, &point);
}

static void put_tensors(const struct cpu_exec *x, const uint32_t *v, uint32_t n,
			struct rlx_tensor *t)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		t[i].type = x->base.code->plan->val[v[i]].type;
		t[i].data = rlx_host_ptr(&x->base, v[i]);
	}
}

/* Not by rlx_op_eval(), which may allocate. */
enum rlx_status cpu_run_control(struct cpu_exec *x, const struct cpu_call *call)
{
	const struct cpu_code *c = (const struct cpu_code *)x->base.code;
	const struct rlx_plan_step *st = &c->base.plan->step[call->base.step];
	struct caller caller = { x, call->body };
	struct rlx_eval q = {
		.err = x->base.err, .def = st->def, .args = st->args,
		.n_in = st->n_in, .n_out = st->n_out, .in = x->tensors,
		.out = x->tensors + st->n_in, .scratch = (char *)x->base.work + c->host_at,
		.call = call_body, .call_ctx = &caller, .collective = x->base.collective,
	};

	put_tensors(x, st->in, st->n_in, x->tensors);
	put_tensors(x, st->out, st->n_out, q.out);
	return rlx_host_ended(&x->base, st, st->def->impl->eval(&q));
}
