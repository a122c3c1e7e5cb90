/* SPDX-License-Identifier: MIT */
/*
 * Beginning anew in place: a device that failed is lost to this process, but not to a
 * new one. The program is executed again under the same process id, with its listening
 * sockets, in whose queues those wait who connect meanwhile.
 */
#ifndef RLXD_RENEW_H
#define RLXD_RENEW_H

#include "tools/rlxd/server.h"

/* @argv: to be executed with. *@out_fd, an eventfd, is readable once that is wanted. */
enum rlx_status renew_setup(char **argv, int *out_fd, struct rlx_error *err);
/* Ask for it, as @why says. Any thread; at once. */
void renew_want(const char *why);
/*
 * Sockets that listen at an address of the configuration go by its text: their name, and
 * the one that was passed to us so; -1: none was.
 */
void renew_name(const char *address, char *out, size_t n);
int renew_passed(const char *address);
/* Does it. Loops have been stopped. Returns if it cannot be done, which is logged. */
void renew(const struct server *s);

#endif
