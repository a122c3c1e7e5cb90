// SPDX-License-Identifier: MIT
/*
 * Checkpoints that ranks write together, each its parts of the optimizer's states (ZeRO-1): going
 * on is to the same bits, with as many ranks, with others, with one that has all; ranks that die
 * or whose disk is full, damage of a part.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rlx/ckpt.h"
#include "rlx/log.h"
#include "rlx/safetensors.h"
#define DATA_BASE "/dev/shm"	/* a disk takes its time for each fsync */
#include "selftests/lib/comm_rig.h"
#include "selftests/lib/data_set.h"
#include "selftests/lib/train_rig.h"
#include "train/fileops.h"

enum { ROWS = 4, IN = 130, MID = 600, OUT = 31, STEPS = 9, STATE_BYTES = 1 << 21 };

/* What ranks leave for the test to look at. */
static struct {
	uint64_t	step[8], saves[8];
	size_t		n[8];
	unsigned char	state[8][STATE_BYTES];
} *seen;

struct job {
	const char	*dir;
	int		 optimizer;
	bool		 zero;
	unsigned int	 full;		/* rank whose disk is */
	uint64_t	 until;
	bool		 saves;
};

static void build(struct train_rig *r, const struct job *j, unsigned int ranks)
{
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 0.05, .ema = 0.9,
				    .ranks = ranks, .zero = j->zero };
	struct rlx_optimizer opt = { .size = sizeof(opt), .kind = j->optimizer, .decay = 0.01,
				     .momentum = 0.9 };
	rlx_value x, loss;

	train_begin(r);
	x = rlx_input(r->g, "x", rlx_type(RLX_F32, ROWS, IN));
	rlx_vars_enter(r->v, "layers.0");
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "w",
		     rlx_type(RLX_F32, IN, MID), RLX_KAIMING(IN), 0));
	rlx_vars_leave(r->v);
	x = rlx_emit(r->g, matmul, .a = rlx_emit(r->g, relu, .x = x), .b = rlx_var(r->g, r->v,
		     "u", rlx_type(RLX_F32, MID, OUT), RLX_KAIMING(MID), 0));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "b", rlx_type(RLX_F32, OUT),
						     RLX_ZEROS, RLX_VAR_NO_DECAY));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "labels", rlx_type(RLX_I32, ROWS)), NULL);
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &opt);
	train_open(r, "cpu", 1, NULL, 5);
}

static void feed(struct train_rig *r, uint64_t step, unsigned int rank)
{
	uint64_t s = step * 100 + rank + 1;
	float *x = train_at(r, RLX_IO_INPUT, "x");
	int32_t *l = train_at(r, RLX_IO_INPUT, "labels");
	int i;

	for (i = 0; i < ROWS * IN; i++)
		x[i] = (float)rlx_test_uniform(&s, -1, 1);
	for (i = 0; i < ROWS; i++)
		l[i] = (int32_t)(rlx_test_rand(&s) % OUT);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.01f;
}

static size_t states_of(struct train_rig *r, unsigned char *to)
{
	size_t n = 0, bytes;
	unsigned int i;

	for (i = 0; i < rlx_program_io_count(r->p, RLX_IO_STATE); i++) {
		bytes = (size_t)rlx_type_bytes(rlx_program_io_type(r->p, RLX_IO_STATE, i));
		CHECK(n + bytes <= STATE_BYTES);
		memcpy(to + n, rlx_buf_ptr(rlx_session_bound_at(r->s, RLX_IO_STATE, i)), bytes);
		n += bytes;
	}
	return n;
}

/* A place in the test's folder. */
static void __attribute__((format(printf, 2, 3))) place(char to[200], const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(to, 200, "%s", data_path(""));
	va_start(ap, fmt);
	vsnprintf(to + n, (size_t)(200 - n), fmt, ap);
	va_end(ap);
}

static void share_results(void)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
}

static struct rlx_ckpt *open_dir(const char *dir, struct rlx_comm *c)
{
	struct rlx_ckpt_opts o = { .size = sizeof(o), .comm = c, .keep = 2 };
	struct rlx_error err = { 0 };
	struct rlx_ckpt *ck;

	CHECKF(!rlx_ckpt_open(dir, &o, &ck, &err), "%s", err.text);
	return ck;
}

/* Begin or go on, take steps, save behind each. */
static void trains(struct rlx_comm *c, void *arg)
{
	const struct job *j = arg;
	unsigned int rank = rlx_comm_rank(c);
	uint64_t step = 0, i;
	struct rlx_ckpt *ck;
	struct train_rig r;
	enum rlx_status st;

	build(&r, j, rlx_comm_ranks(c));
	ck = open_dir(j->dir, c);
	st = rlx_ckpt_load(ck, r.states, NULL, &step);
	CHECKF(!st || st == RLX_ENOENT, "%s", rlx_ckpt_error(ck)->text);
	seen->step[rank] = step;
	for (i = 0; !st && i < rlx_program_io_count(r.p, RLX_IO_STATE); i++)
		CHECK(rlx_buf_ptr(rlx_session_buf_at(r.s, RLX_IO_STATE, (unsigned int)i)));
	CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
	for (; step < j->until; step++) {
		feed(&r, step, rank);
		train_run(&r);
		if (j->saves)
			CHECKF(!rlx_ckpt_save(ck, r.s, NULL, step + 1), "%s",
			       rlx_ckpt_error(ck)->text);
		__atomic_store_n(&seen->saves[rank], step + 1, __ATOMIC_RELAXED);
	}
	seen->n[rank] = states_of(&r, seen->state[rank]);
	CHECK(!rlx_comm_barrier(c));
	rlx_ckpt_close(ck);
	train_end(&r);
}

static void file_of(char to[200], const char *dir, uint64_t step, const char *name)
{
	snprintf(to, 200, "%s/step-%09llu/%s", dir, (unsigned long long)step, name);
}

/* Tensors of one file, that another has too, with the same bits. */
static void check_within(const char *a, const char *b)
{
	struct rlx_safetensors *x, *y;
	struct rlx_error err = { 0 };
	unsigned int i;

	CHECKF(!rlx_safetensors_open(a, &x, &err), "%s", err.text);
	CHECKF(!rlx_safetensors_open(b, &y, &err), "%s", err.text);
	CHECK_EQ(rlx_safetensors_count(x), rlx_safetensors_count(y));
	for (i = 0; i < rlx_safetensors_count(x); i++) {
		const struct rlx_safetensor *p = rlx_safetensors_at(x, i), *q;

		q = rlx_safetensors_find(y, p->name);
		CHECKF(q && rlx_type_equal(&p->type, &q->type) &&
		       !memcmp(p->data, q->data, (size_t)rlx_type_bytes(&p->type)), "%s", p->name);
	}
	rlx_safetensors_close(x);
	rlx_safetensors_close(y);
}

static void copy_tree(const char *from, const char *to)
{
	char line[500];

	snprintf(line, sizeof(line), "rm -rf '%s' && cp -r '%s' '%s' && rm -f '%s/lock'", to, from,
		 to, to);
	CHECK(!system(line));
}

/* By @n ranks, the states of so many, which are then in @state. */
static void run_job(unsigned int n, const struct job *j)
{
	run_ranks(n, trains, (void *)j);
}

TEST(going_on_is_to_the_same_bits)
{
	uint64_t s = rlx_test_seed();
	static unsigned char want[8][STATE_BYTES];
	unsigned int n, k, r;
	char dir[200];

	share_results();
	for (n = 2; n <= 4; n++)
		for (k = RLX_SGD; k <= RLX_LION; k++) {
			struct job j = { .optimizer = (int)k, .zero = true, .until = STEPS };
			uint64_t stop = 1 + rlx_test_rand(&s) % (STEPS - 1);

			place(dir, "w%u-%u", n, k);
			j.dir = dir;
			run_job(n, &j);		/* writes nothing */
			memcpy(want, seen->state, sizeof(want));
			j.saves = true;
			j.until = stop;
			run_job(n, &j);
			j.until = STEPS;
			run_job(n, &j);
			for (r = 0; r < n; r++)
				CHECKF(seen->step[r] == stop && !memcmp(want[r], seen->state[r],
				       seen->n[r]), "rank %u of %u, stopped at %llu", r, n,
				       (unsigned long long)stop);
		}
}

/* One process that has all whole: what ranks wrote is what it would have. */
static void merge(const struct job *j, const char *to)
{
	struct rlx_ckpt *from = open_dir(j->dir, NULL), *ck = open_dir(to, NULL);
	struct job whole = *j;
	struct train_rig r;
	uint64_t step, i;

	whole.zero = false;
	build(&r, &whole, 1);
	CHECKF(!rlx_ckpt_load(from, r.states, NULL, &step), "%s", rlx_ckpt_error(from)->text);
	for (i = 0; i < rlx_program_io_count(r.p, RLX_IO_STATE); i++)
		CHECK(rlx_buf_ptr(rlx_session_buf_at(r.s, RLX_IO_STATE, (unsigned int)i)));
	CHECKF(!rlx_ckpt_save(ck, r.s, NULL, step) && !rlx_ckpt_wait(ck, -1), "%s",
	       rlx_ckpt_error(ck)->text);
	rlx_ckpt_close(from);
	rlx_ckpt_close(ck);
	train_end(&r);
}

TEST(one_that_has_all_merges_parts)
{
	struct job j = { .optimizer = RLX_ADAMW, .zero = true, .until = 3, .saves = true };
	char dir[200], whole[200], merged[200], a[200], b[200];

	share_results();
	place(dir, "parts");
	place(whole, "whole");
	place(merged, "merged");
	j.dir = dir;
	run_job(3, &j);
	j.dir = whole;
	j.zero = false;		/* and rank 0 alone has anything to write */
	run_job(3, &j);
	j.dir = dir;
	merge(&j, merged);
	file_of(a, whole, 3, "optim.safetensors");
	file_of(b, merged, 3, "optim.safetensors");
	check_within(a, b);
	file_of(a, whole, 3, "model.safetensors");
	file_of(b, merged, 3, "model.safetensors");
	check_within(a, b);
	file_of(b, dir, 3, "model.safetensors");	/* weights are whole in any case */
	check_within(a, b);
	file_of(b, dir, 3, "optim-00002-of-00003.safetensors");
	CHECK(!access(b, R_OK));
	file_of(b, merged, 3, "optim-00001-of-00003.safetensors");
	CHECK(access(b, R_OK));
}

/* From @n ranks to @m, and back by way of one that has all: parts come to the same bits. */
static void check_cut_anew(unsigned int n, unsigned int m)
{
	struct job j = { .optimizer = RLX_ADAMW, .zero = true, .until = 4, .saves = true };
	char from[200], to[200], merged[200], again[200], a[200], b[200];

	place(from, "from%u-%u", n, m);
	place(to, "to%u-%u", n, m);
	place(merged, "m%u-%u", n, m);
	place(again, "a%u-%u", n, m);
	j.dir = from;
	run_job(n, &j);
	merge(&j, merged);
	copy_tree(from, to);
	j.dir = to;
	j.until = 5;
	run_job(m, &j);		/* one step of @m ranks on what @n had */
	CHECK_EQ(seen->step[0], 4);
	j.dir = merged;
	run_job(m, &j);		/* and on the same, merged */
	CHECK_EQ(seen->step[m - 1], 4);
	file_of(a, to, 5, "model.safetensors");
	file_of(b, merged, 5, "model.safetensors");
	check_within(a, b);
	j.dir = to;
	merge(&j, again);
	copy_tree(again, to);
	j.dir = merged;
	merge(&j, again);
	file_of(a, to, 5, "optim.safetensors");
	file_of(b, again, 5, "optim.safetensors");
	check_within(a, b);
}

TEST(other_numbers_of_ranks_cut_parts_anew)
{
	share_results();
	check_cut_anew(3, 2);
	check_cut_anew(2, 4);
	check_cut_anew(4, 3);
}

/* ---- damage and faults ---- */

static void ignore(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

TEST(a_part_that_is_damaged_makes_all_go_back)
{
	struct job j = { .optimizer = RLX_ADAMW, .zero = true, .until = 3, .saves = true };
	char dir[200], path[200];
	unsigned int r;
	FILE *f;

	share_results();
	rlx_log_set(ignore, NULL);
	place(dir, "damaged");
	j.dir = dir;
	run_job(3, &j);
	file_of(path, dir, 3, "optim-00002-of-00003.safetensors");
	f = fopen(path, "r+");
	CHECK(f && !fseek(f, 5000, SEEK_SET) && fputc('x', f) == 'x' && !fclose(f));
	j.saves = false;
	run_job(3, &j);		/* rank 1 alone reads it */
	for (r = 0; r < 3; r++)
		CHECK_EQ(seen->step[r], 2);
	run_job(2, &j);		/* both do */
	CHECK_EQ(seen->step[0], 2);
	file_of(path, dir, 2, "optim-00003-of-00003.safetensors");
	CHECK(!unlink(path));
	run_job(3, &j);
	for (r = 0; r < 3; r++)
		CHECK_EQ(seen->step[r], 0);
}

static unsigned int calls, fail_at;

static int full(void *ctx, const struct file_call *c)
{
	(void)ctx;
	(void)c;
	return ++calls == fail_at ? ENOSPC : 0;
}

/* A rank's disk is full at each of its file calls: nobody's save is there, and the next one is. */
static void meets_full_disk(struct rlx_comm *c, void *arg)
{
	static const struct file_hook hook = { .before = full };
	const struct job *j = arg;
	struct rlx_ckpt *ck;
	struct train_rig r;
	enum rlx_status st = RLX_EIO;
	bool any, mine = rlx_comm_rank(c) == j->full;
	uint64_t step;
	int32_t n;

	build(&r, j, rlx_comm_ranks(c));
	ck = open_dir(j->dir, c);
	CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
	feed(&r, 0, rlx_comm_rank(c));
	train_run(&r);
	CHECKF(!rlx_ckpt_save(ck, r.s, NULL, 1), "%s", rlx_ckpt_error(ck)->text);
	for (step = 2, any = true; any && step < 200; step++) {
		calls = 0;
		fail_at = mine ? (unsigned int)step - 1 : 0;
		file_hook_set(&hook);
		st = rlx_ckpt_save(ck, r.s, NULL, step);
		file_hook_set(NULL);
		any = mine && calls >= fail_at;
		CHECKF(!st || strstr(rlx_ckpt_error(ck)->text, "checkpoint of step"), "%s",
		       rlx_ckpt_error(ck)->text);
		CHECKF(!st || mine || strstr(rlx_ckpt_error(ck)->text, "rank "), "%s",
		       rlx_ckpt_error(ck)->text);
		CHECK(!rlx_comm_agree(c, "status", (uint64_t)st));
		n = any;
		CHECK(!rlx_comm_all_reduce(c, &n, 1, RLX_I32));
		any = n;
	}
	CHECKF(!st && step > 6, "%d at %llu", st, (unsigned long long)step);
	rlx_ckpt_close(ck);
	train_end(&r);
}

TEST(a_full_disk_of_one_is_told_to_all)
{
	struct job j = { .optimizer = RLX_SGD, .zero = true };
	char dir[200], line[300];
	unsigned int r;

	share_results();
	rlx_log_set(ignore, NULL);
	for (r = 0; r < 3; r++) {
		place(dir, "full%u", r);
		j.dir = dir;
		j.full = r;
		run_ranks(3, meets_full_disk, &j);
		snprintf(line, sizeof(line), "! ls -A '%s' | grep -q '^[.]tmp'", dir);
		CHECK(!system(line));
	}
}

/* Until a rank is killed, which the call or the run that waits for it tells. */
static void saves_until_told(struct rlx_comm *c, void *arg)
{
	struct job j = { .dir = data_path("killed"), .optimizer = RLX_ADAMW, .zero = true };
	enum rlx_status st = RLX_OK;
	struct rlx_ckpt *ck;
	struct train_rig r;
	uint64_t step = 0;

	build(&r, &j, rlx_comm_ranks(c));
	ck = open_dir(j.dir, c);
	st = rlx_ckpt_load(ck, r.states, NULL, &step);
	CHECKF(!st || st == RLX_ENOENT || ck, "%s", rlx_ckpt_error(ck)->text);
	CHECKF(st == RLX_ENOENT || step >= seen->step[0], "step %llu, where %llu was published",
	       (unsigned long long)step, (unsigned long long)seen->step[0]);
	CHECK(!rlx_session_collective(r.s, rlx_comm_collective(c)));
	for (st = RLX_OK; !st;) {
		feed(&r, step, rlx_comm_rank(c));
		st = rlx_session_run(r.s);
		if (st) {
			check_told(arg, st, rlx_session_error(r.s));
			break;
		}
		st = rlx_ckpt_save(ck, r.s, NULL, ++step);
		if (st)
			check_told(arg, st, rlx_ckpt_error(ck));
		else
			__atomic_store_n(&seen->step[0], step, __ATOMIC_RELAXED);
	}
	rlx_ckpt_close(ck);
	train_end(&r);
}

TEST(ranks_that_are_killed_leave_what_was_published)
{
	uint64_t s = rlx_test_seed();
	struct job j = { .dir = data_path("killed"), .optimizer = RLX_ADAMW, .zero = true };
	unsigned int i;

	share_results();
	rlx_log_set(ignore, NULL);
	for (i = 0; i < 20; i++)
		kill_one(3, saves_until_told, &s, 200000);
	CHECKF(seen->step[0] > 5, "%llu", (unsigned long long)seen->step[0]);
	i = (unsigned int)seen->step[0];
	j.until = i;
	run_job(2, &j);
	CHECK(seen->step[0] >= i);
}

TEST(parts_that_do_not_fit_are_refused)
{
	struct job j = { .optimizer = RLX_ADAMW, .zero = true, .until = 1, .saves = true };
	struct rlx_ckpt_tensor t = { .name = "adamw.m.u", .type = rlx_type(RLX_F32, 40),
				     .file = RLX_CKPT_OPTIM };
	struct rlx_ckpt_set set = { .size = sizeof(set), .tensor = &t, .n = 1 };
	struct rlx_arena_opts ao = { .size = 1 << 20 };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	struct rlx_ckpt *ck;

	share_results();
	j.dir = data_path("misfit");
	run_job(3, &j);
	ck = open_dir(data_path("misfit"), NULL);
	CHECKF(!rlx_arena_new(&ao, &a, &err), "%s", err.text);
	CHECK(!rlx_buf_new(a, 160, 0, &t.buf, &err));
	CHECK_EQ(rlx_ckpt_load_set(ck, &set, 0, NULL), RLX_ESHAPE);
	CHECKF(strstr(rlx_ckpt_error(ck)->text, "rank 0 of 3 has a part of 6208 elements, of a "
		      "tensor of 40 it is 0"), "%s", rlx_ckpt_error(ck)->text);
	t.file = RLX_CKPT_PART;		/* by one that writes alone */
	t.whole = 40;
	CHECK_EQ(rlx_ckpt_save_set(ck, &set, 2), RLX_EINVAL);
	CHECKF(strstr(rlx_ckpt_error(ck)->text, "rlx_ckpt_opts.comm"), "%s",
	       rlx_ckpt_error(ck)->text);
	CHECK_EQ(rlx_ckpt_load_set(ck, &set, 0, NULL), RLX_EINVAL);
	rlx_ckpt_close(ck);
	rlx_buf_free(t.buf, NULL);
	rlx_arena_put(a);
}

/* Parts beside a tensor that is whole here and was not there; parts of another size. */
static void mixes(struct rlx_comm *c, void *arg)
{
	struct rlx_ckpt_tensor t[2] = {
		{ .name = "ema.u", .type = rlx_type(RLX_F32, 6208), .file = RLX_CKPT_PART,
		  .whole = MID * OUT },
		{ .name = "adamw.m.u", .type = rlx_type(RLX_F32, MID, OUT),
		  .file = RLX_CKPT_OPTIM },
	};
	struct rlx_ckpt_set set = { .size = sizeof(set), .tensor = t, .n = 2 };
	struct rlx_arena_opts ao = { .size = 1 << 20 };
	struct rlx_ckpt *ck = open_dir(arg, c);
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	int i;

	CHECKF(!rlx_arena_new(&ao, &a, &err), "%s", err.text);
	for (i = 0; i < 2; i++)
		CHECK(!rlx_buf_new(a, (uint64_t)rlx_type_bytes(&t[i].type), 0, &t[i].buf, &err));
	CHECK_EQ(rlx_ckpt_load_set(ck, &set, 0, NULL), RLX_ESHAPE);
	CHECKF(strstr(rlx_ckpt_error(ck)->text, "adamw.m.u"), "%s", rlx_ckpt_error(ck)->text);
	CHECK(!rlx_ckpt_load_set(ck, &set, RLX_CKPT_PARTIAL, NULL));
	t[0].type.dim[0] = 6000;
	CHECK_EQ(rlx_ckpt_load_set(ck, &set, RLX_CKPT_PARTIAL, NULL), RLX_EINVAL);
	CHECKF(strstr(rlx_ckpt_error(ck)->text, "each of 3 ranks has a part of 6208, not 6000"),
	       "%s", rlx_ckpt_error(ck)->text);
	t[0].type.dim[0] = 6208;
	t[0].whole = 6208 * 3 + 1;
	CHECK_EQ(rlx_ckpt_load_set(ck, &set, 0, NULL), RLX_EINVAL);
	rlx_ckpt_close(ck);
	for (i = 0; i < 2; i++)
		rlx_buf_free(t[i].buf, NULL);
	rlx_arena_put(a);
}

TEST(parts_and_whole_ones_are_not_mixed_up)
{
	struct job j = { .optimizer = RLX_ADAMW, .zero = true, .until = 1, .saves = true };

	share_results();
	j.dir = data_path("mixed");
	run_job(3, &j);
	run_ranks(3, mixes, (void *)j.dir);
}

TEST_MAIN()
