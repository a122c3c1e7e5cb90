// SPDX-License-Identifier: MIT
/*
 * GEMM of f16 or bf16 by cooperative matrices, summed in f32 (struct rlx_k_gemm): batches,
 * either side transposed, the whole epilogue; C of f16, bf16 or f32.
 *
 * Algorithm: coopmat.glsl; slices of A and B lie in shared memory as they lie in memory.
 * Limits: rows of A, B and C are whole vectors of 8 elements (launch.c). What is beyond the
 * matrix repeats its last rows and columns, and is not written; beyond K it is 0.
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
const uint C_BYTES = C_TYPE == F32 ? 4 : 2;
#include "coopmat.glsl"

/* The arguments by value: behind an address they would be read anew after every store */
struct gemm {
	uint	m, n, k;
	uint64_t a, b, c, bias, row_bias, residual, lda, ldb, ldc, ldr;
	float	alpha, beta, lo, hi;
};

gemm load_args()
{
	gemm_t p = gemm_t(push.args);

	return gemm(uint(p.m), uint(p.n), uint(p.k), p.a, p.b, p.c, p.bias, p.row_bias,
		    p.residual, p.lda, p.ldb, p.ldc, p.ldr, f64_bits_to_f32(p.alpha),
		    f64_bits_to_f32(p.beta), f64_bits_to_f32(p.lo), f64_bits_to_f32(p.hi));
}

/* Vector @l of this thread's of the slices of A and B at @k, of the tile at @row and @col */
uvec4 load_a(const in gemm g, const in uint64_t p, const in uint l, const in uint row,
	     const in uint k)
{
	const uint at = l * THREADS + THREAD, r = at / A_WIDE, c = at % A_WIDE * 8;

	return TRANS_A ? load_8(p, g.lda, k + r, row + c, g.k, g.m) :
	       load_8(p, g.lda, row + r, k + c, g.m, g.k);
}

uvec4 load_b(const in gemm g, const in uint64_t p, const in uint l, const in uint col,
	     const in uint k)
{
	const uint at = l * THREADS + THREAD, r = at / B_WIDE, c = at % B_WIDE * 8;

	return TRANS_B ? load_8(p, g.ldb, col + r, k + c, g.n, g.k) :
	       load_8(p, g.ldb, k + r, col + c, g.k, g.n);
}

uint pack_2(const in float x, const in float y)
{
	return C_TYPE == BF16 ? f32_to_bf16(x) | f32_to_bf16(y) << 16 :
	       f32_to_f16(x) | f32_to_f16(y) << 16;
}

/*
 * Elements (@i, @j) of C and the 7 after it from their sums, @at in shared memory; @to: where,
 * @rt: of the residual
 */
void finish_8(const in gemm g, const in uint at, const in uint64_t i, const in uint64_t j,
	      const in uint64_t to, const in uint64_t rt)
{
	const vec4 x = uintBitsToFloat(shared_mem[at]) * g.alpha;
	const vec4 y = uintBitsToFloat(shared_mem[at + 1]) * g.alpha;
	float v[8] = { x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w };

	if (g.bias != 0)
		[[unroll]] for (uint e = 0; e < 8; e++)
			v[e] += f32_p(g.bias + (j + e) * 4).v;
	if (g.row_bias != 0) {
		const float of_row = f32_p(g.row_bias + i * 4).v;

		[[unroll]] for (uint e = 0; e < 8; e++)
			v[e] += of_row;
	}
	if (g.residual != 0)
		[[unroll]] for (uint e = 0; e < 8; e++)
			v[e] += g.beta * load_real(C_TYPE, g.residual, rt + e);
	[[unroll]] for (uint e = 0; e < 8; e++)
		v[e] = activate(v[e], g.lo, g.hi);
	if (C_TYPE == F32 || (uint(to) & 15u) != 0)
		[[unroll]] for (uint e = 0; e < 8; e++)
			store_real(C_TYPE, to, e, v[e]);
	else
		u128_p(to).v = uvec4(pack_2(v[0], v[1]), pack_2(v[2], v[3]),
				     pack_2(v[4], v[5]), pack_2(v[6], v[7]));
}

void main()
{
	const gemm g = load_args();
	gemm_t p = gemm_t(push.args);
	const uint down = (g.m + BM - 1) / BM, across = (g.n + BN - 1) / BN;
	const uint64_t inner = max(p.batch[1], 1UL), tiles = uint64_t(down) * across;
	const uint64_t units = tiles * inner * max(p.batch[0], 1UL);
	const uint sub_row = SUB_ROW, sub_col = SUB_COL;
	const uint64_t a_next = BK * 2 * (TRANS_A ? g.lda : 1UL);
	const uint64_t b_next = BK * 2 * (TRANS_B ? 1UL : g.ldb);
	const bool aligned = (uint(g.a | g.b) & 15u) == 0;

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint64_t b = u / tiles, b0 = b / inner, b1 = b - b0 * inner;
		const uvec2 tile = tile_at(uint(u - b * tiles), down, across);
		const uint row = tile.x, col = tile.y;
		const uint64_t ab = g.a + (b0 * p.a_step[0] + b1 * p.a_step[1]) * 2;
		const uint64_t bb = g.b + (b0 * p.b_step[0] + b1 * p.b_step[1]) * 2;
		const uint64_t cb = g.c + (b0 * p.c_step[0] + b1 * p.c_step[1]) * C_BYTES;
		const uint64_t rb = b0 * p.r_step[0] + b1 * p.r_step[1];
		uint64_t a_at[A_LOADS], b_at[B_LOADS];
		uvec4 next_a[A_LOADS], next_b[B_LOADS];
		C_FRAGMENT sum[FM * FN];

		[[unroll]] for (uint l = 0; l < A_LOADS; l++) {
			const uint at = l * THREADS + THREAD, r = at / A_WIDE, c = at % A_WIDE * 8;

			a_at[l] = ab + 2 * (TRANS_A ? r * g.lda + min(row + c, g.m - 8) :
					    min(row + r, g.m - 1) * g.lda + c);
		}
		[[unroll]] for (uint l = 0; l < B_LOADS; l++) {
			const uint at = l * THREADS + THREAD, r = at / B_WIDE, c = at % B_WIDE * 8;

			b_at[l] = bb + 2 * (TRANS_B ? min(col + r, g.n - 1) * g.ldb + c :
					    r * g.ldb + min(col + c, g.n - 8));
		}
		[[unroll]] for (uint f = 0; f < FM * FN; f++)
			sum[f] = C_FRAGMENT(0.0);
		for (uint k = 0; k < g.k + BK; k += BK) {
			if (aligned && k + BK <= g.k) {
				[[unroll]] for (uint l = 0; l < A_LOADS; l++) {
					next_a[l] = u128_p(a_at[l]).v;
					a_at[l] += a_next;
				}
				[[unroll]] for (uint l = 0; l < B_LOADS; l++) {
					next_b[l] = u128_p(b_at[l]).v;
					b_at[l] += b_next;
				}
			} else if (k < g.k) {
				[[unroll]] for (uint l = 0; l < A_LOADS; l++)
					next_a[l] = load_a(g, ab, l, row, k);
				[[unroll]] for (uint l = 0; l < B_LOADS; l++)
					next_b[l] = load_b(g, bb, l, col, k);
			}
			if (k > 0) {	/* a slice is there */
				MULTIPLY_SLICE
				barrier();	/* all have multiplied it */
			}
			if (k >= g.k)
				break;
			[[unroll]] for (uint l = 0; l < A_LOADS; l++)
				keep_a(l, next_a[l]);
			[[unroll]] for (uint l = 0; l < B_LOADS; l++)
				keep_b(l, next_b[l]);
			barrier();
		}
		const uint from = gl_SubgroupID * (ROWS * C_STEP);
		const uint lane_row = gl_SubgroupInvocationID / C_WIDE;
		const uint lane_col = gl_SubgroupInvocationID % C_WIDE;
		const uint64_t j = col + sub_col + lane_col * 8;
		[[unroll]] for (uint f = 0; f < FM; f++) {
			const uint top = row + sub_row + f * ROWS;
			const uint rows = top < g.m && j < g.n ? min(ROWS, g.m - top) : 0;

			STORE_SUMS(f, from)
			for (uint r = lane_row; r < rows; r += 32 / C_WIDE) {
				const uint64_t i = top + r;
				const uint at = from + r * C_STEP + lane_col * 2;

				finish_8(g, at, i, j, cb + (i * g.ldc + j) * C_BYTES,
					 rb + i * g.ldr + j);
			}
		}
		barrier();	/* all have read their sums */
	}
}
