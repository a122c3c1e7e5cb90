// SPDX-License-Identifier: MIT
/*
 * Convolutions that stand alone on a CPU: what they read is plain, and nobody wants their result
 * blocked. Blocking one reorders its input and its result, and fills up channels to whole blocks,
 * which with few taps or few channels costs more than the blocked kernel gains.
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

/* Of one channel of an image: elements that are read, written, and what the plain kernel does. */
struct image {
	double	in, out, taps;
	double	pixels;		/* that the plain kernel computes: rows at the pitch of the input */
	double	out_rows;	/* that it writes */
	double	read, rows;	/* elements and rows of the copy that it reads */
	bool	copied;		/* is there one? else it reads the input */
	bool	winograd;
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
static void add_dim(struct image *m, const struct layout *l, const struct rlx_node *n, uint32_t i)
{
	const struct rlx_op_fused_conv *a = n->args;
	int64_t stride = entry(a->stride, i), dilation = entry(a->dilation, i);
	int64_t k = layout_type(l, n->in[1])->dim[2 + i], out = layout_type(l, n->out)->dim[2 + i];
	int64_t phases = stride / (int64_t)rlx_gcd((uint64_t)dilation, (uint64_t)stride);
	bool last = i + 3 == layout_type(l, n->out)->rank;
	double pitch = (double)out + (double)(k - 1) * (double)dilation / (double)stride;

	m->pixels = m->pixels ? (m->pixels - 1) * pitch + (double)out : (double)out;
	phases = phases < k ? phases : k;
	m->read *= pitch * (double)phases;
	m->rows *= (last ? 1 : (double)out) * (double)phases;
	m->out_rows *= last ? 1 : (double)out;
	m->copied = m->copied || stride != 1;
	m->winograd = m->winograd && stride == 1 && dilation == 1 && k == 3;
}

static struct image image_of(const struct layout *l, const struct rlx_node *n)
{
	const struct rlx_op_fused_conv *a = n->args;
	const struct rlx_type *x = layout_type(l, n->in[0]), *w = layout_type(l, n->in[1]);
	const struct rlx_type *y = layout_type(l, n->out);
	struct image m = {
		.in = (double)shape_span(x, 2, x->rank), .out = (double)shape_span(y, 2, y->rank),
		.taps = (double)shape_span(w, 2, w->rank), .read = 1, .rows = 1, .out_rows = 1,
		.winograd = x->rank == 4,
	};
	uint32_t i;

	for (i = 0; i + 2 < x->rank; i++)
		add_dim(&m, l, n, i);
	for (i = 0; i < a->pad.n; i++)
		m.copied = m.copied || a->pad.v[i];
	if (m.taps == 1)
		m.out_rows = 1;	/* nothing lies between them */
	m.pixels = up(m.pixels, 2 * l->decide);
	return m;
}

/* Is @n, with one group and a plain input of floats, faster plain than in blocks? */
bool layout_faster_plain(const struct layout *l, const struct rlx_node *n)
{
	const double ic = (double)layout_type(l, n->in[0])->dim[1];
	const double oc = (double)layout_type(l, n->in[1])->dim[0];
	const struct image m = image_of(l, n);
	const double terms = ic * m.taps, vector = l->decide;
	const bool first = ic < vector;	/* its channels are read as they are */
	double blocked = up(oc, vector) * terms * m.out * (m.winograd && !first ? WINOGRAD : 1);
	double plain = oc * terms * m.pixels;

	blocked += vector * m.in * (first ? FIRST_IN * ic : BLOCKED_IN * up(ic, vector));
	blocked += vector * BLOCKED_OUT * m.out * up(oc, vector);
	plain += vector * oc * (PLAIN_OUT * m.out + PLAIN_OUT_ROW * m.out_rows);
	plain += vector * ic * (m.copied ? (PLAIN_IN + COPY) * m.read + COPY_ROW * m.rows :
				PLAIN_IN * m.in);
	return plain < EDGE * blocked;
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
		bool conv = op == RLX_OP_fused_conv;
		bool here = conv || op == RLX_OP_pool || op == RLX_OP_reduce ||
			    op == RLX_OP_concat || op == RLX_OP_slice;

		if (!rlx_rewrite_live(l->rw, n))
			continue;
		here = here || (at->def->traits & RLX_T_ELEMENTWISE && l->wanted[at->out]);
		for (k = 0; here && k < at->n_in; k++)
			l->wanted[at->in[k]] = true;
		if (conv)
			l->readers[at->in[0]]++;
	}
}
