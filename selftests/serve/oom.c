// SPDX-License-Identifier: MIT
/* Every allocation of serving and asking fails once, on either side. */
#include <unistd.h>

#include "base/alloc.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/serve_test.h"

#define RW (RLX_ACCESS_READ | RLX_ACCESS_WRITE)

struct seq {
	struct rlx_arena	*arena;
	uint32_t		 flags;		/* of the service */
};

/* Fetch and answer what is there, events too, until stopped. */
static void *executor(void *arg)
{
	struct rlx_work *w[8];
	int n;

	while ((n = rlx_service_fetch(arg, 0, w, 1, 8, RLX_NO_DEADLINE)) >= 0)
		CHECK_EQ(rlx_service_commit(arg, w, (unsigned int)n), RLX_OK);
	return NULL;
}

/*
 * In one process, so that the fault may meet the client or the service; the
 * status of the first call that failed.
 */
static enum rlx_status whole(void *ctx)
{
	struct seq *q = ctx;
	struct rlx_service_opts so = { .size = sizeof(so), .flags = q->flags,
				       .transport = serve_transport() };
	struct rlx_channel_opts co = { .size = sizeof(co),
				       .transport = serve_transport() };
	struct rlx_request r = { .nr_slices = 1 };
	struct rlx_service *svc;
	struct rlx_channel *ch = NULL;
	struct rlx_error err = { 0 };
	struct rlx_reply reply;
	enum rlx_status st;
	char address[64];
	pthread_t t;
	uint32_t h;

	serve_address(address, sizeof(address));
	so.address = co.address = address;
	st = rlx_service_new(&so, &svc, &err);
	CHECKF(!st == !!svc && (!st || err.text[0]), "%s", err.text);
	if (st)
		return st;
	CHECK(!pthread_create(&t, NULL, executor, svc));
	st = rlx_channel_open(&co, &ch, &err);
	CHECKF(!st == !!ch && (!st || err.text[0]), "%s", err.text);
	if (!st)
		st = rlx_channel_attach(ch, q->arena, RW, &h, &err);
	if (!st) {
		r.slice[0] = (struct rlx_request_slice){ h, RW, 0, 64 };
		st = rlx_channel_call(ch, &r, &reply, SOON);
		CHECK_EQ(st, RLX_OK);	/* nothing is allocated there */
		st = rlx_channel_detach(ch, h, &err);
	}
	rlx_channel_close(ch);
	rlx_service_stop(svc);
	pthread_join(t, NULL);
	rlx_service_free(svc);
	return st;
}

TEST(serving_and_asking)
{
	struct seq q = { .arena = client_arena(4096) };
	uint64_t n;

	n = rlx_oom_sweep(whole, &q);
	printf("# %llu faults\n", (unsigned long long)n);
	CHECK(n > 10);
	q.flags = RLX_SERVICE_EVENTS;
	CHECK(rlx_oom_sweep(whole, &q) >= n);
	rlx_arena_put(q.arena);
}

TEST(a_request_allocates_nothing)
{
	struct rlx_channel *ch;
	struct server s;
	uint64_t before;
	int i;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){
			 .flags = strcmp(serve_transport(), "kmod") ?
			 RLX_CHANNEL_RECOVER : 0 });
	client_call(ch, (struct rlx_request){ 0 });
	before = rlx_alloc_count();
	for (i = 0; i < 1000; i++)
		client_call(ch, (struct rlx_request){ .opcode = OP_ADD,
						      .inline_len = 64 });
	CHECK_EQ(rlx_alloc_count(), before);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(bad_options)
{
	struct rlx_service_opts ok = { .size = sizeof(ok),
				       .transport = serve_transport() }, o;
	struct rlx_channel_opts cok = { .size = sizeof(cok),
					.transport = serve_transport() }, c;
	struct rlx_service *svc;
	struct rlx_channel *ch;
	struct server s;
	char address[64];

	serve_address(address, sizeof(address));
	ok.address = address;
#define BAD(field, value, want)							\
	do {									\
		struct rlx_error err = { 0 };					\
		o = ok;								\
		o.field = value;						\
		CHECK_EQ(rlx_service_new(&o, &svc, &err), want);		\
		CHECK(!svc && err.text[0]);					\
	} while (0)
	BAD(size, 8, RLX_EINVAL);
	BAD(size, sizeof(ok) + 8, RLX_EINVAL);
	BAD(address, NULL, RLX_EINVAL);
	BAD(address, "x", RLX_EINVAL);
	BAD(transport, "carrier pigeon", RLX_ENOSUP);
	BAD(flags, 1u << 31, RLX_EINVAL);
	BAD(mode, 01777, RLX_EINVAL);
	BAD(nr_uids, 1, RLX_EINVAL);
	BAD(nr_gids, 1, RLX_EINVAL);
	BAD(queues, 65, RLX_EINVAL);
	BAD(depth_max, 3, RLX_EINVAL);
	BAD(depth_max, 8192, RLX_EINVAL);
	BAD(clients_max, 65537, RLX_EINVAL);
	BAD(arenas_max, 257, RLX_EINVAL);
	BAD(slices_max, 5, RLX_EINVAL);
	BAD(slices_max, 65, RLX_EINVAL);
	BAD(reserved[3], 1, RLX_EINVAL);
#undef BAD
	CHECK_EQ(rlx_service_new(NULL, &svc, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_service_new(&ok, NULL, NULL), RLX_EINVAL);
	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	cok.address = s.address;
#define BAD(field, value, want)							\
	do {									\
		struct rlx_error err = { 0 };					\
		c = cok;							\
		c.field = value;						\
		CHECK_EQ(rlx_channel_open(&c, &ch, &err), want);		\
		CHECK(!ch && err.text[0]);					\
	} while (0)
	BAD(size, 8, RLX_EINVAL);
	BAD(address, NULL, RLX_EINVAL);
	BAD(transport, "carrier pigeon", RLX_ENOSUP);
	BAD(depth, 3, RLX_EINVAL);
	BAD(depth, 8192, RLX_EINVAL);
	BAD(queue, 2, RLX_EINVAL);
	BAD(flags, 1u << 31, RLX_EINVAL);
	BAD(reserved[0], 1, RLX_EINVAL);
#undef BAD
	CHECK_EQ(rlx_channel_open(NULL, &ch, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_channel_open(&cok, NULL, NULL), RLX_EINVAL);
	rlx_channel_close(NULL);
	rlx_service_free(NULL);
	rlx_service_stop(NULL);
	CHECK_EQ(rlx_channel_submit(NULL, NULL, 0, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_channel_reap(NULL, NULL, 0), RLX_EINVAL);
	CHECK_EQ(rlx_channel_wait(NULL, NULL, 0, 0, 0), RLX_EINVAL);
	CHECK_EQ(rlx_channel_arm(NULL), RLX_EINVAL);
	CHECK_EQ(rlx_channel_fd(NULL), RLX_EINVAL);
	CHECK_EQ(rlx_channel_cancel(NULL, 0), RLX_EINVAL);
	CHECK_EQ(rlx_service_fetch(NULL, 0, NULL, 0, 0, 0), RLX_EINVAL);
	CHECK_EQ(rlx_service_commit(NULL, NULL, 0), RLX_EINVAL);
	CHECK_EQ(rlx_service_commit(s.svc, NULL, 1), RLX_EINVAL);
	CHECK_EQ(rlx_service_commit(s.svc, (struct rlx_work *[]){ NULL }, 1),
		 RLX_EINVAL);
	CHECK_EQ(rlx_service_arm(s.svc, 1), RLX_EINVAL);
	CHECK_EQ(rlx_service_fd(s.svc, 1), RLX_EINVAL);
	CHECK_EQ(rlx_service_cut(s.svc, 1, NULL), RLX_EINVAL);
	server_stop(&s);
}

TEST_MAIN()
