/* SPDX-License-Identifier: MIT */
/*
 * Matching a piece of graph against an expression.
 *
 *	add(m:matmul(a, b), bias)	ops by name, inputs in order; m names the
 *					matched node, a, b, bias capture values
 *	mul(x, x)			a word seen before must be the same value
 *	sub(d, 0.5)			a number: a constant all of whose elements
 *					are it, to 1e-4 relative if f32 does not hold it
 *	div(x, #c)			#c: any constant of one element
 *
 * add, mul, max, min and the commutative bit ops are tried in both orders.
 * A word for a value from outside never stands for a matched node's.
 * Optional inputs that the pattern does not list must be absent. A node inside
 * the match (not its root) must have no use outside it.
 */
#ifndef RLX_IR_MATCH_H
#define RLX_IR_MATCH_H

#include "ir/graph.h"

enum { RLX_MATCH_NAMES = 24, RLX_MATCH_NODES = 32 };

struct rlx_match_name {
	char		text[16];
	uint32_t	value;	/* in the graph; 0 while unbound */
	bool		inner;	/* names a matched node: "m:op(..)" */
};

struct rlx_match {
	const struct rlx_graph	*g;
	const uint32_t		*uses;		/* per value: readers and outputs */
	uint32_t		 root;		/* node */
	struct rlx_match_name	 name[RLX_MATCH_NAMES];
	unsigned int		 n_name;
	uint32_t		 node[RLX_MATCH_NODES];	/* matched, root first */
	unsigned int		 n_node;
};

/* Match node @root against @text. @uses: per value. */
bool rlx_match_try(struct rlx_match *m, const struct rlx_graph *g,
		   const uint32_t *uses, uint32_t root, const char *text);

/* What a word of the pattern stands for; none if it has no such word. */
rlx_value rlx_match_value(const struct rlx_match *m, const char *name);
const struct rlx_type *rlx_match_type(const struct rlx_match *m, const char *name);
/* The node that makes it. */
const struct rlx_node *rlx_match_node(const struct rlx_match *m, const char *name);
/* Its value if it is a constant whose elements are all equal. */
bool rlx_match_scalar(const struct rlx_match *m, const char *name, double *out);
/*
 * The same for an attribute of f32. False, too, if the root is f64 and the constant has digits
 * there that f32 has not: the fused op would compute something else than what is written.
 */
bool rlx_match_f32(const struct rlx_match *m, const char *name, float *out);
bool rlx_value_scalar(const struct rlx_graph *g, uint32_t v, double *out);

#endif
