/* SPDX-License-Identifier: MIT */
/*
 * Small-M GEMM with b by columns: what counts is how long one block takes
 * from its first load to its store. A block makes 16 rows of SMALL_M_COLS columns, its
 * warps split k (split-K), and operands go from memory straight into registers: a lane
 * reads 16 bytes of k at a time and gives them to two products, in the order of k
 * that this makes; any order serves that a and b have in common. Products that
 * follow each other, of one a and without residuals, share a launch; the norm or the
 * attention that makes a is done again by each block (prologue fusion), of which there are
 * few. A part of gemm_mma.cu, which has the types and conversions.
 *
 * Traffic: B once; A once for every SMALL_M_COLS columns, from the L2. The bound is latency:
 * one trip to memory for the operands, a reduction over the warps through shared memory, one
 * store. Sums are added up in one order. Limits: f16 or bf16; M up to 64 or so, where
 * gemm_wgmma.cu and gemm_mma_tile.h take over (rlx_g_gemm_small_m() decides).
 */
#ifndef RLX_G_GEMM_SMALL_M_H
#define RLX_G_GEMM_SMALL_M_H

/* GEMM_COLS: columns of a block, see rlx_g_small_m_cols(). */
#define SMALL_M_COLS	(GEMM_COLS > MMA_N ? GEMM_COLS : MMA_N)

#ifndef PROLOGUE_NORM	/* what is done before the product by each block: nothing */
#define PROLOGUE_NORM	0
#define PROLOGUE_GATHER	0
#define PROLOGUE_ADD	0
#define PROLOGUE_ATTENTION	0
#endif

enum {
	SMALL_M_ROWS = MMA_M,
	SMALL_M_K = 32,				/* of a step of a warp */
	SMALL_M_TN = SMALL_M_COLS / MMA_N,
	SMALL_M_AHEAD = SMALL_M_TN > 2 ? 2 : 4,	/* steps loaded at once */
	SMALL_M_A = MMA_LINES,			/* rows of a that a lane has */
	SMALL_M_LD = SMALL_M_COLS + 4,
	SMALL_M_WARPS = 12,			/* at most */
};

struct alignas(16) small_m_words {
	uint32_t	w[4];
};

/* What a lane reads of a and b. */
struct small_m_lane {
	const type_a	*a[SMALL_M_A];	/* rows; NULL: beyond the edge */
	const type_b	*b[SMALL_M_TN];	/* columns, likewise */
	int		share;		/* which quarter of a step is its own */
	int		first, step, n;	/* its first k; from one step to the next; all */
};

static DEV inline struct small_m_lane small_m_lane_at(const struct rlx_k_gemm &g, const operands &o,
						int row, int col)
{
	struct small_m_lane l;

	for (int i = 0; i < SMALL_M_A; i++) {
		int r = row + mma_a_row(2 * i);

		l.a[i] = r < (int)g.m ? o.a + r * (int64_t)g.lda : (const type_a *)0;
	}
	for (int j = 0; j < SMALL_M_TN; j++) {
		int c = col + j * MMA_N + mma_b_col(0);

		l.b[j] = c < (int)g.n ? o.b + c * (int64_t)g.ldb : (const type_b *)0;
	}
	l.share = WARP == 32 ? lane_id() % 4 : lane_id() / 16;
	l.first = warp_id() * SMALL_M_K + l.share * 8;
	l.step = (int)(blockDim.x / WARP) * SMALL_M_K;
	l.n = (int)g.k;
	return l;
}

/*
 * Eight 16-bit floats of a row from @k on; zeros beyond @n, and of no row. WIDE: they lie in
 * memory as they are, 16 bytes in one place.
 */
template <bool WIDE, class T>
static DEV inline struct small_m_words small_m_load(const T *row, int k, int n)
{
	struct small_m_words v = {};
	half h[8];

	if constexpr (WIDE) {
		load_words(v.w, row + k, row && k < n);
		return v;
	}
	/* all of them under way at a time */
#pragma unroll
	for (int i = 0; i < 8; i++)
		h[i] = to_elem(load_if(row + k + i, row && k + i < n));
	memcpy(&v, h, sizeof(v));
	return v;
}

/* The same of a row that the block has made in shared memory. */
template <class T> static DEV inline struct small_m_words small_m_near(const T *row, int k, int n)
{
	struct small_m_words v = {};

	if (row && k < n)
		v = *(const struct small_m_words *)(row + k);
	return v;
}

/* b, then a, of AHEAD steps from k on. */
template <bool WIDE, int AHEAD> struct small_m_stage {
	struct small_m_words b[AHEAD][SMALL_M_TN], a[AHEAD][SMALL_M_A];

	DEV void load(const struct small_m_lane &l, int k)
	{
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int j = 0; j < SMALL_M_TN; j++)
				b[s][j] = small_m_load<WIDE>(l.b[j], k + s * l.step, l.n);
	}

	/* NEAR: the rows are in shared memory */
	template <bool NEAR> DEV void load_a(const struct small_m_lane &l, int k)
	{
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int i = 0; i < SMALL_M_A; i++)
				if constexpr (NEAR)
					a[s][i] = small_m_near(l.a[i], k + s * l.step, l.n);
				else
					a[s][i] = small_m_load<WIDE>(l.a[i], k + s * l.step, l.n);
	}

	/* c += a b; @before makes a of what was read */
	template <class BEFORE>
	DEV void multiply(const struct small_m_lane &l, float (*c)[MMA_C], const BEFORE &before)
	{
		warp_sync();	/* lest loads be put off until registers are free */
		before(l, a);
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int p = 0; p < 4; p += 2) {
				uint32_t fa[MMA_A];

#pragma unroll
				for (int i = 0; i < MMA_A; i++)
					fa[i] = a[s][i % SMALL_M_A].w[p + i / SMALL_M_A];
#pragma unroll
				for (int j = 0; j < SMALL_M_TN; j++)
					mma<half>(c[j], fa, &b[s][j].w[p]);
			}
	}
};

/* Of a row in one warp: the mean, and the squares' distance from it. */
struct alignas(8) small_m_part {
	float	mean, far;
};

struct small_m_plain {
	enum { NEAR = 0 };

	template <class A> DEV void operator()(const struct small_m_lane &l, A a) const {}
};

/*
 * A layer norm before the GEMM: every block makes it of its rows, each of which
 * AHEAD steps of all warps are. Warps tell each other the mean of their part and the
 * squares' distance from it.
 */
template <int AHEAD> struct small_m_norm {
	enum { NEAR = 0, ADD = PROLOGUE_ADD };

	const struct rlx_k_norm	&n;
	struct small_m_part	*smem;		/* SMALL_M_ROWS for each warp */
	half			*y[SMALL_M_A];	/* to be written too; NULL: not here */
	float			gamma[AHEAD][8], beta[AHEAD][8];
	float			by_warps, by_n;	/* 1 / as many: dividing takes longer */
	struct small_m_words	add[AHEAD][SMALL_M_A];	/* to x, if there is something */

	DEV small_m_norm(const struct rlx_k_norm &norm, const struct rlx_g_env &env,
		      const struct small_m_lane &l, float *r, int row, bool write)
		: n(norm), smem((struct small_m_part *)r),
		  by_warps(1 / (float)(int)(blockDim.x / WARP)), by_n(1 / (float)(int)norm.n)
	{
		const float *by = RLX_G_PTR(const float, n.gamma);
		const float *more = RLX_G_PTR(const float, n.beta);
		half *out = RLX_G_PTR(half, n.y);

#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++) {
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
			     struct small_m_lane &l)
	{
		const half *table = RLX_G_PTR(const half, p.table);
		const void *idx = RLX_G_PTR(const void, p.idx);
		int32_t *bad = RLX_G_PTR(int32_t, p.bad);
		int rows = (int)live_checked(env, p.live);

#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++) {
			int at = row + mma_a_row(2 * i);
			int64_t k = at < rows ? load_index(idx, at, p.idx_type) : 0;

			l.a[i] = at < rows && index_in(&k, p.rows, bad) ? table + k * l.n :
				 (const half *)0;
		}
	}

	/* What is added to the rows. */
	DEV void bring(const struct rlx_g_env &env, const struct small_m_lane &l, int row)
	{
		const half *from = RLX_G_PTR(const half, n.residual);

#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int i = 0; i < SMALL_M_A; i++) {
				int at = row + mma_a_row(2 * i);

				load_words(add[s][i].w, from + at * n.residual_stride + l.first +
					   s * l.step, at < (int)n.rows);
			}
	}

	/*
	 * All of the lane's rows go through each step side by side: what takes time is to
	 * wait for the one before.
	 */
	DEV void operator()(const struct small_m_lane &l,
			    struct small_m_words (*a)[SMALL_M_A]) const
	{
		const float part = (float)(AHEAD * SMALL_M_K);
		float x[AHEAD][SMALL_M_A][8], mean[SMALL_M_A] = {}, far[SMALL_M_A] = {};
		int mine = warp_id() * SMALL_M_ROWS;

		take(a, x, mean);
		across(mean);
#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++)
			mean[i] *= 1 / part;
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int e = 0; e < 8; e++)
#pragma unroll
				for (int i = 0; i < SMALL_M_A; i++)
					far[i] += (x[s][i][e] - mean[i]) * (x[s][i][e] - mean[i]);
		across(far);
#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++)
			if (l.share == 0)
				smem[mine + mma_a_row(2 * i)] = small_m_part{ mean[i], far[i] };
		__syncthreads();
		gather(l, part, mean, far);
		put(l, a, x, mean, far);
	}

	/* Halves as floats, with what is added to them, and each row's sum. */
	DEV void take(const struct small_m_words (*a)[SMALL_M_A], float (*x)[SMALL_M_A][8],
		      float *sum) const
	{
#pragma unroll
		for (int s = 0; s < AHEAD; s++)
#pragma unroll
			for (int i = 0; i < SMALL_M_A; i++) {
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
		for (int m = WARP == 32 ? 1 : 16; m < (WARP == 32 ? 4 : 64); m *= 2)
#pragma unroll
			for (int i = 0; i < SMALL_M_A; i++)
				v[i] += warp_xor(v[i], m);
	}

	/* The rows' mean and variance from the warps' parts, which a row's lanes share out. */
	DEV void gather(const struct small_m_lane &l, float part, float *mean, float *far) const
	{
		const struct small_m_part *at = smem + mma_a_row(0);
		int warps = (int)(blockDim.x / WARP);
		struct small_m_part p[SMALL_M_WARPS / 4][SMALL_M_A];

#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++)
			mean[i] = far[i] = 0;
#pragma unroll
		for (int j = 0; j < SMALL_M_WARPS / 4; j++)
#pragma unroll
			for (int i = 0; i < SMALL_M_A; i++) {
				int w = j * 4 + l.share, own = w < warps ? w : warps - 1;

				p[j][i] = at[own * SMALL_M_ROWS + i * 8];
				if (w >= warps)
					p[j][i] = small_m_part{ 0, 0 };
				mean[i] += p[j][i].mean;
			}
		across(mean);
#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++)
			mean[i] *= by_warps;
#pragma unroll
		for (int j = 0; j < SMALL_M_WARPS / 4; j++)
#pragma unroll
			for (int i = 0; i < SMALL_M_A; i++) {
				float d = j * 4 + l.share < warps ? p[j][i].mean - mean[i] : 0;

				far[i] += p[j][i].far + part * d * d;
			}
		across(far);
	}

	DEV void put(const struct small_m_lane &l, struct small_m_words (*a)[SMALL_M_A],
		     const float (*x)[SMALL_M_A][8], const float *mean, const float *far) const
	{
#pragma unroll
		for (int i = 0; i < SMALL_M_A; i++) {
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
					*(struct small_m_words *)(y[i] + l.first + s * l.step) =
						a[s][i];
			}
		}
	}
};

#if PROLOGUE_ATTENTION
/*
 * Attention before the GEMM: every block makes that of its rows, a head of a batch row
 * at each warp, into shared memory as the rows of a.
 */
struct small_m_attention {
	enum { NEAR = 1 };

	typedef attention_short_kv<half, ATTENTION_WIDTH, ATTENTION_KEYS, ATTENTION_MASKED,
			       false> heads;

	const struct rlx_k_attention &a;
	const struct rlx_g_env	&env;
	half			*smem, *to;
	int			ld;
	uint32_t		first, len, batch;	/* of all rows; of the batch ones */
	uint32_t		mine, warps, jobs;
	heads::job		w;	/* the first one, known before anything is waited for */

	/* @r: shared memory of the block, of which the sums are not yet in need */
	DEV small_m_attention(const struct rlx_k_attention &attention,
			   const struct rlx_g_env &environment, float *r, int k, int row,
			   struct small_m_lane &l)
		: a(attention), env(environment), ld(RLX_G_JOIN_LD(k)),
		  first((uint32_t)row), len((uint32_t)a.q_len), batch(first / len),
		  mine((uint32_t)warp_id()), warps(blockDim.x / WARP), jobs(all_jobs()),
		  w(at(mine))
	{
		int smems = (int)(warps < jobs ? warps : jobs) * heads::SMEM;
		int sums = (int)warps * SMALL_M_ROWS * SMALL_M_LD * 2;

		smem = (half *)r + mine * heads::SMEM;
		to = (half *)r + (smems > sums ? smems : sums);
		for (int i = 0; i < SMALL_M_A; i++)
			l.a[i] = l.a[i] ? to + mma_a_row(2 * i) * ld : (const half *)0;
	}

	/* Heads of the batch rows that the block's rows are of. */
	DEV uint32_t all_jobs(void) const
	{
		uint32_t end = (first + SMALL_M_ROWS - 1) / len + 1, most = (uint32_t)a.batch;

		return ((end < most ? end : most) - batch) * (uint32_t)a.heads;
	}

	DEV struct heads::job at(uint32_t job) const
	{
		uint32_t n = (uint32_t)a.heads, b = batch + job / n;

		return heads::job_at(a, env, b, job % n, b * len < first ? first - b * len : 0);
	}

	DEV void make(void)
	{
		warp_sync();
		for (uint32_t i = mine; i < jobs; i += warps) {
			struct heads::job j = i == mine ? w : at(i);
			half *head = to + j.h * (int)a.v_dim;
			int from = j.b * (int)len - (int)first;

			/* heads have eights of columns */
			heads::attend(a, env, j, smem, [&](int q, int d, int n, float y, float z) {
				half *at = head + (from + q) * ld + d;

				if (from + q >= SMALL_M_ROWS)
					return;
				if (WARP == 32)
					*(uint32_t *)at = pack_halves<half>(y, z);
				else
					*at = from_f32<half>(y);
			});
			warp_sync();
		}
		__syncthreads();
	}

	template <class A> DEV void operator()(const struct small_m_lane &l, A at) const {}
};
#endif

/*
 * The sum of this warp's share of k. Waits for the preceding launch, then calls @first, and
 * @then while a is on its way.
 */
template <bool WIDE, int AHEAD, class FIRST, class THEN, class BEFORE>
static DEV inline void small_m_sum(const struct rlx_k_gemm &g, const struct small_m_lane &l,
				float (*c)[MMA_C], FIRST first, THEN then,
				const BEFORE &before)
{
	int k = l.first, all = (l.n + SMALL_M_K - 1) / SMALL_M_K * SMALL_M_K;
	struct small_m_stage<WIDE, AHEAD> stage;

	if (!g.b_fixed)
		pdl_wait();
	stage.load(l, k);
	if (g.b_fixed)
		pdl_wait();
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

static DEV inline bool small_m_wide(const struct rlx_k_gemm &g, const operands &o)
{
	return same_type<type_a, half>::yes && same_type<type_b, half>::yes &&
	       ((uint64_t)o.a | (uint64_t)o.b | g.lda * 2 | g.ldb * 2 | g.k * 2) % 16 == 0;
}

/* What is added to a sum, as it lies in memory: to convert it is to wait for it. */
struct small_m_adds {
	float	bias, row_bias;
	type_c	r;
};

/* A tile of a product, and what becomes of its sums. */
struct small_m_tile {
	const struct rlx_k_gemm	&g;
	const operands		&o;
	float			*smem;	/* SMALL_M_ROWS x SMALL_M_LD for each warp */
	int			row, col;

	/* Is there that element of the tile? */
	DEV bool has(int e) const
	{
		return e < SMALL_M_ROWS * SMALL_M_COLS && row + e / SMALL_M_COLS < (int)g.m &&
		       col + e % SMALL_M_COLS < (int)g.n;
	}

	DEV struct small_m_adds adds(int e) const
	{
		size_t r = (size_t)(row + e / SMALL_M_COLS), c = (size_t)(col + e % SMALL_M_COLS);
		struct small_m_adds x = {};
		bool on = has(e);

		if (o.bias && sizeof(type_c) == 2 && g.bias_as_c)
			x.bias = bits_f32(load_short((const uint16_t *)o.bias + c, on));
		else if (o.bias)
			x.bias = load_if(o.bias + c, on);
		if (o.row_bias)
			x.row_bias = load_if(o.row_bias + r, on);
		if (o.r)
			x.r = load_if(o.r + r * g.ldr + c, on);
		return x;
	}

	/* Of all warps; @add: to the element that is this thread's first one. */
	DEV void put_sums(const float (*c)[MMA_C], struct small_m_adds add) const
	{
		float *mine = smem + warp_id() * SMALL_M_ROWS * SMALL_M_LD;
		int warps = (int)(blockDim.x / WARP);

#pragma unroll
		for (int j = 0; j < SMALL_M_TN; j++)
#pragma unroll
			for (int i = 0; i < MMA_C; i++)
				mine[mma_c_row(i) * SMALL_M_LD + j * MMA_N + mma_c_col(i)] = c[j][i];
		__syncthreads();
#pragma unroll 1
		for (int e = (int)threadIdx.x; e < SMALL_M_ROWS * SMALL_M_COLS;
		     e += (int)blockDim.x) {
			int r = e / SMALL_M_COLS, k = e % SMALL_M_COLS;
			float sum[4] = {};	/* in turn, lest each waits for the one before */

			if (!has(e))
				continue;
#pragma unroll
			for (int w = 0; w < SMALL_M_WARPS; w++)
				sum[w % 4] += w < warps ?
					      smem[(w * SMALL_M_ROWS + r) * SMALL_M_LD + k] : 0;
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
 * Tile @block, if there is one; @smem has a tile's, and what the key says stands before it
 * behind that. @join: what that is; @first: of its readers.
 */
static DEV inline void small_m(const struct rlx_k_gemm &g, const struct rlx_g_env &env,
			    float *smem, uint32_t block, const struct rlx_g_horizontal *join,
			    bool first)
{
	uint32_t across = ((uint32_t)g.n + SMALL_M_COLS - 1) / SMALL_M_COLS;
	uint32_t down = ((uint32_t)g.m + SMALL_M_ROWS - 1) / SMALL_M_ROWS;
	int col = (int)(block % across) * SMALL_M_COLS,
	    row = (int)(block / across % down) * SMALL_M_ROWS;

	if (block / across / down >= rlx_k_gemm_batches(&g))
		return;	/* warps of 64 make wider tiles than the launch is for */

	operands o(g, env, block / across / down);
	struct small_m_tile t = { g, o, smem, row, col };
	struct small_m_lane l = small_m_lane_at(g, o, row, col);
	float c[SMALL_M_TN][MMA_C] = {};
	struct small_m_adds add = {};
	auto ready = [&] {		/* on its way while the product is made */
		add = t.adds((int)threadIdx.x);
	};

#if PROLOGUE_NORM
	struct small_m_norm<WARP / 32> before(join->norm, env, l, smem + (int)(blockDim.x / WARP) *
					   SMALL_M_ROWS * SMALL_M_LD, row, first && !col);

	small_m_sum<true, WARP / 32>(g, l, c, [&] {
		if (PROLOGUE_GATHER)
			before.pick(join->pick, env, row, l);
		if (before.ADD)
			before.bring(env, l, row);
	}, ready, before);
#elif PROLOGUE_ATTENTION
	struct small_m_attention before(join->attention, env, smem, (int)g.k, row, l);

	/* two steps ahead: heads want registers */
	small_m_sum<true, 2>(g, l, c, [&] {
		ready();
		before.make();
	}, [] {}, before);
#else
	if (small_m_wide(g, o))
		small_m_sum<true, SMALL_M_AHEAD>(g, l, c, [] {}, ready, small_m_plain());
	else
		small_m_sum<false, 1>(g, l, c, [] {}, ready, small_m_plain());
#endif
	t.put_sums(c, add);
}

#endif
