// SPDX-License-Identifier: MIT
/*
 * Convolutions of f32 or f64 without tensor cores: implicit GEMM by tiles in shared memory.
 *
 * Algorithm: no im2col matrix lies in memory. A table of 256 terms (channel, tap) at a time is
 * worked out once for all columns, a term by a thread: how far each lies from where a column
 * begins, and a bit that says whether the column meets it, or, with more than 32 taps, its
 * coordinates. Two stages: a thread
 * brings the next step's elements to registers while it sums up this one: rows and columns of its
 * sums in fours, which shared memory gives as vectors; a warp has 4 x 8 threads.
 *
 * Tiles: 256 threads make 128 channels x 128 pixels by 8 terms (8 x 8 sums each), or 64 x 64,
 * 32 x 128 or 16 x 256 by 16 (4 x 4), the last two for few channels; f64 64 x 64 always. Few tiles:
 * blocks split the terms (split-K), and another launch adds the parts up in order.
 * Traffic: x is read ceil(channels / CONV_TILE_M) times for each tap, neighbouring pixels side by
 * side and mostly from caches, weights ceil(pixels / CONV_TILE_N) times, y written once with bias,
 * residual and activation. Split sums cost 4 (f64 8) bytes each way for each part.
 * Source: Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014).
 * Limits: 1 to 3 dimensions, groups, dilation, transposed; positions below 2^30 (launch_conv.h).
 */
/* so many hide the time that memory takes, and have registers for the sums */
#define RLX_G_BLOCKS	2
#include "kernels/gpu/conv.h"

enum {
	BM = CONV_TILE_M, BN = CONV_TILE_N,
	PER = BM == 128 ? 8 : 4, DEPTH = BM == 128 ? 8 : 16,
	TM = BM / PER, TN = BN / PER,			/* threads down and across */
	EACH_W = BM * DEPTH / 256, EACH_X = BN * DEPTH / 256, /* that a thread brings */
	ROWS_W = 256 / DEPTH,				/* rows between two of w */
	STEPS = 256 / DEPTH,				/* of a table */
};

typedef conv_table<256> table;

struct tiles {
	real	a[2][DEPTH][BM + 4], b[2][DEPTH][BN + 4];
	table	tab[2];
	int64_t	place[BN];
};

/* Four neighbours of a row of shared memory. */
struct alignas(16) four { real v[4]; };

/* Where a thread's sums are: of 4 x 8 threads of a warp, as many warps down as there are rows. */
struct seat {
	int	row, col;

	DEV seat()
	{
		int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;

		row = warp % (TM / 4) * 4 + lane / 8;
		col = warp / (TM / 4) * 8 + lane % 8;
	}
};

/* Row or column @i of a thread's sums, @n fours of them apart. */
static DEV inline int spread(int seat, int i, int n)
{
	return i / 4 * 4 * n + seat * 4 + i % 4;
}

/* What a term gives a thread. */
struct factors {
	struct four	a[PER / 4], b[PER / 4];

	DEV void load(const real *as, const real *bs, const struct seat &at)
	{
#pragma unroll
		for (int i = 0; i < PER / 4; i++) {
			a[i] = *(const struct four *)(as + spread(at.row, 4 * i, TM));
			b[i] = *(const struct four *)(bs + spread(at.col, 4 * i, TN));
		}
	}
};

/* Add what the step's terms give; the next one's factors are on their way meanwhile. */
static DEV inline void multiply(real (*sum)[PER], const real (*as)[BM + 4],
				const real (*bs)[BN + 4], const struct seat &at)
{
	struct factors f[2];

	f[0].load(as[0], bs[0], at);
#pragma unroll
	for (int k = 0; k < DEPTH; k++) {
		if (k + 1 < DEPTH)
			f[(k + 1) % 2].load(as[k + 1], bs[k + 1], at);
#pragma unroll
		for (int i = 0; i < PER; i++)
#pragma unroll
			for (int j = 0; j < PER; j++)
				sum[i][j] += f[k % 2].a[i / 4].v[i % 4] *
					     f[k % 2].b[j / 4].v[j % 4];
	}
}

/* The weights that a thread brings: a term of some rows; which of these there are, by bits. */
struct weights {
	const mem	*p;
	int64_t		step;
	int		rows, term;

	DEV weights(const struct conv_tile &t) : rows(0), term((int)threadIdx.x % DEPTH)
	{
		int64_t row = t.row + threadIdx.x / DEPTH;

		p = t.c.w + row * t.c.row_step + (CONV_TRANSPOSED ? 0 : term);
		step = ROWS_W * t.c.row_step;
		for (int i = 0; i < EACH_W; i++)
			rows |= (row + i * ROWS_W < t.c.rows) << i;
	}
};

/* Where a block's steps come from: its part of the sums has those from @first on, before @last. */
struct sources {
	const struct conv_source	&from;
	const struct weights		&by;
	const struct tiles		*s;
	int				depth, first, last;
};

/* What a thread brings from memory for a step. */
struct staged {
	mem	w[EACH_W], x[EACH_X];

	/* step @k, from the table that has it */
	DEV void get(const struct rlx_k_conv_nd &a, const struct sources &of, int k)
	{
		const table &tab = of.s->tab[(k - of.first) / STEPS % 2];
		const struct weights &by = of.by;
		int first = (k - of.first) % STEPS * DEPTH, at = k * DEPTH;
		const mem *p = by.p + (CONV_TRANSPOSED ? tab.weight[first + by.term] : at);
		int rows = at + by.term < of.depth ? by.rows : 0;

#pragma unroll
		for (int i = 0; i < EACH_W; i++)
			w[i] = load_if(p + i * by.step, rows >> i & 1);
		of.from.get<EACH_X>(x, a, tab, first + (int)threadIdx.x / BN * EACH_X);
	}

	DEV void put(real (*as)[BM + 4], real (*bs)[BN + 4]) const
	{
#pragma unroll
		for (int i = 0; i < EACH_W; i++) {
			int e = (int)threadIdx.x + i * 256;

			as[e % DEPTH][e / DEPTH] = w[i];
		}
#pragma unroll
		for (int i = 0; i < EACH_X; i++)
			bs[(int)threadIdx.x / BN * EACH_X + i][(int)threadIdx.x % BN] = x[i];
	}
};

/* The biases of a thread's rows, all on their way at a time. */
static DEV inline void add_bias(const struct rlx_k_conv_nd &a, const struct conv_ends &o,
				const struct conv_tile &t, real (*sum)[PER], const struct seat &at)
{
	real bias[PER];

#pragma unroll
	for (int i = 0; i < PER; i++) {
		int64_t row = t.row + spread(at.row, i, TM);

		bias[i] = row < t.c.rows ? conv_bias(a, o, t.c.group * t.c.rows + row) : 0;
	}
#pragma unroll
	for (int i = 0; i < PER; i++)
#pragma unroll
		for (int j = 0; j < PER; j++)
			sum[i][j] += bias[i];
}

/* Rows by fours: eight lanes have 32 neighbours. */
static DEV inline void finish(const struct rlx_k_conv_nd &a, struct conv_ends o,
			      const struct conv_tile &t, real (*sum)[PER], const struct seat &at,
			      const int64_t *place)
{
	if (!o.part && o.bias)
		add_bias(a, o, t, sum, at);
	o.bias = (const void *)0;
#pragma unroll 1
	for (int i = 0; i < PER; i++) {
		int64_t row = t.row + spread(at.row, i, TM);
		real v[PER];

		/* registers have no index: the epilogue stands once in the code */
#pragma unroll
		for (int k = 0; k < PER; k++)
#pragma unroll
			for (int j = 0; j < PER; j++)
				v[j] = k == i ? sum[k][j] : k ? v[j] : 0;
#pragma unroll
		for (int j = 0; j < PER; j += 4)
			if (row < t.c.rows)
				conv_end<4>(a, o, t.c.group * t.c.rows + row,
					    place + spread(at.col, j, TN), v + j);
	}
}

/* The terms of all of the block's steps, into @sum. */
static DEV inline void sum_steps(const struct rlx_k_conv_nd &a, const struct conv_tile &t,
				 const struct conv_source &from, struct tiles *s,
				 real (*sum)[PER], const struct seat &seat)
{
	struct staged next;
	struct weights weights(t);
	struct sources of = { from, weights, s, t.c.depth, 0, 0 };

	conv_part(t.c, DEPTH, &of.first, &of.last);
	s->tab[0].set(a, t.c, (int)threadIdx.x, of.first * DEPTH + (int)threadIdx.x);
	__syncthreads();
	if (of.first < of.last) {
		next.get(a, of, of.first);
		next.put(s->a[0], s->b[0]);
	}
	for (int k = of.first; k < of.last; k++) {
		int i = (k - of.first) % 2, more = k - of.first + STEPS;

		__syncthreads();
		if (k + 1 < of.last)
			next.get(a, of, k + 1);
		/* everybody has left the table before this one behind at the barrier */
		if (more % STEPS == 0 && of.first + more < of.last)
			s->tab[more / STEPS % 2].set(a, t.c, (int)threadIdx.x,
						     (of.first + more) * DEPTH +
						     (int)threadIdx.x);
		multiply(sum, s->a[i], s->b[i], seat);
		if (k + 1 < of.last)
			next.put(s->a[1 - i], s->b[1 - i]);
	}
}

static DEV inline void product(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
			       struct tiles *s, int64_t tile)
{
	struct conv_tile t = conv_tile_at(a, env, tile, BM, BN);
	int64_t col = t.col + threadIdx.x % BN;
	bool any = col < t.c.cols;
	real sum[PER][PER] = {};
	struct conv_col at = conv_col_at(a, t.c, any ? col : 0);
	struct conv_source from;
	struct seat seat;

	from.set(a, t.c, any, at);
	if (threadIdx.x < BN)
		s->place[threadIdx.x] = any ? conv_place(a, at) : -1;
	sum_steps(a, t, from, s, sum, seat);
	finish(a, conv_ends_of(a, env, gridDim.y > 1, 0), t, sum, seat, s->place);
	__syncthreads();
}

RLX_G_KERNEL(conv_simt, struct rlx_k_conv_nd, 256)
{
	SHARED(struct tiles, s, [1]);
	int64_t tiles = rlx_g_conv_tiles(&a, BM, BN);

	if (env.pass) {
		conv_add_up(a, env, 0);
		return;
	}
	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a, env, s, t);
}
