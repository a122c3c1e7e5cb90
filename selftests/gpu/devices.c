// SPDX-License-Identifier: MIT
/*
 * Two devices in one process. The emulator is asked for two that differ; a machine with
 * one real device has nothing to show here.
 */
#include <pthread.h>
#include <unistd.h>

#include "rlx/arena.h"
#include "rlx/device.h"
#include "rlx/resident.h"
#include "rlx/store.h"
#include "rt/rt.h"
#include "rt/session.h"
#include "selftests/gpu/sessions.h"
#include "selftests/lib/op_case.h"

enum { PARTS = SMALL_NET_MLP | SMALL_NET_ATTN | SMALL_NET_NORM | SMALL_NET_EW | SMALL_NET_SUB };

/* The second one's name; a test of a machine that has none ends here. */
static const char *second(void)
{
	static char name[16];
	struct rlx_error err = { 0 };
	struct rlx_device *d;

	setenv("RLX_EMU_DEVICES", "2", 0);	/* read when the driver is first asked */
	setenv("RLX_EMU_ARCH", "90,80", 0);
	snprintf(name, sizeof(name), "%s:1", op_case_gpu());
	CHECKF(!rlx_device_get(op_case_gpu(), 0, &d, &err), "%s", err.text);
	rlx_device_put(d);
	if (rlx_device_get(name, 0, &d, NULL))
		rlx_test_skip("one device");
	rlx_device_put(d);
	return name;
}

/* A session on device @i, another on the CPU, filled by the same @seed. */
static struct rlx_session *session_by(int i, unsigned int parts, uint64_t seed)
{
	const char *name = i ? second() : op_case_gpu();
	struct rlx_session *s = session_on(i < 0 ? "cpu" : name, parts, 2);

	CHECK_EQ(small_net_fill(s, seed), 0);
	return s;
}

TEST(each_is_told_of_as_it_is)
{
	const char *name = second();
	struct rlx_session *s[2] = { session_by(0, PARTS, 1), session_by(1, PARTS, 1) };
	struct rlx_program_info made;
	struct rlx_dev_info info[8];
	unsigned int n = rlx_device_list(info, 8), i, met = 0;

	for (i = 0; i < n && i < 8; i++) {
		int which = !strcmp(info[i].backend, name);

		if (!which && strcmp(info[i].backend, op_case_gpu()))
			continue;
		met++;
		rlx_program_info(s[which]->p, &made);
		CHECK_STR(made.device, info[i].backend);
		CHECK_STR(made.isa, info[i].isa);
		CHECK_EQ(s[which]->p->dev->ordinal, which);
		CHECK(*info[i].pci);
	}
	CHECK_EQ(met, 2);
	for (i = 0; i < 2; i++)
		rlx_session_free(s[i]);
}

static void *runs(void *arg)
{
	struct rlx_session *s = arg;
	int i;

	for (i = 0; i < 5; i++)
		if (rlx_session_run(s))
			return s;
	return NULL;
}

/* By turns, and at once. */
TEST(both_compute)
{
	struct rlx_session *c, *s[2];
	pthread_t thread[2];
	uint64_t seed;
	void *bad;
	int i;

	second();
	c = session_by(-1, PARTS, 1);
	for (i = 0; i < 2; i++)
		s[i] = session_by(i, PARTS, 1);
	for (seed = 1; seed < 4; seed++) {
		CHECK_EQ(small_net_fill(c, seed), 0);
		for (i = 0; i < 2; i++) {
			CHECK_EQ(small_net_fill(s[i], seed), 0);
			compare(s[i], c);
		}
	}
	for (i = 0; i < 2; i++) {
		poison(s[i]);
		CHECK(!pthread_create(&thread[i], NULL, runs, s[i]));
	}
	for (i = 0; i < 2; i++) {
		CHECK(!pthread_join(thread[i], &bad));
		CHECKF(!bad, "%s", rlx_session_error(bad)->text);
		same(s[i], c);
		rlx_session_free(s[i]);
	}
	rlx_session_free(c);
}

static uint64_t copied(void)
{
	struct rlx_stats st;

	rlx_stats_read(&st);
	return st.bytes_copied;
}

enum { ROWS = 300, COLS = 256 };	/* too large to be read in place */

static struct rlx_session *sums_on(const char *device)
{
	struct rlx_type t = rlx_type(RLX_F32, ROWS, COLS);
	struct rlx_graph *g = rlx_graph_new("sums");
	rlx_value x = rlx_input(g, "x", t);
	struct rlx_session *s;

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = x));
	CHECK_EQ(rlx_graph_finish(g), 0);
	s = session_of(g, device, 0);
	rlx_graph_put(g);
	return s;
}

static void bind_and_run(struct rlx_session *s, struct rlx_buf x, struct rlx_buf y, float seed)
{
	float *from = rlx_buf_ptr(x), *to = rlx_buf_ptr(y);
	uint64_t before;
	int i;

	for (i = 0; i < ROWS * COLS; i++) {
		from[i] = seed + (float)i;
		to[i] = -1;
	}
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "x", x), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", y), 0);
	before = copied();
	run(s);
	CHECK_EQ(copied(), before);
	for (i = 0; i < ROWS * COLS; i++)
		CHECKF(to[i] == 2 * from[i], "[%d] is %g, not %g", i, (double)to[i],
		       2 * (double)from[i]);
}

/* Registered for both, and as long as one of them uses it: no CPU copies anything. */
TEST(one_arena_for_both)
{
	struct rlx_arena_opts o = { .size = 4 << 20 };
	struct rlx_session *s[2];
	struct rlx_arena *a;
	struct rlx_buf x, y;
	int i;

	second();
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, ROWS * COLS * 4, 64, &x, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, ROWS * COLS * 4, 64, &y, NULL), 0);
	for (i = 0; i < 2; i++) {
		s[i] = sums_on(i ? second() : op_case_gpu());
		bind_and_run(s[i], x, y, 1);
	}
	bind_and_run(s[0], x, y, 2);
	rlx_session_free(s[0]);		/* who registered it */
	bind_and_run(s[1], x, y, 3);
	s[0] = sums_on(op_case_gpu());
	bind_and_run(s[0], x, y, 4);
	rlx_session_free(s[1]);
	bind_and_run(s[0], x, y, 5);
	rlx_session_free(s[0]);
	rlx_arena_put(a);
}

/* Over a link it would be read for ever, where a copy costs a second. */
TEST(memory_of_another_device_is_refused)
{
	struct rlx_arena_opts o = { .size = 1 << 16 };
	struct rlx_resident *r = NULL, *q = NULL;
	struct rlx_error err = { 0 };
	struct rlx_arena *a;
	const char *name;
	int fd;

	setenv("RLX_EMU_PEERS", "1", 1);
	name = second();
	if (!strcmp(op_case_gpu(), "rocm"))	/* shares none */
		return;
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	CHECK_EQ(rlx_arena_seal(a, RLX_SEAL_WRITE, NULL), 0);
	CHECKF(!rlx_resident_new(a, 0, op_case_gpu(), &r, &err), "%s", err.text);
	CHECKF(!rlx_resident_fd(r, &fd, &err), "%s", err.text);
	CHECK_EQ(rlx_resident_open_fd(a, 0, fd, name, &q, &err), RLX_EBADFD);
	CHECKF(strstr(err.text, name), "%s", err.text);
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_resident_new(a, 0, name, &q, &err), "%s", err.text);	/* its own */
	rlx_resident_put(q);
	rlx_resident_put(r);
	close(fd);
	rlx_arena_put(a);
}

/* Weights of a store are a like device's too, by whatever name that is asked for. */
TEST(a_store_is_for_all_that_are_alike)
{
	struct rlx_arena_opts o = { .size = 1 << 20, .flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK };
	struct rlx_graph *g = small_net(SMALL_NET_MLP, 2);
	struct rlx_compile_opts co = { .size = sizeof(co) };
	struct rlx_device *d[2];
	struct rlx_program *p;
	struct rlx_error err = { 0 };
	struct rlx_store *store;
	struct rlx_arena *a;
	char zeroth[16];
	bool alike;
	int i;

	CHECK_EQ(rlx_device_get(second(), 0, &d[1], NULL), 0);
	CHECK_EQ(rlx_device_get(op_case_gpu(), 0, &d[0], NULL), 0);
	alike = !strcmp(d[0]->isa, d[1]->isa);
	snprintf(zeroth, sizeof(zeroth), "%s:0", op_case_gpu());
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	CHECKF(!rlx_store_new(a, op_case_gpu(), &store, &err), "%s", err.text);
	co.store = store;
	for (i = 0; i < 3; i++) {
		co.device = i == 2 ? second() : i ? zeroth : op_case_gpu();
		err = (struct rlx_error){ 0 };
		CHECKF(rlx_compile(g, &co, &p, &err) == (i < 2 || alike ? RLX_OK : RLX_EINVAL),
		       "%s: %s", co.device, err.text);
		if (i < 2 || alike)
			rlx_program_put(p);
	}
	rlx_store_put(store);
	rlx_arena_put(a);
	rlx_graph_put(g);
	for (i = 0; i < 2; i++)
		rlx_device_put(d[i]);
}

TEST_MAIN()
