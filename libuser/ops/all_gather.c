// SPDX-License-Identifier: MIT
/* What each of the processes has that run one program, at all of them: rlx/collective.h. */
#include "ops/collective.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, ..] -> y[ranks n, ..]
 * Dtypes:	any; y as x
 * Does:	rows r n up to (r + 1) n are the x of rank r, of 'ranks' processes. Of one rank it
 *		is x. For sessions as all_reduce.
 * Gradient:	dx = reduce_scatter(dy): of the sum of what all ranks derive
 * Source:	MPI_Allgather, ncclAllGather
 */
RLX_OP(all_gather, "what all processes have that run this program, one behind the other",
	IN(x)
	DEF(i32, ranks, 1),
	RLX_T_IMPURE)

static enum rlx_status all_gather_vjp(struct rlx_grad *q)
{
	const struct rlx_op_all_gather *a = q->args;

	q->d_in[0] = rlx_emit(q->g, reduce_scatter, .x = q->d_out[0], .ranks = a->ranks);
	return op_done(q->g);
}

const struct rlx_op_impl rlx_op_all_gather_impl = {
	.infer = op_collective_infer, .eval = op_collective_eval, .vjp = all_gather_vjp,
	.batch = op_collective_batch,
};
RLX_SAMPLES(all_gather, op_collective_sample)
