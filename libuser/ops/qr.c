// SPDX-License-Identifier: MIT
/* Orthonormal columns and a triangle of matrices. */
#include "ops/batch.h"
#include "ops/doubles.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., m, n] -> q[.., m, k], r[.., k, n] with k the smaller of m and n
 * Dtypes:	f64 f32 f16 bf16; both as x
 * Does:	x = q r, columns of q orthonormal, r upper triangular with no negative number on its
 *		diagonal, which makes them unique where x has full rank. By Householder reflections.
 *		NaN and infinities in a matrix give NaN, but 0 below r's diagonal.
 * Gradient:	where m is at least n: dx = (dq + q S(r dr' - dq' q)) r'^-1, where S makes the lower
 *		triangle symmetric; else so of the first m columns, and through q' x of the others
 * Source:	numpy.linalg.qr; Golub and Van Loan, Matrix Computations; Walter and Lehmann 2013
 */
RLX_OP(qr, "orthonormal q and upper triangular r of x = q r",
	IN(x),
	RLX_T_REDUCTION | RLX_T_FACTORS | RLX_T_TIES)

static enum rlx_status qr_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_matrix(q, 0, false);
	int64_t m, n;

	if (st)
		return st;
	m = x->dim[x->rank - 2];
	n = x->dim[x->rank - 1];
	q->n_out = 2;
	q->out[0] = q->out[1] = *x;
	q->out[0].dim[x->rank - 1] = q->out[1].dim[x->rank - 2] = m < n ? m : n;
	return RLX_OK;
}

/* x, q' and a normal: x of few columns may have so many rows that q' has too many elements. */
static size_t qr_scratch(const struct rlx_infer *q)
{
	int64_t m = q->in[0]->dim[q->in[0]->rank - 2], n = q->in[0]->dim[q->in[0]->rank - 1];

	return op_doubles(m, n + m + 1, 1);
}

/* The reflection of column @k of x[m][n], and of all columns of q'[m][m]; v[m] is its normal. */
static void reflect(double *x, int64_t m, int64_t n, double *qt, double *v, int64_t k)
{
	double norm = 0, all = 0, s;
	int64_t i, j;

	for (i = k; i < m; i++) {
		v[i] = x[i * n + k];
		norm += v[i] * v[i];
	}
	v[k] += v[k] < 0 ? -sqrt(norm) : sqrt(norm);
	for (i = k; i < m; i++)
		all += v[i] * v[i];
	if (all == 0)
		return;
	for (j = 0; j < n + m; j++) {
		double *at = j < n ? x + j : qt + j - n;
		int64_t step = j < n ? n : m;

		for (s = 0, i = k; i < m; i++)
			s += v[i] * at[i * step];
		for (i = k; i < m; i++)
			at[i * step] -= 2 * s / all * v[i];
	}
}

static enum rlx_status qr_eval(struct rlx_eval *q)
{
	const struct rlx_type *t = &q->in[0].type;
	int64_t m = t->dim[t->rank - 2], n = t->dim[t->rank - 1], k = m < n ? m : n, c, i, j;
	double *x = q->scratch, *qt = x + m * n, *v = qt + m * m, sign;
	int by = 0;

	for (c = 0; c < op_matrices(t, 2); c++) {
		for (i = 0; i < m * n; i++)
			x[i] = el_get(&q->in[0], c * m * n + i);
		for (i = 0; i < m * m; i++)
			qt[i] = i / m == i % m;
		if (op_scale(x, m * n, &by))
			for (i = 0; i < k; i++)
				reflect(x, m, n, qt, v, i);
		else
			for (i = 0; i < m * n + m * m; i++)
				x[i] = NAN;	/* qt is behind it */
		for (i = 0; i < k; i++) {
			sign = x[i * n + i] < 0 ? -1 : 1;
			for (j = 0; j < n; j++)
				el_set(&q->out[1], (c * k + i) * n + j,
				       j < i ? 0 : ldexp(sign * x[i * n + j], by));
			for (j = 0; j < m; j++)
				el_set(&q->out[0], (c * m + j) * k + i, sign * qt[i * m + j]);
		}
	}
	return RLX_OK;
}

/* Columns [from, to) of the last dimension */
static rlx_value columns(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(-1), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

/* dx of x = q r with square r; @dr may be none */
static rlx_value square_grad(struct rlx_graph *g, rlx_value q, rlx_value r, rlx_value dq,
			     rlx_value dr)
{
	rlx_value s = rlx_emit(g, neg, .x = op_product(g, op_turned(g, dq), q)), low, d;

	if (dr.id)
		s = rlx_emit(g, add, .a = s, .b = op_product(g, r, op_turned(g, dr)));
	low = rlx_emit(g, trilu, .x = s, .k = -1);
	s = rlx_emit(g, add, .a = rlx_emit(g, trilu, .x = s), .b = op_turned(g, low));
	d = rlx_emit(g, add, .a = dq, .b = op_product(g, q, s));
	/* d r'^-1 is the transpose of r^-1 d' */
	d = rlx_emit(g, triangular_solve, .a = r, .b = op_turned(g, d), .upper = true);
	return op_turned(g, d);
}

static enum rlx_status qr_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]);
	int64_t m = t.dim[t.rank - 2], n = t.dim[t.rank - 1];
	rlx_value Q = q->out[0], R = q->out[1], dr = q->d_out[1], rest, dx;
	rlx_value dq = q->d_out[0].id ? q->d_out[0] : op_zeros_like(g, Q);

	if (!rlx_type_count(&t)) {
		q->d_in[0] = op_zeros_like(g, q->in[0]);
	} else if (m >= n) {
		q->d_in[0] = square_grad(g, Q, R, dq, dr);
	} else {	/* of the first m columns, and of q' x of the rest */
		dr = dr.id ? dr : op_zeros_like(g, R);
		rest = columns(g, dr, m, n);
		dq = rlx_emit(g, add, .a = dq, .b = op_product(g, columns(g, q->in[0], m, n),
							       op_turned(g, rest)));
		dx = square_grad(g, Q, columns(g, R, 0, m), dq, columns(g, dr, 0, m));
		rest = op_product(g, Q, rest);
		q->d_in[0] = rlx_emit(g, concat, .axis = -1, .xs = RLX_VALUES(dx, rest));
	}
	return op_done(g);
}

static bool qr_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 6, 4 } }, { RLX_F32, 3, { 3, 3, 3 } }, { RLX_F32, 2, { 3, 5 } },
		{ RLX_F32, 2, { 1, 1 } }, { RLX_F32, 3, { 2, 0, 3 } }, { RLX_F32, 2, { 4, 0 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 1e-4;
	s->grad_tol = 5e-3;
	return true;
}

const struct rlx_op_impl rlx_op_qr_impl = {
	.infer = qr_infer, .scratch = qr_scratch, .eval = qr_eval, .vjp = qr_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(qr, qr_sample)
