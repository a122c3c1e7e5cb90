/* SPDX-License-Identifier: MIT */
/*
 * Sizes of attention by tensor cores and of f32 by tiles, for the kernels and for their launch on
 * the host.
 *
 * Widths of a head are filled up to 32, 64, 96, 128 or 256, each a module of its own. By wgmma a
 * block has 128 queries (192 of heads 64 wide) and tiles of 64 to 160 keys, in two stages: what
 * registers and shared memory allow, as more queries a block mean fewer reads of k and v.
 * Registers move from the warpgroup that loads to those that compute (setmaxnreg). What makes
 * scores more than scaled products is a parameter, so that plain attention has no code for it.
 * Macros alone: this is read by C, by NVRTC and hipcc, and by the emulator.
 */
#ifndef RLX_G_ATTENTION_PLAN_H
#define RLX_G_ATTENTION_PLAN_H

#define ATT_WARPGROUPS(hd)		((hd) == 64 ? 3 : 2)	/* of 64 queries each */
#define ATT_KEYS(hd)		((hd) == 32 || (hd) == 256 ? 64 : (hd) == 128 ? 160 : 128)
#define ATT_THREADS(hd)		((ATT_WARPGROUPS(hd) + 1) * 128)
#define ATT_BLOCKS(hd)		((hd) == 32 ? 2 : 1)	/* of a multiprocessor, at a time */
#define ATT_Q_BYTES(hd)		(ATT_WARPGROUPS(hd) * 64 * (hd) * 2)
#define ATT_KV_BYTES(hd)	(ATT_KEYS(hd) * (hd) * 2)
/* Queries, two stages of keys and of values, barriers. */
#define ATT_SHARED(hd)		(ATT_Q_BYTES(hd) + 4 * ATT_KV_BYTES(hd) + 80)
/* Of f32 (attention_f32.cu): keys of a tile, threads, bytes by queries and width of a head. */
#define ATT_EXACT_KEYS		64
#define ATT_EXACT_THREADS	128
#define ATT_EXACT_SHARED(rows, hd) \
	(4 * ((hd) * ((rows) + 4) + (hd) * 68 + 64 * ((hd) + 4) + 64 * ((rows) + 4)))
/* Registers of a thread that computes, and of one that loads: of all, what a block begins with. */
#define ATT_REGS(hd)		((hd) == 32 ? 104 : (hd) == 64 ? 160 : 232)
#define ATT_REGS_LOAD(hd)	((hd) <= 64 ? 32 : 40)

#endif
