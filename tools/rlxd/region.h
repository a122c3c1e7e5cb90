/* SPDX-License-Identifier: MIT */
/*
 * POSIX shared memory that peers registered by name. Whoever owns such a file can
 * cut it short while we read it; the page that is missing then is replaced by
 * zeros, the region is marked, and the request that used it fails.
 */
#ifndef RLXD_REGION_H
#define RLXD_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"
#include "tools/rlxd/obuf.h"

enum { REGIONS_MAX = 256, REGION_NAME_MAX = 79 };

struct region;

/* A thread that looks at them takes that signal and no other. */
void region_thread_signals(void);
/* Catches the faults above; once, before any region. */
enum rlx_status __rlx_must_check region_setup(struct rlx_error *err);

/*
 * Map @bytes from @offset of shared memory @key as @name. @uid: its owner must be
 * that user; -1: anybody's will do. Mapping it again under its name is fine while
 * nothing differs.
 */
enum rlx_status __rlx_must_check
region_register(const char *name, const char *key, uint64_t offset, uint64_t bytes, int uid,
		struct rlx_error *err);
/* NULL: all. False: there is none of that name. */
bool region_unregister(const char *name);
/* With a reference; NULL if there is none. */
struct region *region_get(const char *name);
void region_put(struct region *g);

/* The bytes [offset, offset + n); NULL if they are not inside. */
void *region_at(struct region *g, uint64_t offset, uint64_t n);
/* Its file was cut while we used it. */
bool region_is_torn(const struct region *g);
/* JSON of KServe's status reply; NULL: all. False: there is none of that name. */
bool region_status(const char *name, struct obuf *o);

#endif
