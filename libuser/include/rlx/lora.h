/* SPDX-License-Identifier: MIT */
/*
 * Low-rank adaptation of graphs (LoRA; Hu et al. 2106.09685): products with a weight W[out, in]
 * become those with W + alpha / rank B A, where A[rank, in] and B[out, rank] are new params and
 * W stays what it is. Training them: rlx_lora_inline() in rlx/train.h.
 */
#ifndef RLX_LORA_H
#define RLX_LORA_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_lora_weight - a weight that gets an adapter.
 * @name: what the adapter's params are called after: those of "x.weight" are "x.lora_A.weight"
 *        and "x.lora_B.weight", and so are those of "x"
 * @data: of a constant: where its bytes lie, as rlx_safetensors_find() and
 *        rlx_model_tensor_at() tell of models in files; NULL: @name is an input, a param or a
 *        state of the graph
 */
struct rlx_lora_weight {
	const char	*name;
	const void	*data;
};

/**
 * struct rlx_lora - adapters of a graph.
 * @size:   sizeof(struct rlx_lora)
 * @weight: @n of them
 * @rank:   of B A, 1 to 1,048,576
 * @alpha:  over the rank the factor of B A; finite, not 0
 */
struct rlx_lora {
	size_t				 size;
	const struct rlx_lora_weight	*weight;
	unsigned int			 n, rank;
	double				 alpha;
};

/**
 * rlx_graph_lora - a graph whose weights have adapters.
 * @g:   finished; not changed
 * @out: receives the new graph, finished, with one reference
 *
 * A product x W' + .. becomes x W' + alpha / rank (x A') B' + ..; B A is never made. W is the
 * right operand of matmul or fused_matmul, behind casts and transposes if need be. Adapters are
 * f32, or f64 if W is that; with all of B 0 the graph gives what @g gives. The new params stand
 * behind those of @g, A before B, in the order of the products.
 *
 * Context: any thread; allocates. Constants are shared with @g.
 * Return: RLX_EINVAL (@g is not finished; rank or alpha out of their range; a weight without a
 * name); RLX_ENOENT (@g has no product with that weight); RLX_ENOSUP (an op reads the weight
 * that an adapter cannot correct: the message names it); RLX_ESHAPE (a weight that is no
 * matrix, or whose products sum over different dimensions of it); RLX_ETYPE (no floats);
 * RLX_EEXIST (a weight twice, or a name that @g has); RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_graph_lora(const struct rlx_graph *g, const struct rlx_lora *how, struct rlx_graph **out,
	       struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
