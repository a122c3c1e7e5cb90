// SPDX-License-Identifier: MIT
/* What the ONNX test cases take for the expected value. */
#include "selftests/lib/onnx_case.h"
#include "selftests/lib/rlx_test.h"

static bool matches(double got, double want)
{
	return onnx_value_matches(got, want, 1e-3, 1e-5);
}

TEST(numbers_match_within_the_tolerance)
{
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < 1000; i++) {
		double want = rlx_test_uniform(&seed, -100, 100);
		double tol = 1e-5 + 1e-3 * fabs(want);

		CHECKF(matches(want + 0.99 * tol, want), "%g", want);
		CHECKF(!matches(want + 1.01 * tol, want), "%g", want);
		CHECKF(!matches(want - 1.01 * tol, want), "%g", want);
		CHECKF(!matches(INFINITY, want) && !matches(NAN, want), "%g", want);
	}
}

TEST(infinity_matches_itself_only)
{
	CHECK(matches(INFINITY, INFINITY));
	CHECK(matches(-INFINITY, -INFINITY));
	CHECK(!matches(-INFINITY, INFINITY));
	CHECK(!matches(INFINITY, -INFINITY));
	CHECK(!matches(0, INFINITY));
	CHECK(!matches(3.4e38, INFINITY));
	CHECK(!matches(NAN, -INFINITY));
}

TEST(nan_matches_nan_only)
{
	CHECK(matches(NAN, NAN));
	CHECK(!matches(0, NAN));
	CHECK(!matches(INFINITY, NAN));
}

TEST_MAIN()
