/* SPDX-License-Identifier: MIT */
/*
 * Batching rules that many ops share. A rule that leaves its results none does not know the form
 * it is asked for: the op is then mapped through what it stands for.
 */
#ifndef RLX_OPS_BATCH_H
#define RLX_OPS_BATCH_H

#include "ops/op.h"

/* Broadcasting ops: what is mapped gets its dimensions aligned behind the batch axis. */
enum rlx_status op_batch_pointwise(struct rlx_batching *q);
/* Leading dimensions are batches to the op: the same attributes. */
enum rlx_status op_batch_front(struct rlx_batching *q);
/* Attributes axis, axes, time_axis and batch_axis are one more. */
enum rlx_status op_batch_axes(struct rlx_batching *q);
/* The same, where input 0 alone is mapped; what else there is stays as it is. */
enum rlx_status op_batch_axes_of_first(struct rlx_batching *q);
/* Input 0 counts examples by its first dimension, and it alone is mapped. */
enum rlx_status op_batch_examples(struct rlx_batching *q);
/* The same of all inputs that @mask has a bit for; no others may be mapped. */
enum rlx_status op_batch_merged(struct rlx_batching *q, uint32_t mask);
/* Matrix products of inputs 0 and 1, whose leading dimensions broadcast; no others are there. */
enum rlx_status op_batch_matmul(struct rlx_batching *q);
/* Systems of equations of input 0 for input 1, leading dimensions alike or of one alone. */
enum rlx_status op_batch_solve(struct rlx_batching *q, bool vector);

/* ---- what rules are made of ---- */

/* @x @n times, along a new first axis. */
rlx_value op_batch_repeat(struct rlx_graph *g, rlx_value x, int64_t n);
/* Input @k with the batch axis, also if it is not mapped; none if it is absent. */
rlx_value op_batch_in(struct rlx_batching *q, uint32_t k);
/* Input @k; if it is mapped, with ones behind the batch axis up to rank @rank behind that. */
rlx_value op_batch_aligned(struct rlx_batching *q, uint32_t k, uint32_t rank);
/* The node once more, of inputs q->to and @args; its outputs are the results. */
enum rlx_status op_batch_emit(struct rlx_batching *q, const void *args);
/* Axes of a list, of an empty one the first @n, behind the batch axis; in the graph's memory. */
struct rlx_ints op_batch_axis_list(struct rlx_batching *q, struct rlx_ints axes, uint32_t n);

#endif
