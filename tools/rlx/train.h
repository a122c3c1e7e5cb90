/* SPDX-License-Identifier: MIT */
/* What the files of rlx train share: its configuration, its models, its curve. */
#ifndef RLX_TOOLS_TRAIN_H
#define RLX_TOOLS_TRAIN_H

#include <stdio.h>

#include "rlx/data.h"
#include "rlx/train.h"

enum train_gguf { GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q8_0, GGUF_NONE };
enum train_kind { TRAIN_CLASSIFIER, TRAIN_DECODER, TRAIN_ENCODER };

/* One for each key of the file; train_config.c has the table. */
struct train_config {
	/* [model] */
	int		 kind;
	uint64_t	 channels, hidden, classes;	/* classifier */
	uint64_t	 layers, dim, heads, context;	/* decoder */
	double		 dropout;
	uint64_t	 rank;				/* encoder */
	double		 alpha, temperature;
	char		*base, *targets;
	/* [data] */
	char		*data, *train, *test, *text;
	/* [optimizer] */
	int		 optimizer;
	double		 lr, momentum, beta1, beta2, eps, decay;
	uint64_t	 nesterov;
	/* [schedule] */
	int		 schedule;
	uint64_t	 warmup, cooldown;
	double		 floor;
	/* [train] */
	uint64_t	 steps, batch, accumulate, threads, seed, ranks, zero, timeout;
	uint64_t	 memory;
	double		 clip, ema;
	char		*device;
	int		 precision, scaling;
	/* [eval] */
	uint64_t	 eval_every, eval_batches, patience, sample;
	/* [output] */
	char		*folder;
	uint64_t	 save_every;
	int		 gguf;				/* of enum train_gguf */
};

/* False, with a message that names file, line and key. Freed in both cases. */
bool train_config_read(struct train_config *c, const char *path, struct rlx_error *err);
void train_config_free(struct train_config *c);
/* A word that depends on all keys but those that may differ from rank to rank. */
uint64_t train_config_hash(const struct train_config *c);
/* As if the file had named this device. */
bool train_config_device(struct train_config *c, const char *name, struct rlx_error *err);
/* All keys with their defaults, as help has them. */
void train_config_print(FILE *f);

/* ---- models: train_model.c ---- */

/* What a model gives: the loss, and of a classifier how many of the batch are right. */
struct train_out {
	rlx_value	loss, right;	/* @right: f32 scalar; none but of a classifier */
	rlx_value	logits;		/* of an encoder the embeddings, f32[batch, 2, width] */
};

/* From a loader's fields; @train: with dropout, statistics of the batch. */
void train_classifier(struct rlx_graph *g, struct rlx_vars *v, const struct rlx_loader *ld,
		      const struct train_config *c, bool train, struct train_out *out);
/* Of images as a loader's field has them. */
rlx_value train_classifier_logits(struct rlx_graph *g, struct rlx_vars *v, rlx_value image,
				  const struct train_config *c, bool train);
/* @tokens: u8[b, context + 1], of which the last is only predicted. */
void train_decoder(struct rlx_graph *g, struct rlx_vars *v, rlx_value tokens,
		   const struct train_config *c, bool train, struct train_out *out);
/* Logits of the next byte behind each of @tokens, i32[1, context]. */
rlx_value train_decoder_logits(struct rlx_graph *g, struct rlx_vars *v, rlx_value tokens,
			       const struct train_config *c, bool train);

/* ---- what is written at the end: train_onnx.c, train_gguf.c ---- */

/* @get gives the data of a state and its type; NULL: there is none. */
struct train_states {
	const void	*(*get)(void *ctx, const char *name, struct rlx_type *type);
	void		*ctx;
};

/*
 * FOLDER/model.onnx: "logits" of "tokens", i32[1, context], or of "image", a batch as @ld gives it.
 * @v: the variables as they were trained.
 */
bool train_onnx(const struct train_config *c, struct rlx_vars *v, const struct rlx_loader *ld,
		const struct train_states *from, struct rlx_error *err);

/* FOLDER/model.gguf, matrices stored as [output] gguf says. */
bool train_gguf(const struct train_config *c, const struct train_states *from,
		struct rlx_error *err);

/* ---- text and curve: train_text.c, train_curve.c ---- */

/*
 * Write the texts of a file or the files of a folder, in order of their names, as two streams
 * of bytes: FOLDER/text.rlxr and, one tenth from the end, FOLDER/text-test.rlxr.
 */
bool train_text(const char *from, const char *folder, struct rlx_error *err);

/* A point of the curve; NAN: not evaluated there. */
struct train_point {
	uint64_t	step;
	double		loss, test, accuracy;
};
struct train_curve {
	struct train_point	*e;
	uint32_t		 n, cap;
};
bool train_curve_add(struct train_curve *c, struct train_point p);
/* What FOLDER/curve.csv has up to @last, if it is there: of the run that goes on. */
bool train_curve_read(struct train_curve *c, const char *folder, uint64_t last,
		      struct rlx_error *err);
/* FOLDER/curve.csv and FOLDER/curve.svg, each put in place when it is whole. */
bool train_curve_write(const struct train_curve *c, const char *folder, struct rlx_error *err);

#endif
