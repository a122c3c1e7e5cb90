// SPDX-License-Identifier: MIT
/* Pointwise ops, casts and regions as programs of the ew kernel. */
#include "backends/common/ew_program.h"
#include "backends/common/parts.h"
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/shape.h"
#include "ir/graph.h"
#include "kernels/cast.h"
#include "kernels/ew.h"

static void add_input(struct rlx_lower *lo, struct rlx_ew_writer *w, uint32_t k,
		      const struct rlx_type *shape)
{
	const struct rlx_type *t = rlx_lower_in(lo, k);
	struct rlx_k_ew_in *in = &w->a->in[w->a->n_in++];

	in->type = (uint8_t)t->dtype;
	shape_broadcast(t, shape, in->stride);
	rlx_lower_ref_in(lo, &in->p, k, 0);
}

static struct rlx_k_ew *begin(struct rlx_lower *lo, struct rlx_ew_writer *w, int cls,
			      const struct rlx_type *shape)
{
	struct rlx_k_ew *a = rlx_lower_args(lo, sizeof(*a));

	rlx_ew_begin(w, a, cls, shape);
	return a;
}

static enum rlx_status finish(struct rlx_lower *lo, struct rlx_ew_writer *w)
{
	struct rlx_k_ew *a = w->a;

	if (!w->ok)
		return rlx_lower_unsupported(lo, "the kernel has no such program");
	rlx_k_ew_plan(cpu_isa(lo), a);
	return rlx_lower_call(lo, RLX_KERNEL_ew, rlx_k_ew_units(a),
			      (double)a->total * (a->n_step + 1), rlx_k_ew_scratch(a));
}

static void ref_outputs(struct rlx_lower *lo, struct rlx_k_ew *a)
{
	for (uint32_t k = 0; k < a->n_out; k++)
		rlx_lower_ref_out(lo, &a->out[k].p, k, 0);
}

static enum rlx_status lower_one(struct rlx_lower *lo)
{
	const struct rlx_type *out = rlx_lower_out(lo, 0), *in[3];
	uint32_t n = lo->st->n_in, k;
	struct rlx_ew_writer w;
	struct rlx_k_ew *a;
	int cls;

	for (k = 0; k < n; k++)
		in[k] = rlx_lower_in(lo, k);
	cls = rlx_ew_class_of(lo->st->def, in, n);
	if (out->dtype == RLX_C64 || cls < 0)
		return rlx_lower_unsupported(lo, "complex numbers");
	a = begin(lo, &w, cls, out);
	for (k = 0; k < n; k++)
		add_input(lo, &w, k, out);
	rlx_ew_one(&w, lo->st->def, in, n, out->dtype);
	ref_outputs(lo, a);
	if (out->rank)
		rlx_lower_extent(lo, out->dim[0], NULL);
	return finish(lo, &w);
}

static struct rlx_k_cast *begin_cast(struct rlx_lower *lo, enum rlx_dtype from, enum rlx_dtype to)
{
	struct rlx_k_cast *a = rlx_lower_args(lo, sizeof(*a));

	a->n = rlx_type_count(rlx_lower_in(lo, 0));
	a->src_type = (uint8_t)from;
	a->dst_type = (uint8_t)to;
	return a;
}

static enum rlx_status finish_cast(struct rlx_lower *lo, const struct rlx_k_cast *a)
{
	return rlx_lower_call(lo, RLX_KERNEL_cast, rlx_k_cast_units(a), (double)a->n, 0);
}

/*
 * Input 0 from @from to @via, then from @as, which is those bytes seen otherwise, to @to. The
 * low half of a complex number's word is its real part.
 */
static enum rlx_status cast_in_two(struct rlx_lower *lo, enum rlx_dtype from, enum rlx_dtype via,
				   enum rlx_dtype as, enum rlx_dtype to)
{
	uint64_t bytes = (uint64_t)rlx_type_count(rlx_lower_in(lo, 0)) * sizeof(float);
	uint32_t tmp = rlx_lower_tmp(lo, bytes);
	struct rlx_k_cast *a = begin_cast(lo, from, via);
	enum rlx_status st;

	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_tmp(lo, &a->dst, tmp, 0);
	st = finish_cast(lo, a);
	a = begin_cast(lo, as, to);
	rlx_lower_ref_tmp(lo, &a->src, tmp, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	return st ? st : finish_cast(lo, a);
}

enum rlx_status cpu_lower_cast(struct rlx_lower *lo)
{
	enum rlx_dtype x = rlx_lower_in(lo, 0)->dtype, y = rlx_lower_out(lo, 0)->dtype;
	struct rlx_k_cast *a;

	if (x == RLX_C64 && y != RLX_C64)
		return cast_in_two(lo, RLX_U64, RLX_U32, RLX_F32, y);
	if (x != RLX_C64 && y == RLX_C64)
		return cast_in_two(lo, x, RLX_F32, RLX_U32, RLX_U64);
	a = x == RLX_C64 ? begin_cast(lo, RLX_U64, RLX_U64) : begin_cast(lo, x, y);
	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	return finish_cast(lo, a);
}

/* ---- complex numbers, by what they are made of ---- */

/* Begin with the parts of input 0, which lie side by side, as operands of @dt. */
static struct rlx_k_ew *begin_parts(struct rlx_lower *lo, struct rlx_ew_writer *w, uint8_t parts,
				    enum rlx_dtype dt)
{
	struct rlx_type line = rlx_type(dt, rlx_type_count(rlx_lower_in(lo, 0)));
	struct rlx_k_ew *a = begin(lo, w, rlx_ew_class(dt), &line);
	uint8_t k;

	for (k = 0; k < parts; k++) {
		a->in[k].type = (uint8_t)dt;
		a->in[k].stride[0] = parts;
		rlx_lower_ref_in(lo, &a->in[k].p, 0, k * rlx_dtype_size(dt));
	}
	a->n_in = parts;
	a->n_out = 1;
	a->out[0].type = (uint8_t)dt;
	rlx_lower_ref_out(lo, &a->out[0].p, 0, 0);
	return a;
}

enum rlx_status cpu_lower_norm_sq(struct rlx_lower *lo)
{
	struct rlx_ew_writer w;
	struct rlx_k_ew *a = begin_parts(lo, &w, 2, RLX_F32);
	uint8_t sq = rlx_ew_step(&w, RLX_EW_mul, (uint8_t[3]){ 0, 0 });

	a->out[0].src = rlx_ew_step(&w, RLX_EW_fma, (uint8_t[3]){ 1, 1, sq });
	return finish(lo, &w);
}

/* As one word, whose top bit is the imaginary part's sign. */
enum rlx_status cpu_lower_conjugate(struct rlx_lower *lo)
{
	struct rlx_ew_writer w;
	struct rlx_k_ew *a = begin_parts(lo, &w, 1, RLX_U64);

	a->out[0].src = rlx_ew_step(&w, RLX_EW_bxor, (uint8_t[3]){ 0, RLX_EW_IMM });
	a->step[0].imm.i = INT64_MIN;
	return finish(lo, &w);
}

/* ---- regions that join parts ---- */

enum { SHORT_ROW = 1280, SHORT_SPLIT_ROW = 512 };	/* bytes in registers */

/* Units of all parts, of which each is told its first. */
static uint64_t count_units(struct rlx_k_ew_parts *a)
{
	uint64_t units = 0;
	uint32_t k;

	for (k = 0; k < a->n_part; k++) {
		struct rlx_k_ew_part *part = rlx_k_ew_part(a, k);
		int64_t rows = a->outer * (a->split ? part->length : 1);

		part->unit = units;
		units += (uint64_t)(rows * rlx_k_ew_part_pieces(a, part->length));
	}
	return units;
}

static uint64_t set_rows(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_ew_parts *a = args;

	(void)isa;
	a->outer = a->outer_of_row * rows;
	return count_units(a);
}

/* The program, and operands that all parts read. */
static struct rlx_k_ew_parts *begin_parts_of(struct rlx_lower *lo, struct rlx_ew_writer *w,
					     const struct rlx_parts *p, uint8_t *reg)
{
	struct rlx_k_ew_parts *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_type none = { .rank = 1 };
	uint32_t j;

	rlx_ew_begin(w, &a->ew, rlx_ew_region_class(p->body), &none);
	for (j = 0; j < p->n_operand; j++)
		reg[p->operand[j].value] = (uint8_t)j;
	rlx_ew_body(w, p->body, reg);
	ref_outputs(lo, &a->ew);
	a->ew.n_in = (uint8_t)p->n_operand;
	rlx_k_ew_plan(cpu_isa(lo), &a->ew);
	a->ew.rank = 3;
	a->ew.flat = false;
	a->outer = p->outer;
	a->total = p->total;
	a->inner = p->inner;
	a->split = p->split;
	a->n_own = p->n_own;
	for (j = 0; j < p->n_operand; j++) {
		const struct rlx_parts_operand *o = &p->operand[j];

		a->has[j] = o->has;
		a->own[j] = (uint8_t)o->own;
		a->ew.in[j].type = (uint8_t)rlx_lower_in(lo, o->first)->dtype;
		a->ew.in[j].kind = o->has || o->own ? RLX_EW_ROW : RLX_EW_SCALAR;
		if (!o->own)
			rlx_lower_ref_in(lo, &a->ew.in[j].p, o->first, 0);
	}
	return a;
}

/* Parts from @k on, as many as a call takes; how many. */
static uint32_t add_parts(struct rlx_lower *lo, struct rlx_k_ew_parts *a,
			  const struct rlx_parts *p, uint32_t k, int64_t *at)
{
	uint32_t words = RLX_EW_PART_WORDS / (3 + p->n_own), i, j;
	uint32_t refs = (RLX_LOWER_REFS - RLX_EW_MAX_IN - 1) / p->n_own;

	a->n_part = p->n - k;
	a->n_part = a->n_part < words ? a->n_part : words;
	a->n_part = a->n_part < refs ? a->n_part : refs;
	for (i = 0; i < a->n_part; i++) {
		struct rlx_k_ew_part *part = rlx_k_ew_part(a, i);

		part->at = *at;
		part->length = rlx_lower_part_length(p, k + i);
		*at += part->length;
		for (j = 0; j < p->n_operand; j++)
			if (p->operand[j].own)
				rlx_lower_ref_in(lo, &rlx_k_ew_own(a, i)[a->own[j] - 1],
						 p->operand[j].first + k + i, 0);
	}
	return a->n_part;
}

/*
 * A row costs some vectors' worth by itself: where there are many short ones, chains of their
 * own and copies of what they make are faster. Those are as slow sooner where they broadcast.
 */
static bool rows_are_short(const struct rlx_parts *p, size_t lane)
{
	int64_t rows = p->outer * (p->split ? p->total : p->n);
	int64_t bytes = p->outer * p->total * p->inner * (int64_t)lane;

	return rows > p->n && bytes / rows < (p->split ? SHORT_SPLIT_ROW : SHORT_ROW);
}

static enum rlx_status lower_parts(struct rlx_lower *lo, uint8_t *reg)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_ew_parts *a;
	struct rlx_parts p;
	struct rlx_ew_writer w;
	uint32_t k = 0;
	int64_t at = 0, from;

	if (!rlx_lower_parts(lo, &p))
		return rlx_lower_unsupported(lo, "parts that broadcast, or too many operands");
	while (k < p.n && rlx_type_count(y) && !lo->status) {
		a = begin_parts_of(lo, &w, &p, reg);
		if (!w.ok || rows_are_short(&p, rlx_k_ew_lane(&a->ew)))
			return rlx_lower_unsupported(lo, "no such program, or short rows of parts");
		from = at;
		k += add_parts(lo, a, &p, k, &at);
		a->outer_of_row = p.outer / y->dim[0];
		if (a->outer_of_row)
			rlx_lower_extent(lo, y->dim[0], set_rows);
		rlx_lower_call(lo, RLX_KERNEL_ew_parts, count_units(a),
			       (double)(p.outer * (at - from) * p.inner) * (a->ew.n_step + 1),
			       rlx_k_ew_scratch(&a->ew));
	}
	return lo->status;
}

static enum rlx_status lower_region(struct rlx_lower *lo, const struct rlx_graph *b, uint8_t *reg)
{
	const struct rlx_type *shape = rlx_lower_out(lo, 0);
	struct rlx_ew_writer w;
	uint32_t k;

	if (lo->st->n_in > RLX_EW_MAX_IN || lo->st->n_out > RLX_EW_MAX_OUT)
		return rlx_lower_unsupported(lo, "the region is too large");
	begin(lo, &w, rlx_ew_region_class(b), shape);
	for (k = 0; k < lo->st->n_in; k++) {
		add_input(lo, &w, k, shape);
		reg[b->io[RLX_IO_INPUT].e[k].v.id] = (uint8_t)k;
	}
	rlx_ew_body(&w, b, reg);
	ref_outputs(lo, w.a);
	if (shape->rank)
		rlx_lower_extent(lo, shape->dim[0], NULL);
	return finish(lo, &w);
}

enum rlx_status cpu_lower_region(struct rlx_lower *lo)
{
	const struct rlx_graph *b = ((const struct rlx_op_region *)lo->args)->body;
	uint8_t *reg = rlx_calloc(b->n_val, 1);

	if (!reg)
		return rlx_lower_out_of_memory(lo);
	if (rlx_lower_joins_parts(b))
		lower_parts(lo, reg);
	else
		lower_region(lo, b, reg);
	rlx_free(reg);
	return lo->status;
}

#define EW(n)								\
	enum rlx_status cpu_lower_##n(struct rlx_lower *lo) { return lower_one(lo); }
#define EW1(n, ...) EW(n)
#define EW2(n, ...) EW(n)
#define EW3(n, ...) EW(n)
#include "ops/elementwise.def"
