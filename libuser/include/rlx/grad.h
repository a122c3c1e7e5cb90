/* SPDX-License-Identifier: MIT */
/* Derivatives of graphs, as graphs. */
#ifndef RLX_GRAD_H
#define RLX_GRAD_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * rlx_graph_vjp - a graph and its reverse-mode derivative in one new graph.
 * @g:   finished; not changed
 * @wrt: float values of @g (inputs, params or any other) to differentiate by
 * @n:   their number
 * @out: receives the new graph, finished, with one reference
 * @err: the message of a failure; may be NULL
 *
 * The new graph has @g's inputs and params and, for each output "y" of float dtype,
 * a further input "d_y" of y's type: how much one unit of y weighs. Its outputs
 * are @g's outputs, then for each @wrt the sum of the weighted derivatives, in
 * its type: "d_<name>" for an input or param, "d_wrt_<k>" for another value.
 * A value that no output depends on gets zeros. floor, ceil, trunc, round, comparisons
 * and integer values let nothing through; casts between floats let all through, and so
 * does fake_quantize, as training with rounded values wants. Ops that stand for others
 * are expanded on the way.
 *
 * Context: any thread; allocates.
 * Return: RLX_OK; RLX_EINVAL for an unfinished graph or a foreign value;
 * RLX_ETYPE for a value that is no float; RLX_ENOSUP naming an op that has no
 * gradient rule, or whose complex input depends on @wrt, on the way to an output
 * (there are no gradients through c64); RLX_EEXIST if "d_<name>" is taken; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_graph_vjp(const struct rlx_graph *g, const rlx_value *wrt, unsigned int n,
	      struct rlx_graph **out, struct rlx_error *err);

/**
 * rlx_graph_grad - the same for a loss: output 0 must have one float element and
 * weighs 1, the other outputs weigh nothing; no inputs are added.
 * Context, ownership and errors as rlx_graph_vjp(); RLX_ESHAPE if output 0 is
 * more than one element.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_graph_grad(const struct rlx_graph *g, const rlx_value *wrt, unsigned int n,
	       struct rlx_graph **out, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
