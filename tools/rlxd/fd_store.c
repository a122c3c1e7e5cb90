// SPDX-License-Identifier: MIT
/* Asks the fd store, or the service manager, to keep descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "serve/sock.h"
#include "tools/rlxd/fd_store.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/notify.h"

enum { PATIENCE_MS = 5000 };

static char path_of[RLX_WIRE_TEXT];
static const char *store;			/* its path; NULL: the manager */
static unsigned int n_fds;			/* passed, from 3 on */

void fd_store_setup(const char *path, unsigned int n_passed)
{
	snprintf(path_of, sizeof(path_of), "%s", path ? path : "");
	store = path ? path_of : NULL;
	n_fds = n_passed;
}

bool fd_store_sockets(void)
{
	return store != NULL;
}

/* The model that what is kept by @name is of; NULL: none. */
static const char *model_of(const char *name)
{
	static const char *const prefix[] = { FD_STORE_WEIGHTS, FD_STORE_RESIDENT };
	size_t i, n;

	for (i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++) {
		n = strlen(prefix[i]);
		if (!strncmp(name, prefix[i], n))
			return name + n;
	}
	return NULL;
}

bool fd_store_has_passed(unsigned int i)
{
	return model_of(notify_fd_name(i)) != NULL;
}

static enum rlx_status exchange(int fd, struct rlx_wire_msg *m, int pass, int *out_pass,
				struct rlx_error *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct rlx_cred peer;
	unsigned int n = 0;

	/* Nobody but ourselves and root may hand us weights. */
	if (!rlx_sock_cred(fd, &peer) || (peer.uid && peer.uid != geteuid()))
		return rlx_fail(err, RLX_EACCES, "it runs as another user");
	if (!rlx_sock_send(fd, m, &pass, pass >= 0) || poll(&p, 1, PATIENCE_MS) != 1 ||
	    rlx_sock_recv(fd, m, out_pass, 1, &n) != 1 || m->type != RLX_WIRE_FD_STORE)
		return rlx_fail(err, RLX_EIO, "it does not answer");
	if (!n)
		*out_pass = -1;
	return RLX_OK;
}

/* @m is asked and becomes the answer. False, with a line in the log: there is none. */
static bool ask(struct rlx_wire_msg *m, enum fd_store_op op, int pass, int *out_pass)
{
	struct rlx_error err = { 0 };
	enum rlx_status st;
	int fd;

	*out_pass = -1;
	m->type = RLX_WIRE_FD_STORE;
	m->handle = op;
	st = rlx_sock_connect(store, &fd, &err);
	if (!st) {
		st = exchange(fd, m, pass, out_pass, &err);
		close(fd);
	}
	if (st)
		log_event(LOG_WARN, "no fd store", L_STR("socket", store),
			  L_STR("error", err.text));
	return !st;
}

static struct rlx_wire_msg message(const char *name)
{
	struct rlx_wire_msg m = { 0 };

	snprintf(m.text, sizeof(m.text), "%s", name);
	return m;
}

int fd_store_get(const char *name, uint64_t *out_version)
{
	struct rlx_wire_msg m = message(name);
	unsigned int i;
	int fd;

	*out_version = 0;
	if (store) {
		if (!ask(&m, FD_STORE_GET, -1, &fd))
			return -1;
		*out_version = m.tag;
		return fd;
	}
	for (i = 0; i < n_fds; i++)
		if (!strcmp(notify_fd_name(i), name))
			return fcntl(3 + (int)i, F_DUPFD_CLOEXEC, 3);
	return -1;
}

bool fd_store_put(const char *name, uint64_t seen, int fd, int *out_other)
{
	struct rlx_wire_msg m = message(name);

	*out_other = -1;
	if (!store) {
		notify_unstore(name);
		return notify_store(name, fd);
	}
	m.tag = seen;
	if (!ask(&m, FD_STORE_PUT, fd, out_other))
		return false;
	if (m.handle == FD_STORE_FULL)
		log_event(LOG_WARN, "the fd store is full", L_STR("socket", store));
	return m.handle == FD_STORE_OK;
}

bool fd_store_drop(const char *name)
{
	struct rlx_wire_msg m = message(name);
	int fd;

	if (store)
		return ask(&m, FD_STORE_DROP, -1, &fd) && m.handle == FD_STORE_OK;
	notify_unstore(name);
	return true;
}

/* The name at @i of all that is kept; false: there are no more. */
static bool name_at(uint64_t i, struct rlx_wire_msg *m)
{
	int fd;

	*m = message(i < n_fds ? notify_fd_name((unsigned int)i) : "");
	m->tag = i;
	return store ? ask(m, FD_STORE_LIST, -1, &fd) && m->handle == FD_STORE_OK : i < n_fds;
}

void fd_store_prune(bool (*wanted)(void *ctx, const char *model), void *ctx)
{
	struct rlx_wire_msg m;
	const char *model;
	uint64_t i = 0;

	while (name_at(i, &m)) {
		model = model_of(m.text);
		/* At the fd store the next one takes the place of one that went. */
		if (!model || wanted(ctx, model) || !fd_store_drop(m.text) || !store)
			i++;
	}
}
