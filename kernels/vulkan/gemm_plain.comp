// SPDX-License-Identifier: MIT
/*
 * GEMM of doubles, and of integers modulo the result's range (struct rlx_k_gemm): a thread an
 * element of the result.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib.glsl"
#include "integers.glsl"
#include "doubles.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint A_TYPE = 1;
layout(constant_id = 2) const uint B_TYPE = 1;
layout(constant_id = 3) const uint C_TYPE = 1;
layout(constant_id = 4) const bool TRANS_A = false;
layout(constant_id = 5) const bool TRANS_B = false;

double f64_at(const in uint64_t p, const in uint64_t i) { return f64_p(p + i * 8).v; }

void main()
{
	gemm_t g = gemm_t(push.args);
	const uint64_t inner = max(g.batch[1], 1UL), each = g.m * g.n;
	const uint64_t units = each * inner * max(g.batch[0], 1UL);
	const uint64_t ka = TRANS_A ? g.lda : 1UL, kb = TRANS_B ? 1UL : g.ldb;

	for (uint64_t u = LANE; u < units; u += LANES) {
		const uint64_t b = u / each, at = u - b * each, i = at / g.n, j = at - i * g.n;
		const uint64_t b0 = b / inner, b1 = b - b0 * inner;
		const uint64_t x = b0 * g.a_step[0] + b1 * g.a_step[1] + (TRANS_A ? i : i * g.lda);
		const uint64_t y = b0 * g.b_step[0] + b1 * g.b_step[1] + (TRANS_B ? j * g.ldb : j);
		const uint64_t c = b0 * g.c_step[0] + b1 * g.c_step[1] + i * g.ldc + j;

		if (C_TYPE == F64) {
			double sum = 0.0lf;

			for (uint64_t k = 0; k < g.k; k++)
				sum += f64_at(g.a, x + k * ka) * f64_at(g.b, y + k * kb);
			sum *= f64_p(push.args + GEMM_ALPHA).v;
			if (g.bias != 0)
				sum += f64_at(g.bias, j);
			if (g.residual != 0)
				sum += f64_p(push.args + GEMM_BETA).v * f64_at(g.residual,
					b0 * g.r_step[0] + b1 * g.r_step[1] + i * g.ldr + j);
			f64_p(g.c + c * 8).v = sum;
		} else {
			int64_t sum = 0;

			for (uint64_t k = 0; k < g.k; k++)
				sum += load_int(A_TYPE, g.a, x + k * ka) *
				       load_int(B_TYPE, g.b, y + k * kb);
			store_int(C_TYPE, g.c, c, sum);
		}
	}
}
