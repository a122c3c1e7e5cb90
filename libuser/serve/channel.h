/* SPDX-License-Identifier: MIT */
/*
 * Inside of a channel. channel.c checks, spins, sleeps and keeps the list of
 * attachments; connect.c sets up; a transport (struct rlx_channel_ops) carries.
 */
#ifndef RLX_SERVE_CHANNEL_H
#define RLX_SERVE_CHANNEL_H

#include "rlx/serve.h"
#include "serve/region.h"
#include "serve/sock.h"
#include "serve/spin.h"

/* An attachment. In a slot of rlx_channel.att; handle 0: free. */
struct rlx_attached {
	uint32_t		 handle;	/* what requests call it, for good */
	uint32_t		 wire;		/* what this executor calls it */
	uint32_t		 access;
	uint32_t		 used;		/* slices of requests not reaped */
	struct rlx_arena	*arena;
	uint64_t		 size;
};

enum rlx_tag_state {
	RLX_TAG_FREE,
	RLX_TAG_SENT,		/* the executor's to answer */
	RLX_TAG_OVER,		/* answered here; in the list to be reaped */
	RLX_TAG_KEPT,		/* for the next executor */
	RLX_TAG_DEAD,		/* kmod: answered by the end of its executor */
};

/* A request under way. */
struct rlx_tag {
	enum rlx_tag_state	 state;
	uint32_t		 gen;
	uint64_t		 pos;		/* in the stream of this executor */
	uint64_t		 order;		/* among all ever submitted */
	uint64_t		 user_data, deadline_ns, aux;
	int32_t			 result;
	uint32_t		 flags;
	uint32_t		 nr_att;
	uint16_t		 att[RLX_REQUEST_SLICES];
	bool			 indirect;
	bool			 again;		/* submitted before */
	struct rlx_request	 req;		/* only with RECOVER */
};

enum rlx_channel_state {
	RLX_CHANNEL_UP,
	RLX_CHANNEL_LOST,	/* looking for a new executor */
	RLX_CHANNEL_DOWN,	/* for good; err says why */
};

struct rlx_shm_channel {
	struct rlx_region	 client, service, queue;
	struct rlx_shm_client	*a;
	const struct rlx_shm_service *b;
	const struct rlx_shm_queue *q;
	int			 bell;
	uint64_t		 pos;		/* next to be written */
	uint64_t		 head;		/* read by the service, at least */
	uint64_t		 replies;	/* read */
	uint64_t		*withdrawn;	/* positions to be used again */
	uint32_t		 nr_withdrawn;
};

struct rlx_kmod_channel;

struct rlx_channel {
	const struct rlx_channel_ops *ops;
	enum rlx_channel_state	 state;
	struct rlx_channel_opts	 opts;
	char			*address;
	struct rlx_error	 err;
	int			 sock;
	struct rlx_cred		 cred;
	uint32_t		 serial;	/* of messages */
	uint32_t		 depth, queue, arenas_max, slices_max;
	uint32_t		 transports;	/* enum rlx_wire_transport wished */
	uint32_t		 may_park;	/* kmod: as WELCOME said */
	struct rlx_attached	*att;		/* RLX_CHANNEL_ARENAS_MAX */
	uint32_t		 att_serial;

	struct rlx_tag		*tag;		/* depth */
	uint16_t		*free;		/* stack of tags */
	uint32_t		 nr_free;
	uint16_t		*over;		/* ring of tags to be reaped */
	uint32_t		 over_head, nr_over;
	uint64_t		 next_deadline;	/* of a request, or earlier */
	uint32_t		 nr_indirect;	/* under way; may name anything */
	bool			 armed;
	bool			 dismissed;	/* kmod: the service closed the socket */

	struct rlx_spin		 spin;
	uint64_t		 submitted, replied, sleeps, bells, recoveries;
	uint64_t		 lost_until;	/* while LOST */
	int			 epfd, timer;	/* of rlx_channel_fd(), else -1 */

	struct rlx_shm_channel	 shm;
	struct rlx_kmod_channel	*kmod;
};

/* A transport, seen from the client. */
struct rlx_channel_ops {
	const char	*name;
	uint32_t	 wire;
	/* Take what WELCOME brought; @fds are the channel's or closed. */
	enum rlx_status	 (*up)(struct rlx_channel *ch, int *fds,
			       unsigned int nr, struct rlx_error *err);
	void		 (*down)(struct rlx_channel *ch);
	/* Put a checked request up under @tag. False: no room in the ring yet. */
	bool		 (*send)(struct rlx_channel *ch, uint32_t tag,
				 const struct rlx_request *req);
	/*
	 * What was put up goes off, and a sleeping executor is woken. How many of the
	 * last were refused after all, and why; they got rlx_channel_unsend().
	 */
	unsigned int	 (*push)(struct rlx_channel *ch, int *why);
	/* The next reply into its tag: 1 and *@tag, 0 none, -1 nonsense. */
	int		 (*next)(struct rlx_channel *ch, uint32_t *tag);
	bool		 (*some)(struct rlx_channel *ch);
	/*
	 * Take a request back: true if no executor has it or ever will. False also
	 * where that comes as a reply.
	 */
	bool		 (*withdraw)(struct rlx_channel *ch, uint32_t tag);
	/* Ask the executor to give it up. */
	void		 (*hint)(struct rlx_channel *ch, uint32_t tag);
	/* Ask to be rung, or no more. */
	void		 (*arm)(struct rlx_channel *ch, bool on);
	/* What rings, and hangs up when the executor is gone. */
	int		 (*pollable)(struct rlx_channel *ch);
	/* Take the ringing back; false: the executor is gone. */
	bool		 (*drain)(struct rlx_channel *ch);
	/* From here on each may be NULL. */
	/* Sleep without end until it rings, and drain it, in one. */
	bool		 (*sleep)(struct rlx_channel *ch);
	/* Have the kernel know an arena, which gives the handle; and no more. */
	enum rlx_status	 (*attach)(struct rlx_channel *ch,
				   struct rlx_attached *att,
				   struct rlx_error *err);
	void		 (*detach)(struct rlx_channel *ch, uint32_t handle);
	/* The executor is gone: wait until @n requests are answered. */
	void		 (*finish)(struct rlx_channel *ch, uint32_t n);
	enum rlx_status	 (*prep)(struct rlx_channel *ch,
				 struct io_uring_sqe *sqe,
				 const struct rlx_request *req);
};

extern const struct rlx_channel_ops rlx_channel_shm, rlx_channel_kmod;

/* connect.c: which transports will do, for good. */
enum rlx_status rlx_channel_choose(struct rlx_channel *ch, struct rlx_error *err);
/* One attempt, by @deadline_ns; on success the channel is UP. */
enum rlx_status rlx_channel_connect(struct rlx_channel *ch,
				    uint64_t deadline_ns, struct rlx_error *err);
/* Ask over the socket and wait for DONE. */
enum rlx_status rlx_channel_ask(struct rlx_channel *ch,
				struct rlx_wire_msg *msg, int fd,
				uint64_t deadline_ns, struct rlx_error *err);
/* Send one attachment to the service. */
enum rlx_status rlx_channel_send_arena(struct rlx_channel *ch,
				       struct rlx_attached *att,
				       uint64_t deadline_ns,
				       struct rlx_error *err);
void rlx_channel_disconnect(struct rlx_channel *ch);
/* Why the service closed the socket, if it said so. */
void rlx_channel_last_words(struct rlx_channel *ch);

/* recover.c: the executor is gone; answer or keep what was under way. */
void rlx_channel_lost(struct rlx_channel *ch);
/* Is the reply of @tag the end of an executor, after which there is a next one? */
bool rlx_channel_orphaned(const struct rlx_channel *ch, uint32_t tag);
/* While LOST: one try, by @deadline_ns; it ends UP, DOWN, or still LOST. */
void rlx_channel_retry(struct rlx_channel *ch, uint64_t deadline_ns);
/* Have rlx_channel_fd(), if there is one, show the state. */
void rlx_channel_watch(struct rlx_channel *ch);
/* Down for good, every open request answered with -EOWNERDEAD. */
void rlx_channel_ruin(struct rlx_channel *ch, enum rlx_status st,
		      const char *why);
/* @tag was put up, and is not sent: as if it had never been, or kept still. */
void rlx_channel_unsend(struct rlx_channel *ch, uint32_t tag);
/* Has the service said goodbye over the socket? Then down, if nothing is open. */
void rlx_channel_hear(struct rlx_channel *ch);
/* Tag @i is over here; it will be reaped with this result. */
void rlx_channel_over(struct rlx_channel *ch, uint32_t i, int32_t result,
		      uint32_t flags);

#endif
