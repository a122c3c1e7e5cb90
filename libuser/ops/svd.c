// SPDX-License-Identifier: MIT
/* Singular values and vectors of matrices. */
#include "ops/batch.h"
#include "ops/doubles.h"
#include "ops/linalg.h"

/*
 * Shapes:	x[.., m, n] -> u[.., m, k], s[.., k], vh[.., k, n] with k the smaller of m and n
 * Dtypes:	f64 f32 f16 bf16; all as x
 * Does:	x = u diag(s) vh, columns of u and rows of vh orthonormal, s descending and not
 *		negative; in each column of u the number of the largest size is positive, the first
 *		of those. A column of u (row of vh, where m is at most n) whose singular value is 0
 *		is 0. NaN and infinities in a matrix give NaN.
 * Gradient:	by the usual rule; infinite or NaN where singular values are equal or 0, and
 *		gradients to u or vh are given
 * Source:	numpy.linalg.svd; Hestenes 1958; Townsend 2016
 */
RLX_OP(svd, "singular values and vectors",
	IN(x),
	RLX_T_REDUCTION | RLX_T_FACTORS | RLX_T_TIES)

static enum rlx_status svd_infer(struct rlx_infer *q)
{
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_matrix(q, 0, false);
	int64_t m, n, k;

	if (st)
		return st;
	m = x->dim[x->rank - 2];
	n = x->dim[x->rank - 1];
	k = m < n ? m : n;
	q->n_out = 3;
	q->out[0] = q->out[1] = q->out[2] = *x;
	q->out[0].dim[x->rank - 1] = k;
	q->out[1].dim[--q->out[1].rank] = 0;
	q->out[1].dim[x->rank - 2] = k;
	q->out[2].dim[x->rank - 2] = k;
	return RLX_OK;
}

static size_t svd_scratch(const struct rlx_infer *q)
{
	int64_t m = q->in[0]->dim[q->in[0]->rank - 2];
	int64_t n = q->in[0]->dim[q->in[0]->rank - 1], k = m < n ? m : n;

	return op_bytes_add(op_doubles(m, n, k), op_doubles(k, k, 1));
}

/* Rows a, b become orthogonal; false if they were. */
static bool make_orthogonal(double *a, double *b, int64_t n, double *va, double *vb, int64_t k)
{
	double aa = 0, bb = 0, ab = 0, zeta, t, c, s, x;
	int64_t i;

	for (i = 0; i < n; i++) {
		aa += a[i] * a[i];
		bb += b[i] * b[i];
		ab += a[i] * b[i];
	}
	if (ab * ab <= 1e-31 * aa * bb || !isfinite(ab))
		return false;
	zeta = (bb - aa) / (2 * ab);
	t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
	c = 1 / sqrt(1 + t * t);
	s = c * t;
	for (i = 0; i < n + k; i++) {
		double *p = i < n ? a + i : va + i - n, *r = i < n ? b + i : vb + i - n;

		x = *p;
		*p = c * x - s * *r;
		*r = s * x + c * *r;
	}
	return true;
}

/* y[k][n] becomes v y with orthogonal rows, of lengths s, for some rotation v[k][k]. */
static void orthogonal_rows(double *y, int64_t k, int64_t n, double *v, double *s)
{
	int64_t i, j, top, sweep;
	bool any = true;

	for (i = 0; i < k * k; i++)
		v[i] = i / k == i % k;
	for (sweep = 0; any && sweep < 64; sweep++)
		for (any = false, i = 0; i < k; i++)
			for (j = i + 1; j < k; j++)
				any |= make_orthogonal(y + i * n, y + j * n, n, v + i * k,
						       v + j * k, k);
	for (i = 0; i < k; i++)
		for (s[i] = 0, j = 0; j < n; j++)
			s[i] = hypot(s[i], y[i * n + j]);
	for (i = 0; i < k; i++) {
		for (top = i, j = i + 1; j < k; j++)
			top = s[j] > s[top] ? j : top;
		for (j = 0; top != i && j < n + k + 1; j++) {
			double *p = j < n ? y + i * n + j : j < n + k ? v + i * k + j - n : s + i;
			double *r = j < n ? y + top * n + j : j < n + k ? v + top * k + j - n :
				    s + top, t = *p;

			*p = *r;
			*r = t;
		}
	}
}

static enum rlx_status svd_eval(struct rlx_eval *q)
{
	const struct rlx_type *t = &q->in[0].type;
	int64_t m = t->dim[t->rank - 2], n = t->dim[t->rank - 1], k = m < n ? m : n, c, i, j, top;
	/* the rows of x, or of its transpose: the side that has fewer */
	bool wide = m <= n;
	int64_t len = wide ? n : m;
	double *y = q->scratch, *v = y + m * n, *s = v + k * k, sign, u;
	int exponent;

	for (c = 0; c < op_matrices(t, 2); c++) {
		for (i = 0; i < m * n; i++)
			y[wide ? i : i % n * m + i / n] = el_get(&q->in[0], c * m * n + i);
		if (!op_scale(y, m * n, &exponent)) {
			op_set_nan(q, 0, c, m, k);
			op_set_nan(q, 1, c, 1, k);
			op_set_nan(q, 2, c, k, n);
			continue;
		}
		orthogonal_rows(y, k, len, v, s);
		for (i = 0; i < k; i++) {
			const double *vi = v + i * k, *yi = y + i * len, *of = wide ? vi : yi;
			double by = s[i] > 0 ? 1 / s[i] : 0;

			for (top = 0, j = 1; j < (wide ? k : len); j++)
				top = fabs(of[j]) > fabs(of[top]) ? j : top;
			sign = of[top] < 0 ? -1 : 1;
			el_set(&q->out[1], c * k + i, ldexp(s[i], exponent));
			for (j = 0; j < m; j++) {
				u = wide ? vi[j] : yi[j] * by;
				el_set(&q->out[0], (c * m + j) * k + i, sign * u);
			}
			for (j = 0; j < n; j++) {
				u = wide ? yi[j] * by : vi[j];
				el_set(&q->out[2], (c * k + i) * n + j, sign * u);
			}
		}
	}
	return RLX_OK;
}

/* F (a - a'), where a = x' dx and F_ij = 1 / (s_j^2 - s_i^2) */
static rlx_value turned_part(struct rlx_graph *g, rlx_value f, rlx_value x, rlx_value dx)
{
	rlx_value a = op_product(g, op_turned(g, x), dx);

	return rlx_emit(g, mul, .a = f, .b = rlx_emit(g, sub, .a = a, .b = op_turned(g, a)));
}

/* dx less what of it lies in the columns of x */
static rlx_value outside(struct rlx_graph *g, rlx_value x, rlx_value dx)
{
	return rlx_emit(g, sub, .a = dx, .b = op_product(g, x, op_product(g, op_turned(g, x), dx)));
}

static rlx_value plus(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return a.id ? rlx_emit(g, add, .a = a, .b = b) : b;
}

static enum rlx_status svd_vjp(struct rlx_grad *q)
{
	struct rlx_graph *g = q->g;
	struct rlx_type t = op_type(g, q->in[0]);
	int64_t m = t.dim[t.rank - 2], n = t.dim[t.rank - 1];
	rlx_value u = q->out[0], s = q->out[1], vh = q->out[2], v = op_turned(g, vh), f, d, mid, x;
	rlx_value row = op_as_row(g, s), column = op_as_column(g, s), out = RLX_NONE;
	rlx_value dv = q->d_out[2].id ? op_turned(g, q->d_out[2]) : RLX_NONE;

	f = op_gaps(g, rlx_emit(g, mul, .a = s, .b = s));
	mid = q->d_out[1].id ? rlx_emit(g, mul, .a = op_as_row(g, q->d_out[1]),
			.b = op_unit_matrix(g, t.dtype, m < n ? m : n)) : RLX_NONE;
	if (q->d_out[0].id) {
		x = turned_part(g, f, u, q->d_out[0]);
		mid = plus(g, mid, rlx_emit(g, mul, .a = x, .b = row));
	}
	if (dv.id) {
		x = turned_part(g, f, v, dv);
		mid = plus(g, mid, rlx_emit(g, mul, .a = column, .b = x));
	}
	if (mid.id)
		out = op_product(g, op_product(g, u, mid), vh);
	if (q->d_out[0].id && m > n) {
		d = rlx_emit(g, div, .a = outside(g, u, q->d_out[0]), .b = row);
		out = plus(g, out, op_product(g, d, vh));
	}
	if (dv.id && n > m) {
		d = rlx_emit(g, div, .a = outside(g, v, dv), .b = row);
		out = plus(g, out, op_product(g, u, op_turned(g, d)));
	}
	q->d_in[0] = out;
	return op_done(g);
}

static bool svd_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 5, 3 } }, { RLX_F32, 3, { 2, 3, 3 } }, { RLX_F32, 2, { 2, 4 } },
		{ RLX_F32, 2, { 1, 1 } }, { RLX_F32, 3, { 2, 0, 3 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->tol = 1e-4;
	s->grad_tol = 1e-2;
	return true;
}

const struct rlx_op_impl rlx_op_svd_impl = {
	.infer = svd_infer, .scratch = svd_scratch, .eval = svd_eval, .vjp = svd_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(svd, svd_sample)
