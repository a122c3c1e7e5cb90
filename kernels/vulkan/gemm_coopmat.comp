// SPDX-License-Identifier: MIT
/*
 * GEMM of f16 or bf16 by cooperative matrices, summed in f32 (struct rlx_k_gemm): batches,
 * either side transposed, the whole epilogue; C of f16, bf16 or f32.
 *
 * Algorithm: a group has a tile of BM by BN, its subgroups FM by FN fragments each. Slices of
 * A and B, BK deep, lie in shared memory as they lie in memory, rows a vector longer than they
 * have elements, so that rows fall on different banks; the next slice is on its way into
 * registers meanwhile. Sums go through shared memory, a row of fragments at a time, to the
 * epilogue.
 * Limits: rows of A, B and C are whole vectors of 8 elements (launch.c); what is beyond the
 * matrix is 0 and not written.
 *
 * Fragments are those of GL_NV_cooperative_matrix, which the compiler knows; backends/vulkan/
 * coopmat.c makes KHR's of them when it is loaded, and bf16 of f16, which is only moved here.
 * Dimensions are constants of their own, so that A's, B's and C's are types of their own.
 */
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_NV_cooperative_matrix : require
#include "lib.glsl"
#include "math.glsl"
#include "args.glsl"

layout(constant_id = 4) const uint ACT = 0;
#include "act.glsl"

layout(constant_id = 1) const uint C_TYPE = 3;
layout(constant_id = 2) const bool TRANS_A = false;
layout(constant_id = 3) const bool TRANS_B = false;
layout(constant_id = 5) const uint BM = 128;
const uint BN = BM;
layout(constant_id = 6) const uint TYPE = 3;	/* of A and B: coopmat.c looks at it */
layout(constant_id = 7) const uint FM = 4;
layout(constant_id = 8) const uint FN = 4;
layout(constant_id = 9) const uint ROWS = 16;	/* of a fragment: of A and C, B and C, A and B */
layout(constant_id = 10) const uint COLS = 16;
layout(constant_id = 11) const uint DEPTH = 16;

#define A_FRAGMENT	fcoopmatNV<16, gl_ScopeSubgroup, ROWS, DEPTH>
#define B_FRAGMENT	fcoopmatNV<16, gl_ScopeSubgroup, DEPTH, COLS>
#define C_FRAGMENT	fcoopmatNV<32, gl_ScopeSubgroup, ROWS, COLS>

/* In vectors of 8 elements: a slice's rows, how far they are apart, how many there are */
const uint BK = 32;
const uint A_WIDE = (TRANS_A ? BM : BK) / 8, A_STEP = A_WIDE + 1, A_DOWN = TRANS_A ? BK : BM;
const uint B_WIDE = (TRANS_B ? BK : BN) / 8, B_STEP = B_WIDE + 1, B_DOWN = TRANS_B ? BN : BK;
const uint SUBGROUPS = BM / (FM * ROWS) * (BN / (FN * COLS));
/* Vectors of a slice that a thread loads; a subgroup has 32 threads (launch.c) */
const uint A_LOADS = A_WIDE * A_DOWN / (SUBGROUPS * 32);
const uint B_LOADS = B_WIDE * B_DOWN / (SUBGROUPS * 32);

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer u128_p { uvec4 v; };

shared uvec4 slice_a[A_DOWN * A_STEP], slice_b[B_DOWN * B_STEP];
/* A subgroup's fragments side by side */
const uint C_STEP = FN * COLS;
shared float fragment[SUBGROUPS * ROWS * C_STEP];

/* 8 elements at (@r, @c) of a matrix of @rows by @cols, @ld apart */
uvec4 load_8(const in uint64_t p, const in uint64_t ld, const in uint64_t r, const in uint64_t c,
	     const in uint64_t rows, const in uint64_t cols)
{
	const uint64_t at = p + (r * ld + c) * 2;
	uvec4 x;

	if (r >= rows || c >= cols)
		return uvec4(0);
	if ((uint(p) & 15u) == 0)
		return u128_p(at).v;
	[[unroll]] for (uint i = 0; i < 4; i++)
		x[i] = uint(u16_p(at + 4 * i).v) | uint(u16_p(at + 4 * i + 2).v) << 16;
	return x;
}

/* What becomes of a sum: element (@i, @j) of C, @rt of the residual */
float finish(const in gemm_t g, const in float sum, const in uint64_t i, const in uint64_t j,
	     const in uint64_t rt)
{
	float v = sum * f64_bits_to_f32(g.alpha);

	if (g.bias != 0)
		v += f32_p(g.bias + j * 4).v;
	if (g.row_bias != 0)
		v += f32_p(g.row_bias + i * 4).v;
	if (g.residual != 0)
		v += f64_bits_to_f32(g.beta) * load_real(C_TYPE, g.residual, rt);
	return activate(v, f64_bits_to_f32(g.lo), f64_bits_to_f32(g.hi));
}

/* Elements (@i, @j) and (@i, @j + 1) of C, sums of which lie at @from */
void finish_2(const in gemm_t g, const in uint64_t b0, const in uint64_t b1, const in uint64_t i,
	      const in uint64_t j, const in uint from)
{
	const uint64_t at = b0 * g.c_step[0] + b1 * g.c_step[1] + i * g.ldc + j;
	const uint64_t rt = b0 * g.r_step[0] + b1 * g.r_step[1] + i * g.ldr + j;
	const float x = finish(g, fragment[from], i, j, rt);
	const float y = finish(g, fragment[from + 1], i, j + 1, rt + 1);

	if (C_TYPE == F32 || (uint(g.c) & 3u) != 0) {
		store_real(C_TYPE, g.c, at, x);
		store_real(C_TYPE, g.c, at + 1, y);
	} else if (C_TYPE == BF16) {
		u32_p(g.c + at * 2).v = f32_to_bf16(x) | f32_to_bf16(y) << 16;
	} else {
		u32_p(g.c + at * 2).v = f32_to_f16(x) | f32_to_f16(y) << 16;
	}
}

void main()
{
	gemm_t g = gemm_t(push.args);
	const uint64_t down = (g.m + BM - 1) / BM, across = (g.n + BN - 1) / BN;
	const uint64_t inner = max(g.batch[1], 1UL), tiles = down * across;
	const uint64_t units = tiles * inner * max(g.batch[0], 1UL);
	const uint k_end = uint(g.k), wide = BN / (FN * COLS);
	const uint sub_row = gl_SubgroupID / wide * (FM * ROWS);
	const uint sub_col = gl_SubgroupID % wide * (FN * COLS);

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint64_t b = u / tiles, tile = u - b * tiles;
		const uint64_t b0 = b / inner, b1 = b - b0 * inner;
		const uint64_t row = tile % down * BM, col = tile / down * BN;
		const uint64_t ab = g.a + (b0 * g.a_step[0] + b1 * g.a_step[1]) * 2;
		const uint64_t bb = g.b + (b0 * g.b_step[0] + b1 * g.b_step[1]) * 2;
		C_FRAGMENT sum[FM * FN];
		uvec4 next_a[A_LOADS], next_b[B_LOADS];

		[[unroll]] for (uint f = 0; f < FM * FN; f++)
			sum[f] = C_FRAGMENT(0.0);
		for (uint k = 0; k < k_end + BK; k += BK) {
			barrier();	/* all have multiplied what is there */
			[[unroll]] for (uint l = 0; l < A_LOADS; l++) {
				const uint at = l * THREADS + THREAD, r = at / A_WIDE;
				const uint c = at % A_WIDE;

				if (k > 0)
					slice_a[r * A_STEP + c] = next_a[l];
				next_a[l] = TRANS_A ?
					load_8(ab, g.lda, k + r, row + c * 8, g.k, g.m) :
					load_8(ab, g.lda, row + r, k + c * 8, g.m, g.k);
			}
			[[unroll]] for (uint l = 0; l < B_LOADS; l++) {
				const uint at = l * THREADS + THREAD, r = at / B_WIDE;
				const uint c = at % B_WIDE;

				if (k > 0)
					slice_b[r * B_STEP + c] = next_b[l];
				next_b[l] = TRANS_B ?
					load_8(bb, g.ldb, col + r, k + c * 8, g.n, g.k) :
					load_8(bb, g.ldb, k + r, col + c * 8, g.k, g.n);
			}
			if (k == 0)
				continue;
			barrier();
			[[unroll]] for (uint s = 0; s < BK; s += DEPTH) {
				A_FRAGMENT x[FM];
				B_FRAGMENT y;

				[[unroll]] for (uint i = 0; i < FM; i++) {
					const uint r = sub_row + i * ROWS;

					if (TRANS_A)
						coopMatLoadNV(x[i], slice_a, s * A_STEP + r / 8,
							      A_STEP, true);
					else
						coopMatLoadNV(x[i], slice_a, r * A_STEP + s / 8,
							      A_STEP, false);
				}
				[[unroll]] for (uint j = 0; j < FN; j++) {
					const uint c = sub_col + j * COLS;

					if (TRANS_B)
						coopMatLoadNV(y, slice_b, c * B_STEP + s / 8,
							      B_STEP, true);
					else
						coopMatLoadNV(y, slice_b, s * B_STEP + c / 8,
							      B_STEP, false);
					[[unroll]] for (uint i = 0; i < FM; i++)
						sum[i * FN + j] =
							coopMatMulAddNV(x[i], y, sum[i * FN + j]);
				}
			}
		}
		[[unroll]] for (uint f = 0; f < FM; f++) {
			const uint from = gl_SubgroupID * (ROWS * C_STEP);

			subgroupBarrier();
			[[unroll]] for (uint h = 0; h < FN; h++)
				coopMatStoreNV(sum[f * FN + h], fragment, from + h * COLS, C_STEP,
					       false);
			subgroupBarrier();
			for (uint e = gl_SubgroupInvocationID * 2; e < ROWS * C_STEP;
			     e += gl_SubgroupSize * 2) {
				const uint64_t i = row + sub_row + f * ROWS + e / C_STEP;
				const uint64_t j = col + sub_col + e % C_STEP;

				if (i < g.m && j < g.n)
					finish_2(g, b0, b1, i, j, from + e);
			}
		}
	}
}
