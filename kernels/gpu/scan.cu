// SPDX-License-Identifier: MIT
/*
 * Running sums and products along an axis (prefix scan), inclusive or exclusive, in either
 * direction.
 *
 * Algorithm: last axis: a block goes over its line 256 elements at a time: a scan of each warp by
 * shuffles (Hillis and Steele), then the sums of the warps before, and a carry from one 256 to the
 * next. Other axes: a thread a column, one element after the other.
 * Traffic: x and y once, which is the bound where lines or columns are many. A line is not split
 * over blocks (no decoupled look-back): a few long lines keep as few multiprocessors busy.
 * A product of floats keeps what is infinite, or 0, though behind it the product of many, found
 * apart, has become 0 or infinite.
 * Source: Hillis and Steele, "Data Parallel Algorithms" (1986).
 * Limits: all types; floats are computed in f64 and each y is rounded once, integers wrap.
 */
#include "kernels/gpu/accumulate.h"
#include "kernels/reduce.h"

/* SCAN_LANES: 256 or 1 threads for each line. Floats go by double. */
typedef acc_of<IS_FLOAT, double>::type acc;

static DEV inline acc join(acc x, acc y)
{
	return SCAN_PROD ? x * y : x + y;
}

static DEV inline acc load(const mem *x, int64_t i)
{
	return (acc)elem::get(x[i]);
}

#if SCAN_LANES == 1
RLX_G_KERNEL(scan, struct rlx_k_scan, 256)
{
	const mem *x = RLX_G_PTR(const mem, a.x);
	mem *y = RLX_G_PTR(mem, a.y);
	int64_t cols = a.outer * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t c = (int64_t)blockIdx.x * 256 + threadIdx.x; c < cols; c += step) {
		int64_t base = c / a.inner * a.n * a.inner + c % a.inner;
		acc sum = SCAN_PROD;

		for (int64_t k = 0; k < a.n; k++) {
			int64_t at = base + (a.reverse ? a.n - 1 - k : k) * a.inner;
			acc next = join(sum, load(x, at));

			y[at] = put_as(a.exclusive ? sum : next);
			sum = next;
		}
	}
}
#else
enum { ENDLESS = 1, ZERO = 2 };

/* Floats, one times the other, and what is among them: some that is no finite number, a 0. */
struct factors {
	double	product;
	int	has;
};

static DEV inline factors join(factors x, factors y)
{
	const double p = x.product;
	const bool minus = y.product < 0 || (y.product == 0 && 1 / y.product < 0);
	const int has = x.has | y.has;

	/* one after the other they would leave it alone, but for its sign */
	if ((p == 0 && !(y.has & ENDLESS)) ||
	    (y.product == 0 && fabs(p) == INFINITY && !(y.has & ZERO)))
		return { minus ? -p : p, has };
	return { p * y.product, has };
}

static DEV inline factors shuffle(factors v, int from)
{
	return { shuffle(v.product, from), shuffle(v.has, from) };
}

template <bool FACTORS> struct item_of {
	typedef acc type;
	static DEV type of(acc x) { return x; }
	static DEV acc value(type x) { return x; }
};

template <> struct item_of<true> {
	typedef factors type;
	static DEV type of(acc x)
	{
		const double d = (double)x;

		return { d, (d - d != 0 ? ENDLESS : 0) | (d == 0 ? ZERO : 0) };
	}
	static DEV acc value(type x) { return (acc)x.product; }
};

typedef item_of<SCAN_PROD && IS_FLOAT> items;
typedef items::type item;

struct op_join {
	static DEV item of(item x, item y) { return join(x, y); }
};

/* 256 elements at a time; @carry is what came before them, the same in all threads. */
static DEV inline void piece(const struct rlx_k_scan &a, const mem *x, mem *y, int64_t k,
			     item *carry, item *smem)
{
	int64_t i = k + threadIdx.x, at = a.reverse ? a.n - 1 - i : i;
	item whole = warp_scan<op_join>(items::of(i < a.n ? load(x, at) : (acc)SCAN_PROD));
	item before = shuffle(whole, lane_id() ? lane_id() - 1 : 0), front = *carry;

	if (lane_id() == WARP - 1)
		smem[warp_id()] = whole;
	__syncthreads();
	for (int w = 0; w < 256 / WARP; w++) {
		if (w == warp_id())
			front = *carry;
		*carry = join(*carry, smem[w]);
	}
	__syncthreads();
	if (lane_id() == 0)
		before = items::of(SCAN_PROD);
	if (i < a.n)
		y[at] = put_as(items::value(join(front, a.exclusive ? before : whole)));
}

RLX_G_KERNEL(scan, struct rlx_k_scan, 256)
{
	SHARED(item, smem, [MAX_WARPS]);
	const mem *x = RLX_G_PTR(const mem, a.x);
	mem *y = RLX_G_PTR(mem, a.y);

	for (int64_t o = blockIdx.x; o < a.outer; o += gridDim.x) {
		item carry = items::of(SCAN_PROD);

		for (int64_t k = 0; k < a.n; k += 256)
			piece(a, x + o * a.n, y + o * a.n, k, &carry, smem);
	}
}
#endif
