// SPDX-License-Identifier: MIT
/* Pools, plain and over blocks of channels. */
#include "backends/common/pool.h"
#include "kernels/pool_layout.h"

/* A trailing window of one lane is the blocked layout's (pass/layout.c), in blocks of @block. */
static bool is_blocked_by(const struct rlx_lower *lo, const struct rlx_op_pool *p, int64_t block)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);

	return rlx_dtype_size(x->dtype) < 8 && x->rank == 5 && block &&
	       x->dim[4] == block && p->kernel.v[2] == 1 && y->dim[4] == x->dim[4] &&
	       (!p->stride.n || p->stride.v[2] == 1) &&
	       (!p->pad.n || (!p->pad.v[2] && !p->pad.v[5])) &&
	       p->kind != RLX_POOL_LP && !p->indices;
}

static bool is_blocked(const struct rlx_lower *lo, const struct rlx_op_pool *p)
{
	return is_blocked_by(lo, p, lo->block);
}

static enum rlx_kernel_id kernel_of(const struct rlx_lower *lo, const struct rlx_op_pool *p)
{
	switch (rlx_lower_in(lo, 0)->dtype) {
	case RLX_F64: return RLX_KERNEL_pool_f64;
	case RLX_I64: return RLX_KERNEL_pool_i64;
	case RLX_U64: return RLX_KERNEL_pool_u64;
	default: return is_blocked(lo, p) ? RLX_KERNEL_pool_c : RLX_KERNEL_pool_f32;
	}
}

double rlx_lower_pool_geometry(struct rlx_k_pool *a, const struct rlx_type *x,
			       const struct rlx_type *y, size_t nd, const struct rlx_pool_lists *w)
{
	double taps = 1;
	size_t i;

	a->planes = (size_t)(x->dim[0] * x->dim[1]);
	for (i = 0; i < 3; i++) {
		size_t d = i + nd - 3;	/* wraps where there is no such dimension */
		bool here = i + nd >= 3;

		a->in[i] = here ? (size_t)x->dim[2 + d] : 1;
		a->out[i] = here ? (size_t)y->dim[2 + d] : 1;
		a->k[i] = here ? (size_t)w->kernel.v[d] : 1;
		a->s[i] = here && w->stride.n ? (size_t)w->stride.v[d] : 1;
		a->d[i] = here && w->dilation.n ? (size_t)w->dilation.v[d] : 1;
		a->p[i] = here && w->pad.n ? (size_t)w->pad.v[d] : 0;
		a->p_end[i] = here && w->pad.n ? (size_t)w->pad.v[d + w->kernel.n] : 0;
		taps *= (double)a->k[i];
	}
	return taps;
}

const char *rlx_lower_pool_excess(const struct rlx_k_pool *a, size_t rows)
{
	enum { MUCH = 1 << 22 };	/* elements of scratch that need no reason */
	struct rlx_k_pool_layout l = rlx_k_pool_layout(a);
	size_t plane = a->in[0] * a->in[1] * a->in[2];
	double all = (double)l.width * 2 * (double)(rows + 1) + 3 * (double)a->out[2];

	/* places count on from a window's begin as far as its last tap */
	if (rows && (double)plane + (double)a->k[2] * (double)a->d[2] > INT32_MAX)
		return "maxima's places in a plane of about 2^31 elements or more";
	return all > 64 * (double)plane + MUCH ? "padding far wider than the plane" : NULL;
}

enum rlx_status rlx_lower_pool(struct rlx_lower *lo)
{
	const struct rlx_op_pool *p = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	const struct rlx_pool_lists lists = { p->kernel, p->stride, p->pad, p->dilation };
	struct rlx_k_pool *a = rlx_lower_args(lo, sizeof(*a));
	size_t nd = p->kernel.n - (is_blocked(lo, p) ? 1 : 0);
	bool takes = lo->ops->has_16bit ? rlx_lower_real(x->dtype) :
		     x->dtype == RLX_F32 || x->dtype == RLX_F64 || x->dtype == RLX_I64 ||
		     x->dtype == RLX_U64;
	size_t scratch = 0, elem = rlx_dtype_size(x->dtype) < 8 ? 4 : 8;
	const char *excess = NULL;
	double taps;

	if (!takes || !rlx_type_count(x) || !rlx_type_count(y))
		return rlx_lower_unsupported(lo, "no kernel for this dtype or for nothing");
	taps = rlx_lower_pool_geometry(a, x, y, nd, &lists);
	if (!lo->ops->has_16bit && !is_blocked(lo, p)) {	/* a CPU's, plain */
		excess = rlx_lower_pool_excess(a, p->indices ? rlx_k_pool_window_rows(a) : 0);
		scratch = rlx_k_pool_scratch(a, elem, p->indices);
	}
	if (excess)
		return rlx_lower_unsupported(lo, excess);
	a->kind = p->kind == RLX_POOL_MAX ? RLX_K_POOL_MAX :
		  p->kind == RLX_POOL_AVG ? RLX_K_POOL_AVG : RLX_K_POOL_LP;
	a->lp = (unsigned int)p->p;
	a->include_pad = p->include_pad;
	a->column_major = p->column_major;
	/* the plan of strict bits is the CPU's, of whatever level */
	if (lo->strict && x->rank == 5 && (x->dim[4] == 8 || x->dim[4] == 16))
		a->blocked = is_blocked_by(lo, p, x->dim[4]);
	a->type = (uint8_t)x->dtype;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	if (p->indices)
		rlx_lower_ref_out(lo, &a->index, 1, 0);
	return rlx_lower_call(lo, kernel_of(lo, p), a->planes * a->out[0] * a->out[1],
			      (double)rlx_type_count(y) * taps, scratch);
}
