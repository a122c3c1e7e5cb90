// SPDX-License-Identifier: MIT
/*
 * The gated delta rule by chunks, what of a chunk does not depend on the state ahead of it.
 *
 * Algorithm: a block a chunk of 64 steps of a head. With D_ij = e^(g_j+1 + .. + g_i) for j <= i and
 * T the inverse of 1 + beta D k k' below the diagonal, what the chunk writes of state S is
 * u - w S with u = T beta v and w = T beta e^G k (the WY representation). T is made in f32: halves
 * of 32 rows by substitution, a thread a column, then what joins them. Also p = scale D k q of each
 * two steps, up to the diagonal. All products on tensor cores.
 * Traffic: q, k and v once; w, u and p to memory, which gated_delta_chunks.cu reads.
 * Where e^g is 0 in f32, below -128, g counts as -128: sums of it keep what follows in the chunk.
 * Source: Yang, Kautz and Hatamizadeh 2025 (Gated Delta Networks); Yang et al. 2024.
 * Limits: f16 and bf16, sums f32; rows of 16 bytes' multiples.
 */
#include "kernels/gpu/gated_delta.h"

enum { LD = CHUNK + 4, HALF = CHUNK / 2, COLS = 64, COLS_LD = COLS + PIECE };

/* What is shared; m and t are f32, the others as the operands are. */
struct area {
	mem	*q, *k, *v, *tk, *tv;
	float	*m, *t, *g, *beta;
};

static DEV inline area area_of(unsigned char *s)
{
	mem *q = (mem *)s, *k = q + CHUNK * KEYS_LD, *v = k + CHUNK * KEYS_LD;
	mem *tk = v + CHUNK * COLS_LD, *tv = tk + CHUNK * CHUNK_LD;
	float *m = (float *)(tv + CHUNK * CHUNK_LD), *t = m + CHUNK * LD;

	return { q, k, v, tk, tv, m, t, t + CHUNK * LD, t + CHUNK * LD + CHUNK };
}

/* Sums of g, which lie in t until then; all is there behind it. */
static DEV inline void sum_rates(const area &s, const struct prepared &to, float scale)
{
	const int i = (int)threadIdx.x;

	if (i < CHUNK) {
		float sum = 0, all = 0;

		for (int j = 0; j < CHUNK; j++) {
			all += s.t[j];
			sum = j == i ? all : sum;
		}
		s.g[i] = sum;
		to.rates[i] = scale * expf(sum);
		to.rates[CHUNK + i] = expf(all - sum);
		to.rates[2 * CHUNK + i] = expf(all);
	}
	__syncthreads();
}

/* m below the diagonal, and p, which is 0 above it. */
static DEV inline void products(const area &s, float scale)
{
	enum { N = CHUNK / MMA_N };

	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (warp_id() + r * WARPS) * MMA_M;
		float kk[N][MMA_C] = {}, qk[N][MMA_C] = {};

		for (int k = 0; k < KEYS; k += MMA_K) {
			uint32_t ak[MMA_A], aq[MMA_A];

			mma_load_a<mem>(ak, s.k + row * KEYS_LD + k, KEYS_LD, false);
			mma_load_a<mem>(aq, s.q + row * KEYS_LD + k, KEYS_LD, false);
			mma_row<N>(kk, ak, s.k + k, KEYS_LD, false);
			mma_row<N>(qk, aq, s.k + k, KEYS_LD, false);
		}
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int c = 0; c < MMA_C; c++) {
				const int i = row + mma_c_row(c), j = n * MMA_N + mma_c_col(c);
				const float d = j <= i ? expf(s.g[i] - s.g[j]) : 0;

				s.m[i * LD + j] = j < i ? s.beta[i] * d * kk[n][c] : 0;
				s.tv[i * CHUNK_LD + j] = from_f32<mem>(j <= i ?
					scale * d * qk[n][c] : 0);
			}
	}
	__syncthreads();
}

/* t: the inverse of 1 + m, both halves by columns, then what is below the first of them. */
static DEV inline void invert(const area &s)
{
	const int tid = (int)threadIdx.x, r = tid / 4, c = tid % 4 * 8;
	float sum[8];

	if (tid < CHUNK) {
		const int from = tid / HALF * HALF, col = tid % HALF;
		const float *m = s.m + from * LD + from;
		float x[HALF];

#pragma unroll
		for (int i = 0; i < HALF; i++) {
			float v = i == col;

#pragma unroll
			for (int k = 0; k < i; k++)
				v -= m[i * LD + k] * x[k];
			x[i] = v;
			s.t[(from + i) * LD + from + col] = v;
		}
	}
	__syncthreads();
	for (int i = 0; i < 8; i++)
		sum[i] = 0;
	for (int k = 0; k < HALF; k++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			sum[i] += s.m[(HALF + r) * LD + k] * s.t[k * LD + c + i];
	for (int i = 0; i < 8; i++)	/* nobody else needs what is above the diagonal */
		s.m[r * LD + HALF + c + i] = sum[i];
	__syncthreads();
	for (int i = 0; i < 8; i++)
		sum[i] = 0;
	for (int k = 0; k < HALF; k++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			sum[i] -= s.t[(HALF + r) * LD + HALF + k] * s.m[k * LD + HALF + c + i];
	for (int i = 0; i < 8; i++)
		s.t[(HALF + r) * LD + c + i] = sum[i];
	__syncthreads();
}

/* t with beta, and e^G for k, as products take it. */
static DEV inline void round_inverse(const area &s)
{
	for (int e = (int)threadIdx.x; e < CHUNK * CHUNK; e += THREADS) {
		const int i = e / CHUNK, j = e % CHUNK;
		const float t = j <= i ? s.t[i * LD + j] * s.beta[j] : 0;

		s.tv[i * CHUNK_LD + j] = from_f32<mem>(t);
		s.tk[i * CHUNK_LD + j] = from_f32<mem>(t * expf(s.g[j]));
	}
	__syncthreads();
}

/* @to[CHUNK][COLS] = t b, of which @have columns are wanted; t is 0 above the diagonal. */
static DEV inline void apply(const mem *t, const mem *b, int ld, mem *to, int64_t to_ld,
			     int64_t have)
{
	enum { N = COLS / MMA_N };

	for (int r = 0; r < ROW_TILES; r++) {
		const int row = (warp_id() + r * WARPS) * MMA_M;
		float sum[N][MMA_C] = {};

		for (int k = 0; k <= row; k += MMA_K) {
			uint32_t a[MMA_A];

			mma_load_a<mem>(a, t + row * CHUNK_LD + k, CHUNK_LD, false);
			mma_row<N>(sum, a, b + k * ld, ld, true);
		}
#pragma unroll
		for (int n = 0; n < N; n++)
			if (n * MMA_N < have)
				put_sums(to + row * to_ld + n * MMA_N, to_ld, sum[n]);
	}
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
	const mem *v = RLX_G_PTR(const mem, a.v) + (row * a.hv + head) * a.dv;
	const struct prepared to = prepared_of(a, env, blockIdx.x);

	bring_rows<KEYS>(s.q, KEYS_LD, RLX_G_PTR(const mem, a.q) + keys, a.hk * a.dk, rows, a.dk);
	bring_rows<KEYS>(s.k, KEYS_LD, RLX_G_PTR(const mem, a.k) + keys, a.hk * a.dk, rows, a.dk);
	bring_rows<COLS>(s.v, COLS_LD, v, a.hv * a.dv, rows, a.dv);
	copy_commit();
	if (tid < CHUNK) {
		const int64_t at = tid < rows ? (row + tid) * a.hv + head : 0;
		const float g = to_f32(load_if(RLX_G_PTR(const mem, a.g) + at, tid < rows));

		s.t[tid] = g < -128 ? -128 : g;		/* -inf less itself would be NaN */
		s.beta[tid] = to_f32(load_if(RLX_G_PTR(const mem, a.beta) + at, tid < rows));
	}
	copy_wait<0>();
	__syncthreads();
	sum_rates(s, to, (float)a.scale);
	products(s, (float)a.scale);
	for (int e = tid; e < CHUNK * CHUNK / 2; e += THREADS)
		((uint32_t *)to.p)[e] = *(uint32_t *)(s.tv + e / (CHUNK / 2) * CHUNK_LD +
						      e % (CHUNK / 2) * 2);
	invert(s);
	round_inverse(s);
	for (int k = 0; k < KEYS; k += COLS)
		apply(s.tk, s.k + k, KEYS_LD, to.w + k, KEYS, COLS);
	for (int64_t c = 0; c < a.dv; c += COLS) {
		if (c) {
			__syncthreads();
			bring_rows<COLS>(s.v, COLS_LD, v + c, a.hv * a.dv, rows, a.dv - c);
			copy_commit();
			copy_wait<0>();
			__syncthreads();
		}
		apply(s.tv, s.v, COLS_LD, to.u + c, a.dv, a.dv - c);
	}
}
