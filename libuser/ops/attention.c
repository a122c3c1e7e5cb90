// SPDX-License-Identifier: MIT
/* Scaled dot-product attention with grouped heads, masks, bias and lengths. */
#include <float.h>
#include <stddef.h>

#include "ops/attention.h"
#include "ops/defaults.h"
#include "ops/doubles.h"
#include "ops/emit.h"
#include "ir/match.h"

/*
 * Shapes:	q[b, s, h d], k[b, t, g d], v[b, t, g e] -> y[b, s, h e] for h = heads, g =
 *		kv_heads; of rank 4 as layout says [b, s, h, d] (RLX_BSHD, if not given) or [b, h,
 *		s, d] (RLX_BHSD); bias broadcasts to [b, h, s, t]; lens[b]; with lse also
 *		log sum exp[b, h, s]
 * Dtypes:	q, k, v: f64 f32 f16 bf16; bias: these or bool; lens: i32 i64 u32; y as q, k and v
 *		promoted, or out_dtype; log sum exp: f64 for f64, else f32
 * Does:	scores scale q k', for each h / g query heads with one key head; softcap c makes
 *		them c tanh(score / c), 0 (if not given) leaves them; then bias is added, or where
 *		a bool one is false the key is not seen. mask RLX_MASK_CAUSAL (none if not given)
 *		hides the keys after i + t - s from row i, RLX_MASK_SLIDING all but the last
 *		window of those left; lens[b] those from lens[b] on, none if it is past t. y is
 *		softmax(scores) v over what is seen, 0 for a row that sees no key; a NaN score
 *		makes its row NaN. scale 0 (if not given) is 1 / sqrt(d); kv_heads 0 as many as
 *		heads, which may be 0 for rank 4. out_dtype, if given f64, f32, f16 or bf16, is what
 *		y is rounded to. lse (not given: it is not made) makes the logarithm of the sum of
 *		exp(score) over what a row sees, -inf for a row that sees no key.
 * Gradient:	by attention_grad: to q, k, v and a bias of floats, through lse as well
 * Source:	Vaswani et al. 2017; shared key heads: Ainslie et al. 2023; softcap: Gemma 2
 */
RLX_OP(attention, "softmax(softcap(scale q k') + bias, masked) v; a row that sees no key is 0",
	IN(q) IN(k) IN(v) OPT(bias) OPT(lens)
	ATTR(i32, heads)
	ATTR(i32, kv_heads)
	ATTR(i32, layout)
	ATTR(i32, mask)
	ATTR(i32, window)
	ATTR(f32, scale)
	ATTR(f32, softcap)
	ATTR(dtype, out_dtype)
	ATTR(bool, lse),
	RLX_T_COMPUTE | RLX_T_SENTINELS)

struct op_heads op_heads_of(const struct rlx_type *t, int32_t heads, int32_t layout)
{
	struct op_heads o = { .b = t->dim[0], .h = heads, .s = t->dim[1] };

	if (t->rank == 3) {
		o.d = t->dim[2] / heads;
	} else if (layout == RLX_BSHD) {
		o.h = t->dim[2];
		o.d = t->dim[3];
	} else {
		o.h = t->dim[1];
		o.s = t->dim[2];
		o.d = t->dim[3];
	}
	o.sb = o.h * o.s * o.d;
	o.sh = t->rank == 4 && layout == RLX_BHSD ? o.s * o.d : o.d;
	o.ss = t->rank == 4 && layout == RLX_BHSD ? o.d : o.h * o.d;
	return o;
}

void op_attention_heads(const struct rlx_type *const *in, const struct rlx_op_attention *a,
			struct op_heads h[3])
{
	h[0] = op_heads_of(in[0], a->heads ? a->heads : 1, a->layout);
	h[1] = op_heads_of(in[1], (int32_t)op_kv_heads(a->kv_heads, h[0].h), a->layout);
	h[2] = op_heads_of(in[2], (int32_t)op_kv_heads(a->kv_heads, h[0].h), a->layout);
}

static enum rlx_status check_args(struct rlx_infer *q, const struct rlx_op_attention *a)
{
	enum rlx_status st = op_need_enum(q, "layout", a->layout, RLX_BHSD + 1);
	uint32_t k;

	if (!st)
		st = op_need_enum(q, "mask", a->mask, RLX_MASK_SLIDING + 1);
	if (!st)
		st = op_need_real(q, "softcap", a->softcap, 0);
	if (!st && !isfinite(a->scale))
		st = op_fail(q, RLX_EINVAL, "scale is %g", (double)a->scale);
	if (!st && a->mask == RLX_MASK_SLIDING && a->window < 1)
		st = op_fail(q, RLX_EINVAL, "window is %d; it counts keys, 1 or more",
			     a->window);
	for (k = 0; !st && k < 3; k++) {
		st = op_need_float(q, k, false);
		if (!st)
			st = op_need_rank(q, k, 3, 4);
		if (!st && q->in[k]->rank != q->in[0]->rank)
			st = op_fail(q, RLX_ESHAPE, "q, k and v have ranks %u, %u, %u",
				     q->in[0]->rank, q->in[1]->rank, q->in[2]->rank);
	}
	if (st)
		return st;
	if (a->heads < (q->in[0]->rank == 3) || a->kv_heads < 0)
		return op_fail(q, RLX_EINVAL, "heads is %d, kv_heads %d", a->heads,
			       a->kv_heads);
	if (q->in[0]->rank == 3 && a->layout != RLX_BSHD)
		return op_fail(q, RLX_EINVAL,
			       "rank 3 is [batch, sequence, heads dim]: layout BSHD");
	return RLX_OK;
}

static enum rlx_status check_heads(struct rlx_infer *q, const struct rlx_op_attention *a,
				   struct op_heads h[3])
{
	static const char names[] = "qkv";
	int64_t want;
	uint32_t k;

	for (k = 0; k < 3; k++) {
		want = k ? op_kv_heads(a->kv_heads, h[0].h) : a->heads;
		if (q->in[k]->rank == 3 && q->in[k]->dim[2] % want)
			return op_fail(q, RLX_ESHAPE,
				       "%c has %lld columns, not a multiple of %lld heads",
				       names[k], (long long)q->in[k]->dim[2], (long long)want);
		h[k] = op_heads_of(q->in[k], (int32_t)want, a->layout);
		if (h[k].h < 1 || h[k].h > INT32_MAX || (want && h[k].h != want))
			return op_fail(q, RLX_ESHAPE,
				       "%c has %lld heads, not %lld (see heads, kv_heads)",
				       names[k], (long long)h[k].h, (long long)want);
	}
	if (h[0].h % h[1].h)
		return op_fail(q, RLX_ESHAPE, "%lld heads do not share %lld key heads evenly",
			       (long long)h[0].h, (long long)h[1].h);
	if (h[0].b != h[1].b || h[0].b != h[2].b || h[0].d != h[1].d || h[1].s != h[2].s)
		return op_fail(q, RLX_ESHAPE,
			       "batches %lld, %lld, %lld, widths of q and k %lld, %lld, "
			       "or rows of k and v %lld, %lld differ",
			       (long long)h[0].b, (long long)h[1].b, (long long)h[2].b,
			       (long long)h[0].d, (long long)h[1].d,
			       (long long)h[1].s, (long long)h[2].s);
	return RLX_OK;
}

enum rlx_status op_attention_infer(struct rlx_infer *q, const struct rlx_op_attention *a,
				   struct rlx_type *out_y, struct op_heads h[3])
{
	const struct rlx_type *bias = q->in[3], *lens = q->in[4];
	enum rlx_status st = check_args(q, a);
	struct rlx_type score;

	if (!st)
		st = check_heads(q, a, h);
	if (!st && lens)
		st = op_need_index(q, 4);
	if (!st && bias && bias->dtype != RLX_BOOL)
		st = op_need_float(q, 3, false);
	if (st)
		return st;
	score = rlx_type(RLX_F32, h[0].b, h[0].h, h[0].s, h[1].s);
	if (bias && !op_fits(bias, &score))
		return op_fail(q, RLX_ESHAPE,
			       "the bias does not broadcast to [%lld, %lld, %lld, %lld]",
			       (long long)h[0].b, (long long)h[0].h, (long long)h[0].s,
			       (long long)h[1].s);
	if (lens && (lens->rank != 1 || lens->dim[0] != h[0].b))
		return op_fail(q, RLX_ESHAPE, "lens must be [%lld]", (long long)h[0].b);
	*out_y = *q->in[0];
	out_y->dtype = rlx_dtype_promote(rlx_dtype_promote(q->in[0]->dtype, q->in[1]->dtype),
					 q->in[2]->dtype);
	if (q->in[0]->rank == 4)
		out_y->dim[3] = h[2].d;
	else if (__builtin_mul_overflow((int64_t)a->heads, h[2].d, &out_y->dim[2]))
		return op_fail(q, RLX_ESHAPE, "heads times %lld overflows",
			       (long long)h[2].d);
	return RLX_OK;
}

static enum rlx_status attention_infer(struct rlx_infer *q)
{
	const struct rlx_op_attention *a = q->args;
	struct op_heads h[3];
	enum rlx_status st = op_attention_infer(q, a, &q->out[0], h);

	if (st)
		return st;
	if (a->lse) {
		q->n_out = 2;
		q->out[1] = rlx_type(op_acc_type(q->out[0].dtype), h[0].b, h[0].h, h[0].s);
	}
	return op_infer_out_dtype(q, a->out_dtype);
}

/* One row of scores and one row of output. */
static size_t attention_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_attention *a = q->args;
	struct op_heads h[3];

	op_attention_heads(q->in, a, h);
	return op_doubles(1, h[1].s, h[2].d + 1);
}

void op_attend_begin(const struct rlx_eval *q, const struct rlx_op_attention *a,
		     struct op_attend *t)
{
	const struct rlx_type *in[] = { &q->in[0].type, &q->in[1].type, &q->in[2].type };
	struct op_heads h[3];
	struct rlx_type score;

	op_attention_heads(in, a, h);
	*t = (struct op_attend){ .a = a, .q = h[0], .k = h[1], .v = h[2] };
	t->scale = op_attention_scale(a->scale, h[0].d);
	score = rlx_type(RLX_F32, h[0].b, h[0].h, h[0].s, h[1].s);
	if (op_has(&q->in[3]))
		shape_broadcast(&q->in[3].type, &score, t->sbias);
}

double op_attend_score(const struct rlx_eval *q, const struct op_attend *t, const int64_t at[3],
		       int64_t j, double *out_slope)
{
	int64_t b = at[0], h = at[1], i = at[2], pos = i + t->k.s - t->q.s, d, to;
	int64_t kh = h / (t->q.h / t->k.h);
	double s = 0, cap = t->a->softcap, slope = 1;

	if (op_has(&q->in[4]) && j >= el_geti(&q->in[4], b))
		return -INFINITY;
	if (t->a->mask != RLX_MASK_NONE && j > pos)
		return -INFINITY;
	if (t->a->mask == RLX_MASK_SLIDING && j <= pos - t->a->window)
		return -INFINITY;
	for (d = 0; d < t->q.d; d++)
		s += el_get(&q->in[0], b * t->q.sb + h * t->q.sh + i * t->q.ss + d) *
		     el_get(&q->in[1], b * t->k.sb + kh * t->k.sh + j * t->k.ss + d);
	s *= t->scale;
	if (cap != 0) {
		s = tanh(s / cap);
		slope = 1 - s * s;
		s *= cap;
	}
	if (out_slope)
		*out_slope = slope;
	if (!op_has(&q->in[3]))
		return s;
	to = b * t->sbias[0] + h * t->sbias[1] + i * t->sbias[2] + j * t->sbias[3];
	if (q->in[3].type.dtype == RLX_BOOL)
		return el_geti(&q->in[3], to) ? s : -INFINITY;
	return s + el_get(&q->in[3], to);
}

/* A row of scores, and one of sums of values. */
struct row {
	double	*score, *sum;
};

/* Fills r.sum; gives the logarithm of the sum of exponentials. */
static double one_row(const struct rlx_eval *q, const struct op_attend *t, struct row r,
		      int64_t b, int64_t h, int64_t i)
{
	int64_t kh = h / (t->q.h / t->k.h), j, d;
	double top = -INFINITY, total = 0;

	memset(r.sum, 0, (size_t)t->v.d * sizeof(*r.sum));
	for (j = 0; j < t->k.s; j++) {
		r.score[j] = op_attend_score(q, t, (int64_t[]){ b, h, i }, j, NULL);
		top = isnan(r.score[j]) || r.score[j] > top ? r.score[j] : top;
	}
	for (j = 0; j < t->k.s; j++) {
		double p = r.score[j] == -INFINITY ? 0 : exp(r.score[j] - top);

		total += p;
		for (d = 0; p != 0 && d < t->v.d; d++)
			r.sum[d] += p * el_get(&q->in[2], b * t->v.sb + kh * t->v.sh +
						j * t->v.ss + d);
	}
	for (d = 0; d < t->v.d; d++)
		r.sum[d] = total == 0 ? 0 : r.sum[d] / total;
	return total == 0 ? -INFINITY : top + log(total);
}

static enum rlx_status attention_eval(struct rlx_eval *q)
{
	const struct rlx_op_attention *a = q->args;
	struct op_attend t;
	struct op_heads o;
	int64_t b, h, i, d;
	struct row r;
	double lse;

	op_attend_begin(q, a, &t);
	o = op_heads_of(&q->out[0].type, (int32_t)t.q.h, a->layout);
	r.score = q->scratch;
	r.sum = r.score + t.k.s;
	for (b = 0; b < t.q.b; b++)
		for (h = 0; h < t.q.h; h++)
			for (i = 0; i < t.q.s; i++) {
				lse = one_row(q, &t, r, b, h, i);
				if (a->lse)
					el_set(&q->out[1], (b * t.q.h + h) * t.q.s + i, lse);
				for (d = 0; d < t.v.d; d++)
					el_set(&q->out[0], b * o.sb + h * o.sh +
					       i * o.ss + d, r.sum[d]);
			}
	return RLX_OK;
}

/* ---- the same in simpler ops ---- */

rlx_value op_attention_split(struct rlx_graph *g, rlx_value x, const struct op_heads *h,
			     int64_t kv, int32_t layout)
{
	struct rlx_type t = op_type(g, x);

	x = op_cast(g, x, op_acc_type(t.dtype));
	if (t.rank == 3 || layout == RLX_BSHD) {
		x = op_reshape(g, x, (int64_t[]){ h->b, h->s, h->h, h->d }, 4);
		x = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(0, 2, 1, 3));
	}
	return op_reshape(g, x, (int64_t[]){ h->b, kv, h->h / kv, h->s, h->d }, 5);
}

rlx_value op_attention_join(struct rlx_graph *g, rlx_value x, const struct op_heads *h,
			    int32_t layout, const struct rlx_type *t)
{
	x = op_reshape(g, x, (int64_t[]){ h->b, h->h, h->s, h->d }, 4);
	if (t->rank == 3 || layout == RLX_BSHD)
		x = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(0, 2, 1, 3));
	x = op_reshape(g, x, t->dim, t->rank);
	return op_cast(g, x, t->dtype);
}

static rlx_value both(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return a.id && b.id ? rlx_emit(g, bit_and, .a = a, .b = b) : a.id ? a : b;
}

/* Which keys each row may see by position and length; none if all. */
static rlx_value visible(struct rlx_expand *q, const struct rlx_op_attention *a,
			 const struct op_heads *qh, const struct op_heads *kh)
{
	struct rlx_graph *g = q->g;
	rlx_value key, row, len, v = RLX_NONE;

	key = rlx_emit(g, iota, .type = rlx_type(RLX_I64, 1, kh->s), .axis = 1, .step = 1);
	if (a->mask != RLX_MASK_NONE) {
		row = rlx_emit(g, iota, .type = rlx_type(RLX_I64, qh->s, 1),
			       .start = (double)(kh->s - qh->s), .step = 1);
		v = rlx_emit(g, le, .a = key, .b = row);
		if (a->mask == RLX_MASK_SLIDING)
			v = both(g, v, rlx_emit(g, gt, .a = key,
					.b = op_add_const(g, row, -(double)a->window)));
	}
	if (q->in[4].id) {
		len = op_cast(g, q->in[4], RLX_I64);
		len = op_reshape(g, len, (int64_t[]){ qh->b, 1, 1, 1, 1 }, 5);
		v = both(g, v, rlx_emit(g, lt, .a = key, .b = len));
	}
	return v;
}

/* The bias as [batch, key heads, group, rows, keys], each its size or 1. */
static rlx_value split_bias(struct rlx_graph *g, rlx_value bias, int64_t kv)
{
	struct rlx_type t = op_type(g, bias);
	int64_t d[4] = { 1, 1, 1, 1 };
	uint32_t i;

	for (i = 0; i < t.rank; i++)
		d[4 - t.rank + i] = t.dim[i];
	return op_reshape(g, bias, (int64_t[]){ d[0], d[1] == 1 ? 1 : kv,
			  d[1] == 1 ? 1 : d[1] / kv, d[2], d[3] }, 5);
}

/* Softcap and bias. */
static void adjust(struct rlx_expand *q, const struct rlx_op_attention *a, struct op_scores *o)
{
	struct rlx_graph *g = q->g;
	rlx_value bias;

	if (a->softcap != 0) {
		o->tanh = rlx_emit(g, tanh, .x = op_mul_const(g, o->s, 1.0 / (double)a->softcap));
		o->s = op_mul_const(g, o->tanh, a->softcap);
	}
	if (!q->in[3].id)
		return;
	bias = split_bias(g, q->in[3], o->kh.h);
	if (op_type(g, bias).dtype == RLX_BOOL) {
		o->seen = both(g, o->seen, bias);
		return;
	}
	o->s = rlx_emit(g, add, .a = o->s, .b = op_cast(g, bias, op_type(g, o->s).dtype));
	o->seen = both(g, o->seen,
		       rlx_emit(g, ne, .a = o->s, .b = op_const_like(g, o->s, -INFINITY)));
}

void op_attention_scores(struct rlx_expand *q, const struct rlx_op_attention *a,
			 struct op_scores *o)
{
	struct rlx_graph *g = q->g;
	struct rlx_type t[3] = { op_type(g, q->in[0]), op_type(g, q->in[1]),
				 op_type(g, q->in[2]) };
	const struct rlx_type *in[] = { &t[0], &t[1], &t[2] };
	struct op_heads h[3];

	op_attention_heads(in, a, h);
	*o = (struct op_scores){ .qh = h[0], .kh = h[1], .vh = h[2] };
	o->q = op_attention_split(g, q->in[0], &h[0], h[1].h, a->layout);
	o->k = op_attention_split(g, q->in[1], &h[1], h[1].h, a->layout);
	o->v = op_attention_split(g, q->in[2], &h[2], h[1].h, a->layout);
	o->q = op_mul_const(g, o->q, op_attention_scale(a->scale, h[0].d));
	o->s = rlx_emit(g, matmul, .a = o->q, .b = op_swap_last(g, o->k));
	o->seen = visible(q, a, &h[0], &h[1]);
	adjust(q, a, o);
	if (o->seen.id)
		o->s = rlx_emit(g, where, .cond = o->seen, .a = o->s,
				.b = op_const_like(g, o->s, OP_ATTENTION_FLOOR));
}

/* log(sum(exp(scores))) of rows, -inf for those that see no key. */
static rlx_value log_sum_exp(struct rlx_graph *g, const struct op_scores *o,
			     const struct rlx_type *t)
{
	rlx_value top, sum;

	if (!o->kh.s)
		return op_fill(g, t, -INFINITY);
	top = op_reduce_span(g, o->s, RLX_REDUCE_MAX, 4, 5);
	sum = rlx_emit(g, exp, .x = rlx_emit(g, sub, .a = o->s, .b = top));
	sum = rlx_emit(g, log, .x = op_reduce_span(g, sum, RLX_REDUCE_SUM, 4, 5));
	sum = rlx_emit(g, add, .a = top, .b = sum);
	if (o->seen.id)
		sum = rlx_emit(g, where, .a = sum, .b = op_const_like(g, sum, -INFINITY),
			       .cond = rlx_emit(g, ne, .a = top,
						.b = op_const_like(g, top, OP_ATTENTION_FLOOR)));
	return op_cast(g, op_reshape(g, sum, t->dim, t->rank), t->dtype);
}

static enum rlx_status attention_expand(struct rlx_expand *q)
{
	const struct rlx_op_attention *a = q->args;
	struct rlx_graph *g = q->g;
	struct op_scores o;
	struct op_heads yh;
	rlx_value p, y;

	op_attention_scores(q, a, &o);
	p = rlx_emit(g, softmax, .x = o.s, .axis = -1);
	if (o.seen.id)
		p = rlx_emit(g, where, .cond = o.seen, .a = p, .b = op_const_like(g, p, 0));
	y = rlx_emit(g, matmul, .a = p, .b = o.v);
	yh = o.qh;
	yh.d = o.vh.d;
	q->out[0] = op_attention_join(g, y, &yh, a->layout, q->out_type);
	if (a->lse)
		q->out[1] = log_sum_exp(g, &o, &q->out_type[1]);
	return op_done(g);
}

/*
 * The gradient wants the logarithms of the sums as well: the same attention once more, which
 * makes them, and with which this one is merged (pass/cse.c).
 */
static enum rlx_status attention_vjp(struct rlx_grad *q)
{
	struct rlx_op_attention again = *(const struct rlx_op_attention *)q->args;
	struct rlx_graph *g = q->g;
	rlx_value dy = q->d_out[0], lse, d;
	struct rlx_op_attention_grad a = {
		.q = q->in[0], .k = q->in[1], .v = q->in[2], .bias = q->in[3], .lens = q->in[4],
		.y = q->out[0], .heads = again.heads, .kv_heads = again.kv_heads,
		.layout = again.layout, .mask = again.mask, .window = again.window,
		.scale = again.scale, .softcap = again.softcap, .bias_grad = q->need[3],
	};
	uint32_t k;

	if (again.lse) {
		lse = (rlx_value){ q->out[0].id + 1 };
		a.dlse = q->d_out[1];
	} else {
		again.lse = true;
		again.q = a.q;
		again.k = a.k;
		again.v = a.v;
		again.bias = a.bias;
		again.lens = a.lens;
		lse = rlx_emit_raw(g, &rlx_op_attention, &again, sizeof(again), NULL, 0);
		lse.id += lse.id != 0;
	}
	a.lse = lse;
	a.dy = dy.id ? dy : op_zeros_like(g, a.y);
	d = rlx_emit_raw(g, &rlx_op_attention_grad, &a, sizeof(a), NULL, 0);
	for (k = 0; d.id && k < 3; k++)
		q->d_in[k] = (rlx_value){ d.id + k };
	if (d.id && q->need[3])
		q->d_in[3] = op_unbroadcast(g, (rlx_value){ d.id + 3 }, q->in[3]);
	return op_done(g);
}

enum rlx_status op_attention_batch(struct rlx_batching *q)
{
	const struct rlx_type *bias = &q->type[3];

	if (q->in[3].id && (q->mapped[3] || (bias->rank == 4 && bias->dim[0] != 1)))
		return RLX_OK;
	return op_batch_merged(q, ((1u << q->n_in) - 1) & ~(1u << 3));
}

static void attention_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_attention *a = q->args;
	struct op_heads h[3];

	op_attention_heads(q->in, a, h);
	c->flops = 2.0 * (double)h[0].b * (double)h[0].h * (double)h[0].s * (double)h[1].s *
		   (double)(h[0].d + h[2].d);
	if (a->mask == RLX_MASK_CAUSAL && h[0].s == h[1].s)
		c->flops /= 2;
}

static void sample_heads(struct rlx_sample *s, int64_t b, int64_t sq, int64_t sk,
			 int64_t h, int64_t kv)
{
	s->in[0] = rlx_type(RLX_F32, b, h, sq, 8);
	s->in[1] = rlx_type(RLX_F32, b, kv, sk, 8);
	s->in[2] = rlx_type(RLX_F32, b, kv, sk, 8);
	((struct rlx_op_attention *)s->args)->layout = RLX_BHSD;
	((struct rlx_op_attention *)s->args)->heads = (int32_t)h;
	((struct rlx_op_attention *)s->args)->kv_heads = (int32_t)kv;
}

static bool attention_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_attention *a = s->args;

	s->n_in = 5;
	s->tol = 1e-5;
	sample_heads(s, 2, 5, 7, 4, 2);
	switch (i) {
	case 0:		/* rank 3, several heads */
		s->in[0] = s->in[1] = s->in[2] = rlx_type(RLX_F32, 2, 9, 24);
		*a = (struct rlx_op_attention){ .heads = 3 };
		return true;
	case 1:		/* grouped heads, wider values, everything at once */
		s->in[2].dim[3] = 5;
		s->in[3] = rlx_type(RLX_F32, 4, 1, 7);
		s->in[4] = rlx_type(RLX_I64, 2);
		s->lo[4] = 1;
		s->hi[4] = 7;
		a->mask = RLX_MASK_CAUSAL;
		a->scale = 0.7f;
		a->softcap = 1.5f;
		return true;
	case 2:		/* exactly 3 keys */
		a->mask = RLX_MASK_SLIDING;
		a->window = 3;
		return true;
	case 3:		/* bool mask, some rows see nothing; layout BSHD */
		s->in[0] = rlx_type(RLX_F32, 2, 4, 4, 6);
		s->in[1] = s->in[2] = rlx_type(RLX_F32, 2, 3, 4, 6);
		s->in[3] = rlx_type(RLX_BOOL, 2, 1, 4, 3);
		*a = (struct rlx_op_attention){ .layout = RLX_BSHD };
		return true;
	case 4:		/* one new token against a cache */
		sample_heads(s, 1, 1, 33, 8, 1);
		a->mask = RLX_MASK_CAUSAL;
		a->softcap = 20;
		return true;
	case 5:		/* more queries than keys: the first see nothing */
		sample_heads(s, 1, 6, 3, 2, 2);
		a->mask = RLX_MASK_CAUSAL;
		return true;
	case 6:		/* no keys at all */
		sample_heads(s, 1, 3, 0, 2, 1);
		return true;
	case 7:
		sample_heads(s, 0, 3, 2, 2, 1);
		return true;
	case 8:
		s->in[4] = rlx_type(RLX_I32, 2);
		s->hi[4] = 7;
		return true;
	case 9:
		s->in[0] = s->in[1] = s->in[2] = rlx_type(RLX_F16, 2, 9, 24);
		*a = (struct rlx_op_attention){ .heads = 3, .out_dtype = RLX_F32 };
		s->tol = 1e-3;		/* softmax may be rounded as its operands are */
		s->grad_tol = -1;
		return true;
	case 10:
		s->in[3] = rlx_type(RLX_F32, 4, 1, 7);
		a->out_dtype = RLX_BF16;
		s->tol = 1e-2;
		s->grad_tol = -1;
		return true;
	case 11:	/* more queries than keys: the first see nothing */
		sample_heads(s, 2, 6, 3, 4, 2);
		a->mask = RLX_MASK_CAUSAL;
		a->lse = true;
		s->grad_tol = -1;	/* of -inf there are no differences */
		return true;
	case 12:
		s->in[3] = rlx_type(RLX_F32, 4, 1, 7);
		a->softcap = 1.5f;
		a->lse = true;
		return true;
	}
	return false;
}

static bool has_perm(const struct rlx_match *m, const char *name, const int64_t want[4])
{
	const struct rlx_node *n = rlx_match_node(m, name);
	const struct rlx_op_transpose *t = n ? n->args : NULL;

	return t && t->perm.n == 4 && !memcmp(t->perm.v, want, 4 * sizeof(want[0]));
}

/*
 * Softmax over the keys, and a constant factor on the scores of heads of @width. In f64 it
 * must be one that the attribute holds to the last digit, or 1 / sqrt(width).
 */
static bool take_scores(const struct rlx_match *m, int64_t width, struct rlx_op_attention *a)
{
	bool f64 = rlx_match_type(m, "v")->dtype == RLX_F64;
	const struct rlx_node *n = rlx_match_node(m, "p");
	const struct rlx_op_softmax *sm = n->args;
	double s = 1;

	if (sm->axis != -1 && sm->axis != 3)
		return false;
	if (rlx_match_scalar(m, "d", &s))
		s = 1 / s;
	else if (!rlx_match_scalar(m, "s", &s))
		s = 1;
	a->scale = (float)s;
	a->bias = rlx_match_value(m, "bias");
	if (!isfinite(a->scale) || a->scale == 0)
		return false;
	if (f64 && (double)a->scale != s) {
		if (!(fabs(s * sqrt((double)width) - 1) < 4 * DBL_EPSILON))
			return false;
		a->scale = 0;
	}
	return !a->bias.id || rlx_match_type(m, "bias")->dtype == RLX_F32;
}

/* [B, S, H D] split, turned, and joined again at the end. */
static bool attention_accept_joined(struct rlx_match *m, void *args)
{
	static const int64_t heads_first[4] = { 0, 2, 1, 3 }, keys[4] = { 0, 2, 3, 1 };
	const struct rlx_type *q = rlx_match_type(m, "rq"), *y;
	struct rlx_op_attention *a = args;

	if (!has_perm(m, "tq", heads_first) || !has_perm(m, "tk", keys) ||
	    !has_perm(m, "tv", heads_first) || !has_perm(m, "t", heads_first) ||
	    !take_scores(m, q->dim[3], a))
		return false;
	a->q = rlx_match_value(m, "q");
	a->k = rlx_match_value(m, "k");
	a->v = rlx_match_value(m, "v");
	a->heads = (int32_t)q->dim[2];
	a->kv_heads = (int32_t)rlx_match_type(m, "rk")->dim[2];
	y = &m->g->val[m->g->node[m->root].out].type;
	/* the reshapes split the last axis only, and the outer one joins it */
	return rlx_match_type(m, "q")->rank == 3 && rlx_match_type(m, "k")->rank == 3 &&
	       rlx_match_type(m, "v")->rank == 3 && y->rank == 3 &&
	       q->dim[0] == y->dim[0] && q->dim[1] == y->dim[1] &&
	       rlx_match_type(m, "q")->dim[1] == q->dim[1] &&
	       rlx_match_type(m, "k")->dim[1] == rlx_match_type(m, "rk")->dim[1] &&
	       rlx_match_type(m, "v")->dim[1] == rlx_match_type(m, "rv")->dim[1];
}

/* [B, H, S, D] throughout, keys turned. */
static bool attention_accept_split(struct rlx_match *m, void *args)
{
	static const int64_t turned[4] = { 0, 1, 3, 2 };
	struct rlx_op_attention *a = args;

	if (!has_perm(m, "tk", turned) || rlx_match_type(m, "q")->rank != 4 ||
	    !take_scores(m, rlx_match_type(m, "q")->dim[3], a))
		return false;
	a->q = rlx_match_value(m, "q");
	a->k = rlx_match_value(m, "k");
	a->v = rlx_match_value(m, "v");
	if (rlx_match_type(m, "v")->rank != 4)
		return false;
	a->heads = (int32_t)rlx_match_type(m, "q")->dim[1];
	a->kv_heads = (int32_t)rlx_match_type(m, "k")->dim[1];
	a->layout = RLX_BHSD;
	return true;
}

/* q k', its factor, the bias; then what stands around them */
#define QK_JOINED "matmul(tq:transpose(rq:reshape(q)), tk:transpose(rk:reshape(k)))"
#define QK_SPLIT "matmul(q, tk:transpose(k))"
#define SCORES(X, qk)							\
	X("add(div(" qk ", #d), bias)"), X("add(mul(" qk ", #s), bias)"), \
	X("add(" qk ", bias)"), X("div(" qk ", #d)"), X("mul(" qk ", #s)"), X(qk)
#define JOINED(scores)							\
	{ "reshape(t:transpose(matmul(p:softmax(" scores "), "		\
	  "tv:transpose(rv:reshape(v)))))", attention_accept_joined }
#define SPLIT(scores)							\
	{ "matmul(p:softmax(" scores "), v)", attention_accept_split }
static const struct rlx_pattern attention_patterns[] = {
	SCORES(JOINED, QK_JOINED),
	SCORES(SPLIT, QK_SPLIT),
	{ NULL, NULL },
};

const struct rlx_op_impl rlx_op_attention_impl = {
	.pattern = attention_patterns,
	.infer = attention_infer, .scratch = attention_scratch, .eval = attention_eval,
	.vjp = attention_vjp, .expand = attention_expand,
	.cost = attention_cost,
	.more = offsetof(struct rlx_op_attention, lse), .batch = op_attention_batch,
};
RLX_SAMPLES(attention, attention_sample)
