/* SPDX-License-Identifier: MIT */
/*
 * The tile dialect in portable C, for tests of the AMX kernels on machines without AMX;
 * included by tile_amx.h, and by the test that compares the two. What would fault traps:
 * shapes that do not fit together, and registers without a shape.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2,
 * TDPBF16PS: the sums of a tile's even and odd elements along K are apart, each a chain
 * of FMAs from 0, and their sum is added to C; denormals are 0 on the way in and out.
 */
#ifndef RLX_SIMD_TILE_EMU_H
#define RLX_SIMD_TILE_EMU_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static __thread struct tile_emu_state {
	struct tile_shape	shape;
	unsigned char		data[TILE_COUNT][TILE_ROWS][TILE_COLSB];
} tile_emu_now;

static inline void tile_emu_need(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static inline void tile_emu_config(const struct tile_shape *s)
{
	int t;

	tile_emu_need(s->palette == 1 && !s->start_row);
	for (t = 0; t < 16; t++)
		tile_emu_need(t < TILE_COUNT ?
			      s->rows[t] <= TILE_ROWS && s->colsb[t] <= TILE_COLSB &&
			      !s->rows[t] == !s->colsb[t] : !s->rows[t] && !s->colsb[t]);
	tile_emu_now = (struct tile_emu_state){ .shape = *s };
}

static inline void tile_emu_release(void)
{
	tile_emu_now = (struct tile_emu_state){ .shape = { .palette = 0 } };
}

static inline void tile_emu_zero(int t)
{
	tile_emu_need(tile_emu_now.shape.rows[t]);
	memset(tile_emu_now.data[t], 0, TILE_BYTES);
}

static inline void tile_emu_load(int t, const void *p, size_t ld)
{
	size_t i;

	tile_emu_zero(t);
	for (i = 0; i < tile_emu_now.shape.rows[t]; i++)
		memcpy(tile_emu_now.data[t][i], (const char *)p + i * ld,
		       tile_emu_now.shape.colsb[t]);
}

static inline void tile_emu_store(int t, void *p, size_t ld)
{
	size_t i;

	tile_emu_need(tile_emu_now.shape.rows[t]);
	for (i = 0; i < tile_emu_now.shape.rows[t]; i++)
		memcpy((char *)p + i * ld, tile_emu_now.data[t][i], tile_emu_now.shape.colsb[t]);
}

static inline void tile_emu_need_product(int c, int a, int b)
{
	const struct tile_shape *s = &tile_emu_now.shape;

	tile_emu_need(c != a && c != b && a != b);
	tile_emu_need(s->rows[c] && s->rows[a] && s->rows[b]);
	tile_emu_need(s->rows[c] == s->rows[a] && s->colsb[c] == s->colsb[b] &&
		      s->colsb[a] == s->rows[b] * 4);
}

static inline float tile_emu_flush(float x)
{
	return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

static inline float tile_emu_bf16(const unsigned char *p)
{
	uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
	float x;

	memcpy(&x, &bits, sizeof(x));
	return tile_emu_flush(x);
}

/* Every other element of a row of A times those of a column of B, @groups pairs. */
static inline float tile_emu_chain(const unsigned char *a, const unsigned char *b,
				   size_t groups)
{
	float sum = 0;

	for (; groups; groups--, a += 4, b += TILE_COLSB)
		sum = tile_emu_flush(fmaf(tile_emu_bf16(a), tile_emu_bf16(b), sum));
	return sum;
}

static inline void tile_emu_dp_bf16(int c, int a, int b)
{
	const struct tile_shape *s = &tile_emu_now.shape;
	size_t groups = s->rows[b], m, n;
	float x, sum;

	tile_emu_need_product(c, a, b);
	for (m = 0; m < s->rows[c]; m++)
		for (n = 0; n < s->colsb[c]; n += 4) {
			const unsigned char *row = tile_emu_now.data[a][m];
			const unsigned char *col = tile_emu_now.data[b][0] + n;
			unsigned char *to = tile_emu_now.data[c][m] + n;

			sum = tile_emu_chain(row, col, groups) +
			      tile_emu_chain(row + 2, col + 2, groups);
			memcpy(&x, to, sizeof(x));
			x = tile_emu_flush(tile_emu_flush(x) + tile_emu_flush(sum));
			memcpy(to, &x, sizeof(x));
		}
}

/* The sum of @groups of four products, modulo 2^32. */
static inline uint32_t tile_emu_bytes(const unsigned char *a, const unsigned char *b,
				      size_t groups, bool a_signed, bool b_signed)
{
	uint32_t sum = 0;
	size_t e;

	for (; groups; groups--, a += 4, b += TILE_COLSB)
		for (e = 0; e < 4; e++)
			sum += (uint32_t)(a_signed ? (int8_t)a[e] : a[e]) *
			       (uint32_t)(b_signed ? (int8_t)b[e] : b[e]);
	return sum;
}

static inline void tile_emu_dp_8(int c, int a, int b, bool a_signed, bool b_signed)
{
	const struct tile_shape *s = &tile_emu_now.shape;
	uint32_t sum;
	size_t m, n;

	tile_emu_need_product(c, a, b);
	for (m = 0; m < s->rows[c]; m++)
		for (n = 0; n < s->colsb[c]; n += 4) {
			unsigned char *to = tile_emu_now.data[c][m] + n;

			memcpy(&sum, to, sizeof(sum));
			sum += tile_emu_bytes(tile_emu_now.data[a][m],
					      tile_emu_now.data[b][0] + n, s->rows[b],
					      a_signed, b_signed);
			memcpy(to, &sum, sizeof(sum));
		}
}

#endif
