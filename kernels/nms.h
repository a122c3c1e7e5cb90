/* SPDX-License-Identifier: MIT */
/* Non-maximum suppression. */
#ifndef RLX_K_NMS_H
#define RLX_K_NMS_H

#include "kernels/type.h"

/*
 * Of each class of each batch the boxes, best first, that no better one covers by more
 * than @iou, at most @most of them: out[i] is batch, class and box. If they are not
 * @count, *bad becomes 1 and out means nothing. @only_count: out is their number.
 *
 * CPU kernel: nms, called twice. With @out NULL one unit is a class of a batch, batch * classes:
 * unit u puts the boxes it keeps in front in its part of order, and their number in kept[u].
 * The second call, of one unit, writes them. Scratch: rlx_k_nms_scratch().
 */
struct rlx_k_nms {
	const void	*boxes;		/* [batch][n][4] */
	const void	*scores;	/* [batch][classes][n] */
	int64_t		*order;		/* [batch][classes][n]: best first; written to */
	int64_t		*out;		/* [count][3] */
	int32_t		*bad;
	int64_t		batch, classes, n, most, count;
	double		iou, score;
	bool		use_score;	/* only boxes above @score */
	bool		center;		/* boxes are middles and sizes, else two corners */
	bool		only_count;
	uint8_t		box_type, score_type;	/* float types of 16 bits or more */
	int64_t		*kept;			/* CPU alone */
};

/* Corners and area of each box that is kept. */
static inline size_t rlx_k_nms_scratch(const struct rlx_k_nms *a)
{
	return (size_t)a->n * 5 * sizeof(double);
}

#endif
