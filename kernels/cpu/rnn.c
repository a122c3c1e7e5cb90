// SPDX-License-Identifier: MIT
/* Recurrent cells in f32. */
#include "kernels/kernel.h"
#include "kernels/simd/math.h"

#define RN_T		float
#define RN_V		vf
#define RN_VL		RLX_VL
#define RN(name)	vf_##name
#define RN_LT(a, b)	vf_lt(a, b)
#include "kernels/simd/rnn_steps.h"

rlx_k_fn RLX_K(rnn_pack), RLX_K(rnn);

void RLX_K(rnn_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	(void)scratch;
	pack(args, begin, end);
}

void RLX_K(rnn)(const void *args, size_t begin, size_t end, void *scratch)
{
	run(args, begin, end, scratch);
}
