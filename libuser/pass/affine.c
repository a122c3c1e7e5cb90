// SPDX-License-Identifier: MIT
/* What ops with constants do to each channel, and weights of convolutions that do it instead. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "pass/affine.h"

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

bool affine_constant(const struct rlx_graph *g, uint32_t v, struct rlx_tensor *out)
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
		if (!affine_constant(g, n->in[k + 1], &p[k]))
			return false;
	for (c = 0; c < a->n; c++) {
		a->scale[c] = el_get(&p[0], c) / sqrt(el_get(&p[3], c) + (double)bn->eps);
		a->shift[c] = el_get(&p[1], c) - el_get(&p[2], c) * a->scale[c];
	}
	return true;
}

/* What node @n does to its input @k, if that is affine per channel. */
bool affine_of_node(const struct rlx_graph *g, const struct rlx_node *n, uint32_t k,
			struct affine *a)
{
	struct rlx_tensor t;
	int64_t c;

	if (n->def->index == RLX_OP_batch_norm)
		return !k && norm_affine(g, n, a);
	if (n->n_in != 2 || !affine_constant(g, n->in[1 - k], &t) ||
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
static uint32_t constant_of(struct rlx_graph *g, struct rlx_type type, struct rlx_blob *b)
{
	rlx_value v = RLX_NONE;

	if (b)
		v = rlx_constant_blob(g, type, b);
	else
		rlx_fail(&g->err, RLX_ENOMEM, "affine: out of memory");
	rlx_blob_put(b);
	return v.id;
}

struct weights weights_of(const struct rlx_type *w, int64_t groups)
{
	struct weights l = { w->dim[0], w->dim[1], 1, groups ? groups : 1 };
	uint32_t k;

	for (k = 2; k < w->rank; k++)
		l.taps *= w->dim[k];
	return l;
}

int64_t weights_first_input(const struct weights *l, int64_t o)
{
	return o / (l->n_out / l->groups) * l->per_group;
}

/* @y: weights @x times the factors of their input channels, or output channels. */
static void scale_weights(const struct weights *l, const struct affine *a, bool input,
			  const float *x, float *y)
{
	int64_t o, i, t;

	for (o = 0; o < l->n_out; o++)
		for (i = 0; i < l->per_group; i++)
			for (t = 0; t < l->taps; t++)
				*y++ = (float)((double)*x++ *
					       a->scale[input ? weights_first_input(l, o) + i : o]);
}

/*
 * The weights @w of f32, each channel's times its factor. Instances of a model for other shapes
 * have one @w and the same factors: they find what the first of them made.
 */
static struct rlx_blob *scaled(struct rlx_blob *w, const struct weights *l,
			       const struct affine *a, bool input)
{
	struct { char who[24]; struct rlx_blob *of; struct weights l; double scale[]; } *key;
	size_t bytes = rlx_blob_bytes(w), n_scale = (size_t)a->n * sizeof(*a->scale);
	struct rlx_blob *b;
	float *y;

	key = rlx_calloc(1, sizeof(*key) + n_scale);
	if (!key)
		return NULL;
	memcpy(key->who, input ? "weight scaled in front" : "scaled weight", input ? 22 : 13);
	key->of = w;
	key->l = *l;
	memcpy(key->scale, a->scale, n_scale);
	b = rlx_blob_shared(key, sizeof(*key) + n_scale);
	y = b ? NULL : rlx_aligned(64, bytes + 1);
	if (y) {
		scale_weights(l, a, input, rlx_blob_data(w), y);
		b = rlx_blob_new_shared(key, sizeof(*key) + n_scale, y, bytes, &w, 1);
		if (!b)
			rlx_free(y);
	}
	rlx_free(key);
	return b;
}

uint32_t weights_scaled(struct rlx_graph *g, uint32_t w, const struct weights *l,
			const struct affine *a, bool input)
{
	return constant_of(g, g->val[w].type, scaled(blob_at(g, w), l, a, input));
}

uint32_t affine_bias(struct rlx_graph *g, float *y, int64_t n)
{
	struct rlx_blob *b = y ? rlx_blob_new_alike("conv_affine", y,
						    (size_t)n * sizeof(*y)) : NULL;

	if (!b)
		rlx_free(y);
	return constant_of(g, rlx_type(RLX_F32, n), b);
}
