// SPDX-License-Identifier: MIT
/*
 * Reductions over any set of axes: sum, mean, product, largest, smallest; of squares a sum or mean.
 *
 * Algorithm: a tree. Threads fold vectors element by element, a few at a time, so that the error
 * of a sum grows by blocks and not by elements; then lanes by shuffles, warps in shared memory.
 * Where results are few, rows of the grid have parts of each, which the block that comes last
 * puts together in order. No atomics but its counter: the same bits each time.
 * Tiles: where reduced elements lie side by side, or kept ones do, as kernels/gpu/rows_plan.h has
 * rows and columns; kept axes may cut them into segments once. rlx_g_reduce_launch() says which.
 * Of axes that take more turns, a warp for each result of up to 1,024 elements, a block for longer
 * ones, or, if the last axis is kept, a thread; a second launch puts parts together.
 * Traffic: x once, which is the bound; 8 bytes of scratch for each part, up to 1,024 of a result.
 * Limits: all types. f32 and narrower floats are summed in f32, f64 in f64; integers wrap in 64
 * bits, and their mean is truncated. A NaN is the largest and the smallest.
 */
#include "kernels/gpu/rows_plan.h"

/* Rows keep nothing but what is under way: all the threads that there can be. */
#ifdef RLX_KERNEL_reduce_any
#define RLX_G_BLOCKS	5
#elif defined(RLX_KERNEL_reduce_rows)
#define RLX_G_BLOCKS	(ROWS_PIECES(ROWS_SHARE) ? 4 : ROWS_BLOCKS(ROWS_SHARE))
#define BY_COLUMNS	0
#else
#define RLX_G_BLOCKS	(sizeof(elem::acc) == 4 ? COLS_BLOCKS(ROWS_SHARE) : 1)
#define BY_COLUMNS	1
#endif

#include "kernels/gpu/accumulate.h"
#include "kernels/reduce.h"

typedef acc_of<IS_FLOAT, elem::acc>::type acc;

enum { ADD, PRODUCT, LARGEST, SMALLEST };

#define KIND								\
	(REDUCE_OP == RLX_K_REDUCE_MAX ? LARGEST :			\
	 REDUCE_OP == RLX_K_REDUCE_MIN ? SMALLEST :			\
	 REDUCE_OP == RLX_K_REDUCE_PROD ? PRODUCT : ADD)

static DEV inline acc neutral(void)
{
	if (KIND == PRODUCT)
		return 1;
	if (KIND != LARGEST && KIND != SMALLEST)
		return 0;
	if (IS_FLOAT)
		return (acc)(KIND == LARGEST ? -INFINITY : INFINITY);
	if (ELEM_TYPE == RLX_U64)
		return (acc)(KIND == LARGEST ? 0 : ~0ull);
	return (acc)(KIND == LARGEST ? 1ull << 63 : ~0ull >> 1);
}

struct meet {
	template <class T> static DEV inline T of(T x, T y)
	{
		if (KIND == LARGEST)	/* NaN wins */
			return x != x || less_than(y, x) ? x : y;
		if (KIND == SMALLEST)
			return x != x || less_than(x, y) ? x : y;
		return KIND == PRODUCT ? x * y : x + y;
	}
};

/* What is folded of an element: it, less @centre (4), its square (1) or times @by (2) */
static DEV inline acc term(mem x, mem by, acc centre)
{
	const acc v = (acc)elem::get(x) - (REDUCE_TERM & 4 ? centre : (acc)0);

	return REDUCE_TERM & 1 ? v * v : REDUCE_TERM & 2 ? v * (acc)elem::get(by) : v;
}

static DEV inline acc finished(acc v, int64_t n)
{
	if (REDUCE_OP != RLX_K_REDUCE_MEAN)
		return v;
	if (IS_FLOAT)
		return (acc)((double)v / (double)n);
	if (!n)		/* of integers the mean of nothing is 0 */
		return 0;
	return ELEM_TYPE == RLX_U64 ? v / (acc)n : (acc)((int64_t)v / n);
}

#ifdef RLX_KERNEL_reduce_any
#define LANES	(REDUCE_LANES == 32 ? WARP : REDUCE_LANES)
#define GROUPS	(256 / LANES)

/* Offset of kept index @out where all reduced ones are 0, in elements. */
static DEV inline int64_t kept_at(const struct rlx_k_reduce &a, int64_t out)
{
	int64_t off = 0, stride = 1;

	for (int d = a.rank; d-- > 0; stride *= a.dim[d])
		if (!(a.axes >> d & 1)) {
			off += out % a.dim[d] * stride;
			out /= a.dim[d];
		}
	return off;
}

/* Offset of reduced index @red; no division while it stays in the last such one. */
static DEV inline int64_t reduced_at(const struct rlx_k_reduce &a, int64_t red)
{
	int64_t off = 0, stride = 1;

	for (int d = a.rank; d-- > 0 && red; stride *= a.dim[d])
		if (a.axes >> d & 1) {
			if (red < a.dim[d])
				return off + red * stride;
			off += red % a.dim[d] * stride;
			red /= a.dim[d];
		}
	return off;
}

/* Every LANES-th of [lo, hi), folded 64 at a time so that errors stay small. */
static DEV inline acc part_of(const struct rlx_k_reduce &a, const mem *x, int64_t lo,
			      int64_t hi)
{
	acc whole = neutral(), piece = neutral();
	int n = 0;

	for (int64_t i = lo + threadIdx.x % LANES; i < hi; i += LANES) {
		const mem v = x[reduced_at(a, i)];

		piece = meet::of(piece, term(v, v, 0));
		if (++n == 64) {
			whole = meet::of(whole, piece);
			piece = neutral();
			n = 0;
		}
	}
	return meet::of(whole, piece);
}

static DEV inline acc over_lanes(acc v, acc *smem)
{
	if (LANES == WARP)
		return warp_reduce<meet>(v);
	return LANES == 1 ? v : block_reduce<meet>(v, smem);
}

/*
 * A grid of more than one row splits each reduction: the first pass leaves a part for
 * each row in the scratch, the second folds them in order.
 */
RLX_G_KERNEL(reduce_any, struct rlx_k_reduce, 256)
{
	SHARED(acc, smem, [MAX_WARPS]);
	const mem *x = RLX_G_PTR(const mem, a.x);
	mem *y = RLX_G_PTR(mem, a.y);
	acc *parts = (acc *)env.scratch;
	int64_t splits = gridDim.y, each = (a.n_red + splits - 1) / splits;
	int64_t lo = blockIdx.y * each, hi = lo + each < a.n_red ? lo + each : a.n_red;

	if (env.pass && blockIdx.y)
		return;
	for (int64_t o = (int64_t)blockIdx.x * GROUPS + threadIdx.x / LANES; o < a.n_out;
	     o += (int64_t)gridDim.x * GROUPS) {
		acc v = neutral();

		if (env.pass)
			for (int64_t s = threadIdx.x % LANES; s < splits; s += LANES)
				v = meet::of(v, parts[s * a.n_out + o]);
		else
			v = part_of(a, x + kept_at(a, o), lo, hi);
		v = over_lanes(v, smem);
		if (threadIdx.x % LANES)
			continue;
		if (splits > 1 && !env.pass)
			parts[blockIdx.y * a.n_out + o] = v;
		else
			y[o] = put_as(finished(v, a.n_red));
	}
}
#else
#include "kernels/gpu/columns.h"

/* Eight pieces at most are folded before what came of them is: see above. */
enum { TURNS = 8 };

/*
 * Where the elements of a result lie. A line has kept axes ahead of it, and with REDUCE_SEGMENTS
 * is cut: [k0, r0, k1, r1] by rows, [r0, k0, r1, k1] by columns, of which the first may be missing.
 */
struct lines {
	const mem	*x;
	int64_t		cut, jump;	/* elements of a segment, of the next one's begin */
	int64_t		kept, outer;	/* segments side by side, elements of all */
	bool		segments;

	DEV lines(const struct rlx_k_reduce &a, const struct rlx_g_env &env)
		: x(RLX_G_PTR(const mem, a.x)), segments(REDUCE_SEGMENTS)
	{
		const int last = a.rank - 1;
		const int64_t inner = BY_COLUMNS ? a.dim[last] : 1;

		cut = a.dim[BY_COLUMNS ? last - 1 : last];
		kept = !segments ? 1 : a.dim[BY_COLUMNS ? last - 2 : last - 1];
		jump = kept * cut * inner;
		outer = a.n_red * kept * inner;
	}

	/* Of row, or row of columns, @i */
	DEV const mem *line(int64_t i, int64_t inner) const
	{
		if (!segments)
			return x + i * outer;
		return x + i / kept * outer + i % kept * cut * inner;
	}

	/* Of element @i of a line, @inner apart where none ends */
	DEV int64_t at(int64_t i, int64_t inner) const
	{
		const uint32_t n = (uint32_t)i, by = (uint32_t)cut;

		return segments ? n / by * jump + n % by * inner : i * inner;
	}
};

typedef acc across[VEC];

static DEV inline void clear(across &v)
{
#pragma unroll
	for (int i = 0; i < VEC; i++)
		v[i] = neutral();
}

static DEV inline void fold(across &v, const row_vec<mem> &x, const row_vec<mem> &by,
			    const across &centre, bool in)
{
#pragma unroll
	for (int i = 0; i < VEC; i++)
		v[i] = in ? meet::of(v[i], term(x.v[i], by.v[i], centre[i])) : v[i];
}

static DEV inline void fold_all(across &v, const across &w)
{
#pragma unroll
	for (int i = 0; i < VEC; i++)
		v[i] = meet::of(v[i], w[i]);
}

/* A result's parts of @splits blocks lie @step apart: is this block the last to leave one? */
static DEV inline bool comes_last(const struct rlx_g_env &env, int *smem)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		memory_fence();
		*smem = atomic_add(env.zeros + blockIdx.x, 1) == gridDim.y - 1;
		memory_fence();
		if (*smem)
			env.zeros[blockIdx.x] = 0;
	}
	__syncthreads();
	return *smem;
}

/* What another block left there since this launch began */
static DEV inline acc part_at(const acc *p)
{
	return *(const volatile acc *)p;
}

#ifdef RLX_KERNEL_reduce_rows
/* What a thread has of @part of the row at @x */
static DEV inline acc fold_row(const row_part &part, const row_vec<mem> (&x)[CHUNKS])
{
	const across centre = {};
	across v;

	clear(v);
#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
		fold(v, x[c], x[c], centre, part.has(c));
#pragma unroll
	for (int m = VEC / 2; m; m /= 2)
#pragma unroll
		for (int i = 0; i < m; i++)
			v[i] = meet::of(v[i], v[i + m]);
	return v[0];
}

/* Elements of @part of a row, which begins at @first of @x, if @in */
static DEV inline void load_row(const lines &all, const mem *x, int64_t first,
				const row_part &part, bool in, row_vec<mem> (&raw)[CHUNKS])
{
	if (!all.segments) {
		part.load(x + first, in, raw);
		return;
	}
#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
		if (in && part.has(c))
			raw[c] = *(const row_vec<mem> *)(x + all.at(first + part.at(c), 1));
		else
			raw[c] = {};
}

#if !ROWS_PIECES(ROWS_SHARE)
RLX_G_KERNEL(reduce_rows, struct rlx_k_reduce, THREADS)
{
	SHARED(acc, smem, [2][MAX_WARPS]);
	const row_part part = { (int)a.n_red, (int)threadIdx.x % LANES };
	const int64_t step = (int64_t)gridDim.x * GROUPS;
	const lines at(a, env);
	int64_t row = (int64_t)blockIdx.x * GROUPS + (int)threadIdx.x / LANES;
	row_meeting<acc> all = { smem, 0 };
	row_vec<mem> raw[CHUNKS];

	load_row(at, at.line(row, 1), 0, part, row < a.n_out, raw);
	/* all rows of a warp at a time, as it has to stay together */
	for (int64_t i = (int64_t)blockIdx.x * GROUPS; i < a.n_out; i += step, row += step) {
		acc v = fold_row(part, raw);

		load_row(at, at.line(row + step, 1), 0, part, row + step < a.n_out, raw);
		v = all.of<meet>(v);
		if (part.lane == 0 && row < a.n_out)
			RLX_G_PTR(mem, a.y)[row] = put_as(finished(v, a.n_red));
	}
}
#else

/* Elements [first, end) of the row at @x, by a block: what a thread has */
static DEV inline acc fold_share(const lines &all, const mem *x, int64_t first, int64_t end)
{
	acc whole = neutral(), piece = neutral();
	int n = 0;

	for (int64_t at = first; at < end; at += PIECE) {
		const int64_t left = end - at;
		const row_part part = { left < PIECE ? (int)left : (int)PIECE, (int)threadIdx.x };
		row_vec<mem> raw[CHUNKS];

		load_row(all, x, at, part, true, raw);
		piece = meet::of(piece, fold_row(part, raw));
		if (++n == TURNS) {
			whole = meet::of(whole, piece);
			piece = neutral();
			n = 0;
		}
	}
	return meet::of(whole, piece);
}

/* Rows of the grid have a part of each row; of more than one such, a block has one row. */
RLX_G_KERNEL(reduce_rows, struct rlx_k_reduce, THREADS)
{
	SHARED(acc, smem, [2][MAX_WARPS]);
	SHARED(int, last, [1]);
	const int64_t splits = gridDim.y, pieces = (a.n_red + PIECE - 1) / PIECE;
	const int64_t each = (pieces + splits - 1) / splits * PIECE;
	const int64_t first = blockIdx.y * each, end = first + each;
	row_meeting<acc> all = { smem, 0 };
	const lines at(a, env);

	for (int64_t row = blockIdx.x; row < a.n_out; row += gridDim.x) {
		acc *parts = (acc *)env.scratch + row * splits;
		acc v = fold_share(at, at.line(row, 1), first, end < a.n_red ? end : a.n_red);

		v = all.of<meet>(v);
		if (splits > 1) {
			if (threadIdx.x == 0)
				parts[blockIdx.y] = v;
			if (!comes_last(env, last))
				return;
			v = neutral();
			for (int i = (int)threadIdx.x; i < splits; i += THREADS)
				v = meet::of(v, part_at(parts + i));
			v = all.of<meet>(v);
		}
		if (threadIdx.x == 0)
			RLX_G_PTR(mem, a.y)[row] = put_as(finished(v, a.n_red));
	}
}
#endif
#else

struct column {
	const mem	*x;
	int64_t		inner, first, end;
	int64_t		by;		/* from x to what it is multiplied by */
	across		centre;
};

/*
 * Of rows [first, end) of a vector of columns at @x, @inner apart, every LANES-th; @w: of what it
 * is multiplied by, if that is summed up too (8)
 */
static DEV inline void fold_columns(const lines &all, const column &of, across &v, across &w)
{
	across piece, more;
	int n = 0;

	clear(v);
	clear(w);
	clear(piece);
	clear(more);
	for (int64_t at = of.first + (int)threadIdx.x / COLS_ACROSS; at < of.end;
	     at += PIECE_ROWS) {
		row_vec<mem> raw[CHUNKS], by[REDUCE_TERM & 2 ? CHUNKS : 1];

#pragma unroll
		for (int c = 0; c < CHUNKS; c++) {
			const mem *p = of.x + all.at(at + c * LANES, of.inner);
			const bool in = at + c * LANES < of.end;

			raw[c] = {};
			if (in)
				raw[c] = *(const row_vec<mem> *)p;
			if (in && REDUCE_TERM & 2)
				by[c] = *(const row_vec<mem> *)(p + of.by);
		}
#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
			fold(piece, raw[c], REDUCE_TERM & 2 ? by[c] : raw[c], of.centre,
			     at + c * LANES < of.end);
#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
#pragma unroll
			for (int i = 0; i < VEC && REDUCE_TERM & 8; i++)
				if (at + c * LANES < of.end)
					more[i] += (acc)elem::get(by[c].v[i]);
		if (++n == TURNS) {
			fold_all(v, piece);
			fold_all(w, more);
			clear(piece);
			clear(more);
			n = 0;
		}
	}
	fold_all(v, piece);
	fold_all(w, more);
}

enum { PARTS = 4 };	/* under way at a time, each as far as the L2 is */

/* The parts that blocks left of a vector's columns, @step apart */
static DEV inline void fold_parts(const acc *parts, int64_t step, across &v)
{
	clear(v);
	for (int j = (int)threadIdx.x / COLS_ACROSS; j < (int)gridDim.y; j += PARTS * LANES) {
		across part[PARTS];

#pragma unroll
		for (int p = 0; p < PARTS; p++) {
			const int at = j + p * LANES;

			clear(part[p]);
#pragma unroll
			for (int i = 0; i < VEC; i++)
				if (at < (int)gridDim.y)
					part[p][i] = part_at(parts + at * step + i);
		}
#pragma unroll
		for (int p = 0; p < PARTS; p++)
			fold_all(v, part[p]);
	}
}

/* Threads' sums, also those of a second result */
static DEV inline void meet_both(across &v, across &w, acc *smem)
{
	columns_meet<meet>(v, smem);
	if (REDUCE_TERM & 8)
		columns_meet<meet>(w, smem);
}

static DEV inline void put_columns(const across &v, int64_t n, mem *y)
{
	row_vec<mem> all;

#pragma unroll
	for (int k = 0; k < VEC; k++)
		all.v[k] = put_as(finished(v[k], n));
	*(row_vec<mem> *)y = all;
}

/* Rows of the grid have a part of each column; of more than one such, a block has its columns. */
RLX_G_KERNEL(reduce_columns, struct rlx_k_reduce, COLS_THREADS)
{
	SHARED(acc, smem, [COLS_THREADS * VEC]);
	SHARED(int, last, [1]);
	const int64_t inner = a.dim[a.rank - 1], vectors = a.n_out / VEC, splits = gridDim.y;
	const int64_t pieces = (a.n_red + PIECE_ROWS - 1) / PIECE_ROWS;
	const int64_t each = (pieces + splits - 1) / splits * PIECE_ROWS;
	const int64_t first = blockIdx.y * each, end = first + each;
	const lines all(a, env);

	for (int64_t i = (int64_t)blockIdx.x * COLS_ACROSS; i < vectors;
	     i += (int64_t)gridDim.x * COLS_ACROSS) {
		const int64_t q = i + threadIdx.x % COLS_ACROSS, col = (q < vectors ? q : 0) * VEC;
		const bool writes = q < vectors && (int)threadIdx.x < COLS_ACROSS;
		column of = { all.line(col / inner, inner) + col % inner, inner, first,
			      end < a.n_red ? end : a.n_red };
		acc *parts = (acc *)env.scratch + col, *more = parts + splits * a.n_out;
		across v, w;

		of.by = RLX_G_PTR(const mem, a.by) - RLX_G_PTR(const mem, a.x);
#pragma unroll
		for (int k = 0; k < VEC; k++)
			of.centre[k] = REDUCE_TERM & 4 ?
				       (acc)elem::get(RLX_G_PTR(const mem, a.centre)[col + k]) : 0;
		fold_columns(all, of, v, w);
		meet_both(v, w, smem);
		if (splits > 1) {
#pragma unroll
			for (int k = 0; k < VEC && writes; k++) {
				parts[blockIdx.y * a.n_out + k] = v[k];
				if (REDUCE_TERM & 8)
					more[blockIdx.y * a.n_out + k] = w[k];
			}
			if (!comes_last(env, last))
				return;
			fold_parts(parts, a.n_out, v);
			if (REDUCE_TERM & 8)
				fold_parts(more, a.n_out, w);
			meet_both(v, w, smem);
		}
		if (writes)
			put_columns(v, a.n_red, RLX_G_PTR(mem, a.y) + col);
		if (writes && REDUCE_TERM & 8)
			put_columns(w, a.n_red, RLX_G_PTR(mem, a.by_sum) + col);
	}
}
#endif
#endif
