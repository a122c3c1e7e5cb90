/* SPDX-License-Identifier: MIT */
/*
 * What run, bench, dump and explain work on: a model file, the text form of a graph or a plan
 * file, with the inputs that the command line describes, compiled.
 */
#ifndef RLX_TOOLS_SUBJECT_H
#define RLX_TOOLS_SUBJECT_H

#include "rlx/npy.h"
#include "tools/rlx/precision.h"
#include "tools/rlx/tool.h"

/* Options of all of them, rows of their tables by SUBJECT_ARGS. */
struct subject_args {
	struct arg_list	 input, dim, shape;
	uint64_t	 seed, threads;
	const char	*device;
	int		 precision;
	bool		 no_fuse, no_simplify, native, strict_bits;
};

#define SUBJECT_ARGS(a)							\
	{ "input", ARG_LIST, &(a)->input, "NAME=WHAT",			\
	  "FILE.npy, random, random:LO:HI, zeros or const:V;\n"		\
	  "random without it: floats in [-1, 1], integers 0 or 1" },	\
	{ "dim", ARG_LIST, &(a)->dim, "NAME=N",				\
	  "a dimension that the model or graph leaves open" },		\
	{ "shape", ARG_LIST, &(a)->shape, "NAME=D,D,...",		\
	  "the whole shape of an input" },				\
	{ "seed", ARG_UINT, &(a)->seed, "N", "of random inputs (1)" },	\
	{ "device", ARG_STR, &(a)->device, "NAME", DEVICE_WORDS },	\
	{ "precision", ARG_WORD, &(a)->precision, PRECISION_WORDS,	\
	  "what float ops compute in (f32: as written)" },		\
	{ "no-fuse", ARG_FLAG, &(a)->no_fuse, NULL, "do not fuse ops" },	\
	{ "no-simplify", ARG_FLAG, &(a)->no_simplify, NULL,		\
	  "compile the graph as it is" },				\
	{ "native", ARG_FLAG, &(a)->native, NULL,			\
	  "fail if an op has no native kernel" },			\
	{ "strict-bits", ARG_FLAG, &(a)->strict_bits, NULL,		\
	  "the same bits for each batch, thread count and processor" }

#define SUBJECT_MORE							\
	"MODEL is an ONNX file, a GGUF file of a decoder, a folder of an\n" \
	"encoder, a graph in the text form that rlx dump --whole prints, or\n" \
	"a plan file of rlx compile, which is compiled already."

struct subject {
	const char		*cmd, *path;
	struct rlx_model	*model;		/* one of these two */
	struct rlx_graph	*graph;
	bool			plan;		/* of a plan file, which @path names */
	struct rlx_named_tensor	*in;		/* a graph's params stand behind its inputs */
	void			**own;		/* memory of generated inputs */
	struct rlx_npy		**npy;		/* files of the others */
	unsigned int		 n_in;
	struct rlx_runner	*runner;	/* of a model */
	struct rlx_session	*session;	/* NULL: a model in several stages */
	bool			 own_session;
};

/*
 * Each tells what failed and gives an enum tool_exit. subject_close() may follow
 * any of them.
 */
int subject_open(struct subject *s, const char *cmd, const char *path);
int subject_inputs(struct subject *s, const struct subject_args *a);
/* Compile with @opts (dump is the caller's, the rest is from @a) and run once. */
int subject_compile(struct subject *s, const struct subject_args *a,
		    struct rlx_compile_opts opts);
/* The same without the run; a model of several programs is an error. */
int subject_program(struct subject *s, const struct subject_args *a,
		    struct rlx_compile_opts opts);
/* What @a says of compiling, into @o. */
void subject_options(struct rlx_compile_opts *o, const struct subject_args *a);
/* Drop what was compiled, so that it can be compiled otherwise. */
void subject_drop(struct subject *s);
void subject_close(struct subject *s);

void subject_args_free(struct subject_args *a);

/* One run on the inputs that are bound already. */
enum rlx_status subject_run(struct subject *s, struct rlx_error *err);

/*
 * Run for @seconds with a clock at every step, and print a row for each kind of
 * step, the costliest first.
 */
int profile(struct subject *s, double seconds, enum table_format how);

/*
 * What the runs behind the first leave out, being of params and constants alone: how many
 * steps, and what these cost. @all: no step reads an input, so what runs again hands the same
 * results out. Of a subject with a session that has run; false: out of memory.
 */
struct left_out {
	unsigned int	steps;
	double		flops, bytes;
	bool		all;
};

bool left_out(const struct subject *s, struct left_out *out);

/* Output @i of the last run; @n of them. */
unsigned int subject_outputs(const struct subject *s);
bool subject_output(const struct subject *s, unsigned int i,
		    struct rlx_named_tensor *out);

/* The part of "NAME=VALUE" behind the first =, if NAME is @name; else NULL. */
const char *value_of(const char *text, const char *name);

#endif
