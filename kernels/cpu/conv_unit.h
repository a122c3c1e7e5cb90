/* SPDX-License-Identifier: MIT */
/* Units of conv_c and conv_bf16: a block of output pixels by some pairs of output blocks. */
#ifndef RLX_CPU_CONV_UNIT_H
#define RLX_CPU_CONV_UNIT_H

#include <stddef.h>

/* What a plan cuts the output into; @pairs: of a group. */
struct conv_grid {
	size_t	groups, oh, ow, rows, cols, nrows, ncols, chunk, nchunk, pairs;
};

/* Of a plan that has fields of these names. */
#define CONV_GRID(a, n_pairs)							\
	((struct conv_grid){ (a)->groups, (a)->oh, (a)->ow, (a)->rows, (a)->cols,	\
			     (a)->nrows, (a)->ncols, (a)->chunk, (a)->nchunk, n_pairs })

/* A unit, taken apart. @oy: the first of its rows, counted in the order of units */
struct conv_unit {
	size_t	n, g, oy, ox, rows, cols, pair, pairs;
	size_t	block;		/* counts (image, group, plane block): what a copy of x serves */
};

static inline struct conv_unit conv_unit_at(const struct conv_grid *c, size_t i)
{
	struct conv_unit u = { .pair = i % c->nchunk * c->chunk };

	i /= c->nchunk;
	u.block = i;
	u.g = i % c->groups;
	i /= c->groups;
	u.ox = i % c->ncols * c->cols;
	i /= c->ncols;
	u.oy = i % c->nrows * c->rows;
	u.n = i / c->nrows;
	u.cols = c->ow - u.ox < c->cols ? c->ow - u.ox : c->cols;
	u.rows = c->oh - u.oy < c->rows ? c->oh - u.oy : c->rows;
	u.pairs = c->pairs - u.pair < c->chunk ? c->pairs - u.pair : c->chunk;
	return u;
}

#endif
