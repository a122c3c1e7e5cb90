// SPDX-License-Identifier: MIT
/* Top-k and sorting against a plain selection. */
#include "kernels/sortk.h"
#include "selftests/kernels/kcheck.h"

static const uint8_t types[] = { RLX_F32, RLX_F64, RLX_I64, RLX_U8,
				 RLX_BF16, RLX_U64 };

/* x before y: -1, 0, 1 by value; NaN is the largest. */
static int order(const void *p, int type, int64_t i, int64_t j)
{
	double x = 0, y = 0;

	switch (type) {
	case RLX_F32:
		x = ((const float *)p)[i];
		y = ((const float *)p)[j];
		break;
	case RLX_F64:
		x = ((const double *)p)[i];
		y = ((const double *)p)[j];
		break;
	case RLX_BF16:
		x = kc_from_bf16(((const uint16_t *)p)[i]);
		y = kc_from_bf16(((const uint16_t *)p)[j]);
		break;
	case RLX_U8:
		x = ((const uint8_t *)p)[i];
		y = ((const uint8_t *)p)[j];
		break;
	case RLX_U64: {
		uint64_t a = ((const uint64_t *)p)[i];
		uint64_t b = ((const uint64_t *)p)[j];

		return a < b ? -1 : a > b;
	}
	default: {
		int64_t a = ((const int64_t *)p)[i];
		int64_t b = ((const int64_t *)p)[j];

		return a < b ? -1 : a > b;
	}
	}
	if (x != x || y != y)
		return (x != x) - (y != y);
	return x < y ? -1 : x > y;
}

static void one(const struct rlx_kernels *k, uint64_t *seed)
{
	int type = types[rlx_test_rand(seed) % 6];
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	struct rlx_k_topk a = { .outer = kc_pick(seed, 1, 4),
		.n = kc_pick(seed, 1, 300), .inner = kc_pick(seed, 1, 4),
		.type = (uint8_t)type, .idx_type = RLX_I64,
		.smallest = kc_pick(seed, 0, 1) };
	int64_t total = a.outer * a.n * a.inner;
	struct kc_buf x = kc_buf_new((size_t)total * size, size), v, i;

	a.k = kc_pick(seed, 0, 2) ? kc_pick(seed, 1, a.n) : a.n / 10;
	v = kc_buf_new((size_t)(a.outer * a.k * a.inner) * size, size);
	i = kc_buf_new((size_t)(a.outer * a.k * a.inner) * 8, 8);
	for (int64_t e = 0; e < total; e++) {
		int64_t r = kc_pick(seed, -20, 20);
		float f = r == 20 ? NAN : r == 19 ? -0.0f : (float)r;
		double d = f;
		uint16_t h = kc_to_bf16(f);
		uint64_t u = rlx_test_rand(seed) << 33 ^ (uint64_t)r;

		memcpy((char *)x.p + (size_t)e * size,
		       type == RLX_F32 ? (void *)&f :
		       type == RLX_F64 ? (void *)&d :
		       type == RLX_BF16 ? (void *)&h : (void *)&u, size);
	}
	a.x = x.p;
	a.values = v.p;
	a.idx = i.p;
	kc_run(k->topk, &a, (size_t)(a.outer * a.inner), rlx_k_topk_scratch(&a),
	       seed);
	for (int64_t u = 0; u < a.outer * a.inner && a.k; u++) {
		int64_t base = u / a.inner * a.n * a.inner + u % a.inner;
		int64_t out = u / a.inner * a.k * a.inner + u % a.inner;
		const int64_t *idx = (const int64_t *)i.p + out;
		int64_t worst = idx[(a.k - 1) * a.inner], beaten = 0;

		for (int64_t j = 0; j < a.k; j++) {
			int64_t at = idx[j * a.inner], o = 0;

			CHECK(at >= 0 && at < a.n);
			CHECK(!memcmp((char *)v.p + (size_t)(out + j *
				      a.inner) * size, (char *)x.p +
				      (size_t)(base + at * a.inner) * size,
				      size));
			if (j == 0)
				continue;
			o = order(x.p, type, base + idx[(j - 1) * a.inner] *
				  a.inner, base + at * a.inner);
			o = a.smallest ? -o : o;
			CHECKF(o > 0 || (o == 0 &&
					 idx[(j - 1) * a.inner] < at),
			       "place %lld of %lld", (long long)j,
			       (long long)a.k);
		}
		for (int64_t j = 0; j < a.n; j++) {
			int o = order(x.p, type, base + j * a.inner,
				      base + worst * a.inner);

			o = a.smallest ? -o : o;
			beaten += o > 0 || (o == 0 && j < worst);
		}
		CHECK_EQ(beaten, a.k - 1);
	}
	kc_buf_free(&x);
	kc_buf_free(&v);
	kc_buf_free(&i);
}

TEST(topk_and_sort)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST_MAIN()
