/* SPDX-License-Identifier: MIT */
/* Structured log lines: an event and fields, as key=value text or as JSON. */
#ifndef RLXD_LOG_H
#define RLXD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are syslog's, which the journal reads from "<N>" at the start. */
enum log_level {
	LOG_ERROR	= 3,
	LOG_WARN	= 4,
	LOG_NOTE	= 5,
	LOG_INFO	= 6,
	LOG_DEBUG	= 7,
};

struct log_field {
	const char	*key;
	const char	*str;	/* NULL: the number */
	int64_t		 num;
};

#define L_STR(k, v)	{ (k), (v) ? (v) : "", 0 }
#define L_INT(k, v)	{ (k), NULL, (int64_t)(v) }

/*
 * log_event(LOG_NOTE, "model loaded", L_STR("model", name), L_INT("ms", ms));
 * One line; any thread; no heap; does not wait for who reads the log. What does not fit
 * is cut and marked.
 */
#define log_event(level, event, ...) \
	log_write((level), (event),					\
		  (const struct log_field[]){ { NULL, NULL, 0 }, ##__VA_ARGS__ }, \
		  sizeof((const struct log_field[]){ { NULL, NULL, 0 }, ##__VA_ARGS__ }) / \
		  sizeof(struct log_field))

void log_write(enum log_level level, const char *event,
	       const struct log_field *field, size_t n);

/* Lines above @most are left out. */
void log_setup(enum log_level most, bool json);

/*
 * From here on a thread writes the lines. A reader that stalls holds up nobody else: what
 * its pipe and 256 KiB do not hold is left out, and counted in a line once it reads on.
 */
void log_start(void);
/* Write what is left, for up to two seconds; the last call of all. */
void log_stop(void);

/*
 * For lines that a peer can cause: at most 20 a second, then one that counts the
 * others. False: leave it out.
 */
bool log_allow(void);

#endif
