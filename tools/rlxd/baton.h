/* SPDX-License-Identifier: MIT */
/*
 * Whose turn it is to serve, of servers that share a keeper: one at a time. The lock
 * is robust, so that the kernel passes it on as soon as its holder begins to die: long
 * before its memory, rings and sockets are taken apart.
 */
#ifndef RLXD_BATON_H
#define RLXD_BATON_H

#include <stdbool.h>
#include <stdint.h>

#include "rlx/status.h"

/* Find it at the keeper, or have it kept. */
enum rlx_status baton_open(struct rlx_error *err);
/* Is it held at the moment: does another one serve? */
bool baton_is_held(void);
/*
 * Stand in line for it. *@out_fd, an eventfd, becomes readable when it is ours: before
 * this returns, if nobody held it.
 */
enum rlx_status baton_want(int *out_fd, struct rlx_error *err);
/* Let the next one serve. A process that ends does so anyway. */
void baton_pass(void);
/* Does somebody stand in line? */
bool baton_is_wanted(void);

/* What is served changed: how often so far, and once more. */
uint64_t baton_changes(void);
void baton_changed(void);

#endif
