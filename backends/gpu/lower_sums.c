// SPDX-License-Identifier: MIT
/* Sums over several tensors. */
#include "backends/gpu/gpu.h"
#include "kernels/sum_squares.h"

enum rlx_status gpu_lower_sum_squares_all(struct rlx_lower *lo)
{
	struct rlx_k_sum_squares_all *a = rlx_lower_args(lo, sizeof(*a));
	const struct rlx_type *t;
	uint32_t k;
	int64_t n;

	for (k = 0; k < lo->st->n_in; k++) {
		t = rlx_lower_in(lo, k);
		if (!rlx_lower_real(t->dtype) || lo->st->n_in > RLX_K_SQUARES_PARTS)
			return rlx_lower_unsupported(lo, "no kernel for this dtype or so many "
						     "tensors");
		n = rlx_type_count(t);
		if (!n)
			continue;
		a->part[a->n_part].n = n;
		a->part[a->n_part].first = a->chunks;
		a->part[a->n_part].type = (int32_t)t->dtype;
		a->chunks += (n + RLX_K_SQUARES_CHUNK - 1) / RLX_K_SQUARES_CHUNK;
		rlx_lower_ref_in(lo, &a->part[a->n_part++].x, k, 0);
	}
	if (!a->n_part)
		return rlx_lower_unsupported(lo, "the sum of nothing");
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return gpu_call_kernel(lo, rlx_g_sum_squares_all_launch, 0);
}

enum rlx_status gpu_lower_sum_squares(struct rlx_lower *lo)
{
	const struct rlx_op_sum_squares *s = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *c = rlx_lower_in(lo, 2);
	int64_t last = x->rank ? x->dim[x->rank - 1] : 1;
	uint32_t mask = 0, i;

	for (i = 0; i < s->axes.n; i++)
		mask |= 1u << shape_axis(s->axes.v[i], x->rank);
	/* reduce_columns has them */
	if ((c || rlx_lower_in(lo, 1)) && (!rlx_lower_real(x->dtype) || last == 1 ||
	    rlx_type_count(x) == last || mask + 1 != 1u << (x->rank - 1)))
		return rlx_lower_unsupported(lo, "products and centres where the last axis stays");
	if (c && rlx_type_count(c) != last)
		return rlx_lower_unsupported(lo, "one centre for all results");
	return rlx_lower_reduction(lo, s->axes, s->mean ? RLX_REDUCE_MEAN : RLX_REDUCE_SUM, true);
}
