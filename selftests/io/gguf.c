// SPDX-License-Identifier: MIT
/* .gguf: round trips, what is stored in fewer bits, and files that must be refused. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/half.h"
#include "rlx/gguf.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

/* A file that is put together byte by byte. */
struct bytes {
	uint8_t	p[4096];
	size_t	n;
};

static void put(struct bytes *b, uint64_t v, int n)
{
	CHECK(b->n + (size_t)n <= sizeof(b->p));
	for (; n; n--, v >>= 8)
		b->p[b->n++] = (uint8_t)v;
}

static void put_str(struct bytes *b, const char *s)
{
	put(b, strlen(s), 8);
	for (; *s; s++)
		put(b, (uint8_t)*s, 1);
}

static void head(struct bytes *b, uint64_t tensors, uint64_t keys)
{
	b->n = 0;
	put(b, 0x46554747, 4);
	put(b, 3, 4);
	put(b, tensors, 8);
	put(b, keys, 8);
}

static void tensor(struct bytes *b, const char *name, uint64_t d0, uint64_t d1, uint32_t format,
		   uint64_t at)
{
	put_str(b, name);
	put(b, 2, 4);
	put(b, d0, 8);
	put(b, d1, 8);
	put(b, format, 4);
	put(b, at, 8);
}

static void pad(struct bytes *b, size_t data)
{
	while (b->n % 32)
		put(b, 0, 1);
	while (data--)
		put(b, 0, 1);
}

/* Opened from memory of its exact size, so that a byte beyond is found. */
static void refuse(const struct bytes *b, enum rlx_status want, const char *text)
{
	uint8_t *copy = malloc(b->n ? b->n : 1);
	struct rlx_gguf *f = (void *)&b;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	memcpy(copy, b->p, b->n);
	st = rlx_gguf_open_mem(copy, b->n, &f, &err);
	CHECKF(st == want && !f && strstr(err.text, text), "%d, %s; not %d, %s", (int)st, err.text,
	       (int)want, text);
	free(copy);
}

static double drawn(uint64_t *seed)
{
	return ldexp(rlx_test_uniform(seed, -1, 1), (int)(rlx_test_rand(seed) % 12) - 6);
}

/* ---- round trips ---- */

static const char *const words[] = { "", "two", "\xc3\xa9" };
static const int32_t ints[] = { -1, 0, INT32_MAX };
static const uint8_t bools[] = { 0, 1, 1, 0 };

static const struct rlx_gguf_pair pairs[] = {
	{ "u8", { .type = RLX_GGUF_U8, .u = 255 } }, { "i8", { .type = RLX_GGUF_I8, .i = -128 } },
	{ "u16", { .type = RLX_GGUF_U16, .u = 65535 } },
	{ "i16", { .type = RLX_GGUF_I16, .i = -32768 } },
	{ "u32", { .type = RLX_GGUF_U32, .u = UINT32_MAX } },
	{ "i32", { .type = RLX_GGUF_I32, .i = INT32_MIN } },
	{ "u64", { .type = RLX_GGUF_U64, .u = UINT64_MAX } },
	{ "i64", { .type = RLX_GGUF_I64, .i = INT64_MIN } },
	{ "f32", { .type = RLX_GGUF_F32, .f = -0.15625 } },
	{ "f64", { .type = RLX_GGUF_F64, .f = 1e-300 } },
	{ "yes", { .type = RLX_GGUF_BOOL, .u = 1 } },
	{ "text", { .type = RLX_GGUF_STRING, .n = 4, .data = "a\0\xff" "b" } },
	{ "none", { .type = RLX_GGUF_STRING } },
	{ "ints", { .type = RLX_GGUF_ARRAY, .of = RLX_GGUF_I32, .n = 3, .data = ints } },
	{ "bools", { .type = RLX_GGUF_ARRAY, .of = RLX_GGUF_BOOL, .n = 4, .data = bools } },
	{ "words", { .type = RLX_GGUF_ARRAY, .of = RLX_GGUF_STRING, .n = 3, .data = words } },
	{ "empty", { .type = RLX_GGUF_ARRAY, .of = RLX_GGUF_STRING } },
};
enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

static void check_values(const struct rlx_gguf *f)
{
	struct rlx_gguf_value v, e;
	uint32_t i;

	for (i = 0; i < PAIRS; i++) {
		const struct rlx_gguf_value *w = &pairs[i].value;

		CHECK_STR(rlx_gguf_key(f, i), pairs[i].key);
		CHECKF(rlx_gguf_get(f, pairs[i].key, &v) && v.type == w->type && v.of == w->of &&
		       v.n == w->n && v.u == w->u, "%s", pairs[i].key);
		if (v.type == RLX_GGUF_STRING)
			CHECK(!v.n || !memcmp(v.data, w->data, v.n));
	}
	CHECK(!rlx_gguf_key(f, PAIRS) && !rlx_gguf_get(f, "general.alignment", &v));
	CHECK(rlx_gguf_get(f, "words", &v));
	for (i = 0; rlx_gguf_next(&v, &e); i++)
		CHECK(e.n == strlen(words[i]) && !memcmp(e.data, words[i], e.n));
	CHECK_EQ(i, 3);
	CHECK(rlx_gguf_get(f, "ints", &v));
	for (i = 0; rlx_gguf_next(&v, &e); i++)
		CHECK_EQ(e.i, ints[i]);
	CHECK_EQ(i, 3);
	CHECK(rlx_gguf_get(f, "text", &v) && !rlx_gguf_next(&v, &e));
}

TEST(round_trips)
{
	static const enum rlx_dtype dts[] = { RLX_F32, RLX_F16, RLX_BF16, RLX_F64, RLX_I8, RLX_I16,
					      RLX_I32, RLX_I64 };
	static const uint32_t as[] = { RLX_GGUF_AS_F32, RLX_GGUF_AS_F16, RLX_GGUF_AS_BF16,
				       RLX_GGUF_AS_F64, RLX_GGUF_AS_I8, RLX_GGUF_AS_I16,
				       RLX_GGUF_AS_I32, RLX_GGUF_AS_I64 };
	char path[] = "/tmp/rlx-gguf-XXXXXX", name[24][16];
	struct rlx_gguf_tensor v[24];
	uint64_t seed = rlx_test_seed();
	static uint8_t data[24][4096];
	struct rlx_error err = { 0 };
	struct rlx_gguf *f;
	uint32_t i, d;

	close(mkstemp(path));
	for (i = 0; i < 24; i++) {
		sprintf(name[i], "t.%u", i);
		v[i] = (struct rlx_gguf_tensor){ .name = name[i], .data = data[i],
						 .format = as[i % 8] };
		v[i].type.dtype = dts[i % 8];
		v[i].type.rank = (uint32_t)(rlx_test_rand(&seed) % 5);
		for (d = 0; d < v[i].type.rank; d++)
			v[i].type.dim[d] = (int64_t)(rlx_test_rand(&seed) % 5);
		for (d = 0; d < 4096; d++)
			data[i][d] = (uint8_t)rlx_test_rand(&seed);
	}
	CHECKF(!rlx_gguf_write(path, pairs, PAIRS, v, 24, &err), "%s", err.text);
	CHECKF(!rlx_gguf_open(path, &f, &err), "%s", err.text);
	check_values(f);
	CHECK_EQ(rlx_gguf_count(f), 24);
	for (i = 0; i < 24; i++) {
		const struct rlx_gguf_tensor *t = rlx_gguf_at(f, i);

		CHECK(t && t == rlx_gguf_find(f, name[i]) && rlx_type_equal(&t->type, &v[i].type));
		CHECK_EQ(t->bytes, (uint64_t)rlx_type_bytes(&t->type));
		CHECK(!memcmp(t->data, data[i], t->bytes) && !((uintptr_t)t->data % 32));
	}
	CHECK(!rlx_gguf_at(f, 24) && !rlx_gguf_find(f, "t"));
	rlx_gguf_close(f);
	CHECK(!rlx_gguf_write(path, NULL, 0, NULL, 0, &err) && !rlx_gguf_open(path, &f, &err));
	CHECK(!rlx_gguf_count(f) && !rlx_gguf_key(f, 0));
	rlx_gguf_close(f);
	unlink(path);
}

/* Floats in fewer bits come back as near as their format is. */
TEST(rounded)
{
	/* @least: half of the smallest f16, which scales are as well */
	static const struct { uint32_t format; double near, least; } how[] = {
		{ RLX_GGUF_AS_F32, 0, 0 }, { RLX_GGUF_AS_F16, 0x1p-11, 0x1p-25 },
		{ RLX_GGUF_AS_BF16, 0x1p-8, 0 },
		{ RLX_GGUF_AS_Q8_0, 0.5 / 127 + 0x1p-11, 127 * 0x1p-25 },
	};
	enum { ROWS = 67, COLS = 96, N = ROWS * COLS };
	char path[] = "/tmp/rlx-gguf-XXXXXX";
	static float x[N], y[N];
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_gguf *f;
	int i, k, b;

	close(mkstemp(path));
	for (i = 0; i < N; i++)
		x[i] = i / 32 == 5 ? 0 : (float)drawn(&seed);
	for (k = 0; k < 4; k++) {
		struct rlx_gguf_tensor t = { .name = "x", .type = rlx_type(RLX_F32, ROWS, COLS),
					     .format = how[k].format, .data = x };

		CHECKF(!rlx_gguf_write(path, NULL, 0, &t, 1, &err), "%s", err.text);
		CHECKF(!rlx_gguf_open(path, &f, &err), "%s", err.text);
		CHECKF(!rlx_gguf_read(rlx_gguf_at(f, 0), y, &err), "%s", err.text);
		for (i = 0; i < N; i += 32) {
			double top = 0;

			for (b = i; b < i + 32; b++)
				top = rlx_test_worse(top, fabs((double)x[b]));
			for (b = i; b < i + 32; b++) {
				double one = how[k].format == RLX_GGUF_AS_Q8_0 ? top :
					     fabs((double)x[b]);

				CHECKF(fabs((double)x[b] - (double)y[b]) <=
				       how[k].near * one + how[k].least,
				       "format %u: %g is %g", how[k].format, (double)x[b],
				       (double)y[b]);
			}
		}
		rlx_gguf_close(f);
	}
	unlink(path);
}

/* Elements of blocks, by hand. */
TEST(blocks)
{
	struct bytes b;
	struct rlx_error err = { 0 };
	struct rlx_gguf *f;
	float y[32];
	int i;

	head(&b, 2, 0);
	tensor(&b, "q4", 32, 1, RLX_GGUF_AS_Q4_0, 0);
	tensor(&b, "q8", 32, 1, RLX_GGUF_AS_Q8_0, 32);
	pad(&b, 0);
	put(&b, rlx_f32_to_f16(0.5f), 2);
	for (i = 0; i < 16; i++)
		put(&b, (uint64_t)(i | (15 - i) << 4), 1);
	pad(&b, 0);
	put(&b, rlx_f32_to_f16(-2), 2);
	for (i = 0; i < 32; i++)
		put(&b, (uint64_t)(i - 16), 1);
	CHECKF(!rlx_gguf_open_mem(b.p, b.n, &f, &err), "%s", err.text);
	CHECK_EQ(rlx_gguf_at(f, 0)->type.dtype, RLX_NODTYPE);
	CHECK(!rlx_gguf_read(rlx_gguf_find(f, "q4"), y, &err));
	for (i = 0; i < 16; i++)
		CHECK(y[i] == 0.5f * (float)(i - 8) && y[16 + i] == 0.5f * (float)(7 - i));
	CHECK(!rlx_gguf_read(rlx_gguf_find(f, "q8"), y, &err));
	for (i = 0; i < 32; i++)
		CHECK(y[i] == -2 * (float)(i - 16));
	rlx_gguf_close(f);
	head(&b, 1, 0);
	tensor(&b, "k", 256, 1, 16, 0);
	pad(&b, 66);
	CHECKF(!rlx_gguf_open_mem(b.p, b.n, &f, &err), "%s", err.text);
	CHECK_EQ(rlx_gguf_read(rlx_gguf_at(f, 0), y, &err), RLX_ENOSUP);
	CHECK(strstr(err.text, "IQ2_XXS"));
	CHECK_EQ(rlx_gguf_scheme(16), -1);
	CHECK_EQ(rlx_gguf_scheme(12), RLX_SCHEME_Q4_K);
	rlx_gguf_close(f);
}

/* ---- what is refused ---- */

TEST(heads_refused)
{
	struct bytes b;

	b.n = 0;
	refuse(&b, RLX_EPARSE, "does not begin with GGUF");
	head(&b, 0, 0);
	b.p[0] = 'g';
	refuse(&b, RLX_EPARSE, "does not begin with GGUF");
	head(&b, 0, 0);
	b.p[4] = 1;
	refuse(&b, RLX_ENOSUP, "a version other than 2 and 3");
	b.p[4] = 0;
	b.p[7] = 3;
	refuse(&b, RLX_ENOSUP, "big-endian");
	head(&b, 1ull << 60, 0);
	refuse(&b, RLX_EPARSE, "too short for so many \"tensors\"");
	head(&b, 0, UINT64_MAX);
	refuse(&b, RLX_EPARSE, "too short for so many \"keys\"");
	head(&b, 0, 0);
	b.n = 15;
	refuse(&b, RLX_EPARSE, "ends in the middle");
}

/* One key and the value behind it. */
static void one_key(struct bytes *b, const char *key, uint32_t type)
{
	head(b, 0, 1);
	put_str(b, key);
	put(b, type, 4);
}

TEST(values_refused)
{
	struct bytes b;

	one_key(&b, "k", 13);
	put(&b, 0, 8);
	refuse(&b, RLX_EPARSE, "no such type of value");
	one_key(&b, "k", RLX_GGUF_BOOL);
	put(&b, 2, 1);
	refuse(&b, RLX_EPARSE, "neither 0 nor 1");
	one_key(&b, "k", RLX_GGUF_STRING);
	put(&b, UINT64_MAX, 8);
	refuse(&b, RLX_EPARSE, "ends in the middle");
	one_key(&b, "k", RLX_GGUF_ARRAY);
	put(&b, RLX_GGUF_U64, 4);
	put(&b, 1ull << 61, 8);		/* times 8 is 0 */
	refuse(&b, RLX_EPARSE, "an array is longer than the file");
	one_key(&b, "k", RLX_GGUF_ARRAY);
	put(&b, RLX_GGUF_STRING, 4);
	put(&b, UINT64_MAX, 8);
	put_str(&b, "a");
	refuse(&b, RLX_EPARSE, "ends in the middle");
	one_key(&b, "k", RLX_GGUF_ARRAY);
	put(&b, RLX_GGUF_ARRAY, 4);
	put(&b, 1, 8);
	refuse(&b, RLX_ENOSUP, "an array of arrays");
	one_key(&b, "k", RLX_GGUF_ARRAY);
	put(&b, 77, 4);
	put(&b, 1, 8);
	refuse(&b, RLX_EPARSE, "no such type of elements");
	one_key(&b, "k", RLX_GGUF_ARRAY);
	put(&b, RLX_GGUF_BOOL, 4);
	put(&b, 2, 8);
	put(&b, 0x0301, 2);
	refuse(&b, RLX_EPARSE, "neither 0 nor 1");
	one_key(&b, "\xff", RLX_GGUF_U8);
	put(&b, 0, 8);
	refuse(&b, RLX_EPARSE, "not UTF-8");
	one_key(&b, "", RLX_GGUF_U32);
	put(&b, 0, 8);
	refuse(&b, RLX_EPARSE, "empty, not UTF-8, or with a zero byte is a \"key\"");
	head(&b, 0, 1);
	put(&b, 70000, 8);
	put(&b, 0, 8);
	refuse(&b, RLX_EPARSE, "over 65,535 bytes of \"key\"");
	head(&b, 0, 2);
	put_str(&b, "same");
	put(&b, RLX_GGUF_U8, 4);
	put(&b, 0, 1);
	put_str(&b, "same");
	put(&b, RLX_GGUF_U8, 4);
	put(&b, 0, 1);
	refuse(&b, RLX_EPARSE, "comes twice: key \"same\"");
	one_key(&b, "general.alignment", RLX_GGUF_U32);
	put(&b, 24, 4);
	refuse(&b, RLX_EPARSE, "no power of two as u32 is \"general.alignment\"");
	one_key(&b, "general.alignment", RLX_GGUF_U32);
	put(&b, 0, 4);
	refuse(&b, RLX_EPARSE, "no power of two");
	one_key(&b, "general.alignment", RLX_GGUF_U64);
	put(&b, 32, 8);
	refuse(&b, RLX_EPARSE, "no power of two");
}

TEST(tensors_refused)
{
	struct bytes b;

	head(&b, 1, 0);
	tensor(&b, "t", 4, 2, 99, 0);
	pad(&b, 64);
	refuse(&b, RLX_ENOSUP, "a format that is not known has tensor \"t\"");
	head(&b, 1, 0);
	tensor(&b, "t", 4, 2, 0, 0);
	pad(&b, 31);
	refuse(&b, RLX_EPARSE, "the file ends before the data of tensor \"t\"");
	head(&b, 1, 0);
	tensor(&b, "t", 4, 2, 0, 32);
	pad(&b, 64);
	refuse(&b, RLX_EPARSE, "not where the one before it ends lies tensor \"t\"");
	head(&b, 1, 0);
	tensor(&b, "t", 1ull << 32, 1ull << 32, 0, 0);
	pad(&b, 64);
	refuse(&b, RLX_EPARSE, "too large");
	head(&b, 1, 0);
	tensor(&b, "t", 1ull << 63, 0, 0, 0);
	pad(&b, 64);
	refuse(&b, RLX_EPARSE, "a dimension over 2^63 of tensor \"t\"");
	head(&b, 1, 0);
	tensor(&b, "t", 33, 1, RLX_GGUF_AS_Q8_0, 0);
	pad(&b, 96);
	refuse(&b, RLX_EPARSE, "blocks that are not whole");
	head(&b, 1, 0);
	put_str(&b, "t");
	put(&b, 5, 4);
	pad(&b, 96);
	refuse(&b, RLX_ENOSUP, "over 4 dimensions of tensor \"t\"");
	head(&b, 2, 0);
	tensor(&b, "t", 8, 1, 0, 0);
	tensor(&b, "t", 8, 1, 0, 32);
	pad(&b, 64);
	refuse(&b, RLX_EPARSE, "comes twice: tensor \"t\"");
	head(&b, 2, 0);
	tensor(&b, "a", 8, 1, 0, 0);
	tensor(&b, "b", 8, 1, 0, 0);
	pad(&b, 64);
	refuse(&b, RLX_EPARSE, "not where the one before it ends lies tensor \"b\"");
}

/* A file cut anywhere before its last byte is refused; a changed byte never does harm. */
TEST(cut_and_changed)
{
	char path[] = "/tmp/rlx-gguf-XXXXXX";
	float x[40] = { 1 }, y[64];
	struct rlx_gguf_tensor v[2] = {
		{ .name = "a", .type = rlx_type(RLX_F32, 5, 8), .data = x },
		{ .name = "b", .type = rlx_type(RLX_F32, 32), .data = x,
		  .format = RLX_GGUF_AS_Q8_0 },
	};
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_gguf *f;
	struct bytes b;
	size_t n, i, ok = 0;
	FILE *in;

	close(mkstemp(path));
	CHECKF(!rlx_gguf_write(path, pairs, PAIRS, v, 2, &err), "%s", err.text);
	in = fopen(path, "rb");
	b.n = n = fread(b.p, 1, sizeof(b.p), in);
	fclose(in);
	unlink(path);
	CHECK(n > 500 && n < sizeof(b.p));
	for (b.n = 0; b.n < n - 32; b.n++)	/* what pads the end is not asked for */
		refuse(&b, RLX_EPARSE, "");
	for (i = 0; i < 20000; i++) {
		struct bytes c = { .n = n };
		uint8_t *copy = malloc(n);
		int k;

		memcpy(c.p, b.p, n);
		for (k = (int)(i % 3); k >= 0; k--)
			c.p[rlx_test_rand(&seed) % n] = (uint8_t)rlx_test_rand(&seed);
		memcpy(copy, c.p, n);
		if (!rlx_gguf_open_mem(copy, n, &f, &err)) {
			uint32_t t;

			for (t = 0; t < rlx_gguf_count(f); t++)
				if (rlx_type_count(&rlx_gguf_at(f, t)->type) <= 64)
					(void)!rlx_gguf_read(rlx_gguf_at(f, t), y, &err);
			rlx_gguf_close(f);
			ok++;
		}
		free(copy);
	}
	CHECKF(ok > 1000 && ok < 19000, "%zu of 20000 are still files", ok);
}

static void refuse_write(const struct rlx_gguf_pair *kv, const struct rlx_gguf_tensor *t,
			 enum rlx_status want, const char *text)
{
	char path[] = "/tmp/rlx-gguf-XXXXXX";
	struct rlx_error err = { 0 };
	enum rlx_status st;

	close(mkstemp(path));
	unlink(path);
	st = rlx_gguf_write(path, kv, kv ? 2 : 0, t, t ? 2 : 0, &err);
	CHECKF(st == want && strstr(err.text, text), "%d, %s; not %d, %s", (int)st, err.text,
	       (int)want, text);
	CHECK(access(path, F_OK));
}

TEST(writes_refused)
{
	struct rlx_gguf_pair kv[2] = { { "a", { .type = RLX_GGUF_U8 } },
				       { "a", { .type = RLX_GGUF_U8 } } };
	float x[32] = { 0 };
	struct rlx_gguf_tensor t[2] = {
		{ .name = "a", .type = rlx_type(RLX_F32, 32), .data = x },
		{ .name = "a", .type = rlx_type(RLX_F32, 32), .data = x },
	};
	char longest[65];

	refuse_write(kv, NULL, RLX_EEXIST, "\"a\" comes twice");
	kv[1].key = "general.alignment";
	refuse_write(kv, NULL, RLX_EINVAL, "pair 1 (\"general.alignment\")");
	kv[1].key = NULL;
	refuse_write(kv, NULL, RLX_EINVAL, "pair 1");
	kv[1] = (struct rlx_gguf_pair){ "b", { .type = RLX_GGUF_ARRAY, .of = RLX_GGUF_ARRAY } };
	refuse_write(kv, NULL, RLX_EINVAL, "pair 1");
	kv[1].value = (struct rlx_gguf_value){ .type = RLX_GGUF_ARRAY, .of = RLX_GGUF_STRING,
					       .n = 1, .data = &(const char *){ NULL } };
	refuse_write(kv, NULL, RLX_EINVAL, "pair 1");
	refuse_write(NULL, t, RLX_EEXIST, "\"a\" comes twice");
	memset(longest, 'n', 64);
	longest[64] = 0;
	t[1].name = longest;
	refuse_write(NULL, t, RLX_EINVAL, "no name of up to 63 bytes");
	t[1].name = "b";
	t[1].data = NULL;
	refuse_write(NULL, t, RLX_EINVAL, "no data");
	t[1].data = x;
	t[1].format = RLX_GGUF_AS_I8;
	refuse_write(NULL, t, RLX_ENOSUP, "f32 is not written as I8");
	t[1].format = 12;
	refuse_write(NULL, t, RLX_ENOSUP, "f32 is not written as Q4_K");
	t[1].format = RLX_GGUF_AS_Q8_0;
	t[1].type = rlx_type(RLX_F32, 32, 1);
	refuse_write(NULL, t, RLX_ESHAPE, "no multiple of 32");
	t[1].type = rlx_type(RLX_F32, 1, 1, 1, 1, 32);
	refuse_write(NULL, t, RLX_ESHAPE, "5 dimensions");
	t[1].type = rlx_type(RLX_F32, 32);
	x[7] = NAN;
	refuse_write(NULL, t, RLX_ERANGE, "\"b\" has elements near 0 that Q8_0 cannot hold");
	x[7] = 1e8f;
	refuse_write(NULL, t, RLX_ERANGE, "Q8_0");
	t[1].format = RLX_GGUF_AS_F16;
	refuse_write(NULL, t, RLX_ERANGE, "F16");
	CHECK(rlx_gguf_write("/nowhere/at/all", NULL, 0, NULL, 0, NULL) == RLX_ENOENT);
}

/* ---- memory ---- */

static enum rlx_status write_and_open(void *path)
{
	float x[32] = { 1 };
	struct rlx_gguf_tensor t = { .name = "x", .type = rlx_type(RLX_F32, 32), .data = x,
				     .format = RLX_GGUF_AS_Q8_0 };
	struct rlx_error err = { 0 };
	struct rlx_gguf *f;
	enum rlx_status st = rlx_gguf_write(path, pairs, PAIRS, &t, 1, &err);

	st = st ? st : rlx_gguf_open(path, &f, &err);
	if (!st)
		rlx_gguf_close(f);
	return st;
}

TEST(out_of_memory)
{
	char path[] = "/tmp/rlx-gguf-XXXXXX";

	close(mkstemp(path));
	CHECK(rlx_oom_sweep(write_and_open, path) > 20);
	unlink(path);
}

TEST_MAIN()
