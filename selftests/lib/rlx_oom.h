/* SPDX-License-Identifier: MIT */
/* Sweeps a working sequence of calls by failing each of its allocations once. */
#ifndef RLX_OOM_H
#define RLX_OOM_H

#include <stdint.h>

#include "rlx/status.h"

/*
 * Do the whole sequence and undo it: build, use, free. Return the status of
 * the first call that failed, after freeing what there was; RLX_OK at the end.
 */
typedef enum rlx_status (*rlx_oom_fn)(void *ctx);

/*
 * Calls @fn with its 1st, 2nd, 3rd ... allocation failing, until one call gets
 * by without meeting the fault. Fails the test unless each call that met it
 * returns RLX_ENOMEM (or RLX_OK, having done without), the last one returns
 * RLX_OK, and every one leaves as many heap blocks, descriptors and mappings of
 * memfds as it found. What a library keeps over calls, a cache say, is to be
 * filled by a call to @fn before.
 *
 * Returns the number of faults met, so that a test can ask for at least one.
 */
uint64_t rlx_oom_sweep(rlx_oom_fn fn, void *ctx);

/* Open descriptors, and lines of /proc/self/maps that name a memfd. */
unsigned int rlx_oom_fds(void);
unsigned int rlx_oom_memfd_maps(void);

#endif
