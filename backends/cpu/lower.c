// SPDX-License-Identifier: MIT
/* From plan steps to kernel calls: the image, its relocations, the work areas. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"
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

static bool reserve_image(struct cpu_code *c, uint64_t need)
{
	uint64_t cap = c->cap_image ? c->cap_image : 65536;
	unsigned char *p;

	while (cap < need)
		cap *= 2;
	if (cap == c->cap_image)
		return true;
	p = rlx_realloc(c->image, cap);
	if (!p)
		return false;
	c->image = p;
	c->cap_image = cap;
	return true;
}

/* The image is whole. Of no matter if there is no memory for a smaller one. */
static void trim_image(struct cpu_code *c)
{
	unsigned char *p = c->n_image ? rlx_realloc(c->image, c->n_image) : NULL;

	if (!p)
		return;
	c->image = p;
	c->cap_image = c->n_image;
}

static enum rlx_status append(struct rlx_lower *lo, struct cpu_call call)
{
	struct cpu_code *c = code_of(lo);

	if (!rlx_grow(&c->call, &c->cap_call, c->n_call + 1, sizeof(*c->call)))
		return rlx_lower_out_of_memory(lo);
	call.step = (uint32_t)(lo->st - lo->plan->step);
	c->call[c->n_call++] = call;
	return RLX_OK;
}

/* Copy the staged struct behind the image; constants never move, so they are there. */
static bool add_args(struct rlx_lower *lo, uint64_t at)
{
	struct cpu_code *c = code_of(lo);
	uint32_t i;

	if (!reserve_image(c, at + lo->n_staged) ||
	    !rlx_grow(&c->reloc, &c->cap_reloc, c->n_reloc + lo->n_ref, sizeof(*c->reloc)))
		return false;
	memset(c->image + c->n_image, 0, at - c->n_image);
	memcpy(c->image + at, lo->staged, lo->n_staged);
	c->n_image = at + lo->n_staged;
	for (i = 0; i < lo->n_ref; i++) {
		struct rlx_ref r = lo->ref[i];
		const char *p;

		r.at += at;
		if (r.kind == RLX_REF_PLACE && r.place.kind == RLX_PLACE_CONST) {
			p = (const char *)rlx_host_home(lo->code, r.place.index) + r.place.offset;
			memcpy(c->image + r.at, &p, sizeof(p));
			continue;
		}
		c->reloc[c->n_reloc++] = r;
	}
	return true;
}

static enum rlx_status cpu_call(struct rlx_lower *lo, enum rlx_kernel_id id,
				uint64_t units, double work, size_t scratch)
{
	struct cpu_code *c = code_of(lo);
	uint64_t at = rlx_align64(c->n_image);
	rlx_k_fn *fn = ((rlx_k_fn *const *)cpu_kernels(lo))[id];

	finish_filling(lo);
	if (!fn)
		return rlx_lower_unsupported(lo, "this instruction set level has no kernel");
	if (((struct cpu_lower *)lo)->dry)
		return lo->status;
	if (!add_args(lo, at))
		return rlx_lower_out_of_memory(lo);
	if (rlx_align64(scratch) > c->scratch_bytes)
		c->scratch_bytes = rlx_align64(scratch);
	return append(lo, (struct cpu_call){
		.fn = fn, .args = at, .units = units, .kind = RLX_CALL_KERNEL,
		.grain = 0, .parallel = units > 1 && work >= PARALLEL_WORK,
		.rows = lo->rows, .set_rows = lo->set_rows, .checked = lo->checked,
	});
}

/* There is room in the list: who is to fill @data cannot be told any more that there is none. */
static void *note_packed(struct cpu_code *c, void *data, uint64_t bytes)
{
	c->packed[c->n_packed++] = (struct cpu_packed){ data, bytes };
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
		return note_packed(c, stored, bytes);
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
	if (*out_new)
		cl->filling = p;
	return note_packed(c, cpu_prepared_data(p), bytes);
}

static enum rlx_status cpu_host_fallback(struct rlx_lower *lo, enum rlx_call_kind kind)
{
	struct cpu_code *c = code_of(lo);
	uint64_t bytes;
	enum rlx_status st = rlx_host_scratch(lo->plan, lo->st, &bytes, lo->err);
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
	return append(lo, (struct cpu_call){
		.kind = (uint8_t)kind, .units = 1, .body = kind == RLX_CALL_CONTROL ?
			cpu_first_body(lo->code, (uint32_t)(lo->st - lo->plan->step)) : 0,
	});
}

static void cpu_undo(struct rlx_lower *lo)
{
	struct cpu_lower *cl = (struct cpu_lower *)lo;

	code_of(lo)->n_call = cl->calls;
	code_of(lo)->n_reloc = cl->relocs;
}

static void cpu_kept(struct rlx_lower *lo, void *field, const void *p, size_t bytes)
{
	(void)lo;
	(void)bytes;
	memcpy(field, &p, sizeof(p));
}

static const struct rlx_lower_ops cpu_ops = {
	.call = cpu_call, .host_fallback = cpu_host_fallback, .undo = cpu_undo, .kept = cpu_kept,
	.gemm = cpu_gemm, .gemm_i8 = cpu_gemm_i8, .conv = cpu_conv,
	.conv_i8_group = cpu_conv_i8_group, .conv_i8 = cpu_conv_i8, .recur = cpu_recur,
};

static enum rlx_status lower_step(struct cpu_lower *cl, const struct rlx_plan_step *st,
				  uint32_t flags)
{
	const struct cpu_code *c = code_of(&cl->base);
	enum rlx_status rc;

	cl->base.st = st;
	cl->calls = c->n_call;
	cl->relocs = c->n_reloc;
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
	cl->base.plan = code->plan;
	cl->base.err = err;
	cl->base.bump = bump;
	cl->base.block = (int64_t)rlx_conv_block(((const struct cpu_device *)code->dev)->isa);
	cl->base.tmp_at = rlx_align64(code->plan->work_bytes);
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
	for (i = 0; i < code->plan->n_step && !st; i++)
		st = lower_step(cl, &code->plan->step[i], flags);
	c->scratch_at = rlx_align64(cl->base.tmp_at + cl->base.tmp_most);
	c->host_at = rlx_align64(c->scratch_at + c->scratch_bytes * dev->base.threads);
	c->body_at = rlx_align64(c->host_at + c->host_bytes);
	for (i = 0; i < code->n_body; i++)
		if (code->body[i].code->work_bytes > body_bytes)
			body_bytes = code->body[i].code->work_bytes;
	if (!st && __builtin_add_overflow(c->body_at, body_bytes, &code->work_bytes))
		st = rlx_fail(err, RLX_ENOMEM, "cpu: over 2^64 bytes of workspace");
	trim_image(c);
	if (!st)
		st = cpu_sort_relocs(c, err);
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
	rlx_free(c->call);
	rlx_free(c->reloc);
	rlx_free(c->slot_at);
	rlx_free(c->image);
	c->prepared = NULL;
	c->packed = NULL;
	c->call = NULL;
	c->reloc = NULL;
	c->slot_at = NULL;
	c->image = NULL;
	c->n_prepared = 0;
	c->n_packed = 0;
}
