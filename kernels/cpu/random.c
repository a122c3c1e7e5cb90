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

	rlx_k_philox(ctr, key, w);
}

static double unit24(uint32_t w)
{
	return (double)(w >> 8) * 0x1p-24;
}

static double unit53(uint32_t a, uint32_t b)
{
	return ((double)(a >> 5) * 0x1p26 + (double)(b >> 6)) * 0x1p-53;
}

/* The numbers of block @at; returns how many: 2 for f64, else 4. */
static size_t draw_block(const struct rlx_k_rng *a, int64_t call, uint64_t at,
			 double v[4])
{
	const size_t n = a->type == RLX_F64 ? 2 : 4;
	uint32_t w[4];

	block(a->seed, call, at, w);
	for (size_t i = 0; i < n; i++)
		v[i] = n == 2 ? unit53(w[2 * i], w[2 * i + 1]) : unit24(w[i]);
	for (size_t i = 0; i < n && !a->normal; i++)
		v[i] = a->a + (a->b - a->a) * v[i];
	for (size_t i = 0; i < n && a->normal; i += 2) {
		double r = sqrt(-2 * log(1 - v[i])), t = TWO_PI * v[i + 1];

		v[i] = a->a + a->b * (r * cos(t));
		v[i + 1] = a->a + a->b * (r * sin(t));
	}
	return n;
}

void RLX_K(rng)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_rng *a = args;
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->type);
	const size_t per = a->type == RLX_F64 ? 2 : 4;
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F64, a->type);
	const int64_t call = a->call ? *a->call : 0;
	size_t i = begin * RLX_K_RNG_UNIT, n = end * RLX_K_RNG_UNIT;
	double v[64];

	(void)scratch;
	for (n = n < (size_t)a->n ? n : (size_t)a->n; i < n; i += 64) {
		size_t k = n - i < 64 ? n - i : 64;

		for (size_t j = 0; j < k; j += per)
			draw_block(a, call, (i + j) / per, v + j);
		store((char *)a->y + i * size, v, k);
	}
}

/* Floats in their order as integers, the two zeros equal. */
static uint32_t key_of(float x)
{
	uint32_t b;

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
 * Where the running sum, of 1 each or of the weights, from the largest key down
 * and among equals by index, first reaches @goal (or exceeds it, if @past): the
 * key is found byte by byte, its equals are counted off. Returns the index of
 * that item, the last one if there is none.
 */
static int64_t find(const struct row *r, double goal, bool weigh, bool past)
{
	const int64_t n = r->a->n;
	uint32_t prefix = 0, mask = 0;
	int64_t at = -1;
	double sum = 0;

	for (int shift = 24; shift >= 0; shift -= 8) {
		int b = 255, low = 0;

		memset(r->hist, 0, 256 * sizeof(*r->hist));
		for (int64_t i = 0; i < n; i++)
			if (r->p[i] > 0 && (r->key[i] & mask) == prefix)
				r->hist[r->key[i] >> shift & 255] +=
					weigh ? r->p[i] : 1;
		while (low < 255 && r->hist[low] == 0)
			low++;
		for (; b > low; b--) {
			double next = sum + r->hist[b];

			if (past ? next > goal : next >= goal)
				break;
			sum = next;
		}
		prefix |= (uint32_t)b << shift;
		mask |= (uint32_t)255 << shift;
	}
	for (int64_t i = 0; i < n; i++) {
		if (r->key[i] != prefix || r->p[i] == 0)
			continue;
		at = i;
		sum += weigh ? r->p[i] : 1;
		if (past ? sum > goal : sum >= goal)
			break;
	}
	return at;
}

/* Drop what comes after item @last. */
static void cut(const struct row *r, int64_t last)
{
	const uint32_t key = r->key[last];

	for (int64_t i = 0; i < r->a->n; i++)
		if (r->key[i] < key || (r->key[i] == key && i > last))
			r->p[i] = 0;
}

/* The first of the largest, or -1 if there is a NaN. */
static int64_t largest(const float *x, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 0; i < n; i++) {
		if (x[i] != x[i])
			return -1;
		if (x[i] > x[best])
			best = i;
	}
	return best;
}

static double total(const struct row *r)
{
	double s = 0;

	for (int64_t i = 0; i < r->a->n; i++)
		s += r->p[i];
	return s;
}

/* The column drawn, or -1. */
static int64_t sample_row(const struct row *r, const float *x, uint64_t row)
{
	const struct rlx_k_sample *a = r->a;
	const double temperature = (double)a->temperature;
	int64_t best = largest(x, a->n);
	uint32_t w[4];

	if (best < 0 || temperature == 0)
		return best;
	for (int64_t i = 0; i < a->n; i++) {
		r->p[i] = exp(((double)x[i] - (double)x[best]) / temperature);
		r->key[i] = key_of(x[i]);
		if (r->p[i] != r->p[i])
			return -1;
	}
	if (a->top_k > 0 && a->top_k < a->n)
		cut(r, find(r, (double)a->top_k, false, false));
	if (a->top_p > 0 && a->top_p < 1)
		cut(r, find(r, (double)a->top_p * total(r), true, false));
	block(a->seed, a->call ? *a->call : 0, row, w);
	return find(r, unit24(w[0]) * total(r), true, true);
}

void RLX_K(sample)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_sample *a = args;
	struct row r = { .a = a, .hist = scratch };

	r.p = r.hist + 256;
	r.key = (uint32_t *)(void *)(r.p + a->n);
	for (size_t u = begin; u < end; u++) {
		int64_t got = sample_row(&r, a->x + u * (size_t)a->n, u);

		a->y[u] = got < 0 ? 0 : got;
		if (got < 0 && (int64_t)u < a->live)
			__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
	}
}
