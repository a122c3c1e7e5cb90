// SPDX-License-Identifier: MIT
/* Matrix product of the last two dimensions, the others broadcast. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	a[.., m, k], b[.., k, n] -> y[.., m, n]; leading dimensions broadcast; both of
 *		rank 2 at least
 * Dtypes:	floats, f8 too, and integers, bool with either; y as a and b promoted, not bool or
 *		c64
 * Does:	the matrix products of the last two dimensions; 0 for k = 0. Integers wrap.
 * Gradient:	da = dy b', db = a' dy, summed over what was broadcast
 * Source:	numpy.matmul, but for vectors
 */
RLX_OP(matmul, "a[.., m, k] b[.., k, n], numpy broadcasting of leading dimensions",
	IN(a) IN(b),
	RLX_T_COMPUTE | RLX_T_NONFINITE_X)

static enum rlx_status matmul_infer(struct rlx_infer *q)
{
	const struct rlx_type *a = q->in[0], *b = q->in[1];
	struct rlx_type ba = *a, bb = *b;

	if (a->rank < 2 || b->rank < 2)
		return op_fail(q, RLX_ESHAPE, "rank %u x rank %u; both need at least 2",
			       a->rank, b->rank);
	if (a->dim[a->rank - 1] != b->dim[b->rank - 2])
		return op_fail(q, RLX_ESHAPE, "inner dims %lld != %lld",
			       (long long)a->dim[a->rank - 1],
			       (long long)b->dim[b->rank - 2]);
	ba.rank -= 2;
	bb.rank -= 2;
	if (!op_broadcast(&ba, &bb, &q->out[0]))
		return op_fail(q, RLX_ESHAPE, "the batch dimensions do not broadcast");
	if (q->out[0].rank + 2 > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "rank over %d", RLX_MAX_RANK);
	q->out[0].dtype = rlx_dtype_promote(a->dtype, b->dtype);
	if (q->out[0].dtype == RLX_BOOL || q->out[0].dtype == RLX_C64)
		return op_fail(q, RLX_ETYPE, "%s is not taken",
			       rlx_dtype_name(q->out[0].dtype));
	q->out[0].dim[q->out[0].rank++] = a->dim[a->rank - 2];
	q->out[0].dim[q->out[0].rank++] = b->dim[b->rank - 1];
	return RLX_OK;
}

static void one_element(struct rlx_eval *q, int64_t ai, int64_t bi, int64_t out)
{
	const struct rlx_tensor *a = &q->in[0], *b = &q->in[1];
	int64_t k = a->type.dim[a->type.rank - 1], ldb = b->type.dim[b->type.rank - 1];
	uint64_t isum = 0;
	double sum = 0;
	int64_t p;

	if (el_is_int(q->out[0].type.dtype)) {
		for (p = 0; p < k; p++)
			isum += (uint64_t)el_geti(a, ai + p) *
				(uint64_t)el_geti(b, bi + p * ldb);
		el_seti(&q->out[0], out, (int64_t)isum);
		return;
	}
	for (p = 0; p < k; p++)
		sum += el_get(a, ai + p) * el_get(b, bi + p * ldb);
	el_set(&q->out[0], out, sum);
}

void op_matmul_each(struct rlx_eval *q,
		    void (*element)(struct rlx_eval *q, int64_t ai, int64_t bi, int64_t out))
{
	struct rlx_type ta = q->in[0].type, tb = q->in[1].type, to = q->out[0].type;
	int64_t m = to.dim[to.rank - 2], n = to.dim[to.rank - 1];
	int64_t k = ta.dim[ta.rank - 1], sa[RLX_MAX_RANK], sb[RLX_MAX_RANK], i, j;
	struct op_walk w;

	/* strides over the batch dimensions only, counted in matrices */
	ta.rank -= 2;
	tb.rank -= 2;
	to.rank -= 2;
	shape_broadcast(&ta, &to, sa);
	shape_broadcast(&tb, &to, sb);
	op_walk_begin(&w, &to, sa, sb, NULL);
	for (; !w.done; op_walk_next(&w))
		for (i = 0; i < m; i++)
			for (j = 0; j < n; j++)
				element(q, w.off[0] * m * k + i * k, w.off[1] * k * n + j,
					(w.i * m + i) * n + j);
}

static enum rlx_status matmul_eval(struct rlx_eval *q)
{
	op_matmul_each(q, one_element);
	return RLX_OK;
}

/* A matrix of all rows of @x. */
static rlx_value all_rows(struct rlx_graph *g, rlx_value x)
{
	struct rlx_type t = op_type(g, x);

	return op_reshape(g, x, (int64_t[]){ shape_span(&t, 0, t.rank - 1), t.dim[t.rank - 1] }, 2);
}

/*
 * Transposes are flags, and one of b, as of an embedding that is the head as well, is left to the
 * product that it is of. A matrix b that all of a's batch shares gets the sum over the batch:
 * one product whose rows are those of all of it.
 */
static enum rlx_status matmul_vjp(struct rlx_grad *q)
{
	rlx_value a = q->in[0], b = q->in[1], dy = q->d_out[0], d;
	struct rlx_graph *g = q->g;
	rlx_value turned = op_swapped(g, b);

	if (q->need[0]) {
		d = turned.id ? rlx_emit(g, matmul, .a = dy, .b = turned) :
		    rlx_emit(g, fused_matmul, .a = dy, .b = b, .trans_b = true);
		q->d_in[0] = op_unbroadcast(g, d, a);
	}
	if (q->need[1]) {
		if (op_type(g, b).rank == 2) {
			a = all_rows(g, a);
			dy = all_rows(g, dy);
		}
		d = rlx_emit(g, fused_matmul, .a = a, .b = dy, .trans_a = true);
		q->d_in[1] = op_unbroadcast(g, d, b);
	}
	return op_done(g);
}

static void matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)q->in[0]->dim[q->in[0]->rank - 1];
}

static bool matmul_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type a, b; } c[] = {
		{ { RLX_F32, 2, { 5, 7 } }, { RLX_F32, 2, { 7, 3 } } },
		{ { RLX_F32, 2, { 1, 64 } }, { RLX_F32, 2, { 64, 33 } } },
		{ { RLX_F32, 2, { 37, 129 } }, { RLX_F32, 2, { 129, 65 } } },
		{ { RLX_F32, 3, { 1, 4, 6 } }, { RLX_F32, 3, { 3, 6, 5 } } },
		{ { RLX_F32, 4, { 2, 1, 4, 6 } }, { RLX_F32, 3, { 3, 6, 5 } } },
		{ { RLX_F32, 5, { 3, 1, 2, 4, 6 } }, { RLX_F32, 5, { 1, 5, 1, 6, 3 } } },
		{ { RLX_F32, 6, { 2, 1, 3, 1, 2, 5 } }, { RLX_F32, 6, { 1, 2, 1, 3, 5, 70 } } },
		{ { RLX_F32, 5, { 3, 5, 1, 4, 6 } }, { RLX_F32, 5, { 3, 1, 2, 6, 9 } } },
		{ { RLX_F32, 2, { 4, 0 } }, { RLX_F32, 2, { 0, 5 } } },
		{ { RLX_F32, 2, { 0, 3 } }, { RLX_F32, 2, { 3, 5 } } },
		{ { RLX_I32, 2, { 4, 6 } }, { RLX_I32, 2, { 6, 5 } } },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 2;
	s->in[0] = c[i].a;
	s->in[1] = c[i].b;
	s->tol = 1e-5;
	return true;
}

const struct rlx_op_impl rlx_op_matmul_impl = {
	.infer = matmul_infer, .eval = matmul_eval, .vjp = matmul_vjp,
	.cost = matmul_cost,
	.batch = op_batch_matmul,
};
RLX_SAMPLES(matmul, matmul_sample)
