// SPDX-License-Identifier: MIT
/*
 * Fourier transforms on the device against sums in double: lengths of each of its ways, there and
 * back, of complex and of real lines, along either axis.
 */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* A line of the input. */
struct line {
	const struct rig	*r;
	int64_t			 n, have, first, step;	/* step: from an element to the next */
	bool			 real;
};

/* Element @k of its transform. */
static void sum(const struct line *l, int64_t k, double *re, double *im)
{
	long double sum_re = 0, sum_im = 0;	/* in double it errs more than the device */

	for (int64_t j = 0; j < (l->have < l->n ? l->have : l->n); j++) {
		double a = 6.283185307179586477 * (double)((__int128)j * k % l->n) / (double)l->n;
		int64_t at = l->first + j * l->step;
		double x = rig_in(l->r, 0, l->real ? at : 2 * at);
		double y = l->real ? 0 : rig_in(l->r, 0, 2 * at + 1);

		sum_re += x * cos(a) + y * sin(a);
		sum_im += y * cos(a) - x * sin(a);
	}
	*re = (double)sum_re;
	*im = (double)sum_im;
}

struct drawn {
	int64_t		outer, have, inner, n;
	enum rlx_dtype	dtype;
	bool		real;
};

static double eps_of(enum rlx_dtype t)
{
	return t == RLX_F64 ? 4e-16 : t == RLX_F32 ? 2e-7 : t == RLX_F16 ? 1e-3 : 8e-3;
}

/* Forward against the sum in some places, and back: all that there was. */
static void check(uint64_t *seed, const struct drawn *d)
{
	const int64_t bins = d->real ? d->n / 2 + 1 : d->n, lines = d->outer * d->inner;
	const double eps = eps_of(d->dtype) * (log2((double)d->n) + 2);
	const int64_t pair = d->real ? 1 : 2;
	rlx_value x, y, z;
	struct rig r;

	rig_init(&r, "cuda");
	if (d->real) {
		x = rig_random(&r, rlx_type(d->dtype, d->outer, d->have, d->inner), -1, 1);
		y = rlx_emit(r.g, rfft, .x = x, .axes = RLX_INTS(1), .n = RLX_INTS(d->n));
		z = rlx_emit(r.g, irfft, .x = y, .axes = RLX_INTS(1), .n = RLX_INTS(d->n));
	} else {
		x = rig_random(&r, rlx_type(d->dtype, d->outer, d->have, d->inner, 2), -1, 1);
		y = rlx_emit(r.g, fft, .x = x, .axes = RLX_INTS(1), .n = RLX_INTS(d->n));
		z = rlx_emit(r.g, fft, .x = y, .axes = RLX_INTS(1), .inverse = true);
	}
	rig_output(&r, y);
	rig_output(&r, z);
	rig_run(&r);
	for (int s = 0; s < 6; s++) {
		const int64_t l = (int64_t)(rlx_test_rand(seed) % (uint64_t)lines);
		const int64_t k = s ? (int64_t)(rlx_test_rand(seed) % (uint64_t)bins) : bins - 1;
		const int64_t o = l / d->inner, i = l % d->inner;
		const int64_t at = (o * bins + k) * d->inner + i;
		const struct line line = { &r, d->n, d->have, o * d->have * d->inner + i,
					   d->inner, d->real };
		double re, im;

		sum(&line, k, &re, &im);
		re -= rig_get(&r, 0, 2 * at);
		im -= rig_get(&r, 0, 2 * at + 1);
		CHECKF(hypot(re, im) <= eps * sqrt((double)d->n), "%s%s %lldx%lldx%lld by %lld: "
		       "element %lld of line %lld is off by %g", d->real ? "real " : "",
		       rlx_dtype_name(d->dtype), (long long)d->outer, (long long)d->have,
		       (long long)d->inner, (long long)d->n, (long long)k, (long long)l,
		       hypot(re, im));
	}
	for (int64_t e = 0; e < d->outer * d->n * d->inner * pair; e++) {
		const int64_t j = e / (d->inner * pair) % d->n, o = e / (d->inner * pair * d->n);
		const int64_t rest = e % (d->inner * pair);
		const double want = j < d->have ?
			rig_in(&r, 0, (o * d->have + j) * d->inner * pair + rest) : 0;

		CHECKF(fabs(rig_get(&r, 1, e) - want) <= 2 * eps, "%s%s %lldx%lldx%lld by %lld and "
		       "back: %lld is %g, not %g", d->real ? "real " : "", rlx_dtype_name(d->dtype),
		       (long long)d->outer, (long long)d->have, (long long)d->inner,
		       (long long)d->n, (long long)e, rig_get(&r, 1, e), want);
	}
	rig_fini(&r);
}

TEST(known_lengths)
{
	static const struct drawn some[] = {
		{ 3, 16, 1, 16, RLX_F32 }, { 5, 1024, 1, 1024, RLX_F32 },
		{ 2, 62, 1, 62, RLX_F64 }, { 2, 125, 3, 125, RLX_F32 },
		{ 1, 100, 9, 100, RLX_F64 }, { 3, 64, 1, 64, RLX_F16 },
		{ 2, 64, 5, 64, RLX_BF16 }, { 3, 1, 2, 1, RLX_F32 },
		{ 3, 37, 1, 37, RLX_F32 }, { 2, 67, 6, 67, RLX_F64 },
		{ 3, 30, 1, 64, RLX_F32 }, { 3, 70, 2, 64, RLX_F32 },
		{ 3, 96, 1, 96, RLX_F32, true }, { 2, 95, 1, 96, RLX_F64, true },
		{ 2, 37, 4, 37, RLX_F32, true }, { 2, 74, 1, 74, RLX_F32, true },
		{ 3, 2, 1, 2, RLX_F32, true }, { 3, 12, 5, 12, RLX_F64, true },
		{ 1, 32768, 1, 32768, RLX_F32 }, { 2, 17000, 1, 16900, RLX_F64 },
		{ 1, 20011, 1, 20011, RLX_F32 }, { 1, 65536, 1, 65536, RLX_F32, true },
		{ 1, 34000, 1, 35937, RLX_F64, true }, { 1, 17017, 5, 17017, RLX_F32 },
		{ 1, 20011, 1, 20011, RLX_F32, true }, { 2, 2018, 1, 2018, RLX_F64, true },
		{ 1, 40022, 1, 40022, RLX_F32, true }, { 1, 32000, 3, 32768, RLX_F64, true },
		{ 9, 59, 1, 59, RLX_F32, true }, { 3, 40, 3, 149, RLX_F64, true },
		{ 2, 101, 1, 149, RLX_F32 }, { 2, 11, 1, 149, RLX_F32, true },
		{ 2, 200, 2, 149, RLX_F32, true }, { 40, 17, 1, 17, RLX_F64, true },
		{ 1, 400, 5, 394, RLX_F32, true }, { 2, 393, 1, 394, RLX_F32, true },
		{ 3, 0, 2, 16, RLX_F32 }, { 2, 0, 1, 15, RLX_F64, true },
	};
	uint64_t seed = rlx_test_seed();

	for (unsigned int i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		check(&seed, &some[i]);
}

TEST(drawn_lengths)
{
	uint64_t seed = rlx_test_seed();

	for (unsigned int i = 0; i < 16; i++) {
		const bool is_long = i >= 12;	/* several launches */
		struct drawn d = {
			.n = (int64_t)exp2(rlx_test_uniform(&seed, is_long ? 13 : 1,
							    is_long ? 16 : 12)),
			.outer = 1 + (int64_t)(rlx_test_rand(&seed) % (is_long ? 2 : 3)),
			.inner = 1 + (int64_t)(rlx_test_rand(&seed) % (is_long ? 2 : 6)),
			.dtype = i % 3 ? RLX_F32 : RLX_F64, .real = i % 2,
		};

		d.have = i % 4 ? d.n : 1 + (int64_t)(rlx_test_rand(&seed) % (uint64_t)(2 * d.n));
		check(&seed, &d);
	}
}

/* Of spectra that no real line has: what is imaginary of the mean and the middle does not count. */
static void check_back(uint64_t *seed, const struct drawn *d)
{
	const double eps = eps_of(d->dtype) * (log2((double)d->n) + 2);
	const int64_t lines = d->outer * d->inner;
	rlx_value x, y;
	struct rig r;

	rig_init(&r, "cuda");
	x = rig_random(&r, rlx_type(d->dtype, d->outer, d->have, d->inner, 2), -1, 1);
	y = rlx_emit(r.g, irfft, .x = x, .axes = RLX_INTS(1), .n = RLX_INTS(d->n));
	rig_output(&r, y);
	rig_run(&r);
	for (int s = 0; s < 8; s++) {
		const int64_t l = (int64_t)(rlx_test_rand(seed) % (uint64_t)lines);
		const int64_t j = s ? (int64_t)(rlx_test_rand(seed) % (uint64_t)d->n) : d->n - 1;
		const int64_t o = l / d->inner, i = l % d->inner;
		long double sum = 0;

		for (int64_t k = 0; k < d->have && 2 * k <= d->n; k++) {
			const double a = 6.283185307179586477 *
					 (double)((__int128)j * k % d->n) / (double)d->n;
			const int64_t at = 2 * ((o * d->have + k) * d->inner + i);
			const bool one = !k || 2 * k == d->n;

			sum += one ? rig_in(&r, 0, at) * cos(a) :
			       2 * (rig_in(&r, 0, at) * cos(a) - rig_in(&r, 0, at + 1) * sin(a));
		}
		sum /= (long double)d->n;
		CHECKF(fabs(rig_get(&r, 0, (o * d->n + j) * d->inner + i) - (double)sum) <=
		       eps * 2 / sqrt((double)d->n), "%s %lldx%lldx%lld back to %lld: element "
		       "%lld of line %lld is %g, not %g", rlx_dtype_name(d->dtype),
		       (long long)d->outer, (long long)d->have, (long long)d->inner,
		       (long long)d->n, (long long)j, (long long)l,
		       rig_get(&r, 0, (o * d->n + j) * d->inner + i), (double)sum);
	}
	rig_fini(&r);
}

TEST(half_spectra)
{
	static const struct drawn some[] = {
		{ 1, 9000, 2, 40000, RLX_F32 }, { 1, 20012, 1, 40022, RLX_F64 },
		{ 1, 700, 1, 20011, RLX_F32 }, { 2, 99, 3, 299, RLX_F64 },
		{ 3, 9, 1, 16, RLX_F32 }, { 2, 5, 5, 16, RLX_F64 }, { 2, 30, 1, 15, RLX_F32 },
		{ 2, 38, 1, 74, RLX_F32 }, { 3, 1, 1, 1, RLX_F32 }, { 2, 2, 3, 2, RLX_F32 },
		{ 2, 50, 1, 64, RLX_F16 },
		{ 1, 32769, 1, 65536, RLX_F32 }, { 1, 20000, 1, 35937, RLX_F64 },
		{ 1, 8193, 6, 16384, RLX_F32 }, { 1, 10006, 1, 20011, RLX_F32 },
	};
	uint64_t seed = rlx_test_seed();

	for (unsigned int i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		check_back(&seed, &some[i]);
}

/* A thread has a line: all lengths that it can be, of every kind; blocks that are not full. */
TEST(short_lines)
{
	static const enum rlx_dtype dtypes[] = { RLX_F64, RLX_F32, RLX_F16, RLX_BF16 };
	uint64_t seed = rlx_test_seed();

	for (int64_t n = 2; n <= 33; n++) {
		struct drawn d = { 1 + (int64_t)(rlx_test_rand(&seed) % 300), n, 1, n,
				   dtypes[rlx_test_rand(&seed) % 4], n % 2 };

		check(&seed, &d);
		d.real = !d.real;
		d.dtype = dtypes[rlx_test_rand(&seed) % 2];
		check(&seed, &d);
		d.have = n / 2 + 1;
		check_back(&seed, &d);
	}
	/* lines that alone fill a device */
	check(&seed, &(struct drawn){ 40001, 16, 1, 16, RLX_F32 });
	check(&seed, &(struct drawn){ 40007, 15, 1, 15, RLX_F64, true });
	check(&seed, &(struct drawn){ 33999, 30, 1, 30, RLX_F32, true });
}

TEST_MAIN()
