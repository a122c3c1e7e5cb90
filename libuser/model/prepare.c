// SPDX-License-Identifier: MIT
/*
 * Sizes that a runner compiles ahead, on a thread that it and its clones share. What is asked for
 * is a copy of the inputs' types; what comes of it is kept until a run has it, up to what a runner
 * keeps of those that ran. The lock of struct rlx_compiles guards the list.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/bump.h"
#include "base/thread.h"
#include "model/compiled.h"

struct rlx_prepared {
	struct rlx_prepared	*next;
	const struct rlx_runner	*owner;
	uint64_t		 point;
	bool			 begun, done;
	struct rlx_wanted	 want;		/* its inputs lie in mem */
	struct rlx_bump		 mem;
	struct rlx_compiled	*c;		/* NULL: none came, or a stage has it */
	struct rlx_session	*session;
	struct rlx_error	 err;
};

static void let_go(struct rlx_compiles *p, struct rlx_prepared *a)
{
	rlx_session_free(a->session);
	a->session = NULL;
	rlx_compiled_put_locked(p, a->c);
	a->c = NULL;
}

static void prepared_free(struct rlx_compiles *p, struct rlx_prepared *a)
{
	let_go(p, a);
	rlx_wanted_fini(&a->want);
	rlx_bump_fini(&a->mem);
	rlx_free(a);
}

static void drop(struct rlx_compiles *p, struct rlx_prepared **at)
{
	struct rlx_prepared *a = *at;

	*at = a->next;
	prepared_free(p, a);
}

/* The oldest of @r's that are done go, but for the latest, while they are more than it keeps. */
static void keep_within(struct rlx_compiles *p, const struct rlx_runner *r)
{
	struct rlx_prepared **at, **old, *a;
	unsigned int n;
	uint64_t bytes;

	for (;;) {
		n = 0;
		bytes = 0;
		old = NULL;
		for (at = &p->prepared; (a = *at); at = &a->next) {
			if (a->owner != r || !a->done)
				continue;
			n++;
			bytes += a->c ? rlx_compiled_bytes(a->c->program) : 0;
			old = old ? old : at;
		}
		if (n < 2 || (n <= RLX_MAX_STAGES && bytes <= RLX_MAX_STAGE_BYTES))
			return;
		drop(p, old);
	}
}

/* Does nobody else have what @a is compiled to, who will have sessions of his own? */
static bool is_sole(struct rlx_compiles *p, const struct rlx_prepared *a)
{
	bool sole;

	pthread_mutex_lock(&p->lock);
	sole = a->c->refs == 1;
	pthread_mutex_unlock(&p->lock);
	return sole;
}

/* Without the lock. */
static void prepare_one(struct rlx_compiles *p, struct rlx_prepared *a)
{
	if (CPU_COUNT(&a->want.cpus))
		(void)sched_setaffinity(0, sizeof(a->want.cpus), &a->want.cpus);
	if (rlx_compiled_get(p, &a->want, &a->c, &a->err) || !a->c->program || !is_sole(p, a))
		return;
	if (rlx_session_new(a->c->program, NULL, &a->session, &a->err) || is_sole(p, a))
		return;		/* a run that needs one tries again */
	rlx_session_free(a->session);
	a->session = NULL;
}

static void *prepare_main(void *arg)
{
	struct rlx_compiles *p = arg;
	struct rlx_prepared *a;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {	/* whoever stops it has nothing here any more */
		for (a = p->prepared; a && a->begun; a = a->next)
			;
		if (!a) {
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		a->begun = true;
		pthread_mutex_unlock(&p->lock);
		prepare_one(p, a);
		pthread_mutex_lock(&p->lock);
		a->done = true;
		keep_within(p, a->owner);
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Of @in, which is not kept. */
static struct rlx_prepared *prepared_new(const struct rlx_runner *r, const struct rlx_spec *in,
					 unsigned int n)
{
	struct rlx_prepared *a = rlx_calloc(1, sizeof(*a));
	struct rlx_spec *s;
	unsigned int i;
	bool whole;

	if (!a)
		return NULL;
	a->owner = r;
	s = rlx_bump_dup(&a->mem, in, n * sizeof(*in));
	whole = s && rlx_wanted_init(&a->want, r, s, n);
	for (i = 0; whole && i < n; i++) {
		s[i].name = rlx_bump_str(&a->mem, in[i].name, strlen(in[i].name));
		if (in[i].data)
			s[i].data = rlx_bump_dup(&a->mem, in[i].data,
						 (size_t)rlx_type_bytes(&in[i].type));
		whole = s[i].name && !in[i].data == !s[i].data;
	}
	if (whole)
		return a;
	prepared_free(r->compiles, a);
	return NULL;
}

/* Behind all others, for the thread, which there is then. */
static enum rlx_status queue(struct rlx_runner *r, struct rlx_prepared *a, struct rlx_error *err)
{
	struct rlx_compiles *p = r->compiles;
	struct rlx_prepared **at;
	unsigned int n = 0;
	int e = 0;

	for (at = &p->prepared; *at; at = &(*at)->next)
		n += (*at)->owner == r && !(*at)->done;
	if (n >= RLX_MAX_STAGES)
		return rlx_fail(err, RLX_EAGAIN, "prepare: %u are queued; wait for one", n);
	if (!p->started)
		e = rlx_thread_new(&p->thread, prepare_main, p);
	if (e)
		return rlx_fail(err, RLX_ENOMEM, "prepare: no thread could be started (error %d)",
				e);
	p->started = true;
	a->point = ++r->prepared;
	*at = a;
	pthread_cond_broadcast(&p->changed);
	return RLX_OK;
}

enum rlx_status rlx_runner_prepare(struct rlx_runner *r, const struct rlx_named_tensor *in,
				   unsigned int n_in, uint64_t *out_point, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_prepared *a;
	struct rlx_spec *s;
	enum rlx_status st;

	err = err ? err : &own;
	st = rlx_runner_specs(r, in, n_in, &s, err);
	if (st)
		return st;
	a = prepared_new(r, s, n_in);
	rlx_free(s);
	if (!a)
		return rlx_runner_no_memory(err);
	pthread_mutex_lock(&r->compiles->lock);
	st = queue(r, a, err);
	if (st)
		prepared_free(r->compiles, a);
	else if (out_point)
		*out_point = a->point;
	pthread_mutex_unlock(&r->compiles->lock);
	return st;
}

static const struct rlx_prepared *find(const struct rlx_runner *r, uint64_t point)
{
	const struct rlx_prepared *a = r->compiles->prepared;

	while (a && (a->owner != r || a->point != point))
		a = a->next;
	return a;
}

enum rlx_status rlx_runner_wait(struct rlx_runner *r, uint64_t point, int64_t timeout_ns,
				struct rlx_error *err)
{
	struct timespec until = rlx_deadline(timeout_ns);
	struct rlx_error own = { 0 }, *e = err ? err : &own;
	const struct rlx_prepared *a;
	struct rlx_compiles *p;
	enum rlx_status st;
	int late = 0;

	if (!r || !point || point > r->prepared)
		return rlx_fail(e, RLX_EINVAL, "wait: rlx_runner_prepare() gave no point %llu here",
				(unsigned long long)point);
	p = r->compiles;
	pthread_mutex_lock(&p->lock);
	while ((a = find(r, point)) && !a->done && !late)
		late = rlx_cond_wait(&p->changed, &p->lock, timeout_ns, &until);
	if (!a) {
		st = rlx_fail(e, RLX_ESTALE, "wait: point %llu gave way to later ones",
			      (unsigned long long)point);
	} else if (!a->done) {
		st = rlx_fail(e, RLX_ETIME, "wait: point %llu is not compiled yet",
			      (unsigned long long)point);
	} else {
		st = a->err.status;
		if (st)
			*e = a->err;
	}
	pthread_mutex_unlock(&p->lock);
	return st;
}

struct rlx_session *rlx_prepared_take(struct rlx_runner *r, const struct rlx_compiled *c)
{
	struct rlx_compiles *p = r->compiles;
	struct rlx_session *s = NULL;
	struct rlx_prepared *a;

	pthread_mutex_lock(&p->lock);
	for (a = p->prepared; a; a = a->next) {
		if (a->owner != r || !a->done || a->c != c)
			continue;
		if (!s) {
			s = a->session;
			a->session = NULL;
		}
		let_go(p, a);
	}
	pthread_mutex_unlock(&p->lock);
	return s;
}

void rlx_prepared_cancel(struct rlx_runner *r)
{
	struct rlx_compiles *p = r->compiles;
	struct rlx_prepared **at, *a;
	bool busy = true;

	pthread_mutex_lock(&p->lock);
	while (busy) {
		busy = false;
		for (at = &p->prepared; (a = *at);) {
			if (a->owner == r && a->begun == a->done) {
				drop(p, at);
				continue;
			}
			busy = busy || a->owner == r;
			at = &a->next;
		}
		if (busy)
			pthread_cond_wait(&p->changed, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
}
