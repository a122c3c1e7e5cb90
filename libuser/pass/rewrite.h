/* SPDX-License-Identifier: MIT */
/*
 * Building a graph from another, node by node: what every pass is made of.
 *
 *	rlx_rewrite_begin(&rw, old, err)	copies inputs and params
 *	for (n = 0; n < old->n_node; n++)
 *		if (is_leaf) continue;
 *		else if (something better) rlx_rewrite_set(&rw, value, new value);
 *		else rlx_rewrite_copy(&rw, n);
 *	return rlx_rewrite_end(&rw, &new)	outputs, finish, dead code dropped
 *
 * Only nodes that an output needs are visited by rlx_rewrite_live().
 */
#ifndef RLX_PASS_REWRITE_H
#define RLX_PASS_REWRITE_H

#include "ir/graph.h"

struct rlx_rewrite {
	const struct rlx_graph	*old;
	struct rlx_graph	*g;		/* emit here */
	uint32_t		*map;		/* old value id -> new; 0: not made yet */
	bool			*live;		/* per old node */
	uint32_t		*uses;		/* per old value: live readers, outputs count */
	bool			 changed;	/* set by rlx_rewrite_set() */
	bool			 outputs_made;	/* by the pass, which has others besides */
	struct rlx_error	*err;
};

enum rlx_status rlx_rewrite_begin(struct rlx_rewrite *rw, const struct rlx_graph *old,
				  struct rlx_error *err);
/* Does anything need node @n? What is emitted next is of its scope. */
static inline bool rlx_rewrite_live(struct rlx_rewrite *rw, uint32_t n)
{
	rw->g->scope = rw->old->node[n].scope & ~RLX_SCOPE_SHARED;
	return rw->live[n];
}
/* The new value of an old one; none for 0. */
rlx_value rlx_rewrite_value(const struct rlx_rewrite *rw, uint32_t old_value);
/* Old value @v is @with from here on. */
void rlx_rewrite_set(struct rlx_rewrite *rw, uint32_t v, rlx_value with);
/* Copy node @n with its inputs mapped; maps its outputs. Input and param too. */
void rlx_rewrite_copy(struct rlx_rewrite *rw, uint32_t n);
/* The same with other arguments, of as many outputs or more. */
void rlx_rewrite_copy_with(struct rlx_rewrite *rw, uint32_t n, const void *args);
/*
 * Finish. *@out is NULL (and RLX_OK returned) if nothing was set and no node
 * was dead. Releases what begin took, also on failure.
 */
enum rlx_status rlx_rewrite_end(struct rlx_rewrite *rw, struct rlx_graph **out);

/*
 * A copy of @g in which nodes that @must names are replaced by what they stand for, once;
 * *@out is NULL if there are none. It is asked of nodes whose ops stand for others. In expand.c.
 */
typedef bool rlx_expand_fn(void *ctx, const struct rlx_node *n);
enum rlx_status rlx_expand_once(const struct rlx_graph *g, rlx_expand_fn *must, void *ctx,
				struct rlx_graph **out, struct rlx_error *err);

#endif
