// SPDX-License-Identifier: MIT
/* The program executed again in place, with its listening sockets: see renew.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/map.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/notify.h"
#include "tools/rlxd/renew.h"

enum { FIRST = 3, MOST = 64, NAME = 128 };

static char **arguments;
static int wanted = -1;
static atomic_bool told;

enum rlx_status renew_setup(char **argv, int *out_fd, struct rlx_error *err)
{
	arguments = argv;
	*out_fd = wanted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return wanted < 0 ? rlx_fail(err, RLX_EIO, "%m") : RLX_OK;
}

void renew_want(const char *why)
{
	if (atomic_exchange(&told, true))
		return;
	log_event(LOG_ERROR, "a device is lost", L_STR("error", why));
	eventfd_write(wanted, 1);
}

/* What the new one is to have, by number and by name. */
struct passed {
	int		fd[MOST];
	char		name[MOST][NAME];
	unsigned int	n;
};

static void add(struct passed *p, int fd, const char *name)
{
	if (p->n == MOST || fd < 0)
		return;
	/* out of the way of the numbers that they are to have */
	p->fd[p->n] = fcntl(fd, F_DUPFD_CLOEXEC, FIRST + MOST);
	if (p->fd[p->n] >= 0)
		snprintf(p->name[p->n++], NAME, "%s", name);
}

/* The manager's store passed what is no socket that listens: kept weights. */
static void add_stored(struct passed *p)
{
	unsigned int i, n = notify_fd_count();
	socklen_t len = sizeof(int);
	int yes = 0;

	for (i = 0; i < n; i++)
		if (getsockopt(FIRST + (int)i, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) || !yes)
			add(p, FIRST + (int)i, notify_fd_name(i));
}

void renew_name(const char *address, char *out, size_t n)
{
	snprintf(out, n, "renew-%016llx",
		 (unsigned long long)rlx_hash_bytes(address, strlen(address), 1));
}

int renew_passed(const char *address)
{
	char name[40];
	unsigned int i;

	renew_name(address, name, sizeof(name));
	for (i = 0; i < notify_fd_count(); i++)
		if (!strcmp(notify_fd_name(i), name))
			return FIRST + (int)i;
	return -1;
}

static bool place(const struct passed *p)
{
	char names[MOST * (NAME + 1)] = "", number[24];
	unsigned int i;

	for (i = 0; i < p->n; i++) {
		if (dup2(p->fd[i], FIRST + (int)i) < 0)
			return false;
		strcat(names, i ? ":" : "");
		strcat(names, p->name[i]);
	}
	snprintf(number, sizeof(number), "%u", p->n);
	if (setenv("LISTEN_FDS", number, 1) || setenv("LISTEN_FDNAMES", names, 1))
		return false;
	snprintf(number, sizeof(number), "%ld", (long)getpid());
	return !setenv("LISTEN_PID", number, 1) &&
	       !close_range(FIRST + p->n, ~0u, CLOSE_RANGE_CLOEXEC);
}

void renew(const struct server *s)
{
	static struct passed p;		/* too large for a stack */
	unsigned int i;

	add_stored(&p);
	for (i = 0; i < s->n_listener; i++)
		if (*s->listener[i].passed)	/* else an fd store has it */
			add(&p, s->listener[i].fd, s->listener[i].passed);
	log_event(LOG_NOTE, "starting anew");
	log_stop();
	if (place(&p))
		execv("/proc/self/exe", arguments);
	log_start();
	log_event(LOG_ERROR, "cannot start anew", L_STR("error", strerror(errno)));
}
