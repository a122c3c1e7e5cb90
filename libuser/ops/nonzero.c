// SPDX-License-Identifier: MIT
/* Positions of elements that are not zero, and their number. */
#include "ops/emit.h"

/*
 * Shapes:	x[..] of rank r -> y[r, count]
 * Dtypes:	x: f64 f32 f16 bf16, integers, bool; y: i64
 * Does:	column k has the coordinates of the k-th element that is not 0, in row-major
 *		order; NaN is not 0. count is how many there are, as shapes do not depend on data:
 *		nonzero_count finds it.
 * Errors:	RLX_ERANGE if another number of elements is not 0.
 * Gradient:	none: the result is positions
 * Source:	ONNX NonZero-13, numpy.nonzero
 */
RLX_OP(nonzero, "i64 [rank, count]: coordinates of the nonzero elements, row-major order",
	IN(x)
	ATTR(i64, count),
	RLX_T_MOVE | RLX_T_NODIFF)

/*
 * Shapes:	x[..] -> y[]
 * Dtypes:	x: f64 f32 f16 bf16, integers, bool; y: i64
 * Does:	how many elements are not 0, NaN among them: the count of nonzero.
 * Gradient:	none: the result is a number of elements
 * Source:	numpy.count_nonzero
 */
RLX_OP(nonzero_count, "how many elements are not zero, an i64 scalar",
	IN(x),
	RLX_T_REDUCTION | RLX_T_NODIFF)

static bool is_set(const struct rlx_tensor *x, int64_t i)
{
	if (el_is_int(x->type.dtype))
		return el_geti(x, i) != 0;
	return el_get(x, i) != 0;
}

static int64_t count_set(const struct rlx_tensor *x)
{
	int64_t n = rlx_type_count(&x->type), c = 0, i;

	for (i = 0; i < n; i++)
		c += is_set(x, i);
	return c;
}

static enum rlx_status need_real(struct rlx_infer *q)
{
	return q->in[0]->dtype == RLX_BOOL ? RLX_OK : op_need_number(q, 0);
}

static enum rlx_status nonzero_infer(struct rlx_infer *q)
{
	const struct rlx_op_nonzero *a = q->args;
	enum rlx_status st = need_real(q);

	if (!st && (a->count < 0 || a->count > rlx_type_count(q->in[0])))
		st = op_fail(q, RLX_EINVAL, "count is %lld, x has %lld elements",
			     (long long)a->count, (long long)rlx_type_count(q->in[0]));
	q->out[0] = rlx_type(RLX_I64, q->in[0]->rank, a->count);
	return st;
}

static enum rlx_status nonzero_eval(struct rlx_eval *q)
{
	const struct rlx_op_nonzero *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	int64_t have = count_set(x), n = 0;
	struct op_walk w;
	uint32_t d;

	if (have != a->count)
		return op_fail(q, RLX_ERANGE, "%lld elements are not zero, count is %lld",
			       (long long)have, (long long)a->count);
	op_walk_begin(&w, &x->type, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		if (!is_set(x, w.i))
			continue;
		if (n++ >= a->count)	/* x may be memory that others write meanwhile */
			break;
		for (d = 0; d < x->type.rank; d++)
			el_seti(&q->out[0], d * a->count + n - 1, w.idx[d]);
	}
	if (n != a->count)
		return op_fail(q, RLX_ERANGE, "x changed while it was read");
	return RLX_OK;
}

static enum rlx_status nonzero_count_infer(struct rlx_infer *q)
{
	q->out[0] = rlx_scalar(RLX_I64);
	return need_real(q);
}

static enum rlx_status nonzero_count_eval(struct rlx_eval *q)
{
	el_seti(&q->out[0], 0, count_set(&q->in[0]));
	return RLX_OK;
}

static enum rlx_status nonzero_count_expand(struct rlx_expand *q)
{
	rlx_value x = q->in[0];

	if (op_type(q->g, x).dtype != RLX_BOOL)
		x = rlx_emit(q->g, ne, .a = x, .b = op_const_like(q->g, x, 0));
	q->out[0] = rlx_emit(q->g, reduce, .x = op_cast(q->g, x, RLX_I64));
	return op_done(q->g);
}

/* All or none set: the count is then known without looking. */
static bool nonzero_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_F32, 2, { 3, 5 } }, { RLX_I64, 3, { 2, 1, 3 } }, { RLX_BOOL, 1, { 7 } },
		{ RLX_F32, 0, { 0 } }, { RLX_I32, 2, { 0, 3 } },
	};
	struct rlx_op_nonzero *a = s->args;

	if (i >= 5)
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	s->lo[0] = s->hi[0] = 1;
	a->count = rlx_type_count(&x[i]);
	return true;
}

static bool nonzero_count_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_type x[] = {
		{ RLX_I64, 3, { 4, 3, 3 } }, { RLX_BOOL, 1, { 17 } }, { RLX_F32, 2, { 4, 4 } },
		{ RLX_BOOL, 1, { 0 } },
	};

	if (i >= sizeof(x) / sizeof(x[0]))
		return false;
	s->n_in = 1;
	s->in[0] = x[i];
	return true;
}

static void nonzero_bad_data(const void *args, char *text, size_t size)
{
	const struct rlx_op_nonzero *a = args;

	snprintf(text, size, "count is %lld, other many elements are not zero",
		 (long long)a->count);
}

const struct rlx_op_impl rlx_op_nonzero_impl = {
	.infer = nonzero_infer, .eval = nonzero_eval, .bad_data = nonzero_bad_data,
};
RLX_SAMPLES(nonzero, nonzero_sample)

const struct rlx_op_impl rlx_op_nonzero_count_impl = {
	.infer = nonzero_count_infer, .eval = nonzero_count_eval,
	.expand = nonzero_count_expand,
};
RLX_SAMPLES(nonzero_count, nonzero_count_sample)
