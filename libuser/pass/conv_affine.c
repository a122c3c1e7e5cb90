// SPDX-License-Identifier: MIT
/*
 * Fold what scales and shifts each channel behind a convolution with constant
 * weights (batch norm, or products and sums with per-channel constants) into its
 * weights and bias.
 */
#include "base/alloc.h"
#include "ir/element.h"
#include "pass/affine.h"

rlx_pass_fn rlx_pass_conv_affine;

/* @bias, or nothing, as @a leaves it. */
static uint32_t shifted(struct rlx_graph *g, const struct rlx_tensor *bias,
			const struct affine *a)
{
	float *y = rlx_aligned(64, (size_t)a->n * sizeof(float) + 1);
	int64_t i;

	for (i = 0; y && i < a->n; i++)
		y[i] = (float)((bias->data ? el_get(bias, i) : 0) * a->scale[i] + a->shift[i]);
	return affine_bias(g, y, a->n);
}

static bool all_ones(const struct affine *a)
{
	int64_t c;

	for (c = 0; c < a->n; c++)
		if (a->scale[c] != 1)
			return false;
	return true;
}

/* The convolution @conv of the new graph with @a folded in; none: cannot. */
static rlx_value fold(struct rlx_rewrite *rw, const struct rlx_node *conv,
		      const struct affine *a)
{
	struct rlx_graph *g = rw->g;
	struct rlx_op_conv args = *(const struct rlx_op_conv *)conv->args;
	struct rlx_tensor w, b = { 0 };
	uint32_t x = conv->in[0], in[3] = { x, conv->in[1], 0 };
	struct rlx_node at = { .file = conv->file, .line = conv->line };

	if (!affine_constant(g, conv->in[1], &w) || w.type.dtype != RLX_F32 ||
	    (conv->in[2] && !affine_constant(g, conv->in[2], &b)))
		return RLX_NONE;
	if (!all_ones(a)) {
		struct weights l = weights_of(&w.type, args.groups);

		in[1] = weights_scaled(g, in[1], &l, a, false);
	}
	in[2] = shifted(g, &b, a);
	return g->err.status ? RLX_NONE :
	       rlx_node_new(g, rlx_op_conv.def, &args, in, 3, &at);
}

static rlx_value try_fold(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	struct affine a = { 0 };
	rlx_value v = RLX_NONE;
	uint32_t k;

	for (k = 0; k < n->n_in && k < 2 && !v.id; k++) {
		const struct rlx_node *conv;

		if (!n->in[k] || rw->uses[n->in[k]] != 1)
			continue;
		conv = rlx_node_of(rw->g, rw->map[n->in[k]]);
		if (conv->def->index != RLX_OP_conv ||
		    !rlx_type_equal(&rw->old->val[n->in[k]].type, &rw->old->val[n->out].type))
			continue;
		a.n = rw->old->val[n->out].type.dim[1];
		a.scale = rlx_calloc((size_t)a.n * 2 + 1, sizeof(*a.scale));
		if (!a.scale)
			break;
		a.shift = a.scale + a.n;
		if (affine_of_node(rw->old, n, k, &a))
			v = fold(rw, conv, &a);
		rlx_free(a.scale);
	}
	return v;
}

enum rlx_status rlx_pass_conv_affine(struct rlx_pass_ctx *c, struct rlx_graph *g,
				     struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	enum rlx_status st = rlx_rewrite_begin(&rw, g, c->err);
	unsigned int folded = 0;
	uint32_t n;

	if (st)
		return st;
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		const struct rlx_node *node = &g->node[n];
		rlx_value v = RLX_NONE;

		if (!rlx_rewrite_live(&rw, n))
			continue;
		switch (node->def->index) {
		case RLX_OP_batch_norm:
		case RLX_OP_mul:
		case RLX_OP_add:
		case RLX_OP_sub:
		case RLX_OP_div:
			v = try_fold(&rw, node);
			break;
		}
		if (v.id) {
			rlx_rewrite_set(&rw, node->out, v);
			folded++;
		} else {
			rlx_rewrite_copy(&rw, n);
		}
	}
	st = rlx_rewrite_end(&rw, out);
	if (!st && folded && c->report)
		fprintf(c->report, "folded %u scales and shifts into convolutions\n", folded);
	return st;
}
