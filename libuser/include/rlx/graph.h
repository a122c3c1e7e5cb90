/* SPDX-License-Identifier: MIT */
/*
 * Building graphs. A graph is an append-only list of nodes over typed values
 * with concrete shapes (rlx/dims.h: or named ones):
 *
 *	struct rlx_graph *g = rlx_graph_new("block");
 *	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 16, 64));
 *	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 64, 64));
 *
 *	rlx_output(g, "y", rlx_emit(g, softmax, .x = rlx_emit(g, matmul, .a = x, .b = w),
 *				    .axis = -1));
 *	st = rlx_graph_finish(g);
 *
 * The first failure sticks to the graph with the file and line of the call that
 * made it; later calls do nothing and return none. A model is thus written
 * without a check per line and asked once, at rlx_graph_finish(). Every function
 * takes a NULL graph (out of memory in rlx_graph_new()) and then does nothing.
 */
#ifndef RLX_GRAPH_H
#define RLX_GRAPH_H

#include <stdio.h>

#include "rlx/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * rlx_graph_new - an empty graph with one reference, the caller's.
 * @name: copied; may be NULL
 * Context: any thread; allocates. Return: NULL if memory runs out.
 */
RLX_EXPORT struct rlx_graph *rlx_graph_new(const char *name);

/* Take and drop a reference; the last drop frees. Context: any thread. */
RLX_EXPORT struct rlx_graph *rlx_graph_get(struct rlx_graph *g);
RLX_EXPORT void rlx_graph_put(struct rlx_graph *g);

/**
 * rlx_graph_error - the first failure, or one with status RLX_OK.
 * Ownership: lives as long as @g; never NULL, also for a NULL @g.
 */
RLX_EXPORT const struct rlx_error *rlx_graph_error(const struct rlx_graph *g);

/**
 * rlx_graph_fail - stick a failure to a graph that is being built, for those who write
 * builders on top; the first one stays. @st: not RLX_OK. Context: does not allocate.
 */
RLX_EXPORT void rlx_graph_fail(struct rlx_graph *g, enum rlx_status st, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * rlx_graph_finish - close a graph for building and verify it.
 *
 * After success the graph is immutable and may be read by many threads; a graph
 * without outputs is refused. May be called again: the result is the same.
 * Return: RLX_OK or the first failure's status.
 */
RLX_EXPORT enum rlx_status __rlx_must_check rlx_graph_finish(struct rlx_graph *g);

/**
 * rlx_input, rlx_param - named leaves: a tensor given at each run, a tensor set
 * once (a weight).
 * @name: copied; unique in the graph and not empty
 * Context: one thread per graph; allocates.
 * Return: the value, or none with a sticky error (RLX_EINVAL, RLX_EEXIST,
 * RLX_ESHAPE, RLX_ENOMEM).
 */
#define rlx_input(g, name, ...) \
	rlx_input_at((g), (name), (__VA_ARGS__), __FILE__, __LINE__)
#define rlx_param(g, name, ...) \
	rlx_param_at((g), (name), (__VA_ARGS__), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_input_at(struct rlx_graph *g, const char *name,
				  struct rlx_type type, const char *file,
				  unsigned int line);
RLX_EXPORT rlx_value rlx_param_at(struct rlx_graph *g, const char *name,
				  struct rlx_type type, const char *file,
				  unsigned int line);

/**
 * rlx_state - a named leaf that runs read and replace: a weight that is trained, a moment, a
 * counter. It lives in one place, with the session or in a struct rlx_states (rlx/run.h).
 * Name, context and errors as rlx_input(); names of states, inputs and params are of one
 * space.
 */
#define rlx_state(g, name, ...) \
	rlx_state_at((g), (name), (__VA_ARGS__), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_state_at(struct rlx_graph *g, const char *name,
				  struct rlx_type type, const char *file,
				  unsigned int line);

/**
 * rlx_state_next - say what @state holds after a run.
 * @state: of rlx_state()
 * @v:     of its type
 *
 * Once for a state; without it the state stays as it is. Everything else in a run reads what
 * the state held before; it is replaced at the end, in its place if nothing reads the old
 * value afterwards, else by a copy (rlx_program_report() counts them). A run that fails
 * before replaces nothing. In the text form it is an output "next(<name>)".
 * Errors stick: RLX_EINVAL (@state is no state), RLX_ESHAPE, RLX_EEXIST.
 */
RLX_EXPORT void rlx_state_next(struct rlx_graph *g, rlx_value state, rlx_value v);

/**
 * rlx_scope_begin, rlx_scope_end - nodes emitted in between carry @scope, and so does what
 * passes make of them. Scopes nest; equal nodes are not merged across scopes.
 * @RLX_SCOPE_AS_WRITTEN: the precision policy of rlx_compile() leaves them
 * @RLX_SCOPE_REMAT:      computed apart from equal nodes outside, once for each such scope;
 *                        rlx_vjp() keeps nothing inside that nothing outside reads, and computes
 *                        once more what it needs of it (inside several: of the outermost)
 * @RLX_SCOPE_NOGRAD:     rlx_vjp() passes no gradient through them
 * Errors stick: RLX_EINVAL (an end without a beginning, over 32 deep, unknown bits).
 */
enum rlx_scope {
	RLX_SCOPE_AS_WRITTEN	= 1u << 0,
	RLX_SCOPE_REMAT		= 1u << 1,
	RLX_SCOPE_NOGRAD	= 1u << 2,
};
RLX_EXPORT void rlx_scope_begin(struct rlx_graph *g, uint32_t scope);
RLX_EXPORT void rlx_scope_end(struct rlx_graph *g);

/**
 * struct rlx_inline - how a graph becomes a part of another.
 * @size:   sizeof(struct rlx_inline)
 * @prefix: put before the names of leaves that are made; NULL: nothing
 * @name:   @n names of inputs, params and states of the part ...
 * @value:  ... and the values that take their places, of their types
 * @flags:  RLX_INLINE_TRAIN: params become states
 */
enum { RLX_INLINE_TRAIN = 1u << 0 };
struct rlx_inline {
	size_t			 size;
	const char		*prefix;
	const char *const	*name;
	const rlx_value		*value;
	unsigned int		 n;
	uint32_t		 flags;
};

/**
 * rlx_graph_inline - emit what another graph computes.
 * @g:    open
 * @part: finished; not changed
 * @how:  NULL: every leaf is made anew, under its own name
 * @out:  receives @part's outputs, in their order; may be NULL
 *
 * Leaves of @part that @how does not name become leaves of @g, and the next values of states
 * go with them; a state whose place a value takes is not updated. Its constants and bodies
 * are shared.
 * Return: RLX_OK or what sticks to @g: RLX_EINVAL (not finished; a value of another graph),
 * RLX_ENOENT (no such leaf), RLX_ESHAPE, RLX_EEXIST (a name that @g has), RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status
rlx_graph_inline(struct rlx_graph *g, const struct rlx_graph *part,
		 const struct rlx_inline *how, rlx_value *out);

/**
 * rlx_constant - a tensor known now. @data: dense, row-major, of the type's
 * bytes; copied. rlx_constant_blob() shares @blob (a reference is taken).
 */
#define rlx_constant(g, type, data) \
	rlx_constant_at((g), (type), (data), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_constant_at(struct rlx_graph *g, struct rlx_type type,
				     const void *data, const char *file,
				     unsigned int line);
RLX_EXPORT rlx_value rlx_constant_blob(struct rlx_graph *g, struct rlx_type type,
				       struct rlx_blob *blob);
/* A scalar constant of @dt holding @x rounded to it. */
RLX_EXPORT rlx_value rlx_scalar_const(struct rlx_graph *g, enum rlx_dtype dt,
				      double x);

/**
 * rlx_blob_new - bytes shared by reference count between graphs and programs.
 * @data:    kept, not copied; must stay valid and unchanged until @release
 * @bytes:   size of @data
 * @release: called once with @ctx when the last reference goes; may be NULL
 * Return: NULL if memory runs out (@release is then not called).
 */
RLX_EXPORT struct rlx_blob *rlx_blob_new(const void *data, size_t bytes,
					 void (*release)(void *ctx), void *ctx);
/* As rlx_blob_new(), of a private copy; also NULL if @data is and @bytes are not 0. */
RLX_EXPORT struct rlx_blob *rlx_blob_copy(const void *data, size_t bytes);
RLX_EXPORT struct rlx_blob *rlx_blob_get(struct rlx_blob *b);
RLX_EXPORT void rlx_blob_put(struct rlx_blob *b);
RLX_EXPORT const void *rlx_blob_data(const struct rlx_blob *b);
RLX_EXPORT size_t rlx_blob_bytes(const struct rlx_blob *b);

/**
 * rlx_blob_set_source - say where the bytes lie in a file that is mapped.
 * @source: identifies the file and its version, as rlx_safetensors_source() does;
 *          never the same for other contents
 * @offset: of the bytes in it
 *
 * What is prepared of the blob is then known again in another process, without
 * reading the bytes (rlx/store.h). Context: before the blob is shared.
 */
RLX_EXPORT void rlx_blob_set_source(struct rlx_blob *b, uint64_t source,
				    uint64_t offset);

/**
 * rlx_output - name a value as a result. A value may be an output under several
 * names; the order of calls is the order of outputs.
 */
#define rlx_output(g, name, v) \
	rlx_output_at((g), (name), (v), __FILE__, __LINE__)
RLX_EXPORT void rlx_output_at(struct rlx_graph *g, const char *name, rlx_value v,
			      const char *file, unsigned int line);

/**
 * rlx_emit - append one op. Arguments are named: inputs and attributes of the
 * op's struct (rlx/ops.h). An optional input left out is none; an attribute left out
 * has the default that its row there says, or is refused if it is required.
 * Context: one thread per graph; allocates. Ownership: the value belongs to @g;
 * lists and strings are copied, sub-graphs and blobs referenced.
 * Return: the op's first output; rlx_out() gives the others.
 *
 * In C++ too, from C++20 on (earlier as an extension of gcc and clang); there members are
 * named in the order of the struct.
 */
#ifndef __cplusplus
#define rlx_emit(g, op, ...)						\
	RLX_OVERRIDE(rlx_emit_raw((g), &rlx_op_##op,			\
		&(struct rlx_op_##op){ RLX_INIT_##op __VA_ARGS__ },	\
		sizeof(struct rlx_op_##op), __FILE__, __LINE__))
#else
#define rlx_emit(g, op, ...)						\
	rlx_cxx::emit((g), &rlx_op_##op, rlx_args_##op{ __VA_ARGS__ }, __FILE__, __LINE__)
#endif

/**
 * rlx_emit_raw - what rlx_emit() expands to; for C++ and bindings.
 * @args: the op's struct as the caller's header declares it
 * @size: its size there; bytes the library does not know must be 0
 */
RLX_EXPORT rlx_value rlx_emit_raw(struct rlx_graph *g, const struct rlx_op_ref *op,
				  const void *args, size_t size,
				  const char *file, unsigned int line);

/* Output @i of the op that gave @v (its first output); none if there is none. */
RLX_EXPORT rlx_value rlx_out(const struct rlx_graph *g, rlx_value v,
			     unsigned int i);

/* The type of a value; NULL for none. Valid until the next call that emits. */
RLX_EXPORT const struct rlx_type *rlx_type_of(const struct rlx_graph *g,
					      rlx_value v);

/*
 * Names and counts of inputs, params, outputs and states, in order of creation. The next
 * values of states are no outputs here.
 */
enum rlx_io { RLX_IO_INPUT, RLX_IO_PARAM, RLX_IO_OUTPUT, RLX_IO_STATE };
RLX_EXPORT unsigned int rlx_graph_io_count(const struct rlx_graph *g, enum rlx_io io);
RLX_EXPORT const char *rlx_graph_io_name(const struct rlx_graph *g, enum rlx_io io,
					 unsigned int i);
RLX_EXPORT rlx_value rlx_graph_io_value(const struct rlx_graph *g, enum rlx_io io,
					unsigned int i);

/* The value of a name; none if there is no such input, param, output or state. */
RLX_EXPORT rlx_value rlx_graph_io_find(const struct rlx_graph *g, enum rlx_io io,
				       const char *name);

/* How many nodes, constants and leaves included. */
RLX_EXPORT unsigned int rlx_graph_size(const struct rlx_graph *g);

/**
 * rlx_graph_print - the text form. rlx_graph_parse() of it gives an equal graph,
 * unless @elide leaves out the contents of constants over 64 bytes.
 * Return: RLX_OK, RLX_EIO.
 */
RLX_EXPORT enum rlx_status rlx_graph_print(const struct rlx_graph *g, FILE *f,
					   bool elide);

/**
 * rlx_graph_dot, rlx_graph_svg - the graph as a image: for Graphviz, or drawn
 * already. Constants and the insides of sub-graphs are left out.
 * Context: any thread; rlx_graph_svg() allocates. Return: RLX_OK, RLX_EIO,
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status rlx_graph_dot(const struct rlx_graph *g, FILE *f);
RLX_EXPORT enum rlx_status rlx_graph_svg(const struct rlx_graph *g, FILE *f);

/**
 * rlx_graph_parse - read the text form; the result is finished and verified.
 * @text, @len: need not be terminated
 * Return: RLX_OK and *@out_g with one reference; RLX_EPARSE names line and
 * column; any status that rlx_emit() leaves.
 */
RLX_EXPORT enum rlx_status rlx_graph_parse(const char *text, size_t len,
					   struct rlx_graph **out_g,
					   struct rlx_error *err);

/**
 * rlx_graph_hash - equal for graphs with equal ops, attributes, types, constants
 * and input, param and output names, whatever their value ids and source lines.
 */
RLX_EXPORT uint64_t rlx_graph_hash(const struct rlx_graph *g);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
namespace rlx_cxx {
template <class ARGS>
inline rlx_value emit(struct rlx_graph *g, const struct rlx_op_ref *op, const ARGS &args,
		      const char *file, unsigned int line)
{
	return rlx_emit_raw(g, op, &args, sizeof(args), file, line);
}
}
#endif
#endif
