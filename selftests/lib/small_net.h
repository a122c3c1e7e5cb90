/* SPDX-License-Identifier: MIT */
/* A small graph with one of most things a model has, for tests of the runtime. */
#ifndef SELFTESTS_SMALL_NET_H
#define SELFTESTS_SMALL_NET_H

#include "rlx/run.h"

enum small_net_part {
	SMALL_NET_MLP	= 1 << 0,	/* matmul + bias + gelu, twice: output "mlp" */
	SMALL_NET_ATTN	= 1 << 1,	/* projections and attention: "attn" */
	SMALL_NET_NORM	= 1 << 2,	/* layer norm written out: "norm" */
	SMALL_NET_CONV	= 1 << 3,	/* conv + relu, depthwise, pool: "conv" */
	SMALL_NET_EW	= 1 << 4,	/* elementwise regions, softmax: "ew" */
	SMALL_NET_MOVE	= 1 << 5,	/* gather, concat, transpose, slice: "move" */
	SMALL_NET_SUB	= 1 << 6,	/* control flow, an if: "sub" */
	SMALL_NET_NATIVE = (1 << 6) - 1,
	SMALL_NET_ALL	= (1 << 7) - 1,
};

enum { SMALL_SEQ = 5, SMALL_DIM = 16, SMALL_CH = 4, SMALL_SIDE = 9 };

/*
 * Inputs "x" f32 [batch, SMALL_SEQ, SMALL_DIM] and "img" f32 [batch, SMALL_CH,
 * SMALL_SIDE, SMALL_SIDE] (only with CONV), a param "shift" f32 [SMALL_DIM], one
 * output for each part. Weights are the same on every call. Finished, or with its
 * sticky error; NULL if memory ran out making a sub-graph.
 */
struct rlx_graph *small_net(unsigned int parts, int64_t batch);

/*
 * Fill inputs and params of @s, for which a small net was compiled. Row r of an
 * input depends on @seed and r alone, whatever the batch.
 */
enum rlx_status small_net_fill(struct rlx_session *s, uint64_t seed);

#endif
