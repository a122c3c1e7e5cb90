/* SPDX-License-Identifier: MIT */
/*
 * The tile dialect: what the AMX kernels do with the eight tile registers, by the
 * instructions, or emulated where RLX_TILE_EMU is defined. Registers are literal
 * numbers; @p with rows @ld bytes apart; c += a b with a in rows, b in groups of
 * four bytes along K.
 *
 *	TILE_ZERO(t), TILE_LOAD(t, p, ld), TILE_STORE(t, p, ld)
 *	TILE_DP_BF16(c, a, b)	f32 sums of pairs, to nearest even, without denormals
 *	TILE_DP_SS8(c, a, b)	int32 sums of four bytes: a signed, b signed;
 *				_SU8 _US8 _UU8 likewise
 *	tile_config(shape)	shapes of the registers, which become 0
 *	tile_release()		the registers are as if never used: a context switch
 *				saves, and a signal frame holds, nothing of them
 */
#ifndef RLX_SIMD_TILE_AMX_H
#define RLX_SIMD_TILE_AMX_H

#include <stddef.h>
#include <stdint.h>

enum {
	TILE_ROWS = 16,		/* most */
	TILE_COLSB = 64,	/* bytes of a row, most */
	TILE_BYTES = TILE_ROWS * TILE_COLSB,
	TILE_COUNT = 8,
};

/* The operand of LDTILECFG. */
struct tile_shape {
	uint8_t		palette, start_row, reserved[14];
	uint16_t	colsb[16];
	uint8_t		rows[16];
} __attribute__((aligned(64)));

#ifdef RLX_TILE_EMU
#include "kernels/simd/tile_emu.h"

#define TILE_ZERO(t)		tile_emu_zero(t)
#define TILE_LOAD(t, p, ld)	tile_emu_load(t, p, ld)
#define TILE_STORE(t, p, ld)	tile_emu_store(t, p, ld)
#define TILE_DP_BF16(c, a, b)	tile_emu_dp_bf16(c, a, b)
#define TILE_DP_SS8(c, a, b)	tile_emu_dp_8(c, a, b, true, true)
#define TILE_DP_SU8(c, a, b)	tile_emu_dp_8(c, a, b, true, false)
#define TILE_DP_US8(c, a, b)	tile_emu_dp_8(c, a, b, false, true)
#define TILE_DP_UU8(c, a, b)	tile_emu_dp_8(c, a, b, false, false)
#define tile_config(s)		tile_emu_config(s)
#define tile_release()		tile_emu_release()
#else
/*
 * Not the intrinsics: GCC 12's _tile_loadconfig() tells the compiler of fewer than the
 * 64 bytes that it reads, so that stores to the others are dropped. The clobber orders
 * loads of tiles after stores of what they read.
 */
#define TILE_ZERO(t)	__asm__ volatile("tilezero %%tmm" #t : :)
#define TILE_LOAD(t, p, ld)						\
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t		\
			 : : "r"(p), "r"((size_t)(ld)) : "memory")
#define TILE_STORE(t, p, ld)						\
	__asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)"		\
			 : : "r"(p), "r"((size_t)(ld)) : "memory")
#define TILE_DP(insn, c, a, b)						\
	__asm__ volatile(insn " %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define TILE_DP_BF16(c, a, b)	TILE_DP("tdpbf16ps", c, a, b)
#define TILE_DP_SS8(c, a, b)	TILE_DP("tdpbssd", c, a, b)
#define TILE_DP_SU8(c, a, b)	TILE_DP("tdpbsud", c, a, b)
#define TILE_DP_US8(c, a, b)	TILE_DP("tdpbusd", c, a, b)
#define TILE_DP_UU8(c, a, b)	TILE_DP("tdpbuud", c, a, b)

static inline void tile_config(const struct tile_shape *s)
{
	__asm__ volatile("ldtilecfg %0" : : "m"(*s));
}

static inline void tile_release(void)
{
	__asm__ volatile("tilerelease" : :);
}
#endif

#endif
