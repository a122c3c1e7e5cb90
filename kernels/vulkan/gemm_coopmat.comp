// SPDX-License-Identifier: MIT
/*
 * GEMM of f16 or bf16 by cooperative matrices, summed in f32 (struct rlx_k_gemm): batches,
 * either side transposed, the whole epilogue; C of f16, bf16 or f32.
 *
 * Algorithm: a group has a tile of BM by BN, its subgroups FM by FN fragments each. Slices of
 * A and B, BK deep, lie in shared memory as they lie in memory, rows a vector longer than they
 * have elements, so that rows fall on different banks; the next slice is on its way into
 * registers meanwhile. (Two slices in turn want one barrier less and were slower.) Sums go
 * through shared memory, a row of fragments at a time, to the epilogue, whose code is a short
 * loop: it runs once a tile, so fetching it is what it costs. Tiles go down BAND of them before
 * they go across: those at work at one time share rows and columns.
 * Limits: rows of A, B and C are whole vectors of 8 elements (launch.c). What is beyond the
 * matrix repeats its last rows and columns, and is not written; beyond K it is 0.
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
layout(constant_id = 6) const uint TYPE = 3;	/* of A and B: coopmat.c looks at it */
layout(constant_id = 7) const uint FM = 4;
layout(constant_id = 8) const uint FN = 4;
layout(constant_id = 9) const uint ROWS = 16;	/* of a fragment: of A and C, B and C, A and B */
layout(constant_id = 10) const uint COLS = 16;
layout(constant_id = 11) const uint DEPTH = 16;
layout(constant_id = 12) const uint BN = 128;
layout(constant_id = 13) const uint BK = 32;

#define A_FRAGMENT	fcoopmatNV<16, gl_ScopeSubgroup, ROWS, DEPTH>
#define B_FRAGMENT	fcoopmatNV<16, gl_ScopeSubgroup, DEPTH, COLS>
#define C_FRAGMENT	fcoopmatNV<32, gl_ScopeSubgroup, ROWS, COLS>

const uint BAND = 8;

/* In vectors of 8 elements: a slice's rows, how far they are apart, how many there are */
const uint A_WIDE = (TRANS_A ? BM : BK) / 8, A_STEP = A_WIDE + 1, A_DOWN = TRANS_A ? BK : BM;
const uint B_WIDE = (TRANS_B ? BK : BN) / 8, B_STEP = B_WIDE + 1, B_DOWN = TRANS_B ? BN : BK;
const uint A_SIZE = A_DOWN * A_STEP, SLICE = A_SIZE + B_DOWN * B_STEP;
const uint SUBGROUPS = BM / (FM * ROWS) * (BN / (FN * COLS));
/* Vectors of a slice that a thread loads; a subgroup has 32 threads (launch.c) */
const uint A_LOADS = A_WIDE * A_DOWN / (SUBGROUPS * 32);
const uint B_LOADS = B_WIDE * B_DOWN / (SUBGROUPS * 32);
/* A subgroup's fragments side by side: vectors of 4 from row to row, of 8 in a row */
const uint C_STEP = FN * COLS / 4 + 1, C_WIDE = FN * COLS / 8;
const uint C_SIZE = SUBGROUPS * ROWS * C_STEP, C_BYTES = C_TYPE == F32 ? 4 : 2;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer u128_p { uvec4 v; };

/* A slice of A and one of B; in the end, sums */
shared uvec4 shared_mem[SLICE > C_SIZE ? SLICE : C_SIZE];

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

/* 8 elements at (@r, @c) of a matrix of @rows by @cols, @ld apart, that lie anywhere */
uvec4 load_8(const in uint64_t p, const in uint64_t ld, const in uint r, const in uint c,
	     const in uint rows, const in uint cols)
{
	const uint64_t at = p + (r * ld + c) * 2;
	uvec4 x = uvec4(0);

	if (r < rows && c < cols)
		[[unroll]] for (uint i = 0; i < 4; i++)
			x[i] = uint(u16_p(at + 4 * i).v) | uint(u16_p(at + 4 * i + 2).v) << 16;
	return x;
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

/* Of shared memory alone: subgroupBarrier() would wait for what is being stored to C as well */
void subgroup_barrier()
{
	controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared,
		       gl_SemanticsAcquireRelease);
}

/* Adds products of DEPTH elements of K, @s on in the slice: no function takes sum */
#define MULTIPLY(s) {									\
	A_FRAGMENT x[FM];								\
	B_FRAGMENT y;									\
											\
	[[unroll]] for (uint i = 0; i < FM; i++) {					\
		const uint r = sub_row + i * ROWS;					\
											\
		if (TRANS_A)								\
			coopMatLoadNV(x[i], shared_mem, s * A_STEP + r / 8, A_STEP, true); \
		else									\
			coopMatLoadNV(x[i], shared_mem, r * A_STEP + s / 8, A_STEP, false); \
	}										\
	[[unroll]] for (uint j = 0; j < FN; j++) {					\
		const uint c = sub_col + j * COLS;					\
											\
		if (TRANS_B)								\
			coopMatLoadNV(y, shared_mem, A_SIZE + c * B_STEP + s / 8,	\
				      B_STEP, true);					\
		else									\
			coopMatLoadNV(y, shared_mem, A_SIZE + s * B_STEP + c / 8,	\
				      B_STEP, false);					\
		[[unroll]] for (uint i = 0; i < FM; i++)				\
			sum[i * FN + j] = coopMatMulAddNV(x[i], y, sum[i * FN + j]);	\
	}										\
}

void main()
{
	const gemm g = load_args();
	gemm_t p = gemm_t(push.args);
	const uint down = (g.m + BM - 1) / BM, across = (g.n + BN - 1) / BN;
	const uint64_t inner = max(p.batch[1], 1UL), tiles = uint64_t(down) * across;
	const uint64_t units = tiles * inner * max(p.batch[0], 1UL);
	const uint wide = BN / (FN * COLS);
	const uint sub_row = gl_SubgroupID / wide * (FM * ROWS);
	const uint sub_col = gl_SubgroupID % wide * (FN * COLS);
	const uint64_t a_next = BK * 2 * (TRANS_A ? g.lda : 1UL);
	const uint64_t b_next = BK * 2 * (TRANS_B ? 1UL : g.ldb);
	const bool aligned = (uint(g.a | g.b) & 15u) == 0;

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint64_t b = u / tiles, b0 = b / inner, b1 = b - b0 * inner;
		const uint tile = uint(u - b * tiles), band = tile / (BAND * across);
		const uint in_band = tile - band * BAND * across;
		const uint high = min(BAND, down - band * BAND);
		const uint row = (band * BAND + in_band % high) * BM, col = in_band / high * BN;
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
				[[unroll]] for (uint s = 0; s < BK; s += DEPTH)
					MULTIPLY(s)
				barrier();	/* all have multiplied it */
			}
			if (k >= g.k)
				break;
			[[unroll]] for (uint l = 0; l < A_LOADS; l++) {
				const uint at = l * THREADS + THREAD;

				shared_mem[at / A_WIDE * A_STEP + at % A_WIDE] = next_a[l];
			}
			[[unroll]] for (uint l = 0; l < B_LOADS; l++) {
				const uint at = l * THREADS + THREAD;

				shared_mem[A_SIZE + at / B_WIDE * B_STEP + at % B_WIDE] = next_b[l];
			}
			barrier();
		}
		const uint from = gl_SubgroupID * (ROWS * C_STEP);
		const uint lane_row = gl_SubgroupInvocationID / C_WIDE;
		const uint lane_col = gl_SubgroupInvocationID % C_WIDE;
		const uint64_t j = col + sub_col + lane_col * 8;
		[[unroll]] for (uint f = 0; f < FM; f++) {
			const uint top = row + sub_row + f * ROWS;
			const uint rows = top < g.m && j < g.n ? min(ROWS, g.m - top) : 0;

			subgroup_barrier();
			[[unroll]] for (uint h = 0; h < FN; h++)
				coopMatStoreNV(sum[f * FN + h], shared_mem, from + h * COLS / 4, C_STEP,
					       false);
			subgroup_barrier();
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
