/* SPDX-License-Identifier: MIT */
/*
 * Random programs over the whole of /dev/rlx: what they own, how they draw their
 * arguments, and what became of their calls.
 *
 * A program is a process: one thread whose operations follow from its seed, or several
 * that race on the same things. Arguments are good for the most part, so that deep
 * states are reached; one in some dozens is wild: a boundary value, a flipped bit, a
 * descriptor of another kind, a pointer to nowhere.
 */
#ifndef RLX_KMOD_RAND_H
#define RLX_KMOD_RAND_H

#include <liburing.h>
#include <linux/rlx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- results ---- */

/* Every command as an ioctl, those of io_uring, and the system calls around. */
enum rnd_call {
	RND_QUERY, RND_ARENA_CREATE, RND_TIMELINE_CREATE, RND_TIMELINE_WAIT,
	RND_SERVICE_CREATE, RND_CONNECT,
	RND_ARENA_INFO, RND_ARENA_EXPORT, RND_ARENA_DUP, RND_ARENA_SEAL, RND_ARENA_SYNC,
	RND_TIMELINE_QUERY, RND_TIMELINE_SIGNAL, RND_TIMELINE_DUP, RND_TIMELINE_EVENTFD,
	RND_TIMELINE_IMPORT, RND_TIMELINE_WAIT_ONE,
	RND_SERVICE_INFO, RND_SERVICE_DUP, RND_EXECUTOR_ATTACH,
	RND_FETCH, RND_COMMIT, RND_COMMIT_AND_FETCH, RND_EXEC_ARENA, RND_EXEC_SLICES,
	RND_EXEC_EVENTS,
	RND_ATTACH, RND_DETACH, RND_SUBMIT, RND_REAP, RND_CANCEL,
	RND_IOCTLS,
	RND_UR_SUBMIT = RND_IOCTLS, RND_UR_POST, RND_UR_EMBEDDED, RND_UR_FETCH,
	RND_UR_COMMIT, RND_UR_COMMIT_AND_FETCH, RND_UR_WAIT_ONE, RND_UR_BUFFER,
	RND_UR_UNBUFFER, RND_UR_MULTISHOT,
	RND_OPEN, RND_MMAP_ARENA, RND_MMAP_DMABUF, RND_MMAP_TIMELINE, RND_MMAP_RING,
	RND_MEMORY, RND_FILE, RND_POLL, RND_PASS, RND_DMABUF_IOCTL,
	RND_CALLS
};

#define RND_ERRNOS	134

/* Shared by the processes of a test. */
struct rnd_tally {
	uint32_t n[RND_CALLS][RND_ERRNOS];	/* 0: success */
	uint32_t ops;
	uint32_t wild;
	uint32_t faults;			/* injected, one step each */
	uint64_t digest;			/* of which operations they were */
	char broken[256];			/* the first rule that did not hold */
};

struct rnd_call_name {
	const char *name;
	unsigned long cmd;
	short must[12];		/* errors that have to have come up; 0 ends them */
	uint64_t feature;	/* without which (RLX_FEAT_*) it never succeeds */
};
extern const struct rnd_call_name rnd_calls[RND_CALLS];

/* ---- things ---- */

enum rnd_kind {
	RND_SESSION, RND_ARENA, RND_TIMELINE, RND_SERVICE, RND_EXECUTOR, RND_CHANNEL,
	RND_DMABUF, RND_MEMFD, RND_EVENTFD, RND_SYNC_FILE, RND_SW_SYNC, RND_OTHER,
	RND_KINDS
};

#define RND_THINGS	6	/* of one kind */
#define RND_HANDLES	8
#define RND_GOT		64

struct rnd_handle {
	uint32_t handle;
	uint32_t access;
	uint64_t size;		/* of an arena; 0: a timeline */
	uint32_t from;		/* which of the timelines that was */
};

struct rnd_tag {
	uint32_t queue, tag;
	uint64_t seq;
};

/* Threads read and write it as they like: a torn value is one more random one. */
struct rnd_thing {
	int fd;			/* -1: none */
	uint32_t queues, depth, flags, id, access;
	uint64_t size;
	char *area;		/* where descriptors and rings are mapped, see below */
	struct rnd_handle handle[RND_HANDLES];
	struct rlx_rq_id rq[RND_HANDLES];
	struct rnd_tag got[RND_GOT];
};

/* An executor maps descriptors, ring and words of its queues, a channel's ring is 0. */
#define RND_AREA	(64u << 10)
#define RND_QUEUES	2
#define RND_AREAS	(3 * RND_QUEUES)
enum { RND_AREA_DESC, RND_AREA_RING, RND_AREA_USER };

struct rnd_world {
	struct rnd_thing thing[RND_KINDS][RND_THINGS];
	struct rnd_tally *tally;
	uint64_t seed;
	int scratch;		/* a memfd, for reading and writing by the kernel */
	int pair[2];		/* a socket, for passing descriptors */
	bool race;
	bool parks;		/* io_uring commands may park */
	bool lockdep;
	bool verbose;
	bool faults;		/* they can be injected into the module alone */
};

/* Of each thread: its dice, its memory, its ring. */
#define RND_SHOTS	8
#define RND_SLOT	(4ul << 20)
#define RND_SLOTS	12

struct rnd {
	uint64_t seed;
	uint64_t step;
	uint32_t thread;	/* of the program, from 0 */
	uint64_t dice;		/* anew each step: it depends on no answer */
	uint64_t digest;
	uint32_t calls;
	struct rnd_world *w;
	bool wild;		/* the present call has an argument that may be bad */
	int fail_nth;		/* /proc/thread-self/fail-nth; -1: faults cannot be had */
	bool failing;		/* the present step may meet an injected fault */
	char *window;		/* RND_SLOTS of RND_SLOT bytes */
	size_t mapped[RND_SLOTS];
	char *buf;		/* for what commands point to; its end is the end of memory */
	size_t at;		/* of the next piece */
	char *keep;		/* the same for io_uring, whose commands live longer */
	size_t keep_at;
	struct io_uring ring;
	bool has_ring;
	unsigned int ring_flags;
	uint32_t shot[RND_SHOTS][8];	/* what the ring provides for multishot FETCH */
};

/* ---- drawing ---- */

uint32_t rnd_below(struct rnd *r, uint32_t n);
bool rnd_one_in(struct rnd *r, uint32_t n);
/* @good, or now and then a boundary value. */
uint64_t rnd_u64(struct rnd *r, uint64_t good);
uint32_t rnd_u32(struct rnd *r, uint32_t good);
/* Memory of @bytes for an argument; now and then a bad address. */
uint64_t rnd_ptr(struct rnd *r, void *good);
/* A piece of r->buf; zeroed. */
void *rnd_piece(struct rnd *r, size_t bytes);
void *rnd_keep(struct rnd *r, size_t bytes);

/* A thing of that kind, or NULL if there is none. */
struct rnd_thing *rnd_pick(struct rnd *r, enum rnd_kind kind);
/* Its fd, now and then one of something else, or none. -1 for NULL. */
int rnd_fd(struct rnd *r, const struct rnd_thing *t);
/* A place for a new thing; what was there is closed. */
struct rnd_thing *rnd_place(struct rnd *r, enum rnd_kind kind, int fd);
void rnd_drop(struct rnd *r, enum rnd_kind kind, struct rnd_thing *t);

/* ---- calling ---- */

/*
 * The result, counted. Unless something about it is wild, a call may not answer
 * ENOTTY, and not EINVAL with @good.
 */
long rnd_ioctl(struct rnd *r, enum rnd_call call, int fd, void *arg, bool good);
/* The same for what a system call returned. */
long rnd_count(struct rnd *r, enum rnd_call call, long ret);
/*
 * Whether @fd is a new descriptor to be remembered. After a wild call it may be of
 * something else than was meant: it is closed.
 */
bool rnd_made(struct rnd *r, long fd);
/* @call on a thing of @kind; its struct of @bytes begins with access and flags. */
void rnd_dup(struct rnd *r, enum rnd_call call, enum rnd_kind kind, size_t bytes);
void rnd_broken(struct rnd *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * At a fixed place, which is blank and nobody else's if it fails: the kernel has
 * then unmapped what was there, and somebody's memory might come to lie in the hole.
 */
long rnd_mmap(void *at, size_t bytes, int prot, int flags, int fd, uint64_t offset);
void rnd_blank(void *at, size_t bytes);

/* Copies from or to what may not be there; false if it was not. */
bool rnd_copy(void *dst, const void *src, size_t n);
void rnd_catch_faults(void);

/*
 * Fault injection: from rnd_fault_arm() to rnd_fault_disarm() one allocation or copy that
 * the module makes for the calling thread fails, whichever comes as the dice say.
 */
void rnd_fault_open(struct rnd *r);
void rnd_fault_arm(struct rnd *r);
void rnd_fault_disarm(struct rnd *r);

/* ---- operations, by file ---- */

struct rnd_op {
	void (*fn)(struct rnd *r);
	uint32_t weight;
};

extern const struct rnd_op rnd_ops_arena[], rnd_ops_timeline[], rnd_ops_chan[],
	rnd_ops_memory[], rnd_ops_uring[];

/* Before any thread maps what it likes. */
void rnd_ring_new(struct rnd *r);
/* Builds something to begin with. */
void rnd_begin(struct rnd *r);
void rnd_step(struct rnd *r);
/* Those of rand_chan.c that rand_uring.c builds upon. */
struct rlx_rq *rnd_request(struct rnd *r, struct rnd_thing *ch, struct rlx_rq *rq);
uint32_t rnd_results(struct rnd *r, struct rnd_thing *ex, uint32_t queue,
		     struct rlx_complete *c, uint32_t max);
void rnd_fetched(struct rnd *r, struct rnd_thing *ex, uint32_t queue,
		 const uint32_t *tags, long n);

#endif
