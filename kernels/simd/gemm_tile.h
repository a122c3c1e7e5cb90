/* SPDX-License-Identifier: MIT */
/*
 * The register tile all GEMMs share: mr rows of A times nv vectors of
 * B's columns, all of K. What K counts is a group: one f32 or f64, two bf16 or
 * i16, four bytes; a group of A is broadcast, a vector of B has one group for
 * each column. The includer defines
 *	GT_A		type of a group of A
 *	GT_T, GT_V	type of a result, vector of results
 *	GT_VB		vector of groups, if not GT_V
 *	GT_L		lanes of GT_V
 *	GT_MR		most rows
 *	GT_NV		vectors across one panel
 *	GT_STEP(acc, a, b)	acc + a * b by lane
 *	GT_BCAST(a), GT_LOAD(p), GT_STORE(p, v)
 *	GT_LOADB(p)	a vector of B from GT_BV bytes
 *	GT_NARROW	if panels of one vector are worth tiles of their own
 * and gets gt_tiles[mr](&t) and, for up to GT_FLAT_MR rows, gt_flats[mr](&t),
 * which does two adjacent panels at once: few rows alone do not keep enough
 * sums in flight. gt_narrows[mr](&t) takes a panel's first vector alone.
 */
#include "kernels/simd/gemm_pack.h"

#ifndef GT_VB
#define GT_VB		GT_V
#endif
#ifndef GT_FLAT_MR
#define GT_FLAT_MR	3
#endif
/* Has a tile enough rows to hide that it fetches a line of 64 bytes at each step? */
#define GT_AHEAD(mr)	((mr) > 8 || (GT_MR == 6 && (mr) > 4 && GT_NV * GT_BV == 64))

/*
 * @a, @lda: first row, bytes between rows
 * @b, @ldb: first row of the panel, bytes between rows
 * @skip:    bytes from a panel to the next (gt_flat)
 * @c, @ldc: results, elements between rows; whole vectors are written
 * @init:    one row of values the sums start from, or NULL for 0
 * @k:       groups
 * @ahead:   what is read after this, maybe by other tiles, and fetched into the second-level
 *           cache on the way, @ahead_step bytes for each group
 */
struct gt {
	const char	*a, *b, *ahead;
	size_t		lda, ldb, skip, k, ahead_step;
	GT_T		*c;
	size_t		ldc;
	const GT_T	*init;
};

/*
 * Rows are addressed as base[i / 4] + (i % 4) * lda, the form x86 has in one
 * operand, so that 14 rows need six registers. The empty asm keeps compilers
 * from making 14 pointers of it and spilling them.
 */
RLX_INLINE void gt_run(const struct gt *t, const int mr, const int nv)
{
	GT_V acc[GT_MR][GT_NV * 2];
	const char *a[(GT_MR + 3) / 4], *b = t->b, *ahead = t->ahead;
	size_t lda = t->lda, lda3 = 3 * lda, ahead_step = t->ahead_step, k;
	int i, j;

	RLX_UNROLL
	for (j = 0; j < nv; j++) {
		GT_V z = t->init ? GT_LOAD(t->init + j * GT_L) : (GT_V){ 0 };

		RLX_UNROLL
		for (i = 0; i < mr; i++)
			acc[i][j] = z;
	}
	RLX_UNROLL
	for (i = 0; i < (mr + 3) / 4; i++)
		a[i] = t->a + 4 * (size_t)i * lda;
	for (k = t->k; k; k--) {
		GT_VB bv[GT_NV * 2];

		__asm__("" : "+r"(lda), "+r"(lda3));
		/* few rows: what comes after B is needed soon */
		if (nv == GT_NV && mr >= 4 && mr <= 8) {
			RLX_UNROLL
			for (j = 0; j < nv * (int)GT_BV; j += 64)
				__builtin_prefetch(b + 16 * t->ldb + j);
		}
		if (nv == GT_NV && GT_AHEAD(mr)) {
			__builtin_prefetch(ahead, 0, 2);
			ahead += ahead_step;
		}
		RLX_UNROLL
		for (j = 0; j < nv; j++)
			bv[j] = GT_LOADB(b + (size_t)(j / GT_NV) * t->skip +
					(j % GT_NV) * GT_BV);
		RLX_UNROLL
		for (i = 0; i < mr; i++) {
			const char *p = a[i / 4] + (i % 4 == 3 ? lda3 :
						    (size_t)(i % 4) * lda);
			GT_VB av = GT_BCAST(*(const GT_A *)p);

			RLX_UNROLL
			for (j = 0; j < nv; j++)
				acc[i][j] = GT_STEP(acc[i][j], av, bv[j]);
		}
		RLX_UNROLL
		for (i = 0; i < (mr + 3) / 4; i++)
			a[i] += sizeof(GT_A);
		b += t->ldb;
	}
	RLX_UNROLL
	for (i = 0; i < mr; i++)
		RLX_UNROLL
		for (j = 0; j < nv; j++)
			GT_STORE(t->c + (size_t)i * t->ldc + j * GT_L,
				 acc[i][j]);
}

#define GT_ROWS(m)							\
static void gt_tile_##m(const struct gt *t) { gt_run(t, m, GT_NV); }
#define GT_FLAT(m)							\
static void gt_flat_##m(const struct gt *t) { gt_run(t, m, 2 * GT_NV); }
#define GT_SLIM(m)							\
static void gt_narrow_##m(const struct gt *t) { gt_run(t, m, 1); }

GT_ROWS(1) GT_ROWS(2) GT_ROWS(3)
GT_FLAT(1)
#if GT_FLAT_MR >= 2
GT_FLAT(2)
#endif
#if GT_FLAT_MR >= 3
GT_FLAT(3)
#endif
#if GT_FLAT_MR >= 6
GT_FLAT(4) GT_FLAT(5) GT_FLAT(6)
#endif
#if GT_MR >= 4
GT_ROWS(4)
#endif
#if GT_MR >= 6
GT_ROWS(5) GT_ROWS(6)
#endif
#if GT_MR >= 14
GT_ROWS(7) GT_ROWS(8) GT_ROWS(9) GT_ROWS(10)
GT_ROWS(11) GT_ROWS(12) GT_ROWS(13) GT_ROWS(14)
#endif

static void (*const gt_tiles[])(const struct gt *) = {
	NULL, gt_tile_1, gt_tile_2, gt_tile_3,
#if GT_MR >= 4
	gt_tile_4,
#endif
#if GT_MR >= 6
	gt_tile_5, gt_tile_6,
#endif
#if GT_MR >= 14
	gt_tile_7, gt_tile_8, gt_tile_9, gt_tile_10,
	gt_tile_11, gt_tile_12, gt_tile_13, gt_tile_14,
#endif
};

static void (*const gt_flats[])(const struct gt *) = {
	NULL, gt_flat_1,
#if GT_FLAT_MR >= 2
	gt_flat_2,
#endif
#if GT_FLAT_MR >= 3
	gt_flat_3,
#endif
#if GT_FLAT_MR >= 6
	gt_flat_4, gt_flat_5, gt_flat_6,
#endif
};

#ifdef GT_NARROW
GT_SLIM(1) GT_SLIM(2) GT_SLIM(3)
#if GT_MR >= 4
GT_SLIM(4)
#endif
#if GT_MR >= 6
GT_SLIM(5) GT_SLIM(6)
#endif
#if GT_MR >= 14
GT_SLIM(7) GT_SLIM(8) GT_SLIM(9) GT_SLIM(10)
GT_SLIM(11) GT_SLIM(12) GT_SLIM(13) GT_SLIM(14)
#endif

static void (*const gt_narrows[])(const struct gt *) = {
	NULL, gt_narrow_1, gt_narrow_2, gt_narrow_3,
#if GT_MR >= 4
	gt_narrow_4,
#endif
#if GT_MR >= 6
	gt_narrow_5, gt_narrow_6,
#endif
#if GT_MR >= 14
	gt_narrow_7, gt_narrow_8, gt_narrow_9, gt_narrow_10,
	gt_narrow_11, gt_narrow_12, gt_narrow_13, gt_narrow_14,
#endif
};
#endif
