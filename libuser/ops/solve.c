// SPDX-License-Identifier: MIT
/* Systems of linear equations. */
#include "ops/batch.h"
#include "ops/doubles.h"
#include "ops/linalg.h"

/*
 * Shapes:	a[.., n, n], b[.., n, k] -> y[.., n, k], with vector b[.., n] -> y[.., n]; leading
 *		dimensions alike, or one has none
 * Dtypes:	f64 f32 f16 bf16; b and y as a
 * Does:	y of a y = b, by LU with partial pivoting. A pivot that is 0, infinite or NaN is
 *		RLX_ERANGE.
 * Gradient:	db = a'^-1 dy, da = -db y'
 * Source:	numpy.linalg.solve
 */
RLX_OP(solve, "y of a y = b, by LU with partial pivoting",
	IN(a) IN(b)
	ATTR(bool, vector),
	RLX_T_REDUCTION | RLX_T_FACTORS)

static enum rlx_status solve_infer(struct rlx_infer *q)
{
	const struct rlx_op_solve *o = q->args;

	return op_infer_solve(q, o->vector);
}

static size_t solve_scratch(const struct rlx_infer *q)
{
	int64_t n = q->in[0]->dim[q->in[0]->rank - 1];

	return op_bytes_add(op_doubles(n, n, n), op_doubles(n, 1, 1));
}

static enum rlx_status solve_eval(struct rlx_eval *q)
{
	const struct rlx_op_solve *o = q->args;
	const struct rlx_type *a = &q->in[0].type, *b = &q->in[1].type, *y = &q->out[0].type;
	uint32_t own = o->vector ? 1 : 2;
	int64_t n = a->dim[a->rank - 1], k = o->vector ? 1 : b->dim[b->rank - 1], c, j, i, l;
	int64_t a_step = a->rank > 2 ? n * n : 0, b_step = b->rank > own ? n * k : 0;
	double *m = q->scratch, *x = m + n * n;
	int64_t *row = (int64_t *)(x + n);
	int sign;

	for (c = 0; c < op_matrices(y, own); c++) {
		for (i = 0; i < n * n; i++)
			m[i] = el_get(&q->in[0], c * a_step + i);
		if (!op_lu(m, n, row, &sign))
			return op_fail(q, RLX_ERANGE, "matrix %lld is singular or not finite",
				       (long long)c);
		for (j = 0; j < k; j++) {
			for (i = 0; i < n; i++) {
				x[i] = el_get(&q->in[1], c * b_step + row[i] * k + j);
				for (l = 0; l < i; l++)
					x[i] -= m[i * n + l] * x[l];
			}
			for (i = n; i-- > 0;) {
				for (l = i + 1; l < n; l++)
					x[i] -= m[i * n + l] * x[l];
				x[i] /= m[i * n + i];
			}
			for (i = 0; i < n; i++)
				el_set(&q->out[0], (c * n + i) * k + j, x[i]);
		}
	}
	return RLX_OK;
}

static enum rlx_status solve_vjp(struct rlx_grad *q)
{
	const struct rlx_op_solve *o = q->args;
	struct rlx_graph *g = q->g;
	rlx_value y = q->out[0], db, da;

	db = rlx_emit(g, solve, .a = op_turned(g, q->in[0]), .b = q->d_out[0],
		      .vector = o->vector);
	da = o->vector ? rlx_emit(g, mul, .a = op_as_column(g, db), .b = op_as_row(g, y)) :
			 op_product(g, db, op_turned(g, y));
	q->d_in[0] = op_unbroadcast(g, rlx_emit(g, neg, .x = da), q->in[0]);
	q->d_in[1] = op_unbroadcast(g, db, q->in[1]);
	return op_done(g);
}

static void solve_bad_data(const void *args, char *text, size_t size)
{
	(void)args;
	snprintf(text, size, "a matrix is singular or not finite");
}

static bool solve_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type a, b; bool vector; } c[] = {
		{ { RLX_F32, 2, { 5, 5 } }, { RLX_F32, 2, { 5, 3 } }, false },
		{ { RLX_F32, 3, { 4, 3, 3 } }, { RLX_F32, 2, { 4, 3 } }, true },
		{ { RLX_F32, 2, { 4, 4 } }, { RLX_F32, 3, { 3, 4, 2 } }, false },
		{ { RLX_F32, 3, { 2, 6, 6 } }, { RLX_F32, 1, { 6 } }, true },
		{ { RLX_F32, 2, { 0, 0 } }, { RLX_F32, 2, { 0, 3 } }, false },
		{ { RLX_F32, 2, { 3, 3 } }, { RLX_F32, 2, { 3, 0 } }, false },
		{ { RLX_F32, 2, { 23, 23 } }, { RLX_F32, 2, { 23, 17 } }, false },
	};
	struct rlx_op_solve *o = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].a;
	s->in[1] = c[i].b;
	s->tol = 1e-3;
	s->grad_tol = 1e-2;
	o->vector = c[i].vector;
	return true;
}

static enum rlx_status solve_batch(struct rlx_batching *q)
{
	return op_batch_solve(q, ((const struct rlx_op_solve *)q->args)->vector);
}

const struct rlx_op_impl rlx_op_solve_impl = {
	.infer = solve_infer, .scratch = solve_scratch, .eval = solve_eval, .vjp = solve_vjp,
	.bad_data = solve_bad_data,
	.batch = solve_batch,
};
RLX_SAMPLES(solve, solve_sample)
