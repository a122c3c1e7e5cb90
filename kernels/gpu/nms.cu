// SPDX-License-Identifier: MIT
/*
 * Non-maximum suppression: the boxes of each class that no better one covers.
 *
 * Algorithm: greedy. Boxes come in order of their scores (topk.cu before). A block a class goes
 * down that order; a box that is still there is kept, and 256 threads test all behind it by
 * intersection over union and mark what it covers. A second launch adds up the counts of the
 * classes before and writes (batch, class, box).
 * Traffic: boxes are read once for each one kept, from caches, after the order's 8 bytes; a byte of
 * scratch a box says that it is gone. O(n x kept) tests and a barrier for each kept box: the time
 * is that of the class that keeps most.
 * Source: greedy suppression as in Girshick et al., "R-CNN" (2014); semantics of ONNX
 * NonMaxSuppression. Limits: 65,536 classes times batch, since in the second launch each block
 * adds up all counts; float types of 16 bits or more, computed in f64.
 */
#include "kernels/gpu/move.h"
#include "kernels/nms.h"

struct box {
	double	y0, x0, y1, x1;
};

/* A NaN gives way, as in fmin() and fmax(). */
static DEV inline double lower_of(double a, double b)
{
	return a < b || b != b ? a : b;
}

static DEV inline double upper_of(double a, double b)
{
	return a > b || b != b ? a : b;
}

static DEV inline struct box box_at(const struct rlx_k_nms &a, const void *boxes, int64_t i)
{
	double v[4];

	for (int k = 0; k < 4; k++)
		v[k] = load_real(boxes, 4 * i + k, a.box_type);
	if (a.center)
		return box{ v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2 };
	return box{ lower_of(v[0], v[2]), lower_of(v[1], v[3]), upper_of(v[0], v[2]),
		    upper_of(v[1], v[3]) };
}

static DEV inline bool overlap(struct box p, struct box r, double iou)
{
	double h = lower_of(p.y1, r.y1) - upper_of(p.y0, r.y0);
	double w = lower_of(p.x1, r.x1) - upper_of(p.x0, r.x0), both = h * w;
	double all = (p.y1 - p.y0) * (p.x1 - p.x0) + (r.y1 - r.y0) * (r.x1 - r.x0) - both;

	return h > 0 && w > 0 && all > 0 && both / all > iou;
}

/* The kept boxes of a class move to the front of @order; returns how many. */
static DEV inline int64_t keep(const struct rlx_k_nms &a, const void *boxes, int64_t first,
			       int64_t *order, uint8_t *gone)
{
	int64_t kept = 0;

	for (int64_t i = 0; i < a.n && kept < a.most; i++) {
		struct box p;

		if (gone[i])
			continue;
		p = box_at(a, boxes, first + order[i]);
		for (int64_t j = i + 1 + threadIdx.x; j < a.n; j += 256)
			if (!gone[j] && overlap(p, box_at(a, boxes, first + order[j]), a.iou))
				gone[j] = 1;
		if (threadIdx.x == 0)
			order[kept] = order[i];
		kept++;
		__syncthreads();
	}
	return kept;
}

RLX_G_KERNEL(nms, struct rlx_k_nms, 256)
{
	SHARED(int64_t, smem, [MAX_WARPS]);
	const void *boxes = RLX_G_PTR(const void, a.boxes);
	const void *scores = RLX_G_PTR(const void, a.scores);
	int64_t *order = RLX_G_PTR(int64_t, a.order), *out = RLX_G_PTR(int64_t, a.out);
	int64_t line = blockIdx.x, at = line * a.n, lines = a.batch * a.classes;
	int64_t *count = (int64_t *)env.scratch, sum = 0, before = 0;
	uint8_t *gone = (uint8_t *)(count + lines) + at;

	if (env.pass == 0) {
		for (int64_t j = threadIdx.x; j < a.n; j += 256)
			gone[j] = a.use_score && !(load_real(scores, at + order[at + j],
							     a.score_type) > a.score);
		__syncthreads();
		sum = keep(a, boxes, line / a.classes * a.n, order + at, gone);
		if (threadIdx.x == 0)
			count[line] = sum;
		return;
	}
	for (int64_t i = threadIdx.x; i < lines; i += 256) {
		sum += count[i];
		before += i < line ? count[i] : 0;
	}
	sum = block_reduce<op_sum>(sum, smem);
	before = block_reduce<op_sum>(before, smem);
	if (a.only_count) {
		if (line == 0 && threadIdx.x == 0)
			*out = sum;
		return;
	}
	if (sum != a.count && line == 0 && threadIdx.x == 0)
		*RLX_G_PTR(int32_t, a.bad) = 1;
	for (int64_t i = threadIdx.x; i < count[line] && before + i < a.count; i += 256) {
		out[3 * (before + i)] = line / a.classes;
		out[3 * (before + i) + 1] = line % a.classes;
		out[3 * (before + i) + 2] = order[at + i];
	}
}
