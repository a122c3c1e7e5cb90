// SPDX-License-Identifier: MIT
/* One graph's runs: on the device that is wanted, or the next one of a chain. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ir/graph.h"
#include "mem/arena.h"
#include "rt/devices.h"

/* A session over the row's program: one that is idle, or a new one. */
static enum rlx_status get_session(struct rlx_devices *ds, struct devices_row *r,
				   struct devices_session **out, struct rlx_error *err)
{
	struct devices_session *s;
	struct rlx_program *p;
	enum rlx_status st = rlx_devices_compile(ds, r, &p, err);

	if (st)
		return st;
	pthread_mutex_lock(&ds->lock);
	s = r->idle;
	if (s)
		r->idle = s->next;
	pthread_mutex_unlock(&ds->lock);
	if (!s) {
		s = rlx_calloc(1, sizeof(*s) + ds->n_param * sizeof(s->seen[0]));
		st = s ? rlx_session_new(p, NULL, &s->s, err)
		       : rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
		if (st)
			rlx_free(s);
	}
	rlx_program_put(p);
	*out = st ? NULL : s;
	return st;
}

void rlx_devices_end(struct rlx_devices *ds, struct devices_row *r, struct devices_session *s,
		     bool keep)
{
	pthread_mutex_lock(&ds->lock);
	/* Not one over a program that was forgotten meanwhile. */
	if (keep && r->p && rlx_session_program(s->s) == r->p) {
		s->next = r->idle;
		r->idle = s;
		s = NULL;
	}
	pthread_mutex_unlock(&ds->lock);
	if (s) {
		rlx_session_free(s->s);
		rlx_free(s);
	}
}

static enum rlx_status copy_error(struct rlx_error *err, const struct rlx_error *e)
{
	return rlx_error_set(err, e->status, e->file, e->line, "%s", e->text);
}

/* The params that this session does not have as they are now. */
static enum rlx_status give_params(struct rlx_devices *ds, struct devices_session *s,
				   struct rlx_error *err)
{
	const struct rlx_program *p = rlx_session_program(s->s);
	enum rlx_status st;
	struct rlx_buf buf;
	uint64_t version;
	unsigned int i;

	for (i = 0; i < ds->n_param; i++) {
		pthread_mutex_lock(&ds->lock);
		buf = ds->param[i].buf;
		version = ds->param[i].version;
		if (buf.arena)
			rlx_arena_get(buf.arena);
		pthread_mutex_unlock(&ds->lock);
		if (!buf.arena)
			return rlx_fail(err, RLX_EINVAL, "devices: param '%s' has no value; "
					"rlx_devices_set() or _bind() it", ds->param[i].name);
		st = RLX_OK;
		if (s->seen[i] != version &&
		    rlx_program_io_find(p, RLX_IO_PARAM, ds->param[i].name) >= 0)
			st = rlx_session_bind(s->s, RLX_IO_PARAM, ds->param[i].name, buf);
		rlx_arena_put(buf.arena);
		if (st)
			return copy_error(err, rlx_session_error(s->s));
		s->seen[i] = version;
	}
	return RLX_OK;
}

static enum rlx_status give_inputs(struct rlx_session *s, const struct rlx_named_tensor *in,
				   unsigned int n_in, struct rlx_error *err)
{
	const struct rlx_program *p = rlx_session_program(s);
	unsigned int n = rlx_program_io_count(p, RLX_IO_INPUT), i, k;

	for (i = 0; i < n && !in; i++) {
		struct rlx_buf b = rlx_session_buf_at(s, RLX_IO_INPUT, i);

		if (!b.arena)
			return copy_error(err, rlx_session_error(s));
		memset(rlx_buf_ptr(b), 0, (size_t)rlx_type_bytes(
				rlx_program_io_type(p, RLX_IO_INPUT, i)));
	}
	for (k = 0; in && k < n_in; k++)
		if (rlx_session_set(s, RLX_IO_INPUT, in[k].name, in[k].type, in[k].data))
			return copy_error(err, rlx_session_error(s));
	for (i = 0; in && i < n; i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_INPUT, i);

		for (k = 0; k < n_in && strcmp(in[k].name, name); k++)
			;
		if (k == n_in)
			return rlx_fail(err, RLX_EINVAL, "devices: input '%s' is not given", name);
	}
	return RLX_OK;
}

enum rlx_status rlx_devices_begin(struct rlx_devices *ds, struct devices_row *r,
				  const struct rlx_named_tensor *in, unsigned int n_in,
				  struct devices_session **out, struct rlx_error *err)
{
	enum rlx_status st = get_session(ds, r, out, err);

	if (st)
		return st;
	st = give_params(ds, *out, err);
	if (!st)
		st = give_inputs((*out)->s, in, n_in, err);
	if (st) {
		rlx_devices_end(ds, r, *out, false);
		*out = NULL;
	}
	return st;
}

/* Only what is wanted is computed: all, if nobody asks for any. */
static enum rlx_status want(struct rlx_session *s, const struct rlx_named_result *out,
			    unsigned int n_out, struct rlx_error *err)
{
	const char **names = rlx_calloc(n_out + 1, sizeof(*names));
	enum rlx_status st;
	unsigned int i;

	if (!names)
		return rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	for (i = 0; i < n_out; i++)
		names[i] = out[i].name ? out[i].name : "";
	st = rlx_session_want(s, n_out ? names : NULL, n_out);
	rlx_free(names);
	return st ? copy_error(err, rlx_session_error(s)) : RLX_OK;
}

static enum rlx_status run_on(struct rlx_devices *ds, struct devices_row *r,
			      const struct rlx_devices_io *io, struct rlx_error *err)
{
	struct devices_session *s;
	enum rlx_status st = rlx_devices_begin(ds, r, io->in, io->n_in, &s, err);
	unsigned int i;

	if (st)
		return st;
	st = want(s->s, io->out, io->n_out, err);
	if (!st && rlx_session_run(s->s))
		st = copy_error(err, rlx_session_error(s->s));
	for (i = 0; i < io->n_out && !st; i++) {
		const struct rlx_named_result *o = &io->out[i];

		if (rlx_session_get(s->s, RLX_IO_OUTPUT, o->name, o->type, o->data))
			st = copy_error(err, rlx_session_error(s->s));
	}
	rlx_devices_end(ds, r, s, !st);
	if (st == RLX_ELOST)	/* what there is may be other than before */
		rlx_devices_forget(ds, r->info.backend);
	return st;
}

struct tries {
	struct rlx_attempts	*out;
	unsigned int		 n;
	struct rlx_reasons	 all;
};

static void note(struct tries *t, const char *device, uint64_t ns, const struct rlx_error *why)
{
	if (t->out && t->n < t->out->max && t->out->at) {
		struct rlx_attempt *at = &t->out->at[t->n];

		memset(at, 0, sizeof(*at));
		snprintf(at->device, sizeof(at->device), "%s", device);
		at->ns = ns;
		at->why = *why;
	}
	t->n++;
	if (why->status)
		rlx_reasons_add(&t->all, why->text);
}

/* One try of a name as a chain or a hint has it. */
static enum rlx_status try_one(struct rlx_devices *ds, const char *name,
			       const struct rlx_devices_io *io, struct tries *t)
{
	struct rlx_error why = { 0 };
	struct devices_row *r = rlx_devices_find(ds, "devices", name, &why);
	uint64_t t0 = rlx_now();
	enum rlx_status st;

	if (!r && why.status == RLX_EACCES)
		why.status = RLX_ENODEV;	/* by the policy, not by the system */
	st = r ? run_on(ds, r, io, &why) : why.status;
	why.status = st;
	note(t, r ? r->info.backend : name, rlx_now() - t0, &why);
	return st;
}

enum rlx_status rlx_devices_run(struct rlx_devices *ds, const char *hint,
				const struct rlx_devices_io *io, struct rlx_attempts *tries,
				struct rlx_error *err)
{
	struct tries t = { .out = tries };
	struct rlx_policy *p;
	char device[24];
	enum rlx_status st;
	unsigned int i;

	if (!ds || !io || (io->n_in && !io->in) || (io->n_out && !io->out))
		return rlx_fail(err, RLX_EINVAL, "devices: no devices, inputs or outputs");
	if (!io->in && rlx_graph_io_count(ds->g, RLX_IO_INPUT))
		return rlx_fail(err, RLX_EINVAL, "devices: no inputs are given");
	p = rlx_devices_policy(ds);
	if (!hint && p->chain.n) {
		st = RLX_ENODEV;
		for (i = 0; i < p->chain.n && (!i || rlx_policy_goes_on(st)); i++)
			st = try_one(ds, p->chain.name[i], io, &t);
	} else {
		st = rlx_devices_pick(ds, hint, io->in, io->n_in, device, err);
		if (!st)
			st = try_one(ds, device, io, &t);
	}
	rlx_policy_put(p);
	if (tries)
		tries->n = t.n;
	if (st && t.n)
		return rlx_error_set(err, st, NULL, 0, "%s", t.all.text);
	return st;
}

/* Compiled, and with params, kernels and captured launches in place. */
static enum rlx_status warm(struct rlx_devices *ds, struct devices_row *r, struct rlx_error *err)
{
	return run_on(ds, r, &(struct rlx_devices_io){ 0 }, err);
}

struct warmer {
	struct rlx_devices	*ds;
	struct devices_row	**row;
	struct rlx_attempt	*at;	/* by row */
	unsigned int		 n;
	const char		*backend;
	size_t			 len;
	bool			 started;
	pthread_t		 thread;
};

/* Those of one backend, one after the other: two on one driver gain nothing. */
static void *warm_backend(void *arg)
{
	struct warmer *w = arg;
	unsigned int i;

	for (i = 0; i < w->n; i++) {
		const char *name = w->row[i]->info.backend;
		uint64_t t0 = rlx_now();

		if (strcspn(name, ":") != w->len || memcmp(name, w->backend, w->len))
			continue;
		memcpy(w->at[i].device, name, strlen(name) + 1);
		w->at[i].why.status = warm(w->ds, w->row[i], &w->at[i].why);
		w->at[i].ns = rlx_now() - t0;
	}
	return NULL;
}

static unsigned int warm_all(struct rlx_devices *ds, struct devices_row **row,
			     struct rlx_attempt *at, struct warmer *w, unsigned int n)
{
	unsigned int n_w = 0, ready = 0, i, k;

	for (i = 0; i < n; i++) {
		const char *name = row[i]->info.backend;
		size_t len = strcspn(name, ":");

		for (k = 0; k < n_w && (w[k].len != len || memcmp(w[k].backend, name, len)); k++)
			;
		if (k < n_w)
			continue;
		w[n_w] = (struct warmer){ .ds = ds, .row = row, .at = at, .n = n,
					  .backend = name, .len = len };
		w[n_w].started = !pthread_create(&w[n_w].thread, NULL, warm_backend, &w[n_w]);
		if (!w[n_w].started)
			warm_backend(&w[n_w]);
		n_w++;
	}
	for (k = 0; k < n_w; k++)
		if (w[k].started)
			pthread_join(w[k].thread, NULL);
	for (i = 0; i < n; i++)
		ready += !at[i].why.status;
	return ready;
}

unsigned int rlx_devices_warm(struct rlx_devices *ds, struct rlx_attempt *at, unsigned int max)
{
	struct rlx_error why = { 0 };
	struct devices_row **rows = NULL;
	struct rlx_attempt *all = NULL;
	struct warmer *w = NULL;
	unsigned int n = 0, ready = 0, i, k;

	if (!ds || rlx_devices_list(ds, &why))
		return 0;
	rows = rlx_devices_order(ds, &n);
	for (i = k = 0; i < n; i++) {
		why = (struct rlx_error){ 0 };
		if (!rlx_devices_usable(ds, rows[i], &why))
			rows[k++] = rows[i];
	}
	all = rlx_calloc(k + 1, sizeof(*all));
	w = rlx_calloc(k + 1, sizeof(*w));
	if (rows && all && w)
		ready = warm_all(ds, rows, all, w, k);
	for (i = 0; all && at && i < k && i < max; i++)
		at[i] = all[i];
	rlx_free(w);
	rlx_free(all);
	rlx_free(rows);
	return ready;
}
