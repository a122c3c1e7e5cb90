// SPDX-License-Identifier: MIT
/*
 * A stream in front of a terminal. Names in models, plans and data sets, and names of files, are
 * anybody's; a terminal takes bytes of them for orders: what it shows, and what it types.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "rlx/log.h"
#include "tools/rlx/terminal.h"

/* @left: bytes of the character that has begun; @held: it began with 0xc2, not written yet */
struct screen {
	int		fd;
	unsigned int	left;
	int		held;
};

enum { ROOM = 4096, MOST = 6 };		/* of a byte: a held one, and \x1b or so */

static int write_all(int fd, const char *p, size_t n)
{
	ssize_t did;

	for (; n; p += did, n -= (size_t)did) {
		did = write(fd, p, n);
		if (did < 0 && errno != EINTR)
			return -1;
		did = did < 0 ? 0 : did;
	}
	return 0;
}

static unsigned int behind(unsigned char c)
{
	return c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : 0;
}

/*
 * Controls are below 32, 127, and U+0080 to U+009f: in UTF-8 0xc2 and a byte, else that byte alone,
 * which some take for one where no character has begun.
 */
static size_t show(struct screen *s, unsigned char c, char *to)
{
	const int held = s->held;
	size_t n = 0;

	s->held = 0;
	if (s->left && (c & 0xc0) == 0x80) {
		s->left--;
		if (held && c < 0xa0)
			return (size_t)sprintf(to, "\\x%02x", c);
		if (held)
			to[n++] = (char)0xc2;
		to[n++] = (char)c;
		return n;
	}
	if (held)
		to[n++] = (char)0xc2;
	s->left = behind(c);
	s->held = c == 0xc2;
	if (s->held)
		return n;
	if ((c < 32 && c != '\n' && c != '\t') || c == 127 || (c >= 0x80 && c < 0xa0))
		return n + (size_t)sprintf(to + n, "\\x%02x", c);
	to[n++] = (char)c;
	return n;
}

static ssize_t put(void *cookie, const char *p, size_t n)
{
	struct screen *s = cookie;
	char out[ROOM];
	size_t at = 0, i;

	for (i = 0; i < n; i++) {
		at += show(s, (unsigned char)p[i], out + at);
		if (at <= ROOM - MOST - 1 && i + 1 < n)
			continue;
		if (write_all(s->fd, out, at))
			return 0;	/* which is a failure */
		at = 0;
	}
	return (ssize_t)n;
}

static FILE *guarded(FILE *f, struct screen *s, int how)
{
	static const cookie_io_functions_t fn = { .write = put };
	FILE *g = isatty(s->fd) ? fopencookie(s, "w", fn) : NULL;

	if (g)
		setvbuf(g, NULL, how, 0);
	return g ? g : f;
}

static void put_line(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)ctx;
	(void)level;
	fprintf(stderr, "rlx: %s\n", line);
}

void terminal_guard(void)
{
	static struct screen out = { .fd = STDOUT_FILENO }, err = { .fd = STDERR_FILENO };
	FILE *plain = stderr;

	stdout = guarded(stdout, &out, _IOLBF);
	stderr = guarded(stderr, &err, _IONBF);
	if (stderr != plain)
		rlx_log_set(put_line, NULL);
}

void terminal_put(FILE *f, const char *sequence)
{
	if (!fflush(f))
		write_all(f == stdout ? STDOUT_FILENO : STDERR_FILENO, sequence, strlen(sequence));
}
