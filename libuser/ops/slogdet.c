// SPDX-License-Identifier: MIT
/* Logarithms of determinants. */
#include "ops/batch.h"
#include "ops/doubles.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., n, n] -> sign[..], log[..]
 * Dtypes:	f64 f32 f16 bf16; both as x
 * Does:	the determinant's sign and the logarithm of its size, by LU with partial pivoting.
 *		Of a singular matrix 0 and -inf, of an empty one 1 and 0.
 * Gradient:	dx = dlog x'^-1; none through sign
 * Source:	numpy.linalg.slogdet
 */
RLX_OP(slogdet, "sign and logarithm of the determinant",
	IN(x),
	RLX_T_REDUCTION | RLX_T_FACTORS | RLX_T_TIES)

static enum rlx_status slogdet_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_matrix(q, 0, true);

	if (st)
		return st;
	q->n_out = 2;
	q->out[0] = *x;
	q->out[0].dim[--q->out[0].rank] = 0;
	q->out[0].dim[--q->out[0].rank] = 0;
	q->out[1] = q->out[0];
	return RLX_OK;
}

static size_t slogdet_scratch(const struct rlx_infer *q)
{
	int64_t n = q->in[0]->dim[q->in[0]->rank - 1];

	return op_bytes_add(op_doubles(n, n, 1), op_doubles(1, n, 0));
}

static enum rlx_status slogdet_eval(struct rlx_eval *q)
{
	const struct rlx_type *x = &q->in[0].type;
	int64_t n = x->dim[x->rank - 1], c, i;
	double *m = q->scratch, sum;
	int sign;

	for (c = 0; c < op_matrices(x, 2); c++) {
		for (i = 0; i < n * n; i++)
			m[i] = el_get(&q->in[0], c * n * n + i);
		sum = 0;
		if (!op_lu(m, n, (int64_t *)(m + n * n), &sign)) {
			sign = 0;
			sum = -INFINITY;
		}
		for (i = 0; i < n && sign; i++) {
			sign = m[i * n + i] < 0 ? -sign : sign;
			sum += log(fabs(m[i * n + i]));
		}
		el_set(&q->out[0], c, sign);
		el_set(&q->out[1], c, sum);
	}
	return RLX_OK;
}

static enum rlx_status slogdet_vjp(struct rlx_grad *q)
{
	rlx_value d = q->d_out[1];

	if (!d.id)
		return op_done(q->g);
	d = op_as_column(q->g, op_as_column(q->g, d));
	q->d_in[0] = rlx_emit(q->g, mul, .a = d, .b = op_turned(q->g,
			      rlx_emit(q->g, inverse, .x = q->in[0])));
	return op_done(q->g);
}

static bool slogdet_sample(unsigned int i, struct rlx_sample *s)
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
	s->grad_tol = 1e-2;
	return true;
}

const struct rlx_op_impl rlx_op_slogdet_impl = {
	.infer = slogdet_infer, .scratch = slogdet_scratch, .eval = slogdet_eval,
	.vjp = slogdet_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(slogdet, slogdet_sample)
