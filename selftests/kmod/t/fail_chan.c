// SPDX-License-Identifier: MIT
/*
 * Every call of services, executors and channels that other tests do not sweep, by
 * ioctl, mapping and io_uring, with its n-th allocation or copy failing, for every n.
 * Whatever fails may be tried again, and then nothing is missing.
 */
/* rig: kernels=debug timeout=120 */
#include <errno.h>
#include <liburing.h>
#include <linux/rlx.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/chan.h"

#define DEPTH	8

static const int fault[] = { -EFAULT, 0 };

struct scene {
	struct k_scene k;
	int arena, tl;
	int second;		/* a service without executor */
	struct io_uring ring;
	bool parks;
};

static struct scene scene_new(void)
{
	struct rlx_ioc_query q = { 0 };
	struct scene s = {
		.k = k_scene_new(&(struct k_scene_opts){ .depth = DEPTH }),
	};

	CHECK_EQ(k_ioctl(s.k.session, RLX_IOC_QUERY, &q), 0);
	s.parks = q.features & RLX_FEAT_URING_ASYNC;
	s.arena = k_arena(s.k.session, 4096, 0);
	s.tl = k_timeline(s.k.session, 0);
	s.second = k_service(s.k.session, 1, DEPTH, 0);
	CHECK(!io_uring_queue_init(8, &s.ring, 0));
	return s;
}

static void scene_free(struct scene *s)
{
	io_uring_queue_exit(&s->ring);
	close(s->arena);
	close(s->tl);
	close(s->second);
	k_scene_free(&s->k);
	CHECK(k_stat_becomes("bytes", 0));
}

/* ---- what has to succeed, for one fault comes but once ---- */

static void submit(struct scene *s, uint64_t data, struct rlx_rq_id *id)
{
	struct rlx_rq rq = k_rq(1, data);
	long n = k_submit(s->k.ch, &rq, 1, id);

	if (n < 0)
		n = k_submit(s->k.ch, &rq, 1, id);
	CHECK_EQ(n, 1);
}

static uint32_t fetch(struct scene *s)
{
	uint32_t tag = 99;
	long n = k_fetch(s->k.ex, &tag, 1, 0, 0);

	if (n < 0)
		n = k_fetch(s->k.ex, &tag, 1, 0, 0);
	CHECK_EQ(n, 1);
	return tag;
}

static void commit(struct scene *s, uint32_t tag)
{
	long n = k_commit1(s->k.ex, s->k.desc, tag, 5, 0);

	if (n < 0)
		n = k_commit1(s->k.ex, s->k.desc, tag, 5, 0);
	CHECK_EQ(n, 1);
}

static void reap(struct scene *s, uint64_t data)
{
	struct rlx_cqe cqe = { 0 };
	long n = k_reap(s->k.ch, &cqe, 1, 0, 0);

	if (n < 0)
		n = k_reap(s->k.ch, &cqe, 1, 0, 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(cqe.user_data, data);
}

/* ---- ioctls ---- */

static long try_info(void *arg)
{
	struct scene *s = arg;
	const int fds[] = { s->k.svc, s->k.ex, s->k.ch };
	long ret = 0;

	for (int i = 0; i < 3 && !ret; i++) {
		struct rlx_ioc_service_info info = { 0 };

		ret = k_ioctl(fds[i], RLX_IOC_SERVICE_INFO, &info);
	}
	return ret;
}

static long try_submit(void *arg)
{
	struct scene *s = arg;
	struct rlx_rq rq[3] = { k_rq(1, 0), k_rq(1, 1), k_rq(1, 2) };
	struct rlx_rq_id ids[3];
	long n = k_submit(s->k.ch, rq, 3, ids), done = n < 0 ? 0 : n;

	for (long i = 0; i < done; i++)
		commit(s, fetch(s));
	for (long i = 0; i < done; i++)
		reap(s, (uint64_t)i);
	return n < 0 ? n : 0;
}

static long try_fetch(void *arg)
{
	struct scene *s = arg;
	uint32_t tag;
	long n;

	submit(s, 7, NULL);
	n = k_fetch(s->k.ex, &tag, 1, 0, 0);
	commit(s, n == 1 ? tag : fetch(s));
	reap(s, 7);
	return n < 0 ? n : 0;
}

static long try_commit_fetch(void *arg)
{
	struct scene *s = arg;
	struct rlx_complete c = { .result = 5 };
	int32_t error = 0;
	uint32_t tag = 99, first;
	struct rlx_ioc_commit_fetch cf = {
		.commit = { .entries = (uintptr_t)&c, .errors = (uintptr_t)&error, .nr = 1 },
		.fetch = { .tags = (uintptr_t)&tag, .max = 1, .flags = RLX_FETCH_NOWAIT },
	};
	struct rlx_cqe cqe;
	long n;

	submit(s, 1, NULL);
	submit(s, 2, NULL);
	first = fetch(s);
	c.tag = first;
	c.seq = s->k.desc[first].seq;
	n = k_ioctl(s->k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf);
	if (n < 0) {
		/* The result may have been taken or not; both are told. */
		long again = k_commit(s->k.ex, &c, 1, NULL);

		CHECKF(again == 1 || again == -ESTALE, "COMMIT again: %ld", again);
		tag = fetch(s);
	}
	commit(s, tag);
	for (int left = 2; left; )
		left -= k_reap(s->k.ch, &cqe, 1, 0, 0) == 1;
	return n < 0 ? n : 0;
}

static long try_reap(void *arg)
{
	struct scene *s = arg;
	struct rlx_cqe cqe[3] = { { 0 } };
	long n;

	for (uint64_t i = 0; i < 3; i++) {
		submit(s, i, NULL);
		commit(s, fetch(s));
	}
	n = k_reap(s->k.ch, cqe, 3, 3, 0);
	if (n < 0) {
		/* None is lost, and their order is what it was. */
		long again = k_reap(s->k.ch, cqe, 3, 3, 0);

		CHECKF(again == 3, "REAP again: %ld", again);
	}
	for (uint64_t i = 0; i < 3; i++)
		CHECK_EQ(cqe[i].user_data, i);
	return n < 0 ? n : 0;
}

static long try_cancel(void *arg)
{
	struct scene *s = arg;
	struct rlx_rq_id id;
	long n;

	submit(s, 3, &id);
	n = k_cancel(s->k.ch, id.tag, id.seq);
	if (n < 0)
		CHECK_EQ(k_cancel(s->k.ch, id.tag, id.seq), 0);
	reap(s, 3);
	return n;
}

/* ATTACH, EXEC_ARENA, DETACH, and the event that frees the place. */
static long try_detach(void *arg)
{
	struct scene *s = arg;
	long handle = k_attach(s->k.ch, s->arena, RLX_R), n;
	struct rlx_event ev[2];
	uint32_t tag;
	int fd;

	if (handle < 0)
		handle = k_attach(s->k.ch, s->arena, RLX_R);
	CHECK(handle > 0);
	fd = k_exec_arena(s->k.ex, s->k.id, handle, NULL);
	if (fd < 0)
		fd = k_exec_arena(s->k.ex, s->k.id, handle, NULL);
	CHECK(fd > 2);
	close(fd);
	n = k_detach(s->k.ch, handle);
	if (n < 0)
		CHECK_EQ(k_detach(s->k.ch, handle), 0);
	tag = fetch(s);
	CHECK_EQ(tag, RLX_TAG_EVENT | s->k.id);
	if (k_events(s->k.ex, s->k.id, ev, 2) == 1)
		return n;
	CHECK_EQ(k_events(s->k.ex, s->k.id, ev, 2), 1);
	CHECK_EQ(ev[0].type, RLX_EVENT_DETACH);
	CHECK_EQ(ev[0].handle, handle);
	return -EFAULT;
}

static long try_map(int fd, uint32_t what)
{
	char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, RLX_MAP_OFFSET(what, 0));

	if (p == MAP_FAILED)
		return -errno;
	return munmap(p, 4096) ? -errno : 0;
}

static long try_maps(void *arg)
{
	struct scene *s = arg;

	return try_map(s->k.ex, RLX_MAP_DESC);
}

/* Both ends with rings, and the rings. */
static long try_ends_with_rings(void *arg)
{
	struct scene *s = arg;
	struct rlx_ioc_connect c = {
		.service = s->second, .depth = 4, .flags = RLX_CHANNEL_RING,
	};
	long ex, ch, ret;

	do {	/* until the one before is gone */
		ex = k_try_executor(s->second, RLX_EXEC_RING);
	} while (ex == -EBUSY);
	if (ex < 0)
		return ex;
	ch = k_ioctl(s->k.session, RLX_IOC_CONNECT, &c);
	ret = ch < 0 ? ch : try_map(ex, RLX_MAP_RING);
	if (!ret)
		ret = try_map(ex, RLX_MAP_USER);
	if (!ret)
		ret = try_map(ch, RLX_MAP_RING);
	if (!ret)
		ret = try_map(ch, RLX_MAP_USER);
	close(ex);
	if (ch >= 0)
		close(ch);
	return ret;
}

TEST(ioctls)
{
	struct scene s = scene_new();
	static const int map_errors[] = { -EFAULT, -EAGAIN, 0 };

	k_fail_nth("SERVICE_INFO", try_info, &s, fault);
	k_fail_nth("SUBMIT", try_submit, &s, fault);
	k_fail_nth("FETCH", try_fetch, &s, fault);
	k_fail_nth("COMMIT_AND_FETCH", try_commit_fetch, &s, fault);
	k_fail_nth("REAP", try_reap, &s, fault);
	k_fail_nth("CANCEL", try_cancel, &s, fault);
	k_fail_nth("DETACH", try_detach, &s, fault);
	k_fail_nth("mmap", try_maps, &s, map_errors);
	k_fail_nth("ends with rings", try_ends_with_rings, &s, map_errors);
	scene_free(&s);
}

/* ---- io_uring ---- */

static void push(struct scene *s, int fd, uint32_t op, const void *arg, uint32_t flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
	struct rlx_uring_cmd *p;

	CHECK(sqe);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = op;
	p = (struct rlx_uring_cmd *)sqe->cmd;
	p->addr = (uintptr_t)arg;
	p->flags = flags;
	/* Where io_uring itself has no memory the entry stays for the next time. */
	for (int i = 0; i < 3 && io_uring_sq_ready(&s->ring); i++)
		io_uring_submit(&s->ring);
	CHECK_EQ(io_uring_sq_ready(&s->ring), 0);
}

static bool answered(struct scene *s, long *res)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&s->ring, &cqe))
		return false;
	*res = cqe->res;
	io_uring_cqe_seen(&s->ring, cqe);
	return true;
}

static long result(struct scene *s)
{
	long res;

	for (int i = 0; i < 300000; i++) {
		if (answered(s, &res))
			return res;
		io_uring_get_events(&s->ring);
		usleep(100);
	}
	rlx_test_fail(__FILE__, __LINE__, "no answer comes");
}

static long try_ring_submit(void *arg)
{
	struct scene *s = arg;
	struct rlx_rq rq = k_rq(1, 4);
	long res;

	push(s, s->k.ch, RLX_IOC_SUBMIT, &rq, 0);
	if (answered(s, &res))
		return res;
	commit(s, fetch(s));
	CHECK_EQ(result(s), 5);
	return 0;
}

static long try_ring_post(void *arg)
{
	struct scene *s = arg;
	struct rlx_rq rq = k_rq(1, 4);
	long res;

	push(s, s->k.ch, RLX_IOC_SUBMIT, &rq, RLX_URING_POST);
	res = result(s);
	if (res < 0)
		return res;
	commit(s, fetch(s));
	reap(s, 4);
	return 0;
}

/* A parked FETCH, and then what it waits for. */
static long try_ring_fetch(void *arg)
{
	struct scene *s = arg;
	uint32_t tag = 99;
	struct rlx_ioc_fetch f = {
		.tags = (uintptr_t)&tag, .max = 1, .timeout_ns = UINT64_MAX,
	};
	long res;

	push(s, s->k.ex, RLX_IOC_FETCH, &f, 0);
	if (answered(s, &res)) {
		CHECKF(res < 0, "FETCH of nothing: %ld", res);
		return res;
	}
	submit(s, 5, NULL);
	res = result(s);
	commit(s, res == 1 ? tag : fetch(s));
	reap(s, 5);
	return res < 0 ? res : 0;
}

static long try_ring_commit(void *arg)
{
	struct scene *s = arg;
	struct rlx_complete c = { .result = 5 };
	struct rlx_ioc_commit cm = { .entries = (uintptr_t)&c, .nr = 1 };
	long res;

	submit(s, 6, NULL);
	c.tag = fetch(s);
	c.seq = s->k.desc[c.tag].seq;
	push(s, s->k.ex, RLX_IOC_COMMIT, &cm, 0);
	res = result(s);
	if (res < 0)
		commit(s, c.tag);
	reap(s, 6);
	return res < 0 ? res : 0;
}

static long try_ring_both(void *arg)
{
	struct scene *s = arg;
	uint32_t tag = 99;
	struct rlx_ioc_commit_fetch cf = {
		.fetch = { .tags = (uintptr_t)&tag, .max = 1, .timeout_ns = UINT64_MAX },
	};
	long res;

	push(s, s->k.ex, RLX_IOC_COMMIT_AND_FETCH, &cf, 0);
	if (answered(s, &res))
		return res;
	submit(s, 5, NULL);
	res = result(s);
	commit(s, res == 1 ? tag : fetch(s));
	reap(s, 5);
	return res < 0 ? res : 0;
}

/* A parked wait, and then its point. */
static long try_ring_wait(void *arg)
{
	static struct rlx_ioc_timeline_wait_one w = { .deadline_ns = UINT64_MAX };
	struct scene *s = arg;
	long res;

	w.value++;
	push(s, s->tl, RLX_IOC_TIMELINE_WAIT_ONE, &w, 0);
	if (answered(s, &res))
		return res;
	if (k_signal(s->tl, w.value))
		CHECK_EQ(k_signal(s->tl, w.value), 0);
	return result(s);
}

TEST(rings)
{
	struct scene s = scene_new();

	if (!s.parks)
		rlx_test_skip("this kernel cannot cancel parked commands");
	k_fail_nth("uring SUBMIT", try_ring_submit, &s, fault);
	k_fail_nth("uring SUBMIT, posted", try_ring_post, &s, fault);
	k_fail_nth("uring FETCH", try_ring_fetch, &s, fault);
	k_fail_nth("uring COMMIT", try_ring_commit, &s, fault);
	k_fail_nth("uring COMMIT_AND_FETCH", try_ring_both, &s, fault);
	k_fail_nth("uring WAIT_ONE", try_ring_wait, &s, fault);
	scene_free(&s);
}

TEST_MAIN()
