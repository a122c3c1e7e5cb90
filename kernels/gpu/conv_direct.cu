// SPDX-License-Identifier: MIT
/*
 * Convolutions of few outputs with long sums (1,024 terms or more: gradients of weights).
 *
 * Algorithm: a block for each output, whose threads take every 256th term and add up through
 * shared memory. Traffic: y once; x and weights for each output.
 * Limits: not for transposed ones; sums are f32 (of f64 f64), in one order.
 */
#define CONV_TRANSPOSED	0
#define RLX_G_BLOCKS	3	/* so many hide the time that memory takes */
#include "kernels/gpu/conv.h"

RLX_G_KERNEL(conv_direct, struct rlx_k_conv_nd, 256)
{
	SHARED(real, smem, [MAX_WARPS]);
	struct conv_ends o = conv_ends_of(a, env, false, 0);
	int64_t n = (int64_t)(a.n * a.oc) * o.plane;

	for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
		int64_t pixel, channel, row, image, group, place;
		struct conv c;
		struct conv_col at;
		real sum = 0;

		image = divide(divide(i, o.plane, &pixel), (int64_t)a.oc, &channel);
		group = divide(channel, (int64_t)(a.oc / a.groups), &row);
		c = conv_at(a, env, 0, group);
		at = conv_col_at(a, c, image * o.plane + pixel);
		for (int k = (int)threadIdx.x; k < c.depth; k += 256) {
			struct conv_term t = conv_term_at(c, k);
			int64_t x = conv_begin(a, at) + conv_offset(a, c, t);
			int64_t w = row * c.row_step + conv_weight(a, c, t);

			for (int d = 0; d < 3; d++)
				t.j[d] *= c.dim[d].d;
			if (conv_inside(a, at.at, t.j))
				sum += elem::get(c.x[x]) * elem::get(c.w[w]);
		}
		sum = block_reduce<op_sum>(sum, smem);
		place = i - channel * o.plane;
		if (threadIdx.x == 0)
			conv_end<1>(a, o, channel, &place, &sum);
	}
}
