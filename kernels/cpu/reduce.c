// SPDX-License-Identifier: MIT
/* Reductions: along rows within vectors, across rows column by column. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/row_end.h"
#include "kernels/reduce.h"
#include "kernels/simd/transpose.h"
#include "kernels/simd/wide.h"

rlx_k_fn RLX_K(reduce);

#define COLS	RLX_K_REDUCE_COLS
#define PART	RLX_K_REDUCE_PART		/* rows that f32 sums before a double takes them */
#define RUN	(RLX_K_REDUCE_RUN / 16 * RLX_WL) /* of a row, likewise */
#define ROWS	4		/* of as many a column takes the elements at once */

/* What an op starts from, and how two values meet. */
enum kind { ADD, SQUARES, PRODUCT, LARGEST, SMALLEST };

static enum kind kind_of(const struct rlx_k_reduce *a)
{
	switch (a->op) {
	case RLX_K_REDUCE_MAX: return LARGEST;
	case RLX_K_REDUCE_MIN: return SMALLEST;
	case RLX_K_REDUCE_PROD: return PRODUCT;
	default: return a->squares ? SQUARES : ADD;
	}
}

typedef double f64;
typedef float f32;
typedef uint64_t u64;	/* arithmetic wraps; comparisons are of int64_t */
typedef uint32_t u32;	/* and of int32_t */
typedef int64_t vl __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul __attribute__((vector_size(RLX_VB)));
typedef uint64_t vul_u __attribute__((vector_size(RLX_VB), aligned(8), may_alias));
typedef uint32_t vu_u __attribute__((vector_size(RLX_VB), aligned(4), may_alias));

#define ZIP(V, a, b, end)	(V)(sizeof((a)[0]) == 4 ?	\
	(V)__builtin_shufflevector((vi)(a), (vi)(b), RLX_ZIP_32(end)) :	\
	(V)__builtin_shufflevector((vl)(a), (vl)(b), RLX_ZIP_64(end)))

#define SEL(V, m, a, b)	((V)(((vl)(m) & (vl)(a)) | (~(vl)(m) & (vl)(b))))

RLX_INLINE vf most_f32(vf a, vf b) { return vf_max_nan(a, b); }
RLX_INLINE vf least_f32(vf a, vf b) { return vf_min_nan(a, b); }
RLX_INLINE vd most_f64(vd a, vd b) { return SEL(vd, (a != a) | (a > b), a, b); }
RLX_INLINE vd least_f64(vd a, vd b) { return SEL(vd, (a != a) | (a < b), a, b); }
RLX_INLINE vul most_u64(vul a, vul b) { return SEL(vul, (vl)a > (vl)b, a, b); }
RLX_INLINE vul least_u64(vul a, vul b) { return SEL(vul, (vl)a < (vl)b, a, b); }
RLX_INLINE vu most_u32(vu a, vu b) { return SEL(vu, (vi)a > (vi)b, a, b); }
RLX_INLINE vu least_u32(vu a, vu b) { return SEL(vu, (vi)a < (vi)b, a, b); }

RLX_INLINE vf squares_f32(vf a, vf x) { return vf_fma(x, x, a); }
RLX_INLINE vd squares_f64(vd a, vd x) { return vd_fma(x, x, a); }
RLX_INLINE vul squares_u64(vul a, vul x) { return a; }	/* nobody has them */
RLX_INLINE vu squares_u32(vu a, vu x) { return a; }

static const int32_t lane_32[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
static const int64_t lane_64[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

/* The lanes of RLX_WB bytes, which are as many at every level that agrees with others. */
struct lanes {
	vl	v[RLX_WIDE];
};

/* All bits of those of @size bytes that a row of n has left for its last @bytes. */
static struct lanes left_lanes(size_t size, size_t bytes, size_t n)
{
	const size_t all = bytes / size, from = n < all ? 0 : all - n % all, to = n < all ? n : all;
	struct lanes r = { { { 0 } } };
	vl at;

	for (size_t w = 0; w < bytes / RLX_VB; w++) {
		if (size == 4) {
			const vi k = vi_loadu(lane_32 + w * RLX_VL);

			r.v[w] = (vl)((k >= (int32_t)from) & (k < (int32_t)to));
			continue;
		}
		memcpy(&at, lane_64 + w * RLX_VLD, sizeof(at));
		r.v[w] = (vl)((at >= (int64_t)from) & (at < (int64_t)to));
	}
	return r;
}

#define EACH_KIND(squares, product, fn, ...)				\
	switch (k) {							\
	case SQUARES:							\
		if (squares) {						\
			fn(__VA_ARGS__, SQUARES);			\
			break;						\
		}							\
		/* fall through */					\
	case ADD:							\
		fn(__VA_ARGS__, ADD);					\
		break;							\
	case PRODUCT:							\
		if (product)						\
			fn(__VA_ARGS__, PRODUCT);			\
		break;							\
	case LARGEST:							\
		fn(__VA_ARGS__, LARGEST);				\
		break;							\
	case SMALLEST:							\
		fn(__VA_ARGS__, SMALLEST);				\
		break;							\
	}

/*
 * For an element type T with vectors V, the kind a constant but in the last two:
 *	meet_T(a, b, k)		two results become one
 *	take_T(a, x, k)		elements into results
 *	cols_T(r, p, n, k)	n elements of each of ROWS rows into a row of results; n is a
 *				vector's or more
 *	rows_T(p, x, rows, n, left, k) the results of each of @rows rows, as many as a vector has
 *				lanes, in the lanes of RLX_WB bytes, of which halves are met until
 *				one vector has them; @left are those that the last of them have
 *				left, and so many are read at least
 *	fold_T(p, rows, k)	those of each of @rows rows to one in a lane of the first of them:
 *				of one row, or of as many as there are lanes
 * What stands in the last vector of a row of results is computed first, and stored last.
 */
#define REDUCER(T, V, REAL, LOWEST, HIGHEST)				\
enum { WIDE_##T = (REAL) ? RLX_WIDE : 1 };	/* integers add up in any order */ \
struct wide_##T { V v[WIDE_##T]; };					\
static T start_##T(enum kind k)						\
{									\
	return k == PRODUCT ? 1 : k == LARGEST ? (T)(LOWEST) :		\
	       k == SMALLEST ? (T)(HIGHEST) : 0;			\
}									\
RLX_INLINE V load_##T(const T *x) { return *(const V##_u *)(const void *)x; } \
RLX_INLINE V meet_##T(V a, V b, const enum kind k)			\
{									\
	return k == PRODUCT ? a * b : k == LARGEST ? most_##T(a, b) :	\
	       k == SMALLEST ? least_##T(a, b) : a + b;			\
}									\
RLX_INLINE V take_##T(V a, V x, const enum kind k)			\
{									\
	return k == SQUARES ? squares_##T(a, x) : meet_##T(a, x, k);	\
}									\
RLX_INLINE V four_##T(const T *r, const T *const p[ROWS], size_t i, const enum kind k) \
{									\
	V a = load_##T(p[0] + i), b = load_##T(p[2] + i);		\
									\
	a = take_##T(k == SQUARES ? a * a : a, load_##T(p[1] + i), k);	\
	b = take_##T(k == SQUARES ? b * b : b, load_##T(p[3] + i), k);	\
	return meet_##T(load_##T(r + i), meet_##T(a, b, k), k);		\
}									\
RLX_INLINE void cols_of_##T(T *r, const T *const *p, size_t n, const enum kind k) \
{									\
	const size_t all = RLX_VB / sizeof(T);				\
	const T *const q[ROWS] = { p[0], p[1], p[2], p[3] };		\
	const V end = four_##T(r, q, n - all, k);			\
									\
	for (size_t i = 0; i + all <= n; i += all)			\
		*(V##_u *)(void *)(r + i) = four_##T(r, q, i, k);	\
	*(V##_u *)(void *)(r + n - all) = end;				\
}									\
RLX_INLINE struct wide_##T wide_take_##T(struct wide_##T r, const T *x, const enum kind k) \
{									\
	RLX_UNROLL							\
	for (int w = 0; w < WIDE_##T; w++)				\
		r.v[w] = take_##T(r.v[w], load_##T(x + (size_t)w * (RLX_VB / sizeof(T))), k); \
	return r;							\
}									\
RLX_INLINE struct wide_##T wide_meet_##T(struct wide_##T a, struct wide_##T b, const enum kind k) \
{									\
	RLX_UNROLL							\
	for (int w = 0; w < WIDE_##T; w++)				\
		a.v[w] = meet_##T(a.v[w], b.v[w], k);			\
	return a;							\
}									\
RLX_INLINE V row_of_##T(const T *x, size_t n, const struct lanes *left, const enum kind k) \
{									\
	const size_t all = WIDE_##T * RLX_VB / sizeof(T);		\
	const V first = start_##T(k) + (V){ 0 };			\
	const T *const end = x + (n < all ? 0 : n - all);		\
	struct wide_##T r, a, b, c;					\
									\
	if (n < all && n <= RLX_VB / sizeof(T))	/* the other vectors have @first */ \
		return take_##T(first, SEL(V, left->v[0], load_##T(x), first), k); \
	RLX_UNROLL							\
	for (int w = 0; w < WIDE_##T; w++)				\
		r.v[w] = first;						\
	if (n >= 4 * all) {						\
		a = b = c = r;						\
		for (; n >= 4 * all; n -= 4 * all, x += 4 * all) {	\
			r = wide_take_##T(r, x, k);			\
			a = wide_take_##T(a, x + all, k);		\
			b = wide_take_##T(b, x + 2 * all, k);		\
			c = wide_take_##T(c, x + 3 * all, k);		\
		}							\
		r = wide_meet_##T(wide_meet_##T(r, a, k), wide_meet_##T(b, c, k), k); \
	}								\
	for (; n >= all; n -= all, x += all)				\
		r = wide_take_##T(r, x, k);				\
	if (n)								\
		RLX_UNROLL						\
		for (int w = 0; w < WIDE_##T; w++) {			\
			const V t = load_##T(end + (size_t)w * (RLX_VB / sizeof(T))); \
									\
			r.v[w] = take_##T(r.v[w], SEL(V, left->v[w], t, first), k); \
		}							\
	RLX_UNROLL							\
	for (int half = WIDE_##T / 2; half; half /= 2)		\
		RLX_UNROLL						\
		for (int w = 0; w < half; w++)			\
			r.v[w] = meet_##T(r.v[w], r.v[w + half], k);	\
	return r.v[0];							\
}									\
RLX_INLINE void rows_of_##T(V *p, const T *x, size_t rows, size_t n, \
			    const struct lanes *given, const enum kind k) \
{									\
	const struct lanes left = *given;	/* which stores do not change */ \
									\
	for (; rows--; x += n)						\
		*p++ = row_of_##T(x, n, &left, k);			\
}									\
RLX_INLINE void fold_of_##T(V *p, size_t w, const enum kind k)		\
{									\
	const size_t one = w == 1;					\
									\
	for (size_t all = RLX_VB / sizeof(T); all > 1; all /= 2) {	\
		w = one ? 1 : all / 2;					\
		for (size_t j = 0, o = one ? 0 : w; j < w; j++, o++) {	\
			const V a = p[j], b = p[o];			\
									\
			p[j] = meet_##T(ZIP(V, a, b, LO), ZIP(V, a, b, HI), k); \
		}							\
	}								\
}									\
static void cols_##T(void *r, const void *const p[ROWS], size_t n, enum kind k) \
{									\
	const T *const q[ROWS] = { p[0], p[1], p[2], p[3] };		\
									\
	EACH_KIND(REAL, REAL || sizeof(T) == 8, cols_of_##T, r, q, n)				\
}									\
static void rows_##T(vl *p, const void *x, size_t rows, size_t n, const struct lanes *left, \
		     enum kind k)					\
{									\
	EACH_KIND(REAL, REAL || sizeof(T) == 8, rows_of_##T, (V *)p, x, rows, n, left) \
}									\
static void fold_##T(vl *p, size_t rows, enum kind k)			\
{									\
	EACH_KIND(false, REAL || sizeof(T) == 8, fold_of_##T, (V *)p, rows)			\
}
REDUCER(f64, vd, true, -INFINITY, INFINITY)
REDUCER(f32, vf, true, -INFINITY, INFINITY)
REDUCER(u64, vul, false, INT64_MIN, INT64_MAX)
REDUCER(u32, vu, false, INT32_MIN, INT32_MAX)

struct class_of {
	void	(*cols)(void *r, const void *const p[ROWS], size_t n, enum kind k);
	void	(*rows)(vl *p, const void *x, size_t rows, size_t n, const struct lanes *left,
			enum kind k);
	void	(*fold)(vl *p, size_t rows, enum kind k);
	size_t	lane, wide;	/* bytes: of one, and of all that a row is kept in */
};

static const struct class_of class_of[] = {
	[RLX_EW_F32] = { cols_f32, rows_f32, fold_f32, 4, RLX_WB },
	[RLX_EW_F64] = { cols_f64, rows_f64, fold_f64, 8, RLX_WB },
	[RLX_EW_I64] = { cols_u64, rows_u64, fold_u64, 8, RLX_VB },
	[RLX_EW_I32] = { cols_u32, rows_u32, fold_u32, 4, RLX_VB },
};

/* u64 ordered as i64 is: the top bit turned over */
void RLX_K(load_turned)(void *restrict dst, const void *restrict src, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((u64 *)dst)[i] = ((const u64 *)src)[i] ^ (u64)1 << 63;
}

/*
 * The results of @rows neighbouring rows of n, of class @c. Of rows shorter than RLX_WB bytes as
 * many are read (or a vector, if that has them), so that the last of them are put where there is
 * room behind them.
 */
static void fold_rows(const struct class_of *c, char *to, const char *x, size_t rows, size_t n,
		      enum kind k)
{
	const size_t all = RLX_VB / c->lane, read = n <= all ? all : c->wide / c->lane;
	const struct lanes left = left_lanes(c->lane, c->wide, n);
	vl p[RLX_VL] = { { 0 } }, pad[RLX_WIDE];

	for (size_t m, far; rows; rows -= m, to += m * c->lane) {
		const size_t near = n < read ? (read - 1) / n : 0;

		m = rows < all ? rows : all;
		far = rows >= m + near ? m : rows > near ? rows - near : 0;
		c->rows(p, x, far, n, &left, k);
		x += far * n * c->lane;
		for (size_t j = far; j < m; j++, x += n * c->lane) {
			memcpy(pad, x, n * c->lane);
			c->rows(p + j, (const void *)pad, 1, n, &left, k);
		}
		c->fold(p, m, k);
		memcpy(to, p, m * c->lane);
	}
}

void RLX_K(row_end)(int cls, void *to, const void *x, size_t rows, size_t n, bool min)
{
	fold_rows(&class_of[cls], to, x, rows, n, min ? SMALLEST : LARGEST);
}

struct run {
	const struct rlx_k_reduce *a;
	const struct class_of *c;
	enum kind	kind;
	int		cls;
	bool		plain;		/* what is in memory is of the class */
	bool		wide;		/* sums of f32, which meet in doubles */
	size_t		size;		/* bytes in memory */
	bool		parts;		/* of columns, that @acc is the sum of what @part was */
	int64_t		most, deep;	/* rows that @part takes, and has taken */
	rlx_convert_fn	*load, *store;
	char		*acc, *part, *none, *buf;
};

#define SET(T, p, n, expr)						\
	do {								\
		T *t_ = (p);						\
									\
		for (size_t i = 0; i < (n); i++)			\
			t_[i] = (expr);					\
	} while (0)

/* x as values of the class */
static const char *values(const struct run *r, const char *x, size_t n)
{
	if (r->plain)
		return x;
	r->load(r->buf, x, n);
	return r->buf;
}

/* Two rows of n results of class @cls become one. */
static void meet(const struct run *r, int cls, char *acc, const char *x, size_t n)
{
	const size_t lane = class_of[cls].lane, all = RLX_VB / lane;
	const void *p[ROWS] = { x, r->none, r->none, r->none };
	char pad[RLX_VB];

	if (n < all) {
		memcpy(pad, r->none, RLX_VB);
		memcpy(pad, x, n * lane);
		p[0] = pad;
	}
	class_of[cls].cols(acc, p, n < all ? all : n, r->kind == SQUARES ? ADD : r->kind);
}

/* A contiguous run into *acc, in pieces that keep the sums short. */
static void take_run(const struct run *r, const char *x, size_t n)
{
	const size_t most = r->plain || RUN < ROWS * COLS ? RUN : ROWS * COLS;
	f64 *sum = (void *)r->acc;

	for (size_t i = 0; i < n; i += most) {
		const size_t k = n - i < most ? n - i : most;
		union rlx_value_of one = { .i = 0 };

		fold_rows(r->c, (void *)&one, values(r, x + i * r->size, k), 1, k, r->kind);
		if (r->wide)
			*sum += (double)one.f;
		else
			meet(r, r->cls, r->acc, (const void *)&one, 1);
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

/*
 * n sums become means, by vectors, and so do what is behind them. The quotient of whole
 * numbers that a double holds is cut to the right one.
 */
static void divide(const struct run *r, char *acc, size_t n)
{
	const int64_t by = r->a->n_red;
	const vd d = vd_set1((double)by);
	char *const end = acc + n * r->c->lane;

	if (r->cls == RLX_EW_F32 && by >= 1 << 24) {
		SET(f32, (void *)acc, n, (f32)(t_[i] / (double)by));
	} else if (r->cls == RLX_EW_F32) {
		for (; acc < end; acc += RLX_VB)
			vf_storeu(acc, vf_loadu(acc) / (float)by);
	} else if (r->cls == RLX_EW_F64) {
		for (; acc < end; acc += RLX_VB)
			vd_storeu(acc, vd_loadu(acc) / d);
	} else if (!by) {	/* of integers the mean of nothing is 0 */
		memset(acc, 0, n * 8);
	} else if (r->a->type == RLX_U64) {
		SET(u64, (void *)acc, n, t_[i] / (u64)by);
	} else if (r->size <= 4 && by <= 1 << 21) {
		for (; acc < end; acc += RLX_VB) {
			vl v = (vl)vd_loadu(acc);

			v = __builtin_convertvector(__builtin_convertvector(v, vd) / d, vl);
			vd_storeu(acc, (vd)v);
		}
	} else {
		SET(int64_t, (void *)acc, n, t_[i] / by);
	}
}

/* The mean, if that is wanted, and the result to its place. */
static void finish(const struct run *r, int64_t at, char *acc, size_t n)
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

	if (r->wide)
		*(f64 *)(void *)r->acc = 0;
	else
		memcpy(r->acc, r->none, r->c->lane);
	for (int64_t i = 0; last && i < a->n_red / last; i++)
		take_run(r, (const char *)a->x + (base + reduced_at(a, i)) * (int64_t)r->size,
			 (size_t)last);
	if (r->wide)
		*(f32 *)(void *)r->acc = (f32)*(f64 *)(void *)r->acc;
	finish(r, out, r->acc, 1);
}

/* Results [out, to), each of a row of its own, as many at once as the buffers take. */
static void short_rows(const struct run *r, int64_t out, int64_t to)
{
	const size_t n = (size_t)r->a->dim[r->a->rank - 1];
	const size_t fit = r->plain ? COLS : ROWS * COLS / n, most = fit < COLS ? fit : COLS;

	for (size_t rows; out < to; out += (int64_t)rows) {
		const char *x = (const char *)r->a->x + (size_t)out * n * r->size;

		rows = (size_t)(to - out) < most ? (size_t)(to - out) : most;
		fold_rows(r->c, r->acc, values(r, x, rows * n), rows, n, r->kind);
		finish(r, out, r->acc, rows);
	}
}

/* What @part has gathered goes into @acc, and it starts anew. */
static void flush(struct run *r, size_t n)
{
	const char *x = r->part;

	if (r->wide) {
		RLX_K(loader)(RLX_EW_F64, RLX_F32)(r->buf, x, n);
		x = r->buf;
	}
	meet(r, r->wide ? RLX_EW_F64 : r->cls, r->acc, x, n);
	memcpy(r->part, r->none, n * r->c->lane);
	r->deep = 0;
}

/* @rows of n columns, @stride elements apart, into @part, ROWS at once. */
static void take_rows(struct run *r, const char *x, int64_t rows, size_t stride, size_t n)
{
	const size_t all = RLX_VB / r->c->lane, lane = r->c->lane;
	char pad[ROWS][RLX_VB];
	const void *p[ROWS];
	int64_t m;

	for (; rows; rows -= m, x += (size_t)m * stride * r->size) {
		m = rows < ROWS ? rows : ROWS;
		if (!r->plain && stride == n)
			r->load(r->buf, x, (size_t)m * n);
		for (int j = 0; j < ROWS; j++) {
			const char *row = x + (size_t)j * stride * r->size;
			char *to = r->buf + (size_t)j * n * lane;

			if (j < m && !r->plain && stride != n)
				r->load(to, row, n);
			p[j] = j >= m ? r->none : r->plain ? row : to;
			if (n >= all || j >= m)
				continue;
			memcpy(pad[j], r->none, RLX_VB);
			memcpy(pad[j], p[j], n * lane);
			p[j] = pad[j];
		}
		r->c->cols(r->part, p, n < all ? all : n, r->kind);
		r->deep += m;
		if (r->parts && r->deep >= r->most)
			flush(r, n);
	}
}

/*
 * n neighbouring results from @out on, the last dimension being kept. Rows that are
 * neighbours, too, are taken as fewer and longer ones, which are folded in the end. Sums are
 * of sums of some hundred rows, which f32 adds up as doubles, so that of a million none is
 * deep in roundings.
 */
static void columns(struct run *r, int64_t out, size_t n)
{
	const struct rlx_k_reduce *a = r->a;
	const int64_t last = a->dim[a->rank - 1], rows = a->rank > 1 ? a->dim[a->rank - 2] : 1;
	const bool wide = r->parts && r->wide;
	const int cls = wide ? RLX_EW_F64 : r->cls;
	const int64_t base = kept_at(a, out);
	char *const to = r->parts ? r->acc : r->part;
	size_t k = (size_t)a->fold;
	const size_t w = k * n;

	if (r->parts)
		memcpy(r->acc, r->none, w * class_of[cls].lane);
	memcpy(r->part, r->none, w * r->c->lane);
	r->deep = 0;
	for (int64_t i = 0; rows && i < a->n_red / rows; i++) {
		const char *x = (const char *)a->x + (base + reduced_at(a, i * rows)) *
				(int64_t)r->size;
		const int64_t whole = rows / (int64_t)k, left = rows % (int64_t)k;

		take_rows(r, x, whole, k > 1 ? w : (size_t)last, w);
		if (left)
			take_rows(r, x + (size_t)whole * w * r->size, 1, w, (size_t)left * n);
	}
	if (r->parts)
		flush(r, w);
	for (; k > 1; k /= 2)
		meet(r, cls, to, to + k / 2 * n * class_of[cls].lane, k / 2 * n);
	if (wide)
		RLX_K(storer)(RLX_EW_F64, RLX_F32)(r->part, r->acc, n);
	finish(r, out, wide ? r->part : to, n);
}

/* Sums of what is narrower wrap in 32 bits as they do in 64; their mean is that of all bits. */
static int class_for(const struct rlx_k_reduce *a)
{
	if (a->type == RLX_F64)
		return RLX_EW_F64;
	if (rlx_k_type_float((enum rlx_dtype)a->type))
		return RLX_EW_F32;
	if (a->op != RLX_K_REDUCE_MEAN && kind_of(a) != PRODUCT && (a->type == RLX_I32 ||
	    (a->type == RLX_U32 && kind_of(a) == ADD)))
		return RLX_EW_I32;
	return RLX_EW_I64;
}

/* COLS results of nothing; of sums those of doubles, too */
static void fill(char *none, int cls, enum kind k)
{
	const size_t lane = class_of[cls].lane;
	union rlx_value_of v = { .i = 0 };

	if (cls == RLX_EW_F32)
		v.f = start_f32(k);
	else if (cls == RLX_EW_F64)
		v.d = start_f64(k);
	else
		v.i = cls == RLX_EW_I32 ? start_u32(k) : start_u64(k);
	memset(none, 0, COLS * 8);
	memcpy(none, &v, lane);
	for (size_t n = lane; v.i && n < COLS * lane; n *= 2)
		memcpy(none + n, none, n);
}

static struct run run_of(const struct rlx_k_reduce *a, void *scratch)
{
	const int t = a->type;
	struct run r = { .a = a, .kind = kind_of(a), .cls = class_for(a), .acc = scratch };

	r.c = &class_of[r.cls];
	r.part = r.acc + COLS * 8;
	r.none = r.part + COLS * 8;
	r.buf = r.none + COLS * 8;
	r.size = rlx_k_type_size((enum rlx_dtype)t);
	r.load = RLX_K(loader)(r.cls, t);
	r.store = RLX_K(storer)(r.cls, t);
	r.plain = r.cls == RLX_EW_I32 || t == RLX_F32 || t == RLX_F64 || t == RLX_I64 ||
		  (t == RLX_U64 && r.kind < LARGEST);
	if (t == RLX_U64 && !r.plain)
		r.load = r.store = RLX_K(load_turned);
	r.wide = r.cls == RLX_EW_F32 && r.kind <= SQUARES;
	r.parts = a->n_red > PART && r.kind <= SQUARES && r.cls <= RLX_EW_F64;
	for (r.most = PART; r.cls == RLX_EW_F64 && r.most * r.most < a->n_red;)
		r.most *= 2;
	fill(r.none, r.cls, r.kind);
	return r;
}

void RLX_K(reduce)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_reduce *a = args;
	const int64_t last = a->dim[a->rank - 1], width = rlx_k_reduce_cols(a);
	const int64_t blocks = (last + width - 1) / width;
	struct run r = run_of(a, scratch);

	for (size_t u = begin; u < end; u++) {
		if (a->axes >> (a->rank - 1) & 1) {
			int64_t o = (int64_t)u * a->per, to = o + a->per;

			to = to < a->n_out ? to : a->n_out;
			if (a->n_red == last && last > 0 && last <= (r.plain ? RUN : ROWS * COLS))
				short_rows(&r, o, to);
			else
				for (; o < to; o++)
					one_row(&r, o);
		} else {
			int64_t c = (int64_t)u % blocks * width;
			int64_t n = last - c < width ? last - c : width;

			columns(&r, (int64_t)u / blocks * last + c, (size_t)n);
		}
	}
}
