// SPDX-License-Identifier: MIT
/* Contraction over any axes, as XLA's DotGeneral: what einsum becomes. */
#include "ops/emit.h"

/*
 * Shapes:	a[..], b[..] -> y[batch axes.., a's other axes.., b's other axes..]
 * Dtypes:	f64 f32 f16 bf16 and integers; y as a and b promoted
 * Does:	sums the products over lhs_contract of a paired with rhs_contract of b, for each
 *		place on lhs_batch paired with rhs_batch; paired axes have one size. Without any
 *		list it is the outer product. Integers wrap.
 * Gradient:	by transpose, reshape and matmul: to a and b
 * Source:	XLA DotGeneral
 */
RLX_OP(dot_general, "contract axes of a and b; result: batch axes, a's others, b's others",
	IN(a) IN(b)
	ATTR(ints, lhs_contract)
	ATTR(ints, rhs_contract)
	ATTR(ints, lhs_batch)
	ATTR(ints, rhs_batch),
	RLX_T_COMPUTE)

/* Axes of one operand in the order batch, free, contracted (or the last two swapped). */
struct axes {
	uint32_t	n_batch, n_free, n_con;
	uint32_t	batch[RLX_MAX_RANK], free[RLX_MAX_RANK], con[RLX_MAX_RANK];
};

static bool put_axes(struct rlx_ints l, uint32_t rank, uint32_t *to, uint32_t *n,
		     uint32_t *seen)
{
	for (*n = 0; *n < l.n; ++*n) {
		if (*n >= RLX_MAX_RANK || !op_axis(l.v[*n], rank, &to[*n]) ||
		    *seen >> to[*n] & 1)
			return false;
		*seen |= 1u << to[*n];
	}
	return true;
}

static bool axes_of(uint32_t rank, struct rlx_ints batch, struct rlx_ints con,
		    struct axes *x)
{
	uint32_t seen = 0, i;

	*x = (struct axes){ 0 };
	if (!put_axes(batch, rank, x->batch, &x->n_batch, &seen) ||
	    !put_axes(con, rank, x->con, &x->n_con, &seen))
		return false;
	for (i = 0; i < rank; i++)
		if (!(seen >> i & 1))
			x->free[x->n_free++] = i;
	return true;
}

static enum rlx_status pair_up(struct rlx_infer *q, const char *what, uint32_t n,
			       const uint32_t *a, const uint32_t *b)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (q->in[0]->dim[a[i]] != q->in[1]->dim[b[i]])
			return op_fail(q, RLX_ESHAPE,
				       "%s axes %u and %u have sizes %lld and %lld", what,
				       a[i], b[i], (long long)q->in[0]->dim[a[i]],
				       (long long)q->in[1]->dim[b[i]]);
	return RLX_OK;
}

static enum rlx_status dot_general_infer(struct rlx_infer *q)
{
	const struct rlx_op_dot_general *a = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1];
	struct rlx_type *y = &q->out[0];
	enum rlx_status st = op_need_number(q, 0);
	struct axes l, r;
	uint32_t i;

	if (!st)
		st = op_need_number(q, 1);
	if (st)
		return st;
	if (!axes_of(x->rank, a->lhs_batch, a->lhs_contract, &l) ||
	    !axes_of(w->rank, a->rhs_batch, a->rhs_contract, &r))
		return op_fail(q, RLX_EINVAL,
			       "an axis is outside ranks %u and %u or named twice",
			       x->rank, w->rank);
	if (l.n_batch != r.n_batch || l.n_con != r.n_con)
		return op_fail(q, RLX_EINVAL,
			       "%u and %u batch axes, %u and %u contracted axes",
			       l.n_batch, r.n_batch, l.n_con, r.n_con);
	st = pair_up(q, "batch", l.n_batch, l.batch, r.batch);
	if (!st)
		st = pair_up(q, "contracted", l.n_con, l.con, r.con);
	if (st)
		return st;
	if (l.n_batch + l.n_free + r.n_free > RLX_MAX_RANK)
		return op_fail(q, RLX_ESHAPE, "the result's rank %u is over %d",
			       l.n_batch + l.n_free + r.n_free, RLX_MAX_RANK);
	y->dtype = rlx_dtype_promote(x->dtype, w->dtype);
	for (i = 0; i < l.n_batch; i++)
		y->dim[y->rank++] = x->dim[l.batch[i]];
	for (i = 0; i < l.n_free; i++)
		y->dim[y->rank++] = x->dim[l.free[i]];
	for (i = 0; i < r.n_free; i++)
		y->dim[y->rank++] = w->dim[r.free[i]];
	return RLX_OK;
}

static int64_t product(const struct rlx_type *t, const uint32_t *ax, uint32_t n)
{
	int64_t p = 1;

	while (n-- > 0)
		p *= t->dim[ax[n]];
	return p;
}

/* One operand as [batch, free, contracted], or with the last two swapped. */
static rlx_value as_matrix(struct rlx_graph *g, rlx_value v, const struct axes *x,
			   bool con_first)
{
	struct rlx_type t = op_type(g, v);
	int64_t perm[RLX_MAX_RANK], f = product(&t, x->free, x->n_free);
	int64_t c = product(&t, x->con, x->n_con);
	uint32_t n = 0, i;

	for (i = 0; i < x->n_batch; i++)
		perm[n++] = x->batch[i];
	for (i = 0; con_first && i < x->n_con; i++)
		perm[n++] = x->con[i];
	for (i = 0; i < x->n_free; i++)
		perm[n++] = x->free[i];
	for (i = 0; !con_first && i < x->n_con; i++)
		perm[n++] = x->con[i];
	v = op_transpose(g, v, (struct rlx_ints){ perm, n });
	return op_reshape(g, v, (int64_t[]){ product(&t, x->batch, x->n_batch),
			  con_first ? c : f, con_first ? f : c }, 3);
}

static enum rlx_status dot_general_expand(struct rlx_expand *q)
{
	const struct rlx_op_dot_general *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]), w = op_type(q->g, q->in[1]);
	struct axes l, r;
	rlx_value v;

	axes_of(x.rank, a->lhs_batch, a->lhs_contract, &l);
	axes_of(w.rank, a->rhs_batch, a->rhs_contract, &r);
	v = rlx_emit(q->g, matmul, .a = as_matrix(q->g, q->in[0], &l, false),
		     .b = as_matrix(q->g, q->in[1], &r, true));
	q->out[0] = op_reshape(q->g, v, q->out_type->dim, q->out_type->rank);
	return op_done(q->g);
}

static void dot_general_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_dot_general *a = q->args;
	uint32_t i, ax = 0;

	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]);
	for (i = 0; i < a->lhs_contract.n; i++)
		if (op_axis(a->lhs_contract.v[i], q->in[0]->rank, &ax))
			c->flops *= (double)q->in[0]->dim[ax];
}

static bool dot_general_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_dot_general *a = s->args;

	s->n_in = 2;
	s->tol = 1e-5;
	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_F32, 5, 7);
		s->in[1] = rlx_type(RLX_F32, 7, 3);
		a->lhs_contract = op_keep(s, RLX_INTS(1));
		a->rhs_contract = op_keep(s, RLX_INTS(0));
		return true;
	case 1:		/* two batch axes in different places, two contracted */
		s->in[0] = rlx_type(RLX_F32, 2, 5, 3, 4, 6);
		s->in[1] = rlx_type(RLX_F32, 6, 3, 2, 7, 5);
		a->lhs_batch = op_keep(s, RLX_INTS(0, 2));
		a->rhs_batch = op_keep(s, RLX_INTS(2, 1));
		a->lhs_contract = op_keep(s, RLX_INTS(-1, 1));
		a->rhs_contract = op_keep(s, RLX_INTS(0, -1));
		return true;
	case 2:		/* outer product */
		s->in[0] = rlx_type(RLX_F32, 3);
		s->in[1] = rlx_type(RLX_F32, 4, 2);
		return true;
	case 3:		/* a number */
		s->in[0] = s->in[1] = rlx_type(RLX_I32, 3, 4);
		s->hi[0] = s->hi[1] = 9;
		a->lhs_contract = a->rhs_contract = op_keep(s, RLX_INTS(0, 1));
		return true;
	case 4:
		s->in[0] = rlx_type(RLX_F32, 3, 0);
		s->in[1] = rlx_type(RLX_F32, 0, 4);
		a->lhs_contract = op_keep(s, RLX_INTS(1));
		a->rhs_contract = op_keep(s, RLX_INTS(0));
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_dot_general_impl = {
	.infer = dot_general_infer, .expand = dot_general_expand,
	.cost = dot_general_cost,
};
RLX_SAMPLES(dot_general, dot_general_sample)
