// SPDX-License-Identifier: MIT
/* Frames of a signal, that overlap or not, and their sum. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[.., n, ..] -> y[.., (n - length) / hop + 1, length, ..], two dimensions for axis
 * Dtypes:	any; y as x
 * Does:	y[.., f, i, ..] = x[.., f hop + i, ..] for whole frames; what is behind the last one
 *		is left out, and a signal shorter than length has none. length and hop are at least
 *		1.
 * Gradient:	dx = overlap_add(dy), zeros behind it
 * Source:	torch.Tensor.unfold
 */
RLX_OP(frame, "frames of a signal along an axis, each hop behind the one ahead",
	IN(x)
	REQ(i32, axis, "the dimension of the signal, -1 for the last")
	REQ(i64, length, "elements of a frame")
	REQ(i64, hop, "elements from a frame to the next"),
	RLX_T_MOVE)

static enum rlx_status frame_infer(struct rlx_infer *q)
{
	const struct rlx_op_frame *a = q->args;
	const struct rlx_type *x = q->in[0];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st;
	uint32_t ax;

	st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (a->length < 1 || a->hop < 1)
		return op_fail(q, RLX_ERANGE, "frames of %lld by %lld; both must be 1 or more",
			       (long long)a->length, (long long)a->hop);
	if (x->rank == RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "no dimension is left for the frames");
	y->dtype = x->dtype;
	y->rank = x->rank + 1;
	memcpy(y->dim, x->dim, ax * sizeof(y->dim[0]));
	y->dim[ax] = x->dim[ax] < a->length ? 0 : (x->dim[ax] - a->length) / a->hop + 1;
	y->dim[ax + 1] = a->length;
	memcpy(y->dim + ax + 2, x->dim + ax + 1, (x->rank - ax - 1) * sizeof(y->dim[0]));
	return RLX_OK;
}

static enum rlx_status frame_eval(struct rlx_eval *q)
{
	const struct rlx_op_frame *a = q->args;
	const struct rlx_type *x = &q->in[0].type, *y = &q->out[0].type;
	uint32_t ax = shape_axis(a->axis, x->rank);
	int64_t post = shape_span(x, ax + 1, x->rank), frames = y->dim[ax], n = x->dim[ax];
	int64_t count = rlx_type_count(y), i;

	for (i = 0; i < count; i++) {
		int64_t in = i % post, k = i / post % a->length, f = i / post / a->length % frames;
		int64_t o = i / post / a->length / frames;

		el_copy(&q->out[0], i, &q->in[0], (o * n + f * a->hop + k) * post + in);
	}
	return RLX_OK;
}

static enum rlx_status frame_vjp(struct rlx_grad *q)
{
	const struct rlx_op_frame *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), d;
	uint32_t ax = shape_axis(a->axis, x.rank);
	int64_t pads[2 * RLX_MAX_RANK] = { 0 };
	rlx_value y = rlx_emit(q->g, overlap_add, .x = q->d_out[0], .axis = (int32_t)ax,
			       .hop = a->hop);

	d = op_type(q->g, y);
	pads[x.rank + ax] = x.dim[ax] - d.dim[ax];
	if (y.id && pads[x.rank + ax])
		y = rlx_emit(q->g, pad, .x = y, .pads = { pads, 2 * x.rank });
	q->d_in[0] = y;
	return op_done(q->g);
}

static bool frame_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x; int32_t axis; int64_t length, hop; } c[] = {
		{ { RLX_F32, 2, { 3, 40 } }, -1, 8, 4 }, { { RLX_F32, 3, { 2, 23, 3 } }, 1, 7, 3 },
		{ { RLX_F32, 1, { 30 } }, 0, 4, 9 }, { { RLX_F32, 1, { 5 } }, 0, 6, 1 },
		{ { RLX_F32, 2, { 0, 9 } }, 1, 3, 1 }, { { RLX_I32, 1, { 12 } }, 0, 5, 1 },
	};
	struct rlx_op_frame *a = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	a->axis = c[i].axis;
	a->length = c[i].length;
	a->hop = c[i].hop;
	return true;
}

const struct rlx_op_impl rlx_op_frame_impl = {
	.infer = frame_infer, .eval = frame_eval, .vjp = frame_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_PARTS,
	.batch = op_batch_axes,
};
RLX_SAMPLES(frame, frame_sample)
