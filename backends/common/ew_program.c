// SPDX-License-Identifier: MIT
/*
 * Pointwise ops and regions as programs of kernels/ew.h: which steps there are, and which ops
 * become one. What they round is theirs to say, for the CPU and for whoever is to give the same
 * bits.
 */
#include "backends/common/ew_program.h"
#include "base/shape.h"
#include "ir/eval.h"
#include "kernels/cast.h"

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

int rlx_ew_class(enum rlx_dtype dt)
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

uint8_t rlx_ew_step(struct rlx_ew_writer *w, int op, const uint8_t src[3])
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

static uint8_t add_cast(struct rlx_ew_writer *w, uint8_t src, enum rlx_dtype to)
{
	uint8_t r = rlx_ew_step(w, RLX_EW_cast, (uint8_t[3]){ src, 0, 0 });

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
static struct rlx_k_ew_step *only_read(struct rlx_ew_writer *w, const struct rlx_graph *b,
				       uint32_t v, uint8_t reg, uint32_t back)
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
static bool fuse_add(struct rlx_ew_writer *w, const struct rlx_graph *b, const struct rlx_node *v,
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
static bool fuse_leaky(struct rlx_ew_writer *w, const struct rlx_graph *b, const struct rlx_node *v,
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
static bool fused(struct rlx_ew_writer *w, const struct rlx_graph *b, const struct rlx_node *v,
		  const uint8_t src[3])
{
	if (!w->ok || rlx_k_ew_int(w->cls))
		return false;
	return v->def->index == RLX_OP_add ? fuse_add(w, b, v, src) :
	       v->def->index == RLX_OP_where && fuse_leaky(w, b, v, src);
}

/* One op over sources that are in registers; @compute: dtype it works in. */
static uint8_t add_op(struct rlx_ew_writer *w, const struct rlx_op_def *def,
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
	r = rlx_ew_step(w, op, s);
	if (w->cls == RLX_EW_I64 && result != RLX_BOOL && may_overflow(op) &&
	    rlx_dtype_size(result) < 8)
		r = add_cast(w, r, result);
	return r;
}

void rlx_ew_begin(struct rlx_ew_writer *w, struct rlx_k_ew *a, int cls,
			  const struct rlx_type *shape)
{
	*w = (struct rlx_ew_writer){ .a = a, .cls = cls, .ok = cls >= 0 };
	a->cls = (uint8_t)(cls < 0 ? 0 : cls);
	a->rank = (int)shape->rank;
	for (uint32_t d = 0; d < shape->rank; d++)
		a->dim[d] = shape->dim[d];
}

/* The dtype that an op's operands are promoted to. */
static enum rlx_dtype compute_type(const struct rlx_type *const *in, uint32_t n)
{
	return n == 1 ? in[0]->dtype : rlx_dtype_promote(in[n - 2]->dtype, in[n - 1]->dtype);
}

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

/* The class of a region of casts alone: what all of its values fit, as floats if there are any. */
static int casts_class(const struct rlx_graph *b)
{
	int cls = RLX_EW_I64, is;
	uint32_t v;

	for (v = 1; v < b->n_val && cls != RLX_EW_F64; v++) {
		is = rlx_ew_class(b->val[v].type.dtype);
		cls = is == RLX_EW_I64 ? cls : is;
	}
	return cls;
}

/*
 * Class of a region: that of its first op on numbers. Casts stand at the edge, if there is
 * anything else, and bools fit any class of register.
 */
int rlx_ew_region_class(const struct rlx_graph *b)
{
	const struct rlx_type *in[3];
	int cls = casts_class(b);
	enum rlx_dtype dt;
	uint32_t n, k;

	for (n = 0; n < b->n_node; n++) {
		const struct rlx_node *v = &b->node[n];

		if (!(v->def->traits & RLX_T_ELEMENTWISE) || v->def->index == RLX_OP_cast)
			continue;
		for (k = 0; k < v->n_in; k++)
			in[k] = &b->val[v->in[k]].type;
		dt = compute_type(in, v->n_in);
		cls = rlx_ew_class(dt);
		if (dt != RLX_BOOL)
			break;
	}
	return cls == RLX_EW_I64 ? integer_class(b) : cls;
}

/* A constant of one element becomes an immediate. */
static uint8_t add_constant(struct rlx_ew_writer *w, const struct rlx_node *v)
{
	const struct rlx_op_constant *c = v->args;
	const struct rlx_type *t = &c->type;
	uint8_t r = rlx_ew_step(w, RLX_EW_const_, (uint8_t[3]){ 0, 0, 0 });
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

static uint8_t add_node(struct rlx_ew_writer *w, const struct rlx_graph *b,
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

void rlx_ew_body(struct rlx_ew_writer *w, const struct rlx_graph *b, uint8_t *reg)
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
	}
}

int rlx_ew_class_of(const struct rlx_op_def *def, const struct rlx_type *const *in, uint32_t n)
{
	enum rlx_dtype dt = compute_type(in, n);
	int cls = dt == RLX_C64 ? -1 : rlx_ew_class(dt);

	return cls == RLX_EW_I64 && def->index != RLX_OP_pow && all_of(dt, in, n) ?
		own_class(dt) : cls;
}

void rlx_ew_one(struct rlx_ew_writer *w, const struct rlx_op_def *def,
		const struct rlx_type *const *in, uint32_t n, enum rlx_dtype result)
{
	w->a->n_out = 1;
	w->a->out[0].src = add_op(w, def, compute_type(in, n), result, (uint8_t[3]){ 0, 1, 2 });
	w->a->out[0].type = (uint8_t)result;
}
