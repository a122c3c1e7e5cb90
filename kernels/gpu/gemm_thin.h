/* SPDX-License-Identifier: MIT */
/*
 * Products of few rows with b by columns: what counts is how long one block takes
 * from its first load to its store. A block makes 16 rows of THIN_COLS columns, its
 * waves share out k, and operands go from memory straight into registers: a lane
 * reads 16 bytes of k at a time and gives them to two products, in the order of k
 * that this makes; any order serves that a and b have in common. Products that
 * follow each other, of one a and without residuals, share a launch; the norm or the
 * attention that makes a is done again by each block of few. A part of gemm_mma.h, which
 * has the types and conversions.
 */
#ifndef RLX_G_GEMM_THIN_H
#define RLX_G_GEMM_THIN_H

/* RLX_K3: columns of a block, see rlx_g_thin_cols(). */
#define THIN_COLS	(RLX_K3 > MMA_N ? RLX_K3 : MMA_N)

enum {
	THIN_ROWS = MMA_M,
	THIN_K = 32,				/* of a step of a wave */
	THIN_TN = THIN_COLS / MMA_N,
	THIN_AHEAD = THIN_TN > 2 ? 2 : 4,	/* steps loaded at once */
	THIN_A = MMA_LINES,			/* rows of a that a lane has */
	THIN_LD = THIN_COLS + 4,
	THIN_WAVES = 12,			/* at most */
};

struct alignas(16) thin_words {
	uint32_t	w[4];
};

/* What a lane reads of a and b. */
struct thin_lane {
	const type_a	*a[THIN_A];	/* rows; NULL: beyond the edge */
	const type_b	*b[THIN_TN];	/* columns, likewise */
	int		share;		/* which quarter of a step is its own */
	int		first, step, n;	/* its first k; from one step to the next; all */
};

static DEV inline struct thin_lane thin_lane_at(const struct rlx_k_gemm &g, const operands &o,
						int row, int col)
{
	struct thin_lane l;

	for (int i = 0; i < THIN_A; i++) {
		int r = row + mma_a_row(2 * i);

		l.a[i] = r < (int)g.m ? o.a + r * (int64_t)g.lda : (const type_a *)0;
	}
	for (int j = 0; j < THIN_TN; j++) {
		int c = col + j * MMA_N + mma_b_col(0);

		l.b[j] = c < (int)g.n ? o.b + c * (int64_t)g.ldb : (const type_b *)0;
	}
	l.share = WAVE == 32 ? lane_id() % 4 : lane_id() / 16;
	l.first = wave_id() * THIN_K + l.share * 8;
	l.step = (int)(blockDim.x / WAVE) * THIN_K;
	l.n = (int)g.k;
	return l;
}

/*
 * Eight halves of a row from @k on; zeros beyond @n, and of no row. WIDE: they lie in
 * memory as they are, 16 bytes in one place.
 */
template <bool WIDE, class T>
static DEV inline struct thin_words thin_load(const T *row, int k, int n)
{
	struct thin_words v = {};
	half h[8] = {};

	if constexpr (WIDE) {
		load_words(v.w, row + k, row && k < n);
		return v;
	}
	if (!row)
		return v;
	for (int i = 0; i < 8; i++)
		if (k + i < n)
			h[i] = to_elem(row[k + i]);
	memcpy(&v, h, sizeof(v));
	return v;
}

/* The same of a row that the block has made in shared memory. */
template <class T> static DEV inline struct thin_words thin_near(const T *row, int k, int n)
{
	struct thin_words v = {};

	if (row && k < n)
		v = *(const struct thin_words *)(row + k);
	return v;
}

/* b, then a, of AHEAD steps from k on. */
template <bool WIDE, int AHEAD> struct thin_stage {
	struct thin_words b[AHEAD][THIN_TN], a[AHEAD][THIN_A];

	DEV void load(const struct thin_lane &l, int k)
	{
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int j = 0; j < THIN_TN; j++)
				b[s][j] = thin_load<WIDE>(l.b[j], k + s * l.step, l.n);
	}

	/* NEAR: the rows are in shared memory */
	template <bool NEAR> DEV void load_a(const struct thin_lane &l, int k)
	{
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int i = 0; i < THIN_A; i++)
				if constexpr (NEAR)
					a[s][i] = thin_near(l.a[i], k + s * l.step, l.n);
				else
					a[s][i] = thin_load<WIDE>(l.a[i], k + s * l.step, l.n);
	}

	/* c += a b; @before makes a of what was read */
	template <class BEFORE>
	DEV void multiply(const struct thin_lane &l, float (*c)[MMA_C], const BEFORE &before)
	{
		wave_sync();	/* lest loads be put off until registers are free */
		before(l, a);
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int p = 0; p < 4; p += 2) {
				uint32_t fa[MMA_A];

#pragma unroll
				for (int i = 0; i < MMA_A; i++)
					fa[i] = a[s][i % THIN_A].w[p + i / THIN_A];
#pragma unroll
				for (int j = 0; j < THIN_TN; j++)
					mma<half>(c[j], fa, &b[s][j].w[p]);
			}
	}
};

/* Of a row in one wave: the mean, and the squares' distance from it. */
struct alignas(8) thin_part {
	float	mean, far;
};

struct thin_plain {
	enum { NEAR = 0 };

	template <class A> DEV void operator()(const struct thin_lane &l, A a) const {}
};

/*
 * A layer norm before the product: every block makes it of its rows, each of which
 * AHEAD steps of all waves are. Waves tell each other the mean of their part and the
 * squares' distance from it.
 */
template <int AHEAD> struct thin_norm {
	enum { NEAR = 0, ADD = (RLX_K2 & RLX_G_JOIN_ADD) != 0 };

	const struct rlx_k_norm	&n;
	struct thin_part	*room;		/* THIN_ROWS for each wave */
	half			*y[THIN_A];	/* to be written too; NULL: not here */
	float			gamma[AHEAD][8], beta[AHEAD][8];
	float			by_waves, by_n;	/* 1 / as many: dividing takes longer */
	struct thin_words	add[AHEAD][THIN_A];	/* to x, if there is something */

	DEV thin_norm(const struct rlx_k_norm &norm, const struct rlx_g_env &env,
		      const struct thin_lane &l, float *r, int row, bool write)
		: n(norm), room((struct thin_part *)r),
		  by_waves(1 / (float)(int)(blockDim.x / WAVE)), by_n(1 / (float)(int)norm.n)
	{
		const float *by = RLX_G_PTR(const float, n.gamma);
		const float *more = RLX_G_PTR(const float, n.beta);
		half *out = RLX_G_PTR(half, n.y);

#pragma unroll
		for (int i = 0; i < THIN_A; i++) {
			int at = row + mma_a_row(2 * i);

			y[i] = write && at < (int)n.rows ? out + at * n.n : (half *)0;
		}
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
			for (int e = 0; e < 8; e += 4) {
				load_words((uint32_t *)&gamma[s][e],
					   by + l.first + s * l.step + e, true);
				load_words((uint32_t *)&beta[s][e],
					   more + l.first + s * l.step + e, true);
			}
	}

	/* The rows of a table that indices tell, instead of x's. */
	static DEV void pick(const struct rlx_k_gather &p, const struct rlx_g_env &env, int row,
			     struct thin_lane &l)
	{
		const half *table = RLX_G_PTR(const half, p.table);
		const void *idx = RLX_G_PTR(const void, p.idx);
		int32_t *bad = RLX_G_PTR(int32_t, p.bad);
		int rows = (int)live_rows(env, p.n_idx);

#pragma unroll
		for (int i = 0; i < THIN_A; i++) {
			int at = row + mma_a_row(2 * i);
			int64_t k = at < rows ? load_index(idx, at, p.idx_type) : 0;

			l.a[i] = at < rows && index_in(&k, p.rows, bad) ? table + k * l.n :
				 (const half *)0;
		}
	}

	/* What is added to the rows. */
	DEV void bring(const struct rlx_g_env &env, const struct thin_lane &l, int row)
	{
		const half *from = RLX_G_PTR(const half, n.residual);

#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int i = 0; i < THIN_A; i++) {
				int at = row + mma_a_row(2 * i);

				load_words(add[s][i].w, from + at * n.residual_stride + l.first +
					   s * l.step, at < (int)n.rows);
			}
	}

	/*
	 * All of the lane's rows go through each step side by side: what takes time is to
	 * wait for the one before.
	 */
	DEV void operator()(const struct thin_lane &l, struct thin_words (*a)[THIN_A]) const
	{
		const float part = (float)(AHEAD * THIN_K);
		float x[AHEAD][THIN_A][8], mean[THIN_A] = {}, far[THIN_A] = {};
		int mine = wave_id() * THIN_ROWS;

		take(a, x, mean);
		across(mean);
#pragma unroll
		for (int i = 0; i < THIN_A; i++)
			mean[i] *= 1 / part;
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int e = 0; e < 8; e++)
#pragma unroll
				for (int i = 0; i < THIN_A; i++)
					far[i] += (x[s][i][e] - mean[i]) * (x[s][i][e] - mean[i]);
		across(far);
#pragma unroll
		for (int i = 0; i < THIN_A; i++)
			if (l.share == 0)
				room[mine + mma_a_row(2 * i)] = thin_part{ mean[i], far[i] };
		__syncthreads();
		gather(l, part, mean, far);
		put(l, a, x, mean, far);
	}

	/* Halves as floats, with what is added to them, and each row's sum. */
	DEV void take(const struct thin_words (*a)[THIN_A], float (*x)[THIN_A][8],
		      float *sum) const
	{
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int i = 0; i < THIN_A; i++) {
				half h[8], r[8] = {};

				memcpy(h, &a[s][i], sizeof(h));
				if (ADD)
					memcpy(r, &add[s][i], sizeof(r));
#pragma unroll
				for (int e = 0; e < 8; e++) {
					x[s][i][e] = to_f32(h[e]);
					if (ADD)
						x[s][i][e] += to_f32(r[e]);
					sum[i] += x[s][i][e];
				}
			}
	}

	static DEV void across(float *v)
	{
		for (int m = WAVE == 32 ? 1 : 16; m < (WAVE == 32 ? 4 : 64); m *= 2)
#pragma unroll
			for (int i = 0; i < THIN_A; i++)
				v[i] += wave_xor(v[i], m);
	}

	/* The rows' mean and variance from the waves' parts, which a row's lanes share out. */
	DEV void gather(const struct thin_lane &l, float part, float *mean, float *far) const
	{
		const struct thin_part *at = room + mma_a_row(0);
		int waves = (int)(blockDim.x / WAVE);
		struct thin_part p[THIN_WAVES / 4][THIN_A];

#pragma unroll
		for (int i = 0; i < THIN_A; i++)
			mean[i] = far[i] = 0;
#pragma unroll
		for (int j = 0; j < THIN_WAVES / 4; j++)
#pragma unroll
			for (int i = 0; i < THIN_A; i++) {
				int w = j * 4 + l.share, own = w < waves ? w : waves - 1;

				p[j][i] = at[own * THIN_ROWS + i * 8];
				if (w >= waves)
					p[j][i] = thin_part{ 0, 0 };
				mean[i] += p[j][i].mean;
			}
		across(mean);
#pragma unroll
		for (int i = 0; i < THIN_A; i++)
			mean[i] *= by_waves;
#pragma unroll
		for (int j = 0; j < THIN_WAVES / 4; j++)
#pragma unroll
			for (int i = 0; i < THIN_A; i++) {
				float d = j * 4 + l.share < waves ? p[j][i].mean - mean[i] : 0;

				far[i] += p[j][i].far + part * d * d;
			}
		across(far);
	}

	DEV void put(const struct thin_lane &l, struct thin_words (*a)[THIN_A],
		     const float (*x)[THIN_A][8], const float *mean, const float *far) const
	{
#pragma unroll
		for (int i = 0; i < THIN_A; i++) {
			float inv = rsqrt_f32(far[i] * by_n + n.eps);

#pragma unroll
			for (int s = 0; s < AHEAD; s++) {
				half h[8];

#pragma unroll
				for (int e = 0; e < 8; e++)
					h[e] = from_f32<half>((x[s][i][e] - mean[i]) * inv *
							      gamma[s][e] + beta[s][e]);
				memcpy(&a[s][i], h, sizeof(h));
				if (y[i])
					*(struct thin_words *)(y[i] + l.first + s * l.step) =
						a[s][i];
			}
		}
	}
};

#if RLX_K2 & RLX_G_JOIN_ATTENTION
/*
 * Attention before the product: every block makes that of its rows, a head of a batch row
 * at each wave, into shared memory as the rows of a.
 */
struct thin_attention {
	enum { NEAR = 1 };

	typedef attention_wave<half, RLX_G_JOIN_WIDTH(RLX_K2), RLX_G_JOIN_KEYS(RLX_K2),
			       RLX_G_JOIN_MORE(RLX_K2), false> heads;

	const struct rlx_k_attention &a;
	const struct rlx_g_env	&env;
	half			*room, *to;
	int			ld;
	uint32_t		first, len, batch;	/* of all rows; of the batch ones */
	uint32_t		mine, waves, jobs;
	heads::job		w;	/* the first one, known before anything is waited for */

	/* @r: shared memory of the block, of which the sums are not yet in need */
	DEV thin_attention(const struct rlx_k_attention &attention,
			   const struct rlx_g_env &environment, float *r, int k, int row,
			   struct thin_lane &l)
		: a(attention), env(environment), ld(RLX_G_JOIN_LD(k)),
		  first((uint32_t)row), len((uint32_t)a.q_len), batch(first / len),
		  mine((uint32_t)wave_id()), waves(blockDim.x / WAVE), jobs(all_jobs()),
		  w(at(mine))
	{
		int rooms = (int)(waves < jobs ? waves : jobs) * heads::ROOM;
		int sums = (int)waves * THIN_ROWS * THIN_LD * 2;

		room = (half *)r + mine * heads::ROOM;
		to = (half *)r + (rooms > sums ? rooms : sums);
		for (int i = 0; i < THIN_A; i++)
			l.a[i] = l.a[i] ? to + mma_a_row(2 * i) * ld : (const half *)0;
	}

	/* Heads of the batch rows that the block's rows are of. */
	DEV uint32_t all_jobs(void) const
	{
		uint32_t end = (first + THIN_ROWS - 1) / len + 1, most = (uint32_t)a.batch;

		return ((end < most ? end : most) - batch) * (uint32_t)a.heads;
	}

	DEV struct heads::job at(uint32_t job) const
	{
		uint32_t n = (uint32_t)a.heads, b = batch + job / n;

		return heads::job_at(a, env, b, job % n, b * len < first ? first - b * len : 0);
	}

	DEV void make(void)
	{
		wave_sync();
		for (uint32_t i = mine; i < jobs; i += waves) {
			struct heads::job j = i == mine ? w : at(i);
			half *head = to + j.h * (int)a.v_dim;
			int from = j.b * (int)len - (int)first;

			/* heads have eights of columns */
			heads::attend(a, env, j, room, [&](int q, int d, int n, float y, float z) {
				half *at = head + (from + q) * ld + d;

				if (from + q >= THIN_ROWS)
					return;
				if (WAVE == 32)
					*(uint32_t *)at = pack_halves<half>(y, z);
				else
					*at = from_f32<half>(y);
			});
			wave_sync();
		}
		__syncthreads();
	}

	template <class A> DEV void operator()(const struct thin_lane &l, A at) const {}
};
#endif

/*
 * The sum of this wave's share of k. Waits for the launch ahead, then calls @first, and
 * @then while a is on its way.
 */
template <bool WIDE, int AHEAD, class FIRST, class THEN, class BEFORE>
static DEV inline void thin_sum(const struct rlx_k_gemm &g, const struct thin_lane &l,
				float (*c)[MMA_C], FIRST first, THEN then,
				const BEFORE &before)
{
	int k = l.first, all = (l.n + THIN_K - 1) / THIN_K * THIN_K;
	struct thin_stage<WIDE, AHEAD> stage;

	if (!g.b_fixed)
		launch_wait();
	stage.load(l, k);
	if (g.b_fixed)
		launch_wait();
	first();
	stage.template load_a<BEFORE::NEAR>(l, k);
	then();
	for (;;) {
		stage.multiply(l, c, before);
		k += l.step * AHEAD;
		if (k >= all)	/* the same for all lanes: steps are whole */
			break;
		stage.load(l, k);
		stage.template load_a<BEFORE::NEAR>(l, k);
	}
}

static DEV inline bool thin_wide(const struct rlx_k_gemm &g, const operands &o)
{
	return same_type<type_a, half>::yes && same_type<type_b, half>::yes &&
	       ((uint64_t)o.a | (uint64_t)o.b | g.lda * 2 | g.ldb * 2 | g.k * 2) % 16 == 0;
}

/* What is added to a sum, as it lies in memory: to convert it is to wait for it. */
struct thin_adds {
	float	bias, row_bias;
	type_c	r;
};

/* A tile of a product, and what becomes of its sums. */
struct thin_tile {
	const struct rlx_k_gemm	&g;
	const operands		&o;
	float			*room;	/* THIN_ROWS x THIN_LD for each wave */
	int			row, col;

	/* Is there that element of the tile? */
	DEV bool has(int e) const
	{
		return e < THIN_ROWS * THIN_COLS && row + e / THIN_COLS < (int)g.m &&
		       col + e % THIN_COLS < (int)g.n;
	}

	DEV struct thin_adds adds(int e) const
	{
		size_t r = (size_t)(row + e / THIN_COLS), c = (size_t)(col + e % THIN_COLS);
		struct thin_adds x = {};
		bool on = has(e);

		if (o.bias)
			x.bias = load_if(o.bias + c, on);
		if (o.row_bias)
			x.row_bias = load_if(o.row_bias + r, on);
		if (o.r)
			x.r = load_if(o.r + r * g.ldr + c, on);
		return x;
	}

	/* Of all waves; @add: to the element that is this thread's first one. */
	DEV void put_sums(const float (*c)[MMA_C], struct thin_adds add) const
	{
		float *mine = room + wave_id() * THIN_ROWS * THIN_LD;
		int waves = (int)(blockDim.x / WAVE);

#pragma unroll
		for (int j = 0; j < THIN_TN; j++)
#pragma unroll
			for (int i = 0; i < MMA_C; i++)
				mine[mma_c_row(i) * THIN_LD + j * MMA_N + mma_c_col(i)] = c[j][i];
		__syncthreads();
#pragma unroll 1
		for (int e = (int)threadIdx.x; e < THIN_ROWS * THIN_COLS; e += (int)blockDim.x) {
			int r = e / THIN_COLS, k = e % THIN_COLS;
			float sum[4] = {};	/* in turn, lest each waits for the one before */

			if (!has(e))
				continue;
#pragma unroll
			for (int w = 0; w < THIN_WAVES; w++)
				sum[w % 4] += w < waves ?
					      room[(w * THIN_ROWS + r) * THIN_LD + k] : 0;
			if (e != (int)threadIdx.x)
				add = adds(e);
			o.c[(size_t)(row + r) * g.ldc + (size_t)(col + k)] =
				put(o.value(g, (size_t)(col + k),
					    sum[0] + sum[1] + (sum[2] + sum[3]),
					    operands::added{ add.bias, add.row_bias, o.r ?
						(float)g.beta * get(add.r) : 0 }));
		}
	}
};

/*
 * Tile @block, if there is one; @room has a tile's, and what the key says stands before it
 * behind that. @join: what that is; @first: of its readers.
 */
static DEV inline void thin(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
			    float *room, uint32_t block, const struct rlx_g_join *join,
			    bool first)
{
	uint32_t across = ((uint32_t)g.n + THIN_COLS - 1) / THIN_COLS;
	uint32_t down = ((uint32_t)g.m + THIN_ROWS - 1) / THIN_ROWS;
	int col = (int)(block % across) * THIN_COLS, row = (int)(block / across % down) * THIN_ROWS;

	if (block / across / down >= rlx_k_gemm_batches(&g))
		return;	/* waves of 64 make wider tiles than the launch is for */

	operands o(g, env, block / across / down);
	struct thin_tile t = { g, o, room, row, col };
	struct thin_lane l = thin_lane_at(g, o, row, col);
	float c[THIN_TN][MMA_C] = {};
	struct thin_adds add = {};
	auto ready = [&] {		/* on its way while the product is made */
		add = t.adds((int)threadIdx.x);
	};

#if RLX_K2 & RLX_G_JOIN_NORM
	struct thin_norm<WAVE / 32> before(join->norm, env, l, room + (int)(blockDim.x / WAVE) *
					   THIN_ROWS * THIN_LD, row, first && !col);

	thin_sum<true, WAVE / 32>(g, l, c, [&] {
		if (RLX_K2 & RLX_G_JOIN_PICK)
			before.pick(join->pick, env, row, l);
		if (before.ADD)
			before.bring(env, l, row);
	}, ready, before);
#elif RLX_K2 & RLX_G_JOIN_ATTENTION
	struct thin_attention before(join->attention, env, room, (int)g.k, row, l);

	/* two steps ahead: heads want registers */
	thin_sum<true, 2>(g, l, c, [&] {
		ready();
		before.make();
	}, [] {}, before);
#else
	if (thin_wide(g, o))
		thin_sum<true, THIN_AHEAD>(g, l, c, [] {}, ready, thin_plain());
	else
		thin_sum<false, 1>(g, l, c, [] {}, ready, thin_plain());
#endif
	t.put_sums(c, add);
}

#endif
