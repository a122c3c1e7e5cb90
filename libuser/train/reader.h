/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes of files that go on by themselves: a ring of io_uring by system calls, or
 * where that is refused a pool of threads.
 */
#ifndef RLX_TRAIN_READER_H
#define RLX_TRAIN_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/status.h"

/*
 * One transfer; the caller's memory until it comes back from reader_wait(). Longer ones than
 * READER_PIECE are for the caller to cut.
 */
struct reader_req {
	struct reader_req	*next;
	void			*owner;		/* the caller's */
	void			*data;
	uint64_t		 offset;	/* in the file */
	uint32_t		 bytes, need;	/* need: the file may end behind so many */
	uint32_t		 done;		/* transferred so far */
	int			 fd;
	bool			 write;
	int			 error;		/* an errno; 0 if @need are there */
	unsigned int		 tag;		/* the caller's */
};

enum { READER_PIECE = 1 << 20 };

struct reader_opts {
	unsigned int	 depth;		/* transfers in flight at most, to 256 */
	void		*memory;	/* all @data lie there: registered with the ring if it can */
	uint64_t	 bytes;
	bool		 no_ring;
};

struct reader;

/* RLX_ENOMEM. One thread submits and waits. */
enum rlx_status __rlx_must_check
reader_new(const struct reader_opts *o, struct reader **out, struct rlx_error *err);
/* Nothing may be in flight. NULL is fine. */
void reader_free(struct reader *r);

/* Begin, or queue behind those in flight. */
void reader_submit(struct reader *r, struct reader_req *q);
/*
 * Wait until something is done or somebody called reader_wake(). What was done, as a list in
 * any order; NULL after a wake alone.
 */
struct reader_req *reader_wait(struct reader *r);
void reader_wake(struct reader *r);	/* any thread */
unsigned int reader_in_flight(const struct reader *r);

/* What it is: "io_uring, registered memory" or "4 threads (io_uring: ...)". */
const char *reader_text(const struct reader *r);
/* Does a transfer need the CPU's mapping of the memory? */
bool reader_is_registered(const struct reader *r);

#endif
