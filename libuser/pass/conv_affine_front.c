// SPDX-License-Identifier: MIT
/*
 * Fold what scales and shifts each channel in front of a convolution with constant weights,
 * as learnt ones behind an activation do, into its weights and bias. A shift cannot pass
 * padding, whose zeros it does not reach. In other precisions than the graph's own it stays:
 * rounding what is not shifted yet loses what the shift cancels. So it does for strict bits,
 * which are those of ops as they are written. It runs when activations are ops: the last
 * division of a hard swish is a scale as well.
 */
#include <math.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "pass/affine.h"

rlx_pass_fn rlx_pass_conv_affine_front;

/* @bias, or nothing, and what each weight @w makes of the shift that @a had in front of it. */
static uint32_t shifted(struct rlx_graph *g, const struct rlx_tensor *bias, const float *w,
			const struct weights *l, const struct affine *a)
{
	float *y = rlx_aligned(64, (size_t)l->n_out * sizeof(float) + 1);
	int64_t o, i, t;

	for (o = 0; y && o < l->n_out; o++) {
		double sum = bias->data ? el_get(bias, o) : 0;

		for (i = 0; i < l->per_group; i++)
			for (t = 0; t < l->taps; t++)
				sum += (double)*w++ * a->shift[weights_first_input(l, o) + i];
		y[o] = (float)sum;
	}
	return affine_bias(g, y, l->n_out);
}

static bool all_zero(const struct affine *a)
{
	int64_t c;

	for (c = 0; c < a->n; c++)
		if (a->shift[c] != 0)
			return false;
	return true;
}

static bool is_padded(const struct rlx_op_conv *args)
{
	uint32_t k;

	for (k = 0; k < args->pad.n; k++)
		if (args->pad.v[k] > 0)
			return true;
	return false;
}

/* Far from where weights of f32 times @x overflow or lose bits to underflow. */
static bool in_range(double x)
{
	return x == 0 || (fabs(x) > 1e-9 && fabs(x) < 1e9);
}

/*
 * What the nodes that make @v, each for one reader, do to the channels of what comes out of
 * *@from. @one: memory for the affine of one node.
 */
static bool affine_in_front(const struct rlx_rewrite *rw, uint32_t v, struct affine *a,
			    struct affine *one, uint32_t *from)
{
	const struct rlx_graph *g = rw->old;
	bool any = false;
	uint32_t k;
	int64_t c;

	for (c = 0; c < a->n; c++) {
		a->scale[c] = 1;
		a->shift[c] = 0;
	}
	for (;;) {
		const struct rlx_node *n = rlx_node_of(g, v);

		*from = v;
		if (rw->uses[v] != 1)
			return any;
		for (k = 0; k < n->n_in && k < 2; k++)
			if (n->in[k] && rlx_type_equal(&g->val[n->in[k]].type, &g->val[v].type) &&
			    affine_of_node(g, n, k, one))
				break;
		if (k >= n->n_in || k >= 2)
			return any;
		for (c = 0; c < a->n; c++) {
			a->shift[c] += a->scale[c] * one->shift[c];
			a->scale[c] *= one->scale[c];
			if (!in_range(a->scale[c]) || !in_range(a->shift[c]))
				return false;
		}
		any = true;
		v = n->in[k];
	}
}

/* Convolution @n with what stands in front of it folded in; none: nothing, or it cannot. */
static rlx_value try_fold(struct rlx_rewrite *rw, const struct rlx_node *n)
{
	struct rlx_op_conv args = *(const struct rlx_op_conv *)n->args;
	const struct rlx_type *x = &rw->old->val[n->in[0]].type;
	struct affine a = { .n = x->rank > 2 ? x->dim[1] : 0 }, one = a;
	struct rlx_graph *g = rw->g;
	struct rlx_node at = { .file = n->file, .line = n->line };
	struct rlx_tensor w, b = { 0 };
	uint32_t in[3], from;
	rlx_value v = RLX_NONE;
	struct weights l;

	if (!a.n || x->dtype != RLX_F32 || !affine_constant(rw->old, n->in[1], &w) ||
	    w.type.dtype != RLX_F32 || !rlx_type_count(&w.type) ||
	    (n->in[2] && !affine_constant(rw->old, n->in[2], &b)))
		return RLX_NONE;
	a.scale = rlx_calloc((size_t)a.n * 4, sizeof(*a.scale));
	if (!a.scale)
		return RLX_NONE;
	a.shift = a.scale + a.n;
	one.scale = a.shift + a.n;
	one.shift = one.scale + a.n;
	l = weights_of(&w.type, args.groups);
	if (affine_in_front(rw, n->in[0], &a, &one, &from) &&
	    (all_zero(&a) || !is_padded(&args))) {
		in[0] = rw->map[from];
		in[1] = weights_scaled(g, rw->map[n->in[1]], &l, &a, true);
		in[2] = shifted(g, &b, w.data, &l, &a);
		if (!g->err.status)
			v = rlx_node_new(g, rlx_op_conv.def, &args, in, 3, &at);
	}
	rlx_free(a.scale);
	return v;
}

enum rlx_status rlx_pass_conv_affine_front(struct rlx_pass_ctx *c, struct rlx_graph *g,
					   struct rlx_graph **out)
{
	struct rlx_rewrite rw;
	unsigned int folded = 0;
	enum rlx_status st;
	uint32_t n;

	if (c->precision != RLX_PRECISION_AS_WRITTEN || c->flags & RLX_COMPILE_STRICT_BITS)
		return RLX_OK;
	st = rlx_rewrite_begin(&rw, g, c->err);
	if (st)
		return st;
	for (n = 0; n < g->n_node && !rw.g->err.status; n++) {
		rlx_value v = RLX_NONE;

		if (!rlx_rewrite_live(&rw, n))
			continue;
		if (g->node[n].def->index == RLX_OP_conv)
			v = try_fold(&rw, &g->node[n]);
		if (v.id) {
			rlx_rewrite_set(&rw, g->node[n].out, v);
			folded++;
		} else {
			rlx_rewrite_copy(&rw, n);
		}
	}
	st = rlx_rewrite_end(&rw, out);
	if (!st && folded && c->report)
		fprintf(c->report, "folded what scales and shifts in front of %u convolutions\n",
			folded);
	return st;
}
