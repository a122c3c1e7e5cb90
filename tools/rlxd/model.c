// SPDX-License-Identifier: MIT
/* Models from their section of the configuration; replicas that run batches. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "rlx/resident.h"
#include "rt/rt.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/queue.h"
#include "tools/rlxd/renew.h"
#include "tools/rlxd/rows.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/weights.h"
#include "tools/rlxd/worker_pool.h"

static void mark_file(const char *path, struct file_mark *out)
{
	struct stat sb;

	*out = (struct file_mark){ 0 };
	if (stat(path, &sb))
		return;
	*out = (struct file_mark){
		(uint64_t)sb.st_dev, (uint64_t)sb.st_ino, (uint64_t)sb.st_size,
		(int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec,
	};
}

/* The file, or what matters in a folder; and the tokenizer. */
static void mark_files(const struct conf_model *c, struct file_mark out[MODEL_MARKS])
{
	static const char *const names[] = {
		"model.safetensors", "tokenizer.json", "sentence_bert_config.json",
	};
	struct stat sb;
	char path[4096];
	int i;

	memset(out, 0, MODEL_MARKS * sizeof(*out));
	if (stat(c->path, &sb) || !S_ISDIR(sb.st_mode)) {
		mark_file(c->path, &out[0]);
	} else {
		for (i = 0; i < MODEL_MARKS - 1; i++) {
			snprintf(path, sizeof(path), "%s/%s", c->path, names[i]);
			mark_file(path, &out[i]);
		}
	}
	if (c->tokenizer)
		mark_file(c->tokenizer, &out[MODEL_MARKS - 1]);
}

/* True if the files it was loaded from are as they were. */
static bool is_current(const struct model *m)
{
	struct file_mark now[MODEL_MARKS];

	mark_files(&m->conf, now);
	return !atomic_load(&m->torn) && !memcmp(now, m->mark, sizeof(now));
}

static enum rlx_status copy_conf(struct model *m, const struct conf_model *c,
				 struct rlx_error *err)
{
	const char *const from[] = { c->name, c->path, c->tokenizer, c->device };
	const char **to[] = { &m->conf.name, &m->conf.path, &m->conf.tokenizer,
			      &m->conf.device };
	int i;

	m->conf = *c;
	for (i = 0; i < 4; i++) {
		if (!from[i])
			continue;
		*to[i] = rlx_bump_str(&m->mem, from[i], strlen(from[i]));
		if (!*to[i])
			return rlx_fail(err, RLX_ENOMEM, "out of memory for model %s", c->name);
	}
	m->name = m->conf.name;
	return RLX_OK;
}

static const struct model_kind *kind_of(const struct conf_model *c, struct rlx_error *err)
{
	struct stat sb;

	if (stat(c->path, &sb)) {
		rlx_fail(err, RLX_ENOENT, "%s: %m", c->path);
		return NULL;
	}
	if (c->kind == CONF_KIND_BERT || (c->kind == CONF_KIND_AUTO && S_ISDIR(sb.st_mode)))
		return &model_bert;
	return &model_onnx;
}

static void run_on_worker(struct task *t);

static enum rlx_status open_replicas(struct model *m, struct rlx_error *err)
{
	unsigned int i, n = (unsigned int)m->conf.replicas;
	enum rlx_status st = RLX_OK;

	m->replica = rlx_calloc(n, sizeof(*m->replica));
	if (!m->replica)
		return rlx_fail(err, RLX_ENOMEM, "out of memory for replicas");
	for (i = 0; !st && i < n; i++) {
		struct replica *r = &m->replica[i];

		r->model = m;
		r->index = i;
		r->task.fn = run_on_worker;
		r->node = (int)i % node_count();
		node_enter(r->node);
		st = m->kind->replica_open(r, err);
		r->next = m->idle;
		m->idle = r;
	}
	node_enter(NODE_ANY);
	return st;
}

static enum rlx_status load(struct model *m, struct rlx_error *err)
{
	enum rlx_status st = m->kind->open(m, err);

	return st ? st : open_replicas(m, err);
}

static void unload(struct model *m)
{
	unsigned int i;

	for (i = 0; m->replica && i < (unsigned int)m->conf.replicas; i++)
		if (m->replica[i].state)
			m->kind->replica_close(&m->replica[i]);
	rlx_free(m->replica);
	if (m->state)
		m->kind->close(m);
	m->replica = NULL;
	m->idle = NULL;
	m->state = NULL;
}

/*
 * Where the files of a loaded model are mapped. By the mappings themselves: what else of
 * this process was mapped from files of that folder, its program perhaps, is not ours.
 */
static enum rlx_status note_files(struct model *m, struct rlx_error *err)
{
	const struct rlx_file *f;
	unsigned int n = 0;

	while (m->kind->mapped(m, n))
		n++;
	m->file = rlx_calloc(n + 1, sizeof(*m->file));
	if (!m->file)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	while ((f = m->kind->mapped(m, m->n_file)))
		m->file[m->n_file++] = (struct guarded_range){ (uintptr_t)f->p,
							    (uintptr_t)f->p + f->n };
	return RLX_OK;
}

/* What is in the store whole is read nowhere else any more, unless something is compiled. */
static void forget_pages(const struct model *m)
{
	const struct rlx_file *f;
	unsigned int i;

	for (i = 0; (f = m->kind->mapped(m, i)); i++)
		if (f->map)
			madvise(f->map, f->n, MADV_DONTNEED);
}

/* Load it from files that stay as they are meanwhile. */
static enum rlx_status load_whole(struct model *m, struct rlx_error *err)
{
	unsigned int begin = truncation_guard_begin();
	enum rlx_status st = weights_load(m, load, unload, err);

	if (truncation_guard_end(begin, NULL, 0))
		st = rlx_fail(err, RLX_EIO, "%s: a file was cut short while it was read; "
			      "replace files by renaming new ones over them", m->conf.path);
	if (!st)
		st = note_files(m, err);
	if (!st && weights_are_whole(m))
		forget_pages(m);
	return st;
}

static void model_close(struct model *m)
{
	unload(m);
	rlx_free(m->file);
	rlx_resident_put(m->resident);
	rlx_store_put(m->store);
	rlx_device_put(m->device);
	queue_fini(m);
	pthread_cond_destroy(&m->more);
	pthread_mutex_destroy(&m->lock);
	rlx_bump_fini(&m->mem);
	rlx_free(m);
}

static enum rlx_status load_model(const struct conf_model *c, struct worker_pool *workers,
				  bool awaited, struct model **out, struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	int64_t begin = now_ns();
	pthread_condattr_t attr;
	enum rlx_status st;
	struct model *m;

	*out = NULL;
	m = rlx_calloc(1, sizeof(*m));
	if (!m)
		return rlx_fail(err, RLX_ENOMEM, "out of memory for model %s", c->name);
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->more, &attr);
	pthread_condattr_destroy(&attr);
	atomic_init(&m->refs, 1);
	m->workers = workers;
	m->awaited = awaited;
	m->loaded = time(NULL);
	st = copy_conf(m, c, &why);
	if (!st) {
		/* Before reading: what changes while we read counts as changed. */
		mark_files(&m->conf, m->mark);
		m->kind = kind_of(&m->conf, &why);
		st = why.status;
	}
	if (!st)
		st = rlx_device_get(rlx_device_choice(m->conf.device),
				    (unsigned int)m->conf.threads, &m->device, &why);
	m->max_batch = m->conf.max_batch ? m->conf.max_batch : MODEL_BATCH;
	if (!st)
		st = load_whole(m, &why);
	if (st) {
		rlx_fail(err, st, "[model %s]: %s", c->name, why.text);
		model_close(m);
		return st;
	}
	m->load_ns = now_ns() - begin;
	log_event(LOG_NOTE, "model loaded", L_STR("model", m->name),
		  L_STR("kind", m->kind->name), L_STR("path", m->conf.path),
		  L_INT("ms", m->load_ns / 1000000), L_INT("weight_bytes", m->weight_bytes));
	*out = m;
	return RLX_OK;
}

struct model *model_get(struct model *m)
{
	atomic_fetch_add(&m->refs, 1);
	return m;
}

void model_put(struct model *m)
{
	if (m && atomic_fetch_sub(&m->refs, 1) == 1)
		model_close(m);
}

struct model *model_find(const struct model_set *s, const char *name)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (!strcmp(s->model[i]->name, name))
			return s->model[i];
	return NULL;
}

enum rlx_status model_set_open(const struct conf *c, struct model_set *old,
			       struct worker_pool *workers, bool awaited, struct model_set **out,
			       struct rlx_error *err)
{
	struct model_set *s = rlx_calloc(1, sizeof(*s));
	enum rlx_status st = RLX_OK;
	unsigned int i;

	*out = NULL;
	if (!s)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	atomic_init(&s->refs, 1);
	for (i = 0; !st && i < c->n_model; i++) {
		struct model *was = old ? model_find(old, c->model[i].name) : NULL;

		if (was && conf_model_equal(&was->conf, &c->model[i]) && is_current(was))
			s->model[i] = model_get(was);
		else
			st = load_model(&c->model[i], workers, awaited, &s->model[i], err);
		s->n += !st;
	}
	if (st) {
		model_set_put(s);
		return st;
	}
	*out = s;
	return RLX_OK;
}

enum rlx_status model_encode(struct model *m, struct account *a, const char *text, size_t n,
			     struct row *out, struct rlx_error *err)
{
	return m->kind->encode(m, a, text, n, out, err);
}

int64_t model_mask_tokens(const void *mask, int64_t seq)
{
	int64_t v, k, n = 0;

	for (k = 0; k < seq; k++) {
		memcpy(&v, (const char *)mask + (size_t)k * sizeof(v), sizeof(v));
		if (v == 1 && n == k)
			n++;
		else if (v)
			return -1;
	}
	return n;
}

struct model_set *model_set_get(struct model_set *s)
{
	atomic_fetch_add(&s->refs, 1);
	return s;
}

void model_set_put(struct model_set *s)
{
	unsigned int i;

	if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	for (i = 0; i < s->n; i++)
		model_put(s->model[i]);
	rlx_free(s);
}

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

/* A first run compiles and faults memory in: what is faster counts for more. */
static void note_row_ns(struct model *m, const struct row *row, int64_t each)
{
	int64_t was = model_row_ns(m, row);

	each = each / model_rows_of(m, row) + 1;
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
		note_row_ns(m, r->batch[0], (end - begin) / n);
	for (i = 0; i < n; i++)
		row_done(r->batch[i], st, &err);
}

/*
 * Rows for @r, waiting up to batch_delay for a full batch if @wait. Zero: there are
 * none, and the replica is idle again.
 */
static unsigned int take_rows(struct replica *r, bool wait)
{
	struct model *m = r->model;
	unsigned int max = (unsigned int)m->max_batch, n;
	struct row *dropped = NULL, *more;
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
	do {
		n = r->n = queue_take(m, now_ns(), r->batch, max, &more);
		while (more) {
			struct row *next = more->next;

			more->next = dropped;
			dropped = more;
			more = next;
		}
	} while (!n && m->n_rows);
	/* From the unlocking on an idle replica may be another thread's. */
	if (!n) {
		r->next = m->idle;
		m->idle = r;
	}
	pthread_mutex_unlock(&m->lock);
	if (dropped)
		drop_rows(dropped);
	return n;
}

/* With the lock held: what the next batch will take, 0 without rows. */
static int64_t next_ns(const struct model *m)
{
	int64_t n = m->n_rows < m->max_batch ? m->n_rows : m->max_batch, each;

	if (!n)
		return 0;
	each = model_row_ns(m, queue_next(m));
	if (model_rows_of(m, queue_next(m)) > n)
		n = model_rows_of(m, queue_next(m));
	return each ? n * each : INT64_MAX;
}

/* What rows that wait for @r will take; without any it is idle again, and that is 0. */
static int64_t rows_for(struct replica *r)
{
	struct model *m = r->model;
	int64_t ns;

	pthread_mutex_lock(&m->lock);
	ns = next_ns(m);
	if (!ns) {
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
 * An idle replica, of this thread's node if there is one, if there are rows for it, which
 * will take *@out_ns. It
 * has a reference to its model until it is idle again: the rows that it was woken for
 * may be done by another one, and with the last request a model that was replaced goes.
 */
static struct replica *claim(struct model *m, int64_t *out_ns)
{
	struct replica *r = NULL, **p = &m->idle;

	pthread_mutex_lock(&m->lock);
	*out_ns = next_ns(m);
	if (m->n_rows && m->idle) {
		while (*p && (*p)->node != node_here())
			p = &(*p)->next;
		if (!*p)
			p = &m->idle;
		r = *p;
		*p = r->next;
		model_get(m);
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

static void run_on_worker(struct task *t)
{
	struct replica *r = (struct replica *)((char *)t - offsetof(struct replica, task));
	struct model *m = r->model;

	node_enter(r->node);
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
		if (r && (m->conf.batch_delay_ns || r->node != node_here()))
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
