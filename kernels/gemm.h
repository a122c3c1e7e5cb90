/* SPDX-License-Identifier: MIT */
/*
 * GEMM: arguments, units, scratch and packed layouts.
 *
 *	C[M,N] = act(alpha * A[M,K] B[K,N] + bias + beta * R[M,N])
 *
 * for every batch index, rows of A, B, C and R lying lda, ldb, ldc and ldr
 * elements apart. Sums run over K in one fixed order, whatever M, N, the batch
 * or the split over threads: a row's result has the same bits alone and among
 * others. (But more than a few columns, rlx_k_gemm_few_columns(), that lie as rows
 * times M <= RLX_K_GEMM_DOT_M rows sum otherwise than times more rows, but for @strict.)
 *
 * How to use it, here for weights known at load time, on ISA level isa with
 * kernels K = rlx_kernels_get(isa):
 *
 *	struct rlx_k_gemm_pack p = { .k, .n, .b, .ldb, .trans, .dst };
 *	dst has rlx_k_gemm_f32_pack_size(n, k, isa) bytes, 64-byte aligned
 *	K->gemm_f32_pack(&p, 0, rlx_k_gemm_panels(n, isa), NULL)
 *
 *	struct rlx_k_gemm g = { .m, .n, .k, .a, .lda, .b = dst,
 *		.b_form = RLX_B_PACKED, .c, .ldc, .alpha = 1, ... };
 *	(fill all of g first: what follows depends on it)
 *	units = rlx_k_gemm_units(&g, isa), split over threads as you like, but
 *	in contiguous ranges: units next to each other share a block of A;
 *	each thread has rlx_k_gemm_scratch(&g, isa) bytes of scratch, in gemm_f64
 *	rlx_k_gemm_f64_scratch(&g, isa); gemm_bf16 and gemm_i8, which may run in
 *	tiles, have rlx_k_gemm_low_units() and rlx_k_gemm_low_scratch() instead
 *	K->gemm_f32(&g, begin, end, scratch)
 *
 * The packed layout belongs to a level (panels are as wide as its registers
 * want): pack and multiply at one and the same level.
 */
#ifndef RLX_K_GEMM_H
#define RLX_K_GEMM_H

#include "kernels/kernel.h"
#include "kernels/type.h"
#include "rlx/act.h"

/* B by columns times so few rows needs no copy of B. */
#define RLX_K_GEMM_DOT_M	4

/**
 * enum rlx_k_b_form - how B lies in memory
 * @RLX_B_ROWS:   B[K,N], row-major, ldb between rows
 * @RLX_B_COLS:   B transposed: [N,K], row-major, ldb between rows
 * @RLX_B_PACKED: what the pack kernel wrote; ldb is not read
 */
enum rlx_k_b_form {
	RLX_B_ROWS,
	RLX_B_COLS,
	RLX_B_PACKED,
};

/**
 * struct rlx_k_gemm - a GEMM; fields left 0 mean absent, but alpha does not.
 * @m, @n, @k:	any of them may be 0 (k of 0: the product is 0, the rest holds)
 * @a:		A[M,K], or A^T [K,M] where trans_a
 * @b:		see b_form
 * @c:		C[M,N]; may not overlap A or B
 * @bias:	n floats added to every row, or NULL; of C's type where bias_as_c
 * @row_bias:	m floats, one for each row, or NULL (convolution: channels)
 * @residual:	R[M,N] like C, or NULL. May be C itself with ldr = ldc, which
 *		adds to what is there: beta C + alpha A B.
 * @a_type:	gemm_f32, gemm_f16, gemm_bf16: dtype of A, f32, f16 or bf16. Where the
 *		machine multiplies bf16 (from v4x), gemm_bf16 rounds f32 and f16 to bf16
 *		first, anew for each range of units; where many threads share few rows,
 *		casting A to bf16 beforehand (and an even k) saves that. Else A stays exact.
 * @b_type:	of the same: dtype of B. gemm_f32 widens it, a block's rows at a time:
 *		packed ones of f16 by gemm_f16_pack, of bf16 (below v4x) by
 *		gemm_bf16_pack, the others by its own; gemm_f16
 *		and gemm_bf16 round to their type, and widen in registers, which is
 *		better for few rows. Of packed ones it is the type packed in.
 * @c_type:	of the same: dtype of C and of R. fp8 in any of the three: GPU only
 * @alpha, @beta: factors of the GEMM and of R
 * @lo, @hi:	bounds of RLX_ACT_CLIP, factor and addend of RLX_ACT_HARD_SIGMOID
 * @b_fixed:	nothing writes b while calls are under way: weights
 * @scales:	GPU's GEMMs of f16 or bf16: n, one for each column, or @one_scale, that the
 *		product is multiplied by, of @scale_type (enum rlx_dtype: f32, bf16
 *		or f16); or NULL
 * @bias_as_c:	GPU's GEMMs of f16 or bf16, whose C has 16 bits: so have the biases
 * @compute:	for who picks the kernel: the dtype (enum rlx_dtype) that it rounds A and B
 *		to; 0: as they are. @tf32: f32 may be multiplied as TF32.
 * @strict:	B by columns is summed one way, however many rows: see rlx_k_gemm_dots(); on a GPU
 *		sums are the CPU's. @b_packs: in other runs it is packed, or summed as if it were
 * @batch:	counts of two batch dimensions, outer first; 0 counts as 1
 * @a_step ...:	elements (bytes for a packed B) between batch indices; 0
 *		broadcasts. bias and row_bias are the same for all.
 *
 * All vectors and matrices are of the kernel's type (but see a_type and others)
 * except bias (but see bias_as_c) and row_bias: double for gemm_f64, else float.
 */
struct rlx_k_gemm {
	size_t			m, n, k;
	const void		*a, *b;
	void			*c;
	size_t			lda, ldb, ldc, ldr;
	const void		*bias, *row_bias;
	const void		*residual;
	double			alpha, beta, lo, hi;
	enum rlx_act		act;
	enum rlx_k_b_form	b_form;
	enum rlx_dtype		a_type, b_type, c_type;
	bool			trans_a, b_fixed, one_scale;
	size_t			batch[2];
	size_t			a_step[2], b_step[2], c_step[2], r_step[2];
	const void		*scales;
	uint8_t			scale_type, compute;
	bool			tf32, bias_as_c, strict, b_packs;
};

/**
 * struct rlx_k_gemm_pack - weights into panels; a unit is one panel
 * @b:		B[K,N], or [N,K] where trans; ldb elements between rows
 * @type:	dtype of b; the packs of gemm_f32, gemm_bf16 and gemm_f16 take any and
 *		convert, gemm_f64_pack ignores it: b is double
 * @dst:	64-byte aligned, as large as the pack_size function says
 */
struct rlx_k_gemm_pack {
	size_t		k, n;
	const void	*b;
	size_t		ldb;
	bool		trans;
	enum rlx_dtype	type;
	void		*dst;
};

/* Columns of a panel and most rows of a register tile, by level. */
static inline size_t rlx_k_gemm_nr(enum rlx_isa isa)
{
	return isa >= RLX_ISA_V4 ? 32 : isa == RLX_ISA_V3 ? 16 : 8;
}

static inline size_t rlx_k_gemm_mr(enum rlx_isa isa)
{
	return isa >= RLX_ISA_V4 ? 14 : isa == RLX_ISA_V3 ? 6 : 4;
}

static inline size_t rlx_k_gemm_panels(size_t n, enum rlx_isa isa)
{
	size_t nr = rlx_k_gemm_nr(isa);

	return n / nr + !!(n % nr);
}

/*
 * Bytes of packed weights: whole panels of K rows. The caller has checked that
 * (n + 31) * (k + 4) * 8 does not overflow.
 */
static inline size_t rlx_k_gemm_f32_pack_size(size_t n, size_t k,
					      enum rlx_isa isa)
{
	return rlx_k_gemm_panels(n, isa) * rlx_k_gemm_nr(isa) * k * 4;
}

/*
 * Steps of tiles along k elements of @size bytes: a tile has sixteen rows of 64
 * bytes, and what the last step lacks is 0.
 */
static inline size_t rlx_k_gemm_tile_steps(size_t k, size_t size)
{
	return k / (64 / size) + !!(k % (64 / size));
}

static inline size_t rlx_k_gemm_bf16_pack_size(size_t n, size_t k,
					       enum rlx_isa isa)
{
	size_t nr = rlx_k_gemm_nr(isa);

	return rlx_k_gemm_panels(n, isa) * nr *
	       (isa >= RLX_ISA_V4_AMX ? rlx_k_gemm_tile_steps(k, 2) * 64 : (k + k % 2) * 2);
}

/* No pairs: rows of K as they are. */
static inline size_t rlx_k_gemm_f16_pack_size(size_t n, size_t k,
					      enum rlx_isa isa)
{
	return rlx_k_gemm_f32_pack_size(n, k, isa) / 2;
}

static inline size_t rlx_k_gemm_f64_pack_size(size_t n, size_t k,
					      enum rlx_isa isa)
{
	return rlx_k_gemm_panels(n, isa) * rlx_k_gemm_nr(isa) * k * 8;
}

static inline size_t rlx_k_gemm_batches(const struct rlx_k_gemm *g)
{
	return (g->batch[0] ? g->batch[0] : 1) *
	       (g->batch[1] ? g->batch[1] : 1);
}

/*
 * Is B, which lies by columns, multiplied along K as it is? If it is read for few rows alone.
 * Where their number may not count, if it is never packed, whose sums go the other way, and K is
 * worth adding up vectors.
 */
static inline bool rlx_k_gemm_dots(const struct rlx_k_gemm *g)
{
	return g->b_form == RLX_B_COLS && (g->strict ? !g->b_packs && g->k >= 64 :
							g->m <= RLX_K_GEMM_DOT_M);
}

/*
 * Sums along K are sums of parts, since the error of a sum in floats grows with the number of
 * its terms: up to 512 terms are one part, else a part has 384, or some sqrt(K) where that
 * is more. Where a part ends depends on K alone.
 */
static inline size_t rlx_k_gemm_part(size_t k)
{
	size_t part = 384, n;

	if (k <= 512)
		return k;
	while (part * part < k)
		part *= 2;
	n = (k + part - 1) / part;
	return (k + n - 1) / n;
}

#define RLX_K_GEMM_LANES	16	/* of a dot product; parts are of so many terms then */

static inline size_t rlx_k_gemm_dot_part(size_t k)
{
	return rlx_k_gemm_part((k + RLX_K_GEMM_LANES - 1) / RLX_K_GEMM_LANES) * RLX_K_GEMM_LANES;
}

/*
 * Rows of A a unit covers: few enough that they stay in a second-level cache
 * (half a megabyte of them) and that there is work for many threads, but so
 * many that a panel of B laid out on the way is worth it.
 */
static inline size_t rlx_k_gemm_rows(const struct rlx_k_gemm *g,
				     enum rlx_isa isa)
{
	size_t mr = rlx_k_gemm_mr(isa), fit = 131072 / (g->k + 1);
	size_t panels = rlx_k_gemm_panels(g->n, isa) * rlx_k_gemm_batches(g);
	size_t least = g->b_form == RLX_B_PACKED ? 2 * mr : 4 * mr;
	size_t blocks, rows;

	rows = fit < mr ? mr : fit > 8 * mr ? 8 * mr : fit / mr * mr;
	while (rows > least && (g->m + rows - 1) / rows * panels < 12)
		rows -= mr;
	/* dot products have one tile for their sums */
	if (g->strict && rlx_k_gemm_dots(g) && rows > mr)
		rows = mr;
	/* the last block is not left short */
	blocks = g->m / rows + !!(g->m % rows);
	return blocks ? (g->m + blocks - 1) / blocks : 1;
}

/*
 * So few columns would leave most of a panel empty, which rows of A do not: the product goes
 * as C^T = B^T A^T, but in tiles. As many at each level, since sums go another way then.
 */
static inline bool rlx_k_gemm_is_thin(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	size_t few = g->a_type == RLX_F64 ? 4 : 8;

	return g->n <= few && g->a_type == g->b_type && !g->compute &&
	       (g->a_type != RLX_BF16 || isa < RLX_ISA_V4_AMX);
}

/*
 * And by dot products, which want a K that is worth adding up their vectors, the longer the
 * more of them there are. Weights are better columns then than packed. The rule does not know
 * how many rows there are: their bits are the same alone.
 */
static inline bool rlx_k_gemm_few_columns(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	size_t k = g->n > 6 ? 24 : g->n > 4 ? 8 : g->n > 1 ? 4 : 0;

	return rlx_k_gemm_is_thin(g, isa) && !g->trans_a && g->k >= g->n * k;
}

/*
 * Does it? What is transposed here only with many rows has the same bits with few, be it dot
 * products or sums of tiles, which must not start from a bias then.
 */
static inline bool rlx_k_gemm_transposes(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	if (g->b_form == RLX_B_PACKED)
		return false;
	if (g->trans_a)
		return rlx_k_gemm_is_thin(g, isa) && g->m >= 16;
	return rlx_k_gemm_few_columns(g, isa) &&
	       (!rlx_k_gemm_dots(g) || g->m > g->n);
}

/* Are the sums of @g, maybe transposed, dot products along K, where kernels have these? */
static inline bool rlx_k_gemm_sums_dots(const struct rlx_k_gemm *g, bool transposed)
{
	return transposed ? !g->trans_a : rlx_k_gemm_dots(g);
}

/*
 * Do sums that are no dot products start from the bias? Not of what is @thin: transposed it has
 * the same bits. Else the bias is added behind.
 */
static inline bool rlx_k_gemm_bias_first(const struct rlx_k_gemm *g, bool thin)
{
	return g->alpha == 1 && !thin;
}

/* C^T = B^T A^T, but that C and R lie as they are. */
static inline struct rlx_k_gemm rlx_k_gemm_transposed(const struct rlx_k_gemm *g)
{
	const bool vector = g->n == 1 && g->ldb == 1 && g->b_form == RLX_B_ROWS;
	struct rlx_k_gemm t = *g;

	t.m = g->n;
	t.n = g->m;
	t.a = g->b;
	t.trans_a = g->b_form == RLX_B_ROWS && !vector;
	t.lda = vector ? g->k : g->ldb;
	t.b = g->a;
	t.b_form = g->trans_a ? RLX_B_ROWS : RLX_B_COLS;
	t.ldb = g->lda;
	t.bias = g->row_bias;
	t.row_bias = g->bias;
	for (int i = 0; i < 2; i++) {
		t.a_step[i] = g->b_step[i];
		t.b_step[i] = g->a_step[i];
	}
	return t;
}

/* Blocks of @rows rows x one panel, by batch. */
static inline size_t rlx_k_gemm_blocks(const struct rlx_k_gemm *g, size_t rows,
				       enum rlx_isa isa)
{
	return rlx_k_gemm_batches(g) * (g->m / rows + !!(g->m % rows)) *
	       rlx_k_gemm_panels(g->n, isa);
}

/* That of gemm_f32, gemm_f16 and gemm_f64, which have no tiles to leave few columns to. */
static inline enum rlx_isa rlx_k_gemm_vectors(enum rlx_isa isa)
{
	return isa < RLX_ISA_V4_AMX ? isa : RLX_ISA_V4X;
}

/* Their units: rows x one panel, by batch. */
static inline size_t rlx_k_gemm_units(const struct rlx_k_gemm *g,
				      enum rlx_isa isa)
{
	const enum rlx_isa v = rlx_k_gemm_vectors(isa);
	const struct rlx_k_gemm t = rlx_k_gemm_transposes(g, v) ? rlx_k_gemm_transposed(g) : *g;

	return rlx_k_gemm_blocks(&t, rlx_k_gemm_rows(&t, v), v);
}

/*
 * Bytes of scratch a thread needs where nothing is transposed: one tile, a block of A laid out
 * afresh and one panel of B where it is not packed as the kernel's tiles read it; elements
 * take four bytes or less.
 */
static inline size_t rlx_k_gemm_scratch_as_is(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	size_t rows = rlx_k_gemm_rows(g, isa), nr = rlx_k_gemm_nr(isa);

	return rlx_k_gemm_mr(isa) * nr * 4 + rows * (g->k + 48) * 4 +
	       (g->b_form == RLX_B_PACKED && rlx_k_type_size(g->b_type) > 2 ? 0 :
		nr * (g->k + 4) * 4);
}

/* And where it may be: then also a panel's sums by rows of C. */
static inline size_t rlx_k_gemm_scratch(const struct rlx_k_gemm *g,
					enum rlx_isa isa)
{
	size_t nr = rlx_k_gemm_nr(isa);
	struct rlx_k_gemm t;

	if (!rlx_k_gemm_transposes(g, rlx_k_gemm_vectors(isa)))
		return rlx_k_gemm_scratch_as_is(g, isa);
	t = rlx_k_gemm_transposed(g);
	return rlx_k_gemm_scratch_as_is(&t, isa) + (nr * g->n + 16) * 4;
}

/* In gemm_f64 they take eight. */
static inline size_t rlx_k_gemm_f64_scratch(const struct rlx_k_gemm *g,
					    enum rlx_isa isa)
{
	return 2 * rlx_k_gemm_scratch(g, isa);
}

/*
 * gemm_int: C = A B of integers, modulo C's range; a_type, b_type and c_type are any
 * integers, bool in A or B is 0 and 1, and C has the widest. Rows as they are: no
 * trans_a, RLX_B_ROWS, and nothing behind the sums. A unit is so many rows, by batch.
 * Scratch: 0.
 */
#define RLX_K_GEMM_INT_ROWS	4

static inline size_t rlx_k_gemm_int_blocks(const struct rlx_k_gemm *g)
{
	return (g->m + RLX_K_GEMM_INT_ROWS - 1) / RLX_K_GEMM_INT_ROWS;
}

/*
 * Rows of A a unit of gemm_bf16 or gemm_i8 covers: in tiles up to 256, whole
 * tiles of 16 but for the last block, of which a megabyte stays in a second-level
 * cache.
 */
static inline size_t rlx_k_gemm_low_rows(const struct rlx_k_gemm *g,
					 enum rlx_isa isa)
{
	size_t fit = 524288 / (g->k + 1) / 32 * 32, rows, blocks;
	size_t panels = rlx_k_gemm_panels(g->n, isa) * rlx_k_gemm_batches(g);
	size_t least = g->b_form == RLX_B_PACKED ? 32 : 128;

	if (isa < RLX_ISA_V4_AMX)
		return rlx_k_gemm_rows(g, isa);
	rows = fit < 32 ? 32 : fit > 256 ? 256 : fit;
	while (rows > least && (g->m + rows - 1) / rows * panels < 12)
		rows -= 32;
	blocks = g->m / rows + !!(g->m % rows);
	return blocks ? ((g->m + blocks - 1) / blocks + 15) / 16 * 16 : 16;
}

/* As rlx_k_gemm_is_thin(), of gemm_bf16 and gemm_i8. */
static inline bool rlx_k_gemm_low_is_thin(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	return g->a_type == RLX_BF16 && rlx_k_gemm_is_thin(g, isa);
}

static inline bool rlx_k_gemm_low_transposes(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	return rlx_k_gemm_low_is_thin(g, isa) && rlx_k_gemm_transposes(g, isa);
}

/* Units of gemm_bf16 and gemm_i8: rows x one panel, by batch. */
static inline size_t rlx_k_gemm_low_units(const struct rlx_k_gemm *g,
					  enum rlx_isa isa)
{
	if (rlx_k_gemm_low_transposes(g, isa))
		return rlx_k_gemm_units(g, isa);
	return rlx_k_gemm_blocks(g, rlx_k_gemm_low_rows(g, isa), isa);
}

/* Bytes of sums: of a register tile, or of a block of rows in tiles. */
static inline size_t rlx_k_gemm_low_sums(size_t rows, enum rlx_isa isa)
{
	size_t nr = rlx_k_gemm_nr(isa);

	if (isa < RLX_ISA_V4_AMX)
		return rlx_k_gemm_mr(isa) * nr * 4;
	return (rows < 32 ? 32 : rows) * nr * 4;
}

/* Bytes of scratch a thread needs in them. */
static inline size_t rlx_k_gemm_low_scratch(const struct rlx_k_gemm *g,
					    enum rlx_isa isa)
{
	size_t rows = rlx_k_gemm_low_rows(g, isa), nr = rlx_k_gemm_nr(isa);
	size_t row = rlx_k_gemm_tile_steps(g->k, 2) * 64;

	if (isa < RLX_ISA_V4_AMX)
		return rlx_k_gemm_low_transposes(g, isa) ? rlx_k_gemm_scratch(g, isa) :
							   rlx_k_gemm_scratch_as_is(g, isa);
	return rlx_k_gemm_low_sums(rows, isa) + rows * (row + 128) +
	       (g->b_form == RLX_B_PACKED ? 0 : nr * (row + 4));
}

/**
 * enum rlx_k_i8_out - what gemm_i8 writes
 * @RLX_I8_OUT_I32: the sums, with ibias
 * @RLX_I8_OUT_F32: y = act(sum * scale + bias + beta * R)
 * @RLX_I8_OUT_U8:  round(y * requant) + c_zero, to nearest even, saturated
 * @RLX_I8_OUT_I8:  the same, signed
 */
enum rlx_k_i8_out {
	RLX_I8_OUT_I32,
	RLX_I8_OUT_F32,
	RLX_I8_OUT_U8,
	RLX_I8_OUT_I8,
};

/**
 * struct rlx_k_gemm_i8 - sums of (a - a_zero) (b - b_zero) over bytes, exact
 * modulo 2^32 whatever the signs; the result as @out says
 * @g:		as for gemm_f32, but A and B are bytes and strides of C are in
 *		elements of out. bias, row_bias, residual (f32), act, beta, lo
 *		and hi apply to all kinds but I32; alpha is the scale of the
 *		whole tensor. a_type ... c_type are not read.
 * @a_signed, @b_signed: int8_t, else uint8_t. b_signed must be the same at
 *		packing.
 * @a_zero, @b_zero: zero points of the tensors
 * @a_zeros:	m zero points, one for each row, instead of a_zero; or NULL
 * @b_zeros:	n, one for each column, instead of b_zero; or NULL
 * @ibias:	n, added to the sums; or NULL
 * @scales:	n, one for each column, times alpha; or NULL
 * @row_scales:	m, one for each row, times that; or NULL
 * @requant:	1 / scale of the result, or 1 where alpha and scales have it
 *		in them already, as QLinearMatMul does (act then sees quantised
 *		units)
 * @c_zero:	zero point of the result
 *
 * rlx_k_gemm_low_units(&i.g, isa) and rlx_k_gemm_low_scratch(&i.g, isa) apply.
 */
struct rlx_k_gemm_i8 {
	struct rlx_k_gemm	g;
	enum rlx_k_i8_out	out;
	bool			a_signed, b_signed;
	int32_t			a_zero, b_zero, c_zero;
	const int32_t		*a_zeros, *b_zeros, *ibias;
	const float		*scales, *row_scales;
	float			requant;
};

/** struct rlx_k_gemm_i8_pack - bytes into panels; a unit is one panel */
struct rlx_k_gemm_i8_pack {
	size_t		k, n;
	const void	*b;
	size_t		ldb;
	bool		trans, b_signed;
	void		*dst;
};

/* The sums of each column lie behind each panel. */
static inline size_t rlx_k_gemm_i8_pack_size(size_t n, size_t k,
					     enum rlx_isa isa)
{
	size_t row = rlx_k_gemm_nr(isa) * 4, g = isa >= RLX_ISA_V4_VNNI ? 4 : 2;
	size_t groups = isa >= RLX_ISA_V4_AMX ? rlx_k_gemm_tile_steps(k, 1) * 16 :
			k / g + !!(k % g);

	return rlx_k_gemm_panels(n, isa) * row * (groups + 1);
}

#endif
