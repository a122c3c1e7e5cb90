// SPDX-License-Identifier: MIT
/*
 * Fourier transforms and what is made of them: numbers that are known, transforms of random
 * lengths against sums in double, there and back, and filters and windows as their sources have
 * them.
 */
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static void want_all(struct rig *r, unsigned int k, const double *v, int64_t n, double tol)
{
	int64_t i;

	for (i = 0; i < n; i++)
		rig_want(r, k, i, v[i], tol);
}

EVERYWHERE(fft_of_four)
{
	static const float x[] = { 1, 0, 2, 0, 3, 0, 4, 0 };
	static const double y[] = { 10, 0, -2, 2, -2, 0, -2, -2 };
	static const double ortho[] = { 5, 0, -1, 1, -1, 0, -1, -1 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 4, 2), x), f = rlx_emit(r->g, fft, .x = v);
	int64_t i;

	rig_output(r, f);
	rig_output(r, rlx_emit(r->g, fft, .x = f, .inverse = true));
	rig_output(r, rlx_emit(r->g, fft, .x = v, .norm = RLX_FFT_ORTHO));
	rig_run(r);
	want_all(r, 0, y, 8, 1e-6);
	for (i = 0; i < 8; i++)
		rig_want(r, 1, i, (double)x[i], 1e-6);
	want_all(r, 2, ortho, 8, 1e-6);
}

EVERYWHERE(rfft_and_back)
{
	static const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	static const double three[] = { 6, 0, -1.5, 0.866025403784 };
	static const double eight[] = {
		36, 0, -4, 9.656854249492, -4, 4, -4, 1.656854249492, -4, 0,
	};
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 8), x), f;
	int64_t i;

	f = rlx_emit(r->g, rfft, .x = v, .n = RLX_INTS(3));
	rig_output(r, f);
	rig_output(r, rlx_emit(r->g, rfft, .x = v));
	rig_output(r, rlx_emit(r->g, irfft, .x = f, .n = RLX_INTS(3)));
	rig_run(r);
	want_all(r, 0, three, 4, 1e-6);
	want_all(r, 1, eight, 10, 1e-6);
	for (i = 0; i < 3; i++)
		rig_want(r, 2, i, (double)x[i], 1e-6);
}

/* sum |X|^2 of [1, 2, 3, 4]: 120, gradient 2 n x */
TEST(gradient_of_energy)
{
	static const float x[] = { 1, 2, 3, 4 };
	struct rig r;
	rlx_value v, f, d;
	int64_t i;

	rig_init(&r, NULL);
	v = rig_input(&r, rlx_type(RLX_F32, 4), x);
	f = rlx_emit(r.g, fft, .x = rlx_emit(r.g, pad, .x = rlx_emit(r.g, reshape, .x = v, .shape =
		     RLX_INTS(4, 1)), .pads = RLX_INTS(0, 0, 0, 1)));
	f = rlx_emit(r.g, reduce, .x = rlx_emit(r.g, mul, .a = f, .b = f));
	rlx_vjp(r.g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(f),
				       .wrt = RLX_VALUES(v) }, &d);
	rig_output(&r, f);
	rig_output(&r, d);
	rig_run(&r);
	rig_want(&r, 0, 0, 120, 1e-5);
	for (i = 0; i < 4; i++)
		rig_want(&r, 1, i, 8 * (i + 1), 1e-5);
	rig_fini(&r);
}

/* Element @k of the sum, in double. */
static void plain(const struct rig *r, int64_t n, int64_t k, double *re, double *im)
{
	int64_t j;

	*re = *im = 0;
	for (j = 0; j < n; j++) {
		double a = 6.283185307179586477 * (double)(j * k % n) / (double)n;
		double x = rig_in(r, 0, 2 * j), y = rig_in(r, 0, 2 * j + 1);

		*re += x * cos(a) + y * sin(a);
		*im += y * cos(a) - x * sin(a);
	}
}

/* Some elements of transforms of random lengths, primes among them; the error is the class's. */
TEST(random_lengths)
{
	static const int64_t fixed[] = { 1, 17, 97, 4096, 65537, 1 << 20, 1000003, 2 * 32749 };
	uint64_t seed = rlx_test_seed();
	unsigned int c, s;

	for (c = 0; c < 24; c++) {
		double length = exp2(rlx_test_uniform(&seed, 0, 17));
		int64_t n = c < 8 ? fixed[c] : (int64_t)length, k;
		double re, im, tol;
		rlx_value x;
		struct rig r;

		rig_init(&r, "cpu");
		x = rig_random(&r, rlx_type(RLX_F32, n, 2), -1, 1);
		rig_output(&r, rlx_emit(r.g, fft, .x = x));
		rig_run(&r);
		/* rms of an element is sqrt(2 n / 3); 4 of the usual errors */
		tol = 4 * 1e-7 * (log2((double)n) + 1) * sqrt((double)n);
		for (s = 0; s < 3; s++) {
			k = (int64_t)(rlx_test_rand(&seed) % (uint64_t)n);
			plain(&r, n, k, &re, &im);
			CHECKF(hypot(rig_get(&r, 0, 2 * k) - re, rig_get(&r, 0, 2 * k + 1) - im) <=
			       tol, "element %lld of %lld: %g + %g i, not %g + %g i",
			       (long long)k, (long long)n, rig_get(&r, 0, 2 * k),
			       rig_get(&r, 0, 2 * k + 1), re, im);
		}
		rig_fini(&r);
	}
}

/* Of real lines, @have numbers of @n, all elements: as of complex ones, and back. */
static void check_real(enum rlx_dtype dt, int64_t lines, int64_t n, int64_t have)
{
	const double eps = dt == RLX_F64 ? 1.2e-15 : 6e-7;
	const int64_t bins = n / 2 + 1;
	const double tol = eps * (log2((double)n) + 2) * sqrt((double)n);
	rlx_value x, y, z;
	struct rig r;

	rig_init(&r, "cpu");
	x = rig_random(&r, rlx_type(dt, lines, have), -1, 1);
	y = rlx_emit(r.g, rfft, .x = x, .n = RLX_INTS(n));
	rig_output(&r, y);
	z = rlx_emit(r.g, reshape, .x = x, .shape = RLX_INTS(lines, have, 1));
	z = rlx_emit(r.g, pad, .x = z, .pads = RLX_INTS(0, 0, 0, 0, 0, 1));
	rig_output(&r, rlx_emit(r.g, fft, .x = z, .n = RLX_INTS(n)));
	rig_output(&r, rlx_emit(r.g, irfft, .x = y, .n = RLX_INTS(n)));
	rig_run(&r);
	for (int64_t i = 0; i < lines * bins * 2; i++)
		rig_want(&r, 0, i, rig_get(&r, 1, i / (2 * bins) * 2 * n + i % (2 * bins)), tol);
	for (int64_t i = 0; i < lines * n; i++)
		rig_want(&r, 2, i, i % n < have ? rig_in(&r, 0, i / n * have + i % n) : 0,
			 tol / sqrt((double)n));
	rig_fini(&r);
}

TEST(real_lines)
{
	static const int64_t fixed[][2] = { { 149, 11 }, { 10007, 40 }, { 2003, 1000 } };
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 40; c++) {
		const int64_t lines = c % 3 ? 1 : 1 + (int64_t)(rlx_test_rand(&seed) % 12);
		const int64_t n = c < 3 ? fixed[c][0] : (int64_t)exp2(rlx_test_uniform(&seed, 1,
										       15));
		const int64_t have = c < 3 ? fixed[c][1] : c % 4 < 2 ? n :
				     1 + (int64_t)(rlx_test_rand(&seed) % (uint64_t)(n + 9));

		check_real(c % 2 ? RLX_F64 : RLX_F32, lines, n, have);
	}
}

/* Lines of @n of which @have numbers are there: elements of all of them against sums, and back. */
static void check_lines(uint64_t *seed, enum rlx_dtype dt, int64_t lines, int64_t n, int64_t have)
{
	const double tol = (dt == RLX_F64 ? 1.2e-15 : 6e-7) * (log2((double)n) + 2) *
			   sqrt((double)n);
	rlx_value x, y;
	struct rig r;

	rig_init(&r, "cpu");
	x = rig_random(&r, rlx_type(dt, lines, have, 2), -1, 1);
	y = rlx_emit(r.g, fft, .x = x, .n = RLX_INTS(n));
	rig_output(&r, y);
	rig_output(&r, rlx_emit(r.g, fft, .x = y, .inverse = true));
	rig_run(&r);
	for (int64_t l = 0; l < lines; l++) {
		int64_t k = (int64_t)(rlx_test_rand(seed) % (uint64_t)n);
		double re = 0, im = 0;

		for (int64_t j = 0; j < n && j < have; j++) {
			double a = 6.283185307179586477 * (double)(j * k % n) / (double)n;
			double p = rig_in(&r, 0, 2 * (l * have + j));
			double q = rig_in(&r, 0, 2 * (l * have + j) + 1);

			re += p * cos(a) + q * sin(a);
			im += q * cos(a) - p * sin(a);
		}
		rig_want(&r, 0, 2 * (l * n + k), re, tol);
		rig_want(&r, 0, 2 * (l * n + k) + 1, im, tol);
	}
	for (int64_t i = 0; i < lines * n * 2; i++)
		rig_want(&r, 1, i, i / 2 % n < have ?
			 rig_in(&r, 0, i / (2 * n) * 2 * have + i % (2 * n)) : 0,
			 tol / sqrt((double)n));
	rig_fini(&r);
}

/* Lines of powers of two, and of 3 and 5 times these, by any number: cut, padded or neither. */
TEST(lines_of_powers_of_two)
{
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 72; c++) {
		const int64_t times = c < 44 ? 1 : c < 58 ? 3 : 5;
		const int64_t n = times << (c < 44 ? c / 4 + 1 : (c - 44) % 14 / 2 + 4);
		const int64_t lines = 1 + (int64_t)(rlx_test_rand(&seed) % (c % 4 < 2 ? 3 : 40));
		const int64_t have = c % 5 ? n : 1 + (int64_t)(rlx_test_rand(&seed) %
							       (uint64_t)(n + 9));

		check_lines(&seed, c % 2 ? RLX_F64 : RLX_F32, lines, n, have);
	}
}

/* Lengths of primes up to 13 alone: passes of 9 and 15, first, between and last. */
TEST(lines_of_small_primes)
{
	static const int64_t prime[] = { 2, 3, 3, 3, 5, 5, 7, 11, 13 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 60; c++) {
		const double most = rlx_test_uniform(&seed, 4, 14);
		int64_t n = 1, p, lines;

		while (n < (int64_t)exp2(most)) {
			p = prime[rlx_test_rand(&seed) % (sizeof(prime) / sizeof(prime[0]))];
			n *= p;
		}
		lines = 1 + (int64_t)(rlx_test_rand(&seed) % (c % 4 < 2 ? 3 : 20));
		check_lines(&seed, c % 2 ? RLX_F64 : RLX_F32, lines, n, n);
	}
}

/* The first prime from @n on. */
static int64_t prime_from(int64_t n)
{
	int64_t p = 2;

	for (n = n < 2 ? 2 : n; p * p <= n; p++)
		if (n % p == 0) {
			n++;
			p = 1;
		}
	return n;
}

/* Multiples of primes, by chirps and by what else there is: complex and real, cut or padded. */
TEST(lines_of_primes)
{
	static const int64_t times[] = { 1, 1, 1, 2, 2, 3, 4, 6, 15, 16 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 80; c++) {
		const enum rlx_dtype dt = c % 2 ? RLX_F64 : RLX_F32;
		const int64_t by = times[rlx_test_rand(&seed) % (sizeof(times) / sizeof(times[0]))];
		const double most = c % 10 ? 13 : 17;
		const int64_t about = (int64_t)exp2(rlx_test_uniform(&seed, 3, most));
		const int64_t n = by * prime_from(about / by);
		const int64_t lines = 1 + (int64_t)(rlx_test_rand(&seed) % (c % 4 < 2 && c % 10 ?
									    30 : 3));
		const int64_t have = c % 5 ? n : 1 + (int64_t)(rlx_test_rand(&seed) %
							       (uint64_t)(n + 9));

		if (c % 3)
			check_lines(&seed, dt, lines, n, have);
		else
			check_real(dt, lines, n, have);
	}
}

/* Along a middle axis, lines side by side or not: as along the last one, transposed. */
TEST(middle_axis)
{
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 30; c++) {
		const enum rlx_dtype dt = c % 2 ? RLX_F64 : RLX_F32;
		const double eps = dt == RLX_F64 ? 1.2e-15 : 6e-7;
		const int64_t outer = 1 + (int64_t)(rlx_test_rand(&seed) % 40);
		const int64_t inner = 1 + (int64_t)(rlx_test_rand(&seed) % 40);
		const int64_t length = (int64_t)exp2(rlx_test_uniform(&seed, 1, c % 5 ? 7 : 11.5));
		const int64_t n = c % 3 ? length : prime_from(length);
		const double tol = eps * (log2((double)n) + 2) * sqrt((double)n);
		rlx_value x, y;
		struct rig r;

		rig_init(&r, "cpu");
		x = rig_random(&r, rlx_type(dt, outer, n, inner, 2), -1, 1);
		rig_output(&r, rlx_emit(r.g, fft, .x = x, .axes = RLX_INTS(1)));
		y = rlx_emit(r.g, transpose, .x = x, .perm = RLX_INTS(0, 2, 1, 3));
		y = rlx_emit(r.g, fft, .x = y, .axes = RLX_INTS(2));
		rig_output(&r, rlx_emit(r.g, transpose, .x = y, .perm = RLX_INTS(0, 2, 1, 3)));
		rig_run(&r);
		for (int64_t i = 0; i < outer * n * inner * 2; i++)
			rig_want(&r, 0, i, rig_get(&r, 1, i), tol);
		rig_fini(&r);
	}
}

/* Element @i of a wave of @k periods in @n, @by itself at its first */
static double wave(double by, int64_t i, int64_t k, int64_t n, double part)
{
	return by * cos(2 * acos(-1) * ((double)(i * k % n) / (double)n + part));
}

/* One number near the end of f32's range: its spectrum, and what it is the spectrum of */
static void far_line(int64_t n, uint64_t *seed)
{
	const double x = 2.3e38, line = x;	/* by sqrt(2) still in it */
	int64_t half = n / 2, at = (int64_t)(rlx_test_rand(seed) % (uint64_t)n), k = at / 2;
	float *data = calloc((size_t)n + 2, sizeof(float));
	rlx_value v;
	struct rig r;

	CHECK(data);
	rig_init(&r, "cpu");
	data[at] = (float)x;
	rig_output(&r, rlx_emit(r.g, rfft, .x = rig_input(&r, rlx_type(RLX_F32, n), data)));
	data[at] = 0;
	data[2 * k] = (float)line;
	v = rig_input(&r, rlx_type(RLX_F32, half + 1, 2), data);
	rig_output(&r, rlx_emit(r.g, irfft, .x = v, .n = RLX_INTS(n)));
	rig_run(&r);
	for (int64_t i = 0; i <= half; i++) {
		CHECK(fabs(rig_get(&r, 0, 2 * i) - wave(x, i, at, n, 0)) <= 1e-6 * x);
		CHECK(fabs(rig_get(&r, 0, 2 * i + 1) - wave(x, i, at, n, 0.25)) <= 1e-6 * x);
	}
	for (int64_t i = 0; i < n; i++)
		CHECK(fabs(rig_get(&r, 1, i) - wave(line * (k ? 2 : 1) / (double)n, i, k, n, 0)) <=
		      2e-6 * line / (double)n);
	rig_fini(&r);
	free(data);
}

TEST(lines_near_the_end_of_the_range)
{
	static const int64_t sizes[] = { 4, 6, 8, 30, 64, 96, 480, 1000, 2048, 20000, 1 << 18 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int i = 0; i < 5 * 11; i++)
		far_line(sizes[i % 11], &seed);
}

/* Beyond what a block of a GPU holds: composite, and by a chirp. */
EVERYWHERE(long_lines)
{
	static const int64_t length[] = { 20000, 20011 };
	unsigned int c, s;
	double re, im;
	int64_t k;

	for (c = 0; c < 2; c++) {
		rlx_value x = rig_random(r, rlx_type(RLX_F32, length[c], 2), -1, 1);

		rig_output(r, rlx_emit(r->g, fft, .x = x));
		rig_run(r);
		for (s = 0; s < 4; s++) {
			k = (int64_t)(rlx_test_rand(&r->seed) % (uint64_t)length[c]);
			plain(r, length[c], k, &re, &im);
			re -= rig_get(r, 0, 2 * k);
			im -= rig_get(r, 0, 2 * k + 1);
			CHECKF(hypot(re, im) <= 1e-3, "element %lld of %lld is off by %g",
			       (long long)k, (long long)length[c], hypot(re, im));
		}
		rig_reset(r);
	}
}

EVERYWHERE(log_mel_of_two_bands)
{
	static const float x[] = { 2, 0, 1, 1, 0.5f, 0 }, f[] = { 1, 0, 0, 0, 0.5f, 0.5f };
	static const float far[] = { 2e5f, 0, 0, 0, 0, 0, 0.2f, 0, 1e-6f, 0, 0, 0 };
	static const double one[] = { 1.150515, 1.012788 };
	static const double clip[] = { 3.650515, 1.650515, 1.650515, 1.650515 };
	static const double frame[] = { 3.650515, 1.650515, 0.650515, -1.349485 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 3, 2), x);
	rlx_value w = rig_input(r, rlx_type(RLX_F32, 2, 3), f);
	rlx_value u = rig_input(r, rlx_type(RLX_F32, 2, 3, 2), far);

	rig_output(r, rlx_emit(r->g, log_mel, .x = v, .filters = w));
	rig_output(r, rlx_emit(r->g, log_mel, .x = u, .filters = w));
	rig_output(r, rlx_emit(r->g, log_mel, .x = u, .filters = w, .per_frame = true));
	rig_run(r);
	want_all(r, 0, one, 2, 1e-5);
	want_all(r, 1, clip, 4, 1e-5);
	want_all(r, 2, frame, 4, 1e-5);
}

/* Hertz of Slaney's mel scale: 200 / 3 for one up to 1 kHz, then a factor of 6.4 for 27. */
static double hertz(double mel)
{
	return mel < 15 ? mel * 200 / 3 : 1000 * pow(6.4, (mel - 15) / 27);
}

/* Energy of frame @f of the reflected audio at bin @k, by a sum. */
static double energy(const struct rig *r, int64_t n, int64_t f, int64_t k)
{
	const double turn = 6.283185307179586477 / 400;
	double re = 0, im = 0, x;
	int64_t i, at;

	for (i = 0; i < 400; i++) {
		at = f * 160 + i - 200;
		at = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
		x = rig_in(r, 0, at) * (0.5 - 0.5 * cos(turn * (double)i));
		re += x * cos(turn * (double)(i * k % 400));
		im -= x * sin(turn * (double)(i * k % 400));
	}
	return re * re + im * im;
}

enum { SAMPLES = 1700, MOST_MELS = 128, FRAMES = SAMPLES / 160, BINS = 201 };

/* What Whisper computes, step by step in double; librosa's filters. */
static void whisper(const struct rig *r, int64_t mels, double m[MOST_MELS][FRAMES])
{
	static double e[FRAMES][BINS];
	const double last = 15 + 27 * log(8) / log(6.4);
	double lo, mid, hi, hz, up, down, top = -10;
	int64_t f, k, b;

	for (f = 0; f < FRAMES; f++)
		for (k = 0; k < BINS; k++)
			e[f][k] = energy(r, SAMPLES, f, k);
	for (b = 0; b < mels; b++) {
		lo = hertz(last * (double)b / (double)(mels + 1));
		mid = hertz(last * (double)(b + 1) / (double)(mels + 1));
		hi = hertz(last * (double)(b + 2) / (double)(mels + 1));
		for (f = 0; f < FRAMES; f++) {
			double sum = 0;

			for (k = 0; k < BINS; k++) {
				hz = (double)k * 40;
				up = (hz - lo) / (mid - lo);
				down = (hi - hz) / (hi - mid);
				sum += e[f][k] * fmax(0, fmin(up, down)) * 2 / (hi - lo);
			}
			m[b][f] = log10(fmax(sum, 1e-10));
			top = fmax(top, m[b][f]);
		}
	}
	for (b = 0; b < mels; b++)
		for (f = 0; f < FRAMES; f++)
			m[b][f] = (fmax(m[b][f], top - 8) + 4) / 4;
}

static void want_whisper(struct rig *r, rlx_value audio, int32_t mels)
{
	static double m[MOST_MELS][FRAMES];
	int64_t b, f;

	rig_output(r, rlx_emit(r->g, whisper_mel, .audio = audio, .mels = mels));
	rig_run(r);
	whisper(r, mels, m);
	for (b = 0; b < mels; b++)
		for (f = 0; f < FRAMES; f++)
			CHECKF(fabs(rig_get(r, 0, b * FRAMES + f) - m[b][f]) <= 2e-6,
			       "band %lld of frame %lld: %.7g, not %.7g", (long long)b, (long long)f,
			       rig_get(r, 0, b * FRAMES + f), m[b][f]);
	rig_reset(r);
}

EVERYWHERE(whisper_of_noise)
{
	want_whisper(r, rig_random(r, rlx_type(RLX_F32, SAMPLES), -0.3, 0.3), 80);
	want_whisper(r, rig_random(r, rlx_type(RLX_F32, SAMPLES), -0.3, 0.3), 128);
}

/* A loud tone, by which bins of 1e-8 of its energy stand; they count as much. */
EVERYWHERE(whisper_of_a_tone)
{
	float x[SAMPLES];
	double hz, up;
	int64_t i;

	for (int32_t mels = 80; mels <= 128; mels += 48) {
		hz = rlx_test_uniform(&r->seed, 100, 4000);
		up = rlx_test_uniform(&r->seed, 0, 2e4);
		for (i = 0; i < SAMPLES; i++) {
			double t = (double)i / 16000;

			x[i] = (float)(0.9 * sin(6.283185307179586477 * t * (hz + up * t)));
		}
		want_whisper(r, rig_input(r, rlx_type(RLX_F32, SAMPLES), x), mels);
	}
}

/* A signal comes back from its frames, but for the ends that no window covers. */
EVERYWHERE(stft_and_back)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 2, 200), -1, 1);
	rlx_value w = rig_random(r, rlx_type(RLX_F32, 24), 0.5, 1.5), y;
	int64_t i;

	y = rlx_emit(r->g, stft, .x = x, .window = w, .n_fft = 32, .hop = 8, .center = true,
		     .mode = RLX_PAD_REFLECT);
	rig_output(r, rlx_emit(r->g, istft, .x = y, .window = w, .n_fft = 32, .hop = 8,
			       .center = true, .length = 200));
	rig_run(r);
	for (i = 0; i < 400; i++)
		rig_want(r, 0, i, rig_in(r, 0, i), 1e-5);
}

/* An axis of nothing, filled up to any length, is zeros: no kernel is needed, nor an evaluation. */
TEST(transforms_of_nothing)
{
	static const int64_t lengths[] = { 1, 2, 5, 1000, 65536 };
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = "cpu", .flags = RLX_COMPILE_NATIVE,
	};
	unsigned int i, op;
	int64_t k, n;
	float *y;

	for (i = 0; i < 5; i++)
		for (op = 0; op < 3; op++) {
			struct rlx_graph *g = rlx_graph_new("nothing");
			struct rlx_type in = op == 1 ? rlx_type(RLX_F32, 3, 0) :
						       rlx_type(RLX_F32, 3, 0, 2), t;
			rlx_value x = rlx_input(g, "x", in);
			struct rlx_ints len = RLX_INTS(lengths[i]);
			struct rlx_session *s;

			x = op == 0 ? rlx_emit(g, fft, .x = x, .n = len) :
			    op == 1 ? rlx_emit(g, rfft, .x = x, .n = len) :
				      rlx_emit(g, irfft, .x = x, .n = len);
			rlx_output(g, "y", x);
			t = *rlx_type_of(g, x);
			n = rlx_type_count(&t);
			y = malloc((size_t)n * sizeof(*y));
			CHECK(y);
			s = rig_session(g, &o);
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", in, y));
			CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
			CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
			for (k = 0; k < n; k++)
				CHECKF(y[k] == 0, "op %u of %lld: [%lld] is %g", op,
				       (long long)lengths[i], (long long)k, (double)y[k]);
			rlx_session_free(s);
			free(y);
		}
}

EVERYWHERE(bad_transforms)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4), -1, 1);

	rlx_emit(r->g, fft, .x = x);
	CHECK_EQ(rlx_graph_error(r->g)->status, RLX_ESHAPE);
}

TEST_MAIN()
