/* SPDX-License-Identifier: MIT */
/*
 * Elementwise regions: a straight-line program over broadcast inputs, run
 * block by block so that its intermediates stay in the first-level cache.
 *
 * The lowering fills struct rlx_k_ew (rank, dim, inputs with element strides,
 * steps, outputs), calls rlx_k_ew_plan once, and may afterwards change only
 * the pointers. Kernel: ew. One unit is one block; there are
 * rlx_k_ew_units(), each costing about a->block elements times steps.
 * Scratch: rlx_k_ew_scratch() bytes.
 *
 * All registers of a program have one class. Inputs of any element type (but for
 * the narrow integers' classes) are converted to it on load, outputs from it on
 * store, by the rules of cast.h.
 * Integers wider than the class holds exactly round to nearest: use the class the values need.
 */
#ifndef RLX_K_EW_H
#define RLX_K_EW_H

#include "kernels/kernel.h"
#include "kernels/type.h"

enum rlx_k_ew_class {
	RLX_EW_F32,
	RLX_EW_F64,
	RLX_EW_I64,	/* all integers and bool; u64 keeps its bits */
	RLX_EW_I32,	/* i32, u32 and bool alone, as the two below, without cast and powers: */
	RLX_EW_I16,	/* 	unsigned ones keep their bits; const gives the low ones */
	RLX_EW_I8,
	RLX_EW_CLASSES,
};

static inline bool rlx_k_ew_int(int cls)
{
	return cls >= RLX_EW_I64;
}

/*
 * X(name, operands, classes): classes is a mask of 1 f32, 2 f64, 4 integers.
 * Comparisons and logic give 0 or 1; logic and where test for nonzero. max,
 * min: NaN if either is NaN. mod has the sign of the divisor (Python), fmod
 * that of the dividend (C). Integers: x / 0 = x mod 0 = 0, the least / -1 wraps,
 * shift counts of the width and more give 0 (shr of a negative: -1); u* are the
 * unsigned forms. round: ties to even. cast: rounds or wraps to step.type.
 * gelu is the erf form. softplus, hard_sigmoid (alpha 0.2, beta 0.5) and
 * hard_swish are ONNX's. const takes only the immediate; fma is a * b + c; leaky is a from 0
 * on, else a * b.
 */
#define RLX_EW_OPS(X)							\
	X(const_, 0, 7) X(copy, 1, 7) X(cast, 1, 7)			\
	X(neg, 1, 7) X(abs, 1, 7) X(sign, 1, 7) X(not_, 1, 7)		\
	X(exp, 1, 3) X(log, 1, 3) X(sqrt, 1, 3) X(rsqrt, 1, 3)		\
	X(recip, 1, 3) X(sin, 1, 3) X(cos, 1, 3) X(tan, 1, 3)		\
	X(asin, 1, 3) X(acos, 1, 3) X(atan, 1, 3) X(sinh, 1, 3)		\
	X(cosh, 1, 3) X(tanh, 1, 3) X(asinh, 1, 3) X(acosh, 1, 3)	\
	X(atanh, 1, 3) X(sigmoid, 1, 3) X(silu, 1, 3) X(gelu, 1, 3)	\
	X(gelu_tanh, 1, 3) X(relu, 1, 7) X(erf, 1, 3) X(ceil, 1, 3)	\
	X(floor, 1, 3) X(round, 1, 3) X(trunc, 1, 3)			\
	X(softplus, 1, 3) X(softsign, 1, 3) X(mish, 1, 3)		\
	X(hard_sigmoid, 1, 3) X(hard_swish, 1, 3) X(is_nan, 1, 3)	\
	X(is_inf, 1, 3) X(exp2, 1, 3) X(log2, 1, 3) X(expm1, 1, 3)	\
	X(log1p, 1, 3) X(bnot, 1, 4)					\
	X(add, 2, 7) X(sub, 2, 7) X(mul, 2, 7) X(div, 2, 7)		\
	X(max, 2, 7) X(min, 2, 7) X(pow, 2, 7) X(mod, 2, 7)		\
	X(fmod, 2, 7) X(atan2, 2, 3) X(eq, 2, 7) X(ne, 2, 7)		\
	X(lt, 2, 7) X(le, 2, 7) X(gt, 2, 7) X(ge, 2, 7)			\
	X(and_, 2, 7) X(or_, 2, 7) X(xor_, 2, 7)			\
	X(band, 2, 4) X(bor, 2, 4) X(bxor, 2, 4) X(shl, 2, 4)		\
	X(shr, 2, 4) X(ushr, 2, 4) X(udiv, 2, 4) X(umod, 2, 4)		\
	X(upow, 2, 4) X(umax, 2, 4) X(umin, 2, 4) X(ult, 2, 4)		\
	X(ule, 2, 4)							\
	X(leaky, 2, 3) X(where, 3, 7) X(fma, 3, 7)

/* clang-format off */
enum rlx_k_ew_op {
#define RLX_EW_ENUM_(n, a, c)	RLX_EW_##n,
	RLX_EW_OPS(RLX_EW_ENUM_)
#undef RLX_EW_ENUM_
	RLX_EW_OP_COUNT,
};
/* clang-format on */

/* The operands of an op, or -1 where the class does not have it. */
static inline int rlx_k_ew_arity(int cls, int op)
{
	static const uint8_t row[RLX_EW_OP_COUNT][2] = {
#define RLX_EW_ROW_(n, a, c)	{ a, c },
		RLX_EW_OPS(RLX_EW_ROW_)
#undef RLX_EW_ROW_
	};

	if (cls > RLX_EW_I64 && (op == RLX_EW_pow || op == RLX_EW_upow || op == RLX_EW_cast))
		return -1;
	if (rlx_k_ew_int(cls))
		cls = RLX_EW_I64;
	if ((unsigned)op >= RLX_EW_OP_COUNT || !(row[op][1] >> cls & 1))
		return -1;
	return row[op][0];
}

#define RLX_EW_MAX_IN	16
#define RLX_EW_MAX_STEP	64
#define RLX_EW_MAX_OUT	4
#define RLX_EW_STEP(j)	(RLX_EW_MAX_IN + (j))	/* operand: result of step j */
#define RLX_EW_IMM	255			/* operand: step.imm */

struct rlx_k_ew_step {
	uint8_t		op;		/* enum rlx_k_ew_op */
	uint8_t		src[3];		/* input i, RLX_EW_STEP(j), RLX_EW_IMM */
	uint8_t		type;		/* cast: the enum rlx_dtype */
	union {
		double	f;
		int64_t	i;
	} imm;				/* f, or i in those of integers */
};

struct rlx_k_ew_in {
	const void	*p;
	int64_t		stride[RLX_K_DIMS];	/* elements; 0 broadcasts */
	uint8_t		type;
	uint8_t		kind;			/* set by plan */
};

struct rlx_k_ew_out {
	void		*p;		/* contiguous in the order of dim */
	uint8_t		type;
	uint8_t		src;		/* input i or RLX_EW_STEP(j) */
};

/*
 * An output may be the same memory as an input of the same shape, strides and
 * element size; otherwise nothing may overlap an output.
 */
struct rlx_k_ew {
	uint8_t		cls;		/* enum rlx_k_ew_class */
	uint8_t		n_in, n_step, n_out;
	int		rank;
	int64_t		dim[RLX_K_DIMS];
	struct rlx_k_ew_in	in[RLX_EW_MAX_IN];
	struct rlx_k_ew_step	step[RLX_EW_MAX_STEP];
	struct rlx_k_ew_out	out[RLX_EW_MAX_OUT];
	/* set by rlx_k_ew_plan */
	uint8_t		reg[RLX_EW_MAX_STEP];	/* register of each step */
	uint8_t		n_reg;
	bool		flat;		/* blocks run over the flattened output */
	int64_t		total, block, pieces;
};

enum { RLX_EW_LINEAR, RLX_EW_SCALAR, RLX_EW_ROW, RLX_EW_GATHER };
/* of a block in scratch, and with what may be written behind it */
enum { RLX_EW_BLOCK_BYTES = 4096, RLX_EW_BLOCK_ROOM = RLX_EW_BLOCK_BYTES + 64 };

static inline size_t rlx_k_ew_lane(const struct rlx_k_ew *a)
{
	return a->cls == RLX_EW_F32 || a->cls == RLX_EW_I32 ? 4 :
	       a->cls == RLX_EW_I16 ? 2 : a->cls == RLX_EW_I8 ? 1 : 8;
}

/* Powers of one number for all elements that need no pow(). */
static inline bool rlx_k_ew_simple_power(float y)
{
	return y == 1.0f || y == 2.0f || y == 3.0f || y == -1.0f || y == 0.5f || y == -0.5f;
}

/* Give each step a register; a register is free after its value's last use. */
static inline void rlx_k_ew_regs(struct rlx_k_ew *a)
{
	uint8_t last[RLX_EW_MAX_STEP] = { 0 };
	bool used[RLX_EW_MAX_STEP] = { 0 };

	a->n_reg = 0;
	for (int s = 0; s < a->n_step; s++) {
		last[s] = (uint8_t)s;
		for (int k = 0; k < 3; k++) {
			int o = a->step[s].src[k];

			if (o >= RLX_EW_MAX_IN && o != RLX_EW_IMM &&
			    o - RLX_EW_MAX_IN < s)
				last[o - RLX_EW_MAX_IN] = (uint8_t)s;
		}
	}
	for (int k = 0; k < a->n_out; k++)
		if (a->out[k].src >= RLX_EW_MAX_IN)
			last[a->out[k].src - RLX_EW_MAX_IN] = RLX_EW_MAX_STEP;
	for (int s = 0; s < a->n_step; s++) {
		uint8_t r = 0;

		while (used[r])
			r++;
		used[r] = true;
		a->reg[s] = r;
		if (r >= a->n_reg)
			a->n_reg = r + 1;
		for (int j = 0; j <= s; j++)
			if (last[j] == s)
				used[a->reg[j]] = false;
	}
}

static inline void rlx_k_ew_kinds(struct rlx_k_ew *a)
{
	for (int i = 0; i < a->n_in; i++) {
		struct rlx_k_ew_in *in = &a->in[i];
		bool linear = true, scalar = true;
		int64_t want = 1;

		for (int d = a->rank; d-- > 0;) {
			linear &= in->stride[d] == want;
			scalar &= in->stride[d] == 0;
			want *= a->dim[d];
		}
		in->kind = scalar ? RLX_EW_SCALAR : linear ? RLX_EW_LINEAR :
			   a->flat ? RLX_EW_GATHER : RLX_EW_ROW;
	}
}

/*
 * Do blocks of several rows of @inner elements, which are put together from those inputs
 * that broadcast, take less than a block for each row? What a row costs by itself is some
 * vectors' worth.
 */
static inline bool rlx_k_ew_short(enum rlx_isa isa, size_t bytes)
{
	size_t vector = rlx_isa_vector_bytes(isa);

	return bytes < 32 * vector;
}

/*
 * Elements that blocks are a multiple of: whole vectors, and whole rows where that fits, so
 * that what a row repeats is the same in every block.
 */
static inline int64_t rlx_k_ew_whole(int64_t row, int64_t vector, int64_t most)
{
	int64_t n = row, gcd = vector, t;

	for (; n; gcd = t) {
		t = n;
		n = gcd % n;
	}
	return row && row / gcd <= most / vector ? row / gcd * vector : vector;
}

/*
 * Collapse the dimensions, choose the blocks, assign registers; at any level the result
 * runs, at @isa it is fastest. A program of 0 steps converts and copies.
 */
static inline void rlx_k_ew_plan(enum rlx_isa isa, struct rlx_k_ew *a)
{
	int64_t stride[RLX_EW_MAX_IN + 1][RLX_K_DIMS];
	int64_t most = RLX_EW_BLOCK_BYTES / (int64_t)rlx_k_ew_lane(a);
	int64_t whole = 64 / (int64_t)rlx_k_ew_lane(a), inner, want = 1;

	/* a kernel steps through all three operands: those that are none have vectors, too */
	for (int s = 0; s < a->n_step; s++)
		for (int k = rlx_k_ew_arity(a->cls, a->step[s].op); k < 3; k++)
			if (k >= 0)
				a->step[s].src[k] = RLX_EW_IMM;
	for (int d = a->rank; d-- > 0;) {
		for (int i = 0; i < a->n_in; i++)
			stride[i][d] = a->in[i].stride[d];
		stride[a->n_in][d] = want;
		want *= a->dim[d];
	}
	a->rank = rlx_k_collapse(a->rank, a->dim, a->n_in + 1, stride);
	inner = a->dim[a->rank - 1];
	a->flat = a->rank > 1 && rlx_k_ew_short(isa, (size_t)inner * rlx_k_ew_lane(a));
	for (int i = 0; i < a->n_in; i++) {
		for (int d = 0; d < a->rank; d++)
			a->in[i].stride[d] = stride[i][d];
		if ((uint64_t)stride[i][a->rank - 1] > 1)
			a->flat = true;
	}
	a->total = want;
	if (a->flat) {
		whole = rlx_k_ew_whole(inner, whole, most);
		most -= most % whole;
		inner = want;
	}
	a->pieces = (inner + most - 1) / most;
	a->block = a->pieces ? (inner + a->pieces - 1) / a->pieces : 0;
	a->block = (a->block + whole - 1) / whole * whole;
	if (a->block)
		a->pieces = (inner + a->block - 1) / a->block;
	rlx_k_ew_kinds(a);
	rlx_k_ew_regs(a);
}

static inline size_t rlx_k_ew_units(const struct rlx_k_ew *a)
{
	if (a->total == 0)
		return 0;
	if (a->flat)
		return (size_t)a->pieces;
	return (size_t)(a->total / a->dim[a->rank - 1] * a->pieces);
}

static inline size_t rlx_k_ew_scratch(const struct rlx_k_ew *a)
{
	return (size_t)(a->n_reg + a->n_in + 4) * RLX_EW_BLOCK_ROOM;
}

/*
 * The same program over parts of the output, which lie behind each other along an axis and have
 * inputs of their own. Kernel: ew_parts; as ew, but units are blocks of rows of parts.
 *
 * The output is [outer, total, inner], and a part has @length of total. An input lies as what it
 * has of [outer, length, inner]; others it repeats.
 */
enum { RLX_EW_OUTER = 1, RLX_EW_ALONG = 2, RLX_EW_INNER = 4 };	/* what an input has */
enum { RLX_EW_PART_WORDS = 1408 };

struct rlx_k_ew_part {
	uint64_t	unit;		/* its first */
	int64_t		at, length;	/* along the axis; at: where it begins */
};

struct rlx_k_ew_parts {
	struct rlx_k_ew	ew;		/* inputs that parts share have their pointer there */
	int64_t		outer, total, inner;
	int64_t		outer_of_row;		/* what of outer a row of the output is */
	uint32_t	n_part, n_own;
	bool		split;		/* along the axis and inner are walked apart */
	uint8_t		has[RLX_EW_MAX_IN];
	uint8_t		own[RLX_EW_MAX_IN];	/* 1 + which of a part's pointers; 0: shared */
	/* n_part times struct rlx_k_ew_part, then n_own pointers for each */
	uint64_t	table[RLX_EW_PART_WORDS];
};

static inline struct rlx_k_ew_part *rlx_k_ew_part(const struct rlx_k_ew_parts *a, uint32_t k)
{
	return (struct rlx_k_ew_part *)(uintptr_t)a->table + k;
}

static inline const void **rlx_k_ew_own(const struct rlx_k_ew_parts *a, uint32_t k)
{
	return (const void **)(void *)rlx_k_ew_part(a, a->n_part) + (size_t)k * a->n_own;
}

/* Elements of part @k that lie side by side, in the inputs too. */
static inline int64_t rlx_k_ew_part_row(const struct rlx_k_ew_parts *a, int64_t length)
{
	return a->split ? a->inner : length * a->inner;
}

/* Blocks of a row; each but the last has as many elements as there is room for. */
static inline int64_t rlx_k_ew_part_block(const struct rlx_k_ew_parts *a)
{
	return RLX_EW_BLOCK_BYTES / (int64_t)rlx_k_ew_lane(&a->ew);
}

static inline int64_t rlx_k_ew_part_pieces(const struct rlx_k_ew_parts *a, int64_t length)
{
	int64_t block = rlx_k_ew_part_block(a);

	return (rlx_k_ew_part_row(a, length) + block - 1) / block;
}

#endif
