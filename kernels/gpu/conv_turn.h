/* SPDX-License-Identifier: MIT */
/*
 * A plain x of 16-bit elements turned to channels innermost, for the kernels of convolutions that
 * read them so: [image][pixel][group][wide], each group's channels filled up with zeros to
 * multiples of 8 (conv_plan.h).
 *
 * Algorithm: tiles of 64 pixels by 64 channels by way of shared memory, two pixels a thread's load
 * where these are aligned, 8 channels its store; a thread's loads are all under way at a time.
 * Traffic: x is read and written once.
 */
#ifndef RLX_G_CONV_TURN_H
#define RLX_G_CONV_TURN_H

#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/move.h"

enum { TURN = 64 };	/* pixels and channels of a tile */

typedef uint16_t conv_turn_line[TURN + 2];

struct alignas(16) conv_chunk { uint16_t v[8]; };
struct alignas(4) conv_pair { uint16_t v[2]; };

/* Tiles of @images. */
static DEV inline int64_t conv_turn_jobs(const struct rlx_k_conv_nd &a, int64_t images)
{
	return images * (int64_t)a.groups *
	       rlx_g_conv_split((int64_t)(a.in[0] * a.in[1] * a.in[2]), TURN) *
	       rlx_g_conv_split(rlx_g_conv_wide(&a), TURN);
}

/* Tile @job of @x to @turned, by the BLOCK threads of a block; @smem: TURN lines. */
template <int BLOCK>
static DEV inline void conv_turn(const struct rlx_k_conv_nd &a, const uint16_t *x,
				 uint16_t *turned, conv_turn_line *smem, int64_t job)
{
	enum { ROWS = BLOCK / (TURN / 2), EACH = (TURN + ROWS - 1) / ROWS };
	int64_t channels = (int64_t)(a.ic / a.groups), wide = rlx_g_conv_wide(&a);
	int64_t pixels = (int64_t)(a.in[0] * a.in[1] * a.in[2]), pixel, c0, group, image;
	int n, p = (int)threadIdx.x % (TURN / 2) * 2, row = (int)threadIdx.x / (TURN / 2);
	struct conv_pair v[EACH];
	bool pairs;

	job = divide(job, rlx_g_conv_split(pixels, TURN), &pixel);
	job = divide(job, rlx_g_conv_split(wide, TURN), &c0);
	image = divide(job, (int64_t)a.groups, &group);
	pixel *= TURN;
	c0 *= TURN;
	n = wide - c0 < TURN ? (int)(wide - c0) : TURN;
	x += image * (int64_t)a.x_n + (group * channels + c0) * pixels + pixel;
	turned += ((image * pixels + pixel) * (int64_t)a.groups + group) * wide + c0;
	pairs = ((uint64_t)x | (uint64_t)pixels * 2) % 4 == 0;
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		int c = row + i * ROWS;
		const uint16_t *from = x + c * pixels + p;
		bool in = c < n && c0 + c < channels && pixel + p < pixels;

		v[i] = conv_pair();
		if (in && pairs) {
			v[i] = *(const struct conv_pair *)from;
		} else if (in) {
			v[i].v[0] = from[0];
			if (pixel + p + 1 < pixels)
				v[i].v[1] = from[1];
		}
	}
#pragma unroll
	for (int i = 0; i < EACH; i++)
		if (row + i * ROWS < TURN)
			*(struct conv_pair *)(smem[row + i * ROWS] + p) = v[i];
	__syncthreads();
	for (int e = (int)threadIdx.x; e < n / 8 * TURN; e += BLOCK) {
		int q = e / (n / 8), c = e % (n / 8) * 8;
		struct conv_chunk to;

#pragma unroll
		for (int i = 0; i < 8; i++)
			to.v[i] = smem[c + i][q];
		if (pixel + q < pixels)
			*(struct conv_chunk *)(turned + q * (int64_t)a.groups * wide + c) = to;
	}
	__syncthreads();
}

#endif
