/* SPDX-License-Identifier: MIT */
/* How the plain pools of the CPU lay out their scratch; asked by lowering, too. */
#ifndef RLX_KERNELS_POOL_LAYOUT_H
#define RLX_KERNELS_POOL_LAYOUT_H

#include "kernels/pool.h"

/*
 * A window's rows are folded into one row of @width columns, padding included; its columns then
 * lie in @phases groups of @group, by what is left of dividing them by the stride, so that the
 * same tap of neighbouring outputs is side by side. @rows of the output are worked on at a time;
 * the next has its columns @down_step elements further on, and by phase @polyphase_step.
 */
struct rlx_k_pool_layout {
	size_t	phases, group, width, rows, down_step, polyphase_step;
};

/*
 * RLX_K_POOL_SLACK: vectors read and write up to so many elements beyond what they want;
 * RLX_K_POOL_OF_ROW: bytes of what is known of a row of every plane's output
 */
enum { RLX_K_POOL_SLACK = 64, RLX_K_POOL_ROWS = 8, RLX_K_POOL_OF_ROW = 24 };

static inline struct rlx_k_pool_layout rlx_k_pool_layout(const struct rlx_k_pool *a)
{
	enum { MOST = 2048 };		/* elements of @rows: a quarter of a first-level cache */
	struct rlx_k_pool_layout l = {
		.phases = a->out[2] > 1 ? a->s[2] : 1,
		.width = (a->out[2] - 1) * a->s[2] + (a->k[2] - 1) * a->d[2] + 1,
	};

	l.group = l.width / l.phases + 1;
	l.rows = 1 + MOST / l.width;
	if (l.rows > RLX_K_POOL_ROWS)
		l.rows = RLX_K_POOL_ROWS;
	l.down_step = l.width + RLX_K_POOL_SLACK;
	l.polyphase_step = l.phases > 1 ? l.phases * l.group + RLX_K_POOL_SLACK : l.down_step;
	return l;
}

/* Bytes of that, and of what is counted; elements are of @elem bytes. */
static inline size_t rlx_k_pool_fold_bytes(const struct rlx_k_pool *a, size_t elem)
{
	struct rlx_k_pool_layout l = rlx_k_pool_layout(a);
	size_t bytes = a->k[2] * sizeof(size_t) + 256 +
		       (l.rows * (l.down_step + l.polyphase_step) +
			3 * (a->out[2] + RLX_K_POOL_SLACK)) * elem;

	return (bytes + 63) / 64 * 64;
}

/* Elements from one of the input's rows, put by phase, to the next. */
static inline size_t rlx_k_pool_row_step(const struct rlx_k_pool *a)
{
	struct rlx_k_pool_layout l = rlx_k_pool_layout(a);

	return l.phases > 1 ? l.phases * l.group : l.width;
}

/* Bytes of @rows of them behind that, to be read by vectors. */
static inline size_t rlx_k_pool_rows_bytes(const struct rlx_k_pool *a, size_t rows, size_t elem)
{
	return rlx_k_pool_fold_bytes(a, elem) +
	       (rows * rlx_k_pool_row_step(a) + RLX_K_POOL_SLACK) * elem;
}

/* Of how many of the input's rows a window is, at most. */
static inline size_t rlx_k_pool_window_rows(const struct rlx_k_pool *a)
{
	return (a->k[0] < a->in[0] ? a->k[0] : a->in[0]) *
	       (a->k[1] < a->in[1] ? a->k[1] : a->in[1]);
}

/*
 * Bytes for a thread: where rows are folded, and behind that what is known of each row of a
 * plane's output, or with indices the rows that a window has at most.
 */
static inline size_t rlx_k_pool_scratch(const struct rlx_k_pool *a, size_t elem, bool indices)
{
	if (!indices)
		return rlx_k_pool_fold_bytes(a, elem) + a->out[1] * RLX_K_POOL_OF_ROW;
	return rlx_k_pool_rows_bytes(a, rlx_k_pool_window_rows(a), elem);
}

/* The same for the gradient of maxima: all rows of a plane. */
static inline size_t rlx_k_max_pool_grad_scratch(const struct rlx_k_pool *a, size_t elem)
{
	return rlx_k_pool_rows_bytes(a, a->in[0] * a->in[1], elem);
}

#endif
