/* SPDX-License-Identifier: MIT */
/*
 * Ops of a program's own: C functions that say what comes out, compute it and emit its
 * gradient, and, for GPUs, the text of a kernel. Such an op is a node like any other: it
 * compiles, runs beside others on every device, is differentiated and stands in the text form,
 * by its name. To passes it is opaque: nothing is fused into it.
 *
 *	static enum rlx_status infer(const struct rlx_custom_call *c, const struct rlx_type *in,
 *				     struct rlx_type *out)
 *	{
 *		out[0] = in[0];
 *		return RLX_OK;
 *	}
 *	...
 *	rlx_custom_register(&(struct rlx_custom_op){ .size = sizeof(struct rlx_custom_op),
 *			    .name = "my.axpb", .n_in = 1, .n_out = 1, .infer = infer,
 *			    .eval = eval }, &err);
 *	y = rlx_custom(g, "my.axpb", RLX_VALUES(x), &k, sizeof(k));
 */
#ifndef RLX_CUSTOM_H
#define RLX_CUSTOM_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	RLX_CUSTOM_IN = 16,	/* most inputs, */
	RLX_CUSTOM_OUT = 8,	/* outputs, */
	RLX_CUSTOM_NAME = 64,	/* letters of a name and the 0 behind them, */
	RLX_CUSTOM_PARAMS = 64,	/* numbers for a kernel */
};

/**
 * struct rlx_custom_call - what all functions of an op get.
 * @ctx:   the op's
 * @attrs: the @attr_bytes that rlx_custom() was given; NULL if none
 * @err:   what a failure is to say (rlx_fail()); the caller's message names the op as well
 */
struct rlx_custom_call {
	void			*ctx;
	const void		*attrs;
	size_t			 attr_bytes;
	struct rlx_error	*err;
};

/**
 * struct rlx_custom_launch - how a kernel is launched.
 * @grid:   blocks, x, y and z; preset to 1. One that is 0: there is nothing to do
 * @block:  threads of a block, 1 to 1024 in all; preset to 256, 1, 1
 * @param:  numbers that the kernel gets, preset to 0
 */
struct rlx_custom_launch {
	uint32_t	grid[3], block[3];
	int64_t		param[RLX_CUSTOM_PARAMS];
};

/**
 * struct rlx_custom_kernel - an op on a kind of GPU.
 * @backend: "cuda" or "rocm"
 * @text:    CUDA or HIP C++ that defines @entry; compiled where the op first runs
 * @entry:   the name of a function that every thread of the launch calls:
 *           __device__ void entry(const void *const *in, void *const *out,
 *                                 const long long *param)
 *           Addresses of tensors as in eval(), in device memory, and the launch's numbers.
 *           Each element is as its dtype says; f16 and bf16 are 16 bits.
 * @launch:  how, for these types and attributes; pure, as infer() is. RLX_ENOSUP with a
 *           reason: the kernel does not take these, the host does. NULL: one block of 256
 *           for each 256 elements of output 0, whose number is param[0]
 */
struct rlx_custom_kernel {
	const char	*backend, *text, *entry;
	enum rlx_status	(*launch)(const struct rlx_custom_call *c, const struct rlx_type *in,
				  const struct rlx_type *out, struct rlx_custom_launch *l);
};

/**
 * struct rlx_custom_op - an op; zero means "there is none" but where it says otherwise.
 * @size:    sizeof(struct rlx_custom_op)
 * @name:    letters, digits and . _ - : / ; the part before a dot or slash is best the
 *           program's name
 * @n_in:    inputs, at most RLX_CUSTOM_IN
 * @n_out:   outputs, 1 to RLX_CUSTOM_OUT
 * @ctx:     for all functions
 * @release: called with @ctx when the op has been unregistered
 * @infer:   required: from the inputs' types the outputs', which are zeroed. It is asked again
 *           for the same node, by any thread, and shall say the same
 * @scratch: bytes that one eval() needs besides, of which it gets an address that is a
 *           multiple of 64
 * @eval:    required: from tensors, dense and row-major, what comes out; no output overlaps an
 *           input, and outputs hold rubbish. Of equal inputs and attributes it makes equal
 *           outputs: calls are merged, left out where nobody reads them, and made when
 *           compiling where inputs are constants. One call runs on one thread of the run;
 *           several runs, and so calls, at once. It must not block, nor use the session that
 *           runs. It is not called where an input is empty and so are all outputs
 * @vjp:     emit, into @g, the gradients d_in (preset to none) by those of the outputs, d_out
 *           (none: zero), of the inputs' types; what stays none is zero. Without it a
 *           derivative through the op is refused, with RLX_ENOSUP
 * @kernel:  @n_kernel kernels. On a GPU without one, or without a compiler, the op is a step
 *           on the host by eval(), which rlx_program_report() counts and RLX_COMPILE_NATIVE
 *           refuses. CPUs run eval()
 *
 * Functions that return a status give a reason in the call's @err with any but RLX_OK.
 */
struct rlx_custom_op {
	size_t		 size;
	const char	*name;
	unsigned int	 n_in, n_out;
	void		*ctx;
	void		(*release)(void *ctx);
	enum rlx_status	(*infer)(const struct rlx_custom_call *c, const struct rlx_type *in,
				 struct rlx_type *out);
	size_t		(*scratch)(const struct rlx_custom_call *c, const struct rlx_type *in);
	enum rlx_status	(*eval)(const struct rlx_custom_call *c, const struct rlx_tensor *in,
				const struct rlx_tensor *out, void *scratch);
	enum rlx_status	(*vjp)(const struct rlx_custom_call *c, struct rlx_graph *g,
			       const rlx_value *in, const rlx_value *out, const rlx_value *d_out,
			       rlx_value *d_in);
	const struct rlx_custom_kernel *kernel;
	unsigned int	 n_kernel;
};

/**
 * rlx_custom_register - make an op known to the process under its name.
 * @op:  copied, with its name, kernels and texts; the functions must stay until it has been
 *       unregistered
 * @err: the message of a failure; may be NULL
 *
 * Context: any thread; allocates.
 * Return: RLX_OK; RLX_EEXIST if a custom or another op has the name: it is never replaced, so
 * that graphs keep what they were built with; RLX_EINVAL naming what is missing or malformed;
 * RLX_ENOSUP if @op was built for a newer library and uses what this one lacks; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_custom_register(const struct rlx_custom_op *op, struct rlx_error *err);

/**
 * rlx_custom_unregister - forget the op of that name; its release() is called.
 * Context: any thread. Return: RLX_OK; RLX_ENOENT; RLX_EBUSY while a graph or program has it.
 */
RLX_EXPORT enum rlx_status rlx_custom_unregister(const char *name, struct rlx_error *err);

/* Attributes of a custom op: @n bytes. */
struct rlx_bytes { const void *p; size_t n; };
static inline struct rlx_bytes rlx_bytes(const void *p, size_t n)
{
	struct rlx_bytes b = { p, n };

	return b;
}

/**
 * rlx_custom - emit a registered op.
 * @name:       as registered
 * @in:         as many inputs as it takes, RLX_VALUES(a, b)
 * @attrs:      @attr_bytes that its functions get; copied; NULL if there are none
 *
 * Context: one thread per graph; allocates. Return: output 0, whose others rlx_out() gives;
 * none with what sticks to @g: RLX_ENOENT (no such op), RLX_EINVAL, or what infer() found.
 */
#define rlx_custom(g, name, in, attrs, attr_bytes) \
	rlx_custom_at((g), (name), (in), rlx_bytes((attrs), (attr_bytes)), __FILE__, __LINE__)
RLX_EXPORT rlx_value rlx_custom_at(struct rlx_graph *g, const char *name, struct rlx_values in,
				   struct rlx_bytes attrs, const char *file, unsigned int line);

/**
 * rlx_call - emit what a graph computes, with a gradient of its own.
 * @g:    open
 * @body: finished, without params and states; referenced
 * @in:   for its inputs, in their order
 * @vjp:  finished; referenced. Its inputs are known by their names: those of @body's inputs and
 *        outputs, and "d_" and an output's name for what weighs that one (zeros, if nothing
 *        does); it may have any of them. Its outputs are "d_" and an input's name; an input
 *        without one gets zero. As rlx_graph_vjp() names them. NULL: the gradient is that of
 *        @body's ops
 * @out:  receives @body's outputs, in their order; may be NULL if @vjp is
 *
 * Compiling puts @body's nodes in the place of the call, where they are simplified and fused as
 * any others. Forward mode and second derivatives go through @vjp.
 * Context: one thread per graph; allocates.
 * Return: RLX_OK or what sticks to @g: RLX_EINVAL (not finished, params or states, another
 * number of inputs), RLX_ENOENT (an input or output of @vjp that means nothing), RLX_ESHAPE,
 * RLX_ETYPE, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status rlx_call(struct rlx_graph *g, struct rlx_graph *body,
				    struct rlx_values in, struct rlx_graph *vjp, rlx_value *out);

/* What attribute "op" of a node of op "custom" refers to. Context: any; valid as the node is. */
RLX_EXPORT const struct rlx_custom_op *rlx_custom_info(const struct rlx_custom *c);

#ifdef __cplusplus
}
#endif
#endif
