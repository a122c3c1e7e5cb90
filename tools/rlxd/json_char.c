// SPDX-License-Identifier: MIT
/* Characters of JSON strings out of any bytes. */
#include "base/utf8.h"
#include "tools/rlxd/json_char.h"

/* All that are needed, one behind the other. */
#define ESCAPE(hi, lo)	"\\u00" #hi #lo
#define ESCAPES(hi) \
	ESCAPE(hi, 0) ESCAPE(hi, 1) ESCAPE(hi, 2) ESCAPE(hi, 3) ESCAPE(hi, 4) ESCAPE(hi, 5) \
	ESCAPE(hi, 6) ESCAPE(hi, 7) ESCAPE(hi, 8) ESCAPE(hi, 9) ESCAPE(hi, a) ESCAPE(hi, b) \
	ESCAPE(hi, c) ESCAPE(hi, d) ESCAPE(hi, e) ESCAPE(hi, f)

enum { ESCAPE_LEN = 6 };

struct json_char json_char(const char *s, size_t n)
{
	static const char escapes[] = ESCAPES(0) ESCAPES(1) ESCAPES(7) ESCAPES(8) ESCAPES(9);
	const uint8_t *u = (const uint8_t *)s;
	uint32_t cp = 0, row;
	size_t k = rlx_utf8_get(u, u + n, &cp);

	if (!k)
		return (struct json_char){ "\\ufffd", ESCAPE_LEN, 1 };
	if (cp == '"')
		return (struct json_char){ "\\\"", 2, 1 };
	if (cp == '\\')
		return (struct json_char){ "\\\\", 2, 1 };
	if (cp >= 0xa0 || (cp >= 0x20 && cp < 0x7f))
		return (struct json_char){ s, k, k };
	row = cp < 0x20 ? cp : cp - 0x70 + 0x20;
	return (struct json_char){ escapes + (size_t)ESCAPE_LEN * row, ESCAPE_LEN, k };
}
