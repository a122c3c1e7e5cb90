// SPDX-License-Identifier: MIT
/* Drop what no output needs. */
#include "pass/pass.h"

rlx_pass_fn rlx_pass_dce;

enum rlx_status rlx_pass_dce(struct rlx_pass_ctx *c, struct rlx_graph *g,
			     struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	uint32_t n;

	if (st)
		return st;
	for (n = 0; n < g->n_node; n++)
		if (rw.live[n])
			rlx_rewrite_copy(&rw, n);
	return rlx_rewrite_end(&rw, out);
}
