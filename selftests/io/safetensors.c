// SPDX-License-Identifier: MIT
/* .safetensors: round trips, and headers that must be refused. */
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/safetensors.h"
#include "selftests/lib/rlx_test.h"

static size_t make(uint8_t *buf, const char *head, const void *data, size_t n)
{
	size_t len = strlen(head), i;

	for (i = 0; i < 8; i++)
		buf[i] = (uint8_t)((uint64_t)len >> 8 * i);
	memcpy(buf + 8, head, len);
	memcpy(buf + 8 + len, data, n);
	return 8 + len + n;
}

static enum rlx_status open_copy(const uint8_t *p, size_t n,
				 struct rlx_safetensors **f, void **copy,
				 struct rlx_error *err)
{
	memset(err, 0, sizeof(*err));
	*copy = malloc(n ? n : 1);
	memcpy(*copy, p, n);
	return rlx_safetensors_open_mem(*copy, n, f, err);
}

TEST(every_dtype_round_trips)
{
	static const char *meta[] = { "format", "pt", "q\"\n", "\xc3\xa9", NULL };
	char path[] = "/tmp/rlx-safe-XXXXXX", names[32][32];
	uint64_t s = rlx_test_seed();
	struct rlx_safetensor v[32];
	struct rlx_error err = { 0 };
	struct rlx_safetensors *f;
	uint8_t data[32][1024];
	const char *k, *val;
	uint32_t i, d;

	close(mkstemp(path));
	for (i = 0; i < 32; i++) {
		enum rlx_dtype dt = (enum rlx_dtype)(1 + i % (RLX_DTYPE_COUNT - 1));

		sprintf(names[i], "layer.%u/\"w\\\xc3\xa9", i);
		v[i] = (struct rlx_safetensor){ .name = names[i],
						.data = data[i] };
		v[i].type.dtype = dt;
		v[i].type.rank = (uint32_t)(rlx_test_rand(&s) % 4);
		for (d = 0; d < v[i].type.rank; d++)
			v[i].type.dim[d] = (int64_t)(rlx_test_rand(&s) % 5);
		for (d = 0; d < 1024; d++)
			data[i][d] = (uint8_t)(rlx_test_rand(&s) &
					       (dt == RLX_BOOL ? 1 : 255));
	}
	CHECKF(!rlx_safetensors_write(path, v, 32, meta, &err), "%s", err.text);
	CHECKF(!rlx_safetensors_open(path, &f, &err), "%s", err.text);
	CHECK_EQ(rlx_safetensors_count(f), 32);
	for (i = 0; i < 32; i++) {
		const struct rlx_safetensor *t;

		t = rlx_safetensors_find(f, names[i]);
		CHECK(t && rlx_type_equal(&t->type, &v[i].type));
		CHECK(!memcmp(t->data, data[i], (size_t)rlx_type_bytes(&t->type)));
		CHECK_EQ((uintptr_t)t->data % rlx_dtype_size(t->type.dtype), 0);
		t = rlx_safetensors_at(f, i);
		CHECK(t && rlx_safetensors_find(f, t->name) == t);
	}
	CHECK(!rlx_safetensors_at(f, 32));
	CHECK(!rlx_safetensors_find(f, "layer"));
	CHECK(rlx_safetensors_meta(f, 1, &k, &val));
	CHECK_STR(k, "q\"\n");
	CHECK_STR(val, "\xc3\xa9");
	CHECK(!rlx_safetensors_meta(f, 2, &k, &val));
	rlx_safetensors_close(f);
	CHECK_EQ(rlx_safetensors_write(path, NULL, 0, NULL, NULL), RLX_OK);
	CHECK_EQ(rlx_safetensors_open(path, &f, NULL), RLX_OK);
	CHECK_EQ(rlx_safetensors_count(f), 0);
	CHECK(!rlx_safetensors_meta(f, 0, &k, &val));
	rlx_safetensors_close(f);
	remove(path);
}

/* A header may have 100 MB of metadata: to walk it takes no more than to read it. */
TEST(much_metadata)
{
	enum { N = 100000 };
	char *head = malloc(N * 24 + 64), *p = head, want[16];
	uint8_t *file = malloc(N * 24 + 128);
	struct rlx_safetensors *f;
	double opened, walked;
	const char *k, *val;
	struct rlx_error err;
	void *copy;
	size_t n;
	uint32_t i;

	p += sprintf(p, "{\"__metadata__\":{");
	for (i = 0; i < N; i++)
		p += sprintf(p, "%s\"%u\":\"v%u\"", i ? "," : "", i, i);
	sprintf(p, "}}");
	n = make(file, head, NULL, 0);
	opened = rlx_test_cpu();
	CHECKF(!open_copy(file, n, &f, &copy, &err), "%s", err.text);
	walked = rlx_test_cpu();
	opened = walked - opened;
	for (i = 0; rlx_safetensors_meta(f, i, &k, &val); i++) {
		sprintf(want, "v%u", i);
		CHECKF(!strcmp(val, want) && !strcmp(k, want + 1), "%u: %s %s", i, k, val);
	}
	walked = rlx_test_cpu() - walked;
	CHECK_EQ(i, N);
	CHECKF(walked < 10 * opened + 0.1, "%g s to walk, %g s to open", walked, opened);
	rlx_safetensors_close(f);
	free(copy);
	free(file);
	free(head);
}

#define T(dt, shape, off) \
	"{\"dtype\":\"" dt "\",\"shape\":" shape ",\"data_offsets\":" off "}"

TEST(refused_with_a_message)
{
	static const struct {
		const char	*head, *message;
		enum rlx_status	 st;
	} bad[] = {
		{ "[]", "no object", RLX_EPARSE },
		{ "{", "ends early", RLX_EPARSE },
		{ "{}", "end at byte 0 of data", RLX_EPARSE },
		{ "{\"a\":3}", "\"a\": not an object", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[2]", "[0,8]") ",\"a\":"
		  T("F32", "[2]", "[0,8]") "}", "came before", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[3]", "[0,8]") "}", "needs 12", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[3]", "[0,12]") "}", "too short", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[1]", "[0,4]") "}", "file at 8", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[1]", "[4,8]") "}", "begins at byte 4", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":"
		  T("F32", "[1]", "[0,4]") "}", "one before ends at 4", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":"
		  T("I8", "[6]", "[2,8]") "}", "begins at byte 2", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[2]", "[8,0]") "}", "data_offsets", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[2]", "[-8,0]") "}", "data_offsets", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[2]", "[0,8,9]") "}", "data_offsets", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[2]", "[0.5,8]") "}", "data_offsets", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[-2]", "[0,8]") "}", "negative", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[4294967296,4294967296,4294967296]", "[0,0]")
		  "}", "its shape needs", RLX_EPARSE },
		{ "{\"a\":" T("F32", "[9223372036854775807,2]", "[0,8]") "}",
		  "its shape needs", RLX_EPARSE },
		{ "{\"a\":" T("F4", "[2]", "[0,8]") "}", "\"F4\" is not", RLX_ENOSUP },
		{ "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,8]", "[0,8]") "}",
		  "8 dimensions", RLX_ENOSUP },
		{ "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "dtype", RLX_EPARSE },
		{ "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "shape", RLX_EPARSE },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "data_offsets", RLX_EPARSE },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],"
		  "\"x\":1}}", "unknown member", RLX_EPARSE },
		{ "{\"a\\u0000b\":" T("F32", "[2]", "[0,8]") "}", "zero byte", RLX_EPARSE },
		{ "{\"__metadata__\":3}", "__metadata__", RLX_EPARSE },
		{ "{\"__metadata__\":{\"a\":1}}", "no string", RLX_EPARSE },
		{ "{\"a\":" T("BOOL", "[8]", "[0,8]") "}", "neither 0 nor 1", RLX_EPARSE },
	};
	static const uint8_t data[8] = { 0, 1, 7 };
	struct rlx_safetensors *f;
	struct rlx_error err;
	uint8_t buf[512];
	void *copy;
	size_t i, n;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		enum rlx_status st;

		n = make(buf, bad[i].head, data, 8);
		st = open_copy(buf, n, &f, &copy, &err);
		CHECKF(st == bad[i].st, "%s: %s", bad[i].head, err.text);
		CHECKF(strstr(err.text, bad[i].message), "%s: %s", bad[i].head,
		       err.text);
		CHECK(!f);
		free(copy);
	}
	memset(buf, 0xff, 8);
	CHECK_EQ(open_copy(buf, 100, &f, &copy, &err), RLX_ERANGE);
	free(copy);
	memset(buf, 0, 8);
	buf[0] = 100;
	CHECK_EQ(open_copy(buf, 50, &f, &copy, &err), RLX_EPARSE);
	CHECK(strstr(err.text, "header of 100 bytes, but the file has 50"));
	free(copy);
	CHECK_EQ(rlx_safetensors_open("/", &f, NULL), RLX_EBADFD);
	CHECK_EQ(rlx_safetensors_open("/nowhere/x", &f, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_safetensors_open("x", NULL, NULL), RLX_EINVAL);
	rlx_safetensors_close(NULL);
}

static const char good[] =
	"{\"__metadata__\":{\"a\":\"b\"},\"e\":" T("F32", "[0,3]", "[0,0]")
	",\"u\":" T("U8", "[1]", "[0,1]") ",\"w\":" T("F32", "[]", "[1,5]") "  }  ";

TEST(unaligned_is_copied)
{
	struct rlx_safetensors *f;
	struct rlx_error err;
	uint8_t buf[512], data[5] = { 7 };
	const float *w;
	float x = 2.5f;
	void *copy;
	size_t n;

	memcpy(data + 1, &x, 4);
	n = make(buf, good, data, 5);
	CHECKF(!open_copy(buf, n, &f, &copy, &err), "%s", err.text);
	w = rlx_safetensors_find(f, "w")->data;
	CHECK_EQ((uintptr_t)w % 4, 0);
	CHECK(*w == 2.5f);
	CHECK_EQ(rlx_safetensors_find(f, "w")->offset, n - 4);
	CHECK(rlx_safetensors_find(f, "u")->data == (uint8_t *)copy + n - 5);
	CHECK_STR(rlx_safetensors_at(f, 0)->name, "e");
	rlx_safetensors_close(f);
	free(copy);
}

TEST(every_truncation_and_bit_flip)
{
	struct rlx_safetensors *f;
	struct rlx_error err;
	uint8_t buf[512], data[5] = { 7 };
	void *copy;
	size_t n, i;
	int bit;

	n = make(buf, good, data, 5);
	for (i = 0; i < n; i++) {
		CHECK_EQ(open_copy(buf, i, &f, &copy, &err), RLX_EPARSE);
		free(copy);
	}
	for (i = 0; i < n - 5; i++)
		for (bit = 0; bit < 8; bit++) {
			buf[i] ^= (uint8_t)(1 << bit);
			if (!open_copy(buf, n, &f, &copy, &err))
				rlx_safetensors_close(f);
			else
				CHECK(err.text[0]);
			free(copy);
			buf[i] ^= (uint8_t)(1 << bit);
		}
}

TEST(writer_refuses)
{
	static const char *odd[] = { "a", NULL, NULL };
	static const char *twice[] = { "a", "1", "a", "2", NULL };
	struct rlx_safetensor v[2] = {
		{ .name = "a", .type = rlx_type(RLX_U8, 1), .data = "x" },
		{ .name = "a", .type = rlx_type(RLX_U8, 1), .data = "y" },
	};
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 2, NULL, &err), RLX_EEXIST);
	CHECK(strstr(err.text, "\"a\" comes twice"));
	v[1].name = "__metadata__";
	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 2, NULL, NULL), RLX_EINVAL);
	v[1].name = "\xff";
	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 2, NULL, NULL), RLX_EINVAL);
	v[1].name = "b";
	v[1].data = NULL;
	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 2, NULL, NULL), RLX_EINVAL);
	v[1].type.dim[0] = 0;
	CHECK_EQ(rlx_safetensors_write("/nowhere/x", v, 2, NULL, NULL), RLX_ENOENT);
	v[1].type.dtype = RLX_NODTYPE;
	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 2, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 1, odd, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_safetensors_write("/tmp/x.st", v, 1, twice, NULL), RLX_EEXIST);
	CHECK_EQ(rlx_safetensors_write(NULL, v, 1, NULL, NULL), RLX_EINVAL);
}

TEST(no_memory_anywhere)
{
	struct rlx_safetensor v = { .name = "a", .type = rlx_type(RLX_U8, 1),
				    .data = "x" };
	static const char *meta[] = { "a", "b", NULL };
	char path[] = "/tmp/rlx-safe-XXXXXX";
	uint8_t buf[512], data[5] = { 7 };
	size_t len;
	uint64_t n;

	close(mkstemp(path));
	len = make(buf, good, data, 5);
	for (n = 1; n < 200; n++) {
		struct rlx_safetensors *f = NULL;
		struct rlx_error err = { 0 };
		enum rlx_status st;

		rlx_alloc_fail_nth(n);
		st = rlx_safetensors_open_mem(buf, len, &f, &err);
		if (!st)
			st = rlx_safetensors_write(path, &v, 1, meta, &err);
		rlx_alloc_fail_nth(0);
		rlx_safetensors_close(f);
		if (!st)
			break;
		CHECKF(st == RLX_ENOMEM && err.text[0], "%s", err.text);
	}
	CHECK(n > 8 && n < 200);
	remove(path);
}

TEST(a_header_and_data_make_the_file_that_is_written)
{
	static const char *const meta[] = { "a", "b\"c", NULL };
	static const float x[6] = { 1, 2, 3, 4, 5, 6 };
	static const uint8_t y[3] = { 7, 8, 9 };
	static const double z = 10;
	struct rlx_safetensor v[3] = {
		{ "y", rlx_type(RLX_U8, 3), y }, { "x", rlx_type(RLX_F32, 2, 3), x },
		{ "z", rlx_scalar(RLX_F64), &z },
	};
	struct rlx_safetensors_head h = { .meta = meta, .align = 64 };
	char path[] = "/tmp/rlx-st-XXXXXX";
	struct rlx_error err = { 0 };
	uint8_t made[1024], written[1024];
	uint64_t offset[3];
	size_t n, align;
	FILE *f;

	close(mkstemp(path));
	CHECKF(!rlx_safetensors_write(path, v, 3, meta, &err), "%s", err.text);
	f = fopen(path, "rb");
	n = fread(written, 1, sizeof(written), f);
	fclose(f);
	remove(path);
	for (align = 8; align <= 512; align *= 2) {
		h = (struct rlx_safetensors_head){ .meta = meta, .align = align, .offset = offset };
		CHECK(!rlx_safetensors_header(v, 3, &h, &err));
		CHECK_EQ(h.bytes % align, 0);
		h.buf = made;
		h.room = h.bytes - 1;
		CHECK_EQ(rlx_safetensors_header(v, 3, &h, NULL), RLX_ERANGE);
		h.room = h.bytes;
		CHECK(!rlx_safetensors_header(v, 3, &h, &err));
		memcpy(made + offset[0], y, 3);
		memcpy(made + offset[1], x, 24);
		memcpy(made + offset[2], &z, 8);
		CHECK_EQ(offset[2], h.bytes);
		if (align == 64)
			CHECK(offset[0] + 3 == n && !memcmp(made, written, n));
	}
	h.align = 24;
	CHECK_EQ(rlx_safetensors_header(v, 3, &h, NULL), RLX_EINVAL);
	v[1].name = "y";
	h.align = 64;
	CHECK_EQ(rlx_safetensors_header(v, 3, &h, NULL), RLX_EEXIST);
}

TEST_MAIN()
