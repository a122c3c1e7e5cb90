// SPDX-License-Identifier: MIT
/* Routes, the heads of replies, and errors in each API's own form. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/api.h"
#include "tools/rlxd/infer.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/origin.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

enum {
	/* Bytes of results that a loop makes a reply of: some 50 us, in which others wait. */
	REPLY_ON_LOOP = 16 << 10,
};

static const struct route routes[] = {
	{ "/healthz", METHOD_GET, API_PLAIN, OPEN_ALL, api_healthz, NULL, "/healthz" },
	{ "/livez", METHOD_GET, API_PLAIN, OPEN_ALL, api_livez, NULL, "/livez" },
	{ "/readyz", METHOD_GET, API_PLAIN, OPEN_ALL, api_healthz, NULL, "/readyz" },
	{ "/startupz", METHOD_GET, API_PLAIN, OPEN_ALL, api_startupz, NULL, "/startupz" },
	{ "/metrics", METHOD_GET, API_PLAIN, OPEN_HERE, api_metrics, NULL, "/metrics" },
	{ "/v1/models", METHOD_GET, API_OPENAI, OPEN_NONE, openai_models, NULL, "/v1/models" },
	{ "/v1/models/{model}", METHOD_GET, API_OPENAI, OPEN_NONE, openai_model, NULL,
	  "/v1/models/{model}" },
	{ "/v1/embeddings", METHOD_POST, API_OPENAI, OPEN_NONE, openai_embeddings,
	  openai_embeddings_clean, "/v1/embeddings", openai_embeddings_finish,
	  openai_embeddings_bytes },
	{ "/v2", METHOD_GET, API_KSERVE, OPEN_ALL, kserve_server, NULL, "/v2" },
	{ "/v2/", METHOD_GET, API_KSERVE, OPEN_ALL, kserve_server, NULL, "/v2" },
	{ "/v2/health/live", METHOD_GET, API_KSERVE, OPEN_ALL, kserve_live, NULL,
	  "/v2/health/live" },
	{ "/v2/health/ready", METHOD_GET, API_KSERVE, OPEN_ALL, kserve_ready, NULL,
	  "/v2/health/ready" },
	{ "/v2/repository/index", METHOD_POST, API_KSERVE, OPEN_NONE, kserve_index, NULL,
	  "/v2/repository/index" },
	{ "/v2/systemsharedmemory/status", METHOD_GET, API_KSERVE, OPEN_NONE, shm_status, NULL,
	  "/v2/systemsharedmemory" },
	{ "/v2/systemsharedmemory/region/{region}/status", METHOD_GET, API_KSERVE, OPEN_NONE,
	  shm_status, NULL, "/v2/systemsharedmemory" },
	{ "/v2/systemsharedmemory/region/{region}/register", METHOD_POST, API_KSERVE, OPEN_NONE,
	  shm_register, NULL, "/v2/systemsharedmemory" },
	{ "/v2/systemsharedmemory/region/{region}/unregister", METHOD_POST, API_KSERVE, OPEN_NONE,
	  shm_unregister, NULL, "/v2/systemsharedmemory" },
	{ "/v2/systemsharedmemory/unregister", METHOD_POST, API_KSERVE, OPEN_NONE, shm_unregister,
	  NULL, "/v2/systemsharedmemory" },
	{ "/v2/models/{model}", METHOD_GET, API_KSERVE, OPEN_NONE, kserve_model, NULL,
	  "/v2/models/{model}" },
	{ "/v2/models/{model}/versions/{version}", METHOD_GET, API_KSERVE, OPEN_NONE,
	  kserve_model, NULL, "/v2/models/{model}" },
	{ "/v2/models/{model}/ready", METHOD_GET, API_KSERVE, OPEN_NONE, kserve_model_ready, NULL,
	  "/v2/models/{model}/ready" },
	{ "/v2/models/{model}/versions/{version}/ready", METHOD_GET, API_KSERVE, OPEN_NONE,
	  kserve_model_ready, NULL, "/v2/models/{model}/ready" },
	{ "/v2/models/{model}/config", METHOD_GET, API_KSERVE, OPEN_NONE, kserve_config, NULL,
	  "/v2/models/{model}/config" },
	{ "/v2/models/{model}/versions/{version}/config", METHOD_GET, API_KSERVE, OPEN_NONE,
	  kserve_config, NULL, "/v2/models/{model}/config" },
	{ "/v2/models/{model}/infer", METHOD_POST, API_KSERVE, OPEN_NONE, kserve_infer,
	  kserve_infer_clean, "/v2/models/{model}/infer", infer_reply, infer_result_bytes },
	{ "/v2/models/{model}/versions/{version}/infer", METHOD_POST, API_KSERVE, OPEN_NONE,
	  kserve_infer, kserve_infer_clean, "/v2/models/{model}/infer", infer_reply,
	  infer_result_bytes },
};

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

/* Does @path match? A {model}, {region} or {version} goes to where the request keeps it. */
static bool match(const char *pat, struct slice path, struct req *r)
{
	const char *p = path.p, *end = path.p + path.n;

	while (*pat) {
		const char *begin = p, *close;
		size_t n, room;
		char *to;

		if (*pat != '{') {
			if (p == end || *p++ != *pat++)
				return false;
			continue;
		}
		close = strchr(pat, '}');
		while (p < end && *p != '/')
			p++;
		n = (size_t)(p - begin);
		if (pat[1] == 'm') {
			to = r->model_name;
			room = sizeof(r->model_name);
		} else if (pat[1] == 'r') {
			to = r->region;
			room = sizeof(r->region);
		} else {
			to = r->version;
			room = sizeof(r->version);
		}
		if (!n || n >= room)
			return false;
		memcpy(to, begin, n);
		to[n] = 0;
		pat = close + 1;
	}
	return p == end;
}

static enum api api_of(struct slice path)
{
	if (path.n >= 3 && !memcmp(path.p, "/v2", 3))
		return API_KSERVE;
	if (path.n >= 3 && !memcmp(path.p, "/v1", 3))
		return API_OPENAI;
	return API_PLAIN;
}

static bool find_route(struct req *r, const struct http_head *h)
{
	enum http_method m = h->method == METHOD_HEAD ? METHOD_GET : h->method;
	const struct route *other = NULL;
	unsigned int i;

	if (slice_is(h->path, "*")) {
		r->reply.status = 204;
		r->reply.allow = "GET, HEAD, POST, OPTIONS";
		return false;
	}
	for (i = 0; i < N_ROUTES; i++) {
		if (!match(routes[i].pattern, h->path, r))
			continue;
		if (routes[i].method == m) {
			r->route = &routes[i];
			return true;
		}
		other = &routes[i];
	}
	if (!other) {
		req_fail(r, 404, "nothing is served at this path; there are /v1/embeddings, "
			 "/v1/models, /v2/models/NAME/infer, /v2/health/ready, /healthz and "
			 "/metrics");
		return false;
	}
	r->reply.allow = other->method == METHOD_GET ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
	if (m == METHOD_OPTIONS) {
		r->reply.status = 204;
		return false;
	}
	req_fail(r, 405, "this path takes %s", other->method == METHOD_GET ? "GET" : "POST");
	return false;
}

/* Of a page that may not ask, nothing is done, not even what it could not read. */
static bool take_origin(struct req *r, const struct http_head *h)
{
	struct server *s = r->loop->server;
	bool ok;

	if (!h->origin.n)
		return true;
	pthread_mutex_lock(&s->lock);
	ok = h->origin.n <= ORIGIN_MAX &&
	     origin_is_allowed(h->origin, h->host, &s->conf->server);
	pthread_mutex_unlock(&s->lock);
	if (!ok) {
		req_fail(r, 403, "pages of the origin '%.*s' may not ask here; cors_origins in "
			 "rlxd.conf names those that may",
			 (int)(h->origin.n < 100 ? h->origin.n : 100), h->origin.p);
		return false;
	}
	memcpy(r->origin, h->origin.p, h->origin.n);
	r->origin[h->origin.n] = 0;
	return true;
}

/*
 * A body of one of the types that a page may send anywhere without asking first is a
 * page's, or a mistake.
 */
static bool check_type(struct req *r, const struct http_head *h)
{
	struct slice t = h->content_type;

	if ((!h->length && !h->chunked) || !t.n || origin_type_is_json(t))
		return true;
	req_fail(r, 415, "bodies of Content-Type '%.*s' are not taken; send JSON, as "
		 "application/json (curl --json), or that and binary tensors, as "
		 "application/octet-stream", (int)(t.n < 60 ? t.n : 60), t.p);
	return false;
}

/* The peer's id if it is a plain word, else one of our own. */
static void set_id(struct req *r, struct slice id)
{
	static const char ok[] = "-_.:/+=";
	size_t i;

	for (i = 0; i < id.n && i < REQ_ID_MAX; i++)
		if (!((id.p[i] >= '0' && id.p[i] <= '9') ||
		      ((id.p[i] | 32) >= 'a' && (id.p[i] | 32) <= 'z') ||
		      (id.p[i] && strchr(ok, id.p[i]))))
			break;
	if (id.n && i == id.n) {
		memcpy(r->id, id.p, id.n);
		r->id[id.n] = 0;
		return;
	}
	snprintf(r->id, sizeof(r->id), "%llx-%llx",
		 (unsigned long long)r->loop->server->started,
		 (unsigned long long)atomic_fetch_add(&r->loop->server->next_id, 1));
}

/* "00-TRACE-SPAN-FLAGS", all hex digits; later versions may go on behind it. */
static void set_trace(struct req *r, struct slice t)
{
	static const char form[] = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
	static const char zeros[] = "00000000000000000000000000000000";
	bool first = t.n >= 2 && !memcmp(t.p, "00", 2);
	size_t i;

	if (t.n < TRACE_LEN || (t.n > TRACE_LEN && (first || t.p[TRACE_LEN] != '-')))
		return;
	for (i = 0; i < TRACE_LEN; i++)
		if (form[i] == '-' ? t.p[i] != '-' : !((t.p[i] >= '0' && t.p[i] <= '9') ||
						       (t.p[i] >= 'a' && t.p[i] <= 'f')))
			return;
	if (!memcmp(t.p, "ff", 2) || !memcmp(t.p + 3, zeros, 32) || !memcmp(t.p + 36, zeros, 16))
		return;
	memcpy(r->trace, t.p, TRACE_LEN);
}

bool req_identify(struct req *r, const struct http_head *h)
{
	r->method = h->method;
	r->uid = r->conn->uid;
	r->api = api_of(h->path);
	snprintf(r->path, sizeof(r->path), "%.*s", (int)(h->path.n < 95 ? h->path.n : 95),
		 h->path.n ? h->path.p : "");
	set_id(r, h->request_id);
	set_trace(r, h->traceparent);
	return take_origin(r, h);
}

bool req_begin(struct req *r, const struct http_head *h)
{
	r->deadline = r->t_head + r->loop->server->limits.request_timeout_ns;
	if (!find_route(r, h))
		return false;
	r->api = r->route->api;
	if (!check_type(r, h))
		return false;
	if (h->content_encoding.n) {
		req_fail(r, 415, "compressed bodies are not taken; send it as it is");
		return false;
	}
	if (h->infer_length.n) {
		if (!slice_u64(h->infer_length, &r->infer_length)) {
			req_fail(r, 400, "Inference-Header-Content-Length is not a number");
			return false;
		}
		r->has_infer_length = true;
	}
	if (r->route->open == OPEN_NONE && atomic_load(&r->loop->server->loading)) {
		req_fail(r, 503, "models are being loaded; try again in a moment");
		r->reply.retry_after = 1;
		return false;
	}
	return server_admit(r, h, r->route->open == OPEN_ALL ||
			    (r->route->open == OPEN_HERE && !r->conn->listener->off_host));
}

bool req_run(struct req *r)
{
	if (r->model_name[0] && !server_may_use(r, r->model_name)) {
		req_fail(r, 404, "there is no model '%s' here; /v2/repository/index and "
			 "/v1/models list what there is", r->model_name);
		return true;
	}
	if (r->model_name[0])
		r->model = model_find(r->set, r->model_name);
	if (r->version[0] && strcmp(r->version, MODEL_VERSION)) {
		req_fail(r, 404, "model %s has no version '%s', only " MODEL_VERSION,
			 r->model_name, r->version);
		return true;
	}
	return r->route->run(r);
}

void req_read(struct req *r, void (*fn)(struct task *t), size_t bytes)
{
	r->with_workers = true;
	r->task.fn = fn;
	r->task.share = &r->client->share;
	worker_pool_post_read(r->loop->server->workers, &r->task, bytes);
}

const char *req_name(const struct req *r, uint32_t node)
{
	const char *s;

	if (!node || rlx_json_kind(&r->json, node) != RLX_JSON_STR)
		return NULL;
	s = rlx_json_text(&r->json, node);
	return strlen(s) == rlx_json_len(&r->json, node) ? s : NULL;
}

static bool is_cancelled(const struct job *j)
{
	const struct req *r = (const struct req *)((const char *)j - offsetof(struct req, job));

	return atomic_load_explicit(&r->cancelled, memory_order_relaxed);
}

/*
 * On the thread that ran the last row, for whose rows others may wait: a short reply is made by
 * the request's own loop, so that replies of one batch are made by all of them; a long one, which
 * would keep a loop from its other connections, here.
 */
static void job_done(struct job *j)
{
	struct req *r = (struct req *)((char *)j - offsetof(struct req, job));

	r->t_done = now_ns();
	/* A reply that nobody takes is not made. */
	if (is_cancelled(j))
		r->reply.status = 499;
	else if (j->err.status) {
		r->err_status = atomic_load(&j->too_large) ? 413 : 0;
		req_fail_err(r, &j->err);
	} else if (r->route->result_bytes(r) > REPLY_ON_LOOP)
		r->route->finish(r);
	else
		r->unfinished = true;
	loop_post(r->loop, r);
}

bool req_submit(struct req *r)
{
	bool on_loop = !r->with_workers;
	struct rlx_error err = { 0 };
	struct job *j = &r->job;
	enum rlx_status st;

	j->model = r->model;
	j->client = r->client;
	j->queued = now_ns();
	j->deadline = r->deadline;
	j->unwanted = is_cancelled;
	j->done = job_done;
	/* Once queued it may be done at any moment. A worker's has it set, and its loop
	 * may be looking. */
	if (on_loop)
		r->with_workers = true;
	st = model_submit(j, on_loop ? &r->loop->turn : NULL, &err);
	if (!st)
		return true;
	if (on_loop)
		r->with_workers = false;
	if (st == RLX_ERANGE)
		r->err_status = 413;
	req_fail_err(r, &err);
	return false;
}

void req_ok(struct req *r, const char *type)
{
	r->reply.status = 200;
	r->reply.type = type;
}

static const char *openai_type(int status)
{
	switch (status) {
	case 401: return "authentication_error";
	case 403: return "permission_error";
	case 429: return "rate_limit_error";
	default: return status < 500 ? "invalid_request_error" : "server_error";
	}
}

void req_fail(struct req *r, int status, const char *fmt, ...)
{
	struct reply *y = &r->reply;
	char text[800];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(text))
		n = sizeof(text) - 1;
	snprintf(y->why, sizeof(y->why), "%.*s", (int)sizeof(y->why) - 1, text);
	y->status = status;
	y->body.n = 0;
	y->json_bytes = 0;
	y->n_tail = 0;
	y->type = r->api == API_PLAIN ? "text/plain; charset=utf-8" : "application/json";
	if (r->api == API_KSERVE) {
		obuf_str(&y->body, "{\"error\":");
		obuf_json(&y->body, text, (size_t)n);
		obuf_str(&y->body, "}");
	} else if (r->api == API_OPENAI) {
		obuf_str(&y->body, "{\"error\":{\"message\":");
		obuf_json(&y->body, text, (size_t)n);
		obuf_fmt(&y->body, ",\"type\":\"%s\",\"param\":null,\"code\":%s}}",
			 openai_type(status), status == 404 ? "\"model_not_found\"" :
			 status == 401 ? "\"invalid_api_key\"" : "null");
	} else {
		obuf_put(&y->body, text, (size_t)n);
		obuf_str(&y->body, "\n");
	}
	/* So little always fits, or the connection is closed instead. */
	y->body.failed = false;
}

void req_fail_memory(struct req *r, const char *what)
{
	req_fail(r, 503, "no memory for %s: requests hold as much as max_memory allows, or the "
		 "system has no more; try again later", what);
	r->reply.retry_after = 1;
}

static bool take_json(void *ctx, int64_t bytes)
{
	struct req *r = ctx;

	if (bytes >= 0)
		return account_take(&r->account, (uint64_t)bytes);
	account_give(&r->account, (uint64_t)-bytes);
	return true;
}

struct rlx_json_limits req_json_limits(struct req *r, size_t bytes)
{
	return (struct rlx_json_limits){ .bytes = bytes + 1, .take = take_json, .ctx = r };
}

void req_drop_source(struct req *r)
{
	if (r->json.text)
		account_give(&r->account, r->body_n + 1 + (uint64_t)r->json.cap *
			     sizeof(*r->json.node));
	rlx_json_fini(&r->json);
	if (r->body_chunk >= 0)
		return;
	account_give(&r->account, r->body_cap);
	rlx_free(r->body);
	r->body = NULL;
	r->body_cap = 0;
}

int req_status(enum rlx_status st)
{
	switch (st) {
	case RLX_EINVAL:
	case RLX_ERANGE:
	case RLX_ESHAPE:
	case RLX_ETYPE:
	case RLX_EPARSE:
		return 400;
	case RLX_EACCES:
		return 403;
	case RLX_ENOENT:
		return 404;
	case RLX_EBUSY:
		return 429;
	case RLX_ECANCELED:
		return 499;
	case RLX_ENOSUP:
		return 501;
	case RLX_EAGAIN:
	case RLX_ENOMEM:
	case RLX_ELOST:		/* for a moment: see renew.h */
		return 503;
	case RLX_ETIME:
		return 504;
	default:
		return 500;
	}
}

void req_fail_err(struct req *r, const struct rlx_error *err)
{
	int status = r->err_status ? r->err_status : req_status(err->status);

	req_fail(r, status, "%s", *err->text ? err->text : rlx_status_name(err->status));
	if (status == 503 || status == 429)
		r->reply.retry_after = 1;
}

size_t req_body_bytes(const struct req *r)
{
	size_t n = r->reply.body.n;
	unsigned int i;

	for (i = 0; i < r->reply.n_tail; i++)
		n += r->reply.tail[i].iov_len;
	return n;
}

/* What a page of r->origin may read, and of OPTIONS what it may send. */
static int cors_head(const struct req *r, char *to, size_t max)
{
	if (!r->origin[0])
		return 0;
	return snprintf(to, max, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n%s",
			r->origin, r->method == METHOD_OPTIONS ?
			"Access-Control-Allow-Methods: GET, HEAD, POST\r\n"
			"Access-Control-Allow-Headers: *, Authorization\r\n"
			"Access-Control-Max-Age: 600\r\n" :
			"Access-Control-Expose-Headers: *\r\n");
}

size_t req_head(struct req *r, const char *connection, const char *date)
{
	struct reply *y = &r->reply;
	char *p = y->head;
	size_t max = sizeof(y->head);
	int n;

	n = snprintf(p, max, "HTTP/1.1 %d %s\r\nDate: %s\r\n", y->status,
		     http_reason(y->status), date);
	if (y->status != 204)
		n += snprintf(p + n, max - (size_t)n, "Content-Length: %zu\r\n",
			      req_body_bytes(r));
	n += cors_head(r, p + n, max - (size_t)n);
	if (y->type)
		n += snprintf(p + n, max - (size_t)n, "Content-Type: %s\r\n", y->type);
	if (r->id[0])
		n += snprintf(p + n, max - (size_t)n, "X-Request-Id: %s\r\n", r->id);
	if (r->trace[0])
		n += snprintf(p + n, max - (size_t)n, "traceparent: %s\r\n", r->trace);
	if (y->json_bytes)
		n += snprintf(p + n, max - (size_t)n, "Inference-Header-Content-Length: %llu\r\n",
			      (unsigned long long)y->json_bytes);
	if (y->retry_after)
		n += snprintf(p + n, max - (size_t)n, "Retry-After: %d\r\n", y->retry_after);
	if (y->allow)
		n += snprintf(p + n, max - (size_t)n, "Allow: %s\r\n", y->allow);
	if (y->status == 401)
		n += snprintf(p + n, max - (size_t)n, "WWW-Authenticate: Bearer\r\n");
	if (connection)
		n += snprintf(p + n, max - (size_t)n, "Connection: %s\r\n", connection);
	n += snprintf(p + n, max - (size_t)n, "\r\n");
	return (size_t)n;
}

bool log_request(const struct conf_server *limits, int status)
{
	int64_t wish = limits->access_log;

	if (wish == CONF_ACCESS_ERRORS)
		return status >= 400 && log_allow();
	return wish == CONF_ACCESS_ALL;
}

const char *req_asker(const struct req *r)
{
	if (r->conn && !*client_key(r->client))
		return r->conn->peer;
	return r->client ? r->client->name : "";
}

void req_log(const struct req *r, int64_t now)
{
	char text[33];
	const char *trace = text;

	if (!log_request(&r->loop->server->limits, r->reply.status))
		return;
	snprintf(text, sizeof(text), "%.32s", r->trace[0] ? r->trace + 3 : "");
	log_event(LOG_INFO, "request", L_STR("id", r->id),
		  L_STR(*trace ? "trace" : NULL, trace),
		  L_STR("client", req_asker(r)),
		  L_STR("path", r->path), L_INT("status", r->reply.status),
		  L_INT("in", r->body_n), L_INT("out", req_body_bytes(r)),
		  L_INT("us", r->t_head ? (now - r->t_head) / 1000 : 0),
		  L_STR("error", r->reply.why));
}
