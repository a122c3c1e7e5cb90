// SPDX-License-Identifier: MIT
/*
 * Checkpoints and processes that are killed, machines that lose power: SIGKILL before and
 * after each file call of a save; each prefix of what was asked of the disk, with what no
 * fsync covers dropped or torn; a hundred kills at random while a run goes on.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "rlx/log.h"
#define DATA_BASE "/dev/shm"	/* what is there after a kill does not depend on the disk */
#include "selftests/lib/ckpt_state.h"
#include "train/fileops.h"

static void ignore(void *ctx, enum rlx_log_level level, const char *line)
{
}

/* What a process that is killed leaves for its parent. */
struct shared {
	uint64_t	calls, published, failed;
	uint64_t	steps;
	uint64_t	done;		/* by the run that is on, since it has loaded */
	uint64_t	curve[200000];
};

static struct shared *shared_new(void)
{
	struct shared *m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

/* ---- which step is published: renamed, and its folder flushed ---- */

static uint64_t renamed;
static int dir_fd = -1;

static bool step_of(const char *path, uint64_t *step)
{
	const char *at = strstr(path, "/step-");

	return at && sscanf(at, "/step-%llu", (unsigned long long *)step) == 1;
}

static void watch(struct shared *m, const struct file_call *c, int64_t result)
{
	uint64_t step;

	if (result < 0)
		return;
	if (c->op == FILE_RENAME && step_of(c->to, &step))
		renamed = step;
	if (c->op == FILE_OPEN && c->flags & O_DIRECTORY && !strstr(c->path, "/.tmp-"))
		dir_fd = (int)result;
	if (c->op == FILE_SYNC && c->fd == dir_fd && renamed > m->published)
		m->published = renamed;
}

/* ---- the matrix ---- */

static struct shared *shared;
static uint64_t kill_at;
static bool kill_after;

static int before(void *ctx, const struct file_call *c)
{
	if (++shared->calls == kill_at && !kill_after)
		raise(SIGKILL);
	return 0;
}

static void after(void *ctx, const struct file_call *c, int64_t result)
{
	watch(shared, c, result);
	if (shared->calls == kill_at && kill_after)
		raise(SIGKILL);
}

/* Steps 1 and 2 are there; save @step, whose contents are those of step @fill, and be killed. */
static void save_and_die(const char *dir, uint64_t step, uint64_t fill)
{
	struct rlx_ckpt_opts o = { .size = sizeof(o), .keep = 2 };
	struct file_hook h = { .before = before, .after = after };
	struct rlx_ckpt *ck = open_ok(dir, &o);
	struct state s;

	state_small(&s);
	save_ok(ck, &s, 1);
	save_ok(ck, &s, 2);
	file_hook_set(&h);
	state_fill(&s, fill);
	CHECK(!rlx_ckpt_save_set(ck, &s.set, step));
	CHECK(!rlx_ckpt_wait(ck, -1));
	_exit(0);
}

/* The fill of what is loaded; a step that is not whole fails the test. */
static uint64_t load_fill(const char *dir, struct state *s, uint64_t *step)
{
	struct rlx_ckpt *ck = open_ok(dir, NULL);
	uint64_t fill;

	CHECKF(!rlx_ckpt_load_set(ck, &s->set, 0, step), "%s", rlx_ckpt_error(ck)->text);
	fill = s->pos[0] / 1000;
	CHECKF(state_is(s, fill), "step %llu is not whole", (unsigned long long)*step);
	CHECKF(!strstr(listing(dir), ".tmp") && !strstr(listing(dir), ".del"), "%s", listing(dir));
	rlx_ckpt_close(ck);
	return fill;
}

static void kill_matrix(uint64_t step, uint64_t fill)
{
	struct state s;
	uint64_t got, was;
	bool ended = false;
	char dir[100];
	int status;

	state_small(&s);
	shared = shared_new();
	rlx_log_set(ignore, NULL);
	for (kill_at = 1; !ended; kill_at++)
		for (kill_after = false; !ended; kill_after = true) {
			pid_t pid;

			snprintf(dir, sizeof(dir), "%s", data_path("m"));
			nftw(dir, data_remove, 16, FTW_DEPTH | FTW_PHYS);
			memset(shared, 0, sizeof(*shared));
			pid = fork();
			if (!pid)
				save_and_die(dir, step, fill);
			CHECK(waitpid(pid, &status, 0) == pid);
			CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL :
						    !WEXITSTATUS(status));
			got = load_fill(dir, &s, &was);
			CHECKF(shared->published ? got == fill && was == step :
			       (got == fill && was == step) || (got == 2 && was == 2),
			       "killed %s call %llu: step %llu of %llu, published: %llu",
			       kill_after ? "after" : "before", (unsigned long long)kill_at,
			       (unsigned long long)was, (unsigned long long)got,
			       (unsigned long long)shared->published);
			ended = !WIFSIGNALED(status);
			if (kill_after)
				break;
		}
	rlx_arena_put(s.arena);
	CHECKF(kill_at > 25, "a save of %llu calls", (unsigned long long)kill_at);
	printf("# %llu calls in a save\n", (unsigned long long)kill_at - 2);
}

TEST(killed_around_each_call_of_a_save)
{
	kill_matrix(3, 3);
}

TEST(killed_around_each_call_of_a_save_that_replaces_one)
{
	kill_matrix(2, 22);
}

/* ---- what the disk was asked, and what of it is there after a power cut ---- */

enum { LOG_MAX = 400, INODES = 64 };

struct logged {
	struct file_call c;
	char		*path, *to;
	uint8_t		*data;
	int		 inode;		/* of what was opened, written, flushed */
	bool		 synced_by[LOG_MAX];
};

static struct logged log_[LOG_MAX];
static unsigned int logs;
static int inode_of_fd[1024], inodes;
static char *inode_path[INODES];

static char *copy_of(const char *s)
{
	return s ? strdup(s) : NULL;
}

static void write_down(void *ctx, const struct file_call *c, int64_t result)
{
	struct logged *l = &log_[logs];

	if (result < 0 || c->op == FILE_STAT || c->op == FILE_READ || c->op == FILE_LOCK)
		return;
	CHECK(logs < LOG_MAX);
	*l = (struct logged){
		.c = *c, .path = copy_of(c->path), .to = copy_of(c->to), .inode = -1
	};
	if (c->op == FILE_OPEN) {
		CHECK(result < 1024 && inodes < INODES);
		inode_path[inodes] = strdup(c->path);
		inode_of_fd[result] = l->inode = inodes++;
	} else if (c->fd >= 0) {
		l->inode = inode_of_fd[c->fd];
	}
	if (c->op == FILE_WRITE) {
		l->c.bytes = (uint64_t)result;
		l->data = malloc(l->c.bytes);
		memcpy(l->data, c->data, l->c.bytes);
	}
	logs++;
}

static void parent_of(const char *path, char *buf, size_t n)
{
	snprintf(buf, n, "%s", path);
	*strrchr(buf, '/') = 0;
}

/* Is entry @i on the disk once the first @p were made? */
static bool is_durable(unsigned int i, unsigned int p)
{
	char dir[200];
	unsigned int j;

	if (log_[i].path)
		parent_of(log_[i].path, dir, sizeof(dir));
	for (j = i + 1; j < p; j++)
		if (log_[j].c.op == FILE_SYNC &&
		    (log_[i].path ? !strcmp(inode_path[log_[j].inode], dir) :
		     log_[j].inode == log_[i].inode))
			return true;
	return false;
}

/* @path, in the folder where the replay is. */
static const char *moved(const char *path, const char *from, const char *to)
{
	static char buf[2][300];
	static int k;

	k ^= 1;
	snprintf(buf[k], sizeof(buf[k]), "%s%s", to, path + strlen(from));
	return buf[k];
}

enum variant { DROP_ALL, NAMES_WITHOUT_DATA, RANDOM };

static void do_name(const struct logged *l, const char *from, const char *to, int *fd)
{
	const char *path = moved(l->path, from, to);

	switch (l->c.op) {
	case FILE_OPEN:
		if (l->c.flags & O_CREAT)
			fd[l->inode] = open(path, O_WRONLY | O_CREAT, 0666);
		break;
	case FILE_MKDIR:
		mkdir(path, 0777);
		break;
	case FILE_RENAME:
		if (l->c.flags == FILE_RENAME_SWAP) {
			char aside[300];

			snprintf(aside, sizeof(aside), "%s/.aside", to);
			if (access(path, F_OK) || access(moved(l->to, from, to), F_OK))
				break;
			rename(moved(l->to, from, to), aside);
			rename(moved(l->path, from, to), moved(l->to, from, to));
			rename(aside, moved(l->path, from, to));
		} else {
			rename(path, moved(l->to, from, to));
		}
		break;
	case FILE_SYMLINK:
		CHECK(!symlink(l->to, path) || errno == EEXIST || errno == ENOENT);
		break;
	case FILE_UNLINK:
		unlink(path);
		break;
	case FILE_RMDIR:
		rmdir(path);
		break;
	default:
		break;
	}
}

static void do_data(const struct logged *l, int fd, uint64_t bytes)
{
	if (fd < 0)
		return;
	if (l->c.op == FILE_WRITE)
		CHECK(pwrite(fd, l->data, bytes, (off_t)l->c.offset) == (ssize_t)bytes);
	else if (l->c.op == FILE_TRUNCATE)
		CHECK(!ftruncate(fd, (off_t)l->c.bytes));
}

/* Make in @to what is left of @from, as it was before, after the first @p entries. */
static void replay(const char *before_dir, const char *from, const char *to, unsigned int p,
		   enum variant v, uint64_t *rnd)
{
	int fd[INODES];
	unsigned int i;
	char cmd[400];

	nftw(to, data_remove, 16, FTW_DEPTH | FTW_PHYS);
	snprintf(cmd, sizeof(cmd), "cp -a %s %s", before_dir, to);
	CHECK(!system(cmd));
	memset(fd, -1, sizeof(fd));
	for (i = 0; i < p; i++) {
		const struct logged *l = &log_[i];
		bool keep = is_durable(i, p);
		uint64_t bytes = l->c.bytes;

		if (l->path) {
			if (keep || v == NAMES_WITHOUT_DATA ||
			    (v == RANDOM && rlx_test_rand(rnd) % 2))
				do_name(l, from, to, fd);
			continue;
		}
		if (!keep && v == RANDOM) {	/* a torn write, down to a sector */
			keep = rlx_test_rand(rnd) % 3;
			if (l->c.op == FILE_WRITE && rlx_test_rand(rnd) % 2)
				bytes = rlx_test_rand(rnd) % (bytes / 512 + 1) * 512;
		}
		if (keep && l->inode >= 0)
			do_data(l, fd[l->inode], bytes);
	}
	for (i = 0; i < INODES; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

/* Are the first @p entries enough for @step to be published? */
static bool is_published(unsigned int p, uint64_t step)
{
	uint64_t to;
	unsigned int i;

	for (i = 0; i < p; i++)
		if (log_[i].c.op == FILE_RENAME && step_of(log_[i].to, &to) && to == step &&
		    is_durable(i, p))
			return true;
	return false;
}

static void power_cuts(uint64_t step, uint64_t fill)
{
	struct rlx_ckpt_opts o = { .size = sizeof(o), .keep = 2 };
	struct file_hook h = { .after = write_down };
	char from[100], was[100], to[100], cmd[300];
	uint64_t rnd = rlx_test_seed(), got, at;
	unsigned int p, v, cases = 0;
	struct rlx_ckpt *ck;
	struct state s;

	snprintf(from, sizeof(from), "%s", data_path("from"));
	snprintf(was, sizeof(was), "%s", data_path("was"));
	snprintf(to, sizeof(to), "%s", data_path("to"));
	state_small(&s);
	rlx_log_set(ignore, NULL);
	ck = open_ok(from, &o);
	save_ok(ck, &s, 1);
	save_ok(ck, &s, 2);
	snprintf(cmd, sizeof(cmd), "cp -a %s %s", from, was);
	CHECK(!system(cmd));
	file_hook_set(&h);
	state_fill(&s, fill);
	CHECK(!rlx_ckpt_save_set(ck, &s.set, step));
	CHECK(!rlx_ckpt_wait(ck, -1));
	file_hook_set(NULL);
	rlx_ckpt_close(ck);
	for (p = 0; p <= logs; p++)
		for (v = 0; v < 7; v++, cases++) {
			replay(was, from, to, p, v < RANDOM ? v : RANDOM, &rnd);
			got = load_fill(to, &s, &at);
			CHECKF(is_published(p, step) ?
				       got == fill && at == step :
				       (got == fill && at == step) || (got == 2 && at == 2),
			       "after %u of %u calls, variant %u: step %llu of %llu, published: %d",
			       p, logs, v, (unsigned long long)at, (unsigned long long)got,
			       is_published(p, step));
		}
	rlx_arena_put(s.arena);
	CHECK(is_published(logs, step) && !is_published(logs / 2, step));
	printf("# %u calls, %u cases\n", logs, cases);
}

TEST(what_no_fsync_covers_may_be_gone)
{
	power_cuts(3, 3);
}

TEST(also_when_one_is_replaced)
{
	power_cuts(2, 22);
}

/* ---- a run that is killed a hundred times ---- */

enum { KILLS = 100, EVERY = 4, BATCH = 16, RECORDS = 700 };

static const struct rlx_field fields[2] = { { "id", { RLX_I64, 0 } },
					    { "x", { RLX_U8, 1, { 200 } } } };

static void write_records(const char *path)
{
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	uint8_t x[200];
	int64_t i;
	const void *data[2] = { &i, x };

	CHECKF(!rlx_record_create(path, fields, 2, NULL, &w, &err), "%s", err.text);
	for (i = 0; i < RECORDS; i++) {
		data_fill(x, (uint64_t)i, 1, 200);
		CHECK(!rlx_record_add(w, data, 1, &err));
	}
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
}

static struct rlx_loader *open_records(const char *path, unsigned int workers)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = path, .batch = BATCH, .shuffle = true, .seed = 11,
		.workers = workers, .layout = RLX_LAYOUT_CHUNKS, .window = 1,
	};
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_loader_open(&o, &ld, &err), "%s", err.text);
	return ld;
}

/* One step: all weights depend on all samples so far, in their order. */
static uint64_t train_step(struct rlx_loader *ld, uint64_t *w, uint64_t n)
{
	uint64_t loss = 0, i;
	struct rlx_batch b;
	unsigned int row;

	CHECKF(!rlx_loader_next(ld, &b, -1), "%s", rlx_loader_error(ld)->text);
	for (row = 0; row < BATCH; row++) {
		const uint8_t *x = rlx_batch_row(ld, &b, "x", row);

		for (i = 0; i < n; i++)
			w[i] = w[i] * 6364136223846793005u + x[i % 200] + i;
	}
	for (i = 0; i < n; i++)
		loss ^= w[i] * (i + 1);
	rlx_loader_done(ld, &b);
	return loss;
}

static void watch_after(void *ctx, const struct file_call *c, int64_t result)
{
	watch(ctx, c, result);
}

/* Load, go on, save every few steps, until somebody kills it. */
static void train(struct shared *m, const char *dir, const char *records, unsigned int workers)
{
	struct file_hook h = { .after = watch_after, .ctx = m };
	struct rlx_arena_opts ao = { .size = 1 << 20, .provider = "memfd" };
	struct rlx_loader *ld = open_records(records, workers);
	uint64_t step = 0, was = m->published, loss, *w;
	struct rlx_loader_pos pos;
	struct rlx_ckpt_blob blob = { "loader", &pos, sizeof(pos) };
	struct rlx_ckpt_tensor t = { "w", rlx_type(RLX_U64, 20000) };
	struct rlx_ckpt_set set = { .size = sizeof(set), .tensor = &t, .n = 1, .blob = &blob,
				    .n_blob = 1 };
	struct rlx_error err = { 0 };
	struct rlx_arena *arena;
	enum rlx_status st;
	struct rlx_ckpt *ck;

	CHECK(!rlx_arena_new(&ao, &arena, &err) && !rlx_buf_new(arena, 160000, 0, &t.buf, &err));
	w = rlx_buf_ptr(t.buf);
	file_hook_set(&h);
	ck = open_ok(dir, NULL);
	st = rlx_ckpt_load_set(ck, &set, 0, &step);
	CHECKF(!st || (st == RLX_ENOENT && !was), "%s", rlx_ckpt_error(ck)->text);
	CHECKF(step >= was, "step %llu was loaded, %llu was published", (unsigned long long)step,
	       (unsigned long long)was);
	if (!st)
		CHECKF(!rlx_loader_seek(ld, &pos), "%s", rlx_loader_error(ld)->text);
	m->calls = 1;
	for (;; step++) {
		if (step && step % EVERY == 0) {
			rlx_loader_tell(ld, &pos);
			st = rlx_ckpt_save_set(ck, &set, step);
			CHECKF(!st || st == RLX_EAGAIN, "%s", rlx_ckpt_error(ck)->text);
		}
		loss = train_step(ld, w, 20000);
		if (m->curve[step])
			CHECKF(m->curve[step] == loss, "step %llu gave another loss before",
			       (unsigned long long)step);
		m->curve[step] = loss;
		if (step >= m->steps)
			m->steps = step + 1;
		m->done++;
		usleep(300);
	}
}

/*
 * Until run @k has come to where it is killed: every third while it starts, the others within
 * some steps, however long these take on a busy machine.
 */
static void wait_to_kill(const struct shared *m, int k, uint64_t *r)
{
	uint64_t steps = rlx_test_rand(r) % 30, i;

	for (i = 0; i < 60000 && k % 3 && *(const volatile uint64_t *)&m->done <= steps; i++)
		usleep(500);
	usleep(rlx_test_rand(r) % (k % 3 ? 1000 : 60000));
}

TEST(a_run_killed_a_hundred_times_is_the_run_that_was_not)
{
	struct shared *m = shared_new();
	uint64_t r = rlx_test_seed(), i, n, *w = calloc(20000, sizeof(*w));
	char dir[100], records[100];
	struct rlx_loader *ld;
	int status, k;

	data_base = "/var/tmp";		/* but speed and direct I/O do */
	snprintf(dir, sizeof(dir), "%s", data_path("run"));
	snprintf(records, sizeof(records), "%s", data_path("r.rlxr"));
	write_records(records);
	for (k = 0; k < KILLS; k++) {
		pid_t pid;

		m->calls = m->done = 0;
		pid = fork();
		if (!pid) {
			train(m, dir, records, 1 + k % 3);
			_exit(0);
		}
		wait_to_kill(m, k, &r);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECKF(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "run %d ended by itself",
		       k);
	}
	ld = open_records(records, 1);
	for (i = 0; i < m->steps; i++) {
		n = train_step(ld, w, 20000);
		CHECKF(n == m->curve[i], "step %llu", (unsigned long long)i);
	}
	rlx_loader_close(ld);
	printf("# %llu steps, %llu published, in %d runs\n", (unsigned long long)m->steps,
	       (unsigned long long)m->published, KILLS);
	CHECKF(m->published > 0, "no run got as far as a checkpoint");
	free(w);
}

TEST_MAIN()
