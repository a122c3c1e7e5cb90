// SPDX-License-Identifier: MIT
/* What client and executor see of each other, on either transport. */
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/serve_test.h"
#include "serve/sock.h"

#define RW (RLX_ACCESS_READ | RLX_ACCESS_WRITE)

static bool kmod(void)
{
	return !strcmp(serve_transport(), "kmod");
}

/*
 * Where nobody fetches: requests in the kernel's ring count as delivered, so that
 * one taken back, or too late, is answered when the executor looks.
 */
static void look(struct server *s)
{
	struct rlx_work *w[4];

	if (kmod())
		CHECK_EQ(rlx_service_fetch(s->svc, 0, w, 0, 4, 0), 0);
}

TEST(request_and_reply)
{
	struct rlx_request r = { .opcode = OP_ADD, .user_data = 77,
				 .inline_len = 64 };
	struct rlx_channel_info info;
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;
	int32_t sum = 0;
	int i;

	for (i = 0; i < 64; i++) {
		r.inline_data[i] = (uint8_t)(200 - i);
		sum += 200 - i;
	}
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	for (i = 0; i < 1000; i++) {
		r.user_data = (uint64_t)i << 40;
		reply = client_call(ch, r);
		CHECK_EQ(reply.result, sum);
		CHECK_EQ(reply.flags, 0);
	}
	r.opcode = 12345;
	CHECK_EQ(client_call(ch, r).result, -ENOSYS);
	r.opcode = OP_NOP;
	r.inline_len = 0;
	reply = client_call(ch, r);
	CHECK_EQ(reply.aux, r.user_data);
	rlx_channel_info(ch, &info);
	CHECK_STR(info.transport, serve_transport());
	CHECK_EQ(info.in_flight, 0);
	CHECK_EQ(info.submitted, 1002);
	CHECK_EQ(info.replied, 1002);
	CHECK_EQ(info.pid, getpid());
	CHECK_EQ(info.uid, geteuid());
	CHECK(info.alive);
	rlx_channel_close(ch);
	server_drained(&s);
	server_stop(&s);
}

/* Part of inline data is carried, and not what the slot held before. */
TEST(inline_data_of_every_length)
{
	struct rlx_request r = { .opcode = OP_ADD };
	struct rlx_channel *ch;
	struct server s;
	uint32_t n;

	memset(r.inline_data, 1, sizeof(r.inline_data));
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = 2 });
	for (n = 64; n <= 64; n--) {
		r.inline_len = n;
		CHECK_EQ(client_call(ch, r).result, n);
	}
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(slices_are_the_same_memory)
{
	struct rlx_arena *a = client_arena(1 << 20), *b = client_arena(1 << 16);
	uint8_t *pa = rlx_arena_base(a), *pb = rlx_arena_base(b);
	uint64_t seed = rlx_test_seed(), want = 0, i;
	struct rlx_request r = { .opcode = OP_COPY, .nr_slices = 2 };
	struct rlx_stats before, after;
	struct rlx_channel *ch;
	struct server s;
	uint32_t ha, hb;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	ha = client_attach(ch, a, RLX_ACCESS_READ);
	hb = client_attach(ch, b, RW);
	CHECK(ha != hb);
	for (i = 0; i < 1 << 20; i++)
		pa[i] = (uint8_t)rlx_test_rand(&seed);
	memset(pb, 0xee, 1 << 16);
	rlx_stats_read(&before);
	r.slice[0] = (struct rlx_request_slice){ ha, RLX_ACCESS_READ, 777, 5000 };
	r.slice[1] = (struct rlx_request_slice){ hb, RLX_ACCESS_WRITE, 1, 5000 };
	CHECK_EQ(client_call(ch, r).result, 5000);
	CHECK(!memcmp(pa + 777, pb + 1, 5000));
	CHECK_EQ(pb[0], 0xee);
	CHECK_EQ(pb[5001], 0xee);
	r.opcode = OP_SUM;
	r.nr_slices = 6;
	for (i = 0; i < 6; i++) {
		uint64_t k, off = i * 100, len = i + 1;

		r.slice[i] = (struct rlx_request_slice){ ha, RLX_ACCESS_READ,
							 off, len };
		for (k = 0; k < len; k++)
			want += pa[off + k];
	}
	CHECK_EQ(client_call(ch, r).aux, want);
	rlx_stats_read(&after);
	CHECK_EQ(after.bytes_copied, before.bytes_copied);
	/* The last byte, and one more. */
	r.nr_slices = 1;
	r.slice[0] = (struct rlx_request_slice){ ha, RLX_ACCESS_READ,
						 (1 << 20) - 1, 1 };
	CHECK_EQ(client_call(ch, r).aux, pa[(1 << 20) - 1]);
	r.slice[0].length = 2;
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), RLX_ERANGE);
	rlx_channel_close(ch);
	server_drained(&s);
	server_stop(&s);
	rlx_arena_put(a);
	rlx_arena_put(b);
}

static void refuse(struct rlx_channel *ch, struct rlx_request r, int want)
{
	struct rlx_channel_info info;

	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), want);
	rlx_channel_info(ch, &info);
	CHECK_EQ(info.in_flight, 0);
}

TEST(bad_requests_are_refused_before_they_are_sent)
{
	struct rlx_arena *a = client_arena(4096);
	struct rlx_request ok = { .opcode = OP_SUM, .nr_slices = 1 }, r;
	struct rlx_channel *ch;
	struct server s;
	uint32_t h, gone;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	gone = client_attach(ch, a, RW);
	CHECK_EQ(rlx_channel_detach(ch, gone, NULL), RLX_OK);
	h = client_attach(ch, a, RLX_ACCESS_READ);
	CHECK(h != gone);
	ok.slice[0] = (struct rlx_request_slice){ h, RLX_ACCESS_READ, 0, 4096 };
	CHECK_EQ(client_call(ch, ok).result, 0);
#define BAD(field, value, want)			\
	do {					\
		r = ok;				\
		r.field = value;		\
		refuse(ch, r, want);		\
	} while (0)
	BAD(opcode, 1u << 31, RLX_EINVAL);
	BAD(flags, 2, RLX_EINVAL);
	BAD(flags, 1 << 15, RLX_EINVAL);
	BAD(flags, RLX_REQUEST_INDIRECT, RLX_ENOSUP);
	BAD(nr_slices, 7, RLX_EINVAL);
	BAD(nr_slices, UINT32_MAX, RLX_EINVAL);
	BAD(inline_len, 65, RLX_EINVAL);
	BAD(inline_len, UINT32_MAX, RLX_EINVAL);
	BAD(reserved[0], 1, RLX_EINVAL);
	BAD(reserved[1], 1ull << 63, RLX_EINVAL);
	BAD(slice[0].arena, 0, RLX_ENOENT);
	BAD(slice[0].arena, gone, RLX_ENOENT);
	BAD(slice[0].arena, UINT32_MAX, RLX_ENOENT);
	BAD(slice[0].access, 0, RLX_EINVAL);
	BAD(slice[0].access, 4 | RLX_ACCESS_READ, RLX_EINVAL);
	BAD(slice[0].access, RLX_ACCESS_WRITE, RLX_EACCES);
	BAD(slice[0].offset, 1, RLX_ERANGE);
	BAD(slice[0].offset, UINT64_MAX, RLX_ERANGE);
	BAD(slice[0].offset, UINT64_MAX - 4094, RLX_ERANGE);
	BAD(slice[0].length, 0, RLX_EINVAL);
	BAD(slice[0].length, 4097, RLX_ERANGE);
	BAD(slice[0].length, UINT64_MAX, RLX_ERANGE);
#undef BAD
	r = ok;
	r.flags = RLX_REQUEST_USER;	/* carried */
	CHECK_EQ(client_call(ch, r).result, 0);
	rlx_channel_close(ch);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(indirect_slices)
{
	struct rlx_arena *a = client_arena(1 << 16);
	struct rlx_request_slice *list = rlx_arena_base(a);
	struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 64,
				 .flags = RLX_REQUEST_INDIRECT };
	struct rlx_channel *ch;
	struct server s;
	uint32_t h, i;

	server_start(&s, (struct rlx_service_opts){ .slices_max = 64 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	h = client_attach(ch, a, RW);
	memset((char *)list + 4096, 1, 64);
	for (i = 0; i < 64; i++)
		list[i] = (struct rlx_request_slice){ h, RW, 4096 + i, 1 };
	r.slice[0] = (struct rlx_request_slice){ h, RLX_ACCESS_READ, 0,
						 64 * sizeof(*list) };
	CHECK_EQ(client_call(ch, r).aux, 64);
	r.slice[0].length--;
	refuse(ch, r, RLX_ERANGE);
	r.slice[0].length++;
	r.nr_slices = 65;
	refuse(ch, r, RLX_EINVAL);
	r.nr_slices = 0;
	refuse(ch, r, RLX_EINVAL);
	r.nr_slices = 64;
	r.slice[0].access = RLX_ACCESS_WRITE;
	refuse(ch, r, RLX_EACCES);
	r.slice[0].access = RLX_ACCESS_READ;
	list[63].offset = 1 << 16;
	refuse(ch, r, RLX_ERANGE);
	list[63] = (struct rlx_request_slice){ h + 512, RW, 0, 1 };
	refuse(ch, r, RLX_ENOENT);
	rlx_channel_close(ch);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(batches_and_wraparound)
{
	enum { DEPTH = 16, MAX = 3000 };
	const unsigned int ROUNDS = kmod() ? 200 : MAX;
	struct rlx_request r[DEPTH + 1] = { { 0 } };
	struct rlx_reply reply[DEPTH];
	uint64_t sent = 0, got = 0, seed = rlx_test_seed();
	uint64_t seen[MAX * (DEPTH + 1) / 64 + 1] = { 0 };
	struct rlx_channel *ch;
	struct server s;

	server_start(&s, (struct rlx_service_opts){ 0 }, 2);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = DEPTH });
	while (sent < ROUNDS * DEPTH) {
		unsigned int n = (unsigned int)(rlx_test_rand(&seed) % (DEPTH + 1)) + 1;
		unsigned int i;
		int rc;

		for (i = 0; i < n; i++)
			r[i].user_data = sent + i;
		rc = rlx_channel_submit(ch, r, n, NULL);
		CHECKF(rc > 0 || rc == RLX_EAGAIN, "submit: %d", rc);
		CHECK(sent - got < DEPTH ? rc > 0 : rc == RLX_EAGAIN);
		if (rc > 0) {
			uint64_t room = DEPTH - (sent - got);

			CHECK_EQ(rc, n < room ? n : room);
			sent += (uint64_t)rc;
		}
		rc = rlx_channel_wait(ch, reply, 1, (unsigned int)
				      (rlx_test_rand(&seed) % DEPTH) + 1,
				      SOON);
		CHECKF(rc > 0, "wait: %d", rc);
		for (i = 0; i < (unsigned int)rc; i++) {
			uint64_t u = reply[i].user_data;

			CHECKF(u < sent && reply[i].aux == u, "%llu of %llu: "
			       "%d, aux %llu; %s", (unsigned long long)u,
			       (unsigned long long)sent, reply[i].result,
			       (unsigned long long)reply[i].aux,
			       rlx_channel_error(ch)->text);
			CHECK(!(seen[u / 64] >> u % 64 & 1));
			seen[u / 64] |= 1ull << u % 64;
		}
		got += (uint64_t)rc;
	}
	while (got < sent) {
		int rc = rlx_channel_wait(ch, reply, 1, DEPTH, SOON);

		CHECK(rc > 0);
		got += (uint64_t)rc;
	}
	CHECK_EQ(rlx_channel_reap(ch, reply, DEPTH), 0);
	CHECK_EQ(rlx_channel_wait(ch, reply, 1, 1, in_ms(10)), RLX_EINVAL);
	rlx_channel_close(ch);
	server_stop(&s);
}

/* Held requests: full, replies out of order, in batches. */
TEST(back_pressure)
{
	struct rlx_request r[9] = { { 0 } };
	struct rlx_channel *ch;
	struct rlx_reply reply[9];
	struct server s;
	uint64_t ids[9];
	int i;

	for (i = 0; i < 9; i++)
		r[i] = (struct rlx_request){ .opcode = OP_HOLD,
					     .user_data = 100u + (unsigned int)i };
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = 8 });
	CHECK_EQ(rlx_channel_submit(ch, r, 9, ids), 8);
	CHECK_EQ(rlx_channel_submit(ch, r, 1, NULL), RLX_EAGAIN);
	while (server_held(&s) < 8)
		usleep(100);
	CHECK_EQ(rlx_channel_wait(ch, reply, 1, 9, in_ms(20)), 0);
	CHECK_EQ(rlx_channel_submit(ch, r, 1, NULL), RLX_EAGAIN);
	server_release(&s);
	CHECK_EQ(rlx_channel_wait(ch, reply, 8, 9, SOON), 8);
	for (i = 0; i < 8; i++) {
		CHECK_EQ(reply[i].user_data, 100 + i);
		CHECK_EQ(reply[i].result, i + 1);
		CHECK_EQ(reply[i].id, ids[i]);
	}
	CHECK_EQ(rlx_channel_submit(ch, r, 1, NULL), 1);
	while (!server_held(&s))
		usleep(100);
	server_release(&s);
	CHECK_EQ(rlx_channel_wait(ch, reply, 1, 1, SOON), 1);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(depth_is_granted_down)
{
	struct rlx_request r[64] = { { 0 } };
	struct rlx_channel_info info;
	struct rlx_channel *ch;
	struct server s;

	server_start(&s, (struct rlx_service_opts){ .depth_max = 4 }, 0);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = 64 });
	rlx_channel_info(ch, &info);
	CHECK_EQ(info.depth, 4);
	CHECK_EQ(rlx_channel_submit(ch, r, 64, NULL), 4);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(cancel)
{
	struct rlx_request r = { .opcode = OP_HOLD };
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;
	uint64_t a, b;

	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = 2 });
	/* Nobody fetches: taken back at once, over and over. */
	CHECK_EQ(rlx_channel_cancel(ch, 0), RLX_ESTALE);
	r.user_data = 5;
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, &a), 1);
	CHECK_EQ(rlx_channel_cancel(ch, a), RLX_OK);
	look(&s);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, -ECANCELED);
	CHECK_EQ(reply.user_data, 5);
	CHECK_EQ(reply.id, a);
	CHECK_EQ(rlx_channel_cancel(ch, a), RLX_ESTALE);
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, &b), 1);
	CHECK(b != a);
	CHECK_EQ(rlx_channel_cancel(ch, a), RLX_ESTALE);
	CHECK_EQ(rlx_channel_cancel(ch, b ^ 1), RLX_ESTALE);
	CHECK_EQ(rlx_channel_cancel(ch, b | 0xffffffff), RLX_ESTALE);
	CHECK_EQ(rlx_channel_cancel(ch, b), RLX_OK);
	look(&s);
	CHECK_EQ(rlx_channel_reap(ch, &reply, 1), 1);
	CHECK_EQ(reply.result, -ECANCELED);
	rlx_channel_close(ch);
	server_stop(&s);
}

/* Taken back and asked again, while an executor takes what it can get. */
TEST(cancel_races_with_fetch)
{
	struct rlx_channel *ch;
	struct server s;
	unsigned int i, cancelled = 0, done = 0;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = 8 });
	for (i = 0; i < (kmod() ? 1000 : 20000); i++) {
		struct rlx_request r = { .opcode = OP_NOP, .user_data = i };
		struct rlx_reply reply;
		uint64_t id;

		CHECK_EQ(rlx_channel_submit(ch, &r, 1, &id), 1);
		if (i % 3)
			CHECK_EQ(rlx_channel_cancel(ch, id), RLX_OK);
		CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
		CHECK_EQ(reply.id, id);
		CHECK_EQ(reply.user_data, i);
		if (reply.result == -ECANCELED) {
			CHECK(i % 3);
			cancelled++;
		} else {
			CHECK_EQ(reply.result, 0);
			CHECK_EQ(reply.aux, i);
			done++;
		}
	}
	printf("# %u cancelled, %u done\n", cancelled, done);
	CHECK(done && cancelled + done == i);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(cancel_of_what_runs_is_told_to_the_executor)
{
	struct rlx_request r = { .opcode = OP_WANTED };
	struct rlx_service_stats st;
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;
	uint64_t id;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, &id), 1);
	do
		rlx_service_stats(s.svc, &st);
	while (!st.fetched);
	CHECK_EQ(rlx_channel_cancel(ch, id), RLX_OK);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, 1);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(deadlines)
{
	struct rlx_request r = { .opcode = OP_NOP };
	uint64_t hold = rlx_deadline_in(0);
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;

	CHECK_EQ(rlx_deadline_in(UINT64_MAX), RLX_NO_DEADLINE);
	CHECK(hold && hold != RLX_NO_DEADLINE);
	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	ch = client_open(s.address, (struct rlx_channel_opts){ .depth = 2 });
	/* Nobody fetches: it ends by itself, in time, more than once. */
	do {
		uint64_t due = in_ms(20);

		r.deadline_ns = due;
		CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
		if (kmod()) {
			usleep(21000);
			look(&s);
		}
		CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
		CHECK_EQ(reply.result, -ETIME);
		CHECK(rlx_deadline_in(0) >= due);
	} while (rlx_deadline_in(0) < hold + 100000000ull);
	/* Long past, and nobody reaps before the executor looks. */
	r.deadline_ns = 1;
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	look(&s);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, -ETIME);
	r.deadline_ns = in_ms(60000);
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, in_ms(20)), 0);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(a_deadline_that_is_met_and_one_the_executor_sees)
{
	struct rlx_request r = { .opcode = OP_NOP };
	struct rlx_service_stats st;
	struct rlx_work *w[4];
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;

	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	r.deadline_ns = in_ms(60000);
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	r.deadline_ns = in_ms(1);
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	usleep(3000);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 1, 4, SOON), 1);
	CHECK_EQ(w[0]->deadline_ns > r.deadline_ns, 1);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w + 1, 0, 3, 0), 0);
	CHECK_EQ(rlx_service_commit(s.svc, w, 1), RLX_OK);
	CHECK_EQ(rlx_service_commit(s.svc, w, 1), RLX_ESTALE);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, -ETIME);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, 0);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.under_way, 0);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(attach_and_detach)
{
	struct rlx_arena *a = client_arena(8192), *wrap, *ro;
	struct rlx_arena_user user = { .base = a, .size = 64 };
	struct rlx_request r = { .opcode = OP_HOLD, .nr_slices = 1 };
	struct rlx_error err = { 0 };
	struct rlx_service_stats st;
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;
	uint32_t h[16], i;
	int fd;

	server_start(&s, (struct rlx_service_opts){ .arenas_max = 4 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	for (i = 0; i < 4; i++)
		h[i] = client_attach(ch, a, RW);
	CHECK_EQ(rlx_channel_attach(ch, a, RW, &h[4], NULL), RLX_ERANGE);
	CHECK_EQ(rlx_channel_detach(ch, 0, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_channel_detach(ch, h[3] + 512, NULL), RLX_ENOENT);
	r.slice[0] = (struct rlx_request_slice){ h[2], RW, 0, 1 };
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	CHECK_EQ(rlx_channel_detach(ch, h[2], NULL), RLX_EBUSY);
	CHECK_EQ(rlx_channel_detach(ch, h[1], NULL), RLX_OK);
	CHECK_EQ(rlx_channel_detach(ch, h[1], NULL), RLX_ENOENT);
	while (!server_held(&s))
		usleep(100);
	server_release(&s);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(rlx_channel_detach(ch, h[2], NULL), RLX_OK);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.arenas, 2);
	CHECK_EQ(st.arena_bytes, 2 * 8192);
	/* What cannot be attached. */
	CHECK_EQ(rlx_channel_attach(ch, a, 0, &h[4], NULL), RLX_EINVAL);
	CHECK_EQ(rlx_channel_attach(ch, a, 8, &h[4], NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_wrap(&user, &wrap, NULL), RLX_OK);
	CHECK_EQ(rlx_channel_attach(ch, wrap, RW, &h[4], &err), RLX_ENOSUP);
	CHECK(strstr(err.text, "rlx_arena_new"));
	rlx_arena_put(wrap);
	CHECK_EQ(rlx_arena_dup_readonly(a, &fd, NULL), RLX_OK);
	CHECK_EQ(rlx_arena_open_fd(fd, 0, &ro, NULL), RLX_OK);
	close(fd);
	CHECK_EQ(rlx_channel_attach(ch, ro, RW, &h[4], NULL), RLX_EACCES);
	h[4] = client_attach(ch, ro, RLX_ACCESS_READ);
	CHECK_EQ(rlx_channel_detach(ch, h[4], NULL), RLX_OK);
	rlx_arena_put(ro);
	rlx_channel_close(ch);
	server_drained(&s);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(a_cap_on_what_a_client_attaches)
{
	struct rlx_arena *a = client_arena(1 << 20);
	struct rlx_error err = { 0 };
	struct rlx_channel *ch;
	struct server s;
	uint32_t h, h2;

	server_start(&s, (struct rlx_service_opts){
		     .client_bytes = (2 << 20) - 1 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	h = client_attach(ch, a, RW);
	CHECK_EQ(rlx_channel_attach(ch, a, RW, &h2, &err), RLX_ERANGE);
	CHECKF(strstr(err.text, "2097151"), "%s", err.text);
	CHECK_EQ(rlx_channel_detach(ch, h, NULL), RLX_OK);
	h = client_attach(ch, a, RW);
	rlx_channel_close(ch);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(slice_of_a_buffer)
{
	struct rlx_arena *a = client_arena(8192), *other = client_arena(4096);
	struct rlx_request_slice sl;
	struct rlx_channel *ch;
	struct server s;
	uint32_t h;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	h = client_attach(ch, a, RLX_ACCESS_READ);
	CHECK_EQ(rlx_channel_slice(ch, (struct rlx_buf){ a, 64, 128 },
				   RLX_ACCESS_READ, &sl), RLX_OK);
	CHECK(sl.arena == h && sl.offset == 64 && sl.length == 128);
	CHECK_EQ(rlx_channel_slice(ch, (struct rlx_buf){ a, 64, 128 }, RW, &sl),
		 RLX_EACCES);
	CHECK_EQ(rlx_channel_slice(ch, (struct rlx_buf){ a, 64, 0 },
				   RLX_ACCESS_READ, &sl), RLX_ERANGE);
	CHECK_EQ(rlx_channel_slice(ch, (struct rlx_buf){ a, 8192, 1 },
				   RLX_ACCESS_READ, &sl), RLX_ERANGE);
	CHECK_EQ(rlx_channel_slice(ch, rlx_buf_whole(other), RLX_ACCESS_READ,
				   &sl), RLX_ENOENT);
	rlx_channel_close(ch);
	server_stop(&s);
	rlx_arena_put(a);
	rlx_arena_put(other);
}

/* The caller's own poll loop, both ends; nothing spins. */
static void *fd_executor(void *arg)
{
	struct server *s = arg;
	struct pollfd p = { rlx_service_fd(s->svc, 0), POLLIN, 0 };
	struct rlx_work *w[4];
	int n = 0, i;

	while (n != RLX_EPIPE) {
		int there = rlx_service_arm(s->svc, 0);

		CHECK(there == 0 || there == 1);
		if (!there)
			CHECK(poll(&p, 1, 5000) == 1);
		n = rlx_service_fetch(s->svc, 0, w, 0, 4, 0);
		for (i = 0; i < n; i++)
			w[i]->aux = w[i]->user_data;
		if (n > 0)
			CHECK_EQ(rlx_service_commit(s->svc, w,
						    (unsigned int)n), RLX_OK);
	}
	return NULL;
}

TEST(descriptors_for_the_callers_own_loop)
{
	struct rlx_service_stats st;
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;
	struct pollfd p;
	pthread_t t;
	int i, n;

	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	CHECK(!pthread_create(&t, NULL, fd_executor, &s));
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	p = (struct pollfd){ rlx_channel_fd(ch), POLLIN, 0 };
	CHECK(p.fd >= 0 && rlx_channel_fd(ch) == p.fd);
	CHECK_EQ(rlx_channel_arm(ch), 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
	for (i = 0; i < 300; i++) {
		struct rlx_request r = { .user_data = (uint64_t)i };

		CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
		while (!(n = rlx_channel_reap(ch, &reply, 1)))
			if (!rlx_channel_arm(ch))
				CHECK_EQ(poll(&p, 1, 5000), 1);
		CHECK_EQ(n, 1);
		CHECK_EQ(reply.aux, i);
	}
	/* Idle: neither descriptor stays readable. The last ring may come late. */
	for (i = 0; i < 50; i++) {
		usleep(20000);
		CHECK_EQ(rlx_channel_arm(ch), 0);
		if (!poll(&p, 1, 0))
			break;
	}
	CHECK(i < 50);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.committed, 300);
	rlx_service_stop(s.svc);
	pthread_join(t, NULL);
	rlx_service_free(s.svc);
	CHECK_EQ(poll(&p, 1, 5000), 1);
	CHECK_EQ(rlx_channel_arm(ch), RLX_EPIPE);
	/* The module tells of the end from a work item, a little later. */
	CHECK_EQ(poll(&p, 1, 5000), 1);
	CHECK_EQ(rlx_channel_reap(ch, &reply, 1), RLX_EPIPE);
	rlx_channel_close(ch);
}

TEST(a_wait_in_the_callers_io_uring)
{
	struct rlx_request r = { .user_data = 9 };
	struct __kernel_timespec ts = { .tv_sec = 5 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	struct rlx_channel *ch;
	struct rlx_reply reply;
	struct server s;

	if (io_uring_queue_init(8, &ring, 0))
		rlx_test_skip("no io_uring here");
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	while (!rlx_channel_reap(ch, &reply, 1)) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		CHECK_EQ(rlx_channel_prep_wait(ch, sqe), RLX_OK);
		io_uring_sqe_set_data64(sqe, 1234);
		if (rlx_channel_arm(ch)) {
			io_uring_prep_nop(sqe);
			io_uring_submit(&ring);
			CHECK(!io_uring_wait_cqe_timeout(&ring, &cqe, &ts));
			io_uring_cqe_seen(&ring, cqe);
			continue;
		}
		CHECK_EQ(io_uring_submit(&ring), 1);
		CHECK(!io_uring_wait_cqe_timeout(&ring, &cqe, &ts));
		CHECK_EQ(cqe->user_data, 1234);
		CHECK(cqe->res & POLLIN);
		io_uring_cqe_seen(&ring, cqe);
	}
	CHECK_EQ(reply.user_data, 9);
	if (!strcmp(serve_transport(), "shm")) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		CHECK_EQ(rlx_channel_prep_request(ch, sqe, &r), RLX_ENOSUP);
	}
	io_uring_queue_exit(&ring);
	rlx_channel_close(ch);
	server_stop(&s);
}

static struct io_uring_sqe *prep(struct rlx_channel *ch, struct io_uring *ring,
				 const struct rlx_request *r, uint64_t data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	CHECK_EQ(rlx_channel_prep_request(ch, sqe, r), RLX_OK);
	io_uring_sqe_set_data64(sqe, data);
	return sqe;
}

static int32_t cqe_of(struct io_uring *ring, uint64_t data)
{
	struct __kernel_timespec ts = { .tv_sec = 20 };
	struct io_uring_cqe *cqe;
	int32_t res;

	CHECK(!io_uring_wait_cqe_timeout(ring, &cqe, &ts));
	CHECK_EQ(cqe->user_data, data);
	res = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return res;
}

/* Its completion is the reply; it can stand in a chain with anything else. */
TEST(a_request_in_the_callers_io_uring)
{
	struct rlx_request add = { .opcode = OP_ADD, .inline_len = 2,
				   .inline_data = { 20, 22 } };
	struct rlx_request hold = { .opcode = OP_HOLD }, bad = { .nr_slices = 7 };
	struct io_uring_sqe *sqe;
	struct rlx_channel *ch;
	struct io_uring ring;
	struct server s;
	char buf[16] = { 0 };
	int p[2];

	if (!kmod())
		rlx_test_skip("the kernel has no part in requests of this transport");
	CHECK(!io_uring_queue_init(8, &ring, 0));
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	sqe = io_uring_get_sqe(&ring);
	if (rlx_channel_prep_request(ch, sqe, &add) == RLX_ENOSUP)
		rlx_test_skip("this kernel cannot cancel parked commands");
	io_uring_sqe_set_data64(sqe, 1);
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK_EQ(cqe_of(&ring, 1), 42);
	CHECK_EQ(rlx_channel_prep_request(ch, sqe, &bad), RLX_EINVAL);
	/* Read, then ask, then write: one submission. */
	CHECK(!pipe(p));
	CHECK_EQ(write(p[1], "in", 2), 2);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, p[0], buf, 2, 0);
	io_uring_sqe_set_data64(sqe, 2);
	sqe->flags |= IOSQE_IO_LINK;
	prep(ch, &ring, &add, 3)->flags |= IOSQE_IO_LINK;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_write(sqe, p[1], "out", 3, 0);
	io_uring_sqe_set_data64(sqe, 4);
	CHECK_EQ(io_uring_submit(&ring), 3);
	CHECK_EQ(cqe_of(&ring, 2), 2);
	CHECK_EQ(cqe_of(&ring, 3), 42);
	CHECK_EQ(cqe_of(&ring, 4), 3);
	CHECK_EQ(read(p[0], buf, sizeof(buf)), 3);
	/* Beside requests of the channel's own; parked until it is answered. */
	prep(ch, &ring, &hold, 5);
	CHECK_EQ(io_uring_submit(&ring), 1);
	CHECK_EQ(client_call(ch, add).result, 42);
	while (!server_held(&s))
		usleep(1000);
	server_release(&s);
	CHECK_EQ(cqe_of(&ring, 5), 1);
	/* The ring goes away with one parked. */
	prep(ch, &ring, &hold, 6);
	CHECK_EQ(io_uring_submit(&ring), 1);
	while (!server_held(&s))
		usleep(1000);
	io_uring_queue_exit(&ring);
	server_release(&s);
	CHECK_EQ(client_call(ch, add).result, 42);
	rlx_channel_close(ch);
	server_drained(&s);
	server_stop(&s);
}

/*
 * From the network into the arena, through the executor, and back out of it: one
 * system call, and no copy but the network's own.
 */
TEST(receive_ask_and_send_in_one_submission)
{
	enum { BYTES = 3000 };
	struct rlx_request copy = { .opcode = OP_COPY, .nr_slices = 2 };
	struct io_uring_sqe *sqe;
	struct rlx_channel *ch;
	struct rlx_arena *a = client_arena(2 * 4096);
	uint8_t out[BYTES], back[BYTES], *base = rlx_arena_base(a);
	struct io_uring ring;
	struct server s;
	int i, round, sock[2];
	uint32_t h;

	if (!kmod())
		rlx_test_skip("the kernel has no part in requests of this transport");
	CHECK(!io_uring_queue_init(8, &ring, 0));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	h = client_attach(ch, a, RW);
	copy.slice[0] = (struct rlx_request_slice){ h, RLX_ACCESS_READ, 0, BYTES };
	copy.slice[1] = (struct rlx_request_slice){ h, RLX_ACCESS_WRITE, 4096, BYTES };
	for (round = 0; round < 20; round++) {
		for (i = 0; i < BYTES; i++)
			out[i] = (uint8_t)(i * 7 + round);
		sqe = io_uring_get_sqe(&ring);
		/* A short transfer would break the chain. */
		io_uring_prep_recv(sqe, sock[0], base, BYTES, MSG_WAITALL);
		io_uring_sqe_set_data64(sqe, 1);
		sqe->flags |= IOSQE_IO_LINK;
		sqe = io_uring_get_sqe(&ring);
		if (rlx_channel_prep_request(ch, sqe, &copy) == RLX_ENOSUP)
			rlx_test_skip("this kernel cannot cancel parked commands");
		io_uring_sqe_set_data64(sqe, 2);
		sqe->flags |= IOSQE_IO_LINK;
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_send(sqe, sock[0], base + 4096, BYTES, MSG_WAITALL);
		io_uring_sqe_set_data64(sqe, 3);
		CHECK_EQ(io_uring_submit(&ring), 3);
		/* It comes only now: nobody but the kernel goes on with it. */
		CHECK_EQ(send(sock[1], out, BYTES, 0), BYTES);
		CHECK_EQ(recv(sock[1], back, BYTES, MSG_WAITALL), BYTES);
		CHECK(!memcmp(out, back, BYTES));
		CHECK_EQ(cqe_of(&ring, 1), BYTES);
		CHECK_EQ(cqe_of(&ring, 2), BYTES);
		CHECK_EQ(cqe_of(&ring, 3), BYTES);
	}
	/* The peer goes: what hangs on its bytes is not asked. */
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_recv(sqe, sock[0], base, BYTES, MSG_WAITALL);
	io_uring_sqe_set_data64(sqe, 1);
	sqe->flags |= IOSQE_IO_LINK;
	prep(ch, &ring, &copy, 2);
	CHECK_EQ(io_uring_submit(&ring), 2);
	close(sock[1]);
	CHECK_EQ(cqe_of(&ring, 1), 0);
	CHECK_EQ(cqe_of(&ring, 2), -ECANCELED);
	close(sock[0]);
	io_uring_queue_exit(&ring);
	rlx_channel_close(ch);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(several_queues_and_turns)
{
	struct rlx_channel_info info;
	struct rlx_channel *ch[3];
	struct rlx_work *w[16];
	struct server s;
	struct rlx_request r[16] = { { 0 } };
	int i, n, a = 0;

	server_start(&s, (struct rlx_service_opts){ .queues = 2, .quantum = 2 }, 0);
	ch[0] = client_open(s.address, (struct rlx_channel_opts){ .queue = 2 });
	ch[1] = client_open(s.address, (struct rlx_channel_opts){ .queue = 2 });
	ch[2] = client_open(s.address, (struct rlx_channel_opts){ 0 });
	rlx_channel_info(ch[0], &info);
	CHECK_EQ(info.queue, 1);
	rlx_channel_info(ch[2], &info);
	CHECK_EQ(info.queue, 0);	/* the one with fewer clients */
	CHECK_EQ(rlx_channel_submit(ch[0], r, 16, NULL), 16);
	CHECK_EQ(rlx_channel_submit(ch[1], r, 4, NULL), 4);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 0, 16, 0), 0);
	CHECK_EQ(rlx_service_fetch(s.svc, 2, w, 0, 16, 0), RLX_EINVAL);
	/* The flood of one does not keep the other out: two each in turn. */
	n = rlx_service_fetch(s.svc, 1, w, 8, 8, SOON);
	CHECK_EQ(n, 8);
	for (i = 0; i < 8; i++)
		a += w[i]->peer->id == w[0]->peer->id;
	CHECK_EQ(a, 4);
	CHECK_EQ(rlx_service_commit(s.svc, w, 8), RLX_OK);
	n = rlx_service_fetch(s.svc, 1, w, 1, 16, SOON);
	CHECK_EQ(n, 12);
	CHECK_EQ(rlx_service_commit(s.svc, w, 12), RLX_OK);
	for (i = 0; i < 3; i++)
		rlx_channel_close(ch[i]);
	server_stop(&s);
}

TEST(fetch_waits_for_a_batch)
{
	struct rlx_request r[8] = { { 0 } };
	struct rlx_work *w[8];
	struct rlx_channel *ch;
	struct server s;
	uint64_t due;

	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	due = in_ms(30);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 1, 8, due), 0);
	CHECK(rlx_deadline_in(0) >= due);
	CHECK_EQ(rlx_channel_submit(ch, r, 3, NULL), 3);
	due = in_ms(30);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 8, 8, due), 3);
	CHECK(rlx_deadline_in(0) >= due);
	CHECK_EQ(rlx_service_commit(s.svc, w, 3), RLX_OK);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 2, 1, 0), RLX_EINVAL);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 0, 0, 0), RLX_EINVAL);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, NULL, 0, 1, 0), RLX_EINVAL);
	rlx_channel_close(ch);
	server_stop(&s);
}

TEST(events)
{
	struct rlx_arena *a = client_arena(4096);
	struct rlx_channel *ch;
	struct server s;
	uint32_t h;
	int i;

	server_start(&s, (struct rlx_service_opts){
		     .flags = RLX_SERVICE_EVENTS }, 3);
	for (i = 0; i < 20; i++) {
		struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 1 };

		ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
		h = client_attach(ch, a, RW);
		r.slice[0] = (struct rlx_request_slice){ h, RW, 0, 1 };
		CHECK_EQ(client_call(ch, r).result, 0);
		if (i % 2)
			CHECK_EQ(rlx_channel_detach(ch, h, NULL), RLX_OK);
		rlx_channel_close(ch);
	}
	server_drained(&s);
	CHECK_EQ(s.order_errors, 0);
	CHECK_EQ(s.events[RLX_WORK_OPEN], 20);
	CHECK_EQ(s.events[RLX_WORK_ATTACH], 20);
	CHECK_EQ(s.events[RLX_WORK_GONE], 20);
	CHECK(s.events[RLX_WORK_DETACH] >= 10);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(cut_with_a_reason)
{
	struct rlx_request r = { .opcode = OP_HOLD };
	struct rlx_service_stats st;
	struct rlx_channel *ch, *other;
	struct rlx_reply reply;
	uint64_t until = SOON;
	struct server s;
	int n;

	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	ch = client_open(s.address, (struct rlx_channel_opts){ 0 });
	other = client_open(s.address, (struct rlx_channel_opts){ 0 });
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	while (!server_held(&s))
		usleep(100);
	CHECK_EQ(rlx_service_cut(s.svc, s.held[0]->peer->id, "too greedy"),
		 RLX_OK);
	CHECK_EQ(rlx_service_cut(s.svc, 999, "nobody"), RLX_ENOENT);
	CHECK(rlx_work_cancelled(s.held[0]));
	server_release(&s);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	/* The kernel's channel ends in order; a ring of ours breaks off. */
	CHECK_EQ(reply.result, strcmp(serve_transport(), "kmod") ?
		 -EOWNERDEAD : 1);
	do	/* the word that it is over comes by another way there */
		n = rlx_channel_wait(ch, &reply, 1, 1, SOON);
	while (n == RLX_EINVAL && kmod() && rlx_deadline_in(0) < until);
	CHECKF(n == RLX_EPROTO, "%d", n);
	CHECKF(strstr(rlx_channel_error(ch)->text, "too greedy"), "%s",
	       rlx_channel_error(ch)->text);
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), RLX_EPROTO);
	r.opcode = OP_NOP;
	CHECK_EQ(client_call(other, r).result, 0);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.cut, 1);
	CHECK_EQ(st.orphaned, 1);
	rlx_channel_close(ch);
	rlx_channel_close(other);
	server_drained(&s);
	server_stop(&s);
}

TEST(stop_lets_what_is_there_be_served)
{
	struct rlx_request r[4] = { { 0 } };
	struct rlx_channel_opts o = { .size = sizeof(o), .depth = 4 };
	struct rlx_channel *ch, *late;
	struct rlx_reply reply[4];
	struct rlx_work *w[4];
	struct server s;
	int i, fd;

	server_start(&s, (struct rlx_service_opts){ 0 }, 0);
	ch = client_open(s.address, o);
	CHECK_EQ(rlx_channel_submit(ch, r, 3, NULL), 3);
	rlx_service_stop(s.svc);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w, 1, 4, RLX_NO_DEADLINE), 3);
	CHECK_EQ(rlx_service_fetch(s.svc, 0, w + 3, 1, 1, RLX_NO_DEADLINE),
		 RLX_EPIPE);
	CHECK_EQ(rlx_service_arm(s.svc, 0), 1);
	CHECK_EQ(rlx_service_commit(s.svc, w, 3), RLX_OK);
	CHECK_EQ(rlx_channel_wait(ch, reply, 3, 4, SOON), 3);
	/* Its thread leaves the address in its own time. */
	for (i = 0; !rlx_sock_connect(s.address, &fd, NULL) && i < 5000; i++) {
		close(fd);
		usleep(1000);
	}
	o.address = s.address;
	CHECK_EQ(rlx_channel_open(&o, &late, NULL), RLX_ENOTCONN);
	CHECK(!late);
	CHECK_EQ(rlx_channel_submit(ch, r, 4, NULL), 4);
	rlx_service_free(s.svc);
	CHECK_EQ(rlx_channel_wait(ch, reply, 4, 4, SOON), 4);
	CHECK_EQ(reply[3].result, -EOWNERDEAD);
	if (!strcmp(serve_transport(), "shm"))
		CHECK_EQ(reply[3].flags, RLX_REPLY_UNDELIVERED);
	CHECK_EQ(rlx_channel_submit(ch, r, 1, NULL), RLX_EPIPE);
	rlx_channel_close(ch);
}

TEST_MAIN()
