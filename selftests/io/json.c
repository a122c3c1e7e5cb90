// SPDX-License-Identifier: MIT
/* The JSON reader and writer: what they take, refuse, and survive. */
#include <locale.h>

#include "base/alloc.h"
#include "base/json.h"
#include "selftests/lib/rlx_test.h"

static enum rlx_status parse(struct rlx_json *j, const char *s, size_t n,
			     struct rlx_error *err)
{
	/* an exact heap copy, so that a read beyond it shows under ASan */
	char *copy = malloc(n ? n : 1);
	enum rlx_status st;

	memset(err, 0, sizeof(*err));
	memcpy(copy, s, n);
	st = rlx_json_parse(j, copy, n, NULL, "t.json", err);
	memset(copy, 0xa5, n);	/* nothing may refer to it later */
	free(copy);
	return st;
}

TEST(valid_values)
{
	static const char text[] =
		" { \"a\" : [1, -0, 2.5e-3, 1E400, true, false, null],\n"
		"\"\\u0000k\\ud83d\\ude00\\n\\/\":\"\xc3\xa9\","
		"\"o\":{}, \"e\":[], \"big\":9223372036854775807,"
		"\"min\":-9223372036854775808,\"over\":9223372036854775808 }\r\n";
	struct rlx_json_iter it;
	struct rlx_error err;
	struct rlx_json j;
	uint32_t a;
	int64_t v;
	double d;

	CHECK_EQ(parse(&j, text, sizeof(text) - 1, &err), RLX_OK);
	CHECK_EQ(rlx_json_kind(&j, 0), RLX_JSON_OBJ);
	CHECK_EQ(j.node[0].len, 7);
	a = rlx_json_get(&j, 0, "a");
	CHECK_EQ(rlx_json_len(&j, a), 7);
	it = rlx_json_iter(&j, a);
	CHECK(rlx_json_next(&it) && rlx_json_int(&j, it.val, &v) && v == 1);
	CHECK(rlx_json_next(&it) && rlx_json_int(&j, it.val, &v) && v == 0);
	CHECK(rlx_json_double(&j, it.val, &d) && signbit(d));
	CHECK(rlx_json_next(&it) && !rlx_json_int(&j, it.val, &v));
	CHECK(rlx_json_double(&j, it.val, &d) && d == 2.5e-3);
	CHECK(rlx_json_next(&it) && rlx_json_double(&j, it.val, &d) && isinf(d));
	CHECK(rlx_json_next(&it) && j.node[it.val].truth == 1);
	CHECK(rlx_json_next(&it) && j.node[it.val].truth == 0);
	CHECK(rlx_json_next(&it) &&
	      rlx_json_kind(&j, it.val) == RLX_JSON_NULL);
	CHECK(!rlx_json_next(&it));
	it = rlx_json_iter(&j, 0);
	CHECK(rlx_json_next(&it) && rlx_json_next(&it));
	CHECK_EQ(rlx_json_len(&j, it.key), 8);
	CHECK(!memcmp(rlx_json_text(&j, it.key), "\0k\xf0\x9f\x98\x80\n/", 9));
	CHECK_STR(rlx_json_text(&j, it.val), "\xc3\xa9");
	CHECK(rlx_json_int(&j, rlx_json_get(&j, 0, "big"), &v) &&
	      v == INT64_MAX);
	CHECK(rlx_json_int(&j, rlx_json_get(&j, 0, "min"), &v) &&
	      v == INT64_MIN);
	CHECK(!rlx_json_int(&j, rlx_json_get(&j, 0, "over"), &v));
	CHECK(!rlx_json_int(&j, a, &v) && !rlx_json_double(&j, a, &d));
	CHECK_EQ(rlx_json_get(&j, 0, "absent"), 0);
	CHECK_EQ(rlx_json_get(&j, a, "absent"), 0);
	rlx_json_fini(&j);
}

TEST(scalars_at_the_top)
{
	static const char *ok[] = { "0", "-1", "1.0", "\"\"", "null", "true",
				    "[]", "{}", "1e5", "[[]]", "12345678" };
	struct rlx_error err;
	struct rlx_json j;
	size_t i;

	for (i = 0; i < sizeof(ok) / sizeof(*ok); i++) {
		CHECKF(!parse(&j, ok[i], strlen(ok[i]), &err), "%s: %s", ok[i],
		       err.text);
		rlx_json_fini(&j);
	}
}

TEST(refused_with_place)
{
	static const struct {
		const char	*text, *message;
	} bad[] = {
		{ "", "byte 0, line 1: text ends early" },
		{ "[1,2", "byte 4, line 1: text ends early" },
		{ "[1,]", "byte 3, line 1: value expected" },
		{ "\n{\"a\":1,}", "byte 8, line 2: key expected" },
		{ "{\"a\" 1}", "byte 5, line 1: ':' expected" },
		{ "{a:1}", "byte 1, line 1: key expected" },
		{ "[1 2]", "byte 3, line 1: ',' or the end" },
		{ "[1}", "byte 2, line 1: ',' or the end" },
		{ "01", "leading zero" },
		{ "-", "value expected" },
		{ "1.", "no digit after the point" },
		{ "1e+", "no digit in the exponent" },
		{ ".5", "value expected" },
		{ "+1", "value expected" },
		{ "NaN", "value expected" },
		{ "nul", "value expected" },
		{ "1 1", "byte 2, line 1: text behind" },
		{ "\"abc", "string without end" },
		{ "\"a\tb\"", "control character" },
		{ "\"\\x\"", "unknown escape" },
		{ "\"\\", "escape" },
		{ "\"\\u12g4\"", "four hex digits" },
		{ "\"\\ud800x\"", "lone high" },
		{ "\"\\ud800\\u0041\"", "lone high" },
		{ "\"\\udc00\"", "lone low" },
		{ "\"\xc0\x80\"", "byte 1, line 1: not UTF-8" },
		{ "\"\xed\xa0\x80\"", "not UTF-8" },
		{ "\"\xf4\x90\x80\x80\"", "not UTF-8" },
		{ "\"\xe2\x82", "not UTF-8" },
		{ "{\"a\":1,\"b\":{\"a\":2},\"a\":3}", "byte 19, line 1: this key" },
		{ "{\"a\":1,\"\\u0061\":3}", "this key came before" },
	};
	struct rlx_error err;
	struct rlx_json j;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		enum rlx_status st;

		st = parse(&j, bad[i].text, strlen(bad[i].text), &err);
		CHECKF(st == RLX_EPARSE, "%s: %s", bad[i].text,
		       rlx_status_name(st));
		CHECKF(strstr(err.text, bad[i].message) &&
		       !strncmp(err.text, "t.json: byte ", 13),
		       "%s: \"%s\"", bad[i].text, err.text);
		CHECK(!j.node && !j.text);
	}
}

TEST(depth_is_limited_not_the_stack)
{
	size_t n = 4 << 20, i;
	struct rlx_json_limits lim = { .depth = 3 };
	struct rlx_error err = { 0 };
	char *s = malloc(n);
	struct rlx_json j;

	for (i = 0; i < n; i++)
		s[i] = '[';
	CHECK_EQ(parse(&j, s, n, &err), RLX_ERANGE);
	CHECK(strstr(err.text, "nested too deeply"));
	free(s);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_json_parse(&j, "[[[1]]]", 7, &lim, "d", &err), RLX_OK);
	rlx_json_fini(&j);
	CHECK_EQ(rlx_json_parse(&j, "[[[[]]]]", 8, &lim, "d", &err), RLX_ERANGE);
	lim = (struct rlx_json_limits){ .bytes = 4 };
	CHECK_EQ(rlx_json_parse(&j, "[1,2]", 5, &lim, "d", NULL), RLX_ERANGE);
	lim = (struct rlx_json_limits){ .nodes = 3 };
	CHECK_EQ(rlx_json_parse(&j, "[1,2,3]", 7, &lim, "d", NULL), RLX_ERANGE);
}

/* Every prefix of a text is refused, and read no further than it goes. */
TEST(every_truncation)
{
	static const char text[] = "{\"a\":[1.5e3,\"\\ud83d\\ude00\xe2\x82\xac\","
				   "true,null],\"b\":{\"c\":-2}}";
	struct rlx_error err;
	struct rlx_json j;
	size_t n;

	for (n = 0; n < sizeof(text) - 1; n++)
		CHECK_EQ(parse(&j, text, n, &err), RLX_EPARSE);
	CHECK_EQ(parse(&j, text, n, &err), RLX_OK);
	rlx_json_fini(&j);
}

TEST(many_keys_stay_linear)
{
	const uint32_t n = 300000;
	char *s = malloc(n * 24 + 2), *p = s;
	struct rlx_error err;
	struct rlx_json j;
	uint32_t i, seen = 0;
	struct rlx_json_iter it;

	*p++ = '{';
	for (i = 0; i < n; i++)
		p += sprintf(p, "%s\"k%u\":%u", i ? "," : "", i, i);
	*p++ = '}';
	CHECK_EQ(parse(&j, s, (size_t)(p - s), &err), RLX_OK);
	for (it = rlx_json_iter(&j, 0); rlx_json_next(&it); seen++) {
		int64_t v;

		CHECK(rlx_json_int(&j, it.val, &v) && v == seen);
	}
	CHECK_EQ(seen, n);
	rlx_json_fini(&j);
	free(s);
}

TEST(no_memory_anywhere)
{
	static const char text[] = "{\"a\":[1,2,3,4,5,6,7,8,9],\"b\":\"c\"}";
	struct rlx_error err;
	struct rlx_json j;
	enum rlx_status st;
	uint64_t n;

	for (n = 1; n < 100; n++) {
		memset(&err, 0, sizeof(err));
		rlx_alloc_fail_nth(n);
		st = rlx_json_parse(&j, text, sizeof(text) - 1, NULL, "m", &err);
		rlx_alloc_fail_nth(0);
		if (!st)
			break;
		CHECK_EQ(st, RLX_ENOMEM);
		CHECK(err.text[0] && !j.node);
	}
	CHECK(n > 3 && n < 100);
	rlx_json_fini(&j);
}

static void put_random(struct rlx_json_writer *w, uint64_t *s, int depth)
{
	static const double odd[] = { 0.1, -1e300, 5e-324, 1.0 / 3, 123456789 };
	uint64_t r = rlx_test_rand(s), i;
	char text[16];

	switch (r % (depth < 6 ? 8 : 6)) {
	case 0:
		rlx_json_put_null(w);
		break;
	case 1:
		rlx_json_put_bool(w, r & 256);
		break;
	case 2:
		rlx_json_put_int(w, (int64_t)rlx_test_rand(s));
		break;
	case 3:
		rlx_json_put_double(w, odd[r / 8 % 5]);
		break;
	case 4:
		rlx_json_put_double(w, r & 256 ? NAN : -INFINITY);
		break;
	case 5:
		for (i = 0; i < r / 8 % 16; i++)
			text[i] = (char)rlx_test_rand(s);
		rlx_json_put_strn(w, text, i);
		break;
	case 6:
		rlx_json_put_begin(w, '[');
		for (i = 0; i < r / 8 % 5; i++)
			put_random(w, s, depth + 1);
		rlx_json_put_end(w);
		break;
	default:
		rlx_json_put_begin(w, '{');
		for (i = 0; i < r / 8 % 5; i++) {
			sprintf(text, "k\"\\\n%llu", (unsigned long long)i);
			rlx_json_put_key(w, text);
			put_random(w, s, depth + 1);
		}
		rlx_json_put_end(w);
	}
}

TEST(what_is_written_reads_back)
{
	uint64_t s = rlx_test_seed();
	struct rlx_json_writer w;
	struct rlx_error err;
	struct rlx_json j;
	size_t len;
	char *buf;
	int i;

	for (i = 0; i < 2000; i++) {
		FILE *f = open_memstream(&buf, &len);

		rlx_json_writer_begin(&w, f, i & 1);
		put_random(&w, &s, 0);
		CHECK(rlx_json_writer_end(&w));
		fclose(f);
		CHECKF(!parse(&j, buf, len, &err), "%s in %s", err.text, buf);
		rlx_json_fini(&j);
		free(buf);
	}
}

TEST(writer_text_and_misuse)
{
	static const double exact[] = { 0.1, 1e22, 5e-324, 3.0, -0.0, 1.0 / 3 };
	struct rlx_json_writer w;
	struct rlx_json j;
	size_t len, i;
	char *buf;
	FILE *f;

	f = open_memstream(&buf, &len);
	rlx_json_writer_begin(&w, f, false);
	rlx_json_put_begin(&w, '{');
	rlx_json_put_key(&w, "a\x01\xff");
	rlx_json_put_begin(&w, '[');
	rlx_json_put_double(&w, NAN);
	rlx_json_put_double(&w, 0.5);
	rlx_json_put_end(&w);
	rlx_json_put_end(&w);
	CHECK(rlx_json_writer_end(&w));
	fclose(f);
	CHECK_STR(buf, "{\"a\\u0001\xef\xbf\xbd\":[null,0.5]}");
	free(buf);

	for (i = 0; i < sizeof(exact) / sizeof(*exact); i++) {
		double d;

		f = open_memstream(&buf, &len);
		rlx_json_writer_begin(&w, f, false);
		rlx_json_put_double(&w, exact[i]);
		CHECK(rlx_json_writer_end(&w));
		fclose(f);
		CHECK_EQ(rlx_json_parse(&j, buf, len, NULL, "d", NULL), RLX_OK);
		CHECK(rlx_json_double(&j, 0, &d));
		CHECK(!memcmp(&d, &exact[i], sizeof(d)));
		rlx_json_fini(&j);
		free(buf);
	}
	f = fopen("/dev/null", "w");
	rlx_json_writer_begin(&w, f, false);
	rlx_json_put_begin(&w, '{');
	rlx_json_put_int(&w, 1);	/* no key */
	rlx_json_put_end(&w);
	CHECK(!rlx_json_writer_end(&w));
	rlx_json_writer_begin(&w, f, false);
	rlx_json_put_begin(&w, '[');
	CHECK(!rlx_json_writer_end(&w));	/* not closed */
	rlx_json_writer_begin(&w, f, false);
	rlx_json_put_end(&w);
	CHECK(!rlx_json_writer_end(&w));
	rlx_json_writer_begin(&w, f, false);
	rlx_json_put_int(&w, 1);
	rlx_json_put_int(&w, 2);	/* two values */
	CHECK(!rlx_json_writer_end(&w));
	fclose(f);
}

TEST_MAIN()
