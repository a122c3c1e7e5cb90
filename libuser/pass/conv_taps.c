// SPDX-License-Identifier: MIT
/*
 * A dilation wider than the image has taps that no output brings to it: kernels would pad the
 * image to their reach, gigabytes for a few pixels. What is left is a smaller convolution.
 */
#include "ops/window.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_conv_taps;

/* Does any output bring tap @k of dimension @j to the image? */
static bool touches(const struct op_window *w, uint32_t j, int64_t k)
{
	const int64_t at = k * w->dil[j] - w->pad[j], s = w->stride[j];
	const int64_t o = at < 0 ? (-at + s - 1) / s : 0;

	return o < w->out[j] && at + o * s < w->in[j];
}

/* What is cut of the kernel and the image, by spatial dimension; pads as conv's attribute. */
struct cut {
	int64_t	axes[3], k[3], k_end[3], x[3], x_end[3], pad[6];
};

/* Dimension @i, @j of the window; false: all taps stay, or none would. */
static bool cut_dim(struct cut *c, const struct op_window *w, uint32_t i, uint32_t j)
{
	int64_t first = 0, end = w->k[j], pad, pad_end;

	while (w->dil[j] > w->in[j] && first < end && !touches(w, j, first))
		first++;
	while (w->dil[j] > w->in[j] && first < end && !touches(w, j, end - 1))
		end--;
	if (first == end) {
		first = 0;
		end = w->k[j];
	}
	pad = w->pad[j] - first * w->dil[j];
	pad_end = w->pad_end[j] - (w->k[j] - end) * w->dil[j];
	c->axes[i] = 2 + (int64_t)i;
	c->k[i] = first;
	c->k_end[i] = end;
	c->x[i] = pad < 0 ? -pad : 0;
	c->x_end[i] = w->in[j] + (pad_end < 0 ? pad_end : 0);
	c->pad[i] = pad < 0 ? 0 : pad;
	c->pad[w->nd + i] = pad_end < 0 ? 0 : pad_end;
	return end - first < w->k[j];
}

static rlx_value cut_conv(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	const struct rlx_op_conv *a = n->args;
	const struct op_window_args wa = { a->stride, a->pad, a->dilation, false };
	const struct rlx_type *x = &rw->old->val[n->in[0]].type, *k = &rw->old->val[n->in[1]].type;
	const uint32_t nd = x->rank - 2;
	struct op_window w;
	bool any = false;
	struct cut c;

	op_window_set(&w, &wa, x, k->dim + 2, nd);
	if (!op_window_out(&w, false))
		return RLX_NONE;
	for (uint32_t i = 0; i < nd; i++)
		any |= cut_dim(&c, &w, i, 3 - nd + i);
	if (!any)
		return RLX_NONE;
	return rlx_emit(rw->g, conv,
			.x = rlx_emit(rw->g, slice, .x = rlx_rewrite_value(rw, n->in[0]),
				      .axes = { c.axes, nd }, .starts = { c.x, nd },
				      .ends = { c.x_end, nd }),
			.w = rlx_emit(rw->g, slice, .x = rlx_rewrite_value(rw, n->in[1]),
				      .axes = { c.axes, nd }, .starts = { c.k, nd },
				      .ends = { c.k_end, nd }),
			.bias = rlx_rewrite_value(rw, n->in[2]), .stride = a->stride,
			.pad = { c.pad, 2 * nd }, .dilation = a->dilation, .groups = a->groups);
}

enum rlx_status rlx_pass_conv_taps(struct rlx_pass_ctx *c, struct rlx_graph *g,
				   struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);

	if (st)
		return st;
	for (uint32_t n = 0; n < g->n_node && !rw.g->err.status; n++) {
		rlx_value v = RLX_NONE;

		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (g->node[n].def->index == RLX_OP_conv)
			v = cut_conv(&rw, &g->node[n]);
		if (v.id)
			rlx_rewrite_set(&rw, g->node[n].out, v);
		else
			rlx_rewrite_copy(&rw, n);
	}
	return rlx_rewrite_end(&rw, out);
}
