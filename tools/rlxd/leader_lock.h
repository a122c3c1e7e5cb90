/* SPDX-License-Identifier: MIT */
/*
 * Whose turn it is to serve, of servers that share an fd store: one at a time. The lock
 * is robust, so that the kernel passes it on as soon as its holder begins to die: long
 * before its memory, rings and sockets are taken apart.
 */
#ifndef RLXD_LEADER_LOCK_H
#define RLXD_LEADER_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"

/* Find it at the fd store, or have it kept. */
enum rlx_status leader_lock_open(struct rlx_error *err);
/* Is it held at the moment: does another one serve? */
bool leader_lock_is_held(void);
/*
 * Stand in line for it. *@out_fd, an eventfd, becomes readable when it is ours: before
 * this returns, if nobody held it.
 */
enum rlx_status leader_lock_want(int *out_fd, struct rlx_error *err);
/* Let the next one serve. A process that ends does so anyway. */
void leader_lock_pass(void);
/* Does somebody stand in line? */
bool leader_lock_is_wanted(void);

/* What is served changed: how often so far, and once more. */
uint64_t leader_lock_changes(void);
void leader_lock_changed(void);

#endif
