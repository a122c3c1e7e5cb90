// SPDX-License-Identifier: MIT
/* UTF-8 decoding and the unpacked Unicode tables. */
#include "io/tokenizer/utf8.h"
#include "selftests/lib/rlx_test.h"

static bool scalar(uint32_t cp)
{
	return cp < 0x110000 && !(cp >= 0xd800 && cp < 0xe000);
}

TEST(every_scalar_round_trips)
{
	uint8_t buf[4];
	uint32_t cp, back;

	for (cp = 0; cp < 0x110000; cp++) {
		unsigned int n = rlx_utf8_put(buf, cp), k;

		k = rlx_utf8_get(buf, buf + n, &back);
		if (!scalar(cp)) {
			CHECK_EQ(k, 0);
			continue;
		}
		CHECK_EQ(k, n);
		CHECK_EQ(back, cp);
		CHECK_EQ(rlx_utf8_len(buf[0]), n);
		CHECK_EQ(rlx_utf8_next(buf, &back), n);
		CHECK_EQ(back, cp);
		for (k = 1; k < n; k++)
			CHECK_EQ(rlx_utf8_get(buf, buf + k, &back), 0);
	}
}

/* By the definition: accept what encodes some scalar value, and only that. */
TEST(malformed_is_refused)
{
	uint32_t a, b, cp;
	uint8_t buf[4], again[4];

	for (a = 0x80; a < 0x100; a++)
		for (b = 0; b < 0x100; b++) {
			unsigned int n;

			buf[0] = (uint8_t)a;
			buf[1] = (uint8_t)b;
			buf[2] = buf[3] = 0x80;
			n = rlx_utf8_get(buf, buf + 4, &cp);
			if (n) {
				CHECK(scalar(cp));
				CHECK_EQ(rlx_utf8_put(again, cp), n);
				CHECK(!memcmp(buf, again, n));
			}
		}
	CHECK_EQ(rlx_utf8_check((const uint8_t *)"abcdefghij\xc3", 11), 10);
	CHECK_EQ(rlx_utf8_check((const uint8_t *)"abcdefgh\xe2\x82\xac", 11), 11);
	CHECK_EQ(rlx_utf8_check((const uint8_t *)"abcdefgh\xe2\x82\xac", 10), 8);
}

/* Counts by category as the Unicode 16.0 data file has them. */
TEST(category_counts)
{
	static const uint32_t want[RLX_UC_N] = {
		819533, 1858, 2258, 31, 404, 136477, 2020, 468, 13,
		760, 236, 915, 10, 27, 79, 77, 12, 10, 640, 950,
		63, 125, 7376, 17, 1, 1, 65, 170, 137468, 2048,
	};
	uint32_t got[RLX_UC_N] = { 0 }, cp, i;

	rlx_uc_init();
	for (cp = 0; cp < 0x110000; cp++)
		got[rlx_uc_gc(cp)]++;
	for (i = 0; i < RLX_UC_N; i++)
		CHECKF(got[i] == want[i], "category %u: %u, not %u", i, got[i],
		       want[i]);
}

TEST(known_properties)
{
	uint32_t out[RLX_UC_DECOMP_MAX];

	rlx_uc_init();
	CHECK_EQ(rlx_uc_gc('A'), RLX_UC_LU);
	CHECK_EQ(rlx_uc_gc(0x1c5), RLX_UC_LT);
	CHECK_EQ(rlx_uc_gc(0x4e00), RLX_UC_LO);
	CHECK_EQ(rlx_uc_gc(0x301), RLX_UC_MN);
	CHECK_EQ(rlx_uc_gc(0x1f600), RLX_UC_SO);
	CHECK_EQ(rlx_uc_gc(0x10ffff), RLX_UC_CN);
	CHECK_EQ(rlx_uc_gc(0x10fffd), RLX_UC_CO);
	CHECK(rlx_uc_is_space(0x3000) && rlx_uc_is_space(0x85) &&
	      !rlx_uc_is_space(0x200b) && !rlx_uc_is_space('a'));
	CHECK(rlx_uc_is_word('_') && rlx_uc_is_word(0xe9) &&
	      rlx_uc_is_word(0x24b6) && !rlx_uc_is_word('-'));
	CHECK(rlx_uc_bert_punct('$') && rlx_uc_bert_punct(0x3002) &&
	      !rlx_uc_bert_punct(0xa3) && !rlx_uc_bert_punct('0'));
	CHECK(rlx_uc_bert_control(0x200d) && rlx_uc_bert_control(7) &&
	      !rlx_uc_bert_control(0x378));
	CHECK(rlx_uc_bert_accent(0x301) && !rlx_uc_bert_accent('a') &&
	      !rlx_uc_bert_accent(0x903));
	CHECK_EQ(rlx_uc_lower(0x130, out), 2);
	CHECK(out[0] == 'i' && out[1] == 0x307);
	CHECK_EQ(rlx_uc_lower(0x3a3, out), 1);
	CHECK_EQ(out[0], 0x3c3);
	CHECK_EQ(rlx_uc_lower(0x1e9e, out), 1);
	CHECK_EQ(out[0], 0xdf);
	CHECK_EQ(rlx_uc_ccc(0x301), 230);
	CHECK_EQ(rlx_uc_ccc(0x94d), 9);
	CHECK_EQ(rlx_uc_ccc('a'), 0);
	CHECK_EQ(rlx_uc_decompose(0x1e69, false, out), 3);
	CHECK(out[0] == 's' && out[1] == 0x323 && out[2] == 0x307);
	CHECK_EQ(rlx_uc_decompose(0xfb01, false, out), 1);
	CHECK_EQ(rlx_uc_decompose(0xfb01, true, out), 2);
	CHECK(out[0] == 'f' && out[1] == 'i');
	CHECK_EQ(rlx_uc_decompose(0xfdfa, true, out), 18);
	CHECK_EQ(rlx_uc_decompose(0x2126, false, out), 1);
	CHECK_EQ(out[0], 0x3a9);
	CHECK_EQ(rlx_uc_compose('e', 0x301), 0xe9);
	CHECK_EQ(rlx_uc_compose('e', 'e'), 0);
	CHECK_EQ(rlx_uc_compose(0x915, 0x93c), 0);	/* excluded */
}

/* Composition undoes decomposition, except where it is excluded. */
TEST(compose_inverts_decompose)
{
	uint32_t cp, out[RLX_UC_DECOMP_MAX], composed = 0, hangul = 0;
	unsigned int n, i;

	rlx_uc_init();
	for (cp = 0; cp < 0x110000; cp++) {
		uint32_t c;

		n = rlx_uc_decompose(cp, false, out);
		CHECK(n >= 1 && n <= 4);
		for (i = 0; i < n; i++)
			CHECK_EQ(rlx_uc_decompose(out[i], false,
						  (uint32_t[18]){ 0 }), 1);
		if (n == 1)
			continue;
		for (c = out[0], i = 1; i < n && c; i++)
			c = rlx_uc_compose(c, out[i]);
		if (c == cp) {
			composed++;
			hangul += cp >= 0xac00 && cp < 0xd7a4;
		}
	}
	CHECK_EQ(hangul, 11172);
	/* the primary composites of Unicode 11 besides Hangul */
	CHECK_EQ(composed - hangul, 940);
}

TEST_MAIN()
