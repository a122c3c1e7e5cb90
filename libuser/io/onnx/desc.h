/* SPDX-License-Identifier: MIT */
/* The message tables of onnx.proto, and what follows the parse of a tensor. */
#ifndef RLX_IO_ONNX_DESC_H
#define RLX_IO_ONNX_DESC_H

#include "io/onnx/proto.h"

extern const struct pb_msg onnx_msg_model, onnx_msg_tensor, onnx_msg_seq,
	onnx_msg_opt;

/*
 * Set t->data and t->nbytes, checked against dims and dtype. @user of the
 * reader is the struct onnx_file, for external data.
 */
enum rlx_status onnx_tensor_finish(struct onnx_pb *pb, void *msg,
				   struct rlx_str body);

/*
 * Map [offset, offset + length) of the external file @name beside the model.
 * @length < 0: up to the end of the file.
 */
enum rlx_status onnx_file_external(struct onnx_pb *pb, struct rlx_str name,
				   uint64_t offset, int64_t length,
				   struct rlx_str *out);

#endif
