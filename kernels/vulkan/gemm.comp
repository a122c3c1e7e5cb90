// SPDX-License-Identifier: MIT
/*
 * GEMM of f32, bf16 and f16 in any mixture, in f32 (struct rlx_k_gemm): any shape, batches,
 * either side transposed, the whole epilogue.
 *
 * Algorithm: a group is a subgroup and has a tile of ROWS rows by COLS columns a lane. Lanes
 * load an element of A each, or two, which all get by a broadcast; each lane loads its elements
 * of B. No shared memory and no barrier, which CPU devices are slow at. Loads and the addresses
 * of loads are what it takes there, so tiles are larger than registers. What a GPU waits for is
 * memory: it has smaller tiles, so that all of it is busy, and loads DEPTH elements ahead.
 * Limits: rows and columns beyond the matrix are computed from the last one and not written.
 */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "lib.glsl"
#include "math.glsl"
#include "args.glsl"

layout(constant_id = 6) const uint ACT = 0;
#include "act.glsl"

layout(constant_id = 1) const uint A_TYPE = 2;
layout(constant_id = 2) const uint B_TYPE = 2;
layout(constant_id = 3) const uint C_TYPE = 2;
layout(constant_id = 4) const bool TRANS_A = false;
layout(constant_id = 5) const bool TRANS_B = false;
layout(constant_id = 7) const uint COLS = 4;	/* at most 4 */

layout(constant_id = 8) const uint ROWS = 8;	/* at most twice what a subgroup is */
layout(constant_id = 9) const uint DEPTH = 1;	/* elements of K whose loads are begun together */

/* By its address, which goes along: what works one out takes longer than the load. */
float load_at(const in uint type, const in uint64_t p)
{
	return load_real(type, p, 0);
}

void main()
{
	gemm_t g = gemm_t(push.args);
	const uint64_t wide = COLS * THREADS, down = (g.m + ROWS - 1) / ROWS;
	const uint64_t across = (g.n + wide - 1) / wide, inner = max(g.batch[1], 1UL);
	const uint64_t tiles = down * across, units = tiles * inner * max(g.batch[0], 1UL);
	const uint64_t asize = A_TYPE == F32 ? 4 : 2, bsize = B_TYPE == F32 ? 4 : 2;
	const uint64_t ka = (TRANS_A ? g.lda : 1UL) * asize, kb = (TRANS_B ? 1UL : g.ldb) * bsize;
	const float alpha = f64_bits_to_f32(g.alpha), beta = f64_bits_to_f32(g.beta);
	const float lo = f64_bits_to_f32(g.lo), hi = f64_bits_to_f32(g.hi);

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint64_t b = u / tiles, tile = u - b * tiles;
		const uint64_t b0 = b / inner, b1 = b - b0 * inner;
		const uint64_t row = tile % down * ROWS, col = tile / down * wide + THREAD;
		const uint64_t ab = g.a + (b0 * g.a_step[0] + b1 * g.a_step[1]) * asize;
		const uint64_t bb = g.b + (b0 * g.b_step[0] + b1 * g.b_step[1]) * bsize;
		uint64_t at[2], bt[4];
		float acc[ROWS][4];

		/* lanes beyond the rows load the last one; nobody takes it */
		[[unroll]] for (uint h = 0; h < 2; h++) {
			const uint64_t my = min(row + h * THREADS + THREAD, g.m - 1);

			at[h] = ab + (TRANS_A ? my : my * g.lda) * asize;
		}
		[[unroll]] for (uint c = 0; c < COLS; c++) {
			const uint64_t j = min(col + c * THREADS, g.n - 1);

			bt[c] = bb + (TRANS_B ? j * g.ldb : j) * bsize;
		}
		[[unroll]] for (uint r = 0; r < ROWS; r++)
			[[unroll]] for (uint c = 0; c < COLS; c++)
				acc[r][c] = 0.0;
		/* downwards: a sum of k and DEPTH may wrap */
		for (uint left = uint(g.k); left > 0; left -= min(left, DEPTH)) {
			float x[DEPTH][2], y[DEPTH][4];

			[[unroll]] for (uint d = 0; d < DEPTH; d++) {
				const bool in_k = d == 0 || d < left;

				x[d][0] = in_k ? load_at(A_TYPE, at[0]) : 0.0;
				at[0] += ka;
				if (ROWS > THREADS) {
					x[d][1] = in_k ? load_at(A_TYPE, at[1]) : 0.0;
					at[1] += ka;
				}
				[[unroll]] for (uint c = 0; c < COLS; c++) {
					y[d][c] = in_k ? load_at(B_TYPE, bt[c]) : 0.0;
					bt[c] += kb;
				}
			}
			[[unroll]] for (uint d = 0; d < DEPTH; d++)
				[[unroll]] for (uint r = 0; r < ROWS; r++) {
					const float xr = subgroupBroadcast(
						r < THREADS ? x[d][0] : x[d][1], r % THREADS);

					[[unroll]] for (uint c = 0; c < COLS; c++)
						acc[r][c] = fma(xr, y[d][c], acc[r][c]);
				}
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
					   activate(v, lo, hi));
			}
	}
}
