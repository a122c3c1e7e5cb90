// SPDX-License-Identifier: MIT
/*
 * Softmax and log-softmax along an axis, by rows where it is the last one, else by columns.
 *
 * Algorithm: the maximum, the sum of exp(x - max), the results; so nothing overflows. Lines that
 * registers hold are read once. Longer ones twice: each thread keeps a maximum and a sum that it
 * scales as the maximum grows (online softmax), all of a line are put together, and the second
 * reading goes from the end on, as caches still hold that.
 * Tiles: a row has the threads that kernels/gpu/rows_plan.h gives it, rlx_g_softmax_launch() says
 * how many; its next row is under way meanwhile. By columns neighbouring threads have neighbouring
 * vectors along inner, and LANES of a block share each column of them, CHUNKS elements each. Where
 * long lines are few, blocks share each, whose parts a second launch puts together.
 * Traffic: x and y once, of long lines x twice.
 * Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018). Limits: f32,
 * f16 and bf16, computed in f32; any length.
 */
#include "kernels/gpu/rows_plan.h"
#if SOFTMAX_COLUMNS
#define RLX_G_BLOCKS	COLS_BLOCKS(ROWS_SHARE)
#else
#define RLX_G_BLOCKS	ROWS_BLOCKS(ROWS_SHARE)
#endif

#include "kernels/gpu/rows.h"
#include "kernels/softmax.h"

typedef rlx_t<SOFTMAX_X_TYPE> type_x;
typedef rlx_t<SOFTMAX_Y_TYPE> type_y;
enum { LOG = SOFTMAX_LOG, AHEAD = CHUNKS * VEC * sizeof(type_x::mem) <= 32 };

/* The largest of some elements, and the sum of exp(x - max) of them */
struct soft_sum {
	float	max, sum;

	/* exp(x - max) as it is by a maximum of @all; of nothing 0 */
	DEV float by(float all) const
	{
		return sum == 0 ? 0 : sum * fast_exp(max - all);
	}

	DEV void add(const struct soft_sum &b)
	{
		const float all = op_max::of(max, b.max);

		sum = by(all) + b.by(all);
		max = all;
	}

	/* The logarithm, or the inverse: what finish() wants */
	DEV float scale(void) const { return LOG ? logf(sum) : 1.0f / sum; }
};

/* @x is x - max if LOG, else exp(x - max) */
static DEV inline float finish(float x, float scale)
{
	return LOG ? x - scale : x * scale;
}

#if !SOFTMAX_COLUMNS
static DEV inline float max_of(const row_part &part, const float (&v)[CHUNKS][VEC])
{
	float max = -INFINITY;

#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++)
			max = part.has(c) ? op_max::of(max, v[c][i]) : max;
	return max;
}

/* v becomes what finish() takes; the sum of exp(v - max) */
static DEV inline float sum_exp(const row_part &part, float max, float (&v)[CHUNKS][VEC])
{
	float sum = 0;

#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
#pragma unroll
		for (int i = 0; i < VEC; i++) {
			const float x = v[c][i] - max, e = fast_exp(x);

			sum += part.has(c) ? e : 0;
			v[c][i] = LOG ? x : e;
		}
	return sum;
}

static DEV inline void write_row(const row_part &part, type_y::mem *y, bool in, float scale,
				 const float (&v)[CHUNKS][VEC])
{
#pragma unroll
	for (int c = 0; c < CHUNKS; c++) {
		float out[VEC];

#pragma unroll
		for (int i = 0; i < VEC; i++)
			out[i] = finish(v[c][i], scale);
		part.store<type_y>(y, in, c, out);
	}
}

#if !ROWS_PIECES(ROWS_SHARE)
RLX_G_KERNEL(softmax, struct rlx_k_softmax, THREADS)
{
	SHARED(float, smem, [2][MAX_WARPS]);
	const int64_t rows = live_rows(env, a.outer), step = (int64_t)gridDim.x * GROUPS;
	const row_part part = { (int)a.n, (int)threadIdx.x % LANES };
	const type_x::mem *x = RLX_G_PTR(const type_x::mem, a.x);
	int64_t row = (int64_t)blockIdx.x * GROUPS + (int)threadIdx.x / LANES;
	row_vec<type_x::mem> raw[CHUNKS];
	row_meeting<float> meet = { smem, 0 };

	if (AHEAD)
		part.load(x + row * a.n, row < rows, raw);
	/* all rows of a warp at a time, as it has to stay together */
	for (int64_t i = (int64_t)blockIdx.x * GROUPS; i < rows; i += step, row += step) {
		float v[CHUNKS][VEC];
		struct soft_sum s;

		if (!AHEAD)
			part.load(x + row * a.n, row < rows, raw);
		row_get<type_x>(raw, v);
		if (AHEAD)
			part.load(x + (row + step) * a.n, row + step < rows, raw);
		s.max = meet.of<op_max>(max_of(part, v));
		s.sum = meet.of<op_sum>(sum_exp(part, s.max, v));
		write_row(part, RLX_G_PTR(type_y::mem, a.y) + row * a.n, row < rows, s.scale(), v);
	}
}
#else

/* Elements [first, end) of a row, which is what a block has of it. */
struct share {
	const type_x::mem	*x;
	type_y::mem		*y;
	int64_t			first, end;

	/* Those from @at on */
	DEV row_part read(int64_t at, float (&v)[CHUNKS][VEC]) const
	{
		const int64_t left = end - at;
		const row_part part = { left < PIECE ? (int)left : (int)PIECE, (int)threadIdx.x };
		row_vec<type_x::mem> raw[CHUNKS];

		part.load(x + at, true, raw);
		row_get<type_x>(raw, v);
		return part;
	}

	DEV struct soft_sum sum(void) const
	{
		struct soft_sum s = { -INFINITY, 0 };

		for (int64_t i = first; i < end; i += PIECE) {
			float v[CHUNKS][VEC];
			const row_part part = read(i, v);
			struct soft_sum b = { max_of(part, v), 0 };

			if (b.max == -INFINITY)
				continue;
			b.sum = sum_exp(part, b.max, v);
			s.add(b);
		}
		return s;
	}

	/* From the end on: that is what caches have */
	DEV void write(const struct soft_sum &s) const
	{
		const int64_t pieces = (end - first + PIECE - 1) / PIECE;
		const float scale = s.scale();

		for (int64_t i = first + (pieces - 1) * PIECE; i >= first; i -= PIECE) {
			float v[CHUNKS][VEC];
			const row_part part = read(i, v);

			sum_exp(part, s.max, v);
			write_row(part, y + i, true, scale, v);
		}
	}
};

/* Of all threads; each gets it */
static DEV inline struct soft_sum meet_all(struct soft_sum s, row_meeting<float> &meet)
{
	const float max = meet.of<op_max>(s.max);

	return { max, meet.of<op_sum>(s.by(max)) };
}

/*
 * A row of the grid more than one: each has its share of all rows. The first launch leaves
 * what each found in the scratch, the second puts it together in order.
 */
RLX_G_KERNEL(softmax, struct rlx_k_softmax, THREADS)
{
	SHARED(float, smem, [2][MAX_WARPS]);
	const int64_t splits = gridDim.y, rows = live_rows(env, a.outer);
	const int64_t pieces = (a.n + PIECE - 1) / PIECE, each = (pieces + splits - 1) / splits;
	const int64_t first = (int64_t)blockIdx.y * each * PIECE, end = first + each * PIECE;
	struct soft_sum *found = (struct soft_sum *)env.scratch;
	row_meeting<float> meet = { smem, 0 };

	for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		const share part = { RLX_G_PTR(const type_x::mem, a.x) + row * a.n,
				     RLX_G_PTR(type_y::mem, a.y) + row * a.n,
				     first, end < a.n ? end : a.n };
		struct soft_sum *at = found + row * splits, s = { -INFINITY, 0 };

		if (env.pass == 0)
			s = part.sum();
		else
			for (int i = (int)threadIdx.x; i < splits; i += THREADS)
				s.add(at[i]);
		s = meet_all(s, meet);
		if (splits == 1 || env.pass)
			part.write(s);
		else if (threadIdx.x == 0)
			at[blockIdx.y] = s;
	}
}
#endif

#else
#include "kernels/gpu/columns.h"

typedef float columns[CHUNKS][VEC];

/* The rows [first, end) of a vector of columns, of which a thread has every LANES-th. */
struct share {
	const type_x::mem	*x;
	type_y::mem		*y;
	int64_t			inner, first, end;
	int			lane;

	DEV bool has(int64_t at, int c) const { return at + c * LANES + lane < end; }
	DEV int64_t of(int64_t at, int c) const
	{
		return (at + lane) * inner + c * (LANES * inner);
	}


	/* Those from row @at on, and their largest */
	DEV void read(int64_t at, columns &v, float (&max)[VEC]) const
	{
		row_vec<type_x::mem> raw[CHUNKS];

#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
			if (has(at, c))
				raw[c] = *(const row_vec<type_x::mem> *)(x + of(at, c));
			else
				raw[c] = {};
		row_get<type_x>(raw, v);
#pragma unroll
		for (int i = 0; i < VEC; i++)
			max[i] = -INFINITY;
#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
#pragma unroll
			for (int i = 0; i < VEC; i++)
				max[i] = has(at, c) ? op_max::of(max[i], v[c][i]) : max[i];
	}

	/* v becomes what finish() takes */
	DEV void sum_exp(int64_t at, const float (&max)[VEC], columns &v, float (&sum)[VEC]) const
	{
#pragma unroll
		for (int i = 0; i < VEC; i++)
			sum[i] = 0;
#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
#pragma unroll
			for (int i = 0; i < VEC; i++) {
				const float d = v[c][i] - max[i], e = fast_exp(d);

				sum[i] += has(at, c) ? e : 0;
				v[c][i] = LOG ? d : e;
			}
	}

	/* @scale: as soft_sum has it */
	DEV void write(int64_t at, const float (&scale)[VEC], const columns &v) const
	{
#pragma unroll
		for (int c = 0; c < CHUNKS; c++) {
			row_vec<type_y::mem> out;

#pragma unroll
			for (int i = 0; i < VEC; i++)
				out.v[i] = type_y::put(finish(v[c][i], scale[i]));
			if (has(at, c))
				*(row_vec<type_y::mem> *)(y + of(at, c)) = out;
		}
	}
};

/* The columns of vector @q, if @in: else none of their rows */
static DEV inline share share_of(const struct rlx_k_softmax &a, const struct rlx_g_env &env,
				 int64_t q, bool in)
{
	const int64_t across = a.inner / VEC, n = in ? a.n : 0;
	const int64_t at = in ? q / across * a.n * a.inner + q % across * VEC : 0;
	const int64_t pieces = (n + PIECE_ROWS - 1) / PIECE_ROWS;
	const int64_t each = (pieces + gridDim.y - 1) / gridDim.y * PIECE_ROWS;
	const int64_t first = (int64_t)blockIdx.y * each, end = first + each;

	return { RLX_G_PTR(const type_x::mem, a.x) + at, RLX_G_PTR(type_y::mem, a.y) + at, a.inner,
		 first, end < n ? end : n, (int)threadIdx.x / COLS_ACROSS };
}

static DEV inline void scales_of(const float (&max)[VEC], const float (&sum)[VEC],
				 float (&scale)[VEC])
{
#pragma unroll
	for (int i = 0; i < VEC; i++)
		scale[i] = soft_sum{ max[i], sum[i] }.scale();
}

#if !ROWS_PIECES(ROWS_SHARE)
RLX_G_KERNEL(softmax, struct rlx_k_softmax, COLS_THREADS)
{
	SHARED(float, smem, [COLS_THREADS * VEC]);
	const int64_t all = live_rows(env, a.outer) * (a.inner / VEC);

	for (int64_t i = (int64_t)blockIdx.x * COLS_ACROSS; i < all;
	     i += (int64_t)gridDim.x * COLS_ACROSS) {
		const int64_t q = i + threadIdx.x % COLS_ACROSS;
		const share part = share_of(a, env, q, q < all);
		float max[VEC], sum[VEC];
		columns v;

		part.read(0, v, max);
		columns_meet<op_max>(max, smem);
		part.sum_exp(0, max, v, sum);
		columns_meet<op_sum>(sum, smem);
		scales_of(max, sum, sum);
		part.write(0, sum, v);
	}
}
#else

/* Of a thread's rows */
static DEV inline void fold(const share &part, float (&max)[VEC], float (&sum)[VEC])
{
#pragma unroll
	for (int i = 0; i < VEC; i++) {
		max[i] = -INFINITY;
		sum[i] = 0;
	}
	for (int64_t at = part.first; at < part.end; at += PIECE_ROWS) {
		float max_of[VEC], sum_of[VEC];
		columns v;

		part.read(at, v, max_of);
		part.sum_exp(at, max_of, v, sum_of);
#pragma unroll
		for (int i = 0; i < VEC; i++) {
			struct soft_sum s = { max[i], sum[i] };

			if (max_of[i] == -INFINITY)
				continue;
			s.add({ max_of[i], sum_of[i] });
			max[i] = s.max;
			sum[i] = s.sum;
		}
	}
}

/* What shares @lane, @lane + LANES .. of a column found */
static DEV inline void fold_found(const struct soft_sum *found, int64_t step, int lane,
				  float (&max)[VEC], float (&sum)[VEC])
{
#pragma unroll
	for (int i = 0; i < VEC; i++) {
		struct soft_sum s = { -INFINITY, 0 };

		for (int j = lane; j < (int)gridDim.y; j += LANES)
			s.add(found[j * step + i]);
		max[i] = s.max;
		sum[i] = s.sum;
	}
}

/*
 * A row of the grid more than one: each has its share of all columns. The first launch leaves
 * what each found in the scratch, the second puts it together in order.
 */
RLX_G_KERNEL(softmax, struct rlx_k_softmax, COLS_THREADS)
{
	SHARED(float, smem, [COLS_THREADS * VEC]);
	const int64_t all = live_rows(env, a.outer) * (a.inner / VEC), step = a.outer * a.inner;

	for (int64_t i = (int64_t)blockIdx.x * COLS_ACROSS; i < all;
	     i += (int64_t)gridDim.x * COLS_ACROSS) {
		const int64_t q = i + threadIdx.x % COLS_ACROSS;
		const share part = share_of(a, env, q, q < all);
		struct soft_sum *found = (struct soft_sum *)env.scratch + (q < all ? q : 0) * VEC;
		float max[VEC], sum[VEC], most[VEC], scale[VEC];
		int64_t at = part.end - 1;

		if (env.pass == 0)
			fold(part, max, sum);
		else
			fold_found(found, step, part.lane, max, sum);
#pragma unroll
		for (int k = 0; k < VEC; k++)
			most[k] = max[k];
		columns_meet<op_max>(most, smem);
#pragma unroll
		for (int k = 0; k < VEC; k++)
			sum[k] = soft_sum{ max[k], sum[k] }.by(most[k]);
		columns_meet<op_sum>(sum, smem);
		if (gridDim.y > 1 && env.pass == 0) {
#pragma unroll
			for (int k = 0; k < VEC && part.lane == 0 && q < all; k++)
				found[blockIdx.y * step + k] = { most[k], sum[k] };
			continue;
		}
		scales_of(most, sum, scale);
		/* from the end on: that is what caches have */
		for (at = part.first + (at - part.first) / PIECE_ROWS * PIECE_ROWS;
		     at >= part.first && part.end > part.first; at -= PIECE_ROWS) {
			columns v;

			part.read(at, v, max);
			part.sum_exp(at, most, v, sum);
			part.write(at, scale, v);
		}
	}
}
#endif
#endif
