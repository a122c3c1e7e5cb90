/* SPDX-License-Identifier: MIT */
/*
 * All values of a run, to find where a NaN comes from.
 *
 *	struct rlx_inspection *all;
 *	const struct rlx_inspected *v;
 *
 *	if (!rlx_session_inspect(session, &all, &err)) {
 *		v = rlx_inspection_first_bad(all, 0);
 *		if (v)		v->op, v->file, v->line; v->in[k] are what it was computed of
 *		rlx_inspection_free(all);
 *	}
 */
#ifndef RLX_INSPECT_H
#define RLX_INSPECT_H

#include "rlx/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_inspection;

/**
 * struct rlx_inspected - one value. Strings, @data and @in live as long as the inspection.
 * @id:     its number in the text form of rlx_program_graph(): 5 is "%5" there
 * @op:     the op after the passes that made it, which may be one that they fused
 * @name:   of an input, param or state; else NULL
 * @file, @line: where the op was emitted; NULL and 0: nobody knows
 * @data:   its elements, dense; NULL: a constant whose contents a plan file left out, and all
 *          that is said of elements is 0
 * @count:  of elements; @nan, @inf, @nonzero: how many are so. A complex one is NaN or infinite
 *          if one of its parts is
 * @first_nan, @first_inf: the first such element; -1: none
 * @min, @max, @absmax: of the finite ones (complex: of their real parts); 0 if there is none
 * @in:     @n_in values that its op took, NULL where an optional one is left out
 */
struct rlx_inspected {
	uint32_t			   id;
	const char			  *op, *name, *file;
	unsigned int			   line;
	struct rlx_type			   type;
	const void			  *data;
	int64_t				   count, nan, inf, nonzero, first_nan, first_inf;
	double				   min, max, absmax;
	const struct rlx_inspected *const *in;
	unsigned int			   n_in;
};

/**
 * rlx_session_inspect - what the next run would compute, value by value.
 * @s: with values for all inputs and params. Neither it nor its states are changed
 *
 * The program's graph, as it is after the passes, is run once more on what @s is bound to, on
 * the same device, with every value kept; so it takes memory for all of them, and what a run
 * computes in one launch is computed in several, which may round otherwise. Values inside
 * fused ops are not seen, those in the bodies of control flow by rlx_inspection_inside(). All
 * rows are computed, whatever rlx_session_extent() says. Without a collective of its own:
 * rlx_session_collective().
 *
 * Context: as rlx_compile() and rlx_session_run(); the session must not run meanwhile.
 * Ownership: rlx_inspection_free(). Return: what these two return; RLX_EINVAL (an input or param
 * has no value), RLX_EBUSY, RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_session_inspect(struct rlx_session *s, struct rlx_inspection **out, struct rlx_error *err);
RLX_EXPORT void rlx_inspection_free(struct rlx_inspection *a);

/* Values in the order in which they are computed, leaves first; NULL from the last one on. */
RLX_EXPORT const struct rlx_inspected *
rlx_inspection_at(const struct rlx_inspection *a, unsigned int i);

/**
 * rlx_inspection_first_bad - the first value with a NaN, which may be an input; NULL: none.
 * @flags: RLX_INSPECT_INF: one with an infinity counts, too; other bits say nothing
 */
enum rlx_inspect_flags {
	RLX_INSPECT_INF	= 1u << 0,
};
RLX_EXPORT const struct rlx_inspected *
rlx_inspection_first_bad(const struct rlx_inspection *a, uint32_t flags);

/**
 * rlx_inspection_inside - the first bad value in the bodies of a value's op.
 * @v:         of @a: what control flow (if, while, scan, call) gave, as rlx_inspection_first_bad()
 *             or this function found it; control flow in bodies is asked about in turn
 * @flags:     as there, and no others
 * @out:       a value of a body, computed of @in as there, whose own inputs are not told; NULL: the
 *             op is no control flow, or no value in its bodies is bad. @id is its number in the
 *             text of its body, @name that of an input of the body
 * @iteration: how often the body had been called before, by the op's evaluation
 *
 * The op is evaluated on the host, on the values that it took, by the reference evaluator up to
 * that value; so it may take long, and may round otherwise than the device.
 * Context: one thread at a time; allocates. Ownership: *@out lives as long as @a. Return:
 * RLX_EINVAL, RLX_ENOMEM, RLX_ENOSUP (contents of a constant that a plan file left out), or what
 * an op of a body says of its input.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_inspection_inside(struct rlx_inspection *a, const struct rlx_inspected *v, uint32_t flags,
		      const struct rlx_inspected **out, int64_t *iteration, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
