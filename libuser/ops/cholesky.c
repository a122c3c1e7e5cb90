// SPDX-License-Identifier: MIT
/* Triangular roots of positive definite matrices. */
#include "ops/batch.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., n, n] -> y[.., n, n]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	y, lower triangular with a positive diagonal, of which y y' is the symmetric part (x
 *		+ x') / 2 with jitter added to its diagonal. A matrix that is not positive definite
 *		is RLX_ERANGE.
 * Gradient:	dx = the symmetric part of y'^-1 P(y' dy) y^-1, where P takes the lower triangle
 *		with half of the diagonal
 * Source:	numpy.linalg.cholesky; Murray 2016
 */
RLX_OP(cholesky, "lower triangular y of y y' = x",
	IN(x)
	ATTR(f64, jitter),
	RLX_T_REDUCTION | RLX_T_FACTORS)

static enum rlx_status cholesky_infer(struct rlx_infer *q)
{
	const struct rlx_op_cholesky *a = q->args;
	enum rlx_status st = op_need_matrix(q, 0, true);

	if (!st)
		st = op_need_real(q, "jitter", a->jitter, -1e300);
	return st ? st : op_infer_same(q);
}

static size_t cholesky_scratch(const struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];

	return ((size_t)shape_span(x, x->rank - 2, x->rank) + 1) * sizeof(double);
}

static bool one_root(double *m, int64_t n)
{
	int64_t i, j, k;
	double s;

	for (j = 0; j < n; j++)
		for (i = j; i < n; i++) {
			s = m[i * n + j];
			for (k = 0; k < j; k++)
				s -= m[i * n + k] * m[j * n + k];
			if (i == j && !(s > 0 && isfinite(s)))
				return false;
			m[i * n + j] = i == j ? sqrt(s) : s / m[j * n + j];
		}
	return true;
}

static enum rlx_status cholesky_eval(struct rlx_eval *q)
{
	const struct rlx_op_cholesky *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	int64_t n = x->dim[x->rank - 1], count = op_matrices(x, 2), c, i;
	double *m = q->scratch;

	for (c = 0; c < count; c++) {
		for (i = 0; i < n * n; i++)
			m[i] = (el_get(&q->in[0], c * n * n + i) +
				el_get(&q->in[0], c * n * n + i % n * n + i / n)) / 2 +
			       (i / n == i % n ? a->jitter : 0);
		if (!one_root(m, n))
			return op_fail(q, RLX_ERANGE, "matrix %lld is not positive definite",
				       (long long)c);
		for (i = 0; i < n * n; i++)
			el_set(&q->out[0], c * n * n + i, i % n > i / n ? 0 : m[i]);
	}
	return RLX_OK;
}

static enum rlx_status cholesky_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	rlx_value y = q->out[0], p, half;
	struct rlx_type t = op_type(g, y);

	/* 1 below the diagonal, half on it */
	half = rlx_emit(g, sub, .a = op_const_like(g, y, 1), .b = op_mul_const(g,
			op_unit_matrix(g, t.dtype, t.dim[t.rank - 1]), 0.5));
	p = op_product(g, op_turned(g, y), q->d_out[0]);
	p = rlx_emit(g, mul, .a = rlx_emit(g, trilu, .x = p), .b = half);
	/* y'^-1 p y^-1, the latter as the transpose of y'^-1 times the transpose */
	p = rlx_emit(g, triangular_solve, .a = y, .b = p, .transposed = true);
	p = rlx_emit(g, triangular_solve, .a = y, .b = op_turned(g, p), .transposed = true);
	q->d_in[0] = op_symmetric(g, p);
	return op_done(g);
}

static void cholesky_bad_data(const void *args, char *text, size_t size)
{
	(void)args;
	snprintf(text, size, "a matrix is not positive definite");
}

static bool cholesky_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 6, 6 } }, { RLX_F32, 4, { 2, 3, 4, 4 } },
		{ RLX_F32, 2, { 1, 1 } }, { RLX_F32, 3, { 2, 0, 0 } },
		{ RLX_F32, 3, { 0, 3, 3 } }, { RLX_F32, 2, { 37, 37 } },
	};
	struct rlx_op_cholesky *a = s->args;

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 2e-6;
	a->jitter = (double)(4 * x[i].dim[x[i].rank - 1] + 2);
	return true;
}

const struct rlx_op_impl rlx_op_cholesky_impl = {
	.infer = cholesky_infer, .scratch = cholesky_scratch, .eval = cholesky_eval,
	.vjp = cholesky_vjp, .bad_data = cholesky_bad_data,
	.batch = op_batch_front,
};
RLX_SAMPLES(cholesky, cholesky_sample)
