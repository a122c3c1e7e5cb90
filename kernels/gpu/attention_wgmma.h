/* SPDX-License-Identifier: MIT */
/*
 * What attention and its gradient by wgmma share: rows of heads that a warpgroup brings to
 * swizzled shared memory for up to three others, of 64 rows each, which multiply, and the jobs of a
 * persistent block.
 */
#ifndef RLX_G_ATTENTION_WGMMA_H
#define RLX_G_ATTENTION_WGMMA_H

#include "kernels/gpu/attention_softmax.h"
#include "kernels/gpu/wgmma.h"

/* ATTENTION_GROUPS: warpgroups that multiply. */
enum {
	BF = (bool)mma_kind<half>::bf,
	GROUPS = ATTENTION_GROUPS, ROWS = 64 * GROUPS, THREADS = ATT_THREADS(GROUPS),
	ROW = HD % 64 ? 64 : 128,		/* bytes of a row in the tiles' blocks */
};

/* The @round-th job of this block: there and back, as jobs become shorter. */
static DEV inline uint32_t job_number(uint32_t round)
{
	return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

/* SPAN threads have a row, 16 bytes each, and do each STEP-th row. */
enum {
	SPAN = HD > 128 ? 32 : HD > 64 ? 16 : HD > 32 ? 8 : 4, STEP = GROUP / SPAN,
	PIECES = ROW / 16,
	KINDS = STEP < 8 ? 8 / STEP : 1,	/* rows that change pieces in another way */
};

/* Rows of a head in memory, from this thread's first piece on. */
struct rows {
	const half	*p;
	int64_t		stride;
	int		take;		/* elements of its piece that are there */
	bool		mine, wide;	/* it has a piece; which may be read by 16 bytes */
};

static DEV inline struct rows rows_of(const void *p, const int64_t *stride, int b, int h,
				      int first, int64_t dim)
{
	int r = (int)threadIdx.x / SPAN, c = (int)threadIdx.x % SPAN;
	int64_t left = dim - c * 8;
	struct rows m;

	m.p = (const half *)p + b * stride[0] + h * stride[1] + (first + r) * stride[2] + c * 8;
	m.stride = STEP * stride[2];
	m.take = left <= 0 ? 0 : left < 8 ? (int)left : 8;
	m.mine = SPAN * 8 == HD || c * 8 < HD;
	m.wide = ((uint64_t)p | (uint64_t)((stride[0] | stride[1] | stride[2]) * 2)) % 16 == 0;
	return m;
}

/* Where this thread's piece of its @i-th row lies in a tile of @box bytes a block. */
static DEV inline unsigned char *piece_at(unsigned char *tile, int i, int box)
{
	int r = (int)threadIdx.x / SPAN + i * STEP, c = (int)threadIdx.x % SPAN;

	return tile + c / PIECES * box + r * ROW + tile_piece(r, c % PIECES, ROW) * 16;
}

/*
 * By 16 bytes, of heads that end at such: addresses go on by additions, so that all copies are
 * under way at once. ALL: so many rows are there.
 */
template <int COUNT, bool ALL>
static DEV inline void copy_rows(unsigned char *to, struct rows *m, int left)
{
	shared_at at[KINDS];

	left -= (int)threadIdx.x / SPAN;
#pragma unroll
	for (int i = 0; i < KINDS; i++)
		at[i] = shared_from(piece_at(to, i, COUNT * ROW));
#pragma unroll
	for (int i = 0; i < COUNT / STEP; i++) {
		shared_at p = at[i % KINDS] + i / KINDS * KINDS * STEP * ROW;

		if (m->take && ALL)
			copy_16(p, m->p);
		if (m->take && !ALL)
			copy_16_if(i * STEP < left, p, m->p);
		step_on(&m->p, m->stride * 2);
	}
}

/*
 * A tile of COUNT rows, of which @left are there: zeros beyond, and beyond dim. What copy_rows()
 * can do leaves pieces beyond dim as they are: zeros from the beginning (clear_fill()).
 */
template <int COUNT>
static DEV inline void load_rows(unsigned char *to, struct rows *m, int left, uint64_t *full)
{
	const int box = COUNT * ROW, r = (int)threadIdx.x / SPAN;

	if (m->wide && (m->take == 8 || !m->take)) {
		if (left >= COUNT)
			copy_rows<COUNT, true>(to, m, left);
		else
			copy_rows<COUNT, false>(to, m, left);
		bar_arrive_copies(full);
		return;
	}
#pragma unroll 1
	for (int i = 0; i < COUNT / STEP; i++, m->p += m->stride) {
		int n = r + i * STEP < left ? m->take : 0;
		half *at = (half *)piece_at(to, i, box);

		if (m->wide && m->mine)
			copy_async(at, m->p, 16, n * 2);
#pragma unroll 1
		for (int e = 0; e < 8 && !m->wide && m->mine; e++)
			at[e] = e < n ? m->p[e] : half{};
	}
	if (m->wide)
		bar_arrive_copies(full);
	else
		bar_arrive(full);
}

/* Heads narrower than the tiles: what fills them up is written once, for all tiles. */
static DEV inline void clear_fill(const struct rlx_k_attention &a, unsigned char *tiles, int bytes)
{
	struct alignas(16) piece { uint32_t w[4]; };

	if (a.head_dim == HD && a.v_dim == HD)
		return;
	for (int i = (int)threadIdx.x; i < bytes / 16; i += THREADS)
		((struct piece *)tiles)[i] = piece{};
}

/* Until a stage is full, of what the loading group's threads wrote. */
template <int STAGES>
static DEV inline void await(uint64_t *full, const pipeline_state<STAGES> &t)
{
	bar_wait(&full[t.stage], t.phase);
	wgmma_see();
}

/* c = products of a group's own 64 rows and a tile of N. */
template <int N>
static DEV inline void multiply(float (&c)[N / 2], const unsigned char *own,
				const unsigned char *tile)
{
	const int box_own = ROWS * ROW, box = N * ROW;	/* all rows, ROW bytes of each */
	tile_at ta = tile_from<ROW>(own, box_own), tb = tile_from<ROW>(tile, box);

#pragma unroll
	for (int d = 0; d < HD * 2; d += 32)
		wgmma<N, BF, false, false>(c, tile_plus(ta, d / ROW * box_own + d % ROW),
					   tile_plus(tb, d / ROW * box + d % ROW), d > 0);
	wgmma_commit();
}

/* out += weights times a tile of N rows. */
template <int N>
static DEV inline void add_up(float (&out)[HD / 2], const uint32_t (&p)[N / 4],
			      const unsigned char *tile)
{
	tile_at t = tile_from<ROW>(tile, N * ROW);

#pragma unroll
	for (int k = 0; k < N; k += MMA_K)
		wgmma_lanes<HD, BF>(out, p + k / 4, tile_plus(t, k * ROW));
	wgmma_commit();
}

#endif
