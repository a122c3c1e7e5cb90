// SPDX-License-Identifier: MIT
/*
 * Weight-streaming GEMV: GEMM of up to 16 rows at the speed at which B comes from memory.
 *
 * Algorithm: a block has some columns, its warps split k (split-K). Each warp has a ring of stages
 * that asynchronous copies fill ahead of it; warps wait for nobody until the end, where their sums
 * meet in shared memory and are added up in one order. Which k an MMA sums first is of no matter:
 * a lane's fragments are 16 bytes side by side of A's rows, and of B's columns where those lie so.
 * Where B's rows do, transposed loads (ldmatrix) pick the same k.
 *
 * Traffic: B once, which is the bound (bytes of B over the memory's bandwidth); A once for each
 * block, from the L2. An RMS norm before (NORM) and a gated unit behind (GATED) are done on the
 * way: the norm's factor multiplies the sums, so that A needs no pass of its own.
 * Limits: f16 or bf16 (with NORM bf16); M <= 16; one batch; k and the lines of A and B multiples
 * of 8 elements. What does not fit goes by gemv.h, gemm_small_m.h or tiles.
 */
#include "kernels/gpu/gemm.h"
#include "kernels/gpu/mma.h"
#include "kernels/gemv_stream.h"

/*
 * STREAM_TYPE: of a and b, STREAM_TYPE_C: of c, as enum rlx_dtype. STREAM_COLS: columns of a
 * block. STREAM_16_ROWS: more than 8 rows. STREAM_B_FIXED: nobody writes b. STREAM_B_ROWS: b's
 * rows, of n, lie side by side.
 */
typedef rlx_t<STREAM_TYPE>::mem half;
typedef rlx_t<STREAM_TYPE_C>::mem type_c;
typedef gemm_operands<float, half, half, type_c> operands;

#define NORM		(STREAM_NORM != 0)
#define GATED		(STREAM_GATED != 0)
#define BOTH		(MMA_A == 4 && STREAM_16_ROWS)	/* rows 8 .. 15 too */
#define FIXED		(STREAM_B_FIXED != 0)
#define BY_ROWS		(STREAM_B_ROWS != 0)

enum {
	THREADS = STREAM_THREADS, WARPS = THREADS / RLX_WARP, STAGES = STREAM_STAGES,
	LEAST = GATED ? 2 : 1, FIT = (STREAM_COLS + MMA_N - 1) / MMA_N,
	TILES = FIT < LEAST ? LEAST : FIT,	/* of MMA_N columns */
	COLS = TILES * MMA_N,
	OUT = GATED ? COLS / 2 : COLS,		/* columns written */
	DEPTH = BY_ROWS ? 32 : 64,		/* k of a stage; of columns 8 x 16 bytes */
	HALVES = DEPTH / 32,
	STAGE = COLS * DEPTH * 2,		/* bytes */
	ROWS = 16,
	PITCH = COLS == 8 ? 8 : COLS + 8,	/* of sums: lanes store to banks of their own */
};

struct alignas(16) words { uint32_t w[4]; };

static DEV inline float low(uint32_t w) { return to_f32(half{ (uint16_t)w }); }
static DEV inline float high(uint32_t w) { return to_f32(half{ (uint16_t)(w >> 16) }); }

/* Which 16 bytes of a stage's half this lane has in fragments of either side. */
static DEV inline int piece(void)
{
	return MMA_A == 4 ? lane_id() % 4 : lane_id() / 16;
}

/* Two rows of a at one step, and what they are multiplied by. */
struct part {
	words	x[2][HALVES], gamma[HALVES];	/* of each 32 k of the step */
};

/* Rows of a as a warp reads them; gamma and the norm's sums on the way. */
struct rows {
	const half	*p[2], *gamma;	/* where this lane reads next */
	bool		is[2], scale;	/* beyond the last row there is nothing */
	float		squares[2];

	/* The next step; @left: elements that this lane may still read. */
	DEV part load(int left)
	{
		part q = {};

#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			bool in = left > h * 32;

			load_words(q.x[0][h].w, p[0] + h * 32, in && is[0]);
			if (BOTH)
				load_words(q.x[1][h].w, p[1] + h * 32, in && is[1]);
			if (NORM)
				load_words(q.gamma[h].w, gamma + h * 32, in && scale);
		}
		p[0] += WARPS * DEPTH;
		p[1] += WARPS * DEPTH;
		gamma += WARPS * DEPTH;
		return q;
	}

	DEV words scaled(const part &q, int i, int h)
	{
		words x = q.x[i][h];

		if (!NORM)
			return x;
#pragma unroll
		for (int e = 0; e < 4; e++) {
			float u = low(x.w[e]), v = high(x.w[e]);

			squares[i] += u * u + v * v;
			if (scale)
				x.w[e] = two_halves(from_f32<half>(u * low(q.gamma[h].w[e])).u,
						    from_f32<half>(v * high(q.gamma[h].w[e])).u);
		}
		return x;
	}
};

/*
 * A stage is COLS columns of DEPTH k, or DEPTH rows of COLS columns; in both cases
 * pieces of 16 bytes, PIECES to a line, in an order that keeps lanes to banks of their own.
 */
enum {
	PIECES = BY_ROWS ? COLS / 8 : DEPTH / 8, LINES = BY_ROWS ? DEPTH : COLS,
	ACROSS = RLX_WARP / PIECES,		/* lines of a copy of the whole warp */
	COPIES = LINES / ACROSS,
};

static DEV inline int place(int line, int at)
{
	int turn = !BY_ROWS ? (line & 1) * 4 : PIECES == 8 ? (line & 1) | (line >> 3 & 3) << 1 :
		   line >> 3 & 3;

	return line * PIECES + (at ^ turn);
}

/* Where this lane reads b next. */
struct source {
	const half	*p[2];		/* of the first line; of the gate's other half */
	int64_t		step, next;	/* elements to the lane's next line, to the next stage */
	int		columns;	/* of OUT that are there */
};

/* The next stage; @left: k that are left for the warp. */
static DEV inline void fetch(once_at stage, struct source &b, int left)
{
	int line = lane_id() / PIECES, at = lane_id() % PIECES;
	const half *p = b.p[0];

	if (left > 0)
#pragma unroll
		for (int i = 0; i < COPIES; i++, p += b.step) {
			int l = i * ACROSS + line;
			bool in = BY_ROWS ? l < left && at * 8 < b.columns :
				  at * 8 < left && i * ACROSS % OUT + line < b.columns;

			if (GATED && i == COPIES / 2)
				p = b.p[1];
			/* what else is in the cache, a above all, is read again */
			copy_once(stage + 16 * place(l, at), p, in ? 16 : 0);
		}
	copy_commit();
	b.p[0] += b.next;
	b.p[1] += b.next;
}

/* b's fragments of two tiles from tile @j on: words of k @p of part @h of a stage. */
static DEV inline void take_b(uint32_t (*b)[MMA_B], const words *stage, int h, int p, int j)
{
	if constexpr (!BY_ROWS) {
		for (int i = 0; i < 2 && j + i < TILES; i++) {
			const words *w = stage + place((j + i) * MMA_N + mma_b_col(0),
						       h * 4 + piece());

			b[i][0] = w->w[p];
			b[i][1] = w->w[p + 1];
		}
	} else if constexpr (MMA_LDMATRIX) {
		/* lanes name rows: those of k that a's lanes have in this place */
		int r = lane_id() % 16;
		int line = h * 32 + r % 8 / 2 * 8 + r % 2 + r / 8 * 2 + p * 2;

		ldmatrix(b[0], stage + place(line, j + lane_id() / 16), 4, true);
	} else {
		for (int i = 0; i < 2; i++)
			for (int e = 0; e < 4; e += 2) {
				int line = h * 32 + piece() * 8 + p * 2 + e;
				int col = (j + i) * MMA_N + mma_b_col(0);
				const half *u = (const half *)(stage + place(line, col / 8));
				const half *v = (const half *)(stage + place(line + 1, col / 8));

				b[i][e / 2] = two_halves(u[col % 8].u, v[col % 8].u);
			}
	}
}

static DEV inline void multiply(float (*c)[MMA_C], const words *stage, const words *xa,
				const words *xb)
{
#pragma unroll
	for (int h = 0; h < HALVES; h++)
#pragma unroll
		for (int p = 0; p < 4; p += 2) {
#if RLX_WARP == 32
			uint32_t a[4] = { xa[h].w[p], xb[h].w[p], xa[h].w[p + 1], xb[h].w[p + 1] };
#else
			uint32_t a[2] = { xa[h].w[p], xa[h].w[p + 1] };
#endif
#pragma unroll
			for (int j = 0; j < TILES; j += 2) {
				uint32_t b[2][MMA_B];

				take_b(b, stage, h, p, j);
				mma<half>(c[j], a, b[0]);
				if (j + 1 < TILES)
					mma<half>(c[j + 1], a, b[1]);
			}
		}
}

static DEV inline float get(type_c x) { return to_f32(x); }
static DEV inline type_c put(float x) { return from_f32<type_c>(x); }

/* Sums of all warps, then the epilogue of each. @smem: WARPS x (ROWS x PITCH), WARPS x ROWS */
static DEV inline void finish(const struct rlx_k_gemv_stream &a, const operands &o,
			      int64_t first, const float *smem)
{
	const float *squares = smem + WARPS * ROWS * PITCH;

	for (int e = (int)threadIdx.x; e < (int)a.g.m * OUT; e += THREADS) {
		int r = e / OUT, c = e % OUT;
		float v = 0, gate = 0, sum = 0, by;

#pragma unroll
		for (int i = 0; i < WARPS; i++) {
			v += smem[(i * ROWS + r) * PITCH + c];
			if (GATED)
				gate += smem[(i * ROWS + r) * PITCH + OUT + c];
			if (NORM)
				sum += squares[i * ROWS + r];
		}
		by = NORM ? rsqrt_f32(sum / (float)a.g.k + a.eps) : 1;
		if (first + c >= (int64_t)a.g.n)
			continue;
		if (!GATED) {
			o.finish(a.g, (size_t)r, (size_t)(first + c), v * by, get, put);
			continue;
		}
		v *= by * (float)a.g.alpha;
		gate *= by * (float)a.g.alpha;
		if (a.gate == RLX_GATE_FIRST) {
			float up = gate;

			gate = v;
			v = up;
		}
		/* from -200 on it is 0, at -inf as well */
		o.c[r * a.g.ldc + first + c] =
			put(v * fmaxf(gate, -200.0f) / (1 + expf(-gate)));
	}
}

/* What a warp found, for finish(). */
static DEV inline void leave(float *smem, const float (*c)[MMA_C], const struct rows &x)
{
	float *mine = smem + warp_id() * ROWS * PITCH;
	float *squares = smem + WARPS * ROWS * PITCH + warp_id() * ROWS;

#pragma unroll
	for (int j = 0; j < TILES; j++)
#pragma unroll
		for (int e = 0; e < MMA_C; e++)
			if (BOTH || MMA_A != 4 || e < 2)
				mine[mma_c_row(e) * PITCH + j * MMA_N + mma_c_col(e)] = c[j][e];
	if (!NORM)
		return;
#pragma unroll
	for (int i = 0; i < (BOTH ? 2 : 1); i++) {
		float s = x.squares[i];

		/* lanes of one row */
		for (int m = MMA_A == 4 ? 1 : 16; m < (MMA_A == 4 ? 4 : RLX_WARP); m *= 2)
			s += warp_xor(s, m);
		if (piece() == 0)
			squares[mma_a_row(0) + 8 * i] = s;
	}
}

static DEV inline struct source source_of(const struct rlx_k_gemv_stream &a, const half *b,
					  int64_t first)
{
	int line = lane_id() / PIECES, at = lane_id() % PIECES * 8, k = warp_id() * DEPTH;
	int64_t ldb = (int64_t)a.g.ldb, left = (int64_t)a.g.n - first;
	struct source s = { { b, b }, ACROSS * ldb, WARPS * DEPTH * (BY_ROWS ? ldb : 1),
			    left < OUT ? (int)left : OUT };

	s.p[0] += BY_ROWS ? (k + line) * ldb + first + at : (first + line) * ldb + k + at;
	s.p[1] = s.p[0] + (int64_t)a.g.n * ldb;
	return s;
}

/* What the warp will read of a vector, at @p for its first step: as many lines as steps. */
static DEV inline void prefetch_steps(const half *p, int left)
{
	for (int i = lane_id(); i * WARPS * DEPTH < left; i += RLX_WARP)
		prefetch_l1(p + i * WARPS * DEPTH);
}

RLX_G_KERNEL_PDL(gemv_stream, struct rlx_k_gemv_stream, THREADS)
{
	SHARED_DYNAMIC(shared);
	const unsigned char *ring = shared + warp_id() * STAGES * STAGE;
	const once_at begin = once_from(ring);
	once_at to = begin;
	int64_t first = (int64_t)blockIdx.x * OUT;
	struct source b = source_of(a, RLX_G_PTR(const half, a.g.b), first);
	int k = (int)a.g.k, at = warp_id() * DEPTH, ahead = at, stage = 0;
	float c[TILES][MMA_C] = {};

	if (!FIXED)	/* else nobody writes b: its first stages come while others end */
		pdl_wait();
#pragma unroll
	for (int i = 0; i < STAGES - 1; i++, to += STAGE, ahead += WARPS * DEPTH)
		fetch(to, b, k - ahead);

	const half *gamma = RLX_G_PTR(const half, a.gamma);
	operands o(a.g, env, 0);

	if (NORM && gamma)
		prefetch_steps(gamma + at, k - at);
	if (FIXED)
		pdl_wait();
	if (a.g.m == 1)		/* few lines: not one trip to memory for each step */
		prefetch_steps(o.a + at, k - at);

	int row = mma_a_row(0), mine = piece() * 8;
	struct rows x = { { o.a + row * a.g.lda + at + mine,
			    o.a + (row + 8) * a.g.lda + at + mine },
			  gamma + at + mine,
			  { row < (int)a.g.m, row + 8 < (int)a.g.m }, gamma != 0, {} };
	part q = x.load(k - at - mine);

	if (o.r && (int)threadIdx.x < (int)a.g.m)	/* wanted at the very end */
		prefetch_l1(o.r + threadIdx.x * a.g.ldr + first);
	for (; at < k; at += WARPS * DEPTH, ahead += WARPS * DEPTH) {
		part next = x.load(k - at - WARPS * DEPTH - mine);
		words xa[HALVES], xb[HALVES] = {};

#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			xa[h] = x.scaled(q, 0, h);
			if (BOTH)
				xb[h] = x.scaled(q, 1, h);
		}
		copy_wait<STAGES - 2>();
		warp_sync();
		/* into the stage that the warp has left behind */
		fetch(to, b, k - ahead);
		multiply(c, (const words *)(ring + stage * STAGE), xa, xb);
		to = to == begin + (STAGES - 1) * STAGE ? begin : to + STAGE;
		stage = stage + 1 < STAGES ? stage + 1 : 0;
		q = next;
	}
	copy_wait<0>();
	__syncthreads();
	leave((float *)shared, c, x);
	__syncthreads();
	finish(a, o, first, (const float *)shared);
}
