/* SPDX-License-Identifier: MIT */
/*
 * The pass that repacks a GEMM's operands (gemm_repack.h): a copy to where lines begin at 16 bytes.
 *
 * Algorithm: a thread for every 16 bytes that are written, RP_AHEAD of them at a time over the
 * whole grid. What it reads begins at any element: two aligned pieces of 16 bytes, of which the
 * second is the first one of a neighbour (and so in the L1), and a funnel shift. At the very edges
 * of the operand, where an aligned piece would reach beyond it, elements one by one.
 * Traffic: each operand read once and written once. What lies beside a line is zeros.
 * Limits: 16-bit elements, 2^30 pieces of 16 bytes.
 */
#ifndef RLX_G_REPACK_LINES_H
#define RLX_G_REPACK_LINES_H

#include "kernels/gpu/dialect.h"
#include "kernels/gpu/gemm_repack.h"

enum { RP_AHEAD = 4, RP_APART = 16 };

/* Two pieces of 16 bytes, side by side in memory. */
struct rp_pair {
	uint32_t	w[8];

	/* From byte @by on, an even number below 16, or from words together. */
	DEV void shift(int by)
	{
		if (by == RP_APART) {
#pragma unroll
			for (int i = 0; i < 4; i++)
				w[i] = w[2 * i] | w[2 * i + 1] << 16;
			return;
		}
#pragma unroll
		for (int i = 0; i < 6; i++)
			w[i] = by & 8 ? w[i + 2] : w[i];
#pragma unroll
		for (int i = 0; i < 5; i++)
			w[i] = by & 4 ? w[i + 1] : w[i];
#pragma unroll
		for (int i = 0; i < 4; i++)
			w[i] = by & 2 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
	}

	/* Zeros from element @n on. */
	DEV void cut(int n)
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
			w[i] = 2 * i + 1 < n ? w[i] : 2 * i < n ? w[i] & 0xffff : 0;
	}

	/*
	 * @n elements from @at on, between @first and @end, and at which byte they begin here;
	 * RP_APART: each is a word.
	 */
	DEV int load(const uint16_t *at, int n, const uint16_t *first, const uint16_t *end)
	{
		int by = (int)((uint64_t)at & 15);
		const uint16_t *from = at - by / 2;

		if (from >= first && from + 16 <= end) {
			load_words(w, from, true);
			load_words(w + 4, from + 8, by);
			return by;
		}
		/* nothing is made of them here, lest that wait for each piece in turn */
#pragma unroll
		for (int i = 0; i < 8; i++)
			w[i] = load_short(at + i, i < n);
		return RP_APART;
	}
};

struct alignas(16) rp_piece {
	uint32_t	w[4];
};

/* All copies of @r, which lies at @from, to @to. */
static DEV inline void repack_operand(const struct rlx_g_repacked &r, const uint16_t *from,
				      rp_piece *to)
{
	uint32_t across = (uint32_t)(r.to_ld / 8), lines = (uint32_t)r.lines;
	uint32_t all = across * lines * (uint32_t)(r.count[0] * r.count[1]);
	uint32_t threads = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
	const uint16_t *end = from + (r.count[0] - 1) * r.step[0] + (r.count[1] - 1) * r.step[1] +
			      (r.lines - 1) * r.ld + r.width;

	for (; i < all; i += RP_AHEAD * threads) {
		rp_pair p[RP_AHEAD];
		int by[RP_AHEAD], n[RP_AHEAD];

#pragma unroll
		for (int e = 0; e < RP_AHEAD; e++) {
			uint32_t piece = i + e * threads, line = piece / across;
			uint32_t c = (piece - line * across) * 8, m = line / lines;
			const uint16_t *at = from + (line - m * lines) * r.ld + c;

			at += m % (uint32_t)r.count[1] * r.step[1] +
			      m / (uint32_t)r.count[1] * r.step[0];
			n[e] = (int)(r.width - c < 8 ? r.width - c : 8);
			by[e] = piece < all ? p[e].load(at, n[e], from, end) : 0;
		}
#pragma unroll
		for (int e = 0; e < RP_AHEAD; e++) {
			if (i + e * threads >= all)
				break;
			p[e].shift(by[e]);
			if (n[e] < 8)
				p[e].cut(n[e]);
			to[i + e * threads] = rp_piece{ { p[e].w[0], p[e].w[1], p[e].w[2],
							  p[e].w[3] } };
		}
	}
}

/* Those of @which, to scratch. */
static DEV inline void repack(const struct rlx_k_gemm &a, const struct rlx_g_env &env, int which)
{
	char *to = (char *)env.scratch;

	if (which & RLX_G_REPACK_A)
		repack_operand(rlx_g_repacked(&a, RLX_G_REPACK_A),
			       RLX_G_PTR(const uint16_t, a.a), (rp_piece *)to);
	if (which & RLX_G_REPACK_B)
		repack_operand(rlx_g_repacked(&a, RLX_G_REPACK_B),
			       RLX_G_PTR(const uint16_t, a.b),
			       (rp_piece *)(to + rlx_g_repack_b_at(&a, which)));
}

#endif
