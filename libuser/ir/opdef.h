/* SPDX-License-Identifier: MIT */
/*
 * What an op is to the rest of the system: a definition with a field table made
 * from its RLX_OP block, and the functions its file gives. No op is named here.
 */
#ifndef RLX_IR_OPDEF_H
#define RLX_IR_OPDEF_H

#include "rlx/graph.h"

enum { RLX_MAX_OUT = 64, RLX_MAX_FIELDS = 24 };

/* Kinds of attribute; the names are those of ATTR(kind, name). */
enum rlx_attr_kind {
	RLX_K_i32, RLX_K_i64, RLX_K_f32, RLX_K_f64, RLX_K_bool, RLX_K_dtype,
	RLX_K_str, RLX_K_ints, RLX_K_floats, RLX_K_type, RLX_K_blob,
	RLX_K_graph, RLX_K_custom,
};

/* What an attribute is that is not given: see rlx/ops.h. */
enum rlx_absent { RLX_ABSENT_ZERO, RLX_ABSENT_NZ, RLX_ABSENT_DEF, RLX_ABSENT_REQ };

enum rlx_field_role { RLX_FIELD_ATTR, RLX_FIELD_IN, RLX_FIELD_OPT, RLX_FIELD_INS };

struct rlx_op_def;
struct rlx_node;
struct rlx_field {
	const char	*name;
	uint16_t	 offset;	/* in the op's argument struct */
	uint8_t		 kind : 4;	/* enum rlx_attr_kind if an attribute */
	uint8_t		 absent : 4;	/* enum rlx_absent if an attribute */
	uint8_t		 role;		/* enum rlx_field_role */
	float		 def;		/* what is filled in for absent or zero */
	const char	*hint;		/* required: what to write */
};

/*
 * Absent attributes, the one place that knows of them. rlx_args_init() says of a
 * zeroed struct that nothing was given. rlx_args_resolve() fills in the defaults of
 * what is absent; RLX_EINVAL names a required one. Nodes hold resolved arguments:
 * shape rules and kernels see values.
 */
void rlx_args_init(const struct rlx_op_def *def, void *args);
enum rlx_status rlx_args_resolve(const struct rlx_op_def *def, void *args,
				 struct rlx_error *err);
/* The value is what resolving an absent attribute gives, so it need not be written. */
bool rlx_attr_is_default(const struct rlx_field *f, const void *value);

/* Traits: what passes may assume of an op without knowing it. */
#define RLX_T_LEAF	  (1u << 0)	/* input, param, constant */
#define RLX_T_ELEMENTWISE (1u << 1)	/* out[i] of in[k][i], broadcasting; may join a region */
#define RLX_T_VIEW	  (1u << 2)	/* output 0 is input 0's bytes under another shape */
#define RLX_T_INPLACE	  (1u << 3)	/* output 0 may overwrite input 0 if types are equal */
#define RLX_T_FUSED	  (1u << 4)	/* made by passes; has .expand */
#define RLX_T_NODIFF	  (1u << 5)	/* no gradient by nature (integer results, comparisons) */
#define RLX_T_IMPURE	  (1u << 6)	/* two equal calls may differ: not merged, not folded */
#define RLX_T_SUBGRAPH	  (1u << 7)	/* has graph attributes */
/* Precision class (ops.md 2.5); none of these on an elementwise op. */
#define RLX_T_COMPUTE	  (1u << 8)	/* matmul, conv, attention: gains most from 16 bits */
#define RLX_T_REDUCTION	  (1u << 9)	/* norms, softmax, sums: accumulates */
#define RLX_T_MOVE	  (1u << 10)	/* copies elements, computes nothing */
#define RLX_T_SELECT	  (1u << 11)	/* of integers: gives elements of input 0, by order */
/* What roundings do to it, for tests that draw graphs: what results may be held against. */
#define RLX_T_STEPPED	  (1u << 12)	/* jumps: inputs must be exact; so is all that is NODIFF */
#define RLX_T_TIES	  (1u << 13)	/* of equal or coarse elements it makes roundings alone */
#define RLX_T_CARRIES	  (1u << 14)	/* elements come of earlier ones, which may overflow */
#define RLX_T_FACTORS	  (1u << 15)	/* stepped: is a matrix singular, of which rank? */
#define RLX_T_STEEP	  (1u << 16)	/* so large that what follows overflows in f32 */
#define RLX_T_TAPERS	  (1u << 17)	/* x times what vanishes: at -inf 0 is as good as NaN */
/*
 * Infinities and NaNs have one way through, as they have through what is MOVE or ELEMENTWISE
 * and not TIES: of all inputs, of input 0.
 */
#define RLX_T_NONFINITE	  (1u << 18)
#define RLX_T_NONFINITE_X (1u << 19)
#define RLX_T_SENTINELS	  (1u << 20)	/* outputs but the first: inf or NaN for what is absent */
#define RLX_T_WIDENS	  (1u << 21)	/* of narrow inputs as of what they are cast to in f32 */
#define RLX_T_ACCUMULATES (1u << 22)	/* in its output, update by update: best in f32 */

/* Shape and type inference. The op sets out[0..n_out) or fails. Pure. */
struct rlx_infer {
	struct rlx_error		*err;
	const struct rlx_op_def		*def;
	const void			*args;	/* struct rlx_op_<name>; its input fields are 0 */
	uint32_t			 n_in;	/* all declared inputs, then the list's */
	const struct rlx_type *const	*in;	/* NULL: absent */
	uint32_t			 n_out;	/* 1 unless changed */
	struct rlx_type			 out[RLX_MAX_OUT];
	/* For backends that are asked: of inputs that are constants; NULL: of none it is known */
	struct rlx_blob *const		*constant;
	bool				 placed;	/* and: experts may stay in host memory */
};

/* Evaluate sub-graph @sub: @in and @out in order of its inputs and outputs. */
struct rlx_collective;
struct rlx_eval;
typedef enum rlx_status rlx_eval_call(struct rlx_eval *q, const struct rlx_graph *sub,
				      const struct rlx_tensor *in, struct rlx_tensor *out);

/*
 * Reference evaluation: plain loops, float arithmetic in double, integers exact.
 * Outputs are allocated, typed as inferred, and hold rubbish on entry; no output
 * overlaps an input.
 */
struct rlx_eval {
	struct rlx_error		*err;
	const struct rlx_op_def		*def;
	const void			*args;
	uint32_t			 n_in, n_out;
	const struct rlx_tensor		*in;
	struct rlx_tensor		*out;
	void				*scratch;	/* .scratch() bytes, 64-byte aligned */
	rlx_eval_call			*call;
	void				*call_ctx;
	const struct rlx_collective	*collective;	/* who sums over ranks; NULL: nobody */
};

/* Reverse mode: set d_in[k] for the inputs that get a gradient, leave the rest. */
struct rlx_grad {
	struct rlx_graph	*g;		/* emit here */
	const struct rlx_op_def	*def;
	const void		*args;
	uint32_t		 n_in, n_out;
	const rlx_value		*in, *out;
	const rlx_value		*d_out;		/* none: that output has no gradient */
	rlx_value		*d_in;		/* preset to none */
	const bool		*need;		/* per input: d_in is wanted; the rest is not read */
};

/* What the op stands for in simpler ops; set out[0..n_out). */
struct rlx_expand {
	struct rlx_graph	*g;		/* emit here */
	const struct rlx_op_def	*def;
	const void		*args;
	uint32_t		 n_in, n_out;
	const rlx_value		*in;		/* {0}: absent */
	const struct rlx_type	*out_type;	/* as inferred */
	rlx_value		*out;
};

/*
 * The op for each of @n instances at once: an input that is mapped has them along a first axis in
 * front of its type, and so have all results. The other inputs are the same for all; one that is
 * mapped is there at least.
 */
struct rlx_batching {
	struct rlx_graph	*g;		/* emit here */
	const struct rlx_op_def	*def;
	const void		*args;
	uint32_t		 n_in, n_out;
	int64_t			 n;
	const rlx_value		*in;		/* {0}: absent */
	const bool		*mapped;
	const struct rlx_type	*type, *out_type;	/* of one instance */
	rlx_value		*out;		/* preset to none; all stay so: no rule for this form */
	uint32_t		*to;		/* room for the inputs of a node like it */
	const struct rlx_node	*at;		/* whose file and line it has */
};

/*
 * One test case: attributes into @args (zeroed struct of the op), input types,
 * ranges to draw from and a tolerance. Cases use f32 where a float is meant; the
 * tests also run them in the other float dtypes.
 */
enum { RLX_SAMPLE_IN = 16 };
struct rlx_sample {
	const struct rlx_op_def *def;
	void		*args;
	uint32_t	 n_in;
	struct rlx_type	 in[RLX_SAMPLE_IN];	/* dtype 0: absent optional */
	/* uniform; both 0: [-2, 2], ints and bool [0, 1] */
	double		 lo[RLX_SAMPLE_IN], hi[RLX_SAMPLE_IN];
	double		 tol;		/* relative to the largest |truth|, in f32; 0: exact */
	double		 grad_tol;		/* 0: 1e-6; < 0: no gradient check */
	bool		 f32_only;		/* not meaningful in other float dtypes */
	int64_t		 ints[96];		/* where op_keep() puts lists */
	double		 floats[32];
	uint32_t	 n_ints, n_floats;
	struct rlx_graph *graphs[4];	/* sub-graphs made by the case: the caller puts them */
	uint32_t	 n_graphs;
};
/* Case @i into @s, of which the caller set .def and .args; false: there is none. */
typedef bool rlx_sample_fn(unsigned int i, struct rlx_sample *s);

struct rlx_cost {
	double	flops, bytes;
};

struct rlx_match;
/*
 * A graph that the fused op replaces, as text (syntax in pass/fuse.c), and a test
 * that fills the fused op's arguments from the match. See pass/fuse.h.
 */
struct rlx_pattern {
	const char	*text;
	bool		(*accept)(struct rlx_match *m, void *args);
};

/*
 * What .vjp does where a gradient comes from c64 or goes to it. The gradient of a real loss by
 * z = a + ib is that by a plus i times that by b.
 */
enum rlx_complex_vjp {
	RLX_COMPLEX_VJP_NONE,	/* nothing: refused by the op's name; .expand is walked through */
	RLX_COMPLEX_VJP_WHOLE,	/* it is right for c64 */
	/* the op moves or adds real and imaginary parts alike: it is asked for each, in f32 */
	RLX_COMPLEX_VJP_PARTS,
};

/* NULL members have one meaning each, given behind them. */
struct rlx_op_impl {
	enum rlx_status	(*infer)(struct rlx_infer *q);		/* required */
	enum rlx_status	(*eval)(struct rlx_eval *q);		/* NULL: evaluate .expand */
	size_t		(*scratch)(const struct rlx_infer *q);	/* NULL: none; types are known */
	enum rlx_status	(*vjp)(struct rlx_grad *q);	/* NULL: by .(grad_)expand; NODIFF: none */
	enum rlx_complex_vjp complex_vjp;
	enum rlx_status	(*expand)(struct rlx_expand *q);	/* NULL: already simple */
	/*
	 * What gradients go through where that is not for running: it may refuse forms, with
	 * RLX_ENOSUP and a reason. NULL: .expand
	 */
	enum rlx_status	(*grad_expand)(struct rlx_expand *q);
	/* NULL: pointwise ops by op_batch_pointwise(), others by .expand; neither: not mapped */
	enum rlx_status	(*batch)(struct rlx_batching *q);
	/* NULL: never made by fusion; ends with text NULL */
	const struct rlx_pattern *pattern;
	/* NULL: bytes in and out, one flop for each output element */
	void		(*cost)(const struct rlx_infer *q, struct rlx_cost *c);
	/*
	 * Of ops with graphs: the input of each of them that input @k is in all calls, -1: of
	 * none. NULL: there is no such input
	 */
	int64_t		(*captured)(const void *args, uint32_t k);
	/* What its data is, when kernels refuse it; NULL: an index is outside */
	void		(*bad_data)(const void *args, char *text, size_t size);
	/*
	 * Where in the arguments the bool is that makes more outputs behind those there are, which
	 * it leaves as they are; 0: there is none
	 */
	size_t		more;
};

struct rlx_op_def {
	const char			*name, *doc;
	uint32_t			 traits;
	uint16_t			 index;	/* position in rlx_op_defs[]; moves */
	uint16_t			 args_size;
	uint16_t			 n_field;
	uint16_t			 n_fixed;	/* IN and OPT fields */
	const struct rlx_field		*field;
	const struct rlx_op_impl	*impl;
};

extern const struct rlx_op_def *const rlx_op_defs[];
extern const unsigned int rlx_op_count;

/* NULL if there is no such op. */
const struct rlx_op_def *rlx_op_find(const char *name, size_t len);

/* Position of op @name in this build's rlx_op_defs[]; for switch statements and tables. */
enum rlx_op_index {
#define RLX_OP(name, doc, fields, traits) RLX_OP_##name,
#include "rlx/ops.list.h"
#undef RLX_OP
	RLX_OP_COUNT,
};

/*
 * The one rule of what is idle: all that comes out is empty, and so is something that goes in.
 * Nothing runs for it on any device. An op may then not walk the sizes of the other dimensions,
 * which can be anything, and nothing that data say is looked at, as indices are.
 * @count: elements of value @k of @of, which are its inputs, then its outputs; -1: absent.
 */
bool rlx_is_idle(int64_t (*count)(const void *of, uint32_t k), const void *of, uint32_t n_in,
		 uint32_t n_out);
/*
 * rlx_op_eval - evaluate one op on host tensors: .eval, or .expand's graph when
 * there is none. @q: err, def, args, n_in, in, n_out, out and collective are set by the caller,
 * output data allocated and typed as inferred; scratch too, or NULL: it is then
 * allocated. The rest is ignored.
 */
enum rlx_status rlx_op_eval(const struct rlx_eval *q);
/*
 * Bytes of scratch that evaluating these types takes; SIZE_MAX: more than can be counted.
 * @q as for .scratch.
 */
size_t rlx_op_scratch(const struct rlx_infer *q);
/*
 * Bytes of inputs and outputs, and the op's own flops, or one for each output element where
 * it says none. @q: args and types, outputs' as well, and def, or NULL for a copy; without
 * .in the op is not asked.
 */
struct rlx_cost rlx_op_cost(const struct rlx_infer *q);
/* Run .infer; @q->in, n_in, args, def, err set by the caller. */
enum rlx_status rlx_op_infer(struct rlx_infer *q);
/*
 * The test cases of ops, for tools and tests: the archive has them, not librlx.so. Leaves and a
 * few others have none. In ops/samples.c.
 */
bool rlx_op_has_samples(const struct rlx_op_def *def);
bool rlx_sample_get(unsigned int i, struct rlx_sample *s);
/*
 * Run @rule, .expand or .grad_expand; all of @q but the results set by the caller. Results have
 * the types @q->out_type then: those of another dtype are rounded to it. What fails is the error
 * of @q->g.
 */
void rlx_expand_op(struct rlx_expand *q, enum rlx_status (*rule)(struct rlx_expand *));

#endif
