// SPDX-License-Identifier: MIT
/*
 * The loader: each sample once an epoch, whatever reads it; batches that programs unpack to
 * what the file holds; no copy by a CPU between the disk's read and the program.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <sys/wait.h>

#include "rlx/npy.h"
#include "rlx/safetensors.h"
#include "selftests/lib/data_set.h"
#include "selftests/lib/rlx_oom.h"

static const struct rlx_field digits[3] = {
	{ "id", { RLX_I64, 0 } }, { "image", { RLX_U8, 2, { 8, 9 } } },
	{ "weight", { RLX_F32, 1, { 3 } } },
};

static struct rlx_loader *open_ok(const struct rlx_loader_opts *o)
{
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_loader_open(o, &ld, &err), "%s", err.text);
	return ld;
}

/* Records of @field, "id" of each its own number; further fields as data_byte(). */
static void write_set(const char *path, const struct rlx_field *field, unsigned int n_field,
		      uint64_t n, uint64_t chunk)
{
	struct rlx_record_opts o = { .size = sizeof(o), .chunk_bytes = chunk };
	const void *data[RLX_FIELDS_MAX];
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	int64_t i;
	unsigned int f;

	CHECKF(!rlx_record_create(path, field, n_field, &o, &w, &err), "%s", err.text);
	for (f = 1, data[0] = &i; f < n_field; f++)
		data[f] = malloc((size_t)rlx_type_bytes(&field[f].type));
	for (i = 0; i < (int64_t)n; i++) {
		for (f = 1; f < n_field; f++)
			data_fill((uint8_t *)data[f], (uint64_t)i, f,
				  (uint64_t)rlx_type_bytes(&field[f].type));
		CHECK(!rlx_record_add(w, data, 1, &err));
	}
	for (f = 1; f < n_field; f++)
		free((void *)data[f]);
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
}

/* The number of the record in row @row, after all its fields were looked at. */
static uint64_t row_id(const struct rlx_loader *ld, const struct rlx_batch *b, unsigned int row)
{
	const struct rlx_field *f;
	unsigned int k;
	int64_t id;

	memcpy(&id, rlx_batch_row(ld, b, "id", row), sizeof(id));
	for (k = 1; (f = rlx_loader_field(ld, k)); k++)
		CHECKF(data_is(rlx_batch_row(ld, b, f->name, row), (uint64_t)id, k,
			       (uint64_t)rlx_type_bytes(&f->type)),
		       "row %u: field %s is not that of record %lld", row, f->name, (long long)id);
	return (uint64_t)id;
}

/* Numbers of the records of the next @batches batches, one behind the other. */
static uint64_t *take_ids(struct rlx_loader *ld, unsigned int batch, unsigned int batches)
{
	uint64_t *ids = malloc(sizeof(*ids) * batch * batches);
	struct rlx_batch b;
	unsigned int i, row;

	for (i = 0; i < batches; i++) {
		CHECKF(!rlx_loader_next(ld, &b, -1), "%s", rlx_loader_error(ld)->text);
		for (row = 0; row < batch; row++)
			ids[i * batch + row] = row_id(ld, &b, row);
		rlx_loader_done(ld, &b);
	}
	return ids;
}

static void check_each_once(const uint64_t *ids, uint64_t taken, uint64_t records)
{
	uint8_t *seen = calloc(records, 1);
	uint64_t i;

	for (i = 0; i < taken; i++) {
		CHECK(ids[i] < records);
		CHECKF(!seen[ids[i]]++, "record %llu comes twice", (unsigned long long)ids[i]);
	}
	free(seen);
}

TEST(an_epoch_has_each_record_once_in_every_layout)
{
	uint64_t s = rlx_test_seed(), n, k;
	unsigned int layout, round;

	for (round = 0; round < 6; round++)
		for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
			struct rlx_loader_opts o = {
				.size = sizeof(o), .path = data_path("a.rlxr"), .layout = layout,
				.batch = 1 + rlx_test_rand(&s) % 200, .depth = 1 + rlx_test_rand(&s) % 6,
				.window = 1 + rlx_test_rand(&s) % 5, .shuffle = round % 3 != 0,
				.workers = 1 + rlx_test_rand(&s) % 4, .seed = rlx_test_rand(&s),
				.flags = (rlx_test_rand(&s) % 2 ? RLX_LOADER_NO_RING : 0) |
					 (rlx_test_rand(&s) % 2 ? RLX_LOADER_DENSE : 0) |
					 (rlx_test_rand(&s) % 4 ? 0 : RLX_LOADER_BUFFERED),
			};
			struct rlx_loader_info info;
			struct rlx_loader *ld;
			uint64_t *a, *b;

			n = o.batch + rlx_test_rand(&s) % 4000;
			write_set(o.path, digits, 3, n, 65536);
			ld = open_ok(&o);
			rlx_loader_info(ld, &info);
			CHECK_EQ(info.epoch_batches, n / o.batch);
			a = take_ids(ld, o.batch, (unsigned int)info.epoch_batches);
			check_each_once(a, info.epoch_batches * o.batch, n);
			b = take_ids(ld, o.batch, (unsigned int)info.epoch_batches);
			check_each_once(b, info.epoch_batches * o.batch, n);
			for (k = 0; !o.shuffle && k < info.epoch_batches * o.batch; k++)
				CHECK_EQ(a[k], k);
			if (o.shuffle && n > 50)
				CHECK(memcmp(a, b, info.epoch_batches * o.batch * sizeof(*a)));
			free(a);
			free(b);
			rlx_loader_close(ld);
		}
}

TEST(batches_do_not_depend_on_how_they_are_read)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("b.rlxr"), .batch = 37, .shuffle = true,
		.seed = 5, .window = 3,
	};
	uint64_t s = rlx_test_seed();
	unsigned int layout, round;

	write_set(o.path, digits, 3, 5000, 65536);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		uint64_t *first = NULL;

		o.layout = layout;
		for (round = 0; round < 5; round++) {
			struct rlx_loader *ld;
			uint64_t *ids;

			o.workers = 1 + rlx_test_rand(&s) % 5;
			o.depth = 1 + rlx_test_rand(&s) % 9;
			o.flags = (round & 1 ? RLX_LOADER_NO_RING : 0) |
				  (round & 2 ? RLX_LOADER_DENSE : 0);
			ld = open_ok(&o);
			ids = take_ids(ld, 37, 300);
			rlx_loader_close(ld);
			if (!first)
				first = ids;
			else
				CHECK(!memcmp(first, ids, 37 * 300 * sizeof(*ids)));
			if (first != ids)
				free(ids);
		}
		free(first);
	}
}

TEST(ranks_share_each_global_batch)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o),
		.path = data_path("r.rlxr"),
		.shuffle = true,
		.seed = 9,
		.window = 2,
	};
	unsigned int layout, r, k;

	write_set(o.path, digits, 3, 3001, 65536);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		uint64_t *all, *one;
		struct rlx_loader *ld;

		o.layout = layout;
		o.batch = 48;
		o.world = 1;
		o.rank = 0;
		ld = open_ok(&o);
		all = take_ids(ld, 48, 100);
		rlx_loader_close(ld);
		o.batch = 16;
		o.world = 3;
		for (r = 0; r < 3; r++) {
			o.rank = r;
			ld = open_ok(&o);
			one = take_ids(ld, 16, 100);
			for (k = 0; k < 100; k++)
				CHECK(!memcmp(one + 16 * k, all + 48 * k + 16 * r, 16 * sizeof(*one)));
			free(one);
			rlx_loader_close(ld);
		}
		free(all);
	}
}

TEST(the_last_batch_may_be_short)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("k.rlxr"), .batch = 50, .keep_last = true,
		.shuffle = true, .window = 2,
	};
	unsigned int layout, i, row;

	write_set(o.path, digits, 3, 1020, 65536);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		uint64_t ids[1100], n = 0;
		struct rlx_loader *ld;
		struct rlx_batch b;

		o.layout = layout;
		ld = open_ok(&o);
		for (i = 0; i < 21; i++) {
			CHECK(!rlx_loader_next(ld, &b, -1));
			CHECK_EQ(b.rows, i < 20 ? 50 : 20);
			for (row = 0; row < b.rows; row++)
				ids[n++] = row_id(ld, &b, row);
			for (; row < 50; row++)
				CHECK(row_id(ld, &b, row) < 1020);
			rlx_loader_done(ld, &b);
		}
		CHECK_EQ(n, 1020);
		check_each_once(ids, n, 1020);
		CHECK(!rlx_loader_next(ld, &b, -1));
		CHECK_EQ(b.epoch, 1);
		CHECK_EQ(b.sample, 1050);
		rlx_loader_close(ld);
	}
}

TEST(a_run_that_is_resumed_goes_on_with_the_same_batches)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o),
		.path = data_path("c.rlxr"),
		.batch = 20,
		.shuffle = true,
		.seed = 3,
		.window = 3,
	};
	uint64_t s = rlx_test_seed();
	unsigned int layout, round;

	write_set(o.path, digits, 3, 2500, 65536);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		struct rlx_loader_opts again = o;
		struct rlx_loader *ld;
		uint64_t *all;

		o.layout = layout;
		ld = open_ok(&o);
		all = take_ids(ld, 20, 400);
		rlx_loader_close(ld);
		for (round = 0; round < 7; round++) {
			unsigned int at = rlx_test_rand(&s) % 390, more = 1 + rlx_test_rand(&s) % 10;
			struct rlx_loader_pos pos;
			uint64_t *ids;

			ld = open_ok(&o);
			free(take_ids(ld, 20, at));
			rlx_loader_tell(ld, &pos);
			CHECK_EQ(pos.epoch * 2500 + pos.position, at * 20);
			CHECK_EQ(sizeof(pos), 48);
			if (round % 2) {	/* in the same loader, else in another one */
				free(take_ids(ld, 20, 30));
			} else {
				rlx_loader_close(ld);
				again = o;
				again.seed = 77;	/* the position's is taken */
				again.workers = 1 + rlx_test_rand(&s) % 3;
				again.depth = 1 + rlx_test_rand(&s) % 5;
				again.flags = rlx_test_rand(&s) % 2 ? RLX_LOADER_NO_RING : 0;
				ld = open_ok(&again);
			}
			CHECKF(!rlx_loader_seek(ld, &pos), "%s", rlx_loader_error(ld)->text);
			ids = take_ids(ld, 20, more);
			CHECK(!memcmp(ids, all + 20 * at, 20 * more * sizeof(*ids)));
			free(ids);
			rlx_loader_close(ld);
		}
		free(all);
	}
}

TEST(positions_that_do_not_fit_are_refused)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("p.rlxr"), .batch = 20, .shuffle = true,
	};
	struct rlx_loader_pos pos, bad;
	struct rlx_loader *ld;
	struct rlx_batch b;

	write_set(o.path, digits, 3, 500, 65536);
	ld = open_ok(&o);
	rlx_loader_tell(ld, &pos);
	bad = pos;
	bad.magic++;
	CHECK_EQ(rlx_loader_seek(ld, &bad), RLX_EINVAL);
	bad = pos;
	bad.position = 10;
	CHECK_EQ(rlx_loader_seek(ld, &bad), RLX_EINVAL);
	bad.position = 520;
	CHECK_EQ(rlx_loader_seek(ld, &bad), RLX_EINVAL);
	bad = pos;
	bad.fingerprint ^= 1;
	CHECK_EQ(rlx_loader_seek(ld, &bad), RLX_ESTALE);
	CHECK(strstr(rlx_loader_error(ld)->text, "changed"));
	CHECK(!rlx_loader_next(ld, &b, -1));
	CHECK_EQ(rlx_loader_seek(ld, &pos), RLX_EBUSY);
	rlx_loader_done(ld, &b);
	CHECK(!rlx_loader_seek(ld, &pos));
	rlx_loader_close(ld);
	/* other data under the same name */
	write_set(data_path("p.rlxr"), digits, 3, 500, 65536);
	ld = open_ok(&o);
	CHECK_EQ(rlx_loader_seek(ld, &pos), RLX_ESTALE);
	rlx_loader_close(ld);
}

TEST(more_than_depth_batches_are_not_given_out)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("m.rlxr"), .batch = 10, .depth = 3,
		.layout = RLX_LAYOUT_ROWS,
	};
	struct rlx_loader *ld;
	struct rlx_batch b[4];
	unsigned int i;

	write_set(o.path, digits, 3, 100, 65536);
	ld = open_ok(&o);
	for (i = 0; i < 3; i++)
		CHECK(!rlx_loader_next(ld, &b[i], -1));
	CHECK_EQ(rlx_loader_next(ld, &b[3], -1), RLX_EAGAIN);
	for (i = 0; i < 3; i++)
		CHECK_EQ(row_id(ld, &b[i], 4), 10 * i + 4);
	rlx_loader_done(ld, &b[0]);
	CHECK(!rlx_loader_next(ld, &b[3], -1));
	CHECK_EQ(row_id(ld, &b[3], 0), 30);
	rlx_loader_close(ld);
}

/* ---- what programs see ---- */

/* Compile each field as an output, run @batches, and compare with the batch in memory. */
static void check_program(const struct rlx_loader_opts *o, const char *device, unsigned int batches)
{
	struct rlx_compile_opts co = { .size = sizeof(co), .device = device };
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_graph *g = rlx_graph_new("unpack");
	struct rlx_loader *ld = open_ok(o), *twin = open_ok(o);
	const struct rlx_field *f;
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_stats before, after;
	unsigned int k, i, row;
	struct rlx_batch b;
	char name[40];

	for (k = 0; (f = rlx_loader_field(ld, k)); k++) {
		snprintf(name, sizeof(name), "out.%s", f->name);
		rlx_output(g, name, rlx_loader_input(ld, g, f->name));
	}
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, &so, &s, &err), "%s", err.text);
	rlx_stats_read(&before);
	for (i = 0; i < batches; i++) {
		CHECKF(!rlx_loader_feed(ld, s), "%s", rlx_loader_error(ld)->text);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK(!rlx_loader_next(twin, &b, -1));
		for (k = 0; (f = rlx_loader_field(ld, k)); k++) {
			size_t bytes = (size_t)rlx_type_bytes(&f->type);
			const uint8_t *out;

			snprintf(name, sizeof(name), "out.%s", f->name);
			out = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));
			for (row = 0; row < b.rows; row++)
				CHECKF(!memcmp(out + row * bytes, rlx_batch_row(twin, &b, f->name, row),
					       bytes), "batch %u, row %u, field %s on %s", i, row, f->name,
				       device);
		}
		rlx_loader_done(twin, &b);
	}
	rlx_stats_read(&after);
	CHECK_EQ(after.bytes_copied, before.bytes_copied);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_loader_close(ld);
	rlx_loader_close(twin);
}

TEST(programs_unpack_every_layout)
{
	static const struct rlx_field wide[3] = {
		{ "id", { RLX_I64, 0 } }, { "image", { RLX_U8, 3, { 3, 160, 160 } } },
		{ "box", { RLX_F32, 2, { 5, 4 } } },
	};
	uint64_t s = rlx_test_seed();
	unsigned int layout, round;

	for (round = 0; round < 3; round++)
		for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
			struct rlx_loader_opts o = {
				.size = sizeof(o), .path = data_path("u.rlxr"), .layout = layout,
				.batch = 1 + rlx_test_rand(&s) % 20, .shuffle = true, .window = 2,
				.keep_last = rlx_test_rand(&s) % 2,
				.flags = round == 2 ? RLX_LOADER_DENSE : 0,
			};

			write_set(o.path, round == 1 ? wide : digits, 3, round == 1 ? 60 : 700,
				  round == 1 ? 0 : 65536);
			check_program(&o, "cpu", 5);
			check_program(&o, "ref", 2);
		}
}

TEST(only_fields_that_are_read_become_inputs)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o),
		.path = data_path("i.rlxr"),
		.batch = 8,
		.layout = RLX_LAYOUT_CHUNKS,
	};
	struct rlx_graph *g = rlx_graph_new("g");
	struct rlx_loader *ld;

	write_set(o.path, digits, 3, 100, 65536);
	ld = open_ok(&o);
	rlx_output(g, "y", rlx_loader_input(ld, g, "image"));
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_INPUT), 2);
	rlx_output(g, "z", rlx_loader_input(ld, g, "image"));
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_INPUT), 2);
	CHECK(!rlx_graph_error(g)->status);
	CHECK_EQ(rlx_loader_input(ld, g, "nothing").id, 0);
	CHECK(rlx_graph_error(g)->status);
	CHECK(strstr(rlx_graph_error(g)->text, "no field \"nothing\""));
	rlx_graph_put(g);
	rlx_loader_close(ld);
}

/* ---- other formats ---- */

static void write_npy(const char *path, enum rlx_dtype dt, uint64_t n, uint64_t cols, bool ids)
{
	struct rlx_type t =
		ids ? rlx_type(dt, (int64_t)n) : rlx_type(dt, (int64_t)n, (int64_t)cols);
	size_t size = rlx_dtype_size(dt);
	uint8_t *p = malloc(n * cols * size);
	struct rlx_error err = { 0 };
	uint64_t i;

	for (i = 0; i < n; i++)
		if (ids)
			((int64_t *)p)[i] = (int64_t)i;
		else
			data_fill(p + i * cols * size, i, 1, cols * size);
	CHECKF(!rlx_npy_write(path, &t, p, &err), "%s", err.text);
	free(p);
}

TEST(npy_files_side_by_side)
{
	uint64_t s = rlx_test_seed(), n, cols;
	unsigned int layout, round;
	char path[300];

	for (round = 0; round < 3; round++)
		for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
			enum rlx_dtype dt = rlx_test_rand(&s) % 2 ? RLX_F32 : RLX_U8;
			struct rlx_loader_opts o = {
				.size = sizeof(o), .path = path, .layout = layout, .shuffle = true,
				.batch = 1 + rlx_test_rand(&s) % 30, .window = 1,
				.flags = rlx_test_rand(&s) % 3 ? 0 : RLX_LOADER_BUFFERED,
			};
			struct rlx_loader *ld;
			uint64_t *ids;

			n = 30 + rlx_test_rand(&s) % 3000;
			cols = 1 + rlx_test_rand(&s) % 900;
			write_npy(data_path("ids.npy"), RLX_I64, n, 1, true);
			write_npy(data_path("x.npy"), dt, n, cols, false);
			snprintf(path, sizeof(path), "id=%s,x=%s", data_path("ids.npy"),
				 data_path("x.npy"));
			ld = open_ok(&o);
			ids = take_ids(ld, o.batch, (unsigned int)(n / o.batch));
			check_each_once(ids, n / o.batch * o.batch, n);
			free(ids);
			rlx_loader_close(ld);
			check_program(&o, "cpu", 3);
		}
}

TEST(safetensors_in_place)
{
	struct rlx_loader_opts o = { .size = sizeof(o),
				     .path = data_path("t.safetensors"),
				     .batch = 7,
				     .shuffle = true,
				     .window = 1 };
	int64_t id[200];
	uint8_t x[200 * 33];
	struct rlx_safetensor t[2] = {
		{ "id", rlx_type(RLX_I64, 200), id }, { "x", rlx_type(RLX_U8, 200, 3, 11), x },
	};
	struct rlx_error err = { 0 };
	unsigned int layout, i;

	for (i = 0; i < 200; i++) {
		id[i] = i;
		data_fill(x + 33 * i, i, 1, 33);
	}
	CHECKF(!rlx_safetensors_write(o.path, t, 2, NULL, &err), "%s", err.text);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		struct rlx_loader *ld;

		o.layout = layout;
		ld = open_ok(&o);
		free(take_ids(ld, 7, 60));
		rlx_loader_close(ld);
		check_program(&o, "cpu", 3);
	}
}

static bool have_python(void)
{
	return !system("command -v python3 >/dev/null 2>&1");
}

static void run_python(const char *text, const char *arg)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		execlp("python3", "python3", "-c", text, arg, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

/* Archives and gzip files are python's: numpy's own layout of .npz, without numpy. */
static const char make_archives[] =
	"import sys, zipfile, gzip, struct, io\n"
	"d = sys.argv[1]\n"
	"def npy(descr, shape, data):\n"
	"    h = str({'descr': descr, 'fortran_order': False, 'shape': shape}).encode()\n"
	"    h += b' ' * (63 - (10 + len(h)) % 64) + b'\\n'\n"
	"    return b'\\x93NUMPY\\x01\\x00' + struct.pack('<H', len(h)) + h + data\n"
	"def byte(i, j):\n"
	"    x = (i * 0x9e3779b97f4a7c15 + 0x1000003 + j * 31) & (2**64 - 1)\n"
	"    return (x >> 40 ^ x >> 17 ^ x) & 255\n"
	"n = 300\n"
	"ids = struct.pack('<%dq' % n, *range(n))\n"
	"img = bytes(byte(i, j) for i in range(n) for j in range(48))\n"
	"for name, how in (('stored', zipfile.ZIP_STORED), ('deflated', zipfile.ZIP_DEFLATED)):\n"
	"    with zipfile.ZipFile(d + '/' + name + '.npz', 'w', how) as z:\n"
	"        for m, b in (('id', npy('<i8', (n,), ids)), ('x', npy('|u1', (n, 6, 8), img))):\n"
	"            with z.open(m + '.npy', 'w', force_zip64=True) as f: f.write(b)\n"
	"idx = b'\\0\\0\\x08\\x03' + struct.pack('>3I', n, 6, 8) + img\n"
	"open(d + '/x.idx', 'wb').write(idx)\n"
	"open(d + '/x.idx.gz', 'wb').write(gzip.compress(idx))\n"
	"two = gzip.compress(idx[:999], 1) + gzip.compress(idx[999:], 0)\n"
	"open(d + '/two.idx.gz', 'wb').write(two)\n"
	"open(d + '/id.npy', 'wb').write(npy('<i8', (n,), ids))\n";

static void try_path(const char *path, unsigned int layout)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = path, .batch = 13, .shuffle = true, .layout = layout,
		.keep_last = true,
	};
	struct rlx_loader *ld = open_ok(&o);
	struct rlx_loader_info info;
	uint64_t *ids;

	rlx_loader_info(ld, &info);
	CHECK_EQ(info.records, 300);
	ids = take_ids(ld, 13, 23);
	check_each_once(ids, 299, 300);
	free(ids);
	rlx_loader_close(ld);
	check_program(&o, "cpu", 2);
}

TEST(archives_and_compressed_files)
{
	unsigned int layout;
	char path[300];

	if (!have_python())
		rlx_test_skip("no python3");
	data_path("");
	run_python(make_archives, data_dir);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		try_path(data_path("stored.npz"), layout);
		snprintf(path, sizeof(path), "id=%s,x=%s", data_path("id.npy"), data_path("x.idx"));
		try_path(path, layout);
	}
	try_path(data_path("deflated.npz"), RLX_LAYOUT_AUTO);
	snprintf(path, sizeof(path), "id=%s,x=%s", data_path("id.npy"), data_path("x.idx.gz"));
	try_path(path, RLX_LAYOUT_AUTO);
	snprintf(path, sizeof(path), "id=%s,x=%s", data_path("id.npy"), data_path("two.idx.gz"));
	try_path(path, RLX_LAYOUT_AUTO);
}

TEST(streams_in_rows_of_any_length)
{
	const struct rlx_field f = { "tokens", { RLX_U32, 0 } };
	struct rlx_record_opts ro = { .size = sizeof(ro), .flags = RLX_RECORD_STREAM,
				      .chunk_bytes = 65536 };
	enum { N = 150000 };
	uint32_t *t = malloc(N * sizeof(*t));
	uint64_t s = rlx_test_seed(), i, j, rows;
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	const void *p = t;
	unsigned int round, row;

	for (i = 0; i < N; i++)
		t[i] = (uint32_t)i;
	CHECK(!rlx_record_create(data_path("t.rlxr"), &f, 1, &ro, &w, &err));
	CHECK(!rlx_record_add(w, &p, N, &err));
	CHECK(!rlx_record_commit(w, &err));
	for (round = 0; round < 8; round++) {
		struct rlx_loader_opts o = {
			.size = sizeof(o),
			.path = data_path("t.rlxr"),
			.batch = 6,
			.shuffle = round % 4,
			.sample = 1 + rlx_test_rand(&s) % 700,
			.layout = round % 2 ? RLX_LAYOUT_ROWS : RLX_LAYOUT_RESIDENT,
		};
		struct rlx_loader_info info;
		struct rlx_loader *ld;
		struct rlx_batch b;

		o.step = 1 + rlx_test_rand(&s) % (2 * o.sample);
		ld = open_ok(&o);
		rlx_loader_info(ld, &info);
		rows = (N - o.sample) / o.step + 1;
		CHECK_EQ(info.records, rows);
		for (i = 0; i < 40; i++) {
			CHECKF(!rlx_loader_next(ld, &b, -1), "%s", rlx_loader_error(ld)->text);
			for (row = 0; row < 6; row++) {
				const uint32_t *x = rlx_batch_row(ld, &b, "tokens", row);

				CHECK_EQ(x[0] % o.step, 0);
				if (!o.shuffle)
					CHECK_EQ(x[0], (6 * i + row) % (rows / 6 * 6) * o.step);
				for (j = 0; j < o.sample; j++)
					CHECK_EQ(x[j], x[0] + j);
			}
			rlx_loader_done(ld, &b);
		}
		rlx_loader_close(ld);
		check_program(&o, "cpu", 3);
	}
	free(t);
}

/* ---- decode and augment ---- */

static enum rlx_status reverse(void *ctx, const struct rlx_sample *in, void *const *out,
			       struct rlx_error *err)
{
	const uint8_t *text = in->data[0];
	uint64_t i;

	memset(out[0], 0, 64);
	for (i = 0; i < in->bytes[0] && i < 64; i++)
		((uint8_t *)out[0])[i] = text[in->bytes[0] - 1 - i];
	*(int64_t *)out[1] = (int64_t)in->record;
	return RLX_OK;
}

TEST(records_of_any_length_go_through_decode)
{
	static const struct rlx_field text = { "text", { RLX_U8, 1, { 64 } } };
	static const struct rlx_field made[2] = { { "back", { RLX_U8, 1, { 64 } } },
						  { "n", { RLX_I64, 0 } } };
	struct rlx_record_opts ro = { .size = sizeof(ro), .flags = RLX_RECORD_VARIABLE,
				      .chunk_bytes = 65536 };
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	unsigned int layout, i, row, j;
	uint8_t buf[64];
	const void *p = buf;

	CHECK(!rlx_record_create(data_path("v.rlxr"), &text, 1, &ro, &w, &err));
	for (i = 0; i < 3000; i++) {
		data_fill(buf, i, 0, i % 65);
		CHECK(!rlx_record_add(w, &p, i % 65, &err));
	}
	CHECK(!rlx_record_commit(w, &err));
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		struct rlx_loader_opts o = {
			.size = sizeof(o),
			.path = data_path("v.rlxr"),
			.batch = 32,
			.shuffle = true,
			.layout = layout,
			.window = 1,
			.decode = reverse,
			.decoded = made,
			.n_decoded = 2,
			.workers = 3,
		};
		struct rlx_loader *ld = open_ok(&o);
		struct rlx_batch b;

		for (i = 0; i < 180; i++) {
			CHECKF(!rlx_loader_next(ld, &b, -1), "%s", rlx_loader_error(ld)->text);
			for (row = 0; row < 32; row++) {
				int64_t n = *(const int64_t *)rlx_batch_row(ld, &b, "n", row);
				const uint8_t *x = rlx_batch_row(ld, &b, "back", row);

				for (j = 0; j < (unsigned int)(n % 65); j++)
					CHECK_EQ(x[j], data_byte((uint64_t)n, 0, (uint64_t)(n % 65) - 1 - j));
			}
			rlx_loader_done(ld, &b);
		}
		rlx_loader_close(ld);
		check_program(&o, "cpu", 2);
	}
}

TEST(augmenting_depends_on_the_sample_alone)
{
	struct rlx_augment a = { .size = sizeof(a), .field = "image", .flip = true, .shift = 2,
				 .noise = 9 };
	uint64_t s = rlx_test_seed();
	uint8_t *first = NULL;
	unsigned int round, i, row;

	write_set(data_path("g.rlxr"), digits, 3, 910, 65536);
	for (round = 0; round < 6; round++) {
		struct rlx_loader_opts o = {
			.size = sizeof(o), .path = data_path("g.rlxr"), .batch = 30, .shuffle = true,
			.keep_last = true,
			.augment = &a, .workers = 1 + rlx_test_rand(&s) % 4, .window = 2,
			.layout = round % 2 ? RLX_LAYOUT_CHUNKS : RLX_LAYOUT_AUTO, .resident = 1,
			.flags = round % 3 ? 0 : RLX_LOADER_DENSE,
		};
		struct rlx_loader *ld = open_ok(&o);
		uint8_t *all = calloc(30 * 62, 72);
		unsigned int same = 0;
		struct rlx_batch b;

		for (i = 0; i < 62; i++) {
			CHECK(!rlx_loader_next(ld, &b, -1));
			for (row = 0; row < b.rows; row++) {
				uint8_t *to = all + (i * 30 + row) * 72;
				int64_t id;

				memcpy(&id, rlx_batch_row(ld, &b, "id", row), 8);
				memcpy(to, rlx_batch_row(ld, &b, "image", row), 72);
				same += data_is(to, (uint64_t)id, 1, 72);
			}
			rlx_loader_done(ld, &b);
		}
		CHECKF(same < 5, "%u images of 1820 are as they were", same);
		rlx_loader_close(ld);
		if (!first)
			first = all;
		else
			CHECK(!memcmp(first, all, 30 * 62 * 72));
		if (all != first)
			free(all);
	}
	free(first);
}

/* ---- zero copies ---- */

static uint64_t read_bytes(void)
{
	FILE *f = fopen("/proc/self/io", "r");
	unsigned long long v = 0;
	char line[100];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "read_bytes: %llu", &v) == 1)
			break;
	if (f)
		fclose(f);
	return v;
}

static uint64_t pages_cached(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	unsigned char *v;
	uint64_t n = 0, i;
	void *p;

	CHECK(fd >= 0 && !fstat(fd, &st));
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	v = malloc((size_t)st.st_size / 4096 + 1);
	CHECK(p != MAP_FAILED && !mincore(p, (size_t)st.st_size, v));
	for (i = 0; i < ((uint64_t)st.st_size + 4095) / 4096; i++)
		n += v[i] & 1;
	munmap(p, (size_t)st.st_size);
	close(fd);
	free(v);
	return n;
}

static void drop_cache(const char *path)
{
	int fd = open(path, O_RDONLY);

	CHECK(!fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	close(fd);
}

static void need_direct(const struct rlx_loader *ld)
{
	struct rlx_loader_info info;

	rlx_loader_info(ld, &info);
	if (strcmp(info.direct, "direct"))
		rlx_test_skip("no direct I/O in this file system");
}

/* Once nothing more is read ahead. */
static struct rlx_loader_info settled_info(const struct rlx_loader *ld)
{
	struct rlx_loader_info was, is;
	int same;

	rlx_loader_info(ld, &is);
	for (same = 0; same < 4; same++) {	/* for others may have the processors meanwhile */
		was = is;
		usleep(50000);
		rlx_loader_info(ld, &is);
		if (is.bytes_direct != was.bytes_direct)
			same = -1;
	}
	return is;
}

/* 8 MiB of chunks, an epoch of them: from the disk to the program and nowhere else. */
TEST(no_page_of_the_file_goes_through_the_page_cache)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("z.rlxr"), .batch = 64, .shuffle = true,
		.resident = 1, .window = 3,
	};
	unsigned int k;

	for (k = 0; k < 3; k++) {
		const struct rlx_field rows[2] = {
			{ "id", { RLX_I64, 0 } },
			{ "x", { RLX_U8, 1, { k == 2 ? 130000 : 2000 } } },
		};
		uint64_t chunks = 8, n = k == 2 ? 64 : chunks * 512, before;
		struct rlx_loader_info is;
		struct rlx_loader *ld;
		struct rlx_stats a, b;
		struct rlx_batch batch;

		write_set(o.path, rows, 2, n, k == 2 ? 1 << 20 : 1 << 20);
		drop_cache(o.path);
		CHECK_EQ(pages_cached(o.path), 0);
		o.flags = k == 1 ? RLX_LOADER_NO_RING : 0;
		o.depth = k == 2 ? 1 : 4;
		before = read_bytes();
		ld = open_ok(&o);
		need_direct(ld);
		rlx_stats_read(&a);
		free(take_ids(ld, 64, (unsigned int)(n / 64)));
		CHECK(!rlx_loader_next(ld, &batch, -1));
		rlx_stats_read(&b);
		is = settled_info(ld);
		CHECK_EQ(b.bytes_copied - a.bytes_copied, 0);
		CHECK_EQ(is.bytes_buffered + is.bytes_decoded + is.bytes_copied, 0);
		CHECKF(is.bytes_direct >= n * (k == 2 ? 131072 : 2048), "%llu bytes read",
		       (unsigned long long)is.bytes_direct);
		rlx_loader_close(ld);
		CHECK_EQ(pages_cached(o.path), 0);
		/* what the process read is what the loader counted, and the header and the index */
		before = read_bytes() - before;
		CHECKF(before >= is.bytes_direct && before <= is.bytes_direct + (2 << 20),
		       "%llu bytes by the kernel's count, %llu by ours", (unsigned long long)before,
		       (unsigned long long)is.bytes_direct);
	}
}

TEST(an_epoch_reads_each_chunk_exactly_once)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o),
		.path = data_path("w.rlxr"),
		.batch = 32,
		.resident = 1,
		.depth = 1,
		.window = 4,
	};
	const struct rlx_field f[2] = { { "id", { RLX_I64, 0 } },
					{ "x", { RLX_U8, 1, { 2000 } } } };
	struct rlx_loader_info info;
	struct rlx_loader *ld;
	uint64_t wait;

	write_set(o.path, f, 2, 512 * 8, 1 << 20);	/* 496 records a chunk: 9 of them */
	ld = open_ok(&o);
	need_direct(ld);
	free(take_ids(ld, 32, 2));
	for (wait = 0; wait < 60000; wait++) {	/* two windows of four, and no more */
		rlx_loader_info(ld, &info);
		if (info.bytes_direct == 8 << 20)
			break;
		usleep(1000);
	}
	CHECK_EQ(info.bytes_direct, 8 << 20);
	usleep(20000);
	rlx_loader_info(ld, &info);
	CHECK_EQ(info.bytes_direct, 8 << 20);
	rlx_loader_close(ld);
}

/* Every touch by a CPU, the kernel's copies too, would fault. */
TEST(no_cpu_touches_what_is_read)
{
	const struct rlx_field f[2] = { { "id", { RLX_I64, 0 } },
					{ "x", { RLX_U8, 1, { 70000 } } } };
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("g.rlxr"), .batch = 16, .resident = 1,
		.verify = RLX_VERIFY_NONE, .flags = RLX_LOADER_GUARD, .shuffle = true, .window = 2,
	};
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };
	unsigned int layout;

	write_set(o.path, f, 2, 200, 1 << 20);
	for (layout = RLX_LAYOUT_CHUNKS; layout <= RLX_LAYOUT_ROWS; layout++) {
		o.layout = layout;
		if (rlx_loader_open(&o, &ld, &err))
			rlx_test_skip("the ring cannot register memory here");
		need_direct(ld);
		free(take_ids(ld, 16, 30));
		rlx_loader_close(ld);
	}
}

static void *touch(void *arg)
{
	return (void *)(uintptr_t)*(volatile uint8_t *)arg;
}

/* And the guard itself holds: a touch too early is a signal. */
TEST(the_guard_is_there)
{
	const struct rlx_field f[2] = { { "id", { RLX_I64, 0 } },
					{ "x", { RLX_U8, 1, { 70000 } } } };
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("h.rlxr"), .batch = 4, .depth = 2,
		.layout = RLX_LAYOUT_ROWS, .verify = RLX_VERIFY_NONE, .flags = RLX_LOADER_GUARD,
	};
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };
	struct rlx_batch b;
	pid_t pid;
	int status;

	write_set(o.path, f, 2, 40, 1 << 20);
	if (rlx_loader_open(&o, &ld, &err))
		rlx_test_skip("the ring cannot register memory here");
	CHECK(!rlx_loader_next(ld, &b, -1));
	pid = fork();
	if (!pid) {	/* the next slot, which is being read or was */
		const uint8_t *p = rlx_batch_row(ld, &b, "x", 0);
		struct rlx_batch next = b;

		next.sequence++;
		if (!rlx_batch_row(ld, &b, "x", 0) || !p[0])
			_exit(p[0] == data_byte(0, 1, 0) ? 0 : 2);
		signal(SIGSEGV, SIG_DFL);	/* a sanitizer's */
		touch((void *)rlx_batch_row(ld, &next, "x", 0));
		_exit(3);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECKF(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x",
	       (unsigned int)status);
	rlx_loader_close(ld);
}

/* ---- errors and memory ---- */

/* As a container's filter does: io_uring_setup() is EPERM, for this process and for good. */
static void refuse_rings(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(*code), code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

TEST(without_io_uring_threads_read_and_the_info_says_why)
{
	struct rlx_loader_opts o = { .size = sizeof(o), .path = data_path("r.rlxr"), .batch = 20,
				     .shuffle = true };
	struct rlx_loader_info info;
	struct rlx_loader *ld;
	unsigned int layout;
	uint64_t *ids;

	write_set(o.path, digits, 3, 1000, 65536);
	refuse_rings();
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		o.layout = layout;
		ld = open_ok(&o);
		ids = take_ids(ld, 20, 50);
		check_each_once(ids, 1000, 1000);
		free(ids);
		rlx_loader_info(ld, &info);
		CHECKF(strstr(info.reader, "threads (io_uring: ") &&
		       strstr(info.reader, strerror(EPERM)),
		       "%s", info.reader);
		rlx_loader_close(ld);
	}
}

static void refused(const struct rlx_loader_opts *o, enum rlx_status want, const char *word)
{
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_loader_open(o, &ld, &err);

	CHECKF(st == want, "%s instead of %s: %s", rlx_status_name(st), rlx_status_name(want),
	       err.text);
	CHECKF(strstr(err.text, word), "no '%s' in: %s", word, err.text);
	CHECK(!ld);
}

TEST(bad_options_say_what_is_wrong)
{
	struct rlx_loader_opts ok = { .size = sizeof(ok), .path = data_path("e.rlxr"), .batch = 4 },
			       o;
	struct rlx_augment a = { .size = sizeof(a), .field = "id" };
	char path[200];

	write_set(ok.path, digits, 3, 10, 65536);
	write_npy(data_path("id.npy"), RLX_I64, 9, 1, true);
	write_npy(data_path("x.npy"), RLX_U8, 8, 3, false);
	data_write(data_path("text"), "hello, world", 12);
	o = ok, o.batch = 0, refused(&o, RLX_EINVAL, "batch");
	o = ok, o.rank = 1, refused(&o, RLX_EINVAL, "rank");
	o = ok, o.batch = 11, refused(&o, RLX_ESHAPE, "10 records");
	o = ok, o.path = data_path("none"), refused(&o, RLX_ENOENT, "none");
	o = ok, o.path = data_path("text"), refused(&o, RLX_EPARSE, "byte 0");
	o = ok, o.path = data_dir, refused(&o, RLX_EBADFD, "regular");
	o = ok, o.sample = 3, refused(&o, RLX_EINVAL, "sample");
	o = ok, o.augment = &a, refused(&o, RLX_ETYPE, "image");
	a.field = "none";
	o = ok, o.augment = &a, refused(&o, RLX_ENOENT, "none");
	o = ok, o.flags = 1 << 20, refused(&o, RLX_EINVAL, "flag");
	o = ok, o.flags = RLX_LOADER_GUARD, refused(&o, RLX_EINVAL, "GUARD");
	snprintf(path, sizeof(path), "a=%s,b=%s", data_path("id.npy"), data_path("x.npy"));
	o = ok, o.path = path, refused(&o, RLX_ESHAPE, "8 records");
	snprintf(path, sizeof(path), "a=%s,a=%s", data_path("id.npy"), data_path("id.npy"));
	o = ok, o.path = path, refused(&o, RLX_EEXIST, "twice");
	o = ok, o.size = 3, refused(&o, RLX_EINVAL, "size");
}

static enum rlx_status life(void *ctx)
{
	const struct rlx_loader_opts *o = ctx;
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };
	struct rlx_loader_pos pos;
	struct rlx_batch b;
	enum rlx_status st = rlx_loader_open(o, &ld, &err);
	unsigned int i;

	if (st) {
		CHECK(err.text[0]);
		return st;
	}
	for (i = 0; i < 30 && !st; i++) {
		st = rlx_loader_next(ld, &b, -1);
		if (!st)
			rlx_loader_done(ld, &b);
	}
	rlx_loader_tell(ld, &pos);
	if (!st)
		st = rlx_loader_seek(ld, &pos);
	rlx_loader_close(ld);
	return st;
}

TEST(memory_may_run_out_anywhere)
{
	struct rlx_arena_opts ao = { .size = 64 << 20, .name = "oom", .provider = "memfd" };
	struct rlx_loader_opts o = {
		.size = sizeof(o),
		.path = data_path("o.rlxr"),
		.batch = 20,
		.shuffle = true,
		.window = 1,
	};
	struct rlx_error err = { 0 };
	unsigned int layout;
	char path[300];

	write_set(o.path, digits, 3, 1000, 65536);
	CHECKF(!rlx_arena_new(&ao, &o.arena, &err), "%s", err.text);
	for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++) {
		o.layout = layout;
		o.flags = layout == RLX_LAYOUT_ROWS ? RLX_LOADER_NO_RING : 0;
		CHECK(!life(&o));	/* the arena's own list of buffers grows once */
		CHECK(rlx_oom_sweep(life, &o) > 10);
	}
	if (!have_python()) {
		rlx_arena_put(o.arena);
		rlx_test_skip("no python3 to make archives with");
	}
	run_python(make_archives, data_dir);
	snprintf(path, sizeof(path), "id=%s,x=%s", data_path("id.npy"), data_path("x.idx.gz"));
	o = (struct rlx_loader_opts){
		.size = sizeof(o), .path = path, .batch = 20, .arena = o.arena
	};
	rlx_oom_sweep(life, &o);
	o.path = data_path("deflated.npz");
	rlx_oom_sweep(life, &o);
	rlx_arena_put(o.arena);
}

TEST_MAIN()
