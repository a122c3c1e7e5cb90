/* SPDX-License-Identifier: MIT */
/* A step that is being built, as optimizers see it. */
#ifndef RLX_TRAIN_STEP_H
#define RLX_TRAIN_STEP_H

#include "train/vars.h"

/* A variable whose update ranks share out: zero.h. */
struct share {
	int64_t		n, part, run;	/* elements: of it, each part (0: it is whole), a run */
	rlx_value	d, w, next;	/* the rank's own, flat: of the gradient and the variable */
};

struct step {
	struct rlx_graph	*g;
	struct rlx_vars		*v;
	struct rlx_train_opts	 o;
	uint32_t		*var;		/* entries of @v that are trained ... */
	rlx_value		*w, *d;		/* ... their values and gradients */
	unsigned int		 n;
	rlx_value		 loss;
	rlx_value		 scale;		/* of the loss, f32 */
	rlx_value		 ok, go;	/* bool: the norm is finite; and an update is due */
	rlx_value		 k;		/* f64: what gradients are multiplied by */
	rlx_value		 lr, t;		/* f64: the rate; the number of this update, from 1 */
	rlx_value		 norm;
	struct share		*share;		/* of each of @var; NULL: all is whole */
};

/* One variable and what is to be done with it. */
struct update {
	struct step		*s;
	const struct rlx_optimizer *how;
	uint32_t		 var;		/* entry; it may move when states are made */
	const char		*name;
	rlx_value		 w, g;		/* in f32, or f64 if w is that */
	rlx_value		 lr;		/* f64, the variable's own */
	double			 decay;		/* of @how; 0 for those that are not to decay */
	bool			 part;		/* all are the rank's parts */
};

/* The value behind the update of @u, not selected by ok yet. */
rlx_value optimizer_update(struct update *u);
/* Are the numbers within their ranges? A sticky error says which is not. */
bool optimizer_check(struct rlx_graph *g, const struct rlx_optimizer *how);
/* Can ranks share out its updates by elements? A sticky error says why not. */
bool optimizer_has_parts(struct rlx_graph *g, const struct rlx_optimizer *how);

/*
 * Gradients, which are sums over ranks from then on, the loss and buffers, which are means. @due:
 * whether the run is the last of those that add up; none: each is.
 */
void step_share(struct step *s, rlx_value due);
/* ---- step_zero.c ---- */

/* If ranks are to share out updates, which variables they do. False: a sticky error. */
bool zero_begin(struct step *s);
/* Is the rank's part of gradient @i all that it gets of the sum? */
bool zero_scatters(const struct step *s, unsigned int i);
/* Sums of these, and then, with the others summed, each rank's parts. */
void zero_scatter(struct step *s);
void zero_cut(struct step *s);
/* @q[s->n] become sums of squares, f64 scalars: those that op sum_squares_all has of all. */
void zero_squares(struct step *s, rlx_value *q);
/* The own part of variable @i behind an update, if that is due; and gives it. */
rlx_value zero_next(struct step *s, unsigned int i, rlx_value next);
/* What the average @mean of that part is before an update: the first begins at the variable. */
rlx_value zero_average(struct step *s, unsigned int i, rlx_value mean);
/* Variables become what all ranks have of them. */
void zero_gather(struct step *s);

/* @state's next value is @next if an update is due, else what it is; gives that. */
rlx_value step_next(struct step *s, rlx_value state, rlx_value next);
/* An f64 scalar in the dtype of @like. */
rlx_value step_scalar(struct step *s, rlx_value x, rlx_value like);

#endif
