// SPDX-License-Identifier: MIT
/* Arg-reductions and running sums along one axis. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/row_end.h"
#include "kernels/reduce.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(argreduce), RLX_K(scan);

static int class_of(int type, int small)
{
	if (type == RLX_F64)
		return RLX_EW_F64;
	return rlx_k_type_float((enum rlx_dtype)type) ? small : RLX_EW_I64;
}

/* Whether x takes the place of the best so far. */
#define BETTER(x, best, min, last)					\
	((x) != (x) ? (best) == (best) || (last) :			\
	 (min) ? (x) < (best) || ((last) && (x) == (best)) :		\
		 (x) > (best) || ((last) && (x) == (best)))

typedef double f64;
typedef float f32;
typedef int64_t i64;
typedef uint64_t u64;
typedef int64_t vl __attribute__((vector_size(RLX_VB)));

#define ROWS	4	/* of as many a column takes the elements at once */

/*
 * Of each of n columns, a vector's or more, the best so far and where that was, and then what
 * ROWS rows have, @j[] by name. What a row and best say of each other are masks of lanes as
 * wide as they are: a NaN is better than all but another. The smallest is the largest with its
 * bits turned over by @flip. The last vector may take some columns twice, to no effect.
 */
#define ARG(T, V, I, VI)						\
RLX_INLINE void best_##T(T *best, I *idx, const T *const *p, const int64_t *j, size_t n, \
			 const I flip, const bool last)			\
{									\
	const size_t lanes = RLX_VB / sizeof(T);			\
									\
	for (size_t i = 0, to; i < n; i = to) {				\
		V v, b;							\
		VI m, at;						\
									\
		to = i + lanes;						\
		i = to > n ? n - lanes : i;				\
		memcpy(&b, best + i, sizeof(b));			\
		memcpy(&at, idx + i, sizeof(at));			\
		RLX_UNROLL						\
		for (size_t r = 0; r < ROWS; r++) {			\
			memcpy(&v, p[r] + i, sizeof(v));		\
			v = (V)((VI)v ^ flip);				\
			m = last ? ~(v < b) & ((b == b) | (v != v)) :	\
				   ~(v <= b) & (b == b);		\
			b = (V)(((VI)v & m) | ((VI)b & ~m));		\
			at = (m & (I)j[r]) | (at & ~m);			\
		}							\
		memcpy(best + i, &b, sizeof(b));			\
		memcpy(idx + i, &at, sizeof(at));			\
	}								\
}									\
static void arg_##T(void *best, void *idx, const void *const *p, const int64_t *j, size_t n, \
		    I flip, bool last)					\
{									\
	const T *const q[ROWS] = { p[0], p[1], p[2], p[3] };		\
									\
	if (last)							\
		best_##T(best, idx, q, j, n, flip, true);		\
	else								\
		best_##T(best, idx, q, j, n, flip, false);		\
}
ARG(f32, vf, int32_t, vi)
ARG(f64, vd, i64, vl)
ARG(i64, vl, i64, vl)

static rlx_convert_fn *arg_load(const struct rlx_k_argreduce *a, int cls)
{
	return a->type == RLX_U64 ? RLX_K(load_turned) : RLX_K(loader)(cls, a->type);
}

static void put_index(const struct rlx_k_argreduce *a, int64_t at, int64_t v)
{
	if (a->idx_type == RLX_I32)
		((int32_t *)a->idx)[at] = (int32_t)v;
	else
		((int64_t *)a->idx)[at] = v;
}

/* Where in a piece of a row its best value is; a NaN is where something differs from itself. */
#define FIND(T)								\
static int64_t find_##T(const T *x, int64_t n, T v, bool last)		\
{									\
	const int64_t step = last ? -1 : 1;				\
	int64_t i = last ? n - 1 : 0;					\
									\
	if (v != v)							\
		while (x[i] == x[i])					\
			i += step;					\
	else								\
		while (x[i] != v)					\
			i += step;					\
	return i;							\
}
FIND(f64)
FIND(f32)
FIND(i64)

static int64_t find(int cls, const void *x, int64_t n, union rlx_value_of v, bool last)
{
	return cls == RLX_EW_F32 ? find_f32(x, n, v.f, last) :
	       cls == RLX_EW_F64 ? find_f64(x, n, v.d, last) : find_i64(x, n, (i64)v.i, last);
}

/* Rows [o, to), which are short: of many at once what is best, then its place in each. */
static void arg_rows_short(const struct rlx_k_argreduce *a, int64_t o, int64_t to, char *scratch)
{
	const int cls = class_of(a->type, RLX_EW_F32);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type), n = (size_t)a->n;
	const size_t lane = cls == RLX_EW_F32 ? 4 : 8;
	const int64_t most = RLX_K_REDUCE_COLS / a->n;
	char *end = scratch + RLX_K_REDUCE_COLS * 8;

	for (int64_t rows; o < to; o += rows) {
		rows = to - o < most ? to - o : most;
		arg_load(a, cls)(scratch, (const char *)a->x + (size_t)o * n * size,
				 (size_t)rows * n);
		RLX_K(row_end)(cls, end, scratch, (size_t)rows, n, a->min);
		for (int64_t i = 0; i < rows; i++) {
			union rlx_value_of v = { .i = 0 };

			memcpy(&v, end + (size_t)i * lane, lane);
			put_index(a, o + i, find(cls, scratch + (size_t)i * n * lane, a->n, v,
						 a->last));
		}
	}
}

/* A contiguous row in pieces: by vectors what is best, and its place where that is better. */
static int64_t arg_row(const struct rlx_k_argreduce *a, int64_t o, char *scratch)
{
	const int cls = class_of(a->type, RLX_EW_F32);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	rlx_convert_fn *load = arg_load(a, cls);
	const bool as_is = a->type == RLX_F32 || a->type == RLX_F64 || a->type == RLX_I64;
	union rlx_value_of best = { .i = 0 }, v = best;
	int64_t idx = -1, n;

	for (int64_t i = 0; i < a->n; i += n) {
		const char *x = (const char *)a->x + (size_t)(o * a->n + i) * size;

		n = a->n - i < RLX_K_REDUCE_COLS ? a->n - i : RLX_K_REDUCE_COLS;
		if (!as_is) {
			load(scratch, x, (size_t)n);
			x = scratch;
		}
		RLX_K(row_end)(cls, &v, x, 1, (size_t)n, a->min);
		if (idx >= 0 && !(cls == RLX_EW_F32 ? BETTER(v.f, best.f, a->min, a->last) :
				  cls == RLX_EW_F64 ? BETTER(v.d, best.d, a->min, a->last) :
				  BETTER((i64)v.i, (i64)best.i, a->min, a->last)))
			continue;
		best = v;
		idx = i + find(cls, x, n, v, a->last);
	}
	return idx;
}

/* The columns of one unit. */
struct arg_run {
	const struct rlx_k_argreduce *a;
	int		cls;
	size_t		size, lane;	/* bytes in memory, in the class */
	size_t		k;		/* short rows in a long one */
	bool		plain;		/* what is in memory is of the class */
	rlx_convert_fn	*load;
	char		*best, *idx, *buf;
};

/* m rows of n columns from x on, @stride elements apart, row @at being the first. */
static void arg_rows(const struct arg_run *r, const char *x, int64_t at, size_t m, size_t stride,
		     size_t n)
{
	const struct rlx_k_argreduce *a = r->a;
	const size_t lanes = RLX_VB / r->lane, row = (n < lanes ? lanes : n) * r->lane;
	const void *p[ROWS];
	int64_t j[ROWS];

	if (!r->plain && stride == n && n >= lanes)
		r->load(r->buf, x, m * n);
	for (size_t i = 0; i < ROWS; i++) {	/* a row that is missing is the one before it */
		const char *from = x + i * stride * r->size;

		if (i >= m) {
			p[i] = p[i - 1];
			j[i] = j[i - 1];
			continue;
		}
		p[i] = r->plain && n >= lanes ? from : r->buf + i * row;
		j[i] = at + (int64_t)(i * r->k);
		if (n < lanes || (!r->plain && stride != n))
			r->load(r->buf + i * row, from, n);
	}
	n = n < lanes ? lanes : n;
	if (r->cls == RLX_EW_F32)
		arg_f32(r->best, r->idx, p, j, n, a->min ? INT32_MIN : 0, a->last);
	else if (r->cls == RLX_EW_F64)
		arg_f64(r->best, r->idx, p, j, n, a->min ? INT64_MIN : 0, a->last);
	else
		arg_i64(r->best, r->idx, p, j, n, a->min ? -1 : 0, a->last);
}

/* Is the best of column y, in row @row, better than that of column x? */
static bool arg_better(const struct arg_run *r, size_t y, int64_t row, size_t x, int64_t best)
{
	const bool last = r->a->last ? row > best : row < best;

	const void *all = r->best;
	const f32 *f = all;
	const f64 *d = all;
	const i64 *i = all;

	return r->cls == RLX_EW_F32 ? BETTER(f[y], f[x], false, last) :
	       r->cls == RLX_EW_F64 ? BETTER(d[y], d[x], false, last) :
				      BETTER(i[y], i[x], false, last);
}

/* Of column c, whose elements stand in columns n apart: the row of the best. */
static int64_t arg_of(const struct arg_run *r, size_t c, size_t n)
{
	int64_t best = -1, row;
	size_t x = c;

	for (size_t i = 0; i < r->k; i++) {
		const size_t y = c + i * n;

		row = (int64_t)i + (r->lane == 4 ? ((int32_t *)(void *)r->idx)[y] :
						   ((i64 *)(void *)r->idx)[y]);
		if (i && !arg_better(r, y, row, x, best))
			continue;
		best = row;
		x = y;
	}
	return best;
}

/* What every value of a class is as good as. */
static void arg_lowest(void *to, int cls)
{
	const f64 d = -INFINITY;
	const f32 f = -INFINITY;
	const i64 i = INT64_MIN;

	if (cls == RLX_EW_F32)
		memcpy(to, &f, sizeof(f));
	else
		memcpy(to, cls == RLX_EW_F64 ? (const void *)&d : &i, sizeof(d));
}

/*
 * Results [c, c + n) of outer o. Rows of few columns are taken as fewer and longer ones, the
 * last of which may begin in the one before: what a place in them has as its row is that where
 * the long one begins.
 */
static void arg_cols(const struct rlx_k_argreduce *a, int64_t o, int64_t c,
		     size_t n, char *scratch)
{
	/* lanes of four bytes count so far; whoever has more rows pays for it */
	const int cls = class_of(a->type, a->n <= INT32_MAX ? RLX_EW_F32 : RLX_EW_F64);
	const bool whole = (int64_t)n == a->inner;
	struct arg_run r = { .a = a, .cls = cls, .lane = cls == RLX_EW_F32 ? 4 : 8,
		.size = rlx_k_type_size((enum rlx_dtype)a->type), .best = scratch };
	const char *x;
	size_t k = 1, w, all;
	int64_t m;

	while (whole && 2 * k * n <= 256 && 8 * (int64_t)k <= a->n)
		k *= 2;
	w = k * n;
	r.k = k;
	r.load = arg_load(a, cls);
	r.plain = a->type == RLX_I64 || a->type == (cls == RLX_EW_F32 ? RLX_F32 : RLX_F64);
	r.idx = r.best + RLX_K_REDUCE_COLS * 8;
	r.buf = r.idx + RLX_K_REDUCE_COLS * 8;
	all = (w < RLX_VL ? RLX_VL : w) * r.lane;
	memset(r.idx, 0, all);
	memset(r.buf, 0, ROWS * RLX_VB);
	arg_lowest(r.best, cls);
	for (size_t have = r.lane; have < all; have *= 2)
		memcpy(r.best + have, r.best, have < all - have ? have : all - have);
	x = (const char *)a->x + (size_t)(o * a->n * a->inner + c) * r.size;
	for (int64_t j = 0; j + (int64_t)k <= a->n; j += m * (int64_t)k) {
		m = (a->n - j) / (int64_t)k < ROWS ? (a->n - j) / (int64_t)k : ROWS;
		arg_rows(&r, x + (size_t)(j * a->inner) * r.size, j, (size_t)m,
			 k > 1 ? w : (size_t)a->inner, w);
	}
	if (a->n % (int64_t)k)
		arg_rows(&r, x + (size_t)((a->n - (int64_t)k) * a->inner) * r.size,
			 a->n - (int64_t)k, 1, w, w);
	if (k == 1 && a->idx_type == RLX_I64) {
		RLX_K(loader)(RLX_EW_I64, r.lane == 4 ? RLX_I32 : RLX_I64)(
			(i64 *)a->idx + o * a->inner + c, r.idx, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		put_index(a, o * a->inner + c + (int64_t)i, arg_of(&r, i, n));
}

void RLX_K(argreduce)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_argreduce *a = args;
	const int64_t cols = rlx_k_argreduce_cols(a), blocks = (a->inner + cols - 1) / cols;

	if (a->inner == 1 && a->n <= RLX_K_REDUCE_COLS / 2) {
		arg_rows_short(a, (int64_t)begin, (int64_t)end, scratch);
		return;
	}
	for (size_t u = begin, units; u < end; u += units) {
		const int64_t o = (int64_t)u / blocks, c = (int64_t)u % blocks * cols;
		int64_t n;

		units = rlx_k_joined_cols(u, end, cols, a->inner, RLX_K_ARGREDUCE_COLS);
		n = (int64_t)units * cols;
		if (a->inner == 1)
			put_index(a, o, arg_row(a, o, scratch));
		else
			arg_cols(a, o, c, (size_t)(a->inner - c < n ? a->inner - c : n), scratch);
	}
}

typedef uint32_t u32;
typedef uint64_t vul __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));
typedef uint32_t vu_u __attribute__((vector_size(RLX_VB), aligned(4), may_alias));
typedef float vfh __attribute__((vector_size(RLX_VB / 2)));
typedef float vfh_u __attribute__((vector_size(RLX_VB / 2), aligned(4), may_alias));

/*
 * @rows rows of T, @step elements apart, into the running values of A of n columns, and what
 * there is of them to y, which may be x. What stands in the last vector is read first, and
 * stored last.
 */
#define SCAN(T, V, A, W)						\
static void few_##T(A *acc, const T *x, T *y, size_t n, const bool prod, const bool exclusive) \
{									\
	for (size_t i = 0; i < n; i++) {				\
		const A before = acc[i];				\
									\
		acc[i] = prod ? before * (A)x[i] : before + (A)x[i];	\
		y[i] = (T)(exclusive ? before : acc[i]);		\
	}								\
}									\
static void scan_##T(void *to, const void *from, void *out, size_t n, size_t rows, \
		     ptrdiff_t step, const struct rlx_k_scan *a)	\
{									\
	const size_t all = RLX_VB / sizeof(A), end = n < all ? 0 : n - all; \
	const bool prod = a->prod, exclusive = a->exclusive;		\
	const T *x = from;						\
	A *acc = to;							\
	T *y = out;							\
	W s, t, s1, t1;							\
									\
	for (; n < all && rows; rows--, x += step, y += step)		\
		few_##T(acc, x, y, n, prod, exclusive);			\
	for (; rows; rows--, x += step, y += step) {			\
		s1 = *(const W##_u *)(acc + end);			\
		t1 = __builtin_convertvector(*(const V##_u *)(x + end), W);	\
		t1 = prod ? s1 * t1 : s1 + t1;				\
		for (size_t i = 0; i < end; i += all) {			\
			s = *(const W##_u *)(acc + i);			\
			t = __builtin_convertvector(*(const V##_u *)(x + i), W);	\
			t = prod ? s * t : s + t;			\
			*(W##_u *)(acc + i) = t;			\
			*(V##_u *)(y + i) = __builtin_convertvector(exclusive ? s : t, V); \
		}							\
		*(W##_u *)(acc + end) = t1;				\
		*(V##_u *)(y + end) = __builtin_convertvector(exclusive ? s1 : t1, V); \
	}								\
}
SCAN(f64, vd, f64, vd)
SCAN(f32, vfh, f64, vd)
SCAN(u64, vul, u64, vul)
SCAN(u32, vu, u32, vu)

/* Columns [c, c + n) of outer o. */
static void scan_cols(const struct rlx_k_scan *a, int64_t o, int64_t c, size_t n, char *scratch)
{
	static void (*const of[])(void *, const void *, void *, size_t, size_t, ptrdiff_t,
				  const struct rlx_k_scan *) = {
		[RLX_EW_F32] = scan_f32, [RLX_EW_F64] = scan_f64, [RLX_EW_I64] = scan_u64,
		[RLX_EW_I32] = scan_u32,
	};
	const bool four = a->type == RLX_I32 || a->type == RLX_U32;
	const int cls = four ? RLX_EW_I32 : class_of(a->type, RLX_EW_F32);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const bool plain = four || size == 8 || a->type == RLX_F32;
	rlx_convert_fn *load = RLX_K(loader)(cls, a->type), *store = RLX_K(storer)(cls, a->type);
	char *acc = scratch, *row = acc + RLX_K_SCAN_COLS * 8, *y;
	const ptrdiff_t step = a->reverse ? -(ptrdiff_t)a->inner : (ptrdiff_t)a->inner;
	const char *x;
	size_t off;

	memset(acc, 0, n * 8);
	for (size_t i = 0; a->prod && i < n; i++)
		if (four)
			((u32 *)(void *)acc)[i] = 1;
		else if (cls == RLX_EW_I64)
			((u64 *)(void *)acc)[i] = 1;
		else
			((f64 *)(void *)acc)[i] = 1;
	off = (size_t)((o * a->n + (a->reverse ? a->n - 1 : 0)) * a->inner + c) * size;
	x = (const char *)a->x + off;
	y = (char *)a->y + off;
	if (plain) {
		of[cls](acc, x, y, n, (size_t)a->n, step, a);
		return;
	}
	for (int64_t k = 0; k < a->n; k++) {
		const ptrdiff_t at = k * step * (ptrdiff_t)size;

		load(row, x + at, n);
		of[cls](acc, row, row, n, 1, 0, a);
		store(y + at, row, n);
	}
}

/* Lanes move up by as many, zeros come in below. */
#if RLX_VLD == 8
#define UP1(v)	__builtin_shufflevector(vd_zero(), v, 7, 8, 9, 10, 11, 12, 13, 14)
#define UP2(v)	__builtin_shufflevector(vd_zero(), v, 6, 7, 8, 9, 10, 11, 12, 13)
#define UP4(v)	__builtin_shufflevector(vd_zero(), v, 4, 5, 6, 7, 8, 9, 10, 11)
#define TOP(v)	__builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7)
#elif RLX_VLD == 4
#define UP1(v)	__builtin_shufflevector(vd_zero(), v, 3, 4, 5, 6)
#define UP2(v)	__builtin_shufflevector(vd_zero(), v, 2, 3, 4, 5)
#define UP4(v)	vd_zero()
#define TOP(v)	__builtin_shufflevector(v, v, 3, 3, 3, 3)
#else
#define UP1(v)	__builtin_shufflevector(vd_zero(), v, 1, 2)
#define UP2(v)	vd_zero()
#define UP4(v)	vd_zero()
#define TOP(v)	__builtin_shufflevector(v, v, 1, 1)
#endif

/* Sums within vectors, so that one addition for each waits for the one before. */
static f64 sums_f64(f64 sum, f64 *x, size_t n)
{
	vd before = vd_set1(sum), v;

	for (; n >= RLX_VLD; n -= RLX_VLD, x += RLX_VLD) {
		v = vd_loadu(x);
		v += UP1(v);
		v += UP2(v);
		v += UP4(v);
		vd_storeu(x, v + before);
		before += TOP(v);
	}
	for (sum = before[0]; n--; x++)
		*x = sum += *x;
	return sum;
}

/* The common row by itself: what it waits for are sums, and no questions. */
#define SCAN_ROW(T)							\
RLX_INLINE T along_##T(T sum, T *x, size_t n, ptrdiff_t step, bool prod, bool exclusive) \
{									\
	for (; n--; x += step) {					\
		T before = sum;						\
									\
		sum = prod ? before * *x : before + *x;			\
		*x = exclusive ? before : sum;				\
	}								\
	return sum;							\
}									\
static void row_##T(T *acc, T *x, size_t n, const struct rlx_k_scan *a)	\
{									\
	const ptrdiff_t step = a->reverse ? -1 : 1;			\
									\
	x += a->reverse ? n - 1 : 0;					\
	if (!a->prod && !a->exclusive)					\
		*acc = along_##T(*acc, x, n, step, false, false);	\
	else								\
		*acc = along_##T(*acc, x, n, step, a->prod, a->exclusive); \
}
SCAN_ROW(f64)
SCAN_ROW(u64)

/* inner is 1: the row in blocks, each converted at once */
static void scan_row(const struct rlx_k_scan *a, int64_t o, int cls, char *row)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	rlx_convert_fn *load = RLX_K(loader)(cls, a->type);
	rlx_convert_fn *store = RLX_K(storer)(cls, a->type);
	f64 facc = a->prod;
	u64 iacc = a->prod;

	for (int64_t k = 0; k < a->n; k += RLX_K_REDUCE_COLS) {
		int64_t n = a->n - k;
		size_t off;

		n = n < RLX_K_REDUCE_COLS ? n : RLX_K_REDUCE_COLS;
		off = (size_t)(o * a->n + (a->reverse ? a->n - k - n : k)) *
		      size;
		load(row, (const char *)a->x + off, (size_t)n);
		if (cls == RLX_EW_F64 && !a->prod && !a->exclusive && !a->reverse && !a->strict)
			facc = sums_f64(facc, (void *)row, (size_t)n);
		else if (cls == RLX_EW_F64)
			row_f64(&facc, (void *)row, (size_t)n, a);
		else
			row_u64(&iacc, (void *)row, (size_t)n, a);
		store((char *)a->y + off, row, (size_t)n);
	}
}

void RLX_K(scan)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_scan *a = args;
	const int64_t cols = rlx_k_scan_cols(a), blocks = (a->inner + cols - 1) / cols;

	for (size_t u = begin, units; u < end; u += units) {
		const int64_t o = (int64_t)u / blocks, c = (int64_t)u % blocks * cols;
		int64_t n;

		units = rlx_k_joined_cols(u, end, cols, a->inner, RLX_K_SCAN_COLS);
		n = (int64_t)units * cols;
		if (a->inner == 1)
			scan_row(a, o, class_of(a->type, RLX_EW_F64), scratch);
		else
			scan_cols(a, o, c, (size_t)(a->inner - c < n ? a->inner - c : n), scratch);
	}
}
