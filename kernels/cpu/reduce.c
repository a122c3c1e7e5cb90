// SPDX-License-Identifier: MIT
/* Reductions: along rows within vectors, across rows column by column. */
#include <math.h>

#include "kernels/cpu/convert.h"
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

/*
 * For an element type T: cols_T(acc, x, n, kind) takes one row into a row of
 * results; row_T(x, n, kind) is the result of a row.
 */
#define REDUCER(T, LOWEST, HIGHEST)					\
static T start_##T(enum kind k)						\
{									\
	return k == PRODUCT ? 1 : k == LARGEST ? (LOWEST) :		\
	       k == SMALLEST ? (HIGHEST) : 0;				\
}									\
static void cols_##T(T *restrict r, const T *restrict x, size_t n,	\
		     enum kind k)					\
{									\
	size_t i;							\
									\
	switch (k) {							\
	case ADD:							\
		for (i = 0; i < n; i++)					\
			r[i] += x[i];					\
		break;							\
	case PRODUCT:							\
		for (i = 0; i < n; i++)					\
			r[i] *= x[i];					\
		break;							\
	case LARGEST:							\
		for (i = 0; i < n; i++)					\
			r[i] = MAXN(r[i], x[i]);			\
		break;							\
	case SMALLEST:							\
		for (i = 0; i < n; i++)					\
			r[i] = MINN(r[i], x[i]);			\
		break;							\
	}								\
}									\
static T row_##T(const T *x, size_t n, enum kind k)			\
{									\
	T r[32], whole;							\
	size_t i = 0;							\
									\
	if (n < 32) {							\
		whole = start_##T(k);					\
		for (; i < n; i++)					\
			cols_##T(&whole, x + i, 1, k);			\
		return whole;						\
	}								\
	for (size_t j = 0; j < 32; j++)					\
		r[j] = start_##T(k);					\
	for (; i + 32 <= n; i += 32)					\
		cols_##T(r, x + i, 32, k);				\
	cols_##T(r, x + i, n - i, k);					\
	for (size_t w = 16; w; w /= 2)					\
		cols_##T(r, r + w, w, k);				\
	return r[0];							\
}

typedef double f64;
typedef float f32;
typedef uint64_t u64;	/* arithmetic wraps; comparisons are below */

REDUCER(f64, -INFINITY, INFINITY)
REDUCER(f32, -INFINITY, INFINITY)

#define LESS(x, y)	((int64_t)(x) < (int64_t)(y))
static u64 start_u64(enum kind k)
{
	return k == PRODUCT ? 1 : k == LARGEST ? (u64)INT64_MIN :
	       k == SMALLEST ? (u64)INT64_MAX : 0;
}

static void cols_u64(u64 *restrict r, const u64 *restrict x, size_t n,
		     enum kind k)
{
	for (size_t i = 0; i < n; i++)
		r[i] = k == ADD ? r[i] + x[i] :
		       k == PRODUCT ? r[i] * x[i] :
		       k == LARGEST ? (LESS(r[i], x[i]) ? x[i] : r[i]) :
				      (LESS(x[i], r[i]) ? x[i] : r[i]);
}

static u64 row_u64(const u64 *x, size_t n, enum kind k)
{
	u64 r = start_u64(k);

	for (size_t i = 0; k == ADD && i < n; i++)	/* by vectors */
		r += x[i];
	for (size_t i = 0; k != ADD && i < n; i++)
		cols_u64(&r, x + i, 1, k);
	return r;
}

/* u64 ordered as i64 is: the top bit turned over */
static void load_turned(void *restrict dst, const void *restrict src, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((u64 *)dst)[i] = ((const u64 *)src)[i] ^ (u64)1 << 63;
}

union value {
	f32	f;
	f64	d;
	u64	i;
};

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

static void start(const struct run *r, void *acc, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (r->cls == RLX_EW_F32)
			((f32 *)acc)[i] = start_f32(r->kind);
		else if (r->cls == RLX_EW_F64)
			((f64 *)acc)[i] = start_f64(r->kind);
		else
			((u64 *)acc)[i] = start_u64(r->kind);
	}
}

static bool in_class(const struct run *r)
{
	int t = r->a->type;

	return t == RLX_F32 || t == RLX_F64 || t == RLX_I64 ||
	       (t == RLX_U64 && r->load != load_turned);
}

/* x as values of the class */
static const void *values(const struct run *r, const char *x, size_t n)
{
	if (in_class(r))
		return x;
	r->load(r->buf, x, n);
	return r->buf;
}

/* A contiguous run into *acc, in pieces that keep the sums short. */
static void take_run(const struct run *r, union value *acc, const char *x,
		     size_t n)
{
	for (size_t i = 0; i < n; i += COLS) {
		size_t k = n - i < COLS ? n - i : COLS;
		const void *v = values(r, x + i * r->size, k);
		union value one;

		if (r->cls == RLX_EW_F32)
			one.f = row_f32(v, k, r->kind);
		else if (r->cls == RLX_EW_F64)
			one.d = row_f64(v, k, r->kind);
		else
			one.i = row_u64(v, k, r->kind);
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

/* The mean, if that is wanted, and the result to its place. */
static void finish(const struct run *r, int64_t at, void *acc, size_t n)
{
	const struct rlx_k_reduce *a = r->a;
	const double by = (double)a->n_red;

	for (size_t i = 0; i < n && a->op == RLX_K_REDUCE_MEAN; i++) {
		if (r->cls == RLX_EW_F32)
			((f32 *)acc)[i] = (f32)(((f32 *)acc)[i] / by);
		else if (r->cls == RLX_EW_F64)
			((f64 *)acc)[i] /= by;
		else if (!a->n_red)	/* of integers the mean of nothing is 0 */
			((u64 *)acc)[i] = 0;
		else if (a->type == RLX_U64)
			((u64 *)acc)[i] /= (u64)a->n_red;
		else
			((int64_t *)acc)[i] /= a->n_red;
	}
	r->store((char *)a->y + (size_t)at * r->size, acc, n);
}

/* One result whose last dimension is reduced. */
static void one_row(const struct run *r, int64_t out)
{
	const struct rlx_k_reduce *a = r->a;
	const int64_t last = a->dim[a->rank - 1];
	const int64_t base = kept_at(a, out);
	const bool sum = r->cls == RLX_EW_F32 && r->kind == ADD;
	union value acc = { .i = 0 };

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
 * BLOCK rows, so that a million rows are three times some hundred additions deep.
 */
static void columns(const struct run *r, int64_t out, size_t n)
{
	const struct rlx_k_reduce *a = r->a;
	const char *base = (const char *)a->x + kept_at(a, out) *
			   (int64_t)r->size;

	start(r, r->acc, n);
	if (a->n_red <= BLOCK)
		take_rows(r, r->acc, base, 0, a->n_red, n);
	for (int64_t i = 0, end, far; a->n_red > BLOCK && i < a->n_red;) {
		far = a->n_red - i < BLOCK * BLOCK ? a->n_red : i + BLOCK * BLOCK;
		start(r, r->mid, n);
		for (; i < far; i = end) {
			end = far - i < BLOCK ? far : i + BLOCK;
			start(r, r->part, n);
			take_rows(r, r->part, base, i, end, n);
			cols(r, r->mid, r->part, n, r->kind);
		}
		cols(r, r->acc, r->mid, n, r->kind);
	}
	finish(r, out, r->acc, n);
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
		r.load = r.store = load_turned;
	for (size_t u = begin; u < end; u++) {
		if (a->axes >> (a->rank - 1) & 1) {
			int64_t o = (int64_t)u * a->per, to = o + a->per;

			for (; o < to && o < a->n_out; o++)
				one_row(&r, o);
		} else {
			int64_t c = (int64_t)u % blocks * COLS;
			int64_t n = last - c < COLS ? last - c : COLS;

			columns(&r, (int64_t)u / blocks * last + c, (size_t)n);
		}
	}
}
