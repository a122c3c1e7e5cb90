// SPDX-License-Identifier: MIT
/* Convolutions, plain and blocked, and the reorders between layouts. */
#include <string.h>

#include "backends/common/conv_desc.h"
#include "base/shape.h"
#include "backends/cpu/cpu.h"
#include "kernels/conv_bf16.h"
#include "kernels/conv_i8_dw.h"

/* The weights in a kernel's order: how its packing kernel is asked for them. */
struct order {
	const char		*kind;		/* of prepared memory */
	enum rlx_kernel_id	 kernel;
	size_t			 units, bytes;
	size_t			 tiles;		/* of output channels, or 0: see pack_weights() */
	bool			 phased;	/* it is one for strides, dilations and padding too */
};

/* @size bytes for a call that packs: as long as it is there. NULL: out of memory */
static const void *kept(struct rlx_lower *lo, const void *from, size_t size)
{
	void *p = rlx_lower_is_const(lo, 1) ? NULL : rlx_lower_keep(lo, 1, size);

	if (lo->status)
		return NULL;
	return p ? memcpy(p, from, size) : from;
}

/*
 * @field of the staged arguments @conv, of @size bytes, becomes the packed weights. All packing
 * kernels take what rlx_k_conv_pack has, @conv being their own kernel's. It is found by what they
 * look at: the filters' shape, and @tiles and phases where they depend on more. It is not the
 * images': instances of a model for other sizes and batches share what is packed.
 */
static void pack_weights(struct rlx_lower *lo, const struct rlx_conv *g, const struct order *o,
			 const void *conv, size_t size, const float **field)
{
	const int64_t key[4] = {
		(int64_t)(g->ic << 32 | g->oc), (int64_t)(g->groups << 8 | cpu_isa(lo)),
		(int64_t)o->tiles, 0,
	};
	struct rlx_k_conv_pack pack = { .conv = kept(lo, conv, size) };
	const size_t *more[4] = { g->k, g->s, g->d, g->p };
	size_t of[4][3] = { { 0 } }, i;
	const void *p;

	for (i = 0; i < (o->phased ? 4 : 1); i++)
		memcpy(of[i], more[i], sizeof(of[i]));
	p = kept(lo, of, sizeof(of));
	if (p)
		cpu_pack(lo, field, &(struct cpu_packing){
			o->kind, key, o->kernel, 1, &pack, sizeof(pack),
			offsetof(struct rlx_k_conv_pack, src),
			offsetof(struct rlx_k_conv_pack, dst), o->units, o->bytes + 64, p,
			sizeof(of) });
}

static enum rlx_status lower_depthwise(struct rlx_lower *lo, const struct rlx_conv *g,
				       const size_t image[2])
{
	struct rlx_k_dw_c *a = rlx_lower_args(lo, sizeof(*a));

	RLX_CONV_SHAPE(a, g);
	RLX_CONV_WINDOW(a, g);
	a->channels = g->oc;
	a->x_n = image[0];
	a->y_n = a->res_n = image[1];
	if (!rlx_dw_c_init(cpu_isa(lo), a))
		return rlx_lower_unsupported(lo, "the depthwise kernel does not take this shape");
	pack_weights(lo, g, &(struct order){ "dw_c", RLX_KERNEL_dw_c_pack,
					     (g->oc + a->c - 1) / a->c, rlx_dw_c_wsize(a), 0, false },
		     a, sizeof(*a), &a->w);
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_extent(lo, (int64_t)g->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_dw_c, rlx_dw_c_units(a), rlx_conv_work(g), 0);
}

static enum rlx_status lower_winograd(struct rlx_lower *lo, const struct rlx_conv *g,
				      const struct rlx_k_wino_c *as)
{
	struct rlx_k_wino_c *a = rlx_lower_args(lo, sizeof(*a));

	*a = *as;
	pack_weights(lo, g, &(struct order){ a->m == 4 ? "wino4_c" : "wino2_c",
					     RLX_KERNEL_wino_c_pack, rlx_wino_c_pack_units(a),
					     rlx_wino_c_wsize(a), 0, false }, a, sizeof(*a), &a->w);
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_extent(lo, (int64_t)g->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_wino_c, rlx_wino_c_units(a), rlx_conv_work(g),
			      rlx_wino_c_scratch(a));
}

static enum rlx_status lower_blocked(struct rlx_lower *lo, const struct rlx_conv *g)
{
	struct rlx_k_conv_c *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_k_wino_c w;
	size_t image[2];

	rlx_conv_image(g, image);
	if (rlx_conv_is_depthwise(g))
		return lower_depthwise(lo, g, image);
	if (!rlx_conv_blocked(cpu_isa(lo), a, g))
		return rlx_lower_unsupported(lo, "the blocked kernel does not take this shape");
	if (rlx_conv_winograd(lo, cpu_isa(lo), a, &w))
		return lower_winograd(lo, g, &w);
	pack_weights(lo, g, &(struct order){ g->x_plain ? "conv_c plain" : "conv_c",
					     RLX_KERNEL_conv_c_pack, rlx_conv_pack_units(a),
					     rlx_conv_c_wsize(a), 0, false }, a, sizeof(*a), &a->w);
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_extent(lo, (int64_t)g->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_conv_c, rlx_conv_c_units(a), rlx_conv_work(g),
			      rlx_conv_c_scratch(a));
}

static void pack_plain(struct rlx_lower *lo, const struct rlx_conv *g, struct rlx_k_conv_nd *a)
{
	struct order o = { a->transposed ? "conv_t" : "conv_nd", RLX_KERNEL_conv_nd_pack,
			   a->groups, rlx_conv_nd_wsize(a), a->tiles, a->transposed };

	pack_weights(lo, g, &o, a, sizeof(*a), &a->w);
}

/* The call that pads the input for one of conv_nd. */
static uint32_t pad(struct rlx_lower *lo, const struct rlx_k_conv_nd *plan)
{
	uint32_t tmp = rlx_lower_tmp(lo, rlx_conv_nd_xsize(plan));
	struct rlx_k_conv_nd *a = rlx_lower_args(lo, sizeof(*a));

	*a = *plan;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_tmp(lo, &a->y, tmp, 0);
	rlx_lower_extent(lo, (int64_t)plan->n, NULL);
	rlx_lower_call(lo, RLX_KERNEL_conv_nd_pad, rlx_conv_nd_xunits(plan),
		       (double)rlx_conv_nd_xsize(plan) / 16, 0);
	return tmp;
}

static enum rlx_status lower_plain(struct rlx_lower *lo, const struct rlx_conv *g)
{
	uint32_t input = 0;
	struct rlx_k_conv_nd plan = { 0 }, *a;

	rlx_conv_plain(&plan, g);
	if (!rlx_conv_nd_init(cpu_isa(lo), &plan))
		return rlx_lower_unsupported(lo, "the plain kernel does not take this shape");
	if (cpu_conv_taps(lo, g, &plan))
		return lo->status;
	if (plan.copy)
		input = pad(lo, &plan);
	a = rlx_lower_args(lo, sizeof(*a));
	*a = plan;
	pack_plain(lo, g, a);
	if (lo->status)
		return lo->status;
	if (plan.copy)
		rlx_lower_ref_tmp(lo, &a->x, input, 0);
	else
		rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->bias, 2, 0);
	rlx_lower_ref_in(lo, &a->res, 3, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_extent(lo, (int64_t)g->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_conv_nd, rlx_conv_nd_units(a), rlx_conv_work(g),
			      rlx_conv_nd_scratch(a));
}

static bool is_f32_or_bf16(const struct rlx_type *t)
{
	return !t || t->dtype == RLX_F32 || t->dtype == RLX_BF16;
}

/*
 * Tiles are 16 channels by 32 terms by 16 pixels of a row: where little of one is filled f32's
 * kernels are faster. Multiply-adds of a pixel from which that is not so: of one tap, of more (with
 * FEW_SUMMED of a sum), and of each of many groups. Plain results are made row by row; short rows
 * need FEW_OF_ROW multiply-adds of a channel, and FEW_RESULTS pixels by channels. By draws of some
 * 600 shapes.
 */
static const size_t FEW_TERMS = 128, FEW_OF_TAPS = 256, FEW_SUMMED = 16, FEW_OF_GROUPS = 640;
static const size_t SHORT_ROW = 8, FEW_OF_ROW = 400, FEW_RESULTS = 32;

static bool fills_tiles(const struct rlx_conv *g)
{
	size_t taps = g->k[1] * g->k[2];
	size_t terms = g->ic / g->groups * taps, outputs = g->oc / g->groups;
	size_t row = taps == 1 ? g->out[1] * g->out[2] : g->out[2];
	size_t few = g->groups > 1 ? FEW_OF_GROUPS : taps > 1 ? FEW_OF_TAPS : FEW_TERMS;

	if (terms * outputs < few || (taps > 1 && terms < FEW_SUMMED) ||
	    (g->groups > 1 && outputs == 1))
		return false;
	return g->block || row >= SHORT_ROW ||
	       (row * terms >= FEW_OF_ROW && row * outputs >= FEW_RESULTS);
}

/* A transposed convolution without strides, as one whose taps are in the other order; or false. */
static bool turn_taps(struct rlx_conv *g)
{
	size_t i;

	for (i = 0; i < 3; i++) {
		const size_t reach = (g->k[i] - 1) * g->d[i];

		if (g->s[i] != 1 || g->p[i] > reach)
			return false;
		g->p[i] = reach - g->p[i];
	}
	g->transposed = false;
	return true;
}

/* conv_bf16's arguments but for pointers; false: f32's kernels are as fast. */
static bool plan_bf16(struct rlx_lower *lo, const struct rlx_conv *g, struct rlx_k_conv_bf16 *a)
{
	const struct rlx_type *bias = rlx_lower_in(lo, 2), *res = rlx_lower_in(lo, 3);
	size_t image[2] = { g->ic * g->in[1] * g->in[2], g->oc * g->out[1] * g->out[2] };

	RLX_CONV_SHAPE(a, g);
	RLX_CONV_WINDOW(a, g);
	a->ic = g->ic;
	a->oc = g->oc;
	a->groups = g->groups;
	a->x_plain = !g->block || g->x_plain;
	a->y_plain = !g->block;
	a->bias_bf16 = bias && bias->dtype == RLX_BF16;
	a->res_f32 = res && res->dtype == RLX_F32;
	a->y_f32 = rlx_lower_out(lo, 0)->dtype == RLX_F32;
	if (g->block)
		rlx_conv_image(g, image);
	a->x_n = a->x_plain ? g->ic * g->in[1] * g->in[2] : image[0];
	a->y_n = a->res_n = image[1];
	return fills_tiles(g) && cpu_pairs_gain(cpu_isa(lo)) && rlx_conv_bf16_init(cpu_isa(lo), a);
}

/*
 * Pairs of bf16, with sums, addends and result in f32 or bf16. With strict bits the levels that
 * have no such products would give others, so that all widen.
 */
static enum rlx_status lower_bf16(struct rlx_lower *lo, const struct rlx_conv *conv)
{
	struct rlx_conv as = *conv, *g = &as;
	const struct rlx_type *bias = rlx_lower_in(lo, 2), *res = rlx_lower_in(lo, 3);
	static const char *const kinds[2][2] = { { "conv_bf16", "conv_bf16 row" },
						 { "conv_bf16 t", "conv_bf16 t row" } };
	struct rlx_k_conv_bf16 plan = { 0 }, *a;
	bool takes;

	if (lo->strict || (g->transposed && !turn_taps(g)) || g->in[0] > 1 || g->out[0] > 1 ||
	    g->k[0] > 1 || g->p[0] || !is_f32_or_bf16(bias) || !is_f32_or_bf16(res) ||
	    !is_f32_or_bf16(rlx_lower_out(lo, 0)))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	takes = plan_bf16(lo, g, &plan);
	plan.turned = conv->transposed;
	if (!plan.turned && cpu_conv_wgrad(lo, g, takes ? &plan : NULL))
		return lo->status;
	if (!takes)
		return rlx_lower_unsupported(lo, "f32's kernels are as fast here");
	a = rlx_lower_args(lo, sizeof(*a));
	*a = plan;
	pack_weights(lo, g, &(struct order){ kinds[a->turned][a->by_row],
					     RLX_KERNEL_conv_bf16_pack,
					     g->groups * rlx_conv_bf16_pairs(a),
					     rlx_conv_bf16_wsize(a), 0, false },
		     a, sizeof(*a), (const float **)(void *)&a->w);
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_extent(lo, (int64_t)g->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_conv_bf16, rlx_conv_bf16_units(a), rlx_conv_work(g),
			      rlx_conv_bf16_scratch(a));
}

enum rlx_status cpu_conv(struct rlx_lower *lo, const struct rlx_conv *conv)
{
	struct rlx_conv g = *conv;
	uint32_t k;

	if (rlx_lower_in(lo, 0)->dtype == RLX_F64)
		return cpu_conv_f64(lo, conv);
	if (g.block && (size_t)g.block != rlx_conv_block(cpu_isa(lo)))
		return rlx_lower_unsupported(lo, "another block than this level's");
	if (rlx_lower_in(lo, 0)->dtype == RLX_BF16 && rlx_lower_in(lo, 1)->dtype == RLX_BF16) {
		rlx_conv_lay_flat(&g);
		return lower_bf16(lo, &g);
	}
	for (k = 0; k < lo->st->n_in; k++)
		if (rlx_lower_in(lo, k) && rlx_lower_in(lo, k)->dtype != RLX_F32)
			return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (rlx_lower_out(lo, 0)->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "a cast of its own rounds the result");
	if (!g.block)
		return lower_plain(lo, &g);
	rlx_conv_lay_flat(&g);
	return lower_blocked(lo, &g);
}

/* The packed weights hold their zero points, and depend on all of the shape. */
static enum rlx_status pack_bytes(struct rlx_lower *lo, struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *s = &a->shape;
	const int64_t key[4] = {
		(int64_t)(s->ic << 32 | s->oc), (int64_t)(s->groups << 8 | cpu_isa(lo)),
		(int64_t)a->grouped.tiles, (int64_t)a->w_signed << 1 | !!a->w_zero,
	};
	const size_t zeros = a->w_zero ? s->oc * sizeof(*a->w_zero) : 0;
	struct rlx_k_conv_i8_pack p = { .conv = kept(lo, a, sizeof(*a)) };
	char *of = rlx_lower_keep(lo, 1, sizeof(s->k) + zeros);

	if (!lo->status) {
		memcpy(of, s->k, sizeof(s->k));
		if (zeros)
			memcpy(of + sizeof(s->k), a->w_zero, zeros);
		cpu_pack(lo, &a->w, &(struct cpu_packing){
			"conv_i8", key, RLX_KERNEL_conv_i8_pack, 1, &p, sizeof(p),
			offsetof(struct rlx_k_conv_i8_pack, src),
			offsetof(struct rlx_k_conv_i8_pack, dst), s->groups,
			rlx_conv_i8_wsize(a) + 64, of, sizeof(s->k) + zeros });
	}
	return lo->status;
}

/*
 * Does conv_i8_dw read x as it lies? It reads floats for each multiply-add, so it gains where
 * groups are too small for tiles: at most that many channels of them, of 110 shapes drawn up to
 * 4 by 8.
 */
static bool by_streams(const struct rlx_k_conv_nd *s)
{
	enum { INPUTS = 2, OUTPUTS = 3 };

	return rlx_conv_i8_dw_fits(s) && s->ic / s->groups <= INPUTS &&
	       s->oc / s->groups <= OUTPUTS;
}

/*
 * From how many output channels, terms, weights and pixels tiles gain on VNNI; of 126 shapes drawn
 * without a bound, those with few channels and few weights had 0.65 to 0.95 of its speed.
 */
static bool fills_i8_tiles(const struct rlx_k_conv_nd *s)
{
	size_t outputs = s->oc / s->groups, pixels = s->n * s->out[0] * s->out[1] * s->out[2];
	size_t terms = s->ic / s->groups * s->k[0] * s->k[1] * s->k[2];

	return outputs >= 16 && terms >= 32 &&
	       outputs * terms >= (pixels < 16 ? 16384 : outputs < 32 ? 6144 : 2048);
}

/* The level of this step. How its input lies depends on it. */
static enum rlx_isa i8_level(struct rlx_lower *lo, const struct rlx_k_conv_nd *s)
{
	if (cpu_isa(lo) >= RLX_ISA_V4_AMX && !fills_i8_tiles(s))
		((struct cpu_lower *)lo)->isa = RLX_ISA_V4X;
	return cpu_isa(lo);
}

/* The call that brings the input to what conv_i8 reads; 0: it reads x. */
uint32_t cpu_conv_i8_group(struct rlx_lower *lo, const struct rlx_k_conv_i8 *plan)
{
	struct rlx_k_conv_i8 *a;
	uint32_t tmp;

	if (by_streams(&plan->shape))
		return 0;
	a = rlx_lower_args(lo, sizeof(*a));
	*a = *plan;
	if (!rlx_conv_i8_init(i8_level(lo, &a->shape), a))
		return 0;
	tmp = rlx_lower_tmp(lo, rlx_conv_i8_xsize(a));
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_qconv_zero(lo, a);
	rlx_lower_ref_tmp(lo, &a->y, tmp, 0);
	rlx_lower_extent(lo, rlx_lower_out(lo, 0)->dim[0], NULL);
	rlx_lower_call(lo, RLX_KERNEL_conv_i8_group, rlx_conv_i8_xunits(a),
		       (double)rlx_type_count(rlx_lower_in(lo, 0)) / 4, 0);
	return tmp;
}

enum rlx_status cpu_conv_i8(struct rlx_lower *lo, struct rlx_k_conv_i8 *a)
{
	const struct rlx_k_conv_nd *s = &a->shape;

	if (by_streams(s)) {
		rlx_lower_ref_in(lo, &a->w, 1, 0);
		return rlx_lower_call(lo, RLX_KERNEL_conv_i8_dw, rlx_conv_i8_dw_units(s),
				      (double)rlx_type_count(rlx_lower_out(lo, 0)) *
				      (double)rlx_conv_i8_dw_cut(s).terms / 8,
				      rlx_conv_i8_dw_scratch(s));
	}
	if (!rlx_conv_i8_init(i8_level(lo, s), a))
		return rlx_lower_unsupported(lo, "the 8-bit kernel does not take this shape");
	if (pack_bytes(lo, a))
		return lo->status;
	return rlx_lower_call(lo, RLX_KERNEL_conv_i8, rlx_conv_i8_units(a),
			      (double)rlx_type_count(rlx_lower_out(lo, 0)) *
			      (double)(s->ic / s->groups * s->k[0] * s->k[1] * s->k[2]) / 8,
			      rlx_conv_i8_scratch(a));
}
