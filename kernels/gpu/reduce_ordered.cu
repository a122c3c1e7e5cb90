// SPDX-License-Identifier: MIT
/*
 * Reductions of f32 in the CPU's order (kernels/cpu/reduce.c), for strict bits.
 *
 * Algorithm: along rows, a warp (16 threads for rows of less than 64) has a run of up to 4,096
 * elements: four sums of sixteen lanes each, which take turns, then what is left, then halves of
 * lanes. Runs of a row, and of segments of it, are met by a second launch, sums in a double. Along
 * columns a thread has one of the interleaved sums of a column, or 128 rows of it, four at a time;
 * the second launch meets those. Of equals the last is the largest, so that these have parts too.
 * Traffic: x once, 128 bytes side by side; along columns what rows have. 4 or 8 bytes of scratch
 * for each run or part. Columns cut into segments are not split into parts.
 * Limits: f32; sums, means, products, largest and smallest, sums of squares.
 */
#include "kernels/gpu/lanes.h"
#include "kernels/reduce.h"

#define SQUARES	REDUCE_TERM

struct op {
	static DEV inline float start(void)
	{
		return REDUCE_OP == RLX_K_REDUCE_MAX ? -INFINITY :
		       REDUCE_OP == RLX_K_REDUCE_MIN ? INFINITY : REDUCE_OP == RLX_K_REDUCE_PROD;
	}
	static DEV inline float meet(float a, float b)
	{
		return REDUCE_OP == RLX_K_REDUCE_MAX ? vf_max_nan(a, b) :
		       REDUCE_OP == RLX_K_REDUCE_MIN ? vf_min_nan(a, b) :
		       REDUCE_OP == RLX_K_REDUCE_PROD ? a * b : a + b;
	}
	static DEV inline float take(float a, float x)
	{
		return SQUARES ? fmaf(x, x, a) : meet(a, x);
	}
};

/* Sums of f32 meet in doubles. */
#define IS_SUM	(REDUCE_OP == RLX_K_REDUCE_SUM || REDUCE_OP == RLX_K_REDUCE_MEAN)

/* The offset of kept index @out at the first reduced one; of reduced index @red beside it. */
static DEV inline int64_t offset_of(const struct rlx_k_reduce &a, int64_t i, uint32_t reduced)
{
	int64_t off = 0, stride = 1;

	for (int d = a.rank; d-- > 0; stride *= a.dim[d])
		if ((a.axes >> d & 1) == reduced) {
			off += i % a.dim[d] * stride;
			i /= a.dim[d];
		}
	return off;
}

static DEV inline float finished(const struct rlx_k_reduce &a, float v)
{
	if (REDUCE_OP != RLX_K_REDUCE_MEAN)
		return v;
	return a.n_red >= 1 << 24 ? (float)((double)v / (double)a.n_red) : v / (float)a.n_red;
}

#ifdef RLX_KERNEL_reduce_ordered_rows
/* Of @n elements, by LANES threads; their first one has it. */
static DEV inline float run_of(const float *x, int n)
{
	const int l = (int)(threadIdx.x % REDUCE_LANES), lane = lane16();
	float r = op::start(), s = r, t = r;
	int i = 0, at;

	if (REDUCE_LANES == 32 && n >= 64) {
		for (; i + 64 <= n; i += 64) {
			s = op::take(s, x[i + l]);
			t = op::take(t, x[i + 32 + l]);
		}
		s = op::meet(s, warp_xor(s, 16));
		t = op::meet(t, warp_xor(t, 16));
		r = op::meet(s, t);
	}
	for (; i + 16 <= n; i += 16)
		r = op::take(r, x[i + lane]);
	if (i < n) {	/* the last lanes, but of a row that has no others */
		at = n < 16 ? lane : n - 16 + lane;
		r = op::take(r, at >= i && at < n ? x[at] : op::start());
	}
	return fold16<op>(r);
}

RLX_G_KERNEL(reduce_ordered_rows, struct rlx_k_reduce, 256)
{
	const float *x = RLX_G_PTR(const float, a.x);
	float *y = RLX_G_PTR(float, a.y), *part = (float *)env.scratch;
	const int64_t last = a.dim[a.rank - 1], run = RLX_K_REDUCE_RUN;
	const int64_t runs = (last + run - 1) / run, per = a.n_red / last * runs;

	if (env.pass) {
		for (int64_t o = (int64_t)blockIdx.x * 256 + threadIdx.x; o < a.n_out;
		     o += (int64_t)gridDim.x * 256) {
			double sum = 0;
			float r = op::start();

			for (int64_t k = 0; k < per; k++)
				if (IS_SUM)
					sum += (double)part[o * per + k];
				else
					r = op::meet(r, part[o * per + k]);
			y[o] = finished(a, IS_SUM ? (float)sum : r);
		}
		return;
	}
	/* all threads of a warp stay to the end, for what they exchange */
	for (int64_t b = blockIdx.x; b * (256 / REDUCE_LANES) < a.n_out * per; b += gridDim.x) {
		const int64_t u = b * (256 / REDUCE_LANES) + threadIdx.x / REDUCE_LANES;
		const int64_t k = u < a.n_out * per ? u : a.n_out * per - 1, o = k / per;
		const int64_t i = k % per / runs * last, from = k % runs * run;
		const int64_t n = last - from < run ? last - from : run;
		const float v = run_of(x + offset_of(a, o, 0) + offset_of(a, i, 1) + from, (int)n);

		if (u != k || threadIdx.x % REDUCE_LANES)
			continue;
		if (per == 1)
			y[o] = finished(a, v);
		else
			part[k] = v;
	}
}
#else
/* What rows x, x + step .. add up to, up to four, beside @r. */
static DEV inline float four(float r, const float *x, int64_t step, int64_t m)
{
	float p[4];

	for (int i = 0; i < 4; i++)
		p[i] = i < m ? x[i * step] : op::start();
	return op::meet(r, op::meet(op::take(SQUARES ? p[0] * p[0] : p[0], p[1]),
				    op::take(SQUARES ? p[2] * p[2] : p[2], p[3])));
}

/* One of a.fold interleaved sums of a column whose rows are cut into segments, in one go. */
static DEV inline double segments_of(const struct rlx_k_reduce &a, const float *x, int64_t h,
				     int64_t rows, bool parts)
{
	const int64_t last = a.dim[a.rank - 1], whole = rows / a.fold, step = a.fold * last;
	float r = op::start();
	double sum = 0;
	int64_t deep = 0;

	for (int64_t i = 0; i < a.n_red / rows; i++) {
		const float *p = x + offset_of(a, i * rows, 1) + h * last;

		for (int64_t j = 0, m; j < whole + (rows % a.fold > 0); j += m) {
			/* the last one, of fewer columns than others, by itself */
			const int64_t left = j < whole ? whole - j : h < rows % a.fold;

			m = j == whole ? 1 : left < 4 ? left : 4;
			r = four(r, p + j * step, step, j < whole ? m : left);
			deep += m;
			if (!parts || deep < RLX_K_REDUCE_PART)
				continue;
			sum += (double)r;
			r = op::start();
			deep = 0;
		}
	}
	return parts ? sum + (double)r : (double)r;
}

/* Part @k of such a sum, of rows that are not cut: 128 long rows each. */
static DEV inline float part_of(const struct rlx_k_reduce &a, const float *x, int64_t h,
				int64_t rows, int64_t k)
{
	const int64_t last = a.dim[a.rank - 1], whole = rows / a.fold, step = a.fold * last;
	const int64_t most = rlx_k_reduce_parts(&a) > 1 ? RLX_K_REDUCE_PART : rows;
	const int64_t from = k * most, next = from + most, to = next < whole ? next : whole;
	float r = op::start();

	x += h * last;
	for (int64_t j = from; j < to; j += 4)
		r = four(r, x + j * step, step, to - j);
	if (from <= whole && whole < next && h < rows % a.fold)
		r = four(r, x + whole * step, step, 1);
	return r;
}

static DEV inline double both(double x, double y, bool wide)
{
	return wide ? x + y : (double)op::meet((float)x, (float)y);
}

/* All of the sums of a column, which stand @inner apart, meet. */
static DEV inline float all_of(const struct rlx_k_reduce &a, const double *part, int64_t inner,
			       int64_t parts, bool wide)
{
	double sum[RLX_K_REDUCE_FOLD];

	for (int64_t h = 0; h < a.fold; h++) {
		sum[h] = part[h * inner];
		for (int64_t k = 1; k < parts; k++)
			sum[h] = both(sum[h], part[(k * a.fold + h) * inner], wide);
	}
	for (int64_t k = a.fold / 2; k; k /= 2)
		for (int64_t h = 0; h < k; h++)
			sum[h] = both(sum[h], sum[h + k], wide);
	return (float)sum[0];
}

RLX_G_KERNEL(reduce_ordered_columns, struct rlx_k_reduce, 256)
{
	const float *x = RLX_G_PTR(const float, a.x);
	float *y = RLX_G_PTR(float, a.y);
	double *part = (double *)env.scratch;
	const int64_t last = a.dim[a.rank - 1], rows = a.rank > 1 ? a.dim[a.rank - 2] : 1;
	const bool deep = IS_SUM && a.n_red > RLX_K_REDUCE_PART;
	const int64_t parts = rlx_k_reduce_parts(&a), per = parts * a.fold;
	const int64_t n = env.pass ? a.n_out : a.n_out * per;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < n;
	     e += (int64_t)gridDim.x * 256) {
		const int64_t c = e % last, k = env.pass ? 0 : e / last % per;
		const int64_t outer = e / last / (env.pass ? 1 : per);
		const float *p = x + offset_of(a, outer * last, 0) + c;
		double v;

		if (env.pass) {
			y[e] = finished(a, all_of(a, part + outer * per * last + c, last, parts,
						  deep));
			continue;
		}
		v = rows == a.n_red ? (double)part_of(a, p, k % a.fold, rows, k / a.fold) :
				      segments_of(a, p, k % a.fold, rows, deep);
		if (per == 1)
			y[e] = finished(a, (float)v);
		else
			part[e] = v;
	}
}
#endif
