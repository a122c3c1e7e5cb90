// SPDX-License-Identifier: MIT
/* From plan steps to kernel calls: the image, its relocations, the work areas. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/clock.h"

/* Less work than this is done sooner by one thread than handed to another. */
static const double PARALLEL_WORK = 16384;

static uint64_t align64(uint64_t n)
{
	return (n + 63) & ~63ull;
}

const struct rlx_type *cpu_in(const struct cpu_lower *lo, uint32_t k)
{
	return k < lo->st->n_in && lo->st->in[k] ?
	       &lo->plan->val[lo->st->in[k]].type : NULL;
}

const struct rlx_type *cpu_out(const struct cpu_lower *lo, uint32_t k)
{
	return k < lo->st->n_out ? &lo->plan->val[lo->st->out[k]].type : NULL;
}

const void *cpu_const(const struct cpu_lower *lo, uint32_t k)
{
	const struct rlx_place *at;

	if (!cpu_in(lo, k))
		return NULL;
	at = &lo->plan->val[lo->st->in[k]].place;
	if (at->kind != RLX_PLACE_CONST)
		return NULL;
	return (const char *)rlx_blob_data(lo->plan->constant[at->index]) + at->offset;
}

static enum rlx_status no_memory(struct cpu_lower *lo)
{
	lo->status = rlx_fail(lo->err, RLX_ENOMEM, "cpu: out of memory compiling %s",
			      lo->st && lo->st->def ? lo->st->def->name : "a copy");
	return lo->status;
}

void *cpu_args(struct cpu_lower *lo, size_t size)
{
	if (size > CPU_ARGS_MAX)
		lo->status = rlx_fail(lo->err, RLX_EBUG, "cpu: args of %zu bytes", size);
	memset(lo->staged, 0, size < CPU_ARGS_MAX ? size : CPU_ARGS_MAX);
	lo->n_staged = size < CPU_ARGS_MAX ? size : CPU_ARGS_MAX;
	lo->n_ref = 0;
	lo->rows = 0;
	lo->set_rows = NULL;
	return lo->staged;
}

static void add_ref(struct cpu_lower *lo, void *field, struct rlx_place at,
		    bool status)
{
	if (lo->n_ref == CPU_STEP_RELOCS) {
		lo->status = rlx_fail(lo->err, RLX_EBUG, "cpu: over %d pointers in a call",
				      CPU_STEP_RELOCS);
		return;
	}
	lo->ref[lo->n_ref++] = (struct cpu_reloc){
		.at = (uint64_t)((unsigned char *)field - lo->staged),
		.place = at, .status = status,
	};
}

static void ref_value(struct cpu_lower *lo, void *field, uint32_t v, uint64_t off)
{
	struct rlx_place at = lo->plan->val[v].place;
	const char *p;

	if (!v)
		return;
	at.offset += off;
	if (at.kind == RLX_PLACE_CONST) {	/* never moves */
		p = (const char *)rlx_blob_data(lo->plan->constant[at.index]) + at.offset;
		memcpy(field, &p, sizeof(p));
		return;
	}
	add_ref(lo, field, at, false);
}

void cpu_ref_in(struct cpu_lower *lo, void *field, uint32_t k, uint64_t off)
{
	if (k < lo->st->n_in)
		ref_value(lo, field, lo->st->in[k], off);
}

void cpu_ref_out(struct cpu_lower *lo, void *field, uint32_t k, uint64_t off)
{
	if (k < lo->st->n_out)
		ref_value(lo, field, lo->st->out[k], off);
}

void cpu_ref_status(struct cpu_lower *lo, void *field)
{
	add_ref(lo, field, (struct rlx_place){ 0 }, true);
}

uint64_t cpu_tmp(struct cpu_lower *lo, uint64_t bytes)
{
	uint64_t at = lo->tmp;

	if (bytes > UINT64_MAX / 4 - at) {
		no_memory(lo);
		return 0;
	}
	lo->tmp = align64(at + bytes);
	if (lo->tmp > lo->code->tmp_bytes)
		lo->code->tmp_bytes = lo->tmp;
	return at;
}

void cpu_ref_tmp(struct cpu_lower *lo, void *field, uint64_t tmp)
{
	add_ref(lo, field, (struct rlx_place){
		RLX_PLACE_WORK, 0, lo->code->tmp_at + tmp }, false);
}

void cpu_extent(struct cpu_lower *lo, int64_t rows, cpu_units_fn *set_rows)
{
	lo->rows = rows;
	lo->set_rows = set_rows;
}

/* The block that cpu_prepare() last gave out new has been filled by now. */
static void finish_filling(struct cpu_lower *lo)
{
	if (lo->filling)
		cpu_prepared_ready(lo->filling);
	lo->filling = NULL;
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

static enum rlx_status append(struct cpu_lower *lo, struct cpu_call call)
{
	struct cpu_code *c = lo->code;

	if (!rlx_grow(&c->call, &c->cap_call, c->n_call + 1, sizeof(*c->call)))
		return no_memory(lo);
	call.step = (uint32_t)(lo->st - lo->plan->step);
	c->call[c->n_call++] = call;
	return RLX_OK;
}

enum rlx_status cpu_call(struct cpu_lower *lo, rlx_k_fn *fn, uint64_t units,
			 double work, size_t scratch)
{
	struct cpu_code *c = lo->code;
	uint64_t at = align64(c->n_image);
	uint32_t i;

	finish_filling(lo);
	if (lo->status)
		return lo->status;
	if (!fn)
		return cpu_no(lo, "this instruction set level has no kernel");
	if (!reserve_image(c, at + lo->n_staged) ||
	    !rlx_grow(&c->reloc, &c->cap_reloc, c->n_reloc + lo->n_ref, sizeof(*c->reloc)))
		return no_memory(lo);
	memset(c->image + c->n_image, 0, at - c->n_image);
	memcpy(c->image + at, lo->staged, lo->n_staged);
	c->n_image = at + lo->n_staged;
	for (i = 0; i < lo->n_ref; i++) {
		c->reloc[c->n_reloc] = lo->ref[i];
		c->reloc[c->n_reloc++].at += at;
	}
	if (align64(scratch) > c->scratch_bytes)
		c->scratch_bytes = align64(scratch);
	return append(lo, (struct cpu_call){
		.fn = fn, .args = at, .units = units, .kind = CPU_CALL_KERNEL,
		.grain = 0, .parallel = units > 1 && work >= PARALLEL_WORK,
		.rows = lo->rows, .set_rows = lo->set_rows,
	});
}

enum rlx_status cpu_no(struct cpu_lower *lo, const char *why)
{
	if (!lo->status)
		lo->status = rlx_fail(lo->err, RLX_ENOSUP, "cpu: %s: %s",
				      lo->st->def ? lo->st->def->name : "copy", why);
	return lo->status;
}

void *cpu_prepare(struct cpu_lower *lo, uint32_t k, const char *kind,
		  const int64_t param[4], size_t bytes, bool *out_new)
{
	const struct rlx_place *at = &lo->plan->val[lo->st->in[k]].place;
	struct cpu_code *c = lo->code;
	struct cpu_prepared *p;

	*out_new = false;
	finish_filling(lo);
	if (!rlx_grow(&c->prepared, &c->cap_prepared, c->n_prepared + 1,
		      sizeof(*c->prepared))) {
		no_memory(lo);
		return NULL;
	}
	p = cpu_prepared_get(lo->plan->constant[at->index], kind, param, bytes, out_new);
	if (!p) {
		no_memory(lo);
		return NULL;
	}
	c->prepared[c->n_prepared++] = p;
	if (*out_new)
		lo->filling = p;
	c->base.packed_bytes += bytes;
	return cpu_prepared_data(p);
}

void *cpu_keep(struct cpu_lower *lo, size_t n, size_t size)
{
	void *p = rlx_bump_new(&lo->code->bump, n, size);

	if (!p)
		no_memory(lo);
	return p;
}

/* What is left when no kernel takes a step. */
static enum rlx_status lower_host(struct cpu_lower *lo, uint32_t flags,
				  const struct rlx_error *why)
{
	uint64_t bytes;
	enum rlx_status st;

	if (flags & RLX_COMPILE_NATIVE)
		return rlx_error_set(lo->err, RLX_ENOSUP, lo->st->file, lo->st->line,
				     "%s has no native kernel here%s%s, and native ones were asked for",
				     lo->st->def->name, why->status ? ": " : "", why->text);
	st = rlx_host_scratch(lo->plan, lo->st, &bytes, lo->err);
	if (st)
		return st;
	if (bytes > lo->code->host_bytes)
		lo->code->host_bytes = align64(bytes);
	lo->code->base.host++;
	return append(lo, (struct cpu_call){ .kind = CPU_CALL_HOST, .units = 1 });
}

static enum rlx_status lower_step(struct cpu_lower *lo, uint32_t flags)
{
	struct cpu_code *c = lo->code;
	uint32_t calls = c->n_call, relocs = c->n_reloc;
	struct rlx_error why = { 0 }, *err = lo->err;
	cpu_lower_fn *fn = lo->st->def ? cpu_lowering(lo->st->def->index) : NULL;

	lo->args = lo->st->args;
	lo->status = RLX_OK;
	lo->tmp = 0;
	if (!lo->st->def) {
		c->base.native++;
		return append(lo, (struct cpu_call){ .kind = CPU_CALL_COPY, .units = 1 });
	}
	if (!fn)
		return lower_host(lo, flags, &why);
	lo->err = &why;
	lo->status = fn(lo);
	finish_filling(lo);
	lo->err = err;
	if (!lo->status) {
		c->base.native++;
		return RLX_OK;
	}
	if (lo->status != RLX_ENOSUP)
		return rlx_error_set(err, lo->status, why.file, why.line, "%s", why.text);
	c->n_call = calls;
	c->n_reloc = relocs;
	lo->status = RLX_OK;
	return lower_host(lo, flags, &why);
}

enum rlx_status cpu_compile(struct rlx_code *code, uint32_t flags,
			    struct rlx_error *err)
{
	struct cpu_code *c = (struct cpu_code *)code;
	const struct cpu_device *dev = (const struct cpu_device *)code->dev;
	struct cpu_lower *lo = rlx_aligned(64, sizeof(*lo));
	enum rlx_status st = RLX_OK;
	uint64_t t0 = rlx_now();
	uint32_t i;

	if (!lo)
		return rlx_fail(err, RLX_ENOMEM, "cpu: out of memory");
	memset(lo, 0, sizeof(*lo));
	lo->code = c;
	lo->dev = dev;
	lo->k = dev->k;
	lo->plan = code->plan;
	lo->err = err;
	c->tmp_at = align64(code->plan->work_bytes);
	for (i = 0; i < code->plan->n_step && !st; i++) {
		lo->st = &code->plan->step[i];
		st = lower_step(lo, flags);
	}
	c->scratch_at = align64(c->tmp_at + c->tmp_bytes);
	c->host_at = align64(c->scratch_at + c->scratch_bytes * dev->base.threads);
	code->work_bytes = c->host_at + c->host_bytes;
	code->pack_ns = rlx_now() - t0;
	rlx_free(lo);
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
	rlx_free(c->call);
	rlx_free(c->reloc);
	rlx_free(c->image);
	c->prepared = NULL;
	c->call = NULL;
	c->reloc = NULL;
	c->image = NULL;
	c->n_prepared = 0;
}
