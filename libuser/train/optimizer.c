// SPDX-License-Identifier: MIT
/* Updates of one variable by each optimizer: see struct rlx_optimizer for the formulas. */
#include <math.h>
#include <string.h>

#include "train/step.h"
#include "train/zero.h"

static rlx_value add(struct update *u, rlx_value a, rlx_value b)
{
	return rlx_emit(u->s->g, add, .a = a, .b = b);
}

static rlx_value sub(struct update *u, rlx_value a, rlx_value b)
{
	return rlx_emit(u->s->g, sub, .a = a, .b = b);
}

static rlx_value mul(struct update *u, rlx_value a, rlx_value b)
{
	return rlx_emit(u->s->g, mul, .a = a, .b = b);
}

static rlx_value div_by(struct update *u, rlx_value a, rlx_value b)
{
	return rlx_emit(u->s->g, div, .a = a, .b = b);
}

/* @x times an f64 scalar, in the dtype of the update. */
static rlx_value times(struct update *u, rlx_value x, rlx_value k)
{
	return mul(u, x, step_scalar(u->s, k, x));
}

/* a + k (b - a) */
static rlx_value towards(struct update *u, rlx_value a, rlx_value b, double k)
{
	return add(u, a, scaled(u->s->g, sub(u, b, a), k));
}

/* A state of the optimizer like the variable, or of another shape. */
static rlx_value state(struct update *u, const char *prefix, struct rlx_type t)
{
	const char *name = u->s->v->e[u->var].name;

	t.dtype = type_of(u->s->g, u->w).dtype;
	if (u->part)
		prefix = rlx_name(ZERO_PREFIX "%s", prefix);
	return vars_state(u->s->g, u->s->v, prefix, name, t, RLX_ZEROS);
}

/* 1 - beta^t, an f64 scalar. */
static rlx_value bias_correction(struct update *u, double beta)
{
	struct rlx_graph *g = u->s->g;
	rlx_value p = rlx_emit(g, pow, .a = like_const(g, u->s->t, beta), .b = u->s->t);

	return rlx_emit(g, sub, .a = like_const(g, p, 1), .b = p);
}

/* (1 - lr decay) w */
static rlx_value decayed(struct update *u)
{
	struct rlx_graph *g = u->s->g;

	if (u->decay == 0)
		return u->w;
	return times(u, u->w, plus(g, scaled(g, u->lr, -u->decay), 1));
}

static rlx_value sgd(struct update *u)
{
	struct rlx_graph *g = u->s->g;
	double mu = u->how->momentum;
	rlx_value d = u->g, b;

	if (u->decay != 0)
		d = add(u, d, scaled(g, u->w, u->decay));
	if (mu != 0) {
		b = state(u, "sgd.b.", type_of(g, u->w));
		b = step_next(u->s, b, add(u, scaled(g, b, mu), d));
		d = u->how->nesterov ? add(u, d, scaled(g, b, mu)) : b;
	}
	return sub(u, u->w, times(u, d, u->lr));
}

static rlx_value adamw(struct update *u)
{
	struct rlx_graph *g = u->s->g;
	double b1 = u->how->beta1 != 0 ? u->how->beta1 : 0.9;
	double b2 = u->how->beta2 != 0 ? u->how->beta2 : 0.999;
	double eps = u->how->eps != 0 ? u->how->eps : 1e-8;
	rlx_value m = state(u, "adamw.m.", type_of(g, u->w));
	rlx_value v = state(u, "adamw.v.", type_of(g, u->w)), root, rate;

	m = step_next(u->s, m, towards(u, m, u->g, 1 - b1));
	v = step_next(u->s, v, add(u, scaled(g, v, b2), scaled(g, mul(u, u->g, u->g), 1 - b2)));
	rate = div_by(u, u->lr, bias_correction(u, b1));
	root = rlx_emit(g, sqrt, .x = bias_correction(u, b2));
	root = div_by(u, rlx_emit(g, sqrt, .x = v), step_scalar(u->s, root, v));
	return sub(u, decayed(u), div_by(u, times(u, m, rate), plus(g, root, eps)));
}

static rlx_value lion(struct update *u)
{
	struct rlx_graph *g = u->s->g;
	double b1 = u->how->beta1 != 0 ? u->how->beta1 : 0.9;
	double b2 = u->how->beta2 != 0 ? u->how->beta2 : 0.99;
	rlx_value m = state(u, "lion.m.", type_of(g, u->w)), c;

	/* of the old m: it is replaced behind this */
	c = rlx_emit(g, sign, .x = add(u, scaled(g, m, b1), scaled(g, u->g, 1 - b1)));
	if (u->decay != 0)
		c = add(u, c, scaled(g, u->w, u->decay));
	c = sub(u, u->w, times(u, c, u->lr));
	step_next(u->s, m, add(u, scaled(g, m, b2), scaled(g, u->g, 1 - b2)));
	return c;
}

/* Five steps of Newton and Schulz towards the nearest matrix of orthonormal rows. */
static rlx_value orthogonal(struct update *u, rlx_value x)
{
	struct rlx_graph *g = u->s->g;
	rlx_value norm, a, b;
	int i;

	norm = rlx_emit(g, sqrt, .x = rlx_emit(g, reduce, .x = mul(u, x, x)));
	x = div_by(u, x, rlx_emit(g, max, .a = norm, .b = like_const(g, norm, 1e-7)));
	for (i = 0; i < 5; i++) {
		a = rlx_emit(g, fused_matmul, .a = x, .b = x, .trans_b = true);
		b = rlx_emit(g, matmul, .a = a, .b = a);
		b = add(u, scaled(g, a, -4.7750), scaled(g, b, 2.0315));
		x = add(u, scaled(g, x, 3.4445), rlx_emit(g, matmul, .a = b, .b = x));
	}
	return x;
}

static rlx_value muon(struct update *u)
{
	struct rlx_graph *g = u->s->g;
	double mu = u->how->momentum != 0 ? u->how->momentum : 0.95, scale;
	struct rlx_type t = type_of(g, u->w);
	rlx_value b = state(u, "muon.b.", t), x;
	int64_t rows = t.dim[0], cols = t.dim[1], ins = rows, outs = cols;

	b = step_next(u->s, b, towards(u, b, u->g, 1 - mu));
	x = u->how->nesterov ? towards(u, u->g, b, mu) : b;
	if (t.rank == 4) {	/* [out, in, h, w]: a filter is a row */
		cols = t.dim[1] * t.dim[2] * t.dim[3];
		x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(rows, cols));
		outs = rows;
		ins = cols;
	}
	if (rows > cols)
		x = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(1, 0));
	x = orthogonal(u, x);
	if (rows > cols)
		x = rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(1, 0));
	if (t.rank == 4)
		x = rlx_emit(g, reshape, .x = x, .shape = { t.dim, t.rank });
	scale = sqrt(fmax(1, (double)outs / (double)(ins ? ins : 1)));
	return sub(u, decayed(u), times(u, x, scaled(g, u->lr, scale)));
}

static rlx_value mean_over(struct update *u, rlx_value x, int64_t axis)
{
	return rlx_emit(u->s->g, reduce, .x = x, .axes = RLX_INTS(axis), .kind = RLX_REDUCE_MEAN,
			.keep_dims = true);
}

static rlx_value rms(struct update *u, rlx_value x)
{
	struct rlx_graph *g = u->s->g;

	return rlx_emit(g, sqrt, .x = rlx_emit(g, reduce, .x = mul(u, x, x),
					       .kind = RLX_REDUCE_MEAN));
}

/* A state moved towards @x by t^-.8. */
static rlx_value averaged(struct update *u, const char *prefix, rlx_value x)
{
	struct rlx_graph *g = u->s->g;
	rlx_value s = state(u, prefix, type_of(g, x)), k;

	k = rlx_emit(g, pow, .a = u->s->t, .b = like_const(g, u->s->t, -0.8));
	return step_next(u->s, s, add(u, s, times(u, sub(u, x, s), k)));
}

static rlx_value adafactor(struct update *u)
{
	struct rlx_graph *g = u->s->g;
	struct rlx_type t = type_of(g, u->w);
	double clip = u->how->clip != 0 ? u->how->clip : 1, eps = 0x1p-23;
	rlx_value q = mul(u, u->g, u->g), v, r, c, rate, x;

	if (t.rank >= 2) {
		r = averaged(u, "adafactor.r.", mean_over(u, q, -1));
		c = averaged(u, "adafactor.c.", mean_over(u, q, -2));
		v = mean_over(u, r, -2);
		v = rlx_emit(g, max, .a = v, .b = like_const(g, v, eps));
		v = div_by(u, mul(u, r, c), v);
	} else {
		v = averaged(u, "adafactor.v.", q);
	}
	v = rlx_emit(g, max, .a = v, .b = like_const(g, v, eps * eps));
	x = mul(u, u->g, rlx_emit(g, rsqrt, .x = v));
	/* rate and clip are scalars, in f64 */
	rate = rlx_emit(g, rsqrt, .x = u->s->t);
	rate = rlx_emit(g, min, .a = u->lr, .b = rate);
	v = cast_to(g, rms(u, u->w), RLX_F64);
	rate = mul(u, rate, rlx_emit(g, max, .a = v, .b = like_const(g, v, 1e-3)));
	v = scaled(g, cast_to(g, rms(u, x), RLX_F64), 1 / clip);
	rate = div_by(u, rate, rlx_emit(g, max, .a = v, .b = like_const(g, v, 1)));
	return sub(u, decayed(u), times(u, x, rate));
}

/* What the variables get that are no matrices. */
static rlx_value muon_or_rest(struct update *u)
{
	struct rlx_optimizer rest = { .size = sizeof(rest), .kind = RLX_ADAMW,
				      .decay = u->how->decay };
	struct update other = *u;

	if (u->s->v->e[u->var].flags & RLX_VAR_MATRIX)
		return muon(u);
	other.how = u->how->rest ? u->how->rest : &rest;
	return optimizer_update(&other);
}

rlx_value optimizer_update(struct update *u)
{
	u->decay = u->s->v->e[u->var].flags & RLX_VAR_NO_DECAY ? 0 : u->how->decay;
	switch (u->how->kind) {
	case RLX_SGD: return sgd(u);
	case RLX_ADAMW: return adamw(u);
	case RLX_LION: return lion(u);
	case RLX_MUON: return muon_or_rest(u);
	default: return adafactor(u);
	}
}

static bool within(double x, double lo, double below)
{
	return x >= lo && x < below;
}

bool optimizer_has_parts(struct rlx_graph *g, const struct rlx_optimizer *how)
{
	const char *name = how->kind == RLX_MUON ? "muon" : "adafactor";

	if (how->kind != RLX_MUON && how->kind != RLX_ADAFACTOR)
		return true;
	rlx_graph_fail(g, RLX_ENOSUP, "train step: %s needs whole tensors, and zero gives each "
		       "rank a part; sgd, adamw and lion go by elements", name);
	return false;
}

bool optimizer_check(struct rlx_graph *g, const struct rlx_optimizer *how)
{
	const char *bad = NULL;

	if (how->size < sizeof(*how))
		bad = "its size is not that of struct rlx_optimizer";
	else if (how->kind < RLX_SGD || how->kind > RLX_ADAFACTOR)
		bad = "kind is not one of enum rlx_optimizer_kind";
	else if (!within(how->momentum, 0, 1) || !within(how->beta1, 0, 1) ||
		 !within(how->beta2, 0, 1))
		bad = "momentum, beta1 and beta2 are from 0 on and below 1";
	else if (!within(how->decay, 0, INFINITY) || !within(how->eps, 0, INFINITY) ||
		 !within(how->clip, 0, INFINITY))
		bad = "decay, eps and clip are finite and not below 0";
	else if (how->rest && (how->kind != RLX_MUON || how->rest->kind == RLX_MUON))
		bad = "rest is for RLX_MUON, and another kind";
	if (bad)
		rlx_graph_fail(g, RLX_EINVAL, "optimizer: %s", bad);
	return !bad && (!how->rest || optimizer_check(g, how->rest));
}
