// SPDX-License-Identifier: MIT
/* Probes and metrics. */
#include <stddef.h>

#include "tools/rlxd/api.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

bool api_is_ready(struct req *r)
{
	if (atomic_load(&r->loop->server->ready))
		return true;
	req_fail(r, 503, "not ready: models are being loaded, or the server drains");
	return false;
}

static bool say_ok(struct req *r)
{
	req_ok(r, "text/plain; charset=utf-8");
	obuf_str(&r->reply.body, "ok\n");
	return true;
}

bool api_healthz(struct req *r)
{
	if (!api_is_ready(r))
		return true;
	return say_ok(r);
}

/* A loop that answers makes turns; what it can serve is another question. */
bool api_livez(struct req *r)
{
	return say_ok(r);
}

/* From the first time on that models were there, whatever comes then. */
bool api_startupz(struct req *r)
{
	if (!atomic_load(&r->loop->server->loading))
		return say_ok(r);
	req_fail(r, 503, "models are being loaded for the first time");
	return true;
}

/* How long they were the last time, as which they take now. */
static atomic_size_t metrics_bytes;

static void print_metrics(struct req *r)
{
	req_ok(r, "text/plain; version=0.0.4; charset=utf-8");
	metrics_print(r, &r->reply.body);
	atomic_store_explicit(&metrics_bytes, r->reply.body.n, memory_order_relaxed);
}

static void metrics_task(struct task *t)
{
	struct req *r = (struct req *)((char *)t - offsetof(struct req, task));

	if (!atomic_load(&r->cancelled))
		print_metrics(r);
	loop_post(r->loop, r);
}

bool api_metrics(struct req *r)
{
	size_t bytes = atomic_load_explicit(&metrics_bytes, memory_order_relaxed);

	if (loop_may_read(r->loop, bytes)) {
		print_metrics(r);
		return true;
	}
	req_read(r, metrics_task, bytes);
	return false;
}
