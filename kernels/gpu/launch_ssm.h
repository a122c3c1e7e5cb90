/* SPDX-License-Identifier: MIT */
/*
 * Launches of state-space recurrences; a part of launch.h.
 *
 * Steps follow one another, so what fills the chip is lines: columns of linear_scan, channels of
 * selective_scan, whose states several lanes share where channels are few. Where even those leave
 * multiprocessors idle the steps are cut into chunks, and a launch ahead finds what each chunk
 * does to the state ahead of it; that is the same work once more, so three chunks at least.
 * Limits: of selective_scan 2,048 states a channel; more leave l->can false.
 */
#ifndef RLX_G_LAUNCH_SSM_H
#define RLX_G_LAUNCH_SSM_H

#include "kernels/gpu/launch.h"
#include "kernels/ssm.h"

enum { RLX_G_SCAN_STEPS = 32 };	/* of a tile of selective_scan, at most */

/*
 * How many chunks of @least steps or more make @want blocks of @blocks; 1 where two launches
 * would not gain.
 */
static inline int64_t rlx_g_scan_chunks(int64_t blocks, int64_t want, int64_t steps,
					int64_t least)
{
	int64_t chunks = blocks ? want / blocks : 1;

	chunks = chunks < 64 ? chunks : 64;
	chunks = chunks < steps / least ? chunks : steps / least;
	return chunks < 3 ? 1 : chunks;
}

/* Elements of @size bytes in an access of up to 16: they divide rows of @n, @run of them, @at. */
static inline int64_t rlx_g_scan_vec(int64_t n, int64_t run, int64_t size, uint64_t at)
{
	int64_t vec = 16 / size;

	while (vec > 1 && (n % vec || run % vec || at % (uint64_t)(vec * size)))
		vec /= 2;
	return vec;
}

/* Many columns: a thread has some side by side, while two blocks for each multiprocessor stay. */
static inline int64_t rlx_g_linear_scan_vec(const struct rlx_k_linear_scan *a, int64_t sms)
{
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	const uint64_t at = (uint64_t)(uintptr_t)a->a | (uint64_t)(uintptr_t)a->x |
			    (uint64_t)(uintptr_t)a->initial | (uint64_t)(uintptr_t)a->y;
	int64_t vec = rlx_g_scan_vec(a->inner, 16, size, at);

	while (vec > 1 && a->outer * a->inner / vec < sms * 2 * RLX_K_LINEAR_SCAN_THREADS)
		vec /= 2;
	return vec;
}

static inline void rlx_g_linear_scan_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_linear_scan *a = (const struct rlx_k_linear_scan *)args;
	const int64_t all = a->outer * a->inner, sms = l->processors ? l->processors : 132;
	const bool lines = a->inner < 16 && a->n >= 64;
	const int64_t vec = lines ? 1 : rlx_g_linear_scan_vec(a, sms);
	int64_t blocks = lines ? all : rlx_g_ceil(all, RLX_K_LINEAR_SCAN_THREADS);
	const int64_t chunks = rlx_g_scan_chunks(blocks, sms * (lines ? 4 : 8), a->n,
						 lines ? 4096 : 64);

	if (!lines)
		blocks = rlx_g_ceil(all / vec, RLX_K_LINEAR_SCAN_THREADS);
	rlx_g_line(l, a->n ? blocks * chunks : 0, RLX_K_LINEAR_SCAN_THREADS);
	RLX_G_VARIANT(l, linear_scan, .SCAN_TYPE = a->type, .SCAN_LINES = lines,
		      .SCAN_VEC = (int32_t)vec);
	if (chunks == 1)
		return;
	l->n_launches = 2;
	l->scratch = (uint64_t)(chunks * all) * 2 * sizeof(double);
}

/* Blocks that a multiprocessor has at once, as selective_scan.cu asks for. */
static inline int64_t rlx_g_selective_scan_resident(const struct rlx_k_selective_scan *a,
						    int64_t sms)
{
	return sms * (a->type == RLX_F64 ? 2 : a->type == RLX_F32 ? 4 : 5);
}

/*
 * Lanes of a channel: 4 states each or fewer, more lanes where that fills the multiprocessors
 * better and chunks of steps would not. Few steps take what it takes until operands are there, once
 * for each block that a multiprocessor has one after the other: so up to 16 states where more lanes
 * were more blocks than 6 for each, and 8 of a step.
 */
static inline int64_t rlx_g_selective_scan_lanes(const struct rlx_k_selective_scan *a,
						 int64_t sms)
{
	const int64_t channels = a->batch * a->h, least = a->steps <= 2 ? 8 : 2;
	const int64_t room = rlx_g_selective_scan_resident(a, sms) * RLX_K_SSM_THREADS;
	int64_t lanes = 1;

	if (a->steps <= 16) {
		while (lanes < 32 && (lanes * 16 < a->n || (lanes * least < a->n &&
							    channels * lanes * 2 <= sms * 768)))
			lanes *= 2;
		return lanes;
	}
	while (lanes < 32 && lanes * 4 < a->n)
		lanes *= 2;
	if (a->steps >= 3 * RLX_G_SCAN_STEPS && channels * lanes * 3 <= room)
		return lanes;
	while (lanes < 32 && lanes * 2 <= a->n && channels * lanes * 2 <= room)
		lanes *= 2;
	return lanes;
}

/* Of @steps rows of @run out of @n: elements of an access; each thread of a block has one. */
static inline int64_t rlx_g_scan_wide(int64_t n, int64_t run, int64_t steps, int64_t size,
				      uint64_t at)
{
	int64_t vec = rlx_g_scan_vec(n, run, size, at);

	while (vec > 1 && steps * run < vec * RLX_K_SSM_THREADS)
		vec /= 2;
	return vec;
}

static inline void rlx_g_selective_scan_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_selective_scan *a = (const struct rlx_k_selective_scan *)args;
	const int64_t sms = l->processors ? l->processors : 132, size = a->type == RLX_F64 ? 8 : 4;
	const int64_t lanes = rlx_g_selective_scan_lanes(a, sms);
	const int64_t states = a->n ? rlx_g_ceil(a->n, lanes) : 1;
	const int64_t channels = RLX_K_SSM_THREADS / lanes;
	const int64_t blocks = a->batch * rlx_g_ceil(a->h, channels);
	const uint64_t at = (uint64_t)(uintptr_t)a->a | (uint64_t)(uintptr_t)a->state |
			    (uint64_t)(uintptr_t)a->last;
	const uint64_t x = (uint64_t)(uintptr_t)a->x | (uint64_t)(uintptr_t)a->delta |
			   (uint64_t)(uintptr_t)a->z | (uint64_t)(uintptr_t)a->y;
	const uint64_t b = (uint64_t)(uintptr_t)a->b | (uint64_t)(uintptr_t)a->c;
	const int64_t bytes = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	int64_t steps = 8 * lanes < RLX_G_SCAN_STEPS ? 8 * lanes : RLX_G_SCAN_STEPS, chunks, each;

	each = (3 * channels + 2 * lanes * states) * size;
	while (steps > 1 && (steps * each > 40 << 10 || steps / 2 >= a->steps))
		steps /= 2;
	RLX_G_VARIANT(l, selective_scan, .SCAN_TYPE = a->type, .SCAN_LANES = (int32_t)lanes,
		      .SCAN_STATES = (int32_t)states, .SCAN_STEPS = (int32_t)steps,
		      .SCAN_TAIL = lanes * states != a->n,
		      .SCAN_VEC = (int32_t)rlx_g_scan_vec(a->n, states, bytes, at),
		      .SCAN_WIDE = (int32_t)rlx_g_scan_wide(a->h, channels, steps, bytes, x),
		      .SCAN_ROW = (int32_t)rlx_g_scan_wide(a->n, lanes * states, steps, bytes, b));
	if (a->n > 2048 || steps * each > l->most_shared)
		return;
	chunks = rlx_g_scan_chunks(blocks, rlx_g_selective_scan_resident(a, sms), a->steps,
				   RLX_G_SCAN_STEPS);
	rlx_g_line(l, blocks * chunks, RLX_K_SSM_THREADS);
	l->shared = (uint32_t)(steps * each);
	if (chunks == 1)
		return;
	l->n_launches = 2;
	l->scratch = (uint64_t)(chunks * a->batch * a->h * (a->n + 1) * size);
}

/*
 * The recurrent form: as many columns a thread as leave two blocks for each multiprocessor. Few
 * steps take what it takes to read and write the state, by pieces of its rows as wide as a warp's
 * columns are, each of which costs a multiprocessor the same: so 16 bytes of 16-bit floats where
 * that leaves most multiprocessors a block.
 */
static inline void rlx_g_gated_delta_net_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gated_delta *a = (const struct rlx_k_gated_delta *)args;
	const int64_t sms = l->processors ? l->processors : 132, size = a->type == RLX_F64 ? 8 : 4;
	const uint64_t at = (uint64_t)(uintptr_t)a->state | (uint64_t)(uintptr_t)a->last;
	const int64_t bytes = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	const int64_t lines = a->batch * a->hv;
	int64_t lanes = 1, keys, cols = 4, steps = 16, each, values;

	while (lanes < 32 && lanes * 16 < a->dk)
		lanes *= 2;
	keys = rlx_g_ceil(rlx_g_ceil(a->dk, lanes), 4) * 4;
	if (a->steps <= 4 && bytes == 2 && keys <= 16 && rlx_g_scan_vec(a->dv, 8, 2, at) == 8 &&
	    lines * rlx_g_ceil(a->dv, RLX_K_SSM_THREADS / lanes * 8) >= sms * 3 / 4)
		cols = 8;
	while (cols > 1 && cols < 8 && (cols * keys > 64 || lines *
	       rlx_g_ceil(a->dv, RLX_K_SSM_THREADS / lanes * cols) < 2 * sms))
		cols /= 2;
	values = RLX_K_SSM_THREADS / lanes * cols;
	each = (2 * lanes * keys + values + 3) * size;
	while (steps > 1 && (steps * each > 40 << 10 || steps / 2 >= a->steps))
		steps /= 2;
	RLX_G_VARIANT(l, gated_delta_net, .DELTA_TYPE = a->type, .DELTA_LANES = (int32_t)lanes,
		      .DELTA_KEYS = (int32_t)keys, .DELTA_COLS = (int32_t)cols,
		      .DELTA_STEPS = (int32_t)steps,
		      .DELTA_VEC = (int32_t)rlx_g_scan_vec(a->dv, cols, bytes, at));
	if (a->dk > 2048 || steps * each > l->most_shared)
		return;
	rlx_g_line(l, lines * rlx_g_ceil(a->dv, values), RLX_K_SSM_THREADS);
	l->shared = (uint32_t)(steps * each);
}

/* Tensor cores take 16 bytes of a row at a time, and there are enough steps for two launches. */
static inline bool rlx_g_gated_delta_by_chunks(const struct rlx_k_gated_delta *a,
					       const struct rlx_g_launch *l)
{
	const uint64_t all = (uint64_t)(uintptr_t)a->q | (uint64_t)(uintptr_t)a->k |
			     (uint64_t)(uintptr_t)a->v | (uint64_t)(uintptr_t)a->y;

	return (a->type == RLX_F16 || a->type == RLX_BF16) && (!l->arch || l->arch >= 80) &&
	       !(all % 16) && a->dk % 8 == 0 && a->dv % 16 == 0 && a->dk <= RLX_K_DELTA_KEYS &&
	       a->steps >= 3 * RLX_K_DELTA_CHUNK;
}

static inline void rlx_g_gated_delta_prepare_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gated_delta *a = (const struct rlx_k_gated_delta *)args;
	const int64_t keys = rlx_k_gated_delta_keys(a), chunk = RLX_K_DELTA_CHUNK;
	const int64_t halves = chunk * (2 * (keys + 8) + 3 * (chunk + 8));
	const int64_t floats = 2 * chunk * (chunk + 4) + 3 * chunk;

	RLX_G_VARIANT(l, gated_delta_prepare, .DELTA_TYPE = a->type, .DELTA_KEYS = (int32_t)keys);
	l->shared = (uint32_t)(halves * 2 + floats * 4);
	if (!rlx_g_gated_delta_by_chunks(a, l) || l->shared > l->most_shared)
		return;
	rlx_g_line(l, a->batch * a->hv * a->count,
		   RLX_K_DELTA_TEAMS * RLX_K_SSM_THREADS);
}

/* As many columns a block as leave most multiprocessors one; the next chunk ahead if it fits. */
static inline void rlx_g_gated_delta_chunks_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gated_delta *a = (const struct rlx_k_gated_delta *)args;
	const int64_t keys = rlx_k_gated_delta_keys(a), chunk = RLX_K_DELTA_CHUNK;
	const int64_t sms = l->processors ? l->processors : 132, lines = a->batch * a->hv;
	int64_t cols = 64, least = l->arch ? 16 : 32, stage, rest, stages, groups;

	while (cols > least && lines * rlx_g_ceil(a->dv, cols) < sms * 3 / 4)
		cols /= 2;
	do {
		stage = chunk * (3 * (keys + 8) + chunk + 8 + cols + 8) * 2 + 3 * chunk * 4;
		rest = (keys + 2 * chunk) * (cols + 8) * 2;
		stages = 2 * stage + rest <= l->most_shared ? 2 : 1;
	} while (stages * stage + rest > l->most_shared && (cols /= 2) >= least);
	if (cols < least || !rlx_g_gated_delta_by_chunks(a, l))
		return;
	/* teams of warps that have the state; as many make results, one copies */
	groups = cols > 32 ? 2 : 1;
	RLX_G_VARIANT(l, gated_delta_chunks, .DELTA_TYPE = a->type, .DELTA_KEYS = (int32_t)keys,
		      .DELTA_COLS = (int32_t)cols, .DELTA_STAGES = (int32_t)stages,
		      .DELTA_GROUPS = (int32_t)groups);
	l->shared = (uint32_t)(stages * stage + rest);
	rlx_g_line(l, lines * rlx_g_ceil(a->dv, cols),
		   (uint32_t)(2 * groups + 1) * RLX_K_SSM_THREADS);
}

#endif
