// SPDX-License-Identifier: MIT
/*
 * The blocked layout: 1-D and 2-D convolutions take and give tensors in which a target's
 * block of channels lies together, and what stands between them (pointwise ops,
 * pools, means over pixels) works on that too. A tensor is reordered where a
 * reader wants the other form, once. A 1-D tensor [n, c, w] is taken as [n, c, 1, w].
 *
 * A CPU's block is a vector, of f32. A GPU's is all channels (channels last), of f16 and bf16,
 * whose tensor cores read terms of a sum side by side: then reorders are transposes.
 */
#include <string.h>

#include "base/shape.h"
#include "pass/layout.h"

rlx_pass_fn rlx_pass_layout;

/* A value's dtype; none once the graph has failed. */
static enum rlx_dtype dtype_of(const struct layout *l, rlx_value x)
{
	return x.id ? l->rw->g->val[x.id].type.dtype : RLX_NODTYPE;
}

rlx_value layout_as(struct layout *l, rlx_value x, enum rlx_dtype to)
{
	return dtype_of(l, x) == to ? x : rlx_emit(l->rw->g, cast, .x = x, .to = to);
}

/* [n, c, h, w] to [n, h, w, c] or (@back) from it; moves nothing where there is one c or pixel. */
static rlx_value turn(struct layout *l, rlx_value x, bool back)
{
	struct rlx_type t = l->rw->g->val[x.id].type;
	int64_t d[4] = { t.dim[0], t.dim[2], t.dim[3], t.dim[1] };

	if (!back && (t.dim[1] == 1 || t.dim[2] * t.dim[3] == 1))
		return rlx_emit(l->rw->g, reshape, .x = x, .shape = { d, 4 });
	if (!back)
		return rlx_emit(l->rw->g, transpose, .x = x, .perm = RLX_INTS(0, 2, 3, 1));
	if (t.dim[3] != 1 && t.dim[1] * t.dim[2] != 1)
		return rlx_emit(l->rw->g, transpose, .x = x, .perm = RLX_INTS(0, 3, 1, 2));
	d[1] = t.dim[3];
	d[2] = t.dim[1];
	d[3] = t.dim[2];
	return rlx_emit(l->rw->g, reshape, .x = x, .shape = { d, 4 });
}

/* [n, c, h, w] as [n, 1, h, w, c], or (@channels) back. */
rlx_value layout_to_last(struct layout *l, rlx_value x)
{
	struct rlx_type t;
	int64_t d[5];

	if (!x.id)
		return x;
	t = l->rw->g->val[x.id].type;
	memcpy(d, (int64_t[]){ t.dim[0], 1, t.dim[2], t.dim[3], t.dim[1] }, sizeof(d));
	return rlx_emit(l->rw->g, reshape, .x = turn(l, x, false), .shape = { d, 5 });
}

rlx_value layout_from_last(struct layout *l, rlx_value x)
{
	struct rlx_type t;
	int64_t d[4];

	if (!x.id)
		return x;
	t = l->rw->g->val[x.id].type;
	memcpy(d, (int64_t[]){ t.dim[0], t.dim[2], t.dim[3], t.dim[4] }, sizeof(d));
	x = rlx_emit(l->rw->g, reshape, .x = x, .shape = { d, 4 });
	return x.id ? turn(l, x, true) : x;
}

/* A CPU's reorders are of f32, which holds what narrower floats are. */
static rlx_value unblock(struct layout *l, rlx_value x, int64_t channels)
{
	enum rlx_dtype dt = dtype_of(l, x);
	const struct rlx_node *n = x.id ? rlx_node_of(l->rw->g, x.id) : NULL;

	if (layout_last(l))
		return layout_from_last(l, x);
	/* what was rounded last may as well be rounded behind */
	if (n && n->def->index == RLX_OP_cast && l->rw->g->val[n->in[0]].type.dtype == RLX_F32)
		x.id = n->in[0];
	return layout_as(l, rlx_emit(l->rw->g, unblock_channels, .x = layout_as(l, x, RLX_F32),
			      .channels = channels), dt);
}

static rlx_value block(struct layout *l, rlx_value x)
{
	enum rlx_dtype dt = dtype_of(l, x);

	if (layout_last(l))
		return layout_to_last(l, x);
	return layout_as(l, rlx_emit(l->rw->g, block_channels, .x = layout_as(l, x, RLX_F32),
			      .block = l->block), dt);
}

/* The plain form of an old value, reordering if only the blocked one is there. */
rlx_value layout_plain(struct layout *l, uint32_t v)
{
	const struct rlx_type *t = &l->rw->old->val[v].type;
	rlx_value x;

	if (v && !l->rw->map[v] && l->swapped[v])
		l->rw->map[v] = rlx_emit(l->rw->g, transpose, .x = { l->swapped[v] },
					 .perm = RLX_INTS(1, 0, 2, 3)).id;
	if (v && !l->rw->map[v] && l->blocked[v]) {
		x = unblock(l, (rlx_value){ l->blocked[v] }, t->dim[1]);
		if (t->rank == 3)
			x = rlx_emit(l->rw->g, reshape, .x = x, .shape = { t->dim, 3 });
		l->rw->map[v] = x.id;
	}
	return (rlx_value){ l->rw->map[v] };
}

/* @t seen as part of a tensor of rank @rank (3 or 4): four dimensions. */
static void four_dims(const struct rlx_type *t, uint32_t rank, int64_t dims[4])
{
	uint32_t i, at;

	for (i = 0; i < 4; i++)
		dims[i] = 1;
	for (i = 0; i < t->rank; i++) {
		at = rank - t->rank + i;
		dims[rank == 3 && at == 2 ? 3 : at] = t->dim[i];
	}
}

rlx_value layout_image(struct layout *l, uint32_t v)
{
	const struct rlx_type *t = &l->rw->old->val[v].type;
	int64_t dims[4];

	if (t->rank == 4)
		return layout_plain(l, v);
	four_dims(t, t->rank, dims);
	return rlx_emit(l->rw->g, reshape, .x = layout_plain(l, v), .shape = { dims, 4 });
}

rlx_value layout_blocked(struct layout *l, uint32_t v)
{
	if (!l->blocked[v])
		l->blocked[v] = block(l, layout_image(l, v)).id;
	return (rlx_value){ l->blocked[v] };
}

void layout_give(struct layout *l, uint32_t v, rlx_value with)
{
	l->blocked[v] = with.id;
	l->rw->map[v] = 0;
	l->rw->changed = true;
}

static bool is_real(enum rlx_dtype dt)
{
	return dt == RLX_F32 || dt == RLX_BF16 || dt == RLX_F16;
}

bool layout_is_image(const struct rlx_type *t)
{
	return is_real(t->dtype) && (t->rank == 4 || t->rank == 3) && rlx_type_count(t) > 0;
}

/* Without memory an attribute would be absent, which means something else: the graph fails. */
static int64_t *new_ints(struct rlx_graph *g, uint32_t n)
{
	int64_t *v = rlx_bump_new(&g->bump, n, sizeof(*v));

	if (!v)
		rlx_graph_fail(g, RLX_ENOMEM, "layout: out of memory");
	return v;
}

/* "[s]" as "[fill, s]", "[begin, end]" as "[0, begin, 0, end]"; empty stays. */
static struct rlx_ints two_dims(struct rlx_graph *g, struct rlx_ints a, int64_t fill, bool pads)
{
	int64_t *v = a.n ? new_ints(g, 4) : NULL;

	if (!v)
		return (struct rlx_ints){ 0 };
	v[0] = fill;
	v[1] = a.v[0];
	v[2] = fill;
	v[3] = pads ? a.v[1] : 0;
	return (struct rlx_ints){ v, pads ? 4 : 2 };
}

void layout_two_dims(struct layout *l, struct rlx_op_fused_conv *a)
{
	a->stride = two_dims(l->rw->g, a->stride, 1, false);
	a->dilation = two_dims(l->rw->g, a->dilation, 1, false);
	a->pad = two_dims(l->rw->g, a->pad, 0, true);
}

/* ---- channels last ---- */

/*
 * Can it be done channels last: operands of one dtype of 16 bits, a result of that or f32, and a
 * residual as the result; one group, groups of chunks of 8, or chunks of 8 groups of one channel.
 */
static bool fits_last(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_fused_conv *a = n->args;
	const struct rlx_type *x = layout_type(l, n->in[0]), *w = layout_type(l, n->in[1]);
	const struct rlx_type *r = layout_type(l, n->in[3]), *b = layout_type(l, n->in[2]);
	enum rlx_dtype y = layout_type(l, n->out)->dtype;

	return !a->block && layout_is_image(x) && layout_is_image(w) && x->dtype != RLX_F32 &&
	       w->dtype == x->dtype && (y == x->dtype || y == RLX_F32) &&
	       (!n->in[3] || r->dtype == y) &&
	       (!n->in[2] || is_real(b->dtype)) &&
	       (a->groups == 1 || w->dim[1] % 8 == 0 ||
		(w->dim[1] == 1 && w->dim[0] == a->groups && a->groups % 8 == 0));
}

static int64_t pixels_of(const struct rlx_type *t)
{
	return shape_span(t, 2, t->rank);
}

/* Must its channels be filled up? */
static bool must_fill(const struct layout *l, const struct rlx_node *n)
{
	return ((const struct rlx_op_fused_conv *)n->args)->groups == 1 &&
	       layout_type(l, n->in[0])->dim[1] % 8;
}

/* Of one pixel without padding. */
static bool is_pointwise(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_fused_conv *a = n->args;
	const struct rlx_type *w = layout_type(l, n->in[1]);
	bool one = a->groups == 1 && shape_span(w, 2, w->rank) == 1;
	uint32_t i;

	for (i = 0; i < a->pad.n; i++)
		one = one && !a->pad.v[i];
	return one;
}

/* Without a stride either: plain it is a GEMM as it stands. */
static bool is_gemm(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_fused_conv *a = n->args;
	bool one = is_pointwise(l, n);
	uint32_t i;

	for (i = 0; i < a->stride.n; i++)
		one = one && a->stride.v[i] == 1;
	return one;
}

/*
 * Operations above which turning x, w and y is less than what is gained: where w stays as it is
 * it is turned once, and else the kernels for plain tensors do it by themselves.
 */
static const double LARGE_FLOPS = 1e9, LARGE_FLOPS_W_STAYS = 2e5;

bool layout_stays(const struct layout *l, uint32_t v)
{
	const struct rlx_node *n = rlx_node_of(l->rw->old, v);

	while (n->def->index == RLX_OP_cast)
		n = rlx_node_of(l->rw->old, n->in[0]);
	return n->def->index == RLX_OP_param || n->def->index == RLX_OP_constant;
}

/*
 * Few terms for few output channels leave tiles of tensor cores nearly empty, and channels last
 * are filled up to 8: up to so many operations in all, threads with one output each are faster,
 * and nothing is turned. With more channels each thread reads x anew (0.4 of the speed).
 */
static const double SHORT_SUM = 16, FEW_CHANNELS = 8, LARGE_FLOPS_SHORT = 4e7;

static bool is_large(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *w = layout_type(l, n->in[1]);
	double terms = (double)shape_span(w, 1, w->rank);
	bool one = ((const struct rlx_op_fused_conv *)n->args)->groups == 1;
	bool few = terms <= SHORT_SUM && (double)w->dim[0] <= FEW_CHANNELS;

	return !is_gemm(l, n) && 2 * terms * (double)rlx_type_count(layout_type(l, n->out)) >
	       (!one || !layout_stays(l, n->in[1]) ? LARGE_FLOPS :
		few ? LARGE_FLOPS_SHORT : LARGE_FLOPS_W_STAYS);
}

/* Bytes of a plain x above which a transpose of its own is faster than the kernel's. */
static const int64_t LARGE_X = 4 << 20;

/* Does the kernel's do with less: all of x, if that is small, or the pixels that it reads? */
static bool turns_less(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *x = layout_type(l, n->in[0]), *y = layout_type(l, n->out);

	return rlx_type_bytes(x) <= LARGE_X ||
	       (is_pointwise(l, n) && 2 * pixels_of(y) <= pixels_of(x));
}

/*
 * Is a plain x read as it is: where its channels would have to be filled up, or nobody else reads
 * it turned? A product needs rows at multiples of 16 bytes.
 */
static bool reads_plain(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *x = layout_type(l, n->in[0]);

	if (must_fill(l, n))
		return true;
	if (l->blocked[n->in[0]] || l->readers[n->in[0]] > 1 || x->rank != 4 ||
	    ((const struct rlx_op_fused_conv *)n->args)->groups != 1)
		return false;
	return is_gemm(l, n) ? pixels_of(x) % 8 == 0 : turns_less(l, n);
}

/* Elements of a result whose rows are at odd places, which is stored one by one. */
static const int64_t LARGE_ODD_Y = 1 << 22;

/* Is the result plain at once? */
static bool gives_plain(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *y = layout_type(l, n->out);

	return !l->wanted[n->out] && !l->kept[n->out] && y->rank == 4 &&
	       ((const struct rlx_op_fused_conv *)n->args)->groups == 1 &&
	       (pixels_of(y) % 8 == 0 || rlx_type_count(y) < LARGE_ODD_Y);
}

/* [co, c / groups, kh, kw] as [co, 1, kh, kw, c / groups], filled up to chunks of 8 if it must. */
static rlx_value weights_last(struct layout *l, const struct rlx_node *n)
{
	rlx_value w = layout_image(l, n->in[1]);
	int64_t pads[8] = { 0 };

	pads[5] = -layout_type(l, n->in[1])->dim[1] & 7;
	if (must_fill(l, n))
		w = rlx_emit(l->rw->g, pad, .x = w, .pads = { pads, 8 });
	return layout_to_last(l, w);
}

static bool take_conv_last(struct layout *l, const struct rlx_node *n)
{
	struct rlx_op_fused_conv a = *(const struct rlx_op_fused_conv *)n->args;
	bool plain_y = gives_plain(l, n);
	rlx_value y;

	if (layout_weight_grad(l, n))
		return true;
	if (!fits_last(l, n) ||
	    (!l->blocked[n->in[0]] && !l->wanted[n->out] && !is_large(l, n)))
		return false;
	if (layout_type(l, n->in[0])->rank == 3)
		layout_two_dims(l, &a);
	a.block = l->block;
	a.x = reads_plain(l, n) ? layout_image(l, n->in[0]) : layout_blocked(l, n->in[0]);
	a.w = weights_last(l, n);
	a.bias = n->in[2] ? layout_as(l, layout_plain(l, n->in[2]), RLX_F32) : RLX_NONE;
	a.residual = !n->in[3] ? RLX_NONE :
		     plain_y ? layout_plain(l, n->in[3]) : layout_blocked(l, n->in[3]);
	a.plain_y = plain_y;
	y = rlx_emit_raw(l->rw->g, &rlx_op_fused_conv, &a, sizeof(a), n->file, n->line);
	if (!plain_y) {
		layout_give(l, n->out, y);
		return true;
	}
	l->rw->map[n->out] = y.id;
	l->rw->changed = true;
	return true;
}

static bool slices_pixels(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_slice *a = n->args;
	bool fits = n->def->index == RLX_OP_slice && layout_type(l, n->in[0])->rank == 4 &&
		    a->axes.n;
	uint32_t i;

	for (i = 0; fits && i < a->axes.n; i++)
		fits = a->axes.v[i] == 2 || a->axes.v[i] == 3;
	return fits;
}

/*
 * Which values reach a convolution that can be done channels last, by what keeps the layout; which
 * of those read what.
 */
static void mark_wanted(struct layout *l)
{
	const struct rlx_graph *g = l->rw->old;
	uint32_t n, k;

	for (n = g->n_node; n-- > 0;) {
		const struct rlx_node *at = &g->node[n];
		bool keeps = at->def->traits & RLX_T_ELEMENTWISE ||
			     at->def->index == RLX_OP_pool || at->def->index == RLX_OP_concat ||
			     at->def->index == RLX_OP_reduce ||
			     at->def->index == RLX_OP_sum_squares || slices_pixels(l, at);
		uint32_t from[2];

		if (!rlx_rewrite_live(l->rw, n))
			continue;
		if (layout_grad_reads(l, at, from)) {
			l->wanted[from[0]] = l->wanted[from[1]] = true;
			l->readers[from[0]]++;
			l->readers[from[1]]++;
			continue;
		}
		if (at->def->index == RLX_OP_fused_conv && fits_last(l, at)) {
			l->readers[at->in[0]]++;
			if (!must_fill(l, at)) {
				l->wanted[at->in[0]] = true;
				l->wanted[at->in[3]] = true;
			}
		}
		for (k = 0; keeps && k < at->n_in; k++) {
			l->kept[at->in[k]] = true;
			l->wanted[at->in[k]] = l->wanted[at->in[k]] || l->wanted[at->out];
		}
	}
}

/* ---- what keeps the layout ---- */

static struct rlx_ints longer(struct rlx_graph *g, struct rlx_ints a, int64_t fill)
{
	int64_t *v;

	if (!a.n)
		return a;
	v = new_ints(g, a.n + 1);
	if (!v)
		return (struct rlx_ints){ 0 };
	memcpy(v, a.v, a.n * sizeof(*v));
	v[a.n] = fill;
	return (struct rlx_ints){ v, a.n + 1 };
}

/* Begins then ends, each with one more dimension that is not padded. */
static struct rlx_ints longer_pads(struct rlx_graph *g, struct rlx_ints a)
{
	int64_t *v;
	uint32_t half = a.n / 2;

	if (!a.n)
		return a;
	v = new_ints(g, a.n + 2);
	if (!v)
		return (struct rlx_ints){ 0 };
	memcpy(v, a.v, half * sizeof(*v));
	memcpy(v + half + 1, a.v + half, half * sizeof(*v));
	return (struct rlx_ints){ v, a.n + 2 };
}

/* The lane is a third spatial dimension with windows of one: of a pool, or of its gradient. */
#define LONGER_WINDOWS(l, a) do {					\
	(a)->kernel = longer((l)->rw->g, (a)->kernel, 1);		\
	(a)->stride = longer((l)->rw->g, (a)->stride, 1);		\
	(a)->dilation = longer((l)->rw->g, (a)->dilation, 1);		\
	(a)->pad = longer_pads((l)->rw->g, (a)->pad);			\
} while (0)

static bool take_pool(struct layout *l, const struct rlx_node *n)
{
	struct rlx_op_pool a = *(const struct rlx_op_pool *)n->args;

	if (!l->blocked[n->in[0]] || layout_type(l, n->in[0])->rank != 4 || a.indices ||
	    a.kind == RLX_POOL_LP)
		return false;
	a.x = layout_blocked(l, n->in[0]);
	LONGER_WINDOWS(l, &a);
	layout_give(l, n->out, rlx_emit_raw(l->rw->g, &rlx_op_pool, &a, sizeof(a),
					     n->file, n->line));
	return true;
}

/* Are gradients of @dt blocked on a CPU? With strict bits those of f32 are summed as ever. */
static bool has_blocked_grads(const struct layout *l, enum rlx_dtype dt)
{
	return dt == RLX_BF16 || (dt == RLX_F32 && !l->strict);
}

/* Its gradient, on a CPU between tensors whose own are blocked as well: in f32, maybe as a cast. */
static bool take_max_pool_grad(struct layout *l, const struct rlx_node *n)
{
	struct rlx_op_max_pool_grad a = *(const struct rlx_op_max_pool_grad *)n->args;
	const struct rlx_node *from = rlx_node_of(l->rw->old, n->in[0]);
	const uint32_t x = from->def->index == RLX_OP_cast ? from->in[0] : n->in[0];

	if (layout_last(l) || !l->blocked[n->in[0]] || layout_type(l, n->in[0])->rank != 4 ||
	    !has_blocked_grads(l, layout_type(l, x)->dtype))
		return false;
	a.x = layout_blocked(l, n->in[0]);
	a.dy = layout_blocked(l, n->in[1]);
	LONGER_WINDOWS(l, &a);
	layout_give(l, n->out, rlx_emit_raw(l->rw->g, &rlx_op_max_pool_grad, &a, sizeof(a),
					     n->file, n->line));
	return true;
}

/* A vector of all channels, as operand or result of a reduction over what is no channel. */
static rlx_value centre_of(struct layout *l, uint32_t v, int64_t channels)
{
	rlx_value x = layout_plain(l, v);

	if (layout_last(l))
		return rlx_emit(l->rw->g, reshape, .x = x, .shape = RLX_INTS(channels));
	return block(l, rlx_emit(l->rw->g, reshape, .x = x, .shape = RLX_INTS(1, channels, 1, 1)));
}

/* One as an old value of type @y has it: what fills up the last block is left out. */
static rlx_value vector_as(struct layout *l, rlx_value x, int64_t channels,
			   const struct rlx_type *y)
{
	const int64_t filled = (channels + l->block - 1) / l->block * l->block;

	if (!layout_last(l) && filled > channels) {
		x = rlx_emit(l->rw->g, reshape, .x = x, .shape = RLX_INTS(filled));
		x = rlx_emit(l->rw->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
			     .ends = RLX_INTS(channels));
	}
	return rlx_emit(l->rw->g, reshape, .x = x, .shape = { y->dim, y->rank });
}

/* Can a reduction over all images and pixels, which leaves a vector, be done here? */
static bool takes_all(const struct layout *l, const struct rlx_node *n, bool squares)
{
	if (squares && n->in[2] && rlx_type_count(layout_type(l, n->in[2])) !=
				   layout_type(l, n->in[0])->dim[1])
		return false;
	/* in blocks sums go another way; and nothing is reordered for it */
	return layout_last(l) || (!l->strict && (!squares || !n->in[1] || l->blocked[n->in[1]]));
}

/*
 * Reductions over both pixel axes that keep them, and over all images as well, which leave a
 * vector. Sums of squares are written alike.
 */
static bool take_reduce(struct layout *l, const struct rlx_node *n)
{
	union { struct rlx_op_reduce r; struct rlx_op_sum_squares s; } a;
	bool squares = n->def->index == RLX_OP_sum_squares, all;
	const int64_t channels = layout_type(l, n->in[0])->dim[1];
	struct rlx_ints *axes = squares ? &a.s.axes : &a.r.axes;
	bool *keep = squares ? &a.s.keep_dims : &a.r.keep_dims;
	uint32_t mask = 0, i;
	rlx_value x;

	if (!l->blocked[n->in[0]] || layout_type(l, n->in[0])->rank != 4)
		return false;
	memcpy(&a, n->args, n->def->args_size);
	for (i = 0; i < axes->n; i++)
		mask |= 1u << (axes->v[i] < 0 ? axes->v[i] + 4 : axes->v[i]);
	all = mask == 0xd && takes_all(l, n, squares);
	if (!all && (mask != 0xc || !*keep || n->n_out > 1 || (squares && n->in[2])))
		return false;
	*(squares ? &a.s.x : &a.r.x) = layout_blocked(l, n->in[0]);
	if (squares && n->in[1])
		a.s.by = layout_blocked(l, n->in[1]);
	if (squares && n->in[2])
		a.s.centre = centre_of(l, n->in[2], channels);
	*axes = !all ? RLX_INTS(2, 3) : layout_last(l) ? RLX_INTS(0, 1, 2, 3) : RLX_INTS(0, 2, 3);
	*keep = !all;
	x = rlx_emit_raw(l->rw->g, squares ? &rlx_op_sum_squares : &rlx_op_reduce, &a,
			 n->def->args_size, n->file, n->line);
	for (i = 0; i < n->n_out && all; i++)
		rlx_rewrite_set(l->rw, n->out + i, vector_as(l, rlx_out(l->rw->g, x, i), channels,
							     layout_type(l, n->out + i)));
	if (!all)
		layout_give(l, n->out, x);
	return true;
}

/* Slices along the pixel axes, which are where they were. */
static bool take_slice(struct layout *l, const struct rlx_node *n)
{
	struct rlx_op_slice a = *(const struct rlx_op_slice *)n->args;

	if (!l->blocked[n->in[0]] || !slices_pixels(l, n))
		return false;
	a.x = layout_blocked(l, n->in[0]);
	layout_give(l, n->out, rlx_emit_raw(l->rw->g, &rlx_op_slice, &a, sizeof(a), n->file,
					    n->line));
	return true;
}

/* An operand of a blocked pointwise op; none if it has no blocked form. */
static rlx_value operand(struct layout *l, uint32_t v, const struct rlx_type *y)
{
	const struct rlx_type *t = layout_type(l, v);
	int64_t dims[5];

	/* before it is taken for a scalar: the result is of one element too then */
	if (l->blocked[v] && t->rank == y->rank && rlx_type_count(t) == rlx_type_count(y))
		return layout_blocked(l, v);
	if (rlx_type_count(t) == 1)
		return rlx_emit(l->rw->g, reshape, .x = layout_plain(l, v), .shape = { dims, 0 });
	four_dims(t, y->rank, dims);
	if (dims[1] == y->dim[1]) {
		if (t->rank == y->rank)
			return layout_blocked(l, v);
		return block(l, rlx_emit(l->rw->g, reshape, .x = layout_plain(l, v),
					 .shape = { dims, 4 }));
	}
	dims[4] = 1;	/* the same for all channels */
	return rlx_emit(l->rw->g, reshape, .x = layout_plain(l, v), .shape = { dims, 5 });
}

/* Between floats only: what is rounded after a convolution goes on to the next. */
static bool take_cast(struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *y = layout_type(l, n->out);

	if (!l->blocked[n->in[0]] || !layout_is_image(y) ||
	    !is_real(layout_type(l, n->in[0])->dtype))
		return false;
	layout_give(l, n->out, layout_as(l, layout_blocked(l, n->in[0]), y->dtype));
	return true;
}

/* What a gradient is masked with: on a CPU of those that are blocked. */
static bool is_mask(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *t = layout_type(l, n->out);

	return (layout_last(l) || has_blocked_grads(l, layout_type(l, n->in[0])->dtype)) &&
	       t->dtype == RLX_BOOL && t->rank == 4 && rlx_type_count(t) > 0;
}

static bool take_pointwise(struct layout *l, const struct rlx_node *n)
{
	const struct rlx_type *y = layout_type(l, n->out);
	bool any = false, worth;
	rlx_value in[3];
	uint32_t k;

	if (n->def->index == RLX_OP_cast)
		return take_cast(l, n);
	if (!(layout_is_image(y) || is_mask(l, n)) || n->n_in > 3 ||
	    n->def->n_field != n->n_in)		/* attributes too */
		return false;
	for (k = 0; k < n->n_in; k++) {
		const struct rlx_type *t = layout_type(l, n->in[k]);

		/* one full-size operand already blocked decides, a CPU's masks do not */
		any = any || (l->blocked[n->in[k]] && rlx_type_count(t) == rlx_type_count(y) &&
			      (layout_last(l) || is_real(t->dtype)));
		worth = is_real(t->dtype) || rlx_type_count(t) == 1 ||
			(l->blocked[n->in[k]] && t->dtype == RLX_BOOL);
		if (!worth || t->rank > y->rank)
			return false;
	}
	if (!any)
		return false;
	for (k = 0; k < n->n_in; k++)
		in[k] = operand(l, n->in[k], y);
	layout_give(l, n->out, rlx_emit_inputs(l->rw->g, n->def, in, n->n_in, n));
	return true;
}

/* Joining along channels, when every part but the last ends with a full block. */
static bool take_concat(struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_concat *a = n->args;
	rlx_value in[16];
	uint32_t k;

	if ((a->axis != 1 && a->axis != 1 - (int32_t)layout_type(l, n->out)->rank) ||
	    n->n_in > 16 || !layout_is_image(layout_type(l, n->out)))
		return false;
	for (k = 0; k < n->n_in; k++)
		if (!l->blocked[n->in[k]] ||
		    (k + 1 < n->n_in && !layout_last(l) &&
		     layout_type(l, n->in[k])->dim[1] % l->decide))
			return false;
	for (k = 0; k < n->n_in; k++)
		in[k] = layout_blocked(l, n->in[k]);
	layout_give(l, n->out, rlx_emit(l->rw->g, concat, .axis = layout_last(l) ? 4 : 1,
					 .xs = { in, n->n_in }));
	return true;
}

static bool take(struct layout *l, const struct rlx_node *n)
{
	switch (n->def->index) {
	case RLX_OP_fused_conv: return layout_last(l) ? take_conv_last(l, n) :
				       layout_weight_grad_blocked(l, n) || layout_conv(l, n);
	case RLX_OP_pool: return take_pool(l, n);
	case RLX_OP_max_pool_grad: return take_max_pool_grad(l, n);
	case RLX_OP_reduce:
	case RLX_OP_sum_squares: return take_reduce(l, n);
	case RLX_OP_concat: return take_concat(l, n);
	case RLX_OP_slice: return take_slice(l, n);
	case RLX_OP_transpose:
	case RLX_OP_reshape: return layout_swap(l, n);
	case RLX_OP_conv_transpose:
		return layout_last(l) ? layout_conv_transpose(l, n) : layout_conv(l, n);
	}
	return n->def->traits & RLX_T_ELEMENTWISE && take_pointwise(l, n);
}

enum rlx_status rlx_pass_layout(struct rlx_pass_ctx *c, struct rlx_graph *g,
				struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	struct layout l = { .rw = &rw, .block = c->target.channels, .decide = c->target.channels };
	enum rlx_status st;
	uint32_t n, k;

	if (!l.block)
		return RLX_OK;
	/* sums go another way in blocks: what is done so may not hang on the processor then */
	l.strict = c->flags & RLX_COMPILE_STRICT_BITS;
	if (l.strict && !layout_last(&l))
		l.decide = 16;
	st = rlx_rewrite_begin(&rw, g, c->err);
	if (st)
		return st;
	l.blocked = rlx_bump_new(&rw.g->bump, g->n_val, sizeof(*l.blocked));
	l.swapped = rlx_bump_new(&rw.g->bump, g->n_val, sizeof(*l.swapped));
	l.wanted = rlx_bump_new(&rw.g->bump, g->n_val, sizeof(*l.wanted));
	l.kept = rlx_bump_new(&rw.g->bump, g->n_val, sizeof(*l.kept));
	l.readers = rlx_bump_new(&rw.g->bump, g->n_val, sizeof(*l.readers));
	if (!l.blocked || !l.swapped || !l.wanted || !l.kept || !l.readers)
		rlx_fail(&rw.g->err, RLX_ENOMEM, "layout: out of memory");
	else if (layout_last(&l))
		mark_wanted(&l);
	else
		layout_mark_wanted(&l);
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		if (!rlx_rewrite_live(&rw, n) || take(&l, &g->node[n]))
			continue;
		for (k = 0; k < g->node[n].n_in; k++)
			layout_plain(&l, g->node[n].in[k]);
		rlx_rewrite_copy(&rw, n);
	}
	for (k = 0; l.blocked && l.swapped && k < g->io[RLX_IO_OUTPUT].n; k++)
		layout_plain(&l, g->io[RLX_IO_OUTPUT].e[k].v.id);
	return rlx_rewrite_end(&rw, out);
}
