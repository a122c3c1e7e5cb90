// SPDX-License-Identifier: MIT
/* The sum of frames that overlap. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[.., frames, length, ..] -> y[.., (frames - 1) hop + length, ..]; without frames 0
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	y[.., t, ..] = sum of x[.., f, i, ..] over all with f hop + i = t; 0 where hop is
 *		longer than length and none is. axis is that of the frames, length the one behind.
 * Gradient:	dx = frame(dy)
 * Source:	torch.nn.functional.fold; Griffin and Lim 1984
 */
RLX_OP(overlap_add, "sum of frames, each hop behind the one ahead",
	IN(x)
	REQ(i32, axis, "the dimension of the frames, of which length is the one behind")
	REQ(i64, hop, "elements from a frame to the next"),
	RLX_T_REDUCTION)

static enum rlx_status overlap_add_infer(struct rlx_infer *q)
{
	const struct rlx_op_overlap_add *a = q->args;
	const struct rlx_type *x = q->in[0];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_need_float(q, 0, false);
	uint32_t ax;
	int64_t n;

	if (!st)
		st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	if (!st)
		st = op_infer_axis(q, a->axis, x->rank - 1, &ax);
	if (st)
		return st;
	if (a->hop < 1)
		return op_fail(q, RLX_ERANGE, "hop is %lld; it must be 1 or more",
			       (long long)a->hop);
	n = x->dim[ax];
	if (n && (__builtin_mul_overflow(n - 1, a->hop, &n) ||
		  __builtin_add_overflow(n, x->dim[ax + 1], &n)))
		return op_fail(q, RLX_ERANGE, "the sum is longer than can be counted");
	y->dtype = x->dtype;
	y->rank = x->rank - 1;
	memcpy(y->dim, x->dim, ax * sizeof(y->dim[0]));
	y->dim[ax] = n;
	memcpy(y->dim + ax + 1, x->dim + ax + 2, (x->rank - ax - 2) * sizeof(y->dim[0]));
	return RLX_OK;
}

/* By one piece of hop elements of all frames after the other: few, as a rule. */
static rlx_value by_pieces(struct rlx_graph *g, rlx_value x, const int64_t dim[4], int64_t hop)
{
	int64_t pieces = (dim[2] + hop - 1) / hop, r;
	int64_t pads[8] = { [6] = pieces * hop - dim[2] };
	rlx_value sum = RLX_NONE, part;

	if (pads[6])
		x = rlx_emit(g, pad, .x = x, .pads = { pads, 8 });
	for (r = 0; r < pieces; r++) {
		int64_t ends[] = { r * hop, 0, (pieces - 1 - r) * hop, 0 };
		int64_t around[] = { 0, r * hop, 0, 0, (pieces - 1 - r) * hop, 0 };

		part = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(2), .starts = RLX_INTS(ends[0]),
				.ends = RLX_INTS(ends[0] + hop));
		part = op_reshape(g, part, (int64_t[]){ dim[0], dim[1] * hop, dim[3] }, 3);
		part = rlx_emit(g, pad, .x = part, .pads = { around, 6 });
		sum = r ? rlx_emit(g, add, .a = sum, .b = part) : part;
	}
	return sum;
}

static enum rlx_status overlap_add_expand(struct rlx_expand *q)
{
	const struct rlx_op_overlap_add *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), to;
	uint32_t ax = shape_axis(a->axis, x.rank - 1);
	int64_t dim[] = { shape_span(&x, 0, ax), x.dim[ax], x.dim[ax + 1],
			  shape_span(&x, ax + 2, x.rank) };
	/* One frame overlaps none, however long the hop. */
	int64_t n = q->out_type[0].dim[ax], hop = x.dim[ax] > 1 ? a->hop : 1;
	rlx_value y = op_reshape(q->g, q->in[0], dim, 4), frames, inner;

	if (!rlx_type_count(&x) || !n) {
		q->out[0] = op_fill(q->g, &q->out_type[0], 0);
		return op_done(q->g);
	}
	if ((dim[2] + hop - 1) / hop <= 32) {
		y = by_pieces(q->g, y, dim, hop);
	} else {	/* sums that frames scatter into */
		frames = rlx_emit(q->g, iota, .type = rlx_type(RLX_I64, dim[1], 1),
				  .step = (double)hop);
		inner = rlx_emit(q->g, iota, .type = rlx_type(RLX_I64, dim[2]));
		to = rlx_type(x.dtype, dim[0], n, dim[3]);
		y = op_gather_grad(q->g, y, rlx_emit(q->g, add, .a = frames, .b = inner), &to, 1);
	}
	/* the last piece may reach beyond the last frame, or end before it */
	to = op_type(q->g, y);
	if (y.id && to.dim[1] != n)
		y = rlx_emit(q->g, pad, .x = y, .pads = RLX_INTS(0, 0, 0, 0, n - to.dim[1], 0));
	q->out[0] = op_reshape(q->g, y, q->out_type[0].dim, q->out_type[0].rank);
	return op_done(q->g);
}

static enum rlx_status overlap_add_vjp(struct rlx_grad *q)
{
	const struct rlx_op_overlap_add *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	uint32_t ax = shape_axis(a->axis, x.rank - 1);

	q->d_in[0] = x.dim[ax + 1] < 1 ? op_zeros_like(q->g, q->in[0]) :
		rlx_emit(q->g, frame, .x = q->d_out[0], .axis = (int32_t)ax,
			 .length = x.dim[ax + 1], .hop = a->hop);
	return op_done(q->g);
}

static bool overlap_add_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x; int32_t axis; int64_t hop; } c[] = {
		{ { RLX_F32, 3, { 3, 6, 8 } }, 1, 4 }, { { RLX_F32, 4, { 2, 5, 7, 3 } }, -3, 3 },
		{ { RLX_F32, 2, { 4, 3 } }, 0, 5 }, { { RLX_F32, 2, { 0, 3 } }, 0, 2 },
		{ { RLX_F32, 2, { 3, 40 } }, 0, 1 }, { { RLX_F32, 3, { 0, 2, 3 } }, 1, 2 },
	};
	struct rlx_op_overlap_add *a = s->args;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 1;
	s->in[0] = c[i].x;
	s->tol = 1e-6;
	a->axis = c[i].axis;
	a->hop = c[i].hop;
	return true;
}

const struct rlx_op_impl rlx_op_overlap_add_impl = {
	.infer = overlap_add_infer, .vjp = overlap_add_vjp, .expand = overlap_add_expand,
	.batch = op_batch_axes,
};
RLX_SAMPLES(overlap_add, overlap_add_sample)
