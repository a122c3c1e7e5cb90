/* SPDX-License-Identifier: MIT */
/* Blocks of elementwise programs that are put together from an input that broadcasts. */
#ifndef RLX_CPU_EW_GATHER_H
#define RLX_CPU_EW_GATHER_H

#include "kernels/ew.h"
#include "kernels/simd/vec.h"

/* An input as it walks by itself: dimensions along which it walks alike are one. */
struct rlx_ew_gather {
	int	rank;
	int64_t	dim[RLX_K_DIMS], stride[RLX_K_DIMS];
	bool	alike;		/* every block begins with the same element */
	int64_t	held;		/* elements in the block; of those alike, they stay */
};

RLX_INLINE void rlx_ew_gather_setup(struct rlx_ew_gather *g, const struct rlx_k_ew *a,
				    const struct rlx_k_ew_in *in)
{
	int64_t period = 1;

	memcpy(g->dim, a->dim, sizeof(g->dim));
	memcpy(g->stride, in->stride, sizeof(g->stride));
	g->rank = rlx_k_collapse(a->rank, g->dim, 1, &g->stride);
	for (int d = 1; d < g->rank; d++)
		period *= g->dim[d];
	g->alike = !g->stride[0] && a->block % period == 0;
	g->held = 0;
}

/*
 * @rows rows of @n times one element, which is @step elements behind that of the row before;
 * up to a vector beyond them is written.
 */
#define RLX_EW_SPLATS(T, bytes)						\
	do {								\
		typedef T v __attribute__((vector_size(bytes)));	\
									\
		for (; rows--; s += step, d += n) {			\
			const v x = (v){ 0 } + *s;			\
			size_t i = 0;					\
									\
			do						\
				memcpy(d + i, &x, bytes);		\
			while ((i += (bytes) / sizeof(T)) < n);		\
		}							\
	} while (0)

/* Images of twice the size: two of each, side by side. The inner loop becomes vectors. */
#define RLX_EW_GATHER(T)						\
static void rlx_ew_twice_##T(T *restrict d, const T *restrict s, int64_t n) \
{									\
	for (; n >= 16; n -= 16, s += 16, d += 32)			\
		for (int i = 0; i < 16; i++)				\
			d[2 * i] = d[2 * i + 1] = s[i];			\
	for (int64_t i = 0; i < n; i++)					\
		d[2 * i] = d[2 * i + 1] = s[i];				\
}									\
static void rlx_ew_splat_##T(T *d, const T *s, int64_t rows, size_t n, int64_t step) \
{									\
	if (n == 2 && step == 1)					\
		rlx_ew_twice_##T(d, s, rows);				\
	else if (n * sizeof(T) <= 16)					\
		RLX_EW_SPLATS(T, 16);					\
	else								\
		RLX_EW_SPLATS(T, RLX_VB);				\
}									\
static void rlx_ew_pick_##T(T *d, const T *s, int64_t n, int64_t step)	\
{									\
	for (int64_t i = 0; i < n; i++)					\
		d[i] = s[i * step];					\
}
RLX_EW_GATHER(uint8_t)
RLX_EW_GATHER(uint16_t)
RLX_EW_GATHER(uint32_t)
RLX_EW_GATHER(uint64_t)

RLX_INLINE void rlx_ew_splat(char *to, const char *from, int64_t rows, int64_t n, int64_t step,
			     size_t size)
{
	void *d = to;
	const void *s = from;

	if (size == 1)
		rlx_ew_splat_uint8_t(d, s, rows, (size_t)n, step);
	else if (size == 2)
		rlx_ew_splat_uint16_t(d, s, rows, (size_t)n, step);
	else if (size == 4)
		rlx_ew_splat_uint32_t(d, s, rows, (size_t)n, step);
	else
		rlx_ew_splat_uint64_t(d, s, rows, (size_t)n, step);
}

RLX_INLINE void rlx_ew_pick(char *to, const char *from, int64_t n, int64_t step, size_t size)
{
	void *d = to;
	const void *s = from;

	if (step == 1)
		memcpy(d, s, (size_t)n * size);
	else if (size == 1)
		rlx_ew_pick_uint8_t(d, s, n, step);
	else if (size == 2)
		rlx_ew_pick_uint16_t(d, s, n, step);
	else if (size == 4)
		rlx_ew_pick_uint32_t(d, s, n, step);
	else
		rlx_ew_pick_uint64_t(d, s, n, step);
}

/* What is there @times times in all. */
RLX_INLINE void rlx_ew_repeat(char *d, size_t bytes, int64_t times)
{
	const size_t all = bytes * (size_t)times;

	for (size_t done = bytes, more; done < all; done += more) {
		more = done < all - done ? done : all - done;
		memcpy(d + done, d, more);
	}
}

/* How many of @len are in @n, up to @most; mostly those, which takes no division. */
RLX_INLINE int64_t rlx_ew_most(int64_t n, int64_t len, int64_t most)
{
	return n >= most * len ? most : n / len;
}

/* @n pieces of @bytes, each @rows times; a piece of vectors is copied as those. */
RLX_INLINE void rlx_ew_pieces(char *restrict d, const char *restrict s, int64_t n, int64_t rows,
			      size_t bytes, int64_t by)
{
	for (; n--; s += by)
		for (int64_t r = 0; r < rows; r++, d += bytes)
			for (size_t i = 0; i < bytes; i += 16)
				memcpy(d + i, s + i, 16);
}

/*
 * The last two dimensions are pieces that repeat: as many as there are along the one before
 * them, of @n elements from a piece's first on. How many elements that makes.
 */
static int64_t rlx_ew_repeated(const struct rlx_ew_gather *g, char *d, const char *s, int64_t left,
			       int64_t n, size_t size)
{
	const int k = g->rank - 3;
	const int64_t rows = g->dim[k + 1], len = g->dim[k + 2], by = g->stride[k];
	const int64_t m = rlx_ew_most(n, rows * len, left);

	rlx_ew_pieces(d, s, m, rows, (size_t)len * size, by * (int64_t)size);
	return m;
}

/* May rlx_ew_repeated() be used? */
RLX_INLINE bool rlx_ew_repeats(const struct rlx_ew_gather *g, size_t size)
{
	return g->rank > 2 && g->stride[g->rank - 1] == 1 && !g->stride[g->rank - 2] &&
	       (size_t)g->dim[g->rank - 1] * size % 16 == 0;
}

/* Rows of the last dimension, along the one before it. */
static void rlx_ew_rows(const struct rlx_ew_gather *g, char *d, const char *s, int64_t rows,
			size_t size)
{
	const int64_t n = g->dim[g->rank - 1], step = g->stride[g->rank - 1];
	const int64_t by = g->stride[g->rank - 2];
	const size_t bytes = (size_t)n * size;

	if (!step) {
		rlx_ew_splat(d, s, rows, n, by, size);
	} else if (!by) {
		rlx_ew_pick(d, s, n, step, size);
		rlx_ew_repeat(d, bytes, rows);
	} else {
		for (; rows--; d += bytes, s += by * (int64_t)size)
			rlx_ew_pick(d, s, n, step, size);
	}
}

/* The elements of @s for elements [at, at + n) of the output, in its order. */
static void rlx_ew_gather(const struct rlx_ew_gather *g, char *d, const char *s, int64_t at,
			  int64_t n, size_t size)
{
	const int last = g->rank - 1;
	const int64_t len = g->dim[last];
	const bool repeats = rlx_ew_repeats(g, size);
	int64_t pos[RLX_K_DIMS], off = 0;

	for (int k = last; k >= 0; at /= g->dim[k--]) {
		pos[k] = at % g->dim[k];
		off += pos[k] * g->stride[k];
	}
	while (n > 0) {
		const char *from = s + off * (int64_t)size;
		int64_t some = len - pos[last] < n ? len - pos[last] : n;
		int k = last;

		if (repeats && !pos[last] && !pos[last - 1] && n >= len * g->dim[last - 1]) {
			k -= 2;
			some = rlx_ew_repeated(g, d, from, g->dim[k] - pos[k], n, size);
			pos[k] += some;
			off += some * g->stride[k];
			some *= len * g->dim[last - 1];
		} else if (last && some == len) {	/* a whole row, and those behind it */
			int64_t rows;

			k--;
			rows = rlx_ew_most(n, len, g->dim[k] - pos[k]);
			rlx_ew_rows(g, d, from, rows, size);
			pos[k] += rows;
			off += rows * g->stride[k];
			some = rows * len;
		} else {
			if (g->stride[last])
				rlx_ew_pick(d, from, some, g->stride[last], size);
			else
				rlx_ew_splat(d, from, 1, some, 0, size);
			pos[k] += some;
			off += some * g->stride[k];
		}
		d += some * (int64_t)size;
		n -= some;
		for (; k > 0 && pos[k] == g->dim[k]; k--) {
			off += g->stride[k - 1] - pos[k] * g->stride[k];
			pos[k] = 0;
			pos[k - 1]++;
		}
	}
}

#endif
