// SPDX-License-Identifier: MIT
/*
 * Convolution of f16 or bf16 in up to three dimensions, plain layout, as a product by cooperative
 * matrices, summed in f32 (struct rlx_k_conv_nd, not transposed): of a group's weights, a row an
 * output channel, by what taps read, a column an output pixel of any image (im2col, in the load).
 *
 * Algorithm: coopmat.glsl. Weights are loaded as they lie, K going over input channels, then
 * taps. A thread has two pixels side by side in all rows of B that it loads, so that what differs
 * from row to row is the tap, the same for a whole subgroup. Taps are the kernel's parameters:
 * what divides by them multiplies. Columns that are the image itself are loaded by 8. A thread
 * finishes runs of pixels of one image, as wide as all images divide into, in the same columns
 * of all rows.
 * Limits: offsets within an image have 31 bits, and so does the count of pixels (launch.c).
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

layout(constant_id = 1) const uint BIAS_TYPE = 2;
layout(constant_id = 2) const uint KX = 1;
layout(constant_id = 3) const uint KY = 1;
layout(constant_id = 14) const uint KZ = 1;
layout(constant_id = 15) const uint WIDE = 1;		/* up to 8, dividing an image's pixels */
layout(constant_id = 16) const bool POINTWISE = false;	/* columns are the image's, by 8 */

const bool TRANS_A = false, TRANS_B = false;
#include "coopmat.glsl"

const uint TAPS = KX * KY * KZ, PAIRS = BN / 2;
const int FAR = 0x40000000;	/* a coordinate that no tap brings back to the image */
/*
 * What a thread finishes of a row of fragments: runs of WIDE pixels, SETS, up to 2, in a row; its
 * next row; how many rows together, so that 8 elements are on their way
 */
const uint WIDTH = FN * COLS, SETS = WIDTH > 32 * WIDE ? WIDTH / (32 * WIDE) : 1;
const uint NEXT_ROW = WIDTH < 32 * WIDE ? 32 * WIDE / WIDTH : 1, STRIP = 8 / (WIDE * SETS);

/* A subgroup's threads share a row of pairs, and compilers are to see it */
#define PAIR_THREAD	(gl_SubgroupID * 32 + gl_SubgroupInvocationID)

/* The arguments by value: behind an address they would be read anew after every store */
struct conv {
	uint	m, k, pixels, columns, in_pixels;
	ivec3	size, step, tap, pad, outs;	/* x first */
	uint64_t x, w, bias, res, y, x_n, y_n, res_n;
	float	lo, hi;
};

conv load_args()
{
	conv_nd_t p = conv_nd_t(push.args);
	const uint ic = uint(p.ic / p.groups), pixels = uint(p.out_[0] * p.out_[1] * p.out_[2]);

	return conv(uint(p.oc / p.groups), ic * TAPS, pixels, uint(p.n) * pixels,
		    uint(p.in_[0] * p.in_[1] * p.in_[2]),
		    ivec3(int(p.in_[2]), int(p.in_[1]), int(p.in_[0])),
		    ivec3(int(p.s[2]), int(p.s[1]), int(p.s[0])),
		    ivec3(int(p.d[2]), int(p.d[1]), int(p.d[0])),
		    ivec3(int(p.p[2]), int(p.p[1]), int(p.p[0])),
		    ivec3(int(p.out_[2]), int(p.out_[1]), int(p.out_[0])),
		    p.x, p.w, p.bias, p.res, p.y, p.x_n, p.y_n, p.res_n, p.act_a, p.act_b);
}

/* Where the first tap of an output pixel reads */
struct pixel {
	uint64_t image;		/* its address: what reads padding loads its first element */
	ivec3	at;
	int	offset;
};

/* Of column @j, in the group whose first input channel is @x_group elements on */
pixel locate(const in conv g, const in uint j, const in uint64_t x_group)
{
	const uint i = min(j, g.columns - 1), n = i / g.pixels, p = i - n * g.pixels;
	const uint zy = p / uint(g.outs.x), z = zy / uint(g.outs.y);
	const ivec3 o = ivec3(int(p - zy * uint(g.outs.x)), int(zy - z * uint(g.outs.y)), int(z));
	ivec3 at = o * g.step - g.pad;
	const int offset = (at.z * g.size.y + at.y) * g.size.x + at.x;

	if (j >= g.columns || (KZ == 1 && uint(at.z) >= uint(g.size.z)))
		at.x = FAR;
	return pixel(g.x + (n * g.x_n + x_group) * 2, at, offset);
}

/*
 * What tap and channel @k read for two pixels; padding, and what is beyond K: 0. By masks, for
 * compilers make branches of choices, around loads of which many are to be on their way.
 */
uint gather_2(const in conv g, const in pixel p[2], const in uint k)
{
	const uint channel = k / TAPS, t = k - channel * TAPS, tz = t / (KX * KY);
	const uint ty = (t - tz * KX * KY) / KX, tx = t - (tz * KY + ty) * KX;
	const ivec3 by = ivec3(int(tx), int(ty), int(tz)) * g.tap;
	const int on = int(channel * g.in_pixels) + (by.z * g.size.y + by.y) * g.size.x + by.x;
	uint x[2];

	[[unroll]] for (uint e = 0; e < 2; e++) {
		const uvec3 at = uvec3(p[e].at + by), size = uvec3(g.size);
		uint keep = at.x < size.x && at.y < size.y && k < g.k ? ~0u : 0u;

		if (KZ > 1)
			keep &= at.z < size.z ? ~0u : 0u;

		const uint64_t offset = uint64_t(uint(p[e].offset + on) & keep);

		x[e] = uint(u16_p(p[e].image + offset * 2).v) & keep;
	}
	return x[0] | x[1] << 16;
}

/* This thread's of the slice of columns at @k, row after row of pairs */
void gather(const in conv g, const in pixel pair[2], const in uint k, out uvec4 next[B_LOADS])
{
	const uint down = SUBGROUPS * 32 / PAIRS, first = k + gl_SubgroupID * 32 / PAIRS;

	[[unroll]] for (uint l = 0; l < B_LOADS; l++)
		next[l] = uvec4(gather_2(g, pair, first + l * 4 * down),
				gather_2(g, pair, first + (l * 4 + 1) * down),
				gather_2(g, pair, first + (l * 4 + 2) * down),
				gather_2(g, pair, first + (l * 4 + 3) * down));
}

void keep_pairs(const in uvec4 next[B_LOADS])
{
	[[unroll]] for (uint i = 0; i < B_LOADS * 4; i++) {
		const uint at = i * THREADS + PAIR_THREAD;

		shared_mem[A_SIZE + at / PAIRS * B_STEP + at % PAIRS / 4][at % 4] =
			next[i / 4][i % 4];
	}
}

/* This thread's of the slice of weights at @k, of the tile at @row */
void load_w(const in conv g, const in uint64_t w, const in uint row, const in uint k,
	    out uvec4 next[A_LOADS])
{
	const bool whole = g.k % 8 == 0 && (uint(g.w) & 15u) == 0 && k + BK <= g.k;

	[[unroll]] for (uint l = 0; l < A_LOADS; l++) {
		const uint at = l * THREADS + THREAD, r = min(row + at / A_WIDE, g.m - 1);
		const uint c = k + at % A_WIDE * 8;
		const uint64_t p = w + (uint64_t(r) * g.k + c) * 2;

		if (whole) {
			next[l] = u128_p(p).v;
			continue;
		}
		next[l] = uvec4(0);
		[[unroll]] for (uint i = 0; i < 8; i++) {
			const uint keep = c + i < g.k ? ~0u : 0u;
			const uint64_t at_i = w + (uint64_t(r) * g.k + min(c + i, g.k - 1)) * 2;

			next[l][i / 2] |= (uint(u16_p(at_i).v) & keep) << i % 2 * 16;
		}
	}
}

/* The same of columns that are the image's own; @at: of the first slice */
void load_x(const in conv g, const in uint64_t at[B_LOADS], const in uint k,
	    out uvec4 next[B_LOADS])
{
	const bool whole = (uint(g.x) & 15u) == 0 && k + BK <= g.k;

	[[unroll]] for (uint l = 0; l < B_LOADS; l++) {
		const uint64_t p = at[l] + uint64_t(k) * g.pixels * 2;

		next[l] = whole ? u128_p(p).v :
			  load_8(p, 0, (l * THREADS + THREAD) / B_WIDE + k, 0, g.k, 1);
	}
}

/* A row of fragments: where its sums begin, how many rows count, its first channel, of all */
struct sums {
	uint	from, rows, down, channel;
};

/* Of this thread's runs of pixels in the row of the first channel; @in_it: there are such */
struct runs {
	uint64_t y[2], res[2];
	bool	in_it[2], whole;	/* whole: vectors may be loaded and stored */
};

runs find_runs(const in conv g, const in uint col, const in uint group)
{
	runs t;

	t.whole = ((uint(g.y) | uint(g.res)) & (2 * WIDE - 1)) == 0;
	[[unroll]] for (uint c = 0; c < SETS; c++) {
		const uint j = col + gl_SubgroupInvocationID * WIDE % WIDTH + c * 32 * WIDE;
		const uint i = min(j, g.columns - WIDE), n = i / g.pixels;
		const uint64_t on = uint64_t(group) * g.m * g.pixels + (i - n * g.pixels);

		t.in_it[c] = j < g.columns;
		t.y[c] = g.y + (n * g.y_n + on) * 2;
		t.res[c] = g.res + (n * g.res_n + on) * 2;
	}
	return t;
}

/* WIDE elements, two a word */
uvec4 load_wide(const in uint64_t p, const in bool whole)
{
	uvec4 x = uvec4(0);

	if (whole && WIDE == 8)
		return u128_p(p).v;
	if (whole && WIDE == 4)
		return uvec4(unpackUint2x32(u64_p(p).v), 0, 0);
	[[unroll]] for (uint i = 0; i < WIDE; i++)
		x[i / 2] |= uint(u16_p(p + 2 * i).v) << i % 2 * 16;
	return x;
}

/* @sum and element @i of the residual, activated */
uint finish(const in conv g, const in float sum, const in uvec4 res, const in uint i)
{
	const uint bits = res[i / 2] >> i % 2 * 16 & 0xffffu;
	const float v = g.res == 0 ? sum :
			sum + (TYPE == BF16 ? uintBitsToFloat(bits << 16) : f16_to_f32(bits));
	const float y = activate(v, g.lo, g.hi);

	return TYPE == BF16 ? f32_to_bf16(y) : f32_to_f16(y);
}

void store_wide(const in uint64_t p, const in bool whole, const in uvec4 x)
{
	if (whole && WIDE == 8)
		u128_p(p).v = x;
	else if (whole && WIDE == 4)
		u64_p(p).v = packUint2x32(x.xy);
	else
		[[unroll]] for (uint i = 0; i < WIDE; i++)
			u16_p(p + 2 * i).v = uint16_t(x[i / 2] >> i % 2 * 16);
}

/* Four sums, from @i on, of a run of pixels of row @r of those in shared memory, or all */
vec4 sums_at(const in sums s, const in uint r, const in uint c, const in uint i)
{
	const uint at = gl_SubgroupInvocationID * WIDE % WIDTH + c * 32 * WIDE + i;
	const uint line = s.from + r * C_STEP + at / 4;

	if (WIDE >= 4)
		return uintBitsToFloat(shared_mem[line]);
	return vec4(uintBitsToFloat(shared_mem[line][at % 4]),
		    uintBitsToFloat(shared_mem[line][at % 4 + WIDE - 1]), 0.0, 0.0);
}

/* STRIP of this thread's rows, from @r on: all that is loaded is on its way together */
void finish_strip(const in conv g, const in sums s, const in runs t, const in uint first)
{
	uvec4 res[STRIP * SETS];
	float bias[STRIP];

	[[unroll]] for (uint q = 0; q < STRIP; q++) {
		const uint r = min(first + q * NEXT_ROW, s.rows - 1);

		bias[q] = 0.0;
		if (g.bias != 0)
			bias[q] = load_real(BIAS_TYPE, g.bias, s.channel + r);
		[[unroll]] for (uint c = 0; c < SETS; c++) {
			const uint64_t on = uint64_t(s.down + r) * g.pixels * 2;

			res[q * SETS + c] = uvec4(0);
			if (g.res != 0)
				res[q * SETS + c] = load_wide(t.res[c] + on, t.whole);
		}
	}
	[[unroll]] for (uint j = 0; j < STRIP * SETS; j++) {
		const uint q = j / SETS, c = j % SETS, r = first + q * NEXT_ROW;
		uvec4 x = uvec4(0);
		vec4 v;

		[[unroll]] for (uint i = 0; i < WIDE; i++) {
			if (i % 4 == 0)
				v = sums_at(s, r, c, i);
			x[i / 2] |= finish(g, v[i % 4] + bias[q], res[j], i) << i % 2 * 16;
		}
		if (r < s.rows && t.in_it[c])
			store_wide(t.y[c] + uint64_t(s.down + r) * g.pixels * 2, t.whole, x);
	}
}

void main()
{
	const conv g = load_args();
	const uint groups = uint(conv_nd_t(push.args).groups);
	const uint down = (g.m + BM - 1) / BM, across = (g.columns + BN - 1) / BN;
	const uint64_t tiles = uint64_t(down) * across, units = tiles * groups;
	const uint sub_row = SUB_ROW, sub_col = SUB_COL;

	for (uint64_t u = GROUP; u < units; u += GROUPS) {
		const uint group = uint(u / tiles);
		const uvec2 tile = tile_at(uint(u - group * tiles), down, across);
		const uint row = tile.x, col = tile.y;
		const uint64_t w = g.w + uint64_t(group) * g.m * g.k * 2;
		const uint64_t x_group = uint64_t(group) * (g.k / TAPS) * g.in_pixels;
		uint64_t x_at[B_LOADS];
		uvec4 next_a[A_LOADS], next_b[B_LOADS];
		pixel pair[2];
		C_FRAGMENT sum[FM * FN];

		[[unroll]] for (uint e = 0; e < 2; e++)
			pair[e] = locate(g, col + PAIR_THREAD % PAIRS * 2 + e, x_group);
		[[unroll]] for (uint l = 0; l < B_LOADS; l++) {
			const uint at = l * THREADS + THREAD;
			const uint j = min(col + at % B_WIDE * 8, g.columns - 8), n = j / g.pixels;

			x_at[l] = g.x + (n * g.x_n + x_group + uint64_t(at / B_WIDE) * g.pixels +
					 (j - n * g.pixels)) * 2;
		}
		[[unroll]] for (uint f = 0; f < FM * FN; f++)
			sum[f] = C_FRAGMENT(0.0);
		for (uint k = 0; k < g.k + BK; k += BK) {
			if (k < g.k) {
				load_w(g, w, row, k, next_a);
				if (POINTWISE)
					load_x(g, x_at, k, next_b);
				else
					gather(g, pair, k, next_b);
			}
			if (k > 0) {	/* a slice is there */
				MULTIPLY_SLICE
				barrier();	/* all have multiplied it */
			}
			if (k >= g.k)
				break;
			[[unroll]] for (uint l = 0; l < A_LOADS; l++)
				keep_a(l, next_a[l]);
			if (POINTWISE)
				[[unroll]] for (uint l = 0; l < B_LOADS; l++)
					keep_b(l, next_b[l]);
			else
				keep_pairs(next_b);
			barrier();
		}
		const runs t = find_runs(g, col + sub_col, group);
		sums s = sums(gl_SubgroupID * (ROWS * C_STEP), 0, 0, 0);

		[[unroll]] for (uint f = 0; f < FM; f++) {
			s.down = row + sub_row + f * ROWS;
			s.rows = s.down < g.m ? min(ROWS, g.m - s.down) : 0;
			s.channel = group * g.m + s.down;
			STORE_SUMS(f, s.from)
			for (uint r = 0; r < s.rows; r += STRIP * NEXT_ROW)
				finish_strip(g, s, t,
					     r + gl_SubgroupInvocationID * WIDE / WIDTH);
		}
		barrier();	/* all have read their sums */
	}
}
