// SPDX-License-Identifier: MIT
/* Batching rules that many ops share. */
#include "ops/batch.h"
#include "ir/graph.h"
#include "ops/emit.h"

/* @x, whose type is @t behind a batch axis, with ones between them up to rank @rank behind it. */
static rlx_value aligned(struct rlx_graph *g, rlx_value x, const struct rlx_type *t, uint32_t rank)
{
	int64_t dim[RLX_MAX_RANK + 1];
	uint32_t i;

	if (t->rank >= rank)
		return x;
	if (rank >= RLX_MAX_RANK) {
		rlx_fail(&g->err, RLX_ESHAPE, "vmap: rank over %d", RLX_MAX_RANK);
		return RLX_NONE;
	}
	dim[0] = op_type(g, x).dim[0];
	for (i = 0; i < rank; i++)
		dim[1 + i] = i < rank - t->rank ? 1 : t->dim[i - (rank - t->rank)];
	return op_reshape(g, x, dim, rank + 1);
}

rlx_value op_batch_repeat(struct rlx_graph *g, rlx_value x, int64_t n)
{
	struct rlx_type t = op_type(g, x), to = { t.dtype, t.rank + 1, { n } };

	if (t.rank == RLX_MAX_RANK) {
		rlx_fail(&g->err, RLX_ESHAPE, "vmap: rank over %d", RLX_MAX_RANK);
		return RLX_NONE;
	}
	memcpy(to.dim + 1, t.dim, t.rank * sizeof(t.dim[0]));
	return op_expand_to(g, x, &to);
}

rlx_value op_batch_in(struct rlx_batching *q, uint32_t k)
{
	if (!q->in[k].id || q->mapped[k])
		return q->in[k];
	return op_batch_repeat(q->g, q->in[k], q->n);
}

enum rlx_status op_batch_emit(struct rlx_batching *q, const void *args)
{
	rlx_value v = RLX_NONE;
	uint32_t i;

	if (!q->g->err.status)
		v = rlx_node_new(q->g, q->def, args, q->to, q->n_in, q->at);
	for (i = 0; v.id && i < q->n_out; i++)
		q->out[i] = (rlx_value){ v.id + i };
	return op_done(q->g);
}

rlx_value op_batch_aligned(struct rlx_batching *q, uint32_t k, uint32_t rank)
{
	return q->mapped[k] ? aligned(q->g, q->in[k], &q->type[k], rank) : q->in[k];
}

enum rlx_status op_batch_pointwise(struct rlx_batching *q)
{
	uint32_t k;

	for (k = 0; k < q->n_in; k++)
		q->to[k] = op_batch_aligned(q, k, q->out_type->rank).id;
	return op_batch_emit(q, q->args);
}

static enum rlx_status front(struct rlx_batching *q, const void *args)
{
	uint32_t k;

	for (k = 0; k < q->n_in; k++)
		q->to[k] = op_batch_in(q, k).id;
	return op_batch_emit(q, args);
}

enum rlx_status op_batch_front(struct rlx_batching *q)
{
	return front(q, q->args);
}

struct rlx_ints op_batch_axis_list(struct rlx_batching *q, struct rlx_ints axes, uint32_t n)
{
	uint32_t count = axes.n ? axes.n : n, i;
	int64_t *v = rlx_bump_new(&q->g->bump, count + 1, sizeof(*v)), a;

	if (!v) {
		rlx_fail(&q->g->err, RLX_ENOMEM, "vmap: out of memory");
		return (struct rlx_ints){ NULL, 0 };
	}
	for (i = 0; i < count; i++) {
		a = axes.n ? axes.v[i] : i;
		v[i] = a < 0 ? a : a + 1;	/* negative ones count from the other end */
	}
	return (struct rlx_ints){ v, count };
}

/* The attributes with axes behind the batch axis; NULL, and a sticky failure. */
static void *behind(struct rlx_batching *q)
{
	static const char *const name[] = { "axis", "time_axis", "batch_axis" };
	void *args = rlx_bump_dup(&q->g->bump, q->args, q->def->args_size);
	uint32_t i, k;

	if (!args)
		rlx_fail(&q->g->err, RLX_ENOMEM, "vmap: out of memory");
	for (i = 0; args && i < q->def->n_field; i++) {
		const struct rlx_field *f = &q->def->field[i];

		if (f->role == RLX_FIELD_ATTR && !strcmp(f->name, "axes")) {
			struct rlx_ints *l = rlx_field_ptr(f, args);

			*l = op_batch_axis_list(q, *l, 0);
		}
		for (k = 0; k < sizeof(name) / sizeof(name[0]); k++) {
			int32_t *a = rlx_field_ptr(f, args);

			if (f->role == RLX_FIELD_ATTR && !strcmp(f->name, name[k]))
				*a += *a >= 0;
		}
	}
	return q->g->err.status ? NULL : args;
}

enum rlx_status op_batch_axes(struct rlx_batching *q)
{
	void *args = behind(q);

	return args ? front(q, args) : op_done(q->g);
}

/* Is none mapped but those that @mask has a bit for? */
static bool only(const struct rlx_batching *q, uint32_t mask)
{
	uint32_t k;

	for (k = 0; k < q->n_in; k++)
		if (q->mapped[k] && (k >= 32 || !(mask >> k & 1)))
			return false;
	return true;
}

enum rlx_status op_batch_axes_of_first(struct rlx_batching *q)
{
	void *args;
	uint32_t k;

	if (!only(q, 1))
		return RLX_OK;
	args = behind(q);
	for (k = 0; k < q->n_in; k++)
		q->to[k] = q->in[k].id;
	return args ? op_batch_emit(q, args) : op_done(q->g);
}

enum rlx_status op_batch_merged(struct rlx_batching *q, uint32_t mask)
{
	int64_t dim[RLX_MAX_RANK + 1];
	struct rlx_type t;
	uint32_t k;

	if (!only(q, mask))
		return RLX_OK;
	for (k = 0; k < q->n_in; k++) {
		q->to[k] = q->in[k].id;
		if (!q->in[k].id || k >= 32 || !(mask >> k & 1))
			continue;
		t = q->type[k];
		t.dim[0] *= q->n;
		q->to[k] = op_reshape(q->g, op_batch_in(q, k), t.dim, t.rank).id;
	}
	if (op_batch_emit(q, q->args))
		return op_done(q->g);
	for (k = 0; k < q->n_out; k++) {
		t = q->out_type[k];
		dim[0] = q->n;
		memcpy(dim + 1, t.dim, t.rank * sizeof(dim[0]));
		if (t.rank == RLX_MAX_RANK)
			return rlx_fail(&q->g->err, RLX_ESHAPE, "vmap: rank over %d", RLX_MAX_RANK);
		q->out[k] = op_reshape(q->g, q->out[k], dim, t.rank + 1);
	}
	return op_done(q->g);
}

enum rlx_status op_batch_examples(struct rlx_batching *q)
{
	return op_batch_merged(q, 1);
}

enum rlx_status op_batch_matmul(struct rlx_batching *q)
{
	uint32_t rank = q->type[0].rank > q->type[1].rank ? q->type[0].rank : q->type[1].rank, k;

	for (k = 2; k < q->n_in; k++)
		if (q->in[k].id)
			return RLX_OK;
	for (k = 0; k < q->n_in; k++)
		q->to[k] = op_batch_aligned(q, k, rank).id;
	return op_batch_emit(q, q->args);
}

enum rlx_status op_batch_solve(struct rlx_batching *q, bool vector)
{
	uint32_t lead[2] = { q->type[0].rank - 2, q->type[1].rank - (vector ? 1 : 2) }, k;
	rlx_value x;

	for (k = 0; k < 2; k++) {
		struct rlx_type to = op_type(q->g, x = op_batch_in(q, k));
		const struct rlx_type *other = &q->type[!k];

		if (!lead[k] && lead[!k] && !q->g->err.status) {
			to.rank += lead[!k];
			memmove(to.dim + 1 + lead[!k], to.dim + 1,
				q->type[k].rank * sizeof(to.dim[0]));
			memcpy(to.dim + 1, other->dim, lead[!k] * sizeof(to.dim[0]));
			x = op_expand_to(q->g, aligned(q->g, x, &q->type[k], to.rank - 1), &to);
		}
		q->to[k] = x.id;
	}
	return op_batch_emit(q, q->args);
}
