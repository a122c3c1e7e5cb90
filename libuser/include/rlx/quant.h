/* SPDX-License-Identifier: MIT */
/*
 * Post-training quantization: GEMMs of f32 become GEMMs of 8-bit integers.
 *
 *	rlx_quant_calibrate(g, sets, n, &ranges, &err)	runs g on sample inputs
 *	rlx_graph_quantize(g, ranges, NULL, &q, &err)	q has g's inputs and outputs
 *	rlx_quant_ranges_free(ranges)
 *
 * Taken are matmul and conv (grouped and depthwise too) whose right-hand side or
 * weights are f32 constants; what comes from a param, an op inside a sub-graph and
 * every other op stays as it is. Inputs and outputs keep their dtypes.
 */
#ifndef RLX_QUANT_H
#define RLX_QUANT_H

#include "rlx/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the values that GEMMs read were between; of one graph. Immutable. */
struct rlx_quant_ranges;

/**
 * struct rlx_quant_set - one set of inputs to calibrate with.
 * @tensor: every input and, in the first set, every param; a set that leaves out a
 *          param has the one of the set before
 * @n:      their number
 */
struct rlx_quant_set {
	const struct rlx_named_tensor	*tensor;
	unsigned int			 n;
};

/**
 * struct rlx_quant_opts - zero means the default everywhere.
 * @size:       sizeof(struct rlx_quant_opts)
 * @skip:       names of ops to leave in f32: "matmul", "conv"
 * @n_skip:     their number
 * @symmetric:  what is read is i8 about 0, instead of u8 with a zero point
 * @per_tensor: one scale for a weight, instead of one for each output channel
 */
struct rlx_quant_opts {
	size_t			 size;
	const char *const	*skip;
	unsigned int		 n_skip;
	bool			 symmetric;
	bool			 per_tensor;
};

/**
 * rlx_quant_calibrate - run a graph on sample inputs and note least and greatest.
 * @g:    finished; not changed; the ranges reference a simplified copy
 * @sets: sample inputs like those to come; one run for each
 * @n:    their number, at least 1
 * Context: any thread; allocates, compiles for "cpu" and runs there. All values that
 * GEMMs read are kept during a run.
 * Ownership: *@out is the caller's, for rlx_quant_ranges_free().
 * Return: RLX_OK; RLX_EINVAL: an unfinished graph, no set, an input or param that is
 * not given, or a value that is infinite or no number, named by the op and line that
 * made it; RLX_ENOENT, RLX_ESHAPE, RLX_ETYPE: a tensor that is no input or param, or
 * does not fit it; RLX_ENOMEM; any status of a run.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_quant_calibrate(struct rlx_graph *g, const struct rlx_quant_set *sets,
		    unsigned int n, struct rlx_quant_ranges **out,
		    struct rlx_error *err);

/* Ends with the ranges; graphs made by them go on. NULL is fine. Any thread. */
RLX_EXPORT void rlx_quant_ranges_free(struct rlx_quant_ranges *r);

/**
 * rlx_graph_quantize - a graph of 8-bit GEMMs that stands for an f32 one.
 * @g:    the graph that @r was made from, or an equal one; not changed
 * @opts: NULL for the defaults
 * @out:  receives the new graph, finished, with one reference
 *
 * A product reads a quantize of its input and an i8 constant, adds an i32 bias and
 * gives f32. Where only another quantize reads that, also behind a relu, it gives
 * bytes. A quantize moves above reshape, transpose and concat, and above a slice of
 * what is quantised alike, so that bytes are moved. Left in f32 is a product whose
 * input was always 0, whose weights are not all finite, that sums over more than
 * 32768 terms, or that has no range because the graph does not need it.
 * Context: any thread, also several with the same ranges; allocates.
 * Return: RLX_OK; RLX_EINVAL: ranges of another graph, an unfinished graph or
 * @opts->size of 0; RLX_ENOENT: a name in @skip that is none of the ops taken;
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_graph_quantize(const struct rlx_graph *g, const struct rlx_quant_ranges *r,
		   const struct rlx_quant_opts *opts, struct rlx_graph **out,
		   struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
