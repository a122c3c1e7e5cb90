// SPDX-License-Identifier: MIT
/*
 * The sum of squares of several tensors.
 *
 * Algorithm: a block takes every so manieth chunk of 8,192 elements, whose tensor it finds in the
 * table of the arguments; a thread has 32 of them, by vectors of 8, summed in f32, and goes on in
 * f64. What a block found is in scratch, which the second launch adds up, in order: the same bits
 * each time.
 * Traffic: each element once, which is the bound.
 * Limits: f32, f16 and bf16, up to RLX_K_SQUARES_PARTS tensors.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/sum_squares.h"

enum { SQUARES_THREADS = 256, SQUARES_VEC = 8,
       SQUARES_STEPS = RLX_K_SQUARES_CHUNK / SQUARES_THREADS / SQUARES_VEC };

template <class M> struct alignas(sizeof(M) * SQUARES_VEC < 16 ? sizeof(M) * SQUARES_VEC : 16)
squares_vec {
	M	v[SQUARES_VEC];
};

/* Up to a chunk of @left elements at @p */
template <int T> static DEV inline float squares_of(const void *x, int64_t at, int64_t left)
{
	typedef typename rlx_t<T>::mem mem;
	const mem *p = (const mem *)x + at;
	const bool whole = left >= RLX_K_SQUARES_CHUNK && !((uintptr_t)p % 16);
	squares_vec<mem> v[SQUARES_STEPS];
	float sum = 0;

#pragma unroll
	for (int s = 0; s < SQUARES_STEPS; s++) {
		const int i = (s * SQUARES_THREADS + (int)threadIdx.x) * SQUARES_VEC;

		if (whole) {
			v[s] = *(const squares_vec<mem> *)(p + i);
			continue;
		}
#pragma unroll
		for (int j = 0; j < SQUARES_VEC; j++)
			v[s].v[j] = i + j < left ? p[i + j] : rlx_t<T>::put(0);
	}
#pragma unroll
	for (int s = 0; s < SQUARES_STEPS; s++)
#pragma unroll
		for (int j = 0; j < SQUARES_VEC; j++) {
			const float f = rlx_t<T>::get(v[s].v[j]);

			sum += f * f;
		}
	return sum;
}

/* The tensor that @chunk is of: the last one of those that begin there or before. */
static DEV inline uint32_t part_of(const struct rlx_k_sum_squares_all &a, int64_t chunk)
{
	uint32_t k = 0, n = a.n_part;

	while (n > 1) {
		const uint32_t half = n / 2;

		if (a.part[k + half].first <= chunk) {
			k += half;
			n -= half;
		} else {
			n = half;
		}
	}
	return k;
}

RLX_G_KERNEL(sum_squares_all, struct rlx_k_sum_squares_all, SQUARES_THREADS)
{
	SHARED(double, smem, [MAX_WARPS]);
	double *found = (double *)env.scratch, sum = 0;

	if (env.pass && blockIdx.x)
		return;
	for (int i = (int)threadIdx.x; env.pass && i < (int)gridDim.x; i += SQUARES_THREADS)
		sum += found[i];
	for (int64_t c = blockIdx.x; !env.pass && c < a.chunks; c += gridDim.x) {
		const struct rlx_k_squares_part &p = a.part[part_of(a, c)];
		const int64_t at = (c - p.first) * RLX_K_SQUARES_CHUNK;
		const void *x = RLX_G_PTR(const void, p.x);

		sum += p.type == RLX_F32 ? squares_of<RLX_F32>(x, at, p.n - at) :
		       p.type == RLX_BF16 ? squares_of<RLX_BF16>(x, at, p.n - at) :
					    squares_of<RLX_F16>(x, at, p.n - at);
	}
	sum = block_reduce<op_sum>(sum, smem);
	if (threadIdx.x)
		return;
	if (env.pass)
		*RLX_G_PTR(double, a.y) = sum;
	else
		found[blockIdx.x] = sum;
}
