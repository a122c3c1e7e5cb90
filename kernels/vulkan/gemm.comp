// SPDX-License-Identifier: MIT
/*
 * GEMM of f32, bf16 and f16 in any mixture, in f32 (struct rlx_k_gemm): any shape, batches,
 * either side transposed, the whole epilogue.
 *
 * Algorithm: a group is a subgroup and has a tile of 8 rows by COLS columns a lane. Lane r
 * loads row r's element of A, which all get by a broadcast; each lane loads its elements of B.
 * No shared memory and no barrier, which CPU devices are slow at.
 * Limits: rows and columns beyond the matrix are computed from the last one and not written.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "lib.glsl"
#include "math.glsl"
#include "act.glsl"
#include "args.glsl"

layout(constant_id = 1) const uint A_TYPE = 2;
layout(constant_id = 2) const uint B_TYPE = 2;
layout(constant_id = 3) const uint C_TYPE = 2;
layout(constant_id = 4) const bool TRANS_A = false;
layout(constant_id = 5) const bool TRANS_B = false;
layout(constant_id = 6) const uint ACT = 0;
layout(constant_id = 7) const uint COLS = 4;	/* at most 4 */

const uint ROWS = 8;

void main()
{
	gemm_t g = gemm_t(push.args);
	const uint64_t wide = COLS * THREADS, down = (g.m + ROWS - 1) / ROWS;
	const uint64_t across = (g.n + wide - 1) / wide, inner = max(g.batch[1], 1UL);
	const uint64_t tiles = down * across, units = tiles * inner * max(g.batch[0], 1UL);
	const float alpha = f64_bits_to_f32(g.alpha), beta = f64_bits_to_f32(g.beta);
	const float lo = f64_bits_to_f32(g.lo), hi = f64_bits_to_f32(g.hi);

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint64_t b = u / tiles, tile = u - b * tiles;
		const uint64_t b0 = b / inner, b1 = b - b0 * inner;
		const uint64_t row = tile % down * ROWS, col = tile / down * wide + THREAD;
		/* lanes beyond the rows load the last one; nobody takes it */
		const uint64_t my = min(row + min(THREAD, ROWS - 1), g.m - 1);
		const uint64_t ka = TRANS_A ? g.lda : 1UL, kb = TRANS_B ? 1UL : g.ldb;
		uint64_t at = b0 * g.a_step[0] + b1 * g.a_step[1] + (TRANS_A ? my : my * g.lda);
		const uint64_t bb = b0 * g.b_step[0] + b1 * g.b_step[1];
		uint64_t bt[4];
		float acc[ROWS][4];

		[[unroll]] for (uint c = 0; c < COLS; c++) {
			const uint64_t j = min(col + c * THREADS, g.n - 1);

			bt[c] = bb + (TRANS_B ? j * g.ldb : j);
		}
		[[unroll]] for (uint r = 0; r < ROWS; r++)
			[[unroll]] for (uint c = 0; c < COLS; c++)
				acc[r][c] = 0.0;
		for (uint64_t k = 0; k < g.k; k++) {
			const float x = load_real(A_TYPE, g.a, at);
			float y[4];

			[[unroll]] for (uint c = 0; c < COLS; c++) {
				y[c] = load_real(B_TYPE, g.b, bt[c]);
				bt[c] += kb;
			}
			[[unroll]] for (uint r = 0; r < ROWS; r++) {
				const float xr = subgroupBroadcast(x, r);

				[[unroll]] for (uint c = 0; c < COLS; c++)
					acc[r][c] = fma(xr, y[c], acc[r][c]);
			}
			at += ka;
		}
		[[unroll]] for (uint r = 0; r < ROWS; r++)
			[[unroll]] for (uint c = 0; c < COLS; c++) {
				const uint64_t i = row + r, j = col + c * THREADS;
				float v = acc[r][c] * alpha;

				if (i >= g.m || j >= g.n)
					continue;
				if (g.bias != 0)
					v += f32_p(g.bias + j * 4).v;
				if (g.row_bias != 0)
					v += f32_p(g.row_bias + i * 4).v;
				if (g.residual != 0)
					v += beta * load_real(C_TYPE, g.residual,
						b0 * g.r_step[0] + b1 * g.r_step[1] + i * g.ldr + j);
				store_real(C_TYPE, g.c,
					   b0 * g.c_step[0] + b1 * g.c_step[1] + i * g.ldc + j,
					   activate(ACT, v, lo, hi));
			}
	}
}
