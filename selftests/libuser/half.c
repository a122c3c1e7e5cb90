// SPDX-License-Identifier: MIT
/* Fast conversions to 16-bit floats against those from the formats' definition. */
#include "base/half.h"
#include "ir/eval.h"
#include "selftests/lib/rlx_test.h"

/* Every sign, exponent and leading bits, with what lies around a tie behind them. */
TEST(narrowing_rounds_once)
{
	static const uint32_t low[] = { 0, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001,
					0x7fff, 0x8000, 0x8001, 0xffff };
	uint32_t high, i, u, want, got;
	float f;

	for (high = 0; high < 1 << 16; high++)
		for (i = 0; i < sizeof(low) / sizeof(low[0]); i++) {
			u = high << 16 | low[i];
			memcpy(&f, &u, sizeof(f));
			want = rlx_minifloat_from(RLX_MF_F16, (double)f, 0);
			got = rlx_f32_to_f16(f);
			CHECKF(got == want, "%a as f16 is %x, not %x", (double)f, got, want);
			want = rlx_minifloat_from(RLX_MF_BF16, (double)f, 0);
			got = rlx_f32_to_bf16(f);
			CHECKF(got == want || isnan(f), "%a as bf16 is %x, not %x", (double)f,
			       got, want);
			CHECKF(!isnan(f) || isnan(rlx_bf16_to_f32((uint16_t)got)),
			       "NaN as bf16 is %x", got);
		}
}

enum { MANY = (1 << 16) + 8 };

/* All of @n by the op that weights are cast by, and one by one. */
static void compare(const float *x, int64_t n, enum rlx_dtype to)
{
	static uint16_t y[MANY];
	const struct rlx_op_cast a = { .to = to };
	struct rlx_tensor in = { rlx_type(RLX_F32, n), (void *)(uintptr_t)x };
	struct rlx_tensor out = { rlx_type(to, n), y };
	struct rlx_error err = { 0 };
	uint16_t want;
	int64_t i;

	memset(y, 0x5a, sizeof(y));
	CHECK_EQ(rlx_op_eval(&(struct rlx_eval){
		.err = &err, .def = rlx_op_defs[RLX_OP_cast], .args = &a, .n_in = 1, .in = &in,
		.n_out = 1, .out = &out }), 0);
	for (i = 0; i < n; i++) {
		want = to == RLX_F16 ? rlx_f32_to_f16(x[i]) : rlx_f32_to_bf16(x[i]);
		CHECKF(y[i] == want, "%lld of %lld: %a is %x, not %x", (long long)i,
		       (long long)n, (double)x[i], y[i], want);
	}
	CHECK_EQ(y[n], 0x5a5a);
}

TEST(many_at_once_are_narrowed_as_one_is)
{
	static const uint32_t low[] = { 0, 0xfff, 0x1000, 0x1001, 0x3000, 0x8000, 0xffff };
	static float x[MANY];
	uint32_t i, k, u;

	for (k = 0; k < sizeof(low) / sizeof(low[0]); k++) {
		for (i = 0; i < 1 << 16; i++) {
			u = i << 16 | low[k];
			memcpy(&x[i], &u, sizeof(u));
		}
		compare(x, 1 << 16, RLX_F16);
		compare(x, 1 << 16, RLX_BF16);
	}
	for (i = 1; i < 10; i++) {
		compare(x + 0x4700, i, RLX_F16);
		compare(x + 0x7f7e, i, RLX_BF16);
	}
}

TEST_MAIN()
