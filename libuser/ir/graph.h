/* SPDX-License-Identifier: MIT */
/* Node and value storage of a graph, as passes and the planner read it. */
#ifndef RLX_IR_GRAPH_H
#define RLX_IR_GRAPH_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/bump.h"
#include "base/map.h"
#include "ir/opdef.h"

/*
 * In a node's scope: what it makes counts as read once more than it is, so that passes put it
 * together with others as if that reader were there. It marks what has been computed twice.
 */
#define RLX_SCOPE_SHARED (1u << 7)

struct rlx_node {
	const struct rlx_op_def	*def;
	void			*args;	/* struct rlx_op_<name>; input fields are 0, see @in */
	const uint32_t		*in;	/* value ids; 0: absent optional */
	uint32_t		 n_in, n_out;
	uint32_t		 out;	/* id of output 0; the others follow */
	unsigned int		 line;	/* where the caller emitted it */
	const char		*file;
	uint32_t		 scope;	/* of enum rlx_scope, and which of its kind above that */
};

struct rlx_val {
	uint32_t	node;	/* index of the node that makes it */
	uint32_t	index;	/* which of its outputs */
	struct rlx_type	type;
};

/*
 * @state: of an input: runs replace it; of an output: 1 + the index of the input that it
 * replaces. A state is an input and its next value an output that share their place.
 */
struct rlx_named {
	const char	*name;
	rlx_value	 v;
	uint32_t	 state;
};

struct rlx_named_list {
	struct rlx_named *e;
	uint32_t	  n, cap;
};

/*
 * Nodes stand in topological order: a node's inputs are made by earlier nodes.
 * Value ids start at 1. Nothing is ever erased; passes build a new graph
 * (ir/rewrite.h), so a finished graph can be read without locks.
 */
struct rlx_graph {
	atomic_uint		 refs;
	bool			 finished;
	const char		*name;
	struct rlx_error	 err;
	struct rlx_bump		 bump;	/* args, lists, names */
	struct rlx_node		*node;
	uint32_t		 n_node, cap_node;
	struct rlx_val		*val;	/* [0] is unused */
	uint32_t		 n_val, cap_val;
	struct rlx_named_list	 io[3];	/* by enum rlx_io; states are inputs */
	struct rlx_map		 names;	/* inputs and params */
	struct rlx_map		 outputs;	/* their places, once there are more than a few */
	uint32_t		 n_state;
	uint32_t		 scope, n_scope, last_scope;	/* of what is emitted now */
	uint32_t		 outer_scope[32];
	uint32_t		*scope_top;	/* of each RLX_SCOPE_REMAT the outermost */
	uint32_t		 cap_scope_top;
	struct rlx_dims		*dims;	/* ir/dims.h; NULL: all sizes are known */
};

/* Which of enum rlx_io an entry of g->io[] is to callers: states are apart. */
static inline enum rlx_io rlx_io_of(enum rlx_io list, uint32_t state)
{
	return state && list != RLX_IO_PARAM ? RLX_IO_STATE : list;
}

struct rlx_blob {
	atomic_uint	 refs;
	const void	*data;
	size_t		 bytes;
	uint64_t	 hash;	/* of the contents; 0: not computed yet */
	uint64_t	 source, offset;	/* in a mapped file; source 0: in none */
	bool		 absent;	/* data are zeros: a plan file left the contents out */
	void		(*release)(void *ctx);
	void		*ctx;
};

uint64_t rlx_blob_hash(struct rlx_blob *b);
/* [@from, @from + @bytes) of @whole, which it keeps, without a copy. NULL: out of memory. */
struct rlx_blob *rlx_blob_part(struct rlx_blob *whole, size_t from, size_t bytes);

/* Does @g, or a graph inside it, have constants whose contents are absent? */
bool rlx_graph_lacks_contents(const struct rlx_graph *g);

/*
 * Blobs that a text names by their number in this list, "blob 3", where it would else hold their
 * bytes. Printing adds those it meets, each once, without a reference.
 */
struct rlx_blob_list {
	struct rlx_blob	**blob;
	uint32_t	  n, cap;
	struct rlx_map	  number;	/* by address */
};

/* False: out of memory. */
bool rlx_blob_list_add(struct rlx_blob_list *l, struct rlx_blob *b, uint32_t *out_number);
void rlx_blob_list_fini(struct rlx_blob_list *l);

/* rlx_graph_print() and rlx_graph_parse() of such a text. */
enum rlx_status rlx_graph_print_listed(const struct rlx_graph *g, FILE *f,
				       struct rlx_blob_list *l);
enum rlx_status rlx_graph_parse_listed(const char *text, size_t len,
				       const struct rlx_blob_list *l, struct rlx_graph **out_g,
				       struct rlx_error *err);

/* A reference, unless the last one has just gone. */
struct rlx_blob *rlx_blob_get_alive(struct rlx_blob *b);

/*
 * Blobs that several graphs make alike, found by a key of @n bytes while somebody has
 * them. new_shared() takes @data, of rlx_aligned(), unless it returns NULL (out of
 * memory), and keeps up to RLX_SHARED_OF blobs @of, which the key may name by address;
 * another thread's blob of that key may come back, and @data is gone. new_alike() takes
 * the contents for the key, of one maker, at most 15 letters. Any thread.
 */
enum { RLX_SHARED_OF = 16 };
struct rlx_blob *rlx_blob_shared(const void *key, size_t n);
struct rlx_blob *rlx_blob_new_shared(const void *key, size_t n, void *data, size_t bytes,
				     struct rlx_blob *const *of, uint32_t n_of);
struct rlx_blob *rlx_blob_new_alike(const char *who, void *data, size_t bytes);

static inline const struct rlx_node *rlx_node_of(const struct rlx_graph *g,
						 uint32_t value)
{
	return &g->node[g->val[value].node];
}

/*
 * Another RLX_SCOPE_REMAT, inside @outer or (0) none: its bits. 0, and a sticky error, if memory or
 * numbers run out.
 */
uint32_t rlx_scope_new(struct rlx_graph *g, uint32_t outer);
/* The number of the outermost RLX_SCOPE_REMAT that @scope is inside, or is; 0: none. */
static inline uint32_t rlx_scope_top(const struct rlx_graph *g, uint32_t scope)
{
	return scope >> 8 ? g->scope_top[scope >> 8] : 0;
}
/* @g, which has none of its own, gets those of @from. False: out of memory. */
bool rlx_scopes_copy(struct rlx_graph *g, const struct rlx_graph *from);

/* cost.c: what node @n takes; @types has room for its inputs' ones. */
struct rlx_cost rlx_node_cost(const struct rlx_graph *g, const struct rlx_node *n,
			      const struct rlx_type **types);

/*
 * cost.c: does node @n make over four times what it reads, and 4 KiB more? Then its results are
 * not worth the memory beyond the run that needs them (an expanded scalar).
 */
bool rlx_node_grows(const struct rlx_graph *g, const struct rlx_node *n);

/* Pointer to an attribute or input field inside an argument struct. */
static inline void *rlx_field_ptr(const struct rlx_field *f, const void *args)
{
	return (char *)(uintptr_t)args + f->offset;
}

/*
 * Append a node whose inputs are given apart (value ids, 0 absent) and whose
 * @args' input fields are ignored. @at: a node whose file and line it takes, or
 * NULL. What rlx_emit_raw() and the passes end in.
 */
rlx_value rlx_node_new(struct rlx_graph *g, const struct rlx_op_def *def,
		       const void *args, const uint32_t *in, uint32_t n_in,
		       const struct rlx_node *at);

/* rlx_input_at(), rlx_param_at() or rlx_state_at(); @at: whose file and line it takes. */
rlx_value rlx_leaf_at(struct rlx_graph *g, enum rlx_io io, const char *name,
		      struct rlx_type type, const struct rlx_node *at);

/* Append a node of an op that has @n inputs in order and no other field but absent. */
rlx_value rlx_emit_inputs(struct rlx_graph *g, const struct rlx_op_def *def,
			  const rlx_value *in, uint32_t n, const struct rlx_node *at);

/* Is @name one of those that a value takes the place of? */
bool rlx_inline_names(const struct rlx_inline *how, const char *name);

/* Flops of a call of @g, by its ops' costs. Allocates; 0 without memory. */
double rlx_graph_flops(const struct rlx_graph *g);

/* Equal op and attributes (inputs not compared); blobs by contents. */
bool rlx_args_equal(const struct rlx_op_def *def, const void *a, const void *b);
/* 0: no memory for that of a graph inside */
uint64_t rlx_args_hash(const struct rlx_op_def *def, const void *args, uint64_t seed);

/*
 * Equal computations, which are merged: the same op, attributes and inputs. @map: what inputs are
 * by now; NULL: as they are. @secret: rlx_hash_secret(), as what is hashed comes from files.
 */
uint64_t rlx_node_hash(const struct rlx_node *n, const uint32_t *map, uint64_t secret);
/* @map is of @a's inputs. */
bool rlx_node_equal(const struct rlx_node *a, const uint32_t *map, const struct rlx_node *b);
/* May it be merged with others at all? */
bool rlx_node_merges(const struct rlx_node *n);
static inline bool rlx_scope_equal(const struct rlx_node *a, const struct rlx_node *b)
{
	return !((a->scope ^ b->scope) & ~RLX_SCOPE_SHARED);
}
/*
 * Attributes as bytes, which are the same where rlx_args_equal(): @n of them, written to @to
 * unless that is NULL. False: there is a blob, a graph or an op of a user's, which have none.
 */
bool rlx_args_bytes(const struct rlx_op_def *def, const void *args, unsigned char *to, size_t *n);

/*
 * bind.c: for who takes graphs whose sizes are all known: RLX_EINVAL names @who, and a dimension of
 * @g that has none.
 */
enum rlx_status rlx_graph_is_bound(const struct rlx_graph *g, const char *who,
				   struct rlx_error *err);

enum rlx_status rlx_graph_verify(const struct rlx_graph *g, struct rlx_error *err);

#endif
