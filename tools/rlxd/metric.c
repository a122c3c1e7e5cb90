// SPDX-License-Identifier: MIT
/* The numbers as text in Prometheus' exposition format. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rlx/arena.h"
#include "tools/rlxd/channel.h"
#include "tools/rlxd/latency.h"
#include "tools/rlxd/leader_lock.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/otlp.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/tls.h"

struct metrics metrics;

/* Upper bounds in microseconds: 1, 2, 5 in each decade. */
static const int64_t bound_us[HIST_BUCKETS] = {
	50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000,
	1000000, 2000000, 5000000, 10000000, 20000000, 50000000, 100000000,
};

static const int codes[CODES_MAX] = {
	200, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 417, 422, 429, 431, 500,
	501, 503, 504, 505, 499,
};

void hist_add(struct hist *h, int64_t ns)
{
	unsigned int i;

	ns = ns < 0 ? 0 : ns;
	for (i = 0; i < HIST_BUCKETS && ns > bound_us[i] * 1000; i++)
		;
	atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum_ns, (uint64_t)ns, memory_order_relaxed);
}

/* Labels are pointers to static strings: the place of one never changes. */
void metric_count(const char *label, int status)
{
	const char *none;
	unsigned int i, k;

	for (k = 0; k + 1 < CODES_MAX && codes[k] && codes[k] != status; k++)
		;
	for (i = 0; i < ROUTES_MAX; i++) {
		none = NULL;
		if (atomic_load(&metrics.route[i].label) == label ||
		    atomic_compare_exchange_strong(&metrics.route[i].label, &none, label) ||
		    none == label) {
			atomic_fetch_add_explicit(&metrics.route[i].code[k], 1,
						  memory_order_relaxed);
			return;
		}
	}
}

void metric_request(const struct req *r, int64_t now)
{
	metric_count(r->route ? r->route->label : "none", r->reply.status);
	metric_add(&metrics.bytes_copied, r->copied);
	if (!r->t_head)
		return;
	hist_add(&metrics.request, now - r->t_head);
	latency_add(r, now - r->t_head);
	otlp_request(r, now);
	if (r->t_done)
		hist_add(&metrics.reply, now - r->t_done);
}

void metric_head(struct obuf *o, const char *name, const char *type, const char *help)
{
	obuf_fmt(o, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_one(struct obuf *o, const char *name, const char *type, const char *help, double v)
{
	metric_head(o, name, type, help);
	obuf_fmt(o, "%s %.17g\n", name, v);
}

void metric_hist(struct obuf *o, const char *name, const char *labels, const struct hist *h)
{
	const char *comma = *labels ? "," : "", *open = *labels ? "{" : "";
	const char *close = *labels ? "}" : "";
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; i++) {
		n += atomic_load(&h->bucket[i]);
		obuf_fmt(o, "%s_bucket{%s%sle=\"%.6g\"} %llu\n", name, labels, comma,
			 (double)bound_us[i] * 1e-6, (unsigned long long)n);
	}
	n += atomic_load(&h->bucket[HIST_BUCKETS]);
	obuf_fmt(o, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
		 (unsigned long long)n);
	obuf_fmt(o, "%s_sum%s%s%s %.9g\n%s_count%s%s%s %llu\n", name, open, labels, close,
		 (double)atomic_load(&h->sum_ns) * 1e-9, name, open, labels, close,
		 (unsigned long long)n);
}

static void model_hist(struct obuf *o, const char *name, const char *model,
		       const struct hist *h)
{
	char label[64];

	snprintf(label, sizeof(label), "model=\"%s\"", model);
	metric_hist(o, name, label, h);
}

static void print_requests(struct obuf *o)
{
	unsigned int i, k;

	metric_head(o, "rlxd_requests_total", "counter", "Requests answered, by route and status.");
	for (i = 0; i < ROUTES_MAX; i++)
		for (k = 0; k < CODES_MAX && atomic_load(&metrics.route[i].label); k++)
			if (atomic_load(&metrics.route[i].code[k]))
				obuf_fmt(o, "rlxd_requests_total{route=\"%s\",code=\"%d\"} %llu\n",
					 atomic_load(&metrics.route[i].label), codes[k],
					 (unsigned long long)atomic_load(&metrics.route[i].code[k]));
	metric_head(o, "rlxd_request_duration_seconds", "histogram",
	     "From a request's head to its whole reply.");
	metric_hist(o, "rlxd_request_duration_seconds", "", &metrics.request);
	metric_head(o, "rlxd_reply_duration_seconds", "histogram",
	     "From a result to its whole reply.");
	metric_hist(o, "rlxd_reply_duration_seconds", "", &metrics.reply);
}

static void print_model_counts(const struct model_set *set, struct obuf *o)
{
	unsigned int i;

	metric_head(o, "rlxd_model_rows_total", "counter", "Inputs done, by how they ended.");
	for (i = 0; i < set->n; i++) {
		struct model *m = set->model[i];
		int64_t bad = atomic_load(&m->metric.rows_failed);
		int64_t late = atomic_load(&m->metric.rows_late);
		int64_t gone = atomic_load(&m->metric.rows_cancelled);

		obuf_fmt(o, "rlxd_model_rows_total{model=\"%s\",result=\"ok\"} %lld\n", m->name,
			 (long long)(atomic_load(&m->metric.rows) - bad - late - gone));
		obuf_fmt(o, "rlxd_model_rows_total{model=\"%s\",result=\"failed\"} %lld\n",
			 m->name, (long long)bad);
		obuf_fmt(o, "rlxd_model_rows_total{model=\"%s\",result=\"late\"} %lld\n",
			 m->name, (long long)late);
		obuf_fmt(o, "rlxd_model_rows_total{model=\"%s\",result=\"cancelled\"} %lld\n",
			 m->name, (long long)gone);
		obuf_fmt(o, "rlxd_model_rows_total{model=\"%s\",result=\"refused\"} %lld\n",
			 m->name, (long long)atomic_load(&m->metric.rows_refused));
	}
	metric_head(o, "rlxd_model_batches_total", "counter", "Runs of a model.");
	for (i = 0; i < set->n; i++)
		obuf_fmt(o, "rlxd_model_batches_total{model=\"%s\"} %lld\n", set->model[i]->name,
			 (long long)atomic_load(&set->model[i]->metric.batches));
	metric_head(o, "rlxd_model_tokens_total", "counter",
		    "Tokens run, and padding beside them.");
	for (i = 0; i < set->n; i++) {
		obuf_fmt(o, "rlxd_model_tokens_total{model=\"%s\",kind=\"token\"} %lld\n",
			 set->model[i]->name,
			 (long long)atomic_load(&set->model[i]->metric.tokens));
		obuf_fmt(o, "rlxd_model_tokens_total{model=\"%s\",kind=\"padding\"} %lld\n",
			 set->model[i]->name,
			 (long long)atomic_load(&set->model[i]->metric.padding));
	}
	metric_head(o, "rlxd_model_queue_rows", "gauge", "Inputs waiting now.");
	for (i = 0; i < set->n; i++) {
		struct model *m = set->model[i];

		pthread_mutex_lock(&m->lock);
		obuf_fmt(o, "rlxd_model_queue_rows{model=\"%s\"} %u\n", m->name, m->n_rows);
		pthread_mutex_unlock(&m->lock);
	}
}

static void print_weights(const struct model_set *set, struct obuf *o)
{
	struct rlx_store_info info;
	unsigned int i;

	metric_head(o, "rlxd_weights_adopted", "gauge",
		    "Weights were ready when the model was loaded.");
	for (i = 0; i < set->n; i++)
		obuf_fmt(o, "rlxd_weights_adopted{model=\"%s\"} %d\n", set->model[i]->name,
			 set->model[i]->adopted);
	metric_head(o, "rlxd_weights_resident", "gauge",
		    "They are in a GPU's memory once, for all servers that keep them together.");
	for (i = 0; i < set->n; i++)
		obuf_fmt(o, "rlxd_weights_resident{model=\"%s\"} %d\n", set->model[i]->name,
			 set->model[i]->resident != NULL);
	metric_head(o, "rlxd_weights_bytes", "gauge",
		    "Prepared weights in memory that others can map.");
	for (i = 0; i < set->n; i++) {
		rlx_store_info(set->model[i]->store, &info);
		obuf_fmt(o, "rlxd_weights_bytes{model=\"%s\"} %llu\n", set->model[i]->name,
			 (unsigned long long)info.bytes);
	}
}

static void print_models(const struct model_set *set, struct obuf *o)
{
	unsigned int i;

	if (!set->n)
		return;
	print_model_counts(set, o);
	print_weights(set, o);
	metric_head(o, "rlxd_model_queue_seconds", "histogram",
		    "How long an input waited to be run.");
	for (i = 0; i < set->n; i++)
		model_hist(o, "rlxd_model_queue_seconds", set->model[i]->name,
			   &set->model[i]->metric.queue);
	metric_head(o, "rlxd_model_run_seconds", "histogram", "How long a batch ran.");
	for (i = 0; i < set->n; i++)
		model_hist(o, "rlxd_model_run_seconds", set->model[i]->name,
			   &set->model[i]->metric.run);
}

static void print_memory(struct server *s, struct obuf *o)
{
	struct rlx_stats st;

	rlx_stats_read(&st);
	metric_one(o, "rlxd_arenas", "gauge", "Arenas alive.", (double)st.arenas);
	metric_one(o, "rlxd_arena_bytes", "gauge", "Bytes in them.", (double)st.bytes_mapped);
	metric_one(o, "rlxd_arena_pinned_bytes", "gauge",
		   "Bytes of them that cannot be swapped out.", (double)st.bytes_pinned);
	metric_head(o, "rlxd_copied_bytes_total", "counter",
	     "Bytes that the CPU copied: of requests and replies, and by copying calls.");
	obuf_fmt(o, "rlxd_copied_bytes_total{by=\"http\"} %lld\n",
		 (long long)atomic_load(&metrics.bytes_copied));
	obuf_fmt(o, "rlxd_copied_bytes_total{by=\"library\"} %llu\n",
		 (unsigned long long)st.bytes_copied);
	/* But for what this reply takes itself. */
	metric_one(o, "rlxd_memory_bytes", "gauge", "What requests hold of max_memory.",
		   (double)(atomic_load(&s->budget.used) -
			    (o->account ? atomic_load(&o->account->bytes) : 0)));
}

static void print_tls(struct server *s, struct obuf *o)
{
	int64_t expiry = 0;

	pthread_mutex_lock(&s->lock);
	if (s->conf->tls)
		expiry = tls_ctx_expiry(s->conf->tls);
	pthread_mutex_unlock(&s->lock);
	if (!expiry)
		return;
	metric_one(o, "rlxd_tls_certificate_expiry_seconds", "gauge",
	    "When the certificate ends, since 1970.", (double)expiry);
	metric_head(o, "rlxd_tls_handshakes_total", "counter", "Connections that wanted TLS.");
	obuf_fmt(o, "rlxd_tls_handshakes_total{result=\"ok\"} %lld\n"
		 "rlxd_tls_handshakes_total{result=\"failed\"} %lld\n",
		 (long long)atomic_load(&metrics.handshakes),
		 (long long)atomic_load(&metrics.handshakes_failed));
	metric_head(o, "rlxd_tls_kernel_total", "counter",
	     "Connections whose TLS the kernel does, by direction.");
	obuf_fmt(o, "rlxd_tls_kernel_total{way=\"send\"} %lld\n"
		 "rlxd_tls_kernel_total{way=\"receive\"} %lld\n",
		 (long long)atomic_load(&metrics.kernel_sends),
		 (long long)atomic_load(&metrics.kernel_receives));
}

static void print_standby(struct server *s, struct obuf *o)
{
	metric_one(o, "rlxd_standby_ready", "gauge", "1 while another server stands by.",
	    leader_lock_is_wanted());
	metric_one(o, "rlxd_took_over", "gauge",
		   "1 if this server stood by until another one ended.",
		   atomic_load(&s->took_over));
}

void metrics_print(const struct req *r, struct obuf *o)
{
	struct server *s = r->loop->server;
	struct model_set seen = { .n = 0 };
	unsigned int i;

	for (i = 0; i < r->set->n; i++)
		if (r->may_use >> i & 1)
			seen.model[seen.n++] = r->set->model[i];
	metric_one(o, "rlxd_ready", "gauge", "1 while requests are taken.", atomic_load(&s->ready));
	if (s->standby)
		print_standby(s, o);
	print_requests(o);
	print_models(&seen, o);
	if (r->sees_all)
		channels_print(s, o);
	metric_one(o, "rlxd_connections", "gauge", "Connections open.",
	    (double)atomic_load(&metrics.connections));
	metric_one(o, "rlxd_connections_refused_total", "counter", "Turned away, max_connections.",
	    (double)atomic_load(&metrics.connections_refused));
	metric_one(o, "rlxd_requests_abandoned_total", "counter",
	    "Requests whose peer was gone before the reply.",
	    (double)atomic_load(&metrics.abandoned));
	metric_head(o, "rlxd_replies_lost_total", "counter", "Replies not sent whole, by what "
		    "ended them: the peer, an error of sending, our own end.");
	obuf_fmt(o, "rlxd_replies_lost_total{by=\"peer\"} %lld\n"
		 "rlxd_replies_lost_total{by=\"error\"} %lld\n"
		 "rlxd_replies_lost_total{by=\"end\"} %lld\n",
		 (long long)atomic_load(&metrics.lost_by_peer),
		 (long long)atomic_load(&metrics.lost_by_error),
		 (long long)atomic_load(&metrics.lost_by_end));
	metric_one(o, "rlxd_received_bytes_total", "counter", "Bytes from peers.",
	    (double)atomic_load(&metrics.bytes_in));
	metric_one(o, "rlxd_sent_bytes_total", "counter", "Bytes to peers.",
	    (double)atomic_load(&metrics.bytes_out));
	metric_head(o, "rlxd_reloads_total", "counter", "Reloads of the configuration.");
	obuf_fmt(o, "rlxd_reloads_total{result=\"ok\"} %lld\nrlxd_reloads_total{result=\"failed\"}"
		 " %lld\n", (long long)atomic_load(&metrics.reloads),
		 (long long)atomic_load(&metrics.reloads_failed));
	print_tls(s, o);
	print_memory(s, o);
	latency_print(r, o);
	if (r->sees_all)
		otlp_print(o);
	metric_build(o);
	metric_process(s, o);
}
