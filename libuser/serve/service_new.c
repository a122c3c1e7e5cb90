// SPDX-License-Identifier: MIT
/* Making and freeing a service. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/service.h"

enum { QUEUES_MAX = 64, CLIENTS_MAX = 65536, IDS_MAX = 65536 };

static uint64_t memory_quarter(void)
{
	struct sysinfo si;

	if (sysinfo(&si))
		return 1ull << 32;
	return (uint64_t)si.totalram * si.mem_unit / 4;
}

static void set_default(uint32_t *v, uint32_t def)
{
	if (!*v)
		*v = def;
}

static enum rlx_status fill_opts(struct rlx_service_opts *o,
				 const struct rlx_service_opts *in,
				 struct rlx_error *err)
{
	const uint32_t known = RLX_SERVICE_LISTEN_FD | RLX_SERVICE_ANY_USER |
			       RLX_SERVICE_EVENTS;
	unsigned int i;

	if (!in || in->size != sizeof(*o))
		return rlx_fail(err, RLX_EINVAL,
				"service: opts is NULL, or its size is not set");
	*o = *in;
	if (!o->address || o->flags & ~known ||
	    (o->nr_uids && !o->uids) || o->nr_uids > IDS_MAX ||
	    (o->nr_gids && !o->gids) || o->nr_gids > IDS_MAX)
		return rlx_fail(err, RLX_EINVAL,
				"service: no address, an unknown flag, uids or gids");
	for (i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return rlx_fail(err, RLX_EINVAL,
					"service: reserved[%u] is not 0", i);
	set_default(&o->mode, 0600);
	set_default(&o->queues, 1);
	set_default(&o->depth_max, 256);
	set_default(&o->clients_max, 1024);
	set_default(&o->arenas_max, 16);
	set_default(&o->slices_max, RLX_REQUEST_SLICES);
	set_default(&o->quantum, 8);
	if (!o->client_bytes)
		o->client_bytes = memory_quarter();
	if (o->queues > QUEUES_MAX || o->clients_max > CLIENTS_MAX ||
	    o->depth_max & (o->depth_max - 1) ||
	    o->depth_max > RLX_CHANNEL_DEPTH_MAX ||
	    o->arenas_max > RLX_CHANNEL_ARENAS_MAX ||
	    o->slices_max < RLX_REQUEST_SLICES ||
	    o->slices_max > RLX_REQUEST_SLICES_MAX || o->mode & ~0777u)
		return rlx_fail(err, RLX_EINVAL,
				"service: queues %u, depth_max %u, clients_max %u, "
				"arenas_max %u, slices_max %u, mode %o: out of "
				"bounds", o->queues, o->depth_max,
				o->clients_max, o->arenas_max, o->slices_max,
				o->mode);
	return RLX_OK;
}

/*
 * "kmod" wants that and nothing else. Without a wish it is an addition, which is
 * there or not; what speaks against it is told by 'rlx doctor'.
 */
static enum rlx_status pick_transport(struct rlx_service *svc,
				      struct rlx_error *err)
{
	const char *name = svc->opts.transport;
	enum rlx_status st = RLX_OK;
	uint32_t i;

	svc->wire = RLX_WIRE_SHM;
	if (name && !strcmp(name, "shm"))
		return RLX_OK;
	if (name && strcmp(name, "kmod"))
		return rlx_fail(err, RLX_ENOSUP, "service: transport \"%.20s\": "
				"there are \"shm\" and \"kmod\"", name);
	for (i = 0; i < svc->opts.queues && !st; i++)
		st = rlx_kmod_queue_new(&svc->queue[i], name ? err : NULL);
	if (!st)
		svc->wire = name ? RLX_WIRE_KMOD : RLX_WIRE_KMOD | RLX_WIRE_SHM;
	for (i = 0; st && i < svc->opts.queues; i++)
		rlx_kmod_queue_free(&svc->queue[i]);
	return name ? st : RLX_OK;
}

static enum rlx_status queue_init(struct rlx_service *svc, uint32_t index,
				  struct rlx_error *err)
{
	struct epoll_event ev = { EPOLLIN, { .u64 = RLX_QUEUE_KICK } };
	struct rlx_queue *q = &svc->queue[index];
	enum rlx_status st;

	q->svc = svc;
	q->index = index;
	q->events_end = &q->events;
	rlx_spin_init(&q->spin, svc->opts.spin_ns, RLX_SPIN_WAKE_NS);
	q->slot = rlx_calloc(svc->opts.clients_max, sizeof(*q->slot));
	if (!q->slot)
		return rlx_fail(err, RLX_ENOMEM, "service: no memory");
	st = rlx_region_new(&q->page, "rlx-ring-queue",
			    (uint64_t)sysconf(_SC_PAGESIZE), true, err);
	if (st)
		return st;
	q->epfd = epoll_create1(EPOLL_CLOEXEC);
	q->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->epfd < 0 || q->kick < 0 ||
	    epoll_ctl(q->epfd, EPOLL_CTL_ADD, q->kick, &ev))
		return rlx_fail(err, RLX_ENOMEM, "service: queue %u: %s", index,
				strerror(errno));
	return RLX_OK;
}

static void queue_fini(struct rlx_queue *q)
{
	rlx_kmod_queue_free(q);
	rlx_region_fini(&q->page);
	if (q->epfd >= 0)
		close(q->epfd);
	if (q->kick >= 0)
		close(q->kick);
	rlx_free(q->slot);
	pthread_mutex_destroy(&q->lock);
}

static enum rlx_status listen_at(struct rlx_service *svc, struct rlx_error *err)
{
	int type = 0, on = 0, fd = svc->opts.listen_fd;
	socklen_t len = sizeof(int);

	if (!(svc->opts.flags & RLX_SERVICE_LISTEN_FD))
		return rlx_sock_listen(svc->address, svc->opts.mode,
				       &svc->listen_fd, &svc->lock_fd, err);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) ||
	    type != SOCK_SEQPACKET || !on)
		return rlx_fail(err, RLX_EBADFD,
				"service: fd %d is not a listening unix socket "
				"of type SOCK_SEQPACKET", fd);
	svc->listen_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (svc->listen_fd < 0 || fcntl(svc->listen_fd, F_SETFL, O_NONBLOCK))
		return rlx_fail(err, RLX_ENOMEM, "service: dup of fd %d: %s", fd,
				strerror(errno));
	return RLX_OK;
}

static enum rlx_status control_init(struct rlx_service *svc,
				    struct rlx_error *err)
{
	struct epoll_event ev = { EPOLLIN, { .ptr = &svc->ctl } };
	struct epoll_event lev = { EPOLLIN, { .ptr = &svc->listen_fd } };

	svc->epfd = epoll_create1(EPOLL_CLOEXEC);
	svc->ctl = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	svc->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (svc->epfd < 0 || svc->ctl < 0 || svc->spare < 0 ||
	    epoll_ctl(svc->epfd, EPOLL_CTL_ADD, svc->ctl, &ev) ||
	    epoll_ctl(svc->epfd, EPOLL_CTL_ADD, svc->listen_fd, &lev))
		return rlx_fail(err, RLX_ENOMEM, "service: %s", strerror(errno));
	return RLX_OK;
}

static enum rlx_status copy_opts(struct rlx_service *svc,
				 struct rlx_error *err)
{
	size_t bytes;
	uint32_t i;

	svc->queue = rlx_aligned(128, svc->opts.queues * sizeof(*svc->queue));
	if (!svc->queue)
		return rlx_fail(err, RLX_ENOMEM, "service: no memory");
	memset(svc->queue, 0, svc->opts.queues * sizeof(*svc->queue));
	for (i = 0; i < svc->opts.queues; i++) {
		svc->queue[i].epfd = svc->queue[i].kick = -1;
		svc->queue[i].page.fd = -1;
		pthread_mutex_init(&svc->queue[i].lock, NULL);
	}
	svc->address = rlx_strdup(svc->opts.address);
	svc->uids = rlx_memdup(svc->opts.nr_uids ? svc->opts.uids : &svc->uid,
			       svc->opts.nr_uids * sizeof(*svc->uids));
	svc->gids = rlx_memdup(svc->opts.nr_gids ? svc->opts.gids : &svc->uid,
			       svc->opts.nr_gids * sizeof(*svc->gids));
	svc->client = rlx_calloc(svc->opts.clients_max, sizeof(*svc->client));
	if (!svc->address || !svc->uids || !svc->gids || !svc->client)
		return rlx_fail(err, RLX_ENOMEM, "service: no memory");
	bytes = sizeof(struct rlx_job) + svc->opts.slices_max *
		(sizeof(struct rlx_work_slice) + sizeof(uint16_t));
	svc->job_bytes = rlx_align64(bytes);
	svc->opts.address = svc->address;
	svc->opts.uids = svc->uids;
	svc->opts.gids = svc->gids;
	svc->uid = geteuid();
	return RLX_OK;
}

enum rlx_status rlx_service_make(const struct rlx_service_opts *opts,
				 struct rlx_service **out, struct rlx_error *err)
{
	struct rlx_service_opts o;
	struct rlx_service *svc;
	enum rlx_status st;
	uint32_t i;

	*out = NULL;
	st = fill_opts(&o, opts, err);
	if (st)
		return st;
	svc = rlx_calloc(1, sizeof(*svc));
	if (!svc)
		return rlx_fail(err, RLX_ENOMEM, "service: no memory");
	svc->opts = o;
	svc->listen_fd = svc->lock_fd = svc->epfd = svc->ctl = svc->spare = -1;
	pthread_mutex_init(&svc->lock, NULL);
	st = copy_opts(svc, err);
	for (i = 0; i < o.queues && !st; i++)
		st = queue_init(svc, i, err);
	if (!st)
		st = pick_transport(svc, err);
	if (!st)
		st = listen_at(svc, err);
	if (!st)
		st = control_init(svc, err);
	if (st)
		goto out_free;
	*out = svc;
	return RLX_OK;

out_free:
	rlx_service_free(svc);
	return st;
}

enum rlx_status rlx_service_new(const struct rlx_service_opts *opts,
				struct rlx_service **out, struct rlx_error *err)
{
	enum rlx_status st;
	int e;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "service: out is NULL");
	st = rlx_service_make(opts, out, err);
	if (st)
		return st;
	e = pthread_create(&(*out)->thread, NULL, rlx_control_main, *out);
	if (!e) {
		(*out)->started = true;
		return RLX_OK;
	}
	rlx_service_free(*out);
	*out = NULL;
	return rlx_fail(err, RLX_ENOMEM, "service: no thread: %s", strerror(e));
}

void rlx_service_free(struct rlx_service *svc)
{
	uint32_t i;

	if (!svc)
		return;
	if (svc->started) {
		atomic_store(&svc->quit, true);
		rlx_service_stop(svc);
		pthread_join(svc->thread, NULL);
	}
	if (svc->client)
		rlx_control_fini(svc);
	rlx_sock_unlisten(svc->address, svc->listen_fd, svc->lock_fd);
	if (svc->epfd >= 0)
		close(svc->epfd);
	if (svc->ctl >= 0)
		close(svc->ctl);
	if (svc->spare >= 0)
		close(svc->spare);
	for (i = 0; svc->queue && i < svc->opts.queues; i++)
		queue_fini(&svc->queue[i]);
	rlx_free(svc->queue);
	rlx_free(svc->client);
	rlx_free(svc->uids);
	rlx_free(svc->gids);
	rlx_free(svc->address);
	pthread_mutex_destroy(&svc->lock);
	rlx_free(svc);
}
