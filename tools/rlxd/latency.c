// SPDX-License-Identifier: MIT
/* A table of histograms that only grows; its rows are found without a lock. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tools/rlxd/latency.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

enum { SERIES = 1024, LABEL = 48 };

/* What reloads bring beyond the table is counted together in the last one. */
struct series {
	atomic_bool	 there;		/* set when the labels are: they never change then */
	const char	*route;		/* static */
	char		 model[LABEL], key[LABEL];
	struct hist	 hist;
};

static struct series series[SERIES];
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

static uint32_t hash(uint32_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static bool is(const struct series *s, const char *route, const char *model, const char *key)
{
	return s->route == route && !strcmp(s->model, model) && !strcmp(s->key, key);
}

/* The series, or where it is to go; the last one: there is no room for it. */
static struct series *look(const char *route, const char *model, const char *key)
{
	uint32_t at = hash(hash(hash(2166136261u, route), model), key), i;
	struct series *s = NULL;

	for (i = 0; i < SERIES - 1; i++) {
		s = &series[(at + i) % (SERIES - 1)];
		if (!atomic_load_explicit(&s->there, memory_order_acquire) ||
		    is(s, route, model, key))
			return s;
	}
	return &series[SERIES - 1];
}

static struct series *find(const char *route, const char *model, const char *key)
{
	struct series *s = look(route, model, key);

	if (atomic_load_explicit(&s->there, memory_order_acquire))
		return s;
	pthread_mutex_lock(&growing);
	/* Another thread may have put something there meanwhile. */
	s = look(route, model, key);
	if (!atomic_load_explicit(&s->there, memory_order_relaxed)) {
		if (s == &series[SERIES - 1])
			route = model = key = "other";
		s->route = route;
		snprintf(s->model, sizeof(s->model), "%s", model);
		snprintf(s->key, sizeof(s->key), "%s", key);
		atomic_store_explicit(&s->there, true, memory_order_release);
	}
	pthread_mutex_unlock(&growing);
	return s;
}

void latency_add(const struct req *r, int64_t ns)
{
	hist_add(&find(r->route ? r->route->label : "none", r->model ? r->model->name : "",
		       client_key(r->client))->hist, ns);
}

void latency_print(const struct req *r, struct obuf *o)
{
	static const char name[] = "rlxd_http_request_duration_seconds";
	const char *key = client_key(r->client);
	unsigned int i;
	char labels[256];

	metric_head(o, name, "histogram", "From a request's head to its whole reply, by route, "
		    "model and key.");
	for (i = 0; i < SERIES; i++) {
		struct series *s = &series[i];

		if (!atomic_load_explicit(&s->there, memory_order_acquire))
			continue;
		/* Another's key is not told, nor without one what a model does. */
		if (!r->sees_all && !(*key && !strcmp(s->key, key)) && (*s->key || *s->model))
			continue;
		snprintf(labels, sizeof(labels), "route=\"%s\",model=\"%s\",key=\"%s\"", s->route,
			 s->model, s->key);
		metric_hist(o, name, labels, &s->hist);
	}
}
