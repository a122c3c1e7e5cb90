// SPDX-License-Identifier: MIT
/* Which device a graph's run takes: by a hint, a chain, an order, cost or measurement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/build_id.h"
#include "base/clock.h"
#include "base/disk_cache.h"
#include "base/env.h"
#include "base/log.h"
#include "ir/graph.h"
#include "rt/devices.h"

enum { RUNS = 11, WARM_UP = 2, MOST_RUNS = 1000 };
static const uint64_t most_ns = 200000000;	/* of one device's measured runs */
static const double close = 1.03;		/* within which the order decides */
static const double much = 3;			/* dearer than which nothing is preferred */

static void fill_fit(struct rlx_devices *ds, struct devices_row *r, struct rlx_device_fit *f)
{
	struct rlx_program_info info;
	struct rlx_program *p = NULL;
	enum rlx_status st;

	memset(f, 0, sizeof(*f));
	strncpy(f->device, r->info.backend, sizeof(f->device) - 1);
	f->present = r->present;
	st = rlx_devices_usable(ds, r, &f->why);
	f->allowed = !st;
	if (!st)
		st = rlx_devices_compile(ds, r, &p, &f->why);
	if (st)
		return;
	rlx_program_info(p, &info);
	f->runs = true;
	f->native = info.native;
	f->host = info.host;
	f->compile_ns = (double)info.compile_ns;
	f->cost_ns = rlx_devices_cost(p, &r->info);
	pthread_mutex_lock(&ds->lock);
	f->measured_ns = r->measured_ns;
	pthread_mutex_unlock(&ds->lock);
	rlx_program_put(p);
}

/* Backends that have no device here, behind the others, with what they lack. */
static unsigned int add_absent(struct rlx_devices *ds, struct rlx_device_fit *fit,
			       unsigned int max, unsigned int n)
{
	char all[128], *save, *name;
	unsigned int i;

	rlx_backend_names(all, sizeof(all));
	for (name = strtok_r(all, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
		for (i = 0; i < ds->n_row; i++)
			if (!strncmp(ds->row[i]->info.backend, name, strlen(name)))
				break;
		if (i < ds->n_row)
			continue;
		if (n < max && fit) {
			memset(&fit[n], 0, sizeof(*fit));
			strncpy(fit[n].device, name, sizeof(fit[n].device) - 1);
			rlx_fail(&fit[n].why, RLX_ENODEV, "%s: %s", name, rlx_device_why(name));
		}
		n++;
	}
	return n;
}

unsigned int rlx_devices_fit(struct rlx_devices *ds, struct rlx_device_fit *fit, unsigned int max)
{
	struct rlx_error err = { 0 };
	struct devices_row **rows;
	char chosen[24] = "";
	unsigned int n, i;

	if (!ds || rlx_devices_list(ds, &err))
		return 0;
	rows = rlx_devices_order(ds, &n);
	if (!fit || !max) {
		rlx_free(rows);
		return add_absent(ds, NULL, 0, n);
	}
	if (rlx_devices_pick(ds, NULL, NULL, 0, chosen, &err))
		chosen[0] = 0;
	for (i = 0; i < n && i < max; i++) {
		fill_fit(ds, rows[i], &fit[i]);
		fit[i].chosen = !strcmp(fit[i].device, chosen);
	}
	rlx_free(rows);
	return add_absent(ds, fit, max, n);
}

/* One candidate's measured runs. */
struct timed {
	struct devices_row	*r;
	struct devices_session	*s;
	struct rlx_error	 why;
	uint64_t		*ns;
	unsigned int		 n;
	uint64_t		 sum;
	double			 median;
};

static int by_ns(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool run_once(struct timed *t, bool count)
{
	const struct rlx_error *e;
	uint64_t t0 = rlx_now();

	if (rlx_session_run(t->s->s)) {
		e = rlx_session_error(t->s->s);
		rlx_error_set(&t->why, e->status, e->file, e->line, "%s", e->text);
		return false;
	}
	if (count) {
		t->ns[t->n] = rlx_now() - t0;
		t->sum += t->ns[t->n++];
	}
	return true;
}

static void measure(struct rlx_devices *ds, struct timed *t, unsigned int n,
		    const struct rlx_named_tensor *in, unsigned int n_in, unsigned int runs)
{
	unsigned int i, k;
	bool more = true;

	for (i = 0; i < n; i++) {
		t[i].ns = rlx_calloc(runs, sizeof(*t[i].ns));
		if (!t[i].ns)
			rlx_fail(&t[i].why, RLX_ENOMEM, "devices: out of memory");
		else if (!rlx_devices_begin(ds, t[i].r, in, n_in, &t[i].s, &t[i].why))
			for (k = 0; k < WARM_UP && run_once(&t[i], false); k++)
				;
	}
	while (more) {
		more = false;
		for (i = 0; i < n; i++)
			if (!t[i].why.status && t[i].n < runs &&
			    (t[i].n < 1 || t[i].sum < most_ns))
				more |= run_once(&t[i], true);
	}
	for (i = 0; i < n; i++) {
		if (t[i].s)
			rlx_devices_end(ds, t[i].r, t[i].s, !t[i].why.status);
		if (t[i].why.status || !t[i].n)
			continue;
		qsort(t[i].ns, t[i].n, sizeof(*t[i].ns), by_ns);
		t[i].median = (double)t[i].ns[t[i].n / 2];
		pthread_mutex_lock(&ds->lock);
		t[i].r->measured_ns = t[i].median;
		pthread_mutex_unlock(&ds->lock);
	}
	for (i = 0; i < n; i++)
		rlx_free(t[i].ns);
}

/* The candidates that can run it, in the policy's order; what is in the others' way in @err. */
static struct timed *candidates(struct rlx_devices *ds, unsigned int *out_n,
				struct rlx_error *err)
{
	struct devices_row **rows;
	struct rlx_program *p;
	struct timed *t;
	struct rlx_reasons all = { 0 };
	enum rlx_status st, last = RLX_ENODEV;
	unsigned int n, i, k = 0;

	*out_n = 0;
	if (rlx_devices_list(ds, err))
		return NULL;
	rows = rlx_devices_order(ds, &n);
	t = rows ? rlx_calloc(n + 1, sizeof(*t)) : NULL;
	if (!t)
		rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	for (i = 0; t && i < n; i++) {
		struct rlx_error why = { 0 };

		st = rlx_devices_usable(ds, rows[i], &why);
		if (!st) {
			st = rlx_devices_compile(ds, rows[i], &p, &why);
			last = st ? st : last;
		}
		if (st) {
			rlx_reasons_add(&all, why.text);
			continue;
		}
		rlx_program_put(p);
		t[k++].r = rows[i];
	}
	rlx_free(rows);
	if (t && !k) {
		rlx_error_set(err, last, NULL, 0, "no device can run the graph: %s", all.text);
		rlx_free(t);
		return NULL;
	}
	*out_n = k;
	return t;
}

/* What a measurement holds for: the graph, how it is compiled, and the machine. */
static bool pick_key(struct rlx_devices *ds, const struct timed *t, unsigned int n, char *buf,
		     size_t size)
{
	uint8_t id[RLX_BUILD_ID_BYTES];
	struct rlx_program *p;
	size_t len;
	unsigned int i;

	if (!rlx_build_id(id))
		return false;
	len = (size_t)snprintf(buf, size, "pick 1 graph %016llx precision %d flags %x threads %u "
			       "build ", (unsigned long long)rlx_graph_hash(ds->g),
			       ds->opts.precision, ds->opts.flags, ds->opts.threads);
	for (i = 0; i < sizeof(id) && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%02x", id[i]);
	for (i = 0; i < n && len < size; i++) {
		const struct rlx_dev_info *d = &t[i].r->info;
		struct rlx_program_info info = { 0 };

		if (!rlx_devices_compile(ds, t[i].r, &p, NULL)) {
			rlx_program_info(p, &info);
			rlx_program_put(p);
		}
		len += (size_t)snprintf(buf + len, size - len, "\n%s|%s|%s|%s|%d|%u", d->backend,
					d->name, d->isa, d->pci, d->driver, info.threads);
	}
	return len < size;
}

/* Lines "DEVICE NS" of all candidates, or nothing. */
static bool read_measured(struct timed *t, unsigned int n, const char *text, size_t bytes)
{
	char device[24], line[64];
	unsigned int found = 0, i;
	size_t len;
	double ns;

	for (; bytes; text += len, bytes -= len) {
		for (len = 0; len < bytes && text[len] != '\n'; len++)
			;
		len += len < bytes;
		if (len >= sizeof(line))
			return false;
		memcpy(line, text, len);
		line[len] = 0;
		if (sscanf(line, "%23s %lf", device, &ns) != 2 || !(ns > 0))
			return false;
		for (i = 0; i < n && strcmp(t[i].r->info.backend, device); i++)
			;
		if (i == n)
			return false;
		t[i].median = ns;
		found++;
	}
	return found == n;
}

static bool load_measured(struct rlx_devices *ds, struct timed *t, unsigned int n,
			  const char *dir, const char *key)
{
	unsigned int i;
	void *data;
	size_t bytes;
	bool ok;

	if (rlx_disk_cache_load(dir, key, &data, &bytes))
		return false;
	ok = read_measured(t, n, data, bytes);
	rlx_free(data);
	pthread_mutex_lock(&ds->lock);
	for (i = 0; i < n; i++)
		if (ok)
			t[i].r->measured_ns = t[i].median;
		else
			t[i].median = 0;
	pthread_mutex_unlock(&ds->lock);
	return ok;
}

static void store_measured(const struct timed *t, unsigned int n, const char *dir,
			   const char *key)
{
	char text[2048];
	size_t len = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (t[i].median <= 0)
			return;		/* one that failed may not fail the next time */
	for (i = 0; i < n && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %.0f\n",
					t[i].r->info.backend, t[i].median);
	if (len < sizeof(text) && rlx_disk_cache_store(dir, key, text, len))
		rlx_log(RLX_LOG_WARN, "devices: %s: what was measured could not be kept", dir);
}

static bool cache_folder(char *buf, size_t size)
{
	static const char *const words[] = { "off" };
	static atomic_bool told;

	return rlx_env_word("RLX_PICK_CACHE", words, 1, &told) < 0 &&
	       rlx_disk_cache_dir("pick", buf, size);
}

/* As kept in this object, else on disk, else now. */
static void measured(struct rlx_devices *ds, struct timed *t, unsigned int n,
		     const struct rlx_named_tensor *in, unsigned int n_in, unsigned int runs)
{
	char dir[4096], key[4096];
	bool disk = cache_folder(dir, sizeof(dir)) && pick_key(ds, t, n, key, sizeof(key));
	unsigned int i, known = 0;

	pthread_mutex_lock(&ds->lock);
	for (i = 0; i < n; i++) {
		t[i].median = t[i].r->measured_ns;
		known += t[i].median > 0;
	}
	pthread_mutex_unlock(&ds->lock);
	if (known == n || (disk && load_measured(ds, t, n, dir, key)))
		return;
	measure(ds, t, n, in, n_in, runs);
	if (disk)
		store_measured(t, n, dir, key);
}

/* The first within @slack of the least; none, if none has a time. */
static unsigned int least(const struct timed *t, unsigned int n, double slack)
{
	double min = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (t[i].median > 0 && (min <= 0 || t[i].median < min))
			min = t[i].median;
	for (i = 0; i < n && !(t[i].median > 0 && t[i].median <= min * slack); i++)
		;
	return i;
}

/* Of the candidates, by the policy's pick. */
static enum rlx_status choose(struct rlx_devices *ds, const struct rlx_policy *p,
			      const struct rlx_named_tensor *in, unsigned int n_in,
			      char device[24], struct rlx_error *err)
{
	struct rlx_program *prog;
	unsigned int n, i, best = 0;
	struct timed *t = candidates(ds, &n, err);

	if (!t)
		return err->status;
	if (p->pick == POLICY_PICK_MEASURE) {
		measured(ds, t, n, in, n_in, p->runs);
		best = least(t, n, close);
	} else if (p->pick == POLICY_PICK_COST) {
		for (i = 0; i < n; i++)
			if (!rlx_devices_compile(ds, t[i].r, &prog, NULL)) {
				t[i].median = rlx_devices_cost(prog, &t[i].r->info);
				rlx_program_put(prog);
			}
		best = least(t, n, 1);
		/* A preferred one stands first. */
		if (best < n && p->prefer.n &&
		    rlx_policy_place(&p->prefer, &t[0].r->info) < p->prefer.n &&
		    t[0].median <= much * t[best].median)
			best = 0;
	}
	if (best == n)
		rlx_error_set(err, t[0].why.status ? t[0].why.status : RLX_ENODEV, NULL, 0,
			      "no candidate could be measured: %s", t[0].why.text);
	else
		snprintf(device, 24, "%s", t[best].r->info.backend);
	rlx_free(t);
	return best == n ? err->status : RLX_OK;
}

/* One that is named: it must be there, be allowed and run the graph. */
static enum rlx_status pick_named(struct rlx_devices *ds, const char *what, const char *name,
				  char device[24], struct rlx_error *err)
{
	struct devices_row *r = rlx_devices_find(ds, what, name, err);
	struct rlx_program *p;
	enum rlx_status st;

	if (!r)
		return err->status == RLX_EACCES ? err->status = RLX_ENODEV : err->status;
	st = rlx_devices_compile(ds, r, &p, err);
	if (st)
		return st;
	rlx_program_put(p);
	snprintf(device, 24, "%s", r->info.backend);
	return RLX_OK;
}

static enum rlx_status pick_chain(struct rlx_devices *ds, const struct rlx_policy *p,
				  char device[24], struct rlx_error *err)
{
	struct rlx_reasons all = { 0 };
	enum rlx_status st = RLX_ENODEV;
	unsigned int i;

	for (i = 0; i < p->chain.n; i++) {
		struct rlx_error why = { 0 };

		st = pick_named(ds, "chain", p->chain.name[i], device, &why);
		if (!st)
			return RLX_OK;
		rlx_reasons_add(&all, why.text);
	}
	return rlx_error_set(err, st, NULL, 0, "no device of the chain: %s", all.text);
}

enum rlx_status rlx_devices_pick(struct rlx_devices *ds, const char *hint,
				 const struct rlx_named_tensor *in, unsigned int n_in,
				 char device[24], struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_policy *p;
	enum rlx_status st;

	if (!err)
		err = &own;
	if (!ds || !device || (n_in && !in))
		return rlx_fail(err, RLX_EINVAL, "devices: nothing to pick of, or no place for it");
	p = rlx_devices_policy(ds);
	if (hint)
		st = pick_named(ds, "hint", hint, device, err);
	else if (p->device.n)
		st = pick_named(ds, "policy", p->device.name[0], device, err);
	else if (p->chain.n)
		st = pick_chain(ds, p, device, err);
	else
		st = choose(ds, p, in, n_in, device, err);
	rlx_policy_put(p);
	return st;
}

static int by_median(const void *a, const void *b)
{
	const struct rlx_device_fit *x = a, *y = b;

	if ((x->measured_ns > 0) != (y->measured_ns > 0))
		return x->measured_ns > 0 ? -1 : 1;
	return x->measured_ns < y->measured_ns ? -1 : x->measured_ns > y->measured_ns;
}

unsigned int rlx_devices_bench(struct rlx_devices *ds, const struct rlx_named_tensor *in,
			       unsigned int n_in, unsigned int runs, struct rlx_device_fit *fit,
			       unsigned int max)
{
	struct rlx_error err = { 0 };
	struct rlx_device_fit *all;
	struct timed *t;
	unsigned int n, i;

	if (!ds || (n_in && !in))
		return 0;
	t = candidates(ds, &n, &err);
	if (!t)
		return 0;
	all = rlx_calloc(n, sizeof(*all));
	if (all)
		measure(ds, t, n, in, n_in, !runs ? RUNS : runs < MOST_RUNS ? runs : MOST_RUNS);
	for (i = 0; all && i < n; i++) {
		fill_fit(ds, t[i].r, &all[i]);
		all[i].measured_ns = t[i].median;
		if (t[i].why.status)
			all[i].why = t[i].why;
	}
	if (all)
		qsort(all, n, sizeof(*all), by_median);
	for (i = 0; all && fit && i < n && i < max; i++)
		fit[i] = all[i];
	rlx_free(all);
	rlx_free(t);
	return all ? n : 0;
}
