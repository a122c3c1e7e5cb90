// SPDX-License-Identifier: MIT
/* Sums over processes that run one program: rlx/collective.h. */
#include "ops/batch.h"
#include "ops/collective.h"
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 i64 i32; y as x
 * Does:	the sum of x over 'ranks' processes that run the same program, each with an x of its
 *		own; all get the same bits. Of one rank it is x. A session that has no communicator
 *		of so many ranks (rlx_session_collective()) fails to run it.
 * Gradient:	dx = all_reduce(dy): of the sum of what all ranks derive
 * Source:	MPI_Allreduce, ncclAllReduce
 */
RLX_OP(all_reduce, "sum over the processes that run this program",
	IN(x)
	DEF(i32, ranks, 1),
	RLX_T_INPLACE | RLX_T_IMPURE)

static enum rlx_status all_reduce_vjp(struct rlx_grad *q)
{
	const struct rlx_op_all_reduce *a = q->args;

	q->d_in[0] = rlx_emit(q->g, all_reduce, .x = q->d_out[0], .ranks = a->ranks);
	return op_done(q->g);
}

const struct rlx_op_impl rlx_op_all_reduce_impl = {
	.infer = op_collective_infer, .eval = op_collective_eval, .vjp = all_reduce_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(all_reduce, op_collective_sample)
