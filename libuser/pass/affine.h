/* SPDX-License-Identifier: MIT */
/* What ops with constants do to each channel, and weights of convolutions that do it instead. */
#ifndef RLX_PASS_AFFINE_H
#define RLX_PASS_AFFINE_H

#include "pass/pass.h"

/* One factor and one summand per channel. */
struct affine {
	double	*scale, *shift;
	int64_t	 n;
};

/* Where a convolution's weights lie: [n_out][per_group][taps], n_out / groups of each group. */
struct weights {
	int64_t	n_out, per_group, taps, groups;
};

/* The constant of floats behind @v, in other shapes maybe; false: it is none. */
bool affine_constant(const struct rlx_graph *g, uint32_t v, struct rlx_tensor *out);

/* What node @n does to its input @k of @a->n channels at axis 1; false: that is not affine. */
bool affine_of_node(const struct rlx_graph *g, const struct rlx_node *n, uint32_t k,
		    struct affine *a);

struct weights weights_of(const struct rlx_type *w, int64_t groups);

/* The input channel of the first weight of output channel @o. */
int64_t weights_first_input(const struct weights *l, int64_t o);

/*
 * A constant of @g: weights @w of f32, a constant, times the factors of their input channels,
 * or output channels. Instances of a model for other shapes have one @w and the same factors:
 * they find what the first of them made. 0 and an error in @g: no memory.
 */
uint32_t weights_scaled(struct rlx_graph *g, uint32_t w, const struct weights *l,
			const struct affine *a, bool input);

/* A constant of @g out of @n floats, which are taken; NULL or no memory: 0, an error in @g. */
uint32_t affine_bias(struct rlx_graph *g, float *y, int64_t n);

#endif
