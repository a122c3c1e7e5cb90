/* SPDX-License-Identifier: MIT */
/* Graphs of an ONNX model imported as bodies of control-flow ops. */
#ifndef RLX_IO_ONNX_BODY_H
#define RLX_IO_ONNX_BODY_H

#include "io/onnx/handlers.h"

/* Freed with onnx_ctx_free(). */
struct onnx_body {
	struct onnx_ctx		*ctx;
	rlx_value		*in, *out;	/* in @ctx */
	uint32_t		 n_in, n_out;
};

/* Open a body with inputs of these types; @vals are to be bound to its graph. */
enum rlx_status onnx_body_begin(struct onnx_op *q, struct onnx_body *b,
				const struct rlx_type *type, uint32_t n,
				struct onnx_val **vals);
/*
 * Close it, whatever @st says went before; else @out are its results.
 * ONNX_INNER also if they are not all tensors.
 */
enum rlx_status onnx_body_end(struct onnx_op *q, struct onnx_body *b,
			      struct onnx_val *const *out, uint32_t n,
			      enum rlx_status st);
/* Finish its graph; ONNX_INNER if it is no good, unless memory ran out. */
enum rlx_status onnx_body_finish(struct onnx_op *q, struct onnx_body *b);
bool onnx_body_gives(const struct onnx_body *b, uint32_t out,
		     const struct rlx_type *t);
/* Captured values as inputs of the op: used in the graph around it. */
void onnx_captures(struct onnx_op *q, const struct onnx_body *b, rlx_value *v);
/* @n equal tensors along a new first axis. */
enum rlx_status onnx_stack(struct onnx_op *q, struct onnx_val *const *y,
			   uint32_t n, rlx_value *out);

#endif
