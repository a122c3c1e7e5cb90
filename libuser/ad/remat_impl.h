/* SPDX-License-Identifier: MIT */
/* What is found out about a backward pass before it is emitted anew. */
#ifndef RLX_AD_REMAT_IMPL_H
#define RLX_AD_REMAT_IMPL_H

#include "ir/graph.h"

struct candidate {
	uint32_t	val;
	double		score;
};

struct remat {
	struct rlx_graph *g;
	uint32_t	 first, first_val;
	/* per value of the forward pass */
	uint32_t	*root;		/* whose bytes it has; 0: a leaf's */
	uint32_t	*begin, *end;	/* moments from 1: needed first, and last; 0: never */
	bool		*kept;		/* else it is computed once more */
	bool		*able, *open;	/* it may be given up; as things are */
	uint32_t	*reader;	/* CSR of nodes that read it ... */
	uint32_t	*reader_at;	/* ... from here on, to the next one's */
	/* per node */
	bool		*made;		/* once more, by now */
	bool		*live;		/* something needs it: of the backward pass */
	uint32_t	*seen, turn;	/* in the list of that turn */
	double		*time;
	uint32_t	*order, n_order, cap_order;
	int64_t		*change;	/* of bytes, per moment */
	uint32_t	 cap_change;
	uint32_t	*list, n_list, cap_list;	/* nodes of a closure */
	uint32_t	*along, n_along, cap_along;	/* values that are given up with one */
	uint32_t	*gone, n_gone, cap_gone;	/* and all that were */
	struct candidate *cand;
	uint64_t	 looks;		/* nodes that may be looked at for what is better */
	uint64_t	 peak;
	uint32_t	 worst;		/* the moment of it */
	bool		 no_memory;
};

/* Emit that; @d, its @n results, are numbered anew. */
void rlx_ad_rebuild(struct remat *m, rlx_value *d, uint32_t n);

#endif
