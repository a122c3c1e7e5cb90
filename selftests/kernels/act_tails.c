// SPDX-License-Identifier: MIT
/* silu and sigmoid far below 0, down to denormals, by each level's GEMM epilogue. */
#include <math.h>

#include "kernels/gemm.h"
#include "selftests/kernels/isa.h"
#include "selftests/kernels/kernel_test.h"

enum { N = 4096 };

static double want(enum rlx_act act, double x)
{
	double s = x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));

	return act == RLX_ACT_SILU ? x * s : s;
}

/* Products of one term, so that x itself is what the activation takes. */
static void check(enum rlx_isa isa, enum rlx_act act, const float *x)
{
	static float y[N], one[64] = { 1 };
	struct rlx_k_gemm g = {
		.m = N, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1, .alpha = 1, .a = x,
		.b = one, .c = y, .b_form = RLX_B_ROWS, .act = act,
		.a_type = RLX_F32, .b_type = RLX_F32, .c_type = RLX_F32,
	};
	size_t size = rlx_k_gemm_scratch(&g, isa), i;
	void *scratch = aligned_alloc(64, (size + 63) / 64 * 64 + 64);

	CHECK(scratch);
	rlx_kernels_get(isa)->gemm_f32(&g, 0, rlx_k_gemm_units(&g, isa), scratch);
	free(scratch);
	for (i = 0; i < N; i++) {
		double w = want(act, (double)x[i]);

		/* two denormals, as the power and the quotient round */
		CHECKF(fabs((double)y[i] - w) <= 1e-5 * fabs(w) + 0x1p-148,
		       "%s, act %d of %.9g: %.9g, not %.9g", isa_name(isa), act, (double)x[i],
		       (double)y[i], w);
	}
}

TEST(silu_and_sigmoid_far_below_0)
{
	uint64_t seed = rlx_test_seed();
	static float x[N];
	enum rlx_isa isa;
	size_t i;

	for (i = 0; i < N; i++)
		x[i] = (float)rlx_test_uniform(&seed, -115, i % 4 ? -1 : 115);
	x[0] = -88.8f;
	x[1] = -100;
	x[2] = 3e38f;
	x[3] = -3e38f;
	x[4] = 1e-38f;
	for (isa = RLX_ISA_BASE; isa <= RLX_ISA_V4; isa++)
		if (isa_runs(isa)) {
			check(isa, RLX_ACT_SILU, x);
			check(isa, RLX_ACT_SIGMOID, x);
		}
}

TEST_MAIN()
