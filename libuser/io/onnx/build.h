/* SPDX-License-Identifier: MIT */
/*
 * From a parsed ONNX model to graphs with concrete shapes.
 *
 * Importing is partial evaluation: shape arithmetic, conditions, trip counts and
 * sequences disappear, tensors remain. Most models give one graph. Where the
 * rest of a model depends on a value known only at run time (the number of
 * non-zero elements, a shape computed from data), the import stops there:
 *
 * - If the value follows from small integer inputs of the model, the import
 *   asks for their contents (ONNX_NEED_INPUTS). The caller sets onnx_spec.data
 *   and starts again; the instance then holds for these contents only.
 * - Else the graph so far is a segment (ONNX_NEED_VALUES). The caller runs it,
 *   takes its first n_needed outputs as the answer, and calls again with one
 *   answer more to get the next segment; its carried inputs are outputs of
 *   earlier segments of the same name ("%cut.<n>").
 *
 * Equal model, specs and answers give equal graphs, so all may be cached by them.
 */
#ifndef RLX_IO_ONNX_BUILD_H
#define RLX_IO_ONNX_BUILD_H

#include "io/onnx/proto.h"
#include "ir/opdef.h"
#include "rlx/graph.h"

enum onnx_kind {
	ONNX_ABSENT,		/* an empty optional */
	ONNX_TENSOR,
	ONNX_STRINGS,		/* a tensor of strings: never part of a graph */
	ONNX_LIST,		/* a sequence */
};

/*
 * A value of any ONNX type: what a model input is fixed to, or what a model
 * output came to be. Tensors of graphs are named: the input's or output's name,
 * or "name[i]" for the items of a list.
 */
struct onnx_spec {
	enum onnx_kind		 kind;
	const char		*name;	/* unused in items */
	struct rlx_type		 type;	/* TENSOR, STRINGS (no dtype) */
	const void		*data;	/* TENSOR: contents if known, else NULL */
	const struct onnx_str	*str;	/* STRINGS */
	const struct onnx_spec	*item;	/* LIST */
	uint32_t		 n_item;
};

/* The values of the needed outputs of one earlier segment, in order. */
struct onnx_answer {
	uint32_t		 n;
	const struct rlx_tensor	*v;
};

/*
 * What an import is for.
 * @spec:   the model's inputs, by name, in any order; inputs that have an
 *          initializer may be left out. At most 63 can be asked for.
 * @answer: one for each segment built before
 */
struct onnx_instance {
	const struct onnx_spec	 *spec;
	uint32_t		  n_spec, n_answer;
	const struct onnx_answer *answer;
};

enum onnx_need { ONNX_NEED_NOTHING, ONNX_NEED_INPUTS, ONNX_NEED_VALUES };

struct onnx_segment {
	enum onnx_need		 need;
	struct rlx_graph	*g;	/* finished; NULL: nothing to run */
	/* ONNX_NEED_INPUTS: bit i: contents of specs[i] are wanted; no graph. */
	uint64_t		 inputs;
	/* ONNX_NEED_VALUES: the first outputs of g are the answer. */
	uint32_t		 n_needed;
	/* ONNX_NEED_NOTHING: the model's outputs; type and str filled in. */
	uint32_t		 n_out;
	struct onnx_spec	*out;
	void			*mem;	/* owns @out */
};

/**
 * onnx_build - import the next segment of a model.
 * @f:        an opened model; constants of the graph keep references to it
 * @want:     only read
 * @seg:      filled on success, to be ended with onnx_segment_fini()
 *
 * Context: any thread; allocates.
 * Return: RLX_ENOSUP names the op, its opset, node and attribute; RLX_ENOENT an
 * unknown or missing input; RLX_EPARSE a malformed model; RLX_ESHAPE, RLX_ETYPE
 * operands that do not fit; RLX_ENOMEM.
 */
enum rlx_status onnx_build(struct onnx_file *f,
			   const struct onnx_instance *want,
			   struct onnx_segment *seg, struct rlx_error *err);
void onnx_segment_fini(struct onnx_segment *seg);

/* RLX_NODTYPE if there is no counterpart (strings, complex128, fnuz floats). */
enum rlx_dtype onnx_dtype_to_rlx(int64_t dtype);

#endif
