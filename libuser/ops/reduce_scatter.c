// SPDX-License-Identifier: MIT
/* Sums over processes that run one program, of which each gets a part: rlx/collective.h. */
#include "ops/collective.h"
#include "ops/emit.h"

/*
 * Shapes:	x[ranks n, ..] -> y[n, ..]
 * Dtypes:	f64 f32 i64 i32; y as x
 * Does:	rank r gets rows r n up to (r + 1) n of the sum of x over 'ranks' processes, with
 *		the bits of all_reduce. Of one rank it is x. For sessions as all_reduce.
 * Gradient:	dx = all_gather(dy): of the sum of what all ranks derive
 * Source:	MPI_Reduce_scatter_block, ncclReduceScatter
 */
RLX_OP(reduce_scatter, "sum over the processes that run this program, of which each gets a part",
	IN(x)
	DEF(i32, ranks, 1),
	RLX_T_IMPURE)

static enum rlx_status reduce_scatter_vjp(struct rlx_grad *q)
{
	const struct rlx_op_reduce_scatter *a = q->args;

	q->d_in[0] = rlx_emit(q->g, all_gather, .x = q->d_out[0], .ranks = a->ranks);
	return op_done(q->g);
}

const struct rlx_op_impl rlx_op_reduce_scatter_impl = {
	.infer = op_collective_infer, .eval = op_collective_eval, .vjp = reduce_scatter_vjp,
	.batch = op_collective_batch,
};
RLX_SAMPLES(reduce_scatter, op_collective_sample)
