// SPDX-License-Identifier: MIT
/*
 * Gaussian splats blended into an image, and the derivatives of that by the splats.
 *
 * Algorithm: a block a tile of 16 x 16 pixels, a thread a pixel. The boxes of 256 splats at a time,
 * which come from front to back, are held against the tile, one a thread; ballots say which touch
 * it, and all threads go through these in order, until all pixels are done. Derivatives: a block a
 * part, which is some tiles. A first pass over a tile's splats has what each pixel sums up to, a
 * second what each splat gets of a pixel: nine sums over the block for each splat that touches the
 * tile, by shuffles and then over warps, which nine threads add to the part. Nobody else writes
 * there, so nothing is atomic and sums have one order.
 * Traffic: each tile reads all boxes, 16 bytes a splat, from caches; what a sorted list of each
 * tile would save takes a sort of all pairs. Splats that touch are read by all threads at once.
 * Source: Kerbl et al., "3D Gaussian Splatting" (2023).
 * Limits: f32; a part is one block's work, so with few parts (many splats) few blocks are busy.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/splat.h"

enum { TILE = RLX_K_SPLAT_TILE, FIELDS = RLX_K_SPLAT_FIELDS, PIXELS = TILE * TILE };

/* Where a thread looks, and how much light is left; negative: it is done. */
struct eye {
	float	x, y, t;
	float	x0, y0;		/* of the tile */
	int64_t	at;		/* the pixel, -1: beyond the image */
};

static DEV inline struct eye eye_at(int64_t tile, int64_t width, int64_t height)
{
	int64_t across = rlx_k_splat_tiles_of(width);
	int64_t row = tile / across * TILE + threadIdx.x / TILE;
	int64_t col = tile % across * TILE + threadIdx.x % TILE;
	bool in = row < height && col < width;
	struct eye e = { (float)col + 0.5f, (float)row + 0.5f, in ? 1.0f : 0.0f,
			 (float)(tile % across * TILE), (float)(tile / across * TILE),
			 in ? row * width + col : -1 };

	return e;
}

/*
 * Which of the splats from @base on touch the tile: a bit each, by warps. Returns whether some
 * pixel is not done yet.
 */
static DEV inline bool touching(const float *boxes, int64_t n, int64_t base, const struct eye &e,
				uint64_t *hit, uint64_t *open)
{
	int64_t i = base + threadIdx.x;
	bool in = false;
	uint64_t bits, left, any = 0;

	if (i < n) {
		const float *b = boxes + 4 * i;

		in = b[2] > e.x0 && e.x0 + TILE > b[0];
		in = in && b[3] > e.y0 && e.y0 + TILE > b[1];
	}
	bits = warp_ballot(in);
	left = warp_ballot(e.t > 0);
	__syncthreads();
	if (lane_id() == 0) {
		hit[warp_id()] = bits;
		open[warp_id()] = left;
	}
	__syncthreads();
	for (int w = 0; w < PIXELS / WARP; w++)
		any |= open[w];
	return any != 0;
}

/* The lowest bit of @m goes; returns which it was. */
static DEV inline int next_bit(uint64_t *m)
{
	int k = count_bits((*m & (0 - *m)) - 1);

	*m &= *m - 1;
	return k;
}

/* A splat at a pixel. */
struct seen {
	float	dx, dy, e, alpha;
	float	w;	/* what it counts; 0: it is not there */
};

/* Takes its share of the light. */
static DEV inline struct seen look(struct eye *e, const float *p, const float *box)
{
	struct seen s = { e->x - p[0], e->y - p[1], 0, 0, 0 };
	float q = s.dx * (p[2] * s.dx + 2 * p[3] * s.dy) + p[4] * s.dy * s.dy, next;

	if (!(e->t > 0) || !(e->x >= box[0] && e->x <= box[2] && e->y >= box[1] && e->y <= box[3]))
		return s;
	s.e = expf(q * -0.5f);
	s.alpha = s.e * p[5];
	if (!(q >= 0) || !(s.alpha >= RLX_K_SPLAT_CUT))
		return s;
	s.alpha = s.alpha < RLX_K_SPLAT_CAP ? s.alpha : RLX_K_SPLAT_CAP;
	next = e->t * (1 - s.alpha);
	if (next < RLX_K_SPLAT_STOP) {
		e->t = -e->t;
		return s;
	}
	s.w = e->t * s.alpha;
	e->t = next;
	return s;
}

#ifdef RLX_KERNEL_splat_blend
RLX_G_KERNEL(splat_blend, struct rlx_k_splat_blend, 256)
{
	SHARED(uint64_t, hit, [MAX_WARPS]);
	SHARED(uint64_t, open, [MAX_WARPS]);
	const float *splats = RLX_G_PTR(const float, a.splats);
	const float *boxes = RLX_G_PTR(const float, a.boxes);
	const float *background = RLX_G_PTR(const float, a.background);
	float *y = RLX_G_PTR(float, a.y);
	int64_t tiles = rlx_k_splat_tiles_of(a.width) * rlx_k_splat_tiles_of(a.height);

	for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		struct eye e = eye_at(tile, a.width, a.height);
		float sum[3] = { 0, 0, 0 }, t;

		for (int64_t k = 0; k < a.n && touching(boxes, a.n, k, e, hit, open); k += PIXELS)
			for (int w = 0; w < PIXELS / WARP; w++)
				for (uint64_t m = hit[w]; m;) {
					int64_t i = k + w * WARP + next_bit(&m);
					const float *p = splats + FIELDS * i;
					struct seen s = look(&e, p, boxes + 4 * i);

					for (int c = 0; c < 3 && s.w > 0; c++)
						sum[c] += s.w * p[6 + c];
				}
		t = e.t < 0 ? -e.t : e.t;
		for (int c = 0; c < 3 && e.at >= 0; c++)
			y[4 * e.at + c] = sum[c] + t * background[c];
		if (e.at >= 0)
			y[4 * e.at + 3] = 1 - t;
	}
}
#endif

#ifdef RLX_KERNEL_splat_blend_grad
/* A pixel on its way back: gradients by its colours and its light, and sums of the splats'. */
struct back {
	float	dc[3], dt, all, sum, end;
};

static DEV inline float shade(const struct back &b, const float *p)
{
	return b.dc[0] * p[6] + b.dc[1] * p[7] + b.dc[2] * p[8];
}

static DEV inline struct back back_at(const float *dy, const float *background, int64_t at)
{
	struct back b = { { 0, 0, 0 }, 0, 0, 0, 0 };

	if (at < 0)
		return b;
	b.dt = -dy[4 * at + 3];
	for (int c = 0; c < 3; c++) {
		b.dc[c] = dy[4 * at + c];
		b.dt += background[c] * b.dc[c];
	}
	return b;
}

/* What a splat gets of a pixel in which @t got to it. */
static DEV inline void share_of(struct back *b, const struct seen &s, const float *p, float t,
				float *v)
{
	float g, da, dq;

	for (int c = 0; c < FIELDS; c++)
		v[c] = 0;
	if (!(s.w > 0))
		return;
	g = shade(*b, p);
	b->sum += s.w * g;
	for (int c = 0; c < 3; c++)
		v[6 + c] = s.w * b->dc[c];
	if (!(s.e * p[5] < RLX_K_SPLAT_CAP))	/* at the cap nothing moves it */
		return;
	da = t * g - (b->all - b->sum + b->end * b->dt) / (1 - s.alpha);
	dq = da * s.alpha * -0.5f;
	v[0] = -2 * dq * (p[2] * s.dx + p[3] * s.dy);
	v[1] = -2 * dq * (p[3] * s.dx + p[4] * s.dy);
	v[2] = dq * s.dx * s.dx;
	v[3] = 2 * dq * s.dx * s.dy;
	v[4] = dq * s.dy * s.dy;
	v[5] = da * s.e;
}

/* Sums of @v over the block go to @d. */
static DEV inline void add_share(const float *v, float *smem, float *d)
{
	for (int c = 0; c < FIELDS; c++) {
		float sum = warp_reduce<op_sum>(v[c]);

		if (lane_id() == 0)
			smem[warp_id() * FIELDS + c] = sum;
	}
	__syncthreads();
	if (threadIdx.x < FIELDS) {
		float sum = 0;

		for (int w = 0; w < PIXELS / WARP; w++)
			sum += smem[w * FIELDS + threadIdx.x];
		d[threadIdx.x] += sum;
	}
	__syncthreads();
}

RLX_G_KERNEL(splat_blend_grad, struct rlx_k_splat_blend_grad, 256)
{
	SHARED(uint64_t, hit, [MAX_WARPS]);
	SHARED(uint64_t, open, [MAX_WARPS]);
	SHARED(float, smem, [MAX_WARPS * FIELDS]);
	const float *splats = RLX_G_PTR(const float, a.splats);
	const float *boxes = RLX_G_PTR(const float, a.boxes);
	const float *background = RLX_G_PTR(const float, a.background);
	const float *dy = RLX_G_PTR(const float, a.dy);
	int64_t tiles = rlx_k_splat_tiles_of(a.width) * rlx_k_splat_tiles_of(a.height);

	for (int64_t part = blockIdx.x; part < a.parts; part += gridDim.x) {
		float *d = RLX_G_PTR(float, a.d) + part * a.n * FIELDS, v[FIELDS];

		for (int64_t i = threadIdx.x; i < a.n * FIELDS; i += PIXELS)
			d[i] = 0;
		__syncthreads();
		for (int64_t tile = part * tiles / a.parts; tile < (part + 1) * tiles / a.parts;
		     tile++) {
			struct eye e = eye_at(tile, a.width, a.height);
			struct back b = back_at(dy, background, e.at);

			for (int64_t k = 0; k < a.n && touching(boxes, a.n, k, e, hit, open);
			     k += PIXELS)
				for (int w = 0; w < PIXELS / WARP; w++)
					for (uint64_t m = hit[w]; m;) {
						int64_t i = k + w * WARP + next_bit(&m);
						const float *p = splats + FIELDS * i;
						struct seen s = look(&e, p, boxes + 4 * i);

						if (s.w > 0)
							b.all += s.w * shade(b, p);
					}
			b.end = e.t < 0 ? -e.t : e.t;
			e = eye_at(tile, a.width, a.height);
			for (int64_t k = 0; k < a.n && touching(boxes, a.n, k, e, hit, open);
			     k += PIXELS)
				for (int w = 0; w < PIXELS / WARP; w++)
					for (uint64_t m = hit[w]; m;) {
						int64_t i = k + w * WARP + next_bit(&m);
						const float *p = splats + FIELDS * i;
						float t = e.t;
						struct seen s = look(&e, p, boxes + 4 * i);

						share_of(&b, s, p, t, v);
						add_share(v, smem, d + FIELDS * i);
					}
		}
	}
}
#endif
