// SPDX-License-Identifier: MIT
/*
 * Convolutions of f16 or bf16, channels last, by Hopper's wgmma: persistent, warp-specialised
 * blocks.
 *
 * Algorithm: a GEMM whose rows are output pixels, columns output channels, and k taps times input
 * channels, taps outside (implicit GEMM). Of each step the producer has TMA bring what one tap of
 * BM pixels that follow one another reads (im2col mode: zeros are the padding) and that tap's
 * weights of BN channels, 64 input channels deep; the rest is gemm_wgmma_tile.h. Of 32 channels or
 * 16 (CONV_CHANNELS), a step has two taps or four: few channels would leave most of 64 zeros.
 * A plain x is turned first, by a pass of its own (CONV_REPACKED). One of up to 8 channels with a
 * row's padding in it (8): then a row of taps is one run of elements, and taken as one tap of so
 * many channels, of places a stride of pixels of 8 channels apart. With an even stride pixels of
 * up to 4 channels have 4 (4), which are as many bytes apart as TMA can tell; so have the taps of
 * weights then, by the same pass. Others have channels filled up to eights (1).
 * Where y is to be plain (CONV_PLAIN_Y), the product is the other way round, for each image: rows
 * are output channels, columns pixels, so that neighbours in y are neighbours of a lane's. Images
 * that are too small for tiles of their own are one row of pixels (2), which go to their places by
 * one or two.
 * Small images split k (split-K): blocks leave parts in f32 at scratch, and a second pass adds
 * them up in order.
 *
 * Traffic: x is read taps * ceil(oc / BN) times and w ceil(pixels / BM) times by way of the L2
 * (y plain: BM, BN the other way round);
 * y once, of x's type or f32; parts, and an x that is turned, are written and read once.
 *
 * Source: implicit GEMM, Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014);
 * PTX ISA, tensor copies in im2col mode, whose corners and offsets are as in CUTLASS's
 * convolutions.
 *
 * Limits: sm_90a alone; one or two spatial dimensions, one group, input channels in eights where x
 * is not plain; what a tensor map can say (launch_conv.h: strides up to 8, padding to 128, taps to
 * 255 pixels apart).
 */
#define GEMM_TYPE_B	GEMM_TYPE_A
#define GEMM_TRANS_A	0
#define GEMM_B_COLS	1
#define GEMM_TILE_LINE	(2 * CONV_CHANNELS)
#define SUMS_STORED	(CONV_SPLIT_K || GEMM_TYPE_C == GEMM_F32)
#define CONV_ACROSS	(CONV_PLAIN_Y == 2)	/* tiles reach across images */
#define STORE_SHIFTED	(CONV_PLAIN_Y == 1)
#define CONV_FOLDED	(CONV_REPACKED > 2)
#define CONV_FOLD	CONV_REPACKED	/* channels of a folded pixel */
#define CONV_SKIPS	(CONV_REPACKED == 2)	/* of x what a stride reads */
#include "kernels/gpu/conv_repack.h"
#include "kernels/gpu/gemm_wgmma_tile.h"

/* Folded, a row of taps is one of many channels. */
#define TAPS_ACROSS(a)	(CONV_FOLDED ? 1 : (int)(a).k[2])
#define DEPTH_OF(a)	(CONV_FOLDED ? (int)(a).k[2] * CONV_FOLD : \
			 CONV_REPACKED ? (int)rlx_g_conv_wide(&(a)) : (int)(a).ic)

/* From an output pixel to the next one, in x as it is read. */
#define STEP_OF(a, i)	(uint32_t)(CONV_SKIPS ? 1 : (a).s[i])

/*
 * Lines of a tile's weights that are brought: a line that does not exist takes several times as
 * long as one that does, and what is in its place in shared memory reaches no sum that is stored.
 */
#define LINES_OF(a)	rlx_g_conv_lines(&(a), CONV_PLAIN_Y ? BM : BN)

enum {
	CHANNELS = CONV_CHANNELS, PIECES = DEPTH / CHANNELS,	/* of a step */
	RUN = 4,	/* elements that a thread adds up, pixels that it turns, at a time */
};

static DEV inline uint32_t pixels_of(const struct rlx_k_conv_nd &a)
{
	return (uint32_t)(a.out[1] * a.out[2]);
}

/* Of the output, but for its product. */
static DEV inline struct rlx_k_gemm gemm_of(const struct rlx_k_conv_nd &a,
					    const struct rlx_g_env &env)
{
	struct rlx_k_gemm g = {};
	size_t live = (size_t)live_rows(env, (int64_t)a.n);

	g.m = CONV_PLAIN_Y ? a.oc : a.n * pixels_of(a);
	g.n = g.ldc = g.ldr = !CONV_PLAIN_Y ? a.oc : (CONV_ACROSS ? live : 1) * pixels_of(a);
	g.batch[1] = CONV_PLAIN_Y && !CONV_ACROSS ? a.n : 1;
	g.c_step[1] = g.r_step[1] = a.y_n;
	g.c = a.y;
	(CONV_PLAIN_Y ? g.row_bias : g.bias) = a.bias;
	g.residual = a.res;
	g.alpha = g.beta = 1;
	g.act = (enum rlx_act)ACT;
	g.lo = a.act_a;
	g.hi = a.act_b;
	return g;
}

/* Tiles of a product, and products: of images that carry data. */
struct tiling {
	uint32_t	down, across, images;

	DEV tiling(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env)
	{
		uint32_t live = (uint32_t)live_rows(env, (int64_t)a.n), rows, cols;

		images = CONV_PLAIN_Y && !CONV_ACROSS ? live : 1;
		rows = CONV_PLAIN_Y ? (uint32_t)a.oc : live * pixels_of(a);
		cols = !CONV_PLAIN_Y ? (uint32_t)a.oc : live / images * pixels_of(a);
		down = (rows + BM - 1) / BM;
		across = (cols + BN - 1) / BN;
	}

	DEV uint32_t all() const { return down * across * images; }
};

/* A tile of the output. */
struct spot {
	uint32_t	image;
	int		row, col;

	DEV spot(const struct tiling &in, uint32_t t)
	{
		uint32_t r, c;

		image = in.images > 1 ? t / (in.down * in.across) : 0;
		gemm_tile(t - image * (in.down * in.across), in.down, in.across, &r, &c);
		row = (int)r * BM;
		col = (int)c * BN;
	}
};

/* Pieces of k that hold one tap's channels. */
static DEV inline int chunks_of(const struct rlx_k_conv_nd &a)
{
	return (DEPTH_OF(a) + CHANNELS - 1) / CHANNELS;
}

/* Behind an x that was turned. */
static DEV inline float *parts_of(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env)
{
	return (float *)((char *)env.scratch + rlx_g_conv_plain_bytes(&a));
}

/* Steps of k that this block's part of the sums takes. */
struct share {
	int	first, n;

	DEV share(const struct rlx_k_conv_nd &a)
	{
		int all = (chunks_of(a) * (int)a.k[1] * TAPS_ACROSS(a) + PIECES - 1) / PIECES;
		int each = (all + (int)gridDim.y - 1) / (int)gridDim.y;

		first = each * (int)blockIdx.y;
		n = all - first < each ? all - first : each;
	}
};

/* ---- a plain x ---- */

#if CONV_FOLDED
struct alignas(2 * CONV_FOLD) pixel { half v[CONV_FOLD]; };

/* Pixel @i, or one of the padding. */
static DEV inline struct pixel fold_pixel(const struct rlx_k_conv_nd &a, const half *x, int64_t i,
					  int64_t n)
{
	const uint32_t wide = (uint32_t)rlx_g_conv_folded_row(&a), high = (uint32_t)a.in[1];
	uint32_t row = (uint32_t)(i / wide), image = row / high;
	int64_t col = i - (int64_t)row * wide - (int64_t)a.p[2];
	const half *from = x + image * a.x_n + (row % high) * a.in[2] + col;
	bool in = i < n && col >= 0 && col < (int64_t)a.in[2];
	struct pixel v;

#pragma unroll
	for (int c = 0; c < CONV_FOLD; c++)
		v.v[c] = in && c < (int)a.ic ? from[c * (int64_t)(high * a.in[2])] : half();
	return v;
}

/* Of each tap the channels that there are; what is behind a row of taps is never read. */
static DEV inline void fold_weights(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env)
{
	const uint32_t each = (uint32_t)rlx_g_conv_folded_taps(&a) / CONV_FOLD;
	const uint32_t n = (uint32_t)(a.oc * a.k[1]) * each, across = (uint32_t)a.k[2];
	const half *w = RLX_G_PTR(const half, a.w);
	struct pixel *to = (struct pixel *)((char *)env.scratch + rlx_g_conv_plain_x_bytes(&a));
	uint32_t i = threadIdx.x + THREADS * (blockIdx.x + gridDim.x * blockIdx.y);

	for (; i < n; i += THREADS * gridDim.x * gridDim.y) {
		uint32_t row = i / each, tap = i - row * each;

		if (tap < across)
			to[i] = *(const struct pixel *)(w + ((uint64_t)row * across + tap) *
							    RLX_G_CONV_FOLD);
	}
}

/* Neighbours have a channel's elements side by side; each has some pixels under way at a time. */
static DEV inline void fold(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env)
{
	const int64_t n = live_rows(env, (int64_t)a.n) * (int64_t)a.in[1] *
			  rlx_g_conv_folded_row(&a);
	const int64_t step = (int64_t)THREADS * gridDim.x * gridDim.y;
	const half *x = RLX_G_PTR(const half, a.x);
	struct pixel *to = (struct pixel *)env.scratch;
	int64_t i = threadIdx.x + THREADS * (blockIdx.x + (int64_t)gridDim.x * blockIdx.y);

	pdl_wait();
	for (; i < n; i += RUN * step) {
		struct pixel v[RUN];

#pragma unroll
		for (int j = 0; j < RUN; j++)
			v[j] = fold_pixel(a, x, i + j * step, n);
#pragma unroll
		for (int j = 0; j < RUN; j++)
			if (i + j * step < n)
				to[i + j * step] = v[j];
	}
	if (CONV_FOLD < RLX_G_CONV_FOLD)
		fold_weights(a, env);
}
#endif

/* ---- the warp that loads ---- */

/* A piece of k: some channels of a tap. */
struct piece {
	int	chunk, tap, right, down;

	DEV piece(const struct rlx_k_conv_nd &a, int i)
	{
		chunk = i % chunks_of(a);
		tap = i / chunks_of(a);
		right = tap % TAPS_ACROSS(a);
		down = tap / TAPS_ACROSS(a);
	}

	DEV void next(const struct rlx_k_conv_nd &a)
	{
		if (++chunk < chunks_of(a))
			return;
		chunk = 0;
		tap++;
		if (++right < TAPS_ACROSS(a))
			return;
		right = 0;
		down++;
	}
};

/* Where the first tap of a tile's first pixel is, as TMA counts: channel, width, height, image. */
struct corner {
	int	at[4];

	DEV corner(const struct rlx_k_conv_nd &a, uint32_t row)
	{
		uint32_t image = row / pixels_of(a), pixel = row % pixels_of(a);
		uint32_t wide = (uint32_t)a.out[2];

		at[0] = 0;
		/* places of a folded image are those of the output */
		at[1] = CONV_FOLDED ? (int)(pixel % wide) :
				      (int)(pixel % wide * STEP_OF(a, 2)) - (int)a.p[2];
		at[2] = (int)(pixel / wide * STEP_OF(a, 1)) - (int)a.p[1];
		at[3] = (int)image;
	}
};

/* What loads a tile's steps, one after the other, from the piece @first on. */
struct loader {
	const struct rlx_k_conv_nd	&a;
	const unsigned char		*maps;
	struct corner			c;
	struct piece			p;
	int				channel;	/* the tile's first one of the output */

	DEV loader(const struct rlx_k_conv_nd &conv, const unsigned char *m, const struct spot &s,
		   int first)
		: a(conv), maps(m),
		  c(conv, CONV_PLAIN_Y ? s.image * pixels_of(conv) + (uint32_t)s.col :
					 (uint32_t)s.row),
		  p(conv, first), channel(CONV_PLAIN_Y ? s.row : s.col) {}

	/* Behind the last tap are channels and taps that do not exist, which read as zeros. */
	DEV void step(unsigned char *to, uint64_t *full)
	{
#pragma unroll
		for (int j = 0; j < PIECES; j++, p.next(a)) {
			bool over = PIECES > 1 && p.down == (int)a.k[1];
			int w[4] = { p.chunk * CHANNELS, channel, p.tap, 0 };
			unsigned char *first = to + j * BM * LINE;
			unsigned char *second = to + A_BYTES + j * BN * LINE;

			c.at[0] = over ? chunks_of(a) * CHANNELS : p.chunk * CHANNELS;
			tma_load_im2col(CONV_PLAIN_Y ? second : first, maps, full, c.at,
					over ? 0 : p.right * (int)a.d[2],
					over ? 0 : p.down * (int)a.d[1]);
			tma_load(CONV_PLAIN_Y ? first : second, maps + RLX_G_TENSOR_MAP_BYTES,
				 full, w);
		}
	}
};

static DEV inline void load_all(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
				unsigned char *shared, struct stages *st)
{
	const unsigned char *maps = (const unsigned char *)env.maps;
	tiling in(a, env);
	pipeline_state<STAGES> t = {};
	share k(a);
	const uint32_t bytes = (uint32_t)(((CONV_PLAIN_Y ? BN : BM) + LINES_OF(a)) * ROW);

	tensor_map_acquire(maps);
	tensor_map_acquire(maps + RLX_G_TENSOR_MAP_BYTES);
	pdl_wait();
	for (uint32_t i = blockIdx.x; i < in.all(); i += gridDim.x) {
		loader tile(a, maps, spot(in, i), k.first * PIECES);

		for (int j = 0; j < k.n; j++, t.next()) {
			bar_wait(&st->empty[t.stage], t.phase ^ 1);
			bar_expect(&st->full[t.stage], bytes);
			tile.step(shared + t.stage * STAGE, &st->full[t.stage]);
		}
	}
}

/* ---- the groups that multiply ---- */

/* Where in y channel 0 of pixel @q of all images is. */
static DEV inline uint64_t place_of(const struct rlx_k_conv_nd &a, uint32_t q)
{
	uint32_t image = q / pixels_of(a);

	return image * (uint64_t)a.y_n + (q - image * pixels_of(a));
}

#if CONV_ACROSS && !CONV_SPLIT_K
/* A lane has two neighbours in each of two rows, which are together in y if pixels are even. */
static DEV inline void end_across(float *d, const struct rlx_k_conv_nd &a,
				  const struct rlx_k_gemm &g, const operands &o, int row, int col)
{
	struct __attribute__((aligned(2 * sizeof(type_c)))) two { type_c v[2]; };
	const bool together = pixels_of(a) % 2 == 0 && (uint64_t)o.c % sizeof(two) == 0;

	add_lines<SUMS>(d, g, o, row, col);
#pragma unroll
	for (int i = 0; i < SUMS; i += 4) {
		uint32_t q = (uint32_t)(col + wgmma_col(i));
		uint64_t at[2] = { place_of(a, q), place_of(a, q + 1) };

#pragma unroll
		for (int h = 0; h < 4; h += 2) {
			int r = row + wgmma_row(h), n = r < (int)g.m ? (int)(g.n - q) : 0;
			two y;

#pragma unroll
			for (int e = 0; e < 2; e++) {
				uint64_t k = at[e] + (uint64_t)r * pixels_of(a);
				float x = d[i + h + e];

				if (o.r && e < n)
					x += to_f32(o.r[k]);
				y.v[e] = from_f32<type_c>(gemm_act(ACT, g, x));
				if (e < n && !(together && n > 1))
					o.c[k] = y.v[e];
			}
			if (together && n > 1)
				*(two *)(o.c + at[0] + (uint64_t)r * pixels_of(a)) = y;
		}
	}
}
#endif

static DEV inline void multiply_all(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
				    const unsigned char *shared, struct stages *st)
{
	int group = (int)threadIdx.x / GROUP;
	struct rlx_k_gemm g = gemm_of(a, env);
	tiling in(a, env);
	pipeline_state<STAGES> t = {};
	share k(a);
#if CONV_SPLIT_K
	float *part = parts_of(a, env) + blockIdx.y * (uint64_t)(a.n * a.y_n);
#endif

	for (uint32_t i = blockIdx.x; i < in.all(); i += gridDim.x) {
		spot s(in, i);
		float d[SUMS];

		multiply(d, k.n, shared, st, &t);
#if CONV_SPLIT_K
		store_all<SUMS>(d, lines<float>(part + s.image * a.y_n, g.n, g,
						s.row + group * 64, s.col));
#elif CONV_ACROSS
		end_across(d, a, g, operands(g, env, 0), s.row + group * 64, s.col);
#else
		end_sums(d, g, operands(g, env, s.image), s.row + group * 64, s.col);
#endif
	}
}

static DEV inline void product(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env,
			       unsigned char *shared, struct stages *st)
{
	stages_init(st);
	if ((int)threadIdx.x < GROUPS * GROUP) {
		regs_more<GEMM_TILE_REGS(BM, RLX_G_BLOCKS)>();
		pdl_wait();
		multiply_all(a, env, shared, st);
	} else {
		regs_fewer<GEMM_TILE_REGS_LOAD>();
		if (warp_id() == GROUPS * 4 && lane_id() == 0)
			load_all(a, env, shared, st);
	}
}

/* ---- parts ---- */

#if CONV_SPLIT_K
template <class T, int N> struct alignas(N * sizeof(T)) run { T v[N]; };

/*
 * N sums side by side from @i on, whose places in y are from @to on, by parts in their order, as
 * many of them under way at a time.
 */
template <int N>
static DEV inline void add_run(const struct rlx_k_gemm &g, const operands &o, const float *part,
			       int64_t i, int64_t to, int64_t all)
{
	size_t row = (size_t)((uint32_t)i / (uint32_t)g.n);
	size_t col = (size_t)((uint32_t)i % (uint32_t)g.n);
	size_t channel = CONV_PLAIN_Y ? row % g.m : row;
	run<float, N> sum = {};
	run<type_c, N> y;

#pragma unroll 8
	for (unsigned int k = 0; k < gridDim.y; k++) {
		run<float, N> x = *(const run<float, N> *)(part + k * all + i);

#pragma unroll
		for (int j = 0; j < N; j++)
			sum.v[j] += x.v[j];
	}
#pragma unroll
	for (int j = 0; j < N; j++) {
		operands::added more = { 0, 0, 0 };

		if (o.bias)
			more.bias = o.bias[col + j];
		if (o.row_bias)
			more.row_bias = o.row_bias[channel];
		if (o.r)
			more.r = to_f32(o.r[to + j]);

		y.v[j] = from_f32<type_c>(o.value(g, col + j, sum.v[j], more));
	}
	*(run<type_c, N> *)(o.c + to) = y;
}

/* Sums from the @i-th on; across images they are elsewhere in y. */
template <int N>
static DEV inline void add_at(const struct rlx_k_conv_nd &a, const struct rlx_k_gemm &g,
			      const operands &o, const float *part, int64_t i)
{
	const int64_t all = (int64_t)(a.n * a.y_n);
	uint32_t row = (uint32_t)i / (uint32_t)g.n, col = (uint32_t)i - row * (uint32_t)g.n;

	add_run<N>(g, o, part, i, !CONV_ACROSS ? i :
		   (int64_t)place_of(a, col) + (int64_t)row * pixels_of(a), all);
}

static DEV inline void add_up(const struct rlx_k_conv_nd &a, const struct rlx_g_env &env)
{
	const int64_t n = live_rows(env, (int64_t)a.n) * (int64_t)pixels_of(a) * (int64_t)a.oc;
	int64_t i = threadIdx.x + THREADS * (blockIdx.x + (int64_t)gridDim.x * blockIdx.y);
	const int64_t step = (int64_t)THREADS * gridDim.x * gridDim.y;
	struct rlx_k_gemm g = gemm_of(a, env);
	operands o(g, env, 0);
	bool runs = (CONV_ACROSS ? pixels_of(a) : g.n) % RUN == 0 &&
		    (uint64_t)o.c % (RUN * sizeof(type_c)) == 0;

	pdl_wait();
	if (runs)
		for (i *= RUN; i < n; i += step * RUN)
			add_at<RUN>(a, g, o, parts_of(a, env), i);
	else
		for (; i < n; i += step)
			add_at<1>(a, g, o, parts_of(a, env), i);
}
#endif

RLX_G_KERNEL_ALONE(conv_wgmma, struct rlx_k_conv_nd, THREADS)
{
	SHARED(struct stages, st, [1]);
	SHARED_DYNAMIC(shared);

#if CONV_REPACKED
	if (env.pass == 0) {
#if CONV_FOLDED
		fold(a, env);
#else
		pdl_wait();
		conv_repack<THREADS, CONV_SKIPS>(a, RLX_G_PTR(const uint16_t, a.x),
						 (uint16_t *)env.scratch,
						 (conv_repack_line *)shared,
						 live_rows(env, (int64_t)a.n));
#endif
		return;
	}
#endif
#if CONV_SPLIT_K
	if (env.pass > (CONV_REPACKED != 0)) {
		add_up(a, env);
		return;
	}
#endif
	product(a, env, shared, st);
}
