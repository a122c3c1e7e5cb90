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

/*
 * Does the op take what it was written for, whatever the target has? Bodies have types of their
 * own, a program's functions theirs, and a cast is what it is.
 */
static inline bool rlx_keeps_dtypes(const struct rlx_op_def *def)
{
	return def->traits & RLX_T_SUBGRAPH || def->index == RLX_OP_cast ||
	       def->index == RLX_OP_custom;
}

/* More inputs than this have ops that only move elements. */
enum { RLX_LEGAL_INPUTS = 64 };

struct rlx_legal {
	struct rlx_pass_ctx		*c;
	const struct rlx_graph		*g;
	bool				*constant;	/* per value: is one, or folding makes it one */
};

/*
 * To ask the target of @c about nodes of @g. Return: RLX_ENOMEM, with a message in c->err.
 * rlx_legal_end() frees what this takes, also after a failure.
 */
enum rlx_status rlx_legal_begin(struct rlx_legal *l, struct rlx_pass_ctx *c,
				const struct rlx_graph *g);
void rlx_legal_end(struct rlx_legal *l);
/*
 * The form in which the target runs node @n. For WIDENED, @to[k] is the dtype for input @k,
 * 0: its own. Without a target that can be asked all is native.
 */
enum rlx_legal_form rlx_legal(const struct rlx_legal *l, const struct rlx_node *n,
			      enum rlx_dtype to[RLX_LEGAL_INPUTS]);
/*
 * Does the target run @n as it is with @args in the place of its own, and dtype @to[k] for
 * input @k, 0: its own? Either may be NULL. Of no target that can be asked: yes.
 *
 * Neither means anything where there was no memory to ask: c->no_memory says so.
 */
bool rlx_legal_as(const struct rlx_legal *l, const struct rlx_node *n, const void *args,
		  const enum rlx_dtype to[RLX_LEGAL_INPUTS]);

#endif
