/* SPDX-License-Identifier: MIT */
/* A classifier of images that is trained: four convolutions with batch norm, two dense layers. */
#ifndef TRAIN_CNN_H
#define TRAIN_CNN_H

#include "selftests/lib/train_decoder.h"

struct train_cnn {
	int64_t	channels, side, batch;	/* 0.47 million parameters: 32, 28 */
};

enum { TRAIN_CNN_HIDDEN = 128, TRAIN_CNN_CLASSES = 10 };

static inline rlx_value train_cnn_conv(struct train_rig *r, int i, rlx_value x, int64_t in,
				       int64_t out)
{
	rlx_vars_enter(r->v, rlx_name("c%d", i));
	x = rlx_emit(r->g, conv, .x = x, .pad = RLX_INTS(1, 1, 1, 1),
		     .w = rlx_var(r->g, r->v, "weight", rlx_type(RLX_F32, out, in, 3, 3),
				  RLX_KAIMING(9 * (double)in), RLX_VAR_MATRIX));
	rlx_vars_enter(r->v, "bn");
	x = rlx_batch_norm(r->g, r->v, x, true, NULL);
	rlx_vars_leave(r->v);
	rlx_vars_leave(r->v);
	return rlx_emit(r->g, relu, .x = x);
}

static inline rlx_value train_cnn_halve(struct train_rig *r, rlx_value x)
{
	return rlx_emit(r->g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
			.stride = RLX_INTS(2, 2));
}

/* The loss of inputs "x", f32[batch, 1, side, side], and "y", i32[batch]. */
static inline rlx_value train_cnn_loss(struct train_rig *r, const struct train_cnn *z)
{
	int64_t c = z->channels, flat = 2 * c * (z->side / 4) * (z->side / 4);
	rlx_value x = rlx_input(r->g, "x", rlx_type(RLX_F32, z->batch, 1, z->side, z->side));

	x = train_cnn_conv(r, 1, x, 1, c);
	x = train_cnn_halve(r, train_cnn_conv(r, 2, x, c, c));
	x = train_cnn_conv(r, 3, x, c, 2 * c);
	x = train_cnn_halve(r, train_cnn_conv(r, 4, x, 2 * c, 2 * c));
	x = rlx_emit(r->g, reshape, .x = x, .shape = RLX_INTS(z->batch, flat));
	x = train_dense(r, "f1", x, flat, TRAIN_CNN_HIDDEN, 1 / sqrt((double)flat));
	x = train_dense(r, "f2", rlx_emit(r->g, relu, .x = x), TRAIN_CNN_HIDDEN,
			TRAIN_CNN_CLASSES, 1 / sqrt((double)TRAIN_CNN_HIDDEN));
	return rlx_loss_ce(r->g, x, rlx_input(r->g, "y", rlx_type(RLX_I32, z->batch)), NULL);
}

/* Pixels between -0.5 and 0.5 and labels that follow a rule. */
static inline void train_cnn_batch(struct train_rig *r, const struct train_cnn *z)
{
	float *x = train_at(r, RLX_IO_INPUT, "x");
	int32_t *y = train_at(r, RLX_IO_INPUT, "y");
	int64_t i;

	for (i = 0; i < z->batch * z->side * z->side; i++)
		x[i] = (float)(i * i % 8191) / 8190 - 0.5f;
	for (i = 0; i < z->batch; i++)
		y[i] = (int32_t)((97 * i + 3) % TRAIN_CNN_CLASSES);
}

#endif
