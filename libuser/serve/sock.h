/* SPDX-License-Identifier: MIT */
/* Unix sockets that carry struct rlx_wire_msg and descriptors. */
#ifndef RLX_SERVE_SOCK_H
#define RLX_SERVE_SOCK_H

#include <time.h>

#include "base/clock.h"
#include "serve/wire.h"

struct rlx_cred {
	int32_t		pid;
	uint32_t	uid, gid;
};

/* Listening socket; @lock_fd holds the place of a socket file, -1 if abstract. */
enum rlx_status rlx_sock_listen(const char *address, uint32_t mode, int *out_fd,
				int *lock_fd, struct rlx_error *err);
/* Removes the file and gives the place free. */
void rlx_sock_unlisten(const char *address, int fd, int lock_fd);

/* A connected socket. RLX_ENOTCONN: nobody listens. */
enum rlx_status rlx_sock_connect(const char *address, int *out_fd,
				 struct rlx_error *err);
bool rlx_sock_cred(int fd, struct rlx_cred *out);
/* Was the peer in one of these groups when it connected? */
bool rlx_sock_in_group(int fd, const uint32_t *gids, uint32_t n);

/* Fills magic and version. False: the peer is gone, or does not read. */
bool rlx_sock_send(int fd, struct rlx_wire_msg *msg, const int *fds,
		   unsigned int nr_fds);

/*
 * Receives without waiting, at most @max descriptors (close-on-exec, the
 * caller's), *@nr of them. 1: a well-formed message; 0: none there; -1: the peer
 * is gone; -2: not the protocol.
 */
int rlx_sock_recv(int fd, struct rlx_wire_msg *msg, int *fds, unsigned int max,
		  unsigned int *nr);

/* Is it a message at all: magic, version, type, text ends. */
bool rlx_wire_sane(const struct rlx_wire_msg *msg);

/*
 * Bells. Sockets, since nothing else is safe against whoever holds the other end:
 * the peer of an eventfd can make writing to it block, or read it empty; that of
 * a pipe can make us block or send SIGPIPE; a waiter on a futex that a stranger
 * maps can be moved to another futex.
 */
void rlx_bell_ring(int fd);
/* False: whoever held the other end is gone. */
bool rlx_bell_drain(int fd);
/* The same, but sleeps until it rings. */
bool rlx_bell_wait(int fd);

/* Time left until @deadline_ns as poll() wants it; -1 for ever; rounded up. */
int rlx_poll_ms(uint64_t deadline_ns);
/* The same as ppoll() wants it; NULL for ever. */
struct timespec *rlx_poll_ts(uint64_t deadline_ns, struct timespec *ts);

#endif
