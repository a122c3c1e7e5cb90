// SPDX-License-Identifier: MIT
/* Rotary position embedding. */
#include "ops/defaults.h"
#include "ops/emit.h"

/*
 * Shapes:	x[b, s, heads w], or of rank 4 as layout says [b, s, h, w] (RLX_BSHD, if not
 *		given) or [b, h, s, w] (RLX_BHSD); cos, sin[positions, n_rot / 2], pos[s], [1, s]
 *		or [b, s] -> y like x
 * Dtypes:	x, cos, sin: f64 f32 f16 bf16; pos: i32 i64 u32; y as x
 * Does:	each pair (u, v) of the first n_rot elements of a head becomes (u cos - v sin, v
 *		cos + u sin), with the row of the tables that pos says, 0, 1, .. if not given.
 *		Pair i is elements i and i + n_rot / 2 (style RLX_ROPE_NEOX, if not given) or 2 i
 *		and 2 i + 1 (RLX_ROPE_GPTJ). n_rot is even; 0: all of the head. What is behind
 *		stays. heads may be 0 for rank 4.
 * Errors:	RLX_ERANGE for a position outside the tables; negative ones count from their end.
 * Gradient:	by those operations: to x, cos and sin; none to pos
 * Source:	Su et al. 2021 (RoFormer)
 */
RLX_OP(rope, "rotate pairs of the first n_rot elements of each head by its position's angles",
	IN(x) IN(cos) IN(sin) OPT(pos)
	ATTR(i32, layout)
	ATTR(i32, heads)
	ATTR(i32, n_rot)
	ATTR(i32, style),
	RLX_T_REDUCTION)

/* x as [batch, rows, heads, width] in memory order of its layout. */
struct rope_dims {
	int64_t b, s, h, d, n;	/* n: elements rotated */
	bool	bhsd;
};

static struct rope_dims dims_of(const struct rlx_op_rope *a, const struct rlx_type *x)
{
	struct rope_dims m = { .b = x->dim[0], .s = x->dim[1], .h = a->heads };

	if (x->rank == 3) {
		m.d = x->dim[2] / a->heads;
	} else {
		m.bhsd = a->layout == RLX_BHSD;
		m.s = x->dim[m.bhsd ? 2 : 1];
		m.h = x->dim[m.bhsd ? 1 : 2];
		m.d = x->dim[3];
	}
	m.n = op_rope_width(a->n_rot, m.d);
	return m;
}

static enum rlx_status check_tables(struct rlx_infer *q, const struct rope_dims *m)
{
	const struct rlx_type *c = q->in[1], *s = q->in[2], *pos = q->in[3];

	if (c->rank != 2 || s->rank != 2 || c->dim[1] != m->n / 2 ||
	    s->dim[1] != m->n / 2 || c->dim[0] != s->dim[0])
		return op_fail(q, RLX_ESHAPE, "cos and sin must both be [positions, %lld]",
			       (long long)(m->n / 2));
	if (!pos && c->dim[0] < m->s)
		return op_fail(q, RLX_ESHAPE, "the tables have %lld positions, x has %lld",
			       (long long)c->dim[0], (long long)m->s);
	if (pos && !(pos->rank == 1 && pos->dim[0] == m->s) &&
	    !(pos->rank == 2 && (pos->dim[0] == m->b || pos->dim[0] == 1) &&
	      pos->dim[1] == m->s))
		return op_fail(q, RLX_ESHAPE, "pos must be [%lld] or [%lld, %lld]",
			       (long long)m->s, (long long)m->b, (long long)m->s);
	return RLX_OK;
}

static enum rlx_status rope_infer(struct rlx_infer *q)
{
	const struct rlx_op_rope *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_enum(q, "layout", a->layout, RLX_BHSD + 1);
	struct rope_dims m;
	uint32_t k;

	st = st ? st : op_need_enum(q, "style", a->style, RLX_ROPE_GPTJ + 1);
	for (k = 0; !st && k < 3; k++)
		st = op_need_float(q, k, false);
	if (!st && q->in[3])
		st = op_need_index(q, 3);
	st = st ? st : op_need_rank(q, 0, 3, 4);
	if (st)
		return st;
	if (x->rank == 3 && (a->heads < 1 || x->dim[2] % a->heads || a->layout != RLX_BSHD))
		return op_fail(q, RLX_ESHAPE,
			       "rank 3 is [batch, rows, heads width]: heads is %d, columns %lld",
			       a->heads, (long long)x->dim[2]);
	m = dims_of(a, x);
	if (x->rank == 4 && a->heads && a->heads != m.h)
		return op_fail(q, RLX_ESHAPE, "x has %lld heads, heads is %d",
			       (long long)m.h, a->heads);
	if (a->n_rot < 0 || m.n > m.d || m.n % 2)
		return op_fail(q, RLX_EINVAL, "n_rot %lld must be even and at most %lld",
			       (long long)m.n, (long long)m.d);
	st = check_tables(q, &m);
	return st ? st : op_infer_same(q);
}

static enum rlx_status position(const struct rlx_eval *q, const struct rope_dims *m,
				int64_t b, int64_t s, int64_t *out)
{
	const struct rlx_type *t = &q->in[3].type;

	*out = s;
	if (!op_has(&q->in[3]))
		return RLX_OK;
	if (t->rank == 2 && t->dim[0] > 1)
		s += b * m->s;
	return op_index(q, el_geti(&q->in[3], s), q->in[1].type.dim[0], out);
}

static void rotate(const struct rlx_eval *q, const struct rope_dims *m, int64_t base,
		   int64_t pos)
{
	const struct rlx_op_rope *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	int64_t half = m->n / 2, i, p, r;
	double c, s, u, v;

	for (i = 0; i < half; i++) {
		c = el_get(&q->in[1], pos * half + i);
		s = el_get(&q->in[2], pos * half + i);
		p = base + (a->style == RLX_ROPE_GPTJ ? 2 * i : i);
		r = base + (a->style == RLX_ROPE_GPTJ ? 2 * i + 1 : i + half);
		u = el_get(x, p);
		v = el_get(x, r);
		el_set(&q->out[0], p, u * c - v * s);
		el_set(&q->out[0], r, v * c + u * s);
	}
	for (i = m->n; i < m->d; i++)
		el_copy(&q->out[0], base + i, x, base + i);
}

static enum rlx_status rope_eval(struct rlx_eval *q)
{
	struct rope_dims m = dims_of(q->args, &q->in[0].type);
	int64_t b, s, h, pos;
	enum rlx_status st;

	for (b = 0; b < m.b; b++)
		for (s = 0; s < m.s; s++) {
			st = position(q, &m, b, s, &pos);
			if (st)
				return st;
			for (h = 0; h < m.h; h++)
				rotate(q, &m, (m.bhsd ? (b * m.h + h) * m.s + s :
					       (b * m.s + s) * m.h + h) * m.d, pos);
		}
	return RLX_OK;
}

/* A table's rows for x's positions, shaped to broadcast: [b or 1, .., n / 2, 1?]. */
static rlx_value rows(struct rlx_expand *q, rlx_value table, const struct rope_dims *m,
		      enum rlx_dtype acc)
{
	const struct rlx_op_rope *a = q->args;
	rlx_value t = op_cast(q->g, table, acc);
	struct rlx_type pos = op_type(q->g, q->in[3]);
	int64_t b = pos.rank == 2 ? pos.dim[0] : 1;
	bool pairs = a->style == RLX_ROPE_GPTJ;

	if (q->in[3].id)
		t = rlx_emit(q->g, gather, .x = t, .indices = q->in[3]);
	else
		t = rlx_emit(q->g, slice, .x = t, .axes = RLX_INTS(0),
			     .starts = RLX_INTS(0), .ends = RLX_INTS(m->s));
	return op_reshape(q->g, t, (int64_t[]){ b, m->bhsd ? 1 : m->s,
			  m->bhsd ? m->s : 1, m->n / 2, 1 }, 4 + pairs);
}

static rlx_value part(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(-1), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

static rlx_value turn(struct rlx_graph *g, rlx_value u, rlx_value c, rlx_value v,
		      rlx_value s, bool minus)
{
	rlx_value p = rlx_emit(g, mul, .a = u, .b = c);
	rlx_value r = rlx_emit(g, mul, .a = v, .b = s);

	return minus ? rlx_emit(g, sub, .a = p, .b = r) : rlx_emit(g, add, .a = p, .b = r);
}

static enum rlx_status rope_expand(struct rlx_expand *q)
{
	const struct rlx_op_rope *a = q->args;
	struct rlx_type t = *q->out_type;
	struct rope_dims m = dims_of(a, &t);
	enum rlx_dtype acc = op_acc_type(t.dtype);
	struct rlx_graph *g = q->g;
	rlx_value x, c, s, u, v, y[2];
	bool pairs = a->style == RLX_ROPE_GPTJ;
	int64_t dim[5] = { m.b, m.bhsd ? m.h : m.s, m.bhsd ? m.s : m.h, m.d, 0 };

	x = op_reshape(g, op_cast(g, q->in[0], acc), dim, 4);
	y[1] = part(g, x, m.n, m.d);
	x = part(g, x, 0, m.n);
	c = rows(q, q->in[1], &m, acc);
	s = rows(q, q->in[2], &m, acc);
	dim[3] = m.n / 2;
	dim[4] = 2;
	if (pairs)
		x = op_reshape(g, x, dim, 5);
	u = part(g, x, 0, pairs ? 1 : m.n / 2);
	v = part(g, x, pairs ? 1 : m.n / 2, pairs ? 2 : m.n);
	x = rlx_emit(g, concat, .axis = -1, .xs = RLX_VALUES(turn(g, u, c, v, s, true),
							     turn(g, v, c, u, s, false)));
	dim[3] = m.n;
	y[0] = op_reshape(g, x, dim, 4);
	x = rlx_emit(g, concat, .axis = -1, .xs = { y, 2 });
	q->out[0] = op_cast(g, op_reshape(g, x, t.dim, t.rank), t.dtype);
	return op_done(g);
}

static bool rope_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_rope *a = s->args;
	int64_t n = 8;

	if (i > 8)
		return false;
	s->n_in = 4;
	s->tol = 1e-6;
	a->style = i & 1 ? RLX_ROPE_GPTJ : RLX_ROPE_NEOX;
	s->in[0] = i < 2 ? rlx_type(RLX_F32, 2, 5, 24) : rlx_type(RLX_F32, 2, 5, 3, 8);
	if (i < 2)
		a->heads = 3;
	if (i >= 2 && i < 4)
		a->layout = RLX_BHSD;	/* five heads, three rows */
	if (i == 4 || i == 5)
		a->n_rot = (int32_t)(n = 4);
	if (i == 6 || i == 7) {
		s->in[3] = i == 6 ? rlx_type(RLX_I64, 5) : rlx_type(RLX_I32, 2, 5);
		s->hi[3] = 8;
	}
	if (i == 8)
		s->in[0].dim[1] = 0;
	s->in[1] = s->in[2] = rlx_type(RLX_F32, 9, n / 2);
	return true;
}

const struct rlx_op_impl rlx_op_rope_impl = {
	.infer = rope_infer, .eval = rope_eval, .expand = rope_expand,
};
RLX_SAMPLES(rope, rope_sample)
