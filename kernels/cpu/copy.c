// SPDX-License-Identifier: MIT
/* Strided copies: rows by vectors, transposes by register tiles. */
#include "kernels/kernel.h"
#include "kernels/move.h"
#include "kernels/simd/tiles.h"

rlx_k_fn RLX_K(copy), RLX_K(index_copy), RLX_K(trilu);

typedef uint8_t v16_u __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t vb_u __attribute__((vector_size(RLX_VB), aligned(1), may_alias));

/* Rows are mostly a head's or a channel's: too short for a call. */
RLX_INLINE void copy_bytes(char *d, const char *s, size_t n)
{
	if (n > 2048 || n < 16) {
		memcpy(d, s, n);
		return;
	}
	if (n >= RLX_VB) {
		for (size_t i = 0; i + RLX_VB < n; i += RLX_VB)
			*(vb_u *)(d + i) = *(const vb_u *)(s + i);
		*(vb_u *)(d + n - RLX_VB) = *(const vb_u *)(s + n - RLX_VB);
		return;
	}
	for (size_t i = 0; i + 16 < n; i += 16)
		*(v16_u *)(d + i) = *(const v16_u *)(s + i);
	*(v16_u *)(d + n - 16) = *(const v16_u *)(s + n - 16);
}

/* A walk over the outer @rank dimensions, in elements. */
struct walk {
	int64_t	pos[RLX_K_DIMS], src, dst;
	int	rank;
};

static void walk_start(struct walk *w, const struct rlx_k_copy *a, int rank,
		       int64_t row)
{
	w->rank = rank;
	w->src = w->dst = 0;
	for (int d = rank; d-- > 0; row /= a->dim[d]) {
		w->pos[d] = row % a->dim[d];
		w->src += w->pos[d] * a->src_stride[d];
		w->dst += w->pos[d] * a->dst_stride[d];
	}
}

static void walk_next(struct walk *w, const struct rlx_k_copy *a)
{
	for (int d = w->rank; d-- > 0;) {
		w->src += a->src_stride[d];
		w->dst += a->dst_stride[d];
		if (++w->pos[d] < a->dim[d])
			return;
		w->src -= a->dim[d] * a->src_stride[d];
		w->dst -= a->dim[d] * a->dst_stride[d];
		w->pos[d] = 0;
	}
}

/* c64 lies as its floats do. */
typedef uint64_t uint64 __attribute__((aligned(4)));
typedef struct { uint64 a, b; } uint128;
#define STRIDED(T)							\
static void strided_##T(T *restrict d, int64_t ds, const T *restrict s, int64_t ss, int64_t n) \
{									\
	if (ds == 1 && ss == 0)						\
		for (int64_t i = 0; i < n; i++)				\
			d[i] = *s;					\
	else if (ds == 1 && ss == 2)					\
		for (int64_t i = 0; i < n; i++)				\
			d[i] = s[2 * i];				\
	else if (ds == 1 && ss == 3)					\
		for (int64_t i = 0; i < n; i++)				\
			d[i] = s[3 * i];				\
	else if (ds == 1 && ss == -1)					\
		for (int64_t i = 0; i < n; i++)				\
			d[i] = s[-i];					\
	else if (ds == 1)						\
		for (int64_t i = 0; i < n; i++)				\
			d[i] = s[i * ss];				\
	else								\
		for (int64_t i = 0; i < n; i++)				\
			d[i * ds] = s[i * ss];				\
}
STRIDED(uint8_t)
STRIDED(uint16_t)
STRIDED(uint32_t)
STRIDED(uint64)
STRIDED(uint128)

static void strided(void *d, int64_t ds, const void *s, int64_t ss, int64_t n,
		    size_t size)
{
	switch (size) {
	case 1:
		strided_uint8_t(d, ds, s, ss, n);
		break;
	case 2:
		strided_uint16_t(d, ds, s, ss, n);
		break;
	case 4:
		strided_uint32_t(d, ds, s, ss, n);
		break;
	case 8:
		strided_uint64(d, ds, s, ss, n);
		break;
	default:
		strided_uint128(d, ds, s, ss, n);
	}
}

/* d[i m + j] = s[j step + i] of i < n and j < m, 2 or 3 */
#define WEAVE(T)							\
static void weave_##T(T *restrict d, const T *restrict s, int64_t step, int64_t n, int64_t m) \
{									\
	const T *restrict t = s + step, *restrict u = t + step;		\
									\
	for (int64_t i = 0; m == 2 && i < n; i++) {			\
		d[2 * i] = s[i];					\
		d[2 * i + 1] = t[i];					\
	}								\
	for (int64_t i = 0; m == 3 && i < n; i++) {			\
		d[3 * i] = s[i];					\
		d[3 * i + 1] = t[i];					\
		d[3 * i + 2] = u[i];					\
	}								\
}
WEAVE(uint8_t)
WEAVE(uint16_t)
WEAVE(uint32_t)
WEAVE(uint64)

static void weave(void *d, const void *s, int64_t step, int64_t n, int64_t m, size_t size)
{
	switch (size) {
	case 1:
		weave_uint8_t(d, s, step, n, m);
		break;
	case 2:
		weave_uint16_t(d, s, step, n, m);
		break;
	case 4:
		weave_uint32_t(d, s, step, n, m);
		break;
	default:
		weave_uint64(d, s, step, n, m);
	}
}

/* Are rows the next elements of two or three places, as pixels are of planes? */
static bool is_woven(const struct rlx_k_copy *a)
{
	const int last = a->rank - 1;

	return a->mode == RLX_COPY_STRIDED && last && a->size < 16 &&
	       (a->dim[last] == 2 || a->dim[last] == 3) && a->dst_stride[last] == 1 &&
	       a->dst_stride[last - 1] == a->dim[last] && a->src_stride[last - 1] == 1;
}

static void weave_rows(const struct rlx_k_copy *a, int64_t row, int64_t rows)
{
	const int last = a->rank - 1, to = last - 1;
	struct walk w;
	int64_t n;

	walk_start(&w, a, last, row);
	for (; rows; rows -= n) {
		n = a->dim[to] - w.pos[to] < rows ? a->dim[to] - w.pos[to] : rows;
		weave((char *)a->dst + w.dst * a->size, (const char *)a->src + w.src * a->size,
		      a->src_stride[last], n, a->dim[last], a->size);
		w.pos[to] += n - 1;
		w.src += (n - 1) * a->src_stride[to];
		w.dst += (n - 1) * a->dst_stride[to];
		walk_next(&w, a);
	}
}

/* Elements [from, from + n) of @rows rows from @row on. */
static void copy_rows(const struct rlx_k_copy *a, int64_t row, int64_t rows,
		      int64_t from, int64_t n)
{
	const int last = a->rank - 1;
	const int64_t size = a->size;
	struct walk w;

	walk_start(&w, a, last, row);
	for (int64_t r = 0; r < rows; r++) {
		const char *s = (const char *)a->src +
			(w.src + from * a->src_stride[last]) * size;
		char *d = (char *)a->dst +
			(w.dst + from * a->dst_stride[last]) * size;

		if (a->mode == RLX_COPY_ROWS)
			copy_bytes(d, s, (size_t)(n * size));
		else
			strided(d, a->dst_stride[last], s, a->src_stride[last],
				n, a->size);
		walk_next(&w, a);
	}
}

/*
 * dst[i][j] = src[j][i] for i < rows, j < cols: ld and ls are the byte strides
 * of i in dst and of j in src.
 */
#define TILES(bits, n)							\
static void tiles_##bits(char *d, ptrdiff_t ld, const char *s, ptrdiff_t ls, \
			 int64_t rows, int64_t cols)			\
{									\
	const ptrdiff_t b = (bits) / 8;					\
	int64_t i = 0, j;						\
									\
	for (; i + (n) <= rows; i += (n)) {				\
		for (j = 0; j + (n) <= cols; j += (n))			\
			rlx_tr_##n##_##bits(d + i * ld + j * b, ld,	\
					    s + j * ls + i * b, ls);	\
		for (; j < cols; j++)					\
			for (int64_t k = i; k < i + (n); k++)		\
				memcpy(d + k * ld + j * b,		\
				       s + j * ls + k * b, b);		\
	}								\
	for (; i < rows; i++)						\
		for (j = 0; j < cols; j++)				\
			memcpy(d + i * ld + j * b, s + j * ls + i * b, b); \
}
TILES(8, 16)
TILES(16, 8)
#if defined(RLX_V512)
TILES(32, 16)
#elif defined(RLX_V256)
TILES(32, 8)
#else
TILES(32, 4)
#endif
TILES(64, 4)

static void copy_tiles(const struct rlx_k_copy *a, int64_t row, int64_t piece)
{
	const int last = a->rank - 1;
	const int64_t size = a->size, i = piece * a->per;
	const int64_t left = a->dim[last - 1] - i;
	const int64_t rows = left < a->per ? left : a->per;
	const ptrdiff_t ld = a->dst_stride[last - 1] * size;
	const ptrdiff_t ls = a->src_stride[last] * size;
	struct walk w;
	const char *s;
	char *d;

	walk_start(&w, a, last - 1, row);
	s = (const char *)a->src + (w.src + i) * size;
	d = (char *)a->dst + w.dst * size + i * ld;
	switch (size) {
	case 1:
		tiles_8(d, ld, s, ls, rows, a->dim[last]);
		break;
	case 2:
		tiles_16(d, ld, s, ls, rows, a->dim[last]);
		break;
	case 4:
		tiles_32(d, ld, s, ls, rows, a->dim[last]);
		break;
	default:
		tiles_64(d, ld, s, ls, rows, a->dim[last]);
	}
}

void RLX_K(copy)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_copy *a = args;
	const int64_t inner = a->dim[a->rank - 1];
	int64_t row, n, last;

	(void)scratch;
	if (a->mode == RLX_COPY_TILES) {
		for (size_t u = begin; u < end; u++)
			copy_tiles(a, (int64_t)u / a->pieces,
				   (int64_t)u % a->pieces);
		return;
	}
	if (a->pieces == 1) {
		row = (int64_t)begin * a->per;
		last = (int64_t)end * a->per;
		n = (last < a->rows ? last : a->rows) - row;
		if (is_woven(a))
			weave_rows(a, row, n);
		else
			copy_rows(a, row, n, 0, inner);
		return;
	}
	for (size_t u = begin; u < end; u++) {
		row = (int64_t)u % a->pieces * a->per;
		n = inner - row < a->per ? inner - row : a->per;
		copy_rows(a, (int64_t)u / a->pieces, 1, row, n);
	}
}

enum { RUNS = 16 };

/* Elements [at, at + n) of a row, which follow each other in the source from @from on. */
struct run {
	int64_t	at, n, from;
};

/* The row's runs, if they are few; 0: they are not. */
static int index_runs(const struct rlx_k_index_copy *a, struct run *run)
{
	const int64_t *t = a->table[a->rank - 1], dim = a->dim[a->rank - 1];
	int n = 0;

	for (int64_t i = 0; i < dim; n++) {
		if (n == RUNS)
			return 0;
		run[n] = (struct run){ i, 1, t[i] };
		if (t[i++] == RLX_K_NO_INDEX)
			for (; i < dim && t[i] == RLX_K_NO_INDEX; i++)
				run[n].n++;
		else
			for (; i < dim && t[i] == run[n].from + run[n].n; i++)
				run[n].n++;
	}
	return n;
}

#define INDEX_EACH(T)							\
	for (i = 0; i < n; i++)						\
		((T *)(void *)d)[i] = t[i] == RLX_K_NO_INDEX ?		\
			*(const T *)a->fill : ((const T *)(const void *)s)[t[i]]

/* Elements one by one, where @s is the row's first; @t says which. */
static void index_each(const struct rlx_k_index_copy *a, char *d, const char *s,
		       const int64_t *t, int64_t n)
{
	int64_t i;

	switch (a->size) {
	case 1: INDEX_EACH(uint8_t); break;
	case 2: INDEX_EACH(uint16_t); break;
	case 4: INDEX_EACH(uint32_t); break;
	default: INDEX_EACH(uint64_t); break;
	}
}

static void fill_elements(char *d, const void *fill, size_t size, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		memcpy(d + (size_t)i * size, fill, size);
}

static void index_row(const struct rlx_k_index_copy *a, char *d, int64_t base,
		      const struct run *run, int n_run)
{
	const int last = a->rank - 1;
	const size_t size = a->size;
	const char *s = a->src;

	if (base == RLX_K_NO_INDEX) {
		fill_elements(d, a->fill, size, a->dim[last]);
		return;
	}
	s += base * (int64_t)size;
	if (!n_run)
		index_each(a, d, s, a->table[last], a->dim[last]);
	for (int i = 0; i < n_run; i++) {
		char *to = d + (size_t)run[i].at * size;

		if (run[i].from == RLX_K_NO_INDEX)
			fill_elements(to, a->fill, size, run[i].n);
		else if (run[i].n < 8)
			index_each(a, to, s, a->table[last] + run[i].at, run[i].n);
		else
			memcpy(to, s + run[i].from * (int64_t)size, (size_t)run[i].n * size);
	}
}

void RLX_K(index_copy)(const void *args, size_t begin, size_t end,
		       void *scratch)
{
	const struct rlx_k_index_copy *a = args;
	const int last = a->rank - 1;
	const size_t row = (size_t)a->dim[last] * a->size;
	struct run run[RUNS];
	const int n_run = index_runs(a, run);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		int64_t base = 0, at = (int64_t)u;

		for (int d = last; d-- > 0; at /= a->dim[d]) {
			int64_t o = a->table[d][at % a->dim[d]];

			if (o == RLX_K_NO_INDEX || base == RLX_K_NO_INDEX)
				base = RLX_K_NO_INDEX;
			else
				base += o;
		}
		index_row(a, (char *)a->dst + u * row, base, run, n_run);
	}
}

void RLX_K(trilu)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_trilu *a = args;
	const size_t row = (size_t)a->cols * a->size;

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		int64_t cut = (int64_t)(u % (size_t)a->rows) + a->k + !a->upper;
		const char *s = (const char *)a->src + u * row;
		char *d = (char *)a->dst + u * row;
		size_t at;

		cut = cut < 0 ? 0 : cut > a->cols ? a->cols : cut;
		at = (size_t)cut * a->size;
		if (s != d)
			memcpy(d, s, row);
		if (a->upper)
			memset(d, 0, at);
		else
			memset(d + at, 0, row - at);
	}
}
