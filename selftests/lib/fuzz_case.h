/* SPDX-License-Identifier: MIT */
/*
 * A few ops drawn by chance as a graph with its data. All of a case follows from its
 * seed; what is wrong with one is then made as small as it goes and printed as text.
 */
#ifndef SELFTESTS_FUZZ_CASE_H
#define SELFTESTS_FUZZ_CASE_H

#include "ir/opdef.h"
#include "rlx/run.h"

enum {
	FUZZ_LEAVES = 64, FUZZ_NODES = 32, FUZZ_OUT = 4, FUZZ_LIST = 34, FUZZ_ARGS = 256,
	FUZZ_OUTPUTS = 64, FUZZ_TEXT = 512,
};

/* How the data of a leaf is drawn from its range. */
enum fuzz_draw {
	FUZZ_EVEN,	/* uniformly */
	FUZZ_COARSE,	/* quarters and whole numbers: ties */
	FUZZ_ALIKE,	/* one value */
	FUZZ_ODD,	/* some NaN, infinite, -0, subnormal, or the ends of the range */
	FUZZ_BITS,	/* any bits, of integers */
};

struct fuzz_leaf {
	struct rlx_type	type;
	double		lo, hi;		/* both 0: -2 to 2, integers 0 to 1 */
	uint32_t	id;		/* which data it gets; stays while a case shrinks */
	uint8_t		draw;
	bool		fixed;		/* a constant rather than an input */
};

/* A value: -1 none, leaf k, or FUZZ_LEAVES + FUZZ_OUT * node + output. */
typedef int fuzz_ref;

struct fuzz_node {
	const struct rlx_op_def *def;
	_Alignas(16) unsigned char args[FUZZ_ARGS];
	union { int64_t i[FUZZ_LIST]; double f[FUZZ_LIST]; } list[RLX_MAX_FIELDS];
	fuzz_ref	in[RLX_SAMPLE_IN];
	uint32_t	n_in, n_out;
	struct rlx_type	out[FUZZ_OUT];
	double		tol;		/* of the sample; 0: exact */
};

struct fuzz_case {
	uint64_t	seed;
	uint32_t	n_leaf, n_node, flags, keep;	/* @keep: nodes whose results are outputs */
	unsigned int	threads;
	struct fuzz_leaf leaf[FUZZ_LEAVES];
	struct fuzz_node node[FUZZ_NODES];
};

/* ---- fuzz_draw.c: one op, or a few that hang together ---- */
bool fuzz_has_ops(void);	/* false: RLX_FUZZ_OP names none that is drawn */
void fuzz_draw_op(struct fuzz_case *c, uint64_t seed);
void fuzz_draw_graph(struct fuzz_case *c, uint64_t seed);
/* Sample @i of @d as it is; false if there is none, or it is not drawn. */
bool fuzz_draw_sample(struct fuzz_case *c, const struct rlx_op_def *d, uint32_t i);
/* Its result jumps: what comes in must be exact, or anything may come out. */
bool fuzz_is_stepped(const struct rlx_op_def *d);
/* The first of its inputs that has to be finite; UINT32_MAX: none has. */
uint32_t fuzz_finite_from(const struct rlx_op_def *d);

/* ---- fuzz_values.c ---- */
/* End a graph before the first node that is given what is not finite, or beyond its contract. */
void fuzz_cut_nonfinite(struct fuzz_case *c);
/*
 * Put leaves with the data of @id and behind in place of what nodes give that refuse their data;
 * false: of such a node something is an output.
 */
bool fuzz_replace_refusing(struct fuzz_case *c, uint32_t id);

/* ---- fuzz_case.c ---- */
void fuzz_copy(struct fuzz_case *to, const struct fuzz_case *from);
/* Make lists of node @n point at its own memory. */
void fuzz_bind(struct fuzz_node *n);
const struct rlx_type *fuzz_type(const struct fuzz_case *c, fuzz_ref r);
/* Types of all nodes; false if an op refuses, or it is too much work for a test. */
bool fuzz_infer(struct fuzz_case *c);
/* Drop nodes that no output needs and leaves that no node reads. */
void fuzz_prune(struct fuzz_case *c);
/* Does anything read output @o of node @n? */
bool fuzz_is_read(const struct fuzz_case *c, uint32_t n, uint32_t o);
/* May input @k of this op be absent? */
bool fuzz_is_optional(const struct rlx_op_def *d, uint32_t k);
/* Is each element made of many others, and off by a part of the largest? */
bool fuzz_mixes(const struct fuzz_node *n);
/* Data of leaf @k, to be freed. */
void *fuzz_data(const struct fuzz_case *c, uint32_t k);
/*
 * The graph over @data, floats of dtype @from being f64 (0: as they are). @noise: each float
 * that a node gives another one is off by up to that much of itself, and of the largest where
 * the node mixes, by numbers from @seed; 0: none.
 */
struct rlx_graph *fuzz_graph(const struct fuzz_case *c, void *const *data,
			     enum rlx_dtype from, double noise, uint64_t seed);
/*
 * @g, which is put, with what its ops that mix give off by up to @noise, as in fuzz_graph(): of the
 * ops that others stand for, where terms cancel that no input tells apart. As it is where it
 * cannot be built.
 */
struct rlx_graph *fuzz_shaken(struct rlx_graph *g, double noise, uint64_t seed);
void fuzz_print(const struct fuzz_case *c, FILE *f);

/* ---- fuzz_check.c ---- */
/* Run @c on @device and compare; false with what is wrong in @text. */
bool fuzz_check(const struct fuzz_case *c, const char *device, char text[FUZZ_TEXT]);
/* The same, with what the device gave passed through @spoil: are planted errors found? */
typedef void fuzz_spoil_fn(void *ctx, struct rlx_tensor *out, unsigned int n);
bool fuzz_check_spoiled(const struct fuzz_case *c, const char *device, fuzz_spoil_fn *spoil,
			void *ctx, char text[FUZZ_TEXT]);
/* fuzz_check() in a process of its own: a crash, or no end, is wrong as well. */
bool fuzz_check_apart(const struct fuzz_case *c, const char *device, char text[FUZZ_TEXT]);
/* Make a case that fails on @device smaller while it fails. */
void fuzz_shrink(struct fuzz_case *c, const char *device);

#endif
