// SPDX-License-Identifier: MIT
/* Convolutions: shapes, windows, activations; the backend picks the kernel. */
#include "backends/common/conv_desc.h"

static void take_list(size_t to[3], struct rlx_ints l, size_t nd, int64_t fill)
{
	for (size_t i = 0; i < 3; i++)
		to[i] = i + nd < 3 || !l.n ? (size_t)fill : (size_t)l.v[i + nd - 3];
}

static void take_dims(size_t to[3], const struct rlx_type *t, size_t nd)
{
	for (size_t i = 0; i < 3; i++)
		to[i] = i + nd < 3 ? 1 : (size_t)t->dim[2 + i + nd - 3];
}

/* Stride, pads, dilation as the ops hold them. */
struct lists {
	struct rlx_ints	stride, pad, dilation;
	int64_t		groups;
};

/* @x, @y: plain shapes; channels are those of the weights. */
static void take_geometry(struct rlx_conv *g, const struct lists *l, const struct rlx_type *x,
			  const struct rlx_type *w, const struct rlx_type *y)
{
	size_t nd = x->rank - 2;

	g->n = (size_t)x->dim[0];
	g->groups = (size_t)l->groups;
	g->oc = (size_t)w->dim[0];
	g->ic = (size_t)w->dim[1] * g->groups;
	take_dims(g->in, x, nd);
	take_dims(g->out, y, nd);
	take_dims(g->k, w, nd);
	take_list(g->s, l->stride, nd, 1);
	take_list(g->d, l->dilation, nd, 1);
	take_list(g->p, l->pad, nd, 0);
}

double rlx_conv_work(const struct rlx_conv *g)
{
	double taps = (double)(g->k[0] * g->k[1] * g->k[2]) * (double)(g->ic / g->groups);

	return (double)(g->n * g->oc) * (double)(g->out[0] * g->out[1] * g->out[2]) *
	       (taps + 1) / 4;
}

void rlx_conv_refs(struct rlx_lower *lo, void *x, void *bias, void *res, void *y)
{
	rlx_lower_ref_in(lo, x, 0, 0);
	rlx_lower_ref_in(lo, bias, 2, 0);
	rlx_lower_ref_in(lo, res, 3, 0);
	rlx_lower_ref_out(lo, y, 0, 0);
}

void rlx_conv_plain(struct rlx_k_conv_nd *a, const struct rlx_conv *g)
{
	size_t i;

	a->n = g->n;
	a->ic = g->ic;
	a->oc = g->oc;
	a->groups = g->groups;
	for (i = 0; i < 3; i++) {
		a->in[i] = g->in[i];
		a->out[i] = g->out[i];
		a->k[i] = g->k[i];
		a->s[i] = g->s[i];
		a->d[i] = g->d[i];
		a->p[i] = g->p[i];
	}
	a->act = g->act;
	a->act_a = g->act_a;
	a->act_b = g->act_b;
	a->transposed = g->transposed;
	a->x_n = g->ic * g->in[0] * g->in[1] * g->in[2];
	a->y_n = a->res_n = g->oc * g->out[0] * g->out[1] * g->out[2];
}

void rlx_conv_lay_flat(struct rlx_conv *g)
{
	size_t *const of[] = { g->in, g->out, g->k, g->s, g->d, g->p };
	size_t i, t;

	if (g->in[2] != 1 || g->out[2] != 1 || g->k[2] != 1 || g->p[2])
		return;
	for (i = 0; i < sizeof(of) / sizeof(*of); i++) {
		t = of[i][1];
		of[i][1] = of[i][2];
		of[i][2] = t;
	}
}

void rlx_conv_image(const struct rlx_conv *g, size_t image[2])
{
	size_t b = (size_t)g->block;

	image[0] = (g->ic + b - 1) / b * b * g->in[1] * g->in[2];
	image[1] = (g->oc + b - 1) / b * b * g->out[1] * g->out[2];
}

bool rlx_conv_blocked(enum rlx_isa isa, struct rlx_k_conv_c *a, const struct rlx_conv *g)
{
	size_t image[2];

	rlx_conv_image(g, image);
	RLX_CONV_SHAPE(a, g);
	RLX_CONV_WINDOW(a, g);
	a->ic = g->ic;
	a->oc = g->oc;
	a->groups = g->groups;
	a->x_plain = g->x_plain;
	a->x_n = g->x_plain ? g->ic * g->in[1] * g->in[2] : image[0];
	a->y_n = a->res_n = image[1];
	return rlx_conv_c_init(isa, a);
}

size_t rlx_conv_plain_most(struct rlx_k_conv_nd a)
{
	return rlx_conv_nd_init(RLX_ISA_V3, &a) ? rlx_conv_nd_most(&a) : 0;
}

size_t rlx_conv_winograd(const struct rlx_lower *lo, enum rlx_isa isa,
			 const struct rlx_k_conv_c *a, struct rlx_k_wino_c *w)
{
	size_t m = a->x_plain ? 0 : rlx_wino_c_pick(lo->strict ? RLX_ISA_V4 : isa, a);

	*w = (struct rlx_k_wino_c){
		.x_n = a->x_n, .y_n = a->y_n, .res_n = a->res_n, .n = a->n, .ic = a->ic,
		.oc = a->oc, .ih = a->ih, .iw = a->iw, .oh = a->oh, .ow = a->ow, .pt = a->pt,
		.pl = a->pl, .act = a->act, .act_a = a->act_a, .act_b = a->act_b, .m = m,
	};
	return m && rlx_wino_c_init(isa, w) ? m : 0;
}

static enum rlx_status lower(struct rlx_lower *lo, const struct rlx_conv *g)
{
	if (!rlx_type_count(rlx_lower_out(lo, 0)))
		return lo->status;
	if (!rlx_type_count(rlx_lower_in(lo, 0)) || !rlx_type_count(rlx_lower_in(lo, 1)) ||
	    rlx_lower_in(lo, 0)->rank > 5)
		return rlx_lower_unsupported(
			lo, "no kernel for empty sums or for this many dimensions");
	return lo->ops->conv(lo, g);
}

enum rlx_status rlx_lower_fused_conv(struct rlx_lower *lo)
{
	const struct rlx_op_fused_conv *f = lo->args;
	const struct lists l = { f->stride, f->pad, f->dilation, f->groups };
	struct rlx_type x = *rlx_lower_in(lo, 0), w = *rlx_lower_in(lo, 1);
	struct rlx_type y = *rlx_lower_out(lo, 0);
	struct rlx_conv g = {
		.act = (enum rlx_act)f->act, .act_a = f->act_lo, .act_b = f->act_hi,
		.block = f->block, .x_plain = f->block && x.rank == 4,
		.y_plain = f->plain_y,
	};

	if (f->block == RLX_CHANNELS_LAST)
		w = (struct rlx_type){ w.dtype, 4, { w.dim[0], (x.rank == 4 ? x.dim[1] : x.dim[4]) /
						     f->groups, w.dim[2], w.dim[3] } };
	if (f->block)
		x.rank = y.rank = 4;
	take_geometry(&g, &l, &x, &w, &y);
	return lower(lo, &g);
}

enum rlx_status rlx_lower_conv(struct rlx_lower *lo)
{
	const struct rlx_op_conv *f = lo->args;
	const struct lists l = { f->stride, f->pad, f->dilation, f->groups };
	struct rlx_conv g = { .act = RLX_ACT_NONE };

	take_geometry(&g, &l, rlx_lower_in(lo, 0), rlx_lower_in(lo, 1), rlx_lower_out(lo, 0));
	return lower(lo, &g);
}

enum rlx_status rlx_lower_conv_transpose(struct rlx_lower *lo)
{
	const struct rlx_op_conv_transpose *f = lo->args;
	const struct lists l = { f->stride, f->pad, f->dilation, f->groups };
	const struct rlx_type *w = rlx_lower_in(lo, 1);
	struct rlx_conv g = { .transposed = true };

	take_geometry(&g, &l, rlx_lower_in(lo, 0), w, rlx_lower_out(lo, 0));
	g.ic = (size_t)w->dim[0];
	g.oc = (size_t)w->dim[1] * g.groups;
	return lower(lo, &g);
}
