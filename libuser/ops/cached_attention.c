// SPDX-License-Identifier: MIT
/* A decoder's attention: new keys and values go into a cache, queries look at all of it. */
#include "ops/emit.h"

/*
 * Shapes:	cache[2, b, rows, g, d], x[b, s, (h + 2 g) d], pos[b], cos and sin[positions, d /
 *		2] -> cache, y[b, s, h d] for h = heads, g = kv_heads; s <= rows, d even
 * Dtypes:	cache, x, cos, sin: f64 f32 f16 bf16; pos: i32 i64 u32; y as x
 * Does:	x holds queries, keys and values side by side, as many heads of them as heads and
 *		kv_heads say, which must be given. Queries and keys turn by rope in style
 *		(RLX_ROPE_NEOX if not given) at positions pos[b] to pos[b] + s - 1, if there are
 *		cos and sin; keys and values go into those rows of the cache, keys in its first
 *		half; each query attends to the rows up to its own. scale 0 (if not given) is 1 /
 *		sqrt(d).
 * Errors:	RLX_ERANGE for a row past the cache or its tables.
 * Gradient:	by rope, scatter_nd and attention: to cache, x, cos and sin; none to pos
 * Source:	Pope et al. 2022 (key and value caches)
 */
RLX_OP(cached_attention, "k, v of x [q | k | v] into the cache at pos; causal attention over it",
	IN(cache) IN(x) IN(pos) OPT(cos) OPT(sin)
	ATTR(i32, heads)
	ATTR(i32, kv_heads)
	ATTR(i32, style)
	ATTR(f32, scale),
	RLX_T_COMPUTE | RLX_T_FUSED | RLX_T_INPLACE)

/* cache: [2, batch, rows, kv heads, width], keys first; x: [batch, new rows, heads width] */
struct dims {
	int64_t b, s, rows, h, kv, d;
};

static struct dims dims_of(const struct rlx_op_cached_attention *a, const struct rlx_type *cache,
			   const struct rlx_type *x)
{
	return (struct dims){ cache->dim[1], x->dim[1], cache->dim[2], a->heads,
			      cache->dim[3], cache->dim[4] };
}

static enum rlx_status check_tables(struct rlx_infer *q, int64_t half)
{
	const struct rlx_type *c = q->in[3], *s = q->in[4];
	enum rlx_status st = RLX_OK;
	uint32_t k;

	if (!c != !s)
		return op_fail(q, RLX_EINVAL, "cos and sin are given together or not at all");
	for (k = 3; c && !st && k < 5; k++)
		st = op_need_float(q, k, false);
	if (st || !c)
		return st;
	if (c->rank != 2 || s->rank != 2 || c->dim[1] != half || s->dim[1] != half ||
	    c->dim[0] != s->dim[0])
		return op_fail(q, RLX_ESHAPE, "cos and sin must both be [positions, %lld]",
			       (long long)half);
	return RLX_OK;
}

static enum rlx_status cached_attention_infer(struct rlx_infer *q)
{
	const struct rlx_op_cached_attention *a = q->args;
	const struct rlx_type *cache = q->in[0], *x = q->in[1], *pos = q->in[2];
	enum rlx_status st = op_need_enum(q, "style", a->style, RLX_ROPE_GPTJ + 1);
	struct dims m;

	if (!st && !isfinite(a->scale))
		st = op_fail(q, RLX_EINVAL, "scale is %g", (double)a->scale);
	if (!st)
		st = op_need_float(q, 0, false);
	if (!st)
		st = op_need_float(q, 1, false);
	if (!st)
		st = op_need_index(q, 2);
	if (!st)
		st = op_need_rank(q, 0, 5, 5);
	if (!st)
		st = op_need_rank(q, 1, 3, 3);
	if (st)
		return st;
	m = dims_of(a, cache, x);
	if (cache->dim[0] != 2 || x->dim[0] != m.b || m.s > m.rows)
		return op_fail(q, RLX_ESHAPE, "the cache must be [2, %lld, at least %lld, ..]",
			       (long long)x->dim[0], (long long)m.s);
	if (m.h < 1 || m.kv < 1 || m.kv != a->kv_heads || m.h % m.kv || m.d < 1 || m.d % 2 ||
	    m.d > INT32_MAX || x->dim[2] != (m.h + 2 * m.kv) * m.d)
		return op_fail(q, RLX_ESHAPE, "%d heads, %d of keys and values, of even width: "
			       "x has %lld columns, the cache %lld x %lld", a->heads, a->kv_heads,
			       (long long)x->dim[2], (long long)m.kv, (long long)m.d);
	if (pos->rank != 1 || pos->dim[0] != m.b)
		return op_fail(q, RLX_ESHAPE, "pos must be [%lld]", (long long)m.b);
	st = check_tables(q, m.d / 2);
	if (st)
		return st;
	q->n_out = 2;
	q->out[0] = *cache;
	q->out[1] = *x;
	q->out[1].dim[2] = m.h * m.d;
	return RLX_OK;
}

/*
 * @n heads of x from head @first on, as [batch, rows, n, width], turned if @at; as wide as
 * sums are, so that what is turned is rounded where it is kept, and queries not at all.
 */
static rlx_value heads_at(struct rlx_expand *q, const struct dims *m, int64_t first, int64_t n,
			  rlx_value at)
{
	const struct rlx_op_cached_attention *a = q->args;
	rlx_value v = rlx_emit(q->g, slice, .x = q->in[1], .axes = RLX_INTS(2),
			       .starts = RLX_INTS(first * m->d),
			       .ends = RLX_INTS((first + n) * m->d));

	v = op_cast(q->g, v, op_acc_type(op_type(q->g, v).dtype));
	v = op_reshape(q->g, v, (int64_t[]){ m->b, m->s, n, m->d }, 4);
	return at.id ? rlx_emit(q->g, rope, .x = v, .cos = q->in[3], .sin = q->in[4], .pos = at,
				.style = a->style) : v;
}

/* Where each row goes: [2, batch, new rows, (half, batch, position)]. */
static rlx_value places(struct rlx_expand *q, const struct dims *m, rlx_value at)
{
	struct rlx_type t = rlx_type(RLX_I64, 2, m->b, m->s, 1);
	rlx_value v[3];

	v[0] = rlx_emit(q->g, iota, .type = t, .axis = 0, .step = 1);
	v[1] = rlx_emit(q->g, iota, .type = t, .axis = 1, .step = 1);
	v[2] = op_reshape(q->g, at, (int64_t[]){ 1, m->b, m->s, 1 }, 4);
	v[2] = op_expand_to(q->g, v[2], &t);
	return rlx_emit(q->g, concat, .axis = -1, .xs = { v, 3 });
}

static rlx_value half_of(struct rlx_expand *q, const struct dims *m, rlx_value cache, int64_t i)
{
	cache = rlx_emit(q->g, slice, .x = cache, .axes = RLX_INTS(0), .starts = RLX_INTS(i),
			 .ends = RLX_INTS(i + 1));
	return op_reshape(q->g, cache, (int64_t[]){ m->b, m->rows, m->kv, m->d }, 4);
}

/* Which of the cache's rows each new one sees: those up to itself. */
static rlx_value visible(struct rlx_expand *q, const struct dims *m, rlx_value at)
{
	rlx_value key = rlx_emit(q->g, iota, .type = rlx_type(RLX_I64, 1, 1, 1, m->rows),
				 .axis = 3, .step = 1);

	at = op_reshape(q->g, at, (int64_t[]){ m->b, 1, m->s, 1 }, 4);
	return rlx_emit(q->g, le, .a = key, .b = at);
}

static enum rlx_status cached_attention_expand(struct rlx_expand *q)
{
	const struct rlx_op_cached_attention *a = q->args;
	struct rlx_type cache = op_type(q->g, q->in[0]), x = op_type(q->g, q->in[1]);
	struct dims m = dims_of(a, &cache, &x);
	struct rlx_graph *g = q->g;
	int64_t row[5] = { 1, m.b, m.s, m.kv, m.d };
	rlx_value at, turn, query, kv[2], y;

	at = op_reshape(g, op_cast(g, q->in[2], RLX_I64), (int64_t[]){ m.b, 1 }, 2);
	at = rlx_emit(g, add, .a = at,
		      .b = rlx_emit(g, iota, .type = rlx_type(RLX_I64, 1, m.s), .axis = 1,
				    .step = 1));
	turn = q->in[3].id ? at : RLX_NONE;
	query = heads_at(q, &m, 0, m.h, turn);
	kv[0] = op_reshape(g, heads_at(q, &m, m.h, m.kv, turn), row, 5);
	kv[1] = op_reshape(g, heads_at(q, &m, m.h + m.kv, m.kv, RLX_NONE), row, 5);
	y = rlx_emit(g, concat, .axis = 0, .xs = { kv, 2 });
	q->out[0] = rlx_emit(g, scatter_nd, .x = q->in[0], .indices = places(q, &m, at),
			     .updates = op_cast(g, y, cache.dtype));
	y = rlx_emit(g, attention, .q = query, .k = half_of(q, &m, q->out[0], 0),
		     .v = half_of(q, &m, q->out[0], 1), .heads = a->heads,
		     .kv_heads = a->kv_heads, .scale = a->scale, .bias = visible(q, &m, at));
	y = op_reshape(g, y, q->out_type[1].dim, 3);
	q->out[1] = op_cast(g, y, x.dtype);
	return op_done(g);
}

static void cached_attention_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	struct dims m = dims_of(q->args, q->in[0], q->in[1]);

	c->flops = 4.0 * (double)m.b * (double)m.h * (double)m.s * (double)m.rows * (double)m.d;
}

static bool cached_attention_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_cached_attention *a = s->args;
	int64_t d = i == 2 ? 6 : 16, n = i == 1 ? 3 : 1, kv = i == 3 ? 4 : 2, b = 2;

	if (i > 6)
		return false;
	if (i == 6)
		b = 0;
	s->n_in = 5;
	s->tol = 2e-5;
	s->in[0] = rlx_type(RLX_F32, 2, b, i == 4 ? 300 : 21, kv, d);
	s->in[1] = rlx_type(RLX_F32, b, n, (4 + 2 * kv) * d);
	s->in[2] = rlx_type(i & 1 ? RLX_I32 : RLX_I64, b);
	s->hi[2] = i == 4 ? 299 : 21 - (double)n;
	if (i != 5)	/* no rope */
		s->in[3] = s->in[4] = rlx_type(RLX_F32, 300, d / 2);
	*a = (struct rlx_op_cached_attention){ .heads = 4, .kv_heads = (int32_t)kv,
		.style = i == 2 ? RLX_ROPE_GPTJ : RLX_ROPE_NEOX, .scale = i == 3 ? 0.3f : 0 };
	return true;
}

const struct rlx_op_impl rlx_op_cached_attention_impl = {
	.infer = cached_attention_infer, .expand = cached_attention_expand,
	.cost = cached_attention_cost,
};
RLX_SAMPLES(cached_attention, cached_attention_sample)
