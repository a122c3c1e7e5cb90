/* SPDX-License-Identifier: MIT */
/*
 * A panel of f32, bf16 or f16, from B by rows or by columns. The includer has gemm_pack.h
 * and, of the first @cols columns from @b on,
 *	pack_rows(p, b, cols, dst)	where the elements of a row lie together
 *	pack_cols(p, b, cols, dst)	where those of a column do
 */
#include "kernels/simd/gemm_epi.h"

static void pack_panel(const struct rlx_k_gemm_pack *p, size_t panel, char *dst)
{
	size_t col = panel * GD_NR;
	size_t cols = p->n - col < GD_NR ? p->n - col : GD_NR;
	const char *b = (const char *)p->b +
			col * (p->trans ? p->ldb : 1) * ge_size(p->type);

	if (p->trans)
		pack_cols(p, b, cols, dst);
	else
		pack_rows(p, b, cols, dst);
}

/* Of B that nobody packed. */
static inline void gd_stage_b(const struct rlx_k_gemm *g, const char *b, char *dst,
			      size_t panel)
{
	const struct rlx_k_gemm_pack p = {
		.k = g->k, .n = g->n, .b = b, .ldb = g->ldb, .type = g->b_type,
		.trans = g->b_form == RLX_B_COLS,
	};

	pack_panel(&p, panel, dst);
}
