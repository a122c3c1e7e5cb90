// SPDX-License-Identifier: MIT
/* rlxd: starts, reloads, drains and ends the server. */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/proc.h"
#include "tools/rlxd/channel.h"
#include "tools/rlxd/fd_store.h"
#include "tools/rlxd/leader_lock.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/notify.h"
#include "tools/rlxd/obuf.h"
#include "tools/rlxd/otlp.h"
#include "tools/rlxd/renew.h"
#include "tools/rlxd/start.h"
#include "tools/rlxd/weights.h"
#include "tools/rlxd/worker_pool.h"

/* What the command line says. */
struct args {
	const char	*config;
	struct obuf	 text;		/* a configuration, if there is no file */
	const char	*fd_store;	/* be one, there */
	bool		 check;
};

/* Loading a configuration, in a thread of its own so that signals are heard. */
struct load {
	struct server	*server;
	const struct args *args;
	pthread_t	 thread;
	bool		 running, first;
	bool		 again;		/* one that was asked for meanwhile */
	int		 done_fd;	/* an eventfd that tells the end */
	uint64_t	 changes, known;	/* leader_lock_changes(): of this, last */
	int64_t		 again_at;	/* not before, to load what could not be loaded */
	enum rlx_status	 st;
	struct rlx_error err;
};

/* A server from its start to its end. */
struct watch {
	struct server	*server;
	struct load	 load;
	struct pollfd	 p[4];
	bool		 standing_by;	/* another one serves */
	bool		 channels_open;
	int64_t		 drain_end;	/* 0: nobody told it to end */
	bool		 anew;		/* then to begin anew */
};

enum { SIGNAL, LOADED, TURN, LOST, EVENTS };	/* of watch.p; TURN, LOST: -1 once it came */

static const char help[] =
	"usage: rlxd [--config FILE] [--check]\n"
	"       rlxd --model NAME=PATH ... [--listen ADDRESS ...]\n"
	"       rlxd --fd-store PATH\n\n"
	"Serves models over HTTP: OpenAI's embeddings, KServe's inference protocol,\n"
	"metrics for Prometheus.\n\n"
	"  -c, --config FILE       what to serve; see rlxd.conf(5)\n"
	"                          (/etc/rlxd/rlxd.conf)\n"
	"  -m, --model NAME=PATH   serve this model, without a file: an ONNX file, a plan\n"
	"                          file of rlx compile, or a folder with config.json,\n"
	"                          model.safetensors and a tokenizer\n"
	"  -l, --listen ADDRESS    127.0.0.1:PORT, [::1]:PORT or unix:/PATH\n"
	"                          (127.0.0.1:8000)\n"
	"      --listen-insecure ADDRESS\n"
	"                          plain HTTP on any address, as 0.0.0.0:PORT: whoever\n"
	"                          reaches it may ask everything\n"
	"      --check             read the configuration, load nothing, tell what is\n"
	"                          wrong\n"
	"      --fd-store PATH     serve nothing: keep sockets and weights for servers that\n"
	"                          name this unix socket, so that they outlive them\n"
	"  -h, --help\n"
	"  -V, --version\n\n"
	"SIGHUP reloads the configuration, SIGTERM answers what was asked and ends.\n";

static int usage(const char *why, const char *what)
{
	fprintf(stderr, "rlxd: %s%s; see rlxd --help\n", why, what);
	return 2;
}

/* "NAME=PATH" becomes a section of a configuration in memory. */
static bool add_model(struct args *a, const char *s)
{
	const char *eq = strchr(s, '=');

	if (!eq || eq == s || !eq[1] || strchr(s, '\n'))
		return false;
	obuf_fmt(&a->text, "[model %.*s]\npath = %s\n", (int)(eq - s), s, eq + 1);
	return true;
}

/* -1: go on; else the exit status. */
static int parse_args(struct args *a, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "model", required_argument, NULL, 'm' },
		{ "listen", required_argument, NULL, 'l' },
		{ "listen-insecure", required_argument, NULL, 'i' },
		{ "check", no_argument, NULL, 'k' },
		{ "fd-store", required_argument, NULL, 'K' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "c:m:l:hV", longs, NULL)) != -1) {
		switch (o) {
		case 'c':
			a->config = optarg;
			break;
		case 'm':
			if (!add_model(a, optarg))
				return usage("--model wants NAME=PATH, not ", optarg);
			break;
		case 'l':
			obuf_fmt(&a->text, "[server]\nlisten = %s\n", optarg);
			break;
		case 'i':
			obuf_fmt(&a->text, "[server]\nlisten_insecure = %s\n", optarg);
			break;
		case 'k':
			a->check = true;
			break;
		case 'K':
			a->fd_store = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		case 'V':
			puts("rlxd " RLX_VERSION);
			return 0;
		default:
			return usage("unknown option", "");
		}
	}
	if (optind < argc)
		return usage("what is ", argv[optind]);
	if (a->config && a->text.n)
		return usage("--config and --model or --listen exclude each other", "");
	if (a->fd_store && (a->config || a->text.n || a->check))
		return usage("--fd-store stands alone", "");
	if (a->text.failed)
		return usage("out of memory", "");
	return -1;
}

static enum rlx_status read_conf(const struct args *a, struct conf **out, struct rlx_error *err)
{
	if (a->text.n)
		return conf_parse(a->text.p, a->text.n, "command line", out, err);
	return conf_load(a->config ? a->config : "/etc/rlxd/rlxd.conf", out, err);
}

/* What only a start can change is told and left as it is. */
static void compare_server(const struct server *s, const struct conf *c)
{
	unsigned int at = 0;
	const char *name;

	while ((name = conf_server_change(&s->limits, &c->server, &at)))
		log_event(LOG_WARN, "a change in [server] needs a restart", L_STR("option", name));
	if (!conf_channels_equal(s->conf, c))
		log_event(LOG_WARN, "changes in [channel], but for models and max_rows, need a "
			  "restart");
}

/* May somebody have connected who waits for what is being loaded? */
static bool is_awaited(const struct load *ld)
{
	return ld->first && !(ld->server->standby && leader_lock_is_held());
}

static void *load_main(void *ctx)
{
	struct load *ld = ctx;
	struct server *s = ld->server;
	struct model_set *set = NULL;
	unsigned int threads = 2, i;
	struct conf *c;

	ld->st = read_conf(ld->args, &c, &ld->err);
	if (ld->st)
		goto out;
	for (i = 0; i < c->n_model; i++)
		threads += (unsigned int)c->model[i].replicas;
	ld->st = worker_pool_grow(s->workers, threads, &ld->err);
	if (!ld->st)
		ld->st = model_set_open(c, s->set, s->workers, is_awaited(ld), &set, &ld->err);
	if (ld->st) {
		conf_free(c);
		goto out;
	}
	ld->st = worker_pool_grow(s->workers, threads + model_set_extras(set), &ld->err);
	if (!ld->st)
		ld->st = otlp_setup(c->server.otlp_endpoint, &ld->err);
	if (ld->st) {
		model_set_put(set);
		conf_free(c);
		goto out;
	}
	log_setup((enum log_level)c->server.log_level, c->server.log_json);
	s->limits.access_log = c->server.access_log;
	if (!ld->first)
		compare_server(s, c);
	weights_prune(c, s->set);
	server_swap(s, c, set);
out:
	eventfd_write(ld->done_fd, 1);
	/* What reading and compiling left behind; nobody waits for it. */
	malloc_trim(0);
	return NULL;
}

static void load_begin(struct load *ld)
{
	struct server *s = ld->server;
	int rc;

	/* It may have read what changed since. */
	ld->again = ld->running;
	if (ld->running) {
		log_event(LOG_NOTE, "a load is under way, another follows");
		return;
	}
	if (!ld->first)
		notify("RELOADING=1\nMONOTONIC_USEC=%lld",
		       (long long)(rlx_now() / 1000));
	ld->err = (struct rlx_error){ 0 };
	if (s->standby)
		ld->changes = leader_lock_changes();
	rc = pthread_create(&ld->thread, NULL, load_main, ld);
	ld->running = !rc;
	if (rc) {
		ld->st = rlx_fail(&ld->err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
		eventfd_write(ld->done_fd, 1);
	}
}

/* What is being loaded is the other thread's, and told at its end. */
static void tell_status(const struct watch *w)
{
	if (w->load.running)
		return;
	notify("STATUS=%s %u models%s", w->standing_by ? "Standing by with" : "Serving",
	       w->server->set->n, w->load.st ? "; the last reload failed" : "");
}

/* Loading ended. False: it was the first, and nothing can be served. */
static bool load_end(struct watch *w)
{
	struct server *s = w->server;
	struct load *ld = &w->load;
	eventfd_t n;

	eventfd_read(ld->done_fd, &n);
	if (ld->running)
		pthread_join(ld->thread, NULL);
	ld->running = false;
	/* Not before there are models: who comes back to a channel can go on at once. */
	if (ld->first && !ld->st && !s->standby)
		ld->st = channels_open(s, &ld->err);
	if (ld->st) {
		if (!ld->first)
			metric_add(&metrics.reloads_failed, 1);
		log_event(LOG_ERROR, ld->first ? "cannot start" : "reload failed, nothing changed",
			  L_STR("error", ld->err.text));
		if (ld->first)
			return false;
		ld->again_at = now_ns() + 10000000000;
	} else {
		ld->known = ld->changes;
		atomic_store(&s->loading, false);
		atomic_store(&s->ready, true);
		if (!ld->first)
			metric_add(&metrics.reloads, 1);
		log_event(LOG_NOTE, ld->first ? "ready" : "reloaded", L_INT("models", s->set->n));
	}
	/* Who stands by is to have the same. */
	if (!ld->st && !ld->first && s->standby && !w->standing_by) {
		leader_lock_changed();
		ld->known++;
	}
	ld->first = false;
	notify("READY=1");
	tell_status(w);
	if (ld->again && !w->drain_end)
		load_begin(ld);
	return true;
}

/* All loops did a turn within @ns. */
static bool is_alive(const struct server *s, int64_t ns)
{
	int64_t now = now_ns();
	unsigned int i;

	for (i = 0; i < s->n_started; i++)
		if (now - atomic_load(&s->loop[i].beat) > ns)
			return false;
	return channels_are_alive(s, ns);
}

/* Draining, and nobody can connect any more. */
static bool is_deaf(const struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->n_started; i++)
		if (!atomic_load(&s->loop[i].deaf))
			return false;
	return true;
}

/* Ends connections as they become idle, for as long as drain_timeout. */
static void begin_drain(struct watch *w, const char *tell)
{
	struct server *s = w->server;
	unsigned int i;

	log_event(LOG_NOTE, "draining", L_INT("connections", atomic_load(&s->n_conn)));
	notify("%s", tell);
	atomic_store(&s->ready, false);
	w->drain_end = now_ns() + s->limits.drain_timeout_ns;
	for (i = 0; i < s->n_loop; i++)
		loop_drain(&s->loop[i]);
	channels_drain(s);
	if (s->standby)
		leader_lock_pass();
}

/* Who is being answered by other models has so long for it. */
enum { ANEW_NS = 250000000 };

/* A device is lost to this process: it ends as when it drains, and is executed again. */
static void on_lost(struct watch *w)
{
	w->p[LOST].fd = -1;
	if (w->drain_end)
		return;
	w->anew = true;
	begin_drain(w, "STATUS=Starting anew");
	if (w->drain_end > now_ns() + ANEW_NS)
		w->drain_end = now_ns() + ANEW_NS;
}

/* False: nothing more can be done but to end. */
static bool on_signal(struct watch *w)
{
	struct signalfd_siginfo si;

	if (read(w->p[SIGNAL].fd, &si, sizeof(si)) != sizeof(si))
		return true;
	if (si.ssi_signo == SIGHUP) {
		load_begin(&w->load);
	} else if (!w->drain_end) {
		begin_drain(w, "STOPPING=1\nSTATUS=Draining");
	} else if (si.ssi_signo == SIGINT) {
		log_event(LOG_WARN, "interrupted while draining, ending now");
		return false;
	} else {
		/* Managers and their hooks tell it more than once. */
		w->anew = false;
		log_event(LOG_NOTE, "draining already");
	}
	return true;
}

/* False: it cannot serve. */
static bool on_turn(struct watch *w)
{
	struct rlx_error err = { 0 };

	w->p[TURN].fd = -1;
	if (w->drain_end)
		return true;
	if (server_serve(w->server, &err)) {
		log_event(LOG_ERROR, "cannot serve", L_STR("error", err.text));
		return false;
	}
	if (w->standing_by) {
		atomic_store(&w->server->took_over, true);
		log_event(LOG_NOTE, "took over");
	}
	w->standing_by = false;
	tell_status(w);
	return true;
}

/* It serves in turns, and channels are still to be opened. */
static bool wants_channels(const struct watch *w)
{
	return w->server->standby && w->server->n_started && !w->load.first &&
	       !w->load.running && !w->channels_open && !w->drain_end;
}

/* What of its turn is left to do. False: it cannot be done. */
static bool follow_turn(struct watch *w)
{
	struct load *ld = &w->load;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	if (wants_channels(w)) {
		st = channels_open(w->server, &err);
		/* Whose turn it was may have the address for some moments more. */
		if (st && st != RLX_EBUSY) {
			log_event(LOG_ERROR, "cannot serve", L_STR("error", err.text));
			return false;
		}
		w->channels_open = !st;
	}
	if (w->server->standby && !ld->first && !ld->running && !w->drain_end &&
	    leader_lock_changes() != ld->known && now_ns() >= ld->again_at)
		load_begin(ld);
	return true;
}

/* How long nothing need be looked at; -1: until something comes. */
static int patience_ms(const struct watch *w, int64_t watchdog_ns)
{
	int64_t ms = watchdog_ns ? watchdog_ns / 4000000 : -1;

	if (w->drain_end && !is_deaf(w->server))	/* in a moment */
		return 1;
	if (w->drain_end || wants_channels(w))
		return 20;
	/* Whether the one that serves has reloaded. */
	return w->standing_by && (ms < 0 || ms > 1000) ? 1000 : (int)ms;
}

/* Signals, the watchdog and the end; the exit status. */
static int supervise(struct watch *w)
{
	int64_t watchdog = notify_watchdog_ns(), next = now_ns();
	struct server *s = w->server;

	for (;;) {
		if (poll(w->p, EVENTS, patience_ms(w, watchdog)) < 0)
			w->p[SIGNAL].revents = w->p[LOADED].revents = w->p[TURN].revents =
				w->p[LOST].revents = 0;
		if (w->p[LOST].revents)
			on_lost(w);
		if (w->p[TURN].revents && !on_turn(w))
			return 1;
		if (w->p[SIGNAL].revents && !on_signal(w))
			return 1;
		if (w->p[LOADED].revents && !load_end(w))
			return 1;
		if (w->p[LOADED].revents && w->drain_end)	/* it may have opened channels */
			channels_drain(s);
		if (!follow_turn(w))
			return 1;
		if (watchdog && now_ns() >= next && is_alive(s, watchdog)) {
			notify("WATCHDOG=1");
			next = now_ns() + watchdog / 4;
		}
		if (w->drain_end && !w->load.running && is_deaf(s) &&
		    !atomic_load(&s->n_conn) && channels_are_idle(s)) {
			log_event(LOG_NOTE, "drained");
			return 0;
		}
		if (w->drain_end && now_ns() > w->drain_end) {
			log_event(LOG_WARN, w->anew ? "nobody is waited for any more" :
				  "drain_timeout passed",
				  L_INT("connections", atomic_load(&s->n_conn)));
			return 0;
		}
	}
}

/*
 * Whoever connects waits in the kernel's queue meanwhile, as it did while there was no
 * server. Loading with kept weights takes less than this; who waits longer is told 503.
 * False: that is over, and nothing can be served.
 */
static bool give_time(struct watch *w)
{
	return poll(&w->p[LOADED], 1, 1000) != 1 || load_end(w);
}

/* Stand in line, which is short if nobody else serves. */
static enum rlx_status stand_by(struct watch *w, struct rlx_error *err)
{
	enum rlx_status st = leader_lock_want(&w->p[TURN].fd, err);

	w->standing_by = !st && poll(&w->p[TURN], 1, 50) != 1;
	if (w->standing_by) {
		log_event(LOG_NOTE, "standing by");
		tell_status(w);
	}
	return st;
}

static enum rlx_status start(struct watch *w, struct conf *c, struct rlx_error *err)
{
	unsigned int n_passed = notify_fds();
	struct server *s = w->server;
	enum rlx_status st = server_open(s, c, n_passed, err);

	/* Before loading, which puts another configuration in place. */
	if (!st)
		st = server_listen(s, n_passed, err);
	if (st)
		return st;
	load_begin(&w->load);
	if (!give_time(w))
		return w->load.st;
	return s->standby ? stand_by(w, err) : server_serve(s, err);
}

static int serve(const struct args *a, char **argv)
{
	struct server *s = rlx_calloc(1, sizeof(*s));
	struct watch w = { .server = s, .load = { .server = s, .args = a, .first = true } };
	struct rlx_error err = { 0 };
	struct conf *c = NULL;
	sigset_t set;
	int i, rc = 1;

	if (!s)
		return 1;
	log_start();
	for (i = 0; i < EVENTS; i++)
		w.p[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	w.p[SIGNAL].fd = signalfd(-1, &set, SFD_CLOEXEC);
	w.p[LOADED].fd = w.load.done_fd = eventfd(0, EFD_CLOEXEC);
	if (w.p[SIGNAL].fd < 0 || w.load.done_fd < 0)
		rlx_fail(&err, RLX_EIO, "%m");
	else if (!renew_setup(argv, &w.p[LOST].fd, &err) && !read_conf(a, &c, &err) &&
		 !start(&w, c, &err))
		rc = supervise(&w);
	if (w.anew) {
		server_stop_loops(s);
		renew(s);
	}
	if (err.status)
		log_event(LOG_ERROR, "cannot start", L_STR("error", err.text));
	if (w.load.running)
		pthread_join(w.load.thread, NULL);
	server_close(s);
	if (w.load.done_fd >= 0)
		close(w.load.done_fd);
	if (w.p[SIGNAL].fd >= 0)
		close(w.p[SIGNAL].fd);
	log_event(LOG_NOTE, "ended", L_INT("status", rc));
	log_stop();
	rlx_free(s);
	return rc;
}

static int check(const struct args *a)
{
	struct rlx_error err = { 0 };
	struct conf *c;

	if (read_conf(a, &c, &err)) {
		fprintf(stderr, "rlxd: %s\n", err.text);
		return 1;
	}
	printf("ok: %u models, %u keys, %u channels\n", c->n_model, c->n_key, c->n_channel);
	conf_free(c);
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = { 0 };
	int rc = parse_args(&a, argc, argv);

	/*
	 * As it is, but for good: malloc takes the first large piece that is freed as a
	 * reason to have all like it in its heaps, where what loading leaves stays.
	 */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	/* More heaps than processors keep more of what was freed, and nobody waits less. */
	mallopt(M_ARENA_MAX, (int)rlx_cpu_allowed());
	if (rc < 0)
		rc = a.fd_store ? fd_store_main(a.fd_store) : a.check ? check(&a) : serve(&a, argv);
	obuf_fini(&a.text);
	return rc;
}
