/* SPDX-License-Identifier: MIT */
/*
 * Launches of what adds up along rows and columns in the CPU's order, for strict bits; a part of
 * launch.h. Each does f32 alone, and leaves l->can false for other types.
 */
#ifndef RLX_G_LAUNCH_ORDERED_H
#define RLX_G_LAUNCH_ORDERED_H

#include "kernels/gpu/launch.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"

/* Threads that walk @units of @lanes each, by 8,192 blocks of 256 at most. */
static inline void rlx_g_teams(struct rlx_g_launch *l, int64_t units, int64_t lanes)
{
	const int64_t blocks = rlx_g_ceil(units, 256 / lanes);

	rlx_g_line(l, blocks < 8192 ? blocks : 8192, 256);
}

static inline void rlx_g_reduce_ordered(const struct rlx_k_reduce *a, struct rlx_g_launch *l)
{
	const bool rows = a->axes >> (a->rank - 1) & 1;
	const int64_t last = a->dim[a->rank - 1];
	int64_t per, units;

	if (a->type != RLX_F32 || a->by || a->centre || a->by_sum || !a->n_red)
		return;
	per = rows ? a->n_red / last * rlx_g_ceil(last, RLX_K_REDUCE_RUN) :
		     rlx_k_reduce_parts(a) * a->fold;
	units = a->n_out * per;
	if (rows) {
		rlx_g_teams(l, units, last < 64 ? 16 : 32);
		RLX_G_VARIANT(l, reduce_ordered_rows, .REDUCE_OP = a->op,
			      .REDUCE_TERM = a->squares, .REDUCE_LANES = last < 64 ? 16 : 32);
	} else {
		rlx_g_teams(l, units, 1);
		RLX_G_VARIANT(l, reduce_ordered_columns, .REDUCE_OP = a->op,
			      .REDUCE_TERM = a->squares);
	}
	if (per == 1)
		return;
	l->n_launches = 2;
	l->scratch = (uint64_t)units * (rows ? sizeof(float) : sizeof(double));
}

/* Fewer long rows than make two blocks for each multiprocessor: they are shared out in parts. */
static inline bool rlx_g_are_few(int64_t rows, const struct rlx_g_launch *l)
{
	return rows < 2 * (l->processors ? (int64_t)l->processors : 1);
}

/*
 * Threads for so many parts of few long rows by @lanes each, of which a team has neighbours: what
 * it asks of a whole row it asks once, so that there are no more teams than run at a time.
 */
static inline void rlx_g_part_teams(struct rlx_g_launch *l, int64_t parts, int64_t lanes)
{
	const int64_t most = (int64_t)(l->processors ? l->processors : 1) * (1024 / lanes);

	rlx_g_teams(l, parts < most ? parts : most, lanes);
}

/* How many warps have one of @rows of @n; 0: parts, by @passes launches. */
static inline int32_t rlx_g_row_warps(int64_t rows, int64_t n, uint32_t passes,
				      struct rlx_g_launch *l)
{
	const int64_t blocks = rlx_g_ceil(n, 1024);
	const int32_t warps = blocks == 1 ? 1 : rlx_g_are_few(rows, l) ? 0 : 8;

	rlx_g_teams(l, n ? rows : 0, 32 * (warps ? warps : 1));
	if (!warps) {
		rlx_g_part_teams(l, rows * blocks, 32);
		l->n_launches = passes;
		l->scratch = (uint64_t)(rows * blocks) * 3 * sizeof(float);
	}
	return warps;
}

static inline void rlx_g_softmax_ordered(const struct rlx_k_softmax *a, struct rlx_g_launch *l)
{
	const bool cols = a->inner > 1, whole = a->n <= 1024;
	const bool parts = !cols && !whole && rlx_g_are_few(a->outer, l);
	const int64_t lines = a->n ? a->outer * a->inner : 0, blocks = rlx_g_ceil(a->n, 1024);

	if (a->x_type != RLX_F32 || a->y_type != RLX_F32)
		return;
	rlx_g_teams(l, lines, cols ? 8 : whole ? 16 : 256);
	RLX_G_VARIANT(l, softmax_ordered, .SOFTMAX_LOG = a->log, .SOFTMAX_COLUMNS = cols,
		      .SOFTMAX_TEAMS = parts ? 0 : whole || cols ? 1 : 16);
	if (!parts)
		return;
	rlx_g_part_teams(l, lines * blocks, 16);
	l->n_launches = 3;
	l->scratch = (uint64_t)(lines * blocks) * 2 * sizeof(float);
}

static inline void rlx_g_norm_ordered(const struct rlx_k_norm *a, struct rlx_g_launch *l)
{
	int32_t warps;

	if (a->x_type != RLX_F32 || a->y_type != RLX_F32 ||
	    ((a->gamma || a->beta || a->bias) && a->param_type != RLX_F32) ||
	    (a->residual && a->residual_type != RLX_F32) || !l->arch)
		return;
	warps = rlx_g_row_warps(a->rows, a->n, a->rms ? 2 : 3, l);
	RLX_G_VARIANT(l, norm_ordered, .NORM_WARPS = warps, .NORM_RESIDUAL = a->residual != NULL,
		      .NORM_BIAS = a->bias != NULL, .NORM_GAMMA = a->gamma != NULL,
		      .NORM_BETA = a->beta != NULL);
}

static inline void rlx_g_group_norm_ordered(const struct rlx_k_group_norm *a,
					    struct rlx_g_launch *l)
{
	const int64_t n = a->groups ? a->channels / a->groups * a->inner : 0;
	int32_t warps;

	if (!l->arch)
		return;
	warps = rlx_g_row_warps(a->batch * a->groups, n, 3, l);
	RLX_G_VARIANT(l, group_norm_ordered, .NORM_WARPS = warps);
}

#endif
