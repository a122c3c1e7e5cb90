// SPDX-License-Identifier: MIT
/* How each op is said in ONNX, opset 20. Pointwise ones are rows, the others functions. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/onnx/write.h"

static const struct rlx_type *type_of(const struct onnx_writer *w, uint32_t id)
{
	return &w->g->val[id].type;
}

static void put_cast(struct onnx_writer *w, struct onnx_name x, enum rlx_dtype to,
		     struct onnx_name out)
{
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, x);
	onnxw_put_out(&q, out);
	onnxw_put_i(&q, "to", onnx_dtype_of(to));
	onnxw_end(&q, "Cast");
}

/* Value @id in dtype @dt: itself, or behind a Cast. */
static struct onnx_name as(struct onnx_writer *w, uint32_t id, enum rlx_dtype dt)
{
	struct onnx_name v = onnxw_value(w, id), to;

	if (!id || type_of(w, id)->dtype == dt)
		return v;
	to = onnxw_fresh(w);
	put_cast(w, v, dt, to);
	return to;
}

/* A node with these inputs whose output is @out. */
static void simple(struct onnx_writer *w, const char *op, struct onnx_name a,
		   const struct onnx_name *b, struct onnx_name out)
{
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, a);
	if (b)
		onnxw_put_in(&q, *b);
	onnxw_put_out(&q, out);
	onnxw_end(&q, op);
}

/* ---- pointwise ---- */

/*
 * @boolean: the operator's name where operands are bool, or the only one there is for them.
 * @then: behind it, with the input once more as @with_input.
 */
struct pointwise {
	uint16_t	 op;
	const char	*name, *boolean, *then;
	bool		 with_input;
};
static const struct pointwise rows[] = {
	{ RLX_OP_abs, "Abs" }, { RLX_OP_acos, "Acos" }, { RLX_OP_acosh, "Acosh" },
	{ RLX_OP_asin, "Asin" }, { RLX_OP_asinh, "Asinh" }, { RLX_OP_atan, "Atan" },
	{ RLX_OP_atanh, "Atanh" }, { RLX_OP_bit_not, "BitwiseNot" }, { RLX_OP_ceil, "Ceil" },
	{ RLX_OP_cos, "Cos" }, { RLX_OP_cosh, "Cosh" }, { RLX_OP_erf, "Erf" },
	{ RLX_OP_exp, "Exp" }, { RLX_OP_floor, "Floor" }, { RLX_OP_gelu, "Gelu" },
	{ RLX_OP_gelu_tanh, "Gelu" }, { RLX_OP_hard_swish, "HardSwish" },
	{ RLX_OP_is_inf, "IsInf" }, { RLX_OP_is_nan, "IsNaN" }, { RLX_OP_log, "Log" },
	{ RLX_OP_logical_not, "Not", "Not" }, { RLX_OP_mish, "Mish" }, { RLX_OP_neg, "Neg" },
	{ RLX_OP_recip, "Reciprocal" }, { RLX_OP_relu, "Relu" }, { RLX_OP_round, "Round" },
	{ RLX_OP_rsqrt, "Sqrt", NULL, "Reciprocal" }, { RLX_OP_sigmoid, "Sigmoid" },
	{ RLX_OP_sign, "Sign" }, { RLX_OP_silu, "Sigmoid", NULL, "Mul", true },
	{ RLX_OP_sin, "Sin" }, { RLX_OP_sinh, "Sinh" }, { RLX_OP_softplus, "Softplus" },
	{ RLX_OP_softsign, "Softsign" }, { RLX_OP_sqrt, "Sqrt" }, { RLX_OP_tan, "Tan" },
	{ RLX_OP_tanh, "Tanh" }, { RLX_OP_stop_gradient, "Identity", "Identity" },
	{ RLX_OP_add, "Add" }, { RLX_OP_sub, "Sub" }, { RLX_OP_mul, "Mul" },
	{ RLX_OP_div, "Div" }, { RLX_OP_max, "Max" }, { RLX_OP_min, "Min" },
	{ RLX_OP_pow, "Pow" }, { RLX_OP_fmod, "Mod" },
	{ RLX_OP_eq, "Equal", "Equal" }, { RLX_OP_ne, "Equal", "Equal", "Not" },
	{ RLX_OP_ge, "GreaterOrEqual" }, { RLX_OP_gt, "Greater" },
	{ RLX_OP_le, "LessOrEqual" }, { RLX_OP_lt, "Less" },
	{ RLX_OP_bit_and, "BitwiseAnd", "And" }, { RLX_OP_bit_or, "BitwiseOr", "Or" },
	{ RLX_OP_bit_xor, "BitwiseXor", "Xor" },
};

static const struct pointwise *row_of(const struct rlx_node *n)
{
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].op == n->def->index)
			return &rows[i];
	return NULL;
}

static void write_pointwise(struct onnx_writer *w, const struct rlx_node *n,
			    const struct pointwise *r)
{
	enum rlx_dtype dt = type_of(w, n->in[0])->dtype;
	struct onnx_name out = onnxw_value(w, n->out), first = out, a;
	struct onnx_put q;
	const char *name;

	if (n->n_in > 1)
		dt = rlx_dtype_promote(dt, type_of(w, n->in[1])->dtype);
	name = dt == RLX_BOOL ? r->boolean : r->name;
	if (!name) {
		w->st = rlx_fail(w->err, RLX_ENOSUP, "onnx: %s of %s cannot be said", n->def->name,
				 rlx_dtype_name(dt));
		return;
	}
	a = as(w, n->in[0], dt);
	if (r->then)
		first = onnxw_fresh(w);
	q = onnxw_begin(w);
	onnxw_put_in(&q, a);
	if (n->n_in > 1) {
		struct onnx_name b = as(w, n->in[1], dt);

		onnxw_put_in(&q, b);
	}
	onnxw_put_out(&q, first);
	if (r->op == RLX_OP_gelu_tanh)
		onnxw_put_s(&q, "approximate", "tanh");
	if (r->op == RLX_OP_fmod)
		onnxw_put_i(&q, "fmod", 1);
	onnxw_end(&q, name);
	if (r->then)
		simple(w, r->then, first, r->with_input ? &a : NULL, out);
}

static void write_where(struct onnx_writer *w, const struct rlx_node *n)
{
	enum rlx_dtype dt = type_of(w, n->out)->dtype;
	struct onnx_name a = as(w, n->in[1], dt), b = as(w, n->in[2], dt);
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_in(&q, a);
	onnxw_put_in(&q, b);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_end(&q, "Where");
}

static struct onnx_name scalar(struct onnx_writer *w, double x)
{
	return onnxw_tensor_owned(w, rlx_scalar(RLX_F64), rlx_memdup(&x, sizeof(x)));
}

/*
 * What floats beyond an integer's range become ONNX leaves open: they are clamped to it, in f64,
 * which has all of f32's, and NaN made 0. The largest f64 below 2^63 and 2^64 are their ends.
 */
static struct onnx_name clamped(struct onnx_writer *w, struct onnx_name x, enum rlx_dtype to)
{
	bool is_signed = to == RLX_I64 || to == RLX_I32 || to == RLX_I16 || to == RLX_I8;
	int bits = 8 * (int)rlx_dtype_size(to) - is_signed;
	double top = bits > 53 ? ldexp(1 - 0x1p-53, bits) : ldexp(1, bits) - 1;
	struct onnx_name in[3] = { x, scalar(w, is_signed ? -ldexp(1, bits) : 0), scalar(w, top) };
	struct onnx_name nan = onnxw_fresh(w), zero = scalar(w, 0), v = onnxw_fresh(w);
	struct onnx_put q;
	int i;

	simple(w, "IsNaN", x, NULL, nan);
	q = onnxw_begin(w);
	onnxw_put_in(&q, nan);
	onnxw_put_in(&q, zero);
	onnxw_put_in(&q, x);
	onnxw_put_out(&q, v);
	onnxw_end(&q, "Where");
	in[0] = v;
	v = onnxw_fresh(w);
	q = onnxw_begin(w);
	for (i = 0; i < 3; i++)
		onnxw_put_in(&q, in[i]);
	onnxw_put_out(&q, v);
	onnxw_end(&q, "Clip");
	return v;
}

static void write_cast(struct onnx_writer *w, const struct rlx_node *n)
{
	enum rlx_dtype from = type_of(w, n->in[0])->dtype, to = type_of(w, n->out)->dtype;
	struct onnx_name x = onnxw_value(w, n->in[0]);

	if (rlx_dtype_is_float(from) && rlx_dtype_is_int(to))
		x = clamped(w, as(w, n->in[0], RLX_F64), to);
	put_cast(w, x, to, onnxw_value(w, n->out));
}

/* ---- moving ---- */

/* A node whose second input is a list of numbers. */
static void with_list(struct onnx_writer *w, const char *op, const struct rlx_node *n,
		      const int64_t *v, uint32_t len)
{
	struct onnx_name list = onnxw_list(w, v, len);

	simple(w, op, onnxw_value(w, n->in[0]), &list, onnxw_value(w, n->out));
}

static void write_reshape(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_type *t = type_of(w, n->out);
	struct onnx_name shape = onnxw_list(w, t->dim, t->rank);
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_in(&q, shape);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "allowzero", 1);
	onnxw_end(&q, "Reshape");
}

static void write_expand(struct onnx_writer *w, const struct rlx_node *n)
{
	with_list(w, "Expand", n, type_of(w, n->out)->dim, type_of(w, n->out)->rank);
}

static void write_tile(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_tile *a = n->args;

	with_list(w, "Tile", n, a->repeats.v, a->repeats.n);
}

static void write_transpose(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_transpose *a = n->args;
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	if (a->perm.n)
		onnxw_put_ints(&q, "perm", a->perm.v, a->perm.n);
	onnxw_end(&q, "Transpose");
}

static void write_concat(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_concat *a = n->args;
	struct onnx_put q = onnxw_begin(w);
	uint32_t i;

	for (i = 0; i < n->n_in; i++)
		onnxw_put_in(&q, onnxw_value(w, n->in[i]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "axis", a->axis);
	onnxw_end(&q, "Concat");
}

static void write_slice(struct onnx_writer *w, const struct rlx_node *n)
{
	static const int64_t first[RLX_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	static const int64_t one[RLX_MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	const struct rlx_op_slice *a = n->args;
	uint32_t k = a->starts.n;
	struct onnx_name in[4];
	struct onnx_put q;
	int i;

	if (!k) {		/* runtimes refuse it of scalars */
		simple(w, "Identity", onnxw_value(w, n->in[0]), NULL, onnxw_value(w, n->out));
		return;
	}
	in[0] = onnxw_list(w, a->starts.v, k);
	in[1] = onnxw_list(w, a->ends.v, k);
	in[2] = onnxw_list(w, a->axes.n ? a->axes.v : first, k);
	in[3] = onnxw_list(w, a->steps.n ? a->steps.v : one, k);
	q = onnxw_begin(w);
	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	for (i = 0; i < 4; i++)
		onnxw_put_in(&q, in[i]);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_end(&q, "Slice");
}

static void write_gather(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_gather *a = n->args;
	enum rlx_dtype dt = type_of(w, n->in[1])->dtype;
	struct onnx_name at = as(w, n->in[1], dt == RLX_U32 ? RLX_I64 : dt);
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_in(&q, at);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "axis", a->axis);
	onnxw_end(&q, "Gather");
}

static void write_pad(struct onnx_writer *w, const struct rlx_node *n)
{
	static const char *const mode[] = { "constant", "reflect", "edge", "wrap" };
	const struct rlx_op_pad *a = n->args;
	struct onnx_name pads = onnxw_list(w, a->pads.v, a->pads.n), value = { .leaf = NULL };
	struct onnx_put q;

	if (n->in[1]) {		/* of one element, where ONNX wants a scalar */
		struct onnx_name none = onnxw_list(w, NULL, 0);

		value = onnxw_fresh(w);
		simple(w, "Reshape", onnxw_value(w, n->in[1]), &none, value);
	}
	q = onnxw_begin(w);
	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_in(&q, pads);
	if (n->in[1])
		onnxw_put_in(&q, value);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_s(&q, "mode", mode[a->mode]);
	onnxw_end(&q, "Pad");
}

/* Its numbers, which are known now. */
static void write_iota(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_iota *a = n->args;
	struct rlx_type t = a->type;
	int32_t axis = a->axis < 0 ? a->axis + (int32_t)t.rank : a->axis;
	int64_t count = rlx_type_count(&t), inner = 1, i;
	void *x = rlx_malloc(((size_t)count + 1) * sizeof(double));
	bool whole = rlx_dtype_is_int(t.dtype);
	struct onnx_name numbers;
	uint32_t d;

	for (d = (uint32_t)axis + 1; d < t.rank; d++)
		inner *= t.dim[d];
	for (i = 0; x && i < count; i++) {
		int64_t at = t.rank ? i / inner % t.dim[axis] : 0;

		if (whole)	/* which wrap */
			((uint64_t *)x)[i] = (uint64_t)(int64_t)a->start +
					     (uint64_t)(int64_t)a->step * (uint64_t)at;
		else
			((double *)x)[i] = a->start + a->step * (double)at;
	}
	t.dtype = whole ? RLX_I64 : RLX_F64;
	numbers = onnxw_tensor_owned(w, t, x);
	put_cast(w, numbers, a->type.dtype, onnxw_value(w, n->out));
}

/* ---- computing ---- */

static void write_matmul(struct onnx_writer *w, const struct rlx_node *n)
{
	enum rlx_dtype dt = type_of(w, n->out)->dtype;
	struct onnx_name a = as(w, n->in[0], dt), b = as(w, n->in[1], dt);

	simple(w, "MatMul", a, &b, onnxw_value(w, n->out));
}

static void write_reduce(struct onnx_writer *w, const struct rlx_node *n)
{
	static const char *const op[] = { "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
					  "ReduceProd" };
	const struct rlx_op_reduce *a = n->args;
	struct onnx_name axes = onnxw_list(w, a->axes.v, a->axes.n);
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	if (a->axes.n)
		onnxw_put_in(&q, axes);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "keepdims", a->keep_dims);
	onnxw_end(&q, op[a->kind]);
}

static void write_arg_reduce(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_arg_reduce *a = n->args;
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "axis", a->axis);
	onnxw_put_i(&q, "keepdims", a->keep_dims);
	onnxw_put_i(&q, "select_last_index", a->last_index);
	onnxw_end(&q, a->min ? "ArgMin" : "ArgMax");
}

static void write_softmax(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_softmax *a = n->args;	/* log_softmax has the same */
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "axis", a->axis);
	onnxw_end(&q, n->def->index == RLX_OP_softmax ? "Softmax" : "LogSoftmax");
}

static void write_layer_norm(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_layer_norm *a = n->args;
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_in(&q, onnxw_value(w, n->in[1]));
	if (n->in[2])
		onnxw_put_in(&q, onnxw_value(w, n->in[2]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_i(&q, "axis", a->axis);
	onnxw_put_f(&q, "epsilon", a->eps);
	onnxw_end(&q, "LayerNormalization");
}

static void write_batch_norm(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_batch_norm *a = n->args;
	struct onnx_put q = onnxw_begin(w);
	uint32_t i;

	for (i = 0; i < 5; i++)
		onnxw_put_in(&q, onnxw_value(w, n->in[i]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_f(&q, "epsilon", a->eps);
	onnxw_end(&q, "BatchNormalization");
}

static void put_window(struct onnx_put *q, struct rlx_ints stride, struct rlx_ints pad,
		       struct rlx_ints dilation)
{
	if (stride.n)
		onnxw_put_ints(q, "strides", stride.v, stride.n);
	if (pad.n)
		onnxw_put_ints(q, "pads", pad.v, pad.n);
	if (dilation.n)
		onnxw_put_ints(q, "dilations", dilation.v, dilation.n);
}

static void write_conv(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_conv *a = n->args;
	enum rlx_dtype dt = type_of(w, n->out)->dtype;
	struct onnx_name in[3];
	struct onnx_put q;
	uint32_t i;

	for (i = 0; i < 3; i++)
		in[i] = as(w, n->in[i], dt);
	q = onnxw_begin(w);
	for (i = 0; i < (n->in[2] ? 3u : 2u); i++)
		onnxw_put_in(&q, in[i]);
	onnxw_put_out(&q, onnxw_value(w, n->out));
	put_window(&q, a->stride, a->pad, a->dilation);
	onnxw_put_i(&q, "group", a->groups);
	onnxw_end(&q, "Conv");
}

static void write_pool(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct rlx_op_pool *a = n->args;
	struct onnx_put q = onnxw_begin(w);

	onnxw_put_in(&q, onnxw_value(w, n->in[0]));
	onnxw_put_out(&q, onnxw_value(w, n->out));
	onnxw_put_ints(&q, "kernel_shape", a->kernel.v, a->kernel.n);
	put_window(&q, a->stride, a->pad, a->dilation);
	onnxw_put_i(&q, "ceil_mode", a->ceil);
	if (a->kind == RLX_POOL_AVG)
		onnxw_put_i(&q, "count_include_pad", a->include_pad);
	onnxw_end(&q, a->kind == RLX_POOL_AVG ? "AveragePool" : "MaxPool");
}

/* ---- which there are ---- */

static const struct {
	uint16_t	op;
	void		(*write)(struct onnx_writer *w, const struct rlx_node *n);
} rules[] = {
	{ RLX_OP_where, write_where }, { RLX_OP_cast, write_cast },
	{ RLX_OP_reshape, write_reshape }, { RLX_OP_expand, write_expand },
	{ RLX_OP_tile, write_tile }, { RLX_OP_transpose, write_transpose },
	{ RLX_OP_concat, write_concat }, { RLX_OP_slice, write_slice },
	{ RLX_OP_gather, write_gather }, { RLX_OP_pad, write_pad }, { RLX_OP_iota, write_iota },
	{ RLX_OP_matmul, write_matmul }, { RLX_OP_reduce, write_reduce },
	{ RLX_OP_arg_reduce, write_arg_reduce }, { RLX_OP_softmax, write_softmax },
	{ RLX_OP_log_softmax, write_softmax }, { RLX_OP_layer_norm, write_layer_norm },
	{ RLX_OP_batch_norm, write_batch_norm }, { RLX_OP_conv, write_conv },
	{ RLX_OP_pool, write_pool },
};

/* LayerNormalization has a scale of just the dimensions that are normalised, and no f64 sums. */
static bool plain_layer_norm(const struct rlx_graph *g, const struct rlx_node *n)
{
	const struct rlx_op_layer_norm *a = n->args;
	const struct rlx_type *x = &g->val[n->in[0]].type;
	uint32_t ax = (uint32_t)(a->axis < 0 ? a->axis + (int32_t)x->rank : a->axis), i, d;

	for (i = 1; i < 3; i++) {
		const struct rlx_type *t = &g->val[n->in[i]].type;

		if (!n->in[i] && i == 2)
			continue;
		if (!n->in[i] || t->rank != x->rank - ax || t->dtype != x->dtype)
			return false;
		for (d = 0; d < t->rank; d++)
			if (t->dim[d] != x->dim[ax + d])
				return false;
	}
	return !a->stats;
}

static bool plain_batch_norm(const struct rlx_graph *g, const struct rlx_node *n)
{
	uint32_t i;

	for (i = 1; i < 5; i++)
		if (g->val[n->in[i]].type.dtype != g->val[n->in[0]].type.dtype)
			return false;
	return true;
}

/* Reflected and wrapped once at most, which is all that runtimes agree on. */
static bool plain_pad(const struct rlx_graph *g, const struct rlx_node *n)
{
	const struct rlx_op_pad *a = n->args;
	const struct rlx_type *x = &g->val[n->in[0]].type;
	uint32_t i;

	for (i = 0; i < a->pads.n; i++) {
		int64_t d = x->dim[i % x->rank];

		if ((a->mode == RLX_PAD_REFLECT && (a->pads.v[i] >= d || a->pads.v[i] < 0)) ||
		    (a->mode == RLX_PAD_WRAP && (a->pads.v[i] > d || a->pads.v[i] < 0)))
			return false;
	}
	return true;
}

bool onnx_can_write(void *ctx, const struct rlx_node *n)
{
	const struct rlx_op_pool *pool = n->args;
	const struct rlx_graph *g = ctx;
	size_t i;

	if (n->def->index == RLX_OP_layer_norm)
		return plain_layer_norm(ctx, n);
	if (n->def->index == RLX_OP_batch_norm)
		return plain_batch_norm(ctx, n);
	if (n->def->index == RLX_OP_pad)
		return plain_pad(ctx, n);
	if (n->def->index == RLX_OP_conv)
		return rlx_dtype_is_float(g->val[n->out].type.dtype);
	if (n->def->index == RLX_OP_pool)
		return pool->kind != RLX_POOL_LP && !pool->indices;
	for (i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (rules[i].op == n->def->index)
			return true;
	return row_of(n);
}

void onnx_write_node(struct onnx_writer *w, const struct rlx_node *n)
{
	const struct pointwise *r = row_of(n);
	size_t i;

	if (!onnx_can_write((void *)(uintptr_t)w->g, n)) {
		w->st = rlx_fail(w->err, RLX_ENOSUP, "onnx: op '%s' cannot be said in ONNX, and "
				 "stands for nothing that can", n->def->name);
		return;
	}
	if (r) {
		write_pointwise(w, n, r);
		return;
	}
	for (i = 0; rules[i].op != n->def->index; i++)
		;
	rules[i].write(w, n);
}
