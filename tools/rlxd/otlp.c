// SPDX-License-Identifier: MIT
/* A queue of what requests were, and a thread that makes spans of them and sends them. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "tools/rlx/address.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/otlp.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

enum {
	QUEUE	= 2048,		/* requests */
	BATCH	= 256,
	TRIES	= 4,		/* of a batch: at once, and 1, 2 and 4 seconds later */
	REPLY	= 16 << 10,
	NAME	= 48,
};

/* A request that ended: no pointers but static ones, for it outlives the request. */
struct ended {
	char		 trace[33], parent[17];	/* hexadecimal; no parent: "" */
	enum http_method method;
	const char	*route;			/* NULL: none */
	char		 model[NAME], key[NAME];
	int		 status;
	uint64_t	 in, out;
	int64_t		 head, body, done, end;	/* CLOCK_REALTIME ns; done 0: no result */
};

static struct {
	pthread_mutex_t	 lock;
	pthread_cond_t	 more;
	pthread_t	 thread;
	bool		 runs, stop;
	struct url	 url;
	struct ended	*ring;			/* QUEUE of them, from first on n */
	unsigned int	 first, n;
	int		 fd;			/* of the request under way, -1: none */
} q = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .fd = -1 };

static atomic_bool on;
static _Atomic(int64_t) sent, dropped, failed, rejected;	/* spans */

static const char *method_name(enum http_method m)
{
	switch (m) {
	case METHOD_GET:     return "GET";
	case METHOD_HEAD:    return "HEAD";
	case METHOD_POST:    return "POST";
	case METHOD_OPTIONS: return "OPTIONS";
	default:	     return "_OTHER";
	}
}

/* @n random bytes as digits. All zeros mean no id, so that is none. */
static void make_id(char *to, size_t n)
{
	unsigned char b[16];
	size_t i;

	/* So little comes whole, as soon as the kernel has any. */
	if (getrandom(b, n, 0) != (ssize_t)n)
		memset(b, 0xff, n);
	b[0] |= 1;
	for (i = 0; i < n; i++)
		snprintf(to + 2 * i, 3, "%02x", b[i]);
}

/* The request, and below it receive, answer, and send if there was a result. */
static int64_t spans_of(bool done)
{
	return done ? 4 : 3;
}

/* A proxy that has decided that its trace is not recorded is not overruled. */
static bool is_sampled(const struct req *r)
{
	static const char odd[] = "13579bdf";

	return !r->trace[0] || strchr(odd, r->trace[TRACE_LEN - 1]);
}

void otlp_request(const struct req *r, int64_t now)
{
	struct ended *e;
	struct timespec ts;
	int64_t real;

	if (!atomic_load_explicit(&on, memory_order_relaxed) || !r->t_head || !is_sampled(r))
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	real = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec - now_ns();
	pthread_mutex_lock(&q.lock);
	if (!q.ring || q.n == QUEUE) {
		atomic_fetch_add(&dropped, spans_of(r->t_done));
		goto out;
	}
	e = &q.ring[(q.first + q.n++) % QUEUE];
	*e = (struct ended){
		.method = r->method, .route = r->route ? r->route->label : NULL,
		.status = r->reply.status, .in = r->body_n, .out = req_body_bytes(r),
		.head = r->t_head + real, .body = (r->t_body ? r->t_body : r->t_head) + real,
		.done = r->t_done ? r->t_done + real : 0, .end = now + real,
	};
	if (r->trace[0]) {
		memcpy(e->trace, r->trace + 3, 32);
		memcpy(e->parent, r->trace + 36, 16);
	}
	snprintf(e->model, sizeof(e->model), "%s", r->model ? r->model->name : "");
	snprintf(e->key, sizeof(e->key), "%s", client_key(r->client));
	if (q.n == BATCH || q.n == 1)
		pthread_cond_signal(&q.more);
out:
	pthread_mutex_unlock(&q.lock);
}

static void put_text(struct obuf *o, const char *key, const char *value)
{
	obuf_fmt(o, "{\"key\":\"%s\",\"value\":{\"stringValue\":", key);
	obuf_json(o, value, strlen(value));
	obuf_str(o, "}}");
}

static void put_number(struct obuf *o, const char *key, uint64_t v)
{
	obuf_fmt(o, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%llu\"}}", key,
		 (unsigned long long)v);
}

static void put_span(struct obuf *o, const struct ended *e, const char *id, const char *parent,
		     int64_t begin, int64_t end)
{
	obuf_fmt(o, "{\"traceId\":\"%s\",\"spanId\":\"%s\",", e->trace, id);
	if (*parent)
		obuf_fmt(o, "\"parentSpanId\":\"%s\",", parent);
	obuf_fmt(o, "\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\",",
		 (long long)begin, (long long)(end < begin ? begin : end));
}

static void put_child(struct obuf *o, const struct ended *e, const char *parent,
		      const char *name, int64_t begin, int64_t end)
{
	char id[17];

	make_id(id, 8);
	obuf_str(o, ",");
	put_span(o, e, id, parent, begin, end);
	obuf_fmt(o, "\"kind\":1,\"name\":\"%s\"}", name);
}

/* The request, and below it where its time went. */
static void put_request(struct obuf *o, struct ended *e)
{
	char id[17];

	make_id(id, 8);
	if (!e->trace[0])
		make_id(e->trace, 16);
	put_span(o, e, id, e->parent, e->head, e->end);
	obuf_fmt(o, "\"kind\":2,\"name\":\"%s%s%s\",\"attributes\":[", method_name(e->method),
		 e->route ? " " : "", e->route ? e->route : "");
	put_text(o, "http.request.method", method_name(e->method));
	if (e->route) {
		obuf_str(o, ",");
		put_text(o, "http.route", e->route);
	}
	if (e->model[0]) {
		obuf_str(o, ",");
		put_text(o, "rlxd.model", e->model);
	}
	if (e->key[0]) {
		obuf_str(o, ",");
		put_text(o, "rlxd.key", e->key);
	}
	put_number(o, "http.response.status_code", (uint64_t)e->status);
	put_number(o, "http.request.body.size", e->in);
	put_number(o, "http.response.body.size", e->out);
	obuf_fmt(o, "],\"status\":{%s}}", e->status >= 500 ? "\"code\":2" : "");
	put_child(o, e, id, "receive", e->head, e->body);
	put_child(o, e, id, "answer", e->body, e->done ? e->done : e->end);
	if (e->done)
		put_child(o, e, id, "send", e->done, e->end);
}

static void put_batch(struct obuf *o, struct ended *e, unsigned int n)
{
	char host[65] = "";
	unsigned int i;

	gethostname(host, sizeof(host) - 1);
	obuf_str(o, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
	put_text(o, "service.name", "rlxd");
	obuf_str(o, ",");
	put_text(o, "service.version", RLX_VERSION);
	obuf_str(o, ",");
	put_text(o, "host.name", host);
	put_number(o, "process.pid", (uint64_t)getpid());
	obuf_str(o, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"rlxd\",\"version\":\"" RLX_VERSION
		 "\"},\"spans\":[");
	for (i = 0; i < n; i++) {
		obuf_str(o, i ? "," : "");
		put_request(o, &e[i]);
	}
	obuf_str(o, "]}]}]}");
}

/* Connected, with a limit of time on all it does; -1: not. */
static int dial(const struct url *u)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *all, *a;
	struct timeval limit = { .tv_sec = 3 };
	int fd = -1;

	if (getaddrinfo(u->host, u->port, &want, &all))
		return -1;
	for (a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		if (connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	return fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
	ssize_t k;

	for (; n; p += k, n -= (size_t)k) {
		k = send(fd, p, n, MSG_NOSIGNAL);
		if (k <= 0)
			return false;
	}
	return true;
}

/* How many spans a collector that took a batch tells that it took none of. */
static int64_t rejected_of(const char *reply, size_t n)
{
	const char *body = memmem(reply, n, "\r\n\r\n", 4);
	struct rlx_error err = { 0 };
	struct rlx_json j = { 0 };
	uint32_t part, node = 0;
	int64_t v = 0;

	if (!body || rlx_json_parse(&j, body + 4, n - (size_t)(body + 4 - reply), NULL, "reply",
				    &err))
		return 0;
	part = rlx_json_get(&j, 0, "partialSuccess");
	if (part)
		node = rlx_json_get(&j, part, "rejectedSpans");
	/* Its form is that of 64-bit numbers in protobuf's JSON: a text, or a number. */
	if (node && rlx_json_kind(&j, node) == RLX_JSON_STR)
		v = strtoll(rlx_json_text(&j, node), NULL, 10);
	else if (node && !rlx_json_int(&j, node, &v))
		v = 0;
	rlx_json_fini(&j);
	return v < 0 ? 0 : v;
}

/* The status of the reply; 0: there is none. */
static int post(int fd, const struct url *u, const struct obuf *body, int64_t *out_rejected)
{
	bool six = strchr(u->host, ':');
	char head[800], reply[REPLY];
	size_t n = 0;
	ssize_t k;
	int status;

	snprintf(head, sizeof(head), "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nContent-Type: "
		 "application/json\r\nContent-Length: %zu\r\nUser-Agent: rlxd/" RLX_VERSION "\r\n"
		 "Connection: close\r\n\r\n", u->path, six ? "[" : "", u->host, six ? "]" : "",
		 u->port, body->n);
	if (!send_all(fd, head, strlen(head)) || !send_all(fd, body->p, body->n))
		return 0;
	while (n < sizeof(reply) - 1 && (k = recv(fd, reply + n, sizeof(reply) - 1 - n, 0)) > 0)
		n += (size_t)k;
	reply[n] = 0;
	if (sscanf(reply, "HTTP/1.%*[01] %d", &status) != 1)
		return 0;
	*out_rejected = status == 200 ? rejected_of(reply, n) : 0;
	return status;
}

/* For otlp_stop() to cut short. */
static void set_fd(int fd)
{
	pthread_mutex_lock(&q.lock);
	q.fd = fd;
	pthread_mutex_unlock(&q.lock);
}

/* The reply's status; 0: none. */
static int send_batch(const struct url *u, const struct obuf *body, int64_t *out_rejected)
{
	int fd = dial(u), status;

	if (fd < 0)
		return 0;
	set_fd(fd);
	status = post(fd, u, body, out_rejected);
	set_fd(-1);
	close(fd);
	return status;
}

/* Told again after a while, as OTLP wants it: no reply, or one of these. */
static bool may_retry(int status)
{
	return !status || status == 429 || (status >= 502 && status <= 504);
}

/* With q.lock held: until @seconds passed, it is to end, or @n requests wait. */
static void pause_for(int64_t seconds, unsigned int n)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += seconds;
	while (!q.stop && q.n < n && pthread_cond_timedwait(&q.more, &q.lock, &ts) != ETIMEDOUT)
		;
}

/* False: given up. */
static bool deliver(struct ended *e, unsigned int n, const struct url *u)
{
	struct obuf body = { 0 };
	int64_t spans = 0, lost = 0;
	bool stop = false;
	unsigned int i;
	int status = 0;

	for (i = 0; i < n; i++)
		spans += spans_of(e[i].done);
	put_batch(&body, e, n);
	for (i = 0; i < TRIES && !stop && !body.failed; i++) {
		status = send_batch(u, &body, &lost);
		if (!may_retry(status))
			break;
		pthread_mutex_lock(&q.lock);
		if (i + 1 < TRIES)
			pause_for(1 << i, QUEUE + 1);
		stop = q.stop;
		pthread_mutex_unlock(&q.lock);
	}
	obuf_fini(&body);
	if (status == 200) {
		atomic_fetch_add(&rejected, lost);
		atomic_fetch_add(&sent, spans - lost);
		return true;
	}
	atomic_fetch_add(&failed, spans);
	if (log_allow())
		log_event(LOG_WARN, "spans not delivered", L_STR("host", u->host),
			  L_STR("port", u->port), L_INT("status", status), L_INT("spans", spans));
	return false;
}

static void *otlp_main(void *ctx)
{
	struct ended *batch = ctx;
	bool ok, given_up = false;
	struct url url;
	unsigned int i, n;

	pthread_mutex_lock(&q.lock);
	for (;;) {
		while (!q.n && !q.stop)
			pthread_cond_wait(&q.more, &q.lock);
		/* One alone waits a little for others to go with. */
		if (q.n < BATCH && !q.stop)
			pause_for(1, BATCH);
		if (!q.n || given_up)
			break;
		n = q.n < BATCH ? q.n : BATCH;
		for (i = 0; i < n; i++)
			batch[i] = q.ring[(q.first + i) % QUEUE];
		q.first = (q.first + n) % QUEUE;
		q.n -= n;
		url = q.url;
		pthread_mutex_unlock(&q.lock);
		ok = deliver(batch, n, &url);
		pthread_mutex_lock(&q.lock);
		given_up = !ok && q.stop;
	}
	pthread_mutex_unlock(&q.lock);
	rlx_free(batch);
	return NULL;
}

/* With q.lock held. */
static enum rlx_status begin(struct rlx_error *err)
{
	struct ended *batch = rlx_calloc(BATCH, sizeof(*batch));

	if (!q.ring)
		q.ring = rlx_calloc(QUEUE, sizeof(*q.ring));
	if (!batch || !q.ring || pthread_create(&q.thread, NULL, otlp_main, batch)) {
		rlx_free(batch);
		return rlx_fail(err, RLX_ENOMEM, "otlp_endpoint: no memory or thread for it");
	}
	q.runs = true;
	return RLX_OK;
}

enum rlx_status otlp_setup(const char *endpoint, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct url url;

	if (endpoint && !address_url(endpoint, "4318", "/v1/traces", &url))
		return rlx_fail(err, RLX_EINVAL, "otlp_endpoint = %.100s is no http://HOST:PORT/"
				"PATH", endpoint);
	pthread_mutex_lock(&q.lock);
	if (endpoint) {
		q.url = url;
		if (!q.runs && !q.stop)
			st = begin(err);
	}
	atomic_store(&on, endpoint && !st);
	pthread_mutex_unlock(&q.lock);
	return st;
}

/* Has the thread ended within @seconds? */
static bool joined(pthread_t thread, int64_t seconds)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += seconds;
	return !pthread_timedjoin_np(thread, NULL, &ts);
}

void otlp_stop(void)
{
	pthread_t thread;
	bool runs, ended;

	atomic_store(&on, false);
	pthread_mutex_lock(&q.lock);
	runs = q.runs;
	thread = q.thread;
	q.stop = true;
	q.runs = false;
	pthread_cond_broadcast(&q.more);
	pthread_mutex_unlock(&q.lock);
	if (!runs)
		return;
	ended = joined(thread, 1);
	if (!ended) {
		pthread_mutex_lock(&q.lock);
		if (q.fd >= 0)
			shutdown(q.fd, SHUT_RDWR);
		pthread_mutex_unlock(&q.lock);
		/* It may look a name up, which nothing cuts short: the process ends anyway. */
		ended = joined(thread, 4);
	}
	if (!ended)
		return;
	if (q.n)
		log_event(LOG_WARN, "spans left out at the end", L_INT("requests", q.n));
	rlx_free(q.ring);
	q.ring = NULL;
	q.n = q.first = 0;
}

void otlp_print(struct obuf *o)
{
	unsigned int n;

	pthread_mutex_lock(&q.lock);
	n = q.n;
	pthread_mutex_unlock(&q.lock);
	if (!atomic_load(&on))
		return;
	metric_head(o, "rlxd_otlp_spans_total", "counter", "Spans, by what became of them: the "
		    "collector took or rejected them, did not answer, or the queue was full.");
	obuf_fmt(o, "rlxd_otlp_spans_total{result=\"sent\"} %lld\n"
		 "rlxd_otlp_spans_total{result=\"rejected\"} %lld\n"
		 "rlxd_otlp_spans_total{result=\"failed\"} %lld\n"
		 "rlxd_otlp_spans_total{result=\"dropped\"} %lld\n",
		 (long long)atomic_load(&sent), (long long)atomic_load(&rejected),
		 (long long)atomic_load(&failed), (long long)atomic_load(&dropped));
	metric_one(o, "rlxd_otlp_queue_requests", "gauge", "Requests whose spans wait.", n);
}
