/* SPDX-License-Identifier: MIT */
/*
 * Quantising a graph, in steps: rlx_quant_simplify(), runs that note what is read,
 * rlx_quant_insert(), rlx_quant_propagate(). Ranges, and what can be quantised,
 * speak of the simplified graph.
 */
#ifndef RLX_PASS_QUANT_H
#define RLX_PASS_QUANT_H

#include "pass/rewrite.h"

/* So many terms, and such a bias, keep the sum of one element within an int32_t. */
enum { RLX_QUANT_TERMS = 32768, RLX_QUANT_BIAS = 1 << 30 };

/* What a value was between; lo > hi: not known. */
struct rlx_quant_range {
	float	lo, hi;
};

struct rlx_quant_scheme {
	const struct rlx_quant_range *range;	/* per value */
	bool	matmul, conv;			/* take these */
	bool	symmetric, per_tensor;
};

/* The passes that GEMMs profit from before their weights are rounded. */
enum rlx_status rlx_quant_simplify(struct rlx_graph *g, struct rlx_graph **out,
				   struct rlx_error *err);

/* Is @n a product that can be quantised? It reads its input 0. */
bool rlx_quant_supports(const struct rlx_graph *g, const struct rlx_node *n);

/* Replace the GEMMs that have a range. *@out: one reference, also if none had. */
enum rlx_status rlx_quant_insert(struct rlx_graph *g, const struct rlx_quant_scheme *s,
				 struct rlx_graph **out, struct rlx_error *err);

/* Move quantising upwards until nothing moves. As rlx_quant_insert(). */
enum rlx_status rlx_quant_propagate(struct rlx_graph *g, struct rlx_graph **out,
				    struct rlx_error *err);

/* @y, new, plus the bias of the old convolution @n, one for each channel. */
rlx_value rlx_quant_add_bias(struct rlx_rewrite *rw, const struct rlx_node *n, rlx_value y);

/*
 * Old matmul @n of floats and a dequantized constant reads it packed (dequant_matmul): it is
 * set; false: it is none.
 */
bool rlx_quant_packed_weight(struct rlx_rewrite *rw, const struct rlx_node *n);

/* A constant of @type that takes @data, NULL: out of memory; one that is equal may be it. */
rlx_value rlx_quant_own(struct rlx_graph *g, struct rlx_type type, void *data);

/* Elements of an f32 constant; NULL if @v is something else. */
const float *rlx_quant_floats(const struct rlx_graph *g, uint32_t v);

#endif
