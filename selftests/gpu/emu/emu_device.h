/* SPDX-License-Identifier: MIT */
/* What emulated kernels call; kernels/gpu/dialect.h declares the same for itself. */
#ifndef RLX_EMU_DEVICE_H
#define RLX_EMU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

struct emu_dim { unsigned int x, y, z; };

enum emu_op {
	EMU_OP_SYNC,
	EMU_OP_SHUFFLE,		/* value = value of lane @lane */
	EMU_OP_BALLOT,		/* value = bit of each lane whose value is not 0 */
	EMU_OP_MMA,		/* d += a b by @type */
	EMU_OP_LDMATRIX,	/* d = @lane matrices of 8 x 8 halves; a: this lane's row */
};

/* enum of mma types */
enum { EMU_MMA_F16, EMU_MMA_BF16, EMU_MMA_TF32, EMU_MMA_I8 };

struct emu_wave_op {
	int		kind, line;
	int		lane, type;
	uint64_t	value;
	const void	*a, *b;
	void		*d;
};

/* wave.c: false if a lane asks for what is not there. */
bool emu_wave_do(struct emu_wave_op **op, int n);

struct emu_dim emu_thread_idx(void);
struct emu_dim emu_block_idx(void);
struct emu_dim emu_block_dim(void);
struct emu_dim emu_grid_dim(void);
void emu_barrier(int line);
void emu_wave(struct emu_wave_op *op);
void *emu_shared(unsigned int bytes);
void *emu_shared_dynamic(void);
void emu_copy_async(void *dst, const void *src, unsigned int n, unsigned int from);
void emu_copy_commit(void);
void emu_copy_wait(unsigned int left);
/* kind: 0 add 1 min 2 max 3 exchange 4 or; types as enum rlx_k_type (i32 u32 i64 f32) */
uint64_t emu_atomic(void *p, uint64_t v, int kind, int type);
uint64_t emu_atomic_cas(void *p, uint64_t expected, uint64_t v, int bytes);

#endif
