/* SPDX-License-Identifier: GPL-2.0-only */
/* Arenas of pages that were somebody's before: user memory and memfds. */
#ifndef RLX_PIN_H
#define RLX_PIN_H

struct rlx_arena;
struct rlx_ioc_arena_create;
struct rlx_session;

/**
 * rlx_pin_user_arena() - pin the caller's memory, for good.
 *
 * Return: a published arena, or -EINVAL, -EOVERFLOW (range), -EFAULT (not
 * mapped, device memory, no right to write), -EOPNOTSUPP (fsdax), -EINTR, or
 * as rlx_arena_new().
 */
struct rlx_arena *rlx_pin_user_arena(struct rlx_session *session,
				     const struct rlx_ioc_arena_create *c);

/**
 * rlx_pin_memfd_arena() - pin a range of a memfd; holes are filled.
 *
 * Return: a published arena, or -EBADF (not open), -EBADFD (neither shmem nor
 * hugetlb), -EACCES (not open for writing), -EINVAL (range, seals),
 * -EOPNOTSUPP (this kernel cannot), or as rlx_arena_new().
 */
struct rlx_arena *rlx_pin_memfd_arena(struct rlx_session *session,
				      const struct rlx_ioc_arena_create *c);

#endif
