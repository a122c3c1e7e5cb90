// SPDX-License-Identifier: MIT
/* Datagrams to the service manager, and the descriptors it passes. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/rlxd/log.h"
#include "tools/rlxd/notify.h"

enum { NAMES = 64, NAME = 128 };

static char names[NAMES][NAME];
static unsigned int n_names;

static bool tell(const char *text, int pass)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct iovec v = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr m = { .msg_name = &a, .msg_iov = &v, .msg_iovlen = 1 };
	union {
		struct cmsghdr	h;
		char		room[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	ssize_t n;
	int fd;

	if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof(a.sun_path))
		return false;
	strcpy(a.sun_path, path);
	m.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (*path == '@')
		a.sun_path[0] = 0;
	if (pass >= 0) {
		m.msg_control = &ctl;
		m.msg_controllen = sizeof(ctl.room);
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ctl.h), &pass, sizeof(pass));
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	n = sendmsg(fd, &m, MSG_NOSIGNAL);
	if (n < 0)
		log_event(LOG_WARN, "cannot notify", L_STR("socket", path),
			  L_STR("error", strerror(errno)));
	close(fd);
	return n >= 0;
}

void notify(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell(text, -1);
}

bool notify_store(const char *name, int fd)
{
	char text[256];

	snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
	return tell(text, fd);
}

void notify_unstore(const char *name)
{
	notify("FDSTOREREMOVE=1\nFDNAME=%s", name);
}

static bool is_for_us(const char *pid)
{
	return pid && strtol(pid, NULL, 10) == (long)getpid();
}

int64_t notify_watchdog_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	long long v = usec ? strtoll(usec, NULL, 10) : 0;

	if (v <= 0 || v > INT64_MAX / 1000 || (pid && !is_for_us(pid)))
		return 0;
	return v * 1000;
}

unsigned int notify_fds(void)
{
	const char *count = getenv("LISTEN_FDS"), *s = getenv("LISTEN_FDNAMES");
	long n = count && is_for_us(getenv("LISTEN_PID")) ? strtol(count, NULL, 10) : 0;
	unsigned int i;
	size_t k;

	n_names = n < 0 ? 0 : n > NAMES ? NAMES : (unsigned int)n;
	for (i = 0; i < n_names; i++) {
		k = s ? strcspn(s, ":") : 0;
		snprintf(names[i], NAME, "%.*s", (int)(k < NAME ? k : NAME - 1), s ? s : "");
		s = s && s[k] ? s + k + 1 : NULL;
		fcntl(3 + (int)i, F_SETFD, FD_CLOEXEC);
	}
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	return n_names;
}

unsigned int notify_fd_count(void)
{
	return n_names;
}

const char *notify_fd_name(unsigned int i)
{
	return i < n_names ? names[i] : "";
}
