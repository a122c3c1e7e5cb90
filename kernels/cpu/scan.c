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

/*
 * Row @j of columns: of each the best so far, and where that was. What x and best say of each
 * other are masks of lanes as wide as they are: a NaN is better than all but another. The
 * last vector may be of columns that nobody asks for; there is room for it.
 */
#define ARG(T, V, I, VI)						\
RLX_INLINE void best_##T(T *best, I *idx, const T *x, size_t n, I j, const bool min,	\
			 const bool last)				\
{									\
	const size_t lanes = RLX_VB / sizeof(T);			\
									\
	for (size_t i = 0; i < n; i += lanes) {				\
		V v, b;							\
		VI m, at;						\
									\
		memcpy(&v, x + i, sizeof(v));				\
		memcpy(&b, best + i, sizeof(b));			\
		memcpy(&at, idx + i, sizeof(at));			\
		m = min ? v < b : v > b;				\
		m |= last ? (v != v) | (v == b) : (v != v) & (b == b);	\
		b = (V)(((VI)v & m) | ((VI)b & ~m));			\
		at = (m & j) | (at & ~m);				\
		memcpy(best + i, &b, sizeof(b));			\
		memcpy(idx + i, &at, sizeof(at));			\
	}								\
}									\
static void arg_##T(T *best, I *idx, const T *x, size_t n, I j,		\
		    const struct rlx_k_argreduce *a)			\
{									\
	if (a->min)							\
		a->last ? best_##T(best, idx, x, n, j, true, true) :	\
			  best_##T(best, idx, x, n, j, true, false);	\
	else								\
		a->last ? best_##T(best, idx, x, n, j, false, true) :	\
			  best_##T(best, idx, x, n, j, false, false);	\
}
ARG(f32, vf, int32_t, vi)
ARG(f64, vd, i64, vl)
ARG(i64, vl, i64, vl)

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

/* A contiguous row in pieces: by vectors what is best, and its place where that is better. */
static int64_t arg_row(const struct rlx_k_argreduce *a, int64_t o, char *scratch)
{
	const int cls = class_of(a->type, RLX_EW_F32);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	rlx_convert_fn *load = a->type == RLX_U64 ? RLX_K(load_turned) :
			       RLX_K(loader)(cls, a->type);
	const bool as_is = a->type == RLX_F32 || a->type == RLX_F64 || a->type == RLX_I64;
	union rlx_value_of best = { .i = 0 }, v;
	int64_t idx = -1, n;

	for (int64_t i = 0; i < a->n; i += n) {
		const char *x = (const char *)a->x + (size_t)(o * a->n + i) * size;

		n = a->n - i < RLX_K_REDUCE_COLS ? a->n - i : RLX_K_REDUCE_COLS;
		if (!as_is) {
			load(scratch, x, (size_t)n);
			x = scratch;
		}
		v = RLX_K(row_end)(cls, x, (size_t)n, a->min);
		if (idx >= 0 && !(cls == RLX_EW_F32 ? BETTER(v.f, best.f, a->min, a->last) :
				  cls == RLX_EW_F64 ? BETTER(v.d, best.d, a->min, a->last) :
				  BETTER((i64)v.i, (i64)best.i, a->min, a->last)))
			continue;
		best = v;
		idx = i + (cls == RLX_EW_F32 ? find_f32((const void *)x, n, v.f, a->last) :
			   cls == RLX_EW_F64 ? find_f64((const void *)x, n, v.d, a->last) :
			   find_i64((const void *)x, n, (i64)v.i, a->last));
	}
	return idx;
}

/* Results [c, c + n) of outer o: the best so far in @best, its index in @idx. */
static void arg_cols(const struct rlx_k_argreduce *a, int64_t o, int64_t c,
		     size_t n, char *scratch)
{
	/* lanes of four bytes count so far; whoever has more rows pays for it */
	const int cls = class_of(a->type, a->n <= INT32_MAX ? RLX_EW_F32 : RLX_EW_F64);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	rlx_convert_fn *load = a->type == RLX_U64 ? RLX_K(load_turned) :
			       RLX_K(loader)(cls, a->type);
	void *best = scratch, *row = scratch + RLX_K_REDUCE_COLS * 8;
	void *idx = scratch + RLX_K_REDUCE_COLS * 16;

	memset(scratch, 0, RLX_K_REDUCE_COLS * 24);
	for (int64_t j = 0; j < a->n; j++) {
		const char *p = (const char *)a->x +
			(size_t)((o * a->n + j) * a->inner + c) * size;

		load(j ? row : best, p, n);
		if (!j)
			continue;
		if (cls == RLX_EW_F32)
			arg_f32(best, idx, row, n, (int32_t)j, a);
		else if (cls == RLX_EW_F64)
			arg_f64(best, idx, row, n, j, a);
		else
			arg_i64(best, idx, row, n, j, a);
	}
	for (size_t i = 0; i < n; i++)
		put_index(a, o * a->inner + c + (int64_t)i,
			  cls == RLX_EW_F32 ? ((int32_t *)idx)[i] : ((int64_t *)idx)[i]);
}

void RLX_K(argreduce)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_argreduce *a = args;
	const int64_t cols = RLX_K_REDUCE_COLS, blocks = (a->inner + cols - 1) / cols;

	for (size_t u = begin; u < end; u++) {
		int64_t o = (int64_t)u / blocks, c = (int64_t)u % blocks * cols;
		int64_t left = a->inner - c;

		if (a->inner == 1)
			put_index(a, o, arg_row(a, o, scratch));
		else
			arg_cols(a, o, c, (size_t)(left < cols ? left : cols), scratch);
	}
}

typedef uint32_t u32;
typedef uint64_t vul __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));
typedef uint32_t vu_u __attribute__((vector_size(RLX_VB), aligned(4), may_alias));
typedef float vfh __attribute__((vector_size(RLX_VB / 2)));
typedef float vfh_u __attribute__((vector_size(RLX_VB / 2), aligned(4), may_alias));

/*
 * A row of T into the running values of A of n columns, and what there is of them to y, which
 * may be x. What stands in the last vector is read first, and stored last.
 */
#define SCAN(T, V, A, W)						\
static void scan_##T(void *to, const void *from, void *out, size_t n,	\
		     const struct rlx_k_scan *a)			\
{									\
	const size_t all = RLX_VB / sizeof(A), end = n < all ? 0 : n - all; \
	const T *x = from;						\
	A *acc = to;							\
	T *y = out;							\
	W s, t, s1, t1;							\
									\
	for (size_t i = 0; n < all && i < n; i++) {			\
		const A before = acc[i];				\
									\
		acc[i] = a->prod ? before * (A)x[i] : before + (A)x[i];	\
		y[i] = (T)(a->exclusive ? before : acc[i]);		\
	}								\
	if (n < all)							\
		return;							\
	s1 = *(const W##_u *)(acc + end);				\
	t1 = __builtin_convertvector(*(const V##_u *)(x + end), W);	\
	t1 = a->prod ? s1 * t1 : s1 + t1;				\
	for (size_t i = 0; i < end; i += all) {				\
		s = *(const W##_u *)(acc + i);				\
		t = __builtin_convertvector(*(const V##_u *)(x + i), W);	\
		t = a->prod ? s * t : s + t;				\
		*(W##_u *)(acc + i) = t;				\
		*(V##_u *)(y + i) = __builtin_convertvector(a->exclusive ? s : t, V); \
	}								\
	*(W##_u *)(acc + end) = t1;					\
	*(V##_u *)(y + end) = __builtin_convertvector(a->exclusive ? s1 : t1, V); \
}
SCAN(f64, vd, f64, vd)
SCAN(f32, vfh, f64, vd)
SCAN(u64, vul, u64, vul)
SCAN(u32, vu, u32, vu)

/* Columns [c, c + n) of outer o. */
static void scan_cols(const struct rlx_k_scan *a, int64_t o, int64_t c, size_t n, char *scratch)
{
	static void (*const of[])(void *, const void *, void *, size_t,
				  const struct rlx_k_scan *) = {
		[RLX_EW_F32] = scan_f32, [RLX_EW_F64] = scan_f64, [RLX_EW_I64] = scan_u64,
		[RLX_EW_I32] = scan_u32,
	};
	const bool four = a->type == RLX_I32 || a->type == RLX_U32;
	const int cls = four ? RLX_EW_I32 : class_of(a->type, RLX_EW_F32);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const bool plain = four || size == 8 || a->type == RLX_F32;
	rlx_convert_fn *load = RLX_K(loader)(cls, a->type), *store = RLX_K(storer)(cls, a->type);
	char *acc = scratch, *row = acc + RLX_K_SCAN_COLS * 8;

	for (size_t i = 0; i < n; i++)
		if (four)
			((u32 *)(void *)acc)[i] = a->prod;
		else if (cls == RLX_EW_I64)
			((u64 *)(void *)acc)[i] = a->prod;
		else
			((f64 *)(void *)acc)[i] = a->prod;
	for (int64_t k = 0; k < a->n; k++) {
		int64_t j = a->reverse ? a->n - 1 - k : k;
		size_t off = (size_t)((o * a->n + j) * a->inner + c) * size;
		const char *x = (const char *)a->x + off;
		char *y = (char *)a->y + off;

		if (plain) {
			of[cls](acc, x, y, n, a);
			continue;
		}
		load(row, x, n);
		of[cls](acc, row, row, n, a);
		store(y, row, n);
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
		if (cls == RLX_EW_F64 && !a->prod && !a->exclusive && !a->reverse)
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
	const int64_t cols = RLX_K_SCAN_COLS, blocks = (a->inner + cols - 1) / cols;

	for (size_t u = begin; u < end; u++) {
		const int64_t o = (int64_t)u / blocks, c = (int64_t)u % blocks * cols;
		const int64_t left = a->inner - c;

		if (a->inner == 1)
			scan_row(a, o, class_of(a->type, RLX_EW_F64), scratch);
		else
			scan_cols(a, o, c, (size_t)(left < cols ? left : cols), scratch);
	}
}
