/* SPDX-License-Identifier: MIT */
/*
 * What an importer makes of a model for given inputs, whatever format its file has.
 *
 * Most models give one graph. Where the rest of a model depends on a value known only at
 * run time (the number of non-zero elements, a shape computed from data), the import
 * stops there:
 *
 * - If the value follows from small integer inputs of the model, the import
 *   asks for their contents (RLX_NEED_INPUTS). The caller sets rlx_spec.data
 *   and starts again; the instance then holds for these contents only.
 * - Else the graph so far is a segment (RLX_NEED_VALUES). The caller runs it,
 *   takes its first n_needed outputs as the answer, and calls again with one
 *   answer more to get the next segment; its carried inputs are outputs of
 *   earlier segments of the same name ("%cut.<n>").
 *
 * Equal model, specs and answers give equal graphs, so all may be cached by them.
 */
#ifndef RLX_IO_SEGMENT_H
#define RLX_IO_SEGMENT_H

#include "base/str.h"
#include "rlx/graph.h"

struct rlx_tensor;
struct rlx_named_tensor;

enum rlx_spec_kind {
	RLX_SPEC_ABSENT,	/* an empty optional */
	RLX_SPEC_TENSOR,
	RLX_SPEC_STRINGS,	/* a tensor of strings: never part of a graph */
	RLX_SPEC_LIST,		/* a sequence */
};

/*
 * A value of any type that models have: what a model input is fixed to, or what a model
 * output came to be. Tensors of graphs are named: the input's or output's name,
 * or "name[i]" for the items of a list.
 */
struct rlx_spec {
	enum rlx_spec_kind	 kind;
	const char		*name;	/* unused in items */
	struct rlx_type		 type;	/* TENSOR, STRINGS (no dtype) */
	const void		*data;	/* TENSOR: contents if known, else NULL */
	const struct rlx_str	*str;	/* STRINGS */
	const struct rlx_spec	*item;	/* LIST */
	uint32_t		 n_item;
};

/* The values of the needed outputs of one earlier segment, in order. */
struct rlx_answer {
	uint32_t		 n;
	const struct rlx_tensor	*v;
};

/*
 * What an import is for.
 * @spec:   the model's inputs, by name, in any order; inputs that have a default
 *          may be left out. At most 63 can be asked for.
 * @answer: one for each segment built before
 * @param:  types of params that are set, of models that have some
 */
struct rlx_instance {
	const struct rlx_spec	*spec;
	uint32_t		 n_spec, n_answer;
	const struct rlx_answer	*answer;
	const struct rlx_named_tensor *param;
	uint32_t		 n_param;
};

enum rlx_need { RLX_NEED_NOTHING, RLX_NEED_INPUTS, RLX_NEED_VALUES };

struct rlx_segment {
	enum rlx_need		 need;
	struct rlx_graph	*g;	/* finished; NULL: nothing to run */
	/* RLX_NEED_INPUTS: bit i: contents of specs[i] are wanted; no graph. */
	uint64_t		 inputs;
	/* RLX_NEED_VALUES: the first outputs of g are the answer. */
	uint32_t		 n_needed;
	/* RLX_NEED_NOTHING: the model's outputs; type and str filled in. */
	uint32_t		 n_out;
	struct rlx_spec		*out;
	struct rlx_bump		*mem;	/* owns @out; NULL: nothing does */
};

/* Drop what @seg holds. It may be all zero. */
void rlx_segment_fini(struct rlx_segment *seg);

#endif
