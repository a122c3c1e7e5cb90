/* SPDX-License-Identifier: MIT */
/* Complex numbers in graphs that are written for ops: no op but a few computes with c64. */
#ifndef RLX_OPS_COMPLEX_H
#define RLX_OPS_COMPLEX_H

#include "ops/emit.h"

/* @z[..] of c64, of any rank, as f32 [all, 2], and such pairs as c64 of @t's shape. */
rlx_value op_complex_pairs(struct rlx_graph *g, rlx_value z);
rlx_value op_complex_of_pairs(struct rlx_graph *g, rlx_value pairs, const struct rlx_type *t);
/* The real (0) or imaginary (1) parts of @z in its shape, and c64 of both. */
rlx_value op_complex_part(struct rlx_graph *g, rlx_value z, uint32_t which);
rlx_value op_complex_of_parts(struct rlx_graph *g, rlx_value re, rlx_value im);

#endif
