// SPDX-License-Identifier: MIT
/*
 * Which rank a process is, by what launchers put into the environment, and how ranks find each
 * other: rank 0 makes the arena and listens at an abstract Unix socket until all others have its
 * descriptor. Nothing of it is left behind, however they end.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "train/comm.h"

/* @hosts: how many there are; or @local: ranks of this one. @job: names what they are of. */
static const struct launcher {
	const char	*rank, *ranks, *local, *hosts, *job[2];
} launchers[] = {
	{ "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", NULL, { "MASTER_ADDR", "MASTER_PORT" } },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL,
	  { "PMIX_NAMESPACE", NULL } },
	{ "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, { "PMI_JOBID", NULL } },
	{ "SLURM_PROCID", "SLURM_NTASKS", NULL, "SLURM_NNODES",
	  { "SLURM_JOB_ID", "SLURM_STEP_ID" } },
};

/* False: it is no number. *@out stays if the variable is not set. */
static bool number(const char *name, unsigned long *out)
{
	const char *s = name ? getenv(name) : NULL;
	char *end;

	if (!s)
		return true;
	errno = 0;
	*out = strtoul(s, &end, 10);
	return *s >= '0' && *s <= '9' && !*end && !errno;
}

/* NULL: none has started this process. */
static const struct launcher *find_launcher(void)
{
	unsigned int i;

	for (i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		if (getenv(launchers[i].rank))
			return &launchers[i];
	return NULL;
}

enum rlx_status comm_launched(unsigned int *rank, unsigned int *ranks, struct rlx_error *err)
{
	const struct launcher *l = find_launcher();
	unsigned long r = 0, n = 0, local = 0, hosts = 1;
	const char *bad;

	*rank = 0;
	*ranks = 1;
	if (!l && getenv("WORLD_SIZE") && strcmp(getenv("WORLD_SIZE"), "1"))
		return rlx_fail(err, RLX_EINVAL, "communicator: WORLD_SIZE is '%s' and RANK not "
				"set; set both, or neither", getenv("WORLD_SIZE"));
	if (!l)
		return RLX_OK;
	if (!getenv(l->ranks) || !number(l->rank, &r) || !number(l->ranks, &n) || r >= n)
		return rlx_fail(err, RLX_EINVAL, "communicator: %s is '%s' and %s '%s'; they are a "
				"rank and how many there are: set both, or neither", l->rank,
				getenv(l->rank), l->ranks,
				getenv(l->ranks) ? getenv(l->ranks) : "not set");
	bad = !number(l->local, &local) ? l->local : !number(l->hosts, &hosts) ? l->hosts : NULL;
	if (bad)
		return rlx_fail(err, RLX_EINVAL, "communicator: %s is '%s', no number", bad,
				getenv(bad));
	if ((local && local != n) || hosts > 1)
		return rlx_fail(err, RLX_ENOSUP, "communicator: the %lu ranks are of several hosts "
				"(%s); all must be of one", n, local ? l->local : l->hosts);
	if (n > COMM_MOST)
		return rlx_fail(err, RLX_EINVAL, "communicator: %lu ranks; a host has %d at most",
				n, COMM_MOST);
	*rank = (unsigned int)r;
	*ranks = (unsigned int)n;
	return RLX_OK;
}

/* ---- meeting by name ---- */

/* An abstract address: gone with the process. It is the user's. Long names differ by their hash. */
static socklen_t address(const char *name, struct sockaddr_un *a)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "rlx-comm-%u-%.60s-%llx", geteuid(),
		 name, (unsigned long long)rlx_hash_bytes(name, strlen(name), 1));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a->sun_path + 1));
}

static bool is_own_user(int fd)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) && u.uid == geteuid();
}

static bool send_fd(int to, int fd)
{
	union {
		struct cmsghdr	h;
		char		room[CMSG_SPACE(sizeof(int))];
	} u = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	struct iovec v = { "", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof(u.room) };

	memcpy(CMSG_DATA(&u.h), &fd, sizeof(fd));
	return sendmsg(to, &m, MSG_NOSIGNAL) == 1;
}

/* -1: none came. */
static int receive_fd(int from)
{
	union {
		struct cmsghdr	h;
		char		room[CMSG_SPACE(sizeof(int))];
	} u = { .h.cmsg_len = 0 };
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof(u.room) };
	int fd = -1;

	if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) == 1 && m.msg_controllen >= sizeof(u.h) &&
	    u.h.cmsg_level == SOL_SOCKET && u.h.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&u.h), sizeof(fd));
	return fd;
}

/* Rank 0: hand the arena to all others. */
static enum rlx_status serve(struct rlx_comm *c, int s)
{
	uint64_t until = rlx_now() + c->timeout;
	struct pollfd p = { .fd = s, .events = POLLIN };
	unsigned int n = 1;
	int to;

	while (n < c->collective.ranks && !comm_look(c)) {
		if (rlx_now() > until)
			return comm_too_late(c);
		if (poll(&p, 1, 50) <= 0)
			continue;
		to = accept4(s, NULL, NULL, SOCK_CLOEXEC);
		if (to >= 0 && is_own_user(to) && send_fd(to, rlx_arena_fd(c->arena)))
			n++;
		if (to >= 0)
			close(to);
	}
	return c->err.status;
}

static enum rlx_status make(struct rlx_comm *c, const char *name, struct rlx_error *err)
{
	enum rlx_status st = rlx_comm_arena(c->collective.ranks, &c->arena, err);
	struct sockaddr_un a;
	socklen_t len = address(name, &a);
	int s;

	if (st || c->collective.ranks == 1)
		return st;
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s < 0)
		return rlx_fail(err, RLX_EIO, "communicator: socket: %s", strerror(errno));
	if (bind(s, (struct sockaddr *)&a, len) || listen(s, COMM_MOST))
		st = rlx_fail(err, errno == EADDRINUSE ? RLX_EEXIST : RLX_EIO, "communicator: "
			      "rank 0 cannot listen as '%s': %s; take another MASTER_PORT or name",
			      a.sun_path + 1, strerror(errno));
	/* it has its seat before others come, so that they see it if it dies meanwhile */
	if (!st)
		st = comm_sit_down(c, err);
	if (!st && serve(c, s))
		st = rlx_error_set(err, c->err.status, c->err.file, c->err.line, "%s", c->err.text);
	close(s);
	return st;
}

/* Another rank: ask until rank 0 is there. */
static enum rlx_status ask(struct rlx_comm *c, const char *name, struct rlx_error *err)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	uint64_t until = rlx_now() + c->timeout;
	struct timeval most = { .tv_sec = (time_t)(c->timeout / 1000000000) + 1 };
	struct sockaddr_un a;
	socklen_t len = address(name, &a);
	enum rlx_status st;
	int s, fd = -1;

	while (fd < 0) {
		if (rlx_now() > until)
			return rlx_fail(err, RLX_ETIME, "communicator: rank %u found no rank 0 "
					"within %.3g s: start it, as the same user and with the "
					"same MASTER_ADDR and MASTER_PORT, or name",
					c->collective.rank, (double)c->timeout * 1e-9);
		s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (s < 0)
			return rlx_fail(err, RLX_EIO, "communicator: socket: %s", strerror(errno));
		setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
		setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));	/* connect()'s */
		if (!connect(s, (struct sockaddr *)&a, len) && is_own_user(s))
			fd = receive_fd(s);
		close(s);
		if (fd < 0)
			nanosleep(&nap, NULL);
	}
	st = rlx_arena_open_fd(fd, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &c->arena, err);
	close(fd);
	return st;
}

/* ---- all of it ---- */

static enum rlx_status inherited(struct rlx_comm *c, struct rlx_error *err)
{
	unsigned long fd = 0;

	if (!number("RLX_COMM_FD", &fd) || fd > INT32_MAX)
		return rlx_fail(err, RLX_EINVAL, "communicator: RLX_COMM_FD is '%s', no descriptor",
				getenv("RLX_COMM_FD"));
	return rlx_arena_open_fd((int)fd, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &c->arena, err);
}

/* What all ranks, and no others, are called by the variables @job, in @name. */
static bool job_name(const char *const job[2], char *name, size_t room)
{
	const char *a = getenv(job[0]), *b = job[1] ? getenv(job[1]) : "";

	return a && b && snprintf(name, room, "%s-%s", a, b) < (int)room;
}

/* Where ranks meet: an arena that they have, or get by name. */
static enum rlx_status find_arena(struct rlx_comm *c, const struct rlx_comm_opts *o,
				  struct rlx_error *err)
{
	const struct launcher *l = o->ranks ? NULL : find_launcher();
	const char *name = o->name;
	char job[600];

	if (o->arena) {
		c->arena = rlx_arena_get(o->arena);
		return RLX_OK;
	}
	if (!o->ranks && getenv("RLX_COMM_FD"))
		return inherited(c, err);
	if (!name && ((l && job_name(l->job, job, sizeof(job))) ||
		      job_name(launchers[0].job, job, sizeof(job))))
		name = job;
	if (!name && c->collective.ranks > 1)
		return rlx_fail(err, RLX_EINVAL, "communicator: %u ranks have no name to find each "
				"other by; set MASTER_ADDR and MASTER_PORT, or opts.name",
				c->collective.ranks);
	return c->collective.rank ? ask(c, name, err) : make(c, name ? name : "", err);
}

enum rlx_status comm_find(struct rlx_comm *c, const struct rlx_comm_opts *o,
			  struct rlx_error *err)
{
	unsigned int rank = o->rank, ranks = o->ranks;
	enum rlx_status st = ranks ? RLX_OK : comm_launched(&rank, &ranks, err);

	if (st)
		return st;
	if (rank >= ranks || ranks > COMM_MOST)
		return rlx_fail(err, RLX_EINVAL, "communicator: rank %u of %u; there are %d at "
				"most", rank, ranks, COMM_MOST);
	c->collective.rank = rank;
	c->collective.ranks = ranks;
	st = find_arena(c, o, err);
	return st || c->sh ? st : comm_sit_down(c, err);
}
