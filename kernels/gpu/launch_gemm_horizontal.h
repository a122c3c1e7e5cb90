/* SPDX-License-Identifier: MIT */
/* Launches of several GEMMs of one A in tiles of warpgroups; a part of launch.h. */
#ifndef RLX_G_LAUNCH_GEMM_HORIZONTAL_H
#define RLX_G_LAUNCH_GEMM_HORIZONTAL_H

#include "kernels/gpu/gemm_horizontal.h"
#include "kernels/gpu/launch_gemm.h"

/* In tiles @t; *ns: by the cost of as many batch indices. */
static inline void rlx_g_horizontal_tiled_by(const struct rlx_g_horizontal_tiled *a,
					     struct rlx_g_gemm_tile t, struct rlx_g_launch *l,
					     double *ns)
{
	struct rlx_k_gemm g = a->g;
	struct rlx_g_cost cost = { 0 };

	rlx_g_gemm_by(&g, t, l);
	g.b_step[0] = g.n * g.k;	/* each has its own b, wherever it is */
	cost.blocks = l->grid[0];
	rlx_g_gemm_wgmma_cost(&g, l, &cost);
	*ns = rlx_g_cost_ns(l, &cost);
	l->map[0].field = offsetof(struct rlx_g_horizontal_tiled, g.a);
	for (uint64_t i = 0; i < g.batch[0]; i++) {
		l->map[1 + i] = l->map[1];
		l->map[1 + i].field = offsetof(struct rlx_g_horizontal_tiled, of) +
				      i * sizeof(struct rlx_g_member) +
				      offsetof(struct rlx_g_member, b);
	}
	l->n_map = 1 + (uint32_t)g.batch[0];
	RLX_G_VARIANT(l, gemm_wgmma_horizontal, .GEMM_TYPE_A = g.a_type, .GEMM_TYPE_B = g.b_type,
		      .GEMM_TYPE_C = g.c_type, .GEMM_TRANS_A = g.trans_a,
		      .GEMM_B_COLS = g.b_form == RLX_B_COLS, .GEMM_TILE_M = t.m,
		      .GEMM_TILE_N = t.n, .GEMM_ACT = (int32_t)g.act);
}

/* In the tiles that take the least time. */
static inline void rlx_g_horizontal_tiled_launch(const struct rlx_g_horizontal_tiled *a,
						 struct rlx_g_launch *l)
{
	const struct rlx_g_launch on = *l;
	struct rlx_g_gemm_tile t;

	l->can = false;
	for (unsigned int i = 0; rlx_g_gemm_tile(i, &t); i++) {
		struct rlx_g_launch by = on;

		rlx_g_horizontal_tiled_by(a, t, &by, &by.ns);
		if (by.can && (!l->can || by.ns < l->ns))
			*l = by;
	}
}

#endif
