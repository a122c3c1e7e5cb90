/* SPDX-License-Identifier: MIT */
/* Adapters for an encoder: its pairs of texts, its part of a step, what is written at the end. */
#ifndef RLX_TOOLS_TRAIN_ENCODER_H
#define RLX_TOOLS_TRAIN_ENCODER_H

#include "rlx/bert.h"
#include "tools/rlx/train.h"

/* Modules of the encoder that get adapters, and the embeddings of an evaluation. */
struct train_encoder {
	struct rlx_bert		*bert;
	struct rlx_lora_weight	*weight;
	unsigned int		 n;
	float			*row;		/* [pairs, 2, width] */
	uint64_t		 n_row, most;	/* pairs */
	int64_t			 width;
};

/* Open the encoder of [model] base and find the weights that [model] targets name. */
bool train_encoder_open(struct train_encoder *e, const struct train_config *c,
			struct rlx_error *err);
void train_encoder_close(struct train_encoder *e);

/*
 * Write halves of paragraphs of the texts under [data] text as pairs of token ids:
 * FOLDER/pairs.rlxr and, of the last fifth of the paragraphs, FOLDER/pairs-test.rlxr.
 */
bool train_pairs(const struct train_config *c, struct rlx_error *err);

/* From the fields of a loader of such pairs; @rows: f32[batch, 2, width]. */
void train_encoder_loss(struct rlx_graph *g, struct rlx_vars *v, const struct rlx_loader *ld,
			const struct train_config *c, const struct train_encoder *e,
			struct train_out *out);

/* Keep @n pairs more of @rows, from a place of their own on (0 begins anew). */
bool train_encoder_keep(struct train_encoder *e, const float *rows, uint64_t n, uint64_t at);
/* Of how many of the pairs kept the first half is nearer to the second than to any other. */
double train_encoder_right(const struct train_encoder *e);

/*
 * FOLDER/adapter as PEFT reads it, and FOLDER/merged: the encoder with the adapters in its
 * weights.
 */
bool train_encoder_write(const struct train_encoder *e, const struct train_config *c,
			 const struct train_states *from, struct rlx_error *err);

#endif
