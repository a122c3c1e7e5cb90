// SPDX-License-Identifier: MIT
/* Sequences and optionals: lists that exist only while importing. */
#include "io/onnx/handlers.h"

static enum rlx_status list_in(struct onnx_op *q, uint32_t i,
			       struct onnx_val **v)
{
	*v = onnx_given(q, i) ? q->in[i] : NULL;
	if (!*v || (*v)->kind != RLX_SPEC_LIST)
		return op_err(q, RLX_ETYPE, "input %u is no sequence", i);
	return RLX_OK;
}

/* Position input @i in a list of @n; negative from the end. */
static enum rlx_status position(struct onnx_op *q, uint32_t i, int64_t dflt,
				int64_t n, uint32_t *out)
{
	enum rlx_status st;
	int64_t v;

	st = onnx_int(q, i, dflt, &v);
	if (st)
		return st;
	if (v < -n || v > n)
		return op_err(q, RLX_ERANGE, "position %lld in a sequence of "
			      "%lld", (long long)v, (long long)n);
	*out = (uint32_t)(v < 0 ? v + n : v);
	return RLX_OK;
}

/*
 * Sequences hold tensors. Of sequences, ones that name each other twice would be walked in time
 * that doubles with each.
 */
static bool is_item(const struct onnx_val *v)
{
	return v && (v->kind == RLX_SPEC_TENSOR || v->kind == RLX_SPEC_STRINGS);
}

enum rlx_status onnx_sequence_construct(struct onnx_op *q)
{
	uint32_t i;

	for (i = 0; i < q->n_in; i++)
		if (!is_item(q->in[i]))
			return op_err(q, RLX_ETYPE, "input %u is no tensor", i);
	if (q->n_out)
		q->out[0] = onnx_val_list(q->b, q->in, q->n_in);
	return q->b->err->status;
}

enum rlx_status onnx_sequence_empty(struct onnx_op *q)
{
	onnx_attr_i(q, "dtype", ONNX_FLOAT);
	if (q->n_out)
		q->out[0] = onnx_val_list(q->b, NULL, 0);
	return q->b->err->status;
}

enum rlx_status onnx_sequence_at(struct onnx_op *q)
{
	struct onnx_val *s;
	enum rlx_status st;
	uint32_t i;

	st = list_in(q, 0, &s);
	if (!st)
		st = position(q, 1, 0, s->n_item, &i);
	if (st)
		return st;
	if (i >= s->n_item)
		return op_err(q, RLX_ERANGE, "position %u in a sequence of %u",
			      i, s->n_item);
	if (q->n_out)
		q->out[0] = s->item[i];
	return RLX_OK;
}

enum rlx_status onnx_sequence_length(struct onnx_op *q)
{
	struct onnx_val *s;
	enum rlx_status st = list_in(q, 0, &s);
	int64_t n;

	if (st)
		return st;
	n = s->n_item;
	onnx_out(q, 0, rlx_constant(q->b->ctx->g, rlx_scalar(RLX_I64), &n));
	return RLX_OK;
}

enum rlx_status onnx_sequence_insert(struct onnx_op *q)
{
	struct onnx_val *s, *y;
	enum rlx_status st;
	uint32_t at, i;

	st = list_in(q, 0, &s);
	if (!st)
		st = position(q, 2, s->n_item, s->n_item, &at);
	if (st)
		return st;
	if (!onnx_given(q, 1) || !q->n_out)
		return op_err(q, RLX_EPARSE, "no tensor to insert");
	if (!is_item(q->in[1]))
		return op_err(q, RLX_ETYPE, "input 1 is no tensor");
	st = onnx_charge(q, 0, s->n_item);
	if (st)
		return st;
	y = onnx_val_list(q->b, NULL, 0);
	if (!y)
		return RLX_ENOMEM;
	y->item = rlx_bump_new(&q->b->mem, s->n_item + 1ull,
			       sizeof(*y->item));
	if (!y->item)
		return onnx_nomem(q->b);
	y->n_item = s->n_item + 1;
	for (i = 0; i < y->n_item; i++)
		y->item[i] = i == at ? q->in[1] : s->item[i - (i > at)];
	q->out[0] = y;
	return RLX_OK;
}

enum rlx_status onnx_sequence_erase(struct onnx_op *q)
{
	struct onnx_val *s, *y;
	enum rlx_status st;
	uint32_t at, i;

	st = list_in(q, 0, &s);
	if (!st)
		st = position(q, 1, (int64_t)s->n_item - 1, s->n_item, &at);
	if (st)
		return st;
	if (at >= s->n_item || !q->n_out)
		return op_err(q, RLX_ERANGE, "position %u in a sequence of %u",
			      at, s->n_item);
	st = onnx_charge(q, 0, s->n_item);
	if (st)
		return st;
	y = onnx_val_list(q->b, s->item, s->n_item);
	if (!y)
		return RLX_ENOMEM;
	y->n_item--;
	for (i = at; i < y->n_item; i++)
		y->item[i] = s->item[i + 1];
	q->out[0] = y;
	return RLX_OK;
}

/* One part of a split; without keepdims a part of length 1 loses the axis. */
static struct onnx_val *part(struct onnx_op *q, uint32_t axis, int64_t from,
			     int64_t to, bool keep)
{
	rlx_value y = onnx_cut(q, onnx_in(q, 0), axis, from, to);
	struct rlx_type t = onnx_type(q, y);
	int64_t dim[RLX_MAX_RANK];
	uint32_t i, n = 0;

	if (!keep) {
		for (i = 0; i < t.rank; i++)
			if (i != axis)
				dim[n++] = t.dim[i];
		y = onnx_reshape(q, y, n, dim);
	}
	return onnx_val_of(q->b, y);
}

enum rlx_status onnx_split_to_sequence(struct onnx_op *q)
{
	bool keep = onnx_attr_i(q, "keepdims", 1), one;
	int64_t axis = onnx_attr_i(q, "axis", 0), at = 0, len, dim;
	struct rlx_ints split;
	struct onnx_val *y;
	enum rlx_status st;
	uint32_t a, i, n;

	st = onnx_ints(q, 1, &split.v, &split.n);
	if (!st)
		st = onnx_axis(q, axis, onnx_type(q, onnx_in(q, 0)).rank, &a);
	if (st)
		return st;
	dim = onnx_type(q, onnx_in(q, 0)).dim[a];
	/* A scalar is the length of each part, a vector all lengths. */
	one = !split.v || !q->in[1]->type.rank;
	len = split.v && split.n ? split.v[0] : 1;
	if ((one && len < 1) || dim > 1 << 20)
		return op_err(q, RLX_ERANGE, "parts of length %lld of %lld",
			      (long long)len, (long long)dim);
	n = one ? (uint32_t)((dim + len - 1) / len) : split.n;
	st = onnx_charge(q, n, 0);
	if (!st && !one)
		st = onnx_parts(q, split, dim);
	if (st)
		return st;
	y = onnx_val_list(q->b, NULL, 0);
	if (!y || !q->n_out)
		return onnx_nomem(q->b);
	y->item = rlx_bump_new(&q->b->mem, n, sizeof(*y->item));
	if (!y->item)
		return onnx_nomem(q->b);
	for (i = 0; i < n; i++, at += len) {
		if (!one)
			len = split.v[i];
		y->item[i] = part(q, a, at, at + len < dim ? at + len : dim,
				  keep || split.v);
		if (!y->item[i])
			return onnx_graph_status(q);
	}
	y->n_item = n;
	q->out[0] = y;
	return RLX_OK;
}

enum rlx_status onnx_concat_from_sequence(struct onnx_op *q)
{
	bool stack = onnx_attr_i(q, "new_axis", 0);
	int64_t axis = onnx_attr_i(q, "axis", 0), dim[RLX_MAX_RANK];
	struct onnx_val *s;
	struct rlx_type t;
	enum rlx_status st;
	uint32_t a, i, k, n;
	rlx_value *v;

	st = list_in(q, 0, &s);
	if (!st)
		st = onnx_charge(q, stack ? s->n_item : 0, s->n_item);
	if (st)
		return st;
	v = rlx_bump_new(&q->b->mem, s->n_item, sizeof(*v));
	if (!v)
		return onnx_nomem(q->b);
	for (i = 0; i < s->n_item; i++) {
		v[i] = onnx_use(q->b, s->item[i]);
		t = onnx_type(q, v[i]);
		st = onnx_axis(q, axis, t.rank + stack, &a);
		if (st)
			return st;
		if (t.rank + stack > RLX_MAX_RANK)
			return op_err(q, RLX_ENOSUP, "rank over %d",
				      RLX_MAX_RANK);
		for (k = n = 0; stack && k <= t.rank; k++)
			dim[k] = k == a ? 1 : t.dim[n++];
		if (stack)
			v[i] = onnx_reshape(q, v[i], t.rank + 1, dim);
	}
	if (!s->n_item)
		return op_err(q, RLX_ESHAPE, "the sequence is empty");
	onnx_out(q, 0, E(q, concat, .axis = (int32_t)a,
			 .xs = { v, s->n_item }));
	return RLX_OK;
}

/* The body is imported once for each item. */
enum rlx_status onnx_sequence_map(struct onnx_op *q)
{
	const struct onnx_graph *g = onnx_attr_graph(q, "body");
	struct onnx_val **in, **out, *s;
	struct onnx_pin pin;
	enum rlx_status st;
	uint32_t i, k;

	if (!g)
		return q->b->err->status;
	st = list_in(q, 0, &s);
	if (!st)
		st = onnx_charge(q, 0, (uint64_t)s->n_item * q->n_out);
	if (st)
		return st;
	in = rlx_bump_new(&q->b->mem, q->n_in, sizeof(*in));
	out = rlx_bump_new(&q->b->mem, q->n_out, sizeof(*out));
	if (!in || !out)
		return onnx_nomem(q->b);
	for (k = 0; k < q->n_out; k++) {
		q->out[k] = onnx_val_list(q->b, s->item, s->n_item);
		if (!q->out[k])
			return RLX_ENOMEM;
	}
	pin = (struct onnx_pin){ q->b->pins, q->out, q->n_out };
	q->b->pins = &pin;
	for (i = 0; !st && i < s->n_item; i++) {
		for (k = 0; k < q->n_in; k++) {
			in[k] = q->in[k];
			if (!in[k] || in[k]->kind != RLX_SPEC_LIST)
				continue;
			if (in[k]->n_item <= i) {
				st = op_err(q, RLX_ESHAPE, "the sequences "
					    "differ in length");
				break;
			}
			in[k] = in[k]->item[i];
		}
		if (!st)
			st = onnx_inline(q, g,
				(struct onnx_vals){ in, q->n_in },
				(struct onnx_vals){ out, q->n_out }, true);
		for (k = 0; !st && k < q->n_out; k++) {
			if (!is_item(out[k]))
				st = op_err(q, RLX_ETYPE, "output %u of the body is no tensor", k);
			q->out[k]->item[i] = out[k];
		}
	}
	q->b->pins = pin.next;
	return st;
}

enum rlx_status onnx_optional(struct onnx_op *q)
{
	onnx_attr_of(q, "type");
	if (!q->n_out)
		return RLX_OK;
	q->out[0] = onnx_given(q, 0) ? q->in[0] :
		    onnx_val_new(q->b, RLX_SPEC_ABSENT);
	return q->b->err->status;
}

enum rlx_status onnx_optional_get(struct onnx_op *q)
{
	if (!onnx_given(q, 0) || q->in[0]->kind == RLX_SPEC_ABSENT)
		return op_err(q, RLX_EINVAL, "the optional is empty");
	if (q->n_out)
		q->out[0] = q->in[0];
	return RLX_OK;
}

enum rlx_status onnx_optional_has(struct onnx_op *q)
{
	bool yes = onnx_given(q, 0) && q->in[0]->kind != RLX_SPEC_ABSENT;

	onnx_out(q, 0, rlx_constant(q->b->ctx->g, rlx_scalar(RLX_BOOL), &yes));
	return RLX_OK;
}
