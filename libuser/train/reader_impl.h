/* SPDX-License-Identifier: MIT */
/* What the two ways to read share. */
#ifndef RLX_TRAIN_READER_IMPL_H
#define RLX_TRAIN_READER_IMPL_H

#include <pthread.h>

#include "train/reader.h"

enum { READER_DEPTH_MAX = 256, POOL_THREADS_MAX = 8, RING_BUFFERS_MAX = 1024 };

struct ring {
	int		 fd, wake;		/* wake: an eventfd */
	uint64_t	 woken;			/* what is read from it */
	bool		 waits_for_wake;	/* that read is in flight */
	bool		 registered;
	unsigned int	 to_submit, entries;
	unsigned int	*sq_head, *sq_tail, *sq_mask, *sq_array;
	unsigned int	*cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	void		*sq_map, *cq_map;
	size_t		 sq_bytes, cq_bytes, sqe_bytes;
};

struct pool {
	pthread_mutex_t	 lock;
	pthread_cond_t	 work, done;
	struct reader_req *first, **last;	/* to be made */
	struct reader_req *finished;
	bool		 stop, woken;
	unsigned int	 threads;
	pthread_t	 thread[POOL_THREADS_MAX];
};

struct reader {
	unsigned int	 depth, in_flight;	/* in_flight: handed to ring or pool */
	struct reader_req *first, **last;	/* waiting for room */
	char		*memory;
	uint64_t	 bytes;
	bool		 is_ring;
	struct ring	 ring;
	struct pool	 pool;
	char		 text[160];
};

/* 0, or the errno for which the ring cannot be had, with a word about what failed. */
int ring_open(struct reader *r, const char **what);
void ring_close(struct reader *r);
void ring_start(struct reader *r, struct reader_req *q);
/* Those that ended, with *@woken; each with what the call gave in @error (-errno or bytes). */
struct reader_req *ring_reap(struct reader *r, bool *woken);
void ring_wake(struct reader *r);

int pool_open(struct reader *r);
void pool_close(struct reader *r);
void pool_start(struct reader *r, struct reader_req *q);
struct reader_req *pool_reap(struct reader *r, bool *woken);
void pool_wake(struct reader *r);

#endif
