// SPDX-License-Identifier: MIT
/* The gradient of attention, from its result and the logarithms of its rows' sums. */
#include "ops/attention.h"
#include "ops/defaults.h"
#include "ops/doubles.h"
#include "ops/emit.h"

/*
 * Shapes:	q, k, v, bias, lens and heads, kv_heads, layout, mask, window, scale, softcap as of
 *		attention; y, its result, and dy[b, s, h e] or of rank 4, lse[b, h, s] and dlse like
 *		it -> dq, dk, dv as q, k, v; with bias_grad also dbias[b, h, s, t]
 * Dtypes:	q, k, v, y, dy, lse, dlse: f64 f32 f16 bf16; dq, dk, dv as q, k, v, or out_dtype;
 *		dbias: f64 if q, k or v is, else f32
 * Does:	what attention(q, k, v, bias, lens) changes by, times dy, for y what it makes
 *		and lse the logarithm of its rows' sums of exp(score), -inf for rows that see no
 *		key: with weights p = exp(score - lse), 0 for keys that are not seen, dbias =
 *		p (dy v' - sum(dy y) + dlse) before it is summed to the shape of bias, for
 *		dlse, if given, what lse is changed by; dq = scale ds k, dk = scale ds' q and dv
 *		= p' dy, summed over the heads that share a key head, where ds is dbias, with
 *		softcap c and a capped score r times 1 - (r / c)^2. out_dtype, if given, is what dq,
 *		dk and dv are rounded to.
 * Gradient:	by matmul, exp and what stands around them: to all but lens
 * Source:	Dao, "FlashAttention-2" (2023)
 */
RLX_OP(attention_grad, "gradients of attention to q, k and v, of y and the logarithms of its sums",
	IN(q) IN(k) IN(v) OPT(bias) OPT(lens) IN(y) IN(dy) IN(lse) OPT(dlse)
	ATTR(i32, heads)
	ATTR(i32, kv_heads)
	ATTR(i32, layout)
	ATTR(i32, mask)
	ATTR(i32, window)
	ATTR(f32, scale)
	ATTR(f32, softcap)
	ATTR(dtype, out_dtype)
	ATTR(bool, bias_grad),
	RLX_T_COMPUTE)

/* Inputs behind those of attention. */
enum { Y = 5, DY, LSE, DLSE };

static struct rlx_op_attention forward(const struct rlx_op_attention_grad *a)
{
	return (struct rlx_op_attention){
		.heads = a->heads, .kv_heads = a->kv_heads, .layout = a->layout,
		.mask = a->mask, .window = a->window, .scale = a->scale, .softcap = a->softcap,
	};
}

/* y and dy are as attention makes @y, lse and dlse have an element a row. */
static enum rlx_status check_results(struct rlx_infer *q, const struct rlx_type *y,
				     const struct op_heads *h)
{
	static const char *const name[] = { "y", "dy", "lse", "dlse" };
	struct rlx_type rows = rlx_type(RLX_F32, h->b, h->h, h->s);
	enum rlx_status st = RLX_OK;
	char want[96];
	uint32_t k;

	for (k = Y; !st && k <= DLSE; k++) {
		if (!q->in[k])
			continue;
		st = op_need_float(q, k, false);
		if (st || shape_same(q->in[k], k <= DY ? y : &rows))
			continue;
		rlx_type_print(k <= DY ? y : &rows, want, sizeof(want));
		st = op_fail(q, RLX_ESHAPE, "%s has not the shape of %s", name[k - Y], want);
	}
	return st;
}

static enum rlx_status attention_grad_infer(struct rlx_infer *q)
{
	const struct rlx_op_attention_grad *a = q->args;
	struct rlx_op_attention at = forward(a);
	struct op_heads h[3];
	struct rlx_type y;
	enum rlx_status st = op_attention_infer(q, &at, &y, h);
	uint32_t k;

	if (!st)
		st = check_results(q, &y, h);
	if (st)
		return st;
	if (a->bias_grad && !q->in[3])
		return op_fail(q, RLX_EINVAL, "bias_grad without a bias");
	q->n_out = a->bias_grad ? 4 : 3;
	q->out[3] = rlx_type(op_acc_type(y.dtype), h[0].b, h[0].h, h[0].s, h[1].s);
	for (k = 3; k-- > 0;) {
		q->out[0] = *q->in[k];
		st = op_infer_out_dtype(q, a->out_dtype);
		q->out[k] = q->out[0];
		if (st)
			return st;
	}
	return RLX_OK;
}

/* ---- evaluation ---- */

/* Sums of one row of dq, dk and dv. */
static size_t attention_grad_scratch(const struct rlx_infer *q)
{
	struct rlx_op_attention at = forward(q->args);
	struct op_heads h[3];

	op_attention_heads(q->in, &at, h);
	return op_doubles(2, h[0].d, h[2].d + 1);
}

struct grads {
	struct op_attend t;
	struct op_heads	 y;
	double		*dq, *dk, *dv;		/* of one row */
};

/*
 * The weight of key @j for row @i; *@out_dbias: what its score is changed by, *@out_ds: what the
 * scaled product is.
 */
static double weight(const struct rlx_eval *q, const struct grads *g, const int64_t at[3],
		     int64_t j, double *out_dbias, double *out_ds)
{
	const struct op_attend *t = &g->t;
	int64_t b = at[0], h = at[1], i = at[2], kh = h / (t->q.h / t->k.h), e;
	int64_t row = (b * t->q.h + h) * t->q.s + i, y = b * g->y.sb + h * g->y.sh + i * g->y.ss;
	double slope, s = op_attend_score(q, t, at, j, &slope), d = 0, p;

	*out_dbias = *out_ds = 0;
	if (s == -INFINITY)
		return 0;
	p = exp(s - el_get(&q->in[LSE], row));
	for (e = 0; e < t->v.d; e++)
		d += el_get(&q->in[DY], y + e) *
		     (el_get(&q->in[2], b * t->v.sb + kh * t->v.sh + j * t->v.ss + e) -
		      el_get(&q->in[Y], y + e));
	if (op_has(&q->in[DLSE]))
		d += el_get(&q->in[DLSE], row);
	*out_dbias = p * d;
	*out_ds = p * d * slope;
	return p;
}

static void query_row(const struct rlx_eval *q, const struct grads *g, const int64_t at[3])
{
	const struct op_attend *t = &g->t;
	int64_t kh = at[1] / (t->q.h / t->k.h), j, d;
	double dbias, ds;

	memset(g->dq, 0, (size_t)t->q.d * sizeof(*g->dq));
	for (j = 0; j < t->k.s; j++) {
		weight(q, g, at, j, &dbias, &ds);
		if (q->n_out > 3)
			el_set(&q->out[3], ((at[0] * t->q.h + at[1]) * t->q.s + at[2]) * t->k.s + j,
			       dbias);
		for (d = 0; ds != 0 && d < t->q.d; d++)
			g->dq[d] += ds * el_get(&q->in[1], at[0] * t->k.sb + kh * t->k.sh +
						j * t->k.ss + d);
	}
	for (d = 0; d < t->q.d; d++)
		el_set(&q->out[0], at[0] * t->q.sb + at[1] * t->q.sh + at[2] * t->q.ss + d,
		       g->dq[d] * t->scale);
}

static void key_row(const struct rlx_eval *q, const struct grads *g, int64_t b, int64_t kh,
		    int64_t j)
{
	const struct op_attend *t = &g->t;
	int64_t share = t->q.h / t->k.h, h, i, d;
	double dbias, ds, p;

	memset(g->dk, 0, (size_t)t->q.d * sizeof(*g->dk));
	memset(g->dv, 0, (size_t)t->v.d * sizeof(*g->dv));
	for (h = kh * share; h < (kh + 1) * share; h++)
		for (i = 0; i < t->q.s; i++) {
			p = weight(q, g, (int64_t[]){ b, h, i }, j, &dbias, &ds);
			for (d = 0; ds != 0 && d < t->q.d; d++)
				g->dk[d] += ds * el_get(&q->in[0], b * t->q.sb + h * t->q.sh +
							i * t->q.ss + d);
			for (d = 0; p != 0 && d < t->v.d; d++)
				g->dv[d] += p * el_get(&q->in[DY], b * g->y.sb + h * g->y.sh +
						       i * g->y.ss + d);
		}
	for (d = 0; d < t->q.d; d++)
		el_set(&q->out[1], b * t->k.sb + kh * t->k.sh + j * t->k.ss + d,
		       g->dk[d] * t->scale);
	for (d = 0; d < t->v.d; d++)
		el_set(&q->out[2], b * t->v.sb + kh * t->v.sh + j * t->v.ss + d, g->dv[d]);
}

static enum rlx_status attention_grad_eval(struct rlx_eval *q)
{
	const struct rlx_op_attention_grad *a = q->args;
	struct rlx_op_attention at = forward(a);
	struct grads g;
	int64_t b, h, i;

	op_attend_begin(q, &at, &g.t);
	g.y = op_heads_of(&q->in[Y].type, (int32_t)g.t.q.h, a->layout);
	g.dq = q->scratch;
	g.dk = g.dq + g.t.q.d;
	g.dv = g.dk + g.t.q.d;
	for (b = 0; b < g.t.q.b; b++) {
		for (h = 0; h < g.t.q.h; h++)
			for (i = 0; i < g.t.q.s; i++)
				query_row(q, &g, (int64_t[]){ b, h, i });
		for (h = 0; h < g.t.k.h; h++)
			for (i = 0; i < g.t.k.s; i++)
				key_row(q, &g, b, h, i);
	}
	return RLX_OK;
}

/* ---- the same in simpler ops ---- */

/* Rows of heads as one row of each key head's: [batch, key heads, group rows, width]. */
static rlx_value all_rows(struct rlx_graph *g, rlx_value x, const struct op_scores *o, int64_t d)
{
	return op_reshape(g, x, (int64_t[]){ o->qh.b, o->kh.h, o->qh.h / o->kh.h * o->qh.s, d }, 4);
}

/* exp(score - lse); rows that see no key have no number to take off. */
static rlx_value weights(struct rlx_expand *q, const struct op_scores *o)
{
	struct rlx_graph *g = q->g;
	rlx_value lse = op_cast(g, q->in[LSE], op_type(g, o->s).dtype);
	int64_t dim[] = { o->qh.b, o->kh.h, o->qh.h / o->kh.h, o->qh.s, 1 };

	if (o->seen.id)
		lse = rlx_emit(g, where, .a = lse, .b = op_const_like(g, lse, 0),
			       .cond = rlx_emit(g, ne, .a = lse,
						.b = op_const_like(g, lse, -INFINITY)));
	lse = op_reshape(g, lse, dim, 5);
	return rlx_emit(g, exp, .x = rlx_emit(g, sub, .a = o->s, .b = lse));
}

static enum rlx_status attention_grad_expand(struct rlx_expand *q)
{
	const struct rlx_op_attention_grad *a = q->args;
	struct rlx_op_attention at = forward(a);
	struct rlx_graph *g = q->g;
	rlx_value p, y, dy, ds, d, by;
	struct op_heads yh;
	struct op_scores o;

	op_attention_scores(q, &at, &o);
	yh = o.qh;
	yh.d = o.vh.d;
	p = weights(q, &o);
	y = op_attention_split(g, q->in[Y], &yh, o.kh.h, a->layout);
	dy = op_attention_split(g, q->in[DY], &yh, o.kh.h, a->layout);
	d = op_reduce_span(g, rlx_emit(g, mul, .a = dy, .b = y), RLX_REDUCE_SUM, 4, 5);
	if (q->in[DLSE].id) {
		by = op_cast(g, q->in[DLSE], op_type(g, d).dtype);
		d = rlx_emit(g, sub, .a = d, .b = op_reshape_like(g, by, d));
	}
	ds = rlx_emit(g, matmul, .a = dy, .b = op_swap_last(g, o.v));
	ds = rlx_emit(g, mul, .a = p, .b = rlx_emit(g, sub, .a = ds, .b = d));
	if (a->bias_grad)
		q->out[3] = op_reshape(g, ds, q->out_type[3].dim, 4);
	if (o.tanh.id) {
		by = rlx_emit(g, mul, .a = o.tanh, .b = o.tanh);
		by = rlx_emit(g, sub, .a = op_const_like(g, by, 1), .b = by);
		ds = rlx_emit(g, mul, .a = ds, .b = by);
	}
	d = op_mul_const(g, rlx_emit(g, matmul, .a = ds, .b = o.k),
			 op_attention_scale(a->scale, o.qh.d));
	q->out[0] = op_attention_join(g, d, &o.qh, a->layout, &q->out_type[0]);
	ds = op_swap_last(g, all_rows(g, ds, &o, o.kh.s));
	d = rlx_emit(g, matmul, .a = ds, .b = all_rows(g, o.q, &o, o.qh.d));
	q->out[1] = op_attention_join(g, d, &o.kh, a->layout, &q->out_type[1]);
	p = op_swap_last(g, all_rows(g, p, &o, o.kh.s));
	d = rlx_emit(g, matmul, .a = p, .b = all_rows(g, dy, &o, o.vh.d));
	q->out[2] = op_attention_join(g, d, &o.vh, a->layout, &q->out_type[2]);
	return op_done(g);
}

/* Five products instead of two. */
static void attention_grad_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	struct rlx_op_attention at = forward(q->args);
	struct op_heads h[3];

	op_attention_heads(q->in, &at, h);
	c->flops = 2.0 * (double)h[0].b * (double)h[0].h * (double)h[0].s * (double)h[1].s *
		   (double)(3 * h[0].d + 2 * h[2].d);
	if (at.mask == RLX_MASK_CAUSAL && h[0].s == h[1].s)
		c->flops /= 2;
}

static void sample_heads(struct rlx_sample *s, int64_t b, int64_t sq, int64_t sk, int64_t h,
			 int64_t kv)
{
	s->in[0] = s->in[Y] = s->in[DY] = rlx_type(RLX_F32, b, h, sq, 8);
	s->in[1] = s->in[2] = rlx_type(RLX_F32, b, kv, sk, 8);
	s->in[LSE] = rlx_type(RLX_F32, b, h, sq);
	((struct rlx_op_attention_grad *)s->args)->layout = RLX_BHSD;
	((struct rlx_op_attention_grad *)s->args)->heads = (int32_t)h;
	((struct rlx_op_attention_grad *)s->args)->kv_heads = (int32_t)kv;
}

static bool attention_grad_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_attention_grad *a = s->args;

	s->n_in = 9;
	s->tol = 1e-5;
	s->lo[LSE] = 2;		/* of some keys: weights are below 1 or not far above */
	s->hi[LSE] = 4;
	sample_heads(s, 2, 5, 7, 4, 2);
	switch (i) {
	case 0:		/* rank 3, several heads */
		s->in[0] = s->in[1] = s->in[2] = rlx_type(RLX_F32, 2, 9, 24);
		s->in[Y] = s->in[DY] = s->in[0];
		s->in[LSE] = rlx_type(RLX_F32, 2, 3, 9);
		*a = (struct rlx_op_attention_grad){ .heads = 3, .mask = RLX_MASK_CAUSAL };
		return true;
	case 1:		/* grouped heads, wider values, everything at once */
		s->in[2].dim[3] = s->in[Y].dim[3] = s->in[DY].dim[3] = 5;
		s->in[3] = rlx_type(RLX_F32, 4, 1, 7);
		s->in[4] = rlx_type(RLX_I64, 2);
		s->lo[4] = 1;
		s->hi[4] = 7;
		s->in[DLSE] = s->in[LSE];
		a->mask = RLX_MASK_CAUSAL;
		a->scale = 0.7f;
		a->softcap = 1.5f;
		a->bias_grad = true;
		return true;
	case 2:		/* exactly 3 keys */
		a->mask = RLX_MASK_SLIDING;
		a->window = 3;
		return true;
	case 3:		/* bool mask; layout BSHD */
		s->in[0] = s->in[Y] = s->in[DY] = rlx_type(RLX_F32, 2, 4, 4, 6);
		s->in[1] = s->in[2] = rlx_type(RLX_F32, 2, 3, 4, 6);
		s->in[3] = rlx_type(RLX_BOOL, 2, 1, 4, 3);
		s->in[LSE] = rlx_type(RLX_F32, 2, 4, 4);
		*a = (struct rlx_op_attention_grad){ .layout = RLX_BSHD };
		return true;
	case 4:		/* more queries than keys: the first see nothing */
		sample_heads(s, 1, 6, 3, 2, 2);
		a->mask = RLX_MASK_CAUSAL;
		a->softcap = 20;
		return true;
	case 5:		/* no keys at all */
		sample_heads(s, 1, 3, 0, 2, 1);
		return true;
	case 6:
		sample_heads(s, 0, 3, 2, 2, 1);
		return true;
	case 7:
		s->in[3] = rlx_type(RLX_F32, 4, 5, 7);
		s->in[4] = rlx_type(RLX_I32, 2);
		s->hi[4] = 7;
		return true;
	case 8:
		sample_heads(s, 1, 70, 66, 2, 1);
		s->lo[LSE] = 6;
		s->hi[LSE] = 7;
		a->mask = RLX_MASK_CAUSAL;
		return true;
	case 9:
		sample_heads(s, 1, 33, 130, 1, 1);
		s->lo[LSE] = 7;
		s->hi[LSE] = 8;
		a->out_dtype = RLX_BF16;
		s->tol = 1e-2;
		s->grad_tol = -1;
		return true;
	}
	return false;
}

const struct rlx_op_impl rlx_op_attention_grad_impl = {
	.infer = attention_grad_infer, .scratch = attention_grad_scratch,
	.eval = attention_grad_eval, .expand = attention_grad_expand,
	.cost = attention_grad_cost, .batch = op_attention_batch,
};
RLX_SAMPLES(attention_grad, attention_grad_sample)
