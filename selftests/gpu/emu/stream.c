// SPDX-License-Identifier: MIT
// Streams: each has a thread that takes its tasks in order; events tie them.
#include "emu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct emu_event {
	uint64_t	asked, reached;	/* records submitted, done */
	struct timespec	when;
	bool		timing;
	int		refs;	/* the owner's, and of each task */
	/* recorded in a capture: what a waiting stream depends on */
	struct emu_graph *graph;
	struct emu_task	*node;
};

struct emu_stream {
	struct emu_stream *next;
	int		device;
	pthread_t	thread;
	pthread_cond_t	wake;
	struct emu_task	*first, **last;
	bool		busy, stop;
	/* capture */
	struct emu_graph *graph;	/* of this stream's or a joined one's */
	struct emu_task	**tail;		/* what the next node comes after */
	int		n_tail;
	bool		origin, invalid;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;	/* something ended */
static struct emu_stream *streams, *null_stream;

/* ---- tasks ---- */

static bool has_event(const struct emu_task *t)
{
	return t->kind == EMU_TASK_RECORD || t->kind == EMU_TASK_WAIT;
}

static void event_put(struct emu_event *e)
{
	if (!__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL))
		free(e);
}

struct emu_task *emu_task_copy(const struct emu_task *t)
{
	struct emu_task *n = malloc(sizeof(*n));

	if (!n)
		return NULL;
	*n = *t;
	n->next = NULL;
	n->dep = NULL;
	n->n_dep = 0;
	if (t->kind == EMU_TASK_GRAPH)
		emu_exec_hold(t->exec);
	if (has_event(t))
		__atomic_add_fetch(&t->event.event->refs, 1, __ATOMIC_RELAXED);
	if (t->kind == EMU_TASK_KERNEL) {
		const unsigned int *size = t->launch.kernel->size;
		size_t bytes = 0, at = 0;

		for (int i = 0; size[i]; i++)
			bytes += (size[i] + 15) / 16 * 16;
		n->launch.store = aligned_alloc(16, bytes ? bytes : 16);
		if (!n->launch.store) {
			free(n);
			return NULL;
		}
		for (int i = 0; size[i]; i++) {
			n->launch.params[i] = (char *)n->launch.store + at;
			memcpy(n->launch.params[i], t->launch.params[i], size[i]);
			at += (size[i] + 15) / 16 * 16;
		}
	}
	return n;
}

void emu_task_free(struct emu_task *t)
{
	if (!t)
		return;
	if (t->kind == EMU_TASK_KERNEL)
		free(t->launch.store);
	if (t->kind == EMU_TASK_GRAPH)
		emu_exec_put(t->exec);
	if (has_event(t))
		event_put(t->event.event);
	free(t->dep);
	free(t);
}

static int check_range(const void *p, uint64_t n, const char *what)
{
	if (!emu_mem_reserved(p) || emu_mem_device(p, n, -1))
		return 0;
	emu_complain("%s of %llu bytes at %p leaves its allocation", what,
		     (unsigned long long)n, p);
	return EMU_ILLEGAL_ADDRESS;
}

static int copy_run(struct emu_task *t)
{
	int err = check_range(t->copy.dst, t->copy.n, "a copy");

	if (!err)
		err = check_range(t->copy.src, t->copy.n, "a copy");
	if (err)
		return err;
	emu_mem_open();
	memcpy(t->copy.dst, t->copy.src, t->copy.n);
	emu_mem_close();
	return 0;
}

static int set_run(struct emu_task *t)
{
	uint64_t n = t->set.n;
	int err = check_range(t->set.dst, n * (uint64_t)t->set.size, "a memset");

	if (err)
		return err;
	emu_mem_open();
	for (uint64_t i = 0; i < n && t->set.size == 4; i++)
		((uint32_t *)t->set.dst)[i] = t->set.value;
	for (uint64_t i = 0; i < n && t->set.size == 2; i++)
		((uint16_t *)t->set.dst)[i] = (uint16_t)t->set.value;
	if (t->set.size == 1)
		memset(t->set.dst, (int)t->set.value, n);
	emu_mem_close();
	return 0;
}

static void record_run(struct emu_task *t)
{
	struct emu_event *e = t->event.event;

	pthread_mutex_lock(&lock);
	if (t->event.seq > e->reached) {
		e->reached = t->event.seq;
		clock_gettime(CLOCK_MONOTONIC, &e->when);
	}
	pthread_cond_broadcast(&moved);
	pthread_mutex_unlock(&lock);
}

static void wait_run(struct emu_task *t)
{
	pthread_mutex_lock(&lock);
	while (t->event.event->reached < t->event.seq)
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
}

int emu_task_run(struct emu_task *t)
{
	switch (t->kind) {
	case EMU_TASK_KERNEL:
		return emu_run_grid(&t->launch);
	case EMU_TASK_COPY:
		return copy_run(t);
	case EMU_TASK_SET:
		return set_run(t);
	case EMU_TASK_HOST:
		t->host.fn(t->host.arg);
		return 0;
	case EMU_TASK_RECORD:
		record_run(t);
		return 0;
	case EMU_TASK_WAIT:
		wait_run(t);
		return 0;
	case EMU_TASK_GRAPH:
		return emu_exec_run(t->exec);
	default:
		return 0;
	}
}

static int broken;	/* what a task met; set once */

static void *stream_main(void *arg)
{
	struct emu_stream *s = arg;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct emu_task *t = s->first;
		int err = 0;

		if (!t) {
			if (s->stop)
				break;
			pthread_cond_wait(&s->wake, &lock);
			continue;
		}
		s->first = t->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = true;
		/* a broken device still lets events pass, so that waiters end */
		if (!broken || t->kind == EMU_TASK_RECORD || t->kind == EMU_TASK_WAIT) {
			pthread_mutex_unlock(&lock);
			err = emu_task_run(t);
			if (err)
				emu_break(err);
			pthread_mutex_lock(&lock);
		}
		if (err && !broken)
			broken = err;
		s->busy = false;
		pthread_cond_broadcast(&moved);
		pthread_mutex_unlock(&lock);
		emu_task_free(t);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static struct emu_stream *stream_new(void)
{
	struct emu_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->last = &s->first;
	pthread_cond_init(&s->wake, NULL);
	pthread_mutex_lock(&lock);
	if (pthread_create(&s->thread, NULL, stream_main, s)) {
		pthread_mutex_unlock(&lock);
		free(s);
		return NULL;
	}
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&lock);
	return s;
}

struct emu_stream *emu_stream_null(void)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&once);
	if (!null_stream)
		null_stream = stream_new();
	pthread_mutex_unlock(&once);
	return null_stream;
}

int emu_stream_device(const struct emu_stream *s)
{
	return (uintptr_t)s <= 2 ? emu_device() : s->device;
}

static struct emu_stream *stream_of(struct emu_stream *s)
{
	/* 1: legacy, 2: per thread */
	return (uintptr_t)s <= 2 ? emu_stream_null() : s;
}

static int tail_set(struct emu_stream *s, struct emu_task **t, int n, bool add)
{
	int old = add ? s->n_tail : 0;
	struct emu_task **p = realloc(s->tail, (size_t)(old + n + 1) * sizeof(*p));

	if (!p)
		return EMU_OUT_OF_MEMORY;
	s->tail = p;
	memcpy(p + old, t, (size_t)n * sizeof(*p));
	s->n_tail = old + n;
	return 0;
}

static int capture(struct emu_stream *s, const struct emu_task *t)
{
	struct emu_event *e = t->event.event;
	struct emu_task *n;

	if (s->invalid)
		return EMU_CAPTURE_INVALIDATED;
	if (t->kind == EMU_TASK_WAIT)
		return e->graph == s->graph ? tail_set(s, &e->node, 1, true) :
					      EMU_CAPTURE_UNSUPPORTED;
	if (t->kind == EMU_TASK_GRAPH)
		return EMU_CAPTURE_UNSUPPORTED;
	if (t->kind == EMU_TASK_RECORD) {
		struct emu_task empty = { .kind = EMU_TASK_EMPTY };

		n = emu_graph_add(s->graph, &empty, s->tail, s->n_tail);
		e->graph = s->graph;
		e->node = n;
	} else {
		n = emu_graph_add(s->graph, t, s->tail, s->n_tail);
	}
	return n ? tail_set(s, &n, 1, false) : EMU_OUT_OF_MEMORY;
}

int emu_submit(struct emu_stream *s, const struct emu_task *t)
{
	struct emu_task *n;

	s = stream_of(s);
	if (!s)
		return EMU_OUT_OF_MEMORY;
	/* a wait on a capturing stream's event draws this stream into the capture */
	if (!s->graph && t->kind == EMU_TASK_WAIT && t->event.event->graph) {
		s->graph = t->event.event->graph;
		return tail_set(s, &t->event.event->node, 1, false);
	}
	if (s->graph)
		return capture(s, t);
	n = emu_task_copy(t);
	if (!n)
		return EMU_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	*s->last = n;
	s->last = &n->next;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---- calls ---- */

int emu_stream_sync(struct emu_stream *s)
{
	s = stream_of(s);
	if (!s)
		return EMU_OUT_OF_MEMORY;
	if (s->graph)
		return EMU_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	while (s->first || s->busy)
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
	return broken;
}

int emu_sync_all(void)
{
	pthread_mutex_lock(&lock);
	for (struct emu_stream *s = streams; s; s = s->next)
		while (s->first || s->busy)
			pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
	return broken;
}

EMU_API int cuStreamCreate(struct emu_stream **out, unsigned int flags);
EMU_API int cuStreamCreate(struct emu_stream **out, unsigned int flags)
{
	int err = emu_enter("cuStreamCreate");

	if (err)
		return err;
	if (!out || flags > 1)
		return EMU_INVALID_VALUE;
	if (emu_device() < 0)
		return EMU_INVALID_CONTEXT;
	*out = stream_new();
	if (!*out)
		return EMU_OUT_OF_MEMORY;
	(*out)->device = emu_device();
	emu_count(EMU_STREAM, 1);
	return 0;
}

EMU_API int cuStreamCreateWithPriority(struct emu_stream **out, unsigned int flags,
				       int priority);
EMU_API int cuStreamCreateWithPriority(struct emu_stream **out, unsigned int flags,
				       int priority)
{
	return cuStreamCreate(out, flags);
}

EMU_API int cuStreamDestroy_v2(struct emu_stream *s);
EMU_API int cuStreamDestroy_v2(struct emu_stream *s)
{
	int err = emu_enter("cuStreamDestroy");

	if ((uintptr_t)s <= 2)
		return EMU_INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	for (struct emu_stream **p = &streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&lock);
	pthread_join(s->thread, NULL);
	if (s->origin)
		emu_graph_put(s->graph);
	free(s->tail);
	free(s);
	emu_count(EMU_STREAM, -1);
	return err;
}

EMU_API int cuStreamSynchronize(struct emu_stream *s);
EMU_API int cuStreamSynchronize(struct emu_stream *s)
{
	int err = emu_enter("cuStreamSynchronize");

	return err ? err : emu_stream_sync(s);
}

EMU_API int cuStreamQuery(struct emu_stream *s);
EMU_API int cuStreamQuery(struct emu_stream *s)
{
	int err = emu_enter("cuStreamQuery");
	bool idle;

	if (err)
		return err;
	s = stream_of(s);
	pthread_mutex_lock(&lock);
	idle = !s->first && !s->busy;
	pthread_mutex_unlock(&lock);
	return idle ? broken : EMU_NOT_READY;
}

EMU_API int cuStreamBeginCapture_v2(struct emu_stream *s, int mode);
EMU_API int cuStreamBeginCapture_v2(struct emu_stream *s, int mode)
{
	int err = emu_enter("cuStreamBeginCapture");

	if (err)
		return err;
	if ((uintptr_t)s <= 2 || mode < 0 || mode > 2 || s->graph)
		return EMU_INVALID_VALUE;
	s->graph = emu_graph_new();
	s->origin = true;
	s->n_tail = 0;
	s->invalid = false;
	return s->graph ? 0 : EMU_OUT_OF_MEMORY;
}

EMU_API int cuStreamEndCapture(struct emu_stream *s, struct emu_graph **out);
EMU_API int cuStreamEndCapture(struct emu_stream *s, struct emu_graph **out)
{
	int err = emu_enter("cuStreamEndCapture");
	struct emu_graph *g = s->graph;

	if (!g || !s->origin)
		return EMU_INVALID_VALUE;
	emu_graph_mark(g, s->tail, s->n_tail);
	/* streams drawn in must have come back: what we end with is behind their last nodes */
	pthread_mutex_lock(&lock);
	for (struct emu_stream *o = streams; o; o = o->next) {
		if (o == s || o->graph != g)
			continue;
		for (int i = 0; i < o->n_tail && !err; i++)
			if (!o->tail[i]->done)
				err = EMU_CAPTURE_UNJOINED;
		o->graph = NULL;
		o->n_tail = 0;
	}
	pthread_mutex_unlock(&lock);
	s->graph = NULL;
	s->origin = false;
	if (s->invalid && !err)
		err = EMU_CAPTURE_INVALIDATED;
	if (err) {
		emu_graph_put(g);
		*out = NULL;
		return err;
	}
	*out = g;
	return 0;
}

EMU_API int cuStreamIsCapturing(struct emu_stream *s, int *out);
EMU_API int cuStreamIsCapturing(struct emu_stream *s, int *out)
{
	int err = emu_enter("cuStreamIsCapturing");

	if (!err)
		*out = (uintptr_t)s > 2 && s->graph ? 1 + s->invalid : 0;
	return err;
}

EMU_API int cuStreamWaitEvent(struct emu_stream *s, struct emu_event *e,
			      unsigned int flags);
EMU_API int cuStreamWaitEvent(struct emu_stream *s, struct emu_event *e,
			      unsigned int flags)
{
	int err = emu_enter("cuStreamWaitEvent");

	if (err)
		return err;
	return emu_submit(s, &(struct emu_task){ .kind = EMU_TASK_WAIT,
						 .event = { e, e->asked } });
}

EMU_API int cuLaunchHostFunc(struct emu_stream *s, void (*fn)(void *), void *arg);
EMU_API int cuLaunchHostFunc(struct emu_stream *s, void (*fn)(void *), void *arg)
{
	int err = emu_enter("cuLaunchHostFunc");

	if (err)
		return err;
	return emu_submit(s, &(struct emu_task){ .kind = EMU_TASK_HOST,
						 .host = { fn, arg } });
}

EMU_API int cuEventCreate(struct emu_event **out, unsigned int flags);
EMU_API int cuEventCreate(struct emu_event **out, unsigned int flags)
{
	int err = emu_enter("cuEventCreate");

	if (err)
		return err;
	if (emu_device() < 0)
		return EMU_INVALID_CONTEXT;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return EMU_OUT_OF_MEMORY;
	(*out)->timing = !(flags & 2);
	(*out)->refs = 1;
	emu_count(EMU_EVENT, 1);
	return 0;
}

EMU_API int cuEventRecord(struct emu_event *e, struct emu_stream *s);
EMU_API int cuEventRecord(struct emu_event *e, struct emu_stream *s)
{
	int err = emu_enter("cuEventRecord");
	struct emu_stream *of = stream_of(s);

	if (err)
		return err;
	if (of && !of->graph) {
		e->graph = NULL;
		e->asked++;
	}
	return emu_submit(s, &(struct emu_task){ .kind = EMU_TASK_RECORD,
						 .event = { e, e->asked } });
}

EMU_API int cuEventSynchronize(struct emu_event *e);
EMU_API int cuEventSynchronize(struct emu_event *e)
{
	int err = emu_enter("cuEventSynchronize");

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	while (e->reached < e->asked)
		pthread_cond_wait(&moved, &lock);
	pthread_mutex_unlock(&lock);
	return broken;
}

EMU_API int cuEventQuery(struct emu_event *e);
EMU_API int cuEventQuery(struct emu_event *e)
{
	int err = emu_enter("cuEventQuery");
	bool there;

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	there = e->reached >= e->asked;
	pthread_mutex_unlock(&lock);
	return there ? broken : EMU_NOT_READY;
}

EMU_API int cuEventElapsedTime(float *ms, struct emu_event *a, struct emu_event *b);
EMU_API int cuEventElapsedTime(float *ms, struct emu_event *a, struct emu_event *b)
{
	int err = emu_enter("cuEventElapsedTime");

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	if (!a->timing || !b->timing || !a->asked || !b->asked)
		err = EMU_INVALID_HANDLE;
	else if (a->reached < a->asked || b->reached < b->asked)
		err = EMU_NOT_READY;
	else
		*ms = (float)((double)(b->when.tv_sec - a->when.tv_sec) * 1e3 +
			      (double)(b->when.tv_nsec - a->when.tv_nsec) * 1e-6);
	pthread_mutex_unlock(&lock);
	return err;
}

EMU_API int cuEventElapsedTime_v2(float *ms, struct emu_event *a, struct emu_event *b);
EMU_API int cuEventElapsedTime_v2(float *ms, struct emu_event *a, struct emu_event *b)
{
	return cuEventElapsedTime(ms, a, b);
}

/* What is to come of it on a stream goes on without its owner, who waits for nothing. */
EMU_API int cuEventDestroy_v2(struct emu_event *e);
EMU_API int cuEventDestroy_v2(struct emu_event *e)
{
	int err = emu_enter("cuEventDestroy");

	event_put(e);
	emu_count(EMU_EVENT, -1);
	return err;
}
