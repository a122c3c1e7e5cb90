/* SPDX-License-Identifier: MIT */
/*
 * From a parsed ONNX model to graphs with concrete shapes, segment by segment
 * (io/segment.h). Importing is partial evaluation: shape arithmetic, conditions, trip
 * counts and sequences disappear, tensors remain.
 */
#ifndef RLX_IO_ONNX_BUILD_H
#define RLX_IO_ONNX_BUILD_H

#include "io/onnx/proto.h"
#include "io/segment.h"
#include "ir/opdef.h"

/**
 * onnx_build - import the next segment of a model.
 * @f:        an opened model; constants of the graph keep references to it
 * @want:     only read; NULL: nothing is imported, but an op that every import meets and none
 *            can do is told. @seg is then empty
 * @seg:      filled on success, to be ended with rlx_segment_fini()
 *
 * Context: any thread; allocates.
 * Return: RLX_ENOSUP names the op, its opset, node and attribute; RLX_ENOENT an
 * unknown or missing input; RLX_EPARSE a malformed model; RLX_ESHAPE, RLX_ETYPE
 * operands that do not fit; RLX_ENOMEM.
 */
enum rlx_status onnx_build(struct onnx_file *f,
			   const struct rlx_instance *want,
			   struct rlx_segment *seg, struct rlx_error *err);

/* RLX_NODTYPE if there is no counterpart (strings, complex128, fnuz floats). */
enum rlx_dtype onnx_dtype_to_rlx(int64_t dtype);

#endif
