// SPDX-License-Identifier: MIT
/* Checkpoints: what is saved is what is loaded; damage, wrong shapes, full disks, retention. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rlx/log.h"
#include "rlx/safetensors.h"
#define DATA_BASE "/dev/shm"	/* a disk takes its time for each fsync */
#include "selftests/lib/ckpt_state.h"
#include "selftests/lib/rlx_oom.h"
#include "train/ckpt.h"
#include "train/fileops.h"

TEST(random_states_come_back)
{
	static const enum rlx_dtype dt[] = { RLX_F64, RLX_F32, RLX_F16, RLX_I64, RLX_U8, RLX_BF16 };
	uint64_t r = rlx_test_seed();
	unsigned int round, i, k, n;

	data_base = "/var/tmp";		/* where there is direct I/O */
	for (round = 0; round < 12; round++) {
		struct rlx_ckpt *ck = open_ok(data_path(round % 3 ? "a" : "b"), NULL);
		struct state s;

		state_begin(&s);
		n = rlx_test_rand(&r) % TENSORS_MAX;
		for (i = 0; i < n; i++) {
			struct rlx_type t = { .dtype = dt[rlx_test_rand(&r) % 6],
					      .rank = rlx_test_rand(&r) % 4 };
			char name[40];

			for (k = 0; k < t.rank; k++)
				t.dim[k] = (int64_t)(rlx_test_rand(&r) % 40);
			if (i == 1)
				t = rlx_type(RLX_F32, 3000000 + (int64_t)(rlx_test_rand(&r) % 2000000));
			snprintf(name, sizeof(name), "blocks.%u.\"q\"\\\x01\n\x7f\xc3\xa9", i);
			state_add(&s, name, t, rlx_test_rand(&r) % 2);
		}
		save_ok(ck, &s, 100 + round);
		CHECK_EQ(load_ok(ck, &s), 100 + round);
		rlx_ckpt_close(ck);
		ck = open_ok(data_path(round % 3 ? "a" : "b"), NULL);
		CHECK_EQ(load_ok(ck, &s), 100 + round);
		rlx_ckpt_close(ck);
		rlx_arena_put(s.arena);
	}
}

TEST(files_are_what_other_tools_open)
{
	struct rlx_ckpt *ck = open_ok(data_path("f"), NULL);
	const struct rlx_safetensor *t;
	struct rlx_safetensors *f;
	struct rlx_error err = { 0 };
	struct state s;
	char path[200];

	state_small(&s);
	save_ok(ck, &s, 7);
	snprintf(path, sizeof(path), "%s/latest/model.safetensors", data_path("f"));
	CHECKF(!rlx_safetensors_open(path, &f, &err), "%s", err.text);
	CHECK_EQ(rlx_safetensors_count(f), 2);
	t = rlx_safetensors_find(f, "weight");
	CHECK(t && data_is(t->data, 7, 0, 30 * 17 * 4));
	CHECK_EQ(rlx_safetensors_at(f, 0)->offset % 4096, 0);
	rlx_safetensors_close(f);
	CHECK_STR(listing(data_path("f")), "latest lock step-000000007");
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

TEST(the_state_may_change_once_save_returns)
{
	struct rlx_ckpt_opts o = { .size = sizeof(o), .slots = 3 };
	struct rlx_ckpt *ck = open_ok(data_path("c"), &o);
	struct state s;
	unsigned int step, again = 0;

	state_small(&s);
	for (step = 1; step <= 20; step++) {
		enum rlx_status st;

		state_fill(&s, step);
		while ((st = rlx_ckpt_save_set(ck, &s.set, step)) == RLX_EAGAIN) {
			again++;
			usleep(1000);
		}
		CHECK(!st);
		state_fill(&s, 5555);
	}
	CHECK(!rlx_ckpt_wait(ck, -1));
	CHECK_EQ(load_ok(ck, &s), 20);
	CHECK_STR(listing(data_path("c")),
		  "latest lock step-000000018 step-000000019 step-000000020");
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

static _Atomic bool held;

static int hold(void *ctx, const struct file_call *c)
{
	while (held && c->op == FILE_SYNC)
		usleep(500);
	return 0;
}

TEST(a_slow_disk_does_not_stop_training)
{
	struct file_hook h = { .before = hold };
	struct rlx_ckpt *ck = open_ok(data_path("s"), NULL);
	struct state s;

	state_small(&s);
	held = true;
	file_hook_set(&h);
	state_fill(&s, 1);
	CHECK(!rlx_ckpt_save_set(ck, &s.set, 1));
	CHECK_EQ(rlx_ckpt_wait(ck, 0), RLX_ETIME);
	CHECK_EQ(rlx_ckpt_wait(ck, 2000000), RLX_ETIME);
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 2), RLX_EAGAIN);
	held = false;
	CHECK(!rlx_ckpt_wait(ck, -1));
	file_hook_set(NULL);
	CHECK(!rlx_ckpt_save_set(ck, &s.set, 2));
	rlx_ckpt_close(ck);	/* finishes it */
	ck = open_ok(data_path("s"), NULL);
	state_fill(&s, 1);
	CHECK(!rlx_ckpt_load_set(ck, &s.set, 0, &s.seed));
	CHECK_EQ(s.seed, 2);
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

TEST(retention_keeps_the_latest_each_nth_and_the_best)
{
	struct rlx_ckpt_opts o = {
		.size = sizeof(o), .keep = 2, .every = 50, .best = RLX_CKPT_LEAST
	};
	struct rlx_ckpt *ck = open_ok(data_path("r"), &o);
	struct state s;
	uint64_t step;

	state_small(&s);
	s.set.has_metric = true;
	for (step = 10; step <= 120; step += 10) {
		s.set.metric = step == 70 ? 0.5 : 3 - (double)step / 1000;
		save_ok(ck, &s, step);
		if (step == 90) {	/* what is known of them survives the process */
			rlx_ckpt_close(ck);
			ck = open_ok(data_path("r"), &o);
		}
	}
	CHECK_STR(listing(data_path("r")),
		  "latest lock step-000000050 step-000000070 step-000000100 "
		  "step-000000110 step-000000120");
	/* going back: what lies ahead stays, and is replaced when it is reached */
	save_ok(ck, &s, 105);
	save_ok(ck, &s, 110);
	CHECK(strstr(listing(data_path("r")), "step-000000120"));
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

static char logged[4000];

static void to_log(void *ctx, enum rlx_log_level level, const char *line)
{
	snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n", line);
}

TEST(any_damage_is_seen_and_the_one_before_is_taken)
{
	static const char *const files[] = { "model.safetensors", "optim.safetensors",
					     "manifest.json" };
	uint64_t r = rlx_test_seed();
	struct rlx_ckpt *ck = open_ok(data_path("d"), NULL);
	struct rlx_ckpt_info info;
	unsigned int round, f;
	struct state s;
	char path[200];
	uint8_t *p, *q;
	size_t n, at;

	state_small(&s);
	save_ok(ck, &s, 1);
	save_ok(ck, &s, 2);
	rlx_log_set(to_log, NULL);
	for (round = 0; round < 300; round++) {
		f = round % 3;
		snprintf(path, sizeof(path), "%s/step-000000002/%s", data_path("d"), files[f]);
		p = data_read(path, &n);
		q = malloc(n);
		memcpy(q, p, n);
		at = rlx_test_rand(&r) % n;
		*logged = 0;
		if (round % 10 == 9) {
			remove(path);
		} else if (round % 5 == 4) {
			data_write(path, q, at);
		} else {
			q[at] ^= (uint8_t)(1 << rlx_test_rand(&r) % 8);
			data_write(path, q, n);
		}
		CHECKF(load_ok(ck, &s) == 1, "%s, byte %zu", files[f], at);
		CHECKF(strstr(logged, "step-000000002"), "log: %s", logged);
		data_write(path, p, n);
		CHECK_EQ(load_ok(ck, &s), 2);
		free(p);
		free(q);
	}
	rlx_ckpt_info(ck, &info);
	CHECK_EQ(info.damaged, 300);
	snprintf(path, sizeof(path), "%s/step-000000001/manifest.json", data_path("d"));
	remove(path);
	snprintf(path, sizeof(path), "%s/step-000000002/manifest.json", data_path("d"));
	remove(path);
	CHECK_EQ(rlx_ckpt_load_set(ck, &s.set, 0, NULL), RLX_ENOENT);
	CHECK(strstr(rlx_ckpt_error(ck)->text, "whole"));
	save_ok(ck, &s, 2);	/* in the place of the damaged one */
	CHECK_EQ(load_ok(ck, &s), 2);
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

/* Clocks that opening a folder of @n checkpoints takes, listed in whatever order. */
static clock_t open_many(const char *name, unsigned int n)
{
	const char *dir = data_path(name);
	struct rlx_ckpt_info info;
	struct rlx_ckpt *ck;
	char path[200];
	clock_t begun;
	unsigned int i;

	CHECK(!mkdir(dir, 0777));
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/step-%09u", dir, (i * 7919 + 5) % n);
		CHECK(!mkdir(path, 0777));
	}
	snprintf(path, sizeof(path), "%s/step-%u", dir, n - 1);	/* the same step by another name */
	CHECK(!mkdir(path, 0777));
	begun = clock();
	ck = open_ok(dir, NULL);
	begun = clock() - begun;
	rlx_ckpt_info(ck, &info);
	CHECK_EQ(info.published, n - 1);
	rlx_ckpt_close(ck);
	return begun;
}

TEST(a_folder_of_many)
{
	clock_t few = open_many("few", 250), many = open_many("many", 4000);

	CHECKF(many < 64 * few + CLOCKS_PER_SEC / 10, "%ld and %ld clocks", (long)few, (long)many);
}

/* Nothing behind its last byte may be looked at. */
TEST(manifest_that_ends_in_its_crc)
{
	static const char *const end[] = { "         ", "\t\t\t\t\t\t\t\t\t", "000000000",
					   "0x0000000", "+12345678", "-1234567\"", "0x123456\"",
					   "ABCDEF01\"" };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n, i;
	struct rlx_error err = { 0 };
	struct ckpt_manifest m;
	char text[80], *at;
	char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);

	CHECK(map != MAP_FAILED && !mprotect(map + page, page, PROT_NONE));
	for (i = 0; i < sizeof(end) / sizeof(end[0]); i++) {
		n = (size_t)snprintf(text, sizeof(text), "{\"crc32c\": \"%s", end[i]);
		at = memcpy(map + page - n, text, n);
		CHECK_EQ(ckpt_manifest_parse(&m, at, n, "manifest", &err), RLX_EPARSE);
		CHECKF(strstr(err.text, "does not end with its crc"), "%zu: %s", i, err.text);
	}
	munmap(map, 2 * page);
}

static void refused(struct rlx_ckpt *ck, struct state *s, enum rlx_status want, const char *a,
		    const char *b)
{
	enum rlx_status st;

	state_fill(s, 3);
	st = rlx_ckpt_load_set(ck, &s->set, 0, NULL);
	CHECKF(st == want, "%s: %s", rlx_status_name(st), rlx_ckpt_error(ck)->text);
	CHECKF(strstr(rlx_ckpt_error(ck)->text, a) && strstr(rlx_ckpt_error(ck)->text, b),
	       "no '%s' or '%s' in: %s", a, b, rlx_ckpt_error(ck)->text);
	CHECK(state_is(s, 3));	/* nothing was written */
}

TEST(wrong_shapes_are_named)
{
	struct rlx_ckpt *ck = open_ok(data_path("w"), NULL);
	struct state s, was;
	uint64_t step;

	state_small(&s);
	CHECK_EQ(rlx_ckpt_load_set(ck, &s.set, 0, NULL), RLX_ENOENT);
	save_ok(ck, &s, 9);
	was = s;
	s.tensor[0].type = rlx_type(RLX_F32, 17, 30);
	refused(ck, &s, RLX_ESHAPE, "\"weight\": have f32[30,17]", "want f32[17,30]");
	s.tensor[0] = was.tensor[0];
	s.tensor[1].name = "offset";
	refused(ck, &s, RLX_ESHAPE, "\"offset\": have none", "want bf16[17]");
	s.tensor[1] = was.tensor[1];
	s.set.n = 2;
	refused(ck, &s, RLX_ESHAPE, "optim.safetensors", "\"adamw.m.weight\": have f32[30,17]");
	s.set.n = 3;
	s.set.graph_hash = 5;
	refused(ck, &s, RLX_ESHAPE, "another program", "0000000000000005");
	s.set.graph_hash = was.set.graph_hash;
	s.blob[0].bytes = 40;
	refused(ck, &s, RLX_ESHAPE, "\"loader\"", "have 48 bytes");
	s.blob[0].bytes = 48;
	s.blob[0].key = "other";
	refused(ck, &s, RLX_ESHAPE, "\"other\"", "have none");
	s.blob[0].key = "loader";
	CHECK_EQ(load_ok(ck, &s), 9);
	/* fine-tuning: what both have */
	s.tensor[1].type = rlx_type(RLX_BF16, 5);
	s.tensor[2].name = "adamw.m.else";
	s.set.graph_hash = 5;
	state_fill(&s, 3);
	CHECK(!rlx_ckpt_load_set(ck, &s.set, RLX_CKPT_PARTIAL, &step));
	CHECK(step == 9 && data_is(rlx_buf_ptr(s.tensor[0].buf), 9, 0, 2040));
	CHECK(data_is(rlx_buf_ptr(s.tensor[1].buf), 3, 1, 10));
	CHECK(data_is(rlx_buf_ptr(s.tensor[2].buf), 3, 2, 2040));
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

TEST(bad_sets_are_refused)
{
	struct rlx_ckpt *ck = open_ok(data_path("b"), NULL);
	struct state s;

	state_small(&s);
	s.tensor[1].name = "weight";
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 1), RLX_EEXIST);
	s.tensor[1].name = NULL;
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 1), RLX_EINVAL);
	s.tensor[1].name = "bias\xff";
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 1), RLX_EINVAL);
	s.tensor[1].name = "__metadata__";
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 1), RLX_EINVAL);
	s.tensor[1].name = "bias";
	s.tensor[0].buf.bytes = 100;
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 1), RLX_ERANGE);
	CHECK_EQ(rlx_ckpt_load_set(ck, &s.set, 0, NULL), RLX_ERANGE);
	s.tensor[0].buf.bytes = 2040;
	s.blob[1].key = "loader";
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, 1), RLX_EEXIST);
	s.blob[1].key = "seed";
	CHECK_EQ(rlx_ckpt_save_set(ck, &s.set, UINT64_MAX), RLX_ERANGE);
	CHECK(strstr(listing(data_path("b")), "lock") && !strstr(listing(data_path("b")), "step"));
	save_ok(ck, &s, 1);
	rlx_ckpt_close(ck);
	rlx_arena_put(s.arena);
}

TEST(one_process_writes)
{
	struct rlx_ckpt_opts ro = { .size = sizeof(ro), .readonly = true };
	struct rlx_ckpt *ck = open_ok(data_path("l"), NULL), *other = NULL;
	struct rlx_error err = { 0 };
	struct state s;
	char want[40];

	state_small(&s);
	save_ok(ck, &s, 4);
	CHECK_EQ(rlx_ckpt_open(data_path("l"), NULL, &other, &err), RLX_EBUSY);
	snprintf(want, sizeof(want), "pid %d", (int)getpid());
	CHECKF(strstr(err.text, want), "%s", err.text);
	other = open_ok(data_path("l"), &ro);
	CHECK_EQ(load_ok(other, &s), 4);
	CHECK_EQ(rlx_ckpt_save_set(other, &s.set, 5), RLX_EACCES);
	save_ok(ck, &s, 6);
	CHECK_EQ(load_ok(other, &s), 6);	/* as it came */
	rlx_ckpt_close(other);
	rlx_ckpt_close(ck);
	err.status = 0;
	CHECK_EQ(rlx_ckpt_open(data_path("none/at/all"), NULL, &ck, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "none/at/all"));
	rlx_arena_put(s.arena);
}

/* ---- failing disks ---- */

static _Atomic unsigned int calls;
static unsigned int fail_at;
static int fail_with;

static int fail_nth(void *ctx, const struct file_call *c)
{
	return ++calls == fail_at ? fail_with : 0;
}

TEST(a_failing_disk_loses_no_checkpoint_and_stops_no_training)
{
	static const int with[] = { ENOSPC, EIO, EDQUOT };
	struct rlx_ckpt_opts o = { .size = sizeof(o), .keep = 1 };
	struct file_hook h = { .before = fail_nth };
	unsigned int k, met = 0, told = 0;
	uint64_t step = 1, got;
	struct state s;

	state_small(&s);
	for (k = 0; k < 3; k++)
		for (fail_at = 1; fail_at < 200; fail_at++) {
			struct rlx_ckpt *ck = open_ok(data_path("e"), &o);
			enum rlx_status st;
			unsigned int made;

			save_ok(ck, &s, step);
			state_fill(&s, step + 1);
			calls = 0;
			fail_with = with[k];
			file_hook_set(&h);
			CHECK(!rlx_ckpt_save_set(ck, &s.set, step + 1));
			st = rlx_ckpt_wait(ck, -1);
			file_hook_set(NULL);
			made = calls;
			CHECKF(!st || st == RLX_EIO, "%s", rlx_ckpt_error(ck)->text);
			if (st) {
				told++;
				CHECKF(strstr(rlx_ckpt_error(ck)->text, strerror(with[k])), "%s",
				       rlx_ckpt_error(ck)->text);
			}
			CHECKF(!strstr(listing(data_path("e")), ".tmp"), "call %u: %s", fail_at,
			       listing(data_path("e")));
			got = load_ok(ck, &s);
			CHECKF(got == step + 1 || (st && got == step), "call %u: step %llu", fail_at,
			       (unsigned long long)got);
			CHECK(!rlx_ckpt_wait(ck, -1));	/* told once */
			save_ok(ck, &s, step + 2);	/* and the disk works again */
			CHECK_EQ(load_ok(ck, &s), step + 2);
			rlx_ckpt_close(ck);
			ck = open_ok(data_path("e"), &o);
			CHECK(!strstr(listing(data_path("e")), ".del"));
			CHECK_EQ(load_ok(ck, &s), step + 2);
			rlx_ckpt_close(ck);
			step += 3;
			if (made < fail_at)
				break;
			met++;
		}
	rlx_arena_put(s.arena);
	CHECKF(met > 3 * 20 && told > 3 * 15, "%u faults met, %u told", met, told);
}

static enum rlx_status life(void *ctx)
{
	struct state *s = ctx;
	struct rlx_ckpt *ck = NULL;
	struct rlx_error err = { 0 };
	struct rlx_ckpt_opts o = { .size = sizeof(o), .arena = s->arena, .best = RLX_CKPT_LEAST };
	enum rlx_status st = rlx_ckpt_open(data_path("o"), &o, &ck, &err), w;

	if (st)
		return st;
	st = rlx_ckpt_save_set(ck, &s->set, 3);
	w = rlx_ckpt_wait(ck, -1);
	st = st ? st : w;
	if (!st)
		st = rlx_ckpt_load_set(ck, &s->set, 0, NULL);
	rlx_ckpt_close(ck);
	return st;
}

static void ignore(void *ctx, enum rlx_log_level level, const char *line)
{
}

TEST(memory_may_run_out_anywhere)
{
	struct state s;

	state_small(&s);
	state_fill(&s, 3);
	rlx_log_set(ignore, NULL);
	CHECK(!life(&s));
	CHECK(rlx_oom_sweep(life, &s) > 20);
	rlx_arena_put(s.arena);
}

TEST_MAIN()
