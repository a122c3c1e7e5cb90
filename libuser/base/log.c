// SPDX-License-Identifier: MIT
/* The sink for lines, and the reading of RLX_DEBUG. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { LINE = 1000 };

static const char *const names[] = {
	"pass", "print", "roundtrip", "plan", "dispatch", "run", "mem", "io",
};

enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned int flags;

/* Guards the pair, so that no line meets one sink's function and the other's
 * context. Not held while the function runs: it may take long. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink)(void *, enum rlx_log_level, const char *);
static void *sink_ctx;

void rlx_log_set(void (*fn)(void *ctx, enum rlx_log_level level,
			    const char *line), void *ctx)
{
	pthread_mutex_lock(&lock);
	sink = fn;
	sink_ctx = ctx;
	pthread_mutex_unlock(&lock);
}

void rlx_log(enum rlx_log_level level, const char *fmt, ...)
{
	void (*fn)(void *, enum rlx_log_level, const char *);
	char line[LINE + 8];
	int at, n;
	va_list ap;
	void *ctx;

	at = snprintf(line, sizeof(line), "rlx: ");
	va_start(ap, fmt);
	n = vsnprintf(line + at, LINE - (size_t)at, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	pthread_mutex_lock(&lock);
	fn = sink;
	ctx = sink_ctx;
	pthread_mutex_unlock(&lock);
	if (fn) {
		fn(ctx, level, line + at);
		return;
	}
	/* One write, so that lines of several threads do not mix. */
	at = (int)strlen(line);
	line[at++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)at) < 0)
		return;		/* nowhere to tell it */
}

static void parse_word(const char *s, size_t n)
{
	unsigned int i;

	if (n == 3 && !memcmp(s, "all", 3)) {
		flags = (1u << N_NAMES) - 1;
		return;
	}
	for (i = 0; i < N_NAMES; i++) {
		if (strlen(names[i]) == n && !memcmp(s, names[i], n)) {
			flags |= 1u << i;
			return;
		}
	}
	rlx_log(RLX_LOG_WARN, "RLX_DEBUG: \"%.*s\" is unknown; known are all "
		"pass print roundtrip plan dispatch run mem io",
		(int)(n < 64 ? n : 64), s);
}

static void parse(void)
{
	const char *s = getenv("RLX_DEBUG");

	while (s && *s) {
		size_t n = strcspn(s, ",");

		if (n)
			parse_word(s, n);
		s += n + (s[n] == ',');
	}
}

bool rlx_debug_on(enum rlx_debug flag)
{
	pthread_once(&once, parse);
	return flags & (unsigned int)flag;
}
