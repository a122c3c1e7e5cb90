// SPDX-License-Identifier: MIT
/* What ops of linear algebra share. */
#include "ops/linalg.h"

enum rlx_status op_need_matrix(struct rlx_infer *q, uint32_t k, bool square)
{
	const struct rlx_type *x = q->in[k];
	enum rlx_status st = op_need_float(q, k, false);

	if (!st)
		st = op_need_rank(q, k, 2, RLX_MAX_RANK);
	if (!st && square && x->dim[x->rank - 1] != x->dim[x->rank - 2])
		st = op_fail(q, RLX_ESHAPE, "%lld x %lld is not square",
			     (long long)x->dim[x->rank - 2], (long long)x->dim[x->rank - 1]);
	return st;
}

enum rlx_status op_infer_solve(struct rlx_infer *q, bool vector)
{
	const struct rlx_type *a = q->in[0], *b = q->in[1];
	uint32_t own = vector ? 1 : 2, lead_a, lead_b;
	enum rlx_status st = op_need_matrix(q, 0, true);
	struct rlx_type *y = &q->out[0];

	if (!st)
		st = op_need_float(q, 1, false);
	if (!st)
		st = op_need_rank(q, 1, own, RLX_MAX_RANK);
	if (st)
		return st;
	lead_a = a->rank - 2;
	lead_b = b->rank - own;
	if (a->dtype != b->dtype)
		return op_fail(q, RLX_ETYPE, "a is %s, b is %s; both must be one dtype",
			       rlx_dtype_name(a->dtype), rlx_dtype_name(b->dtype));
	if (b->dim[lead_b] != a->dim[lead_a])
		return op_fail(q, RLX_ESHAPE, "b has %lld rows, a is %lld x %lld",
			       (long long)b->dim[lead_b], (long long)a->dim[lead_a],
			       (long long)a->dim[lead_a]);
	if (lead_a && lead_b && (lead_a != lead_b ||
				 memcmp(a->dim, b->dim, lead_a * sizeof(a->dim[0]))))
		return op_fail(q, RLX_ESHAPE, "leading dimensions of a and b must be alike, or one "
			       "must have none; expand it");
	*y = *b;
	if (!lead_b) {
		memcpy(y->dim, a->dim, lead_a * sizeof(y->dim[0]));
		memcpy(y->dim + lead_a, b->dim, own * sizeof(y->dim[0]));
		y->rank = lead_a + own;
	}
	return RLX_OK;
}

rlx_value op_product(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, matmul, .a = a, .b = b);
}

rlx_value op_unit_matrix(struct rlx_graph *g, enum rlx_dtype dt, int64_t n)
{
	rlx_value row = rlx_emit(g, iota, .type = rlx_type(RLX_I64, n));
	rlx_value column = rlx_emit(g, iota, .type = rlx_type(RLX_I64, n, 1));

	return rlx_emit(g, cast, .x = rlx_emit(g, eq, .a = row, .b = column), .to = dt);
}

rlx_value op_symmetric(struct rlx_graph *g, rlx_value x)
{
	return op_mul_const(g, rlx_emit(g, add, .a = x, .b = op_turned(g, x)), 0.5);
}

static rlx_value with_one(struct rlx_graph *g, rlx_value v, bool column)
{
	struct rlx_type t = op_type(g, v);

	if (!v.id)
		return v;
	t.dim[t.rank] = 1;
	if (!column) {
		t.dim[t.rank] = t.dim[t.rank - 1];
		t.dim[t.rank - 1] = 1;
	}
	return op_reshape(g, v, t.dim, t.rank + 1);
}

rlx_value op_as_row(struct rlx_graph *g, rlx_value v)
{
	return with_one(g, v, false);
}

rlx_value op_as_column(struct rlx_graph *g, rlx_value v)
{
	return with_one(g, v, true);
}

rlx_value op_gaps(struct rlx_graph *g, rlx_value v)
{
	struct rlx_type t = op_type(g, v);
	rlx_value unit = op_unit_matrix(g, t.dtype, t.dim[t.rank - 1]), gap;

	if (!v.id)
		return v;
	gap = rlx_emit(g, sub, .a = op_as_row(g, v), .b = op_as_column(g, v));
	gap = rlx_emit(g, div, .a = rlx_emit(g, sub, .a = op_const_like(g, v, 1), .b = unit),
		       .b = rlx_emit(g, add, .a = gap, .b = unit));
	return gap;
}

bool op_scale(double *m, int64_t n, int *out_exponent)
{
	double top = 0;
	int64_t i;

	for (i = 0; i < n && isfinite(m[i]); i++)
		top = fmax(top, fabs(m[i]));
	if (i < n)
		return false;
	frexp(top, out_exponent);
	for (i = 0; i < n; i++)
		m[i] = ldexp(m[i], -*out_exponent);
	return true;
}

void op_set_nan(struct rlx_eval *q, uint32_t k, int64_t c, int64_t rows, int64_t columns)
{
	int64_t i;

	for (i = 0; i < rows * columns; i++)
		el_set(&q->out[k], c * rows * columns + i, NAN);
}

bool op_lu(double *m, int64_t n, int64_t *row, int *out_sign)
{
	int64_t i, j, k, p, keep;
	double t;

	*out_sign = 1;
	for (i = 0; i < n; i++)
		row[i] = i;
	for (k = 0; k < n; k++) {
		for (p = k, i = k + 1; i < n; i++)
			if (fabs(m[i * n + k]) > fabs(m[p * n + k]))
				p = i;
		if (m[p * n + k] == 0 || !isfinite(m[p * n + k]))
			return false;
		for (j = 0; p != k && j < n; j++) {
			t = m[k * n + j];
			m[k * n + j] = m[p * n + j];
			m[p * n + j] = t;
		}
		if (p != k)
			*out_sign = -*out_sign;
		keep = row[k];
		row[k] = row[p];
		row[p] = keep;
		for (i = k + 1; i < n; i++) {
			m[i * n + k] /= m[k * n + k];
			for (j = k + 1; j < n; j++)
				m[i * n + j] -= m[i * n + k] * m[k * n + j];
		}
	}
	return true;
}

/* Rows and columns p, q of m, columns of v: the rotation that makes m[p][q] 0. */
static void rotate(double *m, int64_t n, double *v, int64_t p, int64_t q)
{
	double theta = (m[q * n + q] - m[p * n + p]) / (2 * m[p * n + q]);
	double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
	double c = 1 / sqrt(t * t + 1), s = t * c, x, y;
	int64_t i;

	for (i = 0; i < n; i++) {
		x = m[i * n + p];
		y = m[i * n + q];
		m[i * n + p] = c * x - s * y;
		m[i * n + q] = s * x + c * y;
	}
	for (i = 0; i < n; i++) {
		x = m[p * n + i];
		y = m[q * n + i];
		m[p * n + i] = c * x - s * y;
		m[q * n + i] = s * x + c * y;
		x = v[i * n + p];
		y = v[i * n + q];
		v[i * n + p] = c * x - s * y;
		v[i * n + q] = s * x + c * y;
	}
}

static void swap_columns(double *v, int64_t n, int64_t i, int64_t j)
{
	for (int64_t r = 0; r < n; r++) {
		double t = v[r * n + i];

		v[r * n + i] = v[r * n + j];
		v[r * n + j] = t;
	}
}

void op_jacobi(double *m, int64_t n, double *w, double *v)
{
	int64_t i, j, least, sweep;
	double off = 1, all = 0, t;

	for (i = 0; i < n * n; i++) {
		v[i] = i / n == i % n;
		all += m[i] * m[i];
	}
	/* it converges quadratically: 64 is far beyond what any matrix takes */
	for (sweep = 0; sweep < 64 && off > 0; sweep++) {
		for (off = 0, i = 0; i < n; i++)
			for (j = i + 1; j < n; j++) {
				if (m[i * n + j] * m[i * n + j] <= 1e-36 * all)
					continue;
				off = 1;
				rotate(m, n, v, i, j);
			}
	}
	for (i = 0; i < n; i++)
		w[i] = m[i * n + i];
	for (i = 0; i < n; i++) {
		for (least = i, j = i + 1; j < n; j++)
			least = w[j] < w[least] ? j : least;
		t = w[i];
		w[i] = w[least];
		w[least] = t;
		swap_columns(v, n, i, least);
	}
}
