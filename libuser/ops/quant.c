// SPDX-License-Identifier: MIT
/* Scales and zero points of quantising ops. */
#include "ops/quant.h"

bool op_quant_dtype(enum rlx_dtype dt)
{
	return dt == RLX_U8 || dt == RLX_I8 || dt == RLX_U16 || dt == RLX_I16 ||
	       dt == RLX_I32 || dt == RLX_F8E4M3 || dt == RLX_F8E5M2;
}

enum rlx_status op_quant_infer(struct rlx_infer *q, int32_t axis, int64_t block)
{
	const struct rlx_type *x = q->in[0], *s = q->in[1], *zp = q->in[2];
	bool single = rlx_type_count(s) == 1 && s->rank <= 1 && !block;
	enum rlx_status st;
	uint32_t ax = 0, i;

	if (block < 0)
		return op_fail(q, RLX_EINVAL, "block is %lld", (long long)block);
	if (!single) {
		st = op_infer_axis(q, axis, x->rank, &ax);
		if (st)
			return st;
	}
	if (!single && !block && (s->rank != 1 || s->dim[0] != x->dim[ax]))
		return op_fail(q, RLX_ESHAPE,
			       "the scale must have 1 or, along axis %u, %lld elements",
			       ax, (long long)x->dim[ax]);
	for (i = 0; block && i < x->rank; i++) {
		int64_t want = i == ax ? (x->dim[i] - 1) / block + (x->dim[i] > 0) :
			       x->dim[i];

		if (s->rank != x->rank || s->dim[i] != want)
			return op_fail(q, RLX_ESHAPE,
				       "axis %u of the scale must be %lld for blocks of %lld",
				       i, (long long)want, (long long)block);
	}
	/* one zero point may come as [] with a scale of [1] and the other way round */
	if (zp && !(single && rlx_type_count(zp) == 1 && zp->rank <= 1) &&
	    (zp->rank != s->rank || memcmp(zp->dim, s->dim, s->rank * sizeof(s->dim[0]))))
		return op_fail(q, RLX_ESHAPE, "the zero point has not the scale's shape");
	return RLX_OK;
}

int64_t op_quant_at(const struct rlx_type *x, const struct rlx_type *scale,
		    int32_t axis, int64_t block, int64_t i)
{
	int64_t post, d, k;
	uint32_t ax = 0;

	if (scale->rank <= 1 && rlx_type_count(scale) == 1 && !block)
		return 0;
	op_axis(axis, x->rank, &ax);
	post = shape_span(x, ax + 1, x->rank);
	d = x->dim[ax];
	k = i / post % d;
	if (!block)
		return k;
	return (i / post / d * scale->dim[ax] + k / block) * post + i % post;
}

bool op_quant_sample(unsigned int i, struct rlx_sample *s, int32_t *axis,
		     int64_t *block, enum rlx_dtype *to)
{
	static const enum rlx_dtype dt[] = {
		RLX_U8, RLX_I8, RLX_U16, RLX_I16, RLX_F8E4M3, RLX_F8E5M2,
	};

	if (i > 8)
		return false;
	s->n_in = 3;
	s->in[0] = rlx_type(RLX_F32, 3, 5, 7);
	s->in[1] = i & 1 ? rlx_type(RLX_F32, 5) : rlx_scalar(RLX_F32);
	*to = dt[i % 6];
	if (i == 6) {
		s->in[1] = rlx_type(RLX_F32, 3, 2, 7);
		*block = 3;
		*axis = -2;
	} else if (i == 7) {
		s->in[0] = rlx_type(RLX_F32, 0, 5);
	} else if (i == 8) {
		s->in[0] = rlx_scalar(RLX_F32);
	}
	s->in[2] = s->in[1];
	s->in[2].dtype = *to;
	s->lo[0] = -9;
	s->hi[0] = 9;
	s->lo[1] = 0.02;
	s->hi[1] = 0.1;
	s->hi[2] = rlx_dtype_is_float(*to) ? 0 : 9;
	if (rlx_dtype_is_float(*to) || i == 2)
		s->in[2] = (struct rlx_type){ 0 };
	return true;
}

enum rlx_status op_quant_vector(struct rlx_infer *q, uint32_t k, const char *what,
				int64_t n)
{
	const struct rlx_type *t = q->in[k];

	if (t && (t->rank > 1 || (rlx_type_count(t) != 1 && rlx_type_count(t) != n)))
		return op_fail(q, RLX_ESHAPE, "%s must have 1 or %lld elements", what,
			       (long long)n);
	return RLX_OK;
}

double op_quant_get(const struct rlx_tensor *t, int64_t i, double absent)
{
	if (!op_has(t))
		return absent;
	return el_get(t, rlx_type_count(&t->type) == 1 ? 0 : i);
}

enum rlx_status op_requant_infer(struct rlx_infer *q, uint32_t first)
{
	const struct rlx_type *const *s = q->in + first;
	enum rlx_status st = RLX_OK;
	uint32_t k;

	for (k = 0; !st && k < 6; k += 2)
		if (s[k])
			st = op_need_float(q, first + k, false);
	if (st)
		return st;
	for (k = 0; k < 2; k++) {
		const struct rlx_type *zp = s[2 * k + 1];

		if (q->in[k]->dtype != RLX_U8 && q->in[k]->dtype != RLX_I8)
			return op_fail(q, RLX_ETYPE, "input %u is %s, u8 or i8 is needed",
				       k, rlx_dtype_name(q->in[k]->dtype));
		if (zp && zp->dtype != q->in[k]->dtype)
			return op_fail(q, RLX_ETYPE, "the zero point of input %u is %s",
				       k, rlx_dtype_name(zp->dtype));
	}
	if (!s[0] != !s[2])
		return op_fail(q, RLX_EINVAL, "one operand has a scale, the other has none");
	if ((s[4] && !s[0]) || (s[5] && !s[4]))
		return op_fail(q, RLX_EINVAL,
			       "y_scale needs the operands' scales, y_zp needs y_scale");
	if (s[5] && s[5]->dtype != RLX_U8 && s[5]->dtype != RLX_I8)
		return op_fail(q, RLX_ETYPE, "y_zp is %s, u8 or i8 is needed",
			       rlx_dtype_name(s[5]->dtype));
	if ((s[4] && rlx_type_count(s[4]) != 1) || (s[5] && rlx_type_count(s[5]) != 1))
		return op_fail(q, RLX_ESHAPE, "y_scale and y_zp must be single numbers");
	q->out[0].dtype = !s[0] ? RLX_I32 : !s[4] ? RLX_F32 : s[5] ? s[5]->dtype :
			  q->in[0]->dtype;
	return RLX_OK;
}

rlx_value op_quant_along(struct rlx_graph *g, rlx_value v, uint32_t axis, uint32_t rank,
			 enum rlx_dtype dt)
{
	struct rlx_type t = op_type(g, v);
	int64_t dim[RLX_MAX_RANK], n = rlx_type_count(&t);
	uint32_t i;

	if (!v.id)
		return v;
	for (i = 0; i < rank; i++)
		dim[i] = i == axis ? n : 1;
	return op_cast(g, op_reshape(g, v, dim, n == 1 ? 0 : rank), dt);
}

rlx_value op_quant_exact(struct rlx_graph *g, rlx_value x, rlx_value zp, uint32_t axis)
{
	zp = op_quant_along(g, zp, axis, op_type(g, x).rank, RLX_F64);
	x = op_cast(g, x, RLX_F64);
	return zp.id ? rlx_emit(g, sub, .a = x, .b = zp) : x;
}

rlx_value op_quant_narrow(struct rlx_graph *g, rlx_value x, rlx_value scale, rlx_value zp,
			  enum rlx_dtype dt)
{
	x = rlx_emit(g, div, .a = x, .b = op_quant_along(g, scale, 0, 0, RLX_F32));
	x = rlx_emit(g, round, .x = x);
	if (zp.id)
		x = rlx_emit(g, add, .a = x, .b = op_quant_along(g, zp, 0, 0, RLX_F32));
	return op_cast(g, x, dt);
}

rlx_value op_quant_spread(struct rlx_graph *g, rlx_value v, const struct rlx_type *x,
			  int32_t axis, int64_t block)
{
	struct rlx_type s = op_type(g, v);
	int64_t post;
	uint32_t ax = 0;

	if (!block && s.rank <= 1 && rlx_type_count(&s) == 1)
		return op_reshape(g, v, NULL, 0);
	op_axis(axis, x->rank, &ax);
	if (!block)
		return op_quant_along(g, v, ax, x->rank, s.dtype);
	post = shape_span(x, ax + 1, x->rank);
	v = op_reshape(g, v, (int64_t[]){ shape_span(x, 0, ax), s.dim[ax], 1, post }, 4);
	v = rlx_emit(g, tile, .x = v, .repeats = RLX_INTS(1, 1, block, 1));
	s.dim[ax] *= block;
	v = op_reshape(g, v, s.dim, s.rank);
	return rlx_emit(g, slice, .x = v, .axes = RLX_INTS(ax), .starts = RLX_INTS(0),
			.ends = RLX_INTS(x->dim[ax]));
}

double op_fake_most(int32_t bits)
{
	return (double)((1 << (bits - 1)) - 1);
}

/* max(x, c), but c where x is not a number. */
static rlx_value at_least(struct rlx_graph *g, rlx_value x, double c)
{
	rlx_value least = op_const_like(g, x, c);

	return rlx_emit(g, where, .cond = rlx_emit(g, gt, .a = x, .b = least), .a = x,
			.b = least);
}

rlx_value op_fake_step(struct rlx_graph *g, rlx_value s)
{
	return at_least(g, s, 1e-12);
}

rlx_value op_fake_round(struct rlx_graph *g, rlx_value x, rlx_value step, int32_t bits)
{
	double most = op_fake_most(bits);
	rlx_value v = rlx_emit(g, round, .x = rlx_emit(g, div, .a = x, .b = step));

	v = rlx_emit(g, min, .a = at_least(g, v, -most), .b = op_const_like(g, v, most));
	return rlx_emit(g, mul, .a = v, .b = step);
}
