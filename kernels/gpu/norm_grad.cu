// SPDX-License-Identifier: MIT
/*
 * Gradients of layer norm and RMS norm, of rows.
 *
 * Algorithm: a row's x and dy are read once into registers (rows.h), with two sums over the row
 * between what is read and what is written. Each thread sums dy xh and dy for its columns over
 * all rows that its block takes; those of a block's rows are put together in shared memory, in
 * order, and a row of them for each block in scratch is added up by a second launch: no atomic
 * sums, and the same bits each time.
 * Tiles: rows are shared out as those of norms (rows_plan.h), but for fewer blocks, as each
 * thread keeps five registers an element.
 * Traffic: x, dy, what is added to dx, and dx once, which is the bound, and 8 bytes a column and
 * block twice.
 * Source: Ba et al., "Layer Normalization" (2016); Zhang and Sennrich, "Root Mean Square Layer
 * Normalization" (2019). Limits: f32, f16, bf16, computed in f32; rows that the registers of a
 * block hold.
 */
#include "kernels/gpu/rows_plan.h"
#define RLX_G_BLOCKS	ROWS_GRAD_BLOCKS(ROWS_SHARE)

#include "kernels/gpu/rows.h"
#include "kernels/norm.h"

/* NORM_GAMMA, NORM_ADD: there are gamma and residual; NORM_SUMS: dgamma or dbeta is asked for. */
typedef rlx_t<NORM_X_TYPE> type_x;
typedef rlx_t<NORM_DY_TYPE> type_dy;
typedef rlx_t<NORM_PARAM_TYPE> type_p;

/* Columns of a block of the second launch, 32 bytes, and threads that share each. */
enum { COLUMNS = 8, SHARERS = THREADS / COLUMNS, WIDE = GROUPS > 1 ? (int)PIECE : 1,
       SUMS = WIDE > THREADS ? WIDE : (int)THREADS };

/* What a thread found of its columns, over all rows of its group. */
struct column_sums {
	float	gamma[CHUNKS][VEC], beta[CHUNKS][VEC];
};

struct grad_row {
	const struct rlx_k_norm_grad &a;
	const struct rlx_g_env	&env;
	row_part		part;
	int64_t			row;
	bool			in;	/* else there is no such row */

	/* @more: what is added, which nothing waits for yet */
	DEV void load(float (&x)[CHUNKS][VEC], float (&dy)[CHUNKS][VEC],
		      row_vec<type_x::mem> (&more)[CHUNKS]) const
	{
		row_vec<type_x::mem> raw_x[CHUNKS];
		row_vec<type_dy::mem> raw_dy[CHUNKS];

		part.load(RLX_G_PTR(const type_x::mem, a.x) + row * a.n, in, raw_x);
		part.load(RLX_G_PTR(const type_dy::mem, a.dy) + row * a.n, in, raw_dy);
		if (NORM_ADD)
			part.load(RLX_G_PTR(const type_x::mem, a.residual) + row * a.n, in, more);
		row_get<type_x>(raw_x, x);
		row_get<type_dy>(raw_dy, dy);
	}

	/* x becomes xh, dy becomes d; @out: sums of d and d xh of what the thread has */
	DEV void take(float (&x)[CHUNKS][VEC], float (&dy)[CHUNKS][VEC], float mean, float inv,
		      struct column_sums &sums, float (&out)[2]) const
	{
		const type_p::mem *gamma = RLX_G_PTR(const type_p::mem, a.gamma);

		out[0] = out[1] = 0;
#pragma unroll
		for (int c = 0; c < CHUNKS; c++) {
			row_vec<type_p::mem> g = {};

			if (NORM_GAMMA && part.has(c))
				g = *(const row_vec<type_p::mem> *)(gamma + part.at(c));
#pragma unroll
			for (int i = 0; i < VEC; i++) {
				const float xh = (x[c][i] - mean) * inv;

				if (NORM_SUMS) {
					sums.gamma[c][i] += dy[c][i] * xh;
					sums.beta[c][i] += dy[c][i];
				}
				x[c][i] = xh;
				dy[c][i] = NORM_GAMMA ? dy[c][i] * type_p::get(g.v[i]) : dy[c][i];
				out[0] += dy[c][i];
				out[1] += part.has(c) ? dy[c][i] * xh : 0;
			}
		}
	}

	DEV void write(const float (&xh)[CHUNKS][VEC], const float (&d)[CHUNKS][VEC], float inv,
		       const float (&mean)[2], const row_vec<type_x::mem> (&more)[CHUNKS]) const
	{
		type_x::mem *to = RLX_G_PTR(type_x::mem, a.dx) + row * a.n;

#pragma unroll
		for (int c = 0; c < CHUNKS; c++) {
			float y[VEC];

#pragma unroll
			for (int i = 0; i < VEC; i++)
				y[i] = inv * (d[c][i] - mean[0] - xh[c][i] * mean[1]) +
				       (NORM_ADD ? type_x::get(more[c].v[i]) : 0);
			part.store<type_x>(to, in, c, y);
		}
	}
};

static DEV inline float squares_of(const float (&x)[CHUNKS][VEC])
{
	float sum = 0;

#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			sum += x[c][i] * x[c][i];
	return sum;
}

/* @v of all the block's groups, one after the other, to @to */
static DEV inline void leave(const row_part &part, const float (&v)[CHUNKS][VEC], float *smem,
			     float *to)
{
	const int group = (int)threadIdx.x / LANES;

	for (int g = 0; g < GROUPS; g++) {
#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
#pragma unroll
			for (int i = 0; i < VEC; i++) {
				if (group != g || !part.has(c))
					continue;
				if (GROUPS == 1)
					to[part.at(c) + i] = v[c][i];
				else
					smem[part.at(c) + i] = v[c][i] +
						(g ? smem[part.at(c) + i] : 0);
			}
		if (GROUPS > 1)
			__syncthreads();
	}
	for (int i = (int)threadIdx.x; i < part.n && GROUPS > 1; i += THREADS)
		to[i] = smem[i];
	if (GROUPS > 1)
		__syncthreads();
}

/* What all blocks left of each column */
static DEV inline void add_blocks(const struct rlx_k_norm_grad &a, const struct rlx_g_env &env,
				  float *smem)
{
	const float *found = (const float *)env.scratch;
	const int column = (int)threadIdx.x % COLUMNS, from = (int)threadIdx.x / COLUMNS;
	float *dgamma = RLX_G_PTR(float, a.dgamma), *dbeta = RLX_G_PTR(float, a.dbeta);

	for (int64_t c = (int64_t)blockIdx.x * COLUMNS; c < 2 * a.n;
	     c += (int64_t)gridDim.x * COLUMNS) {
		const int64_t at = c + column;
		float sum = 0;

#pragma unroll 4
		for (int b = from; b < (int)gridDim.x; b += SHARERS)
			sum += at < 2 * a.n ? found[b * 2 * a.n + at] : 0;
		smem[threadIdx.x] = sum;
		__syncthreads();
		sum = 0;
		for (int i = 0; i < SHARERS && from == 0; i++)
			sum += smem[i * COLUMNS + column];
		if (from == 0 && at < a.n && a.dgamma)
			dgamma[at] = sum;
		if (from == 0 && at >= a.n && at < 2 * a.n && a.dbeta)
			dbeta[at - a.n] = sum;
		__syncthreads();
	}
}

RLX_G_KERNEL(norm_grad, struct rlx_k_norm_grad, THREADS)
{
	SHARED(float, smem, [2][MAX_WARPS]);
	SHARED(float, columns, [SUMS]);
	const int64_t step = (int64_t)gridDim.x * GROUPS;
	const int64_t begin = (int64_t)blockIdx.x * GROUPS + (int)threadIdx.x / LANES;
	grad_row at = { a, env, { (int)a.n, (int)threadIdx.x % LANES }, begin, begin < a.rows };
	float *found = (float *)env.scratch + (int64_t)blockIdx.x * 2 * a.n;
	row_meeting<float> meet = { smem, 0 };
	struct column_sums sums = {};

	if (env.pass) {
		add_blocks(a, env, columns);
		return;
	}
	/* all rows of a warp at a time, as it has to stay together */
	for (int64_t i = (int64_t)blockIdx.x * GROUPS; i < a.rows; i += step) {
		float x[CHUNKS][VEC], dy[CHUNKS][VEC], mean = 0, inv = 0, part[2];
		row_vec<type_x::mem> more[CHUNKS];

		at.load(x, dy, more);
		if (NORM_RMS) {
			inv = meet.of<op_sum>(squares_of(x)) / (float)a.n;
			inv = at.in ? rsqrt_f32(inv + a.eps) : 0;
		} else if (at.in) {
			mean = RLX_G_PTR(const float, a.mean)[at.row];
			inv = RLX_G_PTR(const float, a.inv)[at.row];
		}
		at.take(x, dy, mean, inv, sums, part);
		part[0] = NORM_RMS ? 0 : meet.of<op_sum>(part[0]) / (float)a.n;
		part[1] = meet.of<op_sum>(part[1]) / (float)a.n;
		at.write(x, dy, inv, part, more);
		at.row += step;
		at.in = at.row < a.rows;
	}
	if (NORM_SUMS) {
		leave(at.part, sums.gamma, columns, found);
		leave(at.part, sums.beta, columns, found + a.n);
	}
}
