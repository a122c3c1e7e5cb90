// SPDX-License-Identifier: MIT
/* A loop's thread: wait, read what came, answer what is ready, look at the clock. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

enum {
	FREE_REQS = 64,
	/* Bytes that a loop reads: texts of these take up to 0.3 ms. */
	READ_ON_LOOP = 8 << 10,
};

static const int64_t sweep_ns = 250000000;
/* In a turn, after which it reads no more. */
static const int64_t read_on_loop_ns = 5000000;

int64_t now_ns(void)
{
	return (int64_t)rlx_now();
}

static enum rlx_status open_engine(struct loop *l, struct rlx_error *err)
{
	int64_t wish = l->server->limits.engine;
	struct rlx_error why = { 0 };
	enum rlx_status st;

	if (wish != 2) {
		l->engine = &engine_uring;
		st = l->engine->open(l, wish == 1 ? err : &why);
		if (!st || wish == 1)
			return st;
		if (!l->index)
			log_event(LOG_NOTE, "using epoll", L_STR("because", why.text));
	}
	l->engine = &engine_epoll;
	return l->engine->open(l, err);
}

enum rlx_status loop_open(struct loop *l, struct server *server, unsigned int index,
			  struct rlx_error *err)
{
	struct rlx_arena_opts o = {
		.size = (uint64_t)CHUNKS * CHUNK_BYTES, .name = "rlxd-chunks",
		.flags = RLX_ARENA_LAZY,	/* most clients' requests are short */
	};
	enum rlx_status st;
	unsigned int i;

	*l = (struct loop){ .server = server, .index = index, .wake_fd = -1 };
	l->starved_end = &l->starved;
	l->ready_end = &l->ready;
	TAILQ_INIT(&l->lingering);
	l->turn.inline_ns = server->limits.inline_ns;
	/* A peer behind a socket is to be woken as well before it asks again. */
	rlx_spin_init(&l->spin, RLX_SPIN_AUTO, 2 * RLX_SPIN_WAKE_NS);
	l->now = now_ns();
	l->date_second = -1;
	l->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (l->wake_fd < 0)
		return rlx_fail(err, RLX_EIO, "eventfd: %m");
	for (i = 0; i < server->n_listener; i++)
		if (server->listener[i].tls)
			l->n_spare = SPARE_CHUNKS;
	for (i = 0; i < l->n_spare; i++)
		l->spare[i] = (uint16_t)(CHUNKS + i);
	o.size += (uint64_t)l->n_spare * CHUNK_BYTES;
	st = rlx_arena_new(&o, &l->arena, err);
	if (st)
		return st;
	l->chunks = rlx_arena_base(l->arena);
	return open_engine(l, err);
}

/* The clock, and the text of it that each reply carries. */
static void tick(struct loop *l)
{
	struct timespec ts;
	struct tm tm;

	l->now = now_ns();
	atomic_store_explicit(&l->beat, l->now, memory_order_relaxed);
	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	if (ts.tv_sec == l->date_second)
		return;
	l->date_second = ts.tv_sec;
	gmtime_r(&ts.tv_sec, &tm);
	strftime(l->date, sizeof(l->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

static void take_posted(struct loop *l)
{
	struct req *r = atomic_exchange(&l->posted, NULL), *next, *in_order = NULL;

	for (; r; r = next) {
		next = r->next;
		r->next = in_order;
		in_order = r;
	}
	for (r = in_order; r; r = next) {
		next = r->next;
		if (!r->conn) {
			req_free(r);
			continue;
		}
		if (r->unfinished)
			r->route->finish(r);
		conn_reply(r->conn);
	}
}

/* What comes of a handshake: words, or the connection's end, which the engine waits for. */
static void take_shaken(struct loop *l)
{
	struct conn *c = atomic_exchange(&l->shaken, NULL), *next;

	for (; c; c = next) {
		next = c->shaken_next;
		c->with_worker = false;
		if (c->state != CONN_GONE)
			conn_shaken(c);
		else if (c->let_go)
			conn_gone(c);
	}
}

void chunk_give(struct loop *l, int32_t id)
{
	if (id >= CHUNKS) {
		l->spare[l->n_spare++] = (uint16_t)id;
		return;
	}
	l->n_held--;
	l->engine->give(l, (uint16_t)id);
}

/* Who has more to do then has it done in the next turn, behind what others came for. */
static void process_ready(struct loop *l)
{
	struct conn *c = l->ready, *next;

	l->ready = NULL;
	l->ready_end = &l->ready;
	l->drops_left = DROPS;
	for (; c; c = next) {
		next = c->ready_next;
		c->ready = false;
		conn_process(c);
	}
}

/* Does a connection wait for a chunk where there is none? */
static bool has_run_out(const struct loop *l)
{
	const struct conn *c = l->starved;

	while (c && (c->io == &l->engine->io ? l->n_held < CHUNKS : l->n_spare))
		c = c->starved_next;
	return c != NULL;
}

static void feed_starved(struct loop *l)
{
	unsigned int n, spare, *left;
	struct conn *c, *list = l->starved;

	if (has_run_out(l))
		conn_drop_pipelined(l);
	n = CHUNKS - l->n_held;
	spare = l->n_spare;
	if (!n && !spare)
		return;
	l->starved = NULL;
	l->starved_end = &l->starved;
	while ((c = list)) {
		list = c->starved_next;
		left = c->io == &l->engine->io ? &n : &spare;
		if (!*left) {
			conn_starve(c);
			continue;
		}
		--*left;
		c->starved = false;
		c->one_chunk = true;
		if (!c->filling)
			c->io->want(c);
		conn_ready(c);
	}
}

static void sweep(struct loop *l)
{
	struct conn *c, *next;

	if (l->now < l->next_sweep)
		return;
	l->next_sweep = l->now + sweep_ns;
	for (c = l->conns; c; c = next) {
		next = c->next;
		if (c->deadline && c->deadline < l->now)
			conn_timeout(c);
	}
}

static void start_drain(struct loop *l)
{
	struct conn *c, *next;

	l->draining = true;
	l->engine->unlisten(l);
	for (c = l->conns; c; c = next) {
		next = c->next;
		conn_drain(c);
	}
}

/* Nobody's request is being answered: no run wants the CPU. */
static bool is_idle(const struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->n_loop; i++)
		if (atomic_load(&s->loop[i].busy))
			return false;
	return true;
}

/*
 * Who asks one thing behind the other is back sooner than this thread wakes: then look
 * for a while before sleeping.
 */
static void wait_for_peers(struct loop *l)
{
	int64_t begin = now_ns(), until = begin + (int64_t)rlx_spin_for(&l->spin), now = begin;

	while (now < until && !l->engine->wait(l, 0))
		now = now_ns();
	if (now >= until)
		l->engine->wait(l, l->next_sweep);
	rlx_spin_learn(&l->spin, (uint64_t)(now_ns() - begin));
}

static int64_t wake_at(const struct loop *l)
{
	int64_t look = gone_look_at(l);

	return look < l->next_sweep ? look : l->next_sweep;
}

/* Is there something to do without waiting for it? */
static bool has_work(const struct loop *l)
{
	return atomic_load(&l->posted) || atomic_load(&l->accepted) || atomic_load(&l->shaken) ||
	       l->ready || l->turn.n;
}

static void turn(struct loop *l)
{
	atomic_store(&l->sleeping, true);
	if (has_work(l))
		l->engine->wait(l, 0);
	else if (is_idle(l->server))
		wait_for_peers(l);
	else
		l->engine->wait(l, wake_at(l));
	atomic_store(&l->sleeping, false);
	tick(l);
	accept_take(l);
	if (atomic_load(&l->drain) && !l->draining)
		start_drain(l);
	if (l->draining && !l->engine->listens(l))
		atomic_store(&l->deaf, true);
	take_posted(l);
	take_shaken(l);
	process_ready(l);
	turn_end(&l->turn);
	take_posted(l);
	feed_starved(l);
	sweep(l);
	gone_look(l);
	conn_reap(l);
}

/* What is under way is given up; requests with workers come back to loop_close(). */
static void shut_all(struct loop *l)
{
	struct conn *c, *next;
	int turns;

	if (!l->draining)
		start_drain(l);
	for (c = l->conns; c; c = next) {
		next = c->next;
		conn_shut(c);
	}
	for (turns = 0; l->conns && turns < 100; turns++) {
		take_shaken(l);
		conn_reap(l);
		l->engine->wait(l, now_ns() + 10000000);
	}
	conn_reap(l);
}

static void *loop_main(void *ctx)
{
	struct loop *l = ctx;

	region_thread_signals();
	node_enter((int)l->index % node_count());
	tick(l);
	l->next_sweep = l->now;
	while (!atomic_load(&l->stop))
		turn(l);
	shut_all(l);
	return NULL;
}

enum rlx_status loop_start(struct loop *l, struct rlx_error *err)
{
	int rc = pthread_create(&l->thread, NULL, loop_main, l);

	if (rc)
		return rlx_fail(err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
	pthread_setname_np(l->thread, "rlxd-loop");
	return RLX_OK;
}

void loop_wake(struct loop *l)
{
	uint64_t one = 1;

	if (atomic_exchange(&l->sleeping, false) &&
	    write(l->wake_fd, &one, sizeof(one)) < 0)
		log_event(LOG_ERROR, "cannot wake a loop", L_STR("error", strerror(errno)));
}

void loop_post(struct loop *l, struct req *r)
{
	struct req *head = atomic_load(&l->posted);

	do
		r->next = head;
	while (!atomic_compare_exchange_weak(&l->posted, &head, r));
	loop_wake(l);
}

void loop_post_shaken(struct conn *c)
{
	struct loop *l = c->loop;
	struct conn *head = atomic_load(&l->shaken);

	do
		c->shaken_next = head;
	while (!atomic_compare_exchange_weak(&l->shaken, &head, c));
	loop_wake(l);
}

bool loop_may_read(const struct loop *l, size_t bytes)
{
	int64_t begun = atomic_load_explicit(&l->beat, memory_order_relaxed);

	return bytes <= READ_ON_LOOP && now_ns() - begun < read_on_loop_ns;
}

void loop_drain(struct loop *l)
{
	atomic_store(&l->drain, true);
	loop_wake(l);
}

void loop_stop(struct loop *l)
{
	atomic_store(&l->stop, true);
	loop_wake(l);
}

void loop_join(struct loop *l)
{
	pthread_join(l->thread, NULL);
}

/* The thread is gone, and so are the workers: nobody else refers to anything here. */
void loop_close(struct loop *l)
{
	struct req *r;

	if (!l->server)
		return;
	accept_take(l);
	take_posted(l);
	take_shaken(l);
	conn_reap(l);
	turn_drop(&l->turn);
	while ((r = l->free_req)) {
		l->free_req = r->next;
		rlx_free(r);
	}
	if (l->state)
		l->engine->close(l);
	rlx_arena_put(l->arena);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	l->server = NULL;
}

struct req *req_new(struct loop *l)
{
	struct req *r = l->free_req;

	if (r) {
		l->free_req = r->next;
		l->n_free_req--;
	} else {
		r = rlx_malloc(sizeof(*r));
		if (!r)
			return NULL;
	}
	memset(r, 0, sizeof(*r));
	atomic_init(&r->job.failed, false);
	r->loop = l;
	r->body_chunk = -1;
	r->account.budget = &l->server->budget;
	r->reply.body.account = r->job.account = &r->account;
	return r;
}

void req_free(struct req *r)
{
	struct loop *l = r->loop;

	if (r->route && r->route->clean)
		r->route->clean(r);
	if (r->body_chunk >= 0)
		chunk_give(l, r->body_chunk);
	else
		rlx_free(r->body);
	rlx_json_fini(&r->json);
	obuf_fini(&r->reply.body);
	account_close(&r->account);
	server_put(r);
	if (l->n_free_req >= FREE_REQS) {
		rlx_free(r);
		return;
	}
	r->next = l->free_req;
	l->free_req = r;
	l->n_free_req++;
}
