// SPDX-License-Identifier: MIT
/*
 * GEMM of 8-bit integers by tensor cores; sums are exact, modulo 2^32. GEMM_EDGE: 128 or 64
 * rows and columns of a tile. GEMM_B_COLS: b is by columns.
 *
 * Algorithm: tiles as in gemm_mma_tile.h. All bytes are multiplied as signed: unsigned ones have
 * 128 taken off in their fragments, by an exclusive or, and off their zero points. Where zero
 * points are not 0, rows of A and columns of B are summed up on the way, from the same fragments,
 * and correct the sums at the end. The epilogue is that of gemm.h on scaled sums.
 * Traffic: as gemm_mma_tile.h, 1 byte an element; C once, as i32, f32, u8 or s8.
 * Source: the zero points of Jacob et al., "Quantization and Training of Neural Networks for
 * Efficient Integer-Arithmetic-Only Inference" (2018). Limits: A not transposed, B not packed.
 */
#include "kernels/gpu/dialect.h"

typedef int8_t elem, type_a, type_b;

#define A_TRANS	0
#define B_TRANS	(!GEMM_B_COLS)	/* k runs down the rows of b's tile */

static DEV inline int8_t to_elem(int8_t x) { return x; }

#include "kernels/gpu/gemm_mma_tile.h"

/* What is the same for all sums. */
struct ends {
	const int32_t	*a_zeros, *b_zeros, *ibias;
	const float	*scales, *row_scales, *bias, *row_bias, *r;
	void		*c;
};

/* The end of the sum at (row, col) of the batch. */
static DEV inline void finish(const struct rlx_k_gemm_i8 &q, const struct ends &o, int64_t row,
			      int64_t col, int32_t sum)
{
	const struct rlx_k_gemm &g = q.g;
	int64_t at = row * (int64_t)g.ldc + col;
	float x, scale = (float)g.alpha;

	if (o.ibias)
		sum = (int32_t)((uint32_t)sum + (uint32_t)o.ibias[col]);
	if (q.out == RLX_I8_OUT_I32) {
		((int32_t *)o.c)[at] = sum;
		return;
	}
	scale *= o.scales ? o.scales[col] : 1;
	scale *= o.row_scales ? o.row_scales[row] : 1;
	x = (float)sum * scale;
	if (o.bias)
		x += o.bias[col];
	if (o.row_bias)
		x += o.row_bias[row];
	if (o.r)
		x += (float)g.beta * o.r[row * (int64_t)g.ldr + col];
	x = gemm_act(g.act, g, x);
	if (q.out == RLX_I8_OUT_F32) {
		((float *)o.c)[at] = x;
		return;
	}
	/* what lies far beyond saturates, and rounding stays defined */
	x *= q.requant;
	x = x < -1048576.0f ? -1048576.0f : x > 1048576.0f ? 1048576.0f : x;
	sum = (x != x ? 0 : (int32_t)rintf(x)) + q.c_zero;
	if (q.out == RLX_I8_OUT_U8)
		((uint8_t *)o.c)[at] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
	else
		((int8_t *)o.c)[at] = (int8_t)(sum < -128 ? -128 : sum > 127 ? 127 : sum);
}

/*
 * All bytes are multiplied as signed: 128 less than they are if they are not, and so are
 * their zero points. Where those are not 0, a sum wants those of its row and column too.
 */
struct ending : ends {
	const struct rlx_k_gemm_i8 &q;
	const int8_t	*a, *b;
	const int	*list = 0;
	uint32_t	flip_a, flip_b;		/* of a word: what takes 128 off each byte */
	bool		by_a, by_b;		/* rows of a, columns of b are summed up */
	int		sum_a[TM][MMA_LINES], sum_b[TN], *sums;

	DEV ending(const struct rlx_k_gemm_i8 &all, const struct rlx_g_env &env, int64_t batch)
		: ends{ RLX_G_PTR(const int32_t, all.a_zeros),
			RLX_G_PTR(const int32_t, all.b_zeros),
			RLX_G_PTR(const int32_t, all.ibias), RLX_G_PTR(const float, all.scales),
			RLX_G_PTR(const float, all.row_scales),
			RLX_G_PTR(const float, all.g.bias),
			RLX_G_PTR(const float, all.g.row_bias),
			RLX_G_PTR(const float, all.g.residual), 0 },
		  q(all), sum_a{}, sum_b{}
	{
		const struct rlx_k_gemm &g = all.g;
		int64_t inner = g.batch[1] ? (int64_t)g.batch[1] : 1;
		size_t i = (size_t)(batch / inner), j = (size_t)(batch % inner);

		a = RLX_G_PTR(const int8_t, g.a) + i * g.a_step[0] + j * g.a_step[1];
		b = RLX_G_PTR(const int8_t, g.b) + i * g.b_step[0] + j * g.b_step[1];
		c = RLX_G_PTR(char, g.c) + (i * g.c_step[0] + j * g.c_step[1]) *
					   (q.out < RLX_I8_OUT_U8 ? 4 : 1);
		if (r)
			r += i * g.r_step[0] + j * g.r_step[1];
		flip_a = q.a_signed ? 0 : 0x80808080;
		flip_b = q.b_signed ? 0 : 0x80808080;
		by_a = b_zeros || signed_zero(q.b_zero, q.b_signed);
		by_b = a_zeros || signed_zero(q.a_zero, q.a_signed);
	}

	static DEV uint32_t signed_zero(int32_t zero, bool is_signed)
	{
		return (uint32_t)zero - (is_signed ? 0 : 128);
	}

	/* Each a branch for all of its sums. */
	DEV void take(uint32_t (*fa)[MMA_A], uint32_t (*fb)[MMA_B])
	{
		const int ones = 0x01010101;

#pragma unroll
		for (int w = 0; w < MMA_A; w++)
#pragma unroll
			for (int i = 0; i < TM; i++)
				fa[i][w] ^= flip_a;
#pragma unroll
		for (int w = 0; w < MMA_B; w++)
#pragma unroll
			for (int j = 0; j < TN; j++)
				fb[j][w] ^= flip_b;
		if (by_a)
#pragma unroll
			for (int e = 0; e < MMA_A * TM; e++) {
				int *s = &sum_a[e / MMA_A][e % MMA_LINES];

				*s = dot_i8((int)fa[e / MMA_A][e % MMA_A], ones, *s);
			}
		if (by_b)
#pragma unroll
			for (int e = 0; e < MMA_B * TN; e++)
				sum_b[e / MMA_B] = dot_i8((int)fb[e / MMA_B][e % MMA_B], ones,
							  sum_b[e / MMA_B]);
	}

	DEV void sum_up(int *smem)
	{
		sums = smem;
#pragma unroll
		for (int l = 0; l < MMA_LINES; l++)
#pragma unroll
			for (int i = 0; i < TM; i++) {
				int v = mma_across(sum_a[i][l]);

				if (mma_a_word(0) == 0)
					smem[i * MMA_M + mma_a_row(2 * l)] = v;
			}
#pragma unroll
		for (int j = 0; j < TN; j++) {
			int v = mma_across(sum_b[j]);

			if (mma_b_word(0) == 0)
				smem[WM + mma_col<elem>(j, mma_b_col(0), B_TRANS)] = v;
		}
	}

	DEV bool apart(void) const { return false; }
	DEV void write(size_t row, size_t col, int x) const {}
	DEV void end(size_t row, size_t col, const int *at, const int *sum, int left) const
	{
#pragma unroll 1
		for (int j = 0; j < left; j++)
			end_one(row, col + (size_t)j, at[0], at[1] + j, sum[j]);
	}

	/* The sum at (@r, @c) of the warp's part */
	DEV void end_one(size_t row, size_t col, int r, int c, int sum) const
	{
		int32_t az = a_zeros ? a_zeros[row] : q.a_zero;
		int32_t bz = b_zeros ? b_zeros[col] : q.b_zero;
		uint32_t sa = signed_zero(az, q.a_signed), sb = signed_zero(bz, q.b_signed);
		uint32_t k = (uint32_t)((q.g.k + DEPTH - 1) / DEPTH * DEPTH);
		uint32_t total = (uint32_t)sum + k * sa * sb - sa * (uint32_t)sums[WM + c] -
				 sb * (uint32_t)sums[r];

		/* beyond the last k tiles have zeros */
		total -= (k - (uint32_t)q.g.k) * (uint32_t)az * (uint32_t)bz;
		finish(q, *this, (int64_t)row, (int64_t)col, (int32_t)total);
	}
};

RLX_G_KERNEL(gemm_i8, struct rlx_k_gemm_i8, THREADS)
{
	SHARED_DYNAMIC(shared);
	int64_t down = tiles_down(a.g, env), each = tiles_of(a.g, down);
	int64_t tiles = each * (int64_t)rlx_k_gemm_batches(&a.g);

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
		product(a.g, (elem *)shared, down, t % each, ending(a, env, t / each));
}
