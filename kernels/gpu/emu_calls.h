/* SPDX-License-Identifier: MIT */
/* What kernels in the test suite's emulator call; C and C++. */
#ifndef RLX_G_EMU_CALLS_H
#define RLX_G_EMU_CALLS_H

#include "stdbool.h"
#include "stdint.h"

#ifdef __cplusplus
extern "C" {
#endif

struct emu_dim { unsigned int x, y, z; };

enum emu_op {
	EMU_OP_SYNC,
	EMU_OP_SHUFFLE,		/* value = value of lane @lane */
	EMU_OP_BALLOT,		/* value = bit of each lane whose value is not 0 */
	EMU_OP_MMA,		/* d += a b by @type */
	EMU_OP_LDMATRIX,	/* d = @lane matrices of 8 x 8 elements; a: this lane's row */
};

/* enum of mma types */
enum { EMU_MMA_F16, EMU_MMA_BF16, EMU_MMA_TF32, EMU_MMA_I8 };

struct emu_warp_op {
	int		kind, line;
	int		lane, type;
	uint64_t	value;
	const void	*a, *b;
	void		*d;
};

/*
 * d[64][n] of a group of 128 threads (+)= a[64][16] b[16][n]: see wgmma.h. Of fp8 with two
 * elements in the place of one: @f8 is 1, and 2 where a is e5m2, 4 where b is.
 */
struct emu_wgmma_op {
	float			*d;
	const unsigned char	*a, *b;
	int			across, row;	/* bytes to the next block of columns; of its rows */
	int			n;
	bool			bf, ta, tb, more;
	int			f8;
	uint16_t		lanes[2][16];	/* this thread's rows of a, if that is NULL */
};

struct emu_dim emu_thread_idx(void) __attribute__((const));
struct emu_dim emu_block_idx(void) __attribute__((const));
struct emu_dim emu_block_dim(void) __attribute__((const));
struct emu_dim emu_grid_dim(void) __attribute__((const));
void emu_pdl_wait(void);
void emu_barrier(int line);
void emu_warp(struct emu_warp_op *op);
void *emu_shared(unsigned int bytes);
void *emu_shared_dynamic(void);
void emu_copy_async(void *dst, const void *src, unsigned int n, unsigned int from);
void emu_copy_commit(void);
void emu_copy_wait(unsigned int left);
void emu_bar_init(uint64_t *bar, int n);
void emu_bar_arrive(uint64_t *bar, int bytes);
void emu_bar_wait(uint64_t *bar, int phase);
void emu_tma_load(void *to, const void *map, uint64_t *bar, const int *at);
void emu_tma_load_im2col(void *to, const void *map, uint64_t *bar, const int *at, const int *off);
void emu_wgmma(const struct emu_wgmma_op *op);
void emu_wgmma_commit(void);
void emu_wgmma_wait(int left);
void emu_wgmma_settle(const void *d);
/* kind: 0 add 1 min 2 max 3 exchange 4 or; types as enum rlx_dtype (i32 u32 i64 f32) */
uint64_t emu_atomic(void *p, uint64_t v, int kind, int type);
uint64_t emu_atomic_cas(void *p, uint64_t expected, uint64_t v, int bytes);

#ifdef __cplusplus
}
#endif
#endif
