// SPDX-License-Identifier: MIT
/*
 * Pointwise steps of programs with strict bits as source text: the very steps that the CPU takes,
 * where it multiplies and adds at once too, over functions made from the CPU's rows.
 */
#include <inttypes.h>
#include <string.h>

#include "backends/common/ew_program.h"
#include "backends/gpu/pointwise_text.h"
#include "base/alloc.h"

static const char *const name[RLX_EW_OP_COUNT] = {
#define NAME(n, ...)	[RLX_EW_##n] = #n,
	RLX_EW_OPS(NAME)
#undef NAME
};

/* Does the CPU call libm for a step, whose bits are another's on each machine? */
static bool is_libms(const struct rlx_k_ew *a, const struct rlx_k_ew_step *s)
{
	const struct rlx_k_ew_step *by;

	switch (s->op) {
	case RLX_EW_tan: case RLX_EW_asin: case RLX_EW_acos: case RLX_EW_atan: case RLX_EW_sinh:
	case RLX_EW_cosh: case RLX_EW_asinh: case RLX_EW_acosh: case RLX_EW_atanh:
	case RLX_EW_exp2: case RLX_EW_log2: case RLX_EW_atan2:
		return true;
	case RLX_EW_pow:
		by = s->src[1] >= RLX_EW_MAX_IN ? &a->step[s->src[1] - RLX_EW_MAX_IN] : NULL;
		return !by || by->op != RLX_EW_const_ ||
		       !rlx_k_ew_simple_power((float)by->imm.f);
	default:
		return false;
	}
}

static void put_source(struct writer *w, uint8_t src)
{
	put(w, src < RLX_EW_MAX_IN ? "x%u" : "s%u",
	    src < RLX_EW_MAX_IN ? src : src - RLX_EW_MAX_IN);
}

static void put_step(struct writer *w, const struct rlx_k_ew *a, uint32_t n)
{
	const struct rlx_k_ew_step *s = &a->step[n];
	int arity = rlx_k_ew_arity(a->cls, s->op), k;
	float f = (float)s->imm.f;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (s->op == RLX_EW_const_)
		put(w, "const float s%u = bits_f32(0x%" PRIx32 ");\n", n, bits);
	if (s->op == RLX_EW_const_)
		return;
	put(w, "const float s%u = ewo_%s", n, name[s->op]);
	if (s->op == RLX_EW_cast)
		put(w, "<%d>", s->type);
	for (k = 0; k < arity; k++) {
		put(w, k ? ", " : "(");
		put_source(w, s->src[k]);
	}
	put(w, ");\n");
}

/* The function of one element, which is begun. */
static void put_program(struct writer *w, const struct rlx_k_ew *a)
{
	uint32_t k;

	for (k = 0; k < w->n_in; k++)
		put(w, "const float x%u = ewo_of(i%u);\n", k, k);
	for (k = 0; k < a->n_step; k++)
		put_step(w, a, k);
	for (k = 0; k < a->n_out; k++) {
		put(w, "o%u = ew_cast_to<%d>::of(F(", k, a->out[k].type);
		put_source(w, a->out[k].src);
		put(w, "));\n");
	}
	w->n_op += a->n_step;
}

static enum rlx_status put_checked(struct writer *w, const struct rlx_ew_writer *e)
{
	struct rlx_lower *lo = w->lo;
	char why[128];
	uint32_t k;

	if (!e->ok || e->cls != RLX_EW_F32)
		return rlx_lower_unsupported(lo, "strict bits are those of f32 here");
	if (w->any)
		return rlx_lower_unsupported(lo, "there is no compiler for what it computes");
	for (k = 0; k < e->a->n_step; k++) {
		if (!is_libms(e->a, &e->a->step[k]))
			continue;
		snprintf(why, sizeof(why), "the CPU has %s of libm%s", name[e->a->step[k].op],
			 e->a->step[k].op != RLX_EW_pow ? "" : ", but by constant exponents 1, 2, "
			 "3, -1, 0.5 and -0.5");
		return rlx_lower_unsupported(lo, why);
	}
	put_program(w, e->a);
	return lo->status;
}

enum rlx_status gpu_put_ordered_one(struct writer *w)
{
	struct rlx_lower *lo = w->lo;
	const struct rlx_type *in[3] = { 0 };
	struct rlx_k_ew a = { .n_in = (uint8_t)w->n_in };
	struct rlx_ew_writer e;
	const float *by = NULL;
	uint32_t k;

	for (k = 0; k < w->n_in; k++)
		in[k] = rlx_lower_in(lo, k);
	rlx_ew_begin(&e, &a, rlx_ew_class_of(lo->st->def, in, w->n_in), rlx_lower_out(lo, 0));
	if (lo->st->def->index == RLX_OP_pow && rlx_type_count(in[1]) == 1 &&
	    in[1]->dtype == RLX_F32)
		by = rlx_lower_const(lo, 1);
	if (by) {	/* the exponent is known: x^2 is x x */
		rlx_ew_step(&e, RLX_EW_const_, (uint8_t[3]){ 0 });
		a.step[0].imm.f = (double)*by;
	}
	rlx_ew_one(&e, lo->st->def, in, w->n_in, rlx_lower_out(lo, 0)->dtype);
	if (by && e.ok)
		a.step[1].src[1] = RLX_EW_STEP(0);
	return put_checked(w, &e);
}

enum rlx_status gpu_put_ordered_body(struct writer *w, const struct rlx_graph *b,
				     const uint32_t *value)
{
	struct rlx_k_ew a = { .n_in = (uint8_t)w->n_in };
	uint8_t *reg = rlx_calloc(b->n_val, 1);
	struct rlx_ew_writer e;
	uint32_t k;

	if (!reg)
		return rlx_lower_out_of_memory(w->lo);
	rlx_ew_begin(&e, &a, rlx_ew_region_class(b), rlx_lower_out(w->lo, 0));
	for (k = 0; k < w->n_in; k++)
		reg[value[k]] = (uint8_t)k;
	rlx_ew_body(&e, b, reg);
	rlx_free(reg);
	return put_checked(w, &e);
}
