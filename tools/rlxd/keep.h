/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that outlive us, by name: sockets we listen on and arenas of prepared
 * weights. They are kept by a process of its own (rlxd --keeper), or weights alone
 * by the service manager, whose sockets outlive us anyway.
 *
 * The keeper is asked by a RLX_WIRE_KEEP with one of these in handle, a name in text
 * and a version in tag, and answers likewise; a descriptor may come with either.
 */
#ifndef RLXD_KEEP_H
#define RLXD_KEEP_H

#include <stdbool.h>
#include <stdint.h>

/* What names of weights begin with, and those of their place in a GPU's memory. */
#define KEEP_WEIGHTS	"weights-"
#define KEEP_RESIDENT	"resident-"

enum keep_op {
	KEEP_GET,	/* the descriptor of that name */
	KEEP_PUT,	/* keep one, in place of the version that was seen (0: of none) */
	KEEP_DROP,
	KEEP_LIST,	/* the name at index @version */
	/* Answers. */
	KEEP_OK,
	KEEP_NONE,	/* there is no such */
	KEEP_OTHER,	/* somebody put another meanwhile: here it is */
	KEEP_FULL,
};

/*
 * Where the keeper listens; NULL: the service manager keeps, if it offers to.
 * @n_passed: descriptors that came with the start.
 */
void keep_setup(const char *path, unsigned int n_passed);
/* Is passed descriptor @i one of the kept, not a socket to listen on? */
bool keep_is_kept(unsigned int i);
/* Is there a keeper, which keeps sockets too? */
bool keep_sockets(void);

/* A kept descriptor, to be closed; -1: there is none. @out_version is for keep_put(). */
int keep_get(const char *name, uint64_t *out_version);
/*
 * Keep @fd in place of version @seen. False: it is not kept; if somebody else was
 * faster, *@out_other is theirs, to be closed, else -1.
 */
bool keep_put(const char *name, uint64_t seen, int fd, int *out_other);
/* False: it was not kept. */
bool keep_drop(const char *name);
/* Let go of weights from former processes that @wanted does not want. */
void keep_prune(bool (*wanted)(void *ctx, const char *model), void *ctx);

/* keeper.c: be the keeper at @path until told to end; the exit status. */
int keeper_main(const char *path);

#endif
