// SPDX-License-Identifier: MIT
/* A matrix product with what commonly stands around it. */
#include "ops/batch.h"
#include "ops/act.h"
#include "ir/match.h"

/*
 * Shapes:	a[.., m, k], trans_a: [.., k, m]; b[.., k, n], trans_b: [.., n, k]; bias[n] or
 *		[1], residual like y -> y[.., m, n]; leading dimensions broadcast
 * Dtypes:	a, b: floats, f8 too; bias, residual: f64 f32 f16 bf16; y as a and b
 *		promoted, or out_dtype
 * Does:	act(alpha a b + bias + residual). act is one of enum rlx_act, none if not given;
 *		act_lo and act_hi bound RLX_ACT_CLIP and are factor and addend of
 *		RLX_ACT_HARD_SIGMOID. compute f16 or bf16 rounds a and b to it first and sums as
 *		wide as without; tf32 lets a device multiply f32 as TF32. out_dtype, if
 *		given f64, f32, f16 or bf16, is what y is rounded to, once and behind act; sums are
 *		as wide at least.
 * Gradient:	by the ops that it stands for
 * Source:	transpose, matmul, mul, add and the activation's op
 */
RLX_OP(fused_matmul, "act(alpha op(a) op(b) + bias + residual); op transposes the last two dims",
	IN(a) IN(b) OPT(bias) OPT(residual)
	ATTR(bool, trans_a)
	ATTR(bool, trans_b)
	ATTR_NZ(f32, alpha, 1)
	ATTR(i32, act)
	ATTR(f32, act_lo)
	ATTR(f32, act_hi)
	ATTR(dtype, compute)
	ATTR(dtype, out_dtype)
	ATTR(bool, tf32),
	RLX_T_COMPUTE | RLX_T_FUSED | RLX_T_TAPERS)

static enum rlx_status product_shape(struct rlx_infer *q)
{
	const struct rlx_op_fused_matmul *a = q->args;
	const struct rlx_type *x = q->in[0], *w = q->in[1];
	struct rlx_type bx = *x, bw = *w, *y = &q->out[0];
	int64_t kx, kw;

	if (x->rank < 2 || w->rank < 2)
		return op_fail(q, RLX_ESHAPE, "rank %u x rank %u; both need at least 2",
			       x->rank, w->rank);
	kx = x->dim[x->rank - (a->trans_a ? 2 : 1)];
	kw = w->dim[w->rank - (a->trans_b ? 1 : 2)];
	if (kx != kw)
		return op_fail(q, RLX_ESHAPE, "inner dims %lld != %lld",
			       (long long)kx, (long long)kw);
	bx.rank -= 2;
	bw.rank -= 2;
	if (!op_broadcast(&bx, &bw, y))
		return op_fail(q, RLX_ESHAPE, "the batch dimensions do not broadcast");
	y->dtype = rlx_dtype_promote(x->dtype, w->dtype);
	y->dim[y->rank++] = x->dim[x->rank - (a->trans_a ? 1 : 2)];
	y->dim[y->rank++] = w->dim[w->rank - (a->trans_b ? 2 : 1)];
	return RLX_OK;
}

static enum rlx_status fused_matmul_infer(struct rlx_infer *q)
{
	const struct rlx_op_fused_matmul *a = q->args;
	const struct rlx_type *bias = q->in[2], *res = q->in[3], *y = &q->out[0];
	enum rlx_status st = RLX_OK;
	uint32_t k;

	for (k = 0; !st && k < 4; k++)
		if (q->in[k])
			st = op_need_float(q, k, k < 2);
	if (!st)
		st = op_act_infer(q, a->act, a->act_lo, a->act_hi);
	if (!st && !isfinite(a->alpha))
		st = op_fail(q, RLX_EINVAL, "alpha is %g", (double)a->alpha);
	if (!st && a->compute && a->compute != RLX_BF16 && a->compute != RLX_F16)
		st = op_fail(q, RLX_ETYPE, "compute is %s; bf16, f16 or nothing",
			     rlx_dtype_name(a->compute));
	if (!st)
		st = product_shape(q);
	if (!st)
		st = op_infer_out_dtype(q, a->out_dtype);
	if (st)
		return st;
	if (bias && (bias->rank != 1 || (bias->dim[0] != 1 &&
					 bias->dim[0] != y->dim[y->rank - 1])))
		return op_fail(q, RLX_ESHAPE, "the bias must have 1 or %lld elements",
			       (long long)y->dim[y->rank - 1]);
	if (res && (res->rank != y->rank ||
		    memcmp(res->dim, y->dim, y->rank * sizeof(y->dim[0]))))
		return op_fail(q, RLX_ESHAPE, "the residual has not the result's shape");
	return RLX_OK;
}

/* @x as @dt, ahead of what gives it another shape: products of either shape share the rounding. */
static rlx_value rounded(struct rlx_graph *g, rlx_value x, enum rlx_dtype dt)
{
	const struct rlx_node *n = rlx_node_of(g, x.id);
	struct rlx_type t;

	if (n->def->index != RLX_OP_reshape || op_type(g, x).dtype == dt)
		return op_cast(g, x, dt);
	t = op_type(g, x);
	return op_reshape(g, rounded(g, (rlx_value){ n->in[0] }, dt), t.dim, t.rank);
}

/* The operands rounded to what they are multiplied as: a device may have just that. */
static rlx_value round_operands(struct rlx_expand *q)
{
	struct rlx_op_fused_matmul a = *(const struct rlx_op_fused_matmul *)q->args;

	a.a = rounded(q->g, q->in[0], a.compute);
	a.b = rounded(q->g, q->in[1], a.compute);
	a.bias = q->in[2];
	a.residual = q->in[3];
	a.compute = RLX_NODTYPE;
	/* What is narrower than an out_dtype may be is rounded to once, behind it. */
	a.out_dtype = rlx_dtype_size(q->out_type->dtype) > 1 ? q->out_type->dtype : RLX_F32;
	return op_cast(q->g, rlx_emit_raw(q->g, &rlx_op_fused_matmul, &a, sizeof(a), __FILE__,
					  __LINE__), q->out_type->dtype);
}

static enum rlx_status fused_matmul_expand(struct rlx_expand *q)
{
	const struct rlx_op_fused_matmul *a = q->args;
	rlx_value x = q->in[0], w = q->in[1], y;
	enum rlx_dtype sum;

	if (a->compute) {
		q->out[0] = round_operands(q);
		return op_done(q->g);
	}
	sum = rlx_dtype_promote(rlx_dtype_promote(op_type(q->g, x).dtype, op_type(q->g, w).dtype),
				q->out_type->dtype);
	if (a->out_dtype) {
		x = op_cast(q->g, x, sum);
		w = op_cast(q->g, w, sum);
	}
	if (a->trans_a)
		x = op_swap_last(q->g, x);
	if (a->trans_b)
		w = op_swap_last(q->g, w);
	y = rlx_emit(q->g, matmul, .a = x, .b = w);
	y = op_mul_const(q->g, y, a->alpha);
	if (q->in[2].id)
		y = rlx_emit(q->g, add, .a = y, .b = op_cast(q->g, q->in[2], sum));
	if (q->in[3].id)
		y = rlx_emit(q->g, add, .a = y, .b = op_cast(q->g, q->in[3], sum));
	y = op_act_emit(q->g, y, a->act, a->act_lo, a->act_hi);
	q->out[0] = op_cast(q->g, y, q->out_type->dtype);
	return op_done(q->g);
}

static void fused_matmul_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_fused_matmul *a = q->args;
	const struct rlx_type *x = q->in[0];

	c->flops = 2.0 * (double)rlx_type_count(&q->out[0]) *
		   (double)x->dim[x->rank - (a->trans_a ? 2 : 1)];
}

static void sample_act(unsigned int act, struct rlx_sample *s)
{
	struct rlx_op_fused_matmul *a = s->args;

	a->act = (int32_t)act;
	a->act_lo = act == RLX_ACT_HARD_SIGMOID ? 0.2f : -1;
	a->act_hi = act == RLX_ACT_HARD_SIGMOID ? 0.5f : 2;
	s->in[2] = rlx_type(RLX_F32, 33);
	if (act & 1)
		s->in[3] = rlx_type(RLX_F32, 7, 33);
	if (act == RLX_ACT_CLIP || act == RLX_ACT_HARD_SIGMOID || act == RLX_ACT_RELU ||
	    act == RLX_ACT_HARD_SWISH)
		s->grad_tol = 2e-3;	/* a difference may cross a kink */
}

static bool sample_form(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fused_matmul *a = s->args;

	switch (i) {
	case 0:
		s->in[0] = rlx_type(RLX_F32, 19, 7);
		s->in[2] = rlx_type(RLX_F32, 1);
		a->trans_a = true;
		a->alpha = -0.5f;
		return true;
	case 1:
		s->in[1] = rlx_type(RLX_F32, 33, 19);
		a->trans_b = true;
		return true;
	case 2:
		s->in[0] = rlx_type(RLX_F32, 2, 1, 5, 6);
		s->in[1] = rlx_type(RLX_F32, 3, 4, 5);
		s->in[3] = rlx_type(RLX_F32, 2, 3, 6, 4);
		a->trans_a = a->trans_b = true;
		return true;
	case 3:
		s->in[0] = rlx_type(RLX_F32, 3, 0);
		s->in[1] = rlx_type(RLX_F32, 0, 4);
		s->in[2] = rlx_type(RLX_F32, 4);
		a->act = RLX_ACT_GELU;
		return true;
	case 4:
		s->in[0] = rlx_type(RLX_F32, 0, 19);
		return true;
	case 5:
		s->in[0] = rlx_type(RLX_F32, 1, 19);
		return true;
	case 6:
		a->compute = RLX_BF16;
		s->tol = 2e-2;
		s->grad_tol = -1;
		return true;
	case 7:		/* an eighth of bf16's rounding */
		s->in[0] = rlx_type(RLX_F32, 70, 19);
		a->tf32 = true;
		s->tol = 2.5e-3;
		return true;
	case 8:		/* what compute rounds, with what stands behind it */
		s->in[0] = rlx_type(RLX_F16, 37, 24);
		s->in[1] = rlx_type(RLX_F16, 24, 40);
		s->in[2] = rlx_type(RLX_F32, 40);
		s->in[3] = rlx_type(RLX_F32, 37, 40);
		a->out_dtype = RLX_F32;
		a->act = RLX_ACT_GELU;
		s->grad_tol = -1;
		return true;
	case 9:
		s->in[0] = rlx_type(RLX_BF16, 3, 24);
		s->in[1] = rlx_type(RLX_BF16, 24, 8);
		a->out_dtype = RLX_F32;
		s->grad_tol = -1;
		return true;
	case 10:
		a->out_dtype = RLX_F16;
		s->tol = 1e-3;
		s->grad_tol = -1;
		return true;
	case 11:	/* an ulp of the result's */
		s->in[0] = rlx_type(RLX_F8E5M2, 3, 24);
		s->in[1] = rlx_type(RLX_F8E5M2, 24, 8);
		a->compute = RLX_BF16;
		s->tol = 0.25;
		s->grad_tol = -1;
		return true;
	}
	return false;
}

static bool fused_matmul_sample(unsigned int i, struct rlx_sample *s)
{
	s->n_in = 4;
	s->tol = 1e-5;
	s->in[0] = rlx_type(RLX_F32, 7, 19);
	s->in[1] = rlx_type(RLX_F32, 19, 33);
	if (i >= RLX_ACT_COUNT)
		return sample_form(i - RLX_ACT_COUNT, s);
	sample_act(i, s);
	return true;
}

/* A transpose of b, which nothing else reads, goes into the product. */
static void take_transpose(struct rlx_match *m, struct rlx_op_fused_matmul *a)
{
	const struct rlx_node *n = rlx_match_node(m, "b");

	if (n->def->index != RLX_OP_transpose || m->uses[n->out] != 1 ||
	    m->n_node == RLX_MATCH_NODES || !op_swaps_last(n->args, rlx_match_type(m, "b")->rank))
		return;
	m->node[m->n_node++] = m->g->val[n->out].node;
	a->b.id = n->in[0];
	a->trans_b = true;
}

static bool fused_matmul_accept(struct rlx_match *m, void *args)
{
	struct rlx_op_fused_matmul *a = args;

	a->a = rlx_match_value(m, "a");
	a->b = rlx_match_value(m, "b");
	a->bias = rlx_match_value(m, "bias");
	a->residual = rlx_match_value(m, "r");
	/* a vector on both sides of the sum: the row one is the bias */
	if (a->bias.id && rlx_match_type(m, "bias")->rank != 1)
		return false;
	take_transpose(m, a);
	return op_act_take(m, &a->act, &a->act_lo, &a->act_hi);
}

static bool fused_matmul_accept_transposed(struct rlx_match *m, void *args)
{
	return fused_matmul_accept(m, args) && ((struct rlx_op_fused_matmul *)args)->trans_b;
}

/* What stands behind one that has nothing behind it goes into it: a bias, a residual or both. */
static bool fused_matmul_extend(struct rlx_match *m, void *args)
{
	const struct rlx_op_fused_matmul *f = rlx_match_node(m, "m")->args;
	struct rlx_op_fused_matmul *a = args;
	const struct rlx_type *bias = rlx_match_type(m, "bias");

	if (f->act || f->out_dtype || (bias && bias->rank != 1))
		return false;
	*a = *f;
	a->a = rlx_match_value(m, "a");
	a->b = rlx_match_value(m, "b");
	a->bias = rlx_match_value(m, "bias");
	a->residual = rlx_match_value(m, "r");
	return op_act_take(m, &a->act, &a->act_lo, &a->act_hi);
}

#define MM  "matmul(a, b)"
#define MMB "add(matmul(a, b), bias)"
#define MMR "add(add(matmul(a, b), bias), r)"
#define MMA "add(matmul(a, b), r)"
#define FMA "add(m:fused_matmul(a, b), r)"
#define FMB "add(m:fused_matmul(a, b), bias)"
#define FMR "add(add(m:fused_matmul(a, b), bias), r)"
#define ACTS(x) OP_ACT_PATTERNS(x, fused_matmul_accept)
static const struct rlx_pattern fused_matmul_patterns[] = {
	ACTS(MMR), ACTS(MMB), ACTS(MMA), ACTS(MM),
	{ MMR, fused_matmul_accept },
	{ MMB, fused_matmul_accept },
	{ MMA, fused_matmul_accept },
	{ MM, fused_matmul_accept_transposed },
	OP_ACT_PATTERNS(FMR, fused_matmul_extend), OP_ACT_PATTERNS(FMB, fused_matmul_extend),
	OP_ACT_PATTERNS(FMA, fused_matmul_extend),
	{ FMR, fused_matmul_extend },
	{ FMB, fused_matmul_extend },
	{ FMA, fused_matmul_extend },
	{ NULL, NULL },
};

const struct rlx_op_impl rlx_op_fused_matmul_impl = {
	.pattern = fused_matmul_patterns,
	.infer = fused_matmul_infer, .expand = fused_matmul_expand,
	.cost = fused_matmul_cost,
	.batch = op_batch_matmul,
};
RLX_SAMPLES(fused_matmul, fused_matmul_sample)
