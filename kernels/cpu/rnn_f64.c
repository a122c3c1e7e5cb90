// SPDX-License-Identifier: MIT
/* Recurrent cells in f64. */
#include "kernels/kernel.h"
#include "kernels/simd/math_f64.h"

#define RN_T		double
#define RN_V		vd
#define RN_VL		RLX_VLD
#define RN(name)	vd_##name
#define RN_LT(a, b)	((a) < (b))
#include "kernels/simd/rnn_steps.h"

rlx_k_fn RLX_K(rnn_f64_pack), RLX_K(rnn_f64);

void RLX_K(rnn_f64_pack)(const void *args, size_t begin, size_t end, void *scratch)
{
	(void)scratch;
	pack(args, begin, end);
}

void RLX_K(rnn_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	run(args, begin, end, scratch);
}
