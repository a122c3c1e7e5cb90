// SPDX-License-Identifier: MIT
/* Fast conversions to 16-bit floats against those from the formats' definition. */
#include "base/half.h"
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

TEST_MAIN()
