/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the pure files (slot.c and others that touch neither memory nor files of
 * the kernel) need of it. The tests compile them in user space, where a small
 * shim stands in.
 */
#ifndef RLX_PURE_H
#define RLX_PURE_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/nospec.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "selftests/kmod/shim/kernel.h"
#endif

/*
 * A local that is written before it is read: kernels that zero every local at the
 * start of its function (INIT_STACK_ALL_ZERO) leave it alone. For those of the path
 * of a request, where this would cost more than the rest.
 */
#if defined(__has_attribute) && !defined(__CHECKER__)
#if __has_attribute(uninitialized)
#define RLX_UNINIT	__attribute__((uninitialized))
#endif
#endif
#ifndef RLX_UNINIT
#define RLX_UNINIT
#endif

#endif
