/* SPDX-License-Identifier: MIT */
/*
 * Small-M GEMM of f32, exactly: what counts is how long one block takes from its
 * first load to its store. A block makes a small tile, its warps split k (split-K), and so do
 * the lanes of a warp: operands go from memory straight into registers, each lane has sums
 * of its own for a part of the tile, and lanes, then warps, add theirs up at the end.
 * b may lie by columns or by rows. A part of gemm_simt.cu.
 */
#ifndef RLX_G_GEMM_SMALL_M_F32_H
#define RLX_G_GEMM_SMALL_M_F32_H

#include "kernels/gpu/gemm_horizontal.h"
#include "kernels/gpu/gemm_tile.h"

enum {
	SMALL_F32_ROWS = GEMM_TILE_M,
	SMALL_F32_COLS = GEMM_TILE_N, /* of a block */
	SMALL_F32_RM = 8,
	SMALL_F32_RN = GEMM_SMALL_M_F32_LANE(GEMM_TILE_N), /* of a lane */
	SMALL_F32_DOWN = SMALL_F32_ROWS / SMALL_F32_RM,
	SMALL_F32_ACROSS = SMALL_F32_COLS / SMALL_F32_RN, /* lanes */
	SMALL_F32_SHARES = WARP / (SMALL_F32_DOWN * SMALL_F32_ACROSS), /* lanes of split-K */
	SMALL_F32_K = 4 * SMALL_F32_SHARES, /* of a step of a warp */
	SMALL_F32_MINE =
		SMALL_F32_RM * SMALL_F32_RN / SMALL_F32_SHARES, /* sums of a lane, at last */
	SMALL_F32_LD = SMALL_F32_COLS + 4,
	SMALL_F32_B_COLS = GEMM_B_COLS,
};

/* Of a and b: where the lane's first row and column begin; how many there are from there. */
struct small_f32_lane {
	const float	*a, *b;
	int64_t		lda, ldb;
	int		rows, cols, n, share;	/* n: all of k; share: the lane's in a step */
};

/* Row or column @i of the lane in the tile. */
static DEV inline int small_f32_row(int i)
{
	return lane_id() / SMALL_F32_SHARES % SMALL_F32_DOWN * SMALL_F32_RM + i;
}

static DEV inline int small_f32_col(int j)
{
	return j / 4 * (SMALL_F32_ACROSS * 4) +
	       lane_id() / (SMALL_F32_SHARES * SMALL_F32_DOWN) * 4 + j % 4;
}

static DEV inline struct small_f32_lane small_f32_lane_at(const struct rlx_k_gemm &g,
							  const operands &o, int row, int col)
{
	struct small_f32_lane l;

	row += small_f32_row(0);
	col += small_f32_col(0);
	l.lda = (int64_t)g.lda;
	l.ldb = (int64_t)g.ldb;
	l.a = o.a + row * l.lda;
	l.b = o.b + (SMALL_F32_B_COLS ? col * l.ldb : col);
	l.rows = (int)g.m - row;
	l.cols = (int)g.n - col;
	l.n = (int)g.k;
	l.share = lane_id() % SMALL_F32_SHARES * 4;
	return l;
}

/* Four numbers at @p, of which there are @left; zeros beyond. WIDE: four or none, at 16 bytes. */
template <bool WIDE> static DEV inline void small_f32_load(float *v, const float *p, int left)
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

template <bool WIDE> struct small_f32_stage {
	/* of b by rows: b[k + 4 * four][column] */
	alignas(16) float	a[SMALL_F32_RM][4], b[SMALL_F32_RN][4];

	DEV void load_a(const struct small_f32_lane &l, int k)
	{
		k += l.share;
#pragma unroll
		for (int i = 0; i < SMALL_F32_RM; i++)
			small_f32_load<WIDE>(a[i], l.a + i * l.lda + k, i < l.rows ? l.n - k : 0);
	}

	DEV void load_b(const struct small_f32_lane &l, int k)
	{
		k += l.share;
#pragma unroll
		for (int j = 0; j < SMALL_F32_RN; j++) {
			int i = j % 4, c = j / 4 * SMALL_F32_ACROSS * 4;

			if (SMALL_F32_B_COLS)
				small_f32_load<WIDE>(b[j], l.b + (c + i) * l.ldb + k,
					       c + i < l.cols ? l.n - k : 0);
			else
				small_f32_load<WIDE>(b[j], l.b + (k + i) * l.ldb + c,
					       k + i < l.n ? l.cols - c : 0);
		}
	}

	DEV void multiply(float (*c)[SMALL_F32_RN]) const
	{
#pragma unroll
		for (int k = 0; k < 4; k++)
#pragma unroll
			for (int i = 0; i < SMALL_F32_RM; i++)
#pragma unroll
				for (int j = 0; j < SMALL_F32_RN; j++)
					c[i][j] += a[i][k] * (SMALL_F32_B_COLS ? b[j][k] :
							      b[j / 4 * 4 + k][j % 4]);
	}
};

/* Over the lanes of split-K, of which each keeps LEFT of N sums at last. */
template <int N, int LEFT> static DEV inline int small_f32_add_up(float *c)
{
	return sum_over_lanes<SMALL_F32_SHARES, N, LEFT>(c);
}

struct small_f32_plain {
	DEV void operator()(const struct small_f32_lane &l, float (*a)[4]) const {}
};

#if PROLOGUE_NORM
/* Of a row in one warp: the mean, and the squares' distance from it. */
struct alignas(8) small_f32_part {
	float	mean, far;
};

/*
 * A layer norm before the GEMM, as small_m_norm of gemm_small_m.h: every block makes it of
 * its rows, of which each warp has one step of k.
 */
struct small_f32_norm {
	enum { ADD = PROLOGUE_ADD };

	const struct rlx_k_norm	&n;
	struct small_f32_part		*smem;		/* SMALL_F32_ROWS for each warp */
	float			gamma[4], beta[4], add[ADD ? SMALL_F32_RM : 1][4];
	float			*y;		/* to be written too; NULL: not here */

	DEV small_f32_norm(const struct rlx_k_norm &norm, const struct rlx_g_env &env,
		     const struct small_f32_lane &l, float *r, int row, bool write)
		: n(norm), smem((struct small_f32_part *)r)
	{
		int k = warp_id() * SMALL_F32_K + l.share;

		static_assert(SMALL_F32_SHARES >= SMALL_F32_RM &&
				      SMALL_F32_ACROSS * SMALL_F32_DOWN == 4,
			      "");
		y = write && small_f32_col(0) == 0 ? RLX_G_PTR(float, n.y) +
			(row + small_f32_row(0)) * n.n + k : (float *)0;
		small_f32_load<true>(gamma, RLX_G_PTR(const float, n.gamma) + k, 4);
		small_f32_load<true>(beta, RLX_G_PTR(const float, n.beta) + k, 4);
	}

	/* What is added to the rows. */
	DEV void bring(const struct rlx_g_env &env, const struct small_f32_lane &l, int row)
	{
		const float *from = RLX_G_PTR(const float, n.residual) + warp_id() * SMALL_F32_K +
				    l.share;

#pragma unroll
		for (int i = 0; i < SMALL_F32_RM && ADD; i++)
			small_f32_load<true>(add[i],
					     from + (row + small_f32_row(i)) * n.residual_stride,
					     i < l.rows ? 4 : 0);
	}

	/* Lane of those of split-K that small_f32_add_up() leaves row @i. */
	static DEV inline int owner(int i)
	{
		return lane_id() / SMALL_F32_SHARES * SMALL_F32_SHARES + (i & 1) * 4 + (i & 2) +
		       i / 4;
	}

	DEV void operator()(const struct small_f32_lane &l, float (*a)[4]) const
	{
		int warps = (int)(blockDim.x / WARP);
		float mean[SMALL_F32_RM], far[SMALL_F32_RM];
		struct small_f32_part all = { 0, 0 }, part;
		int mine = warp_id() * SMALL_F32_ROWS, i, w;

#pragma unroll
		for (i = 0; i < SMALL_F32_RM; i++) {
#pragma unroll
			for (int e = 0; e < 4 && ADD; e++)
				a[i][e] += add[i][e];
			mean[i] = a[i][0] + a[i][1] + a[i][2] + a[i][3];
		}
		i = small_f32_add_up<SMALL_F32_RM, 1>(mean);
		part.mean = mean[0] / (float)SMALL_F32_K;
#pragma unroll
		for (int j = 0; j < SMALL_F32_RM; j++) {
			float m = shuffle(part.mean, owner(j));

			far[j] = 0;
#pragma unroll
			for (int e = 0; e < 4; e++)
				far[j] += (a[j][e] - m) * (a[j][e] - m);
		}
		small_f32_add_up<SMALL_F32_RM, 1>(far);
		part.far = far[0];
		if (small_f32_col(0) == 0 && lane_id() % SMALL_F32_SHARES < SMALL_F32_RM)
			smem[mine + small_f32_row(i)] = part;
		__syncthreads();
		/* the row of this lane, of all warps */
		for (w = 0; w < warps; w++)
			all.mean += smem[w * SMALL_F32_ROWS + small_f32_row(i)].mean;
		all.mean /= (float)warps;
		for (w = 0; w < warps; w++) {
			float d;

			part = smem[w * SMALL_F32_ROWS + small_f32_row(i)];
			d = part.mean - all.mean;
			all.far += part.far + (float)SMALL_F32_K * d * d;
		}
		put(l, a, all.mean, rsqrt_f32(all.far / (float)n.n + n.eps));
	}

	DEV void put(const struct small_f32_lane &l, float (*a)[4], float mean, float inv) const
	{
#pragma unroll
		for (int i = 0; i < SMALL_F32_RM; i++) {
			float m = shuffle(mean, owner(i)), by = shuffle(inv, owner(i));

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
 * The sums of this warp's share of k. Waits for the preceding launch, then calls @ready;
 * @before makes a of what was read first.
 */
template <bool WIDE, class F, class BEFORE>
static DEV inline void small_f32_sum(const struct rlx_k_gemm &g, const struct small_f32_lane &l,
			       float (*c)[SMALL_F32_RN], F ready, const BEFORE &before)
{
	int k = warp_id() * SMALL_F32_K, step = (int)(blockDim.x / WARP) * SMALL_F32_K;
	small_f32_stage<WIDE> s;

	if (!g.b_fixed)
		pdl_wait();
	s.load_b(l, k);
	if (g.b_fixed)
		pdl_wait();
	ready();
	s.load_a(l, k);
	before(l, s.a);
	for (;;) {
		s.multiply(c);
		k += step;
		if (k >= l.n)	/* the same for all lanes: k is the warp's */
			break;
		s.load_b(l, k);
		s.load_a(l, k);
	}
}

static DEV inline bool small_f32_wide(const struct rlx_k_gemm &g, const operands &o)
{
	uint64_t odd = (uint64_t)o.a | (uint64_t)o.b | (uint64_t)(g.lda | g.ldb | g.k) * 4;

	return (odd | (SMALL_F32_B_COLS ? 0 : (uint64_t)g.n * 4)) % 16 == 0;
}

/*
 * Tile @block; @smem has SMALL_F32_ROWS x SMALL_F32_LD floats for each warp, and what a norm wants
 * behind them. @join: what the key says stands before the GEMM; @first: of its readers.
 */
static DEV inline void small_f32(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
				 float *smem, uint32_t block, const struct rlx_g_horizontal *join,
				 bool first)
{
	uint32_t across = ((uint32_t)g.n + SMALL_F32_COLS - 1) / SMALL_F32_COLS;
	uint32_t down = ((uint32_t)g.m + SMALL_F32_ROWS - 1) / SMALL_F32_ROWS;
	int col = (int)(block % across) * SMALL_F32_COLS,
	    row = (int)(block / across % down) * SMALL_F32_ROWS;
	int warps = (int)(blockDim.x / WARP);
	operands o(g, env, block / across / down);
	struct small_f32_lane l = small_f32_lane_at(g, o, row, col);
	float c[SMALL_F32_RM][SMALL_F32_RN] = {},
	      *mine = smem + warp_id() * SMALL_F32_ROWS * SMALL_F32_LD;
	int e = (int)threadIdx.x, at;
	operands::added add = {};
	if (row >= live_rows(env, (int64_t)g.m))
		return;
	auto there = [&](int i) {	/* that element of the tile */
		return i < SMALL_F32_ROWS * SMALL_F32_COLS && row + i / SMALL_F32_COLS < (int)g.m &&
		       col + i % SMALL_F32_COLS < (int)g.n;
	};
	auto adds = [&](int i) {
		return o.adds(g, (size_t)(row + i / SMALL_F32_COLS),
			      (size_t)(col + i % SMALL_F32_COLS), same);
	};
	auto ready = [&] {		/* on its way while the product is made */
		if (there(e))
			add = adds(e);
	};

#if PROLOGUE_NORM
	small_f32_norm before(join->norm, env, l, smem + warps * SMALL_F32_ROWS * SMALL_F32_LD, row,
			first && !col);

	small_f32_sum<true>(g, l, c, [&] {
		before.bring(env, l, row);
		ready();
	}, before);
#else
	if (small_f32_wide(g, o))
		small_f32_sum<true>(g, l, c, ready, small_f32_plain());
	else
		small_f32_sum<false>(g, l, c, ready, small_f32_plain());
#endif
	at = small_f32_add_up<SMALL_F32_RM * SMALL_F32_RN, SMALL_F32_MINE>(c[0]);
#pragma unroll
	for (int i = 0; i < SMALL_F32_MINE; i++)
		mine[small_f32_row((at + i) / SMALL_F32_RN) * SMALL_F32_LD +
		     small_f32_col((at + i) % SMALL_F32_RN)] = c[0][i];
	__syncthreads();
	for (; e < SMALL_F32_ROWS * SMALL_F32_COLS; e += (int)blockDim.x) {
		float sum = 0;

		if (!there(e))
			continue;
		for (int w = 0; w < warps; w++)
			sum += smem[(w * SMALL_F32_ROWS + e / SMALL_F32_COLS) * SMALL_F32_LD +
				    e % SMALL_F32_COLS];
		if (e != (int)threadIdx.x)
			add = adds(e);
		o.c[(size_t)(row + e / SMALL_F32_COLS) * g.ldc +
		    (size_t)(col + e % SMALL_F32_COLS)] =
			o.value(g, (size_t)(col + e % SMALL_F32_COLS), sum, add);
	}
}

#endif
