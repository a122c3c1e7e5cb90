/* SPDX-License-Identifier: MIT */
/*
 * The loader's inside. One thread, the reader's, starts reads and takes them when they are
 * done; workers check, decode and build batches; the consumer takes batches in order.
 *
 * Memory is one slice of the arena: for each part of the data set a region (RESIDENT: the
 * file; CHUNKS: two halves of a window each), then depth slots of a batch (ROWS: its data;
 * numbers of rows; dense fields).
 *
 * All states change under @lock. What a state lets one thread touch:
 *	slot	FREE, READING: the reader; READ, BUILDING: one worker; READY, OUT: the consumer
 *	window	FREE, READING: the reader; READ: workers, a chunk each; READY: builders read
 */
#ifndef RLX_TRAIN_LOADER_H
#define RLX_TRAIN_LOADER_H

#include <pthread.h>

#include "train/dataset.h"
#include "train/order.h"
#include "train/reader.h"

enum slot_state { SLOT_FREE, SLOT_READING, SLOT_READ, SLOT_BUILDING, SLOT_READY, SLOT_BAD };
enum window_state { WINDOW_FREE, WINDOW_READING, WINDOW_READ, WINDOW_READY, WINDOW_BAD };

struct loader_part {
	uint64_t	region, region_bytes;	/* from the memory's begin; 0 bytes with ROWS */
	uint64_t	pitch;		/* of chunks in the region, of rows in a slot */
	uint64_t	lead;		/* RESIDENT: what of the file is at the region's begin */
	uint64_t	unit, origin;	/* records begin at origin + a multiple of unit */
	uint64_t	data, rows;	/* in a slot: ROWS' data; i64[batch] numbers of units */
	bool		whole;		/* unit is the stride: a record is one unit */
	bool		fixed;		/* ROWS: each record at its row's begin, no numbers needed */
	uint32_t	pieces;		/* reads that one chunk or row takes at most */
};

/* A window: chunks that are in memory together, in the order of its records. */
struct loader_window {
	enum window_state state;
	uint64_t	number;		/* epoch * windows + its place there */
	unsigned int	half, chunks;	/* which half of the regions; how many chunks */
	uint64_t	*chunk;		/* their numbers */
	uint64_t	*first;		/* records before each, and all in the end */
	bool		*bad;
	unsigned int	reading, checked, checking;	/* reads in flight; chunks */
	struct order	order;		/* of records in it */
	struct reader_req *req;
	struct rlx_error err;
};

struct loader_slot {
	enum slot_state	 state;
	uint64_t	 number;	/* of its batch */
	uint64_t	 at;		/* from the memory's begin */
	unsigned int	 reading;
	bool		*bad;		/* rows */
	struct reader_req *req;
	struct rlx_error err;
};

/* Where windows begin in an epoch, in records. */
struct loader_plan {
	uint64_t	 epoch;		/* UINT64_MAX: none */
	uint64_t	*first;		/* windows + 1 */
	struct order	 chunks;
};

struct rlx_loader {
	struct rlx_loader_opts	 o;		/* defaults filled in */
	struct rlx_augment	 augment;
	struct dataset		 d;
	enum rlx_loader_layout	 layout;
	struct rlx_field	 decoded[RLX_FIELDS_MAX];
	struct rlx_field	 public_field[RLX_FIELDS_MAX];
	unsigned int		 fields;	/* that the program sees */
	bool			 dense;		/* fields lie dense in a slot: decoded or copied */
	uint64_t		 dense_at[RLX_FIELDS_MAX];	/* in a slot */
	struct loader_part	 part[DATASET_PARTS_MAX];
	char			 name[DATASET_PARTS_MAX][RLX_DTYPE_COUNT][24];	/* of inputs */

	struct rlx_arena	*arena;
	struct rlx_buf		 memory;
	uint8_t			*base;
	uint64_t		 slots_at, slot_bytes;
	uint64_t		 guarded;	/* of a slot, at its begin */

	uint64_t		 epoch_rows, epoch_batches;	/* global: all ranks' */
	uint64_t		 windows, window_chunks;	/* in an epoch; in a window */

	pthread_mutex_t		 lock;
	pthread_cond_t		 work, ready;
	pthread_t		 thread_io, *thread;
	unsigned int		 threads;
	bool			 running, stop, failed;	/* failed: nothing more is begun */
	struct reader		*reader;
	struct loader_window	 window[2];
	struct loader_plan	 plan[2];
	struct loader_slot	*slot;
	uint64_t		 begin;		/* number of the batch of sequence 0 */
	uint64_t		 filled, built, out, done;	/* numbers of the next batch of each */
	uint64_t		 next_window;
	unsigned int		 next_half;
	unsigned int		 unpacked;	/* RESIDENT: parts with a codec, begun */
	uint64_t		 epochs_begun;

	struct rlx_batch	 fed;		/* what a session has */
	bool			 is_fed;
	struct rlx_batch	 ahead;		/* what it is fed next, which is out */
	bool			 is_ahead;
	bool			 stale;		/* one that was is not; a session may think so */
	const struct rlx_session *params_of;	/* RESIDENT: the session that has them bound */
	struct rlx_error	 err;
	struct rlx_loader_info	 info;		/* counts */
};

/* What is ahead is given out once more. */
void loader_give_back(struct rlx_loader *ld);
/* rlx_loader_tell(), where what a session was fed counts as done: its run has ended. */
void loader_tell_fed(const struct rlx_loader *ld, struct rlx_loader_pos *out);

/* ---- loader_place.c: what lies where ---- */
enum rlx_status __rlx_must_check loader_place(struct rlx_loader *ld, struct rlx_error *err);
/* What of the file a read must take to have [offset, offset + bytes): *begin and length. */
uint64_t loader_span(const struct dataset_part *p, uint64_t offset, uint64_t bytes,
		     uint64_t *begin);

/* ---- loader_order.c: which record is where ---- */
/* Batch @n: its epoch, and this rank's first row and rows that carry data. */
void loader_batch_at(const struct rlx_loader *ld, uint64_t n, uint64_t *epoch, uint64_t *first,
		     unsigned int *rows);
/* Plan @epoch, if it is not; the reader's thread, under the lock. */
void loader_plan_epoch(struct rlx_loader *ld, uint64_t epoch);
/* Windows [*a, *b] that batch @n needs; false: its epoch has no plan yet. */
bool loader_windows_of(const struct rlx_loader *ld, uint64_t n, uint64_t *a, uint64_t *b);
void loader_fill_window(struct rlx_loader *ld, struct loader_window *w, uint64_t number);
struct loader_window *loader_window_find(struct rlx_loader *ld, uint64_t number);
/* What a batch's rows are picked by. Made under the lock, used without it. */
struct loader_pick {
	uint64_t		 number, epoch, first, sample;	/* sample: of its first row */
	unsigned int		 rows;		/* that carry data */
	struct order		 records;	/* of all, if there are no windows */
	const struct loader_plan *plan;
	struct loader_window	*window[2];	/* CHUNKS */
};
void loader_pick_begin(struct rlx_loader *ld, uint64_t n, struct loader_pick *p);
/* The record of row @row, and where it is: window and chunk in it (CHUNKS). */
uint64_t loader_pick_at(const struct rlx_loader *ld, const struct loader_pick *p,
			unsigned int row, struct loader_window **w, unsigned int *chunk);

/* ---- loader_io.c: the reader's thread ---- */
void *loader_io(void *arg);

/* ---- loader_work.c: the workers' ---- */
void *loader_worker(void *arg);
/* Is there anything that a worker must do to a slot that was read? */
bool loader_slot_needs_work(const struct rlx_loader *ld);
/* Does anything check a window's chunks once they are read? */
bool loader_window_needs_work(const struct rlx_loader *ld);
/* Where @part of a record lies, from the memory's begin. */
struct loader_place {
	const struct loader_slot   *slot;
	unsigned int		    row;
	uint64_t		    record;
	const struct loader_window *window;
	unsigned int		    chunk;
};
uint64_t loader_where(const struct rlx_loader *ld, const struct loader_place *at,
		      unsigned int part);
/* RLX_OK if the policy lets @n more records be skipped. Under the lock. */
enum rlx_status __rlx_must_check
loader_skip(struct rlx_loader *ld, uint64_t n, const struct rlx_error *why,
	    struct rlx_error *err);

/* mprotect for RLX_LOADER_GUARD; without the flag nothing. */
void loader_guard_slot(const struct rlx_loader *ld, const struct loader_slot *s, bool closed);
void loader_guard_window(const struct rlx_loader *ld, const struct loader_window *w, bool closed);

/* ---- loader_graph.c ---- */
void loader_describe(struct rlx_loader *ld, struct rlx_batch *b, const struct loader_slot *s);

/* ---- augment.c ---- */
enum rlx_status __rlx_must_check
augment_check(const struct rlx_augment *a, const struct rlx_type *t, struct rlx_error *err);
/* Change @image of type @t, the run's @sample, in place. */
void augment_apply(const struct rlx_augment *a, const struct rlx_type *t, uint8_t *image,
		   uint64_t seed, uint64_t sample);

#endif
