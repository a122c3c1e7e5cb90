// SPDX-License-Identifier: MIT
/* Short forms for graphs written by ops, and checks that many ops share. */
#include "ops/emit.h"
#include "ir/match.h"

struct rlx_type op_type(const struct rlx_graph *g, rlx_value v)
{
	const struct rlx_type *t = rlx_type_of(g, v);

	return t ? *t : (struct rlx_type){ 0 };
}

enum rlx_status op_done(const struct rlx_graph *g)
{
	return rlx_graph_error(g)->status;
}

bool op_finish_body(struct rlx_graph *body, struct rlx_graph *g)
{
	const struct rlx_error *e = rlx_graph_error(body);
	enum rlx_status st = body ? rlx_graph_finish(body) : RLX_ENOMEM;

	if (st && body)
		rlx_error_set(&g->err, st, e->file, e->line, "%s", e->text);
	else if (st)
		rlx_fail(&g->err, st, "a body: out of memory");
	return !st;
}

rlx_value op_cast(struct rlx_graph *g, rlx_value x, enum rlx_dtype dt)
{
	return op_type(g, x).dtype == dt ? x : rlx_emit(g, cast, .x = x, .to = dt);
}

rlx_value op_reshape(struct rlx_graph *g, rlx_value x, const int64_t *dim,
		     uint32_t rank)
{
	struct rlx_type t = op_type(g, x);

	if (t.rank == rank && (!rank || !memcmp(t.dim, dim, rank * sizeof(*dim))))
		return x;
	return rlx_emit(g, reshape, .x = x, .shape = { dim, rank });
}

rlx_value op_fold3(struct rlx_graph *g, rlx_value x, uint32_t axis)
{
	struct rlx_type t = op_type(g, x);
	int64_t dim[3] = { shape_span(&t, 0, axis), t.dim[axis],
			   shape_span(&t, axis + 1, t.rank) };

	return op_reshape(g, x, dim, 3);
}

rlx_value op_expand_to(struct rlx_graph *g, rlx_value x, const struct rlx_type *t)
{
	struct rlx_type own = op_type(g, x), want = *t;

	want.dtype = own.dtype;
	if (rlx_type_equal(&own, &want))
		return x;
	return rlx_emit(g, expand, .x = x, .shape = { want.dim, want.rank });
}

rlx_value op_fill(struct rlx_graph *g, const struct rlx_type *t, double c)
{
	return op_expand_to(g, rlx_scalar_const(g, t->dtype, c), t);
}

rlx_value op_mul_const(struct rlx_graph *g, rlx_value x, double c)
{
	return c == 1 ? x : rlx_emit(g, mul, .a = x, .b = op_const_like(g, x, c));
}

rlx_value op_add_const(struct rlx_graph *g, rlx_value x, double c)
{
	return c == 0 ? x : rlx_emit(g, add, .a = x, .b = op_const_like(g, x, c));
}

rlx_value op_swap_last(struct rlx_graph *g, rlx_value x)
{
	struct rlx_type t = op_type(g, x);
	int64_t perm[RLX_MAX_RANK];
	uint32_t i;

	for (i = 0; i < t.rank; i++)
		perm[i] = i;
	if (t.rank >= 2) {
		perm[t.rank - 1] = t.rank - 2;
		perm[t.rank - 2] = t.rank - 1;
	}
	return rlx_emit(g, transpose, .x = x, .perm = { perm, t.rank });
}

bool op_swaps_last(const struct rlx_op_transpose *a, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i + 2 < rank; i++)
		if (a->perm.n != rank || a->perm.v[i] != i)
			return false;
	return rank >= 2 && (!a->perm.n ? rank == 2 : a->perm.v[rank - 2] == rank - 1);
}

rlx_value op_swapped(const struct rlx_graph *g, rlx_value x)
{
	const struct rlx_node *n = x.id ? rlx_node_of(g, x.id) : NULL;

	if (!n || n->def->index != RLX_OP_transpose ||
	    !op_swaps_last(n->args, op_type(g, x).rank))
		return RLX_NONE;
	return (rlx_value){ n->in[0] };
}

rlx_value op_swap_product(struct rlx_graph *g, rlx_value x)
{
	const struct rlx_node *n = x.id ? rlx_node_of(g, x.id) : NULL;
	struct rlx_op_fused_matmul a;

	if (!n || n->def->index != RLX_OP_fused_matmul || n->in[2] || n->in[3])
		return op_swap_last(g, x);
	a = *(const struct rlx_op_fused_matmul *)n->args;
	if (a.act)
		return op_swap_last(g, x);
	return rlx_emit(g, fused_matmul, .a = { n->in[1] }, .b = { n->in[0] },
			.trans_a = !a.trans_b, .trans_b = !a.trans_a, .alpha = a.alpha,
			.compute = a.compute, .out_dtype = a.out_dtype, .tf32 = a.tf32);
}

rlx_value op_transpose(struct rlx_graph *g, rlx_value x, struct rlx_ints perm)
{
	uint32_t i;

	for (i = 0; i < perm.n && perm.v[i] == i; i++)
		;
	return i == perm.n ? x : rlx_emit(g, transpose, .x = x, .perm = perm);
}

rlx_value op_reduce_span(struct rlx_graph *g, rlx_value x, int kind,
			 uint32_t from, uint32_t to)
{
	int64_t axes[RLX_MAX_RANK];
	uint32_t n = 0;

	for (; from < to; from++)
		axes[n++] = from;
	if (!n)		/* an empty list would mean all axes */
		return x;
	return rlx_emit(g, reduce, .x = x, .axes = { axes, n }, .kind = kind,
			.keep_dims = true);
}

bool op_match_trailing_mean(const struct rlx_match *m, const char *name, uint32_t *out_first)
{
	const struct rlx_node *n = rlx_match_node(m, name);
	const struct rlx_op_reduce *r = n->args;
	uint32_t rank = m->g->val[n->in[0]].type.rank, mask = 0, i, ax;

	if (r->kind != RLX_REDUCE_MEAN || !r->keep_dims || !rank)
		return false;
	for (i = 0; i < r->axes.n; i++)
		if (op_axis(r->axes.v[i], rank, &ax))
			mask |= 1u << ax;
	if (!r->axes.n)
		mask = (1u << rank) - 1;
	for (*out_first = rank; *out_first && mask >> (*out_first - 1) & 1; --*out_first)
		;
	return *out_first < rank && mask == ((1u << rank) - 1) >> *out_first << *out_first;
}

rlx_value op_gather_grad(struct rlx_graph *g, rlx_value dy, rlx_value idx,
			 const struct rlx_type *x, uint32_t axis)
{
	int64_t pre = shape_span(x, 0, axis), post = shape_span(x, axis + 1, x->rank);
	struct rlx_type it = op_type(g, idx), z = { .dtype = x->dtype, .rank = 3 };
	int64_t n = rlx_type_count(&it);
	rlx_value d;

	dy = op_cast(g, dy, x->dtype);
	d = op_reshape(g, dy, (int64_t[]){ pre, n, post }, 3);
	d = op_transpose(g, d, RLX_INTS(1, 0, 2));
	z.dim[0] = x->dim[axis];
	z.dim[1] = pre;
	z.dim[2] = post;
	d = rlx_emit(g, scatter_nd, .x = op_fill(g, &z, 0),
		     .indices = op_reshape(g, idx, (int64_t[]){ n, 1 }, 2),
		     .updates = d, .reduction = RLX_SCATTER_ADD);
	d = op_transpose(g, d, RLX_INTS(1, 0, 2));
	return op_reshape(g, d, x->dim, x->rank);
}

/* What was added along @axis into zeros to make @x, some for each of its lines; 0: another op. */
static uint32_t added_to_zeros(const struct rlx_graph *g, rlx_value x, uint32_t axis)
{
	const struct rlx_type *t = &g->val[x.id].type, *part;
	const struct rlx_node *n = rlx_node_of(g, x.id);
	const struct rlx_op_scatter_elements *a = n->args;
	uint32_t own, i;
	double zero;

	if (n->def->index != RLX_OP_scatter_elements || a->reduction != RLX_SCATTER_ADD ||
	    !op_axis(a->axis, t->rank, &own) || own != axis ||
	    !rlx_value_scalar(g, n->in[0], &zero) || zero != 0)
		return 0;
	part = &g->val[n->in[2]].type;
	for (i = 0; i < t->rank; i++)
		if (i != axis && part->dim[i] != t->dim[i])
			return 0;
	return n->in[2];
}

rlx_value op_sum_scattered(struct rlx_graph *g, rlx_value x, int32_t axis)
{
	uint32_t along, added = 0;

	if (op_axis(axis, op_type(g, x).rank, &along))
		added = added_to_zeros(g, x, along);
	if (added && g->val[added].type.dim[along] == 1)
		return (rlx_value){ added };
	return rlx_emit(g, reduce, .x = added ? (rlx_value){ added } : x, .axes = RLX_INTS(axis),
			.keep_dims = true);
}

rlx_value op_i64_const(struct rlx_graph *g, const int64_t *v, int64_t n)
{
	return rlx_constant(g, rlx_type(RLX_I64, n), v);
}

bool op_fits(const struct rlx_type *t, const struct rlx_type *to)
{
	struct rlx_type got = *to;

	if (t->rank > to->rank || !op_broadcast(t, to, &got))
		return false;
	return !memcmp(got.dim, to->dim, to->rank * sizeof(got.dim[0]));
}

enum rlx_status op_need_enum(struct rlx_infer *q, const char *what, int64_t v,
			     int64_t count)
{
	if (v < 0 || v >= count)
		return op_fail(q, RLX_EINVAL, "%s is %lld, 0 to %lld are known",
			       what, (long long)v, (long long)(count - 1));
	return RLX_OK;
}

enum rlx_status op_need_number(struct rlx_infer *q, uint32_t k)
{
	enum rlx_dtype dt = q->in[k]->dtype;

	return rlx_dtype_is_int(dt) ? RLX_OK : op_need_float(q, k, false);
}

enum rlx_status op_need_rank(struct rlx_infer *q, uint32_t k, uint32_t lo,
			     uint32_t hi)
{
	uint32_t rank = q->in[k]->rank;

	if (rank >= lo && rank <= hi)
		return RLX_OK;
	if (lo == hi)
		return op_fail(q, RLX_ESHAPE, "input %u has rank %u, %u is needed",
			       k, rank, lo);
	return op_fail(q, RLX_ESHAPE, "input %u has rank %u, %u to %u are taken",
		       k, rank, lo, hi);
}

enum rlx_status op_need_real(struct rlx_infer *q, const char *what, double v,
			     double lo)
{
	if (!isfinite(v) || v < lo)
		return op_fail(q, RLX_EINVAL, "%s is %g; a finite number >= %g is needed",
			       what, v, lo);
	return RLX_OK;
}

enum rlx_status op_index(const struct rlx_eval *q, int64_t i, int64_t dim,
			 int64_t *out)
{
	if (i < -dim || i >= dim)
		return op_fail(q, RLX_ERANGE,
			       "index %lld is outside a dimension of %lld",
			       (long long)i, (long long)dim);
	*out = i < 0 ? i + dim : i;
	return RLX_OK;
}

int op_compare(const struct rlx_tensor *t, int64_t i, int64_t j)
{
	double a, b;

	if (el_is_int(t->type.dtype)) {
		int64_t x = el_geti(t, i), y = el_geti(t, j);

		if (t->type.dtype == RLX_U64)
			return (uint64_t)x < (uint64_t)y ? -1 : x != y;
		return x < y ? -1 : x > y;
	}
	a = el_get(t, i);
	b = el_get(t, j);
	if (isnan(a) || isnan(b))
		return (isnan(a) != 0) - (isnan(b) != 0);
	return a < b ? -1 : a > b;
}

static bool line_before(const void *ctx, int64_t i, int64_t j)
{
	const struct op_line *l = ctx;
	int c = op_compare(l->t, l->base + i * l->stride, l->base + j * l->stride);

	return c ? (c < 0) != l->descending : i < j;
}

static void sift(op_before *before, const void *ctx, int64_t *idx, int64_t at, int64_t n)
{
	int64_t child, v = idx[at];

	for (; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && before(ctx, idx[child], idx[child + 1]))
			child++;
		if (!before(ctx, v, idx[child]))
			break;
		idx[at] = idx[child];
	}
	idx[at] = v;
}

void op_sort_by(op_before *before, const void *ctx, int64_t *idx, int64_t n)
{
	int64_t i, v;

	for (i = n / 2; i-- > 0;)
		sift(before, ctx, idx, i, n);
	for (i = n - 1; i > 0; i--) {
		v = idx[0];
		idx[0] = idx[i];
		idx[i] = v;
		sift(before, ctx, idx, 0, i);
	}
}

void op_sort(const struct op_line *l, int64_t *idx, int64_t n)
{
	op_sort_by(line_before, l, idx, n);
}

struct rlx_type op_tail(const struct rlx_type *x, uint32_t ax)
{
	struct rlx_type t = { .dtype = x->dtype };

	for (; ax < x->rank; ax++)
		t.dim[t.rank++] = x->dim[ax];
	return t;
}

enum rlx_status op_infer_out_dtype(struct rlx_infer *q, enum rlx_dtype dt)
{
	if (dt && (!rlx_dtype_is_float(dt) || rlx_dtype_size(dt) == 1))
		return op_fail(q, RLX_ETYPE, "out_dtype is %s; f64, f32, f16, bf16 or nothing",
			       rlx_dtype_name(dt));
	if (dt)
		q->out[0].dtype = dt;
	return RLX_OK;
}

enum rlx_status op_infer_norm(struct rlx_infer *q, int32_t axis, float eps,
			      uint32_t *out_ax)
{
	enum rlx_status st = op_need_float(q, 0, false);
	struct rlx_type tail;
	uint32_t k;

	if (!st)
		st = op_infer_axis(q, axis, q->in[0]->rank, out_ax);
	if (!st)
		st = op_need_real(q, "eps", eps, 0);
	if (st)
		return st;
	tail = op_tail(q->in[0], *out_ax);
	for (k = 1; k < 3; k++) {
		if (!q->in[k])
			continue;
		st = op_need_float(q, k, false);
		if (st)
			return st;
		if (!op_fits(q->in[k], &tail))
			return op_fail(q, RLX_ESHAPE,
				       "%s does not broadcast to x's axes from %u on",
				       k == 1 ? "gamma" : "beta", *out_ax);
	}
	q->out[0] = *q->in[0];
	return RLX_OK;
}
