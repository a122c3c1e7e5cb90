/* SPDX-License-Identifier: MIT */
/*
 * The ring and its need_wakeup word (kmod/ring.h, queue.c; uapi rlx_ring): nothing
 * is lost or read before it is written, and nobody sleeps beside work, on a machine
 * that delays stores and lets them pass each other.
 *
 * Memory: each CPU has a buffer of stores. One may reach memory before an earlier
 * one, unless it is a release or goes to the same word. A full barrier waits for an
 * empty buffer. Loads happen where they stand, but for the mutants that say so.
 *
 * FETCH, REAP and parked commands look at the ring once more under the queue's lock
 * when they are known to sleep; then that lock alone orders need_wakeup. Others need
 * the barriers: EPOLL looks at nothing that was not woken, and LOCKLESS, as over a
 * futex, takes no lock at all.
 *
 * right:			the module
 * right: EPOLL
 * right: LOCKLESS
 * right: NO_MB_KERNEL		the lock suffices, for those who take it
 * right: NO_MB_USER
 * right: NO_MB_SLEEP
 * right: NO_PUSH_COMMIT	what found no room is pushed by FETCH
 * right: NO_PUSH_FETCH		or by COMMIT
 * wrong: NO_PUSH_COMMIT NO_PUSH_FETCH
 * wrong: EPOLL NO_MB_KERNEL	need_wakeup is read before tail is in memory
 * wrong: EPOLL NO_MB_USER	tail is read before need_wakeup is in memory
 * wrong: EPOLL WAKE_BEFORE_TAIL
 * wrong: LOCKLESS NO_MB_KERNEL
 * wrong: LOCKLESS NO_MB_USER NO_MB_SLEEP
 * wrong: LOCKLESS WAKE_BEFORE_TAIL
 * wrong: LOCKLESS NO_MB_SLEEP	being on the wait queue is not in memory
 * wrong: LOOK_FIRST		looks before it is on the wait queue
 * wrong: NO_SECOND_LOOK	sleeps without looking
 * wrong: NO_RELEASE_TAIL	tail is a plain store
 * wrong: NO_ACQUIRE_TAIL	an entry is loaded before tail
 * wrong: NO_RELEASE_HEAD	head is stored before the entry was loaded
 */
#ifdef LOCKLESS
#define DEPTH	2		/* slots */
#else
#define DEPTH	3		/* more than the ring holds, as events make it */
#endif
#define RING	2
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef EACH
#define EACH	2		/* requests each */
#endif
#define N	(PRODUCERS * EACH)
#define BUF	6

#define USER	PRODUCERS	/* CPU of the consumer, also within its system calls */

#define TAIL	0
#define HEAD	1
#define NEED	2
#define LOCK	3
#define QUEUED	4		/* the consumer is on the wait queue */
#define ENTRY	5		/* and 6 */
#define WORDS	7

byte mem[WORDS];

typedef store { byte addr, val; bit rel };
typedef buffer { store s[BUF]; byte n };
buffer buf[PRODUCERS + 1];

/* Under the lock: */
byte ktail;			/* the kernel's own tail */
byte nready;			/* READY, not in the ring yet */
byte next_val = 1;		/* number of the next request to be pushed */
byte nfree = DEPTH;		/* slots */

bit asleep;			/* the consumer is not runnable */
bit event;			/* on the ready list of its epoll */

inline STORE(cpu, a, v, release)
{
	d_step {
		buf[cpu].n < BUF ->
		buf[cpu].s[buf[cpu].n].addr = a;
		buf[cpu].s[buf[cpu].n].val = v;
		buf[cpu].s[buf[cpu].n].rel = release;
		buf[cpu].n++;
	}
}

/* Own stores are seen at once: the youngest to that word, else memory. */
inline LOAD(cpu, a, into)
{
	d_step {
		into = mem[a];
		li = 0;
		do
		:: li < buf[cpu].n ->
			if
			:: buf[cpu].s[li].addr == a -> into = buf[cpu].s[li].val
			:: else
			fi;
			li++
		:: else -> break
		od;
		li = 0
	}
}

inline MB(cpu)
{
	buf[cpu].n == 0
}

/* Acquiring is a read-modify-write of memory; releasing a store with release. */
inline SPIN_LOCK()
{
	atomic { mem[LOCK] == 0 -> mem[LOCK] = 1 }
}

inline SPIN_UNLOCK(cpu)
{
	STORE(cpu, LOCK, 0, 1)
}

/* Store @at of @cpu reaches memory, if it may before those in front of it. */
inline DRAIN(cpu, at)
{
	d_step {
		buf[cpu].n > at &&
		(at == 0 || (!buf[cpu].s[at].rel &&
		 buf[cpu].s[0].addr != buf[cpu].s[at].addr &&
		 (at == 1 || buf[cpu].s[1].addr != buf[cpu].s[at].addr))) ->
		mem[buf[cpu].s[at].addr] = buf[cpu].s[at].val;
		di = at;
		do
		:: di + 1 < buf[cpu].n ->
			buf[cpu].s[di].addr = buf[cpu].s[di + 1].addr;
			buf[cpu].s[di].val = buf[cpu].s[di + 1].val;
			buf[cpu].s[di].rel = buf[cpu].s[di + 1].rel;
			di++
		:: else -> break
		od;
		buf[cpu].n--;
		buf[cpu].s[buf[cpu].n].addr = 0;
		buf[cpu].s[buf[cpu].n].val = 0;
		buf[cpu].s[buf[cpu].n].rel = 0;
		di = 0
	}
}

active [PRODUCERS + 1] proctype memory()
{
	byte di;

end:	do
	:: DRAIN(_pid, 0)
	:: DRAIN(_pid, 1)
	:: DRAIN(_pid, 2)
	od
}

/* rlx_queue_push(): lock held. */
inline PUSH(cpu)
{
	LOAD(cpu, HEAD, x);
	assert(ktail - x <= RING);
	pushed = 0;
	do
	:: nready > 0 && ktail - x < RING ->
		STORE(cpu, ENTRY + ktail % RING, next_val, 0);
		d_step { next_val++; ktail++; nready--; pushed = 1 }
	:: else -> break
	od;
	if
	:: pushed ->
#ifdef NO_RELEASE_TAIL
		STORE(cpu, TAIL, ktail, 0)
#else
		STORE(cpu, TAIL, ktail, 1)
#endif
	:: else
	fi;
	x = 0
}

#define CPU	(_pid - PRODUCERS - 1)	/* of a producer */

/* rlx_queue_kick() and what rlx_queue_act() does of it after unlocking. */
active [PRODUCERS] proctype producer()
{
	byte li, x, i = 0;
	bit pushed, wake;

	do
	:: i < EACH ->
		atomic { nfree > 0 -> nfree-- };
		SPIN_LOCK();
		nready++;
#ifdef WAKE_BEFORE_TAIL
		LOAD(CPU, NEED, wake);
#endif
		PUSH(CPU);
#ifndef NO_MB_KERNEL
		MB(CPU);
#endif
#ifndef WAKE_BEFORE_TAIL
		LOAD(CPU, NEED, wake);
#endif
		SPIN_UNLOCK(CPU);
		if
		:: wake ->
			MB(CPU);	/* wq_has_sleeper() */
			LOAD(CPU, QUEUED, x);
			if
			:: x -> asleep = 0; event = 1
			:: else
			fi
		:: else
		fi;
		d_step { i++; wake = 0; pushed = 0; x = 0 }
	:: else -> break
	od
}

/* What a sleeper looks at. */
inline LOOK()
{
#ifdef LOCKLESS
	LOAD(USER, TAIL, x);
	more = x != head;
#else
	SPIN_LOCK();
#ifndef NO_PUSH_FETCH
	PUSH(USER);
#endif
	LOAD(USER, HEAD, x);
	more = ktail != x;
	SPIN_UNLOCK(USER);
#endif
#ifdef NO_SECOND_LOOK
	more = 0;
#endif
}

/* FETCH with min 1: rlx_sleep() on the queue until the ring is not empty. */
inline SLEEP()
{
	do
	:: true ->
#ifdef LOOK_FIRST
		LOOK();
#endif
		STORE(USER, QUEUED, 1, 0);
		asleep = 1;
#ifndef NO_MB_SLEEP
		MB(USER);		/* set_current_state() */
#endif
#ifndef LOOK_FIRST
		LOOK();
#endif
		if
		:: more -> break
		:: else -> !asleep	/* schedule() */
		fi
#ifdef NO_SECOND_LOOK
		; break
#endif
	od;
	skip;
	STORE(USER, QUEUED, 0, 0)
}

/* epoll_wait(): what was not woken is not looked at. */
inline WAIT_EPOLL()
{
	do
	:: event ->
		event = 0;
		LOOK();		/* ->poll() */
		if
		:: more -> event = 1; break
		:: else
		fi
	od
}

active proctype consumer()
{
	byte li, x, t, v, head = 0;
	bit pushed, more;

#ifdef EPOLL
	mem[QUEUED] = 1;	/* since EPOLL_CTL_ADD */
#endif
	do
	:: head == N -> break
	:: else ->
#ifdef NO_ACQUIRE_TAIL
		LOAD(USER, ENTRY + head % RING, v);
#endif
		LOAD(USER, TAIL, t);
		if
		:: t != head ->
#ifdef NO_RELEASE_HEAD
			STORE(USER, HEAD, head + 1, 1);
			LOAD(USER, ENTRY + head % RING, v);
			head++;
#else
#ifndef NO_ACQUIRE_TAIL
			LOAD(USER, ENTRY + head % RING, v);
#endif
			head++;
			STORE(USER, HEAD, head, 1);
#endif
			/* In order, each once, none before it was written. */
			assert(v == head);
			d_step { v = 0; t = 0 };
			/* COMMIT: the slot is free, and there is room. */
			SPIN_LOCK();
			nfree++;
#ifndef NO_PUSH_COMMIT
			PUSH(USER);
#endif
			SPIN_UNLOCK(USER)
		:: else ->
			STORE(USER, NEED, 1, 0);
#ifndef NO_MB_USER
			MB(USER);
#endif
#ifndef NO_SECOND_LOOK
			LOAD(USER, TAIL, t);
#endif
			if
			:: t != head
#ifdef EPOLL
			:: else -> WAIT_EPOLL(); more = 0
#else
			:: else -> SLEEP(); asleep = 0; more = 0
#endif
			fi;
			STORE(USER, NEED, 0, 0);
			d_step { t = 0; x = 0 }
		fi
	od;
	assert(nready == 0)
}
