// SPDX-License-Identifier: MIT
/* Gathers and scatters; every index is checked before it is followed. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/index_at.h"
#include "kernels/move.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(gather), RLX_K(gather_elements), RLX_K(gather_nd);
rlx_k_fn RLX_K(scatter_elements), RLX_K(scatter_nd), RLX_K(iota);

static void put(char *d, const char *s, size_t n, bool ok)
{
	if (!ok)
		memset(d, 0, n);
	else if (n == 4)
		memcpy(d, s, 4);
	else if (n == 8)
		memcpy(d, s, 8);
	else
		memcpy(d, s, n);
}

/* Pieces of a few bytes from @s: by a row's number, or zeros where that is below 0. */
#define PICK(BITS)							\
typedef uint##BITS##_t any_##BITS __attribute__((aligned(1), may_alias)); \
static void pick_##BITS(any_##BITS *d, const any_##BITS *s, const int64_t *row, size_t n) \
{									\
	for (size_t i = 0; i < n; i++)					\
		d[i] = row[i] < 0 ? 0 : s[row[i]];			\
}
PICK(8) PICK(16) PICK(32) PICK(64)

static void pick(void *d, const void *s, const int64_t *row, size_t n, size_t inner)
{
	if (inner == 1)
		pick_8(d, s, row, n);
	else if (inner == 2)
		pick_16(d, s, row, n);
	else if (inner == 4)
		pick_32(d, s, row, n);
	else if (inner == 8)
		pick_64(d, s, row, n);
	else
		for (size_t i = 0; i < n; i++)
			put((char *)d + i * inner,
			    (const char *)s + (row[i] < 0 ? 0 : (size_t)row[i]) * inner, inner,
			    row[i] >= 0);
}

/* Indices [i, i + n) as rows of the table, to each of which @before is added. */
static void look_up(const struct rlx_k_gather *a, int64_t *row, size_t i, size_t n, int64_t before)
{
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->idx_type);
	const int64_t rows = a->rows;
	int64_t wrong = 0;

	RLX_K(loader)(RLX_EW_I64, a->idx_type)(row, (const char *)a->idx + i * size, n);
	for (size_t j = 0; j < n; j++) {
		const uint64_t v = (uint64_t)row[j] + (uint64_t)(row[j] >> 63 & rows);
		/* by signs: SSE2 has no comparison of 64 bits; sums wrap if v is below 0 alone */
		const int64_t out = (int64_t)(v | ((uint64_t)rows - 1 - v)) >> 63;

		row[j] = (int64_t)(v + (uint64_t)before) | out;
		wrong |= out;
	}
	for (size_t j = 0; wrong && a->bad && j < n && (int64_t)(i + j) < a->live; j++)
		if (row[j] < 0)
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
}

/* The rows of @n units from @u on, counted from the table that the first of them reads. */
static void rows_of(const struct rlx_k_gather *a, int64_t *row, size_t u, size_t n)
{
	const size_t all = (size_t)a->n_idx, at = u % all, left = all - at;
	int64_t before = a->rows;

	look_up(a, row, at, n < left ? n : left, 0);
	if (n > left)
		look_up(a, row + left, 0, (n < all ? n : all) - left, before);
	for (size_t have = all; have < n; have *= 2, before *= 2)	/* the same again */
		for (size_t j = 0; j < have && have + j < n; j++)
			row[have + j] = row[j] < 0 ? -1 : row[j] + before;
}

void RLX_K(gather)(const void *args, size_t begin, size_t end, void *scratch)
{
	enum { MOST = 512 };
	const struct rlx_k_gather *a = args;
	const size_t inner = (size_t)a->inner, all = (size_t)a->n_idx;
	/* whole tables, where they fit, have the same rows each time */
	const bool same = all <= MOST;
	const size_t most = same && all ? MOST / all * all : MOST;
	int64_t row[MOST];

	(void)scratch;
	for (size_t u = begin, n; u < end; u += n) {
		n = end - u < most ? end - u : most;
		if (!same || u == begin)
			rows_of(a, row, u, n);
		pick((char *)a->out + u * inner,
		     (const char *)a->table + u / all * (size_t)a->rows * inner, row, n, inner);
	}
}

void RLX_K(gather_elements)(const void *args, size_t begin, size_t end,
			    void *scratch)
{
	const struct rlx_k_gather_elements *a = args;
	const int last = a->rank - 1;
	const size_t n = (size_t)a->dim[last], size = a->size;
	const int64_t step = last == a->axis ? 0 : a->data_stride[last];

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		int64_t base = 0, at = (int64_t)u;

		for (int d = last; d-- > 0; at /= a->dim[d])
			if (d != a->axis)
				base += at % a->dim[d] * a->data_stride[d];
		for (size_t i = 0; i < n; i++) {
			bool live = (int64_t)(u * n + i) < a->live;
			int64_t r = rlx_k_index_at(a->idx, a->idx_type, u * n + i,
						   a->axis_dim, live ? a->bad : NULL);
			int64_t off = base + (int64_t)i * step +
				      (r < 0 ? 0 : r) * a->data_stride[a->axis];

			put((char *)a->out + (u * n + i) * size,
			    (const char *)a->data + off * (int64_t)size, size,
			    r >= 0);
		}
	}
}

/* The row a tuple of k indices names, or -1. */
static int64_t tuple_at(const void *idx, int type, size_t i, int k,
			const int64_t *dim, int32_t *bad)
{
	int64_t row = 0;

	for (int d = 0; d < k; d++) {
		int64_t r = rlx_k_index_at(idx, type, i * (size_t)k + (size_t)d,
					   dim[d], bad);

		if (r < 0)
			return -1;
		row = row * dim[d] + r;
	}
	return row;
}

void RLX_K(gather_nd)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_gather_nd *a = args;
	const size_t inner = (size_t)a->inner;
	size_t rows = 1;

	(void)scratch;
	for (int d = 0; d < a->k; d++)
		rows *= (size_t)a->dim[d];
	for (size_t u = begin; u < end; u++) {
		int64_t r = tuple_at(a->idx, a->idx_type, u, a->k, a->dim,
				     (int64_t)u < a->live ? a->bad : NULL);
		const char *s = a->data;

		s += (u / (size_t)a->n * rows + (size_t)(r < 0 ? 0 : r)) *
		     inner;
		put((char *)a->out + u * inner, s, inner, r >= 0);
	}
}

#define MAX_NAN(x, y)	((x) != (x) || (x) > (y) ? (x) : (y))
#define MIN_NAN(x, y)	((x) != (x) || (x) < (y) ? (x) : (y))
#define MERGE(T, U)							\
static void merge_##T(T *d, const T *s, size_t n, int op)		\
{									\
	for (size_t i = 0; i < n; i++)					\
		d[i] = op == RLX_K_SCATTER_ADD ? (T)((U)d[i] + (U)s[i]) :	\
		       op == RLX_K_SCATTER_MUL ? (T)((U)d[i] * (U)s[i]) :	\
		       op == RLX_K_SCATTER_MAX ? MAX_NAN(d[i], s[i]) :	\
					       MIN_NAN(d[i], s[i]);	\
}
MERGE(float, float)
MERGE(double, double)
MERGE(int64_t, uint64_t)
MERGE(int32_t, uint32_t)
MERGE(int16_t, uint32_t)
MERGE(int8_t, uint32_t)
MERGE(uint64_t, uint64_t)
MERGE(uint32_t, uint32_t)
MERGE(uint16_t, uint32_t)
MERGE(uint8_t, uint32_t)

RLX_INLINE vf from_16(vu16h x, int type)
{
	return type == RLX_F16 ? vf_from_f16(x) : vf_from_bf16(x);
}

/* One of f16 or bf16, as scatters of elements have them, in registers. */
static void merge_one_half(uint16_t *d, uint16_t s, int type, int op)
{
	vf x = from_16((vu16h){ *d }, type), y = from_16((vu16h){ s }, type);
	float a = x[0], b = y[0];

	merge_float(&a, &b, 1, op);
	x = vf_set1(a);
	*d = (type == RLX_F16 ? vf_to_f16(x) : vf_to_bf16(x))[0];
}

static void merge_half(char *d, const char *s, size_t n, int type, int op)
{
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F32, type);
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F32, type);
	const size_t size = rlx_k_type_size((enum rlx_dtype)type);
	float x[64], y[64];

	for (size_t i = 0; i < n; i += 64) {
		size_t k = n - i < 64 ? n - i : 64;

		load(x, d + i * size, k);
		load(y, s + i * size, k);
		merge_float(x, y, k, op);
		store(d + i * size, x, k);
	}
}

/* bool: add and max are or, mul and min are and */
static void merge_bool(uint8_t *d, const uint8_t *s, size_t n, int op)
{
	bool any = op == RLX_K_SCATTER_ADD || op == RLX_K_SCATTER_MAX;

	for (size_t i = 0; i < n; i++)
		d[i] = any ? d[i] || s[i] : d[i] && s[i];
}

/* d op= s for n elements */
static void merge(void *d, const void *s, size_t n, int type, int op)
{
	if (op == RLX_K_SCATTER_NONE) {
		memcpy(d, s, n * rlx_k_type_size((enum rlx_dtype)type));
		return;
	}
	switch (type) {
	case RLX_F32: merge_float(d, s, n, op); break;
	case RLX_F64: merge_double(d, s, n, op); break;
	case RLX_I64: merge_int64_t(d, s, n, op); break;
	case RLX_I32: merge_int32_t(d, s, n, op); break;
	case RLX_I16: merge_int16_t(d, s, n, op); break;
	case RLX_I8: merge_int8_t(d, s, n, op); break;
	case RLX_U64: merge_uint64_t(d, s, n, op); break;
	case RLX_U32: merge_uint32_t(d, s, n, op); break;
	case RLX_U16: merge_uint16_t(d, s, n, op); break;
	case RLX_U8: merge_uint8_t(d, s, n, op); break;
	case RLX_BOOL: merge_bool(d, s, n, op); break;
	case RLX_F16:
	case RLX_BF16:
		if (n == 1) {
			merge_one_half(d, *(const uint16_t *)s, type, op);
			break;
		}
		/* fall through */
	default: merge_half(d, s, n, type, op); break;
	}
}

void RLX_K(scatter_elements)(const void *args, size_t begin, size_t end,
			     void *scratch)
{
	const struct rlx_k_scatter_elements *a = args;
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	int64_t stride[RLX_K_DIMS], run = 1;

	(void)scratch;
	for (int d = a->rank; d-- > 0; run *= a->dim[d])
		stride[d] = run;
	for (size_t u = begin; u < end; u++) {
		int64_t from = 0, to = 0, at = (int64_t)u;

		for (int d = a->rank; d-- > 0;) {
			if (d == a->axis)
				continue;
			from += at % a->dim[d] * stride[d];
			to += at % a->dim[d] * a->out_stride[d];
			at /= a->dim[d];
		}
		for (int64_t i = 0; i < a->dim[a->axis]; i++) {
			size_t k = (size_t)(from + i * stride[a->axis]);
			int64_t r = (int64_t)k >= a->live ? -1 :
				    rlx_k_index_at(a->idx, a->idx_type, k, a->axis_dim, a->bad);
			int64_t off = to + r * a->out_stride[a->axis];

			if (r >= 0)
				merge((char *)a->out + off * (int64_t)size,
				      (const char *)a->upd + k * size, 1,
				      a->type, a->op);
		}
	}
}

void RLX_K(scatter_nd)(const void *args, size_t begin, size_t end,
		       void *scratch)
{
	const struct rlx_k_scatter_nd *a = args;
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const size_t inner = (size_t)a->inner;
	size_t from = begin * RLX_K_SCATTER_BLOCK;
	size_t to = end * RLX_K_SCATTER_BLOCK;

	(void)scratch;
	to = to < inner ? to : inner;
	for (size_t i = 0; i < (size_t)a->live; i++) {
		int64_t r = tuple_at(a->idx, a->idx_type, i, a->k, a->dim,
				     a->bad);

		if (r < 0)
			continue;
		merge((char *)a->out + ((size_t)r * inner + from) * size,
		      (const char *)a->upd + (i * inner + from) * size,
		      to - from, a->type, a->op);
	}
}

void RLX_K(iota)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_iota *a = args;
	const bool is_float = rlx_k_type_float((enum rlx_dtype)a->type);
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	rlx_convert_fn *store = RLX_K(storer)(is_float ? RLX_EW_F64 :
						RLX_EW_I64, a->type);
	int64_t i = (int64_t)begin * RLX_K_IOTA_BLOCK;
	int64_t n = (int64_t)end * RLX_K_IOTA_BLOCK;
	union {
		double	f[64];
		int64_t	i[64];
	} t;

	(void)scratch;
	for (n = n < a->n ? n : a->n; i < n; i += 64) {
		int64_t k = n - i < 64 ? n - i : 64;

		for (int64_t j = 0; j < k; j++)
			if (is_float)
				t.f[j] = fma((double)(i + j), a->step, a->start);
			else
				t.i[j] = (int64_t)((uint64_t)a->istart +
					(uint64_t)(i + j) * (uint64_t)a->istep);
		store((char *)a->dst + (size_t)i * size, &t, (size_t)k);
	}
}
