/* SPDX-License-Identifier: MIT */
/*
 * Spans of requests for OpenTelemetry: OTLP/HTTP in JSON, to the endpoint that
 * rlxd.conf names. Requests never wait for it: what does not fit into the queue is
 * dropped and counted.
 */
#ifndef RLXD_OTLP_H
#define RLXD_OTLP_H

#include <stdint.h>

#include "rlx/status.h"

struct obuf;
struct req;

/*
 * From now on send to @endpoint (http://HOST:PORT/PATH), or with NULL nowhere; may be
 * called again. It starts a thread. RLX_EINVAL: not such a URL; RLX_ENOMEM.
 */
enum rlx_status __rlx_must_check
otlp_setup(const char *endpoint, struct rlx_error *err);

/* The reply of @r was sent whole at @now (CLOCK_MONOTONIC ns). Any thread; no heap. */
void otlp_request(const struct req *r, int64_t now);

/* Try once to send what is left, for a second at most, and end the thread. */
void otlp_stop(void);

void otlp_print(struct obuf *o);

#endif
