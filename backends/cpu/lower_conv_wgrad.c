// SPDX-License-Identifier: MIT
/*
 * Gradients of convolutions in their weights, of bf16 and of blocked f32: convolutions whose images
 * are channels and whose channels are images, both of x and of w, which is dy. Stride and dilation
 * change places.
 */
#include "backends/common/conv_desc.h"
#include "backends/cpu/cpu.h"
#include "kernels/conv_wgrad.h"
#include "kernels/conv_wgrad_c.h"

static void set_shape(struct rlx_k_conv_wgrad *a, const struct rlx_conv *g)
{
	const size_t in = g->in[1] * g->in[2], out = g->k[1] * g->k[2];

	a->groups = g->groups;
	a->n = g->ic / g->groups;
	a->ci = g->n;
	a->co = g->oc / g->groups;
	a->ih = g->in[1];
	a->iw = g->in[2];
	a->oh = g->k[1];
	a->ow = g->k[2];
	a->kh = g->out[1];
	a->kw = g->out[2];
	a->sh = g->d[1];
	a->sw = g->d[2];
	a->dh = g->s[1];
	a->dw = g->s[2];
	a->pt = g->p[1];
	a->pl = g->p[2];
	a->x_n = in;
	a->x_g = a->n * in;
	a->x_c = g->ic * in;
	a->dy_n = out;
	a->dy_c = a->n * out;
	a->dy_g = a->co * a->dy_c;
	a->y_o = a->kh * a->kw;
	a->y_g = a->co * a->y_o;
	a->y_c = g->oc * a->y_o;
}

/*
 * Nanoseconds of what either kernel does most, on a core at 2.5 GHz: a tile of sums by a step, a
 * row that is laid on the grid, of 32 pixels at most, 16 pixels by a step that are copied from
 * plain lines, a byte of packed weights, multiply-adds of f32. Fitted to 71 drawn gradients, whose
 * times were 0.66 to 3.8 of it, mostly more of the new kernel: it has to be faster by EDGE.
 */
static const double TILE = 8, ROW = 6.4, STRIDED_ROW = 13, SUMS_BYTE = 0.032, OTHER_TILE = 9,
		    COPY = 100, PACKED_BYTE = 0.2, F32 = 0.033, EDGE = 1.4;

static double up(size_t n, size_t unit)
{
	return (double)((n + unit - 1) / unit);
}

static double cost_of(const struct rlx_k_conv_wgrad *a)
{
	const double pieces = (double)(a->n * a->nrows * a->ncols * a->groups);
	const double line = up(a->pitch, RLX_CONV_BF16_STEP);
	const double x = (double)(a->no * a->ci * a->yphases * a->xphases * (a->rows + a->yreach));
	const double tiles = up(a->ci, a->width) * up(a->co, RLX_CONV_BF16_BLOCK) *
			     (double)(a->steps * a->kh * a->kw);

	return pieces * ((a->sw > 1 ? STRIDED_ROW : ROW) * x * line +
			 ROW * (double)(a->nc * a->co * a->rows) * line + TILE * tiles) +
	       SUMS_BYTE * (double)rlx_conv_wgrad_sums(a);
}

static double cost_other(const struct rlx_k_conv_bf16 *a)
{
	const double images = (double)(a->n * a->groups);
	const double tiles = images * (double)(a->oh * rlx_conv_bf16_across(a, a->ow));
	const double copies = images * (double)(a->nrows * a->ncols * a->in_rows * a->row_steps);

	return OTHER_TILE * tiles * (double)(a->steps * rlx_conv_bf16_blocks(a)) +
	       COPY * copies * up(a->in_cols, 16) +
	       PACKED_BYTE * (double)rlx_conv_bf16_wsize(a);
}

/* @work: as of rlx_lower_call() */
static enum rlx_status call(struct rlx_lower *lo, const struct rlx_k_conv_wgrad *plan, double work)
{
	uint32_t sums = rlx_lower_tmp(lo, rlx_conv_wgrad_sums(plan));
	struct rlx_k_conv_wgrad *a = rlx_lower_args(lo, sizeof(*a));

	*a = *plan;
	rlx_lower_ref_tmp(lo, &a->sums, sums, 0);
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->dy, 1, 0);
	rlx_lower_call(lo, RLX_KERNEL_conv_wgrad, rlx_conv_wgrad_units(a), work,
		       rlx_conv_wgrad_scratch(a));
	a = rlx_lower_args(lo, sizeof(*a));
	*a = *plan;
	rlx_lower_ref_tmp(lo, &a->sums, sums, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_conv_wgrad_sum, rlx_conv_wgrad_sum_units(a),
			      (double)rlx_conv_wgrad_sums(a) / 16, rlx_conv_wgrad_sum_scratch(a));
}

bool cpu_conv_wgrad(struct rlx_lower *lo, const struct rlx_conv *g,
		    const struct rlx_k_conv_bf16 *by)
{
	struct rlx_k_conv_wgrad plan = { .y_f32 = rlx_lower_out(lo, 0)->dtype == RLX_F32 };
	double other;

	if (g->act || g->block || rlx_lower_in(lo, 2) || rlx_lower_in(lo, 3) ||
	    rlx_lower_is_const(lo, 1))
		return false;
	set_shape(&plan, g);
	if (!cpu_pairs_gain(cpu_isa(lo)) || !rlx_conv_wgrad_init(cpu_isa(lo), &plan))
		return false;
	other = by ? cost_other(by) : F32 * 4 * rlx_conv_work(g);
	if (EDGE * cost_of(&plan) > other)
		return false;
	call(lo, &plan, rlx_conv_work(g));
	return true;
}

/* Channels of a blocked operand are those of @shape. */
static void set_operand(const struct rlx_type *t, size_t channels, bool *blocked, size_t *n,
			size_t *c)
{
	*c = (size_t)(t->dim[2] * t->dim[3]);
	*blocked = t->rank == 5;
	*n = *c * (*blocked ? (size_t)(t->dim[1] * t->dim[4]) : channels);
}

/* Of blocked f32: kernels conv_wgrad_c and conv_wgrad_c_sum */
static enum rlx_status call_c(struct rlx_lower *lo, const struct rlx_k_conv_wgrad *shape)
{
	const struct rlx_k_conv_wgrad_c plain = {
		.n = shape->n, .ci = shape->ci, .co = shape->co, .ih = shape->ih, .iw = shape->iw,
		.oh = shape->oh, .ow = shape->ow, .kh = shape->kh, .kw = shape->kw,
		.sh = shape->sh, .sw = shape->sw, .dh = shape->dh, .dw = shape->dw,
		.pt = shape->pt, .pl = shape->pl,
	};
	struct rlx_k_conv_wgrad_c *a = rlx_lower_args(lo, sizeof(*a)), plan = plain;
	uint32_t sums;

	if (!rlx_conv_wgrad_c_init(cpu_isa(lo), &plan))
		return rlx_lower_unsupported(lo, "the kernel does not take this shape");
	sums = rlx_lower_tmp(lo, rlx_conv_wgrad_c_sums(&plan));
	*a = plan;
	rlx_lower_ref_tmp(lo, &a->sums, sums, 0);
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->dy, 1, 0);
	rlx_lower_call(lo, RLX_KERNEL_conv_wgrad_c, rlx_conv_wgrad_c_units(&plan),
		       (double)(plain.n * plain.oh * plain.ow) *
		       (double)(plain.ci * plain.co * plain.kh * plain.kw) / 4, 0);
	a = rlx_lower_args(lo, sizeof(*a));
	*a = plan;
	rlx_lower_ref_tmp(lo, &a->sums, sums, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	return rlx_lower_call(lo, RLX_KERNEL_conv_wgrad_c_sum, rlx_conv_wgrad_c_sum_units(&plan),
			      (double)rlx_conv_wgrad_c_sums(&plan) / 16,
			      rlx_conv_wgrad_c_sum_scratch(&plan));
}

/* Is it blocked, by @block channels? */
static bool is_in_blocks(const struct rlx_type *t, size_t block)
{
	return t->rank == 5 && t->dim[4] == (int64_t)block;
}

enum rlx_status cpu_lower_conv_weight_grad(struct rlx_lower *lo)
{
	const struct rlx_op_conv_weight_grad *o = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0), *dy = rlx_lower_in(lo, 1);
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct rlx_k_conv_wgrad a = {
		.n = (size_t)x->dim[0], .ci = (size_t)y->dim[1], .co = (size_t)y->dim[0],
		.groups = 1, .ih = (size_t)x->dim[2], .iw = (size_t)x->dim[3],
		.oh = (size_t)dy->dim[2], .ow = (size_t)dy->dim[3], .kh = (size_t)y->dim[2],
		.kw = (size_t)y->dim[3], .y_f32 = y->dtype == RLX_F32,
		.sh = o->stride.n ? (size_t)o->stride.v[0] : 1,
		.sw = o->stride.n ? (size_t)o->stride.v[1] : 1,
		.dh = o->dilation.n ? (size_t)o->dilation.v[0] : 1,
		.dw = o->dilation.n ? (size_t)o->dilation.v[1] : 1,
		.pt = o->pad.n ? (size_t)o->pad.v[0] : 0, .pl = o->pad.n ? (size_t)o->pad.v[1] : 0,
	};

	if (x->dtype == RLX_F32 && dy->dtype == RLX_F32 && a.y_f32 && !lo->strict &&
	    rlx_type_count(x) && rlx_type_count(dy) &&
	    is_in_blocks(x, rlx_conv_block(cpu_isa(lo))) &&
	    is_in_blocks(dy, rlx_conv_block(cpu_isa(lo))))
		return call_c(lo, &a);
	if (lo->strict || !cpu_pairs_gain(cpu_isa(lo)) || x->dtype != RLX_BF16 ||
	    dy->dtype != RLX_BF16 || (!a.y_f32 && y->dtype != RLX_BF16) ||
	    (x->rank == 5 && x->dim[4] != RLX_CONV_BF16_BLOCK) ||
	    (dy->rank == 5 && dy->dim[4] != RLX_CONV_BF16_BLOCK) || !rlx_type_count(x) ||
	    !rlx_type_count(dy))
		return rlx_lower_unsupported(lo, "by pairs of bf16, and of blocked f32, alone");
	set_operand(x, a.ci, &a.x_blocked, &a.x_n, &a.x_c);
	set_operand(dy, a.co, &a.dy_blocked, &a.dy_n, &a.dy_c);
	a.y_c = a.kh * a.kw;
	a.y_o = a.ci * a.y_c;
	if (!rlx_conv_wgrad_init(cpu_isa(lo), &a))
		return rlx_lower_unsupported(lo, "the kernel does not take this shape");
	return call(lo, &a, (double)(a.n * a.oh * a.ow) * (double)(a.ci * a.co * a.kh * a.kw) / 4);
}
