// SPDX-License-Identifier: MIT
/* A value that gradients do not pass. */
#include "ops/batch.h"
#include "ops/op.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	any; y as x
 * Does:	x. It is gone after differentiation: programs have no step for it.
 * Gradient:	none
 * Source:	JAX stop_gradient, PyTorch detach
 */
RLX_OP(stop_gradient, "x, as a constant to gradients",
	IN(x),
	RLX_T_VIEW | RLX_T_NODIFF)

static bool stop_gradient_sample(unsigned int i, struct rlx_sample *s)
{
	if (i > 1)
		return false;
	s->n_in = 1;
	s->in[0] = i ? rlx_type(RLX_F32, 0, 3) : rlx_type(RLX_F32, 3, 5);
	return true;
}

const struct rlx_op_impl rlx_op_stop_gradient_impl = {
	.infer = op_infer_same, .eval = op_eval_view,
	.batch = op_batch_front,
};
RLX_SAMPLES(stop_gradient, stop_gradient_sample)
