// SPDX-License-Identifier: MIT
/*
 * Softmax and its logarithm of f32 in the CPU's order (kernels/cpu/softmax.c), for strict bits.
 *
 * Algorithm: along rows, sixteen threads have a lane each of 1,024 exponentials, whose sums meet in
 * a double: sixteen threads have a row of up to 1,024 elements, else a block of 16 such teams has,
 * which take turns; of few rows all teams of the grid take their parts, in three launches: for the
 * largest element, for the sum, for the result. Along columns, 32 side by side, eight threads each
 * have 64 rows in turns, whose sums are added up 64 at a time.
 * Traffic: x twice or three times, y twice, mostly from caches.
 * Limits: f32.
 */
#include "kernels/gpu/lanes.h"
#include "kernels/softmax.h"

enum { BLOCK = 1024, TEAMS = 16, ROWS = 64, WALKERS = 8 };

/* As the CPU: not NaN, unless all is. */
static DEV inline float max_of(float m, float x)
{
	return vf_max(x, m);
}

static DEV inline void put(float *y, float x, float m, float by)
{
	*y = SOFTMAX_LOG ? x - m - by : *y * by;
}

static DEV inline float scale_of(float sum)
{
	return SOFTMAX_LOG ? vf_log(sum) : 1.0f / sum;
}

#if SOFTMAX_COLUMNS
RLX_G_KERNEL(softmax_ordered, struct rlx_k_softmax, 256)
{
	SHARED(float, smem, [WALKERS][32]);
	const int c = (int)threadIdx.x % 32, w = (int)threadIdx.x / 32;
	const int64_t cols = live_rows(env, a.outer) * a.inner;

	for (int64_t b = blockIdx.x; b * 32 < cols; b += gridDim.x) {
		const bool in = b * 32 + c < cols;
		const int64_t e = in ? b * 32 + c : cols - 1;
		const int64_t at = e / a.inner * a.n * a.inner + e % a.inner;
		const float *x = RLX_G_PTR(const float, a.x) + at;
		float *y = RLX_G_PTR(float, a.y) + at;
		float m = -INFINITY, sum = 0, mid = 0;
		int64_t k = 0;

		for (int64_t i = w; i < a.n; i += WALKERS)
			m = max_of(m, x[i * a.inner]);
		smem[w][c] = m;
		__syncthreads();
		for (int i = 0; i < WALKERS; i++)
			m = max_of(m, smem[i][c]);
		__syncthreads();
		for (int64_t from = 0; from < a.n; from += WALKERS * ROWS) {
			const int64_t mine = from + w * ROWS;
			float part = 0;

			for (int64_t i = mine; i < mine + ROWS && i < a.n; i++) {
				const float v = vf_exp(x[i * a.inner] - m);

				part += v;
				if (!SOFTMAX_LOG && in)
					y[i * a.inner] = v;
			}
			smem[w][c] = part;
			__syncthreads();
			for (int i = 0; i < WALKERS && from + i * ROWS < a.n; i++) {
				mid += smem[i][c];
				if (from + (i + 1) * ROWS > a.n || ++k % ROWS)
					continue;
				sum += mid;
				mid = 0;
			}
			__syncthreads();
		}
		sum = scale_of(sum + mid);
		for (int64_t i = w; i < a.n && in; i += WALKERS)
			put(&y[i * a.inner], SOFTMAX_LOG ? x[i * a.inner] : 0, m, sum);
		__syncthreads();
	}
}
#else
/* The exponentials of up to a block, of which a thread has a lane. */
static DEV inline float block_of(float *y, const float *x, float m, int n)
{
	float s = 0;

	for (int i = lane16(); i < n; i += 16) {
		const float v = vf_exp(x[i] - m);

		s += v;
		if (!SOFTMAX_LOG)
			y[i] = v;
	}
	return fold16<ordered_sum>(s);
}

/* The largest that this team's threads have found, in its first one. */
static DEV inline float team_max(float m)
{
	for (int d = 8; d; d /= 2)
		m = max_of(m, warp_xor(m, d));
	return m;
}

#if SOFTMAX_TEAMS == 1
RLX_G_KERNEL(softmax_ordered, struct rlx_k_softmax, 256)
{
	const int lane = lane16(), first = lane_id() - lane;
	const int64_t rows = live_rows(env, a.outer);

	for (int64_t b = blockIdx.x; b * TEAMS < rows; b += gridDim.x) {
		const int64_t r = b * TEAMS + threadIdx.x / 16;
		const bool in = r < rows;
		const float *x = RLX_G_PTR(const float, a.x) + (in ? r : 0) * a.n;
		float *y = RLX_G_PTR(float, a.y) + (in ? r : 0) * a.n;
		const int n = in ? (int)a.n : 0;
		float m = -INFINITY, s;

		for (int i = lane; i < n; i += 16)
			m = max_of(m, x[i]);
		m = team_max(m);
		s = scale_of(shuffle(block_of(y, x, m, n), first));
		for (int i = lane; i < n; i += 16)
			put(&y[i], SOFTMAX_LOG ? x[i] : 0, m, s);
	}
}
#elif !SOFTMAX_TEAMS
/* What launches before have found of a row: its largest element, and for the last one its scale. */
struct found {
	float	m, by;
};

static DEV inline struct found found_of(const float *largest, const float *sums, int64_t blocks,
					bool last)
{
	const int lane = lane16();
	struct found f = { -INFINITY, 0 };
	double sum = 0;

	for (int64_t k = lane; k < blocks; k += 16)
		f.m = max_of(f.m, largest[k]);
	f.m = shuffle(team_max(f.m), lane_id() - lane);
	for (int64_t k = 0; last && k < blocks; k++)
		sum += (double)sums[k];
	if (last)
		f.by = scale_of((float)sum);
	return f;
}

/* A team has neighbouring blocks, and asks what is found of their row once. */
RLX_G_KERNEL(softmax_ordered, struct rlx_k_softmax, 256)
{
	const int lane = lane16();
	const int64_t blocks = (a.n + BLOCK - 1) / BLOCK, parts = live_rows(env, a.outer) * blocks;
	const struct part_range w = part_range_of(parts, TEAMS, (int)threadIdx.x / 16);
	float *largest = (float *)env.scratch, *sums = largest + a.outer * blocks;
	struct found f = { -INFINITY, 0 };
	int64_t row = -1;

	/* both teams of a warp as often, and together */
	for (int64_t u = w.from; u < w.from + w.each; u++) {
		const bool in = u < w.to;
		const int64_t r = in ? u / blocks : 0, at = in ? u % blocks * BLOCK : 0;
		const int64_t left = in ? a.n - at : 0;
		const int n = left < BLOCK ? (int)left : BLOCK;
		const float *x = RLX_G_PTR(const float, a.x) + r * a.n + at;
		float *y = RLX_G_PTR(float, a.y) + r * a.n + at, v = -INFINITY;

		if (env.pass && warp_ballot(in && r != row))
			f = found_of(largest + r * blocks, sums + r * blocks, blocks,
				     env.pass == 2);
		row = r;
		for (int i = lane; !env.pass && i < n; i += 16)
			v = max_of(v, x[i]);
		v = !env.pass ? team_max(v) : env.pass == 1 ? block_of(y, x, f.m, n) : 0;
		if (env.pass < 2 && in && !lane)
			(env.pass ? sums : largest)[u] = v;
		for (int i = lane; env.pass == 2 && i < n; i += 16)
			put(&y[i], SOFTMAX_LOG ? x[i] : 0, f.m, f.by);
	}
}
#else
RLX_G_KERNEL(softmax_ordered, struct rlx_k_softmax, 256)
{
	SHARED(float, smem, [TEAMS]);
	const int lane = lane16(), team = (int)threadIdx.x / 16;
	const int64_t rows = live_rows(env, a.outer);

	for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *x = RLX_G_PTR(const float, a.x) + r * a.n;
		float *y = RLX_G_PTR(float, a.y) + r * a.n, m = -INFINITY, by;
		double sum = 0;

		for (int64_t i = threadIdx.x; i < a.n; i += 256)
			m = max_of(m, x[i]);
		m = team_max(m);
		if (!lane)
			smem[team] = m;
		__syncthreads();
		for (int k = 0; k < TEAMS; k++)
			m = max_of(m, smem[k]);
		__syncthreads();
		for (int64_t from = 0; from < a.n; from += TEAMS * BLOCK) {
			const int64_t at = from + team * BLOCK, left = a.n - at;
			const int n = left < 0 ? 0 : left < BLOCK ? (int)left : BLOCK;
			const float s = block_of(y + at, x + at, m, n);

			if (!lane)
				smem[team] = s;
			__syncthreads();
			for (int k = 0; k < TEAMS && from + k * BLOCK < a.n; k++)
				sum += (double)smem[k];
			__syncthreads();
		}
		by = scale_of((float)sum);
		for (int64_t i = threadIdx.x; i < a.n; i += 256)
			put(&y[i], SOFTMAX_LOG ? x[i] : 0, m, by);
	}
}
#endif
#endif
