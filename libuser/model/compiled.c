// SPDX-License-Identifier: MIT
/*
 * First segments that a runner and its clones compiled: each once, by whoever needs it first, or
 * ahead of that (prepare.c). They are there as long as a stage, or what was compiled ahead and has
 * not run yet, has them. The lock guards all lists and counts; it is dropped while somebody
 * compiles, and who wants the same waits.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "model/compiled.h"
#include "model/format.h"

enum { MAX_ASKS = 64 };

struct rlx_compiles *rlx_compiles_new(void)
{
	struct rlx_compiles *p = rlx_calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	atomic_init(&p->refs, 1);
	pthread_mutex_init(&p->lock, NULL);
	rlx_cond_init(&p->changed);
	return p;
}

struct rlx_compiles *rlx_compiles_get(struct rlx_compiles *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void rlx_compiles_put(struct rlx_compiles *p)
{
	if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (p->started) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
	}
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	rlx_free(p);
}

bool rlx_wanted_init(struct rlx_wanted *w, const struct rlx_runner *r, const struct rlx_spec *in,
		     unsigned int n_in)
{
	*w = (struct rlx_wanted){
		.m = r->m, .opts = &r->opts, .in = in, .n_in = n_in,
		.param = rlx_calloc(r->n_param + 1ul, sizeof(*w->param)),
	};
	if (sched_getaffinity(0, sizeof(w->cpus), &w->cpus))
		CPU_ZERO(&w->cpus);	/* or more processors than it holds */
	rlx_key_types(&w->types, r, in, n_in);
	if (w->param)
		w->n_param = rlx_runner_params_set(r, w->param);
	return w->param && !w->types.failed;
}

void rlx_wanted_fini(struct rlx_wanted *w)
{
	rlx_free(w->param);
	rlx_free(w->types.p);
}

enum rlx_status rlx_wanted_build(const struct rlx_wanted *w, const struct rlx_spec *in,
				 const struct rlx_answer *answer, uint32_t n_answer,
				 struct rlx_segment *seg, struct rlx_error *err)
{
	struct rlx_instance want = {
		.spec = in, .n_spec = w->n_in, .answer = answer, .n_answer = n_answer,
		.param = w->param, .n_param = w->n_param,
	};

	return w->m->format->build(w->m, &want, seg, err);
}

void rlx_specs_free(struct rlx_spec *s, unsigned int n)
{
	unsigned int i;

	for (i = 0; s && i < n; i++)
		if (s[i].kind == RLX_SPEC_TENSOR)
			rlx_free((void *)s[i].data);
	rlx_free(s);
}

struct rlx_spec *rlx_specs_own(const struct rlx_spec *in, unsigned int n, uint64_t asked)
{
	struct rlx_spec *s = rlx_memdup(in, n * sizeof(*in));
	bool failed = false;
	unsigned int i;

	for (i = 0; s && i < n; i++) {
		int64_t bytes = rlx_type_bytes(&in[i].type);
		void *own = NULL;

		s[i].data = NULL;
		if (i >= 64 || !(asked >> i & 1) || in[i].kind != RLX_SPEC_TENSOR || !in[i].data ||
		    bytes < 0)
			continue;
		own = rlx_calloc(1, (size_t)bytes + 1);
		if (own)
			memcpy(own, in[i].data, (size_t)bytes);
		failed = failed || !own;
		s[i].data = own;
	}
	if (failed) {
		rlx_specs_free(s, n);
		return NULL;
	}
	return s;
}

/* Build for these types, asking for contents until the import is content; those are @out_own. */
static enum rlx_status build_first(const struct rlx_wanted *w, uint64_t *asked,
				   struct rlx_spec **out_own, struct rlx_segment *seg,
				   struct rlx_error *err)
{
	struct rlx_spec *own;
	enum rlx_status st;
	int i;

	for (i = 0; i < MAX_ASKS; i++) {
		own = rlx_specs_own(w->in, w->n_in, *asked);
		if (!own)
			return rlx_runner_no_memory(err);
		st = rlx_wanted_build(w, own, NULL, 0, seg, err);
		if (!st && seg->need != RLX_NEED_INPUTS) {
			*out_own = own;
			return RLX_OK;
		}
		rlx_specs_free(own, w->n_in);
		if (st)
			return st;
		if (!(seg->inputs & ~*asked)) {
			rlx_segment_fini(seg);
			break;
		}
		*asked |= seg->inputs;
		rlx_segment_fini(seg);
	}
	st = rlx_contents_are_there(w->in, w->n_in, *asked, err);
	return st ? st : rlx_fail(err, RLX_EBUG, "runner: the import keeps asking for inputs");
}

static void compiled_free(struct rlx_compiled *c)
{
	rlx_segment_fini(&c->seg);
	rlx_program_put(c->program);
	rlx_free(c->key.p);
	rlx_free(c);
}

static void unlink_compiled(struct rlx_compiles *p, struct rlx_compiled *c)
{
	struct rlx_compiled **at;

	for (at = &p->first; *at != c; at = &(*at)->next)
		;
	*at = c->next;
}

void rlx_compiled_put_locked(struct rlx_compiles *p, struct rlx_compiled *c)
{
	if (!c || --c->refs)
		return;
	unlink_compiled(p, c);
	compiled_free(c);
}

void rlx_compiled_put(struct rlx_compiles *p, struct rlx_compiled *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&p->lock);
	rlx_compiled_put_locked(p, c);
	pthread_mutex_unlock(&p->lock);
}

/* Is @c what is wanted, as far as its key is known? A device's threads run where its maker may. */
static bool is_wanted(const struct rlx_compiled *c, const struct rlx_wanted *w)
{
	const struct rlx_key *types = &w->types;
	struct rlx_key full = { 0 };
	bool same;

	if (c->n_types != types->n || memcmp(c->key.p, types->p, types->n) ||
	    !CPU_EQUAL(&c->cpus, &w->cpus))
		return false;
	if (!c->imported)
		return true;
	rlx_key_add(&full, types->p, types->n);
	rlx_key_asked(&full, w->in, w->n_in, c->asked);
	same = !full.failed && full.n == c->key.n && !memcmp(full.p, c->key.p, full.n);
	rlx_free(full.p);
	return same;
}

/* One that is there if there is one; else one under way, which may be it; else NULL. */
static struct rlx_compiled *find(const struct rlx_compiles *p, const struct rlx_wanted *w)
{
	struct rlx_compiled *c, *may = NULL;

	for (c = p->first; c; c = c->next)
		if (is_wanted(c, w)) {
			may = c;
			if (c->done)
				break;
		}
	return may;
}

/* Without the lock: nobody else writes to @c, and others read its key with it held. */
static enum rlx_status make(struct rlx_compiles *p, struct rlx_compiled *c,
			    const struct rlx_wanted *w, struct rlx_error *err)
{
	uint64_t asked = 0;
	struct rlx_spec *own = NULL;
	enum rlx_status st = build_first(w, &asked, &own, &c->seg, err);
	bool failed;

	if (st)
		return st;
	pthread_mutex_lock(&p->lock);
	c->asked = asked;
	rlx_key_asked(&c->key, own, w->n_in, asked);	/* others may write to @w's meanwhile */
	c->imported = true;
	failed = c->key.failed;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	rlx_specs_free(own, w->n_in);
	if (failed)
		return rlx_runner_no_memory(err);
	return c->seg.g ? rlx_segment_program(w->m, &c->seg, w->opts, &c->program, err) : RLX_OK;
}

static struct rlx_compiled *compiled_new(struct rlx_compiles *p, const struct rlx_wanted *w)
{
	struct rlx_compiled *c = rlx_calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	rlx_key_add(&c->key, w->types.p, w->types.n);
	if (c->key.failed) {
		compiled_free(c);
		return NULL;
	}
	c->n_types = w->types.n;
	c->cpus = w->cpus;
	c->refs = 1;
	c->next = p->first;
	p->first = c;
	return c;
}

enum rlx_status rlx_compiled_get(struct rlx_compiles *p, const struct rlx_wanted *w,
				 struct rlx_compiled **out, struct rlx_error *err)
{
	struct rlx_compiled *c;
	enum rlx_status st;

	pthread_mutex_lock(&p->lock);
	while ((c = find(p, w)) && !c->done)
		pthread_cond_wait(&p->changed, &p->lock);
	if (c) {
		c->refs++;
		pthread_mutex_unlock(&p->lock);
		*out = c;
		return RLX_OK;
	}
	c = compiled_new(p, w);
	pthread_mutex_unlock(&p->lock);
	if (!c)
		return rlx_runner_no_memory(err);
	st = make(p, c, w, err);
	pthread_mutex_lock(&p->lock);
	c->done = !st;
	if (st)		/* who waits tries it, and has a message of its own */
		rlx_compiled_put_locked(p, c);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	*out = st ? NULL : c;
	return st;
}

uint64_t rlx_compiled_bytes(const struct rlx_program *p)
{
	return p ? p->info.session_bytes + p->code->device_bytes : 0;
}
