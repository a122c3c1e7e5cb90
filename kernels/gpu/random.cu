// SPDX-License-Identifier: MIT
/*
 * Random fills (uniform, normal) and sampling from logits, with the CPU's stream of numbers: the
 * same seed and call give the same Philox words on any device and in any launch.
 *
 * rng: a thread a Philox block of four numbers (f64: two), whose counter is the block's index; no
 * state but the seed and the call's number. Normal by Box and Muller, in f64, rounded once.
 * Traffic: y alone is written.
 *
 * sample: a block of 256 threads a row. Top-k, top-p and the draw are places in the order of the
 * logits, which is never made: a radix select by single bits of the key finds each, 32 sweeps
 * that add up the weights above a guess, then equal ones go by index. Sums are f64 in one order.
 * Traffic: the draw reads the row, 4 bytes a logit and 8 a weight, some 35 times, mostly from
 * caches, and so do top-k and top-p. Scratch: 8 bytes for each logit.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); Holtzman et al.,
 * "The curious case of neural text degeneration" (2020) for top-p. Limits: rng float types; sample
 * f32 logits, up to 2^20 rows; one row keeps one multiprocessor busy.
 */
#include "kernels/gpu/move.h"
#include "kernels/random.h"

static DEV inline void draw(int64_t seed, int64_t call, uint64_t at, uint32_t w[4])
{
	uint32_t ctr[4] = { (uint32_t)at, (uint32_t)(at >> 32), (uint32_t)(uint64_t)call,
			    (uint32_t)((uint64_t)call >> 32) };
	uint32_t key[2] = { (uint32_t)(uint64_t)seed, (uint32_t)((uint64_t)seed >> 32) };

	rlx_k_philox(ctr, key, w);
}

static DEV inline double unit24(uint32_t w)
{
	return (double)(w >> 8) * (1.0 / 16777216.0);
}

#ifdef RLX_KERNEL_rng
/* A thread makes the numbers of one block, of type RNG_TYPE. */
RLX_G_KERNEL(rng, struct rlx_k_rng, 256)
{
	typedef rlx_t<RNG_TYPE> type;
	enum { PER = RNG_TYPE == RLX_F64 ? 2 : 4 };
	type::mem *y = RLX_G_PTR(type::mem, a.y);
	const int64_t *count = RLX_G_PTR(const int64_t, a.call);
	int64_t call = count ? *count : 0, blocks = (a.n + PER - 1) / PER;

	for (int64_t i = line_first(); i < blocks; i += line_step()) {
		uint32_t w[4];
		double v[PER];

		draw(a.seed, call, (uint64_t)i, w);
		for (int j = 0; j < PER; j++)
			v[j] = PER == 4 ? unit24(w[j]) :
			       ((double)(w[2 * j % 4] >> 5) * 67108864.0 +
				(double)(w[(2 * j + 1) % 4] >> 6)) * (1.0 / 9007199254740992.0);
		for (int j = 0; j < PER && !a.normal; j++)
			v[j] = a.a + (a.b - a.a) * v[j];
		for (int j = 0; j < PER && a.normal; j += 2) {
			double r = sqrt(-2 * log(1 - v[j])), t = 6.28318530717958647693 * v[j + 1];

			v[j] = a.a + a.b * (r * cos(t));
			v[j + 1] = a.a + a.b * (r * sin(t));
		}
		for (int j = 0; j < PER && i * PER + j < a.n; j++)
#if RNG_TYPE == 1
			y[i * PER + j] = v[j];
#elif RNG_TYPE == 2
			y[i * PER + j] = (float)v[j];
#else
			y[i * PER + j] = type::put(f64_to_odd(v[j]));
#endif
	}
}
#else

/* Floats in their order as integers, the two zeros equal. */
static DEV inline uint32_t key_of(float x)
{
	uint32_t b = f32_bits(x);

	return x == 0 ? 0x80000000 : b >> 31 ? ~b : b | 0x80000000;
}

/* A row's weights (0: dropped), in scratch. */
struct weights {
	const float	*x;
	double		*p, *smem, *chunk;
	int64_t		n;
};

/* The weights, or their number, with keys from @key up. */
static DEV inline double above(const struct weights &r, uint64_t key, bool weigh)
{
	double s = 0;

	for (int64_t i = threadIdx.x; i < r.n; i += 256)
		if (r.p[i] > 0 && key_of(r.x[i]) >= key)
			s += weigh ? r.p[i] : 1;
	return block_reduce<op_sum>(s, r.smem);
}

static DEV inline bool reached(double sum, double goal, bool past)
{
	return past ? sum > goal : sum >= goal;
}

/*
 * Where the running sum, of 1 each or of the weights, from the largest key down and
 * among equals by index, first reaches @goal (or exceeds it, if @past): the key by
 * its bits, then its equals one by one. The last item if there is none.
 */
static DEV_OUTLINE int64_t find(const struct weights &r, double goal, bool weigh, bool past)
{
	uint64_t key = 0;
	double sum;
	int64_t at = -1;

	for (int bit = 31; bit >= 0; bit--)
		if (reached(above(r, key | (uint64_t)1 << bit, weigh), goal, past))
			key |= (uint64_t)1 << bit;
	/* rounding kept the sum below the goal: the smallest key that has items */
	if (!reached(above(r, key, weigh), goal, past)) {
		double all = above(r, 0, false);

		key = 0;
		for (int bit = 31; bit >= 0; bit--)
			if (above(r, key | (uint64_t)1 << bit, false) == all)
				key |= (uint64_t)1 << bit;
	}
	sum = above(r, key + 1, weigh);
	for (int64_t i = 0; i < r.n; i += 256) {
		int64_t mine = i + threadIdx.x;
		bool equal = mine < r.n && r.p[mine] > 0 && key_of(r.x[mine]) == key;

		r.chunk[threadIdx.x] = equal ? weigh ? r.p[mine] : 1 : 0;
		__syncthreads();
		for (int k = 0; k < 256 && !(at >= 0 && reached(sum, goal, past)); k++)
			if (r.chunk[k] > 0) {
				at = i + k;
				sum += r.chunk[k];
			}
		__syncthreads();
	}
	return at;
}

/* Drop what comes after item @last. */
static DEV inline void cut(const struct weights &r, int64_t last)
{
	uint32_t key = key_of(r.x[last]);

	for (int64_t i = threadIdx.x; i < r.n; i += 256) {
		uint32_t k = key_of(r.x[i]);

		if (k < key || (k == key && i > last))
			r.p[i] = 0;
	}
	__syncthreads();
}

/* The first of the largest, or -1 if there is a NaN or no finite sum. */
static DEV inline int64_t largest(const struct weights &r)
{
	float max = -INFINITY;
	double first;

	for (int64_t i = threadIdx.x; i < r.n; i += 256)
		max = op_max::of(max, r.x[i]);
	max = block_reduce<op_max>(max, (float *)r.smem);
	if (max != max)
		return -1;
	first = -(double)r.n;
	for (int64_t i = threadIdx.x; i < r.n; i += 256)
		if (r.x[i] == max && -(double)i > first)
			first = -(double)i;
	return (int64_t)-block_reduce<op_max>(first, r.smem);
}

static DEV inline int64_t sample_row(const struct rlx_k_sample &a, const struct weights &r,
				     int64_t call, int64_t row)
{
	double temperature = (double)a.temperature, odd = 0;
	int64_t best = largest(r);
	uint32_t w[4];

	if (best < 0 || temperature == 0)
		return best;
	for (int64_t i = threadIdx.x; i < r.n; i += 256) {
		r.p[i] = exp(((double)r.x[i] - (double)r.x[best]) / temperature);
		if (r.p[i] != r.p[i])
			odd = 1;
	}
	if (block_reduce<op_max>(odd, r.smem) > 0)
		return -1;
	__syncthreads();
	if (a.top_k > 0 && a.top_k < a.n)
		cut(r, find(r, (double)a.top_k, false, false));
	if (a.top_p > 0 && a.top_p < 1)
		cut(r, find(r, (double)a.top_p * above(r, 0, true), true, false));
	draw(a.seed, call, (uint64_t)row, w);
	return find(r, unit24(w[0]) * above(r, 0, true), true, true);
}

RLX_G_KERNEL(sample, struct rlx_k_sample, 256)
{
	SHARED(double, smem, [MAX_WARPS]);
	SHARED(double, chunk, [256]);
	const int64_t *count = RLX_G_PTR(const int64_t, a.call);
	struct weights r = { RLX_G_PTR(const float, a.x) + blockIdx.x * a.n,
			     (double *)env.scratch + blockIdx.x * a.n, smem, chunk, a.n };
	int64_t at = sample_row(a, r, count ? *count : 0, blockIdx.x);

	if (threadIdx.x)
		return;
	if (at < 0 && blockIdx.x < live_checked(env, a.live))
		*RLX_G_PTR(int32_t, a.bad) = 1;
	RLX_G_PTR(int64_t, a.y)[blockIdx.x] = at < 0 ? 0 : at;
}
#endif
