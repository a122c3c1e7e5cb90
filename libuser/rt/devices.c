// SPDX-License-Identifier: MIT
/* A graph's programs by device: which there are, which may be used, and its params. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "mem/arena.h"
#include "rt/convert.h"
#include "rt/devices.h"

enum { MOST_DEVICES = 64 };

static enum rlx_status take_opts(struct rlx_devices *ds, const struct rlx_compile_opts *o,
				 struct rlx_error *err)
{
	enum rlx_status st = rlx_compile_take(o, &ds->opts, err);

	if (!st && ds->opts.device)
		st = rlx_fail(err, RLX_EINVAL, "devices: opts.device is '%.40s'; name it in the "
			      "policy", ds->opts.device);
	rlx_store_get(ds->opts.store);	/* rlx_devices_free() puts it */
	return st;
}

enum rlx_status rlx_devices_new(struct rlx_graph *g, struct rlx_policy *policy,
				const struct rlx_compile_opts *opts, struct rlx_devices **out,
				struct rlx_error *err)
{
	struct rlx_devices *ds;
	enum rlx_status st;
	unsigned int i;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "devices: no place for them");
	*out = NULL;
	if (!g || g->err.status || !g->finished)
		return rlx_fail(err, RLX_EINVAL, "devices: the graph is not finished%s%s",
				g && g->err.status ? ": " : "", g ? g->err.text : "");
	st = rlx_graph_is_bound(g, "devices", err);
	if (st)
		return st;
	if (g->n_state)
		return rlx_fail(err, RLX_ENOSUP, "devices: graph '%s' has states, which are in one "
				"place; compile it for one device", g->name);
	ds = rlx_calloc(1, sizeof(*ds));
	if (!ds)
		return rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	pthread_mutex_init(&ds->lock, NULL);
	pthread_cond_init(&ds->changed, NULL);
	ds->g = rlx_graph_get(g);
	ds->n_param = rlx_graph_io_count(g, RLX_IO_PARAM);
	ds->param = rlx_calloc(ds->n_param + 1, sizeof(*ds->param));
	for (i = 0; ds->param && i < ds->n_param; i++) {
		ds->param[i].name = rlx_graph_io_name(g, RLX_IO_PARAM, i);
		ds->param[i].type = rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_PARAM, i));
	}
	st = ds->param ? take_opts(ds, opts, err)
		       : rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	if (!st && policy)
		ds->policy = rlx_policy_get(policy);
	else if (!st)
		st = rlx_policy_env(NULL, &ds->policy, err);
	if (st) {
		ds->opts.device = NULL;
		rlx_devices_free(ds);
		return st;
	}
	*out = ds;
	return RLX_OK;
}

static void free_idle(struct devices_session *s)
{
	struct devices_session *next;

	for (; s; s = next) {
		next = s->next;
		rlx_session_free(s->s);
		rlx_free(s);
	}
}

void rlx_devices_free(struct rlx_devices *ds)
{
	unsigned int i;

	if (!ds)
		return;
	for (i = 0; i < ds->n_row; i++) {
		free_idle(ds->row[i]->idle);
		rlx_program_put(ds->row[i]->p);
		rlx_free(ds->row[i]);
	}
	for (i = 0; ds->param && i < ds->n_param; i++)
		rlx_arena_put(ds->param[i].buf.arena);
	rlx_free(ds->row);
	rlx_free(ds->param);
	rlx_store_put(ds->opts.store);
	rlx_policy_put(ds->policy);
	rlx_graph_put(ds->g);
	pthread_cond_destroy(&ds->changed);
	pthread_mutex_destroy(&ds->lock);
	rlx_free(ds);
}

static struct devices_row *row_of(const struct rlx_devices *ds, const char *device)
{
	unsigned int i;

	for (i = 0; i < ds->n_row; i++)
		if (!strcmp(ds->row[i]->info.backend, device))
			return ds->row[i];
	return NULL;
}

/* The lock is held; a device that is gone stays as a row that is not present. */
static enum rlx_status add_rows(struct rlx_devices *ds, const struct rlx_dev_info *info,
				unsigned int n, struct rlx_error *err)
{
	struct devices_row **more = rlx_realloc(ds->row, (ds->n_row + n + 1) * sizeof(*more));
	const size_t behind = sizeof(more[0]->info.backend);
	struct devices_row *r;
	unsigned int i;

	if (!more)
		return rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	ds->row = more;
	for (i = 0; i < ds->n_row; i++)
		ds->row[i]->present = false;
	for (i = 0; i < n; i++) {
		r = row_of(ds, info[i].backend);
		if (!r) {
			r = rlx_calloc(1, sizeof(*r));
			if (!r)
				return rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
			ds->row[ds->n_row++] = r;
		}
		/* a name that is there stays as it is: threads that hold no lock read it */
		if (!*r->info.backend)
			memcpy(r->info.backend, info[i].backend, sizeof(r->info.backend));
		memcpy((char *)&r->info + behind, (const char *)&info[i] + behind,
		       sizeof(r->info) - behind);
		r->present = true;
	}
	return RLX_OK;
}

enum rlx_status rlx_devices_list(struct rlx_devices *ds, struct rlx_error *err)
{
	struct rlx_dev_info *info;
	enum rlx_status st = RLX_ENOMEM;
	unsigned int n;

	pthread_mutex_lock(&ds->lock);
	if (ds->listed) {
		pthread_mutex_unlock(&ds->lock);
		return RLX_OK;
	}
	info = rlx_calloc(MOST_DEVICES, sizeof(*info));
	if (info) {
		n = rlx_device_list(info, MOST_DEVICES);
		st = add_rows(ds, info, n < MOST_DEVICES ? n : MOST_DEVICES, err);
		ds->listed = !st;
	} else {
		rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	}
	pthread_mutex_unlock(&ds->lock);
	rlx_free(info);
	return st;
}

struct rlx_policy *rlx_devices_policy(struct rlx_devices *ds)
{
	struct rlx_policy *p;

	pthread_mutex_lock(&ds->lock);
	p = rlx_policy_get(ds->policy);
	pthread_mutex_unlock(&ds->lock);
	return p;
}

enum rlx_status rlx_devices_usable(struct rlx_devices *ds, struct devices_row *r,
				   struct rlx_error *why)
{
	enum rlx_status st;

	pthread_mutex_lock(&ds->lock);
	if (!r->present)
		st = rlx_fail(why, RLX_ENODEV, "%s: it is gone", r->info.backend);
	else
		st = rlx_policy_allows(ds->policy, &r->info, why);
	pthread_mutex_unlock(&ds->lock);
	return st;
}

/* Under native=yes; the lock is held. */
static enum rlx_status all_native(const struct rlx_devices *ds, const struct devices_row *r,
				  struct rlx_error *err)
{
	if (!ds->policy->native || !r->p->info.host)
		return RLX_OK;
	return rlx_fail(err, RLX_ENOSUP, "%s: the policy has native=yes, and %u of %u steps have "
			"no kernel there: %s", r->info.backend, r->p->info.host, r->p->info.steps,
			r->p->code->on_host);
}

/* Of what cannot be otherwise the next time. */
static bool for_good(enum rlx_status st)
{
	return st != RLX_ENOMEM && st != RLX_ELOST && st != RLX_ENODEV && st != RLX_ETIME;
}

enum rlx_status rlx_devices_compile(struct rlx_devices *ds, struct devices_row *r,
				    struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_compile_opts o = ds->opts;
	struct rlx_program *p = NULL;
	struct rlx_error why = { 0 };
	enum rlx_status st;

	pthread_mutex_lock(&ds->lock);
	while (r->compiling)
		pthread_cond_wait(&ds->changed, &ds->lock);
	if (!r->p && !r->why.status) {
		r->compiling = true;
		o.device = r->info.backend;
		pthread_mutex_unlock(&ds->lock);
		st = rlx_compile(ds->g, &o, &p, &why);
		pthread_mutex_lock(&ds->lock);
		r->compiling = false;
		r->p = p;
		if (st && for_good(st))
			r->why = why;
		pthread_cond_broadcast(&ds->changed);
	} else {
		st = r->why.status;
		why = r->why;
	}
	if (st)
		rlx_error_set(err, st, why.file, why.line, "%s", why.text);
	else
		st = all_native(ds, r, err);
	*out = st ? NULL : rlx_program_get(r->p);
	pthread_mutex_unlock(&ds->lock);
	return st;
}

struct ordered {
	struct devices_row	*r;
	unsigned int		 out, place, at;
};

static int by_order(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if (x->out != y->out)
		return x->out < y->out ? -1 : 1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

struct devices_row **rlx_devices_order(struct rlx_devices *ds, unsigned int *out_n)
{
	struct devices_row **rows = NULL;
	struct rlx_error why;
	struct ordered *o;
	unsigned int i, n;

	pthread_mutex_lock(&ds->lock);
	n = ds->n_row;
	o = rlx_calloc(n + 1, sizeof(*o));
	rows = o ? rlx_calloc(n + 1, sizeof(*rows)) : NULL;
	for (i = 0; rows && i < n; i++) {
		why = (struct rlx_error){ 0 };
		o[i] = (struct ordered){
			.r = ds->row[i], .at = i,
			.out = !ds->row[i]->present ? 2 :
			       rlx_policy_allows(ds->policy, &ds->row[i]->info, &why) ? 1 : 0,
			.place = rlx_policy_place(&ds->policy->prefer, &ds->row[i]->info),
		};
	}
	if (rows)
		qsort(o, n, sizeof(*o), by_order);
	for (i = 0; rows && i < n; i++)
		rows[i] = o[i].r;
	pthread_mutex_unlock(&ds->lock);
	rlx_free(o);
	*out_n = rows ? n : 0;
	return rows;
}

/* NULL: no such device, which @err says with what there is. */
static struct devices_row *find_row(struct rlx_devices *ds, const char *what, const char *word,
				    struct rlx_error *err)
{
	struct devices_row *r = NULL;
	char name[POLICY_NAME];
	const char *why;
	size_t len;
	unsigned int i;

	if (rlx_policy_name(what, word, strlen(word), name, err) || rlx_devices_list(ds, err))
		return NULL;
	pthread_mutex_lock(&ds->lock);
	for (i = 0; i < ds->n_row && !r; i++)
		if (ds->row[i]->present && rlx_policy_names_one(name, &ds->row[i]->info))
			r = ds->row[i];
	pthread_mutex_unlock(&ds->lock);
	if (r)
		return r;
	len = strcspn(name, ":");
	name[len] = 0;
	why = rlx_device_why(name);
	rlx_fail(err, RLX_ENODEV, "%s: there is no device '%.40s'%s%s", what, word,
		 why && *why ? ": " : "", why ? why : "");
	return NULL;
}

struct devices_row *rlx_devices_find(struct rlx_devices *ds, const char *what, const char *word,
				     struct rlx_error *err)
{
	struct devices_row *r = find_row(ds, what, word, err);

	return r && rlx_devices_usable(ds, r, err) ? NULL : r;
}

enum rlx_status rlx_devices_program(struct rlx_devices *ds, const char *device,
				    struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct devices_row *r;

	if (!err)
		err = &own;
	if (!out || !device)
		return rlx_fail(err, RLX_EINVAL, "devices: no device, or no place for the program");
	*out = NULL;
	r = rlx_devices_find(ds, "devices", device, err);
	if (!r)
		return err->status == RLX_EACCES ? RLX_ENODEV : err->status;
	return rlx_devices_compile(ds, r, out, err);
}

static struct devices_param *find_param(struct rlx_devices *ds, const char *name,
					struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; ds && name && i < ds->n_param; i++)
		if (!strcmp(ds->param[i].name, name))
			return &ds->param[i];
	if (ds)
		rlx_fail(err, RLX_ENOENT, "devices: the graph '%s' has no param '%.60s'",
			 ds->g->name, name ? name : "(NULL)");
	return NULL;
}

static void replace(struct rlx_devices *ds, struct devices_param *p, struct rlx_buf buf)
{
	struct rlx_arena *old;

	pthread_mutex_lock(&ds->lock);
	old = p->buf.arena;
	p->buf = buf;
	p->version++;
	pthread_mutex_unlock(&ds->lock);
	rlx_arena_put(old);
}

enum rlx_status rlx_devices_bind(struct rlx_devices *ds, const char *param, struct rlx_buf buf,
				 struct rlx_error *err)
{
	struct devices_param *p = find_param(ds, param, err);
	uint64_t need;

	if (!p)
		return ds ? RLX_ENOENT : RLX_EINVAL;
	need = (uint64_t)rlx_type_bytes(p->type);
	if (buf.bytes < need || !rlx_buf_ptr(buf))
		return rlx_fail(err, RLX_ERANGE, "devices: param '%s' takes %llu bytes, the buffer "
				"has %llu", p->name, (unsigned long long)need,
				(unsigned long long)buf.bytes);
	rlx_arena_get(buf.arena);
	replace(ds, p, buf);
	return RLX_OK;
}

enum rlx_status rlx_devices_set(struct rlx_devices *ds, const char *param, struct rlx_type type,
				const void *data, struct rlx_error *err)
{
	struct devices_param *p = find_param(ds, param, err);
	struct rlx_arena_opts o = { .name = "rlx-devices" };
	struct rlx_arena *a;
	struct rlx_buf buf;
	enum rlx_status st;
	uint64_t bytes;

	if (!p)
		return ds ? RLX_ENOENT : RLX_EINVAL;
	if (!data)
		return rlx_fail(err, RLX_EINVAL, "devices: param '%s': no data", p->name);
	st = rlx_may_convert(p->type, &type, "devices: param", p->name, err);
	if (st)
		return st;
	bytes = (uint64_t)rlx_type_bytes(p->type);
	o.size = bytes + 64;
	st = rlx_arena_new(&o, &a, err);
	if (st)
		return st;
	st = rlx_buf_new(a, bytes ? bytes : 1, 64, &buf, err);
	if (!st) {
		rlx_convert(*p->type, rlx_buf_ptr(buf), type, data);
		rlx_arena_get(a);
		replace(ds, p, buf);
	}
	rlx_arena_put(a);
	return st;
}

void rlx_devices_forget(struct rlx_devices *ds, const char *device)
{
	char name[POLICY_NAME];
	struct devices_session *idle;
	struct rlx_program *p;
	unsigned int i;

	if (!ds || (device && rlx_policy_name("devices", device, strlen(device), name, NULL)))
		return;
	pthread_mutex_lock(&ds->lock);
	for (i = 0; i < ds->n_row; i++) {
		struct devices_row *r = ds->row[i];

		if (device && !rlx_policy_names_one(name, &r->info))
			continue;
		while (r->compiling)
			pthread_cond_wait(&ds->changed, &ds->lock);
		p = r->p;
		idle = r->idle;
		r->p = NULL;
		r->idle = NULL;
		r->measured_ns = 0;
		r->why = (struct rlx_error){ 0 };
		pthread_mutex_unlock(&ds->lock);
		free_idle(idle);
		rlx_program_put(p);
		pthread_mutex_lock(&ds->lock);
	}
	ds->listed = false;
	pthread_mutex_unlock(&ds->lock);
}

enum rlx_status rlx_devices_set_policy(struct rlx_devices *ds, struct rlx_policy *p,
				       struct rlx_error *err)
{
	struct rlx_policy *old;
	unsigned int i;

	if (!p)
		return rlx_fail(err, RLX_EINVAL, "devices: no policy");
	pthread_mutex_lock(&ds->lock);
	old = ds->policy;
	ds->policy = rlx_policy_get(p);
	for (i = 0; i < ds->n_row; i++)
		ds->row[i]->measured_ns = 0;
	ds->listed = false;
	pthread_mutex_unlock(&ds->lock);
	rlx_policy_put(old);
	return RLX_OK;
}
