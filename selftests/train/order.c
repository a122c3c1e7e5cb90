// SPDX-License-Identifier: MIT
/* Permutations are bijections; crc32c is what RFC 3720 says; DEFLATE decodes what it should. */
#include "selftests/lib/rlx_test.h"
#include "train/crc32c.h"
#include "train/order.h"

static void check_bijection(uint64_t n, uint64_t seed)
{
	uint8_t *seen = calloc(n, 1);
	struct order o;
	uint64_t i, k;

	order_init(&o, n, seed, 3, 1);
	for (i = 0; i < n; i++) {
		k = order_at(&o, i);
		CHECKF(k < n, "n %llu: %llu", (unsigned long long)n, (unsigned long long)k);
		CHECKF(!seen[k]++, "n %llu: %llu comes twice", (unsigned long long)n,
		       (unsigned long long)k);
	}
	free(seen);
}

TEST(every_length_up_to_4097_is_permuted_one_to_one)
{
	uint64_t s = rlx_test_seed(), n;

	for (n = 1; n <= 4097; n++)
		check_bijection(n, rlx_test_rand(&s));
}

TEST(long_ones_too)
{
	uint64_t s = rlx_test_seed(), i, n;

	for (i = 0; i < 5; i++) {
		n = 5000 + rlx_test_rand(&s) % 2000000;
		check_bijection(n, rlx_test_rand(&s));
	}
}

TEST(places_of_huge_sets_differ_and_are_inside)
{
	static const uint64_t ns[] = { 1ull << 32, (1ull << 32) + 1, 1ull << 50, UINT64_MAX };
	struct order o;
	uint64_t i, k, last = UINT64_MAX;

	for (i = 0; i < 4; i++) {
		order_init(&o, ns[i], 1, 0, 0);
		for (k = 0; k < 1000; k++) {
			CHECK(order_at(&o, k) < ns[i]);
			CHECK(order_at(&o, k) != last);
			last = order_at(&o, k);
		}
	}
}

/* Counts of where each of 8 goes over many seeds: chi-square of 7 degrees, 1e-6 is 40.5. */
TEST(every_place_is_as_likely)
{
	enum { N = 8, RUNS = 16000 };
	uint64_t s = rlx_test_seed(), i, k;
	unsigned int count[N][N] = { 0 };
	struct order o;
	double chi;

	for (i = 0; i < RUNS; i++) {
		order_init(&o, N, rlx_test_rand(&s), i, 0);
		for (k = 0; k < N; k++)
			count[k][order_at(&o, k)]++;
	}
	for (k = 0; k < N; k++) {
		for (chi = 0, i = 0; i < N; i++) {
			double d = count[k][i] - (double)RUNS / N;

			chi += d * d / ((double)RUNS / N);
		}
		CHECKF(chi < 46, "place %llu: chi-square %g of 7 degrees", (unsigned long long)k,
		       chi);
	}
}

TEST(epochs_and_seeds_differ)
{
	struct order a, b, c;
	unsigned int i, ab = 0, ac = 0;

	order_init(&a, 1000, 1, 0, 1);
	order_init(&b, 1000, 1, 1, 1);
	order_init(&c, 1000, 2, 0, 1);
	for (i = 0; i < 1000; i++) {
		ab += order_at(&a, i) == order_at(&b, i);
		ac += order_at(&a, i) == order_at(&c, i);
	}
	CHECKF(ab < 20 && ac < 20, "%u and %u of 1000 stay", ab, ac);
}

TEST(crc32c_of_known_texts)
{
	uint8_t zeros[32] = { 0 };

	CHECK_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
	CHECK_EQ(crc32c(0, zeros, 32), 0x8a9136aau);	/* RFC 3720, B.4 */
	CHECK_EQ(crc32c_portable(0, "123456789", 9), 0xe3069283u);
}

TEST(crc32c_of_any_length_cut_anywhere)
{
	uint64_t s = rlx_test_seed(), i, n, cut;
	uint8_t *p = malloc(70000);

	for (i = 0; i < 70000; i++)
		p[i] = (uint8_t)rlx_test_rand(&s);
	for (i = 0; i < 300; i++) {
		uint64_t at = rlx_test_rand(&s) % 64;
		uint32_t all, a, b;

		n = rlx_test_rand(&s) % (i < 100 ? 64 : 69900);
		cut = n ? rlx_test_rand(&s) % n : 0;
		all = crc32c(0, p + at, n);
		CHECK_EQ(all, crc32c_portable(0, p + at, n));
		CHECK_EQ(all, crc32c(crc32c(0, p + at, cut), p + at + cut, n - cut));
		a = crc32c(0, p + at, cut);
		b = crc32c(0, p + at + cut, n - cut);
		CHECK_EQ(all, crc32c_join(a, b, n - cut));
	}
	free(p);
}

TEST_MAIN()
