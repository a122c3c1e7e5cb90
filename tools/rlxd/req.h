/* SPDX-License-Identifier: MIT */
/*
 * A request between its head and its reply. It belongs to its loop; while it is
 * with the workers (req_submit() to loop_post()) they alone touch it, but for
 * @cancelled, which the loop sets when nobody waits for the reply any more.
 */
#ifndef RLXD_REQ_H
#define RLXD_REQ_H

#include <stdatomic.h>
#include <sys/uio.h>

#include "base/json.h"
#include "tools/rlxd/budget.h"
#include "tools/rlxd/conf.h"
#include "tools/rlxd/http.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/obuf.h"
#include "tools/rlxd/worker_pool.h"

struct client;
struct conn;
struct loop;
struct model;
struct model_set;
struct req;

enum {
	REQ_ID_MAX	= 64,
	TRACE_LEN	= 55,
	ORIGIN_MAX	= 199,		/* a line of rlxd.conf has no more */
	REPLY_HEAD_MAX	= 1280,
	REPLY_TAIL_MAX	= 16,
};

/* How an API says that something went wrong. */
enum api { API_PLAIN, API_KSERVE, API_OPENAI };

struct reply {
	int		 status;
	const char	*type;			/* Content-Type */
	struct obuf	 body;
	struct iovec	 tail[REPLY_TAIL_MAX];	/* sent behind it, from where it lies */
	unsigned int	 n_tail;
	uint64_t	 json_bytes;		/* length of the body, if the tail is binary data */
	int		 retry_after;		/* seconds, 0 none */
	const char	*allow;			/* of a 405, and of OPTIONS */
	char		 why[160];		/* of an error, for the log */
	char		 head[REPLY_HEAD_MAX];
};

struct route;

struct req {
	struct loop	*loop;
	struct conn	*conn;			/* NULL: cancelled */
	struct req	*next;
	const struct route *route;
	enum http_method method;
	enum api	 api;
	char		 id[REQ_ID_MAX + 1];
	char		 trace[TRACE_LEN + 1];	/* traceparent as it came, or "" */
	char		 path[96];		/* the start of it, for the log */
	char		 model_name[48];	/* out of the path; "" if it names none */
	char		 region[80];		/* likewise, of shared memory */
	char		 version[24];		/* likewise, of the model */
	char		 origin[ORIGIN_MAX + 1];	/* of a page that may read the reply */
	uint64_t	 infer_length;
	bool		 has_infer_length;

	char		*body;			/* in a chunk, or own memory */
	size_t		 body_n, body_cap;
	int32_t		 body_chunk;		/* -1: own */
	uint64_t	 copied;		/* of the body, by us */

	struct account	 account;		/* of all that is held for it */
	struct reply	 reply;
	atomic_bool	 cancelled;
	bool		 with_workers;		/* set before they get it */
	struct task	 task;			/* for what is too long for a loop */
	bool		 unfinished;		/* the loop is to call route->finish() */

	struct client	*client;
	struct model_set *set;
	uint64_t	 may_use;		/* a bit for each model of the set */
	bool		 sees_all;		/* what is not one tenant's: models, channels */
	int		 uid;			/* of the peer, -1: not known; conn may be gone */
	struct model	*model;
	struct rlx_json	 json;
	void		*work;			/* the API's, freed by route->clean */
	struct job	 job;			/* with rows, for req_submit() */
	int		 err_status;		/* the reply's, 0: by err.status */
	/* CLOCK_MONOTONIC ns. */
	int64_t		 t_head, t_body, t_done;
	int64_t		 deadline;
};

/* Whom no key is asked of. */
enum open { OPEN_NONE, OPEN_HERE /* peers of this machine */, OPEN_ALL };

struct route {
	const char	*pattern;	/* "/v2/models/{model}/infer" */
	enum http_method method;
	enum api	 api;
	enum open	 open;
	/* With the whole body there. False: workers have it; the reply comes later. */
	bool		 (*run)(struct req *r);
	void		 (*clean)(struct req *r);
	const char	*label;		/* in metrics */
	/* Of what is queued: all rows are done, make the reply; of so many bytes of results. */
	void		 (*finish)(struct req *r);
	size_t		 (*result_bytes)(const struct req *r);
};

/*
 * Its id, path, API and origin, which any reply needs: of a head that could not be read, what
 * there is of them, with an id in any case. False: the reply says why that origin may not ask.
 */
bool req_identify(struct req *r, const struct http_head *h);
/*
 * It is identified: find the route, check the key, the sizes. True: go on with the
 * body; false: the reply says why not.
 */
bool req_begin(struct req *r, const struct http_head *h);
/* The body is whole. True: the reply is ready. */
bool req_run(struct req *r);
/*
 * Queue r->job.rows of r->model; with the last of them the request goes back to its loop,
 * which calls route->finish(), or has it called where that takes long. False: no room, the reply
 * says so.
 */
bool req_submit(struct req *r);

/* Have a worker call @fn for r->task, which takes as long as to read so many bytes. */
void req_read(struct req *r, void (*fn)(struct task *t), size_t bytes);

/*
 * A name in r->json. NULL: @node is 0, no string, or has a zero byte, behind which
 * another name would be hidden from who compares it.
 */
const char *req_name(const struct req *r, uint32_t node);

/* Replies. The text says what was wrong, where, and what to do. */
void req_fail(struct req *r, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* As req_fail() with 503: there is no memory for @what, or no more of max_memory. */
void req_fail_memory(struct req *r, const char *what);
/* Limits for reading JSON of @bytes, charged to the request; it is freed with that. */
struct rlx_json_limits req_json_limits(struct req *r, size_t bytes);
/* Free the body, unless it lies in a chunk, and the JSON that was read from it. */
void req_drop_source(struct req *r);
/* The status that fits a failure of the library. */
int req_status(enum rlx_status st);
void req_fail_err(struct req *r, const struct rlx_error *err);
void req_ok(struct req *r, const char *type);
/* Bytes of the reply behind its head. */
size_t req_body_bytes(const struct req *r);
/* The head of the reply as text in reply.head; its length. @connection: a header, or NULL. */
size_t req_head(struct req *r, const char *connection, const char *date);

/* Does the access log want a request that ended with this status? */
bool log_request(const struct conf_server *limits, int status);
/* Who asked, for the log: a key, a user, or the whole address. */
const char *req_asker(const struct req *r);
/* The line in the access log, if one is wanted. */
void req_log(const struct req *r, int64_t now);

struct req *req_new(struct loop *l);
void req_free(struct req *r);

#endif
