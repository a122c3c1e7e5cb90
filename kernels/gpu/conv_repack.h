/* SPDX-License-Identifier: MIT */
/*
 * A plain x of 16-bit elements repacked to channels innermost, for the kernels of convolutions that
 * read them so: [image][pixel][group][wide], each group's channels filled up with zeros to
 * multiples of 8 (conv_plan.h). Of a strided convolution of one pixel those that it reads.
 *
 * Algorithm: tiles of 64 pixels by 64 channels by way of shared memory, two pixels a thread's load
 * where these are neighbours and aligned, 8 channels its store. A thread's loads are all under way
 * at a time, those of a block's next tile while this one is stored, since a block may be alone on
 * its multiprocessor.
 * Traffic: what is read of x is read and written once.
 */
#ifndef RLX_G_CONV_REPACK_H
#define RLX_G_CONV_REPACK_H

#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/move.h"

enum { REPACK = RLX_G_CONV_REPACK };	/* pixels and channels of a tile */

typedef uint16_t conv_repack_line[REPACK + 2];

struct alignas(16) conv_chunk { uint16_t v[8]; };

/*
 * A tile on its way, by the BLOCK threads of a block. SKIPS is a.skips, known when this is
 * compiled: of a small x the code takes longer to fetch than to run.
 */
template <int BLOCK, bool SKIPS> struct conv_repacking {
	enum { ROWS = BLOCK / (REPACK / 2), EACH = (REPACK + ROWS - 1) / ROWS };

	uint32_t	first[EACH], second[EACH];	/* of pixels: both, or one by one */
	uint16_t	*to;		/* of its first pixel and channel */
	int		n, pixels;	/* channels and pixels of it; 0: it is none */

	/*
	 * Two pixels of some lines, the second @far from the first; @left: those that there are.
	 * Nothing is made of what comes here, lest that be waited for.
	 */
	DEV void load_lines(const uint16_t *from, int64_t far, int64_t step, int lines, int left)
	{
		const int row = (int)threadIdx.x / (REPACK / 2);
		const bool pairs = far == 1 && ((uint64_t)from | (uint64_t)step * 2) % 4 == 0;

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
					second[i] = p[far];
			}
		}
	}

	/* Where in a plane of x pixel @i of those that are turned is. */
	static DEV inline int64_t place(const struct rlx_k_conv_nd &a, int64_t i)
	{
		int64_t at = 0, q[3];

		if (!SKIPS)
			return i;
		for (int d = 2; d >= 0; d--)
			i = divide(i, (int64_t)a.out[d], &q[d]);
		for (int d = 0; d < 3; d++)
			at = at * (int64_t)a.in[d] + q[d] * (int64_t)a.s[d];
		return at;
	}

	DEV void load(const struct rlx_k_conv_nd &a, const uint16_t *x, uint16_t *repacked,
		      int64_t job, int64_t jobs)
	{
		const int64_t channels = (int64_t)(a.ic / a.groups), wide = rlx_g_conv_wide(&a);
		const int64_t plane = (int64_t)(a.in[0] * a.in[1] * a.in[2]);
		const int64_t all = SKIPS ? rlx_g_conv_repacked_pixels(&a) : plane;
		int64_t line, of, image, pixel, c0, group, lines, at;
		int p = (int)threadIdx.x % (REPACK / 2) * 2;

		n = pixels = 0;
		if (job >= jobs)
			return;
		line = divide(job, rlx_g_conv_split(all, REPACK), &pixel);
		of = divide(line, rlx_g_conv_split(wide, REPACK), &c0);
		image = divide(of, (int64_t)a.groups, &group);
		pixel *= REPACK;
		c0 *= REPACK;
		pixels = all - pixel < REPACK ? (int)(all - pixel) : REPACK;
		n = wide - c0 < REPACK ? (int)(wide - c0) : REPACK;
		lines = channels - c0 < n ? channels - c0 : n;
		to = repacked + ((image * all + pixel) * (int64_t)a.groups + group) * wide + c0;
		at = place(a, pixel + p);
		x += image * (int64_t)a.x_n + (group * channels + c0) * plane + at;
		load_lines(x, place(a, pixel + p + 1) - at, plane, (int)lines, pixels - p);
	}

	DEV void put(conv_repack_line *tile) const
	{
		int p = (int)threadIdx.x % (REPACK / 2) * 2, row = (int)threadIdx.x / (REPACK / 2);

#pragma unroll
		for (int i = 0; i < EACH; i++)
			if (row + i * ROWS < REPACK)
				*(uint32_t *)(tile[row + i * ROWS] + p) =
					first[i] | second[i] << 16;
	}
};

/* What has been put there, to its place. */
template <int BLOCK>
static DEV inline void conv_repack_store(const conv_repack_line *tile, uint16_t *to, int n,
					 int pixels, int64_t step)
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

/* All of @x, of @images, to @repacked, by all blocks; @smem: REPACK lines. */
template <int BLOCK, bool SKIPS>
static DEV inline void conv_repack(const struct rlx_k_conv_nd &a, const uint16_t *x,
				   uint16_t *repacked, conv_repack_line *smem, int64_t images)
{
	const int64_t jobs = rlx_g_conv_repacks(&a, images);
	const int64_t blocks = (int64_t)gridDim.x * gridDim.y;
	const int64_t step = (int64_t)a.groups * rlx_g_conv_wide(&a);
	struct conv_repacking<BLOCK, SKIPS> next;

	next.n = next.pixels = 0;
	next.to = repacked;
	for (int64_t j = blockIdx.x + (int64_t)gridDim.x * blockIdx.y - blocks; j < jobs;
	     j += blocks) {
		uint16_t *to = next.to;
		int n = next.n, pixels = next.pixels;

		if (n)
			next.put(smem);
		__syncthreads();
		next.load(a, x, repacked, j + blocks, jobs);
		conv_repack_store<BLOCK>(smem, to, n, pixels, step);
		__syncthreads();
	}
}

#endif
