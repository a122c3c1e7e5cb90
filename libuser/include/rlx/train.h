/* SPDX-License-Identifier: MIT */
/*
 * Training steps as programs, of librlx-train: variables with names, losses, gradients,
 * clipping, loss scaling and optimizers in one graph, whose states are replaced in place.
 *
 *	struct rlx_vars *v = rlx_vars_new();
 *	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 32, 64)), loss;
 *	rlx_value w = rlx_var(g, v, "w", rlx_type(RLX_F32, 64, 10), RLX_KAIMING(64), 0);
 *
 *	loss = rlx_loss_ce(g, rlx_emit(g, matmul, .a = x, .b = w),
 *			   rlx_input(g, "labels", rlx_type(RLX_I64, 32)), NULL);
 *	rlx_train_step(g, v, loss, rlx_input(g, "lr", rlx_scalar(RLX_F32)), NULL, &adamw);
 *
 * Functions that take a graph stick their first error to it, as rlx_emit() does, and then give
 * none; every one takes a NULL graph. They are called by one thread per graph and allocate.
 */
#ifndef RLX_TRAIN_H
#define RLX_TRAIN_H

#include "rlx/grad.h"
#include "rlx/lora.h"
#include "rlx/run.h"
#include "rlx/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- variables ---- */

/*
 * struct rlx_fill - what a variable holds at first.
 * RLX_FILL_CONSTANT: @a everywhere; NORMAL: mean 0, deviation @a; UNIFORM: from @a up to @b
 */
enum rlx_fill_kind { RLX_FILL_CONSTANT, RLX_FILL_NORMAL, RLX_FILL_UNIFORM };
struct rlx_fill {
	int	kind;
	double	a, b;
};
#define RLX_FILL(kind, a, b)	(rlx_fill_of((kind), (a), (b)))
#define RLX_ZEROS		RLX_FILL(RLX_FILL_CONSTANT, 0, 0)
#define RLX_ONES		RLX_FILL(RLX_FILL_CONSTANT, 1, 0)
#define RLX_NORMAL(std)		RLX_FILL(RLX_FILL_NORMAL, (std), 0)
#define RLX_UNIFORM(lo, hi)	RLX_FILL(RLX_FILL_UNIFORM, (lo), (hi))
/* Uniform within sqrt(6 / fan): for what a rectifier follows (He et al. 2015). */
#define RLX_KAIMING(fan)	(rlx_fill_kaiming(fan))
static inline struct rlx_fill rlx_fill_of(int kind, double a, double b)
{
	struct rlx_fill f = { kind, a, b };

	return f;
}
RLX_EXPORT struct rlx_fill rlx_fill_kaiming(double fan);

/*
 * enum rlx_var_flags - what is done with a variable.
 * @RLX_VAR_NO_DECAY: weight decay leaves it (biases, norms)
 * @RLX_VAR_MATRIX:   RLX_MUON takes it; it has rank 2, [in, out], or rank 4, [out, in, h, w]
 * @RLX_VAR_FROZEN:   it gets no gradient and stays
 * @RLX_VAR_BUFFER:   it gets no gradient; a layer replaces it (rlx_var_next())
 */
enum rlx_var_flags {
	RLX_VAR_NO_DECAY	= 1u << 0,
	RLX_VAR_MATRIX		= 1u << 1,
	RLX_VAR_FROZEN		= 1u << 2,
	RLX_VAR_BUFFER		= 1u << 3,
};

/**
 * rlx_vars_new - an empty set of variables: the names, types and first values of a model.
 * One thread at a time uses it. Return: NULL if memory runs out; calls with a NULL set stick
 * RLX_ENOMEM to the graph.
 */
struct rlx_vars;
RLX_EXPORT struct rlx_vars *rlx_vars_new(void);
RLX_EXPORT void rlx_vars_free(struct rlx_vars *v);

/**
 * rlx_vars_enter, rlx_vars_leave - names of variables made in between begin with @scope and a
 * dot, behind the scopes that are entered already. With a NULL @scope, as of rlx_name(), calls
 * with the set stick RLX_EINVAL to the graph from then on.
 */
RLX_EXPORT void rlx_vars_enter(struct rlx_vars *v, const char *scope);
RLX_EXPORT void rlx_vars_leave(struct rlx_vars *v);
/* A formatted name, good until the 8th call from now in this thread; NULL beyond 159 bytes. */
RLX_EXPORT const char *rlx_name(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * rlx_var - a variable as a state of the graph (rlx_state()).
 * @name:  within the scopes entered
 * @flags: of enum rlx_var_flags
 *
 * A second call of the same name and type in the same graph gives the same value: shared
 * weights. In another graph it makes a state of the same name: a program that evaluates what
 * another trains, in one struct rlx_states. What was said first of @fill and @flags stays.
 * Errors: RLX_ESHAPE (the name has another type), RLX_ETYPE (no float, unless RLX_VAR_BUFFER
 * or RLX_VAR_FROZEN), RLX_EINVAL (no name, or one of rlx_train_keeps(); an unknown flag; a matrix
 * whose rank is neither 2 nor 4).
 */
RLX_EXPORT rlx_value rlx_var(struct rlx_graph *g, struct rlx_vars *v, const char *name,
			     struct rlx_type type, struct rlx_fill fill, uint32_t flags);

/**
 * rlx_var_next - what a RLX_VAR_BUFFER holds after a step of this graph; rlx_train_step()
 * replaces it, if the step is not skipped. Other graphs may be built between the two.
 * @buffer: of rlx_var(). Errors: RLX_EINVAL, RLX_ESHAPE, RLX_EEXIST.
 */
RLX_EXPORT void rlx_var_next(struct rlx_graph *g, struct rlx_vars *v, rlx_value buffer,
			     rlx_value next);

/**
 * rlx_vars_lr - multiply the learning rate of all variables whose names begin with @prefix;
 * before rlx_train_step(). Return: how many there are.
 */
RLX_EXPORT unsigned int rlx_vars_lr(struct rlx_vars *v, const char *prefix, double scale);

/* How many variables there are, those of optimizers included; and the name of one. */
RLX_EXPORT unsigned int rlx_vars_count(const struct rlx_vars *v);
RLX_EXPORT const char *rlx_vars_name(const struct rlx_vars *v, unsigned int i);

/**
 * rlx_train_keeps - is a state of this name one that rlx_train_step() makes for itself or an
 * optimizer, "train.", "grad." (sums over runs), "<optimizer>." or "zero." (a rank's part) in
 * front: no weight, and no whole average of weights ("ema.")? Context: any thread. Pure; false for
 * NULL.
 */
RLX_EXPORT bool rlx_train_keeps(const char *name);

/**
 * rlx_states_init - give all states their first values.
 * @s:    of a program whose states are all in @v
 * @seed: random values are a function of it, a state's name and the element's place alone:
 *        Philox-4x32-10 under the key @seed, its stream the 64-bit FNV-1a hash of the name
 * Context: no run under way. Return: RLX_ENOENT (a state that @v does not have), RLX_ETYPE (one
 * that is none of f64, f32, f16, bf16, i64 and i32).
 */
RLX_EXPORT enum rlx_status
rlx_states_init(struct rlx_states *s, const struct rlx_vars *v, uint64_t seed,
		struct rlx_error *err);

/*
 * ---- losses: one scalar, the mean over what counts, in f32 or f64 ----
 *
 * Of no elements it is NaN, and gradients are 0; a cross entropy of no rows that count is 0.
 */

/*
 * struct rlx_ce - of cross entropies; zero means the default everywhere.
 * @size:   sizeof(struct rlx_ce)
 * @smooth: label smoothing: so much of the weight is spread over all classes, 0 to 1
 * @z:      weight of the square of log(sum(exp)), which keeps logits small
 * @ignore: rows of this label do not count, if it is below 0; 0: -100
 */
struct rlx_ce {
	size_t	size;
	double	smooth, z;
	int64_t	ignore;
};

/**
 * rlx_loss_ce - softmax cross entropy of @logits[.., c] with class numbers @labels[..].
 * The sizes before c are the same ones. Runs with a label outside 0 to c - 1 that is not @ignore
 * are RLX_ERANGE.
 */
RLX_EXPORT rlx_value rlx_loss_ce(struct rlx_graph *g, rlx_value logits, rlx_value labels,
				 const struct rlx_ce *how);
/* The same of @x[.., d] times @w[d, c]. */
RLX_EXPORT rlx_value rlx_loss_linear_ce(struct rlx_graph *g, rlx_value x, rlx_value w,
					rlx_value labels, const struct rlx_ce *how);
/* (a - b)^2; |d| > delta ? delta (|d| - delta / 2) : d^2 / 2 with d = a - b and a finite delta. */
RLX_EXPORT rlx_value rlx_loss_mse(struct rlx_graph *g, rlx_value a, rlx_value b);
RLX_EXPORT rlx_value rlx_loss_huber(struct rlx_graph *g, rlx_value a, rlx_value b, double delta);
/*
 * Binary cross entropy of logits: log(1 + exp(x)) - t x; @t of @x's shape (else RLX_ESHAPE),
 * within 0 to 1.
 */
RLX_EXPORT rlx_value rlx_loss_bce(struct rlx_graph *g, rlx_value x, rlx_value t);
/*
 * InfoNCE (van den Oord et al. 2018) of @a[n, d] and @b[n, d]: rows of one index belong
 * together; cosines divided by @temperature, averaged over both directions.
 */
RLX_EXPORT rlx_value rlx_loss_info_nce(struct rlx_graph *g, rlx_value a, rlx_value b,
				       double temperature);

/* ---- layers ---- */

/**
 * rlx_dropout - each element becomes 0 with probability @p, else x / (1 - p).
 * @call: an integer scalar that differs from step to step (rlx_train_count(), or an input)
 * @id:   differs from layer to layer; with @call it decides the draw
 */
RLX_EXPORT rlx_value rlx_dropout(struct rlx_graph *g, rlx_value x, double p, rlx_value call,
				 int64_t id);

/* How many steps were taken, as an i64 scalar: a state that rlx_train_step() counts up. */
RLX_EXPORT rlx_value rlx_train_count(struct rlx_graph *g, struct rlx_vars *v);

/*
 * struct rlx_bn - of batch norms; zero means the default everywhere.
 * @size: sizeof(struct rlx_bn); @eps: 0: 1e-5; @momentum: of the running statistics, 0: 0.1
 */
struct rlx_bn {
	size_t	size;
	double	eps, momentum;
};

/**
 * rlx_batch_norm - normalise the channels of @x[n, c, ..] by their own mean and variance
 * (@train), or by running ones; scaled and shifted by variables.
 *
 * Variables "weight", "bias" (no decay) and buffers "running_mean", "running_var", of c each,
 * in the scope that is entered. Running statistics move by momentum towards the batch's, whose
 * variance is taken unbiased for that (Ioffe and Szegedy 2015; PyTorch BatchNorm2d), which takes
 * the number of elements: with @train all sizes of @x are plain ones (rlx/dims.h), else RLX_EINVAL.
 */
RLX_EXPORT rlx_value rlx_batch_norm(struct rlx_graph *g, struct rlx_vars *v, rlx_value x,
				    bool train, const struct rlx_bn *how);

/* @n equal parts of @x along @axis into @out[n]; RLX_ESHAPE if it does not divide. */
RLX_EXPORT void rlx_split(struct rlx_graph *g, rlx_value x, int axis, unsigned int n,
			  rlx_value *out);

/* ---- low-rank adaptation (LoRA): rlx/lora.h ---- */

/**
 * rlx_lora_inline - rlx_graph_inline() of a graph with adapters, which become variables.
 * @part: of rlx_graph_lora()
 * @how:  as of rlx_graph_inline(); params of adapters that it names are not variables
 *
 * A variable is called as the param, behind the scopes that are entered: A is uniform within
 * 1 / sqrt(in) of 0, B is 0 (PEFT's first values), so that a step begins with the model as it
 * was. What is neither adapter nor variable of @v gets no gradient and no state.
 * Return: as rlx_graph_inline().
 */
RLX_EXPORT enum rlx_status
rlx_lora_inline(struct rlx_graph *g, struct rlx_vars *v, const struct rlx_graph *part,
		const struct rlx_inline *how, rlx_value *out);

/*
 * struct rlx_lora_merge - a weight and its adapter.
 * @size:     sizeof(struct rlx_lora_merge)
 * @w:        f64, f32, f16 or bf16, [out, in], or [in, out] with @in_first
 * @a, @b:    A[rank, in] and B[out, rank], f32 or f64
 * @scale:    alpha / rank
 */
struct rlx_lora_merge {
	size_t				 size;
	const struct rlx_safetensor	*w, *a, *b;
	double				 scale;
	bool				 in_first;
};

/**
 * rlx_lora_merge - @to receives W + scale B A, in the dtype of W, rounded once.
 * @to: rlx_type_bytes() bytes; may be W's own
 * An element whose correction is 0 keeps its bits.
 * Context: any thread; no allocation. Return: RLX_ESHAPE, RLX_ETYPE, RLX_EINVAL (something is
 * missing, or the scale is not finite).
 */
RLX_EXPORT enum rlx_status
rlx_lora_merge(const struct rlx_lora_merge *m, void *to, struct rlx_error *err);

/*
 * struct rlx_lora_file - adapters as they are written.
 * @size:   sizeof(struct rlx_lora_file)
 * @tensor: @n of them, A and B of each weight under the names of rlx_graph_lora()
 * @rank, @alpha: of all
 * @base:   what the model is called or where it is; NULL: not said
 */
struct rlx_lora_file {
	size_t				 size;
	const struct rlx_safetensor	*tensor;
	uint32_t			 n;
	unsigned int			 rank;
	double				 alpha;
	const char			*base;
};

/**
 * rlx_lora_write - write adapters as PEFT reads them.
 * @folder: made unless it is there; what is replaced in it is replaced as a whole
 *
 * adapter_model.safetensors has the tensors, "base_model.model." in front of their names;
 * adapter_config.json the rank, alpha and the modules, each by its whole name.
 * Context: any thread; allocates, blocks on the files. Return: RLX_EINVAL (a tensor that is no
 * adapter's, or one without its other half); RLX_ESHAPE (of another rank); as
 * rlx_safetensors_write().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_lora_write(const char *folder, const struct rlx_lora_file *f, struct rlx_error *err);

/* ---- steps ---- */

/*
 * struct rlx_optimizer - how gradients g become updates of a variable w. lr is the step's
 * learning rate times the variable's; t counts the steps taken. All in f32.
 *
 * RLX_SGD:	g += decay w; b = momentum b + g; w -= lr (nesterov ? g + momentum b : b)
 *		(decay is coupled; without momentum there is no b)
 * RLX_ADAMW:	w *= 1 - lr decay; m += (1 - beta1)(g - m); v = beta2 v + (1 - beta2) g^2;
 *		w -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *		(beta1 .9, beta2 .999, eps 1e-8; Loshchilov and Hutter 1711.05101)
 * RLX_LION:	c = beta1 m + (1 - beta1) g; w -= lr (sign(c) + decay w);
 *		m = beta2 m + (1 - beta2) g (beta1 .9, beta2 .99; Chen et al. 2302.06675)
 * RLX_MUON:	of RLX_VAR_MATRIX: b += (1 - momentum)(g - b); u = nesterov ? g + momentum
 *		(b - g) : b; X = u / max(|u|, 1e-7), transposed if it has more rows than columns;
 *		5 times A = X X', X = 3.4445 X - 4.7750 A X + 2.0315 A^2 X; w *= 1 - lr decay;
 *		w -= lr s X, s = sqrt(max(1, out / in)) (momentum .95; Jordan 2024). Of other
 *		variables: @rest, or if that is NULL AdamW with the same lr and decay
 * RLX_ADAFACTOR: a = max(1e-3, rms(w)) min(lr, 1 / sqrt(t)); w *= 1 - lr decay; R and C go
 *		by t^-.8 to the means of g^2 over the last and the last but one axis; V = R C' /
 *		max(mean R, 2^-23); u = g / sqrt(max(V, 2^-46)); w -= a u / max(1, rms(u) / clip);
 *		vectors and scalars have V whole (clip 1; Shazeer and Stern 1804.04235)
 *
 * @size: sizeof(struct rlx_optimizer). A beta, eps, momentum of RLX_MUON or clip that is 0 is
 * its default.
 */
enum rlx_optimizer_kind { RLX_SGD, RLX_ADAMW, RLX_LION, RLX_MUON, RLX_ADAFACTOR };
struct rlx_optimizer {
	size_t	size;
	int	kind;
	bool	nesterov;
	double	momentum, beta1, beta2, eps, decay, clip;
	const struct rlx_optimizer *rest;
};

/*
 * struct rlx_train_opts - of a step; zero means the default everywhere.
 * @size:       sizeof(struct rlx_train_opts)
 * @clip_norm:  gradients are multiplied by min(1, clip_norm / (norm + 1e-6)); 0: not
 * @ema:        weights are averaged as "ema.<name>", of f32 or f64: e += (1 - ema)(w - e), which
 *              begins at w; 0: not
 * @accumulate: so many runs add up gradients before one update; 0: 1
 * @scaling:    RLX_SCALE_LOSS_NONE; STATIC: the loss is multiplied by @scale0 before it is
 *              derived and gradients are divided by it; DYNAMIC: by a state that begins at
 *              @scale0 (0: 65,536), is halved (not below 1) when the norm is not finite, and
 *              doubled after 2,000 steps that were, below 2^127. @scale0 is a normal f32
 * @ranks:      so many processes run this program, each on rows of its own, and take the same
 *              step by the mean of their gradients: see rlx/comm.h. Also means over all are
 *              "loss" and what float buffers become (statistics of a batch norm, which each
 *              takes of its own rows), but of runs that only add up, where both are the
 *              rank's own; draws of rlx_dropout() are the same on all. 0: 1
 * @zero:       of several ranks each has the optimizer's states and averages of its part of a
 *              variable alone (ZeRO-1, Rajbhandari et al. 1910.02054): it gets the sum of its
 *              part of the gradient (reduce_scatter), updates its part of the variable, and all
 *              bring these together (all_gather). Variables, "norm" and all else are the bits of
 *              steps without @zero, over shared memory. Parts are flat, and are states
 *              "zero.<optimizer>.<what>.<name>" and "zero.ema.<name>"; variables below 1,024
 *              elements stay whole. Not for RLX_MUON and RLX_ADAFACTOR, which need whole tensors.
 *              A communicator has reduce_scatter and all_gather then (rlx/collective.h), and
 *              checkpoints are written by all ranks together (rlx_ckpt_opts.comm). A run that
 *              fails because a rank is gone may leave variables half replaced, for they are
 *              brought together last: the way on is a checkpoint
 * @memory:     bytes that the backward pass may have of the forward one (struct rlx_ad); 0: no
 *              limit
 */
enum { RLX_MOST_RANKS = 1024 };
enum rlx_loss_scaling { RLX_SCALE_LOSS_NONE, RLX_SCALE_LOSS_STATIC, RLX_SCALE_LOSS_DYNAMIC };
struct rlx_train_opts {
	size_t	 size;
	double	 clip_norm, ema, scale0;
	unsigned int accumulate;
	int	 scaling;
	unsigned int ranks;
	bool	 zero;
	uint64_t memory;
};

/**
 * rlx_train_step - from a loss to a step that is done: gradients by all variables of @v that
 * this graph has, their norm, the optimizer's updates.
 * @loss: one float element
 * @lr:   one float element, the learning rate; an input, whose 4 bytes rlx_schedule_at() gives
 * @opts: NULL: the defaults
 *
 * Outputs "loss" (without its scale), "norm" (of the gradients before they are clipped), "ok"
 * (i32: 1 if the norm was finite; else nothing is replaced but the scale) and with scaling
 * "scale" (the one that this step took). A gradient that is not finite is met by no branch:
 * updates are selected by "ok". States of the optimizer are "<kind>.<what>.<name>", those of
 * the step "train.<what>" and "grad.<name>"; rlx_states_init() knows them all.
 * Errors: as rlx_vjp(); RLX_EINVAL (no variable to train; options out of their range); RLX_ENOSUP
 * (an optimizer that @zero is not for).
 */
RLX_EXPORT void rlx_train_step(struct rlx_graph *g, struct rlx_vars *v, rlx_value loss,
			       rlx_value lr, const struct rlx_train_opts *opts,
			       const struct rlx_optimizer *how);

/**
 * rlx_grad_norm - the root of the sum of all squares of @d[n], as an f64 scalar.
 * rlx_clip - multiply @d[n] by min(1, most / (norm + 1e-6)), in place; gives the norm before.
 */
RLX_EXPORT rlx_value rlx_grad_norm(struct rlx_graph *g, const rlx_value *d, unsigned int n);
RLX_EXPORT rlx_value rlx_clip(struct rlx_graph *g, rlx_value *d, unsigned int n, double most);

/*
 * struct rlx_schedule - the learning rate of a step. For @warmup steps it rises from lr /
 * warmup to lr; then RLX_CONSTANT: lr; RLX_LINEAR, RLX_COSINE: it falls to floor lr at
 * @steps, by a line or half a cosine; RLX_WSD: lr but for the last @decay steps, which fall by
 * a line to floor lr; RLX_RSQRT: lr sqrt(max(warmup, 1) / step). Beyond @steps: floor lr
 * where it falls.
 */
enum rlx_schedule_kind { RLX_CONSTANT, RLX_LINEAR, RLX_COSINE, RLX_WSD, RLX_RSQRT };
struct rlx_schedule {
	int		kind;
	double		lr, floor;
	uint64_t	warmup, steps, decay;
};
/* @step counts from 0. Context: any thread. Pure. */
RLX_EXPORT double rlx_schedule_at(const struct rlx_schedule *s, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
