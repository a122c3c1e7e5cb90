// SPDX-License-Identifier: MIT
/* Record files: round trips, damage, hostile headers, failures of disk and memory. */
#include <errno.h>
#include <dirent.h>

#define DATA_BASE "/dev/shm"
#include "selftests/lib/data_set.h"
#include "selftests/lib/rlx_oom.h"
#include "train/crc32c.h"
#include "train/fileops.h"
#include "train/record.h"

static const struct rlx_field image[2] = {
	{ "image", { RLX_U8, 2, { 28, 28 } } }, { "label", { RLX_I64, 0 } },
};

static struct rlx_record *open_ok(const char *path)
{
	struct rlx_record *r = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_record_open(path, &r, &err), "%s", err.text);
	CHECKF(!rlx_record_verify(r, &err), "%s", err.text);
	return r;
}

TEST(random_fields_round_trip)
{
	static const enum rlx_dtype dt[] = { RLX_F64, RLX_F32, RLX_BF16, RLX_I64, RLX_U8, RLX_C64 };
	uint64_t s = rlx_test_seed(), i, n, bytes;
	unsigned int round, f, k, fields;
	const char *path = data_path("a.rlxr");
	struct rlx_record_info info;
	uint8_t *buf = malloc(4 << 20);

	for (round = 0; round < 40; round++) {
		struct rlx_field field[RLX_FIELDS_MAX] = { 0 };
		struct rlx_record *r;

		fields = 1 + rlx_test_rand(&s) % (round % 5 ? 4 : 16);
		for (f = 0; f < fields; f++) {
			snprintf(field[f].name, sizeof(field[f].name), "f%u.x_-%u", f, round);
			field[f].type.dtype = dt[rlx_test_rand(&s) % 6];
			field[f].type.rank = rlx_test_rand(&s) % 5;
			for (k = 0; k < field[f].type.rank; k++)
				field[f].type.dim[k] = 1 + (int64_t)(rlx_test_rand(&s) % 9);
		}
		if (round % 8 == 7)
			field[0].type =
				rlx_type(RLX_U8, 100000 + (int64_t)(rlx_test_rand(&s) % 900000));
		n = 1 + rlx_test_rand(&s) % 60;
		data_record(path, field, fields, n,
			    round % 8 == 7 ? 0 : 65536ull << rlx_test_rand(&s) % 7);
		r = open_ok(path);
		rlx_record_info(r, &info);
		CHECK_EQ(info.records, n);
		CHECK_EQ(info.fields, fields);
		CHECK_EQ(!!(info.flags & RLX_RECORD_CRC), info.stride >= 65536);
		CHECK(info.stride < 65536 || info.stride % 4096 == 0);
		for (i = 0; i < n; i++) {
			CHECK(!rlx_record_read(r, i, buf, 4 << 20, &bytes, NULL));
			CHECK_EQ(bytes, info.stride);
			for (f = 0; f < fields; f++) {
				CHECK(rlx_type_equal(&info.field[f].type, &field[f].type));
				CHECK_EQ(info.offset[f] % 64, 0);
				CHECK(data_is(buf + info.offset[f], i, f,
					      (uint64_t)rlx_type_bytes(&field[f].type)));
			}
		}
		CHECK_EQ(rlx_record_read(r, n, buf, 4 << 20, NULL, NULL), RLX_ERANGE);
		CHECK_EQ(rlx_record_read(r, 0, buf, 0, NULL, NULL), RLX_ERANGE);
		rlx_record_close(r);
	}
	free(buf);
}

TEST(streams_and_variable_records_round_trip)
{
	const struct rlx_field token = { "tokens", { RLX_U16, 0 } },
			       text = { "text", { RLX_U8, 1, { 5000 } } };
	struct rlx_record_opts o = { .size = sizeof(o), .flags = RLX_RECORD_STREAM,
				     .chunk_bytes = 65536 };
	uint64_t s = rlx_test_seed(), i, n = 0, bytes;
	uint16_t *t = malloc(2 * 200000), got;
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	uint32_t len[300];
	uint8_t buf[5000], want[5000];
	struct rlx_record *r;
	const void *p;

	for (i = 0; i < 200000; i++)
		t[i] = (uint16_t)rlx_test_rand(&s);
	CHECKF(!rlx_record_create(data_path("s.rlxr"), &token, 1, &o, &w, &err), "%s", err.text);
	while (n < 200000) {
		uint64_t c = rlx_test_rand(&s) % 50000;

		c = c < 200000 - n ? c : 200000 - n;
		p = t + n;
		CHECK(!rlx_record_add(w, &p, c, &err));
		n += c;
	}
	CHECK(!rlx_record_commit(w, &err));
	r = open_ok(data_path("s.rlxr"));
	for (i = 0; i < 1000; i++) {
		uint64_t k = rlx_test_rand(&s) % n;

		CHECK(!rlx_record_read(r, k, &got, 2, NULL, &err));
		CHECK_EQ(got, t[k]);
	}
	rlx_record_close(r);
	free(t);

	o.flags = RLX_RECORD_VARIABLE;
	CHECKF(!rlx_record_create(data_path("v.rlxr"), &text, 1, &o, &w, &err), "%s", err.text);
	for (i = 0; i < 300; i++) {
		len[i] = rlx_test_rand(&s) % 8 ? rlx_test_rand(&s) % 5001 : 0;
		data_fill(buf, i, 0, len[i]);
		p = buf;
		CHECK(!rlx_record_add(w, &p, len[i], &err));
	}
	CHECK_EQ(rlx_record_add(w, &p, 5001, &err), RLX_ERANGE);
	err.status = 0;
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
	r = open_ok(data_path("v.rlxr"));
	for (i = 0; i < 300; i++) {
		CHECK(!rlx_record_read(r, i, want, 5000, &bytes, &err));
		CHECK_EQ(bytes, len[i]);
		CHECK(data_is(want, i, 0, bytes));
	}
	rlx_record_close(r);
}

/* Refused with a text that names a byte, or opened. */
static enum rlx_status try_mem(const uint8_t *p, size_t n, bool verify)
{
	struct rlx_record *r = NULL;
	struct rlx_error err = { 0 };
	uint8_t *exact = malloc(n ? n : 1);
	enum rlx_status st;

	memcpy(exact, p, n);	/* so that a read past the end is seen */
	st = rlx_record_open_mem(exact, n, &r, &err);
	CHECK(!st == !!r);
	if (st) {
		CHECKF(strstr(err.text, "byte "), "no byte in: %s", err.text);
	} else if (verify) {
		st = rlx_record_verify(r, &err);
		CHECKF(!st || strstr(err.text, "chunk ") || strstr(err.text, "record "), "%s",
		       err.text);
	}
	rlx_record_close(r);
	free(exact);
	return st;
}

TEST(each_damaged_byte_is_found)
{
	uint64_t s = rlx_test_seed(), i, index, at;
	uint8_t *p;
	size_t n;

	data_record(data_path("d.rlxr"), image, 2, 200, 65536);
	p = data_read(data_path("d.rlxr"), &n);
	index = 4096 + 65536ull * ((200 + 72) / 73);	/* 896 bytes a record: 73 a chunk */
	CHECK_EQ(try_mem(p, n, true), RLX_OK);
	for (i = 0; i < 6000; i++) {
		/* the header, the index; some of the data */
		at = i < 1888 ? i : i < 2500 ? index + (i - 1888) % (n - index) :
		     4096 + rlx_test_rand(&s) % (n - 4096);
		if (i >= 2500 && i % 8)
			continue;
		p[at] ^= 1 << rlx_test_rand(&s) % 8;
		CHECKF(try_mem(p, n, true) < 0, "byte %llu damaged, and nothing said",
		       (unsigned long long)at);
		p[at] ^= 0;
		free(p);
		p = data_read(data_path("d.rlxr"), &n);
	}
	for (i = 0; i < 400; i++) {
		at = i < 100 ? i * 41 : rlx_test_rand(&s) % n;
		CHECKF(try_mem(p, at, false) < 0, "cut at %llu", (unsigned long long)at);
	}
	free(p);
}

/* A header that is made to fit its crc again after a field was changed. */
TEST(hostile_headers_are_refused_or_read_inside)
{
	static const uint64_t odd[] = { 0, 1, 2, 63, 64, 4095, 4096, 65536, 1u << 31, UINT32_MAX,
					1ull << 32, 1ull << 62, INT64_MAX, UINT64_MAX };
	uint64_t s = rlx_test_seed(), i, k, opened = 0;
	struct record_disk_head h;
	uint8_t *p;
	size_t n;
	uint32_t crc;

	data_record(data_path("h.rlxr"), image, 2, 100, 65536);
	p = data_read(data_path("h.rlxr"), &n);
	for (i = 0; i < 6000; i++) {
		uint8_t *q = malloc(n);

		memcpy(q, p, n);
		for (k = 0; k < 1 + rlx_test_rand(&s) % 2; k++) {
			uint64_t v = odd[rlx_test_rand(&s) % 14] + rlx_test_rand(&s) % 3 - 1;
			size_t size = rlx_test_rand(&s) % 2 ? 4 : 8;
			bool in_index = rlx_test_rand(&s) % 4 == 0;
			size_t at = in_index ? n - 4 - 8 * (1 + rlx_test_rand(&s) % 4) :
				    8 + 4 * (rlx_test_rand(&s) % (rlx_test_rand(&s) % 2 ? 20 : 467));

			memcpy(q + at, &v, size);
		}
		memcpy(&h, q, sizeof(h));
		h.crc = crc32c(0, &h, __builtin_offsetof(struct record_disk_head, crc));
		memcpy(q, &h, sizeof(h));
		crc = crc32c(0, q + 4096 + 65536 * 2, n - 4 - 4096 - 65536 * 2);
		memcpy(q + n - 4, &crc, 4);
		opened += !try_mem(q, n, true);
		free(q);
	}
	CHECKF(opened < 5400, "%llu of 6000 were opened", (unsigned long long)opened);
	free(p);
}

static unsigned int files_in(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned int n = 0;
	struct dirent *e;

	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static unsigned int calls, fail_at;
static int fail_with;

static int fail_nth(void *ctx, const struct file_call *c)
{
	return c->op != FILE_UNLINK && ++calls == fail_at ? fail_with : 0;
}

static enum rlx_status write_some(const char *path, unsigned int n)
{
	struct rlx_record_opts o = { .size = sizeof(o), .chunk_bytes = 65536 };
	static const uint8_t zeros[28 * 28];
	static const int64_t label = 3;
	const void *data[2] = { zeros, &label };
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_record_create(path, image, 2, &o, &w, &err);
	unsigned int i;

	if (st) {
		CHECK(err.text[0] || st == RLX_ENOMEM);
		return st;
	}
	for (i = 0; i < n && !st; i++)
		st = rlx_record_add(w, data, 1, &err);
	if (st) {
		rlx_record_abort(w);
		return st;
	}
	return rlx_record_commit(w, &err);
}

TEST(a_failing_disk_leaves_what_was_there)
{
	static const int with[] = { EIO, ENOSPC, EDQUOT };
	struct file_hook h = { .before = fail_nth };
	struct rlx_record_info info;
	struct rlx_record *r;
	unsigned int k, met = 0;
	enum rlx_status st;

	for (k = 0; k < 3; k++) {
		CHECK(!write_some(data_path("f.rlxr"), 10));
		for (fail_at = 1; fail_at < 100; fail_at++) {
			calls = 0;
			fail_with = with[k];
			file_hook_set(&h);
			st = write_some(data_path("f.rlxr"), 160);
			file_hook_set(NULL);
			if (calls < fail_at)
				break;
			met++;
			CHECKF(st, "call %u failed and nothing was said", fail_at);
			CHECK_EQ(files_in(data_dir), 1);
			r = open_ok(data_path("f.rlxr"));
			rlx_record_info(r, &info);
			/* once it has its name only flushing the directory can fail */
			CHECKF(info.records == 10 || (info.records == 160 && fail_at > 8),
			       "call %u: %llu records", fail_at, (unsigned long long)info.records);
			rlx_record_close(r);
			CHECK(!write_some(data_path("f.rlxr"), 10));
		}
	}
	CHECK(met >= 3 * 8);
}

static enum rlx_status all_of_it(void *ctx)
{
	struct rlx_record *r = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = write_some(ctx, 100);

	if (!st)
		st = rlx_record_open(ctx, &r, &err);
	if (!st)
		st = rlx_record_verify(r, &err);
	rlx_record_close(r);
	return st;
}

TEST(memory_may_run_out_anywhere)
{
	CHECK(rlx_oom_sweep(all_of_it, (void *)data_path("o.rlxr")) > 5);
}

TEST(bad_requests_say_what_is_wrong)
{
	struct rlx_record_opts o = { .size = sizeof(o), .chunk_bytes = 100000 };
	struct rlx_field f = { "x", { RLX_F32, 1, { 4 } } }, two[2] = { f, f };
	struct rlx_record_writer *w;
	struct rlx_record *r;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_record_create(data_path("x"), &f, 1, &o, &w, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_record_create(data_path("x"), two, 2, NULL, &w, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_record_create(data_path("x"), &f, 0, NULL, &w, NULL), RLX_EINVAL);
	f.type.dim[0] = 2 << 20;
	CHECK_EQ(rlx_record_create(data_path("x"), &f, 1, NULL, &w, NULL), RLX_ERANGE);
	strcpy(f.name, "a/b");
	CHECK_EQ(rlx_record_create(data_path("x"), &f, 1, NULL, &w, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_record_open(data_path("none"), &r, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "none"));
	CHECK_EQ(rlx_record_open(data_dir, &r, NULL), RLX_EBADFD);
	f = (struct rlx_field){ "x", { RLX_F32, 1, { 4 } } };
	CHECK(!rlx_record_create(data_path("e"), &f, 1, NULL, &w, &err));
	CHECK_EQ(rlx_record_commit(w, NULL), RLX_EINVAL);
	CHECK_EQ(files_in(data_dir), 0);
}

TEST_MAIN()
