/* SPDX-License-Identifier: MIT */
/*
 * Models and their queues. A request puts rows into its model's queue; a replica
 * that is free takes some that fit together and runs them as one batch. Rows of
 * different clients take turns.
 */
#ifndef RLXD_MODEL_H
#define RLXD_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "rlx/arena.h"
#include "rlx/store.h"
#include "rlx/type.h"
#include "tools/rlxd/conf.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/truncation_guard.h"
#include "tools/rlxd/worker_pool.h"

enum {
	BATCH_MAX = 1024, MODEL_BATCH = 8, MODEL_IO_MAX = 16, MODEL_CLASSES = 32,
	MODEL_RUN_NS = 100000000,	/* no more rows run at once than take so long */
};

enum { ROW_WHOLE = -1 };

_Static_assert((int)MODEL_CLASSES >= (int)CONF_BUCKETS_MAX, "a class for each bucket");

/* Whatever a model is loaded from, there is one of it. */
#define MODEL_VERSION "1"

struct account;
struct client;
struct model;
struct rlx_file;
struct turn_link;
union spare;

/* A tensor as the wire has it. dim -1: any. */
struct tensor_desc {
	const char	*name;
	enum rlx_dtype	 dtype;
	unsigned int	 rank;
	int64_t		 dim[RLX_MAX_RANK];
	bool		 optional;
};

/* A tensor of a request or a reply. */
struct tensor {
	const char	*name;
	struct rlx_type	 type;
	const void	*data;
	size_t		 bytes;
};

/*
 * What a request of any front end has a model do. From model_submit() to done() it
 * is the workers'.
 */
struct job {
	struct model	*model;
	struct client	*client;
	struct account	*account;		/* what it allocates is charged to; or NULL */
	const void	*line;			/* whose turn it is: names a connection of it */
	struct row	*rows;
	unsigned int	 n_rows;
	int64_t		 queued, deadline;	/* CLOCK_MONOTONIC ns */
	/* Does nobody wait for it any more? */
	bool		 (*unwanted)(const struct job *j);
	/* All rows are done, by any thread; @err tells whether one failed. */
	void		 (*done)(struct job *j);
	struct rlx_error err;		/* of the first row that failed */
	atomic_bool	 failed;	/* @err is taken: what is left of it need not run */
	atomic_bool	 too_large;	/* it needs more memory than it may ever have */
	atomic_uint	 rows_left;
};

/* What waits in a queue. */
struct row {
	struct job	*job;
	struct row	*next;
	int64_t		 queued;
	/* For an encoder: tokens in (int64, at any address), a vector out. */
	const void	*ids;
	uint32_t	 tokens;
	float		*out;
	/* For any other model: row @at of a request's tensors, or ROW_WHOLE; see rows.h. */
	struct tensor	*in;
	unsigned int	 n_in;
	int64_t		 at;
	struct tensor	*result;	/* n_out of the model; data owned by the request */
	/*
	 * If not NULL, for any model: @in gives types only, and these n_in inputs and
	 * n_out outputs are used where they lie. Such a row is a batch of its own.
	 */
	const struct rlx_buf *place;
};

struct replica {
	struct model	*model;
	struct replica	*next;
	void		*state;		/* the kind's */
	struct task	 task;
	unsigned int	 index;
	int		 node;		/* of its threads and memory */
	struct row	*batch[BATCH_MAX];
	unsigned int	 n;
	/* With the model's lock: what it runs, from when on; @runs: nothing while false. */
	bool		 runs, is_long;
	unsigned int	 row_class;
	int64_t		 begin;
};

/* What differs between models of files of different kinds. */
struct model_kind {
	const char	*name, *platform;	/* as the configuration and KServe call it */
	enum rlx_status	 (*open)(struct model *m, struct rlx_error *err);
	void		 (*close)(struct model *m);
	/* The @i-th file that it maps while it is open; NULL: there are no more. */
	const struct rlx_file *(*mapped)(const struct model *m, unsigned int i);
	enum rlx_status	 (*replica_open)(struct replica *r, struct rlx_error *err);
	void		 (*replica_close)(struct replica *r);
	/* Rows of one class, below MODEL_CLASSES, take about as long. NULL: there is one. */
	unsigned int	 (*class_of)(const struct model *m, const struct row *row);
	/* May @b go into a batch that begins with @a? */
	bool		 (*fits)(const struct model *m, const struct row *a, const struct row *b);
	/* Run r->batch; each row's result or, in @err, what went wrong for all. */
	enum rlx_status	 (*run)(struct replica *r, struct rlx_error *err);
	/* Of models that embed: model_encode(). [any] */
	enum rlx_status	 (*encode)(struct model *m, struct account *a, const char *text, size_t n,
				   struct row *out, struct rlx_error *err);
};

extern const struct model_kind model_bert, model_onnx, model_plan;

/* A file that a model came of, or might have, to see whether it changed. */
struct file_mark {
	struct file_mark	*next;
	const char		*path;
	uint64_t		 source, bytes;		/* see rlx_file_source() */
};

struct model {
	const char		*name;		/* conf.name */
	struct conf_model	 conf;		/* strings in mem */
	struct rlx_bump		 mem;
	const struct model_kind	*kind;
	const char		*platform;	/* the kind's, unless its open() knows better */
	void			*state;		/* the kind's */
	atomic_uint		 refs;
	struct worker_pool	*workers;
	int64_t			 max_batch;	/* as configured, else MODEL_BATCH or open()'s */
	struct rlx_device	*device;	/* held, so that it is there before requests are */
	struct file_mark	*mark;		/* all of them, in mem */
	struct tensor_desc	 in[MODEL_IO_MAX], out[MODEL_IO_MAX];
	unsigned int		 n_in, n_out;
	bool			 embeds;	/* answers /v1/embeddings; open() fills the next ones: */
	int64_t			 width;		/* of its vectors */
	int64_t			 max_tokens;	/* special ones included; rows of more are refused */
	int64_t			 vocab;		/* ids are below it */
	int64_t			 length[CONF_BUCKETS_MAX];	/* of its programs */
	unsigned int		 n_length;
	int64_t			 loaded;	/* realtime, seconds */
	int64_t			 load_ns;
	_Atomic(int64_t)	 kernels_compiled, kernels_ns;	/* see struct rlx_program_info */
	uint64_t		 weight_bytes;
	struct rlx_store	*store;		/* of its prepared weights; NULL: none */
	struct rlx_resident	*resident;	/* they are in a GPU's memory for all servers */
	bool			 adopted;	/* it is another process's */
	bool			 awaited;	/* its first reply, while it is loaded */
	struct guarded_range	*file;		/* where its files are mapped: runs may read them */
	unsigned int		 n_file;
	atomic_bool		 torn;		/* one of them was cut short */
	struct model_metrics	 metric;
	_Atomic(int64_t)	 row_ns[MODEL_CLASSES];	/* what a row took lately; 0: none ran */

	/* Guards the flows, the replicas, and what results of divided requests are. */
	pthread_mutex_t		 lock;
	struct turn_link	*flow;		/* ring of clients that have rows; NULL: none */
	union spare		*spare;
	unsigned int		 n_flow;
	int64_t			 virtual_now;	/* of the flows; see queue.c */
	unsigned int		 n_rows;
	struct replica		*replica;	/* all, conf.replicas of them, and the extra one */
	struct replica		*idle;
	struct replica		*extra;		/* see model_is_short(); NULL: there is none */
	pthread_cond_t		 more;		/* a replica waits for its batch to fill */
	unsigned int		 waiting;
};

struct model_set {
	atomic_uint	 refs;
	unsigned int	 n;
	struct model	*model[CONF_MODELS_MAX];
};

struct model *model_get(struct model *m);
void model_put(struct model *m);

/*
 * The models of @c; those that @old has in the same form are shared with it. All
 * or nothing. @awaited: somebody may wait for the first reply already.
 */
enum rlx_status __rlx_must_check
model_set_open(const struct conf *c, struct model_set *old, struct worker_pool *workers,
	       bool awaited, struct model_set **out, struct rlx_error *err);
struct model_set *model_set_get(struct model_set *s);
/* How many of its models have a replica for short runs beside long ones. */
unsigned int model_set_extras(const struct model_set *s);
void model_set_put(struct model_set *s);
/* Into what the log says of loading: kernels that were compiled for @p. */
void model_count_kernels(struct model *m, const struct rlx_program *p);
struct model *model_find(const struct model_set *s, const char *name);

/* Models whose queues a thread filled: run at the end of its turn, all at once. */
struct turn {
	struct model	*model[CONF_MODELS_MAX];
	unsigned int	 n;
	int64_t		 inline_ns;	/* what takes longer is for the workers */
};

/*
 * Queue j->rows of j->model; @t: of the calling thread, or NULL to have workers run
 * them. Return: RLX_EBUSY past the client's max_rows; RLX_ERANGE for more rows than it
 * may ever have, or than ever wait; RLX_EAGAIN if the queue is full; RLX_ENOMEM. Then
 * done() is not called.
 */
enum rlx_status __rlx_must_check
model_submit(struct job *j, struct turn *t, struct rlx_error *err);
/* What a row like @row took lately, as one of a batch; 0: none ran. */
int64_t model_row_ns(const struct model *m, const struct row *row);
/* The rows of @row: those of a request that runs in place, else 1. */
int64_t model_rows_of(const struct model *m, const struct row *row);
/*
 * With the lock held: is @row one that the extra replica may run? A run of a single row, or
 * of a request that is not divided, may take any time. While all replicas are at such runs
 * the extra one, whose state is made when it is first needed, runs what is short: what takes
 * less than MODEL_RUN_NS, or has never run and is many times smaller than what others run.
 */
bool model_is_short(const struct model *m, const struct row *row);
/* Run what @t holds, or wake workers. */
void turn_end(struct turn *t);
/* Forget what @t holds. */
void turn_drop(struct turn *t);

/*
 * Of a model that embeds: text to ids, at most max_tokens of them. They and their number are
 * @out's, in memory from base/alloc.h that is charged to @a.
 */
enum rlx_status
model_encode(struct model *m, struct account *a, const char *text, size_t n, struct row *out,
	     struct rlx_error *err);
/*
 * The tokens of a row of @seq by its mask, which may lie anywhere: ones, then zeros.
 * -1: it is something else.
 */
int64_t model_mask_tokens(const void *mask, int64_t seq);

#endif
