// SPDX-License-Identifier: MIT
/* Systems of equations with triangular matrices. */
#include "ops/batch.h"
#include "ops/linalg.h"

/*
 * Shapes:	a[.., n, n], b[.., n, k] -> y[.., n, k]; leading dimensions alike, or one has none
 * Dtypes:	f64 f32 f16 bf16; b and y as a
 * Does:	y of a y = b, or with transposed of a' y = b, where a is its lower triangle, with
 *		upper its upper one; the other is not read. unit: the diagonal is not read either,
 *		it is 1. A 0 on the diagonal gives infinities and NaN.
 * Gradient:	db = a'^-1 dy by the same op, da = -db y' within the triangle
 * Source:	scipy.linalg.solve_triangular
 */
RLX_OP(triangular_solve, "y of a y = b for triangular a",
	IN(a) IN(b)
	ATTR(bool, upper)
	ATTR(bool, transposed)
	ATTR(bool, unit),
	RLX_T_REDUCTION | RLX_T_FACTORS)

static enum rlx_status triangular_solve_infer(struct rlx_infer *q)
{
	return op_infer_solve(q, false);
}

static size_t triangular_solve_scratch(const struct rlx_infer *q)
{
	return ((size_t)q->in[0]->dim[q->in[0]->rank - 1] + 1) * sizeof(double);
}

static enum rlx_status triangular_solve_eval(struct rlx_eval *q)
{
	const struct rlx_op_triangular_solve *o = q->args;
	const struct rlx_type *a = &q->in[0].type, *b = &q->in[1].type, *y = &q->out[0].type;
	int64_t n = a->dim[a->rank - 1], k = b->dim[b->rank - 1], count = op_matrices(y, 2);
	int64_t a_step = a->rank > 2 ? n * n : 0, b_step = b->rank > 2 ? n * k : 0, c, j, i, l;
	bool up = o->upper != o->transposed;
	double *x = q->scratch, s;

	for (c = 0; c < count; c++)
		for (j = 0; j < k; j++) {
			for (l = 0; l < n; l++) {
				int64_t r = up ? n - 1 - l : l;

				s = el_get(&q->in[1], c * b_step + r * k + j);
				for (i = 0; i < l; i++) {
					int64_t m = up ? n - 1 - i : i;

					s -= x[m] * el_get(&q->in[0], c * a_step + (o->transposed ?
							   m * n + r : r * n + m));
				}
				x[r] = o->unit ? s : s / el_get(&q->in[0], c * a_step + r * n + r);
			}
			for (l = 0; l < n; l++)
				el_set(&q->out[0], (c * n + l) * k + j, x[l]);
		}
	return RLX_OK;
}

static enum rlx_status triangular_solve_vjp(struct rlx_grad *q)
{
	const struct rlx_op_triangular_solve *o = q->args;
	struct rlx_graph *g = q->g;
	rlx_value db, da;

	db = rlx_emit(g, triangular_solve, .a = q->in[0], .b = q->d_out[0], .upper = o->upper,
		      .transposed = !o->transposed, .unit = o->unit);
	/* of a' y = b the gradient to a is the transpose */
	da = o->transposed ? op_product(g, q->out[0], op_turned(g, db)) :
			     op_product(g, db, op_turned(g, q->out[0]));
	da = rlx_emit(g, neg, .x = da);
	da = rlx_emit(g, trilu, .x = da, .upper = o->upper, .k = !o->unit ? 0 : o->upper ? 1 : -1);
	q->d_in[0] = op_unbroadcast(g, da, q->in[0]);
	q->d_in[1] = op_unbroadcast(g, db, q->in[1]);
	return op_done(g);
}

static bool triangular_solve_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type a, b; } c[] = {
		{ { RLX_F32, 2, { 5, 5 } }, { RLX_F32, 2, { 5, 3 } } },
		{ { RLX_F32, 3, { 4, 3, 3 } }, { RLX_F32, 3, { 4, 3, 2 } } },
		{ { RLX_F32, 2, { 4, 4 } }, { RLX_F32, 4, { 2, 3, 4, 1 } } },
		{ { RLX_F32, 3, { 2, 6, 6 } }, { RLX_F32, 2, { 6, 2 } } },
		{ { RLX_F32, 2, { 0, 0 } }, { RLX_F32, 2, { 0, 3 } } },
		{ { RLX_F32, 2, { 3, 3 } }, { RLX_F32, 2, { 3, 0 } } },
		{ { RLX_F32, 2, { 19, 19 } }, { RLX_F32, 2, { 19, 21 } } },
	};
	struct rlx_op_triangular_solve *o = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].a;
	s->in[1] = c[i].b;
	s->lo[0] = i == 6 ? 0.6 : 1;
	s->hi[0] = i == 6 ? 0.7 : 2;
	s->tol = 5e-5;
	o->upper = i % 2;
	o->transposed = i / 2 % 2;
	o->unit = i == 3;
	return true;
}

static enum rlx_status triangular_solve_batch(struct rlx_batching *q)
{
	return op_batch_solve(q, false);
}

const struct rlx_op_impl rlx_op_triangular_solve_impl = {
	.infer = triangular_solve_infer, .scratch = triangular_solve_scratch,
	.eval = triangular_solve_eval, .vjp = triangular_solve_vjp,
	.batch = triangular_solve_batch,
};
RLX_SAMPLES(triangular_solve, triangular_solve_sample)
