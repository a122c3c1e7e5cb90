// SPDX-License-Identifier: MIT
/*
 * From a loss to a step: gradients, their sum over runs, norm, loss scale, updates. Control
 * values are f64 scalars; updates are selected by whether the norm is finite, so that nothing
 * waits for the host and nothing is multiplied by what is not a number.
 */
#include <float.h>
#include <string.h>

#include "base/alloc.h"
#include "train/step.h"
#include "train/zero.h"

static rlx_value f64(struct rlx_graph *g, rlx_value x)
{
	return cast_to(g, x, RLX_F64);
}

rlx_value step_scalar(struct step *s, rlx_value x, rlx_value like)
{
	return cast_to(s->g, x, type_of(s->g, like).dtype);
}

static rlx_value select_next(struct rlx_graph *g, rlx_value cond, rlx_value state, rlx_value next)
{
	next = cast_to(g, next, type_of(g, state).dtype);
	next = rlx_emit(g, where, .cond = cond, .a = next, .b = state);
	rlx_state_next(g, state, next);
	return next;
}

rlx_value step_next(struct step *s, rlx_value state, rlx_value next)
{
	return select_next(s->g, s->go, state, next);
}

enum { AT_A_TIME = 64 };		/* sums of squares: as many as one launch takes */

/* The sum of all squares: of each tensor in its dtype, f32 at least, then in f64. */
static rlx_value sum_of_squares(struct rlx_graph *g, const rlx_value *d, unsigned int n)
{
	rlx_value sum = RLX_NONE, x;
	unsigned int i, k;

	for (i = 0; i < n; i += k) {
		k = n - i < AT_A_TIME ? n - i : AT_A_TIME;
		x = rlx_emit(g, sum_squares_all, .xs = { d + i, k });
		sum = i ? rlx_emit(g, add, .a = sum, .b = x) : x;
	}
	return n ? sum : rlx_scalar_const(g, RLX_F64, 0);
}

/* The same where ranks have parts of some, in the order in which that adds up. */
static rlx_value sum_of_parts(struct step *s)
{
	rlx_value *q = rlx_calloc(s->n, sizeof(*q)), sum = RLX_NONE, x = RLX_NONE;
	unsigned int i;

	if (!q) {
		rlx_graph_fail(s->g, RLX_ENOMEM, "train step: out of memory");
		return RLX_NONE;
	}
	zero_squares(s, q);
	for (i = 0; i < s->n; i++) {
		x = i % AT_A_TIME ? rlx_emit(s->g, add, .a = x, .b = q[i]) : q[i];
		if (i % AT_A_TIME == AT_A_TIME - 1 || i + 1 == s->n)
			sum = i < AT_A_TIME ? x : rlx_emit(s->g, add, .a = sum, .b = x);
	}
	rlx_free(q);
	return sum;
}

/*
 * Of all gradients. In runs that only add up, where it says whether buffers change, of the own
 * ones: it is finite where it would be of their sum, and nobody is waited for if nobody need be.
 */
static rlx_value share_and_square(struct step *s, rlx_value due)
{
	rlx_value q = RLX_NONE;

	if (s->share && due.id)
		q = rlx_emit(s->g, all_reduce, .x = sum_of_squares(s->g, s->d, s->n),
			     .ranks = (int32_t)s->o.ranks);
	step_share(s, due);
	if (!s->share)
		return sum_of_squares(s->g, s->d, s->n);
	return due.id ? rlx_emit(s->g, where, .cond = due, .a = sum_of_parts(s), .b = q) :
	       sum_of_parts(s);
}

rlx_value rlx_grad_norm(struct rlx_graph *g, const rlx_value *d, unsigned int n)
{
	return rlx_emit(g, sqrt, .x = sum_of_squares(g, d, n));
}

/* min(1, most / (norm + 1e-6)), which a norm of NaN makes NaN. */
static rlx_value clip_factor(struct rlx_graph *g, rlx_value norm, double most)
{
	rlx_value c = rlx_emit(g, div, .a = like_const(g, norm, most), .b = plus(g, norm, 1e-6));

	return rlx_emit(g, min, .a = c, .b = like_const(g, c, 1));
}

rlx_value rlx_clip(struct rlx_graph *g, rlx_value *d, unsigned int n, double most)
{
	rlx_value norm = rlx_grad_norm(g, d, n), k = clip_factor(g, norm, most);
	unsigned int i;

	for (i = 0; i < n; i++)
		d[i] = rlx_emit(g, mul, .a = d[i], .b = cast_to(g, k, type_of(g, d[i]).dtype));
	return norm;
}

/* Which variables this graph has and trains. */
static bool list_trained(struct step *s)
{
	uint32_t i;

	s->var = rlx_calloc(s->v->n + 1ul, sizeof(*s->var));
	s->w = rlx_calloc(2 * (s->v->n + 1ul), sizeof(*s->w));
	if (!s->var || !s->w) {
		rlx_graph_fail(s->g, RLX_ENOMEM, "train step: out of memory");
		return false;
	}
	s->d = s->w + s->v->n + 1;
	for (i = 0; i < s->v->n; i++) {
		const struct var *e = &s->v->e[i];
		rlx_value w = rlx_graph_io_find(s->g, RLX_IO_STATE, e->name);

		if (!w.id || e->flags & (VAR_INTERNAL | RLX_VAR_FROZEN | RLX_VAR_BUFFER))
			continue;
		s->var[s->n] = i;
		s->w[s->n++] = w;
	}
	if (!s->n)
		rlx_graph_fail(s->g, RLX_EINVAL, "train step: this graph has no variable to train; "
			       "see rlx_var()");
	return s->n;
}

static void take_scale(struct step *s)
{
	double first = s->o.scale0 != 0 ? s->o.scale0 : 65536;

	if (s->o.scaling == RLX_SCALE_LOSS_DYNAMIC)
		s->scale = vars_state(s->g, s->v, "train.", "scale", rlx_scalar(RLX_F32),
				      rlx_fill_of(RLX_FILL_CONSTANT, first, 0));
	else
		s->scale = rlx_scalar_const(s->g, RLX_F32, s->o.scaling ? first : 1);
}

static void derive(struct step *s)
{
	struct rlx_type t = type_of(s->g, s->loss);
	rlx_value seed = cast_to(s->g, s->scale, t.dtype);
	struct rlx_ad a = {
		.size = sizeof(a), .of = { &s->loss, 1 }, .wrt = { s->w, s->n },
		.memory = s->o.memory,
	};

	if (t.rank)
		seed = rlx_emit(s->g, reshape, .x = seed, .shape = { t.dim, t.rank });
	a.seed = (struct rlx_values){ &seed, 1 };
	rlx_vjp(s->g, &a, s->d);
}

/* Gradients become sums over runs; gives whether this run is the last of them, or none. */
static rlx_value accumulate(struct step *s)
{
	rlx_value at, first, last, sum, next;
	struct rlx_graph *g = s->g;
	unsigned int i;

	if (s->o.accumulate < 2)
		return RLX_NONE;
	at = vars_state(g, s->v, "train.", "micro", rlx_scalar(RLX_I32), RLX_ZEROS);
	first = rlx_emit(g, eq, .a = at, .b = like_const(g, at, 0));
	last = rlx_emit(g, eq, .a = at, .b = like_const(g, at, s->o.accumulate - 1));
	rlx_state_next(g, at, rlx_emit(g, where, .cond = last, .a = like_const(g, at, 0),
				       .b = plus(g, at, 1)));
	for (i = 0; i < s->n; i++) {
		struct rlx_type t = type_of(g, s->w[i]);

		t.dtype = t.dtype == RLX_F64 ? RLX_F64 : RLX_F32;
		sum = vars_state(g, s->v, "grad.", s->v->e[s->var[i]].name, t, RLX_ZEROS);
		next = cast_to(g, s->d[i], t.dtype);
		next = rlx_emit(g, where, .cond = first, .a = next,
				.b = rlx_emit(g, add, .a = sum, .b = next));
		rlx_state_next(g, sum, next);
		s->d[i] = next;
	}
	return last;
}

/* S doubles after 2,000 good steps, within f32's range, and is halved, not below 1, after a bad. */
static void update_scale(struct step *s, rlx_value due)
{
	struct rlx_graph *g = s->g;
	rlx_value good, more, full, room, next, bad;

	if (s->o.scaling != RLX_SCALE_LOSS_DYNAMIC)
		return;
	good = vars_state(g, s->v, "train.", "good", rlx_scalar(RLX_I32), RLX_ZEROS);
	more = plus(g, good, 1);
	full = rlx_emit(g, ge, .a = more, .b = like_const(g, more, 2000));
	room = rlx_emit(g, lt, .a = s->scale, .b = like_const(g, s->scale, 0x1p127));
	next = rlx_emit(g, where, .cond = rlx_emit(g, bit_and, .a = full, .b = room),
			.a = scaled(g, s->scale, 2), .b = s->scale);
	bad = rlx_emit(g, max, .a = scaled(g, s->scale, 0.5), .b = like_const(g, s->scale, 1));
	next = rlx_emit(g, where, .cond = s->ok, .a = next, .b = bad);
	more = rlx_emit(g, where, .cond = full, .a = like_const(g, more, 0), .b = more);
	more = rlx_emit(g, where, .cond = s->ok, .a = more, .b = like_const(g, more, 0));
	if (due.id) {
		next = rlx_emit(g, where, .cond = due, .a = next, .b = s->scale);
		more = rlx_emit(g, where, .cond = due, .a = more, .b = good);
	}
	rlx_state_next(g, s->scale, next);
	rlx_state_next(g, good, more);
}

/* Norm, whether it is finite, the factor of gradients, the number of this update. */
static void control(struct step *s, rlx_value lr)
{
	struct rlx_graph *g = s->g;
	rlx_value due = accumulate(s), q, count, parts;

	q = share_and_square(s, due);
	parts = scaled(g, f64(g, s->scale), (s->o.accumulate ? s->o.accumulate : 1.0) *
		       (s->o.ranks ? s->o.ranks : 1.0));
	s->norm = rlx_emit(g, div, .a = rlx_emit(g, sqrt, .x = q), .b = parts);
	/* inf - inf and NaN - NaN are not 0 */
	q = rlx_emit(g, sub, .a = q, .b = q);
	s->ok = rlx_emit(g, eq, .a = q, .b = like_const(g, q, 0));
	s->go = due.id ? rlx_emit(g, bit_and, .a = s->ok, .b = due) : s->ok;
	s->k = rlx_emit(g, recip, .x = parts);
	if (s->o.clip_norm != 0)
		s->k = rlx_emit(g, mul, .a = s->k, .b = clip_factor(g, s->norm, s->o.clip_norm));
	s->lr = f64(g, rlx_emit(g, reshape, .x = lr, .shape = { NULL, 0 }));
	count = rlx_train_count(g, s->v);
	s->t = plus(g, f64(g, count), 1);
	step_next(s, count, plus(g, count, 1));
	update_scale(s, due);
}

static void update_average(struct step *s, unsigned int i, rlx_value next)
{
	enum rlx_dtype dt = type_of(s->g, next).dtype == RLX_F64 ? RLX_F64 : RLX_F32;
	bool part = s->share && s->share[i].part;
	const char *prefix = part ? ZERO_PREFIX "ema." : "ema.";
	struct rlx_type t = type_of(s->g, next);
	rlx_value mean, from;

	t.dtype = dt;	/* 16 bits round what an average moves by away */
	mean = from = vars_state(s->g, s->v, prefix, s->v->e[s->var[i]].name, t, RLX_ZEROS);
	if (part)
		from = zero_average(s, i, mean);
	else
		vars_like(s->g, s->v, prefix, s->v->e[s->var[i]].name);
	next = rlx_emit(s->g, sub, .a = cast_to(s->g, next, dt), .b = from);
	step_next(s, mean, rlx_emit(s->g, add, .a = from, .b = scaled(s->g, next, 1 - s->o.ema)));
}

static void update_one(struct step *s, unsigned int i, const struct rlx_optimizer *how)
{
	const struct var *e = &s->v->e[s->var[i]];
	enum rlx_dtype dt = type_of(s->g, s->w[i]).dtype == RLX_F64 ? RLX_F64 : RLX_F32;
	bool part = s->share && s->share[i].part;
	struct update u = {
		.s = s, .how = how, .var = s->var[i], .name = e->name, .part = part,
		.w = cast_to(s->g, part ? s->share[i].w : s->w[i], dt),
		.lr = scaled(s->g, s->lr, e->lr),
	};
	rlx_value next;

	u.g = rlx_emit(s->g, mul, .a = cast_to(s->g, part ? s->share[i].d : s->d[i], dt),
		       .b = step_scalar(s, s->k, u.w));
	next = optimizer_update(&u);
	next = part ? zero_next(s, i, next) : step_next(s, s->w[i], next);
	if (s->o.ema != 0 && next.id)
		update_average(s, i, next);
}

static void update_buffers(struct step *s)
{
	rlx_value *next;
	uint32_t i;

	for (i = 0; i < s->v->n; i++) {
		next = vars_next(s->v, s->g, i);
		if (!next)
			continue;
		select_next(s->g, s->ok, rlx_graph_io_find(s->g, RLX_IO_STATE, s->v->e[i].name),
			    *next);
		*next = RLX_NONE;
	}
}

static bool check(struct step *s, const struct rlx_train_opts *o, rlx_value lr)
{
	struct rlx_type t = type_of(s->g, s->loss), l = type_of(s->g, lr);
	const char *bad = NULL;

	if (o && !o->size)
		bad = "the options' size is not set";
	else if (!rlx_dtype_is_float(t.dtype) || rlx_type_count(&t) != 1)
		bad = "the loss must be one float";
	else if (!rlx_dtype_is_float(l.dtype) || rlx_type_count(&l) != 1)
		bad = "the learning rate must be one float";
	else if (!(s->o.clip_norm >= 0) || !(s->o.ema >= 0 && s->o.ema < 1))
		bad = "clip_norm is not below 0, ema within 0 and 1";
	else if (s->o.scaling < 0 || s->o.scaling > RLX_SCALE_LOSS_DYNAMIC)
		bad = "scaling is one of enum rlx_loss_scaling";
	else if (s->o.scale0 != 0 && !(s->o.scale0 >= FLT_MIN && s->o.scale0 <= FLT_MAX))
		bad = "scale0 is a number that f32 has, above 0, or 0 for the default";
	else if (s->o.ranks > RLX_MOST_RANKS)
		bad = "there are too many ranks; see RLX_MOST_RANKS";
	else
		vars_check(s->g, s->v);
	if (bad)
		rlx_graph_fail(s->g, RLX_EINVAL, "train step: %s", bad);
	return !rlx_graph_error(s->g)->status;
}

static void outputs(struct step *s)
{
	struct rlx_graph *g = s->g;

	rlx_output(g, "loss", s->loss);
	rlx_output(g, "norm", cast_to(g, s->norm, RLX_F32));
	rlx_output(g, "ok", rlx_emit(g, cast, .x = s->ok, .to = RLX_I32));
	if (s->o.scaling)
		rlx_output(g, "scale", s->scale);
}

void rlx_train_step(struct rlx_graph *g, struct rlx_vars *v, rlx_value loss, rlx_value lr,
		    const struct rlx_train_opts *opts, const struct rlx_optimizer *how)
{
	struct step s = { .g = g, .v = v, .loss = loss };
	unsigned int i;

	if (!g || rlx_graph_error(g)->status)
		return;
	if (!v || !how || !how->size) {
		rlx_graph_fail(g, v ? RLX_EINVAL : RLX_ENOMEM,
			       "train step: variables and an optimizer with its size are needed");
		return;
	}
	if (opts)
		memcpy(&s.o, opts, opts->size < sizeof(s.o) ? opts->size : sizeof(s.o));
	rlx_scope_begin(g, RLX_SCOPE_AS_WRITTEN);
	if (check(&s, opts, lr) && optimizer_check(g, how) && list_trained(&s) &&
	    zero_begin(&s) && (!s.share || optimizer_has_parts(g, how))) {
		take_scale(&s);
		rlx_scope_end(g);	/* gradients are of the model's precision */
		derive(&s);
		rlx_scope_begin(g, RLX_SCOPE_AS_WRITTEN);
		control(&s, lr);
		for (i = 0; i < s.n && !rlx_graph_error(g)->status; i++)
			update_one(&s, i, how);
		if (!rlx_graph_error(g)->status)
			zero_gather(&s);
		update_buffers(&s);
		outputs(&s);
	}
	rlx_scope_end(g);
	rlx_free(s.share);
	rlx_free(s.var);
	rlx_free(s.w);
}
