// SPDX-License-Identifier: MIT
/*
 * The gated delta rule by chunks, what of a chunk does not depend on the state ahead of it.
 *
 * Algorithm: a block a chunk of 64 steps of a head. With D_ij = e^(g_j+1 + .. + g_i) for j <= i and
 * T the inverse of 1 + beta D k k' below the diagonal, what the chunk writes of state S is
 * u - w S with u = T beta v and w = T beta e^G k (the WY representation). T is made in f32: blocks
 * of 16 rows by substitution, a thread a column, then what joins two, twice. Also p = scale D k q
 * of each two steps, up to the diagonal. All other products are of tensor cores.
 * Traffic: q, k and v once; w, u and p to memory, which gated_delta_chunks.cu reads.
 * Where e^g is 0 in f32, below -128, g counts as -128: sums of it keep what follows in the chunk.
 * Source: Yang, Kautz and Hatamizadeh 2025 (Gated Delta Networks); Yang et al. 2024.
 * Limits: f16 and bf16, sums f32; rows of 16 bytes' multiples.
 */
#include "kernels/gpu/gated_delta.h"

/* Two teams of warps, each of all rows, share the columns of what is made. */
enum {
	TEAMS = RLX_K_DELTA_TEAMS, THREADS = TEAMS * TEAM, LD = CHUNK + 4, BLOCK = CHUNK / 4,
	COLS = 64, COLS_LD = COLS + PIECE,
};

/* What is shared; m and t are f32, the others as the operands are. */
struct area {
	mem	*q, *k, *v, *tk, *tv;
	float	*m, *t, *g, *rate, *beta;	/* rate: e^g */
};

static DEV inline area area_of(unsigned char *s)
{
	mem *q = (mem *)s, *k = q + CHUNK * KEYS_LD, *v = k + CHUNK * KEYS_LD;
	mem *tk = v + CHUNK * COLS_LD, *tv = tk + CHUNK * CHUNK_LD;
	float *m = (float *)(tv + CHUNK * CHUNK_LD), *t = m + CHUNK * LD;

	return { q, k, v, tk, tv, m, t, t + CHUNK * LD, t + CHUNK * LD + CHUNK,
		 t + CHUNK * LD + 2 * CHUNK };
}

/* Sums of g, which lie in t until then; all is there behind it. */
static DEV inline void sum_rates(const area &s, const struct prepared &to, float scale)
{
	const int i = (int)threadIdx.x;

	if (i < CHUNK) {
		float sum = 0, all = 0;

#pragma unroll
		for (int j = 0; j < CHUNK; j++) {
			all += s.t[j];
			sum = j == i ? all : sum;
		}
		s.g[i] = sum;
		s.rate[i] = expf(sum);
		to.rates[i] = scale * s.rate[i];
		to.rates[CHUNK + i] = expf(all - sum);
		to.rates[2 * CHUNK + i] = expf(all);
	}
	__syncthreads();
}

/* m below the diagonal, and p, which is 0 above it. */
static DEV inline void products(const area &s, float scale)
{
	enum { N = CHUNK / MMA_N / TEAMS };
	const int first = first_col(CHUNK, TEAMS);

	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (row_warp() + r * WARPS) * MMA_M;
		float kk[N][MMA_C] = {}, qk[N][MMA_C] = {};

		for (int k = 0; k < KEYS && first < row + MMA_M; k += MMA_K) {
			uint32_t ak[MMA_A], aq[MMA_A];

			mma_load_a<mem>(ak, s.k + row * KEYS_LD + k, KEYS_LD, false);
			mma_load_a<mem>(aq, s.q + row * KEYS_LD + k, KEYS_LD, false);
			mma_row<N>(kk, ak, s.k + first * KEYS_LD + k, KEYS_LD, false);
			mma_row<N>(qk, aq, s.k + first * KEYS_LD + k, KEYS_LD, false);
		}
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int c = 0; c < MMA_C; c++) {
				const int i = row + mma_c_row(c);
				const int j = first + n * MMA_N + mma_c_col(c);
				const float d = fast_exp(s.g[i] - s.g[j]);

				s.m[i * LD + j] = j < i ? s.beta[i] * d * kk[n][c] : 0;
				s.tv[i * CHUNK_LD + j] = from_f32<mem>(j <= i ?
					scale * d * qk[n][c] : 0);
			}
	}
	__syncthreads();
}

struct alignas(16) quad {
	float	v[4];
};

/* @PER of a row of @a (@N numbers) times @b, columns from @b on, both of distance LD. */
template <int N, int PER>
static DEV inline void row_times(float *sum, const float *a, const float *b)
{
#pragma unroll
	for (int i = 0; i < PER; i++)
		sum[i] = 0;
#pragma unroll 8
	for (int k = 0; k < N; k++)
#pragma unroll
		for (int i = 0; i < PER; i += 4) {
			const quad q = *(const quad *)(b + k * LD + i);

#pragma unroll
			for (int j = 0; j < 4; j++)
				sum[i + j] += a[k] * q.v[j];
		}
}

/*
 * From blocks of @H on the diagonal those of 2 @H: below it, -T22 M21 T11. M21 T11 goes above the
 * diagonal of m, which nobody else needs.
 */
template <int H> static DEV inline void join_blocks(const area &s)
{
	constexpr int PER = 4;
	const int e = (int)threadIdx.x * PER, from = e / (H * H) * 2 * H;
	const int r = e / H % H, c = e % H;
	const bool on = from < CHUNK;
	float *m = s.m + from * LD + from, *t = s.t + from * LD + from, sum[PER];

	if (on)
		row_times<H, PER>(sum, m + (H + r) * LD, t + c);
#pragma unroll
	for (int i = 0; i < PER && on; i++)
		m[r * LD + H + c + i] = sum[i];
	__syncthreads();
	if (on)
		row_times<H, PER>(sum, t + (H + r) * LD + H, m + H + c);
#pragma unroll
	for (int i = 0; i < PER && on; i++)
		t[(H + r) * LD + c + i] = -sum[i];
	__syncthreads();
}

/* t: the inverse of 1 + m, blocks on the diagonal by columns, then what is below them. */
static DEV inline void invert(const area &s)
{
	const int tid = (int)threadIdx.x;

	if (tid < CHUNK) {
		const int from = tid / BLOCK * BLOCK, col = tid % BLOCK;
		const float *m = s.m + from * LD + from;
		float *t = s.t + from * LD + tid, x[BLOCK];

#pragma unroll
		for (int i = 0; i < BLOCK; i++) {
			float v = i == col;

#pragma unroll
			for (int k = 0; k < i; k++)
				v -= m[i * LD + k] * x[k];
			x[i] = v;
			t[i * LD] = v;
			if (from / BLOCK % 2)	/* above the diagonal of blocks twice as large */
				t[(i - BLOCK) * LD] = 0;
		}
	}
	__syncthreads();
	join_blocks<BLOCK>(s);
	join_blocks<2 * BLOCK>(s);
}

/* t with beta, and e^G for k, as products take it. */
static DEV inline void round_inverse(const area &s)
{
	for (int e = (int)threadIdx.x; e < CHUNK * CHUNK; e += THREADS) {
		const int i = e / CHUNK, j = e % CHUNK;
		const float t = j <= i ? s.t[i * LD + j] * s.beta[j] : 0;

		s.tv[i * CHUNK_LD + j] = from_f32<mem>(t);
		s.tk[i * CHUNK_LD + j] = from_f32<mem>(t * s.rate[j]);
	}
	__syncthreads();
}

/* @to[CHUNK][COLS] = t b, of which @have columns are wanted; t is 0 above the diagonal. */
static DEV inline void apply(const mem *t, const mem *b, int ld, mem *to, int64_t to_ld,
			     int64_t have)
{
	enum { N = COLS / MMA_N / TEAMS };
	const int first = first_col(COLS, TEAMS);

	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (row_warp() + r * WARPS) * MMA_M;
		float sum[N][MMA_C] = {};

		for (int k = 0; k <= row; k += MMA_K) {
			uint32_t a[MMA_A];

			mma_load_a<mem>(a, t + row * CHUNK_LD + k, CHUNK_LD, false);
			mma_row<N>(sum, a, b + k * ld + first, ld, true);
		}
#pragma unroll
		for (int n = 0; n < N; n++)
			if (first + n * MMA_N < have)
				put_sums(to + row * to_ld + first + n * MMA_N, to_ld, sum[n]);
	}
}

/* p, which lies in tv until then. */
static DEV inline void put_p(const area &s, mem *p)
{
	for (int e = (int)threadIdx.x; e < CHUNK * CHUNK / PIECE; e += THREADS)
		((quad *)p)[e] = *(const quad *)(s.tv + e / (CHUNK / PIECE) * CHUNK_LD +
						 e % (CHUNK / PIECE) * PIECE);
}

/* A chunk's values, columns from @c on: every other tile lies where queries did. */
struct values {
	const mem	*from;
	int64_t		ld, all;	/* from a step to the next; columns */
	int		rows;
};

static DEV inline mem *tile_of(const area &s, int64_t c)
{
	return c / COLS % 2 ? s.q : s.v;
}

static DEV inline void bring_values(const area &s, const values &v, int64_t c)
{
	if (c < v.all)
		bring_rows<COLS, THREADS>(tile_of(s, c), COLS_LD, v.from + c, v.ld, v.rows,
					  v.all - c);
	copy_commit();
}

RLX_G_KERNEL(gated_delta_prepare, struct rlx_k_gated_delta, THREADS)
{
	SHARED_DYNAMIC(shared);
	const area s = area_of(shared);
	const int64_t line = blockIdx.x / a.count, head = line % a.hv, entry = line / a.hv;
	const int64_t step = (a.first + blockIdx.x % a.count) * CHUNK, row = entry * a.steps + step;
	const int64_t keys = (row * a.hk + head / (a.hv / a.hk)) * a.dk;
	const int rows = (int)(a.steps - step < CHUNK ? a.steps - step : CHUNK);
	const int tid = (int)threadIdx.x;
	const values v = { RLX_G_PTR(const mem, a.v) + (row * a.hv + head) * a.dv, a.hv * a.dv,
			   a.dv, rows };
	const struct prepared to = prepared_of(a, env, blockIdx.x);

	bring_rows<KEYS, THREADS>(s.q, KEYS_LD, RLX_G_PTR(const mem, a.q) + keys, a.hk * a.dk,
				  rows, a.dk);
	bring_rows<KEYS, THREADS>(s.k, KEYS_LD, RLX_G_PTR(const mem, a.k) + keys, a.hk * a.dk,
				  rows, a.dk);
	copy_commit();
	bring_values(s, v, 0);
	if (tid < CHUNK) {
		const int64_t at = tid < rows ? (row + tid) * a.hv + head : 0;
		const float g = to_f32(load_if(RLX_G_PTR(const mem, a.g) + at, tid < rows));

		s.t[tid] = g < -128 ? -128 : g;		/* -inf less itself would be NaN */
		s.beta[tid] = to_f32(load_if(RLX_G_PTR(const mem, a.beta) + at, tid < rows));
	}
	copy_wait<1>();
	__syncthreads();
	sum_rates(s, to, (float)a.scale);
	products(s, (float)a.scale);
	bring_values(s, v, COLS);
	put_p(s, to.p);
	invert(s);
	round_inverse(s);
	for (int k = 0; k < KEYS; k += COLS)
		apply(s.tk, s.k + k, KEYS_LD, to.w + k, KEYS, COLS);
	for (int64_t c = 0; c < a.dv; c += COLS) {
		copy_wait<1>();
		__syncthreads();
		apply(s.tv, tile_of(s, c), COLS_LD, to.u + c, a.dv, a.dv - c);
		__syncthreads();
		bring_values(s, v, c + 2 * COLS);
	}
}
