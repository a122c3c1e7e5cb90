// SPDX-License-Identifier: MIT
/*
 * The thread pool. All of a step's hand-over goes through one atomic word, the
 * gate:
 *
 *	bits 63..32 generation  31 open  30 waiter  29..15 want  14..0 inside
 *
 * The owner writes the job, then stores a gate with a new generation, open. A
 * worker that sees a generation new to it enters by compare-and-swap inside+1,
 * takes chunks until there are none, and leaves by inside-1. The owner takes
 * chunks too, closes the gate, and waits for inside to be 0. Only then is the
 * job written again, so who is inside reads a stable one; who comes late finds
 * the gate closed. A worker that missed 2^32 steps takes a new one for old and
 * stays out of it: no harm, as nobody waits for those outside.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/proc.h"
#include "base/thread.h"

#define GATE_OPEN	(1ull << 31)
#define GATE_WAITER	(1ull << 30)
#define GATE_WANT(n)	((uint64_t)(n) << 15)
#define GATE_INSIDE	1ull

enum { MAX_THREADS = 1024, LINE = 64 };

/* How long to spin, in ns; halved per step of a worker's shift. */
enum {
	SPIN_HOT  = 500000,	/* within a run, and the owner at a step's end */
	SPIN_IDLE = 30000,	/* after a run: the next may come at once */
	SPIN_FULL = 1000,	/* more threads than CPUs */
	/* No more: a worker asleep before the next step helps nobody. */
	SHIFT_MAX = 2,
};

struct worker {
	struct rlx_pool	*pool;
	pthread_t	 thread;
	unsigned int	 index;
};

struct rlx_pool {
	/* Read by spinning workers, written once a step. */
	_Alignas(LINE) _Atomic uint64_t	gate;

	/* The job; stable while the gate is open or anyone inside. */
	_Alignas(LINE) rlx_pool_fn	fn;
	void				*ctx;
	uint64_t			 units, grain, chunks;
	_Atomic int			 owner_cpu;	/* where the owner was */

	_Alignas(LINE) _Atomic uint64_t	next;	/* chunk to be taken */

	/* Seldom written. */
	_Alignas(LINE) _Atomic uint32_t	wake;	/* futex of sleeping workers */
	_Atomic uint32_t		 sleepers;
	_Atomic uint32_t		 done;	/* futex of a waiting owner */
	_Atomic bool			 hot, stop;
	_Atomic(const char *)		 owner;	/* address of a thread's me */
	/* Only the owner touches these. */
	unsigned int			 depth;
	bool				 running;

	unsigned int			 size, forks;
	bool				 full;	/* more threads than CPUs */
	struct worker			 worker[];	/* [0] is the caller */
};

/* Its address names the thread. */
static __thread char me;
/* Set in workers: which of whose. */
static __thread const struct worker *self;

/* Counts fork()s on the child's side; a pool of an older count has no threads. */
static _Atomic uint32_t forks;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void on_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, on_fork);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t val)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, val, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Times this thread lost its CPU to another while it wanted it. */
static long preempted(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nivcsw;
}

static uint32_t gate_gen(uint64_t g)
{
	return (uint32_t)(g >> 32);
}

static unsigned int gate_inside(uint64_t g)
{
	return g & 0x7fff;
}

static unsigned int gate_want(uint64_t g)
{
	return (g >> 15) & 0x7fff;
}

static void chunk(const struct rlx_pool *p, uint64_t i, unsigned int index)
{
	uint64_t begin = i * p->grain;
	uint64_t left = p->units - begin;

	p->fn(p->ctx, begin, begin + (left < p->grain ? left : p->grain),
	      index);
}

static void take_chunks(struct rlx_pool *p, unsigned int index)
{
	uint64_t i;

	/* Relaxed: the gate orders the job; this only deals numbers out. */
	while ((i = atomic_fetch_add_explicit(&p->next, 1,
					      memory_order_relaxed)) <
	       p->chunks)
		chunk(p, i, index);
}

/* Enter the gate if it holds a step new to us that still wants help. */
static bool enter(struct rlx_pool *p, uint32_t *seen)
{
	uint64_t g = atomic_load_explicit(&p->gate, memory_order_acquire);

	while (gate_gen(g) != *seen && g & GATE_OPEN) {
		if (gate_inside(g) >= gate_want(g)) {
			*seen = gate_gen(g);
			return false;
		}
		if (atomic_compare_exchange_weak_explicit(
			    &p->gate, &g, g + GATE_INSIDE,
			    memory_order_acquire, memory_order_acquire)) {
			*seen = gate_gen(g);
			return true;
		}
	}
	return false;
}

static void leave(struct rlx_pool *p)
{
	/* Release what we wrote to the owner, who acquires at inside 0. */
	uint64_t g = atomic_fetch_sub_explicit(&p->gate, GATE_INSIDE,
					       memory_order_acq_rel);

	if (gate_inside(g) == 1 && g & GATE_WAITER) {
		atomic_fetch_add(&p->done, 1);
		futex_wake(&p->done, 1);
	}
}

/* Spin till a step can be entered (true), or it lasts too long or ends. */
static bool spin(struct rlx_pool *p, uint32_t *seen, unsigned int shift)
{
	uint64_t start = rlx_now(), limit;
	unsigned int i;

	for (;;) {
		for (i = 0; i < 32; i++) {
			if (enter(p, seen))
				return true;
			rlx_cpu_relax();
		}
		if (atomic_load_explicit(&p->stop, memory_order_relaxed))
			return false;
		limit = atomic_load_explicit(&p->hot, memory_order_relaxed) ?
			SPIN_HOT : SPIN_IDLE;
		limit = p->full ? SPIN_FULL : limit >> shift;
		if (rlx_now() - start > limit)
			return false;
	}
}

/*
 * Sleep until @wake is no longer @seen_wake. We count ourselves as sleeping
 * before looking at the gate, the owner stores the gate before looking at the
 * count, both sequentially consistent: one of us sees the other.
 */
static bool park(struct rlx_pool *p, uint32_t *seen, uint32_t seen_wake)
{
	bool in;

	atomic_fetch_add(&p->sleepers, 1);
	atomic_load(&p->gate);
	in = enter(p, seen);
	if (!in && !atomic_load(&p->stop))
		futex_wait(&p->wake, seen_wake);
	atomic_fetch_sub(&p->sleepers, 1);
	return in;
}

/*
 * A wake-up likes to put a thread on the CPU of who woke it, and on a busy
 * machine nothing moves it off again: then two threads that should work at
 * once take turns. If we find ourselves there, ask for any other CPU, and at
 * once for all of them again, which does not move us back.
 */
static void leave_owner_cpu(struct rlx_pool *p)
{
	int cpu = sched_getcpu();
	cpu_set_t all, rest;

	if (p->full || cpu < 0 || cpu >= CPU_SETSIZE ||
	    cpu != atomic_load_explicit(&p->owner_cpu, memory_order_relaxed))
		return;
	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	rest = all;
	CPU_CLR(cpu, &rest);
	if (!sched_setaffinity(0, sizeof(rest), &rest))
		sched_setaffinity(0, sizeof(all), &all);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct rlx_pool *p = w->pool;
	uint32_t seen = 0, wake;
	unsigned int shift = 0;
	long lost = preempted(), n;
	bool in;

	self = w;
	while (!atomic_load(&p->stop)) {
		/* Read first: a begin from here on keeps us from sleeping. */
		wake = atomic_load(&p->wake);
		in = spin(p, &seen, shift);
		if (!in) {
			/* Others want this CPU: spin less; else more again. */
			n = preempted();
			if (n != lost)
				shift += shift < SHIFT_MAX;
			else
				shift -= shift > 0;
			lost = n;
			in = park(p, &seen, wake);
			if (atomic_load(&p->hot))
				leave_owner_cpu(p);
		}
		if (!in)
			continue;
		take_chunks(p, w->index);
		leave(p);
	}
	return NULL;
}

static void stop_workers(struct rlx_pool *p, unsigned int n)
{
	unsigned int i;

	atomic_store(&p->stop, true);
	atomic_fetch_add(&p->wake, 1);
	futex_wake(&p->wake, INT_MAX);
	for (i = 1; i < n; i++)
		pthread_join(p->worker[i].thread, NULL);
}

static int start_worker(struct worker *w)
{
	char name[16];
	int e = rlx_thread_new(&w->thread, work, w);

	if (!e) {
		snprintf(name, sizeof(name), "rlx/%u", w->index);
		pthread_setname_np(w->thread, name);
	}
	return e;
}

static enum rlx_status pick_size(unsigned int *threads, struct rlx_error *err)
{
	const char *s = getenv("RLX_WORKERS");
	char *end;
	long n;

	if (!*threads && s && *s) {
		n = strtol(s, &end, 10);
		if (*end || n < 1 || n > MAX_THREADS)
			return rlx_fail(err, RLX_EINVAL,
					"RLX_WORKERS=%.40s: want a number from 1 to %d", s,
					MAX_THREADS);
		*threads = (unsigned int)n;
	}
	if (!*threads) {
		*threads = rlx_cpu_allowed();
		if (*threads > MAX_THREADS)
			*threads = MAX_THREADS;
	}
	if (*threads > MAX_THREADS)
		return rlx_fail(err, RLX_EINVAL, "pool of %u threads: at most "
				"%d", *threads, MAX_THREADS);
	return RLX_OK;
}

enum rlx_status rlx_pool_new(unsigned int threads, struct rlx_pool **out,
			     struct rlx_error *err)
{
	struct rlx_pool *p;
	enum rlx_status st;
	unsigned int i;
	size_t bytes;
	int e;

	*out = NULL;
	st = pick_size(&threads, err);
	if (st)
		return st;
	pthread_once(&fork_once, watch_forks);
	bytes = sizeof(*p) + threads * sizeof(p->worker[0]);
	p = rlx_aligned(LINE, bytes);
	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "thread pool: no memory");
	memset(p, 0, bytes);
	p->size = threads;
	p->forks = atomic_load(&forks);
	p->full = threads > rlx_cpu_allowed();
	for (i = 1; i < threads; i++) {
		p->worker[i].pool = p;
		p->worker[i].index = i;
		e = start_worker(&p->worker[i]);
		if (e)
			goto out_stop;
	}
	*out = p;
	return RLX_OK;

out_stop:
	stop_workers(p, i);
	rlx_free(p);
	return rlx_fail(err, RLX_ENOMEM, "thread pool: thread %u of %u: %s; "
			"RLX_WORKERS sets the number", i, threads, strerror(e));
}

static bool dead(const struct rlx_pool *p)
{
	return p->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

void rlx_pool_free(struct rlx_pool *p)
{
	if (!p)
		return;
	if (!dead(p))
		stop_workers(p, p->size);
	rlx_free(p);
}

unsigned int rlx_pool_size(const struct rlx_pool *p)
{
	return p ? p->size : 1;
}

static bool mine(const struct rlx_pool *p)
{
	return atomic_load_explicit(&p->owner, memory_order_relaxed) == &me;
}

bool rlx_pool_begin(struct rlx_pool *p)
{
	const char *none = NULL;

	if (!p || p->size == 1 || dead(p))
		return false;
	if (mine(p)) {
		p->depth++;
		return true;
	}
	if (!atomic_compare_exchange_strong_explicit(&p->owner, &none, &me,
						     memory_order_acquire,
						     memory_order_relaxed))
		return false;
	p->depth = 1;
	atomic_store_explicit(&p->owner_cpu, sched_getcpu(),
			      memory_order_relaxed);
	atomic_store(&p->hot, true);
	atomic_fetch_add(&p->wake, 1);
	if (atomic_load(&p->sleepers))
		futex_wake(&p->wake, INT_MAX);
	return true;
}

void rlx_pool_end(struct rlx_pool *p)
{
	if (!p || p->size == 1 || dead(p) || !mine(p) || --p->depth)
		return;
	atomic_store(&p->hot, false);
	atomic_store_explicit(&p->owner, NULL, memory_order_release);
}

/* Wait until nobody is inside the closed gate. */
static void wait_inside(struct rlx_pool *p)
{
	uint64_t start = 0, g, limit = p->full ? SPIN_FULL : SPIN_HOT;
	unsigned int i = 0;
	uint32_t d;

	for (;;) {
		g = atomic_load_explicit(&p->gate, memory_order_acquire);
		if (!gate_inside(g))
			return;
		rlx_cpu_relax();
		if (++i % 32)
			continue;
		if (!start)
			start = rlx_now();
		if (rlx_now() - start <= limit)
			continue;
		/* Somebody lost its CPU, or has a long chunk: sleep. */
		d = atomic_load(&p->done);
		g = atomic_fetch_or(&p->gate, GATE_WAITER);
		if (gate_inside(g))
			futex_wait(&p->done, d);
	}
}

static void run_inline(rlx_pool_fn fn, void *ctx, uint64_t units,
		       uint64_t grain, unsigned int index)
{
	uint64_t begin, n;

	for (begin = 0; begin < units; begin += n) {
		n = units - begin < grain ? units - begin : grain;
		fn(ctx, begin, begin + n, index);
	}
}

static void run_shared(struct rlx_pool *p, rlx_pool_fn fn, void *ctx,
		       uint64_t units, uint64_t grain)
{
	uint64_t gate = atomic_load_explicit(&p->gate, memory_order_relaxed);
	uint64_t chunks = units / grain + !!(units % grain), want;
	uint32_t gen = gate_gen(gate) + 1;

	p->running = true;
	p->fn = fn;
	p->ctx = ctx;
	p->units = units;
	p->grain = grain;
	p->chunks = chunks;
	atomic_store_explicit(&p->next, 0, memory_order_relaxed);
	atomic_store_explicit(&p->owner_cpu, sched_getcpu(),
			      memory_order_relaxed);
	want = chunks - 1 < p->size - 1 ? chunks - 1 : p->size - 1;
	atomic_store(&p->gate, (uint64_t)gen << 32 | GATE_OPEN |
		     GATE_WANT(want));
	if (atomic_load(&p->sleepers)) {
		atomic_fetch_add(&p->wake, 1);
		futex_wake(&p->wake, (int)want);
	}
	take_chunks(p, 0);
	atomic_fetch_and(&p->gate, ~GATE_OPEN);
	wait_inside(p);
	p->running = false;
}

void rlx_pool_run(struct rlx_pool *p, rlx_pool_fn fn, void *ctx,
		  uint64_t units, uint64_t grain)
{
	unsigned int index = self && self->pool == p ? self->index : 0;

	if (!units)
		return;
	if (!grain)	/* chunks balance threads; one alone has nobody to balance with */
		grain = rlx_pool_size(p) == 1 ? units : units / (4ull * p->size) + 1;
	if (!p || p->size == 1 || units <= grain || dead(p) ||
	    (mine(p) && p->running)) {
		run_inline(fn, ctx, units, grain, index);
		return;
	}
	if (rlx_pool_begin(p)) {
		run_shared(p, fn, ctx, units, grain);
		rlx_pool_end(p);
	} else {
		run_inline(fn, ctx, units, grain, index);
	}
}
