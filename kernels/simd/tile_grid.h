/* SPDX-License-Identifier: MIT */
/*
 * The register block of AMX kernels: up to two tiles of A by two of B, each loaded once for two
 * products. Sums are tiles 0 to 3, by A and then by B, A is 4 and 5, B 6 and 7. @na and @nb, tiles
 * of A and of B, are constants.
 */
#ifndef RLX_SIMD_TILE_GRID_H
#define RLX_SIMD_TILE_GRID_H

#include "kernels/simd/tile_amx.h"
#include "kernels/simd/vec.h"

/* Sums of the first tile of A from @c0 on, of the second from @c1, @right bytes apart; NULL: 0 */
RLX_INLINE void tile_grid_load(const char *c0, const char *c1, size_t right, size_t ld,
			       const int na, const int nb)
{
	if (!c0) {
		TILE_ZERO(0);
		TILE_ZERO(1);
		TILE_ZERO(2);
		TILE_ZERO(3);
		return;
	}
	TILE_LOAD(0, c0, ld);
	if (nb > 1)
		TILE_LOAD(1, c0 + right, ld);
	if (na > 1)
		TILE_LOAD(2, c1, ld);
	if (na > 1 && nb > 1)
		TILE_LOAD(3, c1 + right, ld);
}

RLX_INLINE void tile_grid_store(char *c0, char *c1, size_t right, size_t ld, const int na,
				const int nb)
{
	TILE_STORE(0, c0, ld);
	if (nb > 1)
		TILE_STORE(1, c0 + right, ld);
	if (na > 1)
		TILE_STORE(2, c1, ld);
	if (na > 1 && nb > 1)
		TILE_STORE(3, c1 + right, ld);
}

/* A step of K by DP(sums, a, b), one of tile_amx.h: tiles of A at @a0 and @a1, of B at @b0, @b1 */
#define TILE_GRID_STEP(DP, na, nb, a0, a1, lda, b0, b1, ldb)			\
	do {									\
		TILE_LOAD(4, a0, lda);						\
		TILE_LOAD(6, b0, ldb);						\
		DP(0, 4, 6);							\
		if ((na) > 1) {							\
			TILE_LOAD(5, a1, lda);					\
			DP(2, 5, 6);						\
		}								\
		if ((nb) > 1) {							\
			TILE_LOAD(7, b1, ldb);					\
			DP(1, 4, 7);						\
		}								\
		if ((na) > 1 && (nb) > 1)					\
			DP(3, 5, 7);						\
	} while (0)

#endif
