/* SPDX-License-Identifier: MIT */
/* What ops of blocks of few bits share: an element of them, and bytes to test with. */
#ifndef RLX_OPS_BLOCKS_H
#define RLX_OPS_BLOCKS_H

#include "ops/op.h"

/* Element @at of consecutive blocks. */
static inline double op_block_element(int scheme, const void *blocks, int64_t at)
{
	int64_t e = rlx_block_elements(scheme);

	return (double)rlx_block_at(scheme, (const uint8_t *)blocks +
				    at / e * rlx_block_bytes(scheme), (int)(at % e));
}

/* Any bytes are blocks but where their scales are floats: as these, input @k's are finite. */
static inline void op_sample_blocks(struct rlx_sample *s, uint32_t k, int scheme)
{
	/* exponents, and an f32 */
	s->lo[k] = scheme == RLX_SCHEME_MXFP4 ? 110 : scheme == RLX_SCHEME_Q8_K ? 56 : 0;
	s->hi[k] = scheme == RLX_SCHEME_MXFP4 ? 125 : 59;
}

/* Input 0 times the blocks of input 1: sums over two blocks are within f16. */
static inline void op_sample_block_product(struct rlx_sample *s, int scheme)
{
	s->lo[0] = -0.25;
	s->hi[0] = 0.25;
	op_sample_blocks(s, 1, scheme);
}

#endif
