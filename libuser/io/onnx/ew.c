// SPDX-License-Identifier: MIT
/* Pointwise ops: directly an op of ours, or a few lines of them. */
#include <math.h>

#include "io/onnx/handlers.h"

enum rlx_status onnx_unary(struct onnx_op *q)
{
	const struct rlx_op_ref *op = q->row->arg;
	struct rlx_op_neg a = { .x = onnx_in(q, 0) };	/* all have one field, x */

	onnx_attr_of(q, "consumed_inputs");
	onnx_out(q, 0, onnx_emit(q->b, op, &a, sizeof(a)));
	return RLX_OK;
}

/* Before opset 7 the second operand was placed at an axis of the first. */
static rlx_value place(struct onnx_op *q, rlx_value a, rlx_value b)
{
	int64_t axis = onnx_attr_i(q, "axis", -1);
	struct rlx_type ta = onnx_type(q, a), tb = onnx_type(q, b);
	int64_t dim[RLX_MAX_RANK];
	uint32_t i;

	onnx_attr_i(q, "broadcast", 0);
	if (axis < 0 || tb.rank >= ta.rank || axis + tb.rank > ta.rank)
		return b;
	for (i = 0; i < ta.rank; i++)
		dim[i] = i >= axis && i < axis + tb.rank ?
			 tb.dim[i - axis] : 1;
	return onnx_reshape(q, b, ta.rank, dim);
}

static rlx_value binary(struct onnx_op *q, const struct rlx_op_ref *op,
			rlx_value a, rlx_value b)
{
	struct rlx_op_add ab = { .a = a, .b = b };	/* all have these fields */

	return onnx_emit(q->b, op, &ab, sizeof(ab));
}

enum rlx_status onnx_binary(struct onnx_op *q)
{
	rlx_value a = onnx_in(q, 0), b = onnx_in(q, 1);

	onnx_attr_of(q, "consumed_inputs");
	if (q->opset < 7)
		b = place(q, a, b);
	onnx_out(q, 0, binary(q, q->row->arg, a, b));
	return RLX_OK;
}

/* Sum, Max, Min of any number of operands. */
enum rlx_status onnx_variadic(struct onnx_op *q)
{
	rlx_value y = onnx_in(q, 0);
	uint32_t i;

	onnx_attr_of(q, "consumed_inputs");
	for (i = 1; i < q->n_in; i++)
		y = binary(q, q->row->arg, y, onnx_in(q, i));
	onnx_out(q, 0, y);
	return RLX_OK;
}

enum rlx_status onnx_mean(struct onnx_op *q)
{
	rlx_value y = onnx_in(q, 0);
	uint32_t i;

	onnx_attr_of(q, "consumed_inputs");
	for (i = 1; i < q->n_in; i++)
		y = E(q, add, .a = y, .b = onnx_in(q, i));
	onnx_out(q, 0, E(q, div, .a = y,
			 .b = onnx_num(q, onnx_type(q, y).dtype, q->n_in)));
	return RLX_OK;
}

/* The result has the base's type whatever the exponent's. */
enum rlx_status onnx_pow(struct onnx_op *q)
{
	rlx_value a = onnx_in(q, 0), b = onnx_in(q, 1), y;
	enum rlx_dtype dt = onnx_type(q, a).dtype;

	if (q->opset < 7)
		b = place(q, a, b);
	y = E(q, pow, .a = a, .b = b);
	if (onnx_type(q, y).dtype != dt)
		y = E(q, cast, .x = y, .to = dt);
	onnx_out(q, 0, y);
	return RLX_OK;
}

enum rlx_status onnx_mod(struct onnx_op *q)
{
	rlx_value a = onnx_in(q, 0), b = onnx_in(q, 1);

	onnx_out(q, 0, onnx_attr_i(q, "fmod", 0) ?
		 E(q, fmod, .a = a, .b = b) : E(q, mod, .a = a, .b = b));
	return RLX_OK;
}

enum rlx_status onnx_bit_shift(struct onnx_op *q)
{
	static const char *const dir[] = { "LEFT", "RIGHT", NULL };
	rlx_value a = onnx_in(q, 0), b = onnx_in(q, 1);

	onnx_out(q, 0, onnx_attr_enum(q, "direction", dir, 0) ?
		 E(q, shr, .a = a, .b = b) : E(q, shl, .a = a, .b = b));
	return RLX_OK;
}

enum rlx_status onnx_clip(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), lo = RLX_NONE, hi = RLX_NONE;
	enum rlx_dtype dt = onnx_type(q, x).dtype;

	onnx_attr_of(q, "consumed_inputs");
	if (q->opset >= 11) {
		lo = onnx_in(q, 1);
		hi = onnx_in(q, 2);
	} else {
		if (onnx_has(q, "min"))
			lo = onnx_num(q, dt, onnx_attr_f(q, "min", 0));
		if (onnx_has(q, "max"))
			hi = onnx_num(q, dt, onnx_attr_f(q, "max", 0));
	}
	if (lo.id)
		x = E(q, max, .a = x, .b = lo);
	if (hi.id)
		x = E(q, min, .a = x, .b = hi);
	onnx_out(q, 0, x);
	return RLX_OK;
}

rlx_value onnx_scale(struct onnx_op *q, rlx_value x, double k)
{
	if (k == 1)
		return x;
	return E(q, mul, .a = x, .b = onnx_num(q, onnx_type(q, x).dtype, k));
}

rlx_value onnx_shift(struct onnx_op *q, rlx_value x, double k)
{
	if (k == 0)
		return x;
	return E(q, add, .a = x, .b = onnx_num(q, onnx_type(q, x).dtype, k));
}

static rlx_value zero(struct onnx_op *q, rlx_value x)
{
	return onnx_num(q, onnx_type(q, x).dtype, 0);
}

enum rlx_status onnx_leaky_relu(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 0.01f);
	rlx_value x = onnx_in(q, 0);

	onnx_attr_of(q, "consumed_inputs");
	onnx_out(q, 0, E(q, where, .cond = E(q, ge, .a = x, .b = zero(q, x)),
			 .a = x, .b = onnx_scale(q, x, alpha)));
	return RLX_OK;
}

/* gamma (max(x, 0) + alpha expm1(min(x, 0))) */
static rlx_value elu(struct onnx_op *q, rlx_value x, double alpha, double gamma)
{
	rlx_value e = E(q, expm1, .x = E(q, min, .a = x, .b = zero(q, x)));
	rlx_value neg = onnx_scale(q, e, alpha);

	return onnx_scale(q, E(q, add, .a = E(q, relu, .x = x), .b = neg),
			  gamma);
}

enum rlx_status onnx_elu(struct onnx_op *q)
{
	onnx_attr_of(q, "consumed_inputs");
	onnx_out(q, 0, elu(q, onnx_in(q, 0), onnx_attr_f(q, "alpha", 1), 1));
	return RLX_OK;
}

enum rlx_status onnx_selu(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", q->opset < 6 ? 1.6732f :
				   1.67326319217681884765625);
	double gamma = onnx_attr_f(q, "gamma", q->opset < 6 ? 1.0507f :
				   1.05070102214813232421875);

	onnx_attr_of(q, "consumed_inputs");
	onnx_out(q, 0, elu(q, onnx_in(q, 0), alpha, gamma));
	return RLX_OK;
}

/* max(x, 0) + alpha expm1(min(x, 0) / alpha) */
enum rlx_status onnx_celu(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 1);
	rlx_value x = onnx_in(q, 0), e;

	e = E(q, min, .a = x, .b = zero(q, x));
	e = onnx_scale(q, E(q, expm1, .x = onnx_scale(q, e, 1 / alpha)), alpha);
	onnx_out(q, 0, E(q, add, .a = E(q, relu, .x = x), .b = e));
	return RLX_OK;
}

enum rlx_status onnx_hard_sigmoid(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 0.2f);
	double beta = onnx_attr_f(q, "beta", 0.5);
	rlx_value x = onnx_in(q, 0);

	onnx_attr_of(q, "consumed_inputs");
	x = onnx_shift(q, onnx_scale(q, x, alpha), beta);
	x = E(q, max, .a = x, .b = zero(q, x));
	onnx_out(q, 0, E(q, min, .a = x,
			 .b = onnx_num(q, onnx_type(q, x).dtype, 1)));
	return RLX_OK;
}

enum rlx_status onnx_prelu(struct onnx_op *q)
{
	rlx_value x = onnx_in(q, 0), slope = onnx_in(q, 1);
	struct rlx_type tx = onnx_type(q, x), ts = onnx_type(q, slope);
	int64_t dim[RLX_MAX_RANK];
	uint32_t i;

	onnx_attr_of(q, "consumed_inputs");
	if (q->opset < 7 && ts.rank == 1 && ts.dim[0] != 1 && tx.rank > 1) {
		for (i = 0; i + 1 < tx.rank; i++)
			dim[i] = i ? 1 : ts.dim[0];
		slope = onnx_reshape(q, slope, tx.rank - 1, dim);
	}
	onnx_out(q, 0, E(q, where, .cond = E(q, lt, .a = x, .b = zero(q, x)),
			 .a = E(q, mul, .a = x, .b = slope), .b = x));
	return RLX_OK;
}

enum rlx_status onnx_shrink(struct onnx_op *q)
{
	double lambda = onnx_attr_f(q, "lambd", 0.5);
	double bias = onnx_attr_f(q, "bias", 0);
	rlx_value x = onnx_in(q, 0), f, y;
	enum rlx_dtype dt = onnx_type(q, x).dtype, by;

	/* Integers need not have lambd and bias, nor their negatives. */
	by = rlx_dtype_is_int(dt) ? RLX_F64 : dt;
	f = by == dt ? x : E(q, cast, .x = x, .to = by);
	y = E(q, where, .cond = E(q, gt, .a = f, .b = onnx_num(q, by, lambda)),
	      .a = onnx_shift(q, f, -bias), .b = zero(q, f));
	y = E(q, where, .cond = E(q, lt, .a = f, .b = onnx_num(q, by, -lambda)),
	      .a = onnx_shift(q, f, bias), .b = y);
	onnx_out(q, 0, by == dt ? y : E(q, cast, .x = y, .to = dt));
	return RLX_OK;
}

enum rlx_status onnx_thresholded_relu(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", 1);
	rlx_value x = onnx_in(q, 0);
	rlx_value c = onnx_num(q, onnx_type(q, x).dtype, alpha);

	onnx_out(q, 0, E(q, where, .cond = E(q, gt, .a = x, .b = c), .a = x,
			 .b = zero(q, x)));
	return RLX_OK;
}

enum rlx_status onnx_gelu(struct onnx_op *q)
{
	static const char *const how[] = { "none", "tanh", NULL };
	rlx_value x = onnx_in(q, 0);

	onnx_out(q, 0, onnx_attr_enum(q, "approximate", how, 0) ?
		 E(q, gelu_tanh, .x = x) : E(q, gelu, .x = x));
	return RLX_OK;
}

/* x sigmoid(alpha x) */
enum rlx_status onnx_swish(struct onnx_op *q)
{
	double alpha = onnx_attr_f(q, "alpha", q->row->arg ? 1.702f : 1);
	rlx_value x = onnx_in(q, 0);

	onnx_out(q, 0, alpha == 1 ? E(q, silu, .x = x) :
		 E(q, mul, .a = x,
		   .b = E(q, sigmoid, .x = onnx_scale(q, x, alpha))));
	return RLX_OK;
}

enum rlx_status onnx_is_inf(struct onnx_op *q)
{
	bool neg = onnx_attr_i(q, "detect_negative", 1);
	bool pos = onnx_attr_i(q, "detect_positive", 1);
	rlx_value x = onnx_in(q, 0), y = E(q, is_inf, .x = x);

	if (!neg)
		y = E(q, bit_and, .a = y,
		      .b = E(q, gt, .a = x, .b = zero(q, x)));
	if (!pos)
		y = E(q, bit_and, .a = y,
		      .b = E(q, lt, .a = x, .b = zero(q, x)));
	onnx_out(q, 0, y);
	return RLX_OK;
}

enum rlx_status onnx_where(struct onnx_op *q)
{
	onnx_out(q, 0, E(q, where, .cond = onnx_in(q, 0), .a = onnx_in(q, 1),
			 .b = onnx_in(q, 2)));
	return RLX_OK;
}

enum rlx_status onnx_identity(struct onnx_op *q)
{
	if (q->n_in && q->n_out)
		q->out[0] = q->in[0];
	return RLX_OK;
}
