// SPDX-License-Identifier: MIT
/* Complex numbers by what they are made of. */
#include "ops/complex.h"

rlx_value op_complex_pairs(struct rlx_graph *g, rlx_value z)
{
	struct rlx_type t = op_type(g, z);
	int64_t n = rlx_type_count(&t);

	return rlx_emit(g, view_as_real, .x = op_reshape(g, z, &n, 1));
}

rlx_value op_complex_of_pairs(struct rlx_graph *g, rlx_value pairs, const struct rlx_type *t)
{
	return op_reshape(g, rlx_emit(g, view_as_complex, .x = pairs), t->dim, t->rank);
}

rlx_value op_complex_part(struct rlx_graph *g, rlx_value z, uint32_t which)
{
	struct rlx_type t = op_type(g, z);
	rlx_value x = rlx_emit(g, slice, .x = op_complex_pairs(g, z), .axes = RLX_INTS(1),
			       .starts = RLX_INTS(which), .ends = RLX_INTS(which + 1));

	return op_reshape(g, x, t.dim, t.rank);
}

rlx_value op_complex_of_parts(struct rlx_graph *g, rlx_value re, rlx_value im)
{
	struct rlx_type t = op_type(g, re);
	int64_t column[2] = { rlx_type_count(&t), 1 };
	rlx_value both = rlx_emit(g, concat, .axis = 1,
				  .xs = RLX_VALUES(op_reshape(g, re, column, 2),
						   op_reshape(g, im, column, 2)));

	return op_complex_of_pairs(g, both, &t);
}
