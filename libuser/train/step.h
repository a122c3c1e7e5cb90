/* SPDX-License-Identifier: MIT */
/* A step that is being built, as optimizers see it. */
#ifndef RLX_TRAIN_STEP_H
#define RLX_TRAIN_STEP_H

#include "train/vars.h"

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
};

/* The value behind the update of @u, not selected by ok yet. */
rlx_value optimizer_update(struct update *u);
/* Are the numbers within their ranges? A sticky error says which is not. */
bool optimizer_check(struct rlx_graph *g, const struct rlx_optimizer *how);

/*
 * Gradients, which are sums over ranks from then on, the loss and buffers, which are means. @due:
 * whether the run is the last of those that add up; none: each is.
 */
void step_share(struct step *s, rlx_value due);
/* @state's next value is @next if an update is due, else what it is; gives that. */
rlx_value step_next(struct step *s, rlx_value state, rlx_value next);
/* An f64 scalar in the dtype of @like. */
rlx_value step_scalar(struct step *s, rlx_value x, rlx_value like);

#endif
