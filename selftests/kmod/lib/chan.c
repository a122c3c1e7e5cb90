// SPDX-License-Identifier: MIT
/* Services, executors and channels as tests call them. */
/* Offsets of mappings have more than 32 bits. */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define PAGE	4096u

long k_try_service(int session, uint32_t queues, uint32_t depth, uint32_t flags)
{
	struct rlx_ioc_service_create c = {
		.queues = queues, .depth = depth, .flags = flags,
		.max_slices = RLX_RQ_SLICES_MAX, .user_tag = 7,
	};

	return k_ioctl(session, RLX_IOC_SERVICE_CREATE, &c);
}

int k_service(int session, uint32_t queues, uint32_t depth, uint32_t flags)
{
	long fd = k_try_service(session, queues, depth, flags);

	CHECKF(fd >= 0, "SERVICE_CREATE: %ld", fd);
	return fd;
}

long k_try_executor(int service, uint32_t flags)
{
	struct rlx_ioc_executor_attach a = { .flags = flags };

	return k_ioctl(service, RLX_IOC_EXECUTOR_ATTACH, &a);
}

int k_executor(int service, uint32_t flags)
{
	long fd = k_try_executor(service, flags);

	CHECKF(fd >= 0, "EXECUTOR_ATTACH: %ld", fd);
	return fd;
}

int k_next_executor(int service, uint32_t flags)
{
	long fd = -EBUSY;

	for (int i = 0; i < 60000 && fd == -EBUSY; i++) {
		fd = k_try_executor(service, flags);
		if (fd == -EBUSY)
			usleep(1000);
	}
	CHECKF(fd >= 0, "EXECUTOR_ATTACH: %ld", fd);
	return fd;
}

int k_channel(int session, int service, uint32_t depth, uint32_t flags, uint32_t *id)
{
	struct rlx_ioc_connect c = {
		.service = service, .depth = depth, .flags = flags,
	};
	long fd = k_ioctl(session, RLX_IOC_CONNECT, &c);

	CHECKF(fd >= 0, "CONNECT: %ld", fd);
	if (id)
		*id = c.channel;
	return fd;
}

long k_attach(int ch, int fd, uint32_t access)
{
	struct rlx_ioc_attach a = { .fd = fd, .access = access };
	long ret = k_ioctl(ch, RLX_IOC_ATTACH, &a);

	return ret ? ret : (long)a.handle;
}

long k_detach(int ch, uint32_t handle)
{
	struct rlx_ioc_detach d = { .handle = handle };

	return k_ioctl(ch, RLX_IOC_DETACH, &d);
}

long k_submit(int ch, const struct rlx_rq *rq, uint32_t nr, struct rlx_rq_id *ids)
{
	struct rlx_ioc_submit s = {
		.entries = (uintptr_t)rq, .ids = (uintptr_t)ids, .nr = nr,
	};

	return k_ioctl(ch, RLX_IOC_SUBMIT, &s);
}

long k_cancel(int ch, uint32_t tag, uint64_t seq)
{
	struct rlx_ioc_cancel c = { .tag = tag, .seq = seq };

	return k_ioctl(ch, RLX_IOC_CANCEL, &c);
}

long k_reap(int ch, struct rlx_cqe *cqe, uint32_t max, uint32_t min, uint64_t timeout)
{
	struct rlx_ioc_reap r = {
		.entries = (uintptr_t)cqe, .max = max, .min = min,
		.timeout_ns = timeout,
	};

	return k_ioctl(ch, RLX_IOC_REAP, &r);
}

long k_fetch(int ex, uint32_t *tags, uint32_t max, uint32_t min, uint64_t timeout)
{
	struct rlx_ioc_fetch f = {
		.tags = (uintptr_t)tags, .max = max, .min = min,
		.timeout_ns = timeout, .flags = timeout ? 0 : RLX_FETCH_NOWAIT,
	};

	return k_ioctl(ex, RLX_IOC_FETCH, &f);
}

long k_commit(int ex, const struct rlx_complete *c, uint32_t nr, int32_t *errors)
{
	struct rlx_ioc_commit cm = {
		.entries = (uintptr_t)c, .nr = nr, .errors = (uintptr_t)errors,
	};

	return k_ioctl(ex, RLX_IOC_COMMIT, &cm);
}

long k_commit1(int ex, const struct rlx_desc *desc, uint32_t tag, int32_t result,
	       uint64_t aux)
{
	struct rlx_complete c = {
		.seq = desc[tag].seq, .tag = tag, .result = result, .aux = aux,
	};

	return k_commit(ex, &c, 1, NULL);
}

int k_exec_arena(int ex, uint32_t channel, uint32_t handle,
		 struct rlx_ioc_exec_arena *out)
{
	struct rlx_ioc_exec_arena a = { .channel = channel, .arena = handle };
	int fd = k_ioctl(ex, RLX_IOC_EXEC_ARENA, &a);

	if (out)
		*out = a;
	return fd;
}

long k_events(int ex, uint32_t channel, struct rlx_event *ev, uint32_t max)
{
	struct rlx_ioc_exec_events e = {
		.channel = channel, .max = max, .events = (uintptr_t)ev,
	};

	return k_ioctl(ex, RLX_IOC_EXEC_EVENTS, &e);
}

struct rlx_ioc_service_info k_info(int fd)
{
	struct rlx_ioc_service_info info = { 0 };

	CHECK_EQ(k_ioctl(fd, RLX_IOC_SERVICE_INFO, &info), 0);
	return info;
}

static size_t desc_bytes(uint32_t depth)
{
	return ((size_t)depth * sizeof(struct rlx_desc) + PAGE - 1) & ~(size_t)(PAGE - 1);
}

const struct rlx_desc *k_desc(int ex, uint32_t depth)
{
	void *p = mmap(NULL, desc_bytes(depth), PROT_READ, MAP_SHARED, ex,
		       RLX_MAP_OFFSET(RLX_MAP_DESC, 0));

	CHECKF(p != MAP_FAILED, "mmap of descriptors: %d", errno);
	return p;
}

void k_undesc(const struct rlx_desc *desc, uint32_t depth)
{
	munmap((void *)desc, desc_bytes(depth));
}

struct rlx_rq k_rq(uint32_t op, uint64_t data)
{
	return (struct rlx_rq){ .opcode = op, .user_data = data };
}

struct k_ring k_map_ring(int fd, uint32_t entries, uint32_t entry_bytes)
{
	struct k_ring r = {
		.entries = entries,
		.entry_bytes = entry_bytes,
		.bytes = (64 + (size_t)entries * entry_bytes + PAGE - 1) &
			 ~(size_t)(PAGE - 1),
	};

	r.ring = mmap(NULL, r.bytes, PROT_READ, MAP_SHARED, fd,
		      RLX_MAP_OFFSET(RLX_MAP_RING, 0));
	CHECKF(r.ring != MAP_FAILED, "mmap of a ring: %d", errno);
	r.user = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      RLX_MAP_OFFSET(RLX_MAP_USER, 0));
	CHECKF(r.user != MAP_FAILED, "mmap of a ring's words: %d", errno);
	CHECK_EQ(r.ring->mask, entries - 1);
	CHECK_EQ(r.ring->entry_bytes, entry_bytes);
	r.entry = (char *)r.ring + 64;
	r.head = r.user->head;
	return r;
}

void k_unmap_ring(struct k_ring *r)
{
	if (!r->ring)
		return;
	munmap(r->ring, r->bytes);
	munmap(r->user, PAGE);
	r->ring = NULL;
}

uint32_t k_ring_take(struct k_ring *r, void *to, uint32_t max)
{
	uint32_t n = __atomic_load_n(&r->ring->tail, __ATOMIC_ACQUIRE) - r->head;
	uint32_t at = r->head & (r->entries - 1), first;
	char *out = to;

	if (n > max)
		n = max;
	if (!n)
		return 0;
	first = n < r->entries - at ? n : r->entries - at;
	memcpy(out, (char *)r->entry + (size_t)at * r->entry_bytes,
	       (size_t)first * r->entry_bytes);
	memcpy(out + (size_t)first * r->entry_bytes, r->entry,
	       (size_t)(n - first) * r->entry_bytes);
	/* Copied before they are consumed: then their places may be written again. */
	r->head += n;
	__atomic_store_n(&r->user->head, r->head, __ATOMIC_RELEASE);
	return n;
}

void k_ring_fill(struct k_ring *r, void *to, uint32_t nr)
{
	uint32_t got = k_ring_take(r, to, nr), spins = 0;
	uint64_t end = 0;

	while (got < nr) {
		if (spins++ % 1024 == 1023) {
			end = end ? end : k_now() + K_SOON;
			CHECKF(k_now() < end, "nothing came into the ring");
		}
		got += k_ring_take(r, (char *)to + (size_t)got * r->entry_bytes,
				   nr - got);
	}
}

static _Thread_local struct rlx_cqe ring_entry;	/* or a tag */

const void *k_ring_next(struct k_ring *r)
{
	return k_ring_take(r, &ring_entry, 1) ? &ring_entry : NULL;
}

const void *k_ring_wait(struct k_ring *r)
{
	k_ring_fill(r, &ring_entry, 1);
	return &ring_entry;
}

uint32_t k_exec_entries(uint32_t depth)
{
	uint32_t n = 1;

	while (n < depth + 1024)
		n *= 2;
	return n;
}

bool k_stat_becomes(const char *name, long want)
{
	char path[96];

	snprintf(path, sizeof(path), K_TOTALS "%s", name);
	for (int i = 0; i < 60000; i++) {
		if (k_file_number(path) == want)
			return true;
		usleep(1000);
	}
	return false;
}

struct k_scene k_scene_new(const struct k_scene_opts *o)
{
	uint32_t channel = o->channel ? o->channel : o->depth;
	struct k_scene s = { .session = k_open(), .depth = o->depth };

	s.svc = k_service(s.session, 1, o->depth, o->service);
	s.ex = k_executor(s.svc, o->exec);
	s.ch = k_channel(s.session, s.svc, channel, o->chan, &s.id);
	s.desc = k_desc(s.ex, o->depth);
	if (o->exec & RLX_EXEC_RING)
		s.rq = k_map_ring(s.ex, k_exec_entries(o->depth), 4);
	if (o->chan & RLX_CHANNEL_RING)
		s.done = k_map_ring(s.ch, channel, sizeof(struct rlx_cqe));
	return s;
}

void k_scene_kill_executor(struct k_scene *s)
{
	k_undesc(s->desc, s->depth);
	k_unmap_ring(&s->rq);
	close(s->ex);
	s->desc = NULL;
	s->ex = -1;
}

void k_scene_kill_client(struct k_scene *s)
{
	k_unmap_ring(&s->done);
	close(s->ch);
	s->ch = -1;
}

void k_scene_free(struct k_scene *s)
{
	if (s->ch >= 0)
		k_scene_kill_client(s);
	if (s->ex >= 0)
		k_scene_kill_executor(s);
	close(s->svc);
	close(s->session);
	CHECK(k_stat_becomes("nr_channels", 0));
	CHECK(k_stat_becomes("nr_executors", 0));
	CHECK(k_stat_becomes("nr_services", 0));
	CHECK(k_stat_becomes("nr_slots", 0));
}

uint32_t k_fetch1(int ex)
{
	uint32_t tag = ~0u;
	long n = k_fetch(ex, &tag, 1, 1, K_SOON);

	CHECKF(n == 1, "FETCH: %ld", n);
	return tag;
}
