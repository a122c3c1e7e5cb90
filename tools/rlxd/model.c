// SPDX-License-Identifier: MIT
/* Models from their section of the configuration. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "model/plan_file.h"
#include "rlx/resident.h"
#include "rt/rt.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/queue.h"
#include "tools/rlxd/replica.h"
#include "tools/rlxd/weights.h"
#include "tools/rlxd/worker_pool.h"

static enum rlx_status add_mark(struct model *m, const char *path, uint64_t source, uint64_t bytes,
				struct rlx_error *err)
{
	struct file_mark *f = rlx_bump_new(&m->mem, 1, sizeof(*f));

	if (f)
		f->path = rlx_bump_str(&m->mem, path, strlen(path));
	if (!f || !f->path)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	f->next = m->mark;
	f->source = source;
	f->bytes = bytes;
	m->mark = f;
	return RLX_OK;
}

static enum rlx_status mark_file(struct model *m, const char *path, struct rlx_error *err)
{
	uint64_t bytes, source = rlx_file_source(path, &bytes);

	return add_mark(m, path, source, bytes, err);
}

/*
 * The file, or what matters in a folder, also what is not there yet; and the tokenizer. Before
 * reading: what changes while we read counts as changed.
 */
static enum rlx_status mark_files(struct model *m, struct rlx_error *err)
{
	static const char *const names[] = {
		"config.json", "model.safetensors", "tokenizer.json", "vocab.txt",
		"sentence_bert_config.json",
	};
	enum rlx_status st = RLX_OK;
	struct stat sb;
	char path[4096];
	unsigned int i;

	if (stat(m->conf.path, &sb) || !S_ISDIR(sb.st_mode))
		st = mark_file(m, m->conf.path, err);
	else
		for (i = 0; !st && i < sizeof(names) / sizeof(names[0]); i++) {
			snprintf(path, sizeof(path), "%s/%s", m->conf.path, names[i]);
			st = mark_file(m, path, err);
		}
	return st || !m->conf.tokenizer ? st : mark_file(m, m->conf.tokenizer, err);
}

/* External data, which the model names: as it was when it was opened. */
static enum rlx_status mark_external(struct model *m, struct rlx_error *err)
{
	const struct rlx_file *f;
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; !st && (f = m->kind->mapped(m, i)); i++)
		if (f->path)
			st = add_mark(m, f->path, f->source, f->n, err);
	return st;
}

/* True if the files it was loaded from are as they were. */
static bool is_current(const struct model *m)
{
	const struct file_mark *f;
	uint64_t bytes;

	for (f = m->mark; f; f = f->next)
		if (rlx_file_source(f->path, &bytes) != f->source)
			return false;
	return !atomic_load(&m->torn);
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
	if (rlx_is_plan_file(c->path)) {
		if (c->kind != CONF_KIND_BERT && !c->tokenizer)
			return &model_plan;
		rlx_fail(err, RLX_ENOSUP, "%s: a plan file is a program of one size, which takes "
			 "tensors and no texts: name the encoder's folder, or leave out kind = bert "
			 "and tokenizer", c->path);
		return NULL;
	}
	if (c->kind == CONF_KIND_BERT || (c->kind == CONF_KIND_AUTO && S_ISDIR(sb.st_mode)))
		return &model_bert;
	return &model_onnx;
}

/* Requests may differ in size without end, and so in what a run takes. */
static bool wants_extra(const struct model *m)
{
	unsigned int i, k;

	for (i = 0; !m->embeds && i < m->n_in; i++)
		for (k = 0; k < m->in[i].rank; k++)
			if (m->in[i].dim[k] < 0)
				return true;
	return false;
}

static enum rlx_status open_replicas(struct model *m, struct rlx_error *err)
{
	unsigned int i, n = (unsigned int)m->conf.replicas;
	enum rlx_status st = RLX_OK;

	m->replica = rlx_calloc(n + 1, sizeof(*m->replica));
	if (!m->replica)
		return rlx_fail(err, RLX_ENOMEM, "out of memory for replicas");
	for (i = 0; !st && i <= n; i++) {
		struct replica *r = &m->replica[i];

		r->model = m;
		r->index = i;
		r->task.fn = replica_run_on_worker;
		r->node = (int)i % node_count();
		if (i == n)
			break;
		node_enter(r->node);
		st = m->kind->replica_open(r, err);
		r->next = m->idle;
		m->idle = r;
	}
	m->extra = !st && wants_extra(m) ? &m->replica[n] : NULL;
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

	for (i = 0; m->replica && i <= (unsigned int)m->conf.replicas; i++)
		if (m->replica[i].state)
			m->kind->replica_close(&m->replica[i]);
	rlx_free(m->replica);
	if (m->state)
		m->kind->close(m);
	m->replica = NULL;
	m->idle = NULL;
	m->extra = NULL;
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
	if (!st)
		st = mark_external(m, err);
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

void model_count_kernels(struct model *m, const struct rlx_program *p)
{
	struct rlx_program_info info;

	rlx_program_info(p, &info);
	atomic_fetch_add(&m->kernels_compiled, info.kernels_compiled);
	atomic_fetch_add(&m->kernels_ns, (int64_t)info.kernels_ns);
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
	if (!st)
		st = mark_files(m, &why);
	if (!st) {
		m->kind = kind_of(&m->conf, &why);
		m->platform = m->kind ? m->kind->platform : NULL;
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
		  L_INT("ms", m->load_ns / 1000000), L_INT("weight_bytes", m->weight_bytes),
		  L_INT("kernels_compiled", atomic_load(&m->kernels_compiled)),
		  L_INT("kernels_ms", atomic_load(&m->kernels_ns) / 1000000));
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

unsigned int model_set_extras(const struct model_set *s)
{
	unsigned int i, n = 0;

	for (i = 0; i < s->n; i++)
		n += wants_extra(s->model[i]);
	return n;
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
