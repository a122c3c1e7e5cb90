// SPDX-License-Identifier: MIT
/*
 * Quantized ops of com.microsoft, as ONNX Runtime's quantizer writes them in its QOperator form:
 * each as what it is between dequantize and quantize, of which the compiler makes products and
 * regions that read and write bytes.
 */
#include "base/alloc.h"
#include "io/onnx/handlers.h"

/* Inputs @at, @at + 1 and @at + 2: bytes, their scale and zero point. */
static rlx_value floats(struct onnx_op *q, uint32_t at)
{
	return E(q, dequantize, .x = onnx_in(q, at), .scale = onnx_scalar(q, onnx_in(q, at + 1)),
		 .zp = onnx_scalar(q, onnx_in(q, at + 2)), .axis = 1);
}

/* Output 0: @y by the scale of input @at and the zero point behind it; of 0, as input @like. */
static void bytes(struct onnx_op *q, rlx_value y, uint32_t at, uint32_t like)
{
	rlx_value zp = onnx_scalar(q, onnx_in(q, at + 1));
	enum rlx_dtype to = onnx_type(q, onnx_in(q, like)).dtype;

	if (!zp.id)
		zp = onnx_num(q, to, 0);
	onnx_out(q, 0, E(q, quantize, .x = y, .scale = onnx_scalar(q, onnx_in(q, at)), .zp = zp,
			 .axis = 1, .to = onnx_type(q, zp).dtype));
}

/* QLinearAdd and QLinearMul. */
enum rlx_status onnx_ms_qlinear_binary(struct onnx_op *q)
{
	struct rlx_op_add ab = { .a = floats(q, 0), .b = floats(q, 3) };

	bytes(q, onnx_emit(q->b, q->row->arg, &ab, sizeof(ab)), 6, 0);
	return RLX_OK;
}

enum rlx_status onnx_ms_qlinear_where(struct onnx_op *q)
{
	bytes(q, E(q, where, .cond = onnx_in(q, 0), .a = floats(q, 1), .b = floats(q, 4)), 7, 1);
	return RLX_OK;
}

const struct onnx_row onnx_ms_floats[] = {
	{ .from = 19, .fn = onnx_pool, .arg = &onnx_pool_kinds[1] },
	{ .from = 1, .fn = onnx_global_pool, .arg = &onnx_reduce_kinds[1] },
	{ .from = 16, .fn = onnx_leaky_relu },
	{ .from = 13, .fn = onnx_unary, .arg = &rlx_op_sigmoid },
	{ .from = 13, .fn = onnx_softmax },
	{ .from = 13, .fn = onnx_do_reduce, .arg = &onnx_reduce_kinds[1] },
};

/*
 * Ops of one operand: the row's argument is the row of the op on floats, and the opset whose
 * rules it follows, if no attribute names one.
 */
enum rlx_status onnx_ms_qlinear_unary(struct onnx_op *q)
{
	const struct onnx_row *row = q->row->arg;
	struct onnx_op inner = *q;
	struct onnx_val *in, *out = NULL;
	enum rlx_status st;

	if (onnx_attr_i(q, "channels_last", 0))
		return op_err(q, RLX_ENOSUP, "attribute channels_last=1 is not supported");
	inner.opset = onnx_attr_i(q, "opset", row->from);
	in = onnx_val_of(q->b, floats(q, 0));
	if (!in)
		return onnx_graph_status(q);
	inner.row = row;
	inner.used = q->used;
	inner.in = &in;
	inner.out = &out;
	inner.n_in = inner.n_out = 1;
	st = row->fn(&inner);
	q->used = inner.used;
	if (st)
		return st;
	if (out)
		bytes(q, onnx_use(q->b, out), 3, 0);
	return RLX_OK;
}

/* Scale and zero point of the result come first, then those of each part with it. */
enum rlx_status onnx_ms_qlinear_concat(struct onnx_op *q)
{
	rlx_value *v = rlx_bump_new(&q->b->mem, q->n_in, sizeof(*v));
	uint32_t n = 0, i;

	if (!v)
		return onnx_nomem(q->b);
	if (q->n_in < 5 || (q->n_in - 2) % 3)
		return op_err(q, RLX_EPARSE, "%u inputs; a scale and a zero point, and three of "
			      "each part are needed", q->n_in);
	for (i = 2; i < q->n_in; i += 3)
		v[n++] = floats(q, i);
	bytes(q, E(q, concat, .axis = onnx_attr_i32(q, "axis", 0), .xs = { v, n }), 0, 2);
	return RLX_OK;
}

static rlx_value turned(struct onnx_op *q, rlx_value v, const char *attr)
{
	return onnx_attr_i(q, attr, 0) ? E(q, transpose, .x = v) : v;
}

/* alpha A B + C, where C counts units of A's and B's scales and alpha. */
enum rlx_status onnx_ms_qgemm(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 1);
	rlx_value c = onnx_in(q, 6), b = onnx_in(q, 3), y;
	struct rlx_type tb, tc = onnx_type(q, c);

	b = turned(q, b, "transB");
	tb = onnx_type(q, b);
	if (c.id && (tb.rank != 2 || rlx_type_count(&tc) != tb.dim[1]))
		return op_err(q, RLX_ENOSUP, "C of other than a row of B is not supported");
	y = E(q, qmatmul, .a = turned(q, onnx_in(q, 0), "transA"), .b = b,
	      .a_scale = onnx_scale(q, onnx_scalar(q, onnx_in(q, 1)), alpha),
	      .a_zp = onnx_scalar(q, onnx_in(q, 2)), .b_scale = onnx_scalar(q, onnx_in(q, 4)),
	      .b_zp = onnx_scalar(q, onnx_in(q, 5)), .y_scale = onnx_scalar(q, onnx_in(q, 7)),
	      .y_zp = onnx_scalar(q, onnx_in(q, 8)),
	      .bias = c.id ? onnx_reshape(q, c, 1, &tb.dim[1]) : c);
	onnx_out(q, 0, y);
	return RLX_OK;
}

/* Product of bytes in f32, with @a's scale and zero point given. */
static rlx_value to_float(struct onnx_op *q, const rlx_value a[3], uint32_t b, uint32_t scale,
			  uint32_t zp, uint32_t bias)
{
	rlx_value y = E(q, qmatmul, .a = a[0], .b = onnx_in(q, b), .a_scale = onnx_scalar(q, a[1]),
			.a_zp = onnx_scalar(q, a[2]), .b_scale = onnx_scalar(q, onnx_in(q, scale)),
			.b_zp = onnx_scalar(q, onnx_in(q, zp)));

	return onnx_given(q, bias) ? E(q, add, .a = y, .b = onnx_in(q, bias)) : y;
}

enum rlx_status onnx_ms_matmul_integer_to_float(struct onnx_op *q)
{
	const rlx_value a[3] = { onnx_in(q, 0), onnx_in(q, 2), onnx_in(q, 4) };

	onnx_out(q, 0, to_float(q, a, 1, 3, 5, 6));
	return RLX_OK;
}

enum rlx_status onnx_ms_dynamic_quantize_matmul(struct onnx_op *q)
{
	rlx_value x = E(q, dynamic_quantize, .x = onnx_in(q, 0));
	const rlx_value a[3] = { x, onnx_nth(q, x, 1), onnx_nth(q, x, 2) };

	onnx_out(q, 0, to_float(q, a, 1, 2, 3, 4));
	return RLX_OK;
}

/* Weights [directions, in, gates], by scales of directions or of gates, as an LSTM has them. */
static enum rlx_status gates(struct onnx_op *q, uint32_t at, uint32_t scale, struct onnx_val **out)
{
	rlx_value w = onnx_in(q, at), s = onnx_in(q, scale), z = onnx_in(q, scale + 1);
	struct rlx_type t = onnx_type(q, w), ts = onnx_type(q, s);
	const int64_t dim[3] = { t.dim[0], 1, ts.rank == 2 ? ts.dim[1] : 1 };

	if (t.rank != 3 || rlx_type_count(&ts) != dim[0] * dim[2])
		return op_err(q, RLX_ESHAPE, "input %u is of rank %u, its scale has %lld elements",
			      at, t.rank, (long long)rlx_type_count(&ts));
	w = E(q, cast, .x = w, .to = RLX_F32);
	if (z.id)
		w = E(q, sub, .a = w, .b = E(q, cast, .x = onnx_reshape(q, z, 3, dim),
					     .to = RLX_F32));
	w = E(q, mul, .a = w, .b = onnx_reshape(q, s, 3, dim));
	*out = onnx_val_of(q->b, E(q, transpose, .x = w, .perm = RLX_INTS(0, 2, 1)));
	return onnx_graph_status(q);
}

/* What is dynamic, inputs and states, stays in floats: they are read once a step. */
enum rlx_status onnx_ms_dynamic_quantize_lstm(struct onnx_op *q)
{
	struct onnx_op inner = *q;
	struct onnx_val *in[8] = { 0 };
	enum rlx_status st;
	uint32_t i;

	for (i = 0; i < 8 && i < q->n_in; i++)
		in[i] = q->in[i];
	st = gates(q, 1, 8, &in[1]);
	if (!st)
		st = gates(q, 2, 10, &in[2]);
	inner.in = in;
	inner.n_in = 8;
	if (!st)
		st = onnx_lstm(&inner);
	q->used = inner.used;
	return st;
}

/* Sizes of a MatMulNBits: K by N, in @blocks of @block k with @bits each. */
struct nbits {
	int64_t	k, n, bits, block, blocks;
};

static enum rlx_status nbits_of(struct onnx_op *q, struct nbits *b)
{
	struct rlx_type w = onnx_type(q, onnx_in(q, 1)), s = onnx_type(q, onnx_in(q, 2));

	*b = (struct nbits){ onnx_attr_i(q, "K", 0), onnx_attr_i(q, "N", 0),
			     onnx_attr_i(q, "bits", 4), onnx_attr_i(q, "block_size", 0), 0 };
	onnx_attr_i(q, "accuracy_level", 0);
	if (b->bits != 4 && b->bits != 8)
		return op_err(q, RLX_ENOSUP, "%lld bits are not supported, 4 and 8 are",
			      (long long)b->bits);
	if (onnx_given(q, 4))
		return op_err(q, RLX_ENOSUP, "g_idx is not supported");
	if (b->k < 1 || b->n < 1 || b->k > ONNX_MOST_ATTR || b->n > ONNX_MOST_ATTR ||
	    b->block < 2 || b->block > ONNX_MOST_ATTR || b->block % 2)
		return op_err(q, RLX_EPARSE, "K is %lld, N %lld, block_size %lld", (long long)b->k,
			      (long long)b->n, (long long)b->block);
	b->blocks = (b->k + b->block - 1) / b->block;
	if (w.dtype != RLX_U8 || rlx_type_count(&w) != b->n * b->blocks * b->block * b->bits / 8 ||
	    rlx_type_count(&s) != b->n * b->blocks)
		return op_err(q, RLX_ESHAPE, "B has %lld bytes and %lld scales; %lld blocks of "
			      "%lld for each of %lld columns are needed",
			      (long long)rlx_type_count(&w), (long long)rlx_type_count(&s),
			      (long long)b->blocks, (long long)b->block, (long long)b->n);
	return RLX_OK;
}

/* A constant of @bytes that the caller fills through *@to; none if memory ran out. */
static rlx_value filled_later(struct onnx_op *q, struct rlx_type t, uint8_t **to)
{
	size_t bytes = (size_t)rlx_type_bytes(&t);
	struct rlx_blob *b;
	rlx_value v;

	*to = rlx_calloc(bytes, 1);
	b = *to ? rlx_blob_new(*to, bytes, rlx_free, *to) : NULL;
	if (!b) {
		rlx_free(*to);
		*to = NULL;
		onnx_nomem(q->b);
		return RLX_NONE;
	}
	v = rlx_constant_blob(q->b->ctx->g, t, b);
	rlx_blob_put(b);
	return v;
}

/* Element @i of packed unsigned numbers. */
static uint8_t unpacked(const uint8_t *p, int64_t i, int64_t bits)
{
	return bits == 8 ? p[i] : p[i / 2] >> (i % 2 * 4) & 15;
}

/*
 * Columns of blocks become rows of columns. Codes turn signed where no zero points are given,
 * which then are in their middle, and where they are bytes.
 */
static rlx_value weight_of(struct onnx_op *q, const struct nbits *b, const uint8_t *w, bool zeros)
{
	const uint8_t flip = b->bits == 8 ? 0x80 : zeros ? 0 : 8;
	int64_t count = b->k * b->n, i, j;
	uint8_t *to;
	rlx_value v = filled_later(q, rlx_type(RLX_U8, (count * b->bits + 7) / 8), &to);

	for (i = 0; to && i < b->k; i++)
		for (j = 0; j < b->n; j++) {
			uint8_t c = unpacked(w, j * b->blocks * b->block + i, b->bits) ^ flip;
			int64_t e = i * b->n + j;

			if (b->bits == 8)
				to[e] = c;
			else
				to[e / 2] |= (uint8_t)(c << (e % 2 * 4));
		}
	return v;
}

/* [n, blocks] as [blocks, n] */
static rlx_value by_blocks(struct onnx_op *q, rlx_value v, const struct nbits *b)
{
	return E(q, transpose, .x = onnx_reshape(q, v, 2, (int64_t[]){ b->n, b->blocks }));
}

/* Zero points as they count for what weight_of() makes: bytes of a column packed, or numbers. */
static enum rlx_status zeros_of(struct onnx_op *q, const struct nbits *b, rlx_value *out)
{
	rlx_value v = onnx_in(q, 3);
	struct rlx_type t = onnx_type(q, v);
	int64_t line = (b->blocks * b->bits + 7) / 8, i, j;
	const uint8_t *p = onnx_const(q->b, v);
	uint8_t *to;

	if (t.dtype == RLX_U8) {
		if (!p || rlx_type_count(&t) != b->n * line)
			return op_err(q, RLX_ENOSUP, "zero points must be %lld constant bytes",
				      (long long)(b->n * line));
		v = filled_later(q, rlx_type(RLX_U8, b->n, b->blocks), &to);
		for (j = 0; to && j < b->n; j++)
			for (i = 0; i < b->blocks; i++)
				to[j * b->blocks + i] = unpacked(p + j * line, i, b->bits);
	} else if (rlx_type_count(&t) != b->n * b->blocks) {
		return op_err(q, RLX_ESHAPE, "%lld zero points, %lld are needed",
			      (long long)rlx_type_count(&t), (long long)(b->n * b->blocks));
	}
	v = E(q, cast, .x = by_blocks(q, v, b), .to = RLX_F32);
	*out = b->bits == 8 ? onnx_shift(q, v, -128) : v;
	return RLX_OK;
}

enum rlx_status onnx_ms_matmul_nbits(struct onnx_op *q)
{
	bool zeros = onnx_given(q, 3);
	rlx_value zp = RLX_NONE, y;
	enum rlx_status st;
	const uint8_t *w;
	struct nbits b;

	st = nbits_of(q, &b);
	if (st)
		return st;
	w = onnx_const(q->b, onnx_in(q, 1));
	if (!w)
		return op_err(q, RLX_ENOSUP, "B must be a constant");
	if (zeros)
		st = zeros_of(q, &b, &zp);
	if (st)
		return st;
	y = E(q, dequant_matmul, .x = onnx_in(q, 0), .w = weight_of(q, &b, w, zeros),
	      .scale = by_blocks(q, onnx_in(q, 2), &b), .zp = zp, .block = b.block, .n = b.n,
	      .scheme = b.bits == 8 ? zeros ? RLX_SCHEME_INT8_BLOCK_ASYM : RLX_SCHEME_INT8_BLOCK :
			zeros ? RLX_SCHEME_UINT4_BLOCK : RLX_SCHEME_INT4_BLOCK);
	onnx_out(q, 0, onnx_given(q, 5) ? E(q, add, .a = y, .b = onnx_in(q, 5)) : y);
	return RLX_OK;
}
