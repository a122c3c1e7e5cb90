// SPDX-License-Identifier: MIT
/* Reductions: along rows within vectors, across rows column by column. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/row_end.h"
#include "kernels/reduce.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(reduce);

#define COLS	RLX_K_REDUCE_COLS
#define BLOCK	64	/* rows summed before folding, and such sums likewise */

#define MAXN(x, y)	((x) != (x) || (x) > (y) ? (x) : (y))
#define MINN(x, y)	((x) != (x) || (x) < (y) ? (x) : (y))

/* What an op starts from, and how two values meet. */
enum kind { ADD, PRODUCT, LARGEST, SMALLEST };

static enum kind kind_of(int op)
{
	switch (op) {
	case RLX_K_REDUCE_MAX: return LARGEST;
	case RLX_K_REDUCE_MIN: return SMALLEST;
	case RLX_K_REDUCE_PROD: return PRODUCT;
	default: return ADD;
	}
}

typedef double f64;
typedef float f32;
typedef uint64_t u64;	/* arithmetic wraps; comparisons are of int64_t */
typedef int64_t vl __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));

#define SEL(V, m, a, b)	((V)(((vl)(m) & (vl)(a)) | (~(vl)(m) & (vl)(b))))
#define LESS(x, y)	((int64_t)(x) < (int64_t)(y))

RLX_INLINE vf most_f32(vf a, vf b) { return vf_max_nan(a, b); }
RLX_INLINE vf least_f32(vf a, vf b) { return vf_min_nan(a, b); }
RLX_INLINE vd most_f64(vd a, vd b) { return SEL(vd, (a != a) | (a > b), a, b); }
RLX_INLINE vd least_f64(vd a, vd b) { return SEL(vd, (a != a) | (a < b), a, b); }
RLX_INLINE vul most_u64(vul a, vul b) { return SEL(vul, (vl)a > (vl)b, a, b); }
RLX_INLINE vul least_u64(vul a, vul b) { return SEL(vul, (vl)a < (vl)b, a, b); }
#define MOST_f32(a, b)	MAXN(a, b)
#define MOST_f64(a, b)	MAXN(a, b)
#define MOST_u64(a, b)	(LESS(b, a) ? (a) : (b))
#define LEAST_f32(a, b)	MINN(a, b)
#define LEAST_f64(a, b)	MINN(a, b)
#define LEAST_u64(a, b)	(LESS(a, b) ? (a) : (b))

/* One row into a row of results. */
#define COLS_OF(expr)							\
	do {								\
		for (size_t i = 0; i < n; i++)				\
			r[i] = (expr);					\
	} while (0)

/*
 * A row by N vectors side by side, what is left of it among start values; then these
 * vectors and their lanes in halves. @op is of vectors, @op1 of elements a and b. The base
 * level has not the registers for as many vectors.
 */
#define N	(RLX_VB > 16 ? 128 / RLX_VB : 4)
#define TOP_BIT(j)	(1u << (31 - __builtin_clz((unsigned int)(j))))
#define FOLD(V, T, op, op1)						\
	do {								\
		for (const T *to = x + n / ALL * ALL; x < to; x += ALL) { \
			RLX_UNROLL					\
			for (size_t j = 0; j < N; j++) {		\
				const V a = r[j], b = ((const V##_u *)(const void *)x)[j]; \
									\
				r[j] = (op);				\
			}						\
		}							\
		RLX_UNROLL						\
		for (size_t j = 0; j < N; j++) {			\
			const V a = r[j], b = end[j];			\
									\
			r[j] = (op);					\
		}							\
		RLX_UNROLL						\
		for (size_t j = N - 1; j > 0; j--) {			\
			const V a = r[j - TOP_BIT(j)], b = r[j];	\
									\
			r[j - TOP_BIT(j)] = (op);			\
		}							\
		memcpy(lane, r, RLX_VB);				\
		RLX_UNROLL						\
		for (size_t j = RLX_VB / sizeof(T) - 1; j > 0; j--) {	\
			const T a = lane[j - TOP_BIT(j)], b = lane[j];	\
									\
			lane[j - TOP_BIT(j)] = (op1);			\
		}							\
	} while (0)

/*
 * For an element type T with vectors V: cols_T(acc, x, n, kind) takes one row into a row of
 * results; row_T(x, n, kind) is the result of a row.
 */
#define REDUCER(T, V, LOWEST, HIGHEST)					\
static T start_##T(enum kind k)						\
{									\
	return k == PRODUCT ? 1 : k == LARGEST ? (T)(LOWEST) :		\
	       k == SMALLEST ? (T)(HIGHEST) : 0;			\
}									\
static void cols_##T(T *restrict r, const T *restrict x, size_t n,	\
		     enum kind k)					\
{									\
	switch (k) {							\
	case ADD:							\
		COLS_OF(r[i] + x[i]);					\
		break;							\
	case PRODUCT:							\
		COLS_OF(r[i] * x[i]);					\
		break;							\
	case LARGEST:							\
		COLS_OF(MOST_##T(r[i], x[i]));				\
		break;							\
	case SMALLEST:							\
		COLS_OF(LEAST_##T(r[i], x[i]));				\
		break;							\
	}								\
}									\
static T row_##T(const T *x, size_t n, enum kind k)			\
{									\
	const size_t ALL = N * RLX_VB / sizeof(T);			\
	const V first = start_##T(k) + (V){ 0 };			\
	T lane[RLX_VB / sizeof(T)];					\
	V r[N], end[N];							\
									\
	RLX_UNROLL							\
	for (size_t j = 0; j < N; j++)					\
		r[j] = end[j] = first;					\
	memcpy(end, x + n / ALL * ALL, n % ALL * sizeof(T));		\
	switch (k) {							\
	case ADD:							\
		FOLD(V, T, a + b, a + b);				\
		break;							\
	case PRODUCT:							\
		FOLD(V, T, a * b, a * b);				\
		break;							\
	case LARGEST:							\
		FOLD(V, T, most_##T(a, b), MOST_##T(a, b));		\
		break;							\
	default:							\
		FOLD(V, T, least_##T(a, b), LEAST_##T(a, b));		\
		break;							\
	}								\
	return lane[0];							\
}									\
/* Rows of a few elements, which a vector would hardly fill. */		\
static void rows_##T(T *restrict r, const T *restrict x, size_t rows,	\
		     size_t n, enum kind k)				\
{									\
	for (size_t i = 0; i < rows; i++, x += n) {			\
		T v = x[0];						\
									\
		switch (k) {						\
		case ADD:						\
			for (size_t j = 1; j < n; j++)			\
				v += x[j];				\
			break;						\
		case PRODUCT:						\
			for (size_t j = 1; j < n; j++)			\
				v *= x[j];				\
			break;						\
		case LARGEST:						\
			for (size_t j = 1; j < n; j++)			\
				v = MOST_##T(v, x[j]);			\
			break;						\
		case SMALLEST:						\
			for (size_t j = 1; j < n; j++)			\
				v = LEAST_##T(v, x[j]);			\
			break;						\
		}							\
		r[i] = v;						\
	}								\
}
REDUCER(f64, vd, -INFINITY, INFINITY)
REDUCER(f32, vf, -INFINITY, INFINITY)
REDUCER(u64, vul, INT64_MIN, INT64_MAX)

/* u64 ordered as i64 is: the top bit turned over */
void RLX_K(load_turned)(void *restrict dst, const void *restrict src, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((u64 *)dst)[i] = ((const u64 *)src)[i] ^ (u64)1 << 63;
}

union rlx_value_of RLX_K(row_end)(int cls, const void *x, size_t n, bool min)
{
	const enum kind k = min ? SMALLEST : LARGEST;
	union rlx_value_of v;

	if (cls == RLX_EW_F32)
		v.f = row_f32(x, n, k);
	else if (cls == RLX_EW_F64)
		v.d = row_f64(x, n, k);
	else
		v.i = row_u64(x, n, k);
	return v;
}

struct run {
	const struct rlx_k_reduce *a;
	enum kind	kind;
	int		cls;
	size_t		size, lane;	/* bytes in memory, in the class */
	rlx_convert_fn	*load, *store;
	char		*acc, *mid, *part, *buf;
};

static void cols(const struct run *r, void *acc, const void *x, size_t n,
		 enum kind k)
{
	if (r->cls == RLX_EW_F32)
		cols_f32(acc, x, n, k);
	else if (r->cls == RLX_EW_F64)
		cols_f64(acc, x, n, k);
	else
		cols_u64(acc, x, n, k);
}

#define SET(T, p, n, expr)						\
	do {								\
		T *t_ = (p);						\
									\
		for (size_t i = 0; i < (n); i++)			\
			t_[i] = (expr);					\
	} while (0)

static void start(const struct run *r, void *acc, size_t n)
{
	if (r->cls == RLX_EW_F32)
		SET(f32, acc, n, start_f32(r->kind));
	else if (r->cls == RLX_EW_F64)
		SET(f64, acc, n, start_f64(r->kind));
	else
		SET(u64, acc, n, start_u64(r->kind));
}

static bool in_class(const struct run *r)
{
	int t = r->a->type;

	return t == RLX_F32 || t == RLX_F64 || t == RLX_I64 ||
	       (t == RLX_U64 && r->load != RLX_K(load_turned));
}

/* x as values of the class */
static const void *values(const struct run *r, const char *x, size_t n)
{
	if (in_class(r))
		return x;
	r->load(r->buf, x, n);
	return r->buf;
}

/* The result of the n values of a row, to @one. */
static void row(const struct run *r, void *one, const void *v, size_t n)
{
	if (r->cls == RLX_EW_F32)
		*(f32 *)one = row_f32(v, n, r->kind);
	else if (r->cls == RLX_EW_F64)
		*(f64 *)one = row_f64(v, n, r->kind);
	else
		*(u64 *)one = row_u64(v, n, r->kind);
}

/* A contiguous run into *acc, in pieces that keep the sums short. */
static void take_run(const struct run *r, union rlx_value_of *acc, const char *x,
		     size_t n)
{
	for (size_t i = 0; i < n; i += COLS) {
		size_t k = n - i < COLS ? n - i : COLS;
		const void *v = values(r, x + i * r->size, k);
		union rlx_value_of one;

		row(r, &one, v, k);
		if (r->cls == RLX_EW_F32 && r->kind == ADD)
			acc->d += (double)one.f;
		else
			cols(r, acc, &one, 1, r->kind);
	}
}

/* The offset of kept index @out at the first reduced one, in elements. */
static int64_t kept_at(const struct rlx_k_reduce *a, int64_t out)
{
	int64_t off = 0, stride = 1;

	for (int d = a->rank; d-- > 0; stride *= a->dim[d])
		if (!(a->axes >> d & 1)) {
			off += out % a->dim[d] * stride;
			out /= a->dim[d];
		}
	return off;
}

/* The reduced index @red, last dimension excluded if it is reduced itself. */
static int64_t reduced_at(const struct rlx_k_reduce *a, int64_t red)
{
	int64_t off = 0, stride = a->dim[a->rank - 1];

	for (int d = a->rank - 1; d-- > 0; stride *= a->dim[d])
		if (a->axes >> d & 1) {
			off += red % a->dim[d] * stride;
			red /= a->dim[d];
		}
	return off;
}

/* n sums become means. */
static void divide(const struct run *r, void *acc, size_t n)
{
	const int64_t by = r->a->n_red;

	if (r->cls == RLX_EW_F32)
		SET(f32, acc, n, (f32)(t_[i] / (double)by));
	else if (r->cls == RLX_EW_F64)
		SET(f64, acc, n, t_[i] / (double)by);
	else if (!by)	/* of integers the mean of nothing is 0 */
		SET(u64, acc, n, 0);
	else if (r->a->type == RLX_U64)
		SET(u64, acc, n, t_[i] / (u64)by);
	else
		SET(int64_t, acc, n, t_[i] / by);
}

/* The mean, if that is wanted, and the result to its place. */
static void finish(const struct run *r, int64_t at, void *acc, size_t n)
{
	if (r->a->op == RLX_K_REDUCE_MEAN)
		divide(r, acc, n);
	r->store((char *)r->a->y + (size_t)at * r->size, acc, n);
}

/* One result whose last dimension is reduced. */
static void one_row(const struct run *r, int64_t out)
{
	const struct rlx_k_reduce *a = r->a;
	const int64_t last = a->dim[a->rank - 1];
	const int64_t base = kept_at(a, out);
	const bool sum = r->cls == RLX_EW_F32 && r->kind == ADD;
	union rlx_value_of acc = { .i = 0 };

	if (!sum)
		start(r, &acc, 1);
	for (int64_t i = 0; last && i < a->n_red / last; i++)
		take_run(r, &acc, (const char *)a->x +
			 (base + reduced_at(a, i)) * (int64_t)r->size,
			 (size_t)last);
	if (sum)
		acc.f = (f32)acc.d;
	finish(r, out, &acc, 1);
}

/*
 * Results [out, to), each of a row of its own that many of fit into a buffer: what a call
 * takes is shared by as many.
 */
static void short_rows(const struct run *r, int64_t out, int64_t to)
{
	enum { FEW = 16 };
	const size_t n = (size_t)r->a->dim[r->a->rank - 1], most = COLS / n;

	for (size_t rows, i; out < to; out += (int64_t)rows) {
		const char *v = (const char *)r->a->x + (size_t)out * n * r->size;

		rows = (size_t)(to - out) < most ? (size_t)(to - out) : most;
		v = values(r, v, rows * n);
		if (n > FEW)
			for (i = 0; i < rows; i++)
				row(r, r->acc + i * r->lane, v + i * n * r->lane, n);
		else if (r->cls == RLX_EW_F32)
			rows_f32((f32 *)(void *)r->acc, (const void *)v, rows, n, r->kind);
		else if (r->cls == RLX_EW_F64)
			rows_f64((f64 *)(void *)r->acc, (const void *)v, rows, n, r->kind);
		else
			rows_u64((u64 *)(void *)r->acc, (const void *)v, rows, n, r->kind);
		finish(r, out, r->acc, rows);
	}
}

/* Rows [@i, @end) of n neighbouring columns from @base on. */
static void take_rows(const struct run *r, void *acc, const char *base, int64_t i, int64_t end,
		      size_t n)
{
	for (; i < end; i++)
		cols(r, acc, values(r, base + reduced_at(r->a, i) * (int64_t)r->size, n), n,
		     r->kind);
}

/*
 * n neighbouring results from @out on, the last dimension being kept: sums of sums of
 * BLOCK rows, which f32 adds up as doubles, so that a million rows are in each precision
 * some hundred additions deep.
 */
static void columns(const struct run *r, int64_t out, size_t n)
{
	const struct rlx_k_reduce *a = r->a;
	const bool wide = r->cls == RLX_EW_F32 && r->kind == ADD && a->n_red > BLOCK;
	f64 *sum = (void *)r->acc;
	const char *base = (const char *)a->x + kept_at(a, out) *
			   (int64_t)r->size;

	if (wide)
		SET(f64, sum, n, 0);
	else
		start(r, r->acc, n);
	if (a->n_red <= BLOCK)
		take_rows(r, r->acc, base, 0, a->n_red, n);
	for (int64_t row = 0, end, far; a->n_red > BLOCK && row < a->n_red;) {
		far = a->n_red - row < BLOCK * BLOCK ? a->n_red : row + BLOCK * BLOCK;
		start(r, r->mid, n);
		for (; row < far; row = end) {
			end = far - row < BLOCK ? far : row + BLOCK;
			start(r, r->part, n);
			take_rows(r, r->part, base, row, end, n);
			cols(r, r->mid, r->part, n, r->kind);
		}
		if (wide)
			SET(f64, sum, n, t_[i] + (double)((f32 *)(void *)r->mid)[i]);
		else
			cols(r, r->acc, r->mid, n, r->kind);
	}
	if (wide)
		SET(f32, (void *)r->mid, n, (f32)sum[i]);
	finish(r, out, wide ? r->mid : r->acc, n);
}

void RLX_K(reduce)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_reduce *a = args;
	const int64_t last = a->dim[a->rank - 1];
	const int64_t blocks = (last + COLS - 1) / COLS;
	struct run r = { .a = a, .kind = kind_of(a->op), .acc = scratch };

	r.mid = r.acc + COLS * 8;
	r.part = r.mid + COLS * 8;
	r.buf = r.part + COLS * 8;
	r.cls = a->type == RLX_F64 ? RLX_EW_F64 :
		rlx_k_type_float((enum rlx_dtype)a->type) ? RLX_EW_F32 :
							     RLX_EW_I64;
	r.size = rlx_k_type_size((enum rlx_dtype)a->type);
	r.lane = r.cls == RLX_EW_F32 ? 4 : 8;
	r.load = RLX_K(loader)(r.cls, a->type);
	r.store = RLX_K(storer)(r.cls, a->type);
	if (a->type == RLX_U64 && r.kind >= LARGEST)
		r.load = r.store = RLX_K(load_turned);
	for (size_t u = begin; u < end; u++) {
		if (a->axes >> (a->rank - 1) & 1) {
			int64_t o = (int64_t)u * a->per, to = o + a->per;

			to = to < a->n_out ? to : a->n_out;
			if (a->n_red == last && last > 0 && last <= COLS / 2)
				short_rows(&r, o, to);
			else
				for (; o < to; o++)
					one_row(&r, o);
		} else {
			int64_t c = (int64_t)u % blocks * COLS;
			int64_t n = last - c < COLS ? last - c : COLS;

			columns(&r, (int64_t)u / blocks * last + c, (size_t)n);
		}
	}
}
