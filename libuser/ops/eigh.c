// SPDX-License-Identifier: MIT
/* Eigenvalues and eigenvectors of symmetric matrices. */
#include "ops/batch.h"
#include "ops/doubles.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., n, n] -> w[.., n], v[.., n, n]
 * Dtypes:	f64 f32 f16 bf16; both as x
 * Does:	of the symmetric part (x + x') / 2 the eigenvalues w, ascending, and orthonormal
 *		eigenvectors, v's columns, in each of which the number of the largest size is
 *		positive, the first of those. NaN and infinities in a matrix give NaN.
 * Gradient:	dx = v (diag(dw) + F v' dv) v' with F_ij = 1 / (w_j - w_i), made symmetric; through
 *		v infinite or NaN where eigenvalues are equal
 * Source:	numpy.linalg.eigh; Golub and Van Loan, Matrix Computations
 */
RLX_OP(eigh, "eigenvalues and eigenvectors of symmetric matrices",
	IN(x),
	RLX_T_REDUCTION | RLX_T_FACTORS | RLX_T_TIES)

static enum rlx_status eigh_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_matrix(q, 0, true);

	if (st)
		return st;
	q->n_out = 2;
	q->out[0] = q->out[1] = *x;
	q->out[0].dim[--q->out[0].rank] = 0;
	return RLX_OK;
}

static size_t eigh_scratch(const struct rlx_infer *q)
{
	int64_t n = q->in[0]->dim[q->in[0]->rank - 1];

	return op_bytes_add(op_doubles(n, n, n), op_doubles(n, n, 1));
}

static enum rlx_status eigh_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t n = x->dim[x->rank - 1], c, i, j, top;
	double *m = q->scratch, *v = m + n * n, *w = v + n * n, sign;
	int by;

	for (c = 0; c < op_matrices(x, 2); c++) {
		for (i = 0; i < n * n; i++)
			m[i] = el_get(&q->in[0], c * n * n + i);
		if (!op_scale(m, n * n, &by)) {
			op_set_nan(q, 0, c, 1, n);
			op_set_nan(q, 1, c, n, n);
			continue;
		}
		for (i = 0; i < n; i++)
			for (j = 0; j < i; j++)
				m[i * n + j] = m[j * n + i] = (m[i * n + j] + m[j * n + i]) / 2;
		op_jacobi(m, n, w, v);
		for (j = 0; j < n; j++) {
			for (top = 0, i = 1; i < n; i++)
				top = fabs(v[i * n + j]) > fabs(v[top * n + j]) ? i : top;
			sign = v[top * n + j] < 0 ? -1 : 1;
			el_set(&q->out[0], c * n + j, ldexp(w[j], by));
			for (i = 0; i < n; i++)
				el_set(&q->out[1], (c * n + i) * n + j, sign * v[i * n + j]);
		}
	}
	return RLX_OK;
}

static enum rlx_status eigh_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	rlx_value w = q->out[0], v = q->out[1], d = RLX_NONE, e;
	struct rlx_type t = op_type(g, v);

	if (q->d_out[0].id)
		d = rlx_emit(g, mul, .a = op_as_row(g, q->d_out[0]),
			     .b = op_unit_matrix(g, t.dtype, t.dim[t.rank - 1]));
	if (q->d_out[1].id) {
		e = rlx_emit(g, mul, .a = op_gaps(g, w),
			     .b = op_product(g, op_turned(g, v), q->d_out[1]));
		d = d.id ? rlx_emit(g, add, .a = d, .b = e) : e;
	}
	if (d.id)
		q->d_in[0] = op_symmetric(g, op_product(g, op_product(g, v, d), op_turned(g, v)));
	return op_done(g);
}

static bool eigh_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 4, 4 } }, { RLX_F32, 3, { 2, 3, 3 } }, { RLX_F32, 2, { 1, 1 } },
		{ RLX_F32, 3, { 2, 0, 0 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 1e-4;
	s->grad_tol = 1e-2;
	return true;
}

const struct rlx_op_impl rlx_op_eigh_impl = {
	.infer = eigh_infer, .scratch = eigh_scratch, .eval = eigh_eval, .vjp = eigh_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(eigh, eigh_sample)
