// SPDX-License-Identifier: MIT
/*
 * Weights in blocks of few bits (GGUF's formats) as floats.
 *
 * Algorithm: a thread an element: the code of it, and the scale and addend of its group, which
 * its neighbours take from caches. What the bytes mean is rlx/scheme.h's; the scheme is a
 * parameter, so that of it one case is left.
 * Traffic: x and y once. The bound is memory, that of y.
 * Limits: y of f32, f16 and bf16.
 */
#include "kernels/gpu/dialect.h"
#define RLX_BLOCK_FN	static DEV inline
#include "kernels/blocks.h"

typedef rlx_t<QUANT_Y_TYPE> yt;

RLX_G_KERNEL(dequant_blocks, struct rlx_k_dequant_blocks, 256)
{
	const uint8_t *x = RLX_G_PTR(const uint8_t, a.x);
	yt::mem *y = RLX_G_PTR(yt::mem, a.y);
	const int n = rlx_block_elements(BLOCK_SCHEME), bytes = rlx_block_bytes(BLOCK_SCHEME);
	int64_t step = (int64_t)gridDim.x * 256;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < a.n; e += step)
		y[e] = yt::put((yt::acc)rlx_block_at(BLOCK_SCHEME, x + e / n * bytes,
						     (int)(e % n)));
}
