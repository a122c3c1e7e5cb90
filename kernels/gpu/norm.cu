// SPDX-License-Identifier: MIT
// Layer and RMS norm of x + residual + bias, a block a row.
#include "kernels/gpu/dialect.h"
#include "kernels/norm.h"

/* x + residual + bias at @i of the row */
static DEV inline float sum_at(const struct rlx_k_norm &a, const struct rlx_g_env &env,
			       int64_t row, int64_t i)
{
	float v = load_float(RLX_G_PTR(const void, a.x), row * a.n + i, a.x_type);

	if (a.residual)
		v += load_float(RLX_G_PTR(const void, a.residual),
				row * a.residual_stride + i, a.residual_type);
	if (a.bias)
		v += load_float(RLX_G_PTR(const void, a.bias), i, a.param_type);
	return v;
}

#define KEEP	8	/* elements of a row a thread keeps; more are read again */

RLX_G_KERNEL(norm, struct rlx_k_norm, 256)
{
	SHARED(float, room, [MAX_WAVES]);
	void *y = RLX_G_PTR(void, a.y), *out = RLX_G_PTR(void, a.sum);
	const void *gamma = RLX_G_PTR(const void, a.gamma);
	const void *beta = RLX_G_PTR(const void, a.beta);
	float *means = RLX_G_PTR(float, a.mean), *invs = RLX_G_PTR(float, a.inv);

	for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
		float keep[KEEP], mean = 0, var = 0, inv;
		int n = 0;

		for (int64_t i = threadIdx.x; i < a.n; i += 256, n++) {
			float v = sum_at(a, env, row, i);

			if (n < KEEP)
				keep[n] = v;
			mean += v;
		}
		mean = a.rms ? 0 : block_reduce<op_sum>(mean, room) / (float)a.n;
		n = 0;
		for (int64_t i = threadIdx.x; i < a.n; i += 256, n++) {
			float v = (n < KEEP ? keep[n] : sum_at(a, env, row, i)) - mean;

			var += v * v;
		}
		var = block_reduce<op_sum>(var, room) / (float)a.n;
		inv = rsqrt_f32(var + a.eps);
		if (threadIdx.x == 0 && means)
			means[row] = mean;
		if (threadIdx.x == 0 && invs)
			invs[row] = inv;
		n = 0;
		for (int64_t i = threadIdx.x; i < a.n; i += 256, n++) {
			float v = n < KEEP ? keep[n] : sum_at(a, env, row, i), t;

			t = (v - mean) * inv;
			if (gamma)
				t *= load_float(gamma, i, a.param_type);
			if (beta)
				t += load_float(beta, i, a.param_type);
			/* out and y may be x itself: the row was read by this thread */
			if (out)
				store_float(out, row * a.n + i, a.x_type, v);
			store_float(y, row * a.n + i, a.y_type, t);
		}
	}
}
