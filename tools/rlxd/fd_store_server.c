// SPDX-License-Identifier: MIT
/* The fd store: holds descriptors for servers of its own user, and does nothing else. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/sock.h"
#include "tools/rlxd/fd_store.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/notify.h"

enum { ENTRIES = 256, PEERS = 64 };

/* Entries in use come first. */
static struct kept {
	char		name[RLX_WIRE_TEXT];
	uint64_t	version;
	int		fd;
} kept[ENTRIES];
static unsigned int n_kept;
static uint64_t versions;

static struct kept *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < n_kept; i++)
		if (!strcmp(kept[i].name, name))
			return &kept[i];
	return NULL;
}

static void drop(struct kept *k)
{
	log_event(LOG_NOTE, "dropped", L_STR("name", k->name), L_INT("version", k->version));
	close(k->fd);
	memmove(k, k + 1, (size_t)(&kept[--n_kept] - k) * sizeof(*k));
}

/* Takes @fd. Gives what descriptor goes with the answer, or -1. */
static int put(struct rlx_wire_msg *m, int fd)
{
	struct kept *k = find(m->text);

	if (k && k->version != m->tag) {	/* somebody was faster */
		close(fd);
		m->handle = FD_STORE_OTHER;
		m->tag = k->version;
		return k->fd;
	}
	if (k)
		drop(k);
	if (n_kept == ENTRIES) {
		close(fd);
		m->handle = FD_STORE_FULL;
		return -1;
	}
	k = &kept[n_kept++];
	memcpy(k->name, m->text, sizeof(k->name));
	k->version = ++versions;
	k->fd = fd;
	m->handle = FD_STORE_OK;
	m->tag = k->version;
	log_event(LOG_NOTE, "kept", L_STR("name", k->name), L_INT("version", k->version));
	return -1;
}

/* @m becomes the answer; takes @fd. Gives what goes with the answer, or -1. */
static int answer(struct rlx_wire_msg *m, int fd)
{
	struct kept *k = find(m->text);
	uint32_t op = m->handle;

	if (op == FD_STORE_PUT && fd >= 0)
		return put(m, fd);
	if (fd >= 0)
		close(fd);
	m->handle = FD_STORE_NONE;
	if (op == FD_STORE_LIST && m->tag < n_kept) {
		m->handle = FD_STORE_OK;
		memcpy(m->text, kept[m->tag].name, sizeof(m->text));
		return -1;
	}
	if (!k || (op != FD_STORE_GET && op != FD_STORE_DROP))
		return -1;
	m->handle = FD_STORE_OK;
	m->tag = k->version;
	if (op == FD_STORE_GET)
		return k->fd;
	drop(k);
	return -1;
}

/* -1 for whoever is not of our user: it is told nothing. */
static int take_peer(int listener)
{
	struct rlx_cred peer = { .uid = 0 };
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -1;
	if (rlx_sock_cred(fd, &peer) && (!peer.uid || peer.uid == geteuid()))
		return fd;
	log_event(LOG_WARN, "refused", L_INT("uid", peer.uid));
	close(fd);
	return -1;
}

/* One question of a peer. False: it has gone, or what it says makes no sense. */
static bool serve(int peer)
{
	struct rlx_wire_msg m;
	int fd = -1, rc;
	unsigned int n;

	rc = rlx_sock_recv(peer, &m, &fd, 1, &n);
	if (rc <= 0)
		return !rc;
	if (m.type != RLX_WIRE_FD_STORE) {
		if (n)
			close(fd);
		return false;
	}
	fd = answer(&m, n ? fd : -1);
	return rlx_sock_send(peer, &m, &fd, fd >= 0);
}

/* Until a signal comes. */
static void loop(int listener, int sig_fd)
{
	struct pollfd p[2 + PEERS] = {
		{ .fd = sig_fd, .events = POLLIN }, { .fd = listener, .events = POLLIN },
	};
	unsigned int n = 2, i;
	int fd;

	for (;;) {
		p[1].events = n < 2 + PEERS ? POLLIN : 0;
		if (poll(p, n, -1) < 0)
			continue;
		if (p[0].revents)
			break;
		for (i = n; i-- > 2; )
			if (p[i].revents && !serve(p[i].fd)) {
				close(p[i].fd);
				p[i] = p[--n];
			}
		fd = p[1].revents ? take_peer(listener) : -1;
		if (fd >= 0)
			p[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
	while (n > 2)
		close(p[--n].fd);
}

int fd_store_main(const char *path)
{
	struct rlx_error err = { 0 };
	int fd, lock, sig_fd;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sig_fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (sig_fd < 0 || rlx_sock_listen(path, 0600, &fd, &lock, &err)) {
		log_event(LOG_ERROR, "cannot start", L_STR("error", sig_fd < 0 ?
			  strerror(errno) : err.text));
		if (sig_fd >= 0)
			close(sig_fd);
		return 1;
	}
	log_event(LOG_NOTE, "keeping", L_STR("socket", path));
	notify("READY=1\nSTATUS=Keeping");
	loop(fd, sig_fd);
	while (n_kept)
		close(kept[--n_kept].fd);
	rlx_sock_unlisten(path, fd, lock);
	close(sig_fd);
	return 0;
}
