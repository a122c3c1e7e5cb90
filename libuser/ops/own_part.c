// SPDX-License-Identifier: MIT
/* The part of a tensor that is a process's own among those that run one program. */
#include "ops/collective.h"

/*
 * Shapes:	x[ranks n, ..] -> y[n, ..]
 * Dtypes:	any; y as x
 * Does:	rows r n up to (r + 1) n of x at rank r, of 'ranks' processes: of an x that all have
 *		what all_gather makes it of. Nobody waits. For sessions as all_reduce.
 * Gradient:	none: the other ranks' parts are theirs to derive
 * Source:	MPI_Scatter of what every process has
 */
RLX_OP(own_part, "the part of x that is this process's own",
	IN(x)
	DEF(i32, ranks, 1),
	RLX_T_IMPURE | RLX_T_NODIFF)

const struct rlx_op_impl rlx_op_own_part_impl = {
	.infer = op_collective_infer, .eval = op_collective_eval,
	.batch = op_collective_batch,
};
RLX_SAMPLES(own_part, op_collective_sample)
