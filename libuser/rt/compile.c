// SPDX-License-Identifier: MIT
/* The pipeline from a graph to a program: passes, plan, backend. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "ir/graph.h"
#include "rt/policy.h"
#include "rt/trace.h"

/* The passes, the plan and the code, with the bodies of control flow. */
static enum rlx_status build(struct rlx_program *p, const struct rlx_compile_opts *o,
			     struct rlx_graph *g, struct rlx_error *err)
{
	struct rlx_build b = { .dev = p->dev, .store = p->store, .opts = *o, .err = err };
	size_t len = 0;
	enum rlx_status st = RLX_OK;

	b.report = open_memstream(&p->fused, &len);
	/* what rounds and what adds up is a matter of the plan: strict bits are those of one */
	if (o->flags & RLX_COMPILE_STRICT_BITS && strcmp(p->dev->be->name, "cpu"))
		st = rlx_device_get("cpu", 1, &b.plan_for, err);
	if (!st)
		st = rlx_build_passes(&b, g, &p->g);
	b.opts.dump = NULL;	/* the graph that was given is its caller's, no body */
	if (!st)
		st = rlx_plan_new(p->g, &p->plan, err);
	if (!st)
		st = rlx_build_code(&b, p->plan, &p->code);
	if (b.report)
		fclose(b.report);
	rlx_device_put(b.plan_for);
	return st;
}

/* The same without the passes. */
static enum rlx_status build_passed(struct rlx_program *p, const struct rlx_compile_opts *o,
				    struct rlx_passed *passed, struct rlx_error *err)
{
	struct rlx_build b = { .dev = p->dev, .store = p->store, .opts = *o, .err = err,
			       .passed = passed };
	enum rlx_status st;

	p->g = rlx_graph_get(passed->g[0]);
	passed->at = 1;
	st = rlx_plan_new(p->g, &p->plan, err);
	if (!st)
		st = rlx_build_code(&b, p->plan, &p->code);
	if (!st && passed->at != passed->n)
		st = rlx_fail(err, RLX_EPARSE, "compile: of %u graphs %u are called by none",
			      passed->n, passed->n - passed->at);
	return st;
}

/* A slow path tells its user. */
static void warn_of_host(const struct rlx_program *p)
{
	const struct rlx_code *c = p->code;

	if (c->host)
		rlx_log(RLX_LOG_WARN,
			"%s: %u of %u steps run by the reference evaluator, which is slow%s: %s; "
			"'rlx ops' tells why, and RLX_COMPILE_NATIVE refuses such a program",
			p->dev->name, c->host, p->info.steps,
			c->crossing ? ", and wait for copies from and to the device" : "",
			c->on_host);
}

static void add_costs(struct rlx_program *p)
{
	struct rlx_cost c;
	uint32_t i;

	for (i = 0; i < p->plan->n_step; i++) {
		if (!p->plan->step[i].def)
			continue;
		c = rlx_plan_cost(p->plan, &p->plan->step[i]);
		p->info.flops += c.flops;
		p->info.bytes += c.bytes;
	}
}

/* @bytes more, or what no arena has. */
static void add_bytes(uint64_t *n, uint64_t bytes)
{
	if (__builtin_add_overflow(*n, bytes, n) || *n > INT64_MAX)
		*n = INT64_MAX;
}

/* Each tensor at a multiple of 64, wherever the arena begins to be free. */
static uint64_t session_bytes(const struct rlx_program *p)
{
	uint64_t n = 4096;
	unsigned int i;
	int io;

	add_bytes(&n, p->code->work_bytes);
	add_bytes(&n, 63);
	for (io = RLX_IO_INPUT; io <= RLX_IO_OUTPUT; io += RLX_IO_OUTPUT - RLX_IO_INPUT)
		for (i = 0; i < p->plan->n_io[io]; i++)
			if (io == RLX_IO_INPUT || !p->plan->io[io][i].state)
				add_bytes(&n, rlx_align64(rlx_plan_bytes(p->plan,
						p->plan->io[io][i].val) + 64));
	return n;
}

static uint32_t steps_of(const struct rlx_code *c)
{
	uint32_t n = c->plan->n_step, i;

	for (i = 0; i < c->n_body; i++)
		n += steps_of(c->body[i].code);
	return n;
}

static void fill_info(struct rlx_program *p, const struct rlx_compile_opts *o,
		      const struct rlx_graph *g, uint64_t t0)
{
	uint32_t i;

	p->flags = o->flags;
	p->info.device = p->dev->name;
	p->info.isa = p->dev->isa;
	p->info.threads = p->dev->threads;
	p->info.nodes = g->n_node;
	p->info.steps = steps_of(p->code);
	p->info.native = p->code->native;
	p->info.host = p->code->host;
	p->info.work_bytes = p->code->work_bytes;
	p->info.session_bytes = session_bytes(p);
	p->info.naive_bytes = p->plan->naive_bytes;
	for (i = 0; i < p->plan->n_constant; i++)
		p->info.const_bytes += rlx_blob_bytes(p->plan->constant[i]);
	p->info.packed_bytes = p->code->packed_bytes;
	p->info.pack_ns = p->code->pack_ns;
	p->info.kernels_compiled = p->code->kernels_compiled;
	p->info.kernels_ns = p->code->kernels_ns;
	add_costs(p);
	p->info.compile_ns = rlx_now() - t0;
}

bool rlx_strict_by_environment(void)
{
	static const char *const word[] = { "0", "1" };
	static atomic_bool told;

	return rlx_env_word("RLX_STRICT_BITS", word, 2, &told) == 1;
}

enum rlx_status rlx_compile_take(const struct rlx_compile_opts *in, struct rlx_compile_opts *o,
				 struct rlx_error *err)
{
	const uint32_t known = RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY | RLX_COMPILE_NATIVE |
			       RLX_COMPILE_EXPLAIN | RLX_COMPILE_TUNE | RLX_COMPILE_EXPERTS |
			       RLX_COMPILE_PLACE | RLX_COMPILE_STRICT_BITS;

	*o = (struct rlx_compile_opts){ 0 };
	if (in) {
		if (!in->size)
			return rlx_fail(err, RLX_EINVAL,
					"compile: set opts.size to sizeof(struct rlx_compile_opts)");
		memcpy(o, in, in->size < sizeof(*o) ? in->size : sizeof(*o));
	}
	o->size = sizeof(*o);
	if ((unsigned int)o->precision > RLX_PRECISION_TF32)
		return rlx_fail(err, RLX_EINVAL, "compile: precision %d is unknown",
				o->precision);
	if (o->flags & ~known)
		return rlx_fail(err, RLX_EINVAL, "compile: unknown flags 0x%x", o->flags & ~known);
	if (rlx_strict_by_environment())
		o->flags |= RLX_COMPILE_STRICT_BITS;
	if (o->flags & RLX_COMPILE_STRICT_BITS && o->precision)
		return rlx_fail(err, RLX_EINVAL, "compile: strict bits are those of ops as they "
				"are written; leave the precision at that, or strict bits out");
	return RLX_OK;
}

/* Programs for another device would find nothing there, or wrong things. */
static enum rlx_status take_store(struct rlx_program *p, const struct rlx_compile_opts *o,
				  struct rlx_error *err)
{
	struct rlx_store_info info;
	char layout[32];

	if (!o->store)
		return RLX_OK;
	rlx_layout_name(p->dev->be, p->dev->isa, layout, sizeof(layout));
	rlx_store_info(o->store, &info);
	if (strcmp(info.layout, layout))
		return rlx_fail(err, RLX_EINVAL, "compile: the store is for '%s', this is '%s'",
				info.layout, layout);
	p->store = rlx_store_get(o->store);
	return RLX_OK;
}

/* Of @g or, if that is NULL, of @passed. */
static enum rlx_status program_new(struct rlx_graph *g, struct rlx_passed *passed,
				   const struct rlx_compile_opts *o,
				   struct rlx_program **out, struct rlx_error *err)
{
	uint64_t t0 = rlx_now();
	struct rlx_program *p;
	enum rlx_status st;

	p = rlx_calloc(1, sizeof(*p));
	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "compile: out of memory");
	atomic_init(&p->refs, 1);
	st = rlx_device_get(o->device, o->threads, &p->dev, err);
	if (!st && o->flags & RLX_COMPILE_STRICT_BITS && !p->dev->be->strict_bits)
		st = rlx_fail(err, RLX_ENOSUP, "compile: %s does not promise strict bits; compile "
			      "for cpu, or without them", p->dev->name);
	if (!st)
		st = take_store(p, o, err);
	if (!st)
		st = g ? build(p, o, g, err) : build_passed(p, o, passed, err);
	if (st) {
		rlx_program_put(p);
		return st;
	}
	fill_info(p, o, g ? g : p->g, t0);
	warn_of_host(p);
	if (rlx_trace_on())
		rlx_trace_compile(p, t0);
	if (getenv("RLX_DISPATCH_REPORT"))
		rlx_program_report(p, stderr);
	*out = p;
	return RLX_OK;
}

static enum rlx_status compile_for(struct rlx_graph *g, const struct rlx_compile_opts *o,
				   struct rlx_program **out, struct rlx_error *err)
{
	return program_new(g, NULL, o, out, err);
}

enum rlx_status rlx_program_of(struct rlx_passed *passed, const struct rlx_compile_opts *o,
			       struct rlx_program **out, struct rlx_error *err)
{
	return program_new(NULL, passed, o, out, err);
}

/* For the first of a chain that there is and that can; what each lacks is in @err. */
static enum rlx_status compile_chain(struct rlx_graph *g, struct rlx_compile_opts *o,
				     const struct policy_names *chain, struct rlx_program **out,
				     struct rlx_error *err)
{
	enum rlx_status st = RLX_ENODEV;
	struct rlx_reasons all = { 0 };
	char device[24];
	unsigned int i;

	for (i = 0; i < chain->n && (!i || rlx_policy_goes_on(st)); i++) {
		struct rlx_error why = { 0 };

		st = rlx_policy_device(chain->name[i], device, &why);
		o->device = device;
		if (!st)
			st = compile_for(g, o, out, &why);
		o->device = NULL;
		if (!st)
			return RLX_OK;
		rlx_reasons_add(&all, why.text);
	}
	return rlx_error_set(err, st, NULL, 0, "compile: %s", all.text);
}

enum rlx_status rlx_compile(struct rlx_graph *g, const struct rlx_compile_opts *opts,
			    struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_compile_opts o;
	struct rlx_policy *env;
	enum rlx_status st;

	if (!err)
		err = &own;
	if (!out)
		return rlx_fail(err, RLX_EINVAL, "compile: no place for the program");
	*out = NULL;
	if (!g || g->err.status)
		return rlx_error_set(err, rlx_graph_error(g)->status,
				     rlx_graph_error(g)->file, rlx_graph_error(g)->line,
				     "%s", rlx_graph_error(g)->text);
	if (!g->finished)
		return rlx_fail(err, RLX_EINVAL,
				"compile: graph '%s' is not finished; call rlx_graph_finish()",
				g->name);
	st = rlx_graph_is_bound(g, "compile", err);
	if (st)
		return st;
	if (rlx_graph_lacks_contents(g))
		return rlx_fail(err, RLX_ENOSUP, "compile: graph '%s' is of a plan file, which "
				"leaves weights out that it has prepared; compile the model's file",
				g->name);
	st = rlx_compile_take(opts, &o, err);
	if (st || o.device)
		return st ? st : compile_for(g, &o, out, err);
	st = rlx_policy_env(NULL, &env, err);
	if (st)
		return st;
	if (env->chain.n || env->device.n) {
		st = compile_chain(g, &o, env->chain.n ? &env->chain : &env->device, out, err);
	} else {
		o.device = "cpu";
		st = compile_for(g, &o, out, err);
	}
	rlx_policy_put(env);
	return st;
}

struct rlx_program *rlx_program_get(struct rlx_program *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void rlx_program_put(struct rlx_program *p)
{
	if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	rlx_code_free(p->code);
	rlx_plan_free(p->plan);
	rlx_graph_put(p->g);
	rlx_device_put(p->dev);
	rlx_store_put(p->store);
	free(p->fused);		/* open_memstream's own */
	rlx_free(p);
}
