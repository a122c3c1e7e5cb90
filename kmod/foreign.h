/* SPDX-License-Identifier: GPL-2.0-only */
/* Arenas of a dma-buf that somebody else exports. */
#ifndef RLX_FOREIGN_H
#define RLX_FOREIGN_H

struct rlx_arena;
struct rlx_call;
struct rlx_ioc_arena_create;
struct rlx_ioc_arena_sync;
struct rlx_session;

/**
 * rlx_foreign_arena() - an arena that is a dma-buf, all of it.
 *
 * Return: a published arena, or -EBADF (not open), -EINVAL (no dma-buf, not its
 * size, flags), -EACCES (a read-only fd, not RDONLY), or as rlx_arena_new().
 */
struct rlx_arena *rlx_foreign_arena(struct rlx_session *session,
				    const struct rlx_ioc_arena_create *c);

/* EXPORT and SYNC of such an arena, with what they ask of all arenas checked. */
long rlx_foreign_export(struct rlx_call *call);
long rlx_foreign_sync(struct rlx_arena *a, const struct rlx_ioc_arena_sync *arg);

#endif
