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
/* Plain arguments of it, without pointers. */
void rlx_conv_plain(struct rlx_k_conv_nd *a, const struct rlx_conv *g);
/* Of a qconv: reference to the zero point of its input, if that is known when it runs alone. */
void rlx_lower_qconv_zero(struct rlx_lower *lo, struct rlx_k_conv_i8 *a);

#endif
