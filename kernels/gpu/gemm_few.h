/* SPDX-License-Identifier: MIT */
/*
 * Products of few rows of f32, exactly: what counts is how long one block takes from its
 * first load to its store. A block makes a small tile, its waves share out k, and so do
 * the lanes of a wave: operands go from memory straight into registers, each lane has sums
 * of its own for a part of the tile, and lanes, then waves, add theirs up at the end.
 * b may lie by columns or by rows. A part of gemm_simt.cu.
 */
#ifndef RLX_G_GEMM_FEW_H
#define RLX_G_GEMM_FEW_H

#include "kernels/gpu/gemm_join.h"
#include "kernels/gpu/gemm_tile.h"

enum {
	FEW_ROWS = GEMM_FEW_ROWS(RLX_K3), FEW_COLS = GEMM_FEW_COLS(RLX_K3),	/* of a block */
	FEW_RM = 8, FEW_RN = GEMM_FEW_LANE(RLX_K3),	/* of a lane */
	FEW_DOWN = FEW_ROWS / FEW_RM, FEW_ACROSS = FEW_COLS / FEW_RN,	/* lanes */
	FEW_SHARES = WAVE / (FEW_DOWN * FEW_ACROSS),	/* lanes that share out k */
	FEW_K = 4 * FEW_SHARES,				/* of a step of a wave */
	FEW_MINE = FEW_RM * FEW_RN / FEW_SHARES,	/* sums of a lane, at last */
	FEW_LD = FEW_COLS + 4,
	FEW_B_COLS = (RLX_K2 & 2) != 0,
};

/* Of a and b: where the lane's first row and column begin; how many there are from there. */
struct few_lane {
	const float	*a, *b;
	int64_t		lda, ldb;
	int		rows, cols, n, share;	/* n: all of k; share: the lane's in a step */
};

/* Row or column @i of the lane in the tile. */
static DEV inline int few_row(int i)
{
	return lane_id() / FEW_SHARES % FEW_DOWN * FEW_RM + i;
}

static DEV inline int few_col(int j)
{
	return j / 4 * (FEW_ACROSS * 4) + lane_id() / (FEW_SHARES * FEW_DOWN) * 4 + j % 4;
}

static DEV inline struct few_lane few_lane_at(const struct rlx_k_gemm &g, const operands &o,
					      int row, int col)
{
	struct few_lane l;

	row += few_row(0);
	col += few_col(0);
	l.lda = (int64_t)g.lda;
	l.ldb = (int64_t)g.ldb;
	l.a = o.a + row * l.lda;
	l.b = o.b + (FEW_B_COLS ? col * l.ldb : col);
	l.rows = (int)g.m - row;
	l.cols = (int)g.n - col;
	l.n = (int)g.k;
	l.share = lane_id() % FEW_SHARES * 4;
	return l;
}

/* Four numbers at @p, of which there are @left; zeros beyond. WIDE: four or none, at 16 bytes. */
template <bool WIDE> static DEV inline void few_load(float *v, const float *p, int left)
{
	if constexpr (WIDE) {
		uint32_t w[4];

		load_words(w, p, left > 0);
		memcpy(v, w, sizeof(w));
	} else {
		for (int i = 0; i < 4; i++)
			v[i] = load_if(p + i, i < left);
	}
}

template <bool WIDE> struct few_stage {
	/* of b by rows: b[k + 4 * four][column] */
	alignas(16) float	a[FEW_RM][4], b[FEW_RN][4];

	DEV void load_a(const struct few_lane &l, int k)
	{
		k += l.share;
#pragma unroll
		for (int i = 0; i < FEW_RM; i++)
			few_load<WIDE>(a[i], l.a + i * l.lda + k, i < l.rows ? l.n - k : 0);
	}

	DEV void load_b(const struct few_lane &l, int k)
	{
		k += l.share;
#pragma unroll
		for (int j = 0; j < FEW_RN; j++) {
			int i = j % 4, c = j / 4 * FEW_ACROSS * 4;

			if (FEW_B_COLS)
				few_load<WIDE>(b[j], l.b + (c + i) * l.ldb + k,
					       c + i < l.cols ? l.n - k : 0);
			else
				few_load<WIDE>(b[j], l.b + (k + i) * l.ldb + c,
					       k + i < l.n ? l.cols - c : 0);
		}
	}

	DEV void multiply(float (*c)[FEW_RN]) const
	{
#pragma unroll
		for (int k = 0; k < 4; k++)
#pragma unroll
			for (int i = 0; i < FEW_RM; i++)
#pragma unroll
				for (int j = 0; j < FEW_RN; j++)
					c[i][j] += a[i][k] * (FEW_B_COLS ? b[j][k] :
							      b[j / 4 * 4 + k][j % 4]);
	}
};

/*
 * Over the lanes that share out k, of which each keeps LEFT of N sums at last: from one
 * round to the next half as many, and of twice as many lanes. Returns the first one's number.
 */
template <int N, int LEFT, int MASK> static DEV inline int few_add_up(float *c)
{
	if constexpr (N > LEFT) {
		bool upper = lane_id() & MASK;

#pragma unroll
		for (int i = 0; i < N / 2; i++) {
			float give = upper ? c[i] : c[i + N / 2];
			float keep = upper ? c[i + N / 2] : c[i];

			c[i] = keep + wave_xor(give, MASK);
		}
		return (upper ? N / 2 : 0) + few_add_up<N / 2, LEFT, MASK * 2>(c);
	} else {
		for (int m = MASK; m < FEW_SHARES; m *= 2)
			for (int i = 0; i < LEFT; i++)
				c[i] += wave_xor(c[i], m);
		return 0;
	}
}

struct few_plain {
	DEV void operator()(const struct few_lane &l, float (*a)[4]) const {}
};

#if RLX_K2 & RLX_G_JOIN_NORM
/* Of a row in one wave: the mean, and the squares' distance from it. */
struct alignas(8) few_part {
	float	mean, far;
};

/*
 * A layer norm before the product, as thin_norm of gemm_thin.h: every block makes it of
 * its rows, of which each wave has one step of k.
 */
struct few_norm {
	enum { ADD = (RLX_K2 & RLX_G_JOIN_ADD) != 0 };

	const struct rlx_k_norm	&n;
	struct few_part		*room;		/* FEW_ROWS for each wave */
	float			gamma[4], beta[4], add[ADD ? FEW_RM : 1][4];
	float			*y;		/* to be written too; NULL: not here */

	DEV few_norm(const struct rlx_k_norm &norm, const struct rlx_g_env &env,
		     const struct few_lane &l, float *r, int row, bool write)
		: n(norm), room((struct few_part *)r)
	{
		int k = wave_id() * FEW_K + l.share;

		static_assert(FEW_SHARES >= FEW_RM && FEW_ACROSS * FEW_DOWN == 4, "");
		y = write && few_col(0) == 0 ? RLX_G_PTR(float, n.y) +
			(row + few_row(0)) * n.n + k : (float *)0;
		few_load<true>(gamma, RLX_G_PTR(const float, n.gamma) + k, 4);
		few_load<true>(beta, RLX_G_PTR(const float, n.beta) + k, 4);
	}

	/* What is added to the rows. */
	DEV void bring(const struct rlx_g_env &env, const struct few_lane &l, int row)
	{
		const float *from = RLX_G_PTR(const float, n.residual) + wave_id() * FEW_K +
				    l.share;

#pragma unroll
		for (int i = 0; i < FEW_RM && ADD; i++)
			few_load<true>(add[i], from + (row + few_row(i)) * n.residual_stride,
				       i < l.rows ? 4 : 0);
	}

	/* Lane of those that share out k that few_add_up() leaves row @i. */
	static DEV inline int keeper(int i)
	{
		return lane_id() / FEW_SHARES * FEW_SHARES + (i & 1) * 4 + (i & 2) + i / 4;
	}

	DEV void operator()(const struct few_lane &l, float (*a)[4]) const
	{
		int waves = (int)(blockDim.x / WAVE);
		float mean[FEW_RM], far[FEW_RM];
		struct few_part all = { 0, 0 }, part;
		int mine = wave_id() * FEW_ROWS, i, w;

#pragma unroll
		for (i = 0; i < FEW_RM; i++) {
#pragma unroll
			for (int e = 0; e < 4 && ADD; e++)
				a[i][e] += add[i][e];
			mean[i] = a[i][0] + a[i][1] + a[i][2] + a[i][3];
		}
		i = few_add_up<FEW_RM, 1, 1>(mean);
		part.mean = mean[0] / (float)FEW_K;
#pragma unroll
		for (int j = 0; j < FEW_RM; j++) {
			float m = shuffle(part.mean, keeper(j));

			far[j] = 0;
#pragma unroll
			for (int e = 0; e < 4; e++)
				far[j] += (a[j][e] - m) * (a[j][e] - m);
		}
		few_add_up<FEW_RM, 1, 1>(far);
		part.far = far[0];
		if (few_col(0) == 0 && lane_id() % FEW_SHARES < FEW_RM)
			room[mine + few_row(i)] = part;
		__syncthreads();
		/* the row of this lane, of all waves */
		for (w = 0; w < waves; w++)
			all.mean += room[w * FEW_ROWS + few_row(i)].mean;
		all.mean /= (float)waves;
		for (w = 0; w < waves; w++) {
			float d;

			part = room[w * FEW_ROWS + few_row(i)];
			d = part.mean - all.mean;
			all.far += part.far + (float)FEW_K * d * d;
		}
		put(l, a, all.mean, rsqrt_f32(all.far / (float)n.n + n.eps));
	}

	DEV void put(const struct few_lane &l, float (*a)[4], float mean, float inv) const
	{
#pragma unroll
		for (int i = 0; i < FEW_RM; i++) {
			float m = shuffle(mean, keeper(i)), by = shuffle(inv, keeper(i));

#pragma unroll
			for (int e = 0; e < 4; e++)
				a[i][e] = (a[i][e] - m) * by * gamma[e] + beta[e];
			if (y && i < l.rows)
				*(gemv_pack<float, 4> *)(y + i * n.n) =
					*(const gemv_pack<float, 4> *)a[i];
		}
	}
};
#endif

/*
 * The sums of this wave's share of k. Waits for the launch ahead, then calls @ready;
 * @before makes a of what was read first.
 */
template <bool WIDE, class F, class BEFORE>
static DEV inline void few_sum(const struct rlx_k_gemm &g, const struct few_lane &l,
			       float (*c)[FEW_RN], F ready, const BEFORE &before)
{
	int k = wave_id() * FEW_K, step = (int)(blockDim.x / WAVE) * FEW_K;
	few_stage<WIDE> s;

	if (!g.b_fixed)
		launch_wait();
	s.load_b(l, k);
	if (g.b_fixed)
		launch_wait();
	ready();
	s.load_a(l, k);
	before(l, s.a);
	for (;;) {
		s.multiply(c);
		k += step;
		if (k >= l.n)	/* the same for all lanes: k is the wave's */
			break;
		s.load_b(l, k);
		s.load_a(l, k);
	}
}

static DEV inline bool few_wide(const struct rlx_k_gemm &g, const operands &o)
{
	uint64_t odd = (uint64_t)o.a | (uint64_t)o.b | (uint64_t)(g.lda | g.ldb | g.k) * 4;

	return (odd | (FEW_B_COLS ? 0 : (uint64_t)g.n * 4)) % 16 == 0;
}

/*
 * Tile @block; @room has FEW_ROWS x FEW_LD floats for each wave, and what a norm wants
 * behind them. @join: what the key says stands before the product; @first: of its readers.
 */
static DEV inline void few(const struct rlx_k_gemm &g, const struct rlx_g_env &env, float *room,
			   uint32_t block, const struct rlx_g_join *join, bool first)
{
	uint32_t across = ((uint32_t)g.n + FEW_COLS - 1) / FEW_COLS;
	uint32_t down = ((uint32_t)g.m + FEW_ROWS - 1) / FEW_ROWS;
	int col = (int)(block % across) * FEW_COLS, row = (int)(block / across % down) * FEW_ROWS;
	int waves = (int)(blockDim.x / WAVE);
	operands o(g, env, block / across / down);
	struct few_lane l = few_lane_at(g, o, row, col);
	float c[FEW_RM][FEW_RN] = {}, *mine = room + wave_id() * FEW_ROWS * FEW_LD;
	int e = (int)threadIdx.x, at;
	operands::added add = {};
	auto there = [&](int i) {	/* that element of the tile */
		return i < FEW_ROWS * FEW_COLS && row + i / FEW_COLS < (int)g.m &&
		       col + i % FEW_COLS < (int)g.n;
	};
	auto adds = [&](int i) {
		return o.adds(g, (size_t)(row + i / FEW_COLS), (size_t)(col + i % FEW_COLS),
			      same);
	};
	auto ready = [&] {		/* on its way while the product is made */
		if (there(e))
			add = adds(e);
	};

#if RLX_K2 & RLX_G_JOIN_NORM
	few_norm before(join->norm, env, l, room + waves * FEW_ROWS * FEW_LD, row,
			first && !col);

	few_sum<true>(g, l, c, [&] {
		before.bring(env, l, row);
		ready();
	}, before);
#else
	if (few_wide(g, o))
		few_sum<true>(g, l, c, ready, few_plain());
	else
		few_sum<false>(g, l, c, ready, few_plain());
#endif
	at = few_add_up<FEW_RM * FEW_RN, FEW_MINE, 1>(c[0]);
#pragma unroll
	for (int i = 0; i < FEW_MINE; i++)
		mine[few_row((at + i) / FEW_RN) * FEW_LD + few_col((at + i) % FEW_RN)] = c[0][i];
	__syncthreads();
	for (; e < FEW_ROWS * FEW_COLS; e += (int)blockDim.x) {
		float sum = 0;

		if (!there(e))
			continue;
		for (int w = 0; w < waves; w++)
			sum += room[(w * FEW_ROWS + e / FEW_COLS) * FEW_LD + e % FEW_COLS];
		if (e != (int)threadIdx.x)
			add = adds(e);
		o.c[(size_t)(row + e / FEW_COLS) * g.ldc + (size_t)(col + e % FEW_COLS)] =
			o.value(g, (size_t)(col + e % FEW_COLS), sum, add);
	}
}

#endif
