/* SPDX-License-Identifier: MIT */
/*
 * The ops as data: which there are, what each takes, and emitting one by name with
 * arguments by name. For bindings, tools and importers; in C, rlx_emit() is checked by
 * the compiler. Everything comes from the ops' own rows (rlx/ops.h).
 *
 *	struct rlx_op_arg a[] = {
 *		{ .name = "x", .kind = RLX_ARG_VALUE, .value = x },
 *		{ .name = "axis", .kind = RLX_ARG_TEXT, .text = "-1" },
 *	};
 *	y = rlx_emit_named(g, "softmax", a, 2, __FILE__, __LINE__);
 */
#ifndef RLX_REFLECT_H
#define RLX_REFLECT_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * struct rlx_op_info - one op. The strings are the library's, for ever.
 * @size: set by the caller to its sizeof; what lies beyond is not written
 * @doc: one line: the formula
 * @n_field: inputs and attributes, in the order of the struct
 * @gradient: there is one, written or by what the op stands for
 * @fused: passes make it of simpler ops; models need not
 * @leaf: made by rlx_input(), rlx_param() or rlx_constant(), not by name
 */
struct rlx_op_info {
	size_t		 size;
	const char	*name, *doc;
	uint32_t	 n_field;
	bool		 gradient, fused, leaf;
};

/*
 * struct rlx_field_info - an input or an attribute.
 * @type: "input", "optional" (an input), "inputs" (any number), or an attribute's kind:
 *        i32 i64 f32 f64 bool dtype str ints floats type blob graph custom
 * @required: the op is refused without it. Of lists this is not said: what a list must
 *            hold follows from shapes.
 * @def: a number that is not given is this
 * @zero_too: and so if it is 0
 * @hint: of a required attribute: what to write; else NULL
 */
struct rlx_field_info {
	size_t		 size;
	const char	*name, *type;
	bool		 required, zero_too;
	double		 def;
	const char	*hint;
};

/* How many ops there are. Context: any thread. */
RLX_EXPORT uint32_t rlx_ops_count(void);

/**
 * rlx_ops_info - describe op @i, in order of names.
 * Context: any thread. Return: RLX_OK; RLX_ERANGE if there is no op @i; RLX_EINVAL
 * unless @out->size is set.
 */
RLX_EXPORT enum rlx_status rlx_ops_info(uint32_t i, struct rlx_op_info *out);

/**
 * rlx_ops_field - describe field @field of op @i.
 * Context, Return: as rlx_ops_info().
 */
RLX_EXPORT enum rlx_status rlx_ops_field(uint32_t i, uint32_t field,
					 struct rlx_field_info *out);

/**
 * rlx_ops_find - the number of the op called @name.
 * Context: any thread. Return: RLX_OK and *@out_i; RLX_ENOENT with the nearest name,
 * if one is near, in @err (which may be NULL).
 */
RLX_EXPORT enum rlx_status rlx_ops_find(const char *name, uint32_t *out_i,
					struct rlx_error *err);

/* What an argument holds; the member of that meaning is read. */
enum rlx_arg_kind {
	RLX_ARG_VALUE,	/* value: an input */
	RLX_ARG_VALUES,	/* values: inputs of a list */
	RLX_ARG_INT,	/* i: i32, i64, bool; f32, f64 too */
	RLX_ARG_REAL,	/* f: f32, f64 */
	RLX_ARG_INTS,	/* ints */
	RLX_ARG_REALS,	/* floats */
	RLX_ARG_TEXT,	/* text: a number, true, false, a dtype, a list [1,2], a string, a name */
	RLX_ARG_TYPE,	/* type: type; its dtype for a dtype */
	RLX_ARG_BLOB,	/* blob */
	RLX_ARG_GRAPH,	/* graph: a finished one */
};

struct rlx_op_arg {
	const char		*name;
	enum rlx_arg_kind	 kind;
	union {
		rlx_value		 value;
		struct rlx_values	 values;
		int64_t			 i;
		double			 f;
		struct rlx_ints		 ints;
		struct rlx_floats	 floats;
		const char		*text;
		struct rlx_type		 type;
		struct rlx_blob		*blob;
		struct rlx_graph	*graph;
	};
};

/**
 * rlx_emit_named - rlx_emit() by names. What is not among @args is not given.
 * @g: NULL does nothing; as with rlx_emit(), the first failure sticks to it
 * @args: @n of them, in any order; nothing of it is kept
 * @file, @line: where the caller stands, for messages; kept: a literal
 * Context: one thread per graph; allocates. Return: the first output, or none with the
 * graph's error: RLX_ENOENT for an unknown op or argument, with the nearest name;
 * RLX_EINVAL for a leaf, an argument given twice, a text or a kind that its type does
 * not take, a number out of its range; or what rlx_emit() leaves.
 */
RLX_EXPORT rlx_value rlx_emit_named(struct rlx_graph *g, const char *op,
				    const struct rlx_op_arg *args, uint32_t n,
				    const char *file, unsigned int line);

/**
 * enum rlx_support - who runs an op.
 * @RLX_SUPPORT_NONE:     nobody: it is refused
 * @RLX_SUPPORT_HOST:     the reference evaluator, which is slow, all of it or a part
 * @RLX_SUPPORT_EXPANDED: kernels of the simpler ops that it stands for
 * @RLX_SUPPORT_WIDENED:  a kernel for wider floats, to which what it takes is converted
 * @RLX_SUPPORT_NATIVE:   a kernel, for the types that it has; or it is a leaf
 */
enum rlx_support {
	RLX_SUPPORT_NONE,
	RLX_SUPPORT_HOST,
	RLX_SUPPORT_EXPANDED,
	RLX_SUPPORT_WIDENED,
	RLX_SUPPORT_NATIVE,
};

/**
 * rlx_node_support - who runs the op of a value of a graph, with its types and arguments.
 * @g:      finished, with sizes that are known
 * @v:      any output of the op
 * @device: as in struct rlx_compile_opts
 * @why:    of HOST and NONE what there is no kernel for, though RLX_OK is returned; else a
 *          failure's message. May be NULL
 *
 * The op is compiled by itself, without passes that fuse or simplify: constants that it takes are
 * constants, as some kernels need to know weights. In a whole program passes may do better.
 * Context: any thread; as rlx_compile(), which logs what the host runs; kernels of a GPU may be
 * compiled for it. Return: RLX_EINVAL (not finished, sizes not known), RLX_ERANGE (no such value),
 * RLX_ENODEV, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_node_support(const struct rlx_graph *g, rlx_value v, const char *device,
		 enum rlx_support *out, struct rlx_error *why);

#ifdef __cplusplus
}
#endif
#endif
