// SPDX-License-Identifier: MIT
/* GEMM of 8-bit integers. */
#include <string.h>

#include "backends/common/gemm_batch.h"
#include "backends/common/lower.h"
#include "ir/element.h"
#include "kernels/cast.h"
#include "kernels/conv.h"
#include "kernels/move.h"

/* A scale or zero point: nothing, one constant, or an array of one a row or column. */
struct param {
	enum { ABSENT, NUMBER, KEPT, INPUT, TEMPORARY } kind;
	double		value;
	const void	*kept;
	uint32_t	tmp;
	uint32_t	input;
};

static struct rlx_tensor const_tensor(const struct rlx_lower *lo, uint32_t k)
{
	return (struct rlx_tensor){ .type = *rlx_lower_in(lo, k),
				    .data = (void *)rlx_lower_const(lo, k) };
}

static double first_of(const struct rlx_lower *lo, uint32_t k)
{
	struct rlx_tensor t = const_tensor(lo, k);

	return el_get(&t, 0);
}

/* Constant input @k is one number, however often. */
static bool all_one(const struct rlx_lower *lo, uint32_t k)
{
	int64_t n = rlx_type_count(rlx_lower_in(lo, k)), i;
	struct rlx_tensor t;

	if (!rlx_lower_const(lo, k) || !n)
		return false;
	t = const_tensor(lo, k);
	for (i = 1; i < n && el_get(&t, i) == el_get(&t, 0); i++)
		;
	return i == n;
}

/* One constant number: absent gives @absent. */
static bool take_number(const struct rlx_lower *lo, uint32_t k, double absent, double *out)
{
	*out = absent;
	if (!rlx_lower_in(lo, k))
		return true;
	if (!rlx_lower_const(lo, k) || rlx_type_count(rlx_lower_in(lo, k)) != 1)
		return false;
	*out = first_of(lo, k);
	return true;
}

/* Constant input @k as @n int32 or float that live with the code. */
static void *keep_array(struct rlx_lower *lo, uint32_t k, int64_t n, bool whole)
{
	struct rlx_tensor t = const_tensor(lo, k);
	bool single = rlx_type_count(&t.type) == 1;
	int32_t *at = rlx_lower_keep(lo, (size_t)n + 1, sizeof(*at));
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
static void spread(struct rlx_lower *lo, struct param *p, uint32_t k, bool from_tmp,
		   const int64_t shape[2])
{
	int64_t n = rlx_type_count(rlx_lower_in(lo, k));
	struct rlx_k_copy *c;
	uint32_t to;

	if (n == shape[0] * shape[1])
		return;
	to = rlx_lower_tmp(lo, (uint64_t)(shape[0] * shape[1]) * 4);
	c = rlx_lower_args(lo, sizeof(*c));
	c->rank = 2;
	c->dim[0] = shape[0];
	c->dim[1] = shape[1];
	c->src_stride[1] = n > 1;
	c->dst_stride[0] = shape[1];
	c->dst_stride[1] = 1;
	c->size = 4;
	rlx_k_copy_plan(c);
	if (from_tmp)
		rlx_lower_ref_tmp(lo, &c->src, p->tmp, 0);
	else
		rlx_lower_ref_in(lo, &c->src, k, 0);
	rlx_lower_ref_tmp(lo, &c->dst, to, 0);
	rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(c), 0, 0);
	*p = (struct param){ .kind = TEMPORARY, .tmp = to };
}

/*
 * Input @k, one number or shape[1] of them, repeated shape[0] times: bytes as int32
 * (@whole) or f32. What is not constant is converted at each run.
 */
static struct param take_param(struct rlx_lower *lo, uint32_t k, const int64_t shape[2],
			       bool whole)
{
	struct param p = { .kind = ABSENT };
	struct rlx_k_cast *c;
	int64_t n;

	if (!rlx_lower_in(lo, k))
		return p;
	n = rlx_type_count(rlx_lower_in(lo, k));
	if (all_one(lo, k)) {
		p.kind = NUMBER;
		p.value = first_of(lo, k);
	} else if (rlx_lower_const(lo, k) && shape[0] == 1) {
		p.kind = KEPT;
		p.kept = keep_array(lo, k, shape[1], whole);
	} else {
		p = (struct param){ .kind = INPUT, .input = k };
		if (whole) {
			p = (struct param){ .kind = TEMPORARY,
					    .tmp = rlx_lower_tmp(lo, (uint64_t)n * 4) };
			c = rlx_lower_args(lo, sizeof(*c));
			c->n = n;
			c->src_type = (uint8_t)rlx_lower_in(lo, k)->dtype;
			c->dst_type = RLX_I32;
			rlx_lower_ref_in(lo, &c->src, k, 0);
			rlx_lower_ref_tmp(lo, &c->dst, p.tmp, 0);
			rlx_lower_call(lo, RLX_KERNEL_cast, rlx_k_cast_units(c), 0, 0);
		}
		spread(lo, &p, k, whole, shape);
	}
	return p;
}

static void ref_param(struct rlx_lower *lo, void *field, const struct param *p, int64_t n)
{
	if (p->kind == KEPT)
		rlx_lower_ref_keep(lo, field, p->kept, (size_t)n * 4);
	else if (p->kind == INPUT)
		rlx_lower_ref_in(lo, field, p->input, 0);
	else if (p->kind == TEMPORARY)
		rlx_lower_ref_tmp(lo, field, p->tmp, 0);
}

enum { A_SCALE = 2, A_ZP, B_SCALE, B_ZP, Y_SCALE, Y_ZP, BIAS };

/* What the kernel cannot be told: found before anything is called. */
static bool qmatmul_supports(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q)
{
	const struct rlx_type *bias = rlx_lower_in(lo, BIAS), *y = rlx_lower_out(lo, 0);
	double y_scale, y_zp;
	uint32_t k;

	for (k = A_SCALE; k <= Y_SCALE; k += 2)
		if (rlx_lower_in(lo, k) && rlx_lower_in(lo, k)->dtype != RLX_F32)
			return false;
	if (bias && rlx_type_count(bias) != y->dim[y->rank - 1])
		return false;
	if (!take_number(lo, Y_SCALE, 1, &y_scale) || !take_number(lo, Y_ZP, 0, &y_zp))
		return false;
	q->requant = (float)(1 / y_scale);
	q->c_zero = (int32_t)y_zp;
	q->out = y->dtype == RLX_I32 ? RLX_I8_OUT_I32 : y->dtype == RLX_F32 ? RLX_I8_OUT_F32 :
		 y->dtype == RLX_U8 ? RLX_I8_OUT_U8 : RLX_I8_OUT_I8;
	q->a_signed = rlx_lower_in(lo, 0)->dtype == RLX_I8;
	q->b_signed = rlx_lower_in(lo, 1)->dtype == RLX_I8;
	return true;
}

/* Sizes; *out_reps: batches that count as rows. */
static enum rlx_status qmatmul_shape(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q,
				     int64_t *out_reps)
{
	const struct rlx_type *a = rlx_lower_in(lo, 0), *b = rlx_lower_in(lo, 1),
			      *y = rlx_lower_out(lo, 0);
	struct rlx_k_gemm *g = &q->g;
	bool flat = shape_span(b, 0, b->rank - 2) == 1;

	g->m = (size_t)y->dim[y->rank - 2];
	g->n = (size_t)y->dim[y->rank - 1];
	g->k = (size_t)a->dim[a->rank - 1];
	*out_reps = flat ? shape_span(y, 0, y->rank - 2) : 1;
	if (flat)
		g->m *= (size_t)*out_reps;
	else if (!batch_plan(g, a, b, y))
		return rlx_lower_unsupported(lo, "over two batch dimensions that do not collapse");
	if (!g->k || g->n > SIZE_MAX / 64 / (g->k + 4))
		return rlx_lower_unsupported(lo, "nothing to sum, or too large a right-hand side");
	g->lda = g->k;
	g->ldb = g->ldc = g->n;
	g->alpha = g->beta = 1;
	return RLX_OK;
}

enum rlx_status rlx_lower_qmatmul(struct rlx_lower *lo)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_gemm_i8 set = { 0 }, *q;
	struct param as, az, bs, bz;
	int64_t rows[2], cols[2];

	if (!qmatmul_supports(lo, &set))
		return rlx_lower_unsupported(
			lo, "no kernel for these dtypes, this bias or an output scale "
			    "known only at run time");
	if (rlx_lower_batches(lo) || qmatmul_shape(lo, &set, &rows[0]))
		return lo->status;
	rows[1] = y->dim[y->rank - 2];
	cols[0] = 1;
	cols[1] = y->dim[y->rank - 1];
	as = take_param(lo, A_SCALE, rows, false);
	az = take_param(lo, A_ZP, rows, true);
	bs = take_param(lo, B_SCALE, cols, false);
	bz = take_param(lo, B_ZP, cols, true);
	q = rlx_lower_args(lo, sizeof(*q));
	*q = set;
	q->a_zero = (int32_t)az.value;
	q->b_zero = (int32_t)bz.value;
	if (as.kind == NUMBER)
		q->g.alpha *= as.value;
	if (bs.kind == NUMBER)
		q->g.alpha *= bs.value;
	ref_param(lo, &q->row_scales, &as, rows[1]);
	ref_param(lo, &q->a_zeros, &az, rows[1]);
	ref_param(lo, &q->scales, &bs, cols[1]);
	ref_param(lo, &q->b_zeros, &bz, cols[1]);
	rlx_lower_ref_in(lo, &q->g.a, 0, 0);
	if (rlx_lower_in(lo, BIAS))
		rlx_lower_ref_in(lo, rlx_lower_in(lo, BIAS)->dtype == RLX_I32 ?
				 (void *)&q->ibias : (void *)&q->g.bias, BIAS, 0);
	rlx_lower_ref_out(lo, &q->g.c, 0, 0);
	return lo->ops->gemm_i8(lo, q);
}
