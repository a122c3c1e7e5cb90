// SPDX-License-Identifier: MIT
/*
 * One set of weights on the device for several processes: each of them is a child,
 * told by a byte what to do and answering with one; the test itself uses no GPU.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rlx/resident.h"
#include "rlx/run.h"
#include "rlx/store.h"
#include "selftests/gpu/memory_left.h"
#include "selftests/lib/fds.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

/* Two tables, one as a param and one as a constant; rows are picked from both. */
enum { ROWS = 32 << 10, COLS = 256, PICKED = 8 };
static const size_t TABLE = (size_t)ROWS * COLS * sizeof(float);

static float table_value(int which, int64_t i)
{
	uint64_t seed = (uint64_t)i * 2 + (uint64_t)which;

	return (float)rlx_test_uniform(&seed, -1, 1);
}

static struct rlx_arena *sealed_arena(size_t bytes, bool fill)
{
	struct rlx_arena_opts o = { .size = bytes };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	float *p;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	p = rlx_arena_base(a);
	for (size_t i = 0, n = TABLE / sizeof(float); fill && i < bytes / sizeof(float); i++)
		p[i] = table_value(i >= n, (int64_t)(i % n));
	CHECKF(!rlx_arena_seal(a, RLX_SEAL_WRITE, &err), "%s", err.text);
	return a;
}

/* A session whose weights lie in @a, the constant then in @store, which may be NULL. */
static struct rlx_session *session_on(struct rlx_arena *a, struct rlx_store *store)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = op_case_gpu(), .store = store,
	};
	struct rlx_type table = rlx_type(RLX_F32, ROWS, COLS), pick = rlx_type(RLX_I32, PICKED);
	struct rlx_blob *b = rlx_blob_new((char *)rlx_arena_base(a) + TABLE, TABLE, NULL,
					  NULL);
	struct rlx_graph *g = rlx_graph_new("tables");
	rlx_value i = rlx_input(g, "i", pick);
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_buf part;

	rlx_blob_set_source(b, 1234, 0);
	rlx_output(g, "c", rlx_emit(g, gather, .x = rlx_constant_blob(g, table, b), .indices = i));
	rlx_output(g, "p", rlx_emit(g, gather, .x = rlx_param(g, "table", table), .indices = i));
	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_buf_slice(rlx_buf_whole(a), 0, TABLE, &part, NULL));
	CHECKF(!rlx_session_bind(s, RLX_IO_PARAM, "table", part), "%s",
	       rlx_session_error(s)->text);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_blob_put(b);
	return s;
}

static void run(struct rlx_session *s)
{
	static const char *const name[] = { "p", "c" };
	uint64_t seed = rlx_test_seed();
	struct rlx_buf out;
	int32_t pick[PICKED];
	int i, k, which;
	float got;

	for (i = 0; i < PICKED; i++)
		pick[i] = (int32_t)(rlx_test_rand(&seed) % ROWS);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "i", rlx_type(RLX_I32, PICKED), pick));
	for (which = 0; which < 2; which++) {
		out = rlx_session_buf(s, RLX_IO_OUTPUT, name[which]);
		memset(rlx_buf_ptr(out), 0xa5, out.bytes);
	}
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (which = 0; which < 2; which++)
		for (i = 0; i < PICKED; i++)
			for (k = 0; k < COLS; k++) {
				out = rlx_session_buf(s, RLX_IO_OUTPUT, name[which]);
				got = ((float *)rlx_buf_ptr(out))[i * COLS + k];
				CHECK(got == table_value(which, (int64_t)pick[i] * COLS + k));
			}
}

/*
 * Compiling, binding and running take memory for neither table. On a real device what
 * others do there shows as well, so the least of some times counts.
 */
static struct rlx_session *use(struct rlx_arena *a, struct rlx_store *store)
{
	struct rlx_session *s = NULL;
	int64_t least = INT64_MAX, took;
	int i;

	for (i = 0; i < 5; i++) {
		rlx_session_free(s);
		took = (int64_t)memory_left();
		s = session_on(a, store);
		run(s);
		took -= (int64_t)memory_left();
		least = took < least ? took : least;
	}
	CHECKF(least < (int64_t)TABLE / 2, "%lld bytes were taken", (long long)least);
	return s;
}

struct child {
	pid_t	pid;
	int	sock;
};

/* 'm': make it; 'o': open it; 'r': run; 'f': give a descriptor; 'q': end. */
static void obey(int sock)
{
	struct rlx_resident *r = NULL;
	struct rlx_session *s = NULL;
	struct rlx_arena *a = NULL;
	struct rlx_error err = { 0 };
	int fd, arena_fd;
	char what;

	while (read(sock, &what, 1) == 1 && what != 'q') {
		switch (what) {
		case 'm':
			a = sealed_arena(2 * TABLE, true);
			CHECKF(!rlx_resident_new(a, 0, op_case_gpu(), &r, &err), "%s", err.text);
			s = use(a, NULL);
			break;
		case 'o':
			arena_fd = rlx_test_recv_fd(sock);
			fd = rlx_test_recv_fd(sock);
			CHECKF(!rlx_arena_open_fd(arena_fd, RLX_ARENA_RDONLY, &a, &err), "%s",
			       err.text);
			CHECKF(!rlx_resident_open_fd(a, 0, fd, op_case_gpu(), &r, &err), "%s",
			       err.text);
			close(fd);
			close(arena_fd);
			s = use(a, NULL);
			break;
		case 'r':
			run(s);
			break;
		case 'f':
			CHECKF(!rlx_resident_fd(r, &fd, &err), "%s", err.text);
			rlx_test_send_fd(sock, rlx_arena_fd(a));
			rlx_test_send_fd(sock, fd);
			close(fd);
			break;
		}
		CHECK(write(sock, &what, 1) == 1);
	}
	rlx_resident_put(r);	/* before those who use it */
	if (s)
		run(s);
	rlx_session_free(s);
	rlx_arena_put(a);
	_exit(0);
}

static struct child start(void)
{
	struct child c;
	int pair[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fflush(stdout);
	c.pid = fork();
	if (!c.pid) {
		close(pair[0]);
		obey(pair[1]);
	}
	close(pair[1]);
	c.sock = pair[0];
	return c;
}

static void done(struct child c)
{
	char answer;

	CHECKF(read(c.sock, &answer, 1) == 1, "a process ended");
}

static void tell(struct child c, char what)
{
	CHECK(write(c.sock, &what, 1) == 1);
	if (what != 'f' && what != 'o')
		done(c);
}

/* @to opens what @from has. */
static void hand_over(struct child from, struct child to)
{
	int fd[2], i;

	tell(from, 'f');
	for (i = 0; i < 2; i++)
		fd[i] = rlx_test_recv_fd(from.sock);
	done(from);
	tell(to, 'o');
	for (i = 0; i < 2; i++) {
		rlx_test_send_fd(to.sock, fd[i]);
		close(fd[i]);
	}
	done(to);
}

static void end(struct child c, int sig)
{
	int st;

	if (sig)
		CHECK(!kill(c.pid, sig));
	else	/* not by closing: later children have the socket too */
		CHECK(write(c.sock, "q", 1) == 1);
	close(c.sock);
	CHECK_EQ(waitpid(c.pid, &st, 0), c.pid);
	CHECKF(sig ? WIFSIGNALED(st) : WIFEXITED(st) && !WEXITSTATUS(st), "status %x", st);
}

/* Whoever dies, the maker first, the others go on, and hand it on. */
TEST(one_set_of_weights_for_several_processes)
{
	struct child maker = start(), a = start(), b = start(), c;

	tell(maker, 'm');
	hand_over(maker, a);
	hand_over(maker, b);
	tell(a, 'r');
	tell(maker, 'r');
	end(maker, SIGKILL);
	tell(a, 'r');
	tell(b, 'r');
	end(a, SIGKILL);
	tell(b, 'r');
	c = start();
	hand_over(b, c);
	end(b, 0);
	tell(c, 'r');
	end(c, 0);
}

/* Constants of a file lie in a store's arena; sealed, it is brought to the device. */
TEST(a_store_of_weights)
{
	struct rlx_arena_opts o = { .size = 4 * TABLE, .flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK };
	struct rlx_arena *a, *tables = sealed_arena(2 * TABLE, true);
	struct rlx_resident *r, *q;
	struct rlx_error err = { 0 };
	struct rlx_store_info info;
	struct rlx_store *store;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	CHECKF(!rlx_store_new(a, op_case_gpu(), &store, &err), "%s", err.text);
	rlx_session_free(session_on(tables, store));
	CHECKF(!rlx_store_seal(store, &err), "%s", err.text);
	rlx_store_info(store, &info);
	CHECK(info.made == 1 && info.bytes > TABLE);
	CHECKF(!rlx_resident_new(a, info.bytes, op_case_gpu(), &r, &err), "%s", err.text);
	CHECKF(!rlx_resident_new(tables, TABLE, op_case_gpu(), &q, &err), "%s", err.text);
	rlx_session_free(use(tables, store));
	rlx_store_info(store, &info);
	CHECK(info.found >= 5 && !info.missed);
	rlx_resident_put(q);
	rlx_resident_put(r);
	rlx_store_put(store);
	rlx_arena_put(tables);
	rlx_arena_put(a);
}

enum { SIDE = 96, ROW_KINDS = 3 };

/* y = x w, with w's 16-bit floats @off bytes into @a, for few rows, some and many. */
static void product_of(struct rlx_arena *a, uint64_t off, int64_t rows)
{
	struct rlx_blob *b = rlx_blob_new((char *)rlx_arena_base(a) + off, SIDE * SIDE * 2, NULL,
					  NULL);
	struct rlx_compile_opts o = { .size = sizeof(o), .device = op_case_gpu() };
	struct rlx_type tx = rlx_type(RLX_F16, rows, SIDE);
	struct rlx_graph *g = rlx_graph_new("product");
	_Float16 w, *x = calloc((size_t)rows * SIDE, sizeof(*x));
	struct rlx_session *s;
	const float *y;
	int64_t i;

	rlx_output(g, "y", rlx_emit(g, cast, .to = RLX_F32,
			.x = rlx_emit(g, matmul, .a = rlx_input(g, "x", tx),
				      .b = rlx_constant_blob(g, rlx_type(RLX_F16, SIDE, SIDE),
							     b))));
	s = rig_session(g, &o);
	for (i = 0; i < rows; i++)	/* each row picks one of w's */
		x[i * SIDE + i % SIDE] = 1;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", tx, x), 0);
	CHECKF(!rlx_session_run(s), "%d rows, +%d: %s", (int)rows, (int)off,
	       rlx_session_error(s)->text);
	y = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
	for (i = 0; i < rows * SIDE; i++) {
		memcpy(&w, (char *)rlx_arena_base(a) + off + i % (SIDE * SIDE) * 2, 2);
		CHECKF(y[i] == (float)w, "%d rows, +%d: [%d] is %g, not %g", (int)rows,
		       (int)off, (int)i, (double)y[i], (double)w);
	}
	rlx_session_free(s);
	rlx_blob_put(b);
	free(x);
}

/* Weights of a file lie in an arena as they lie in the file. */
TEST(weights_at_odd_places)
{
	static const int64_t rows[ROW_KINDS] = { 1, 8, 128 };
	static const uint64_t off[] = { 2, 8, 2064 };
	struct rlx_arena_opts o = { .size = 1 << 16 };
	struct rlx_error err = { 0 };
	struct rlx_resident *r;
	struct rlx_arena *a;
	_Float16 *p;
	size_t i, k;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	p = rlx_arena_base(a);
	for (i = 0; i < (1 << 16) / sizeof(*p); i++)
		p[i] = (_Float16)table_value(0, (int64_t)i);
	CHECKF(!rlx_arena_seal(a, RLX_SEAL_WRITE, &err), "%s", err.text);
	CHECKF(!rlx_resident_new(a, 0, op_case_gpu(), &r, &err), "%s", err.text);
	for (i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		for (k = 0; k < ROW_KINDS; k++)
			product_of(a, off[i], rows[k]);
	rlx_resident_put(r);
	rlx_arena_put(a);
}

static void refuses(enum rlx_status want, const char *text, enum rlx_status got,
		    const struct rlx_error *err)
{
	CHECKF(got == want && strstr(err->text, text), "%d, not %d: %s", got, want, err->text);
}

TEST(what_is_refused)
{
	enum { BYTES = 3 << 20 };
	struct rlx_arena *a = sealed_arena(BYTES, false), *other = sealed_arena(BYTES, false);
	struct rlx_arena_opts open = { .size = BYTES };
	struct rlx_arena_info info;
	struct rlx_resident *r, *q;
	struct rlx_arena *unsealed;
	const char *gpu = op_case_gpu();
	struct rlx_error err;
	int fd, null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

#define REFUSES(st, text, call)						\
	do {								\
		err = (struct rlx_error){ 0 };				\
		refuses(st, text, call, &err);				\
	} while (0)
	CHECK(!rlx_arena_new(&open, &unsealed, NULL));
	REFUSES(RLX_EINVAL, "needed", rlx_resident_new(NULL, 0, gpu, &r, &err));
	REFUSES(RLX_EACCES, "sealed", rlx_resident_new(unsealed, 0, gpu, &r, &err));
	rlx_arena_info(a, &info);	/* it may be larger, by huge pages */
	REFUSES(RLX_ERANGE, "arena of", rlx_resident_new(a, info.bytes + 1, gpu, &r, &err));
	REFUSES(RLX_ENODEV, "", rlx_resident_new(a, 0, "cuda:77", &r, &err));
	REFUSES(RLX_ENOSUP, "cpu", rlx_resident_new(a, 0, "cpu", &r, &err));
	REFUSES(RLX_EBADFD, "-1", rlx_resident_open_fd(a, 0, -1, gpu, &r, &err));
	REFUSES(RLX_EBADFD, "", rlx_resident_open_fd(a, 0, null, gpu, &r, &err));
	REFUSES(RLX_EBADFD, "", rlx_resident_open_fd(a, 0, rlx_arena_fd(a), gpu, &r, &err));
	CHECKF(!rlx_resident_new(a, 0, gpu, &r, &err), "%s", err.text);
	REFUSES(RLX_EBUSY, "already", rlx_resident_new(a, 0, gpu, &q, &err));
	CHECKF(!rlx_resident_fd(r, &fd, &err), "%s", err.text);
	REFUSES(RLX_EBUSY, "already", rlx_resident_open_fd(a, 0, fd, gpu, &q, &err));
	REFUSES(RLX_EPARSE, "this arena", rlx_resident_open_fd(other, 0, fd, gpu, &q, &err));
	REFUSES(RLX_EBADFD, "bytes", rlx_resident_open_fd(other, 64, fd, gpu, &q, &err));
	rlx_resident_put(r);
	/* the descriptor alone keeps it */
	CHECKF(!rlx_resident_open_fd(a, 0, fd, gpu, &r, &err), "%s", err.text);
	rlx_resident_put(r);
	rlx_resident_put(NULL);
	close(fd);
	close(null);
	rlx_arena_put(unsealed);
	rlx_arena_put(other);
	rlx_arena_put(a);
}

static enum rlx_status make_and_open(void *ctx)
{
	struct rlx_resident *r;
	struct rlx_error err = { 0 };
	enum rlx_status st;
	int fd;

	st = rlx_resident_new(ctx, 4096, op_case_gpu(), &r, &err);
	if (st)
		return st;
	st = rlx_resident_fd(r, &fd, &err);
	rlx_resident_put(r);
	if (st)
		return st;
	st = rlx_resident_open_fd(ctx, 4096, fd, op_case_gpu(), &r, &err);
	close(fd);
	if (!st)
		rlx_resident_put(r);
	return st;
}

TEST(every_allocation_may_fail)
{
	struct rlx_arena *a = sealed_arena(1 << 20, false);

	CHECK_EQ(make_and_open(a), 0);
	CHECK(rlx_oom_sweep(make_and_open, a) > 3);
	rlx_arena_put(a);
}

TEST_MAIN()
