// SPDX-License-Identifier: MIT
// Operations of a whole wave: shuffle, ballot, matrix products with real layouts.
#include "emu.h"

#include <math.h>
#include <string.h>

#include "emu_device.h"

static float from_half(uint16_t h, bool brain)
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

static float element(const void *frag, int i, int type)
{
	if (type == EMU_MMA_TF32)
		return tf32(((const uint32_t *)frag)[i]);
	return from_half(((const uint16_t *)frag)[i], type == EMU_MMA_BF16);
}

/* One CUDA product, wave of 32: A 16 x k, B k x 8, four elements of C a lane. */
static void mma_cuda(struct emu_wave_op **op)
{
	int type = op[0]->type, k = type == EMU_MMA_TF32 ? 8 : type == EMU_MMA_I8 ? 32 : 16;
	int per = type == EMU_MMA_TF32 ? 1 : type == EMU_MMA_I8 ? 4 : 2;
	float a[16][32], b[32][8];
	int32_t ia[16][32], ib[32][8];

	for (int l = 0; l < 32; l++) {
		int g = l / 4, t = l % 4;

		for (int i = 0; i < 4 * per; i++) {
			int row = g + i / per % 2 * 8;
			int col = t * per + i % per + i / per / 2 * 4 * per;

			if (type == EMU_MMA_I8)
				ia[row][col] = ((const int8_t *)op[l]->a)[i];
			else
				a[row][col] = element(op[l]->a, i, type);
		}
		for (int i = 0; i < 2 * per; i++) {
			int row = t * per + i % per + i / per * 4 * per;

			if (type == EMU_MMA_I8)
				ib[row][g] = ((const int8_t *)op[l]->b)[i];
			else
				b[row][g] = element(op[l]->b, i, type);
		}
	}
	for (int l = 0; l < 32; l++)
		for (int i = 0; i < 4; i++) {
			int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
			float s = 0;
			int32_t is = 0;

			for (int j = 0; j < k && type != EMU_MMA_I8; j++)
				s += a[row][j] * b[j][col];
			for (int j = 0; j < k && type == EMU_MMA_I8; j++)
				is += ia[row][j] * ib[j][col];
			if (type == EMU_MMA_I8)
				((int32_t *)op[l]->d)[i] += is;
			else
				((float *)op[l]->d)[i] += s;
		}
}

/* One mfma of a wave of 64: 16 x 16 x 16 halves, or 16 x 16 x 4 floats. */
static void mma_amd(struct emu_wave_op **op)
{
	int type = op[0]->type, per = type == EMU_MMA_TF32 ? 1 : 4, k = per * 4;
	float a[16][16], b[16][16];

	for (int l = 0; l < 64; l++)
		for (int i = 0; i < per; i++) {
			int c = l / 16 * per + i;

			if (type == EMU_MMA_TF32) {
				a[l % 16][c] = ((const float *)op[l]->a)[i];
				b[l % 16][c] = ((const float *)op[l]->b)[i];
			} else {
				a[l % 16][c] = element(op[l]->a, i, type);
				b[l % 16][c] = element(op[l]->b, i, type);
			}
		}
	for (int l = 0; l < 64; l++)
		for (int i = 0; i < 4; i++) {
			int row = l / 16 * 4 + i, col = l % 16;
			float s = 0;

			for (int j = 0; j < k; j++)
				s += a[row][j] * b[col][j];
			((float *)op[l]->d)[i] += s;
		}
}

/* @lane matrices; lane 8 m + r holds the address of row r of matrix m. */
static bool ldmatrix(struct emu_wave_op **op)
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

bool emu_wave_do(struct emu_wave_op **op, int n)
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
		if (n == 32)
			mma_cuda(op);
		else
			mma_amd(op);
		return true;
	case EMU_OP_LDMATRIX:
		return n == 32 && ldmatrix(op);
	default:
		return false;
	}
}
