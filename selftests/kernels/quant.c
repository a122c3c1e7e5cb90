// SPDX-License-Identifier: MIT
/* Quantising by tensor, axis and block, and dynamically. */
#include "kernels/quant.h"
#include "selftests/kernels/kcheck.h"

static const uint8_t small[] = { RLX_U8, RLX_I8, RLX_U16, RLX_I16,
				 RLX_I32 };
static const double lows[] = { 0, -128, 0, -32768, -0x1p31 };
static const double highs[] = { 255, 127, 65535, 32767, 0x1p31 - 1 };

static int64_t get(const void *p, int type, int64_t i)
{
	switch (type) {
	case RLX_U8: return ((const uint8_t *)p)[i];
	case RLX_I8: return ((const int8_t *)p)[i];
	case RLX_U16: return ((const uint16_t *)p)[i];
	case RLX_I16: return ((const int16_t *)p)[i];
	}
	return ((const int32_t *)p)[i];
}

static void put(void *p, int type, int64_t i, int64_t v)
{
	size_t size = rlx_k_type_size((enum rlx_dtype)type);

	memcpy((char *)p + (size_t)i * size, &v, size);
}

/* The number of the scale of element e. */
static int64_t scale_at(const struct rlx_k_quant *a, int64_t e)
{
	return e / a->inner / a->axis * a->stride[0] +
	       e / a->inner % a->axis / a->block * a->stride[1] +
	       e % a->inner * a->stride[2];
}

/* Per tensor, per axis, or in blocks; returns the number of scales. */
static int64_t shape(struct rlx_k_quant *a, uint64_t *seed)
{
	int64_t kind = kc_pick(seed, 0, 2), groups;

	a->outer = kc_pick(seed, 1, 4);
	a->axis = kc_pick(seed, 1, 9);
	a->inner = kc_pick(seed, 0, 1) ? 1 : kc_pick(seed, 1, 700);
	a->block = 1;
	if (kind == 0) {
		a->inner *= a->outer * a->axis;
		a->outer = a->axis = 1;
		return 1;
	}
	if (a->inner == 1)
		a->axis *= kc_pick(seed, 1, 800);
	if (kind == 1) {
		a->stride[1] = 1;
		return a->axis;
	}
	a->block = kc_pick(seed, 1, 5);
	groups = kc_pick(seed, 1, 40);
	a->axis = a->block * groups;
	a->stride[0] = groups * a->inner;
	a->stride[1] = a->inner;
	a->stride[2] = 1;
	return a->outer * groups * a->inner;
}

static void one(const struct rlx_kernels *k, uint64_t *seed)
{
	int t = (int)(rlx_test_rand(seed) % 5), type = small[t];
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	struct rlx_k_quant a = { .x_type = RLX_F32, .y_type = (uint8_t)type,
				 .scale_type = RLX_F32 }, b;
	int64_t scales = shape(&a, seed), n = a.outer * a.axis * a.inner;
	struct kc_buf x = kc_buf_new((size_t)n * 4, 4);
	struct kc_buf s = kc_buf_new((size_t)scales * 4, 4);
	struct kc_buf z = kc_buf_new((size_t)scales * size, size);
	struct kc_buf y = kc_buf_new((size_t)n * size, size);

	kc_fill(x.p, (size_t)n, -300, 300, seed);
	kc_fill(s.p, (size_t)scales, 0.5, 2, seed);
	for (int64_t i = 0; i < n; i += 3)	/* ties */
		((float *)x.p)[i] = ((float *)s.p)[scale_at(&a, i)] *
				    ((float)kc_pick(seed, -9, 9) + 0.5f);
	for (int64_t i = 0; i < scales; i++)
		put(z.p, type, i, t == 4 ? 0 : kc_pick(seed, (int64_t)lows[t],
						       (int64_t)highs[t]));
	a.x = x.p;
	a.y = y.p;
	a.scale = s.p;
	a.zp = kc_pick(seed, 0, 2) ? z.p : NULL;
	kc_run(k->quantize, &a, rlx_k_quant_units(&a), 0, seed);
	for (int64_t i = 0; i < n; i++) {
		float v = ((float *)x.p)[i] / ((float *)s.p)[scale_at(&a, i)];
		double w = nearbyint((double)v);

		w += a.zp ? (double)get(z.p, type, scale_at(&a, i)) : 0;
		w = fmin(fmax(w, lows[t]), highs[t]);
		CHECKF(get(y.p, type, i) == (int64_t)w,
		       "%g quantises to %lld, not %g", (double)v,
		       (long long)get(y.p, type, i), w);
	}
	b = a;
	b.x = y.p;
	b.y = x.p;
	b.x_type = a.y_type;
	b.y_type = RLX_F32;
	kc_run(k->dequantize, &b, rlx_k_quant_units(&b), 0, seed);
	for (int64_t i = 0; i < n; i++) {
		double w = (double)get(y.p, type, i) -
			   (a.zp ? (double)get(z.p, type, scale_at(&a, i)) : 0);

		w *= (double)((float *)s.p)[scale_at(&a, i)];
		CHECK(kc_ulp(((float *)x.p)[i], w) <= 1.5);
	}
	kc_buf_free(&x);
	kc_buf_free(&s);
	kc_buf_free(&z);
	kc_buf_free(&y);
}

TEST(quantize_and_back)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one(rlx_kernels_get((enum rlx_isa)l), &seed);
}

static void dynamic(const struct rlx_kernels *k, double lo, double hi,
		    uint64_t *seed)
{
	int64_t n = kc_pick(seed, 1, 40000);
	int64_t pieces = (n + RLX_K_RANGE_UNIT - 1) / RLX_K_RANGE_UNIT;
	struct kc_buf x = kc_buf_new((size_t)n * 4, 4);
	float range[6], scale, min = 0, max = 0;
	uint8_t zp;
	struct rlx_k_quant_range r = { x.p, range, n };
	struct rlx_k_quant_params p = { range, &scale, &zp, pieces };

	kc_fill(x.p, (size_t)n, lo, hi, seed);
	kc_run(k->quant_range, &r, (size_t)pieces, 0, seed);
	kc_run(k->quant_params, &p, 1, 0, seed);
	for (int64_t i = 0; i < n; i++) {
		min = fminf(min, ((float *)x.p)[i]);
		max = fmaxf(max, ((float *)x.p)[i]);
	}
	CHECK(fabsf(scale - (max - min) / 255) <= 1e-6f * scale);
	CHECK(fabsf((float)zp + min / scale) <= 0.50001f);
	kc_buf_free(&x);
}

TEST(dynamic_ranges)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 20; t++) {
			const struct rlx_kernels *k =
				rlx_kernels_get((enum rlx_isa)l);

			dynamic(k, -3, 5, &seed);
			dynamic(k, 1, 2, &seed);
			dynamic(k, -2, -1, &seed);
		}
}

TEST(rows_to_signed_bytes)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int64_t n = 1; n < 200; n += 13) {
			struct kc_buf x = kc_buf_new((size_t)(5 * n) * 4, 4);
			struct kc_buf y = kc_buf_new((size_t)(5 * n), 1);
			float scale[5];
			struct rlx_k_quant_rows a = { x.p, y.p, scale, 5, n };

			kc_fill(x.p, (size_t)(5 * n), -2, 1, &seed);
			memset(x.p, 0, (size_t)n * 4);
			kc_run(rlx_kernels_get((enum rlx_isa)l)->quant_rows,
			       &a, 5, 0, &seed);
			CHECK(scale[0] == 1);
			for (int64_t i = 0; i < 5 * n; i++) {
				float v = ((float *)x.p)[i] / scale[i / n];

				CHECK(((int8_t *)y.p)[i] ==
				      (int)nearbyintf(v));
				CHECK(fabsf(v) <= 127.0001f);
			}
			kc_buf_free(&x);
			kc_buf_free(&y);
		}
}

/* Any alignment and length, units in any order, up to the last of them. */
TEST(bytes_looked_up)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int i = 0; i < 60; i++) {
			size_t n = (size_t)kc_pick(&seed, i % 3 ? 1 : 4000, i % 3 ? 200 : 13000);
			size_t at = (size_t)kc_pick(&seed, 0, 63), j;
			struct kc_buf x = kc_buf_new(n + at, 1), y = kc_buf_new(n + at, 1);
			struct kc_buf t = kc_buf_new(256, 1);
			struct rlx_k_lookup a = { (uint8_t *)x.p + at, t.p, (uint8_t *)y.p + at, n };

			for (j = 0; j < n + at; j++)
				((uint8_t *)x.p)[j] = (uint8_t)kc_pick(&seed, 0, 255);
			for (j = 0; j < 256; j++)
				((uint8_t *)t.p)[j] = (uint8_t)kc_pick(&seed, 0, 255);
			memset(y.p, 0xa5, n + at);
			kc_run(rlx_kernels_get((enum rlx_isa)l)->lookup, &a,
			       (n + RLX_K_QUANT_UNIT - 1) / RLX_K_QUANT_UNIT, 0, &seed);
			for (j = 0; j < at; j++)
				CHECK(((uint8_t *)y.p)[j] == 0xa5);
			for (j = 0; j < n; j++)
				CHECK(a.y[j] == a.table[a.x[j]]);
			kc_buf_free(&x);
			kc_buf_free(&y);
			kc_buf_free(&t);
		}
}

TEST_MAIN()
