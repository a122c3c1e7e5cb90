// SPDX-License-Identifier: MIT
// Operations of a whole warp: shuffle, ballot, matrix products with real layouts.
#include "emu.h"

#include <math.h>
#include <string.h>

#include "emu_device.h"

float emu_from_half(uint16_t h, bool brain)
{
	uint32_t u = (uint32_t)h << 16;
	float f;

	if (brain) {
		memcpy(&f, &u, 4);
		return f;
	}
	{
		_Float16 x;

		memcpy(&x, &h, 2);
		return (float)x;
	}
}

/* The tensor cores read ten bits of a TF32's fraction. */
static float tf32(uint32_t u)
{
	float f;

	u &= 0xffffe000u;
	memcpy(&f, &u, 4);
	return f;
}

/* The words of @n lanes' operands by their place in the matrices, eight along k. */
struct words {
	uint32_t	a[16][8], b[16][8];
};

/* A product of CUDA's: 16 x 8, warp of 32. */
static void collect_cuda(struct words *m, struct emu_warp_op **op)
{
	for (int l = 0; l < 32; l++)
		for (int i = 0; i < 4; i++) {
			const uint32_t *a = op[l]->a, *b = op[l]->b;

			m->a[l / 4 + i % 2 * 8][l % 4 + i / 2 * 4] = a[i];
			if (i < 2)
				m->b[l / 4][l % 4 + i * 4] = b[i];
		}
}

/* Of AMD's: 16 x 16, warp of 64. */
static void collect_amd(struct words *m, struct emu_warp_op **op)
{
	for (int l = 0; l < 64; l++)
		for (int i = 0; i < 2; i++) {
			m->a[l % 16][l / 16 * 2 + i] = ((const uint32_t *)op[l]->a)[i];
			m->b[l % 16][l / 16 * 2 + i] = ((const uint32_t *)op[l]->b)[i];
		}
}

static int32_t sum_bytes(const uint32_t *a, const uint32_t *b)
{
	const int8_t *x = (const int8_t *)a, *y = (const int8_t *)b;
	int32_t s = 0;

	for (int i = 0; i < 32; i++)
		s += x[i] * y[i];
	return s;
}

static float sum_floats(const uint32_t *a, const uint32_t *b, int type)
{
	const uint16_t *x = (const uint16_t *)a, *y = (const uint16_t *)b;
	bool brain = type == EMU_MMA_BF16;
	float s = 0;

	for (int i = 0; i < 8 && type == EMU_MMA_TF32; i++)
		s += tf32(a[i]) * tf32(b[i]);
	for (int i = 0; i < 16 && type != EMU_MMA_TF32; i++)
		s += emu_from_half(x[i], brain) * emu_from_half(y[i], brain);
	return s;
}

/* Four elements of the result a lane; integers wrap around. */
static void mma(struct emu_warp_op **op, int n)
{
	struct words m;

	if (n == 32)
		collect_cuda(&m, op);
	else
		collect_amd(&m, op);
	for (int l = 0; l < n; l++)
		for (int i = 0; i < 4; i++) {
			int row = n == 32 ? l / 4 + i / 2 * 8 : l / 16 * 4 + i;
			int col = n == 32 ? l % 4 * 2 + i % 2 : l % 16;

			if (op[0]->type == EMU_MMA_I8)
				((uint32_t *)op[l]->d)[i] +=
					(uint32_t)sum_bytes(m.a[row], m.b[col]);
			else
				((float *)op[l]->d)[i] +=
					sum_floats(m.a[row], m.b[col], op[0]->type);
		}
}

/* @lane matrices; lane 8 m + r holds the address of row r of matrix m. */
static bool ldmatrix(struct emu_warp_op **op)
{
	int n = op[0]->lane;
	bool trans = op[0]->type;

	if (n != 1 && n != 2 && n != 4)
		return false;
	for (int m = 0; m < n; m++)
		for (int l = 0; l < 32; l++) {
			uint16_t v[2];

			for (int i = 0; i < 2; i++) {
				int r = trans ? l % 4 * 2 + i : l / 4;
				int c = trans ? l / 4 : l % 4 * 2 + i;
				const uint16_t *row = op[8 * m + r]->a;

				v[i] = row[c];
			}
			memcpy((uint32_t *)op[l]->d + m, v, 4);
		}
	return true;
}

bool emu_warp_do(struct emu_warp_op **op, int n)
{
	uint64_t bits = 0, old[64];

	switch (op[0]->kind) {
	case EMU_OP_SHUFFLE:
		for (int i = 0; i < n; i++)
			old[i] = op[i]->value;
		for (int i = 0; i < n; i++) {
			if (op[i]->lane < 0 || op[i]->lane >= n)
				return false;
			op[i]->value = old[op[i]->lane];
		}
		return true;
	case EMU_OP_BALLOT:
		for (int i = 0; i < n; i++)
			bits |= (uint64_t)(op[i]->value != 0) << i;
		for (int i = 0; i < n; i++)
			op[i]->value = bits;
		return true;
	case EMU_OP_MMA:
		mma(op, n);
		return true;
	case EMU_OP_LDMATRIX:
		return n == 32 && ldmatrix(op);
	default:
		return false;
	}
}
