/* SPDX-License-Identifier: MIT */
/* Sliding windows over 1 to 3 spatial dimensions: convolution and pooling. */
#ifndef RLX_OPS_WINDOW_H
#define RLX_OPS_WINDOW_H

#include "ops/emit.h"

/*
 * Filled up in front to three dimensions of size 1, so that loops are three deep
 * whatever the rank. Position o of the output covers the inputs
 * o * stride - pad + k * dilation for k < kernel.
 */
struct op_window {
	uint32_t nd;	/* spatial dimensions in fact */
	int64_t	 in[3], out[3], k[3], stride[3], dil[3], pad[3], pad_end[3];
};

struct op_window_args {
	struct rlx_ints	stride, pad, dilation;
	bool		ceil;
};

/* RLX_EINVAL unless the lists have the right lengths and sane values. */
enum rlx_status op_window_check(struct rlx_infer *q, const struct op_window_args *a,
				uint32_t nd);
/*
 * Strides and so on for @nd spatial dims of @x (from dim 2 on) and kernel @k;
 * checked arguments. out[] is not computed.
 */
void op_window_set(struct op_window *w, const struct op_window_args *a,
		   const struct rlx_type *x, const int64_t *k, uint32_t nd);
/* The output sizes of a forward window; false if a window does not fit or overflows. */
bool op_window_out(struct op_window *w, bool ceil);
/* The same with a message. */
enum rlx_status op_window_infer(struct rlx_infer *q, const struct op_window_args *a,
				const int64_t *k, struct op_window *w);

/*
 * The taps of a window that lie inside the input, the last dimension's first:
 *	for (op_taps_begin(&t, w, o); !t.done; op_taps_next(&t))
 */
struct op_taps {
	const struct op_window *w;
	int64_t	 at[3];		/* where the window begins */
	int64_t	 span[3][2];	/* its taps inside, first and behind the last */
	int64_t	 k[3];
	int64_t	 offset;	/* of this one in the plane */
	bool	 done;
};
void op_taps_begin(struct op_taps *t, const struct op_window *w, const int64_t o[3]);
void op_taps_next(struct op_taps *t);
/* How many taps along dimension @j of a window that begins at @at lie below @limit. */
int64_t op_window_below(const struct op_window *w, uint32_t j, int64_t at, int64_t limit);
/*
 * The largest element of the window at @o, as its offset in the plane of @x that begins at element
 * @base: the first of equal ones, NaN before all numbers; -1: the window has padding alone.
 */
int64_t op_window_max(const struct op_window *w, const struct rlx_tensor *x, int64_t base,
		      const int64_t o[3]);

/* The rule of pools: of x, input 0, and @kernel the type of what is pooled, *@y. */
enum rlx_status op_pool_infer(struct rlx_infer *q, const struct op_window_args *a,
			      struct rlx_ints kernel, struct rlx_type *y);
/* The same, and its geometry, from types and arguments known to be right; @y may be NULL. */
void op_pool_set(struct op_window *w, const struct op_window_args *a, struct rlx_ints kernel,
		 const struct rlx_type *x, struct rlx_type *y);

/* convolution's arguments, shared by conv, fused_conv, qconv */
struct op_conv {
	struct op_window w;
	int64_t		 n, ci, co, groups;	/* ci, co: all groups together */
};
/* Shape rule of conv for inputs 0 (x) and 1 (w); *y gets rank and dims. */
enum rlx_status op_conv_infer(struct rlx_infer *q, const struct op_window_args *a,
			      int64_t groups, struct op_conv *c, struct rlx_type *y);
/* The same from types known to be right. */
void op_conv_set(struct op_conv *c, const struct op_window_args *a, int64_t groups,
		 const struct rlx_type *x, const struct rlx_type *w,
		 const struct rlx_type *y);

/*
 * Gradient in the weight of a convolution whose large operand is @big [N, Cb, ..]
 * and small operand @small [N, Cs, ..]: weight [Cs, Cb / groups, k..].
 */
rlx_value op_conv_weight_grad(struct rlx_graph *g, rlx_value big, rlx_value small,
			      const struct rlx_type *w, int64_t groups,
			      const struct op_window_args *a);
/* Gradient in a bias [C] that was added to every position: sums of @dy [N, C, ..]. */
rlx_value op_conv_bias_grad(struct rlx_graph *g, rlx_value dy);
/*
 * Sum of @dy [N, C, out..] scattered to every position its window covers:
 * [N, C, in..]. The gradient of summing windows.
 */
rlx_value op_window_spread(struct rlx_graph *g, rlx_value dy,
			   const struct op_window *w);

#endif
