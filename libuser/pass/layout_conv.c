// SPDX-License-Identifier: MIT
/*
 * Convolutions in a CPU's blocks, and which stay plain. Where what one reads is plain, and nobody
 * wants its result blocked, blocking it reorders its input and its result, and fills up channels
 * to whole blocks, which with few taps or few channels costs more than the blocked kernel gains.
 * The transpose of one without strides is one too, of weights turned round: so are the gradients
 * in x.
 */
#include <math.h>

#include "base/gcd.h"
#include "base/shape.h"
#include "pass/layout.h"

/*
 * Costs in multiply-adds of a vector: of each element that is read (FIRST_IN: as it is) and
 * written blocked, and plain, of each of the copy, padded and sorted by phases of the stride, that
 * the plain kernel may read, and of each row there; Winograd's algorithm does with a part of the
 * multiply-adds. Fitted to 700 drawn shapes at level v4: 264 of them take below EDGE of the other
 * by this, in truth 0.65 of it in the mean and 1.21 at worst.
 */
static const double BLOCKED_IN = 1.25, FIRST_IN = 1.7, BLOCKED_OUT = 1.55, PLAIN_IN = 0.2,
		    PLAIN_OUT = 1.5, PLAIN_OUT_ROW = 20, COPY = 1.1, COPY_ROW = 46,
		    WINOGRAD = 0.53, EDGE = 0.9;

/*
 * Where weights are packed in each run: pixels of all results from which that pays, and the edge,
 * as it must not be slower.
 */
static const double PACK_PIXELS = 8, PACK_EDGE = 1.2;

/*
 * Depthwise convolutions gain by each tap, and lose by reorders of images where no cache holds
 * them: bytes for each tap, and one more, from which they are faster plain; bytes in all where
 * blocks are at most half full, of which half the work is for nothing. It is fewer where a stride
 * leaves a part of them unread, which the plain kernel does not touch. Those whose weights stay
 * are as fast in blocks at any size, or up to 1.8 times.
 */
static const double LARGE_IMAGE = 1 << 20, HALF_FULL = 1 << 19;

/* Of one channel of an image: elements that are read, written, and what the plain kernel does. */
struct image {
	double	in, out, taps;
	double	pixels;		/* that the plain kernel computes: rows at the pitch of the input */
	double	out_rows;	/* that it writes */
	double	read, rows;	/* elements and rows of the copy that it reads */
	bool	copied;		/* is there one? else it reads the input */
	bool	winograd;
};

/* A convolution as it would be, w[co, ci / groups, ..]: the types of its plain operands. */
struct conv {
	struct rlx_op_fused_conv a;
	struct rlx_type	x, w, y;
	bool		stays;		/* its weights do */
	bool		bf16;		/* its operands are */
	bool		turned;		/* its weights are those of a transpose, turned round */
	int64_t		pad[4];		/* of that */
};

static int64_t entry(struct rlx_ints list, uint32_t i)
{
	return list.n ? list.v[i] : 1;
}

static double up(double n, double unit)
{
	return ceil(n / unit) * unit;
}

/* @m so far, and what dimension @i of the pixels adds to it. */
static void add_dim(struct image *m, const struct conv *c, uint32_t i)
{
	int64_t stride = entry(c->a.stride, i), dilation = entry(c->a.dilation, i);
	int64_t k = c->w.dim[2 + i], out = c->y.dim[2 + i];
	int64_t phases = stride / (int64_t)rlx_gcd((uint64_t)dilation, (uint64_t)stride);
	bool last = i + 3 == c->y.rank;
	double pitch = (double)out + (double)(k - 1) * (double)dilation / (double)stride;

	m->pixels = m->pixels ? (m->pixels - 1) * pitch + (double)out : (double)out;
	phases = phases < k ? phases : k;
	m->read *= pitch * (double)phases;
	m->rows *= (last ? 1 : (double)out) * (double)phases;
	m->out_rows *= last ? 1 : (double)out;
	m->copied = m->copied || stride != 1;
	m->winograd = m->winograd && stride == 1 && dilation == 1 && k == 3;
}

static struct image image_of(const struct layout *l, const struct conv *c)
{
	const struct rlx_type *x = &c->x, *w = &c->w, *y = &c->y;
	struct image m = {
		.in = (double)shape_span(x, 2, x->rank), .out = (double)shape_span(y, 2, y->rank),
		.taps = (double)shape_span(w, 2, w->rank), .read = 1, .rows = 1, .out_rows = 1,
		.winograd = x->rank == 4,
	};
	uint32_t i;

	for (i = 0; i + 2 < x->rank; i++)
		add_dim(&m, c, i);
	for (i = 0; i < c->a.pad.n; i++)
		m.copied = m.copied || c->a.pad.v[i];
	if (m.taps == 1)
		m.out_rows = 1;	/* nothing lies between them */
	m.pixels = up(m.pixels, 2 * l->decide);
	return m;
}

/* A depthwise convolution that is faster plain. */
static bool is_large_image(const struct layout *l, const struct conv *c, const struct image *m)
{
	const double channels = (double)c->x.dim[1], bytes = (double)rlx_type_bytes(&c->x);
	bool half = 2 * channels <= up(channels, l->decide);

	return c->w.dim[1] == 1 && !(c->stays && !c->turned) &&
	       bytes * m->in > (half ? HALF_FULL : LARGE_IMAGE * (m->taps + 1)) * m->out;
}

/* Is it, with a plain input of floats, faster plain than in blocks? */
static bool is_faster_plain(const struct layout *l, const struct conv *c)
{
	const double ic = (double)c->x.dim[1], oc = (double)c->w.dim[0];
	const struct image m = image_of(l, c);
	const double terms = ic * m.taps, vector = l->decide;
	const bool first = ic < vector;	/* its channels are read as they are */
	double blocked = up(oc, vector) * terms * m.out * (m.winograd && !first ? WINOGRAD : 1);
	double plain = oc * terms * m.pixels;

	if (c->a.groups > 1)
		return is_large_image(l, c, &m);
	blocked += vector * m.in * (first ? FIRST_IN * ic : BLOCKED_IN * up(ic, vector));
	blocked += vector * BLOCKED_OUT * m.out * up(oc, vector);
	plain += vector * oc * (PLAIN_OUT * m.out + PLAIN_OUT_ROW * m.out_rows);
	plain += vector * ic * (m.copied ? (PLAIN_IN + COPY) * m.read + COPY_ROW * m.rows :
				PLAIN_IN * m.in);
	return plain < (c->stays ? EDGE : PACK_EDGE) * blocked;
}

/* Groups that the blocked kernels take: one, one a channel, or whole blocks. */
static bool good_groups(const struct layout *l, const struct conv *c)
{
	int64_t in = c->w.dim[1], out = c->w.dim[0] / c->a.groups;

	return c->a.groups == 1 || (in == 1 && out == 1) ||
	       (in % l->decide == 0 && out % l->decide == 0);
}

/*
 * A depthwise convolution whose blocks are less than half full is faster plain; one with a
 * stride, that reads more than it writes, below a quarter.
 */
static bool few_lanes(const struct layout *l, const struct conv *c)
{
	const struct rlx_op_fused_conv *a = &c->a;
	int64_t stride = a->stride.n ? a->stride.v[a->stride.n - 1] : 1;

	return a->groups > 1 && c->w.dim[1] == 1 && c->w.dim[0] == a->groups &&
	       2 * stride * a->groups < l->decide;
}

bool layout_transpose_pad(const struct layout *l, const struct rlx_node *n, int64_t step[2],
			  int64_t pad[4])
{
	const struct rlx_op_conv_transpose *a = n->args;
	const struct rlx_type *x = layout_type(l, n->in[0]), *w = layout_type(l, n->in[1]);
	const struct rlx_type *y = layout_type(l, n->out);
	uint32_t nd = x->rank - 2, i;

	for (i = 0; i < nd; i++) {
		int64_t reach = (w->dim[2 + i] - 1) * entry(a->dilation, i);

		step[i] = entry(a->stride, i);
		pad[i] = reach - (a->pad.n ? a->pad.v[i] : 0);
		pad[nd + i] = y->dim[2 + i] + reach - pad[i] - x->dim[2 + i] * step[i];
		if (pad[i] < 0 || pad[nd + i] < 0)
			return false;
	}
	return true;
}

/* A transpose without strides: of one group, or of one a channel, which have no others to swap. */
static bool of_transpose(const struct layout *l, const struct rlx_node *n, struct conv *c)
{
	const struct rlx_op_conv_transpose *a = n->args;
	int64_t step[2] = { 1, 1 }, inputs = c->w.dim[0];

	if (!layout_transpose_pad(l, n, step, c->pad) || step[0] != 1 || step[1] != 1)
		return false;
	c->a = (struct rlx_op_fused_conv){ .dilation = a->dilation, .groups = a->groups };
	c->a.pad = (struct rlx_ints){ c->pad, 2 * (c->x.rank - 2) };
	c->turned = true;
	if (a->groups > 1)
		return c->w.dim[1] == 1 && a->groups == inputs;
	c->w.dim[0] = c->w.dim[1];
	c->w.dim[1] = inputs;
	return true;
}

/* What is added to sums: as the operands, or f32. */
static bool is_addend(const struct layout *l, uint32_t v, bool bf16)
{
	enum rlx_dtype dt = v ? layout_type(l, v)->dtype : RLX_F32;

	return dt == RLX_F32 || (bf16 && dt == RLX_BF16);
}

/* Do the blocked kernels take @n? @c is filled in. */
static bool can_block(const struct layout *l, const struct rlx_node *n, struct conv *c)
{
	bool conv = n->def->index == RLX_OP_fused_conv;

	if (!conv && n->def->index != RLX_OP_conv_transpose)
		return false;
	*c = (struct conv){ .x = *layout_type(l, n->in[0]), .w = *layout_type(l, n->in[1]),
			    .y = *layout_type(l, n->out), .stays = layout_stays(l, n->in[1]) };
	c->bf16 = c->x.dtype == RLX_BF16;	/* what has no kernel is widened by now */
	if (!layout_is_image(&c->x) || !layout_is_image(&c->w) || c->x.dtype != c->w.dtype ||
	    (c->x.dtype != RLX_F32 && !c->bf16) || !is_addend(l, n->in[2], c->bf16) ||
	    !is_addend(l, n->out, c->bf16) || (conv && !is_addend(l, n->in[3], c->bf16)))
		return false;
	if (conv)
		c->a = *(const struct rlx_op_fused_conv *)n->args;
	else if (l->strict || !of_transpose(l, n, c))
		return false;
	return !c->a.block && good_groups(l, c);
}

/* As a gradient in weights, whose own weights are images: more taps than pixels of the result. */
static bool gives_weights(const struct conv *c)
{
	return !c->stays && shape_span(&c->y, 2, c->y.rank) < shape_span(&c->w, 2, c->w.rank);
}

/*
 * Weights that another run has others of are packed in each: that pays by pixels of the result,
 * and not for gradients in weights. With strict bits they are summed as ever, and so are
 * transposes.
 */
static bool packs_in_vain(const struct layout *l, const struct conv *c)
{
	double pixels = (double)shape_span(&c->y, 2, c->y.rank);

	return !c->stays &&
	       (l->strict || gives_weights(c) || pixels * (double)c->y.dim[0] < PACK_PIXELS);
}

rlx_value layout_turn_taps(struct layout *l, rlx_value w)
{
	const struct rlx_type *t = rlx_type_of(l->rw->g, w);

	if (!t || t->dim[2] * t->dim[3] == 1)
		return w;
	return rlx_emit(l->rw->g, slice, .x = w, .axes = RLX_INTS(2, 3),
			.starts = RLX_INTS(-1, -1), .ends = RLX_INTS(INT64_MIN, INT64_MIN),
			.steps = RLX_INTS(-1, -1));
}

/* The weights as they are to be read, [co, ci / groups, kh, kw]. */
static rlx_value weights_of(struct layout *l, const struct rlx_node *n, const struct conv *c)
{
	rlx_value w = layout_image(l, n->in[1]);

	if (c->turned)
		w = layout_turn_taps(l, w);
	return c->turned && c->a.groups == 1 ?
	       rlx_emit(l->rw->g, transpose, .x = w, .perm = RLX_INTS(1, 0, 2, 3)) : w;
}

/* Does no neighbour of a convolution have the blocked form, or want it? */
static bool stands_alone(const struct layout *l, const struct rlx_node *n)
{
	return !l->blocked[n->in[0]] && l->readers[n->in[0]] == 1 &&
	       (n->n_in < 4 || !l->blocked[n->in[3]]) && !l->wanted[n->out];
}

/*
 * Is it better left plain? Of bf16 the kernel copies its input in any case, and takes both forms
 * alike: the one that is there, and whose result is wanted.
 */
static bool stays_plain(const struct layout *l, const struct rlx_node *n, const struct conv *c)
{
	if (c->bf16)	/* conv_wgrad reads plain operands of what is written as a convolution */
		return stands_alone(l, n) ||
		       (gives_weights(c) && c->y.rank == 4 &&
			layout_fills_wgrad(n->args, &c->w, &c->y));
	return packs_in_vain(l, c) || (few_lanes(l, c) && !l->blocked[n->in[0]]) ||
	       ((!c->stays || stands_alone(l, n)) && is_faster_plain(l, c));
}

bool layout_conv(struct layout *l, const struct rlx_node *n)
{
	const uint32_t residual = n->n_in > 3 ? n->in[3] : 0;
	struct conv c;
	bool first;

	if (!can_block(l, n, &c) || stays_plain(l, n, &c))
		return false;
	/* few channels in: read the plain image as it is */
	first = !l->blocked[n->in[0]] && c.a.groups == 1 && (c.bf16 || c.x.dim[1] < l->decide);
	if (c.x.rank == 3)
		layout_two_dims(l, &c.a);
	c.a.block = l->block;
	c.a.x = first ? layout_image(l, n->in[0]) : layout_blocked(l, n->in[0]);
	c.a.w = weights_of(l, n, &c);
	c.a.bias = layout_plain(l, n->in[2]);
	c.a.residual = residual ? layout_blocked(l, residual) : RLX_NONE;
	layout_give(l, n->out, rlx_emit_raw(l->rw->g, &rlx_op_fused_conv, &c.a, sizeof(c.a),
					     n->file, n->line));
	return true;
}

/* Will a convolution read its input blocked, if that is there? */
static bool reads_blocked(const struct layout *l, const struct rlx_node *n)
{
	struct conv c;
	bool can = can_block(l, n, &c) && !packs_in_vain(l, &c);

	return can || (n->def->index == RLX_OP_fused_conv && layout_stays(l, n->in[1]));
}

/*
 * Values that are better blocked where a convolution gives them: another reads them, past
 * pointwise ops, or what is faster on blocks, or leaves less of them to be reordered.
 */
void layout_mark_wanted(struct layout *l)
{
	const struct rlx_graph *g = l->rw->old;
	uint32_t n, k;

	for (n = g->n_node; n-- > 0;) {
		const struct rlx_node *at = &g->node[n];
		unsigned int op = at->def->index;
		bool conv, here;

		if (!rlx_rewrite_live(l->rw, n))
			continue;
		conv = reads_blocked(l, at);
		here = conv || op == RLX_OP_pool || op == RLX_OP_reduce ||
		       op == RLX_OP_concat || op == RLX_OP_slice ||
		       (at->def->traits & RLX_T_ELEMENTWISE && l->wanted[at->out]);
		for (k = 0; here && k < at->n_in; k++)
			l->wanted[at->in[k]] = true;
		if (conv)
			l->readers[at->in[0]]++;
	}
}
