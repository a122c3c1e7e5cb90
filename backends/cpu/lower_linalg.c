// SPDX-License-Identifier: MIT
/* Linear algebra: a matrix a unit. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/lapack.h"
#include "base/lapack.h"

/* Matrices whose shorter side is of so many numbers are worth several threads. */
enum { SHARED = 128 };
/* The portable kernels are slower from here on: LAPACK picks its own by what the CPU has. */
enum { PORTABLE = 48 };

/*
 * From which shorter side on LAPACK is faster than the own kernels, which compute f32 in double;
 * measured with OpenBLAS (selftests/bench/linalg.c).
 */
static const struct {
	enum rlx_kernel_id	own;
	uint16_t		lapack_f32, lapack_f64;
	uint8_t			passes;		/* over a product's work */
} kinds[RLX_K_LINALG_KINDS] = {
	[RLX_K_CHOLESKY]   = { RLX_KERNEL_linalg, 24, 40, 1 },
	[RLX_K_TRIANGULAR] = { RLX_KERNEL_linalg, 17, 24, 1 },
	[RLX_K_SOLVE]	   = { RLX_KERNEL_linalg, 32, 768, 1 },
	[RLX_K_SLOGDET]	   = { RLX_KERNEL_linalg, 160, 768, 1 },
	[RLX_K_DET]	   = { RLX_KERNEL_linalg, 160, 768, 1 },
	[RLX_K_QR]	   = { RLX_KERNEL_linalg_qr, 160, 768, 3 },
	[RLX_K_EIGH]	   = { RLX_KERNEL_linalg_eigh, 64, 192, 9 },
	[RLX_K_SVD]	   = { RLX_KERNEL_linalg_svd, 48, 128, 13 },
};

/* The arguments of a step on matrices that are input 0; @k columns are solved for. */
static struct rlx_k_linalg *begin(struct rlx_lower *lo, uint8_t kind, int64_t batch, int64_t k)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	/* whichever kernel it will be */
	struct rlx_k_linalg *a = rlx_lower_args(lo, sizeof(struct rlx_k_lapack));

	a->kind = kind;
	a->type = (uint8_t)x->dtype;
	a->m = x->dim[x->rank - 2];
	a->n = x->dim[x->rank - 1];
	a->k = k;
	a->batch = batch;
	a->a_step = x->rank > 2 ? a->m * a->n : 0;
	rlx_lower_ref_in(lo, &a->a, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_ref_status(lo, &a->bad);
	return a;
}

static int64_t lapack_from(const struct rlx_lower *lo, const struct rlx_k_linalg *a)
{
	const int64_t n = a->type == RLX_F64 ? kinds[a->kind].lapack_f64 :
					       kinds[a->kind].lapack_f32;

	return cpu_isa(lo) == RLX_ISA_BASE && n > PORTABLE ? PORTABLE : n;
}

/* Fill in how LAPACK is called; false: the own kernel is better, or all there is. */
static bool by_lapack(struct rlx_lower *lo, struct rlx_k_lapack *p, int64_t less)
{
	const struct cpu_device *dev = cpu_device_of(lo);
	const struct rlx_lapack *lapack;
	int64_t lwork;

	if (!rlx_lapack_always() && less < lapack_from(lo, &p->l))
		return false;
	if (!less || lo->strict)	/* its bits hang on threads and on how it was built */
		return false;
	/* it has buffers for so many callers at once */
	if (!p->l.team && dev->base.threads > 64)
		return false;
	lapack = cpu_lapack();
	lwork = lapack ? cpu_lapack_workspace(lapack, &p->l) : -1;
	if (lwork < 0)
		return false;
	p->lapack = lapack;
	p->lwork = (int32_t)lwork;
	p->own = ((rlx_k_fn *const *)cpu_kernels(lo))[kinds[p->l.kind].own];
	p->cast = cpu_kernels(lo)->cast;
	p->threads = p->l.team ? dev->base.threads : 1;
	return true;
}

static enum rlx_status end(struct rlx_lower *lo, struct rlx_k_linalg *a)
{
	struct rlx_k_lapack *p = (struct rlx_k_lapack *)a;	/* a is its first member */
	const struct cpu_device *dev = cpu_device_of(lo);
	const int64_t less = a->m < a->n ? a->m : a->n;
	double work = (double)a->m * (double)a->n * ((double)less / 3 + (double)a->k + 2);
	enum rlx_kernel_id id = kinds[a->kind].own;
	size_t scratch;

	if (!a->batch || (!less && a->kind != RLX_K_SLOGDET))
		return lo->status;
	work *= (double)a->batch * kinds[a->kind].passes;
	/* many matrices keep all threads busy by themselves */
	if (less >= SHARED && a->batch < 4 * (int64_t)dev->base.threads)
		a->team = &dev->team;
	scratch = rlx_k_linalg_scratch(a);
	if (by_lapack(lo, p, less)) {
		id = RLX_KERNEL_lapack;
		scratch = rlx_k_lapack_scratch(p);
	}
	if (!a->team)
		return rlx_lower_call(lo, id, (uint64_t)a->batch, work, scratch);
	rlx_lower_ref_tmp(lo, &a->work, rlx_lower_tmp(lo, scratch), 0);
	return rlx_lower_call(lo, id, 1, work, 0);
}

/* Over all of input 0's matrices */
static struct rlx_k_linalg *begin_each(struct rlx_lower *lo, uint8_t kind)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	return begin(lo, kind, shape_span(x, 0, x->rank - 2), 0);
}

enum rlx_status cpu_lower_qr(struct rlx_lower *lo)
{
	struct rlx_k_linalg *a = begin_each(lo, RLX_K_QR);

	rlx_lower_ref_out(lo, &a->y2, 1, 0);
	return end(lo, a);
}

enum rlx_status cpu_lower_eigh(struct rlx_lower *lo)
{
	struct rlx_k_linalg *a = begin_each(lo, RLX_K_EIGH);

	rlx_lower_ref_out(lo, &a->y2, 1, 0);
	return end(lo, a);
}

enum rlx_status cpu_lower_svd(struct rlx_lower *lo)
{
	struct rlx_k_linalg *a = begin_each(lo, RLX_K_SVD);

	rlx_lower_ref_out(lo, &a->y2, 1, 0);
	rlx_lower_ref_out(lo, &a->y3, 2, 0);
	return end(lo, a);
}

enum rlx_status cpu_lower_cholesky(struct rlx_lower *lo)
{
	const struct rlx_op_cholesky *o = lo->args;
	struct rlx_k_linalg *a = begin_each(lo, RLX_K_CHOLESKY);

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
	struct rlx_k_linalg *a = begin_each(lo, RLX_K_SLOGDET);

	rlx_lower_ref_out(lo, &a->y2, 1, 0);
	return end(lo, a);
}

enum rlx_status cpu_lower_det(struct rlx_lower *lo)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);

	if (x->dim[x->rank - 1] < 32)
		return cpu_lower_small_det(lo);
	return end(lo, begin_each(lo, RLX_K_DET));
}
