/* SPDX-License-Identifier: MIT */
/*
 * How each GPU kernel is launched: host C, one function for each row of kernels.def, from the
 * argument struct of the CPU kernel of that name.
 *
 * A launch says grid, threads, shared memory, scratch, which row of kernels.def it is of, and the
 * parameters that row's module is compiled for: what is known before a run and changes the code's
 * shape is one of them, what changes from run to run is in the arguments. Kernels whose elements
 * are alike have 8,192 blocks of 256 threads at most and go on by a grid's width, so any size can
 * be launched.
 * Limits: grids of 2^30 blocks; a form that no kernel has leaves l->can false: the lowering calls
 * it unsupported, and the step goes to the host.
 */
#ifndef RLX_G_LAUNCH_H
#define RLX_G_LAUNCH_H

#include <stdio.h>

#include "kernels/attention.h"
#include "kernels/kv_cache.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/gpu/cost.h"
#include "kernels/gpu/env.h"
#include "kernels/move.h"
#include "kernels/norm.h"
#include "kernels/gemv_stream.h"

/* Rows of kernels.def. */
enum rlx_g_variant {
	RLX_G_NONE,
#define GPU_VARIANT(name, ...)	RLX_G_##name,
#include "kernels/gpu/kernels.def"
	RLX_G_VARIANTS
};

/* Their parameters by name, those of a row in its order. */
union rlx_g_param {
	int32_t	value[16];
#define GPU_VARIANT(name, file, ...)					\
	struct rlx_g_##name##_param {					\
		__VA_OPT__(int32_t __VA_ARGS__;)			\
	} name;
#include "kernels/gpu/kernels.def"
};

/*
 * What strict bits (docs/strict-bits.md) ask of a launch: OTHER: it adds up in an order of its own,
 * or rounds where the CPU does not; EXACT: there is but one result, whoever computes it; ORDERED:
 * it rounds and adds up as the CPU does, if the compiler contracts nothing, which it is told then.
 * Rows of kernels.def say which; without a word, OTHER. backends/gpu/variant.c
 */
enum rlx_g_bits { RLX_G_BITS_OTHER, RLX_G_BITS_EXACT, RLX_G_BITS_ORDERED };
enum rlx_g_bits rlx_g_bits(enum rlx_g_variant v, const union rlx_g_param *p);

_Static_assert(sizeof(union rlx_g_param) == 16 * sizeof(int32_t), "a row has more parameters");

/**
 * struct rlx_g_tensor_map - how TMA reads a matrix of f16 or bf16, or images (im2col mode)
 * @field: where its address stands in the arguments; @in_scratch: where in scratch it begins
 * @dim, @step: elements, bytes, innermost first; two batch dimensions last. Of images: channels,
 *	width, height, images
 * @box: elements of a tile; the batch dimensions have one. Rows of 64, 32 or 16 elements are
 *	swizzled as wgmma reads rows of so many bytes. Of images: channels, and output pixels,
 *	which follow one another along rows, then images
 * @im2col: of images, by the pixels that meet one tap of a convolution
 * @lower, @upper: width's and height's, of images: where the first tap is of the first pixel, from
 *	the image's first one, and of the last pixel, from the image's last one
 * @stride: the same, from one output pixel to the next
 */
struct rlx_g_tensor_map {
	bool		in_scratch, im2col;
	uint32_t	box[2];
	uint64_t	field, dim[4], step[3];
	int8_t		lower[2], upper[2];
	uint8_t		stride[2];
};

#define RLX_G_TENSOR_MAPS	4	/* most of a launch */

/**
 * struct rlx_g_launch - a launch of rlx_g_<name>
 * @units: set by the caller: units of the CPU kernel
 * @arch: set by the caller: NVIDIA's chip, 90 for sm_90; 0: any other
 * @processors: set by the caller: how many blocks run side by side at least
 * @most_shared: set by the caller: bytes of shared memory that a block may have
 * @strict: set by the caller: no kernel will do whose bits are OTHER
 * @chip: set by the caller: what it is planned for; NULL: an H200
 * @judge: set by the caller: has the last word where there is a choice; NULL: the least time
 * @can: this form of the arguments has a kernel here
 * @grid: blocks; grid[0] of 0: nothing to do
 * @block: threads
 * @shared: bytes of dynamic shared memory
 * @n_launches: launches, one after the other, each with its number in env.pass; 0 is 1
 * @scratch: bytes of device memory at env.scratch, for all passes
 * @n_map, @map: what env.maps points to
 * @variant, @param: the kernel, and what its module is compiled for
 * @ns: what it takes by the cost model; 0: nobody asked
 *
 * Pointers in the arguments are not followed, only told from NULL; how they are aligned
 * can be seen.
 */
struct rlx_g_launch {
	uint64_t	units;
	uint32_t	arch, processors, most_shared;
	const struct rlx_g_chip *chip;
	struct rlx_g_judge *judge;
	bool		can, strict;
	double		ns;
	uint32_t	grid[3], block[3], shared, n_launches;
	uint64_t	scratch;
	uint32_t	n_map;
	struct rlx_g_tensor_map map[RLX_G_TENSOR_MAPS];
	enum rlx_g_variant variant;
	union rlx_g_param param;
};

/**
 * struct rlx_g_candidate - one way to do what is asked for
 * @why_not: it is none, for this reason; NULL: @launch does it in about @ns
 */
struct rlx_g_candidate {
	int		variant;
	const char	*why_not;
	double		ns;
	struct rlx_g_launch launch;
};

enum { RLX_G_MOST_CANDIDATES = 64 };

/* Who looks at candidates, @n of them, of which @least is to be taken; the result is, instead. */
struct rlx_g_judge {
	unsigned int	(*choose)(struct rlx_g_judge *j, const struct rlx_g_family *f,
				  const void *args, const struct rlx_g_candidate *c,
				  unsigned int n, unsigned int least);
};

/* It is the kernel of row @name, whose parameters are those given, else 0. */
#define RLX_G_VARIANT(l, name, ...)					\
	((l)->variant = RLX_G_##name,					\
	 (l)->param.name = (struct rlx_g_##name##_param){ __VA_ARGS__ })

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

/*
 * Occupancy limited to an even share of the grid: with programmatic dependent launch (PDL) blocks
 * that begin while the launch ahead still runs would pile up on the multiprocessors that it left
 * idle, @resident of them on each, and take as long as so many do there. More shared memory than
 * they need lets no more of them in than each multiprocessor's share.
 */
static inline void rlx_g_limit_occupancy(struct rlx_g_launch *l, int64_t resident)
{
	int64_t each = l->processors ? rlx_g_ceil((int64_t)l->grid[0], l->processors) : resident;
	uint32_t all = l->chip ? l->chip->smem_sm : 228 << 10, bytes;

	if (l->arch < 90 || each < 1 || each >= resident)
		return;
	bytes = all / (uint32_t)(each + 1);	/* with 1 KiB of the driver's, too much for more */
	if (bytes > l->shared && bytes <= l->most_shared)
		l->shared = bytes;
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
	return type == RLX_F32 || type == RLX_BF16 || type == RLX_F16;
}

/* The cache is split where that makes blocks for a large GPU, not below 64 rows. */
static inline void rlx_g_kv_cache_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_kv_cache *a = (const struct rlx_k_kv_cache *)args;
	int64_t pairs = a->batch * a->kv_heads, group = a->kv_heads ? a->heads / a->kv_heads : 0;
	int64_t parts = pairs ? 128 / pairs : 1, most = rlx_g_ceil(a->rows, 64);

	if ((a->type != RLX_BF16 && a->type != RLX_F16) || a->dim % 8 || a->dim < 16 ||
	    a->dim > RLX_K_KV_CACHE_DIM || group > RLX_K_KV_CACHE_GROUP || group * a->dim > 1024 ||
	    pairs > 1 << 30 ||		/* a block each, at least */
	    (a->cos && !rlx_g_small_float(a->table_type)))
		return;
	parts = parts < most ? parts : most;
	parts = parts > 1 ? parts : 1;
	rlx_g_line(l, pairs * parts, 256);
	RLX_G_VARIANT(l, kv_cache, .KV_CACHE_TYPE = a->type, .KV_CACHE_DIM = (int32_t)a->dim,
		      .KV_CACHE_GROUP = (int32_t)group, .KV_CACHE_PARTS = (int32_t)parts);
	if (parts > 1)
		l->scratch = (uint64_t)(pairs * parts * group * (a->dim + 2)) * sizeof(float);
}

static inline void rlx_g_zero_launch(const void *args, struct rlx_g_launch *l)
{
	rlx_g_each(l, (int64_t)l->units / 16 + 1);
	RLX_G_VARIANT(l, zero);
}

static inline void rlx_g_iota_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_iota *a = (const struct rlx_k_iota *)args;

	rlx_g_each(l, a->n);
	RLX_G_VARIANT(l, iota, .IOTA_TYPE = a->type);
}

/* The widest word, in bytes, that rows of both sides are made of, wherever they begin. */
static inline int32_t rlx_g_copy_width(const struct rlx_k_copy *a)
{
	bool fill = a->form == RLX_K_COPY_FILL;
	uint64_t bits = 16 | (uint64_t)(uintptr_t)a->dst;
	int last = a->rank - 1;

	if ((!fill && a->src_stride[last] != 1) || a->dst_stride[last] != 1)
		return a->size;
	bits |= fill ? 0 : (uint64_t)(uintptr_t)a->src;
	if (last)	/* a single row may end at any byte */
		bits |= (uint64_t)a->dim[last] * a->size;
	for (int d = 0; d < last; d++)
		bits |= ((uint64_t)a->dst_stride[d] | (fill ? 0 : (uint64_t)a->src_stride[d])) *
			a->size;
	bits &= -bits;
	return fill && bits < a->size ? a->size : (int32_t)bits;
}

static inline void rlx_g_copy_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_copy *a = (const struct rlx_k_copy *)args;
	int64_t n = rlx_g_product(a->dim, a->rank) * a->size, full = 8 * (int64_t)l->processors;
	int last = a->rank - 1, row = a->form == RLX_K_COPY_READ_ROWS ? a->src_dim : last;
	int32_t width = a->size, form = a->form;
	int64_t blocks, each;

	if (form >= RLX_K_COPY_READ_ROWS) {
		blocks = rlx_k_copy_tiles(a, (int64_t)1 << a->tile_shift, a->tile, row,
					  last + a->src_dim - row);
		rlx_g_line(l, blocks, 256);
		l->shared = (uint32_t)rlx_k_copy_tile_bytes(a, (int64_t)1 << a->tile_shift,
							    a->tile);
	} else {
		width = rlx_g_copy_width(a);
		form = width > a->size ? form : RLX_K_COPY_WORDS;
		/* words of a thread where those are enough threads, one where they are few */
		blocks = rlx_g_ceil(n, 256 * width);
		each = rlx_g_ceil(blocks, width < 8 ? 8 : 4);
		blocks = blocks < full ? blocks : full;
		rlx_g_line(l, each > blocks ? each : blocks, 256);
	}
	RLX_G_VARIANT(l, copy, .COPY_SIZE = width, .COPY_FORM = form);
}

static inline void rlx_g_index_copy_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_index_copy *a = (const struct rlx_k_index_copy *)args;

	rlx_g_each(l, rlx_g_product(a->dim, a->rank));
	RLX_G_VARIANT(l, index_copy, .COPY_SIZE = a->size);
}

static inline void rlx_g_trilu_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_trilu *a = (const struct rlx_k_trilu *)args;

	rlx_g_each(l, a->batch * a->rows * a->cols);
	RLX_G_VARIANT(l, trilu, .COPY_SIZE = a->size);
}

static inline void rlx_g_gather_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gather *a = (const struct rlx_k_gather *)args;

	rlx_g_each(l, a->outer * a->n_idx * rlx_g_ceil(a->inner, 4));
	RLX_G_VARIANT(l, gather);
}

static inline void rlx_g_gather_elements_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gather_elements *a = (const struct rlx_k_gather_elements *)args;

	rlx_g_each(l, rlx_g_product(a->dim, a->rank));
	RLX_G_VARIANT(l, gather_elements, .GATHER_SIZE = a->size);
}

static inline void rlx_g_gather_nd_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gather_nd *a = (const struct rlx_k_gather_nd *)args;

	rlx_g_each(l, a->batch * a->n * rlx_g_ceil(a->inner, 4));
	RLX_G_VARIANT(l, gather_nd);
}

static inline void rlx_g_scatter_elements_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_scatter_elements *a = (const struct rlx_k_scatter_elements *)args;
	int64_t n = rlx_g_product(a->dim, a->rank), along = a->dim[a->axis];
	int64_t lines = n ? n / along : 0;

	rlx_g_each(l, lines);
	RLX_G_VARIANT(l, scatter_elements, .SCATTER_TYPE = a->type);
	/* few lines that are long: all their updates at a time, where the last one wins */
	if (a->op != RLX_K_SCATTER_NONE || lines > 16384 || along < 64 || along >= UINT32_MAX ||
	    a->axis_dim / along > 64)
		return;
	rlx_g_each(l, n > lines * a->axis_dim ? n : lines * a->axis_dim);
	l->param.scatter_elements.SCATTER_LAST = 1;
	l->n_launches = 3;
	l->scratch = (uint64_t)lines * (uint64_t)a->axis_dim * sizeof(uint32_t);
}

static inline void rlx_g_scatter_nd_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_scatter_nd *a = (const struct rlx_k_scatter_nd *)args;

	int64_t places = rlx_g_product(a->dim, a->k), chunks = rlx_g_ceil(a->inner, 256);
	int64_t teams = a->inner ? rlx_g_ceil(8 * (int64_t)l->processors, chunks) : 0;

	rlx_g_each(l, a->inner);
	RLX_G_VARIANT(l, scatter_nd, .SCATTER_TYPE = a->type);
	/* many updates: blocks share out the places */
	teams = teams < places ? teams : places;
	if (a->n < 64 || teams < 2)
		return;
	rlx_g_line(l, teams * chunks, 256);
	l->param.scatter_nd.SCATTER_PLACES = 1;
}

#include "kernels/gpu/launch_conv.h"
#include "kernels/gpu/launch_attention.h"
#include "kernels/gpu/launch_attention_grad.h"
#include "kernels/gpu/launch_fft.h"
#include "kernels/gpu/launch_fold.h"
#include "kernels/gpu/launch_gemm.h"
#include "kernels/gpu/launch_gemm_horizontal.h"
#include "kernels/gpu/launch_gemm_f32.h"
#include "kernels/gpu/launch_conv_ordered.h"
#include "kernels/gpu/launch_f8.h"
#include "kernels/gpu/launch_quant.h"
#include "kernels/gpu/launch_rnn.h"
#include "kernels/gpu/launch_rows.h"
#include "kernels/gpu/launch_space.h"
#include "kernels/gpu/launch_ssm.h"

#endif
