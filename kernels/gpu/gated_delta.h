/* SPDX-License-Identifier: MIT */
/* What the two kernels of the gated delta rule by chunks share: tiles, and a chunk's place. */
#ifndef RLX_G_GATED_DELTA_H
#define RLX_G_GATED_DELTA_H

#include "kernels/gpu/mma.h"
#include "kernels/ssm.h"

typedef rlx_t<DELTA_TYPE>::mem mem;

/* Rows in shared memory are 16 bytes longer, so that eight of them share no bank. */
enum {
	CHUNK = RLX_K_DELTA_CHUNK, TEAM = RLX_K_SSM_THREADS, WARPS = TEAM / WARP,
	KEYS = DELTA_KEYS, PIECE = 8,		/* numbers of 16 bytes */
	KEYS_LD = KEYS + PIECE, CHUNK_LD = CHUNK + PIECE,
	ROW_TILES = CHUNK / MMA_M / WARPS,	/* of a chunk, that a warp of a team has */
};

/*
 * What is prepared of a chunk: w[CHUNK][KEYS] and u[CHUNK][dv], with which w S is taken from u to
 * make what is written; p[CHUNK][CHUNK], that times k q; rates[3][CHUNK]: of a step's query, of a
 * step's key to the chunk's end, and of the chunk.
 */
struct prepared {
	mem	*w, *u, *p;
	float	*rates;
};

static DEV inline prepared prepared_of(const struct rlx_k_gated_delta &a,
				       const struct rlx_g_env &env, int64_t item)
{
	unsigned char *at = RLX_G_PTR(unsigned char, a.work) +
			    item * (int64_t)rlx_k_gated_delta_item(KEYS, a.dv);
	mem *w = (mem *)at, *u = w + CHUNK * KEYS, *p = u + CHUNK * a.dv;

	return { w, u, p, (float *)(p + CHUNK * CHUNK) };
}

/* The number of a warp's first row tile; its team's first column, of @teams that share @cols. */
static DEV inline int row_warp(void)
{
	return warp_id() % WARPS;
}

static DEV inline int first_col(int cols, int teams)
{
	return warp_id() / WARPS % teams * (cols / teams);
}

/* By @THREADS: rows of @WIDTH numbers, a multiple of 8, of which @have are there, to @dst. */
template <int WIDTH, int THREADS>
static DEV inline void bring_rows(mem *dst, int ld, const mem *src, int64_t step, int rows,
				  int64_t have)
{
	for (int e = (int)threadIdx.x % THREADS; e < CHUNK * WIDTH / PIECE; e += THREADS) {
		const int row = e / (WIDTH / PIECE), col = e % (WIDTH / PIECE) * PIECE;
		const bool in = row < rows && col < have;

		copy_async(dst + row * ld + col, src + (in ? row * step + col : 0), 16,
			   in ? 16 : 0);
	}
}

/* Sums of a product, as 16-bit floats, to @dst, whose element (0, 0) is theirs. */
static DEV inline void put_sums(mem *dst, int64_t ld, const float *c)
{
	if (WARP == 32) {
#pragma unroll
		for (int i = 0; i < MMA_C; i += 2)
			*(uint32_t *)(dst + mma_c_row(i) * ld + mma_c_col(i)) =
				pack_halves<mem>(c[i], c[i + 1]);
		return;
	}
#pragma unroll
	for (int i = 0; i < MMA_C; i++)
		dst[mma_c_row(i) * ld + mma_c_col(i)] = from_f32<mem>(c[i]);
}

/* c[N] += a times the columns at @s, a step of MMA_K along k; see mma_load_b(). */
template <int N>
static DEV inline void mma_row(float (*c)[MMA_C], const uint32_t *a, const mem *s, int ld,
			       bool trans)
{
	uint32_t b[2][MMA_B];

#pragma unroll
	for (int j = 0; j < N; j += 2) {
		mma_load_b_two<mem>(b, s + j * MMA_N * (trans ? 1 : ld), ld, trans);
		mma<mem>(c[j], a, b[0]);
		mma<mem>(c[j + 1], a, b[1]);
	}
}

#endif
