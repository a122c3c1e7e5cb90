// SPDX-License-Identifier: MIT
/* Convolutions: which kernel sums them up. */
#include "backends/common/conv_desc.h"
#include "backends/common/gemm.h"
#include "backends/gpu/gpu.h"
#include "kernels/gemm.h"

/*
 * Operands of one dtype; the result is of it too, or f32, and so is the residual. The bias may be
 * wider than 16-bit floats are.
 */
static bool takes(const struct rlx_lower *lo)
{
	enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype, y = rlx_lower_out(lo, 0)->dtype;
	const struct rlx_type *bias = rlx_lower_in(lo, 2), *res = rlx_lower_in(lo, 3);

	if (!rlx_lower_real(dt) && dt != RLX_F64)
		return false;
	if (bias && (dt == RLX_F64 ? bias->dtype != dt : !rlx_lower_real(bias->dtype)))
		return false;
	return rlx_lower_in(lo, 1)->dtype == dt && (!res || res->dtype == y) &&
	       (y == dt || (dt != RLX_F64 && y == RLX_F32));
}

static bool is_half(enum rlx_dtype dt)
{
	return dt == RLX_F16 || dt == RLX_BF16;
}

/* Of one pixel without a stride. */
static bool is_gemm(const struct rlx_conv *g)
{
	bool one = g->groups == 1 && !g->transposed;
	size_t i;

	for (i = 0; i < 3; i++)
		one = one && g->k[i] == 1 && g->s[i] == 1 && !g->p[i] && g->in[i] == g->out[i];
	return one;
}

/* Channels last: rows are pixels, and weights lie by columns. */
static enum rlx_status as_gemm(struct rlx_lower *lo, const struct rlx_conv *c)
{
	struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));

	g->m = c->n * c->out[0] * c->out[1] * c->out[2];
	g->n = g->ldc = g->ldr = c->oc;
	g->k = g->lda = g->ldb = c->ic;
	g->b_form = RLX_B_COLS;
	g->alpha = g->beta = 1;
	g->act = c->act;
	g->lo = (double)c->act_a;
	g->hi = (double)c->act_b;
	g->a_type = g->b_type = rlx_lower_in(lo, 0)->dtype;
	g->c_type = rlx_lower_out(lo, 0)->dtype;
	rlx_lower_ref_in(lo, &g->a, 0, 0);
	rlx_lower_ref_in(lo, &g->residual, 3, 0);
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	return rlx_lower_gemm(lo, g);
}

/*
 * A plain result: for each image weights times its pixels, whose rows, or columns channels last,
 * are channels. From a plain image channels last: pixels times weights.
 */
static bool as_batched_gemm(struct rlx_lower *lo, const struct rlx_conv *c, struct rlx_g_launch *l)
{
	struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));
	enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;
	size_t pixels = c->out[0] * c->out[1] * c->out[2];
	bool x_last = c->block && !c->x_plain, turned = c->block && !c->y_plain;
	size_t step = c->block ? (size_t)rlx_lower_in(lo, 1)->dim[4] : c->ic;

	g->m = turned ? pixels : c->oc;
	g->n = g->ldc = g->ldr = turned ? c->oc : pixels;
	g->k = c->ic;
	g->lda = turned ? pixels : step;
	g->ldb = turned ? step : x_last ? c->ic : pixels;
	g->trans_a = turned;
	g->b_form = turned || x_last ? RLX_B_COLS : RLX_B_ROWS;
	g->batch[1] = c->n;
	*(turned ? &g->a_step[1] : &g->b_step[1]) = c->ic * pixels;
	g->c_step[1] = g->r_step[1] = c->oc * pixels;
	g->alpha = g->beta = 1;
	g->act = c->act;
	g->lo = (double)c->act_a;
	g->hi = (double)c->act_b;
	g->a_type = g->b_type = dt;
	g->c_type = rlx_lower_out(lo, 0)->dtype;
	rlx_lower_ref_in(lo, &g->a, !turned, 0);
	rlx_lower_ref_in(lo, &g->b, turned, 0);
	rlx_lower_ref_in(lo, turned ? &g->bias : &g->row_bias, 2, 0);
	rlx_lower_ref_in(lo, &g->residual, 3, 0);
	rlx_lower_ref_out(lo, &g->c, 0, 0);
	if (gpu_apply_relocations(lo))
		return false;
	*l = gpu_launch_of(lo, 0);
	(dt == RLX_F32 ? rlx_g_gemm_f32_launch : rlx_g_gemm_bf16_launch)(g, l);
	return l->can;
}

/* Whose order the CPU has of a blocked convolution, which it is a part of the arguments then. */
static enum rlx_status blocked_order(struct rlx_lower *lo, const struct rlx_conv *g,
				     struct rlx_k_conv_ordered *a)
{
	struct rlx_k_conv_c c = { 0 };
	struct rlx_k_wino_c w;
	size_t image[2];

	rlx_conv_image(g, image);
	a->c.x_n = g->x_plain ? a->c.x_n : image[0];
	a->c.y_n = a->c.res_n = image[1];
	a->x_block = g->x_plain ? 0 : (size_t)g->block;
	a->y_block = (size_t)g->block;
	a->lanes = 1;
	a->pass = INT32_MAX;
	a->order = RLX_CONV_ORDER_DW;
	if (rlx_conv_is_depthwise(g))
		return lo->status;
	a->order = RLX_CONV_ORDER_C;
	if (!rlx_conv_blocked(RLX_ISA_V4, &c, g))
		return rlx_lower_unsupported(lo, "the CPU's blocked kernel does not take it");
	a->m = rlx_conv_winograd(lo, RLX_ISA_V4, &c, &w);
	a->images = a->m ? rlx_g_winograd_images(a) : 0;
	a->lanes = rlx_conv_lanes(c.xc);
	a->pass = a->m ? w.kc : c.kc;
	return lo->status;
}

/* In the order in which the CPU sums it, whatever level and layout it has there. */
static enum rlx_status strict_conv(struct rlx_lower *lo, const struct rlx_conv *conv)
{
	struct rlx_k_conv_ordered *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_conv g = *conv;
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (rlx_lower_in(lo, k) && rlx_lower_in(lo, k)->dtype != RLX_F32)
			return rlx_lower_unsupported(lo, "with strict bits all is f32");
	if (rlx_lower_out(lo, 0)->dtype != RLX_F32)
		return rlx_lower_unsupported(lo, "with strict bits all is f32");
	if (g.block)
		rlx_conv_lay_flat(&g);
	rlx_conv_plain(&a->c, &g);
	a->c.type = a->c.out_type = a->c.bias_type = RLX_F32;
	if (g.block && blocked_order(lo, &g, a))
		return lo->status;
	a->most = g.block ? 1 : rlx_conv_plain_most(a->c);
	if (!a->most)
		return rlx_lower_unsupported(lo, "the CPU's plain kernel does not take it");
	rlx_conv_refs(lo, &a->c.x, &a->c.bias, &a->c.res, &a->c.y);
	rlx_lower_ref_in(lo, &a->c.w, 1, 0);
	rlx_lower_extent(lo, (int64_t)g.n, NULL);
	return gpu_call_kernel(lo, rlx_g_conv_ordered_launch, 0);
}

enum rlx_status gpu_conv(struct rlx_lower *lo, const struct rlx_conv *g)
{
	enum rlx_dtype bias = rlx_lower_in(lo, 2) ? rlx_lower_in(lo, 2)->dtype : RLX_F32;
	struct rlx_g_launch l;
	struct rlx_k_conv_nd *a;

	if (lo->strict && rlx_lower_in(lo, 0)->dtype == RLX_F32)
		return strict_conv(lo, g);
	if (g->block && g->block != RLX_CHANNELS_LAST)
		return rlx_lower_unsupported(lo, "no blocked layout here but channels last");
	if (!takes(lo))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (g->block && !is_half(rlx_lower_in(lo, 0)->dtype))
		return rlx_lower_unsupported(lo, "channels last are f16 or bf16");
	if (g->block && bias != RLX_F32)
		return rlx_lower_unsupported(lo, "channels last the bias is f32");
	if (g->block && is_gemm(g) && !g->x_plain && !g->y_plain)
		return as_gemm(lo, g);
	if (is_gemm(g) && rlx_lower_out(lo, 0)->dtype != RLX_F64) {
		if (bias != RLX_F32)	/* legalization widens it */
			return rlx_lower_unsupported(lo, "a GEMM adds biases of f32");
		if (as_batched_gemm(lo, g, &l))
			return gpu_call_launch(lo, &l);
	}
	a = rlx_lower_args(lo, sizeof(*a));
	rlx_conv_plain(a, g);
	a->channels_last = g->block != 0;
	a->x_plain = g->x_plain;
	a->y_plain = g->y_plain;
	a->type = (uint8_t)rlx_lower_in(lo, 0)->dtype;
	a->out_type = (uint8_t)rlx_lower_out(lo, 0)->dtype;
	if (rlx_lower_in(lo, 2))
		a->bias_type = (uint8_t)rlx_lower_in(lo, 2)->dtype;
	rlx_conv_refs(lo, &a->x, &a->bias, &a->res, &a->y);
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	a->skips = rlx_g_conv_skips(a);
	rlx_lower_extent(lo, (int64_t)g->n, NULL);
	return rlx_lower_call(lo, RLX_KERNEL_conv_nd, 0, 0, 0);
}

enum rlx_status gpu_conv_i8(struct rlx_lower *lo, struct rlx_k_conv_i8 *a)
{
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	return rlx_lower_call(lo, RLX_KERNEL_conv_i8, 0, 0, 0);
}
