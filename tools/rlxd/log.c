// SPDX-License-Identifier: MIT
/* Log lines put together on the stack; a thread of its own writes them. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rlx/log.h"
#include "tools/rlxd/json_char.h"
#include "tools/rlxd/log.h"

enum { LINE = 2048, BURST = 20, PIPE_BYTES = 256 << 10, FLUSH_SECONDS = 2 };

struct line {
	char	buf[LINE];
	size_t	n;
	bool	cut;
};

static atomic_int most = LOG_INFO;
static atomic_bool as_json;

/*
 * What the writer has not written yet. Whoever reads our log may stall, and a write to
 * a full pipe waits for that: only the writer does.
 */
static struct {
	/* Guards all that follows; buf[at .. at + n), modulo its size, is read without. */
	pthread_mutex_t	lock;
	pthread_cond_t	more, drained;
	pthread_t	thread;
	bool		started, stop;
	size_t		at, n;
	uint64_t	dropped;
	char		buf[PIPE_BYTES];
} queue = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.more = PTHREAD_COND_INITIALIZER,
	.drained = PTHREAD_COND_INITIALIZER,
};

static void put(struct line *l, const char *s, size_t n)
{
	if (n > LINE - 16 - l->n) {
		l->cut = true;
		return;
	}
	memcpy(l->buf + l->n, s, n);
	l->n += n;
}

static void put_str(struct line *l, const char *s)
{
	put(l, s, strlen(s));
}

/* Quoted with the escapes of JSON, in plain lines too; a character is cut whole. */
static void put_quoted(struct line *l, const char *s)
{
	size_t n = strlen(s);
	struct json_char c;

	put(l, "\"", 1);
	for (; n && !l->cut; s += c.used, n -= c.used) {
		c = json_char(s, n);
		put(l, c.p, c.n);
	}
	put(l, "\"", 1);
}

static bool is_word(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == '"' || *s == '=' || *s == '\\' ||
		    (unsigned char)*s >= 0x7f)
			return false;
	return true;
}

static void put_field(struct line *l, bool json, const char *key, const char *str,
		      int64_t num)
{
	char text[32];

	put_str(l, json ? ",\"" : " ");
	put_str(l, key);
	put_str(l, json ? "\":" : "=");
	if (!str)
		put(l, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)num));
	else if (!json && is_word(str))
		put_str(l, str);
	else
		put_quoted(l, str);
}

static const char *level_name(enum log_level level)
{
	switch (level) {
	case LOG_ERROR:	return "error";
	case LOG_WARN:	return "warning";
	case LOG_NOTE:	return "notice";
	case LOG_INFO:	return "info";
	case LOG_DEBUG:	return "debug";
	}
	return "?";
}

/* The journal has its own clock and takes the level from the start. */
static void put_start(struct line *l, bool json, enum log_level level)
{
	struct timespec ts;
	char text[64];
	struct tm tm;
	size_t n;

	if (getenv("JOURNAL_STREAM"))
		put(l, text, (size_t)snprintf(text, sizeof(text), "<%d>", level));
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof(text) - n, ".%06ldZ", ts.tv_nsec / 1000);
	put_str(l, json ? "{\"ts\":\"" : "ts=");
	put_str(l, text);
	put_str(l, json ? "\",\"level\":\"" : " level=");
	put_str(l, level_name(level));
	put_str(l, json ? "\",\"event\":" : " event=");
}

/* All of it, however long that takes. */
static void write_out(const char *p, size_t n)
{
	ssize_t k;

	while (n) {
		k = write(STDERR_FILENO, p, n);
		if (k < 0 && errno != EINTR && errno != EAGAIN)
			return;		/* nowhere to tell it */
		if (k < 0)
			continue;
		p += k;
		n -= (size_t)k;
	}
}

/* False: the writer lags so far behind that there is no room. */
static bool enqueue(const char *p, size_t n)
{
	size_t end = (queue.at + queue.n) % PIPE_BYTES;
	size_t first = n < PIPE_BYTES - end ? n : PIPE_BYTES - end;

	if (n > PIPE_BYTES - queue.n)
		return false;
	memcpy(queue.buf + end, p, first);
	memcpy(queue.buf, p + first, n - first);
	queue.n += n;
	pthread_cond_signal(&queue.more);
	return true;
}

static void emit(const struct line *l)
{
	bool direct;

	pthread_mutex_lock(&queue.lock);
	direct = !queue.started;
	if (!direct && !enqueue(l->buf, l->n))
		queue.dropped++;
	pthread_mutex_unlock(&queue.lock);
	if (direct)
		write_out(l->buf, l->n);
}

/* With the lock held, which is let go meanwhile. */
static void write_some(void)
{
	size_t n = queue.n < PIPE_BYTES - queue.at ? queue.n : PIPE_BYTES - queue.at;
	const char *p = queue.buf + queue.at;

	pthread_mutex_unlock(&queue.lock);
	write_out(p, n);
	pthread_mutex_lock(&queue.lock);
	queue.at = (queue.at + n) % PIPE_BYTES;
	queue.n -= n;
}

static void *writer_main(void *ctx)
{
	uint64_t dropped;

	pthread_mutex_lock(&queue.lock);
	for (;;) {
		while (queue.n)
			write_some();
		dropped = queue.dropped;
		queue.dropped = 0;
		if (dropped) {
			pthread_mutex_unlock(&queue.lock);
			log_event(LOG_WARN, "lines left out", L_INT("count", dropped),
				  L_STR("because", "the log was not read"));
			pthread_mutex_lock(&queue.lock);
			continue;
		}
		pthread_cond_broadcast(&queue.drained);
		if (queue.stop)
			break;
		pthread_cond_wait(&queue.more, &queue.lock);
	}
	pthread_mutex_unlock(&queue.lock);
	return ctx;
}

void log_start(void)
{
	sigset_t all, was;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	pthread_mutex_lock(&queue.lock);
	if (!queue.started && !pthread_create(&queue.thread, NULL, writer_main, NULL)) {
		pthread_setname_np(queue.thread, "rlxd-log");
		queue.started = true;
	}
	pthread_mutex_unlock(&queue.lock);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

void log_stop(void)
{
	struct timespec until;
	bool was, stuck;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FLUSH_SECONDS;
	pthread_mutex_lock(&queue.lock);
	was = queue.started;
	queue.stop = true;
	pthread_cond_signal(&queue.more);
	while (was && (queue.n || queue.dropped) &&
	       !pthread_cond_timedwait(&queue.drained, &queue.lock, &until))
		;
	stuck = queue.n || queue.dropped;
	pthread_mutex_unlock(&queue.lock);
	/* One that is stuck in a write ends with the process. */
	if (was && !stuck)
		pthread_join(queue.thread, NULL);
}

void log_write(enum log_level level, const char *event,
	       const struct log_field *field, size_t n)
{
	bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
	struct line l = { .n = 0 };
	size_t i;

	if ((int)level > atomic_load_explicit(&most, memory_order_relaxed))
		return;
	put_start(&l, json, level);
	if (json || !is_word(event))
		put_quoted(&l, event);
	else
		put_str(&l, event);
	for (i = 0; i < n; i++)
		if (field[i].key)
			put_field(&l, json, field[i].key, field[i].str, field[i].num);
	/* A cut line keeps its form: put() leaves room for this. */
	if (l.cut) {
		memcpy(l.buf + l.n, json ? "\"" : "", json);
		l.n += json;
		memcpy(l.buf + l.n, "...", 3);
		l.n += 3;
	}
	if (json)
		l.buf[l.n++] = '}';
	l.buf[l.n++] = '\n';
	emit(&l);
}

static void from_library(void *ctx, enum rlx_log_level level, const char *line)
{
	log_event(level == RLX_LOG_WARN ? LOG_WARN : LOG_DEBUG, "library",
		  L_STR("text", line));
}

void log_setup(enum log_level most_level, bool json)
{
	atomic_store(&most, most_level);
	atomic_store(&as_json, json);
	rlx_log_set(from_library, NULL);
}

bool log_allow(void)
{
	static _Atomic(int64_t) second;
	static atomic_int count;
	struct timespec ts;
	int64_t was = atomic_load(&second);
	int n;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	if (was != ts.tv_sec && atomic_compare_exchange_strong(&second, &was, ts.tv_sec)) {
		n = atomic_exchange(&count, 0);
		if (n > BURST)
			log_event(LOG_WARN, "lines left out", L_INT("count", n - BURST));
	}
	return atomic_fetch_add(&count, 1) < BURST;
}
