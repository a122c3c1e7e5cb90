// SPDX-License-Identifier: MIT
/*
 * Runs written down, see trace.h. The file is JSON after every run: what closes the
 * list is written each time, and overwritten by what comes next.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/log.h"
#include "ir/graph.h"
#include "rt/trace.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* guards the file */
static struct {
	FILE			*f;
	struct rlx_json_writer	 w;
	pid_t			 pid;		/* the file's; not that of its children */
	int			 (*push)(const char *text), (*pop)(void);
} trace;

/*
 * The library that toolkits bring for callers without NVTX's headers: of CUDA 13, and
 * of those before. It hands the ranges to the profiler that started this process.
 */
static void find_nvtx(void)
{
	static const char *const names[] = { "libnvtx3interop.so.1", "libnvToolsExt.so.1" };
	void *lib = NULL, *push, *pop;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names) && !lib; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	push = lib ? dlsym(lib, "nvtxRangePushA") : NULL;
	pop = lib ? dlsym(lib, "nvtxRangePop") : NULL;
	if (!push || !pop) {
		rlx_log(RLX_LOG_WARN, "RLX_TRACE=nvtx: there is neither %s nor %s", names[0],
			names[1]);
		return;
	}
	memcpy(&trace.push, &push, sizeof(push));
	memcpy(&trace.pop, &pop, sizeof(pop));
}

static void start(void)
{
	const char *path = secure_getenv("RLX_TRACE");	/* it names a file to write */
	int fd;

	if (!path || !*path)
		return;
	if (!strcmp(path, "nvtx")) {
		find_nvtx();
		return;
	}
	/* not blocking: a FIFO's reader may never come, and here runs wait */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	trace.f = fd < 0 || lseek(fd, 0, SEEK_CUR) < 0 ? NULL : fdopen(fd, "w");
	if (!trace.f) {
		rlx_log(RLX_LOG_WARN, "RLX_TRACE: %.300s cannot be written: %m", path);
		if (fd >= 0)
			close(fd);
		return;
	}
	trace.pid = getpid();
	rlx_json_writer_begin(&trace.w, trace.f, false);
	rlx_json_put_begin(&trace.w, '[');
}

bool rlx_trace_on(void)
{
	pthread_once(&once, start);
	return trace.push || trace.f;
}

/* Open an event of @ns nanoseconds; times are in microseconds. */
static void begin_event(const char *name, const char *kind, uint64_t from, uint64_t ns)
{
	struct rlx_json_writer *w = &trace.w;

	rlx_json_put_begin(w, '{');
	rlx_json_put_key(w, "name");
	rlx_json_put_str(w, name);
	rlx_json_put_key(w, "cat");
	rlx_json_put_str(w, kind);
	rlx_json_put_key(w, "ph");
	rlx_json_put_str(w, "X");
	rlx_json_put_key(w, "pid");
	rlx_json_put_int(w, trace.pid);
	rlx_json_put_key(w, "tid");
	rlx_json_put_int(w, syscall(SYS_gettid));
	rlx_json_put_key(w, "ts");
	rlx_json_put_double(w, (double)from * 1e-3);
	rlx_json_put_key(w, "dur");
	rlx_json_put_double(w, (double)ns * 1e-3);
	rlx_json_put_key(w, "args");
	rlx_json_put_begin(w, '{');
}

static void end_event(void)
{
	rlx_json_put_end(&trace.w);
	rlx_json_put_end(&trace.w);
}

/* Close the list, for whoever reads it now, and go back. The lock is held. */
static void flush(void)
{
	long at = ftell(trace.f);

	fputs("]\n", trace.f);
	if (fflush(trace.f) || at < 0 || fseek(trace.f, at, SEEK_SET))
		trace.pid = 0;	/* no more: the disk is full */
}

static void put_step(const struct rlx_plan *p, uint32_t i, uint64_t from, uint64_t ns)
{
	const struct rlx_plan_step *st = &p->step[i];
	char type[96];

	begin_event(st->def ? st->def->name : "copy", "step", from, ns);
	rlx_json_put_key(&trace.w, "step");
	rlx_json_put_int(&trace.w, i);
	if (st->n_out && st->out[0]) {
		rlx_type_print(&p->val[st->out[0]].type, type, sizeof(type));
		rlx_json_put_key(&trace.w, "type");
		rlx_json_put_str(&trace.w, type);
	}
	if (st->file) {
		rlx_json_put_key(&trace.w, "file");
		rlx_json_put_str(&trace.w, st->file);
		rlx_json_put_key(&trace.w, "line");
		rlx_json_put_int(&trace.w, st->line);
	}
	end_event();
}

/* The run, and in it one step behind the other: when each began is not known. */
static void put_run(const struct rlx_session *s, const uint64_t *ns, uint64_t from)
{
	const struct rlx_plan *p = s->p->plan;
	uint64_t to = rlx_now();
	uint32_t i;

	pthread_mutex_lock(&lock);
	if (trace.pid == getpid()) {
		begin_event(s->p->g->name, s->p->dev->name, from, to - from);
		end_event();
		for (i = 0; i < p->n_step; i++) {
			if (s->exec->skip && s->exec->skip[i])
				continue;
			put_step(p, i, from, ns[i]);
			from += ns[i];
		}
		flush();
	}
	pthread_mutex_unlock(&lock);
}

enum rlx_status rlx_trace_run(struct rlx_session *s)
{
	uint64_t from = rlx_now(), *ns = NULL;
	enum rlx_status st;

	if (trace.push)
		trace.push(s->p->g->name);
	if (trace.f && !s->exec->step_ns)	/* else somebody else takes the times */
		ns = rlx_calloc(s->p->plan->n_step + 1u, sizeof(*ns));
	if (ns)
		s->exec->step_ns = ns;
	st = rlx_exec_run(s->exec);
	if (ns) {
		s->exec->step_ns = NULL;
		if (!st)
			put_run(s, ns, from);
		rlx_free(ns);
	}
	if (trace.push)
		trace.pop();
	return st;
}

void rlx_trace_compile(const struct rlx_program *p, uint64_t from)
{
	char name[120];

	pthread_mutex_lock(&lock);
	if (trace.f && trace.pid == getpid()) {
		snprintf(name, sizeof(name), "compile %.100s", p->g->name);
		begin_event(name, p->dev->name, from, rlx_now() - from);
		end_event();
		flush();
	}
	pthread_mutex_unlock(&lock);
}
