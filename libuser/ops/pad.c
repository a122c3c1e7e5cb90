// SPDX-License-Identifier: MIT
/* Padding and cropping. */
#include "base/alloc.h"
#include "ops/batch.h"
#include "ops/emit.h"
#include "ops/pad_axis.h"

/*
 * Shapes:	x[d..], value[] or [1] -> y[begin + d + end, ..]; pads has all begins, then all
 *		ends
 * Dtypes:	any; value and y as x
 * Does:	puts so many elements in front and behind; negative numbers crop. mode
 *		RLX_PAD_CONSTANT (if not given): value, 0 if that is not given; EDGE: the element
 *		at the end, REFLECT: those inside it mirrored, the end itself not repeated, WRAP:
 *		the other end, the latter two as often as it takes. An empty axis is padded by a
 *		constant only.
 * Gradient:	RLX_PAD_CONSTANT: dx is dy cropped, value gets the sum of what it filled; other
 *		modes: each element gets the sum over its copies
 * Source:	ONNX Pad-21, numpy.pad
 */
RLX_OP(pad, "pad (or, with negative counts, crop) each end of each axis",
	IN(x) OPT(value)
	ATTR(ints, pads)
	ATTR(i32, mode),
	RLX_T_MOVE)

static enum rlx_status pad_infer(struct rlx_infer *q)
{
	const struct rlx_op_pad *a = q->args;
	const struct rlx_type *x = q->in[0], *v = q->in[1];
	enum rlx_status st = op_need_enum(q, "mode", a->mode, RLX_PAD_WRAP + 1);
	uint32_t i;

	if (st)
		return st;
	if (a->pads.n != 2 * x->rank)
		return op_fail(q, RLX_ESHAPE, "%u pads; rank %u needs %u", a->pads.n,
			       x->rank, 2 * x->rank);
	if (v && (v->dtype != x->dtype || rlx_type_count(v) != 1))
		return op_fail(q, RLX_ETYPE, "the value must be one %s",
			       rlx_dtype_name(x->dtype));
	q->out[0] = *x;
	for (i = 0; i < x->rank; i++) {
		int64_t b = a->pads.v[i], e = a->pads.v[x->rank + i], *d = &q->out[0].dim[i];
		const int64_t far = INT64_MAX / 2;	/* element 0 is at -b, behind x is d + e */

		if (b < -far || b > far || e < -far || e > far ||
		    __builtin_add_overflow(*d, b, d) ||
		    __builtin_add_overflow(*d, e, d) || *d < 0)
			return op_fail(q, RLX_ESHAPE,
				       "axis %u of %lld cannot be padded by %lld and %lld",
				       i, (long long)x->dim[i], (long long)b, (long long)e);
		if (*d && !x->dim[i] && a->mode != RLX_PAD_CONSTANT)
			return op_fail(q, RLX_ESHAPE,
				       "axis %u is empty: there is nothing to repeat", i);
	}
	return RLX_OK;
}

static enum rlx_status pad_eval(struct rlx_eval *q)
{
	const struct rlx_op_pad *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *y = &q->out[0];
	size_t el = rlx_dtype_size(x->type.dtype);
	int64_t s[RLX_MAX_RANK], off, p;
	struct op_walk w;
	uint32_t i;

	shape_dense(&x->type, s);
	op_walk_begin(&w, &y->type, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		off = 0;
		for (i = 0; i < x->type.rank; i++) {
			p = op_pad_from(a->mode, w.idx[i] - a->pads.v[i], x->type.dim[i]);
			if (p < 0)
				break;
			off += p * s[i];
		}
		if (i == x->type.rank)
			el_copy(y, w.i, x, off);
		else if (op_has(&q->in[1]))
			el_copy(y, w.i, &q->in[1], 0);
		else
			memset((char *)y->data + (size_t)w.i * el, 0, el);
	}
	return RLX_OK;
}

/* Positions that one padded axis reads, as a constant. */
static rlx_value sources(struct rlx_graph *g, const struct rlx_op_pad *a,
			 uint32_t axis, const struct rlx_type *x)
{
	int64_t b = a->pads.v[axis], n = x->dim[axis] + b + a->pads.v[x->rank + axis];
	int64_t *idx = rlx_calloc((size_t)n + 1, sizeof(*idx)), k;
	rlx_value v = RLX_NONE;

	for (k = 0; idx && k < n; k++)
		idx[k] = op_pad_from(a->mode, k - b, x->dim[axis]);
	if (idx)
		v = op_i64_const(g, idx, n);
	rlx_free(idx);
	return v;
}

/* Repeated elements: add their gradients up, an axis at a time. */
static enum rlx_status fold_back(struct rlx_grad *q)
{
	const struct rlx_op_pad *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), t;
	rlx_value d = q->d_out[0], idx;
	uint32_t i;

	for (i = 0; i < x.rank; i++) {
		if (!a->pads.v[i] && !a->pads.v[x.rank + i])
			continue;
		t = op_type(q->g, d);
		t.dim[i] = x.dim[i];
		idx = sources(q->g, a, i, &x);
		if (!idx.id)
			return op_done(q->g) ? op_done(q->g) : RLX_ENOMEM;
		d = op_gather_grad(q->g, d, idx, &t, i);
	}
	q->d_in[0] = d;
	return op_done(q->g);
}

static enum rlx_status pad_vjp(struct rlx_grad *q)
{
	const struct rlx_op_pad *a = q->args;
	int64_t back[2 * RLX_MAX_RANK];
	rlx_value all, kept;
	uint32_t i;

	if (a->mode != RLX_PAD_CONSTANT)
		return fold_back(q);
	for (i = 0; i < a->pads.n; i++)
		back[i] = -a->pads.v[i];
	q->d_in[0] = rlx_emit(q->g, pad, .x = q->d_out[0],
			      .pads = { back, a->pads.n });
	if (!q->in[1].id)
		return op_done(q->g);
	/* what padding took, all but what cropping back gives */
	for (i = 0; i < a->pads.n; i++)
		back[i] = a->pads.v[i] > 0 ? -a->pads.v[i] : 0;
	kept = rlx_emit(q->g, pad, .x = q->d_out[0], .pads = { back, a->pads.n });
	all = rlx_emit(q->g, reduce, .x = q->d_out[0], .kind = RLX_REDUCE_SUM);
	kept = rlx_emit(q->g, reduce, .x = kept, .kind = RLX_REDUCE_SUM);
	q->d_in[1] = op_reshape_like(q->g, rlx_emit(q->g, sub, .a = all, .b = kept),
				     q->in[1]);
	return op_done(q->g);
}

static bool pad_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_pad *a = s->args;

	s->n_in = 2;
	s->in[0] = rlx_type(RLX_F32, 4, 5);
	switch (i) {
	case 0:
		s->in[1] = rlx_scalar(RLX_F32);
		a->pads = op_keep(s, RLX_INTS(1, 0, 2, 3));
		return true;
	case 1:		/* crops on one side, pads on the other */
		s->in[1] = rlx_type(RLX_F32, 1);
		a->pads = op_keep(s, RLX_INTS(-1, 2, 1, -2));
		return true;
	case 2: case 3: case 4:
		a->mode = (int32_t)i - 1;
		a->pads = op_keep(s, RLX_INTS(2, 3, 3, -1));
		return true;
	case 5: case 6: case 7:	/* more than once around */
		s->in[0] = rlx_type(RLX_F32, 1, 3);
		a->mode = (int32_t)i - 4;
		a->pads = op_keep(s, RLX_INTS(2, 7, 0, 5));
		return true;
	case 8:
		s->in[0] = rlx_type(RLX_I64, 0, 3);
		a->pads = op_keep(s, RLX_INTS(1, 0, 1, 1));
		return true;
	case 9:
		s->in[0] = rlx_scalar(RLX_F32);
		return true;
	}
	return false;
}

/* A constant that is mapped stands in no padding of one op. */
static enum rlx_status pad_batch(struct rlx_batching *q)
{
	struct rlx_op_pad a = *(const struct rlx_op_pad *)q->args;
	uint32_t rank = q->type->rank, i;
	int64_t pads[2 * RLX_MAX_RANK + 2] = { 0 };

	if (q->mapped[1])
		return RLX_OK;
	for (i = 0; i < rank; i++) {
		pads[1 + i] = a.pads.v[i];
		pads[rank + 2 + i] = a.pads.v[rank + i];
	}
	a.pads = (struct rlx_ints){ pads, 2 * rank + 2 };
	q->to[0] = q->in[0].id;
	q->to[1] = q->in[1].id;
	return op_batch_emit(q, &a);
}

const struct rlx_op_impl rlx_op_pad_impl = {
	.infer = pad_infer, .eval = pad_eval, .vjp = pad_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = pad_batch,
};
RLX_SAMPLES(pad, pad_sample)
