// SPDX-License-Identifier: MIT
/* Determinants of square matrices. */
#include "ops/emit.h"

/*
 * Shapes:	x[.., n, n] -> y[..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	the product of the pivots of a factorisation into triangles, rows swapped for the
 *		largest pivot. 0 as soon as a column has no pivot; of an empty matrix 1.
 * Gradient:	none yet: RLX_ENOSUP
 * Source:	ONNX Det-22; Golub and Van Loan, Matrix Computations
 */
RLX_OP(det, "determinant of the last two dimensions, by LU with partial pivoting",
	IN(x),
	RLX_T_REDUCTION)

static enum rlx_status det_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_float(q, 0, false);

	if (!st)
		st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	if (st)
		return st;
	if (x->dim[x->rank - 1] != x->dim[x->rank - 2])
		return op_fail(q, RLX_ESHAPE, "%lld x %lld is not square",
			       (long long)x->dim[x->rank - 2],
			       (long long)x->dim[x->rank - 1]);
	q->out[0].dtype = x->dtype;
	q->out[0].rank = x->rank - 2;
	memcpy(q->out[0].dim, x->dim, q->out[0].rank * sizeof(x->dim[0]));
	return RLX_OK;
}

static size_t det_scratch(const struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];

	return ((size_t)shape_span(x, x->rank - 2, x->rank) + 1) * sizeof(double);
}

static double one_det(double *m, int64_t n)
{
	double det = 1, f, t;
	int64_t i, j, k, p;

	for (k = 0; k < n; k++) {
		p = k;
		for (i = k + 1; i < n; i++)
			if (fabs(m[i * n + k]) > fabs(m[p * n + k]))
				p = i;
		if (m[p * n + k] == 0)
			return 0;
		for (j = 0; p != k && j < n; j++) {
			t = m[k * n + j];
			m[k * n + j] = m[p * n + j];
			m[p * n + j] = t;
		}
		det *= p != k ? -m[k * n + k] : m[k * n + k];
		for (i = k + 1; i < n; i++) {
			f = m[i * n + k] / m[k * n + k];
			for (j = k; j < n; j++)
				m[i * n + j] -= f * m[k * n + j];
		}
	}
	return det;
}

static enum rlx_status det_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t n = x->dim[x->rank - 1], count = rlx_type_count(&q->out[0].type), i, k;
	double *m = q->scratch;

	for (i = 0; i < count; i++) {
		for (k = 0; k < n * n; k++)
			m[k] = el_get(&q->in[0], i * n * n + k);
		el_set(&q->out[0], i, one_det(m, n));
	}
	return RLX_OK;
}

static bool det_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 5, 5 } }, { RLX_F32, 4, { 2, 3, 4, 4 } },
		{ RLX_F32, 2, { 1, 1 } }, { RLX_F32, 3, { 2, 0, 0 } },
		{ RLX_F32, 3, { 0, 3, 3 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 1e-4;
	s->grad_tol = -1;
	return true;
}

const struct rlx_op_impl rlx_op_det_impl = {
	.infer = det_infer, .scratch = det_scratch, .eval = det_eval,
	.sample = det_sample,
};
