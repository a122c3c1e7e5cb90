// SPDX-License-Identifier: MIT
/* The loader when disks fail, files are damaged, cut, replaced or removed under it. */
#include <errno.h>

#include "rlx/npy.h"
#define DATA_BASE "/dev/shm"
#include "selftests/lib/data_set.h"
#include "selftests/lib/rlx_oom.h"
#include "train/fileops.h"
#include "train/record.h"

static const struct rlx_field small[2] = { { "id", { RLX_I64, 0 } },
					   { "x", { RLX_U8, 1, { 1000 } } } };
static const struct rlx_field large[2] = { { "id", { RLX_I64, 0 } },
					   { "x", { RLX_U8, 1, { 70000 } } } };

static void write_set(const char *path, const struct rlx_field *field, uint64_t n)
{
	struct rlx_record_opts o = { .size = sizeof(o), .chunk_bytes = field == small ? 65536 : 0 };
	uint64_t bytes = (uint64_t)field[1].type.dim[0];
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	uint8_t *x = malloc(bytes);
	int64_t i;
	const void *data[2] = { &i, x };

	CHECKF(!rlx_record_create(path, field, 2, &o, &w, &err), "%s", err.text);
	for (i = 0; i < (int64_t)n; i++) {
		data_fill(x, (uint64_t)i, 1, bytes);
		CHECK(!rlx_record_add(w, data, 1, &err));
	}
	free(x);
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
}

static struct rlx_loader *open_ok(const struct rlx_loader_opts *o)
{
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_loader_open(o, &ld, &err), "%s", err.text);
	return ld;
}

/* Take up to @n batches; how many came before a failure, which is left in *@st. */
static unsigned int take(struct rlx_loader *ld, unsigned int n, enum rlx_status *st, uint64_t *sum)
{
	const struct rlx_field *f = rlx_loader_field(ld, 1);
	unsigned int i, row;
	struct rlx_batch b;

	*st = RLX_OK;
	for (i = 0; i < n; i++) {
		*st = rlx_loader_next(ld, &b, 20000000000);
		if (*st)
			break;
		for (row = 0; row < b.rows; row++) {
			int64_t id;

			memcpy(&id, rlx_batch_row(ld, &b, "id", row), 8);
			CHECK(data_is(rlx_batch_row(ld, &b, f->name, row), (uint64_t)id, 1,
				      (uint64_t)f->type.dim[0]));
			*sum = *sum * 31 + (uint64_t)id;
		}
		rlx_loader_done(ld, &b);
	}
	return i;
}

static _Atomic unsigned int reads, fail_at, how_often;
static _Atomic bool only_reads;

static int fail_nth(void *ctx, const struct file_call *c)
{
	if (only_reads && (c->op != FILE_READ || c->bytes < 512))
		return 0;
	reads++;
	return reads >= fail_at && reads < fail_at + how_often ? EIO : 0;
}

static const struct file_hook hook = { .before = fail_nth };

TEST(a_failed_read_says_which_records_and_keeps_the_position)
{
	uint64_t r = rlx_test_seed(), whole, sum;
	unsigned int layout, round, n;
	enum rlx_status st;

	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		struct rlx_loader_opts o = {
			.size = sizeof(o),
			.path = data_path("a.rlxr"),
			.batch = 24,
			.layout = layout,
			.shuffle = true,
			.seed = 1,
			.window = 1,
			.depth = 3,
		};
		struct rlx_loader *ld;

		write_set(o.path, small, 900);
		ld = open_ok(&o);
		whole = 7;
		CHECK_EQ(take(ld, 90, &st, &whole), 90);
		rlx_loader_close(ld);
		for (round = 0; round < 8; round++) {
			struct rlx_loader_pos pos;

			o.flags = round % 2 ? RLX_LOADER_NO_RING : 0;
			sum = 7;
			ld = open_ok(&o);
			reads = 0;
			only_reads = true;
			how_often = 1;
			fail_at = 1 + (unsigned int)(rlx_test_rand(&r) %
						     (layout == RLX_LAYOUT_ROWS	  ? 800 :
						      layout == RLX_LAYOUT_CHUNKS ? 20 :
										    3));
			file_hook_set(&hook);
			n = take(ld, 90, &st, &sum);
			if (n < 90) {
				const char *text = rlx_loader_error(ld)->text;

				CHECK_EQ(st, RLX_EIO);
				CHECKF(strstr(text, "a.rlxr: chunk ") && strstr(text, "records ") &&
				       strstr(text, strerror(EIO)), "%s", text);
				CHECK_EQ(rlx_loader_next(ld, &(struct rlx_batch){ 0 }, -1), RLX_EIO);
			}
			file_hook_set(NULL);
			rlx_loader_tell(ld, &pos);
			CHECK_EQ(pos.epoch * 888 + pos.position, n * 24);
			CHECKF(!rlx_loader_seek(ld, &pos), "%s", rlx_loader_error(ld)->text);
			CHECK_EQ(take(ld, 90 - n, &st, &sum), 90 - n);
			CHECK_EQ(sum, whole);
			rlx_loader_close(ld);
		}
	}
}

/* Change byte @at of @path. */
static void damage(const char *path, uint64_t at)
{
	int fd = open(path, O_RDWR);
	uint8_t c;

	CHECK(fd >= 0 && pread(fd, &c, 1, (off_t)at) == 1);
	c ^= 16;
	CHECK(pwrite(fd, &c, 1, (off_t)at) == 1);
	close(fd);
}

TEST(damaged_data_is_never_given_out)
{
	unsigned int layout, n;
	enum rlx_status st;
	uint64_t sum = 0;

	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		struct rlx_loader_opts o = {
			.size = sizeof(o), .path = data_path("d.rlxr"), .batch = 4, .layout = layout,
			.window = 1,
		};
		struct rlx_loader *ld = NULL;
		struct rlx_error err = { 0 };

		write_set(o.path, large, 60);	/* 73,728 bytes each */
		damage(o.path, 4096 + (2 << 20) + 3 * 73728 + 5000);
		ld = open_ok(&o);
		n = take(ld, 15, &st, &sum);
		CHECK_EQ(st, RLX_EIO);
		CHECKF(strstr(rlx_loader_error(ld)->text, "chunk ") &&
		       strstr(rlx_loader_error(ld)->text, "crc"), "%s", rlx_loader_error(ld)->text);
		CHECKF(layout == RLX_LAYOUT_RESIDENT ? n == 0 : n > 0, "%u", n);
		rlx_loader_close(ld);
		o.verify = RLX_VERIFY_OPEN;
		CHECK_EQ(rlx_loader_open(&o, &ld, &err), RLX_EIO);
		CHECK(strstr(err.text, "records "));
	}
}

TEST(damaged_records_may_be_skipped_up_to_a_limit)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o),
		.path = data_path("s.rlxr"),
		.batch = 8,
		.layout = RLX_LAYOUT_ROWS,
		.flags = RLX_LOADER_SKIP,
		.shuffle = true,
	};
	struct rlx_loader_info info;
	unsigned int dense, k;
	enum rlx_status st;
	uint64_t sum = 0;

	for (dense = 0; dense < 2; dense++) {
		struct rlx_loader *ld;
		struct rlx_record *r;
		struct rlx_error err = { 0 };
		uint64_t at, bytes, chunk;

		o.flags = RLX_LOADER_SKIP | (dense ? RLX_LOADER_DENSE : 0);
		write_set(o.path, large, 64);
		CHECK(!rlx_record_open(o.path, &r, &err));
		for (k = 0; k < 2; k++) {
			record_at(r, 17 + 20 * k, &at, &bytes, &chunk);
			damage(o.path, at + 300);
			ld = open_ok(&o);
			CHECKF((take(ld, 8, &st, &sum) == 8) == !k, "with %u damaged records: %s",
			       k + 1, rlx_status_name(st));
			CHECK(!k || strstr(rlx_loader_error(ld)->text, "more than a thousandth"));
			rlx_loader_close(ld);
		}
		rlx_record_close(r);
		write_set(o.path, large, 64);
		CHECK(!rlx_record_open(o.path, &r, &err));
		record_at(r, 40, &at, &bytes, &chunk);
		damage(o.path, at + 300);
		ld = open_ok(&o);
		CHECK_EQ(take(ld, 8, &st, &sum), 8);
		rlx_loader_info(ld, &info);
		CHECK_EQ(info.skipped, 1);
		CHECK_EQ(take(ld, 8, &st, &sum), 8);	/* once more in the next epoch */
		rlx_loader_close(ld);
		rlx_record_close(r);
	}
}

TEST(files_that_change_under_the_loader_are_seen)
{
	static const char *const words[] = { "gone", "another file", "changed" };
	unsigned int layout, how, n;
	char aside[128], path[128];
	enum rlx_status st;

	snprintf(path, sizeof(path), "%s", data_path("c.rlxr"));
	snprintf(aside, sizeof(aside), "%s", data_path("aside"));
	for (layout = RLX_LAYOUT_CHUNKS; layout <= RLX_LAYOUT_ROWS; layout++)
		for (how = 0; how < 3; how++) {
			struct rlx_loader_opts o = {
				.size = sizeof(o), .path = path, .batch = 16, .layout = layout,
				.shuffle = true, .window = 1, .depth = 2, .seed = 3,
			};
			uint64_t whole = 0, sum = 0;
			struct rlx_loader_pos pos;
			struct rlx_loader *ld;

			write_set(path, small, 4000);
			ld = open_ok(&o);
			CHECK_EQ(take(ld, 300, &st, &whole), 300);
			rlx_loader_close(ld);
			ld = open_ok(&o);
			CHECK_EQ(take(ld, 3, &st, &sum), 3);
			CHECK(!rename(path, aside));
			if (how == 1)
				write_set(path, small, 10);
			if (how == 2) {
				CHECK(!rename(aside, path));
				damage(path, 5000);
			}
			n = 3 + take(ld, 297, &st, &sum);
			CHECK_EQ(st, RLX_ESTALE);
			CHECKF(strstr(rlx_loader_error(ld)->text, words[how]), "%s",
			       rlx_loader_error(ld)->text);
			rlx_loader_tell(ld, &pos);
			CHECK_EQ(pos.epoch * 4000 + pos.position, n * 16);
			CHECK_EQ(rlx_loader_seek(ld, &pos), RLX_ESTALE);
			if (how < 2) {		/* put back, it goes on */
				CHECK(!rename(aside, path));
				CHECKF(!rlx_loader_seek(ld, &pos), "%s", rlx_loader_error(ld)->text);
				CHECK_EQ(take(ld, 300 - n, &st, &sum), 300 - n);
				CHECK_EQ(sum, whole);
			}
			rlx_loader_close(ld);
		}
}

TEST(a_file_cut_short_under_the_loader)
{
	unsigned int layout, ring;
	enum rlx_status st;
	uint64_t sum = 0;

	for (layout = RLX_LAYOUT_CHUNKS; layout <= RLX_LAYOUT_ROWS; layout++)
		for (ring = 0; ring < 4; ring++) {
			struct rlx_loader_opts o = {
				.size = sizeof(o),
				.path = data_path("t.rlxr"),
				.batch = 16,
				.layout = layout,
				.shuffle = true,
				.window = 1,
				.depth = 2,
				.flags = ring & 1 ? RLX_LOADER_NO_RING : 0,
			};
			struct rlx_loader *ld;

			if (ring & 2) {		/* an array, whose size nothing else tells */
				struct rlx_type t = rlx_type(RLX_U8, 4000, 1000);
				uint8_t *x = calloc(4000, 1000);
				struct rlx_error err = { 0 };

				CHECK(!rlx_npy_write(o.path, &t, x, &err));
				free(x);
			} else {
				write_set(o.path, small, 4000);
			}
			ld = open_ok(&o);
			CHECK(!truncate(o.path, 100000));
			if (ring & 2) {
				struct rlx_batch b;

				for (st = RLX_OK; !(st = rlx_loader_next(ld, &b, -1));)
					rlx_loader_done(ld, &b);
			} else {
				take(ld, 1000, &st, &sum);
			}
			CHECKF(st == RLX_ESTALE || st == RLX_EIO, "%s", rlx_status_name(st));
			CHECKF(strstr(rlx_loader_error(ld)->text, "changed") ||
			       strstr(rlx_loader_error(ld)->text, "cut short"), "%s",
			       rlx_loader_error(ld)->text);
			rlx_loader_close(ld);
		}
}

TEST(arrays_of_other_content_are_another_data_set)
{
	struct rlx_loader_opts o = { .size = sizeof(o), .path = data_path("x.npy"), .batch = 16 };
	struct rlx_type t = rlx_type(RLX_U8, 3000, 100);
	uint8_t *x = calloc(3000, 100);
	struct rlx_error err = { 0 };
	struct rlx_loader_pos pos;
	struct rlx_loader *ld;
	struct rlx_batch b;

	CHECK(!rlx_npy_write(o.path, &t, x, &err));
	ld = open_ok(&o);
	CHECK(!rlx_loader_next(ld, &b, -1));
	rlx_loader_done(ld, &b);
	rlx_loader_tell(ld, &pos);
	rlx_loader_close(ld);
	ld = open_ok(&o);	/* the same once more */
	CHECK(!rlx_loader_seek(ld, &pos));
	rlx_loader_close(ld);
	memset(x + 150000, 1, 6000);	/* some of it is looked at */
	CHECK(!rlx_npy_write(o.path, &t, x, &err));
	ld = open_ok(&o);
	CHECK_EQ(rlx_loader_seek(ld, &pos), RLX_ESTALE);
	CHECK(strstr(rlx_loader_error(ld)->text, "changed"));
	rlx_loader_close(ld);
	free(x);
}

static enum rlx_status refuse_odd(void *ctx, const struct rlx_sample *in, void *const *out,
				  struct rlx_error *err)
{
	memcpy(out[0], in->data[1], 1000);
	memcpy(out[1], in->data[0], 8);
	return in->record == 50 ? rlx_fail(err, RLX_EPARSE, "record 50 is odd") : RLX_OK;
}

TEST(a_decode_function_may_refuse_a_record)
{
	static const struct rlx_field turned[2] = { { "x", { RLX_U8, 1, { 1000 } } },
						    { "id", { RLX_I64, 0 } } };
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("r.rlxr"), .batch = 8, .decode = refuse_odd,
		.decoded = turned, .n_decoded = 2,
	};
	struct rlx_loader *ld;
	struct rlx_batch b;
	enum rlx_status st = RLX_OK;
	unsigned int n;

	write_set(o.path, small, 200);
	ld = open_ok(&o);
	for (n = 0; !st && n < 25; n += !st) {
		st = rlx_loader_next(ld, &b, -1);
		if (!st)
			rlx_loader_done(ld, &b);
	}
	CHECK_EQ(st, RLX_EPARSE);
	CHECK_EQ(n, 6);
	CHECK(strstr(rlx_loader_error(ld)->text, "record 50 is odd"));
	rlx_loader_close(ld);
	o.flags = RLX_LOADER_SKIP;
	ld = open_ok(&o);
	for (n = 0; n < 25; n++) {
		CHECKF(!rlx_loader_next(ld, &b, -1), "%s", rlx_loader_error(ld)->text);
		if (n == 6)	/* record 51 in its place */
			CHECK_EQ(*(const int64_t *)rlx_batch_row(ld, &b, "id", 2), 51);
		rlx_loader_done(ld, &b);
	}
	rlx_loader_close(ld);
}

TEST(any_failing_call_while_opening_is_an_error)
{
	struct rlx_loader_opts o = { .size = sizeof(o), .path = data_path("o.rlxr"), .batch = 8 };
	unsigned int k, fds, format;
	struct rlx_type t = rlx_type(RLX_U8, 300, 100);
	uint8_t *x = calloc(300, 100);
	struct rlx_error none = { 0 };

	write_set(data_path("o.rlxr"), small, 200);
	CHECK(!rlx_npy_write(data_path("o.npy"), &t, x, &none));
	only_reads = false;
	how_often = 1;
	for (format = 0; format < 2; format++) {
		o.path = data_path(format ? "o.npy" : "o.rlxr");
		for (k = 1; k < 30; k++) {
			struct rlx_loader *ld = NULL;
			struct rlx_error err = { 0 };
			struct rlx_batch b;
			enum rlx_status st;

			fds = rlx_oom_fds();
			reads = 0;
			fail_at = k;
			file_hook_set(&hook);
			st = rlx_loader_open(&o, &ld, &err);
			if (st)
				CHECKF(strstr(err.text, "o."), "%s", err.text);
			else if (!rlx_loader_next(ld, &b, -1))
				rlx_loader_done(ld, &b);
			rlx_loader_close(ld);
			file_hook_set(NULL);
			CHECK_EQ(rlx_oom_fds(), fds);
		}
	}
	free(x);
}

TEST_MAIN()
