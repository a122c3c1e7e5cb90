/* SPDX-License-Identifier: MIT */
/* A convolution as the three ops say it, for the backend that runs it. */
#ifndef RLX_BACKENDS_CONV_H
#define RLX_BACKENDS_CONV_H

#include "backends/common/lower.h"
#include "kernels/conv.h"

/**
 * struct rlx_conv - dimensions are filled up in front to three
 * @n, @ic, @oc, @groups: images, channels of all groups
 * @in, @out, @k, @s, @d, @p: as in struct rlx_k_conv_nd
 * @act, @act_a, @act_b: what happens to the sum
 * @transposed: it is one
 * @block: of the blocked layout that the result has, 0: it is plain
 * @x_plain: the input is plain nevertheless; @y_plain: the result and the residual are
 */
struct rlx_conv {
	size_t	n, ic, oc, groups;
	size_t	in[3], out[3], k[3], s[3], d[3], p[3];
	enum rlx_act act;
	float	act_a, act_b;
	bool	transposed, x_plain, y_plain;
	int64_t	block;
};

/* About how many simple operations it is. */
double rlx_conv_work(const struct rlx_conv *g);
/* References of the staged arguments: to the op's x, bias, residual and result. */
void rlx_conv_refs(struct rlx_lower *lo, void *x, void *bias, void *res, void *y);
/* Sizes, and the window, of kernels of two dimensions. */
#define RLX_CONV_SHAPE(a, g)						\
	((a)->n = (g)->n, (a)->ih = (g)->in[1], (a)->iw = (g)->in[2],	\
	 (a)->oh = (g)->out[1], (a)->ow = (g)->out[2],			\
	 (a)->pt = (g)->p[1], (a)->pl = (g)->p[2],			\
	 (a)->act = (g)->act, (a)->act_a = (g)->act_a, (a)->act_b = (g)->act_b)
#define RLX_CONV_WINDOW(a, g)						\
	((a)->kh = (g)->k[1], (a)->kw = (g)->k[2], (a)->sh = (g)->s[1],	\
	 (a)->sw = (g)->s[2], (a)->dh = (g)->d[1], (a)->dw = (g)->d[2])

/* What runs along rows takes an image one pixel wide as one row. */
void rlx_conv_lay_flat(struct rlx_conv *g);
/* Elements of an image of x and of y, both blocked. */
void rlx_conv_image(const struct rlx_conv *g, size_t image[2]);
/* In blocks: a filter for each channel? */
static inline bool rlx_conv_is_depthwise(const struct rlx_conv *g)
{
	return g->groups > 1 && g->groups == g->oc && g->ic == g->oc;
}
/* Else: conv_c's arguments at level @isa, without pointers; false: it does not take the shape. */
bool rlx_conv_blocked(enum rlx_isa isa, struct rlx_k_conv_c *a, const struct rlx_conv *g);
/* Plain: rlx_conv_nd_most() of @a before its init, at any level; 0: conv_nd does not take it. */
size_t rlx_conv_plain_most(struct rlx_k_conv_nd a);
/*
 * The m of Winograd's F(m x m, 3 x 3) for @a as rlx_conv_blocked() gave it at @isa, with strict
 * bits as the level that gains most by it would have it; then @w is its arguments. 0: it does not
 * go by that.
 */
size_t rlx_conv_winograd(const struct rlx_lower *lo, enum rlx_isa isa,
			 const struct rlx_k_conv_c *a, struct rlx_k_wino_c *w);
/* Plain arguments of it, without pointers. */
void rlx_conv_plain(struct rlx_k_conv_nd *a, const struct rlx_conv *g);
/* Of a qconv: reference to the zero point of its input, if that is known when it runs alone. */
void rlx_lower_qconv_zero(struct rlx_lower *lo, struct rlx_k_conv_i8 *a);

#endif
