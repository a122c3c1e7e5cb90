// SPDX-License-Identifier: MIT
/* Filling memory: the smallest kernel, and the model for the others. */
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/fill.h"

rlx_k_fn RLX_K(zero);

void RLX_K(zero)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_zero *a = args;

	(void)scratch;
	memset((char *)a->dst + begin, 0, end - begin);
}
