// SPDX-License-Identifier: MIT
/* Determinants of square matrices. */
#include "ops/batch.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., n, n] -> y[..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	the product of the pivots of a factorisation into triangles, rows swapped for the
 *		largest pivot. 0 as soon as a column has no pivot; of an empty matrix 1.
 * Gradient:	dx = dy times the matrix of cofactors: up to 8 x 8 by the determinants of minors,
 *		of singular matrices too; above by det(x) x'^-1, where those are RLX_ERANGE
 * Source:	ONNX Det-22; Golub and Van Loan, Matrix Computations
 */
RLX_OP(det, "determinant of the last two dimensions, by LU with partial pivoting",
	IN(x),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_STEEP)

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

/* Up to here n^2 determinants of n - 1 cost little, and need no inverse. */
enum { MOST_MINORS = 8 };

/* Of x[count, n, n]: the determinants of what is left without a row and a column, with signs. */
static rlx_value cofactors(struct rlx_graph *g, rlx_value x, int64_t n)
{
	int64_t rest[MOST_MINORS * (MOST_MINORS - 1) + 1], i, j, k = 0;
	double sign[MOST_MINORS * MOST_MINORS];
	rlx_value idx, signs;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++) {
			sign[i * n + j] = (i + j) % 2 ? -1 : 1;
			if (j != i)
				rest[k++] = j;
		}
	idx = op_reshape(g, op_i64_const(g, rest, k), (int64_t[]){ n, n - 1 }, 2);
	x = rlx_emit(g, gather, .x = x, .indices = idx, .axis = 2);
	x = rlx_emit(g, gather, .x = x, .indices = idx, .axis = 1);
	x = op_transpose(g, x, RLX_INTS(0, 1, 3, 2, 4));
	x = rlx_emit(g, det, .x = x);
	signs = op_cast(g, rlx_constant(g, rlx_type(RLX_F64, n, n), sign), op_type(g, x).dtype);
	return rlx_emit(g, mul, .a = x, .b = signs);
}

static enum rlx_status det_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]);
	int64_t n = t.dim[t.rank - 1], count = op_matrices(&t, 2);
	rlx_value x = op_cast(g, q->in[0], op_acc_type(t.dtype)), d;

	if (!n) {
		q->d_in[0] = op_zeros_like(g, q->in[0]);
		return op_done(g);
	}
	x = op_reshape(g, x, (int64_t[]){ count, n, n }, 3);
	d = op_reshape(g, op_cast(g, q->d_out[0], op_type(g, x).dtype),
		       (int64_t[]){ count, 1, 1 }, 3);
	if (n <= MOST_MINORS)
		x = cofactors(g, x, n);
	else
		x = rlx_emit(g, mul, .a = op_turned(g, rlx_emit(g, inverse, .x = x)),
			     .b = op_as_column(g, op_as_column(g, rlx_emit(g, det, .x = x))));
	d = op_reshape(g, rlx_emit(g, mul, .a = x, .b = d), t.dim, t.rank);
	q->d_in[0] = op_cast(g, d, t.dtype);
	return op_done(g);
}

static bool det_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 5, 5 } }, { RLX_F32, 4, { 2, 3, 4, 4 } },
		{ RLX_F32, 2, { 1, 1 } }, { RLX_F32, 3, { 2, 0, 0 } },
		{ RLX_F32, 3, { 0, 3, 3 } }, { RLX_F32, 3, { 2, 9, 9 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 1e-4;
	return true;
}

const struct rlx_op_impl rlx_op_det_impl = {
	.infer = det_infer, .scratch = det_scratch, .eval = det_eval,
	.vjp = det_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(det, det_sample)
