// SPDX-License-Identifier: MIT
/* Channels by ioctl: what happens to requests between a client and an executor. */
/* rig: timeout=120 m32 also */
#include <errno.h>
#include <linux/rlx.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	8

/* A service with an executor and a channel, and what belongs to them. */
static struct k_scene scene_new(uint32_t flags)
{
	return k_scene_new(&(struct k_scene_opts){ .depth = DEPTH, .service = flags });
}

TEST(round_trip)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(17, 0x1122334455667788);
	struct rlx_cqe cqe = { 0 };
	struct rlx_rq_id id = { 0 };
	uint32_t tag = ~0u;

	rq.flags = 0xabcd0000;
	rq.inline_len = 3;
	memcpy(rq.inline_data, "abc", 4);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EAGAIN);
		CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), 1);
		CHECK(tag < DEPTH);
		CHECK_EQ(tag, id.tag);
		CHECK_EQ(s.desc[tag].seq, id.seq);
		CHECK_EQ(s.desc[tag].tag, tag);
		CHECK_EQ(s.desc[tag].channel, s.id);
		CHECK_EQ(s.desc[tag].opcode, 17);
		CHECK_EQ(s.desc[tag].flags, 0xabcd0000);
		CHECK_EQ(s.desc[tag].user_data, rq.user_data);
		CHECK_EQ(s.desc[tag].inline_len, 3);
		CHECK(!memcmp(s.desc[tag].inline_data, "abc", 4));
		CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EAGAIN);
		CHECK_EQ(k_commit1(s.ex, s.desc, id.tag, -5 + i, 99), 1);
		CHECK_EQ(k_commit1(s.ex, s.desc, id.tag, 0, 0), -ESTALE);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.user_data, rq.user_data);
		CHECK_EQ(cqe.seq, id.seq);
		CHECK_EQ(cqe.tag, id.tag);
		CHECK_EQ(cqe.result, -5 + i);
		CHECK_EQ(cqe.aux, 99);
	}
	CHECK_EQ(k_info(s.ch).submitted, 100);
	CHECK_EQ(k_info(s.ex).committed, 100);
	k_scene_free(&s);
}

/* Batches over the depth of the channel: order is kept, what is too much refused. */
TEST(batches)
{
	struct k_scene s = scene_new(0);
	struct rlx_complete c[DEPTH];
	struct rlx_rq_id id[2 * DEPTH];
	struct rlx_rq rq[2 * DEPTH];
	struct rlx_cqe cqe[DEPTH];
	uint32_t tag[2 * DEPTH];
	int32_t err[DEPTH];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 2 * DEPTH; i++)
			rq[i] = k_rq(i, 100 + i);
		CHECK_EQ(k_submit(s.ch, rq, 2 * DEPTH, id), DEPTH);
		CHECK_EQ(k_submit(s.ch, rq, 1, id + DEPTH), -EAGAIN);
		CHECK_EQ(k_fetch(s.ex, tag, 2 * DEPTH, 3, K_EVER), DEPTH);
		for (int i = 0; i < DEPTH; i++) {
			CHECK_EQ(s.desc[tag[i]].opcode, i);
			CHECK_EQ(tag[i], id[i].tag);
			c[i] = (struct rlx_complete){
				.seq = id[i].seq, .tag = tag[i], .result = i,
			};
		}
		/* One stale in the middle, told by itself. */
		c[2].seq += 1000;
		CHECK_EQ(k_commit(s.ex, c, DEPTH, err), DEPTH - 1);
		for (int i = 0; i < DEPTH; i++)
			CHECK_EQ(err[i], i == 2 ? -ESTALE : 0);
		c[2].seq -= 1000;
		CHECK_EQ(k_commit(s.ex, c, DEPTH, NULL), 1);
		CHECK_EQ(k_submit(s.ch, rq, 1, NULL), -EAGAIN);
		CHECK_EQ(k_reap(s.ch, cqe, DEPTH, DEPTH, K_EVER), DEPTH);
		for (int i = 0; i < DEPTH; i++)
			CHECK_EQ(cqe[i].user_data,
				 100 + (i < 2 ? i : i < DEPTH - 1 ? i + 1 : 2));
	}
	k_scene_free(&s);
}

/* Slices: each rule of rlx_ioc_submit, and that a lease keeps its arena attached. */
TEST(slices)
{
	struct k_scene s = scene_new(0);
	int arena = k_arena(s.session, 8192, 0);
	struct rlx_ioc_arena_dup dup = { .access = RLX_R };
	int ro = k_ioctl(arena, RLX_IOC_ARENA_DUP, &dup);
	long rw_h = k_attach(s.ch, arena, RLX_R | RLX_W);
	long r_h = k_attach(s.ch, ro, RLX_R);
	static const struct {
		int which;		/* 0 rw, 1 ro, 2 nonsense */
		uint32_t access;
		uint64_t offset, length;
		long want;
	} rows[] = {
		{ 0, RLX_R, 0, 8192, 1 },
		{ 0, RLX_R | RLX_W, 8191, 1, 1 },
		{ 1, RLX_R, 0, 8192, 1 },
		{ 1, RLX_W, 0, 1, -EACCES },
		{ 1, RLX_R | RLX_W, 0, 1, -EACCES },
		{ 0, 0, 0, 1, -EINVAL },
		{ 0, 4, 0, 1, -EINVAL },
		{ 0, RLX_R, 0, 0, -EINVAL },
		{ 0, RLX_R, 0, 8193, -EINVAL },
		{ 0, RLX_R, 8192, 1, -EINVAL },
		{ 0, RLX_R, 1, 8192, -EINVAL },
		{ 0, RLX_R, UINT64_MAX, 1, -EOVERFLOW },
		{ 0, RLX_R, 1, UINT64_MAX, -EOVERFLOW },
		{ 2, RLX_R, 0, 1, -ENOENT },
	};
	struct rlx_rq rq;
	struct rlx_cqe cqe;
	uint32_t tag;

	CHECK(rw_h > 0 && r_h > 0 && rw_h != r_h);
	CHECK_EQ(k_attach(s.ch, ro, RLX_R | RLX_W), -EACCES);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		rq = k_rq(1, i);
		rq.nr_slices = 1;
		rq.slice[0] = (struct rlx_slice){
			.arena = rows[i].which == 0 ? rw_h : rows[i].which == 1 ? r_h :
				 rw_h + 256,
			.access = rows[i].access,
			.offset = rows[i].offset, .length = rows[i].length,
		};
		long got = k_submit(s.ch, &rq, 1, NULL);

		CHECKF(got == rows[i].want, "row %u: %ld, not %ld", i, got, rows[i].want);
		if (got != 1)
			continue;
		CHECK_EQ(k_detach(s.ch, rq.slice[0].arena), -EBUSY);
		tag = k_fetch1(s.ex);
		CHECK_EQ(s.desc[tag].nr_slices, 1);
		CHECK_EQ(s.desc[tag].slice[0].arena, rq.slice[0].arena);
		CHECK_EQ(s.desc[tag].slice[0].length, rq.slice[0].length);
		CHECK_EQ(k_detach(s.ch, rq.slice[0].arena), -EBUSY);
		CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	}
	/* The middle one of three refused: the first goes, the last does not. */
	struct rlx_rq three[3] = { k_rq(1, 1), k_rq(1, 2), k_rq(1, 3) };

	three[1].nr_slices = 1;
	CHECK_EQ(k_submit(s.ch, three, 3, NULL), 1);
	CHECK_EQ(k_info(s.ch).ready, 1);
	tag = k_fetch1(s.ex);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
	CHECK_EQ(k_detach(s.ch, rw_h), 0);
	CHECK_EQ(k_detach(s.ch, rw_h), -ENOENT);
	rq.slice[0].arena = rw_h;
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -ENOENT);
	close(ro);
	close(arena);
	k_scene_free(&s);
}

/* More slices than fit: the kernel's copy is what the executor sees. */
TEST(indirect)
{
	struct k_scene s = scene_new(0);
	int arena = k_arena(s.session, 1 << 20, 0);
	long h = k_attach(s.ch, arena, RLX_R | RLX_W);
	struct rlx_slice *in = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
				    arena, 0);
	struct rlx_slice out[RLX_RQ_SLICES_MAX];
	struct rlx_rq rq = k_rq(1, 2);
	struct rlx_ioc_exec_slices es = {
		.slices = (uintptr_t)out, .max = RLX_RQ_SLICES_MAX,
	};
	struct rlx_cqe cqe;
	uint32_t tag;

	CHECK(in != MAP_FAILED);
	for (int i = 0; i < RLX_RQ_SLICES_MAX; i++)
		in[i] = (struct rlx_slice){ h, RLX_R, 4096 + i, 8 };
	rq.flags = RLX_RQ_INDIRECT;
	rq.nr_slices = RLX_RQ_SLICES_MAX;
	rq.slice[0] = (struct rlx_slice){ h, RLX_R, 0, 64 * sizeof(*in) };
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
	memset(in, 0xff, 4096);		/* too late */
	tag = k_fetch1(s.ex);
	es.tag = tag;
	es.seq = s.desc[tag].seq;
	CHECK_EQ(k_ioctl(s.ex, RLX_IOC_EXEC_SLICES, &es), RLX_RQ_SLICES_MAX);
	for (int i = 0; i < RLX_RQ_SLICES_MAX; i++)
		CHECK(out[i].arena == (uint32_t)h && out[i].offset == 4096u + i);
	es.seq++;
	CHECK_EQ(k_ioctl(s.ex, RLX_IOC_EXEC_SLICES, &es), -ESTALE);
	es.seq--;
	es.tag = DEPTH;
	CHECK_EQ(k_ioctl(s.ex, RLX_IOC_EXEC_SLICES, &es), -ESTALE);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	/* Nonsense in it, a range too short, too many. */
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EINVAL);
	memset(in, 0, 4096);
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EINVAL);
	for (int i = 0; i < RLX_RQ_SLICES_MAX; i++)
		in[i] = (struct rlx_slice){ h, RLX_R, 4096 + i, 8 };
	rq.slice[0].length--;
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EINVAL);
	rq.slice[0].length++;
	rq.slice[0].access = RLX_W;
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EACCES);
	rq.slice[0].access = RLX_R;
	rq.nr_slices++;
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EINVAL);
	rq.nr_slices--;
	in[63].offset = 1 << 20;
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EINVAL);
	munmap(in, 4096);
	close(arena);
	k_scene_free(&s);
}

TEST(cancel)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 5);
	struct rlx_rq_id id;
	struct rlx_cqe cqe;
	uint32_t tag;

	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_cancel(s.ch, id.tag, id.seq + 1), -ESTALE);
	CHECK_EQ(k_cancel(s.ch, id.tag + 1, id.seq), -ESTALE);
	CHECK_EQ(k_cancel(s.ch, 77777, id.seq), -ESTALE);
	CHECK_EQ(k_cancel(s.ch, id.tag, id.seq), 0);
	CHECK_EQ(k_cancel(s.ch, id.tag, id.seq), -ESTALE);
	CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EAGAIN);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -ECANCELED);
	/* The executor has it: it is asked, and decides. */
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	tag = k_fetch1(s.ex);
	CHECK(!(s.desc[tag].flags & RLX_RQ_UNWANTED));
	CHECK_EQ(k_cancel(s.ch, id.tag, id.seq), -EBUSY);
	CHECK(s.desc[tag].flags & RLX_RQ_UNWANTED);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 3, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, 3);
	k_scene_free(&s);
	/* Somebody else's request is none of mine. */
	int session = k_open(), svc = k_service(session, 1, 8, 0);
	int ex = k_executor(svc, 0), a, b;

	a = k_channel(session, svc, 4, 0, NULL);
	b = k_channel(session, svc, 4, 0, NULL);
	CHECK_EQ(k_submit(a, &rq, 1, &id), 1);
	CHECK_EQ(k_cancel(b, id.tag, id.seq), -ESTALE);
	CHECK_EQ(k_cancel(a, id.tag, id.seq), 0);
	close(a);
	close(b);
	close(ex);
	close(svc);
	close(session);
}

TEST(deadline)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 5);
	struct rlx_rq_id id;
	struct rlx_cqe cqe;
	uint32_t tag;
	uint64_t ms;

	rq.deadline_ns = k_now() + 50 * K_MS;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -ETIME);
	CHECK(k_now() >= rq.deadline_ns);
	/* Past already. */
	rq.deadline_ns = 1;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -ETIME);
	/*
	 * Delivered in time, its deadline is nothing to the kernel. A processor that was
	 * away for longer than that makes it -ETIME, which is right: once more, with more.
	 */
	for (ms = 250; ms < 60000; ms *= 4) {
		rq.deadline_ns = k_now() + ms * K_MS;
		CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
		if (k_fetch(s.ex, &tag, 1, 1, ms * K_MS) == 1)
			break;
		CHECK(k_now() >= rq.deadline_ns);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, -ETIME);
	}
	CHECK(ms < 60000);
	while (k_now() < rq.deadline_ns + 50 * K_MS)
		usleep(10000);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 8, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, 8);
	/* A later one first, which is waited for, then an earlier one. */
	rq.deadline_ns = k_now() + 3600000 * K_MS;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, 10 * K_MS), -ETIME);
	rq.deadline_ns = k_now() + 30 * K_MS;
	rq.user_data = 6;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.user_data, 6);
	k_scene_free(&s);
}

struct late {
	int ch;
	_Atomic bool *stop;
};

/* Requests that have hours, one after the other, each ended before it was fetched. */
static void *has_hours(void *arg)
{
	struct late *l = arg;
	struct rlx_rq rq = k_rq(1, 7);
	struct rlx_rq_id id;
	struct rlx_cqe cqe;

	while (!*l->stop) {
		rq.deadline_ns = k_now() + 3600000 * K_MS;
		CHECK_EQ(k_submit(l->ch, &rq, 1, &id), 1);
		CHECK_EQ(k_cancel(l->ch, id.tag, id.seq), 0);
		CHECK_EQ(k_reap(l->ch, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, -ECANCELED);
	}
	return NULL;
}

/* Whoever has hours, and says so at the same time, takes nobody's deadline away. */
TEST(deadlines_race)
{
	struct k_scene s = { .session = k_open() };
	_Atomic bool stop = false;
	struct rlx_rq rq = k_rq(1, 5);
	struct rlx_cqe cqe;
	struct late l = { .stop = &stop };
	uint64_t end;
	pthread_t t;
	int mine, n;

	s.svc = k_service(s.session, 1, 2 * DEPTH, 0);
	s.ex = k_executor(s.svc, 0);
	l.ch = k_channel(s.session, s.svc, DEPTH, 0, NULL);
	mine = k_channel(s.session, s.svc, DEPTH, 0, NULL);
	CHECK(!pthread_create(&t, NULL, has_hours, &l));
	end = k_now() + 4000 * K_MS;
	for (n = 0; k_now() < end; n++) {
		rq.deadline_ns = k_now() + K_MS;
		CHECK_EQ(k_submit(mine, &rq, 1, NULL), 1);
		CHECKF(k_reap(mine, &cqe, 1, 1, 20000 * K_MS) == 1,
		       "deadline %d was forgotten", n);
		CHECK_EQ(cqe.result, -ETIME);
	}
	stop = true;
	pthread_join(t, NULL);
	printf("# %d deadlines\n", n);
	close(mine);
	close(l.ch);
	close(s.ex);
	close(s.svc);
	close(s.session);
}

TEST(timeline)
{
	struct k_scene s = scene_new(0);
	int tl = k_timeline(s.session, 5);
	long h = k_attach(s.ch, tl, RLX_R);
	struct rlx_rq rq = k_rq(1, 5);
	struct rlx_rq_id id;
	struct rlx_cqe cqe;
	uint32_t tag;

	CHECK(h > 0);
	CHECK_EQ(k_attach(s.ch, tl, RLX_R | RLX_W), -EINVAL);
	rq.flags = RLX_RQ_WAIT;
	rq.wait = h;
	rq.wait_value = 5;		/* reached */
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	tag = k_fetch1(s.ex);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 1, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	rq.wait_value = 7;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EAGAIN);
	CHECK_EQ(k_signal(tl, 6), 0);
	CHECK_EQ(k_fetch(s.ex, &tag, 1, 0, 0), -EAGAIN);
	CHECK_EQ(k_signal(tl, 8), 0);
	tag = k_fetch1(s.ex);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 1, 0), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	/* Cancelled while it waits, and its deadline while it waits. */
	rq.wait_value = 100;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_detach(s.ch, h), -EBUSY);
	CHECK_EQ(k_cancel(s.ch, id.tag, id.seq), 0);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -ECANCELED);
	rq.deadline_ns = k_now() + 20 * K_MS;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -ETIME);
	/* Poisoned: its last signaller goes. */
	rq.deadline_ns = 0;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), 1);
	close(tl);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -EOWNERDEAD);
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), -EOWNERDEAD);
	rq.wait = h + 256;
	CHECK_EQ(k_submit(s.ch, &rq, 1, &id), -ENOENT);
	k_scene_free(&s);
	CHECK(k_stat_becomes("nr_waiters", 0));
	CHECK(k_stat_becomes("nr_timelines", 0));
}

static void *signaller(void *arg)
{
	int tl = *(int *)arg;

	for (uint64_t v = 1; v <= 3000; v++)
		k_signal(tl, v);
	return NULL;
}

/* Points reached while requests that wait for them are being submitted. */
TEST(timeline_race)
{
	struct k_scene s = scene_new(0);
	int tl = k_timeline(s.session, 0);
	struct rlx_rq rq = k_rq(1, 5);
	struct rlx_cqe cqe;
	pthread_t t;
	uint32_t tag;

	rq.flags = RLX_RQ_WAIT;
	rq.wait = k_attach(s.ch, tl, RLX_R);
	pthread_create(&t, NULL, signaller, &tl);
	for (uint64_t v = 1; v <= 3000; v += 7) {
		rq.wait_value = v;
		CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
		tag = k_fetch1(s.ex);
		CHECK_EQ(k_commit1(s.ex, s.desc, tag, 1, 0), 1);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	}
	pthread_join(t, NULL);
	close(tl);
	k_scene_free(&s);
}

/* Without an executor, with a dead one, and with the service over. */
TEST(executors_come_and_go)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq = k_rq(1, 5);
	struct rlx_cqe cqe[4];
	int svc2 = k_service(s.session, 1, 4, 0);
	int ch2 = k_channel(s.session, svc2, 4, 0, NULL);
	struct pollfd p = { .fd = s.ch, .events = POLLIN };

	CHECK_EQ(k_submit(ch2, &rq, 1, NULL), -ENOTCONN);
	CHECK_EQ(k_try_executor(s.svc, 0), -EBUSY);
	CHECK_EQ(k_info(s.svc).state, RLX_SERVICE_LIVE);
	CHECK_EQ(k_info(svc2).state, RLX_SERVICE_NEW);
	/* One delivered, one ready. */
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
	k_fetch1(s.ex);
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
	k_scene_kill_executor(&s);
	CHECK_EQ(k_reap(s.ch, cqe, 4, 2, K_EVER), 2);
	CHECK_EQ(cqe[0].result, -EOWNERDEAD);
	CHECK_EQ(cqe[1].result, -EOWNERDEAD);
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), -EPIPE);
	CHECK_EQ(k_reap(s.ch, cqe, 1, 1, K_EVER), -EPIPE);
	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK(p.revents & POLLHUP);
	CHECK_EQ(k_info(s.ch).state, RLX_SERVICE_DEAD);
	/* The next generation. */
	s.ex = k_next_executor(s.svc, 0);
	s.desc = k_desc(s.ex, DEPTH);
	CHECK_EQ(k_info(s.ch).generation, 2);
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(k_submit(s.ch, &rq, 1, NULL), 1);
	CHECK_EQ(k_commit1(s.ex, s.desc, k_fetch1(s.ex), 1, 0), 1);
	CHECK_EQ(k_reap(s.ch, cqe, 1, 1, K_EVER), 1);
	/* No fd that could make an executor, no hope. */
	close(svc2);
	CHECK_EQ(k_reap(ch2, cqe, 1, 1, K_EVER), -EPIPE);
	CHECK_EQ(k_submit(ch2, &rq, 1, NULL), -EPIPE);
	close(ch2);
	k_scene_free(&s);
}

TEST(requeue)
{
	struct k_scene s = scene_new(RLX_SERVICE_REQUEUE);
	struct rlx_rq rq[3] = { k_rq(0, 0), k_rq(1, 1), k_rq(2, 2) };
	struct rlx_complete old;
	struct rlx_cqe cqe;
	uint32_t tag[3];

	CHECK_EQ(k_submit(s.ch, rq, 3, NULL), 3);
	CHECK_EQ(k_fetch(s.ex, tag, 2, 2, K_EVER), 2);
	old = (struct rlx_complete){ .seq = s.desc[tag[0]].seq, .tag = tag[0] };
	k_scene_kill_executor(&s);
	/* Requests come in while nobody is there. */
	rq[0].user_data = 3;
	CHECK_EQ(k_submit(s.ch, rq, 1, NULL), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 0, 0), -EAGAIN);
	s.ex = k_next_executor(s.svc, 0);
	s.desc = k_desc(s.ex, DEPTH);
	/* What was delivered to the dead one is not delivered to this one yet. */
	CHECK_EQ(k_commit(s.ex, &old, 1, NULL), -ESTALE);
	for (int i = 0; i < 4; i++) {
		tag[0] = k_fetch1(s.ex);
		CHECK_EQ(s.desc[tag[0]].user_data, i);
		CHECK_EQ(k_commit1(s.ex, s.desc, tag[0], i, 0), 1);
		CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
		CHECK_EQ(cqe.result, i);
	}
	/* Over: both fail what is there. */
	CHECK_EQ(k_submit(s.ch, rq, 2, NULL), 2);
	k_fetch1(s.ex);
	close(s.svc);
	k_scene_kill_executor(&s);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(cqe.result, -EOWNERDEAD);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), 1);
	CHECK_EQ(k_reap(s.ch, &cqe, 1, 1, K_EVER), -EPIPE);
	s.svc = -1;
	k_scene_free(&s);
}

/* A client goes: what the executor has stays valid, the rest vanishes, it is told. */
TEST(client_goes)
{
	struct k_scene s = scene_new(0);
	int arena = k_arena(s.session, 4096, 0);
	long h = k_attach(s.ch, arena, RLX_R | RLX_W);
	struct rlx_rq rq[2] = { k_rq(0, 0), k_rq(1, 1) };
	struct rlx_ioc_exec_arena ea;
	struct rlx_event ev[4];
	uint32_t tag, t2;
	int fd, fd2;

	rq[0].nr_slices = 1;
	rq[0].slice[0] = (struct rlx_slice){ h, RLX_R, 0, 4096 };
	CHECK_EQ(k_submit(s.ch, rq, 2, NULL), 2);
	tag = k_fetch1(s.ex);
	fd = k_exec_arena(s.ex, s.id, h, &ea);
	CHECK(fd >= 0);
	CHECK_EQ(ea.size, 4096);
	CHECK_EQ(ea.access, RLX_R | RLX_W);
	CHECK_EQ(k_exec_arena(s.ex, s.id, h + 1, NULL), -ENOENT);
	CHECK_EQ(k_exec_arena(s.ex, s.id + 1, h, NULL), -ENOENT);
	close(arena);
	close(s.ch);
	s.ch = -1;
	CHECK_EQ(k_fetch(s.ex, &t2, 1, 0, 0), -EAGAIN);
	CHECK(s.desc[tag].flags & RLX_RQ_UNWANTED);
	/* A request of it is still out: its arenas can still be had. */
	fd2 = k_exec_arena(s.ex, s.id, h, NULL);
	CHECK(fd2 >= 0);
	close(fd2);
	CHECK_EQ(k_commit1(s.ex, s.desc, tag, 0, 0), 1);
	CHECK_EQ(k_fetch1(s.ex), RLX_TAG_EVENT | s.id);
	CHECK_EQ(k_events(s.ex, s.id, ev, 4), 1);
	CHECK_EQ(ev[0].type, RLX_EVENT_GONE);
	CHECK_EQ(k_events(s.ex, s.id, ev, 4), -ENOENT);
	CHECK_EQ(k_exec_arena(s.ex, s.id, h, NULL), -ENOENT);
	CHECK_EQ(k_info(s.svc).channels, 0);
	close(fd);
	k_scene_free(&s);
	CHECK(k_stat_becomes("nr_arenas", 0));
}

/* Detaching is told to the executor that has the arena; its handle never returns. */
TEST(detach_is_told)
{
	struct k_scene s = scene_new(0);
	int arena = k_arena(s.session, 4096, 0);
	struct rlx_event ev[4];
	long h, last = 0;

	for (int i = 0; i < 600; i++) {
		h = k_attach(s.ch, arena, RLX_R);
		CHECK(h > 0 && h != last);
		last = h;
		CHECK_EQ(k_detach(s.ch, h), 0);
	}
	CHECK_EQ(k_events(s.ex, s.id, ev, 4), 0);
	h = k_attach(s.ch, arena, RLX_R);
	close(k_exec_arena(s.ex, s.id, h, NULL));
	CHECK_EQ(k_detach(s.ch, h), 0);
	CHECK_EQ(k_fetch1(s.ex), RLX_TAG_EVENT | s.id);
	CHECK_EQ(k_events(s.ex, s.id, ev, 0), 0);
	CHECK_EQ(k_events(s.ex, s.id, (void *)8, 4), -EFAULT);
	CHECK_EQ(k_events(s.ex, s.id, ev, 4), 1);
	CHECK_EQ(ev[0].type, RLX_EVENT_DETACH);
	CHECK_EQ(ev[0].handle, h);
	CHECK_EQ(k_events(s.ex, s.id, ev, 4), 0);
	/* The table is full of what the executor has not read about. */
	for (int i = 0; i < 256; i++) {
		h = k_attach(s.ch, arena, RLX_R);
		CHECKF(h > 0, "attach %d: %ld", i, h);
		close(k_exec_arena(s.ex, s.id, h, NULL));
		CHECK_EQ(k_detach(s.ch, h), 0);
	}
	CHECK_EQ(k_attach(s.ch, arena, RLX_R), -ENOSPC);
	for (int n = 0; n < 256;) {
		long got = k_events(s.ex, s.id, ev, 4);

		CHECK_EQ(got, 4);
		n += got;
	}
	CHECK(k_attach(s.ch, arena, RLX_R) > 0);
	close(arena);
	k_scene_free(&s);
}

/* A pointer that cannot be written loses no request. */
TEST(fetch_fault)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq[3] = { k_rq(0, 0), k_rq(1, 1), k_rq(2, 2) };
	uint32_t tag[4];

	CHECK_EQ(k_submit(s.ch, rq, 3, NULL), 3);
	CHECK_EQ(k_fetch(s.ex, (void *)16, 4, 1, K_EVER), -EFAULT);
	CHECK_EQ(k_info(s.ex).ready, 3);
	CHECK_EQ(k_fetch(s.ex, tag, 4, 1, K_EVER), 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(s.desc[tag[i]].opcode, i);
	CHECK_EQ(k_submit(s.ch, (void *)16, 1, NULL), -EFAULT);
	CHECK_EQ(k_submit(s.ch, rq, 1, (void *)16), -EFAULT);
	CHECK_EQ(k_commit(s.ex, (void *)16, 1, NULL), -EFAULT);
	CHECK_EQ(k_info(s.ex).ready, 0);
	k_scene_free(&s);
}

/* Nor a result. */
TEST(reap_fault)
{
	struct k_scene s = scene_new(0);
	struct rlx_rq rq[DEPTH];
	struct rlx_cqe cqe[DEPTH];
	uint32_t tag[DEPTH];

	for (int i = 0; i < DEPTH; i++)
		rq[i] = k_rq(i, i);
	CHECK_EQ(k_submit(s.ch, rq, DEPTH, NULL), DEPTH);
	CHECK_EQ(k_fetch(s.ex, tag, DEPTH, DEPTH, K_EVER), DEPTH);
	for (int i = 0; i < DEPTH; i++) {
		struct rlx_complete c = { .seq = s.desc[tag[i]].seq, .tag = tag[i],
					  .result = i };

		CHECK_EQ(k_commit(s.ex, &c, 1, NULL), 1);
	}
	CHECK_EQ(k_reap(s.ch, (void *)16, DEPTH, 1, K_EVER), -EFAULT);
	/* None of what waits, to where no memory can be: it went round for ever. */
	CHECK_EQ(k_reap(s.ch, (void *)-4096l, 0, 0, 0), -EAGAIN);
	CHECK_EQ(k_reap(s.ch, (void *)16, 0, 0, 0), -EAGAIN);
	CHECK_EQ(k_reap(s.ch, cqe, DEPTH, DEPTH, K_EVER), DEPTH);
	for (int i = 0; i < DEPTH; i++)
		CHECK_EQ(cqe[i].result, i);
	CHECK_EQ(k_reap(s.ch, cqe, DEPTH, 0, 0), -EAGAIN);
	k_scene_free(&s);
}

/* Two clients with different loads both get their turn. */
TEST(turns)
{
	struct k_scene s = scene_new(0);
	int svc = k_service(s.session, 1, 256, 0);
	int ex = k_executor(svc, 0);
	int a = k_channel(s.session, svc, 128, 0, NULL);
	uint32_t b_id;
	int b = k_channel(s.session, svc, 1, 0, &b_id);
	const struct rlx_desc *desc = k_desc(ex, 256);
	struct rlx_rq rq[128];
	uint32_t tag[16];
	bool seen = false;

	for (int i = 0; i < 128; i++)
		rq[i] = k_rq(i, i);
	CHECK_EQ(k_submit(a, rq, 128, NULL), 128);
	CHECK_EQ(k_submit(b, rq, 1, NULL), 1);
	CHECK_EQ(k_fetch(ex, tag, 16, 16, K_EVER), 16);
	for (int i = 0; i < 16; i++)
		seen |= desc[tag[i]].channel == b_id;
	CHECK(seen);
	int c = k_channel(s.session, svc, 64, 0, NULL);

	k_undesc(desc, 256);
	close(ex);
	close(svc);
	close(a);
	close(b);
	close(c);
	k_scene_free(&s);
}

struct worker {
	struct k_scene *s;
	int ch, n;
	uint64_t sum;
};

static void *client(void *arg)
{
	struct worker *w = arg;
	struct rlx_cqe cqe[DEPTH];

	for (int sent = 0, got = 0; got < w->n;) {
		struct rlx_rq rq = k_rq(1, sent);
		long n;

		if (sent < w->n) {
			n = k_submit(w->ch, &rq, 1, NULL);
			if (n == 1)
				sent++;
			else
				CHECK_EQ(n, -EAGAIN);
		}
		n = k_reap(w->ch, cqe, DEPTH, sent - got >= 2, K_EVER);
		CHECK(n > 0 || n == -EAGAIN);
		for (long i = 0; i < n; i++)
			w->sum += cqe[i].user_data + 1 - cqe[i].aux;
		got += n > 0 ? n : 0;
	}
	return NULL;
}

/* Until it was asked to go, by a request of its own: one of them asks one server. */
#define GO	2

static void *server(void *arg)
{
	struct worker *w = arg;
	uint32_t tag[4];
	bool go = false;

	while (!go) {
		long n = k_fetch(w->s->ex, tag, 4, 1, K_SOON);
		struct rlx_complete c[4];

		CHECKF(n > 0, "FETCH: %ld", n);
		for (long i = 0; i < n; i++) {
			const struct rlx_desc *desc = &w->s->desc[tag[i]];

			c[i] = (struct rlx_complete){
				.seq = desc->seq, .tag = tag[i],
				.aux = desc->user_data + 1,
			};
			go |= desc->opcode == GO;
		}
		CHECK_EQ(k_commit(w->s->ex, c, n, NULL), n);
	}
	return NULL;
}

TEST(many_sleepers)
{
	struct k_scene s = { .session = k_open() };
	struct worker w[4] = { 0 };
	pthread_t c[2], e[2];

	s.svc = k_service(s.session, 1, 2 * DEPTH, 0);
	s.ex = k_executor(s.svc, 0);
	s.desc = k_desc(s.ex, 2 * DEPTH);
	for (int i = 0; i < 2; i++) {
		w[i] = (struct worker){
			.s = &s, .ch = k_channel(s.session, s.svc, DEPTH, 0, NULL),
			.n = 2000,
		};
		w[i + 2] = w[i];
		pthread_create(&c[i], NULL, client, &w[i]);
		pthread_create(&e[i], NULL, server, &w[i + 2]);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(c[i], NULL);
		CHECK_EQ(w[i].sum, 0);
	}
	CHECK_EQ(k_info(s.svc).committed, 4000);
	for (int i = 0; i < 2; i++) {
		struct rlx_rq rq = k_rq(GO, 0);
		struct rlx_cqe cqe;

		CHECK_EQ(k_submit(w[i].ch, &rq, 1, NULL), 1);
		CHECK_EQ(k_reap(w[i].ch, &cqe, 1, 1, K_SOON), 1);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(e[i], NULL);
		close(w[i].ch);
	}
	k_undesc(s.desc, 2 * DEPTH);
	close(s.ex);
	close(s.svc);
	close(s.session);
}

TEST_MAIN()
