/* SPDX-License-Identifier: MIT */
/*
 * What the target makes of an op: the one place where passes ask it. An op that has no
 * kernel for its dtypes may have one for wider ones, into which what it takes can be
 * converted without loss.
 */
#ifndef RLX_PASS_LEGAL_H
#define RLX_PASS_LEGAL_H

#include "pass/pass.h"

enum rlx_legal_form {
	RLX_LEGAL_NATIVE,	/* as it is */
	RLX_LEGAL_WIDENED,	/* after conversion of some inputs */
	RLX_LEGAL_NONE,		/* in no dtypes that hold what it takes */
};

/* More inputs than this have ops that only move elements. */
enum { RLX_LEGAL_INPUTS = 16 };

/*
 * The form in which the target of @c runs node @n of @g. For WIDENED, @to[k] is the dtype
 * for input @k, 0: its own. Without a target that can be asked all is native.
 */
enum rlx_legal_form rlx_legal(const struct rlx_pass_ctx *c, const struct rlx_graph *g,
			      const struct rlx_node *n, enum rlx_dtype to[RLX_LEGAL_INPUTS]);

#endif
