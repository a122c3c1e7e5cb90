/* SPDX-License-Identifier: MIT */
/*
 * Inside of a service. Three kinds of code run: the control thread (control.c)
 * lets clients in, maps what they attach and frees what is over; threads of the
 * caller fetch and commit (service.c); a transport (struct rlx_service_ops) knows
 * where requests come from.
 *
 * Locks, outer first: rlx_queue.lock, rlx_service.lock. A client belongs to the
 * control thread; what executor threads see of it is guarded by its queue's lock.
 */
#ifndef RLX_SERVE_SERVICE_H
#define RLX_SERVE_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "rlx/serve.h"
#include "serve/region.h"
#include "serve/sock.h"
#include "serve/spin.h"

struct rlx_client;
struct rlx_kmod_queue;
struct rlx_service_ops;

/* An item as the caller has it, and what we know about it. */
struct rlx_job {
	struct rlx_work		 pub;
	struct rlx_client	*cl;
	uint64_t		 seq;		/* kmod: of the request */
	uint32_t		 tag, gen;
	_Atomic bool		 out;		/* the caller has it */
	struct rlx_job		*next;		/* free, or in a queue's events */
	uint32_t		 nr_leases;
	uint8_t			 inline_data[RLX_REQUEST_INLINE];
	/* rlx_service.slices_max each, in the same block */
	struct rlx_work_slice	*slice;
	uint16_t		*lease;		/* index into the client's atts */
};

/* An arena that a client attached. */
struct rlx_att {
	uint32_t		 handle;	/* 0: free */
	uint32_t		 access;
	uint32_t		 leases;	/* fetched requests that name it */
	bool			 closing;	/* no new request may name it */
	struct rlx_arena	*arena;
	char			*base;
	uint64_t		 size;
};

/* Where a client is in its life; the control thread moves it on. */
enum rlx_client_state {
	RLX_CLIENT_NEW,		/* accepted, no HELLO yet */
	RLX_CLIENT_OPENING,	/* the executor has its OPEN event */
	RLX_CLIENT_LIVE,
	RLX_CLIENT_ATTACHING,	/* the executor has the event */
	RLX_CLIENT_DETACHING,
	RLX_CLIENT_DRAINING,	/* gone; jobs of it are out */
	RLX_CLIENT_LEAVING,	/* the executor has its GONE event */
};

struct rlx_client {
	struct rlx_peer		 peer;		/* the caller's view */
	struct rlx_service	*svc;
	const struct rlx_service_ops *ops;	/* NULL before HELLO */
	struct rlx_queue	*q;		/* the same */
	struct rlx_client	*next;		/* in svc->acks */
	int			 sock;
	uint32_t		 depth;
	uint64_t		 hello_by;	/* deadline in state NEW */
	uint64_t		 bytes;		/* attached */
	enum rlx_client_state	 state;
	uint32_t		 serial;	/* of the message an event answers */
	struct rlx_att		*pending;	/* which the event is about */
	bool			 or_shm;	/* it would take that too */
	bool			 opened;	/* the executor knows of it */
	bool			 doomed;	/* to be freed after this step */

	/* Under the queue's lock. */
	uint32_t		 slot;		/* in q->slot */
	bool			 ready;		/* in q->slot */
	bool			 acked;		/* in svc->acks */
	bool			 cut;		/* wants to be thrown out */
	bool			 touched;	/* has replies to be rung for */
	bool			 busy;		/* @event is queued or out */
	uint32_t		 out;		/* jobs the caller has */
	struct rlx_job		*free;
	struct rlx_att		*att;		/* svc->opts.arenas_max */
	char			 reason[RLX_WIRE_TEXT];

	_Atomic bool		 dead;		/* read without the lock too */
	char			*jobs;		/* depth of them */
	struct rlx_job		 event;

	/* shm */
	struct rlx_region	 mem_client, mem_service;
	struct rlx_shm_client	*a;
	struct rlx_shm_service	*b;
	uint64_t		 pos;		/* next request */
	uint64_t		 replies;	/* posted */
	int			 bell;

	/* kmod */
	uint32_t		 channel;	/* id in the kernel; 0: none */
	struct rlx_client	*same;		/* next with this hash; (q) */
	uint16_t		*line;		/* tags to be taken, a ring; (q) */
	uint32_t		 line_head, nr_line;
};

struct rlx_queue {
	_Alignas(128) pthread_mutex_t lock;	/* guards all below */
	struct rlx_service	*svc;
	uint32_t		 index;
	struct rlx_client	**slot;		/* svc->opts.clients_max */
	uint32_t		 high;		/* slots in use lie below */
	uint32_t		 turn;		/* who is looked at first */
	uint32_t		 sleeping;	/* threads in epoll_wait() */
	bool			 armed;
	struct rlx_job		*events, **events_end;
	struct rlx_service_stats st;
	struct rlx_spin		 spin;
	struct rlx_region	 page;		/* struct rlx_shm_queue */
	struct rlx_kmod_queue	*kmod;		/* NULL without that transport */
	int			 epfd;
	int			 kick;		/* eventfd: look again */
	_Atomic uint32_t	 wanted;	/* the control thread waits */
};

/*
 * A transport, seen from the executor. The first group is called under q->lock,
 * the second by the control thread without it.
 */
struct rlx_service_ops {
	const char	*name;
	uint32_t	 wire;			/* enum rlx_wire_transport */
	bool		 kernel;		/* has slots that must be answered */
	/* Take the next request of @cl into @job: 1 yes, 0 none, -1 cut it. */
	int		 (*take)(struct rlx_client *cl, struct rlx_job *job);
	/* Anything to take? Without taking. */
	bool		 (*some)(struct rlx_client *cl);
	/* Tell how far requests were taken. */
	void		 (*taken)(struct rlx_client *cl);
	void		 (*reply)(struct rlx_client *cl, const struct rlx_job *job,
				  int32_t result, uint32_t flags);
	void		 (*ring)(struct rlx_client *cl);
	bool		 (*cancelled)(const struct rlx_job *job);

	/* Make the rings of @cl; @fds go to it with its WELCOME. */
	enum rlx_status	 (*open)(struct rlx_client *cl, struct rlx_wire_msg *m,
				 int *fds, unsigned int *nr,
				 struct rlx_error *err);
	/*
	 * The memory a client wants to attach by @m, which @fd came with or -1.
	 * May change *@fd for one of its own. @why says why not.
	 */
	bool		 (*arena)(struct rlx_client *cl, struct rlx_wire_msg *m,
				  int *fd, const char **why);
	void		 (*close)(struct rlx_client *cl);
	/* Descriptors of @fds that were made for sending only. */
	void		 (*sent)(struct rlx_client *cl, int *fds);
};

extern const struct rlx_service_ops rlx_service_shm, rlx_service_kmod;

/*
 * transport_kmod.c: a queue of the kernel's. All of its clients' requests come
 * through one ring; (q) under q->lock.
 */
enum rlx_status rlx_kmod_queue_new(struct rlx_queue *q, struct rlx_error *err);
void rlx_kmod_queue_free(struct rlx_queue *q);
void rlx_kmod_collect(struct rlx_queue *q);	/* to its clients' lines (q) */
bool rlx_kmod_some(const struct rlx_queue *q);				/* (q) */
void rlx_kmod_sleepers(struct rlx_queue *q, uint32_t n);		/* (q) */
void rlx_kmod_gone(struct rlx_client *cl);				/* (q) */

struct rlx_service {
	struct rlx_service_opts	 opts;		/* defaults filled in */
	uint32_t		 wire;		/* enum rlx_wire_transport it has */
	char			*address;
	uint32_t		*uids, *gids;
	uint32_t		 uid;		/* ours */
	struct rlx_queue	*queue;
	size_t			 job_bytes;
	int			 listen_fd, lock_fd;
	int			 epfd;		/* of the control thread */
	int			 ctl;		/* eventfd: acks, or quit */
	int			 spare;		/* given up to refuse politely */
	pthread_t		 thread;
	bool			 started;
	_Atomic bool		 stopping, quit;

	pthread_mutex_t		 lock;		/* guards acks, st, clients */
	struct rlx_client	*acks;		/* the control thread shall look */
	struct rlx_service_stats st;
	struct rlx_client	**client;	/* clients_max, control's alone */
	uint32_t		 nr_clients;
	uint64_t		 last_id;
};

/* Without the control thread; a fuzzer steps by itself. */
enum rlx_status rlx_service_make(const struct rlx_service_opts *opts,
				 struct rlx_service **out, struct rlx_error *err);
/* control.c: handle what is there, after waiting at most @ms. */
void rlx_control_step(struct rlx_service *svc, int ms);
void *rlx_control_main(void *svc);
/* Frees every client; no control thread runs. */
void rlx_control_fini(struct rlx_service *svc);
/* Have the control thread look at @cl. Under its queue's lock. */
void rlx_control_ack(struct rlx_client *cl);

/* Wake a thread of @q, whatever it waits for. */
void rlx_queue_kick(struct rlx_queue *q);
/* Lock @q soon, also when a thread spins on it. */
void rlx_queue_lock(struct rlx_queue *q);

/* Throw @cl out, under its queue's lock: no more is taken from it. */
void rlx_client_cut(struct rlx_client *cl, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
struct rlx_att *rlx_client_att(struct rlx_client *cl, uint32_t handle);
/* Index of an attachment in handles that the library makes. */
enum { RLX_HANDLE_BITS = 9 };
/* In a queue's epoll set, what is no client's slot. */
#define RLX_QUEUE_KICK	UINT64_MAX
#define RLX_QUEUE_KMOD	(UINT64_MAX - 1)

/* Check @rq's slices against what is attached and resolve them into @job. */
int32_t rlx_job_resolve(struct rlx_client *cl, struct rlx_job *job,
			const struct rlx_request_slice *slice, uint32_t nr);
/* The same with the slices that stand in the range @list. */
int32_t rlx_job_indirect(struct rlx_client *cl, struct rlx_job *job,
			 const struct rlx_request_slice *list);
void rlx_job_unlease(struct rlx_client *cl, struct rlx_job *job);

#endif
