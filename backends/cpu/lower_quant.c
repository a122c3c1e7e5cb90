// SPDX-License-Identifier: MIT
/* Quantising and back, and products of 8-bit integers. */
#include "backends/cpu/batch.h"
#include "backends/cpu/cpu.h"
#include "ir/element.h"
#include "kernels/cast.h"
#include "kernels/conv.h"
#include "kernels/move.h"
#include "kernels/quant.h"

static bool is_real(const struct rlx_type *t)
{
	return t->dtype == RLX_F32 || t->dtype == RLX_BF16 || t->dtype == RLX_F16;
}

/* ---- quantize, dequantize, dynamic_quantize ---- */

/* Where the scale of each element lies: ops/quant.h says it of the op. */
static void take_layout(struct rlx_k_quant *a, const struct rlx_type *x,
			const struct rlx_type *scale, int32_t axis, int64_t block)
{
	uint32_t ax;

	a->outer = a->axis = a->block = 1;
	a->inner = rlx_type_count(x);
	if (scale->rank <= 1 && rlx_type_count(scale) == 1 && !block)
		return;
	ax = shape_axis(axis, x->rank);
	a->outer = shape_span(x, 0, ax);
	a->axis = x->dim[ax];
	a->inner = shape_span(x, ax + 1, x->rank);
	a->stride[1] = 1;
	if (block) {
		a->block = block;
		a->stride[0] = scale->dim[ax] * a->inner;
		a->stride[1] = a->inner;
		a->stride[2] = 1;
	}
}

static enum rlx_status call_quant(struct cpu_lower *lo, struct rlx_k_quant *a, rlx_k_fn *fn)
{
	const struct rlx_type *x = cpu_in(lo, 0);

	if (!rlx_type_count(x))
		return lo->status;
	a->x_type = (uint8_t)x->dtype;
	a->y_type = (uint8_t)cpu_out(lo, 0)->dtype;
	a->scale_type = (uint8_t)cpu_in(lo, 1)->dtype;
	cpu_ref_in(lo, &a->x, 0, 0);
	cpu_ref_in(lo, &a->scale, 1, 0);
	if (cpu_in(lo, 2))
		cpu_ref_in(lo, &a->zp, 2, 0);
	cpu_ref_out(lo, &a->y, 0, 0);
	return cpu_call(lo, fn, rlx_k_quant_units(a), (double)rlx_type_count(x) * 2, 0);
}

enum rlx_status cpu_lower_quantize(struct cpu_lower *lo)
{
	const struct rlx_op_quantize *q = lo->args;
	const struct rlx_type *y = cpu_out(lo, 0);
	struct rlx_k_quant *a = cpu_args(lo, sizeof(*a));

	/* f32 arithmetic holds all of the narrower integers */
	if (!is_real(cpu_in(lo, 0)) || !is_real(cpu_in(lo, 1)) || y->dtype == RLX_I32 ||
	    (rlx_dtype_is_float(y->dtype) && cpu_in(lo, 2)))
		return cpu_no(lo, "no kernel for these dtypes");
	take_layout(a, cpu_in(lo, 0), cpu_in(lo, 1), q->axis, q->block);
	return call_quant(lo, a, lo->k->quantize);
}

enum rlx_status cpu_lower_dequantize(struct cpu_lower *lo)
{
	const struct rlx_op_dequantize *q = lo->args;
	struct rlx_k_quant *a = cpu_args(lo, sizeof(*a));

	if (!cpu_takes_step(lo))
		return cpu_no(lo, "no kernel for these dtypes");
	take_layout(a, cpu_in(lo, 0), cpu_in(lo, 1), q->axis, q->block);
	return call_quant(lo, a, lo->k->dequantize);
}

enum rlx_status cpu_lower_dynamic_quantize(struct cpu_lower *lo)
{
	const struct rlx_type *x = cpu_in(lo, 0);
	int64_t n = rlx_type_count(x);
	int64_t pieces = (n + RLX_K_RANGE_UNIT - 1) / RLX_K_RANGE_UNIT;
	struct rlx_k_quant_range *r;
	struct rlx_k_quant_params *p;
	struct rlx_k_quant *a;
	uint64_t tmp;

	if (x->dtype != RLX_F32)
		return cpu_no(lo, "no kernel for this dtype");
	tmp = cpu_tmp(lo, (uint64_t)pieces * 2 * sizeof(float));
	r = cpu_args(lo, sizeof(*r));
	r->n = n;
	cpu_ref_in(lo, &r->x, 0, 0);
	cpu_ref_tmp(lo, &r->range, tmp);
	cpu_call(lo, lo->k->quant_range, (uint64_t)pieces, (double)n, 0);
	p = cpu_args(lo, sizeof(*p));
	p->pieces = pieces;
	cpu_ref_tmp(lo, &p->range, tmp);
	cpu_ref_out(lo, &p->scale, 1, 0);
	cpu_ref_out(lo, &p->zp, 2, 0);
	cpu_call(lo, lo->k->quant_params, 1, (double)pieces, 0);
	if (!n)
		return lo->status;
	a = cpu_args(lo, sizeof(*a));
	a->outer = a->axis = a->block = 1;
	a->inner = n;
	a->x_type = a->scale_type = RLX_K_F32;
	a->y_type = RLX_K_U8;
	cpu_ref_in(lo, &a->x, 0, 0);
	cpu_ref_out(lo, &a->scale, 1, 0);
	cpu_ref_out(lo, &a->zp, 2, 0);
	cpu_ref_out(lo, &a->y, 0, 0);
	return cpu_call(lo, lo->k->quantize, rlx_k_quant_units(a), (double)n * 2, 0);
}

/* ---- qmatmul ---- */

/* A scale or zero point: nothing, one constant, or an array of one a row or column. */
struct param {
	enum { ABSENT, NUMBER, KEPT, INPUT, TEMPORARY } kind;
	double		value;
	const void	*kept;
	uint64_t	tmp;
	uint32_t	input;
};

static struct rlx_tensor const_tensor(const struct cpu_lower *lo, uint32_t k)
{
	return (struct rlx_tensor){ .type = *cpu_in(lo, k), .data = (void *)cpu_const(lo, k) };
}

static double first_of(const struct cpu_lower *lo, uint32_t k)
{
	struct rlx_tensor t = const_tensor(lo, k);

	return el_get(&t, 0);
}

/* Constant input @k is one number, however often. */
static bool all_one(const struct cpu_lower *lo, uint32_t k)
{
	int64_t n = rlx_type_count(cpu_in(lo, k)), i;
	struct rlx_tensor t;

	if (!cpu_const(lo, k) || !n)
		return false;
	t = const_tensor(lo, k);
	for (i = 1; i < n && el_get(&t, i) == el_get(&t, 0); i++)
		;
	return i == n;
}

/* One constant number: absent gives @absent. */
static bool take_number(const struct cpu_lower *lo, uint32_t k, double absent, double *out)
{
	*out = absent;
	if (!cpu_in(lo, k))
		return true;
	if (!cpu_const(lo, k) || rlx_type_count(cpu_in(lo, k)) != 1)
		return false;
	*out = first_of(lo, k);
	return true;
}

/* Constant input @k as @n int32 or float that live with the code. */
static void *keep_array(struct cpu_lower *lo, uint32_t k, int64_t n, bool whole)
{
	struct rlx_tensor t = const_tensor(lo, k);
	bool single = rlx_type_count(&t.type) == 1;
	int32_t *at = cpu_keep(lo, (size_t)n + 1, sizeof(*at));
	float *f = (float *)(void *)at;
	int64_t i;

	for (i = 0; at && i < n; i++)
		if (whole)
			at[i] = (int32_t)el_geti(&t, single ? 0 : i);
		else
			f[i] = (float)el_get(&t, single ? 0 : i);
	return at;
}

/* @n values of temporary or input @k of @type, repeated to fill [reps, rows]. */
static void spread(struct cpu_lower *lo, struct param *p, uint32_t k, bool from_tmp,
		   const int64_t shape[2])
{
	int64_t n = rlx_type_count(cpu_in(lo, k));
	struct rlx_k_copy *c;
	uint64_t to;

	if (n == shape[0] * shape[1])
		return;
	to = cpu_tmp(lo, (uint64_t)(shape[0] * shape[1]) * 4);
	c = cpu_args(lo, sizeof(*c));
	c->rank = 2;
	c->dim[0] = shape[0];
	c->dim[1] = shape[1];
	c->src_stride[1] = n > 1;
	c->dst_stride[0] = shape[1];
	c->dst_stride[1] = 1;
	c->size = 4;
	rlx_k_copy_plan(c);
	if (from_tmp)
		cpu_ref_tmp(lo, &c->src, p->tmp);
	else
		cpu_ref_in(lo, &c->src, k, 0);
	cpu_ref_tmp(lo, &c->dst, to);
	cpu_call(lo, lo->k->copy, rlx_k_copy_units(c), 0, 0);
	*p = (struct param){ .kind = TEMPORARY, .tmp = to };
}

/*
 * Input @k, one number or shape[1] of them, repeated shape[0] times: bytes as int32
 * (@whole) or f32. What is not constant is converted at each run.
 */
static struct param take_param(struct cpu_lower *lo, uint32_t k, const int64_t shape[2],
			       bool whole)
{
	struct param p = { .kind = ABSENT };
	struct rlx_k_cast *c;
	int64_t n;

	if (!cpu_in(lo, k))
		return p;
	n = rlx_type_count(cpu_in(lo, k));
	if (all_one(lo, k)) {
		p.kind = NUMBER;
		p.value = first_of(lo, k);
	} else if (cpu_const(lo, k) && shape[0] == 1) {
		p.kind = KEPT;
		p.kept = keep_array(lo, k, shape[1], whole);
	} else {
		p = (struct param){ .kind = INPUT, .input = k };
		if (whole) {
			p = (struct param){ .kind = TEMPORARY,
					    .tmp = cpu_tmp(lo, (uint64_t)n * 4) };
			c = cpu_args(lo, sizeof(*c));
			c->n = n;
			c->src_type = (uint8_t)cpu_in(lo, k)->dtype;
			c->dst_type = RLX_K_I32;
			cpu_ref_in(lo, &c->src, k, 0);
			cpu_ref_tmp(lo, &c->dst, p.tmp);
			cpu_call(lo, lo->k->cast, rlx_k_cast_units(c), 0, 0);
		}
		spread(lo, &p, k, whole, shape);
	}
	return p;
}

static void ref_param(struct cpu_lower *lo, void *field, const struct param *p)
{
	if (p->kind == KEPT)
		memcpy(field, &p->kept, sizeof(p->kept));
	else if (p->kind == INPUT)
		cpu_ref_in(lo, field, p->input, 0);
	else if (p->kind == TEMPORARY)
		cpu_ref_tmp(lo, field, p->tmp);
}

enum { A_SCALE = 2, A_ZP, B_SCALE, B_ZP, Y_SCALE, Y_ZP, BIAS };

/* What the kernel cannot be told: found before anything is called. */
static bool qmatmul_takes(struct cpu_lower *lo, struct rlx_k_gemm_i8 *q)
{
	const struct rlx_type *bias = cpu_in(lo, BIAS), *y = cpu_out(lo, 0);
	double y_scale, y_zp;
	uint32_t k;

	for (k = A_SCALE; k <= Y_SCALE; k += 2)
		if (cpu_in(lo, k) && cpu_in(lo, k)->dtype != RLX_F32)
			return false;
	if (bias && rlx_type_count(bias) != y->dim[y->rank - 1])
		return false;
	if (!take_number(lo, Y_SCALE, 1, &y_scale) || !take_number(lo, Y_ZP, 0, &y_zp))
		return false;
	q->requant = (float)(1 / y_scale);
	q->c_zero = (int32_t)y_zp;
	q->out = y->dtype == RLX_I32 ? RLX_I8_OUT_I32 : y->dtype == RLX_F32 ? RLX_I8_OUT_F32 :
		 y->dtype == RLX_U8 ? RLX_I8_OUT_U8 : RLX_I8_OUT_I8;
	q->a_signed = cpu_in(lo, 0)->dtype == RLX_I8;
	q->b_signed = cpu_in(lo, 1)->dtype == RLX_I8;
	return true;
}

static enum rlx_status pack_bytes(struct cpu_lower *lo, struct rlx_k_gemm_i8 *q)
{
	const int64_t key[4] = { (int64_t)q->g.n, (int64_t)q->g.k, lo->dev->isa, q->b_signed };
	struct rlx_k_gemm_i8_pack pack = {
		.k = q->g.k, .n = q->g.n, .b = cpu_const(lo, 1), .ldb = q->g.n,
		.b_signed = q->b_signed,
	};
	bool is_new;

	pack.dst = cpu_prepare(lo, 1, "gemm_i8", key,
			       rlx_k_gemm_i8_pack_size(q->g.n, q->g.k, lo->dev->isa) + 64,
			       &is_new);
	if (pack.dst && is_new)
		lo->k->gemm_i8_pack(&pack, 0, rlx_k_gemm_panels(q->g.n, lo->dev->isa), NULL);
	q->g.b = pack.dst;
	q->g.b_form = RLX_B_PACKED;
	return lo->status;
}

/* Sizes and the right-hand side; *out_reps: batches that count as rows. */
static enum rlx_status qmatmul_shape(struct cpu_lower *lo, struct rlx_k_gemm_i8 *q,
				     int64_t *out_reps)
{
	const struct rlx_type *a = cpu_in(lo, 0), *b = cpu_in(lo, 1), *y = cpu_out(lo, 0);
	struct rlx_k_gemm *g = &q->g;
	bool flat = shape_span(b, 0, b->rank - 2) == 1;

	g->m = (size_t)y->dim[y->rank - 2];
	g->n = (size_t)y->dim[y->rank - 1];
	g->k = (size_t)a->dim[a->rank - 1];
	*out_reps = flat ? shape_span(y, 0, y->rank - 2) : 1;
	if (flat)
		g->m *= (size_t)*out_reps;
	else if (!batch_plan(g, a, b, y))
		return cpu_no(lo, "over two batch dimensions that do not collapse");
	if (!g->k || g->n > SIZE_MAX / 64 / (g->k + 4))
		return cpu_no(lo, "nothing to sum, or too large a right-hand side");
	g->lda = g->k;
	g->ldb = g->ldc = g->n;
	g->alpha = g->beta = 1;
	return cpu_const(lo, 1) && flat ? pack_bytes(lo, q) : RLX_OK;
}

enum rlx_status cpu_lower_qmatmul(struct cpu_lower *lo)
{
	const struct rlx_type *y = cpu_out(lo, 0);
	struct rlx_k_gemm_i8 set = { 0 }, *q;
	struct param as, az, bs, bz;
	int64_t rows[2], cols[2];

	if (!rlx_type_count(y))
		return lo->status;
	if (!qmatmul_takes(lo, &set))
		return cpu_no(lo, "no kernel for these dtypes, this bias or an output scale "
				  "known only at run time");
	if (qmatmul_shape(lo, &set, &rows[0]))
		return lo->status;
	rows[1] = y->dim[y->rank - 2];
	cols[0] = 1;
	cols[1] = y->dim[y->rank - 1];
	as = take_param(lo, A_SCALE, rows, false);
	az = take_param(lo, A_ZP, rows, true);
	bs = take_param(lo, B_SCALE, cols, false);
	bz = take_param(lo, B_ZP, cols, true);
	q = cpu_args(lo, sizeof(*q));
	*q = set;
	q->a_zero = (int32_t)az.value;
	q->b_zero = (int32_t)bz.value;
	if (as.kind == NUMBER)
		q->g.alpha *= as.value;
	if (bs.kind == NUMBER)
		q->g.alpha *= bs.value;
	ref_param(lo, &q->row_scales, &as);
	ref_param(lo, &q->a_zeros, &az);
	ref_param(lo, &q->scales, &bs);
	ref_param(lo, &q->b_zeros, &bz);
	cpu_ref_in(lo, &q->g.a, 0, 0);
	if (q->g.b_form != RLX_B_PACKED)
		cpu_ref_in(lo, &q->g.b, 1, 0);
	if (cpu_in(lo, BIAS))
		cpu_ref_in(lo, cpu_in(lo, BIAS)->dtype == RLX_I32 ?
			   (void *)&q->ibias : (void *)&q->g.bias, BIAS, 0);
	cpu_ref_out(lo, &q->g.c, 0, 0);
	return cpu_call(lo, lo->k->gemm_i8, rlx_k_gemm_units(&q->g, lo->dev->isa),
			(double)q->g.m * (double)q->g.n * (double)(q->g.k + 1) *
			(double)rlx_k_gemm_batches(&q->g) / 8,
			rlx_k_gemm_scratch(&q->g, lo->dev->isa));
}
