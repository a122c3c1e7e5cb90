/* SPDX-License-Identifier: MIT */
/* Sizes that are known later, as a graph keeps them, and what they are for given names. */
#ifndef RLX_IR_DIMS_H
#define RLX_IR_DIMS_H

#include "ir/graph.h"
#include "rlx/dims.h"

/*
 * A size is a number in [RLX_DIM_FIRST, RLX_DIM_FIRST + RLX_DIM_MOST): where it stands in the
 * table. No op gives such numbers another meaning.
 */
#define RLX_DIM_FIRST	(-((int64_t)1 << 62))
enum { RLX_DIM_MOST = 1 << 20, RLX_DIM_SAMPLES = 8, RLX_DIM_NAME_MAX = 31, RLX_DIM_PARTS = 16,
       RLX_DIM_NAMES_MOST = 1024 };
/* Room for one as text. */
enum { RLX_DIM_TEXT = (RLX_DIM_NAME_MAX + 8) * RLX_DIM_PARTS };

enum rlx_dim_kind {
	RLX_DIM_NAME,	/* @a to @b */
	RLX_DIM_ADD, RLX_DIM_MUL, RLX_DIM_DIV,
	RLX_DIM_VALUE,	/* of value @a, along axis @b: only its op knows */
};

struct rlx_dim {
	enum rlx_dim_kind kind;
	uint32_t	 parts;		/* operands that are no expressions */
	const char	*name;
	int64_t		 a, b;
	int64_t		 sample[RLX_DIM_SAMPLES];
};

/*
 * @type: of each value, with the sizes of each sample. Different names have different rows of
 * samples, unless their ranges are too small for that.
 */
struct rlx_dims {
	struct rlx_dim	*e;
	uint32_t	 n, cap;
	uint32_t	*name, n_name, cap_name;	/* which of @e are names */
	struct rlx_map	 by;		/* a name, or kind and operands -> place */
	struct rlx_type	*type[RLX_DIM_SAMPLES];
	uint32_t	 cap_type[RLX_DIM_SAMPLES];
};

static inline bool rlx_is_dim(int64_t x)
{
	return x >= RLX_DIM_FIRST && x < RLX_DIM_FIRST + RLX_DIM_MOST;
}

static inline uint32_t rlx_dim_place(int64_t x)
{
	return (uint32_t)(x - RLX_DIM_FIRST);
}

/*
 * What dimensions of @g are: a sample's; for RLX_DIM_NAMES what follows from names' sizes, which
 * stand in @size by place; for RLX_DIM_ALL what stands there of each, and bodies stay as they are.
 */
enum { RLX_DIM_NAMES = -1, RLX_DIM_ALL = -2 };
struct rlx_dim_at {
	const struct rlx_graph	*g;
	int			 sample;
	const int64_t		*size;
	const struct rlx_graph	*bound;	/* whose values RLX_DIM_VALUE asks; NULL: unknown */
};

/* @a (kind) @b; false: beyond 64 bits, a number that stands for a size, or divided by 0. */
bool rlx_dim_compute(enum rlx_dim_kind kind, int64_t a, int64_t b, int64_t *out);
/* The size of value @value along @axis, of which only these samples are known; -1 with an error. */
int64_t rlx_dim_of_value(struct rlx_graph *g, uint32_t value, uint32_t axis,
			 const int64_t *sample);

/* RLX_EAGAIN is no failure: it depends on a value that is not there yet. */
enum rlx_status rlx_dim_eval(const struct rlx_dim_at *at, int64_t x, int64_t *out,
			     struct rlx_error *err);

/* Arguments with sizes in place of numbers that stand for them; what bodies name is bound, too. */
struct rlx_args_at {
	const struct rlx_op_def	*def;
	struct rlx_bump		 bump;
	void			*args;
};

enum rlx_status rlx_args_at(struct rlx_args_at *c, const struct rlx_dim_at *at,
			    const struct rlx_op_def *def, const void *args,
			    struct rlx_error *err);
void rlx_args_at_fini(struct rlx_args_at *c);

/* In a graph without dimensions: RLX_EINVAL if an argument stands for another graph's. */
enum rlx_status rlx_args_are_plain(const struct rlx_op_def *def, const void *args,
				   struct rlx_error *err);

/* The op's outputs in a template: @q as for rlx_op_infer(), whose inputs are the values @in. */
enum rlx_status rlx_dims_infer(struct rlx_graph *g, struct rlx_infer *q, const uint32_t *in);
void rlx_dims_fini(struct rlx_dims *d);

/* "b", "(b*s)", "%5[1]", "7"; a type with them: as snprintf(). */
int rlx_dim_print(const struct rlx_graph *g, int64_t x, char *buf, size_t size);
int rlx_graph_type_print(const struct rlx_graph *g, const struct rlx_type *t, char *buf,
			 size_t size);

/* The place of a name, or UINT32_MAX. */
uint32_t rlx_dim_find(const struct rlx_graph *g, const char *name);

/* rlx_graph_bind() with the sizes @size by place, where names' alone are read. */
enum rlx_status rlx_graph_bind_sizes(const struct rlx_graph *g, const int64_t *size,
				     struct rlx_graph **out, struct rlx_error *err);

/*
 * The names' sizes that types of some leaves give, by place into @size, -1 where none does.
 * @whole: all are to be had
 * RLX_ENOENT (no such leaf), RLX_ESHAPE (a rank or size that does not fit, or names' sizes that do
 * not agree), RLX_ERANGE, RLX_EINVAL (@whole, and a name follows from no leaf). dtypes are not
 * looked at.
 */
struct rlx_leaf_type {
	const char		*name;
	const struct rlx_type	*type;
};

enum rlx_status rlx_dims_solve(const struct rlx_graph *g, const struct rlx_leaf_type *leaf,
			       uint32_t n, bool whole, int64_t *size, struct rlx_error *err);

#endif
