/* SPDX-License-Identifier: MIT */
/*
 * GEMM whose operands go from memory straight into registers: many small products, and lines that
 * begin anywhere. A part of gemm_mma.cu.
 *
 * Algorithm: a block makes 16 rows of GEMM_COLS columns, its warps split k (split-K) by steps of
 * 32, and a warp has several steps under way at a time: most blocks wait for memory once. A lane
 * has eight k of a step, in the order that its loads give, which a and b have in common. Of b by
 * rows a lane loads columns side by side, which are those of as many products: they are permuted,
 * and go to their places when sums do.
 * Traffic: A ceil(N / GEMM_COLS) times, B ceil(M / 16) times by way of the L2, C once.
 * Limits: f16 or bf16, a not transposed. Loads take GEMM_BY_K bytes of k and, of b by rows,
 * GEMM_BY_N of n (0: b is by columns), at which lines begin and end.
 */
#ifndef RLX_G_GEMM_DIRECT_H
#define RLX_G_GEMM_DIRECT_H

enum {
	DIRECT_ROWS = MMA_M, DIRECT_K = GEMM_DIRECT_K,
	DIRECT_TN = GEMM_COLS > MMA_N ? GEMM_COLS / MMA_N : 1,
	DIRECT_COLS = DIRECT_TN * MMA_N, DIRECT_LD = DIRECT_COLS + 4,
	DIRECT_PER = GEMM_BY_K / 2,			/* elements of a load of k */
	DIRECT_V = GEMM_BY_N / 2 < 1 ? 1 :		/* of one of n */
		   GEMM_BY_N / 2 < DIRECT_TN ? GEMM_BY_N / 2 : (int)DIRECT_TN,
	DIRECT_AHEAD = GEMM_DIRECT_AHEAD(GEMM_COLS, GEMM_BY_K, GEMM_BY_N),
	DIRECT_LINE = GEMM_BY_K == 2 ? 8 : 4,		/* words of eight k */
	DIRECT_ACROSS = DIRECT_V == 1 ? DIRECT_TN : DIRECT_TN / 2,	/* of a row of b */
	DIRECT_B = GEMM_BY_N ? 8 * DIRECT_ACROSS : DIRECT_TN * DIRECT_LINE,
};

/* BYTES at @p, or zeros, into words; two bytes are a word, lest it be waited for. */
template <int BYTES>
static DEV inline void direct_load(uint32_t *w, const uint16_t *p, bool in)
{
	if constexpr (BYTES == 16) {
		load_words(w, p, in);
	} else if constexpr (BYTES == 8) {
		uint64_t v = load_or((const uint64_t *)p, in, 0);

		memcpy(w, &v, sizeof(v));
	} else if constexpr (BYTES == 4) {
		*w = load_or((const uint32_t *)p, in, 0);
	} else {
		*w = load_short(p, in);
	}
}

/* A block's place: the lines that a lane reads, from its share of k on. */
struct direct_lane {
	const uint16_t	*a[MMA_LINES], *b[GEMM_BY_N ? 1 : DIRECT_TN];	/* NULL: no line */
	int64_t		ldb;
	int		share, n, left;	/* quarter of a step; all of k; columns from its own on */

	DEV direct_lane(const struct rlx_k_gemm &g, const operands &o, int64_t row, int64_t col)
		: ldb((int64_t)g.ldb), share(WARP == 32 ? lane_id() % 4 : lane_id() / 16),
		  n((int)g.k), left((int)((int64_t)g.n - col) - mma_b_col(0) * DIRECT_V)
	{
		for (int i = 0; i < MMA_LINES; i++) {
			int64_t r = row + mma_a_row(2 * i);

			a[i] = r < (int64_t)g.m ? (const uint16_t *)o.a + r * (int64_t)g.lda :
			       (const uint16_t *)0;
		}
		if (GEMM_BY_N)
			b[0] = (const uint16_t *)o.b + col + mma_b_col(0) * DIRECT_V;
		for (int j = 0; !GEMM_BY_N && j < DIRECT_TN; j++)
			b[j] = j * MMA_N < left ? (const uint16_t *)o.b +
			       (col + j * MMA_N + mma_b_col(0)) * ldb : (const uint16_t *)0;
	}

	/* Which k of a step element @e of the lane's eight is. */
	DEV int at(int e) const
	{
		return (e / DIRECT_PER * 4 + share) * DIRECT_PER + e % DIRECT_PER;
	}
};

/* What a warp has under way of one step. */
struct direct_step {
	uint32_t	a[MMA_LINES][DIRECT_LINE], b[DIRECT_B];

	static DEV void line(uint32_t *w, const uint16_t *p, const struct direct_lane &l, int k)
	{
#pragma unroll
		for (int e = 0; e < 8; e += DIRECT_PER)
			direct_load<GEMM_BY_K>(w + e * DIRECT_LINE / 8, p + k + l.at(e),
					       p && k + l.at(e) < l.n);
	}

	DEV void load_a(const struct direct_lane &l, int k)
	{
#pragma unroll
		for (int i = 0; i < MMA_LINES; i++)
			line(a[i], l.a[i], l, k);
	}

	DEV void load_b(const struct direct_lane &l, int k)
	{
#pragma unroll
		for (int j = 0; j < DIRECT_TN; j++)
			if constexpr (!GEMM_BY_N)
				line(b + j * DIRECT_LINE, l.b[j], l, k);
#pragma unroll
		for (int e = 0; e < 8; e++)
#pragma unroll
			for (int j = 0; j < DIRECT_TN; j += DIRECT_V)
				if constexpr (GEMM_BY_N)
					direct_load<2 * DIRECT_V>(b + e * DIRECT_ACROSS +
						j * DIRECT_ACROSS / DIRECT_TN,
						l.b[0] + (k + l.at(e)) * l.ldb + j * MMA_N,
						k + l.at(e) < l.n && j * MMA_N < l.left);
	}

	/* Elements 2 @q and 2 @q + 1 of a line. */
	static DEV uint32_t word(const uint32_t *w, int q)
	{
		return DIRECT_LINE == 4 ? w[q] : w[2 * q] | w[2 * q + 1] << 16;
	}

	/* The same of product @j's column. */
	DEV uint32_t word_b(int j, int q) const
	{
		const uint32_t *low = b + 2 * q * DIRECT_ACROSS, *high = low + DIRECT_ACROSS;

		if constexpr (!GEMM_BY_N)
			return word(b + j * DIRECT_LINE, q);
		if constexpr (DIRECT_V == 1)
			return low[j] | high[j] << 16;
		return pick_bytes(low[j / 2], high[j / 2], j % 2 ? 0x7632 : 0x5410);
	}

	DEV void multiply(float (*c)[MMA_C]) const
	{
#pragma unroll
		for (int p = 0; p < 4; p += 2) {
			uint32_t fa[MMA_A];

#pragma unroll
			for (int i = 0; i < MMA_A; i++)
				fa[i] = word(a[i % MMA_LINES], p + i / MMA_LINES);
#pragma unroll
			for (int j = 0; j < DIRECT_TN; j++) {
				const uint32_t fb[MMA_B] = { word_b(j, p), word_b(j, p + 1) };

				mma<half>(c[j], fa, fb);
			}
		}
	}
};

/* The sum of a warp's share of k; weights are asked for before the launch ahead has ended. */
static DEV inline void direct_sum(const struct rlx_k_gemm &g, const struct direct_lane &l,
				  float (*c)[MMA_C])
{
	int step = (int)(blockDim.x / WARP) * DIRECT_K, k = warp_id() * DIRECT_K;
	int all = (l.n + DIRECT_K - 1) / DIRECT_K * DIRECT_K;
	bool waits = true;

	do {
		struct direct_step s[DIRECT_AHEAD];

		if (waits && !g.b_fixed)
			pdl_wait();
#pragma unroll
		for (int i = 0; i < DIRECT_AHEAD; i++)
			s[i].load_b(l, k + i * step);
		if (waits && g.b_fixed)
			pdl_wait();
		waits = false;
#pragma unroll
		for (int i = 0; i < DIRECT_AHEAD; i++)
			s[i].load_a(l, k + i * step);
		warp_sync();	/* lest loads be put off until registers are free */
#pragma unroll
		for (int i = 0; i < DIRECT_AHEAD; i++)
			s[i].multiply(c);
		k += step * DIRECT_AHEAD;
	} while (k < all);
}

/* N sums side by side, of all warps. */
template <int N> static DEV inline void direct_add(const float *smem, float *sum)
{
	int warps = (int)(blockDim.x / WARP);

#pragma unroll 4
	for (int w = 0; w < warps; w++)
#pragma unroll
		for (int i = 0; i < N; i++)
			sum[i] += smem[w * DIRECT_ROWS * DIRECT_LD + i];
}

/*
 * N sums side by side at a time to their places: four, or one where results that the bus would
 * take one by one have to lie side by side in a warp.
 */
template <int N>
static DEV inline void direct_epilogue(const struct rlx_k_gemm &g, const operands &o,
				  const float *smem, int64_t row, int64_t col)
{
	bool wide = N == 4 && o.is_wide(g);

#pragma unroll (N == 4 ? 2 : 1)
	for (int e = (int)threadIdx.x * N; e < DIRECT_ROWS * DIRECT_COLS;
	     e += (int)blockDim.x * N) {
		int64_t r = row + e / DIRECT_COLS, at = col + e % DIRECT_COLS;
		int64_t left = (int64_t)g.n - at;
		float sum[4] = {}, v[4];

		if (r >= (int64_t)g.m || left <= 0)
			continue;
		direct_add<N>(smem + e / DIRECT_COLS * DIRECT_LD + e % DIRECT_COLS, sum);
		left = left < N ? left : N;
		o.four_values(g, (size_t)r, (size_t)at, sum, (int)left, get, v);
		o.put_four(g, (size_t)r, (size_t)at, v, (int)left, wide, put);
	}
}

/* All sums of a block through shared memory. */
static DEV inline void direct_put(const struct rlx_k_gemm &g, const operands &o, float *smem,
				  const float (*c)[MMA_C], int64_t row, int64_t col)
{
	float *mine = smem + warp_id() * DIRECT_ROWS * DIRECT_LD;

#pragma unroll
	for (int j = 0; j < DIRECT_TN; j++)
#pragma unroll
		for (int i = 0; i < MMA_C; i++)
			mine[mma_c_row(i) * DIRECT_LD + j / DIRECT_V * DIRECT_V * MMA_N +
			     mma_c_col(i) * DIRECT_V + j % DIRECT_V] = c[j][i];
	__syncthreads();
	if (rlx_g_gemm_scatters(&g, sizeof(type_c)))
		direct_epilogue<1>(g, o, smem, row, col);
	else
		direct_epilogue<4>(g, o, smem, row, col);
}

/* Block @block's tile; @smem: DIRECT_ROWS x DIRECT_LD floats for each warp. */
static DEV inline void direct(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
			      float *smem, uint32_t block)
{
	uint32_t across = ((uint32_t)g.n + DIRECT_COLS - 1) / DIRECT_COLS;
	uint32_t down = ((uint32_t)g.m + DIRECT_ROWS - 1) / DIRECT_ROWS;
	uint32_t line = block / across, batch = line / down;
	int64_t row = (int64_t)(line - batch * down) * DIRECT_ROWS;
	int64_t col = (int64_t)(block - line * across) * DIRECT_COLS;
	float c[DIRECT_TN][MMA_C] = {};

	/* none: rows that carry no data, or warps of 64, whose tiles are wider than the launch's */
	if (batch >= rlx_k_gemm_batches(&g) || row >= live_rows(env, (int64_t)g.m)) {
		pdl_wait();	/* the launch may not end before what it waits for */
		return;
	}

	operands o(g, env, batch);

	direct_sum(g, direct_lane(g, o, row, col), c);
	direct_put(g, o, smem, c, row, col);
}

#endif
