/* SPDX-License-Identifier: MIT */
/* The importer's state, and what the handlers of ONNX ops are written with. */
#ifndef RLX_IO_ONNX_IMP_H
#define RLX_IO_ONNX_IMP_H

#include "base/map.h"
#include "io/onnx/build.h"

/* A graph being filled: a segment, or the body of a control-flow op. */
struct onnx_ctx {
	struct onnx_ctx		*parent;	/* NULL: a segment */
	struct rlx_graph	*g;
	uint32_t		 serial;
	struct rlx_map		 imports;	/* struct onnx_val * -> value id */
	struct onnx_val		**capture;	/* bodies: outer values, in order */
	uint32_t		 n_capture, cap_capture;
	uint64_t		*roots;		/* by value id */
	uint32_t		 cap_roots;
};

/*
 * An ONNX value during import. Tensors are known (@blob) or made by a graph
 * (@ctx, @v). Never freed before the import ends.
 */
struct onnx_val {
	enum rlx_spec_kind		 kind;
	uint32_t		 id;		/* in order of creation */
	uint32_t		 ctx;		/* serial of the graph that has @v */
	rlx_value		 v;
	struct rlx_type		 type;
	struct rlx_blob		*blob;		/* known contents */
	int64_t			 elem;		/* its ONNX type if known, 0 */
	uint64_t		 roots;		/* which model inputs it comes from */
	const char		*input;		/* it is this graph input */
	const struct rlx_str	*str;
	struct onnx_val		**item;
	uint32_t		 n_item;
	uint32_t		 live;		/* mark of the last liveness walk */
	struct onnx_val		*next;		/* all values */
};
#define ONNX_ROOT_OPAQUE	(1ull << 63)

/* Node outputs by name, with the enclosing scopes a sub-graph may refer to. */
struct onnx_scope {
	struct onnx_scope		*parent;	/* for names */
	struct onnx_scope		*caller;	/* for liveness */
	const struct onnx_graph		*graph;		/* or @fn */
	const struct onnx_function	*fn;
	const struct onnx_opset		*opsets;
	size_t				 nopsets;
	const struct onnx_attr		*args;		/* of a function call */
	size_t				 nargs;
	size_t				 pos;		/* node being imported */
	bool				 repeats;	/* all its nodes come again */
	struct rlx_map			 env;		/* name -> struct onnx_val * */
};

/* Values held by a handler across nested imports, for liveness. */
struct onnx_pin {
	struct onnx_pin		*next;
	struct onnx_val *const	*v;
	uint32_t		 n;
};

struct onnx_build {
	struct onnx_file		*file;
	const struct onnx_model		*model;
	const struct rlx_instance	*want;
	struct rlx_error		*err;
	struct rlx_bump		 mem;
	struct onnx_ctx			*ctx;
	struct onnx_ctx			*all_ctx[64];	/* segments replayed */
	uint32_t			 n_segment, n_serial, n_val, n_walk;
	uint32_t			 body;		/* depth of bodies */
	uint32_t			 depth;		/* of scopes */
	uint64_t			 n_node, folded;	/* onnx_charge(); bytes */
	struct onnx_scope		*scope;
	struct onnx_pin			*pins;
	struct onnx_val			*vals;
	struct rlx_map			 functions;	/* function_key() -> struct onnx_function * */
	char				*key;
	uint32_t			 cap_key;
	/* Set when the import stops for a value. */
	struct rlx_segment		*seg;
};

/*
 * Not a failure: the import stops for a value (the segment says which), or, in
 * a body, a value would be needed that only an outer cut can give.
 */
#define ONNX_STOP	((enum rlx_status)1)
#define ONNX_INNER	((enum rlx_status)2)

/* The node being imported. */
struct onnx_op {
	struct onnx_build	*b;
	const struct onnx_node	*n;
	const struct onnx_row	*row;
	struct onnx_scope	*scope;
	int64_t			 opset;
	struct onnx_val		**in;		/* NULL: absent */
	uint32_t		 n_in;
	struct onnx_val		**out;		/* set by the handler */
	uint32_t		 n_out;
	uint64_t		 used;		/* attributes looked at */
};

struct onnx_row {
	const char	*domain, *name;
	int64_t		 from, to;		/* opsets, inclusive */
	uint32_t	 host;			/* inputs that must be known */
	enum rlx_status	(*fn)(struct onnx_op *q);
	const void	*arg;
};

/*
 * Fails with the op, its opset and node in front; with the graph's own error if
 * it has one, for what the handler stumbles over may be its consequence.
 */
enum rlx_status __rlx_printf(5, 6)
onnx_op_fail(struct onnx_op *q, enum rlx_status st, const char *file,
	     unsigned int line, const char *fmt, ...);
#define op_err(q, st, ...) \
	onnx_op_fail((q), (st), __FILE__, __LINE__, __VA_ARGS__)

/* A list of values; the callee of @out writes to it. */
struct onnx_vals {
	struct onnx_val	**v;
	uint32_t	 n;
};

/* build.c: the walk over nodes. */
struct onnx_val *onnx_lookup(struct onnx_scope *s, struct rlx_str name);
/*
 * Import @g in place, with @in bound to its inputs and @out set to its outputs.
 * @repeats: it will be imported again (a loop body), so all it uses stays live.
 */
enum rlx_status onnx_inline(struct onnx_op *q, const struct onnx_graph *g,
			    struct onnx_vals in, struct onnx_vals out,
			    bool repeats);
enum rlx_status onnx_nomem(struct onnx_build *b);
/*
 * Count work for which a file need not grow as nodes, of which an import has so many: @nodes, and
 * references to @refs values. RLX_ENOSUP beyond that.
 */
enum rlx_status onnx_charge(struct onnx_op *q, uint64_t nodes, uint64_t refs);

/* value.c: values and graphs. */
struct onnx_val *onnx_val_new(struct onnx_build *b, enum rlx_spec_kind kind);
/* The tensor @v of the current graph; known if it is a constant there. */
struct onnx_val *onnx_val_of(struct onnx_build *b, rlx_value v);
struct onnx_val *onnx_val_tensor(struct onnx_build *b,
				 const struct onnx_tensor *t);
struct onnx_val *onnx_val_list(struct onnx_build *b,
			       struct onnx_val *const *item, uint32_t n);
/* The tensor in the current graph: imported or made a constant if need be. */
rlx_value onnx_use(struct onnx_build *b, struct onnx_val *v);
struct onnx_ctx *onnx_ctx_begin(struct onnx_build *b, bool body);
void onnx_ctx_end(struct onnx_build *b);	/* pop a body; caller keeps it */
void onnx_ctx_free(struct onnx_ctx *c);
/* Emit, or evaluate at once when all inputs are small constants. */
rlx_value onnx_emit(struct onnx_build *b, const struct rlx_op_ref *op, void *args,
		    size_t size);
/* Contents if @v is a constant of the current graph, else NULL. */
const void *onnx_const(struct onnx_build *b, rlx_value v);
/* The tensor's status in the graph: 0, or an error worth passing on. */
enum rlx_status onnx_graph_status(struct onnx_op *q);

/* blob.c: the tensor's bytes; NULL if memory ran out. Any thread. */
struct rlx_blob *onnx_tensor_blob(struct onnx_file *f,
				  const struct onnx_tensor *t);

/* need.c: values that must be known. */
/* Make all of @v known, or stop the import for them. NULL entries are fine. */
enum rlx_status onnx_need(struct onnx_build *b, struct onnx_val *const *v,
			  uint32_t n);
/* Input @i as 64-bit integers; n = 0 if absent. */
enum rlx_status onnx_ints(struct onnx_op *q, uint32_t i, const int64_t **v,
			  uint32_t *n);
enum rlx_status onnx_floats(struct onnx_op *q, uint32_t i, const double **v,
			    uint32_t *n);
/* Any known tensor's elements. */
const int64_t *onnx_val_ints(struct onnx_build *b, const struct onnx_val *v,
			     uint32_t *n);
/* One integer; @dflt if absent. */
enum rlx_status onnx_int(struct onnx_op *q, uint32_t i, int64_t dflt,
			 int64_t *v);
/* The integer scalar @v of the current graph, at run time or known. */
enum rlx_status onnx_need_value(struct onnx_op *q, rlx_value v, int64_t *out);

/* attr.c */
const struct onnx_attr *onnx_attr_of(struct onnx_op *q, const char *name);
bool onnx_has(struct onnx_op *q, const char *name);
int64_t onnx_attr_i(struct onnx_op *q, const char *name, int64_t dflt);
int32_t onnx_attr_i32(struct onnx_op *q, const char *name, int32_t dflt);
/* All of [-most, most], so that sums and products cannot overflow; or fails. */
bool onnx_modest(struct onnx_op *q, struct rlx_ints v, int64_t most);
double onnx_attr_f(struct onnx_op *q, const char *name, double dflt);
/* The index of the string attribute in @names (NULL-ended); -1: none of them. */
int onnx_attr_enum(struct onnx_op *q, const char *name,
		   const char *const *names, int dflt);
struct rlx_ints onnx_attr_ints(struct onnx_op *q, const char *name);
struct rlx_floats onnx_attr_floats(struct onnx_op *q, const char *name);
const struct onnx_graph *onnx_attr_graph(struct onnx_op *q, const char *name);
/* Attributes that were given but never asked for; NULL if none. */
const struct onnx_attr *onnx_attr_unused(const struct onnx_op *q);

/* ops.c: the table. */
const struct onnx_row *onnx_row_find(struct rlx_str domain,
				     struct rlx_str name, int64_t opset,
				     bool *known);

/* Shorthands of the handlers; q is the op, values are of the current graph. */
#define E(q, op, ...)							\
	RLX_OVERRIDE(onnx_emit((q)->b, &rlx_op_##op,			\
		&(struct rlx_op_##op){ RLX_INIT_##op __VA_ARGS__ },	\
		sizeof(struct rlx_op_##op)))

static inline bool onnx_given(const struct onnx_op *q, uint32_t i)
{
	return i < q->n_in && q->in[i];
}

/* Input @i, none if absent. */
static inline rlx_value onnx_in(struct onnx_op *q, uint32_t i)
{
	return onnx_given(q, i) ? onnx_use(q->b, q->in[i]) : RLX_NONE;
}

static inline void onnx_out(struct onnx_op *q, uint32_t i, rlx_value v)
{
	if (i < q->n_out)
		q->out[i] = onnx_val_of(q->b, v);
}

/* A copy: types move when something is emitted. All zero for none. */
static inline struct rlx_type onnx_type(struct onnx_op *q, rlx_value v)
{
	const struct rlx_type *t = rlx_type_of(q->b->ctx->g, v);

	return t ? *t : (struct rlx_type){ 0 };
}

static inline rlx_value onnx_nth(struct onnx_op *q, rlx_value v, uint32_t i)
{
	return rlx_out(q->b->ctx->g, v, i);
}

static inline rlx_value onnx_num(struct onnx_op *q, enum rlx_dtype dt, double x)
{
	/* No dtype: of a value that failed, whose error is known. */
	return dt ? rlx_scalar_const(q->b->ctx->g, dt, x) : RLX_NONE;
}

rlx_value onnx_reshape(struct onnx_op *q, rlx_value x, uint32_t rank,
		       const int64_t *dim);
rlx_value onnx_reduce(struct onnx_op *q, rlx_value x, struct rlx_ints axes,
		      enum rlx_reduce_kind kind, bool keep);
/* i64 vector constant */
rlx_value onnx_ints_const(struct onnx_op *q, const int64_t *v, uint32_t n);
/* Normalised axis in [0, rank); fails with a message. */
enum rlx_status onnx_axis(struct onnx_op *q, int64_t axis, uint32_t rank,
			  uint32_t *out);

#endif
