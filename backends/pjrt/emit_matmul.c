// SPDX-License-Identifier: MIT
/* Products of matrices, and triangular systems. */
#include "backends/pjrt/emit.h"
#include "base/shape.h"

/* What products of @dt are added up in */
static enum rlx_dtype sums_in(enum rlx_dtype dt)
{
	return rlx_dtype_is_float(dt) && dt != RLX_F64 ? RLX_F32 : dt;
}

/* One dtype for both that holds either: 16 bits stay, or all as @dt */
static void alike(struct hlo_emit *e, struct hlo *a, struct hlo *b, enum rlx_dtype dt)
{
	enum rlx_dtype to = sums_in(dt);

	if (a->t.dtype == b->t.dtype && (a->t.dtype == RLX_F16 || a->t.dtype == RLX_BF16))
		return;
	*a = hlo_cast(e, *a, to);
	*b = hlo_cast(e, *b, to);
}

/* The leading dimensions of both are those of the result. */
static struct hlo with_batch(struct hlo_emit *e, struct hlo x)
{
	struct hlo_type t = hlo_type(&e->type[0]);

	t.dim[t.rank - 2] = x.t.dim[x.t.rank - 2];
	t.dim[t.rank - 1] = x.t.dim[x.t.rank - 1];
	return hlo_broadcast(e, x, &t, NULL);
}

static bool has_batch(const struct hlo_type *t)
{
	uint32_t d;

	for (d = 0; d + 2 < t->rank; d++)
		if (t->dim[d] != 1)
			return true;
	return false;
}

void hlo_emit_matmul(struct hlo_emit *e)
{
	enum rlx_dtype dt = e->type[0].dtype;
	struct hlo_type y = hlo_type(&e->type[0]);
	struct hlo a = e->in[0], b = e->in[1];
	struct hlo_dot d = { .n_contract = 1 };
	uint32_t i;

	if (dt == RLX_C64) {
		hlo_fail(e, "complex numbers");
		return;
	}
	alike(e, &a, &b, dt);
	if (!has_batch(&b.t)) {		/* one matrix for all rows */
		struct hlo_type flat = { b.t.dtype, 2, { b.t.dim[b.t.rank - 2],
							 b.t.dim[b.t.rank - 1] } };

		b = hlo_reshape(e, b, &flat);
		d.contract[0][0] = a.t.rank - 1;
	} else {
		a = with_batch(e, a);
		b = with_batch(e, b);
		d.n_batch = y.rank - 2;
		for (i = 0; i < d.n_batch; i++)
			d.batch[0][i] = d.batch[1][i] = i;
		d.contract[0][0] = y.rank - 1;
		d.contract[1][0] = y.rank - 2;
	}
	a = hlo_cast(e, hlo_dot(e, a, b, &d, sums_in(dt)), dt);
	e->out[0] = hlo_reshape(e, a, &y);
}

static uint32_t take_axes(int64_t *to, struct rlx_ints axes, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < axes.n; i++)
		to[i] = shape_axis(axes.v[i], rank);
	return axes.n;
}

void hlo_emit_dot_general(struct hlo_emit *e)
{
	const struct rlx_op_dot_general *g = e->args;
	enum rlx_dtype dt = e->type[0].dtype;
	struct hlo a = e->in[0], b = e->in[1];
	struct hlo_dot d = { .n_batch = 0 };

	d.n_contract = take_axes(d.contract[0], g->lhs_contract, a.t.rank);
	take_axes(d.contract[1], g->rhs_contract, b.t.rank);
	d.n_batch = take_axes(d.batch[0], g->lhs_batch, a.t.rank);
	take_axes(d.batch[1], g->rhs_batch, b.t.rank);
	alike(e, &a, &b, dt);
	e->out[0] = hlo_cast(e, hlo_dot(e, a, b, &d, sums_in(dt)), dt);
}

/* ---- linear algebra ---- */

static struct hlo solved(struct hlo_emit *e, struct hlo a, struct hlo b,
			 const struct rlx_op_triangular_solve *how)
{
	struct hlo v = hlo_new(e, &b.t);

	hlo_put(&e->text, "\"stablehlo.triangular_solve\"(%%%u, %%%u) <{left_side = true, "
		"lower = %s, unit_diagonal = %s, "
		"transpose_a = #stablehlo<transpose %s>}> : (", a.id, b.id,
		how->upper ? "false" : "true", how->unit ? "true" : "false",
		how->transposed ? "TRANSPOSE" : "NO_TRANSPOSE");
	hlo_put_type(&e->text, &a.t);
	hlo_put(&e->text, ", ");
	hlo_put_type(&e->text, &b.t);
	hlo_put(&e->text, ") -> ");
	hlo_put_type(&e->text, &b.t);
	hlo_put(&e->text, "\n");
	return v;
}

void hlo_emit_triangular_solve(struct hlo_emit *e)
{
	struct hlo a = hlo_widen(e, e->in[0]), b = hlo_widen(e, e->in[1]);

	struct hlo_type left = b.t;

	left.dim[b.t.rank - 1] = b.t.dim[b.t.rank - 2];
	if (!hlo_same_shape(&a.t, &left)) {
		hlo_fail(e, "one matrix for all of a batch");
		return;
	}
	e->out[0] = hlo_cast(e, solved(e, a, b, e->args), e->type[0].dtype);
}
