// SPDX-License-Identifier: MIT
/*
 * The executor's side of the shm transport. The client may write anything into
 * its memory at any time: words are read once, and what they say is checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "serve/check.h"
#include "serve/service.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE	0x0010
#endif

/*
 * The word of the next request: 1 it is queued, 0 not yet there, 2 the client
 * took it back, -1 neither that nor what the round before left.
 */
static int claim_state(const struct rlx_client *cl, uint64_t word)
{
	uint64_t pos = cl->pos, old = pos - cl->depth;

	if (word == rlx_shm_seq(pos, RLX_SHM_QUEUED))
		return 1;
	if (word == rlx_shm_seq(pos, RLX_SHM_WITHDRAWN))
		return 2;
	if (pos < cl->depth)
		return word ? -1 : 0;
	return word == rlx_shm_seq(old, RLX_SHM_TAKEN) ||
	       word == rlx_shm_seq(old, RLX_SHM_WITHDRAWN) ? 0 : -1;
}

/*
 * Find the next request and make it ours; 1, 0 none, -1 nonsense. What was taken
 * back is made ours as well: until then its client may put another one there.
 */
static int claim(struct rlx_client *cl, struct rlx_shm_desc **out)
{
	uint32_t tries;

	for (tries = 0; tries <= cl->depth; tries++) {
		struct rlx_shm_desc *d = &cl->a->desc[cl->pos & (cl->depth - 1)];
		uint64_t word = atomic_load_explicit(&d->w[RLX_DW_SEQ],
						     memory_order_relaxed);
		int state = claim_state(cl, word);

		if (state <= 0)
			return state;
		if (!atomic_compare_exchange_strong_explicit(
			    &d->w[RLX_DW_SEQ], &word,
			    rlx_shm_seq(cl->pos, RLX_SHM_TAKEN),
			    memory_order_acq_rel, memory_order_relaxed))
			continue;	/* taken back, or put there, just now */
		cl->pos++;
		*out = d;
		if (state == 1)
			return 1;
		/* Let the client use the slot again. */
		atomic_store_explicit(&cl->b->head, cl->pos, memory_order_release);
	}
	return 0;	/* it changes its mind as fast as we look: others' turn */
}

static uint32_t low(uint64_t w)
{
	return (uint32_t)w;
}

static uint32_t high(uint64_t w)
{
	return (uint32_t)(w >> 32);
}

static void read_slices(struct rlx_shm_desc *d, struct rlx_request_slice *s,
			uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		_Atomic uint64_t *w = &d->w[RLX_DW_SLICE + 3 * i];
		uint64_t ids = rlx_shm_get(&w[0]);

		s[i] = (struct rlx_request_slice){
			low(ids), high(ids), rlx_shm_get(&w[1]),
			rlx_shm_get(&w[2]),
		};
	}
}

/* Copy a descriptor, each word once, and judge it; 0 or why it is refused. */
static int32_t read_desc(struct rlx_client *cl, struct rlx_shm_desc *d,
			 struct rlx_job *job)
{
	struct rlx_request_slice slice[RLX_REQUEST_SLICES_MAX];
	uint32_t max = cl->svc->opts.slices_max, in_desc, i;
	struct rlx_work *w = &job->pub;
	uint64_t v = rlx_shm_get(&d->w[RLX_DW_TAG]);
	int32_t st;

	job->tag = low(v);
	job->gen = high(v);
	v = rlx_shm_get(&d->w[RLX_DW_OP]);
	w->opcode = low(v);
	w->flags = high(v);
	w->user_data = rlx_shm_get(&d->w[RLX_DW_USER]);
	w->deadline_ns = rlx_shm_get(&d->w[RLX_DW_DEADLINE]);
	v = rlx_shm_get(&d->w[RLX_DW_COUNT]);
	w->nr_slices = low(v);
	w->inline_len = high(v);
	st = rlx_check_head(w->opcode, w->flags, w->nr_slices, w->inline_len,
			    max);
	if (st) {
		w->nr_slices = w->inline_len = 0;
		return st;
	}
	for (i = 0; i < w->inline_len; i += 8) {
		v = rlx_shm_get(&d->w[RLX_DW_INLINE + i / 8]);
		memcpy(job->inline_data + i, &v, sizeof(v));
	}
	in_desc = w->flags & RLX_REQUEST_INDIRECT ? 1 : w->nr_slices;
	read_slices(d, slice, in_desc);
	if (w->flags & RLX_REQUEST_INDIRECT)
		return rlx_job_indirect(cl, job, slice);
	return rlx_job_resolve(cl, job, slice, w->nr_slices);
}

static int shm_take(struct rlx_client *cl, struct rlx_job *job)
{
	struct rlx_shm_desc *d = NULL;
	int rc = claim(cl, &d);

	if (rc < 0)
		rlx_client_cut(cl, "request %llu: its slot holds what no client "
			       "writes there", (unsigned long long)cl->pos);
	if (rc <= 0)
		return rc;
	job->pub.kind = RLX_WORK_REQUEST;
	job->pub.aux = 0;
	job->pub.priv = NULL;
	job->nr_leases = 0;
	job->pub.result = read_desc(cl, d, job);
	if (job->tag >= cl->depth) {
		rlx_job_unlease(cl, job);
		rlx_client_cut(cl, "request %llu: tag %u of %u",
			       (unsigned long long)cl->pos - 1, job->tag, cl->depth);
		return -1;
	}
	if (!job->pub.result && job->pub.deadline_ns &&
	    rlx_now() >= job->pub.deadline_ns)
		job->pub.result = -ETIME;
	return 1;
}

static bool shm_some(struct rlx_client *cl)
{
	struct rlx_shm_desc *d = &cl->a->desc[cl->pos & (cl->depth - 1)];
	uint64_t word = atomic_load_explicit(&d->w[RLX_DW_SEQ],
					     memory_order_relaxed);

	return claim_state(cl, word) != 0;
}

static void shm_taken(struct rlx_client *cl)
{
	atomic_store_explicit(&cl->b->head, cl->pos, memory_order_release);
}

static void shm_reply(struct rlx_client *cl, const struct rlx_job *job,
		      int32_t result, uint32_t flags)
{
	uint64_t n = cl->replies++;
	struct rlx_shm_reply *r = &cl->b->reply[n & (cl->depth - 1)];

	rlx_shm_set(&r->w[RLX_RW_TAG], rlx_shm_pair(job->tag, job->gen));
	rlx_shm_set(&r->w[RLX_RW_RESULT], rlx_shm_pair((uint32_t)result, flags));
	rlx_shm_set(&r->w[RLX_RW_AUX], job->pub.aux);
	atomic_store_explicit(&r->w[RLX_RW_SEQ], n + 1, memory_order_release);
	cl->touched = true;
}

static void shm_ring(struct rlx_client *cl)
{
	/* Pairs with the client: it raises the flag, then looks for replies. */
	rlx_shm_fence();
	if (!atomic_load_explicit(&cl->a->need_wakeup, memory_order_relaxed))
		return;
	cl->q->st.bells++;
	rlx_bell_ring(cl->bell);
}

static bool shm_cancelled(const struct rlx_job *job)
{
	const struct rlx_client *cl = job->cl;

	return atomic_load_explicit(rlx_shm_cancel(cl->a, cl->depth, job->tag),
				    memory_order_relaxed) == job->gen;
}

static enum rlx_status shm_open(struct rlx_client *cl, struct rlx_wire_msg *m,
				int *fds, unsigned int *nr,
				struct rlx_error *err)
{
	enum rlx_status st;
	int bell[2];

	st = rlx_region_new(&cl->mem_client, "rlx-ring-client",
			    rlx_shm_client_bytes(cl->depth), false, err);
	if (st)
		return st;
	st = rlx_region_new(&cl->mem_service, "rlx-ring-service",
			    rlx_shm_service_bytes(cl->depth), true, err);
	if (st)
		goto out_client;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bell)) {
		st = rlx_fail(err, RLX_ENOMEM, "socketpair: %s",
			      strerror(errno));
		goto out_service;
	}
	cl->a = cl->mem_client.base;
	cl->b = cl->mem_service.base;
	cl->pos = cl->replies = 0;
	cl->bell = bell[0];
	fds[RLX_FD_CLIENT] = cl->mem_client.fd;
	fds[RLX_FD_SERVICE] = cl->mem_service.fd;
	fds[RLX_FD_QUEUE] = cl->q->page.fd;
	fds[RLX_FD_BELL] = bell[1];
	*nr = RLX_WIRE_FDS;
	return RLX_OK;

out_service:
	rlx_region_fini(&cl->mem_service);
out_client:
	rlx_region_fini(&cl->mem_client);
	return st;
}

static void shm_sent(struct rlx_client *cl, int *fds)
{
	close(fds[RLX_FD_BELL]);
	close(cl->mem_client.fd);
	close(cl->mem_service.fd);
	cl->mem_client.fd = cl->mem_service.fd = -1;
}

static void shm_close(struct rlx_client *cl)
{
	if (!cl->a)
		return;
	close(cl->bell);
	rlx_region_fini(&cl->mem_client);
	rlx_region_fini(&cl->mem_service);
	cl->a = NULL;
	cl->b = NULL;
}

/*
 * May it be mapped? Asked without entering its file system: the server of a FUSE
 * file could let fstat() hang. Only a memfd can be sealed against shrinking, and
 * one that is cannot make us fault; but a hole punched into huge pages that the
 * pool cannot fill again would, so those must not be the client's to punch.
 */
static bool shm_arena(struct rlx_client *cl, struct rlx_wire_msg *m, int *fd,
		      const char **why)
{
	int seals = *fd < 0 ? -1 : fcntl(*fd, F_GET_SEALS);
	struct statfs fs;
	struct stat s;

	if (seals < 0) {
		m->bytes = 0;
		*why = "not the memory of an arena";
		if (*fd >= 0 && rlx_fd_is_kmod(*fd, "arena"))
			return true;
		if (*fd >= 0 && errno != EPROTO)
			*why = "the service cannot look into /proc now what it is";
		return false;
	}
	*why = "it may shrink: seal it with F_SEAL_SHRINK";
	if (!(seals & F_SEAL_SHRINK))
		return false;
	*why = "it is empty";
	if (fstat(*fd, &s) || fstatfs(*fd, &fs) || s.st_size <= 0)
		return false;
	*why = "hugetlb memory of another user must be sealed against writing";
	if ((uint32_t)fs.f_type == HUGETLBFS_MAGIC &&
	    !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) &&
	    cl->peer.uid && cl->peer.uid != cl->svc->uid)
		return false;
	m->bytes = (uint64_t)s.st_size;
	return true;
}

const struct rlx_service_ops rlx_service_shm = {
	.name	   = "shm",
	.wire	   = RLX_WIRE_SHM,
	.take	   = shm_take,
	.some	   = shm_some,
	.taken	   = shm_taken,
	.reply	   = shm_reply,
	.ring	   = shm_ring,
	.cancelled = shm_cancelled,
	.open	   = shm_open,
	.arena	   = shm_arena,
	.close	   = shm_close,
	.sent	   = shm_sent,
};
