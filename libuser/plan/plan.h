/* SPDX-License-Identifier: MIT */
/*
 * The plan that a backend compiles: the steps of a program in order, and for every value
 * where its bytes live. The backend adds temporaries and gives the workspace's places;
 * then it changes no more.
 */
#ifndef RLX_PLAN_PLAN_H
#define RLX_PLAN_PLAN_H

#include <stdio.h>

#include "base/bump.h"
#include "ir/opdef.h"
#include "rlx/compile.h"

enum { RLX_PLAN_ALIGN = 64 };

/*
 * Bytes @offset of what @kind and @index name: constant[], or an entry of io[]. A state is an
 * input here, and its next value an output. The workspace's by rlx_plan_place().
 */
struct rlx_place {
	enum rlx_place_kind	kind;
	uint32_t		index;
	uint64_t		offset;
};

struct rlx_plan_val {
	struct rlx_type		type;
	struct rlx_place	place;
	uint32_t		first, last;	/* steps that write and last read it */
	uint32_t		root;		/* value whose storage this is; itself if its own */
	bool			persistent;		/* of a root: see rlx_plan_step.once */
};

/*
 * One op. def NULL: copy the bytes of in[0] to out[0].
 * Inputs never overlap an output, except where the op is RLX_T_INPLACE and the
 * input has the output's type and the same place.
 * @once: it depends on params and constants alone. What other steps read of it is kept: no
 * other value has that place, so that while params stay runs may leave the step out.
 */
struct rlx_plan_step {
	const struct rlx_op_def	*def;
	const void		*args;
	const uint32_t		*in, *out;	/* value ids; 0: absent */
	uint32_t		 n_in, n_out;
	uint32_t		 node;
	bool			 once;
	const char		*file;		/* where the caller emitted it */
	unsigned int		 line;
};

/*
 * @donated: of an output: 1 + the input that it replaces, whose place may be its own, for
 * nothing reads that input once it is written; else 0
 * @state: of an input: it is a state; of an output: it is the next value of one, which
 * @donated names, and their buffer is one
 */
struct rlx_plan_io {
	const char	*name;
	uint32_t	 val, donated;
	bool		 state;
};

struct rlx_plan {
	struct rlx_graph	*g;		/* keeps args and names alive */
	struct rlx_bump		 bump;
	struct rlx_plan_val	*val;		/* [0] is unused */
	struct rlx_plan_step	*step;
	uint32_t		 n_val, cap_val, n_step;
	struct rlx_plan_io	*io[3];		/* by enum rlx_io */
	uint32_t		 n_io[3];
	struct rlx_blob		**constant;	/* referenced by g */
	uint32_t		 n_constant;
	uint64_t		 work_bytes;
	uint64_t		 naive_bytes;	/* without reuse, for the report */
	uint32_t		 n_state, n_copied;	/* states; next values that are copied to them */
	uint32_t		 n_persistent;		/* roots that are */
};

/*
 * Plan @g, which must be finished: steps, lives, and which values share storage. Values
 * that nothing needs get no place; where in the workspace the others lie is not known
 * before a backend has said what runs, by rlx_plan_place().
 * Context: allocates. Ownership: the caller's, freed with rlx_plan_free().
 */
enum rlx_status rlx_plan_new(struct rlx_graph *g, struct rlx_plan **out, struct rlx_error *err);
void rlx_plan_free(struct rlx_plan *p);

/*
 * Room for @n values more, which moves those there are. False: out of memory.
 */
bool rlx_plan_reserve(struct rlx_plan *p, uint32_t n);

/* Value @v's place, and step @i, as callers see them: what is there is up to the caller. */
struct rlx_value_place rlx_plan_told(const struct rlx_plan *p, uint32_t v);
struct rlx_program_step rlx_plan_told_step(const struct rlx_plan *p, uint32_t i);

/* Memory over time as an SVG image; the steps as text. */
enum rlx_status rlx_plan_svg(const struct rlx_plan *p, FILE *f);
enum rlx_status rlx_plan_print(const struct rlx_plan *p, FILE *f);

static inline uint64_t rlx_plan_bytes(const struct rlx_plan *p, uint32_t v)
{
	return (uint64_t)rlx_type_bytes(&p->val[v].type);
}

/*
 * What step @st takes: see rlx_op_cost().
 * Context: allocates for more than 16 inputs and for ops with graphs; without memory the op
 * is not asked.
 */
struct rlx_cost rlx_plan_cost(const struct rlx_plan *p, const struct rlx_plan_step *st);

/* Has an input of type @t rows that an active extent of @upper rows counts? */
static inline bool rlx_plan_has_rows(const struct rlx_type *t, int64_t upper)
{
	return t->rank && t->dim[0] && t->dim[0] % upper == 0;
}

#endif
