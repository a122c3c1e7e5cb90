/* SPDX-License-Identifier: MIT */
/*
 * One thread's connections: an engine (io_uring, or epoll where that is missing)
 * moves bytes, conn.c makes requests of them. Everything in a loop belongs to its
 * thread; other threads reach it through loop_post() and loop_stop() alone.
 */
#ifndef RLXD_LOOP_H
#define RLXD_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "rlx/arena.h"
#include "serve/spin.h"
#include "tools/rlxd/budget.h"
#include "tools/rlxd/http.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/obuf.h"

enum {
	CHUNK_BYTES	= 16 << 10,
	CHUNKS		= 256,		/* of a loop's engine; a power of two */
	SPARE_CHUNKS	= 128,		/* more of them, where TLS is spoken */
	DROPS		= 64,		/* of a turn, of what comes behind last replies */
	CONN_CHUNKS	= 4,		/* unread ones of a connection; then it waits */
	CONN_IOV	= 18,		/* head, body, REPLY_TAIL_MAX pieces */
	DIRECT_BYTES	= 32 << 10,	/* an engine's transport.direct */
	ZEROCOPY_BYTES	= 64 << 10,	/* sent without a copy from here */
};

struct conf;
struct loop;
struct req;
struct server;

struct listener {
	int		 fd;
	bool		 is_unix, ours, tls;
	bool		 off_host;	/* others than this machine's processes may come */
	char		 name[128];
	char		 passed[40];	/* how renew.h names it to the next program; "": not */
};

enum conn_state {
	CONN_SHAKE,	/* TLS is being agreed on */
	CONN_HEAD,	/* between requests, or a head is not whole */
	CONN_LENGTH,	/* body of known length */
	CONN_CHUNKED,
	CONN_BUSY,	/* a request is being answered */
	CONN_SEND,
	CONN_LINGER,	/* last reply sent: reading on until the peer has it */
	CONN_GONE,	/* closed as soon as the engine lets go */
};

/* Received bytes, [at, end) of the chunk with this index, and the one behind it. */
struct chunk {
	uint32_t	at, end;
	int32_t		next;		/* -1: none */
};

struct conn;

/* How a connection's bytes move. Calls come from the loop's thread. */
struct transport {
	/* Chunks are wanted, or no more of them: conn_ready() when none is coming. */
	void	(*want)(struct conn *c);
	void	(*stop)(struct conn *c);
	/* Exactly @n bytes to @p, then conn_filled(). Not while armed. */
	void	(*fill)(struct conn *c, void *p, size_t n);
	/* What msg holds, then conn_sent(). */
	void	(*send)(struct conn *c);
	/* A body's rest is received in place from so many bytes on. */
	size_t	direct;
};

struct conn {
	struct loop		*loop;
	const struct transport	*io;
	struct tls		*tls;		/* NULL: plain */
	struct conn		*next, *prev;
	struct conn		*ready_next, *starved_next, *gone_next, *shaken_next;
	TAILQ_ENTRY(conn)	 linger;	/* in the loop's list, while CONN_LINGER */
	const struct listener	*listener;
	int			 fd, uid;	/* uid -1: not known */
	char			 peer[64];	/* for the log: a user, or its whole address */
	char			 client[64];	/* as whom it has a share, if it shows no key */
	enum conn_state		 state;
	bool			 last;		/* close behind this reply */
	bool			 eof, bad, ready;
	bool			 has_more;	/* to be dropped */
	bool			 with_worker;	/* a part of its handshake is */
	bool			 let_go;	/* by the engine */
	int			 error;		/* why it ends, an errno; 0: nothing went wrong */
	int64_t			 deadline;	/* CLOCK_MONOTONIC ns, 0 none */
	int64_t			 ask_by;	/* the next request, when draining */
	int64_t			 probe_at;	/* not before is it asked whether it is there */
	int64_t			 probe_ns;	/* and again so much later */

	/* The engine's. */
	bool			 armed, stopping, want, filling, sending, shut, starved;
	bool			 one_chunk;	/* is all that it may have: others wait for some */
	unsigned int		 ops;		/* completions still to come */
	unsigned int		 polled;	/* POLLIN, POLLOUT: looked out for */
	ssize_t			 sent, uncopied;
	void			*fill_p;
	size_t			 fill_n, filled;
	struct msghdr		 msg;
	struct iovec		 iov[CONN_IOV];
	unsigned int		 n_iov;
	size_t			 to_send;
	bool			 zerocopy;

	int32_t			 first, last_chunk;	/* unread ones, -1: none */
	unsigned int		 n_chunk;
	uint64_t		 n_in;		/* bytes received so far */
	uint64_t		 drain_at;	/* a request from there on is not answered */
	char			*head;		/* a head that came in pieces */
	size_t			 head_n, head_cap, head_from;
	struct account		 account;	/* of that */
	struct http		 http;
	struct http_head	 parsed;
	struct req		*req;
	size_t			 body_at;	/* bytes of the body that are there */
};

/* What an engine does. Calls come from the loop's thread. */
struct engine {
	const char	*name;
	struct transport io;
	enum rlx_status	 (*open)(struct loop *l, struct rlx_error *err);
	void		 (*close)(struct loop *l);
	bool		 (*listen)(struct loop *l, const struct listener *s);
	void		 (*unlisten)(struct loop *l);
	/* After unlisten(): may a connection still come? */
	bool		 (*listens)(const struct loop *l);
	void		 (*adopt)(struct conn *c);
	/* conn_polled() once when one of @events (POLLIN, POLLOUT) is there. */
	void		 (*poll)(struct conn *c, unsigned int events);
	/* End all of it; conn_gone() when nothing is under way. */
	void		 (*shut)(struct conn *c);
	void		 (*give)(struct loop *l, uint16_t chunk);
	/* Wait until @until (CLOCK_MONOTONIC ns) for something, and act on it: was there any? */
	bool		 (*wait)(struct loop *l, int64_t until);
};

extern const struct engine engine_uring, engine_epoll;

struct loop {
	struct server		*server;
	const struct engine	*engine;
	void			*state;		/* the engine's */
	unsigned int		 index;
	pthread_t		 thread;
	struct rlx_arena	*arena;		/* the chunks */
	char			*chunks;
	struct chunk		 chunk[CHUNKS + SPARE_CHUNKS];
	uint16_t		 spare[SPARE_CHUNKS];
	unsigned int		 n_spare;	/* free ones */
	struct conn		*conns;
	struct conn		*ready, **ready_end, *gone;
	TAILQ_HEAD(, conn)	 lingering;	/* behind their last reply, the oldest first */
	unsigned int		 drops_left;	/* of DROPS, in this turn */
	struct conn		*starved, **starved_end;	/* wanted a chunk when there was none */
	unsigned int		 n_held;	/* the engine's that are read or waited for */
	struct req		*free_req;
	unsigned int		 n_free_req;
	int64_t			 now, next_sweep, next_look;
	char			 date[40];
	int64_t			 date_second;
	int			 wake_fd;
	bool			 draining;	/* no new connections, no keep-alive */
	struct turn		 turn;
	struct rlx_spin		 spin;

	/* Of other threads. */
	_Atomic(struct req *)	 posted;
	_Atomic(struct accepted *) accepted;	/* connections, for it, by others */
	_Atomic(struct conn *)	 shaken;	/* workers are through with a part of a handshake */
	atomic_uint		 n_conn;	/* those on their way to it included */
	atomic_bool		 sleeping, stop, drain;
	atomic_bool		 deaf;		/* draining, and nobody comes any more */
	_Atomic(int64_t)	 beat;		/* when its last turn began */
	atomic_uint		 busy;		/* connections with a request, for draining */
};

enum rlx_status __rlx_must_check
loop_open(struct loop *l, struct server *server, unsigned int index, struct rlx_error *err);
enum rlx_status __rlx_must_check loop_start(struct loop *l, struct rlx_error *err);
/* Take no more connections and end those that idle; answer what was asked. */
void loop_drain(struct loop *l);
void loop_stop(struct loop *l);
void loop_join(struct loop *l);
void loop_close(struct loop *l);

/* Any thread: a request's reply is ready. */
void loop_post(struct loop *l, struct req *r);

/* Any thread: a part of a handshake is done; conn_shaken() is called. */
void loop_post_shaken(struct conn *c);

/* Any thread: @l looks at what others have for it. */
void loop_wake(struct loop *l);

/*
 * May the loop itself do what takes as long as to read so many bytes? Not what is long, nor where
 * it has done so for others for long in this turn: all its connections wait for that.
 */
bool loop_may_read(const struct loop *l, size_t bytes);

int64_t now_ns(void);

/* Engines call these. */
void conn_accepted(struct loop *l, int fd, const struct listener *s);
void conn_chunk(struct conn *c, uint16_t id, uint32_t n);
void conn_ready(struct conn *c);	/* look at it at the end of the turn */
void conn_starve(struct conn *c);	/* there is no chunk for it: it waits in line */
void conn_eof(struct conn *c, int error);
void conn_filled(struct conn *c, ssize_t n);
void conn_sent(struct conn *c, ssize_t n);
void conn_polled(struct conn *c);
/* @n bytes more of msg are sent; true if that was the last. */
bool conn_advance(struct conn *c, size_t n);
void conn_gone(struct conn *c);

/* loop.c calls these. */
/* Take what other loops accepted for @l. */
void accept_take(struct loop *l);
/* Counted in n_conn, @l's and the server's; what cannot be taken goes to accept_refused(). */
void conn_new(struct loop *l, int fd, const struct listener *s);
void accept_refused(struct loop *l, int fd, const struct listener *s);
void conn_process(struct conn *c);
void conn_shaken(struct conn *c);
/* Drop what comes behind the last reply: from now on, or now; there is something. */
void linger(struct conn *c);
void linger_polled(struct conn *c);
/* End the oldest that drops what comes behind its last reply; false: there is none. */
bool linger_end_oldest(struct loop *l);
void conn_reply(struct conn *c);	/* c->req has its reply */
void conn_timeout(struct conn *c);
void conn_shut(struct conn *c);
void conn_drain(struct conn *c);
/*
 * Where chunks have run out those that wait behind requests which are being answered are given
 * up, and their connections closed after the reply: a client that pipelines asks again then
 * (RFC 9112, 9.3.2). Else clients that read no replies would keep all of them.
 */
void conn_drop_pipelined(struct loop *l);
/* An interim reply; false: it could not be sent. */
bool conn_say_continue(struct conn *c);
/* A request is being answered from now on. */
void gone_begin(struct conn *c);
/* Give up requests whose clients left; when to look again at the latest. */
void gone_look(struct loop *l);
int64_t gone_look_at(const struct loop *l);
void conn_reap(struct loop *l);

/* A chunk is free again. */
void chunk_give(struct loop *l, int32_t id);

static inline char *chunk_bytes(const struct loop *l, uint16_t id)
{
	return l->chunks + (size_t)id * CHUNK_BYTES;
}

#endif
