// SPDX-License-Identifier: MIT
/* Probes and metrics. */
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

bool api_metrics(struct req *r)
{
	req_ok(r, "text/plain; version=0.0.4; charset=utf-8");
	metrics_print(r, &r->reply.body);
	return true;
}
