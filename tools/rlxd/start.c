// SPDX-License-Identifier: MIT
/* Opens and closes what a server consists of, but for its models. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlxd/channel.h"
#include "tools/rlxd/fd_store.h"
#include "tools/rlxd/leader_lock.h"
#include "tools/rlxd/listen.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/notify.h"
#include "tools/rlxd/otlp.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/renew.h"
#include "tools/rlxd/start.h"
#include "tools/rlxd/worker_pool.h"

static const char default_listen[] = "127.0.0.1:8000";

/* A socket that the fd store has, or one that it gets. */
static enum rlx_status listen_kept(const struct conf_listen *cl, struct listener *out,
				   struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	enum rlx_status st;
	char name[128];
	uint64_t seen;
	int fd, other;

	snprintf(name, sizeof(name), "listen-%s", cl->text);
	fd = fd_store_get(name, &seen);
	if (fd >= 0 && !listen_adopt(fd, cl->tls, cl->insecure, out, &why))
		return RLX_OK;
	if (fd >= 0) {
		log_event(LOG_WARN, "kept socket not adopted", L_STR("error", why.text));
		close(fd);
	}
	st = listen_open(cl, out, err);
	if (st || !fd_store_put(name, seen, out->fd, &other))
		return st;
	out->ours = false;	/* the file stays as long as the fd store */
	return RLX_OK;
}

/*
 * A process that was killed may hold the address for some moments more, until the
 * kernel has taken its ring apart; one that starts beside us may have it kept soon.
 */
static enum rlx_status open_listener(const struct conf_listen *cl, struct listener *out,
				     struct rlx_error *err)
{
	int64_t end = now_ns() + 3000000000;
	int fd = renew_passed(cl->text);
	struct rlx_error why;
	enum rlx_status st;

	if (fd >= 0) {		/* ours, from before we were executed again */
		st = listen_adopt(fd, cl->tls, true, out, err);
		out->ours = out->is_unix;
		renew_name(cl->text, out->passed, sizeof(out->passed));
		return st;
	}
	for (;;) {
		why = (struct rlx_error){ 0 };
		st = fd_store_sockets() ? listen_kept(cl, out, &why) : listen_open(cl, out, &why);
		if (st != RLX_EBUSY || now_ns() > end)
			break;
		usleep(20000);
	}
	if (!fd_store_sockets())
		renew_name(cl->text, out->passed, sizeof(out->passed));
	return st ? rlx_fail(err, st, "%s", why.text) : RLX_OK;
}

static enum rlx_status open_listeners(struct server *s, unsigned int n_passed,
				      struct rlx_error *err)
{
	struct conf_listen def;
	enum rlx_status st = RLX_OK;
	unsigned int i;
	bool tls;

	for (i = 0; !st && i < n_passed && s->n_listener < LISTENERS_MAX; i++) {
		if (fd_store_has_passed(i) || !strncmp(notify_fd_name(i), "renew-", 6))
			continue;
		tls = !strcmp(notify_fd_name(i), "tls");
		if (tls && !s->may_tls)
			return rlx_fail(err, RLX_EACCES, "a socket that was passed to us is named "
					"tls, but there is no tls_certificate or no [key NAME]");
		st = listen_adopt(3 + (int)i, tls, !strcmp(notify_fd_name(i), "insecure"),
				  &s->listener[s->n_listener++], err);
		snprintf(s->listener[s->n_listener - 1].passed,
			 sizeof(s->listener[0].passed), "%s", *notify_fd_name(i) ?
			 notify_fd_name(i) : "passed");
	}
	for (i = 0; !st && i < s->limits.n_listen; i++) {
		if (s->n_listener == LISTENERS_MAX)
			return rlx_fail(err, RLX_ERANGE, "more than %d addresses", LISTENERS_MAX);
		st = open_listener(&s->limits.listen[i], &s->listener[s->n_listener++], err);
	}
	if (!st && !s->n_listener)
		st = conf_listen(default_listen, strlen(default_listen), false, &def, err);
	if (!st && !s->n_listener)
		st = open_listener(&def, &s->listener[s->n_listener++], err);
	for (i = 0; !st && i < s->n_listener; i++) {
		log_event(LOG_NOTE, "listening", L_STR("address", s->listener[i].name));
		if (s->listener[i].off_host && !s->listener[i].tls)
			log_event(LOG_WARN, s->conf->n_key ?
				  "plain HTTP off this machine: keys and data can be read on the way" :
				  "plain HTTP off this machine: whoever reaches it may ask everything",
				  L_STR("address", s->listener[i].name));
	}
	return st;
}

static enum rlx_status open_loops(struct server *s, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	unsigned int i, k;

	s->loop = rlx_calloc((size_t)s->limits.threads, sizeof(*s->loop));
	if (!s->loop)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	for (i = 0; !st && i < (unsigned int)s->limits.threads; i++) {
		s->n_loop++;
		st = loop_open(&s->loop[i], s, i, err);
		for (k = 0; !st && k < s->n_listener; k++)
			if (!s->loop[i].engine->listen(&s->loop[i], &s->listener[k]))
				st = rlx_fail(err, RLX_ERANGE, "too many addresses");
	}
	return st;
}

enum rlx_status server_serve(struct server *s, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; !st && i < s->n_loop; i++) {
		st = loop_start(&s->loop[i], err);
		s->n_started += !st;
	}
	if (!st)
		log_event(LOG_NOTE, "started", L_STR("version", RLX_VERSION),
			  L_STR("engine", s->loop[0].engine->name), L_INT("threads", s->n_loop));
	return st;
}

static void raise_limits(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

enum rlx_status server_open(struct server *s, struct conf *c, unsigned int n_passed,
			    struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	enum rlx_status st;

	pthread_mutex_init(&s->lock, NULL);
	s->started = time(NULL);
	s->conf = c;
	s->limits = s->conf->server;
	if (c->server.fd_store)
		s->limits.fd_store = s->fd_store = rlx_strdup(c->server.fd_store);
	s->budget.max = (uint64_t)s->limits.max_memory;
	s->may_tls = c->tls && c->n_key;
	log_setup((enum log_level)s->limits.log_level, s->limits.log_json);
	atomic_store(&s->loading, true);
	s->set = rlx_calloc(1, sizeof(*s->set));
	if (!s->set)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	atomic_init(&s->set->refs, 1);
	raise_limits();
	node_setup("/sys/devices/system/node");
	fd_store_setup(c->server.fd_store, n_passed);
	s->standby = c->server.standby && !leader_lock_open(&why);
	if (why.status)
		log_event(LOG_WARN, "cannot stand by", L_STR("error", why.text));
	st = otlp_setup(c->server.otlp_endpoint, err);
	if (!st)
		st = region_setup(err);
	if (!st)
		st = worker_pool_open(2, &s->workers, err);
	return st;
}

enum rlx_status server_listen(struct server *s, unsigned int n_passed, struct rlx_error *err)
{
	enum rlx_status st = open_listeners(s, n_passed, err);

	return st ? st : open_loops(s, err);
}

void server_stop_loops(struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->n_started; i++)
		loop_stop(&s->loop[i]);
	for (i = 0; i < s->n_started; i++)
		loop_join(&s->loop[i]);
	s->n_started = 0;
}

void server_close(struct server *s)
{
	struct client *c;
	unsigned int i;

	server_stop_loops(s);
	channels_stop(s);
	otlp_stop();
	worker_pool_close(s->workers);
	channels_close(s);
	for (i = 0; i < s->n_loop; i++)
		loop_close(&s->loop[i]);
	rlx_free(s->loop);
	region_prune(NULL, NULL);
	model_set_put(s->set);
	conf_free(s->conf);
	rlx_free(s->fd_store);
	while ((c = s->clients)) {
		s->clients = c->next;
		rlx_free(c);
	}
	for (i = 0; i < s->n_listener; i++) {
		if (s->listener[i].fd < 0)
			continue;
		close(s->listener[i].fd);
		/* A passed one is the manager's: its file stays. */
		if (s->listener[i].ours && s->listener[i].is_unix)
			unlink(s->listener[i].name + 5);
	}
	pthread_mutex_destroy(&s->lock);
}
