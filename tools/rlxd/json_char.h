/* SPDX-License-Identifier: MIT */
/* How text of anybody's is written between quotes, in replies as in the log. */
#ifndef RLXD_JSON_CHAR_H
#define RLXD_JSON_CHAR_H

#include <stddef.h>

struct json_char {
	char	p[8];
	size_t	n;		/* of p, what stands for it */
	size_t	used;		/* bytes of the text */
};

/*
 * The first character of @n bytes at @s, of which there is one at least. Quotes, backslashes
 * and controls, C1 (U+0080 to U+009F) among them, are escaped as in JSON; a byte that is not
 * UTF-8 becomes U+FFFD, escaped.
 */
struct json_char json_char(const char *s, size_t n);

#endif
