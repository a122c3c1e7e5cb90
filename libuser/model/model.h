/* SPDX-License-Identifier: MIT */
/* Private structs of the model layer, and runs over values of any type that models have. */
#ifndef RLX_MODEL_MODEL_H
#define RLX_MODEL_MODEL_H

#include <stdatomic.h>

#include "base/map.h"
#include "io/segment.h"
#include "ir/opdef.h"
#include "rlx/model.h"

struct rlx_model {
	atomic_uint		 refs;
	const struct rlx_model_format *format;
	void			*file;		/* the format's; NULL: it did not open */
	struct rlx_graph	*graph;		/* what it is made from; NULL: a file */
	struct rlx_model_io	*io[2];		/* inputs, outputs */
	unsigned int		 n_io[2];
	struct rlx_named_tensor	*tensor;	/* those stored in the file */
	unsigned int		 n_tensor;
	struct rlx_bump		*bump;
};

struct rlx_compiled;
struct rlx_compiles;

/*
 * One segment of a model for known inputs, compiled. What comes after it depends
 * on the values of its needed outputs: children by those.
 */
struct rlx_stage {
	struct rlx_stage	*parent, *root, *next_all;	/* root: the first one */
	struct rlx_compiled	*compiled;	/* of a root: whose seg and program it has */
	struct rlx_segment	 seg;
	struct rlx_program	*program;
	struct rlx_session	*session;	/* NULL: nothing to run */
	struct rlx_map		 child;		/* contents of the answer -> stage */
	struct rlx_answer	 answer;	/* this stage's, in its session's memory */
	struct rlx_tensor	*answers;
	uint64_t		 bytes;		/* its session's, on host and device */
	/* of a root: the runner's map has it; when it ran last, by the runner's count */
	bool			 keyed;
	uint64_t		 used;
	uint64_t		 turn;		/* of the runner's params that it has */
	bool			 lent;		/* rlx_runner_session() gave it away */
};

/* What a runner keeps of stages that ran, and again of what was compiled ahead of its run. */
enum { RLX_MAX_STAGES = 512, RLX_MAX_STAGE_BYTES = 256 << 20 };

struct rlx_runner {
	struct rlx_model	*m;
	struct rlx_compile_opts	 opts;
	char			*device;
	struct rlx_map		 asked;		/* input types -> mask of contents asked */
	struct rlx_map		 first;		/* ... and those contents -> stage */
	struct rlx_stage	*all;		/* list of every stage, for freeing */
	unsigned int		 n_stage;
	uint64_t		 bytes, runs;	/* of all stages; runs begun */
	struct rlx_stage	*last;		/* of the last run: where outputs are */
	/* params of a graph: names and types (no data), what they are set to, and when */
	struct rlx_named_tensor	*param;
	struct rlx_param_value	**value;	/* NULL: not set */
	uint64_t		*set_turn, turn;
	unsigned int		 n_param;
	struct rlx_compiles	*compiles;	/* shared with clones */
	uint64_t		 prepared;	/* the last point that rlx_runner_prepare() gave */
	/* May the sessions of one run take so many bytes, on host and device? NULL: they may. */
	enum rlx_status		(*admit)(void *ctx, uint64_t bytes, struct rlx_error *err);
	void			*admit_ctx;
};

/* A growing key; rlx_free(key.p) ends it. */
struct rlx_key {
	unsigned char	*p;
	uint32_t	 n, cap;
	bool		 failed;
};

void rlx_key_add(struct rlx_key *k, const void *p, size_t n);
void rlx_key_type(struct rlx_key *k, const struct rlx_type *t);
/* The types of inputs and params; of the inputs that the import @asked for, the contents. */
void rlx_key_types(struct rlx_key *k, const struct rlx_runner *r, const struct rlx_spec *in,
		   unsigned int n);
void rlx_key_asked(struct rlx_key *k, const struct rlx_spec *in, unsigned int n, uint64_t asked);

/* An empty model with one reference; NULL: out of memory. */
struct rlx_model *rlx_model_alloc(void);
/* Make it one of @g, which is finished and gets a reference. RLX_ENOSUP (states), RLX_ENOMEM */
enum rlx_status rlx_model_take_graph(struct rlx_model *m, struct rlx_graph *g,
				     struct rlx_error *err);
/* format_text.c: what a file has in the text form; errors name path, line and column. */
enum rlx_status rlx_text_file_graph(const char *path, struct rlx_graph **out,
				    struct rlx_error *err);
/* Inputs and outputs of a model that is @g, which lives as long; false: out of memory. */
bool rlx_model_describe(struct rlx_model *m, const struct rlx_graph *g);
/* Outputs of @seg, whose graph is there and whole. RLX_ENOMEM: it is empty then. */
enum rlx_status rlx_segment_of_graph(const struct rlx_model *m, struct rlx_segment *seg,
				     struct rlx_error *err);
/* @in in the model's order; rlx_free(*@out) ends it. RLX_EINVAL names one whose type is none. */
enum rlx_status rlx_model_specs(const struct rlx_model *m, const struct rlx_named_tensor *in,
				unsigned int n, struct rlx_spec **out, struct rlx_error *err);
/* RLX_EINVAL names an input whose contents are asked for, and not there; RLX_OK: none. */
enum rlx_status rlx_contents_are_there(const struct rlx_spec *in, unsigned int n, uint64_t asked,
				       struct rlx_error *err);

/* As rlx_model_specs(), of what a caller gave. */
enum rlx_status rlx_runner_specs(const struct rlx_runner *r, const struct rlx_named_tensor *in,
				 unsigned int n, struct rlx_spec **out, struct rlx_error *err);

/* RLX_ENOMEM and its message. */
enum rlx_status rlx_runner_no_memory(struct rlx_error *err);

/* runner_params.c; fini also after a failed init. */
enum rlx_status rlx_runner_params_init(struct rlx_runner *r, struct rlx_error *err);
void rlx_runner_params_fini(struct rlx_runner *r);
unsigned int rlx_runner_params_set(const struct rlx_runner *r, struct rlx_named_tensor *out);
/* RLX_EINVAL names one that is not set. */
enum rlx_status rlx_runner_params_whole(const struct rlx_runner *r, struct rlx_error *err);
/* Bind in @s what was set since. */
enum rlx_status rlx_runner_params_bind(const struct rlx_runner *r, struct rlx_stage *s,
				       struct rlx_error *err);

/* Nobody has it, nor its outputs; the next run of @s makes it again. */
void rlx_stage_drop_session(struct rlx_runner *r, struct rlx_stage *s);

/* The program of a segment of @m's. */
enum rlx_status rlx_segment_program(struct rlx_model *m, const struct rlx_segment *seg,
				    const struct rlx_compile_opts *o, struct rlx_program **out,
				    struct rlx_error *err);

/* What rlx_model_graph() and rlx_compile() give together; of a plan file what is in it. */
enum rlx_status rlx_model_program(struct rlx_model *m, const struct rlx_named_tensor *in,
				  unsigned int n_in, const struct rlx_compile_opts *o,
				  struct rlx_program **out, struct rlx_error *err);

/* As rlx_runner_run(), for lists and strings too; outputs in last->seg.out. */
enum rlx_status rlx_runner_run_specs(struct rlx_runner *r,
				     const struct rlx_spec *in, unsigned int n_in,
				     struct rlx_error *err);

/*
 * Where the tensor @name of the last run's outputs is: a graph output of the last
 * stage. NULL: not there.
 */
const void *rlx_runner_find(const struct rlx_runner *r, const char *name);

#endif
