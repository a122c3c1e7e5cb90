// SPDX-License-Identifier: MIT
/* From plan steps to kernel calls: packed weights, work areas. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "ir/graph.h"
#include "kernels/conv.h"

/* Less work than this is done sooner by one thread than handed to another. */
static const double PARALLEL_WORK = 16384;

/* The block that cpu_prepare() last gave out new has been filled by now. */
static void finish_filling(struct rlx_lower *lo)
{
	struct cpu_lower *cl = (struct cpu_lower *)lo;

	if (cl->filling)
		cpu_prepared_ready(cl->filling);
	if (cl->filling_stored)
		rlx_store_ready(lo->code->store, cl->filling_stored);
	cl->filling = NULL;
	cl->filling_stored = NULL;
}

static struct cpu_code *code_of(const struct rlx_lower *lo)
{
	return (struct cpu_code *)lo->code;
}

/* 1 + that which a call with the staged arguments reads; 0: none */
static uint32_t param_pack_of(const struct rlx_lower *lo)
{
	const struct cpu_code *c = code_of(lo);
	uint32_t i, k;

	for (i = 0; i < lo->n_ref; i++)
		for (k = c->n_param_pack; k > 0 && lo->ref[i].access == RLX_UPDATE; k--)
			if (c->param_pack[k - 1].tmp == lo->ref[i].val)
				return k;
	return 0;
}

static enum rlx_status cpu_call(struct rlx_lower *lo, enum rlx_kernel_id id,
				uint64_t units, double work, size_t scratch)
{
	struct cpu_code *c = code_of(lo);
	rlx_k_fn *fn = ((rlx_k_fn *const *)cpu_kernels(lo))[id];
	struct cpu_call *call;

	finish_filling(lo);
	if (!fn)
		return rlx_lower_unsupported(lo, "this instruction set level has no kernel");
	if (((struct cpu_lower *)lo)->dry)
		return lo->status;
	call = rlx_lower_append(lo, false);
	if (!call)
		return lo->status;
	if (rlx_align64(scratch) > c->scratch_bytes)
		c->scratch_bytes = rlx_align64(scratch);
	call->fn = fn;
	call->units = units;
	call->kind = RLX_CALL_KERNEL;
	call->parallel = units > 1 && work >= PARALLEL_WORK;
	call->set_rows = lo->set_rows;
	call->pack = param_pack_of(lo);
	return RLX_OK;
}

/* There is room in the list: who is to fill @data cannot be told any more that there is none. */
static void *note_packed(struct cpu_code *c, struct rlx_blob *blob, const char *kind,
			 const int64_t param[4], size_t bytes, void *data)
{
	c->packed[c->n_packed++] = (struct cpu_packed){ data, bytes };
	if (c->base.gather)
		c->base.gather->prepared(c->base.gather, blob, kind, param, bytes, data);
	return data;
}

void *cpu_prepare(struct rlx_lower *lo, uint32_t k, const char *kind,
		  const int64_t param[4], size_t bytes, bool *out_new)
{
	const struct rlx_place *at = &lo->plan->val[lo->st->in[k]].place;
	struct rlx_blob *blob = lo->plan->constant[at->index];
	struct cpu_lower *cl = (struct cpu_lower *)lo;
	struct cpu_code *c = code_of(lo);
	struct cpu_prepared *p;
	enum rlx_took took;
	void *stored;

	*out_new = false;
	if (cl->dry)
		return cl;	/* an address that nobody reads */
	finish_filling(lo);
	if (!rlx_grow(&c->packed, &c->cap_packed, c->n_packed + 1, sizeof(*c->packed))) {
		rlx_lower_out_of_memory(lo);
		return NULL;
	}
	took = rlx_store_take(c->base.store, blob, kind, param, bytes, &stored);
	if (took != RLX_TOOK_NONE) {
		*out_new = took == RLX_TOOK_NEW;
		cl->filling_stored = *out_new ? stored : NULL;
		return note_packed(c, blob, kind, param, bytes, stored);
	}
	if (!rlx_grow(&c->prepared, &c->cap_prepared, c->n_prepared + 1,
		      sizeof(*c->prepared))) {
		rlx_lower_out_of_memory(lo);
		return NULL;
	}
	p = cpu_prepared_get(blob, kind, param, bytes, out_new);
	if (!p) {
		rlx_lower_out_of_memory(lo);
		return NULL;
	}
	c->prepared[c->n_prepared++] = p;
	if (*out_new) {
		cl->filling = p;
		c->base.lacks |= blob->absent;	/* there is nothing to make it of */
	}
	return note_packed(c, blob, kind, param, bytes, cpu_prepared_data(p));
}

void *cpu_prepare_same(struct rlx_lower *lo, uint32_t k, const struct cpu_wanted *w, size_t bytes,
		       bool *out_new)
{
	int64_t key[4];
	uint64_t n;
	void *p;

	memcpy(key, w->key, sizeof(key));
	for (n = (uint64_t)key[3] + w->hash;; n++) {
		key[3] = (int64_t)n;
		p = cpu_prepare(lo, k, w->kind, key, bytes, out_new);
		if (!p || *out_new || ((struct cpu_lower *)lo)->dry || w->is_same(w->ctx, p))
			return p;
	}
}

static bool is_behind(const void *packing, const void *found)
{
	const struct cpu_packing *p = packing;

	return !memcmp((const char *)found + p->bytes, p->of, p->n_of);
}

static void *prepare_packing(struct rlx_lower *lo, const struct cpu_packing *p, bool *out_new)
{
	struct cpu_wanted w = { p->kind, p->key, 0, is_behind, p };
	void *to;

	if (!p->n_of)
		return cpu_prepare(lo, p->input, p->kind, p->key, p->bytes, out_new);
	w.hash = rlx_hash_bytes(p->of, p->n_of, 1);
	to = cpu_prepare_same(lo, p->input, &w, p->bytes + p->n_of, out_new);
	if (to && *out_new)
		memcpy((char *)to + p->bytes, p->of, p->n_of);
	return to;
}

/* The call that packs input @p->input into @tmp; NULL: out of memory. */
static struct cpu_call *packing_call(struct rlx_lower *lo, const struct cpu_packing *p,
				     uint32_t tmp)
{
	const struct rlx_ref ref[2] = {
		{ .at = p->src_at, .val = lo->st->in[p->input], .access = RLX_READ },
		{ .at = p->dst_at, .val = tmp, .access = RLX_UPDATE },
	};
	struct cpu_call *call = rlx_calls_add(&code_of(lo)->calls, p->args, p->n_args, ref, 2);

	if (!call) {
		rlx_lower_out_of_memory(lo);
		return NULL;
	}
	call->base.step = (uint32_t)(lo->st - lo->plan->step);
	call->base.n_step = 1;
	call->fn = ((rlx_k_fn *const *)cpu_kernels(lo))[p->kernel];
	call->kind = RLX_CALL_KERNEL;
	call->units = p->units;
	call->parallel = p->units > 1 && (double)p->bytes / 4 >= PARALLEL_WORK;
	return call;
}

/* The temporary of weights of params alone; calls that want the same share one. */
static uint32_t pack_param(struct rlx_lower *lo, const struct cpu_packing *p)
{
	const uint32_t val = lo->st->in[p->input];
	const struct rlx_place *at = &lo->plan->val[val].place;
	struct cpu_code *c = code_of(lo);
	struct cpu_param_pack *pp;
	struct cpu_call *call;
	uint32_t i;

	for (i = 0; i < c->n_param_pack; i++) {
		pp = &c->param_pack[i];
		if (pp->val == val && !strcmp(pp->kind, p->kind) &&
		    !memcmp(pp->key, p->key, sizeof(pp->key)) && pp->n_of == p->n_of &&
		    (!p->n_of || !memcmp(pp->of, p->of, p->n_of)))
			return pp->tmp;
	}
	if (!rlx_grow(&c->param_pack, &c->cap_param_pack, i + 1, sizeof(*pp))) {
		rlx_lower_out_of_memory(lo);
		return 0;
	}
	pp = &c->param_pack[i];
	*pp = (struct cpu_param_pack){
		.kind = p->kind, .of = p->of, .n_of = p->n_of,
		.val = val, .tmp = rlx_lower_tmp(lo, p->bytes),
		.call = c->calls.n_call,
		.param = at->kind == RLX_PLACE_PARAM ? at->index + 1 : 0,
	};
	memcpy(pp->key, p->key, sizeof(pp->key));
	call = lo->status ? NULL : packing_call(lo, p, pp->tmp);
	if (!call)
		return 0;
	call->packs = true;
	lo->plan->val[pp->tmp].persistent = true;
	c->n_param_pack++;
	return pp->tmp;
}

void cpu_pack(struct rlx_lower *lo, void *field, const struct cpu_packing *p)
{
	const void *from;
	uint32_t tmp;
	bool is_new;
	void *dst;

	if (rlx_lower_is_const(lo, p->input)) {
		dst = prepare_packing(lo, p, &is_new);
		memcpy(field, &dst, sizeof(dst));
		if (!dst || !is_new)
			return;
		from = rlx_lower_const(lo, p->input);
		memcpy((char *)p->args + p->src_at, &from, sizeof(from));
		memcpy((char *)p->args + p->dst_at, &dst, sizeof(dst));
		cpu_run_units(cpu_isa(lo), ((rlx_k_fn *const *)cpu_kernels(lo))[p->kernel], p->args,
			      0, p->units, NULL);
		return;
	}
	if (((struct cpu_lower *)lo)->dry || lo->status)
		return;
	if (rlx_lower_of_params(lo, p->input)) {
		tmp = pack_param(lo, p);
	} else {
		tmp = rlx_lower_tmp(lo, p->bytes);
		if (tmp)
			packing_call(lo, p, tmp);
	}
	rlx_lower_ref_tmp(lo, field, tmp, 0);
}

void cpu_pack_optional(struct rlx_lower *lo)
{
	struct cpu_code *c = code_of(lo);
	struct cpu_call *last;

	if (((struct cpu_lower *)lo)->dry || lo->status)
		return;
	last = (struct cpu_call *)rlx_call_at(&c->calls, c->calls.n_call - 1);
	last->unpacked = true;
	last->pack = last[-1].pack;
	c->param_pack[last->pack - 1].optional = true;
}

/* What was appended for a step that is lowered otherwise is taken back. */
static void cpu_undo(struct rlx_lower *lo)
{
	struct cpu_code *c = code_of(lo);

	while (c->n_param_pack && c->param_pack[c->n_param_pack - 1].call >= c->calls.n_call)
		c->n_param_pack--;
}

static enum rlx_status cpu_host_fallback(struct rlx_lower *lo, enum rlx_call_kind kind)
{
	struct cpu_code *c = code_of(lo);
	uint64_t bytes;
	enum rlx_status st = rlx_host_scratch(lo->plan, lo->st, &bytes, lo->err);
	struct cpu_call *call;
	uint32_t i;

	if (st)
		return st;
	if (((struct cpu_lower *)lo)->dry)
		return RLX_OK;
	/* no memory is so large, and sums of it stay below 2^64 */
	if (bytes > UINT64_MAX / 4)
		return rlx_lower_out_of_memory(lo);
	/* It looks its inputs up when it runs. */
	for (i = 0; i < lo->st->n_in; i++) {
		const struct rlx_place *in = &lo->plan->val[lo->st->in[i]].place;

		if (lo->st->in[i] && in->kind == RLX_PLACE_CONST &&
		    (kind != RLX_CALL_CONTROL || cpu_control_reads(lo, i)))
			rlx_host_home(lo->code, in->index);
	}
	if (bytes > c->host_bytes)
		c->host_bytes = rlx_align64(bytes);
	call = rlx_lower_append(lo, true);
	if (!call)
		return lo->status;
	call->kind = (uint8_t)kind;
	call->units = 1;
	if (kind == RLX_CALL_CONTROL)
		call->body = cpu_first_body(lo->code, call->base.step);
	return RLX_OK;
}

static void cpu_persistent(struct rlx_lower *lo, void *field, const void *p, size_t bytes)
{
	(void)lo;
	(void)bytes;
	memcpy(field, &p, sizeof(p));
}

static enum rlx_isa isa_of(const struct rlx_lower *lo)
{
	return cpu_isa(lo);
}

static const struct rlx_lower_ops cpu_ops = {
	.call = cpu_call, .host_fallback = cpu_host_fallback, .persistent = cpu_persistent,
	.undo = cpu_undo, .isa = isa_of,
	.gemm = cpu_gemm, .gemm_i8 = cpu_gemm_i8, .conv = cpu_conv,
	.conv_i8_group = cpu_conv_i8_group, .conv_i8 = cpu_conv_i8, .recur = cpu_recur,
};

/*
 * Strict bits: ops whose kernels add up by as many lanes as a level has run v3's everywhere.
 * Elsewhere v3 and the levels above it agree; of those that multiply 16 bits as such, and round
 * first, the kernels are not used.
 */
static bool is_of_v3(unsigned int op)
{
	switch (op) {
#define V3(op) case RLX_OP_##op:
	V3(fft) V3(rfft) V3(irfft)
	V3(qr) V3(eigh) V3(svd) V3(cholesky) V3(triangular_solve) V3(solve)
	V3(slogdet) V3(det)
		return true;
#undef V3
	default:
		return false;
	}
}

static enum rlx_isa level_of(const struct rlx_code *code, bool strict)
{
	const enum rlx_isa isa = ((const struct cpu_device *)code->dev)->isa;

	return strict && isa > RLX_ISA_V4_VNNI ? RLX_ISA_V4_VNNI : isa;
}

static enum rlx_status lower_step(struct cpu_lower *cl, const struct rlx_plan_step *st,
				  uint32_t flags)
{
	enum rlx_status rc;

	cl->base.st = st;
	cl->isa = cl->base.strict && st->def && is_of_v3(st->def->index) ? RLX_ISA_V3 :
		  ((struct cpu_code *)cl->base.code)->isa;
	rc = rlx_lower_step(&cl->base, st->def ? cpu_lowering(st->def->index) : NULL, flags);
	finish_filling(&cl->base);
	return rc;
}

static struct cpu_lower *lower_new(struct rlx_code *code, struct rlx_bump *bump,
				   struct rlx_error *err)
{
	struct cpu_lower *cl = rlx_aligned(64, sizeof(*cl));

	if (!cl) {
		rlx_fail(err, RLX_ENOMEM, "cpu: out of memory");
		return NULL;
	}
	memset(cl, 0, sizeof(*cl));
	cl->base.ops = &cpu_ops;
	cl->base.code = code;
	cl->base.calls = &((struct cpu_code *)code)->calls;
	cl->base.calls->size = sizeof(struct cpu_call);
	cl->base.plan = code->plan;
	cl->base.err = err;
	cl->base.bump = bump;
	cl->isa = ((const struct cpu_device *)code->dev)->isa;
	cl->base.block = (int64_t)rlx_conv_block(cl->isa);
	return cl;
}

bool cpu_supports(const struct rlx_device *dev, const struct rlx_infer *q, struct rlx_error *why)
{
	struct rlx_plan none = { 0 };
	struct cpu_code code = { .base.dev = (struct rlx_device *)dev, .base.plan = &none };
	struct cpu_lower *cl = lower_new(&code.base, &code.bump, why);
	bool yes = true;

	if (cl) {
		cl->dry = true;
		yes = rlx_lower_try(&cl->base, cpu_lowering(q->def->index), q, true, why);
	}
	rlx_free(cl);
	rlx_bump_fini(&code.bump);
	return yes;
}

/* Constants never move. */
static bool is_fixed(void *ctx, const struct rlx_ref *r, const struct rlx_place *at, uint64_t *out)
{
	struct rlx_code *code = ctx;

	if (r->kind != RLX_REF_VALUE || at->kind != RLX_PLACE_CONST)
		return false;
	*out = (uintptr_t)rlx_host_home(code, at->index) + r->off;
	return true;
}

enum rlx_status cpu_compile(struct rlx_code *code, uint32_t flags,
			    struct rlx_error *err)
{
	struct cpu_code *c = (struct cpu_code *)code;
	const struct cpu_device *dev = (const struct cpu_device *)code->dev;
	struct cpu_lower *cl = lower_new(code, &c->bump, err);
	enum rlx_status st = RLX_OK;
	uint64_t t0 = rlx_now(), body_bytes = 0;
	uint32_t i;

	if (!cl)
		return RLX_ENOMEM;
	cl->base.strict = flags & RLX_COMPILE_STRICT_BITS;
	c->isa = level_of(code, cl->base.strict);
	if (cl->base.strict && c->isa == RLX_ISA_BASE)
		st = rlx_fail(err, RLX_ENOSUP, "compile: strict bits want x86-64-v3 (AVX2 and "
			      "FMA), which this processor lacks or RLX_ISA forbids");
	for (i = 0; i < code->plan->n_step && !st; i++)
		st = lower_step(cl, &code->plan->step[i], flags);
	if (!st)
		st = rlx_calls_place(&c->calls, code->plan, NULL, err);
	c->scratch_at = rlx_align64(code->plan->work_bytes);
	c->host_at = rlx_align64(c->scratch_at + c->scratch_bytes * dev->base.threads);
	c->body_at = rlx_align64(c->host_at + c->host_bytes);
	for (i = 0; i < code->n_body; i++)
		if (code->body[i].code->work_bytes > body_bytes)
			body_bytes = code->body[i].code->work_bytes;
	if (!st && __builtin_add_overflow(c->body_at, body_bytes, &code->work_bytes))
		st = rlx_fail(err, RLX_ENOMEM, "cpu: over 2^64 bytes of workspace");
	if (!st)
		st = rlx_calls_emit(&c->calls, code->plan, is_fixed, code, err);
	code->pack_ns = rlx_now() - t0;
	if (!st)
		st = cpu_add_bodies(code, err);
	code->packed_bytes = cpu_packed_count(c);
	rlx_free(cl);
	if (st)
		cpu_release(code);
	return st;
}

void cpu_release(struct rlx_code *code)
{
	struct cpu_code *c = (struct cpu_code *)code;
	uint32_t i;

	for (i = 0; i < c->n_prepared; i++)
		cpu_prepared_put(c->prepared[i]);
	rlx_bump_fini(&c->bump);
	rlx_free(c->prepared);
	rlx_free(c->packed);
	rlx_free(c->param_pack);
	rlx_calls_fini(&c->calls);
	c->prepared = NULL;
	c->packed = NULL;
	c->param_pack = NULL;
	c->n_param_pack = 0;
	c->n_prepared = 0;
	c->n_packed = 0;
}
