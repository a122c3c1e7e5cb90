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

/* What is repacked, and in how many tiles: of which the last of a plane may be smaller. */
struct conv_repack_plan {
	const uint16_t	*x;
	uint16_t	*to;
	int64_t		image, plane, all;	/* elements of x, of a channel; pixels repacked */
	uint32_t	jobs, across, down, groups;
	int		channels, wide;		/* of a group */

	DEV conv_repack_plan(const struct rlx_k_conv_nd &a, const uint16_t *from,
			     uint16_t *repacked, int64_t images)
		: x(from), to(repacked), image((int64_t)a.x_n),
		  plane((int64_t)(a.in[0] * a.in[1] * a.in[2])),
		  all(rlx_g_conv_repacked_pixels(&a)), groups((uint32_t)a.groups),
		  channels((int)rlx_g_conv_group(&a, a.ic))
	{
		wide = (channels + 7) / 8 * 8;
		across = (uint32_t)rlx_g_conv_split(all, REPACK);
		down = (uint32_t)(wide + REPACK - 1) / REPACK;
		jobs = (uint32_t)images * groups * down * across;
	}
};

/* A tile on its way, by the BLOCK threads of a block. */
template <int BLOCK> struct conv_repacking {
	enum { ROWS = BLOCK / (REPACK / 2), EACH = (REPACK + ROWS - 1) / ROWS };

	uint32_t	first[EACH], second[EACH];	/* of pixels: both, or one by one */
	uint16_t	*to;		/* of its first pixel and channel */
	int		n, pixels;	/* channels and pixels of it; 0: it is none */

	/*
	 * Lines of a channel, of which two pixels lie at @at; @left: those that there are. Nothing
	 * is made of what comes here, lest that be waited for.
	 */
	DEV void load_lines(const uint16_t *from, const int64_t *at, int64_t step, int lines,
			    int left)
	{
		const int row = (int)threadIdx.x / (REPACK / 2);
		const bool pairs = at[1] == at[0] + 1 &&
				   ((uint64_t)(from + at[0]) | (uint64_t)step * 2) % 4 == 0;

#pragma unroll
		for (int i = 0; i < EACH; i++) {
			const uint16_t *p = from + (row + i * ROWS) * step;
			bool in = row + i * ROWS < lines;

			first[i] = second[i] = 0;
			if (pairs) {
				if (in && left > 0)
					first[i] = *(const uint32_t *)(p + at[0]);
			} else {
				if (in && left > 0)
					first[i] = p[at[0]];
				if (in && left > 1)
					second[i] = p[at[1]];
			}
		}
	}

	/* Where in a plane of x pixel @i of those that are turned is. */
	static DEV inline int64_t place(const struct rlx_k_conv_nd &a, int64_t i)
	{
		int64_t at = 0, q[3];

		if (!a.skips)
			return i;
		for (int d = 2; d >= 0; d--)
			i = divide(i, (int64_t)a.out[d], &q[d]);
		for (int d = 0; d < 3; d++)
			at = at * (int64_t)a.in[d] + q[d] * (int64_t)a.s[d];
		return at;
	}

	DEV void load(const struct rlx_k_conv_nd &a, const struct conv_repack_plan &t,
		      uint32_t job)
	{
		const int p = (int)threadIdx.x % (REPACK / 2) * 2;
		uint32_t line = job / t.across, of = line / t.down, image = of / t.groups;
		int64_t pixel = (int64_t)(job - line * t.across) * REPACK, at[2];
		int c0 = (int)(line - of * t.down) * REPACK;
		int64_t group = of - image * t.groups;

		n = pixels = 0;
		if (job >= t.jobs)
			return;
		pixels = t.all - pixel < REPACK ? (int)(t.all - pixel) : REPACK;
		n = t.wide - c0 < REPACK ? t.wide - c0 : REPACK;
		to = t.to + ((image * t.all + pixel) * t.groups + group) * t.wide + c0;
		for (int i = 0; i < 2; i++)
			at[i] = place(a, pixel + p + i);
		load_lines(t.x + image * t.image + (group * t.channels + c0) * t.plane, at, t.plane,
			   t.channels - c0 < n ? t.channels - c0 : n, pixels - p);
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
template <int BLOCK>
static DEV inline void conv_repack(const struct rlx_k_conv_nd &a, const uint16_t *x,
				   uint16_t *repacked, conv_repack_line *smem, int64_t images)
{
	const struct conv_repack_plan plan(a, x, repacked, images);
	const uint32_t blocks = gridDim.x * gridDim.y;
	const int64_t step = (int64_t)plan.groups * plan.wide;
	struct conv_repacking<BLOCK> next;

	/* it begins with none, so that loads are in the code once: a small x waits for that */
	next.n = next.pixels = 0;
	next.to = repacked;
	for (int64_t j = blockIdx.x + gridDim.x * blockIdx.y - (int64_t)blocks; j < plan.jobs;
	     j += blocks) {
		uint16_t *to = next.to;
		int n = next.n, pixels = next.pixels;

		if (n)
			next.put(smem);
		__syncthreads();
		next.load(a, plan, (uint32_t)(j + blocks));
		conv_repack_store<BLOCK>(smem, to, n, pixels, step);
		__syncthreads();
	}
}

#endif
