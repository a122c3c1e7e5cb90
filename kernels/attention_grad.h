/* SPDX-License-Identifier: MIT */
/* The gradient of attention by its queries, keys and values. GPU only. */
#ifndef RLX_K_ATTENTION_GRAD_H
#define RLX_K_ATTENTION_GRAD_H

#include "kernels/attention.h"

/**
 * struct rlx_k_attention_grad - dq, dk and dv of attention @a, whose weights are made again
 * @a: the attention, of which out, its result, and lse are read, which is of @lse_type
 * @dy: what the result is changed by, laid out as it, of q's type
 * @dlse: what lse is changed by, laid out as it, of @dlse_type, or NULL
 * @dq, @dk, @dv: written, laid out as q, k and v, of @grad_type
 *
 * With weights p = exp(s - lse), 0 where s is -inf, and for each query the sum D of dy y, less
 * dlse: ds = p (dy v' - D), times 1 - tanh(..)^2 if softcap > 0; dq = scale ds k, dk = scale ds' q
 * and dv = p' dy, which are summed over the heads that share keys.
 */
struct rlx_k_attention_grad {
	struct rlx_k_attention	a;
	const void	*dy;
	const void	*dlse;
	void		*dq, *dk, *dv;
	uint8_t		grad_type, lse_type, dlse_type;
};

#endif
