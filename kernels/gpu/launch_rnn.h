/* SPDX-License-Identifier: MIT */
/*
 * The launch of recurrent cells (rnn.cu): all steps in one launch, or a launch for each.
 *
 * One block for all steps of 4 rows reads the weights through one multiprocessor: right while
 * they are small (2^17 elements a direction) or blocks are many (64). Else each step is a launch (a
 * GRU's may be two), whose blocks share the hidden units, and the chip reads the weights together;
 * between launches stands what a barrier over the grid would do. Scratch: five f32 states (two of h
 * in turn, c, and two of a GRU's gates) for each direction and batch row. Limits: 4,096 steps'
 * launches, more go in one; types f32, f16, bf16.
 */
#ifndef RLX_G_LAUNCH_RNN_H
#define RLX_G_LAUNCH_RNN_H

#include "kernels/gpu/launch.h"
#include "kernels/rnn.h"

#define RLX_G_RNN_THREADS	512
#define RLX_G_RNN_LAUNCHES	4096	/* at most: more steps go in one launch */

/*
 * One block for all steps of a few rows reads the weights through one multiprocessor;
 * if they are large, and the rows too few to keep all of those busy, each step is a
 * launch of its own, whose blocks share out the hidden units.
 */
static inline void rlx_g_rnn_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_rnn *a = (const struct rlx_k_rnn *)args;
	int64_t gates = rlx_k_rnn_gates(a->cell), warps = RLX_G_RNN_THREADS / 32;
	int64_t blocks = a->dirs * rlx_g_ceil(a->batch, RLX_K_RNN_ROWS);
	int64_t stages = a->cell == RLX_K_RNN_GRU && !a->linear_before_reset ? 2 : 1;
	bool whole = a->hidden * a->hidden * gates <= 1 << 17 || blocks >= 64 ||
		     a->steps * stages > RLX_G_RNN_LAUNCHES;

	if (!rlx_g_small_float(a->r_type) || !rlx_g_small_float(a->y_type) ||
	    (a->b && !rlx_g_small_float(a->type.b)) ||
	    (a->rb && !rlx_g_small_float(a->type.rb)) ||
	    (a->peep && !rlx_g_small_float(a->type.peep)) ||
	    (a->h0 && !rlx_g_small_float(a->type.h0)) ||
	    (a->c0 && !rlx_g_small_float(a->type.c0)))
		return;
	rlx_g_line(l, whole ? blocks : blocks * rlx_g_ceil(a->hidden, warps), RLX_G_RNN_THREADS);
	RLX_G_VARIANT(l, rnn, .ELEM_TYPE = a->r_type, .RNN_CELL = a->cell, .RNN_WHOLE = whole);
	if (!whole)
		l->n_launches = (uint32_t)(a->steps * stages + 2);
	l->scratch = (uint64_t)(a->dirs * a->batch * a->hidden) * 5 * sizeof(float);
}

#endif
