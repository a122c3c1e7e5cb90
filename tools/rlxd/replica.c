// SPDX-License-Identifier: MIT
/* Replicas take rows that wait and run them as batches. */
#include <stddef.h>
#include <time.h>

#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/queue.h"
#include "tools/rlxd/renew.h"
#include "tools/rlxd/replica.h"
#include "tools/rlxd/rows.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/worker_pool.h"

/* With the last row its job is done. */
static void row_done(struct row *row, enum rlx_status st, const struct rlx_error *err)
{
	struct job *j = row->job;
	struct model *m = j->model;

	metric_add(&m->metric.rows, 1);
	if (st == RLX_ELOST)
		renew_want(err->text);
	if (st) {
		metric_add(st == RLX_ETIME ? &m->metric.rows_late :
			   st == RLX_ECANCELED ? &m->metric.rows_cancelled :
						 &m->metric.rows_failed, 1);
		if (!atomic_exchange(&j->failed, true))
			j->err = *err;
	}
	atomic_fetch_sub(&j->client->rows, 1);
	if (atomic_fetch_sub(&j->rows_left, 1) == 1)
		j->done(j);
}

static void drop_rows(struct row *row)
{
	struct rlx_error late = { 0 }, gone = { 0 };
	int64_t now = now_ns();
	struct row *next;
	bool is_late;

	rlx_fail(&late, RLX_ETIME, "the request waited longer than request_timeout, or its own "
		 "timeout; send fewer at once, or try again later");
	rlx_fail(&gone, RLX_ECANCELED, "nobody waits for the reply");
	for (; row; row = next) {
		next = row->next;
		is_late = row->job->deadline <= now && !row->job->unwanted(row->job);
		row_done(row, is_late ? RLX_ETIME : RLX_ECANCELED, is_late ? &late : &gone);
	}
}

/* Run r->batch; results that come of a file that was cut are none. */
static enum rlx_status run(struct replica *r, struct rlx_error *err)
{
	struct model *m = r->model;
	enum rlx_status st;
	unsigned int begin;

	begin = truncation_guard_begin();
	st = m->kind->run(r, err);
	if (truncation_guard_end(begin, m->file, m->n_file))
		atomic_store(&m->torn, true);
	if (!atomic_load(&m->torn))
		return st;
	*err = (struct rlx_error){ 0 };
	return rlx_fail(err, RLX_EIO, "a file of model %s was cut short while it was in use; "
			"it is served again after a reload with whole files", m->name);
}

static unsigned int class_of(const struct model *m, const struct row *row)
{
	return m->kind->class_of ? m->kind->class_of(m, row) : 0;
}

int64_t model_row_ns(const struct model *m, const struct row *row)
{
	return atomic_load_explicit(&m->row_ns[class_of(m, row)], memory_order_relaxed);
}

int64_t model_rows_of(const struct model *m, const struct row *row)
{
	/* What has more is refused. */
	int64_t max = m->embeds ? m->max_batch : m->conf.max_queue, n = 1;

	if (row->place && row->n_in && rows_are_independent(m))
		n = row->in[0].type.dim[0];
	return n < 1 ? 1 : n < max ? n : max;
}

static bool is_extra(const struct replica *r)
{
	return r->index == (unsigned int)r->model->conf.replicas;
}

/* So many powers of two smaller is what has never run, to be called short. */
enum { MUCH_SMALLER = 4 };

bool model_is_short(const struct model *m, const struct row *row)
{
	int64_t ns = model_row_ns(m, row), rows = model_rows_of(m, row);
	unsigned int i, c = class_of(m, row);

	if (ns)
		return ns <= MODEL_RUN_NS / rows;
	for (i = 0; i < (unsigned int)m->conf.replicas; i++)
		if (m->replica[i].runs && c + MUCH_SMALLER > m->replica[i].row_class)
			return false;
	return rows == 1;
}

/* With the lock held: no replica will be free soon, by what it runs or by how long. */
static bool all_are_long(const struct model *m)
{
	int64_t now = now_ns();
	unsigned int i;

	for (i = 0; i < (unsigned int)m->conf.replicas; i++) {
		const struct replica *r = &m->replica[i];

		if (!r->runs || (!r->is_long && now - r->begin < MODEL_RUN_NS))
			return false;
	}
	return true;
}

/* With the lock held: the extra replica, if it is to run something now. */
static struct replica *claim_extra(struct model *m)
{
	struct replica *r = m->extra;

	if (!r || r->runs || !m->n_rows || !all_are_long(m) || !queue_has_short(m, now_ns()))
		return NULL;
	r->runs = true;
	model_get(m);
	return r;
}

/*
 * A first run compiles and faults memory in: what is faster counts for more. The extra
 * replica shares processors with others, so that what is slower there says nothing.
 */
static void note_row_ns(const struct replica *r, const struct row *row, int64_t each)
{
	struct model *m = r->model;
	int64_t was = model_row_ns(m, row);

	each = each / model_rows_of(m, row) + 1;
	if (is_extra(r) && was && each >= was)
		return;
	atomic_store_explicit(&m->row_ns[class_of(m, row)],
			      !was ? each : each < was ? (was + each + 1) / 2 :
			      (was * 3 + each) / 4, memory_order_relaxed);
}

/* One batch of a replica that has taken its rows. */
static void run_batch(struct replica *r)
{
	struct model *m = r->model;
	struct rlx_error err = { 0 };
	int64_t begin = now_ns(), end;
	unsigned int i, n = r->n;
	enum rlx_status st;

	for (i = 0; i < n; i++)
		hist_add(&m->metric.queue, begin - r->batch[i]->queued);
	st = run(r, &err);
	/* What one row did wrong is not for the others to pay. */
	if (st && st != RLX_ENOMEM && n > 1) {
		for (i = 0; i < n; i++) {
			r->batch[0] = r->batch[i];
			r->n = 1;
			err = (struct rlx_error){ 0 };
			st = run(r, &err);
			row_done(r->batch[0], st, &err);
		}
		return;
	}
	end = now_ns();
	hist_add(&m->metric.run, end - begin);
	metric_add(&m->metric.batches, 1);
	if (!st)
		note_row_ns(r, r->batch[0], (end - begin) / n);
	for (i = 0; i < n; i++)
		row_done(r->batch[i], st, &err);
}

/*
 * With the lock held: rows for @r, and what is known of their run. Zero: none wait, or none that
 * the extra replica may run.
 */
static unsigned int take(struct replica *r, unsigned int max, struct row **out_dropped)
{
	struct model *m = r->model;

	r->n = 0;
	if (!is_extra(r) || all_are_long(m))
		r->n = queue_take(m, now_ns(), is_extra(r), r->batch, max, out_dropped);
	r->runs = r->n;
	if (r->n) {
		int64_t ns = model_row_ns(m, r->batch[0]) * model_rows_of(m, r->batch[0]);

		r->row_class = class_of(m, r->batch[0]);
		r->is_long = !ns || ns > MODEL_RUN_NS;
		r->begin = now_ns();
	}
	return r->n;
}

/*
 * Rows for @r, waiting up to batch_delay for a full batch if @wait. Zero: there are
 * none, and the replica is idle again.
 */
static unsigned int take_rows(struct replica *r, bool wait)
{
	struct model *m = r->model;
	unsigned int max = (unsigned int)m->max_batch, n;
	struct row *dropped = NULL;
	struct replica *extra;
	struct timespec ts;
	int64_t until;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		until = m->n_rows ? queue_oldest(m) + m->conf.batch_delay_ns : 0;
		if (!wait || !m->conf.batch_delay_ns || !m->n_rows || m->n_rows >= max ||
		    until <= now_ns())
			break;
		ts = (struct timespec){ until / 1000000000, until % 1000000000 };
		m->waiting++;
		pthread_cond_timedwait(&m->more, &m->lock, &ts);
		m->waiting--;
	}
	n = take(r, max, &dropped);
	/* From the unlocking on an idle replica may be another thread's. */
	if (!n && !is_extra(r)) {
		r->next = m->idle;
		m->idle = r;
	}
	extra = n && r->is_long ? claim_extra(m) : NULL;
	pthread_mutex_unlock(&m->lock);
	if (extra)
		worker_pool_post(m->workers, &extra->task);
	if (dropped)
		drop_rows(dropped);
	return n;
}

/* With the lock held: what the next batch will take, 0 without rows. */
static int64_t next_ns(struct model *m)
{
	int64_t n = m->n_rows < m->max_batch ? m->n_rows : m->max_batch, rows, each;
	const struct row *row = queue_next(m);

	if (!row)
		return 0;
	rows = model_rows_of(m, row);
	each = model_row_ns(m, row);
	return each ? (n < rows ? rows : n) * each : INT64_MAX;
}

/* What rows that wait for @r will take; without any it is idle again, and that is 0. */
static int64_t rows_for(struct replica *r)
{
	struct model *m = r->model;
	int64_t ns;

	pthread_mutex_lock(&m->lock);
	ns = next_ns(m);
	if (!ns) {
		r->runs = false;
		r->next = m->idle;
		m->idle = r;
	}
	pthread_mutex_unlock(&m->lock);
	return ns;
}

/*
 * Run rows that wait, which will take @next, and more that come, for at most @ns; the
 * rest is a worker's.
 */
static void run_here(struct replica *r, int64_t next, int64_t ns)
{
	struct model *m = r->model;
	int64_t end = now_ns() + ns;

	while (next) {
		if (next >= ns) {
			worker_pool_post(m->workers, &r->task);
			return;
		}
		next = 0;
		if (take_rows(r, false)) {
			run_batch(r);
			next = rows_for(r);
			ns = next ? end - now_ns() : 0;
		}
	}
	model_put(m);
}

/*
 * An idle replica, of this thread's node if there is one, for rows that wait and will take
 * *@out_ns; or the extra one. It has a reference to its model until it is idle again: the rows
 * that it was woken for may be done by another one, and with the last request a model that was
 * replaced goes.
 */
static struct replica *claim(struct model *m, int64_t *out_ns)
{
	struct replica *r = NULL, **p = &m->idle;

	pthread_mutex_lock(&m->lock);
	/* Who finds all at work, as most do under load, is not to look through all lines. */
	*out_ns = m->idle ? next_ns(m) : 0;
	if (*out_ns) {
		while (*p && (*p)->node != node_here())
			p = &(*p)->next;
		if (!*p)
			p = &m->idle;
		r = *p;
		*p = r->next;
		model_get(m);
	} else {
		r = claim_extra(m);
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

/* Without it rows wait for those that run, which is said. */
static bool open_extra(struct replica *r)
{
	struct model *m = r->model;
	struct rlx_error err = { 0 };
	unsigned int begin;

	if (!is_extra(r) || r->state)
		return true;
	begin = truncation_guard_begin();
	if (m->kind->replica_open(r, &err) && r->state)
		m->kind->replica_close(r);
	if (truncation_guard_end(begin, m->file, m->n_file))
		atomic_store(&m->torn, true);
	if (r->state)
		return true;
	log_event(LOG_WARN, "no replica for short runs beside long ones", L_STR("model", m->name),
		  L_STR("error", err.text));
	pthread_mutex_lock(&m->lock);
	m->extra = NULL;
	pthread_mutex_unlock(&m->lock);
	return false;
}

void replica_run_on_worker(struct task *t)
{
	struct replica *r = (struct replica *)((char *)t - offsetof(struct replica, task));
	struct model *m = r->model;

	node_enter(r->node);
	if (open_extra(r))
		while (take_rows(r, true))
			run_batch(r);
	model_put(m);
}

void turn_end(struct turn *t)
{
	struct replica *r;
	struct model *m;
	int64_t ns;

	while (t->n) {
		m = t->model[--t->n];
		r = claim(m, &ns);
		if (r && (is_extra(r) || m->conf.batch_delay_ns || r->node != node_here()))
			worker_pool_post(m->workers, &r->task);
		else if (r)
			run_here(r, ns, t->inline_ns);
		model_put(m);
	}
}

void turn_drop(struct turn *t)
{
	while (t->n)
		model_put(t->model[--t->n]);
}

/* Whoever queued in a turn: at its end, with the others. */
static void kick(struct model *m, struct turn *t)
{
	struct replica *r;
	unsigned int i;
	int64_t ns;

	if (!t) {
		r = claim(m, &ns);
		if (r)
			worker_pool_post(m->workers, &r->task);
		return;
	}
	for (i = 0; i < t->n; i++)
		if (t->model[i] == m)
			return;
	if (t->n == CONF_MODELS_MAX)
		turn_end(t);
	t->model[t->n++] = model_get(m);
}

/* More than the client may ever have is refused for good, what is too much now is not. */
static enum rlx_status over_quota(const struct job *j, int64_t max, struct rlx_error *err)
{
	if (j->n_rows > max)
		return rlx_fail(err, RLX_ERANGE, "%u inputs are more than %s may ever have under "
				"way (max_rows = %lld); send fewer at once", j->n_rows,
				j->client->name, (long long)max);
	return rlx_fail(err, RLX_EBUSY, "%s has more than max_rows = %lld inputs under way; wait "
			"for replies", j->client->name, (long long)max);
}

/* Why there is no room for @j. */
static enum rlx_status no_room(const struct job *j, bool full, struct rlx_error *err)
{
	const struct model *m = j->model;

	if (!full)
		return rlx_fail(err, RLX_ENOMEM, "no memory to queue for model %s; try again "
				"later", m->name);
	if (j->n_rows > m->conf.max_queue)
		return rlx_fail(err, RLX_ERANGE, "%u inputs are more than model %s ever queues "
				"(max_queue = %lld); send fewer at once", j->n_rows, m->name,
				(long long)m->conf.max_queue);
	return rlx_fail(err, RLX_EAGAIN, "the queue of model %s is full; try again later",
			m->name);
}

enum rlx_status model_submit(struct job *j, struct turn *t, struct rlx_error *err)
{
	struct model *m = j->model;
	struct client *c = j->client;
	int64_t max = c->max_rows;
	enum rlx_status st = RLX_OK;
	bool full, ok = false;
	unsigned int i;

	if (atomic_fetch_add(&c->rows, (int)j->n_rows) + (int64_t)j->n_rows > max && max) {
		atomic_fetch_sub(&c->rows, (int)j->n_rows);
		metric_add(&m->metric.rows_refused, j->n_rows);
		return over_quota(j, max, err);
	}
	atomic_store(&j->rows_left, j->n_rows);
	for (i = 0; i < j->n_rows; i++) {
		j->rows[i].job = j;
		j->rows[i].queued = j->queued;
	}
	/* From here on, once queued, the job may be done at any moment. */
	model_get(m);
	pthread_mutex_lock(&m->lock);
	full = !queue_has_room(m, j);
	if (!full)
		ok = queue_put(m, j);
	if (ok && m->waiting)
		pthread_cond_broadcast(&m->more);
	pthread_mutex_unlock(&m->lock);
	if (ok) {
		kick(m, t);
	} else {
		atomic_fetch_sub(&c->rows, (int)j->n_rows);
		metric_add(&m->metric.rows_refused, j->n_rows);
		st = no_room(j, full, err);
	}
	model_put(m);
	return st;
}
