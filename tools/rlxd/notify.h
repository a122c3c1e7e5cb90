/* SPDX-License-Identifier: MIT */
/* What a service manager and we tell each other, by sd_notify(3)'s protocol. */
#ifndef RLXD_NOTIFY_H
#define RLXD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* "READY=1" and the like; nothing without NOTIFY_SOCKET. */
void notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Have the manager keep @fd for the next process as @name. */
bool notify_store(const char *name, int fd);
void notify_unstore(const char *name);
/* How often the manager wants to hear of us, in ns; 0: it does not. */
int64_t notify_watchdog_ns(void);

/*
 * Descriptors that were passed to us (sd_listen_fds(3)): their number, from 3 on,
 * and the name of each. The variables are removed, so that no child takes them.
 */
unsigned int notify_fds(void);
unsigned int notify_fd_count(void);	/* what notify_fds() said */
const char *notify_fd_name(unsigned int i);

#endif
