/* SPDX-License-Identifier: MIT */
/* Calling /dev/rlx as a test does: plain results, and the rules of every struct. */
#ifndef RLX_KMOD_ABI_H
#define RLX_KMOD_ABI_H

#include <linux/rlx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the call returned, or the negative errno. */
long k_ioctl(int fd, unsigned long cmd, void *arg);

/* A session; fails the test without one. */
int k_open(void);

/* An arena of the module, for reading and writing; fails the test without. */
int k_arena(int session, uint64_t size, uint32_t flags);

/* RLX_FEAT_* of the module on this kernel. */
uint64_t k_features(int session);

/*
 * The flag for an arena of huge pages, or of small ones in a kernel that has none (as
 * PREEMPT_RT's); what cannot be tested there skips the test.
 */
uint32_t k_huge(int session);
void k_need_huge(int session);

/* A timeline; fails the test without one. */
int k_timeline(int session, uint64_t initial);
long k_signal(int timeline, uint64_t value);
/* The value; *@error (may be NULL) as QUERY gives it. */
uint64_t k_query(int timeline, int *error);

/* CLOCK_MONOTONIC now, in nanoseconds. */
uint64_t k_now(void);
/* What takes @ns where nothing else is to be done: how long it may take here. */
uint64_t k_patience(uint64_t ns);

/* Bytes that must be zero. */
struct k_range {
	size_t	off, len;
};
#define K_FIELD(type, field) \
	{ offsetof(type, field), sizeof(((type *)0)->field) }

/**
 * k_abi_check - what holds for the struct of every command.
 * @fd:    to call on
 * @cmd:   command
 * @arg:   arguments of a call that returns @want; not changed
 * @want:  its result; for a command that returns a descriptor any is meant by
 *         @want 0, and it is closed
 * @zero:  reserved fields
 * @nr:    how many of them
 *
 * A struct 8 bytes shorter is EINVAL (it has one version yet), 8 longer counts
 * if these are zero and is E2BIG if not, each bit of each reserved byte is
 * EINVAL, and a bad address is EFAULT. Call it with something that can be done
 * again and again.
 */
void k_abi_check(int fd, unsigned long cmd, const void *arg, long want,
		 const struct k_range *zero, size_t nr);

/* Each of @others, commands of other kinds of fd, is ENOTTY on @fd. */
void k_abi_foreign(int fd, const unsigned long *others, size_t nr);

/* Has injected faults reach allocations that may sleep too; silently. */
void k_fail_prepare(void);

/*
 * Faults are injected only where code of @module is on the stack (as root). False where
 * the kernel has no such filter.
 */
bool k_fail_within(const char *module);

/*
 * Calls @fn with the n-th allocation failing, n from 1, until it gets through
 * without; @fn returns 0 or a negative errno, which must be one of those listed
 * (0 ends the list; -ENOMEM always may be), and undoes what it did. Skips
 * itself where the kernel has no /proc/self/fail-nth. Returns how many n.
 */
int k_fail_nth(const char *name, long (*fn)(void *arg), void *arg,
	       const int *errors);

/*
 * Calls @fn with no descriptor left: it must return -EMFILE; and once more with
 * one, when it must not.
 */
void k_no_fd(long (*fn)(void *arg), void *arg);

/*
 * Whoever comes to rlx_stall(@where) in the module stops there, until "\n" is written; false where
 * the module is built without test hooks.
 */
bool k_stall_at(const char *where);
/* Waits until somebody has stopped; fails the test after a minute. */
void k_stalled_wait(void);

#endif
