// SPDX-License-Identifier: MIT
/* A matrix product whose weight is stored in few bits. */
#include "ir/match.h"
#include "ops/blocks.h"
#include "ops/emit.h"

/*
 * Shapes:	x[.., k], w of as many bytes as k n elements take, scale and zp[ceil(k / block),
 *		n] -> y[.., n]; f8: scale of n elements or one; Q4_0 to NVFP4: neither, and k a
 *		multiple of the 32, 64 or 256 elements of their blocks
 * Dtypes:	x: f64 f32 f16 bf16; w: u8, or the scheme's f8; scale: f64 f32 f16 bf16; zp: these
 *		and integers; y as x
 * Does:	x W with W[i][j] = (q[i n + j] - zp) scale, by the scale of block i / block and
 *		column j; block 0 (if not given) is all of k. scheme RLX_SCHEME_INT8_BLOCK (if not
 *		given): q is i8, no zp; INT8_BLOCK_ASYM: i8; INT4_BLOCK: -8 to 7 and UINT4_BLOCK:
 *		0 to 15, element e in byte e / 2, the even ones low; F8E4M3 and F8E5M2: a scale of
 *		columns, of all, or none, and no zp. zp is 0 if not given; the other schemes need
 *		a scale, but for Q4_0 to NVFP4: there w has rows of blocks, column j of W being
 *		row j as dequantize_packed gives it.
 * Gradient:	by dequantisation and matmul: to x, scale, a zp of floats and a w of f8
 * Source:	Frantar et al. 2022 (blocks of k), Micikevicius et al. 2022 (f8), GGUF (Q4_0 to
 *		NVFP4)
 */
RLX_OP(dequant_matmul, "x[.., k] times a packed weight [k, n]: (q - zp) scale in blocks of k",
	IN(x) IN(w) OPT(scale) OPT(zp)
	ATTR(i32, scheme)
	ATTR(i64, block)
	REQ(i64, n, "the number of columns of the weight"),
	RLX_T_COMPUTE | RLX_T_STEEP)

static bool is_f8(int scheme)
{
	return scheme == RLX_SCHEME_F8E4M3 || scheme == RLX_SCHEME_F8E5M2;
}

/* What a weight of the scheme may be of instead of u8. */
static enum rlx_dtype f8_of(int scheme)
{
	return scheme == RLX_SCHEME_F8E4M3 ? RLX_F8E4M3 :
	       scheme == RLX_SCHEME_F8E5M2 ? RLX_F8E5M2 : RLX_U8;
}

static bool is_4bit(int scheme)
{
	return scheme == RLX_SCHEME_INT4_BLOCK || scheme == RLX_SCHEME_UINT4_BLOCK;
}

/*
 * Scales of the block schemes are [ceil(k / block), n], block 0 meaning k; the f8
 * schemes have one scale for each column, or one, or none. Zero points are like
 * scales; the symmetric int8 scheme has none.
 */
static enum rlx_status check_scales(struct rlx_infer *q, int64_t k, int64_t n)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	int64_t block = a->block ? a->block : k, rows = k ? (k - 1) / block + 1 : 0;
	const struct rlx_type *s = q->in[2], *zp = q->in[3];

	if (rlx_block_elements(a->scheme))
		return s || zp || a->block ? op_fail(q, RLX_EINVAL, "this scheme has its scales "
						     "in its blocks: scale, zp and block are not "
						     "for it") : RLX_OK;
	if (zp && (is_f8(a->scheme) || a->scheme == RLX_SCHEME_INT8_BLOCK))
		return op_fail(q, RLX_EINVAL, "this scheme has no zero points");
	if (is_f8(a->scheme)) {
		if (s && (s->rank > 1 || (rlx_type_count(s) != 1 &&
					  rlx_type_count(s) != n)))
			return op_fail(q, RLX_ESHAPE, "the scale must have 1 or %lld elements",
				       (long long)n);
		return RLX_OK;
	}
	if (!s)
		return op_fail(q, RLX_EINVAL, "the scale is missing");
	if (s->rank != 2 || s->dim[0] != rows || s->dim[1] != n)
		return op_fail(q, RLX_ESHAPE, "the scale must be [%lld, %lld]",
			       (long long)rows, (long long)n);
	if (zp && (zp->rank != 2 || zp->dim[0] != rows || zp->dim[1] != n))
		return op_fail(q, RLX_ESHAPE, "the zero point must be [%lld, %lld]",
			       (long long)rows, (long long)n);
	return RLX_OK;
}

static enum rlx_status dequant_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1];
	enum rlx_status st = op_need_enum(q, "scheme", a->scheme, RLX_SCHEME_COUNT);
	int64_t k, count;

	st = st ? st : op_need_float(q, 0, false);
	st = st ? st : op_need_rank(q, 0, 2, RLX_MAX_RANK);
	if (!st && q->in[2])
		st = op_need_float(q, 2, false);
	if (!st && q->in[3])
		st = op_need_number(q, 3);
	if (st)
		return st;
	if (w->dtype != RLX_U8 && w->dtype != f8_of(a->scheme))
		return op_fail(q, RLX_ETYPE, "the packed weight is %s, u8 is needed",
			       rlx_dtype_name(w->dtype));
	k = x->dim[x->rank - 1];
	if (a->n < 0 || a->block < 0 || __builtin_mul_overflow(k, a->n, &count))
		return op_fail(q, RLX_EINVAL, "n is %lld, block %lld", (long long)a->n,
			       (long long)a->block);
	if (is_4bit(a->scheme))
		count = count / 2 + count % 2;
	if (rlx_block_elements(a->scheme)) {
		if (k % rlx_block_elements(a->scheme))
			return op_fail(q, RLX_ESHAPE, "k is %lld, no multiple of the scheme's %d",
				       (long long)k, rlx_block_elements(a->scheme));
		count = count / rlx_block_elements(a->scheme) * rlx_block_bytes(a->scheme);
	}
	if (rlx_type_count(w) != count)
		return op_fail(q, RLX_ESHAPE, "the packed weight has %lld bytes, %lld are needed",
			       (long long)rlx_type_count(w), (long long)count);
	q->out[0] = *x;
	q->out[0].dim[x->rank - 1] = a->n;
	return check_scales(q, k, a->n);
}

/* Element @e of the stored weight, before scale and zero point. */
static double stored(const struct rlx_op_dequant_matmul *a, const struct rlx_tensor *w,
		     int64_t e)
{
	const uint8_t *p = w->data;
	unsigned int v;

	switch (a->scheme) {
	case RLX_SCHEME_INT4_BLOCK:
	case RLX_SCHEME_UINT4_BLOCK:
		v = p[e / 2] >> (e % 2 * 4) & 15;
		return a->scheme == RLX_SCHEME_INT4_BLOCK && v > 7 ? (double)v - 16 : v;
	case RLX_SCHEME_F8E4M3: return rlx_minifloat_to(RLX_MF_F8E4M3, p[e]);
	case RLX_SCHEME_F8E5M2: return rlx_minifloat_to(RLX_MF_F8E5M2, p[e]);
	default: return (int8_t)p[e];
	}
}

static double weight_at(const struct rlx_eval *q, int64_t row, int64_t col, int64_t k)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	int64_t at = row / (a->block ? a->block : k) * a->n + col;
	double v;

	if (rlx_block_elements(a->scheme))
		return op_block_element(a->scheme, q->in[1].data, col * k + row);
	v = stored(a, &q->in[1], row * a->n + col);
	if (op_has(&q->in[3]))
		v -= el_get(&q->in[3], at);
	if (is_f8(a->scheme))
		at = op_has(&q->in[2]) && rlx_type_count(&q->in[2].type) == 1 ? 0 : col;
	return op_has(&q->in[2]) ? v * el_get(&q->in[2], at) : v;
}

static enum rlx_status dequant_matmul_eval(struct rlx_eval *q)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	int64_t k = x->dim[x->rank - 1], m = shape_span(x, 0, x->rank - 1), i, j, p;
	double sum;

	for (i = 0; i < m; i++)
		for (j = 0; j < a->n; j++) {
			sum = 0;
			for (p = 0; p < k; p++)
				sum += el_get(&q->in[0], i * k + p) * weight_at(q, p, j, k);
			el_set(&q->out[0], i * a->n + j, sum);
		}
	return RLX_OK;
}

/* ---- the weight in simpler ops ---- */

/* What each of the 256 bytes stands for. */
static rlx_value f8_table(struct rlx_graph *g, int scheme)
{
	float table[256];
	int i;

	for (i = 0; i < 256; i++)
		table[i] = (float)rlx_minifloat_to(scheme == RLX_SCHEME_F8E4M3 ?
						   RLX_MF_F8E4M3 : RLX_MF_F8E5M2,
						   (uint32_t)i);
	return rlx_constant(g, rlx_type(RLX_F32, 256), table);
}

static rlx_value unpack4(struct rlx_graph *g, rlx_value w, int64_t count, bool sgn)
{
	int64_t bytes = count / 2 + count % 2;
	rlx_value lo, hi, v;

	lo = rlx_emit(g, bit_and, .a = w, .b = rlx_scalar_const(g, RLX_U8, 15));
	hi = rlx_emit(g, shr, .a = w, .b = rlx_scalar_const(g, RLX_U8, 4));
	lo = op_reshape(g, lo, (int64_t[]){ bytes, 1 }, 2);
	hi = op_reshape(g, hi, (int64_t[]){ bytes, 1 }, 2);
	v = rlx_emit(g, concat, .axis = 1, .xs = RLX_VALUES(lo, hi));
	v = op_reshape(g, v, (int64_t[]){ 2 * bytes }, 1);
	v = rlx_emit(g, slice, .x = v, .starts = RLX_INTS(0), .ends = RLX_INTS(count));
	v = op_cast(g, v, RLX_I32);
	if (!sgn)
		return v;
	/* 8..15 are -8..-1: add 8, keep four bits, take 8 away */
	v = op_add_const(g, v, 8);
	v = rlx_emit(g, bit_and, .a = v, .b = rlx_scalar_const(g, RLX_I32, 15));
	return op_add_const(g, v, -8);
}

/* [rows, n] repeated over its blocks: [k, n]. */
static rlx_value spread(struct rlx_expand *q, rlx_value s, int64_t k)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	struct rlx_type t = op_type(q->g, s);
	int64_t block = a->block && a->block < k ? a->block : k;

	if (is_f8(a->scheme))
		return rlx_type_count(&t) == 1 ? op_reshape(q->g, s, NULL, 0) :
		       op_reshape(q->g, s, &a->n, 1);
	s = op_reshape(q->g, s, (int64_t[]){ t.dim[0], 1, a->n }, 3);
	s = rlx_emit(q->g, expand, .x = s, .shape = RLX_INTS(t.dim[0], block, a->n));
	s = op_reshape(q->g, s, (int64_t[]){ t.dim[0] * block, a->n }, 2);
	return rlx_emit(q->g, slice, .x = s, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
			.ends = RLX_INTS(k));
}

/* Rows of blocks as floats, and turned. */
static enum rlx_status expand_blocks(struct rlx_expand *q)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type x = op_type(g, q->in[0]);
	enum rlx_dtype acc = op_acc_type(x.dtype);
	int64_t k = x.dim[x.rank - 1], e = rlx_block_elements(a->scheme);
	const int64_t rows[2] = { a->n, k / e * rlx_block_bytes(a->scheme) };
	rlx_value w = rlx_emit(g, dequantize_packed, .x = op_reshape(g, q->in[1], rows, 2),
			       .scheme = a->scheme);

	w = rlx_emit(g, matmul, .a = op_cast(g, q->in[0], acc),
		     .b = op_swap_last(g, op_cast(g, w, acc)));
	q->out[0] = op_cast(g, w, x.dtype);
	return op_done(g);
}

static enum rlx_status dequant_matmul_expand(struct rlx_expand *q)
{
	const struct rlx_op_dequant_matmul *a = q->args;
	struct rlx_graph *g = q->g;
	struct rlx_type x = op_type(g, q->in[0]), w = op_type(g, q->in[1]);
	enum rlx_dtype acc = op_acc_type(x.dtype);
	int64_t k = x.dim[x.rank - 1], bytes = rlx_type_count(&w);
	rlx_value v;

	if (rlx_block_elements(a->scheme))
		return expand_blocks(q);
	v = op_reshape(g, q->in[1], &bytes, 1);
	if (is_4bit(a->scheme))
		v = unpack4(g, v, k * a->n, a->scheme == RLX_SCHEME_INT4_BLOCK);
	else if (is_f8(a->scheme) && w.dtype == RLX_U8)
		v = rlx_emit(g, gather, .x = f8_table(g, a->scheme),
			     .indices = op_cast(g, v, RLX_I32));
	else if (!is_f8(a->scheme))
		v = op_cast(g, v, RLX_I8);	/* wraps: the same bits */
	v = op_reshape(g, op_cast(g, v, acc), (int64_t[]){ k, a->n }, 2);
	if (q->in[3].id)
		v = rlx_emit(g, sub, .a = v, .b = spread(q, op_cast(g, q->in[3], acc), k));
	if (q->in[2].id)
		v = rlx_emit(g, mul, .a = v, .b = spread(q, op_cast(g, q->in[2], acc), k));
	v = rlx_emit(g, matmul, .a = op_cast(g, q->in[0], acc), .b = v);
	q->out[0] = op_cast(g, v, x.dtype);
	return op_done(g);
}

static void dequant_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)q->in[0]->dim[q->in[0]->rank - 1];
}

static bool sample_blocks(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_dequant_matmul *a = s->args;
	int64_t k;

	a->scheme = (int32_t)(RLX_SCHEME_Q4_0 + i);
	if (a->scheme == RLX_SCHEME_COUNT)
		return false;
	a->n = 3;
	k = 2 * rlx_block_elements(a->scheme);
	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, 2, k);
	s->in[1] = rlx_type(RLX_U8, a->n * 2 * rlx_block_bytes(a->scheme));
	op_sample_block_product(s, a->scheme);
	s->tol = 1e-5;
	s->grad_tol = -1;
	return true;
}

static bool dequant_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_dequant_matmul *a = s->args;
	int64_t k = 21, n = 5, rows;

	if (i > 10)
		return sample_blocks(i - 11, s);
	s->n_in = 4;
	s->tol = 1e-5;
	a->scheme = (int32_t)(i % 6);
	a->block = i < 6 ? 8 : i == 7 ? 100 : 0;
	a->n = n;
	k = i == 9 ? 0 : k;
	rows = !k ? 0 : a->block ? (k - 1) / a->block + 1 : 1;
	s->in[0] = i == 6 ? rlx_type(RLX_F32, 2, 3, k) : rlx_type(RLX_F32, 3, k);
	s->in[1] = rlx_type(RLX_U8, is_4bit(a->scheme) ? (k * n + 1) / 2 : k * n);
	s->hi[1] = is_f8(a->scheme) ? 100 : 255;	/* f8: no infinities */
	if (is_f8(a->scheme)) {
		s->in[2] = i == 4 ? rlx_type(RLX_F32, n) : rlx_type(RLX_F32, 1);
	} else {
		s->in[2] = rlx_type(RLX_F32, rows, n);
		if (a->scheme != RLX_SCHEME_INT8_BLOCK)
			s->in[3] = rlx_type(i & 1 ? RLX_F32 : RLX_U8, rows, n);
	}
	if (i == 10) {		/* 16 bits by 8 */
		s->in[0].dtype = RLX_BF16;
		s->in[1].dtype = f8_of(a->scheme);
		s->hi[1] = 9;
		s->tol = 1e-2;
		s->grad_tol = -1;
	}
	s->lo[2] = 0.01;
	s->hi[2] = 0.1;
	s->hi[3] = 9;
	return true;
}

/* By f16 and bf16 the weight stays as it is; f32 wants all of it in f32, once and for all. */
static bool dequant_matmul_accept(struct rlx_match *m, void *args)
{
	const struct rlx_op_dequantize *d = rlx_match_node(m, "d")->args;
	const struct rlx_type *x = rlx_match_type(m, "x"), *w = rlx_match_type(m, "w");
	struct rlx_op_dequant_matmul *a = args;
	double zp = 0;

	a->x = rlx_match_value(m, "x");
	a->w = rlx_match_value(m, "w");
	a->scale = rlx_match_value(m, "s");
	a->scheme = w->dtype == RLX_F8E4M3 ? RLX_SCHEME_F8E4M3 : RLX_SCHEME_F8E5M2;
	a->n = w->dim[1];
	if (rlx_match_value(m, "z").id && !rlx_match_scalar(m, "z", &zp))
		return false;
	return w->dtype == f8_of(a->scheme) && w->rank == 2 && rlx_dtype_size(x->dtype) == 2 &&
	       !d->block && zp == 0 && (rlx_type_count(rlx_match_type(m, "s")) == 1 ||
					d->axis == 1 || d->axis == -1);
}

static const struct rlx_pattern dequant_matmul_patterns[] = {
	{ "matmul(x, d:dequantize(w, s))", dequant_matmul_accept },
	{ "matmul(x, d:dequantize(w, s, z))", dequant_matmul_accept },
	{ NULL, NULL },
};

const struct rlx_op_impl rlx_op_dequant_matmul_impl = {
	.pattern = dequant_matmul_patterns,
	.infer = dequant_matmul_infer, .eval = dequant_matmul_eval,
	.expand = dequant_matmul_expand, .cost = dequant_matmul_cost,
};
RLX_SAMPLES(dequant_matmul, dequant_matmul_sample)
