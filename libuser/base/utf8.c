// SPDX-License-Identifier: MIT
/* UTF-8 to code points and back. */
#include "base/utf8.h"

unsigned int rlx_utf8_get_slow(const uint8_t *p, const uint8_t *end,
			       uint32_t *out_cp)
{
	size_t n = (size_t)(end - p);
	uint32_t c;

	if (p[0] < 0x80) {
		*out_cp = p[0];
		return 1;
	}
	if (p[0] < 0xc2 || n < 2 || (p[1] & 0xc0) != 0x80)
		return 0;
	if (p[0] < 0xe0) {
		*out_cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
		return 2;
	}
	if (n < 3 || (p[2] & 0xc0) != 0x80)
		return 0;
	if (p[0] < 0xf0) {
		c = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
		if (c < 0x800 || (c >= 0xd800 && c < 0xe000))
			return 0;
		*out_cp = c;
		return 3;
	}
	if (p[0] > 0xf4 || n < 4 || (p[3] & 0xc0) != 0x80)
		return 0;
	rlx_utf8_next(p, &c);
	if (c < 0x10000 || c > 0x10ffff)
		return 0;
	*out_cp = c;
	return 4;
}

unsigned int rlx_utf8_put(uint8_t *p, uint32_t cp)
{
	if (cp < 0x80) {
		p[0] = (uint8_t)cp;
		return 1;
	}
	if (cp < 0x800) {
		p[0] = (uint8_t)(0xc0 | cp >> 6);
		p[1] = (uint8_t)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		p[0] = (uint8_t)(0xe0 | cp >> 12);
		p[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
		p[2] = (uint8_t)(0x80 | (cp & 0x3f));
		return 3;
	}
	p[0] = (uint8_t)(0xf0 | cp >> 18);
	p[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
	p[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
	p[3] = (uint8_t)(0x80 | (cp & 0x3f));
	return 4;
}

size_t rlx_utf8_check(const uint8_t *p, size_t n)
{
	const uint8_t *q = p, *end;
	unsigned int k;
	uint64_t word;
	uint32_t cp;

	if (!n)		/* @p may be NULL */
		return 0;
	end = p + n;
	while (q < end) {
		if (end - q >= 8) {
			__builtin_memcpy(&word, q, 8);
			if (!(word & 0x8080808080808080u)) {
				q += 8;
				continue;
			}
		}
		k = rlx_utf8_get(q, end, &cp);
		if (!k)
			break;
		q += k;
	}
	return (size_t)(q - p);
}
