// SPDX-License-Identifier: MIT
/*
 * Softmax and log-softmax along an axis: RLX_K0 0 a warp a row, 1 a block a row, 2 a thread a
 * column.
 *
 * Algorithm: three sweeps: the maximum, the sum of exp(x - max), the results; so nothing
 * overflows. By rows lanes then warps meet in trees; by columns a thread sums one element after
 * the other.
 * Tiles: 256 threads; rows of up to 1,024 elements a warp each, longer ones a block; where the
 * axis is not the last, neighbouring threads have neighbouring columns.
 * Traffic: y once, x once from memory and twice more from caches as far as they hold what
 * blocks have under way. No online softmax: it would save a sweep at the price of exponentials.
 * Limits: f32, f16 and bf16, computed in f32; any length, but few long columns keep few threads
 * busy.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/softmax.h"

static DEV inline void finish(const struct rlx_k_softmax &a, const void *x, void *y,
			      int64_t i, float max, float sum)
{
	float v = load_float(x, i, a.x_type) - max;

	store_float(y, i, a.y_type, a.log ? v - sum : fast_exp(v) * sum);
}

/* What finish() wants: the logarithm, or the inverse. */
static DEV inline float finish_of(const struct rlx_k_softmax &a, float sum)
{
	return a.log ? logf(sum) : 1.0f / sum;
}

#if RLX_K0 == 0
RLX_G_KERNEL(softmax, struct rlx_k_softmax, 256)
{
	const void *x = RLX_G_PTR(const void, a.x);
	void *y = RLX_G_PTR(void, a.y);
	int warps = 256 / WARP;
	int64_t rows = live_rows(env, a.outer), step = (int64_t)gridDim.x * warps;

	for (int64_t row = (int64_t)blockIdx.x * warps + warp_id(); row < rows; row += step) {
		int64_t at = row * a.n;
		float max = -INFINITY, sum = 0;

		for (int64_t i = lane_id(); i < a.n; i += WARP)
			max = op_max::of(max, load_float(x, at + i, a.x_type));
		max = warp_reduce<op_max>(max);
		for (int64_t i = lane_id(); i < a.n; i += WARP)
			sum += fast_exp(load_float(x, at + i, a.x_type) - max);
		sum = finish_of(a, warp_reduce<op_sum>(sum));
		for (int64_t i = lane_id(); i < a.n; i += WARP)
			finish(a, x, y, at + i, max, sum);
	}
}
#elif RLX_K0 == 1
RLX_G_KERNEL(softmax, struct rlx_k_softmax, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	const void *x = RLX_G_PTR(const void, a.x);
	void *y = RLX_G_PTR(void, a.y);

	for (int64_t row = blockIdx.x, n = live_rows(env, a.outer); row < n; row += gridDim.x) {
		int64_t at = row * a.n;
		float max = -INFINITY, sum = 0;

		for (int64_t i = threadIdx.x; i < a.n; i += 256)
			max = op_max::of(max, load_float(x, at + i, a.x_type));
		max = block_reduce<op_max>(max, smem);
		for (int64_t i = threadIdx.x; i < a.n; i += 256)
			sum += fast_exp(load_float(x, at + i, a.x_type) - max);
		sum = finish_of(a, block_reduce<op_sum>(sum, smem));
		for (int64_t i = threadIdx.x; i < a.n; i += 256)
			finish(a, x, y, at + i, max, sum);
	}
}
#else
RLX_G_KERNEL(softmax, struct rlx_k_softmax, 256)
{
	const void *x = RLX_G_PTR(const void, a.x);
	void *y = RLX_G_PTR(void, a.y);
	int64_t cols = live_rows(env, a.outer) * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t c = (int64_t)blockIdx.x * 256 + threadIdx.x; c < cols; c += step) {
		int64_t at = c / a.inner * a.n * a.inner + c % a.inner;
		float max = -INFINITY, sum = 0;

		for (int64_t i = 0; i < a.n; i++)
			max = op_max::of(max, load_float(x, at + i * a.inner, a.x_type));
		for (int64_t i = 0; i < a.n; i++)
			sum += fast_exp(load_float(x, at + i * a.inner, a.x_type) - max);
		sum = finish_of(a, sum);
		for (int64_t i = 0; i < a.n; i++)
			finish(a, x, y, at + i * a.inner, max, sum);
	}
}
#endif
