/* SPDX-License-Identifier: MIT */
/* Derivatives of graphs, as graphs. */
#ifndef RLX_GRAD_H
#define RLX_GRAD_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_ad - what is derived by what; zero means the default everywhere.
 * @size:    sizeof(struct rlx_ad)
 * @of:      values that are derived
 * @seed:    their cotangents, of their types, none: zero. Empty: 1, for one float value of one
 *           element
 * @wrt:     by what; any float or c64 values of the graph
 * @tangent: of rlx_jvp() and rlx_hvp(): the direction, one for each of @wrt, of its type;
 *           none: zero
 * @memory:  of rlx_vjp(): bytes that the backward pass may have of what was computed before it, at
 *           any time; 0: no limit. What is too much it computes once more, right before it needs
 *           it: by bytes for the time that this takes. Counted are values of the graph as it is
 *           written, without inputs, params, states and constants; precision and fusion come
 *           later, so that the workspace falls by other bytes than these
 *
 * Complex numbers are pairs of real ones: the gradient of a real L by z = a + ib is
 * dL/da + i dL/db, in c64, so that z - eta gradient descends, as in PyTorch (jax.grad() gives its
 * conjugate). A cotangent of z is such a gradient, and a tangent is a change of z; the
 * derivative of L along it is the real part of conj(gradient) tangent.
 */
struct rlx_ad {
	size_t			size;
	struct rlx_values	of, seed;
	struct rlx_values	wrt, tangent;
	uint64_t		memory;
};

/**
 * rlx_vjp - emit the reverse-mode derivative into the graph that is being built.
 * @g: open
 * @d: receives one value for each of @a->wrt, in its type: the sum over @a->of of seed times
 *     derivative; zeros where nothing flows
 *
 * What is emitted is ordinary: it can be clipped, fed to an optimizer, derived again. Nothing
 * is computed for values that were not asked for. Rules are those of rlx_graph_vjp(); nothing
 * passes stop_gradient and nodes in RLX_SCOPE_NOGRAD. An op without a rule of its own is
 * differentiated through what it stands for, which is computed once more for that.
 *
 * What the pass reads of values inside a RLX_SCOPE_REMAT, and of more with @a->memory, it computes
 * once more, by the same ops in the same order; passes put these together as they would have been
 * without, so that gradients with @a->memory have the bits of those without it (a device may choose
 * another kernel for the same op elsewhere). Not computed again are collectives and ops that have
 * other results when they are; random numbers are by their counters.
 *
 * Context: one thread per graph; allocates. Errors stick to @g: RLX_EINVAL, RLX_ETYPE,
 * RLX_ESHAPE, RLX_ENOSUP as rlx_graph_vjp() returns them; RLX_ERANGE (@a->memory is less than can
 * be had, which the message tells). All of @d is then none.
 */
RLX_EXPORT void rlx_vjp(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *d);

/**
 * rlx_jvp - emit the forward-mode derivative: @dot receives for each of @a->of, in its type,
 * the derivative along @a->tangent. It is the reverse mode of the reverse mode, which is
 * linear in its cotangents: ops need no other rules.
 * Context and errors as rlx_vjp().
 */
RLX_EXPORT void rlx_jvp(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *dot);

/**
 * rlx_hvp - emit Hessian times vector: @hv receives for each of @a->wrt the derivative of the
 * gradient of @a->of, one value of one element, along @a->tangent.
 * Context and errors as rlx_vjp().
 */
RLX_EXPORT void rlx_hvp(struct rlx_graph *g, const struct rlx_ad *a, rlx_value *hv);

/**
 * struct rlx_vmap - what is computed for many instances at once.
 * @size: sizeof(struct rlx_vmap)
 * @of:   values that are wanted of each instance
 * @over: values in which instances differ, at least one; any of the graph
 * @with: one for each of @over: its values of all instances, of its dtype and of its dimensions
 *        behind a batch axis in front, which is equally long in all
 */
struct rlx_vmap {
	size_t			size;
	struct rlx_values	of, over, with;
};

/**
 * rlx_vmap - emit a part of the graph that is being built once more, for a batch of instances.
 * @g: open
 * @out: receives one value for each of @a->of, in its dtype, with the batch axis in front of its
 *       dimensions: entry i is what @a->of is where @a->over is entry i of @a->with; n times the
 *       same where nothing of @a->over goes into it
 *
 * Only nodes on the way from @a->over to @a->of are emitted, once for all instances, each by the
 * batching rule of its op; what instances share (weights, constants, random numbers) stays one.
 * What is emitted is ordinary and can be derived and mapped again; mapping what rlx_vjp() emitted
 * gives gradients of each instance. An op without a rule, or with none for what is mapped of its
 * inputs, is mapped through what it stands for.
 *
 * Context: one thread per graph; allocates. Errors stick to @g, and all of @out is then none:
 * RLX_EINVAL (no list over, lists of different lengths, a value of another graph, a finished
 * graph), RLX_ESHAPE (a type of @a->with, a rank over RLX_MAX_RANK), RLX_ENOSUP naming an op that
 * cannot be mapped, RLX_ENOMEM.
 */
RLX_EXPORT void rlx_vmap(struct rlx_graph *g, const struct rlx_vmap *a, rlx_value *out);

/**
 * rlx_graph_vjp - a graph and its reverse-mode derivative in one new graph.
 * @g:   finished; not changed
 * @wrt: float or c64 values of @g (inputs, params or any other) to differentiate by
 * @n:   their number
 * @out: receives the new graph, finished, with one reference
 * @err: the message of a failure; may be NULL
 *
 * The new graph has @g's inputs and params and, for each output "y" of float dtype or c64,
 * a further input "d_y" of y's type: how much one unit of y weighs. Its outputs
 * are @g's outputs, then for each @wrt the sum of the weighted derivatives, in
 * its type: "d_<name>" for an input or param, "d_wrt_<k>" for another value.
 * A value that no output depends on gets zeros. floor, ceil, trunc, round, comparisons
 * and integer values let nothing through; casts between floats let all through, and so
 * does fake_quantize, as training with rounded values wants.
 *
 * Context: any thread; allocates.
 * Return: RLX_OK; RLX_EINVAL for an unfinished graph or a foreign value;
 * RLX_ETYPE for a value that is neither float nor c64; RLX_ENOSUP naming an op that has no
 * gradient rule, or none for the complex numbers that it has on the way from @wrt to an
 * output; RLX_EEXIST if "d_<name>" is taken; RLX_ENOMEM.
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
