/* SPDX-License-Identifier: MIT */
/*
 * Moves that only repeat elements (expand, tile, resize to the nearest by whole numbers), as
 * views that a region broadcasts: an axis of the result is split into digits, outermost first,
 * and what is repeated has a 1 for those along which it does not walk. Of an axis of 6 that
 * repeats each of 3 twice the digits are 3 and 2, and the operand's 3 and 1.
 */
#ifndef RLX_PASS_REPEAT_H
#define RLX_PASS_REPEAT_H

#include "ir/graph.h"
#include "rlx/backend.h"

/* The operand walks along digits from place value @lo up to @hi of an axis. */
struct rlx_repeat_span {
	int64_t lo, hi;
};

/*
 * What node @n, whose result broadcasts to @shape, repeats of its operand, per axis of that;
 * false: it does something else.
 */
bool rlx_repeat_of(const struct rlx_graph *g, const struct rlx_node *n,
		   const struct rlx_type *shape, struct rlx_repeat_span span[RLX_MAX_RANK]);

/*
 * Does it pay to read an operand of @dt so, rather than what a move of its own made of it? What
 * costs it where is the target's to say.
 */
bool rlx_repeat_pays(const struct rlx_repeats *by, const struct rlx_type *shape, enum rlx_dtype dt,
		     const struct rlx_repeat_span *span);

/* A shape whose axes are split: axis i has place values place[i][0..n[i]], 1 up to its size. */
struct rlx_split {
	uint32_t	axes, rank;
	uint32_t	n[RLX_MAX_RANK];
	int64_t		place[RLX_MAX_RANK][RLX_MAX_RANK + 1];
};

void rlx_split_init(struct rlx_split *s, const struct rlx_type *shape);
/* Split further so that @span can be seen; false, and nothing is changed, if that cannot be. */
bool rlx_split_add(struct rlx_split *s, const struct rlx_repeat_span *span);
/* An operand that broadcasts to the shape, over the split axes. */
struct rlx_type rlx_split_type(const struct rlx_split *s, const struct rlx_type *t);
/* The operand of @dt that walks along @span. */
struct rlx_type rlx_split_span(const struct rlx_split *s, const struct rlx_repeat_span *span,
			       enum rlx_dtype dt);

#endif
