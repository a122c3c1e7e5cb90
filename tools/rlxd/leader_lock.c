// SPDX-License-Identifier: MIT
/* A robust lock in memory that servers share, and a thread that holds it. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/region.h"
#include "tools/rlxd/fd_store.h"
#include "tools/rlxd/leader_lock.h"
#include "tools/rlxd/region.h"

static const char name[] = "leader-lock";
static const uint64_t layout = 0x31307461626c7872;

struct leader_lock {
	uint64_t		layout, bytes;	/* another build's may differ */
	/*
	 * Who holds the first serves. Who waits for it holds the second: that is how
	 * others see that somebody waits.
	 */
	pthread_mutex_t		serve, next;
	_Atomic(uint64_t)	changes;
};

static struct leader_lock *shared;
static int ours_fd = -1;
static sem_t passed, looked;

static enum rlx_status make(struct rlx_region *r, struct rlx_error *err)
{
	enum rlx_status st = rlx_region_new(r, "rlxd-leader", sizeof(*shared), false, err);
	pthread_mutexattr_t a;
	struct leader_lock *b = r->base;

	if (st)
		return st;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&b->serve, &a);
	pthread_mutex_init(&b->next, &a);
	pthread_mutexattr_destroy(&a);
	b->layout = layout;
	b->bytes = sizeof(*b);
	return RLX_OK;
}

/* One that is kept, @fd, which is closed. */
static enum rlx_status adopt(int fd, struct rlx_region *r, struct rlx_error *err)
{
	enum rlx_status st = rlx_region_open(r, fd, sizeof(*shared), true, err);
	const struct leader_lock *b = r->base;

	close(fd);
	if (st || (b->layout == layout && b->bytes == sizeof(*b)))
		return st;
	rlx_region_fini(r);
	return rlx_fail(err, RLX_EPROTO, "what is kept as %s is of another build", name);
}

enum rlx_status leader_lock_open(struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct rlx_region r;
	uint64_t seen;
	int fd = fd_store_get(name, &seen);

	if (fd < 0) {
		st = make(&r, err);
		if (st)
			return st;
		if (!fd_store_put(name, seen, r.fd, &fd) && fd < 0)
			st = rlx_fail(err, RLX_EIO, "the fd store does not keep it");
		/* Two servers began at once: it is the first one's. */
		if (st || fd >= 0) {
			rlx_region_fini(&r);
		} else {
			close(r.fd);
			r.fd = -1;
		}
	}
	if (fd >= 0)
		st = adopt(fd, &r, err);
	if (!st)
		shared = r.base;
	return st;
}

/* Whoever held it may have died: there is nothing that it could have left half done. */
static bool is_taken(pthread_mutex_t *m, int rc)
{
	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent(m);
	return !rc;
}

static bool is_busy(pthread_mutex_t *m)
{
	if (!is_taken(m, pthread_mutex_trylock(m)))
		return true;
	pthread_mutex_unlock(m);
	return false;
}

bool leader_lock_is_held(void)
{
	return is_busy(&shared->serve);
}

bool leader_lock_is_wanted(void)
{
	return is_busy(&shared->next);
}

/* Lives as long as the process: what it holds is free when it ends. */
static void *leader_lock_main(void *ctx)
{
	bool next, ours;

	(void)ctx;
	region_thread_signals();
	next = is_taken(&shared->next, pthread_mutex_trylock(&shared->next));
	ours = next && is_taken(&shared->serve, pthread_mutex_trylock(&shared->serve));
	if (!ours) {
		sem_post(&looked);
		if (!next)
			next = is_taken(&shared->next, pthread_mutex_lock(&shared->next));
		is_taken(&shared->serve, pthread_mutex_lock(&shared->serve));
	}
	if (next)
		pthread_mutex_unlock(&shared->next);
	eventfd_write(ours_fd, 1);
	if (ours)
		sem_post(&looked);
	while (sem_wait(&passed))
		;
	pthread_mutex_unlock(&shared->serve);
	return NULL;
}

enum rlx_status leader_lock_want(int *out_fd, struct rlx_error *err)
{
	pthread_t thread;
	int rc;

	ours_fd = eventfd(0, EFD_CLOEXEC);
	if (ours_fd < 0)
		return rlx_fail(err, RLX_EIO, "eventfd: %m");
	sem_init(&passed, 0, 0);
	sem_init(&looked, 0, 0);
	rc = pthread_create(&thread, NULL, leader_lock_main, NULL);
	if (rc)
		return rlx_fail(err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
	pthread_setname_np(thread, "rlxd-leader");
	/* It may stand in line to the end: nobody can join it. */
	pthread_detach(thread);
	while (sem_wait(&looked))
		;
	*out_fd = ours_fd;
	return RLX_OK;
}

void leader_lock_pass(void)
{
	sem_post(&passed);
}

uint64_t leader_lock_changes(void)
{
	return atomic_load(&shared->changes);
}

void leader_lock_changed(void)
{
	atomic_fetch_add(&shared->changes, 1);
}
