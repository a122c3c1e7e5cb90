// SPDX-License-Identifier: MIT
/*
 * Tiles: maps of matrices, TMA that reads by them, and wgmma, products
 * of 128 threads. Copies are done when somebody waits for them and products when their
 * group is waited for: the latest that hardware may be.
 */
#include "emu.h"

#include <math.h>
#include <string.h>

#include "emu_device.h"

/* What a map's 128 bytes hold here. */
struct map {
	char		name[8];
	const char	*at;
	uint64_t	dim[4], step[4];	/* elements, bytes */
	uint32_t	box[4], size;
	/* of images: pixels' first taps from @lower on to @upper beyond the last one */
	bool		im2col;
	int8_t		lower[2], upper[2];
	uint8_t		stride[2];
};
static const char map_name[8] = "EMUTILE";

/* Rows of 128 bytes, 64 or 32 are moved about so: their 16-byte parts by the row's number. */
static unsigned char *swizzled(unsigned char *p, uint32_t row)
{
	return (unsigned char *)((uintptr_t)p ^ ((uintptr_t)p >> 7 & (row / 16 - 1)) << 4);
}

#define MAP_PARAMS							\
	void *out, int type, uint32_t rank, void *at, const uint64_t *dim,	\
	const uint64_t *step, const uint32_t *box, const uint32_t *each, int inter, \
	int swizzle, int promotion, int fill

/* Two-byte elements in boxes of four dimensions. */
static bool is_known(int type, uint32_t rank, int inter, int promotion, int fill)
{
	return type == 1 && rank == 4 && !inter && promotion <= 3 && !fill;
}

/* What both modes have of a tensor; false: the driver would refuse it. */
static bool map_begin(struct map *m, const char *at, const uint64_t *dim, const uint64_t *step)
{
	if ((uintptr_t)at % 16)
		return false;
	*m = (struct map){ .at = at, .size = 2 };
	memcpy(m->name, map_name, sizeof(m->name));
	for (uint32_t i = 0; i < 4; i++) {
		if (!dim[i] || dim[i] > UINT32_MAX)
			return false;
		if (i && (step[i - 1] % 16 || step[i - 1] >= (uint64_t)1 << 40))
			return false;
		m->dim[i] = dim[i];
		m->step[i] = i ? step[i - 1] : m->size;
	}
	return true;
}

/* Rows of 128, 64 or 32 bytes are swizzled as such. */
static bool is_swizzled(uint32_t elements, int swizzle)
{
	return swizzle >= 1 && swizzle <= 3 && elements == 8u << swizzle;
}

static void map_end(void *out, const struct map *m)
{
	memset(out, 0, 128);
	_Static_assert(sizeof(*m) <= 128, "a map has 128 bytes");
	memcpy(out, m, sizeof(*m));
}

EMU_API int cuTensorMapEncodeTiled(MAP_PARAMS);
EMU_API int cuTensorMapEncodeTiled(MAP_PARAMS)
{
	int err = emu_enter("cuTensorMapEncodeTiled");
	struct map m;

	if (err)
		return err;
	if (!is_known(type, rank, inter, promotion, fill) || (uintptr_t)out % 64 ||
	    !map_begin(&m, at, dim, step) || !is_swizzled(box[0], swizzle))
		return EMU_INVALID_VALUE;
	for (uint32_t i = 0; i < 4; i++) {
		if (!box[i] || box[i] > 256 || each[i] != 1)
			return EMU_INVALID_VALUE;
		m.box[i] = box[i];
	}
	map_end(out, &m);
	return 0;
}

#define IM2COL_PARAMS							\
	void *out, int type, uint32_t rank, void *at, const uint64_t *dim,	\
	const uint64_t *step, const int *lower, const int *upper, uint32_t channels, \
	uint32_t pixels, const uint32_t *each, int inter, int swizzle, int promotion, int fill

EMU_API int cuTensorMapEncodeIm2col(IM2COL_PARAMS);
EMU_API int cuTensorMapEncodeIm2col(IM2COL_PARAMS)
{
	int err = emu_enter("cuTensorMapEncodeIm2col");
	struct map m;

	if (err)
		return err;
	if (!is_known(type, rank, inter, promotion, fill) || (uintptr_t)out % 64 ||
	    !map_begin(&m, at, dim, step) || !is_swizzled(channels, swizzle) || !pixels ||
	    pixels > 1024 || each[3] != 1)
		return EMU_INVALID_VALUE;
	m.im2col = true;
	for (int i = 0; i < 2; i++) {
		int64_t last = (int64_t)dim[i + 1] - 1 + upper[i];

		if (lower[i] < -128 || lower[i] > 127 || upper[i] < -128 || upper[i] > 127 ||
		    !each[i + 1] || each[i + 1] > 8 || last < lower[i])
			return EMU_INVALID_VALUE;
		m.lower[i] = (int8_t)lower[i];
		m.upper[i] = (int8_t)upper[i];
		m.stride[i] = (uint8_t)each[i + 1];
	}
	memcpy(m.box, (uint32_t[]){ channels, pixels, 1, 1 }, sizeof(m.box));
	map_end(out, &m);
	return 0;
}

/* One row of a box: what lies inside of the tensor, and zeros. */
static void copy_row(const struct map *m, unsigned char *to, const int64_t *at)
{
	const char *from = m->at;
	int64_t n = m->box[0], lo = at[0] < 0 ? -at[0] : 0, hi = (int64_t)m->dim[0] - at[0];

	if (hi > n)
		hi = n;
	for (int i = 1; i < 4; i++) {
		if (at[i] < 0 || at[i] >= (int64_t)m->dim[i])
			hi = lo;
		else
			from += at[i] * (int64_t)m->step[i];
	}
	if (hi > lo)
		emu_access(from + (at[0] + lo) * 2, (unsigned int)(hi - lo) * 2, false);
	for (int i = 0; i < n; i++) {
		static const char zero[2];
		const char *p = i >= lo && i < hi ? from + (at[0] + i) * 2 : zero;

		memcpy(swizzled(to + i * 2, (uint32_t)n * 2), p, 2);
	}
}

/* Bytes that a box of the map has; 0: it is not a map. */
unsigned int emu_tile_bytes(const void *map)
{
	struct map m;

	memcpy(&m, map, sizeof(m));
	if (memcmp(m.name, map_name, sizeof(m.name)))
		return 0;
	return 2 * m.box[0] * m.box[1] * m.box[2] * m.box[3];
}

/* The last place of a pixel's first tap: @i is 0 for width, 1 for height. */
static int64_t last_of(const struct map *m, int i)
{
	return (int64_t)m->dim[i + 1] - 1 + m->upper[i];
}

/* Is the map of that mode, and in im2col mode the first pixel one that there is? */
bool emu_tile_may(const void *map, const int *at, const int *off)
{
	struct map m;

	memcpy(&m, map, sizeof(m));
	if (!m.im2col || !off)
		return !m.im2col && !off;
	for (int i = 0; i < 2; i++)
		if (off[i] < 0 || off[i] > 255 || at[i + 1] < m.lower[i] ||
		    at[i + 1] > last_of(&m, i))
			return false;
	return true;
}

/* Pixel after pixel, by strides within the box of places, row after row, image after image. */
static void copy_pixels(const struct map *m, unsigned char *row, const int *at, const int *off)
{
	int64_t w = at[1], h = at[2], n = at[3];

	for (uint32_t i = 0; i < m->box[1]; i++, row += m->box[0] * 2) {
		copy_row(m, row, (int64_t[]){ at[0], w + off[0], h + off[1], n });
		w += m->stride[0];
		if (w <= last_of(m, 0))
			continue;
		w = m->lower[0];
		h += m->stride[1];
		if (h <= last_of(m, 1))
			continue;
		h = m->lower[1];
		n++;
	}
}

void emu_tile_copy(void *to, const void *map, const int *at, const int *off)
{
	unsigned char *row = to;
	struct map m;

	memcpy(&m, map, sizeof(m));
	if (m.im2col) {
		copy_pixels(&m, to, at, off);
		return;
	}
	for (uint32_t l = 0; l < m.box[3]; l++)
		for (uint32_t k = 0; k < m.box[2]; k++)
			for (uint32_t j = 0; j < m.box[1]; j++, row += m.box[0] * 2)
				copy_row(&m, row, (int64_t[]){ at[0], at[1] + (int64_t)j,
						at[2] + (int64_t)k, at[3] + (int64_t)l });
}

/* Element (@row, @k) of a tile, whose depth runs @down the rows or along them. */
static uint16_t half_at(const struct emu_wgmma_op *op, const unsigned char *tile, int row, int k,
			bool down)
{
	int across = op->row / 2;	/* halves of a block's row */
	size_t at = down ? (size_t)(row / across) * (size_t)op->across +
			   (size_t)(k * op->row + row % across * 2) :
		    (size_t)(row * op->row + k * 2);
	uint16_t u;

	memcpy(&u, swizzled((unsigned char *)(uintptr_t)tile + at, (uint32_t)op->row), 2);
	return u;
}

static float from_f8(uint8_t v, bool e5m2)
{
	int e = v >> 3 & 15, m = v & 7;
	float x = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);

	if (e5m2)
		return emu_from_half((uint16_t)(v << 8), false);
	x = (v & 0x7f) == 0x7f ? NAN : x;
	return v & 0x80 ? -x : x;
}

/* What is in the place of a half of a, or of b: two numbers or one and 0. */
static void numbers(const struct emu_wgmma_op *op, uint16_t u, bool is_b, float to[2])
{
	bool e5m2 = op->f8 & (is_b ? 4 : 2);

	to[0] = op->f8 ? from_f8((uint8_t)u, e5m2) : emu_from_half(u, op->bf);
	to[1] = op->f8 ? from_f8((uint8_t)(u >> 8), e5m2) : 0;
}

/* The part of the GEMM that thread @t of the group holds. */
void emu_wgmma_part(const struct emu_wgmma_op *op, int t)
{
	float a[2][32], b[32];

	for (int h = 0; h < 2; h++)
		for (int k = 0; k < 16; k++)
			numbers(op, op->a ? half_at(op, op->a, t / 32 * 16 + t % 32 / 4 + h * 8, k,
						    op->ta) : op->lanes[h][k], false, a[h] + 2 * k);
	for (int i = 0; i < op->n / 2; i += 4)
		for (int c = 0; c < 2; c++) {
			for (int k = 0; k < 16; k++)
				numbers(op, half_at(op, op->b, i / 4 * 8 + t % 4 * 2 + c, k, op->tb),
					true, b + 2 * k);
			for (int h = 0; h < 2; h++) {
				float sum = op->more ? op->d[i + 2 * h + c] : 0;

				for (int k = 0; k < 32; k += op->f8 ? 1 : 2)
					sum += a[h][k] * b[k];
				op->d[i + 2 * h + c] = sum;
			}
		}
}
