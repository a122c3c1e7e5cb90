// SPDX-License-Identifier: MIT
/* Characters of JSON strings out of any bytes. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/rlxd/json_char.h"

struct json_char json_char(const char *s, size_t n)
{
	const uint8_t *u = (const uint8_t *)s;
	uint32_t cp = 0xfffd;
	size_t k = rlx_utf8_get(u, u + n, &cp);
	struct json_char c = { .used = k ? k : 1 };

	if (cp == '"' || cp == '\\') {
		c.p[c.n++] = '\\';
		c.p[c.n++] = (char)cp;
	} else if (!k || cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) {
		c.n = (size_t)snprintf(c.p, sizeof(c.p), "\\u%04x", k ? cp : 0xfffd);
	} else {
		memcpy(c.p, s, k);
		c.n = k;
	}
	return c;
}
