/* SPDX-License-Identifier: MIT */
/* The blocked layout's inside: values in both forms, for the files layout*.c. */
#ifndef RLX_PASS_LAYOUT_H
#define RLX_PASS_LAYOUT_H

#include "pass/pass.h"

struct layout {
	struct rlx_rewrite	*rw;
	uint32_t		*blocked;	/* per old value: new blocked value or 0 */
	uint32_t		*swapped;	/* ... with its first two axes exchanged, or 0 */
	bool			*wanted;	/* per old value: a convolution will read it blocked */
	bool			*kept;		/* ... what keeps the layout reads it */
	uint32_t		*readers;	/* ... convolutions that could read it blocked */
	int32_t			 block;
	int32_t			 decide;	/* as though so many channels were a block */
	bool			 strict;	/* bits: nothing may hang on how many images there are */
};

static inline bool layout_last(const struct layout *l)
{
	return l->block == RLX_CHANNELS_LAST;
}

static inline const struct rlx_type *layout_type(const struct layout *l, uint32_t v)
{
	return &l->rw->old->val[v].type;
}

/* The blocked form of an old value, and the plain one: reordered from the other, once. */
rlx_value layout_blocked(struct layout *l, uint32_t v);
rlx_value layout_plain(struct layout *l, uint32_t v);
/* Old value @v is made, blocked. */
void layout_give(struct layout *l, uint32_t v, rlx_value with);
/* [n, c, h, w] as [n, 1, h, w, c], and back. */
rlx_value layout_to_last(struct layout *l, rlx_value x);
rlx_value layout_from_last(struct layout *l, rlx_value x);
/* @x in dtype @to. */
rlx_value layout_as(struct layout *l, rlx_value x, enum rlx_dtype to);

/* An old value's plain form with four dimensions. */
rlx_value layout_image(struct layout *l, uint32_t v);
/* Has @t elements, floats, on one or two dimensions of pixels? */
bool layout_is_image(const struct rlx_type *t);
/* Is it a param or constant, maybe rounded, the same in all runs: so that its order costs once? */
bool layout_stays(const struct layout *l, uint32_t v);
/* A 1-D convolution is taken as one of rows. */
void layout_two_dims(struct layout *l, struct rlx_op_fused_conv *a);

/*
 * Convolutions in a CPU's blocks: layout_conv.c. layout_conv: @n, a fused_conv or conv_transpose,
 * is given so; false: it stays.
 */
void layout_mark_wanted(struct layout *l);
bool layout_conv(struct layout *l, const struct rlx_node *n);
/*
 * The conv_transpose @n as a convolution of its input with @step - 1 zeros behind each pixel, by
 * weights whose taps layout_turn_taps() puts in the other order: its padding, begins then ends.
 * False: it leaves pixels out, which a convolution cannot.
 */
bool layout_transpose_pad(const struct layout *l, const struct rlx_node *n, int64_t step[2],
			  int64_t pad[4]);
rlx_value layout_turn_taps(struct layout *l, rlx_value w);

/*
 * Gradients of convolutions, channels last, and in weights in a CPU's blocks: layout_grad.c.
 * False: not of @n, which stays. layout_grad_reads: what the gradient in a weight that @n is reads,
 * as old values; false: none.
 */
bool layout_grad_reads(const struct layout *l, const struct rlx_node *n, uint32_t out[2]);
bool layout_weight_grad(struct layout *l, const struct rlx_node *n);
bool layout_weight_grad_blocked(struct layout *l, const struct rlx_node *n);
bool layout_fills_wgrad(const struct rlx_op_fused_conv *a, const struct rlx_type *dy,
			const struct rlx_type *y);
bool layout_conv_transpose(struct layout *l, const struct rlx_node *n);
bool layout_swap(struct layout *l, const struct rlx_node *n);

#endif
