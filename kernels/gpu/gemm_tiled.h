/* SPDX-License-Identifier: MIT */
/*
 * GEMM of f32 without tensor cores, exactly as written: tiles in shared memory.
 *
 * Algorithm: operands are fetched into registers a step ahead (software pipelining, two
 * stages) and put down with k down the rows, so that a thread reads the operands of its 8 x 8
 * sums as vectors. 32 threads make 64 rows x 32 columns; where tiles are fewer than
 * multiprocessors several teams of threads split k of one tile (split-K within a block) and
 * add up in shared memory, in one order: results do not depend on timing.
 *
 * With strict bits (GEMM_ORDERED) the order of a sum is the CPU's (kernels/simd/gemm_drive.h): one
 * fused multiply-add after the other along k, from the bias on, in the parts of
 * rlx_k_gemm_part(), which are added up: by the one block of a tile, whose earlier parts wait in
 * shared memory, or (split-K) a block makes each. Beyond k terms are -0 x 0, which leave a sum as
 * it is, be it -0.
 *
 * Tiles: GEMM_TILE_M (64 to 192) rows by GEMM_TILE_N (32 to 224) columns by 8 of k. 64
 * multiply-adds for 16 floats from shared memory a step.
 *
 * Traffic: A ceil(N / cols) times, B ceil(M / rows) times, C once. The bound is the chip's
 * FFMA rate. A part of gemm_simt.cu.
 *
 * Source: the register blocking of Volkov and Demmel, "Benchmarking GPUs to tune dense linear
 * algebra" (SC 2008). Limits: f32 alone.
 */
#ifndef RLX_G_GEMM_TILED_H
#define RLX_G_GEMM_TILED_H

#include "kernels/gpu/gemm_tile.h"

#if GEMM_ORDERED
#define TILED_KERNEL	gemm_ordered
#define TILED_STEP(c, a, b)	fmaf(a, b, c)
#else
#define TILED_KERNEL	gemm_tiled
#define TILED_STEP(c, a, b)	((c) + (a) * (b))
#endif

enum {
	TILED_M = GEMM_TILE_M, TILED_N = GEMM_TILE_N,
	TILED_TEAMS = GEMM_TEAMS, TILED_TEAM = GEMM_TILED_TEAM(TILED_M, TILED_N),
	TILED_K = GEMM_TILED_K,
	TILED_PARTS = TILED_TEAM / 32,
	TILED_LDA = TILED_M + 4, TILED_LDB = TILED_N + 4,
	TILED_STAGE = TILED_K * (TILED_LDA + TILED_LDB),
	TILED_LD = GEMM_TILED_LD, TILED_PART = 32 * TILED_LD,	/* half a part's sums */
};

typedef gemv_pack<float, 4> four;

/*
 * A thread: its team, its place in that, the part of the tile, where that begins, and
 * where in it the thread's sums do. Its team's first k.
 */
struct tiled_place {
	int	team, t, part, wm, wn, a, b;
	int64_t	k;

	DEV tiled_place(void)
		: team((int)threadIdx.x / TILED_TEAM), t((int)threadIdx.x % TILED_TEAM),
		  part(t / 32), wm(part % (TILED_M / 64) * 64), wn(part / (TILED_M / 64) * 32),
		  a(t / 2 % 8 * 4), b((t % 2 + t % 32 / 16 * 2) * 4), k(0) {}
};

/*
 * ROWS lines of an operand as a thread fetches them by 16 bytes into registers and then
 * puts them into lines of k: element (i, k) at i * ld + k; DOWN: at k * ld + i.
 */
template <int ROWS, bool DOWN, bool LEFT> struct tiled_hand {
	enum { LD = ROWS + 4, ACROSS = DOWN ? ROWS / 4 : 2, N = ROWS * TILED_K / 4 / TILED_TEAM,
	       STEP = TILED_TEAM / ACROSS };

	const float	*p;		/* of the thread's first piece */
	int64_t		ld;
	int		left, rest, at;	/* lines from there on, k; where in a stage */
	bool		wide;
	alignas(16) float v[N][4];

	/* Of a matrix of @n lines of @depth those from @first on, their k from @k on. */
	DEV tiled_hand(const float *from, size_t stride, int64_t n, int64_t depth,
		       const struct tiled_place &w, int64_t first)
		: ld((int64_t)stride),
		  wide(((uint64_t)from | (uint64_t)(ld | (DOWN ? n : depth)) * 4) % 16 == 0)
	{
		int line = DOWN ? w.t % ACROSS * 4 : w.t / ACROSS;
		int down = DOWN ? w.t / ACROSS : w.t % ACROSS * 4;
		int64_t k = w.k + down;

		left = (int)(n - first < ROWS ? n - first : ROWS) - line;
		rest = (int)(depth - k);
		p = from + (DOWN ? k * ld + first + line : (first + line) * ld + k);
		at = down * LD + line;
	}

	/* The team's next TILED_K of k. */
	DEV void fetch(void)
	{
		const float *q = p;

#pragma unroll
		for (int e = 0; e < N; e++, q += STEP * ld) {
			bool in = DOWN ? e * STEP < rest : e * STEP < left;

			if (wide) {
				load_words((uint32_t *)v[e], q, in && (DOWN ? left : rest) > 0);
			} else {
#pragma unroll
				for (int j = 0; j < 4; j++)
					v[e][j] = load_if(q + j, in && j < (DOWN ? left : rest));
			}
#pragma unroll
			for (int j = 0; GEMM_ORDERED && LEFT && j < 4; j++)
				v[e][j] = (DOWN ? e * STEP : j) < rest ? v[e][j] : -0.0f;
		}
		p += TILED_K * TILED_TEAMS * (DOWN ? ld : 1);
		rest -= TILED_K * TILED_TEAMS;
	}

	DEV void put(float *to) const
	{
		to += at;
#pragma unroll
		for (int e = 0; e < N; e++)
			if (DOWN)
				*(four *)(to + e * STEP * LD) = *(const four *)v[e];
			else
#pragma unroll
				for (int j = 0; j < 4; j++)
					to[j * LD + e * STEP] = v[e][j];
	}
};

/* What a thread needs of a line of a and of b. */
struct tiled_line {
	alignas(16) float a[8], b[8];

	DEV void load(const float *as, const float *bs)
	{
		*(four *)a = *(const four *)as;
		*(four *)(a + 4) = *(const four *)(as + 32);
		*(four *)b = *(const four *)bs;
		*(four *)(b + 4) = *(const four *)(bs + 16);
	}
};

/* The stage's products, from where the thread's first ones are in its lines. */
static DEV inline void tiled_multiply(float (*c)[8], const float *as, const float *bs)
{
	struct tiled_line l[2];

	l[0].load(as, bs);
#pragma unroll
	for (int k = 0; k < TILED_K; k++) {
		if (k + 1 < TILED_K)
			l[(k + 1) % 2].load(as + (k + 1) * TILED_LDA, bs + (k + 1) * TILED_LDB);
#pragma unroll
		for (int i = 0; i < 8; i++)
#pragma unroll
			for (int j = 0; j < 8; j++)
				c[i][j] = TILED_STEP(c[i][j], l[k % 2].a[i], l[k % 2].b[j]);
	}
}

/*
 * What a block does: the tile's batch index, its number among all, where it begins, which
 * share of its k of how many. In shared memory, lest it take registers from the sums.
 */
struct tiled_job {
	int64_t		row, col, batch;
	uint32_t	tile, share, shares;

	/* False: the tile has no rows that carry data. */
	DEV bool find(const struct rlx_k_gemm &g, const struct rlx_g_env &env)
	{
		uint32_t down = (uint32_t)((g.m + TILED_M - 1) / TILED_M);
		uint32_t across = (uint32_t)((g.n + TILED_N - 1) / TILED_N);
		uint32_t each = down * across, r, c;

		shares = GEMM_SPLIT_K ? gridDim.x / (each * (uint32_t)rlx_k_gemm_batches(&g)) : 1;
		share = blockIdx.x % shares;
		tile = blockIdx.x / shares;
		batch = tile / each;
		gemm_tile(tile % each, down, across, &r, &c);
		row = (int64_t)r * TILED_M;
		col = (int64_t)c * TILED_N;
		return row < live_rows(env, (int64_t)g.m);
	}
};

static DEV inline bool tiled_begins_at_bias(const struct rlx_k_gemm &g)
{
	return GEMM_ORDERED && rlx_k_gemm_bias_first(&g, rlx_k_gemm_is_thin(&g, RLX_ISA_V4));
}

/* The result; what can be read or written by 16 bytes. */
struct tiled_result {
	const struct rlx_k_gemm	&g;
	operands		o;
	int64_t			row, col;
	bool			wide;

	DEV tiled_result(const struct rlx_k_gemm &all, const struct rlx_g_env &env,
			 const struct tiled_job &job)
		: g(all), o(all, env, job.batch), row(job.row), col(job.col),
		  wide(!GEMM_ORDERED &&
		       ((uint64_t)o.c | (uint64_t)o.r | (uint64_t)o.bias |
			(uint64_t)(g.ldc | g.n | (o.r ? g.ldr : 0)) * 4) % 16 == 0)
	{
		if (tiled_begins_at_bias(g))
			o.bias = (const float *)0;
	}

	/* Four sums from (@r, @c) of the tile on. */
	DEV void end(int r, int c, const four &sum) const
	{
		size_t i = (size_t)(row + r), k = (size_t)(col + c);
		int left = g.n - k < 4 ? (int)(g.n - k) : 4;
		float v[4];

		if (i >= g.m || k >= g.n)
			return;
		if (wide) {
			end_wide(i, k, sum);
			return;
		}
		o.four_values(g, i, k, sum.v, left, same, v);
		o.put_four(g, i, k, v, left, GEMM_ORDERED && o.is_wide(g), same);
	}

	DEV void end_wide(size_t i, size_t k, const four &sum) const
	{
		four bias = {}, r = {}, y;
		float by_row = o.row_bias ? o.row_bias[i] : 0;

		if (o.bias)
			bias = *(const four *)(o.bias + k);
		if (o.r)
			r = *(const four *)(o.r + i * g.ldr + k);
#pragma unroll
		for (int j = 0; j < 4; j++)
			y.v[j] = (float)g.alpha * sum.v[j] + bias.v[j] + by_row +
				 (float)g.beta * r.v[j];
		if (g.act)	/* apart, since what is skipped as a whole is not fetched */
#pragma unroll
			for (int j = 0; j < 4; j++)
				y.v[j] = gemm_act(g.act, g, y.v[j]);
		*(four *)(o.c + i * g.ldc + k) = y;
	}
};

/* Is the block the last one of its tile? Every thread of it gets to know. */
static DEV inline bool tiled_is_last(uint32_t *count, uint32_t shares, float *smem)
{
	uint32_t *last = (uint32_t *)smem, is;

	memory_fence();
	__syncthreads();
	if (threadIdx.x == 0) {
		*last = atomic_add(count, 1u) == shares - 1;
		if (*last)
			*count = 0;
	}
	__syncthreads();
	is = *last;
	__syncthreads();
	memory_fence();
	return is;
}

/* Lines that a thread has of half a part, four numbers of each, and at a time. */
enum { TILED_LINES = 8 / TILED_TEAMS, TILED_ONCE = TILED_LINES < 4 ? TILED_LINES : 4 };

/* Where half the sums of all parts stand in shared memory, and how a thread goes over them. */
struct tiled_half {
	float	*part;
	int	first, across;	/* the thread's first line, and where in each */

	DEV tiled_half(float *smem, const struct tiled_place &w)
		: part(smem + w.part * TILED_PART), first(w.team * 4 + w.t % 32 / 8),
		  across(w.t % 8 * 4) {}

	DEV float *at(int line) const { return part + line * TILED_LD + across; }
};

/* Sums of the teams become those of the first one. */
static DEV inline void tiled_teams(const struct tiled_half &h)
{
#pragma unroll
	for (int i = 0; i < TILED_LINES && TILED_TEAMS > 1; i++) {
		float *at = h.at(h.first + i * TILED_TEAMS * 4);
		four sum = *(four *)at;

#pragma unroll
		for (int k = 1; k < TILED_TEAMS; k++) {
			four more = *(const four *)(at + k * TILED_PARTS * TILED_PART);

			for (int j = 0; j < 4; j++)
				sum.v[j] += more.v[j];
		}
		*(four *)at = sum;
	}
}

/* So do those of all shares of k, from @from on, in their order. */
static DEV inline void tiled_shares(const struct tiled_half &h, const float *from, int shares)
{
#pragma unroll 1
	for (int l = h.first; l < 32; l += TILED_ONCE * TILED_TEAMS * 4) {
		four sum[TILED_ONCE];

#pragma unroll
		for (int i = 0; i < TILED_ONCE; i++)	/* what adding leaves a -0 */
			sum[i] = four{ { -0.0f, -0.0f, -0.0f, -0.0f } };
#pragma unroll 1
		for (int s = 0; s < shares; s++) {
			four more[TILED_ONCE];

#pragma unroll
			for (int i = 0; i < TILED_ONCE; i++)
				load_new((uint32_t *)more[i].v, from + s * (TILED_M * TILED_N) +
					 (l + i * TILED_TEAMS * 4) * 32 + h.across);
#pragma unroll
			for (int i = 0; i < TILED_ONCE; i++)
				for (int j = 0; j < 4; j++)
					sum[i].v[j] += more[i].v[j];
		}
#pragma unroll
		for (int i = 0; i < TILED_ONCE; i++)
			*(four *)h.at(l + i * TILED_TEAMS * 4) = sum[i];
	}
}

/* Half of the thread's sums to shared memory: row 4 i + j of a part's half is line i + 8 j. */
static DEV inline void tiled_show(const float (*c)[8], float *smem, const struct tiled_place &w,
				  bool upper)
{
	float *to = smem + (w.team * TILED_PARTS + w.part) * TILED_PART + w.a / 4 * TILED_LD + w.b;

#pragma unroll
	for (int i = 0; i < 8; i++) {
		four v;

#pragma unroll
		for (int j = 0; j < 4; j++)
			v.v[j] = upper ? c[i / 2 + 4][i % 2 * 4 + j] : c[i / 2][i % 2 * 4 + j];
		*(four *)(to + i / 2 * 8 * TILED_LD + i % 2 * 16) = v;
	}
	__syncthreads();
}

/*
 * All sums, by way of shared memory, where those of the teams meet, half of the rows at a
 * time. Those of a share of k go to memory first, for the block that ends last.
 */
static DEV inline void tiled_finish(const struct tiled_result &y, const float (*c)[8],
				    float *smem, const struct rlx_g_env &env,
				    const struct tiled_job &job)
{
	const struct tiled_place w;
	const struct tiled_half h(smem, w);
	bool ends = job.shares == 1, met = false;
	float *all = (float *)env.scratch +
		     (int64_t)job.tile * job.shares * (TILED_M * TILED_N);

#pragma unroll 1
	for (int half = 0; half < 2; half++) {
		float *sums = all + (half * TILED_PARTS + w.part) * 32 * 32;

		if (met) {
			tiled_shares(h, sums, (int)job.shares);
		} else {
			tiled_show(c, smem, w, half);
			tiled_teams(h);
		}
		sums += job.share * (TILED_M * TILED_N);
#pragma unroll 1
		for (int line = h.first; line < 32; line += TILED_TEAMS * 4)
			if (ends)
				y.end(w.wm + half * 32 + line % 8 * 4 + line / 8,
				      w.wn + h.across, *(four *)h.at(line));
			else
				*(four *)(sums + line * 32 + h.across) = *(four *)h.at(line);
		__syncthreads();
		if (half == 1 && !ends) {
			if (!tiled_is_last(env.zeros + job.tile, job.shares, smem))
				return;
			ends = met = true;
			half = -1;
		}
	}
}

/* Steps [@first, @last) of the @depth terms from k @from on. */
struct tiled_range {
	size_t	from;
	int64_t	depth, first, last;
};

/* The thread's sums over its team's steps of @k, onto @c. */
static DEV inline void tiled_steps(const struct rlx_k_gemm &g, const operands &o, float *shared,
				   const struct tiled_job &job, const struct tiled_range &k,
				   float (*c)[8])
{
	int left = (int)(k.last - k.first);
	struct tiled_place w;
	float *to = shared + w.team * 2 * TILED_STAGE;
	const float *as = to + w.wm + w.a, *bs = to + TILED_K * TILED_LDA + w.wn + w.b;
	int other = TILED_STAGE;	/* from a stage to the other */

	w.k = (k.first * TILED_TEAMS + w.team) * TILED_K;

	tiled_hand<TILED_M, GEMM_TRANS_A != 0, true> a(o.a + k.from * (GEMM_TRANS_A ? g.lda : 1),
						       g.lda, (int64_t)g.m, k.depth, w, job.row);
	tiled_hand<TILED_N, !GEMM_B_COLS, false> b(o.b + k.from * (GEMM_B_COLS ? 1 : g.ldb),
						   g.ldb, (int64_t)g.n, k.depth, w, job.col);

	a.fetch();
	b.fetch();
	while (left-- > 0) {
		a.put(to);
		b.put(to + TILED_K * TILED_LDA);
		__syncthreads();
		if (left > 0) {
			a.fetch();
			b.fetch();
		}
		tiled_multiply(c, as, bs);
		/* everybody left that one at the last barrier */
		to += other;
		as += other;
		bs += other;
		other = -other;
	}
	__syncthreads();
}

#if GEMM_ORDERED
/* What the first part of the thread's sums begins with. */
static DEV inline void tiled_begin(const struct rlx_k_gemm &g, const operands &o,
				   const struct tiled_job &job, float (*c)[8])
{
	const struct tiled_place w;

	if (!o.bias || !tiled_begins_at_bias(g))
		return;
#pragma unroll
	for (int j = 0; j < 8; j++) {
		size_t col = (size_t)(job.col + w.wn + w.b + j % 4 + j / 4 * 16);
		float bias = load_if(o.bias + col, col < g.n);

#pragma unroll
		for (int i = 0; i < 8; i++)
			c[i][j] = bias;
	}
}

/* The block's part of the sums, or one after the other all, which meet behind the stages. */
static DEV inline void tiled_sum(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
				 float *shared, const struct tiled_job &job, float (*c)[8])
{
	const operands o(g, env, job.batch);
	const size_t part = rlx_k_gemm_part(g.k), first = job.share * part;
	float *met = shared + TILED_TEAMS * 2 * TILED_STAGE + threadIdx.x;

	if (first == 0)
		tiled_begin(g, o, job, c);
	for (size_t at = first; at < g.k; at += part) {
		int64_t n = (int64_t)(g.k - at < part ? g.k - at : part);
		bool last = at + part >= g.k;

		tiled_steps(g, o, shared, job,
			    tiled_range{ at, n, 0, (n + TILED_K - 1) / TILED_K }, c);
		if (job.shares > 1 || (at == 0 && last))
			break;
#pragma unroll
		for (int i = 0; i < 64; i++) {
			float *sum = met + i * (TILED_TEAM * TILED_TEAMS);

			if (at > 0)
				c[i / 8][i % 8] = *sum + c[i / 8][i % 8];
			if (last)
				continue;
			*sum = c[i / 8][i % 8];
			c[i / 8][i % 8] = 0;
		}
	}
}
#else
/* The thread's sums over its team's k of the block's share. */
static DEV inline void tiled_sum(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
				 float *shared, const struct tiled_job &job, float (*c)[8])
{
	const int64_t all = ((int64_t)g.k + TILED_K * TILED_TEAMS - 1) / (TILED_K * TILED_TEAMS);
	const struct tiled_range k = { 0, (int64_t)g.k, all * job.share / job.shares,
				       all * (job.share + 1) / job.shares };

	tiled_steps(g, operands(g, env, job.batch), shared, job, k, c);
}
#endif

RLX_G_KERNEL(TILED_KERNEL, struct rlx_k_gemm, TILED_TEAM * TILED_TEAMS)
{
	SHARED(struct tiled_job, job, [1]);
	SHARED(bool, live, [1]);
	SHARED_DYNAMIC(shared);
	float c[8][8] = {};

	if (threadIdx.x == 0)
		live[0] = job->find(a, env);
	__syncthreads();
	if (!live[0])
		return;
	tiled_sum(a, env, (float *)shared, *job, c);
	tiled_finish(tiled_result(a, env, *job), c, (float *)shared, env, *job);
}

#endif
