// SPDX-License-Identifier: MIT
/*
 * Fold what scales and shifts each channel behind a convolution with constant
 * weights (batch norm, or products and sums with per-channel constants) into its
 * weights and bias.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "pass/pass.h"

rlx_pass_fn rlx_pass_conv_affine;

/* One factor and one summand per output channel. */
struct affine {
	double	*scale, *shift;
	int64_t	 n;
};

/* The data behind @v, if it is a constant of floats, in other shapes maybe; or NULL. */
static struct rlx_blob *blob_at(const struct rlx_graph *g, uint32_t v)
{
	const struct rlx_node *n = v ? rlx_node_of(g, v) : NULL;
	const struct rlx_op_constant *c;

	while (n && n->def->index == RLX_OP_reshape)
		n = rlx_node_of(g, n->in[0]);
	if (!n || n->def->index != RLX_OP_constant)
		return NULL;
	c = n->args;
	return rlx_dtype_is_float(c->type.dtype) ? c->data : NULL;
}

static bool constant_at(const struct rlx_graph *g, uint32_t v, struct rlx_tensor *out)
{
	struct rlx_blob *b = blob_at(g, v);

	if (b)
		*out = (struct rlx_tensor){ g->val[v].type, (void *)(uintptr_t)rlx_blob_data(b) };
	return b;
}

/* Is @t one value, or one for each of @n channels at axis 1 of rank @rank? */
static bool per_channel(const struct rlx_type *t, int64_t n, uint32_t rank)
{
	int64_t count = rlx_type_count(t);
	uint32_t from_end = rank - 2;	/* spatial dimensions behind the channel */

	if (count == 1)
		return t->rank <= rank;
	return count == n && t->rank > from_end && t->rank <= rank &&
	       t->dim[t->rank - 1 - from_end] == n;
}

static double at(const struct rlx_tensor *t, int64_t c)
{
	return el_get(t, rlx_type_count(&t->type) == 1 ? 0 : c);
}

static bool norm_affine(const struct rlx_graph *g, const struct rlx_node *n,
			struct affine *a)
{
	const struct rlx_op_batch_norm *bn = n->args;
	struct rlx_tensor p[4];
	int64_t c;
	int k;

	for (k = 0; k < 4; k++)
		if (!constant_at(g, n->in[k + 1], &p[k]))
			return false;
	for (c = 0; c < a->n; c++) {
		a->scale[c] = el_get(&p[0], c) / sqrt(el_get(&p[3], c) + (double)bn->eps);
		a->shift[c] = el_get(&p[1], c) - el_get(&p[2], c) * a->scale[c];
	}
	return true;
}

/* What node @n does to its input @k, if that is affine per channel. */
static bool node_affine(const struct rlx_graph *g, const struct rlx_node *n, uint32_t k,
			struct affine *a)
{
	struct rlx_tensor t;
	int64_t c;

	if (n->def->index == RLX_OP_batch_norm)
		return !k && norm_affine(g, n, a);
	if (n->n_in != 2 || !constant_at(g, n->in[1 - k], &t) ||
	    !per_channel(&t.type, a->n, g->val[n->in[k]].type.rank))
		return false;
	for (c = 0; c < a->n; c++) {
		double x = at(&t, c);

		a->scale[c] = 1;
		a->shift[c] = 0;
		switch (n->def->index) {
		case RLX_OP_mul: a->scale[c] = x; break;
		case RLX_OP_add: a->shift[c] = x; break;
		case RLX_OP_div:
			if (k)
				return false;
			a->scale[c] = 1 / x;
			break;
		case RLX_OP_sub:
			a->scale[c] = k ? -1 : 1;
			a->shift[c] = k ? x : -x;
			break;
		default:
			return false;
		}
	}
	return true;
}

/* @b is taken; NULL: there was no memory for it. */
static uint32_t f32_constant(struct rlx_graph *g, struct rlx_type type, struct rlx_blob *b)
{
	rlx_value v = RLX_NONE;

	if (b)
		v = rlx_constant_blob(g, type, b);
	else
		rlx_fail(&g->err, RLX_ENOMEM, "conv_affine: out of memory");
	rlx_blob_put(b);
	return v.id;
}

/*
 * The weights @w of f32, each channel's times its factor. Instances of a model for other shapes
 * have one @w and the same factors: they find what the first of them made.
 */
static struct rlx_blob *scaled(struct rlx_blob *w, const struct affine *a)
{
	struct { char who[16]; struct rlx_blob *of; double scale[]; } *key;
	size_t bytes = rlx_blob_bytes(w), n_scale = (size_t)a->n * sizeof(*a->scale);
	int64_t per = a->n ? (int64_t)(bytes / sizeof(float)) / a->n : 0, i;
	const float *x = rlx_blob_data(w);
	struct rlx_blob *b;
	float *y;

	key = rlx_calloc(1, sizeof(*key) + n_scale);
	if (!key)
		return NULL;
	memcpy(key->who, "scaled weight", 13);
	key->of = w;
	memcpy(key->scale, a->scale, n_scale);
	b = rlx_blob_shared(key, sizeof(*key) + n_scale);
	y = b ? NULL : rlx_aligned(64, bytes + 1);
	for (i = 0; y && i < a->n * per; i++)
		y[i] = (float)((double)x[i] * a->scale[i / per]);
	if (y) {
		b = rlx_blob_new_shared(key, sizeof(*key) + n_scale, y, bytes, &w, 1);
		if (!b)
			rlx_free(y);
	}
	rlx_free(key);
	return b;
}

static struct rlx_blob *shifted(const struct rlx_tensor *bias, const struct affine *a)
{
	size_t bytes = (size_t)a->n * sizeof(float);
	float *y = rlx_aligned(64, bytes + 1);
	struct rlx_blob *b;
	int64_t i;

	for (i = 0; y && i < a->n; i++)
		y[i] = (float)((bias->data ? el_get(bias, i) : 0) * a->scale[i] + a->shift[i]);
	b = y ? rlx_blob_new_alike("conv_affine", y, bytes) : NULL;
	if (!b)
		rlx_free(y);
	return b;
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

	if (!constant_at(g, conv->in[1], &w) || w.type.dtype != RLX_F32 ||
	    (conv->in[2] && !constant_at(g, conv->in[2], &b)))
		return RLX_NONE;
	if (!all_ones(a))
		in[1] = f32_constant(g, w.type, scaled(blob_at(g, in[1]), a));
	in[2] = f32_constant(g, rlx_type(RLX_F32, a->n), shifted(&b, a));
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
		if (node_affine(rw->old, n, k, &a))
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
