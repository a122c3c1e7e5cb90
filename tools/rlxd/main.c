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
#include "tools/rlxd/channel.h"
#include "tools/rlxd/crew.h"
#include "tools/rlxd/keep.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/notify.h"
#include "tools/rlxd/obuf.h"
#include "tools/rlxd/start.h"
#include "tools/rlxd/weights.h"

/* What the command line says. */
struct args {
	const char	*config;
	struct obuf	 text;		/* a configuration, if there is no file */
	const char	*keeper;	/* be one, there */
	bool		 check;
};

/* Loading a configuration, in a thread of its own so that signals are heard. */
struct load {
	struct server	*server;
	const struct args *args;
	pthread_t	 thread;
	bool		 running, first;
	int		 done_fd;	/* an eventfd that tells the end */
	enum rlx_status	 st;
	struct rlx_error err;
};

static const char help[] =
	"usage: rlxd [--config FILE] [--check]\n"
	"       rlxd --model NAME=PATH ... [--listen ADDRESS ...]\n"
	"       rlxd --keeper PATH\n\n"
	"Serves models over HTTP: OpenAI's embeddings, KServe's inference protocol,\n"
	"metrics for Prometheus.\n\n"
	"  -c, --config FILE       what to serve; see rlxd.conf(5)\n"
	"                          (/etc/rlxd/rlxd.conf)\n"
	"  -m, --model NAME=PATH   serve this model, without a file: an ONNX file, or a\n"
	"                          folder with config.json, model.safetensors and a\n"
	"                          tokenizer\n"
	"  -l, --listen ADDRESS    127.0.0.1:PORT, [::1]:PORT or unix:/PATH\n"
	"                          (127.0.0.1:8000)\n"
	"      --check             read the configuration, load nothing, tell what is\n"
	"                          wrong\n"
	"      --keeper PATH       serve nothing: keep sockets and weights for servers that\n"
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
		{ "check", no_argument, NULL, 'k' },
		{ "keeper", required_argument, NULL, 'K' },
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
		case 'k':
			a->check = true;
			break;
		case 'K':
			a->keeper = optarg;
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
	if (a->keeper && (a->config || a->text.n || a->check))
		return usage("--keeper stands alone", "");
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
	const struct conf_server *now = &c->server;
	size_t from = offsetof(struct conf_server, threads);

	if (memcmp((const char *)&s->limits + from, (const char *)now + from,
		   sizeof(*now) - from))
		log_event(LOG_WARN, "changes in [server] other than logging need a restart");
	if (!conf_channels_equal(s->conf, c))
		log_event(LOG_WARN, "changes in [channel], but for models and max_rows, need a "
			  "restart");
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
	ld->st = crew_grow(s->crew, threads, &ld->err);
	if (!ld->st)
		ld->st = model_set_open(c, s->set, s->crew, &set, &ld->err);
	if (ld->st) {
		conf_free(c);
		goto out;
	}
	log_setup((enum log_level)c->server.log_level, c->server.log_json);
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
	int rc;

	if (ld->running) {
		log_event(LOG_WARN, "a reload is under way already");
		return;
	}
	if (!ld->first)
		notify("RELOADING=1\nMONOTONIC_USEC=%lld",
		       (long long)(rlx_now() / 1000));
	ld->err = (struct rlx_error){ 0 };
	rc = pthread_create(&ld->thread, NULL, load_main, ld);
	ld->running = !rc;
	if (rc) {
		ld->st = rlx_fail(&ld->err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
		eventfd_write(ld->done_fd, 1);
	}
}

/* Loading ended. False: it was the first, and nothing can be served. */
static bool load_end(struct load *ld)
{
	struct server *s = ld->server;
	eventfd_t n;

	eventfd_read(ld->done_fd, &n);
	if (ld->running)
		pthread_join(ld->thread, NULL);
	ld->running = false;
	/* Not before there are models: who comes back to a channel can go on at once. */
	if (ld->first && !ld->st)
		ld->st = channels_open(s, &ld->err);
	if (ld->st) {
		log_event(LOG_ERROR, ld->first ? "cannot start" : "reload failed, nothing changed",
			  L_STR("error", ld->err.text));
		if (ld->first)
			return false;
		metric_add(&metrics.reloads_failed, 1);
	} else {
		atomic_store(&s->loading, false);
		atomic_store(&s->ready, true);
		if (!ld->first)
			metric_add(&metrics.reloads, 1);
		log_event(LOG_NOTE, ld->first ? "ready" : "reloaded", L_INT("models", s->set->n));
	}
	ld->first = false;
	notify("READY=1\nSTATUS=Serving %u models%s", s->set->n,
	       ld->st ? "; the last reload failed" : "");
	return true;
}

/* All loops did a turn within @ns. */
static bool is_alive(const struct server *s, int64_t ns)
{
	int64_t now = now_ns();
	unsigned int i;

	for (i = 0; i < s->n_loop; i++)
		if (now - atomic_load(&s->loop[i].beat) > ns)
			return false;
	return channels_are_alive(s, ns);
}

/* Ends connections as they become idle, for as long as drain_timeout. */
static void begin_drain(struct server *s, int64_t *out_end)
{
	unsigned int i;

	log_event(LOG_NOTE, "draining", L_INT("connections", atomic_load(&s->n_conn)));
	notify("STOPPING=1\nSTATUS=Draining");
	atomic_store(&s->ready, false);
	*out_end = now_ns() + s->limits.drain_timeout_ns;
	for (i = 0; i < s->n_loop; i++)
		loop_drain(&s->loop[i]);
	channels_drain(s);
}

/* Signals, the watchdog and the end; the exit status. */
static int supervise(struct server *s, struct load *ld, int sig_fd)
{
	int64_t watchdog = notify_watchdog_ns(), next = now_ns(), drain_end = 0, wait;
	struct pollfd p[2] = {
		{ .fd = sig_fd, .events = POLLIN }, { .fd = ld->done_fd, .events = POLLIN },
	};
	struct signalfd_siginfo si;

	for (;;) {
		wait = drain_end ? 20 : watchdog ? watchdog / 4000000 : -1;
		if (poll(p, 2, (int)wait) < 0)
			p[0].revents = p[1].revents = 0;
		if (p[0].revents && read(sig_fd, &si, sizeof(si)) == sizeof(si)) {
			if (si.ssi_signo == SIGHUP) {
				load_begin(ld);
			} else if (drain_end) {
				log_event(LOG_WARN, "told to end twice, ending now");
				return 1;
			} else {
				begin_drain(s, &drain_end);
			}
		}
		if (p[1].revents && !load_end(ld))
			return 1;
		if (p[1].revents && drain_end)	/* it may have opened channels */
			channels_drain(s);
		if (watchdog && now_ns() >= next && is_alive(s, watchdog)) {
			notify("WATCHDOG=1");
			next = now_ns() + watchdog / 4;
		}
		if (drain_end && !ld->running && !atomic_load(&s->n_conn) &&
		    channels_are_idle(s)) {
			log_event(LOG_NOTE, "drained");
			return 0;
		}
		if (drain_end && now_ns() > drain_end) {
			log_event(LOG_WARN, "drain_timeout passed",
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
static bool give_time(struct load *ld)
{
	struct pollfd p = { .fd = ld->done_fd, .events = POLLIN };

	return poll(&p, 1, 1000) != 1 || load_end(ld);
}

static enum rlx_status start(struct server *s, struct load *ld, struct conf *c,
			     struct rlx_error *err)
{
	unsigned int n_passed = notify_fds();
	enum rlx_status st = server_open(s, c, n_passed, err);

	/* Before loading, which puts another configuration in place. */
	if (!st)
		st = server_listen(s, n_passed, err);
	if (st)
		return st;
	load_begin(ld);
	return give_time(ld) ? server_serve(s, err) : ld->st;
}

static int serve(const struct args *a)
{
	struct server *s = rlx_calloc(1, sizeof(*s));
	struct load ld = { .server = s, .args = a, .first = true, .done_fd = -1 };
	struct rlx_error err = { 0 };
	struct conf *c = NULL;
	sigset_t set;
	int fd, rc = 1;

	if (!s)
		return 1;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd >= 0)
		ld.done_fd = eventfd(0, EFD_CLOEXEC);
	if (ld.done_fd < 0)
		rlx_fail(&err, RLX_EIO, "%m");
	else if (!read_conf(a, &c, &err) && !start(s, &ld, c, &err))
		rc = supervise(s, &ld, fd);
	if (err.status)
		log_event(LOG_ERROR, "cannot start", L_STR("error", err.text));
	if (ld.running)
		pthread_join(ld.thread, NULL);
	server_close(s);
	if (ld.done_fd >= 0)
		close(ld.done_fd);
	if (fd >= 0)
		close(fd);
	log_event(LOG_NOTE, "ended", L_INT("status", rc));
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
	if (rc < 0)
		rc = a.keeper ? keeper_main(a.keeper) : a.check ? check(&a) : serve(&a);
	obuf_fini(&a.text);
	return rc;
}
