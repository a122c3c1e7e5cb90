/* SPDX-License-Identifier: MIT */
/* How batch dimensions of a GEMM map on those a kernel walks. */
#ifndef RLX_BACKENDS_BATCH_H
#define RLX_BACKENDS_BATCH_H

#include <string.h>

#include "base/shape.h"
#include "kernels/gemm.h"
#include "kernels/type.h"

/* How many there are of @pa x @pb = @py; @dim, and steps in matrices of each operand, st[3]. */
static inline int batch_rank(const struct rlx_type *pa, const struct rlx_type *pb,
			     const struct rlx_type *py, int64_t dim[RLX_K_DIMS],
			     int64_t st[3][RLX_K_DIMS])
{
	struct rlx_type a = *pa, b = *pb, y = *py;

	a.rank -= 2;
	b.rank -= 2;
	y.rank -= 2;
	shape_broadcast(&a, &y, st[0]);
	shape_broadcast(&b, &y, st[1]);
	shape_broadcast(&y, &y, st[2]);
	memcpy(dim, y.dim, y.rank * sizeof(*dim));
	return rlx_k_collapse((int)y.rank, dim, 3, st);
}

/*
 * Batch dimensions of @pa x @pb = @py as at most two, with a step for each operand;
 * m, n and k of @g are set. False if they do not collapse.
 */
static inline bool batch_plan(struct rlx_k_gemm *g, const struct rlx_type *pa,
			      const struct rlx_type *pb, const struct rlx_type *py)
{
	const int64_t size[3] = { (int64_t)(g->m * g->k), (int64_t)(g->k * g->n),
				  (int64_t)(g->m * g->n) };
	int64_t dim[RLX_K_DIMS], st[3][RLX_K_DIMS];
	int rank = batch_rank(pa, pb, py, dim, st), d, i;

	if (rank > 2)
		return false;
	for (i = 0; i < rank; i++) {
		d = 2 - rank + i;
		g->batch[d] = (size_t)dim[i];
		g->a_step[d] = (size_t)(st[0][i] * size[0]);
		g->b_step[d] = (size_t)(st[1][i] * size[1]);
		g->c_step[d] = g->r_step[d] = (size_t)(st[2][i] * size[2]);
	}
	return true;
}

#endif
