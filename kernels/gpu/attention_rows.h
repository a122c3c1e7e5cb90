/* SPDX-License-Identifier: MIT */
/*
 * Rows of a head as they come to shared memory, HD 16-bit floats each, LD from one to the next:
 * by asynchronous copies of 16 bytes, where rows begin at such, else by elements. THREADS do it.
 * The kernel that includes this says what the three are.
 */
#ifndef RLX_G_ATTENTION_ROWS_H
#define RLX_G_ATTENTION_ROWS_H

#include "kernels/gpu/attention_softmax.h"

/* Rows of a head in memory; @wide: to be read by 16 bytes. */
struct rows {
	const half	*p;
	int64_t		stride, n, dim;
	bool		wide;
};

/* By elements: apart, since what is skipped as a whole is not fetched. */
template <int COUNT>
static DEV inline void load_elements(half *to, const struct rows &m, int64_t first)
{
#pragma unroll 8
	for (int i = (int)threadIdx.x; i < COUNT * HD; i += THREADS) {
		int r = i / HD, c = i % HD;
		bool in = first + r < m.n && c < m.dim;

		to[r * LD + c] = in ? m.p[(first + r) * m.stride + c] : half{};
	}
}

/* Rows [first, first + COUNT), zeros beyond the last and beyond dim. */
template <int COUNT>
static DEV inline void load_rows(half *to, const struct rows &m, int64_t first)
{
	if (!m.wide) {
		load_elements<COUNT>(to, m, first);
		return;
	}
#pragma unroll 4
	for (int i = (int)threadIdx.x; i < COUNT * HD / 8; i += THREADS) {
		int r = i / (HD / 8), c = i % (HD / 8) * 8;
		int64_t left = m.dim - c;
		int n = first + r >= m.n || left <= 0 ? 0 : left < 8 ? (int)left : 8;

		copy_async(to + r * LD + c, n ? m.p + (first + r) * m.stride + c : m.p, 16, n * 2);
	}
}

static DEV inline struct rows rows_of(const void *p, const int64_t *stride, int b, int h,
				      int64_t n, int64_t dim)
{
	struct rows m;

	m.p = (const half *)p + b * stride[0] + h * stride[1];
	m.stride = stride[2];
	m.n = n;
	m.dim = dim;
	m.wide = ((uint64_t)m.p | (uint64_t)(m.stride * 2)) % 16 == 0;
	return m;
}

#endif
