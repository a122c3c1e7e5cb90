/* SPDX-License-Identifier: MIT */
/* An op that no backend has a kernel for, so that its steps stay on the host. */
#ifndef SELFTESTS_HOST_OP_H
#define SELFTESTS_HOST_OP_H

#include "rlx/graph.h"

/* A copy of @x by op "on_host", with a gradient. */
rlx_value host_op(struct rlx_graph *g, rlx_value x);

#endif
