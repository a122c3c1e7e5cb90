/* SPDX-License-Identifier: MIT */
/*
 * Pointwise code as data, for hosts that have no compiler: what the text of a step
 * would say, as steps over numbered values of 64 bits.
 */
#ifndef RLX_G_POINTWISE_INTERP_H
#define RLX_G_POINTWISE_INTERP_H

#include "kernels/gpu/pointwise.h"

enum { RLX_G_ANY_OPS = 96, RLX_G_ANY_VALUES = 64, RLX_G_ANY_CONSTS = 24 };

/* Rows of elementwise.def, by number. */
enum {
#define EW1(n, ...) RLX_G_ANY_##n,
#define EW2(n, ...) RLX_G_ANY_##n,
#define EW3(n, ...) RLX_G_ANY_##n,
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
	RLX_G_ANY_CAST,
};

/*
 * Value @out is the op of values @in, which are cast from dtypes @type to @of, cast
 * from @of to @to; a cast is its first operand, from its dtype to @to.
 */
struct rlx_g_any_op {
	uint8_t	op, of, to, out, n, in[3], type[3];
};

/* @ew first: the kernel that a compiler makes takes nothing else. */
struct rlx_g_any {
	struct rlx_g_ew		ew;
	uint8_t			n_in, n_out, n_op, n_const;
	uint8_t			in_type[RLX_G_EW_IN], in_value[RLX_G_EW_IN];
	uint8_t			out_type[RLX_G_EW_OUT], out_value[RLX_G_EW_OUT];
	uint8_t			const_value[RLX_G_ANY_CONSTS];
	uint64_t		bits[RLX_G_ANY_CONSTS];
	struct rlx_g_any_op	op[RLX_G_ANY_OPS];
};

#endif
