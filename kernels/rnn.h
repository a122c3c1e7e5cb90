/* SPDX-License-Identifier: MIT */
/* Recurrent cells: LSTM, GRU and plain RNN, after the input projection. */
#ifndef RLX_K_RNN_H
#define RLX_K_RNN_H

#include "rlx/act.h"
#include "kernels/type.h"

#define RLX_K_RNN_PANEL	64	/* bytes of hidden units packed side by side */
#define RLX_K_RNN_ROWS	4	/* batch rows of a unit */
#define RLX_K_RNN_JOINED 4	/* units of a direction that a thread of a CPU takes as one */

enum rlx_k_rnn_cell {
	RLX_K_RNN_LSTM,	/* gates i o f c */
	RLX_K_RNN_GRU,	/* gates z r h */
	RLX_K_RNN_PLAIN,
};

static inline int64_t rlx_k_rnn_gates(int cell)
{
	return cell == RLX_K_RNN_LSTM ? 4 : cell == RLX_K_RNN_GRU ? 3 : 1;
}

/* Of elements of @size bytes: 4 or 8. */
static inline int64_t rlx_k_rnn_panels(int64_t hidden, size_t size)
{
	const int64_t units = RLX_K_RNN_PANEL / (int64_t)size;

	return (hidden + units - 1) / units;
}

/* Elements, of @size bytes, of one direction's packed recurrence weights. */
static inline size_t rlx_k_rnn_packed(int cell, int64_t hidden, size_t size)
{
	return (size_t)(rlx_k_rnn_panels(hidden, size) * (RLX_K_RNN_PANEL / (int64_t)size) *
			hidden * rlx_k_rnn_gates(cell));
}

/*
 * Kernels: rnn_pack of f32, rnn_f64_pack. r is [dirs, gates * hidden, hidden] as ONNX has it;
 * dst gets rlx_k_rnn_packed() elements for each direction. One unit is one direction; there
 * are @dirs. Scratch: 0. The layout is the same at every level.
 */
struct rlx_k_rnn_pack {
	const void	*r;
	void		*dst;
	int64_t		dirs, hidden;
	uint8_t		cell;
};

struct rlx_k_rnn_fn {
	uint8_t	fn;		/* enum rlx_rnn_act */
	double	alpha, beta;
};

/*
 * Kernels: rnn of f32, rnn_f64. For each direction, batch row and time step, with x the
 * projected input x W^T + Wb + Rb of all gates, computed beforehand by a matrix
 * product (for a GRU with linear_before_reset the h gate gets Wb only and rb is
 * its Rb):
 *
 *	LSTM	i = f(x_i + h R_i + P_i c), f likewise (1 - i if input_forget),
 *		c' = f c + i g(x_c + h R_c), o = f(x_o + h R_o + P_o c'),
 *		h' = o h(c')
 *	GRU	z, r = f(x + h R), n = g(x_h + (r h) R_h) or, if
 *		linear_before_reset, g(x_h + r (h R_h + rb)),
 *		h' = (1 - z) n + z h
 *	RNN	h' = f(x + h R)
 *
 * Arguments of f and g are clipped to [-clip, clip] if clip > 0. A row
 * shorter than steps gives zeros in y beyond its length and its last state in
 * yh, yc; a reverse direction begins at the row's own end. yh, yc may be the
 * same memory as h0, c0.
 *
 * On a GPU, which has rnn alone, r is as rnn_pack's r, and b, if given, is the op's bias,
 * which x and rb then are without. What is not x may be f32, bf16 or f16 there: r is of
 * @r_type, y, yh and yc of @y_type, the others of @type.
 *
 * One unit is one direction of RLX_K_RNN_ROWS batch rows; there are
 * rlx_k_rnn_units(). Scratch: rlx_k_rnn_scratch().
 */
struct rlx_k_rnn {
	const void	*x;
	const void	*r;		/* packed, direction after direction */
	const void	*b;		/* dirs x 2 x gates x hidden, or NULL */
	const void	*rb;		/* GRU, linear_before_reset: dirs x hidden,
					 * or NULL */
	const void	*peep;		/* LSTM: dirs x 3 x hidden (i o f), or NULL */
	const void	*h0, *c0;	/* by h_stride, or NULL: zeros */
	const void	*lens;		/* batch, i32, i64 or u32, or NULL */
	int32_t		*bad;		/* set to 1 by a length outside 0 to steps, or NULL */
	int64_t		live;		/* batch rows that carry data: others are never bad */
	void		*y;		/* or NULL */
	void		*yh, *yc;	/* by h_stride, or NULL */
	/* elements: time, batch, direction; gates and hidden are dense */
	int64_t		x_stride[3], y_stride[3];
	int64_t		h_stride[2];	/* batch, direction */
	int64_t		steps, batch, hidden, dirs;
	struct rlx_k_rnn_fn	act[2][3];	/* direction; f, g, h */
	float		clip;
	uint8_t		cell, lens_type, r_type, y_type;
	struct { uint8_t b, rb, peep, h0, c0; } type;
	bool		reverse[2];
	bool		input_forget, linear_before_reset;
	bool		strict;		/* a row's bits are the same alone in a batch */
};

static inline size_t rlx_k_rnn_units(const struct rlx_k_rnn *a)
{
	return (size_t)(a->dirs * ((a->batch + RLX_K_RNN_ROWS - 1) /
				   RLX_K_RNN_ROWS));
}

/* Batch rows that a thread's scratch has room for, whole units. */
static inline int64_t rlx_k_rnn_rows(const struct rlx_k_rnn *a)
{
	const int64_t units = (a->batch + RLX_K_RNN_ROWS - 1) / RLX_K_RNN_ROWS;

	return (units < RLX_K_RNN_JOINED ? units : RLX_K_RNN_JOINED) * RLX_K_RNN_ROWS;
}

/* h, its next value, c, and two values of the GRU, for each row; of @size as above */
static inline size_t rlx_k_rnn_scratch(const struct rlx_k_rnn *a, size_t size)
{
	return (size_t)(rlx_k_rnn_panels(a->hidden, size) * rlx_k_rnn_rows(a)) *
	       RLX_K_RNN_PANEL * 5;
}

#endif
