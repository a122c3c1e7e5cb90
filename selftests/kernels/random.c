// SPDX-License-Identifier: MIT
/* Philox against its published vectors; fills and sampling by their rules. */
#include "kernels/random.h"
#include "selftests/kernels/kcheck.h"

TEST(philox_known_answers)
{
	static const uint32_t kat[3][10] = {
		{ 0, 0, 0, 0, 0, 0,
		  0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
		{ ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
		  0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
		{ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822,
		  0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
	};

	for (int i = 0; i < 3; i++) {
		uint32_t w[4];

		rlx_k_philox(kat[i], kat[i] + 4, w);
		for (int j = 0; j < 4; j++)
			CHECK(w[j] == kat[i][6 + j]);
	}
}

TEST(fills_are_the_same_at_every_level)
{
	enum { N = 9001 };
	static float first[2][N], y[N];
	uint64_t seed = rlx_test_seed();

	for (int normal = 0; normal < 2; normal++)
		for (int l = 0; l < kc_levels(); l++) {
			int64_t call = 7;
			struct rlx_k_rng a = { y, &call, N, -5, normal ? 1 : -1,
					       normal ? 2 : 3, normal,
					       RLX_F32 };
			double mean = 0, var = 0;

			kc_run(rlx_kernels_get((enum rlx_isa)l)->rng, &a,
			       (N + RLX_K_RNG_UNIT - 1) / RLX_K_RNG_UNIT, 0,
			       &seed);
			if (l == 0)
				memcpy(first[normal], y, sizeof(y));
			CHECK(!memcmp(first[normal], y, sizeof(y)));
			for (int i = 0; i < N; i++)
				mean += (double)y[i] / N;
			for (int i = 0; i < N; i++)
				var += pow((double)y[i] - mean, 2) / N;
			CHECKF(fabs(mean - 1) < 0.1, "mean %g", mean);
			CHECKF(fabs(var - (normal ? 4 : 16.0 / 12)) < 0.3,
			       "variance %g", var);
			for (int i = 0; i < N && !normal; i++)
				CHECK(y[i] >= -1 && y[i] <= 3);
		}
	CHECK(memcmp(first[0], first[1], sizeof(y)));
}

TEST(a_call_changes_the_stream)
{
	float y[2][64];
	int64_t call = 0;
	struct rlx_k_rng a = { y[0], &call, 64, 0, 0, 1, false, RLX_F32 };

	rlx_kernels_get(RLX_ISA_BASE)->rng(&a, 0, 1, NULL);
	call = 1;
	a.y = y[1];
	rlx_kernels_get(RLX_ISA_BASE)->rng(&a, 0, 1, NULL);
	CHECK(memcmp(y[0], y[1], sizeof(y[0])));
}

/* Which tokens may be drawn, by sorting; ties to the smaller index. */
static void allowed(const float *x, int n, const struct rlx_k_sample *a,
		    bool *ok)
{
	double sum = 0, run = 0;
	int order[64], kept = n;

	for (int i = 0; i < n; i++) {
		int j = i;

		for (; j > 0 && x[order[j - 1]] < x[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
		ok[i] = false;
	}
	if (a->top_k > 0 && a->top_k < n)
		kept = (int)a->top_k;
	for (int i = 0; i < kept; i++)
		sum += exp((double)x[order[i]] / (double)a->temperature);
	for (int i = 0; i < kept; i++) {
		if (a->top_p > 0 && a->top_p < 1 &&
		    run >= (double)a->top_p * sum)
			break;
		ok[order[i]] = true;
		run += exp((double)x[order[i]] / (double)a->temperature);
	}
}

TEST(samples_come_from_the_kept_tokens)
{
	enum { N = 50, ROWS = 400 };
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 20; t++) {
			static float x[ROWS][N];
			int64_t y[ROWS], drawn[N] = { 0 };
			bool ok[N];
			int32_t bad = 0;
			struct rlx_k_sample a = { x[0], NULL, y, &bad, ROWS, N,
				t, kc_pick(&seed, 0, 20), kc_pick(&seed, 0, 2) ?
				0.8f : 0, 0.9f, ROWS };

			for (int i = 0; i < N; i++) {
				x[0][i] = (float)kc_pick(&seed, -8, 8) / 2;
				for (int r = 1; r < ROWS; r++)
					x[r][i] = x[0][i];
			}
			kc_run(rlx_kernels_get((enum rlx_isa)l)->sample, &a,
			       ROWS, rlx_k_sample_scratch(&a), &seed);
			allowed(x[0], N, &a, ok);
			for (int r = 0; r < ROWS; r++) {
				CHECKF(y[r] >= 0 && y[r] < N && ok[y[r]],
				       "token %lld of top_k %lld top_p %g",
				       (long long)y[r], (long long)a.top_k,
				       (double)a.top_p);
				drawn[y[r]]++;
			}
			CHECK(a.top_k == 1 || drawn[y[0]] < ROWS);
		}
}

TEST(temperature_zero_is_argmax)
{
	float x[3][5] = { { 1, -3, 3, 3, 2 }, { -INFINITY, -1, -2, -1, 0 },
			  { 0, NAN, 1, 2, 3 } };
	int64_t y[3];
	int32_t bad = 0;
	struct rlx_k_sample a = { x[0], NULL, y, &bad, 2, 5, 0, 0, 0, 0, 3 };
	char scratch[4096] __attribute__((aligned(64)));

	rlx_kernels_get(RLX_ISA_BASE)->sample(&a, 0, 2, scratch);
	CHECK_EQ(y[0], 2);
	CHECK_EQ(y[1], 4);
	CHECK_EQ(bad, 0);
	rlx_kernels_get(RLX_ISA_BASE)->sample(&a, 2, 3, scratch);
	CHECK_EQ(y[2], 0);
	CHECK_EQ(bad, 1);
}

/* The draw itself: in order from the largest, at the given quantile. */
TEST(draws_by_quantile_from_the_largest)
{
	enum { N = 40 };
	uint64_t seed = rlx_test_seed();

	for (int t = 0; t < 300; t++) {
		float x[N];
		int64_t y;
		int32_t bad = 0;
		struct rlx_k_sample a = { x, NULL, &y, &bad, 1, N, t, 0, 0,
					  1.5f, 1 };
		const uint32_t ctr[4] = { 0 }, key[2] = { (uint32_t)t, 0 };
		char scratch[4096] __attribute__((aligned(64)));
		double all = 0, sum = 0;
		uint32_t w[4];
		int order[N], i;

		for (i = 0; i < N; i++) {
			int j = i;

			x[i] = (float)kc_pick(&seed, -9, 9) / 2;
			for (; j > 0 && x[order[j - 1]] < x[i]; j--)
				order[j] = order[j - 1];
			order[j] = i;
			all += exp((double)x[i] / 1.5);
		}
		rlx_k_philox(ctr, key, w);
		for (i = 0; i < N - 1; i++) {
			sum += exp((double)x[order[i]] / 1.5);
			if (sum > (w[0] >> 8) * 0x1p-24 * all)
				break;
		}
		rlx_kernels_get(RLX_ISA_V4)->sample(&a, 0, 1, scratch);
		CHECK_EQ(y, order[i]);
	}
}

TEST(frequencies_follow_the_softmax)
{
	enum { ROWS = 20000 };
	static float x[ROWS][3];
	static int64_t y[ROWS];
	int count[3] = { 0 };
	int32_t bad = 0;
	struct rlx_k_sample a = { x[0], NULL, y, &bad, ROWS, 3, 11, 0, 0, 1, ROWS };
	char scratch[4096] __attribute__((aligned(64)));

	for (int r = 0; r < ROWS; r++) {
		x[r][0] = 0;
		x[r][1] = logf(2);
		x[r][2] = logf(5);
	}
	rlx_kernels_get(RLX_ISA_BASE)->sample(&a, 0, ROWS, scratch);
	for (int r = 0; r < ROWS; r++)
		count[y[r]]++;
	CHECK(abs(count[0] - ROWS / 8) < 300);
	CHECK(abs(count[1] - ROWS / 4) < 400);
	CHECK(abs(count[2] - ROWS * 5 / 8) < 400);
}

TEST_MAIN()
