/* SPDX-License-Identifier: MIT */
/* A recurrent op as the three of them say it, for the backend that runs it. */
#ifndef RLX_BACKENDS_RECURRENCE_H
#define RLX_BACKENDS_RECURRENCE_H

#include "backends/common/lower.h"
#include "kernels/rnn.h"
#include "ops/defaults.h"

/* What the three ops have in common. */
struct rlx_recurrence {
	uint8_t		cell;
	int32_t		direction;
	bool		batch_first, input_forget, linear_before_reset;
	float		clip;
	struct rlx_ints	acts;
	struct rlx_floats alpha, beta;
	int64_t		n_act;
	/* sizes */
	int64_t		steps, batch, in, hidden, dirs, gates;
	size_t		size;	/* of an element between kernels: 8 of f64, else 4 */
	uint32_t	tmp;	/* projected inputs: [steps, batch, dirs, gates, hidden] of these */
};

/*
 * Staged arguments of kernel rnn, with everything but the weights: x is the projected
 * input.
 */
struct rlx_k_rnn *rlx_recurrence_args(struct rlx_lower *lo, const struct rlx_recurrence *r);
/* What kernel rnn does, for rlx_lower_call(). */
double rlx_recurrence_work(const struct rlx_recurrence *r);

#endif
