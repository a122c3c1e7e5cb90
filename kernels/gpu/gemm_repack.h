/* SPDX-License-Identifier: MIT */
/*
 * Operands of a GEMM whose lines do not begin at 16 bytes, once more in scratch, where they do:
 * what lies where, for the launch and for the kernels (repack_lines.h).
 *
 * A line of w elements takes w rounded up to a multiple of 8. All of A comes first, then all of B;
 * of a batch dimension that broadcasts an operand (a step of 0) there is one copy. The pass that
 * writes them reads and writes each element once, and tiles are then copied by 16 bytes, by TMA
 * too, instead of by 8, 4 or 2.
 * Limits: 16-bit elements; RLX_G_REPACK_MOST bytes of scratch.
 */
#ifndef RLX_G_GEMM_REPACK_H
#define RLX_G_GEMM_REPACK_H

#include "kernels/gemm.h"

/* Which operands are. */
#define RLX_G_REPACK_A	1
#define RLX_G_REPACK_B	2

#define RLX_G_REPACK_MOST	((uint64_t)1 << 30)

/**
 * struct rlx_g_repacked - an operand
 * @lines, @width: of a matrix, in elements; @ld, @to_ld: from one line to the next, before and then
 * @count: matrices of either batch dimension; @step: from one to the next, before
 */
struct rlx_g_repacked {
	size_t	lines, width, ld, to_ld, count[2], step[2];
};

static inline struct rlx_g_repacked rlx_g_repacked(const struct rlx_k_gemm *a, int which)
{
	bool is_a = which == RLX_G_REPACK_A, cols = a->b_form == RLX_B_COLS;
	struct rlx_g_repacked r;

	r.lines = is_a ? (a->trans_a ? a->k : a->m) : cols ? a->n : a->k;
	r.width = is_a ? (a->trans_a ? a->m : a->k) : cols ? a->k : a->n;
	r.ld = is_a ? a->lda : a->ldb;
	r.to_ld = (r.width + 7) / 8 * 8;
	for (int i = 0; i < 2; i++) {
		r.step[i] = is_a ? a->a_step[i] : a->b_step[i];
		r.count[i] = r.step[i] && a->batch[i] ? a->batch[i] : 1;
	}
	return r;
}

/* Elements of all its copies. */
static inline uint64_t rlx_g_repacked_elems(const struct rlx_g_repacked *r)
{
	return (uint64_t)(r->count[0] * r->count[1] * r->lines) * r->to_ld;
}

/* Where B's copies are in scratch, behind those of A. */
static inline uint64_t rlx_g_repack_b_at(const struct rlx_k_gemm *a, int which)
{
	const struct rlx_g_repacked r = rlx_g_repacked(a, RLX_G_REPACK_A);

	return which & RLX_G_REPACK_A ? 2 * rlx_g_repacked_elems(&r) : 0;
}

/* Bytes of scratch. */
static inline uint64_t rlx_g_repack_bytes(const struct rlx_k_gemm *a, int which)
{
	const struct rlx_g_repacked r = rlx_g_repacked(a, RLX_G_REPACK_B);

	return rlx_g_repack_b_at(a, which) +
	       (which & RLX_G_REPACK_B ? 2 * rlx_g_repacked_elems(&r) : 0);
}

/* The product of what then lies in scratch, which begins at @base. */
static inline struct rlx_k_gemm rlx_g_repack_product(const struct rlx_k_gemm *a, int which,
						     uint64_t base)
{
	struct rlx_k_gemm g = *a;

	for (int w = RLX_G_REPACK_A; w <= RLX_G_REPACK_B; w++) {
		const struct rlx_g_repacked r = rlx_g_repacked(a, w);
		size_t *step = w == RLX_G_REPACK_A ? g.a_step : g.b_step;

		if (!(which & w))
			continue;
		step[1] = r.step[1] ? r.lines * r.to_ld : 0;
		step[0] = r.step[0] ? r.count[1] * r.lines * r.to_ld : 0;
		if (w == RLX_G_REPACK_A) {
			g.a = (const void *)(uintptr_t)base;
			g.lda = r.to_ld;
		} else {
			g.b = (const void *)(uintptr_t)(base + rlx_g_repack_b_at(a, which));
			g.ldb = r.to_ld;
		}
	}
	return g;
}

#endif
