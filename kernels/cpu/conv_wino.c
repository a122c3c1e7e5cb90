// SPDX-License-Identifier: MIT
/*
 * Winograd's minimal filtering for blocked 3 x 3 convolution. A unit turns
 * its input tiles into (m + 2)^2 planes, multiplies each plane with its
 * weights as a 1 x 1 convolution whose pixels are tiles, and turns the sums
 * back. The points of F(4, 3) are 0, +-3/4, +-3/2 and infinity: of the points
 * with short binary fractions these lose the least, half of what 1 and 2 do.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu/conv_tile.h"
#include "kernels/simd/wino_lines.h"

rlx_k_fn RLX_K(wino_c);
rlx_k_fn RLX_K(wino_c_pack);

#define C	RLX_VL
#define SIDE	6		/* of the largest input tile */

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 8")
#endif

struct run {
	const struct rlx_k_wino_c *a;
	size_t		side, pos;		/* m + 2, its square */
	size_t		icb, terms, pairs, tiles;	/* terms: TILE_LANES channels each */
	ptrdiff_t	*offs;
	float		*v, *sums;
	size_t		plane;			/* elements of a plane of v */
	struct conv_act	act;
	struct conv_fuse fuse;
	bool		fused;
};

#ifdef RLX_HAS_FMA
static void out_line_2(const vf *q, vf *o) { out_line(q, 1, o, 1, 2); }
static void out_line_4(const vf *q, vf *o) { out_line(q, 1, o, 1, 4); }
#endif

/* One tile of one input block: @x is the block's plane, (iy, ix) its corner. */
RLX_INLINE void tile_in(const struct run *r, const float *x, ptrdiff_t iy,
			ptrdiff_t ix, float *v, const int m)
{
	const struct rlx_k_wino_c *a = r->a;
	const int side = m + 2;
	ptrdiff_t h = (ptrdiff_t)a->ih, w = (ptrdiff_t)a->iw;
	vf d[SIDE * SIDE], t[SIDE * SIDE];

	if (iy >= 0 && ix >= 0 && iy + side <= h && ix + side <= w) {
		UNROLL
		for (int i = 0; i < side; i++) {
			const float *row = x + ((iy + i) * w + ix) * C;

			UNROLL
			for (int j = 0; j < side; j++)
				d[i * side + j] = vf_loadu(row + j * C);
		}
	} else {
		for (int i = 0; i < side * side; i++) {
			ptrdiff_t at[2] = { iy + i / side, ix + i % side };
			bool on = at[0] >= 0 && at[0] < h && at[1] >= 0 &&
				  at[1] < w;

			d[i] = on ? vf_loadu(x + (at[0] * w + at[1]) * C) :
				    vf_zero();
		}
	}
	UNROLL
	for (int j = 0; j < side; j++)
		in_line(d + j, t + j, side, m);
	UNROLL
	for (int i = 0; i < side; i++) {
		in_line(t + i * side, d + i * side, 1, m);
		UNROLL
		for (int j = 0; j < side; j++)
			vf_storeu(v + (size_t)(i * side + j) * r->plane,
				  d[i * side + j]);
	}
}

RLX_INLINE void block_in(const struct run *r, size_t n, size_t first,
			 size_t count, const int m)
{
	const struct rlx_k_wino_c *a = r->a;
	size_t plane = a->ih * a->iw * C, b, i;

	for (b = 0; b < r->icb; b++)
		for (i = 0; i < count; i++) {
			size_t t = first + i;

			tile_in(r, a->x + n * a->x_n + b * plane,
				(ptrdiff_t)(t / a->tx * (size_t)m) -
					(ptrdiff_t)a->pt,
				(ptrdiff_t)(t % a->tx * (size_t)m) -
					(ptrdiff_t)a->pl,
				r->v + (b * count + i) * C, m);
		}
}

/* One output block of the result. */
struct out {
	size_t		step;		/* from plane to plane of the sums */
	size_t		lanes;		/* from input channel to channel of the weights */
	vf		bias;
	const float	*x, *w;		/* the image; the block's weights */
	float		*y;
	const float	*res;
};

/*
 * The 3 x 3 weights of input channel @i from their planes: 0 and infinity have a row's ends, a
 * point and its opposite what is between them.
 */
static void weights_back(const struct run *r, const struct out *out, size_t i, vf *g)
{
	const struct rlx_k_wino_c *a = r->a;
	const vf first = vf_set1(a->m == 2 ? 1 : PA2 * PB2);
	const vf odd = vf_set1(a->m == 2 ? 1 : PA * (PA2 - PB2));
	const size_t at[4] = { 0, 1, 2, r->side - 1 };
	vf t[4][3];

	for (size_t y = 0; y < 4; y++) {
		vf p[4];

		for (size_t x = 0; x < 4; x++)
			p[x] = vf_loadu(out->w + ((at[y] * r->side + at[x]) * a->ic + i) *
					out->lanes);
		t[y][0] = p[0] * first;
		t[y][1] = (p[1] - p[2]) * odd;
		t[y][2] = p[3];
	}
	for (size_t x = 0; x < 3; x++) {
		g[x] = t[0][x] * first;
		g[3 + x] = (t[1][x] - t[2][x]) * odd;
		g[6 + x] = t[3][x];
	}
}

/* Up to four pixels of a row, from element @at of the block on. */
RLX_INLINE void row_out(const struct run *r, const struct conv_fuse *f, const struct out *out,
			const vf *o, size_t at, size_t n)
{
	UNROLL
	for (size_t j = 0; j < 4; j++) {
		vf s;

		if (j >= n)
			break;
		s = o[j] + out->bias;
		if (out->res)
			s += vf_loadu(out->res + at + j * C);
		vf_storeu(out->y + at + j * C, conv_fuse_run(f, s));
	}
	if (!r->fused)
		RLX_K(conv_act_run)(&r->act, out->y + at, n * C);
}

/*
 * A tile by a sum for each pixel: an infinity, a NaN or a number that others are lost beside is
 * in the sums of all planes, but only in the pixels around it. Channels whose @squares are finite
 * keep what the planes gave, rows of @t: how many share a vector hangs on the level.
 */
static __attribute__((noinline)) void tile_direct(const struct run *r, const struct out *out,
						  size_t tile, const vf *t, vf squares)
{
	const struct rlx_k_wino_c *a = r->a;
	const size_t m = a->m, oy = tile / a->tx * m, ox = tile % a->tx * m;
	const size_t cols = a->ow - ox < m ? a->ow - ox : m;
	float in[SIDE][SIDE];
	vf g[9], o[16] = { vf_zero() };

	for (size_t i = 0; i < a->ic; i++) {
		const float *x = out->x + i / C * C * a->ih * a->iw + i % C;

		weights_back(r, out, i, g);
		for (size_t y = 0; y < r->side; y++)
			for (size_t c = 0; c < r->side; c++) {
				/* before the first row and column these wrap beyond the last */
				const size_t iy = oy + y - a->pt, ix = ox + c - a->pl;

				in[y][c] = iy < a->ih && ix < a->iw ?
					   x[(iy * a->iw + ix) * C] : 0;
			}
		for (size_t y = 0; y < m; y++)
			for (size_t c = 0; c < m; c++) {
				vf sum = o[y * m + c];

				UNROLL
				for (size_t tap = 0; tap < 9; tap++)
					sum = vf_fma(vf_set1(in[y + tap / 3][c + tap % 3]), g[tap],
						     sum);
				o[y * m + c] = sum;
			}
	}
	for (size_t i = 0; i < m && oy + i < a->oh; i++) {
#ifdef RLX_HAS_FMA	/* a level that has strict bits */
		vf line[4];

		(m == 2 ? out_line_2 : out_line_4)(t + i * r->side, line);
		for (size_t c = 0; c < m; c++)
			o[i * m + c] = vf_sel(vf_lt(squares, vf_set1(INFINITY)), line[c],
					      o[i * m + c]);
#endif
		row_out(r, &r->fuse, out, o + i * m, ((oy + i) * a->ow + ox) * C, cols);
	}
}

/* One tile of it; @q is where the tile is in the first plane. */
RLX_INLINE void tile_out(const struct run *r, const struct out *out,
			 const float *q, size_t tile, const int m)
{
	const struct rlx_k_wino_c *a = r->a;
	const int side = m + 2;
	const struct conv_fuse f = r->fuse;
	size_t oy = tile / a->tx * (size_t)m, ox = tile % a->tx * (size_t)m;
	size_t rows = a->oh - oy, cols = a->ow - ox;
	vf d[SIDE * SIDE], t[4 * SIDE], squares = vf_zero();

	UNROLL
	for (int i = 0; i < side * side; i++)
		d[i] = vf_loadu(q + (size_t)i * out->step);
	UNROLL
	for (int j = 0; j < side; j++)
		out_line(d + j, side, t + j, side, m);
	UNROLL
	for (int i = 0; i < m * side; i++)
		squares = vf_fma(t[i], t[i], squares);
	if (__builtin_expect(!vm_all(vf_lt(squares, vf_set1(INFINITY))), 0)) {
		tile_direct(r, out, tile, t, squares);
		return;
	}
	UNROLL
	for (int i = 0; i < m; i++) {
		vf o[4];

		if ((size_t)i >= rows)
			break;
		out_line(t + i * side, 1, o, 1, m);
		row_out(r, &f, out, o, ((oy + (size_t)i) * a->ow + ox) * C,
			cols < (size_t)m ? cols : (size_t)m);
	}
}

/* All planes of the block times one pair of output blocks, into r->sums. */
static void pair_multiply(const struct run *r, size_t pair, size_t k,
			  size_t count)
{
	static const _Alignas(64) float zero[TILE_K * C];
	const struct rlx_k_wino_c *a = r->a;
	size_t slab = a->ic * k * C, tiles = conv_tile_count(count), i, p, at, w;
	size_t full = a->ic / TILE_LANES, b, n;
	const float *plane = a->w + pair * TILE_K * C * a->ic * r->pos;
	struct conv_tile t = {
		.tail = a->ic % TILE_LANES, .bias = zero, .y_k = count * C,
		.fuse = &conv_fuse_none,
	};

	for (p = 0; p < r->pos; p++, plane += slab) {
		/* the next plane's weights come in while this one's work */
		if (full && (p + 1 < r->pos || pair + 1 < r->pairs))
			t.lines = (slab / 16 + full * tiles - 1) /
				  (full * tiles);
		else
			t.lines = 0;
		t.ahead = (const char *)(plane + slab);
		for (i = 0, at = 0; i < tiles; i++, at += w) {
			w = conv_tile_width(count, tiles, i);
			t.x = r->v + p * r->plane + at * C;
			t.y = r->sums + (p * k * count + at) * C;
			t.res = NULL;
			for (b = 0; b < r->terms; b += n) {
				n = r->terms - b < a->kc ? r->terms - b : a->kc;
				t.offs = r->offs + b;
				t.w = plane + b * TILE_LANES * k * C;
				t.nfull = b + n <= full ? n : full - b;
				t.ntail = n - t.nfull;
				t.tail_offs = t.offs + t.nfull;
				t.tail_w = t.w + t.nfull * TILE_LANES * k * C;
				RLX_K(conv_tiles)[k - 1][w - 1](&t);
				t.ahead += t.lines * t.nfull * 64;
				t.res = t.y;
			}
		}
	}
}

RLX_INLINE void pair_out(const struct run *r, size_t n, size_t pair, size_t k,
			 const size_t tiles[2], const int m)
{
	const struct rlx_k_wino_c *a = r->a;
	size_t plane = a->oh * a->ow * C, b, i, count = tiles[1];

	for (b = 0; b < k; b++) {
		size_t block = pair * TILE_K + b, at = block * plane;
		struct out out = {
			.step = k * count * C,
			.lanes = k * C,
			.x = a->x + n * a->x_n,
			.w = a->w + (pair * TILE_K * a->ic * r->pos + b) * C,
			.bias = a->bias ? vf_loadn(a->bias + block * C,
						   a->oc - block * C) :
					  vf_zero(),
			.y = a->y + n * a->y_n + at,
			.res = a->res ? a->res + n * a->res_n + at : NULL,
		};

		for (i = 0; i < count; i++)
			tile_out(r, &out, r->sums + (b * count + i) * C,
				 tiles[0] + i, m);
	}
}

/* By m, so that each is compiled with it fixed. */
static void block_in_2(const struct run *r, size_t n, const size_t tiles[2])
{
	block_in(r, n, tiles[0], tiles[1], 2);
}

static void block_in_4(const struct run *r, size_t n, const size_t tiles[2])
{
	block_in(r, n, tiles[0], tiles[1], 4);
}

static void pair_out_2(const struct run *r, size_t n, size_t pair, size_t k,
		       const size_t tiles[2])
{
	pair_out(r, n, pair, k, tiles, 2);
}

static void pair_out_4(const struct run *r, size_t n, size_t pair, size_t k,
		       const size_t tiles[2])
{
	pair_out(r, n, pair, k, tiles, 4);
}

static void run_init(struct run *r, const struct rlx_k_wino_c *a, float *scratch)
{
	memset(r, 0, sizeof(*r));
	r->a = a;
	r->side = a->m + 2;
	r->pos = r->side * r->side;
	r->icb = (a->ic + C - 1) / C;
	r->terms = (a->ic + TILE_LANES - 1) / TILE_LANES;
	r->pairs = ((a->oc + C - 1) / C + TILE_K - 1) / TILE_K;
	r->tiles = a->ty * a->tx;
	r->v = scratch;
	r->sums = r->v + r->pos * r->icb * a->block * C;
	r->offs = (ptrdiff_t *)(r->sums + r->pos * TILE_K * a->block * C);
	r->act = (struct conv_act){ a->act, a->act_a, a->act_b };
	r->fused = RLX_K(conv_act_fuse)(&r->act, &r->fuse);
}

void RLX_K(wino_c)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_wino_c *a = args;
	size_t u, i, b, loaded = (size_t)-1;
	struct run r;

	run_init(&r, a, scratch);
	for (u = begin; u < end; u++) {
		size_t block = u / a->nchunk, n = block / a->nblock;
		size_t pair = u % a->nchunk * a->chunk, blocks, k;
		size_t tiles[2] = { block % a->nblock * a->block, a->block };

		if (r.tiles - tiles[0] < tiles[1])
			tiles[1] = r.tiles - tiles[0];
		if (block != loaded) {
			r.plane = r.icb * tiles[1] * C;
			for (b = 0; b < r.terms; b++)
				r.offs[b] = (ptrdiff_t)(b * TILE_LANES / C * tiles[1] * C +
							b * TILE_LANES % C);
			(a->m == 2 ? block_in_2 : block_in_4)(&r, n, tiles);
		}
		loaded = block;
		blocks = (a->oc + C - 1) / C;
		for (i = 0; i < a->chunk && pair < r.pairs; i++, pair++) {
			k = blocks - pair * TILE_K;
			k = k < TILE_K ? k : TILE_K;
			pair_multiply(&r, pair, k, tiles[1]);
			(a->m == 2 ? pair_out_2 : pair_out_4)(&r, n, pair, k,
							      tiles);
		}
	}
}

/* G g G' of the filters of @n output channels, @step apart, in lanes; the others' are 0. */
RLX_INLINE void weight_planes(const float *src, size_t step, size_t n, vd *out, const size_t m)
{
	double lanes[9][RLX_VLD];
	vd g[9], t[3 * SIDE];
	size_t i, l;

	for (l = 0; l < RLX_VLD; l++)
		for (i = 0; i < 9; i++)
			lanes[i][l] = l < n ? src[l * step + i] : 0;
	for (i = 0; i < 9; i++)
		g[i] = vd_loadu(lanes[i]);
	UNROLL
	for (i = 0; i < 3; i++)
		weight_line(g + i, 3, t + i, 3, m);
	UNROLL
	for (i = 0; i < m + 2; i++)
		weight_line(t + i * 3, 1, out + i * (m + 2), 1, m);
}

/* A pair of blocks of output channels, of which @n are there and @k lanes in all. */
RLX_INLINE void pair_pack(const struct rlx_k_wino_c *a, const float *src, size_t n, size_t k,
			  float *d, const size_t m)
{
	const size_t pos = (m + 2) * (m + 2);
	vd w[SIDE * SIDE];
	size_t i, o, p, l;

	for (i = 0; i < a->ic; i++)
		for (o = 0; o < k; o += RLX_VLD) {
			weight_planes(src + (o * a->ic + i) * 9, a->ic * 9, o < n ? n - o : 0, w,
				      m);
			for (p = 0; p < pos; p++)
				for (l = 0; l < RLX_VLD; l++)
					d[(p * a->ic + i) * k + o + l] = (float)w[p][l];
		}
}

void RLX_K(wino_c_pack)(const void *args, size_t begin, size_t end,
			void *scratch)
{
	const struct rlx_k_wino_pack *pk = args;
	const struct rlx_k_wino_c *a = pk->conv;
	const size_t pair = TILE_K * C, lanes = (a->oc + C - 1) / C * C;
	size_t pos = (a->m + 2) * (a->m + 2), u;

	(void)scratch;
	for (u = begin; u < end; u++) {
		const float *src = pk->src + u * pair * a->ic * 9;
		size_t n = a->oc - u * pair, k = lanes - u * pair;
		float *d = pk->dst + u * pair * a->ic * pos;

		k = k < pair ? k : pair;
		if (a->m == 2)
			pair_pack(a, src, n, k, d, 2);
		else
			pair_pack(a, src, n, k, d, 4);
	}
}
