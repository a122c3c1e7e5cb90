// SPDX-License-Identifier: MIT
// Matrix products of halves (or what is rounded to them) by tensor cores.
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/gemv.h"
#include "kernels/gpu/mma.h"

/*
 * RLX_K0: types of a, b, c as enum rlx_k_num, two bits each. RLX_K1: 0 a large tile,
 * 1 a small one, 2 few rows. RLX_K2: 1 a is transposed, 2 b is by columns.
 */
typedef gemm_type<(RLX_K0 & 3)>::type type_a;
typedef gemm_type<(RLX_K0 >> 2 & 3)>::type type_b;
typedef gemm_type<(RLX_K0 >> 4 & 3)>::type type_c;

/* Products are of f16 where both are; everything else is rounded to bf16. */
template <class A, class B> struct product_of { typedef bf16 type; };
template <> struct product_of<f16, f16> { typedef f16 type; };
typedef product_of<type_a, type_b>::type half;

#define A_TRANS	(RLX_K2 & 1)
#define B_TRANS	(!(RLX_K2 & 2))	/* k runs down the rows of b's tile */

#define DEPTH	32
#define STAGES	3
#define PAD	8	/* halves: rows start at 16 bytes in different banks */
#if RLX_K1 == 0
enum { BM = 128, BN = 128, THREADS = 256, WAVES_M = 2 };
#else
enum { BM = 64, BN = 64, THREADS = 128, WAVES_M = RLX_WAVE == 64 ? 1 : 2 };
#endif
enum {
	WAVES_N = THREADS / RLX_WAVE / WAVES_M,
	WM = BM / WAVES_M, WN = BN / WAVES_N,		/* a wave's part */
	TM = WM / MMA_M, TN = WN / MMA_N,		/* its products */
	LDA = (A_TRANS ? BM : DEPTH) + PAD,
	LDB = (B_TRANS ? BN : DEPTH) + PAD,
	A_HALVES = (A_TRANS ? DEPTH : BM) * LDA,
	B_HALVES = (B_TRANS ? DEPTH : BN) * LDB,
};

typedef gemm_operands<float, type_a, type_b, type_c> operands;

static DEV inline half to_half(float x) { return from_f32<half>(x); }
static DEV inline half to_half(bf16 x) { return from_f32<half>(to_f32(x)); }
static DEV inline half to_half(f16 x) { return from_f32<half>(to_f32(x)); }

template <class A, class B> struct same_type { enum { yes = 0 }; };
template <class A> struct same_type<A, A> { enum { yes = 1 }; };

/* A matrix as it lies in memory; @wide: whole rows may be read by 16 bytes. */
template <class T> struct area {
	const T	*p;
	int64_t	ld, rows, cols;
	bool	wide;
};

/* A tile of ROWS x COLS of it, from row @r0 and column @c0; zeros beyond the edges. */
template <int ROWS, int COLS, class T>
static DEV inline void load_tile(half *to, const area<T> &m, int64_t r0, int64_t c0)
{
	if constexpr (same_type<T, half>::yes) {
		if (m.wide) {	/* behind the thread's back */
#pragma unroll
			for (int e = 0; e < ROWS * COLS / 8; e += THREADS) {
				int i = e + (int)threadIdx.x, r = i / (COLS / 8);
				int c = i % (COLS / 8) * 8;
				int64_t left = m.cols - c0 - c;
				int n = r0 + r >= m.rows || left <= 0 ? 0 :
					left < 8 ? (int)left : 8;

				if (ROWS * COLS / 8 % THREADS && i >= ROWS * COLS / 8)
					break;
				copy_async(to + r * (COLS + PAD) + c,
					   n ? m.p + (r0 + r) * m.ld + c0 + c : m.p, 16,
					   n * 2);
			}
			return;
		}
	}
	for (int i = (int)threadIdx.x; i < ROWS * COLS; i += THREADS) {
		int r = i / COLS, c = i % COLS;
		half v = {};

		if (r0 + r < m.rows && c0 + c < m.cols)
			v = to_half(m.p[(r0 + r) * m.ld + c0 + c]);
		to[r * (COLS + PAD) + c] = v;
	}
}

/* Both matrices, and where in them the block works. */
struct work {
	area<type_a>	a;
	area<type_b>	b;
	int64_t		row, col;
};

static DEV inline void load_step(half *stage, const struct work &w, int64_t at)
{
#if A_TRANS
	load_tile<DEPTH, BM>(stage, w.a, at, w.row);
#else
	load_tile<BM, DEPTH>(stage, w.a, w.row, at);
#endif
#if B_TRANS
	load_tile<DEPTH, BN>(stage + A_HALVES, w.b, at, w.col);
#else
	load_tile<BN, DEPTH>(stage + A_HALVES, w.b, w.col, at);
#endif
}

static DEV inline void multiply(float (*c)[TN][MMA_C], const half *stage)
{
	const half *as = stage, *bs = stage + A_HALVES;
	int wm = wave_id() % WAVES_M * WM, wn = wave_id() / WAVES_M * WN;

#pragma unroll
	for (int k = 0; k < DEPTH; k += MMA_K) {
		uint32_t fa[TM][MMA_A], fb[TN][MMA_B];

#pragma unroll
		for (int i = 0; i < TM; i++) {
			int r = wm + i * MMA_M;

			mma_load_a(fa[i], as + (A_TRANS ? k * LDA + r : r * LDA + k), LDA,
				   A_TRANS);
		}
#pragma unroll
		for (int j = 0; j < TN; j++) {
			int n = wn + j * MMA_N;

			mma_load_b(fb[j], bs + (B_TRANS ? k * LDB + n : n * LDB + k), LDB,
				   B_TRANS);
		}
#pragma unroll
		for (int i = 0; i < TM; i++)
#pragma unroll
			for (int j = 0; j < TN; j++)
				mma<half>(c[i][j], fa[i], fb[j]);
	}
}

static DEV inline float get(type_c x) { return to_f32(x); }
static DEV inline type_c put(float x) { return from_f32<type_c>(x); }

/*
 * 16 rows of the wave's part at a time go through shared memory @room: the end of a
 * sum stands once in the code, not once for each register, and stores are in order.
 */
static DEV inline void finish_all(const struct rlx_k_gemm &a, const operands &o,
				  const float (*c)[TN][MMA_C], float *room, int64_t row,
				  int64_t col)
{
#pragma unroll
	for (int i = 0; i < TM; i++, row += MMA_M) {
#pragma unroll
		for (int j = 0; j < TN; j++)
#pragma unroll
			for (int e = 0; e < MMA_C; e++)
				room[mma_c_row(e) * (WN + 4) + j * MMA_N + mma_c_col(e)] =
					c[i][j][e];
		wave_sync();
#pragma unroll 1
		for (int e = lane_id(); e < MMA_M * WN; e += WAVE) {
			int64_t r = row + e / WN, n = col + e % WN;

			if (r < (int64_t)a.m && n < (int64_t)a.n)
				o.finish(a, (size_t)r, (size_t)n,
					 room[e / WN * (WN + 4) + e % WN], get, put);
		}
		wave_sync();
	}
}

static DEV inline bool by_16(const void *p, size_t ld, size_t size)
{
	return ((uint64_t)p | ld * size) % 16 == 0;
}

static DEV inline void product(const struct rlx_k_gemm &a, const struct rlx_g_env &env,
			       half *shared, int64_t t)
{
	int64_t down = ((int64_t)a.m + BM - 1) / BM, across = ((int64_t)a.n + BN - 1) / BN;
	int64_t m = (int64_t)a.m, n = (int64_t)a.n, k = (int64_t)a.k;
	operands o(a, env, t / (down * across));
	bool wide = by_16(o.a, a.lda, sizeof(half)) && by_16(o.b, a.ldb, sizeof(half));
	struct work w = {
		{ o.a, (int64_t)a.lda, A_TRANS ? k : m, A_TRANS ? m : k, wide },
		{ o.b, (int64_t)a.ldb, B_TRANS ? k : n, B_TRANS ? n : k, wide }, 0, 0 };
	int steps = (int)((k + DEPTH - 1) / DEPTH);
	int wm = wave_id() % WAVES_M * WM, wn = wave_id() / WAVES_M * WN;
	float c[TM][TN][MMA_C] = {};

	gemm_tile(t % (down * across), down, across, &w.row, &w.col);
	w.row *= BM;
	w.col *= BN;
	for (int s = 0; s < STAGES - 1; s++) {
		if (s < steps)
			load_step(shared + s * (A_HALVES + B_HALVES), w, (int64_t)s * DEPTH);
		copy_commit();
	}
	for (int s = 0; s < steps; s++) {
		int next = s + STAGES - 1;

		copy_wait<STAGES - 2>();
		__syncthreads();
		/* into the stage that everybody has left behind at the barrier */
		if (next < steps)
			load_step(shared + next % STAGES * (A_HALVES + B_HALVES), w,
				  (int64_t)next * DEPTH);
		copy_commit();
		multiply(c, shared + s % STAGES * (A_HALVES + B_HALVES));
	}
	copy_wait<0>();
	__syncthreads();
	finish_all(a, o, c, (float *)shared + wave_id() * MMA_M * (WN + 4), w.row + wm,
		   w.col + wn);
	__syncthreads();
}

#if RLX_K1 == 2
template <class T> static DEV inline float rounded(T x) { return to_f32(to_half(x)); }

struct round_it {
	template <class T> DEV float operator()(T x) const { return rounded(x); }
};

RLX_G_KERNEL(gemm_bf16, struct rlx_k_gemm, 256)
{
	SHARED(float, room, [GEMV_ROOM(sizeof(type_b))]);

	gemv<type_b, operands>(a, env, room, round_it(), get, put);
}
#else
RLX_G_KERNEL(gemm_bf16, struct rlx_k_gemm, THREADS)
{
	SHARED_DYNAMIC(shared);
	int64_t tiles = (((int64_t)a.m + BM - 1) / BM) * (((int64_t)a.n + BN - 1) / BN);

	tiles *= (int64_t)rlx_k_gemm_batches(&a);
	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a, env, (half *)shared, t);
}
#endif
