// SPDX-License-Identifier: MIT
/*
 * Gradients of convolutions, channels last. In x: a convolution of dy, zeros between its pixels,
 * by weights turned round. In the weight: products of dy by x, both [pixels, channels] on one grid
 * that has x's padding; a tap is a shift of x's rows, the taps of a row shift by one each.
 */
#include "base/shape.h"
#include "pass/layout.h"

enum { MOST_ROWS = 32 };	/* of taps */

static bool is_half(enum rlx_dtype dt)
{
	return dt == RLX_BF16 || dt == RLX_F16;
}

/*
 * Does it exchange the first two axes of an image? Of one channel or image that is a reshape, which
 * channels last does not gain by.
 */
static bool is_swap(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_transpose *a = n->args;
	const struct rlx_type *x = n->n_in ? layout_type(l, n->in[0]) : NULL;
	const struct rlx_type *y = layout_type(l, n->out);

	if (n->def->index == RLX_OP_reshape)
		return !layout_last(l) && x->rank == 4 && y->rank == 4 &&
		       (x->dim[0] == 1 || x->dim[1] == 1) && x->dim[0] == y->dim[1] &&
		       x->dim[1] == y->dim[0] && x->dim[2] == y->dim[2] && x->dim[3] == y->dim[3];
	return n->def->index == RLX_OP_transpose && layout_type(l, n->out)->rank == 4 &&
	       a->perm.n == 4 && a->perm.v[0] == 1 && a->perm.v[1] == 0 && a->perm.v[2] == 2;
}

/* What @v is with its first two axes exchanged, and maybe rounded; 0: nothing. */
static uint32_t swap_of(const struct layout *l, uint32_t v)
{
	const struct rlx_node *n = rlx_node_of(l->rw->old, v);

	while (n->def->index == RLX_OP_cast)
		n = rlx_node_of(l->rw->old, n->in[0]);
	return is_swap(l, n) ? n->in[0] : 0;
}

/*
 * A convolution whose images are channels and whose channels are images, both of x and of w: the
 * sum over pixels of dy, of which w is. Its stride is from tap to tap.
 */
static bool sums_images(const struct layout *l, const struct rlx_node *n, uint32_t out[2])
{
	const struct rlx_op_fused_conv *a = n->args;

	if (n->def->index != RLX_OP_fused_conv || a->groups != 1 || a->act || a->block ||
	    n->in[2] || n->in[3] || layout_type(l, n->in[0])->rank != 4)
		return false;
	out[0] = swap_of(l, n->in[0]);
	out[1] = swap_of(l, n->in[1]);
	return out[0] && out[1];
}

/* One that is done channels last. */
static bool is_weight_grad(const struct layout *l, const struct rlx_node *n, uint32_t out[2])
{
	const struct rlx_op_fused_conv *a = n->args;
	const struct rlx_type *x, *w, *y = layout_type(l, n->out);
	uint32_t i;

	if (!sums_images(l, n, out))
		return false;
	x = layout_type(l, n->in[0]);
	w = layout_type(l, n->in[1]);
	if (y->dim[2] > MOST_ROWS || !is_half(x->dtype) ||
	    w->dtype != x->dtype || x->dim[0] % 8 || w->dim[0] % 8 || rlx_type_count(x) <= 0 ||
	    rlx_type_count(w) <= 0)
		return false;
	for (i = 0; i < a->stride.n; i++)	/* the taps of a row lie side by side */
		if (a->stride.v[i] != 1 && y->dim[2 + i] > 1)
			return false;
	return true;
}

static rlx_value shaped(struct layout *l, rlx_value x, struct rlx_ints shape)
{
	return rlx_emit(l->rw->g, reshape, .x = x, .shape = shape);
}

/* @x [n, 1, h, w, c] with @step - 1 zeros behind each pixel, as [n, h step, w step, c]. */
static rlx_value spread(struct layout *l, rlx_value x, const int64_t step[2])
{
	struct rlx_graph *g = l->rw->g;
	const struct rlx_type *t = rlx_type_of(g, x);
	int64_t d[6], pads[12] = { 0 };

	if (!t)
		return RLX_NONE;
	d[0] = t->dim[0];
	d[1] = t->dim[2];
	d[2] = d[4] = 1;
	d[3] = t->dim[3];
	d[5] = t->dim[4];
	if (step[0] * step[1] > 1) {
		pads[6 + 2] = step[0] - 1;
		pads[6 + 4] = step[1] - 1;
		x = shaped(l, x, (struct rlx_ints){ d, 6 });
		x = rlx_emit(g, pad, .x = x, .pads = { pads, 12 });
	}
	return shaped(l, x, RLX_INTS(d[0], d[1] * step[0], d[3] * step[1], d[5]));
}

/* [n, h, w, c] as [n, 1, h, w, c]. */
static rlx_value as_image(struct layout *l, rlx_value x)
{
	const struct rlx_type *t = rlx_type_of(l->rw->g, x);

	return !t ? RLX_NONE :
	       shaped(l, x, RLX_INTS(t->dim[0], 1, t->dim[1], t->dim[2], t->dim[3]));
}

/* [n, h, w, c] with @begin zeros in front and then as large as @to, as [n h w, c]. */
static rlx_value on_grid(struct layout *l, rlx_value x, const int64_t begin[2],
			 const int64_t to[2])
{
	struct rlx_graph *g = l->rw->g;
	const struct rlx_type *t = rlx_type_of(g, x);
	int64_t pads[8] = { 0 }, rows, c;
	int i;

	if (!t)
		return RLX_NONE;
	rows = t->dim[0] * to[0] * to[1];
	c = t->dim[3];
	for (i = 0; i < 2; i++) {
		pads[1 + i] = begin[i];
		pads[5 + i] = to[i] - begin[i] - t->dim[1 + i];
	}
	if (pads[1] || pads[2] || pads[5] || pads[6])
		x = rlx_emit(g, pad, .x = x, .pads = { pads, 8 });
	return shaped(l, x, RLX_INTS(rows, c));
}

static rlx_value rows_of(struct layout *l, rlx_value x, int64_t from, int64_t n)
{
	return rlx_emit(l->rw->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(from),
			.ends = RLX_INTS(from + n));
}

/*
 * dy[rows, co] and x[rows, ci] on a grid @width wide of @rows: [co, kh, kw, ci]. What lies behind
 * the last tap of the last row is not read: dy is 0 there.
 */
static rlx_value products(struct layout *l, rlx_value dy, rlx_value x, const int64_t k[2],
			  int64_t width, enum rlx_dtype out)
{
	struct rlx_graph *g = l->rw->g;
	const struct rlx_type *ty = rlx_type_of(g, dy), *tx = rlx_type_of(g, x);
	int64_t rows, co, ci, used, i;
	rlx_value part[MOST_ROWS];

	if (!ty || !tx)
		return RLX_NONE;
	rows = ty->dim[0];
	co = ty->dim[1];
	ci = tx->dim[1];
	used = rows - (k[0] - 1) * width - (k[1] - 1);
	if (k[1] > 1) {
		x = shaped(l, x, RLX_INTS(rows * ci));
		x = rlx_emit(g, frame, .x = x, .axis = 0, .length = k[1] * ci, .hop = ci);
	}
	if (used < rows)
		dy = rows_of(l, dy, 0, used);
	for (i = 0; i < k[0]; i++)
		part[i] = rlx_emit(g, fused_matmul, .a = dy, .trans_a = true, .out_dtype = out,
				   .b = used < rows ? rows_of(l, x, i * width, used) : x);
	if (k[0] > 1)
		part[0] = rlx_emit(g, concat, .axis = 1, .xs = { part, (uint32_t)k[0] });
	return shaped(l, part[0], RLX_INTS(co, k[0], k[1], ci));
}

bool layout_weight_grad(struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_fused_conv *a = n->args;
	const struct rlx_type *y = layout_type(l, n->out), *x = layout_type(l, n->in[0]);
	int64_t k[2], step[2], begin[2], grid[2], zero[2] = { 0 };
	rlx_value big, dy;
	uint32_t from[2];
	int i;

	if (!is_weight_grad(l, n, from))
		return false;
	for (i = 0; i < 2; i++) {
		k[i] = y->dim[2 + i];
		step[i] = a->dilation.n ? a->dilation.v[i] : 1;
		begin[i] = a->pad.n ? a->pad.v[i] : 0;
		grid[i] = x->dim[2 + i] + begin[i] + (a->pad.n ? a->pad.v[2 + i] : 0);
	}
	big = layout_as(l, layout_blocked(l, from[0]), x->dtype);
	dy = layout_as(l, layout_blocked(l, from[1]), x->dtype);
	big = on_grid(l, spread(l, big, (int64_t[]){ 1, 1 }), begin, grid);
	dy = spread(l, dy, step);
	dy = on_grid(l, dy, zero, grid);
	dy = products(l, dy, big, k, grid[1], y->dtype);
	/* as [co, ci, kh, kw]: of one tap nothing moves */
	l->swapped[n->out] = (k[0] * k[1] == 1 ?
			      shaped(l, dy, RLX_INTS(y->dim[1], y->dim[0], 1, 1)) :
			      rlx_emit(l->rw->g, transpose, .x = dy,
				       .perm = RLX_INTS(0, 3, 1, 2))).id;
	l->rw->map[n->out] = 0;
	l->rw->changed = true;
	return true;
}

static int64_t at(struct rlx_ints list, uint32_t i, int64_t none)
{
	return list.n ? list.v[i] : none;
}

/*
 * Does conv_wgrad, a CPU's kernel of gradients in weights, which lays rows of dy at the pitch of
 * what their taps read, fill its steps of 32 pixels? Strides sort x by phases, whose rows are
 * short.
 */
bool layout_fills_wgrad(const struct rlx_op_fused_conv *a, const struct rlx_type *dy,
			const struct rlx_type *y)
{
	const int64_t step = at(a->dilation, 1, 1);
	int64_t row = dy->dim[3] + (y->dim[3] - 1) * at(a->stride, 1, 1) / step;

	row = (dy->dim[2] * row + 31) / 32 * 32;
	return 2 * dy->dim[2] * dy->dim[3] >= row && (step == 1 || dy->dim[3] >= 16);
}

/*
 * The operands of a CPU's conv_weight_grad for what sums images, where x or dy is blocked. Of bf16
 * either may be plain, and both become that; of f32 both are blocked, and what is not that has to
 * be worth it: the kernel broadcasts all channels of a block of x. False: it does not take them.
 */
static bool grad_operands(struct layout *l, const struct rlx_node *n, rlx_value in[2])
{
	const struct rlx_type *t[2] = { layout_type(l, n->in[0]), layout_type(l, n->in[1]) };
	const struct rlx_type *y = layout_type(l, n->out);
	const bool f32 = t[0]->dtype == RLX_F32;
	uint32_t from[2], i;

	if (t[0]->dtype != t[1]->dtype || (f32 ? y->dtype != RLX_F32 || l->strict :
						 t[0]->dtype != RLX_BF16) ||
	    !sums_images(l, n, from) || !(l->blocked[from[0]] || l->blocked[from[1]]))
		return false;
	if (!f32 && !layout_fills_wgrad(n->args, t[1], y))
		return false;
	for (i = 0; i < 2; i++)
		if (f32 && (layout_type(l, from[i])->dtype != RLX_F32 ||
			    2 * t[i]->dim[0] < l->block))
			return false;
	for (i = 0; i < 2; i++)
		in[i] = layout_as(l, f32 || l->blocked[from[i]] ? layout_blocked(l, from[i]) :
				  layout_plain(l, from[i]), t[0]->dtype);
	return true;
}

/*
 * On a CPU, where x or dy is blocked: as conv_weight_grad of what the exchanges read. The padding
 * behind is what windows reach, or else conv would have more of them.
 */
bool layout_weight_grad_blocked(struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_fused_conv *a = n->args;
	const struct rlx_type *y = layout_type(l, n->out), *x, *dy;
	rlx_value in[2];
	uint32_t i;

	if (y->rank != 4)
		return false;
	x = layout_type(l, n->in[0]);
	dy = layout_type(l, n->in[1]);
	for (i = 0; i < 2; i++)
		if (x->dim[2 + i] + at(a->pad, i, 0) + at(a->pad, 2 + i, 0) !=
		    (dy->dim[2 + i] - 1) * at(a->dilation, i, 1) +
		    (y->dim[2 + i] - 1) * at(a->stride, i, 1) + 1)
			return false;
	if (!grad_operands(l, n, in))
		return false;
	l->swapped[n->out] = rlx_emit(l->rw->g, conv_weight_grad, .x = in[0], .dy = in[1],
				      .shape = RLX_INTS(y->dim[1], y->dim[0], y->dim[2], y->dim[3]),
				      .stride = a->dilation, .pad = a->pad, .dilation = a->stride,
				      .out_dtype = y->dtype).id;
	l->rw->map[n->out] = 0;
	l->rw->changed = true;
	return true;
}

/* What is exchanged may be there. */
bool layout_swap(struct layout *l, const struct rlx_node *n)
{
	if (!is_swap(l, n) || !l->swapped[n->in[0]])
		return false;
	rlx_rewrite_set(l->rw, n->out, (rlx_value){ l->swapped[n->in[0]] });
	return true;
}

/* w[ci, co, kh, kw], its taps in the other order, as [co, 1, kh, kw, ci]. */
static rlx_value turned_weights(struct layout *l, const struct rlx_node *n)
{
	struct rlx_graph *g = l->rw->g;
	const struct rlx_type *w = layout_type(l, n->in[1]);
	rlx_value x = layout_plain(l, n->in[1]);

	x = rlx_emit(g, transpose, .x = layout_turn_taps(l, x), .perm = RLX_INTS(1, 2, 3, 0));
	return shaped(l, x, RLX_INTS(w->dim[1], 1, w->dim[2], w->dim[3], w->dim[0]));
}

/* A plain one as a convolution: its padding; false: it is not one. */
static bool as_conv(const struct layout *l, const struct rlx_node *n, int64_t step[2],
		    int64_t pad[4])
{
	const struct rlx_op_conv_transpose *a = n->args;
	const struct rlx_type *x = layout_type(l, n->in[0]), *w = layout_type(l, n->in[1]);
	const struct rlx_type *y = layout_type(l, n->out);
	bool fits = a->groups == 1 && !n->in[2] && x->rank == 4 && is_half(x->dtype) &&
		    w->dtype == x->dtype && y->dtype == x->dtype && x->dim[1] % 8 == 0 &&
		    y->dim[1] % 8 == 0 && rlx_type_count(x) > 0 && rlx_type_count(y) > 0;

	return fits && layout_transpose_pad(l, n, step, pad);
}

bool layout_grad_reads(const struct layout *l, const struct rlx_node *n, uint32_t out[2])
{
	int64_t step[2], pad[4];

	if (n->def->index == RLX_OP_conv_transpose) {
		out[0] = n->in[0];
		out[1] = 0;
		return as_conv(l, n, step, pad);
	}
	return is_weight_grad(l, n, out);
}

/* Pixels lie apart before it, or behind it where a window is one pixel. */
bool layout_conv_transpose(struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_conv_transpose *a = n->args;
	const struct rlx_type *w = layout_type(l, n->in[1]);
	struct rlx_op_fused_conv c = { .dilation = a->dilation, .groups = 1, .block = l->block };
	int64_t step[2], pad[4];
	bool behind;

	if (!layout_last(l) || (!l->blocked[n->in[0]] && !l->wanted[n->out]) ||
	    !as_conv(l, n, step, pad))
		return false;
	behind = w->dim[2] * w->dim[3] == 1 && !(pad[0] | pad[1] | pad[2] | pad[3]);
	c.x = layout_blocked(l, n->in[0]);
	if (!behind)
		c.x = as_image(l, spread(l, c.x, step));
	c.pad = (struct rlx_ints){ pad, 4 };
	c.w = turned_weights(l, n);
	c.x = rlx_emit_raw(l->rw->g, &rlx_op_fused_conv, &c, sizeof(c), n->file, n->line);
	if (behind)
		c.x = as_image(l, spread(l, c.x, step));
	layout_give(l, n->out, c.x);
	return true;
}
