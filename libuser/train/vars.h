/* SPDX-License-Identifier: MIT */
/* The set of variables, as steps and layers see it. */
#ifndef RLX_TRAIN_VARS_H
#define RLX_TRAIN_VARS_H

#include "base/half.h"
#include "rlx/train.h"

/* Kept from the optimizer and the step: states that are no variables of the model. */
#define VAR_INTERNAL	(1u << 31)

struct var {
	char		*name;
	struct rlx_type	 type;
	struct rlx_fill	 fill;
	uint32_t	 flags;
	double		 lr;
	/* This state's values at first, not filled: an average begins at the weight. */
	char		*like;
};

/* What a buffer is to hold behind a step of a graph; several graphs may be built at a time. */
struct var_next {
	const struct rlx_graph	*g;	/* compared, never looked into */
	uint32_t		 var;	/* entry */
	rlx_value		 v;	/* RLX_NONE: this row is free */
};

struct rlx_vars {
	struct var	*e;
	uint32_t	 n, cap;
	struct var_next	*next;
	uint32_t	 n_next, cap_next;
	char		*scope;		/* "a.b." */
	uint32_t	 cap_scope;
	uint32_t	*from;		/* where each scope begins in it */
	uint32_t	 n_from, cap_from;
	bool		 no_memory, no_name;	/* for a scope that was to be entered */
};

/* Entry of a name as it is, without scopes; NULL if there is none. */
struct var *vars_find(const struct rlx_vars *v, const char *name);
/* Were all scopes of @v entered? A sticky error says why not. */
bool vars_check(struct rlx_graph *g, const struct rlx_vars *v);
/* Where the next value of entry @var in @g is; NULL if none was said. */
rlx_value *vars_next(const struct rlx_vars *v, const struct rlx_graph *g, uint32_t var);
/* A state of the optimizer or the step: @prefix and @name. It begins as @fill says. */
rlx_value vars_state(struct rlx_graph *g, struct rlx_vars *v, const char *prefix,
		     const char *name, struct rlx_type type, struct rlx_fill fill);
/* Element @i of @to, which is f64, f32, f16 or bf16, becomes @x. */
void float_store(enum rlx_dtype dt, void *to, int64_t i, double x);
/* Element @i of @from, which is one of these; merging adapters has it in its inner loop. */
static inline double float_load(enum rlx_dtype dt, const void *from, int64_t i)
{
	switch (dt) {
	case RLX_F64:	return ((const double *)from)[i];
	case RLX_F32:	return (double)((const float *)from)[i];
	case RLX_F16:	return rlx_minifloat_to(RLX_MF_F16, ((const uint16_t *)from)[i]);
	default:	return rlx_minifloat_to(RLX_MF_BF16, ((const uint16_t *)from)[i]);
	}
}
/* Every state that @init is to begin as another is. */
void vars_like(struct rlx_graph *g, struct rlx_vars *v, const char *prefix, const char *name);

/* The type of a value that may be none. */
static inline struct rlx_type type_of(const struct rlx_graph *g, rlx_value v)
{
	const struct rlx_type *t = rlx_type_of(g, v);
	struct rlx_type none = { 0 };

	return t ? *t : none;
}

/* @x in @dt, itself if it is that already. */
static inline rlx_value cast_to(struct rlx_graph *g, rlx_value x, enum rlx_dtype dt)
{
	return type_of(g, x).dtype == dt ? x : rlx_emit(g, cast, .x = x, .to = dt);
}

/* Constants of a value's dtype, and what is done with them. */
static inline rlx_value like_const(struct rlx_graph *g, rlx_value v, double x)
{
	return rlx_scalar_const(g, type_of(g, v).dtype ? type_of(g, v).dtype : RLX_F32, x);
}

static inline rlx_value scaled(struct rlx_graph *g, rlx_value v, double x)
{
	return x == 1 ? v : rlx_emit(g, mul, .a = v, .b = like_const(g, v, x));
}

static inline rlx_value plus(struct rlx_graph *g, rlx_value v, double x)
{
	return x == 0 ? v : rlx_emit(g, add, .a = v, .b = like_const(g, v, x));
}

#endif
