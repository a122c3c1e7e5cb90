/* SPDX-License-Identifier: MIT */
/*
 * One slot (kmod/slot.c) and all who may end its request at the same time: commit,
 * the cancel callback of a dying ring, the client's cancel, the deadline, the death
 * of the client, of the executor, of the service; fetches that cannot be delivered.
 *
 * The client submits a request with a command parked and one with or without, then
 * dies at any moment. Each command is completed once, with its own request's result; no
 * generation commits after its death; the client's memory is leased while a living
 * executor works on it; the slot comes home and the channel is told so once.
 *
 * What stands in atomic { } is under the queue's lock; what a record asks for is
 * done after it.
 *
 * right:			(in RECOVER_REQUEUE)
 * right: FAIL			(in RECOVER_FAIL)
 * right: GONE			the service ends with its executor
 * wrong: CLAIM_KEEPS		the pointer is read, not taken
 * wrong: CLAIM_LATE		and cleared only after unlocking
 * wrong: NO_SEQ		commit takes any generation of the slot
 * wrong: NO_STATE		commit takes what was not delivered
 * wrong: NO_GENERATION		commit is taken from the dead
 * wrong: NO_GENERATION FAIL
 * wrong: UNDELIVER_ANY		undeliver asks for no generation
 * wrong: DEADLINE_ALWAYS	a deadline ends what an executor works on
 * wrong: FREE_DELIVERED	the client's death frees what an executor works on
 * wrong: CANCEL_ANY_SEQ	the dying ring takes whatever command stands there
 * wrong: EARLY_ATTACH		the next generation comes before the dead is buried
 * wrong: LEAK_ORPHAN		the death of the executor forgets orphans
 */
#if defined(FAIL) || defined(GONE)
#define REQUEUE	0
#else
#define REQUEUE	1
#endif

mtype = { FREE, WAITING, READY, DELIVERED, ORPHAN, DONE, POOL };

#define CANCELED	100	/* results; an executor's is the seq it worked on */
#define EXPIRED		101
#define DEAD		102
#define POISONED	103

/* The slot. */
mtype state = FREE;
byte seq;			/* of its request: 1, 2 */
byte cmd;			/* parked command: number of its request, or 0 */
byte sgen;			/* delivered to */
bit lease;
/* Its lane and queue. */
bit shut, live = 1, gone;
byte gen = 1;

byte completed[3];		/* times the command of request 1, 2 was completed */
byte told;			/* times the lane was said to have drained */
bit parked[3];

#define LIVE(g)	(live && gen == (g))

inline CLAIM()
{
	took = cmd;
#ifndef CLAIM_KEEPS
#ifndef CLAIM_LATE
	cmd = 0
#endif
#endif
}

/* After unlocking. */
inline ANSWER(result)
{
	if
	:: took ->
#ifdef CLAIM_LATE
		cmd = 0;
#endif
		atomic {
			completed[took]++;
			assert(completed[took] == 1);
			assert((result) >= CANCELED || (result) == took);
			took = 0
		}
	:: else
	fi
}

inline HOME()
{
	lease = 0;
	if
	:: shut ->
		state = POOL;
		told++;
		assert(told == 1)
	:: else -> state = FREE
	fi
}

/* DONE, or an answer by command. */
inline FINISH()
{
	CLAIM();
	lease = 0;
	if
	:: took -> HOME()
	:: else -> state = DONE
	fi
}

active proctype client()
{
	byte took, r = 1;

	do
	:: r <= 2 && state == FREE ->
		atomic {
			if
			:: state == FREE && !gone && (live || REQUEUE) ->
				seq++;
				lease = 1;
				if
				:: cmd = seq; parked[seq] = 1
				:: r == 2
				fi;
				if
				:: state = READY
				:: state = WAITING
				fi
			:: else
			fi
		};
		r++
	:: atomic { state == DONE -> HOME() }	/* reap */
	:: break
	od;
	atomic {
		shut = 1;
		if
		:: state == WAITING || state == READY -> CLAIM(); HOME()
#ifdef FREE_DELIVERED
		:: state == DELIVERED -> CLAIM(); HOME()
#else
		:: state == DELIVERED -> CLAIM(); state = ORPHAN
#endif
		:: state == DONE || state == FREE -> HOME()
		:: state == ORPHAN
		fi
	};
	ANSWER(CANCELED);
	/* A requeued or requested-again slot of a shut lane is closed once more. */
	do
	:: state == POOL -> break
	:: atomic {
		(state == WAITING || state == READY) && shut -> CLAIM(); HOME()
	   };
	   ANSWER(CANCELED)
	:: atomic { state == DONE -> HOME() }
	od;
	(!parked[1] || completed[1]) && (!parked[2] || completed[2]);
	assert(told == 1 && completed[1] == parked[1] && completed[2] == parked[2]);
	assert(!cmd && !lease)
}

/* A timeline is reached, or poisoned. */
active proctype points()
{
	byte took;

end:	atomic {
		state == WAITING ->
		if
		:: live || REQUEUE && !gone -> state = READY
		:: FINISH()
		fi
	};
	ANSWER(POISONED);
	goto end
}

/* The ring of request 1's command dies. */
active proctype ring()
{
	byte took;

	if
	:: parked[1] ->
		atomic {
			if
#ifdef CANCEL_ANY_SEQ
			:: state == WAITING || state == READY -> CLAIM(); HOME()
			:: state == DELIVERED -> CLAIM(); state = ORPHAN
#else
			:: cmd == 1 && seq == 1 && state != DELIVERED -> CLAIM(); HOME()
			:: cmd == 1 && seq == 1 && state == DELIVERED ->
				CLAIM();
				state = ORPHAN
#endif
			:: else
			fi;
			assert(!took || took == 1)
		};
		ANSWER(CANCELED)
	:: true
	fi
}

active proctype cancel()
{
	byte took, which;

	if
	:: which = 1
	:: which = 2
	fi;
	if
	:: atomic {
		seq == which && (state == WAITING || state == READY) -> FINISH()
	   };
	   ANSWER(CANCELED)
	:: true
	fi
}

active proctype deadline()
{
	byte took;

	if
#ifdef DEADLINE_ALWAYS
	:: atomic { state == DELIVERED -> FINISH() };
	   ANSWER(EXPIRED)
#endif
	:: atomic { state == WAITING || state == READY -> FINISH() };
	   ANSWER(EXPIRED)
	:: true
	fi
}

inline COMMIT(g, s)
{
	atomic {
		if
#ifdef NO_GENERATION
		:: (state == DELIVERED || state == ORPHAN) && seq == s ->
#else
#ifdef NO_SEQ
		:: LIVE(g) && sgen == g && (state == DELIVERED || state == ORPHAN) ->
#else
#ifdef NO_STATE
		:: LIVE(g) && seq == s && (state == DELIVERED || state == ORPHAN ||
					   state == READY) ->
#else
		:: LIVE(g) && sgen == g && seq == s &&
		   (state == DELIVERED || state == ORPHAN) ->
#endif
#endif
#endif
			assert(LIVE(g));
			/* Nobody else works on it, nor will. */
			assert(state != READY);
			if
			:: state == ORPHAN -> HOME()
			:: else -> FINISH()
			fi
		:: else
		fi
	};
	ANSWER(s)
}

inline UNDELIVER(g, s)
{
	atomic {
		if
#ifdef UNDELIVER_ANY
		:: seq == s && state == DELIVERED -> state = READY
		:: seq == s && state == ORPHAN -> HOME()
#else
		:: LIVE(g) && sgen == g && seq == s && state == DELIVERED -> state = READY
		:: LIVE(g) && sgen == g && seq == s && state == ORPHAN -> HOME()
#endif
		:: else
		fi
	}
}

/* The memory is written, with no lock: one living executor has it, and a lease. */
byte working;

proctype executor(byte g)
{
	byte took, s;

end:	atomic {
		LIVE(g) && state == READY ->
		state = DELIVERED;
		sgen = g;
		s = seq
	};
	if
	:: true -> UNDELIVER(g, s)	/* the CQE could not be posted */
	:: true ->
		atomic {
			if
			:: LIVE(g) && seq == s &&
			   (state == DELIVERED || state == ORPHAN) ->
				working++;
				assert(working == 1 && lease)
			:: else -> goto next	/* it died meanwhile */
			fi
		};
		atomic { assert(working == 1 && lease); working-- };
		COMMIT(g, s);
		if
		:: true -> COMMIT(g, s)	/* once more, perhaps much later */
		:: true
		fi
	fi;
next:	s = 0;
	goto end
}

/* Commits what it can read in the descriptors, but was not given. */
active proctype guess()
{
	byte took, s;

	if
	:: atomic { state == READY -> s = seq; COMMIT(1, s) }
	:: true
	fi
}

init
{
	/* Two threads of the first generation. */
	atomic { run executor(1); run executor(1); run executor(2) }
}

active proctype death()
{
	byte took;

	atomic {
		working == 0 -> live = 0;	/* exit waits for its threads */
#ifdef GONE
		gone = 1
#endif
	};
#ifdef EARLY_ATTACH
	atomic { gen = 2; live = 1 };
#endif
	atomic {	/* rlx_slots_bury() */
		if
		:: state == DELIVERED && REQUEUE -> state = READY
		:: state == DELIVERED && !REQUEUE -> FINISH()
#ifndef LEAK_ORPHAN
		:: state == ORPHAN -> HOME()
#endif
		:: state == READY && !REQUEUE -> FINISH()
		:: state == WAITING && gone -> FINISH()
		:: else
		fi
	};
	ANSWER(DEAD);
#ifndef GONE
#ifndef EARLY_ATTACH
	atomic { gen = 2; live = 1 }
#endif
#endif
}
