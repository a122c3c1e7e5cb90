/* SPDX-License-Identifier: MIT */
/* Reference evaluation of a graph; rlx_op_eval() of one op is in ir/opdef.h. */
#ifndef RLX_IR_EVAL_H
#define RLX_IR_EVAL_H

#include "ir/opdef.h"
#include "rlx/collective.h"

/*
 * @in in order of the graph's inputs; @out in order of its outputs, data
 * allocated by the caller. Slow and plain: for folding, tests, host fallback and
 * sub-graphs. A finished graph without params.
 */
enum rlx_status rlx_graph_eval(const struct rlx_graph *g,
			       const struct rlx_tensor *in,
			       struct rlx_tensor *out, struct rlx_error *err);

/*
 * The same, with @by instead of rlx_op_eval() for each node of @g but its inputs; what it returns
 * ends the evaluation if it is not RLX_OK. NULL: that.
 */
typedef enum rlx_status rlx_eval_node(void *ctx, const struct rlx_graph *g, uint32_t n,
				      const struct rlx_eval *q);
enum rlx_status rlx_graph_eval_by(const struct rlx_graph *g, const struct rlx_tensor *in,
				  struct rlx_tensor *out, rlx_eval_node *by, void *ctx,
				  struct rlx_error *err);

/* Does the op add up what processes have? */
static inline bool rlx_op_sums_ranks(const struct rlx_op_def *def)
{
	return def->index == RLX_OP_all_reduce || def->index == RLX_OP_reduce_scatter;
}

/* Does it wait for other processes? */
static inline bool rlx_op_waits_for_ranks(const struct rlx_op_def *def)
{
	return rlx_op_sums_ranks(def) || def->index == RLX_OP_all_gather;
}

/* May steps of @def over @ranks run by @c? */
static inline enum rlx_status rlx_collective_check(const struct rlx_collective *c,
						   const struct rlx_op_def *def, int32_t ranks,
						   struct rlx_error *err)
{
	if (!c)
		return rlx_fail(err, RLX_EINVAL, "%s: it is over %d ranks, and the session has no "
				"communicator: rlx_session_collective()", def->name, ranks);
	if (c->ranks != (unsigned int)ranks)
		return rlx_fail(err, RLX_EINVAL, "%s: it is over %d ranks, the session's "
				"communicator has %u; build the graph for as many", def->name,
				ranks, c->ranks);
	return RLX_OK;
}

/* What a step of @def does that rlx_op_waits_for_ranks(), after that check. */
static inline enum rlx_status rlx_collective_do(const struct rlx_collective *c,
						const struct rlx_op_def *def,
						const struct rlx_reduction *r,
						struct rlx_error *err)
{
	enum rlx_status (*fn)(void *ctx, const struct rlx_reduction *, struct rlx_error *) =
		def->index == RLX_OP_reduce_scatter ? c->reduce_scatter :
		def->index == RLX_OP_all_gather ? c->all_gather : c->all_reduce;

	if (!fn)
		return rlx_fail(err, RLX_ENOSUP, "%s: the session's communicator does none",
				def->name);
	return fn(c->ctx, r, err);
}

#endif
