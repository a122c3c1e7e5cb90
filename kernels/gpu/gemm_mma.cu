// SPDX-License-Identifier: MIT
/*
 * GEMM of f16 or bf16 (or of f32 rounded to bf16 or TF32) by a warp's tensor cores, and what
 * types are multiplied and stored.
 *
 * Algorithms: tiles in shared memory (gemm_mma_tile.h), small M (gemm_small_m.h), tiles that are
 * in registers alone (gemm_direct.h), GEMV (gemv.h), and grouped GEMM, whose first pass sorts rows
 * by expert (expert_rows.h) and whose second multiplies tiles of one expert's rows each.
 *
 * Limits: any shape and alignment; what does not begin at 16 bytes takes longer. Sums are f32.
 * Two f16 operands are multiplied as f16, all others as bf16: f16 beside bf16 loses f16's last
 * three bits of mantissa.
 */
#ifdef RLX_KERNEL_gemv	/* loads of one block under way while another adds up */
#define RLX_G_BLOCKS	(GEMM_TYPE_A == RLX_F32 ? 1 : 2)
#elif defined(RLX_KERNEL_gemm_mma)	/* so many blocks hide the time that memory takes */
#define RLX_G_BLOCKS	(GEMM_EDGE == 128 ? 2 : GEMM_EDGE == 64 ? 4 : 8)
#elif defined(RLX_KERNEL_gemm_direct)
#define RLX_G_BLOCKS	(GEMM_COLS > 32 ? 1 : 2)
#endif
#if defined(RLX_KERNEL_gemm_small_m) || defined(RLX_KERNEL_gemm_horizontal)
#define GEMM_B_COLS	1
#elif defined(RLX_KERNEL_gemm_grouped)
#define GEMM_B_COLS	0
#elif defined(RLX_KERNEL_gemm_direct)
#define GEMM_B_COLS	(!GEMM_BY_N)
#endif
#ifndef GEMM_EDGE	/* of who has no such tiles */
#define GEMM_EDGE	64
#endif
#ifndef GEMM_TRANS_A
#define GEMM_TRANS_A	0
#endif
#include "kernels/gpu/gemm_tile.h"
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemv.h"
#include "kernels/gpu/mma.h"

typedef rlx_t<GEMM_TYPE_A>::mem type_a;
typedef rlx_t<GEMM_TYPE_B>::mem type_b;
typedef rlx_t<GEMM_TYPE_C>::mem type_c;

/* Operands are f16 where both are; everything else is rounded to bf16, or to TF32. */
template <class A, class B> struct product_of { typedef bf16 type; };
template <> struct product_of<f16, f16> { typedef f16 type; };
typedef product_of<type_a, type_b>::type half;
#if GEMM_TF32
typedef float elem;
#else
typedef half elem;
#endif

#define A_TRANS	GEMM_TRANS_A
#define B_TRANS	(!GEMM_B_COLS)	/* k runs down the rows of b's tile */

typedef gemm_operands<float, type_a, type_b, type_c> operands;

static DEV inline elem to_elem(float x) { return from_f32<elem>(x); }
static DEV inline elem to_elem(bf16 x) { return from_f32<elem>(to_f32(x)); }
static DEV inline elem to_elem(f16 x) { return from_f32<elem>(to_f32(x)); }
static DEV inline float get(type_c x) { return to_f32(x); }
static DEV inline type_c put(float x) { return from_f32<type_c>(x); }

#include "kernels/gpu/gemm_mma_tile.h"
#include "kernels/gpu/gemm_result.h"
#include "kernels/gpu/expert_rows.h"

/* Of the sums of a tile. */
struct ending : operands {
	const struct rlx_k_gemm	&g;
	const int		*list;

	DEV ending(const struct rlx_k_gemm &all, const struct rlx_g_env &env, int64_t batch,
		   const int *rows)
		: operands(all, env, batch), g(all), list(rows) {}
	DEV void take(uint32_t (*fa)[MMA_A], uint32_t (*fb)[MMA_B])
	{
#if GEMM_TF32
#pragma unroll
		for (int e = 0; e < TM * MMA_A; e++)
			fa[e / MMA_A][e % MMA_A] = round_tf32(fa[e / MMA_A][e % MMA_A]);
#pragma unroll
		for (int e = 0; e < TN * MMA_B; e++)
			fb[e / MMA_B][e % MMA_B] = round_tf32(fb[e / MMA_B][e % MMA_B]);
#endif
	}
	DEV void sum_up(float *smem) {}
	/* Results that the bus would take one by one go back, to be written side by side. */
	DEV bool apart(void) const { return rlx_g_gemm_scatters(&g, sizeof(type_c)); }
	DEV void end(size_t row, size_t col, const int *at, float *sum, int left) const
	{
		float v[4];

		row = list ? (size_t)list[row] : row;
		four_values(g, row, col, sum, left, get, v);
		if (apart())
			memcpy(sum, v, sizeof(v));
		else
			put_four(g, row, col, v, left, is_wide(g), put);
	}
	DEV void write(size_t row, size_t col, float x) const
	{
		c[(list ? (size_t)list[row] : row) * g.ldc + col] = put(x);
	}
};

#ifdef RLX_KERNEL_gemv
template <class T> static DEV inline float rounded(T x) { return to_f32(to_elem(x)); }

struct round_it {
	template <class T> DEV float operator()(T x) const { return rounded(x); }
};

RLX_G_KERNEL_PDL(gemv, struct rlx_k_gemm, 256)
{
	SHARED(float, smem, [GEMV_ROOM]);

	gemv<type_a, type_b, operands>(a, env, smem, round_it(), get, put);
}
#elif defined(RLX_KERNEL_gemm_small_m) || defined(RLX_KERNEL_gemm_horizontal)
#include "kernels/gpu/gemm_horizontal.h"
#include "kernels/gpu/move.h"
#if PROLOGUE_ATTENTION
#include "kernels/gpu/attention_short_kv.h"
#endif
#include "kernels/gpu/gemm_small_m.h"

#ifdef RLX_KERNEL_gemm_small_m
RLX_G_KERNEL_PDL(gemm_small_m, struct rlx_k_gemm, 384)
{
	SHARED_DYNAMIC(shared);

	small_m(a, env, (float *)shared, blockIdx.x, 0, false);
}
#else
/*
 * Narrow blocks have half as many threads: two of them, or one and one of the next
 * launch, are to find registers; but not where heads take more of them.
 */
RLX_G_KERNEL_PDL(gemm_horizontal, struct rlx_g_horizontal, GEMM_COLS == 8 &&
		   ATTENTION_WIDTH * ATTENTION_KEYS <= 32 * 16 ? 768 : 384)
{
	SHARED_DYNAMIC(shared);
	struct rlx_k_gemm g;
	bool first;
	uint32_t block = horizontal_member(a, PROLOGUE_NORM, &g, &first);

	small_m(g, env, (float *)shared, block, &a, first);
}
#endif
#elif defined(RLX_KERNEL_gemm_direct)
#include "kernels/gpu/gemm_direct.h"

RLX_G_KERNEL_PDL(gemm_direct, struct rlx_k_gemm, 384)
{
	SHARED_DYNAMIC(shared);

	direct(a, env, (float *)shared, blockIdx.x);
}
#elif defined(RLX_KERNEL_gemm_grouped)
RLX_G_KERNEL(gemm_grouped, struct rlx_g_grouped, THREADS)
{
	SHARED_DYNAMIC(shared);
	expert_rows<BM, THREADS> r(a, env);
	int64_t across = ((int64_t)a.g.n + BN - 1) / BN;
	struct rlx_k_gemm g = a.g;

	if (env.pass == 0) {
		if (blockIdx.x == 0)
			r.sort(env, (uint64_t *)shared);
		return;
	}
	for (int64_t t = blockIdx.x; t < *r.tiles * across; t += gridDim.x) {
		const int *list;
		int group = r.take(t / across, &list, &g.m);

		if (r.find(group, &g))
			product(g, (elem *)shared, 1, t % across, ending(g, env, group, list));
	}
}
#else
RLX_G_KERNEL(gemm_mma, struct rlx_k_gemm, THREADS)
{
	SHARED_DYNAMIC(shared);
	int64_t down = tiles_down(a, env), each = tiles_of(a, down);
	int64_t tiles = each * (int64_t)rlx_k_gemm_batches(&a);

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
		int64_t tile, batch = divide(t, each, &tile);

		product(a, (elem *)shared, down, tile, ending(a, env, batch, 0));
	}
}
#endif
