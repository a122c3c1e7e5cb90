// SPDX-License-Identifier: MIT
/* From plan steps to launches, and which values must cross over to or from the host. */
#include <string.h>

#include "backends/common/gemm.h"
#include "backends/gpu/group.h"
#include "backends/gpu/streams.h"
#include "backends/gpu/tune.h"
#include "base/alloc.h"
#include "base/clock.h"

/* Where the bytes of a value's storage are as they should be. */
enum { ON_DEVICE = 1, ON_HOST = 2 };

static gpu_launch_fn *launch_of(enum rlx_kernel_id id)
{
	static gpu_launch_fn *const launches[RLX_KERNEL_COUNT] = {
#define GPU_LAUNCH(n) [RLX_KERNEL_##n] = rlx_g_##n##_launch,
#include "kernels/gpu/kernels.def"
	};

	return launches[id];
}

rlx_lower_fn *gpu_lowering(unsigned int index)
{
	static rlx_lower_fn *const table[RLX_OP_COUNT] = {
#define LOWER(op) [RLX_OP_##op] = rlx_lower_##op,
#include "backends/common/lower.def"
#undef LOWER
#define LOWER(op) [RLX_OP_##op] = gpu_lower_##op,
#include "backends/gpu/lower.def"
#undef LOWER
	};

	return index < RLX_OP_COUNT ? table[index] : NULL;
}

static struct gpu_code *code_of(const struct rlx_lower *lo)
{
	return (struct gpu_code *)lo->code;
}

static bool reserve(void *p, uint64_t *cap, uint64_t need)
{
	uint64_t n = *cap ? *cap : 4096;
	void *q, *old;

	while (n < need)
		n *= 2;
	memcpy(&old, p, sizeof(old));
	q = n == *cap ? old : rlx_realloc(old, n);
	if (!q)
		return false;
	memcpy(p, &q, sizeof(q));
	*cap = n;
	return true;
}

/* How a pointer to a buffer is written: it is looked up in the table of addresses. */
static uint64_t indirect(uint32_t slot, uint64_t off)
{
	return RLX_G_INDIRECT | (uint64_t)slot << 48 | off;
}

/* Is the value in a buffer that runs bind, reached by the table? Then its slot. */
static bool is_bound(const struct gpu_code *c, const struct rlx_place *at, uint32_t *slot)
{
	if (at->kind < RLX_PLACE_INPUT || at->kind > RLX_PLACE_OUTPUT)
		return false;
	*slot = c->first_io[at->kind - RLX_PLACE_INPUT + RLX_IO_INPUT] + at->index;
	return true;
}

void gpu_put_known(struct gpu_code *c, const struct rlx_ref *r, void *field)
{
	uint64_t v = indirect(0, r->kind == RLX_REF_VALUE ? r->off : 0);
	uint32_t slot;

	if (r->kind == RLX_REF_VALUE && is_bound(c, &c->base.plan->val[r->val].place, &slot)) {
		c->io[slot].on_device = true;
		v = indirect(slot, r->off);
	}
	memcpy(field, &v, sizeof(v));	/* not NULL, and how it is aligned */
}

enum rlx_status gpu_apply_relocations(struct rlx_lower *lo)
{
	uint32_t i;

	for (i = 0; i < lo->n_ref && !lo->status; i++)
		gpu_put_known(code_of(lo), &lo->ref[i], lo->staged + lo->ref[i].at);
	return lo->status;
}

/* The last call wants @bytes: the step's launches take turns with them. */
static bool use_scratch(struct rlx_lower *lo, uint64_t bytes)
{
	struct gpu_lower *gl = gpu_lower_of(lo);
	int64_t *have;

	if (!gl->scratch)
		gl->scratch = rlx_lower_tmp(lo, bytes);
	have = lo->plan->val[gl->scratch].type.dim;
	*have = (int64_t)bytes > *have ? (int64_t)bytes : *have;
	if (!rlx_calls_use(lo->calls, gl->scratch, RLX_UPDATE))
		rlx_lower_out_of_memory(lo);
	return !lo->status;
}

enum rlx_status gpu_call(struct rlx_lower *lo, const struct rlx_g_launch *l)
{
	struct gpu_code *c = code_of(lo);
	struct gpu_call *call;
	uint32_t bad = 0, i;

	if (lo->strict && l->variant && rlx_g_bits(l->variant, &l->param) == RLX_G_BITS_OTHER)
		return rlx_lower_unsupported(lo, "the kernel that does this rounds or adds up "
					     "otherwise than the CPU");
	for (i = 0; i < lo->n_ref; i++)
		if (lo->ref[i].kind == RLX_REF_STATUS) {
			lo->ref[i].off = 4 * (uint64_t)c->n_bad++;
			bad = c->n_bad;
		}
	call = rlx_lower_append(lo, false);
	if (!call)
		return lo->status;
	if (l->scratch && !use_scratch(lo, l->scratch))
		return lo->status;
	call->val = l->scratch ? gpu_lower_of(lo)->scratch : 0;
	call->kind = GPU_KERNEL_CALL;
	call->bad = bad;
	call->launch = *l;
	call->launch.strict = lo->strict;
	call->launch.judge = NULL;
	call->decision = gpu_lower_of(lo)->decision;
	gpu_lower_of(lo)->decision = 0;
	return RLX_OK;
}

struct rlx_g_launch gpu_launch_of(struct rlx_lower *lo, uint64_t units)
{
	struct rlx_g_launch l = gpu_launch_for(gpu_of(lo), units);

	l.judge = gpu_lower_of(lo)->judge.choose ? &gpu_lower_of(lo)->judge : NULL;
	l.strict = lo->strict;
	return l;
}

enum rlx_status gpu_call_launch(struct rlx_lower *lo, const struct rlx_g_launch *l)
{
	if (!l->can)
		return rlx_lower_unsupported(lo, "the GPU kernel does not take this form");
	return l->grid[0] ? gpu_call(lo, l) : RLX_OK;
}

enum rlx_status gpu_call_kernel(struct rlx_lower *lo, gpu_launch_fn *how, uint64_t units)
{
	struct rlx_g_launch l = gpu_launch_of(lo, units);

	if (lo->n_staged > GPU_MOST_ARGS)
		return rlx_lower_unsupported(lo, "the arguments are too large for a launch");
	if (gpu_apply_relocations(lo))
		return lo->status;
	how(lo->staged, &l);
	return gpu_call_launch(lo, &l);
}

static enum rlx_status call_kernel(struct rlx_lower *lo, enum rlx_kernel_id id,
				   uint64_t units, double work, size_t scratch)
{
	gpu_launch_fn *how = launch_of(id);

	(void)work;
	(void)scratch;
	if (!how)
		return rlx_lower_unsupported(lo, "no GPU kernel moves, computes or reads this");
	return gpu_call_kernel(lo, how, units);
}

/* ---- crossing over ---- */

/* Whose storage a value has. */
static uint32_t storage(const struct rlx_plan *p, uint32_t v)
{
	return p->val[v].root;
}

static enum rlx_status transfer(struct rlx_lower *lo, enum gpu_call_kind kind, uint32_t v)
{
	struct gpu_call *call = rlx_calls_add(lo->calls, NULL, 0, NULL, 0);

	if (!call || !rlx_calls_use(lo->calls, v, kind == GPU_IN_CALL ? RLX_WRITE : RLX_READ))
		return rlx_lower_out_of_memory(lo);
	call->kind = (uint8_t)kind;
	call->val = v;
	call->base.step = gpu_lower_of(lo)->writer[storage(lo->plan, v)];
	call->base.n_step = 1;
	return RLX_OK;
}

/* A view of a part of its storage: only all of the storage is kept track of. */
static bool is_whole(const struct rlx_plan *p, uint32_t v)
{
	return rlx_plan_bytes(p, v) == rlx_plan_bytes(p, storage(p, v));
}

/* The step's inputs must be on @side: @kind brings them there. */
static enum rlx_status transfer_inputs(struct rlx_lower *lo, uint8_t side, enum gpu_call_kind kind)
{
	const struct rlx_plan *p = lo->plan;
	uint8_t *where = gpu_lower_of(lo)->where;
	enum rlx_status st = RLX_OK;
	uint32_t i, v;

	for (i = 0; i < lo->st->n_in && !st; i++) {
		v = lo->st->in[i];
		if (!v || where[storage(p, v)] & side)
			continue;
		st = transfer(lo, kind, side == ON_DEVICE ? storage(p, v) : v);
		if (is_whole(p, v) || side == ON_DEVICE)
			where[storage(p, v)] |= side;
	}
	return st;
}

/* The step has written its outputs on @side. */
static enum rlx_status written(struct rlx_lower *lo, uint8_t side)
{
	struct gpu_lower *gl = gpu_lower_of(lo);
	const struct rlx_plan *p = lo->plan;
	enum rlx_status st = RLX_OK;
	uint32_t i, v, root;

	for (i = 0; i < lo->st->n_out && !st; i++) {
		v = lo->st->out[i];
		root = storage(p, v);
		gl->writer[root] = (uint32_t)(lo->st - p->step);
		gl->where[root] = side;
		if (side == ON_HOST && !is_whole(p, v)) {
			/* the rest of the storage may be on the device alone */
			st = transfer(lo, GPU_IN_CALL, v);
			gl->where[root] = ON_DEVICE;
		}
	}
	return st;
}

/* An output's storage that is written in part by a kernel must be there whole. */
static enum rlx_status transfer_rest(struct rlx_lower *lo)
{
	struct gpu_lower *gl = gpu_lower_of(lo);
	const struct rlx_plan *p = lo->plan;
	enum rlx_status st = RLX_OK;
	uint32_t i, root;

	for (i = 0; i < lo->st->n_out && !st; i++) {
		root = storage(p, lo->st->out[i]);
		if (is_whole(p, lo->st->out[i]) || gl->where[root] != ON_HOST)
			continue;
		st = transfer(lo, GPU_IN_CALL, root);
		gl->where[root] |= ON_DEVICE;
	}
	return st;
}

static void undo(struct rlx_lower *lo)
{
	struct gpu_lower *gl = gpu_lower_of(lo);

	code_of(lo)->n_persistent = gl->persistent;
	memcpy(gl->where, gl->saved, gl->n_val);
}

static enum rlx_status host_fallback(struct rlx_lower *lo, enum rlx_call_kind kind)
{
	struct gpu_code *c = code_of(lo);
	struct gpu_call *call;
	enum rlx_status st;
	uint64_t bytes;
	uint32_t i;

	if (kind == RLX_CALL_COPY)
		return rlx_lower_copy(lo);
	st = rlx_host_scratch(lo->plan, lo->st, &bytes, lo->err);
	if (st)
		return st;
	if (bytes > c->base.work_bytes)		/* until compile adds it all up */
		c->base.work_bytes = bytes;
	if (lo->st->n_in + lo->st->n_out > c->most_tensors)
		c->most_tensors = lo->st->n_in + lo->st->n_out;
	for (i = 0; i < lo->st->n_in; i++)
		if (lo->plan->val[lo->st->in[i]].place.kind == RLX_PLACE_INPUT)
			c->io[lo->plan->val[lo->st->in[i]].place.index].on_host = true;
	st = transfer_inputs(lo, ON_HOST, GPU_OUT_CALL);
	if (st)
		return st;
	call = rlx_lower_append(lo, true);
	if (!call)
		return lo->status;
	call->kind = GPU_HOST_CALL;
	return written(lo, ON_HOST);
}

static void persistent(struct rlx_lower *lo, void *field, const void *p, size_t bytes)
{
	struct gpu_code *c = code_of(lo);
	uint64_t at = rlx_align64(c->n_persistent);

	if (!reserve(&c->persistent, &c->cap_persistent, at + bytes)) {
		rlx_lower_out_of_memory(lo);
		return;
	}
	memcpy(c->persistent + at, p, bytes);
	c->n_persistent = at + bytes;
	rlx_lower_ref_add(lo, field, (struct rlx_ref){ .kind = RLX_REF_KEPT,
						       .off = at });
}

bool gpu_is_fixed(const struct rlx_lower *lo, uint32_t k)
{
	enum rlx_place_kind kind = rlx_lower_place(lo, k)->kind;

	return kind == RLX_PLACE_CONST || kind == RLX_PLACE_PARAM;
}

bool gpu_in_place(const struct rlx_lower *lo)
{
	const struct rlx_place *in = &lo->plan->val[lo->st->in[0]].place;
	const struct rlx_place *out = &lo->plan->val[lo->st->out[0]].place;
	const struct gpu_code *c = code_of(lo);

	if (in->kind == RLX_PLACE_INPUT && out->kind == RLX_PLACE_OUTPUT &&
	    c->io[c->first_io[RLX_IO_OUTPUT] + out->index].donated ==
	    c->first_io[RLX_IO_INPUT] + in->index + 1) {
		c->io[in->index].on_device = true;	/* though nothing names it */
		c->io[in->index].one = true;
		return true;
	}
	return lo->plan->val[lo->st->in[0]].root == lo->plan->val[lo->st->out[0]].root;
}

/* GEMM: one kernel for every mixture of f32, bf16, f16; another for f64. */
static enum rlx_status gemm(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	const enum rlx_dtype a = rlx_lower_in(lo, 0)->dtype, b = rlx_lower_in(lo, 1)->dtype;
	const enum rlx_dtype y = rlx_lower_out(lo, 0)->dtype;
	const struct rlx_type *bias = rlx_lower_in(lo, 2);
	const bool wide = y == RLX_F64;
	const bool is_16bit = !wide && (a != RLX_F32 || b != RLX_F32 || y != RLX_F32);
	struct rlx_g_launch l = gpu_launch_of(lo, 0);
	bool few;

	if (g->compute)		/* weights are rounded once, activations for all who read them */
		return rlx_lower_unsupported(lo, "operands are rounded by a cast of their own");
	if (gpu_gemm_is_fp8(lo))
		return gpu_gemm_fp8(lo, g);
	if (a == RLX_F32 && b == RLX_F32 && y != RLX_F32)	/* tensor cores would round them */
		return rlx_lower_unsupported(lo, "GEMMs of f32 are written as f32");
	if (wide ? a != RLX_F64 || b != RLX_F64 :
		   !rlx_lower_real(a) || !rlx_lower_real(b) || !rlx_lower_real(y))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	g->bias_as_c = is_16bit && y != RLX_F32 && bias && bias->dtype == y;
	if (rlx_gemm_bias(lo, g, wide ? RLX_F64 : g->bias_as_c ? y : RLX_F32))
		return lo->status;
	rlx_lower_ref_rows(lo, &g->b, 1);
	g->b_fixed = gpu_is_fixed(lo, 1);
	g->strict = lo->strict;
	few = rlx_k_gemm_few_columns(g, RLX_ISA_V4);
	g->b_packs = rlx_gemm_b_packs(g, rlx_gemm_packs_once(lo, g, few), RLX_ISA_V4);
	if (rlx_gemm_rows_lead(g))
		rlx_lower_extent(lo, (int64_t)g->m, NULL);
	if (wide)
		return rlx_lower_call(lo, RLX_KERNEL_gemm_f64, 0, 0, 0);
	if (gpu_apply_relocations(lo))
		return lo->status;
	(is_16bit ? rlx_g_gemm_16bit_launch : rlx_g_gemm_f32_launch)(g, &l);
	if (l.variant == RLX_G_gemv_stream)
		gpu_stage_gemv_stream(lo);
	return gpu_call_launch(lo, &l);
}

static enum rlx_status gemm_i8(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q)
{
	rlx_lower_ref_in(lo, &q->g.b, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_gemm_i8, 0, 0, 0);
}

static bool is_on_device(struct rlx_lower *lo, uint32_t v)
{
	return gpu_lower_of(lo)->where[storage(lo->plan, v)] & ON_DEVICE;
}

static const struct rlx_lower_ops ops = {
	.call = call_kernel,
	.host_fallback = host_fallback,
	.undo = undo,
	.refuse = gpu_refuse_host,
	.persistent = persistent,
	.gemm = gemm,
	.conv = gpu_conv,
	.recur = gpu_recur,
	.has_16bit = true,
	.may_read = is_on_device,
	.gemm_i8 = gemm_i8,
	.conv_i8 = gpu_conv_i8,
};

/* ---- compiling ---- */

static enum rlx_status lower_step(struct gpu_lower *gl, const struct rlx_plan_step *st,
				  uint32_t flags)
{
	struct gpu_code *c = code_of(&gl->base);
	struct rlx_lower *lo = &gl->base;
	rlx_lower_fn *fn = st->def ? gpu_lowering(st->def->index) : NULL;
	unsigned int hosted = c->base.host;
	enum rlx_status rc = RLX_OK;

	lo->st = st;
	gl->scratch = 0;
	gl->decision = 0;
	gl->persistent = c->n_persistent;
	memcpy(gl->saved, gl->where, gl->n_val);
	if (fn || !st->def) {	/* before the launches; undone if there are none */
		rc = transfer_inputs(lo, ON_DEVICE, GPU_IN_CALL);
		if (!rc)
			rc = transfer_rest(lo);
	}
	if (!rc)
		rc = rlx_lower_step(lo, fn, flags);
	if (!rc && c->base.host == hosted)
		rc = written(lo, ON_DEVICE);
	return rc;
}

/* One row of slots for what a run binds; they are on the host when it begins. */
static enum rlx_status list_io(struct gpu_code *c, struct gpu_lower *gl)
{
	const struct rlx_plan *p = c->base.plan;
	struct gpu_io *at;
	uint32_t i, v;
	int io;

	for (io = 0; io < 3; io++)
		c->n_io += p->n_io[io];
	if (c->n_io > 0x7fff)
		return rlx_fail(gl->base.err, RLX_ENOSUP, "%s: over 32767 inputs, params and "
				"outputs", c->base.dev->be->name);
	c->io = rlx_calloc(c->n_io + 1, sizeof(*c->io));
	if (!c->io)
		return rlx_lower_out_of_memory(&gl->base);
	for (at = c->io, io = 0; io < 3; io++) {
		c->first_io[io] = (uint32_t)(at - c->io);
		for (i = 0; i < p->n_io[io]; i++, at++) {
			v = p->io[io][i].val;
			*at = (struct gpu_io){ .io = (uint8_t)io, .index = i,
					       .bytes = rlx_plan_bytes(p, v),
					       .writer = GPU_NO_STEP };
			if (io != RLX_IO_OUTPUT)
				gl->where[storage(p, v)] = ON_DEVICE | ON_HOST;
		}
	}
	for (i = 0; i < p->n_io[RLX_IO_OUTPUT]; i++) {
		uint32_t out = c->first_io[RLX_IO_OUTPUT] + i;

		c->io[out].donated = p->io[RLX_IO_OUTPUT][i].donated;
		c->io[out].one = p->io[RLX_IO_OUTPUT][i].state;
		if (c->io[out].donated)	/* inputs come first */
			c->io[c->io[out].donated - 1].donated = out + 1;
	}
	for (v = 1; v < p->n_val; v++) {
		gl->writer[v] = GPU_NO_STEP;
		if (p->val[v].place.kind == RLX_PLACE_CONST)
			gl->where[storage(p, v)] = ON_DEVICE | ON_HOST;
	}
	return RLX_OK;
}

/* After the last step: what of the outputs is on the device alone. */
static void list_results(struct gpu_code *c, const struct gpu_lower *gl)
{
	const struct rlx_plan *p = c->base.plan;
	uint32_t i, root;

	for (i = 0; i < p->n_io[RLX_IO_OUTPUT]; i++) {
		struct gpu_io *io = &c->io[c->first_io[RLX_IO_OUTPUT] + i];

		root = storage(p, p->io[RLX_IO_OUTPUT][i].val);
		io->out = gl->where[root] == ON_DEVICE;
		io->writer = gl->writer[root];
	}
}

/*
 * Launches that read each buffer of a run's, each of a call's, and those whose blocks do what
 * others would have, twice.
 */
static void count_readers(struct gpu_code *c)
{
	const struct gpu_call *call = gpu_calls(c), *end = call + c->calls.n_call;
	const struct rlx_ref *r;
	uint32_t slot;

	for (; call < end; call++)
		for (r = c->calls.ref + call->base.ref;
		     r < c->calls.ref + call->base.ref + call->base.n_ref; r++) {
			if (r->kind == RLX_REF_VALUE && r->at != RLX_NO_FIELD &&
			    r->access & RLX_READ &&
			    is_bound(c, &c->base.plan->val[r->val].place, &slot))
				c->io[slot].readers += 1 +
					(call->again || call->launch.n_launches > 1);
		}
}

/*
 * An input that several launches read would cross the bus as often: a first launch
 * brings it and all others as small to the device. It may be another one for each, too, where
 * a client of a channel writes meanwhile, and what one has counted or checked is what the next
 * goes by: rows of grouped GEMM were sorted beyond their list.
 */
static enum rlx_status take_inputs(struct gpu_code *c, struct gpu_lower *gl)
{
	uint32_t n = c->first_io[RLX_IO_PARAM], at = c->calls.n_call, i;
	struct rlx_g_launch l = { .can = true, .grid = { n, 1, 1 }, .block = { 256, 1, 1 },
				  .variant = RLX_G_input_gather };
	struct rlx_lower *lo = &gl->base;
	struct rlx_g_input_gather *a;
	struct gpu_call first;

	count_readers(c);
	for (i = 0; i < n && !c->gathers_inputs; i++)
		c->gathers_inputs = c->io[i].readers > 1;
	if (!c->gathers_inputs || !gpu_device_of(&c->base)->attr[GPU_ATTR_MAPPED])
		return RLX_OK;
	lo->st = lo->plan->step;
	a = rlx_lower_args(lo, sizeof(*a));
	*a = (struct rlx_g_input_gather){ c->n_io, n };
	if (gpu_call(lo, &l))
		return lo->status;
	first = gpu_calls(c)[at];
	first.base.step = GPU_NO_STEP;
	memmove(gpu_calls(c) + 1, gpu_calls(c), at * sizeof(first));
	gpu_calls(c)[0] = first;
	return RLX_OK;
}

/* Kernels of the calls that there are now: found, or begun to be compiled. */
static enum rlx_status get_modules(struct gpu_code *c, struct rlx_error *err)
{
	struct gpu_call *call = gpu_calls(c), *end = call + c->calls.n_call;
	struct gpu_device *d = gpu_device_of(&c->base);
	enum rlx_status st = RLX_OK;
	struct gpu_kernel k;

	for (; call < end && !st; call++) {
		if (!gpu_is_launch(call))
			continue;
		if (call->text) {	/* what was compiled when there was a compiler is kept */
			k = gpu_kernel_of_text(call->text, call->launch.strict);
			st = gpu_module_get(d, &k, &call->module, call->interp ? NULL : err);
			if (!st || !call->interp)
				continue;
		}
		k = gpu_kernel_of(call->text ? RLX_G_pointwise_interp : call->launch.variant,
				  &call->launch.param, call->launch.shared);
		st = gpu_module_get(d, &k, &call->module, err);
	}
	return st;
}

/* Does the host's step of call @at exchange values with launches? */
static bool transfers(const struct gpu_code *c, uint32_t at)
{
	const struct gpu_call *call = gpu_calls(c);
	uint32_t i;

	for (i = at; i && call[i - 1].kind == GPU_OUT_CALL; i--)	/* right before it */
		if (rlx_plan_bytes(c->base.plan, call[i - 1].val))
			return true;
	for (i = at + 1; i < c->calls.n_call; i++)	/* before the first launch that reads it */
		if (call[i].kind == GPU_IN_CALL && call[i].base.step == call[at].base.step &&
		    rlx_plan_bytes(c->base.plan, call[i].val))
			return true;
	return false;
}

static void count_crossing(struct gpu_code *c)
{
	uint32_t i;

	for (i = 0; i < c->calls.n_call; i++)
		if (gpu_calls(c)[i].kind == GPU_HOST_CALL && transfers(c, i) && !c->base.crossing++)
			c->base.first_crossing = gpu_calls(c)[i].base.step;
}

/* Offsets of everything. */
static void lay_out(struct gpu_code *c)
{
	const struct rlx_plan *p = c->base.plan;
	uint64_t host = c->base.work_bytes, at = 0;
	uint32_t i;

	for (i = 0; i < c->n_io; i++)
		if (gpu_is_pair(c, i) && c->io[i].io == RLX_IO_OUTPUT) {
			c->io[i].at = c->io[c->io[i].donated - 1].at;
		} else if (c->io[i].on_device && c->io[i].io != RLX_IO_PARAM) {
			c->io[i].at = c->stage_bytes;
			c->stage_bytes += rlx_align64(c->io[i].bytes);
		}
	for (i = 0; i < c->calls.n_call; i++) {
		gpu_calls(c)[i].first_map = c->n_map;
		c->n_map += gpu_calls(c)[i].launch.n_map;
		if (gpu_is_launch(&gpu_calls(c)[i]))
			gpu_calls(c)[i].scratch_at = p->val[gpu_calls(c)[i].val].place.offset;
	}
	if (c->base.host)	/* the reference evaluator works on a mirror */
		at = rlx_align64(p->work_bytes);
	c->host_at = at;
	c->base.device_bytes = rlx_align64(p->work_bytes) + c->stage_bytes;
	c->base.work_bytes = rlx_align64(at + host);
}

/* ---- what needs the context, which was in the making until now ---- */

static enum rlx_status load_tables(struct gpu_code *c, struct rlx_error *err)
{
	struct gpu_device *d = gpu_device_of(&c->base);
	enum rlx_status st;

	if (!c->n_persistent)
		return RLX_OK;
	st = gpu_mem_new(d, c->n_persistent, &c->persistent_at, err);
	if (st)
		return st;
	pthread_mutex_lock(&d->lock);
	st = gpu_check(d, d->api->copy_in(c->persistent_at, c->persistent, c->n_persistent,
						 d->stream),
		       "copying tables in", err);
	if (!st)
		st = gpu_check(d, d->api->stream_wait(d->stream), "copying tables in", err);
	pthread_mutex_unlock(&d->lock);
	return st;
}

static enum rlx_status need_constant(struct gpu_code *c, uint32_t index, struct rlx_error *err)
{
	struct rlx_blob *b = c->base.plan->constant[index];

	if (c->weight[index])
		return RLX_OK;
	return gpu_weight_get(gpu_device_of(&c->base), rlx_host_home(&c->base, index),
			      rlx_blob_bytes(b), b, &c->weight[index], err);
}

/* Constants that calls read are wanted on the device, once for all programs. */
static enum rlx_status need_constants(struct gpu_code *c, struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	enum rlx_status st = RLX_OK;
	uint32_t i, k;

	for (i = 0; i < c->calls.n_call; i++) {
		const struct rlx_call *call = &gpu_calls(c)[i].base;

		for (k = call->ref; k < call->ref + call->n_ref && !st; k++) {
			const struct rlx_place *at = &p->val[c->calls.ref[k].val].place;

			if (at->kind == RLX_PLACE_CONST && c->calls.ref[k].at != RLX_NO_FIELD)
				st = need_constant(c, at->index, err);
		}
	}
	return st;
}

/* Constants and tables stay where they are; buffers are looked up. */
static bool is_fixed(void *ctx, const struct rlx_ref *r, const struct rlx_place *at, uint64_t *out)
{
	const struct gpu_code *c = ctx;
	uint32_t slot;

	if (r->kind == RLX_REF_KEPT)
		*out = c->persistent_at + r->off;
	else if (r->kind == RLX_REF_STATUS)
		return false;
	else if (at->kind == RLX_PLACE_CONST)
		*out = gpu_weight_at(c->weight[at->index]) + r->off;
	else if (at->kind != RLX_PLACE_PARAM && is_bound(c, at, &slot))
		*out = indirect(slot, r->off);
	else
		return false;
	return true;
}

/* Kernels, weights and tables to the device. */
static enum rlx_status load_all(struct gpu_code *c, struct rlx_error *err)
{
	struct gpu_device *d = gpu_device_of(&c->base);
	enum rlx_status st = need_constants(c, err);
	struct gpu_call *call = gpu_calls(c), *end = call + c->calls.n_call;
	uint64_t t0;

	if (!st)
		st = gpu_enter(d, err);
	for (; call < end && !st; call++)
		if (gpu_is_launch(call)) {
			st = gpu_module_load(d, call->module, call->launch.shared, &call->fn, err);
			t0 = gpu_module_compile_ns(d, call->module);
			c->base.kernels_compiled += t0 > 0;
			c->base.kernels_ns += t0;
		}
	t0 = rlx_now();
	if (!st)
		st = gpu_weights_load(d, c->weight, c->base.plan->n_constant, err);
	c->base.pack_ns = rlx_now() - t0;
	if (!st)
		st = load_tables(c, err);
	return st ? st : rlx_calls_emit(&c->calls, c->base.plan, is_fixed, c, err);
}

static struct gpu_lower *lower_new(struct rlx_code *code, struct rlx_error *err)
{
	struct gpu_lower *gl = rlx_aligned(64, sizeof(*gl));
	uint32_t n = code->plan->n_val;

	if (!gl)
		return NULL;
	memset(gl, 0, sizeof(*gl));
	gl->base.ops = &ops;
	gl->base.code = code;
	gl->base.calls = &((struct gpu_code *)code)->calls;
	gl->base.calls->size = sizeof(struct gpu_call);
	gl->n_val = n;
	gl->base.plan = code->plan;
	gl->base.err = err;
	gl->base.bump = &((struct gpu_code *)code)->bump;
	gl->where = rlx_calloc(n + 1, 1);
	gl->saved = rlx_calloc(n + 1, 1);
	gl->writer = rlx_calloc(n + 1, sizeof(*gl->writer));
	gl->base.lies_in = rlx_calloc(n + 1, sizeof(*gl->base.lies_in));
	return gl;
}

static void lower_free(struct gpu_lower *gl)
{
	if (!gl)
		return;
	rlx_bump_fini(&gl->texts);
	gpu_judge_fini(gl);
	rlx_free(gl->where);
	rlx_free(gl->saved);
	rlx_free(gl->base.lies_in);
	rlx_free(gl->writer);
	rlx_free(gl);
}

/* All calls of the plan, and what they need of inputs and outputs. */
static enum rlx_status lower_plan(struct gpu_code *c, struct gpu_lower *gl, uint32_t flags)
{
	const struct rlx_plan *p = c->base.plan;
	enum rlx_status st = list_io(c, gl);
	uint32_t i;

	for (i = 0; i < p->n_step && !st; i++)
		st = lower_step(gl, &p->step[i], flags);
	if (st)
		return st;
	list_results(c, gl);
	st = gpu_drop_unread(c, gl->base.err);
	/* what becomes one launch adds up as that does */
	if (!st && !gl->base.strict)
		st = gpu_group_calls(c, gl->base.err);
	if (!st && !gl->base.strict)
		st = gpu_join_calls(c, &gl->texts, gl->base.err);
	if (!st)
		st = gpu_place_parts(c, gl->base.err);
	if (!st)
		st = take_inputs(c, gl);
	return st ? st : get_modules(c, gl->base.err);
}

/* Side by side launches may take four times the memory, or what is little. */
static bool is_little(uint64_t bytes, uint64_t in_turn)
{
	return bytes / 4 <= in_turn || bytes <= 64 << 20;
}

/* Which launches go side by side, and places by that; none where it would take too much. */
static enum rlx_status place(struct gpu_code *c, struct rlx_error *err)
{
	struct rlx_plan *p = c->base.plan;
	struct gpu_streams n;
	bool ok = gpu_streams_find(&n, c);
	enum rlx_status st = ok ? rlx_calls_place(&c->calls, p, NULL, err) :
		rlx_fail(err, RLX_ENOMEM, "%s: out of memory", c->base.dev->be->name);
	uint64_t in_turn = p->work_bytes;

	if (!st && c->n_stream > 1)
		st = rlx_calls_place(&c->calls, p, &n.order, err);
	if (!st && c->n_stream > 1 && !is_little(p->work_bytes, in_turn)) {
		gpu_streams_drop(c);
		st = rlx_calls_place(&c->calls, p, NULL, err);
	}
	gpu_streams_free(&n);
	return st;
}

enum rlx_status gpu_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err)
{
	struct gpu_code *c = (struct gpu_code *)code;
	struct gpu_lower *gl;
	struct gpu_device *d = gpu_device_of(code);
	enum rlx_status st = d->v->compiles_here ? gpu_enter(d, err) : gpu_alive(d, err);
	uint32_t i;

	if (st)
		return st;
	gpu_calibrate(d);
	gl = lower_new(code, err);
	c->weight = rlx_calloc(code->plan->n_constant + 1, sizeof(*c->weight));
	c->most_tensors = 2;
	if (!gl || !gl->where || !gl->saved || !gl->writer || !gl->base.lies_in || !c->weight)
		st = rlx_fail(err, RLX_ENOMEM, "%s: out of memory", code->dev->be->name);
	if (!st)
		gpu_judge_init(gl, flags);
	if (!st)
		gl->base.strict = flags & RLX_COMPILE_STRICT_BITS;
	if (!st)
		st = lower_plan(c, gl, flags);
	gpu_tune_save(d);
	if (!st)
		st = gpu_mark_sums(c, err);
	if (!st)
		st = place(c, err);
	if (!st)
		st = gpu_explain(gl);
	if (!st) {
		lay_out(c);
		count_crossing(c);
		st = load_all(c, err);
	}
	for (i = 0; i < code->plan->n_constant && !st; i++)
		if (c->weight[i])
			code->packed_bytes += rlx_blob_bytes(code->plan->constant[i]);
	lower_free(gl);
	if (st)
		gpu_release(code);
	return st;
}

void gpu_release(struct rlx_code *code)
{
	struct gpu_code *c = (struct gpu_code *)code;
	struct gpu_device *d = gpu_device_of(code);
	uint32_t i;

	if (atomic_load_explicit(&d->ready, memory_order_acquire))	/* else all is ours */
		d->api->context_set(d->ctx);
	for (i = 0; c->weight && i < code->plan->n_constant; i++)
		gpu_weight_put(d, c->weight[i]);
	gpu_mem_free(d, c->persistent_at);
	rlx_bump_fini(&c->bump);
	rlx_free(c->weight);
	rlx_calls_fini(&c->calls);
	rlx_free(c->persistent);
	rlx_free(c->io);
	rlx_free(c->wait);
	rlx_free(c->joined);
	c->weight = NULL;
	c->persistent = NULL;
	c->io = NULL;
	c->wait = NULL;
	c->joined = NULL;
	c->persistent_at = 0;
}

bool gpu_supports(const struct rlx_device *dev, const struct rlx_infer *q, struct rlx_error *why)
{
	struct rlx_plan none = { 0 };
	struct rlx_expert_product placed = { 0 };
	struct gpu_code code = {
		.base.dev = (struct rlx_device *)dev, .base.plan = &none,
		.base.product = q->placed ? &placed : NULL, .base.n_product = q->placed,
	};
	struct gpu_lower *gl = lower_new(&code.base, why);
	bool yes = true;

	code.io = rlx_calloc(q->n_in + q->n_out + 1ul, sizeof(*code.io));
	code.first_io[RLX_IO_OUTPUT] = q->n_in;
	if (gl && code.io)
		yes = rlx_lower_try(&gl->base, gpu_lowering(q->def->index), q, false, why);
	else
		rlx_fail(why, RLX_ENOMEM, "%s: out of memory", dev->name);
	lower_free(gl);
	rlx_calls_fini(&code.calls);
	rlx_bump_fini(&code.bump);
	rlx_free(code.persistent);
	rlx_free(code.io);
	return yes;
}
