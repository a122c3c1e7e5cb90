/* SPDX-License-Identifier: MIT */
/* Children that say when they have come to a point, and are killed there. */
#ifndef RLX_KMOD_CHILD_H
#define RLX_KMOD_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct k_child {
	pid_t pid;
	int said;
};

/* Runs @fn, and then waits for its end, which is not later than its parent's. */
struct k_child k_child_new(void (*fn)(void *arg), void *arg);

/*
 * Likewise in the caller's memory, which its end leaves as it is: what the end takes is what
 * else it has. One at a time; until it has spoken, or is gone, the caller does nothing.
 */
struct k_child k_child_inside(void (*fn)(void *arg), void *arg);

/* By the child, and what it says within @ms, or 0. */
void k_child_say(char c);
char k_child_said(struct k_child *c, int ms);

/* SIGKILL. Returns the nanoseconds until it was gone. */
uint64_t k_child_kill(struct k_child *c);

#endif
