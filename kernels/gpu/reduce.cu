// SPDX-License-Identifier: MIT
/*
 * Reductions over any set of axes: sum, mean, product, largest, smallest.
 *
 * Algorithm: a tree. A thread folds every LANES-th element, 64 at a time, so that the error of a
 * sum grows by blocks and not by elements; then lanes by shuffles, warps in shared memory. Where
 * results are few, rows of the grid have parts of each, and a second launch folds what they left
 * in scratch. No atomics: the same bits each time.
 *
 * Tiles: if the last axis is reduced, a warp for each result of up to 1,024 elements, a block of
 * 256 threads for longer ones; else a thread for each result, whose neighbours lie side by side.
 * Traffic: x once, which is the bound; 8 bytes of scratch for each part, up to 1,024 of a result.
 * Limits: all types. f32 and narrower floats are summed in f32, f64 in f64; integers wrap in 64
 * bits, and their mean is truncated. A NaN is the largest and the smallest.
 */
#include "kernels/gpu/accumulate.h"
#include "kernels/reduce.h"

/* Key: type, op (enum rlx_k_reduce_op), threads for each result (1, WARP or 256). */
#define LANES	(RLX_K2 == 32 ? WARP : RLX_K2)
#define GROUPS	(256 / LANES)

typedef acc_of<IS_FLOAT, elem::acc>::type acc;

enum { ADD, PRODUCT, LARGEST, SMALLEST };

#define KIND								\
	(RLX_K1 == RLX_K_REDUCE_MAX ? LARGEST :				\
	 RLX_K1 == RLX_K_REDUCE_MIN ? SMALLEST :			\
	 RLX_K1 == RLX_K_REDUCE_PROD ? PRODUCT : ADD)

static DEV inline acc neutral(void)
{
	if (KIND == PRODUCT)
		return 1;
	if (KIND != LARGEST && KIND != SMALLEST)
		return 0;
	if (IS_FLOAT)
		return (acc)(KIND == LARGEST ? -INFINITY : INFINITY);
	if (RLX_K0 == RLX_U64)
		return (acc)(KIND == LARGEST ? 0 : ~0ull);
	return (acc)(KIND == LARGEST ? 1ull << 63 : ~0ull >> 1);
}

struct meet {
	template <class T> static DEV inline T of(T x, T y)
	{
		if (KIND == LARGEST)	/* NaN wins */
			return x != x || less_than(y, x) ? x : y;
		if (KIND == SMALLEST)
			return x != x || less_than(x, y) ? x : y;
		return KIND == PRODUCT ? x * y : x + y;
	}
};

/* Offset of kept index @out where all reduced ones are 0, in elements. */
static DEV inline int64_t kept_at(const struct rlx_k_reduce &a, int64_t out)
{
	int64_t off = 0, stride = 1;

	for (int d = a.rank; d-- > 0; stride *= a.dim[d])
		if (!(a.axes >> d & 1)) {
			off += out % a.dim[d] * stride;
			out /= a.dim[d];
		}
	return off;
}

/* Offset of reduced index @red; no division while it stays in the last such one. */
static DEV inline int64_t reduced_at(const struct rlx_k_reduce &a, int64_t red)
{
	int64_t off = 0, stride = 1;

	for (int d = a.rank; d-- > 0 && red; stride *= a.dim[d])
		if (a.axes >> d & 1) {
			if (red < a.dim[d])
				return off + red * stride;
			off += red % a.dim[d] * stride;
			red /= a.dim[d];
		}
	return off;
}

/* Every LANES-th of [lo, hi), folded 64 at a time so that errors stay small. */
static DEV inline acc part_of(const struct rlx_k_reduce &a, const mem *x, int64_t lo,
			      int64_t hi)
{
	acc whole = neutral(), piece = neutral();
	int n = 0;

	for (int64_t i = lo + threadIdx.x % LANES; i < hi; i += LANES) {
		piece = meet::of(piece, (acc)elem::get(x[reduced_at(a, i)]));
		if (++n == 64) {
			whole = meet::of(whole, piece);
			piece = neutral();
			n = 0;
		}
	}
	return meet::of(whole, piece);
}

static DEV inline acc finished(acc v, int64_t n)
{
	if (RLX_K1 != RLX_K_REDUCE_MEAN)
		return v;
	if (IS_FLOAT)
		return (acc)((double)v / (double)n);
	if (!n)		/* of integers the mean of nothing is 0 */
		return 0;
	return RLX_K0 == RLX_U64 ? v / (acc)n : (acc)((int64_t)v / n);
}

static DEV inline acc over_lanes(acc v, acc *smem)
{
	if (LANES == WARP)
		return warp_reduce<meet>(v);
	return LANES == 1 ? v : block_reduce<meet>(v, smem);
}

/*
 * A grid of more than one row splits each reduction: the first pass leaves a part for
 * each row in the scratch, the second folds them in order.
 */
RLX_G_KERNEL(reduce, struct rlx_k_reduce, 256)
{
	SHARED(acc, smem, [MAX_WARPS]);
	const mem *x = RLX_G_PTR(const mem, a.x);
	mem *y = RLX_G_PTR(mem, a.y);
	acc *parts = (acc *)env.scratch;
	int64_t splits = gridDim.y, each = (a.n_red + splits - 1) / splits;
	int64_t lo = blockIdx.y * each, hi = lo + each < a.n_red ? lo + each : a.n_red;

	if (env.pass && blockIdx.y)
		return;
	for (int64_t o = (int64_t)blockIdx.x * GROUPS + threadIdx.x / LANES; o < a.n_out;
	     o += (int64_t)gridDim.x * GROUPS) {
		acc v = neutral();

		if (env.pass)
			for (int64_t s = threadIdx.x % LANES; s < splits; s += LANES)
				v = meet::of(v, parts[s * a.n_out + o]);
		else
			v = part_of(a, x + kept_at(a, o), lo, hi);
		v = over_lanes(v, smem);
		if (threadIdx.x % LANES)
			continue;
		if (splits > 1 && !env.pass)
			parts[blockIdx.y * a.n_out + o] = v;
		else
			y[o] = put_as(finished(v, a.n_red));
	}
}
