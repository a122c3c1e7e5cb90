// SPDX-License-Identifier: MIT
/* The service and the clients of serve_test.h. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/serve_test.h"

#ifndef SERVE_TRANSPORT
#define SERVE_TRANSPORT	"shm"
#endif

const char *serve_transport(void)
{
	const char *t = getenv("RLX_TEST_TRANSPORT");

	return t && *t ? t : SERVE_TRANSPORT;
}

void serve_address(char *buf, size_t n)
{
	static unsigned int count;

	snprintf(buf, n, "@rlx-test-%d-%u", (int)getpid(), count++);
}

static int32_t do_copy(const struct rlx_work *w)
{
	if (w->nr_slices != 2 || w->slice[0].length != w->slice[1].length)
		return -EDOM;
	memmove(w->slice[1].ptr, w->slice[0].ptr, w->slice[0].length);
	return (int32_t)w->slice[0].length;
}

static uint64_t do_sum(const struct rlx_work *w)
{
	uint64_t sum = 0, i, k;

	for (i = 0; i < w->nr_slices; i++)
		for (k = 0; k < w->slice[i].length; k++)
			sum += ((const uint8_t *)w->slice[i].ptr)[k];
	return sum;
}

static int32_t do_wanted(const struct rlx_work *w)
{
	int i;

	for (i = 0; i < 2000; i++) {
		if (rlx_work_cancelled(w))
			return 1;
		usleep(1000);
	}
	return 0;
}

/* True if it is to be committed now. */
static bool serve_one(struct server *s, struct rlx_work *w)
{
	uint32_t i, us;

	if (atomic_load(&s->tame)) {
		w->aux = do_sum(w);
		return true;
	}
	switch (w->opcode) {
	case OP_NOP:
		w->aux = w->user_data;
		break;
	case OP_ADD:
		for (i = 0; i < w->inline_len; i++)
			w->result += w->inline_data[i];
		break;
	case OP_COPY:
		w->result = do_copy(w);
		break;
	case OP_SUM:
		w->aux = do_sum(w);
		break;
	case OP_HOLD:
		pthread_mutex_lock(&s->lock);
		s->held[s->nr_held++ % SERVER_HELD] = w;
		pthread_mutex_unlock(&s->lock);
		return false;
	case OP_DIE:
		kill(getpid(), SIGKILL);
		break;
	case OP_SLEEP:
		memcpy(&us, w->inline_data, sizeof(us));
		usleep(us);
		break;
	case OP_WANTED:
		w->result = do_wanted(w);
		break;
	default:
		w->result = -ENOSYS;
	}
	return true;
}

/* Events come in an order that makes sense; priv carries the peer's phase. */
static void note_event(struct server *s, struct rlx_work *w)
{
	uintptr_t phase = (uintptr_t)w->peer->priv;
	bool bad;

	if (w->kind == RLX_WORK_OPEN)
		bad = phase != 0;
	else
		bad = phase != 1;
	if (w->kind == RLX_WORK_ATTACH || w->kind == RLX_WORK_DETACH)
		bad |= w->nr_slices != 1 || !w->slice[0].ptr;
	w->peer->priv = (void *)(uintptr_t)(w->kind == RLX_WORK_GONE ? 2 : 1);
	pthread_mutex_lock(&s->lock);
	s->events[w->kind]++;
	s->order_errors += bad;
	pthread_mutex_unlock(&s->lock);
}

struct job {
	struct server	*s;
	unsigned int	 queue;
};

static void *serve(void *arg)
{
	struct job *job = arg;
	struct server *s = job->s;
	struct rlx_work *w[32];
	unsigned int queue = job->queue, done;
	int i, n;

	free(job);
	while ((n = rlx_service_fetch(s->svc, queue, w, 1, 32,
				      RLX_NO_DEADLINE)) >= 0) {
		for (i = 0, done = 0; i < n; i++) {
			if (w[i]->kind != RLX_WORK_REQUEST)
				note_event(s, w[i]);
			else if (!serve_one(s, w[i]))
				continue;
			w[done++] = w[i];
		}
		CHECK_EQ(rlx_service_commit(s->svc, w, done), 0);
	}
	CHECK_EQ(n, RLX_EPIPE);
	return NULL;
}

void server_start(struct server *s, struct rlx_service_opts o,
		  unsigned int threads)
{
	struct rlx_error err = { 0 };
	unsigned int i;

	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	if (o.address)
		snprintf(s->address, sizeof(s->address), "%s", o.address);
	else
		serve_address(s->address, sizeof(s->address));
	o.size = sizeof(o);
	o.address = s->address;
	o.transport = serve_transport();
	s->queues = o.queues ? o.queues : 1;
	CHECKF(!rlx_service_new(&o, &s->svc, &err), "%s", err.text);
	s->threads = threads;
	for (i = 0; i < threads; i++) {
		struct job *job = malloc(sizeof(*job));

		*job = (struct job){ s, i % s->queues };
		CHECK(!pthread_create(&s->thread[i], NULL, serve, job));
	}
}

unsigned int server_held(struct server *s)
{
	unsigned int n;

	pthread_mutex_lock(&s->lock);
	n = s->nr_held;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void server_release(struct server *s)
{
	unsigned int i;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < s->nr_held; i++)
		s->held[i]->result = (int32_t)i + 1;
	CHECK_EQ(rlx_service_commit(s->svc, s->held, s->nr_held), 0);
	s->nr_held = 0;
	pthread_mutex_unlock(&s->lock);
}

void server_stop(struct server *s)
{
	unsigned int i;

	rlx_service_stop(s->svc);
	for (i = 0; i < s->threads; i++)
		pthread_join(s->thread[i], NULL);
	rlx_service_free(s->svc);
	pthread_mutex_destroy(&s->lock);
	s->svc = NULL;
}

void server_drained(struct server *s)
{
	struct rlx_service_stats st;
	int i;

	for (i = 0; i < 5000; i++) {
		rlx_service_stats(s->svc, &st);
		if (!st.clients)
			break;
		usleep(1000);
	}
	CHECKF(!st.clients, "%llu clients are still there",
	       (unsigned long long)st.clients);
	CHECK_EQ(st.under_way, 0);
	CHECK_EQ(st.arenas, 0);
	CHECK_EQ(st.arena_bytes, 0);
	CHECK_EQ(st.bytes_copied, 0);
}

pid_t server_fork(const char *address, struct rlx_service_opts o,
		  unsigned int threads)
{
	struct server s;
	int up[2];
	char c;
	pid_t pid;

	CHECK(!pipe(up));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(up[0]);
		alarm(60);
		o.address = address;
		server_start(&s, o, threads);
		CHECK_EQ(write(up[1], "", 1), 1);
		for (;;)
			pause();
	}
	close(up[1]);
	CHECKF(read(up[0], &c, 1) == 1, "the server did not start");
	close(up[0]);
	return pid;
}

struct rlx_channel *client_open(const char *address, struct rlx_channel_opts o)
{
	struct rlx_error err = { 0 };
	struct rlx_channel *ch;

	o.size = sizeof(o);
	o.address = address;
	o.transport = serve_transport();
	if (!o.timeout_ns)
		o.timeout_ns = 60000000000ull;
	CHECKF(!rlx_channel_open(&o, &ch, &err), "%s", err.text);
	return ch;
}

struct rlx_arena *client_arena(uint64_t bytes)
{
	bool kmod = !strcmp(serve_transport(), "kmod");
	struct rlx_arena_opts o = { .size = bytes, .pages = RLX_PAGES_SMALL,
				    .provider = kmod ? "kmod" : "memfd",
				    .flags = kmod ? 0 : RLX_ARENA_NOLOCK };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	return a;
}

uint32_t client_attach(struct rlx_channel *ch, struct rlx_arena *a,
		       uint32_t access)
{
	struct rlx_error err = { 0 };
	uint32_t handle = 0;

	CHECKF(!rlx_channel_attach(ch, a, access, &handle, &err), "%s",
	       err.text);
	CHECK(handle);
	return handle;
}

struct rlx_reply client_call(struct rlx_channel *ch, struct rlx_request r)
{
	struct rlx_reply reply;
	enum rlx_status st = rlx_channel_call(ch, &r, &reply, SOON);

	CHECKF(!st, "%s: %s", rlx_status_name(st),
	       rlx_channel_error(ch)->text);
	CHECK_EQ(reply.user_data, r.user_data);
	return reply;
}
