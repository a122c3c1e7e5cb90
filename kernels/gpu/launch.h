/* SPDX-License-Identifier: MIT */
/*
 * How each GPU kernel is launched: host C, one function for each row of
 * kernels.def, from the argument struct of the CPU kernel of that name.
 */
#ifndef RLX_G_LAUNCH_H
#define RLX_G_LAUNCH_H

#include "kernels/attention.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/move.h"
#include "kernels/norm.h"
#include "kernels/softmax.h"

/**
 * struct rlx_g_launch - a launch of rlx_g_<name>
 * @units: set by the caller: units of the CPU kernel
 * @can: this form of the arguments has a kernel here
 * @grid: blocks; grid[0] of 0: nothing to do
 * @block: threads
 * @shared: bytes of dynamic shared memory
 * @passes: launches, one after the other, each with its number in env.pass; 0 is 1
 * @scratch: bytes of device memory at env.scratch, for all passes
 * @key: what the module is compiled for, as RLX_K0 .. RLX_K3
 *
 * Pointers in the arguments are not followed, only told from NULL.
 */
struct rlx_g_launch {
	uint64_t	units;
	bool		can;
	uint32_t	grid[3], block[3], shared, passes;
	uint64_t	scratch;
	int32_t		key[4];
};

/* @blocks x 1 x 1 of @threads; more than fits: the kernel strides over the rest. */
static inline void rlx_g_line(struct rlx_g_launch *l, int64_t blocks, uint32_t threads)
{
	const int64_t most = 1 << 30;

	l->can = true;
	l->grid[0] = (uint32_t)(blocks < most ? blocks : most);
	l->grid[1] = l->grid[2] = 1;
	l->block[0] = threads;
	l->block[1] = l->block[2] = 1;
}

static inline int64_t rlx_g_ceil(int64_t n, int64_t by)
{
	return n / by + (n % by != 0);
}

/* A thread for each of @n elements, up to four waves of blocks on a large GPU. */
static inline void rlx_g_each(struct rlx_g_launch *l, int64_t n)
{
	int64_t blocks = rlx_g_ceil(n, 256);

	rlx_g_line(l, blocks < 8192 ? blocks : 8192, 256);
}

static inline int64_t rlx_g_product(const int64_t *dim, int rank)
{
	int64_t n = 1;

	for (int d = 0; d < rank; d++)
		n *= dim[d];
	return n;
}

static inline bool rlx_g_small_float(int type)
{
	return type == RLX_K_F32 || type == RLX_K_BF16 || type == RLX_K_F16;
}

static inline void rlx_g_softmax_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_softmax *a = (const struct rlx_k_softmax *)args;

	if (!rlx_g_small_float(a->x_type) || !rlx_g_small_float(a->y_type))
		return;
	if (a->n == 0)
		rlx_g_line(l, 0, 256);
	else if (a->inner == 1 && a->n <= 1024)	/* a wave for each row */
		rlx_g_line(l, rlx_g_ceil(a->outer, 4), 256);
	else if (a->inner == 1)
		rlx_g_line(l, a->outer, 256);
	else				/* a thread for each column */
		rlx_g_line(l, rlx_g_ceil(a->outer * a->inner, 256), 256);
	l->key[0] = a->inner == 1 ? a->n <= 1024 ? 0 : 1 : 2;
}

static inline void rlx_g_norm_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_norm *a = (const struct rlx_k_norm *)args;

	if (!rlx_g_small_float(a->x_type) || !rlx_g_small_float(a->y_type) ||
	    ((a->gamma || a->beta || a->bias) && !rlx_g_small_float(a->param_type)) ||
	    (a->residual && !rlx_g_small_float(a->residual_type)))
		return;
	rlx_g_line(l, a->n ? a->rows : 0, 256);
}

/* Blocks that tiles of @edge x @edge make of a product. */
static inline int64_t rlx_g_gemm_tiles(const struct rlx_k_gemm *a, int64_t edge)
{
	return rlx_g_ceil((int64_t)a->m, edge) * rlx_g_ceil((int64_t)a->n, edge) *
	       (int64_t)rlx_k_gemm_batches(a);
}

/* Large tiles where they still make a block for each multiprocessor. */
static inline bool rlx_g_gemm_large(const struct rlx_k_gemm *a)
{
	return rlx_g_gemm_tiles(a, 128) >= 96;
}

#define RLX_G_GEMV_ROWS	8	/* so few rows go at the speed of b's memory */

static inline bool rlx_g_gemv(const struct rlx_k_gemm *a, struct rlx_g_launch *l)
{
	if (a->m > RLX_G_GEMV_ROWS || a->trans_a || a->b_form == RLX_B_PACKED)
		return false;
	rlx_g_line(l, a->m ? rlx_g_ceil((int64_t)a->n, 32) *
			     (int64_t)rlx_k_gemm_batches(a) : 0, 256);
	l->key[1] = 2;
	l->key[2] = a->b_form == RLX_B_COLS ? 2 : 0;
	return l->grid[0] < 1 << 30;
}

static inline void rlx_g_gemm_simt(const void *args, struct rlx_g_launch *l, int32_t wide)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	bool large = !wide && rlx_g_gemm_large(a);

	if (a->b_form == RLX_B_PACKED)
		return;
	rlx_g_line(l, rlx_g_gemm_tiles(a, large ? 128 : 64), 256);
	l->key[0] = wide;
	l->key[1] = !large;
}

static inline void rlx_g_gemm_f32_launch(const void *args, struct rlx_g_launch *l)
{
	if (!rlx_g_gemv((const struct rlx_k_gemm *)args, l))
		rlx_g_gemm_simt(args, l, 0);
}

static inline void rlx_g_gemm_f64_launch(const void *args, struct rlx_g_launch *l)
{
	rlx_g_gemm_simt(args, l, 1);
}

static inline void rlx_g_gemm_bf16_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	bool large = rlx_g_gemm_large(a), cols = a->b_form == RLX_B_COLS;
	uint32_t edge = large ? 128 : 64;
	/* halves of a stage: rows of 32 or of the edge, each with 8 beside it */
	uint32_t by_k = edge * 40, by_edge = 32 * (edge + 8);

	l->key[0] = (int32_t)(a->a_num | (unsigned)a->b_num << 2 | (unsigned)a->c_num << 4);
	if (a->b_form == RLX_B_PACKED || rlx_g_gemv(a, l))
		return;
	rlx_g_line(l, rlx_g_gemm_tiles(a, edge), large ? 256 : 128);
	l->shared = 3 * 2 * ((a->trans_a ? by_edge : by_k) + (cols ? by_k : by_edge));
	l->key[1] = !large;
	l->key[2] = a->trans_a | cols << 1;
}

/* By tensor cores: heads are filled up to one of these widths, or 0. */
static inline int32_t rlx_g_attention_width(const struct rlx_k_attention *a)
{
	static const int32_t width[] = { 32, 64, 96, 128, 256 };
	int64_t dim = a->head_dim > a->v_dim ? a->head_dim : a->v_dim;

	if (a->q_type != a->kv_type || a->q_type == RLX_K_F32 || a->q_len < 8)
		return 0;
	for (int i = 0; i < 5; i++)
		if (dim <= width[i])
			return width[i];
	return 0;
}

static inline void rlx_g_attention_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_attention *a = (const struct rlx_k_attention *)args;
	int64_t rows = a->batch * a->heads * a->q_len, splits = 1;
	int32_t width = rlx_g_attention_width(a);

	if (!rlx_g_small_float(a->q_type) || !rlx_g_small_float(a->kv_type) ||
	    !rlx_g_small_float(a->out_type) || a->head_dim > 1024 || a->v_dim > 1024)
		return;
	if (width) {
		uint32_t ld = (uint32_t)width + 8;

		rlx_g_line(l, a->batch * a->heads * rlx_g_ceil(a->q_len, 64), 128);
		/* queries, two stages of keys and values, weights of the waves */
		l->shared = 2 * (64 * ld + 4 * 64 * ld + 64 * 72);
		l->key[0] = 1;
		l->key[1] = a->q_type;
		l->key[2] = width + (a->bias || a->softcap > 0 ? 1024 : 0);
		l->key[3] = a->out_type;
		return;
	}
	/* few queries: their keys over enough blocks for a large GPU, 256 at least */
	if (rows > 0 && rows < 264)
		splits = rlx_g_ceil(528, rows);
	if (splits > rlx_g_ceil(a->kv_len, 256))
		splits = a->kv_len > 256 ? rlx_g_ceil(a->kv_len, 256) : 1;
	rlx_g_line(l, rows * splits, 256);
	l->key[2] = splits > 1;
	if (splits > 1) {
		l->passes = 2;
		l->scratch = (uint64_t)(rows * splits * (a->v_dim + 2)) * sizeof(float);
	}
}

static inline void rlx_g_channel_norm_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_channel_norm *a = (const struct rlx_k_channel_norm *)args;

	rlx_g_each(l, a->outer * a->channels * a->inner);
}

static inline void rlx_g_group_norm_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_group_norm *a = (const struct rlx_k_group_norm *)args;

	rlx_g_line(l, a->channels && a->inner ? a->batch * a->groups : 0, 256);
}

static inline void rlx_g_lrn_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_lrn *a = (const struct rlx_k_lrn *)args;

	rlx_g_each(l, a->batch * a->channels * a->inner);
}

static inline void rlx_g_zero_launch(const void *args, struct rlx_g_launch *l)
{
	rlx_g_each(l, (int64_t)l->units / 16 + 1);
}

static inline void rlx_g_iota_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_iota *a = (const struct rlx_k_iota *)args;

	rlx_g_each(l, a->n);
	l->key[0] = a->type;
}

static inline void rlx_g_copy_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_copy *a = (const struct rlx_k_copy *)args;
	int last = a->rank - 1;

	if (a->mode == RLX_COPY_TILES)
		rlx_g_line(l, a->rows * rlx_g_ceil(a->dim[last], 32) *
			   rlx_g_ceil(a->dim[last - 1], 32), 256);
	else
		rlx_g_each(l, rlx_g_product(a->dim, a->rank));
	l->key[0] = a->size;
	l->key[1] = a->mode == RLX_COPY_TILES;
}

static inline void rlx_g_index_copy_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_index_copy *a = (const struct rlx_k_index_copy *)args;

	rlx_g_each(l, rlx_g_product(a->dim, a->rank));
	l->key[0] = a->size;
}

static inline void rlx_g_trilu_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_trilu *a = (const struct rlx_k_trilu *)args;

	rlx_g_each(l, a->batch * a->rows * a->cols);
	l->key[0] = a->size;
}

static inline void rlx_g_gather_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gather *a = (const struct rlx_k_gather *)args;

	rlx_g_each(l, a->outer * a->n_idx * rlx_g_ceil(a->inner, 4));
	l->key[0] = 1;
}

static inline void rlx_g_gather_elements_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gather_elements *a = (const struct rlx_k_gather_elements *)args;

	rlx_g_each(l, rlx_g_product(a->dim, a->rank));
	l->key[0] = a->size;
}

static inline void rlx_g_gather_nd_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gather_nd *a = (const struct rlx_k_gather_nd *)args;

	rlx_g_each(l, a->batch * a->n * rlx_g_ceil(a->inner, 4));
	l->key[0] = 1;
}

static inline void rlx_g_scatter_elements_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_scatter_elements *a = (const struct rlx_k_scatter_elements *)args;
	int64_t n = rlx_g_product(a->dim, a->rank);

	rlx_g_each(l, n ? n / a->dim[a->axis] : 0);
	l->key[0] = 1;
	l->key[1] = a->type;
}

static inline void rlx_g_scatter_nd_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_scatter_nd *a = (const struct rlx_k_scatter_nd *)args;

	rlx_g_each(l, a->inner);
	l->key[0] = 1;
	l->key[1] = a->type;
}

#include "kernels/gpu/launch_fold.h"
#include "kernels/gpu/launch_quant.h"
#include "kernels/gpu/launch_space.h"

#endif
