// SPDX-License-Identifier: MIT
/* Shapes: reshaping, joining, cutting and filling. */
#include <math.h>

#include "base/alloc.h"
#include "io/onnx/handlers.h"
#include "ir/dims.h"

rlx_value onnx_reshape(struct onnx_op *q, rlx_value x, uint32_t rank,
		       const int64_t *dim)
{
	return E(q, reshape, .x = x, .shape = { dim, rank });
}

rlx_value onnx_ints_const(struct onnx_op *q, const int64_t *v, uint32_t n)
{
	static const int64_t none;

	return rlx_constant(q->b->ctx->g, rlx_type(RLX_I64, n), v ? v : &none);
}

enum rlx_status onnx_axis(struct onnx_op *q, int64_t axis, uint32_t rank,
			  uint32_t *out)
{
	*out = 0;
	if (axis < -(int64_t)rank || axis >= (int64_t)rank)
		return op_err(q, RLX_ESHAPE, "axis %lld of a tensor of rank %u",
			      (long long)axis, rank);
	*out = (uint32_t)(axis < 0 ? axis + rank : axis);
	return RLX_OK;
}

/* The list that is an input from @since on and an attribute before. */
enum rlx_status onnx_list(struct onnx_op *q, const char *name, uint32_t input,
			  int64_t since, struct rlx_ints *out)
{
	*out = (struct rlx_ints){ 0 };
	if (q->opset >= since)
		return onnx_ints(q, input, &out->v, &out->n);
	*out = onnx_attr_ints(q, name);
	return RLX_OK;
}

enum rlx_status onnx_do_reshape(struct onnx_op *q)
{
	bool zero = onnx_attr_i(q, "allowzero", 0);
	int64_t dim[RLX_MAX_RANK], rest = 1, total;
	struct rlx_ints shape;
	enum rlx_status st;
	struct rlx_type t;
	int infer = -1;
	uint32_t i;

	onnx_attr_of(q, "consumed_inputs");
	st = onnx_list(q, "shape", 1, 5, &shape);
	if (st)
		return st;
	t = onnx_type(q, onnx_in(q, 0));
	if (shape.n > RLX_MAX_RANK)
		return op_err(q, RLX_ENOSUP, "rank %u is over %d", shape.n,
			      RLX_MAX_RANK);
	for (i = 0; i < shape.n; i++) {
		dim[i] = shape.v[i];
		if (!dim[i] && !zero) {
			if (i >= t.rank)
				return op_err(q, RLX_ESHAPE, "dim %u is 0, "
					      "'as in the input', which has "
					      "rank %u", i, t.rank);
			dim[i] = t.dim[i];
		}
		if (dim[i] == -1 && infer < 0)
			infer = (int)i;
		else if (dim[i] < 0 || __builtin_mul_overflow(rest, dim[i],
							      &rest))
			return op_err(q, RLX_ESHAPE, "dim %u is %lld", i,
				      (long long)dim[i]);
	}
	total = rlx_type_count(&t);
	if (infer >= 0)
		dim[infer] = rest ? total / rest : 0;
	onnx_out(q, 0, onnx_reshape(q, onnx_in(q, 0), shape.n, dim));
	return RLX_OK;
}

/* Products of the dims before @axis and from it on; an empty tensor's wrap. */
void onnx_fold_dims(const struct rlx_type *t, uint32_t axis, int64_t dim[2])
{
	uint64_t p[2] = { 1, 1 };
	uint32_t i;

	for (i = 0; i < t->rank; i++)
		p[i >= axis] *= (uint64_t)t->dim[i];
	dim[0] = (int64_t)p[0];
	dim[1] = (int64_t)p[1];
}

enum rlx_status onnx_flatten(struct onnx_op *q)
{
	int64_t axis = onnx_attr_i(q, "axis", 1), dim[2];
	rlx_value x = onnx_in(q, 0);
	struct rlx_type t = onnx_type(q, x);

	if (axis < 0)
		axis += t.rank;
	if (axis < 0 || axis > t.rank)
		return op_err(q, RLX_ESHAPE, "axis %lld of a tensor of rank %u",
			      (long long)axis, t.rank);
	onnx_fold_dims(&t, (uint32_t)axis, dim);
	onnx_out(q, 0, onnx_reshape(q, x, 2, dim));
	return RLX_OK;
}

/* Bit mask of axes of a tensor of @rank. */
enum rlx_status onnx_axes(struct onnx_op *q, struct rlx_ints axes,
			  uint32_t rank, uint32_t *mask)
{
	enum rlx_status st;
	uint32_t i, a;

	*mask = 0;
	for (i = 0; i < axes.n; i++) {
		st = onnx_axis(q, axes.v[i], rank, &a);
		if (st)
			return st;
		if (*mask & 1u << a)
			return op_err(q, RLX_ESHAPE, "axis %u is given twice",
				      a);
		*mask |= 1u << a;
	}
	return RLX_OK;
}

enum rlx_status onnx_squeeze(struct onnx_op *q)
{
	int64_t dim[RLX_MAX_RANK];
	struct rlx_ints axes;
	enum rlx_status st;
	struct rlx_type t;
	uint32_t i, n = 0, mask;
	bool all;

	st = onnx_list(q, "axes", 1, 13, &axes);
	if (st)
		return st;
	all = q->opset >= 13 ? !onnx_given(q, 1) : !onnx_has(q, "axes");
	t = onnx_type(q, onnx_in(q, 0));
	st = onnx_axes(q, axes, t.rank, &mask);
	if (st)
		return st;
	for (i = 0; i < t.rank; i++) {
		if (mask & 1u << i && t.dim[i] != 1)
			return op_err(q, RLX_ESHAPE, "dim %u is %lld, not 1",
				      i, (long long)t.dim[i]);
		if (all ? t.dim[i] != 1 : !(mask & 1u << i))
			dim[n++] = t.dim[i];
	}
	onnx_out(q, 0, onnx_reshape(q, onnx_in(q, 0), n, dim));
	return RLX_OK;
}

enum rlx_status onnx_unsqueeze(struct onnx_op *q)
{
	int64_t dim[RLX_MAX_RANK];
	struct rlx_ints axes;
	enum rlx_status st;
	struct rlx_type t;
	uint32_t i, k = 0, rank, mask;

	st = onnx_list(q, "axes", 1, 13, &axes);
	if (st)
		return st;
	t = onnx_type(q, onnx_in(q, 0));
	rank = t.rank + axes.n;
	if (rank > RLX_MAX_RANK)
		return op_err(q, RLX_ENOSUP, "rank %u is over %d", rank,
			      RLX_MAX_RANK);
	st = onnx_axes(q, axes, rank, &mask);
	if (st)
		return st;
	for (i = 0; i < rank; i++)
		dim[i] = mask & 1u << i ? 1 : t.dim[k++];
	onnx_out(q, 0, onnx_reshape(q, onnx_in(q, 0), rank, dim));
	return RLX_OK;
}

enum rlx_status onnx_transpose(struct onnx_op *q)
{
	struct rlx_ints perm = onnx_attr_ints(q, "perm");
	rlx_value x = onnx_in(q, 0);

	onnx_out(q, 0, E(q, transpose, .x = x, .perm = perm));
	return RLX_OK;
}

enum rlx_status onnx_concat(struct onnx_op *q)
{
	rlx_value *v = rlx_bump_new(&q->b->mem, q->n_in, sizeof(*v));
	int32_t axis = onnx_attr_i32(q, "axis", 1);
	uint32_t i;

	if (!v)
		return onnx_nomem(q->b);
	for (i = 0; i < q->n_in; i++)
		v[i] = onnx_in(q, i);
	onnx_out(q, 0, E(q, concat, .axis = axis,
			 .xs = { v, q->n_in }));
	return RLX_OK;
}

/* x[.., from:to, ..] along @axis */
rlx_value onnx_cut(struct onnx_op *q, rlx_value x, uint32_t axis, int64_t from,
		   int64_t to)
{
	return E(q, slice, .x = x, .axes = RLX_INTS(axis),
		 .starts = RLX_INTS(from), .ends = RLX_INTS(to));
}

enum rlx_status onnx_parts(struct onnx_op *q, struct rlx_ints parts, int64_t dim)
{
	int64_t left = dim;
	uint32_t i;

	for (i = 0; i < parts.n; left -= parts.v[i++])
		if (parts.v[i] < 0 || parts.v[i] > left)
			return op_err(q, RLX_ESHAPE, "part %u has length %lld "
				      "of %lld left", i, (long long)parts.v[i],
				      (long long)left);
	if (left)
		return op_err(q, RLX_ESHAPE, "%u parts leave %lld of %lld", parts.n,
			      (long long)left, (long long)dim);
	return RLX_OK;
}

enum rlx_status onnx_split(struct onnx_op *q)
{
	int64_t axis = onnx_attr_i(q, "axis", 0), at = 0, len, dim, chunk;
	uint32_t i, a;
	int64_t n = q->n_out;
	struct rlx_ints parts;
	enum rlx_status st;
	rlx_value x;

	st = onnx_list(q, "split", 1, 13, &parts);
	if (st)
		return st;
	if (q->opset >= 18)
		n = onnx_attr_i(q, "num_outputs", n);
	x = onnx_in(q, 0);
	st = onnx_axis(q, axis, onnx_type(q, x).rank, &a);
	if (st)
		return st;
	if (n < 1 || n > 1 << 30 || (parts.n && parts.n < q->n_out))
		return op_err(q, RLX_EPARSE, "%u lengths for %u outputs",
			      parts.n, q->n_out);
	dim = onnx_type(q, x).dim[a];
	st = parts.n ? onnx_parts(q, parts, dim) : RLX_OK;
	if (st)
		return st;
	/* Without lengths the last part is the smaller one. */
	chunk = dim / n + (dim % n != 0);
	for (i = 0; i < q->n_out; i++, at += len) {
		len = parts.n ? parts.v[i] : chunk < dim - at ? chunk : dim - at;
		onnx_out(q, i, onnx_cut(q, x, a, at, at + len));
	}
	return RLX_OK;
}

/*
 * Starts, ends or steps, of which some are so far in front of everything that a graph has another
 * meaning for them: those just in front of these name the same element, or none. False: no memory.
 */
static bool keep_off_dims(struct onnx_op *q, struct rlx_ints *p)
{
	int64_t *v = rlx_bump_new(&q->b->mem, p->n + 1, sizeof(*v));
	uint32_t i;

	for (i = 0; v && i < p->n; i++)
		v[i] = rlx_is_dim(p->v[i]) ? RLX_DIM_FIRST - 1 : p->v[i];
	p->v = v;
	return v;
}

enum rlx_status onnx_slice(struct onnx_op *q)
{
	struct rlx_ints starts, ends, axes, steps = { 0 };
	enum rlx_status st;

	st = onnx_list(q, "starts", 1, 10, &starts);
	if (!st)
		st = onnx_list(q, "ends", 2, 10, &ends);
	if (!st)
		st = onnx_list(q, "axes", 3, 10, &axes);
	if (!st && q->opset >= 10)
		st = onnx_list(q, "", 4, 10, &steps);
	if (st)
		return st;
	if (!keep_off_dims(q, &starts) || !keep_off_dims(q, &ends) || !keep_off_dims(q, &steps))
		return onnx_nomem(q->b);
	onnx_out(q, 0, E(q, slice, .x = onnx_in(q, 0), .axes = axes,
			 .starts = starts, .ends = ends, .steps = steps));
	return RLX_OK;
}

/* numpy's rule for two shapes; false if they do not fit. */
bool onnx_broadcast(const struct rlx_type *a, const struct rlx_type *b,
		    struct rlx_type *out)
{
	uint32_t r = a->rank > b->rank ? a->rank : b->rank, i;

	*out = (struct rlx_type){ .dtype = a->dtype, .rank = r };
	for (i = 0; i < r; i++) {
		int64_t x = i + a->rank >= r ? a->dim[i + a->rank - r] : 1;
		int64_t y = i + b->rank >= r ? b->dim[i + b->rank - r] : 1;

		if (x != y && x != 1 && y != 1)
			return false;
		out->dim[i] = x == 1 ? y : x;
	}
	return true;
}

enum rlx_status onnx_expand(struct onnx_op *q)
{
	struct rlx_type want = { 0 }, t, out;
	struct rlx_ints shape;
	enum rlx_status st;
	uint32_t i;

	st = onnx_ints(q, 1, &shape.v, &shape.n);
	if (st)
		return st;
	if (shape.n > RLX_MAX_RANK)
		return op_err(q, RLX_ENOSUP, "rank %u is over %d", shape.n,
			      RLX_MAX_RANK);
	want.rank = shape.n;
	for (i = 0; i < shape.n; i++)
		want.dim[i] = shape.v[i];
	t = onnx_type(q, onnx_in(q, 0));
	if (!onnx_broadcast(&t, &want, &out))
		return op_err(q, RLX_ESHAPE, "the input does not broadcast "
			      "with the shape");
	onnx_out(q, 0, E(q, expand, .x = onnx_in(q, 0),
			 .shape = { out.dim, out.rank }));
	return RLX_OK;
}

enum rlx_status onnx_tile(struct onnx_op *q)
{
	struct rlx_ints reps;
	enum rlx_status st = onnx_ints(q, 1, &reps.v, &reps.n);

	if (st)
		return st;
	onnx_out(q, 0, E(q, tile, .x = onnx_in(q, 0), .repeats = reps));
	return RLX_OK;
}

/* Pads of some axes as pads of all: begins, then ends. */
static enum rlx_status pads_of(struct onnx_op *q, struct rlx_ints pads,
			       uint32_t rank, int64_t out[2 * RLX_MAX_RANK])
{
	struct rlx_ints axes = { 0 };
	enum rlx_status st = RLX_OK;
	uint32_t i, a;

	if (q->opset >= 18)
		st = onnx_ints(q, 3, &axes.v, &axes.n);
	if (st)
		return st;
	if (pads.n != 2ull * (axes.n ? axes.n : rank))
		return op_err(q, RLX_ESHAPE, "%u pads for a tensor of rank %u",
			      pads.n, rank);
	for (i = 0; i < 2 * rank; i++)
		out[i] = axes.n ? 0 : pads.v[i];
	for (i = 0; i < axes.n; i++) {
		st = onnx_axis(q, axes.v[i], rank, &a);
		if (st)
			return st;
		out[a] = pads.v[i];
		out[rank + a] = pads.v[axes.n + i];
	}
	return RLX_OK;
}

enum rlx_status onnx_pad(struct onnx_op *q)
{
	static const char *const modes[] = {
		"constant", "reflect", "edge", "wrap", NULL
	};
	int64_t full[2 * RLX_MAX_RANK];
	int mode = onnx_attr_enum(q, "mode", modes, 0);
	rlx_value x, value = RLX_NONE;
	struct rlx_ints pads;
	enum rlx_status st;
	struct rlx_type t;

	st = onnx_list(q, q->opset < 2 ? "paddings" : "pads", 1, 11, &pads);
	if (st)
		return st;
	x = onnx_in(q, 0);
	t = onnx_type(q, x);
	st = pads_of(q, pads, t.rank, full);
	if (st)
		return st;
	if (q->opset >= 11) {
		value = onnx_in(q, 2);
		if (value.id && onnx_type(q, value).rank)
			value = onnx_reshape(q, value, 0, NULL);
	} else if (onnx_has(q, "value")) {
		value = onnx_num(q, t.dtype, onnx_attr_f(q, "value", 0));
	}
	if (mode != RLX_PAD_CONSTANT)
		value = RLX_NONE;
	onnx_out(q, 0, E(q, pad, .x = x, .value = value,
			 .pads = { full, 2 * t.rank }, .mode = mode));
	return RLX_OK;
}

/* The shape is known whatever the contents: no graph is needed. */
static enum rlx_status shape_of(struct onnx_op *q, struct rlx_type *t)
{
	if (!onnx_given(q, 0) || (q->in[0]->kind != RLX_SPEC_TENSOR &&
				  q->in[0]->kind != RLX_SPEC_STRINGS))
		return op_err(q, RLX_ETYPE, "the input is no tensor");
	*t = q->in[0]->type;
	return RLX_OK;
}

static int64_t clamp_axis(int64_t a, uint32_t rank)
{
	if (a < 0)
		a += rank;
	return a < 0 ? 0 : a > rank ? rank : a;
}

enum rlx_status onnx_shape(struct onnx_op *q)
{
	int64_t start = onnx_attr_i(q, "start", 0), end;
	struct rlx_type t;
	enum rlx_status st = shape_of(q, &t);

	if (st)
		return st;
	end = clamp_axis(onnx_attr_i(q, "end", t.rank), t.rank);
	start = clamp_axis(start, t.rank);
	if (end < start)
		end = start;
	onnx_out(q, 0, onnx_ints_const(q, t.dim + start,
				       (uint32_t)(end - start)));
	return RLX_OK;
}

enum rlx_status onnx_size(struct onnx_op *q)
{
	struct rlx_type t;
	enum rlx_status st = shape_of(q, &t);
	uint64_t n = 1;
	uint32_t i;

	if (st)
		return st;
	for (i = 0; i < t.rank; i++)
		n *= (uint64_t)t.dim[i];
	onnx_out(q, 0, rlx_constant(q->b->ctx->g, rlx_scalar(RLX_I64), &n));
	return RLX_OK;
}

enum rlx_status onnx_constant_of_shape(struct onnx_op *q)
{
	const struct onnx_attr *a = onnx_attr_of(q, "value");
	struct rlx_ints shape;
	struct onnx_val *v;
	enum rlx_status st;
	rlx_value x;

	st = onnx_ints(q, 0, &shape.v, &shape.n);
	if (st)
		return st;
	if (a && a->type == ONNX_ATTR_TENSOR) {
		if (a->t->count != 1)
			return op_err(q, RLX_ESHAPE, "value has %llu elements",
				      (unsigned long long)a->t->count);
		v = onnx_val_tensor(q->b, a->t);
		if (!v)
			return q->b->err->status;
		x = onnx_reshape(q, onnx_use(q->b, v), 0, NULL);
	} else {
		x = onnx_num(q, RLX_F32, 0);
	}
	onnx_out(q, 0, E(q, expand, .x = x, .shape = shape));
	return RLX_OK;
}

static void constant_list(struct onnx_op *q, const struct onnx_attr *a)
{
	struct rlx_graph *g = q->b->ctx->g;
	static const int64_t none;

	if (a->type == ONNX_ATTR_INT)
		onnx_out(q, 0, rlx_constant(g, rlx_scalar(RLX_I64), &a->i));
	else if (a->type == ONNX_ATTR_FLOAT)
		onnx_out(q, 0, rlx_constant(g, rlx_scalar(RLX_F32), &a->f));
	else if (a->type == ONNX_ATTR_FLOATS)
		onnx_out(q, 0, rlx_constant(g, rlx_type(RLX_F32,
			 (int64_t)a->nfloats), a->nfloats ?
			 (const void *)a->floats : &none));
	else
		onnx_out(q, 0, rlx_constant(g, rlx_type(RLX_I64,
			 (int64_t)a->nints), a->nints ? a->ints : &none));
}

enum rlx_status onnx_constant(struct onnx_op *q)
{
	static const char *const names[] = {
		"value", "value_int", "value_float", "value_ints",
		"value_floats", "value_string", "value_strings",
	};
	const struct onnx_attr *a = NULL;
	struct onnx_val *v;
	unsigned int i;

	for (i = 0; !a && i < sizeof(names) / sizeof(names[0]); i++)
		a = onnx_attr_of(q, names[i]);
	if (!a || !q->n_out)
		return op_err(q, RLX_ENOSUP, "no value of a known kind");
	if (a->type == ONNX_ATTR_TENSOR) {
		q->out[0] = onnx_val_tensor(q->b, a->t);
	} else if (a->type == ONNX_ATTR_STRING ||
		   a->type == ONNX_ATTR_STRINGS) {
		v = onnx_val_new(q->b, RLX_SPEC_STRINGS);
		if (!v)
			return RLX_ENOMEM;
		v->str = a->type == ONNX_ATTR_STRING ? &a->s : a->strings;
		if (a->type == ONNX_ATTR_STRINGS) {
			v->type.rank = 1;
			v->type.dim[0] = (int64_t)a->nstrings;
		}
		q->out[0] = v;
	} else {
		constant_list(q, a);
	}
	return RLX_OK;
}

enum rlx_status onnx_range(struct onnx_op *q)
{
	struct rlx_type t = { .rank = 1 };
	double v[3], n;
	enum rlx_status st;
	const double *p;
	uint32_t i, k;

	for (i = 0; i < 3; i++) {
		st = onnx_floats(q, i, &p, &k);
		if (st)
			return st;
		if (k != 1)
			return op_err(q, RLX_ESHAPE, "input %u is no scalar",
				      i);
		v[i] = p[0];
	}
	t.dtype = q->in[0]->type.dtype;
	n = ceil((v[1] - v[0]) / v[2]);
	if (!(fabs(n) < 1e15))
		return op_err(q, RLX_ERANGE, "%g to %g in steps of %g", v[0],
			      v[1], v[2]);
	t.dim[0] = n > 0 ? (int64_t)n : 0;
	onnx_out(q, 0, E(q, iota, .type = t, .start = v[0], .step = v[2]));
	return RLX_OK;
}

/* out[i][j] = (j - i == k) */
enum rlx_status onnx_eye_like(struct onnx_op *q)
{
	int64_t k = onnx_attr_i(q, "k", 0), to;
	struct rlx_type t;
	enum rlx_status st = shape_of(q, &t);
	rlx_value row, col;

	if (st)
		return st;
	if (t.rank != 2)
		return op_err(q, RLX_ESHAPE, "rank %u, not 2", t.rank);
	to = onnx_attr_i(q, "dtype", 0);
	if (to)
		t.dtype = onnx_dtype_to_rlx(to);
	row = E(q, iota, .type = rlx_type(RLX_I64, t.dim[0], 1), .axis = 0,
		.start = (double)k, .step = 1);
	col = E(q, iota, .type = rlx_type(RLX_I64, 1, t.dim[1]), .axis = 1,
		.start = 0, .step = 1);
	onnx_out(q, 0, E(q, cast, .x = E(q, eq, .a = row, .b = col),
			 .to = t.dtype));
	return RLX_OK;
}

enum rlx_status onnx_trilu(struct onnx_op *q)
{
	bool upper = onnx_attr_i(q, "upper", 1);
	enum rlx_status st;
	int64_t k;

	st = onnx_int(q, 1, 0, &k);
	if (st)
		return st;
	onnx_out(q, 0, E(q, trilu, .x = onnx_in(q, 0), .upper = upper, .k = k));
	return RLX_OK;
}

enum rlx_status onnx_depth_to_space(struct onnx_op *q)
{
	static const char *const modes[] = { "DCR", "CRD", NULL };
	int64_t s = onnx_attr_i(q, "blocksize", 0);
	bool crd = onnx_attr_enum(q, "mode", modes, 0) == 1;
	rlx_value x = onnx_in(q, 0);
	struct rlx_type t = onnx_type(q, x);
	int64_t c;

	if (t.rank != 4 || s < 1 || s > 1 << 16 || t.dim[1] % (s * s))
		return op_err(q, RLX_ESHAPE, "blocksize %lld does not fit",
			      (long long)s);
	c = t.dim[1] / (s * s);
	if (crd)
		x = E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], c, s, s,
		      t.dim[2], t.dim[3]));
	else
		x = E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], s, s, c,
		      t.dim[2], t.dim[3]));
	x = E(q, transpose, .x = x, .perm = crd ?
	      RLX_INTS(0, 1, 4, 2, 5, 3) : RLX_INTS(0, 3, 4, 1, 5, 2));
	onnx_out(q, 0, E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], c,
			 t.dim[2] * s, t.dim[3] * s)));
	return RLX_OK;
}

enum rlx_status onnx_space_to_depth(struct onnx_op *q)
{
	int64_t s = onnx_attr_i(q, "blocksize", 0), h, w;
	rlx_value x = onnx_in(q, 0);
	struct rlx_type t = onnx_type(q, x);

	if (t.rank != 4 || s < 1 || s > 1 << 16 || t.dim[2] % s ||
	    t.dim[3] % s)
		return op_err(q, RLX_ESHAPE, "blocksize %lld does not fit",
			      (long long)s);
	h = t.dim[2] / s;
	w = t.dim[3] / s;
	x = E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0], t.dim[1], h, s,
	      w, s));
	x = E(q, transpose, .x = x, .perm = RLX_INTS(0, 3, 5, 1, 2, 4));
	onnx_out(q, 0, E(q, reshape, .x = x, .shape = RLX_INTS(t.dim[0],
			 t.dim[1] * s * s, h, w)));
	return RLX_OK;
}

/* Cut or pad each axis about its middle. */
enum rlx_status onnx_center_crop_pad(struct onnx_op *q)
{
	struct rlx_ints axes = onnx_attr_ints(q, "axes"), shape;
	int64_t pads[2 * RLX_MAX_RANK] = { 0 }, d;
	enum rlx_status st;
	struct rlx_type t;
	uint32_t i, a;

	st = onnx_ints(q, 1, &shape.v, &shape.n);
	if (st)
		return st;
	t = onnx_type(q, onnx_in(q, 0));
	if (shape.n != (axes.n ? axes.n : t.rank))
		return op_err(q, RLX_ESHAPE, "%u sizes for rank %u", shape.n,
			      t.rank);
	for (i = 0; i < shape.n; i++) {
		st = onnx_axis(q, axes.n ? axes.v[i] : i, t.rank, &a);
		if (st)
			return st;
		if (shape.v[i] < 0)
			return op_err(q, RLX_ESHAPE, "size %lld",
				      (long long)shape.v[i]);
		d = shape.v[i] - t.dim[a];
		/* The odd element is padded after, and cropped after. */
		pads[a] = d >= 0 ? d / 2 : -((-d) / 2);
		pads[t.rank + a] = d - pads[a];
	}
	onnx_out(q, 0, E(q, pad, .x = onnx_in(q, 0),
			 .pads = { pads, 2 * t.rank }));
	return RLX_OK;
}
