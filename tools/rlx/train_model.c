// SPDX-License-Identifier: MIT
/* The models that rlx train builds: a classifier of images, a decoder of bytes. */
#include <math.h>
#include <string.h>

#include "tools/rlx/train.h"

enum { BYTES = 256 };

static rlx_value dropped(struct rlx_graph *g, struct rlx_vars *v, rlx_value x,
			 const struct train_config *c, bool train, int64_t id)
{
	if (!train || c->dropout == 0)
		return x;
	return rlx_dropout(g, x, c->dropout, rlx_train_count(g, v), id);
}

static rlx_value dense(struct rlx_graph *g, struct rlx_vars *v, const char *name, rlx_value x,
		       int64_t out, struct rlx_fill fill)
{
	const struct rlx_type *t = rlx_type_of(g, x);
	int64_t in = t && t->rank ? t->dim[t->rank - 1] : 1;

	rlx_vars_enter(v, name);
	x = rlx_emit(g, matmul, .a = x, .b = rlx_var(g, v, "weight", rlx_type(RLX_F32, in, out),
						     fill, RLX_VAR_MATRIX));
	x = rlx_emit(g, add, .a = x, .b = rlx_var(g, v, "bias", rlx_type(RLX_F32, out), RLX_ZEROS,
						  RLX_VAR_NO_DECAY));
	rlx_vars_leave(v);
	return x;
}

/* ---- classifier ---- */

/* Convolution, batch norm, rectifier. */
static rlx_value conv(struct rlx_graph *g, struct rlx_vars *v, int i, rlx_value x, int64_t out,
		      bool train)
{
	const struct rlx_type *t = rlx_type_of(g, x);
	int64_t in = t ? t->dim[1] : 1;

	rlx_vars_enter(v, rlx_name("conv%d", i));
	x = rlx_emit(g, conv, .x = x, .pad = RLX_INTS(1, 1, 1, 1),
		     .w = rlx_var(g, v, "weight", rlx_type(RLX_F32, out, in, 3, 3),
				  RLX_KAIMING((double)in * 9), RLX_VAR_MATRIX));
	rlx_vars_enter(v, "bn");
	x = rlx_batch_norm(g, v, x, train, NULL);
	rlx_vars_leave(v);
	rlx_vars_leave(v);
	return rlx_emit(g, relu, .x = x);
}

static rlx_value halved(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
			.stride = RLX_INTS(2, 2));
}

/* Bytes [b, h, w] or [b, h, w, c], or floats, as f32[b, c, h, w] within 0 and 1. */
static rlx_value pixels(struct rlx_graph *g, rlx_value x)
{
	const struct rlx_type *t = rlx_type_of(g, x);
	bool bytes = t && t->dtype == RLX_U8, colors = t && t->rank == 4;
	struct rlx_type d = t ? *t : rlx_type(RLX_U8, 1, 1, 1);

	if (d.rank != 3 && d.rank != 4) {
		rlx_graph_fail(g, RLX_ESHAPE, "images of rank %u; [h, w] or [h, w, c] each is "
			       "needed", d.rank - 1);
		return RLX_NONE;
	}
	x = rlx_emit(g, cast, .x = x, .to = RLX_F32);
	if (bytes)
		x = rlx_emit(g, mul, .a = x, .b = rlx_scalar_const(g, RLX_F32, 1 / 255.0));
	if (colors)
		return rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(0, 3, 1, 2));
	return rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(d.dim[0], 1, d.dim[1], d.dim[2]));
}

rlx_value train_classifier_logits(struct rlx_graph *g, struct rlx_vars *v, rlx_value image,
				  const struct train_config *c, bool train)
{
	int64_t wide = (int64_t)c->channels, n = (int64_t)c->batch, flat;
	rlx_value x = pixels(g, image);
	const struct rlx_type *t;

	x = halved(g, conv(g, v, 2, conv(g, v, 1, x, wide, train), wide, train));
	x = halved(g, conv(g, v, 4, conv(g, v, 3, x, 2 * wide, train), 2 * wide, train));
	t = rlx_type_of(g, x);
	flat = t ? t->dim[1] * t->dim[2] * t->dim[3] : 1;
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n, flat));
	x = dense(g, v, "hidden", x, (int64_t)c->hidden, RLX_KAIMING((double)flat));
	x = dropped(g, v, rlx_emit(g, relu, .x = x), c, train, 1);
	return dense(g, v, "head", x, (int64_t)c->classes, RLX_KAIMING((double)c->hidden));
}

void train_classifier(struct rlx_graph *g, struct rlx_vars *v, const struct rlx_loader *ld,
		      const struct train_config *c, bool train, struct train_out *out)
{
	rlx_value image = rlx_loader_input(ld, g, "image"), label, at;

	label = rlx_emit(g, cast, .x = rlx_loader_input(ld, g, "label"), .to = RLX_I32);
	out->logits = train_classifier_logits(g, v, image, c, train);
	out->loss = rlx_loss_ce(g, out->logits, label, NULL);
	at = rlx_emit(g, arg_reduce, .x = out->logits, .axis = 1);
	at = rlx_emit(g, eq, .a = rlx_emit(g, cast, .x = at, .to = RLX_I32), .b = label);
	out->right = rlx_emit(g, reduce, .x = rlx_emit(g, cast, .x = at, .to = RLX_F32));
}

/* ---- decoder ---- */

static rlx_value norm(struct rlx_graph *g, struct rlx_vars *v, const char *name, rlx_value x,
		      int64_t dim)
{
	rlx_vars_enter(v, name);
	x = rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f,
		     .gamma = rlx_var(g, v, "weight", rlx_type(RLX_F32, dim), RLX_ONES,
				      RLX_VAR_NO_DECAY),
		     .beta = rlx_var(g, v, "bias", rlx_type(RLX_F32, dim), RLX_ZEROS,
				     RLX_VAR_NO_DECAY));
	rlx_vars_leave(v);
	return x;
}

static rlx_value block(struct rlx_graph *g, struct rlx_vars *v, rlx_value x, int layer,
		       const struct train_config *c, bool train)
{
	struct rlx_fill near = RLX_NORMAL(0.02);
	struct rlx_fill out = RLX_NORMAL(0.02 / sqrt(2.0 * (double)c->layers));
	int64_t dim = (int64_t)c->dim;
	rlx_value p[3], h;

	rlx_vars_enter(v, rlx_name("blocks.%d", layer));
	rlx_split(g, dense(g, v, "qkv", norm(g, v, "ln1", x, dim), 3 * dim, near), -1, 3, p);
	h = rlx_emit(g, attention, .q = p[0], .k = p[1], .v = p[2], .heads = (int32_t)c->heads,
		     .mask = RLX_MASK_CAUSAL);
	h = dropped(g, v, dense(g, v, "proj", h, dim, out), c, train, 2 * layer + 10);
	x = rlx_emit(g, add, .a = x, .b = h);
	h = dense(g, v, "fc", norm(g, v, "ln2", x, dim), 4 * dim, near);
	h = dense(g, v, "out", rlx_emit(g, gelu_tanh, .x = h), dim, out);
	rlx_vars_leave(v);
	return rlx_emit(g, add, .a = x, .b = dropped(g, v, h, c, train, 2 * layer + 11));
}

rlx_value train_decoder_logits(struct rlx_graph *g, struct rlx_vars *v, rlx_value tokens,
			       const struct train_config *c, bool train)
{
	int64_t dim = (int64_t)c->dim;
	rlx_value x;
	int l;

	x = rlx_emit(g, gather, .indices = tokens,
		     .x = rlx_var(g, v, "tok", rlx_type(RLX_F32, BYTES, dim), RLX_NORMAL(0.02), 0));
	x = rlx_emit(g, add, .a = x, .b = rlx_var(g, v, "pos",
		     rlx_type(RLX_F32, (int64_t)c->context, dim), RLX_NORMAL(0.02), 0));
	for (l = 0; l < (int)c->layers; l++)
		x = block(g, v, x, l, c, train);
	return rlx_emit(g, matmul, .a = norm(g, v, "ln", x, dim),
			.b = rlx_var(g, v, "head", rlx_type(RLX_F32, dim, BYTES),
				     RLX_NORMAL(0.02), 0));
}

static rlx_value part(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	x = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(from),
		     .ends = RLX_INTS(to));
	return rlx_emit(g, cast, .x = x, .to = RLX_I32);
}

void train_decoder(struct rlx_graph *g, struct rlx_vars *v, rlx_value tokens,
		   const struct train_config *c, bool train, struct train_out *out)
{
	int64_t n = (int64_t)c->context;

	out->logits = train_decoder_logits(g, v, part(g, tokens, 0, n), c, train);
	out->loss = rlx_loss_ce(g, out->logits, part(g, tokens, 1, n + 1), NULL);
	out->right = RLX_NONE;
}
