// SPDX-License-Identifier: MIT
/* Pooling: maximum, average and p-norm of sliding windows. */
#include "base/alloc.h"
#include "ops/batch.h"
#include "ops/window.h"

/*
 * Shapes:	x[n, c, in..] -> y[n, c, out..], with indices a second like y; 1 to 3 spatial
 *		dimensions; out = (in + pads - (kernel - 1) dilation - 1) / stride + 1
 * Dtypes:	x: f64 f32 f16 bf16, for RLX_POOL_MAX integers too; y as x; indices: i64
 * Does:	kind RLX_POOL_MAX (if not given): the largest element of each window, NaN before
 *		all numbers; padding has no say, and a window of nothing else gives -inf, the
 *		least integer. AVG: the mean of the elements, with include_pad of padding too, as
 *		zeros. LP: (sum |x|^p)^(1 / p), p at least 1. kernel has a size for each
 *		dimension; stride and dilation are 1 if not given, pad (all begins, then all ends)
 *		0. out is rounded down; ceil rounds up, unless the last window would start in the
 *		padding behind. indices is each maximum's flat position in x, the first of equal
 *		ones, -1 where there is none; column_major counts each plane's first dimension
 *		fastest.
 * Errors:	RLX_ESHAPE if the kernel is larger than the padded input.
 * Gradient:	MAX: dy to the element that was taken (max_pool_grad); AVG: dy spread evenly over
 *		those that counted; LP: dy sign(x) |x|^(p - 1) y^(1 - p). None to indices
 * Source:	ONNX MaxPool-12, AveragePool-19, LpPool-18
 */
RLX_OP(pool, "max, average or p-norm of windows; .indices adds each maximum's flat position",
	IN(x)
	ATTR(i32, kind)
	ATTR(ints, kernel)
	ATTR(ints, stride)
	ATTR(ints, pad)
	ATTR(ints, dilation)
	ATTR(bool, ceil)
	ATTR(bool, include_pad)
	ATTR(i32, p)
	ATTR(bool, indices)
	ATTR(bool, column_major),
	RLX_T_REDUCTION | RLX_T_SELECT | RLX_T_STEPPED | RLX_T_NONFINITE)

static struct op_window_args window_args(const struct rlx_op_pool *a)
{
	return (struct op_window_args){ a->stride, a->pad, a->dilation, a->ceil };
}

static enum rlx_status pool_infer(struct rlx_infer *q)
{
	const struct rlx_op_pool *a = q->args;
	const struct op_window_args wa = window_args(a);
	enum rlx_status st = op_need_rank(q, 0, 3, 5);

	if (!st)
		st = op_need_enum(q, "kind", a->kind, RLX_POOL_LP + 1);
	if (!st)
		st = a->kind == RLX_POOL_MAX ? op_need_number(q, 0) :
		     op_need_float(q, 0, false);
	if (st)
		return st;
	if (a->kind == RLX_POOL_LP && a->p < 1)
		return op_fail(q, RLX_EINVAL, "p is %d; 1 or more is needed", a->p);
	if (a->indices && a->kind != RLX_POOL_MAX)
		return op_fail(q, RLX_EINVAL, "only max pooling has indices");
	st = op_pool_infer(q, &wa, a->kernel, &q->out[0]);
	if (st)
		return st;
	if (a->indices) {
		q->n_out = 2;
		q->out[1] = q->out[0];
		q->out[1].dtype = RLX_I64;
	}
	return RLX_OK;
}

static void geometry(const struct rlx_op_pool *a, const struct rlx_type *x,
		     struct op_window *w)
{
	const struct op_window_args wa = window_args(a);

	op_pool_set(w, &wa, a->kernel, x, NULL);
}

/* Elements of a window by which its mean is made: inside the input, or the padding as well. */
static double counted(const struct rlx_op_pool *a, const struct op_window *w, const int64_t o[3])
{
	double n = 1;
	uint32_t j;

	for (j = 0; j < 3; j++) {
		int64_t at = o[j] * w->stride[j] - w->pad[j];

		n *= (double)(a->include_pad ?
			      op_window_below(w, j, at, w->in[j] + w->pad_end[j]) :
			      op_window_below(w, j, at, w->in[j]) - op_window_below(w, j, at, 0));
	}
	return n;
}

static double window_mean(const struct rlx_eval *q, const struct op_window *w, int64_t base,
			  const int64_t o[3])
{
	struct op_taps t;
	double sum = 0, n;

	for (op_taps_begin(&t, w, o); !t.done; op_taps_next(&t))
		sum += el_get(&q->in[0], base + t.offset);
	n = counted(q->args, w, o);
	return n > 0 ? sum / n : 0;
}

/* By the largest magnitude, whose powers alone may be beyond double, or below it. */
static double window_norm(const struct rlx_eval *q, const struct op_window *w, int64_t base,
			  const int64_t o[3])
{
	const struct rlx_op_pool *a = q->args;
	struct op_taps t;
	double top = 0, sum = 0;

	for (op_taps_begin(&t, w, o); !t.done; op_taps_next(&t)) {
		double v = fabs(el_get(&q->in[0], base + t.offset));

		top = v > top || isnan(v) ? v : top;
	}
	if (!(top > 0) || isinf(top))
		return top;
	for (op_taps_begin(&t, w, o); !t.done; op_taps_next(&t))
		sum += pow(fabs(el_get(&q->in[0], base + t.offset)) / top, a->p);
	return top * pow(sum, 1.0 / a->p);
}

/* The flat position as ONNX counts it: rows or columns first within the plane. */
static int64_t position(const struct op_window *w, bool columns, int64_t at)
{
	int64_t x = at % w->in[2], y = at / w->in[2] % w->in[1];
	int64_t z = at / w->in[2] / w->in[1];

	if (!columns)
		return at;
	return w->nd == 1 ? at : w->nd == 2 ? x * w->in[1] + y :
	       (x * w->in[1] + y) * w->in[0] + z;
}

static void write_max(struct rlx_eval *q, const struct op_window *w, int64_t to,
		      int64_t base, int64_t best)
{
	const struct rlx_op_pool *a = q->args;

	if (best < 0)	/* only padding: nothing is larger than its value */
		el_set(&q->out[0], to, -INFINITY);
	else
		el_copy(&q->out[0], to, &q->in[0], base + best);
	if (a->indices)
		el_seti(&q->out[1], to, best < 0 ? -1 :
			base + position(w, a->column_major, best));
}

static enum rlx_status pool_eval(struct rlx_eval *q)
{
	const struct rlx_op_pool *a = q->args;
	const struct rlx_type *x = &q->in[0].type;
	struct rlx_type shape;
	struct op_window g;
	struct op_walk w;
	int64_t base;

	geometry(a, x, &g);
	shape = (struct rlx_type){ RLX_F64, 4, { x->dim[0] * x->dim[1], g.out[0],
						 g.out[1], g.out[2] } };
	op_walk_begin(&w, &shape, NULL, NULL, NULL);
	for (; !w.done; op_walk_next(&w)) {
		base = w.idx[0] * g.in[0] * g.in[1] * g.in[2];
		if (a->kind == RLX_POOL_MAX) {
			write_max(q, &g, w.i, base,
				  op_window_max(&g, &q->in[0], base, w.idx + 1));
			continue;
		}
		el_set(&q->out[0], w.i, a->kind == RLX_POOL_LP ?
		       window_norm(q, &g, base, w.idx + 1) : window_mean(q, &g, base, w.idx + 1));
	}
	return RLX_OK;
}

/* How many positions of each window count, as a constant of the output's plane. */
static rlx_value counts(struct rlx_graph *g, const struct rlx_op_pool *a,
			const struct op_window *w)
{
	int64_t n = w->out[0] * w->out[1] * w->out[2], i, at, o[3];
	struct rlx_type t = { RLX_F64, w->nd, { 0 } };
	double *c = rlx_malloc((size_t)(n + 1) * sizeof(*c));
	rlx_value v = RLX_NONE;
	uint32_t j;

	for (i = 0; c && i < n; i++) {
		for (at = i, j = 3; j-- > 0; at /= w->out[j])
			o[j] = at % w->out[j];
		c[i] = fmax(counted(a, w, o), 1);
	}
	for (j = 0; j < w->nd; j++)
		t.dim[j] = w->out[3 - w->nd + j];
	if (c)
		v = rlx_constant(g, t, c);
	rlx_free(c);
	return v;
}

static enum rlx_status pool_vjp(struct rlx_grad *q)
{
	const struct rlx_op_pool *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	struct op_window w;
	rlx_value d = q->d_out[0], n, t;

	if (!d.id)
		return RLX_OK;
	if (a->kind == RLX_POOL_MAX) {
		q->d_in[0] = rlx_emit(q->g, max_pool_grad, .x = q->in[0], .dy = d,
				      .kernel = a->kernel, .stride = a->stride, .pad = a->pad,
				      .dilation = a->dilation, .ceil = a->ceil);
		return op_done(q->g);
	}
	geometry(a, &x, &w);
	if (a->kind == RLX_POOL_AVG) {
		n = counts(q->g, a, &w);
		if (!n.id)
			return op_done(q->g) ? op_done(q->g) : RLX_ENOMEM;
		d = rlx_emit(q->g, div, .a = d, .b = op_cast(q->g, n, x.dtype));
		q->d_in[0] = op_window_spread(q->g, d, &w);
		return op_done(q->g);
	}
	/* dy y^(1-p) sign(x) |x|^(p-1) */
	t = rlx_emit(q->g, pow, .a = q->out[0],
		     .b = op_const_like(q->g, q->out[0], 1.0 - a->p));
	d = op_window_spread(q->g, rlx_emit(q->g, mul, .a = d, .b = t), &w);
	t = rlx_emit(q->g, pow, .a = rlx_emit(q->g, abs, .x = q->in[0]),
		     .b = op_const_like(q->g, q->in[0], a->p - 1.0));
	t = rlx_emit(q->g, mul, .a = t, .b = rlx_emit(q->g, sign, .x = q->in[0]));
	q->d_in[0] = rlx_emit(q->g, mul, .a = d, .b = t);
	return op_done(q->g);
}

static void pool_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_op_pool *a = q->args;
	uint32_t i;

	c->flops = (double)rlx_type_count(&q->out[0]);
	for (i = 0; i < a->kernel.n; i++)
		c->flops *= (double)a->kernel.v[i];
}

static bool pool_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct {
		struct rlx_type x;
		int64_t k[3], stride[3], pad[6], dil[3];
		int kind, p;
		bool ceil, include, indices, columns;
	} c[] = {
		{ { RLX_F32, 4, { 2, 3, 8, 9 } }, { 2, 3 }, { 2, 2 }, { 0 }, { 1, 1 } },
		{ { RLX_F32, 4, { 1, 2, 7, 7 } }, { 3, 3 }, { 2, 2 }, { 1, 1, 1, 1 },
		  { 1, 1 }, .indices = true },
		{ { RLX_F32, 4, { 1, 2, 8, 6 } }, { 3, 2 }, { 2, 3 }, { 1, 0, 0, 1 },
		  { 1, 1 }, .ceil = true, .indices = true, .columns = true },
		{ { RLX_F32, 3, { 2, 3, 11 } }, { 3 }, { 1 }, { 0 }, { 2 } },
		{ { RLX_F32, 5, { 1, 2, 4, 5, 6 } }, { 2, 2, 3 }, { 1, 2, 2 },
		  { 1, 0, 1, 0, 1, 0 }, { 1, 1, 1 }, .indices = true, .columns = true },
		{ { RLX_F32, 4, { 2, 3, 8, 9 } }, { 3, 3 }, { 2, 2 }, { 1, 1, 1, 1 },
		  { 1, 1 }, RLX_POOL_AVG },
		{ { RLX_F32, 4, { 1, 3, 8, 9 } }, { 3, 2 }, { 2, 1 }, { 1, 0, 1, 1 },
		  { 1, 2 }, RLX_POOL_AVG, .ceil = true, .include = true },
		{ { RLX_F32, 3, { 2, 1, 10 } }, { 4 }, { 3 }, { 1, 1 }, { 1 },
		  RLX_POOL_AVG, .ceil = true },
		{ { RLX_F32, 4, { 1, 2, 6, 6 } }, { 3, 3 }, { 1, 2 }, { 0, 1, 0, 1 },
		  { 1, 1 }, RLX_POOL_LP, 2 },
		{ { RLX_F32, 4, { 1, 2, 6, 6 } }, { 2, 2 }, { 2, 2 }, { 0 }, { 1, 1 },
		  RLX_POOL_LP, 3 },
		{ { RLX_U8, 4, { 1, 2, 5, 5 } }, { 3, 3 }, { 1, 1 }, { 1, 1, 1, 1 },
		  { 1, 1 }, .indices = true },
		{ { RLX_F32, 4, { 0, 2, 5, 5 } }, { 3, 3 }, { 1, 1 }, { 0 }, { 1, 1 } },
		{ { RLX_F32, 4, { 1, 1, 1, 1 } }, { 1, 1 }, { 1, 1 }, { 0 }, { 1, 1 },
		  RLX_POOL_AVG },
	};
	struct rlx_op_pool *a = s->args;
	uint32_t nd;

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	nd = c[i].x.rank - 2;
	s->n_in = 1;
	s->in[0] = c[i].x;
	if (c[i].x.dtype == RLX_U8)
		s->hi[0] = 255;
	else
		s->lo[0] = -20, s->hi[0] = 20;	/* so that few maxima are near ties */
	s->tol = 2e-6;
	*a = (struct rlx_op_pool){
		.kind = c[i].kind, .p = c[i].p, .ceil = c[i].ceil,
		.include_pad = c[i].include, .indices = c[i].indices,
		.column_major = c[i].columns,
	};
	a->kernel = op_keep(s, (struct rlx_ints){ c[i].k, nd });
	a->stride = op_keep(s, (struct rlx_ints){ c[i].stride, nd });
	a->pad = op_keep(s, (struct rlx_ints){ c[i].pad, 2 * nd });
	a->dilation = op_keep(s, (struct rlx_ints){ c[i].dil, nd });
	return true;
}

/* Positions are those in all of x: each instance's begin at 0. */
static enum rlx_status pool_batch(struct rlx_batching *q)
{
	struct rlx_type t = { RLX_I64, q->type->rank + 1, { q->n } };
	enum rlx_status st = op_batch_examples(q);
	struct rlx_graph *g = q->g;
	rlx_value at;
	uint32_t i;

	if (st || q->n_out < 2)
		return st;
	for (i = 0; i < q->type->rank; i++)
		t.dim[1 + i] = 1;
	at = rlx_emit(g, iota, .type = t, .step = (double)rlx_type_count(q->type));
	q->out[1] = rlx_emit(g, sub, .a = q->out[1], .b = at);
	return op_done(g);
}

const struct rlx_op_impl rlx_op_pool_impl = {
	.infer = pool_infer, .eval = pool_eval, .vjp = pool_vjp, .cost = pool_cost,
	.batch = pool_batch,
};
RLX_SAMPLES(pool, pool_sample)
