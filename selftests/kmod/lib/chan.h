/* SPDX-License-Identifier: MIT */
/* Services, executors and channels as tests call them; negative errno on failure. */
#ifndef RLX_KMOD_CHAN_H
#define RLX_KMOD_CHAN_H

#include <linux/rlx.h>
#include <stdbool.h>
#include <stdint.h>

#define K_EVER	UINT64_MAX
#define K_MS	1000000ull
/* For what must come: long after a machine with much else to do would have it. */
#define K_SOON	(60000 * K_MS)

/* Descriptors; fail the test where they are refused. */
int k_service(int session, uint32_t queues, uint32_t depth, uint32_t flags);
int k_executor(int service, uint32_t flags);
int k_channel(int session, int service, uint32_t depth, uint32_t flags, uint32_t *id);

/* The same without failing. */
long k_try_service(int session, uint32_t queues, uint32_t depth, uint32_t flags);
long k_try_executor(int service, uint32_t flags);
/* EXECUTOR_ATTACH until the last executor is quite gone. */
int k_next_executor(int service, uint32_t flags);

/* Handle, or negative errno. */
long k_attach(int ch, int fd, uint32_t access);
long k_detach(int ch, uint32_t handle);

long k_submit(int ch, const struct rlx_rq *rq, uint32_t nr, struct rlx_rq_id *ids);
long k_cancel(int ch, uint32_t tag, uint64_t seq);
long k_reap(int ch, struct rlx_cqe *cqe, uint32_t max, uint32_t min, uint64_t timeout);

long k_fetch(int ex, uint32_t *tags, uint32_t max, uint32_t min, uint64_t timeout);
long k_commit(int ex, const struct rlx_complete *c, uint32_t nr, int32_t *errors);
/* Commits one; @desc is the executor's array. */
long k_commit1(int ex, const struct rlx_desc *desc, uint32_t tag, int32_t result,
	       uint64_t aux);
int k_exec_arena(int ex, uint32_t channel, uint32_t handle,
		 struct rlx_ioc_exec_arena *out);
long k_events(int ex, uint32_t channel, struct rlx_event *ev, uint32_t max);

struct rlx_ioc_service_info k_info(int fd);

/* The descriptors of queue 0, mapped for reading. */
const struct rlx_desc *k_desc(int ex, uint32_t depth);
void k_undesc(const struct rlx_desc *desc, uint32_t depth);

/* A request of nothing, with opcode @op and user_data @data. */
struct rlx_rq k_rq(uint32_t op, uint64_t data);

/* The rings of an executor's queue 0 (@bytes of an entry 4) or of a channel (32). */
struct k_ring {
	struct rlx_ring *ring;
	struct rlx_ring_user *user;
	void *entry;
	uint32_t head;
	uint32_t entries;
	uint32_t entry_bytes;
	size_t bytes;
};
struct k_ring k_map_ring(int fd, uint32_t entries, uint32_t entry_bytes);
void k_unmap_ring(struct k_ring *r);
/* Copies of the next entries there are, at most @max; how many. */
uint32_t k_ring_take(struct k_ring *r, void *to, uint32_t max);
/* The next @nr entries; spins, and fails the test after some seconds. */
void k_ring_fill(struct k_ring *r, void *to, uint32_t nr);
/* A copy of the next entry, good until this thread asks again, or NULL. */
const void *k_ring_next(struct k_ring *r);
/* The same by k_ring_fill(). */
const void *k_ring_wait(struct k_ring *r);
/* Entries the ring of an executor has, for a service of depth @depth. */
uint32_t k_exec_entries(uint32_t depth);

/* A session with a service of one queue, its executor, and one channel. */
struct k_scene {
	int session, svc, ex, ch;
	uint32_t id;		/* of the channel */
	uint32_t depth;		/* of the service */
	const struct rlx_desc *desc;
	struct k_ring rq, done;	/* of the executor and the channel that have one */
};

struct k_scene_opts {
	uint32_t depth;		/* of the service */
	uint32_t channel;	/* depth of the channel; 0: the same */
	uint32_t service, exec, chan;	/* flags */
};

struct k_scene k_scene_new(const struct k_scene_opts *o);
/* Closes one end, with what is mapped of it. */
void k_scene_kill_executor(struct k_scene *s);
void k_scene_kill_client(struct k_scene *s);
/* Closes what is left; fails the test unless the module has forgotten all of it. */
void k_scene_free(struct k_scene *s);
/* One tag, within some seconds. */
uint32_t k_fetch1(int ex);

/* Waits until /sys/class/misc/rlx/@name reads @want; false after a minute. */
bool k_stat_becomes(const char *name, long want);

#endif
