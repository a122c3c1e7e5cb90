/* SPDX-License-Identifier: MIT */
/*
 * A tile of a GEMM of f16, bf16 or fp8 by wgmma: what gemm_wgmma.cu and conv_wgmma.cu share.
 *
 * Algorithm: stages of shared memory that a producer fills by TMA and 1 or 2 consumer warpgroups
 * multiply (each 64 rows of the tile), handed over by mbarriers: full[] counts bytes, empty[]
 * counts consumers. Then the epilogue, in the registers where the sums are.
 *
 * Tiles: 64 or 128 rows by 64 to 256 columns by 64 of k, as many stages as 225 KiB hold, or
 * half of that for each of two blocks (RLX_G_BLOCKS), 8 at most. Sums stay in registers: BN / 2
 * floats a thread.
 * A stage has lines of 128 bytes of k, or of 64 or 32 (GEMM_TILE_LINE) in as many pieces.
 *
 * Traffic: C once, by 16 bytes a lane; of f32 by 8.
 * Limits: sm_90a alone; both operands of one type.
 * fp8: the chip drops what is 2^-13 of a sum's largest term, so each stage is summed apart.
 */
#ifndef RLX_G_GEMM_WGMMA_TILE_H
#define RLX_G_GEMM_WGMMA_TILE_H

#include "kernels/gpu/gemm_tile.h"
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/mma.h"
#include "kernels/gpu/wgmma.h"

/* Bytes of k that lie together in a stage; a step of less than 128 is made of pieces. */
#ifndef GEMM_TILE_LINE
#define GEMM_TILE_LINE	128
#endif

/* Blocks of a multiprocessor at a time. */
#ifndef RLX_G_BLOCKS
#define RLX_G_BLOCKS	1
#endif

/* Sums are stored in f32, without a conversion. */
#ifndef SUMS_STORED
#define SUMS_STORED	(GEMM_TYPE_C == GEMM_F32)
#endif

/*
 * Lines of the result at odd places are shifted into pieces of 16 bytes, which is a lot of code:
 * of who has such lines as a rule.
 */
#ifndef STORE_SHIFTED
#define STORE_SHIFTED	0
#endif

/* Both operands have it. */
#define F8	(GEMM_TYPE_A >= GEMM_F8)
#if F8
typedef f16 half;
#else
typedef rlx_t<GEMM_TYPE_A>::mem half;
#endif
#if GEMM_TYPE_C < GEMM_F8
typedef rlx_t<GEMM_TYPE_C>::mem type_c;
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
	STAGES = GEMM_TILE_STAGES(BM, BN, RLX_G_BLOCKS), STAGE = GEMM_TILE_STAGE(BM, BN),
	DEPTH = GEMM_TILE_DEPTH, ROW = DEPTH * sizeof(half),
	LINE = GEMM_TILE_LINE, SLICES = LINE / 32,	/* products of a piece */
	A_BYTES = BM * ROW, BOX = 64 * LINE,	/* of 64 rows; of 64 x 64 elements */
	A_STEP = A_TRANS ? 16 * ROW : 32, B_STEP = B_TRANS ? 16 * ROW : 32,
	SUMS = BN / 2,				/* of a thread */
};

/* Where stages are handed over: TMA fills, the groups empty. */
struct stages {
	uint64_t	full[STAGES], empty[STAGES];
};

static DEV inline void stages_init(struct stages *st)
{
	if (threadIdx.x == 0) {
		for (int i = 0; i < STAGES; i++) {
			bar_init(&st->full[i], 1);
			bar_init(&st->empty[i], GROUPS);
		}
		bar_inited();
	}
	__syncthreads();
}

/* ---- the groups that multiply ---- */

/* What product @k of a stage reads, whose pieces of @edge rows or columns follow one another. */
static DEV inline tile_at slice(tile_at first, int k, int edge, int step)
{
	return tile_plus(first, k / SLICES * edge * LINE + k % SLICES * step);
}

static DEV inline void leave(uint64_t *empty)
{
	if (threadIdx.x % GROUP == 0)
		bar_arrive(empty);
}

#if F8
/*
 * All @steps of k. The chip leaves out of such a sum what is 2^-13 of its largest term or
 * less: sums of a stage are short, and are added up apart. So they are off by 4e-5 of all
 * terms where those are of both signs, by 1.2e-3 where they are of one.
 */
static DEV inline void multiply(float (&sum)[SUMS], int steps, const unsigned char *shared,
				struct stages *st, pipeline_state<STAGES> *t)
{
	int group = (int)threadIdx.x / GROUP;
	float d[SUMS];

#pragma unroll
	for (int i = 0; i < SUMS; i++)
		sum[i] = 0;
	for (int s = 0; s < steps; s++, t->next()) {
		const unsigned char *stage = shared + t->stage * STAGE;
		tile_at pa = tile_from<LINE>(stage + group * BOX, BOX);
		tile_at pb = tile_from<LINE>(stage + A_BYTES, BOX);

		bar_wait(&st->full[t->stage], t->phase);
		wgmma_fence();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++)
			wgmma_f8<BN, GEMM_TYPE_A == RLX_F8E5M2, GEMM_TYPE_B == RLX_F8E5M2>(
				d, slice(pa, k, BM, A_STEP), slice(pb, k, BN, B_STEP), k);
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
/*
 * All @steps of k. Sums that are stored as they are (SUMS_STORED) must begin as something: else
 * the assembler takes those of the tile before for what the first product reads, finds
 * instructions that read them, too, and lets one product wait for the other.
 */
static DEV inline void multiply(float (&d)[SUMS], int steps, const unsigned char *shared,
				struct stages *st, pipeline_state<STAGES> *t)
{
	int group = (int)threadIdx.x / GROUP, last = 0;

#pragma unroll
	for (int i = 0; SUMS_STORED && i < SUMS; i++)
		d[i] = 0;
	for (int s = 0; s < steps; s++, t->next()) {
		const unsigned char *stage = shared + t->stage * STAGE;
		tile_at pa = tile_from<LINE>(stage + group * BOX, BOX);
		tile_at pb = tile_from<LINE>(stage + A_BYTES, BOX);

		bar_wait(&st->full[t->stage], t->phase);
		wgmma_fence();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++)
			wgmma<BN, mma_kind<half>::bf, A_TRANS, B_TRANS>(
				d, slice(pa, k, BM, A_STEP), slice(pb, k, BN, B_STEP), s || k);
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

/* What columns, from @col on, of which there are @n, add to the sums. */
template <int N, class T>
static DEV inline void add_bias(float *d, const T *bias, int col, int n)
{
#pragma unroll
	for (int i = 0; i < N; i += 4) {
		int left = n - (col + wgmma_col(i));
		float b[2];

		load_two(bias + col + wgmma_col(i), by_pairs(bias, 0) && left > 1, left, b);
		d[i] += b[0];
		d[i + 1] += b[1];
		d[i + 2] += b[0];
		d[i + 3] += b[1];
	}
}

/* What rows and columns add to the sums, in the registers where they are. */
template <int N>
static DEV inline void add_lines(float *d, const struct rlx_k_gemm &a, const operands &o, int row,
				 int col)
{
	const float alpha = (float)a.alpha;

	if (alpha != 1)
#pragma unroll
		for (int i = 0; i < N; i++)
			d[i] *= alpha;
#if GEMM_SCALED
#pragma unroll
	for (int i = 0; i < N; i += 4)
#pragma unroll
		for (int e = 0; e < 2; e++) {
			int c = col + wgmma_col(i + e);
			float by = c < (int)a.n ? load_float(o.scales, a.one_scale ? 0 : c,
							     a.scale_type) : 0;

			d[i + e] *= by;
			d[i + e + 2] *= by;
		}
#endif
	if (o.bias && sizeof(type_c) == 2 && a.bias_as_c)
		add_bias<N>(d, (const type_c *)o.bias, col, (int)a.n);
	else if (o.bias)
		add_bias<N>(d, o.bias, col, (int)a.n);
	if (o.row_bias)
#pragma unroll
		for (int i = 0; i < 4; i += 2) {
			int r = row + wgmma_row(i);
			float b = r < (int)a.m ? o.row_bias[r] : 0;

#pragma unroll
			for (int j = i; j < N; j += 4) {
				d[j] += b;
				d[j + 1] += b;
			}
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

	/* All of the warpgroup's rows and @n columns are there, and aligned: no piece is asked. */
	DEV bool whole(int n) const { return wide && row + 64 <= rows && col + n <= cols; }
	DEV words<WORDS> get(int i) const
	{
		C *at;

		left(i, &at);
		return *(const words<WORDS> *)at;
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

template <int N> static DEV inline void add_matrix(float *d, const lines<float> &r, float beta)
{
#pragma unroll
	for (int i = 0; i < N; i += 2) {
		uint32_t w[2];

		r.load(i, w);
		d[i] += beta * bits_f32(w[0]);
		d[i + 1] += beta * bits_f32(w[1]);
	}
}

/*
 * Four lanes have 16 bytes each of a row, and exchange them for what they add to. Up to eight
 * pieces of a lane, of its upper row and its lower one, are under way at a time: behind a branch
 * each would wait for memory by itself.
 */
template <int N, class C>
static DEV inline void add_matrix(float *d, const lines<C> &r, float beta)
{
	enum { AHEAD = N % 64 ? 4 : 8 };
	bool whole = r.whole(2 * N);

#pragma unroll
	for (int i = 0; i < N; i += AHEAD * 8) {
		words<4> w[AHEAD];

		if (whole)
#pragma unroll
			for (int k = 0; k < AHEAD; k++)
				w[k] = r.get(i + k / 2 * 16 + k % 2 * 2);
		else
#pragma unroll
			for (int k = 0; k < AHEAD; k++)
				r.load(i + k / 2 * 16 + k % 2 * 2, w[k].w);
#pragma unroll
		for (int k = 0; k < AHEAD; k++) {
			int h = i + k / 2 * 16 + k % 2 * 2;

			exchange(w[k].w);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				d[h + 4 * j] += beta * first_of(w[k].w[j], C{});
				d[h + 4 * j + 1] += beta * second_of(w[k].w[j], C{});
			}
		}
	}
}

template <int N> static DEV inline void store_all(const float *d, const lines<float> &c)
{
#pragma unroll
	for (int i = 0; i < N; i += 2) {
		uint32_t w[2] = { f32_bits(d[i]), f32_bits(d[i + 1]) };

		c.store(i, w);
	}
}

#if STORE_SHIFTED
/*
 * The 16 bytes that begin @odd elements before those of @w: the last of @before, the first of @w.
 * By halves of what is left, so that nothing has an index.
 */
static DEV inline words<4> words_behind(const uint32_t *before, const uint32_t *w, int odd)
{
	uint32_t v[8] = { before[0], before[1], before[2], before[3], w[0], w[1], w[2], w[3] };
	int by = 8 - odd;	/* elements of @before that are left out, 1 to 8 */
	words<4> out;

#pragma unroll
	for (int i = 0; i < 4; i++)
		v[i] = by & 8 ? v[i + 4] : v[i];
#pragma unroll
	for (int i = 0; i < 6; i++)
		v[i] = by & 4 ? v[i + 2] : v[i];
#pragma unroll
	for (int i = 0; i < 5; i++)
		v[i] = by & 2 ? v[i + 1] : v[i];
#pragma unroll
	for (int i = 0; i < 4; i++)
		out.w[i] = by & 1 ? v[i] >> 16 | v[i + 1] << 16 : v[i];
	return out;
}

/* Those of eight elements from @c on, at 16 bytes, that are before @end and not before @first. */
template <class C>
static DEV inline void store_between(C *c, const words<4> &w, const C *first, const C *end)
{
	C v[8];

	if (c >= first && c + 8 <= end) {
		*(words<4> *)c = w;
		return;
	}
	memcpy(v, &w, sizeof(v));
#pragma unroll
	for (int i = 0; i < 8; i++)
		if (c + i >= first && c + i < end)
			c[i] = v[i];
}

/*
 * Lines at odd places, by pieces that begin at 16 bytes all the same: each lane's end is in the
 * next one's piece. Behind the last of four is the first one's next piece, or a piece of its own.
 */
template <int N, class C> static DEV inline void store_odd(const float *d, const lines<C> &c)
{
	const int quad = lane_id() & 3, ahead = (lane_id() & ~3) | ((quad + 3) & 3);

	if (c.row + (int)threadIdx.x % GROUP / 32 * 16 >= c.rows)	/* all of the warp's */
		return;
#pragma unroll
	for (int h = 0; h < 4; h += 2) {
		const int r = c.row + wgmma_row(h), left = c.cols - c.col;
		C *first = c.p + (int64_t)r * c.ld + c.col, *at = first + quad * 8;
		const C *end = first + (r >= c.rows ? 0 : left < 2 * N ? left : 2 * N);
		const int odd = (int)((uint64_t)first % 16 / sizeof(C));
		uint32_t last[4] = {};

#pragma unroll
		for (int i = 0; i < N; i += 16, at += 32) {
			uint32_t w[4], before[4];

			if (c.col + i * 2 >= c.cols + 32)
				break;
#pragma unroll
			for (int j = 0; j < 4; j++)
				w[j] = two_halves(from_f32<C>(d[i + h + 4 * j]).u,
						  from_f32<C>(d[i + h + 4 * j + 1]).u);
			exchange(w);
#pragma unroll
			for (int j = 0; j < 4; j++) {
				uint32_t got = shuffle(w[j], ahead);

				before[j] = quad ? got : last[j];
				last[j] = got;
			}
			store_between(at - odd, words_behind(before, w, odd), first, end);
		}
		if (!quad && odd) {
			const uint32_t none[4] = {};

			store_between(at - odd, words_behind(last, none, odd), first, end);
		}
	}
}
#else
/*
 * Lines at odd places: four lanes have eight neighbours, which exchanged would be eight stores. By
 * pairs where lines begin at such: a store takes as long as the sectors of memory that it meets.
 */
template <int N, class C> static DEV inline void store_odd(const float *d, const lines<C> &c)
{
	const bool pairs = by_pairs(c.p, (size_t)c.ld);

#pragma unroll
	for (int i = 0; i < N; i += 2) {
		int r = c.row + wgmma_row(i), k = c.col + wgmma_col(i);
		C *p = c.p + (int64_t)r * c.ld + k, v[2] = { from_f32<C>(d[i]),
							     from_f32<C>(d[i + 1]) };

		if (r >= c.rows || k >= c.cols)
			continue;
		if (pairs && k + 1 < c.cols) {
			*(uint32_t *)p = two_halves(v[0].u, v[1].u);
			continue;
		}
		p[0] = v[0];
		if (k + 1 < c.cols)
			p[1] = v[1];
	}
}
#endif

template <int N, class C> static DEV inline void store_all(const float *d, const lines<C> &c)
{
	if (!c.wide) {
		store_odd<N>(d, c);
		return;
	}
#pragma unroll
	for (int i = 0; i < N; i += 16)
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
template <int N, bool E5, class C>
static DEV inline void store_f8(const float *d, const lines<C> &c)
{
#pragma unroll
	for (int i = 0; i < N; i += 16)
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

template <int N> static DEV inline void store_all(const float *d, const lines<f8e4m3> &c)
{
	store_f8<N, false>(d, c);
}

template <int N> static DEV inline void store_all(const float *d, const lines<f8e5m2> &c)
{
	store_f8<N, true>(d, c);
}

/*
 * With slow activations by parts that take each other's registers, so that there is code for one
 * alone: a block runs it but once or twice, and that of all sums takes longer to come from memory
 * than to run. Of lines at odd places each part would have ends of its own.
 */
static DEV inline void end_sums(float *d, const struct rlx_k_gemm &a, const operands &o, int row,
				int col)
{
	enum { PART = STORE_SHIFTED || ACT <= RLX_ACT_RELU ? SUMS : 32 };

	static_assert(SUMS % PART == 0, "parts are alike");
#pragma unroll 1
	for (int n = 0; n < SUMS / PART; n++, col += 2 * PART) {
		add_lines<PART>(d, a, o, row, col);
#if GEMM_TYPE_C < GEMM_F8
		if (o.r)
			add_matrix<PART>(d, lines<type_c>((type_c *)o.r, a.ldr, a, row, col),
					 (float)a.beta);
#endif
#pragma unroll
		for (int i = 0; i < PART; i++)
			d[i] = gemm_act(ACT, a, d[i]);
		store_all<PART>(d, lines<type_c>(o.c, a.ldc, a, row, col));
#pragma unroll
		for (int i = 0; i < SUMS - PART; i++)
			d[i] = d[i + PART];
	}
}

#endif
