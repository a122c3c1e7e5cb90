/* SPDX-License-Identifier: MIT */
/*
 * Parked FETCH commands (kmod/uring.c, queue.c) of two rings: a fetcher is on the
 * queue's list, or claimed by one who sees to its end. Requests come, another thread
 * steals them, tasks run their task work late, one dies and its ring cancels.
 *
 * Each command is completed once and touched by nobody afterwards, none stays when
 * its ring has gone, and never does a request lie ready beside one that is parked
 * with nobody on the way to it.
 *
 * right:
 * wrong: PARK_BLIND		parks without looking once more under the lock
 * wrong: KEEP_LISTED		woken, but left on the list
 * wrong: NO_PASS_ON		who was woken and ends leaves the rest to nobody
 * wrong: CANCEL_CLAIMED	cancel does not ask who has claimed it
 * wrong: CANCEL_WAKES_NOT	cancel leaves what it could not claim, and task work
 *				of a dead task is dropped
 * wrong: PARK_LATE		on the list only after unlocking
 */
#define REQUESTS	3
#define AGAIN		2	/* commands a ring issues */

mtype = { NEW, LISTED, CLAIMED };

/*
 * Fetchers 0 and 1 are of the first ring, 2 of the second, whose task never dies.
 * Under the queue's lock, that is atomic { }:
 */
byte ready;
mtype at[3] = NEW;

bit marked[3];			/* on the ring's list of cancelable commands */
bit queued[3];			/* task work */
bit dead;			/* the first task; its task work runs elsewhere, told so */
bit uring_lock[2];

#define FREE(f)	(at[f] == NEW && !marked[f])

inline LOCK_RING(r)   { atomic { !uring_lock[r] -> uring_lock[r] = 1 } }
inline UNLOCK_RING(r) { uring_lock[r] = 0 }

/* rlx_queue_kick(): within atomic. @woken is posted after it. */
inline KICK()
{
	if
	:: ready && at[0] == LISTED -> woken = 1
	:: ready && at[1] == LISTED -> woken = 2
	:: ready && at[2] == LISTED -> woken = 3
	:: !ready || (at[0] != LISTED && at[1] != LISTED && at[2] != LISTED) -> woken = 0
	fi;
#ifndef KEEP_LISTED
	if
	:: woken -> at[woken - 1] = CLAIMED
	:: else
	fi
#endif
}

inline POST()
{
	if
	:: woken -> atomic {
		assert(marked[woken - 1] && !queued[woken - 1]);
		queued[woken - 1] = 1;
		woken = 0
	   }
	:: else
	fi
}

/* rlx_fetcher_end(): claimed, uring_lock held. */
inline END(f)
{
#ifndef NO_PASS_ON
	atomic { KICK() };
	POST();
#endif
	atomic {
		assert(marked[f] && !queued[f] && at[f] == CLAIMED);
		marked[f] = 0;
		at[f] = NEW
	}
}

/* rlx_fetcher_try(): takes and ends, or parks. */
inline TRY(f)
{
	do
	:: atomic {
		if
		:: ready -> ready--; got = 1
		:: else
		fi
	   };
	   if
	   :: got -> END(f); break
	   :: else
	   fi;
#ifdef PARK_BLIND
	   at[f] = LISTED;
	   break
#else
	   atomic {
		if
#ifdef PARK_LATE
		:: !ready -> got = 1
#else
		:: !ready -> at[f] = LISTED; got = 1
#endif
		:: else
		fi
	   };
	   if
	   :: got ->
#ifdef PARK_LATE
		at[f] = LISTED;
#endif
		break
	   :: else
	   fi
#endif
	od;
	got = 0
}

/* The task of a ring: issues, runs its task work, and the first may die. */
proctype task(byte r)
{
	byte f, woken, issued;
	bit got, mortal;

	if
	:: r == 0 -> mortal = 1
	:: true
	fi;
end:	do
	:: r == 0 && issued < AGAIN && (FREE(0) || FREE(1)) ->
		LOCK_RING(r);
		if
		:: FREE(0) -> f = 0
		:: !FREE(0) -> f = 1
		fi;
		atomic { issued++; marked[f] = 1; at[f] = CLAIMED };
		TRY(f);
		UNLOCK_RING(r)
	:: r == 1 && issued < AGAIN && FREE(2) ->
		LOCK_RING(r);
		f = 2;
		atomic { issued++; marked[f] = 1; at[f] = CLAIMED };
		TRY(f);
		UNLOCK_RING(r)
	:: r == 0 && (queued[0] || queued[1]) ->
		LOCK_RING(r);
		if
		:: queued[0] -> f = 0
		:: queued[1] -> f = 1
		fi;
		queued[f] = 0;
		TRY(f);
		UNLOCK_RING(r)
	:: r == 1 && queued[2] ->
		LOCK_RING(r);
		f = 2;
		queued[f] = 0;
		TRY(f);
		UNLOCK_RING(r)
	:: mortal -> dead = 1; break
	od
}

init
{
	atomic { run task(0); run task(1) }
}

/* Runs the dead one's task work: a command that will not be taken for. */
active proctype fallback()
{
	byte f, woken;

end:	do
	:: dead && (queued[0] || queued[1]) ->
		LOCK_RING(0);
		if
		:: queued[0] -> f = 0
		:: queued[1] -> f = 1
		fi;
		queued[f] = 0;
#ifndef CANCEL_WAKES_NOT
		END(f);
#endif
		UNLOCK_RING(0)
	od
}

/* The teardown of the ring, from a worker. */
active proctype cancel()
{
	byte f = 0, woken;
	bit mine;

end:	dead;
	do
	:: f < 2 ->
		LOCK_RING(0);
		if
		:: marked[f] ->
			atomic {
				mine = at[f] == LISTED;
#ifdef CANCEL_CLAIMED
				mine = 1;
#endif
				if
				:: mine -> at[f] = CLAIMED
				:: else
				fi
			};
			if
			:: mine -> END(f)
			:: else		/* task work is on its way */
			fi
		:: else
		fi;
		UNLOCK_RING(0);
		mine = 0;
		f++
	:: else -> break
	od
}

active proctype clients()
{
	byte woken, i;

	do
	:: i < REQUESTS ->
		atomic { ready++; KICK() };
		POST();
		i++
	:: else -> break
	od
}

/* FETCH by ioctl, from another thread. */
active proctype thief()
{
	if
	:: atomic { ready -> ready-- }
	:: true
	fi
}

active proctype watch()
{
	timeout;
	assert(!(ready && (at[0] == LISTED || at[1] == LISTED || at[2] == LISTED)));
	assert(!dead || (!marked[0] && !marked[1]))
}
