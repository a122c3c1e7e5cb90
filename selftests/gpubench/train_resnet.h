/* SPDX-License-Identifier: MIT */
/* ResNet-50 (He et al. 2015, its stride in the 3x3 convolutions) that is trained on one batch. */
#ifndef GPUBENCH_TRAIN_RESNET_H
#define GPUBENCH_TRAIN_RESNET_H

#include "selftests/lib/train_rig.h"

struct train_resnet {
	int64_t	batch, size, classes;
};

/* Types are good until the next op. */
static inline int64_t resnet_channels(struct train_rig *r, rlx_value x)
{
	const struct rlx_type *t = rlx_type_of(r->g, x);

	return t ? t->dim[1] : 1;
}

/* A convolution of @k by @k without bias, and its batch norm. */
static inline rlx_value resnet_conv(struct train_rig *r, const char *name, rlx_value x,
				    int64_t out, int64_t k, int64_t stride)
{
	int64_t in = resnet_channels(r, x), p = k / 2;
	double std = sqrt(2.0 / (double)(out * k * k));

	rlx_vars_enter(r->v, name);
	x = rlx_emit(r->g, conv, .x = x, .stride = RLX_INTS(stride, stride),
		     .pad = RLX_INTS(p, p, p, p), .w = rlx_var(r->g, r->v, "weight",
		     rlx_type(RLX_F32, out, in, k, k), RLX_NORMAL(std), RLX_VAR_MATRIX));
	rlx_vars_enter(r->v, "norm");
	x = rlx_batch_norm(r->g, r->v, x, true, NULL);
	rlx_vars_leave(r->v);
	rlx_vars_leave(r->v);
	return x;
}

static inline rlx_value resnet_block(struct train_rig *r, rlx_value x, int64_t width,
				     int64_t stride)
{
	int64_t in = resnet_channels(r, x);
	rlx_value y = resnet_conv(r, "conv1", x, width, 1, 1);

	y = resnet_conv(r, "conv2", rlx_emit(r->g, relu, .x = y), width, 3, stride);
	y = resnet_conv(r, "conv3", rlx_emit(r->g, relu, .x = y), 4 * width, 1, 1);
	if (in != 4 * width)
		x = resnet_conv(r, "down", x, 4 * width, 1, stride);
	return rlx_emit(r->g, relu, .x = rlx_emit(r->g, add, .a = x, .b = y));
}

/* The loss of images @x, f32[batch, 3, size, size], that are @y, i32[batch]. */
static inline rlx_value train_resnet_loss_of(struct train_rig *r, const struct train_resnet *z,
					     rlx_value x, rlx_value y)
{
	static const int blocks[4] = { 3, 4, 6, 3 };
	int s, i;

	x = rlx_emit(r->g, relu, .x = resnet_conv(r, "stem", x, 64, 7, 2));
	x = rlx_emit(r->g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(3, 3),
		     .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1));
	for (s = 0; s < 4; s++)
		for (i = 0; i < blocks[s]; i++) {
			rlx_vars_enter(r->v, rlx_name("layer%d.%d", s + 1, i));
			x = resnet_block(r, x, (int64_t)64 << s, s && !i ? 2 : 1);
			rlx_vars_leave(r->v);
		}
	x = rlx_emit(r->g, reduce, .x = x, .kind = RLX_REDUCE_MEAN, .axes = RLX_INTS(2, 3));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "fc.weight",
		     rlx_type(RLX_F32, 2048, z->classes), RLX_NORMAL(0.01), RLX_VAR_MATRIX));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "fc.bias",
		     rlx_type(RLX_F32, z->classes), RLX_ZEROS, RLX_VAR_NO_DECAY));
	return rlx_loss_ce(r->g, x, y, NULL);
}

/* Of an input "y", and images that stay on the device: a variable that is not trained. */
static inline rlx_value train_resnet_loss(struct train_rig *r, const struct train_resnet *z)
{
	struct rlx_type images = rlx_type(RLX_F32, z->batch, 3, z->size, z->size);
	rlx_value x = rlx_var(r->g, r->v, "images", images, RLX_NORMAL(1), RLX_VAR_FROZEN);

	return train_resnet_loss_of(r, z, x, rlx_input(r->g, "y", rlx_type(RLX_I32, z->batch)));
}

static inline void train_resnet_batch(struct train_rig *r, const struct train_resnet *z)
{
	int32_t *y = train_at(r, RLX_IO_INPUT, "y");
	int64_t i;

	for (i = 0; i < z->batch; i++)
		y[i] = (int32_t)((97 * i + 3) % z->classes);
}

#endif
