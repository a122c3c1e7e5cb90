/* SPDX-License-Identifier: MIT */
/*
 * A plain x of 16-bit elements turned to channels innermost, for the kernels of convolutions that
 * read them so: [image][pixel][group][wide], each group's channels filled up with zeros to
 * multiples of 8 (conv_plan.h).
 *
 * Algorithm: tiles of 64 pixels by 64 channels by way of shared memory, two pixels a thread's load
 * where these are aligned, 8 channels its store. A thread's loads are all under way at a time,
 * those of a block's next tile while this one is stored, since a block may be alone on its
 * multiprocessor.
 * Traffic: x is read and written once.
 */
#ifndef RLX_G_CONV_TURN_H
#define RLX_G_CONV_TURN_H

#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/move.h"

enum { TURN = RLX_G_CONV_TURN };	/* pixels and channels of a tile */

typedef uint16_t conv_turn_line[TURN + 2];

struct alignas(16) conv_chunk { uint16_t v[8]; };

/* A tile on its way, by the BLOCK threads of a block. */
template <int BLOCK> struct conv_turning {
	enum { ROWS = BLOCK / (TURN / 2), EACH = (TURN + ROWS - 1) / ROWS };

	uint32_t	first[EACH], second[EACH];	/* of pixels: both, or one by one */
	uint16_t	*to;		/* of its first pixel and channel */
	int		n, pixels;	/* channels and pixels of it; 0: it is none */

	/* Nothing is made of what comes here, lest that be waited for. */
	DEV void load_lines(const uint16_t *from, int64_t step, int lines, int left)
	{
		const int row = (int)threadIdx.x / (TURN / 2);
		const bool pairs = ((uint64_t)from | (uint64_t)step * 2) % 4 == 0;

#pragma unroll
		for (int i = 0; i < EACH; i++) {
			const uint16_t *p = from + (row + i * ROWS) * step;
			bool in = row + i * ROWS < lines;

			first[i] = second[i] = 0;
			if (pairs) {
				if (in && left > 0)
					first[i] = *(const uint32_t *)p;
			} else {
				if (in && left > 0)
					first[i] = p[0];
				if (in && left > 1)
					second[i] = p[1];
			}
		}
	}

	DEV void load(const struct rlx_k_conv_nd &a, const uint16_t *x, uint16_t *turned,
		      int64_t job, int64_t jobs)
	{
		const int64_t channels = (int64_t)(a.ic / a.groups), wide = rlx_g_conv_wide(&a);
		const int64_t all = (int64_t)(a.in[0] * a.in[1] * a.in[2]);
		int64_t line, of, image, pixel, c0, group, lines;
		int p = (int)threadIdx.x % (TURN / 2) * 2;

		n = pixels = 0;
		if (job >= jobs)
			return;
		line = divide(job, rlx_g_conv_split(all, TURN), &pixel);
		of = divide(line, rlx_g_conv_split(wide, TURN), &c0);
		image = divide(of, (int64_t)a.groups, &group);
		pixel *= TURN;
		c0 *= TURN;
		pixels = all - pixel < TURN ? (int)(all - pixel) : TURN;
		n = wide - c0 < TURN ? (int)(wide - c0) : TURN;
		lines = channels - c0 < n ? channels - c0 : n;
		to = turned + ((image * all + pixel) * (int64_t)a.groups + group) * wide + c0;
		x += image * (int64_t)a.x_n + (group * channels + c0) * all + pixel + p;
		load_lines(x, all, (int)lines, pixels - p);
	}

	DEV void put(conv_turn_line *tile) const
	{
		int p = (int)threadIdx.x % (TURN / 2) * 2, row = (int)threadIdx.x / (TURN / 2);

#pragma unroll
		for (int i = 0; i < EACH; i++)
			if (row + i * ROWS < TURN)
				*(uint32_t *)(tile[row + i * ROWS] + p) =
					first[i] | second[i] << 16;
	}
};

/* What has been put there, to its place. */
template <int BLOCK>
static DEV inline void conv_turn_store(const conv_turn_line *tile, uint16_t *to, int n, int pixels,
				       int64_t step)
{
	const int chunks = n / 8;

	for (int e = (int)threadIdx.x; e < chunks * pixels; e += BLOCK) {
		int q = e / chunks, c = (e - q * chunks) * 8;
		struct conv_chunk out;

#pragma unroll
		for (int i = 0; i < 8; i++)
			out.v[i] = tile[c + i][q];
		*(struct conv_chunk *)(to + q * step + c) = out;
	}
}

/* All of @x, of @images, to @turned, by all blocks; @smem: TURN lines. */
template <int BLOCK>
static DEV inline void conv_turn(const struct rlx_k_conv_nd &a, const uint16_t *x,
				 uint16_t *turned, conv_turn_line *smem, int64_t images)
{
	const int64_t jobs = rlx_g_conv_turns(&a, images), blocks = (int64_t)gridDim.x * gridDim.y;
	const int64_t step = (int64_t)a.groups * rlx_g_conv_wide(&a);
	struct conv_turning<BLOCK> next;

	next.n = next.pixels = 0;
	next.to = turned;
	for (int64_t j = blockIdx.x + (int64_t)gridDim.x * blockIdx.y - blocks; j < jobs;
	     j += blocks) {
		uint16_t *to = next.to;
		int n = next.n, pixels = next.pixels;

		if (n)
			next.put(smem);
		__syncthreads();
		next.load(a, x, turned, j + blocks, jobs);
		conv_turn_store<BLOCK>(smem, to, n, pixels, step);
		__syncthreads();
	}
}

#endif
