// SPDX-License-Identifier: MIT
/* The gradient of max pooling. */
#include "backends/common/pool.h"
#include "backends/cpu/cpu.h"
#include "kernels/pool_layout.h"

/* Elements of a plane that each thread has scratch for; larger ones are one of few. */
enum { MOST = 1 << 23 };

enum rlx_status cpu_lower_max_pool_grad(struct rlx_lower *lo)
{
	const struct rlx_op_max_pool_grad *p = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *dy = rlx_lower_in(lo, 1);
	const struct rlx_pool_lists lists = { p->kernel, p->stride, p->pad, p->dilation };
	struct rlx_k_max_pool_grad *a = rlx_lower_args(lo, sizeof(*a));
	size_t elem = rlx_dtype_size(x->dtype), rows;
	const char *excess;
	bool f64 = x->dtype == RLX_F64;
	double taps;

	if ((x->dtype != RLX_F32 && !f64) || !rlx_type_count(x) || !rlx_type_count(dy))
		return rlx_lower_unsupported(lo, "no kernel for this dtype or for nothing");
	taps = rlx_lower_pool_geometry(&a->pool, x, dy, p->kernel.n, &lists);
	rows = a->pool.in[0] * a->pool.in[1];
	excess = rlx_lower_pool_excess(&a->pool, rows);
	if (!excess && rows * rlx_k_pool_row_step(&a->pool) > MOST)
		excess = "a plane that is more than a thread's share";
	if (excess)
		return rlx_lower_unsupported(lo, excess);
	a->pool.kind = RLX_K_POOL_MAX;
	rlx_lower_ref_in(lo, &a->pool.x, 0, 0);
	rlx_lower_ref_in(lo, &a->dy, 1, 0);
	rlx_lower_ref_out(lo, &a->dx, 0, 0);
	return rlx_lower_call(lo, f64 ? RLX_KERNEL_max_pool_grad_f64 :
			      RLX_KERNEL_max_pool_grad_f32, a->pool.planes,
			      (double)rlx_type_count(dy) * taps,
			      rlx_k_max_pool_grad_scratch(&a->pool, elem));
}
