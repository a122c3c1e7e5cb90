// SPDX-License-Identifier: MIT
/* Numbers in arithmetic progression along one axis. */
#include "ops/emit.h"

/*
 * Shapes:	-> y of 'type'
 * Dtypes:	floats, f8 too, and integers
 * Does:	y = start + step p, p the position along axis (0 if not given), the same along the
 *		other axes; a scalar is start. start is 0 if not given. Floats are rounded once;
 *		integers wrap, and start and step must be whole for them.
 * Gradient:	none: it has no inputs
 * Source:	numpy.arange
 */
RLX_OP(iota, "start + step * position along one axis, the same along the others",
	ATTR(type, type)
	ATTR(i32, axis)
	ATTR(f64, start)
	DEF(f64, step, 1),
	RLX_T_MOVE | RLX_T_NODIFF)

static bool whole(double x)
{
	return x == trunc(x) && fabs(x) < 0x1p63;
}

static enum rlx_status iota_infer(struct rlx_infer *q)
{
	const struct rlx_op_iota *a = q->args;
	enum rlx_dtype dt = a->type.dtype;
	enum rlx_status st;
	uint32_t ax;

	if (rlx_type_bytes(&a->type) < 0)
		return op_fail(q, RLX_ESHAPE,
			       "no type: dtype, rank <= %d, dims >= 0, under 2^63 bytes",
			       RLX_MAX_RANK);
	if (!rlx_dtype_is_int(dt) && !rlx_dtype_is_float(dt))
		return op_fail(q, RLX_ETYPE, "%s cannot count", rlx_dtype_name(dt));
	if (rlx_dtype_is_int(dt) && (!whole(a->start) || !whole(a->step)))
		return op_fail(q, RLX_EINVAL, "start %g and step %g must be whole for %s",
			       a->start, a->step, rlx_dtype_name(dt));
	st = a->type.rank ? op_infer_axis(q, a->axis, a->type.rank, &ax) : RLX_OK;
	q->out[0] = a->type;
	return st;
}

static enum rlx_status iota_eval(struct rlx_eval *q)
{
	const struct rlx_op_iota *a = q->args;
	const struct rlx_tensor *y = &q->out[0];
	struct op_walk w;
	uint32_t ax = 0;

	op_axis(a->axis, y->type.rank, &ax);
	op_walk_begin(&w, &y->type, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		int64_t p = y->type.rank ? w.idx[ax] : 0;

		if (el_is_int(y->type.dtype))
			el_seti(y, w.i, (int64_t)((uint64_t)(int64_t)a->start +
				(uint64_t)(int64_t)a->step * (uint64_t)p));
		else
			el_set(y, w.i, fma((double)p, a->step, a->start));
	}
	return RLX_OK;
}

static bool iota_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct rlx_op_iota c[] = {
		{ { RLX_I64, 1, { 17 } }, 0, 0, 1 },
		{ { RLX_I32, 2, { 3, 5 } }, -1, 7, -3 },
		{ { RLX_F32, 2, { 3, 5 } }, 0, 0.5, 0.25 },
		{ { RLX_F64, 1, { 0 } }, 0, 0, 1 },
		{ { RLX_F32, 0, { 0 } }, 0, 3, 1 },
		{ { RLX_U8, 1, { 300 } }, 0, 0, 1 },
		{ { RLX_BF16, 1, { 9 } }, 0, 1, 0 },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	*(struct rlx_op_iota *)s->args = c[i];
	return true;
}

const struct rlx_op_impl rlx_op_iota_impl = {
	.infer = iota_infer, .eval = iota_eval,
};
RLX_SAMPLES(iota, iota_sample)
