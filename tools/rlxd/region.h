/* SPDX-License-Identifier: MIT */
/*
 * POSIX shared memory that peers registered by name. A region is its owner's alone: to
 * others, who may use the same name, it is not there. Whoever owns such a file can cut it
 * short while we read it; the page that is missing then is replaced by zeros, the region
 * is marked, and the request that used it fails.
 */
#ifndef RLXD_REGION_H
#define RLXD_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"
#include "tools/rlxd/obuf.h"

enum { REGIONS_MAX = 4096, REGION_NAME_MAX = 79 };

/* Who asks: by the name of a key, "" without one, and by user, -1 if that is not known. */
struct region_owner {
	const char	*key;
	int		 uid;
};

/* What one owner may have: regions, and bytes of address space for their whole files. */
struct region_quota {
	unsigned int	 regions;
	uint64_t	 bytes;
};

struct region;

/* A thread that looks at them takes that signal and no other. */
void region_thread_signals(void);
/* Catches the faults above; once, before any region. */
enum rlx_status __rlx_must_check region_setup(struct rlx_error *err);

/* What is to be mapped: @bytes from @offset of shared memory @key, by a name. */
struct region_place {
	const char	*name, *key;
	uint64_t	 offset, bytes;
};

/*
 * Map it for @owner, whose user, if it is known, must be the file's. RLX_EEXIST: @owner has
 * that name already; RLX_EBUSY: @quota, or the table of all, is used up.
 */
enum rlx_status __rlx_must_check
region_register(const struct region_owner *owner, const struct region_quota *quota,
		const struct region_place *place, struct rlx_error *err);
/* @name NULL: all of @owner. False: there is none of that name. */
bool region_unregister(const struct region_owner *owner, const char *name);
/* Unregister those whose owner @stays() says no to, by its key; NULL: all. */
void region_prune(bool (*stays)(void *ctx, const char *key), void *ctx);
/* With a reference; NULL if @owner has none of that name. */
struct region *region_get(const struct region_owner *owner, const char *name);
void region_put(struct region *g);

/* The bytes [offset, offset + n); NULL if they are not inside. */
void *region_at(struct region *g, uint64_t offset, uint64_t n);
/* Its file was cut while we used it. */
bool region_is_torn(const struct region *g);
/* JSON of KServe's status reply; @name NULL: all of @owner. False: it has none of that name. */
bool region_status(const struct region_owner *owner, const char *name, struct obuf *o);

#endif
