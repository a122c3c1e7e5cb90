/* SPDX-License-Identifier: MIT */
/* A row of elementwise.def, for passes and backends that generate code. */
#ifndef RLX_OPS_ELEMENTWISE_H
#define RLX_OPS_ELEMENTWISE_H

#include "ir/opdef.h"

struct ew_row {
	uint16_t	 op;		/* enum rlx_op_index */
	uint8_t		 arity;		/* 1, 2, 3 */
	uint8_t		 result;	/* 1: bool */
	const char	*types;		/* of "FIB" */
	double		(*f)(double x0, double x1, double x2);
	int64_t		(*i)(int64_t x0, int64_t x1, int64_t x2);
	uint64_t	(*u)(uint64_t x0, uint64_t x1, uint64_t x2);
	const char	*value;		/* the dialect text */
	const char	*deriv[3];	/* "NODIFF" where there is none */
};

/* NULL if @def is not a pointwise op. */
const struct ew_row *rlx_ew_row(const struct rlx_op_def *def);

#endif
