/* SPDX-License-Identifier: MIT */
/*
 * Dimensions with names: graphs whose sizes are known later.
 *
 *	int64_t b = rlx_dim(g, "b", 1, 64), s = rlx_dim(g, "s", 1, 512);
 *	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, 4));
 *
 *	rlx_output(g, "y", rlx_emit(g, reshape, .x = x,
 *				    .shape = RLX_INTS(rlx_dim_mul(g, b, s), 4)));
 *
 * What rlx_dim() and its kin return is a negative number that stands for a size: in types of
 * inputs, params and states, and wherever an op takes sizes as 64-bit integers, alone or in
 * lists. rlx_type_of() gives such numbers as well, of every size that is not the same for all.
 * They are numbers of one graph, and C's arithmetic does not work on them.
 *
 * A graph that has them is a template. Types of its values are told apart by trying each op
 * with eight sizes of each name, the larger ones of its range (up to 255 beyond the smallest):
 * what an op refuses then, is refused where it is emitted. So say what is so: of a size that
 * must be even "rlx_dim_mul(g, t, 2)", of a convolution's image its kernel's size as @min.
 *
 * rlx_graph_bind() makes an ordinary graph of a template; rlx_model_from_graph() (rlx/model.h)
 * runs it for the sizes that come. What compiles, inlines, derives, maps, counts or writes graphs
 * takes them bound alone. A template's bodies (of if, while, scan) name dimensions of their own;
 * those of one name are of one size.
 */
#ifndef RLX_DIMS_H
#define RLX_DIMS_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * rlx_dim - a size that is known later.
 * @name: letters, digits and "_", no digit first, at most 31; one number for each name
 * @min:  the smallest that it will be, 0 at least
 * @max:  the largest, at least @min
 *
 * Context: one thread per graph; allocates. Return: a number below -2^61; -1, and a sticky
 * error: RLX_EINVAL (the name; finished), RLX_ERANGE (min and max; over 1,024 names),
 * RLX_EEXIST (the name is there with another range), RLX_ENOMEM.
 */
RLX_EXPORT int64_t rlx_dim(struct rlx_graph *g, const char *name, int64_t min, int64_t max);

/**
 * rlx_dim_add, rlx_dim_mul, rlx_dim_div - a + b, a * b, and a / b rounded down.
 * @a, @b: sizes of @g, or plain numbers; to subtract, add a product with -1
 *
 * Context: one thread per graph; allocates. Return: a size, the same one for the same operands, or
 * a plain number if both are plain; -1, and a sticky error: RLX_EINVAL (no size of @g; finished;
 * a divisor that is 0), RLX_ERANGE (over 16 operands, or beyond 64 bits), RLX_ENOMEM.
 */
RLX_EXPORT int64_t rlx_dim_add(struct rlx_graph *g, int64_t a, int64_t b);
RLX_EXPORT int64_t rlx_dim_mul(struct rlx_graph *g, int64_t a, int64_t b);
RLX_EXPORT int64_t rlx_dim_div(struct rlx_graph *g, int64_t a, int64_t b);

/* A named dimension: its name, which lives as long as the graph, and its range. */
struct rlx_dim_info {
	const char	*name;
	int64_t		 min, max;
};

/* How many named dimensions @g has (0: it is no template), and the @i'th by rlx_dim()'s calls. */
RLX_EXPORT unsigned int rlx_graph_dim_count(const struct rlx_graph *g);
RLX_EXPORT bool rlx_graph_dim_at(const struct rlx_graph *g, unsigned int i,
				 struct rlx_dim_info *out);

/* A name and its size. */
struct rlx_binding {
	const char	*name;
	int64_t		 size;
};

/**
 * rlx_graph_bind - an ordinary graph of a template.
 * @g: finished; not changed, and may be bound any number of times
 * @b: @n names with sizes, of all that @g has
 *
 * Types are inferred anew by the ops, and must be what @g says of them. Constants are shared, file
 * and line of nodes go with them. A graph without names is given back itself.
 * Context: any thread; allocates. Ownership: *@out has one reference, the caller's.
 * Return: RLX_EINVAL (not finished; a name of @g without a size, or one twice), RLX_ENOENT (@g has
 * no such name), RLX_ERANGE (a size outside its range, or one computed beyond 64 bits), what an op
 * says of these sizes, RLX_ESHAPE (a type that is not what @g says), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_graph_bind(const struct rlx_graph *g, const struct rlx_binding *b, unsigned int n,
	       struct rlx_graph **out, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
