// SPDX-License-Identifier: MIT
/* Convolutions, plain and blocked, and the reorders between layouts. */
#include "backends/cpu/cpu.h"
#include "backends/common/shape.h"
#include "base/map.h"
#include "kernels/conv.h"

/* A convolution's geometry, dimensions filled up in front to three. */
struct geometry {
	size_t	n, ic, oc, groups, nd;
	size_t	in[3], out[3], k[3], s[3], d[3], p[3], p_end[3];
	enum rlx_conv_act act;
	float	act_a, act_b;
	bool	has_bias, has_residual;
};

static void take_list(size_t to[3], struct rlx_ints l, uint32_t from, size_t nd, int64_t fill)
{
	for (size_t i = 0; i < 3; i++)
		to[i] = i + nd < 3 ? (fill ? (size_t)fill : 0) :
			l.n ? (size_t)l.v[from + i + nd - 3] : (size_t)fill;
}

static void take_dims(size_t to[3], const struct rlx_type *t, size_t nd)
{
	for (size_t i = 0; i < 3; i++)
		to[i] = i + nd < 3 ? 1 : (size_t)t->dim[2 + i + nd - 3];
}

static bool take_act(struct geometry *g, int act, float lo, float hi)
{
	static const uint8_t acts[RLX_ACT_COUNT] = {
		[RLX_ACT_NONE] = RLX_CONV_NONE, [RLX_ACT_RELU] = RLX_CONV_RELU,
		[RLX_ACT_GELU] = RLX_CONV_GELU, [RLX_ACT_SILU] = RLX_CONV_SILU,
		[RLX_ACT_SIGMOID] = RLX_CONV_SIGMOID, [RLX_ACT_TANH] = RLX_CONV_TANH,
		[RLX_ACT_HARD_SWISH] = RLX_CONV_HSWISH,
		[RLX_ACT_HARD_SIGMOID] = RLX_CONV_HSIGMOID,
		[RLX_ACT_CLIP] = RLX_CONV_CLIP,
	};

	g->act = (enum rlx_conv_act)acts[act];
	g->act_a = act == RLX_ACT_HARD_SWISH ? 1.0f / 6 : lo;
	g->act_b = act == RLX_ACT_HARD_SWISH ? 0.5f : hi;
	return act != RLX_ACT_GELU_TANH;
}

/* Stride, pads, dilation as both conv ops hold them. */
struct lists {
	struct rlx_ints	stride, pad, dilation;
	int64_t		groups;
};

/* @x, @y: plain shapes; channels are those of the weights. */
static void take_geometry(struct geometry *g, const struct lists *l,
			  const struct rlx_type *x, const struct rlx_type *w,
			  const struct rlx_type *y)
{
	size_t nd = x->rank - 2;

	g->nd = nd;
	g->n = (size_t)x->dim[0];
	g->groups = l->groups ? (size_t)l->groups : 1;
	g->oc = (size_t)w->dim[0];
	g->ic = (size_t)w->dim[1] * g->groups;
	take_dims(g->in, x, nd);
	take_dims(g->out, y, nd);
	take_dims(g->k, w, nd);
	take_list(g->s, l->stride, 0, nd, 1);
	take_list(g->d, l->dilation, 0, nd, 1);
	take_list(g->p, l->pad, 0, nd, 0);
	take_list(g->p_end, l->pad, (uint32_t)nd, nd, 0);
}

static double conv_work(const struct geometry *g)
{
	double taps = (double)(g->k[0] * g->k[1] * g->k[2]) * (double)(g->ic / g->groups);

	return (double)(g->n * g->oc) * (double)(g->out[0] * g->out[1] * g->out[2]) *
	       (taps + 1) / 4;
}

static void refs(struct rlx_lower *lo, const struct geometry *g, void *x, void *bias,
		 void *res, void *y)
{
	lower_ref_in(lo, x, 0, 0);
	if (g->has_bias)
		lower_ref_in(lo, bias, 2, 0);
	if (g->has_residual)
		lower_ref_in(lo, res, 3, 0);
	lower_ref_out(lo, y, 0, 0);
}

/* The packed layout may depend on all of the geometry: it is the key. */
static void *packed(struct rlx_lower *lo, const char *kind, const struct geometry *g,
		    size_t bytes, bool *is_new)
{
	const int64_t key[4] = {
		(int64_t)(g->ic << 32 | g->oc), (int64_t)(g->groups << 8 | cpu_isa(lo)),
		(int64_t)rlx_hash_bytes(g->in, sizeof(g->in), rlx_hash_bytes(g->k,
			sizeof(g->k), rlx_hash_bytes(g->s, sizeof(g->s), 1))),
		(int64_t)rlx_hash_bytes(g->d, sizeof(g->d),
			rlx_hash_bytes(g->p, sizeof(g->p),
			rlx_hash_bytes(g->out, sizeof(g->out), g->n))),
	};

	return cpu_prepare(lo, 1, kind, key, bytes + 64, is_new);
}

#define COPY_SHAPE(a, g)						\
	((a)->n = (g)->n, (a)->ih = (g)->in[1], (a)->iw = (g)->in[2],	\
	 (a)->oh = (g)->out[1], (a)->ow = (g)->out[2],			\
	 (a)->pt = (g)->p[1], (a)->pl = (g)->p[2],			\
	 (a)->act = (g)->act, (a)->act_a = (g)->act_a, (a)->act_b = (g)->act_b)
#define COPY_WINDOW(a, g)						\
	((a)->kh = (g)->k[1], (a)->kw = (g)->k[2], (a)->sh = (g)->s[1],	\
	 (a)->sw = (g)->s[2], (a)->dh = (g)->d[1], (a)->dw = (g)->d[2])

static enum rlx_status lower_depthwise(struct rlx_lower *lo, const struct geometry *g,
				       const size_t image[2])
{
	struct rlx_k_dw_c *a = lower_args(lo, sizeof(*a));
	struct rlx_k_dw_pack pack = { .conv = a, .src = lower_const(lo, 1) };
	bool is_new;

	COPY_SHAPE(a, g);
	COPY_WINDOW(a, g);
	a->channels = g->oc;
	a->x_n = image[0];
	a->y_n = a->res_n = image[1];
	if (!rlx_dw_c_init(cpu_isa(lo), a))
		return lower_no(lo, "the depthwise kernel does not take this shape");
	pack.dst = packed(lo, "dw_c", g, rlx_dw_c_wsize(a), &is_new);
	if (!pack.dst)
		return lo->status;
	if (is_new)
		cpu_kernels(lo)->dw_c_pack(&pack, 0, (g->oc + a->c - 1) / a->c, NULL);
	a->w = pack.dst;
	refs(lo, g, &a->x, &a->bias, &a->res, &a->y);
	lower_extent(lo, (int64_t)g->n, NULL);
	return lower_call(lo, RLX_KERNEL_dw_c, rlx_dw_c_units(a), conv_work(g), 0);
}

static enum rlx_status lower_winograd(struct rlx_lower *lo, const struct geometry *g,
				      const size_t image[2], size_t m)
{
	struct rlx_k_wino_c *a = lower_args(lo, sizeof(*a));
	struct rlx_k_wino_pack pack = { .conv = a, .src = lower_const(lo, 1) };
	bool is_new;

	COPY_SHAPE(a, g);
	a->ic = g->ic;
	a->oc = g->oc;
	a->m = m;
	a->x_n = image[0];
	a->y_n = a->res_n = image[1];
	if (!rlx_wino_c_init(cpu_isa(lo), a))
		return lower_no(lo, "the Winograd kernel does not take this shape");
	pack.dst = packed(lo, m == 4 ? "wino4_c" : "wino2_c", g, rlx_wino_c_wsize(a), &is_new);
	if (!pack.dst)
		return lo->status;
	if (is_new)
		cpu_kernels(lo)->wino_c_pack(&pack, 0, rlx_wino_c_pack_units(a), NULL);
	a->w = pack.dst;
	refs(lo, g, &a->x, &a->bias, &a->res, &a->y);
	lower_extent(lo, (int64_t)g->n, NULL);
	return lower_call(lo, RLX_KERNEL_wino_c, rlx_wino_c_units(a), conv_work(g),
			  rlx_wino_c_scratch(a));
}

static void swap_last(size_t d[3])
{
	size_t t = d[1];

	d[1] = d[2];
	d[2] = t;
}

/* The kernels run along rows: a picture one pixel wide is taken as one row. */
static void lay_flat(struct geometry *g)
{
	if (g->in[2] != 1 || g->out[2] != 1 || g->k[2] != 1 || g->p[2])
		return;
	swap_last(g->in);
	swap_last(g->out);
	swap_last(g->k);
	swap_last(g->s);
	swap_last(g->d);
	swap_last(g->p);
	swap_last(g->p_end);
}

static enum rlx_status lower_blocked(struct rlx_lower *lo, const struct geometry *g,
				     bool x_plain)
{
	struct rlx_k_conv_c *a = lower_args(lo, sizeof(*a));
	struct rlx_k_conv_pack pack = { .conv = a, .src = lower_const(lo, 1) };
	size_t b = rlx_conv_block(cpu_isa(lo)), m, image[2];
	bool is_new;

	image[0] = (g->ic + b - 1) / b * b * g->in[1] * g->in[2];
	image[1] = (g->oc + b - 1) / b * b * g->out[1] * g->out[2];
	if (g->groups > 1 && g->groups == g->oc && g->ic == g->oc)
		return lower_depthwise(lo, g, image);
	COPY_SHAPE(a, g);
	COPY_WINDOW(a, g);
	a->ic = g->ic;
	a->oc = g->oc;
	a->groups = g->groups;
	a->x_plain = x_plain;
	a->x_n = x_plain ? g->ic * g->in[1] * g->in[2] : image[0];
	a->y_n = a->res_n = image[1];
	if (!rlx_conv_c_init(cpu_isa(lo), a))
		return lower_no(lo, "the blocked kernel does not take this shape");
	m = x_plain ? 0 : rlx_wino_c_pick(cpu_isa(lo), a);
	if (m)
		return lower_winograd(lo, g, image, m);
	pack.dst = packed(lo, x_plain ? "conv_c plain" : "conv_c", g, rlx_conv_c_wsize(a),
			  &is_new);
	if (!pack.dst)
		return lo->status;
	if (is_new)
		cpu_kernels(lo)->conv_c_pack(&pack, 0, rlx_conv_pack_units(a), NULL);
	a->w = pack.dst;
	refs(lo, g, &a->x, &a->bias, &a->res, &a->y);
	lower_extent(lo, (int64_t)g->n, NULL);
	return lower_call(lo, RLX_KERNEL_conv_c, rlx_conv_c_units(a), conv_work(g),
			  rlx_conv_c_scratch(a));
}

static const void *pack_once(struct rlx_lower *lo, const struct geometry *g,
			     const struct rlx_k_conv_nd *a)
{
	struct rlx_k_conv_nd_pack pack = { .conv = a, .src = lower_const(lo, 1) };
	bool is_new;

	pack.dst = packed(lo, a->transposed ? "conv_t" : "conv_nd", g, rlx_conv_nd_wsize(a),
			  &is_new);
	if (pack.dst && is_new)
		cpu_kernels(lo)->conv_nd_pack(&pack, 0, a->groups, NULL);
	return pack.dst;
}

/* Weights that are known only then: a call before that of the convolution. */
static uint64_t pack_each_run(struct rlx_lower *lo, const struct rlx_k_conv_nd *plan)
{
	struct rlx_k_conv_nd *kept = lower_keep(lo, 1, sizeof(*kept));
	uint64_t tmp = lower_tmp(lo, rlx_conv_nd_wsize(plan) + 64);
	struct rlx_k_conv_nd_pack *p = lower_args(lo, sizeof(*p));

	if (!kept)
		return 0;
	*kept = *plan;
	p->conv = kept;
	lower_ref_in(lo, &p->src, 1, 0);
	lower_ref_tmp(lo, &p->dst, tmp);
	lower_call(lo, RLX_KERNEL_conv_nd_pack, plan->groups,
		   (double)rlx_type_count(lower_in(lo, 1)), 0);
	return tmp;
}

static enum rlx_status lower_plain(struct rlx_lower *lo, const struct geometry *g,
				   bool transposed)
{
	struct rlx_k_conv_nd *a = lower_args(lo, sizeof(*a)), plan;
	uint64_t tmp;
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
	a->transposed = transposed;
	a->x_n = g->ic * g->in[0] * g->in[1] * g->in[2];
	a->y_n = a->res_n = g->oc * g->out[0] * g->out[1] * g->out[2];
	if (!rlx_conv_nd_init(cpu_isa(lo), a))
		return lower_no(lo, "the plain kernel does not take this shape");
	if (!lower_const(lo, 1)) {
		plan = *a;
		tmp = pack_each_run(lo, &plan);
		a = lower_args(lo, sizeof(*a));
		*a = plan;
		lower_ref_tmp(lo, &a->w, tmp);
	} else {
		a->w = pack_once(lo, g, a);
	}
	if (lo->status)
		return lo->status;
	refs(lo, g, &a->x, &a->bias, &a->res, &a->y);
	lower_extent(lo, (int64_t)g->n, NULL);
	return lower_call(lo, RLX_KERNEL_conv_nd, rlx_conv_nd_units(a), conv_work(g),
			  rlx_conv_nd_scratch(a));
}

/* f32 throughout, and something to compute. */
static bool takes(struct rlx_lower *lo)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (lower_in(lo, k) && lower_in(lo, k)->dtype != RLX_F32)
			return false;
	return rlx_type_count(lower_out(lo, 0)) > 0 && rlx_type_count(lower_in(lo, 0)) > 0 &&
	       rlx_type_count(lower_in(lo, 1)) > 0 && lower_in(lo, 0)->rank <= 5;
}

enum rlx_status cpu_lower_fused_conv(struct rlx_lower *lo)
{
	const struct rlx_op_fused_conv *f = lo->args;
	const struct lists l = { f->stride, f->pad, f->dilation, f->groups };
	const struct rlx_type *w = lower_in(lo, 1);
	struct rlx_type x = *lower_in(lo, 0), y = *lower_out(lo, 0);
	struct geometry g = { .has_bias = lower_in(lo, 2), .has_residual = lower_in(lo, 3) };
	bool x_plain = f->block && x.rank == 4;

	if (!takes(lo) || !take_act(&g, f->act, f->act_lo, f->act_hi))
		return lower_no(lo, "no kernel for these dtypes, weights or this activation");
	if (f->block) {
		if (!lower_const(lo, 1))
			return lower_no(lo, "blocked weights known only at run time");
		if ((size_t)f->block != rlx_conv_block(cpu_isa(lo)))
			return lower_no(lo, "another block than this level's");
		x.rank = y.rank = 4;
		take_geometry(&g, &l, &x, w, &y);
		lay_flat(&g);
		return lower_blocked(lo, &g, x_plain);
	}
	take_geometry(&g, &l, &x, w, &y);
	return lower_plain(lo, &g, false);
}

enum rlx_status cpu_lower_conv(struct rlx_lower *lo)
{
	const struct rlx_op_conv *f = lo->args;
	const struct lists l = { f->stride, f->pad, f->dilation, f->groups };
	struct geometry g = { .has_bias = lower_in(lo, 2) };

	if (!takes(lo))
		return lower_no(lo, "no kernel for these dtypes or weights");
	take_geometry(&g, &l, lower_in(lo, 0), lower_in(lo, 1), lower_out(lo, 0));
	return lower_plain(lo, &g, false);
}

enum rlx_status cpu_lower_conv_transpose(struct rlx_lower *lo)
{
	const struct rlx_op_conv_transpose *f = lo->args;
	const struct lists l = { f->stride, f->pad, f->dilation, f->groups };
	struct geometry g = { .has_bias = lower_in(lo, 2) };
	const struct rlx_type *w = lower_in(lo, 1);

	if (!takes(lo))
		return lower_no(lo, "no kernel for these dtypes or weights");
	take_geometry(&g, &l, lower_in(lo, 0), w, lower_out(lo, 0));
	g.ic = (size_t)w->dim[0];
	g.oc = (size_t)w->dim[1] * g.groups;
	return lower_plain(lo, &g, true);
}

static enum rlx_status lower_reorder(struct rlx_lower *lo, const struct rlx_type *plain,
				     const struct rlx_type *blk, enum rlx_kernel_id id, bool to)
{
	struct rlx_k_reorder *a = lower_args(lo, sizeof(*a));

	if (plain->dtype != RLX_F32 ||
	    (size_t)blk->dim[4] != rlx_conv_block(cpu_isa(lo)) || !rlx_type_count(plain))
		return lower_no(lo, "no kernel for this dtype or block");
	a->n = (size_t)plain->dim[0];
	a->channels = (size_t)plain->dim[1];
	a->pixels = (size_t)(plain->dim[2] * plain->dim[3]);
	a->src_n = (size_t)shape_span(to ? plain : blk, 1, to ? 4 : 5);
	a->dst_n = (size_t)shape_span(to ? blk : plain, 1, to ? 5 : 4);
	lower_ref_in(lo, &a->src, 0, 0);
	lower_ref_out(lo, &a->dst, 0, 0);
	return lower_call(lo, id, a->n * (size_t)blk->dim[1], (double)rlx_type_count(blk), 0);
}

enum rlx_status cpu_lower_block_channels(struct rlx_lower *lo)
{
	return lower_reorder(lo, lower_in(lo, 0), lower_out(lo, 0),
			     RLX_KERNEL_to_blocked_f32, true);
}

enum rlx_status cpu_lower_unblock_channels(struct rlx_lower *lo)
{
	return lower_reorder(lo, lower_out(lo, 0), lower_in(lo, 0),
			     RLX_KERNEL_to_plain_f32, false);
}
