/* SPDX-License-Identifier: MIT */
/* How the plain pools of the CPU lay out their scratch; asked by lowering, too. */
#ifndef RLX_KERNELS_POOL_LAYOUT_H
#define RLX_KERNELS_POOL_LAYOUT_H

#include "kernels/pool.h"

/*
 * What is folded: rows of @phases times @width / @phases
 * columns, padding included, @row elements apart. @band: so many rows of the output share
 * @rows of the input, all of whose taps are folded at once; 0: the window's rows are folded
 * into one first. @taps are then those along a row.
 */
struct rlx_k_pool_layout {
	size_t	phases, width, row, rows, band, taps;
};

static inline struct rlx_k_pool_layout rlx_k_pool_layout(const struct rlx_k_pool *a)
{
	enum { FEW_TAPS = 12, MOST = 6144 };
	size_t high = (a->k[1] - 1) * a->d[1] + 1;
	struct rlx_k_pool_layout l = {
		.phases = a->s[2] == 2 ? 2 : 1, .rows = 1, .taps = a->k[2],
		.width = (a->out[2] - 1) * a->s[2] + (a->k[2] - 1) * a->d[2] + 1,
	};

	l.width += l.width & 1;
	l.row = (l.width + 15) / 16 * 16;
	if (a->k[0] > 1 || a->in[0] > 1 || a->out[0] > 1 || a->p[0] || a->s[2] > 2 || a->index ||
	    a->k[1] * a->k[2] > FEW_TAPS || (a->kind == RLX_K_POOL_LP && a->lp > 2) ||
	    high * l.row > MOST)
		return l;
	l.band = 1 + (MOST / l.row - high) / a->s[1];
	if (l.band > a->out[1])
		l.band = a->out[1];
	l.rows = (l.band - 1) * a->s[1] + high;
	l.taps *= a->k[1];
	return l;
}

/* Bytes for a thread; elements are of @elem bytes. */
static inline size_t rlx_k_pool_scratch(const struct rlx_k_pool *a, size_t elem)
{
	struct rlx_k_pool_layout l = rlx_k_pool_layout(a);

	/* vectors read beyond what they want */
	return l.taps * sizeof(size_t) + (l.row * (l.rows + 1) + a->out[2]) * elem + 256;
}

#endif
