// SPDX-License-Identifier: MIT
/*
 * Moving elements: strided copies, transposes, copies by tables of indices, triangles.
 *
 * Algorithm: copy has a form by the plan (kernels/copy.h). Words (COPY_FORM 0): a thread takes
 * 4 or 8 words that are a grid's width apart, neighbours side by side in dst. A word is as wide as
 * rows, strides and addresses let (COPY_SIZE bytes, up to 16) where rows are contiguous on both
 * sides, else an element. Where it lies takes a multiplication and a shift for each dimension,
 * in 32 bits unless the copy is of 2 GiB or more. Fill (1): the same, of words full of one element.
 * Rows that are read or written through shared memory (2, 3): transposes, see copy_tiles.h.
 * index_copy has for each dimension a table of where to read, or none: the fill value. trilu keeps
 * a triangle and writes zeros beside it.
 * Tiles: 256 threads. Traffic: each element read and written once (index_copy: 8 bytes of tables
 * for each dimension too, from caches).
 * Limits: elements of 1, 2, 4, 8 or 16 bytes; src and dst do not overlap. Rows that begin at odd
 * addresses on one side are copied by narrow words: of 2 bytes, instructions are about as much of
 * a bound as memory.
 */
#if defined(RLX_KERNEL_copy) && COPY_FORM >= 2 && COPY_SIZE <= 8
#define RLX_G_BLOCKS	6	/* what they have under way is what memory takes */
#endif
#include "kernels/gpu/move.h"

typedef word<COPY_SIZE>::type elem;

#ifdef RLX_KERNEL_copy
#if COPY_FORM >= 2
#include "kernels/gpu/copy_tiles.h"

RLX_G_KERNEL(copy, struct rlx_k_copy, 256)
{
	SHARED_DYNAMIC(shared);

	copy_tiles(a, RLX_G_PTR(const elem, a.src), RLX_G_PTR(elem, a.dst), (elem *)shared);
}
#else

/* Words of a thread that are under way; the code for large copies is long enough with one. */
enum { AHEAD = COPY_SIZE < 8 ? 8 : 4 };

#if COPY_FORM == 1
/* A word full of the element at @p. */
static DEV inline elem read(const char *p, int size)
{
	uint64_t u[2], v;
	elem w;

	v = size == 1 ? *(const uint8_t *)p * 0x0101010101010101 :
	    size == 2 ? *(const uint16_t *)p * 0x0001000100010001 :
	    size == 4 ? *(const uint32_t *)p * 0x0000000100000001 : *(const uint64_t *)p;
	u[0] = u[1] = v;
	memcpy(&w, u, sizeof(w));
	return w;
}
#else
static DEV inline elem read(const char *p, int)
{
	return *(const elem *)p;
}
#endif

/* @x / @d and what is left of @x: by the divisor, or @x is too large for that */
static DEV inline uint32_t quotient(uint32_t x, int64_t d, struct rlx_k_divisor by, uint32_t *rest)
{
	uint32_t q = ((uint32_t)((uint64_t)x * by.mul >> 32) + x) >> by.shift;

	*rest = x - q * (uint32_t)d;
	return q;
}

static DEV inline uint64_t quotient(uint64_t x, int64_t d, struct rlx_k_divisor, uint64_t *rest)
{
	int64_t r, q = divide((int64_t)x, d, &r);

	*rest = (uint64_t)r;
	return (uint64_t)q;
}

/* Where word @i is, in bytes from the first one; @U: of numbers that hold the copy's bytes. */
template <class U, class I, int N> struct place {
	I	from[N], to[N];

	DEV void find(const struct rlx_k_copy &a, U i, U step, U last)
	{
		int d = a.rank - 1;
		I src_step = (I)a.src_stride[d], dst_step = (I)a.dst_stride[d];
		U at[N];

#pragma unroll
		for (int k = 0; k < N; k++) {
			U word = i + (U)k * step;

			at[k] = (word < last ? word : last) * COPY_SIZE;
			from[k] = to[k] = 0;
		}
#pragma unroll
		for (int k = 0; k < N; k++) {
			U rest = at[k];

			if (d)
				at[k] = quotient(at[k], a.dim[d] * a.size, a.by_row, &rest);
			/* words are elements, or whole rows of them are side by side */
			from[k] = (I)rest * src_step;
			to[k] = (I)rest * dst_step;
		}
		for (d--; d >= 0; d--) {
			src_step = (I)a.src_stride[d] * a.size;
			dst_step = (I)a.dst_stride[d] * a.size;
#pragma unroll
			for (int k = 0; k < N; k++) {
				U rest = at[k];

				if (d)
					at[k] = quotient(at[k], a.dim[d], a.by[d], &rest);
				from[k] += (I)rest * src_step;
				to[k] += (I)rest * dst_step;
			}
		}
	}
};

template <class U, class I, int N>
static DEV inline void copy_words(const struct rlx_k_copy &a, const char *src, char *dst, U n)
{
	U step = (U)line_step();

	for (U i = (U)line_first(); i < n; i += N * step) {
		place<U, I, N> p;
		elem v[N];

		p.find(a, i, step, n - 1);
#pragma unroll
		for (int k = 0; k < N; k++)
			v[k] = read(src + p.from[k], a.size);
#pragma unroll
		for (int k = 0; k < N; k++)
			if (i + (U)k * step < n)
				*(elem *)(dst + p.to[k]) = v[k];
	}
}

RLX_G_KERNEL(copy, struct rlx_k_copy, 256)
{
	const char *src = RLX_G_PTR(const char, a.src);
	char *dst = RLX_G_PTR(char, a.dst);
	int64_t n = a.size;

	for (int d = 0; d < a.rank; d++)
		n *= a.dim[d];
	if (a.narrow)
		copy_words<uint32_t, int32_t, AHEAD>(a, src, dst, (uint32_t)(n / COPY_SIZE));
	else
		copy_words<uint64_t, int64_t, 1>(a, src, dst, (uint64_t)(n / COPY_SIZE));
	/* a single row may have less than a word left */
	for (int64_t i = n / COPY_SIZE * COPY_SIZE + line_first(); i < n; i += line_step())
		dst[i] = src[COPY_FORM ? i % a.size : i];
}
#endif

#elif defined(RLX_KERNEL_index_copy)
/* @U: numbers that hold twice @n */
template <class U> static DEV inline void index_copy(const struct rlx_k_index_copy &a,
						     const struct rlx_g_env &env, U n)
{
	const elem *src = RLX_G_PTR(const elem, a.src);
	elem *dst = RLX_G_PTR(elem, a.dst);

	for (U i = (U)line_first(); i < n; i += (U)line_step()) {
		int64_t from = 0;
		bool in = true;
		U at = i;

		for (int d = a.rank - 1; d >= 0; d--) {
			U dim = (U)a.dim[d], q = d ? at / dim : 0;
			int64_t t = RLX_G_PTR(const int64_t, a.table[d])[at - q * dim];

			in = in && t != RLX_K_NO_INDEX;
			from += in ? t : 0;
			at = q;
		}
		dst[i] = in ? src[from] : *RLX_G_PTR(const elem, a.fill);
	}
}

RLX_G_KERNEL(index_copy, struct rlx_k_index_copy, 256)
{
	int64_t n = 1;

	for (int d = 0; d < a.rank; d++)
		n *= a.dim[d];
	if (n >> 31 == 0)
		index_copy<uint32_t>(a, env, (uint32_t)n);
	else
		index_copy<uint64_t>(a, env, (uint64_t)n);
}

#else
/* @U: numbers that hold twice @n */
template <class U> static DEV inline void trilu(const struct rlx_k_trilu &a,
						const struct rlx_g_env &env, U n)
{
	const elem *src = RLX_G_PTR(const elem, a.src);
	elem *dst = RLX_G_PTR(elem, a.dst);
	U cols = (U)a.cols, rows = (U)a.rows;

	for (U i = (U)line_first(); i < n; i += (U)line_step()) {
		U rest = i / cols;
		int64_t off = (int64_t)(i - rest * cols) - (int64_t)(rest % rows);

		dst[i] = (a.upper ? off >= a.k : off <= a.k) ? src[i] : elem{};
	}
}

RLX_G_KERNEL(trilu, struct rlx_k_trilu, 256)
{
	int64_t n = a.batch * a.rows * a.cols;

	if (n >> 31 == 0)
		trilu<uint32_t>(a, env, (uint32_t)n);
	else
		trilu<uint64_t>(a, env, (uint64_t)n);
}
#endif
