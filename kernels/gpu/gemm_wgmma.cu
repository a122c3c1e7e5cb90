// SPDX-License-Identifier: MIT
/*
 * GEMM of f16, bf16 or fp8 by Hopper's wgmma: persistent, warp-specialised blocks.
 *
 * Algorithm: one producer warpgroup of which a single thread asks TMA for tiles of A and B,
 * 1 or 2 consumer warpgroups that multiply what has arrived (each 64 rows of the tile). They
 * hand stages over by mbarriers: full[] counts bytes, empty[] counts consumers. A block goes
 * from one tile of the result to the next in the order of gemm_tile(), so that blocks which
 * run together share panels of A and B in the L2.
 *
 * Tiles: 64 or 128 rows by 64 to 256 columns by 64 of k, as many stages as
 * 225 KiB hold, 8 at most. Sums stay in registers: BN / 2 floats a thread.
 *
 * With few tiles and a long k several blocks sum parts of each tile's k (split-K): sums go to
 * memory as f32, and whose warp comes last for 16 rows of a tile adds them up, in one order.
 * Operands whose lines do not begin at 16 bytes are read from scratch, where a pass ahead has
 * put them (GEMM_REPACK).
 *
 * Traffic: A is read ceil(N / BN) times and B ceil(M / BM) times by way of the L2; C once.
 * B of weights that nobody writes is asked for before the preceding launch has ended (PDL).
 *
 * Source: PTX ISA, wgmma.mma_async and cp.async.bulk.tensor; the producer and consumer split
 * is that of CUTLASS's warp-specialised persistent kernels.
 *
 * Limits: sm_90a alone; A and B of one type.
 * fp8: the chip drops what is 2^-13 of a sum's largest term, so each stage is summed apart.
 */
#include "kernels/gpu/gemm_tile.h"
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/mma.h"
#include "kernels/gpu/repack_lines.h"
#include "kernels/gpu/wgmma.h"

/* Both operands have it. */
#define F8	(GEMM_TYPE_A >= GEMM_F8)
#if F8
typedef f16 half;
#else
typedef gemm_type<GEMM_TYPE_A>::type half;
#endif
#if GEMM_TYPE_C < GEMM_F8
typedef gemm_type<GEMM_TYPE_C>::type type_c;
#elif GEMM_TYPE_C == GEMM_F8
typedef f8e4m3 type_c;
#else
typedef f8e5m2 type_c;
#endif
typedef gemm_operands<float, half, half, type_c> operands;

#define A_TRANS	GEMM_TRANS_A
#define B_TRANS	(!GEMM_B_COLS)	/* k runs down the rows of b's tile */

enum {
	BM = GEMM_TILE_M, BN = GEMM_TILE_N, ACT = GEMM_ACT,
	GROUPS = GEMM_TILE_WARPGROUPS(BM), THREADS = GEMM_TILE_THREADS(BM),
	STAGES = GEMM_TILE_STAGES(BM, BN), STAGE = GEMM_TILE_STAGE(BM, BN),
	DEPTH = GEMM_TILE_DEPTH, ROW = DEPTH * sizeof(half),
	A_BYTES = BM * ROW, BOX = 64 * ROW,	/* of 64 x 64 elements */
	A_STEP = A_TRANS ? 16 * ROW : 32, B_STEP = B_TRANS ? 16 * ROW : 32,
	SUMS = BN / 2,				/* of a thread */
};

/* Where stages are handed over: TMA fills, the groups empty. */
struct stages {
	uint64_t	full[STAGES], empty[STAGES];
};

/* Steps of k. */
static DEV inline int steps_of(const struct rlx_k_gemm &a)
{
	int k = F8 ? (int)a.k / 2 : (int)a.k;

	return (k + DEPTH - 1) / DEPTH;
}

/* Blocks of one tile. */
static DEV inline uint32_t parts_of(const struct rlx_k_gemm &a)
{
	uint32_t tiles = ((uint32_t)a.m + BM - 1) / BM * (((uint32_t)a.n + BN - 1) / BN) *
			 (uint32_t)rlx_k_gemm_batches(&a);

	return GEMM_SPLIT_K ? gridDim.x / tiles : 1;
}

/* A tile of the result, and a block's steps of its k. */
struct spot {
	int		batch, row, col, first, end;
	uint32_t	tile, part, parts;

	DEV spot(const struct rlx_k_gemm &a, uint32_t down, uint32_t i)
	{
		uint32_t across = ((uint32_t)a.n + BN - 1) / BN, r, c, t;

		parts = parts_of(a);
		tile = t = GEMM_SPLIT_K ? i / parts : i;
		part = GEMM_SPLIT_K ? i % parts : 0;
		first = (int)((uint32_t)steps_of(a) * part / parts);
		end = (int)((uint32_t)steps_of(a) * (part + 1) / parts);
		batch = (int)(t / (down * across));
		gemm_tile(t % (down * across), down, across, &r, &c);
		row = (int)r * BM;
		col = (int)c * BN;
	}
};

static DEV inline uint32_t spots_down(const struct rlx_k_gemm &a, const struct rlx_g_env &env)
{
	return ((uint32_t)live_rows(env, (int64_t)a.m) + BM - 1) / BM;
}

static DEV inline uint32_t spots(const struct rlx_k_gemm &a, uint32_t down)
{
	return down * (((uint32_t)a.n + BN - 1) / BN) * (uint32_t)rlx_k_gemm_batches(&a) *
	       parts_of(a);
}

/* ---- the warp that loads ---- */

/* An operand whose tiles are asked for: its map, and where in it. */
template <bool TRANS> struct source {
	const void	*map;
	int		at[4];

	DEV source(const void *m, const size_t *step, int batch, size_t inner)
		: map(m), at{}
	{
		at[2] = step[1] ? batch % (int)inner : 0;
		at[3] = step[0] ? batch / (int)inner : 0;
	}

	/* The tile of rows (or columns) from @first on whose k begins at @k. */
	DEV void load(unsigned char *to, uint64_t *full, int first, int k)
	{
		at[0] = TRANS ? first : k;
		at[1] = TRANS ? k : first;
		tma_load(to, map, full, at);
	}
};

static DEV inline void load_b(unsigned char *stage, uint64_t *full, source<B_TRANS> &b, int col,
			      int step)
{
	for (int j = 0; j < (B_TRANS ? BN / 64 : 1); j++)
		b.load(stage + A_BYTES + j * BOX, full, col + j * 64, step * DEPTH);
}

/* Weights, which nobody writes, before the preceding launch has ended. */
static DEV inline void load_all(const struct rlx_k_gemm &a, const struct rlx_g_env &env,
				unsigned char *shared, struct stages *st)
{
	const unsigned char *maps = (const unsigned char *)env.maps;
	size_t inner = a.batch[1] ? a.batch[1] : 1;
	uint32_t down = spots_down(a, env);
	turn<STAGES> t = {};
	int ahead = 0;

	tensor_map_acquire(maps);
	tensor_map_acquire(maps + RLX_G_TENSOR_MAP_BYTES);
	if (a.b_fixed && !(GEMM_REPACK & RLX_G_REPACK_B) && blockIdx.x < spots(a, down)) {
		spot p(a, down, blockIdx.x);
		source<B_TRANS> sb(maps + RLX_G_TENSOR_MAP_BYTES, a.b_step, p.batch, inner);

		for (; p.first + ahead < p.end && ahead < STAGES; ahead++) {
			bar_expect(&st->full[ahead], STAGE);
			load_b(shared + ahead * STAGE, &st->full[ahead], sb, p.col,
			       p.first + ahead);
		}
	}
	pdl_wait();
	for (uint32_t i = blockIdx.x; i < spots(a, down); i += gridDim.x) {
		spot p(a, down, i);
		source<A_TRANS> sa(maps, a.a_step, p.batch, inner);
		source<B_TRANS> sb(maps + RLX_G_TENSOR_MAP_BYTES, a.b_step, p.batch, inner);

		for (int s = p.first; s < p.end; s++, t.next()) {
			unsigned char *to = shared + t.stage * STAGE;
			uint64_t *full = &st->full[t.stage];

			if (ahead) {	/* b is under way */
				ahead--;
			} else {
				bar_wait(&st->empty[t.stage], t.phase ^ 1);
				bar_expect(full, STAGE);
				load_b(to, full, sb, p.col, s);
			}
			for (int j = 0; j < (A_TRANS ? BM / 64 : 1); j++)
				sa.load(to + j * BOX, full, p.row + j * 64, s * DEPTH);
		}
	}
}

/* ---- the groups that multiply ---- */

static DEV inline void leave(uint64_t *empty)
{
	if (threadIdx.x % GROUP == 0)
		bar_arrive(empty);
}

#if F8
/*
 * All @steps. The chip leaves out of such a product's sum what is 2^-13 of its largest term or
 * less: sums of a stage are short, and are added up apart. So they are off by 4e-5 of all
 * terms where those are of both signs, by 1.2e-3 where they are of one.
 */
static DEV inline void multiply(float (&sum)[SUMS], int steps, const unsigned char *shared,
				struct stages *st, turn<STAGES> *t)
{
	int group = (int)threadIdx.x / GROUP;
	float d[SUMS];

#pragma unroll
	for (int i = 0; i < SUMS; i++)
		sum[i] = 0;
	for (int s = 0; s < steps; s++, t->next()) {
		const unsigned char *stage = shared + t->stage * STAGE;
		tile_at pa = tile_from(stage + group * BOX, BOX);
		tile_at pb = tile_from(stage + A_BYTES, BOX);

		bar_wait(&st->full[t->stage], t->phase);
		wgmma_fence();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++)
			wgmma_f8<BN, GEMM_TYPE_A == RLX_NUM_F8E5M2, GEMM_TYPE_B == RLX_NUM_F8E5M2>(
				d, tile_plus(pa, k * A_STEP), tile_plus(pb, k * B_STEP), k);
		wgmma_commit();
		wgmma_wait<0>();
		wgmma_settle(d);
		leave(&st->empty[t->stage]);
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			sum[i] += d[i];
	}
}
#else
/* All @steps. */
static DEV inline void multiply(float (&d)[SUMS], int steps, const unsigned char *shared,
				struct stages *st, turn<STAGES> *t)
{
	int group = (int)threadIdx.x / GROUP, last = 0;

	for (int s = 0; s < steps; s++, t->next()) {
		const unsigned char *stage = shared + t->stage * STAGE;
		tile_at pa = tile_from(stage + group * BOX, BOX);
		tile_at pb = tile_from(stage + A_BYTES, BOX);

		bar_wait(&st->full[t->stage], t->phase);
		wgmma_fence();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++)
			wgmma<BN, mma_kind<half>::bf, A_TRANS, B_TRANS>(
				d, tile_plus(pa, k * A_STEP), tile_plus(pb, k * B_STEP), s || k);
		wgmma_commit();
		wgmma_wait<1>();
		if (s)
			leave(&st->empty[last]);
		last = t->stage;
	}
	wgmma_wait<0>();
	wgmma_settle(d);
	leave(&st->empty[last]);
}
#endif

/* ---- several blocks for a tile ---- */

struct alignas(16) four_sums {
	float	v[4];
};

/*
 * A warp's sums of a part to memory, a thread's by 16 bytes beside those of others; true: all
 * parts were there, and @d is their sum, which is made in one order, whoever comes last.
 */
static DEV inline bool add_parts(float (&d)[SUMS], const struct rlx_k_gemm &a,
				 const struct rlx_g_env &env, const spot &p)
{
	enum { WARPS = GROUPS * GROUP / WARP, EACH = WARP * SUMS / 4 };	/* by 16 bytes */
	four_sums *all = (four_sums *)((char *)env.scratch + rlx_g_repack_bytes(&a, GEMM_REPACK)) +
			 ((int64_t)p.tile * p.parts * WARPS + warp_id()) * EACH + lane_id();
	uint32_t *count = env.zeros + p.tile * WARPS + warp_id(), before = 0;

#pragma unroll
	for (int i = 0; i < SUMS; i += 4)
		all[(int64_t)p.part * WARPS * EACH + i / 4 * WARP] =
			four_sums{ { d[i], d[i + 1], d[i + 2], d[i + 3] } };
	memory_fence();
	warp_sync();
	if (lane_id() == 0)
		before = atomic_add(count, 1u);
	if (shuffle(before, 0) != p.parts - 1)
		return false;
	memory_fence();
	if (lane_id() == 0)
		*count = 0;
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		d[i] = 0;
#pragma unroll 1
	for (uint32_t s = 0; s < p.parts; s++, all += WARPS * EACH)
#pragma unroll
		for (int i = 0; i < SUMS; i += 4) {
			four_sums v;

			load_new((uint32_t *)v.v, all + i / 4 * WARP);
#pragma unroll
			for (int j = 0; j < 4; j++)
				d[i + j] += v.v[j];
		}
	return true;
}

/* ---- the epilogue ---- */

/* Two elements side by side, or as many as there are; @whole: both, and aligned. */
template <class T> static DEV inline void load_two(const T *p, bool whole, int left, float *to)
{
	struct __attribute__((aligned(2 * sizeof(T)))) two { T v[2]; } v = {};

	if (whole) {
		v = *(const two *)p;
	} else {
		if (left > 0)
			v.v[0] = p[0];
		if (left > 1)
			v.v[1] = p[1];
	}
	to[0] = to_f32(v.v[0]);
	to[1] = to_f32(v.v[1]);
}

template <class T> static DEV inline bool by_pairs(const T *p, size_t ld)
{
	return ((uint64_t)p | ld * sizeof(T)) % (2 * sizeof(T)) == 0;
}

/* What rows and columns add to the sums, in the registers where they are. */
static DEV inline void add_lines(float *d, const struct rlx_k_gemm &a, const operands &o, int row,
			       int col)
{
	const float alpha = (float)a.alpha;

	if (alpha != 1)
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			d[i] *= alpha;
#if GEMM_SCALED
#pragma unroll
	for (int i = 0; i < SUMS; i += 4)
#pragma unroll
		for (int e = 0; e < 2; e++) {
			int c = col + wgmma_col(i + e);
			float by = c < (int)a.n ? load_float(o.scales, a.one_scale ? 0 : c,
							     a.scale_type) : 0;

			d[i + e] *= by;
			d[i + e + 2] *= by;
		}
#endif
	if (o.bias)
#pragma unroll
		for (int i = 0; i < SUMS; i += 4) {
			int left = (int)a.n - (col + wgmma_col(i));
			float b[2];

			load_two(o.bias + col + wgmma_col(i), by_pairs(o.bias, 0) && left > 1,
				 left, b);
			d[i] += b[0];
			d[i + 1] += b[1];
			d[i + 2] += b[0];
			d[i + 3] += b[1];
		}
	if (o.row_bias)
#pragma unroll
		for (int i = 0; i < 4; i += 2) {
			int r = row + wgmma_row(i);
			float b = r < (int)a.m ? o.row_bias[r] : 0;

#pragma unroll
			for (int j = i; j < SUMS; j += 4) {
				d[j] += b;
				d[j + 1] += b;
			}
		}
}

/* Lane q of four gives word j to lane j and gets, as word j, that of lane j. */
static DEV inline void exchange(uint32_t *w)
{
	bool odd = lane_id() & 1, upper = lane_id() & 2;

#pragma unroll
	for (int i = 0; i < 4; i += 2) {
		uint32_t got = warp_xor(odd ? w[i] : w[i + 1], 1);

		w[i] = odd ? got : w[i];
		w[i + 1] = odd ? w[i + 1] : got;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		uint32_t got = warp_xor(upper ? w[i] : w[i + 2], 2);

		w[i] = upper ? got : w[i];
		w[i + 2] = upper ? w[i + 2] : got;
	}
}

template <int N> struct __attribute__((aligned(4 * N))) words { uint32_t w[N]; };

/* Elements packed in words from @c, at once where all are there, else zeros for some. */
template <class T, int WORDS>
static DEV inline void load_some(const T *c, uint32_t *w, int left, bool wide)
{
	enum { N = 4 * WORDS / sizeof(T) };
	words<WORDS> all = {};
	T v[N] = {};

	if (wide && left >= N) {
		all = *(const words<WORDS> *)c;
		memcpy(w, &all, sizeof(all));
		return;
	}
#pragma unroll
	for (int i = 0; i < N; i++)
		if (i < left)
			v[i] = c[i];
	memcpy(w, v, sizeof(v));
}

template <class T, int WORDS>
static DEV inline void store_some(T *c, const uint32_t *w, int left, bool wide)
{
	enum { N = 4 * WORDS / sizeof(T) };
	words<WORDS> all;
	T v[N];

	memcpy(&all, w, sizeof(all));
	if (wide && left >= N) {
		*(words<WORDS> *)c = all;
		return;
	}
	memcpy(v, w, sizeof(v));
#pragma unroll
	for (int i = 0; i < N; i++)
		if (i < left)
			c[i] = v[i];
}

/*
 * A matrix of the result's shape from @row and @col on, by pieces that a lane has side
 * by side: of f32 two elements, so that four lanes have the 32 bytes that memory likes.
 */
template <class C> struct lines {
	C		*p;
	int64_t		ld;
	int		row, col, rows, cols;
	bool		wide;

	enum { PIECE = sizeof(C) <= 2 ? 8 : 2, WORDS = PIECE * sizeof(C) / 4 };

	DEV lines(C *at, size_t step, const struct rlx_k_gemm &a, int r, int c)
		: p(at), ld((int64_t)step), row(r), col(c), rows((int)a.m), cols((int)a.n),
		  wide(((uint64_t)at | step * sizeof(C)) % (4 * WORDS) == 0) {}

	/* Which elements, and how many are left of their row. */
	DEV int left(int i, C **at) const
	{
		int r = row + wgmma_row(i);
		int c = col + (PIECE == 2 ? wgmma_col(i) : i / 16 * 32 + lane_id() % 4 * 8);

		*at = p + (int64_t)r * ld + c;
		return r < rows ? cols - c : 0;
	}

	DEV void load(int i, uint32_t *w) const
	{
		C *at;
		int n = left(i, &at);

		load_some<C, WORDS>(at, w, n, wide);
	}

	DEV void store(int i, const uint32_t *w) const
	{
		C *at;
		int n = left(i, &at);

		store_some<C, WORDS>(at, w, n, wide);
	}
};

static DEV inline float first_of(uint32_t w, bf16) { return bits_f32(w << 16); }
static DEV inline float second_of(uint32_t w, bf16) { return bits_f32(w & 0xffff0000); }
static DEV inline float first_of(uint32_t w, f16) { return f16_to_f32((uint16_t)w); }
static DEV inline float second_of(uint32_t w, f16) { return f16_to_f32((uint16_t)(w >> 16)); }

static DEV inline void add_matrix(float *d, const lines<float> &r, float beta)
{
#pragma unroll
	for (int i = 0; i < SUMS; i += 2) {
		uint32_t w[2];

		r.load(i, w);
		d[i] += beta * bits_f32(w[0]);
		d[i + 1] += beta * bits_f32(w[1]);
	}
}

/* Four lanes have 16 bytes each of a row, and exchange them for what they add to. */
template <class C>
static DEV inline void add_matrix(float *d, const lines<C> &r, float beta)
{
#pragma unroll
	for (int i = 0; i < SUMS; i += 16)
#pragma unroll
		for (int h = i; h < i + 4; h += 2) {	/* the upper row and the lower */
			uint32_t w[4];

			r.load(h, w);
			exchange(w);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				d[h + 4 * j] += beta * first_of(w[j], C{});
				d[h + 4 * j + 1] += beta * second_of(w[j], C{});
			}
		}
}

static DEV inline void store_all(const float *d, const lines<float> &c)
{
#pragma unroll
	for (int i = 0; i < SUMS; i += 2) {
		uint32_t w[2] = { f32_bits(d[i]), f32_bits(d[i + 1]) };

		c.store(i, w);
	}
}

template <class C> static DEV inline void store_all(const float *d, const lines<C> &c)
{
#pragma unroll
	for (int i = 0; i < SUMS; i += 16)
#pragma unroll
		for (int h = i; h < i + 4; h += 2) {
			uint32_t w[4];

#pragma unroll
			for (int j = 0; j < 4; j++)
				w[j] = two_halves(from_f32<C>(d[h + 4 * j]).u,
						  from_f32<C>(d[h + 4 * j + 1]).u);
			exchange(w);
			c.store(h, w);
		}
}

/* The same of fp8: a lane has 8 bytes. */
template <bool E5, class C> static DEV inline void store_f8(const float *d, const lines<C> &c)
{
#pragma unroll
	for (int i = 0; i < SUMS; i += 16)
#pragma unroll
		for (int h = i; h < i + 4; h += 2) {
			uint32_t w[4];

#pragma unroll
			for (int j = 0; j < 4; j++)
				w[j] = pack_f8<E5>(d[h + 4 * j], d[h + 4 * j + 1]);
			exchange(w);
			w[0] |= w[1] << 16;
			w[1] = w[2] | w[3] << 16;
			c.store(h, w);
		}
}

static DEV inline void store_all(const float *d, const lines<f8e4m3> &c) { store_f8<false>(d, c); }
static DEV inline void store_all(const float *d, const lines<f8e5m2> &c) { store_f8<true>(d, c); }

static DEV inline void end_sums(float *d, const struct rlx_k_gemm &a, const operands &o, int row,
				int col)
{
	add_lines(d, a, o, row, col);
#if GEMM_TYPE_C < GEMM_F8
	if (o.r)
		add_matrix(d, lines<type_c>((type_c *)o.r, a.ldr, a, row, col), (float)a.beta);
#endif
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		d[i] = gemm_act(ACT, a, d[i]);
	store_all(d, lines<type_c>(o.c, a.ldc, a, row, col));
}

static DEV inline void multiply_all(const struct rlx_k_gemm &a, const struct rlx_g_env &env,
				    const unsigned char *shared, struct stages *st)
{
	int group = (int)threadIdx.x / GROUP;
	uint32_t down = spots_down(a, env);
	turn<STAGES> t = {};

	for (uint32_t i = blockIdx.x; i < spots(a, down); i += gridDim.x) {
		spot p(a, down, i);
		operands o(a, env, p.batch);
		float d[SUMS];

		multiply(d, p.end - p.first, shared, st, &t);
		if (GEMM_SPLIT_K && !add_parts(d, a, env, p))
			continue;
		end_sums(d, a, o, p.row + group * 64, p.col);
	}
}

RLX_G_KERNEL_ALONE(gemm_wgmma, struct rlx_k_gemm, THREADS)
{
	SHARED(struct stages, st, [1]);
	SHARED_DYNAMIC(shared);

	if (GEMM_REPACK && env.pass == 0) {
		pdl_wait();
		repack(a, env, GEMM_REPACK);
		return;
	}
	if (threadIdx.x == 0) {
		for (int i = 0; i < STAGES; i++) {
			bar_init(&st->full[i], 1);
			bar_init(&st->empty[i], GROUPS);
		}
		bar_inited();
	}
	__syncthreads();
	if ((int)threadIdx.x < GROUPS * GROUP) {
		regs_more<232>();
		pdl_wait();
		multiply_all(a, env, shared, st);
	} else {
		regs_fewer<40>();
		if (warp_id() == GROUPS * 4 && lane_id() == 0)
			load_all(a, env, shared, st);
	}
}
