// SPDX-License-Identifier: MIT
/*
 * Tiles of a product of f16 or bf16 by cooperative matrices, summed in f32. Whoever includes it
 * has TRANS_A and TRANS_B before, whether A lies by columns and B by rows of what is multiplied.
 *
 * A group has a tile of BM by BN, its subgroups FM by FN fragments each. Slices of A and B, BK
 * deep, lie in shared memory, rows a vector longer than they have elements, so that rows fall on
 * different banks; the next slice is on its way into registers meanwhile. (Two slices in turn
 * want one barrier less and were slower.) Sums go through shared memory, a row of fragments at a
 * time, to the epilogue, whose code is a short loop: it runs once a tile, so fetching it is what
 * it costs. Tiles go down BAND of them before they go across: those at work at one time share
 * rows and columns.
 *
 * Fragments are those of GL_NV_cooperative_matrix, which the compiler knows; backends/vulkan/
 * coopmat.c makes KHR's of them when it is loaded, and bf16 of f16, which is only moved here.
 * Dimensions are constants of their own, so that A's, B's and C's are types of their own.
 */
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
const uint C_SIZE = SUBGROUPS * ROWS * C_STEP;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer u128_p { uvec4 v; };

/* A slice of A and one of B; in the end, sums */
shared uvec4 shared_mem[SLICE > C_SIZE ? SLICE : C_SIZE];

/* Where a subgroup's fragments begin in the tile */
#define SUB_ROW		(gl_SubgroupID / (BN / (FN * COLS)) * (FM * ROWS))
#define SUB_COL		(gl_SubgroupID % (BN / (FN * COLS)) * (FN * COLS))

/* Row and column that tile @tile begins at, of @down by @across */
uvec2 tile_at(const in uint tile, const in uint down, const in uint across)
{
	const uint band = tile / (BAND * across), in_band = tile - band * BAND * across;
	const uint high = min(BAND, down - band * BAND);

	return uvec2((band * BAND + in_band % high) * BM, in_band / high * BN);
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

/* Vector @l of this thread's of a slice, to shared memory */
void keep_a(const in uint l, const in uvec4 x)
{
	const uint at = l * THREADS + THREAD;

	shared_mem[at / A_WIDE * A_STEP + at % A_WIDE] = x;
}

void keep_b(const in uint l, const in uvec4 x)
{
	const uint at = l * THREADS + THREAD;

	shared_mem[A_SIZE + at / B_WIDE * B_STEP + at % B_WIDE] = x;
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

#define MULTIPLY_SLICE									\
	[[unroll]] for (uint s = 0; s < BK; s += DEPTH)					\
		MULTIPLY(s)

/* A subgroup's row @f of fragments to shared memory @at, for its threads to read */
#define STORE_SUMS(f, at) {								\
	subgroup_barrier();								\
	[[unroll]] for (uint h = 0; h < FN; h++)					\
		coopMatStoreNV(sum[f * FN + h], shared_mem, at + h * COLS / 4, C_STEP,	\
			       false);							\
	subgroup_barrier();								\
}
