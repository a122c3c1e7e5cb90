// SPDX-License-Identifier: MIT
/*
 * Sums in the memory of GPUs, by NCCL or RCCL. Its communicator does not block: whoever waits
 * looks after the other ranks meanwhile. A run that is in its kernels waits in the driver, so
 * a thread looks after them as well, and aborts the communicator, which ends the kernels.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "train/comm.h"

/* As NCCL has them. Of its configuration the members that 2.18 has, which @size says. */
enum { NCCL_IN_PROGRESS = 7, NCCL_SUM = 0, NCCL_OLDEST = 21800, NCCL_UNDEFINED = INT_MIN };

struct nccl_id {
	char		b[COMM_WORD];
};

struct nccl_config {
	size_t		size;
	unsigned int	magic, version;
	int		blocking, cluster, least_blocks, most_blocks;
	const char	*net;
	int		split_share;
};

struct nccl {
	struct {
#define NCCL_CALL(result, name, symbol, ...) result (*name)(__VA_ARGS__);
#include "train/nccl.def"
	} api;
	void		*lib;
	int		 version;
	struct nccl_id	 id;
	struct rlx_comm	 watch;		/* the thread's own view of the others */
	pthread_t	 thread;
	pthread_mutex_t	 lock;		/* guards what follows, and calls on @comm */
	pthread_cond_t	 woken;
	bool		 running, stop, aborted;
	void		*comm;		/* made by the first sum */
	uint64_t	 since;		/* when a sum was begun that nobody has waited for; 0 */
};

static const char *name_of(const struct rlx_comm *c)
{
	return c->kind == RLX_COMM_RCCL ? "rccl" : "nccl";
}

/* A number of NCCL's, with its own words; unless a rank's end is the reason. */
static enum rlx_status check(struct rlx_comm *c, int rc, const char *what)
{
	struct nccl *n = c->nccl;
	const char *last = NULL;

	if (!rc || comm_look(c))
		return c->err.status;
	pthread_mutex_lock(&n->lock);
	if (n->comm)
		last = n->api.last(n->comm);
	pthread_mutex_unlock(&n->lock);
	return comm_failed(c, RLX_EIO, "rank %u: %s: %s: %s (%d)%s%.80s", c->collective.rank,
			   name_of(c), what, n->api.text(rc), rc, last && *last ? ": " : "",
			   last ? last : "");
}

/* ---- the library ---- */

static enum rlx_status open_library(struct rlx_comm *c, struct rlx_error *err)
{
	static const char *const symbol[] = {
#define NCCL_CALL(result, name, symbol, ...) symbol,
#include "train/nccl.def"
	};
	const char *own = getenv("RLX_NCCL");
	const char *file = own && *own ? own : c->kind == RLX_COMM_RCCL ? "librccl.so.1" :
			   "libnccl.so.2";
	struct nccl *n = c->nccl;
	unsigned int i;
	void *p;

	_Static_assert(sizeof(n->api) == sizeof(symbol), "one pointer each");
	n->lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!n->lib)
		return rlx_fail(err, RLX_ENODEV, "communicator: %s cannot be opened: %.120s; "
				"RLX_NCCL names another file", file, dlerror());
	for (i = 0; i < sizeof(symbol) / sizeof(symbol[0]); i++) {
		p = dlsym(n->lib, symbol[i]);
		if (!p)
			return rlx_fail(err, RLX_ENODEV, "communicator: %s has no %s: 2.18 is the "
					"oldest that will do", file, symbol[i]);
		memcpy((char *)&n->api + i * sizeof(p), &p, sizeof(p));
	}
	if (n->api.version(&n->version) || n->version < NCCL_OLDEST)
		return rlx_fail(err, RLX_ENODEV, "communicator: %s is version %d; %d (2.18) is the "
				"oldest that will do", file, n->version, NCCL_OLDEST);
	return RLX_OK;
}

enum rlx_status comm_nccl_open(struct rlx_comm *c, struct rlx_error *err)
{
	c->nccl = rlx_calloc(1, sizeof(*c->nccl));
	if (!c->nccl)
		return rlx_fail(err, RLX_ENOMEM, "communicator: out of memory");
	pthread_mutex_init(&c->nccl->lock, NULL);
	rlx_cond_init(&c->nccl->woken);
	return open_library(c, err);
}

/* ---- the thread that looks after the others ---- */

enum { LOOK_NS = 100000000 };

/* The lock is held. Kernels that wait for others end by this. */
static void abort_comm(struct nccl *n)
{
	n->aborted = true;
	if (n->comm)
		n->api.cancel(n->comm);
	n->comm = NULL;
}

static void *watch_main(void *arg)
{
	struct nccl *n = arg;
	struct rlx_comm *w = &n->watch;
	uint64_t at, was;

	pthread_mutex_lock(&n->lock);
	while (!n->stop && !n->aborted) {
		was = rlx_now();
		at = was + LOOK_NS;
		pthread_cond_timedwait(&n->woken, &n->lock, &(struct timespec){
			.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000) });
		if (n->stop)
			break;
		if (n->since)
			n->since += comm_stopped(was, rlx_now());
		if (n->since && rlx_now() > n->since + w->timeout)
			comm_failed(w, RLX_ETIME, "rank %u waits for a sum longer than %.3g s: a "
				    "rank does not come to it", w->collective.rank,
				    (double)w->timeout * 1e-9);
		if (comm_look(w))
			abort_comm(n);
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

enum rlx_status comm_nccl_begin(struct rlx_comm *c)
{
	struct comm_tag tag = { .what = COMM_BROADCAST, .count = sizeof(struct nccl_id) };
	struct nccl *n = c->nccl;
	int rc = c->collective.rank ? 0 : n->api.new_id(&n->id);
	enum rlx_status st;

	if (rc)
		return check(c, rc, "making an id");
	st = comm_meet(c, tag, &n->id, sizeof(n->id));
	if (st)
		return st;
	memcpy(&n->id, comm_word(c, 0), sizeof(n->id));
	n->watch = *c;
	n->watch.meetings = 0;
	memset(n->watch.pidfd, -1, sizeof(n->watch.pidfd));
	if (rlx_thread_new(&n->thread, watch_main, n))
		return comm_failed(c, RLX_ENOMEM, "rank %u: no thread could be started",
				   c->collective.rank);
	n->running = true;
	return RLX_OK;
}

/* ---- sums ---- */

/* Until what was begun is no longer in progress; what came of it. */
static enum rlx_status settle(struct rlx_comm *c, int rc, const char *what)
{
	struct nccl *n = c->nccl;
	uint64_t from = rlx_now(), nap = 1000;
	enum rlx_status st = RLX_OK;

	while (!st && rc == NCCL_IN_PROGRESS) {
		pthread_mutex_lock(&n->lock);
		if (!n->comm || n->api.state(n->comm, &rc))
			rc = n->comm ? rc : NCCL_IN_PROGRESS;	/* aborted: comm_look() knows why */
		pthread_mutex_unlock(&n->lock);
		if (rc != NCCL_IN_PROGRESS)
			break;
		st = comm_look(c);
		if (!st && rlx_now() - from > c->timeout)
			st = comm_failed(c, RLX_ETIME, "rank %u: %s: %s takes longer than %.3g s",
					 c->collective.rank, name_of(c), what,
					 (double)c->timeout * 1e-9);
		if (rlx_now() - from > 100000)
			nanosleep(&(struct timespec){ .tv_nsec = (long)nap }, NULL);
		nap = nap < 1000000 ? 2 * nap : nap;
	}
	return st ? st : check(c, rc, what);
}

/* On the device whose context is this thread's. */
static enum rlx_status begin(struct rlx_comm *c)
{
	struct nccl_config how = {
		.size = sizeof(how), .magic = 0xcafebeef, .version = NCCL_OLDEST, .blocking = 0,
		.cluster = NCCL_UNDEFINED, .least_blocks = NCCL_UNDEFINED,
		.most_blocks = NCCL_UNDEFINED, .split_share = NCCL_UNDEFINED,
	};
	struct nccl *n = c->nccl;
	int rc;

	pthread_mutex_lock(&n->lock);
	rc = n->aborted ? NCCL_IN_PROGRESS :
	     n->api.begin(&n->comm, (int)c->collective.ranks, n->id, (int)c->collective.rank, &how);
	pthread_mutex_unlock(&n->lock);
	return settle(c, rc, "beginning");
}

static int type_of(enum rlx_dtype dt)
{
	switch (dt) {
	case RLX_I32:
		return 2;
	case RLX_I64:
		return 4;
	case RLX_F32:
		return 7;
	case RLX_F64:
		return 8;
	default:
		return -1;
	}
}

/* The lock is held. */
static int put(struct nccl *n, int what, const struct rlx_reduction *r)
{
	/* nothing is computed of what is gathered: bytes, ncclInt8 */
	if (what == COMM_GATHER)
		return n->api.all_gather(r->src, r->dst, r->count * rlx_dtype_size(r->dtype), 0,
					 n->comm, r->stream);
	return (what == COMM_SUM ? n->api.all_reduce : n->api.reduce_scatter)(
		r->src, r->dst, r->count, type_of(r->dtype), NCCL_SUM, n->comm, r->stream);
}

enum rlx_status comm_nccl_run(struct rlx_comm *c, int what, const struct rlx_reduction *r)
{
	struct comm_seat *seat = &c->sh->seat[c->collective.rank];
	struct nccl *n = c->nccl;
	enum rlx_status st = RLX_OK;
	bool first;
	int rc;

	if (what != COMM_GATHER && type_of(r->dtype) < 0)
		return comm_failed(c, RLX_ETYPE, "sums are of f64, f32, i64 and i32, not %s",
				   rlx_dtype_name(r->dtype));
	atomic_fetch_add(&seat->sums, 1);
	pthread_mutex_lock(&n->lock);
	first = !n->comm;
	pthread_mutex_unlock(&n->lock);
	if (first)
		st = begin(c);
	if (st)
		return st;
	pthread_mutex_lock(&n->lock);
	n->since = n->since ? n->since : rlx_now();
	rc = n->aborted ? NCCL_IN_PROGRESS : put(n, what, r);
	pthread_mutex_unlock(&n->lock);
	return settle(c, rc, what == COMM_GATHER ? "a gathering" : "a sum");
}

enum rlx_status comm_nccl_ended(struct rlx_comm *c)
{
	struct nccl *n = c->nccl;
	bool aborted;
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	n->since = 0;
	aborted = n->aborted;
	if (n->comm && n->api.state(n->comm, &rc))
		rc = rc ? rc : 1;
	pthread_mutex_unlock(&n->lock);
	if (aborted && comm_look(c))
		return c->err.status;
	return rc == NCCL_IN_PROGRESS ? settle(c, rc, "a run") : check(c, rc, "a run");
}

void comm_nccl_close(struct rlx_comm *c)
{
	struct nccl *n = c->nccl;
	int rc = 0;

	pthread_mutex_lock(&n->lock);
	if (n->comm && !c->err.status)		/* all that was begun ends first */
		rc = n->api.finalize(n->comm);
	pthread_mutex_unlock(&n->lock);
	if (rc)
		settle(c, rc, "ending");
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_signal(&n->woken);
	pthread_mutex_unlock(&n->lock);
	if (n->running)
		pthread_join(n->thread, NULL);
	if (n->comm && !c->err.status)
		n->api.destroy(n->comm);
	else
		abort_comm(n);
	for (rc = 0; n->running && rc < COMM_MOST; rc++)
		if (n->watch.pidfd[rc] >= 0)
			close(n->watch.pidfd[rc]);
	pthread_cond_destroy(&n->woken);
	pthread_mutex_destroy(&n->lock);
	rlx_free(n);	/* the library stays: it has threads of its own */
}
