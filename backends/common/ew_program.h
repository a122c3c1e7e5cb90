/* SPDX-License-Identifier: MIT */
/*
 * Pointwise ops and regions as programs of kernels/ew.h, being written. Operands are inputs, in the
 * order of the step's, and the results of steps; inputs' and outputs' places are the caller's.
 */
#ifndef RLX_BACKENDS_EW_PROGRAM_H
#define RLX_BACKENDS_EW_PROGRAM_H

#include "backends/common/lower.h"
#include "ir/graph.h"
#include "kernels/ew.h"

/* @ok: so far all ops have steps, and there is room for them. */
struct rlx_ew_writer {
	struct rlx_k_ew	*a;
	int		 cls;
	bool		 ok;
};

/* The class of registers that hold @dt; -1: none. */
int rlx_ew_class(enum rlx_dtype dt);
/* That of one op of operands @in; of a region's body. */
int rlx_ew_class_of(const struct rlx_op_def *def, const struct rlx_type *const *in, uint32_t n);
int rlx_ew_region_class(const struct rlx_graph *b);

/* A program of @cls, without steps, whose result has @shape. */
void rlx_ew_begin(struct rlx_ew_writer *w, struct rlx_k_ew *a, int cls,
		  const struct rlx_type *shape);
/* One more step, of enum rlx_k_ew_op; the operand that its result is. */
uint8_t rlx_ew_step(struct rlx_ew_writer *w, int op, const uint8_t src[3]);
/* All of an op with @n inputs, which are the program's. */
void rlx_ew_one(struct rlx_ew_writer *w, const struct rlx_op_def *def,
		const struct rlx_type *const *in, uint32_t n, enum rlx_dtype result);
/*
 * All of body @b. @reg: by value of the body, the operand that it is; those of inputs are there
 * already.
 */
void rlx_ew_body(struct rlx_ew_writer *w, const struct rlx_graph *b, uint8_t *reg);

#endif
