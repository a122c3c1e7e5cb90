// SPDX-License-Identifier: MIT
/* Pointwise ops, casts and regions as programs of the ew kernel. */
#include "backends/common/parts.h"
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/shape.h"
#include "ir/graph.h"
#include "kernels/cast.h"
#include "kernels/ew.h"

/* The kernel's op for each of ours; 0 (const_) where there is none. */
static const uint8_t ew_op[RLX_OP_COUNT] = {
#define SAME(n) [RLX_OP_##n] = RLX_EW_##n,
	SAME(neg) SAME(abs) SAME(sign) SAME(exp) SAME(expm1) SAME(log) SAME(sqrt) SAME(rsqrt)
	SAME(recip) SAME(sin) SAME(cos) SAME(tan) SAME(asin) SAME(acos) SAME(atan)
	SAME(sinh) SAME(cosh) SAME(tanh) SAME(asinh) SAME(acosh) SAME(atanh)
	SAME(sigmoid) SAME(silu) SAME(gelu) SAME(gelu_tanh) SAME(relu) SAME(erf)
	SAME(ceil) SAME(floor) SAME(round) SAME(trunc) SAME(softplus)
	SAME(softsign) SAME(mish) SAME(hard_swish) SAME(is_nan) SAME(is_inf)
	SAME(add) SAME(sub) SAME(mul) SAME(div) SAME(max) SAME(min) SAME(pow)
	SAME(mod) SAME(fmod) SAME(atan2) SAME(eq) SAME(ne) SAME(lt) SAME(le)
	SAME(gt) SAME(ge) SAME(shl) SAME(shr) SAME(where)
#undef SAME
	[RLX_OP_bit_and] = RLX_EW_band, [RLX_OP_bit_or] = RLX_EW_bor,
	[RLX_OP_bit_xor] = RLX_EW_bxor, [RLX_OP_bit_not] = RLX_EW_bnot,
	[RLX_OP_logical_not] = RLX_EW_not_, [RLX_OP_cast] = RLX_EW_copy,
};

static int class_of(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? RLX_EW_F64 : rlx_dtype_is_float(dt) ? RLX_EW_F32 :
	       dt == RLX_C64 ? -1 : RLX_EW_I64;
}

/* The class that is as wide as an integer, or bool, itself. */
static int own_class(enum rlx_dtype dt)
{
	static const uint8_t by_size[9] = {
		[1] = RLX_EW_I8, [2] = RLX_EW_I16, [4] = RLX_EW_I32, [8] = RLX_EW_I64,
	};

	return by_size[rlx_dtype_size(dt)];
}

/* What stands for nothing else than @dt, which is an integer or bool, and bools. */
static bool all_of(enum rlx_dtype dt, const struct rlx_type *const *in, uint32_t n)
{
	while (n--)
		if (in[n]->dtype != dt && in[n]->dtype != RLX_BOOL)
			return false;
	return true;
}

/* Unsigned numbers keep their bits in registers as wide, so order and division need other ops. */
static int unsigned_op(int op)
{
	static const uint8_t to[RLX_EW_OP_COUNT] = {
		[RLX_EW_div] = RLX_EW_udiv, [RLX_EW_mod] = RLX_EW_umod,
		[RLX_EW_fmod] = RLX_EW_umod, [RLX_EW_max] = RLX_EW_umax,
		[RLX_EW_min] = RLX_EW_umin, [RLX_EW_lt] = RLX_EW_ult,
		[RLX_EW_le] = RLX_EW_ule, [RLX_EW_shr] = RLX_EW_ushr,
		[RLX_EW_pow] = RLX_EW_upow,
	};

	return to[op] ? to[op] : op;
}

/* A program being written: the value numbers are those of the body. */
struct writer {
	struct rlx_k_ew	*a;
	int		 cls;
	bool		 ok;
};

static uint8_t add_step(struct writer *w, int op, const uint8_t src[3])
{
	struct rlx_k_ew_step *s;

	if (w->a->n_step == RLX_EW_MAX_STEP || rlx_k_ew_arity(w->cls, op) < 0) {
		w->ok = false;
		return 0;
	}
	s = &w->a->step[w->a->n_step];
	*s = (struct rlx_k_ew_step){ .op = (uint8_t)op,
				     .src = { src[0], src[1], src[2] } };
	return (uint8_t)RLX_EW_STEP(w->a->n_step++);
}

static uint8_t add_cast(struct writer *w, uint8_t src, enum rlx_dtype to)
{
	uint8_t r = add_step(w, RLX_EW_cast, (uint8_t[3]){ src, 0, 0 });

	if (w->ok)
		w->a->step[w->a->n_step - 1].type = (uint8_t)to;
	return r;
}

/* May the result leave the range of a narrower integer type? */
static bool may_overflow(int op)
{
	return op == RLX_EW_add || op == RLX_EW_sub || op == RLX_EW_mul ||
	       op == RLX_EW_neg || op == RLX_EW_abs || op == RLX_EW_pow ||
	       op == RLX_EW_shl || op == RLX_EW_bnot || op == RLX_EW_div;
}

/* The step of value @v, if it is the last one but @back and nothing else in the body reads it. */
static struct rlx_k_ew_step *only_read(struct writer *w, const struct rlx_graph *b, uint32_t v,
				       uint8_t reg, uint32_t back)
{
	uint32_t n, k, uses = 0;

	if (w->a->n_step <= back || reg != RLX_EW_STEP(w->a->n_step - 1 - back))
		return NULL;
	for (n = 0; n < b->n_node; n++)
		for (k = 0; k < b->node[n].n_in; k++)
			uses += b->node[n].in[k] == v;
	for (k = 0; k < b->io[RLX_IO_OUTPUT].n; k++)
		uses += b->io[RLX_IO_OUTPUT].e[k].v.id == v;
	return uses == 1 ? &w->a->step[w->a->n_step - 1 - back] : NULL;
}

/* A product that is added to alone: one rounding less, and one step. */
static bool fuse_add(struct writer *w, const struct rlx_graph *b, const struct rlx_node *v,
		     const uint8_t src[3])
{
	struct rlx_k_ew_step *mul;
	uint32_t k;

	for (k = 0; k < 2; k++) {
		mul = only_read(w, b, v->in[k], src[k], 0);
		if (!mul || mul->op != RLX_EW_mul)
			continue;
		mul->op = RLX_EW_fma;
		mul->src[2] = src[1 - k];
		return true;
	}
	return false;
}

/* where(x >= 0, x, x a): ONNX's LeakyRelu and PRelu. */
static bool fuse_leaky(struct writer *w, const struct rlx_graph *b, const struct rlx_node *v,
		       const uint8_t src[3])
{
	struct rlx_k_ew_step *mul = only_read(w, b, v->in[2], src[2], 0);
	struct rlx_k_ew_step *ge = only_read(w, b, v->in[0], src[0], 1), *zero;
	int x = src[1], a;

	if (!mul || !ge || mul->op != RLX_EW_mul || ge->op != RLX_EW_ge || ge->src[0] != x ||
	    ge->src[1] < RLX_EW_MAX_IN || (mul->src[0] != x && mul->src[1] != x))
		return false;
	zero = &w->a->step[ge->src[1] - RLX_EW_MAX_IN];
	if (zero->op != RLX_EW_const_ || zero->imm.f != 0)
		return false;
	a = mul->src[mul->src[0] == x];
	w->a->n_step--;
	*ge = (struct rlx_k_ew_step){ .op = RLX_EW_leaky, .src = { (uint8_t)x, (uint8_t)a } };
	return true;
}

/* Is @v, whose sources are in registers, done by a step that is there? It is the last one. */
static bool fused(struct writer *w, const struct rlx_graph *b, const struct rlx_node *v,
		  const uint8_t src[3])
{
	if (!w->ok || rlx_k_ew_int(w->cls))
		return false;
	return v->def->index == RLX_OP_add ? fuse_add(w, b, v, src) :
	       v->def->index == RLX_OP_where && fuse_leaky(w, b, v, src);
}

/* One op over sources that are in registers; @compute: dtype it works in. */
static uint8_t add_op(struct writer *w, const struct rlx_op_def *def,
		      enum rlx_dtype compute, enum rlx_dtype result,
		      const uint8_t src[3])
{
	int op = ew_op[def->index];
	uint8_t s[3] = { src[0], src[1], src[2] }, r;

	if (!op) {	/* a row that the kernel does not know yet */
		w->ok = false;
		return 0;
	}
	if ((compute == RLX_U64 || w->cls > RLX_EW_I64) && rlx_dtype_is_int(compute) &&
	    !rlx_dtype_is_signed(compute)) {
		if (op == RLX_EW_gt || op == RLX_EW_ge) {
			op = op == RLX_EW_gt ? RLX_EW_lt : RLX_EW_le;
			s[0] = src[1];
			s[1] = src[0];
		}
		/* nothing is below 0 */
		op = op == RLX_EW_relu || op == RLX_EW_abs ? RLX_EW_copy : unsigned_op(op);
		if (op == RLX_EW_sign) {	/* of the upper half of numbers it is -1 there */
			op = RLX_EW_ne;
			s[1] = RLX_EW_IMM;	/* 0 */
		}
	}
	if (compute == RLX_BOOL)	/* 0 and 1 in any class of register */
		op = op == RLX_EW_band ? RLX_EW_and_ : op == RLX_EW_bor ? RLX_EW_or_ :
		     op == RLX_EW_bxor ? RLX_EW_xor_ : op;
	r = add_step(w, op, s);
	if (w->cls == RLX_EW_I64 && result != RLX_BOOL && may_overflow(op) &&
	    rlx_dtype_size(result) < 8)
		r = add_cast(w, r, result);
	return r;
}

static void add_input(struct rlx_lower *lo, struct writer *w, uint32_t k,
		      const struct rlx_type *shape)
{
	const struct rlx_type *t = rlx_lower_in(lo, k);
	struct rlx_k_ew_in *in = &w->a->in[w->a->n_in++];

	in->type = (uint8_t)t->dtype;
	shape_broadcast(t, shape, in->stride);
	rlx_lower_ref_in(lo, &in->p, k, 0);
}

static void begin_program(struct writer *w, struct rlx_k_ew *a, int cls,
			  const struct rlx_type *shape)
{
	*w = (struct writer){ .a = a, .cls = cls, .ok = cls >= 0 };
	a->cls = (uint8_t)(cls < 0 ? 0 : cls);
	a->rank = (int)shape->rank;
	for (uint32_t d = 0; d < shape->rank; d++)
		a->dim[d] = shape->dim[d];
}

static struct rlx_k_ew *begin(struct rlx_lower *lo, struct writer *w, int cls,
			      const struct rlx_type *shape)
{
	struct rlx_k_ew *a = rlx_lower_args(lo, sizeof(*a));

	begin_program(w, a, cls, shape);
	return a;
}

static enum rlx_status finish(struct rlx_lower *lo, struct writer *w)
{
	struct rlx_k_ew *a = w->a;

	if (!w->ok)
		return rlx_lower_unsupported(lo, "the kernel has no such program");
	rlx_k_ew_plan(cpu_isa(lo), a);
	return rlx_lower_call(lo, RLX_KERNEL_ew, rlx_k_ew_units(a),
			      (double)a->total * (a->n_step + 1), rlx_k_ew_scratch(a));
}

/* The dtype that an op's operands are promoted to. */
static enum rlx_dtype compute_type(const struct rlx_type *const *in, uint32_t n)
{
	return n == 1 ? in[0]->dtype : rlx_dtype_promote(in[n - 2]->dtype, in[n - 1]->dtype);
}

static enum rlx_status lower_one(struct rlx_lower *lo)
{
	const struct rlx_type *out = rlx_lower_out(lo, 0), *in[3];
	uint32_t n = lo->st->n_in, k;
	enum rlx_dtype dt;
	struct writer w;
	struct rlx_k_ew *a;
	int cls;

	for (k = 0; k < n; k++)
		in[k] = rlx_lower_in(lo, k);
	dt = compute_type(in, n);
	if (out->dtype == RLX_C64 || dt == RLX_C64)
		return rlx_lower_unsupported(lo, "complex numbers");
	cls = class_of(dt);
	if (cls == RLX_EW_I64 && lo->st->def->index != RLX_OP_pow && all_of(dt, in, n))
		cls = own_class(dt);
	a = begin(lo, &w, cls, out);
	for (k = 0; k < n; k++)
		add_input(lo, &w, k, out);
	a->n_out = 1;
	a->out[0].src = add_op(&w, lo->st->def, dt, out->dtype, (uint8_t[3]){ 0, 1, 2 });
	a->out[0].type = (uint8_t)out->dtype;
	rlx_lower_ref_out(lo, &a->out[0].p, 0, 0);
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
static struct rlx_k_ew *begin_parts(struct rlx_lower *lo, struct writer *w, uint8_t parts,
				    enum rlx_dtype dt)
{
	struct rlx_type line = rlx_type(dt, rlx_type_count(rlx_lower_in(lo, 0)));
	struct rlx_k_ew *a = begin(lo, w, class_of(dt), &line);
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
	struct writer w;
	struct rlx_k_ew *a = begin_parts(lo, &w, 2, RLX_F32);
	uint8_t sq = add_step(&w, RLX_EW_mul, (uint8_t[3]){ 0, 0 });

	a->out[0].src = add_step(&w, RLX_EW_fma, (uint8_t[3]){ 1, 1, sq });
	return finish(lo, &w);
}

/* As one word, whose top bit is the imaginary part's sign. */
enum rlx_status cpu_lower_conjugate(struct rlx_lower *lo)
{
	struct writer w;
	struct rlx_k_ew *a = begin_parts(lo, &w, 1, RLX_U64);

	a->out[0].src = add_step(&w, RLX_EW_bxor, (uint8_t[3]){ 0, RLX_EW_IMM });
	a->step[0].imm.i = INT64_MIN;
	return finish(lo, &w);
}

/* ---- regions ---- */

/* The class of a region of integers: their own if it holds one dtype and ops that have it. */
static int integer_class(const struct rlx_graph *b)
{
	enum rlx_dtype dt = RLX_BOOL;
	uint32_t n, v;

	for (n = 0; n < b->n_node; n++) {
		const struct rlx_node *node = &b->node[n];

		if (node->def->index == RLX_OP_cast || node->def->index == RLX_OP_pow)
			return RLX_EW_I64;
		for (v = node->out; v < node->out + node->n_out; v++) {
			enum rlx_dtype is = b->val[v].type.dtype;

			if (is != dt && is != RLX_BOOL && dt != RLX_BOOL)
				return RLX_EW_I64;
			dt = is != RLX_BOOL ? is : dt;
		}
	}
	return own_class(dt);
}

/*
 * Class of a region: that of its first op on numbers. Casts stand at the edge,
 * and bools fit any class of register.
 */
static int region_class(const struct rlx_graph *b)
{
	const struct rlx_type *in[3];
	int cls = RLX_EW_F32;
	enum rlx_dtype dt;
	uint32_t n, k;

	for (n = 0; n < b->n_node; n++) {
		const struct rlx_node *v = &b->node[n];

		if (!(v->def->traits & RLX_T_ELEMENTWISE) || v->def->index == RLX_OP_cast)
			continue;
		for (k = 0; k < v->n_in; k++)
			in[k] = &b->val[v->in[k]].type;
		dt = compute_type(in, v->n_in);
		cls = class_of(dt);
		if (dt != RLX_BOOL)
			break;
	}
	return cls == RLX_EW_I64 ? integer_class(b) : cls;
}

/* A constant of one element becomes an immediate. */
static uint8_t add_constant(struct writer *w, const struct rlx_node *v)
{
	const struct rlx_op_constant *c = v->args;
	const struct rlx_type *t = &c->type;
	uint8_t r = add_step(w, RLX_EW_const_, (uint8_t[3]){ 0, 0, 0 });
	struct rlx_tensor one = { *t, (void *)(uintptr_t)rlx_blob_data(c->data) };
	double f = 0;
	int64_t i = 0;
	struct rlx_tensor d = { rlx_scalar(RLX_F64), &f }, di = { rlx_scalar(RLX_I64), &i };
	struct rlx_op_cast to = { .to = rlx_k_ew_int(w->cls) ? RLX_I64 : RLX_F64 };

	if (!w->ok || rlx_type_count(t) != 1) {
		w->ok = false;
		return 0;
	}
	one.type.rank = 0;
	if (rlx_op_eval(&(struct rlx_eval){
			.err = NULL, .def = rlx_op_cast.def, .args = &to, .n_in = 1,
			.in = &one, .n_out = 1, .out = rlx_k_ew_int(w->cls) ? &di : &d }))
		w->ok = false;
	if (rlx_k_ew_int(w->cls))
		w->a->step[w->a->n_step - 1].imm.i = i;
	else
		w->a->step[w->a->n_step - 1].imm.f = f;
	return r;
}

static uint8_t add_node(struct writer *w, const struct rlx_graph *b,
			const struct rlx_node *v, const uint8_t *reg)
{
	const struct rlx_type *in[3] = { 0 };
	uint8_t src[3] = { 0 };
	enum rlx_dtype to = b->val[v->out].type.dtype;
	uint32_t k;

	for (k = 0; k < v->n_in; k++) {
		in[k] = &b->val[v->in[k]].type;
		src[k] = reg[v->in[k]];
	}
	if (v->def->index == RLX_OP_expand)	/* of an input, whose strides say so */
		return src[0];
	if (fused(w, b, v, src))
		return (uint8_t)RLX_EW_STEP(w->a->n_step - 1);
	if (v->def->index != RLX_OP_cast) {
		uint8_t r = add_op(w, v->def, compute_type(in, v->n_in), to, src);

		/* what was taken as it is, of another dtype: -1 of i8 as u32 */
		if (w->cls == RLX_EW_I64 && to != RLX_BOOL && rlx_dtype_size(to) < 8 &&
		    !all_of(to, in, v->n_in))
			r = add_cast(w, r, to);
		return r;
	}
	/* a cast at the edge is done by the load; one inside must narrow */
	if (to == RLX_F64 || (to == RLX_F32 && w->cls == RLX_EW_F32) || to == RLX_I64 ||
	    (w->cls != RLX_EW_I64 && !rlx_dtype_is_float(to)))
		return src[0];	/* to an integer: only as an output, by the store */
	return add_cast(w, src[0], to);
}

/* The steps of body @b, of whose operands @reg tells the registers, and its outputs. */
static void write_body(struct rlx_lower *lo, struct writer *w, const struct rlx_graph *b,
		       uint8_t *reg)
{
	uint32_t n, k;

	/* constants first, so that steps that may be one follow each other */
	for (n = 0; n < b->n_node && w->ok; n++)
		if (b->node[n].def->index == RLX_OP_constant)
			reg[b->node[n].out] = add_constant(w, &b->node[n]);
	for (n = 0; n < b->n_node && w->ok; n++)
		if (!(b->node[n].def->traits & RLX_T_LEAF) &&
		    b->node[n].def->index != RLX_OP_concat)
			reg[b->node[n].out] = add_node(w, b, &b->node[n], reg);
	w->a->n_out = (uint8_t)b->io[RLX_IO_OUTPUT].n;
	for (k = 0; k < w->a->n_out; k++) {
		rlx_value v = b->io[RLX_IO_OUTPUT].e[k].v;

		w->a->out[k].src = reg[v.id];
		w->a->out[k].type = (uint8_t)b->val[v.id].type.dtype;
		rlx_lower_ref_out(lo, &w->a->out[k].p, k, 0);
	}
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
static struct rlx_k_ew_parts *begin_parts_of(struct rlx_lower *lo, struct writer *w,
					     const struct rlx_parts *p, uint8_t *reg)
{
	struct rlx_k_ew_parts *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_type none = { .rank = 1 };
	uint32_t j;

	begin_program(w, &a->ew, region_class(p->body), &none);
	for (j = 0; j < p->n_operand; j++)
		reg[p->operand[j].value] = (uint8_t)j;
	write_body(lo, w, p->body, reg);
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
	struct writer w;
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
	struct writer w;
	uint32_t k;

	if (lo->st->n_in > RLX_EW_MAX_IN || lo->st->n_out > RLX_EW_MAX_OUT)
		return rlx_lower_unsupported(lo, "the region is too large");
	begin(lo, &w, region_class(b), shape);
	for (k = 0; k < lo->st->n_in; k++) {
		add_input(lo, &w, k, shape);
		reg[b->io[RLX_IO_INPUT].e[k].v.id] = (uint8_t)k;
	}
	write_body(lo, &w, b, reg);
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
