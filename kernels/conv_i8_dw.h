/* SPDX-License-Identifier: MIT */
/* 8-bit convolutions of a channel or a few a group, as depthwise ones: how they are cut. */
#ifndef RLX_K_CONV_I8_DW_H
#define RLX_K_CONV_I8_DW_H

#include "kernels/conv.h"

/*
 * Kernel: conv_i8_dw. What conv_i8 computes, on x and weights [oc][ic / groups][taps] as they
 * lie, of one or two dimensions. A unit is some rows and columns of the output channels of a
 * group. Their input is brought to floats, without its zero point; those that are a stride
 * apart lie side by side, in phases. So an output row is behind the other, @pitch from each
 * other, and each tap adds its weight times one stream of floats, at an offset of its own.
 * Sums of less than 2^24 are exact.
 */
struct rlx_conv_i8_dw {
	size_t	rows, cols;		/* of a unit, at most */
	size_t	down, across;		/* units of a plane */
	size_t	lines, pitch;		/* of a phase */
	size_t	plane;			/* floats of a channel's phases */
	size_t	terms;
};

enum {
	RLX_K_I8_DW_STRIDE = 3,		/* at most */
	RLX_K_I8_DW_TERMS = 256,	/* (2^8 - 1)^2 each, in 2^24 */
	RLX_K_I8_DW_SLACK = 64,		/* floats behind, which are read and mean nothing */
	RLX_K_I8_DW_COLS = 64,		/* of a unit, at least, if there are */
	RLX_K_I8_DW_NEAR = 6144,	/* floats that stay in a first-level cache */
};

static inline bool rlx_conv_i8_dw_fits(const struct rlx_k_conv_nd *s)
{
	return s->k[0] == 1 && s->in[0] == 1 && s->out[0] == 1 && !s->p[0] &&
	       s->s[1] <= RLX_K_I8_DW_STRIDE && s->s[2] <= RLX_K_I8_DW_STRIDE &&
	       s->ic / s->groups * s->k[1] * s->k[2] <= RLX_K_I8_DW_TERMS;
}

static inline struct rlx_conv_i8_dw rlx_conv_i8_dw_cut(const struct rlx_k_conv_nd *s)
{
	const size_t more = (s->k[1] - 1) * s->d[1] / s->s[1];
	const size_t phases = s->s[1] * s->s[2], channels = s->ic / s->groups;
	struct rlx_conv_i8_dw c = { .terms = channels * s->k[1] * s->k[2] };
	const size_t rows = 2 * more + 2 < s->out[1] ? 2 * more + 2 : s->out[1];
	const size_t beside = (s->k[2] - 1) * s->d[2] / s->s[2];
	size_t line, most;

	/* narrow enough for so many rows, since lines are brought again for the rows that follow */
	most = RLX_K_I8_DW_NEAR / (phases * channels * (more + rows));
	most = most > beside + RLX_K_I8_DW_COLS ? most - beside : RLX_K_I8_DW_COLS;
	/* alike, since a narrow one's rows are as far apart */
	c.across = (s->out[2] + most - 1) / most;
	c.cols = (s->out[2] + c.across - 1) / c.across;
	c.pitch = c.cols + beside;
	line = c.pitch * phases * channels;
	c.rows = RLX_K_I8_DW_NEAR / line > more ? RLX_K_I8_DW_NEAR / line - more : 1;
	c.rows = c.rows < s->out[1] ? c.rows : s->out[1];
	c.lines = c.rows + more;
	c.plane = phases * c.lines * c.pitch;
	c.down = (s->out[1] + c.rows - 1) / c.rows;
	c.across = (s->out[2] + c.cols - 1) / c.cols;	/* rounding may leave none for the last */
	return c;
}

static inline size_t rlx_conv_i8_dw_units(const struct rlx_k_conv_nd *s)
{
	const struct rlx_conv_i8_dw c = rlx_conv_i8_dw_cut(s);

	return s->n * s->groups * c.down * c.across;
}

/* The floats, sums of a unit, and those of a row as integers. */
static inline size_t rlx_conv_i8_dw_scratch(const struct rlx_k_conv_nd *s)
{
	const struct rlx_conv_i8_dw c = rlx_conv_i8_dw_cut(s);

	return (s->ic / s->groups * c.plane + c.rows * c.pitch + c.cols + 4 * RLX_K_I8_DW_SLACK) *
	       sizeof(float);
}

#endif
