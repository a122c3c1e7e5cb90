/* SPDX-License-Identifier: MIT */
/* What lstm, gru and rnn share: shapes, layouts, activations, the walk over time. */
#ifndef RLX_OPS_RNN_CELL_H
#define RLX_OPS_RNN_CELL_H

#include "ops/defaults.h"
#include "ops/emit.h"

/* The arguments that the three ops have in common, and what tells them apart. */
struct rnn_args {
	int32_t		  direction;
	bool		  batch_first;
	float		  clip;
	struct rlx_ints	  acts;
	struct rlx_floats alpha, beta;
	int64_t		  gates;	/* 4, 3, 1 */
	uint32_t	  n_act;	/* per direction: 3, 2, 1 */
	bool		  has_c;	/* a cell state: inputs 6 and 7, output 2 */
};

struct rnn_dims {
	int64_t t, b, i, h, d;	/* time, batch, input, hidden, directions */
};

/* Of inputs x and r. */
struct rnn_dims rnn_dims_of(const struct rnn_args *a, const struct rlx_type *x,
			    const struct rlx_type *r);

/* Inputs 0..5 are x w r bias lens h0 in all three; 6 and 7 c0 and peep. */
enum rlx_status rnn_infer(struct rlx_infer *q, const struct rnn_args *a);
size_t rnn_scratch(const struct rlx_infer *q, const struct rnn_args *a);

/* One step of one row of the batch, everything in double. */
struct rnn_step {
	const struct rnn_args	*a;
	struct rnn_dims		 m;
	int64_t			 dir;
	const double		*r;	/* [gates h, h] of this direction */
	const double		*rb;	/* [gates h] bias of the recurrent part */
	const double		*peep;	/* [3 h] or NULL */
	double			*gx;	/* [gates h] x w' + bias: the cell may write here */
	double			*gh;	/* [gates h] h r' (without rb): likewise */
	double			*h, *c;	/* state, updated in place */
	double			*tmp;	/* [h] */
};
typedef void rnn_cell(const struct rnn_step *s);

/* Walk directions, batch and time, calling @cell; writes y, h and c. */
enum rlx_status rnn_eval(struct rlx_eval *q, const struct rnn_args *a, rnn_cell *cell);

/* Clip, then activation @k of this direction. */
double rnn_act(const struct rnn_step *s, uint32_t k, double x);

/*
 * One step of one direction as a graph: the cell brings h, and c where there is one, to their
 * next values. Floats of one dtype, f32 or f64.
 */
struct rnn_body {
	struct rlx_graph	*g;
	const struct rnn_args	*a;
	struct rnn_dims		 m;
	int64_t			 dir;
	rlx_value		 gx;	/* [b, gates h]: x w' + bias */
	rlx_value		 r[2];	/* r', [h, gates h]; split, gates [0, split) and others */
	rlx_value		 rb;	/* [gates h], or none: in gx */
	rlx_value		 peep;	/* [3 h], or none */
	rlx_value		 h, c;	/* [b, h] */
};
typedef void rnn_cell_graph(struct rnn_body *b);

/* How an op's cell is written as a graph. */
struct rnn_graph {
	rnn_cell_graph	*cell;
	int64_t		 split;		/* products of so many gates come first; 0: all at once */
	bool		 late_bias;	/* the cell adds rb itself */
};

/* The op as a scan over time, from which its gradient comes. */
enum rlx_status rnn_expand(struct rlx_expand *q, const struct rnn_args *a,
			   const struct rnn_graph *how);
/* Part @k, as wide as h, of a vector or of rows. */
rlx_value rnn_part(const struct rnn_body *b, rlx_value x, int64_t k);
/* Clip, then activation @k of the direction. */
rlx_value rnn_emit_act(const struct rnn_body *b, uint32_t k, rlx_value x);

/* What kernels find in lens. */
void rnn_bad_data(const void *args, char *text, size_t size);

/* Types of a case: see rnn_cell.c for what @i selects. */
bool rnn_sample(unsigned int i, struct rlx_sample *s, struct rnn_args *a);

#endif
