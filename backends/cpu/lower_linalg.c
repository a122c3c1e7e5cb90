// SPDX-License-Identifier: MIT
/* Linear algebra: a matrix a unit. */
#include "backends/cpu/cpu.h"
#include "kernels/linalg.h"

/* The arguments of a step on matrices that are input 0; @k columns are solved for. */
static struct rlx_k_linalg *begin(struct rlx_lower *lo, uint8_t kind, int64_t batch, int64_t k)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_linalg *a = rlx_lower_args(lo, sizeof(*a));

	a->kind = kind;
	a->type = (uint8_t)x->dtype;
	a->n = x->dim[x->rank - 1];
	a->k = k;
	a->batch = batch;
	a->a_step = x->rank > 2 ? a->n * a->n : 0;
	rlx_lower_ref_in(lo, &a->a, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	return a;
}

static enum rlx_status end(struct rlx_lower *lo, const struct rlx_k_linalg *a)
{
	double n = (double)a->n;

	if (!a->batch || (!a->n && a->kind != RLX_K_SLOGDET))
		return lo->status;
	return rlx_lower_call(lo, RLX_KERNEL_linalg, (uint64_t)a->batch,
			      (double)a->batch * n * n * (n / 3 + (double)a->k + 2),
			      rlx_k_linalg_scratch(a));
}

enum rlx_status cpu_lower_cholesky(struct rlx_lower *lo)
{
	const struct rlx_op_cholesky *o = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_linalg *a = begin(lo, RLX_K_CHOLESKY, shape_span(x, 0, x->rank - 2), 0);

	a->jitter = o->jitter;
	return end(lo, a);
}

/* @own: dimensions of a right-hand side */
static struct rlx_k_linalg *begin_solve(struct rlx_lower *lo, uint8_t kind, uint32_t own)
{
	const struct rlx_type *b = rlx_lower_in(lo, 1), *y = rlx_lower_out(lo, 0);
	int64_t k = own == 1 ? 1 : b->dim[b->rank - 1];
	struct rlx_k_linalg *a = begin(lo, kind, k ? shape_span(y, 0, y->rank - own) : 0, k);

	a->b_step = b->rank > own ? a->n * k : 0;
	rlx_lower_ref_in(lo, &a->b, 1, 0);
	return a;
}

enum rlx_status cpu_lower_triangular_solve(struct rlx_lower *lo)
{
	const struct rlx_op_triangular_solve *o = lo->args;
	struct rlx_k_linalg *a = begin_solve(lo, RLX_K_TRIANGULAR, 2);

	a->upper = o->upper;
	a->transposed = o->transposed;
	a->unit = o->unit;
	return end(lo, a);
}

enum rlx_status cpu_lower_solve(struct rlx_lower *lo)
{
	const struct rlx_op_solve *o = lo->args;

	return end(lo, begin_solve(lo, RLX_K_SOLVE, o->vector ? 1 : 2));
}

enum rlx_status cpu_lower_slogdet(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_linalg *a = begin(lo, RLX_K_SLOGDET, shape_span(x, 0, x->rank - 2), 0);

	rlx_lower_ref_out(lo, &a->y2, 1, 0);
	return end(lo, a);
}
