// SPDX-License-Identifier: MIT
/*
 * Random changes of images in place. Draws are words of Philox-4x32-10 under the seed, its
 * counter the sample's place in the run: block 0 for flip and shift, from 1 on noise.
 */
#include <string.h>

#include "ops/philox.h"
#include "train/loader.h"

/* An image as rows of pixels of @pixel bytes, @planes of them. */
struct image {
	uint8_t	*p;
	int64_t	 planes, h, w, pixel;
};

enum rlx_status augment_check(const struct rlx_augment *a, const struct rlx_type *t,
			      struct rlx_error *err)
{
	if (t->dtype != RLX_U8 || (t->rank != 2 && t->rank != 3))
		return rlx_fail(err, RLX_ETYPE,
				"augment: field \"%s\" is no image: u8[H,W], u8[H,W,C] "
				"or, planar, u8[C,H,W]",
				a->field);
	if (a->noise > 255)
		return rlx_fail(err, RLX_ERANGE, "augment: noise of %u levels; there are 256",
				a->noise);
	return RLX_OK;
}

static struct image image_of(const struct rlx_augment *a, const struct rlx_type *t, uint8_t *p)
{
	bool planar = a->planar && t->rank == 3;

	return (struct image){
		.p = p, .planes = planar ? t->dim[0] : 1, .h = t->dim[planar],
		.w = t->dim[planar + 1], .pixel = t->rank == 3 && !planar ? t->dim[2] : 1,
	};
}

static void flip(const struct image *m)
{
	int64_t y, x, k;

	for (y = 0; y < m->planes * m->h; y++) {
		uint8_t *row = m->p + y * m->w * m->pixel;

		for (x = 0; x < m->w / 2; x++)
			for (k = 0; k < m->pixel; k++) {
				uint8_t *l = row + x * m->pixel + k;
				uint8_t *r = row + (m->w - 1 - x) * m->pixel + k, v = *l;

				*l = *r;
				*r = v;
			}
	}
}

/* Rows in the order in which none is overwritten before it was read. */
static void shift(const struct image *m, int64_t dy, int64_t dx)
{
	int64_t row = m->w * m->pixel, c, i, y, n = (dx < 0 ? -dx : dx) * m->pixel;

	n = n < row ? n : row;
	for (c = 0; c < m->planes; c++)
		for (i = 0; i < m->h; i++) {
			uint8_t *to;

			y = dy > 0 ? m->h - 1 - i : i;
			to = m->p + (c * m->h + y) * row;
			if (y - dy < 0 || y - dy >= m->h) {
				memset(to, 0, (size_t)row);
				continue;
			}
			memmove(to + (dx > 0 ? n : 0), to - dy * row + (dx < 0 ? n : 0),
				(size_t)(row - n));
			memset(dx > 0 ? to : to + row - n, 0, (size_t)n);
		}
}

static void noise(const struct rlx_augment *a, uint8_t *p, int64_t n, uint64_t seed,
		  uint64_t sample)
{
	uint32_t span = 2 * a->noise + 1, word[4];
	int64_t i;

	for (i = 0; i < n; i++) {
		int v;

		if (i % 8 == 0)		/* 16 bits an element */
			rlx_philox(seed, sample, 1 + (uint64_t)i / 8, word);
		v = (int)((word[i % 8 / 2] >> 16 * (i & 1) & 0xffff) * span >> 16);
		v += p[i] - (int)a->noise;
		p[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
	}
}

void augment_apply(const struct rlx_augment *a, const struct rlx_type *t, uint8_t *image,
		   uint64_t seed, uint64_t sample)
{
	struct image m = image_of(a, t, image);
	uint32_t word[4], span = 2 * a->shift + 1;
	int64_t dy, dx;

	rlx_philox(seed, sample, 0, word);
	if (a->flip && word[0] & 1)
		flip(&m);
	dy = (int64_t)((uint64_t)word[1] * span >> 32) - a->shift;
	dx = (int64_t)((uint64_t)word[2] * span >> 32) - a->shift;
	if (dy || dx)
		shift(&m, dy, dx);
	if (a->noise)
		noise(a, image, rlx_type_count(t), seed, sample);
}
