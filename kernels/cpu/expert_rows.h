/* SPDX-License-Identifier: MIT */
/* The rows of a grouped GEMM by the expert that they chose. Not a kernel family. */
#ifndef RLX_CPU_EXPERT_ROWS_H
#define RLX_CPU_EXPERT_ROWS_H

#include "kernels/cpu/index_at.h"
#include "kernels/grouped.h"

/* @n rows that chose expert @e, whose columns @col to @last they are multiplied by. */
struct rlx_k_chosen {
	int64_t	e, col, last;
	int	n;
	int64_t	row[RLX_K_GROUPED_ROWS];
};

typedef void rlx_k_chosen_fn(const struct rlx_k_grouped *a, const struct rlx_k_chosen *c,
			     void *scratch);

static inline void rlx_k_expert_rows(const struct rlx_k_grouped *a, struct rlx_k_chosen *c,
				     rlx_k_chosen_fn *f, void *scratch)
{
	c->n = 0;
	for (int64_t i = 0; i < a->live; i++) {
		if (rlx_k_index_at(a->idx, a->idx_type, (size_t)i, a->experts, a->bad) == c->e)
			c->row[c->n++] = i;
		if (c->n < (i + 1 < a->live ? RLX_K_GROUPED_ROWS : 1))
			continue;
		f(a, c, scratch);
		c->n = 0;
	}
}

/*
 * Units @begin to @end of @cols columns. Those of one expert together: to look which rows chose it
 * takes as long as some columns do, where k is small.
 */
static inline void rlx_k_each_expert(const struct rlx_k_grouped *a, size_t begin, size_t end,
				     int64_t cols, rlx_k_chosen_fn *f, void *scratch)
{
	size_t panels = (size_t)((a->n + cols - 1) / cols), u, first, next;
	struct rlx_k_chosen c;

	for (u = begin; u < end; u = next) {
		first = u / panels * panels;
		next = first + panels < end ? first + panels : end;
		c.e = (int64_t)(u / panels);
		c.col = (int64_t)(u - first) * cols;
		c.last = (int64_t)(next - first) * cols;
		rlx_k_expert_rows(a, &c, f, scratch);
	}
}

#endif
