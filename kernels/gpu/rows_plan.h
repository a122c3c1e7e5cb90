/* SPDX-License-Identifier: MIT */
/*
 * How a row is shared out among threads, for kernels of rows and for their launch on the host.
 *
 * A row is LANES threads' (a part of a warp, a warp or a block), who have CHUNKS vectors of VEC
 * elements each: vector c * LANES + lane. So neighbouring threads read neighbouring vectors, and
 * all that a row has is under way at a time and then in registers. Rows that are longer than
 * registers hold are taken in pieces of that size.
 * Macros alone: this is read by C, by NVRTC and hipcc, and by the emulator.
 */
#ifndef RLX_G_ROWS_PLAN_H
#define RLX_G_ROWS_PLAN_H

/*
 * ROW_LANES, ROW_VEC, ROW_CHUNKS and ROW_PIECES in one number, for the macros below; @pieces: rows
 * are longer than LANES * CHUNKS vectors
 */
#define ROWS_KEY(lanes, vec, chunks, pieces)	\
	((lanes) | (vec) << 11 | (chunks) << 15 | (pieces) << 21)
#define ROWS_LANES(key)		((key) & 2047)
#define ROWS_VEC(key)		((key) >> 11 & 15)
#define ROWS_CHUNKS(key)	((key) >> 15 & 63)
#define ROWS_PIECES(key)	((key) >> 21 & 1)
#ifdef ROW_LANES	/* of a kernel */
#define ROWS_SHARE	ROWS_KEY(ROW_LANES, ROW_VEC, ROW_CHUNKS, ROW_PIECES)
#endif
/* Of a block: short rows have four warps, so that few rows are many blocks. */
#define ROWS_THREADS(key)	(ROWS_LANES(key) > 32 ? ROWS_LANES(key) : 128)

#define ROWS_MOST_LANES		1024
/* Elements that a thread keeps; of large blocks fewer, for two of them in a multiprocessor */
#define ROWS_MOST_OWN(lanes)	((lanes) < 512 ? 32 : 20)
#define ROWS_PIECE_LANES	512	/* of rows in pieces, and elements of each */
#define ROWS_PIECE_OWN		16
#define ROWS_MOST_SPLITS	1024	/* blocks that share a row in pieces */

/*
 * Blocks that a multiprocessor is to hold: 1,280 threads of 48 registers, 1,024 of 64 where each
 * keeps more than 16 elements, 768 of 80 where more than 24. More registers make no access faster,
 * fewer threads hide less.
 */
#define ROWS_OWN(key)		(ROWS_VEC(key) * ROWS_CHUNKS(key))
#define ROWS_RESIDENT(key)	(ROWS_OWN(key) > 24 ? 768 : ROWS_OWN(key) > 16 ? 1024 : 1280)
#define ROWS_BLOCKS(key)	(ROWS_THREADS(key) > ROWS_RESIDENT(key) ? 1 : \
				 ROWS_RESIDENT(key) / ROWS_THREADS(key))

/*
 * Likewise where a thread has x, dy, and two sums for each of its elements (norm_grad): five
 * registers an element, and 48 around them, of 65,536.
 */
#define ROWS_GRAD_FIT(key)	(65536 / ((5 * ROWS_OWN(key) + 48) * ROWS_THREADS(key)))
#define ROWS_GRAD_BLOCKS(key)	(ROWS_GRAD_FIT(key) > 8 ? 8 : ROWS_GRAD_FIT(key) ? \
				 ROWS_GRAD_FIT(key) : 1)

/*
 * Columns: VEC of them side by side are LANES threads', who have every LANES-th element of each,
 * CHUNKS in all, or in pieces of so many. COLS_LEAST vectors stand side by side in a block, or
 * all that memory has side by side.
 */
#define COLS_THREADS		256
#define COLS_LEAST(vec, size)	((vec) * (size) < 8 ? 64 / ((vec) * (size)) : 8)
#define COLS_BLOCKS(key)	(ROWS_PIECES(key) ? 4 : ROWS_RESIDENT(key) / COLS_THREADS)

#endif
