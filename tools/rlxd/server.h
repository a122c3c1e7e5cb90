/* SPDX-License-Identifier: MIT */
/* What all loops share: limits, clients and keys, the set of models. */
#ifndef RLXD_SERVER_H
#define RLXD_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "tools/rlxd/budget.h"
#include "tools/rlxd/conf.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/model.h"

enum { LISTENERS_MAX = 16 };

struct channel;
struct worker_pool;

/*
 * Somebody who asks: the owner of a key, a user on a unix socket, an address or a prefix
 * of IPv6. What is queued is shared out fairly among them.
 */
struct client {
	struct client	*next;		/* of the server's list */
	char		 name[64];
	atomic_uint	 refs;		/* requests under way */
	atomic_int	 rows;		/* queued or running */
	_Atomic(int64_t) max_rows;	/* 0: no limit of its own */
	struct read_share share;	/* the worker pool's */
};

struct server {
	/* As it was at the start, but for access_log; its strings are gone, but for fd_store. */
	struct conf_server	 limits;
	char			*fd_store;	/* limits.fd_store */
	bool			 may_tls;	/* likewise: a certificate and a key are there */
	bool			 standby;	/* serves in turn with others: there is a leader lock */
	atomic_bool		 took_over;	/* from one of them */
	struct listener		 listener[LISTENERS_MAX];
	unsigned int		 n_listener;
	struct loop		*loop;		/* n_loop of them */
	unsigned int		 n_loop, n_started;
	struct worker_pool	*workers;
	struct channel		*channel[CONF_CHANNELS_MAX];
	atomic_uint		 n_channel;
	atomic_uint		 n_conn;
	struct budget		 budget;	/* max_memory */
	_Atomic(uint64_t)	 next_id;
	atomic_bool		 ready;		/* models are loaded, not draining */
	atomic_bool		 loading;	/* there are none yet */
	int64_t			 started;	/* realtime, seconds */

	/* Guards conf, set and the list of clients: short sections only. */
	pthread_mutex_t		 lock;
	struct conf		*conf;
	struct model_set	*set;		/* one reference is the server's */
	struct client		*clients;
	unsigned int		 n_client;
};

/*
 * Who asks, by key or address; takes a reference to the client and to the set of
 * models of this moment. False: no or a wrong key, or without one a Host that may be a
 * page's own name for us; the reply is made.
 */
bool server_admit(struct req *r, const struct http_head *h, bool open);
/* May the request's client use model @name? */
bool server_may_use(const struct req *r, const char *name);
/*
 * Who asks over a channel, with a reference; NULL: out of memory. What it may have is
 * told with each model.
 */
struct client *server_client(struct server *s, const char *name);
void client_put(struct client *c);
/*
 * As whom one who comes from @a has a share: the address, or of IPv6 its first @bits, as
 * "2001:db8::/64", unless it is of the link alone; IPv4 inside of IPv6 is IPv4. "unknown"
 * where it is neither.
 */
void client_of_address(const struct sockaddr_storage *a, unsigned int bits, char *name,
		       size_t size);
/* The key's name, "" for who has none; @c may be NULL. */
const char *client_key(const struct client *c);
/*
 * Model @name, or if that is "" the @index-th, of those that a channel is for at the moment;
 * with a reference. NULL: there is none. *@out_n, unless NULL: how many there are.
 */
struct model *server_channel_model(struct server *s, const char *channel, struct client *c,
				   const char *name, unsigned int index, uint64_t *out_n);
/* Drop what server_admit() took. */
void server_put(struct req *r);

/* Put a new configuration in place; takes both. */
void server_swap(struct server *s, struct conf *c, struct model_set *set);

#endif
