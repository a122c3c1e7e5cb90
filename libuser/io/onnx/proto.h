/* SPDX-License-Identifier: MIT */
/*
 * An ONNX file as plain structs: what the file says, nothing interpreted.
 * Strings and tensor bytes are slices of the mapped file, so a model of any
 * size opens in the time its node list takes to walk.
 */
#ifndef RLX_IO_ONNX_PROTO_H
#define RLX_IO_ONNX_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "io/onnx/pb.h"
#include "rlx/status.h"

/* TensorProto.DataType */
enum onnx_dtype {
	ONNX_UNDEFINED	= 0,
	ONNX_FLOAT	= 1,	ONNX_UINT8	= 2,	ONNX_INT8	= 3,
	ONNX_UINT16	= 4,	ONNX_INT16	= 5,	ONNX_INT32	= 6,
	ONNX_INT64	= 7,	ONNX_STRING	= 8,	ONNX_BOOL	= 9,
	ONNX_FLOAT16	= 10,	ONNX_DOUBLE	= 11,	ONNX_UINT32	= 12,
	ONNX_UINT64	= 13,	ONNX_COMPLEX64	= 14,	ONNX_COMPLEX128	= 15,
	ONNX_BFLOAT16	= 16,	ONNX_F8E4M3FN	= 17,	ONNX_F8E4M3FNUZ	= 18,
	ONNX_F8E5M2	= 19,	ONNX_F8E5M2FNUZ	= 20,	ONNX_UINT4	= 21,
	ONNX_INT4	= 22,	ONNX_F4E2M1	= 23,	ONNX_F8E8M0	= 24,
	ONNX_UINT2	= 25,	ONNX_INT2	= 26,
};

/* AttributeProto.AttributeType */
enum onnx_attr_type {
	ONNX_ATTR_NONE		= 0,
	ONNX_ATTR_FLOAT		= 1,	ONNX_ATTR_INT		= 2,
	ONNX_ATTR_STRING	= 3,	ONNX_ATTR_TENSOR	= 4,
	ONNX_ATTR_GRAPH		= 5,	ONNX_ATTR_FLOATS	= 6,
	ONNX_ATTR_INTS		= 7,	ONNX_ATTR_STRINGS	= 8,
	ONNX_ATTR_TENSORS	= 9,	ONNX_ATTR_GRAPHS	= 10,
	ONNX_ATTR_SPARSE	= 11,	ONNX_ATTR_SPARSES	= 12,
	ONNX_ATTR_TYPE		= 13,	ONNX_ATTR_TYPES		= 14,
};

struct onnx_kv {
	uint64_t	has;
	struct rlx_str	key, value;
};

/*
 * @data holds @nbytes little-endian bytes, elements densely packed, whichever
 * field of the file they came from: the raw or external bytes in place, or a
 * copy of typed integers. It is NULL for strings, which are in @strings, and
 * for no elements at all. It need not be aligned to the element.
 */
struct onnx_tensor {
	uint64_t	 has;
	struct rlx_str	 name;
	int64_t		*dims;
	size_t		 ndims;
	int64_t		 dtype;		/* enum onnx_dtype, checked */
	uint64_t	 count;		/* product of @dims */
	const void	*data;
	uint64_t	 nbytes;
	struct rlx_str	*strings;
	size_t		 nstrings;
	/* As in the file; the reader turns them into @data. */
	struct rlx_str	 raw;
	int64_t		 location;
	struct onnx_kv	*external;
	size_t		 nexternal;
};

struct onnx_dim {
	uint64_t	has;
	int64_t		value;
	struct rlx_str	param;
};
#define ONNX_DIM_VALUE	(1u << 1)	/* in onnx_dim.has */
#define ONNX_DIM_PARAM	(1u << 2)

struct onnx_shape {
	uint64_t	 has;
	struct onnx_dim	*dims;
	size_t		 ndims;
};

struct onnx_type;

struct onnx_tensor_type {
	uint64_t		 has;
	int64_t			 elem;	/* enum onnx_dtype */
	struct onnx_shape	*shape;	/* NULL: rank unknown */
};

struct onnx_elem_type {		/* of a sequence or optional */
	uint64_t		 has;
	struct onnx_type	*elem;	/* may be NULL */
};

struct onnx_map_type {
	uint64_t		 has;
	int64_t			 key;
	struct onnx_type	*value;	/* may be NULL */
};

/* At most one pointer is set; none in a type left open. */
struct onnx_type {
	uint64_t		 has;
	struct onnx_tensor_type	*tensor;
	struct onnx_elem_type	*sequence;
	struct onnx_elem_type	*optional;
	struct onnx_map_type	*map;
	struct onnx_tensor_type	*sparse;
};

struct onnx_value_info {
	uint64_t		 has;
	struct rlx_str		 name;
	struct onnx_type	*type;	/* may be NULL */
};

struct onnx_graph;

struct onnx_attr {
	uint64_t		 has;
	struct rlx_str		 name;
	struct rlx_str		 ref;	/* in a function: which argument */
	int64_t			 type;	/* enum onnx_attr_type, checked */
	float			 f;
	int64_t			 i;
	struct rlx_str		 s;
	struct onnx_tensor	*t;
	struct onnx_graph	*g;
	struct onnx_type	*tp;
	float			*floats;
	size_t			 nfloats;
	int64_t			*ints;
	size_t			 nints;
	struct rlx_str		*strings;
	size_t			 nstrings;
	struct onnx_tensor	*tensors;
	size_t			 ntensors;
	struct onnx_graph	*graphs;
	size_t			 ngraphs;
};

struct onnx_node {
	uint64_t		 has;
	struct rlx_str		*inputs;	/* an empty name: absent */
	size_t			 ninputs;
	struct rlx_str		*outputs;
	size_t			 noutputs;
	struct rlx_str		 name, op_type, domain, overload;
	struct onnx_attr	*attrs;
	size_t			 nattrs;
};

struct onnx_graph {
	uint64_t		 has;
	struct rlx_str		 name;
	struct onnx_node	*nodes;
	size_t			 nnodes;
	struct onnx_tensor	*initializers;
	size_t			 ninitializers;
	struct onnx_value_info	*inputs;
	size_t			 ninputs;
	struct onnx_value_info	*outputs;
	size_t			 noutputs;
	struct onnx_value_info	*value_info;
	size_t			 nvalue_info;
};

struct onnx_opset {
	uint64_t	has;
	struct rlx_str	domain;
	int64_t		version;
};

struct onnx_function {
	uint64_t		 has;
	struct rlx_str		 name, domain, overload;
	struct rlx_str		*inputs;
	size_t			 ninputs;
	struct rlx_str		*outputs;
	size_t			 noutputs;
	struct rlx_str		*attr_names;	/* without a default */
	size_t			 nattr_names;
	struct onnx_attr	*attrs;		/* with a default */
	size_t			 nattrs;
	struct onnx_node	*nodes;
	size_t			 nnodes;
	struct onnx_opset	*opsets;
	size_t			 nopsets;
};

struct onnx_model {
	uint64_t		 has;
	int64_t			 ir_version;
	int64_t			 model_version;
	struct rlx_str		 producer, producer_version, domain;
	struct onnx_opset	*opsets;
	size_t			 nopsets;
	struct onnx_graph	*graph;		/* never NULL */
	struct onnx_function	*functions;
	size_t			 nfunctions;
	struct onnx_kv		*metadata;
	size_t			 nmetadata;
};

/* Test data: a value of any ONNX type. */
struct onnx_seq_value {
	uint64_t		 has;
	struct rlx_str		 name;
	int64_t			 elem;	/* 1 tensor, 3 sequence, 5 optional */
	struct onnx_tensor	*tensors;
	size_t			 ntensors;
	struct onnx_seq_value	*seqs;
	size_t			 nseqs;
	struct onnx_opt_value	*opts;
	size_t			 nopts;
};

struct onnx_opt_value {		/* no pointer set: empty */
	uint64_t		 has;
	struct rlx_str		 name;
	int64_t			 elem;
	struct onnx_tensor	*tensor;
	struct onnx_seq_value	*seq;
	struct onnx_opt_value	*opt;
};

enum onnx_root {
	ONNX_ROOT_MODEL, ONNX_ROOT_TENSOR, ONNX_ROOT_SEQUENCE,
	ONNX_ROOT_OPTIONAL,
};

/*
 * An opened file with its mappings and everything parsed from it. Counted:
 * whoever keeps a pointer into it holds a reference. Immutable, so any number
 * of threads may read it.
 */
struct onnx_file;

/**
 * onnx_open - map @path and parse it as a @root message.
 * @path: a regular file; external tensor data is looked for in its directory
 * @root: what the file is said to hold
 * @out:  the file with one reference, NULL on failure
 * @err:  may be NULL
 *
 * The file must not be truncated while it is open: mapped pages beyond its end
 * fault. Context: any thread; allocates, sleeps.
 * Return: RLX_ENOENT, RLX_EIO or RLX_EACCES when a file cannot be opened,
 * RLX_EPARSE with the byte offset and field when the content is wrong,
 * RLX_ERANGE when a tensor's data lie outside their file, RLX_ENOSUP for
 * sparse initializers and strange element types, RLX_ENOMEM.
 */
enum rlx_status onnx_open(const char *path, enum onnx_root root,
			  struct onnx_file **out, struct rlx_error *err);

/**
 * onnx_open_mem - parse @n bytes at @p, which the caller keeps, unchanged,
 * until the last reference is put. External tensor data is refused
 * (RLX_ENOSUP) because there is no directory to look in. @name is used in
 * errors and copied. Otherwise as onnx_open().
 */
enum rlx_status onnx_open_mem(const void *p, size_t n, const char *name,
			      enum onnx_root root, struct onnx_file **out,
			      struct rlx_error *err);

struct onnx_file *onnx_get(struct onnx_file *f);	/* returns @f */
void onnx_put(struct onnx_file *f);			/* NULL is fine */

/* The root message; NULL if the file was opened as something else. */
const struct onnx_model *onnx_file_model(const struct onnx_file *f);
const struct onnx_tensor *onnx_file_tensor(const struct onnx_file *f);
const struct onnx_seq_value *onnx_file_sequence(const struct onnx_file *f);
const struct onnx_opt_value *onnx_file_optional(const struct onnx_file *f);
const char *onnx_file_name(const struct onnx_file *f);

/* Where in which file @p lies, as rlx_blob_set_source() wants it; false: in none. */
bool onnx_file_place(const struct onnx_file *f, const void *p, uint64_t *out_source,
		     uint64_t *out_offset);

/*
 * The @i-th of the files that it maps, its own and those of external data, whatever their
 * folders; NULL: there are no more. All are mapped once it is open.
 */
struct rlx_file;
const struct rlx_file *onnx_file_mapped(const struct onnx_file *f, unsigned int i);

/* What the importer keeps with the file; made with it. */
struct onnx_blobs;
struct onnx_blobs *onnx_file_blobs(const struct onnx_file *f);
struct onnx_blobs *onnx_blobs_new(void);	/* NULL: out of memory */
void onnx_blobs_free(struct onnx_blobs *s);

/* Bits of one element; 0 for strings and unknown types. */
unsigned int onnx_dtype_bits(int64_t dtype);
const char *onnx_dtype_name(int64_t dtype);	/* "?" if unknown */

/* The opset imported for @domain ("" and "ai.onnx" are one); 0 if none. */
int64_t onnx_opset_find(const struct onnx_opset *o, size_t n,
			struct rlx_str domain);

const struct onnx_attr *onnx_attr_find(const struct onnx_node *n,
				       const char *name);

static inline bool onnx_str_eq(struct rlx_str a, struct rlx_str b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

static inline bool onnx_str_is(struct rlx_str a, const char *s)
{
	return a.n == strlen(s) && (!a.n || !memcmp(a.p, s, a.n));
}

/* For printf("%.*s", ONNX_STR(s)), cut so that no name floods a message. */
#define ONNX_STR(s)	(int)((s).n > 80 ? 80 : (s).n), (s).n ? (s).p : ""

#endif
