/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that outlive us, by name: sockets we listen on and arenas of prepared
 * weights. They are kept by a process of its own (rlxd --fd-store), or weights alone
 * by the service manager, whose sockets outlive us anyway.
 *
 * The fd store is asked by a RLX_WIRE_FD_STORE with one of these in handle, a name in text
 * and a version in tag, and answers likewise; a descriptor may come with either.
 */
#ifndef RLXD_FD_STORE_H
#define RLXD_FD_STORE_H

#include <stdbool.h>
#include <stdint.h>

/* What names of weights begin with, and those of their place in a GPU's memory. */
#define FD_STORE_WEIGHTS	"weights-"
#define FD_STORE_RESIDENT	"resident-"

enum fd_store_op {
	FD_STORE_GET,	/* the descriptor of that name */
	FD_STORE_PUT,	/* keep one, in place of the version that was seen (0: of none) */
	FD_STORE_DROP,
	FD_STORE_LIST,	/* the name at index @version */
	/* Answers. */
	FD_STORE_OK,
	FD_STORE_NONE,	/* there is no such */
	FD_STORE_OTHER,	/* somebody put another meanwhile: here it is */
	FD_STORE_FULL,
};

/*
 * Where the fd store listens; NULL: the service manager keeps, if it offers to.
 * @n_passed: descriptors that came with the start.
 */
void fd_store_setup(const char *path, unsigned int n_passed);
/* Is passed descriptor @i one of the kept, not a socket to listen on? */
bool fd_store_has_passed(unsigned int i);
/* Is there an fd store, which keeps sockets too? */
bool fd_store_sockets(void);

/* A kept descriptor, to be closed; -1: there is none. @out_version is for fd_store_put(). */
int fd_store_get(const char *name, uint64_t *out_version);
/*
 * Keep @fd in place of version @seen. False: it is not kept; if somebody else was
 * faster, *@out_other is theirs, to be closed, else -1.
 */
bool fd_store_put(const char *name, uint64_t seen, int fd, int *out_other);
/* False: it was not kept. */
bool fd_store_drop(const char *name);
/* Let go of weights from former processes that @wanted does not want. */
void fd_store_prune(bool (*wanted)(void *ctx, const char *model), void *ctx);

/* fd_store_server.c: be the fd store at @path until told to end; the exit status. */
int fd_store_main(const char *path);

#endif
