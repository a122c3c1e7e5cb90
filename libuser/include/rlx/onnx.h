/* SPDX-License-Identifier: MIT */
/* Graphs as ONNX files, for other runtimes. Reading them: rlx/model.h. */
#ifndef RLX_ONNX_H
#define RLX_ONNX_H

#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * rlx_onnx_write - write a graph as a model of opset 20.
 * @path:  replaced once all is written; on failure what was there stays
 * @g:     finished; not changed
 * @w:     @n tensors by the names of params and states, which become initializers; of inputs
 *         too, which then are none. Leaves that are not named are inputs of the model
 *
 * Outputs keep their names, and the next values of states are none. Ops that ONNX has not are
 * written as what they stand for. Values in between are called by a dot and a number.
 *
 * Context: any thread; allocates, blocks on the file.
 * Return: RLX_ENOSUP naming an op that cannot be said in ONNX; RLX_ENOENT (no such leaf);
 * RLX_ESHAPE (a tensor of another type); RLX_EINVAL (not finished, a name that is no UTF-8, or
 * that two of inputs and outputs have, or one that looks like a value's); RLX_ERANGE (over
 * 2 GiB); RLX_EACCES, RLX_EIO and others for the file; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_onnx_write(const char *path, const struct rlx_graph *g, const struct rlx_named_tensor *w,
	       unsigned int n, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
