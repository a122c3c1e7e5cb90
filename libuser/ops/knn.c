// SPDX-License-Identifier: MIT
/* The nearest neighbours of points, exactly. */
#include "base/alloc.h"
#include "ops/defaults.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, d], y[m, d] -> distances[n, k], ids[n, k]; without y the points are x's own
 * Dtypes:	f64 f32 f16 bf16; distances f64 for f64, else f32; ids i32
 * Does:	for each x the k points of y with the least distance, the nearest first, ties to the
 *		lower id. metric RLX_KNN_L2 (if not given): sqrt(sum((x - y)^2)); L2SQ: without the
 *		root; IP: -sum(x y); COS: 1 - sum(x y) / (|x| |y|), 1 where either is 0, computed as
 *		|x / |x| - y / |y||^2 / 2, which is 0 between points in one direction. Without y a
 *		point is no neighbour of itself. A distance of NaN comes last, as infinity.
 *		All m distances of some rows at a time are ranked by one matrix product; of the k +
 *		8 that lead, distances are computed anew, element by element, and ordered.
 * Errors:	k above m, or above n - 1 without y, is RLX_ERANGE.
 * Gradient:	through the distances, to x and y; 0 where an l2 distance is 0; none through ids
 * Source:	Fix and Hodges 1951
 */
RLX_OP(knn, "the k nearest of the points y, or of x's others, to each x: distances, i32 ids",
	IN(x) OPT(y)
	REQ(i64, k, "how many neighbours")
	ATTR(i32, metric),
	RLX_T_COMPUTE | RLX_T_STEPPED)

static enum rlx_status knn_infer(struct rlx_infer *q)
{
	const struct rlx_op_knn *a = q->args;
	const struct rlx_type *x = q->in[0], *y = q->in[1] ? q->in[1] : x;
	int64_t most = q->in[1] || !x->dim[0] ? y->dim[0] : x->dim[0] - 1;
	enum rlx_status st = op_need_float(q, 0, false);

	st = st ? st : op_need_rank(q, 0, 2, 2);
	st = st ? st : op_need_enum(q, "metric", a->metric, RLX_KNN_COS + 1);
	if (!st && q->in[1])
		st = op_need_rank(q, 1, 2, 2);
	if (st)
		return st;
	if (y->dtype != x->dtype)
		return op_fail(q, RLX_ETYPE, "x and y are of one dtype");
	if (y->dim[1] != x->dim[1])
		return op_fail(q, RLX_ESHAPE, "points of %lld and of %lld coordinates",
			       (long long)x->dim[1], (long long)y->dim[1]);
	if (y->dim[0] > INT32_MAX)
		return op_fail(q, RLX_ERANGE, "%lld points; ids are i32", (long long)y->dim[0]);
	if (a->k < 0 || a->k > most)
		return op_fail(q, RLX_ERANGE, "k is %lld, there are %lld points%s", (long long)a->k,
			       (long long)most, q->in[1] ? "" : " beside one");
	q->n_out = 2;
	q->out[0] = rlx_type(op_acc_type(x->dtype), x->dim[0], a->k);
	q->out[1] = rlx_type(RLX_I32, x->dim[0], a->k);
	return RLX_OK;
}

/* What points are ordered by: of l2 the square. */
static double distance(const struct rlx_tensor *x, int64_t i, const struct rlx_tensor *y, int64_t j,
		       int32_t metric)
{
	int64_t d = x->type.dim[1], p;
	double s = 0, xx = 0, yy = 0, u, v;

	for (p = 0; p < d && metric == RLX_KNN_COS; p++) {
		xx += el_get(x, i * d + p) * el_get(x, i * d + p);
		yy += el_get(y, j * d + p) * el_get(y, j * d + p);
	}
	if (metric == RLX_KNN_COS && (xx == 0 || yy == 0))
		return 1;
	for (p = 0; p < d; p++) {
		u = el_get(x, i * d + p);
		v = el_get(y, j * d + p);
		if (metric == RLX_KNN_IP)
			s -= u * v;
		else if (metric == RLX_KNN_COS)
			s += 0.5 * (u / sqrt(xx) - v / sqrt(yy)) * (u / sqrt(xx) - v / sqrt(yy));
		else
			s += (u - v) * (u - v);
	}
	return isnan(s) ? INFINITY : s;
}

/* A neighbour found so far. */
struct found {
	double	s;
	int64_t	id;
};

static size_t knn_scratch(const struct rlx_infer *q)
{
	const struct rlx_op_knn *a = q->args;

	return (size_t)a->k * sizeof(struct found);
}

/* Each that is near enough goes to its place among the k: there are few. */
static enum rlx_status knn_eval(struct rlx_eval *q)
{
	const struct rlx_op_knn *a = q->args;
	const struct rlx_tensor *x = &q->in[0], *y = op_has(&q->in[1]) ? &q->in[1] : x;
	int64_t n = x->type.dim[0], m = y->type.dim[0], k = a->k, i, j, at, have;
	struct found *best = q->scratch;
	double s;

	/* points of no coordinates are all as near: the first ones are found */
	if (!x->type.dim[1] && m > k)
		m = k + 1;
	for (i = 0; i < n && k; i++) {
		for (have = j = 0; j < m; j++) {
			s = distance(x, i, y, j, a->metric);
			if ((x == y && i == j) || (have == k && !(s < best[k - 1].s)))
				continue;
			have += have < k;
			for (at = have - 1; at && s < best[at - 1].s; at--)
				best[at] = best[at - 1];
			best[at] = (struct found){ s, j };
		}
		for (j = 0; j < k; j++) {
			s = best[j].s;
			el_set(&q->out[0], i * k + j, a->metric == RLX_KNN_L2 ? sqrt(s) : s);
			el_seti(&q->out[1], i * k + j, best[j].id);
		}
	}
	return RLX_OK;
}

/* The op's operands while it is written out. */
struct search {
	struct rlx_graph	*g;
	rlx_value		 x, y;		/* in the dtype of sums; of cosines, of length 1 */
	rlx_value		 yy;		/* [m]: |y|^2, of l2 */
	int32_t			 metric;
	bool			 self;
	int64_t			 m, d, k, kept;	/* kept: candidates for the k, and the point */
};

/* Sums over the last dimension, kept as 1. */
static rlx_value dots(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	return rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = a, .b = b), .axes = RLX_INTS(-1),
			.keep_dims = true);
}

/* v / |v|, 0 where that is 0: to the bit the same for points of one dimension. */
static rlx_value unit(struct rlx_graph *g, rlx_value v)
{
	rlx_value vv = dots(g, v, v), none = rlx_emit(g, eq, .a = vv, .b = op_const_like(g, vv, 0));

	vv = rlx_emit(g, where, .cond = none, .a = op_const_like(g, vv, 1), .b = vv);
	return rlx_emit(g, div, .a = v, .b = rlx_emit(g, sqrt, .x = vv));
}

/* As keys of an order: NaN as infinity, and behind all the pair that is one point, as NaN. */
static rlx_value keys(const struct search *s, rlx_value v, rlx_value ids, int64_t from, int64_t n)
{
	struct rlx_graph *g = s->g;
	rlx_value mine;

	v = rlx_emit(g, where, .cond = rlx_emit(g, eq, .a = v, .b = v), .a = v,
		     .b = op_const_like(g, v, INFINITY));
	if (!s->self)
		return v;
	mine = rlx_emit(g, iota, .type = rlx_type(RLX_I64, n, 1), .start = (double)from);
	return rlx_emit(g, where, .cond = rlx_emit(g, eq, .a = ids, .b = mine),
			.a = op_const_like(g, v, NAN), .b = v);
}

/*
 * Who may be among the k nearest of @x's rows: ids [n, kept], ascending, so that of equal ones the
 * lower is found first. What x adds to all of a row's distances is left out; NaN is the largest.
 */
static rlx_value candidates(const struct search *s, rlx_value x)
{
	struct rlx_graph *g = s->g;
	rlx_value v;

	v = rlx_emit(g, fused_matmul, .a = x, .b = s->y, .bias = s->yy, .trans_b = true,
		     .alpha = s->metric <= RLX_KNN_L2SQ ? -2 : -1);
	v = rlx_emit(g, topk, .x = v, .k = s->kept, .axis = 1, .smallest = true);
	return rlx_emit(g, topk, .x = rlx_out(g, v, 1), .k = s->kept, .axis = 1, .smallest = true);
}

/* Distances of @x's rows to the points @ids, of l2 the squares: [n, kept]. */
static rlx_value distances(const struct search *s, rlx_value x, rlx_value ids, int64_t n)
{
	struct rlx_graph *g = s->g;
	rlx_value y = rlx_emit(g, gather, .x = s->y, .indices = ids), v, w;

	x = op_reshape(g, x, (int64_t[]){ n, 1, s->d }, 3);
	if (s->metric == RLX_KNN_IP) {
		v = rlx_emit(g, neg, .x = dots(g, x, y));
	} else {
		v = rlx_emit(g, sub, .a = x, .b = y);
		v = dots(g, v, v);
	}
	if (s->metric == RLX_KNN_COS) {
		w = rlx_emit(g, mul, .a = dots(g, x, x), .b = dots(g, y, y));
		w = rlx_emit(g, eq, .a = w, .b = op_const_like(g, w, 0));
		v = rlx_emit(g, where, .cond = w, .a = op_const_like(g, v, 1),
			     .b = op_mul_const(g, v, 0.5));
	}
	return op_reshape(g, v, (int64_t[]){ n, s->kept }, 2);
}

/* The root, with no gradient at 0. */
static rlx_value root(struct rlx_graph *g, rlx_value v)
{
	rlx_value zero = op_const_like(g, v, 0), none = rlx_emit(g, eq, .a = v, .b = zero);

	v = rlx_emit(g, where, .cond = none, .a = op_const_like(g, v, 1), .b = v);
	return rlx_emit(g, where, .cond = none, .a = zero, .b = rlx_emit(g, sqrt, .x = v));
}

/* Rows [from, from + n) of the results: distances to out[0], ids to out[stride]. */
static void some_rows(const struct search *s, int64_t from, int64_t n, rlx_value *out,
		      int64_t stride)
{
	struct rlx_graph *g = s->g;
	rlx_value x = s->x, ids, v;

	if (stride > 1)
		x = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(from),
			     .ends = RLX_INTS(from + n));
	ids = candidates(s, x);
	v = keys(s, distances(s, x, ids, n), ids, from, n);
	v = rlx_emit(g, topk, .x = v, .k = s->k, .axis = 1, .smallest = true);
	out[0] = s->metric == RLX_KNN_L2 ? root(g, v) : v;
	ids = rlx_emit(g, gather_elements, .x = ids, .indices = rlx_out(g, v, 1), .axis = 1);
	out[stride] = op_cast(g, ids, RLX_I32);
}

static enum rlx_status knn_expand(struct rlx_expand *q)
{
	const struct rlx_op_knn *a = q->args;
	struct rlx_graph *g = q->g;
	enum rlx_dtype acc = q->out_type[0].dtype;
	struct search s = { .g = g, .metric = a->metric, .self = !q->in[1].id, .k = a->k };
	int64_t n = q->out_type[0].dim[0], rows, count, i;
	struct rlx_type t;
	rlx_value *part;

	s.x = op_cast(g, q->in[0], acc);
	s.y = s.self ? s.x : op_cast(g, q->in[1], acc);
	if (s.metric == RLX_KNN_COS) {
		s.x = unit(g, s.x);
		s.y = s.self ? s.x : unit(g, s.y);
	}
	t = op_type(g, s.y);
	s.m = t.dim[0];
	s.d = t.dim[1];
	s.kept = op_knn_kept(a->k, s.m, s.self);
	if (s.metric <= RLX_KNN_L2SQ)
		s.yy = op_reshape(g, dots(g, s.y, s.y), &s.m, 1);
	rows = OP_KNN_CHUNK / (s.m > s.kept * s.d ? s.m + 1 : s.kept * s.d + 1);
	rows = rows < 1 ? 1 : rows < n ? rows : n;
	count = rows ? (n + rows - 1) / rows : 1;
	part = rlx_calloc((size_t)count, 2 * sizeof(*part));
	if (!part) {
		rlx_graph_fail(g, RLX_ENOMEM, "knn: out of memory");
		return op_done(g);
	}
	for (i = 0; i < count; i++)
		some_rows(&s, i * rows, n - i * rows < rows ? n - i * rows : rows, part + i, count);
	for (i = 0; i < 2; i++)
		q->out[i] = count == 1 ? part[i] :
			    rlx_emit(g, concat, .axis = 0,
				     .xs = { part + i * count, (uint32_t)count });
	rlx_free(part);
	return op_done(g);
}

static void knn_cost(const struct rlx_infer *q, struct rlx_cost *c)
{
	const struct rlx_type *x = q->in[0], *y = q->in[1] ? q->in[1] : x;

	c->flops = 2 * (double)rlx_type_count(x) * (double)y->dim[0];
}

static bool knn_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_knn *a = s->args;

	if (i > 5)
		return false;
	s->n_in = i & 1 ? 2 : 1;
	s->in[0] = rlx_type(RLX_F32, i == 4 ? 1 : 9, i == 5 ? 1 : 6);
	s->in[1] = i & 1 ? rlx_type(RLX_F32, 12, i == 5 ? 1 : 6) : (struct rlx_type){ 0 };
	s->tol = 2e-6;
	a->metric = (int32_t)i % 4;
	a->k = i == 4 ? 0 : 3;
	return true;
}

const struct rlx_op_impl rlx_op_knn_impl = {
	.infer = knn_infer, .scratch = knn_scratch, .eval = knn_eval, .expand = knn_expand,
	.cost = knn_cost,
};
RLX_SAMPLES(knn, knn_sample)
