/* SPDX-License-Identifier: MIT */
/*
 * Launches of convolutions: which kernel, in which tiles; a part of launch.h.
 *
 * By the least time (cost.h): a thread for each output or up to 16 bytes of them
 * (conv_depthwise.cu), the way for groups of few output channels and for short sums; a block for
 * each output, whose sums are long while outputs are few; tiles of 16 to 128 channels, whose sums
 * may be split (split-K), 64 parts at most, to make up to two blocks for each multiprocessor.
 * f16 and bf16 have a launch more, before all others, that turns x and weights. Channels last
 * they lie as they are to, and sm_90 has a kernel for that alone (launch_conv_wgmma.h).
 * Limits: indices below 2^30, since kernels count positions in an image and in the weights by 32
 * bits; y and the residual dense. Else l->can stays false, and the step goes to the host.
 */
#ifndef RLX_G_LAUNCH_CONV_H
#define RLX_G_LAUNCH_CONV_H

#include "kernels/gpu/conv_plan.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/launch_conv_wgmma.h"

/* Positions in an image and in the weights are counted by 32 bits; y is dense. */
static inline bool rlx_g_conv_fits(const struct rlx_k_conv_nd *a)
{
	const double most = 1 << 30;
	double in = (double)rlx_g_conv_wide(a) * (double)a->groups, reach = 0;
	double taps = (double)rlx_g_conv_wide(a);

	for (int i = 0; i < 3; i++) {
		double far = (double)a->d[i] * (double)(a->k[i] - 1);

		if ((double)a->out[i] * (double)a->s[i] + far + (double)a->in[i] +
		    (double)a->p[i] > most / 4)
			return false;
		in *= (double)a->in[i];
		taps *= (double)a->k[i];
		reach = reach * (double)a->in[i] + far;
	}
	return in + reach * (double)(a->ic + 8 * a->groups) < most &&
	       taps * (double)(a->oc / a->groups) < most &&
	       a->y_n == a->oc * a->out[0] * a->out[1] * a->out[2] &&
	       (!a->res || a->res_n == a->y_n);
}

static inline bool rlx_g_conv_half(const struct rlx_k_conv_nd *a)
{
	return a->type == RLX_F16 || a->type == RLX_BF16;
}

/* Terms of a sum, of a transposed one those that a phase's pixels meet. */
static inline double rlx_g_conv_depth(const struct rlx_k_conv_nd *a)
{
	double depth = (double)(a->ic / a->groups);

	for (int i = 0; i < 3; i++)
		depth *= (double)a->k[i] / (double)rlx_g_conv_phases(a, i);
	return depth < 1 ? 1 : depth;
}

static inline double rlx_g_conv_outputs(const struct rlx_k_conv_nd *a)
{
	return (double)(a->n * a->oc) * (double)(a->out[0] * a->out[1] * a->out[2]);
}

/* Bytes of an element of x and w, and of one of y and the residual. */
static inline double rlx_g_conv_size(const struct rlx_k_conv_nd *a)
{
	return a->type == RLX_F64 ? 8 : rlx_g_conv_half(a) ? 2 : 4;
}

static inline double rlx_g_conv_out_size(const struct rlx_k_conv_nd *a)
{
	return a->out_type == a->type ? rlx_g_conv_size(a) : 4;
}

/* Bytes that a convolution moves, each once. */
static inline double rlx_g_conv_dram(const struct rlx_k_conv_nd *a)
{
	double x = (double)(a->n * a->ic) * (double)(a->in[0] * a->in[1] * a->in[2]);
	double w = (double)(a->oc * (a->ic / a->groups)) * (double)(a->k[0] * a->k[1] * a->k[2]);

	return (x + w) * rlx_g_conv_size(a) +
	       rlx_g_conv_outputs(a) * rlx_g_conv_out_size(a) * (a->res ? 2 : 1);
}

static inline enum rlx_g_rate rlx_g_conv_fma(const struct rlx_k_conv_nd *a)
{
	return a->type == RLX_F64 ? RLX_G_RATE_fma_f64 : RLX_G_RATE_fma_f32;
}

static inline const char *rlx_g_conv_why_not(const void *args, const struct rlx_g_launch *l)
{
	(void)l;
	return rlx_g_conv_fits((const struct rlx_k_conv_nd *)args) ? NULL :
	       "positions are over 2^30, or y or the residual is not dense";
}

/* Of a kernel that knows plain tensors alone. */
static inline const char *rlx_g_conv_plain_why_not(const void *args,
						   const struct rlx_g_launch *l)
{
	return ((const struct rlx_k_conv_nd *)args)->channels_last ? "it is channels last" :
	       rlx_g_conv_why_not(args, l);
}

/* Are the taps known of dimension @i? */
static inline bool rlx_g_conv_known(const struct rlx_k_conv_nd *a, int i)
{
	return !a->transposed && a->d[i] == 1 && a->k[i] <= 7 && a->s[i] <= 4;
}

/* Inputs of a plane that as many pixels across and rows meet. */
static inline int64_t rlx_g_conv_inputs(const struct rlx_k_conv_nd *a, int64_t across,
					int64_t rows)
{
	return ((rows - 1) * (int64_t)a->s[1] + (int64_t)a->k[1]) *
	       ((across - 1) * (int64_t)a->s[2] + (int64_t)a->k[2]);
}

/*
 * Pixels of a thread side by side: a pair of 16 bits, which costs no bank of the L1; of many taps
 * up to four, which share most of what they read.
 */
static inline int32_t rlx_g_conv_across_of(const struct rlx_k_conv_nd *a)
{
	bool shares = rlx_g_conv_known(a, 2) && a->k[2] >= 5 && a->s[2] == 1;
	int32_t per = a->transposed ? 1 : rlx_g_conv_half(a) ? 2 : shares ? 4 : 1;

	while (a->out[2] % (size_t)per)
		per /= 2;
	return per;
}

/*
 * A thread for one output, or those few side by side, of up to 8 rows of known taps as long
 * as enough threads are left, and their inputs have registers: so many of each plane, which a
 * grid's rows go through.
 */
static inline bool rlx_g_conv_depthwise_plan(const void *args, unsigned int i,
					     struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	int64_t down = rlx_g_conv_phases(a, 1), across = rlx_g_conv_phases(a, 2), units, each;
	int64_t deep = rlx_g_conv_phases(a, 0), planes, phases = deep * down * across, fill;
	bool known = rlx_g_conv_known(a, 2), square = known && rlx_g_conv_known(a, 1);
	int32_t per = rlx_g_conv_across_of(a), rows = 1;
	double outputs = rlx_g_conv_outputs(a) / per, enough = l->processors * 512.0;

	if (i)
		return false;
	while (square && rows < 8 && (size_t)rows < a->out[1] && outputs / (2 * rows) > enough &&
	       rlx_g_conv_inputs(a, per, 2 * rows) <= 64)
		rows *= 2;
	units = rlx_g_ceil(rlx_g_ceil((int64_t)a->out[1], down), rows) *
		rlx_g_ceil(rlx_g_ceil((int64_t)a->out[2], across), per);
	each = units < 256 ? 256 / units : 1;
	planes = rlx_g_ceil((int64_t)(a->n * a->oc) * rlx_g_ceil((int64_t)a->out[0], deep), each);
	rlx_g_line(l, rlx_g_ceil(units * each, 256), 256);
	/* the planes of a place one after the other, once there are blocks for all of the chip */
	fill = rlx_g_ceil(16 * (int64_t)l->processors, l->grid[0]);
	l->grid[1] = (uint32_t)(planes < fill ? planes : fill);
	l->grid[2] = (uint32_t)(phases < 65535 ? phases : 65535);
	RLX_G_VARIANT(l, conv_depthwise, .ELEM_TYPE = a->type, .CONV_OUT_TYPE = a->out_type,
		      .CONV_TRANSPOSED = a->transposed,
		      .CONV_TAPS = known ? (int32_t)a->k[2] : 0,
		      .CONV_TAPS_DOWN = square ? (int32_t)a->k[1] : known,
		      .CONV_STRIDE = known ? (int32_t)a->s[2] : 0,
		      .CONV_STRIDE_DOWN = square ? (int32_t)a->s[1] : 0,
		      .CONV_PIXELS = per, .CONV_ROWS = rows);
	return true;
}

/*
 * Four instructions or so a term and output. A group's channels follow one another, as many of them
 * under way at a time as there are few taps.
 */
static inline void rlx_g_conv_depthwise_cost(const void *args, const struct rlx_g_launch *l,
					     struct rlx_g_cost *t)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	const struct rlx_g_conv_depthwise_param *p = &l->param.conv_depthwise;
	double depth = rlx_g_conv_depth(a), each = rlx_g_conv_outputs(a) / t->blocks;
	double plane = (double)p->CONV_TAPS * p->CONV_TAPS_DOWN;
	double runs = each / 256 / p->CONV_PIXELS / p->CONV_ROWS;

	t->rate = rlx_g_conv_fma(a);
	t->part = plane > 0 ? 0.15 : 0.08;
	t->flops = 2 * each * depth;
	t->l2_bytes = each * depth * rlx_g_conv_size(a) / (p->CONV_ROWS > 1 ? 4 : 2);
	/* what is waited for before the next: a plane's channels, or a tap; dram_ns is of one */
	t->steps = (runs > 1 ? runs : 1) * (plane > 0 ? depth / plane : depth) - 0.7;
	t->step_ns = !(plane > 0) ? 100 : a->ic == a->groups ? 700 : plane < 4 ? 180 :
		     plane < 10 ? 300 : 500;
	t->dram_bytes = rlx_g_conv_dram(a);
	t->resident = 3;
}

enum { RLX_G_DEPTHWISE_SHARED = 48 << 10 };	/* bytes of turned weights */

static inline const char *rlx_g_conv_depthwise_last_why_not(const void *args,
							    const struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	double taps = (double)a->k[0] * (double)a->k[1] * (double)a->k[2];

	return !a->channels_last || a->x_plain || a->y_plain ? "it is not channels last" :
	       a->groups != a->ic || a->oc != a->ic ? "a group has more than a channel" :
	       a->type == RLX_F64 ? "it is f64" :
	       taps * 16 > RLX_G_DEPTHWISE_SHARED ? "there are over 3,072 taps" :
	       rlx_g_conv_why_not(args, l);
}

/*
 * A thread for a vector of channels of up to 4 pixels; rows of the grid have 32 vectors at most,
 * or as many as have their weights in shared memory.
 */
static inline bool rlx_g_conv_depthwise_last_plan(const void *args, unsigned int i,
						  struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	bool known = a->d[2] == 1 && a->k[2] <= 7 && a->s[2] <= 4;
	int64_t size = rlx_g_conv_half(a) ? 2 : 4, taps = (int64_t)(a->k[0] * a->k[1] * a->k[2]);
	int64_t rows = (int64_t)(a->n * a->out[0] * a->out[1]), fill = l->processors;
	uint64_t at = (uint64_t)a->x, to = (uint64_t)a->y | (uint64_t)a->res;
	uint64_t out = (uint64_t)rlx_g_conv_out_size(a);
	int64_t vec = 16 / size, per = !known ? 1 : a->s[2] > 1 || a->k[2] > 5 ? 2 : 4;
	int64_t most, vecs, parts, runs;

	if (i)
		return false;
	while (a->ic % (size_t)vec || at % (uint64_t)(vec * size) || to % ((uint64_t)vec * out))
		vec /= 2;
	most = RLX_G_DEPTHWISE_SHARED / (taps * vec * size);
	vecs = (int64_t)a->ic / vec;
	while (per > 1 && (per > (int64_t)a->out[2] ||
			   rows * rlx_g_ceil((int64_t)a->out[2], per) * vecs < fill * 1024))
		per /= 2;
	parts = rlx_g_ceil(vecs, most < 32 ? most : 32);
	vecs = rlx_g_ceil(vecs, parts);
	parts = rlx_g_ceil((int64_t)a->ic / vec, vecs);
	runs = rlx_g_ceil(rows * rlx_g_ceil((int64_t)a->out[2], per), 256 / vecs);
	/* each block turns weights: no more of them than keep a multiprocessor busy */
	fill = rlx_g_ceil(fill * 8, parts);
	rlx_g_line(l, runs < fill ? runs : fill, 256);
	l->grid[1] = (uint32_t)parts;
	l->can = parts <= 65535;
	l->shared = (uint32_t)(taps * vecs * vec * size);
	RLX_G_VARIANT(l, conv_depthwise_channels_last, .ELEM_TYPE = a->type,
		      .CONV_OUT_TYPE = a->out_type,
		      .CONV_TAPS = known ? (int32_t)a->k[2] : 0,
		      .CONV_STRIDE = known ? (int32_t)a->s[2] : 0, .CONV_PIXELS = (int32_t)per,
		      .CONV_CHANNELS = (int32_t)vec, .CONV_ACT = (int32_t)a->act);
	return true;
}

/* Bound by memory, but for many taps: four instructions or so a term and output. */
static inline void rlx_g_conv_depthwise_last_cost(const void *args, const struct rlx_g_launch *l,
						  struct rlx_g_cost *t)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	double depth = rlx_g_conv_depth(a), each = rlx_g_conv_outputs(a) / t->blocks;
	double per = l->param.conv_depthwise_channels_last.CONV_PIXELS;

	t->rate = RLX_G_RATE_fma_f32;
	t->part = 0.3;
	t->flops = 2 * each * depth;
	t->l2_bytes = each * depth * rlx_g_conv_size(a) / (per * 2) + l->shared;
	t->begin_ns = 1000;
	t->dram_bytes = rlx_g_conv_dram(a);
	t->resident = 2;
}

static inline const char *rlx_g_conv_direct_why_not(const void *args,
						    const struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;

	return a->transposed ? "it is transposed" :
	       rlx_g_conv_outputs(a) >= 1 << 30 ? "there are over 2^30 outputs" :
	       rlx_g_conv_plain_why_not(args, l);
}

/* A block for each output. */
static inline bool rlx_g_conv_direct_plan(const void *args, unsigned int i,
					  struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;

	if (i)
		return false;
	rlx_g_line(l, (int64_t)rlx_g_conv_outputs(a), 256);
	RLX_G_VARIANT(l, conv_direct, .ELEM_TYPE = a->type, .CONV_OUT_TYPE = a->out_type);
	return true;
}

static inline void rlx_g_conv_direct_cost(const void *args, const struct rlx_g_launch *l,
					  struct rlx_g_cost *t)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	double depth = rlx_g_conv_depth(a);

	(void)l;
	t->rate = rlx_g_conv_fma(a);
	t->part = 0.1;
	t->flops = 2 * depth;
	t->l2_bytes = 2 * depth * rlx_g_conv_size(a);
	t->steps = depth / 256;
	t->step_ns = 100;
	if (rlx_g_conv_half(a)) {	/* a division, a load of 2 bytes a term; eight blocks */
		t->steps = (double)rlx_g_ceil((int64_t)depth, 256);
		t->step_ns = 2000;
	}
	t->end_ns = 150;
	t->dram_bytes = rlx_g_conv_dram(a);
}

/* Channels by pixels. */
struct rlx_g_conv_tile {
	int32_t	m, n;
};

static inline int64_t rlx_g_conv_blocks(const struct rlx_k_conv_nd *a, struct rlx_g_conv_tile t)
{
	return rlx_g_conv_tiles(a, t.m, t.n);
}

/* A block for each tile and each of @parts of its sums, which another launch adds up. */
static inline void rlx_g_conv_tiled(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l,
				    struct rlx_g_conv_tile t, uint32_t threads, uint32_t parts)
{
	rlx_g_line(l, rlx_g_conv_blocks(a, t), threads);
	l->grid[1] = parts;
	l->n_launches = 1 + (parts > 1);
	if (parts > 1)
		l->scratch = parts * a->n * a->oc * a->out[0] * a->out[1] * a->out[2] *
			     (a->type == RLX_F64 ? 8 : 4);
}

/* Bytes that parts of sums are, written and read once. */
static inline double rlx_g_conv_part_bytes(const struct rlx_k_conv_nd *a, double parts)
{
	return parts > 1 ? 2 * parts * rlx_g_conv_outputs(a) * (a->type == RLX_F64 ? 8 : 4) : 0;
}

/* ---- f16 and bf16 ---- */

/* Parts of sums of @depth terms that make two blocks for each multiprocessor. */
static inline uint32_t rlx_g_conv_parts(int64_t tiles, int64_t depth, int64_t processors)
{
	int64_t most = depth / 256, want = tiles && tiles < processors ? 2 * processors / tiles : 1;

	want = want < most ? want : most;
	return (uint32_t)(want < 1 ? 1 : want < 64 ? want : 64);
}

static inline void rlx_g_conv_mma_by(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l,
				     struct rlx_g_conv_tile t, uint32_t parts)
{
	int64_t jobs = rlx_g_conv_repacks(a, (int64_t)a->n), taps, w = 0;

	rlx_g_conv_tiled(a, l, t, t.m == 64 ? 128 : 256, parts);
	RLX_G_VARIANT(l, conv_mma, .ELEM_TYPE = a->type, .CONV_OUT_TYPE = a->out_type,
		      .CONV_TRANSPOSED = a->transposed, .CONV_TILE_M = t.m, .CONV_TILE_N = t.n);
	l->n_launches += rlx_g_conv_repacked(a) != 0;
	l->scratch += rlx_g_conv_repacked(a);
	taps = (int64_t)(a->oc * a->k[0] * a->k[1] * a->k[2]);
	if (!a->channels_last)
		w = rlx_g_ceil(taps * rlx_g_conv_wide(a) / 8, l->block[0]);
	jobs = jobs > w ? jobs : w;
	if (rlx_g_conv_repacked(a))	/* all of the chip turns x and weights */
		rlx_g_conv_fill(l, rlx_g_ceil(2 * (int64_t)l->processors, parts), jobs, parts);
	l->shared = RLX_G_CONV_STAGES * 80 * (uint32_t)(t.m + t.n);	/* rows of 40 elements */
}

/* Tiles by size; none has twice the channels that there are. */
static inline bool rlx_g_conv_mma_tile(const struct rlx_k_conv_nd *a, int i,
				       struct rlx_g_conv_tile *out)
{
	static const struct rlx_g_conv_tile tile[] = { { 128, 128 }, { 64, 128 }, { 64, 64 } };

	*out = tile[i];
	return i || a->oc / a->groups > 64;
}

/*
 * First the largest tile that makes a block for each multiprocessor, else the smallest in parts;
 * then the others, which must gain, and the smallest whole.
 */
static inline bool rlx_g_conv_mma_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	struct rlx_g_conv_tile t;
	uint32_t parts;
	int first = 0;

	while (first < 2 && (!rlx_g_conv_mma_tile(a, first, &t) ||
			     rlx_g_conv_blocks(a, t) < l->processors))
		first++;
	if (i > 3)
		return false;
	l->can = rlx_g_conv_mma_tile(a, i > 2 ? 2 : (first + (int)i) % 3, &t);
	if (!l->can)
		return true;
	parts = t.m + t.n > 128 ? 1 :
		rlx_g_conv_parts(rlx_g_conv_blocks(a, t), (int64_t)rlx_g_conv_depth(a),
				 l->processors);
	rlx_g_conv_mma_by(a, l, t, i > 2 ? 1 : parts);
	l->can = i < 3 || parts > 1;
	return true;
}

/* The launches before and behind move bytes: x and weights turned, parts added up. */
static inline void rlx_g_conv_mma_cost(const void *args, const struct rlx_g_launch *l,
				       struct rlx_g_cost *t)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	double m = l->param.conv_mma.CONV_TILE_M, n = l->param.conv_mma.CONV_TILE_N;
	double parts = l->grid[1], k = rlx_g_conv_depth(a) / parts;

	k = 32 * (double)(int64_t)(k / 32 + 0.999);
	t->blocks = parts * (double)rlx_g_conv_blocks(a, (struct rlx_g_conv_tile){
				    l->param.conv_mma.CONV_TILE_M, l->param.conv_mma.CONV_TILE_N });
	t->rate = RLX_G_RATE_mma_f16;
	t->part = 0.16 * (m + n > 192 ? 1 : m + n > 128 ? 0.78 : 0.6);
	t->flops = 2 * m * n * k;
	t->l2_bytes = (m + n) * k * 2;
	t->steps = k / 32;
	t->step_ns = 6 * (m + n) - 300;
	t->begin_ns = 5000;	/* where columns begin, and the ends of sums, one by one */
	t->end_ns = 200 + m * n / (a->channels_last && !a->y_plain ? 3 : 17);
	t->dram_bytes = rlx_g_conv_dram(a);
	t->alone_bytes = 2 * (double)rlx_g_conv_repacked(a) + rlx_g_conv_part_bytes(a, parts);
	t->resident = m > 64 ? 2 : 3;
}

/* ---- f32 and f64 ---- */

/* Too many taps for a word of bits. */
static inline bool rlx_g_conv_many_taps(const struct rlx_k_conv_nd *a)
{
	return a->k[0] * a->k[1] * a->k[2] > 32;
}

/*
 * Of f64 one; of f32 large ones for many channels, flat ones for few. Of 16 x 256 the tables of
 * many taps that are transposed have no room in 48 KiB.
 */
static inline bool rlx_g_conv_simt_tile(const struct rlx_k_conv_nd *a, unsigned int i,
					struct rlx_g_conv_tile *out)
{
	static const struct rlx_g_conv_tile tile[] = { { 64, 64 }, { 128, 128 }, { 32, 128 },
						       { 16, 256 } };
	int64_t rows = (int64_t)(a->oc / a->groups);

	*out = tile[i];
	if (tile[i].n == 256 && a->transposed && rlx_g_conv_many_taps(a))
		return false;
	return i == 0 || (a->type == RLX_F32 && (i == 1 ? rows > 64 : rows <= 2 * tile[i].m));
}

static inline void rlx_g_conv_simt_by(const struct rlx_k_conv_nd *a, struct rlx_g_launch *l,
				      struct rlx_g_conv_tile t, uint32_t parts)
{
	rlx_g_conv_tiled(a, l, t, 256, parts);
	RLX_G_VARIANT(l, conv_simt, .ELEM_TYPE = a->type, .CONV_TRANSPOSED = a->transposed,
		      .CONV_TILE_M = t.m, .CONV_TILE_N = t.n,
		      .CONV_MANY_TAPS = rlx_g_conv_many_taps(a));
}

/*
 * Each tile, whole and then, if that leaves multiprocessors idle, in parts of 64 terms at least:
 * as many as fill them once, and twice.
 */
static inline bool rlx_g_conv_simt_plan(const void *args, unsigned int i, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	int64_t most = (int64_t)rlx_g_conv_depth(a) / 64, blocks, parts;
	struct rlx_g_conv_tile t;

	if (i >= 12)
		return false;
	l->can = rlx_g_conv_simt_tile(a, i / 3, &t);
	if (!l->can)
		return true;
	blocks = rlx_g_conv_blocks(a, t);
	parts = i % 3 && blocks ? (int64_t)(i % 3) * l->processors / blocks : 1;
	most = most < 64 ? most : 64;
	parts = parts < most ? parts : most;
	rlx_g_conv_simt_by(a, l, t, parts > 1 ? (uint32_t)parts : 1);
	l->can = i % 3 == 0 || parts > 1;
	return true;
}

static inline void rlx_g_conv_simt_cost(const void *args, const struct rlx_g_launch *l,
					struct rlx_g_cost *t)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;
	double m = l->param.conv_simt.CONV_TILE_M, n = l->param.conv_simt.CONV_TILE_N;
	double parts = l->grid[1], k = rlx_g_conv_depth(a) / parts, step = m > 64 ? 8 : 16;

	k = step * (double)(int64_t)(k / step + 0.999);
	t->rate = rlx_g_conv_fma(a);
	t->part = m > 16 ? 0.5 : 0.4;
	t->flops = 2 * m * n * k;
	t->l2_bytes = (m + n) * k * rlx_g_conv_size(a);
	t->steps = k / step;
	t->step_ns = m > 64 ? 1800 : m > 16 ? 740 : 880;
	t->begin_ns = 4500;
	t->once_ns = parts > 1 ? 2500 : 0;
	t->end_ns = 500 + m * n / 17;
	t->dram_bytes = rlx_g_conv_dram(a);
	t->alone_bytes = rlx_g_conv_part_bytes(a, parts);
	t->resident = 2;
}

static inline void rlx_g_conv_describe(const void *args, char *buf, size_t size)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;

	snprintf(buf, size, "conv n%zu c%zu oc%zu g%zu in%zux%zux%zu out%zux%zux%zu k%zux%zux%zu "
		 "s%zux%zux%zu d%zux%zux%zu t=%d,%d%s%s%s%s",
		 a->n, a->ic, a->oc, a->groups, a->in[0], a->in[1], a->in[2], a->out[0],
		 a->out[1], a->out[2], a->k[0], a->k[1], a->k[2], a->s[0], a->s[1], a->s[2],
		 a->d[0], a->d[1], a->d[2], (int)a->type, (int)a->out_type,
		 a->transposed ? " transposed" : "", a->res ? " residual" : "",
		 a->channels_last ? a->x_plain ? " x-plain" : " channels-last" : "",
		 a->y_plain ? " y-plain" : "");
}

static inline const char *rlx_g_conv_mma_why_not(const void *args, const struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *a = (const struct rlx_k_conv_nd *)args;

	return !rlx_g_conv_half(a) ? "it is neither f16 nor bf16" :
	       a->channels_last && !a->x_plain && a->ic / a->groups % 8 ?
	       "a pixel's channels are no multiple of 8" : rlx_g_conv_why_not(args, l);
}

static inline const char *rlx_g_conv_simt_why_not(const void *args, const struct rlx_g_launch *l)
{
	return rlx_g_conv_half((const struct rlx_k_conv_nd *)args) ?
	       "f16 and bf16 have tensor cores" : rlx_g_conv_plain_why_not(args, l);
}

static inline void rlx_g_conv_nd_launch(const void *args, struct rlx_g_launch *l)
{
	static const struct rlx_g_option option[] = {
		{ RLX_G_conv_wgmma, rlx_g_conv_wgmma_why_not, rlx_g_conv_wgmma_plan,
		  rlx_g_conv_wgmma_cost },
		{ RLX_G_conv_mma, rlx_g_conv_mma_why_not, rlx_g_conv_mma_plan,
		  rlx_g_conv_mma_cost },
		{ RLX_G_conv_simt, rlx_g_conv_simt_why_not, rlx_g_conv_simt_plan,
		  rlx_g_conv_simt_cost },
		{ RLX_G_conv_depthwise, rlx_g_conv_plain_why_not, rlx_g_conv_depthwise_plan,
		  rlx_g_conv_depthwise_cost },
		{ RLX_G_conv_depthwise_channels_last, rlx_g_conv_depthwise_last_why_not,
		  rlx_g_conv_depthwise_last_plan, rlx_g_conv_depthwise_last_cost },
		{ RLX_G_conv_direct, rlx_g_conv_direct_why_not, rlx_g_conv_direct_plan,
		  rlx_g_conv_direct_cost },
	};
	static const struct rlx_g_family family = {
		"conv", option, sizeof(option) / sizeof(option[0]), rlx_g_conv_describe
	};

	rlx_g_choose(&family, args, l);
}

static inline void rlx_g_conv_i8_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_conv_nd *s = &((const struct rlx_k_conv_i8 *)args)->shape;

	RLX_G_VARIANT(l, conv_i8);
	rlx_g_each(l, (int64_t)(s->n * s->oc * s->out[0] * s->out[1] * s->out[2]));
}

#endif
