/* SPDX-License-Identifier: MIT */
/*
 * Sizes of attention by tensor cores and of f32 by tiles, for the kernels and for their launch on
 * the host.
 *
 * Widths of a head are filled up to 32, 64, 96, 128 or 256, each a module of its own. By wgmma a
 * block has 64 queries a warpgroup, of which there are up to two (three of heads 64 wide), and
 * tiles of 64 to 160 keys, in two stages: what registers and shared memory allow, as more queries
 * a block mean fewer reads of k and v, but fewer blocks. Registers move from the warpgroup that
 * loads to those that compute (setmaxnreg). What makes scores more than scaled products is a
 * parameter, so that plain attention has no code for it.
 * Macros alone: this is read by C, by NVRTC and hipcc, and by the emulator.
 */
#ifndef RLX_G_ATTENTION_PLAN_H
#define RLX_G_ATTENTION_PLAN_H

#define ATT_WARPGROUPS(hd)		((hd) == 64 ? 3 : 2)	/* of 64 queries each, at most */
#define ATT_KEYS(hd)		((hd) == 32 || (hd) == 256 ? 64 : (hd) == 128 ? 160 : 128)
#define ATT_THREADS(groups)	(((groups) + 1) * 128)
/* Of a multiprocessor, at a time. */
#define ATT_BLOCKS(hd, groups)	((hd) == 32 || ((groups) == 1 && (hd) < 128) ? 2 : 1)
#define ATT_Q_BYTES(hd, groups)	((groups) * 64 * (hd) * 2)
#define ATT_KV_BYTES(hd)	(ATT_KEYS(hd) * (hd) * 2)
/* Queries, two stages of keys and of values, barriers. */
#define ATT_SHARED(hd, groups)	(ATT_Q_BYTES(hd, groups) + 4 * ATT_KV_BYTES(hd) + 80)
/* Decoding (attention_decode.cu): rows of a tile, warps that share its keys, keys of a step. */
#define ATT_DECODE_ROWS		16
#define ATT_DECODE_WARPS	4
#define ATT_DECODE_KEYS(hd)	((hd) > 64 ? 16 : 32)
/* Of f32 (attention_f32.cu): keys of a tile, threads, bytes by queries and width of a head. */
#define ATT_EXACT_KEYS		64
#define ATT_EXACT_THREADS	128
#define ATT_EXACT_SHARED(rows, hd) \
	(4 * ((hd) * ((rows) + 4) + (hd) * 68 + 64 * ((hd) + 4) + 64 * ((rows) + 4)))
/* With strict bits (attention_ordered.cu): queries of a block, and what else it has. */
#define ATT_ORDERED_ROWS	16
#define ATT_ORDERED_SHARED(v_dim)	(16384 + 4 * ATT_ORDERED_ROWS * (v_dim))
/* The gradient (attention_grad_mma.cu): keys or queries of a tile, bytes of a block of @rows. */
#define ATT_GRAD_TILE(hd)	((hd) > 64 ? 32 : 64)
#define ATT_GRAD_SHARED(hd, rows) \
	(4 * ((rows) + 2 * ATT_GRAD_TILE(hd)) * ((hd) + 8) + 16 * ATT_GRAD_TILE(hd))
/*
 * The same by wgmma (attention_grad_wgmma.cu): warpgroups of 64 rows each, blocks of a
 * multiprocessor, rows of a tile, its stages, bytes of a block with its barriers.
 */
#define ATT_GRAD_GROUPS		2
#define ATT_GRAD_BLOCKS(groups)	((groups) == 1 ? 2 : 1)
#define ATT_GRAD_KEYS(hd)	((hd) > 64 ? 32 : 64)
#define ATT_GRAD_STAGES		4
#define ATT_GRAD_WGMMA_SHARED(hd, groups) \
	(4 * (hd) * ((groups) * 64 + ATT_GRAD_STAGES * ATT_GRAD_KEYS(hd)) + \
	 8 * ATT_GRAD_STAGES * ATT_GRAD_KEYS(hd) + 16 * (ATT_GRAD_STAGES + 1))
/*
 * Registers of a thread: what a block begins with, if @blocks are together, of one that loads, of
 * one that computes, which have all that is left, 232 at most.
 */
#define ATT_REGS_BEGIN(groups, blocks)	(65536 / (ATT_THREADS(groups) * (blocks)) / 8 * 8)
#define ATT_REGS_LOAD(hd)	((hd) <= 64 ? 32 : 40)
#define ATT_REGS_LEFT(hd, groups, blocks) \
	((ATT_REGS_BEGIN(groups, blocks) * ((groups) + 1) - ATT_REGS_LOAD(hd)) / (groups) / 8 * 8)
#define ATT_REGS_OF(hd, groups, blocks) \
	(ATT_REGS_LEFT(hd, groups, blocks) < 232 ? ATT_REGS_LEFT(hd, groups, blocks) : 232)
#define ATT_REGS(hd, groups)	ATT_REGS_OF(hd, groups, ATT_BLOCKS(hd, groups))
#define ATT_GRAD_REGS(hd, groups) ATT_REGS_OF(hd, groups, ATT_GRAD_BLOCKS(groups))

#endif
