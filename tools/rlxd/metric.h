/* SPDX-License-Identifier: MIT */
/* Counters, gauges and histograms, and their text for Prometheus. */
#ifndef RLXD_METRIC_H
#define RLXD_METRIC_H

#include <stdatomic.h>
#include <stdint.h>

#include "tools/rlxd/obuf.h"

struct req;
struct server;

/* Upper bounds go from 50 us to 100 s, three to a decade; then +Inf. */
enum { HIST_BUCKETS = 20, ROUTES_MAX = 48, CODES_MAX = 24 };

struct hist {
	_Atomic(uint64_t)	bucket[HIST_BUCKETS + 1];
	_Atomic(uint64_t)	sum_ns;
};

/* Of the process; a model has its own in struct model_metrics. */
struct metrics {
	_Atomic(int64_t)	connections;
	_Atomic(int64_t)	connections_refused, abandoned;
	_Atomic(int64_t)	lost_by_peer, lost_by_error, lost_by_end;	/* replies */
	_Atomic(int64_t)	bytes_in, bytes_out, bytes_copied;
	_Atomic(int64_t)	reloads, reloads_failed;
	_Atomic(int64_t)	handshakes, handshakes_failed;	/* TLS */
	_Atomic(int64_t)	kernel_sends, kernel_receives;
	struct {
		_Atomic(const char *)	label;	/* of a route, static */
		_Atomic(uint64_t)	code[CODES_MAX];
	} route[ROUTES_MAX];
	struct hist		request, reply;
};

struct model_metrics {
	struct hist		queue, run;
	_Atomic(int64_t)	rows, rows_failed, rows_late, rows_cancelled, rows_refused;
	_Atomic(int64_t)	batches, tokens, padding;
};

extern struct metrics metrics;

#define metric_add(m, v) atomic_fetch_add_explicit((m), (int64_t)(v), memory_order_relaxed)

void hist_add(struct hist *h, int64_t ns);
/* One more request by @label, a static string, that ended with this status. */
void metric_count(const char *label, int status);
/* A reply was sent whole at @now. */
void metric_request(const struct req *r, int64_t now);
/* The lines before a metric's values. */
void metric_head(struct obuf *o, const char *name, const char *type, const char *help);
/* One that has one value. */
void metric_one(struct obuf *o, const char *name, const char *type, const char *help, double v);
/* A histogram's values; @labels as in name="x",other="y", or "". */
void metric_hist(struct obuf *o, const char *name, const char *labels, const struct hist *h);
void metric_process(const struct server *s, struct obuf *o);
void metric_build(struct obuf *o);
/* What @r may see of it: of models and channels, those that are there for it. */
void metrics_print(const struct req *r, struct obuf *o);

#endif
