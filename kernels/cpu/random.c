// SPDX-License-Identifier: MIT
/* Philox fills and sampling. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/random.h"

rlx_k_fn RLX_K(rng), RLX_K(sample);

#define TWO_PI	6.28318530717958647693

static void block(int64_t seed, int64_t call, uint64_t at, uint32_t w[4])
{
	uint32_t ctr[4] = { (uint32_t)at, (uint32_t)(at >> 32),
			    (uint32_t)(uint64_t)call,
			    (uint32_t)((uint64_t)call >> 32) };
	uint32_t key[2] = { (uint32_t)(uint64_t)seed,
			    (uint32_t)((uint64_t)seed >> 32) };

	rlx_philox(ctr, key, w);
}

/* The four elements of block @at. */
static void four(const struct rlx_k_rng *a, int64_t call, uint64_t at,
		 double v[4])
{
	uint32_t w[4];

	block(a->seed, call, at, w);
	for (int i = 0; i < 4 && !a->normal; i++)
		v[i] = fma((double)(w[i] >> 8) * 0x1p-24, a->b - a->a, a->a);
	for (int i = 0; i < 4 && a->normal; i += 2) {
		double r = sqrt(-2 * log((double)((w[i] >> 8) + 1) * 0x1p-24));
		double t = TWO_PI * ((double)(w[i + 1] >> 8) * 0x1p-24);

		v[i] = fma(a->b, r * cos(t), a->a);
		v[i + 1] = fma(a->b, r * sin(t), a->a);
	}
}

void RLX_K(rng)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_rng *a = args;
	const size_t size = rlx_k_type_size((enum rlx_k_type)a->type);
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F64, a->type);
	const int64_t call = a->call ? *a->call : 0;
	size_t i = begin * RLX_K_RNG_UNIT, n = end * RLX_K_RNG_UNIT;
	double v[64];

	(void)scratch;
	for (n = n < (size_t)a->n ? n : (size_t)a->n; i < n; i += 64) {
		size_t k = n - i < 64 ? n - i : 64;

		for (size_t j = 0; j < k; j += 4)
			four(a, call, (i + j) / 4, v + j);
		store((char *)a->y + i * size, v, k);
	}
}

/* Floats in their order as integers, the two zeros equal; NaN below all. */
static uint32_t key_of(float x)
{
	uint32_t b;

	if (x != x)
		return 0;
	if (x == 0)
		return 0x80000000;
	memcpy(&b, &x, 4);
	return b >> 31 ? ~b : b | 0x80000000;
}

struct row {
	const struct rlx_k_sample *a;
	double		*p;	/* weights; 0: dropped */
	uint32_t	*key;
	double		*hist;	/* 256 */
};

/*
 * Keep the best items until their measure (1 each, or their weight) reaches
 * @target: byte by byte, find the key at which it does, then count its equals
 * off in index order.
 */
static void keep_best(const struct row *r, double target, bool weigh)
{
	const int64_t n = r->a->n;
	uint32_t prefix = 0, mask = 0;
	double above = 0;

	for (int shift = 24; shift >= 0; shift -= 8) {
		int b = 255;

		memset(r->hist, 0, 256 * sizeof(*r->hist));
		for (int64_t i = 0; i < n; i++)
			if (r->p[i] > 0 && (r->key[i] & mask) == prefix)
				r->hist[r->key[i] >> shift & 255] +=
					weigh ? r->p[i] : 1;
		for (; b > 0 && above + r->hist[b] < target; b--)
			above += r->hist[b];
		prefix |= (uint32_t)b << shift;
		mask |= (uint32_t)255 << shift;
	}
	for (int64_t i = 0; i < n; i++) {
		if (r->key[i] > prefix || r->p[i] == 0)
			continue;
		if (r->key[i] == prefix && above < target)
			above += weigh ? r->p[i] : 1;
		else
			r->p[i] = 0;
	}
}

static int64_t largest(const float *x, int64_t n)
{
	int64_t best = -1;

	for (int64_t i = 0; i < n; i++)
		if (x[i] == x[i] && (best < 0 || x[i] > x[best]))
			best = i;
	return best < 0 ? 0 : best;
}

static double total(const struct row *r)
{
	double s = 0;

	for (int64_t i = 0; i < r->a->n; i++)
		s += r->p[i];
	return s;
}

static int64_t draw(const struct row *r, uint64_t row)
{
	const struct rlx_k_sample *a = r->a;
	double sum = 0, goal, u;
	int64_t last = 0;
	uint32_t w[4];

	block(a->seed, a->call ? *a->call : 0, row, w);
	u = (double)(((uint64_t)w[0] << 32 | w[1]) >> 11) * 0x1p-53;
	goal = u * total(r);
	for (int64_t i = 0; i < a->n; i++) {
		if (r->p[i] == 0)
			continue;
		sum += r->p[i];
		last = i;
		if (sum > goal)
			return i;
	}
	return last;
}

static int64_t sample_row(const struct row *r, const float *x, uint64_t row)
{
	const struct rlx_k_sample *a = r->a;
	int64_t best = largest(x, a->n);

	if (!(a->temperature > 0))
		return best;
	for (int64_t i = 0; i < a->n; i++) {
		double d = (double)x[i] - (double)x[best];

		/* inf - inf where the largest is infinite: its equals are 1 */
		d = x[i] == x[best] ? 0 : d;
		r->p[i] = d == d ? exp(d / (double)a->temperature) : 0;
		r->key[i] = key_of(x[i]);
	}
	if (a->top_k > 0 && a->top_k < a->n)
		keep_best(r, (double)a->top_k, false);
	if (a->top_p > 0 && a->top_p < 1)
		keep_best(r, (double)a->top_p * total(r), true);
	return draw(r, row);
}

void RLX_K(sample)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_sample *a = args;
	struct row r = { .a = a, .hist = scratch };

	r.p = r.hist + 256;
	r.key = (uint32_t *)(void *)(r.p + a->n);
	for (size_t u = begin; u < end; u++)
		a->y[u] = a->n ? sample_row(&r, a->x + u * (size_t)a->n, u) : 0;
}
