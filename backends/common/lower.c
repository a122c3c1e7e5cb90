// SPDX-License-Identifier: MIT
/* What lowering functions use, and when a step goes to the host. */
#include <stdio.h>
#include <string.h>

#include "backends/common/lower.h"
#include "kernels/gemm.h"
#include "rlx/custom.h"

/* The value that stands for input @k; 0: absent. */
static uint32_t input_of(const struct rlx_lower *lo, uint32_t k)
{
	if (k < RLX_LOWER_REPLACED && lo->replaced[k])
		return lo->replaced[k];
	return k < lo->st->n_in ? lo->st->in[k] : 0;
}

const struct rlx_type *rlx_lower_in(const struct rlx_lower *lo, uint32_t k)
{
	uint32_t v = input_of(lo, k);

	return v ? &lo->plan->val[v].type : NULL;
}

const struct rlx_type *rlx_lower_out(const struct rlx_lower *lo, uint32_t k)
{
	return k < lo->st->n_out ? &lo->plan->val[lo->st->out[k]].type : NULL;
}

bool rlx_lower_out_is_read(const struct rlx_lower *lo, uint32_t k)
{
	const struct rlx_plan_val *v = &lo->plan->val[lo->st->out[k]];

	return v->root != lo->st->out[k] || v->last > (uint32_t)(lo->st - lo->plan->step);
}

const struct rlx_place *rlx_lower_place(const struct rlx_lower *lo, uint32_t k)
{
	return &lo->plan->val[input_of(lo, k)].place;
}

bool rlx_lower_is_const(const struct rlx_lower *lo, uint32_t k)
{
	return rlx_lower_in(lo, k) && rlx_lower_place(lo, k)->kind == RLX_PLACE_CONST;
}

const void *rlx_lower_const(const struct rlx_lower *lo, uint32_t k)
{
	const struct rlx_place *at;

	if (!rlx_lower_is_const(lo, k))
		return NULL;
	at = rlx_lower_place(lo, k);
	return (const char *)rlx_host_contents(lo->code, lo->plan->constant[at->index]) +
	       at->offset;
}

bool rlx_lower_of_params(const struct rlx_lower *lo, uint32_t k)
{
	const struct rlx_plan_val *v = &lo->plan->val[input_of(lo, k)];

	return !lo->st->once && (v->place.kind == RLX_PLACE_PARAM ||
				 (v->root && lo->plan->val[v->root].persistent));
}

/* Names the backend and the op, as every message of lowering begins. */
static enum rlx_status fail(struct rlx_lower *lo, enum rlx_status st, const char *why)
{
	if (!lo->status)
		lo->status = rlx_fail(lo->err, st, "%s: %s: %s", lo->code->dev->be->name,
				      lo->st && lo->st->def ? lo->st->def->name : "copy",
				      why);
	return lo->status;
}

enum rlx_status rlx_lower_out_of_memory(struct rlx_lower *lo)
{
	return fail(lo, RLX_ENOMEM, "out of memory compiling");
}

enum rlx_status rlx_lower_unsupported(struct rlx_lower *lo, const char *why)
{
	return fail(lo, RLX_ENOSUP, why);
}

void *rlx_lower_args(struct rlx_lower *lo, size_t size)
{
	if (size > RLX_LOWER_ARGS)
		fail(lo, RLX_EBUG, "the arguments are too large");
	memset(lo->staged, 0, size < RLX_LOWER_ARGS ? size : RLX_LOWER_ARGS);
	lo->n_staged = size < RLX_LOWER_ARGS ? size : RLX_LOWER_ARGS;
	lo->n_ref = 0;
	lo->rows = 0;
	lo->set_rows = NULL;
	lo->checked.n = 0;
	return lo->staged;
}

void rlx_lower_ref_add(struct rlx_lower *lo, void *field, struct rlx_ref ref)
{
	if (lo->n_ref == RLX_LOWER_REFS) {
		fail(lo, RLX_EBUG, "too many pointers in a call");
		return;
	}
	ref.at = (uint64_t)((unsigned char *)field - lo->staged);
	lo->ref[lo->n_ref++] = ref;
}

void rlx_lower_ref_move(struct rlx_lower *lo, void *field, void *to)
{
	for (uint32_t i = 0; i < lo->n_ref; i++)
		if (lo->ref[i].at == (uint64_t)((unsigned char *)field - lo->staged))
			lo->ref[i].at = (uint64_t)((unsigned char *)to - lo->staged);
}

static void ref_value(struct rlx_lower *lo, void *field, uint32_t v, uint64_t off,
		      enum rlx_access access)
{
	if (v)
		rlx_lower_ref_add(lo, field, (struct rlx_ref){
			.val = v, .off = off, .access = (uint8_t)access });
}

void rlx_lower_ref_in(struct rlx_lower *lo, void *field, uint32_t k, uint64_t off)
{
	ref_value(lo, field, input_of(lo, k), off, RLX_READ);
}

void rlx_lower_ref_out(struct rlx_lower *lo, void *field, uint32_t k, uint64_t off)
{
	if (k < lo->st->n_out)
		ref_value(lo, field, lo->st->out[k], off, RLX_WRITE);
}

void rlx_lower_ref_status(struct rlx_lower *lo, void *field)
{
	rlx_lower_ref_add(lo, field, (struct rlx_ref){ .kind = RLX_REF_STATUS });
}

uint32_t rlx_lower_tmp(struct rlx_lower *lo, uint64_t bytes)
{
	struct rlx_plan *p = lo->plan;
	uint32_t step = (uint32_t)(lo->st - p->step);

	if (bytes > UINT64_MAX / 4) {	/* no memory is so large */
		rlx_lower_out_of_memory(lo);
		return 0;
	}
	if (++lo->n_tmp > RLX_LOWER_TMPS) {
		fail(lo, RLX_EBUG, "too many temporaries");
		return 0;
	}
	p->val[p->n_val] = (struct rlx_plan_val){
		.type = { RLX_U8, 1, { (int64_t)bytes } }, .root = p->n_val,
		.first = step, .last = step, .place.kind = RLX_PLACE_WORK };
	return p->n_val++;
}

void rlx_lower_ref_tmp(struct rlx_lower *lo, void *field, uint32_t tmp, uint64_t off)
{
	ref_value(lo, field, tmp, off, RLX_UPDATE);
}

void rlx_lower_replace(struct rlx_lower *lo, uint32_t k, uint32_t tmp, const struct rlx_type *t)
{
	lo->plan->val[tmp].type = *t;
	lo->replaced[k] = tmp;
}

void *rlx_lower_keep(struct rlx_lower *lo, size_t n, size_t size)
{
	void *p = rlx_bump_new(lo->bump, n, size);

	if (!p)
		rlx_lower_out_of_memory(lo);
	return p;
}

void rlx_lower_ref_keep(struct rlx_lower *lo, void *field, const void *p, size_t bytes)
{
	if (p)
		lo->ops->persistent(lo, field, p, bytes);
}

void rlx_lower_extent(struct rlx_lower *lo, int64_t rows, rlx_units_fn *set_rows)
{
	lo->rows = rows;
	lo->set_rows = set_rows;
}

void rlx_lower_checked(struct rlx_lower *lo, int64_t *field, int64_t n)
{
	*field = n;
	lo->checked = (struct rlx_checked){
		.n = n, .at = (uint64_t)((unsigned char *)field - lo->staged),
		.step = (uint32_t)(lo->st - lo->plan->step),
	};
}

/* Kernels would read an operand without a dtype as one of 16 bits. */
static bool has_dtypes(struct rlx_lower *lo, const struct rlx_k_gemm *g)
{
	if (!lo->status && (!g->a_type || !g->b_type || !g->c_type))
		fail(lo, RLX_EBUG, "a GEMM without the dtype of an operand");
	return !lo->status;
}

static bool is_gemm(enum rlx_kernel_id id)
{
	switch (id) {
	case RLX_KERNEL_gemm_f64:
	case RLX_KERNEL_gemm_f32:
	case RLX_KERNEL_gemm_f16:
	case RLX_KERNEL_gemm_bf16:
	case RLX_KERNEL_gemm_int:
		return true;
	default:
		return false;
	}
}

enum rlx_status rlx_lower_call(struct rlx_lower *lo, enum rlx_kernel_id id, uint64_t units,
			       double work, size_t scratch)
{
	if (lo->status || (is_gemm(id) && !has_dtypes(lo, (const void *)lo->staged)))
		return lo->status;
	return lo->ops->call(lo, id, units, work, scratch);
}

enum rlx_status rlx_lower_gemm(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	return has_dtypes(lo, g) ? lo->ops->gemm(lo, g) : lo->status;
}

/* The step's op and dtype, as "conv of f64"; a custom op by its own name. */
static void name_step(const struct rlx_lower *lo, char *buf, size_t size)
{
	const struct rlx_type *t = rlx_lower_in(lo, 0) ? rlx_lower_in(lo, 0) : rlx_lower_out(lo, 0);
	const struct rlx_op_custom *a = lo->args;
	bool custom = lo->st->def->index == RLX_OP_custom;

	snprintf(buf, size, "%s%s%s", custom ? rlx_custom_info(a->op)->name : lo->st->def->name,
		 t ? " of " : "",
		 t ? rlx_dtype_name(t->dtype) : "");
}

enum rlx_status rlx_lower_to_host(struct rlx_lower *lo, uint32_t flags,
				  const struct rlx_error *why)
{
	char name[RLX_CUSTOM_NAME + 16];

	name_step(lo, name, sizeof(name));
	if (flags & RLX_COMPILE_NATIVE)
		return rlx_error_set(lo->err, RLX_ENOSUP, lo->st->file, lo->st->line,
				     "no kernel here for %s%s%s; use another dtype or form, or "
				     "compile without RLX_COMPILE_NATIVE, which is slow", name,
				     why->status ? ": " : "", why->text);
	if (lo->ops->refuse && lo->ops->refuse(lo, why))
		return lo->err->status;
	lo->code->host++;
	rlx_note_on_host(lo->code, name);
	return lo->ops->host_fallback(lo, RLX_CALL_HOST);
}

void *rlx_lower_append(struct rlx_lower *lo, bool host)
{
	struct rlx_call *c = rlx_calls_add(lo->calls, lo->staged, host ? 0 : (uint32_t)lo->n_staged,
					   lo->ref, host ? 0 : lo->n_ref);
	bool ok = c;
	uint32_t i;

	for (i = 0; host && ok && i < lo->st->n_in; i++)
		ok = rlx_calls_use(lo->calls, lo->st->in[i], RLX_READ);
	for (i = 0; host && ok && i < lo->st->n_out; i++)
		ok = rlx_calls_use(lo->calls, lo->st->out[i], RLX_WRITE);
	if (!ok) {
		rlx_lower_out_of_memory(lo);
		return NULL;
	}
	c->step = (uint32_t)(lo->st - lo->plan->step);
	c->n_step = 1;
	if (!host) {
		c->rows = lo->rows;
		c->checked = lo->checked;
	}
	return c;
}

enum rlx_status rlx_lower_step(struct rlx_lower *lo, rlx_lower_fn *fn, uint32_t flags)
{
	struct rlx_error why = { 0 }, *err = lo->err;
	uint32_t n_val = lo->plan->n_val;

	lo->args = lo->st->args;
	lo->status = RLX_OK;
	lo->n_tmp = 0;
	memset(lo->replaced, 0, sizeof(lo->replaced));
	lo->begin = rlx_calls_mark(lo->calls);
	if (!rlx_plan_reserve(lo->plan, RLX_LOWER_TMPS))
		return rlx_lower_out_of_memory(lo);
	if (!lo->st->def) {
		lo->code->native++;
		return lo->ops->host_fallback(lo, RLX_CALL_COPY);
	}
	lo->err = &why;
	lo->status = rlx_lower_by(lo, fn);
	lo->err = err;
	if (!lo->status) {
		lo->code->native++;
		return RLX_OK;
	}
	rlx_calls_undo(lo->calls, lo->begin);
	lo->plan->n_val = n_val;
	if (lo->ops->undo)
		lo->ops->undo(lo);
	if (lo->status != RLX_ENOSUP)
		return rlx_error_set(err, lo->status, why.file, why.line, "%s", why.text);
	lo->status = RLX_OK;
	return rlx_lower_to_host(lo, flags, &why);
}

enum rlx_status rlx_lower_bad_data(const struct rlx_plan_step *st, struct rlx_error *err)
{
	char text[96] = "an index is outside what it refers to";

	if (st->def->impl->bad_data)
		st->def->impl->bad_data(st->args, text, sizeof(text));
	rlx_error_set(err, RLX_ERANGE, st->file, st->line, "%s: %s", st->def->name, text);
	err->node = st->node;
	return RLX_ERANGE;
}
